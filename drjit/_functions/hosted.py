"""Functions that look at contents of arrays, as steps of a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import Node

from .._arrays.bases import tensor

__all__ = ["call_host", "records"]


def records() -> bool:
    """Whether a frozen function is being recorded in this thread.

    >>> dr.detail.records()
    False
    """
    return core.current().recording is not None


def call_host(function: Callable[..., Sequence[Any]], *tensors: Any) -> list[Any]:
    """What a function of tensors without derivatives makes of them, which may look at their contents: tensors, too,
    whose types and shapes follow from those that it is given.

    Evaluates. While a frozen function is recorded, replays call the function again; it must do nothing else.

    >>> from drjit.llvm import TensorXf
    >>> dr.detail.call_host(lambda x: [TensorXf(sorted(x))], TensorXf([3, 1, 2]))
    [[1, 2, 3]]
    """
    given = [(type(each), each.shape) for each in tensors]
    made: list[tuple[Any, tuple[int, ...]]] = []

    def of_nodes(nodes: Sequence[Node]) -> list[Node]:
        found = function(*[tensor(cls, node, shape) for (cls, shape), node in zip(given, nodes, strict=True)])
        made[:] = [(type(each), each.shape) for each in found]
        return [each._n for each in found]

    of_nodes.__name__ = getattr(function, "__name__", "function")
    nodes = core.call_host(of_nodes, [each._n for each in tensors])
    return [tensor(cls, node, shape) for (cls, shape), node in zip(made, nodes, strict=True)]
