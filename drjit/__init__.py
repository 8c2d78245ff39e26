"""Dr.Jit in Python: arrays whose computation is traced, compiled just in time, and run on all cores.

Array types live in backend packages such as :mod:`drjit.llvm`; the functions here work on all of them.
"""

from drjit_core import (JitBackend, JitFlag, KernelRecordingMode, KernelType, LogLevel, ReduceMode, ReduceOp, VarState,
                        VarType, flag, scoped_set_flag, set_flag)

import importlib as _importlib
from typing import Any as _Any

from . import detail, llvm
from ._base import environment as _environment, later as _later
from ._base.array import ArrayBase
from ._base.typing import AnyArray, ArrayT, MaskT, PlainT, RedT, SelfCpT, SelfT, T, Ts, ValCpT, ValT
from ._access.indirect import gather, scatter, scatter_add, scatter_reduce
from ._access.slicing import slice_index
from ._functions.color import linear_srgb_to_oklab, linear_to_srgb, oklab_to_linear_srgb, srgb_to_linear
from ._functions.comparison import allclose, assert_allclose
from ._tools.assertions import assert_equal, assert_false, assert_true
from ._functions.constants import (e, epsilon, four_pi, inf, inv_four_pi, inv_log_two, inv_pi, inv_sqrt_pi,
    inv_sqrt_two, inv_sqrt_two_pi, inv_two_pi, largest, log_two, nan, one_minus_epsilon, pi, recip_overflow, smallest,
    sqrt_four_pi, sqrt_pi, sqrt_two, sqrt_two_pi, two_pi)
from ._functions.creation import arange, empty, empty_like, full, linspace, ones, ones_like, opaque, zeros, zeros_like
from ._functions.elementwise import (abs, brev, ceil, clip, cos, exp, floor, fma, isfinite, isinf, isnan, lerp, log,
    log2i, lzcnt, maximum, minimum, mul_hi, popcnt, power, rcp, reinterpret_array, round, rsqrt, select, sin, sincos,
    sqrt, trunc, tzcnt)
from ._control.search import binary_search
from ._functions.evaluation import copy
from ._functions.creation import meshgrid
from ._functions.linalg import cross, det, diag, frob, inverse, matmul, polar_decomp, trace
from ._functions.mathematics import (acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, copysign, cosh, cot, deg2rad,
    erf, erfc, erfinv, exp2, fmax, fmin, hypot, lgamma, log2, mul_wide, mulsign, rad2deg, safe_acos, safe_asin,
    safe_sqrt, sign, sincosh, sinh, step, tan, tanh)
from ._functions.rearrangement import (array_split, column_stack, concat, dstack, expand_dims, hstack, moveaxis, ravel,
    reshape, split, squeeze, stack, swapaxes, take, transpose, unravel, vstack)
from ._functions.reductions import all, any, count, max, mean, min, none, prod, reduce, sum
from ._functions.statistics import std, var
from ._functions.traits import (Dynamic, array_t, backend_v, depth_v, detached_t, diff_array_t, expr_t, float16_array_t,
    float32_array_t, float64_array_t, float_array_t, int32_array_t, int64_array_t, int8_array_t, int_array_t,
    is_arithmetic_v, is_array_v, is_complex_v, is_diff_v, is_dynamic_v, is_float_v, is_half_v, is_integral_v, is_jit_v,
    is_mask_v, is_matrix_v, is_quaternion_v, is_signed_v, is_special_v, is_struct_v, is_tensor_v, is_unsigned_v,
    is_vector_v, itemsize_v, leaf_t, mask_t, matrix_t, newaxis, reinterpret_array_t, replace_shape_t, replace_type_t,
    scalar_t, size_v, tensor_t, type_v, uint32_array_t, uint64_array_t, uint8_array_t, uint_array_t, value_t)
from ._functions.transformations import (arg, conj, euler_to_quat, identity, imag, matrix_to_quat, quat_apply,
    quat_to_euler, quat_to_matrix, real, rotate, sh_eval, slerp, sphdir, transform_compose, transform_decompose)
from ._functions.vectors import abs_dot, dot, norm, normalize, squared_norm, unit_angle
from ._control.loop import while_loop
from ._random import generators as _generators
from ._tools.auto import set_backend
from ._functions.evaluation import eval, make_opaque, schedule, shape, width
from ._tools.runtime import (
    expand_threshold,
    flush_kernel_cache,
    flush_malloc_cache,
    has_backend,
    kernel_history,
    kernel_history_clear,
    log_level,
    set_expand_threshold,
    set_log_level,
    set_thread_count,
    sync_thread,
    thread_count,
)
from ._tools.printing import format, print
from ._tools.graph import graphviz
from ._tools.listing import set_label, whos

__version__ = "0.1.0"

