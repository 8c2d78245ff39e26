"""What ``dr.switch`` and calls of methods of instances do, in symbolic and evaluated mode."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import KIND, JitFlag, current, ops, primal

from .._access.lanes import TRUE, Watch, elements, fitting, masked_access, on_part, with_lanes, written_from
from .._access.store import end_since, noted, standing
from .._base.arguments import require_label, require_mode
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError, describe, presented
from .._base.nodes import broadcast
from .._base.types import BOOL, UINT32, retype
from .._functions.ordering import set_positions
from .bounds import warn_of
from .choice import SymbolicChoice, called_directly
from .given import Given, as_before
from .modes import is_symbolic
from .results import Results, argument_of, blended
from .sides import Sides, evaluated
from .state import lane_shape, told_apart
from .wording import Words

__all__ = ["call"]

_LITERAL = KIND["literal"]
_DEBUG, _OPTIMIZE_CALLS = JitFlag.Debug.value, JitFlag.OptimizeCalls.value
_SYMBOLIC_CALLS = JitFlag.SymbolicCalls.value
#: While so many functions are traced, or more, no cycles are collected.
_MANY = 64


def call(function: str, index: Any, argument: str, targets: Sequence[Callable[..., Any]], names: Sequence[str],
         args: tuple[Any, ...], kwargs: dict[str, Any], mode: Any, label: Any, nothing: int | None = None) -> Any:
    """Call what an array of indices chooses; errors are those of the user's function.

    The index ``nothing`` is no mistake where there is nothing to call.
    """
    if mode is not None:
        require_mode(function, mode, ("symbolic", "evaluated"))
    if label is not None:
        require_label(function, label)
    if not (isinstance(index, ArrayBase) and not index._depth and index._dynamic and index._type == UINT32):
        raise ArgumentError(f"{function}(): '{argument}' must be a flat array of 32-bit unsigned integers, found "
                            f"{describe(index)}.")
    before = standing()
    try:
        return _Call(function, index, targets, names, args, kwargs, mode, label, nothing).result()
    except Exception as error:
        end_since(before)
        raise presented(error, function)  # noqa: B904


@functools.cache
def _words(function: str) -> Words:
    return Words(function, "a function of this symbolic call", "call",
                 "switch off drjit.JitFlag.SymbolicCalls")


class _Call:
    """One call."""

    def __init__(self, function: str, index: ArrayBase, targets: Sequence[Callable[..., Any]], names: Sequence[str],
                 args: tuple[Any, ...], kwargs: dict[str, Any], mode: str | None, label: str | None,
                 nothing: int | None) -> None:
        self.function = function
        self.nothing_at = nothing
        self.words = _words(function)
        self.targets = targets
        self.names = names
        self.label = label
        self.index: core.Node = index._nodes()[0]
        #: The elements that take part, and the mask array that functions see instead, if there is any.
        self.mask, self.given_mask, args, kwargs = _without_mask(type(index), args, kwargs)
        self.mode = mode or ("symbolic" if current().flags & _SYMBOLIC_CALLS or
                             is_symbolic(function, JitFlag.SymbolicCalls) else "evaluated")
        #: Whether there are keyword arguments: then values are a pair, else a tuple.
        self.named = bool(kwargs)
        #: What the values are called.
        self.roots: str | tuple[str, ...] = ("args", "kwargs") if kwargs else "args"
        self.given = Given(function, (args, kwargs) if kwargs else args)
        self.given.nodes = told_apart(self.given.nodes)
        self.results = Results(function)
        self.width = self.index.size
        if self.mask is not TRUE and self.mask.size != self.width and self.mask.size != 1:
            if self.width != 1:
                raise SizeError(f"{function}(): the index and the mask have incompatible sizes! (sizes: "
                                f"{self.index.size}, {self.mask.size})")
            self.width = self.mask.size
        self.results.lanes = lane_shape(self.width, self.given.spec)

    def result(self) -> Any:
        """What the functions return, joined."""
        flags = current().flags
        if flags & _DEBUG:
            self.check()
        if self.index.kind == _LITERAL and self.mask is TRUE and flags & _OPTIMIZE_CALLS and \
                self.index.payload < len(self.targets):
            return self.directly(self.index.payload)
        with as_before(self.given):
            if not self.width:
                return self.nothing()
            if self.mode == "evaluated":
                return self.evaluated()
            try:
                return self.symbolic()
            except core.NoDerivative:  # of writes, for example: the functions have some, one by one
                self.results.spec = self.results.called = None
                masks = [ops.and_(self.mask, ops.eq(self.index, core.literal(self.index.type, number)))
                         for number in range(len(self.targets))]
                return evaluated(self.words, self.given, masks, self.targets, self.names, self.named, self.results,
                                 True)

    def symbolic(self) -> Any:
        """Trace all functions into a call, which becomes part of a kernel.

        Of many functions there are so many objects that Python's collector of cycles, which would find none among them,
        would take longer than the trace: it waits.
        """
        mask = with_lanes(self.mask, self.width)
        self.results.every = mask is TRUE
        pauses = len(self.targets) >= _MANY and gc.isenabled()
        if pauses:
            gc.disable()
        try:
            choice = SymbolicChoice(self.words, mask, self.index, self.label, self.names, list(self.targets),
                                    self.named, self.given, self.roots, self.results)
            if self.given_mask is not None:
                choice.known = self.known_mask()
            if current().flags & _OPTIMIZE_CALLS:
                self.results.called = self.mask if self.nothing_at is None else ops.and_(
                    self.mask, ops.neq(self.index, core.literal(self.index.type, self.nothing_at)))
            return choice.run()
        finally:
            if pauses:
                gc.enable()

    def known_mask(self) -> dict[int, core.Node]:
        """The mask that functions see, which is set, by the position of its node."""
        for place, first, _ in self.given.spec.positions():
            if self.given.leaves[place] is self.given_mask:
                return {first: self.given.nodes[first]}
        return {}

    def check(self) -> None:
        """Let an evaluation warn of indices that are too large."""
        bad = ops.and_(self.mask, ops.ge(self.index, core.literal(self.index.type, len(self.targets))))
        if self.nothing_at is not None:
            bad = ops.and_(bad, ops.neq(self.index, core.literal(self.index.type, self.nothing_at)))
        warn_of(self.function, self.index, with_lanes(bad, self.width),
                functools.partial(_too_large, len(self.targets)))

    def directly(self, number: int) -> Any:
        """What a function returns that all elements take."""
        return called_directly(self.targets[number], self.names[number], self.named, self.width, self.given,
                               self.results)

    # --- other ways --------------------------------------------------------------------------------------------------

    def evaluated(self) -> Any:
        """Run each function on the elements that ask for it."""
        mask = with_lanes(self.mask, self.width)
        self.results.every = mask is TRUE
        core.evaluate([self.index, mask, *self.given.nodes])
        if self.width == 1:
            chosen = int(core.read_element(self.index, 0))
            taken = bool(core.read_element(mask, 0)) and chosen < len(self.targets)
            if not taken:
                return self.nothing()
            return self.directly(chosen)
        sides = Sides(self.words, self.given, self.targets, self.names, self.named, self.results)
        joined: list[core.Node] | None = None
        whole, shared = dict[int, core.Node](), self.given.spec.shared_nodes()
        with noted(), masked_access(TRUE):  # which is the scope of what is known of versions
            for number in range(len(self.targets)):
                chosen_ = ops.and_(mask, ops.eq(self.index, core.literal(self.index.type, number)))
                lanes = set_positions(chosen_)
                if not lanes.size:
                    continue
                nodes = list(sides.nodes)
                given = dict[int, tuple[core.Node, core.Node]]()
                part = [elements(node, lanes, given) if node.size == self.width and position not in shared and
                        not core.is_unusable(core.primal(node)) else node for position, node in enumerate(nodes)]

                def join(before: core.Node, now: core.Node, lanes: core.Node = lanes,
                         taken: core.Node = chosen_) -> core.Node:
                    return self.spread(before, now, lanes, taken)

                some = [(new, old) for new, old in zip(part, nodes, strict=True) if new is not old]
                with on_part(lanes, self.width, given), \
                        Watch([new for new, _ in some], [old for _, old in some]) as watch:
                    try:
                        changed = sides.call(number, part, join, ((lanes.size,), self.results.lanes), watch)
                    except SizeError as error:
                        raise self.explained(error, number, lanes.size) from error
                values = sides.complete(number)
                self.require_whole(nodes, part, changed, number, watch)
                joined = joined or [core.literal(value.type, 0, self.width) for value in values]
                for position, value in enumerate(values):
                    which = argument_of(value, self.given.nodes)
                    if which is not None and self.given.nodes[which].size not in (1, self.width):
                        # what the functions write to, and no values of theirs
                        whole[position] = blended(self.words, TRUE, position, value, whole.get(position, value),
                                                  self.results)
                        continue
                    if value.size == self.width:  # what the function refers to: of all, and not of those that take it
                        value = core.gather(value, lanes, TRUE)
                    if value.size not in (1, lanes.size) or position in whole:
                        raise SizeError(
                            f"{self.function}(): '{self.names[number]}' returned {value.size} elements as "
                            f"'{self.results.place(position)}' for {lanes.size} elements of the arguments.")
                    joined[position] = core.scatter(joined[position], value, lanes, TRUE, 0,
                                                    core.ReduceMode.NoConflicts.value)
                core.evaluate([*joined, *sides.nodes])
            if joined is None:
                return self.nothing()
            return sides.finish([whole.get(position, value) for position, value in enumerate(joined)], False)

    def explained(self, error: SizeError, number: int, given: int) -> SizeError:
        """An error about sizes in a function that was called for some elements."""
        if given == self.width or str(self.width) not in str(error):
            return error
        return SizeError(
            f"{error} An evaluated call gives '{self.names[number]}' only those elements of the arguments that take "
            f"it, {given} of {self.width}: pass arrays of all {self.width} elements as arguments, by themselves or in "
            "PyTrees, instead of referring to them, or use mode='symbolic'.")

    def spread(self, before: core.Node, now: core.Node, lanes: core.Node, taken: core.Node) -> core.Node:
        """What something is that a function has changed for some of the lanes, or for those that a mask says."""
        if before.size in (1, self.width) and now.size in (1, lanes.size) and now.size != self.width:
            return core.scatter(broadcast(before, self.width), now, lanes, TRUE, 0,
                                core.ReduceMode.NoConflicts.value)
        with on_part(lanes, self.width):
            fits = fitting(taken, now, before)
        return now if fits is None else ops.select(fits, now, before)

    def require_whole(self, nodes: Sequence[core.Node], part: Sequence[core.Node], changed: dict[int, core.Node],
                      number: int, watch: Watch) -> None:
        """Refuse reads and writes by index of an argument of which a function has been given some elements only."""
        for position, (node, old) in enumerate(zip(nodes, part, strict=True)):
            new = changed.get(position, old)
            if old is not node and (written_from(new, old) or
                                    old.size < self.width and watch.accessed(primal(old).id)):
                does = "writes by index to" if written_from(new, old) else "reads by index from"
                raise ArgumentError(
                    f"{self.function}(): '{self.names[number]}' {does} the argument "
                    f"'{self.given.spec.node_paths(self.roots)[position]}', of which an evaluated call gives it only "
                    "the elements that take it. Refer to the array in the function instead of passing it, or use "
                    "mode='symbolic'.")

    def nothing(self) -> Any:
        """The results if no element takes part: zeros, of which a function tells the structure.

        If there are no elements, a symbolic call asks all functions, as it always does, also for what they depend on.
        """
        sides = Sides(self.words, self.given, self.targets, self.names, self.named, self.results)
        with noted(), masked_access(core.literal(BOOL, False), some=False):
            for number in range(1 if self.width or self.mode == "evaluated" else len(self.targets)):
                sides.call(number, self.given.nodes, lambda before, now: before)
        self.results.complete(sides.effects, self.names)
        return self.results.rebuilt([core.literal(values[0].type, 0, self.width) if self.width else _none_of(values)
                                     for values in zip(*[each.nodes for each in sides.effects], strict=True)])


def _none_of(values: Sequence[core.Node]) -> core.Node:
    """None of the elements of some results, which depends on them as far as derivatives go."""
    parts = [core.nothing_of(value) for value in values if core.tracked(value) is not None]
    return functools.reduce(ops.add, parts) if parts else core.invalid(values[0].type)


def _too_large(count: int, index: object) -> str:
    return f"attempted to invoke callable with index {index}, but this value must be smaller than {count}."


def _without_mask(index_type: type[ArrayBase], args: tuple[Any, ...],
                  kwargs: dict[str, Any]) -> tuple[core.Node, Any, tuple[Any, ...], dict[str, Any]]:
    """The mask among the arguments, the array that is set in its place, and the arguments as the functions see them."""
    seen: Any = None
    if "active" in kwargs and _is_mask(kwargs["active"]):
        value = kwargs["active"]
        seen = None if value.__class__ is bool else type(value)(True)
        kwargs = kwargs | {"active": True if seen is None else seen}
    elif args and isinstance(args[-1], ArrayBase) and _is_mask(args[-1]):
        value = args[-1]
        seen = type(value)(True)
        args = (*args[:-1], seen)
    else:
        return TRUE, None, args, kwargs
    node = core.literal(BOOL, value) if value.__class__ is bool else retype(index_type, BOOL)(value)._nodes()[0]
    return TRUE if node.kind == _LITERAL and node.payload and node.size == 1 else node, seen, args, kwargs


def _is_mask(value: Any) -> bool:
    return value.__class__ is bool or isinstance(value, ArrayBase) and value._kind == "b" and not value._depth
