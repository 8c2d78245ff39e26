"""Tracing: the functions that append nodes to the graph.

``UNARY[kind](a)``, ``BINARY[kind](a, b)`` and ``TERNARY[kind](a, b, c)`` are made from the rows of the op table; by
name they are attributes of :data:`ops` (``ops.add(a, b)``).  Each one looks for the same operation in the value table,
folds and simplifies where an operand is a literal, and otherwise makes a node.  This is the hot path of tracing: plain
functions, slots, no indirection; :func:`drjit_core.ir.build.append` is its general form for everything rare.

Operands must have one type (masks aside) and sizes that are equal or 1, which goes with any, 0 included; promotion is
the array layer's work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

from ..context import current, state
from ..errors import SymbolicValue, UnsupportedType
from ..flags import CONSTANT_PROPAGATION, DEBUG, FAST_MATH
from ..ops import semantics
from ..ops.reductions import COMPARE_EXCHANGE, EXCHANGES, REDUCTIONS
from ..ops.table import (
    ACCESS,
    BITCAST,
    BOUND,
    CAST,
    DUAL,
    ELEMENTWISE,
    FETCH,
    GATHER,
    INVALID,
    KIND,
    LITERAL,
    OPAQUE,
    OPS,
    REDUCE,
    SCATTER,
    SEGMENT,
    TWINS,
    VIEW,
    Op,
)
from ..types import BOOL, TYPES, UINT32, UINT64, ReduceMode, ReduceOp
from .build import announce, append, bound, broadcast_size, counter, find, invalid, literal, pack, sized_by, where_of
from .dual import derived, primal, recorded, without
from .extents import Extent, has_places, size_of
from .fold import attribute, fold1, fold2, fold3, fold_cast
from .node import BAKED, SHAPE, Node, blank_node, enter, find1, find2, find3, new_id
from .simplify import KNOWS_EQUALS, RULES_OF_ONE
from .simplify import binary as simpler_of_two
from .simplify import ternary as simpler_of_three
from .simplify import unary as simpler_of_one
from .symbolic import (
    Tracing,
    call_site,
    replace_version,
    require_memory,
    require_open,
    scope_of,
    symbolic_error,
    tells_elements_apart,
    width_of_write,
)

__all__ = ["BINARY", "TERNARY", "UNARY", "access", "accumulate", "atomic", "bitcast", "cast", "gather", "make_binary",
           "make_unary", "nothing_of", "opaque", "ops", "reduce", "scatter", "segment", "square", "unless_nan", "view",
           "written"]

_AUTO = ReduceMode.Auto.value

UnaryTrace = Callable[[Node], Node]
BinaryTrace = Callable[[Node, Node], Node]
TernaryTrace = Callable[[Node, Node, Node], Node]


# --- elementwise operations, made from the table ---------------------------------------------------------------------


def _result_types(op: Op) -> list[int]:
    """Result type by operand type."""
    return [_UNDEFINED if info is None or info.kind not in op.accepts else BOOL if op.result == "mask" else info.type
            for info in TYPES]


_UNDEFINED = 255
_NEG, _MUL = KIND["neg"], KIND["mul"]
_ADDITION, _PLAIN = ReduceOp.Add.value, ReduceOp.Identity.value
_TYPE_COUNT = len(TYPES)
#: Tables, and as what functions read them: memory, of whose places the compiled form checks nothing. Whether an
#: operation of one operand is simpler for some kinds of it, by kind; whether one is if its last two operands are one
#: node, by kind; result types by kind and type of the last operand; and kinds of what is traced if FastMath is cleared,
#: by kind and type of the last operand.
_TABLES = (
    bytes(op.kind in RULES_OF_ONE for op in OPS), bytes(op.kind in KNOWS_EQUALS for op in OPS),
    bytes(type_ for op in OPS for type_ in _result_types(op)),
    bytes(TWINS.get(op.kind, op.kind) if info is not None and info.bits < 64 else op.kind
          for op in OPS for info in TYPES))
_simpler, _equals, _results, _precise = _TABLES
_HAS_RULE = _simpler
_KNOWS_EQUALS = _equals
_TYPES_OF_RESULTS = _results
_PRECISE = _precise


def _fail(kind: int, *nodes: Node) -> None:
    """Raise what is wrong with the operands of an elementwise operation."""
    op = OPS[kind]
    if TYPES[nodes[-1].type].kind not in op.accepts:
        raise UnsupportedType(op.word, TYPES[nodes[-1].type].name)
    broadcast_size(op.word, *nodes)


def unary(kind: int, a: Node) -> Node:
    """An operation of one operand."""
    if a.kind == DUAL:
        return recorded(kind, unary(kind, without(a)), a)
    context = current()
    if not context.flags & FAST_MATH:
        kind = _PRECISE[kind * _TYPE_COUNT + a.type]
    mode = context.mode
    if mode >= -1:
        node = find1(kind, a, mode)
        if node is not None:
            if node.scope and node.scope != context.scope:
                require_open(node)
            return node
    type_ = _TYPES_OF_RESULTS[kind * _TYPE_COUNT + a.type]
    if type_ == _UNDEFINED:
        _fail(kind, a)
    if a.kind <= LITERAL:
        if a.kind == INVALID:
            return invalid(type_)
        if context.flags & CONSTANT_PROPAGATION:
            node = fold1(kind, a, type_)
            return node if context.recording is None else sized_by(node, a)
    if _HAS_RULE[kind] and (a.kind == kind or a.kind == _NEG):  # of other operands, no rule knows anything
        simpler = simpler_of_one(ops, kind, a)
        if simpler is not None:
            return simpler if context.recording is None else sized_by(simpler, a)
    scope = a.scope
    if scope and scope != context.scope:
        require_open(a)
    node = blank_node()
    node.kind = kind
    node.type = type_
    node.where = a.where
    node.size = a.size
    node.id = new_id()
    node.d0 = a
    node.d1 = node.d2 = node.d3 = node.payload = None
    node.attr = 0
    node.scope = scope
    if mode >= -1:
        enter(node, mode)
    if mode & 1:
        announce(node)
    return node


def binary(kind: int, a: Node, b: Node) -> Node:
    """An operation of two operands."""
    if a.kind == DUAL or b.kind == DUAL:
        return recorded(kind, binary(kind, primal(a), primal(b)), a, b)
    context = current()
    if not context.flags & FAST_MATH:
        kind = _PRECISE[kind * _TYPE_COUNT + b.type]
    mode = context.mode
    if mode >= -1:
        node = find2(kind, a, b, mode)
        if node is not None:
            if node.scope and node.scope != context.scope:
                require_open(node)
            return node
    type_ = _TYPES_OF_RESULTS[kind * _TYPE_COUNT + b.type]
    size = a.size
    other = b.size
    if type_ == _UNDEFINED:
        _fail(kind, a, b)
    if size != other:
        if size == 1:
            size = other
        elif other != 1:
            _fail(kind, a, b)
    if a.kind <= LITERAL or b.kind <= LITERAL or a is b:
        if not size:
            return invalid(type_)
        if a.kind == LITERAL and b.kind == LITERAL:
            if context.flags & CONSTANT_PROPAGATION:
                node = fold2(kind, a, b, type_, size)
                return node if context.recording is None else sized_by(node, a, b)
        elif (a.attr == BAKED or b.attr == BAKED or a is b and _KNOWS_EQUALS[kind]) \
                and context.flags & CONSTANT_PROPAGATION:
            simpler = simpler_of_two(ops, kind, a, b, size)  # no rule looks at parameters
            if simpler is not None:
                return simpler if context.recording is None else sized_by(simpler, a, b)
    scope = a.scope | b.scope
    if scope and (scope != context.scope or a.scope != scope and a.scope or b.scope != scope and b.scope):
        scope = scope_of(a, b)
    where = a.where
    if where != b.where:
        where |= b.where
        if where & (where - 1):
            where_of(OPS[kind].word, (a, b))
    node = blank_node()
    node.kind = kind
    node.type = type_
    node.where = where
    node.size = size
    node.id = new_id()
    node.d0 = a
    node.d1 = b
    node.d2 = node.d3 = node.payload = None
    node.attr = 0
    node.scope = scope
    if mode >= -1:
        enter(node, mode)
    if mode & 1:
        announce(node)
    return node


def ternary(kind: int, a: Node, b: Node, c: Node) -> Node:
    """An operation of three operands."""
    if b.kind == DUAL or c.kind == DUAL or a.kind == DUAL:
        return recorded(kind, ternary(kind, primal(a), primal(b), primal(c)), a, b, c)
    context = current()
    mode = context.mode
    if mode >= -1:
        node = find3(kind, a, b, c, mode)
        if node is not None:
            if node.scope and node.scope != context.scope:
                require_open(node)
            return node
    type_ = _TYPES_OF_RESULTS[kind * _TYPE_COUNT + c.type]
    if type_ == _UNDEFINED:
        _fail(kind, a, b, c)
    size = a.size
    if size != b.size or size != c.size or not size:
        if size == 1:
            size = b.size if b.size != 1 else c.size
        if (b.size != size and b.size != 1) or (c.size != size and c.size != 1):
            _fail(kind, a, b, c)
        if not size:
            return invalid(type_)
    if (a.kind == LITERAL or b.kind == LITERAL or c.kind == LITERAL or b is c and _KNOWS_EQUALS[kind]) \
            and context.flags & CONSTANT_PROPAGATION:
        if a.kind == LITERAL and b.kind == LITERAL and c.kind == LITERAL:
            node = fold3(kind, a, b, c, type_, size)
            return node if context.recording is None else sized_by(node, a, b, c)
        if a.attr == BAKED or b.attr == BAKED or c.attr == BAKED or b is c:  # no rule looks at parameters
            simpler = simpler_of_three(ops, kind, a, b, c, size)
            if simpler is not None:
                return simpler if context.recording is None else sized_by(simpler, a, b, c)
    scope = a.scope | b.scope | c.scope
    if scope and (scope != context.scope or a.scope != scope and a.scope or b.scope != scope and b.scope
                  or c.scope != scope and c.scope):
        scope = scope_of(a, b, c)
    where = a.where
    if where != b.where or where != c.where:
        where |= b.where | c.where
        if where & (where - 1):
            where_of(OPS[kind].word, (a, b, c))
    node = blank_node()
    node.kind = kind
    node.type = type_
    node.where = where
    node.size = size
    node.id = new_id()
    node.d0 = a
    node.d1 = b
    node.d2 = c
    node.d3 = node.payload = None
    node.attr = 0
    node.scope = scope
    if mode >= -1:
        enter(node, mode)
    if mode & 1:
        announce(node)
    return node


class _Asked:
    """Operations of which nothing is wanted but whether a rule has one."""

    def __getattr__(self, name: str) -> Callable[..., Node]:
        return lambda first, *others: first


_ASKED = _Asked()


def is_simpler(kind: int, a: Node | None, b: Node | None, c: Node | None, size: int) -> bool:
    """Whether there is something simpler than an operation of two or three operands that are not all literals; nothing
    is traced."""
    assert a is not None and b is not None
    if not current().flags & CONSTANT_PROPAGATION:
        return False
    if c is None:
        return ((a.kind == LITERAL and a.attr == BAKED or b.kind == LITERAL and b.attr == BAKED or
                 a is b and bool(_KNOWS_EQUALS[kind])) and simpler_of_two(_ASKED, kind, a, b, size) is not None)
    return ((a.kind == LITERAL and a.attr == BAKED or b.kind == LITERAL and b.attr == BAKED or
             c.kind == LITERAL and c.attr == BAKED or b is c and bool(_KNOWS_EQUALS[kind]))
            and simpler_of_three(_ASKED, kind, a, b, c, size) is not None)


def make_unary(op: Op) -> UnaryTrace:
    """The trace function of a row of one operand."""
    return partial(unary, op.kind)


def make_binary(op: Op) -> BinaryTrace:
    """The trace function of a row of two operands."""
    return partial(binary, op.kind)


def _make_ternary(op: Op) -> TernaryTrace:
    return partial(ternary, op.kind)


class _Operations(SimpleNamespace):
    """Trace functions by the names of the table's rows, for whoever writes expansions: ``ops.add(a, b)``."""

    def __getattr__(self, name: str) -> Callable[..., Node]:  # only for type checkers and unknown names
        raise AttributeError(f"the op table has no row named {name!r}")


