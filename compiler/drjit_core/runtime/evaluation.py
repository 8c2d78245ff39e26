"""Evaluation: what has been scheduled is evaluated by the backend that this thread uses.

One thread at a time evaluates; what has been scheduled is a property of the thread.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Iterable
from typing import Any

from ..context import current
from ..derivatives.flow import evaluate_by
from ..flags import LAUNCH_BLOCKING
from ..ir import deferred
from ..ir.dual import without
from ..ir.node import Node, sweep_if_large
from ..ir.region import operands
from ..ir.symbolic import is_unusable, note_seen, symbolic_error
from ..ir.verify import verify
from ..ir.vertex import begin_era
from ..ops.table import DUAL, EVALUATED, FIRST_ELEMENTWISE, UNDEFINED
from ..passes.order import post_order
from . import backends, bounds, exclusion, explain
from .backend import Backend

__all__ = ["evaluate", "flush_kernel_cache", "needed_for", "schedule"]

#: Check the graph before every evaluation (a defect of this project raises, instead of giving wrong results).
_VERIFY = os.environ.get("DRJIT_VERIFY", "") not in ("", "0")
_log = logging.getLogger("drjit")
_LLVM_BIT = backends.LLVM.where
_exclusion = vars(exclusion)
_FIRST_ELEMENTWISE = FIRST_ELEMENTWISE
_UNDEFINED, _EVALUATED, _DUAL, _LLVM, _lock = UNDEFINED, EVALUATED, DUAL, backends.LLVM, exclusion.lock


def schedule(nodes: Iterable[Node]) -> bool:
    """Include nodes in the next evaluation; returns whether any of them needs one."""
    wanted = _wanted(nodes, "schedule")
    if not wanted:
        return False
    scheduled = current().scheduled
    for node in wanted:
        scheduled.append(weakref.ref(node))
    return True


def _wanted(nodes: Iterable[Node], function: str) -> list[Node]:
    """Those of some nodes that have no values yet, but for what nobody can use."""
    wanted = []
    for node in nodes:
        if node.kind == _DUAL:  # with its gradient
            vertex = node.payload
            node = without(node)
            if vertex.gradient is not None and vertex.gradient.kind != _DUAL:
                wanted += _wanted((vertex.gradient,), function)
        if node.kind > _UNDEFINED and node.kind != _EVALUATED:
            if node.scope:
                if is_unusable(node):
                    continue
                raise symbolic_error(node, function)
            wanted.append(node)
    return wanted


def evaluate(nodes: Iterable[Node] = ()) -> bool:
    """Evaluate nodes, everything scheduled, and what this thread's statements need, and let those act.

    Returns whether there was anything to do.
    """
    roots = _wanted(nodes, "schedule")
    context = current()
    if context.region is not None:
        for root in (*roots, *[node for reference in context.scheduled if (node := reference()) is not None]):
            note_seen(root)
    statements = context.statements
    if not roots and not context.scheduled and not statements:
        return False
    with _lock:
        if _exclusion["evaluating"]:
            schedule(roots)
            exclusion.check()
        try:
            _exclusion["evaluating"] = True
            found = _evaluate(context, roots, statements)
        except Exception:
            deferred.abandon()
            raise
        finally:
            _exclusion["evaluating"] = False
    if found:
        begin_era()
    if found and context.flags & LAUNCH_BLOCKING:
        bounds.warn()
    if statements:
        deferred.run()
    return found


def _evaluate(context: Any, roots: list[Node], statements: list[deferred.Statement]) -> bool:
    """Evaluate nodes, and what this thread has scheduled."""
    if len(roots) != 1 or context.scheduled or statements or context.checks or \
            roots[0].kind == _EVALUATED:  # by another thread
        found = _collected(context, roots, statements)
        roots.clear()  # planning counts who holds nodes
        roots = found
    if not roots:
        return False
    sweep_if_large()
    if _VERIFY:
        verify(roots)
    where = _places(roots)
    if not where and context.recording is not None:
        where = context.recording.backend.where  # what belongs nowhere is part of what is recorded
    if where & (where - 1):
        _evaluate_apart(roots, where)
        return True
    backend = context.backend
    if backend is None or where and backend.where != where:
        backend = _LLVM if where == _LLVM_BIT else backends.backend_of(where)
    _evaluate_by(backend, roots)
    return True


def _evaluate_by(backend: Backend, roots: list[Node]) -> None:
    """Let a backend evaluate nodes; it forgets its kernels before, if there are too many."""
    if backend.crowded():
        _log.info("jit_eval(): forgetting the kernels in memory, of which there are too many.")
        flush_kernel_cache()
    backend.evaluate(roots)


def _places(roots: list[Node]) -> int:
    """The backends that nodes belong to, as bits."""
    where = 0
    for root in roots:
        where |= root.where
    return where


def _evaluate_apart(roots: list[Node], where: int) -> None:
    """Evaluate nodes of several backends: what belongs to none of them goes with the first one."""
    groups: dict[int, list[Node]] = {}
    first = where & -where
    while roots:
        root = roots.pop()
        groups.setdefault(root.where or first, []).append(root)
        del root  # planning counts who holds nodes
    for bit, group in groups.items():
        group.reverse()
        _evaluate_by(backends.backend_of(bit), group)


def _collected(context: Any, roots: list[Node], statements: list[deferred.Statement]) -> list[Node]:
    """What is to be evaluated, each node once."""
    references, context.scheduled = context.scheduled, []
    found: list[Node] = []
    seen: set[int] = set()
    for node in roots:
        if node.kind != _EVALUATED and node.id not in seen:
            seen.add(node.id)
            found.append(node)
    for reference in references:
        scheduled = reference()
        if scheduled is not None and scheduled.kind != _EVALUATED and scheduled.id not in seen:
            seen.add(scheduled.id)
            found.append(scheduled)
    for statement in statements:
        for memory in statement.memory:
            if not memory.there and memory.node.id not in seen:
                seen.add(memory.node.id)
                found.append(memory.node)
    if context.checks:
        found += _checked(context.checks, found)
    return found


def _checked(checks: list[deferred.Check], roots: list[Node]) -> list[Node]:
    """The masks of checks that are about what some nodes need, and so about these nodes; those of what nobody holds
    any more are let go."""
    masks: list[Node] = []
    for check in list(checks):
        ids = {node.id for node in check.alive()}
        if not ids:
            checks.remove(check)
            continue
        for node in post_order(roots):
            if any(operand is not None and operand.id in ids for operand in operands(node)):
                ids.add(node.id)
        affected = [root for root in roots if root.id in ids]
        check.about += map(weakref.ref, affected)
        if affected and check.mask.kind != _EVALUATED:
            masks.append(check.mask)
    return masks


def needed_for(nodes: Iterable[Node]) -> tuple[set[int], int]:
    """The ids of what has no values yet and is computed for some nodes, these included, and how many elements all that
    begins with: what has been evaluated."""
    seen: set[int] = set()
    leaves: set[int] = set()
    elements = 0
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node.kind == _EVALUATED:
            if node.id not in leaves:
                leaves.add(node.id)
                elements += node.size
        elif node.kind >= _FIRST_ELEMENTWISE:
            if node.id not in seen:
                seen.add(node.id)
                for operand in (node.d0, node.d1, node.d2, node.d3):
                    if operand is None:
                        break
                    stack.append(operand)
        elif node.kind == _DUAL:
            stack.append(without(node))
        elif node.kind > _EVALUATED and node.id not in seen:
            seen.add(node.id)
            stack += operands(node)
    return seen, elements


def flush_kernel_cache() -> None:
    """Forget all kernels in memory."""
    with exclusion.lock:
        for backend in backends.all_backends():
            backend.flush()
        explain.forget()


evaluate_by(evaluate)
