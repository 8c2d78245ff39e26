"""Touches: what is done to an array, beside the same thing done to its model.

Many rows need one function only, since NumPy has the same syntax. The *room* of a touch says what it needs:

========= =============================================================================================
lanes     computes something for each lane; needs no memory
inplace   gives the array other values, lane by lane
gather    reads the array at positions that differ by lane: it must be in memory, active lanes matter
scatter   writes to such positions
read      reads elements from the host, or combines lanes
item      changes one element from the host
write     writes elements whose positions have nothing to do with lanes
========= =============================================================================================

It depends on the kind of the array: ``v[1]`` is a component of a nested array, an element of a flat one, and a part
of a tensor. Kinds (letters as in ``model.py``) that a row does not list have no such cell; ``TABLE`` says why.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import drjit as dr

from .model import Array, Host, Operands, Typed, text_of

__all__ = ["TOUCHES", "Touch"]

Act = Callable[[Any, Operands], Any]
Model = Callable[[Array, Operands], Any]

ALL, PLAIN = "FNDCQMVTS", "FNDVTS"
ARITHMETIC = "iuf"


class Touch(NamedTuple):
    """A row: what is done, its model, the room by kind of array, and what it is meant for.

    ``rooms`` lists kinds and their rooms (``"F:gather VT:read"``); ``letters`` the kinds of scalar types. ``why`` says
    why the other kinds and scalar types have no cell; ``holds`` that something still reads the array when it is
    written; ``masked`` that lanes that take no part must read zeros.
    """

    name: str
    act: Act
    model: Model
    rooms: str
    letters: str = "biuf"
    why: str = ""
    holds: bool = False
    masked: bool = False

    def room(self, kind: str) -> str:
        """The room for a kind of array; empty if there is none."""
        for entry in self.rooms.split():
            kinds, _, room = entry.partition(":")
            if kind in kinds:
                return room
        return ""


TOUCHES: list[Touch] = []
_UNORDERED = "complex numbers, quaternions and matrices have no such operation"
_NUMBERS = "masks are no numbers"


def touch(name: str, act: Act, model: Model | None = None, rooms: str = f"{ALL}:lanes", letters: str = ARITHMETIC,
          why: str = _NUMBERS, holds: bool = False, masked: bool = False) -> None:
    """Add a row; without a model, NumPy does the same."""
    TOUCHES.append(Touch(name, act, model or act, rooms, letters, why, holds, masked))


def same(o: Operands, value: Any) -> Typed:
    """A result of the array's own type."""
    return Typed(o.type, np.asarray(value).astype(o.dtype))


def mask(o: Operands, value: Any) -> Typed:
    """A mask for the array's type."""
    return Typed(dr.mask_t(o.type), np.asarray(value))


def _lane_wise(o: Operands, lanes: Array) -> Array:
    return o.number(o.spread(lanes))


# --- arithmetic ------------------------------------------------------------------------------------------------------

touch("add-number", lambda a, o: a + 2, lambda m, o: same(o, m + o.number(2)))
touch("number-minus", lambda a, o: 9 - a, lambda m, o: same(o, o.number(9) - m))
touch("add-wide", lambda a, o: a + o.wide(), lambda m, o: same(o, m + _lane_wise(o, o.wide_value)))
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
touch("square", lambda a, o: a ** 2, lambda m, o: same(o, m * m), f"{PLAIN}:lanes", why=_UNORDERED + "; " + _NUMBERS)
touch("floor-divide", lambda a, o: a // 2, lambda m, o: same(o, m // 2), f"{PLAIN}:lanes", "iu",
      "whole numbers only, not matrices")
touch("divide", lambda a, o: a / 2, lambda m, o: same(o, m / o.dtype.type(2)), letters="f", why="floating point only")
touch("fma", lambda a, o: dr.fma(a, 2, 1), lambda m, o: same(o, m * o.dtype.type(2) + o.dtype.type(1)),
      f"{PLAIN}:lanes", why=_UNORDERED + "; " + _NUMBERS)
touch("select", lambda a, o: dr.select(o.mask(), a, o.wide()),
      lambda m, o: same(o, np.where(o.spread(o.mask_value), m, _lane_wise(o, o.wide_value))), letters="biuf", why="")
touch("maximum", lambda a, o: dr.maximum(a, 3), lambda m, o: same(o, np.maximum(m, o.dtype.type(3))), f"{PLAIN}:lanes",
      why=_UNORDERED + "; " + _NUMBERS)
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
      f"{PLAIN}:lanes", why=_UNORDERED + "; " + _NUMBERS)


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
touch("in-place-wide", _add_wide, lambda m, o: _change(m, m + _lane_wise(o, o.wide_value)), f"{ALL}:inplace")
touch("in-place-times", _times_wide, lambda m, o: _change(m, m * o.spread(o.wide_value)), f"{ALL}:inplace")
touch("in-place-and", _and, lambda m, o: _change(m, m & o.spread(o.mask_value)), f"{PLAIN}:inplace", "b", "masks only")


def _change(model: Array, value: Array) -> None:
    model[...] = value


# --- comparison ------------------------------------------------------------------------------------------------------

touch("greater", lambda a, o: a > 2, lambda m, o: mask(o, m > 2), f"{PLAIN}:lanes", why=_UNORDERED + "; " + _NUMBERS)
touch("greater-special", lambda a, o: a > 2, lambda m, o: None, "CQM:lanes", why="refused of complex numbers and such")
touch("equal-number", lambda a, o: a == o.scalar(1), lambda m, o: mask(o, m == _equal_number(o)), letters="biuf",
      why="")
touch("equal-wide", lambda a, o: a == o.wide(), lambda m, o: mask(o, m == _lane_wise(o, o.wide_value)), letters="biuf",
      why="")
touch("unequal-itself", lambda a, o: a != a, lambda m, o: mask(o, m != m), letters="biuf", why="")
touch("less-numpy", lambda a, o: a <= o.host(), lambda m, o: mask(o, m <= o.host()), f"{PLAIN}:lanes",
      why=_UNORDERED + "; " + _NUMBERS)