UNARY: dict[int, UnaryTrace] = {op.kind: make_unary(op) for op in ELEMENTWISE if op.arity == 1}
BINARY: dict[int, BinaryTrace] = {op.kind: make_binary(op) for op in ELEMENTWISE if op.arity == 2}
TERNARY: dict[int, TernaryTrace] = {op.kind: _make_ternary(op) for op in ELEMENTWISE if op.arity == 3}
#: Trace functions by the names of the rows.
ops = _Operations(**{OPS[kind].name: function for kind, function in (UNARY | BINARY | TERNARY).items()})


# --- operations with structure ---------------------------------------------------------------------------------------


def cast(a: Node, type_: int) -> Node:
    """Conversion to another scalar type (see :func:`drjit_core.ops.semantics.cast` for what does not fit)."""
    if a.type == type_:
        return a
    if a.kind == INVALID:
        return invalid(type_)
    if a.kind == DUAL:
        return derived("cast", cast(without(a), type_), (a,))
    if a.kind == LITERAL and current().flags & CONSTANT_PROPAGATION:
        return sized_by(fold_cast(a, type_), a)
    return append(CAST, type_, a.size, a)


def bitcast(a: Node, type_: int) -> Node:
    """Reinterpretation of the bits as another type of the same size."""
    source, target = TYPES[a.type], TYPES[type_]
    if source.size != target.size or "b" in (source.kind, target.kind) and source.kind != target.kind:
        raise UnsupportedType(f"reinterpretation as {target.name}", source.name)
    if a.kind == DUAL:  # bits have no derivative
        return bitcast(without(a), type_) if a.type != type_ else a
    if a.type == type_:
        return a
    if a.kind == INVALID:
        return invalid(type_)
    if a.kind == LITERAL and state.flags & CONSTANT_PROPAGATION:
        value = semantics.bitcast(a.payload, source, target)
        # a literal keeps the sign of a NaN, but none of its other bits
        if value == value or semantics.bits_of(math.copysign(math.nan, value), target) == \
                semantics.bits_of(a.payload, source):
            return sized_by(literal(type_, value, a.size, attribute(a)), a)
    if a.kind == BITCAST:
        operand = a.d0
        if operand is not None and operand.type != a.type:  # another thread may have evaluated the node meanwhile
            return bitcast(operand, type_)
    return append(BITCAST, type_, a.size, a)


