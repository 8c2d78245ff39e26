"""Accesses by index, and reductions, on whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.reductions import EXCHANGES, REDUCTIONS
from ..types import COMPUTES_IN, FLOAT32, FLOAT64, ReduceOp
from .elementwise import Array, dtype_of, narrowed, type_of, widened

__all__ = ["exchange", "fetch", "gather", "gather_local", "reduce", "reduce_axis", "scatter", "scatter_local"]


def _inside(index: Array, mask: Array, size: int, checked: bool) -> tuple[Array, Array]:
    """The mask without the elements that are out of bounds, and the index with 0 where it is not set.

    Debug mode leaves such elements out; elsewhere what they do is not defined.
    """
    index, mask = np.broadcast_arrays(index, mask)
    inside = index < size if index.dtype.kind == "u" else (index >= 0) & (index < size)
    if not checked and (mask & ~inside).any():
        wrong = index[mask & ~inside][0]
        raise IndexError(f"the program accesses element {wrong} of an array of {size}")
    mask = mask & inside
    return np.where(mask, index, index.dtype.type(0)).astype(np.int64), mask


def gather(source: Array, index: Array, mask: Array, checked: bool) -> Array:
    """``source[index]`` where the mask is set, else zero."""
    index, mask = _inside(index, mask, source.size, checked)
    return np.where(mask, source[index], np.zeros((), source.dtype))


def scatter(target: Array, value: Array, index: Array, mask: Array, op: int, checked: bool,
            expected: Array | None = None) -> Array:
    """A copy of the target after ``target[index] = op(target[index], value)``, element after element."""
    if op in EXCHANGES:
        return exchange(target, value, index, mask, checked, expected)[1]
    result = target.copy()
    value, index, mask = np.broadcast_arrays(value, index, mask)
    index, mask = _inside(index, mask, target.size, checked)
    index, value = index[mask], value[mask]
    if op == ReduceOp.Identity.value:
        result[index] = value  # of several values for one element, the last one stays
    else:
        with np.errstate(all="ignore"):
            if result.dtype.names is None:
                _UPDATES[op].at(result, index, value)
            else:
                for place, each in zip(index, value, strict=True):
                    result[place] = _updated(op, result[place], each)
    return result


def gather_local(source: Array, index: Array, mask: Array) -> Array:
    """What elements have in entries, each in its own, where the mask is set, else zero."""
    index, mask, first = np.broadcast_arrays(index, mask, source[0])  # the same entry may hold others in each element
    entry = np.where(mask, np.minimum(index, len(source) - 1), index.dtype.type(0)).astype(np.int64)
    found: Array = np.where(mask, source[entry, np.arange(first.size) % source.shape[1]], np.zeros((), source.dtype))
    return found


def scatter_local(target: Array, value: Array, index: Array) -> Array:
    """A copy of the target after each element has written to an entry of its own; beyond the last one, to that."""
    value, index, first = np.broadcast_arrays(value, index, target[0])
    result = np.array(np.broadcast_to(target, (len(target), first.size)))
    result[np.minimum(index, len(target) - 1).astype(np.int64), np.arange(index.size)] = value
    return result


def exchange(target: Array, value: Array, index: Array, mask: Array, checked: bool,
             expected: Array | None = None) -> tuple[Array, Array]:
    """What the elements find, one after the other, and a copy of the target with what they leave there, if they find
    what is expected, bit by bit."""
    memory = target.copy()
    value, index, mask = np.broadcast_arrays(value, index, mask)
    index, mask = _inside(index, mask, target.size, checked)
    if expected is not None:
        expected = np.broadcast_to(expected, mask.shape)
    found = np.zeros(mask.size, target.dtype)
    for k in np.flatnonzero(mask):
        found[k] = memory[index[k]]
        if expected is None or expected[k].tobytes() == found[k].tobytes():
            memory[index[k]] = value[k]
    return found, memory


def fetch(target: Array, value: Array, index: Array, mask: Array, op: int, checked: bool,
          expected: Array | None = None) -> Array:
    """What the elements of a scatter-reduction find in the target, one after the other; zero where the mask is not set.
    """
    if op in EXCHANGES:
        return exchange(target, value, index, mask, checked, expected)[0]
    index, mask = _inside(index, mask, target.size, checked)
    memory, found = target.copy(), np.zeros(mask.size, target.dtype)
    with np.errstate(all="ignore"):
        for k in np.flatnonzero(mask):
            found[k] = memory[index[k]]
            memory[index[k]] = _updated(op, memory[index[k]], value[k])
    return found


def _updated(op: int, old: Any, value: Any) -> Any:
    """One element, combined with a value."""
    if old.dtype.names is None:
        return _UPDATES[op](old, value)
    type_ = type_of(old)
    return narrowed(_UPDATES[op](*(widened(np.array([each], old.dtype)) for each in (old, value))), type_)[0]


#: Of NaN and a number, updates and reductions take the number.
_UPDATES: dict[int, Any] = {
    ReduceOp.Add.value: np.add, ReduceOp.Mul.value: np.multiply, ReduceOp.Min.value: np.fmin,
    ReduceOp.Max.value: np.fmax, ReduceOp.And.value: np.bitwise_and, ReduceOp.Or.value: np.bitwise_or}


def reduce(values: Array, op: int, size: int, type_: int) -> Array:
    """All of ``size`` elements in one, floats in some order; a value of size 1 stands for as many."""
    return reduce_axis(np.broadcast_to(values, size), op, 0, type_).reshape(1)


def reduce_axis(values: Array, op: int, axis: int, type_: int) -> Array:
    """The elements along an axis in one, floats in some order."""
    computed = COMPUTES_IN[type_of(values)]
    wide = dtype_of(FLOAT64 if op == ReduceOp.Add.value and computed == FLOAT32 else computed)
    with np.errstate(all="ignore"):
        result: Array = _UPDATES[op].reduce(widened(values).astype(wide), axis=axis, dtype=wide)
    if op in (ReduceOp.Min.value, ReduceOp.Max.value) and wide.kind == "f":  # nothing but NaN
        result = np.where(np.isnan(result), wide.type(REDUCTIONS[op].identity(type_)), result)
    return narrowed(result, type_of(values))
