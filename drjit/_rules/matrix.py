"""Products, determinants and inverses of square matrices over row-major lists of nodes.

Entries may have several components (matrices of arrays): the lists then hold the components of an entry next to each
other, and everything is done for each of them. Sums of products are chains of fused multiply-additions. Sizes are up to
4, where everything is unrolled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import drjit_core as core
from drjit_core import KIND, binary, literal, ops, ternary

__all__ = ["determinant", "dot", "inner", "inverse", "multiply", "size_of", "transpose"]

Nodes = Sequence[core.Node]

_MUL, _FMA = KIND["mul"], KIND["fma"]


def size_of(nodes: Nodes) -> int:
    """The number of rows of a square matrix with entries of one component."""
    return math.isqrt(len(nodes))


def dot(a: list[core.Node], b: list[core.Node], addend: core.Node | None = None) -> core.Node:
    """Sum of products, plus ``addend``, of lists of one length, which is not zero."""
    result = addend
    for k in range(len(a)):
        left, right = a[k], b[k]
        result = binary(_MUL, left, right) if result is None else ternary(_FMA, left, right, result)
    return result  # type: ignore[return-value]


def multiply(a: list[core.Node], b: list[core.Node], n: int, addend: list[core.Node] | None = None) -> list[core.Node]:
    """Product of matrices, of a matrix and a column, or of a row and a matrix, by the number of entries: the inner
    dimension is ``n``. ``addend`` is added."""
    columns = len(b) // n
    products: list[core.Node] = []
    for row in range(len(a) // n):
        for column in range(columns):
            result = None if addend is None else addend[row * columns + column]
            for k in range(n):
                left, right = a[row * n + k], b[k * columns + column]
                result = binary(_MUL, left, right) if result is None else ternary(_FMA, left, right, result)
            products.append(result)  # type: ignore[arg-type]
    return products


def transpose(a: Nodes, n: int) -> list[core.Node]:
    """Transpose of a matrix whose entries may have several components."""
    inner = len(a) // (n * n)
    return [a[(column * n + row) * inner + k] for row in range(n) for column in range(n) for k in range(inner)]


def inner(function: Callable[[list[core.Node]], list[core.Node]], a: Nodes, n: int) -> list[core.Node]:
    """Apply a function of matrices to each component of the entries."""
    count = len(a) // (n * n)
    if count == 1:
        return function(list(a))
    results = [function(list(a[k::count])) for k in range(count)]
    return [node for entry in zip(*results, strict=True) for node in entry]


def _minor(a: core.Node, b: core.Node, c: core.Node, d: core.Node) -> core.Node:
    """``a d - b c``."""
    return ops.fma(a, d, ops.neg(ops.mul(b, c)))  # type: ignore[no-any-return]


def _minors4(m: list[core.Node]) -> tuple[list[core.Node], list[core.Node]]:
    """The 2x2 minors of the upper and of the lower two rows, for columns 01 02 03 12 13 23."""
    pairs = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
    upper = [_minor(m[i], m[j], m[4 + i], m[4 + j]) for i, j in pairs]
    lower = [_minor(m[8 + i], m[8 + j], m[12 + i], m[12 + j]) for i, j in pairs]
    return upper, lower


def _determinant4(s: list[core.Node], c: list[core.Node]) -> core.Node:
    """Laplace expansion along two rows: ``s0 c5 - s1 c4 + s2 c3 + s3 c2 - s4 c1 + s5 c0``."""
    positive = dot([s[0], s[2], s[3], s[5]], [c[5], c[3], c[2], c[0]])
    return ops.sub(positive, dot([s[1], s[4]], [c[4], c[1]]))  # type: ignore[no-any-return]


def _cofactors3(m: list[core.Node]) -> list[core.Node]:
    """The adjugate of a 3x3 matrix: the transposed cofactors."""
    a, b, c, d, e, f, g, h, i = m
    return [_minor(e, f, h, i), _minor(c, b, i, h), _minor(b, c, e, f),
            _minor(f, d, i, g), _minor(a, c, g, i), _minor(c, a, f, d),
            _minor(d, e, g, h), _minor(b, a, h, g), _minor(a, b, d, e)]


def determinant(m: list[core.Node]) -> core.Node:
    """Determinant of a matrix of up to 4 rows with entries of one component."""
    n = size_of(m)
    if n == 1:
        return m[0]
    if n == 2:
        return _minor(*m)
    if n == 3:
        return dot(m[:3], _cofactors3(m)[::3])
    return _determinant4(*_minors4(m))


def inverse(m: list[core.Node]) -> list[core.Node]:
    """Inverse by the adjugate divided by the determinant; of a singular matrix, infinities and NaN.

    The one of 4x4 matrices takes 12 minors of two rows (D. Eberly, *The Laplace Expansion Theorem: Computing the
    Determinants and Inverses of Matrices*, Geometric Tools, 2008).
    """
    n = size_of(m)
    if n == 1:
        return [core.rcp(m[0])]
    if n == 2:
        a, b, c, d = m
        determinant_, adjugate = _minor(*m), [d, ops.neg(b), ops.neg(c), a]
    elif n == 3:
        adjugate = _cofactors3(m)
        determinant_ = dot(m[:3], adjugate[::3])
    else:
        s, t = _minors4(m)
        determinant_ = _determinant4(s, t)

        def entry(p: core.Node, x: core.Node, q: core.Node, y: core.Node, r: core.Node, z: core.Node) -> core.Node:
            return ops.fma(p, x, ops.fma(r, z, ops.neg(ops.mul(q, y))))  # type: ignore[no-any-return]

        def opposite(p: core.Node, x: core.Node, q: core.Node, y: core.Node, r: core.Node, z: core.Node) -> core.Node:
            return ops.fma(q, y, ops.neg(ops.fma(p, x, ops.mul(r, z))))  # type: ignore[no-any-return]

        adjugate = [
            entry(m[5], t[5], m[6], t[4], m[7], t[3]), opposite(m[1], t[5], m[2], t[4], m[3], t[3]),
            entry(m[13], s[5], m[14], s[4], m[15], s[3]), opposite(m[9], s[5], m[10], s[4], m[11], s[3]),
            opposite(m[4], t[5], m[6], t[2], m[7], t[1]), entry(m[0], t[5], m[2], t[2], m[3], t[1]),
            opposite(m[12], s[5], m[14], s[2], m[15], s[1]), entry(m[8], s[5], m[10], s[2], m[11], s[1]),
            entry(m[4], t[4], m[5], t[2], m[7], t[0]), opposite(m[0], t[4], m[1], t[2], m[3], t[0]),
            entry(m[12], s[4], m[13], s[2], m[15], s[0]), opposite(m[8], s[4], m[9], s[2], m[11], s[0]),
            opposite(m[4], t[3], m[5], t[1], m[6], t[0]), entry(m[0], t[3], m[1], t[1], m[2], t[0]),
            opposite(m[12], s[3], m[13], s[1], m[14], s[0]), entry(m[8], s[3], m[9], s[1], m[10], s[0]),
        ]
    factor = ops.div(literal(determinant_.type, 1), determinant_)
    return [ops.mul(node, factor) for node in adjugate]
