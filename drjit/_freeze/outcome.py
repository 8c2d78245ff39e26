"""What a call of a frozen function has done, in terms of its inputs: what it returned, and what it did to objects.

An :class:`Outcome` is made when the function is recorded, from the objects themselves; :meth:`Outcome.apply` does the
same for another call, given the nodes that this has computed. Objects that were there before the call are themselves;
those that the function made are made anew, each once, wherever they are found.
"""

from __future__ import annotations

import array as arrays
import copy
import math
import threading
from collections import deque
from collections.abc import Container, Sequence
from typing import Any

import drjit_core as core
from drjit_core import CONSUMED, LEAF, JitFlag, Vertex, dual, primal, vertex_of

from .._access.store import owner_of, store, store_same
from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.handle import fresh_array
from .._base.types import FLOAT64, INT64
from .._base.values import is_ndarray
from .._control.places import Change, reorder
from .._trees.contents import attributes_of, has_attribute, listed, set_data, write_attribute, write_place
from .._trees.holders import has_array
from .._trees.kinds import (
    BUILTIN,
    CLASS,
    DATA,
    FUNCTION,
    GENERATOR,
    LIST,
    METHOD,
    MISSING,
    OBJECT,
    PARTIAL,
    REFERRING,
    about,
    is_own,
    kind_at,
)
from .._trees.pytree import is_pytree
from .inputs import Inputs, NotANumber, fill, token_of
from .plan import Found

__all__ = ["TEMPLATES", "Outcome"]


#: How values are made again: an object of the recorded call; a copy of an array of numbers; a container, an array or a
#: part of one that was there before; what has been made already; an array, above all a flat one without derivatives;
#: containers; data that was there before, and a copy of such that was not; a number that follows from others.
_CONSTANT, _COPY, _CONTAINER, _INPUT, _VIEW, _AGAIN, _FLAT, _ARRAY, _DICT, _TUPLE, _LIST, _DEQUE, _OBJECT, _METHOD, \
    _WITH, _DATA, _NEW_DATA, _COMPUTED = range(18)
#: What files call them.
TEMPLATES = ("constant", "copy", "container", "input", "view", "again", "flat", "array", "dict", "tuple", "list",
             "deque", "object", "method", "with", "data", "new data", "computed number")
#: Nodes by their slots, with what is tracked of them: nothing, the variable of an input, one of its own, or what
#: depends on inputs, by their numbers: what has one vertex has one in each call.
_PLAIN, _OF_INPUT, _LEAF, _RESULT = range(4)
_Value = tuple[int, int, int]
#: Positions of inputs, numbers of what begins in a call, and of results; ``()``: unknown; ``None``: of a variable.
_Origins = tuple[list[int], list[int], list[int]] | tuple[()] | None
#: What prints has memory of one call at a time.
_acting = threading.RLock()


def _is_copied(value: Any) -> bool:
    """Whether nobody must get data twice, since the first one may change it."""
    return isinstance(value, set | bytearray | arrays.array) or is_ndarray(value)


