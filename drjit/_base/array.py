"""``ArrayBase``, the base of all array types: what does not depend on how components are held.

An array is a thin handle: it holds nodes of the compiler's graph, and is never held by them. Concrete types are made by
:mod:`drjit._base.types`; the two ways of holding nodes are :class:`drjit._arrays.flat.FlatArray` and
:class:`drjit._arrays.nested.NestedArray`.

Slots
-----
``_n``
    The node of a flat array.
``_c``
    The component nodes of a nested array of any depth, in row-major order: a list of its own.
``_o``
    ``None``, or ``(array, position)``: this array is a component of that one (``v.x``), and in-place changes of it are
    written through.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterator, Sequence
from types import GenericAlias
from typing import Any, ClassVar, NoReturn, SupportsIndex

from drjit_core import TYPES, Node, VarState, broadcast_size, evaluate, label_of, read_element, state_of, symbolic_error

from .errors import CORE_ERRORS, ArgumentError, SizeError, describe
from .links import links
from .types import Record, members

__all__ = ["LIMIT", "ArrayBase"]

#: Number of entries of a dimension above which ``repr`` and ``print`` leave out most.
LIMIT = 20


class ArrayBase:
    """Base class of all array types; it cannot be instantiated itself."""

    __slots__ = ()
    __module__ = "drjit"
    __array_priority__ = 1000  # NumPy leaves operators with mixed operands to this class

    # Attributes of concrete types, see drjit._base.types.
    _record: ClassVar[Record]
    _type: ClassVar[int]
    _kind: ClassVar[str]
    _name: ClassVar[str] = "drjit.ArrayBase"
    _floating: ClassVar[bool]
    _low: ClassVar[Any]
    _high: ClassVar[Any]
    _depth: ClassVar[int]
    _size: ClassVar[int]
    _count: ClassVar[int]
    _mask_type: ClassVar[type[ArrayBase]]
    _leaf: ClassVar[type[ArrayBase]]
    _plain: ClassVar[type[ArrayBase]]
    _value: ClassVar[type]
    _special: ClassVar[str]
    _dynamic: ClassVar[bool]
    __meta__: ClassVar[str]

    _o: Any

    # For type checkers: what the parameters stand for says the stub, ``drjit/__init__.pyi``.
    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"{describe(self)}.__init__(): this type cannot be instantiated, use an array type of a "
                        "backend such as drjit.llvm.Float.")

    # --- how nodes are held: implemented by the two subclasses -------------------------------------------------------

    def _nodes(self) -> list[Node]:
        """The component nodes in row-major order (not to be modified)."""
        raise NotImplementedError

    def _static_shape(self) -> tuple[int, ...]:
        """The sizes of all dimensions but the trailing dynamic one."""
        raise NotImplementedError

    def _replace(self, nodes: list[Node]) -> None:
        """Replace the component nodes in place, writing through to the array that this is a component of."""
        raise NotImplementedError

    def _assign(self, other: Any) -> None:
        """Take over the contents of another array of this type."""
        self._replace(other._nodes())

    # --- what special kinds override, see drjit._base.types -----------------------------------------------------------

    @classmethod
    def _convert(cls, value: Any, function: str) -> list[Node]:
        """The component nodes of an argument of an operation that is promoted to this type."""
        raise NotImplementedError

    @classmethod
    def _promote_with(cls, function: str, trace: Callable[..., Node], args: Sequence[Any], mask: bool) -> Any:
        """Compute an elementwise operation with arguments of this kind, or leave it to the common rules."""
        return NotImplemented

    def _function(self, name: str) -> Any:
        """Apply a unary function by its name in ``drjit``, or leave it to the rule for components."""
        return NotImplemented

    def _format(self, limit: int) -> str:
        """The text of ``repr``: dimensions of more entries than the limit are abbreviated."""
        return links.format_array(self, limit)

    # --- properties --------------------------------------------------------------------------------------------------

    def _width(self, function: str) -> int:
        """Size of the trailing dimension: the common size of all components, where 1 goes with any."""
        nodes = self._nodes()
        if len(nodes) == 1:
            return nodes[0].size
        if not nodes:
            return 0
        try:
            return broadcast_size(function, *nodes)
        except CORE_ERRORS as error:
            raise SizeError(f"{function}(): the input is ragged (i.e., it does not have a consistent size): its "
                            f"components have sizes {', '.join(str(node.size) for node in nodes)}.") from error

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of all dimensions, outermost first; raises a ``RuntimeError`` if the array is ragged."""
        return (*self._static_shape(), self._width(f"{self._name}.shape"))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._depth + 1

    @property
    def state(self) -> VarState:
        """Evaluation state: that of the components, or ``VarState.Mixed`` if they differ."""
        states = {state_of(node) for node in self._nodes()}
        return states.pop() if len(states) == 1 else VarState.Mixed if states else VarState.Invalid

    @property
    def array(self) -> Any:
        """The array itself (other kinds of types return their storage here)."""
        return self

    @property
    def real(self) -> Any:
        """The real part: the array itself where there is no other."""
        return self

    @property
    def imag(self) -> Any:
        """The imaginary part: zeros of the array's shape where there is none."""
        return type(self)(0)

    @property
    def index(self) -> int:
        """Index of a flat array's variable in the computation graph; zero for nested arrays."""
        return 0

    @property
    def index_ad(self) -> int:
        """Index of a flat array's variable in the graph of derivatives; zero, as this type does not track them."""
        return 0

    @property
    def label(self) -> str | None:
        """Label of a flat array's variable in listings and graphs, ``None`` if it has none or the array is nested."""
        return label_of(self._nodes()[0]) if self._dynamic and self._depth <= 0 else None

    @label.setter
    def label(self, value: str) -> None:
        links.set_label(self, value)

    @property
    def T(self) -> NoReturn:
        """Transpose of matrices and tensors; other types raise a ``TypeError``."""
        raise TypeError(f"{self._name}.T: this is not a matrix or tensor type.")

    @property
    def mT(self) -> NoReturn:
        """Matrix transpose of matrices and tensors; other types raise a ``TypeError``."""
        raise TypeError(f"{self._name}.mT: this is not a matrix or tensor type.")

    # --- conversions -------------------------------------------------------------------------------------------------

    def item(self) -> bool | int | float:
        """The only element as a Python number (evaluates the array); raises if it has more or fewer elements."""
        nodes = self._nodes()
        if len(nodes) != 1 or nodes[0].size != 1:
            self._require_values("item")
            raise SizeError(f"{self._name}.item(): only arrays with a single element can be converted to a Python "
                            f"scalar (this one has the shape {self.shape}).")
        return read_element(nodes[0], 0)  # type: ignore[no-any-return]

    def _require_values(self, method: str) -> None:
        """Raise if the array is symbolic, which is more to the point than what its size would make one say."""
        for node in self._nodes():
            if node.scope:
                raise symbolic_error(node, f"{self._name}.{method}")

    def __bool__(self) -> bool:
        if self._kind != "b":
            raise TypeError(f"{self._name}.__bool__(): implicit conversion to 'bool' is only supported for scalar mask "
                            "arrays.")
        if self._depth > 0:
            raise SizeError(f"{self._name}.__bool__(): implicit conversion to 'bool' requires an array with at most 1 "
                            f"dimension (this one has {self.ndim} dimensions).")
        size = self._nodes()[0].size
        if size != 1:
            self._require_values("__bool__")
            raise SizeError(f"{self._name}.__bool__(): implicit conversion to 'bool' requires an array with exactly 1 "
                            f"element (this one has {size} elements). Did you mean drjit.all() or drjit.any()?")
        return bool(self.item())

    def _number(self, function: str) -> Any:
        """The only element, for a conversion that names what it is."""
        nodes = self._nodes()
        if len(nodes) != 1 or nodes[0].size != 1:
            self._require_values(function)
            raise ArgumentError(f"{self._name}.{function}(): a conversion to a Python number requires an array with "
                                f"exactly 1 element (this one has the shape {self.shape}).")
        return read_element(nodes[0], 0)

    def __float__(self) -> float:
        return float(self._number("__float__"))

    def __int__(self) -> int:
        return int(self._number("__int__"))

    def __complex__(self) -> complex:
        nodes = self._nodes()
        if self._special == "complex" and all(node.size == 1 for node in nodes):
            evaluate(nodes)
            return complex(read_element(nodes[0], 0), read_element(nodes[1], 0))
        return complex(self._number("__complex__"))

    def __index__(self) -> int:
        if self._kind not in "iu":
            raise ArgumentError(f"{self._name}.__index__(): only integer arrays with exactly 1 element can be used "
                                "where Python expects an integer.")
        return int(self._number("__index__"))

    def __format__(self, format_spec: str) -> str:
        if not format_spec:
            return str(self)
        if self._special == "complex":
            return format(complex(self), format_spec)
        return format(self._number("__format__"), format_spec)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers, outermost dimension first, as in NumPy.

        A tensor without dimensions gives a number, complex arrays give complex numbers. Evaluates the array (all
        components in one kernel) and waits for it.

        >>> drjit.llvm.Array2f([1, 2, 3], 4).tolist()
        [[1.0, 2.0, 3.0], [4.0, 4.0, 4.0]]
        """
        return links.to_list(self)

    __hash__ = object.__hash__  # arrays are compared elementwise; as keys they stand for themselves

    def __pos__(self) -> Any:
        return type(self)(self)

    def __copy__(self) -> Any:
        return type(self)(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return links.independent(self)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self),), links.array_state(self, int(protocol))  # type: ignore[attr-defined]

    def __setstate__(self, state: Any) -> None:
        links.restore_array(self, state)

    def __repr__(self) -> str:
        return self._format(LIMIT)

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError

    def __dir__(self) -> list[str]:
        return members(type(self))

    # --- exchange with others, see drjit._arrays.host -----------------------------------------------------------------

    def numpy(self) -> Any:
        """A NumPy array with these values: a view of evaluated memory for flat arrays, a copy for nested ones.

        Evaluates the array (all components in one kernel) and waits for the result. The view shows later in-place
        changes of the array's memory.
        """
        return links.to_numpy(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False and (self._depth > 0 or not self._dynamic):
            raise ValueError(f"{self._name}.__array__(): the components of a nested array do not lie side by side in "
                             "memory: it cannot become a NumPy array without a copy, which copy=False rules out.")
        result = self.numpy()
        if dtype is not None and result.dtype != dtype:
            if copy is False:
                raise ValueError(f"{self._name}.__array__(): cannot convert elements of type "
                                 f"{TYPES[self._type].name} to {dtype} without a copy, which copy=False rules out.")
            return result.astype(dtype)
        return result.copy() if copy and self._depth <= 0 else result

    def memview(self) -> memoryview:
        """A ``memoryview`` of these values, zero-copy for flat arrays. Evaluates the array and waits for the result."""
        return links.to_memoryview(self)

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """A DLPack capsule of these values, zero-copy for flat arrays. Evaluates the array and waits for the result."""
        return links.to_capsule(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Device type and number in the terms of DLPack: the memory of the CPU."""
        return (1, 0)
