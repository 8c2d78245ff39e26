"""What scripts do with NumPy, by the chapters of its user guide: the same text runs on NumPy and on ``drjit.numpy``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest

import drjit.numpy as dnp

#: Idioms by chapter, one in each paragraph. The result is ``r``, or the value of the only expression.
TEXT = {
    "creation": """
np.array([1, 2, 3])

np.array([[1.5, 2, 3], [4, 5, 6]])

np.array([[1, 2], [3, 4]], dtype=complex)

np.zeros((3, 4)), np.ones((2, 3, 4), dtype=np.int16), np.zeros(3, int)

np.arange(10, 30, 5), np.arange(0, 2, 0.3), np.linspace(0, 2, 9)

x = np.linspace(0, 2 * np.pi, 100)
r = np.sin(x)

np.eye(3), np.identity(2), np.diag([1, 2, 3]), np.full((2, 2), 7)

np.fromfunction(lambda i, j: i + j, (3, 3), dtype=int)

np.empty((2, 3)).shape, np.empty_like(np.arange(3.0)).dtype == np.float64

np.meshgrid(np.linspace(0, 1, 3), np.linspace(0, 1, 2))

x, y = np.mgrid[0:5, 0:5]
r = x * 10 + y

np.vander(np.linspace(0, 2, 5), 2)

np.array([np.arange(3), np.arange(3) * 2])

np.tri(3), np.tril(np.ones((3, 3))), np.triu(np.arange(9).reshape(3, 3), 1)

np.geomspace(1, 256, 9), np.logspace(0, 2, 5)

np.array(range(4)), np.asarray((1, 2.5)), np.array(3.5)

np.repeat(np.array([[1, 2]]), 3, axis=0), np.tile(np.array([0, 1]), (2, 2))
""",
    "basics": """
a = np.arange(15).reshape(3, 5)
r = a.shape, a.ndim, a.dtype.name, a.itemsize, a.size

a = np.array([20, 30, 40, 50])
b = np.arange(4)
r = a - b, b ** 2, 10 * np.sin(a), a < 35

A, B = np.array([[1, 1], [0, 1]]), np.array([[2, 0], [3, 4]])
r = A * B, A @ B, A.dot(B)

a = np.ones((2, 3), dtype=int)
a *= 3
b = np.random.default_rng(1).random((2, 3)) * 0
b += a
r = a, b

a = np.ones(3, dtype=np.int32)
b = np.linspace(0, np.pi, 3)
c = a + b
r = c, c.dtype.name, np.exp(c * 1j)

b = np.arange(12).reshape(3, 4)
r = b.sum(axis=0), b.min(axis=1), b.cumsum(axis=1), b.max(), b.mean()

b = np.arange(3)
r = np.exp(b), np.sqrt(b), np.add(b, np.array([2., -1., 4.]))

a = np.arange(10) ** 3
a[:6:2] = 1000
r = a, a[2], a[2:5], a[::-1]

[float(i ** (1 / 3.)) for i in np.arange(1, 5) ** 3]

b = np.fromfunction(lambda x, y: 10 * x + y, (5, 4), dtype=int)
r = b[2, 3], b[0:5, 1], b[:, 1], b[1:3, :], b[-1]

r = [row for row in np.arange(6).reshape(2, 3)]

[int(e) for e in np.arange(6).reshape(2, 3).flat]

a = np.floor(10 * np.arange(12) / 7).reshape(3, 4)
r = a.ravel(), a.reshape(6, 2), a.T, a.T.shape, a.reshape(3, -1)

a, b = np.arange(4).reshape(2, 2), np.arange(4, 8).reshape(2, 2)
r = np.vstack((a, b)), np.hstack((a, b)), np.column_stack((a[0], b[0])), np.concatenate([a, b], axis=None)

a, b = np.array([4., 2.]), np.array([3., 8.])
r = a[:, np.newaxis], np.column_stack((a[:, np.newaxis], b[:, np.newaxis])), np.r_[1:4, 0, 4]

a = np.arange(24).reshape(2, 12)
r = np.hsplit(a, 3), np.hsplit(a, (3, 4)), np.vsplit(a, 2)

a = np.array([1, 2, 3])
b = a
b[0] = 9
r = a, b is a

