"""What functions of this module share: arguments that become arrays, and errors that name what the user typed."""

from __future__ import annotations

import difflib
import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

import drjit as dr
import drjit.array_api as xp

__all__ = ["Array", "Axis", "array_of", "axes_of", "axis_of", "by_method", "documented", "floating", "into",
           "is_number", "kind_of", "missing", "named", "of_type", "on_host", "public"]

Array = xp.Array
Axis = int | tuple[int, ...] | None
_P = ParamSpec("_P")
_R = TypeVar("_R")


def named(name: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Make a function public by a name, with which the messages of its errors begin."""

    def decorated(function: Callable[_P, _R]) -> Callable[_P, _R]:
        called = dr.detail.named(name)(function)
        module, _, plain = name.rpartition(".")
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
    """The elements as a NumPy array, to look at; evaluates."""
    return np.asarray(dr.detach(array))


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
    """A result, or the array that it is written to."""
    if out is None:
        return found
    out[...] = found
    return out


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


def missing(module: str, name: str, known: Sequence[str]) -> AttributeError:
    """The error for a name that a module does not have, which says what comes near."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=name)
