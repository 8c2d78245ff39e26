"""Positions of 64 bits that do not exist are none of those of 32 bits that they would be, cut off."""

from __future__ import annotations

import warnings

import pytest

import drjit as dr
import drjit.llvm.ad as ad
from drjit import scalar
from drjit._base.nodes import index_node
from drjit._promotion.promote import wrap
from drjit.llvm import Array2f, Array3f, Bool, Float, Int, Int64, TensorXf, UInt, UInt8, UInt64

#: Each would be a position of a small array, cut to 32 bits.
WIDE = [UInt64(1 << 32), UInt64((1 << 32) + 1), UInt64(1 << 63), Int64(1 << 33), Int64(-(1 << 32)),
        Int64(3 - (1 << 33))]
NAMES = [f"{type(value).__name__}({value[0]})" for value in WIDE]


def array() -> Float:
    return Float(10, 11, 12, 13)


def writes(change) -> Float:
    target = array()
    change(target)
    return target


def tensor() -> TensorXf:
    return TensorXf(dr.arange(Float, 12), (3, 4))


def written(key, index) -> Float:
    target = tensor()
    target[key(index)] = 99
    return target.array


def local(index):
    buffer = dr.alloc_local(Float, 4, Float(0))
    buffer[index] = Float(1)
    return [buffer[k] for k in range(4)]


def in_loop(index, mode: str):
    source, target = array(), array()

    def body(i, total):
        dr.scatter(target, Float(99), index + i)
        return i + 1, total + dr.gather(Float, source, index + i)

    _, total = dr.while_loop((type(index)(0, 0), Float(0)), lambda i, total: i < 1, body, mode=mode)
    return total, target - source


def reverse(index):
    x = ad.Float(10, 11, 12, 13)
    dr.enable_grad(x)
    dr.backward(dr.gather(ad.Float, x, index))
    return dr.grad(x)


def increments(index):
    counter = UInt(5, 5, 5, 5)
    found = dr.scatter_inc(counter, index)
    return found, counter - 5


def exchanges(index):
    target = array()
    found = dr.scatter_exch(target, Float(7), index)
    old, success = dr.scatter_cas(target, Float(10, 11), 8, index)
    return found, old, success, target - array()


def compensated(index):
    totals = dr.zeros(Float, 4), dr.zeros(Float, 4)
    dr.scatter_add_kahan(*totals, Float(7), index)
    return totals


#: Accesses by an index of two elements, all of which must turn out to be zero where the index does not exist.
ACCESSES = {
    "gather": lambda index: dr.gather(Float, array(), index),
    "gather a packet": lambda index: dr.gather(Array2f, array(), index),
    "gather three": lambda index: dr.gather(Array3f, array(), index),
    "gather a nested array": lambda index: dr.gather(Array2f, Array2f(array(), array()), index),
    "gather a PyTree": lambda index: dr.gather(dict, {"a": array()}, index)["a"],
    "gradient": lambda index: reverse(type(index)(index)),
    "scatter": lambda index: writes(lambda x: dr.scatter(x, Float(1, 2), index)) - array(),
    "scatter rows": lambda index: writes(lambda x: dr.scatter(x, Array2f(1, 2), index)) - array(),
    "scatter_add": lambda index: writes(lambda x: dr.scatter_add(x, 1, index)) - array(),
    "scatter_reduce": lambda index: writes(lambda x: dr.scatter_reduce(dr.ReduceOp.Max, x, 99, index)) - array(),
    "scatter_inc": increments,
    "exchanges": exchanges,
    "scatter_add_kahan": compensated,
    "x[index]": lambda index: array()[index],
    "x[index] = value": lambda index: writes(lambda x: x.__setitem__(index, 99)) - array(),
    "rows": lambda index: tensor()[index],
    "last row": lambda index: tensor()[2, index],
    "columns": lambda index: tensor()[:, index],
    "elements": lambda index: tensor()[index, index],
    "take": lambda index: dr.take(tensor(), index, axis=1),
    "write rows": lambda index: written(lambda i: i, index) - tensor().array,
    "write in the last row": lambda index: written(lambda i: (2, i), index) - tensor().array,
    "local memory": local,
    "symbolic loop": lambda index: in_loop(index, "symbolic"),
    "evaluated loop": lambda index: in_loop(index, "evaluated"),
}


@pytest.mark.parametrize("access", list(ACCESSES.values()), ids=list(ACCESSES))
@pytest.mark.parametrize("index", WIDE, ids=NAMES)
def test_checked_access(access, index) -> None:
    with warnings.catch_warnings(record=True) as found, dr.scoped_set_flag(dr.JitFlag.Debug):
        warnings.simplefilter("always")
        result = access(dr.opaque(type(index), index[0], 2))
        for each in result if isinstance(result, (tuple, list)) else [result]:
            assert dr.all(Float(dr.ravel(each)) == 0)
        dr.sync_thread()
    assert found and all("out-of-bounds" in str(entry.message) for entry in found)


@pytest.mark.parametrize("index", WIDE, ids=NAMES)
def test_reports_tell_the_position(index) -> None:
    with warnings.catch_warnings(record=True) as found, dr.scoped_set_flag(dr.JitFlag.Debug):
        warnings.simplefilter("always")
        dr.eval(dr.gather(Float, array(), index))
        dr.sync_thread()
    assert f"read from position {index[0]} in" in str(found[0].message)


