"""Frozen functions from files, which replay what another process has recorded, and trace nothing."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import drjit_core as core
from drjit_core import KIND, Unpacker, literal, primal

from .._access.store import store_same
from .._base.array import ArrayBase
from .._base.handle import fresh_array
from .._trees.pytree import leaves
from .explanation import difference, distance, of_arguments
from .format import (
    ANY,
    CONTAINER,
    CONTAINERS,
    CONTENT,
    EQUAL,
    EXACT,
    FLAT,
    FORMAT,
    MODES,
    NESTED,
    NUMBER,
    NUMBERS,
    PART,
    SAME,
    TENSOR,
    found_by_name,
    own_by_name,
    read,
    read_shape,
    version,
)
from .frozen import Entry, Frozen
from .inputs import Inputs, token_of
from .outcome import TEMPLATES, Outcome
from .plan import CODES, Plan, Step

__all__ = ["Loaded", "NoRecording", "load_frozen"]

_LITERAL = KIND["literal"]
_NUMBERS = {"int": int, "float": float}


def load_frozen(path: str | Any) -> Any:
    """A frozen function from a file that its method ``save`` has written, maybe in another process.

    It replays what has been recorded, and never traces nor compiles: calls that are like none of those raise a
    ``RuntimeError`` with what is different, and so do calls within loops, branches, calls and other frozen functions.
    It has the members of other frozen functions (``recordings``, ``explain`` …), and derivatives of first order.

    The file is checked before anything is made of it: its owner must be the user (or the system's administrator), and
    nobody else may write to it (else a ``PermissionError``); its checksum must be right (else a ``ValueError``); its
    version, the version of the package, the backend, LLVM's version, and the instructions of the processor must be such
    that its kernels run here (else a ``RuntimeError``). All of these are a ``RuntimeError``, too. A file that cannot be
    read raises an ``OSError``.

    Load what you trust: the checks find accidents and foreign owners, but the file holds native code.

    >>> import tempfile
    >>> from drjit.llvm import Float
    >>> f = dr.freeze(lambda x, k: x * k)
    >>> _ = f(Float(1, 2, 3), 2)
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     f.save(file.name)
    ...     g = dr.load_frozen(file.name)
    >>> g(Float(4, 5, 6), 2)
    [8, 10, 12]
    >>> g.explain(Float(4, 5, 6), 3)
    '<lambda>() would raise an exception: it has no recording for these arguments: args[1] was 2, and is 3.'
    """
    name = os.fspath(path)
    try:
        header, pieces = core.read_container(name, FORMAT)
        if header["version"] != version():
            raise RuntimeError(f"{name} was written by version {header['version']} of this package, which is "
                               f"{version()}")
        try:
            unpacker = Unpacker(header["environment"], pieces)
        except RuntimeError as error:
            raise RuntimeError(f"{name} was made for another process: {error}") from None
        return Loaded(header, unpacker).function()
    except (core.Damaged, core.Foreign) as error:
        raise type(error)(f"drjit.load_frozen(): {error}.") from None
    except RuntimeError as error:
        raise RuntimeError(f"drjit.load_frozen(): {error}.") from None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise core.Damaged(f"drjit.load_frozen(): {name} is not what this package writes: {error!r}.") from None


class NoRecording(RuntimeError):
    """A call is like none of those that have been recorded."""


class _Recorded(NamedTuple):
    """A recording, and what recognises calls of it, which waits for classes of the user's."""

    entry: Entry
    plan: Mapping[str, Any]


class Loaded:
    """What a function has been loaded from."""

    def __init__(self, header: Mapping[str, Any], unpacker: Unpacker) -> None:
        self._header = header
        self._name: str = header["name"]
        #: Steps find their kernels among those that are kept here.
        self._kernels = unpacker.kernels
        self._waiting: list[_Recorded] = []
        self._missing = ""
        for data in header["recordings"]:
            self._waiting.append(_Recorded(_read_entry(data, unpacker), data["plan"]))
        self._entries = [each.entry for each in self._waiting]

    def function(self) -> Frozen:
        """A function that replays."""
        name, empty = self._name, inspect.Parameter.empty

        def function(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError(f"drjit.load_frozen(): {name}() was loaded from a file: it can be launched, but not "
                               "be traced in loops, branches, calls and other frozen functions, nor called where "
                               "'enabled' or JitFlag.KernelFreezing is not set.")

        function.__name__ = function.__qualname__ = name
        function.__doc__ = self._header["doc"]
        function.__signature__ = inspect.Signature([  # type: ignore[attr-defined]
            inspect.Parameter(parameter, inspect._ParameterKind(kind), default=... if default else empty)
            for parameter, kind, default in self._header["parameters"]])
        found = Frozen(function, None, None, 10, None, self._header["auto_opaque"], True,
                       tuple(self._header["dynamic"]))
        found._loaded = self
        found._entries = {number: [entry] for number, entry in enumerate(self._entries)}
        self._complete(found)
        return found

    def _complete(self, frozen: Frozen) -> bool:
        """Recognise calls whose classes are known by now; whether there are more."""
        waiting, plans = [], []
        for each in self._waiting:
            try:
                plans.append(_read_plan(each.plan, each.entry))
            except _Classless as error:
                self._missing = str(error)
                waiting.append(each)
        self._waiting = waiting
        frozen._plans = [*frozen._plans, *plans]
        return bool(plans)

    def call(self, frozen: Frozen, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that is like none of those that have been recorded, as far as has been seen."""
        if self._adapt(frozen):
            return frozen(*args, **kwargs)
        reason = self._reason(frozen, args, kwargs)
        if _made_opaque(args, kwargs):
            try:
                return frozen(*args, **kwargs)
            except NoRecording:
                pass
        raise NoRecording(f"drjit.load_frozen(): {self._name}() {reason}.")

    def _adapt(self, frozen: Frozen) -> bool:
        """Know what has become known since; whether anything is different."""
        changed = self._complete(frozen) if self._waiting else False
        for entry in self._entries:
            for recording in (entry.recording, *entry.derivatives.values()):
                changed |= recording.adapt()
        return changed

    def explain(self, frozen: Frozen, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """What a call would do, and why."""
        reason = ""
        while True:
            for number, plan in enumerate(frozen._plans):
                if plan.match([args, kwargs, None]) is not None and self._obstacle(plan, args, kwargs) is None:
                    return f"{self._name}() would replay recording {number + 1} of {len(frozen._plans)}: " \
                        f"{plan.entry.recording.launches} launches."
            if self._adapt(frozen):
                continue
            reason = reason or self._reason(frozen, args, kwargs)
            if not _made_opaque(args, kwargs):
                return f"{self._name}() would raise an exception: it {reason}."

    def _obstacle(self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """Why the recording of a plan is not good for arguments that this recognises; empty if it is for sizes."""
        found, entry = plan.match([args, kwargs, None]), plan.entry
        assert found is not None
        sizes = [found.nodes[position].size for position in entry.positions]
        return "" if sizes != entry.sizes and not entry.general else entry.recording.obstacle(found.arguments)

    def _reason(self, frozen: Frozen, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Why no recording is good for a call."""
        plans = [plan for plan in frozen._plans if plan.match([args, kwargs, None]) is not None]
        obstacles = [self._obstacle(plan, args, kwargs) for plan in plans]
        if "" in obstacles:
            sizes = [str(plan.entry.sizes) for plan, obstacle in zip(plans, obstacles, strict=True) if obstacle == ""]
            return f"is good for arrays of these sizes only: {' or '.join(sizes)}; it used them as numbers, or had " \
                "not been called with others when it was saved"
        if plans:
            return f"has no recording for these arguments: {obstacles[0] or core.UNLIKE_CONTENTS}"
        if self._waiting:
            return f"was recorded for objects of the class {self._missing}, which this process has not imported"
        now = of_arguments(Inputs(_nothing, args, kwargs, None).words())
        entries = [entry for group in frozen._entries.values() for entry in group]
        if not entries:
            return "has no recordings any more"
        nearest = min(entries, key=lambda each: distance(each.words, now))
        return f"has no recording for these arguments: {difference(nearest.words, now, '')}"


def _nothing() -> None:
    """A function that knows nothing."""


def _made_opaque(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Evaluate the constants among arguments: whether there were any."""
    found = False
    for array in leaves([args, kwargs], "drjit.load_frozen"):
        if isinstance(array, ArrayBase) and array._dynamic and array._o is None:
            nodes = array._nodes()
            if any(primal(node).kind == _LITERAL and node.size for node in nodes):
                store_same(array, [core.filled(node, array._where) for node in nodes])
                found = True
    return found


def _read_entry(data: Mapping[str, Any], unpacker: Unpacker) -> Entry:
    entry: Entry = Entry.__new__(Entry)
    entry.recording = unpacker.recording(data["recording"])
    entry.outcome = _read_outcome(data["outcome"])
    entry.pattern, entry.parts, entry.baked = entry.recording.pattern, None, {}
    entry.positions, entry.sizes = data["positions"], data["sizes"]
    entry.general, entry.settled = data["general"], data["settled"]
    entry.derivatives = {mode: unpacker.recording(data[name]) for name, mode in MODES.items() if name in data}
    entry.failures = {MODES[name]: text for name, text in data["failures"].items()}
    entry.words, entry.hits, entry.used, entry.kept = data["words"], 0, 0, []
    return entry


# --- what a call is recognised by -------------------------------------------------------------------------------------

class _Classless(Exception):
    """A class of the user's that has not been imported yet."""


def _read_plan(data: Mapping[str, Any], entry: Entry) -> Plan:
    plan: Plan = Plan.__new__(Plan)
    plan.entry, plan.scope, plan.functions, plan.around = entry, None, [], []
    plan.count, plan.first, plan.distinct = data["count"], data["first"], data["distinct"]
    plan.owners = [(own_by_name(cls), steps, counts, own_by_name(array), read_shape(shape))
                   for cls, steps, counts, array, shape in data["owners"]]
    plan.holders, plan.places = data["holders"], data["places"]
    plan.pairs = list(map(tuple, data["pairs"]))
    plan.baked = [None if known is None else (known[0], core.number_from(known[1]), known[2])
                  for known in data["baked"]]
    plan.literals, plan.flags, plan.twins = bytes.fromhex(data["literals"]), bytes.fromhex(data["flags"]), data["twins"]
    plan.steps = []
    for number, kind, size, keys, codes in data["steps"]:
        step = Step(number, CONTAINERS[kind], None, None, number in plan.holders)
        step.size, step.keys = size, list(map(read, keys))
        for name, *value in codes:
            step.codes.append(CODES.index(name))
            step.values.append(_read_code(step.codes[-1], value))
        plan.steps.append(step)
    plan.settle()
    return plan


def _read_code(code: int, value: Sequence[Any]) -> Any:
    if code == ANY:
        return None
    if code == FLAT or code == NUMBER:
        return own_by_name(value[0])
    if code == EXACT:
        return own_by_name(value[0]), _NUMBERS[value[1]]
    if code == TENSOR or code == NESTED:
        return own_by_name(value[0]), read_shape(value[1])
    if code == CONTAINER:
        cls = found_by_name(value[1])
        if not isinstance(cls, type):
            raise _Classless(".".join(value[1]))
        return value[0], cls
    if code == PART:
        return own_by_name(value[0]), own_by_name(value[1]), value[2], value[3], read_shape(value[4])
    if code == SAME:
        return read(value[0])
    if code == EQUAL:
        found = read(value[0])
        return found, token_of(found)
    if code == NUMBERS:
        return own_by_name(value[0]), list(map(core.number_from, value[1]))
    if code == CONTENT:
        if isinstance(value[0], dict) and "array" in value[0]:
            shape, kind, digest = value[0]["array"]
            import numpy as np

            return np.empty(0, kind), (np.ndarray, tuple(shape), np.dtype(kind), bytes.fromhex(digest))
        found = read(value[0])
        return found, token_of(found)
    return value[0]


# --- what a call does -------------------------------------------------------------------------------------------------

def _read_outcome(data: Mapping[str, Any]) -> Outcome:
    outcome: Outcome = Outcome.__new__(Outcome)
    outcome.keep = []
    outcome.nodes, outcome.vertices, outcome.statements = [], [], []
    outcome.beyond_plans, outcome.numbers, outcome.data = False, set(), []
    outcome.diff, outcome.starts, outcome.steps = data["diff"], list(map(tuple, data["starts"])), data["steps"]
    outcome.groups = {tuple(needed): numbers for needed, numbers in data["groups"]}
    outcome.stores = [(number, tuple(map(tuple, values)), read_shape(shape))
                      for number, values, shape in data["stores"]]
    outcome.gradients, outcome.received = list(map(tuple, data["gradients"])), data["received"]
    outcome.started, outcome.reached = data["started"], data["reached"]
    outcome.places = []
    for number, kind, key, template in data["places"]:
        found = tuple([_read_template(each, outcome) for each in template]) if kind == "list" else \
            _read_template(template, outcome)
        outcome.places.append((number, CONTAINERS[kind], read(key), found))
    outcome.orders = [(number, list(map(read, keys))) for number, keys in data["orders"]]
    outcome.result = _read_template(data["result"], outcome)
    return outcome


def _read_template(data: Sequence[Any], outcome: Outcome) -> Any:
    name, *found = data
    kind = TEMPLATES.index(name)
    if name == "constant":
        outcome.keep.append(read(found[0]))
        return kind, token_of(outcome.keep[-1]), len(outcome.keep) - 1
    if name == "copy":
        cls, payloads = own_by_name(found[0]), list(map(core.number_from, found[1]))
        array = fresh_array(cls)
        array._o = None
        nodes = [literal(cls._type, payload) for payload in payloads]
        if cls._depth > 0:
            array._c = nodes
        else:
            array._n = nodes[0]
        outcome.keep.append(array)
        return kind, cls, tuple(payloads), len(outcome.keep) - 1
    if name in ("container", "input", "again"):
        return kind, found[0]
    if name == "computed number":
        return kind, _NUMBERS[found[0]], found[1]
    if name == "new data":
        outcome.keep.append(read(found[1]))
        return kind, found[0], type(outcome.keep[-1]), len(outcome.keep) - 1, token_of(outcome.keep[-1])
    place, cls = found[0], own_by_name(found[1])
    if name == "flat":
        return kind, place, cls, found[2]
    if name == "array":
        return kind, place, cls, tuple(map(tuple, found[2])), read_shape(found[3])
    if name in ("tuple", "list", "deque"):
        return kind, place, cls, found[2], tuple([_read_template(entry, outcome) for entry in found[3]])
    further = 0
    if name == "dict":
        outcome.keep.append(cls())
        further = len(outcome.keep) - 1
    return kind, place, cls, further, tuple([(read(key), _read_template(entry, outcome)) for key, entry in found[3]])
