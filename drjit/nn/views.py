"""Views of matrices and vectors in a buffer, and buffers that several of them share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from drjit_core import VarType, primal

from .._access.indirect import gather, scatter
from .._access.store import store
from .._ad.arrays import enable_grad, grad, grad_enabled
from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.types import UINT32, retype
from .._base.values import plain_integer
from .._functions.creation import arange
from .._functions.joining import concat
from .._functions.traits import tensor_t
from .._trees.classes import children, construct, extras

__all__ = ["MatrixView", "Packable", "map_parameters", "pack", "unpack", "view"]

#: How matrices lie in memory.
MatrixLayout = Literal["row_major", "inference", "training"]
_LAYOUTS = "inference", "training"
_ROW_MAJOR = "row_major"


class Packable:
    """Objects that know which of what they hold is packed: modules."""

    def _map_parameters(self, visit: Callable[[Any], Any]) -> Any:
        """An object like this one whose parameters are what a function makes of them."""
        raise NotImplementedError

    def _be_packed(self, packed: bool) -> None:
        """Note that all parameters lie in one buffer, or do no longer."""
        raise NotImplementedError


class MatrixView:
    """A matrix, or a vector (one column), within a buffer that may hold others as well.

    Views are made by :func:`view`, :func:`pack` and :func:`unpack`, and by slicing. They refer to the buffer, and copy
    nothing: what changes :attr:`buffer`, or its gradient, changes what all of its views show. ``A @ x`` is the product
    with a cooperative vector, see :func:`matvec`. A view is a PyTree of its buffer.

    >>> from drjit.llvm import Float, TensorXf
    >>> A = dr.nn.view(TensorXf(dr.arange(Float, 12), (3, 4)))
    >>> A[1:, :2].shape, A[1:, :2].offset, A[1:, :2].stride
    ((2, 2), 4, 4)
    """

    __slots__ = ("_buffer", "_flat", "_layout", "_offset", "_shape", "_stride", "_transpose")
    #: Constructs give functions all of it, whatever elements they are called for.
    _dr_shared = True
    _buffer: Any
    #: Whether it was made of an array of one axis.
    _flat: bool
    _layout: str
    _offset: int
    _shape: tuple[int, int]
    _stride: int
    _transpose: bool

    def __init__(self) -> None:
        raise TypeError("drjit.nn.MatrixView: views are made by drjit.nn.view(), drjit.nn.pack() and "
                        "drjit.nn.unpack().")

    @classmethod
    def _make(cls, buffer: Any, shape: tuple[int, int], stride: int, offset: int, layout: str = _ROW_MAJOR,
              flat: bool = False) -> MatrixView:
        result = cls.__new__(cls)
        result._buffer, result._shape, result._stride = buffer, shape, stride
        result._offset, result._layout, result._transpose, result._flat = offset, layout, False, flat
        return result

    def _with(self, **changes: Any) -> MatrixView:
        """A view that differs in something."""
        result = self.__class__.__new__(self.__class__)
        for name in self.__slots__:
            setattr(result, name, changes.get(name, getattr(self, name)))
        return result

    @property
    def dtype(self) -> VarType:
        """The scalar type of the elements.

        >>> from drjit.llvm import Float
        >>> dr.nn.view(Float(1, 2)).dtype
        VarType.Float32
        """
        return VarType(self._buffer._type)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns; vectors have one column.

        >>> from drjit.llvm import Float
        >>> dr.nn.view(Float(1, 2)).shape
        (2, 1)
        """
        return self._shape

    @property
    def layout(self) -> str:
        """How the elements lie: ``"row_major"``, ``"inference"`` or ``"training"``.

        >>> from drjit.llvm import Float
        >>> dr.nn.view(Float(1, 2)).layout
        'row_major'
        """
        return self._layout

    @property
    def stride(self) -> int:
        """How many elements lie between the beginnings of neighbouring rows.

        >>> from drjit.llvm import TensorXf
        >>> dr.nn.view(TensorXf([1, 2, 3, 4], (2, 2))).stride
        2
        """
        return self._stride

    @property
    def size(self) -> int:
        """How many elements there are from the first one of the view to the last one.

        >>> from drjit.llvm import TensorXf
        >>> dr.nn.view(TensorXf([1, 2, 3, 4], (2, 2)))[:, 0].size
        3
        """
        rows, columns = self._shape
        return (rows - 1) * abs(self._stride) + columns

    @property
    def offset(self) -> int:
        """The place of the first element in the buffer.

        >>> from drjit.llvm import TensorXf
        >>> dr.nn.view(TensorXf([1, 2, 3, 4], (2, 2)))[1].offset
        2
        """
        return self._offset

    @property
    def transpose(self) -> bool:
        """Whether the view stands for the transposed matrix; :attr:`shape` is that of the memory.

        >>> from drjit.llvm import TensorXf
        >>> dr.nn.view(TensorXf([1, 2, 3, 4], (2, 2))).T.transpose
        True
        """
        return self._transpose

    @property
    def buffer(self) -> Any:
        """The array that the elements are in: not a copy.

        >>> from drjit.llvm import Float
        >>> x = Float(1, 2)
        >>> dr.nn.view(x).buffer is x
        True
        """
        return self._buffer

    @property
    def T(self) -> MatrixView:
        """The transposed matrix.

        >>> from drjit.llvm import Float, TensorXf
        >>> A = dr.nn.view(TensorXf([1, 2, 3, 4], (2, 2)))
        >>> list(A.T @ dr.nn.CoopVec(Float(1), 0))
        [[1], [2]]
        """
        return self._with(_transpose=not self._transpose)

    @property
    def grad(self) -> MatrixView:
        """This view of the gradient of the buffer.

        >>> from drjit.llvm.ad import Float
        >>> x = Float(1, 2)
        >>> dr.enable_grad(x)
        >>> dr.backward(x * x)
        >>> dr.nn.view(x).grad.buffer
        [2, 4]
        """
        return self._with(_buffer=grad(self._buffer))

    def __getitem__(self, key: Any) -> MatrixView:
        """Rows and columns: an index or a slice for each; rows may have a step, which may be negative.

        >>> from drjit.llvm import Float, TensorXf
        >>> A = dr.nn.view(TensorXf(dr.arange(Float, 12), (3, 4)))
        >>> TensorXf(A[0:2, 1:3])
        [[1, 2],
         [5, 6]]
        """
        if self._layout != _ROW_MAJOR:
            raise RuntimeError("drjit.nn.MatrixView: only views in row-major order can be sliced, not those of packed "
                               "matrices: slice before packing.")
        terms = key if isinstance(key, tuple) else (key,)
        if not 1 <= len(terms) <= 2:
            raise RuntimeError(f"drjit.nn.MatrixView: a slice has one or two terms, found {len(terms)}.")
        found = [_range_of(axis, term, extent) for axis, (term, extent) in enumerate(
            zip((*terms, slice(None))[:2], self._shape, strict=True))]
        rows, columns = found
        if columns.step != 1 and len(columns) > 1:
            raise RuntimeError("drjit.nn.MatrixView: slices of columns have no step.")
        if not rows or not columns:
            raise RuntimeError(f"drjit.nn.MatrixView: the slice {key!r} of a view of the shape {self._shape} is empty.")
        return self._with(_flat=self._flat and len(terms) == 1, _shape=(len(rows), len(columns)),
                          _stride=self._stride * rows.step,
                          _offset=self._offset + rows.start * self._stride + columns.start)

    def __repr__(self) -> str:
        leaf = type(self._buffer)
        transposed = f"\n    transpose={self._transpose}," if self._transpose else ""
        return (f"drjit.nn.MatrixView[\n    dtype={self.dtype!r},\n    layout=\"{self._layout}\",\n    "
                f"shape={self._shape},\n    stride={self._stride},{transposed}\n    offset={self._offset},\n    "
                f"size={self.size},\n    buffer=<{leaf.__module__}.{leaf.__name__} instance>\n]")

    def __drjit_children__(self) -> dict[str, Any]:
        return {"buffer": self._buffer}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> MatrixView:
        return self._with(_buffer=children["buffer"])

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name in self.__slots__:
            setattr(self, name, state[name])

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _blank, (self.__class__,), self.__getstate__()

    def __drjit_tensor__(self, cls: Any) -> tuple[Any, tuple[int, int]]:
        """Elements and shape of the tensor that a view becomes."""
        if self._layout != _ROW_MAJOR:
            raise TypeError(f"{cls.__module__}.{cls.__name__}(): the view has the layout {self._layout!r}: unpack it "
                            "first (drjit.nn.unpack).")
        return self._elements(), self._steps[:2]

    # --- for the other modules ---------------------------------------------------------------------------------------

    @property
    def _steps(self) -> tuple[int, int, int, int]:
        """Rows and columns of the matrix that the view stands for, and what lies between rows and between columns."""
        rows, columns = self._shape
        return (columns, rows, 1, self._stride) if self._transpose else (rows, columns, self._stride, 1)

    @property
    def _is_vector(self) -> bool:
        return self._steps[1] == 1

    def _elements(self) -> Any:
        """All elements, row after row."""
        index = self._index()
        return self._buffer if index is None else gather(type(self._buffer), self._buffer, index)

    def _index(self) -> Any:
        """Where in the buffer the elements are; ``None`` if they are all of it, in order."""
        rows, columns, down, right = self._steps
        count = rows * columns
        dense = right == 1 and (down == columns or rows == 1)
        if dense and self._offset == 0 and count == len(self._buffer):
            return None
        position: Any = arange(retype(type(self._buffer), UINT32), count)
        row = position // columns if columns > 1 else position
        # strides may be negative: integers wrap around
        index = position if dense else row * (down % (1 << 32)) + (position - row * columns) * (right % (1 << 32))
        return index + self._offset

    def _tensor(self) -> Any:
        """The elements as a tensor of the shape that they had before they were packed."""
        shape = self._steps[:1] if self._flat else self._steps[:2]
        return tensor_t(self._buffer)(self._elements(), shape)

    def _write(self, tensor: Any) -> None:
        """Put elements into the buffer. It is a variable without a gradient afterwards, if it was one."""
        buffer, index, enabled = self._buffer, self._index(), grad_enabled(self._buffer)
        store(buffer, [primal(node) for node in (tensor.array if index is None else buffer)._nodes()])
        if index is not None:
            scatter(buffer, tensor.array, index)
        if enabled:
            enable_grad(buffer)


