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
from typing import Any, NamedTuple

from ..codegen.target import Target
from ..context import current
from ..flags import EXCEPTIONAL, FORBID_SYNCHRONIZATION, KERNEL_HISTORY, LAUNCH_BLOCKING, PRINT_IR
from ..ir import build, deferred
from ..ir.build import literal
from ..ir.extents import CONSTANT, CONTENT, OPERATION, SIZE, Guard, Operation, Size, Value
from ..ir.node import PARAMETER, SHAPE, Node, blank_node, new_id
from ..ir.symbolic import innermost
from ..ops.table import BOUND, DUAL, EVALUATED, UNDEFINED
from . import backends, bounds, exclusion, history, relaunch
from .backend import KernelBackend, bring, has_kernels
from .contents import read_bytes, read_element
from .evaluation import evaluate
from .host import in_memory
from .recorder import Constant, HostCall, Reading, Recorder
from .stages import Made, Stage, note_releases

__all__ = ["UNLIKE_CONTENTS", "Contents", "Recorded", "Recording", "UnlikeRecorded", "pattern_of", "record"]

_log = logging.getLogger("drjit")
_levels: dict[int, bool] = _log._cache  # type: ignore[attr-defined]  # what Logger.isEnabledFor looks at first
_INFO = logging.INFO
_exclusion = vars(exclusion)
#: Flags that change what is launched: the others are diagnostics.
_MATTERS = ~(KERNEL_HISTORY | LAUNCH_BLOCKING | PRINT_IR | FORBID_SYNCHRONIZATION)
_EXCEPTIONAL = EXCEPTIONAL
_BOUND, _DUAL, _EVALUATED, _UNDEFINED = BOUND, DUAL, EVALUATED, UNDEFINED
_SIZE, _CONSTANT, _OPERATION = SIZE, CONSTANT, OPERATION
#: What is known when something has been read.
_LATER = (CONSTANT, None, ())
#: Why a recording is not good for contents.
UNLIKE_CONTENTS = "numbers of elements that are found on the way are used as numbers, or are 0 or 1, or functions of " \
    "the host find something else"
_ANOTHER_PATTERN = "types, aliases or kinds of arguments, flags, or the backend differ"
_LLVM: Any = backends.LLVM
_LLVM_BIT, _lock = backends.LLVM.where, exclusion.lock
#: The question for which memory was looked at last, see :attr:`.buffer.Buffer.mark`.
_mark = 0


def record(function: Callable[..., Sequence[Node]], arguments: Sequence[Node], donated: Container[int] = (),
           presumes: bool = False, where: int = 0) -> tuple[Recording, list[Node]]:
    """Call a function of nodes, evaluate what it returns, and record that; its results are evaluated (or literals).

    Some arguments may be *donated*, by their numbers: nobody but the caller holds these nodes, now and in replays, and
    the caller uses them no more, so that what the function writes to them is written in place.  It gets each in a list
    of one, to take it from there.

    Numbers of elements that are no extents may be ``presumed`` to be the sizes of arguments that have as many. Whoever
    says so finds out whether they are, by comparing recordings for other sizes.

    Where arguments belong nowhere, it is recorded for the backend that is said, or that of this thread.

    Raises a ``RuntimeError`` if the function looks at contents of arrays, or writes to others than its arguments, and
    whatever it raises.
    """
    context = current()
    backend = _backend_of(arguments, where)
    if not has_kernels(backend):
        raise RuntimeError(f"only what runs as kernels can be recorded: the backend '{backend.name}' has none")
    if context.recording is not None or innermost() is not None:
        raise RuntimeError("a recording cannot begin within another one, nor within a symbolic loop, branch or call")
    arguments = _evaluated(arguments)
    with exclusion.lock:
        target = backend.target()
    pattern = pattern_of(arguments, where)
    recorder = context.recording = Recorder(arguments, backend, target, donated, presumes)
    try:
        results = list(function(*recorder.actuals))
        if deferred.chain.statements:
            deferred.chain.statements.clear()
            raise RuntimeError("this program is being recorded, and prints or asserts: a replay would not do so. Print "
                               "outside of the recording.")
        _evaluated(results)
        recording = Recording(backend, pattern, _contents_of(recorder, results))
        results = [_for_outside(result, recorder.given) for result in results]
    finally:
        context.recording = None
        recorder.take_back()
    return recording, results


