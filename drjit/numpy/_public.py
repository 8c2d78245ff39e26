"""What functions of this module share: arguments that become arrays, and errors that name what the user typed."""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

import drjit as dr
import drjit.array_api as xp

__all__ = ["Array", "Axis", "array_of", "axes_of", "axis_of", "bounds_of_nonzero", "by_method", "decided", "documented",
           "floating", "into", "is_number", "kind_of", "missing", "named", "of_type", "on_host", "public",
           "require_casting", "tensor_of"]

Array = xp.Array
Axis = int | tuple[int, ...] | None
_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Functions whose results of small arrays are NumPy's, at once. Others make views, write, call functions, make arrays
#: of no arrays, return no arrays, or differ from NumPy on purpose.
_BY_NUMPY = frozenset([
    "angle", "append", "argwhere", "average", "bincount", "block", "clip", "column_stack", "concat", "concatenate",
    "convolve", "corrcoef", "correlate", "cov", "cross", "cumulative_prod", "cumulative_sum", "delete", "diff",
    "digitize", "dot", "dstack", "ediff1d", "einsum", "extract", "flatnonzero", "gradient", "histogram", "histogram2d",
    "hstack", "imag", "in1d", "inner", "insert", "interp", "intersect1d", "iscomplex", "isclose", "isin", "isneginf",
    "isposinf", "isreal", "kron", "lexsort", "median", "nancumprod", "nancumsum", "nanprod", "nansum", "outer", "pad",
    "partition", "percentile", "poly", "polyadd", "polyder", "polyint", "polymul", "polysub", "polyval", "quantile",
    "ravel_multi_index", "resize", "roots", "row_stack", "select", "setdiff1d", "setxor1d", "sort", "sort_complex",
    "stack", "take_along_axis", "tensordot", "tile", "trapezoid", "tril", "triu", "union1d", "unique", "unwrap",
    "vander", "vdot", "vecdot", "vstack", "cholesky", "cond", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv",
    "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "svd",
    "svdvals", "tensorinv", "tensorsolve", "vector_norm", "fft", "fft2", "fftn", "fftshift", "hfft", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftn"])
#: Those of them whose results are as large as the sizes of all arrays multiplied.
_PRODUCTS = frozenset(["convolve", "correlate", "einsum", "inner", "kron", "outer", "tensordot"])


def _all_of(shape: Any, *_: Any, **__: Any) -> int:
    return shape if isinstance(shape, int) else math.prod(shape)


def _between(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> int:
    first, last = (0, start) if stop is None else (start, stop)
    return math.ceil((last - first) / step)


def _steps(start: float, stop: float, num: int = 50, *_: Any, **__: Any) -> int:
    return num


def _square(N: int, M: int | None = None, *_: Any, **__: Any) -> int:
    return N * (N if M is None else M)


#: Functions that make arrays of numbers, those of NumPy by which small ones are made, and the number of elements.
_CREATING: dict[str, tuple[Any, Callable[..., int]]] = {
    "zeros": (np.zeros, _all_of), "ones": (np.ones, _all_of), "empty": (np.zeros, _all_of), "full": (np.full, _all_of),
    "eye": (np.eye, _square), "identity": (np.identity, lambda n, dtype=None: n * n), "tri": (np.tri, _square),
    "arange": (np.arange, _between), "linspace": (np.linspace, _steps), "logspace": (np.logspace, _steps),
    "geomspace": (np.geomspace, _steps)}


def named(name: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Make a function public by a name, with which the messages of its errors begin."""

    module, _, plain = name.rpartition(".")
    own = getattr(functools.reduce(getattr, module.split(".")[2:], np), plain, None) if plain in _BY_NUMPY else None

    def decorated(function: Callable[_P, _R]) -> Callable[_P, _R]:
        called = dr.detail.named(name)(xp.on_their_device(function))
        if own is not None:
            called = xp.eagerly(own, called, product=plain in _PRODUCTS)
        elif plain in _CREATING:
            called = xp.created(_CREATING[plain][0], called, _CREATING[plain][1])
        called.__module__, called.__name__, called.__qualname__ = module, plain, plain
        return called

    return decorated


def public(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a function public by its own name."""
    return named(f"drjit.numpy.{function.__name__}")(function)


def documented(function: Any, name: str, text: str) -> Any:
    """Name and describe a function that is made of a row of a table."""
    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = text
    return named(f"drjit.numpy.{name}")(function)


def array_of(value: Any) -> Array:
    """The array that an argument is or becomes: of numbers, sequences, and arrays of others."""
    return value if isinstance(value, Array) else xp.asarray(value)


def on_host(array: Array) -> np.ndarray[Any, Any]:
    """The elements as a NumPy array, to look at; evaluates. (``dr.detach`` would look for tensors, which small arrays
    have none of.)"""
    found: np.ndarray[Any, Any] = xp.on_host(array).view()
    found.flags.writeable = False
    return found.astype(array.dtype, copy=False)


def decided(function: Callable[..., Any], *arrays: Array) -> Any:
    """What a function of elements finds, numbers or texts: a program that is frozen is recorded again where it finds
    something else."""
    if not dr.detail.records():
        return function(*map(on_host, arrays))
    return dr.detail.call_host(lambda *given: function(*map(on_host, given)), *map(dr.detach, arrays),
                               name=function.__name__)


def tensor_of(array: Array) -> Any:
    """The tensor of an array of real numbers, for those who only read it: what ``array.tensor`` gives away may be
    written to, so that a small array looks there from then on."""
    return array._parts[0]


def bounds_of_nonzero(values: Any) -> tuple[int, int]:
    """The position of the first element that is not 0, and that behind the last one."""
    found = np.flatnonzero(values)
    return (int(found[0]), int(found[-1]) + 1) if found.size else (0, 0)


def is_number(value: Any) -> bool:
    """Whether an argument is a Python number, whose type gives way to that of arrays beside it."""
    return isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic)


def kind_of(value: Any) -> str:
    """The kind of the elements of an argument, ``'b'``, ``'i'``, ``'u'``, ``'f'`` or ``'c'``."""
    if is_number(value):
        return "b" if isinstance(value, bool) else "i" if isinstance(value, int) else "f" if isinstance(value, float) \
            else "c"
    return array_of(value).dtype.kind


def of_type(dtype: Any) -> xp.DType:
    """The data type that an argument names."""
    found: xp.DType = dtype if isinstance(dtype, xp.DType) else getattr(xp, xp.empty((0,), dtype=dtype).dtype.name)
    return found


def floating(value: Any) -> Array:
    """An array of floating point numbers; integers and truth values become ``float64``."""
    array = array_of(value)
    return array if array.dtype.kind in "fc" else xp.astype(array, xp.float64)


def axis_of(axis: Any, ndim: int, name: str = "axis") -> int:
    """An axis counted from the front; raises NumPy's ``AxisError``, which is a ``ValueError`` and an ``IndexError``."""
    place = operator.index(axis)
    if not -ndim <= place < ndim:
        raise np.exceptions.AxisError(f"'{name}' is {place}, but the array has {ndim} dimension{'s' * (ndim != 1)}.")
    return place % ndim


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Axes counted from the front, all of them for ``None``."""
    if axis is None:
        return tuple(range(ndim))
    return tuple([axis_of(entry, ndim) for entry in (axis if isinstance(axis, (tuple, list)) else (axis,))])


def into(out: Array | None, found: Array) -> Array:
    """A result, or the array that it is written to, whose elements must be of its kind, or a greater one."""
    if out is None:
        return found
    require_casting(found, out)
    out[...] = found
    return out


def require_casting(found: Array, out: Array, casting: Any = "same_kind") -> None:
    """Refuse to write a result to an array whose data type it cannot become by a rule of NumPy's."""
    if not np.can_cast(found.dtype, out.dtype, casting):
        raise TypeError(f"{found.dtype} cannot become {out.dtype} by the casting rule {casting!r}.")


def by_method(names: Iterable[str]) -> dict[str, Any]:
    """Functions that are the methods of arrays by the same names, for arguments of all kinds."""
    found = {}
    for name in names:
        method = getattr(Array, name)

        def function(a: Any, *args: Any, _method: Any = method, **kwargs: Any) -> Any:
            return _method(array_of(a), *args, **kwargs)

        function.__doc__ = f"{inspect.getdoc(method)}\n\nThe first argument may be whatever ``asarray`` takes."
        parameters = list(inspect.signature(method).parameters.values())
        function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [parameters[0].replace(name="a"), *parameters[1:]])
        found[name] = documented(function, name, function.__doc__)
    return found


_ELEMENTS = "arrays have elements of Booleans, integers, and real and complex floating point numbers"
_STREAMS = "generators are counters (Philox4x32); use default_rng(seed), and spawn() for more streams"
#: What to use in place of names of NumPy that are not there.
_INSTEAD = {
    **dict.fromkeys(("object_", "str_", "bytes_", "void", "character", "flexible", "datetime64", "timedelta64",
                     "record", "recarray", "rec", "char", "strings", "chararray", "busday_count", "busday_offset",
                     "is_busday", "isnat", "datetime_as_string", "datetime_data"),
                    f"{_ELEMENTS}; use NumPy's arrays for others"),
    **dict.fromkeys(("longdouble", "float128", "clongdouble", "complex256"), "use float64 and complex128"),
    **dict.fromkeys(("matrix", "asmatrix", "bmat"), "use arrays of two axes, and @ for their product"),
    **dict.fromkeys(("BitGenerator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64", "SeedSequence", "get_state",
                     "set_state", "get_bit_generator", "set_bit_generator"), _STREAMS),
    "random_integers": "use integers(low, high, endpoint=True)", "frompyfunc": "use vectorize",
    "ma": "use where(), and the functions whose names begin with nan", "memmap": "use asarray(numpy.memmap(…))",
    "nested_iters": "use nditer, ndindex, or operations on whole arrays",
    "broadcast": "use broadcast_arrays() and broadcast_shapes()",
    "flatiter": "x.flat is an array of one axis", "isfortran": "arrays are in the order of C",
    "lib": "use drjit.numpy.lib.stride_tricks", "test": "use the module testing"}


def missing(module: str, name: str, known: Sequence[str]) -> AttributeError:
    """The error for a name that a module does not have, which says what comes near."""
    if name in _INSTEAD:
        return AttributeError(f"module {module!r} has no attribute {name!r}: {_INSTEAD[name]}.", name=name)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=name)
