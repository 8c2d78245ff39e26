"""Dr.Jit in Python: arrays whose computation is traced, compiled just in time, and run on all cores.

Array types live in backend packages such as :mod:`drjit.llvm`; the functions here work on all of them.
"""

from drjit_core import (JitBackend, JitFlag, KernelRecordingMode, KernelType, LogLevel, ReduceMode, ReduceOp, VarState,
                        VarType, flag, scoped_set_flag, set_flag)

from . import _environment, llvm
from ._array import ArrayBase
from ._create import (arange, empty, empty_like, full, linspace, ones, ones_like, opaque, zeros, zeros_like)
from ._eval import (eval, flush_kernel_cache, flush_malloc_cache, has_backend, kernel_history, kernel_history_clear,
                    log_level, make_opaque, schedule, set_log_level, set_thread_count, shape, sync_thread,
                    thread_count, width, expand_threshold, set_expand_threshold)
from ._loop import while_loop
from ._memop import gather, scatter, scatter_add, scatter_reduce
from ._ops import (abs, brev, ceil, clip, cos, exp, floor, fma, isfinite, isinf, isnan, lerp, log, log2i, lzcnt,
                   maximum, minimum, mul_hi, popcnt, power, rcp, reinterpret_array, round, rsqrt, select, sin, sincos,
                   sqrt, trunc, tzcnt)
from ._rearrange import (array_split, concat, expand_dims, moveaxis, ravel, reshape, split, squeeze, stack, swapaxes,
                         take, transpose, unravel)
from ._reduce import all, any, count, max, mean, min, none, prod, reduce, sum
from ._slicing import slice_index

__version__ = "0.1.0"

newaxis = None  #: inserts an axis of size 1 in slice expressions of tensors

__all__ = [
    "ArrayBase", "JitBackend", "JitFlag", "KernelRecordingMode", "KernelType", "LogLevel", "ReduceMode", "ReduceOp",
    "VarState", "VarType", "abs", "all", "any", "arange", "array_split", "brev", "ceil", "clip", "concat", "cos",
    "count", "empty", "empty_like", "eval", "exp", "expand_dims", "expand_threshold", "flag", "floor",
    "flush_kernel_cache", "flush_malloc_cache", "fma", "full", "gather", "has_backend", "isfinite", "isinf",
    "isnan", "kernel_history", "kernel_history_clear", "lerp", "linspace", "llvm", "log", "log2i", "log_level",
    "lzcnt", "make_opaque", "max", "maximum", "mean", "min", "minimum", "moveaxis", "mul_hi", "newaxis", "none",
    "ones", "ones_like", "opaque", "popcnt", "power", "prod", "ravel", "rcp", "reduce", "reinterpret_array",
    "reshape", "round", "rsqrt", "scatter", "scatter_add", "scatter_reduce", "schedule", "scoped_set_flag",
    "select", "set_expand_threshold", "set_flag", "set_log_level", "set_thread_count", "shape", "sin", "sincos",
    "slice_index", "split", "sqrt", "squeeze", "stack", "sum", "swapaxes", "sync_thread", "take", "thread_count",
    "transpose", "trunc", "tzcnt", "unravel", "while_loop", "width", "zeros", "zeros_like",
]