def _for_outside(node: Node, given: dict[int, Node]) -> Node:
    """A result for the world outside, where values of constants are known; arguments are what was given."""
    if node.kind == BOUND:
        return literal(node.type, node.payload, node.size, SHAPE)
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


def _backend_of(arguments: Sequence[Node], otherwise: int = 0) -> Any:
    """The backend that arguments belong to, or if they belong nowhere, another one, or that of this thread."""
    where = 0
    for node in arguments:
        where |= node.where
    if not where:
        where = otherwise
    backend = current().backend
    if backend is None or where and backend.where != where:
        if where & where - 1:
            build.where_of("record", arguments)  # raises: they belong to several
        backend = _LLVM if where == _LLVM_BIT else backends.backend_of(where)
    return backend


def pattern_of(arguments: Sequence[Node], where: int = 0) -> Any:
    """What evaluated arguments must have in common for a recording of the ones to serve for the others; ``None`` on a
    backend that cannot record.  Those that belong nowhere are for the backend that is said."""
    backend = _backend_of(arguments, where)
    recipes = backend.recipes
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


def _have_sizes(arguments: list[Node], sizes: list[int]) -> bool:
    """Whether the first of some arguments have some sizes."""
    for position, size in enumerate(sizes):
        node = arguments[position]
        if node.size != size:
            return False
    return True


def _extent(node: Node) -> int:
    """What matters of the size and the memory of an argument."""
    extent = 2 if node.size > 1 else node.size
    if node.kind == _EVALUATED:
        buffer = node.payload
        if buffer.padded:
            extent |= 4
    return extent


def _aliases(arguments: Sequence[Node]) -> tuple[tuple[int, int], ...]:
    """Which arguments are the same array, or in the same memory: for each of them the first such."""
    nodes: dict[int, int] = {}
    memory: dict[Any, int] = {}
    return tuple([(nodes.setdefault(node.id, number), memory.setdefault(node.payload, number))
                  for number, node in enumerate(arguments) if node.kind == EVALUATED])


class Contents(NamedTuple):
    """What a recording consists of, in terms of *places*: of its arguments, and of all else behind them."""

    target: Target  # what its programs were assembled for
    sensitive: bool  # whether they depend on there being one thread, or several
    sizes: list[int]  # of the arguments that it was made for
    rows: list[tuple[int, Any, tuple[int, ...]]]  # expressions, see :class:`drjit_core.ir.extents.Terms`
    guards: list[Guard]
    guarded: list[int]  # the expression of each, by its number; -1 if it is that two arguments are equally large
    pauses: list[Reading | HostCall]
    captured: list[tuple[int, Node]]
    numbers: list[tuple[int, int, int]]
    made: list[Made]
    places: int  # how many there are
    written: list[int]
    order: list[int]  # of the results, which one of the different ones each is
    results: list[Any]  # places, constants, or nodes that are always the same
    stages: list[Stage]


def _contents_of(recorder: Recorder, results: Sequence[Node]) -> Contents:
    """What a recorder has noted of a function with some results."""
    different = {node.id: node for node in results}
    numbers = {id_: number for number, id_ in enumerate(different)}
    order = [numbers[node.id] for node in results]
    found = [recorder.result(node) for node in different.values()]
    recorder.finish()
    guards = list(dict.fromkeys(recorder.guards))
    guarded = [recorder.terms.number(guard.expression) if _pair_of(guard) is None else -1 for guard in guards]
    return Contents(
        recorder.target, recorder.sensitive, recorder.argument_sizes, recorder.terms.rows, guards, guarded,
        recorder.pauses, list(recorder.captured.items()), recorder.numbers, recorder.made, len(recorder.extents),
        sorted(recorder.written), order, found, recorder.stages)


