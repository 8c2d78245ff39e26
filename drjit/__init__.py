"""Dr.Jit in Python: arrays whose computation is traced, compiled just in time, and run on all cores.

Array types live in backend packages such as :mod:`drjit.llvm`; the functions here work on all of them.
"""

from drjit_core import (JitBackend, JitFlag, KernelRecordingMode, KernelType, LogLevel, ReduceMode, ReduceOp, VarState,
                        VarType, flag, scoped_set_flag, set_flag)

from . import _environment, llvm
from ._array import ArrayBase
from ._color import linear_srgb_to_oklab, linear_to_srgb, oklab_to_linear_srgb, srgb_to_linear
from ._constants import (e, epsilon, four_pi, inf, inv_four_pi, inv_log_two, inv_pi, inv_sqrt_pi, inv_sqrt_two,
                         inv_sqrt_two_pi, inv_two_pi, largest, log_two, nan, one_minus_epsilon, pi, recip_overflow,
                         smallest, sqrt_four_pi, sqrt_pi, sqrt_two, sqrt_two_pi, two_pi)
from ._create import (arange, empty, empty_like, full, linspace, ones, ones_like, opaque, zeros, zeros_like)
from ._eval import (eval, flush_kernel_cache, flush_malloc_cache, has_backend, kernel_history, kernel_history_clear,
                    log_level, make_opaque, schedule, set_log_level, set_thread_count, shape, sync_thread,
                    thread_count, width, expand_threshold, set_expand_threshold)
from ._loop import while_loop
from ._math import (acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, copysign, cosh, cot, deg2rad, erf, erfc,
                    erfinv, exp2, fmax, fmin, hypot, lgamma, log2, mul_wide, mulsign, rad2deg, safe_acos, safe_asin,
                    safe_sqrt, sign, sincosh, sinh, step, tan, tanh)
from ._memop import gather, scatter, scatter_add, scatter_reduce
from ._ops import (abs, brev, ceil, clip, cos, exp, floor, fma, isfinite, isinf, isnan, lerp, log, log2i, lzcnt,
                   maximum, minimum, mul_hi, popcnt, power, rcp, reinterpret_array, round, rsqrt, select, sin, sincos,
                   sqrt, trunc, tzcnt)
from ._reduce import all, any, count, max, mean, min, none, prod, reduce, sum
from ._statistics import std, var
from ._vector import abs_dot, dot, norm, normalize, squared_norm, unit_angle

__version__ = "0.1.0"

__all__ = [
    "ArrayBase", "JitBackend", "JitFlag", "KernelRecordingMode", "KernelType", "LogLevel", "ReduceMode", "ReduceOp",
    "VarState", "VarType", "abs", "abs_dot", "acos", "acosh", "all", "any", "arange", "asin", "asinh", "atan",
    "atan2", "atanh", "brev", "cbrt", "ceil", "clip", "copysign", "cos", "cosh", "cot", "count", "deg2rad", "dot",
    "e", "empty", "empty_like", "epsilon", "erf", "erfc", "erfinv", "eval", "exp", "exp2", "expand_threshold",
    "flag", "floor", "flush_kernel_cache", "flush_malloc_cache", "fma", "fmax", "fmin", "four_pi", "full", "gather",
    "has_backend", "hypot", "inf", "inv_four_pi", "inv_log_two", "inv_pi", "inv_sqrt_pi", "inv_sqrt_two",
    "inv_sqrt_two_pi", "inv_two_pi", "isfinite", "isinf", "isnan", "kernel_history", "kernel_history_clear",
    "largest", "lerp", "lgamma", "linear_srgb_to_oklab", "linear_to_srgb", "linspace", "llvm", "log", "log2",
    "log2i", "log_level", "log_two", "lzcnt", "make_opaque", "max", "maximum", "mean", "min", "minimum", "mul_hi",
    "mul_wide", "mulsign", "nan", "none", "norm", "normalize", "oklab_to_linear_srgb", "one_minus_epsilon", "ones",
    "ones_like", "opaque", "pi", "popcnt", "power", "prod", "rad2deg", "rcp", "recip_overflow", "reduce",
    "reinterpret_array", "round", "rsqrt", "safe_acos", "safe_asin", "safe_sqrt", "scatter", "scatter_add",
    "scatter_reduce", "schedule", "scoped_set_flag", "select", "set_expand_threshold", "set_flag", "set_log_level",
    "set_thread_count", "shape", "sign", "sin", "sincos", "sincosh", "sinh", "smallest", "sqrt", "sqrt_four_pi",
    "sqrt_pi", "sqrt_two", "sqrt_two_pi", "squared_norm", "srgb_to_linear", "std", "step", "sum", "sync_thread",
    "tan", "tanh", "thread_count", "trunc", "two_pi", "tzcnt", "unit_angle", "var", "while_loop", "width", "zeros",
    "zeros_like",
]
