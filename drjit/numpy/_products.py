"""Products of arrays: of vectors and matrices, tensors, and Einstein's sums."""

from __future__ import annotations

import importlib
import importlib.util
import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

import drjit.array_api as xp

from ._public import Array, array_of, into, public

__all__ = ["cross", "dot", "einsum", "einsum_path", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "vdot",
           "vecdot", "vecmat"]


@public
def dot(a: Any, b: Any, out: Array | None = None) -> Array:
    """The sum of products over the last axis of one array and the second to last one of another (its only one of a
    vector); products of each element with a number. Lazy; differentiable."""
    return array_of(a).dot(b, out)


@public
def matmul(x1: Any, x2: Any, /, out: Array | None = None) -> Array:
    """The product of matrices, the last two axes of both; axes in front are broadcast. Lazy; differentiable. Raises a
    ``ValueError`` for shapes that do not go together."""
    return into(out, xp.matmul(array_of(x1), array_of(x2)))


@public
def vdot(a: Any, b: Any, /) -> Array:
    """The sum of products of all elements, the first ones conjugated. Lazy; differentiable."""
    return xp.vecdot(array_of(a).ravel(), array_of(b).ravel())


@public
def vecdot(x1: Any, x2: Any, /, axis: int = -1) -> Array:
    """The sum of products along an axis, the first ones conjugated; other axes are broadcast. Lazy; differentiable."""
    return xp.vecdot(array_of(x1), array_of(x2), axis=axis)


@public
def matvec(x1: Any, x2: Any, /) -> Array:
    """The products of matrices with vectors, the last axis. Lazy; differentiable."""
    return xp.matmul(array_of(x1), array_of(x2)[..., None])[..., 0]


@public
def vecmat(x1: Any, x2: Any, /) -> Array:
    """The products of conjugated vectors, the last axis, with matrices. Lazy; differentiable."""
    return xp.matmul(xp.conj(array_of(x1))[..., None, :], array_of(x2))[..., 0, :]


@public
def inner(a: Any, b: Any, /) -> Array:
    """The sum of products over the last axes of both arrays. Lazy; differentiable."""
    first, second = array_of(a), array_of(b)
    if not first.ndim or not second.ndim:
        return first * second
    return xp.tensordot(first, second, axes=((first.ndim - 1,), (second.ndim - 1,)))


@public
def outer(a: Any, b: Any, out: Array | None = None) -> Array:
    """The products of each element of one array with each of another, as a matrix. Lazy; differentiable."""
    return into(out, array_of(a).ravel()[:, None] * array_of(b).ravel()[None, :])


@public
def tensordot(a: Any, b: Any, axes: Any = 2) -> Array:
    """The sum of products over pairs of axes: the last ``axes`` of one array with the first of another, or those that
    two sequences name. Lazy; differentiable."""
    if not isinstance(axes, int):
        axes = tuple([tuple(entry) if hasattr(entry, "__iter__") else (entry,) for entry in axes])
    return xp.tensordot(array_of(a), array_of(b), axes=axes)


@public
def kron(a: Any, b: Any) -> Array:
    """The product of Kronecker: each element of one array times all of another. Lazy; differentiable."""
    first, second = array_of(a), array_of(b)
    count = max(first.ndim, second.ndim)
    first, second = (array.reshape((1,) * (count - array.ndim) + array.shape) for array in (first, second))
    shape = [size for pair in zip(first.shape, second.shape, strict=True) for size in pair]
    wide = first.reshape(tuple([size for n in first.shape for size in (n, 1)])) * \
        second.reshape(tuple([size for n in second.shape for size in (1, n)]))
    return wide.reshape(tuple([shape[2 * k] * shape[2 * k + 1] for k in range(count)]))


@public
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    """The cross product along axes of size three, or two, whose third component is 0; of two vectors of two components
    the third one. Lazy; differentiable."""
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    first, second = xp.moveaxis(array_of(a), axisa, -1), xp.moveaxis(array_of(b), axisb, -1)
    sizes = first.shape[-1], second.shape[-1]
    if not set(sizes) <= {2, 3}:
        raise ValueError(f"the axes must have the size 2 or 3, found {sizes[0]} and {sizes[1]}.")
    if sizes == (2, 2):
        return first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]
    (a0, a1, a2), (b0, b1, b2) = _components(first), _components(second)
    found = xp.broadcast_arrays(a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0)
    return xp.moveaxis(xp.stack(found, axis=-1), -1, axisc)


def _components(array: Array) -> tuple[Array, Array, Array]:
    x, y = array[..., 0], array[..., 1]
    return x, y, array[..., 2] if array.shape[-1] == 3 else xp.zeros_like(x)


# --- Einstein's sums -------------------------------------------------------------------------------------------------


