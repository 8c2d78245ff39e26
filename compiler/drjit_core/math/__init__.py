"""Traced mathematics: functions that are written in terms of the op table's rows, once for every backend.

Each function takes and returns nodes.  Compiling them needs nothing of its own: they are operations like any other, and
a function that is traced twice of one operand is found by value numbering.  Derivatives are rules of the array layer,
in terms of these functions, since an expansion works on bits.

Constants of the expansions are baked into the program.  Errors, and what they are for what kind of argument, are in the
modules; ``conformance/accuracy.py`` prints them beside the documented ones.

========================  ===========================================================================
:mod:`.exponential`       exp, exp2, log, log2, power
:mod:`.trigonometric`     sin, cos, sincos, tan
:mod:`.reciprocal`        rcp, rsqrt
:mod:`.division`          floordiv and mod of integers, by a multiplication where the divisor is a literal
:mod:`.polynomial`        what these share
========================  ===========================================================================
"""

from __future__ import annotations

from .division import floordiv, mod
from .exponential import exp, exp2, log, log2, power
from .reciprocal import rcp, rsqrt
from .trigonometric import cos, sin, sincos, tan

__all__ = ["cos", "exp", "exp2", "floordiv", "log", "log2", "mod", "power", "rcp", "rsqrt", "sin", "sincos", "tan"]
