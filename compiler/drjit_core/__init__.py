"""The tracing compiler under ``drjit``: the facade, the only names that other packages may import.

Tracing
    ``ops.<row>(node, …)`` for every row of the op table, the leaves ``literal``, ``undefined``, ``counter``, and
    ``cast``, ``bitcast``, ``gather``, ``scatter``, ``reduce``, ``while_loop``.  Operands have one scalar type (masks
    aside) and sizes that are equal or 1; everything returns a :class:`Node` at once.
Running
    ``schedule``, ``eval``, ``opaque``, ``read_element``, ``write_element``, ``import_copy``, ``import_shared``,
    ``host_view``, ``sync``.

``README.md`` beside this package walks the road of ``a + b`` through it.
"""

from __future__ import annotations

from .control.loop import while_loop
from .errors import CompilationError, IncompatibleSizes, SymbolicValue, UnsupportedType
from .flags import JitFlag, flag, scoped_set_flag, set_flag, state
from .ir.build import broadcast_size, counter, invalid, known_literal, literal, undefined
from .ir.expansion import expansion
from .ir.node import BAKED, PARAMETER, SHAPE, Node, index_of, label_of, live_nodes, set_label
from .ir.symbolic import call_site, is_internal, symbolic_error
from .ir.trace import BINARY, TERNARY, UNARY, bitcast, cast, gather, ops, reduce, reduction_identity, scatter
from .messages import log_level, set_log_level
from .math import (acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, cos, cosh, cot, erf, erfc, erfinv, exp, exp2,
                   floordiv, hypot, lgamma, log, log2, mod, power, rcp, rsqrt, sin, sincos, sincosh, sinh, tan, tanh)
from .ops.table import ELEMENTWISE, EXPANDED, KIND, OPS, Op
from .types import (TYPES, JitBackend, KernelRecordingMode, KernelType, LogLevel, ReduceMode, ReduceOp, TypeInfo,
                    VarState, VarType, is_float, is_integral, is_signed)
from .runtime.backend import backend_report, has_backend, llvm_version
from .runtime.disk import report as cache_report
from .runtime.eval import (evaluate, flush_kernel_cache, flush_malloc_cache, host_view, import_copy, import_shared,
                           malloc_statistics, opaque, read_element, schedule, state_of, sync, write_element)
from .runtime.history import clear as kernel_history_clear
from .runtime.history import kernel_history
from .runtime.pool import get_expand_threshold as expand_threshold
from .runtime.pool import set_expand_threshold, set_thread_count, thread_count, thread_report

__all__ = [
    "BAKED", "BINARY", "CompilationError", "ELEMENTWISE", "EXPANDED", "IncompatibleSizes", "JitBackend", "JitFlag",
    "KIND", "KernelRecordingMode", "KernelType", "LogLevel", "Node", "OPS", "Op", "PARAMETER", "ReduceMode",
    "ReduceOp", "SHAPE", "SymbolicValue", "TERNARY", "TYPES", "TypeInfo", "UNARY", "UnsupportedType", "VarState",
    "VarType", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "backend_report", "bitcast",
    "broadcast_size", "cache_report", "call_site", "cast", "cbrt", "cos", "cosh", "cot", "counter", "erf", "erfc",
    "erfinv", "evaluate", "exp", "exp2", "expand_threshold", "expansion", "flag", "floordiv", "flush_kernel_cache",
    "flush_malloc_cache", "gather", "has_backend", "host_view", "hypot", "import_copy", "import_shared", "index_of",
    "invalid", "is_float", "is_integral", "is_internal", "is_signed", "kernel_history", "kernel_history_clear",
    "known_literal", "label_of", "lgamma", "literal", "live_nodes", "llvm_version", "log", "log2", "log_level",
    "malloc_statistics", "mod", "opaque", "ops", "power", "rcp", "read_element", "reduce", "reduction_identity",
    "rsqrt", "scatter", "schedule", "scoped_set_flag", "set_expand_threshold", "set_flag", "set_label",
    "set_log_level", "set_thread_count", "sin", "sincos", "sincosh", "sinh", "state", "state_of", "symbolic_error",
    "sync", "tan", "tanh", "thread_count", "thread_report", "undefined", "while_loop", "write_element",
]
