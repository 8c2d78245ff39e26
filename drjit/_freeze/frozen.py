"""Functions that are traced once, and launched again by later calls: which recording is good for a call."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import (
    BACKWARD,
    FORWARD_MODE,
    KIND,
    LEAF,
    STRUCTURE,
    JitBackend,
    JitFlag,
    Vertex,
    current,
    dual,
    evaluation_lock,
    literal,
    primal,
    tracked,
    vertex_of,
)

from .._access.lanes import in_plain_code
from .._base.errors import passed_on
from .._base.values import real_number
from .._trees.kinds import look_through
from .again import Again
from .derivative import Call, traversed
from .explanation import RecordingInfo, at_line, difference, distance, of_places, only_differences, parameter_at
from .inputs import Inputs, Route, array_of_number
from .outcome import Outcome
from .plan import Found, Plan

__all__ = ["Entry", "Frozen", "write_with"]

_log = logging.getLogger("drjit")
_LITERAL, _EVALUATED = KIND["literal"], KIND["evaluated"]
_IDENTITY = STRUCTURE["identity"]
_UNUSABLE = "unusable"
_FREEZING = JitFlag.KernelFreezing.value
#: One function is recorded at a time: it sees other nodes in the arrays that it knows.
_recording = threading.RLock()
#: How often recordings have been used.
_uses = 0
_NOTHING: list[Any] = []
#: So often a number must have been the only thing that is different, to become an array.
_CHANGES = 2
#: So many kinds of calls are recognised without looking for what they depend on, those that came last.
_MOST_PLANS = 8


class Entry:
    """One recording."""

    __slots__ = ("baked", "derivatives", "failures", "general", "hits", "kept", "outcome", "parts", "pattern",
                 "positions", "recording", "settled", "sizes", "used", "words")

    def __init__(self, recording: core.Recording, outcome: Outcome, inputs: Inputs, positions: list[int],
                 baked: dict[int, Any]) -> None:
        self.recording, self.outcome = recording, outcome
        self.pattern = recording.pattern
        #: Which nodes of the inputs are arguments; the others are literals, or what nobody can use, and baked in.
        self.positions, self.baked = positions, baked
        self.sizes = [inputs.nodes[position].size for position in positions]
        #: Whether it is known that it is good for other sizes; ``None``: nobody has tried.
        self.general: bool | None = None
        #: Whether it is known that it is good for other sizes that follow from contents.
        self.settled: bool | None = None if recording.reads else True
        self.derivatives: dict[int, core.Recording] = {}
        #: Why there are none, by modes.
        self.failures: dict[int, str] = {}
        self.words = inputs.words()
        self.parts = inputs.parts
        #: Questions, with answers, about functions that keep their results, as they are after this call.
        self.kept = inputs.kept()
        self.use()
        self.hits = 0

    def use(self) -> None:
        """It is the one that was used last."""
        global _uses
        _uses += 1
        self.used = _uses

    def derivable(self, nodes: Sequence[core.Node], arguments: list[core.Node], results: Sequence[core.Node]) -> bool:
        """Whether its derivatives are good for a call, too."""
        seeds = {BACKWARD: [results[slot] for slot in self.outcome.diff],
                 FORWARD_MODE: [*[primal(node) for node in nodes if vertex_of(node) is not None],
                                *self.outcome.variables_among(results)]}
        return not [mode for mode, recording in self.derivatives.items()
                    if isinstance(recording.terms([*arguments, *seeds[mode]]), str)]

    def is_like(self, other: Entry) -> bool:
        """Whether another recording, for other sizes, launches the same."""
        return self.outcome.is_like(other.outcome) and self.recording.is_like(other.recording) and \
            self.derivatives.keys() == other.derivatives.keys() and \
            all(each.is_like(other.derivatives[mode]) for mode, each in self.derivatives.items())


_write: Callable[[Frozen, str], None]


def write_with(write: Callable[[Frozen, str], None]) -> None:
    """Who writes files tells how."""
    global _write
    _write = write


class Frozen:
    """A function that is traced once for each kind of arguments, and launched again by later calls.

    See :func:`freeze`.
    """

    def __init__(self, function: Any, state_fn: Callable[..., Any] | None, limit: int | None,
                 warn_after: int, backend: JitBackend | None, auto_opaque: bool, enabled: bool,
                 dynamic: tuple[str, ...] | None = ()) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function: Callable[..., Any] = function
        self._name = getattr(function, "__name__", type(function).__name__)
        self._state_fn, self._warn_after, self._backend = state_fn, warn_after, backend
        self._limit = None if limit is None or limit < 0 else limit
        self._auto_opaque = auto_opaque
        self._dynamic = dynamic or ()
        #: Where numbers are, beside parameters, that arrays stand for.
        self._routes: tuple[Route, ...] = ()
        #: How often numbers have been the only thing that was different, by parameters; ``None``: nobody counts.
        self._changes: dict[str, int] | None = None if dynamic is None else {}
        self.enabled = enabled
        self._entries: dict[Any, list[Entry]] = {}
        #: Literals that have turned out to differ, by what is known of all arrays.
        self._opaque: dict[Any, set[int]] = {}
        self._recordings = 0
        #: How calls are recognised, the last one first; one for each recording.
        self._plans: list[Plan] = []
        #: What has been loaded from a file: there is no function that could be recorded.
        self._loaded: Any = None

    # What the functions that look at what others know see of it.
    @property
    def __func__(self) -> Callable[..., Any]:
        return self._function

    __self__ = None

    @property
    def f(self) -> Callable[..., Any]:
        """The function that is frozen."""
        return self._function

    @property
    def n_recordings(self) -> int:
        """How many times the function has been recorded."""
        return self._recordings

    @property
    def n_cached_recordings(self) -> int:
        """How many recordings there are."""
        return sum(map(len, self._entries.values()))

    def clear(self) -> None:
        """Forget all recordings, and set both counts to zero."""
        self._entries, self._opaque, self._recordings = {}, {}, 0
        self._plans = []

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__" or name == "_function":
            raise AttributeError(name)
        return getattr(self._function, name)

    def __get__(self, instance: Any, owner: type | None) -> Any:
        return self if instance is None else _Bound(self, instance)

    def __copy__(self) -> Frozen:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"drjit.freeze(): the frozen function {self._name}() cannot be pickled or copied deeply, since "
                        "its recordings are those of this process; save() writes them to a file.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._called(args, kwargs)

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state = current()
        if not self.enabled or self._limit is not None and self._limit == 0 or not state.flags & _FREEZING or \
                state.recording is not None or state.region is not None or not in_plain_code():
            return self._function(*args, **kwargs)
        if self._dynamic:
            args, kwargs = self._with_arrays(args, kwargs)
        found = None if self._state_fn is None else self._state_of(args, kwargs)
        plans = self._plans
        if plans:
            tree = [args, kwargs, found]
            scope = state.derivatives
            count = len(plans)
            if count > _MOST_PLANS and self._loaded is None:
                count = _MOST_PLANS
            for number in range(count):
                plan = plans[number]
                if plan.scope is None if scope is None else plan.scope is scope.records:
                    known = plan.match(tree)
                    if known is not None:
                        entry = plan.entry
                        results = self._launched(entry, known)
                        if results is not None:
                            entry.use()
                            entry.hits += 1
                            if number:  # which is tried first, next time
                                self._plans = [plan, *[other for other in plans if other is not plan]]
                            return self._applied(entry, known, results)
        if self._loaded is not None:
            return self._loaded.call(self, args, kwargs)
        inputs = self._looked_at(args, kwargs, found)
        tried: list[Entry] = []
        anew: Entry | None = None
        while True:
            entry, values, arguments = self._look_up(inputs, tried)
            if entry is None:
                return self._record(inputs)
            if values is None:
                confirmed = self._confirm(entry, inputs)
                if confirmed is None:
                    continue
                entry, anew, results = confirmed
                break
            with evaluation_lock:  # between the question and the launches, the number of threads stays the same
                results = entry.recording.run(arguments, values, not entry.settled)
            if results is not None:
                break
            if entry.settled is None:
                self._settle(entry, inputs)
            else:
                inputs.reason = core.UNLIKE_CONTENTS
                tried.append(entry)
        if entry.derivatives and not entry.derivable(inputs.nodes, arguments, results):
            if anew is None:
                return self._record(inputs)
            self._recordings += 1
            self._enter(inputs, anew, entry)
            return self._finish(anew, inputs, results)
        entry.use()
        entry.hits += 1
        self._plan(entry, inputs)
        return self._applied(entry, inputs, results)

    def _state_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What ``state_fn`` returns."""
        assert self._state_fn is not None
        try:
            return self._state_fn(*args, **kwargs)
        except Exception as error:
            error.add_note(f"(This happened in 'state_fn' of the frozen function {self._name}(), which is given the "
                           "arguments of the call.)")
            raise passed_on(error)  # noqa: B904

    def _looked_at(self, args: tuple[Any, ...], kwargs: dict[str, Any], found: Any) -> Inputs:
        """What a call depends on."""
        inputs = Inputs(self._function, args, kwargs, found, self._routes)
        self._require_backend(inputs)
        inputs.evaluate(not self._auto_opaque)
        self._complete(inputs)
        return inputs

    def _launched(self, entry: Entry, found: Found) -> list[core.Node] | None:
        """What a recording computes for a call, if it is good for that."""
        arguments = found.arguments
        results: list[core.Node] | None = entry.recording.launch(arguments, None if entry.general else entry.sizes,
                                                                 not entry.settled)
        if results is None:
            return None
        return None if entry.derivatives and not entry.derivable(found.nodes, arguments, results) else results

    def _plan(self, entry: Entry, inputs: Inputs) -> None:
        """Let calls like this one be recognised; in the place of those that led to this recording before."""
        plan = Plan.of(inputs, entry, self._context())
        if plan is not None:
            self._plans = [plan, *[other for other in self._plans if other.entry is not entry]]

    def _with_arrays(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with arrays of one element in the place of numbers that may change from call to call."""
        bound = inspect.signature(self._function).bind(*args, **kwargs)
        values = list(bound.arguments.values())
        for name in self._dynamic:
            number = real_number(bound.arguments.get(name))
            array = None if number is None else array_of_number(values, number)
            if array is not None:
                bound.arguments[name] = array
        return bound.args, bound.kwargs

    # --- which recording ----------------------------------------------------------------------------------------------

    def _require_backend(self, inputs: Inputs) -> None:
        """Refuse calls without arrays, and those of another backend."""
        where = {array._where for array in inputs.arrays
                 if not _belongs_nowhere(array) and inputs.number_at(array) is None}
        if len(where) > 1:
            names = " and ".join([f"'{JitBackend(bit).name}'" for bit in sorted(where)])
            raise RuntimeError(f"drjit.freeze(): {self._name}() has arrays of the backends {names}: "
                               "it is recorded for one. Freeze what computes with each by itself.")
        if self._backend is None:
            if not inputs.arrays:
                _require_arguments(self._function, *inputs.tree[:2])
                raise RuntimeError(
                    f"drjit.freeze(): {self._name}() was called with no arrays of a backend that compiles among its "
                    "arguments, what 'state_fn' returns, and what it refers to. Pass some, or say 'backend=…'.")
            return
        if not core.has_backend(self._backend):
            raise RuntimeError(f"drjit.freeze(): the backend {self._backend} is not available on this machine: "
                               f"{core.missing_backend(self._backend)}.")
        if self._backend is not JitBackend.Invalid and where - {self._backend.value}:
            raise RuntimeError(f"drjit.freeze(): {self._name}() was frozen for the backend {self._backend}, and is "
                               "given arrays of another one.")

    def _where(self, inputs: Inputs) -> int:
        """The backend that a call is for, as a bit."""
        for array in inputs.arrays:
            if inputs.number_at(array) is None:
                return int(array._where)
        return 0 if self._backend is None else self._backend.value

    def _complete(self, inputs: Inputs) -> None:
        """Let the key of a call have what is around it, and which of its evaluated inputs are literals, or nobody can
        use."""
        inputs.key = inputs.key, self._context(), tuple([
            _UNUSABLE if core.is_unusable(node) else node.kind == _LITERAL for node in map(primal, inputs.nodes)])

    def _look_up(self, inputs: Inputs, tried: Sequence[Entry] = (), asked: bool = False) -> tuple[
            Entry | None, Any, list[core.Node]]:
        """A recording that is good for a call, with the values of its expressions and its arguments, but for those that
        have been tried; without values if sizes are others for the first time. If that is only ``asked``, nothing
        changes."""
        nodes = [primal(node) for node in inputs.nodes]
        key = inputs.key
        entries = self._entries.get(key)
        if not entries:
            return None, None, []
        opaque = self._opaque.get(inputs.described, set())
        for entry in sorted(entries, key=lambda each: -each.used):
            if entry in tried:
                continue
            if any(read() != value for read, value in entry.kept):
                inputs.reason = "a function that keeps its results has forgotten some"
                continue
            arguments = [nodes[position] for position in entry.positions]
            if any(_constant(nodes[position]) != constant for position, constant in entry.baked.items()):
                continue
            arguments += _gradients(inputs.nodes)
            if core.pattern_of(arguments, self._where(inputs)) != entry.pattern:
                inputs.reason = inputs.reason or "which arrays share memory, sizes 0 and 1, alignment, or flags differ"
                continue
            sizes = [nodes[position].size for position in entry.positions]
            if sizes != entry.sizes and entry.general is False:
                inputs.reason = "sizes are used as numbers"
                continue
            values = entry.recording.terms(arguments)
            if isinstance(values, str):
                inputs.reason = "what there is was recorded where " + of_places(values, entry.positions, inputs.path_of)
                continue
            if sizes != entry.sizes and entry.general is None:
                return entry, None, arguments
            return entry, values, arguments
        if not asked:
            last = max(entries, key=lambda each: each.used).baked
            opaque |= {position for position, constant in last.items() if _constant(nodes[position]) != constant}
            if opaque:
                self._opaque[inputs.described] = opaque
        return None, None, []

    def _confirm(self, entry: Entry, inputs: Inputs) -> tuple[Entry, Entry | None, list[core.Node]] | None:
        """Trace the function for other sizes, too: if it launches the same, it does so for all that satisfy the guards.

        A number that was computed from a size would be another one. Returns the recording that is good for the call,
        the one that was made anew if that is another, and the results; ``None`` if another thread has done it.
        """
        with _recording:
            if entry.general is not None:
                return None
            other, results = self._recorded(inputs, entry.baked)
            entry.general = entry.is_like(other)
            if entry.general:
                if entry.settled is None and entry.recording.reads != other.recording.reads:
                    entry.settled = True
                return entry, other, results
            other.general = False
            self._recordings += 1
            inputs.reason = "sizes are used as numbers"
            self._enter(inputs, other, entry)
            return other, None, results

    def _settle(self, entry: Entry, inputs: Inputs) -> None:
        """Find out whether a recording is good for any sizes that follow from contents, when they differ first."""
        with _recording:
            if entry.settled is not None:
                return
            other, _ = self._recorded(inputs, entry.baked)
            entry.settled = entry.is_like(other)
            if not entry.settled:
                other.settled = False
                self._recordings += 1
                inputs.reason = core.UNLIKE_CONTENTS
                self._enter(inputs, other, entry)

    def _context(self) -> Any:
        scope = core.state.derivatives
        return None if scope is None else scope.records

    # --- recording ----------------------------------------------------------------------------------------------------

    def _record(self, inputs: Inputs) -> Any:
        with _recording:
            now = inputs.words()
            previous = min((each for group in self._entries.values() for each in group),
                           key=lambda each: (distance(each.words, now), -each.used), default=None)
            names = [] if previous is None else self._varying(inputs, previous)
            if names and previous is not None:
                changed = self._record_opaque(inputs, names, previous)
                if changed is not None:
                    return self._finish(*changed)
            self._recordings += 1
            try:
                entry, results = self._recorded(inputs, self._constants(inputs))
            except Exception:
                if not self._routes:
                    raise
                # perhaps because numbers are arrays: then they are none any more
                self._routes = ()
                args, kwargs, found = inputs.tree
                inputs = self._looked_at(args, kwargs, found)
                entry, results = self._recorded(inputs, self._constants(inputs))
            self._enter(inputs, entry, previous)
        return self._finish(entry, inputs, results)

    def _constants(self, inputs: Inputs) -> dict[int, Any]:
        """The literals that are built into a recording, and what nobody can use."""
        opaque = {*self._opaque.get(inputs.described, ()), *inputs.numbers()}
        return {position: _constant(primal(node)) for position, node in enumerate(inputs.nodes)
                if core.is_unusable(primal(node)) or
                self._auto_opaque and primal(node).kind == _LITERAL and position not in opaque}

    def _finish(self, entry: Entry, inputs: Inputs, results: list[Any]) -> Any:
        self._plan(entry, inputs)
        return self._applied(entry, inputs, results)

    def _enter(self, inputs: Inputs, entry: Entry, before: Entry | None) -> None:
        """Keep a recording; the one that was used least recently goes."""
        self._entries.setdefault(inputs.key, []).append(entry)
        if self._limit is not None:
            while self.n_cached_recordings > self._limit:
                oldest, group = min(((each, group) for group in self._entries.items() for each in group[1]),
                                    key=lambda pair: pair[0].used)
                group[1].remove(oldest)
                self._plans = [plan for plan in self._plans if plan.entry is not oldest]
                if not group[1]:
                    del self._entries[group[0]]
        if before is not None and self._recordings > max(1, self._warn_after):
            _log.warning("drjit.freeze(): %s() was recorded again (%d recordings)%s: %s.", self._name,
                         self._recordings, at_line(), difference(before.words, entry.words, inputs.reason))

    # --- numbers that change ------------------------------------------------------------------------------------------

    def _varying(self, inputs: Inputs, previous: Entry) -> list[str]:
        """The paths of numbers that are, for the second time, the only things that are different."""
        if self._changes is None:
            return []
        paths = only_differences(previous.words, inputs.words())
        names = [parameter_at(self._function, inputs.tree, path) for path in paths]
        if any(name in self._dynamic or name is None and inputs.route_to(path, True) is None
               for name, path in zip(names, paths, strict=True)) or paths and inputs.asks_for_types():
            return []
        for path in paths:
            self._changes[path] = self._changes.get(path, 0) + 1
        return paths if any(self._changes[path] == _CHANGES for path in paths) else []

    def _record_opaque(self, inputs: Inputs, paths: list[str], previous: Entry) -> tuple[
            Entry, Inputs, list[Any]] | None:
        """Record with an array in the place of a number that changes, if the function does the same with that; or with
        numbers that the recording computes with, whatever the function does with these."""
        name = parameter_at(self._function, inputs.tree, paths[0])
        if len(paths) == 1:
            route = inputs.route_to(paths[0])
            changed = None
            if name is not None:
                changed = self._tried(inputs, previous, (*self._dynamic, name), self._routes)
            elif route is not None:
                changed = self._tried(inputs, previous, self._dynamic, (*self._routes, route))
            if changed is not None:
                if name is not None:
                    _log.warning("drjit.freeze(): %s() was called with a third value of %r, which is passed as an "
                                 "array of one element from now on, as dynamic=(%r,) says%s.", self._name, name, name,
                                 at_line())
                else:
                    _log.warning("drjit.freeze(): %s() was called with a third value of %s, which is an array of one "
                                 "element for it from now on%s.", self._name, paths[0], at_line())
                return changed
        routes = {path: route for path in paths if (route := inputs.route_to(path, True)) and route[2] is not None}
        if not routes:
            return None
        changed = self._tried(inputs, previous, self._dynamic, (*self._routes, *routes.values()))
        if changed is not None:
            assert self._changes is not None
            for path in paths:
                if path not in routes:  # a number of NumPy's, which may be the only thing that is different next time
                    del self._changes[path]
            _log.warning("drjit.freeze(): %s() was called with a third value of %s, which may be any number from now "
                         "on, unless something is decided by it%s.", self._name, " and ".join(routes), at_line())
        return changed

    def _tried(self, inputs: Inputs, previous: Entry, dynamic: tuple[str, ...], routes: tuple[Route, ...]) -> tuple[
            Entry, Inputs, list[Any]] | None:
        """Record with some numbers in another form, if the function does the same with that."""
        args, kwargs, found = inputs.tree
        before = self._dynamic, self._routes, self._recordings
        self._dynamic, self._routes = dynamic, routes
        try:
            if dynamic != before[0]:
                args, kwargs = self._with_arrays(args, kwargs)
            changed = self._looked_at(args, kwargs, found)
            if len(changed.arrays) == len(inputs.arrays):
                raise TypeError("there is no array that says what they are")
            self._recordings += 1
            entry, results = self._recorded(changed, self._constants(changed))
            if len(routes) > len(before[1]) and routes[-1][2] is not None:
                if entry.recording.pins_values:
                    raise TypeError("each value would have a recording")
            elif entry.outcome.outline() != previous.outcome.outline():
                raise TypeError("results would be others")
        except Exception:  # they have to be numbers
            self._dynamic, self._routes, self._recordings = before
            return None
        self._enter(changed, entry, None)
        return entry, changed, results

    # --- files --------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recordings to a file, with their kernels: :func:`drjit.load_frozen` makes a function of it that
        replays them in another process, which traces and compiles nothing.

        What the function knows itself (variables of modules and enclosing functions, default values) is fixed as it is
        now, arrays included. Calls must be like those that have been recorded; sizes may be others if they have been
        others before. There must be nothing in arguments and results that another process cannot have or make: results
        are arrays, numbers and texts, in tuples, lists and dictionaries; arguments may be objects, if the process knows
        a class of the same name. Raises a ``RuntimeError`` that says what is in the way, and where, and an ``OSError``
        if the file cannot be written; then what was there before is still there.

        The file holds native code, is for processors that can do what this one can, and for this version of the
        package. Only its owner may write to it.

        >>> import tempfile
        >>> from drjit.llvm import Float
        >>> f = dr.freeze(lambda x: dr.sum(x * 2))
        >>> f(Float(1, 2, 3)), f(Float(1, 2))
        ([12], [6])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     f.save(f"{folder}/f.frozen")
        ...     g = dr.load_frozen(f"{folder}/f.frozen")
        >>> g(Float(4, 5, 6, 7))
        [44]
        """
        with _recording:
            _write(self, os.fspath(path))

    # --- what is known ------------------------------------------------------------------------------------------------

    @property
    def recordings(self) -> list[RecordingInfo]:
        """What there is, the one that was used last first: see :class:`RecordingInfo`."""
        return [RecordingInfo(dict(each.words), each.general is not False, each.recording.kernels,
                              each.recording.launches, sum([each.recording.kept_bytes, *(
                                  other.kept_bytes for other in each.derivatives.values())]), each.hits)
                for each in self._by_use()]

    def _by_use(self) -> list[Entry]:
        return sorted([each for group in list(self._entries.values()) for each in group], key=lambda each: -each.used)

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """What a call would do, and why. (The arguments are evaluated; nothing else happens.)"""
        state = current()
        for reason, holds in (("'enabled' is False", not self.enabled), ("'limit' is 0", self._limit == 0),
                              ("JitFlag.KernelFreezing is not set", not state.flags & _FREEZING),
                              ("something is being recorded", state.recording is not None),
                              ("this is within a loop, branch or call", not in_plain_code())):
            if holds:
                return f"{self._name}() would be called as it is: {reason}."
        if self._dynamic:
            args, kwargs = self._with_arrays(args, kwargs)
        if self._loaded is not None:
            return str(self._loaded.explain(self, args, kwargs))
        inputs = self._looked_at(args, kwargs, None if self._state_fn is None else self._state_of(args, kwargs))
        entry, values, _ = self._look_up(inputs, asked=True)
        entries = self._by_use()
        if entry is not None:
            what = f"recording {entries.index(entry) + 1} of {len(entries)}: {entry.recording.launches} launches"
            return f"{self._name}() would replay {what}." if values is not None else \
                f"{self._name}() would be traced once more, since sizes differ for the first time: if it launches " \
                f"the same, it replays {what}."
        if not entries:
            return f"{self._name}() would be recorded: there is no recording."
        now = inputs.words()
        nearest = min(entries, key=lambda each: distance(each.words, now))
        return f"{self._name}() would be recorded again: {difference(nearest.words, now, inputs.reason)}."

    def _recorded(self, inputs: Inputs, baked: dict[int, Any]) -> tuple[Entry, list[core.Node]]:
        """Call the function, and record what it launches; objects are as before afterwards. Returns the results, too.
        """
        inputs.begin()
        positions = [position for position in range(len(inputs.nodes)) if position not in baked]
        arguments = [primal(inputs.nodes[position]) for position in positions] + _gradients(inputs.nodes)
        outcomes: list[Outcome] = []
        recording, found = self._traced(inputs, positions, arguments, 0, outcomes)
        outcome = outcomes[0]
        entry = Entry(recording, outcome, inputs, positions, baked)
        if any(outcome.groups):
            like = [*[node for node in inputs.nodes if vertex_of(node) is not None], *outcome.variables_among(found)]
            for mode, shaped in ((BACKWARD, [found[slot] for slot in outcome.diff]), (FORWARD_MODE, like)):
                seeds = [core.opaque(literal(primal(node).type, 0, node.size), inputs.arrays[0]._where)
                         for node in shaped]
                try:
                    entry.derivatives[mode], _ = self._traced(inputs, positions, [*arguments, *seeds], mode, [],
                                                              len(seeds))
                except Exception as error:  # of use to those only who ask for this mode
                    entry.failures[mode] = str(error)
        outcome.settle()
        return entry, found

    def _traced(self, inputs: Inputs, positions: Sequence[int], arguments: Sequence[core.Node], mode: int,
                outcomes: list[Outcome], seeds: int = 0) -> tuple[core.Recording, list[core.Node]]:
        """Record the function, or a traversal of its graph."""
        shapes = inputs.shapes()
        kwargs = inputs.tree[1]
        done: list[None] = []

        def body(*actuals: core.Node) -> list[core.Node]:
            given = [primal(node) for node in inputs.nodes]
            for position, actual in zip(positions, actuals, strict=False):
                given[position] = actual
            gradients = iter(actuals[len(positions):])
            before: list[core.Node | None] = []
            suspended: list[int] = []
            leaves: dict[int, Vertex] = {}
            for position, node in enumerate(inputs.nodes):
                vertex = vertex_of(node)
                before.append(None)
                if vertex is not None:
                    leaf = leaves.get(id(vertex))
                    if leaf is None:
                        leaf = leaves[id(vertex)] = Vertex(LEAF, vertex.type, vertex.size)
                        if tracked(node) is None:
                            suspended.append(leaf.id)
                        if vertex.gradient is not None:
                            leaf.gradient = before[-1] = next(gradients)
                    given[position] = dual(given[position], leaf)
            inputs.give(given)
            found = inputs.install()
            state = current()
            acting, state.acting = state.acting, True  # statements that print or assert do so in each replay
            outer, scope = state.derivatives, None
            if suspended:
                state.derivatives = core.Scope.suspended(outer, suspended)
            if leaves:  # traversals go on outside when the call ends
                scope = state.derivatives = core.Scope.isolating(state.derivatives)
            try:
                with core.scoped_set_flag(JitFlag.FreezingScope, True):
                    result = self._function(*found, **kwargs)
                if state.queued or state.boundary:
                    raise RuntimeError("drjit.freeze(): the function calls drjit.enqueue(), and leaves the traversal "
                                       "to its caller, which calls that replay it could not do. Traverse inside, too.")
            finally:
                state.derivatives, state.acting = outer, acting
                statements, state.statements = state.statements, []
            outcome = Outcome(inputs, given, result, statements)
            if not mode:
                outcome.note_gradients(given, before, () if scope is None else scope.postponed, state.recording)
            inputs.roll_back(shapes)  # what the caller's arrays hold would have to be copied when the recording ends
            done.append(None)
            if not mode:
                outcomes.append(outcome)
                return outcome.nodes
            variables = [*[vertex for node in given if (vertex := vertex_of(node)) is not None], *outcome.variables()]
            return traversed(mode, variables, outcome.vertices, actuals[len(actuals) - seeds:])

        state = current()
        queue = state.queued, state.queue, state.boundary
        state.queued, state.queue, state.boundary = [], 0, []
        try:
            return core.record(body, arguments, (), True, self._where(inputs))
        except Exception as error:
            error.add_note(f"(This happened while the frozen function {self._name}() was recorded.)")
            raise passed_on(error)  # noqa: B904
        finally:
            state.queued, state.queue, state.boundary = queue
            if not done:
                inputs.roll_back(shapes)

    # --- after a call -------------------------------------------------------------------------------------------------

    def _applied(self, entry: Entry, inputs: Inputs | Found, results: list[core.Node]) -> Any:
        """Return what a call has computed, and do to objects what it did."""
        outcome = entry.outcome
        if outcome.started or outcome.reached:
            self._require_apart(outcome, inputs)
        if outcome.statements:
            outcome.act(results)
        begun = outcome.begin(results) if outcome.starts else _NOTHING
        outputs = self._followed(entry, inputs, results, begun) if outcome.diff else _NOTHING
        if begun:
            outcome.remember(begun, inputs.nodes, outputs)
        found = outcome.apply(inputs, results, outputs, begun)
        if outcome.gradients:
            self._let_flow(entry, inputs, results)
        return found

    def _followed(self, entry: Entry, inputs: Inputs | Found, results: list[core.Node], begun: list[Any]) -> list[
            core.Node]:
        """The results that depend on variables, such that derivatives can follow."""
        outcome = entry.outcome
        given = [primal(inputs.nodes[position]) for position in entry.positions] + _gradients(inputs.nodes)
        variables: dict[int, Vertex] = {position: vertex for position, node in enumerate(inputs.nodes)
                                        if (vertex := vertex_of(node)) is not None}
        variables.update({-1 - number: vertex for number, vertex in enumerate(begun)
                          if vertex is not None and vertex.rule is LEAF})
        numbers = {position: number for number, position in enumerate(variables)}
        nodes = [results[slot] for slot in outcome.diff]
        types = {BACKWARD: [(node.type, node.size) for node in nodes],
                 FORWARD_MODE: [(vertex.type, vertex.size) for vertex in variables.values()]}
        outputs = list(nodes)
        needed_by_all = set[int]().union(*outcome.groups)
        again = Again(self, inputs.containers[0], inputs.nodes, needed_by_all, entry.parts, len(nodes),
                      self._routes) if not (outcome.gradients or outcome.started or outcome.reached or
                                            min(needed_by_all, default=0) < 0) else None
        for needed, numbered in outcome.groups.items():
            own = [nodes[number] for number in numbered]
            if needed:
                call = Call(self._name, given, types, ([numbers[position] for position in needed], numbered),
                            [variables[position] for position in needed], own, entry.derivatives, entry.failures, again,
                            self._loaded is None)
                own = call.followed(own)
            else:  # on what nobody sees
                own = [dual(node, Vertex(_IDENTITY, node.type, node.size, Vertex(LEAF, node.type, node.size)))
                       for node in own]
            for number, node in zip(numbered, own, strict=True):
                outputs[number] = node
        for node, slot in zip(outputs, outcome.received, strict=True):
            if slot >= 0:
                _vertex_at(node).gradient = results[slot]
        return outputs

    def _let_flow(self, entry: Entry, inputs: Inputs | Found, results: Sequence[core.Node]) -> None:
        """Give inputs the gradients that the function has computed, and what these depend on."""
        inner: list[Vertex] = []
        for position, slot, flows in entry.outcome.gradients:
            vertex = _vertex_at(inputs.nodes[position])
            vertex.gradient = None if slot < 0 else results[slot]
            if flows and vertex.rule is not LEAF:
                inner.append(vertex)
        if inner:
            core.go_on(inner)

    def _require_apart(self, outcome: Outcome, inputs: Inputs | Found) -> None:
        """Refuse calls in which derivatives that the function lets flow would have to take a way outside of it."""
        positions: dict[int, int] = {}
        for position, node in enumerate(inputs.nodes):
            if (vertex := vertex_of(node)) is not None:
                positions.setdefault(vertex.id, position)
        started = {_vertex_at(inputs.nodes[position]).id for position in outcome.started}
        for position in dict.fromkeys([*outcome.reached, *(positions.values() if started else ())]):
            for ancestor in core.ancestors(_vertex_at(inputs.nodes[position])):
                if ancestor.id not in started and (position not in outcome.reached or ancestor.gradient is None):
                    continue
                args, kwargs, further = inputs.containers[0]
                known = Inputs(self._function, args, kwargs, further, self._routes)
                where = known.path_of(positions[ancestor.id]) if ancestor.id in positions else "something else"
                what = "" if ancestor.id in started else ", which has a gradient"
                raise RuntimeError(
                    f"drjit.freeze(): {self._name}() lets derivatives flow by way of {known.path_of(position)}, which "
                    f"depends on {where}{what}: calls that replay it know nothing of what has been computed outside. "
                    f"Compute {known.path_of(position)} in the frozen function, use drjit.detach(), or let derivatives "
                    "flow outside.")


look_through(Frozen)


class _Bound:
    """A frozen method of an object; all objects share recordings."""

    __slots__ = ("__self__", "_frozen")

    def __init__(self, frozen: Frozen, instance: Any) -> None:
        object.__setattr__(self, "_frozen", frozen)
        object.__setattr__(self, "__self__", instance)

    @property
    def __func__(self) -> Any:
        return self._frozen

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._frozen(self.__self__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in _Bound.__slots__:  # of an object that has not begun
            raise AttributeError(name)
        return getattr(self._frozen, name)

    def __reduce__(self) -> Any:
        return getattr, (self.__self__, self._frozen.__name__)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._frozen, name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bound) and self._frozen is other._frozen and self.__self__ is other.__self__

    def __hash__(self) -> int:
        return hash((id(self._frozen), id(self.__self__)))


look_through(_Bound)
_Bound.__doc__ = property(lambda self: self._frozen.__doc__)  # type: ignore[assignment]


def _require_arguments(function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Raise as a call would that gives too few arguments, or too many."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # nobody knows
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{getattr(function, '__name__', 'the frozen function')}(): {error}.") from None


def _belongs_nowhere(array: Any) -> bool:
    """Whether an array goes with those of any backend, although it is in memory."""
    return all(primal(node).kind == _EVALUATED and not primal(node).where for node in array._nodes())


def _vertex_at(node: core.Node) -> Vertex:
    """The vertex of a node that has one."""
    vertex = vertex_of(node)
    assert vertex is not None
    return vertex


def _constant(node: core.Node) -> Any:
    """The value and size of a literal, or what is said of something that nobody can use, as a key."""
    return node.type, node.payload, node.size


def _gradients(nodes: Sequence[core.Node]) -> list[core.Node]:
    """The gradients that inputs have."""
    vertices = {id(vertex): vertex for node in nodes if (vertex := vertex_of(node)) is not None}
    found = [primal(vertex.gradient) for vertex in vertices.values() if vertex.gradient is not None]
    if found:
        core.evaluate(found)
    return found
