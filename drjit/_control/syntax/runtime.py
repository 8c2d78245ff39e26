"""What translated functions call: tests for masks, loops and branches that elements leave early, ranges of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import JitFlag

from ..._access.lanes import TRUE, Part, innermost_part, widest_mask
from ..._base.array import ArrayBase
from ..._base.errors import ArgumentError, describe
from ..._base.nodes import broadcast
from ..._functions.elementwise import FUNCTIONS
from ..._functions.traits import detached_t, int_array_t
from ..._promotion.promote import wrap
from ..._trees.classes import sole_array
from ..._trees.pytree import TreeSpec, flatten_nodes
from ..conditional import branch
from ..entries import Late
from ..repetition import loop

__all__ = ["HELPERS"]

_select = FUNCTIONS["select"]



class _Unset:
    """What stands for a variable without a value in the state of a loop or branch."""

    def __repr__(self) -> str:
        return "<a variable that is not assigned>"


UNSET = _Unset()
_LITERAL = core.KIND["literal"]


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


class _Computed(Exception):
    """A loop is not traced, but run: also if there is no derivative of what was traced."""


def _mask_type(condition: Any, flags: Sequence[Any]) -> Any:
    """The type of the flags of a construct: flags have no derivatives, whatever the masks are that set them."""
    for value in (sole_array(condition), *flags):
        if is_vector(value):
            return detached_t(type(value))
    raise AssertionError("one of the flags of a translated construct is a mask")


def _as_masks(flags: Sequence[Any], mask: Any) -> list[Any]:
    """Flags, each of which is a mask of any package, or a ``bool`` for all elements, as masks of one type."""
    return [value if value.__class__ is mask else
            mask(value.array if is_vector(value) and value._depth < 0 <= mask._depth else value)
            for value in flags]


def is_set(flag: Any) -> bool:
    """Whether a flag, a mask or a ``bool``, is known to be set for all elements."""
    return flag is True or isinstance(flag, ArrayBase) and not [
        node for node in flag._nodes() if node.kind != _LITERAL or not node.payload]


def run_if(args: tuple[Any, ...], cond: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
           arg_labels: Sequence[str] = (), rv_labels: Sequence[str] = (), flags: int = 0, result: str | None = None,
           guard: bool = False, **hints: Any) -> Any:
    """``if_stmt`` of branches that elements may leave, or that do not assign all variables.

    The last ``flags`` results of the branches are masks or Python's ``bool``; ``True`` says that no element goes on, so
    that variables which the branch has not assigned are of no importance. With ``result``, the function's name, the
    value to return is before those. Of other variables that one branch does not assign, none is assigned. Behind the
    flags, if there are any, the result says whether all elements are known to have left, by whatever ways.
    """
    if cond.__class__ is bool:  # all elements have left, or none
        returned = (true_fn if cond else false_fn)(*args)
        return (*returned, guard and not cond or _left_by_all(returned, flags)) if flags else returned
    cond = sole_array(cond)
    if not is_vector(cond) or cond._kind != "b" or cond._depth > 0:
        return branch(args, cond, true_fn, false_fn, arg_labels, rv_labels, **hints)  # which refuses it
    sides = _Sides(len(rv_labels) - flags, _mask_type(cond, ()), result, guard)
    results = branch(args, cond, sides.wrapped(true_fn, 0), sides.wrapped(false_fn, 1), arg_labels, rv_labels,
                     fill=sides.fill, **hints)
    if not flags:
        return tuple(results)
    taken = [side for side in sides.taken if side is not None]
    left = all(dead for dead, _ in taken)
    if left and len(taken) == 1:  # all elements take the same way out
        return (*results[:sides.count], *taken[0][1], left)
    return (*results, left)


def _left_by_all(returned: tuple[Any, ...], flags: int) -> bool:
    """Whether no element goes on after a branch, of whose results the last are flags."""
    return returned.__class__ is Dead or any(map(is_set, returned[len(returned) - flags:]))


def _numbers(attributes: Sequence[tuple[str, ...]], state: dict[str, Any]) -> list[tuple[Any, str, str, Any]]:
    """Attributes that a loop stores and that hold Python's numbers: of which object, what they are called, in messages
    too, and what they hold."""
    found: list[tuple[Any, str, str, Any]] = []
    for path in attributes:
        owner = state[path[0]]
        for name in path[1:-1]:
            owner = getattr(owner, name, UNSET)
        if isinstance(getattr(owner, path[-1], UNSET), (int, float, complex)):
            found.append((owner, path[-1], ".".join(path), getattr(owner, path[-1])))
    return found


def _require_same(numbers: Sequence[tuple[Any, str, str, Any]]) -> None:
    """Refuse changes of numbers, which a body makes once that stands for all iterations."""
    for owner, name, place, before in numbers:
        now = getattr(owner, name, UNSET)
        if now is not before and (now.__class__ is not before.__class__ or now != before):
            setattr(owner, name, before)
            raise ArgumentError(
                f"drjit.syntax: this loop changes '{place}' from {before!r} to {now!r}, a Python object of type "
                f"{describe(before)}. Symbolic loops do not track Python objects: use a Dr.Jit array instead, or "
                "mode='evaluated'.")


class Dead(tuple):  # type: ignore[type-arg]
    """What a branch returns that all elements have left, by different ways."""

    __slots__ = ()


class _Sides:
    """The branches of one ``if``: which variables they have assigned."""

    def __init__(self, count: int, mask: type, result: str | None, guard: bool) -> None:
        self.count, self.mask, self.result, self.guard = count, mask, result, guard
        self.optional = {count - 1} if result is not None else set[int]()  # values that need not be there
        #: Of each branch whether no element goes on, and which of the flags are set.
        self.taken: list[tuple[bool, list[Any]] | None] = [None, None]

    def wrapped(self, function: Callable[..., Any], side: int) -> Callable[..., Any]:
        """A branch, whose flags are masks."""
        def run(*values: Any) -> Any:
            returned = function(*values)
            flags = list(returned[self.count:])
            self.taken[side] = (self.guard and side == 1) or _left_by_all(returned, len(flags)), flags
            return (*returned[:self.count], *_as_masks(flags, self.mask))

        return run

    def fill(self, returned: Sequence[Any]) -> None:
        """Complete what both have returned: variables that only one of them assigns."""
        for k in range(self.count):
            unset = [side.value[k] is UNSET for side in returned]
            if unset[0] == unset[1]:
                continue
            missing, other = (returned[0], returned[1]) if unset[0] else (returned[1], returned[0])
            taken = self.taken[0 if unset[0] else 1]
            if k in self.optional or taken is not None and taken[0]:  # no element uses it
                spec, nodes, leaves = other.entry(k)
                missing.replace(k, spec.rebuild_nodes([core.literal(node.type, 0, node.size) for node in nodes],
                                                      leaves))
            else:
                other.replace(k, UNSET)
        if self.result is not None:
            first, second = [side.entry(self.count - 1)[0] for side in returned]
            if UNSET not in [side.value[self.count - 1] for side in returned]:
                _require_type(first, second, self.result)


def _evaluated(hints: dict[str, Any], flag: JitFlag) -> bool:
    """Whether a construct runs in evaluated mode."""
    mode = hints.get("mode")
    if mode is not None:
        return bool(mode == "evaluated")
    return not core.flag(flag) and core.innermost() is None


def run_loop(state: tuple[Any, ...], cond: Callable[..., Any], body: Callable[..., Any], labels: Sequence[str],
             flags: int = 0, result: str | None = None, test: Any = True, attributes: Sequence[Any] = (),
             **hints: Any) -> Any:
    """``while_loop`` with elements that leave early, and with variables that may not be assigned before.

    The last ``flags`` entries of the state are masks or Python's ``bool``. With ``result``, the function's name, the
    value to return is before those, unless the elements that have returned so far are none. Other variables that are
    not assigned before remain so: they exist in each iteration only.
    """
    count = len(state) - flags
    if True in [value for value in state[count:] if value.__class__ is bool]:
        return state  # all elements have left before
    mask: Any = _mask_type(test, state[count:]) if flags else None
    state = (*state[:count], *_as_masks(state[count:], mask))
    place = count - 1 if result is not None else -1
    if place >= 0 and state[place] is UNSET and _evaluated(hints, JitFlag.SymbolicLoops):
        return _returning(state, cond, body, labels, place, result, going(test, *state[count:]), hints)
    late = Late() if place >= 0 and state[place] is UNSET else None
    numbers, around = _numbers(attributes, dict(zip(labels, state, strict=False))), core.innermost()
    unset = [value is UNSET for value in state]  # and not the state, which the loop would find in what calls the body

    def step(*values: Any) -> Any:
        if late is not None and core.innermost() is None:
            raise _Computed
        results = list(body(*values))
        if numbers and core.innermost() is not around:
            _require_same(numbers)
        for k in range(count):
            if unset[k] and results[k] is not UNSET:
                if late is not None and k == place:
                    late.found(results[k], "drjit.syntax")
                results[k] = UNSET
            elif results[k] is UNSET:
                results[k] = values[k]  # of elements that have left
            elif k == place and not unset[k]:
                _require_type(flatten_nodes(values[k], "")[2], flatten_nodes(results[k], "")[2], result)
        return (*results[:count], *_as_masks(results[count:], mask))

    try:
        found = loop(state, cond, step, labels, late=late, test=going(test, *state[count:]), **hints)
    except _Computed:
        return _returning(state, cond, body, labels, place, result, going(test, *state[count:]), hints)
    return found if late is None or late.spec is None else (*found[:place], late.value, *found[place + 1:])


def _require_type(first: TreeSpec, second: TreeSpec, function: str | None) -> None:
    """Refuse values to return that differ in their structure or types."""
    difference = first.difference(second, "", True)
    if difference is not None:
        place = f", in '{difference.path}'" if difference.path else ""
        raise ArgumentError(
            f"drjit.syntax: {function}() must return values of the same types and structure for all elements, "
            f"but their {difference.what} is {difference.first} for some and {difference.second} for others{place}.")


def _returning(state: tuple[Any, ...], cond: Callable[..., Any], body: Callable[..., Any], labels: Sequence[str],
               place: int, function: str | None, active: Any, hints: dict[str, Any]) -> Any:
    """An evaluated loop that elements leave by ``return`` with values that are not known before."""
    mask = type(state[-1])
    value: Any = UNSET
    around = innermost_part()

    def test(*values: Any) -> Any:
        return cond(*values[:place], value, *values[place:])

    def step(*values: Any) -> Any:
        nonlocal value
        part = innermost_part()
        if part is around or part is not None and part.lanes.size == part.width:
            part = None  # no elements have been removed
        before = value if part is None or value is UNSET else _of_part(value, part)
        results = list(body(*values[:place], before, *values[place:]))
        found = results.pop(place)
        results = [values[k] if values[k] is UNSET or entry is UNSET else entry
                   for k, entry in enumerate(results[:place])] + _as_masks(results[place:], mask)
        if found is not before and found is not UNSET:  # of no element in this iteration
            if value is not UNSET:
                _require_type(flatten_nodes(value, "")[2], flatten_nodes(found, "")[2], function)
            lanes = widest_mask()
            leave = results[-1] if lanes is None else wrap(mask, [lanes]) & results[-1]
            if part is not None:
                value = _put_in(value, found, part, leave._nodes()[0])
            elif value is UNSET:
                value = found
            else:
                value = branch((), leave, lambda: found, lambda: value, rv_labels=(), mode="evaluated")
        if value is not UNSET:
            core.evaluate(flatten_nodes(value, "drjit.syntax")[0])
        return tuple(results)

    results = loop(state[:place] + state[place + 1:], test, step, [*labels[:place], *labels[place + 1:]],
                      **hints | {"mode": "evaluated", "test": active})
    return (*results[:place], value, *results[place:])


def _of_part(value: Any, part: Part) -> Any:
    """A value of all elements, of those that are left."""
    nodes, leaves, spec = flatten_nodes(value, "drjit.syntax")
    return spec.rebuild_nodes([node if node.size == 1 else core.gather(node, part.lanes, TRUE) for node in nodes],
                              leaves)


def _put_in(value: Any, found: Any, part: Part, mask: core.Node) -> Any:
    """A value of all elements, with what has been found for some of those that are left."""
    nodes, leaves, spec = flatten_nodes(found, "drjit.syntax")
    before = [core.literal(node.type, 0) for node in nodes] if value is UNSET else flatten_nodes(value, "")[0]
    return spec.rebuild_nodes([
        core.scatter(broadcast(old, part.width), new, part.lanes, mask, core.ReduceOp.Identity.value,
                     core.ReduceMode.NoConflicts.value) for old, new in zip(before, nodes, strict=True)], leaves)


# --- expressions -----------------------------------------------------------------------------------------------------


def run_choice(args: tuple[Any, ...], cond: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
               labels: Sequence[str] = (), values: int = 1, **hints: Any) -> Any:
    """``a if cond else b``: the functions return the value, and variables that they may have changed.

    A Python number on one side becomes an array of the type on the other side.
    """
    cond = sole_array(cond)
    if not is_vector(cond) or cond._kind != "b" or cond._depth > 0:
        return (_select(cond, true_fn(*args)[0], false_fn(*args)[0]), *args[:values - 1])

    def fill(returned: Sequence[Any]) -> None:
        found = [side.value[0] for side in returned]
        kind = _array_for(found, cond)
        for side, value in zip(returned, found, strict=True):
            if _is_number(value) and kind is not None:
                side.replace(0, kind(value))

    return branch(args, cond, true_fn, false_fn, labels, ("value", *labels[:values - 1]), fill=fill, **hints)


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


#: The names by which translated functions call what is in here.
HELPERS = {
    "_dr_if_stmt": branch, "_dr_while_loop": loop, "_dr_run_if": run_if, "_dr_run_loop": run_loop,
    "_dr_choice": run_choice, "_dr_vector": is_vector, "_dr_remaining": remaining, "_dr_going": going,
    "_dr_either": either, "_dr_negated": negated, "_dr_range": array_range, "_dr_ArrayRange": ArrayRange,
    "_dr_more": more, "_dr_following": following, "_dr_UNSET": UNSET, "_dr_Dead": Dead,
}
