"""The class of arrays."""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

import drjit as dr
from drjit.detail import in_plain_code, is_recorded
from drjit.interop import numpy_of_parts

from . import _elementwise as elementwise
from ._creation import asarray
from ._data import (
    Storage,
    copy_of,
    evaluated,
    given,
    part_of,
    parts_of,
    register,
    require_writable,
    same,
    value_of,
    wrap,
)
from ._devices import known_device
from ._dlpack import array_of, buffer, dlpack, dlpack_device, exported
from ._evaluation import COMPILED, eager
from ._host import moved
from ._indexing import get, put, replace
from ._linear import matmul, matrix_transpose
from ._methods import Methods
from ._operands import converted, number_of, of_recording
from ._operators import enter, entered
from ._protocols import array_function, array_ufunc
from ._small import Product

__all__ = ["Array", "versions"]

_NAMESPACE = "drjit.array_api"
_SELF = f"{_NAMESPACE}.Array"
#: The versions of the standard that ``__array_namespace__`` gives.
versions = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


def _in_place(name: str, function: Callable[[Any, Any], Array], operator: str = "") -> Any:
    """An operator that replaces the elements of an array, which keeps its data type and shape.

    An array without axes that is no view is like a number: the name gets another one, as it does in NumPy, where sums
    and elements are scalars. Whoever has kept the one before has it still.
    """

    operation = entered(operator)

    def method(self: Array, other: Any, /) -> Any:
        if is_recorded(other):
            other = of_recording(operator, self, other)
        if operation is not None and operation.in_place(self, other):
            return self
        if isinstance(other, (list, tuple, np.ndarray)):
            other = asarray(other, device=self.device)
        elif not isinstance(other, Array) and number_of(other) is None:
            return NotImplemented
        require_writable(f"{_SELF}.{name}", self)
        found = function(self, other)
        if self._view is None and not self.shape:
            return found
        if found._dtype is not self._dtype:
            if np.can_cast(found._dtype.numpy, self._dtype.numpy, "same_kind"):
                found = converted(found, self._dtype)
        if found._dtype is not self._dtype:
            raise TypeError(f"{_SELF}.{name}(): an array of {self._dtype} cannot become one of {found._dtype} in "
                            "place; use a new name for the result.")
        if found.shape != self.shape:
            raise ValueError(f"{_SELF}.{name}(): an array of the shape {self.shape} cannot become one of the shape "
                             f"{found.shape} in place; use a new name for the result.")
        replace(self, found)
        return self

    method.__name__, method.__qualname__ = name, f"Array.{name}"
    method.__doc__ = f"The operator of ``{function.__name__}`` in place."
    return method


def _held_by(array: Array) -> tuple[Any, ...]:
    """The tensors that an array holds, for constructs and recordings, which look for them in attributes: of one that
    has a value alone, they get some. A view that is old is not read again within a construct: that is nothing that a
    function has changed.
    """
    held: Any = vars(Storage)["_held"].__get__(array)
    if held is None or array._view is None or in_plain_code():
        return given(array)
    array._given, array._value = True, None
    return held  # type: ignore[no-any-return]


