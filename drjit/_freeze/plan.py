"""A call that is like one before is recognised without looking for what it depends on: what that call has found is
compared with what is in the same places now.

A :class:`Plan` is made of the inputs of a call, and leads to the recording that has served for it. It knows of each
container what is in it: another container, an array, or a value that must be the same. Matching it reads each place
once, and collects the arrays on the way. If anything is different, nothing follows from that: the call is looked at in
full then, which may find the same recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import drjit_core as core
from drjit_core import KIND, code_of, defaults_of, keyword_defaults_of, literal, primal, vertex_of

from .._access.store import owner_of
from .._base.array import ArrayBase
from .._base.handle import fresh_array
from .._base.values import real_number
from .._trees.contents import contents_of, entries_of, listed
from .._trees.kinds import (
    CELL,
    CLASS,
    DATA,
    FUNCTION,
    GENERATOR,
    LIST,
    METHOD,
    MISSING,
    MODULE,
    PARTIAL,
    REFERRING,
    TUPLE,
    VALUE,
    VARIABLES,
    hides,
    kind_at,
)
from .inputs import Inputs, flag_of, keeps_more, token_of, twins_of, version_of

__all__ = ["CODES", "OWNER", "Found", "Plan", "Step"]

_EVALUATED, _LITERAL, _UNDEFINED = KIND["evaluated"], KIND["literal"], KIND["undefined"]
#: What is known of a value: nothing that counts; an array that has not been seen yet, by its kind; one that has; a
#: container, likewise; a part of an array; an object that must be itself, or equal, or equal after a look at its
#: contents; an array of numbers; a number for which an array stands, of any or of exactly one type.
_ANY, _FLAT, _TENSOR, _NESTED, _ARRAY, _CONTAINER, _KNOWN, _PART, _SAME, _EQUAL, _CONTENT, _NUMBERS, \
    _NUMBER, _EXACT = range(14)
#: What files call them.
CODES = ("any", "flat", "tensor", "nested", "array", "container", "known", "part", "same", "equal", "content",
         "numbers", "number", "exact number")
#: A container that is none of those in a snapshot: the variable of an optimiser.
OWNER = _OWNER = -1
_CELL, _LIST, _TUPLE, _MODULE, _VARIABLES = CELL, LIST, TUPLE, MODULE, VARIABLES
_MISSING = MISSING
_LARGEST = 1 << 63
_NONE: Sequence[Any] = ()
_PLAIN = frozenset((int, str, bool, bytes))


class Found:
    """The inputs of a call that a plan has matched (see :class:`.inputs.Inputs`)."""

    __slots__ = ("arguments", "arrays", "containers", "nodes", "variables")

    containers: list[Any]
    arrays: list[Any]
    nodes: list[core.Node]
    #: The nodes that are arguments of the recording.
    arguments: list[core.Node]
    variables: Sequence[Any]

    def hand_on(self) -> None:
        """Let variables be what the arrays hold that stand for them."""
        for owner, number, _ in self.variables:
            owner.take(self.arrays[number]._nodes())


class Step:
    """One container, and what must be in it."""

    __slots__ = ("cls", "codes", "fixed", "holds", "keys", "kind", "number", "size", "values")

    def __init__(self, number: int, kind: int, cls: Any, fixed: Any, holds: bool = False) -> None:
        self.number, self.kind, self.cls = number, kind, cls
        #: The container itself, if it is always the same.
        self.fixed = fixed
        #: Whether it is an optimiser, or another one that keeps variables.
        self.holds = holds
        self.size = 0
        self.keys: list[Any] = []
        self.codes: list[int] = []
        self.values: list[Any] = []


class Plan:
    """How a call is recognised."""

    __slots__ = ("around", "baked", "count", "distinct", "entry", "first", "flags", "functions", "given", "holders",
                 "literals", "named", "owners", "pairs", "places", "plain", "scope", "steps", "twins", "walked")

    def __init__(self, inputs: Inputs, entry: Any, scope: Any) -> None:
        #: The recording, and what is tracked where it serves.
        self.entry, self.scope = entry, scope
        self.count = len(inputs.containers)
        self.around = [*inputs.around, *entry.kept]
        self.functions = [(each, each.__code__, each.__defaults__, each.__kwdefaults__)
                           for each in inputs.snapshot.functions]
        #: The variables that optimisers keep: their types, steps if they count, whether they do, and types and shapes
        #: of the arrays; the numbers of the optimisers, those of the variables among the containers, and that of the
        #: first array.
        self.owners = [
            (type(owner), steps if counts and not owner.shared else 0, counts, *inputs.described[number][:2])
            for (owner, number, counts), steps in zip(inputs.variables, inputs.steps_before, strict=True)]
        self.holders = [inputs.number(each) for each in inputs.holders]
        self.places = [inputs.number(owner) for owner, _, _ in inputs.variables]
        self.first = len(inputs.arrays) - len(inputs.variables)
        nodes = [primal(node) for node in inputs.nodes]
        self.literals = bytes([node.kind == _LITERAL for node in nodes])
        self.baked = [entry.baked.get(position) for position in range(len(nodes))]
        self.flags = inputs.flags
        #: Of nodes with a vertex, the positions of the first ones with the same.
        self.twins = twins_of(inputs.nodes)
        #: Whether arrays may be one although their memory says nothing of it.
        self.distinct = bool(entry.pattern is None or entry.pattern[-1])
        self.steps: list[Step] = []
        #: Those that matching looks at: not at the arguments as a whole if all calls have positional ones only, which
        #: are, like the empty dictionary of the others, containers of these numbers (-1: those of any call are).
        self.walked = self.steps
        self.given = self.named = -1
        #: Whether all arrays are evaluated ones without derivatives.
        self.plain = False
        #: Containers of one type, which must not be one.
        self.pairs: list[tuple[int, int]] = []

    @classmethod
    def of(cls, inputs: Inputs, entry: Any, scope: Any) -> Plan | None:
        """A plan that recognises calls with the same key; ``None`` if there is something in it that cannot be seen."""
        outcome = entry.outcome
        if outcome.beyond_plans or any(kind == MODULE for _, kind, _, _ in outcome.places) or \
                not inputs.snapshot.is_complete():
            return None
        plan = cls(inputs, entry, scope)
        if not plan._add_steps(inputs):
            return None
        plan.settle()
        return plan if outcome.numbers <= {step.number for step in plan.steps} else None

    def settle(self) -> None:
        """Find out what need not be looked at."""
        self.plain = not any(self.flags) and not any(self.literals) and all(each is None for each in self.baked)
        steps = {step.number: step for step in self.steps}
        tree, self.walked, self.given, self.named = self.steps[0], self.steps, -1, -1
        if tree.number == 0 and tree.codes == [_CONTAINER, _CONTAINER, _EQUAL] and tree.values[2][0] is None:
            args, kwargs = [steps.get(number) for number, _ in tree.values[:2]]
            if args is not None and kwargs is not None and args.fixed is kwargs.fixed is None and kwargs.size == 0:
                self.given, self.named = args.number, kwargs.number
                self.walked = [step for step in self.steps if step is not tree and step is not kwargs]

    def _add_steps(self, inputs: Inputs) -> bool:
        entries = [(container, kind, list(items)) for container, kind, items in inputs.entries()]
        pinned = _pinned(inputs, entries)
        if pinned is None:
            return False
        known: dict[int, Any] = {0: None}
        arrays: dict[int, int] = {}
        types: dict[type, list[int]] = {}
        owners = {id(owner) for owner, _, _ in inputs.variables}
        for position, (container, kind, items) in enumerate(entries):
            number = inputs.number(container)
            fixed = container if number in pinned else None
            if fixed is None and number not in known and id(container) not in owners:
                if position < inputs.own:  # only what no function asks for leads there
                    continue
                fixed = container
            step = Step(number, _OWNER if id(container) in owners else kind, type(container), fixed,
                        number in self.holders)
            known[number] = None
            if kind in (MODULE, CLASS, VARIABLES) or isinstance(container, tuple):
                pass
            elif number:
                types.setdefault(type(container), []).append(number)
            if kind == MODULE and inputs.names is not None:  # also those names that lead to nothing yet
                present = {key for key, _, _ in items}
                items += [(name, vars(container).get(name, MISSING), True) for name in sorted(inputs.names - present)]
            step.size = -1 if kind == VARIABLES or kind == MODULE and inputs.names is not None else \
                len(vars(container)) if kind == MODULE else len(items)
            for key, value, counts in items:
                code, expected = _described(value, inputs, known, arrays) if counts else (_ANY, None)
                if code < 0:
                    return False
                step.keys.append(key)
                step.codes.append(code)
                step.values.append(expected)
            self.steps.append(step)
        if len(arrays) != self.first:
            return False
        for numbers in types.values():
            free = [number for number in numbers if number not in pinned]
            self.pairs += [(one, other) for one in free for other in numbers if one < other or other in pinned]
        return len(self.pairs) <= _MOST_PAIRS

    def match(self, tree: list[Any]) -> Found | None:
        """The inputs of a call with some arguments, if it is like the one before."""
        containers: list[Any] = [None] * self.count
        containers[0] = tree
        found = Found.__new__(Found)  # a constructor would take as long as the rest
        found.containers, found.arrays, found.nodes, found.variables = containers, [], [], _NONE
        if self.given >= 0:
            if tree[1] or tree[2] is not None:
                return None
            containers[self.given], containers[self.named] = tree[0], tree[1]
        for step in self.walked:
            container = containers[step.number]
            if step.fixed is not None:
                if container is None:
                    container = containers[step.number] = step.fixed
                elif container is not step.fixed:
                    return None
            codes, values, position = step.codes, step.values, 0
            kind = step.kind
            if kind == _TUPLE or kind == _LIST:
                content = container if type(container) is tuple or type(container) is list else \
                    listed(container) if kind == _LIST else tuple.__getitem__(container, slice(None))
                if len(content) != step.size:
                    return None
                for value in content:
                    if not _fits(codes[position], values[position], value, found):
                        return None
                    position += 1
            elif kind == _VARIABLES or kind == _MODULE:
                variables: dict[str, Any] = vars(container) if kind == _MODULE else container
                if step.size >= 0 and len(variables) != step.size:
                    return None
                for key in step.keys:
                    if not _fits(codes[position], values[position], variables.get(key, _MISSING), found):
                        return None
                    position += 1
            elif kind == _CELL:
                if not _fits(codes[0], values[0], contents_of(container), found):
                    return None
            elif kind == _OWNER:
                for key in step.keys:
                    if not _fits(codes[position], values[position], getattr(container, key), found):
                        return None
                    position += 1
            else:
                entries = entries_of(container, kind)
                if len(entries) != step.size:
                    return None
                keys = step.keys
                for key, value in entries.items():
                    if key is not keys[position] and not _is_same_key(key, keys[position]):
                        return None
                    if codes[position] and not _fits(codes[position], values[position], value, found):
                        return None
                    position += 1
            if step.holds and not self._find_owners(container, found):
                return None
        for one, other in self.pairs:
            if containers[one] is containers[other]:
                return None
        if self.around:
            for read, value in self.around:
                if read() != value:
                    return None
        for function, code, defaults, others in self.functions:
            if code_of(function) is not code or defaults_of(function) is not defaults or \
                    keyword_defaults_of(function) is not others:
                return None
        for position in range(len(found.variables)):
            owner, number, counts = found.variables[position]
            _, steps, _, cls, shape = self.owners[position]
            if steps != (owner.steps if counts and not owner.shared else 0) or len(found.arrays) != number:
                return None
            array = owner.array()
            if type(array) is not cls or cls._depth < 0 and array._s != shape:
                return None
            found.arrays.append(array)
            found.nodes += array._nodes()
        return found if self._collect(found) else None

    def _find_owners(self, holder: Any, found: Found) -> bool:
        """Find the variables that an optimiser keeps: the places of their containers are known."""
        place = len(found.variables)
        variables = list(found.variables)
        for owner, counts in holder.__drjit_variables__():
            if place >= len(self.owners) or self.owners[place][2] is not counts or \
                    type(owner) is not self.owners[place][0]:
                return False
            container = self.places[place]
            found.containers[container] = owner
            variables.append((owner, self.first + place, counts))
            place += 1
        found.variables = variables
        return True

    def _collect(self, found: Found) -> bool:
        """Find the arguments of the recording among the nodes."""
        nodes, flags, literals, known = found.nodes, self.flags, self.literals, self.baked
        if len(nodes) != len(flags):
            return False
        if self.plain and _are_evaluated(nodes):
            found.arguments = nodes
            return not self.distinct or _are_distinct(found.arrays)
        arguments: list[core.Node] = []
        found.arguments = arguments
        pending: list[core.Node] | None = None
        gradients: list[core.Node] | None = None
        seen: dict[int, int] | None = None
        evaluated = True
        for position, node in enumerate(nodes):
            value = primal(node)
            if value is not node:
                if flags[position] != flag_of(node):
                    return False
                vertex: Any = vertex_of(node)
                if seen is None:
                    seen = {}
                if seen.setdefault(id(vertex), position) != self.twins[position]:
                    return False
                if vertex.gradient is not None and self.twins[position] == position:
                    gradient = primal(vertex.gradient)
                    if gradients is None:
                        gradients = []
                    gradients.append(gradient)
                    if gradient.kind != _EVALUATED:
                        if pending is None:
                            pending = []
                        pending.append(gradient)
            elif flags[position]:
                return False
            baked = known[position]
            if value.kind != _EVALUATED:
                if value.kind == _UNDEFINED or (value.kind == _LITERAL) != literals[position]:
                    return False
                if baked is None and core.is_unusable(value):
                    return False
                evaluated = False
                if value.kind != _LITERAL:
                    if pending is None:
                        pending = []
                    pending.append(value)
            elif literals[position]:
                return False
            if baked is None:
                arguments.append(value)
            elif baked != (value.type, value.payload, value.size):
                return False
        if gradients is not None:
            arguments += gradients
        if (self.distinct or not evaluated) and not _are_distinct(found.arrays):
            return False
        if pending is not None:
            core.evaluate(pending)
        return True


def _are_evaluated(nodes: list[core.Node]) -> bool:
    for node in nodes:  # noqa: SIM110  (compiled)
        if node.kind != _EVALUATED:
            return False
    return True


def _are_distinct(arrays: list[Any]) -> bool:
    return len(arrays) < 2 or len(set(map(id, arrays))) == len(arrays)


def _is_same_key(key: Any, known: Any) -> bool:
    """Whether keys are equal, and neither refers to anything."""
    return type(key) is type(known) and type(key) in _PLAIN and key == known


def _fits(code: int, expected: Any, value: Any, found: Found) -> bool:
    """Whether a value is as expected; what is seen for the first time is noted."""
    if code == _EQUAL:
        pair = expected
        return value is pair[0] or type(value) is type(pair[0]) and (
            value == pair[0] if type(value) in _PLAIN else token_of(value) == pair[1])
    if code == _SAME:
        return value is expected
    if code == _FLAT:
        if type(value) is not expected:
            return False
        array = value
        if array._o is not None:
            return False
        found.arrays.append(array)
        found.nodes.append(array._n)
        return True
    if code == _CONTAINER:
        pair = expected
        if type(value) is not pair[1]:
            return False
        found.containers[pair[0]] = value
        return True
    if code == _KNOWN:
        return value is found.containers[expected]
    if code == _ARRAY:
        return value is found.arrays[expected]
    if code == _TENSOR:
        pair = expected
        if type(value) is not pair[0]:
            return False
        array = value
        if array._o is not None or array._s != pair[1]:
            return False
        found.arrays.append(array)
        found.nodes.append(array._n)
        return True
    if code == _NESTED:
        if type(value) is not expected[0]:
            return False
        array = value
        if array._o is not None or len(array._c) != expected[1]:
            return False
        found.arrays.append(array)
        found.nodes += array._c
        return True
    if code == _CONTENT:
        return type(value) is type(expected[0]) and token_of(value) == expected[1]
    if code == _PART:
        if type(value) is not expected[0]:
            return False
        owner, offset = owner_of(value)
        if type(owner) is not expected[1] or offset != expected[3]:
            return False
        if expected[2] < len(found.arrays):
            return found.arrays[expected[2]] is owner
        nodes = owner._nodes()
        if (owner._s if owner._depth < 0 else len(nodes)) != expected[4]:
            return False
        found.arrays.append(owner)
        found.nodes += nodes
        return True
    if code == _NUMBER:
        number = real_number(value)
        if number is None:
            return False
        array = fresh_array(expected)
        array._o = None
        array._n = literal(expected._type, number)
        found.arrays.append(array)
        found.nodes.append(array._n)
        return True
    if code == _EXACT:
        pair = expected
        if type(value) is not pair[1] or pair[1] is int and not -_LARGEST <= value < _LARGEST:
            return False
        array = fresh_array(pair[0])
        array._o = None
        array._n = literal(array._type, value)
        found.arrays.append(array)
        found.nodes.append(array._n)
        return True
    if code == _NUMBERS:
        return type(value) is expected[0] and [primal(node).payload for node in value._nodes()] == expected[1]
    return True


def _described(value: Any, inputs: Inputs, known: dict[int, Any], arrays: dict[int, int]) -> tuple[int, Any]:
    """What is known of a value; a negative number if that is not enough."""
    number = inputs.number(value)
    if number >= 0:
        if keeps_more(value):
            return (_SAME, value) if version_of(value) is None else (-1, None)
        if hides(value) or kind_at(value) == GENERATOR:
            return (_SAME, value) if kind_at(value) == VALUE and not isinstance(value, ArrayBase) else (-1, None)
        if number in known:
            return _KNOWN, number
        known[number] = None
        return _CONTAINER, (number, type(value))
    if isinstance(value, ArrayBase):
        if not value._dynamic:
            return _NUMBERS, (type(value), [primal(node).payload for node in value._nodes()])
        owner, offset = owner_of(value)
        new = id(owner) not in arrays
        place = arrays.setdefault(id(owner), len(arrays))
        if new and inputs.number_of_array(owner) != place:
            return -1, None
        shape: Any = inputs.shape_of(place)
        if owner is not value:
            return _PART, (type(value), type(owner), place, offset, shape)
        if not new:
            return _ARRAY, place
        if value._depth < 0:
            return _TENSOR, (type(value), shape)
        made = inputs.number_at(value)
        if made is not None:
            return (_NUMBER, type(value)) if made.exactly is None else (_EXACT, (type(value), made.exactly))
        return (_NESTED, (type(value), shape)) if value._depth else (_FLAT, type(value))
    kind = kind_at(value)
    if kind in (GENERATOR, REFERRING) and not (isinstance(value, frozenset) and not _refer(value)):
        return -1, None
    if kind == DATA:
        _, token = inputs.data.get(id(value), (None, None))  # of before the call, which may have changed it
        return (-1, None) if token is None or isinstance(value, set) and _refer(value) else (_CONTENT, (value, token))
    if kind in (FUNCTION, METHOD, PARTIAL) or callable(value) or value is MISSING:
        return _SAME, value
    return _EQUAL, (value, token_of(value))


def _refer(values: Any) -> bool:
    return any(kind_at(value) != VALUE for value in values)


#: So many containers of one type are compared with each other.
_MOST_PAIRS = 64


def _pinned(inputs: Inputs, entries: Sequence[Any]) -> set[int] | None:
    """The containers that are reached through objects that do not show it, which are always the same then; ``None`` if
    these may lead to others later."""
    found: set[int] = set()
    todo = [value for _, _, items in entries for _, value, counts in items if counts]
    todo.append(inputs.function)
    seen: set[int] = set()
    while todo:
        value = todo.pop()
        kind = kind_at(value)
        if kind == VALUE and hides(value) or keeps_more(value):
            found.add(inputs.number(value))
        if kind not in (METHOD, PARTIAL, FUNCTION) or id(value) in seen:
            continue
        seen.add(id(value))
        if kind == METHOD:
            parts = [value.__self__, value.__func__]
        elif kind == PARTIAL:
            parts = [value.func, *value.args, *value.keywords.values()]
        else:
            parts = [value.__kwdefaults__]
        for part in parts:
            if isinstance(part, ArrayBase):
                return None
            number = inputs.number(part)
            if number >= 0:
                found.add(number)
            else:
                todo.append(part)
    for container, kind, _ in entries:
        if kind in (MODULE, CLASS, VARIABLES, CELL):
            found.add(inputs.number(container))
    return found
