"""What translated functions call: tests for masks, loops and branches that elements leave early, ranges of arrays."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from types import CellType
from typing import Any

import drjit_core as core
from drjit_core import JitFlag

from ..._base.array import ArrayBase
from ..._base.errors import ArgumentError, describe
from ..._functions.elementwise import FUNCTIONS
from ..._functions.traits import int_array_t
from ..._trees.classes import field_types, sole_array
from ..._trees.pytree import TreeSpec, flatten_nodes, is_pytree
from ..branch import if_stmt
from ..loop import loop_of
from ..outside import TracedAgain

__all__ = ["HELPERS", "UNSET"]

_select = FUNCTIONS["select"]



class _Unset:
    """What stands for a variable without a value in the state of a loop or branch."""

    def __repr__(self) -> str:
        return "<a variable that is not assigned>"


UNSET = _Unset()


def is_vector(value: Any) -> bool:
    """Whether a condition is an array, which elements may fulfil or not; masks of other packages are some, too."""
    array = sole_array(value)
    return isinstance(array, ArrayBase) and array._dynamic and (array is value or array._kind == "b")


def remaining(*flags: Any) -> Any:
    """The elements for which none of some flags is set: each is a mask, or a ``bool`` for all elements."""
    found: Any = True
    for flag in flags:
        if flag is True:
            return False
        if flag is not False:
            found = ~flag if found is True else found & ~flag
    return found


def going(condition: Any, *flags: Any) -> Any:
    """The condition of a loop that elements may have left: no flag is set, and the condition holds."""
    left = remaining(*flags)
    return condition if left is True else left & sole_array(condition)


def either(first: Any, second: Any) -> Any:
    """The elements for which one of two flags is set."""
    if first is True or second is True:
        return True
    return second if first is False else first if second is False else first | second


def negated(value: Any) -> Any:
    """``not value``, for each element of a mask."""
    value = sole_array(value)
    return ~value if is_vector(value) and value._kind == "b" else not value


# --- ranges ----------------------------------------------------------------------------------------------------------


class ArrayRange:
    """``range(…)`` of arrays: where each element begins, ends, and by what it steps."""

    __slots__ = ("start", "step", "stop")

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        self.start, self.stop, self.step = start, stop, step


def array_range(*args: Any) -> Any:
    """Python's ``range``, or a range of arrays."""
    if not any(map(is_vector, args)) or not 1 <= len(args) <= 3:
        return range(*args)
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1) if len(args) == 2 else args
    for name, value in (("start", start), ("stop", stop), ("step", step)):
        if is_vector(value):
            if value._depth > 0 or value._kind not in "iu":
                raise TypeError(f"drjit.syntax: 'range()' takes one-dimensional arrays of integers or Python numbers, "
                                f"found {describe(value)} as '{name}'.")
        elif not isinstance(value, int):
            raise TypeError(f"drjit.syntax: 'range()' takes integers, found {describe(value)} as '{name}'.")
    if step.__class__ is int and step == 0:
        raise ValueError("range() arg 3 must not be zero")
    common, *others = filter(is_vector, (start, stop, step))
    for value in others:
        common = common + value
    if any(value.__class__ is int and value < 0 for value in (start, stop)):  # down to -1
        common = int_array_t(type(common))(common)
    kind = type(common)
    return ArrayRange(kind(start), kind(stop), step)


def more(at: Any, stop: Any, step: Any) -> Any:
    """Whether a range goes on."""
    if isinstance(step, int):
        return at < stop if step > 0 else at > stop
    return _select(step > 0, at < stop, at > stop)


def following(at: Any, step: Any) -> Any:
    """The next number of a range, which may be unsigned."""
    return at - -step if isinstance(step, int) and step < 0 else at + step


# --- constructs that elements leave early ----------------------------------------------------------------------------


class _Again(TracedAgain):
    """A branch or loop must be traced once more, with what has been found out about its variables."""


class _Computed(TracedAgain):
    """A loop is not traced, but run: also if there is no derivative of what was traced."""


class _Kept:
    """A value without the arrays that hold it: whoever holds one of a traced function seems to be outside of it."""

    __slots__ = ("leaves", "nodes", "spec")

    def __init__(self, value: Any) -> None:
        self.nodes, leaves, self.spec = flatten_nodes(value, "drjit.syntax")
        self.leaves = [None if is_vector(leaf) else leaf for leaf in leaves]

    def value(self) -> Any:
        """The value again."""
        return self.spec.rebuild_nodes(self.nodes, self.leaves)

    def zeros(self) -> Any:
        """Something of the same structure, in place of what no element uses."""
        return self.spec.rebuild_nodes([core.literal(node.type, 0, node.size) for node in self.nodes], self.leaves)


