"""NumPy's functions, by their names and signatures, on the arrays of ``drjit.array_api``."""

from builtins import bool as _bool
from collections.abc import Sequence
from typing import Any

from drjit.array_api import DType
from ._public import Axis
from . import fft as fft, linalg as linalg, random as random
from ._ufuncs import ufunc as ufunc
from drjit.array_api import (
    Array as Array, bool as bool, complex128 as complex128, complex64 as complex64, e as e, emath as emath, errstate
    as errstate, float16 as float16, float32 as float32, float64 as float64, from_dlpack as from_dlpack, inf as inf,
    int16 as int16, int32 as int32, int64 as int64, int8 as int8, lib as lib, nan as nan, newaxis as newaxis, pi as
    pi, polynomial as polynomial, seterr as seterr, testing as testing, uint16 as uint16, uint32 as uint32, uint64 as
    uint64, uint8 as uint8
)
from ._creation import (
    arange as arange, array as array, asanyarray as asanyarray, asarray as asarray, asarray_chkfinite as
    asarray_chkfinite, ascontiguousarray as ascontiguousarray, asfarray as asfarray, asfortranarray as asfortranarray,
    copy as copy, diag as diag, diag_indices as diag_indices, diag_indices_from as diag_indices_from, diagflat as
    diagflat, empty as empty, empty_like as empty_like, eye as eye, fill_diagonal as fill_diagonal, frombuffer as
    frombuffer, fromfunction as fromfunction, fromiter as fromiter, full as full, full_like as full_like, geomspace as
    geomspace, identity as identity, indices as indices, linspace as linspace, logspace as logspace, mask_indices as
    mask_indices, meshgrid as meshgrid, ones as ones, ones_like as ones_like, ravel_multi_index as ravel_multi_index,
    require as require, tri as tri, tril as tril, tril_indices as tril_indices, tril_indices_from as
    tril_indices_from, triu as triu, triu_indices as triu_indices, triu_indices_from as triu_indices_from,
    unravel_index as unravel_index, vander as vander, zeros as zeros, zeros_like as zeros_like
)
from ._keys import (
    c_ as c_, index_exp as index_exp, ix_ as ix_, mgrid as mgrid, ogrid as ogrid, r_ as r_, s_ as s_
)
from ._polynomials import (
    poly as poly, poly1d as poly1d, polyadd as polyadd, polyder as polyder, polydiv as polydiv, polyfit as polyfit,
    polyint as polyint, polymul as polymul, polysub as polysub, polyval as polyval, roots as roots
)
from ._products import (
    cross as cross, dot as dot, einsum as einsum, einsum_path as einsum_path, inner as inner, kron as kron, matmul as
    matmul, matvec as matvec, outer as outer, tensordot as tensordot, vdot as vdot, vecdot as vecdot, vecmat as vecmat
)
from ._reductions import (
    average as average, clip as clip, count_nonzero as count_nonzero, cumulative_prod as cumulative_prod,
    cumulative_sum as cumulative_sum, median as median, nan_to_num as nan_to_num, nanargmax as nanargmax, nanargmin as
    nanargmin, nancumprod as nancumprod, nancumsum as nancumsum, nanmax as nanmax, nanmean as nanmean, nanmedian as
    nanmedian, nanmin as nanmin, nanpercentile as nanpercentile, nanprod as nanprod, nanquantile as nanquantile,
    nanstd as nanstd, nansum as nansum, nanvar as nanvar, percentile as percentile, put as put, quantile as quantile
)
from ._searching import (
    apply_along_axis as apply_along_axis, apply_over_axes as apply_over_axes, argwhere as argwhere, compress as
    compress, copyto as copyto, extract as extract, flatnonzero as flatnonzero, in1d as in1d, intersect1d as
    intersect1d, isin as isin, lexsort as lexsort, ndenumerate as ndenumerate, nditer as nditer, partition as
    partition, piecewise as piecewise, place as place, put_along_axis as put_along_axis, putmask as putmask, select as
    select, setdiff1d as setdiff1d, setxor1d as setxor1d, sort as sort, sort_complex as sort_complex, take_along_axis
    as take_along_axis, union1d as union1d, unique as unique, unique_all as unique_all, unique_counts as
    unique_counts, unique_inverse as unique_inverse, unique_values as unique_values, vectorize as vectorize, where as
    where
)
from ._shapes import (
    append as append, array_split as array_split, astype as astype, atleast_1d as atleast_1d, atleast_2d as
    atleast_2d, atleast_3d as atleast_3d, block as block, broadcast_arrays as broadcast_arrays, broadcast_shapes as
    broadcast_shapes, broadcast_to as broadcast_to, column_stack as column_stack, concat as concat, concatenate as
    concatenate, delete as delete, dsplit as dsplit, dstack as dstack, expand_dims as expand_dims, flip as flip,
    fliplr as fliplr, flipud as flipud, hsplit as hsplit, hstack as hstack, insert as insert, matrix_transpose as
    matrix_transpose, may_share_memory as may_share_memory, moveaxis as moveaxis, ndim as ndim, permute_dims as
    permute_dims, reshape as reshape, resize as resize, roll as roll, rollaxis as rollaxis, rot90 as rot90, row_stack
    as row_stack, shape as shape, shares_memory as shares_memory, size as size, split as split, stack as stack, tile
    as tile, transpose as transpose, trim_zeros as trim_zeros, unstack as unstack, vsplit as vsplit, vstack as vstack
)
from ._signal import (
    convolve as convolve, correlate as correlate, diff as diff, ediff1d as ediff1d, gradient as gradient, interp as
    interp, kaiser as kaiser, pad as pad, trapezoid as trapezoid, trapz as trapz, unwrap as unwrap
)
from ._statistics import (
    allclose as allclose, angle as angle, array_equal as array_equal, array_equiv as array_equiv, bincount as
    bincount, corrcoef as corrcoef, cov as cov, digitize as digitize, histogram as histogram, histogram2d as
    histogram2d, histogram_bin_edges as histogram_bin_edges, histogramdd as histogramdd, imag as imag, isclose as
    isclose, iscomplex as iscomplex, iscomplexobj as iscomplexobj, isneginf as isneginf, isposinf as isposinf, isreal
    as isreal, isrealobj as isrealobj, isscalar as isscalar, real as real, real_if_close as real_if_close
)
from ._types import (
    can_cast as can_cast, common_type as common_type, dtype as dtype, finfo as finfo, iinfo as iinfo, isdtype as
    isdtype, issubdtype as issubdtype, min_scalar_type as min_scalar_type, packbits as packbits, promote_types as
    promote_types, result_type as result_type, unpackbits as unpackbits
)
from numpy import (
    False_ as False_, True_ as True_, base_repr as base_repr, binary_repr as binary_repr, complexfloating as
    complexfloating, euler_gamma as euler_gamma, exceptions as exceptions, floating as floating,
    format_float_positional as format_float_positional, format_float_scientific as format_float_scientific, generic as
    generic, get_printoptions as get_printoptions, geterr as geterr, inexact as inexact, integer as integer, iterable
    as iterable, ndindex as ndindex, number as number, printoptions as printoptions, set_printoptions as
    set_printoptions, signedinteger as signedinteger, unsignedinteger as unsignedinteger
)