a = np.arange(12).reshape(3, 4)
c = a.view()
c = c.reshape((2, 6))
c[0, 4] = 1234
r = a

a = np.arange(12).reshape(3, 4)
s = a[:, 1:3]
s[:] = 10
r = a

a = np.arange(6)
d = a.copy()
d[0] = 9999
r = a, d

x = np.array([1, 2, 3, 4], dtype='float32')
r = x.astype(int), x.dtype == 'float32', x.astype(np.float64).dtype == float

np.float32(1.5) * np.arange(3, dtype=np.float32), np.int64(3) + 1

np.array([1, 2, 3]).tolist(), np.arange(3).sum().item(), float(np.ones(4).mean()), int(np.array(7))

len(np.zeros((4, 2))), np.array([[1, 2], [3, 4]]).T.tolist()
""",
    "indexing": """
x = np.arange(10)
r = x[2], x[-2], x[2:5], x[:-7], x[1:7:2], x[np.array([3, 3, 1, 8])]

x = np.arange(35).reshape(5, 7)
r = x[np.array([0, 2, 4]), np.array([0, 1, 2])], x[np.array([0, 2, 4]), 1], x[1:5:2, ::3]

x = np.array([[1, 2], [3, 4], [5, 6]])
r = x[[0, 1, 2], [0, 1, 0]]

x = np.arange(12).reshape(4, 3)
rows, columns = np.array([0, 3]), np.array([0, 2])
r = x[np.ix_(rows, columns)], x[rows[:, None], columns]

x = np.array([[1., 2.], [np.nan, 3.], [np.nan, np.nan]])
r = x[~np.isnan(x)]

x = np.array([1., -1., -2., 3])
x[x < 0] += 20
r = x

x = np.arange(35).reshape(5, 7)
b = x > 20
r = b[:, 5], x[b[:, 5]], x[b]

x = np.array([[0, 1], [1, 1], [2, 2]])
r = x[x.sum(-1) <= 2, :]

y = np.arange(35).reshape(5, 7)
r = y[np.array([0, 2, 4]), 1:3], y[:, 1:3][np.array([0, 2, 4]), :]

x = np.arange(0, 50, 10)
x[np.array([1, 1, 3, 1])] += 1
r = x

x = np.arange(81).reshape(3, 3, 3, 3)
r = x[1, ..., 2], x[..., 0], x[:, None, 0].shape, x[(1, 1, 1, 1)]

a = np.zeros((3, 3))
a[1] = [1, 2, 3]
a[:, 2] = 9
a[0, 0] = -1
r = a

a = np.arange(12).reshape(3, 4)
i, j = np.array([[0, 1], [1, 2]]), np.array([[2, 1], [3, 3]])
r = a[i, j], a[i, 2], a[:, j]

a = np.arange(5)
a[[1, 3, 4]] = 0
r = a

a = np.arange(5)
a[[0, 0, 2]] = [1, 2, 3]
r = a[1:]

a = np.arange(12).reshape(3, 4)
a[a > 4] = 0
r = a

data = np.sin(np.arange(20)).reshape(5, 4)
ind = data.argmax(axis=0)
r = ind, data[ind, range(data.shape[1])], np.array_equal(data[ind, np.arange(4)], data.max(axis=0))

a = np.arange(10)
r = a[a % 2 == 0], a[(a > 2) & (a < 8)], a[(a < 2) | (a == 9)], a[~(a > 5)]

a = np.arange(5)
r = 3 in a, 7 in a, np.any(a > 3), np.all(a < 5)

a = np.zeros(8, dtype=int)
np.add.at(a, [0, 1, 1, 1, 7], 1)
r = a

z = np.arange(6).reshape(2, 3)
r = np.take(z, [0, 2], axis=1), z.take([1, 4]), np.take_along_axis(z, np.array([[0], [2]]), axis=1)

a = np.arange(9).reshape(3, 3)
a[np.arange(3), np.arange(3)] = 0
r = a, a[np.triu_indices(3)], np.diagonal(a), a.diagonal(1)

a = np.arange(4.0)
a[-1], a[0] = a[0], 5
r = a

a = np.arange(6).reshape(2, 3)
a[:, [0, 2]] = a[:, [2, 0]]
r = a

