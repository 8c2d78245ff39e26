"""Scans, sorts, positions of extremes, medians and compression of arrays, against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit_core as core
from drjit import llvm, scalar

TYPES = [llvm.Float, llvm.Float64, llvm.Float16, llvm.Int, llvm.UInt, llvm.Int64, llvm.UInt64, llvm.Int8, llvm.UInt8]
NAN = math.nan


def sample(cls: Any, size: int, seed: int = 0) -> tuple[Any, np.ndarray[Any, Any]]:
    numbers = np.random.default_rng(seed + size).integers(0, 3, size).astype(dr.zeros(cls, 1).numpy().dtype)
    return cls(numbers), numbers


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("size", [0, 1, 2, 100, 20_000])
def test_flat_arrays_are_as_in_numpy(cls: Any, size: int) -> None:
    x, numbers = sample(cls, size)
    if size and numbers.dtype.itemsize > 2:
        np.testing.assert_array_equal(dr.cumsum(x).numpy(), np.cumsum(numbers, dtype=numbers.dtype))
        np.testing.assert_array_equal(dr.prefix_sum(x).numpy(), np.cumsum(numbers, dtype=numbers.dtype) - numbers)
    np.testing.assert_array_equal(dr.sort(x).numpy(), np.sort(numbers))
    order = dr.argsort(x)
    assert type(order) is dr.uint32_array_t(cls)
    np.testing.assert_array_equal(order.numpy(), np.argsort(numbers, kind="stable"))
    if size:
        assert dr.argmin(x)[0] == np.argmin(numbers) and dr.argmax(x)[0] == np.argmax(numbers)
        assert dr.median(x)[0] == np.sort(numbers)[(size - 1) // 2]
    np.testing.assert_array_equal(dr.compress(llvm.Bool(numbers > 1)).numpy(), np.flatnonzero(numbers > 1))


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 4), (4, 1, 5), (2, 3, 40), (40, 30, 2), (0, 3), (3, 0)])
def test_tensors_are_as_in_numpy_along_any_axis(shape: tuple[int, ...]) -> None:
    numbers = np.random.default_rng(len(shape)).permutation(math.prod(shape)).reshape(shape).astype(np.int32)
    t = llvm.TensorXi(numbers)
    for axis in range(-len(shape), len(shape)):
        np.testing.assert_array_equal(dr.cumsum(t, axis=axis).numpy(), np.cumsum(numbers, axis=axis))
        np.testing.assert_array_equal(dr.cumsum(t, axis=axis, reverse=True).numpy(),
                                      np.flip(np.cumsum(np.flip(numbers, axis), axis=axis), axis))
        np.testing.assert_array_equal(dr.sort(t, axis=axis).numpy(), np.sort(numbers, axis=axis))
        np.testing.assert_array_equal(dr.argsort(t, axis=axis, descending=True).numpy(),
                                      np.argsort(-numbers, axis=axis, kind="stable"))
        if shape[axis]:
            for function, reference in ((dr.argmin, np.argmin), (dr.argmax, np.argmax)):
                for keepdims in (False, True):
                    found = function(t, axis=axis, keepdims=keepdims)
                    np.testing.assert_array_equal(found.numpy(), reference(numbers, axis=axis, keepdims=keepdims))
            place = (shape[axis] - 1) // 2
            np.testing.assert_array_equal(dr.median(t, axis=axis).numpy(),
                                          np.take(np.sort(numbers, axis=axis), place, axis=axis))
            found, where = dr.median(t, axis=axis, keepdims=True, return_index=True)
            np.testing.assert_array_equal(np.take_along_axis(numbers, where.numpy().astype(np.int64), axis),
                                          found.numpy())
    if numbers.size:
        assert dr.argmin(t).numpy() == np.argmin(numbers) and dr.argmax(t).shape == (1,)
        assert dr.argmin(t, keepdims=True).shape == (1,) * len(shape)
        assert dr.median(t, axis=None).numpy() == np.sort(numbers, axis=None)[(numbers.size - 1) // 2]


def test_several_axes_are_scanned_one_after_the_other() -> None:
    numbers = np.arange(24).reshape(2, 3, 4)
    found = dr.cumsum(llvm.TensorXi(numbers), axis=(0, -1))
    np.testing.assert_array_equal(found.numpy(), numbers.cumsum(0).cumsum(2))


def test_nan_comes_last_and_zeros_are_equal() -> None:
    x = llvm.Float(3, NAN, 0.0, -NAN, -0.0, -math.inf)
    assert dr.argsort(x).numpy().tolist() == [5, 2, 4, 0, 1, 3]
    assert dr.argsort(x, descending=True).numpy().tolist() == [1, 3, 0, 2, 4, 5]
    assert dr.argmin(llvm.Float(NAN, 2, 1)).numpy().tolist() == [2]
    assert dr.argmax(llvm.Float(NAN, NAN)).numpy().tolist() == [0]
    assert dr.argmax(llvm.Array3f(llvm.Float(NAN, 1), llvm.Float(2, 0), llvm.Float(1, NAN)), axis=0).numpy().tolist() \
        == [1, 0]


def test_nested_arrays() -> None:
    v = llvm.Array3f(llvm.Float(1, 2), llvm.Float(0, 3), llvm.Float(2, 1))
    assert repr(dr.cumsum(v)) == repr(llvm.Array3f(llvm.Float(1, 2), llvm.Float(1, 5), llvm.Float(3, 6)))
    assert repr(dr.cumsum(v, axis=1)) == repr(llvm.Array3f(llvm.Float(1, 3), llvm.Float(0, 3), llvm.Float(2, 3)))
    assert repr(dr.sort(v, descending=True)) == repr(llvm.Array3f(llvm.Float(2, 1), llvm.Float(3, 0), llvm.Float(2, 1)))
    assert dr.argmin(v).numpy().tolist() == [2] and dr.argmax(v, axis=0).numpy().tolist() == [2, 1]
    assert type(dr.argsort(v)) is llvm.Array3u


def test_half_precision_is_scanned_in_single_precision() -> None:
    ones = [llvm.Float16(1.0)] * 3
    assert dr.cumsum(dr.full(llvm.Float16, 0.0625, 40_000)).numpy()[-1] == 2500
    assert dr.cumsum(llvm.Array3f16(2048.0, *ones[:2])).numpy().reshape(-1).tolist() == [2048, 2048, 2050]


def test_blocks() -> None:
    x = llvm.UInt(1, 2, 3, 4, 5)
    assert dr.block_prefix_sum(x, 2).numpy().tolist() == [0, 1, 0, 3, 0]
    assert dr.block_prefix_reduce(dr.ReduceOp.Mul, x, 3, exclusive=False, reverse=True).numpy().tolist() == \
        [6, 6, 3, 20, 5]
    tree = dr.block_prefix_sum({"a": x, "b": 7, "c": [scalar.ArrayXf(1, 2, 3, 4)]}, 2)
    assert tree["a"].numpy().tolist() == [0, 1, 0, 3, 0] and tree["b"] == 7 and list(tree["c"][0]) == [0, 1, 0, 3]
    assert dr.block_prefix_sum(llvm.TensorXf([[1, 2], [3, 4]]), 2).numpy().tolist() == [[0, 1], [0, 3]]


def test_sequences_and_numbers_of_python() -> None:
    assert dr.cumsum([1, 2, 3]) == [1, 3, 6] and dr.prefix_sum((1, 2.5, 3), reverse=True) == [5.5, 3, 0]
    assert dr.prefix_reduce(dr.ReduceOp.Min, [3, 2, 1.0]) == [math.inf, 3, 2]
    assert [entry.numpy().tolist() for entry in dr.cumsum([llvm.Float(1, 2), llvm.Float(3, 4)])] == [[1, 2], [4, 6]]
    assert dr.median([5, 1, 2, 9]) == 2 and dr.median([3, NAN, 2], return_index=True) == (3, 0)


def test_the_scalar_backend() -> None:
    x = scalar.ArrayXf(3, NAN, 1, 2)
    assert list(dr.sort(x))[:3] == [1, 2, 3] and list(dr.argsort(x)) == [2, 3, 0, 1]
    assert list(dr.argsort(scalar.Array3f(1, 0, 1), descending=True)) == [0, 2, 1]
    assert dr.argmin(x) == 2 and dr.argmax(scalar.Array3f(1, 5, 2)) == 1
    assert list(dr.cumsum(scalar.Array3f(1, 2, 3))) == [1, 3, 6]
    assert list(dr.compress(scalar.ArrayXb(True, False, True))) == [0, 2]


def test_literals_and_unevaluated_arrays() -> None:
    assert dr.cumsum(dr.full(llvm.Float, 2, 4)).numpy().tolist() == [2, 4, 6, 8]
    assert dr.compress(dr.full(llvm.Bool, True, 3)).numpy().tolist() == [0, 1, 2]
    assert len(dr.compress(dr.full(llvm.Bool, False, 3))) == 0
    assert dr.argmax(dr.full(llvm.Float, 2, 4)).numpy().tolist() == [0]
    x = dr.arange(llvm.UInt, 1000)
    assert dr.gather(llvm.UInt, dr.cumsum(x * 2), dr.argmax(x & 511))[0] == 511 * 512


BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: dr.cumsum(llvm.Float(1), axis=1), TypeError, r"drjit.cumsum\(\): out-of-bounds axis \(got 1, ndim=1\)"),
    (lambda: dr.cumsum(llvm.TensorXf([[1]]), axis=(0, -2)), TypeError, "names an axis twice"),
    (lambda: dr.cumsum(llvm.Float(1), axis=None), TypeError, "'axis' must be an int, found NoneType"),
    (lambda: dr.cumsum(llvm.Bool(True)), TypeError, r"ReduceOp.Add is not defined for the elements of drjit.llvm.Bool"),
    (lambda: dr.prefix_reduce(dr.ReduceOp.Or, llvm.Float(1)), TypeError, "ReduceOp.Or is not defined"),
    (lambda: dr.prefix_reduce("add", llvm.Float(1)), TypeError, "'op' must be a drjit.ReduceOp, found str"),  # type: ignore[arg-type]
    (lambda: dr.prefix_reduce(dr.ReduceOp.Identity, llvm.Float(1)), TypeError, "no operation of reductions"),
    (lambda: dr.prefix_reduce(dr.ReduceOp.Add, llvm.Float(1), exclusive=1), TypeError, "'exclusive' must be a bool"),  # type: ignore[arg-type]
    (lambda: dr.cumsum(3), TypeError, "found int"),
    (lambda: dr.cumsum("abc"), TypeError, "found str"),
    (lambda: dr.block_prefix_sum(llvm.Float(1, 2), 0), ValueError, r"'block_size' must be an int >= 1, found 0"),
    (lambda: dr.block_prefix_sum(llvm.Float(1, 2), 3), RuntimeError, r"'block_size' \(3\) exceeds the number of elem"),
    (lambda: dr.block_prefix_sum(llvm.Float(1, 2), 1.5), TypeError, "'block_size' must be an int, found float"),  # type: ignore[arg-type]
    (lambda: dr.sort([1, 2]), TypeError, r"drjit.sort\(\): 'value' must be a Dr.Jit array or tensor, found list"),  # type: ignore[type-var]
    (lambda: dr.argsort(llvm.Float(1), axis=1), TypeError, r"drjit.argsort\(\): out-of-bounds axis"),
    (lambda: dr.sort(llvm.Array3f(1), axis=0), TypeError, "sorted along its last axis only"),
    (lambda: dr.sort(llvm.Float(1), descending=1), TypeError, "'descending' must be a bool"),  # type: ignore[arg-type]
    (lambda: dr.argmin(llvm.Float()), RuntimeError, r"drjit.argmin\(\): there is no such position among no elements"),
    (lambda: dr.argmax(llvm.TensorXf(llvm.Float(), (2, 0)), axis=1), RuntimeError, "among no elements"),
    (lambda: dr.argmax(llvm.TensorXf([[1]]), axis=2), TypeError, "out-of-bounds axis"),
    (lambda: dr.median(llvm.Float()), RuntimeError, "among no elements"),
    (lambda: dr.compress(llvm.Float(1)), TypeError, "must be a flat array of masks, found drjit.llvm.Float"),
    (lambda: dr.compress(llvm.TensorXb([True])), TypeError, "must be a flat array of masks"),
    (lambda: dr.compress(True), TypeError, "must be a flat array of masks, found bool"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_bad_input_is_named(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("call", [dr.cumsum, dr.sort, dr.argsort, dr.argmin, dr.median, lambda x: dr.compress(x > 0)],
                         ids=["cumsum", "sort", "argsort", "argmin", "median", "compress"])
def test_symbolic_values_are_refused_in_words(call: Callable[[Any], Any]) -> None:
    def body(x: Any) -> Any:
        call(x)
        return (x + 1,)

    with pytest.raises(RuntimeError, match="symbolic"):
        dr.while_loop((llvm.Float(1, 2),), lambda x: x < 5, body)


def test_longer_rows_than_a_backend_goes_along_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU counts in 32 bits, a block's threads beyond the end."""
    limits = core.limits(llvm.Float._where)  # type: ignore[attr-defined]
    assert limits.row in (1 << 32, (1 << 32) - 256)
    monkeypatch.setattr(core, "limits", lambda where: limits._replace(row=3))
    for call in (dr.argmin, dr.argmax, dr.sort, dr.argsort):
        for value in (llvm.Float(4, 1, 2, 3), llvm.TensorXf([[4, 1, 2, 3]])):
            with pytest.raises(ValueError, match=rf"^drjit\.{call.__name__}\(\): positions among 4 elements do not fit "
                                                 r"into 32 bits \(on this backend, at most 3 elements do\)\.$"):
                call(value)
    with pytest.raises(ValueError, match=r"permutation\(\): positions among 4 elements do not fit into 32 bits"):
        dr.rng(0).permutation(llvm.UInt32, 4)
    assert dr.argmin(llvm.Float(4, 1, 2)) == 1
