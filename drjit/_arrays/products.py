"""Products: of matrices, of matrices and vectors, of vectors, and of tensors.

Which of them it is follows from the leading static dimensions, see :func:`drjit.matmul`; those of tensors follow the
rules of NumPy: the last two axes are matrices, the others are broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import drjit_core as core
from drjit_core import COMPUTES_IN, SHAPE, Node, cast, common_type, literal, ops

from .._access.slicing import TRUE, Access, broadcast_shapes, contiguous_strides, positions, strided
from .._base.array import ArrayBase
from .._base.errors import (
    FAILURES,
    ArgumentError,
    IncompatibleArguments,
    Site,
    SizeError,
    called,
    describe,
    translate,
)
from .._base.nodes import broadcast, depending_on
from .._base.types import FLOAT32, UINT32, lookup, reshape, retype
from .._base.values import is_ndarray, is_real, plain_scalar
from .._promotion.operations import MUL
from .._promotion.plans import apply, leaf_of_elements, operands
from .._promotion.promote import meeting_package, wrap
from .._rules import matrix as rules
from .._rules.combine import inner_product
from .bases import MatrixProduct, matrix_product
from .broadcasting import align, make, promote

__all__ = ["PRODUCTS", "is_square", "is_tensor", "product", "static_product", "tensor_matmul"]


def product(site: Site, left: Any, right: Any, flags: tuple[bool, bool] = (False, False)) -> Any:
    """The product of two operands by the rules of :func:`matmul`, at least one of them an array.

    Python sequences and NumPy arrays are vectors if they have one dimension, and matrices if they have two. ``flags``
    say which operands of a product with a tensor are transposed.
    """
    try:
        if is_tensor(left) or is_tensor(right):
            return tensor_matmul(site, left, right, flags)
        left, right = _operand(site, left, right), _operand(site, right, left)
        if is_real(left) or is_real(right):
            if isinstance(left, ArrayBase) and isinstance(right, ArrayBase) and left._depth == right._depth:
                return _flat_dot(site, left, right)
            return apply(MUL, site, (left, right))
        if left._depth == right._depth == 1 and not left._special and not right._special:
            cls, (a, b) = operands(site, (left, right))
            return wrap(cls._leaf, [rules.dot(a, b) if a else literal(cls._type, 0)])
        return static_product(left, right)
    except FAILURES as error:
        raise translate(error, site, (left, right)) from None


def _operand(site: Site, value: Any, other: Any) -> Any:
    """An operand of a product with a value that is no tensor: an array or a number."""
    if isinstance(value, ArrayBase):
        if value._special in ("complex", "quaternion"):
            raise ArgumentError(f"{called(site)}: complex numbers and quaternions have no matrix product (found "
                                f"{describe(value)}); use '*'.")
        return value
    number = plain_scalar(value)
    if number is not None:
        return number
    if not isinstance(value, (list, tuple, range)) and not is_ndarray(value):
        raise ArgumentError(f"{called(site)}: unsupported operand of type '{describe(value)}' (expected a Dr.Jit "
                            "array, a number, a sequence or a NumPy array).")
    foreign = is_ndarray(value)
    if foreign and not value.size or not foreign and not len(value):
        raise ArgumentError(f"{called(site)}: the operand of type '{describe(value)}' is empty.")
    leaf: Any = leaf_of_elements(site, value, type(other))
    shape = value.shape if foreign else _shape_of(value)
    if not other._depth and len(shape) == 1:
        return leaf(value)
    if not other._depth or len(shape) > 2 or len(shape) == 2 and shape[0] != shape[1]:
        expected = "vectors and square matrices" if other._depth else "vectors"
        raise ArgumentError(f"{called(site)}: the operand of type '{describe(value)}' has the shape {shape}, but "
                            f"products with {other._name} take {expected}.")
    cls: Any = reshape(leaf, shape if other._count >= 0 else (-1,) * len(shape))
    return cls(value)


def _shape_of(value: Sequence[Any]) -> tuple[int, ...]:
    """The shape of a sequence of numbers or flat arrays, or of a sequence of such sequences."""
    rows = [row for row in value if isinstance(row, (list, tuple, range)) or is_ndarray(row) and row.ndim]
    return (len(value), len(rows[0])) if rows else (len(value),)


def _flat_dot(site: Site, left: ArrayBase, right: ArrayBase) -> Any:
    cls, (a, b) = operands(site, (left, right))
    return wrap(cls, [inner_product(a[0], b[0])])


#: Plans of products by the classes of the operands, as far as these say everything.
PRODUCTS: dict[tuple[type, type], MatrixProduct] = {}


def static_product(left: Any, right: Any) -> Any:
    """The product of two operands with the leading dimensions ``(size, size)`` or ``(size,)``."""
    plan = PRODUCTS.get((type(left), type(right)))
    if plan is not None:
        return matrix_product(plan, left, right)
    result = _static_product(left, right)
    single = all(operand._count > 0 and operand._depth == 1 + is_square(operand) for operand in (left, right))
    if single and left._depth + right._depth > 2 and result._depth:
        PRODUCTS[type(left), type(right)] = MatrixProduct(left._size, result._type, type(result))
    return result


def _static_product(left: Any, right: Any) -> Any:
    a_shape, b_shape = left._static_shape(), right._static_shape()
    size = a_shape[0]
    matrices = (is_square(left), is_square(right))
    if size != b_shape[0] or not all(len(shape) == 1 or square for shape, square in zip(
            (a_shape, b_shape), matrices, strict=True)):
        raise IncompatibleArguments(f"their leading static dimensions are {a_shape[:2]} and {b_shape[:2]}")
    scalar = common_type(left._type, right._type)
    package = meeting_package((left, right), type(left))
    a, b = ([cast(node, scalar) if node.type != scalar else node for node in array._nodes()] for array in (left, right))
    # Entries of several components: an operand whose entries are single components goes with each of them.
    inner = (a_shape[1 + matrices[0]:], b_shape[1 + matrices[1]:])
    if inner[0] and inner[1] and inner[0] != inner[1]:
        raise IncompatibleArguments("their entries differ in shape")
    entry = inner[0] or inner[1]
    count = math.prod(entry)
    parts = [rules.multiply(a[k::count] if inner[0] else a, b[k::count] if inner[1] else b, size)
             for k in range(count)]
    nodes = [node for components in zip(*parts, strict=True) for node in components]
    if matrices == (False, False):
        shape: tuple[int, ...] = entry
    elif matrices == (True, True):
        shape = (size, size, *entry)
        if "matrix" in (left._special, right._special):
            found = lookup(package._record._replace(type=scalar, kind="matrix", shape=shape))
            if found is not None:
                return wrap(found, nodes)
    else:
        shape = (size, *entry)
    return wrap(reshape(retype(package._plain, scalar), shape), nodes)


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor."""
    return isinstance(value, ArrayBase) and value._depth < 0


