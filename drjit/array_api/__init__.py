"""The Python array API standard on the tracing compiler.

``import drjit.array_api as xp``: a namespace that array-consuming libraries use as they use NumPy's. Operations are
traced, fused into kernels when a value is needed, and differentiable by ``dr.enable_grad``, ``dr.backward`` and
``dr.forward``, which take these arrays as they take others.

>>> import drjit.array_api as xp
>>> x = xp.linspace(0, 1, 5)
>>> xp.sum(x * x)
Array(1.875, dtype=float64)
"""

from math import e, inf, nan, pi

from . import fft, linalg
from ._array import Array
from ._creation import (
    arange,
    asarray,
    astype,
    can_cast,
    empty,
    empty_like,
    eye,
    finfo,
    full,
    full_like,
    iinfo,
    isdtype,
    linspace,
    meshgrid,
    ones,
    ones_like,
    result_type,
    tril,
    triu,
    zeros,
    zeros_like,
)
from ._dtypes import (
    DType,
    bool,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ._elementwise import *
from ._indexing import nonzero, take, take_along_axis, where
from ._info import __array_namespace_info__
from ._interchange import from_dlpack
from ._linear import matmul, matrix_transpose, tensordot, vecdot
from ._manipulation import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    tile,
    unstack,
)
from ._searching import (
    argmax,
    argmin,
    argsort,
    count_nonzero,
    isin,
    searchsorted,
    sort,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from ._statistics import (
    all,
    any,
    cumulative_prod,
    cumulative_sum,
    diff,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)

__array_api_version__ = "2025.12"
newaxis = None
