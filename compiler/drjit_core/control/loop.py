"""Symbolic loops: the body is traced once and becomes a region of the graph.

The caller provides flat state; structure, labels and evaluation modes are the array layer's work.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..errors import IncompatibleSizes
from ..flags import OPTIMIZE_LOOPS, SYMBOLIC_SCOPE, state
from ..ir.build import append, broadcast_size
from ..ir.node import Node
from ..ir.region import Loop
from ..ir.symbolic import Place, ReadByIndex, call_site, close, open_, user_line
from ..ops.table import LITERAL, LOOP, LOOP_RESULT, PHI
from ..types import BOOL, TYPES

__all__ = ["while_loop"]

_scopes = itertools.count(1)


@contextmanager
def _region(place: Place) -> Iterator[int]:
    """Trace into a new region; yields its id."""
    outer_scope, outer_flag = state.scope, state.flags & SYMBOLIC_SCOPE
    state.scope = region = next(_scopes)
    open_(region, place)
    state.flags |= SYMBOLIC_SCOPE
    state.refresh()
    try:
        yield region
    finally:
        close(region)
        state.scope = outer_scope
        state.flags = state.flags & ~SYMBOLIC_SCOPE | outer_flag
        state.refresh()


def while_loop(initial: Sequence[Node], condition: Callable[[list[Node]], Node],
               body: Callable[[list[Node]], list[Node]], label: str | None = None,
               name_of: Callable[[int], str] | None = None) -> list[Node]:
    """``while condition(*variables): variables = body(*variables)`` for every element, as part of the kernel.

    Both functions are called with nodes and return nodes of the same types.  They are called once, or again when it
    turns out that the loop is wider than its initial values, or that some variables do not change and are better used
    directly (``JitFlag.OptimizeLoops``), or must be, because they are read by index or have a size of their own.  What
    they trace must be free of side effects and of evaluation.  ``name_of`` gives the names of variables by their
    positions, if a message needs one.
    """
    line = user_line()
    constant: frozenset[int] = frozenset()  # positions of variables that the body leaves alone
    memory: frozenset[int] = frozenset()  # of those that it reads by index
    apart: frozenset[int] = frozenset()  # of those that have no part in the loop's width
    changed: frozenset[int] = frozenset()  # that the body has changed once: whether it does may depend on their width
    try:
        size = broadcast_size("while_loop", *initial)
    except IncompatibleSizes:
        # It may be that the body leaves some of them alone: then their sizes do not matter. Zero stands for a trace
        # that finds out, in which each variable has its own size.
        size = 0
    probed = not size
    while True:
        try:
            with _region(Place(label, line, name_of)) as region:
                phis = {i: append(PHI, value.type, size or value.size, attr=i, payload=region)
                        for i, value in enumerate(initial) if i not in constant}
                variables = [phis.get(i, value) for i, value in enumerate(initial)]
                test = condition(list(variables))
                _check_condition(test)
                results = list(body(list(variables)))
        except ReadByIndex as request:
            if request.region != region:
                raise
            memory |= {request.position}
            constant, apart = constant | memory, apart | memory
            size = broadcast_size("while_loop", *_but(apart, initial)) if size else 0
            continue
        except Exception as error:
            if probed or size <= 1 or not _about_sizes(error):
                raise
            probed, size = True, 0  # what does not go together may be the size of a variable that is left alone
            continue
        _check_results(initial, results)
        unchanged = frozenset(i for i, (a, b) in enumerate(zip(variables, results, strict=True)) if a is b) - changed
        if not memory <= unchanged:
            raise NotImplementedError(
                f"{call_site('while_loop')}(): the state variable '{_name(min(memory - unchanged), name_of)}' is read "
                "by index and changed in one symbolic loop, which is not supported yet; run the loop with "
                "mode='evaluated'.")
        if not size:
            constant = apart = unchanged
            size = broadcast_size("while_loop", *_but(apart, initial))
            continue
        needed = broadcast_size("while_loop", *_but(apart, initial), test, *_but(apart, results))
        if needed != size:
            size = needed
        elif state.flags & OPTIMIZE_LOOPS and unchanged != constant:
            changed |= constant - unchanged
            constant = unchanged
        else:
            break
    if test.kind == LITERAL and not test.payload:
        return list(initial)
    varying = [i for i in range(len(initial)) if i not in constant]
    payload = Loop(region, tuple(initial[i] for i in varying), tuple(phis[i] for i in varying), test,
                   tuple(results[i] for i in varying), label)
    node = append(LOOP, BOOL, size, payload=payload)
    outputs = list(initial)
    for position, i in enumerate(varying):
        outputs[i] = append(LOOP_RESULT, initial[i].type, size, node, attr=position)
    return outputs


def _but(left_out: frozenset[int], nodes: Sequence[Node]) -> list[Node]:
    return [node for i, node in enumerate(nodes) if i not in left_out]


def _about_sizes(error: BaseException | None) -> bool:
    """Whether operands did not go together, as the array layer's exceptions say in their context."""
    return error is not None and (isinstance(error, IncompatibleSizes) or _about_sizes(error.__context__))


def _name(position: int, name_of: Callable[[int], str] | None) -> str:
    return str(position) if name_of is None else name_of(position)


def _check_condition(test: Node) -> None:
    if test.type != BOOL:
        raise TypeError(f"while_loop(): the condition must be a mask, found {TYPES[test.type].name}")


def _check_results(initial: Sequence[Node], results: Sequence[Node]) -> None:
    if len(results) != len(initial):
        raise ValueError(f"while_loop(): the body returned {len(results)} variables, the loop has {len(initial)}")
    for i, (before, after) in enumerate(zip(initial, results, strict=True)):
        if before.type != after.type:
            raise TypeError(f"while_loop(): the type of state variable {i} changed from {TYPES[before.type].name} to "
                            f"{TYPES[after.type].name} in the loop's body")
