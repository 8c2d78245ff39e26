"""The tracing compiler under ``drjit``: the facade, the only names that other packages may import.

Tracing
    ``ops.<row>(node, …)`` for every row of the op table, the leaves ``literal``, ``undefined``, ``counter``, and
    ``cast``, ``bitcast``, ``gather``, ``scatter``, ``reduce``, ``while_loop``; the functions of :mod:`drjit_core.math`,
    and by the names of the public ones, :data:`TRACE`.  Operands have one scalar type (masks
    aside) and sizes that are equal or 1; everything returns a :class:`Node` at once.
Running
    ``schedule``, ``eval``, ``opaque``, ``read_element``, ``write_element``, ``import_copy``, ``import_shared``,
    ``host_view``, ``sync``.

``README.md`` beside this package walks the road of ``a + b`` through it.
"""

from __future__ import annotations

from .control.loop import while_loop
from .errors import CompilationError, IncompatibleSizes, UnsupportedType
from .flags import JitFlag, flag, scoped_set_flag, set_flag, state
from .ir.build import broadcast_size, counter, invalid, known_literal, literal, undefined
from .ir.expansion import expansion
from .ir.node import BAKED, PARAMETER, SHAPE, Node, index_of, label_of, live_nodes, set_label
from .ir.trace import BINARY, TERNARY, UNARY, bitcast, cast, gather, ops, reduce, reduction_identity, scatter
from .messages import log_level, set_log_level
from . import math
from .math import *
from .ops.table import ELEMENTWISE, EXPANDED, FUNCTIONS, KIND, OPS, Op
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
    "BAKED", "BINARY", "CompilationError", "ELEMENTWISE", "EXPANDED", "FUNCTIONS", "IncompatibleSizes",
    "JitBackend", "JitFlag", "KIND", "KernelRecordingMode", "KernelType", "LogLevel", "Node", "OPS", "Op",
    "PARAMETER", "ReduceMode", "ReduceOp", "SHAPE", "TERNARY", "TYPES", "TypeInfo", "UNARY", "UnsupportedType",
    "VarState", "VarType", "backend_report", "bitcast", "broadcast_size", "cache_report", "cast", "counter",
    "evaluate", "expand_threshold", "expansion", "flag", "flush_kernel_cache", "flush_malloc_cache", "gather",
    "has_backend", "host_view", "import_copy", "import_shared", "index_of", "invalid", "is_float", "is_integral",
    "is_signed", "kernel_history", "kernel_history_clear", "known_literal", "label_of", "literal", "live_nodes",
    "llvm_version", "log_level", "malloc_statistics", "opaque", "ops", "read_element", "reduce",
    "reduction_identity", "scatter", "schedule", "scoped_set_flag", "set_expand_threshold", "set_flag",
    "set_label", "set_log_level", "set_thread_count", "state", "state_of", "sync", "thread_count", "thread_report",
    "undefined", "while_loop", "write_element",
]
__all__ += math.__all__