@pytest.mark.parametrize("index", WIDE, ids=NAMES)
@pytest.mark.parametrize("access", [
    lambda index: dr.gather(Float, array(), index),
    lambda index: dr.gather(Array3f, array(), index),
    lambda index: dr.scatter(array(), 1, index),
    lambda index: dr.scatter(array(), Array2f(1, 2), index),
    lambda index: dr.scatter_add(array(), 1, index),
    lambda index: dr.scatter_inc(UInt(1, 2), index),
    lambda index: array()[index],
    lambda index: tensor()[index],
    lambda index: tensor()[1:, index],
    lambda index: dr.alloc_local(Float, 4, Float(0))[index],
    lambda index: dr.slice_index(UInt, (3, 4), (1, index)),
    lambda index: dr.gather(scalar.ArrayXf, scalar.ArrayXf(1, 2), index[0]),
    lambda index: scalar.ArrayXf(1, 2)[scalar.ArrayXi64(index[0] if index[0] < 1 << 63 else 2)],
    lambda index: array()[index[0]],
    lambda index: dr.gather(Float, array(), [index[0]]),
])
def test_one_known_position(access, index) -> None:
    with pytest.raises((IndexError, TypeError), match=r"out of (bounds|range)|does not fit|-?\d+"):
        access(index)


@pytest.mark.parametrize("index", [UInt(1 << 31), UInt((1 << 31) + 1), Int(-1 << 31), Int((-1 << 31) + 1)])
def test_rows_that_would_begin_at_an_existing_position(index) -> None:
    """One known position, of 32 bits, which does not exist, times the length of the rows."""
    with pytest.raises(IndexError, match="out of bounds"):
        dr.gather(Array2f, array(), index)
    target = array()
    with pytest.raises(IndexError, match="out of bounds"):
        dr.scatter(target, Array2f(1, 2), index)
    assert dr.all(target == array()) and dr.all(dr.gather(Array2f, array(), index, False) == 0, axis=None)


@pytest.mark.parametrize(("index", "position"), [
    (UInt64(0, 3, (1 << 32) - 1, 1 << 32, (1 << 64) - 1), [0, 3, (1 << 32) - 1, (1 << 32) - 1, (1 << 32) - 1]),
    (Int64(2, -1, -(1 << 32), (1 << 32) + 2), [2] + [(1 << 32) - 1] * 3),
    (Int(2, -1), [2, (1 << 32) - 1]),
    (UInt64(UInt(5, 6)), [5, 6]),
    (Int64(UInt8(5, 6)), [5, 6]),
    (Int64(Int(5, -6)), [5, (1 << 32) - 1]),
])
def test_positions(index, position: list[int]) -> None:
    assert list(wrap(UInt, [index_node(index._n, 4)])) == position


def test_integers_that_were_narrower_cost_nothing() -> None:
    """A conversion to 64 bits is left out, signed ones need no look at their sign."""
    index, source = dr.opaque(UInt, 1, 4), array()
    for wide in (UInt64(index), Int64(index)):
        assert index_node(wide._n, 4) is index._n
        narrow = dr.gather(Float, source, index)
        assert dr.gather(Float, source, wide)._n is narrow._n
        assert source[wide]._n is narrow._n


def test_large_products_in_debug_mode() -> None:
    """Rows that would begin at an existing position, modulo 2**32."""
    with warnings.catch_warnings(record=True) as found, dr.scoped_set_flag(dr.JitFlag.Debug):
        warnings.simplefilter("always")
        index = dr.opaque(UInt, 1 << 31, 2)
        assert dr.all(dr.gather(Array2f, array(), index) == 0, axis=None)
        assert dr.all(TensorXf(dr.arange(Float, 4), (2, 2))[index] == 0, axis=None)
    assert len(found) == 2 and "position 4294967296 in" in str(found[0].message)


@pytest.mark.parametrize("index", [Int(-5), Int(4), UInt(5), Int64(-6), UInt((1 << 32) - 1)])
@pytest.mark.parametrize("key", [lambda i: (0, i), lambda i: (2, i), lambda i: (slice(None), i), lambda i: (i, i)])
def test_axes_in_debug_mode(key, index) -> None:
    """What lies beyond its axis is reported even if the array has an element at the position that it adds up to."""
    with warnings.catch_warnings(record=True) as found, dr.scoped_set_flag(dr.JitFlag.Debug):
        warnings.simplefilter("always")
        assert dr.all(tensor()[key(dr.opaque(type(index), index[0], 2))] == 0, axis=None)
    assert found


def test_entries_of_local_memory() -> None:
    """Negative ones are none of other lanes."""
    def program(index):
        buffer = dr.alloc_local(Float, 4, Float(0))
        buffer.write(dr.arange(Float, 100), index)
        return [buffer[k] for k in range(4)]

    with warnings.catch_warnings(record=True) as found, dr.scoped_set_flag(dr.JitFlag.Debug):
        warnings.simplefilter("always")
        assert all(dr.all(entry == 0) for entry in program(dr.opaque(Int, -1, 100)))
    assert "out-of-bounds write to entry -1 of a buffer of 4 entries" in str(found[0].message)


def test_masked_out() -> None:
    assert dr.all(dr.gather(Float, array(), UInt64(1 << 32), Bool(False)) == 0)
