"""Products of matrices and cooperative vectors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import drjit_core as core
from drjit_core import (
    BAKED,
    COMPUTES_IN,
    Flow,
    Node,
    ReduceMode,
    Vertex,
    cast,
    gather,
    literal,
    ops,
    primal,
    tracked,
)

from .._access.lanes import TRUE
from .._base.errors import describe
from .._base.nodes import broadcast
from .._base.types import UINT32, relative, retype
from .._functions.creation import arange
from .._functions.structure import Structure
from .._promotion.promote import wrap
from .vector import CoopVec
from .views import MatrixView

__all__ = ["matvec"]

#: Sums of products have rows of a multiple of so many elements, whatever is asked for.
_PADDED = 16
#: Distances in memory, which may be negative, are added modulo this.
_WORD = 1 << 32


def matvec(A: MatrixView, x: CoopVec[Any], b: MatrixView | None = None, /, transpose: bool = False) -> CoopVec[Any]:
    """The product ``A @ x``, or ``A @ x + b``, of a matrix and a cooperative vector: another cooperative vector.

    ``A`` and ``b`` (a column) are views of buffers of any layout, of the scalar type of ``x``: any of half, single and
    double precision. With ``transpose``, the transposed matrix is meant; so it is of a view that is transposed itself.
    Products of half precision are summed in single precision, and rounded once.

    Derivatives flow from and to ``x``, and the buffers, in both modes; gradients of buffers of half precision are
    summed in single precision, too. The product is traced, and part of the kernel that needs it; in loops, calls and
    frozen functions as well.

    Raises a ``TypeError`` for what are no views and no vector, a ``RuntimeError`` for shapes or types that do not fit.

    >>> from drjit.llvm import Float, TensorXf
    >>> A, b = dr.nn.pack(TensorXf([1, 2, 3, 4], (2, 2)), Float(5, 6))
    >>> list(dr.nn.matvec(A, dr.nn.CoopVec(Float(1, 0), 1), b))
    [[8, 7], [13, 10]]
    """
    function = "drjit.nn.matvec"
    if not isinstance(A, MatrixView) or not isinstance(x, CoopVec) or not (b is None or isinstance(b, MatrixView)):
        raise TypeError(f"{function}(): the arguments are a view of a matrix, a cooperative vector, and a view of a "
                        f"vector or None, found {describe(A)}, {describe(x)} and {describe(b)}; drjit.nn.view() and "
                        "drjit.nn.pack() make views.")
    matrix = A.T if transpose else A
    rows, columns, _, _ = matrix._steps
    nodes = x._nodes()
    for name, found in (("matrix", A), ("bias", b)):
        if found is not None and (found._buffer._type != nodes[0].type or found._buffer._kind != "f"):
            raise RuntimeError(f"{function}(): the {name} has elements of the type {describe(found._buffer)}, the "
                               f"cooperative vector of the type {describe(x.type)}; both must be one type of "
                               "floating-point numbers.")
    if columns != len(nodes):
        raise RuntimeError(f"{function}(): a matrix of {rows} rows and {columns} columns"
                           f"{' (transposed)' if matrix._transpose else ''} does not go with a cooperative vector of "
                           f"{len(nodes)} components.")
    if b is not None and b._steps[:2] != (rows, 1):
        raise RuntimeError(f"{function}(): the bias of a product with {rows} rows has the shape ({rows}, 1), found "
                           f"{b._steps[:2]}.")
    for found in (A, b):
        if found is not None:  # of a PyTree, buffers may have become others
            core.require_matrix(function, found._buffer._n, *found._shape, found._offset, found._stride, 1)
    arrays = [found._buffer for found in (A, b) if found is not None]
    diff = x.type._record.diff or any(array._record.diff for array in arrays)
    leaf = relative(x.type, x.type._record.backend, diff)
    if any(array._record.backend is not leaf._record.backend for array in arrays):
        raise RuntimeError(f"{function}(): the arguments belong to different backends.")
    return CoopVec._made(leaf, _product(matrix, nodes, b))


def _product(matrix: MatrixView, nodes: list[Node], bias: MatrixView | None) -> list[Node]:
    type_ = nodes[0].type
    wide = COMPUTES_IN[type_]
    return [cast(node, type_) for node in _products(matrix, [cast(node, wide) for node in nodes], bias)]


def _read(found: MatrixView, row: int, column: int) -> Node:
    """An element of a matrix, in the type that is computed in."""
    _, _, down, right = found._steps
    source = found._buffer._n
    index = literal(UINT32, found._offset + row * down + column * right, 1, BAKED)
    return cast(gather(source, index, TRUE), COMPUTES_IN[source.type])


def _products(matrix: MatrixView, nodes: list[Node], bias: MatrixView | None = None) -> list[Node]:
    """The product, maybe with a bias, with values of the type that is computed in."""
    rows, columns, down, right = matrix._steps
    views = [matrix] if bias is None else [matrix, bias]
    sources = [view._buffer._n for view in views]
    tracks = any(tracked(node) is not None for node in (*sources, *nodes))
    # of what there is one of, each element of a region has a gradient of its own
    within = tracks and core.current().region is not None and 1 in [source.size for source in sources]
    if not core.limits(matrix._buffer._where).tracing.products or within or not rows * columns or \
            0 in [node.size for node in (*sources, *nodes)]:
        return _added([_sum([(_read(matrix, row, column), nodes[column]) for column in range(columns)])
                       for row in range(rows)], bias)
    plain = [_view_in(view, primal(view._buffer._n)) for view in views]
    found = _added(core.products(plain[0]._buffer._n, [primal(node) for node in nodes], rows, matrix._offset, down,
                                 right), *plain[1:])
    return Product(views, nodes).attached(found) if tracks else found


def _added(nodes: list[Node], bias: MatrixView | None = None) -> list[Node]:
    return nodes if bias is None else [ops.add(node, _read(bias, row, 0)) for row, node in enumerate(nodes)]


def _sum(pairs: list[tuple[Node, Node]]) -> Node:
    """The sum of products."""
    (weight, value), *rest = pairs
    total: Node = ops.mul(weight, value)
    for weight, value in rest:
        total = ops.fma(weight, value, total)
    return total


def _outer_sums(left: list[Node], right: list[Node], width: int, leaf: type[Any]) -> Node:
    """A matrix, row by row: the products of components of two vectors, added up over so many elements; ``leaf`` is the
    class of such arrays."""
    nodes = [*left, *right]
    if width > 1 and all(node.size == 1 for node in nodes):  # the same for each element
        left = [ops.mul(node, literal(node.type, width)) for node in left]
    found = core.outer_sums([primal(node) for node in left], [primal(node) for node in right])
    if all(tracked(node) is None for node in nodes):
        return found
    (result,) = Outer(left, right, width, leaf).attached([found])
    return result


def _with_products(view: MatrixView, left: list[Node], right: list[Node], memory: Node) -> Node:
    """A new version of memory, to which a region adds the products of components of two vectors, where a view of a
    matrix says."""
    _, _, down, across = view._steps
    version: Node = core.add_outer_sums(primal(memory), [primal(node) for node in left],
                                        [primal(node) for node in right], TRUE, view._offset, down, across)
    if all(tracked(node) is None for node in (memory, *left, *right)):
        return version
    (version,) = Addition(view, left, right, memory).attached([version])
    return version


def _view_in(view: MatrixView, buffer: Node) -> MatrixView:
    """The view of another buffer."""
    return view._with(_buffer=wrap(retype(type(view._buffer), buffer.type), [buffer]))


def _padded(count: int) -> int:
    return -(-count // _PADDED) * _PADDED


def _filled(changes: list[Node | None], like: list[Node]) -> list[Node]:
    """Changes, of which some are zero."""
    return [literal(node.type, 0) if change is None else change for change, node in zip(changes, like, strict=True)]


class Product(Structure):
    """A product with a vector, whose operands are the buffers of the matrix and of the bias, if there is one, and the
    components.

    The derivative by the vector is a product with the transposed matrix, that by the matrix the sum of products of the
    components of gradient and vector; that by the bias has ones in the place of the vector.
    """

    name, label = "Product", "matvec"

    def __init__(self, views: list[MatrixView], nodes: list[Node]) -> None:
        super().__init__([*(view._buffer._n for view in views), *nodes])
        self.views = views

    def _parts(self, flow: Flow) -> tuple[MatrixView, list[Node]]:
        """Matrix and vector."""
        operands = self.kept(flow)
        return _view_in(self.views[0], operands[0]), operands[len(self.views):]

    def reverse(self, flow: Flow) -> None:
        """Let gradients flow to the vector, the matrix and the bias."""
        matrix, values = self._parts(flow)
        type_, width = self.outputs[0]
        gradients = [self.received.get(place, literal(type_, 0)) for place in range(len(self.outputs))]
        vertices = self.vertices
        count = len(self.views)
        if any(vertex is not None and flow.takes(vertex) for vertex in vertices[count:]):
            for vertex, gradient in zip(vertices[count:], _products(matrix.T, gradients), strict=True):
                if vertex is not None:
                    flow.bring(vertex, gradient, width)
        if any(vertex is not None and flow.takes(vertex) for vertex in vertices[:count]):
            self._reverse_memory(flow, vertices[:count], gradients, values, width)

    def _reverse_memory(self, flow: Flow, vertices: Sequence[Vertex | None], gradients: list[Node], values: list[Node],
                        width: int) -> None:
        first = min(vertex.id for vertex in vertices if vertex is not None)
        if flow.crosses and flow.part is not None and first <= flow.limit:  # samples without a part are not summed
            part = flow.part(width)
            gradients = [ops.select(part, node, literal(node.type, 0)) for node in gradients]
        takes = [vertex is not None and flow.takes(vertex) for vertex in vertices]
        if core.current().region is not None:
            self._write_within(flow, vertices, takes, gradients, values)
            return
        left = values if takes[0] else []
        if takes[1:] == [True]:
            left = [*left, literal(gradients[0].type, 1)]
        rows, columns, type_ = len(left), len(gradients), gradients[0].type
        leaf = retype(type(self.views[0]._buffer), type_)
        position: Any = arange(retype(leaf, UINT32), rows * columns)
        if rows * _padded(columns) > columns * _padded(rows):
            found = _outer_sums(gradients, left, width, leaf)
            along = position // rows
            down = position - along * rows
        else:
            found = _outer_sums(left, gradients, width, leaf)
            down = position // columns
            along = position - down * columns
        inner = len(values) if takes[0] else 0
        for view, vertex, taken, is_bias in zip(self.views, vertices, takes, (False, True), strict=False):
            if not taken:
                continue
            assert vertex is not None
            _, _, step, right = view._steps
            index = along * (step % _WORD) + view._offset
            if not is_bias:
                index += down * (right % _WORD)
            mask = TRUE if inner in (0, rows) else ((down >= inner) if is_bias else (down < inner))._n
            flow.scatter(vertex, found, index._n, mask, ReduceMode.NoConflicts.value)

    def _write_within(self, flow: Flow, vertices: Sequence[Vertex | None], takes: Sequence[bool],
                      gradients: list[Node], values: list[Node]) -> None:
        """In a region, each element that takes part adds to memory."""
        one = literal(gradients[0].type, 1)
        for view, vertex, taken, others in zip(self.views, vertices, takes, (values, [one]), strict=False):
            if taken:
                assert vertex is not None
                flow.write(vertex, functools.partial(_with_products, view, gradients, others))

    def uses(self, place: int) -> tuple[bool, bool]:
        """Matrix and bias are read by index."""
        vertex, count = self.inputs[place], len(self.views)
        if not [node for node in self.operands[:count] if tracked(node) is vertex]:
            return False, True
        return True, bool([node for node in self.operands[count:] if tracked(node) is vertex])

    def forward(self, flow: Flow) -> None:
        """Let changes of matrix, bias and vector flow to the result."""
        matrix, values = self._parts(flow)
        count = len(self.views)
        by_memory, by_values = (changes := self.changes(flow))[:count], changes[count:]
        parts = []
        if any(change is not None for change in by_values):
            parts.append(_products(matrix, _filled(by_values, values)))
        moved = [view if change is None else _view_in(view, broadcast(change, node.size))
                 for view, node, change in zip(self.views, self.operands, by_memory, strict=False)]
        if by_memory[0] is not None:
            parts.append(_products(moved[0], values))
        if by_memory[1:] and by_memory[1] is not None:
            parts.append([_read(moved[1], row, 0) for row in range(len(self.outputs))])
        for place, nodes in enumerate(zip(*parts, strict=True)):
            total = nodes[0]
            for node in nodes[1:]:
                total = ops.add(total, node)
            self.sent[place] = total


class Outer(Structure):
    """The sum over elements of the products of components of two vectors: its derivatives are products of a matrix and
    a vector."""

    name, label = "Outer", "outer product"

    def __init__(self, left: list[Node], right: list[Node], width: int, leaf: type[Any]) -> None:
        super().__init__([*left, *right])
        self.rows, self.width, self.leaf = len(left), width, leaf

    def reverse(self, flow: Flow) -> None:
        """Let the gradient flow to both vectors."""
        operands = self.kept(flow)
        left, right = operands[:self.rows], operands[self.rows:]
        gradient = broadcast(self.received[0], self.rows * len(right))
        matrix = MatrixView._make(wrap(self.leaf, [gradient]), (self.rows, len(right)), len(right), 0)
        vertices = self.vertices
        for factors, others, view in ((vertices[:self.rows], right, matrix), (vertices[self.rows:], left, matrix.T)):
            if any(vertex is not None and flow.takes(vertex) for vertex in factors):
                for vertex, part in zip(factors, _products(view, others), strict=True):
                    if vertex is not None:
                        flow.bring(vertex, part, self.width)

    def forward(self, flow: Flow) -> None:
        """Let changes of both vectors flow to the matrix."""
        operands, changes = self.kept(flow), self.changes(flow)
        left, right = operands[:self.rows], operands[self.rows:]
        by_left, by_right = changes[:self.rows], changes[self.rows:]
        parts = []
        if any(change is not None for change in by_left):
            parts.append(_outer_sums(_filled(by_left, left), right, self.width, self.leaf))
        if any(change is not None for change in by_right):
            parts.append(_outer_sums(left, _filled(by_right, right), self.width, self.leaf))
        if parts:
            self.sent[0] = parts[0] if len(parts) == 1 else ops.add(*parts)


class Addition(Structure):
    """Products of components of two vectors that are added to memory in a region.

    The gradient of the memory is the same before and after, and what it says about both vectors are products of it, as
    a matrix, with the other one.
    """

    name, label = "Addition", "sum of outer products"

    def __init__(self, view: MatrixView, left: list[Node], right: list[Node], memory: Node) -> None:
        super().__init__([memory, *left, *right])
        self.operands[0] = literal(memory.type, 0)  # which nobody reads
        self.view, self.rows = view, len(left)

    def nodes(self) -> list[Node]:
        """The values that the derivative needs: memory is not read."""
        return super().nodes()[1:]

    def _parts(self, flow: Flow) -> tuple[list[Node], list[Node]]:
        """Both vectors."""
        _, *operands = self.kept(flow)
        return operands[:self.rows], operands[self.rows:]

    def reverse(self, flow: Flow) -> None:
        """Let the gradient flow to both vectors, and to memory."""
        left, right = self._parts(flow)
        gradient, (_, width) = self.received[0], self.outputs[0]
        flow.give(self.vertices[0], gradient, width, True)
        matrix, (_, *vertices) = _view_in(self.view, broadcast(gradient, width)), self.vertices
        for factors, others, view in ((vertices[:self.rows], right, matrix), (vertices[self.rows:], left, matrix.T)):
            if any(vertex is not None and flow.takes(vertex) for vertex in factors):
                for vertex, part in zip(factors, _products(view, others), strict=True):
                    if vertex is not None:
                        flow.bring(vertex, part, part.size)

    def forward(self, flow: Flow) -> None:
        """Let changes of both vectors flow to memory."""
        left, right = self._parts(flow)
        memory, *changes = self.changes(flow)
        by_left, by_right = changes[:self.rows], changes[self.rows:]
        assert memory is not None
        if any(change is not None for change in by_left):
            memory = _with_products(self.view, _filled(by_left, left), right, memory)
        if any(change is not None for change in by_right):
            memory = _with_products(self.view, left, _filled(by_right, right), memory)
        self.sent[0] = memory


def _matmul(self: MatrixView, arg: Any, /) -> Any:
    return matvec(self, arg) if isinstance(arg, CoopVec) else NotImplemented


MatrixView.__matmul__ = _matmul  # type: ignore[operator]
