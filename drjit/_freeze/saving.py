"""Writing frozen functions to files: recordings with all that replays of them take, for processes that trace nothing.

What a call is recognised by (:mod:`.plan`) is divided: the part that arguments lead to is written, that which the
function knows itself must be as it was, and the arrays in it become part of the recordings. ``docs/architecture.md``
describes the format.
"""

from __future__ import annotations

import inspect
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import drjit_core as core
from drjit_core import Packer, primal

from .._base.values import is_ndarray
from .._trees.kinds import DICT, LIST, MISSING, TUPLE
from .explanation import of_arguments
from .format import (
    ARRAY,
    CONTAINER,
    CONTAINERS,
    CONTENT,
    EQUAL,
    EXACT,
    FLAT,
    FORMAT,
    KNOWN,
    MODES,
    NESTED,
    NUMBER,
    NUMBERS,
    PART,
    SAME,
    TENSOR,
    Refused,
    is_ours,
    module_of,
    name_of,
    version,
    written,
    written_shape,
)
from .frozen import Entry, Frozen, write_with
from .outcome import TEMPLATES, Outcome
from .plan import CODES, OWNER, Plan, Step

__all__ = ["save"]

_log = logging.getLogger("drjit")
_CONTAINER_NAMES = {kind: name for name, kind in CONTAINERS.items()}


def save(frozen: Frozen, path: str) -> None:
    """Write the recordings of a function to a file."""
    name = frozen._name
    try:
        if frozen._loaded is not None:
            raise Refused("the function", "has been loaded from a file itself: copy that")
        if frozen._state_fn is not None:
            raise Refused("'state_fn'", "cannot be called by another process: pass what it returns as arguments")
        entries = [entry for group in frozen._entries.values() for entry in group]
        if not entries:
            raise Refused("the function", "has no recordings: call it before")
        plans = {id(plan.entry): plan for plan in frozen._plans}
        packer = Packer(entries[0].recording.pattern[0])
        found: list[dict[str, Any]] = []
        reasons: list[str] = []
        for entry in sorted(entries, key=lambda each: -each.used):
            data = _written_entry(entry, plans.get(id(entry)), packer)
            if isinstance(data, str):
                reasons.append(data)
            else:
                found.append(data)
        if not found:
            raise RuntimeError(reasons[0])
    except (Refused, RuntimeError) as error:
        raise RuntimeError(f"drjit.freeze(): {name}() cannot be saved: {error}.") from None
    if reasons:
        _log.warning("drjit.freeze(): %d recordings of %s() are not in %s: %s.", len(reasons), name, path, reasons[0])
    core.write_container(path, FORMAT, {
        "name": name, "doc": frozen.__doc__, "version": version(), "dynamic": list(frozen._dynamic),
        "auto_opaque": bool(frozen._auto_opaque), "parameters": _parameters(frozen.f),
        "environment": packer.environment(), "recordings": found}, packer.pieces)


write_with(save)