def is_square(array: ArrayBase) -> bool:
    shape = array._static_shape()
    return len(shape) >= 2 and shape[0] == shape[1]


#: Sums of so few products are part of whatever takes them, unless their operands are in memory and not a batch of
#: many: then a step takes no longer, and needs nothing to be traced. Those of symbolic arrays always are.
_FUSED, _MANY = 4, 64


def tensor_matmul(site: Site, left: Any, right: Any, flags: tuple[bool, bool] = (False, False)) -> Any:
    """``left @ right`` with a tensor among them; vectors are rows on the left, columns on the right.

    ``flags`` say whether the last two dimensions of each operand are exchanged.
    """
    found = _found(left, right, flags) if type(left) is type(right) else None
    if found is not None:
        return found
    cls, ((a, a_shape), (b, b_shape)) = promote(site, (left, right))
    if not a_shape or not b_shape:
        if not any(plain_scalar(value) is not None or _is_single(value) for value in (left, right)):
            raise SizeError(f"{called(site)}: matrix products need at least one dimension, found the shapes {a_shape} "
                            f"and {b_shape}.")
        return apply(MUL, site, (left, right))
    if cls._kind == "b" or any(isinstance(value, ArrayBase) and value._kind == "b" for value in (left, right)):
        kinds = " and ".join(map(describe, (left, right)))
        raise ArgumentError(f"{called(site)}: masks have no matrix product (found {kinds}). Convert them to numbers, "
                            f"as in {retype(cls, FLOAT32)._name}(mask).")
    rows, columns = (1, *a_shape) if len(a_shape) == 1 else a_shape, (*b_shape, 1) if len(b_shape) == 1 else b_shape
    a_strides, b_strides = contiguous_strides(rows), contiguous_strides(columns)
    if flags[0]:
        rows, a_strides = _exchanged(rows), _exchanged(a_strides)
        a_shape = rows
    if flags[1]:
        columns, b_strides = _exchanged(columns), _exchanged(b_strides)
        b_shape = columns
    extent = rows[-1]
    if extent != columns[-2]:
        raise SizeError(f"{called(site)}: operands have incompatible shapes: {a_shape} and {b_shape} (the inner "
                        f"dimensions {extent} and {columns[-2]} differ).")
    batch = broadcast_shapes(str(site), [rows[:-2], columns[:-2]])
    sizes = (*batch, rows[-2], columns[-1])
    shape = (*batch, *(rows[-2:-1] if len(a_shape) > 1 else ()), *(columns[-1:] if len(b_shape) > 1 else ()))
    count = math.prod(sizes)
    if not count or not extent:
        none = cast(ops.mul(core.nothing_of(a), core.nothing_of(b)), cls._type)
        return make(cls, depending_on(none, literal(cls._type, 0, count)) if count else none, shape)
    if extent == 1:  # an outer product: each element is one of each operand
        (x, y), _ = align((a, b), (rows, columns))
        return make(cls, broadcast(ops.mul(x, y), count), shape)
    first, second = _Operand(a, rows, a_strides, batch), _Operand(b, columns, b_strides, batch)
    there = core.primal(a).kind == _EVALUATED and core.primal(b).kind == _EVALUATED and math.prod(batch) < _MANY
    if a.scope or b.scope or extent <= _FUSED and not there:
        return make(cls, cast(_fused(first, second, sizes, extent), cls._type), shape)
    result = _computed(first, second, sizes, extent)
    if type(left) is type(right) is cls and first.node is a and second.node is b:
        if len(_steps) >= _MOST_STEPS:
            _steps.clear()
        _steps[cls, left._s, right._s, flags] = core.primal(result).payload, shape, count, extent <= _FUSED
    return make(cls, result, shape)