sieve = np.ones(30, dtype=bool)
sieve[:2] = False
for k in range(2, 6):
    sieve[k * k::k] = 0
r = np.nonzero(sieve)[0], np.flatnonzero(sieve)
""",
    "broadcasting": """
a, b = np.array([1.0, 2.0, 3.0]), 2.0
r = a * b

a = np.array([[0.0, 0.0, 0.0], [10.0, 10.0, 10.0]])
b = np.array([1.0, 2.0, 3.0])
r = a + b, a + b[:2, None]

np.arange(4)[:, None] + np.arange(3)[None, :]

observation = np.array([111.0, 188.0])
codes = np.array([[102.0, 203.0], [132.0, 193.0], [45.0, 155.0], [57.0, 173.0]])
diff = codes - observation
dist = np.sqrt(np.sum(diff ** 2, axis=-1))
r = np.argmin(dist)

x = np.arange(12.0).reshape(4, 3)
r = (x - x.mean(axis=0)) / x.std(axis=0), x / x.sum(axis=1, keepdims=True)

p = np.arange(8.0).reshape(4, 2) ** 1.5
r = ((p[:, None, :] - p[None, :, :]) ** 2).sum(axis=2)

np.broadcast_to(np.arange(3), (2, 3)), np.broadcast_arrays(np.arange(3), np.arange(2)[:, None])

w = np.arange(24).reshape(2, 3, 4)
r = w * np.array([1, 0, 2, 1]), w + np.ones((3, 1))

x = np.linspace(-1, 1, 5)
X, Y = np.meshgrid(x, x)
r = np.exp(-(X ** 2 + Y ** 2)), np.hypot(X, Y)

np.maximum(np.arange(3)[:, None], np.arange(4)), np.where(np.arange(3)[:, None] > 1, 1.5, np.arange(2))
""",
    "reductions": """
a = np.arange(24).reshape(2, 3, 4)
r = a.sum(), a.sum(axis=(0, 2)), a.prod(axis=1), a.mean(-1), a.std(axis=0, ddof=1), a.var()

np.sum([1, 2, 3]), np.mean([[1, 2], [3, 4]], axis=0), np.max([3, 1]), np.prod((1, 2, 3)), np.min([[2.5]])

a = np.array([[1, 7], [9, 2]])
r = np.argmax(a), np.unravel_index(np.argmax(a), a.shape), a.argmin(axis=1)

np.cumsum(np.arange(5)), np.cumprod([1, 2, 3]), np.diff([1, 4, 9, 16]), np.diff(np.eye(3), axis=0)

a = np.array([1, np.nan, 3])
r = np.nansum(a), np.nanmean(a), np.nanmax(a), np.nanstd(a), np.isnan(a).any(), np.nan_to_num(a)

np.median([3, 1, 2, 4]), np.percentile([1, 2, 3, 4], 30), np.quantile([1., 2, 3], [0.1, 0.5]), np.ptp([3, 9])

np.average([1, 2, 3], weights=[3, 2, 1]), np.count_nonzero([[0, 1], [2, 0]]), np.count_nonzero(np.eye(2), axis=0)

x = np.array([1e3, 2e3, 3e3])
e = np.exp(x - np.max(x))
r = e / e.sum()

a = np.arange(6).reshape(2, 3)
r = a.all(), a.any(axis=0), (a > 2).sum(), (a > 2).mean(), np.all(a >= 0, axis=1)

np.add.reduce([1, 2, 3]), np.multiply.outer([1, 2], [3, 4]), np.maximum.accumulate([1, 3, 2, 5, 4])

x = np.array([2., 4, 4, 4, 5, 5, 7, 9])
r = (x - x.mean()) / x.std(), np.sqrt(((x - x.mean()) ** 2).mean())

window = 3
x = np.arange(10.0) ** 2
c = np.cumsum(np.insert(x, 0, 0))
r = (c[window:] - c[:-window]) / window
""",
    "sorting": """
a = np.array([[1, 4], [3, 1]])
r = np.sort(a), np.sort(a, axis=None), np.sort(a, axis=0), np.sort(a)[:, ::-1]

a = np.array([3, 1, 2])
a.sort()
r = a, np.argsort([3, 1, 2]), np.argsort(-np.array([3, 1, 2]))