def _blank(cls: Any) -> Any:
    return cls.__new__(cls)


def _range_of(axis: int, term: Any, extent: int) -> range:
    """The rows or columns that a term of a slice is about."""
    if isinstance(term, slice):
        try:
            return range(extent)[term]
        except (TypeError, ValueError) as error:
            raise RuntimeError(f"drjit.nn.MatrixView: {term!r}: {error}.") from None
    index = plain_integer(term)
    if index is None:
        raise RuntimeError(f"drjit.nn.MatrixView: a term of a slice is an int or a slice, found {describe(term)}.")
    if not -extent <= index < extent:
        raise IndexError(f"drjit.nn.MatrixView: there is no {('row', 'column')[axis]} {index} of {extent}.")
    index %= extent
    return range(index, index + 1)


def view(arg: Any, /) -> MatrixView:
    """A view of a flat array (a vector), or of a tensor of one or two dimensions: nothing is copied.

    Raises a ``TypeError`` for what is no array, a ``RuntimeError`` for other arrays.

    >>> from drjit.llvm import TensorXf
    >>> dr.nn.view(TensorXf([1, 2, 3, 4], (2, 2))).shape
    (2, 2)
    """
    if isinstance(arg, MatrixView):
        return arg
    if not isinstance(arg, ArrayBase):
        raise TypeError(f"drjit.nn.view(): the argument must be a flat array or a tensor, found {describe(arg)}.")
    if arg._depth > 0:
        raise RuntimeError(f"drjit.nn.view(): the argument must be a flat array or a tensor, found {describe(arg)}.")
    if arg._depth == 0:
        return MatrixView._make(arg, (arg.shape[0], 1), 1, 0, flat=True)
    if not 1 <= arg.ndim <= 2:
        raise RuntimeError(f"drjit.nn.view(): a tensor must have one or two dimensions, found the shape {arg.shape}.")
    rows, columns = (*arg.shape, 1)[:2]
    return MatrixView._make(arg.array, (rows, columns), columns, 0, flat=arg.ndim == 1)