def _mask_type(condition: Any, flags: Sequence[Any]) -> Any:
    for value in (sole_array(condition), *flags):
        if is_vector(value):
            return type(value)
    raise AssertionError("one of the flags of a translated construct is a mask")


def run_if(args: tuple[Any, ...], cond: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
           arg_labels: Sequence[str] = (), rv_labels: Sequence[str] = (), flags: int = 0, result: str | None = None,
           guard: bool = False, attributes: Sequence[Any] = (), cells: dict[str, Any] | None = None,
           **hints: Any) -> Any:
    """``if_stmt`` of branches that elements may leave, or that do not assign all variables.

    The last ``flags`` results of the branches are masks or Python's ``bool``; ``True`` says that no element goes on, so
    that variables which the branch has not assigned are of no importance. With ``result``, the function's name, the
    value to return is before those. Of other variables that one branch does not assign, none is assigned.
    """
    if cond.__class__ is bool:  # all elements have left, or none
        return (true_fn if cond else false_fn)(*args)
    cond = sole_array(cond)
    if not is_vector(cond) or cond._kind != "b" or cond._depth > 0:
        return if_stmt(args, cond, true_fn, false_fn, arg_labels, rv_labels, **hints)  # which refuses it
    changed = _Attributes(attributes, args, cells)
    if changed.places:
        with changed:
            return changed.stored(run_if(
                changed.values + args, cond, changed.wrapped(true_fn), changed.wrapped(false_fn),
                changed.labels + tuple(arg_labels), changed.labels + tuple(rv_labels), flags, result, guard, **hints))
    sides = _Sides(len(rv_labels) - flags, type(cond), result, guard)
    if _evaluated(hints, JitFlag.SymbolicConditionals):
        # What is computed cannot be taken back, and what one branch has computed may be used outside.
        sides.final = True
    while True:
        sides.known = [None, None]
        try:
            results = if_stmt(args, cond, sides.wrapped(true_fn, 0), sides.wrapped(false_fn, 1), arg_labels, rv_labels,
                              **hints)
        except _Again:
            continue
        for side, other in zip(sides.known, reversed(sides.known), strict=True):
            if other is None and side is not None and side[1]:  # all elements take the same way out
                return (*results[:sides.count], *side[2])
        return tuple([UNSET if k in sides.dropped else sides.found[k] if value is UNSET and k in sides.found else value
                      for k, value in enumerate(results)])


class _Attributes:
    """Attributes that a construct changes of objects which are no PyTrees: they are part of the state themselves.

    So are variables that functions within the user's one assign, which are the contents of cells.
    """

    def __init__(self, attributes: Sequence[Any], args: Sequence[Any], cells: dict[str, Any] | None = None) -> None:
        self.places: list[tuple[Any, str]] = []
        labels = []
        for name, function in (cells or {}).items():
            self.places.append((function.__closure__[0], "cell_contents"))
            labels.append(name)
        for position, root, path, stored in attributes:
            owner = args[position]
            if owner is UNSET or isinstance(owner, ArrayBase) or is_pytree(type(owner)):
                continue
            for k, name in enumerate(path):
                value = getattr(owner, name, UNSET)
                tracked = isinstance(value, ArrayBase) or is_pytree(type(value))
                if tracked or k == len(path) - 1:
                    if (stored or tracked and not isinstance(value, (list, tuple, dict))) and \
                            not any(owner is other and name == known for other, known in self.places):
                        self.places.append((owner, name))
                        labels.append(".".join([root, *path[:k + 1]]))
                    break
                owner = value
        self.labels = tuple(labels)
        self.values = self._read()

    def _read(self) -> tuple[Any, ...]:
        return tuple([_attribute(owner, name) for owner, name in self.places])

    def _write(self, values: Sequence[Any]) -> None:
        for (owner, name), value in zip(self.places, values, strict=True):
            if value is not UNSET:
                setattr(owner, name, value)
            elif _attribute(owner, name) is not UNSET:
                delattr(owner, name)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self._write(self.values)

    def wrapped(self, function: Callable[..., Any], condition: bool = False) -> Callable[..., Any]:
        """A function that finds the attributes as they are in its arguments, and returns them as well."""
        count = len(self.places)

        def run(*values: Any) -> Any:
            before = self._read()
            self._write(values[:count])
            try:
                results = function(*values[count:])
                if condition:
                    return results
                found = (*self._read(), *results)
                return Dead(found) if results.__class__ is Dead else found
            finally:
                self._write(before)

        # for a derivative, which calls this once more, with a copy of the function: they share these
        run.__dict__["state_cells"] = [owner for owner, _ in self.places if owner.__class__ is CellType]
        return run

    def stored(self, results: Sequence[Any]) -> tuple[Any, ...]:
        """Assign the attributes; returns the other results."""
        self._write(results[:len(self.places)])
        return tuple(results[len(self.places):])