__all__ = [
    "AnyArray", "ArrayBase", "ArrayT", "Dynamic", "JitBackend", "JitFlag", "KernelRecordingMode", "KernelType",
    "LogLevel", "MaskT", "PlainT", "RedT", "ReduceMode", "ReduceOp", "SelfCpT", "SelfT", "T", "Ts", "ValCpT", "ValT",
    "VarState", "VarType", "abs", "abs_dot", "acos", "acosh", "all", "allclose", "any", "arange", "arg", "array_split",
    "array_t", "asin", "asinh", "assert_allclose", "assert_equal", "assert_false", "assert_true", "atan", "atan2",
    "atanh", "backend_v", "binary_search", "brev", "cbrt", "ceil", "clip", "column_stack", "concat", "conj", "copy",
    "copysign", "cos", "cosh", "cot", "count", "cross", "deg2rad", "depth_v", "det", "detached_t", "detail", "diag",
    "diff_array_t", "dot", "dstack", "e", "empty", "empty_like", "epsilon", "erf", "erfc", "erfinv", "euler_to_quat",
    "eval", "exp", "exp2", "expand_dims", "expand_threshold", "expr_t", "flag", "float16_array_t", "float32_array_t",
    "float64_array_t", "float_array_t", "floor", "flush_kernel_cache", "flush_malloc_cache", "fma", "fmax", "fmin",
    "format", "four_pi", "frob", "full", "gather", "graphviz", "has_backend", "hstack", "hypot", "identity", "imag",
    "inf", "int32_array_t", "int64_array_t", "int8_array_t", "int_array_t", "inv_four_pi", "inv_log_two", "inv_pi",
    "inv_sqrt_pi", "inv_sqrt_two", "inv_sqrt_two_pi", "inv_two_pi", "inverse", "is_arithmetic_v", "is_array_v",
    "is_complex_v", "is_diff_v", "is_dynamic_v", "is_float_v", "is_half_v", "is_integral_v", "is_jit_v", "is_mask_v",
    "is_matrix_v", "is_quaternion_v", "is_signed_v", "is_special_v", "is_struct_v", "is_tensor_v", "is_unsigned_v",
    "is_vector_v", "isfinite", "isinf", "isnan", "itemsize_v", "kernel_history", "kernel_history_clear", "largest",
    "leaf_t", "lerp", "lgamma", "linear_srgb_to_oklab", "linear_to_srgb", "linspace", "llvm", "log", "log2", "log2i",
    "log_level", "log_two", "lzcnt", "make_opaque", "mask_t", "matmul", "matrix_t", "matrix_to_quat", "max", "maximum",
    "mean", "meshgrid", "min", "minimum", "moveaxis", "mul_hi", "mul_wide", "mulsign", "nan", "newaxis", "none", "norm",
    "normalize", "oklab_to_linear_srgb", "one_minus_epsilon", "ones", "ones_like", "opaque", "pi", "polar_decomp",
    "popcnt", "power", "print", "prod", "quat_apply", "quat_to_euler", "quat_to_matrix", "rad2deg", "ravel", "rcp",
    "real", "recip_overflow", "reduce", "reinterpret_array", "reinterpret_array_t", "replace_shape_t", "replace_type_t",
    "reshape", "rotate", "round", "rsqrt", "safe_acos", "safe_asin", "safe_sqrt", "scalar_t", "scatter", "scatter_add",
    "scatter_reduce", "schedule", "scoped_set_flag", "select", "set_backend", "set_expand_threshold", "set_flag",
    "set_label", "set_log_level", "set_thread_count", "sh_eval", "shape", "sign", "sin", "sincos", "sincosh", "sinh",
    "size_v", "slerp", "slice_index", "smallest", "sphdir", "split", "sqrt", "sqrt_four_pi", "sqrt_pi", "sqrt_two",
    "sqrt_two_pi", "squared_norm", "squeeze", "srgb_to_linear", "stack", "std", "step", "sum", "swapaxes",
    "sync_thread", "take", "tan", "tanh", "tensor_t", "thread_count", "trace", "transform_compose",
    "transform_decompose", "transpose", "trunc", "two_pi", "type_v", "tzcnt", "uint32_array_t", "uint64_array_t",
    "uint8_array_t", "uint_array_t", "unit_angle", "unravel", "value_t", "var", "vstack", "while_loop", "whos", "width",
    "zeros", "zeros_like",
]


def __getattr__(name: str) -> _Any:
    """Packages that are imported when they are first needed, and what is yet to come."""
    if name in ("auto", "cuda", "scalar"):
        return _importlib.import_module(f"drjit.{name}")
    found = _later.public_name(name)
    if found is None:
        raise AttributeError(f"module 'drjit' has no attribute {name!r}")
    return found