def _parameters(function: Callable[..., Any]) -> list[list[Any]]:
    """The names of the parameters, and how they are passed."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [["args", int(inspect.Parameter.VAR_POSITIONAL), False],
                ["kwargs", int(inspect.Parameter.VAR_KEYWORD), False]]
    return [[each.name, int(each.kind), each.default is not each.empty] for each in parameters]


def _written_entry(entry: Entry, plan: Plan | None, packer: Packer) -> dict[str, Any] | str:
    """One recording; or why it is left out, although it could be written at another time."""
    if plan is None:
        raise Refused("the function", "returns parts of its arguments, changes variables of modules, or depends on "
                                       "what cannot be compared")
    if plan.scope is not None:
        return "it has been recorded where derivatives are suspended or resumed"
    divided = _Divided(plan)
    if divided.tracks():
        raise Refused("the function", "knows an array itself that tracks derivatives: pass it as an argument")
    outcome, others = _written_outcome(entry.outcome, divided), divided.others()
    if others is None:
        return "what the function refers to has changed since"
    given = {number: primal(others[divided.other_nodes[position]])
             for number, position in enumerate(entry.positions) if position in divided.other_nodes}
    recordings = {"recording": entry.recording, **{name: entry.derivatives[mode] for name, mode in MODES.items()
                                                   if mode in entry.derivatives}}
    found = {name: core.with_bound(each, given) if given else each for name, each in recordings.items()}
    own = [number for number, position in enumerate(entry.positions) if position in divided.nodes]
    return {
        "words": of_arguments(entry.words),
        "general": bool(entry.general), "settled": bool(entry.settled),
        "positions": [divided.nodes[entry.positions[number]] for number in own],
        "sizes": [entry.sizes[number] for number in own],
        "failures": {name: entry.failures[mode] for name, mode in MODES.items() if mode in entry.failures},
        "plan": _written_plan(divided, bool(found["recording"].pattern[4])),
        "outcome": outcome,
        **{name: packer.recording(each, bool(entry.general)) for name, each in found.items()}}


# --- what a call is recognised by -------------------------------------------------------------------------------------

class _Divided:
    """The two parts of a plan, with new numbers of arrays and nodes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        #: The containers that arguments lead to, and where these are.
        self.paths = {0: ""}
        #: New numbers of arrays, and of nodes, that arguments lead to; and of the others.
        self.arrays: dict[int, int] = {}
        self.nodes: dict[int, int] = {}
        self.other_nodes: dict[int, int] = {}
        self.steps: list[Step] = []
        self._others: list[Step] = []
        self._other_arrays: dict[int, int] = {}
        self._count = self._position = 0
        for step in plan.steps:
            if step.kind == OWNER:
                if not all(number in self.paths for number in plan.holders):
                    raise Refused("the function", "knows an optimiser itself: pass it as an argument")
                self.paths[step.number] = f"{self.paths[plan.holders[0]]}[…]"
            self._add(step)
        for _, _, _, cls, shape in plan.owners:
            self._array(True, 1 if cls._depth < 0 else shape)
        self._check()

    def _array(self, mine: bool, nodes: int) -> None:
        arrays, places = (self.arrays, self.nodes) if mine else (self._other_arrays, self.other_nodes)
        arrays[self._count] = len(arrays)
        for position in range(self._position, self._position + nodes):
            places[position] = len(places)
        self._count, self._position = self._count + 1, self._position + nodes

    def _add(self, step: Step) -> None:
        """Add a container, and what is in it."""
        mine = step.number in self.paths and step.fixed is None
        (self.steps if mine else self._others).append(step)
        for number, (code, value) in enumerate(zip(step.codes, step.values, strict=True)):
            if code in (FLAT, TENSOR, NUMBER, EXACT):
                self._array(mine, 1)
            elif code == NESTED:
                self._array(mine, value[1])
            elif code == PART and value[2] == self._count:
                self._array(mine, 1 if value[1]._depth < 0 else value[4])
            elif code == CONTAINER and mine:
                self.paths[value[0]] = self.path(step, number)

    def path(self, step: Step, number: int) -> str:
        """Where something in a container is."""
        place, key = self.paths[step.number], step.keys[number]
        if not step.number:
            return str(("args", "kwargs", "state")[key])
        return f"{place}[{key!r}]" if step.kind in (LIST, TUPLE, DICT) else f"{place}.{key}"

    def _check(self) -> None:
        """Refuse what leads from one part to the other."""
        fixed = {step.number for step in self._others}
        for step in self._others:
            for code, value in zip(step.codes, step.values, strict=True):
                if code == KNOWN and value in self.paths and value not in fixed or \
                        code == ARRAY and value in self.arrays or code == PART and value[2] in self.arrays:
                    where = self.paths[value] if code == KNOWN else "an argument"
                    raise Refused(where or "args", "is something that the function knows itself as well, so that other "
                                                    "arguments would be another function")
        for step in self.steps:
            for number, (code, value) in enumerate(zip(step.codes, step.values, strict=True)):
                known = value[0] if code == CONTAINER else value if code == KNOWN else 0
                if known in fixed or known not in self.paths:
                    raise Refused(self.path(step, number), "refers to a class, a module or a function")
                if code == ARRAY and value not in self.arrays:
                    raise Refused(self.path(step, number), "is an array that the function knows itself as well")

    def others(self) -> list[core.Node] | None:
        """The nodes of what the function knows itself, if that is as it was."""
        plan = _blank(self.plan, self._others, self._other_arrays, self.other_nodes)
        plan.functions = self.plan.functions
        found = plan.match([None, None, None])
        if found is None or any(plan.flags):
            return None
        return list(found.nodes)

    def tracks(self) -> bool:
        """Whether the function knows arrays itself that track derivatives."""
        return any(self.plan.flags[position] for position in self.other_nodes)