def _attribute(owner: Any, name: str) -> Any:
    """An attribute; UNSET if there is none, or it is the contents of an empty cell."""
    try:
        return getattr(owner, name)
    except (AttributeError, ValueError):
        return UNSET


class Dead(tuple):  # type: ignore[type-arg]
    """What a branch returns that all elements have left, by different ways."""

    __slots__ = ()


class _Sides:
    """The branches of one ``if``: which variables they have assigned."""

    def __init__(self, count: int, mask: type, result: str | None, guard: bool) -> None:
        self.count, self.mask, self.result, self.guard = count, mask, result, guard
        self.optional = {count - 1} if result is not None else set[int]()  # values that need not be there
        #: Results of the branches, whether no element goes on, and which of the flags are set.
        self.known: list[tuple[list[Any], bool, list[Any]] | None] = [None, None]
        self.found: dict[int, Any] = {}  # in place of values that no element uses
        self.dropped = set[int]()  # variables that remain unassigned
        #: Whether the branches are computed, so that they cannot be run again, and what one has computed may be used in
        #: the other.
        self.final = False

    def wrapped(self, function: Callable[..., Any], side: int) -> Callable[..., Any]:
        """A branch whose results go with those of the other one."""
        def run(*values: Any) -> Any:
            self.final |= core.innermost() is None  # also if there is no derivative of what is traced
            returned = function(*values)
            results = list(returned)
            dead = returned.__class__ is Dead or (self.guard and side == 1) or \
                any(value is True for value in results[self.count:])
            original = [UNSET if value is UNSET else _Kept(value) for value in results[:self.count]]
            taken = results[self.count:]
            other, again = self.known[1 - side], False
            for k in range(self.count):
                if k in self.dropped:
                    results[k] = UNSET
                elif other is not None and (results[k] is UNSET) != (other[0][k] is UNSET):
                    again |= self._reconcile(k, results, other, dead)
                elif results[k] is UNSET and k in self.found:
                    results[k] = self.found[k]
            self.known[side] = original, dead, taken
            if again:
                raise _Again
            self._require_same_type()
            return tuple(results[:self.count]) + tuple([self.mask(value) if value.__class__ is bool else value
                                                        for value in results[self.count:]])

        return run

    def _reconcile(self, k: int, results: list[Any], other: tuple[list[Any], bool, list[Any]], dead: bool) -> bool:
        """What to do about a variable that one branch assigns; whether to trace them again."""
        missing_here = results[k] is UNSET
        if k in self.found:
            if missing_here:
                results[k] = self.found[k]
            return False
        if k in self.optional or (dead if missing_here else other[1]):
            if self.final:
                if missing_here:
                    results[k] = other[0][k].value()
                else:
                    self.found[k], results[k] = results[k], UNSET
                return False
            self.found[k] = (other[0][k] if missing_here else _Kept(results[k])).zeros()
            if missing_here:
                results[k] = self.found[k]
            return not missing_here
        self.dropped.add(k)
        results[k] = other[0][k].value() if self.final and missing_here else UNSET
        return not self.final

    def _require_same_type(self) -> None:
        first, second = self.known
        if self.result is None or first is None or second is None:
            return
        values = first[0][-1 + self.count], second[0][-1 + self.count]
        if values[0] is not UNSET and values[1] is not UNSET:
            _require_type(values[0].spec, values[1].spec, self.result)


def _evaluated(hints: dict[str, Any], flag: JitFlag) -> bool:
    """Whether a construct runs in evaluated mode."""
    mode = hints.get("mode")
    if mode is not None:
        return bool(mode == "evaluated")
    return not core.flag(flag)


