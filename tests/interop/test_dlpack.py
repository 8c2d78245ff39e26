"""DLPack in both directions: versions, flags, devices, types, strides, lifetimes, and who may write to what."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import drjit as dr
from drjit import llvm
from drjit._arrays import dlpack
from drjit.interop import export_parts, import_parts, numpy_of_parts
from drjit.llvm import Array2f, Array3f, Complex2f, Complex2f64, Float, Float64, TensorXf, TensorXf16, TensorXf64
from drjit.llvm.ad import TensorXf as TensorXfad

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
          "float64"]
TENSORS = dict(zip(DTYPES, ["b", "i8", "u8", "i16", "u16", "i", "u", "i64", "u64", "f16", "f", "f64"], strict=True))


class Producer:
    """An object that speaks DLPack and nothing else; notes what it is asked for."""

    def __init__(self, array, device=(1, 0), **fields):
        self.array, self.device, self.fields, self.asked = array, device, fields, []

    def __dlpack__(self, **arguments):
        self.asked.append(arguments)
        capsule = self.array.__dlpack__(**arguments)
        name = dlpack._VERSIONED if arguments.get("max_version") else dlpack._NAME
        managed = dlpack._STRUCTURES[name].from_address(dlpack._capsule_pointer(id(capsule), name))
        for field, value in self.fields.items():
            setattr(managed if hasattr(managed, field) else managed.tensor, field, value)
        return capsule

    def __dlpack_device__(self):
        return self.device


class OldProducer:
    """A producer of version 0, which knows none of the newer parameters."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return (1, 0)


def address(array):
    return array.numpy().ctypes.data


def flags_of(capsule):
    managed = dlpack._DLManagedTensorVersioned.from_address(dlpack._capsule_pointer(id(capsule), dlpack._VERSIONED))
    return managed.major, managed.minor, managed.flags


# --- import ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("producer", [Producer, OldProducer])
def test_contiguous_arrays_are_imported_without_a_copy(dtype, producer):
    source = np.arange(6).reshape(2, 3).astype(dtype)
    tensor = getattr(llvm, f"TensorX{TENSORS[dtype]}")(producer(source))
    assert address(tensor) == source.ctypes.data
    assert tensor.shape == (2, 3) and tensor.numpy().dtype == dtype
    np.testing.assert_array_equal(tensor.numpy(), source)


def test_the_newest_version_is_asked_for():
    producer = Producer(np.ones(2))
    Float64(producer)
    assert producer.asked == [{"max_version": (1, 0)}]


VIEWS = {
    "every other one": lambda a: a[::2], "backwards": lambda a: a[::-1], "transposed": lambda a: a.T,
    "a column": lambda a: a[:, 1], "both backwards": lambda a: a[::-1, ::-2], "moved": lambda a: a[1:, 1:],
    "broadcast": lambda a: np.broadcast_to(a[:, :1], (4, 3)), "empty": lambda a: a[:0, ::-1],
    "one row": lambda a: a[2:3, 3:],
    "no axes": lambda a: a[1, 2, None][0, None].reshape(()), "three axes": lambda a: a.reshape(2, 2, 5)[:, ::-1, 1:4:2],
}


@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool", "complex64", "complex128"])
@pytest.mark.parametrize("view", VIEWS)
def test_views_of_any_strides_are_imported(view, dtype):
    source = VIEWS[view](np.arange(20).reshape(4, 5).astype(dtype))
    if dtype.startswith("complex"):
        source = VIEWS[view]((np.arange(20).reshape(4, 5) * (1 + 2j)).astype(dtype))
    parts = import_parts("f", Producer(source))
    assert len(parts) == 1 + dtype.startswith("complex") and {part.shape for part in parts} == {source.shape}
    np.testing.assert_array_equal(numpy_of_parts(parts), source)
    assert numpy_of_parts(parts).dtype == source.dtype


def test_rows_of_nested_arrays_are_imported_with_strides():
    source = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert repr(Array3f(Producer(source.T))) == repr(Array3f(source.T.copy()))
    assert list(Float(Producer(source[::-2, 1]))) == [10, 4]
    assert list(Array2f(Producer(source[::2, ::-1].T[:2])).x) == [2, 8]


