"""Arrays of drjit.array_api in and out: DLPack, NumPy, the buffer protocol."""

from __future__ import annotations

import gc
import warnings
import weakref

import numpy as np
import pytest

import drjit as dr
import drjit.array_api._array
from drjit.array_api import _dlpack
from drjit.array_api import _dtypes as dtypes
from drjit.array_api._data import Storage, wrap
from drjit.interop import import_parts

ALL = list(dtypes.ALL)
REAL = [name for name in ALL if dtypes.ALL[name].kind != "c"]
SHAPES = [(), (1,), (3,), (2, 3), (0, 2), (2, 1, 3)]


def values(name, shape):
    numbers = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    found = numbers * (1 + 2j) if name.startswith("complex") else numbers % 2 if name == "bool" else numbers
    return np.asarray(found).astype(name)


def array_of(found):
    """An array of this namespace with the elements of one of NumPy, all of its own."""
    dtype = dtypes.of_numpy(found.dtype)
    if dtype.kind == "c":
        return wrap(dtype, *[dtype.tensor(part.copy()) for part in (found.real, found.imag)])
    return wrap(dtype, dtype.tensor(found))


class Exported:
    """What a consumer sees of an array: the methods that are attached to the class."""

    def __init__(self, array, **fixed):
        self.array, self.fixed = array, fixed

    def __dlpack__(self, **arguments):
        return _dlpack.dlpack(self.array, **{**arguments, **self.fixed})

    def __dlpack_device__(self):
        return _dlpack.dlpack_device(self.array)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ALL)
def test_round_trips(name, shape):
    expected = values(name, shape)
    for make in (array_of, lambda found: _dlpack.from_dlpack(found)):
        array = make(expected)
        assert isinstance(array, Storage) and array.dtype == dtypes.ALL[name] and array.shape == shape
        for found in (_dlpack.array_of(array), np.from_dlpack(Exported(array)), np.asarray(_dlpack.buffer(array, 0)),
                      _dlpack.array_of(_dlpack.from_dlpack(Exported(array))), _dlpack.array_of(array, copy=True)):
            assert found.dtype == name and found.shape == shape
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", REAL)
def test_real_arrays_are_exported_without_a_copy(name):
    array = array_of(values(name, (4, 5)))
    address = array._parts[0].numpy().ctypes.data
    for options in ({}, {"copy": False}):
        assert np.from_dlpack(Exported(array, **options)).ctypes.data == address
        assert _dlpack.array_of(array, **options).ctypes.data == address
    assert np.asarray(_dlpack.buffer(array, 0)).ctypes.data == address
    assert _dlpack.from_dlpack(Exported(array))._parts[0].numpy().ctypes.data == address
    for copied in (np.from_dlpack(Exported(array), copy=True), _dlpack.array_of(array, copy=True)):
        assert copied.ctypes.data != address and copied.flags.writeable


@pytest.mark.parametrize("name", REAL)
def test_real_arrays_are_imported_without_a_copy(name):
    source = values(name, (4, 5))
    for options in ({}, {"copy": False}, {"device": "cpu"}):
        assert _dlpack.array_of(_dlpack.from_dlpack(source, **options)).ctypes.data == source.ctypes.data
    copied = _dlpack.from_dlpack(source, copy=True)
    source[...] = 0
    np.testing.assert_array_equal(_dlpack.array_of(copied), values(name, (4, 5)))


@pytest.mark.parametrize("name", ["complex64", "complex128", "float64", "bool"])
def test_views_are_imported(name):
    source = values(name, (4, 6))
    for view in (source.T, source[::-1, ::2], source[:, 3], source[2:2]):
        array = _dlpack.from_dlpack(view)
        np.testing.assert_array_equal(_dlpack.array_of(array), view)
        np.testing.assert_array_equal(_dlpack.array_of(_dlpack.from_dlpack(view, copy=True)), view)
        if view.size:
            with pytest.raises(ValueError, match=r"drjit\.array_api\.from_dlpack\(\): a copy is needed"):
                _dlpack.from_dlpack(view, copy=False)


def test_views_that_are_exported_cannot_be_written_to():
    array = array_of(values("float64", (3,)))
    same = wrap(array._dtype, array._parts[0] + 0)
    for found in (_dlpack.array_of(array), np.from_dlpack(Exported(array)), np.asarray(_dlpack.buffer(array, 0))):
        assert not found.flags.writeable
    with pytest.raises(BufferError, match=r"drjit\.array_api\.Array\.__buffer__\(\): the memory of arrays cannot be"):
        _dlpack.buffer(array, 1)
    assert _dlpack.array_of(same).tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_complex_arrays_that_are_exported_without_a_copy_take_over_the_memory(name):
    expected = values(name, (2, 3))
    array = array_of(expected)
    with pytest.raises(ValueError, match=r"__array__\(\): a copy is needed.*real and imaginary parts"):
        _dlpack.array_of(array, copy=False)
    found = np.from_dlpack(Exported(array, copy=False))
    assert not found.flags.writeable
    np.testing.assert_array_equal(found, expected)
    memory = found.view(expected.real.dtype).reshape(2, 3, 2)  # written to by force, to see who reads it
    memory.ctypes.data_as(np.ctypeslib.ctypes.POINTER(
        {8: np.ctypeslib.ctypes.c_float, 16: np.ctypeslib.ctypes.c_double}[expected.itemsize]))[0] = 70
    assert _dlpack.array_of(array)[0, 0] == 70 + 2j
    del found
    gc.collect()
    assert _dlpack.array_of(array)[0, 0] == 70 + 2j


