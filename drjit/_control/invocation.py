"""What ``dr.switch`` and calls of methods of instances do, in symbolic and evaluated mode."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import KIND, JitFlag, ops

from .._access.lanes import TRUE, Watch, masked_access, on_part, watched, with_lanes, written_from
from .._base.arguments import require_label, require_mode
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError, describe, presented
from .._base.types import BOOL, UINT32, retype
from .._functions.ordering import set_positions
from .._trees.pytree import TreeSpec, flatten_nodes
from .bounds import warn_of
from .choice import (
    Results,
    SymbolicChoice,
    argument_of,
    arrays_of,
    blended,
    invoked,
    nodes_of,
    run_directly,
    store_arguments,
    written,
)
from .outside import Words
from .state import arguments

__all__ = ["call"]

_LITERAL = KIND["literal"]
_DEBUG, _OPTIMIZE_CALLS, _SYMBOLIC_CALLS = [
    flag.value for flag in (JitFlag.Debug, JitFlag.OptimizeCalls, JitFlag.SymbolicCalls)]
#: While so many functions are traced, or more, no cycles are collected.
_MANY = 64


def call(function: str, index: Any, argument: str, targets: Sequence[Callable[..., Any]], names: Sequence[str],
         args: tuple[Any, ...], kwargs: dict[str, Any], mode: Any, label: Any, nothing: int | None = None) -> Any:
    """Call what an array of indices chooses; errors are those of the user's function.

    The index ``nothing`` is no mistake where there is nothing to call.
    """
    if mode is not None or label is not None:
        require_mode(function, mode, ("symbolic", "evaluated"))
        require_label(function, label)
    if not (isinstance(index, ArrayBase) and not index._depth and index._dynamic and index._type == UINT32):
        raise TypeError(f"{function}(): '{argument}' must be a flat array of 32-bit unsigned integers, found "
                        f"{describe(index)}.")
    try:
        return _Call(function, index, targets, names, args, kwargs, mode, label, nothing).result()
    except Exception as error:
        raise presented(error, function)  # noqa: B904


@functools.cache
def _words(function: str) -> Words:
    return Words(function, "a function of this symbolic call", "return it from the functions", "call",
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
        self.mask_type = retype(type(index), BOOL)
        self.mask, args, kwargs = _without_mask(self.mask_type, args, kwargs)
        self.mode = mode or ("symbolic" if core.state.flags & _SYMBOLIC_CALLS else "evaluated")
        #: Whether there are keyword arguments: then values are a pair, else a tuple.
        self.named = bool(kwargs)
        #: What the values are called.
        self.roots: str | tuple[str, ...] = ("args", "kwargs") if kwargs else "args"
        self.nodes, self.leaves, self.spec = flatten_nodes((args, kwargs) if kwargs else args, function)
        self.results = Results(function)
        self.width = self.index.size
        if self.mask is not TRUE and self.mask.size != self.width and self.mask.size != 1:
            if self.width != 1:
                raise SizeError(f"{function}(): the index and the mask have incompatible sizes! (sizes: "
                                f"{self.index.size}, {self.mask.size})")
            self.width = self.mask.size

    def result(self) -> Any:
        """What the functions return, joined."""
        if core.state.flags & _DEBUG:
            self.check()
        if self.index.kind == _LITERAL and self.mask is TRUE and core.state.flags & _OPTIMIZE_CALLS and \
                self.index.payload < len(self.targets):
            return self.directly(self.index.payload)
        if not self.width:
            return self.nothing()
        if self.mode == "evaluated":
            return self.evaluated()
        try:
            return self.symbolic()
        except core.NoDerivative:  # of writes, for example: the functions have some, one by one
            self.results.spec = None
            return self.blended()

    def symbolic(self) -> Any:
        """Trace all functions into a call, which becomes part of a kernel.

        Of many functions there are so many objects that Python's collector of cycles, which would find none among them,
        would take longer than the trace: it waits.
        """
        mask = with_lanes(self.mask, self.width)
        pauses = len(self.targets) >= _MANY and gc.isenabled()
        if pauses:
            gc.disable()
        try:
            return SymbolicChoice(self.words, mask, self.index, self.label, self.names, list(self.targets), self.named,
                                  self.nodes, self.leaves, self.spec, self.roots, self.results).run()
        finally:
            if pauses:
                gc.enable()

    def check(self) -> None:
        """Let an evaluation warn of indices that are too large."""
        bad = ops.and_(self.mask, ops.ge(self.index, core.literal(self.index.type, len(self.targets))))
        if self.nothing_at is not None:
            bad = ops.and_(bad, ops.neq(self.index, core.literal(self.index.type, self.nothing_at)))
        warn_of(self.function, self.index, with_lanes(bad, self.width),
                functools.partial(_too_large, len(self.targets)))

    def directly(self, number: int) -> Any:
        """What a function returns that all elements take."""
        return run_directly(self.function, self.targets[number], self.named, self.width, self.nodes, self.leaves,
                            self.spec)

    # --- other ways --------------------------------------------------------------------------------------------------

    def invoke(self, number: int, nodes: Sequence[core.Node],
               spec: TreeSpec) -> tuple[list[core.Node], list[core.Node]]:
        """The results of a function, and what it has made of the arguments."""
        before = arguments(self.function, spec, nodes, self.leaves)
        arrays = arrays_of(before, spec, self.function)
        values = self.results.add(invoked(self.targets[number], self.named, before), self.names[number])
        return values, nodes_of(arrays)

    def blended(self) -> Any:
        """Compute all functions, and join them."""
        found, chosen = list[list[core.Node]](), list[core.Node]()
        with masked_access(TRUE):
            nodes = list(self.nodes)
            for number in range(len(self.targets)):
                chosen.append(ops.and_(self.mask, ops.eq(self.index, core.literal(self.index.type, number))))
                with masked_access(chosen[-1], some=False):
                    values, after = self.invoke(number, nodes, self.spec)
                nodes = written(nodes, after)
                found.append(values)
            joined = [self.joined(position, chosen, values)
                      for position, values in enumerate(zip(*found, strict=True))]
            store_arguments(self.leaves, self.nodes, nodes)
        return self.results.rebuilt(joined)

    def joined(self, position: int, chosen: Sequence[core.Node], values: Sequence[core.Node]) -> core.Node:
        """A result of all functions: that of each where it was chosen, or an argument that some have written to."""
        which = {argument_of(value, self.nodes) for value in values}
        memory = len(which) == 1 and None not in which and not all(value in self.nodes for value in values)
        found = values[0] if memory else core.literal(values[0].type, 0)
        for mask, value in zip(chosen, values, strict=True):
            found = blended(self.words, mask, position, value, found, self.results)
        return found

    def evaluated(self) -> Any:
        """Run each function on the elements that ask for it."""
        mask = with_lanes(self.mask, self.width)
        core.evaluate([self.index, mask, *self.nodes])
        if self.width == 1:
            chosen = int(core.read_element(self.index, 0))
            taken = bool(core.read_element(mask, 0)) and chosen < len(self.targets)
            if not taken:
                return self.nothing()
            return self.directly(chosen)
        joined: list[core.Node] | None = None
        whole = dict[int, core.Node]()
        nodes = list(self.nodes)
        with masked_access(TRUE):  # which is the scope of what is known of versions
            for number in range(len(self.targets)):
                chosen_ = ops.and_(mask, ops.eq(self.index, core.literal(self.index.type, number)))
                lanes = set_positions(chosen_)
                if not lanes.size:
                    continue
                part = [core.gather(node, lanes, TRUE) if node.size == self.width else node for node in nodes]
                with on_part(lanes, self.width), watched([new for new, old in zip(part, nodes, strict=True)
                                                          if new is not old]) as watch:
                    values, after = self.invoke(number, part, self.spec)
                self.require_whole(nodes, part, after, number, watch)
                nodes = [new if written_from(new, old) else node
                         for node, old, new in zip(nodes, part, after, strict=True)]
                joined = joined or [core.literal(value.type, 0, self.width) for value in values]
                for position, value in enumerate(values):
                    which = argument_of(value, self.nodes)
                    if which is not None and self.nodes[which].size not in (1, self.width):
                        # what the functions write to, and no values of theirs
                        whole[position] = blended(self.words, TRUE, position, value, whole.get(position, value),
                                                  self.results)
                        continue
                    if value.size not in (1, lanes.size) or position in whole:
                        raise SizeError(
                            f"{self.function}(): '{self.names[number]}' returned {value.size} elements as "
                            f"'{self.results.place(position)}' for {lanes.size} elements of the arguments.")
                    joined[position] = core.scatter(joined[position], value, lanes, TRUE, 0,
                                                    core.ReduceMode.NoConflicts.value)
                core.evaluate([*joined, *nodes])
        store_arguments(self.leaves, self.nodes, nodes)
        if joined is None:
            return self.nothing()
        return self.results.rebuilt([whole.get(position, value) for position, value in enumerate(joined)])

    def require_whole(self, nodes: Sequence[core.Node], part: Sequence[core.Node], after: Sequence[core.Node],
                      number: int, watch: Watch) -> None:
        """Refuse reads and writes by index of an argument of which a function has been given some elements only."""
        for position, (node, old, new) in enumerate(zip(nodes, part, after, strict=True)):
            if old is not node and (written_from(new, old) or old.size < self.width and watch.accessed(old)):
                does = "writes by index to" if written_from(new, old) else "reads by index from"
                raise ArgumentError(
                    f"{self.function}(): '{self.names[number]}' {does} the argument "
                    f"'{self.spec.node_paths(self.roots)[position]}', of which an evaluated call gives it only "
                    "the elements that take it. Refer to the array in the function instead of passing it, or use "
                    "mode='symbolic'.")

    def nothing(self) -> Any:
        """The results if no element takes part: zeros, of which a function tells the structure."""
        with masked_access(core.literal(BOOL, False), some=False):
            values, _ = self.invoke(0, self.nodes, self.spec)
        return self.results.rebuilt([core.literal(value.type, 0, self.width) for value in values])


def _too_large(count: int, index: object) -> str:
    return f"attempted to invoke callable with index {index}, but this value must be smaller than {count}."


def _without_mask(mask_type: type[ArrayBase], args: tuple[Any, ...],
                  kwargs: dict[str, Any]) -> tuple[core.Node, tuple[Any, ...], dict[str, Any]]:
    """The mask among the arguments, and the arguments as the functions see them."""
    if "active" in kwargs and _is_mask(kwargs["active"]):
        value = kwargs["active"]
        kwargs = kwargs | {"active": True if value.__class__ is bool else type(value)(True)}
    elif args and isinstance(args[-1], ArrayBase) and _is_mask(args[-1]):
        value = args[-1]
        args = (*args[:-1], type(value)(True))
    else:
        return TRUE, args, kwargs
    node = core.literal(BOOL, value) if value.__class__ is bool else mask_type(value)._nodes()[0]
    return TRUE if node.kind == _LITERAL and node.payload and node.size == 1 else node, args, kwargs


def _is_mask(value: Any) -> bool:
    return value.__class__ is bool or isinstance(value, ArrayBase) and value._kind == "b" and not value._depth
