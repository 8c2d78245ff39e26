"""Products of matrices and cooperative vectors."""

from __future__ import annotations

from copy import copy as shallow_copy
from typing import Any

import drjit_core as core
from drjit_core import (
    BAKED,
    COMPUTES_IN,
    HUB,
    STRUCTURE,
    Flow,
    JitBackend,
    Node,
    Vertex,
    cast,
    dual,
    gather,
    literal,
    ops,
    primal,
    tracked,
    vertex_of,
)

from .._access.indirect import scatter
from .._access.lanes import TRUE
from .._base.errors import describe
from .._base.nodes import broadcast
from .._base.types import UINT32, relative, retype
from .._functions.creation import arange, zeros
from .._functions.joining import concat
from .._functions.rearrangement import transpose as transposed
from .._functions.traits import tensor_t
from .._promotion.promote import wrap
from .vector import CoopVec
from .views import MatrixView

__all__ = ["matvec"]


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
    arrays = [found._buffer for found in (A, b) if found is not None]
    diff = x.type._record.diff or any(array._record.diff for array in arrays)
    leaf = relative(x.type, x.type._record.backend, diff)
    if any(array._record.backend is not leaf._record.backend for array in arrays):
        raise RuntimeError(f"{function}(): the arguments belong to different backends.")
    return CoopVec._made(leaf, _product(matrix, nodes, b))


def _product(matrix: MatrixView, nodes: list[Node], bias: MatrixView | None) -> list[Node]:
    type_ = nodes[0].type
    wide = COMPUTES_IN[type_]
    result = _products(matrix, [cast(node, wide) for node in nodes])
    if bias is not None:
        result = [ops.add(node, _read(bias, row, 0)) for row, node in enumerate(result)]
    return [cast(node, type_) for node in result]


def _read(found: MatrixView, row: int, column: int) -> Node:
    """An element of a matrix, in the type that is computed in."""
    _, _, down, right = found._steps
    source = found._buffer._n
    index = literal(UINT32, found._offset + row * down + column * right, 1, BAKED)
    return cast(gather(source, index, TRUE), COMPUTES_IN[source.type])


def _products(matrix: MatrixView, nodes: list[Node]) -> list[Node]:
    """The product with values of the type that is computed in."""
    rows, columns, down, right = matrix._steps
    source = matrix._buffer._n
    tracks = any(tracked(node) is not None for node in (source, *nodes))
    if matrix._buffer._record.backend is not JitBackend.LLVM or tracks and core.current().region is not None or \
            not rows * columns or 0 in [node.size for node in (source, *nodes)]:
        return [_sum([(_read(matrix, row, column), nodes[column]) for column in range(columns)])
                for row in range(rows)]
    found = core.products(primal(source), [primal(node) for node in nodes], rows, matrix._offset, down, right)
    return Product(matrix, nodes).attached(found) if tracks else found


def _sum(pairs: list[tuple[Node, Node]]) -> Node:
    """The sum of products."""
    (weight, value), *rest = pairs
    total: Node = ops.mul(weight, value)
    for weight, value in rest:
        total = ops.fma(weight, value, total)
    return total


