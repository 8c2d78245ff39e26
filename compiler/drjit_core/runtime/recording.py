"""Recordings: a program that was traced and launched once is launched again for other arguments, without tracing it.

A :class:`Recording` is a recipe whose sizes are expressions over those of its arguments: the stages that a
:class:`~.recorder.Recorder` has noted, with guards in the place of least and most sizes.  It is good for all arguments
of the same *pattern* (types and aliases above all) that satisfy its guards; a :class:`Recorded` function has several,
and makes another one where none is good.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Container, Sequence
from typing import Any

from ..context import current
from ..flags import DEBUG, FORBID_SYNCHRONIZATION, KERNEL_HISTORY, LAUNCH_BLOCKING, PRINT_IR
from ..ir import build, deferred
from ..ir.extents import CONSTANT, OPERATION, SIZE, Guard, Operation, Size
from ..ir.node import SHAPE, Node, blank_node, new_id
from ..ir.symbolic import innermost
from ..ops import semantics
from ..ops.table import BOUND, DUAL, EVALUATED, LITERAL, UNDEFINED
from . import backends, bounds, exclusion, relaunch
from .backend import KernelBackend, bring
from .evaluation import evaluate
from .host import in_memory
from .recorder import Constant, Recorder
from .stages import note_releases

__all__ = ["Recorded", "Recording", "pattern_of", "record"]

_log = logging.getLogger("drjit")
#: Flags that change what is launched: the others are diagnostics.
_MATTERS = ~(KERNEL_HISTORY | LAUNCH_BLOCKING | PRINT_IR | FORBID_SYNCHRONIZATION)
#: Flags with which launches are more than that.
_EXCEPTIONAL = DEBUG | KERNEL_HISTORY | LAUNCH_BLOCKING | PRINT_IR
_BOUND, _DUAL, _EVALUATED, _LITERAL, _UNDEFINED = BOUND, DUAL, EVALUATED, LITERAL, UNDEFINED
_SIZE, _CONSTANT, _OPERATION = SIZE, CONSTANT, OPERATION
_ANOTHER_PATTERN = "types, aliases or kinds of arguments, flags, or the backend differ"
_LLVM, _LLVM_BIT, _lock = backends.LLVM, backends.LLVM.where, exclusion.lock


def record(function: Callable[..., Sequence[Node]], arguments: Sequence[Node],
           donated: Container[int] = ()) -> tuple[Recording, list[Node]]:
    """Call a function of nodes, evaluate what it returns, and record that; its results are evaluated (or literals).

    Some arguments may be *donated*, by their numbers: nobody but the caller holds these nodes, now and in replays, and
    the caller uses them no more, so that what the function writes to them is written in place.  It gets each in a list
    of one, to take it from there.

    Raises a ``RuntimeError`` if the function looks at contents of arrays, or writes to others than its arguments, and
    whatever it raises.
    """
    context = current()
    backend = _backend_of(arguments)
    if not isinstance(backend, KernelBackend):
        raise RuntimeError(f"only what runs as kernels can be recorded: the backend '{backend.name}' has none")
    if context.recording is not None or innermost() is not None:
        raise RuntimeError("a recording cannot begin within another one, nor within a symbolic loop, branch or call")
    arguments = _evaluated(arguments)
    with exclusion.lock:
        target = backend.target()
    pattern = pattern_of(arguments)
    recorder = context.recording = Recorder(arguments, target, donated)
    try:
        results = list(function(*recorder.actuals))
        if deferred.chain.statements:
            deferred.chain.statements.clear()
            raise RuntimeError("this program is being recorded, and prints or asserts: a replay would not do so. Print "
                               "outside of the recording.")
        _evaluated(results)
        recording = Recording(backend, pattern, recorder, results)
        results = [_for_outside(result, recorder.given) for result in results]
    finally:
        context.recording = None
        recorder.take_back()
    return recording, results


def _for_outside(node: Node, given: dict[int, Node]) -> Node:
    """A result for the world outside, where values of constants are known; arguments are what was given."""
    if node.kind == BOUND:
        return build.literal(node.type, node.payload, node.size, SHAPE)
    return given.get(node.id, node)


def _evaluated(arguments: Sequence[Node]) -> list[Node]:
    """The arguments or results, which are evaluated, and all that was scheduled before."""
    nodes = list(arguments)
    context = current()
    pending = bool(context.scheduled or context.statements)
    for node in nodes:
        if node.kind == _DUAL:
            raise RuntimeError("the arguments and results of a recording must not track derivatives, of which a replay "
                               "has none: pass them through drjit.detach()")
        if node.kind >= _UNDEFINED and node.kind != _EVALUATED:
            pending = True
    if not pending:
        return nodes
    evaluate(nodes)
    for node in nodes:
        if node.kind == _UNDEFINED:
            in_memory(node)
    return nodes


def _backend_of(arguments: Sequence[Node]) -> Any:
    """The backend that arguments belong to, or that of this thread."""
    where = 0
    for node in arguments:
        where |= node.where
    backend = current().backend
    if backend is None or where and backend.where != where:
        backend = _LLVM if where == _LLVM_BIT else backends.backend_of(build.where_of("record", arguments))
    return backend


def pattern_of(arguments: Sequence[Node]) -> Any:
    """What evaluated arguments must have in common for a recording of the ones to serve for the others; ``None`` on a
    backend that cannot record."""
    backend = _backend_of(arguments)
    recipes = getattr(backend, "recipes", None)
    if recipes is None:
        return None
    kinds = bytearray(3 * len(arguments))
    memory = set()
    position = evaluated = 0
    for node in arguments:
        kinds[position], kinds[position + 1], kinds[position + 2] = node.kind, node.type, _extent(node)
        if node.kind == _EVALUATED:
            evaluated += 1
            memory.add(node.payload)
        position += 3
    return (backend, recipes.target_number(), current().flags & _MATTERS, bytes(kinds),
            () if len(memory) == evaluated else _aliases(arguments))


def _extent(node: Node) -> int:
    """What matters of the size and the memory of an argument."""
    return (2 if node.size > 1 else node.size) | (4 if node.kind == _EVALUATED and node.payload.padded else 0)


def _aliases(arguments: Sequence[Node]) -> tuple[tuple[int, int], ...]:
    """Which arguments are the same array, or in the same memory: for each of them the first such."""
    nodes: dict[int, int] = {}
    memory: dict[Any, int] = {}
    return tuple([(nodes.setdefault(node.id, number), memory.setdefault(node.payload, number))
                  for number, node in enumerate(arguments) if node.kind == EVALUATED])


class Recording:
    """What a function of nodes has launched, ready to be launched again."""

    __slots__ = ("_alike", "_backend", "_bounds", "_captured", "_count", "_guarded", "_kinds", "_made",
                 "_numbers", "_order", "_results", "_rows", "_written", "guards", "pattern",
                 "stages")

    def __init__(self, backend: KernelBackend, pattern: Any, recorder: Recorder, results: Sequence[Node]) -> None:
        self._backend, self.pattern, self._kinds = backend, pattern, pattern[3]
        different = {node.id: node for node in results}
        numbers = {id_: number for number, id_ in enumerate(different)}
        self._order = [numbers[node.id] for node in results]
        self._results = [recorder.result(node) for node in different.values()]
        recorder.finish()
        #: What the sizes of arguments must satisfy.
        self.guards: list[Guard] = list(dict.fromkeys(recorder.guards))
        #: Which arguments must be equally large: the most frequent guards.
        self._alike = [pair for guard in self.guards if (pair := _pair_of(guard)) is not None]
        self._guarded = [recorder.terms.number(guard.expression) if _pair_of(guard) is None else -1
                         for guard in self.guards]
        self._bounds = _bounds_of(self.guards, self._guarded)
        self._rows = recorder.terms.rows
        self._captured = list(recorder.captured.items())
        self._numbers, self._made = recorder.numbers, recorder.made
        self._count = len(recorder.extents)
        self._written = sorted(recorder.written)
        self.stages = recorder.stages
        note_releases(self.stages, [*range(len(recorder.actuals)), *recorder.captured,
                                           *(result for result in self._results if isinstance(result, int))])

    def is_like(self, other: Recording) -> bool:
        """Whether another recording of the same function, for arguments of other sizes, is the same: no number in it
        has been computed from sizes in a way that nobody has noticed."""
        return (self._rows == other._rows and self._numbers == other._numbers and self._order == other._order
                and self._written == other._written
                and [(place, id(node)) for place, node in self._captured]
                == [(place, id(node)) for place, node in other._captured]
                and [made[:2] + made[2 if made[3] < 0 else 3:] for made in self._made]
                == [made[:2] + made[2 if made[3] < 0 else 3:] for made in other._made]
                and list(map(_described, self._results)) == list(map(_described, other._results))
                and [stage.described() for stage in self.stages] == [stage.described() for stage in other.stages])

    @property
    def where(self) -> int:
        """What its arrays belong to."""
        return self._backend.where

    @property
    def kernels(self) -> int:
        """How many kernels it launches, each once."""
        return len({id(stage.kernel) for stage in self.stages if stage.kernel is not None})

    @property
    def launches(self) -> int:
        """How often it launches anything: kernels, and what is none (sorting, say)."""
        return len([stage for stage in self.stages if stage.kernel is not None or stage.step is not None])

    @property
    def kept_bytes(self) -> int:
        """The size of the arrays that it keeps, since they are none of its arguments."""
        return sum([node.payload.nbytes for _, node in self._captured])

    def obstacle(self, arguments: Sequence[Node]) -> str | None:
        """Why the recording is not good for arguments, which are evaluated; ``None`` if it is."""
        found = self._checked(list(arguments))
        return found if isinstance(found, str) else None

    def _checked(self, arguments: list[Node]) -> list[Any] | str:
        """What :meth:`terms` finds for any arguments."""
        return self.terms(arguments) if pattern_of(arguments) == self.pattern else _ANOTHER_PATTERN

    def terms(self, arguments: list[Node]) -> list[Any] | str:
        """The values of all expressions for arguments of the same pattern; why the recording is not good for them, if
        it is not."""
        found: list[Any] = []
        try:
            for kind, what, operands in self._rows:
                if kind == _SIZE:
                    found.append(arguments[what].size)
                elif kind == _OPERATION:
                    found.append(what(*[found[number] for number in operands]))
                elif kind == _CONSTANT:
                    found.append(what)
                else:
                    found.append(arguments[what].payload)
        except ArithmeticError as error:
            return f"{error}, as the function would find"
        for number, low, high in self._bounds:
            if not low <= found[number] <= high:
                return self._reason(arguments, found)
        for first, second in self._alike:
            one, other = arguments[first], arguments[second]
            if one.size != other.size:
                return self._reason(arguments, found)
        return found

    def _reason(self, arguments: list[Node], found: list[Any]) -> str:
        """The first guard that does not hold."""
        for guard, number in zip(self.guards, self._guarded, strict=True):
            if number >= 0:
                value = found[number]
            else:
                first, second = _pair_of(guard) or (0, 0)
                value = arguments[first].size - arguments[second].size
            if not guard.low <= value <= guard.high:
                return guard.reason
        raise AssertionError("all guards hold")

    def launch(self, arguments: list[Node], sizes: list[int] | None = None) -> list[Node] | None:
        """Launch what was recorded for arguments, if it is good for them, and the first of these have some sizes;
        otherwise ``None``."""
        if len(arguments) * 3 != len(self._kinds):
            return None
        position = 0
        for node in arguments:
            if node.kind != self._kinds[position] or node.type != self._kinds[position + 1] or \
                    _extent(node) != self._kinds[position + 2]:
                return None
            position += 3
        if sizes is not None:
            for position, size in enumerate(sizes):
                node = arguments[position]
                if node.size != size:
                    return None
        with _lock:
            if _backend_of(arguments) is not self._backend or current().flags & _MATTERS != self.pattern[2] or \
                    self._backend.recipes.target_number() != self.pattern[1]:
                return None
            if len(arguments) > 1 and not self._has_aliases(arguments):
                return None
            values: Any = self.terms(arguments)
            return self.run(arguments, values) if values.__class__ is list else None

    def _has_aliases(self, arguments: list[Node]) -> bool:
        """Whether those arguments share memory that did when they were recorded."""
        memory = set()
        count = 0
        for node in arguments:
            if node.kind == _EVALUATED:
                count += 1
                memory.add(node.payload)
        return not self.pattern[4] if len(memory) == count else self.pattern[4] == _aliases(arguments)

    def replay(self, arguments: Sequence[Node]) -> list[Node]:
        """Launch what was recorded for other arguments, for which there is no :meth:`obstacle`."""
        nodes = list(arguments)
        with _lock:  # between the question and the launches, the number of threads stays the same
            found = self._checked(nodes)
            if isinstance(found, str):
                raise RuntimeError(f"this recording is not good for these arguments: {found}")
            return self.run(nodes, found)

    def run(self, arguments: list[Node], values: list[Any]) -> list[Node]:
        """Launch what was recorded for arguments of the same pattern, and the values of the expressions for them."""
        context = current()
        backend, where = self._backend, self._backend.where
        nodes: list[Any] = arguments + [None] * (self._count - len(arguments))
        for node in arguments:
            if node.kind == _EVALUATED and node.payload.backend is not backend:
                bring(backend, node)
        for place in self._written:  # in place, unless others see that memory
            node = nodes[place]
            if node.payload.read_only or node.payload.exported:
                nodes[place] = build.evaluated(node.type, node.size, backend.copy(node.payload), where)
        for place, captured in self._captured:
            nodes[place] = captured
        for place, type_, term in self._numbers:
            node = nodes[place] = blank_node()
            node.kind, node.type, node.size, node.id, node.attr = _LITERAL, type_, 1, 0, 0
            node.payload = semantics.normalise(type_, values[term])
        for place, type_, size, number in self._made:
            node = nodes[place] = blank_node()
            node.kind, node.type, node.id = _UNDEFINED, type_, new_id()
            node.size = values[number] if number >= 0 else size
            node.attr, node.scope, node.where, node.payload = 0, 0, where, None
            node.d0 = node.d1 = node.d2 = node.d3 = None
        with _lock:
            exclusion.check()
            try:
                exclusion.evaluating = True
                if context.flags & _EXCEPTIONAL or _log.isEnabledFor(logging.INFO):
                    relaunch.run(backend, self.stages, nodes, values)
                else:
                    backend.recipes.replay(self.stages, nodes, values)
            finally:
                exclusion.evaluating = False
        if context.flags & LAUNCH_BLOCKING:
            bounds.warn()
        found = []
        for result in self._results:
            if isinstance(result, int):
                node = nodes[result]
                if result in self._written:  # nobody must take it for what it was
                    node = build.evaluated(node.type, node.size, node.payload, where)
                elif context.mode & 1 and result >= len(arguments):
                    build.announce(node)
                found.append(node)
            elif isinstance(result, Constant):
                found.append(build.literal(result.type, values[result.value], values[result.size], result.attr))
            else:
                found.append(result)
        if len(found) == len(self._order):
            return found
        return [found[number] for number in self._order]


def _described(result: Any) -> Any:
    """What is equal for two results that are computed alike."""
    return (result.kind, result.type, result.size, result.attr, result.payload) if isinstance(result, Node) else result


def _pair_of(guard: Guard) -> tuple[int, int] | None:
    """The arguments that a guard says to be equally large."""
    expression = guard.expression
    if isinstance(expression, Operation) and expression.function is operator.sub and guard.low == guard.high == 0:
        first, second = expression.operands
        if isinstance(first, Size) and isinstance(second, Size):
            return first.argument, second.argument
    return None


def _bounds_of(guards: Sequence[Guard], numbers: Sequence[int]) -> list[tuple[int, float, float]]:
    """The interval that each guarded expression must lie in, by the number of that."""
    found: dict[int, tuple[float, float]] = {}
    for guard, number in zip(guards, numbers, strict=True):
        if number < 0:
            continue
        low, high = found.get(number, (guard.low, guard.high))
        found[number] = max(low, guard.low), min(high, guard.high)
    return [(number, low, high) for number, (low, high) in found.items()]


class Recorded:
    """A function of nodes that is traced once for each class of arguments, and replayed for all others.

    It holds at most ``limit`` recordings, of which the one that was used last is the last to go.
    """

    __slots__ = ("_function", "_limit", "recordings")

    def __init__(self, function: Callable[..., Sequence[Node]], limit: int = 16) -> None:
        if limit < 1:
            raise ValueError(f"Recorded(): 'limit' must be at least 1, found {limit}")
        self._function = function
        self._limit = limit
        self.recordings: list[Recording] = []

    def __call__(self, *arguments: Node) -> list[Node]:
        """The results of the function, which are evaluated; within a recording, it is part of that."""
        if current().recording is not None or innermost() is not None:
            return list(self._function(*arguments))
        nodes = _evaluated(arguments)
        reason: Any = _ANOTHER_PATTERN
        with _lock:  # between the question and the launches, the number of threads stays the same
            pattern = pattern_of(nodes)
            for recording in reversed(self.recordings):
                if recording.pattern == pattern:
                    values = recording.terms(nodes)
                    if values.__class__ is list:
                        if self.recordings[-1] is not recording:
                            self._enter(recording)
                        return recording.run(nodes, values)
                    reason = values
        if self.recordings:
            _log.info("recorded again: %s.", reason)
        recording, results = record(self._function, nodes)
        self._enter(recording)
        return results

    def _enter(self, recording: Recording) -> None:
        """Make a recording the last to go; other threads may do so with theirs."""
        others = [other for other in self.recordings if other is not recording]
        self.recordings = [*others, recording][-self._limit:]