def _blank(plan: Plan, steps: Sequence[Step], arrays: Mapping[int, int], nodes: Mapping[int, int]) -> Plan:
    """A part of a plan, without optimisers."""
    found: Plan = Plan.__new__(Plan)
    found.entry, found.scope, found.around, found.count, found.first = None, None, [], plan.count, len(arrays)
    found.distinct, found.functions, found.owners, found.holders, found.places = False, [], [], [], []
    found.baked = [plan.baked[position] for position in nodes]
    found.literals = bytes([plan.literals[position] for position in nodes])
    found.flags = bytes([plan.flags[position] for position in nodes])
    found.twins = [nodes.get(plan.twins[position], -1) for position in nodes]
    numbers = {step.number for step in steps}
    found.pairs = [pair for pair in plan.pairs if numbers.issuperset(pair)]
    found.steps = []
    for step in steps:
        copy = Step(step.number, step.kind, step.cls, step.fixed)
        copy.size, copy.keys, copy.codes = step.size, step.keys, step.codes
        copy.values = [arrays[value] if code == ARRAY else (*value[:2], arrays[value[2]], *value[3:])
                       if code == PART else value for code, value in zip(step.codes, step.values, strict=True)]
        found.steps.append(copy)
    found.walked, found.given, found.named, found.plain = found.steps, -1, -1, False
    return found


def _written_plan(divided: _Divided, distinct: bool) -> dict[str, Any]:
    plan = divided.plan
    own = _blank(plan, divided.steps, divided.arrays, divided.nodes)
    return {
        "count": plan.count, "first": len(divided.arrays) - len(plan.owners), "distinct": distinct,
        "owners": [[name_of(cls, "an optimiser"), steps, counts, name_of(array, "an optimiser"), written_shape(shape)]
                   for cls, steps, counts, array, shape in plan.owners],
        "holders": plan.holders, "places": plan.places, "pairs": list(map(list, own.pairs)),
        "baked": [None if known is None else [known[0], core.number_in(known[1]), known[2]] for known in own.baked],
        "literals": own.literals.hex(), "flags": own.flags.hex(), "twins": own.twins,
        "steps": [[step.number, _CONTAINER_NAMES[step.kind], step.size,
                   [written(key, divided.paths[step.number]) for key in step.keys],
                   [[CODES[code], *_written_code(code, value, divided.path(step, number))]
                    for number, (code, value) in enumerate(zip(step.codes, step.values, strict=True))]]
                  for step in own.steps]}


def _written_code(code: int, value: Any, path: str) -> list[Any]:
    """What is known of a place."""
    if code == FLAT or code == NUMBER:
        return [name_of(value, path)]
    if code == EXACT:
        return [name_of(value[0], path), value[1].__name__]
    if code == TENSOR or code == NESTED:
        return [name_of(value[0], path), written_shape(value[1])]
    if code == ARRAY or code == KNOWN:
        return [value]
    if code == CONTAINER:
        return [value[0], name_of(value[1], path, ours=False)]
    if code == PART:
        return [name_of(value[0], path), name_of(value[1], path), value[2], value[3], written_shape(value[4])]
    if code == SAME:
        if value is not MISSING and not is_ours(module_of(value)):
            raise Refused(path, f"is {value!r}: another process has others")
        return [written(value, path)]
    if code == EQUAL:
        return [written(value[0], path)]
    if code == NUMBERS:
        return [name_of(value[0], path), list(map(core.number_in, value[1]))]
    if code == CONTENT:
        array, token = value
        if array.__class__.__name__ == "ndarray" and is_ndarray(array) and array.dtype.names is None and \
                not array.dtype.hasobject:
            return [{"array": [list(token[1]), array.dtype.str, token[3].hex()]}]
        if isinstance(array, set):
            return [written(array, path)]
        raise Refused(path, f"is an object of the type {type(array).__name__}, which a file cannot hold")
    return []


# --- what a call does -------------------------------------------------------------------------------------------------