def _equal_number(o: Operands) -> Any:
    return o.number(o.dtype.type(1))


# --- reading items ---------------------------------------------------------------------------------------------------

#: Reading items of flat arrays gives numbers, of nested ones components, of tensors tensors.
ITEMS = "F:read NDCQM:lanes VT:read"
_DIMENSION = "tensors without dimensions have no items"


def _item(value: Any, o: Operands) -> Any:
    return Host(value.item()) if o.kind == "F" else value


def _index(o: Operands, wanted: int = 1) -> int:
    """A position along the first axis that exists if any does."""
    return min(wanted, max(len(o.value) - 1, 0))


touch("item", lambda a, o: a[_index(o)], lambda m, o: _item(m[_index(o)], o), ITEMS, "biuf", _DIMENSION)
touch("item-last", lambda a, o: a[-1], lambda m, o: _item(m[-1], o), ITEMS, "biuf", _DIMENSION)
touch("item-numpy", lambda a, o: a[np.int64(0)], lambda m, o: _item(m[0], o), ITEMS, "biuf", _DIMENSION)
touch("item-beyond", lambda a, o: a[99], None, ITEMS, "biuf", _DIMENSION)
touch("element", lambda a, o: a[0, -1], lambda m, o: m[0, -1] if o.kind in "TM D" else Host(m[0, -1].item()),
      "N:read T:read DM:lanes", "biuf", "two indices need two dimensions")
touch("element-deep", lambda a, o: a[0, 1, -1], lambda m, o: Host(m[0, 1, -1].item()), "DM:read", "biuf",
      "three indices need three dimensions")
touch("slice", lambda a, o: a[1:3], lambda m, o: m[1:3], "F:read NDQM:lanes VT:read", "biuf",
      "fewer components, or no dimensions")
touch("slice-all", lambda a, o: a[:], lambda m, o: same(o, m), f"{ALL.replace('S', '')}:lanes", "biuf", _DIMENSION)
touch("slice-reversed", lambda a, o: a[::-1], lambda m, o: m[::-1], "FVT:gather NDQM:lanes", "biuf", _DIMENSION)
touch("slice-step", lambda a, o: a[::2], lambda m, o: m[::2], "F:read NDQM:lanes VT:read", "biuf", _DIMENSION)
touch("slice-nothing", lambda a, o: a[2:2], lambda m, o: m[2:2], "FVT:read", "biuf",
      "components that are not there have no scalar type")
touch("slice-axes", lambda a, o: a[:, 1:], lambda m, o: m[:, 1:], "T:read", "biuf", "two slices need two dimensions")
touch("slice-none", lambda a, o: a[None], lambda m, o: m[None], "FVTS:lanes", "biuf",
      "axes are added to flat arrays and tensors")
touch("slice-column", lambda a, o: a[:, None], lambda m, o: m[:, None], "FV:lanes", "biuf",
      "axes are added to flat arrays and tensors")
touch("slice-ellipsis", lambda a, o: a[...], lambda m, o: m, "VTS:lanes", "biuf",
      "an ellipsis stands for axes of tensors")
touch("key", lambda a, o: a[o.key()], lambda m, o: same(o, o.read(m)), "FV:gather", "biuf",
      "nested arrays take masks as keys; rows of tensors: see key-rows", masked=True)
touch("key-signed", lambda a, o: a[o.package.Int(o.key())], lambda m, o: same(o, o.read(m)), "FV:gather",
      "biuf", "nested arrays take masks as keys; rows of tensors: see key-rows", masked=True)
touch("key-rows", lambda a, o: a[o.index(*_rows(o))], lambda m, o: m[_rows(o)], "T:read", "biuf", "rows are of tensors")
touch("key-numpy", lambda a, o: a[np.array(_rows(o))], lambda m, o: m[_rows(o)], "FVT:read", "biuf",
      "nested arrays take masks as keys")
touch("key-nested", lambda a, o: a[o.key()], None, "NDCQM:lanes", "biuf", "refused of nested arrays")
touch("mask-key", lambda a, o: a[o.mask()], lambda m, o: same(o, m), "FNDCQMVT:lanes", "biuf", _DIMENSION)
touch("component", lambda a, o: _first(a, o), lambda m, o: m[0, 0] if o.kind == "M" else m[0], "NCQM:lanes", "biuf",
      "components are of nested arrays")


def _rows(o: Operands) -> list[int]:
    """Some rows of a tensor, or two elements."""
    return [0] if len(o.value) == 1 else [1] if o.kind == "T" else [1, 0]


def _first(a: Any, o: Operands) -> Any:
    return a[0, 0] if o.kind == "M" else a.real if o.kind == "C" else a.x if o.type.__name__[5:6] != "X" else a[0]


# --- writing items ---------------------------------------------------------------------------------------------------

WRITES = "F:item NDCQM:inplace VT:write"


def five(o: Operands) -> Any:
    """A number (for masks: ``True``) of the array's scalar type."""
    return o.scalar(5)


def _some(o: Operands) -> slice:
    """Some, but not all, of the elements or rows."""
    return slice(0, 1 if o.kind == "T" else 2)


def _set(a: Any, key: Any, value: Any) -> None:
    a[key] = value


def _increase(a: Any, key: Any, value: Any) -> None:
    a[key] += value


touch("set-item", lambda a, o: _set(a, _index(o), five(o)), lambda m, o: _set(m, _index(o), five(o)), WRITES, "biuf",
      _DIMENSION)
touch("set-item-last", lambda a, o: _set(a, -1, five(o)), lambda m, o: _set(m, -1, five(o)), WRITES, "biuf",
      _DIMENSION)
touch("set-item-beyond", lambda a, o: _set(a, 99, five(o)), None, WRITES, "biuf", _DIMENSION)
touch("set-item-text", lambda a, o: _set(a, 0, "text"), None, WRITES, "biuf", _DIMENSION)
touch("increase-item", lambda a, o: _increase(a, _index(o), 2), lambda m, o: _increase(m, _index(o), o.dtype.type(2)),
      WRITES, ARITHMETIC, f"{_NUMBERS}; {_DIMENSION}", holds=True)