class Outcome:
    """What a call has done; ``nodes`` are what the recording returns."""

    __slots__ = ("_alive", "_begun", "_inner", "_inputs", "_known", "_leaves", "_made", "_needs", "beyond_plans",
                 "data", "diff", "gradients", "groups", "keep", "nodes", "numbers", "orders", "places", "reached",
                 "received", "result", "started", "starts", "statements", "steps", "stores", "vertices")

    def __init__(self, inputs: Inputs, given: Sequence[core.Node], result: Any,
                 statements: Sequence[core.Statement]) -> None:
        self._inputs: Any = inputs
        self.nodes: list[core.Node] = []
        self._leaves = {id(vertex): position for position, node in enumerate(given)
                        if (vertex := vertex_of(node)) is not None}
        self._made: dict[int, int] = {}
        #: What is known of vertices.
        self._known: dict[int, tuple[int, int]] = {}
        #: Objects that templates refer to.
        self.keep: list[Any] = []
        self._alive: list[Any] = []  # as long as ids count
        #: What begins in the call: the slot of a value, or -1 if nobody sees it, that of its gradient, or -1, and if a
        #: traversal has taken apart what was behind it, where changes have come from.
        self.starts: list[tuple[int, int, _Origins]] = []
        self._begun: list[Vertex] = []
        self._inner: dict[int, int] = {}
        #: The slots of what is computed of variables, with the vertices, and what these depend on.
        self.diff: list[int] = []
        self.vertices: list[Vertex] = []
        self._needs: list[list[int]] = []
        #: The slots of gradients that the function has given to these, or -1.
        self.received: list[int] = []
        #: Which of them depend on which variables, inputs by their positions, and what begins in the call by -1, -2, …
        self.groups: dict[tuple[int, ...], list[int]] = {}
        #: The containers that the outcome refers to; whether it refers to what plans do not find: parts of arrays that
        #: were there before, and data.
        self.numbers: set[int] = set()
        self.beyond_plans = False
        #: Arrays that hold something else: their number, what, and the shape of a tensor.
        self.stores: list[tuple[int, tuple[_Value, ...], Any]] = []
        inputs.fetch()
        inputs.require_waiting()
        #: The data that holds something else, and what.
        self.data: list[tuple[int, Any]] = inputs.changed_data()
        self.beyond_plans = bool(self.data)
        #: How many steps variables have made.
        self.steps = inputs.steps()
        position = 0
        for number, array in enumerate(inputs.arrays):
            now = array._nodes()
            before = given[position:position + len(now)]
            position += len(now)
            if any(primal(a) is not primal(b) or vertex_of(a) is not vertex_of(b)
                   for a, b in zip(now, before, strict=True)):
                if inputs.number_at(array) is not None:
                    raise NotANumber("it is changed")
                self.stores.append((number, tuple(map(self._value, now)), array._s if array._depth < 0 else None))
        #: Gradients that inputs have got: the position of the node, the slot (-1: none any more), and whether they are
        #: to flow on to what the input depends on.
        self.gradients: list[tuple[int, int, bool]] = []
        #: The positions of inputs at which derivatives have begun to flow forward; and of those that they have flowed
        #: to, or could have, from what the inputs depend on.
        self.started: list[int] = []
        self.reached: list[int] = []
        #: What is in places now.
        self.places: list[tuple[int, int, Any, Any]] = []
        lists: dict[int, Any] = {}
        for change in inputs.changes():
            self._note(change, lists)
        #: Dictionaries whose entries are in another order, with their keys.
        self.orders = [(inputs.number(table), keys) for table, keys in inputs.orders()]
        self.numbers.update([number for number, _ in self.orders])
        self.result = self._template(result)
        #: What prints or asserts, with the slots of its memory.
        self.statements = [(statement, [self._slot(memory.node) for memory in statement.memory])
                           for statement in statements]

    def _note(self, change: Change, lists: dict[int, Any]) -> None:
        container = change.container
        number = self._inputs.number(container)
        self.numbers.add(number)
        if change.kind == LIST:
            if id(container) not in lists:
                lists[id(container)] = container
                self.places.append((number, LIST, None, tuple(map(self._template, listed(container)))))
        else:
            now = change.now
            if change.kind in (OBJECT, CLASS) and not has_attribute(container, change.kind, change.key):
                now = MISSING  # whatever a class shows there
            self.places.append((number, change.kind, change.key, self._template(now)))

    def note_gradients(self, given: Sequence[core.Node], before: Sequence[core.Node | None],
                       postponed: Container[int], recorder: Any) -> None:
        """Note what gradients of the inputs have become, some of which wait to flow on, and of results; and how
        derivatives have flowed forward."""
        for position, node in enumerate(given):
            vertex = vertex_of(node)
            if vertex is None or self._leaves[id(vertex)] != position:
                continue
            gradient = vertex.gradient
            if gradient is not before[position] or vertex.id in postponed:
                self.gradients.append((position, -1 if gradient is None else self._slot(primal(gradient)),
                                       gradient is not None and vertex.id in postponed))
            if vertex.id in recorder.started:
                self.started.append(position)
            if vertex.id in recorder.reached:
                self.reached.append(position)
        self.received = [-1 if vertex.gradient is None else self._slot(primal(vertex.gradient))
                         for vertex in self.vertices]
        for number, every in enumerate(self._needs):
            needed = tuple([each for each in every if each >= 0 or self.starts[-1 - each][0] >= 0])
            self.groups.setdefault(needed, []).append(number)
        self.starts = [(slot, gradient, self._origins(vertex))
                       for vertex, (slot, gradient, _) in zip(self._begun, self.starts, strict=True)]

    def _slot(self, node: core.Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _value(self, node: core.Node) -> _Value:
        slot, vertex = self._slot(primal(node)), vertex_of(node)
        if vertex is None:
            return slot, _PLAIN, 0
        position = self._leaves.get(id(vertex))
        if position is not None:
            return slot, _OF_INPUT, position
        known = self._known.get(id(vertex))
        if known is None:
            known = self._known[id(vertex)] = self._entered(slot, vertex)
            self._alive.append(vertex)
        return slot, *known

    def _entered(self, slot: int, vertex: Vertex) -> tuple[int, int]:
        """What a vertex is that is seen for the first time."""
        needed = None if vertex.rule is LEAF or vertex.rule is CONSUMED else self._needed(vertex)
        if needed is None:
            number = self._begin(vertex)
            gradient = vertex.gradient
            self.starts[number] = slot, -1 if gradient is None else self._slot(primal(gradient)), None
            return _LEAF, number
        self._needs.append(needed)
        self.diff.append(slot)
        self.vertices.append(vertex)
        return _RESULT, len(self.diff) - 1

    def _begin(self, vertex: Vertex) -> int:
        """The number of a vertex that begins in the call."""
        number = self._inner.setdefault(id(vertex), len(self.starts))
        if number == len(self.starts):
            self.starts.append((-1, -1, None))
            self._begun.append(vertex)
        return number

    def _needed(self, vertex: Vertex) -> list[int] | None:
        """The variables that a vertex depends on; ``None`` if it does on something that has been taken apart."""
        found, seen, todo = set[int](), {id(vertex)}, [vertex]
        while todo:
            for operand in todo.pop().operands():
                if id(operand) not in seen:
                    seen.add(id(operand))
                    if id(operand) in self._leaves:
                        found.add(self._leaves[id(operand)])
                    elif operand.rule is LEAF:
                        found.add(-1 - self._begin(operand))
                    elif operand.rule is CONSUMED:
                        return None
                    else:
                        todo.append(operand)
        return sorted(found)

    def _origins(self, vertex: Vertex) -> _Origins:
        """Where changes have come from to what a traversal has taken apart; nothing if nobody can know."""
        if vertex.rule is LEAF:
            return None
        found: tuple[list[int], list[int], list[int]] = [], [], []
        for source in vertex.info or () if vertex.rule is CONSUMED else ():
            position = self._leaves.get(id(source))
            if position is not None:
                found[0].append(position)
            elif id(source) in self._known:
                kind, number = self._known[id(source)]
                found[1 if kind == _LEAF else 2].append(number)
            elif source.gradient is not None:
                return ()
        return found if vertex.rule is CONSUMED and vertex.info is not None else ()

    def variables(self) -> list[Vertex]:
        """What begins in the call, as derivatives do that come in later, and is seen by others."""
        return [vertex for vertex, (slot, *_) in zip(self._begun, self.starts, strict=True)
                if slot >= 0 and vertex.rule is LEAF]

    def variables_among(self, results: Sequence[core.Node]) -> list[core.Node]:
        """The values of these in a call."""
        return [results[slot] for slot, _, origins in self.starts if slot >= 0 and origins is None]

    def begin(self, results: Sequence[core.Node]) -> list[Any]:
        """Vertices for what begins in a call."""
        found: list[Any] = []
        for slot, gradient, origins in self.starts:
            if slot < 0:
                found.append(None)
                continue
            vertex = Vertex(LEAF if origins is None else CONSUMED, results[slot].type, results[slot].size)
            if gradient >= 0:
                vertex.gradient = results[gradient]
            found.append(vertex)
        return found

    def remember(self, begun: Sequence[Any], nodes: Sequence[core.Node], outputs: Sequence[core.Node]) -> None:
        """Let what has been taken apart know where changes have come from: inputs, what begins, and results."""
        for vertex, (_, _, origins) in zip(begun, self.starts, strict=True):
            if vertex is not None and origins:
                vertex.info = (*[vertex_of(nodes[number]) for number in origins[0]],
                               *[begun[number] for number in origins[1]],
                               *[vertex_of(outputs[number]) for number in origins[2]])

    # --- values -------------------------------------------------------------------------------------------------------

    def _template(self, value: Any) -> Any:
        """How a value is made again."""
        if type(value) is core.Extent:
            return self._template_of_number(value)
        number = self._inputs.number(value)
        if number >= 0:
            self.numbers.add(number)
            return _CONTAINER, number
        if isinstance(value, ArrayBase):
            return self._template_of_array(value)
        if isinstance(value, core.Node):
            raise RuntimeError("drjit.freeze(): the function changes an object whose state cannot be "
                               "repeated. Keep it outside of the frozen function.")
        number = self._inputs.number_of_data(value)
        if number >= 0:
            self.beyond_plans = True
            return _DATA, number
        if value is MISSING or not (isinstance(value, list | tuple | dict | deque) or is_pytree(type(value)) or
                                    _is_copied(value) or has_array(value) or _has_number(value)):
            if is_own(type(value).__module__) and any(
                    isinstance(entry, core.Node | ArrayBase) for entry in attributes_of(value).values()):
                raise RuntimeError("drjit.freeze(): the function makes a parameter of an optimiser, or another object "
                                   f"({describe(value)}) that later calls would share. Make it before the call.")
            self.keep.append(value)
            return _CONSTANT, token_of(value), len(self.keep) - 1
        known = self._made.get(id(value))
        if known is not None:
            return _AGAIN, known
        place = self._made[id(value)] = len(self._made)
        self._alive.append(value)
        cls, kind = type(value), kind_at(value)
        if about(cls).has_more and attributes_of(value):
            return _WITH, self._content(value, place, cls, kind), 0, 0, self._attributes(value)
        return self._content(value, place, cls, kind)

    def _template_of_number(self, value: Any) -> Any:
        if type(value.value) not in (int, float) or type(value.value) is int and not -(1 << 63) <= value < 1 << 63:
            return self._template(value.pinned())
        cls = type(value.value)
        return _COMPUTED, cls, self._slot(core.bound(INT64 if cls is int else FLOAT64, value))

    def _attributes(self, value: Any) -> Any:
        return tuple([(key, self._template(entry)) for key, entry in attributes_of(value).items()])

    def _content(self, value: Any, place: int, cls: Any, kind: int) -> Any:
        """How the content of an object is made again."""
        if kind == METHOD:
            return _METHOD, place, cls, 0, (self._template(value.__func__), self._template(value.__self__))
        if kind == DATA and _is_copied(value) and not has_array(value):
            self.keep.append(copy.copy(value))
            return _NEW_DATA, place, cls, len(self.keep) - 1, token_of(value)
        if kind in (FUNCTION, PARTIAL, BUILTIN, REFERRING, DATA, GENERATOR):
            raise RuntimeError(f"drjit.freeze(): the function returns, or puts somewhere, an object of type "
                               f"{describe(value)} that refers to arrays, of which later calls have others. Return the "
                               "arrays, or keep them in lists, dictionaries or objects.")
        if kind == LIST and is_ndarray(value):
            entries = listed(value)
            if any(type(entry) is core.Extent for entry in entries):
                raise NotANumber("it is in an array of NumPy")
            shell = copy.copy(value)
            fill(shell, [None] * len(entries))
            self.keep.append(shell)
            return _NEW_DATA, place, cls, len(self.keep) - 1, token_of(shell), tuple(map(self._template, entries))
        if isinstance(value, dict):
            shell = copy.copy(value)
            shell.clear()
            self.keep.append(shell)
            number = len(self.keep) - 1
            return _DICT, place, cls, number, tuple([(key, self._template(entry)) for key, entry in value.items()])
        if isinstance(value, tuple):
            return _TUPLE, place, cls, 0, tuple(map(self._template, value))
        if isinstance(value, list):
            return _LIST, place, cls, 0, tuple(map(self._template, value))
        if isinstance(value, deque):
            return _DEQUE, place, cls, value.maxlen, tuple(map(self._template, value))
        return _OBJECT, place, cls, 0, self._attributes(value)

    def _template_of_array(self, array: Any) -> Any:
        if not array._dynamic:
            self.keep.append(array)
            return _COPY, type(array), tuple([primal(node).payload for node in array._nodes()]), len(self.keep) - 1
        owner, offset = owner_of(array)
        if owner is array:
            number = self._inputs.number_of_array(array)
            if number >= 0:
                if self._inputs.number_at(array) is not None:
                    raise NotANumber("it is kept, or returned")
                return _INPUT, number
        else:
            for tree_array in self._inputs.arrays:
                if tree_array is owner:
                    for entry in self._inputs.snapshot.values():
                        if entry is array:
                            self.beyond_plans = True
                            return _VIEW, self._inputs.number_of_array(owner), offset, type(array)
        known = self._made.get(id(array))
        if known is not None:
            return _AGAIN, known
        place = self._made[id(array)] = len(self._made)
        self._alive.append(array)
        values = tuple(map(self._value, array._nodes()))
        if not array._depth and values[0][1] == _PLAIN:
            return _FLAT, place, type(array), values[0][0]
        return _ARRAY, place, type(array), values, array._s if array._depth < 0 else None

    def settle(self) -> None:
        """Forget what only the recording needs."""
        self.nodes, self.vertices, self._alive, self._inputs = [], [], [], None
        self._leaves, self._made, self._known, self._inner = {}, {}, {}, {}
        self._begun, self._needs = [], []
        for statement, _ in self.statements:
            for memory in statement.memory:
                memory.node = core.invalid(memory.node.type)

    def is_like(self, other: Outcome) -> bool:
        """Whether another outcome is the same."""
        return self.stores == other.stores and self.data == other.data and self.gradients == other.gradients and \
            self.places == other.places and self.orders == other.orders and self.result == other.result and \
            self.diff == other.diff and self.groups == other.groups and self.starts == other.starts and \
            self.received == other.received and \
            self.started == other.started and self.reached == other.reached and \
            [slots for _, slots in self.statements] == [slots for _, slots in other.statements]

    def act(self, results: list[core.Node]) -> None:
        """Print and assert what the recorded call did, given what was computed."""
        with _acting, core.scoped_set_flag(JitFlag.ForbidSynchronization, False):
            for statement, slots in self.statements:
                for memory, slot in zip(statement.memory, slots, strict=True):
                    memory.node = results[slot]
                try:
                    statement.act()
                finally:
                    for memory in statement.memory:
                        memory.node = core.invalid(memory.node.type)

    def outline(self) -> Any:
        """What is equal for two outcomes that differ in nothing but the arrays that they are computed of."""
        return _outline(self.result), [(number, kind, key, _outline(template) if kind != LIST else list(
            map(_outline, template))) for number, kind, key, template in self.places], len(self.stores), len(
                self.gradients), len(self.diff), len(self.statements), self.steps, self.data

    # --- again --------------------------------------------------------------------------------------------------------

    def apply(self, inputs: Inputs | Found, results: list[core.Node], outputs: list[core.Node],
              begun: list[Any]) -> Any:
        """Do for a call what the recorded one did, given what was computed; ``outputs`` are results with derivatives,
        ``begun`` vertices of what begins in the call."""
        template = self.result
        if template[0] == _FLAT and not self.stores and not self.places and not self.data and not self.orders:
            array = fresh_array(template[2])
            array._o = None
            array._n = results[template[3]]
            return array
        return _Application(self.keep, inputs, results, outputs, begun).run(self)


def _outline(template: Any) -> Any:
    """A template without the numbers of arrays."""
    kind = template[0]
    if kind == _FLAT or kind == _ARRAY:
        return _ARRAY, template[2], template[4] if kind == _ARRAY else None
    if kind == _TUPLE or kind == _LIST or kind == _DEQUE:
        return kind, template[2], list(map(_outline, template[4]))
    if kind == _METHOD:
        return kind, list(map(_outline, template[4]))
    if kind == _WITH:
        return kind, _outline(template[1]), [(key, _outline(entry)) for key, entry in template[4]]
    if kind == _DICT or kind == _OBJECT:
        return kind, template[2], [(key, _outline(entry)) for key, entry in template[4]]
    if kind == _NEW_DATA:
        return kind, template[4], list(map(_outline, template[5])) if len(template) > 5 else []
    return (kind,) if kind in (_INPUT, _VIEW, _AGAIN) else template[:-1]


def _has_number(value: Any) -> bool:
    """Whether an object has attributes that are numbers of the recording."""
    return kind_at(value) == OBJECT and any(type(entry) is core.Extent for entry in attributes_of(value).values())


#: Of types that are made when programs run.
_HEAP_TYPE = 1 << 9


def _blank(cls: Any) -> Any:
    """An object of a class without contents, as the nearest class makes it that is compiled."""
    for base in cls.__mro__:
        if not base.__flags__ & _HEAP_TYPE:
            return base.__new__(cls)
    return object.__new__(cls)


class _Application:
    """One call."""

    __slots__ = ("begun", "inputs", "keep", "made", "outputs", "results")

    def __init__(self, keep: list[Any], inputs: Any, results: list[core.Node], outputs: list[core.Node],
                 begun: list[Any]) -> None:
        self.keep, self.inputs, self.results, self.outputs, self.begun = keep, inputs, results, outputs, begun
        self.made: dict[int, Any] = {}

    def run(self, outcome: Outcome) -> Any:
        inputs = self.inputs
        found: list[Any] = []
        if outcome.places:  # what is made of what was there, before that changes
            containers = inputs.containers
            found = [(kind, containers[number], key, [self.value(each) for each in template] if kind == LIST else
                      self.value(template)) for number, kind, key, template in outcome.places]
        result = self.value(outcome.result)
        if outcome.stores:
            stored = [[self.node(value) for value in nodes] for _, nodes, _ in outcome.stores]
            for (number, _, shape), nodes in zip(outcome.stores, stored, strict=True):
                array = inputs.arrays[number]
                if shape is not None and shape != array._s:
                    store(array, array._nodes())
                    array._s = shape
                    store_same(array, nodes)
                else:
                    store(array, nodes)
        for number, content in outcome.data:
            set_data(inputs.data_at(number), content)
        for kind, container, key, value in found:
            if kind == LIST:
                fill(container, value)
            elif kind in (OBJECT, CLASS) and value is not MISSING:
                write_attribute(container, kind, key, value)
            else:
                write_place(container, kind, key, value)
        for number, keys in outcome.orders:
            reorder(inputs.containers[number], keys)
        if inputs.variables:
            inputs.hand_on()
            for (owner, _, _), steps in zip(inputs.variables, outcome.steps, strict=True):
                owner.steps += steps
        return result

    def node(self, value: _Value) -> core.Node:
        slot, kind, number = value
        node = self.results[slot]
        if kind == _PLAIN:
            return node
        if kind == _OF_INPUT:
            vertex = vertex_of(self.inputs.nodes[number])
            assert vertex is not None
            return dual(node, vertex)
        if kind == _LEAF:
            return dual(node, self.begun[number])
        vertex = vertex_of(self.outputs[number])
        assert vertex is not None
        return dual(node, vertex)

    def value(self, template: Any) -> Any:
        kind = template[0]
        if kind == _FLAT:
            array = fresh_array(template[2])
            array._o = None
            array._n = self.results[template[3]]
            self.made[template[1]] = array
            return array
        if kind == _CONSTANT:
            return self.keep[template[2]]
        if kind == _ARRAY:
            return self.array(template)
        if kind == _TUPLE or kind == _LIST or kind == _DEQUE:
            return self.sequence(template)
        if kind == _DICT:
            found: Any = {}
            if template[2] is not dict:
                found = copy.copy(self.keep[template[3]])
            self.made[template[1]] = found
            for key, entry in template[4]:
                found[key] = self.value(entry)
            return found
        if kind == _CONTAINER:
            return self.inputs.containers[template[1]]
        if kind == _INPUT:
            return self.inputs.arrays[template[1]]
        if kind == _AGAIN:
            return self.made[template[1]]
        if kind == _OBJECT:
            return self.instance(template)
        if kind == _METHOD:
            return template[2](*map(self.value, template[4]))
        if kind == _WITH:
            return self.filled(self.value(template[1]), template[4])
        if kind == _DATA:
            return self.inputs.data_at(template[1])
        if kind == _NEW_DATA:
            found = self.made[template[1]] = copy.copy(self.keep[template[3]])
            if len(template) > 5:  # a NumPy array of objects
                fill(found, [self.value(entry) for entry in template[5]])
            return found
        if kind == _COMPUTED:
            return self.results[template[2]].payload
        if kind == _COPY:
            kept = self.keep[template[3]]
            return type(kept)(kept)
        return self.view(template)

    def view(self, template: Any) -> Any:
        owner = self.inputs.arrays[template[1]]
        for entry in self.inputs.snapshot.values():
            if type(entry) is template[3] and entry._o is not None:
                whole, offset = owner_of(entry)
                if whole is owner and offset == template[2]:
                    return entry
        raise AssertionError("a part of an argument is not there")

    def array(self, template: Any) -> Any:
        _, place, cls, values, shape = template
        array = fresh_array(cls)
        array._o = None
        nodes = [self.node(value) for value in values]
        if cls._depth > 0:
            array._c = nodes
        else:
            array._n = nodes[0]
            if shape is not None:
                if math.prod(shape) != nodes[0].size:
                    raise AssertionError(f"a tensor of shape {shape} with {nodes[0].size} elements")
                array._s = shape
        self.made[place] = array
        return array

    def sequence(self, template: Any) -> Any:
        kind, place, cls, length, entries = template
        found: Any
        if kind == _TUPLE:
            values = [self.value(entry) for entry in entries]
            found = self.made[place] = tuple(values) if cls is tuple else tuple.__new__(cls, values)
            return found
        found = self.made[place] = [] if cls is list else cls.__new__(cls)
        if kind == _DEQUE:
            deque.__init__(found, (), length)
        for entry in entries:  # which may refer to the list
            (deque if kind == _DEQUE else list).append(found, self.value(entry))
        return found

    def instance(self, template: Any) -> Any:
        _, place, cls, _, entries = template
        found = self.made[place] = _blank(cls)
        return self.filled(found, entries)

    def filled(self, found: Any, attributes: Any) -> Any:
        """An object with its attributes."""
        for key, entry in attributes:
            object.__setattr__(found, key, self.value(entry))
        return found