def _subscripts(arguments: tuple[Any, ...]) -> tuple[list[str], str, list[Array]]:
    """The labels of the axes of each array, those of the result, and the arrays."""
    if isinstance(arguments[0], str):
        text, arrays = arguments[0].replace(" ", ""), [array_of(entry) for entry in arguments[1:]]
    else:  # arrays and lists of numbers of labels by turns
        pairs = list(arguments)
        arrays = [array_of(entry) for entry in pairs[0:len(pairs) - len(pairs) % 2:2]]
        text = ",".join(map(_letters, pairs[1::2])) + (f"->{_letters(pairs[-1])}" if len(pairs) % 2 else "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(arrays):
        raise ValueError(f"there are {len(terms)} terms in {text!r} for {len(arrays)} arrays.")
    free = [letter for letter in string.ascii_letters if letter not in text]
    hidden = [array.ndim - len(term.replace("...", "")) if "..." in term else 0
              for term, array in zip(terms, arrays, strict=True)]
    dots = "".join(free[:max(hidden, default=0)])
    terms = [term.replace("...", dots[len(dots) - count:]) for term, count in zip(terms, hidden, strict=True)]
    for term, array in zip(terms, arrays, strict=True):
        if len(term) != array.ndim or not term.isalpha() and term:
            raise ValueError(f"the term {term!r} of {text!r} does not go with an array of {array.ndim} dimensions.")
    if arrow:
        output = output.replace("...", dots)
    else:
        joined = "".join(terms)
        output = dots + "".join(sorted(label for label in set(joined) - set(dots) if joined.count(label) == 1))
    if len(set(output)) != len(output) or not set(output) <= set("".join(terms)):
        raise ValueError(f"the labels {output!r} of the result must be different ones, which {inputs!r} has.")
    return terms, output, arrays


def _letters(labels: Any) -> str:
    return "".join("..." if label is Ellipsis else string.ascii_letters[label] for label in labels)


def _sizes(terms: Sequence[str], arrays: Sequence[Array]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for term, array in zip(terms, arrays, strict=True):
        for label, size in zip(term, array.shape, strict=True):
            if sizes.setdefault(label, size) != size:
                if 1 not in (sizes[label], size):
                    raise ValueError(f"the label {label!r} is of axes of the sizes {sizes[label]} and {size}.")
                sizes[label] = max(sizes[label], size)
    return sizes


def _single(term: str, array: Array, kept: set[str]) -> tuple[str, Array]:
    """A term whose labels are different ones, all of which are needed: diagonals are taken, and others summed."""
    for label in dict.fromkeys(term):
        while term.count(label) > 1:
            first = term.index(label)
            second = term.index(label, first + 1)
            array = array.diagonal(0, first, second)
            term = "".join(other for k, other in enumerate(term) if k not in (first, second)) + label
    lost = tuple([k for k, label in enumerate(term) if label not in kept])
    if lost:
        array = xp.sum(array, axis=lost, dtype=array.dtype)
        term = "".join(label for label in term if label in kept)
    return term, array


def _arranged(term: str, array: Array, wanted: str) -> Array:
    """The array with its axes in the order of labels, of size one for those that it does not have."""
    order = [term.index(label) for label in wanted if label in term]
    return array.transpose(*order).reshape(tuple([
        array.shape[term.index(label)] if label in term else 1 for label in wanted])) if wanted else array


def _matrix(term: str, array: Array, shared: str, rows: str, columns: str) -> Array:
    """The array as matrices, one for each position along the shared axes, as they lie, or transposed views of them: not
    all orders of several axes are views. A vector, if there is a matrix without rows or without columns."""
    batch, height, width = (tuple([array.shape[term.index(label)] for label in labels])
                            for labels in (shared, rows, columns))
    if not (shared + rows and shared + columns):
        return _arranged(term, array, rows + columns).reshape(-1)
    if term == shared + columns + rows:
        return xp.matrix_transpose(array.reshape((*batch, math.prod(width), math.prod(height))))
    return _arranged(term, array, shared + rows + columns).reshape((*batch, math.prod(height), math.prod(width)))


def _pair(first: tuple[str, Array], second: tuple[str, Array], kept: set[str], sizes: dict[str, int]) -> \
        tuple[str, Array]:
    """The product of two terms, summed over labels that are in both and not needed: as a product of matrices, or of a
    matrix and a vector, where one has labels of its own."""
    a_term, a = _single(first[0], first[1], kept | set(second[0]))
    b_term, b = _single(second[0], second[1], kept | set(first[0]))
    both = [label for label in a_term if label in b_term]
    summed = [label for label in both if label not in kept]
    shared = "".join(label for label in both if label in kept)
    a_own = "".join(label for label in a_term if label not in b_term)
    b_own = "".join(label for label in b_term if label not in a_term)
    inner_ = "".join(summed)
    whole = all(a.shape[a_term.index(label)] == b.shape[b_term.index(label)] == sizes[label] for label in both)
    if summed and (a_own or b_own) and whole and a.dtype.kind in "iufc" and b.dtype.kind in "iufc":
        batch = tuple([sizes[label] for label in shared])
        left = _matrix(a_term, a, shared, a_own, inner_)
        right = _matrix(b_term, b, shared, inner_, b_own)
        shape = (*batch, *[a.shape[a_term.index(label)] for label in a_own],
                 *[b.shape[b_term.index(label)] for label in b_own])
        return shared + a_own + b_own, xp.matmul(left, right).reshape(shape)
    labels = shared + a_own + b_own + inner_
    product = _arranged(a_term, a, labels) * _arranged(b_term, b, labels)
    return _single(labels, product, kept)


def _path(terms: list[str], output: str, arrays: list[Array], optimize: Any) -> list[tuple[int, ...]]:
    """Which terms are joined, one pair after the other: by opt_einsum where it is installed, else by NumPy."""
    if isinstance(optimize, (list, tuple)) and optimize and not isinstance(optimize[0], (str, int)):
        return [tuple(pair) for pair in optimize]
    if isinstance(optimize, (list, tuple)) and len(optimize) > 1 and isinstance(optimize[1], (list, tuple)):
        return [tuple(pair) for pair in optimize[1:]]
    if len(arrays) <= 2 or optimize is False:
        return [(0, 1)] * (len(arrays) - 1)
    text = f"{','.join(terms)}->{output}"
    if importlib.util.find_spec("opt_einsum") is not None:
        oe: Any = importlib.import_module("opt_einsum")
        found, _ = oe.contract_path(text, *[array.shape for array in arrays], shapes=True,
                                    optimize="auto" if optimize in (True, None) else optimize)
        return [tuple(pair) for pair in found]
    empty = [np.broadcast_to(np.float32(0), array.shape) for array in arrays]
    found = np.einsum_path(text, *empty, optimize="greedy" if optimize in (True, None) else optimize)[0][1:]
    return [tuple(pair) for pair in found]


@public
def einsum(*operands: Any, out: Array | None = None, optimize: Any = None, dtype: Any = None) -> Array:
    """Einstein's sum: products of elements whose positions have labels, summed over those that the result does not
    have, as in ``einsum('ij,jk->ik', a, b)``.

    Pairs of arrays are products of matrices where that is possible. Three and more are joined in the order of least
    work, which opt_einsum finds if it is installed, and NumPy else; ``optimize`` is a method, or a path, or ``False``
    for the order in which they are given. Lazy; differentiable. Raises a ``ValueError`` for labels and shapes that do
    not go together. What only rearranges the elements of one array, and takes diagonals, is a view of it.
    """
    terms, output, arrays = _subscripts(operands)
    if dtype is not None:
        arrays = [array.astype(dtype) for array in arrays]
    sizes = _sizes(terms, arrays)
    alone = len(arrays) == 1 and set(terms[0]) == set(output)
    logical = not alone and all(array.dtype.kind == "b" for array in arrays)
    if logical:
        arrays = [array.astype(xp.int32) for array in arrays]
    left = list(zip(terms, arrays, strict=True))
    for positions in _path(terms, output, arrays, optimize):
        chosen = [left[place] for place in sorted(positions)]
        left = [entry for place, entry in enumerate(left) if place not in positions]
        found = chosen[0]
        for number, other in enumerate(chosen[1:], 1):
            kept = set(output).union(*[term for term, _ in left], *[term for term, _ in chosen[number + 1:]])
            found = _pair(found, other, kept, sizes)
        left.append(found)
    while len(left) > 1:  # a path that has left several terms
        left = [_pair(left[0], left[1], set(output).union(*[term for term, _ in left[2:]]), sizes), *left[2:]]
    term, array = _single(left[0][0], left[0][1], set(output))
    result = _arranged(term, array, output)
    shape = tuple([sizes[label] for label in output])
    if alone:
        return into(out, result[...])
    if logical:
        result = result != 0
    return into(out, result.copy() if result.shape == shape else xp.broadcast_to(result, shape))


@public
def einsum_path(*operands: Any, optimize: Any = "greedy") -> tuple[list[Any], str]:
    """The order in which :func:`einsum` joins arrays, and a description of it by NumPy."""
    terms, output, arrays = _subscripts(operands)
    path = ["einsum_path", *_path(terms, output, arrays, optimize)]
    empty = [np.broadcast_to(np.float32(0), array.shape) for array in arrays]
    text = np.einsum_path(f"{','.join(terms)}->{output}", *empty, optimize="greedy")[1]
    return path, text
