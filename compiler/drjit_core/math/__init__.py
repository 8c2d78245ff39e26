"""Traced mathematics: functions that are written in terms of the op table's rows, once for every backend.

Each function takes and returns nodes.  It is traced as one node, of a row that is expanded when text is needed (see
:mod:`drjit_core.ir.expansion`); the decorated functions of this package are the expansions.  Derivatives are rules of
the array layer, in terms of these functions, since an expansion works on bits.

Constants of the expansions are baked into the program.  Errors, and what they are for what kind of argument, are in the
modules; ``conformance/accuracy.py`` prints them beside the documented ones.

========================  ===========================================================================
:mod:`.exponential`       exp, exp2, log, log2, power
:mod:`.trigonometric`     sin, cos, sincos, tan, cot
:mod:`.inverse`           asin, acos, atan, atan2
:mod:`.hyperbolic`        sinh, cosh, sincosh, tanh, asinh, acosh, atanh
:mod:`.error`             erf, erfc, erfinv
:mod:`.gamma`             lgamma
:mod:`.roots`             cbrt, hypot
:mod:`.reciprocal`        rcp, rsqrt
:mod:`.division`          floordiv and mod of integers, by a multiplication where the divisor is a literal
:mod:`.polynomial`        what these share
========================  ===========================================================================
"""

from __future__ import annotations

from .division import floordiv, mod
from .error import erf, erfc, erfinv
from .exponential import exp, exp2, log, log2, power
from .gamma import lgamma
from .hyperbolic import acosh, asinh, atanh, cosh, sincosh, sinh, tanh
from .inverse import acos, asin, atan, atan2
from .reciprocal import rcp, rsqrt
from .roots import cbrt, hypot
from .trigonometric import cos, cot, sin, sincos, tan

__all__ = ["acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "cot", "erf", "erfc",
           "erfinv", "exp", "exp2", "floordiv", "hypot", "lgamma", "log", "log2", "mod", "power", "rcp", "rsqrt", "sin",
           "sincos", "sincosh", "sinh", "tan", "tanh"]