def run_loop(state: tuple[Any, ...], cond: Callable[..., Any], body: Callable[..., Any], labels: Sequence[str],
             flags: int = 0, result: str | None = None, test: Any = None, attributes: Sequence[Any] = (),
             cells: dict[str, Any] | None = None, **hints: Any) -> Any:
    """``while_loop`` with elements that leave early, and with variables that may not be assigned before.

    The last ``flags`` entries of the state are masks or Python's ``bool``. With ``result``, the function's name, the
    value to return is before those, unless the elements that have returned so far are none. Other variables that are
    not assigned before remain so: they exist in each iteration only.
    """
    count = len(state) - flags
    if True in [value for value in state[count:] if value.__class__ is bool]:
        return state  # all elements have left before
    changed = _Attributes(attributes, state, cells)
    if changed.places:
        with changed:
            return changed.stored(run_loop(
                changed.values + state, changed.wrapped(cond, condition=True), changed.wrapped(body),
                changed.labels + tuple(labels), flags, result, test, **hints))
    mask: Any = _mask_type(test, state[count:]) if flags else None
    state = state[:count] + tuple([mask(value) if value.__class__ is bool else value for value in state[count:]])
    place = count - 1 if result is not None else -1
    if place >= 0 and state[place] is UNSET and _evaluated(hints, JitFlag.SymbolicLoops):
        return _returning(state, cond, body, labels, place, result, hints)
    while True:
        found: list[Any] = []

        def step(*values: Any, initial: tuple[Any, ...] = state, found: list[Any] = found) -> Any:
            if place >= 0 and initial[place] is UNSET and core.innermost() is None:
                raise _Computed
            results = list(body(*values))
            for k in range(count):
                if initial[k] is UNSET and results[k] is not UNSET:
                    if k == place:
                        found.append(_Kept(results[k]).zeros())
                        raise _Again
                    results[k] = UNSET
                elif results[k] is UNSET:
                    results[k] = values[k]  # of elements that have left
                elif k == place and initial[k] is not UNSET:
                    _require_type(_Kept(values[k]).spec, _Kept(results[k]).spec, result)
            return tuple(results[:count]) + tuple([mask(value) if value.__class__ is bool else value
                                                   for value in results[count:]])

        try:
            return loop_of(state, cond, step, labels, **hints)
        except _Again:
            state = (*state[:place], found[0], *state[place + 1:])
        except _Computed:
            return _returning(state, cond, body, labels, place, result, hints)


def _require_type(first: TreeSpec, second: TreeSpec, function: str | None) -> None:
    """Refuse values to return that differ in their structure or types."""
    difference = first.difference(second, "")
    if difference is not None:
        place = f", in '{difference.path}'" if difference.path else ""
        raise ArgumentError(
            f"drjit.syntax: {function}() must return values of the same types and structure for all elements, "
            f"but their {difference.what} is {difference.first} for some and {difference.second} for others{place}.")


def _returning(state: tuple[Any, ...], cond: Callable[..., Any], body: Callable[..., Any], labels: Sequence[str],
               place: int, function: str | None, hints: dict[str, Any]) -> Any:
    """An evaluated loop that elements leave by ``return`` with values that are not known before."""
    mask = type(state[-1])
    value: Any = UNSET
    active: Any = None

    def test(*values: Any) -> Any:
        nonlocal active
        active = sole_array(cond(*values[:place], value, *values[place:]))
        return active

    def step(*values: Any) -> Any:
        nonlocal value
        results = list(body(*values[:place], value, *values[place:]))
        found = results.pop(place)
        results = [values[k] if values[k] is UNSET or entry is UNSET else entry
                   for k, entry in enumerate(results[:place])] + [
            mask(entry) if entry.__class__ is bool else entry for entry in results[place:]]
        if value is UNSET:
            value = found
        elif found is not value:
            _require_type(_Kept(value).spec, _Kept(found).spec, function)
            value = if_stmt((), active & results[-1], lambda: found, lambda: value, rv_labels=(), mode="evaluated")
        if value is not UNSET:
            core.evaluate(flatten_nodes(value, "drjit.syntax")[0])
        return tuple(results)

    results = loop_of(state[:place] + state[place + 1:], test, step, [*labels[:place], *labels[place + 1:]],
                      **hints | {"mode": "evaluated"})
    return (*results[:place], value, *results[place:])


# --- expressions -----------------------------------------------------------------------------------------------------


