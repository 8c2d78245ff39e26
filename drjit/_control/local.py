"""Local memory: ``dr.alloc_local``, a buffer of which each element of a program has its own.

Each component of an entry is an array in memory, of ``size`` entries for each lane. Entry ``i`` of lane ``k`` stands
at ``(k // L * size + i) * L + k % L``: the entries of ``L`` neighbouring lanes are together, and stay in the cache as
long as their packet is computed. Reads and writes are gathers and scatters of the compiler.

How many lanes there are is known from what is read and written, and from the construct around it: memory begins with
one lane, and is widened when there are more. All memory is made outside of the regions of symbolic constructs: a buffer
that is made in one gets the same memory in each trace, and in each iteration. A region that writes to memory which is
too narrow asks the outermost construct to widen it, and to begin again (:class:`~.attempts.Wider`).

In plain code, entries that are written at an ``int`` are held as the values they are, as long as none is read or
written at an array of indices, or in a construct: then one kernel writes all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic

import drjit_core as core
from drjit_core import BAKED, KIND, JitFlag, Node, SymbolicValue, cast, literal, ops

from .._access.indirect import index_and_mask
from .._access.lanes import (
    TRUE,
    Part,
    in_plain_code,
    innermost_part,
    innermost_width,
    note_version,
    part_depth,
    part_of,
    part_runs,
    with_lanes,
)
from .._access.store import innermost_journal, store_same, store_written
from .._base.arguments import require_bool, require_count
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, BoundsError, SizeError, describe, translate
from .._base.nodes import broadcast, index_node, index_type
from .._base.types import BOOL, UINT32, UINT64, retype
from .._base.typing import AnyArray, T
from .._base.values import PYTHON_NUMBERS, plain_integer, plain_scalar
from .._functions.creation import zeros
from .._promotion.promote import coerce, wrap
from .._trees.pytree import TreeSpec, field_types, flatten, is_pytree
from .attempts import Wider
from .bounds import warn_of
from .while_loop import while_loop

__all__ = ["Local", "alloc_local"]

_LITERAL = KIND["literal"]
#: What memory is that nobody has written to since the last evaluation.
_BEGINNINGS = KIND["undefined"], KIND["evaluated"], _LITERAL
#: Lanes whose entries are together.
_LANES = core.NEIGHBOURS
#: Loops over the entries of larger buffers are loops of the kernel, too.
_UNROLLED = 16


def alloc_local(dtype: type[T], size: int, value: T | None = None) -> Local[T]:
    """A buffer of ``size`` entries of type ``dtype``, of which each element of a program has its own.

    ``dtype`` is an array type or a PyTree class. ``size`` is at least 1. All entries are ``value``, if it is given,
    else undefined; for lists, tuples, dictionaries and arrays with a dynamic number of components it must be given, as
    it tells what an entry consists of. In a symbolic loop, branch or call, there is a new buffer in each iteration.
    Evaluates nothing. Raises a ``TypeError`` if entries cannot be of that type, or ``value`` is of another one, a
    ``RuntimeError`` if it tracks derivatives, and a ``ValueError`` for other sizes. Not differentiable.

    >>> from drjit.llvm import Float, UInt
    >>> stack = dr.alloc_local(Float, 4, value=Float(0))
    >>> stack.write(Float(1, 2, 3), index=UInt(0, 1, 1))
    >>> stack[1]
    [0, 2, 3]
    """
    function = "drjit.alloc_local"
    if not isinstance(dtype, type):
        raise TypeError(f"{function}(): 'dtype' must be a type, found {describe(dtype)} ({dtype!r}).")
    size = require_count(function, "size", size, 1)
    local: Local[T] = object.__new__(Local)
    leaves, spec = _prototype(dtype, value, function)
    local._dtype, local._size, local._spec = dtype, size, spec
    local._begin([type(leaf) for leaf in leaves])
    if local._scalar:
        local._entries = [leaves] * size
    elif value is not None:
        nodes = local._nodes_of(leaves, function, "value")
        if local._region or max(node.size for node in nodes) > 1:
            local._fill(lambda index: local._write(nodes, index, True, function))
        else:
            local._memory.begin(nodes)
    return local


class Local(Generic[T]):
    """A buffer of local memory, made by :func:`alloc_local`: each element of a program has entries of its own.

    A copy, ``Local(other)`` or ``copy.copy(other)``, is independent. Loops, branches and calls of any mode take buffers
    as state, arguments and results, and use those from outside. They do not copy them: whoever holds a buffer sees what
    is written to it. Not differentiable: what is written must not track derivatives.

    >>> from drjit.llvm import UInt
    >>> seen = dr.alloc_local(UInt, 3, value=UInt(0))
    >>> digits = UInt(12011, 2000)
    >>> def count(digits):
    ...     seen[digits % 10] += 1
    ...     return (digits // 10,)
    >>> _ = dr.while_loop((digits,), lambda digits: digits > 0, count)
    >>> seen[0], seen[1], seen[2]
    ([1, 3], [3, 0], [1, 1])
    """

    __slots__ = ("_depth", "_dtype", "_entries", "_fresh", "_leaf", "_memory", "_part", "_region", "_scalar", "_size",
                 "_spec", "_types")

    _dtype: type[T]
    _size: int
    #: The structure of an entry, and the types of its leaves.
    _spec: TreeSpec
    _types: list[Any]
    #: In drjit.scalar: the leaves of each entry.
    _scalar: bool
    _entries: list[list[Any]]
    #: Else a flat type of the package, and memory for each component.
    _leaf: type[ArrayBase]
    _memory: _Memory
    #: How many functions that were given some lanes were running when it was made, and which ones the last was given;
    #: and in which region, 0 if in none.
    _depth: int
    _part: Part | None
    _region: int
    #: Whether it was made in a region, and nothing has been read or written.
    _fresh: bool

    def __init__(self, arg: Local[T]) -> None:
        """A copy of another buffer: writes to one are not seen by the other."""
        if not isinstance(arg, Local):
            raise TypeError(f"drjit.Local(): 'arg' must be a drjit.Local, found {describe(arg)}. Use "
                            "drjit.alloc_local() to make a new one.")
        arg._require_open("drjit.Local")
        self._dtype, self._size, self._spec = arg._dtype, arg._size, arg._spec
        self._begin(arg._types)
        if self._scalar:
            self._entries = arg._entries.copy()
        elif self._region or self._depth != arg._depth:
            self._fill(lambda index: self._write(arg._read(index, True, "drjit.Local"), index, True, "drjit.Local"))
        else:
            self._memory.begin([array._nodes()[0] for array in arg._memory.arrays], arg._memory.width)
            self._memory.held = arg._memory.held.copy()

    def __copy__(self) -> Local[T]:
        return Local(self)

    def __deepcopy__(self, memo: Any) -> Local[T]:
        return Local(self)

    def __reduce__(self) -> Any:
        raise TypeError("drjit.Local: buffers of local memory cannot be pickled.")

    def __len__(self) -> int:
        """The number of entries that each element has."""
        return self._size

    def __repr__(self) -> str:
        return f"Local[{describe(self._dtype)}, {self._size}]"

    def read(self, index: int | AnyArray, active: bool | AnyArray = True) -> T:
        """The entry at ``index``, zero where ``active`` is not set.

        An ``int`` that is out of bounds raises an ``IndexError``, and so does a constant array in plain code; other
        indices are not checked. In debug mode (``JitFlag.Debug``) they are: entries that do not exist are zero, and the
        evaluation warns of them. What has not been written is undefined. Raises a ``RuntimeError`` for other numbers of
        elements than the buffer has.

        >>> from drjit.llvm import Bool, UInt
        >>> local = dr.alloc_local(UInt, 2, value=UInt(7))
        >>> local.read(UInt(0, 1), active=Bool(True, False))
        [7, 0]
        """
        return self._rebuild(self._read(index, active, "drjit.Local.read"))

    def write(self, value: T, index: int | AnyArray, active: bool | AnyArray = True) -> None:
        """Store ``value`` as the entry at ``index`` where ``active`` is set.

        ``value`` is of the buffer's type, or converted to it, as arguments of its constructor are. See :meth:`read` for
        indices; in debug mode, nothing is written where they are out of bounds. Evaluates nothing. Raises a
        ``TypeError`` if ``value`` is of another type, a ``RuntimeError`` if it tracks derivatives.

        >>> from drjit.llvm import Array2f, UInt
        >>> local = dr.alloc_local(Array2f, 2, value=Array2f(0))
        >>> local.write(Array2f([1, 2], 3), UInt(0, 1))
        >>> local.read(0)
        [[1, 3],
         [0, 0]]
        """
        self._write(self._parts(value, "drjit.Local.write"), index, active, "drjit.Local.write")

    def __getitem__(self, arg: int | AnyArray, /) -> T:
        """The entry at an index, see :meth:`read`."""
        return self._rebuild(self._read(arg, True, "drjit.Local.__getitem__"))

    def __setitem__(self, arg0: int | AnyArray, arg1: T, /) -> None:
        """Store an entry at an index, see :meth:`write`."""
        function = "drjit.Local.__setitem__"
        self._write(self._parts(arg1, function), arg0, True, function)

    # --- entries ------------------------------------------------------------------------------------------------------

    def _begin(self, types: list[Any]) -> None:
        """What all buffers begin with."""
        self._types = types
        arrays = [cls for cls in types if issubclass(cls, ArrayBase) and cls._dynamic]
        self._scalar = not arrays
        self._depth, self._part, self._region, self._fresh = part_depth(), innermost_part(), 0, False
        if self._scalar:
            return
        self._leaf = arrays[0]._leaf
        region, journal = core.innermost(), innermost_journal()
        kinds = [retype(self._leaf, spec.cls._type) for spec in self._spec.leaf_specs()
                 for _ in range(spec.node_count())]
        memory = None
        if region is not None and journal is not None:
            self._region, self._fresh = region.id, True
            place = journal.place()
            memory = journal.kept(place)
            if memory is None or not memory.fits(kinds, self._size):
                memory = _Memory(kinds, self._size)
                journal.keep(place, memory)
        self._memory = memory or _Memory(kinds, self._size)

    def _fill(self, write: Callable[[Any], None]) -> None:
        """Write all entries, given their indices."""
        if self._size <= _UNROLLED or not self._region:
            for index in range(self._size):
                write(index)
            return
        last: Any = self._size

        def body(index: Any) -> tuple[Any]:
            write(index)
            return (index + 1,)

        while_loop((wrap(retype(self._leaf, UINT32), [literal(UINT32, 0)]),), lambda index: index < last, body,
                   mode="symbolic")

    def _parts(self, value: Any, function: str) -> list[Any]:
        """The leaves of an entry in drjit.scalar, else its nodes."""
        leaves = self._spec.flatten_up_to(value, function)
        return _scalars(self._types, leaves, function) if self._scalar else self._nodes_of(leaves, function, "value")

    def _nodes_of(self, leaves: Sequence[Any], function: str, name: str) -> list[Node]:
        nodes: list[Node] = []
        for position, (spec, leaf) in enumerate(zip(self._spec.leaf_specs(), leaves, strict=True)):
            cls = spec.cls
            try:
                found = leaf._nodes() if leaf.__class__ is cls else coerce(cls, leaf, function)
            except CORE_ERRORS as error:
                raise translate(error, function) from None
            except (TypeError, ValueError, RuntimeError) as error:
                place = self._spec.paths(name)[position]
                raise TypeError(f"{function}(): '{place}' must be of type {cls._name}, or convertible to it, found "
                                f"{describe(leaf)}: {error}") from None
            if len(found) != spec.node_count():
                raise TypeError(f"{function}(): '{self._spec.paths(name)[position]}' must have {spec.node_count()} "
                                f"components, as the buffer's entries have, found {len(found)}.")
            nodes += found
        core.refuse(RuntimeError, f"{function}(): '{name}' tracks derivatives, and writes to local memory are not "
                    "differentiable; use drjit.detach().", *nodes)  # state of a loop may turn out not to
        return [core.primal(node) for node in nodes]

    def _rebuild(self, parts: list[Any]) -> T:
        if self._scalar:
            found: T = self._spec.rebuild(_copies(parts))
            return found
        return self._spec.rebuild_nodes(parts, [None] * len(self._types))  # type: ignore[no-any-return]

    # --- access -------------------------------------------------------------------------------------------------------

    def _read(self, index: Any, active: Any, function: str) -> list[Any]:
        if self._scalar:
            number = self._position(index, active, function)
            return [zeros(cls) for cls in self._types] if number is None else self._entries[number]
        memory = self._memory
        try:
            position, mask = self._place(index, active, (), function)
            number = plain_integer(index) if in_plain_code() else None
            if number is None:
                memory.flush()
            elif active is True and number in memory.held:
                return [broadcast(node, memory.width) for node in memory.held[number]]
            elif number in memory.held:
                return [ops.select(mask, node, literal(node.type, 0)) for node in memory.held[number]]
            return [core.gather(array._nodes()[0], position, mask) for array in memory.arrays]
        except CORE_ERRORS as error:
            raise translate(error, function) from None

    def _write(self, parts: list[Any], index: Any, active: Any, function: str) -> None:
        if self._scalar:
            number = self._position(index, active, function)
            if number is not None:
                self._entries[number] = _copies(parts)
            return
        journal = innermost_journal()
        try:
            position, mask = self._place(index, active, parts, function)
            number = plain_integer(index) if active is True and in_plain_code() else None
            if number is not None:
                core.schedule(parts)
                self._memory.held[number] = parts
                return
            self._memory.flush()
            arrays, mode = self._memory.arrays, core.OF_ELEMENTS if part_of(self._depth) is None else core.KEPT_APART

            def scattered(memory: Sequence[Node]) -> list[Node]:
                return [core.scatter(version, node, position, mask, core.ReduceOp.Identity.value, mode)
                        for version, node in zip(memory, parts, strict=True)]

            before = [array._nodes()[0] for array in arrays]
            if in_plain_code() and self._memory.width > 1:  # what follows need not wait for other lanes
                after = core.once(literal(BOOL, True, self._memory.width), before, scattered)
            else:
                after = scattered(before)
            for array, node in zip(arrays, after, strict=True):
                if journal is not None:
                    journal.note_memory(array)
                store_written(array, [node])
        except CORE_ERRORS as error:
            raise translate(error, function) from None

    def _position(self, index: Any, active: Any, function: str) -> int | None:
        """The index of an access in drjit.scalar, ``None`` if it is masked out."""
        taken = plain_scalar(active)
        require_bool(function, "active", active if taken is None else taken)
        position = plain_integer(index)
        if position is None:
            raise TypeError(f"{function}(): 'index' must be an int, found {describe(index)} ({index!r}).")
        if not taken:
            return None
        self._check(position, function)
        return position

    def _check(self, position: int, function: str) -> None:
        if not 0 <= position < self._size:
            raise BoundsError(f"{function}(): index {position} is out of bounds (the buffer has {self._size} "
                             f"entr{'y' if self._size == 1 else 'ies'}).")

    def _require_open(self, function: str) -> None:
        if self._region and self._region not in core.state.open:
            raise SymbolicValue(f"{function}(): this buffer was made in a symbolic loop, branch or call, which has "
                                "ended, and its contents with it. Make it before, to use it afterwards.")
        if not part_runs(self._part):
            raise RuntimeError(f"{function}(): this buffer was made in an evaluated call, or in an iteration of a loop "
                               "that removes finished elements (compress=True), for the elements that took part. That "
                               "has ended, and what runs now has other elements. Make it before, to use it here.")

    def _place(self, index: Any, active: Any, values: Sequence[Node], function: str) -> tuple[Node, Node]:
        """Where in memory an entry is, and for which lanes."""
        self._require_open(function)
        number = plain_scalar(index)
        if number is not None:
            if number.__class__ is not int:
                raise TypeError(f"{function}(): 'index' must be an int or an array of integers, found "
                                f"{describe(index)} ({index!r}).")
            if active is False:
                index = 0
            else:
                self._check(number, function)
        elif not isinstance(index, ArrayBase):
            raise TypeError(f"{function}(): 'index' must be an int or an array of integers, found {describe(index)}.")
        entry, mask = index_and_mask(self._leaf, index, active, self._size, function)
        entry = core.primal(entry)
        if entry.kind == _LITERAL and entry.size and mask is TRUE and not core.flag(JitFlag.Debug):
            if in_plain_code():
                self._check(int(entry.payload), function)
            elif not 0 <= int(entry.payload) < self._size:  # perhaps no element takes part here
                mask = literal(BOOL, False)
        part = part_of(self._depth)
        if part is not None:
            self._memory.settle()
        width = self._width((entry, mask, *values), part is not None, function)
        mask = with_lanes(mask, max(width, entry.size, mask.size))
        if core.flag(JitFlag.Debug) and number is None:
            mask = self._in_bounds(entry, mask, function)
        scalar = index_type(self._size * -(-self._memory.width // _LANES) * _LANES)
        entry = cast(index_node(entry, self._size), scalar)
        if self._memory.width == 1:
            return entry, mask
        lane = core.counter(width, scalar) if part is None else cast(part.lanes, scalar)
        return self._memory.place(entry, lane), mask

    def _width(self, operands: Sequence[Node], part: bool, function: str) -> int:
        """The number of lanes of an access; the buffer has memory for all lanes then."""
        memory = self._memory
        sizes = {node.size for node in operands} - {1}
        if len(sizes) > 1:
            raise SizeError(f"{function}(): the arguments have incompatible sizes! (sizes: "
                            f"{', '.join(str(node.size) for node in operands)})")
        width = sizes.pop() if sizes else 1
        if part:
            found = part_of(self._depth)
            assert found is not None
            lanes, width = max(width, found.lanes.size), found.width
            if lanes != found.lanes.size:
                raise self._misfit(lanes, found.lanes.size, function)
        else:
            lanes = width = (memory.width if width == 1 and memory.width != 1 else width)
            if width == 1:
                lanes = width = innermost_width()
        if width not in (0, memory.width):
            if memory.width != 1 and not self._fresh and width != 1:
                raise self._misfit(width, memory.width, function)
            if width != 1 or self._fresh:
                memory.widen(width, self._fresh)
        self._fresh = False
        return lanes

    def _misfit(self, found: int, expected: int, function: str) -> SizeError:
        return SizeError(f"{function}(): {found} elements access a buffer that has been accessed by {expected} "
                         f"elements! (sizes: {found}, {expected})")

    def _in_bounds(self, entry: Node, mask: Node, function: str) -> Node:
        """The mask of an access without the lanes whose index is out of bounds; an evaluation warns of those."""
        size, region = self._size, core.innermost()
        what = "read from" if "write" not in function and "set" not in function else "write to"
        inside = ops.lt(cast(entry, UINT64), literal(UINT64, size))
        if region is None or region.live is not region.entering:  # the condition of a loop has no side effects
            bad = ops.and_(mask, ops.inv(inside))
            if bad.kind != _LITERAL or bad.payload:
                warn_of(function, entry, bad, lambda index: (
                    f"out-of-bounds {what} entry {index} of a buffer of {size} entr{'y' if size == 1 else 'ies'}."))
        return ops.and_(mask, inside)  # type: ignore[no-any-return]


class _Memory:
    """An array for each component of the entries of a buffer."""

    __slots__ = ("arrays", "held", "size", "width")

    def __init__(self, kinds: Sequence[type[ArrayBase]], size: int) -> None:
        self.size = size
        self.width = 1
        #: Entries that are not written yet, by their indices.
        self.held: dict[int, list[Node]] = {}
        self.arrays: list[Any] = [wrap(kind, [core.undefined(kind._type, size, kind._where)]) for kind in kinds]

    def fits(self, kinds: Sequence[type[ArrayBase]], size: int) -> bool:
        """Whether entries are of given types, and so many."""
        return self.size == size and [type(array) for array in self.arrays] == list(kinds)

    def begin(self, nodes: Sequence[Node], width: int = 0) -> None:
        """Begin with contents: values that all entries have, or those of another memory of some width."""
        for array, node in zip(self.arrays, nodes, strict=True):
            if not width:
                node = literal(node.type, node.payload, self.size) if node.kind == _LITERAL else \
                    core.gather(node, literal(UINT32, 0, self.size), TRUE, harmless=True)
            store_same(array, [node])
        self.width = width or 1

    def place(self, entry: Node, lane: Node) -> Node:
        """Where an entry of a lane is."""
        scalar = lane.type
        column = ops.and_(lane, literal(scalar, _LANES - 1, 1, BAKED))
        base = ops.add(ops.mul(ops.sub(lane, column), literal(scalar, self.size)), column)
        found: Node = ops.add(ops.mul(entry, literal(scalar, _LANES, 1, BAKED)), base)
        return found

    def flush(self) -> None:
        """Write the entries that are held, by one kernel."""
        if not self.held:
            return
        if core.innermost() is not None:
            raise Wider(self.flush)
        held, scalar = self.held, index_type(self.arrays[0]._nodes()[0].size)

        def body(memory: list[Node]) -> list[Node]:
            for number, nodes in held.items():
                position = literal(scalar, number)
                if self.width != 1:
                    position = self.place(position, core.counter(self.width, scalar))
                memory = [core.scatter(array, node, position, TRUE, core.ReduceOp.Identity.value, core.OF_ELEMENTS)
                          for array, node in zip(memory, nodes, strict=True)]
            return memory

        before = [array._nodes()[0] for array in self.arrays]
        after = core.once(literal(BOOL, True, self.width), before, body)
        self.held = {}
        for array, old, node in zip(self.arrays, before, after, strict=True):
            store_written(array, [node])
            note_version(node, old)

    def settle(self) -> None:
        """Have what has been written evaluated, since all lanes wrote their own entries, and others are going to access
        them."""
        self.flush()
        core.evaluate([node for array in self.arrays for node in array._nodes()
                       if not node.scope and node.kind not in _BEGINNINGS])

    def widen(self, width: int, fresh: bool) -> None:
        """Make room for other numbers of lanes: with the contents that the only lane has had, or without any.

        What a region has written to cannot be widened there.
        """
        if any(array._nodes()[0].scope for array in self.arrays):
            raise Wider(lambda: self.widen(width, fresh))
        total = self.size * (-(-width // _LANES) * _LANES if width > 1 else 1)
        scalar = index_type(total)
        for array in self.arrays:
            node = array._nodes()[0]
            if fresh or node.kind == KIND["undefined"]:
                node = core.undefined(node.type, total, node.where)
            elif node.kind == _LITERAL:
                node = literal(node.type, node.payload, total)
            else:
                entry = ops.mod(ops.floordiv(core.counter(total, scalar), literal(scalar, _LANES, 1, BAKED)),
                                literal(scalar, self.size))
                node = core.gather(node, entry, TRUE, harmless=True)
            store_same(array, [note_version(node, array._nodes()[0])])
        self.width = width


# --- types ------------------------------------------------------------------------------------------------------------


def _prototype(dtype: Any, value: Any, function: str) -> tuple[list[Any], TreeSpec]:
    """The leaves of an entry, and its structure."""
    scalar = dtype in PYTHON_NUMBERS
    if not scalar and not issubclass(dtype, ArrayBase) and not is_pytree(dtype):
        raise TypeError(f"{function}(): 'dtype' must be an array type or a PyTree class, found {describe(dtype)}.")
    array = scalar or issubclass(dtype, ArrayBase)
    if array and not scalar and not dtype._count:
        raise TypeError(f"{function}(): there is nothing in an entry of type {describe(dtype)}.")
    if value is None:
        if dtype in (list, tuple, dict) or not array and field_types(dtype) is None:
            raise TypeError(f"{function}(): 'dtype' ({describe(dtype)}) does not tell what an entry consists of: pass "
                            "'value', which all entries begin with.")
        if array and not scalar and dtype._count < 0:
            _refuse_tensors(dtype, function)
            if dtype._depth:
                raise TypeError(f"{function}(): {dtype._name} has a dynamic number of components: pass 'value', which "
                                "all entries begin with.")
        value = zeros(dtype)
    elif array:
        if scalar:
            value, = _scalars([dtype], [value], function)
        elif value.__class__ is not dtype:
            _refuse_tensors(dtype, function)
            try:
                value = wrap(dtype, list(coerce(dtype, value, function)))
            except (TypeError, ValueError, RuntimeError) as error:
                raise TypeError(f"{function}(): 'value' must be of type {dtype._name}, or convertible to it, found "
                                f"{describe(value)}: {error}") from None
    elif value.__class__ is not dtype:
        raise TypeError(f"{function}(): 'value' must be of type {describe(dtype)}, found {describe(value)}.")
    leaves, spec = flatten(value, function)
    dynamic = {isinstance(leaf, ArrayBase) and leaf._dynamic for leaf in leaves}
    packages = {leaf._leaf._record.backend for leaf in leaves if isinstance(leaf, ArrayBase)}
    for path, leaf in zip(spec.paths(describe(dtype)), leaves, strict=True):
        if isinstance(leaf, ArrayBase):
            _refuse_tensors(type(leaf), function)
        elif leaf.__class__ not in PYTHON_NUMBERS:
            raise TypeError(f"{function}(): entries consist of arrays, but '{path}' is of type {describe(leaf)}.")
        elif True in dynamic:
            raise TypeError(f"{function}(): entries consist of arrays of one package, but '{path}' is of type "
                            f"{describe(leaf)}.")
    if not leaves:
        raise TypeError(f"{function}(): an entry of type {describe(dtype)} consists of nothing.")
    if len(packages) > 1:
        raise TypeError(f"{function}(): the arrays in an entry of type {describe(dtype)} belong to several packages.")
    return leaves, spec


def _refuse_tensors(cls: Any, function: str) -> None:
    if cls._depth < 0:
        raise TypeError(f"{function}(): entries cannot be tensors ({cls._name}).")


def _scalars(types: Sequence[Any], leaves: Sequence[Any], function: str) -> list[Any]:
    """Values converted to types of drjit.scalar."""
    found = []
    for cls, leaf in zip(types, leaves, strict=True):
        number = plain_scalar(leaf)
        if cls in PYTHON_NUMBERS:
            if number is None or PYTHON_NUMBERS[number.__class__] > PYTHON_NUMBERS[cls]:
                raise TypeError(f"{function}(): 'value' must be of type {cls.__name__}, found {describe(leaf)}.")
            found.append(cls(number))
            continue
        try:
            found.append(wrap(cls, list(coerce(cls, leaf, function))))
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"{function}(): 'value' must be of type {cls._name}, or convertible to it, found "
                            f"{describe(leaf)}: {error}") from None
    return found


def _copies(leaves: Sequence[Any]) -> list[Any]:
    return [type(leaf)(leaf) if isinstance(leaf, ArrayBase) else leaf for leaf in leaves]
