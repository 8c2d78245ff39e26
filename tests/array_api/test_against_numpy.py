"""Every function of the namespace against NumPy, which knows the same names: each data type that the standard allows,
special values, shapes without axes and without elements, and every state that an array can be in.

``CASES`` says how functions are called; a case is a function of a namespace and arrays, which both sides run. What is
in no table fails the last test. The runs of each day choose a state for each case; the exhaustive ones cross them.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp

pytestmark = pytest.mark.oracle

BOOLEAN, SIGNED, UNSIGNED = ("bool",), ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
REAL, COMPLEX = ("float16", "float32", "float64"), ("complex64", "complex128")
INTEGERS = SIGNED + UNSIGNED
KINDS = {"b": BOOLEAN, "i": SIGNED, "u": UNSIGNED, "f": REAL, "c": COMPLEX}
ALL = BOOLEAN + INTEGERS + REAL + COMPLEX
#: Relative errors that are allowed, in units of the last place of a type (of the result).
ULPS = 8


def of_kinds(kinds: str) -> tuple[str, ...]:
    """The names of the data types of some kinds."""
    return tuple(name for kind in kinds for name in KINDS[kind])


class Case(NamedTuple):
    """How a function is called: on both namespaces, with arrays of these shapes, for all types of these kinds."""

    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...] = ((2, 3),)
    kinds: str = "biufc"
    values: str = "any"  # "special", "any", "distinct", "positive", "unit", "few", "regular"
    ulps: float = ULPS
    exact: bool = True  # data types must be NumPy's


# --- arguments -------------------------------------------------------------------------------------------------------

_SPECIAL = {
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 2.5, 3e-5, -7.25, 100.0, math.inf, -math.inf, math.nan],
    "i": [0, 1, -1, 2, -3, 7, 100, -100],
    "u": [0, 1, 2, 3, 7, 100, 200],
    "b": [True, False],
}


def numbers(values: str, dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Elements of an array: special ones, or random ones that suit a function."""
    kind = np.dtype(dtype).kind
    count = math.prod(shape)
    rng = np.random.default_rng(seed)
    if values == "special":
        if kind == "c":
            parts = np.resize(np.array([0.5, -1.5, 2.0, -0.25, 1.0, 3.0]), 2 * count)
            return (parts[:count] + 1j * parts[count:][::-1]).astype(dtype).reshape(shape)
        chosen = np.array(_SPECIAL[kind])
        if kind in "iu":
            limits = np.iinfo(dtype)
            chosen = np.array([*chosen, limits.max, limits.min, limits.max - 1], dtype=object)
        return np.array([chosen[(k + seed) % len(chosen)] for k in range(count)], dtype=dtype).reshape(shape)
    if values == "regular":
        found = rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)
        diagonal = np.zeros(shape[-2:])
        np.fill_diagonal(diagonal, 3 + np.arange(min(shape[-2:])))
        found = found + diagonal
    elif values == "distinct":
        found = rng.permutation(count).reshape(shape) - count // 2 * (kind not in "u")
        found = found.astype(np.float64)
    elif values == "few":
        found = rng.integers(-(kind != "u"), 3, shape).astype(np.float64)
    elif values == "unit":
        found = rng.uniform(-0.9, 0.9, shape) + 1j * rng.uniform(-0.9, 0.9, shape)
    elif values == "positive":
        found = rng.uniform(1, 4, shape) + 1j * rng.uniform(0.5, 2, shape)
    else:
        found = rng.uniform(-4, 4, shape) + 1j * rng.uniform(-4, 4, shape)
        if kind == "u":
            found = abs(found)
    if kind == "b":
        return np.asarray(found.real > 0.5)
    if kind in "iu":
        found = np.round(np.abs(found.real) if kind == "u" else found.real)
    elif kind == "f":
        found = found.real
    return np.asarray(found).astype(dtype)


def _literal(array: np.ndarray[Any, Any]) -> Any:
    """All elements are the first one: a constant, which no memory has."""
    array[...] = array.flat[0] if array.size else 0
    return xp.full(array.shape, xp.asarray(array.flat[0]) if array.size else 0, dtype=getattr(xp, array.dtype.name))


def _lazy(array: np.ndarray[Any, Any]) -> Any:
    found = xp.asarray(array)
    return xp.where(xp.asarray(True), found, found)


def _part(array: np.ndarray[Any, Any]) -> Any:
    """A view: a part of a larger array, backwards."""
    padded = np.zeros(tuple(2 * size + 1 for size in array.shape), array.dtype)
    key = tuple(slice(2 * size, 0, -2) for size in array.shape)
    padded[key] = array
    return xp.asarray(padded)[key] if array.ndim else xp.asarray(padded[None])[0]


def _transposed(array: np.ndarray[Any, Any]) -> Any:
    return xp.permute_dims(xp.asarray(array.T.copy()), tuple(range(array.ndim))[::-1])


