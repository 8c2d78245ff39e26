"""Frameworks by their names: what they compute with, arrays of theirs, and their gradients."""

from __future__ import annotations

import numpy as np

__all__ = ["MODULES", "array_of", "from_dlpack", "gradients", "library"]

#: The modules that frameworks are imported as, by the names of the methods that convert to them.
MODULES = {"torch": "torch", "jax": "jax", "tf": "tensorflow"}


def library(framework):
    """The functions of a framework by the names of NumPy."""
    if framework == "torch":
        import torch

        return torch
    if framework == "jax":
        import jax

        return jax.numpy
    import tensorflow

    return tensorflow.experimental.numpy


def array_of(framework, values):
    """An array of a framework."""
    if framework == "tf":
        import tensorflow

        return tensorflow.constant(values)
    return library(framework).asarray(np.array(values))


def gradients(framework, function, *arrays):
    """The gradients of a scalar function of a framework's arrays."""
    if framework == "torch":
        inputs = [array.clone().requires_grad_() for array in arrays]
        function(*inputs).backward()
        return [array.grad for array in inputs]
    if framework == "jax":
        import jax

        return jax.grad(function, argnums=tuple(range(len(arrays))))(*arrays)
    import tensorflow

    with tensorflow.GradientTape() as tape:
        tape.watch(arrays)
        value = function(*arrays)
    return tape.gradient(value, arrays)


class _OnHost:
    """An array as a producer of what is in the memory of the CPU."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options | {"dl_device": (1, 0)})

    def __dlpack_device__(self):
        return 1, 0


def from_dlpack(array):
    """What NumPy, which knows the memory of the CPU alone, imports by DLPack."""
    return np.from_dlpack(array if array.__dlpack_device__() == (1, 0) else _OnHost(array))