_Known = tuple[Any, tuple[int, ...], int, bool]
#: Steps of products of two tensors of one type, by their shapes and which are exchanged; the shapes of the results, and
#: whether only those of tensors in memory are steps.
_steps: dict[tuple[type, tuple[int, ...], tuple[int, ...], tuple[bool, bool]], _Known] = {}
_EVALUATED, _STEP, _UNDEFINED, _VIEW = (core.KIND[name] for name in ("evaluated", "step", "undefined", "view"))
_MOST_STEPS = 1024


def _found(left: Any, right: Any, flags: tuple[bool, bool]) -> Any:
    """The product of two tensors whose shapes were multiplied before, or ``None``."""
    a, b = left._n, right._n
    known = _steps.get((type(left), left._s, right._s, flags))
    if known is None:
        return None
    payload, shape, size, in_memory = known
    for node in (a, b):
        kind = core.primal(node).kind
        if kind != _EVALUATED and (in_memory or node.scope or kind == _STEP or kind == _VIEW or kind <= _UNDEFINED):
            return None  # a step or a view may be a transposed copy, which products read through
    return make(type(left), core.step_again(payload, a, b, a.type, size), shape)


def _exchanged(values: tuple[int, ...]) -> tuple[int, ...]:
    return (*values[:-2], values[-1], values[-2])


class _Operand:
    """An operand of a product: its elements, and where they are."""

    __slots__ = ("base", "batch", "column", "node", "row", "sizes")

    def __init__(self, node: Node, shape: tuple[int, ...], strides: tuple[int, ...], batch: tuple[int, ...]) -> None:
        self.node = node
        self.base = 0
        self.row, self.column = strides[-2:]
        self.sizes = (1,) * (len(batch) + 2 - len(shape)) + shape
        own = tuple(0 if size == 1 else stride for size, stride in zip(shape[:-2], strides[:-2], strict=True))
        self.batch = (0,) * (len(batch) - len(own)) + own

    def read_through(self) -> None:
        """Read the source of a copy in another layout that nobody has asked for yet."""
        found = core.transposed_source(self.node, self.batch, (self.row, self.column), self.sizes)
        if found is not None:
            self.node, self.base, self.batch, (self.row, self.column) = found


def _computed(a: _Operand, b: _Operand, sizes: tuple[int, ...], extent: int) -> Node:
    """A product that is a step of its own: its operands are evaluated."""
    a.read_through()
    b.read_through()
    options = [*sizes[-2:], extent, a.base, b.base, a.row, a.column, b.row, b.column]
    for dimension in zip(sizes[:-2], a.batch, b.batch, strict=True):
        options += dimension
    return core.step("matmul", (a.node, b.node), [(a.node.type, math.prod(sizes))], tuple(options))[0]


def _fused(a: _Operand, b: _Operand, sizes: tuple[int, ...], extent: int) -> Node:
    if extent <= _FUSED:
        wide = COMPUTES_IN[a.node.type]
        columns = [cast(strided(a.node, sizes, (*a.batch, a.row, 0), k * a.column), wide) for k in range(extent)]
        rows = [cast(strided(b.node, sizes, (*b.batch, 0, b.column), k * b.row), wide) for k in range(extent)]
        return rules.dot(columns, rows)
    first = positions(Access(0, sizes, (*a.batch, a.row, 0)), a.node.size)
    second = positions(Access(0, sizes, (*b.batch, 0, b.column)), b.node.size)
    return _product(a.node, b.node, first, second, extent, (a.column, b.row), math.prod(sizes))


def _is_single(value: Any) -> bool:
    return isinstance(value, ArrayBase) and value._depth == 0 and value._nodes()[0].size == 1


def _product(a: Node, b: Node, first: Node, second: Node, extent: int, steps: tuple[int, int], count: int) -> Node:
    """Sums of products; those of half precision are left in single precision."""
    scalar, wide = max(first.type, second.type), COMPUTES_IN[a.type]
    one, two = (literal(scalar, step, 1, SHAPE, tag=43) for step in steps)
    limit = literal(UINT32, extent, 1, SHAPE, tag=44)
    start = literal(wide, 0, count)
    return core.while_loop(
        [literal(UINT32, 0), core.cast(first, scalar), core.cast(second, scalar), start],
        lambda state: ops.lt(state[0], limit),
        lambda state: [ops.add(state[0], literal(UINT32, 1)), ops.add(state[1], one), ops.add(state[2], two),
                       ops.fma(cast(core.gather(a, state[1], TRUE, harmless=True), wide),
                               cast(core.gather(b, state[2], TRUE, harmless=True), wide), state[3])],
        trips=max(extent, 1))[3]
