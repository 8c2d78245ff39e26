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
from collections.abc import Callable, Iterator
from types import GenericAlias
from typing import Any, ClassVar, NoReturn, SupportsIndex

from drjit_core import (
    TYPES,
    Node,
    VarState,
    broadcast_size,
    evaluate,
    label_of,
    read_element,
    size_for_program,
    state_of,
    symbolic_error,
    vertex_of,
)

from .errors import CORE_ERRORS, ArgumentError, ReadOnlyError, Site, SizeError, describe, no_deletion
from .links import links
from .methods import FlatSlots, NestedSlots, TensorSlots
from .records import Record, members

__all__ = ["DERIVED", "LIMIT", "ArrayBase"]

#: Whether there are classes of arrays whose objects have attributes: those that programs derive may.
DERIVED: list[bool] = []

#: Number of entries of a dimension above which ``repr`` and ``print`` leave out most.
LIMIT = 20


class _Meta:
    """``__meta__`` of an array type: a text of what it is, made when somebody asks."""

    def __get__(self, instance: object, cls: type[ArrayBase]) -> str:
        return str(cls._record)


class ArrayBase:
    """Base class of all array types: what is said here holds for each of them. It cannot be instantiated itself.

    Array types belong to a package, such as :mod:`drjit.llvm`, and differ in their elements and their shape: *flat*
    arrays (``Float``) have one dimension of any size, *nested* ones (``Array3f``, ``Matrix4f``) a static number of
    components, each of them a flat array, and *tensors* (``TensorXf``) any number of dimensions. A constructor takes
    numbers, components, sequences, NumPy arrays and arrays of other types, which are converted.

    Operators are elementwise, promote their operands to a common type, and let sizes of 1 go with any size:

    - ``+``, ``-``, ``*``, ``**`` are those of numbers. ``/`` is defined for floating-point numbers, ``//`` and ``%``
      for integers: they truncate towards zero.
    - ``&``, ``|``, ``^``, ``~``, ``<<``, ``>>`` are those of masks and of the bits of integers.
    - ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=`` return masks.
    - ``@``, and ``*`` of matrices, complex numbers and quaternions, are products of linear algebra, see :func:`matmul`.

    They evaluate nothing; ``+=`` and its like replace what the array on the left holds. Operands of sizes that do not
    go together raise a ``RuntimeError``, elements of other kinds a ``TypeError``. Integers in brackets select
    components of nested arrays and elements of flat ones; components have names, too: ``v.x``, ``v.y``, ``v.z``,
    ``v.w``, and ``v.xy``, ``v.zyx`` for several of them.

    >>> from drjit.llvm import Array3f, Float
    >>> x = Float(1, 2, 3)
    >>> x * 2 + 1, x > 1
    ([3, 5, 7], [False, True, True])
    >>> v = Array3f(x, 0, 1)
    >>> v.y += 10
    >>> v
    [[1, 10, 1],
     [2, 10, 1],
     [3, 10, 1]]
    """

    __slots__ = ()
    __module__ = "drjit"
    __array_priority__ = 1000  # NumPy leaves operators with mixed operands to this class

    # Attributes of concrete types, see drjit._base.types.
    _record: ClassVar[Record]
    _type: ClassVar[int]
    _where: ClassVar[int]
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
    __meta__: ClassVar[str] = _Meta()  # type: ignore[assignment]

    #: Of flat arrays and tensors, of nested ones, and of tensors.
    _n: Node
    _c: list[Node]
    _s: tuple[int, ...]
    _o: Any

    # For type checkers: what the parameters stand for says the stub, ``drjit/__init__.pyi``.
    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"{describe(self)}.__init__(): this type cannot be instantiated, use an array type of a "
                        "backend such as drjit.llvm.Float.")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        kinds = (FlatSlots, NestedSlots, TensorSlots)
        if len(cls.__bases__) > 1 and sum([issubclass(cls, kind) for kind in kinds]) > 1:
            raise TypeError(f"{cls.__name__}: multiple bases have instance lay-out conflict: a class of arrays is "
                            "one of flat arrays, of nested arrays or of tensors, found the bases "
                            f"{', '.join(base.__name__ for base in cls.__bases__)}.")
        if vars(cls).get("__slots__", True) and not DERIVED:
            DERIVED.append(True)

    def __delitem__(self, key: Any) -> NoReturn:
        raise no_deletion(self)

    # --- how nodes are held: implemented by the two subclasses -------------------------------------------------------

    def _nodes(self) -> list[Node]:
        """The component nodes in row-major order (not to be modified)."""
        raise NotImplementedError

    def _static_shape(self) -> tuple[int, ...]:
        """The sizes of all dimensions but the trailing dynamic one."""
        raise NotImplementedError

    def _replace(self, nodes: list[Node]) -> None:
        """Replace the component nodes by others of the same values, also in the array that this is a component of."""
        raise NotImplementedError

    def _assign(self, other: Any) -> None:
        """Take over the contents of another array of this type."""
        raise NotImplementedError

    # --- what special kinds override, see drjit._base.types -----------------------------------------------------------

    @classmethod
    def _convert(cls, value: Any, function: Site) -> list[Node]:
        """The component nodes of an argument of an operation that is promoted to this type."""
        raise NotImplementedError

    @classmethod
    def _plan(cls, operation: Any, site: Site, keys: tuple[Any, ...]) -> Callable[..., Any] | None:
        """The plan of an elementwise operation with operands of this kind, or ``None``: by the common rules."""
        return None

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
            return size_for_program(nodes[0])
        if not nodes:
            return 0
        for node in nodes:
            size_for_program(node)
        try:
            return broadcast_size(function, *nodes)
        except CORE_ERRORS:
            raise SizeError(f"{function}(): the input is ragged (i.e., it does not have a consistent size): its "
                            f"components have sizes {', '.join(str(node.size) for node in nodes)}.") from None

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of all dimensions, outermost first; raises a ``RuntimeError`` if the array is ragged. Evaluates
        nothing.

        >>> from drjit.llvm import Array3f, TensorXf
        >>> Array3f([1, 2], 0, 0).shape, TensorXf([1, 2, 3, 4], shape=(2, 2)).shape
        ((3, 2), (2, 2))
        """
        return (*self._static_shape(), self._width(f"{self._name}.shape"))

    @property
    def ndim(self) -> int:
        """Number of dimensions. Evaluates nothing.

        >>> from drjit.llvm import Float, Matrix2f
        >>> Float(1).ndim, Matrix2f(1).ndim
        (1, 3)
        """
        return self._depth + 1

    @property
    def state(self) -> VarState:
        """Evaluation state: that of the components, or ``VarState.Mixed`` if they differ. Evaluates nothing.

        >>> from drjit.llvm import Float
        >>> x = dr.arange(Float, 3)
        >>> x.state
        VarState.Unevaluated
        >>> dr.make_opaque(x)
        >>> x.state
        VarState.Evaluated
        """
        states = {state_of(node) for node in self._nodes()}
        return states.pop() if len(states) == 1 else VarState.Mixed if states else VarState.Invalid

    @property
    def array(self) -> Any:
        """The elements as an array of the type with ordinary semantics (:func:`array_t`), of which tensors are flat.

        An ordinary array returns itself. Evaluates nothing.

        >>> from drjit.llvm import Complex2f, TensorXf
        >>> TensorXf([1, 2, 3, 4], shape=(2, 2)).array
        [1, 2, 3, 4]
        >>> Complex2f(1, 2).array
        [[1, 2]]
        """
        return self

    @property
    def real(self) -> Any:
        """The real part of complex numbers and quaternions; any other array itself. Evaluates nothing.

        >>> from drjit.llvm import Complex2f
        >>> Complex2f(1, 2).real
        [1]
        """
        return self

    @real.setter
    def real(self, value: Any) -> None:
        raise ReadOnlyError(f"{self._name}.real: only complex numbers and quaternions have parts to assign to.")

    @property
    def imag(self) -> Any:
        """The imaginary part of complex numbers, that of quaternions as a 3D array; zero for other arrays. Evaluates
        nothing.

        >>> from drjit.llvm import Complex2f
        >>> Complex2f(1, 2).imag
        [2]
        """
        return type(self)(0)

    @imag.setter
    def imag(self, value: Any) -> None:
        raise ReadOnlyError(f"{self._name}.imag: only complex numbers and quaternions have parts to assign to.")

    @property
    def index(self) -> int:
        """Index of a flat array's variable in listings and messages; zero for nested arrays. Evaluates nothing.

        Indices of variables that are gone may be given out again.

        >>> from drjit.llvm import Float
        >>> x = Float(1, 2)
        >>> x.index > 0, Float(x).index == x.index
        (True, True)
        """
        return 0

    @property
    def index_ad(self) -> int:
        """Index of a flat array's variable in the graph of derivatives; zero if it has none, and for nested arrays.

        >>> from drjit.llvm.ad import Float
        >>> x = Float(1)
        >>> x.index_ad
        0
        >>> dr.enable_grad(x)
        >>> x.index_ad > 0
        True
        """
        nodes = self._nodes() if self._dynamic and self._depth <= 0 else []
        vertex = vertex_of(nodes[0]) if nodes else None
        return 0 if vertex is None else vertex.id

    @property
    def grad(self) -> Any:
        """The gradient, see :func:`grad`. Assigning to it is :func:`set_grad`. Evaluates nothing.

        >>> from drjit.llvm.ad import Float
        >>> x = Float(3)
        >>> dr.enable_grad(x)
        >>> x.grad = 5
        >>> x.grad
        [5]
        """
        return links.gradient(self)

    @grad.setter
    def grad(self, value: Any) -> None:
        links.set_gradient(self, value)

    @property
    def label(self) -> str | None:
        """Label of a flat array's variable in listings and graphs, ``None`` if it has none or the array is nested.

        Can be set, which :func:`set_label` describes. Evaluates nothing.

        >>> from drjit.llvm import Float
        >>> x = Float(1, 2)
        >>> x.label = "weights"
        >>> x.label
        'weights'
        """
        return label_of(self._nodes()[0]) if self._dynamic and self._depth <= 0 else None

    @label.setter
    def label(self, value: str) -> None:
        links.set_label(self, value)

    @property
    def T(self) -> NoReturn:
        """Transpose of matrices, and of tensors with their axes reversed; other types raise a ``TypeError``.

        Evaluates nothing.

        >>> from drjit.llvm import Matrix2f
        >>> Matrix2f(1, 2, 3, 4).T
        [[[1, 3],
          [2, 4]]]
        """
        raise TypeError(f"{self._name}.T: this is not a matrix or tensor type.")

    @property
    def mT(self) -> NoReturn:
        """Transpose of matrices, and of the last two axes of tensors; other types raise a ``TypeError``. Evaluates
        nothing.

        >>> from drjit.llvm import TensorXf
        >>> dr.zeros(TensorXf, (2, 3, 4)).mT.shape
        (2, 4, 3)
        """
        raise TypeError(f"{self._name}.mT: this is not a matrix or tensor type.")

    # --- conversions -------------------------------------------------------------------------------------------------

    def item(self) -> bool | int | float:
        """The only element as a Python number; raises a ``RuntimeError`` if the array has more or fewer elements.

        Evaluates the array and waits for it.

        >>> from drjit.llvm import Float
        >>> dr.sum(Float(1, 2, 3)).item()
        6.0
        """
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
        """The only element of a mask, so that ``if`` can test it. Evaluates the array and waits for it.

        Raises a ``TypeError`` for anything but masks, a ``RuntimeError`` if there are several elements: say with
        :func:`all` or :func:`any` what is meant.

        >>> from drjit.llvm import Float
        >>> x = Float(1, 2, 3)
        >>> "positive" if dr.all(x > 0) else "mixed"
        'positive'
        """
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
                            f"element (this one has {size} elements). Did you mean drjit.all() or drjit.any()? To "
                            "combine masks element by element, use '&', '|' and '~' instead of 'and', 'or' and 'not'.")
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

        >>> from drjit.llvm import Array2f
        >>> Array2f([1, 2, 3], 4).tolist()
        [[1.0, 2.0, 3.0], [4.0, 4.0, 4.0]]
        """
        return links.to_list(self)

    __hash__ = object.__hash__  # arrays are compared elementwise; as keys they stand for themselves

    def __copy__(self) -> Any:
        return type(self)(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return links.independent(self, memo)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self),), links.array_state(self, int(protocol))  # type: ignore[attr-defined]

    def __setstate__(self, state: Any) -> None:
        links.restore_array(self, state)

    def __repr__(self) -> str:
        return self._format(LIMIT)

    def __iter__(self) -> Iterator[Any]:
        """Iterates over the components of nested arrays, the elements of flat ones, and the first axis of tensors.

        Elements of flat arrays are Python numbers: these are evaluated first, all at once.

        >>> from drjit.llvm import Array2f, Float
        >>> [value + 1 for value in Float(1, 2)], [component + 1 for component in Array2f([1, 2], 3)]
        ([2.0, 3.0], [[2, 3], [4]])
        """
        raise NotImplementedError

    def __dir__(self) -> list[str]:
        return members(type(self))

    # --- exchange with others, see drjit._arrays.host -----------------------------------------------------------------

    def numpy(self) -> Any:
        """A NumPy array with these values: a view of evaluated memory for flat arrays and tensors, a copy for nested
        ones.

        Evaluates the array (all components in one kernel) and waits for the result. The view shows later in-place
        changes of this array, and of no other one that has its memory. Memory that belongs to another package (see
        DLPack) cannot be written to through it, and an array that is changed has a copy of its own from then on.

        >>> from drjit.llvm import Array2f
        >>> Array2f([1, 2, 3], 4).numpy()
        array([[1., 2., 3.],
               [4., 4., 4.]], dtype=float32)
        """
        return links.to_numpy(self)

    def to_numpy(self) -> Any:
        """What :func:`numpy` returns, under the name that pandas has for it and Matplotlib asks for.

        >>> from drjit.llvm import Float
        >>> Float(1, 2).to_numpy()
        array([1., 2.], dtype=float32)
        """
        return self.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """What :meth:`numpy` returns, for ``numpy.asarray(x)`` and NumPy's functions; ``dtype`` and ``copy`` are those
        of NumPy.

        Raises a ``ValueError`` if ``copy=False`` rules out a copy that would be needed. Evaluates the array and waits
        for it.

        >>> import numpy as np
        >>> from drjit.llvm import Float
        >>> float(np.median(Float(1, 5, 2)))
        2.0
        """
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

    def torch(self) -> Any:
        """A PyTorch tensor with these values, which shows the memory of flat arrays and tensors. Nested arrays are
        copied, and so is what belongs to another package, because programs may write to tensors of PyTorch.

        The tensor shows later in-place changes of the array. Derivatives end here, see :func:`wrap`. Evaluates the
        array (all components in one kernel) and waits for the result. Raises a ``ModuleNotFoundError`` if PyTorch is
        not installed.

        >>> from drjit.llvm import Float
        >>> Float(1, 2).torch()  # doctest: +SKIP
        tensor([1., 2.])
        """
        return links.to_torch(self)

    def jax(self) -> Any:
        """A JAX array with these values, which shows the memory of flat arrays and tensors. Nested arrays are copied.

        JAX makes ``float32`` of ``float64`` unless its setting ``jax_enable_x64`` is on, and copies memory that begins
        at no multiple of 64 bytes. The array shows later in-place changes of this one. Derivatives end here, see
        :func:`wrap`. Evaluates the array (all components in one kernel) and waits for the result. Raises a
        ``ModuleNotFoundError`` if JAX is not installed.

        >>> from drjit.llvm import Float
        >>> Float(1, 2).jax()  # doctest: +SKIP
        Array([1., 2.], dtype=float32)
        """
        return links.to_jax(self)

    def tf(self) -> Any:
        """A TensorFlow tensor with these values, which shows the memory of flat arrays and tensors. Nested arrays are
        copied, and so is memory that begins at no multiple of 64 bytes.

        The tensor shows later in-place changes of the array. Derivatives end here, see :func:`wrap`. Evaluates the
        array (all components in one kernel) and waits for the result. Raises a ``ModuleNotFoundError`` if TensorFlow
        is not installed.

        >>> from drjit.llvm import Float
        >>> Float(1, 2).tf()  # doctest: +SKIP
        <tf.Tensor: shape=(2,), dtype=float32, numpy=array([1., 2.], dtype=float32)>
        """
        return links.to_tf(self)

    def memview(self) -> memoryview:
        """A ``memoryview`` of these values, zero-copy for flat arrays and tensors. Evaluates the array and waits for
        the result.

        >>> from drjit.llvm import Float
        >>> Float(1, 2, 3).memview().tolist()
        [1.0, 2.0, 3.0]
        """
        return links.to_memoryview(self)

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """A DLPack capsule of these values, for ``from_dlpack`` of other libraries; zero-copy for flat arrays and
        tensors.

        The parameters are those of the protocol; the other library gives them: consumers that know version 1
        (``max_version``) are told what is a copy, and what must not be written to because it belongs to another
        package; older ones get a copy of that. Evaluates the array and waits for the result. Raises a ``BufferError``
        for streams and other devices, and where ``copy=False`` rules out a copy that is needed.

        Memory of a GPU is exported there. Nothing is waited for then: the ``stream`` (``None`` or 1 for the default
        one, 2 for that of the calling thread, a handle, or -1) waits for what has been launched, and what is launched
        after the consumer has let the memory go waits for that stream, which must exist until then. ``dl_device=(1,
        0)`` makes a copy in the memory of the CPU.

        >>> import numpy as np
        >>> from drjit.llvm import Float
        >>> np.from_dlpack(Float(1, 2, 3))
        array([1., 2., 3.], dtype=float32)
        """
        return links.to_capsule(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Device type and number in the terms of DLPack: the memory of the CPU, or for arrays of ``drjit.cuda`` the
        GPU, ``(2, 0)``.

        >>> from drjit.llvm import Float
        >>> Float(1).__dlpack_device__()
        (1, 0)
        """
        return links.device_of(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory of a flat array or tensor of ``drjit.cuda``, for libraries that do not speak DLPack, such as
        Numba: they use it in any stream, after what is in that of ``"stream"``. Evaluates the array. Raises an
        ``AttributeError`` for other arrays, and for elements of type bfloat16.

        >>> from drjit.llvm import Float
        >>> hasattr(Float(1), "__cuda_array_interface__")
        False
        """
        return links.to_interface(self)