touch("set-component-wide", lambda a, o: _set(a, 0, o.wide()), lambda m, o: _set(m, 0, o.wide_value), "NCQ:inplace",
      "biuf", "components are of nested arrays")
touch("set-row-wide", lambda a, o: _set(a, 0, o.wide()[0]), lambda m, o: _set(m, 0, o.wide_value[0]), "T:write",
      "biuf", "rows are of tensors")
touch("set-element", lambda a, o: _set(a, (0, -1), five(o)), lambda m, o: _set(m, (0, -1), five(o)),
      "N:item T:write DM:inplace", "biuf", "two indices need two dimensions")
touch("set-slice", lambda a, o: _set(a, slice(1, 3), five(o)), lambda m, o: _set(m, slice(1, 3), five(o)),
      "F:write NDQM:inplace VT:write", "biuf", _DIMENSION)
touch("set-slice-wide", lambda a, o: _set(a, _some(o), o.wide()[_some(o)]), lambda m,
      o: _set(m, _some(o), o.wide_value[_some(o)]),
      "FVT:write", "biuf", "components have items of their own")
touch("set-slice-list", lambda a, o: _set(a, slice(0, 1), o.host()[0:1].tolist()),
      lambda m, o: _set(m, slice(0, 1), o.host()[0:1]), "FV:write", "biuf", "components have items of their own")
touch("set-slice-numpy", lambda a, o: _set(a, _some(o), o.host()[_some(o)]), lambda m,
      o: _set(m, _some(o), o.host()[_some(o)]),
      "FVT:write", "biuf", "components have items of their own")
touch("set-slice-shifted", lambda a, o: _set(a, slice(1, None), a[:-1]), lambda m,
      o: _set(m, slice(1, None), m[:-1].copy()),
      "FVT:write", "biuf", "components have items of their own", holds=True)
touch("set-slice-all", lambda a, o: _set(a, slice(None), five(o)), lambda m, o: _set(m, slice(None), five(o)),
      "FNDQMVT:inplace", "biuf", _DIMENSION)
touch("set-slice-reversed", lambda a, o: _set(a, slice(None, None, -1), o.wide()),
      lambda m, o: o.put(m, np.arange(len(m))[::-1], o.wide_value), "FV:scatter", "biuf",
      "components have items of their own")
touch("set-slice-mismatch", lambda a, o: _set(a, slice(0, 1), o.leaf([o.scalar(1)] * 5)), None, "FVT:write", "biuf",
      "components have items of their own")
touch("set-key", lambda a, o: _set(a, o.key(), five(o)), lambda m, o: o.put(m, o.key_value, five(o)), "FV:scatter",
      "biuf", "nested arrays take masks as keys")
touch("set-key-wide", lambda a, o: _set(a, o.key(), o.wide()), lambda m, o: o.put(m, o.key_value, o.wide_value),
      "FV:scatter", "biuf", "nested arrays take masks as keys")
touch("increase-key", lambda a, o: _increase(a, o.key(), 2), lambda m,
      o: o.put(m, o.key_value, m[o.key_value] + o.dtype.type(2)),
      "FV:scatter", ARITHMETIC, "nested arrays take masks as keys; " + _NUMBERS, holds=True)
touch("set-key-numpy", lambda a, o: _set(a, np.array(_rows(o)), five(o)), lambda m, o: _set(m, _rows(o), five(o)),
      "FVT:write", "biuf", "nested arrays take masks as keys")
touch("increase-key-numpy", lambda a, o: _increase(a, np.array(_rows(o)), 2),
      lambda m, o: _increase(m, np.array(_rows(o)), o.dtype.type(2)), "FVT:write", ARITHMETIC,
      "nested arrays take masks as keys; " + _NUMBERS, holds=True)
touch("set-mask", lambda a, o: _set(a, o.mask(), five(o)), lambda m, o: _blend(m, five(o), o),
      "FNDCQMVT:inplace", "biuf", _DIMENSION)
touch("set-mask-wide", lambda a, o: _set(a, o.mask(), o.wide()), lambda m, o: _blend(m, o.wide_value, o),
      "FNDCQMVT:inplace", "biuf", _DIMENSION)
touch("increase-mask", lambda a, o: _increase(a, o.mask(), 2), lambda m, o: _blend(m, None, o),
      "FNDCQMVT:inplace", ARITHMETIC, f"{_DIMENSION}; {_NUMBERS}")
touch("set-mask-of-array", lambda a, o: _set(a, a > 2, 0), lambda m, o: _blend(m, 0, o, m > 2), "FNDVT:inplace",
      ARITHMETIC, f"{_NUMBERS}; {_UNORDERED}")
touch("set-component", lambda a, o: _name(a, o, five(o)), lambda m, o: _name(m, o, five(o)), "NCQM:inplace", "biuf",
      "components are of nested arrays")
touch("increase-component", lambda a, o: _name_increase(a, o), lambda m, o: _name_increase(m, o), "NCQM:inplace",
      ARITHMETIC, "components are of nested arrays of numbers")


def _blend(model: Array, value: Any, o: Operands, where: Array | None = None) -> None:
    """Write where a mask is set, in active lanes."""
    chosen = o.spread(o.mask_value & o.active.reshape(o.mask_value.shape) if where is None else where)
    if where is not None:
        chosen = where & o.spread(o.active)
    new = model + o.number(2) if value is None else o.number(value)
    model[...] = np.where(chosen, new, model)


def _name(a: Any, o: Operands, value: Any) -> None:
    if isinstance(a, np.ndarray) or o.type.__name__[5:6] == "X" or o.kind == "M":
        a[(0, 0) if o.kind == "M" else 0] = value
    elif o.kind == "C":
        a.real = value
    else:
        a.x = value


