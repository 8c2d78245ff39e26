"""Exchange with NumPy, memory views and DLPack."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm
from drjit.llvm import Array2f, Array3f, Bool, Float, Float16, Int
from tests.interop.harness import from_dlpack

FLAT = {"Bool": "bool", "Int8": "int8", "UInt8": "uint8", "Int16": "int16", "UInt16": "uint16", "Int": "int32",
        "UInt": "uint32", "Int64": "int64", "UInt64": "uint64", "Float16": "float16", "Float": "float32",
        "Float64": "float64"}


class Exporter:
    """An object that speaks DLPack and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **arguments: object) -> object:
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize(("name", "dtype"), FLAT.items())
def test_round_trips_of_every_type(name: str, dtype: str) -> None:
    cls, values = getattr(llvm, name), np.array([0, 1, 1, 0, 1]).astype(dtype)
    array = cls(values)
    for result in (array.numpy(), np.asarray(array), from_dlpack(array)):
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, values)
    assert list(array) == values.tolist()
    assert [array[k] for k in range(5)] == values.tolist()
    if name != "Bool":  # NumPy refuses to export masks in some versions
        assert list(cls(Exporter(values))) == values.tolist()


def test_exports_of_flat_arrays_share_memory_and_show_later_writes() -> None:
    for make in (lambda: Float(1, 2, 3), lambda: dr.zeros(Float, 3), lambda: Float(0, 1, 2) + 1):
        array = make()
        view, other = array.numpy(), from_dlpack(array)
        array[1] = 9
        assert view[1] == 9
        assert other[1] == 9
        assert array.memview()[1] == 9


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("export", [lambda array: array.numpy(), from_dlpack, lambda array: array.memview()])
def test_writes_to_others_that_share_the_memory_do_not_show_when_the_array_is_gone(
        export: Callable[[Float], Any], copied: bool) -> None:
    array = dr.arange(Float, 3) * 2 + 5
    view = export(Float(array) if copied else dr.arange(Float, 3) * 2 + 5)
    array[0] = 1
    dr.scatter(array, 2, llvm.UInt(1))
    assert (view.tolist(), list(array)) == ([5, 7, 9], [1, 2, 9])


def test_exports_outlive_the_array() -> None:
    array = Float(1, 2, 3) + 1
    view, other, memory = array.numpy(), from_dlpack(array), array.memview()
    del array
    gc.collect()
    _ = [Float(range(3)) + k for k in range(10)]
    dr.eval(_)
    assert view.tolist() == other.tolist() == memory.tolist() == [2, 3, 4]


def test_nested_arrays_are_exported_in_c_order() -> None:
    v = Array3f([1, 2], 3, 4)
    expected = np.array([[1, 2], [3, 3], [4, 4]], dtype=np.float32)
    for result in (v.numpy(), np.array(v), from_dlpack(v), np.asarray(v.memview())):
        np.testing.assert_array_equal(result, expected)
    assert v.numpy().flags.c_contiguous


def test_conversion_and_copy_requests_of_numpy() -> None:
    a = Float(1, 2)
    assert np.array(a, dtype=np.float64).dtype == np.float64
    copy = np.array(a, copy=True)
    a[0] = 5
    assert copy[0] == 1
    with pytest.raises(ValueError, match="without a copy"):
        a.__array__(np.float64, copy=False)
    assert np.sin(Float(0)).tolist() == [0]


def test_empty_arrays() -> None:
    assert Float().numpy().shape == (0,)
    assert Array3f().numpy().shape == (3, 0)
    assert from_dlpack(Float()).shape == (0,)
    assert Float().memview().tolist() == []


def test_dlpack_import_shares_memory_until_it_is_written() -> None:
    source = np.arange(5, dtype=np.float32)
    array = Float(Exporter(source))
    source[0] = 7
    assert list(array) == [7, 1, 2, 3, 4]
    array[1] = 100
    assert source[1] == 1
    assert list(array) == [7, 100, 2, 3, 4]


def test_dlpack_import_converts_and_unpacks() -> None:
    assert list(Float(Exporter(np.arange(3.0)))) == [0, 1, 2]
    assert repr(Array2f(Exporter(np.arange(6, dtype=np.float32).reshape(2, 3)))) == "[[0, 3],\n [1, 4],\n [2, 5]]"
    with pytest.raises(TypeError, match=r"Float\.__init__.*2 dimensions"):
        Float(Exporter(np.zeros((2, 2), dtype=np.float32)))


def test_dlpack_keeps_the_producer_alive_and_lets_it_go() -> None:
    class Source(np.ndarray):
        pass

    source = np.arange(4, dtype=np.float32).view(Source)
    reference = weakref.ref(source)
    array = Float(Exporter(source))
    del source
    gc.collect()
    assert reference() is not None
    assert list(array) == [0, 1, 2, 3]
    del array
    gc.collect()
    assert reference() is None


def test_unused_capsules_release_their_memory() -> None:
    from drjit._arrays import dlpack as _dlpack

    before = len(_dlpack._exported)
    capsule = Float(1, 2).__dlpack__()
    assert len(_dlpack._exported) == before + 1
    del capsule
    assert len(_dlpack._exported) == before


def test_dlpack_refusals() -> None:
    assert Float(1).__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="stream"):
        Float(1).__dlpack__(stream=3)
    with pytest.raises(BufferError, match="dl_device"):
        Float(1).__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="copy"):
        Array3f(1).__dlpack__(copy=False)


def test_half_precision_and_masks() -> None:
    assert Float16(1, 2.5).numpy().tolist() == [1, 2.5]
    assert Bool(True, False).memview().tolist() == [True, False]
    assert list(Float16(1, 2.5) + 1) == [2, 3.5]
    assert Int(3, 4).numpy().tolist() == [3, 4]