def _written(array: np.ndarray[Any, Any]) -> Any:
    """Elements that have been assigned to an array, which has a view that was read before."""
    found = xp.zeros(array.shape, dtype=getattr(xp, array.dtype.name))
    view = found[...]
    found[...] = xp.asarray(array)
    return view


def _tracked(array: np.ndarray[Any, Any]) -> Any:
    found = xp.asarray(array)
    if array.dtype.kind in "fc":
        dr.enable_grad(found)
    return found


#: States of arrays, by what makes one of NumPy's array (which ``literal`` fills).
STATES: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "memory": xp.asarray, "literal": _literal, "lazy": _lazy, "part": _part, "transposed": _transposed,
    "shared": lambda array: xp.from_dlpack(array), "written": _written, "tracked": _tracked}

# --- cases -----------------------------------------------------------------------------------------------------------

WIDE, EMPTY = ((17,),), ((2, 0, 3),)
NO_AXES = ((),)

#: Functions of one array: kinds, values, units in the last place.
UNARY = {
    **dict.fromkeys(("ceil", "floor", "trunc", "round", "sqrt", "exp", "log", "log2", "log10", "log1p",
                     "expm1", "sinh", "cosh", "tanh", "asinh", "atan"), ("f", "special", 8)),
    **dict.fromkeys(("sin", "cos"), ("f", "any", 8)), "tan": ("f", "unit", 8),
    **dict.fromkeys(("acos", "asin", "atanh"), ("f", "unit", 8)), "acosh": ("f", "positive", 8),
    **dict.fromkeys(("positive", "negative", "square", "real", "imag"), ("iufc", "special", 4)),
    "abs": ("iuf", "special", 0), "sign": ("iuf", "special", 0), "conj": ("iufc", "special", 0),
    "isfinite": ("iufc", "special", 0), "isinf": ("iufc", "special", 0), "isnan": ("iufc", "special", 0),
    "signbit": ("f", "special", 0), "bitwise_invert": ("biu", "special", 0), "logical_not": ("biufc", "special", 0),
    "reciprocal": ("f", "special", 1),
}
#: Functions of two arrays.
BINARY = {
    **dict.fromkeys(("add", "subtract", "multiply"), ("iufc", "special", 4)), "divide": ("fc", "any", 4),
    **dict.fromkeys(("equal", "not_equal", "logical_and", "logical_or", "logical_xor"), ("biufc", "special", 0)),
    **dict.fromkeys(("less", "less_equal", "greater", "greater_equal", "maximum", "minimum"), ("iuf", "special", 0)),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), ("biu", "special", 0)),
    "floor_divide": ("iuf", "positive", 0), "remainder": ("iuf", "positive", 4),
    "atan2": ("f", "special", 8), "hypot": ("f", "special", 8), "logaddexp": ("f", "special", 8),
    "copysign": ("f", "special", 0), "nextafter": ("f", "special", 0), "pow": ("fc", "positive", 40),
}


def integer_power(x: Any, a: Any) -> Any:
    """Small powers of integers."""
    return x.pow(a, x.remainder(a, x.asarray(5, dtype=a.dtype)) if a.dtype != x.uint8 else a)