names, ages = np.array([2, 1, 2]), np.array([30, 25, 20])
order = np.lexsort((ages, names))
r = order, names[order]

a = np.array([[3, 2], [1, 5], [2, 1]])
r = a[a[:, 0].argsort()], a[np.argsort(a[:, 1])[::-1]]

np.unique([1, 1, 2, 2, 3, 3]), np.unique([3, 1, 1], return_counts=True), np.unique([[1, 0], [1, 0]], axis=0)

u, inverse = np.unique(np.array([5, 2, 6, 2]), return_inverse=True)
r = u, inverse, u[inverse]

np.searchsorted([1, 2, 3, 4, 5], 3), np.searchsorted([1, 2, 3], [-10, 10, 2], side='right')

np.intersect1d([1, 3, 4, 3], [3, 1, 2]), np.union1d([-1, 0, 1], [-2, 0, 2]), np.setdiff1d([1, 2, 3], [2]), \
    np.isin([1, 2, 5], [2, 5]), np.setxor1d([1, 2], [2, 3])

x = np.array([7, 2, 9, 4, 1])
r = np.sort(np.partition(x, 2)[:2]), x[np.argsort(x)[-3:]]

ranks = np.empty(4, int)
ranks[np.argsort([30, 10, 40, 20])] = np.arange(4)
r = ranks

a = np.array([1, 2, 2, 5])
r = np.where(a == 2), np.where(a == 2)[0], np.argwhere(a > 1), np.nonzero(a - 2), np.flatnonzero(a > 1)

np.flip([1, 2, 3]), np.flipud(np.eye(2)), np.fliplr(np.eye(2)), np.rot90([[1, 2], [3, 4]]), np.roll([1, 2, 3], 1)
""",
    "linear algebra": """
a = np.array([[1.0, 2.0], [3.0, 4.0]])
r = a.transpose(), np.linalg.inv(a), np.eye(2), a @ np.array([[0.0, -1.0], [1.0, 0.0]]), np.trace(a)

a, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.], [7.]])
r = np.linalg.solve(a, y), np.linalg.det(a), np.linalg.matrix_rank(a), np.linalg.cond(a)

w, v = np.linalg.eigh(np.array([[2.0, 1], [1, 3]]))
r = w, np.abs(v), np.allclose(v @ np.diag(w) @ v.T, [[2, 1], [1, 3]])

w, v = np.linalg.eig(np.array([[2.0, 0], [0, 3]]))
r = np.sort(w)

np.sort_complex(np.asarray(np.linalg.eig(np.array([[0.0, -1.0], [1.0, 0.0]]))[0])) if hasattr(np, 'sort_complex') else \
    np.array([-1j, 1j])

U, s, Vt = np.linalg.svd(np.arange(6.0).reshape(2, 3), full_matrices=False)
r = s, (U * s) @ Vt

Q, R = np.linalg.qr(np.array([[1.0, 2], [3, 4], [5, 6]]))
r = Q @ R, np.abs(np.diag(R))

x, y = np.array([0, 1, 2, 3]), np.array([-1, 0.2, 0.9, 2.1])
A = np.vstack([x, np.ones(len(x))]).T
m, c = np.linalg.lstsq(A, y, rcond=None)[0]
r = m, c

np.linalg.norm([3, 4]), np.linalg.norm(np.eye(3)), np.linalg.norm(np.arange(6).reshape(2, 3), axis=1), \
    np.linalg.norm([1, -2], ord=1), np.linalg.norm([1, -2], np.inf)

np.dot([1, 2], [3, 4]), np.inner([1, 2], [0, 1]), np.outer([1, 2], [3, 4]), np.cross([1, 2, 3], [4, 5, 6]), \
    np.vdot([1j], [1]), np.kron([1, 10], [5, 6])

np.einsum('ij,jk->ik', np.ones((2, 3)), np.ones((3, 2))), np.einsum('ii', np.eye(3)), np.einsum('i,j', [1, 2], [3, \
    4]), \
    np.einsum('...i->...', np.ones((2, 3))), np.tensordot(np.ones((2, 3)), np.ones((3, 2)), axes=1)

np.linalg.matrix_power([[0, 1], [-1, 0]], 3), np.linalg.cholesky([[2., 1], [1, 2]]), np.linalg.pinv([[1., 2], [3, 4]])

