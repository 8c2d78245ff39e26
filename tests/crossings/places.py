"""Places: where an array is touched, and what that must give.

The runners take a state and touches, and return for each touch in words what went wrong; the empty string if nothing
did. In loops, lanes take 2, 0, 3 and 1 iterations by turns, so that from the first iteration on some have finished.
Branches and calls are taken by the lanes that take an iteration at least. *Nested* is a loop in a branch in a loop,
*compressed* a loop that removes lanes which have finished.
Arrays are *carried* by a construct (a state variable) or *captured* (made outside, used inside). Whatever is raised, by
a touch, its model, or by reading what it has made, is caught here: the runner reports it, unless it was to be expected.
"""

from __future__ import annotations

import operator
import os
import queue
import re
import select
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import drjit as dr
from drjit import llvm

from .model import Array, Host, Operands, Typed, describe, difference
from .states import Sample, State
from .touches import Touch

__all__ = ["NOT_ONE", "PLACES", "Refusal", "isolated"]


@dataclass(frozen=True)
class Refusal:
    """A cell that must raise: the exception's types, a pattern of its message, and why.

    Without types, it must give a text that has the pattern instead.
    """

    errors: tuple[type[Exception], ...]
    pattern: str
    reason: str

    def judge(self, error: Exception | None, found: Any = None) -> str:
        """In words what is wrong with an error, or with its absence."""
        if not self.errors:
            if error is not None:
                return f"{_shown(error)}; expected a text with {self.pattern!r} ({self.reason})"
            return "" if isinstance(found, str) and re.search(self.pattern, found) else \
                f"found {describe(found)}, expected a text with {self.pattern!r} ({self.reason})"
        expected = f"expected {' or '.join(e.__name__ for e in self.errors)} that says {self.pattern!r}"
        if error is None:
            return f"no error; {expected} ({self.reason})"
        if not isinstance(error, self.errors) or not re.search(self.pattern, str(error)):
            return f"{_shown(error)}; {expected} ({self.reason})"
        return ""


#: What a cell must do: raise, or (None) give the model's values.
Expected = Callable[[Touch], Refusal | None]
Failures = dict[str, str]


def _shown(error: BaseException) -> str:
    return f"raised {type(error).__name__}: {' '.join(str(error).split())[:220]}"


def _operands(touch: Touch, sample: Sample) -> Operands:
    """Operands for a touch; an array of one element meets wide operands where that is possible."""
    probe = Operands(sample.array, sample.value, sample.value.shape[-1] if sample.value.shape else 1)
    count = sample.value.size if probe.tensor else probe.count
    wide = touch.room(probe.kind) in ("lanes", "inplace") and count == 1 and not probe.tensor
    return Operands(sample.array, sample.value, 4 if wide else count)


def _model(touch: Touch, sample: Sample, o: Operands) -> tuple[Any, Array, Exception | None]:
    """The model's result, the model of the array afterwards, and an error of an index that does not exist."""
    model = sample.value.copy()
    if touch.room(o.kind) == "inplace" and not o.tensor:
        model = np.array(np.broadcast_to(model, o.shape))
    try:
        return touch.model(model, o), model, None
    except IndexError as error:
        return None, sample.value.copy(), error


_BEYOND = Refusal((IndexError,), "out of bounds", "the element does not exist")
NOT_ONE = Refusal((TypeError, RuntimeError), r"exactly 1 element|one element|1 element", "a number has one element")


def _observer_room(touch: Touch, kind: str) -> str:
    """The room as far as it matters to views: a write to an array that is being read works on a copy."""
    return "inplace" if touch.holds else touch.room(kind)


def touch_plainly(touch: Touch, sample: Sample, refusal: Refusal | None) -> str:
    """Touch an array and compare everything that can be seen."""
    o = _operands(touch, sample)
    expected, after, failed = None, sample.value, None
    if refusal is None:
        try:
            expected, after, failed = _model(touch, sample, o)
        except Exception as caught:
            return f"the model {_shown(caught)}"
        if failed is not None:
            refusal = _BEYOND
    found, error = None, None
    try:
        found = touch.act(sample.array, o)
    except Exception as caught:
        error = caught
    try:
        problem = ""
        if refusal is not None:
            problem = refusal.judge(error)
        elif error is not None:
            problem = _shown(error)
        elif expected is not None or found is not None:
            problem = difference(found, expected, loose=not o.tensor)
        if problem:
            return problem
        if problem := difference(sample.array, Typed(o.type, after), loose=not o.tensor):
            return f"afterwards, the array: {problem}"
        if problem := sample.observe(sample.value, after, _observer_room(touch, o.kind)):
            return f"afterwards, {problem}"
        return ""
    except Exception as caught:  # what was computed cannot be read
        return f"afterwards, reading {_shown(caught)}"