CASES: dict[str, list[Case]] = {
    **{name: [Case(lambda x, a, name=name: getattr(x, name)(a), shape, kinds, values, ulps)
              for shape in (WIDE, NO_AXES, EMPTY)] for name, (kinds, values, ulps) in UNARY.items()},
    **{name: [Case(lambda x, a, b, name=name: getattr(x, name)(a, b), shapes, kinds, values, ulps)
              for shapes in (((17,), (17,)), ((2, 1, 3), (4, 1)), ((), (3,)), ((2, 0), (1,)))]
       for name, (kinds, values, ulps) in BINARY.items()},
    "abs": [Case(lambda x, a: x.abs(a), ((17,),), "iuf", "special", 0),
            Case(lambda x, a: x.abs(a), WIDE, "c", "any", 4)],
    "sign": [Case(lambda x, a: x.sign(a), ((17,),), "iuf", "special", 0),
             Case(lambda x, a: x.sign(a), WIDE, "c", "any", 4)],
    "pow": [Case(lambda x, a, b: x.pow(a, b), ((5,), (5,)), "fc", "positive", 60),
            Case(lambda x, a: x.pow(a, x.asarray([0, 1, 2, 3, 2], dtype=a.dtype)), ((5,),), "iu", "few"),
            Case(lambda x, a: a ** 3, ((5,),), "iufc", "positive", 16), Case(lambda x, a: 2 ** a, ((5,),), "iu", "few")
            ._replace(values="positive")],
    "bitwise_left_shift": [Case(lambda x, a, b: x.bitwise_left_shift(a, x.bitwise_and(b, x.asarray(3, dtype=b.dtype))),
                                ((9,), (9,)), "iu", "special")],
    "bitwise_right_shift": [Case(lambda x, a, b: x.bitwise_right_shift(
        a, x.bitwise_and(b, x.asarray(3, dtype=b.dtype))), ((9,), (9,)), "iu", "special")],
    "clip": [Case(lambda x, a: x.clip(a, 1, 3), WIDE, "iuf", "special"),
             Case(lambda x, a: x.clip(a, max=2), WIDE, "iuf", "special"),
             Case(lambda x, a, b: x.clip(a, b, x.maximum(b, x.asarray(2, dtype=b.dtype))), ((2, 3), (3,)), "iu"),
             Case(lambda x, a, b: x.clip(a, 1, b), ((0, 3), (3,)), "iuf"),
             Case(lambda x, a: x.clip(a), NO_AXES, "iuf")],
    "where": [Case(lambda x, a, b: x.where(x.astype(a, x.bool), a, b), ((2, 3), (3,))),
              Case(lambda x, a: x.where(x.asarray([True, False, True]), a, 1), ((2, 3),), "iufc"),
              Case(lambda x, a, b: x.where(x.asarray(False), a, b), ((2, 0), ()))],
    "astype": [Case(lambda x, a, target=target: x.astype(a, getattr(x, target)), ((2, 3),), "biuf", "positive")
               for target in ALL] + [Case(lambda x, a, target=target: x.astype(a, getattr(x, target)), ((2, 3),), "c")
                                     for target in COMPLEX],
    "asarray": [Case(lambda x, a: x.asarray(a, copy=True), NO_AXES), Case(lambda x, a: x.asarray(a), EMPTY)],
    "full": [Case(lambda x, a: x.full((2, 3), a), NO_AXES), Case(lambda x, a: x.full(3, a), NO_AXES)],
    "full_like": [Case(lambda x, a: x.full_like(a, 2), kinds="iufc"),
                  Case(lambda x, a: x.full_like(a, True), EMPTY, "b")],
    **{name: [Case(lambda x, a, name=name: getattr(x, name)(a), shapes) for shapes in (((2, 3),), NO_AXES, EMPTY)]
       for name in ("zeros_like", "ones_like")},
    "empty_like": [Case(lambda x, a: x.zeros_like(x.empty_like(a)))],
    "result_type": [Case(lambda x, a, b: x.full(2, 1, dtype=x.result_type(a, b)), ((2,), ()), "iufc")],
    "can_cast": [Case(lambda x, a: x.asarray(x.can_cast(a.dtype, x.float64)), NO_AXES, "f")],
    "meshgrid": [Case(lambda x, a, b: x.meshgrid(a, b), ((2,), (3,))),
                 Case(lambda x, a, b: x.meshgrid(a, b, indexing="ij"), ((2,), (0,)))],
    "tril": [Case(lambda x, a: x.tril(a, k=-1), ((2, 3, 4),)), Case(lambda x, a: x.tril(a), ((3, 0),))],
    "triu": [Case(lambda x, a: x.triu(a, k=1), ((2, 3, 4),)), Case(lambda x, a: x.triu(a, k=-5), ((3, 2),))],
    # manipulation
    "broadcast_to": [Case(lambda x, a: x.broadcast_to(a, (4, 2, 3)), ((2, 1),)),
                     Case(lambda x, a: x.broadcast_to(a, (0, 3)), NO_AXES)],
    "broadcast_arrays": [Case(lambda x, a, b: x.broadcast_arrays(a, b), ((2, 1), (3,)))],
    "concat": [Case(lambda x, a, b: x.concat([a, b], axis=-1), ((2, 3), (2, 0))),
               Case(lambda x, a, b: x.concat((a, b), axis=0), ((2, 3), (1, 3))),
               Case(lambda x, a, b: x.concat([a, b], axis=None), ((2, 3), (4,)))],
    "stack": [Case(lambda x, a, b: x.stack([a, b], axis=0), ((2, 3), (2, 3))),
              Case(lambda x, a: x.stack([a], axis=-1), NO_AXES), Case(lambda x, a: x.stack([a, a], axis=1), EMPTY)],
    "unstack": [Case(lambda x, a: x.unstack(a, axis=1)), Case(lambda x, a: x.unstack(a), ((3, 0),))],
    "expand_dims": [Case(lambda x, a: x.expand_dims(a, axis=-1)), Case(lambda x, a: x.expand_dims(a, axis=0), NO_AXES)],
    "squeeze": [Case(lambda x, a: x.squeeze(a, axis=(0, -1)), ((1, 3, 1),)), Case(lambda x, a: x.squeeze(a, axis=0),
                                                                                 ((1, 0),))],
    "flip": [Case(lambda x, a: x.flip(a)), Case(lambda x, a: x.flip(a, axis=(-1,)), EMPTY), Case(lambda x, a: x.flip(a),
                                                                                                NO_AXES)],
    "moveaxis": [Case(lambda x, a: x.moveaxis(a, (0, 1), (-1, 0)), ((2, 3, 4),))],
    "transpose": [Case(lambda x, a: x.transpose(a), ((2, 3, 4),)),
                  Case(lambda x, a: x.transpose(a, (1, 0)), ((2, 3),))],
    "permute_dims": [Case(lambda x, a: x.permute_dims(a, (2, 0, 1)), ((2, 3, 4),)),
                     Case(lambda x, a: x.permute_dims(a, ()), NO_AXES)],
    "repeat": [Case(lambda x, a: x.repeat(a, 2)), Case(lambda x, a: x.repeat(a, 3, axis=1)),
               Case(lambda x, a: x.repeat(a, x.asarray([2, 0]), axis=0)), Case(lambda x, a: x.repeat(a, 0, axis=0))],
    "reshape": [Case(lambda x, a: x.reshape(a, (3, -1))), Case(lambda x, a: x.reshape(a, ()), ((1, 1),)),
                Case(lambda x, a: x.reshape(a, (0, 7)), EMPTY)],
    "roll": [Case(lambda x, a: x.roll(a, 2)), Case(lambda x, a: x.roll(a, (1, -2), axis=(0, 1))),
             Case(lambda x, a: x.roll(a, 5, axis=-1), EMPTY)],
    "tile": [Case(lambda x, a: x.tile(a, (2, 1, 3))), Case(lambda x, a: x.tile(a, (2,)), NO_AXES),
             Case(lambda x, a: x.tile(a, (0, 2)))],
    # statistics
    "sum": [Case(lambda x, a: x.sum(a), ((7, 5),), "iufc", ulps=64), Case(lambda x, a: x.sum(a, axis=0, keepdims=True),
            ((7, 5),), "iufc", ulps=64), Case(lambda x, a: x.sum(a, axis=(0, 2)), ((2, 3, 4),), "iufc", ulps=64),
            Case(lambda x, a: x.sum(a, axis=1), EMPTY, "iufc"), Case(lambda x, a: x.sum(a), NO_AXES, "iufc"),
            Case(lambda x, a: x.sum(a, dtype=x.float64), ((5,),), "iuf", ulps=64)],
    "prod": [Case(lambda x, a: x.prod(a), ((2, 3),), "iufc", ulps=64), Case(lambda x, a: x.prod(a, axis=-1), EMPTY,
             "iufc"), Case(lambda x, a: x.prod(a, axis=0), ((4, 3),), "iufc", ulps=64)],
    "mean": [Case(lambda x, a: x.mean(a), ((7, 5),), "fc", ulps=64), Case(lambda x, a: x.mean(a, axis=1, keepdims=True),
             ((7, 5),), "fc", ulps=64), Case(lambda x, a: x.mean(a), NO_AXES, "fc")],
    "var": [Case(lambda x, a: x.var(a, correction=1), ((7, 5),), "f", ulps=64),
            Case(lambda x, a: x.var(a, axis=0), ((7, 5),), "f", ulps=64)],
    "std": [Case(lambda x, a: x.std(a, axis=1, keepdims=True), ((7, 5),), "f", ulps=64)],
    **{name: [Case(lambda x, a, name=name: getattr(x, name)(a), ((7, 5),), "iuf"),
              Case(lambda x, a, name=name: getattr(x, name)(a, axis=0, keepdims=True), ((7, 5),), "iuf", "special"),
              Case(lambda x, a, name=name: getattr(x, name)(a, axis=(0, 1)), ((7, 5),), "iuf", "few"),
              Case(lambda x, a, name=name: getattr(x, name)(a, axis=1), ((0, 5),), "iuf"),
              Case(lambda x, a, name=name: getattr(x, name)(a), NO_AXES, "iuf")] for name in ("max", "min")},
    **{name: [Case(lambda x, a, name=name: getattr(x, name)(a), shapes, values="few")
              for shapes in (((3, 4),), NO_AXES, EMPTY)] +
       [Case(lambda x, a, name=name: getattr(x, name)(a, axis=-1, keepdims=True), ((3, 4),), values="special")]
       for name in ("all", "any")},
    "cumulative_sum": [Case(lambda x, a: x.cumulative_sum(a, axis=1), ((3, 17),), "iufc", ulps=64),
                       Case(lambda x, a: x.cumulative_sum(a, include_initial=True), ((5,),), "iufc", ulps=64),
                       Case(lambda x, a: x.cumulative_sum(a, axis=0, include_initial=True), ((0, 2),), "iufc")],
    "cumulative_prod": [Case(lambda x, a: x.cumulative_prod(a, axis=0), ((5, 2),), "iufc", ulps=64),
                        Case(lambda x, a: x.cumulative_prod(a, include_initial=True), ((5,),), "iufc", ulps=64)],
    "diff": [Case(lambda x, a: x.diff(a), ((3, 4),)), Case(lambda x, a: x.diff(a, axis=0, n=2), ((4, 2),), "iufc"),
             Case(lambda x, a, b: x.diff(a, prepend=b, append=b), ((2, 3), (2, 1)), "iufc"),
             Case(lambda x, a: x.diff(a, n=0), ((3,),), "iufc"), Case(lambda x, a: x.diff(a), ((1,),), "iufc")],
    # searching, sorting, sets
    **{name: [Case(lambda x, a, name=name: getattr(x, name)(a), ((3, 7),), "iuf", "distinct"),
              Case(lambda x, a, name=name: getattr(x, name)(a, axis=0, keepdims=True), ((7, 3),), "iuf", "few"),
              Case(lambda x, a, name=name: getattr(x, name)(a, axis=-1), ((3, 17),), "f", "special"),
              Case(lambda x, a, name=name: getattr(x, name)(a), NO_AXES, "iuf")] for name in ("argmax", "argmin")},
    "count_nonzero": [Case(lambda x, a: x.asarray(x.count_nonzero(a)), ((3, 4),), values="few"),
                      Case(lambda x, a: x.count_nonzero(a, axis=1, keepdims=True), ((3, 4),), values="few"),
                      Case(lambda x, a: x.count_nonzero(a, axis=0), EMPTY)],
    "nonzero": [Case(lambda x, a: x.nonzero(a), ((3, 4),), values="few"), Case(lambda x, a: x.nonzero(a), EMPTY)],
    "searchsorted": [Case(lambda x, a, b, side=side: x.searchsorted(x.sort(a), b, side=side), ((7,), (2, 5)), "iuf",
                          "few") for side in ("left", "right")] +
                    [Case(lambda x, a, b: x.searchsorted(a, b, sorter=x.argsort(a)), ((7,), (3,)), "iuf", "distinct"),
                     Case(lambda x, a, b: x.searchsorted(a, b), ((0,), (3,)), "iuf")],
    "sort": [Case(lambda x, a: x.sort(a), ((3, 17),), "iuf", "special", 0),
             Case(lambda x, a: x.sort(a, axis=0), ((17, 2),), "iuf", "any", 0),
             Case(lambda x, a: x.sort(a), EMPTY, "iuf"), Case(lambda x, a: x.sort(a, axis=0), ((1, 3),), "iuf")],
    "argsort": [Case(lambda x, a: x.argsort(a, stable=True), ((3, 17),), "iuf", "few"),
                Case(lambda x, a: x.argsort(a, axis=0), ((7, 2),), "iuf", "distinct"),
                Case(lambda x, a: x.argsort(a), EMPTY, "iuf")],
    "isin": [Case(lambda x, a, b: x.isin(a, b), ((3, 4), (5,)), "iuf", "few"),
             Case(lambda x, a, b: x.isin(a, b, invert=True), ((4,), (0,)), "iuf", "few")],
    "unique_values": [Case(lambda x, a: x.sort(x.unique_values(a)), ((3, 4),), "iuf", "few"),
                      Case(lambda x, a: x.unique_values(a), EMPTY)],
    "unique_counts": [Case(lambda x, a: tuple(x.unique_counts(a)), ((3, 4),), "biuf", "few")],
    "unique_inverse": [Case(lambda x, a: tuple(x.unique_inverse(a)), ((3, 4),), "biuf", "few")],
    "unique_all": [Case(lambda x, a: tuple(x.unique_all(a)), ((3, 4),), "biuf", "few")],
    "take": [Case(lambda x, a: x.take(a, x.asarray([2, 0, 0, -1]), axis=1)), Case(lambda x, a: x.take(
        a, x.asarray([1, 1])), ((3,),)), Case(lambda x, a: x.take(a, x.asarray([], dtype=x.int64), axis=0), EMPTY)],
    "take_along_axis": [Case(lambda x, a: x.take_along_axis(a, x.asarray([[2, 0], [1, -1]]), axis=1))],
    # linear algebra
    "matmul": [Case(lambda x, a, b: x.matmul(a, b), shapes, "iufc", ulps=64) for shapes in (
        ((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,)), ((2, 1, 3, 4), (5, 4, 2)), ((2, 0), (0, 3)))],
    "matrix_transpose": [Case(lambda x, a: x.matrix_transpose(a), ((2, 3, 4),)), Case(lambda x, a: a.mT, ((0, 2),)),
                         Case(lambda x, a: a.T)],
    "tensordot": [Case(lambda x, a, b, axes=axes: x.tensordot(a, b, axes=axes), shapes, "iufc", ulps=64)
                  for axes, shapes in (
        (1, ((2, 3), (3, 4))), (0, ((2,), (3,))), (((0, 1), (1, 0)), ((2, 3, 4), (3, 2, 5))))],
    "vecdot": [Case(lambda x, a, b: x.vecdot(a, b), ((2, 3), (3,)), "iufc", ulps=64),
               Case(lambda x, a, b: x.vecdot(a, b, axis=-2), ((3, 2), (3, 2)), "iufc", ulps=64)],
    "linalg.cross": [Case(lambda x, a, b: x.linalg.cross(a, b), ((2, 3), (2, 3)), "iufc", ulps=64)],
    "linalg.outer": [Case(lambda x, a, b: x.linalg.outer(a, b), ((2,), (3,)), "iufc")],
    "linalg.diagonal": [Case(lambda x, a, k=k: x.linalg.diagonal(a, offset=k), ((2, 3, 4),)) for k in (-1, 0, 2)],
    "linalg.trace": [Case(lambda x, a: x.linalg.trace(a, offset=1), ((2, 3, 4),), "iufc", ulps=64)],
    "linalg.vector_norm": [Case(lambda x, a, o=o: x.linalg.vector_norm(a, ord=o, axis=0, keepdims=True), ((4, 3),),
                                "fc", ulps=64) for o in (0, 1, 2, 3, math.inf, -math.inf)],
    "linalg.matrix_norm": [Case(lambda x, a, o=o: x.linalg.matrix_norm(a, ord=o), ((2, 3, 4),), "fc", ulps=64)
                           for o in ("fro", 1, -1, math.inf, -math.inf)],
    "linalg.matrix_power": [Case(lambda x, a, n=n: x.linalg.matrix_power(a, n), ((2, 3, 3),), "fc", "regular", 200)
                            for n in (0, 1, 3, -2)],
}
CASES |= {f"linalg.{name}": [Case(lambda x, a, name=name: getattr(x.linalg, name)(a), shapes, "fc", "regular", 400)
                             for shapes in (((2, 3, 3),), ((0, 2, 2),))]
          for name in ("det", "inv", "pinv", "svdvals")}
