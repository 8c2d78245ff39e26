"""NumPy's functions, by their names and signatures, on the arrays of ``drjit.array_api``.

``import drjit.numpy as np``: what scripts do with NumPy is traced, fused into kernels when a value is needed, and has
derivatives. Arguments may be whatever ``asarray`` takes; types promote as those of NumPy.

>>> import drjit.numpy as np
>>> a = np.array([[1.0, 2], [3, 4]])
>>> np.einsum('ij,kj->ik', a, a)
Array([[ 5., 11.],
       [11., 25.]], dtype=float64)
"""

from typing import Any

import numpy as _numpy

from drjit.array_api import (
    Array,
    bool,
    complex64,
    complex128,
    e,
    float16,
    float32,
    float64,
    from_dlpack,
    inf,
    int8,
    int16,
    int32,
    int64,
    nan,
    newaxis,
    pi,
    uint8,
    uint16,
    uint32,
    uint64,
)

from . import (
    _creation,
    _keys,
    _polynomials,
    _products,
    _public,
    _reductions,
    _searching,
    _shapes,
    _signal,
    _statistics,
    _types,
    _ufuncs,
    _warnings,
    emath,
    fft,
    lib,
    linalg,
    random,
)
from ._ufuncs import ufunc

ndarray = Array
euler_gamma = _numpy.euler_gamma
#: What NumPy has for all arrays alike, or for none.
_OF_NUMPY = ("False_", "True_", "base_repr", "binary_repr", "complexfloating", "exceptions", "floating",
             "format_float_positional", "format_float_scientific", "generic", "get_printoptions", "geterr", "inexact",
             "integer", "iterable", "ndindex", "number", "printoptions", "set_printoptions", "signedinteger",
             "unsignedinteger")
#: Modules of NumPy, which are imported when they are first asked for.
_MODULES = ("polynomial", "testing")

_FOUND: dict[str, Any] = {name: getattr(_numpy, name) for name in _OF_NUMPY}
for _module in (_creation, _keys, _polynomials, _products, _reductions, _searching, _shapes, _signal, _statistics,
                _types, _warnings):
    _FOUND |= {name: getattr(_module, name) for name in _module.__all__ if not name.isupper()}
_FOUND |= _ufuncs.UFUNCS | _reductions.METHODS | _signal.WINDOWS | _types.ALIASES | _types.TEXTS | _types.FILES
globals().update(_FOUND)

__all__ = ["Array", "bool", "complex128", "complex64", "e", "emath", "euler_gamma", "fft", "float16", "float32",
           "float64", "from_dlpack", "inf", "int16", "int32", "int64", "int8", "lib", "linalg", "nan", "ndarray",
           "newaxis", "pi", "random", "ufunc", "uint16", "uint32", "uint64", "uint8"]
__all__.extend((*_FOUND, *_MODULES))
__all__.sort()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(_numpy, name)
    raise _public.missing(__name__, name, __all__)


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)
