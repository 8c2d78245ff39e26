"""Arrays of ``drjit.array_api`` and other frameworks: methods, and ``dr.wrap`` in both directions with derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
from drjit.llvm.ad import TensorXf64
from tests.interop.harness import array_of, gradients, library

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")


def gradient_of(framework, function, array):
    """The gradient of the sum of what a wrapped function of an array of a framework returns."""
    gradient, = gradients(framework, lambda x: library(framework).sum(function(x)), array)
    return np.asarray(gradient)


ARRAYS = [xp.arange(3.0), xp.asarray(2.0), xp.zeros((0, 2)), xp.reshape(xp.arange(6), (2, 3)).T,
          xp.asarray([True, False]), xp.asarray([[1 + 2j, 3]]), xp.ones(2, dtype=xp.float16)]


@pytest.mark.parametrize("array", ARRAYS, ids=[f"{array.dtype} {array.shape}" for array in ARRAYS])
def test_methods_convert(framework, array):
    found = getattr(array, framework)()
    np.testing.assert_array_equal(np.asarray(found), np.asarray(array))
    assert np.asarray(found).dtype == array.dtype.numpy
    np.testing.assert_array_equal(array.numpy(), np.asarray(array))
    assert xp.from_dlpack(found).dtype == array.dtype


def test_methods_warn_where_derivatives_end(framework):
    x = xp.ones(2)
    dr.enable_grad(x)
    with pytest.warns(RuntimeWarning, match=rf"Array\.{framework}\(\): .* derivatives, which end here"):
        getattr(x, framework)()


def test_functions_of_frameworks(framework):
    sin = library(framework).sin
    wrapped = dr.wrap("drjit", framework)(lambda x, y: {"product": sin(x) * y, "name": "text"})
    x, y = xp.reshape(xp.arange(6.0), (2, 3)).T, xp.asarray(2.0)
    plain = wrapped(x, y)
    assert isinstance(plain["product"], xp.Array) and plain["name"] == "text"
    dr.enable_grad(x, y)
    found = wrapped(x, y)["product"]
    np.testing.assert_allclose(np.asarray(dr.detach(found)), np.sin(np.asarray(dr.detach(x))) * 2)
    dr.backward(xp.sum(found))
    np.testing.assert_allclose(np.asarray(dr.grad(x)), 2 * np.cos(np.asarray(dr.detach(x))))
    np.testing.assert_allclose(float(dr.grad(y)), np.sum(np.sin(np.arange(6.0))))


def test_functions_of_frameworks_in_forward_mode(framework):
    sin = library(framework).sin
    x = xp.arange(3.0)
    dr.enable_grad(x)
    y = dr.wrap("drjit", framework)(lambda x: sin(x))(x)
    dr.set_grad(x, xp.asarray([1.0, 2.0, 3.0]))
    assert np.allclose(np.asarray(dr.forward_to(y)), np.cos(np.arange(3.0)) * [1, 2, 3])


def test_complex_numbers_in_functions_of_frameworks(framework):
    abs_ = library(framework).abs
    values = np.array([[1 + 1j, 2 - 1j], [0.5j, 3]])
    z = xp.asarray(values)
    dr.enable_grad(z)
    found = dr.wrap("drjit", framework)(lambda z: (abs_(z), z * z))(z)
    assert [entry.dtype for entry in found] == [xp.float64, xp.complex128]
    np.testing.assert_allclose(np.asarray(dr.detach(found[1])), values ** 2)
    dr.backward(xp.sum(found[0]) + xp.sum(xp.real(found[1])))
    own = xp.asarray(values)
    dr.enable_grad(own)
    dr.backward(xp.sum(xp.abs(own)) + xp.sum(xp.real(own * own)))
    np.testing.assert_allclose(np.asarray(dr.grad(z)), np.asarray(dr.grad(own)))


def test_functions_of_the_namespace(framework):
    values = np.array([[2.0, 0.5], [0.25, 1.5]])

    @dr.wrap(framework, "drjit")
    def inverse(x):
        assert isinstance(x, TensorXf64)
        return xp.linalg.inv(xp.asarray(x))

    found = inverse(array_of(framework, values))
    np.testing.assert_allclose(np.asarray(found), np.linalg.inv(values))
    inner = np.linalg.inv(values)
    np.testing.assert_allclose(gradient_of(framework, inverse, array_of(framework, values)),
                               -inner.T @ np.ones((2, 2)) @ inner.T)


def test_functions_of_the_namespace_with_complex_results(framework):
    @dr.wrap(framework, "drjit")
    def spectrum(x):
        return xp.fft.fft(xp.asarray(x))

    values = np.array([1.0, 2.0, 0.5])
    np.testing.assert_allclose(np.asarray(spectrum(array_of(framework, values))), np.fft.fft(values))
    abs_ = library(framework).abs
    found = gradient_of(framework, lambda x: abs_(spectrum(x)), array_of(framework, values))
    x = xp.asarray(values)
    dr.enable_grad(x)
    dr.backward(xp.sum(xp.abs(xp.fft.fft(x))))
    np.testing.assert_allclose(found, np.asarray(dr.grad(x)))


def test_tensors_remain_tensors(framework):
    sin = library(framework).sin
    assert type(dr.wrap("drjit", framework)(lambda x: sin(x))(TensorXf64([1, 2]))) is TensorXf64