A = np.array([[4.0, 1.0], [1.0, 3.0]])
x = np.ones(2)
for _ in range(50):
    x = A @ x
    x = x / np.linalg.norm(x)
r = x @ A @ x

np.linalg.slogdet(np.array([[1., 2], [3, 4]]))[1], np.linalg.multi_dot([np.eye(2), np.ones((2, 3)), np.ones(3)])

try:
    np.linalg.inv(np.zeros((2, 2)))
except np.linalg.LinAlgError:
    r = 'singular'
""",
    "mathematics": """
x = np.linspace(0.1, 0.9, 5)
r = np.sin(x), np.arcsin(x), np.arctan2(x, 1), np.log1p(x), np.expm1(x), np.sinh(x), np.cbrt(x), np.tanh(-x), np.exp2(x)

np.floor([-1.7, 1.7]), np.ceil([-1.7, 1.7]), np.rint([-1.7, 1.5]), np.trunc([-1.7]), np.round(3.14159, 2), \
    np.around(2.5)

np.mod([-5, 5], 3), np.fmod([-5.0, 5], 3), np.floor_divide(7, 2), np.divmod(np.array([7, 8]), 3), np.remainder(-1, 3)

np.clip([1, 5, 9], 2, 8), np.sign([-2.0, 0, 3]), np.abs([-1, 2]), np.fabs([-1.5]), np.square([2]), np.power(2, [1, \
    2, 3])

np.deg2rad(180), np.rad2deg(np.pi), np.radians([90]), np.degrees(1.0), np.hypot(3, 4), np.sinc([0, 0.5])

np.gcd(12, 20), np.lcm(4, 6), np.maximum([1, 5], [3, 2]), np.fmin([1, np.nan], 2), np.heaviside([-1., 0, 2], 0.5)

z = np.array([1 + 2j, 3 - 1j])
r = z.real, z.imag, np.conj(z), np.abs(z), np.angle(z), z * 2, z ** 2, np.exp(1j * np.pi), np.angle(1j, deg=True)

np.isfinite([1, np.inf, np.nan]), np.isinf([np.inf]), np.isclose([1.0], [1.0 + 1e-9]), np.allclose([1, 2], [1, 2.1])

np.trapezoid([1, 2, 3], dx=0.5), np.gradient([1., 2, 4, 7]), np.interp(2.5, [1, 2, 3], [3, 2, 0]), np.unwrap([0, 3, \
    6.5])

np.convolve([1, 2, 3], [0, 1, 0.5]), np.correlate([1, 2, 3], [0, 1, 0.5], 'same'), np.convolve([1, 2, 3], [1, 1], \
    'valid')

np.bitwise_and(13, 17), np.left_shift([5], 2), np.invert(np.array([True])), np.bitwise_xor([3], 5), ~np.array([0]), \
    np.array([6]) >> 1

with np.errstate(divide='ignore', invalid='ignore'):
    r = np.array([1., 0]) / np.array([0., 1])

a, b = np.array([1., 2]), np.array([0., 4])
r = np.divide(a, b, out=np.zeros_like(a), where=b != 0)

x = np.array([-2., -1, 0, 1])
r = np.where(x > 0, x, 0.01 * x), np.piecewise(x, [x < 0, x >= 0], [lambda x: -x, lambda x: x]), \
    np.select([x < -1, x > 0], [x * 2, x * 3], 7)

f = np.vectorize(lambda x, y: x * y + 1)
r = f(np.arange(3), 2)

-np.arange(3), +np.arange(3), abs(np.array([-1, 1])), np.arange(4) // 2, np.arange(4) % 3, 2 ** np.arange(3.0), \
    1 / np.ones(2)