def gather(source: Node, index: Node, mask: Node, harmless: bool = False, mode: int = _AUTO) -> Node:
    """``source[index]`` where the mask is set, else zero; ``mode`` is that of the scatter-additions of its derivative.

    In a region, the elements read that take part, and the result depends on which; unless the access is ``harmless``:
    the caller vouches for its indices, whatever the region computes, so that it may happen although nobody asked.
    """
    if source.kind == DUAL:
        return derived("gather", gather(without(source), index, mask, harmless), (source,), (index, mask, mode))
    size = index.size
    if mask.size != 1:
        size = broadcast_size("gather", index, mask)
    if not size:
        return invalid(source.type)
    if source.scope:
        require_memory("gather", source)
    if mask.kind == LITERAL and not mask.payload or source.kind == INVALID:
        scope_of(index)
        return sized_by(literal(source.type, 0, size), index, mask)
    region = current().region
    if source.kind == BOUND or source.kind == LITERAL and current().flags & DEBUG:  # an access: the index is checked
        source = opaque(source)
    elif source.kind == LITERAL and region is not None and not harmless:  # which may be about to be written to
        source = constant_memory(region, source)
    if source.kind == LITERAL:
        scope_of(index)
        value = sized_by(literal(source.type, source.payload, size, source.attr), index, mask)
        return ops.select(mask, value, literal(source.type, 0))  # type: ignore[no-any-return]
    if region is None or harmless or index.kind == LITERAL and has_places(source, index.payload, index.payload):
        return append(GATHER, source.type, size, source, index, mask)
    if region.entering is not None and region.entering is not region.live:  # a body may use what its condition has read
        found = find(GATHER, source.type, size, source, index, mask, region.entering)
        if found is not None:
            return found
    return append(GATHER, source.type, size, source, index, mask, region.live)


