"""The order of many elements: NumPy's vectorised sorting of the memory of evaluated arrays, by several threads.

Values and positions are those of a stable order with NaN at the end. Two halves of a row are sorted at the same time
after the elements of the lower one have been brought to its front (``partition``). Positions come from numbers that
hold what an element counts for in the order and, in their lowest bits, its position.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import drjit as dr

__all__ = ["order_of", "sorted_values"]

Values = np.ndarray[Any, Any]
#: So many elements take longer to sort than it takes to start a thread.
_MANY = 1 << 16
#: NumPy's stable order of more elements than this takes longer than to make numbers and sort these (measured: 1,500).
_FEW = 1 << 10


def sorted_values(value: Values, axis: int, descending: bool) -> Values:
    """The elements in order along an axis, in an array of their own."""
    if value.size < _MANY and not descending:
        return np.sort(value, axis, None if _are_equal_bits(value) else "stable")
    if value.dtype.kind == "c" or descending and value.dtype.kind == "f" and bool(np.isnan(value).any()):
        return np.take_along_axis(value, order_of(value, axis, descending), axis)
    rows = _rows(value, axis)
    found = rows.copy()
    _in_parts(found, lambda part: part.sort(axis=-1))
    if descending:
        found = np.ascontiguousarray(found[:, ::-1])
    if value.dtype.kind == "f":
        zeros = rows[rows == 0]
        if bool(np.signbit(zeros).any()):  # those of both signs are equal, and keep their order; NumPy may lose signs
            found[found == 0] = zeros
    return _restored(found, value.shape, axis)


def _are_equal_bits(value: Values) -> bool:
    """Whether real elements that are equal cannot be told apart: zeros have one sign."""
    kind = value.dtype.kind
    return kind != "c" and (kind != "f" or not bool((np.signbit(value) & (value == 0)).any()))


def order_of(value: Values, axis: int, descending: bool) -> Values:
    """The positions of the elements in order along an axis, as 64-bit integers in an array of their own."""
    if value.size <= _FEW and not descending:
        return value.argsort(axis, "stable")
    if value.dtype.kind == "c":
        return _order_of_pairs(value, axis, descending)
    rows = _rows(value, axis)
    key = _key(rows, descending)
    key -= key.min()
    bits = (rows.shape[1] - 1).bit_length()
    lost = np.uint64(max(int(key.max()).bit_length() + bits - 64, 0))
    places = np.uint64(bits)
    packed = key >> lost
    packed <<= places
    packed |= np.arange(rows.shape[1], dtype=np.uint64)
    _in_parts(packed, lambda part: part.sort(axis=-1))
    found = (packed & np.uint64((1 << bits) - 1)).view(np.int64)
    if lost:
        _settle(found, key, packed >> places)
    return _restored(found, value.shape, axis)


def _order_of_pairs(value: Values, axis: int, descending: bool) -> Values:
    """The order of complex numbers: by the imaginary parts, then by the real ones, then by what is NaN, each time
    without a change among those that are equal."""
    found = order_of(value.imag, axis, descending)
    missing = 2 * np.isnan(value.real).astype(np.uint8) + np.isnan(value.imag)
    for key, down in ((value.real, descending), *[(missing, False)] * bool(missing.any())):
        again = order_of(np.take_along_axis(key, found, axis), axis, down)
        found = np.take_along_axis(found, again, axis)
    return found


def _key(rows: Values, descending: bool) -> Values:
    """For each element a number of 64 bits without a sign, which is greater the later it comes in the order."""
    kind = rows.dtype.kind
    if kind != "f":
        key: Values = rows.astype(np.uint64)
        if kind == "i":
            key ^= np.uint64(1 << 63)
        return ~key if descending else key
    size = 8 * rows.itemsize
    plain = rows + rows.dtype.type(0)  # no zeros with a sign
    signed = plain.view(f"i{rows.itemsize}")
    signed = signed ^ ((signed >> (size - 1)) & np.array((1 << (size - 1)) - 1, signed.dtype))
    key = signed.astype(np.int64).view(np.uint64)
    key ^= np.uint64(1 << 63)
    if descending:
        key = ~key
    missing = np.isnan(rows)
    if missing.any():
        key[missing] = key[~missing].max(initial=0) + np.uint64(1)
    return key


def _settle(found: Values, key: Values, known: Values) -> None:
    """Order those again whose numbers had no room for all of their key, and are equal but for that."""
    length = key.shape[1]
    full = key.reshape(-1).take(found + np.arange(0, key.size, length)[:, None])
    wrong = full[:, 1:] < full[:, :-1]
    for number in np.flatnonzero(wrong.any(axis=-1)):
        row, equal = found[number], np.unique(known[number, 1:][wrong[number]])
        starts = np.searchsorted(known[number], equal)
        counts = np.searchsorted(known[number], equal, "right") - starts
        total = int(counts.sum())
        if total > length // 4:
            row[:] = np.argsort(key[number], kind="stable")
            continue
        chosen = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(total)
        places = row[chosen]
        row[chosen] = places[np.lexsort((places, full[number, chosen], known[number, chosen]))]


def _rows(value: Values, axis: int) -> Values:
    """The elements with the axis at the end, the others as one."""
    return np.ascontiguousarray(np.moveaxis(value, axis, -1)).reshape(-1, value.shape[axis])


def _restored(rows: Values, shape: tuple[int, ...], axis: int) -> Values:
    """Rows as an array of a shape again."""
    others = (*shape[:axis], *shape[axis + 1:], shape[axis])
    return np.ascontiguousarray(np.moveaxis(rows.reshape(others), -1, axis))


def _in_parts(rows: Values, sort: Callable[[Values], Any], threads: int = 0) -> None:
    """Sort rows in place, by as many threads as kernels are run by."""
    count, length = rows.shape
    threads = threads or dr.thread_count()
    if threads < 2 or rows.size < _MANY:
        sort(rows)
        return
    share = threads // 2
    if count > 1:
        middle = max(count * share // threads, 1)
        first, rest = rows[:middle], rows[middle:]
    else:
        middle = length * share // threads
        rows.partition(middle, axis=-1)
        first, rest = rows[:, :middle], rows[:, middle:]
    helper = threading.Thread(target=_in_parts, args=(first, sort, share))
    helper.start()
    _in_parts(rest, sort, threads - share)
    helper.join()
