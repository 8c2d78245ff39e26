"""Touches: reductions, scans, orders, rearrangement and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import drjit as dr

from ..model import Array, Operands, Typed
from .access import ACCESS
from .items import DIMENSION
from .rows import ALL, NUMBERS, PLAIN, UNORDERED, Model, same, touch

# --- reductions ------------------------------------------------------------------------------------------------------

#: Along the first axis: the lanes of flat arrays, the components of nested ones.
REDUCTIONS = "F:read NDCQM:lanes VTS:read"


def _lead(reduction: Any, empty: Any = None) -> Model:
    def model(m: Array, o: Operands) -> Any:
        axis: Any = None if o.tensor else 0
        result = np.asarray(reduction(m, axis=axis) if m.size or empty is None else np.full(
            m.shape[1:] if not o.tensor else (), empty(o)), o.dtype)
        return result.reshape(1) if o.kind == "F" else result
    return model


def _every(reduction: Any, empty: Any = None) -> Model:
    def model(m: Array, o: Operands) -> Typed:
        result = np.asarray(reduction(m) if m.size or empty is None else empty(o), o.dtype)
        return Typed(o.type, result) if o.tensor else Typed(o.leaf, result.reshape(1))
    return model


def _lowest(o: Operands) -> Any:
    return -np.inf if o.letter == "f" else np.iinfo(o.dtype).min


touch("sum", lambda a, o: dr.sum(a), _lead(np.sum), REDUCTIONS)
touch("sum-all", lambda a, o: dr.sum(a, axis=None), _every(np.sum), f"{ALL}:read")
touch("prod-all", lambda a, o: dr.prod(a, axis=None), _every(lambda m: np.prod(m, dtype=m.dtype)), f"{ALL}:read")
touch("max", lambda a, o: dr.max(a), _lead(np.max, _lowest), "F:read ND:lanes VTS:read",
      why=f"{UNORDERED}; {NUMBERS}")
touch("max-all", lambda a, o: dr.max(a, axis=None), _every(np.max, _lowest), f"{PLAIN}:read",
      why=f"{UNORDERED}; {NUMBERS}")
touch("mean-all", lambda a, o: dr.mean(a, axis=None),
      _every(lambda m: m.sum(dtype="f8") / m.size if m.size else np.nan), f"{PLAIN}:read", "f",
      "floating point only; " + UNORDERED)
touch("sum-axis", lambda a, o: dr.sum(a, axis=0), lambda m, o: m.sum(axis=0, dtype=m.dtype), "VT:read",
      why=f"{NUMBERS}; axes are of tensors")
touch("sum-last", lambda a, o: dr.sum(a, axis=-1), lambda m, o: _along_last(np.sum, m, o), "FNDCQMVT:read",
      why=f"{NUMBERS}; {DIMENSION}")
touch("sum-axes", lambda a, o: dr.sum(a, axis=(0, 1), keepdims=True),
      lambda m, o: m.sum(axis=(0, 1), dtype=m.dtype, keepdims=True), "T:read", why=f"{NUMBERS}; axes are of tensors")
touch("max-last", lambda a, o: dr.max(a, axis=-1), lambda m, o: _along_last(np.max, m, o, _lowest), "FNDVT:read",
      why=f"{UNORDERED}; {NUMBERS}; {DIMENSION}")
touch("softmax", lambda a, o: _softmax(a, o), lambda m, o: _softmax_model(m, o), "VT:read", "f",
      "floating point only; along an axis of tensors")
touch("all-of-comparison", lambda a, o: dr.all(a < 4, axis=None), lambda m, o: _truth(o, np.all(m < 4)),
      f"{PLAIN}:read",
      why=f"{UNORDERED}; {NUMBERS}")
touch("any", lambda a, o: dr.any(a, axis=None), lambda m, o: _truth(o, np.any(m)), f"{PLAIN}:read", "b", "masks only")
touch("count", lambda a, o: dr.count(a, axis=None), lambda m,
      o: np.asarray(np.count_nonzero(m), "u4").reshape(() if o.tensor else 1),
      f"{PLAIN}:read", "b", "masks only")


def _along_last(reduction: Any, m: Array, o: Operands, empty: Any = None) -> Array:
    """A reduction along the last axis: of all but tensors those are the lanes, of which one is left."""
    if not m.size and empty is not None:
        m = np.full((*m.shape[:-1], 1), empty(o), o.dtype) if m.shape[-1] == 0 else m
    return np.asarray(reduction(m, axis=-1, keepdims=not o.tensor), o.dtype)


def _softmax(a: Any, o: Operands) -> Any:
    """Sixty-fourths: no two implementations of exponentials agree in all bits."""
    powers = dr.exp(a - dr.max(a, axis=-1, keepdims=True))
    return dr.round(powers / dr.sum(powers, axis=-1, keepdims=True) * 64)


def _softmax_model(m: Array, o: Operands) -> Typed:
    powers = np.exp(m.astype("f8") - m.max(axis=-1, keepdims=True))
    return same(o, np.round(powers / powers.sum(axis=-1, keepdims=True) * 64))


def _truth(o: Operands, value: Any) -> Array:
    return np.asarray(value).reshape(() if o.tensor else (1,))


# --- blocks, scans and orders ----------------------------------------------------------------------------------------

_SCANS = "F:read NDCQM:lanes VT:read"
_AXIS = "tensors without dimensions have no axis"


def _blocks(m: Array) -> Array:
    """Two lanes by two, or the only one."""
    return m.reshape(*m.shape[:-1], -1, 1 if m.shape[-1] == 1 else 2)


def _block_scan(m: Array, o: Operands) -> Array:
    blocks = _blocks(m.reshape(-1) if o.tensor else m)
    return (np.cumsum(blocks, axis=-1, dtype=m.dtype) - blocks).reshape(m.shape)


def _rest(m: Array) -> Array:
    """The sum of what comes after along the first axis."""
    return np.cumsum(m[::-1], axis=0, dtype=m.dtype)[::-1] - m


def _middle(m: Array, o: Operands) -> Array:
    """The median along the last axis, the lower one of two."""
    found = np.sort(m, axis=-1)[..., (m.shape[-1] - 1) // 2]
    return found if o.tensor else found.reshape(1)


def _position(find: Any) -> Model:
    return lambda m, o: np.asarray(find(m), "u4").reshape(1)  # of tensors, too


touch("block-sum", lambda a, o: dr.block_sum(a, 2), lambda m, o: same(o, _blocks(m).sum(axis=-1, dtype=m.dtype)),
      f"{ACCESS}:read", why=f"{NUMBERS}; tensors are reduced along axes")
touch("block-max", lambda a, o: dr.block_reduce(dr.ReduceOp.Max, a, 2), lambda m, o: same(o, _blocks(m).max(axis=-1)),
      "FND:read", why=f"{UNORDERED}; {NUMBERS}; tensors are reduced along axes")
touch("cumsum", lambda a, o: dr.cumsum(a), lambda m, o: same(o, np.cumsum(m, axis=0, dtype=m.dtype)), _SCANS,
      why=f"{NUMBERS}; {_AXIS}")
touch("cumsum-last", lambda a, o: dr.cumsum(a, -1), lambda m, o: same(o, np.cumsum(m, axis=-1, dtype=m.dtype)),
      "FNDCQMVT:read", why=f"{NUMBERS}; {_AXIS}")
touch("prefix-sum-reversed", lambda a, o: dr.prefix_sum(a, reverse=True), lambda m, o: same(o, _rest(m)), _SCANS,
      why=f"{NUMBERS}; {_AXIS}")
touch("prefix-max", lambda a, o: dr.prefix_reduce(dr.ReduceOp.Max, a, -1, exclusive=False),
      lambda m, o: same(o, np.maximum.accumulate(m, axis=-1)), "FNDVT:read",
      why=f"{UNORDERED}; {NUMBERS}; {_AXIS}")
touch("block-prefix-sum", lambda a, o: dr.block_prefix_sum(a, 2), lambda m, o: same(o, _block_scan(m, o)),
      f"{ALL}:read")
touch("sort", lambda a, o: dr.sort(a), lambda m, o: same(o, np.sort(m, axis=-1)), "FNDVT:read", "biuf",
      f"{UNORDERED}; {_AXIS}")
touch("sort-descending", lambda a, o: dr.sort(a, descending=True), lambda m, o: same(o, np.sort(m, axis=-1)[..., ::-1]),
      "FNDVT:read", "biuf", f"{UNORDERED}; {_AXIS}")
touch("sort-first", lambda a, o: dr.sort(a, axis=0), lambda m, o: same(o, np.sort(m, axis=0)), "T:read", "biuf",
      "axes are of tensors")
touch("argsort", lambda a, o: dr.argsort(a), lambda m, o: np.argsort(m, axis=-1, kind="stable").astype("u4"),
      "FNDVT:read", "biuf", f"{UNORDERED}; {_AXIS}")
touch("argmin", lambda a, o: dr.argmin(a), _position(np.argmin), f"{PLAIN}:read", "biuf", UNORDERED)
touch("argmax", lambda a, o: dr.argmax(a), _position(np.argmax), f"{PLAIN}:read", "biuf", UNORDERED)
touch("argmax-first", lambda a, o: dr.argmax(a, axis=0), lambda m, o: np.argmax(m, axis=0).astype("u4"), "VT:read",
      "biuf", "axes are of tensors")
touch("median", lambda a, o: dr.median(a), _middle, "FVT:read", why=f"{NUMBERS}; of flat arrays and tensors")
touch("compress", lambda a, o: dr.compress(a), lambda m, o: np.flatnonzero(m).astype("u4"), "F:read", "b",
      "flat masks only")

# --- rearrangement ---------------------------------------------------------------------------------------------------


def _convolved(m: Array, o: Operands) -> Typed:
    """Half of what is before and after along the first axis, and the element itself."""
    padded = np.pad(m.astype("f8"), [(1, 1), *[(0, 0)] * (m.ndim - 1)])
    return same(o, padded[1:-1] + (padded[:-2] + padded[2:]) / 2)


touch("reverse", lambda a, o: dr.reverse(a), lambda m, o: same(o, m[::-1]), "FVT:gather NDCQM:lanes", "biuf",
      DIMENSION)
touch("tile", lambda a, o: dr.tile(a, 2), lambda m, o: same(o, np.tile(m, 2)), f"{ALL}:read", "biuf")
touch("repeat", lambda a, o: dr.repeat(a, 2), lambda m, o: same(o, np.repeat(m, 2, None if o.tensor else -1)),
      f"{ALL}:read", "biuf")
touch("convolve", lambda a, o: dr.convolve(a, "linear", 2, axis=0, normalize=False), _convolved, "FVT:read", "f",
      "floating point only; flat arrays and tensors with an axis")

touch("take-interp", lambda a, o: dr.take_interp(a, 0.5), lambda m, o: (m[0] + m[1]) / o.dtype.type(2), "VT:read", "f",
      "floating point only; along an axis of tensors")
touch("upsample", lambda a, o: dr.upsample(a, scale_factor=[2] * len(a.shape)), lambda m, o: same(o, _magnified(m)),
      "VTS:read", "biuf", "tensors only")
touch("resample", lambda a, o: dr.resample(a, [2 * size for size in a.shape], "box"),
      lambda m, o: same(o, _magnified(m)), "FVTS:read", "f", "floating point only; flat arrays and tensors")
touch("transpose", lambda a, o: dr.moveaxis(a, 0, 1), lambda m, o: same(o, m.T), "T:read", "biuf",
      "axes are of tensors")
touch("matmul", lambda a, o: dr.matmul(a, a, Bt=o.kind == "T"), lambda m, o: _matrix_product(m, o), "FVT:read",
      why=f"{NUMBERS}; nested arrays of depth 1 are multiplied by components; matrices: see times-itself")
touch("matmul-components", lambda a, o: a @ a, lambda m, o: Typed(o.leaf, (m * m).sum(axis=0, dtype=m.dtype)),
      "N:lanes", why=f"{NUMBERS}; vectors of components")


def _magnified(m: Array) -> Array:
    """Each element twice along each axis."""
    for axis in range(m.ndim):
        m = m.repeat(2, axis)
    return m


def _matrix_product(m: Array, o: Operands) -> Typed:
    return same(o, m @ m.T if o.tensor else np.reshape(m @ m, 1))


# --- random numbers --------------------------------------------------------------------------------------------------

# A generator gives the same numbers everywhere: those that it gives a model, plainly and outside of loops.


def _drawn(o: Operands, letter: str) -> Any:
    """Random numbers that go with the array, the second of their generator."""
    generator = dr.rng(o.package.UInt64(7))
    shape = o.shape if o.tensor else max(o.lanes, 1)
    generator.random(o.package.TensorXf if o.tensor else o.package.Float, shape)
    if letter == "f":
        return generator.uniform(o.type if o.tensor else o.leaf, shape, 2, 3)
    return generator.integers(o.package.TensorXi if o.tensor else o.package.Int, shape, 1, 9)


def _drawn_model(o: Operands, letter: str) -> Array:
    drawn: Array = _drawn(o, letter).numpy()
    return drawn


touch("random-uniform", lambda a, o: dr.select(_drawn(o, "f") < 2.5, a, 0),
      lambda m, o: same(o, np.where(_drawn_model(o, "f") < 2.5, m, o.dtype.type(0))), f"{PLAIN}:lanes", "f",
      "floating point only")
touch("random-integers", lambda a, o: dr.select(_drawn(o, "i") > 4, a, o.scalar(0)),
      lambda m, o: same(o, np.where(_drawn_model(o, "i") > 4, m, o.dtype.type(0))), f"{PLAIN}:lanes", "biuf",
      UNORDERED)
touch("random-permutation", lambda a, o: dr.sort(dr.rng(o.package.UInt64(7)).permutation(a), axis=0),
      lambda m, o: same(o, np.sort(m, axis=0)), "FVT:read", "biuf", f"flat arrays and tensors; {_AXIS}")