CASES |= {
    "linalg.slogdet": [Case(lambda x, a: tuple(x.linalg.slogdet(a)), ((2, 3, 3),), "fc", "regular", 400)],
    "linalg.solve": [Case(lambda x, a, b: x.linalg.solve(a, b), ((3, 3), (3, 2)), "fc", "regular", 400),
                     Case(lambda x, a, b: x.linalg.solve(a, b), ((3, 3), (3,)), "fc", "any", 4000)
                     ._replace(call=lambda x, a, b: x.linalg.solve(a + 9 * x.eye(3, dtype=a.dtype), b))],
    "linalg.cholesky": [Case(lambda x, a: x.linalg.cholesky(a @ x.conj(a.mT) + x.eye(3, dtype=a.dtype)), ((2, 3, 3),),
                             "fc", "any", 400)],
    "linalg.eigvalsh": [Case(lambda x, a: x.linalg.eigvalsh(a + x.conj(a.mT)), ((2, 3, 3),), "fc", "regular", 400)],
    "linalg.eigh": [Case(lambda x, a: _composed(x, *x.linalg.eigh(a + x.conj(a.mT))), ((2, 3, 3),), "fc",
                         "regular", 800)],
    "linalg.eigvals": [Case(lambda x, a: x.sum(x.astype(x.linalg.eigvals(a), x.complex128), axis=-1), ((2, 3, 3),),
                            "fc", "regular", 800)],
    "linalg.eig": [Case(lambda x, a: x.sum(x.astype(x.linalg.eig(a)[0], x.complex128) ** 2, axis=-1), ((2, 3, 3),),
                        "fc", "regular", 800)],
    "linalg.qr": [Case(lambda x, a: x.matmul(*x.linalg.qr(a)), ((2, 4, 3),), "fc", "any", 800)],
    "linalg.svd": [Case(lambda x, a: x.linalg.svd(a, full_matrices=False)[1], ((4, 3),), "fc", "any", 800)],
    "linalg.matrix_rank": [Case(lambda x, a: x.astype(x.linalg.matrix_rank(a), x.int64), ((2, 4, 3),), "fc", "any")],
}
CASES |= {f"fft.{name}": [Case(lambda x, a, name=name, norm=norm: getattr(x.fft, name)(a, norm=norm), ((3, 5),), kinds,
                               "any", 300) for norm in ("backward", "ortho", "forward")]
          for name, kinds in {"fft": "c", "ifft": "c", "fftn": "c", "ifftn": "c", "rfft": "f", "rfftn": "f",
                              "irfft": "c", "irfftn": "c", "hfft": "c", "ihfft": "f"}.items()}
