"""Steps as launches of hand-written PTX, for the rows of :mod:`drjit_core.ops.steps`.

=================  ======================================================================
:mod:`.writer`     writing text: registers, parameters, loops, warps, signals of blocks
:mod:`.scan`       running reductions, and how tiles look back
:mod:`.compress`   positions of the set elements of a mask
:mod:`.extremum`   positions of the smallest and largest elements
:mod:`.product`    products of matrices
:mod:`.sort`       sorted values, and the positions that sort them
:mod:`.transpose`  copies with axes in another order
=================  ======================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...codegen.steps import Call, Pass
from . import compress, extremum, product, scan, sort, transpose
from .writer import LONGEST

__all__ = ["LAUNCHES", "LONGEST"]

#: By the name of a step, what makes its passes.
LAUNCHES: dict[str, Callable[[Call], Iterable[Pass]]] = {
    "scan": scan.passes, "extremum": extremum.passes, "count": compress.count_passes, "compress": compress.passes,
    "sort": sort.passes, "matmul": product.passes, "transpose": transpose.passes,
}
