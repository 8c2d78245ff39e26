"""Arrays of PyTorch, JAX and TensorFlow, in and out. Frameworks that are not installed are skipped."""

from __future__ import annotations

import functools
import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm import Array3f, BFloat16, Complex2f, Float, Matrix2f, TensorXf
from drjit.llvm.ad import Float as FloatAD
from tests.interop.harness import MODULES, array_of

DTYPES = {"b": "bool", "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i": "int32", "u": "uint32",
          "i64": "int64", "u64": "uint64", "f16": "float16", "f": "float32", "f64": "float64"}


def address(framework, value):
    """Where the elements of a framework's array are."""
    if framework == "torch":
        return value.data_ptr()
    return value.unsafe_buffer_pointer() if framework == "jax" else np.from_dlpack(value).ctypes.data


@pytest.mark.parametrize("suffix", DTYPES)
def test_tensors_are_exported_and_imported_without_copies(framework, suffix):
    cls = getattr(llvm, f"TensorX{suffix}")
    tensor = cls(np.arange(2000).reshape(20, 100).astype(DTYPES[suffix]))
    out = getattr(tensor, framework)()
    assert address(framework, out) == tensor.numpy().ctypes.data
    np.testing.assert_array_equal(np.asarray(out), tensor.numpy())
    assert np.asarray(out).dtype == DTYPES[suffix]
    own = array_of(framework, np.arange(6).reshape(2, 3).astype(DTYPES[suffix]))
    back = cls(own)
    assert back.numpy().ctypes.data == address(framework, own) and back.shape == (2, 3)
    np.testing.assert_array_equal(back.numpy(), np.asarray(own))


def test_exports_show_later_writes_to_the_array(framework):
    array = dr.zeros(Float, 64)
    out = getattr(array, framework)()
    array[3] = 5
    assert np.asarray(out)[3] == 5


def test_exports_outlive_the_array(framework):
    array = dr.arange(Float, 100) + 1
    out = getattr(array, framework)()
    del array
    gc.collect()
    dr.eval([dr.arange(Float, 100) * k for k in range(20)])
    assert np.asarray(out).tolist() == list(range(1, 101))


@pytest.mark.parametrize("array", [
    Array3f([1, 2], 3, 4), Matrix2f(1, 2, 3, 4), Complex2f([1, 2], [3, 4]), scalar.Array3f(1, 2, 3), Float(), Float(3),
    FloatAD(1, 2, 3), llvm.Quaternion4f(1, 2, 3, [4, 5]), llvm.TensorXf([], shape=(0, 3)), llvm.TensorXf(5.0),
], ids=lambda array: type(array).__name__ + str(array.shape))
def test_arrays_of_every_kind_are_exported(framework, array):
    out = np.asarray(getattr(array, framework)())
    np.testing.assert_array_equal(out, array.numpy())
    assert out.shape == array.numpy().shape and out.dtype == array.numpy().dtype


def test_imports_are_copied_before_they_are_written_to(framework):
    own = array_of(framework, np.arange(4, dtype=np.float32))
    array = Float(own)
    array[1] = 100
    assert np.asarray(own)[1] == 1 and list(array) == [0, 100, 2, 3]


def test_nested_and_complex_arrays_are_imported(framework):
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(Array3f(array_of(framework, values)).numpy(), values)
    numbers = np.array([1 + 2j, 3 - 1j], np.complex64)
    np.testing.assert_array_equal(Complex2f(array_of(framework, numbers)).numpy(), numbers)