CASES |= {"fft.fftshift": [Case(lambda x, a: x.fft.fftshift(a), ((3, 4),), "fc")],
          "fft.ifftshift": [Case(lambda x, a: x.fft.ifftshift(a, axes=1), ((3, 5),), "fc")]}


def _composed(x: Any, values: Any, vectors: Any) -> Any:
    """The matrix of which these are the eigenvalues and eigenvectors."""
    return x.matmul(vectors * x.astype(values, vectors.dtype)[..., None, :], x.conj(vectors.mT))


#: Half precision has no counterpart where NumPy computes in LAPACK or FFT, or not at all.
NO_HALVES = ("linalg.", "fft.", "var", "std")

#: Of zeros of both signs, which are equal, these may return either one.
UNSIGNED_ZEROS = ("maximum", "minimum", "max ", "min ", "sort", "nextafter")

#: Functions of no array, by calls whose results are compared.
WITHOUT_ARRAYS: dict[str, list[Callable[[Any], Any]]] = {
    "arange": [lambda x: x.arange(5), lambda x: x.arange(2, 9, 3), lambda x: x.arange(1.0, 2.0, 0.25),
               lambda x: x.arange(5, 0, -2, dtype=x.int32), lambda x: x.arange(3, 3), lambda x: x.arange(0, 1, 0.1)],
    "linspace": [lambda x: x.linspace(0, 1, 7), lambda x: x.linspace(1, -1, 5, endpoint=False),
                 lambda x: x.linspace(0, 1, 1), lambda x: x.linspace(0, 1, 0), lambda x: x.linspace(0, 1j, 3),
                 lambda x: x.linspace(0, 10, 5, dtype=x.float32)],
    "eye": [lambda x: x.eye(3), lambda x: x.eye(2, 4, k=1, dtype=x.int8), lambda x: x.eye(3, 2, k=-1),
            lambda x: x.eye(0, 3), lambda x: x.eye(2, dtype=x.complex64)],
    "zeros": [lambda x: x.zeros((2, 0)), lambda x: x.zeros(3, dtype=x.bool), lambda x: x.zeros(())],
    "ones": [lambda x: x.ones((2, 3), dtype=x.complex128), lambda x: x.ones(2)],
    "empty": [lambda x: x.zeros_like(x.empty((2, 3), dtype=x.uint8))],
    "fft.fftfreq": [lambda x: x.fft.fftfreq(7), lambda x: x.fft.fftfreq(8, d=0.5)],
    "fft.rfftfreq": [lambda x: x.fft.rfftfreq(7), lambda x: x.fft.rfftfreq(8, d=0.5)],
    "broadcast_shapes": [lambda x: x.asarray(x.broadcast_shapes((2, 1), (3,), ()))],
    "finfo": [lambda x: x.asarray([float(getattr(x.finfo(x.float32), name))
                                   for name in ("bits", "eps", "max", "min", "smallest_normal")])],
    "iinfo": [lambda x: x.asarray([getattr(x.iinfo(x.int16), name) for name in ("bits", "max", "min")])],
    "isdtype": [lambda x: x.asarray([x.isdtype(getattr(x, name), kind) for name in ALL for kind in (
        "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric")])],
}
#: Functions whose own tests are elsewhere.
ELSEWHERE = {"from_dlpack": "test_dlpack.py",
             "__array_namespace_info__": "test_conformance_runner.py"}