def _written_outcome(outcome: Outcome, divided: _Divided) -> dict[str, Any]:
    if outcome.statements:
        raise Refused("the function", "prints or asserts")
    if outcome.beyond_plans:
        raise Refused("the function", "changes or returns a set or a NumPy array that it is given")
    nodes = divided.nodes
    for number, *_ in outcome.stores:
        if number not in divided.arrays:
            raise Refused("the function", "changes an array that it knows itself: pass it as an argument")
    for number, kind, key, _ in (*outcome.places, *[(number, DICT, "the order", 0) for number, _ in outcome.orders]):
        if number not in divided.paths:
            raise Refused("the function", f"changes {'a list' if kind == LIST else repr(key)}, which it knows itself: "
                                           "pass what holds it as an argument")
    return {
        "diff": outcome.diff, "steps": outcome.steps,
        "starts": [[slot, gradient, origins and [[nodes[position] for position in origins[0]], *origins[1:]]]
                   for slot, gradient, origins in outcome.starts],
        "groups": [[[position if position < 0 else nodes[position] for position in needed], numbers]
                   for needed, numbers in outcome.groups.items()],
        "stores": [[divided.arrays[number], [_written_node(value, nodes) for value in values], written_shape(shape)]
                   for number, values, shape in outcome.stores],
        "gradients": [[nodes[position], slot, flows] for position, slot, flows in outcome.gradients],
        "received": outcome.received, "started": [nodes[position] for position in outcome.started],
        "reached": [nodes[position] for position in outcome.reached],
        "places": [[number, _CONTAINER_NAMES[kind], written(key, divided.paths[number]),
                    [_template(each, f"{divided.paths[number]}[{place}]", outcome, divided)
                     for place, each in enumerate(template)] if kind == LIST else
                    _template(template, f"{divided.paths[number]}, at {key!r},", outcome, divided)]
                   for number, kind, key, template in outcome.places],
        "orders": [[number, [written(key, divided.paths[number]) for key in keys]] for number, keys in outcome.orders],
        "result": _template(outcome.result, "the result", outcome, divided)}


def _written_node(value: Sequence[int], nodes: Mapping[int, int]) -> list[int]:
    slot, kind, number = value
    return [slot, kind, nodes[number] if kind == 1 else number]


#: What files have no form for.
_UNWRITTEN = {"view": "is a part of an argument", "method": "is a method of an object",
              "with": "is a container that has attributes"}


def _template(template: Any, path: str, outcome: Outcome, divided: _Divided) -> Any:
    """How a value is made."""
    kind = TEMPLATES[template[0]]
    if kind == "constant":
        return [kind, written(outcome.keep[template[2]], path)]
    if kind == "copy":
        return [kind, name_of(template[1], path), list(map(core.number_in, template[2]))]
    if kind == "container":
        if template[1] not in divided.paths:
            raise Refused(path, "is an object that the function knows itself")
        return [kind, template[1]]
    if kind == "input":
        if template[1] not in divided.arrays:
            raise Refused(path, "is an array that the function knows itself: return a copy")
        return [kind, divided.arrays[template[1]]]
    if kind == "again":
        return [kind, template[1]]
    if kind == "computed number":
        return [kind, template[1].__name__, template[2]]
    if kind == "flat":
        return [kind, template[1], name_of(template[2], path), template[3]]
    if kind == "array":
        return [kind, template[1], name_of(template[2], path),
                [_written_node(value, divided.nodes) for value in template[3]], written_shape(template[4])]
    if kind == "new data":
        if len(template) > 5:
            raise Refused(path, "is an array of objects")
        return [kind, template[1], written(outcome.keep[template[3]], path)]
    if kind in _UNWRITTEN:
        raise Refused(path, _UNWRITTEN[kind])
    _, place, cls, further, entries = template
    if kind in ("tuple", "list", "deque"):
        return [kind, place, name_of(cls, path), further, [_template(entry, f"{path}[{number}]", outcome, divided)
                                                          for number, entry in enumerate(entries)]]
    if kind == "dict" and cls not in (dict, OrderedDict):
        raise Refused(path, f"is a dictionary of the type {cls.__name__}")
    return [kind, place, name_of(cls, path), 0, [
        [written(key, path), _template(entry, f"{path}[{key!r}]" if kind == "dict" else f"{path}.{key}", outcome,
                                        divided)] for key, entry in entries]]
