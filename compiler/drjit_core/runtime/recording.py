"""Recordings: a program that was traced and launched once is launched again for other arguments, without tracing it.

A :class:`Recording` is the launches that a :class:`~.recorder.Recorder` has noted.  It is good for all arguments of the
same *pattern* (types and aliases above all) that satisfy its guards; a :class:`Recorded` function has several, and
makes another one where none is good.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..codegen.program import Binding, BoundCall
from ..codegen.target import Target
from ..flags import FORBID_SYNCHRONIZATION, KERNEL_HISTORY, LAUNCH_BLOCKING, PRINT_IR, state
from ..ir import build, deferred
from ..ir.extents import Expression, Guard, evaluate
from ..ir.node import SHAPE, Node
from ..ir.symbolic import innermost
from ..ops import semantics
from ..ops.table import BOUND, DUAL, EVALUATED, LITERAL, UNDEFINED
from ..types import TYPES
from . import bounds, exclusion, history, steps
from .backend import KernelBackend
from .backends import backend_of
from .buffer import Buffer
from .evaluation import evaluate as evaluate_nodes
from .history import tell
from .host import in_memory
from .recorder import Address, Array, Constant, Made, Number, RecordedLaunch, RecordedStep, Recorder, Words

__all__ = ["Recorded", "Recording", "record"]

_log = logging.getLogger("drjit")
#: Flags that change nothing about what is launched.
_DIAGNOSTICS = KERNEL_HISTORY | LAUNCH_BLOCKING | PRINT_IR | FORBID_SYNCHRONIZATION
Pattern = tuple[Any, ...]


def record(function: Callable[..., Sequence[Node]], arguments: Sequence[Node]) -> tuple[Recording, list[Node]]:
    """Call a function of nodes, evaluate what it returns, and record that; its results are evaluated (or literals).

    Raises a ``RuntimeError`` if the function looks at contents of arrays, or writes to others than its arguments, and
    whatever it raises.
    """
    backend = backend_of(build.where_of("record", arguments))
    if not isinstance(backend, KernelBackend):
        raise RuntimeError(f"only what runs as kernels can be recorded: the backend '{backend.name}' has none")
    if state.recording is not None or innermost() is not None:
        raise RuntimeError("a recording cannot begin within another one, nor within a symbolic loop, branch or call")
    arguments = _evaluated(arguments)
    with exclusion.lock:
        target = backend.target()
    pattern = _pattern(backend, target, arguments)
    recorder = state.recording = Recorder(arguments, target)
    try:
        results = list(function(*recorder.actuals))
        if deferred.chain.statements:
            deferred.chain.statements.clear()
            raise RuntimeError("this program is being recorded, and prints or asserts: a replay would not do so. Print "
                               "outside of the recording.")
        _evaluated(results)
        recording = Recording(backend, target, pattern, recorder, results)
        results = [_for_outside(result, recorder.given) for result in results]
    finally:
        state.recording = None
        recorder.take_back()
    return recording, results


def _for_outside(node: Node, given: dict[int, Node]) -> Node:
    """A result for the world outside, where values of constants are known; arguments are what was given."""
    if node.kind == BOUND:
        return build.literal(node.type, node.payload, node.size, SHAPE)
    return given.get(node.id, node)


def _evaluated(arguments: Sequence[Node]) -> list[Node]:
    """The arguments or results, which are evaluated, and all that was scheduled before."""
    if any(node.kind == DUAL for node in arguments):
        raise RuntimeError("the arguments and results of a recording must not track derivatives, of which a replay "
                           "has none: pass them through drjit.detach()")
    evaluate_nodes(arguments)
    for node in arguments:
        if node.kind == UNDEFINED:
            in_memory(node)
    return list(arguments)


def _pattern(backend: KernelBackend, target: Target, arguments: Sequence[Node]) -> Pattern:
    """What arguments must have in common for a recording of the ones to serve for the others."""
    places: dict[Any, int] = {}
    parts: list[Any] = [id(backend), target, state.flags & ~_DIAGNOSTICS]
    for number, node in enumerate(arguments):
        evaluated = node.kind == EVALUATED
        parts.append((node.kind, node.type, min(node.size, 2), evaluated and node.payload.padded,
                      evaluated and places.setdefault(node.id, number),
                      evaluated and places.setdefault(("memory", id(node.payload)), number)))
    return tuple(parts)


class Recording:
    """What a function of nodes has launched, ready to be launched again."""

    __slots__ = ("_backend", "_captured", "_count", "_guards", "_inputs", "_made", "_results", "_target",
                 "launches", "pattern")

    def __init__(self, backend: KernelBackend, target: Target, pattern: Pattern, recorder: Recorder,
                 results: Sequence[Node]) -> None:
        self.pattern = pattern
        self._backend, self._target = backend, target
        self._results = _shared(results, recorder.result)
        self._captured = recorder.captured
        self.launches = recorder.launches
        self._made = recorder.undefined  # after the last launch
        self._count = len(recorder.extents)
        self._guards = list(dict.fromkeys(recorder.guards))
        self._inputs = recorder.inputs
        self._note_releases()

    def _note_releases(self) -> None:
        """Find out after which launch each variable is needed no more."""
        kept = {*self._captured, *self._inputs, *(result.variable for result in self._results
                                                  if isinstance(result, Array))}
        for launch in reversed(self.launches):
            needed = set(launch.used)
            if isinstance(launch, RecordedLaunch):
                needed.update(source.variable for _, source in _sources(launch.bound) if isinstance(source, Address))
                for tables in launch.tables:
                    needed |= {tables.target, tables.result}
            launch.releases = sorted(needed - kept)
            kept |= needed

    @property
    def guards(self) -> list[Guard]:
        """What the sizes of arguments must satisfy."""
        return list(self._guards)

    def obstacle(self, arguments: Sequence[Node]) -> str | None:
        """Why the recording is not good for arguments, which are evaluated; ``None`` if it is."""
        backend = backend_of(build.where_of("record", arguments))
        with exclusion.lock:
            target = self._backend.target()
        if backend is not self._backend or _pattern(backend, target, arguments) != self.pattern:
            return "types, aliases or kinds of arguments, flags, or the backend differ"
        sizes, values = _sizes_and_values(arguments)
        for guard in self._guards:
            if not guard.holds(sizes, values):
                return guard.reason
        return None

    def replay(self, arguments: Sequence[Node]) -> list[Node]:
        """Launch what was recorded for other arguments, for which there is no :meth:`obstacle`."""
        run = _Run(self._backend, self._target, self._count, *_sizes_and_values(arguments))
        for variable, node in zip(self._inputs, arguments, strict=True):
            if variable >= 0:
                run.buffers[variable] = node.payload
        for variable, node in self._captured.items():
            run.buffers[variable] = node.payload
        with exclusion.lock:
            exclusion.check()
            try:
                exclusion.evaluating = True
                for launch in self.launches:
                    if isinstance(launch, RecordedStep):
                        run.step(launch)
                    else:
                        run.launch(launch)
                for made in self._made:
                    run.make(made)
            finally:
                exclusion.evaluating = False
        if state.flags & LAUNCH_BLOCKING:
            bounds.warn()
        known = dict(zip(self._inputs, arguments, strict=True))
        return _shared(self._results, lambda result: run.result(result, known))


def _shared(items: Sequence[Any], make: Callable[[Any], Any]) -> list[Any]:
    """What is made of each item; the same for the same one."""
    made: dict[int, Any] = {}
    for item in items:
        if id(item) not in made:
            made[id(item)] = make(item)
    return [made[id(item)] for item in items]


def _sources(bound: Words) -> Iterable[tuple[int, Address | Number]]:
    yield from bound.sources
    for call in bound.calls:
        for target in call.targets:
            yield from _sources(target)


def _sizes_and_values(arguments: Sequence[Node]) -> tuple[list[int], list[Any]]:
    return [node.size for node in arguments], [node.payload if node.kind == LITERAL else None for node in arguments]


class _Run:
    """One replay."""

    __slots__ = ("_sizes", "_values", "backend", "buffers", "target")

    def __init__(self, backend: KernelBackend, target: Target, count: int, sizes: list[int], values: list[Any]) -> None:
        self.backend = backend
        self.target = target
        self.buffers: list[Any] = [None] * count
        self._sizes = sizes
        self._values = values

    def value(self, expression: Expression) -> Any:
        """The value of an expression."""
        return expression if isinstance(expression, (int, float)) else evaluate(expression, self._sizes, self._values)

    def make(self, made: Made) -> Buffer:
        """Allocate a variable."""
        buffer = self.buffers[made.variable] = self.backend.allocate(self.value(made.size) * TYPES[made.type].size)
        return buffer

    def bind(self, bound: Words, width: int, launch: RecordedLaunch) -> Binding:
        """The parameters of a kernel or of a target."""
        parameters = bound.words.copy()
        parameters[0] = width
        for slot, source in bound.sources:
            if isinstance(source, Address):
                parameters[slot] = self.buffers[source.variable].address
            else:
                value = semantics.normalise(source.type, self.value(source.expression))
                parameters[slot] = semantics.bits_of(value, TYPES[source.type])
        result = Binding(bound.key, parameters, width, launch.functions, bound.links, launch.unit, launch.shared)
        result.calls = {number: BoundCall(call.slot, [self.bind(target, width, launch) for target in call.targets])
                        for number, call in enumerate(bound.calls)}
        return result

    def step(self, launch: RecordedStep) -> None:
        """Run one step."""
        for made in launch.made:
            self.make(made)
        operands = [steps.Stored(array.type, self.value(array.size), self.buffers[array.variable])
                    for array in launch.operands]
        results = {position: steps.Stored(array.type, self.value(array.size),
                                          self.make(Made(array.variable, array.type, array.size, 0)))
                   for position, array in launch.results.items()}
        steps.run(self.backend, launch.step, operands, results)
        for variable in launch.releases:
            self.buffers[variable] = None

    def launch(self, launch: RecordedLaunch) -> None:
        """Launch one kernel."""
        backend, kernel, buffers = self.backend, launch.kernel, self.buffers
        width = self.value(launch.width)
        for made in launch.made:
            self.make(made)
        bound = self.bind(launch.bound, width, launch)
        parameters = bound.parameters
        for made in launch.made:
            if made.slot:
                parameters[made.slot] = buffers[made.variable].address
        used = [buffers[variable] for variable in launch.used]
        keep: list[Any] = [buffer for buffer in used if buffer.read_only]
        if kernel.reductions:
            partials = backend.allocate(kernel.partial_bytes(width // launch.unit, launch.unit))
            parameters[1] = partials.address
            used.append(partials)
        tables = []
        for each in launch.tables:
            target = build.evaluated(each.type, self.value(each.size), buffers[each.target])
            tables.append(backend.fill_tables(self.target, target, each.op))
            parameters[each.slot:each.slot + 2] = tables[-1].words
            used.append(tables[-1].whole.payload)
        report: bounds.Report | None = None
        if launch.accesses:
            report = bounds.Report(backend, [access._replace(size=self.value(limit)) for access, limit
                                             in zip(launch.accesses, launch.limits, strict=True)])
            keep.append(report)
            report.bind(bound, launch.reports)
        kernel.reuse(width)
        if bound.calls:
            kernel.fill_calls(bound, keep)
        launched = kernel.launch(bound, launch.course, keep, state.flags & KERNEL_HISTORY != 0)
        tell(kernel, True, width, launch.inputs, launch.outputs, 0.0)
        try:
            _note(used, report, backend.submit(launched))
        except BaseException:
            if launched.begun:  # it was interrupted (Ctrl-C) when the kernel had been submitted, which uses this memory
                _note(used, report, backend.submitted())
            raise
        for each, filled in zip(launch.tables, tables, strict=True):
            buffers[each.result] = backend.merge_tables(self.target, filled)
        if state.flags & LAUNCH_BLOCKING:
            backend.wait()
        if state.flags & KERNEL_HISTORY:
            history.record(backend, kernel, True, launched, width, launch.inputs, launch.outputs, 0.0)
        for variable in launch.releases:
            buffers[variable] = None

    def result(self, result: Array | Constant | Node, arguments: dict[int, Node]) -> Node:
        """A result of the replay."""
        if isinstance(result, Node):
            return result
        size = self.value(result.size)
        if isinstance(result, Constant):
            return build.literal(result.type, self.value(result.value), size, result.attr)
        found = arguments.get(result.variable)
        return build.evaluated(result.type, size, self.buffers[result.variable]) if found is None else found


def _note(used: Sequence[Buffer], report: bounds.Report | None, ticket: int) -> None:
    """Note that a launch uses some buffers, and may report something; may be repeated."""
    for buffer in used:
        buffer.ticket = ticket
    if report is not None:
        bounds.expect(report, ticket)


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
        if state.recording is not None or innermost() is not None:
            return list(self._function(*arguments))
        nodes = _evaluated(arguments)
        reasons = []
        with exclusion.lock:  # between the question and the launches, the number of threads stays the same
            for recording in tuple(self.recordings):
                obstacle = recording.obstacle(nodes)
                if obstacle is None:
                    self._enter(recording)
                    return recording.replay(nodes)
                reasons.append(obstacle)
        if reasons:
            _log.info("recorded again: %s.", reasons[-1])
        recording, results = record(self._function, nodes)
        self._enter(recording)
        return results

    def _enter(self, recording: Recording) -> None:
        """Make a recording the last to go; other threads may do so with theirs."""
        others = [other for other in self.recordings if other is not recording]
        self.recordings = [*others, recording][-self._limit:]