# --- comparing -------------------------------------------------------------------------------------------------------


def compare(found: Any, expected: Any, ulps: float, what: str, scale: float = 1.0) -> None:
    """Results of one call are equal: data types, shapes, elements within some units in the last place (also of the
    largest number that goes into sums)."""
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected), what
        for one, other in zip(found, expected, strict=True):
            compare(one, other, ulps, what, scale)
        return
    expected = np.asarray(expected)
    assert isinstance(found, xp.Array), what
    assert found.dtype.name == expected.dtype.name, (what, found.dtype, expected.dtype)
    assert found.shape == expected.shape, (what, found.shape, expected.shape)
    with dr.suspend_grad():
        array = np.asarray(xp.asarray(dr.detach(found)))
    if expected.dtype.kind not in "fc" or not expected.size:
        np.testing.assert_array_equal(array, expected, what)
        return
    eps = float(np.finfo(expected.dtype).eps)
    absolute = ulps * eps * scale if ulps > ULPS else 0.0
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(array, expected, rtol=ulps * eps, atol=absolute + float(
            np.finfo(expected.dtype).tiny) * (ulps > 0), err_msg=what)
    if ulps == 0 and expected.dtype.kind == "f" and not what.startswith(UNSIGNED_ZEROS):
        numbers_ = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(array[numbers_]), np.signbit(expected[numbers_]), what)


