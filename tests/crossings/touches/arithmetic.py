"""Touches: operators, elementwise functions and comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import drjit as dr

from ..model import Array, Operands, Typed
from .rows import ALL, NUMBERS, PLAIN, UNORDERED, Act, lane_wise, mask, same, touch

# --- arithmetic ------------------------------------------------------------------------------------------------------

touch("add-number", lambda a, o: a + 2, lambda m, o: same(o, m + o.number(2)))
touch("number-minus", lambda a, o: 9 - a, lambda m, o: same(o, o.number(9) - m))
touch("add-wide", lambda a, o: a + o.wide(), lambda m, o: same(o, m + lane_wise(o, o.wide_value)))
touch("wide-times", lambda a, o: o.wide() * a, lambda m, o: same(o, m * o.spread(o.wide_value)))
touch("add-one-element", lambda a, o: a + o.leaf(2), lambda m, o: same(o, m + o.number(2)))
touch("add-itself", lambda a, o: a + a, lambda m, o: same(o, m + m))
touch("times-itself", lambda a, o: a * a, lambda m, o: same(o, o.product(m, m)))
touch("add-double", lambda a, o: a + o.double(),
      lambda m, o: Typed(dr.float64_array_t(o.type), m.astype("f8") + _double(o)))
touch("add-numpy", lambda a, o: a + o.host(), lambda m, o: same(o, m + o.host()), f"{ALL.replace('C', '')}:lanes",
      why="masks are no numbers; complex numbers have complex NumPy operands, see add-numpy-complex")
touch("numpy-minus", lambda a, o: (o.host() + o.dtype.type(9)) - a,
      lambda m, o: same(o, o.host() + o.dtype.type(9) - m), f"{ALL.replace('C', '')}:lanes",
      why="masks are no numbers; complex numbers have complex NumPy operands, see add-numpy-complex")
touch("add-numpy-complex", lambda a, o: a + (o.host()[0] + 1j * o.host()[1]).astype("c8"),
      lambda m, o: same(o, m + o.host()), "C:lanes", why="an operand of complex numbers")
touch("add-numpy-number", lambda a, o: a + o.dtype.type(2), lambda m, o: same(o, m + o.number(2)))
touch("add-list", lambda a, o: a + o.host().tolist(), lambda m, o: same(o, m + o.host()), "FNDVT:lanes",
      why="masks are no numbers; lists of complex numbers and matrices have parts of other kinds")
touch("subtract-list", lambda a, o: (o.host() + o.dtype.type(9)).tolist() - a,
      lambda m, o: same(o, o.host() + o.dtype.type(9) - m), "FNDVT:lanes",
      why="masks are no numbers; lists of complex numbers and matrices have parts of other kinds")
touch("square-function", lambda a, o: dr.square(a), lambda m, o: same(o, o.product(m, m)))
touch("negative", lambda a, o: -a, lambda m, o: same(o, -m))
touch("absolute", lambda a, o: abs(a), lambda m, o: same(o, np.abs(m)), f"{PLAIN}M:lanes",
      why="masks are no numbers; of complex numbers it is a length")
touch("square", lambda a, o: a ** 2, lambda m, o: same(o, m * m), f"{PLAIN}:lanes", why=UNORDERED + "; " + NUMBERS)
touch("floor-divide", lambda a, o: a // 2, lambda m, o: same(o, m // 2), f"{PLAIN}:lanes", "iu",
      "whole numbers only, not matrices")
touch("divide", lambda a, o: a / 2, lambda m, o: same(o, m / o.dtype.type(2)), letters="f", why="floating point only")
touch("fma", lambda a, o: dr.fma(a, 2, 1), lambda m, o: same(o, m * o.dtype.type(2) + o.dtype.type(1)),
      f"{PLAIN}:lanes", why=UNORDERED + "; " + NUMBERS)
touch("select", lambda a, o: dr.select(o.mask(), a, o.wide()),
      lambda m, o: same(o, np.where(o.spread(o.mask_value), m, lane_wise(o, o.wide_value))), letters="biuf", why="")
touch("maximum", lambda a, o: dr.maximum(a, 3), lambda m, o: same(o, np.maximum(m, o.dtype.type(3))), f"{PLAIN}:lanes",
      why=UNORDERED + "; " + NUMBERS)
touch("sqrt", lambda a, o: dr.sqrt(a), lambda m, o: same(o, np.sqrt(m)), f"{PLAIN}:lanes", "f",
      "floating point only; of complex numbers it has branches")
touch("shift", lambda a, o: a << 1, lambda m, o: same(o, m << o.dtype.type(1)), f"{PLAIN}:lanes", "iu", "integers only")
touch("invert", lambda a, o: ~a, lambda m, o: same(o, ~m), f"{PLAIN}:lanes", "biu", "masks and integers only")
touch("and-number", lambda a, o: a & o.scalar(1), lambda m, o: same(o, m & o.dtype.type(1)), f"{PLAIN}:lanes", "biu",
      "masks and integers only")
touch("xor-wide", lambda a, o: a ^ o.wide(), lambda m, o: same(o, m ^ o.spread(o.wide_value)), f"{PLAIN}:lanes", "biu",
      "masks and integers only")
touch("or-list", lambda a, o: a | o.host().tolist(), lambda m, o: same(o, m | o.host()), "FNVT:lanes", "b",
      "masks: numbers have lists as operands in add-list")
touch("list-or", lambda a, o: o.host().tolist() | a, lambda m, o: same(o, m | o.host()), "FNVT:lanes", "b",
      "masks: numbers have lists as operands in subtract-list")
touch("and-numpy", lambda a, o: a & o.host(), lambda m, o: same(o, m & o.host()), "FNVT:lanes", "b",
      "masks: numbers have NumPy arrays as operands in add-numpy")
touch("number-and-mask", lambda a, o: a & o.mask(), lambda m, o: same(o, m & -o.spread(o.mask_value).astype(o.dtype)),
      f"{PLAIN}:lanes", "iu", "integers, of which a mask lets all bits pass or none")
touch("function-of-numpy", lambda a, o: dr.minimum(o.host(), a), lambda m, o: same(o, np.minimum(o.host(), m)),
      f"{PLAIN}:lanes", why=UNORDERED + "; " + NUMBERS)


def _double(o: Operands) -> Any:
    wide = o.spread(o.wide_value).astype("f8")
    if o.kind in "CQM":
        unit = {"C": np.array([1, 0]), "Q": np.array([0, 0, 0, 1]), "M": np.eye(len(o.value))}[o.kind]
        return unit[..., None] * wide
    return wide


def _in_place(change: Callable[[Any, Operands], Any]) -> Act:
    def act(a: Any, o: Operands) -> None:
        change(a, o)
    return act


def _add(a: Any, o: Operands) -> None:
    a += 2


def _add_wide(a: Any, o: Operands) -> None:
    a += o.wide()


def _times_wide(a: Any, o: Operands) -> None:
    a *= o.wide()


def _and(a: Any, o: Operands) -> None:
    a &= o.mask()


touch("in-place-number", _add, lambda m, o: _change(m, m + o.number(2)), f"{ALL}:inplace")
touch("in-place-wide", _add_wide, lambda m, o: _change(m, m + lane_wise(o, o.wide_value)), f"{ALL}:inplace")
touch("in-place-times", _times_wide, lambda m, o: _change(m, m * o.spread(o.wide_value)), f"{ALL}:inplace")
touch("in-place-and", _and, lambda m, o: _change(m, m & o.spread(o.mask_value)), f"{PLAIN}:inplace", "b", "masks only")


def _change(model: Array, value: Array) -> None:
    model[...] = value


# --- comparison ------------------------------------------------------------------------------------------------------

touch("greater", lambda a, o: a > 2, lambda m, o: mask(o, m > 2), f"{PLAIN}:lanes", why=UNORDERED + "; " + NUMBERS)
touch("greater-special", lambda a, o: a > 2, lambda m, o: None, "CQM:lanes", why="refused of complex numbers and such")
touch("equal-number", lambda a, o: a == o.scalar(1), lambda m, o: mask(o, m == _equal_number(o)), letters="biuf",
      why="")
touch("equal-wide", lambda a, o: a == o.wide(), lambda m, o: mask(o, m == lane_wise(o, o.wide_value)), letters="biuf",
      why="")
touch("unequal-itself", lambda a, o: a != a, lambda m, o: mask(o, m != m), letters="biuf", why="")
touch("less-numpy", lambda a, o: a <= o.host(), lambda m, o: mask(o, m <= o.host()), f"{PLAIN}:lanes",
      why=UNORDERED + "; " + NUMBERS)


def _equal_number(o: Operands) -> Any:
    return o.number(o.dtype.type(1))
