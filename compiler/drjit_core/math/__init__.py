"""Traced mathematics: functions that are written in terms of the op table's rows, once for every backend.

Each function takes and returns nodes.  It is traced as one node, of a row that is expanded when text is needed (see
:mod:`drjit_core.ir.expansion`); the decorated functions of this package are the expansions.  Derivatives are rules
(:mod:`drjit_core.ops.derivatives`) in terms of these functions, since an expansion works on bits.

Constants of the expansions are baked into the program.  Errors, and what they are for what kind of argument, are in the
modules; ``conformance/accuracy.py`` prints them beside the documented ones.

Public functions that are a few operations, and are traced as these, stand in :mod:`.composed`.

========================  ===========================================================================
:mod:`.exponential`       exp, exp2, log, log2, power
:mod:`.trigonometric`     sin, cos, sincos, tan, cot
:mod:`.inverse`           asin, acos, atan, atan2
:mod:`.hyperbolic`        sinh, cosh, sincosh, tanh, asinh, acosh, atanh
:mod:`.error`             erf, erfc, erfinv
:mod:`.gamma`             lgamma
:mod:`.roots`             cbrt, hypot
:mod:`.reciprocal`        rcp, rsqrt
:mod:`.composed`          sign, copysign, mulsign, fmin, fmax, clip, lerp, safe_sqrt, isnan …
:mod:`.division`          floordiv and mod of integers, by a multiplication where the divisor is a literal
:mod:`.polynomial`        what these share
========================  ===========================================================================
"""

from __future__ import annotations

from collections.abc import Callable as _Callable
from typing import Any as _Any

from ..ir.node import Node as _Node
from ..ir.trace import ops as _ops
from ..ops.reductions import REDUCTIONS as _REDUCTIONS
from ..ops.table import FUNCTIONS as _FUNCTIONS
from .composed import *
from .division import *
from .error import *
from .exponential import *
from .gamma import *
from .hyperbolic import *
from .inverse import *
from .reciprocal import *
from .roots import *
from .trigonometric import *

#: Trace functions of the rows that are public functions, by name: those of this package, else the rows' own.
TRACE: dict[str, _Callable[..., _Any]] = {
    name: globals().get(name) or getattr(_ops, name) for name in _FUNCTIONS}
#: The trace function that each reduction repeats, by its number; one that is composed is right for all types.
COMBINE: dict[int, _Callable[[_Node, _Node], _Node]] = {
    op: TRACE.get(name) or getattr(_ops, name)
    for op, reduction in _REDUCTIONS.items() for name in list(reduction.rows.values())[-1:]}