ndarray = Array
abs: ufunc
absolute: ufunc
acos: ufunc
acosh: ufunc
add: ufunc
arccos: ufunc
arccosh: ufunc
arcsin: ufunc
arcsinh: ufunc
arctan: ufunc
arctan2: ufunc
arctanh: ufunc
asin: ufunc
asinh: ufunc
atan: ufunc
atan2: ufunc
atanh: ufunc
bitwise_and: ufunc
bitwise_count: ufunc
bitwise_invert: ufunc
bitwise_left_shift: ufunc
bitwise_not: ufunc
bitwise_or: ufunc
bitwise_right_shift: ufunc
bitwise_xor: ufunc
cbrt: ufunc
ceil: ufunc
conj: ufunc
conjugate: ufunc
copysign: ufunc
cos: ufunc
cosh: ufunc
deg2rad: ufunc
degrees: ufunc
divide: ufunc
divmod: ufunc
equal: ufunc
exp: ufunc
exp2: ufunc
expm1: ufunc
fabs: ufunc
fix: ufunc
float_power: ufunc
floor: ufunc
floor_divide: ufunc
fmax: ufunc
fmin: ufunc
fmod: ufunc
frexp: ufunc
gcd: ufunc
greater: ufunc
greater_equal: ufunc
heaviside: ufunc
hypot: ufunc
i0: ufunc
invert: ufunc
isfinite: ufunc
isinf: ufunc
isnan: ufunc
lcm: ufunc
ldexp: ufunc
left_shift: ufunc
less: ufunc
less_equal: ufunc
log: ufunc
log10: ufunc
log1p: ufunc
log2: ufunc
logaddexp: ufunc
logaddexp2: ufunc
logical_and: ufunc
logical_not: ufunc
logical_or: ufunc
logical_xor: ufunc
maximum: ufunc
minimum: ufunc
mod: ufunc
modf: ufunc
multiply: ufunc
negative: ufunc
nextafter: ufunc
not_equal: ufunc
positive: ufunc
pow: ufunc
power: ufunc
rad2deg: ufunc
radians: ufunc
reciprocal: ufunc
remainder: ufunc
right_shift: ufunc
rint: ufunc
sign: ufunc
signbit: ufunc
sin: ufunc
sinc: ufunc
sinh: ufunc
spacing: ufunc
sqrt: ufunc
square: ufunc
subtract: ufunc
tan: ufunc
tanh: ufunc
true_divide: ufunc
trunc: ufunc
bool_: DType
byte: DType
cdouble: DType
csingle: DType
double: DType
half: DType
int_: DType
intc: DType
intp: DType
long: DType
longlong: DType
short: DType
single: DType
ubyte: DType
uint: DType
uintc: DType
uintp: DType
ulong: DType
ulonglong: DType
ushort: DType
def all(a: Any, axis: Axis = ..., out: Array | None = ..., keepdims: _bool = ..., *, where: Any = ...) -> Array: ...
def amax(a: Any, axis: Axis = ..., out: Array | None = ..., keepdims: _bool = ..., initial: Any = ..., where: Any = ...) -> Array: ...
def amin(a: Any, axis: Axis = ..., out: Array | None = ..., keepdims: _bool = ..., initial: Any = ..., where: Any = ...) -> Array: ...
def any(a: Any, axis: Axis = ..., out: Array | None = ..., keepdims: _bool = ..., *, where: Any = ...) -> Array: ...
def argmax(a: Any, axis: int | None = ..., out: Array | None = ..., keepdims: _bool = ...) -> Array: ...
def argmin(a: Any, axis: int | None = ..., out: Array | None = ..., keepdims: _bool = ...) -> Array: ...
def argpartition(a: Any, kth: Any, axis: int | None = ..., kind: str = ..., order: None = ...) -> Array: ...
def argsort(a: Any, axis: int | None = ..., kind: str | None = ..., order: None = ..., *, stable: _bool | None = ..., descending: _bool = ...) -> Array: ...
def around(a: Any, decimals: int = ..., out: Array | None = ...) -> Array: ...
def bartlett(M: int) -> Array: ...
def blackman(M: int) -> Array: ...
def choose(a: Any, choices: Sequence[Any], out: Array | None = ..., mode: str = ...) -> Array: ...
def cumprod(a: Any, axis: int | None = ..., dtype: Any = ..., out: Array | None = ...) -> Array: ...
def cumsum(a: Any, axis: int | None = ..., dtype: Any = ..., out: Array | None = ...) -> Array: ...
def diagonal(a: Any, offset: int = ..., axis1: int = ..., axis2: int = ...) -> Array: ...
def hamming(M: int) -> Array: ...
def hanning(M: int) -> Array: ...
def max(a: Any, axis: Axis = ..., out: Array | None = ..., keepdims: _bool = ..., initial: Any = ..., where: Any = ...) -> Array: ...
def mean(a: Any, axis: Axis = ..., dtype: Any = ..., out: Array | None = ..., keepdims: _bool = ..., *, where: Any = ...) -> Array: ...
def min(a: Any, axis: Axis = ..., out: Array | None = ..., keepdims: _bool = ..., initial: Any = ..., where: Any = ...) -> Array: ...
def nonzero(a: Any) -> Array: ...
def prod(a: Any, axis: Axis = ..., dtype: Any = ..., out: Array | None = ..., keepdims: _bool = ..., initial: Any = ..., where: Any = ...) -> Array: ...
def ptp(a: Any, axis: Axis = ..., out: Array | None = ..., keepdims: _bool = ...) -> Array: ...
def ravel(a: Any, order: str = ...) -> Array: ...
def repeat(a: Any, repeats: Any, axis: int | None = ...) -> Array: ...
def round(a: Any, decimals: int = ..., out: Array | None = ...) -> Array: ...
def searchsorted(a: Any, v: Any, side: str = ..., sorter: Any = ...) -> Array: ...
def squeeze(a: Any, axis: Axis = ...) -> Array: ...
def std(a: Any, axis: Axis = ..., dtype: Any = ..., out: Array | None = ..., ddof: float = ..., keepdims: _bool = ..., *, where: Any = ..., mean: Any = ..., correction: float | None = ...) -> Array: ...
def sum(a: Any, axis: Axis = ..., dtype: Any = ..., out: Array | None = ..., keepdims: _bool = ..., initial: Any = ..., where: Any = ...) -> Array: ...
def swapaxes(a: Any, axis1: int, axis2: int) -> Array: ...
def take(a: Any, indices: Any, axis: int | None = ..., out: Array | None = ..., mode: str = ...) -> Array: ...
def trace(a: Any, offset: int = ..., axis1: int = ..., axis2: int = ..., dtype: Any = ..., out: Array | None = ...) -> Array: ...
def var(a: Any, axis: Axis = ..., dtype: Any = ..., out: Array | None = ..., ddof: float = ..., keepdims: _bool = ..., *, where: Any = ..., mean: Any = ..., correction: float | None = ...) -> Array: ...
def array2string(*args: Any, **kwargs: Any) -> Any: ...
def array_repr(*args: Any, **kwargs: Any) -> Any: ...
def array_str(*args: Any, **kwargs: Any) -> Any: ...
def fromfile(*args: Any, **kwargs: Any) -> Any: ...
def fromregex(*args: Any, **kwargs: Any) -> Any: ...
def fromstring(*args: Any, **kwargs: Any) -> Any: ...
def genfromtxt(*args: Any, **kwargs: Any) -> Any: ...
def load(*args: Any, **kwargs: Any) -> Any: ...
def loadtxt(*args: Any, **kwargs: Any) -> Any: ...
def save(*args: Any, **kwargs: Any) -> Any: ...
def savetxt(*args: Any, **kwargs: Any) -> Any: ...
def savez(*args: Any, **kwargs: Any) -> Any: ...
def savez_compressed(*args: Any, **kwargs: Any) -> Any: ...
