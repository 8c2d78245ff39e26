"""Access by index: lanes of evaluated loops, arguments of gather and scatter, and what is checked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import scalar
from drjit._access.lanes import lane_mask
from drjit.llvm import (
    Array2f,
    Array2i,
    Array3f,
    Array3i,
    ArrayXf,
    Bool,
    Float,
    Int,
    TensorXf,
    UInt,
)

# --- lanes -----------------------------------------------------------------------------------------------------------

#: Lane k starts at k and runs while it is below 3: the last one never takes part.
START, LIMIT, VALUES = [0, 1, 2, 3], 3, [10.0, 20.0, 30.0, 40.0]


def run(access: Callable[[Any, Any, Any], Any], *arrays: Any) -> Any:
    """Evaluate a loop whose body accesses arrays that are none of its state; returns the sums of what it read."""

    def body(i: UInt, x: Float, total: Float) -> tuple[UInt, Float, Float]:
        found = access(*arrays, i, x)
        return i + 1, x, total if found is None else total + found

    return dr.while_loop((UInt(START), Float(VALUES), Float(0, 0, 0, 0)), lambda i, x, total: i < LIMIT, body,
                         mode="evaluated")[2]


def assign(key: Callable[[Any, Any], Any], value: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], None]:
    def access(array: Any, i: UInt, x: Float) -> None:
        array[key(i, x)] = value(i, x)

    return access


def add(key: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], None]:
    def access(array: Any, i: UInt, x: Float) -> None:
        array[key(i, x)] += 1

    return access


def the_value(i: UInt, x: Float) -> Float:
    return x


def nine(i: UInt, x: Float) -> int:
    return 9


@pytest.mark.parametrize(("key", "value", "expected"), [
    (lambda i, x: i, the_value, [10, 10, 10, 4]), (lambda i, x: i, nine, [9, 9, 9, 4]),
    (lambda i, x: Int(i), nine, [9, 9, 9, 4]), (lambda i, x: Int(i) - 4, nine, [9, 9, 9, 4]),
    (lambda i, x: (i,), nine, [9, 9, 9, 4]),
    (lambda i, x: slice(None), the_value, [10, 20, 30, 4]), (lambda i, x: slice(None), nine, [9, 9, 9, 4]),
    (lambda i, x: ..., the_value, [10, 20, 30, 4]), (lambda i, x: slice(0, 4), the_value, [10, 20, 30, 4]),
    (lambda i, x: slice(None, None, -1), the_value, [1, 30, 20, 10]), (lambda i, x: slice(0, 4), nine, [9, 9, 9, 4]),
    (lambda i, x: slice(0, 2), nine, [9, 9, 3, 4]), (lambda i, x: 3, nine, [1, 2, 3, 9]),
    (lambda i, x: x > 0, nine, [9, 9, 9, 4]), (lambda i, x: x > 15, the_value, [1, 20, 30, 4]),
    (lambda i, x: Bool(True), the_value, [10, 20, 30, 4]), (lambda i, x: Bool(True), nine, [9, 9, 9, 4]),
    (lambda i, x: np.array([1, 0]), nine, [9, 9, 3, 4]), (lambda i, x: [3, 2, 1, 0], the_value, [1, 30, 20, 10]),
    (lambda i, x: UInt(3), nine, [1, 2, 3, 9]),
])
def test_assignments_to_flat_arrays_in_evaluated_loops(key, value, expected: list[float]) -> None:
    a = Float(1, 2, 3, 4)
    run(assign(key, value), a)
    assert list(a) == expected
    t = TensorXf([1, 2, 3, 4])
    run(assign(key, value), t)
    assert t.numpy().tolist() == expected


@pytest.mark.parametrize(("key", "shape", "value", "expected"), [
    (lambda i, x: (i, 0), (4, 2), the_value, [[10, 0], [10, 0], [10, 0], [0, 0]]),
    (lambda i, x: i, (4, 2), nine, [[9, 9], [9, 9], [9, 9], [0, 0]]),
    (lambda i, x: i, (4, 4), the_value, [[10, 20, 30, 0], [10, 20, 30, 0], [10, 20, 30, 0], [0, 0, 0, 0]]),
    (lambda i, x: (slice(None), 0), (4, 2), the_value, [[10, 0], [20, 0], [30, 0], [0, 0]]),
    (lambda i, x: (slice(None), 0), (4, 2), nine, [[9, 0], [9, 0], [9, 0], [9, 0]]),
    (lambda i, x: np.array([1, 0]), (2, 2), nine, [[9, 9], [9, 9]]),
    (lambda i, x: slice(None), (2, 4), the_value, [[10, 20, 30, 0], [10, 20, 30, 0]]),
    (lambda i, x: slice(None), (2, 3), nine, [[9, 9, 9], [9, 9, 9]]),
    (lambda i, x: (0, slice(None), i), (1, 2, 4), nine, [[[9, 9, 9, 0], [9, 9, 9, 0]]]),
    (lambda i, x: x > 15, (2, 4), nine, [[0, 9, 9, 0], [0, 9, 9, 0]]),
    (lambda i, x: Bool(True), (2, 4), the_value, [[10, 20, 30, 0], [10, 20, 30, 0]]),
    (lambda i, x: (i, [[0], [1]]), (4, 2), nine, [[9, 9], [9, 9], [9, 9], [0, 0]]),
    (lambda i, x: 0, (4, 2), nine, [[9, 9], [0, 0], [0, 0], [0, 0]]),
])
def test_assignments_to_tensors_in_evaluated_loops(key, shape, value, expected) -> None:
    t = dr.zeros(TensorXf, shape)
    run(assign(key, value), t)
    assert t.numpy().tolist() == expected


@pytest.mark.parametrize(("key", "value", "expected"), [
    (lambda i, x: (0, i), the_value, [[10, 10, 10, 0], [0, 0, 0, 0]]),
    (lambda i, x: (slice(None), i), nine, [[9, 9, 9, 0], [9, 9, 9, 0]]),
    (lambda i, x: x > 15, the_value, [[0, 20, 30, 0], [0, 20, 30, 0]]),
    (lambda i, x: (1, slice(None)), the_value, [[0, 0, 0, 0], [10, 20, 30, 0]]),
])
def test_assignments_to_nested_arrays_in_evaluated_loops(key, value, expected) -> None:
    v = dr.zeros(Array2f, 4)
    run(assign(key, value), v)
    assert v.numpy().tolist() == expected


@pytest.mark.parametrize("make", [lambda: Float(1, 2, 3, 4), lambda: TensorXf([1, 2, 3, 4])])
@pytest.mark.parametrize(("key", "expected"), [
    (lambda i, x: i, [2, 4, 6, 4]),  # of the lanes that meet at one element, one wins
    (lambda i, x: x > 15, [1, 4, 4, 4]), (lambda i, x: 0, [4, 2, 3, 4]), (lambda i, x: slice(0, 2), [4, 5, 3, 4]),
])
def test_in_place_operators_on_elements_in_evaluated_loops(make, key, expected) -> None:
    a = make()
    run(add(key), a)
    assert a.numpy().tolist() == expected


@pytest.mark.parametrize(("access", "expected"), [
    (lambda a, i, x: a[i], [6, 5, 3, 0]), (lambda a, i, x: a[Int(i) - 4], [6, 5, 3, 0]),
    (lambda a, i, x: a[0], [3, 2, 1, 0]),
    (lambda a, i, x: a[UInt(0)], [3, 2, 1, 0]), (lambda a, i, x: a[::-1], [12, 6, 2, 0]),
    (lambda a, i, x: dr.gather(Float, a, i), [6, 5, 3, 0]), (lambda a, i, x: a[x > 0], [3, 4, 3, 0]),
    (lambda a, i, x: dr.sum(a[dr.arange(UInt, 2)]), [9, 6, 3, 0]),  # two elements in four lanes: uniform
    (lambda a, i, x: dr.sum(dr.gather(Float, a, dr.arange(UInt, 3))), [18, 12, 6, 0]),
    (lambda a, i, x: TensorXf(a)[i].array, [6, 5, 3, 0]),
])
def test_reading_in_evaluated_loops(access, expected) -> None:
    assert list(run(access, Float(1, 2, 3, 4))) == expected


def test_lanes_that_have_finished_do_not_read_beyond_the_end() -> None:
    """Their index went on to be what it was when they left: far outside."""
    a = Float(1, 2, 3)
    index, _ = dr.while_loop((UInt(0, 1, 1 << 30), Float(0)), lambda i, x: i < 3,
    lambda i, x: (i + 1, x + a[i] + a[Int(i)]),
                             mode="evaluated")
    assert list(index) == [3, 3, 1 << 30]


@pytest.mark.parametrize(("access", "expected"), [
    (lambda a, i, x: dr.scatter(a, x, i), [10, 10, 10, 4]), (lambda a, i, x: dr.scatter(a, 9, UInt(3)), [1, 2, 3, 9]),
    (lambda a, i, x: dr.scatter_add(a, 1, UInt(3)), [1, 2, 3, 10]),  # once for each lane and iteration
    (lambda a, i, x: dr.scatter_add(a, Float(1, 1), UInt(0, 3)), [4, 2, 3, 7]),  # twice an iteration
    (lambda a, i, x: dr.scatter_add(a, 1, i), [2, 4, 6, 4]), (lambda a, i, x: dr.scatter(a, 9, 3, x < 5), [1, 2, 3, 4]),
])
def test_scatters_in_evaluated_loops(access, expected) -> None:
    a = Float(1, 2, 3, 4)
    run(access, a)
    assert list(a) == expected


def test_an_element_under_a_mask_is_one_for_each_lane() -> None:
    a, v, t = Float(1), Array2f(1, 2), TensorXf([1])
    run(lambda i, x: a.__setitem__(a > 0, 9))
    run(lambda i, x: v.__setitem__(Bool(True), 9))
    run(lambda i, x: t.__setitem__(t > 0, 9))
    run(lambda i, x: t.array.__setitem__(Bool(True), 8))
    assert list(a) == [9, 9, 9, 1] and v.numpy().tolist() == [[9, 9, 9, 1], [9, 9, 9, 2]]
    assert t.shape == (4,) and list(t.array) == [8, 8, 8, 1]


def test_in_nested_evaluated_loops_the_lanes_of_both_count() -> None:
    a = dr.zeros(Float, 4)

    def body(i: UInt) -> tuple[UInt]:
        def inner(j: UInt) -> tuple[UInt]:
            a[dr.arange(UInt, 4)] += 1
            return (j + 1,)

        dr.while_loop((UInt(0, 1, 0, 0),), lambda j: j < 2, inner, mode="evaluated")
        return (i + 1,)

    dr.while_loop((UInt(0, 0, 2, 3),), lambda i: i < 3, body, mode="evaluated")
    assert list(a) == [6, 3, 2, 0]


def test_the_lanes_of_a_loop_end_with_it() -> None:
    def fail(a: Float, i: UInt, x: Float) -> None:
        assert lane_mask(4) is not None and lane_mask(3) is None and lane_mask(1) is None
        seen: list[Any] = []
        thread = threading.Thread(target=lambda: seen.append(lane_mask(4)))
        thread.start()
        thread.join()
        assert seen == [None]  # they are those of one thread
        raise KeyError("body")

    a = Float(1, 2, 3, 4)
    with pytest.raises(KeyError, match="body"):
        run(fail, a)
    assert lane_mask(4) is None
    a[:] = 5
    assert list(a) == [5, 5, 5, 5]


# --- gather and scatter ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("expression", "text"), [
    (lambda: dr.gather(Float, Float(1, 2, 3), np.array([2, 0])), "[3, 1]"),
    (lambda: dr.gather(Float, Float(1, 2, 3), range(2)), "[1, 2]"),
    (lambda: dr.gather(Float, Float(1, 2, 3), np.int64(2)), "[3]"),
    (lambda: dr.gather(Float, Float(1, 2, 3), UInt(0, 1), np.array([True, False])), "[1, 0]"),
    (lambda: dr.gather(Float, np.array([1.0, 2, 3]), UInt(2, 1)), "[3, 2]"),
    (lambda: dr.gather(Float, [1, 2.5, 3], UInt(2, 1)), "[3, 2.5]"),
    (lambda: dr.gather(Int, range(10), UInt(2, 1)), "[2, 1]"),
    (lambda: dr.gather(Array2f, np.arange(6.0), UInt(2, 1)), "[[4, 5],\n [2, 3]]"),
    (lambda: dr.gather(Array2f, np.array([[1.0, 2], [3, 4]]), UInt(1, 0)), "[[2, 4],\n [1, 3]]"),
    (lambda: dr.gather(scalar.ArrayXf, np.arange(4.0), [3, 0]), "[3, 0]"),
    (lambda: dr.gather(ArrayXf, Float(range(8)), UInt(0, 1), shape=(4, -1)), "[[0, 1, 2, 3],\n [4, 5, 6, 7]]"),
    (lambda: dr.gather(Float, Float(1, 2, 3), UInt(0, 1), shape=(2,)), "[1, 2]"),
    (lambda: dr.gather(Array3f, Float(range(9)), UInt(0, 1), shape=(3, 2)), "[[0, 1, 2],\n [3, 4, 5]]"),
    (lambda: dr.gather(list, [Float(1, 2, 3), Float(7)], UInt(2, 1)), "[[3, 2], [7, 7]]"),
])
def test_gather_takes_what_can_be_converted(expression, text: str) -> None:
    assert repr(expression()) == text


@pytest.mark.parametrize(("start", "code", "text"), [
    (lambda: dr.zeros(Float, 3), lambda a: dr.scatter(a, np.array([1.5, 2]), np.array([2, 0])), "[2, 0, 1.5]"),
    (lambda: dr.zeros(Float, 3), lambda a: dr.scatter(a, [1.5, 2], UInt(0, 1), [False, True]), "[0, 2, 0]"),
    (lambda: dr.zeros(Int, 3), lambda a: dr.scatter_add(a, np.array([1, 2]), [1, 1]), "[0, 3, 0]"),
    (lambda: dr.zeros(Float, 4), lambda a: dr.scatter(a, np.array([[1.0, 2], [3, 4]]), UInt(1, 0)), "[2, 4, 1, 3]"),
    (lambda: dr.zeros(Array2f, 2), lambda a: dr.scatter(a, np.array([[1.0], [2]]), UInt(1)), "[[0, 0],\n [1, 2]]"),
])
def test_scatter_takes_what_can_be_converted(start, code, text: str) -> None:
    a = start()
    code(a)
    assert repr(a) == text


@pytest.mark.parametrize(("dtype", "shape", "message"), [
    (Float, (3,), r"result, of type drjit\.llvm\.Float, has the shape \(2,\), which contradicts 'shape' \(\(3,\)\)"),
    (Float, (1, 2), "must have 1 entries"), (Array3f, (4, 2), r"\(3, 2\)"), (Array3f, (3, 5), r"\(3, 2\)"),
    (ArrayXf, (4,), "must have 2 entries"), (ArrayXf, (4, 3), r"\(4, 2\)"), (ArrayXf, (4, 1), r"\(4, 2\)"),
    (ArrayXf, (-1, 2), "only the last may be -1"), (Float, "ab", "'shape' must be a tuple of sizes"),
    (Float, (-2,), "'shape' must be a tuple of sizes"), (Float, (2.0,), "'shape' must be a tuple of sizes"),
])
def test_gather_refuses_shapes_that_contradict(dtype, shape, message: str) -> None:
    with pytest.raises(TypeError, match=r"drjit\.gather\(\)") as found:
        dr.gather(dtype, Float(range(12)), UInt(0, 1), shape=shape)
    with pytest.raises(TypeError, match=message):
        raise found.value


@pytest.mark.parametrize("access", [
    lambda a: a[UInt(3)], lambda a: a[Int(-4)], lambda a: a[dr.full(UInt, 3, 5)], lambda a: dr.gather(Float, a, 3),
    lambda a: dr.gather(Float, a, Int(-1)), lambda a: dr.gather(Float, a, 70), lambda a: dr.scatter(a, 1, 3),
    lambda a: dr.scatter_add(a, 1, UInt(1000)), lambda a: a.__setitem__(UInt(3), 1), lambda a: TensorXf(a)[UInt(3)],
    lambda a: dr.gather(Array3f, a, 1), lambda a: TensorXf([[1, 2]])[:, UInt(2)],
])
def test_an_index_that_is_known_is_checked(access) -> None:
    a = Float(1, 2, 3)
    with pytest.raises(IndexError, match="out of bounds"):
        access(a)
    assert list(a) == [1, 2, 3]


def test_an_index_that_is_masked_out_is_not_checked() -> None:
    assert list(dr.gather(Float, Float(1, 2), UInt(7), False)) == [0]
    assert list(dr.gather(Float, Float(1, 2), UInt(7), Bool(False, False))) == [0, 0]


# --- fractions -------------------------------------------------------------------------------------------------------

FRACTIONS: dict[str, Any] = {
    "float": 1.5, "float64": np.float64(1.5), "float32": np.float32(1.5), "Float": Float(1.5), "list": [1.5, 2],
    "tuple": (1, 2.5), "ndarray": np.array([1.5, 2]), "0-d": np.array(1.5), "half": np.array([1, 2], np.float16),
    "arrays": [Float(1.5), 2], "scalar": scalar.ArrayXf(1.5, 2), "buffer": memoryview(np.array([1.5, 2])),
}


@pytest.mark.parametrize("value", FRACTIONS.values(), ids=FRACTIONS.keys())
@pytest.mark.parametrize(("start", "write"), [
    (lambda: Int(1, 2), lambda a, v: a.__setitem__(0, v)),
    (lambda: Int(1, 2), lambda a, v: a.__setitem__(slice(None), v)),
    (lambda: Int(1, 2), lambda a, v: a.__setitem__(slice(0, 2), v)),
    (lambda: Bool(True, False), lambda a, v: a.__setitem__(..., v)),
    (lambda: Int(1, 2), lambda a, v: a.__setitem__(UInt(0, 1), v)),
    (lambda: Int(1, 2), lambda a, v: a.__setitem__([1, 0], v)),
    (lambda: Int(1, 2), lambda a, v: a.__setitem__(Bool(True, False), v)),
    (lambda: Int(1, 2), lambda a, v: dr.scatter(a, v, UInt(0, 1))),
    (lambda: Int(1, 2), lambda a, v: dr.scatter_add(a, v, [0, 1])),
    (lambda: Array3i([1, 2], 2, 3), lambda a, v: setattr(a, "x", v)),
    (lambda: Array3i([1, 2], 2, 3), lambda a, v: setattr(a, "zx", v)),
    (lambda: Array3i([1, 2], 2, 3), lambda a, v: a.__setitem__(1, v)),
    (lambda: Array2i([1, 2], 2), lambda a, v: a.__setitem__(slice(None), v)),
    (lambda: Array3i([1, 2], 2, 3), lambda a, v: a.__setitem__((0, slice(None)), v)),
    (lambda: Array3i([1, 2], 2, 3), lambda a, v: a.__setitem__((slice(None), 0), v)),
    (lambda: Array3i([1, 2], 2, 3), lambda a, v: a.__setitem__(Bool(True, False), v)),
    (lambda: dr.llvm.TensorXi([[1, 2], [3, 4]]), lambda a, v: a.__setitem__(0, v)),
    (lambda: dr.llvm.TensorXi([[1, 2], [3, 4]]), lambda a, v: a.__setitem__(slice(None), v)),
    (lambda: dr.llvm.TensorXi([[1, 2], [3, 4]]), lambda a, v: a.__setitem__(np.array([True, False]), v)),
    (lambda: dr.llvm.TensorXi([1, 2]), lambda a, v: setattr(a, "array", v)),
    (lambda: scalar.Array3i(1, 2, 3), lambda a, v: setattr(a, "x", v)),
    (lambda: scalar.ArrayXi(1, 2), lambda a, v: a.__setitem__(slice(None), v)),
    (lambda: scalar.Array3i(1, 2, 3), lambda a, v: a.__setitem__(scalar.ArrayXu(0, 1), v)),
])
def test_no_assignment_cuts_fractions(start, write, value) -> None:
    a = start()
    before = repr(a)
    with pytest.raises(TypeError):
        write(a, value)
    assert repr(a) == before


@pytest.mark.parametrize(("make", "message"), [
    (lambda: Int(np.array([2**40])), r"Int.__init__\(\): .* 1099511627776 at position 0 of an array of type 'int64'"),
    (lambda: Int(np.array([1, 2**40, -2**40])), "1099511627776 at position 1"),
    (lambda: UInt(np.array([3, -1])), "-1 at position 1"),
    (lambda: Int(np.array([1, 2**31], np.uint32)), "2147483648 at position 1"),
    (lambda: dr.llvm.Int8(np.array([300, 1], np.uint16)), "300 at position 0"),
    (lambda: dr.llvm.UInt64(np.array([1, -1])), "-1 at position 1"),
    (lambda: dr.llvm.Int64(np.array([1, 2**63], np.uint64)), "at position 1"),
    (lambda: Int(np.array([1.5, np.nan])), "nan at position 1"),
    (lambda: Int(np.array([1.5, np.inf])), "inf at position 1"),
    (lambda: Int(np.array([1, 3e9])), "3000000000.0 at position 1"),
    (lambda: UInt(np.array([1.5, -1.0])), "-1.0 at position 1"),
    (lambda: dr.llvm.Int64(np.array([1.0, 2.0**63])), "at position 1"),
    (lambda: dr.llvm.UInt64(np.array([1.0, 2.0**64])), "at position 1"),
    (lambda: Array2i(np.array([[1, 2], [3, 2**40]])), r"Array2i.__init__.* at position \(1, 1\)"),
    (lambda: dr.llvm.TensorXi(np.array([[1, 2], [3, 2**40]])), r"TensorXi.__init__.* at position \(1, 1\)"),
    (lambda: scalar.ArrayXi(np.array([1, 2**40])), r"ArrayXi.__init__.* at position 1"),
    (lambda: Int(1, 2).__setitem__(slice(None), np.array([1, 2**40])), "1099511627776 at position 1"),
    (lambda: dr.gather(Float, Float(1, 2), np.array([0, -1])), "-1 at position 1"),
])
def test_what_does_not_fit_into_an_integer_type_is_named(make, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize(("make", "expected"), [
    (lambda: Int(np.array([1.5, -2.9])), [1, -2]), (lambda: UInt(np.array([-0.5, 2**32 - 1])), [0, 2**32 - 1]),
    (lambda: dr.llvm.Int64(np.array([-2**63, 2**63 - 1])), [-2**63, 2**63 - 1]),
    (lambda: dr.llvm.Int64(np.array([-2.0**63, 2.0**62])), [-2**63, 2**62]),
    (lambda: Int(np.array([-2**31, 2**31 - 1])), [-2**31, 2**31 - 1]), (lambda: Int(np.array([True, False])), [1, 0]),
    (lambda: dr.llvm.Int8(np.array([127.9, -128.9])), [127, -128]), (lambda: UInt(np.array([], float)), []),
    (lambda: dr.llvm.UInt64(np.array([2**63, 1], np.uint64)), [2**63, 1]), (lambda: UInt(np.arange(3)), [0, 1, 2]),
])
def test_numpy_arrays_in_the_range_of_an_integer_type_are_converted(make, expected) -> None:
    assert list(make()) == expected
