"""Keys and parameters of graphs, made in one walk over the nodes; its compiled form, ``walk.pyx``, does that.

There are two kinds of walks. Of *straight* kernels, those without control flow, writes or checks, all of which can run
now, a walk makes what :func:`drjit_core.codegen.program.assemble` would: the key, by which a kernel is known, and the
parameters. Of any other graph it makes a key of all that planning looks at, with the *places* of nodes in the order of
the walk, by which a recipe is known (see :mod:`.recipes`).

What is decided by sizes is decided by the numbers of a :class:`~drjit_core.codegen.target.Target`. A walk belongs to
one backend, and has no place for memory of others.
"""

from __future__ import annotations

from .backend import Backend

__all__ = ["Walk"]


class Walk:
    """In this form there is none."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