divmod(np.arange(5), 3) if False else (np.arange(5) // 3, np.arange(5) % 3)

np.e, np.pi, np.inf, np.newaxis is None, np.euler_gamma
""",
    "polynomials": """
np.polyval([3, 0, 1], 5), np.polyfit([0., 1, 2], [1., 3, 5], 1), np.roots([1, -3, 2]), np.polyder([1, 2, 3]), \
    np.polyint([2, 2]), np.polymul([1, 1], [1, -1]), np.polyadd([1], [1, 2])

p = np.poly1d([1, 2, 3])
r = p(0.5), p.order, p.c, p.deriv().c, p[1], (p * 2).c

x = np.linspace(0, 1, 10)
c = np.polyfit(x, 2 * x ** 2 - x, 2)
r = np.round(c, 6) + 0.0, np.poly1d(c)(2.0)
""",
    "statistics": """
np.histogram([1, 2, 1], bins=[0, 1, 2, 3]), np.histogram(np.arange(5.0), bins=2, density=True), np.bincount([0, 1, \
    1, 3])

np.cov(np.array([[0., 1, 2], [2, 1, 0]])), np.corrcoef([1., 2, 3], [1., 2, 2.5]), np.digitize([0.2, 6.4], [0, 1, \
    2.5, 10])

x = np.array([1., 2, 3, 4])
y = 2 * x + 1
slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
r = slope, y.mean() - slope * x.mean(), np.var(x, ddof=1)

q1, q3 = np.percentile(np.arange(11), [25, 75])
r = q3 - q1, np.histogram2d([0., 1, 1], [0., 0, 1], bins=2)[0]

labels, values = np.array([0, 1, 0, 2, 1]), np.array([1., 2, 3, 4, 5])
r = np.bincount(labels, weights=values) / np.bincount(labels)
""",
    "random": """
rng = np.random.default_rng(42)
x = rng.random((2, 3))
r = x.shape, bool(np.all((x >= 0) & (x < 1)))

rng = np.random.default_rng(0)
x = rng.normal(5, 2, size=4000)
r = abs(float(x.mean()) - 5) < 0.2, abs(float(x.std()) - 2) < 0.2, np.shape(rng.standard_normal())

rng = np.random.default_rng(1)
x = rng.integers(0, 10, size=500)
r = int(x.min()), int(x.max()), x.dtype == np.int64, np.unique(x).size

rng = np.random.default_rng(3)
p = rng.permutation(10)
r = np.sort(p), np.sort(rng.choice(5, size=5, replace=False)), rng.choice([7, 7, 7], 3)

rng = np.random.default_rng(3)
a = np.arange(10)
rng.shuffle(a)
r = np.sort(a)

np.random.seed(0)
r = np.random.rand(2, 2).shape, np.random.randn(3).shape, np.random.randint(1, 7, 10).max() <= 6, \
    np.random.uniform(-1, 1, 5).shape, np.random.choice(3, 4).shape

rng = np.random.default_rng(5)
pts = rng.uniform(-1, 1, (20000, 2))
inside = (pts ** 2).sum(axis=1) <= 1
r = abs(4 * inside.mean() - np.pi) < 0.1

rng = np.random.default_rng(9)
r = rng.exponential(2.0, 3).shape, rng.poisson(3, 5).dtype == np.int64, rng.binomial(10, 0.5, 4).max() <= 10, \
    rng.multivariate_normal([0, 0], np.eye(2), 6).shape, rng.gamma(2.0, size=2).shape, rng.beta(1, 2, 3).shape
""",
    "signals and grids": """
t = np.arange(64) / 64
x = np.sin(2 * np.pi * 5 * t)
r = np.argmax(np.abs(np.fft.rfft(x))), np.fft.rfftfreq(64, 1 / 64)[5]

x = np.arange(8.0)
r = np.fft.ifft(np.fft.fft(x)).real, np.fft.fftshift(np.fft.fftfreq(8)), np.fft.fft2(np.eye(2)), \
    np.fft.irfft(np.fft.rfft(x))

x = np.arange(16.0)
w = np.hanning(5)
r = np.convolve(w / w.sum(), x, mode='valid'), np.pad(x[:3], (2, 1), mode='edge'), np.pad([[1, 2]], 1)

u = np.zeros((6, 6))
u[2, 2] = 1
for _ in range(3):
    u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
r = u

grid = np.array([[0, 1, 0], [0, 1, 0], [0, 1, 0]])
n = sum(np.roll(np.roll(grid, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1)) - grid
r = n, (n == 3) | (grid & (n == 2))

f = np.sin(np.linspace(0, np.pi, 50))
r = np.trapezoid(f, np.linspace(0, np.pi, 50)), np.gradient(f, np.pi / 49)[:3], np.cumsum(f)[-1]

y, x = np.ogrid[-2:3, -2:3]
mask = x * x + y * y <= 4
a = np.zeros((5, 5))
a[mask] = 1
r = a, np.indices((2, 2)), np.argwhere(mask)[:2]

x, last = np.array([4.0, 9.0]), 0.0
guess = x / 2
while np.max(np.abs(guess * guess - x)) > 1e-10:
    guess = 0.5 * (guess + x / guess)
r = guess
""",
    "texts and files": """
a = np.arange(4.0)
np.save(folder + '/a.npy', a)
r = np.load(folder + '/a.npy')

np.savetxt(folder + '/b.txt', np.eye(2))
r = np.loadtxt(folder + '/b.txt')

np.array2string(np.arange(3)), np.array_str(np.arange(3)), f'{np.arange(3).sum():d} {np.float64(1.25):.1f}'

np.testing.assert_allclose(np.arange(3), [0, 1, 2])
r = np.array_equal([1, 2], [1, 2]), np.issubdtype(np.float32, np.floating), np.iinfo(np.int8).max, np.finfo(float).eps

for i, row in enumerate(np.arange(6).reshape(3, 2)):
    x, y = row
r = i, x, y, list(map(int, np.arange(3))), max(np.arange(4)), sum(np.arange(4))

r = dict(zip(np.array([1, 2]).tolist(), 'ab')), [float(x) for x in np.linspace(0, 1, 3)], \
    np.arange(3).tolist() == [0, 1, 2]

if np.arange(3).any() and not np.zeros(2).any():
    r = bool(np.array(True)), np.array([5])[0] == 5

try:
    np.ones(3) + np.ones(4)
except ValueError:
    r = 'shapes'

try:
    np.arange(3)[7]
except IndexError:
    r = 'index'

try:
    np.arange(6).reshape(4, 2)
except ValueError:
    r = 'reshape'
""",
    "arguments": """
a, b = np.zeros(2), np.zeros(2)
found = np.modf([1.5, 2.5], out=(a, b))
r = a, b, found[0] is a

a, b = np.zeros(2, dtype=int), np.zeros(2, dtype=int)
np.divmod([7, 8], 3, a, b)
r = a, b

q, w = np.divmod([7, 8], 3, out=(np.zeros(2, dtype=int), None))
r = q, w

np.add(np.array([1.5]), 1, dtype=int, casting='unsafe'), np.sqrt([4], dtype=np.float32), np.add([1], 2, casting='safe')

out = np.zeros(3, dtype=int)
np.add(np.arange(3.) + .7, 1, out=out, casting='unsafe')
r = out

out = np.zeros(1, dtype=bool)
np.isposinf([np.inf], out=out)
r = out

np.clip(np.arange(5), a_min=1, a_max=3), np.clip(np.arange(5.), a_min=None, a_max=2.5), np.clip(5, 0, 3)

np.clip(np.arange(5, dtype=np.uint8), -1, 300), np.clip(np.arange(5), [1, 2, 3, 4, 5], 3)

x = np.zeros(6)
np.put(x, [0, 1, 2, 3], [1, 2])
r = x

x = np.zeros(6)
np.put(x, [0, 1], [1, 2, 3])
x.put([7, -8], 7, mode='wrap')
x.put([9, -9], 8, mode='clip')
r = x

np.subtract.reduce([10, 1, 2]), np.divide.reduce([8., 2, 2]), np.power.reduce([2, 3, 2])

np.subtract.accumulate([1, 2, 3]), np.divide.accumulate(np.array([[8., 4], [2, 2]]), axis=0)

np.subtract.reduce(np.arange(6).reshape(2, 3), axis=1, keepdims=True), np.remainder.reduce([17, 10, 4])

x = np.arange(4.)
r = np.var(x, where=[True, True, False, True]), np.std(x, ddof=1, where=[True, False, True, True]), np.var(x, mean=1.5)

x = np.array([[1, np.nan, 3], [4, 5, np.nan]])
r = np.nanmean(x, axis=1, where=[True, True, False]), np.nanvar(x, axis=1, ddof=1), np.nanmax(x, initial=7)

x = np.array([[1, np.nan, 3], [4, 5, np.nan]])
r = np.nanstd(x, axis=0, where=[[True], [True]]), np.nanmin(x, axis=1, initial=10, where=[False, True, True])

x = np.array([1 + 1j, 2, 3j])
r = np.std(x, where=[True, True, False]), np.var(x)

np.quantile([1, 2, 3, 4], 0.4, method='nearest'), np.percentile(np.arange(6), [33, 50], method='higher')

np.vectorize(lambda a, b: a + b if a > b else a - b)([1, 2, 3], 2), np.vectorize(lambda a: a * 2)(np.arange(3))

np.vectorize(lambda a: a.sum(), signature='(n)->()')(np.arange(6).reshape(2, 3))

import math
r = np.vectorize(math.floor, otypes=[float])([1.5, 2.5]), np.vectorize(pow, excluded={1})(np.arange(3), 2)

x = np.arange(10)
r = np.shares_memory(x, x[2:]), np.shares_memory(x[::2], x[1::2]), np.may_share_memory(x, x.copy()), np.shares_memory(
    x[2:5], x[::-1])

x = np.arange(3.) + 1j
r = np.shares_memory(x.real, x.imag), np.shares_memory(x.real, x)

x = np.arange(3)
r = x == None, x != None, x == 'a', (x == 'a').any()

np.polynomial.Polynomial([1, 2, 3])(np.arange(3.)), np.polynomial.polynomial.polyval(np.arange(3.), [1, 2])

isinstance(np.arange(2).dtype, np.dtype), np.dtype('f4').itemsize, np.dtype(float) == np.float64, np.dtype(np.int8).name

a = np.arange(3.)
np.testing.assert_allclose(a, [0, 1, 2])
r = a
""",
    "zeros": """
x = np.array([np.inf, np.nan, -1., 2., -np.inf])
r = np.isnan(x * 0), np.signbit(x * 0.0)[2:4], np.isnan(0 * x), np.isnan(x * np.zeros(5)), np.isnan(np.zeros(5) * x)

x = np.array([np.inf, -1.])
x *= 0
r = np.isnan(x), np.signbit(x[1:])

np.multiply(np.array([np.inf, np.nan]), 0), np.array([-2., 3]) * -0.0, np.zeros(2) * np.ones(2), np.arange(3) * 0
""",
    "orders": """
x = np.arange(6).reshape(2, 3)
r = x.T.ravel('K'), x.T.ravel('A'), x.T.flatten('A'), x.T.flatten('K'), x.T.reshape(-1, order='A'), x.ravel('A')

x = np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2)
r = x.flatten('K'), x.flatten('A'), np.ravel(x, 'K'), np.ravel(x, order='F'), x[:, ::-1].flatten('C')

x = np.arange(12).reshape(3, 4)
y = x.T.ravel('K')
y[0] = 99
r = x, y
""",
}
#: More of them, by chapters that lines with "# " begin.
MORE = (Path(__file__).parent / "idioms.txt").read_text("utf-8").removeprefix("# ").split("\n\n# ")
TEXT |= {f"more {chapter}": texts for chapter, texts in (part.split("\n\n", 1) for part in MORE)}
IDIOMS = [(chapter, number, text) for chapter, texts in TEXT.items()
          for number, text in enumerate(texts.strip("\n").split("\n\n"))]


def result(module: Any, text: str, folder: str) -> Any:
    names: dict[str, Any] = {"np": module, "folder": folder}
    try:
        code = compile(text, "idiom", "eval")
    except SyntaxError:
        exec(text, names)
        return names["r"]
    return eval(code, names)


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            same(a, b)
    elif isinstance(expected, (numpy.ndarray, numpy.generic, float)):
        array = numpy.asarray(found)
        assert array.shape == numpy.shape(expected)
        if isinstance(expected, numpy.ndarray):
            assert array.dtype == expected.dtype
        numpy.testing.assert_allclose(array, expected, rtol=1e-9, atol=1e-9)
    else:
        assert found == expected


def test_there_are_350() -> None:
    assert len(IDIOMS) >= 350


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("chapter", "number", "text"), IDIOMS, ids=[f"{c}-{n}" for c, n, _ in IDIOMS])
def test_idiom(chapter: str, number: int, text: str, tmp_path: Any, eager: int) -> None:
    same(result(dnp, text, str(tmp_path)), result(numpy, text, str(tmp_path)))
