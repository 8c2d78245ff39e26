"""The interpreter, on the memory of this process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..ir.node import Node
from .contents import bytes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["interpret"]


def interpret(nodes: Iterable[Node]) -> list[NDArray[Any]]:
    """The values of nodes as NumPy arrays, computed by :class:`drjit_core.interpreter.Interpreter` instead of kernels.

    Nothing is evaluated and the graph stays as it is.  Waits for the launches that fill the memory it reads.
    """
    from ..interpreter import Interpreter  # it needs NumPy, whose import takes longer than that of this project

    return Interpreter(bytes_of).run(nodes)