def check(name: str, number: int, case: Case, dtype: str, state: str) -> None:
    seed = zlib.crc32(f"{name} {number} {dtype}".encode()) % 1000
    arrays = [numbers(case.values, dtype, shape, seed + k) for k, shape in enumerate(case.shapes)]
    if state == "literal" and case.values == "regular":  # a matrix of one number has no inverse
        state = "lazy"
    ours = [STATES[state](array) for array in arrays]
    what = f"{name} {number} {dtype} {state}"
    with np.errstate(all="ignore"):
        expected = case.call(np, *arrays)
    scale = max([1.0, *[abs(complex(number)) for array in arrays for number in array.flat if np.isfinite(number)]])
    compare(case.call(xp, *ours), expected, case.ulps, what, scale)
    for array, mine in zip(arrays, ours, strict=True):  # no function changes its arguments
        np.testing.assert_array_equal(np.asarray(dr.detach(mine)), array, what)


ROWS = [(name, number, case, dtype) for name, cases in CASES.items() for number, case in enumerate(cases)
        for dtype in of_kinds(case.kinds) if dtype != "float16" or not name.startswith(NO_HALVES)]
NAMES = list(CASES)


@pytest.mark.parametrize("name", NAMES)
def test_values(name: str) -> None:
    states = list(STATES)
    for row, number, case, dtype in ROWS:
        if row == name:
            check(name, number, case, dtype, states[zlib.crc32(f"{name}{number}{dtype}".encode()) % len(states)])