def _name_increase(a: Any, o: Operands) -> None:
    if isinstance(a, np.ndarray) or o.type.__name__[5:6] == "X" or o.kind == "M":
        a[(0, 0) if o.kind == "M" else 0] += o.scalar(2)
    elif o.kind == "C":
        a.real += 2
    else:
        a.x += 2


# --- gather and scatter ----------------------------------------------------------------------------------------------

_ACCESS = "FNDCQM"
_TENSORS = "tensors are read by slices; see gather-tensor"


def _value(o: Operands) -> Any:
    """What a scatter writes: a number for each lane, as an array of the target's type."""
    return o.wide() if o.kind == "F" else o.type(o.wide())


def _value_model(o: Operands) -> Any:
    return _lane_wise(o, o.wide_value)


touch("gather", lambda a, o: dr.gather(o.type, a, o.key()), lambda m, o: same(o, o.read(m)),
      f"{_ACCESS}:gather", "biuf", _TENSORS, masked=True)
touch("gather-masked", lambda a, o: dr.gather(o.type, a, o.key(), o.mask()),
      lambda m, o: same(o, o.read(m, o.mask_value)), f"{_ACCESS}:gather", "biuf", _TENSORS, masked=True)
touch("gather-tensor", lambda a, o: dr.gather(o.leaf, a, o.key()), None, "VTS:read", "biuf", "refused of tensors")
touch("gather-from-storage", lambda a, o: dr.gather(o.leaf, a.array, o.key()),
      lambda m, o: Typed(o.leaf, o.read(m)), "VTS:gather", "biuf", "tensors have a flat array behind them", masked=True)
touch("take", lambda a, o: dr.take(a, 0), lambda m, o: same(o, m[0]),
      "VT:read", "biuf", "of tensors")
touch("scatter", lambda a, o: dr.scatter(a, _value(o), o.key()), lambda m, o: o.put(m, o.key_value, _value_model(o)),
      f"{_ACCESS}:scatter", "biuf", _TENSORS)
touch("scatter-number", lambda a, o: dr.scatter(a, o.type(five(o)), o.key()), lambda m,
      o: o.put(m, o.key_value, o.number(five(o))),
      f"{_ACCESS}:scatter", "biuf", _TENSORS)
touch("scatter-masked", lambda a, o: dr.scatter(a, _value(o), o.key(), o.mask()),
      lambda m, o: o.put(m, o.key_value, _value_model(o), o.mask_value), f"{_ACCESS}:scatter", "biuf", _TENSORS)
touch("scatter-permuted", lambda a,
      o: dr.scatter(a, dr.gather(o.type, a, o.key()), o.index(o.key_value[::-1].tolist())),
      lambda m, o: o.put(m, o.key_value[::-1], m[..., o.key_value].copy()), f"{_ACCESS}:scatter", "biuf", _TENSORS,
      holds=True)
touch("scatter-add", lambda a, o: dr.scatter_add(a, _value(o), o.key()),
      lambda m, o: o.put(m, o.key_value, _value_model(o), combine=np.add.at), f"{_ACCESS}:scatter", ARITHMETIC,
      f"{_NUMBERS}; {_TENSORS}")
touch("scatter-add-one-place", lambda a, o: dr.scatter_add(a, _value(o), o.key() * 0),
      lambda m, o: o.put(m, o.key_value * 0, _value_model(o), combine=np.add.at), f"{_ACCESS}:scatter", ARITHMETIC,
      f"{_NUMBERS}; {_TENSORS}")
touch("scatter-max", lambda a, o: dr.scatter_reduce(dr.ReduceOp.Max, a, _value(o), o.key()),
      lambda m, o: o.put(m, o.key_value, _value_model(o), combine=np.maximum.at), "FND:scatter", ARITHMETIC,
      f"{_NUMBERS}; {_TENSORS}; {_UNORDERED}")
touch("scatter-storage", lambda a, o: dr.scatter(a.array, o.leaf(five(o)), o.index(0)),
      lambda m, o: _set(m.reshape(-1), 0, five(o)), "VTS:write", "biuf", "tensors have a flat array behind them")

# What several lanes write to one place is ordered by no one: packets are written by the lanes of ``mask``.


def _packet_type(o: Operands) -> Any:
    """The type of two components whose elements the array has."""
    return next(kind for name in dir(o.package) if name.startswith("Array2") and name[6] in "iufb"
                and dr.leaf_t(kind := getattr(o.package, name)) is o.leaf)


def _packet_value(o: Operands) -> Array:
    """Which packet of two elements each lane means."""
    return o.key_value % 2


def _packet_key(o: Operands) -> Any:
    return o.index(_packet_value(o).tolist())


def _packet(o: Operands) -> Any:
    """A packet for each lane: a number, and five."""
    return _packet_type(o)(o.wide(), five(o))


def _read_packets(m: Array, o: Operands) -> Typed:
    found = np.stack([m[_packet_value(o) * 2 + k] for k in range(2)])
    return Typed(_packet_type(o), np.where(o.active, found, o.dtype.type(0)))


def _put_packets(m: Array, o: Operands, where: Any = True, combine: Any = None) -> None:
    for k, values in enumerate((o.wide_value, five(o))):
        o.put(m, _packet_value(o) * 2 + k, values, where, combine)


def _exchanged(m: Array, o: Operands, values: Any, where: Any = True) -> Typed:
    """What was at the keys' positions before they are written."""
    before = same(o, o.read(m))
    o.put(m, o.key_value, values, where)
    return before


def _compared(a: Any, o: Operands) -> Any:
    before, written = dr.scatter_cas(a, o.leaf(o.scalar(1)), o.leaf(five(o)), o.key())
    return before, written


def _compared_model(m: Array, o: Operands) -> tuple[Typed, Array]:
    before = o.read(m)
    written = o.active & (before == 1)
    return _exchanged(m, o, five(o), before == 1), written


def _compensated(a: Any, o: Operands) -> None:
    dr.scatter_add_kahan(a, o.spare, o.wide(), o.key() * 0)