def constant_memory(region: Tracing, source: Node) -> Node:
    """A constant that a region reads by index, in memory: one for all of its reads."""
    found = region.constants.get(source.id)
    if found is None:
        region.constants = {**region.constants, source.id: opaque(source)}
        found = region.constants[source.id]
    return found


def nothing_of(source: Node) -> Node:
    """None of the elements of an array: no elements, which depend on it nevertheless, as far as derivatives go."""
    return gather(source, invalid(UINT32), literal(BOOL, True)) if source.size else source


def access(source: Node, first: int | Extent, stride: int | Extent, size: int | Extent) -> Node:
    """``size`` elements of an array, from the position ``first`` on, with positions that grow by ``stride``.

    All positions must exist.  Neighbours are read as packets, in their own or in reverse order; other elements, and
    those that regions and recordings ask for, are gathered.
    """
    last, length = first + stride * (size - 1), size_of(source)
    if size and not (0 <= first < length and 0 <= last < length):
        raise IndexError(f"access(): {size} elements from position {first} on, at a distance of {stride}, are not all "
                         f"within an array of size {source.size}")
    if not size:
        return nothing_of(source)
    if stride == 1 and length == size:
        return source
    if source.kind == DUAL:
        return derived("access", access(without(source), first, stride, size), (source,), (first, stride, size))
    require_memory("access", source)
    if source.kind == LITERAL:
        return literal(source.type, source.payload, size, source.attr)
    if stride in (1, -1) and size > 1 and state.region is None and state.recording is None and not source.scope:
        return append(ACCESS, source.type, int(size), source, payload=(int(first), int(stride)))
    if size > 1 and state.recording is None:
        found = view(source, int(first), (int(size),), (int(stride),))
        if found is not None:
            return found
    scalar = UINT32 if source.size <= 1 << 32 else UINT64
    index = _place(scalar, first, _FIRST)
    if size > 1:
        steps = counter(size, scalar, source.where)
        if stride != 1:  # negative strides wrap around
            steps = ops.mul(steps, _place(scalar, stride % (1 << TYPES[scalar].bits), _STRIDE))
        index = ops.add(steps, index) if first else steps
    return gather(source, index, literal(BOOL, True), harmless=True)


