"""einops: a backend for arrays of this namespace, which is registered when einops is imported.

einops looks for backends among the subclasses of a class of its own. So that it need not be imported here, a finder of
modules waits for it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ._creation import arange, asarray
from ._data import Storage
from ._elementwise import multiply
from ._linear import matmul
from ._manipulation import concat, expand_dims, permute_dims, reshape, stack, tile
from ._statistics import all, any, max, mean, min, prod, sum
from .linalg import diagonal

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["einsum", "install"]

_MODULE = "einops._backends"
_REDUCTIONS = {"all": all, "any": any, "max": max, "mean": mean, "min": min, "prod": prod, "sum": sum}


def install() -> None:
    """Register the backend now if einops has been imported, else as soon as it is."""
    if _MODULE in sys.modules:
        _register(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the module of einops that has the backends, as the other finders do."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> \
            ModuleSpec | None:
        if name != _MODULE:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            found: ModuleSpec | None = None if finder is self or find is None else find(name, path, target)
            if found is not None and found.loader is not None:
                found.loader = _Loader(found.loader)
                return found
        return None


class _Loader(Loader):
    """Loads that module, and registers the backend."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self.loader.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        _register(module)


def _register(module: ModuleType) -> None:
    base: Any = vars(module)["AbstractBackend"]

    class Backend(base):  # type: ignore[misc]
        """Arrays of this namespace for einops, which finds this class among the subclasses of its base."""

        framework_name = "drjit.array_api"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, Storage)

        def from_numpy(self, x: Any) -> Array:
            return asarray(x)

        def to_numpy(self, x: Any) -> Any:
            return np.asarray(x)

        def arange(self, start: int, stop: int) -> Array:
            return arange(start, stop)

        def reshape(self, x: Array, shape: Sequence[int]) -> Array:
            return reshape(x, tuple(shape))

        def transpose(self, x: Array, axes: Sequence[int]) -> Array:
            return permute_dims(x, tuple(axes))

        def reduce(self, x: Array, operation: str, axes: Sequence[int]) -> Array:
            return _REDUCTIONS[operation](x, axis=tuple(axes))

        def stack_on_zeroth_dimension(self, tensors: list[Array]) -> Array:
            return stack(tensors)

        def add_axis(self, x: Array, new_position: int) -> Array:
            return expand_dims(x, axis=new_position)

        def tile(self, x: Array, repeats: Sequence[int]) -> Array:
            return tile(x, tuple(repeats))

        def concat(self, tensors: list[Array], axis: int) -> Array:
            return concat(tensors, axis=axis)

        def is_float_type(self, x: Array) -> bool:
            return x.dtype.kind in "fc"

        def einsum(self, pattern: str, *x: Array) -> Array:
            return einsum(pattern, *x)

    module.drjit_backend = Backend  # type: ignore[attr-defined]  # the list of subclasses holds no references


def einsum(pattern: str, *arrays: Array) -> Array:
    """The sum of products that a pattern such as ``'ij,jk->ik'`` describes: operand by operand, as products of stacks
    of matrices. Lazy; differentiable."""
    inputs, _, output = pattern.replace(" ", "").partition("->")
    terms = [_diagonals(array, term) for array, term in zip(arrays, inputs.split(","), strict=True)]
    found, axes = _needed(*terms[0], "".join(term for _, term in terms[1:]) + output)
    for position, term in enumerate(terms[1:], 2):
        later = "".join(rest for _, rest in terms[position:]) + output
        found, axes = _product(found, axes, *_needed(*term, axes + later), later)
    return permute_dims(found, tuple([axes.index(axis) for axis in output]))


def _diagonals(array: Array, axes: str) -> tuple[Array, str]:
    """An array with one axis for each letter: those of the same letter become their diagonal."""
    for axis in dict.fromkeys(axes):
        while axes.count(axis) > 1:
            first = axes.index(axis)
            pair = first, axes.index(axis, first + 1)
            rest = [place for place in range(len(axes)) if place not in pair]
            array = diagonal(permute_dims(array, (*rest, *pair)))
            axes = "".join(axes[place] for place in rest) + axis
    return array, axes


def _needed(array: Array, axes: str, others: str) -> tuple[Array, str]:
    """An array summed along the axes that nothing else has."""
    alone = tuple([place for place, axis in enumerate(axes) if axis not in others])
    return (sum(array, axis=alone, dtype=array.dtype), "".join(axis for axis in axes if axis in others)) if alone else \
        (array, axes)


def _product(a: Array, left: str, b: Array, right: str, later: str) -> tuple[Array, str]:
    """The product of two arrays, summed along the axes of both that are not needed later."""
    common = [axis for axis in left if axis in right]
    batch = [axis for axis in common if axis in later]
    inner = [axis for axis in common if axis not in later]
    rows, columns = [axis for axis in left if axis not in right], [axis for axis in right if axis not in left]

    def arranged(array: Array, axes: str, order: list[list[str]]) -> Array:
        """An array with its axes in another order, of which those behind the first group are merged."""
        moved = permute_dims(array, tuple([axes.index(axis) for group in order for axis in group]))
        sizes = dict(zip(axes, array.shape, strict=True))
        return reshape(moved, (*[sizes[axis] for axis in order[0]],
                               *[int(np.prod([sizes[axis] for axis in group])) for group in order[1:]]))

    sizes = {**dict(zip(left, a.shape, strict=True)), **dict(zip(right, b.shape, strict=True))}
    order = batch + rows + columns
    if inner:
        found = matmul(arranged(a, left, [batch, rows, inner]), arranged(b, right, [batch, inner, columns]))
    else:
        found = multiply(arranged(a, left, [batch, rows, []]), arranged(b, right, [batch, [], columns]))
    return reshape(found, tuple([sizes[axis] for axis in order])), "".join(order)
