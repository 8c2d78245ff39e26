"""Functions that look at contents of arrays, as steps of a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import Node

from .._trees.pytree import TreeSpec, flatten_nodes

__all__ = ["call_host", "records"]

_FUNCTION = "drjit.detail.call_host"


def records() -> bool:
    """Whether a frozen function is being recorded in this thread.

    >>> dr.detail.records()
    False
    """
    return core.current().recording is not None


def call_host(function: Callable[..., Any], *args: Any, name: str = "") -> Any:
    """What a function makes of arrays without derivatives, at whose contents it may look. Arguments and results are
    PyTrees.

    Evaluates. While a frozen function is recorded, replays call the function again, which must do nothing else; where
    types or shapes of results differ then, or what is no array, the frozen function is recorded again. Its ``name`` is
    what messages call it.

    >>> from drjit.llvm import TensorXf
    >>> dr.detail.call_host(lambda x: [TensorXf(sorted(x))], TensorXf([3, 1, 2]))
    [[1, 2, 3]]
    """
    name = name or getattr(function, "__name__", "function")
    nodes, leaves, spec = flatten_nodes(args, _FUNCTION)
    leaves = _without_arrays(leaves, spec)
    made: list[tuple[list[Any], TreeSpec]] = []

    def of_nodes(given: Sequence[Node]) -> list[Node]:
        found, rest, structure = flatten_nodes(function(*spec.rebuild_nodes(given, leaves)), _FUNCTION)
        rest = _without_arrays(rest, structure)
        if not made:
            made.append((rest, structure))
        elif structure != made[0][1] or not all(map(_is_like, rest, made[0][0])):
            raise core.UnlikeRecorded
        return found

    of_nodes.__name__ = name
    nodes = core.call_host(of_nodes, nodes)
    return made[0][1].rebuild_nodes(nodes, made[0][0])


def _without_arrays(leaves: list[Any], spec: TreeSpec) -> list[Any]:
    """The leaves, without the arrays that others take the places of."""
    places = {place for place, *_ in spec.traced()}
    return [None if place in places else leaf for place, leaf in enumerate(leaves)]


def _is_like(one: Any, other: Any) -> bool:
    """Whether two values of one class are the same, or equal."""
    if one is other:
        return True
    try:
        return bool(one == other or one != one and other != other)
    except (TypeError, ValueError):  # nobody can tell
        return False
