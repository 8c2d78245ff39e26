"""Steps as launches of LLVM text that is written by hand (:mod:`..writer`), for the rows of
:mod:`drjit_core.ops.steps`.

===============  ======================================================================
:mod:`.blocks`   how launches are cut into blocks
:mod:`.packets`  what several steps share: types in memory and in registers, masked tails
:mod:`.scan`     running reductions
:mod:`.extremum` positions of the smallest and largest elements
:mod:`.compress` positions of the set elements of a mask
:mod:`.sort`     sorted values, and the positions that sort them
:mod:`.matmul`   products of matrices; how: :mod:`.matrices`; texts: :mod:`.product`, :mod:`.vector`
:mod:`.transpose` copies with axes in another order
:mod:`.tasks`    what kernels of tiles of matrices have in common
:mod:`.shuffles` squares of elements in registers
===============  ======================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...codegen.steps import Call, Pass
from . import compress, extremum, matmul, scan, sort, transpose
from .blocks import Blocks

__all__ = ["Blocks", "LAUNCHES", "passes"]

#: By the name of a step, what makes its passes.
LAUNCHES: dict[str, Callable[[Call], Iterable[Pass]]] = {
    "scan": scan.passes, "extremum": extremum.passes, "count": compress.count_passes, "compress": compress.passes,
    "sort": sort.passes,
    "matmul": matmul.passes, "transpose": transpose.passes,
}


def passes(call: Call, /) -> Iterable[Pass]:
    """What a step takes to run."""
    return LAUNCHES[call.step.name](call)