# --- places without loops --------------------------------------------------------------------------------------------


def plainly(state: State, touches: Iterable[Touch], expected: Expected) -> Failures:
    """Where arrays are made."""
    return {touch.name: touch_plainly(touch, state.make(), expected(touch)) for touch in touches}


def in_thread(state: State, touches: Iterable[Touch], expected: Expected) -> Failures:
    """In another thread than the one that made the arrays."""
    samples = {touch.name: (touch, state.make()) for touch in touches}
    failures: Failures = {}

    def work() -> None:
        for name, (touch, sample) in samples.items():
            failures[name] = touch_plainly(touch, sample, expected(touch))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return failures


def isolated(names: Iterable[str], work: Callable[[str], str], seconds: float = 60) -> Failures:
    """Do work by name in forked children; a child that dies, or hangs, is what went wrong with the name it was at."""
    left, failures = list(names), {}
    while left:
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer versions of Python warn of threads
            child = os.fork()
        if not child:
            os.close(reading)
            try:
                with os.fdopen(writing, "w", encoding="utf-8") as pipe:
                    for name in left:
                        pipe.write(f"{name}\t{' '.join(work(name).split())}\n")
                        pipe.flush()
            finally:
                os._exit(0)
        os.close(writing)
        text, deadline = b"", time.monotonic() + seconds
        while time.monotonic() < deadline and select.select([reading], [], [], max(deadline - time.monotonic(), 0))[0]:
            part = os.read(reading, 1 << 16)
            if not part:
                break
            text += part
        else:
            os.kill(child, 9)
        os.close(reading)
        _, status = os.waitpid(child, 0)
        for line in text.decode().splitlines():
            name, _, failure = line.partition("\t")
            failures[name] = failure
            left.remove(name)
        if left:
            code = os.waitstatus_to_exitcode(status)
            failures[left.pop(0)] = f"the process died (signal {-code})" if code else "the process ended"
    return failures


def in_fork(state: State, touches: Iterable[Touch], expected: Expected) -> Failures:
    """In a forked child; the arrays were made by the parent, which must not see what the child does."""
    samples = {touch.name: (touch, state.make()) for touch in touches}
    failures = isolated(samples, lambda name: touch_plainly(*samples[name], expected(samples[name][0])))
    for name, (_, sample) in samples.items():
        if not failures[name] and (problem := difference(sample.array, sample.value, loose=True)):
            failures[name] = f"afterwards, the array in the parent: {problem}"
    return failures


class _Stop(Exception):
    """Raised on purpose."""


def _failing_loop(array: Any, mode: str) -> None:
    """A loop whose body uses an array and then fails."""

    def body(left: Any, carried: Any) -> Any:
        carried += carried if not dr.is_mask_v(carried) else 0
        raise _Stop

    lanes = int(dr.prod(dr.shape(array))) if dr.is_tensor_v(array) else dr.width(array)
    dr.while_loop((llvm.Int([1] * lanes), array), lambda left, carried: left > 0, body, mode=mode)


#: Operations that fail, for any array.
_FAILURES: list[tuple[str, Callable[[Any, Operands], Any]]] = [
    ("a['text']", lambda a, o: a["text"]),
    ("a['text'] = 1", lambda a, o: operator.setitem(a, "text", 1)),
    ("a + 'text'", lambda a, o: a + "text"),
    ("a += 'text'", lambda a, o: operator.iadd(a, "text")),
    ("a + seven elements", lambda a, o: a + o.leaf([1, 0, 1, 0, 1, 0, 1])),
    ("dr.fma(a, 'text', 1)", lambda a, o: dr.fma(a, "text", 1)),
    ("dr.gather(a, 'text')", lambda a, o: dr.gather(o.type, a, "text")),
    ("dr.scatter(a, 'text')", lambda a, o: dr.scatter(a, "text", o.index(0))),
    ("dr.scatter_add of an object", lambda a, o: dr.scatter_add(a, object(), o.index(0))),
    ("a loop that raises", lambda a, o: _failing_loop(a, "evaluated")),
    ("a symbolic loop that raises", lambda a, o: _failing_loop(a, "symbolic")),
]


