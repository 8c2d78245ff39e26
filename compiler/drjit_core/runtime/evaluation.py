"""Evaluation: what has been scheduled is evaluated by the backend that this thread uses.

One thread at a time evaluates; what has been scheduled is a property of the thread.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable

from ..flags import LAUNCH_BLOCKING, state
from ..ir import deferred
from ..ir import node as nodes
from ..ir.node import Node
from ..ir.symbolic import symbolic_error
from ..ir.verify import verify
from ..ops.table import EVALUATED, UNDEFINED
from . import backends, bounds, exclusion, explain

__all__ = ["evaluate", "flush_kernel_cache", "schedule"]

#: Check the graph before every evaluation (a defect of this project raises, instead of giving wrong results).
_VERIFY = os.environ.get("DRJIT_VERIFY", "") not in ("", "0")


class _Scheduled(threading.local):
    """Nodes that the next evaluation of this thread includes, if they are still alive by then."""

    def __init__(self) -> None:
        self.nodes: list[weakref.ref[Node]] = []


_scheduled = _Scheduled()


def schedule(nodes: Iterable[Node]) -> bool:
    """Include nodes in the next evaluation; returns whether any of them needs one."""
    any_ = False
    for node in nodes:
        if node.kind > UNDEFINED and node.kind != EVALUATED:
            if node.scope:
                raise symbolic_error(node, "schedule")
            _scheduled.nodes.append(weakref.ref(node))
            any_ = True
    return any_


def evaluate(nodes: Iterable[Node] = ()) -> bool:
    """Evaluate nodes, everything scheduled, and what this thread's statements need, and let those act.

    Returns whether there was anything to do.
    """
    schedule(nodes)
    statements = deferred.chain.statements
    if not _scheduled.nodes and not statements:
        return False
    with exclusion.lock:
        exclusion.check()
        try:
            exclusion.evaluating = True
            found = _evaluate()
        except Exception:
            deferred.abandon()
            raise
        finally:
            exclusion.evaluating = False
    if found and state.flags & LAUNCH_BLOCKING:
        bounds.warn()
    if statements:
        deferred.run()
    return found


def _evaluate() -> bool:
    """Evaluate what this thread has scheduled."""
    references, _scheduled.nodes = _scheduled.nodes, []
    roots: list[Node] = []
    seen: set[int] = set()
    for reference in references:
        node = reference()
        if node is not None and node.kind != EVALUATED and node.id not in seen:
            seen.add(node.id)
            roots.append(node)
    for statement in deferred.chain.statements:
        for memory in statement.memory:
            if not memory.there and memory.node.id not in seen:
                seen.add(memory.node.id)
                roots.append(memory.node)
    node = None
    if not roots:
        return False
    nodes.sweep_if_large()
    if _VERIFY:
        verify(roots)
    backends.current().evaluate(roots)
    return True


def flush_kernel_cache() -> None:
    """Forget all kernels in memory."""
    with exclusion.lock:
        backends.current().flush()
        explain.forget()