def test_memory_that_is_not_aligned_is_copied():
    source = np.zeros(21, np.uint8)[1:].view(np.float32)
    source[:] = range(5)
    assert list(Float(Producer(source))) == [0, 1, 2, 3, 4]
    assert list(Float(Producer(source[::-2]))) == [4, 2, 0]
    with pytest.raises(ValueError, match=r"f.*copy=False.*multiples of their size"):
        import_parts("f", Producer(source), copy=False)


def test_complex_numbers_become_complex_arrays_and_nothing_else():
    source = np.array([1 + 2j, 3 - 1j], np.complex64)
    assert Complex2f(Producer(source)).numpy().tolist() == source.tolist()
    assert Complex2f64(Producer(source[::-1])).numpy().tolist() == source[::-1].tolist()
    for cls in (TensorXf, Float, Array2f):
        with pytest.raises(TypeError, match=rf"{cls.__name__}\.__init__.*complex numbers \(64 bits\)"):
            cls(Producer(source))


def test_imports_are_copied_before_they_are_written_to():
    source = np.arange(4, dtype=np.float32)
    tensor = TensorXf(Producer(source))
    other = TensorXf(Producer(source))
    tensor[1] = 100
    dr.scatter(other.array, Float(7), llvm.UInt(2))
    dr.eval(other)
    assert source.tolist() == [0, 1, 2, 3]
    assert tensor.numpy().tolist() == [0, 100, 2, 3] and other.numpy().tolist() == [0, 1, 7, 3]
    assert address(tensor) != source.ctypes.data


def test_nobody_can_write_to_foreign_memory_through_an_import():
    source = np.arange(4, dtype=np.float32)
    array = Float(Producer(source))
    assert not array.numpy().flags.writeable and array.memview().readonly and not np.asarray(array).flags.writeable
    assert not np.from_dlpack(array).flags.writeable and np.from_dlpack(array).ctypes.data == source.ctypes.data
    with pytest.raises(ValueError, match="read-only"):
        array.numpy()[0] = 5
    old = Float(OldProducer(OldConsumer(array)))  # it cannot be told, and so has a copy
    assert address(old) != source.ctypes.data
    own = Float(1, 2)
    assert own.numpy().flags.writeable and not own.memview().readonly and np.from_dlpack(own).flags.writeable
    array[0] = 1
    assert array.numpy().flags.writeable