@pytest.mark.exhaustive
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", NAMES)
def test_values_in_every_state(name: str, state: str) -> None:
    for row, number, case, dtype in ROWS:
        if row == name:
            check(name, number, case, dtype, state)


@pytest.mark.parametrize("name", WITHOUT_ARRAYS)
def test_functions_without_arrays(name: str) -> None:
    for call in WITHOUT_ARRAYS[name]:
        compare(call(xp), call(np), 4, name)


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(ALL, 2)))
def test_promotion(first: str, second: str) -> None:
    a, b = xp.ones(2, dtype=getattr(xp, first)), xp.ones(2, dtype=getattr(xp, second))
    expected = np.promote_types(first, second).name  # also what the standard leaves undefined
    assert xp.result_type(a, b).name == expected == xp.where(xp.asarray(True), a, b).dtype.name
    assert xp.result_type(b.dtype, a.dtype).name == expected
    assert (a + b).dtype.name == expected and (b * a).dtype.name == expected


@pytest.mark.parametrize("number", [True, 2, 2.5, 1 + 2j])
@pytest.mark.parametrize("dtype", ALL)
def test_numbers_beside_arrays_promote_as_those_of_numpy(dtype: str, number: complex) -> None:
    array = np.ones(2, dtype)
    expected = array * number
    found = xp.asarray(array) * number
    assert found.dtype.name == expected.dtype.name == xp.multiply(number, xp.asarray(array)).dtype.name
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("eager", [0, 8192])
def test_integers_are_divided_by_numbers_that_are_none_of_their_type(monkeypatch, eager: int) -> None:
    monkeypatch.setattr(xp.policy, "eager", eager)
    for dtype in ("uint8", "int8", "int64", "uint64"):
        array = np.array([1, 2, 100], dtype)
        for number in (-1, 300, 2**70):
            for found, expected in ((xp.asarray(array) / number, array / number),
                                    (number / xp.asarray(array), number / array)):
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(np.asarray(found), expected)


def test_numbers_alone_are_arrays() -> None:
    assert xp.sqrt(4).tolist() == 2 and xp.add(1, 2.5).dtype == xp.float64 and xp.add(1, 2).dtype == xp.int64
    assert xp.divide(1, 2).tolist() == 0.5 and xp.logical_and(1, 0).tolist() is False
    assert xp.where(xp.asarray([True, False]), 1, 2.5).tolist() == [1, 2.5]


#: Kinds of elements that functions refuse. (Integers are converted where the standard knows floating point only; truth
#: values count, and complex numbers have an order, where they do in NumPy.)
REFUSED = {
    "b": "sin exp log sqrt round sign negative square real conj reciprocal signbit subtract "
         "atan2 hypot logaddexp copysign nextafter",
    "f": "bitwise_and bitwise_or bitwise_xor bitwise_invert bitwise_left_shift bitwise_right_shift",
    "c": "ceil floor trunc signbit bitwise_and bitwise_invert "
         "floor_divide remainder atan2 hypot logaddexp copysign nextafter",
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in REFUSED.items() for name in names.split()])
def test_kinds_that_a_function_does_not_know_are_refused(kind: str, name: str) -> None:
    array = xp.ones(2, dtype=getattr(xp, KINDS[kind][-1]))
    with pytest.raises(TypeError, match=rf"drjit\.array_api\.{name}\(\)") as caught:
        getattr(xp, name)(*[array] * (2 if name in BINARY or "shift" in name or name == "pow" else 1))
    assert array.dtype.name in str(caught.value) or "complex" in str(caught.value)


def test_every_function_is_in_a_table() -> None:
    spaces = {"": xp, "linalg.": xp.linalg, "fft.": xp.fft}
    functions = {prefix + name for prefix, space in spaces.items() for name in space.__all__
                 if callable(getattr(space, name)) and not isinstance(getattr(space, name), (type, xp.DType))}
    same = {f"linalg.{name}" for name in ("matmul", "matrix_transpose", "tensordot", "vecdot")}
    assert all(getattr(xp.linalg, name.removeprefix("linalg.")) is getattr(xp, name.removeprefix("linalg."))
               for name in same - {"linalg.vecdot"})
    tested = set(CASES) | set(WITHOUT_ARRAYS) | set(ELSEWHERE) | same
    assert functions == tested, functions ^ tested
