"""Creation of arrays: constants, sequences, and whole PyTrees of them.

All of these return literals or lazy computation and evaluate nothing, except :func:`opaque`. Values that follow from
sizes and bounds are parameters of the kernels that use them, so that other sizes do not compile anew.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal

import drjit_core as core
from drjit_core import COMPUTES_IN, SHAPE, Node, cast, counter, invalid, is_float, literal, number, ops

from .._access.slicing import strided
from .._arrays.broadcasting import make as make_tensor
from .._base.arguments import require_integer
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._base.nodes import broadcast
from .._base.types import INT32, INT64, UINT32, UINT64, require_backend
from .._base.typing import ArrayT, T
from .._base.values import PYTHON_NUMBERS, filled, parse_shape, plain_scalar, require_size
from .._promotion.componentwise import flat_array, nested_array
from .._promotion.promote import bound_number, scalar_literal, wrap, wrap_like
from .._trees.pytree import construct, field_types, is_pytree, leaves, transform
from .evaluation import make_opaque

__all__ = ["arange", "array_size", "empty", "empty_like", "full", "linspace", "meshgrid", "ones", "ones_like", "opaque",
           "zeros", "zeros_like"]

Fill = Callable[[type[ArrayBase], int], Node]


#: The flat array types of the library that have been seen to be available, and the types of their elements.
_flat_types: dict[Any, int] = {}
#: The nested ones that are available, whose components are all made alike, and have a fixed number.
_nested_types: dict[Any, tuple[int, int]] = {}


def _note_type(cls: Any) -> None:
    """Note that a type is available, if it is one of ours: types that programs derive come and go."""
    if cls._dynamic and "_record" in vars(cls):
        if not cls._depth:
            _flat_types[cls] = cls._type
        elif cls._count > 0 and cls._special not in ("complex", "quaternion"):
            _nested_types[cls] = cls._type, cls._count


def _flat_type(dtype: Any, size: Any) -> int:
    """The type of the elements of a flat array that is made like others of its type before, or 0."""
    return _flat_types.get(dtype, 0) if size.__class__ is int and 0 < size <= sys.maxsize and isinstance(dtype, type) \
        else 0


def _require_type(dtype: Any, function: str) -> None:
    if not isinstance(dtype, type):
        raise TypeError(f"{function}(): 'dtype' must be a type, found {describe(dtype)} ({dtype!r}).")
    if issubclass(dtype, ArrayBase) and hasattr(dtype, "_record"):
        require_backend(dtype, function)


def array_size(cls: type[ArrayBase], shape: int | tuple[int, ...], function: str) -> tuple[int, int]:
    """Number of components, and size of each, of an array of a type and requested shape."""
    if not cls._dynamic:
        return _scalar_size(cls, shape, function), 1
    if isinstance(shape, int):
        return (1 if cls._count < 0 else cls._count), shape
    declared = (*cls._record.shape, -1)
    if len(shape) != len(declared) or any(d not in (-1, s) for d, s in zip(declared, shape, strict=True)):
        expected = ", ".join("*" if d < 0 else str(d) for d in declared)
        raise ArgumentError(f"{function}(<{cls._name}>): could not construct output: the provided 'shape' {shape} and "
                            f"'dtype' are incompatible (expected ({expected})).")
    count = 1
    for size in shape[:-1]:
        count *= size
    return count, shape[-1]


def _scalar_size(cls: type[ArrayBase], shape: int | tuple[int, ...], function: str) -> int:
    """Number of components of a scalar array: the requested size matters to dynamic ones only."""
    if isinstance(shape, int):
        return shape if cls._count < 0 else cls._count
    if len(shape) != cls._depth or any(d not in (-1, s) for d, s in zip(cls._record.shape, shape, strict=True)):
        expected = ", ".join("*" if d < 0 else str(d) for d in cls._record.shape)
        raise ArgumentError(f"{function}(<{cls._name}>): could not construct output: the provided 'shape' {shape} and "
                            f"'dtype' are incompatible (expected ({expected})).")
    return math.prod(shape)


def _create(dtype: Any, shape: int | tuple[int, ...], fill: Fill, scalar: Callable[[type], Any], function: str) -> Any:
    if isinstance(dtype, type) and issubclass(dtype, ArrayBase):
        if not hasattr(dtype, "_record"):
            raise TypeError(f"{function}(): 'dtype' must be a concrete array type, found {describe(dtype)}.")
        require_backend(dtype, function)  # that of a field is seen here only
        if dtype._depth < 0:
            sizes = shape if isinstance(shape, tuple) else (shape,)
            if not dtype._dynamic:
                dtype()  # says that it is not available
            size = math.prod(sizes)
            return make_tensor(dtype, fill(dtype, size) if size else invalid(dtype._type), sizes)
        count, size = array_size(dtype, shape, function)
        _note_type(dtype)
        nodes = [fill(dtype, size) if size else invalid(dtype._type)] * count
        if size and dtype._special in ("complex", "quaternion"):  # a real number: the other parts are zero
            zero = literal(dtype._type, 0, size)
            nodes = [node if k in dtype._unit() else zero for k, node in enumerate(nodes)]  # type: ignore[attr-defined]
        return wrap(dtype, nodes)
    if dtype in (bool, int, float):
        return scalar(dtype)
    fields = field_types(dtype) if isinstance(dtype, type) else None
    if fields is None:
        try:
            return dtype() if isinstance(dtype, type) else None
        except TypeError as error:
            raise ArgumentError(f"{function}(): {describe(dtype)} is no type of arrays and no PyTree, and is not made "
                                f"without arguments: {error}") from error
    if isinstance(shape, tuple) and len(shape) == 1:
        shape = shape[0]  # of the trailing dimension, whatever the fields are
    # Fields of other types, such as a name, are none of our business.
    return construct(dtype, {name: _create(kind, shape, fill, scalar, function) for name, kind in fields.items()
                             if isinstance(kind, type) and (issubclass(kind, ArrayBase) or kind in (bool, int, float)
                                                            or is_pytree(kind))})


def _constant(value: Any) -> Fill:
    return lambda cls, size: literal(cls._type, value, size)


def _undefined(cls: type[ArrayBase], size: int) -> Node:
    return core.undefined(cls._type, size, cls._where) if cls._dynamic else literal(cls._type, 0)


def constant(dtype: type[T], shape: Any, value: int, function: str, name: str = "shape") -> T:
    """An array or PyTree filled with 0 or 1, for the public function that is named."""
    scalar = _flat_type(dtype, shape)
    if scalar:
        return flat_array(dtype, literal(scalar, value, shape))  # type: ignore[no-any-return]
    if shape.__class__ is int and 0 < shape <= sys.maxsize and isinstance(dtype, type):
        nested = _nested_types.get(dtype)
        if nested is not None:
            return nested_array(dtype, [literal(nested[0], value, shape)] * nested[1])  # type: ignore[no-any-return]
    _require_type(dtype, function)
    result: T = _create(dtype, parse_shape(shape, function, name), _constant(value), lambda kind: kind(value), function)
    return result


def zeros(dtype: type[T], shape: int | Sequence[int] = 1) -> T:
    """An array of zeros (``False`` for masks), a literal that takes no memory.

    ``dtype`` is an array type, ``bool``, ``int`` or ``float``, or a PyTree class (one with a ``DRJIT_STRUCT``, or a
    data class), whose fields are then created likewise. ``shape`` is the size of the trailing dimension, or a sequence
    with the sizes of all dimensions, which agree with the static ones of the type; tensors have any shape. Raises a
    ``TypeError`` if ``dtype`` is no type, or the shape is none that it can have. Evaluates nothing.

    >>> from drjit.llvm import Array2f, Float, TensorXi
    >>> dr.zeros(Float, 3)
    [0, 0, 0]
    >>> dr.zeros(Array2f, shape=(2, 3))
    [[0, 0],
     [0, 0],
     [0, 0]]
    >>> dr.zeros(TensorXi, shape=(2, 3))
    [[0, 0, 0],
     [0, 0, 0]]
    """
    return constant(dtype, shape, 0, "drjit.zeros")


def ones(dtype: type[T], shape: int | Sequence[int] = 1) -> T:
    """An array of ones (``True`` for masks), a literal that takes no memory.

    See :func:`zeros` for the arguments and errors. Complex numbers and quaternions get a real part of one, matrices get
    ones everywhere (:func:`identity` makes an identity matrix). Evaluates nothing.

    >>> from drjit.llvm import Complex2f, Int
    >>> dr.ones(Int, 4)
    [1, 1, 1, 1]
    >>> dr.ones(Complex2f)
    [1]
    """
    return constant(dtype, shape, 1, "drjit.ones")


def empty(dtype: type[T], shape: int | Sequence[int] = 1) -> T:
    """An array of undefined contents, meant to be written to afterwards.

    See :func:`zeros` for the arguments and errors. Evaluates nothing: no memory is set aside before it is needed.

    >>> from drjit.llvm import Float, UInt
    >>> x = dr.empty(Float, 3)
    >>> dr.scatter(x, Float(7, 8, 9), UInt(2, 1, 0))
    >>> x
    [9, 8, 7]
    """
    known = _flat_type(dtype, shape)
    if known:
        return flat_array(dtype, core.undefined(known, shape, dtype._where))  # type: ignore[arg-type, attr-defined, no-any-return]
    _require_type(dtype, "drjit.empty")
    result: T = _create(dtype, parse_shape(shape, "drjit.empty"), _undefined,
                   lambda kind: kind(0), "drjit.empty")
    return result


def full(dtype: type[T], value: Any, shape: int | Sequence[int] = 1) -> T:
    """An array filled with a value, a literal that takes no memory.

    ``value`` is a number; for nested types it may also be a sequence with a number for each component. See
    :func:`zeros` for the other arguments. Raises a ``TypeError`` if the value is no number, or out of the range of the
    type. Evaluates nothing.

    >>> from drjit.llvm import Array2f, Float
    >>> dr.full(Float, 0.5, 3)
    [0.5, 0.5, 0.5]
    >>> dr.full(Array2f, (1, 2), 3)
    [[1, 2],
     [1, 2],
     [1, 2]]
    """
    result: T = _full(dtype, value, shape, "drjit.full")
    return result


def _full(dtype: Any, value: Any, shape: Any, function: str) -> Any:
    known = _flat_type(dtype, shape)
    if known:
        node = number(known, value)
        if node is not None:
            return flat_array(dtype, node if shape == 1 else literal(known, node.payload, shape))
    _require_type(dtype, function)
    parsed = parse_shape(shape, function)
    if isinstance(value, (list, tuple)) and issubclass(dtype, ArrayBase) and dtype._depth > 0:
        count, size = array_size(dtype, parsed, function)
        prototype = dtype(value)
        nodes = prototype._nodes()
        if len(nodes) != count and dtype._count >= 0 or any(node.size != 1 for node in nodes):
            raise ArgumentError(f"{function}(<{describe(dtype)}>): 'value' must hold one number per component.")
        return wrap(dtype, [literal(node.type, node.payload, size) for node in nodes])
    of_recording = value.__class__ is core.Extent and isinstance(dtype, type) and issubclass(dtype, ArrayBase)
    plain = value if of_recording else plain_scalar(value)
    if plain is None:
        raise ArgumentError(f"{function}(<{describe(dtype)}>): could not construct output: 'value' must be a number, "
                            f"found {describe(value)}.")

    def fill(cls: type[ArrayBase], size: int) -> Node:
        if of_recording:
            node = bound_number(cls, value, function)
            return node if size == 1 else broadcast(node, size)
        node = scalar_literal(cls, plain, function)
        return literal(node.type, node.payload, size)

    return _create(dtype, parsed, fill, lambda kind: kind(plain), function)


def opaque(dtype: Any = ..., value: Any = ..., shape: int | Sequence[int] = 1, *, arg: Any = ...) -> Any:
    """An array filled with a value, in memory: what :func:`full` returns, followed by :func:`make_opaque`.

    The value takes no part in the compilation of kernels that use it: nothing is folded, and kernels for other values
    are the same. See :func:`full` for the arguments. Evaluates the array; the kernel runs in the background.

    Of an array, a tensor or a PyTree alone (``arg``), it is an evaluated copy: each array has memory of its own,
    literals and entries that are there twice included. Other leaves are kept as they are. Differentiable.

    >>> from drjit.llvm import Float
    >>> dr.opaque({"x": Float(1), "y": None})
    {'x': [1], 'y': None}
    >>> x = dr.opaque(Float, 2, 3)
    >>> x
    [2, 2, 2]
    >>> x.state, dr.full(Float, 2, 3).state
    (VarState.Evaluated, VarState.Literal)
    """
    if dtype is ...:
        dtype = arg
    if dtype is ... or dtype is not arg is not ... or arg is not ... is not value:
        raise ArgumentError("drjit.opaque() takes a type and a value, or an array or PyTree alone ('arg').")
    if value is not ...:
        result: Any = _full(dtype, value, shape, "drjit.opaque")
        make_opaque(result)
        return result
    if isinstance(dtype, type):
        raise ArgumentError(f"drjit.opaque(): {describe(dtype)} is a type; did you mean opaque(dtype, value)?")
    result = transform("drjit.opaque", lambda leaf: wrap_like(leaf, type(leaf), list(leaf._nodes()))
                       if isinstance(leaf, ArrayBase) and leaf._dynamic else leaf, dtype)
    make_opaque(result)
    copied = core.copied if core.state.recording is None else core.unshared
    for leaf in leaves(result, "drjit.opaque"):
        if isinstance(leaf, ArrayBase) and leaf._dynamic:
            leaf._replace(list(map(copied, leaf._nodes())))
    make_opaque(result)  # what is copied while something is recorded
    return result


def _like(arg: Any, function: str, fill: Fill, number: int) -> Any:
    def visit(leaf: Any) -> Any:
        if isinstance(leaf, ArrayBase):
            cls = type(leaf)
            if function == "drjit.ones_like" and cls._special in ("complex", "quaternion"):
                nodes = [fill(cls, node.size) if k in cls._unit() else _constant(0)(cls, node.size)  # type: ignore[attr-defined]
                         for k, node in enumerate(leaf._nodes())]
                return wrap(cls, nodes)
            return wrap_like(leaf, cls, [fill(cls, node.size) if node.size else node for node in leaf._nodes()])
        return filled(leaf, number)

    return transform(function, visit, arg)


def zeros_like(arg: T, /) -> T:
    """Zeros of the type and shape of an array, tensor or PyTree.

    Entries of a PyTree that are neither arrays nor numbers are kept as they are. Evaluates nothing.

    >>> from drjit.llvm import Array2f, Float
    >>> dr.zeros_like(Array2f([1, 2, 3], 4))
    [[0, 0],
     [0, 0],
     [0, 0]]
    >>> dr.zeros_like({"weight": Float(1, 2), "count": 3})
    {'weight': [0, 0], 'count': 0}
    """
    result: T = _like(arg, "drjit.zeros_like", _constant(0), 0)
    return result


def ones_like(arg: T, /) -> T:
    """Ones of the type and shape of an array, tensor or PyTree, see :func:`ones` and :func:`zeros_like`.

    Evaluates nothing.

    >>> from drjit.llvm import Float
    >>> dr.ones_like(Float(4, 5, 6))
    [1, 1, 1]
    """
    result: T = _like(arg, "drjit.ones_like", _constant(1), 1)
    return result


def empty_like(arg: T, /) -> T:
    """Undefined contents of the type and shape of an array, tensor or PyTree, see :func:`empty` and :func:`zeros_like`.

    Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> x = dr.empty_like(TensorXf([1, 2, 3, 4], shape=(2, 2)))
    >>> x.shape
    (2, 2)
    >>> x[:] = 5
    >>> x
    [[5, 5],
     [5, 5]]
    """
    result: T = _like(arg, "drjit.empty_like", _undefined, 0)
    return result


# --- sequences -------------------------------------------------------------------------------------------------------


def _flat_dtype(dtype: Any, function: str, kinds: str, expected: str) -> Any:
    _require_type(dtype, function)
    if not issubclass(dtype, ArrayBase) or not hasattr(dtype, "_record") or dtype._depth >= 0 and (
            dtype._special or dtype._depth != (0 if dtype._dynamic else 1) or dtype._size >= 0):
        raise TypeError(f"{function}(): unsupported dtype {describe(dtype)} -- must be a dynamically sized 1D array.")
    if dtype._kind not in kinds:
        raise TypeError(f"{function}(): unsupported dtype {describe(dtype)} -- must be {expected}.")
    _note_type(dtype)
    return dtype


def _without_elements(cls: Any) -> Any:
    return wrap(cls, [invalid(cls._type)] if cls._dynamic else [])


def _counter(size: int, where: int) -> Node:
    return counter(size, UINT32 if size <= 1 << 32 else UINT64, where)


def arange(dtype: type[T], start_or_size: int | None = None, stop: int | None = None, step: int | None = None, *,
           start: int | None = None, size: int | None = None) -> T:
    """The integers from ``start`` (default 0) to ``stop`` (not included) in steps of ``step`` (default 1).

    Called as ``arange(dtype, size)`` or as ``arange(dtype, start, stop, step=1)``. ``dtype`` is a flat array type of
    numbers; floating-point sequences are computed as integers and converted. Raises a ``TypeError`` if an argument is
    no ``int``, if a number does not fit the type, and if the size would be negative; a ``ValueError`` if ``step`` is
    zero. Evaluates nothing.

    >>> from drjit.llvm import Float, Int
    >>> dr.arange(Int, 5)
    [0, 1, 2, 3, 4]
    >>> dr.arange(Float, 10, 0, -2)
    [10, 8, 6, 4, 2]
    """
    if stop is None and step is None and start is None and size is None:  # so few that each type here has the last one
        known = _flat_type(dtype, start_or_size)
        if known and (INT32 <= known <= UINT64 or is_float(known)) and start_or_size <= 1 << 24:  # type: ignore[operator]
            return flat_array(dtype, cast(counter(start_or_size, UINT32, dtype._where), known))  # type: ignore[arg-type, attr-defined, no-any-return]
    function = "drjit.arange"
    cls: type[Any] = _flat_dtype(dtype, function, "iuf", "an arithmetic type")
    if start_or_size is not None:
        if start is not None or size is not None:
            raise TypeError(f"{function}(): expected either (dtype, size) or (dtype, start, stop, step=1).")
        start, size = (start_or_size, None) if stop is not None else (None, start_or_size)
    if size is not None and (start is not None or stop is not None):
        raise TypeError(f"{function}(): 'size' cannot be combined with 'start' and 'stop'.")
    if size is None and stop is None:
        raise TypeError(f"{function}(): expected either (dtype, size) or (dtype, start, stop, step=1).")
    first = require_integer(function, "start", 0 if start is None else start)
    increment = require_integer(function, "step", 1 if step is None else step)
    end = require_integer(function, "stop" if size is None else "size", stop if size is None else size)
    if increment == 0:
        raise ValueError(f"{function}(): 'step' must not be zero.")
    count = -((first - end) // increment)
    if count < 0:
        raise ArgumentError(f"{function}(): the size cannot be negative (found {count}).")
    require_size(function, "stop" if size is None else "size", count)
    if not count:
        return _without_elements(dtype)  # type: ignore[no-any-return]
    last = first + (count - 1) * increment
    for name, value in (("start", first), ("last element", last)):
        if cls._kind != "f" and not cls._low <= value <= cls._high:
            raise TypeError(f"{function}(): the {name} {value} is out of range for {cls._name}.")
    # Floating-point sequences are computed as integers, which is exact, and converted at the end.
    low, high = min(first, last, increment), max(first, last, increment)
    wide = cls._type if cls._kind != "f" else INT32 if low >= -(1 << 31) and high < 1 << 31 else INT64
    if not cls._dynamic:
        scalars: T = wrap(cls, [scalar_literal(cls, first + k * increment, function) for k in range(count)])
        return scalars
    node = _counter(count, cls._where)
    if (first, increment) != (0, 1):
        node = cast(node, wide)
        if increment != 1:
            node = ops.mul(node, literal(wide, increment, 1, SHAPE, tag=1))
        if first:
            node = ops.add(node, literal(wide, first, 1, SHAPE, tag=2))
    result: T = wrap(cls, [cast(node, cls._type)])
    return result


def linspace(dtype: type[T], start: float, stop: float, num: int, endpoint: bool = True) -> T:
    """``num`` evenly spaced numbers from ``start`` to ``stop``, which is included if ``endpoint`` is set.

    ``dtype`` is a flat array type of floating-point numbers; half precision is computed in single precision. Raises a
    ``TypeError`` if an argument is of another kind, or ``num`` negative. Evaluates nothing.

    >>> from drjit.llvm import Float
    >>> dr.linspace(Float, 0, 1, 5)
    [0, 0.25, 0.5, 0.75, 1]
    >>> dr.linspace(Float, 0, 1, 4, endpoint=False)
    [0, 0.25, 0.5, 0.75]
    """
    known = _flat_type(dtype, num)
    if known and is_float(known) and start.__class__ in PYTHON_NUMBERS and stop.__class__ in PYTHON_NUMBERS:
        cls: type[Any] = dtype
        count, first, last = num, float(start), float(stop)
    else:
        function = "drjit.linspace"
        cls = _flat_dtype(dtype, function, "f", "a floating-point type")
        count = require_integer(function, "num", num)
        if count < 0:
            raise TypeError(f"{function}(): 'num' must not be negative, found {num}.")
        require_size(function, "num", count)
        bounds = [plain_scalar(value) for value in (start, stop)]
        for name, bound, value in zip(("start", "stop"), bounds, (start, stop), strict=True):
            if bound is None:
                raise TypeError(f"{function}(): '{name}' must be a number, found {describe(value)}.")
        if not count:
            return _without_elements(dtype)  # type: ignore[no-any-return]
        first, last = [float(bound) for bound in bounds]
    intervals = count - 1 if endpoint else count
    scalar = COMPUTES_IN[cls._type]
    positions = [_counter(count, cls._where)] if cls._dynamic else [literal(UINT32, k) for k in range(count)]
    increment = (last - first) / intervals if intervals else 0.0
    step, offset = literal(scalar, increment, 1, SHAPE, tag=1), literal(scalar, first, 1, SHAPE, tag=2)
    result: T = wrap(cls, [cast(ops.fma(cast(node, scalar), step, offset), cls._type) for node in positions])
    return result


def meshgrid(*args: ArrayT, indexing: Literal["xy", "ij"] = "xy") -> tuple[ArrayT, ...]:
    """Coordinates of all points of a grid, flattened, given those along each of its axes.

    ``args`` are flat arrays of one type. The last axis is the fastest with ``indexing='ij'``; ``'xy'``, the default,
    exchanges the roles of the first two. Returns a tuple of one flat array for each axis, whose size is the product of
    the sizes. Raises a ``TypeError`` if the arrays are not flat or of several types. Evaluates nothing.

    >>> from drjit.llvm import Float
    >>> dr.meshgrid(Float(0, 1, 2), Float(10, 20))
    ([0, 1, 2, 0, 1, 2], [10, 10, 10, 20, 20, 20])
    >>> dr.meshgrid(Float(0, 1, 2), Float(10, 20), indexing="ij")
    ([0, 0, 1, 1, 2, 2], [10, 20, 10, 20, 10, 20])
    """
    function = "drjit.meshgrid"
    if indexing not in ("xy", "ij"):
        raise ValueError(f"{function}(): 'indexing' must be 'xy' or 'ij', found {indexing!r}.")
    if not args:
        return ()
    axes: tuple[Any, ...] = args
    cls: Any = type(axes[0])
    if not issubclass(cls, ArrayBase) or cls._plain._record.shape != (() if cls._dynamic else (-1,)) or cls._special \
            or any(type(arg) is not cls for arg in args):
        raise ArgumentError(f"{function}(): the arguments must be flat dynamic arrays of one type, found "
                            f"{', '.join(describe(arg) for arg in args)}.")
    order = list(range(len(axes)))
    if indexing == "xy" and len(axes) > 1:
        order[:2] = [1, 0]
    total = 1
    for axis in axes:
        total *= len(axis)
    if not total:
        return tuple(cls() for _ in axes)
    result: list[Any] = [None] * len(axes)
    if not cls._dynamic:
        inner = 1
        for position in reversed(order):
            nodes = axes[position]._nodes()
            result[position] = wrap(cls, [nodes[k // inner % len(nodes)] for k in range(total)])
            inner *= len(nodes)
        return tuple(result)
    sizes = [len(axes[position]) for position in order]
    for place, position in enumerate(order):
        along = [int(axis == place) for axis in range(len(sizes))]
        result[position] = wrap(cls, [strided(axes[position]._n, sizes, along)])
    return tuple(result)