def map_parameters(value: Any, visit: Callable[[Any], Any]) -> Any:
    """A PyTree like another one, in which a function has been applied to arrays and views."""
    if isinstance(value, (ArrayBase, MatrixView)):
        return visit(value)
    if isinstance(value, Packable):
        return value._map_parameters(visit)
    items = children(value)
    if items is None:
        return value
    new = {key: map_parameters(child, visit) for key, child in items}
    if hasattr(value.__class__, "__drjit_rebuild__"):
        return value.__drjit_rebuild__(new)
    return construct(value.__class__, new, extras(value))


def _repacked(function: str, args: tuple[Any, ...], layout: str) -> Any:
    """PyTrees whose arrays and views have become views of one buffer."""
    found: dict[int, MatrixView] = {}
    kept: list[Any] = []  # which keeps their ids

    def collect(leaf: Any) -> Any:
        kept.append(leaf)
        found[id(leaf)] = view(leaf)
        return leaf

    for arg in args:
        map_parameters(arg, collect)
    placed = dict(zip(found, _joined(function, list(found.values()), layout), strict=True))
    results = tuple(map_parameters(arg, lambda leaf: placed[id(leaf)]) for arg in args)
    for result in results:
        if isinstance(result, Packable):
            result._be_packed(layout != _ROW_MAJOR)
    return results[0] if len(results) == 1 else results