class Product:
    """What a product has to do with derivatives: the payload of its vertex (see :class:`drjit_core.Copy`).

    The derivative by the vector is a product with the transposed matrix, that by the matrix a product of two matrices
    whose columns and rows are samples. Both are differentiable in turn.
    """

    again = True
    name = "Product"

    def __init__(self, matrix: MatrixView, nodes: list[Node]) -> None:
        self.matrix, self.values = matrix, nodes
        self.source: Node = matrix._buffer._n
        self.leaf = type(matrix._buffer)
        self.inputs = [vertex for node in (self.source, *nodes) if (vertex := tracked(node)) is not None]
        self.received: dict[int, Node] = {}
        self.sent: dict[int, Node] = {}
        self.outputs: list[tuple[int, int]] = []

    def attached(self, nodes: list[Node]) -> list[Node]:
        """The components of the result, with their vertices."""
        hub = Vertex(HUB, 0, 1, info=self)
        hub.label = "matvec"
        self.outputs = [(node.type, node.size) for node in nodes]
        return [dual(node, Vertex(STRUCTURE["output"], node.type, node.size, hub, info=place))
                for place, node in enumerate(nodes)]

    @staticmethod
    def uses(place: int) -> tuple[bool, bool]:
        """Whether an input is read by index as a whole, and whether it is used in another way."""
        del place
        return False, True

    def nodes(self) -> list[Node]:
        """The values that the derivative needs."""
        return [primal(node) for node in (self.source, *self.values)]

    def _kept(self, flow: Flow) -> tuple[MatrixView, list[Node]]:
        """Matrix and vector, with their vertices if the derivative is differentiated."""
        if flow.again:
            return self._matrix_in(self.source), self.values
        return self._matrix_in(primal(self.source)), [primal(node) for node in self.values]

    def _matrix_in(self, buffer: Node) -> MatrixView:
        return self.matrix._with(_buffer=wrap(retype(self.leaf, buffer.type), [buffer]))

    def reverse(self, flow: Flow) -> None:
        """Let gradients flow to the vector, and to the matrix."""
        matrix, values = self._kept(flow)
        type_, width = self.outputs[0]
        gradients = [self.received.get(place, literal(type_, 0)) for place in range(len(self.outputs))]
        vertices = [tracked(node) for node in self.values]
        if any(vertex is not None and flow.takes(vertex) for vertex in vertices):
            for vertex, gradient in zip(vertices, _products(matrix.T, gradients), strict=True):
                if vertex is not None:
                    flow.bring(vertex, gradient, width)
        vertex = tracked(self.source)
        if vertex is not None and flow.takes(vertex):
            crosses = flow.crosses
            if crosses and flow.part is not None and vertex.id <= flow.limit:  # samples without a part are not summed
                part = flow.part(width)
                gradients = [ops.select(part, node, literal(type_, 0)) for node in gradients]
                flow.crosses = False
            flow.bring(vertex, self._outer(gradients, values, width), self.source.size)
            flow.crosses = crosses

    def forward(self, flow: Flow) -> None:
        """Let changes of the matrix and the vector flow to the result."""
        matrix, values = self._kept(flow)
        changes = [flow.change(tracked(node)) for node in self.values]
        parts = []
        if any(change is not None for change in changes):
            parts.append(_products(matrix, [literal(node.type, 0) if change is None else change
                                            for node, change in zip(self.values, changes, strict=True)]))
        change = flow.change(tracked(self.source))
        if change is not None:
            parts.append(_products(self._matrix_in(broadcast(change, self.source.size)), values))
        for place, nodes in enumerate(zip(*parts, strict=True)):
            self.sent[place] = nodes[0] if len(nodes) == 1 else ops.add(*nodes)

    def _outer(self, gradients: list[Node], values: list[Node], width: int) -> Node:
        """The gradient of the buffer: sums over samples of the products of gradients and components."""
        rows, columns, down, right = self.matrix._steps
        flat = retype(self.leaf, values[0].type)
        tensor: Any = tensor_t(flat)
        first, second = (tensor(concat([wrap(flat, [broadcast(node, width)]) for node in nodes]), (len(nodes), width))
                         for nodes in (gradients, values))
        found = first @ transposed(second)
        size = self.source.size
        if (self.matrix._offset, down, right) == (0, columns, 1) and rows * columns == size:
            return cast(found.array._n, self.source.type)
        result = zeros(flat, size)
        position: Any = arange(retype(flat, UINT32), rows * columns)
        row = position // columns if columns > 1 else position
        index = row * (down % (1 << 32)) + (position - row * columns) * (right % (1 << 32)) + self.matrix._offset
        scatter(result, found.array, index)
        return cast(result._n, self.source.type)

    def moved(self, copy: core.Copy) -> Product:
        """The same product where other nodes and vertices stand for those that it has kept."""
        def linked(node: Node) -> Node:
            vertex = vertex_of(node)
            return copy.node(primal(node)) if vertex is None else dual(copy.node(primal(node)), copy.vertex(vertex))

        new = shallow_copy(self)
        new.source, new.values = linked(self.source), [linked(node) for node in self.values]
        new.inputs = [copy.vertex(vertex) for vertex in self.inputs]
        new.received, new.sent = {}, {}
        return new


def _matmul(self: MatrixView, arg: Any, /) -> Any:
    return matvec(self, arg) if isinstance(arg, CoopVec) else NotImplemented


MatrixView.__matmul__ = _matmul  # type: ignore[operator]