def after_exception(state: State, touches: Iterable[Touch], expected: Expected) -> Failures:
    """After several operations on the same array have failed; each touch meets some of them, by turns."""
    failures: Failures = {}
    for number, touch in enumerate(touches):
        sample = state.make()
        o = _operands(touch, sample)
        problem = ""
        for text, fail in (_FAILURES[(number * 3 + k) % len(_FAILURES)] for k in range(3)):
            if "seven" in text and o.count <= 1 or "loop" in text and not o.count:
                continue
            try:
                fail(sample.array, o)
                problem = problem or f"no error of {text}"
            except Exception:
                continue
        failures[touch.name] = problem or touch_plainly(touch, sample, expected(touch))
    return failures


# --- loops -----------------------------------------------------------------------------------------------------------

_TRIPS = (2, 0, 3, 1)


@dataclass
class _Entry:
    """A touch inside of a loop."""

    touch: Touch
    sample: Sample
    operands: Operands
    room: str
    initial: Any = None
    error: Exception | None = None
    #: What bodies see, of all traces: a list would be put back before another one.
    sights: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)
    _seen: list[Any] = field(default_factory=list)

    @property
    def seen(self) -> list[Any]:
        """What bodies have seen so far."""
        while not self.sights.empty():
            self._seen.append(self.sights.get())
        return self._seen


def _zeros(result: Any, lanes: int) -> Any:
    if isinstance(result, tuple):
        return tuple(_zeros(part, lanes) for part in result)
    shape = result.shape if dr.is_tensor_v(result) else (*dr.shape(result)[:-1], lanes)
    return dr.zeros(type(result), shape)


def _plain_value(expected: Any) -> Any:
    return tuple(map(_plain_value, expected)) if isinstance(expected, tuple) else \
        np.asarray(expected.value) if isinstance(expected, Typed) else np.asarray(expected)


def _blend(active: Array, new: Any, old: Any) -> Any:
    """New values in active lanes."""
    if isinstance(new, tuple):
        return tuple(_blend(active, a, b) for a, b in zip(new, old))
    if new.size == active.size:
        active = active.reshape(new.shape)
    return np.where(active, new, old)


def _no_lanes(new: Array, o: Operands) -> Array:
    """Zeros for all lanes, where a result for one lane may stand for all."""
    return np.zeros_like(new) if o.tensor or new.size == o.lanes else np.zeros((*new.shape[:-1], o.lanes), new.dtype)


def _keeps_result(entry: _Entry, result: Any) -> bool:
    """Whether a result becomes a state variable: what has a value for each lane."""
    return entry.room in ("lanes", "gather", "scatter") and not isinstance(result, (Host, int, float, bool, str, list))


def _simulate(entry: _Entry, construct: str, carried: bool, mode: str) -> tuple[Array, Any, list[Any]]:
    """The array, the result, and what is seen in each iteration, after a loop of models."""
    o, touch = entry.operands, entry.touch
    shape = o.shape if carried and entry.room in ("lanes",
        "inplace") or entry.room == "inplace" else entry.sample.value.shape
    model = np.array(np.broadcast_to(entry.sample.value, shape))
    left = np.resize(_TRIPS, o.lanes)
    result: Any = None
    seen: list[Any] = []
    while (left > 0).any():
        o.active = left > 0
        old = model.copy()
        expected = touch.model(model, o)
        if entry.room == "inplace":
            model = _blend(o.active, model, old)
        if expected is not None and _keeps_result(entry, expected):
            new = _plain_value(expected)
            previous = result.value if isinstance(result, Typed) else result
            zeros = tuple(_no_lanes(part, o) for part in new) if isinstance(new, tuple) else _no_lanes(new, o)
            if touch.masked:
                seen.append(expected)
            value = _blend(o.active, new, zeros if previous is None else previous)
            result = Typed(expected.type, value) if isinstance(expected, Typed) else value
        else:
            seen.append(expected)
        left -= 1
        if construct in ("branch", "call"):
            break
    o.active = np.ones(o.lanes, bool)
    return model, result, seen