class OldConsumer:
    """Hands on an array by the oldest form of the protocol."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **_):
        return self.array.__dlpack__()


def test_read_only_producers_are_imported():
    source = np.arange(3, dtype=np.float32)
    source.flags.writeable = False
    array = Float(Producer(source))
    assert address(array) == source.ctypes.data
    array[0] = 5
    assert source[0] == 0


@pytest.mark.parametrize("view", [slice(None), slice(None, None, -2)])
@pytest.mark.parametrize("producer", [Producer, OldProducer])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_imports_keep_the_producer_alive_and_let_it_go(view, producer, dtype):
    class Source(np.ndarray):
        pass

    source = np.arange(6).astype(dtype).view(Source)
    reference = weakref.ref(source)
    parts = import_parts("f", producer(source[view]))
    expected = np.array(source[view])
    del source
    gc.collect()
    assert reference() is not None
    np.testing.assert_array_equal(numpy_of_parts(parts), expected)
    del parts
    gc.collect()
    assert reference() is None


def test_copy_says_whether_memory_is_shared():
    source = np.arange(4, dtype=np.float32)
    shared, = import_parts("f", Producer(source), copy=False)
    assert address(shared) == source.ctypes.data
    for view in (source, source[::-1], source.astype(np.complex64)):
        parts = import_parts("f", Producer(view), copy=True)
        before = np.array(view)
        view[:] = 50
        np.testing.assert_array_equal(numpy_of_parts(parts), before)
        view[:] = before
        assert all(part.numpy().flags.writeable for part in parts)
    with pytest.raises(ValueError, match=r"copy=False.*side by side in C order"):
        import_parts("f", Producer(source[::-1]), copy=False)
    with pytest.raises(ValueError, match=r"copy=False.*real and imaginary parts"):
        import_parts("f", Producer(source.astype(np.complex64)), copy=False)
    with pytest.raises(ValueError, match=r"copy=False.*__dlpack__\(\)' has made one"):
        import_parts("f", Producer(source, flags=2), copy=False)
    with pytest.raises(ValueError, match="boom"):
        import_parts("f", Fails(ValueError("boom")), copy=False)
    with pytest.raises(TypeError, match="boom"):
        import_parts("f", Fails(TypeError("boom")))


class Fails:
    def __init__(self, error):
        self.error = error

    def __dlpack__(self, **_):
        raise self.error


# --- what cannot be imported -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("device", "name"), [(2, "CUDA"), (10, "ROCm"), (99, "unknown")])
def test_other_devices_are_refused(device, name):
    for producer in (Producer(np.ones(2), device=(device, 3)), Producer(np.ones(2), device_type=device, device_id=3)):
        message = rf"Float64\.__init__.*not in the memory of the CPU.*\({device}, 3\).*{name}"
        with pytest.raises(BufferError, match=message):
            Float64(producer)
    assert list(Float64(Producer(np.ones(2), device=(3, 0), device_type=3))) == [1, 1]  # page-locked memory


@pytest.mark.parametrize(("fields", "found"), [
    ({"code": 4, "bits": 32}, "bfloat32"), ({"code": 2, "bits": 128}, "float128"), ({"code": 0, "bits": 4}, "int4"),
    ({"code": 3, "bits": 64}, "handle64"), ({"code": 10, "bits": 8}, "code 10, 8"), ({"lanes": 4}, "float64, 4 lanes"),
    ({"code": 5, "bits": 32}, "complex32"),
])
def test_other_types_of_elements_are_refused_by_their_names(fields, found):
    for make in (Float64, TensorXf, lambda value: import_parts("f", value)):
        with pytest.raises(TypeError, match=f"unsupported type \\({found}"):
            make(Producer(np.ones(2), **fields))


def test_newer_versions_are_refused():
    with pytest.raises(BufferError, match=r"version 2\.1 of DLPack"):
        Float64(Producer(np.ones(2), major=2, minor=1))
    assert list(Float64(Producer(np.ones(2), minor=7))) == [1, 1]


@pytest.mark.parametrize("options", [{}, {"max_version": (1, 0)}])
def test_capsules_can_be_consumed_once(options):
    class Same:
        capsule = Float(1, 2).__dlpack__(**options)

        def __dlpack__(self, **_):
            return self.capsule

    assert list(Float(Same())) == [1, 2]
    with pytest.raises(BufferError, match=r"Float\.__init__.*has been consumed before"):
        Float(Same())
    capsule = Float(3, 4).__dlpack__(**options)
    assert import_parts("f", capsule)[0].numpy().tolist() == [3, 4]
    with pytest.raises(BufferError, match=r"f.*consumed"):
        import_parts("f", capsule)
    with pytest.raises(TypeError, match="no capsule named 'dltensor'"):
        import_parts("f", 5)


def test_capsules_that_are_refused_are_released():
    before = len(dlpack._exported)
    with pytest.raises(BufferError):
        Float(Producer(Float(1, 2), major=2))
    gc.collect()
    assert len(dlpack._exported) == before


# --- export ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 3), (2, 0)])
def test_exports_speak_the_version_that_the_consumer_knows(version):
    array = Float(1, 2, 3)
    capsule = array.__dlpack__(max_version=version)
    assert ("dltensor_versioned" in repr(capsule)) == (version is not None and version >= (1, 0))
    if version is not None and version >= (1, 0):
        assert flags_of(capsule) == (1, 0, 0)
    before = len(dlpack._exported)
    imported = import_parts("f", capsule)[0]
    assert address(imported) == address(array)
    del capsule, imported
    gc.collect()
    assert len(dlpack._exported) == before - 1


def test_flags_say_what_is_a_copy_and_what_is_read_only():
    source, array = np.arange(3, dtype=np.float32), Float(1, 2)
    known = {"max_version": (1, 0)}
    assert flags_of(array.__dlpack__(**known, copy=True))[2] == 2
    assert flags_of(Array3f(1, array, 3).__dlpack__(**known))[2] == 2
    foreign = Float(Producer(source))
    assert flags_of(foreign.__dlpack__(**known))[2] == 1
    assert flags_of(foreign.__dlpack__(**known, copy=True))[2] == 2
    with pytest.raises(BufferError, match=r"version 1 of DLPack.*copy=False"):
        foreign.__dlpack__(copy=False)
    assert np.from_dlpack(array, copy=True).ctypes.data % 256 == 0


def test_exports_refuse_what_they_cannot_do():
    for array in (Float(1), TensorXf([[1]]), Array3f(1)):
        for options, message in (({"stream": 3}, "stream=3"), ({"dl_device": (2, 0)}, r"dl_device=\(2, 0\)"),
                                 ({"dl_device": (1, 1)}, "dl_device")):
            with pytest.raises(BufferError, match=f"__dlpack__.*{message}"):
                array.__dlpack__(**options)
        assert "dltensor" in repr(array.__dlpack__(stream=None, dl_device=(1, 0)))
    with pytest.raises(BufferError, match="nested arrays cannot be exported without a copy"):
        Array3f(1).__dlpack__(copy=False)


def test_unused_capsules_of_both_versions_release_their_memory():
    before = len(dlpack._exported)
    capsules = [Float(1, 2).__dlpack__(), Float(1, 2).__dlpack__(max_version=(1, 0))]
    assert len(dlpack._exported) == before + 2
    del capsules
    assert len(dlpack._exported) == before


@pytest.mark.parametrize("make", [lambda: Complex2f([1, 2], [3, 4]), lambda: Complex2f64(1, 2)])
def test_complex_arrays_are_exported_as_complex_numbers_and_copied_where_asked(make):
    array = make()
    for options in ({}, {"copy": True}):
        found = np.from_dlpack(array, **options)
        assert found.dtype.kind == "c" and found.tolist() == array.numpy().tolist()


# --- parts -----------------------------------------------------------------------------------------------------------


def test_parts_are_exported_without_a_copy_and_as_read_only():
    tensor = TensorXf([[1, 2], [3, 4]]) + 1
    capsule = export_parts("f", [tensor], max_version=(1, 0))
    assert flags_of(capsule)[2] == 1
    assert address(import_parts("g", capsule)[0]) == address(tensor)
    assert address(import_parts("g", export_parts("f", [tensor]))[0]) == address(tensor)
    assert not numpy_of_parts([tensor]).flags.writeable
    foreign = TensorXf(Producer(np.ones(3, np.float32)))
    assert address(import_parts("g", export_parts("f", [foreign]))[0]) != address(foreign)
    assert flags_of(export_parts("f", [tensor], max_version=(1, 0), copy=True))[2] == 2


@pytest.mark.parametrize(("cls", "dtype"), [(TensorXf, "complex64"), (TensorXf64, "complex128"),
                                            (TensorXf16, "complex64")])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_two_parts_are_interleaved(cls, dtype, shape):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    parts = [cls(values.astype(np.float64)), cls(-values.astype(np.float64))]
    found = numpy_of_parts(parts)
    assert found.dtype == dtype and found.shape == shape
    np.testing.assert_array_equal(found, values - 1j * values)
    capsule = export_parts("f", parts, max_version=(1, 0))
    assert flags_of(capsule)[2] == 2
    np.testing.assert_array_equal(numpy_of_parts(import_parts("f", capsule)), found)
    with pytest.raises(BufferError, match=r"f.*copy=False"):
        export_parts("f", parts, copy=False)


def test_imported_parts_track_derivatives():
    part, = import_parts("f", Producer(np.arange(3, dtype=np.float32)[::-1]))
    assert isinstance(part, TensorXfad)
    dr.enable_grad(part)
    dr.backward(dr.sum(part * part))
    assert part.grad.numpy().tolist() == [4, 2, 0]
