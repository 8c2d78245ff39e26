"""Dr.Jit in Python: arrays whose computation is traced, compiled just in time, and run on all cores.

Array types live in backend packages such as :mod:`drjit.llvm`; the functions here work on all of them.
"""

from drjit_core import (JitBackend, JitFlag, KernelRecordingMode, KernelType, LogLevel, ReduceMode, ReduceOp, VarState,
                        VarType, flag, scoped_set_flag, set_flag)

from typing import Any as _Any

from . import _environment, llvm
from ._array import ArrayBase
from ._auto import set_backend
from ._create import (arange, empty, empty_like, full, linspace, ones, ones_like, opaque, zeros, zeros_like)
from ._eval import (eval, flush_kernel_cache, flush_malloc_cache, has_backend, kernel_history, kernel_history_clear,
                    log_level, make_opaque, schedule, set_log_level, set_thread_count, shape, sync_thread,
                    thread_count, width, expand_threshold, set_expand_threshold)
from ._linalg import cross, det, diag, frob, inverse, matmul, polar_decomp, trace, transpose
from ._loop import while_loop
from ._memop import gather, scatter, scatter_add, scatter_reduce
from ._ops import (abs, brev, ceil, clip, cos, exp, floor, fma, isfinite, isinf, isnan, lerp, log, log2i, lzcnt,
                   maximum, minimum, mul_hi, popcnt, power, rcp, reinterpret_array, round, rsqrt, select, sin, sincos,
                   sqrt, trunc, tzcnt)
from ._reduce import all, any, count, max, mean, min, none, prod, reduce, sum
from ._traits import (Dynamic, array_t, backend_v, depth_v, detached_t, diff_array_t, expr_t, float16_array_t,
                      float32_array_t, float64_array_t, float_array_t, int8_array_t, int32_array_t, int64_array_t,
                      int_array_t, is_arithmetic_v, is_array_v, is_complex_v, is_diff_v, is_dynamic_v, is_float_v,
                      is_half_v, is_integral_v, is_jit_v, is_mask_v, is_matrix_v, is_quaternion_v, is_signed_v,
                      is_special_v, is_struct_v, is_tensor_v, is_unsigned_v, is_vector_v, itemsize_v, leaf_t, mask_t,
                      matrix_t, newaxis, reinterpret_array_t, replace_shape_t, replace_type_t, scalar_t, size_v,
                      tensor_t, type_v, uint8_array_t, uint32_array_t, uint64_array_t, uint_array_t, value_t)
from ._transform import (arg, conj, euler_to_quat, identity, imag, matrix_to_quat, quat_apply, quat_to_euler,
                         quat_to_matrix, real, rotate, sh_eval, slerp, sphdir, transform_compose,
                         transform_decompose)

__version__ = "0.1.0"

__all__ = [
    "ArrayBase", "Dynamic", "JitBackend", "JitFlag", "KernelRecordingMode", "KernelType", "LogLevel", "ReduceMode",
    "ReduceOp", "VarState", "VarType", "abs", "all", "any", "arange", "arg", "array_t", "backend_v", "brev", "ceil",
    "clip", "conj", "cos", "count", "cross", "depth_v", "det", "detached_t", "diag", "diff_array_t", "empty",
    "empty_like", "euler_to_quat", "eval", "exp", "expand_threshold", "expr_t", "flag", "float16_array_t",
    "float32_array_t", "float64_array_t", "float_array_t", "floor", "flush_kernel_cache", "flush_malloc_cache", "fma",
    "frob", "full", "gather", "has_backend", "identity", "imag", "int32_array_t", "int64_array_t", "int8_array_t",
    "int_array_t", "inverse", "is_arithmetic_v", "is_array_v", "is_complex_v", "is_diff_v", "is_dynamic_v",
    "is_float_v", "is_half_v", "is_integral_v", "is_jit_v", "is_mask_v", "is_matrix_v", "is_quaternion_v",
    "is_signed_v", "is_special_v", "is_struct_v", "is_tensor_v", "is_unsigned_v", "is_vector_v", "isfinite", "isinf",
    "isnan", "itemsize_v", "kernel_history", "kernel_history_clear", "leaf_t", "lerp", "linspace", "llvm", "log",
    "log2i", "log_level", "lzcnt", "make_opaque", "mask_t", "matmul", "matrix_t", "matrix_to_quat", "max", "maximum",
    "mean", "min", "minimum", "mul_hi", "newaxis", "none", "ones", "ones_like", "opaque", "polar_decomp", "popcnt",
    "power", "prod", "quat_apply", "quat_to_euler", "quat_to_matrix", "rcp", "real", "reduce", "reinterpret_array",
    "reinterpret_array_t", "replace_shape_t", "replace_type_t", "rotate", "round", "rsqrt", "scalar_t", "scatter",
    "scatter_add", "scatter_reduce", "schedule", "scoped_set_flag", "select", "set_backend", "set_expand_threshold",
    "set_flag", "set_log_level", "set_thread_count", "sh_eval", "shape", "sin", "sincos", "size_v", "slerp", "sphdir",
    "sqrt", "sum", "sync_thread", "tensor_t", "thread_count", "trace", "transform_compose", "transform_decompose",
    "transpose", "trunc", "type_v", "tzcnt", "uint32_array_t", "uint64_array_t", "uint8_array_t", "uint_array_t",
    "value_t", "while_loop", "width", "zeros", "zeros_like",
]


def __getattr__(name: str) -> _Any:
    """Packages that are imported when they are first needed, and what is yet to come."""
    if name in ("auto", "cuda", "scalar"):
        import importlib

        return importlib.import_module(f"drjit.{name}")
    from ._later import public_name

    found = public_name(name)
    if found is None:
        raise AttributeError(f"module 'drjit' has no attribute {name!r}")
    return found
