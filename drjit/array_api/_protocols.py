"""NumPy's functions on arrays of this namespace: they are those of ``drjit.numpy``, which knows NumPy's names.

That package is built on this one, so that it is looked up by its name when it is needed first. What it does not have is
NumPy's own, on NumPy's arrays with the same elements.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import numpy as np

from ._data import Storage
from ._dlpack import array_of

__all__ = ["array_function", "array_ufunc", "by_name"]

_OPERANDS = (Storage, np.ndarray, np.generic, bool, int, float, complex, list, tuple)
#: Functions that write to their first argument.
_WRITING = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}
#: Functions about memory and texts, which are not computed.
_OF_NUMPY = {"may_share_memory", "shares_memory", "array2string", "array_repr", "array_str", "save", "savez",
             "savez_compressed", "savetxt"}


@functools.cache
def _numpy(path: str = "") -> ModuleType:
    return importlib.import_module(f"drjit.numpy{path}")


#: Names that libraries take from the namespace of an array, whatever the standard says.
_BEYOND = {"array_equal", "bool_", "concatenate", "cross", "cumprod", "cumsum", "einsum", "gradient", "interp",
           "isclose", "lib", "median", "nan_to_num", "nanmax", "nanmean", "nanmedian", "nanmin", "nanprod",
           "nanquantile", "nanstd", "nansum", "nanvar", "pad", "percentile", "quantile", "trapezoid", "unravel_index"}


def by_name(name: str) -> Any:
    """What ``drjit.numpy`` has by a name that the standard lacks; ``None`` if that is nothing."""
    return getattr(_numpy(), name) if name in _BEYOND else None


def _on_host(value: Any) -> Any:
    """Arguments with NumPy's arrays in place of those of this namespace."""
    if isinstance(value, Storage):
        return array_of(value)
    if type(value) in (list, tuple):
        return type(value)(map(_on_host, value))
    return {key: _on_host(entry) for key, entry in value.items()} if type(value) is dict else value


def array_function(array: Storage, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...],
                   kwargs: dict[str, Any]) -> Any:
    """The protocol ``__array_function__``: a function of NumPy, given arrays of which one is of this namespace."""
    if not all(issubclass(cls, (Storage, np.ndarray, np.generic)) for cls in types):
        return NotImplemented
    name = func.__name__
    path = func.__module__.removeprefix("numpy") if func.__module__ in ("numpy", "numpy.linalg", "numpy.fft") else None
    out = args[0] if name in _WRITING and args else kwargs.get("out")
    known = None if path is None or name in _OF_NUMPY or isinstance(out, np.ndarray) else \
        getattr(_numpy(path), name, None)
    if known is None:
        return func(*_on_host(args), **_on_host(kwargs))
    return known(*args, **kwargs)


def array_ufunc(array: Storage, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """The protocol ``__array_ufunc__``: an elementwise function of NumPy, or one of its methods."""
    out = kwargs.get("out", ())
    if not all(isinstance(value, _OPERANDS) or value is None for value in (*inputs, *out)):
        return NotImplemented
    known: Any = None
    if not [value for value in out if isinstance(value, np.ndarray)] and (
            method != "at" or isinstance(inputs[0], Storage)):
        name = ufunc.__name__
        known = getattr(_numpy(), name, None) if getattr(np, name, None) is ufunc else None
    if known is None:
        return getattr(ufunc, method)(*_on_host(inputs), **_on_host(kwargs))
    if len(out) == 1:
        kwargs["out"] = out[0]
    # Numbers of NumPy are Python numbers, as they are for operators of arrays.
    return getattr(known, method)(*[value.item() if isinstance(value, np.generic) else value for value in inputs],
                                  **kwargs)