_PACKETS = "packets are parts of flat arrays; of numbers and masks that have a type of two components"
touch("gather-packet", lambda a, o: dr.gather(_packet_type(o), a, _packet_key(o)), _read_packets, "F:gather", "biuf",
      _PACKETS, masked=True)
touch("scatter-packet", lambda a, o: dr.scatter(a, _packet(o), _packet_key(o), o.mask()),
      lambda m, o: _put_packets(m, o, o.mask_value), "F:scatter", "biuf", _PACKETS)
touch("scatter-add-packet", lambda a, o: dr.scatter_add(a, _packet(o), _packet_key(o)),
      lambda m, o: _put_packets(m, o, combine=np.add.at), "F:scatter", ARITHMETIC, f"{_NUMBERS}; {_PACKETS}")
touch("scatter-inc", lambda a, o: dr.scatter_inc(a, o.key()), lambda m, o: _exchanged(m, o, o.read(m) + 1),
      "F:scatter", "u", "counters are unsigned numbers of 32 bits")
touch("scatter-exch", lambda a, o: dr.scatter_exch(a, o.wide(), o.key()),
      lambda m, o: _exchanged(m, o, o.wide_value), "F:scatter", "biuf", "elements of flat arrays are exchanged")
touch("scatter-cas", _compared, _compared_model, "F:scatter", ARITHMETIC,
      f"{_NUMBERS}; elements of flat arrays are compared and exchanged")
touch("scatter-add-kahan", _compensated, lambda m, o: o.put(m, o.key_value * 0, o.wide_value, combine=np.add.at),
      "F:scatter", "f", "floating point only, in flat arrays")
touch("slice-lane", lambda a, o: dr.slice(a, 0), lambda m, o: Host(m[0].item()) if o.kind == "F" else m[..., 0],
      f"{_ACCESS}:read", "biuf", "tensors have no lanes")

# --- reductions ------------------------------------------------------------------------------------------------------

#: Along the first axis: the lanes of flat arrays, the components of nested ones.
REDUCTIONS = "F:read NDCQM:lanes VTS:read"


def _lead(reduction: Any, empty: Any = None) -> Model:
    def model(m: Array, o: Operands) -> Any:
        axis: Any = None if o.tensor else 0
        result = np.asarray(reduction(m, axis=axis) if m.size or empty is None else np.full(
            m.shape[1:] if not o.tensor else (), empty(o)), o.dtype)
        return result.reshape(1) if o.kind == "F" else result
    return model


def _every(reduction: Any, empty: Any = None) -> Model:
    def model(m: Array, o: Operands) -> Typed:
        result = np.asarray(reduction(m) if m.size or empty is None else empty(o), o.dtype)
        return Typed(o.type, result) if o.tensor else Typed(o.leaf, result.reshape(1))
    return model


def _lowest(o: Operands) -> Any:
    return -np.inf if o.letter == "f" else np.iinfo(o.dtype).min


touch("sum", lambda a, o: dr.sum(a), _lead(np.sum), REDUCTIONS)
touch("sum-all", lambda a, o: dr.sum(a, axis=None), _every(np.sum), f"{ALL}:read")
touch("prod-all", lambda a, o: dr.prod(a, axis=None), _every(lambda m: np.prod(m, dtype=m.dtype)), f"{ALL}:read")
touch("max", lambda a, o: dr.max(a), _lead(np.max, _lowest), "F:read ND:lanes VTS:read",
      why=f"{_UNORDERED}; {_NUMBERS}")
touch("max-all", lambda a, o: dr.max(a, axis=None), _every(np.max, _lowest), f"{PLAIN}:read",
      why=f"{_UNORDERED}; {_NUMBERS}")
touch("mean-all", lambda a, o: dr.mean(a, axis=None),
      _every(lambda m: m.sum(dtype="f8") / m.size if m.size else np.nan), f"{PLAIN}:read", "f",
      "floating point only; " + _UNORDERED)
touch("sum-axis", lambda a, o: dr.sum(a, axis=0), lambda m, o: m.sum(axis=0, dtype=m.dtype), "VT:read",
      why=f"{_NUMBERS}; axes are of tensors")
touch("sum-last", lambda a, o: dr.sum(a, axis=-1), lambda m, o: _along_last(np.sum, m, o), "FNDCQMVT:read",
      why=f"{_NUMBERS}; {_DIMENSION}")
touch("sum-axes", lambda a, o: dr.sum(a, axis=(0, 1), keepdims=True),
      lambda m, o: m.sum(axis=(0, 1), dtype=m.dtype, keepdims=True), "T:read", why=f"{_NUMBERS}; axes are of tensors")
touch("max-last", lambda a, o: dr.max(a, axis=-1), lambda m, o: _along_last(np.max, m, o, _lowest), "FNDVT:read",
      why=f"{_UNORDERED}; {_NUMBERS}; {_DIMENSION}")
touch("softmax", lambda a, o: _softmax(a, o), lambda m, o: _softmax_model(m, o), "VT:read", "f",
      "floating point only; along an axis of tensors")
touch("all-of-comparison", lambda a, o: dr.all(a < 4, axis=None), lambda m, o: _truth(o, np.all(m < 4)),
      f"{PLAIN}:read",
      why=f"{_UNORDERED}; {_NUMBERS}")
touch("any", lambda a, o: dr.any(a, axis=None), lambda m, o: _truth(o, np.any(m)), f"{PLAIN}:read", "b", "masks only")
touch("count", lambda a, o: dr.count(a, axis=None), lambda m,
      o: np.asarray(np.count_nonzero(m), "u4").reshape(() if o.tensor else 1),
      f"{PLAIN}:read", "b", "masks only")


def _along_last(reduction: Any, m: Array, o: Operands, empty: Any = None) -> Array:
    """A reduction along the last axis: of all but tensors those are the lanes, of which one is left."""
    if not m.size and empty is not None:
        m = np.full((*m.shape[:-1], 1), empty(o), o.dtype) if m.shape[-1] == 0 else m
    return np.asarray(reduction(m, axis=-1, keepdims=not o.tensor), o.dtype)


