"""Generators of random numbers, which :func:`drjit.rng` makes."""

from ._random.generator import Generator, Philox4x32Generator

__all__ = ["Generator", "Philox4x32Generator"]

for _class in (Generator, Philox4x32Generator):
    _class.__module__ = "drjit.random"
del _class