def test_memory_of_others_goes_through_without_a_copy_where_nobody_writes(framework):
    source = np.zeros(64 + 16, np.float32)
    start = -(source.ctypes.data // 4) % 16
    source = source[start:start + 64]  # at a multiple of 64 bytes
    array = Float(np.from_dlpack(source))
    assert array.numpy().ctypes.data != source.ctypes.data  # constructors copy what is NumPy's
    imported = TensorXf(memoryview_of(source))
    out = getattr(imported, framework)()
    assert (address(framework, out) == source.ctypes.data) == (framework != "torch")
    if framework == "torch":
        out[0] = 5
        assert source[0] == 0


class memoryview_of:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return (1, 0)


def test_memory_at_any_address_can_be_exported(framework):
    source = np.arange(80, dtype=np.float32)
    for start in range(1, 5):
        array = Float(memoryview_of(source[start:]))
        out = getattr(array, framework)()
        np.testing.assert_array_equal(np.asarray(out + out), 2 * source[start:])


def test_bfloat16_crosses(framework):
    own = array_of(framework, np.array([1, 2.5, -3], np.float32))
    if framework == "torch":
        import torch

        own = own.to(torch.bfloat16)
    elif framework == "jax":
        own = own.astype("bfloat16")
    else:
        import tensorflow

        own = tensorflow.cast(own, "bfloat16")
    assert list(BFloat16(own)) == list(Float(own)) == [1, 2.5, -3]
    out = getattr(BFloat16(1, 2.5, -3), framework)()
    assert "bfloat16" in str(out.dtype) and [float(value) for value in out] == [1, 2.5, -3]


def test_views_of_torch_are_imported():
    torch = pytest.importorskip("torch")
    own = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    tensor = TensorXf(own.T)
    np.testing.assert_array_equal(tensor.numpy(), own.T.numpy())
    np.testing.assert_array_equal(TensorXf(own[:, ::2]).numpy(), own[:, ::2].numpy())
    np.testing.assert_array_equal(TensorXf(own.expand(2, 3, 4)).numpy(), own.expand(2, 3, 4).numpy())
    reference = weakref.ref(own)
    del own, tensor
    gc.collect()
    assert reference() is None


def test_torch_refuses_to_lose_gradients_silently():
    torch = pytest.importorskip("torch")
    with pytest.raises(BufferError, match="gradient"):
        TensorXf(torch.ones(3, requires_grad=True))


def test_a_framework_that_is_not_installed_is_named(monkeypatch):
    from drjit.interop.frameworks import FRAMEWORKS

    missing = type(FRAMEWORKS["torch"])()
    missing.module = missing.package = "no_such_framework"
    monkeypatch.setitem(FRAMEWORKS, "torch", missing)
    with pytest.raises(ModuleNotFoundError, match=r"Float\.torch\(\): needs the package 'no_such_framework'"):
        Float(1).torch()
    for function in (dr.wrap("drjit", "torch")(lambda x: x), dr.wrap("torch", "drjit")(lambda x: x)):  # until called
        with pytest.raises(ModuleNotFoundError, match=r"drjit\.wrap\(\): needs the package 'no_such_framework'"):
            function(Float(1))


@pytest.mark.parametrize("frameworks", [("drjit", "torch"), ("torch", "drjit")])
def test_syntax_stands_below_wrap(frameworks):
    def f(x):
        return x

    def other(function):
        @functools.wraps(function)
        def call(*args):
            return function(*args)

        return call

    wrap = dr.wrap(*frameworks)
    for function in (wrap(f), other(wrap(f)), wrap(dr.syntax(f))):
        with pytest.raises(RuntimeError, match=r"drjit.syntax\(\): .*: first @drjit.wrap, then @drjit.syntax"):
            dr.syntax(function)
    assert wrap(dr.syntax(f)).__wrapped__.__wrapped__ is f


def test_no_framework_is_imported_unasked():
    program = "import sys, drjit, drjit.interop; print({'torch', 'jax', 'tensorflow'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "set()\n"


def test_processes_end_while_a_framework_holds_memory(framework):
    program = ("from drjit.llvm import Float, TensorXf\nimport drjit as dr\nx = dr.arange(Float, 100) + 1\n"
               f"kept = x.{framework}()\nback = TensorXf(kept)\n"
               f"import {MODULES[framework]} as module\nmodule.kept = (kept, back)\nprint('done')")
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "done\n"), found.stderr