def view(source: Node, base: int, extents: tuple[int, ...], strides: tuple[int, ...]) -> Node | None:
    """The elements of an array at ``base + i * strides[0] + j * strides[1] + …``, in C order of the indices.

    All positions must exist, and no extent may be 1.  ``None`` where positions have to be computed: in regions and
    recordings.
    """
    if source.kind == DUAL:
        found = view(without(source), base, extents, strides)
        return None if found is None else derived("view", found, (source,), (base, extents, strides))
    context = current()
    if context.region is not None or context.recording is not None or source.scope:
        return None
    size = math.prod(extents)
    if source.kind == LITERAL:
        return literal(source.type, source.payload, size, source.attr)
    return append(VIEW, source.type, size, source, payload=(base, extents, strides))


#: Tags of literals: what a position begins with, and grows by.
_FIRST, _STRIDE = 1, 2


def _place(type_: int, value: int | Extent, tag: int) -> Node:
    """A part of a position, which may follow from the arguments of a recording."""
    return bound(type_, value) if isinstance(value, Extent) else literal(type_, value, 1, SHAPE, tag=tag)


def scatter(target: Node, value: Node, index: Node, mask: Node, op: int, mode: int, harmless: bool = False,
            expected: Node | None = None) -> Node:
    """A new version of ``target`` after ``target[index] = op(target[index], value)`` where the mask is set.

    In a region, the elements write that take part; the target must be a formal, or a later version of one.  What does
    not depend on the region is ``harmless`` if the target is new, and the caller vouches for the indices: it is written
    outside.  What a compare-and-exchange expects to find is ``expected``; :func:`atomic` traces those.
    """
    if target.kind == DUAL or value.kind == DUAL:
        return _differentiable_scatter(target, value, index, mask, op, mode, harmless, expected)
    require_memory("scatter", target)
    if op != _PLAIN and op not in EXCHANGES and TYPES[target.type].kind not in REDUCTIONS[op].accepts:
        raise UnsupportedType(f"scatter-reduction {ReduceOp(op).name}", TYPES[target.type].name)
    size = broadcast_size("scatter", value, index, mask, value if expected is None else expected)
    if not size or not target.size or mask.kind == LITERAL and not mask.payload:
        return target
    region = state.region
    if harmless and region is not None and not scope_of(value, index, mask):
        region = None
    if region is not None:
        if region.live is region.entering:
            raise SymbolicValue(f"{call_site('scatter')}(): this is a write to an array in the condition of a loop, "
                                "which must be free of side effects: write in its body.")
        live = region.live
        if size not in (1, live.size) and live.size != 1:
            raise _wrong_width(region.noun, size, live.size)
        meant = width_of_write(region, size)
        if live.size > 1:
            mask = _once_if_uniform(region, meant, (value, index, mask), live.size)
        mask = ops.and_(mask, live)
        if expected is not None:
            value = pack((value, expected), size, scope_of(target, value, expected, index, mask))
    if target.kind == LITERAL or target.kind == BOUND:
        target = opaque(target)
    version = append(SCATTER, target.type, target.size, target, value, index, mask, op, mode)
    if region is not None:
        replace_version(target, version)
    return version


