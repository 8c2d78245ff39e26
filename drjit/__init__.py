"""Dr.Jit in Python: arrays whose computation is traced, compiled just in time, and run on all cores.

Array types live in backend packages such as :mod:`drjit.llvm`; the functions here work on all of them.
"""

from drjit_core import (ADFlag, ADMode, FilterMode, JitBackend, JitFlag, KernelRecordingMode, KernelType, LogLevel,
                        ReduceMode, ReduceOp, VarState, VarType, WrapMode, flag, scoped_set_flag, set_flag)

import importlib as _importlib
from typing import Any as _Any

from . import detail, llvm, random
from ._base import environment as _environment
from ._base.array import ArrayBase
from ._base.typing import AnyArray, ArrayT, MaskT, PlainT, RedT, SelfCpT, SelfT, T, Ts, ValCpT, ValT
from ._access.atomics import scatter_add_kahan, scatter_cas, scatter_exch, scatter_inc
from ._access.indirect import gather, scatter, scatter_add, scatter_reduce
from ._access.selection import slice, slice_index
from ._functions.blocks import block_reduce, block_sum
from ._functions.color import linear_srgb_to_oklab, linear_to_srgb, oklab_to_linear_srgb, srgb_to_linear
from ._functions.former import (all_nested, any_nested, max_nested, min_nested, none_nested, prod_nested, sqr,
    sum_nested)
from ._functions.comparison import allclose, assert_allclose
from ._tools.assertions import assert_equal, assert_false, assert_true
from ._functions.constants import (e, epsilon, four_pi, inf, inv_four_pi, inv_log_two, inv_pi, inv_sqrt_four_pi,
    inv_sqrt_pi, inv_sqrt_two, inv_sqrt_two_pi, inv_two_pi, largest, log_two, nan, one_minus_epsilon, pi,
    recip_overflow, smallest, sqrt_four_pi, sqrt_pi, sqrt_two, sqrt_two_pi, two_pi)
from ._functions.creation import arange, empty, empty_like, full, linspace, ones, ones_like, opaque, zeros, zeros_like
from ._functions.elementwise import FUNCTIONS as _FUNCTIONS
from ._functions.evaluation import copy
from ._functions.creation import meshgrid
from ._functions.linalg import cross, det, diag, frob, inverse, matmul, polar_decomp, trace
from ._functions.mathematics import deg2rad, mul_wide, rad2deg, reinterpret_array, step
from ._functions.ordering import argmax, argmin, argsort, compress, median, sort
from ._functions.prefix import block_prefix_reduce, block_prefix_sum, cumsum, prefix_reduce, prefix_sum
from ._functions.joining import column_stack, concat, dstack, hstack, row_stack, stack, vstack
from ._functions.parts import array_split, split, take, take_interp
from ._functions.rearrangement import moveaxis, repeat, reverse, swapaxes, tile, transpose, upsample
from ._functions.reductions import all, any, count, max, mean, min, none, prod, reduce, sum
from ._functions.resampling import convolve, resample
from ._functions.search import binary_search
from ._functions.shapes import expand_dims, ravel, reshape, squeeze, unravel
from ._functions.statistics import std, var
from ._functions.threads import reorder_threads
from ._functions.traits import (Dynamic, array_t, backend_v, bfloat16_array_t, depth_v, detached_t, diff_array_t,
    expr_t, float16_array_t, float32_array_t, float64_array_t, float_array_t, int32_array_t, int64_array_t,
    int8_array_t, int_array_t, is_arithmetic_v, is_array_v, is_complex_v, is_diff_v, is_dynamic_v, is_float_v,
    is_half_v, is_integral_v, is_jit_v, is_mask_v, is_matrix_v, is_quaternion_v, is_signed_v, is_special_v, is_struct_v,
    is_tensor_v, is_unsigned_v, is_vector_v, itemsize_v, leaf_t, mask_t, matrix_t, newaxis, reinterpret_array_t,
    replace_shape_t, replace_type_t, scalar_t, size_v, tensor_t, type_v, uint32_array_t, uint64_array_t, uint8_array_t,
    uint_array_t, value_t)
from ._functions.transformations import (arg, conj, euler_to_quat, identity, imag, matrix_to_quat, quat_apply,
    quat_to_euler, quat_to_matrix, real, rotate, sh_eval, slerp, sphdir, transform_compose, transform_decompose)
from ._functions.vectors import abs_dot, dot, norm, normalize, squared_norm, unit_angle
from ._control.branch import if_stmt
from ._control.call import switch
from ._control.function import func
from ._control.instances import dispatch, instance_array
from ._control.local import Local, alloc_local
from ._control.while_loop import while_loop
from ._control.syntax import hint, syntax
from ._random.generator import rng
from ._tools.auto import set_backend
from ._functions.evaluation import eval, make_opaque, opaque_width, schedule, shape, width
from ._tools.runtime import (
    expand_threshold,
    flush_kernel_cache,
    flush_malloc_cache,
    flush_thread,
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
from ._ad.arrays import (
    accum_grad, clear_grad, detach, disable_grad, enable_grad, grad, grad_enabled, relative_grad, replace_grad,
    set_grad, set_grad_enabled,
)
from ._ad.checkpoint import checkpoint
from ._ad.custom import CustomOp, custom
from ._freeze.decorator import freeze
from ._freeze.loading import load_frozen
from ._ad.explain import explain_grad
from ._ad.functions import gradcheck, hvp, jacobian, value_and_grad
from ._ad.listing import graphviz_ad, whos_ad
from ._ad.traversal import (
    backward, backward_from, backward_to, enqueue, forward, forward_from, forward_to, isolate_grad, resume_grad,
    suspend_grad, traverse,
)
from ._tools.printing import format, print
from ._tools.profiling import profile_enable, profile_mark, profile_range
from ._tools.graph import graphviz
from ._tools.listing import set_label, whos
from .interop import wrap, wrap_ad

__version__ = "0.1.0"

# The elementwise functions, which are rows of the compiler's op table.
globals().update(_FUNCTIONS)

#: Packages of array types, optimisers, networks, and what is made of textures, imported when they are first needed.
_PACKAGES = ("auto", "cuda", "dda", "nn", "opt", "scalar", "textures")
#: Every public name that is bound here: the imports above are the list.
__all__ = sorted(name for name, value in globals().items()  # noqa: PLE0605
                 if not name.startswith("_")
                 and (not isinstance(value, type(detail)) or value in (detail, llvm, random)))
for _name in __all__:
    if getattr(globals()[_name], "__module__", "").startswith("drjit._"):
        globals()[_name].__module__ = "drjit"
del _name

def __getattr__(name: str) -> _Any:
    """Packages that are imported when they are first needed."""
    if name in _PACKAGES:
        return _importlib.import_module(f"drjit.{name}")
    raise AttributeError(f"module 'drjit' has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    """The public names, and the packages of array types."""
    return sorted([*__all__, *_PACKAGES, "__version__"])
