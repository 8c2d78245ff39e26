"""The tracing compiler under ``drjit``: the facade, the only names that other packages may import.

Tracing
    ``ops.<row>(node, …)`` for every row of the op table, the leaves ``literal``, ``undefined``, ``counter``, and
    ``cast``, ``bitcast``, ``gather``, ``scatter``, ``reduce``, ``while_loop``; the functions of :mod:`drjit_core.math`,
    and :data:`TRACE`, those that are public functions of ``drjit`` by their names.  Operands have one scalar type
    (masks aside) and sizes that are equal or 1; everything returns a :class:`Node` at once.
Running
    ``schedule``, ``eval``, ``opaque``, ``opaque_all``, ``read_element``, ``read_size``, ``rewritten``, ``import_copy``,
    ``import_shared``, ``import_written``, ``host_view``, ``read_bytes``, ``sync``, ``call_host``; ``record`` and
    ``Recorded`` run the same again for other arrays; ``on_backend`` chooses what does it: kernels of LLVM, the null
    backend, the interpreter.

``README.md`` beside this package walks the road of ``a + b`` through it.
"""

from __future__ import annotations

from types import ModuleType as _Module

from .rooms import report as rooms_report  # which chooses the form of the rooms, and so comes before the first one

from .codegen.target import limits
from .control.alike import KEPT_APART, NEIGHBOURS, OF_ELEMENTS
from .control.blend import blend
from .control.capture import Capture, capture
from .control.choice import Versions, call, chosen, cond
from .control.compare import are_same
from .control.composed import composed_row, composed_write
from .control.construct import Functions, Restart, adopt, depend_on, late_formal, late_variable, outlived, unusable
from .control.loop import repeated, while_loop
from .control.source import count_holders
from .control.once import atomic, compensated, once
from .derivatives.of_choices import choose
from .derivatives.flow import Flow
from .derivatives.formulas import product
from .derivatives.of_loops import repeat
from .derivatives.outside import gradient_within
from .derivatives.tape import Copy, traced_within
from .derivatives.traversal import (
    CONSUMED,
    BACKWARD,
    FORWARD_MODE,
    Consumed,
    abandon,
    add_gradients,
    ancestors,
    clear_gradients,
    depends,
    enqueue,
    go_on,
    leave,
    pull,
    push,
    set_ones,
    traverse,
)
from .errors import (
    CompilationError,
    IncompatibleBackends,
    IncompatibleSizes,
    NoDerivative,
    SymbolicValue,
    UnsupportedType,
)
from .context import current
from .flags import JitFlag, flag, scoped_set_flag, set_flag, state
from .ir.deferred import Memory, Statement, defer
from .ir.build import bound, broadcast_size, counter, invalid, literal, nothing, undefined
from .ir.dual import (
    STRUCTURE,
    Scope,
    attached,
    dual,
    followed,
    is_within,
    primal,
    refuse,
    surely_tracked,
    tracked,
    vertex_of,
)
from .ir.expansion import expansion
from .ir.expansion import read as read_memory
from .ir.apart import SHARED, apart
from .ir.extents import Extent, size_of
from .ir.number import number
from .ir.packets import LONGEST_ROW
from .ir.frames import (
    closure_of,
    code_of,
    defaults_of,
    further_of,
    globals_of,
    is_internal,
    keyword_defaults_of,
    names_nothing,
)
from .ir.labels import index_of, label_of, set_label
from .ir.node import BAKED, PARAMETER, SHAPE, Node
from .ir.products import add_outer_sums, outer_sums, products, require_matrix
from .ir.region import all_operands, is_apart, is_version, operands, origin_of
from .ir.structured import traced, traced_each
from .ir.steps import step, step_again, transposed, transposed_source
from .ir.vertex import HUB, LEAF, Vertex, any_vertex, last_vertex, live_vertices
from .ir.symbolic import (
    call_site,
    has_ended,
    innermost,
    is_same_in_all_elements,
    is_unusable,
    size_for_program,
    stands_for,
    symbolic_error,
    traced_elsewhere,
    user_line,
    written_outside,
)
from .ir.trace import (
    BINARY,
    TERNARY,
    UNARY,
    access,
    accumulate,
    binary,
    bitcast,
    cast,
    gather,
    nothing_of,
    ops,
    reduce,
    scatter,
    segment,
    ternary,
    unary,
    unless_nan,
    view,
)
from .messages import log_level, set_log_level
from .math import *
from .ops.derivatives import FACTOR, RULES, Partial, Rule
from .ops.reductions import COMPARE_EXCHANGE, EXCHANGE, REDUCTIONS, Reduction
from .ops.semantics import from_memory, to_memory
from .ops.table import ELEMENTWISE, EXPANDED, FUNCTIONS, KIND, OPS, Op
from .passes.positions import positions
from .types import (COMPUTES_IN, TYPES, ADFlag, ADMode, FilterMode, JitBackend, KernelRecordingMode, KernelType,
                    LogLevel, ProfileEvent, ReduceMode, ReduceOp, TypeInfo, VarState, VarType, WrapMode, common_type,
                    is_float, is_integral, is_signed)
from .runtime.backends import (backend_report, expand_threshold, flush_malloc_cache, has_backend, kernel_statistics,
                               llvm_version, malloc_statistics, memory_of_backends, missing_backend, on_backend,
                               register, set_expand_threshold, set_thread_count, thread_count, thread_report)
from .runtime.captured import captured
from .runtime.container import Damaged, Foreign, read_container, write_container
from .runtime.contents import read_size
from .runtime.disk import report as cache_report
from .runtime.elements import destructor
from .runtime.evaluation import evaluate, flush_kernel_cache, needed_for, schedule
from .runtime.exclusion import lock as evaluation_lock
from .runtime.history import clear as kernel_history_clear
from .runtime.history import Range as ProfileRange
from .runtime.history import kernel_history
from .runtime.history import mark as profile_mark
from .runtime.host import (call_host, copied, exchange_of, exported_view, filled, gpu_of, host_view, import_copy,
                           import_shared, import_written, moved, opaque, opaque_all, put_back, read_bytes,
                           read_element, rewritten, set_bytes, set_element, shown, state_of, sync, unshared)
from .runtime.interpret import interpret
from .runtime.portable import Packer, Unpacker, number_from, number_in, with_bound
from .runtime.recording import UNLIKE_CONTENTS, Recorded, Recording, UnlikeRecorded, pattern_of, record

#: Every public name that is imported above.
__all__ = [name for name, value in globals().items()
           if not name.startswith("_") and name != "annotations" and not isinstance(value, _Module)]