def _differentiable_scatter(target: Node, value: Node, index: Node, mask: Node, op: int, mode: int, harmless: bool,
                            expected: Node | None) -> Node:
    version = scatter(primal(target), primal(value), index, mask, op, mode, harmless, expected)
    return written(version, target, value, index, mask, op, mode)


def written(version: Node, target: Node, value: Node, index: Node, mask: Node, op: int, mode: int) -> Node:
    """What a write to a target has made, with its derivative."""
    before = primal(target)
    if version is before:
        return target
    info = index, mask, op, mode, max(index.size, mask.size, value.size)
    if op in _FOLLOWS_TARGET:
        return derived("scatter", version, (target, value), (*info, None, None))
    return derived("scatter", version, (target, value), (*info, before, primal(value)), "r")


def accumulate(memory: Node, value: Node, index: Node, mask: Node, mode: int) -> Node:
    """A new version of memory that is only added to and not read, as that of gradients: its own gradient is the same
    for all versions, so that there is a derivative in regions as well."""
    before = primal(memory)
    version = scatter(before, primal(value), index, mask, _ADDITION, mode)
    if version is before or memory.kind != DUAL and value.kind != DUAL:
        return memory if version is before else version
    return derived("accumulate", version, (memory, value), (index, mask, mode, max(index.size, mask.size, value.size)))


#: Updates of a target whose derivatives do not depend on what it was.
_FOLLOWS_TARGET = (_PLAIN, _ADDITION)


def _once_if_uniform(region: Tracing, meant: int, operands: tuple[Node, Node, Node], width: int) -> Node:
    """The mask, the last operand of a write that is meant to have some width: one value is written once where all
    elements do the same."""
    mask = operands[2]
    if region.uniform:
        if meant > 1:
            return mask
        scalar = UINT32 if width <= 1 << 32 else UINT64
        return ops.and_(mask, ops.eq(counter(width, scalar, where_of("scatter", operands)), literal(scalar, 0)))  # type: ignore[no-any-return]
    outer = None if region.apart else region.outer
    while outer is not None:
        if outer.uniform and not any(map(tells_elements_apart, operands)):
            around = "another one" if outer.noun == region.noun else f"a symbolic {outer.noun}"
            raise SymbolicValue(
                f"{call_site('scatter')}(): this write of one value is part of a symbolic {region.noun} within "
                f"{around}, all of whose elements do the same, and which has {width} of them because so many are "
                f"written at once. Write there in a {region.noun} of its own, or run the outer {outer.noun} with "
                "mode='evaluated'.")
        outer = outer.outer
    return mask


def _wrong_width(noun: str, found: int, width: int) -> SymbolicValue:
    """What is wrong with a write in a region that is not done by its elements."""
    return SymbolicValue(
        f"{call_site('scatter')}(): this write is part of a symbolic {noun} with {width} elements, each of which "
        f"writes if it takes part: one value, or as many as there are elements of the {noun}, but not {found}. "
        f"Write in a {noun} of that size, write one value after the other, or run the {noun} with mode='evaluated'.")