def _softmax(a: Any, o: Operands) -> Any:
    """Sixty-fourths: no two implementations of exponentials agree in all bits."""
    powers = dr.exp(a - dr.max(a, axis=-1, keepdims=True))
    return dr.round(powers / dr.sum(powers, axis=-1, keepdims=True) * 64)


def _softmax_model(m: Array, o: Operands) -> Typed:
    powers = np.exp(m.astype("f8") - m.max(axis=-1, keepdims=True))
    return same(o, np.round(powers / powers.sum(axis=-1, keepdims=True) * 64))


def _truth(o: Operands, value: Any) -> Array:
    return np.asarray(value).reshape(() if o.tensor else (1,))


# --- blocks, scans and orders ----------------------------------------------------------------------------------------

_SCANS = "F:read NDCQM:lanes VT:read"
_AXIS = "tensors without dimensions have no axis"


def _blocks(m: Array) -> Array:
    """Two lanes by two, or the only one."""
    return m.reshape(*m.shape[:-1], -1, 1 if m.shape[-1] == 1 else 2)


def _block_scan(m: Array, o: Operands) -> Array:
    blocks = _blocks(m.reshape(-1) if o.tensor else m)
    return (np.cumsum(blocks, axis=-1, dtype=m.dtype) - blocks).reshape(m.shape)


def _rest(m: Array) -> Array:
    """The sum of what comes after along the first axis."""
    return np.cumsum(m[::-1], axis=0, dtype=m.dtype)[::-1] - m


