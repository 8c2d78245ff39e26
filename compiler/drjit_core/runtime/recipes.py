"""The short way from nodes to launches; its compiled form, ``recipes.pyx``, has one for the usual case.

What :mod:`.launch` does for any kernel is done for straight kernels in one walk over the graph (see :mod:`.walk`),
which makes a program's key and its parameters without the program; a kernel that is known by that key is launched at
once. Steps whose operands are in memory are launched by what is known of steps of their structure. All other graphs
have *recipes*: what is launched for a graph of some structure, and with what. While a recording is made, straight
kernels go this way as well. Whatever else there is to do (a kernel that is not known, what else a recording launches,
debug mode, a history, log lines) is left to the general way. This form leaves everything to it.

Nothing here knows one backend from another: each has :class:`Recipes` of its own, and a :class:`~.native.Native` that
launches for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..codegen.target import Target
from ..ir.node import Node
from . import relaunch
from .launch import evaluate_by_kernels as evaluate
from .native import Native
from .stages import Stage
from .walk import Walk

__all__ = ["Recipes", "evaluate"]


class Recipes:
    """What is known of the launches of a backend."""

    launches = 0  #: How many went the short way.

    def __init__(self, native: Native) -> None:
        self.native, self.walk = native, Walk(native.backend)
        self._targets: dict[Target, int] = {}

    def target_number(self) -> int:
        """A number for what the backend's programs are assembled for just now."""
        return self._targets.setdefault(self.native.backend.target(), len(self._targets))  # type: ignore[attr-defined]

    def replay(self, steps: list[Stage], nodes: list[Any], sizes: Sequence[int], /) -> None:
        """Launch stages for nodes, by their places, and sizes, by their numbers.  The caller holds the lock."""
        relaunch.run(self.native.backend, steps, nodes, sizes)  # type: ignore[arg-type]

    def launch_straight(self, roots: list[Node], width: int, recorder: Any, /) -> bool:
        """Launch a kernel of a plan, which a recorder notes, if it is straight; whether it was done."""
        return False

    def key_of(self, roots: list[Node], /) -> tuple[bytes, list[int]] | None:
        """For tests: key and parameters (those of outputs are 0) of the one kernel of some nodes, or ``None``."""
        return None

    def forget(self) -> None:
        """Forget all kernels."""