class Array(Methods):
    """An array of any number of dimensions, on which operations are traced, fused, and differentiated.

    Functions of the namespace create arrays. They are lazy: reading values (``float(x)``, ``bool(x)``, ``repr``,
    ``np.asarray(x)``) evaluates. In-place operators and item assignment write to this array, and to all that share its
    elements: what keys of integers and slices, ``reshape``, ``permute_dims``, ``.T``, ``squeeze`` and their like return
    are views, as NumPy's are. Arithmetic, and keys with arrays, make arrays of their own.
    """

    __slots__ = ()
    __module__ = _NAMESPACE  # where users find it
    if COMPILED:
        _held = property(_held_by, vars(Storage)["_held"].__set__)
    #: Operators of NumPy's arrays leave the operation to this class, which is greater than theirs.
    __array_priority__ = 1000

    # --- PyTrees ---

    def __drjit_children__(self) -> dict[str, Any]:
        return dict(zip(("real", "imag"), given(self), strict=False))

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Array:
        return Array(self._dtype, tuple(children.values()))

    def __drjit_assign__(self, other: Array) -> None:
        replace(self, other)

    def __drjit_origin__(self) -> tuple[Any, int]:
        """The array that its elements belong to, and how often that has been written to."""
        root: Any = self if self._view is None else self._view.root
        return root, root._writes

    # --- copies ---

    def __reduce__(self) -> tuple[Any, ...]:
        return wrap, (self._dtype, *self._parts)

    def __copy__(self) -> Array:
        return copy_of(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return copy_of(self)

    # --- attributes ---

    @property
    def mT(self) -> Array:
        """The array with its last two axes exchanged."""
        return matrix_transpose(self)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Array:
        """The array on a device, ``'cpu'`` or ``'cuda'``: itself if it is there, else a copy of its elements, which are
        evaluated unless they are constants; derivatives cross."""
        function = f"{_SELF}.to_device"
        where = known_device(function, device)
        if stream is not None:
            raise ValueError(f"{function}(): everything happens in one order, and there are no streams to choose from; "
                             f"found {stream!r}.")
        return self if where == self.device else moved(function, self, where)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """The module ``drjit.array_api``."""
        if api_version is not None and api_version not in versions:
            raise ValueError(f"{_SELF}.__array_namespace__(): the version {api_version!r} is not one of "
                             f"{', '.join(map(repr, versions))}.")
        return sys.modules["drjit.array_api"]

    # --- Python ---

    def __getitem__(self, key: Any, /) -> Array:
        found = part_of(self, key)
        return get(self, key) if found is None else found

    def __setitem__(self, key: Any, value: Any, /) -> None:
        put(self, key, value)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError(f"{_SELF}.__len__(): an array without dimensions has no length.")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.ndim:
            raise TypeError(f"{_SELF}.__iter__(): an array without dimensions has no entries.")
        return (self[k] for k in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool(np.any(self._host() == (value._host() if isinstance(value, Array) else value)))

    __hash__ = None  # type: ignore[assignment]  # arrays are mutable, and compare by element

    def _host(self) -> np.ndarray[Any, Any]:
        """The elements as a NumPy array; evaluates."""
        most = eager()
        value = value_of(self, most) if most else None
        found: np.ndarray[Any, Any] = numpy_of_parts(evaluated(self)).reshape(self.shape) if value is None else value
        return found

    def _scalar(self, method: str) -> Any:
        if self.size != 1:
            raise TypeError(f"{_SELF}.{method}(): only arrays of one element are numbers (this one has the shape "
                            f"{self.shape}).")
        most = eager()
        value = value_of(self, most) if most else None
        if value is not None:
            return value.item()
        values = [part.array[0] for part in evaluated(self)]
        return values[0] if len(values) == 1 else complex(*values)

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"{_SELF}.__bool__(): the truth value of an array of {self.size} elements is ambiguous; "
                             "use x.any() or x.all(), or x.size for whether there are some.")
        return bool(self._scalar("__bool__"))

    def __int__(self) -> int:
        return int(self._real("__int__"))

    def __float__(self) -> float:
        return float(self._real("__float__"))

    def __complex__(self) -> complex:
        return complex(self._scalar("__complex__"))

    def _real(self, method: str) -> Any:
        if self._dtype.kind == "c":
            raise TypeError(f"{_SELF}.{method}(): a complex number is no real one; take its real or imaginary part.")
        return self._scalar(method)

    def __index__(self) -> int:
        if self._dtype.kind not in "iu":
            raise TypeError(f"{_SELF}.__index__(): only integers are indices, found an array of {self._dtype}.")
        if self.ndim:
            raise TypeError(f"{_SELF}.__index__(): only arrays without dimensions are indices (this one has the shape "
                            f"{self.shape}).")
        return operator.index(self._scalar("__index__"))

    def item(self, *place: Any) -> Any:
        """The only element as a Python number, or the one at a place: an index of all elements in their order, or one
        for each axis. Evaluates."""
        if not place:
            return self._scalar("item")
        return self._host().item(*place)

    def tolist(self) -> Any:
        """Nested lists of Python numbers; evaluates."""
        return self._host().tolist()

    def __round__(self, digits: int | None = None) -> Any:
        if self.ndim:
            raise TypeError(f"{_SELF}.__round__(): only arrays without dimensions are rounded like numbers (this one "
                            f"has the shape {self.shape}); use x.round().")
        return builtins.round(self._real("__round__")) if digits is None else self.round(digits)

    def __str__(self) -> str:
        return repr(self) if self._is_symbolic() else str(self._host())

    def __repr__(self) -> str:
        if self._is_symbolic():
            return f"Array(<symbolic>, shape={self.shape}, dtype={self._dtype})"
        text = np.array2string(self._host(), separator=", ", prefix="Array(")
        hidden = self.size > np.get_printoptions()["threshold"] or not self.size and self.ndim > 1
        shape = f" shape={self.shape}," if hidden else ""  # which the text does not tell
        return f"Array({text},{shape} dtype={self._dtype})"

    def _is_symbolic(self) -> bool:
        return self._tensors() is not None and any(part.state is dr.VarState.Symbolic for part in self._parts)

    def __format__(self, specification: str) -> str:
        if not specification:
            return str(self)
        if self.ndim:
            try:
                return format(str(self), specification)
            except ValueError:
                raise TypeError(f"{_SELF}.__format__(): only arrays without dimensions are formatted like numbers "
                                f"(this one has the shape {self.shape}), found {specification!r}.") from None
        return format(self._scalar("__format__"), specification)

    def __divmod__(self, other: Any, /) -> tuple[Array, Array]:
        return self // other, self % other

    def __rdivmod__(self, other: Any, /) -> tuple[Array, Array]:
        return other // self, other % self

    __array__ = array_of
    __array_function__ = array_function
    __array_ufunc__ = array_ufunc
    __dlpack__ = dlpack
    __dlpack_device__ = dlpack_device
    __buffer__ = buffer

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements as a NumPy array that cannot be written to, without a copy unless they are complex. Evaluates;
        derivatives end here, with a warning."""
        found: np.ndarray[Any, Any] = array_of(self)
        return found

    def torch(self) -> Any:
        """The elements as a tensor of PyTorch, without a copy unless they are complex. Evaluates; derivatives end here,
        with a warning (:func:`drjit.wrap` lets them cross)."""
        return exported(self, "torch")

    def jax(self) -> Any:
        """The elements as an array of JAX, without a copy unless they are complex. Evaluates; derivatives end here,
        with a warning (:func:`drjit.wrap` lets them cross)."""
        return exported(self, "jax")

    def tf(self) -> Any:
        """The elements as a tensor of TensorFlow, which copies those that begin at no multiple of 64 bytes, and complex
        ones. Evaluates; derivatives end here, with a warning (:func:`drjit.wrap` lets them cross)."""
        return exported(self, "tf")

    # --- Dr.Jit ---

    @property
    def tensor(self) -> Any:
        """The Dr.Jit tensor that holds the elements, or a pair of them for complex numbers; no copy, but of small
        arrays that have been computed at once. What is written to the tensor is written to the array, and to its
        views, until something is written to one of these. That of a view is another tensor with the same elements and
        derivatives."""
        parts = given(self) if self._view is None else tuple(map(same, parts_of(self)))
        return parts[0] if len(parts) == 1 else parts

    # --- operators in place: others are those of the base class ---

    __iadd__ = _in_place("__iadd__", elementwise.add, "add")
    __isub__ = _in_place("__isub__", elementwise.subtract, "sub")
    __imul__ = _in_place("__imul__", elementwise.multiply, "mul")
    __itruediv__ = _in_place("__itruediv__", elementwise.divide, "truediv")
    __ifloordiv__ = _in_place("__ifloordiv__", elementwise.floor_divide, "floordiv")
    __imod__ = _in_place("__imod__", elementwise.remainder, "mod")
    __ipow__ = _in_place("__ipow__", elementwise.pow)
    __iand__ = _in_place("__iand__", elementwise.bitwise_and, "and")
    __ior__ = _in_place("__ior__", elementwise.bitwise_or, "or")
    __ixor__ = _in_place("__ixor__", elementwise.bitwise_xor, "xor")
    __ilshift__ = _in_place("__ilshift__", elementwise.bitwise_left_shift)
    __irshift__ = _in_place("__irshift__", elementwise.bitwise_right_shift)
    __imatmul__ = _in_place("__imatmul__", matmul)


enter("matmul", Product({}, None, matmul))
enter("asarray", asarray)
register(Array)