def _construct(construct: str, mode: str, state: tuple[Any, ...], body: Callable[..., Any]) -> tuple[Any, ...]:
    """A loop, branch or call for which the first state variable says how many times each lane takes part."""
    def loop(*state: Any) -> Any:
        return dr.while_loop(state, lambda left, *_: left > 0, body, mode=mode, compress=construct == "compressed")

    def same(*state: Any) -> Any:
        return state

    if construct == "branch":
        return dr.if_stmt(state, state[0] > 0, body, same, mode=mode)
    if construct == "call":
        return dr.switch(dr.select(state[0] > 0, llvm.UInt32(1), llvm.UInt32(0)), [same, body], *state, mode=mode)
    if construct == "nested":
        def outer(again: Any, *state: Any) -> Any:
            return again - 1, *dr.if_stmt(state, state[0] > 0, loop, same, mode=mode)
        return dr.while_loop((dr.full(llvm.Int, 1, dr.width(state[0])), *state), lambda again, *_: again > 0, outer,
                             mode=mode)[1:]
    return loop(*state)


def _run_construct(entries: list[_Entry], lanes: int, construct: str, mode: str,
                   carried: bool) -> tuple[list[Any], list[Any]]:
    """One construct that does all touches. Errors leave the body, as they do in a user's."""
    results = [entry.initial for entry in entries if entry.initial is not None]
    where = {id(entry): number for number, entry in enumerate(e for e in entries if e.initial is not None)}

    def body(left: Any, number_of_lane: Any, arrays: list[Any], results: list[Any]) -> Any:
        results = list(results)
        for number, entry in enumerate(entries):
            entry.operands.left = number_of_lane if construct == "compressed" else None
            found = entry.touch.act(arrays[number] if carried else entry.sample.array, entry.operands)
            if id(entry) in where:
                results[where[id(entry)]] = found
            if id(entry) not in where or entry.touch.masked and mode == "evaluated":
                entry.sights.put(_frozen(found))
            entry.operands.left = None
        return left - 1, number_of_lane, arrays, results

    left = llvm.Int(np.resize(_TRIPS, lanes).tolist())
    arrays = [entry.sample.array for entry in entries] if carried else []
    _, _, arrays, results = _construct(construct, mode, (left, dr.arange(llvm.UInt, lanes), arrays, results), body)
    dr.eval(arrays, results)  # in one kernel
    return arrays, results


def _frozen(found: Any) -> Any:
    """What an iteration gives, evaluated at once."""
    if isinstance(found, tuple):
        return tuple(map(_frozen, found))
    if dr.is_array_v(found):
        found.numpy()
    return found


def _check(entry: _Entry, array: Any, result: Any, construct: str, mode: str, carried: bool) -> str:
    """What is wrong after a construct."""
    o = entry.operands
    try:
        model, expected, seen = _simulate(entry, construct, carried, mode)
    except Exception as caught:
        return f"the model {_shown(caught)}"
    try:
        if expected is not None and (problem := difference(result, expected, loose=not o.tensor)):
            return problem
        if mode == "evaluated" and len(entry.seen) != len(seen):
            return f"the body ran {len(entry.seen)} times, expected {len(seen)}"
        for found, one in zip(entry.seen, seen) if construct != "compressed" else ():
            if one is not None and (problem := difference(found, one, loose=not o.tensor)):
                return problem
        if carried:
            if problem := difference(array, Typed(o.type, model), loose=not o.tensor):
                return f"afterwards, the state variable: {problem}"
        if problem := difference(entry.sample.array, Typed(o.type, model), loose=not o.tensor):
            return f"afterwards, the array: {problem}"
        problem = entry.sample.observe(entry.sample.value, model, _observer_room(entry.touch, o.kind))
        return f"afterwards, {problem}" if problem else ""
    except Exception as caught:
        return f"afterwards, reading {_shown(caught)}"


