"""Cooperative vectors: a few values for each element, which networks take and return."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from drjit_core import Node
from drjit_core import cast as convert

from .._base.array import ArrayBase
from .._base.errors import ArgumentError, IncompatibleArguments, SizeError, describe
from .._base.types import reshape, retype
from .._base.values import is_ndarray, plain_scalar
from .._functions.elementwise import FUNCTIONS
from .._functions.mathematics import step
from .._functions.traits import tensor_t
from .._promotion.promote import meeting_package, number_literal, wrap
from .._trees.classes import children

__all__ = ["CoopVec", "cast", "on_components"]

T = TypeVar("T")
_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "power": operator.pow,
    "step": step}


class CoopVec(Generic[T]):
    """A cooperative vector: a few components, each of which is an array, that enter a network together.

    The arguments are flattened: flat arrays and numbers are components, and so are the entries of nested arrays, the
    rows of tensors, and what lists, tuples, dictionaries, iterators and other vectors hold. At least one of them must
    be an array, which tells the type of the elements (:attr:`type`); arrays of other scalar types raise a
    ``TypeError``, components that have different numbers of elements a ``RuntimeError``, as does a vector without
    components.

    Vectors are added, subtracted, multiplied and divided, component by component, with each other and with numbers and
    flat arrays; the elementwise functions, :func:`drjit.dot`, :func:`drjit.sum` and :func:`drjit.norm` take them as
    well. ``list(v)``, unpacking (``x, y = v``), ``ArrayXf(v)`` and ``TensorXf(v)`` give the components back. There
    is no indexing, since networks know vectors as a whole.

    Derivatives flow from and to the components. A vector is a PyTree: state of loops, and argument and result of calls
    and frozen functions. It is traced, not evaluated.

    >>> from drjit.llvm import Array2f, Float
    >>> v = dr.nn.CoopVec(Array2f([1, 2], [3, 4]), 5)
    >>> x, y, z = v + 1
    >>> x, y, z
    ([2, 3], [4, 5], [6])
    """

    __slots__ = ("_array",)
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None
    _array: Any

    def __init__(self, *args: Any) -> None:
        found: list[Any] = []
        for arg in args:
            _collect(arg, found)
        if not found:
            raise RuntimeError(f"{_NAME}(): a cooperative vector has at least one component.")
        arrays = [entry for entry in found if isinstance(entry, ArrayBase)]
        if not arrays:
            raise TypeError(f"{_NAME}(): at least one component must be an array, which tells the type of the "
                            "elements.")
        other = next((array for array in arrays if array._type != arrays[0]._type), None)
        if other is not None:
            raise ArgumentError(f"{_NAME}(): the components have different scalar types: {describe(arrays[0])} and "
                                f"{describe(other)}; convert them first.")
        leaf = arrays[0]._leaf
        try:
            leaf = meeting_package(arrays, leaf)
        except IncompatibleArguments:
            raise ArgumentError(f"{_NAME}(): the components belong to different backends.") from None
        nodes = [entry._nodes()[0] if isinstance(entry, ArrayBase) else number_literal(leaf, entry) for entry in found]
        widths = sorted({node.size for node in nodes if node.size != 1})
        if len(widths) > 1:
            raise SizeError(f"{_NAME}(): the components have different numbers of elements: "
                            f"{' and '.join(map(str, widths))}.")
        self._array = wrap(reshape(leaf, (-1,)), nodes)

    @classmethod
    def _of(cls, array: Any) -> CoopVec[T]:
        """The vector whose components are those of a nested array."""
        result = cls.__new__(cls)
        result._array = array
        return result

    @classmethod
    def _made(cls, leaf: Any, nodes: list[Node]) -> CoopVec[T]:
        """The vector of some nodes."""
        return cls._of(wrap(reshape(leaf, (-1,)), nodes))

    def _nodes(self) -> list[Node]:
        """The nodes of the components."""
        return self._array._nodes()  # type: ignore[no-any-return]

    @property
    def type(self) -> Any:
        """The type of the components.

        >>> from drjit.llvm import Float
        >>> dr.nn.CoopVec(Float(1), 2).type.__name__
        'Float'
        """
        return self._array._leaf

    @property
    def index(self) -> int:
        """The index of the variable that the first component is.

        >>> from drjit.llvm import Float
        >>> v = dr.nn.CoopVec(Float(1), 2)
        >>> v.index == next(iter(v)).index
        True
        """
        return next(iter(self)).index  # type: ignore[no-any-return, attr-defined]

    def __len__(self) -> int:
        """The number of components.

        >>> from drjit.llvm import Float
        >>> len(dr.nn.CoopVec(Float(1), 2))
        2
        """
        return len(self._nodes())

    def __iter__(self) -> Iterator[T]:
        return iter([wrap(self._array._leaf, [node]) for node in self._nodes()])

    def __repr__(self) -> str:
        """Type and shape; nothing is evaluated.

        >>> from drjit.llvm import Float
        >>> dr.nn.CoopVec(Float(1, 2, 3), 2)
        drjit.nn.CoopVec[drjit.llvm.Float, shape=(2, 3)]
        """
        leaf = self.type
        return (f"{_NAME}[{leaf.__module__}.{leaf.__name__}, "
                f"shape=({len(self)}, {max(node.size for node in self._nodes())})]")

    # --- what functions know of it -----------------------------------------------------------------------------------

    def __drjit_children__(self) -> dict[str, Any]:
        return {"components": [self._array]}  # in a list: it is no array of another package

    def __drjit_rebuild__(self, children: dict[str, Any]) -> CoopVec[T]:
        return self._of(children["components"][0])

    def __drjit_array__(self) -> Any:
        """The components, for functions that take sequences."""
        return self._array

    def __drjit_tensor__(self, cls: Any) -> tuple[Any, Any]:
        """Elements and shape of the tensor that a vector becomes: a row for each component."""
        del cls
        found = tensor_t(self._array)(self._array)
        return found.array, found.shape

    def __drjit_function__(self, name: str, args: tuple[Any, ...]) -> Any:
        """What an elementwise function computes of arguments among which there is a vector."""
        first = self._array
        given = []
        for arg in args:
            if isinstance(arg, CoopVec):
                array = arg._array
                if array._leaf is not first._leaf and array._type != first._type:
                    raise RuntimeError(f"drjit.{name}(): the cooperative vectors have different element types "
                                       f"({describe(first._leaf)} and {describe(array._leaf)}).")
                if len(array._nodes()) != len(first._nodes()):
                    raise RuntimeError(f"drjit.{name}(): the cooperative vectors have different lengths "
                                       f"({len(first._nodes())} and {len(array._nodes())}).")
                given.append(array)
            elif isinstance(arg, ArrayBase):
                if arg._depth or arg._type != first._type:
                    raise ArgumentError(f"drjit.{name}(): a cooperative vector of the type {describe(first._leaf)} "
                                        f"goes with numbers and flat arrays of that type, found {describe(arg)}.")
                given.append(wrap(reshape(arg._leaf, (-1,)), list(arg._nodes()) * len(first._nodes())))
            elif plain_scalar(arg) is not None:
                given.append(arg)
            else:
                return NotImplemented
        result = (_OPERATORS.get(name) or FUNCTIONS[name])(*given)
        if name == "step":
            result = retype(type(result), first._type)(result)
        return tuple(map(self._of, result)) if isinstance(result, tuple) else self._of(result)

    def _operate(self, name: str, *args: Any) -> Any:
        return self.__drjit_function__(name, args)

    def __add__(self, arg: Any, /) -> CoopVec[T]:
        """The sum with a vector, a flat array or a number.

        >>> from drjit.llvm import Float
        >>> list(dr.nn.CoopVec(Float(1), 2) + 1)
        [[2], [3]]
        """
        return self._operate("add", self, arg)  # type: ignore[no-any-return]

    def __radd__(self, arg: Any, /) -> CoopVec[T]:
        return self._operate("add", arg, self)  # type: ignore[no-any-return]

    def __sub__(self, arg: Any, /) -> CoopVec[T]:
        """The difference from a vector, a flat array or a number.

        >>> from drjit.llvm import Float
        >>> list(dr.nn.CoopVec(Float(1), 2) - 1)
        [[0], [1]]
        """
        return self._operate("sub", self, arg)  # type: ignore[no-any-return]

    def __rsub__(self, arg: Any, /) -> CoopVec[T]:
        return self._operate("sub", arg, self)  # type: ignore[no-any-return]

    def __mul__(self, arg: Any, /) -> CoopVec[T]:
        """The product with a vector, component by component, a flat array or a number.

        >>> from drjit.llvm import Float
        >>> list(dr.nn.CoopVec(Float(1), 2) * 3)
        [[3], [6]]
        """
        return self._operate("mul", self, arg)  # type: ignore[no-any-return]

    def __rmul__(self, arg: Any, /) -> CoopVec[T]:
        return self._operate("mul", arg, self)  # type: ignore[no-any-return]

    def __truediv__(self, arg: Any, /) -> CoopVec[T]:
        return self._operate("div", self, arg)  # type: ignore[no-any-return]

    def __rtruediv__(self, arg: Any, /) -> CoopVec[T]:
        return self._operate("div", arg, self)  # type: ignore[no-any-return]

    def __pow__(self, arg: Any, /) -> CoopVec[T]:
        return self._operate("power", self, arg)  # type: ignore[no-any-return]

    def __neg__(self) -> CoopVec[T]:
        return self._of(-self._array)

    def __abs__(self) -> CoopVec[T]:
        return self._of(abs(self._array))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._array,)


_NAME = "drjit.nn.CoopVec"


def _restored(array: Any) -> CoopVec[Any]:
    return CoopVec._of(array)


def _collect(value: Any, found: list[Any]) -> None:
    """Append the components that an argument stands for."""
    if isinstance(value, CoopVec):
        found += value
    elif isinstance(value, ArrayBase):
        if value._depth < 0:
            if value.ndim > 2:
                raise ArgumentError(f"{_NAME}(): a tensor has one or two dimensions, whose rows are components; found "
                                    f"the shape {value.shape}.")
            tensor: Any = value
            found += [tensor.array] if value.ndim < 2 else [tensor[row].array for row in range(value.shape[0])]
        elif value._depth:
            for entry in value:
                _collect(entry, found)
        else:
            found.append(value)
    elif plain_scalar(value) is not None:
        found.append(plain_scalar(value))
    elif isinstance(value, Mapping):
        for entry in value.values():
            _collect(entry, found)
    elif isinstance(value, (str, bytes)) or is_ndarray(value):
        raise RuntimeError(f"{_NAME}(): a component is an array or a number, found {describe(value)}.")
    else:
        items = children(value)
        entries = [entry for _, entry in items] if items is not None else value
        if not isinstance(entries, Iterable):
            raise RuntimeError(f"{_NAME}(): a component is an array or a number, found {describe(value)}.")
        for entry in entries:
            _collect(entry, found)


def on_components(value: Any, function: Callable[[Any], Any]) -> Any:
    """What a function of arrays makes of a vector, or of an array."""
    return CoopVec._of(function(value._array)) if isinstance(value, CoopVec) else function(value)


def cast(arg0: CoopVec[Any], arg1: Any, /) -> CoopVec[Any]:
    """A cooperative vector whose components are converted to another type: that of an array type ``arg1``.

    Differentiable; traced, not evaluated. Raises a ``TypeError`` for what is no vector, and what is no array type.

    >>> from drjit.llvm import Float, Float16
    >>> dr.nn.cast(dr.nn.CoopVec(Float(1), 2), Float16)
    drjit.nn.CoopVec[drjit.llvm.Float16, shape=(2, 1)]
    """
    if not isinstance(arg0, CoopVec) or not isinstance(arg1, type) or not issubclass(arg1, ArrayBase):
        raise TypeError(f"drjit.nn.cast(): the arguments must be a cooperative vector and an array type, found "
                        f"{describe(arg0)} and {describe(arg1)}.")
    leaf = retype(arg0.type, arg1._type)
    return CoopVec._made(leaf, [convert(node, leaf._type) for node in arg0._nodes()])