def test_complex_arrays_keep_their_derivatives_when_they_are_exported():
    array = array_of(values("complex128", (2,)))
    before = array._parts
    dr.enable_grad(before)
    with pytest.warns(RuntimeWarning, match="tracks derivatives"):
        np.from_dlpack(Exported(array, copy=False))
    assert array._parts is not before
    dr.backward(dr.sum(array._parts[0] * array._parts[1]))
    assert before[0].grad.numpy().tolist() == [2, 4] and before[1].grad.numpy().tolist() == [1, 2]


@pytest.mark.parametrize("name", ["float32", "complex64"])
@pytest.mark.parametrize("call", [
    lambda array: _dlpack.array_of(array), lambda array: _dlpack.dlpack(array), lambda array: _dlpack.buffer(array, 0),
    lambda array: _dlpack.from_dlpack(with_method(array)),
], ids=["__array__", "__dlpack__", "__buffer__", "from_dlpack"])
def test_derivatives_end_with_a_warning(call, name):
    array = array_of(values(name, (2,)))
    call(array)
    dr.enable_grad(array._parts[-1])
    with pytest.warns(RuntimeWarning, match=r"drjit\.array_api\..*tracks derivatives, which end here") as found:
        call(array)
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = call(array)
    assert not isinstance(result, Storage) or not dr.grad_enabled(result._parts)


def with_method(array):
    """An array whose class has the method that is attached later."""
    class Attached(type(array)):
        __slots__ = ()
        __dlpack__ = _dlpack.dlpack

    return Attached(array._dtype, array._parts)


@pytest.mark.parametrize("name", ["int16", "complex128"])
@pytest.mark.parametrize("copy", [None, True, False])
def test_arrays_of_this_namespace_are_imported_as_they_are(name, copy):
    array = with_method(array_of(values(name, (2, 2))))
    found = _dlpack.from_dlpack(array, copy=copy)
    np.testing.assert_array_equal(_dlpack.array_of(found), _dlpack.array_of(array))
    shares = [part.numpy().ctypes.data == own.numpy().ctypes.data
              for part, own in zip(found._parts, array._parts, strict=True)]
    assert shares == [copy is not True] * len(shares)


def test_conversions_to_other_data_types():
    array = array_of(values("int32", (3,)))
    assert _dlpack.array_of(array, dtype=np.float64).dtype == np.float64
    assert _dlpack.array_of(array, np.int32, copy=False).dtype == np.int32
    with pytest.raises(ValueError, match=r"__array__\(\): a copy is needed.*its data type is int32, not float64"):
        _dlpack.array_of(array, np.float64, copy=False)
    assert _dlpack.array_of(array, "complex64", copy=True).tolist() == [1, 2, 3]


def test_imports_keep_the_producer_alive_and_let_it_go():
    class Source(np.ndarray):
        pass

    for name in ("float32", "complex64"):
        source = values(name, (3,)).view(Source)
        reference = weakref.ref(source)
        array = _dlpack.from_dlpack(source)
        del source
        gc.collect()
        assert reference() is not None
        assert _dlpack.array_of(array)[1] == values(name, (3,))[1]
        del array
        gc.collect()
        assert reference() is None


def test_what_cannot_be_exchanged():
    array = array_of(values("float64", (2,)))
    assert _dlpack.dlpack_device(array) == (1, 0)
    with pytest.raises(AttributeError, match=r"drjit\.array_api\.from_dlpack\(\): 'x' must have a method __dlpack__"):
        _dlpack.from_dlpack([1, 2])
    with pytest.raises(ValueError, match="no device 'gpu'"):
        _dlpack.from_dlpack(values("float64", (2,)), device="gpu")
    for options in ({"stream": 1}, {"dl_device": (2, 0)}):
        for other in (array, array_of(values("complex64", (2,)))):
            for copy in (None, False):
                with pytest.raises(BufferError, match=r"drjit\.array_api\.Array\.__dlpack__"):
                    _dlpack.dlpack(other, **options, copy=copy)

    class Elsewhere(Exported):
        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(BufferError, match=r"drjit\.array_api\.from_dlpack\(\): .*not in the memory of the CPU"):
        _dlpack.from_dlpack(Elsewhere(array))


@pytest.mark.parametrize("version", [None, (0, 0), (1, 0), (2, 0)])
@pytest.mark.parametrize("name", ["uint8", "complex64"])
@pytest.mark.parametrize("copy", [None, True, False])
def test_every_version_and_every_copy_are_answered(version, name, copy):
    expected = values(name, (2,))
    capsule = _dlpack.dlpack(array_of(expected), max_version=version, copy=copy, dl_device=(1, 0))
    parts = import_parts("f", capsule)
    np.testing.assert_array_equal(parts[0].numpy(), expected.real)