def _entry(touch: Touch, state: State, refusal: Refusal | None) -> _Entry:
    """A touch that is about to be done in a loop; what it gives becomes a state variable if it has a value for each
    lane."""
    sample = state.make()
    o = _operands(touch, sample)
    entry = _Entry(touch, sample, o, touch.room(o.kind))
    if entry.room in ("lanes", "gather", "scatter") and (refusal is None or touch.holds):
        found = touch.act(state.make().array, o)
        if dr.is_array_v(found) or isinstance(found, tuple):
            entry.initial = _zeros(found, o.lanes)
    return entry


def _after_refusal(entry: _Entry, refusal: Refusal) -> str:
    """Whether a touch was refused as it should have been, and has changed nothing."""
    if problem := refusal.judge(entry.error, entry.seen[0] if entry.seen else None):
        return problem
    value, sample = entry.sample.value, entry.sample
    try:
        if problem := difference(sample.array, Typed(entry.operands.type, value), loose=not entry.operands.tensor):
            return f"after the error, the array: {problem}"
        problem = sample.observe(value, value, "lanes")
        return f"after the error, {problem}" if problem else ""
    except Exception as caught:
        return f"after the error, reading {_shown(caught)}"


def _refused(touch: Touch, state: State, construct: str, mode: str, carried: bool, refusal: Refusal) -> str:
    """A touch that must fail, in a construct of its own."""
    entry = _entry(touch, state, refusal)
    try:
        _run_construct([entry], max(entry.operands.lanes, 1), construct, mode, carried)
    except Exception as error:
        entry.error = error
    return _after_refusal(entry, refusal)


def _together(touches: list[Touch], state: State, construct: str, mode: str, carried: bool) -> Failures:
    """Touches that share a construct; if that fails, each half of them does, until the one that fails is alone."""
    entries = [_entry(touch, state, None) for touch in touches]
    try:
        arrays, results = _run_construct(entries, entries[0].operands.lanes, construct, mode, carried)
    except Exception as error:
        if len(touches) == 1:
            return {touches[0].name: _shown(error)}
        half = len(touches) // 2
        return _together(touches[:half], state, construct, mode, carried) | \
            _together(touches[half:], state, construct, mode, carried)
    values = iter(results)
    return {entry.touch.name: _check(entry, arrays[number] if carried else None,
                                     next(values) if entry.initial is not None else None, construct, mode, carried)
            for number, entry in enumerate(entries)}


def _in_construct(construct: str, mode: str, carried: bool) -> Callable[[State, Iterable[Touch], Expected], Failures]:
    """A runner of constructs. Touches share one as far as possible; what fails is tried again in one of its own."""

    def run(state: State, touches: Iterable[Touch], expected: Expected) -> Failures:
        failures: Failures = {}
        groups: dict[int, list[Touch]] = {}
        for touch in touches:
            refusal = expected(touch)
            if refusal is not None:
                failures[touch.name] = _refused(touch, state, construct, mode, carried, refusal)
                continue
            try:
                lanes = _entry(touch, state, None).operands.lanes
            except Exception as error:
                failures[touch.name] = f"already without a loop: {_shown(error)}"
            else:
                groups.setdefault(lanes, []).append(touch)
        for group in groups.values():
            found = _together(group, state, construct, mode, carried)
            for touch in group:
                if found[touch.name] and len(group) > 1:
                    problem = _together([touch], state, construct, mode, carried)[touch.name]
                    found[touch.name] = problem or f"beside other touches only: {found[touch.name]}"
            failures |= found
        return failures
    return run


#: Places by name; of constructs the name says which one it is (but for loops), the mode, and how the array comes in.
#: (Evaluated calls are given some of the lanes, which have no operands of their own here.)
PLACES: dict[str, Callable[[State, Iterable[Touch], Expected], Failures]] = {
    "plain": plainly, "thread": in_thread, "fork": in_fork, "exception": after_exception,
    **{f"{construct}{mode}-{'carried' if carried else 'captured'}": _in_construct(construct[:-1], mode, carried)
       for construct in ("", "branch-", "call-", "nested-") for mode in ("symbolic", "evaluated")
       for carried in (True, False) if (construct, mode) != ("call-", "evaluated")},
    "compressed-evaluated-carried": _in_construct("compressed", "evaluated", True),
}
