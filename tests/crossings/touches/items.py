"""Touches: items read and written in brackets."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..model import Array, Host, Operands
from .rows import ALL, ARITHMETIC, NUMBERS, UNORDERED, same, touch

__all__ = ["DIMENSION", "five", "put"]

# --- reading items ---------------------------------------------------------------------------------------------------

#: Reading items of flat arrays gives numbers, of nested ones components, of tensors tensors.
ITEMS = "F:read NDCQM:lanes VT:read"
DIMENSION = "tensors without dimensions have no items"


def _item(value: Any, o: Operands) -> Any:
    return Host(value.item()) if o.kind == "F" else value


def _index(o: Operands, wanted: int = 1) -> int:
    """A position along the first axis that exists if any does."""
    return min(wanted, max(len(o.value) - 1, 0))


touch("item", lambda a, o: a[_index(o)], lambda m, o: _item(m[_index(o)], o), ITEMS, "biuf", DIMENSION)
touch("item-last", lambda a, o: a[-1], lambda m, o: _item(m[-1], o), ITEMS, "biuf", DIMENSION)
touch("item-numpy", lambda a, o: a[np.int64(0)], lambda m, o: _item(m[0], o), ITEMS, "biuf", DIMENSION)
touch("item-beyond", lambda a, o: a[99], lambda m, o: _item(m[0], o), ITEMS, "biuf", DIMENSION)  # of one element: that
touch("element", lambda a, o: a[0, -1], lambda m, o: m[0, -1] if o.kind in "TM D" else Host(m[0, -1].item()),
      "N:read T:read DM:lanes", "biuf", "two indices need two dimensions")
touch("element-deep", lambda a, o: a[0, 1, -1], lambda m, o: Host(m[0, 1, -1].item()), "DM:read", "biuf",
      "three indices need three dimensions")
touch("slice", lambda a, o: a[1:3], lambda m, o: m[1:3], "F:read NDQM:lanes VT:read", "biuf",
      "fewer components, or no dimensions")
touch("slice-all", lambda a, o: a[:], lambda m, o: same(o, m), f"{ALL.replace('S', '')}:lanes", "biuf", DIMENSION)
touch("slice-reversed", lambda a, o: a[::-1], lambda m, o: m[::-1], "FVT:gather NDQM:lanes", "biuf", DIMENSION)
touch("slice-step", lambda a, o: a[::2], lambda m, o: m[::2], "F:read NDQM:lanes VT:read", "biuf", DIMENSION)
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
touch("mask-key", lambda a, o: a[o.mask()], lambda m, o: same(o, m), "FNDCQMVT:lanes", "biuf", DIMENSION)
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


def put(a: Any, key: Any, value: Any) -> None:
    a[key] = value


def _increase(a: Any, key: Any, value: Any) -> None:
    a[key] += value


touch("set-item", lambda a, o: put(a, _index(o), five(o)), lambda m, o: put(m, _index(o), five(o)), WRITES, "biuf",
      DIMENSION)
touch("set-item-last", lambda a, o: put(a, -1, five(o)), lambda m, o: put(m, -1, five(o)), WRITES, "biuf",
      DIMENSION)
touch("set-item-beyond", lambda a, o: put(a, 99, five(o)), None, WRITES, "biuf", DIMENSION)
touch("set-item-text", lambda a, o: put(a, 0, "text"), None, WRITES, "biuf", DIMENSION)
touch("increase-item", lambda a, o: _increase(a, _index(o), 2), lambda m, o: _increase(m, _index(o), o.dtype.type(2)),
      WRITES, ARITHMETIC, f"{NUMBERS}; {DIMENSION}", holds=True)
touch("set-component-wide", lambda a, o: put(a, 0, o.wide()), lambda m, o: put(m, 0, o.wide_value), "NCQ:inplace",
      "biuf", "components are of nested arrays")
touch("set-row-wide", lambda a, o: put(a, 0, o.wide()[0]), lambda m, o: put(m, 0, o.wide_value[0]), "T:write",
      "biuf", "rows are of tensors")
touch("set-element", lambda a, o: put(a, (0, -1), five(o)), lambda m, o: put(m, (0, -1), five(o)),
      "N:item T:write DM:inplace", "biuf", "two indices need two dimensions")
touch("set-slice", lambda a, o: put(a, slice(1, 3), five(o)), lambda m, o: put(m, slice(1, 3), five(o)),
      "F:write NDQM:inplace VT:write", "biuf", DIMENSION)
touch("set-slice-wide", lambda a, o: put(a, _some(o), o.wide()[_some(o)]), lambda m,
      o: put(m, _some(o), o.wide_value[_some(o)]),
      "FVT:write", "biuf", "components have items of their own")
touch("set-slice-list", lambda a, o: put(a, slice(0, 1), o.host()[0:1].tolist()),
      lambda m, o: put(m, slice(0, 1), o.host()[0:1]), "FV:write", "biuf", "components have items of their own")
touch("set-slice-numpy", lambda a, o: put(a, _some(o), o.host()[_some(o)]), lambda m,
      o: put(m, _some(o), o.host()[_some(o)]),
      "FVT:write", "biuf", "components have items of their own")
touch("set-slice-shifted", lambda a, o: put(a, slice(1, None), a[:-1]), lambda m,
      o: put(m, slice(1, None), m[:-1].copy()),
      "FVT:write", "biuf", "components have items of their own", holds=True)
touch("set-slice-all", lambda a, o: put(a, slice(None), five(o)), lambda m, o: put(m, slice(None), five(o)),
      "FNDQMVT:inplace", "biuf", DIMENSION)
touch("set-slice-reversed", lambda a, o: put(a, slice(None, None, -1), o.wide()),
      lambda m, o: o.put(m, np.arange(len(m))[::-1], o.wide_value), "FV:scatter", "biuf",
      "components have items of their own")
touch("set-slice-mismatch", lambda a, o: put(a, slice(0, 1), o.leaf([o.scalar(1)] * 5)), None, "FVT:write", "biuf",
      "components have items of their own")
touch("set-key", lambda a, o: put(a, o.key(), five(o)), lambda m, o: o.put(m, o.key_value, five(o)), "FV:scatter",
      "biuf", "nested arrays take masks as keys")
touch("set-key-wide", lambda a, o: put(a, o.key(), o.wide()), lambda m, o: o.put(m, o.key_value, o.wide_value),
      "FV:scatter", "biuf", "nested arrays take masks as keys")
touch("increase-key", lambda a, o: _increase(a, o.key(), 2), lambda m,
      o: o.put(m, o.key_value, m[o.key_value] + o.dtype.type(2)),
      "FV:scatter", ARITHMETIC, "nested arrays take masks as keys; " + NUMBERS, holds=True)
touch("set-key-numpy", lambda a, o: put(a, np.array(_rows(o)), five(o)), lambda m, o: put(m, _rows(o), five(o)),
      "FVT:write", "biuf", "nested arrays take masks as keys")
touch("increase-key-numpy", lambda a, o: _increase(a, np.array(_rows(o)), 2),
      lambda m, o: _increase(m, np.array(_rows(o)), o.dtype.type(2)), "FVT:write", ARITHMETIC,
      "nested arrays take masks as keys; " + NUMBERS, holds=True)
touch("set-mask", lambda a, o: put(a, o.mask(), five(o)), lambda m, o: _blend(m, five(o), o),
      "FNDCQMVT:inplace", "biuf", DIMENSION)
touch("set-mask-wide", lambda a, o: put(a, o.mask(), o.wide()), lambda m, o: _blend(m, o.wide_value, o),
      "FNDCQMVT:inplace", "biuf", DIMENSION)
touch("increase-mask", lambda a, o: _increase(a, o.mask(), 2), lambda m, o: _blend(m, None, o),
      "FNDCQMVT:inplace", ARITHMETIC, f"{DIMENSION}; {NUMBERS}")
touch("set-mask-of-array", lambda a, o: put(a, a > 2, 0), lambda m, o: _blend(m, 0, o, m > 2), "FNDVT:inplace",
      ARITHMETIC, f"{NUMBERS}; {UNORDERED}")
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