def atomic(target: Node, value: Node, index: Node, mask: Node, op: int, mode: int,
           expected: Node | None = None) -> tuple[Node, Node]:
    """What each lane of a scatter-reduction or an exchange finds before its update (zero where the mask is not set),
    and the new version.  Only in regions; :func:`drjit_core.control.once.atomic` is its general form.

    What is found is a value like any other, there in the same kernel.  A ``COMPARE_EXCHANGE`` has a value that is
    ``expected``, of which all lanes have their own if they have a ``value`` of their own.
    """
    if op == _PLAIN:
        raise UnsupportedType("atomic update that is a plain write", TYPES[target.type].name)
    assert (expected is not None) == (op == COMPARE_EXCHANGE)
    version = scatter(target, value, index, mask, op, mode, False, expected)
    if version is target or version.kind != SCATTER:  # no lane takes part
        found = literal(target.type, 0, broadcast_size("scatter", value, index, mask))
        return sized_by(found, value, index, mask), version
    assert version.d1 is not None and version.d2 is not None and version.d3 is not None and version.scope
    return append(FETCH, version.type, broadcast_size("scatter", version.d1, version.d2, version.d3), version), version


def opaque(a: Node, where: int = 0) -> Node:
    """A copy in memory of its own: what a literal becomes before it is written to. It belongs to a backend,
    if that is said.
    """
    if a.kind == DUAL:
        return derived("identity", opaque(without(a), where), (a,))
    return append(OPAQUE, a.type, a.size, a, None, None, None, 0, None, None, where) if a.size else a


def square(a: Node) -> Node:
    """The product of a number with itself."""
    return binary(_MUL, a, a)


def unless_nan(a: Node, op: int) -> Node:
    """What elements are as results of a reduction of one each: that of nothing where they are NaN, if it ignores NaN.

    Kernels begin with the neutral element, and need no more than that.
    """
    reduction = REDUCTIONS[op]
    if not reduction.ignores_nan(a.type) or not a.size:
        return a
    return ops.select(ops.eq(a, a), a, literal(a.type, reduction.empty(a.type)))  # type: ignore[no-any-return]


def reduce(a: Node, op: int) -> Node:
    """Reduction of all elements to an array of one; the same for any number of elements that are NaN, if it ignores
    them."""
    info, reduction = TYPES[a.type], REDUCTIONS.get(op)
    if reduction is None or info.kind not in reduction.accepts:
        raise UnsupportedType(f"reduction {ReduceOp(op).name}", info.name)
    if a.kind == INVALID:
        return literal(a.type, reduction.empty(a.type))
    if a.size == 1:
        return unless_nan(a, op)
    if a.kind == DUAL:
        return derived("reduce", reduce(without(a), op), (a,), op, "" if op == _ADDITION else "xr")
    if a.kind == LITERAL and (current().recording is None or a.id not in current().recording.sizes):
        attr = a.attr if reduction.idempotent else SHAPE
        return unless_nan(literal(a.type, reduction.repeated(a.payload, a.size, info), 1, attr), op)
    if a.scope:
        raise symbolic_error(a, "reduce", "a reduction needs the values of all elements")
    return append(REDUCE, a.type, 1, a, None, None, None, op)


def segment(a: Node, op: int, outer: int, extent: int, inner: int, part: int = 0) -> Node | None:
    """Reduction of an array of three axes along the middle one.

    If ``part`` is given, only so many elements at a time: the result has an axis in place of the middle one.
    ``None`` where that takes a loop: in regions and recordings.
    """
    if a.kind == DUAL:
        found = segment(without(a), op, outer, extent, inner, part)
        if found is None:
            return None
        return derived("segment", found, (a,), (op, outer, extent, inner, min(part or extent, extent)),
                       "" if op == _ADDITION else "xr")
    context = current()
    if context.region is not None or context.recording is not None or a.scope:
        return None
    part = min(part or extent, extent)
    size = outer * inner * -(-extent // part)
    assert a.size == outer * extent * inner and size > 1 < part
    if a.kind == LITERAL:
        if extent % part == 0:
            single = reduce(literal(a.type, a.payload, part, a.attr), op)
            return literal(a.type, single.payload, size, single.attr)
        a = opaque(a)
    return append(SEGMENT, a.type, size, a, attr=op, payload=(extent, inner, part))