def _middle(m: Array, o: Operands) -> Array:
    """The median along the last axis, the lower one of two."""
    found = np.sort(m, axis=-1)[..., (m.shape[-1] - 1) // 2]
    return found if o.tensor else found.reshape(1)


def _position(find: Any) -> Model:
    return lambda m, o: np.asarray(find(m), "u4").reshape(() if o.tensor else 1)


touch("block-sum", lambda a, o: dr.block_sum(a, 2), lambda m, o: same(o, _blocks(m).sum(axis=-1, dtype=m.dtype)),
      f"{_ACCESS}:read", why=f"{_NUMBERS}; tensors are reduced along axes")
touch("block-max", lambda a, o: dr.block_reduce(dr.ReduceOp.Max, a, 2), lambda m, o: same(o, _blocks(m).max(axis=-1)),
      "FND:read", why=f"{_UNORDERED}; {_NUMBERS}; tensors are reduced along axes")
touch("cumsum", lambda a, o: dr.cumsum(a), lambda m, o: same(o, np.cumsum(m, axis=0, dtype=m.dtype)), _SCANS,
      why=f"{_NUMBERS}; {_AXIS}")
touch("cumsum-last", lambda a, o: dr.cumsum(a, -1), lambda m, o: same(o, np.cumsum(m, axis=-1, dtype=m.dtype)),
      "FNDCQMVT:read", why=f"{_NUMBERS}; {_AXIS}")
touch("prefix-sum-reversed", lambda a, o: dr.prefix_sum(a, reverse=True), lambda m, o: same(o, _rest(m)), _SCANS,
      why=f"{_NUMBERS}; {_AXIS}")
touch("prefix-max", lambda a, o: dr.prefix_reduce(dr.ReduceOp.Max, a, -1, exclusive=False),
      lambda m, o: same(o, np.maximum.accumulate(m, axis=-1)), "FNDVT:read",
      why=f"{_UNORDERED}; {_NUMBERS}; {_AXIS}")
touch("block-prefix-sum", lambda a, o: dr.block_prefix_sum(a, 2), lambda m, o: same(o, _block_scan(m, o)),
      f"{ALL}:read")
touch("sort", lambda a, o: dr.sort(a), lambda m, o: same(o, np.sort(m, axis=-1)), "FNDVT:read", "biuf",
      f"{_UNORDERED}; {_AXIS}")
touch("sort-descending", lambda a, o: dr.sort(a, descending=True), lambda m, o: same(o, np.sort(m, axis=-1)[..., ::-1]),
      "FNDVT:read", "biuf", f"{_UNORDERED}; {_AXIS}")
touch("sort-first", lambda a, o: dr.sort(a, axis=0), lambda m, o: same(o, np.sort(m, axis=0)), "T:read", "biuf",
      "axes are of tensors")
touch("argsort", lambda a, o: dr.argsort(a), lambda m, o: np.argsort(m, axis=-1, kind="stable").astype("u4"),
      "FNDVT:read", "biuf", f"{_UNORDERED}; {_AXIS}")
touch("argmin", lambda a, o: dr.argmin(a), _position(np.argmin), f"{PLAIN}:read", "biuf", _UNORDERED)
touch("argmax", lambda a, o: dr.argmax(a), _position(np.argmax), f"{PLAIN}:read", "biuf", _UNORDERED)
touch("argmax-first", lambda a, o: dr.argmax(a, axis=0), lambda m, o: np.argmax(m, axis=0).astype("u4"), "VT:read",
      "biuf", "axes are of tensors")
touch("median", lambda a, o: dr.median(a), _middle, "FVT:read", why=f"{_NUMBERS}; of flat arrays and tensors")
touch("compress", lambda a, o: dr.compress(a), lambda m, o: np.flatnonzero(m).astype("u4"), "F:read", "b",
      "flat masks only")

# --- rearrangement ---------------------------------------------------------------------------------------------------


def _convolved(m: Array, o: Operands) -> Typed:
    """Half of what is before and after along the first axis, and the element itself."""
    padded = np.pad(m.astype("f8"), [(1, 1), *[(0, 0)] * (m.ndim - 1)])
    return same(o, padded[1:-1] + (padded[:-2] + padded[2:]) / 2)


touch("reverse", lambda a, o: dr.reverse(a), lambda m, o: same(o, m[::-1]), "FVT:gather NDCQM:lanes", "biuf",
      _DIMENSION)
touch("tile", lambda a, o: dr.tile(a, 2), lambda m, o: same(o, np.tile(m, 2)), f"{ALL}:read", "biuf")
touch("repeat", lambda a, o: dr.repeat(a, 2), lambda m, o: same(o, np.repeat(m, 2, None if o.tensor else -1)),
      f"{ALL}:read", "biuf")
touch("convolve", lambda a, o: dr.convolve(a, "linear", 2, axis=0, normalize=False), _convolved, "FVT:read", "f",
      "floating point only; flat arrays and tensors with an axis")

touch("take-interp", lambda a, o: dr.take_interp(a, 0.5), lambda m, o: (m[0] + m[1]) / o.dtype.type(2), "VT:read", "f",
      "floating point only; along an axis of tensors")
touch("upsample", lambda a, o: dr.upsample(a, scale_factor=[2] * len(a.shape)), lambda m, o: same(o, _magnified(m)),
      "VTS:read", "biuf", "tensors only")
touch("resample", lambda a, o: dr.resample(a, [2 * size for size in a.shape], "box"),
      lambda m, o: same(o, _magnified(m)), "FVTS:read", "f", "floating point only; flat arrays and tensors")
touch("transpose", lambda a, o: dr.moveaxis(a, 0, 1), lambda m, o: same(o, m.T), "T:read", "biuf",
      "axes are of tensors")
touch("matmul", lambda a, o: dr.matmul(a, a, Bt=o.kind == "T"), lambda m, o: _matrix_product(m, o), "FVT:read",
      why=f"{_NUMBERS}; nested arrays of depth 1 are multiplied by components; matrices: see times-itself")
touch("matmul-components", lambda a, o: a @ a, lambda m, o: Typed(o.leaf, (m * m).sum(axis=0, dtype=m.dtype)),
      "N:lanes", why=f"{_NUMBERS}; vectors of components")


def _magnified(m: Array) -> Array:
    """Each element twice along each axis."""
    for axis in range(m.ndim):
        m = m.repeat(2, axis)
    return m


def _matrix_product(m: Array, o: Operands) -> Typed:
    return same(o, m @ m.T if o.tensor else np.reshape(m @ m, 1))


# --- random numbers --------------------------------------------------------------------------------------------------

# A generator gives the same numbers everywhere: those that it gives a model, plainly and outside of loops.


def _drawn(o: Operands, letter: str) -> Any:
    """Random numbers that go with the array, the second of their generator."""
    generator = dr.rng(o.package.UInt64(7))
    shape = o.shape if o.tensor else max(o.lanes, 1)
    generator.random(o.package.TensorXf if o.tensor else o.package.Float, shape)
    if letter == "f":
        return generator.uniform(o.type if o.tensor else o.leaf, shape, 2, 3)
    return generator.integers(o.package.TensorXi if o.tensor else o.package.Int, shape, 1, 9)


def _drawn_model(o: Operands, letter: str) -> Array:
    drawn: Array = _drawn(o, letter).numpy()
    return drawn


touch("random-uniform", lambda a, o: dr.select(_drawn(o, "f") < 2.5, a, 0),
      lambda m, o: same(o, np.where(_drawn_model(o, "f") < 2.5, m, o.dtype.type(0))), f"{PLAIN}:lanes", "f",
      "floating point only")
touch("random-integers", lambda a, o: dr.select(_drawn(o, "i") > 4, a, o.scalar(0)),
      lambda m, o: same(o, np.where(_drawn_model(o, "i") > 4, m, o.dtype.type(0))), f"{PLAIN}:lanes", "biuf",
      _UNORDERED)
touch("random-permutation", lambda a, o: dr.sort(dr.rng(o.package.UInt64(7)).permutation(a), axis=0),
      lambda m, o: same(o, np.sort(m, axis=0)), "FVT:read", "biuf", f"flat arrays and tensors; {_AXIS}")


# --- conversion ------------------------------------------------------------------------------------------------------


def _numpy(m: Array, o: Operands) -> Host:
    return Host((m[0] + 1j * m[1]).astype("c16" if o.dtype.itemsize == 8 else "c8") if o.kind == "C" else m.copy())


touch("numpy", lambda a, o: a.numpy(), _numpy, f"{ALL}:read", "biuf", "")
touch("np-array", lambda a, o: np.array(a), _numpy, f"{ALL}:read", "biuf", "")
touch("np-asarray-double", lambda a, o: np.asarray(a, dtype="f8"), lambda m, o: Host(m.astype("f8")),
      f"{ALL.replace('C', '')}:read", why="complex numbers are no reals; " + _NUMBERS)
touch("np-function", lambda a, o: np.add(o.host(), np.asarray(a)), lambda m, o: Host(m + o.host()),
      f"{ALL.replace('C', '')}:read", why="complex numbers: see np-array; " + _NUMBERS)
touch("np-from-dlpack", lambda a, o: np.from_dlpack(a), _numpy, f"{ALL}:read", "biuf", "")
touch("memview", lambda a, o: np.array(a.memview()), _numpy, "FNVT:read", "iu", "formats of memory views")
touch("list", lambda a, o: list(a) if o.kind == "F" else tuple(a), lambda m,
      o: Host(m.tolist()) if o.kind == "F" else tuple(m),
      "F:read NDCQMVT:read", "biuf", _DIMENSION)
touch("tolist", lambda a, o: a.tolist(), lambda m, o: Host(_numpy(m, o).value.tolist()), f"{ALL}:read", "biuf", "")
touch("length", lambda a, o: len(a), lambda m, o: Host(len(m)), "FNDCQMVT:lanes", "biuf", _DIMENSION)
touch("float", lambda a, o: float(a), lambda m, o: Host(float(_one(m))), "FVTS:read", ARITHMETIC,
      f"{_NUMBERS}; of one number")
touch("int", lambda a, o: int(a), lambda m, o: Host(int(_one(m))), "FVTS:read", ARITHMETIC,
      f"{_NUMBERS}; of one number")
touch("range", lambda a, o: list(range(a)), lambda m, o: Host(list(range(_one(m)))), "FVTS:read", "iu",
      "of one integer")
touch("bool", lambda a, o: bool(a), lambda m, o: Host(bool(_one(m))), "FVTS:read", "b", "of one mask")
touch("cast-double", lambda a, o: dr.float64_array_t(o.type)(a),
      lambda m, o: Typed(dr.float64_array_t(o.type), m.astype("f8")), why=_NUMBERS)
touch("cast-int", lambda a, o: dr.int32_array_t(o.type)(a), lambda m,
      o: Typed(dr.int32_array_t(o.type), m.astype("i4")),
      f"{PLAIN}:lanes", why="no integer matrices; " + _NUMBERS)
touch("construct", lambda a, o: o.type(a), lambda m, o: same(o, m), letters="biuf", why="")


def _one(model: Array) -> Any:
    if model.size != 1:
        raise TypeError("one element")
    return model.reshape(-1)[0].item()


# --- text ------------------------------------------------------------------------------------------------------------


def _printed(a: Any, o: Operands) -> str:
    text = io.StringIO()
    dr.print("{}", a, file=text)
    return text.getvalue()


def _printed_model(m: Array, o: Operands) -> Host:
    """Of arrays with as many elements as a loop has lanes, active ones are printed."""
    shown = m[..., o.active] if not o.tensor and m.shape[-1] == o.lanes > 1 else m
    return Host(text_of(shown, o.kind) + "\n")


def _text(m: Array, o: Operands) -> Host:
    return Host(text_of(m, o.kind))


touch("repr", lambda a, o: repr(a), _text, f"{ALL}:read", "biuf", "")
touch("str", lambda a, o: str(a), _text, f"{ALL}:read", "biuf", "")
touch("f-string", lambda a, o: f"{a}", _text, f"{ALL}:read", "biuf", "")
touch("f-string-of-one", lambda a, o: f"{a:.2f}", lambda m, o: Host(f"{_one(m):.2f}"), "FVTS:read", ARITHMETIC,
      f"{_NUMBERS}; of one number")
touch("format", lambda a, o: dr.format("<{}>", a), lambda m, o: Host(f"<{text_of(m, o.kind)}>"), f"{ALL}:read", "biuf",
      "")
touch("print", _printed, _printed_model, f"{ALL}:read", "biuf", "")

# --- copies ----------------------------------------------------------------------------------------------------------


def _changed(duplicate: Any, o: Operands) -> Any:
    """Changes a copy, which must leave the array alone."""
    if o.letter == "b":
        duplicate &= o.mask()
    else:
        duplicate += 2
    return duplicate


def _changed_model(m: Array, o: Operands) -> Typed:
    return same(o, m & o.spread(o.mask_value) if o.letter == "b" else m + o.number(2))


def _changed_memory(duplicate: Any, o: Operands) -> Any:
    """Writes to the memory of a copy."""
    target = duplicate.array if o.tensor else duplicate
    dr.scatter(target, o.leaf(five(o)) if o.tensor or o.kind == "F" else o.type(five(o)), o.index(0))
    return duplicate


def _changed_memory_model(m: Array, o: Operands) -> Typed:
    result = m.copy()
    if o.tensor:
        result.reshape(-1)[0] = five(o)
    else:
        result[..., 0] = o.number(five(o))[..., 0] if o.kind in "CQM" else o.number(five(o))
    return same(o, result)


def _pickled(a: Any) -> Any:
    return pickle.loads(pickle.dumps(a))


touch("copy", lambda a, o: _changed(copy.copy(a), o), _changed_model, letters="biuf", why="")
touch("deepcopy", lambda a, o: _changed(copy.deepcopy(a), o), _changed_model, letters="biuf", why="")
touch("dr-copy", lambda a, o: _changed(dr.copy(a), o), _changed_model, letters="biuf", why="")
touch("construct-change", lambda a, o: _changed(o.type(a), o), _changed_model, letters="biuf", why="")
touch("copy-write", lambda a, o: _changed_memory(copy.copy(a), o), _changed_memory_model, f"{ALL}:read", "biuf", "")
touch("deepcopy-write", lambda a, o: _changed_memory(copy.deepcopy(a), o), _changed_memory_model, f"{ALL}:read", "biuf",
      "")
touch("deepcopy-twice", lambda a, o: tuple(copy.deepcopy([a, a])), lambda m, o: (same(o, m), same(o, m)),
      letters="biuf", why="")
touch("pickle", lambda a, o: _pickled(a), lambda m, o: same(o, m), f"{ALL}:read", "biuf", "")
touch("pickle-write", lambda a, o: _changed_memory(_pickled(a), o), _changed_memory_model, f"{ALL}:read", "biuf", "")
touch("pickle-nested", lambda a, o: _pickled({"a": [a, a]})["a"][1], lambda m, o: same(o, m), f"{ALL}:read", "biuf", "")
touch("write-after-copy", lambda a, o: _written_after_copy(a, o), lambda m, o: _written_after_copy_model(m, o),
      "F:item",
      "biuf", "an element that is set from the host", holds=True)
touch("scatter-after-copy", lambda a, o: _scattered_after_copy(a, o), lambda m, o: _scattered_model(m, o),
      f"{_ACCESS}:scatter", "biuf", _TENSORS, holds=True)
touch("eval", lambda a, o: _evaluated(a), lambda m, o: same(o, m), f"{ALL}:read", "biuf", "")


def _written_after_copy(a: Any, o: Operands) -> Any:
    duplicate = copy.copy(a)
    a[0] = five(o)
    return duplicate


def _written_after_copy_model(m: Array, o: Operands) -> Typed:
    result = same(o, m.copy())
    m[0] = five(o)
    return result


def _scattered_after_copy(a: Any, o: Operands) -> Any:
    duplicate = dr.copy(a)
    dr.scatter(a, _value(o), o.key())
    return duplicate


def _scattered_model(m: Array, o: Operands) -> Typed:
    result = same(o, m.copy())
    o.put(m, o.key_value, _value_model(o))
    return result


def _evaluated(a: Any) -> Any:
    dr.eval(a)
    return a
