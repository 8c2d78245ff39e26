"""Functions of ``drjit.numpy`` against those of NumPy, on which the same table of calls runs."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import drjit as dr
import drjit.numpy as dnp

INTEGERS, REAL = ["int32", "int64"], ["float32", "float64"]
NUMBERS = [*INTEGERS, *REAL]
ALL = ["bool", "uint8", *NUMBERS, "complex128"]

Row = tuple[Callable[..., Any], list[str]]


def named(names: str, call: Callable[..., Any], types: list[str]) -> list[Row]:
    """Rows that differ in the function that is called."""
    return [(lambda np, a, b, v, t, name=name: call(getattr(np, name), a, b, v, t), types) for name in names.split()]


MODES = ["constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "mean", "median", "minimum"]
METHODS = ["linear", "lower", "higher", "nearest", "midpoint", "inverted_cdf", "averaged_inverted_cdf",
           "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased", "normal_unbiased"]

WITHOUT_NAN = ["nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanstd", "nanvar", "nanmedian", "nancumsum",
               "nancumprod"]

#: Calls, by groups: what is called with a module, arrays of shapes (3, 4), (3, 4), (7,), (2, 3, 4), and the types.
GROUPS: dict[str, list[Row]] = {
    "elementwise": [
        *named("sin cos tan arctan sinh cosh tanh arcsinh exp expm1 sqrt square abs isfinite isinf isnan "
              "logical_not conjugate", lambda f, a, b, v, t: f(a), ["bool", "int8", *NUMBERS, "complex128"]),
        *named("log log2 log10 log1p arccosh cbrt exp2 fabs deg2rad rad2deg degrees sinc i0",
                                 lambda f, a, b, v, t: f(abs(a) + 1), NUMBERS),
        *named("ceil floor trunc rint sign signbit negative positive", lambda f, a, b, v, t: f(a * 0.7), REAL),
        *named("arcsin arccos arctanh", lambda f, a, b, v, t: f(a / 10), REAL),
        *named("add subtract multiply divide arctan2 hypot copysign maximum minimum fmax fmin heaviside equal "
              "not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logaddexp "
              "logaddexp2 float_power nextafter", lambda f, a, b, v, t: f(a, b), NUMBERS),
        *named("floor_divide remainder fmod divmod power mod", lambda f, a, b, v, t: f(a, abs(b) + 1), NUMBERS),
        *named("bitwise_and bitwise_or bitwise_xor gcd lcm left_shift right_shift", lambda f, a, b, v, t: f(a, abs(b)),
                                 INTEGERS),
        (lambda np, a, b, v, t: (np.invert(a), ~a), ["bool", *INTEGERS]),
        (lambda np, a, b, v, t: (np.bitwise_count(a), np.bitwise_count(-a)), INTEGERS),
        (lambda np, a, b, v, t: (np.spacing(a + 1), np.spacing(-a - 1)), REAL),
        (lambda np, a, b, v, t: (np.add(a, b), np.multiply(a, b), np.maximum(a, b), np.less(a, b), a + 1, a * 0.5),
         ["bool"]),
        (lambda np, a, b, v, t: (np.modf(a * 0.3), np.frexp(a * 0.3), np.ldexp(a, 3)), REAL),
        (lambda np, a, b, v, t: (np.real(a), np.imag(a), np.angle(a), np.conj(a), np.iscomplex(a), np.isreal(a)),
                                 ALL[2:]),
        (lambda np, a, b, v, t: (np.clip(a, 1, 3), np.clip(a, None, 2.5), np.clip(a, b, np.maximum(b, 3))), NUMBERS),
        (lambda np, a, b, v, t: (np.round(a * 0.37, 1), np.around(a / 3, 2), np.fix(a * 0.7)), REAL),
        (lambda np, a, b, v, t: (np.divide(a, b, out=np.zeros(a.shape), where=b != 0), np.add(a, b, dtype="float64")),
         NUMBERS),
        (lambda np, a, b, v, t: (np.nan_to_num(a / (b * 0.0)), np.nan_to_num(a / (b * 0.0), nan=1, posinf=2, neginf=3)),
         REAL),
        (lambda np, a, b, v, t: (np.isposinf(a / 0.0), np.isneginf(a / 0.0)), REAL),
    ],
    "methods of ufuncs": [
        *named("add multiply maximum minimum logical_or hypot", lambda f, a, b, v, t: (
            f.reduceat(v, [0, 4, 1, 5, 5, 6]), f.reduceat(a, [0, 2, 1], 1), f.reduceat(a, [2, 0])),
               NUMBERS),
        (lambda np, a, b, v, t: (np.bitwise_or.reduceat(v, [0, 3]), np.gcd.reduceat(a, [1, 0], axis=1)), INTEGERS),
        (lambda np, a, b, v, t: (np.add.reduce(a), np.add.reduce(a, axis=1), np.multiply.reduce(a, axis=None),
                                 np.maximum.reduce(a, axis=0, keepdims=True), np.minimum.reduce(v)), NUMBERS),
        (lambda np, a, b, v, t: (np.logical_and.reduce(a), np.logical_or.reduce(a, axis=1), np.hypot.reduce(a),
                                 np.logaddexp.reduce(v)), REAL),
        (lambda np, a, b, v, t: (np.bitwise_or.reduce(a), np.bitwise_xor.reduce(a, axis=1), np.gcd.reduce(v)),
                                 INTEGERS),
        (lambda np, a, b, v, t: (np.add.accumulate(a), np.multiply.accumulate(a, axis=1), np.maximum.accumulate(v),
                                 np.minimum.accumulate(a, axis=1), np.fmax.accumulate(v)), NUMBERS),
        (lambda np, a, b, v, t: (np.add.outer(v, v[:2]), np.multiply.outer(v, a), np.greater.outer(v[:3], v)), NUMBERS),
    ],
    "creation": [
        (lambda np, a, b, v, t: (np.zeros_like(a), np.ones_like(a), np.full_like(a, 3), np.full_like(a, 2, "float64")),
         ALL),
        (lambda np, a, b, v, t: (np.full((2, 3), v[0]), np.full((2, 7), v), np.array(a, ndmin=4), np.copy(a)), NUMBERS),
        (lambda np, a, b, v, t: (np.diag(v), np.diag(a), np.diag(v, 2), np.diag(v, -1), np.diagflat(a[:2, :2], 1)),
                                 ALL),
        (lambda np, a, b, v, t: (np.tri(3, 5, 1), np.tril(a), np.triu(a, -1), np.vander(v), np.vander(v, 3, True)),
         NUMBERS),
        (lambda np, a, b, v, t: (np.linspace(a[0], a[1] * 2, 5), np.linspace(a[0], b, 4, axis=1)), REAL[1:]),
        (lambda np, a, b, v, t: (np.meshgrid(v, a[0]), np.meshgrid(v, a[0], a[1], indexing="ij", sparse=True)),
                                 NUMBERS),
        (lambda np, a, b, v, t: (np.linspace(0, 1, 7), np.linspace(2, 3, 4, endpoint=False, retstep=True),
                                 np.logspace(0, 3, 4), np.geomspace(1, 1000, 4), np.geomspace(-2, -32, 5),
                                 np.linspace(0, 10, 5, dtype=int)), ["float64"]),
        (lambda np, a, b, v, t: (np.indices((2, 3)), np.indices((2, 3), sparse=True), np.identity(3), np.eye(2, 3, 1),
                                 np.fromfunction(lambda i, j: i * 10 + j, (3, 2)), np.arange(2, 9, 3),
                                 np.arange(0, 1, 0.25), np.tril_indices(3), np.triu_indices(3, 1), np.diag_indices(3),
                                 np.unravel_index(np.array([5, 7]), (3, 4)), np.mgrid[0:3, 0:2], np.ogrid[0:3, 0:1:3j],
                                 np.ravel_multi_index((np.array([1, 2]), np.array([3, 0])), (3, 4)), np.r_[0:3, 7, 9],
                                 np.c_[np.array([1, 2]), np.array([3, 4])], np.fromiter(range(4), "int64")), ["int64"]),
    ],
    "shapes": [
        (lambda np, a, b, v, t: (np.reshape(a, (4, 3)), np.ravel(a), np.transpose(t, (1, 0, 2)), np.swapaxes(t, 0, 2),
                                 np.moveaxis(t, 0, -1), np.rollaxis(t, 2), np.expand_dims(a, (0, 2)),
                                 np.squeeze(a[None]), np.reshape(a, (2, 6), order="F")), ALL),
        (lambda np, a, b, v, t: (np.atleast_1d(v[0]), np.atleast_2d(v), np.atleast_3d(a), np.broadcast_to(v[:4], (2,
                                 4)),
                                 np.broadcast_arrays(a, v[:4]), np.flip(a), np.fliplr(a), np.flipud(a)), ALL),
        (lambda np, a, b, v, t: (np.rot90(a), np.rot90(a, 2), np.rot90(a, 3), np.rot90(t, 1, (1, 2)), np.roll(v, 2),
                                 np.roll(a, 1, 0), np.roll(a, (1, -2), (0, 1)), np.roll(a, -3)), ALL),
        (lambda np, a, b, v, t: (np.tile(v, 2), np.tile(a, (2, 1)), np.tile(v, (2, 2)), np.repeat(a, 2, axis=0),
                                 np.repeat(v, 2), np.resize(v, (3, 4)), np.resize(v, 5)), ALL),
        (lambda np, a, b, v, t: (np.concatenate([a, b]), np.concatenate((a, b), axis=1), np.concatenate([a, b], None),
                                 np.stack([a, b]), np.stack([a, b], -1), np.vstack([v, v]), np.hstack([a, b]),
                                 np.dstack([a, b]), np.column_stack([v, v]), np.append(v, v[:2]), np.append(a, b, 1)),
                                 ALL),
        (lambda np, a, b, v, t: (np.block([[a, b], [b, a]]), np.block([v, v]), np.block([[a[0], b[0]], [b[0], a[0]]])),
         ALL),
        (lambda np, a, b, v, t: (np.insert(v, 2, 9), np.insert(v, [1, 3], [8, 9]), np.insert(a, 1, 5, axis=0),
                                 np.insert(a, [0, 2], v[:3, None], axis=1), np.delete(v, 2), np.delete(a, [0, 2], 0),
                                 np.delete(a, slice(None, None, 2), 1), np.insert(v, 2, v[:3])), NUMBERS),
        (lambda np, a, b, v, t: (np.split(v, [2, 5]), np.array_split(v, 3), np.split(a, 2, axis=1), np.vsplit(a, 3),
                                 np.hsplit(a, 2), np.dsplit(t, 2), np.array_split(a, 2)), ALL),
        (lambda np, a, b, v, t: (np.trim_zeros(np.array([0, 0, 1, 2, 0, 3, 0])), np.shape(a), np.ndim(t), np.size(a),
                                 np.size(a, 1), np.broadcast_shapes((3, 1), (1, 4))), ["int64"]),
        *[(lambda np, a, b, v, t, mode=mode: (np.pad(v, 2, mode), np.pad(a, ((1, 2), (2, 0)), mode),
                                              np.pad(a, (1, 2), mode)), NUMBERS) for mode in MODES],
        (lambda np, a, b, v, t: (np.pad(v, 3, constant_values=(7, 8)), np.pad(v, (2,
                                 3), "linear_ramp", end_values=(5, -4)),
                                 np.pad(v, 2, "mean", stat_length=3)), NUMBERS),
    ],
    "reductions": [
        *named("sum prod mean std var max min amax amin ptp all any median count_nonzero",
                                 lambda f, a, b, v, t: (f(a), f(t, axis=1),
                                              f(t, axis=(0, 2), keepdims=True)), NUMBERS),
        *[(lambda np, a, b, v, t, name=name: (getattr(np, name)(np.where(a == 2, np.nan, a * 1.0)),
                                              getattr(np, name)(np.where(t > 2, np.nan, t), axis=2)), REAL)
          for name in WITHOUT_NAN],
        (lambda np, a, b, v, t: [f(np.where(np.arange(4) == 1, np.nan, a * 1.0), axis=1)
                                 for f in (np.nanargmax, np.nanargmin)], REAL),
        (lambda np, a, b, v, t: (np.argmax(a), np.argmin(a, axis=1), np.cumsum(a), np.cumprod(a, axis=1),
                                 np.trace(a), np.sum(a, where=b > 1), np.sum(a, dtype="float64"), np.mean(a, 0)),
                                 NUMBERS),
        (lambda np, a, b, v, t: (np.average(a), np.average(a, weights=b + 1), np.average(a, axis=1, weights=v[:4] + 1),
                                 np.average(t, axis=1, weights=v[:3] + 1, returned=True)), NUMBERS),
        *[(lambda np, a, b, v, t, method=method: (np.quantile(v, 0.3, method=method),
                                                  np.quantile(t, [0, 0.25, 0.5, 1], axis=1, method=method)),
                                 ["float64"]) for method in METHODS],
        (lambda np, a, b, v, t: (np.quantile(a, 0.4), np.percentile(a, 40, axis=0), np.percentile(v, [10, 90]),
                                 np.quantile(t, 0.7, axis=(0, 1), keepdims=True)), ["int64", "float64"]),
        (lambda np, a, b, v, t: [function(*given, method="inverted_cdf", **options) for function, given, options in [
            (np.quantile, (a, [0, 0.3, 1]), {"weights": numpy.arange(12.0).reshape(3, 4)}),
            (np.percentile, (a, 50), {"weights": [0, 2, 1], "axis": 0}),
            (np.quantile, (t, 0.6), {"weights": numpy.array([1, 0, 2]), "axis": 1, "keepdims": True}),
            (np.nanquantile, (np.where(a > 2, np.nan, a), [0.2, 0.9]), {"weights": b * 0 + [1, 1, 2, 3], "axis": 1}),
            (np.nanpercentile, (np.where(a > 2, np.nan, a), 70), {"weights": a * 0 + 2})]], ["int64", "float64"]),
        (lambda np, a, b, v, t: (np.nanquantile(np.where(t > 3, np.nan, t), 0.4, axis=2),
                                 np.nanpercentile(np.where(a == 2, np.nan, a), [20, 60], axis=1)), ["float64"]),
        (lambda np, a, b, v, t: (np.cov(a), np.cov(a, b), np.cov(v, bias=True), np.cov(a, rowvar=False, ddof=0),
                                 np.cov(a, fweights=[1, 2, 1, 3]), np.cov(a, aweights=[0.5, 1, 2, 1])), REAL[1:]),
        (lambda np, a, b, v, t: (np.corrcoef(a[:, :3] + np.arange(3) ** 2), np.corrcoef(v, v ** 2 + 1)), REAL[1:]),
    ],
    "searching": [
        (lambda np, a, b, v, t: (np.sort(a), np.sort(a, axis=0), np.sort(a, None), np.argsort(v, kind="stable"),
                                 np.searchsorted(np.sort(v), a), np.searchsorted(np.sort(v), [1, 2], side="right")),
                                 NUMBERS),
        (lambda np, a, b, v, t: (np.where(a > 1, a, b), np.where(a > 1, a, 0), np.where(a > 1), np.nonzero(a),
                                 np.flatnonzero(a), np.argwhere(a > 1), np.where(a, 1, 2.5)), NUMBERS),
        (lambda np, a, b, v, t: (np.extract(a > 1, a), np.compress([True, False, True], a, axis=0),
                                 np.select([a > 3, a > 1], [a, b * 10], -1), np.take(a, [1, 2], axis=1), np.take(a,
                                 [5]),
                                 np.choose(np.array([0, 1, 0, 1]), [a, b])), NUMBERS),
        (lambda np, a, b, v, t: (np.take_along_axis(a, np.argsort(a, axis=1, kind="stable"), axis=1),
                                 np.lexsort((v % 2, v)), np.lexsort((v[:4], a[0]))), NUMBERS),
        (lambda np, a, b, v, t: (np.piecewise(v, [v < 1, v >= 1], [-1, 1]), np.piecewise(v, [v < 2], [lambda x: x * 3,
                                 7]),
                                 np.apply_along_axis(lambda r: r.sum(), 1, a), np.apply_along_axis(np.cumsum, 0, a)),
                                 NUMBERS),
        (lambda np, a, b, v, t: (np.unique(a), np.unique(a, True, True, True), np.unique(a % 2, axis=0),
                                 np.unique(a % 2, axis=1, return_counts=True, return_index=True)), NUMBERS),
        (lambda np, a, b, v, t: (np.isin(a, v[:3]), np.union1d(v, a), np.intersect1d(v, a), np.setdiff1d(a, v[:3]),
                                 np.setxor1d(v, a), np.intersect1d(v, a, return_indices=True),
                                 np.isin(a, [1, 2], invert=True)), NUMBERS),
        (lambda np, a, b, v, t: (np.sort(np.partition(v, 3)[:3]), np.partition(v, 3)[3]), NUMBERS),
        (lambda np, a, b, v, t: (np.sort_complex(v), np.sort_complex(v % 3 + 1j * v), list(np.ndenumerate(a)),
                                 a[np.tril_indices_from(a)], a[np.triu_indices_from(a, 1)],
                                 a[:, :3][np.diag_indices_from(a[:, :3])]), REAL[1:]),
    ],
    "statistics": [
        (lambda np, a, b, v, t: (np.histogram(a), np.histogram(a, 4), np.histogram(v, 3, (0, 4)), np.histogram(v, [0,
                                 1, 3]),
                                 np.histogram(v, 4, density=True), np.histogram(v, 5, weights=v * 0.5),
                                 np.histogram(v * 0 + 2, 3)), NUMBERS),
        (lambda np, a, b, v, t: (np.histogram2d(v, v ** 2, 3), np.histogram2d(v, v, [[0, 1, 2], [0, 2, 4]]),
                                 np.histogramdd(np.stack([v, v * 2, v % 2], -1), 2), np.histogram_bin_edges(v, "auto"),
                                 np.histogram2d(v, v, [2, 3], density=True)), REAL[1:]),
        (lambda np, a, b, v, t: (np.bincount(np.abs(v)), np.bincount(np.abs(v), minlength=12),
                                 np.bincount(np.abs(v), weights=v * 0.5)), INTEGERS),
        (lambda np, a, b, v, t: (np.digitize(a, [0, 1, 3]), np.digitize(a, [0, 1, 3], right=True),
                                 np.digitize(v, [3, 1, 0]), np.digitize(v, [3, 1, 0], right=True)), NUMBERS),
        (lambda np, a, b, v, t: (np.isclose(a, b), np.allclose(a, a), np.array_equal(a, b), np.array_equiv(a, a[None]),
                                 np.isclose(a, a * (1 + 1e-9))), NUMBERS),
    ],
    "signals": [
        (lambda np, a, b, v, t: (np.diff(v), np.diff(a, axis=0), np.diff(a, 2), np.diff(v, prepend=0),
                                 np.diff(v, append=[8, 9]), np.ediff1d(v, to_begin=9), np.ediff1d(v)), NUMBERS),
        (lambda np, a, b, v, t: (np.gradient(v), np.gradient(a), np.gradient(v, 2), np.gradient(v, np.arange(7) ** 2.0),
                                 np.gradient(a, axis=1), np.gradient(v, 0.5, edge_order=2),
                                 np.gradient(v, np.arange(7) ** 2.0, edge_order=2), np.gradient(a, 2, np.arange(4.0))),
                                 REAL),
        (lambda np, a, b, v, t: (np.trapezoid(v), np.trapezoid(a, axis=0), np.trapezoid(v, np.arange(7) ** 2),
                                 np.trapezoid(a, dx=0.5), np.trapezoid(a, b)), NUMBERS),
        (lambda np, a, b, v, t: (np.unwrap(v * 2.5), np.unwrap(a * 3, axis=0), np.unwrap(v * 2, period=4)), REAL),
        (lambda np, a, b, v, t: [np.convolve(v, w, mode) for mode in ("full", "same", "valid")
                                 for w in (v[:3], v[:4], v[:1], np.tile(v, 2))], [*NUMBERS, "complex128"]),
        (lambda np, a, b, v, t: [np.correlate(v, w, mode) for mode in ("full", "same", "valid")
                                 for w in (v[:3], v[:4], v[:1], np.tile(v, 2), np.tile(v, 2)[:10])],
         [*NUMBERS, "complex128"]),
        (lambda np, a, b, v, t: (np.convolve(np.tile(v, 20), np.tile(v, 6)), np.correlate(np.tile(v, 9), np.tile(v,
                                 8))),
         NUMBERS),
        (lambda np, a, b, v, t: (np.interp(a * 0.3, np.arange(7), v), np.interp(a, [1, 2], [5, 7], left=-1, right=9),
                                 np.interp(v * 100, [90, 200, 300], [1, 2, 3], period=360)), REAL[1:]),
        (lambda np, a, b, v, t: (np.hanning(8), np.hamming(7), np.blackman(5), np.bartlett(6), np.kaiser(9, 14),
                                 np.hanning(1)), ["float64"]),
    ],
    "products": [
        (lambda np, a, b, v, t: (np.dot(a, b.T), np.dot(v, v), np.dot(a, v[:4]), np.dot(t, b.T), np.dot(3, a),
                                 np.vdot(a, b), np.inner(a, b), np.inner(v, v), np.outer(v, a), np.matmul(a, b.T),
                                 a @ b.T, np.tensordot(a, b), np.tensordot(a, b, axes=([1], [1])),
                                 np.tensordot(t, a, axes=2),
                                 np.tensordot(t, b.T, 1), np.kron(a, b[:2]), np.kron(v[:2], a), np.trace(a @ b.T)),
         [*NUMBERS, "complex128"]),
        (lambda np, a, b, v, t: (np.cross(a[:, :3], b[:, :3]), np.cross(a[:, 1:], v[:3]),
                                 np.cross(t, t[::-1], axis=1)), [*NUMBERS, "complex128"]),
        (lambda np, a, b, v, t: [np.einsum(text, *arrays) for text, arrays in [
            ("ij,kj->ik", (a, b)), ("ij->ji", (a,)), ("ij->", (a,)), ("ii->i", (a[:, :3],)), ("ii", (a[:, :3],)),
            ("i,i", (v, v)), ("i,j->ij", (v, v)), ("bij,jk->bik", (t, b.T)), ("...j,kj->...k", (t, b)), ("ij,ij->ij",
                                 (a, b)),
            ("bij,bkj->bik", (t, t)), ("ij,jk,kl->il", (a, b.T, a)), ("i,ij,j->", (v[:3], a, v[:4])), ("ij,kl->",
                                 (a, b)),
            ("ij,ij", (a, b)), ("bij,bij->b", (t, t)), ("a...->...a", (t,)), ("ijk,kl,lm,mn->ijn", (t, b.T, a, b.T)),
            ("i...,i...->...", (a, b)), ("ij,i->j", (a, v[:3])), ("i,ij->j", (v[:3], a)), ("ij,j->i", (a, v[:4])),
            ("bij,b->ij", (t, v[:2])), ("bij,bi->j", (t, a[:2, :3])), ("bij,bj->bi", (t, a[:2])), ("bij,bi->bj", (
                t, a[:2, :3])), ("ji,bij->b", (a.T, t)), ("ij,bij->bj", (a, t))]], [*NUMBERS, "complex128"]),
        (lambda np, a, b, v, t: (np.einsum(a, [0, 1], b, [2, 1], [0, 2]),
                                 np.einsum("ij,jk,kl", a, b.T, a, optimize=True)),
         NUMBERS),
    ],
    "linear algebra": [
        (lambda np, a, b, v, t: [np.linalg.norm(v, order) for order in (None, 1, 2, 3, 0, numpy.inf, -numpy.inf)] + [
            np.linalg.norm(a, order) for order in (None, "fro", "nuc", 1, -1, 2, -2, numpy.inf, -numpy.inf)] + [
            np.linalg.norm(a, axis=1), np.linalg.norm(t, 1, axis=(0, 2)), np.linalg.norm(a, axis=0, keepdims=True),
            np.linalg.norm(t), np.linalg.norm(t, 2, (1, 2), True)], [*REAL, "complex128"]),
        (lambda np, a, b, v, t: (np.linalg.inv(s := a[:, :3] + 9 * np.eye(3)), np.linalg.det(s),
                                 np.linalg.solve(s, v[:3]),
                                 np.linalg.solve(s, b), np.linalg.matrix_power(s, 3), np.linalg.matrix_rank(s),
                                 np.linalg.slogdet(s), np.linalg.cond(s), np.linalg.cond(s, 1),
                                 np.linalg.eigvalsh(s + s.T),
                                 np.linalg.svd(s, compute_uv=False), np.linalg.pinv(a), np.linalg.cholesky(s @ s.T),
                                 np.abs(np.linalg.qr(s)[1])), REAL[1:]),
        (lambda np, a, b, v, t: (np.linalg.lstsq(m := np.vander(np.arange(7.0), 3), v)[:2], np.linalg.lstsq(m, v)[3],
                                 np.linalg.lstsq(m, np.stack([v, v * 2], 1))[0], np.linalg.lstsq(m.T, v[:3])[0]),
                                 REAL[1:]),
        (lambda np, a, b, v, t: (np.linalg.multi_dot([a, b.T, a]), np.linalg.multi_dot([v[:3], a, b.T, v[:3]]),
                                 np.linalg.tensorinv(np.eye(4 * 6).reshape(4, 6, 8, 3) + 0.01), np.linalg.tensorsolve(
            np.eye(2 * 3 * 4).reshape(2 * 3, 4, 2, 3, 4) + 0.01, np.ones((6, 4)) * v[0]),
                                 np.sort(np.linalg.eigvals(a[:, :3] + a[:, :3].T))), REAL[1:]),
    ],
    "polynomials": [
        (lambda np, a, b, v, t: (np.polyval(v, a), np.polyadd(v, v[:3]), np.polysub(v[:2], v), np.polyder(v, 2),
                                 np.polymul([1, 2], [3, 4, 5]), np.polyint([3, 2, 1]), np.polyint([6, 2], 2, k=[1, 2])),
         NUMBERS),
        (lambda np, a, b, v, t: (np.polydiv([1.0, -3, 2, 5], [1.0, -1]), np.sort(np.roots([1, -6, 11, -6])),
                                 np.poly([1.0, 2, 3]), np.poly(np.array([[2.0, 1], [1, 3]])), np.roots([1.0, 0, 0])),
         REAL[1:]),
        (lambda np, a, b, v, t: (np.polyfit(np.arange(7.0), v, 2), np.polyfit(np.arange(7.0), v,
                                 1, w=np.arange(7.0) + 1),
                                 np.polyfit(np.arange(7.0), v, 1, cov=True)), REAL[1:]),
        (lambda np, a, b, v, t: ((p := np.poly1d([1.0, 2, 3]))(2), p(a), (p * p).coeffs, (p + 1).c,
                                 (p - p).c, p.deriv().c,
                                 p.integ().c, (p ** 2).order, p[0], np.sort(np.abs(p.roots))), REAL[1:]),
    ],
    "fft": [
        (lambda np, a, b, v, t: (np.fft.fft(v), np.fft.ifft(v), np.fft.rfft(a), np.fft.irfft(np.fft.rfft(v), 7),
                                 np.fft.fft2(a), np.fft.ifft2(a), np.fft.fftn(t), np.fft.rfft2(a), np.fft.fftshift(v),
                                 np.fft.ifftshift(a, axes=1), np.fft.fft(a, 6, 0, "ortho"), np.fft.fftfreq(8, 0.1),
                                 np.fft.rfftfreq(8), np.fft.irfft2(np.fft.rfft2(a), (3, 4)), np.fft.hfft(v),
                                 np.fft.ihfft(v)),
         ["int64", "float64"]),
    ],
    "types": [
        (lambda np, a, b, v, t: [np.packbits(x % 2, axis, bitorder=order) for x in (a, v, t) for axis in (None, 0, -1)
                                 for order in ("big", "little")], ["bool", "uint8", *INTEGERS]),
        (lambda np, a, b, v, t: [np.unpackbits(x, axis, count, order) for x in (a * 37, v * 91) for axis in (None, 0)
                                 for count in (None, 3, -3, 100) for order in ("big", "little")], ["uint8"]),
        (lambda np, a, b, v, t: (np.emath.sqrt(a - 2), np.emath.sqrt(abs(a)), np.emath.log(b - 2.5),
                                 np.emath.log2(a - 2.5), np.emath.log10(-abs(a) - 1), np.emath.logn(3, a - 2.5),
                                 np.emath.power(a - 2, 0.5), np.emath.arccos(a), np.emath.arcsin(a * 0.1),
                                 np.emath.arctanh(a * 0.5 + 0.1)), ["float64"]),
        (lambda np, a, b, v, t: (np.asarray_chkfinite(a), np.require(a, requirements="O"),
                                 np.mask_indices(4, np.triu, 1)), NUMBERS),
        (lambda np, a, b, v, t: [float(x) for x in np.nditer(a)] + [i for i, _ in np.ndenumerate(t)] +
         list(np.ndindex(2, 2)), NUMBERS),
        (lambda np, a, b, v, t: (np.isrealobj(a), np.iscomplexobj(a), np.isscalar(3), np.issubdtype(a.dtype,
                                 np.floating),
                                 np.can_cast(a.dtype, "float64"), a.dtype == "int32", a.itemsize, a.nbytes), ALL),
        (lambda np, a, b, v, t: (a.astype("float32"), np.asarray(a, dtype=np.float64), np.array(a, np.int16),
                                 np.result_type(a, np.float32) == "float64", np.float32(3) * 1), NUMBERS),
    ],
}
CASES = [(group, number) for group, rows in GROUPS.items() for number in range(len(rows))]


def arrays(dtype: str, seed: int) -> list[numpy.ndarray[Any, Any]]:
    rng = numpy.random.default_rng(seed)
    found = [rng.integers(0, 6, shape) for shape in ((3, 4), (3, 4), (7,), (2, 3, 4))]
    if dtype == "complex128":
        return [array + 1j * rng.integers(-3, 3, array.shape) for array in found]
    if dtype[0] == "f":
        found = [array + rng.integers(0, 2, array.shape) * 0.25 for array in found]
    return [(array % 2 if dtype == "bool" else array).astype(dtype) for array in found]


def same(found: Any, expected: Any, strict: bool = True) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            same(a, b, strict)
    elif isinstance(expected, (numpy.ndarray, numpy.generic)):
        array = numpy.asarray(found)
        assert array.shape == numpy.shape(expected)
        wide = expected.dtype
        if strict:
            assert array.dtype == expected.dtype
        tolerance = 3e-3 if wide in ("float16",) else 3e-5 if wide in ("float32", "complex64") else 1e-9
        numpy.testing.assert_allclose(array, expected, rtol=tolerance, atol=tolerance)
    else:
        assert found == expected


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("group", "number"), CASES)
def test_functions_are_those_of_numpy(group: str, number: int, eager: int) -> None:
    call, types = GROUPS[group][number]
    for dtype in types:
        given = arrays(dtype, zlib.crc32(f"{group}{number}{dtype}".encode()))
        same(call(dnp, *[dnp.array(array) for array in given]), call(numpy, *given))


@pytest.mark.parametrize("text", ["ii->i", "ij->ji", "ij->ij", "ij", "kii->ik", "...i->i...", "ii->"])
def test_einsum_of_one_array_is_a_view_where_it_is_one_in_numpy(text):
    shape = (3,) * (3 if text[0] == "k" else 2)
    a = numpy.arange(float(numpy.prod(shape))).reshape(shape)
    x = dnp.asarray(a)
    found, expected = dnp.einsum(text, x), numpy.einsum(text, a)
    assert found.tolist() == expected.tolist()
    if numpy.shares_memory(expected, a):
        found[...] = found * 2 + 1
        expected[...] = expected * 2 + 1
    numpy.testing.assert_array_equal(numpy.asarray(x), a)


@pytest.mark.parametrize("text", ["ij,i->j", "i,ij->j"])
def test_einsum_of_a_matrix_and_a_vector_is_their_product(text):
    """The kernel of the product, not one of all products of elements."""
    values = numpy.arange(140000.0).reshape(2000, 70) % 7
    x, v = dnp.asarray(values), dnp.ones(2000) * 1
    dr.eval(x, v)
    launched = []
    for product in (lambda: dnp.einsum(text, *((x, v) if text[1] == "j" else (v, x))), lambda: x.T @ v):
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            assert numpy.asarray(product()).tolist() == values.sum(axis=0).tolist()  # of small integers
            launched.append([entry["hash"] for entry in dr.kernel_history() if "hash" in entry])
    assert launched[0] == launched[1] != []


CREATED = {"zeros": ((2,),), "ones": ((2,),), "full": ((2,), 3), "arange": (5,), "asarray": ([1, 2],),
           "asanyarray": ([1, 2],), "eye": (3,), "ascontiguousarray": ([1.5],)}


@pytest.mark.parametrize("name", CREATED)
def test_new_arrays_are_on_a_device_and_like_others(name: str, eager: int) -> None:
    function, of_numpy = getattr(dnp, name), getattr(numpy, name)
    same(function(*CREATED[name], like=dnp.arange(3)), of_numpy(*CREATED[name], like=numpy.arange(3)))
    assert isinstance(of_numpy(*CREATED[name], like=dnp.arange(3)), dnp.ndarray)
    with pytest.raises(TypeError, match=r"drjit\.numpy\.\w+\(\): 'like' must be an array, found int"):
        function(*CREATED[name], like=3)
    if name != "ascontiguousarray":
        same(function(*CREATED[name], device="cpu"), of_numpy(*CREATED[name], device="cpu"))
        with pytest.raises(ValueError, match="no device 'tpu'"):
            function(*CREATED[name], device="tpu")


def test_arrays_like_others_may_be_on_their_device() -> None:
    x = dnp.arange(3.0)
    for name in ("zeros_like", "ones_like", "empty_like"):
        assert getattr(dnp, name)(x, device="cpu").device == "cpu"
    assert dnp.full_like(x, 2, device="cpu").tolist() == [2, 2, 2] and dnp.linspace(0, 1, 3, device=None).size == 3
    assert dnp.linspace(0, 1, 3, retstep=True, device="cpu")[1] == 0.5
    assert dnp.astype(x, "int32", device="cpu").tolist() == [0, 1, 2]
    for found, expected in ((dnp.identity(2, like=x), numpy.eye(2)), (dnp.tri(2, like=x), numpy.tri(2)),
                            (dnp.fromiter([1, 2], float, like=x), numpy.array([1.0, 2])),
                            (dnp.array([1], like=x), numpy.array([1])),
                            (dnp.fromfunction(lambda i, j: i + j, (2, 2), like=x), numpy.array([[0.0, 1], [1, 2]])),
                            (dnp.frombuffer(bytes(8), like=x), numpy.zeros(1))):
        same(found, expected)


def test_accumulating_one_element_makes_an_array_of_its_own():
    x = dnp.array([[True, False]])
    dnp.maximum.accumulate(x, axis=0)[0, 1] = True
    assert x.tolist() == [[True, False]]


@pytest.mark.parametrize("name", ["concatenate", "stack", "vstack", "hstack"])
def test_joined_arrays_become_a_data_type_as_a_rule_allows(name: str, eager: int) -> None:
    values = [numpy.array([1.5, 2]), numpy.array([3, 4])]
    for dtype, casting in (("float32", "same_kind"), ("int32", "unsafe"), ("complex128", "safe"),
                           ("int32", "same_kind"), ("float32", "safe")):
        try:
            expected = getattr(numpy, name)(values, dtype=dtype, casting=casting)
        except TypeError:
            with pytest.raises(TypeError, match=rf"{name}\(\): (float64|int64) cannot become {dtype} by the casting "
                                                rf"rule '{casting}'"):
                getattr(dnp, name)([dnp.array(value) for value in values], dtype=dtype, casting=casting)
            continue
        found = getattr(dnp, name)([dnp.array(value) for value in values], dtype=dtype, casting=casting)
        assert found.dtype == expected.dtype
        numpy.testing.assert_array_equal(numpy.asarray(found), expected)