class Recording:
    """What a function of nodes has launched, ready to be launched again."""

    __slots__ = ("_alike", "_backend", "_bounds", "_captured", "_count", "_follows", "_guarded", "_kinds", "_known",
                 "_made", "_numbers", "_order", "_parts", "_recipes", "_results", "_rows", "_sizes", "_written",
                 "guards", "pattern", "pauses", "sensitive", "stages", "target", "where")

    def __init__(self, backend: KernelBackend, pattern: Any, contents: Contents) -> None:
        self._backend, self.pattern, self._kinds = backend, pattern, pattern[3]
        self._recipes = backend.recipes
        #: What its arrays belong to.
        self.where: int = backend.where
        #: What the programs were assembled for; whether they depend on there being one thread, or several.
        self.target, self.sensitive, self._sizes = contents.target, contents.sensitive, contents.sizes
        self._order, self._results = contents.order, contents.results
        #: What the sizes of arguments must satisfy.
        self.guards: list[Guard] = contents.guards
        self._guarded = contents.guarded
        #: Which arguments must be equally large: the most frequent guards.
        self._alike = [pair for guard in self.guards if (pair := _pair_of(guard)) is not None]
        self._bounds = _bounds_of(self.guards, self._guarded)
        self._rows = contents.rows
        #: What the host does between launches.
        self.pauses = contents.pauses
        self._parts: list[_Part] = []
        self._captured = contents.captured
        #: What launches make, see :class:`.stages.Made`: as tuples, which are taken apart in a fraction of the time.
        self._numbers, self._made = contents.numbers, [each[:] for each in contents.made]
        self._count, self._written = contents.places, contents.written
        self.stages = contents.stages
        note_releases(self.stages, [*range(len(self._kinds) // 3), *(place for place, _ in self._captured),
                                    *(place for pause in self.pauses for place in _places_of(pause)),
                                    *(result for result in self._results if isinstance(result, int))])
        #: Whether the values of all expressions follow from the sizes of arguments; the last ones, with the sizes.
        self._follows = not self.pauses and all(kind in (SIZE, CONSTANT, OPERATION) for kind, _, _ in self._rows)
        self._known: tuple[list[int], list[Any]] | None = None
        if self.pauses:
            self._split()

    def contents(self) -> Contents:
        """What it consists of, but for the backend and the pattern."""
        rows = list(self._rows)
        for part in self._parts:
            for number, kind, what, operands in part.rows:
                rows[number] = kind, what, operands
        parts = self._parts or [_Part([], [], [], self._numbers, self._made)]
        return Contents(
            self.target, self.sensitive, self._sizes, rows, self.guards, self._guarded, self.pauses, self._captured,
            [each for part in parts for each in part.numbers], [Made(*each) for part in parts for each in part.made],
            self._count, self._written, self._order, self._results, self.stages)

    def _split(self) -> None:
        """Divide the recording into what is launched, computed and compared before, between and after what the host
        does."""
        levels: list[int] = []  # how much must have been read before an expression is known
        for kind, what, operands in self._rows:
            levels.append(what + 1 if kind == CONTENT else max([levels[number] for number in operands], default=0))
        stages = [pause.stage for pause in self.pauses]
        for level, (first, last) in enumerate(zip([0, *stages], [*stages, len(self.stages)], strict=True)):
            self._parts.append(_Part(
                self.stages[first:last],
                [(number, *row) for number, row in enumerate(self._rows) if levels[number] == level],
                [bound for bound in self._bounds if levels[bound[0]] == level],
                [number for number in self._numbers if levels[number[2]] == level],
                [made for made in self._made if (levels[made[3]] if made[3] >= 0 else 0) == level]))
        self._rows = [_LATER if level else row for level, row in zip(levels, self._rows, strict=True)]
        self._bounds, self._numbers, self._made = self._parts[0].bounds, self._parts[0].numbers, self._parts[0].made

    def is_like(self, other: Recording) -> bool:
        """Whether another recording of the same function, for arguments of other sizes, is the same: no number in it
        has been computed from sizes in a way that nobody has noticed."""
        return (self._rows == other._rows and _alike(self._parts, other._parts)
                and [_same_pause(each) for each in self.pauses] == [_same_pause(each) for each in other.pauses]
                and self._numbers == other._numbers and self._order == other._order
                and self._written == other._written
                and _same_arrays(self._captured, other._captured)
                and _free(self._made) == _free(other._made)
                and list(map(_described, self._results)) == list(map(_described, other._results))
                and [stage.described() for stage in self.stages] == [stage.described() for stage in other.stages])

    def adapt(self) -> bool:
        """Serve for the number of threads that there is now, unless what was recorded depends on there being one;
        whether anything is different."""
        with _lock:
            number = self._backend.recipes.target_number()
            threads = self._backend.target().threads
            if number == self.pattern[1] or self.sensitive and self.target.threads == 1 < threads:
                return False
            self.pattern = (self.pattern[0], number, *self.pattern[2:])
        return True

    @property
    def reads(self) -> list[int]:
        """The numbers of elements that launches have found: replays read others."""
        return [pause.value for pause in self.pauses if isinstance(pause, Reading)]

    @property
    def pins_values(self) -> bool:
        """Whether it is good for one value of some literal only."""
        return any(isinstance(guard.expression, Value) and guard.low == guard.high for guard in self.guards)

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
        with _lock:
            found = self.checked(list(arguments), self.where)
        return found if isinstance(found, str) else None

    def checked(self, arguments: list[Node], where: int) -> list[Any] | str:
        """What :meth:`terms` finds for any arguments, see :meth:`launched`."""
        return self.terms(arguments) if self._is_for(arguments, where) else _ANOTHER_PATTERN

    def terms(self, arguments: list[Node]) -> list[Any] | str:
        """The values of all expressions for arguments of the same pattern, ``None`` for those that follow from
        contents; why the recording is not good for them, if it is not."""
        if self._known is not None and self._are_known(arguments):
            return self._known[1]
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
        if self._follows:
            self._known = [node.size for node in arguments], found
        return found

    def _are_known(self, arguments: list[Node]) -> bool:
        """Whether arguments are as large as they were when values of expressions were computed last."""
        known = self._known
        if known is None:
            return False
        return len(known[0]) == len(arguments) and _have_sizes(arguments, known[0])

    def _reason(self, arguments: list[Node], found: list[Any]) -> str:
        """The first guard that does not hold."""
        for guard, number in zip(self.guards, self._guarded, strict=True):
            if number >= 0:
                value = found[number]
            else:
                first, second = _pair_of(guard) or (0, 0)
                value = arguments[first].size - arguments[second].size
            if value is not None and not guard.low <= value <= guard.high:
                return guard.reason
        raise AssertionError("all guards hold")

    def launch(self, arguments: list[Node], sizes: list[int] | None = None, same: bool = False) -> list[Node] | None:
        """Launch what was recorded for arguments, if it is good for them, and the first of these have some sizes, and
        what is read is the ``same``; otherwise ``None``."""
        if sizes is not None and (len(sizes) > len(arguments) or not _have_sizes(arguments, sizes)):
            return None
        with _lock:
            return self.launched(arguments, self.where, same)

    def launched(self, arguments: list[Node], where: int, same: bool = False) -> list[Node] | None:
        """What :meth:`launch` returns, where arguments that belong nowhere are for a backend; with 0 for that of this
        thread.  The caller holds the lock: between the question and the launches, the number of threads stays the
        same."""
        if not self._is_for(arguments, where):
            return None
        values: Any = self.terms(arguments)
        return self.run(arguments, values, same) if type(values) is list else None

    def _is_for(self, arguments: list[Node], where: int) -> bool:
        """Whether the pattern of arguments is that of the recording, see :func:`pattern_of`.  The caller holds the
        lock."""
        global _mark
        kinds = self._kinds
        if len(arguments) * 3 != len(kinds):
            return False
        _mark += 1
        mark, position, bits, shared = _mark, 0, 0, False
        for node in arguments:
            extent = 2 if node.size > 1 else node.size
            if node.kind == _EVALUATED:
                buffer = node.payload
                if buffer.padded:
                    extent |= 4
                if buffer.mark == mark:
                    shared = True
                buffer.mark = mark
            if node.kind != kinds[position] or node.type != kinds[position + 1] or extent != kinds[position + 2]:
                return False
            bits |= node.where
            position += 3
        pattern, context = self.pattern, current()
        if context.flags & _MATTERS != pattern[2] or self._recipes.target_number() != pattern[1]:
            return False
        if not ((bits or where) == self.where == _LLVM_BIT and context.backend is None and self._backend is _LLVM) \
                and _backend_of(arguments, where) is not self._backend:
            return False
        return bool(pattern[4] == _aliases(arguments)) if shared else not pattern[4]

    def replay(self, arguments: Sequence[Node]) -> list[Node]:
        """Launch what was recorded for other arguments, for which there is no :meth:`obstacle`."""
        nodes = list(arguments)
        with _lock:  # between the question and the launches, the number of threads stays the same
            found = self.checked(nodes, self.where)
            if isinstance(found, str):
                raise RuntimeError(f"this recording is not good for these arguments: {found}")
            results = self.run(nodes, found)
        if results is None:
            raise RuntimeError(f"this recording is not good for these arguments: {UNLIKE_CONTENTS}")
        return results

    def run(self, arguments: list[Node], values: list[Any], same: bool = False) -> list[Node] | None:
        """Launch what was recorded for arguments of the same pattern, and the values of the expressions for them.  The
        caller holds the lock.

        If sizes follow from contents, it may turn out not to be good for these, or what was read may have to be the
        ``same``: then the result is ``None``, and all has been in vain.
        """
        context = current()
        backend, where = self._backend, self.where
        nodes: list[Any] = arguments + [None] * (self._count - len(arguments))
        for node in arguments:
            if node.kind == _EVALUATED:
                buffer = node.payload
                if buffer.backend is not backend:
                    bring(backend, node)
        for place in self._written:  # in place, unless others see that memory, or all may have been in vain
            node = nodes[place]
            if self._parts or node.payload.read_only or node.payload.exported:
                nodes[place] = build.evaluated(node.type, node.size, backend.copy(node.payload), where)
        for place, captured in self._captured:
            nodes[place] = captured
        self._prepare(self._numbers, self._made, nodes, values)
        if self._parts:
            if not self._run_parts(nodes, values, same):
                return None
        else:
            self._run_stages(self.stages, nodes, values)
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
                found.append(literal(result.type, values[result.value], values[result.size], result.attr))
            else:
                found.append(result)
        if len(found) == len(self._order):
            return found
        return [found[number] for number in self._order]

    def _prepare(self, numbers: list[Any], made: list[Any], nodes: list[Any], values: list[Any]) -> None:
        """Make nodes for numbers, and for what is to be computed."""
        where = self.where
        for place, type_, term in numbers:
            nodes[place] = literal(type_, values[term], 1, PARAMETER)
        for place, type_, size, number in made:
            node = nodes[place] = blank_node()
            node.kind, node.type, node.id = _UNDEFINED, type_, new_id()
            node.size = values[number] if number >= 0 else size
            node.attr, node.scope, node.where, node.payload = 0, 0, where, None
            node.d0 = node.d1 = node.d2 = node.d3 = None

    def _run_stages(self, stages: list[Stage], nodes: list[Any], values: list[Any]) -> None:
        if _exclusion["evaluating"]:
            exclusion.check()
        try:
            _exclusion["evaluating"] = True
            if current().flags & _EXCEPTIONAL or _levels.get(_INFO) is not False and _log.isEnabledFor(_INFO):
                self._run_slowly(stages, nodes, values)
            else:
                self._recipes.replay(stages, nodes, values)
        finally:
            _exclusion["evaluating"] = False

    def _run_slowly(self, stages: list[Stage], nodes: list[Any], values: list[Any]) -> None:
        """Launch stages with all that is told, checked and booked meanwhile."""
        try:
            history.replaying = True
            relaunch.run(self._backend, stages, nodes, values)
        finally:
            history.replaying = False

    def _run_parts(self, nodes: list[Any], values: list[Any], same: bool) -> bool:
        """Launch what goes before each number that is read, and what follows; whether the recording is good for it."""
        for level, part in enumerate(self._parts):
            if level:
                pause, read = self.pauses[level - 1], None
                if isinstance(pause, HostCall):
                    try:
                        if not _call(pause, nodes):
                            return False
                    except UnlikeRecorded:
                        return False
                else:
                    read = int(read_element(nodes[pause.place], 0))
                    if same and read != pause.value:
                        return False
                try:
                    for number, kind, what, operands in part.rows:
                        values[number] = read if kind == CONTENT else what(*[values[each] for each in operands])
                except ArithmeticError:
                    return False
                for number, low, high in part.bounds:
                    if not low <= values[number] <= high:
                        return False
                self._prepare(part.numbers, part.made, nodes, values)
            self._run_stages(part.stages, nodes, values)
        return True


def _places_of(pause: Reading | HostCall) -> list[int]:
    """The places that the host looks at."""
    return [pause.place] if isinstance(pause, Reading) else [*pause.operands, *[place for place, _, _ in pause.results]]


def _same_pause(pause: Reading | HostCall) -> Any:
    """What is equal where the host does the same for arguments of other sizes."""
    return pause[:2] if isinstance(pause, Reading) else pause


class UnlikeRecorded(Exception):
    """A function of the host has found something else than when it was recorded: the recording is not good for that."""


def _call(call: HostCall, nodes: list[Any]) -> bool:
    """Call a function of the host once more, and put what it makes where launches expect it; whether it fits there."""
    results = call.function([nodes[place] for place in call.operands])
    if [(node.type, node.size) for node in results] != [each[1:] for each in call.results]:
        return False
    for (place, _, _), node in zip(call.results, results, strict=True):
        nodes[place] = node
    return True


class _Part(NamedTuple):
    """What happens before something is read, or after, and follows from what has been read before."""

    stages: list[Stage]
    rows: list[tuple[int, int, Any, tuple[int, ...]]]  # of expressions, with their numbers
    bounds: list[tuple[int, float, float]]
    numbers: list[tuple[int, int, int]]
    made: list[tuple[int, int, int, int]]


#: So many bytes of captured arrays are compared.
_MOST_COMPARED = 1 << 12


def _same_arrays(captured: Sequence[tuple[int, Node]], others: Sequence[tuple[int, Node]]) -> bool:
    """Whether captured arrays are the same, in the same places."""
    return len(captured) == len(others) and all(place == another and _same_array(node, found) for (
        place, node), (another, found) in zip(captured, others, strict=True))


def _same_array(one: Node, other: Node) -> bool:
    """Whether two captured arrays, which nobody changes, are the same, or hold the same numbers."""
    return one is other or one.type == other.type and one.size == other.size and \
        one.payload.nbytes <= _MOST_COMPARED and read_bytes(one, looks=False) == read_bytes(other, looks=False)


def _alike(parts: Sequence[_Part], others: Sequence[_Part]) -> bool:
    return all(part.rows == other.rows and part.numbers == other.numbers and _free(part.made) == _free(other.made)
               for part, other in zip(parts[1:], others[1:], strict=False))


def _free(made: Sequence[tuple[int, int, int, int]]) -> list[tuple[int, ...]]:
    """Arrays that launches make, without sizes that follow from others."""
    return [each[:2] + each[2 if each[3] < 0 else 3:] for each in made]


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
        results = self._replayed(nodes)
        if results is None:
            if self.recordings and _log.isEnabledFor(logging.INFO):
                _log.info("recorded again: %s.", self._reason(nodes))
            recording, results = record(self._function, nodes)
            self._enter(recording)
        return results

    def _replayed(self, nodes: list[Node]) -> list[Node] | None:
        """The results of the recording that is good for arguments, if there is one."""
        with _lock:
            for recording in reversed(self.recordings):
                results = recording.launched(nodes, 0)
                if results is not None:
                    if self.recordings[-1] is not recording:
                        self._enter(recording)
                    return results
        return None

    def _reason(self, nodes: list[Node]) -> str:
        """Why no recording is good for arguments: the last one of their pattern."""
        with _lock:
            found = [recording.checked(nodes, 0) for recording in reversed(self.recordings)]
        reasons = [each if isinstance(each, str) else UNLIKE_CONTENTS for each in found]
        return next((reason for reason in reasons if reason is not _ANOTHER_PATTERN), _ANOTHER_PATTERN)

    def _enter(self, recording: Recording) -> None:
        """Make a recording the last to go; other threads may do so with theirs."""
        others = [other for other in self.recordings if other is not recording]
        self.recordings = [*others, recording][-self._limit:]