def _joined(function: str, views: list[MatrixView], layout: str) -> list[MatrixView]:
    """Views of one buffer, which has the elements of others in order."""
    if not views:
        return []
    first = type(views[0]._buffer)
    for other in views:
        if other._buffer._type != first._type or other._buffer._record.backend is not first._record.backend:
            raise TypeError(f"{function}(): the matrices and vectors have different types: {describe(first)} and "
                            f"{describe(other._buffer)}.")
    elements = [found._elements() for found in views]
    leaf = next((type(part) for part in elements if type(part)._record.diff), first)
    buffer = concat([leaf(part) for part in elements]) if len(elements) > 1 else leaf(elements[0])
    result, offset = [], 0
    for found in views:
        rows, columns, _, _ = found._steps
        result.append(MatrixView._make(buffer, (rows, columns), columns, offset,
                                       _ROW_MAJOR if columns == 1 else layout, found._flat))
        offset += rows * columns
    return result


def pack(*args: Any, layout: str = "inference") -> Any:
    """Matrices and vectors in one buffer, as products want them: views in place of the arrays.

    The arguments are PyTrees of tensors, flat arrays and views (of which each may be a slice, or transposed), all of
    one scalar type, and modules, of which packed copies are made. Their elements are copied into a new buffer in order.
    Of one argument the result is its packed form, of several a tuple; what is neither array nor view stays as it is.

    ``layout`` is ``"inference"``, or ``"training"`` for programs that differentiate products in reverse mode, which is
    the same on the CPU. Differentiable in both modes: gradients of the buffer reach the arrays that it was made of.
    Raises a ``TypeError`` for different scalar types, a ``RuntimeError`` for another layout.

    >>> from drjit.llvm import Float, TensorXf
    >>> A, b = dr.nn.pack(TensorXf([1, 2, 3, 4], (2, 2)), Float(5, 6))
    >>> A.buffer is b.buffer, b.offset
    (True, 4)
    """
    if layout not in _LAYOUTS:
        raise RuntimeError(f"drjit.nn.pack(): 'layout' must be \"inference\" or \"training\", found {layout!r}.")
    return _repacked("drjit.nn.pack", args, layout)


def unpack(*args: Any) -> Any:
    """Matrices and vectors in row-major order in a new buffer: the inverse of :func:`pack`, of the same arguments.

    >>> from drjit.llvm import Float, TensorXf
    >>> A, b = dr.nn.pack(TensorXf([1, 2, 3, 4], (2, 2)), Float(5, 6))
    >>> TensorXf(dr.nn.unpack(A))
    [[1, 2],
     [3, 4]]
    """
    return _repacked("drjit.nn.unpack", args, _ROW_MAJOR)
