"""Frameworks by their names: what they compute with, arrays of theirs, and their gradients."""

from __future__ import annotations

import numpy as np

__all__ = ["MODULES", "array_of", "gradients", "library"]

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