def run_choice(args: tuple[Any, ...], cond: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
               labels: Sequence[str] = (), values: int = 1, cells: dict[str, Any] | None = None,
               **hints: Any) -> Any:
    """``a if cond else b``: the functions return the value, and variables that they may have changed.

    A Python number on one side becomes an array of the type on the other side.
    """
    cond = sole_array(cond)
    changed = _Attributes((), args, cells)
    if changed.places and is_vector(cond):
        with changed:
            count = len(changed.places)
            yes, no = [_value_first(changed.wrapped(function), count) for function in (true_fn, false_fn)]
            value, *rest = run_choice(changed.values + args, cond, yes, no, changed.labels + tuple(labels),
                                      values + count, **hints)
            return (value, *changed.stored(rest))
    if not is_vector(cond) or cond._kind != "b" or cond._depth > 0:
        return (_select(cond, true_fn(*args)[0], false_fn(*args)[0]), *args[:values - 1])
    names = ("value", *labels[:values - 1])
    if _evaluated(hints, JitFlag.SymbolicConditionals):  # each function is called once: it may write
        found: list[Any] = [None, None]

        def first(function: Callable[..., Any], side: int) -> Callable[..., Any]:
            def run(*arguments: Any) -> Any:
                found[side], *rest = function(*arguments)
                return tuple(rest)

            return run

        rest = if_stmt(args, cond, first(true_fn, 0), first(false_fn, 1), labels, names[1:], **hints)
        kind = _array_for(found, cond)
        yes, no = [kind(value) if _is_number(value) and kind is not None else value for value in found]
        value, = if_stmt((), cond, lambda: (yes,), lambda: (no,), (), names[:1], **hints | {"mode": "evaluated"})
        return (value, *rest)
    known: list[Any] = [None, None]
    kind = None

    def wrapped(function: Callable[..., Any], side: int) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            value, *rest = function(*arguments)
            known[side] = value if _is_number(value) else type(value)
            return (kind(value) if _is_number(value) and kind is not None else value, *rest)

        return run

    true_fn, false_fn = wrapped(true_fn, 0), wrapped(false_fn, 1)
    try:
        return if_stmt(args, cond, true_fn, false_fn, labels, names, **hints)
    except ArgumentError:
        kind = _array_for(known, cond)
        if kind is None:
            raise
        return if_stmt(args, cond, true_fn, false_fn, labels, names, **hints)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def _array_for(values: Sequence[Any], cond: Any) -> Any:
    """The type of array that Python numbers among the values of both sides become; ``None`` if that is of no use.

    Values are arrays, or their types, or numbers.
    """
    types = [value if isinstance(value, type) else type(value) for value in values if not _is_number(value)]
    if not types:
        return type(_select(type(cond)(True), *values))
    return types[0] if len(types) == 1 and issubclass(types[0], ArrayBase) else None


def _value_first(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A function that returns something else before the first ``count`` results."""
    def run(*arguments: Any) -> Any:
        results = function(*arguments)
        return (results[count], *results[:count], *results[count + 1:])

    return run


def keeping(before: tuple[Any, ...], results: tuple[Any, ...]) -> tuple[Any, ...]:
    """Results of a construct, of which some are arrays that were there before, and have the same contents now.

    These stay the objects that they are: what is written to them by index is for the caller, who holds them, too.
    """
    return tuple([new if old is None else _kept(old, new)
                  for old, new in itertools.zip_longest(before, results)])


def _kept(old: Any, new: Any) -> Any:
    if old is new or old.__class__ is not new.__class__:
        return new
    if isinstance(old, ArrayBase):
        same = old._dynamic and all(map(operator.is_, old._nodes(), new._nodes()))
        return old if same else new
    cls = old.__class__
    if cls is tuple and len(old) == len(new):
        return tuple(map(_kept, old, new))
    if cls is list and len(old) == len(new):
        new[:] = map(_kept, old, new)
    elif cls is dict and old.keys() == new.keys():
        new.update({key: _kept(old[key], value) for key, value in new.items()})
    else:
        for name in field_types(cls) or ():
            value = getattr(new, name)
            kept = _kept(getattr(old, name), value)
            if kept is not value:
                object.__setattr__(new, name, kept)  # the class may be frozen
    return new


#: The names by which translated functions call what is in here.
HELPERS = {
    "_dr_if_stmt": if_stmt, "_dr_while_loop": loop_of, "_dr_run_if": run_if, "_dr_run_loop": run_loop,
    "_dr_choice": run_choice, "_dr_vector": is_vector, "_dr_remaining": remaining, "_dr_going": going,
    "_dr_either": either, "_dr_negated": negated, "_dr_range": array_range, "_dr_ArrayRange": ArrayRange,
    "_dr_keeping": keeping, "_dr_more": more, "_dr_following": following, "_dr_UNSET": UNSET, "_dr_Dead": Dead,
}
