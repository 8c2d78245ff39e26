"""The classes of textures: what they hold, arguments, and the results of lookups."""

from __future__ import annotations

import copy
import copyreg
import functools
import itertools
import json
import math
from array import array as Numbers
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn, SupportsIndex

import drjit_core as core
from drjit_core import (
    COMPUTES_IN,
    CONSUMED,
    TYPES,
    FilterMode,
    Node,
    ReduceMode,
    ReduceOp,
    VarType,
    WrapMode,
    cast,
    import_copy,
    literal,
    primal,
    state,
    tracked,
)

from .._access.lanes import TRUE, WATCHES, note_read, with_lanes
from .._access.store import store, store_written
from .._base.arguments import require_bool
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe, translate
from .._base.links import links
from .._base.types import BOOL, FLOAT32, FLOAT64, INT32, INT64, SCALAR, UINT32, UINT64, Record, lookup, require_backend
from .._base.values import is_ndarray, plain_scalar
from .._functions.creation import arange
from .._promotion.promote import coerce, wrap
from . import lookups
from .grid import Colors, Grid, Texels, grid_of, ops

__all__ = ["TextureBase"]

_UINT8 = VarType.UInt8.value
#: Version of what pickles hold of a texture.
_FORMAT = 1
_IDENTITY, _AUTO = ReduceOp.Identity.value, ReduceMode.Auto.value


class _Known:
    """What a texture keeps of what follows from the rest of it. Constructs and frozen functions do not look inside: it
    is no state, and that of one texture as good as that of another."""

    __slots__ = ("grid", "text", "value", "wide")

    def __init__(self) -> None:
        self.grid: tuple[Any, Grid] | None = None  # that of the last lookup, and what it follows from
        self.text: str | None = None  # all options
        self.value: Any = None  # stays the same object
        self.wide: tuple[Node, Node] | None = None  # texels in half precision, and these in single precision

    def __eq__(self, other: object) -> bool:
        return other.__class__ is _Known

    def __hash__(self) -> int:
        return 0


class TextureBase:
    """A grid of texels in one, two or three dimensions, and interpolation between them.

    There are two ways to make one. ``Texture2f(shape, channels)`` has as many texels as ``shape`` says along each axis
    (the last one is X: ``(X,)``, ``(Y, X)``, ``(Z, Y, X)``), of a number of channels that are zero.
    ``Texture2f(tensor)`` has those of a tensor, whose last axis are the channels; anything that converts to a tensor
    will do.

    ``filter_mode`` chooses what :meth:`eval` does, ``wrap_mode`` what there is beyond the edges: a
    :class:`drjit.WrapMode`, or one for each axis, in the order of ``shape``. With ``WrapMode.Border`` that is
    ``border``, a number or one for each channel. ``writable`` textures can be written to (:meth:`write`). ``srgb`` says
    that the texels of an 8-bit texture are sRGB colors, which lookups decode; each fourth channel is linear.
    ``use_accel`` and ``migrate`` concern texture units of GPUs; without any, they have no effect.

    Positions are (X, Y, Z), from 0 to 1 over the whole texture; the centre of texel ``i`` of ``n`` is at
    ``(i + 1/2) / n``. Lookups compute in the precision of the position, whatever that of the texels, which are
    floating-point numbers or 8-bit fractions of 255. Texels with the weight zero are multiplied by it: next to one that
    is NaN or infinite, the result is NaN at the centre before it, and on a clamped axis beyond the outermost centre.
    Lookups are differentiable with respect to texels (but for 8-bit ones) and positions, in both modes and repeatedly.
    A texture is a PyTree, whose only array is its tensor: ``dr.enable_grad(texture)``, ``dr.eval(texture)``. Functions
    that merge two of them want the same options of both.

    Raises a ``RuntimeError`` if shapes, channels and options do not go together, a ``TypeError`` for other arguments.

    >>> from drjit.llvm import Array2f, Texture2f
    >>> texture = Texture2f([[[0], [1]], [[2], [3]]])
    >>> texture
    Texture2f(shape=(2, 2, 1), filter_mode=Linear, wrap_mode=Clamp)
    >>> texture.eval(Array2f(0.5, [0.5, 0.75]))
    [[1.5],
     [2.5]]
    """

    __slots__ = ("__weakref__", "_accel", "_border", "_filter", "_known", "_modes", "_srgb", "_tensor", "_writable")
    #: Constructs give functions all of it, whatever elements they are called for.
    _dr_shared = True

    IsTexture = True
    _name: ClassVar[str]
    _record: ClassVar[Record]
    _dimension: ClassVar[int]
    #: The type of tensors that it holds.
    _storage: ClassVar[Any]
    #: That of the tensor's elements, if it is an array.
    _flat: ClassVar[Any]

    _tensor: Any
    _modes: tuple[WrapMode, ...]  # X first
    _border: tuple[float, ...] | None
    _known: _Known

    # --- construction ------------------------------------------------------------------------------------------------

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        function = f"{self._name}.__init__"
        require_backend(self._storage, function)
        names: tuple[str, ...] = ("shape", "channels", "use_accel", "filter_mode", "wrap_mode", "writable", "srgb",
                                  "border")
        of_tensor = "tensor" in kwargs or "shape" not in kwargs and "channels" not in kwargs and not (
            len(args) > 1 and plain_scalar(args[1]).__class__ is int)
        if of_tensor:
            names = ("tensor", "use_accel", "migrate", "filter_mode", "wrap_mode", "srgb", "border")
        if len(args) > len(names):
            raise TypeError(f"{function}(): at most {len(names)} arguments ({', '.join(names)}), found {len(args)}.")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names or name in given:
                why = "given twice" if name in given else f"not known; there are {', '.join(names)}"
                raise TypeError(f"{function}(): the argument '{name}' is {why}.")
            given[name] = value
        first = "tensor" if of_tensor else "channels" if "shape" in given else "shape"
        if first not in given:
            raise TypeError(f"{function}(): the argument '{first}' is missing.")
        for name in ("use_accel", "migrate", "writable", "srgb"):
            require_bool(function, name, given.get(name, False))
        self._accel, self._srgb = given.get("use_accel", True), given.get("srgb", False)
        self._writable = given.get("writable", False)
        self._filter = given.get("filter_mode", FilterMode.Linear)
        if not isinstance(self._filter, FilterMode):
            raise TypeError(f"{function}(): 'filter_mode' must be a drjit.FilterMode, found {describe(self._filter)}.")
        self._modes = _wrap_modes(function, given.get("wrap_mode", WrapMode.Clamp), self._dimension)
        if self._srgb and self._record.type != _UINT8:
            raise ArgumentError(f"{function}(): 'srgb' is for textures of 8 bits a channel.")
        self._known = _Known()
        if of_tensor:
            self._tensor = self._tensor_of(function, "tensor", given["tensor"])
        else:
            self._tensor = self._zeros(function, given["shape"], given["channels"])
        self._border = _border_values(function, given.get("border"), self._modes, self.shape[-1])

    def _zeros(self, function: str, shape: Any, channels: Any) -> Any:
        sizes = tuple(map(plain_scalar, shape)) if isinstance(shape, (list, tuple)) or is_ndarray(shape) or \
            isinstance(shape, ArrayBase) else ()
        if len(sizes) != self._dimension or any(size.__class__ is not int or size < 0 for size in sizes):
            raise ArgumentError(f"{function}(): 'shape' must be a sequence of {self._dimension} sizes, found "
                                f"{shape!r}.")
        count = plain_scalar(channels)
        if count.__class__ is not int:
            raise TypeError(f"{function}(): 'channels' must be an int, found {describe(channels)}.")
        if count < 1:
            raise ArgumentError(f"{function}(): 'channels' must be at least 1, found {count}.")
        shape = (*sizes, count)
        size = math.prod(shape)
        tensor = wrap(self._storage, [literal(self._record.type, 0, size) if size else core.invalid(self._record.type)])
        tensor._s = shape
        return tensor

    def _converted(self, function: str, name: str, value: Any) -> Any:
        """A tensor of the type of texels, of whatever shape; detached if derivatives are suspended."""
        kind: Any = self._storage
        if self._record.type == _UINT8 and isinstance(value, (list, tuple)):
            kind = lookup(kind._record._replace(type=FLOAT64))  # whose elements are truncated
        try:
            tensor = kind(value)
            if kind is not self._storage:
                tensor = self._storage(tensor)
        except (TypeError, ValueError, RuntimeError) as error:
            raise type(error)(f"{function}(): '{name}' must be convertible to {self._storage._name}: {error}") from None
        if tracked(tensor._n) is None:
            tensor._n = primal(tensor._n)
        return tensor

    def _tensor_of(self, function: str, name: str, value: Any) -> Any:
        """A tensor of the storage type of texels, made of a value."""
        tensor = self._converted(function, name, value)
        if tensor.ndim != self._dimension + 1:
            raise ArgumentError(f"{function}(): '{name}' must have {self._dimension + 1} dimensions, the last of which "
                                f"are channels, found the shape {tensor.shape}.")
        if not tensor.shape[-1]:
            raise ArgumentError(f"{function}(): '{name}' must have at least 1 channel, found the shape {tensor.shape}.")
        return tensor

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of texels along each axis (the last one is X), and of channels.

        >>> from drjit.llvm import Texture2f
        >>> Texture2f([3, 4], 1).shape
        (3, 4, 1)
        """
        return self._tensor._s  # type: ignore[no-any-return]

    def channel_count(self) -> int:
        """The number of channels.

        >>> from drjit.llvm import Texture2f
        >>> Texture2f([3, 4], 1).channel_count()
        1
        """
        return self.shape[-1]

    def filter_mode(self) -> FilterMode:
        """How :meth:`eval` interpolates.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f([2], 1).filter_mode()
        FilterMode.Linear
        """
        return self._filter  # type: ignore[no-any-return]

    def wrap_mode(self) -> WrapMode | tuple[WrapMode, ...]:
        """What there is beyond the edges: a mode, or one for each axis in the order of the shape if they differ.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f([2], 1).wrap_mode()
        WrapMode.Clamp
        """
        modes = self._modes
        return modes[0] if len(set(modes)) == 1 else modes[::-1]

    def border(self) -> tuple[float, ...] | None:
        """What channels are beyond edges with ``WrapMode.Border``; ``None`` if there is none.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f([2], 2, wrap_mode=dr.WrapMode.Border, border=1).border()
        (1.0, 1.0)
        """
        return self._border

    def use_accel(self) -> bool:
        """Whether texture units may be used where there are any.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f([2], 1, use_accel=False).use_accel()
        False
        """
        return self._accel  # type: ignore[no-any-return]

    def migrated(self) -> bool:
        """Whether texels are in memory of texture units alone: never.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f([2], 1).migrated()
        False
        """
        return False

    def writable(self) -> bool:
        """Whether texels can be written to, see :meth:`write`.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f([2], 1).writable()
        False
        """
        return self._writable  # type: ignore[no-any-return]

    def srgb(self) -> bool:
        """Whether lookups decode sRGB colors.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f([2], 1).srgb()
        False
        """
        return self._srgb  # type: ignore[no-any-return]

    def _options(self) -> list[str]:
        mode = self.wrap_mode()
        shown = mode.name if isinstance(mode, WrapMode) else f"({', '.join(entry.name for entry in mode)})"
        options = [f"filter_mode={self._filter.name}", f"wrap_mode={shown}"]
        if self._border is not None:
            options.append(f"border={self._border}")
        flags = ("writable", self._writable), ("srgb", self._srgb)
        return options + [f"{name}=True" for name, value in flags if value]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, {', '.join(self._options())})"

    # --- traversal, copies, pickles ----------------------------------------------------------------------------------

    def __drjit_children__(self) -> dict[str, Any]:
        # Options are a text, which constructs compare: textures of different ones are not merged.
        known = self._known
        if known.text is None:
            known.text = json.dumps(self._all_options())
        return {"tensor": self._tensor, "options": known.text}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Any:
        result, text = self._like(children["tensor"]), children["options"]
        if text != self._known.text:
            result._set_options(json.loads(text))
        result._known.text = text
        return result

    def _like(self, tensor: Any) -> Any:
        """A texture of the same options."""
        result: Any = type(self).__new__(type(self))
        result._accel, result._srgb, result._writable = self._accel, self._srgb, self._writable
        result._filter, result._modes, result._border = self._filter, self._modes, self._border
        result._tensor, result._known = tensor, _Known()
        return result

    def _all_options(self) -> dict[str, Any]:
        return {"accel": self._accel, "srgb": self._srgb, "writable": self._writable, "filter": self._filter.name,
                "modes": [mode.name for mode in self._modes], "border": self._border}

    def _set_options(self, options: dict[str, Any]) -> None:
        self._accel, self._srgb, self._writable = options["accel"], options["srgb"], options["writable"]
        self._filter = FilterMode[options["filter"]]
        self._modes = tuple([WrapMode[name] for name in options["modes"]])
        border = options["border"]
        self._border = None if border is None else tuple(border)

    def __copy__(self) -> Any:
        return self._like(self._storage(self._tensor))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._like(copy.deepcopy(self._tensor, memo))

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self),), {  # type: ignore[attr-defined]
            "format": _FORMAT, "tensor": self._tensor, "options": self._all_options()}

    def __setstate__(self, state: Any) -> None:
        form = state.get("format") if isinstance(state, dict) else None
        if form != _FORMAT:
            raise ValueError(f"{self._name}: cannot restore this texture: its pickle has a format that this version of "
                             f"the package does not know (expected {_FORMAT}, found {form!r}).")
        self._set_options(state["options"])
        self._tensor, self._known = state["tensor"], _Known()

    # --- texels ------------------------------------------------------------------------------------------------------

    def tensor(self) -> Any:
        """The texels as a tensor, the last axis of which are channels: not a copy.

        What changes it in place, or sets its gradient, changes the texture.

        >>> from drjit.llvm import Texture1f
        >>> texture = Texture1f([2], 1)
        >>> texture.tensor()[1] = 4
        >>> texture.eval(0.5)
        [[2]]
        """
        return self._tensor

    def value(self) -> Any:
        """The texels as a flat array: not a copy, see :meth:`tensor`.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f([[1, 2], [3, 4]]).value()
        [1, 2, 3, 4]
        """
        view = self._known.value = self._tensor.array
        return view

    def set_value(self, value: Any, migrate: bool = False) -> None:
        """Replace all texels by the elements of a flat array, a list, or anything that converts to one.

        Elements are converted as those of arrays: 8-bit textures truncate floating-point numbers. The array is not tied
        to the texture: what is done to it later does not show. In branches, loops and calls each element belongs to
        one of theirs, as those of other arrays do: :meth:`write` is what changes texels by their positions there.
        Raises a ``RuntimeError`` if there are more or fewer elements than the texture has. Evaluates nothing.

        >>> from drjit.llvm import Float, Texture1f
        >>> texture = Texture1f([3], 1)
        >>> texture.set_value(Float(1, 2, 3))
        >>> texture.eval(0.5)
        [[2]]
        """
        function = f"{self._name}.set_value"
        require_bool(function, "migrate", migrate)
        new = value._n if value.__class__ is self._flat else self._converted(function, "value", value)._n
        if tracked(new) is None:
            new = primal(new)
        size = math.prod(self.shape)
        if new.size != size:
            raise SizeError(f"{function}(): 'value' must have the {size} elements of a texture of the shape "
                            f"{self.shape}, found {new.size}.")
        store(self._tensor, [new])

    def set_value_with_event(self, value: Any, event: Any, migrate: bool = False) -> None:
        """What :meth:`set_value` does; the event, of a stream of a GPU, is for backends that have any.

        >>> from drjit.llvm import Texture1f
        >>> texture = Texture1f([2], 1)
        >>> texture.set_value_with_event([1, 2], None)
        """
        self.set_value(value, migrate)

    def set_tensor(self, tensor: Any, migrate: bool = False) -> None:
        """Replace all texels by those of a tensor, or of anything that converts to one, which may have another
        resolution and other channels; the texture is not writable then.

        Raises a ``RuntimeError`` if the number of dimensions is another one, or that of channels where their borders
        differ. See :meth:`set_value`.

        >>> from drjit.llvm import Texture1f
        >>> texture = Texture1f([3], 1)
        >>> texture.set_tensor([[1, 2], [3, 4]])
        >>> texture.shape
        (2, 2)
        """
        function = f"{self._name}.set_tensor"
        require_bool(function, "migrate", migrate)
        new = self._tensor_of(function, "tensor", tensor)
        if new.shape == self.shape:
            store(self._tensor, [new._n])
            return
        border, channels = self._border, new.shape[-1]
        if border is not None and channels != len(border):
            if len(set(border)) > 1:
                raise ArgumentError(f"{function}(): 'tensor' has {channels} channels, but the 'border' of the texture "
                                    f"one value for each of {len(border)}: {border}.")
            self._border = border[:1] * channels
        self._tensor, self._writable = new, False
        self._known.text = self._known.value = None

    def update_inplace(self, migrate: bool = False) -> None:
        """Let lookups see what was done to :meth:`value` or :meth:`tensor`: they always do, so that there is nothing to
        be done.

        >>> from drjit.llvm import Texture1f
        >>> texture = Texture1f([2], 1)
        >>> texture.update_inplace()
        """

    def map(self) -> None:
        """Make a texture that another library owns accessible: there is nothing to be done for others.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f([2], 1).map()
        """

    def unmap(self) -> None:
        """The opposite of :meth:`map`.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f([2], 1).unmap()
        """

    def native_handle(self, sub_index: int = 0) -> int:
        """The handle of a texture unit's object, which is 0 where there is none.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f([2], 1).native_handle()
        0
        """
        return 0

    @classmethod
    def from_native_handle(cls, handle: int, *args: Any, **kwargs: Any) -> NoReturn:
        """A texture that another library owns; raises a ``RuntimeError``, as this backend has none.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f.from_native_handle(1)
        Traceback (most recent call last):
        RuntimeError: drjit.llvm.Texture1f.from_native_handle(): the backend of this texture has no native handles.
        """
        raise RuntimeError(f"{cls._name}.from_native_handle(): the backend of this texture has no native handles.")

    # --- arguments of lookups ----------------------------------------------------------------------------------------

    def _positions(self, function: str, name: str, value: Any, integers: int | None = None) -> tuple[list[Node], int]:
        """The components of a position, X first, and their type: floating-point numbers, or integers of a type."""
        count = self._dimension
        if isinstance(value, ArrayBase):
            depth = value._depth
            if depth == 1 and integers is None and value._kind == "f" and \
                    value.__class__ is self._position_type(value._type):
                return value._nodes(), value._type
            sizes = (count,) if value._dynamic else (1, count)
            if value._special or depth > 1 or value._kind == "b" or depth == 1 and value.shape[0] not in sizes:
                raise self._wrong_position(function, name, value)
            type_ = value._type if value._kind == "f" else FLOAT32
        elif isinstance(value, (list, tuple)):
            if len(value) != count:
                raise self._wrong_position(function, name, value, f" of {len(value)}")
            types = [entry._type for entry in value if isinstance(entry, ArrayBase) and entry._kind == "f"]
            type_ = max(types, key=lambda entry: TYPES[entry].size) if types else FLOAT32
        elif is_ndarray(value) or plain_scalar(value) is not None:
            if is_ndarray(value) and (value.ndim > 2 or value.dtype.kind not in "iuf" or
                                      value.ndim and value.shape[0] != count):
                raise self._wrong_position(function, name, value, f" of the shape {value.shape}")
            type_ = FLOAT32
        else:
            raise self._wrong_position(function, name, value)
        for entry in value if isinstance(value, (list, tuple)) else (value,):
            self._require_detached(function, name, entry)
        type_ = type_ if integers is None else integers
        try:
            return coerce(self._position_type(type_), value, function), type_
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"{function}(): '{name}' must be convertible to {self._position_type(type_)._name}: "
                            f"{error}") from None

    def _require_detached(self, function: str, name: str, value: Any) -> None:
        if isinstance(value, ArrayBase) and value._record.diff and not self._record.diff and any(
                tracked(node) is not None for node in value._nodes()):
            raise TypeError(f"{function}(): '{name}' tracks derivatives ({value._name}), which the lookups of a "
                            f"texture of the type {self._name} do not pass on: use the texture of the same name in "
                            f"{value._name.rpartition('.')[0]}.")

    def _wrong_position(self, function: str, name: str, value: Any, more: str = "") -> TypeError:
        wanted = self._position_type(FLOAT32)._name
        return TypeError(f"{function}(): '{name}' must be a position of {self._dimension} components, such as "
                         f"{wanted}, found {describe(value)}{more}.")

    @classmethod
    @functools.cache
    def _position_type(cls, type_: int) -> Any:
        return _array_type(cls._record, type_, cls._dimension)

    @classmethod
    @functools.cache
    def _result_type(cls, type_: int, channels: int) -> Any:
        return _array_type(cls._record, type_, channels if channels <= 4 else -1)

    def _result(self, values: list[Node], type_: int) -> Any:
        """Channels as an array."""
        return wrap(self._result_type(type_, len(values)), values)

    def _mask(self, function: str, active: Any) -> Node:
        if active is True:
            return TRUE
        try:
            node: Node = coerce(_array_type(self._record, BOOL, 0), active, function)[0]
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"{function}(): 'active' must be a mask, found {describe(active)}: {error}") from None
        return node

    def _texels(self, function: str, active: Any, positions: Sequence[Node], type_: int) -> Texels:
        """What is looked up, at positions of a type."""
        tensor, static = self._tensor, self._record.backend is SCALAR
        shape, source = tensor._s, tensor._n
        if WATCHES:
            note_read(source)
        if not source.size:  # of which a texel of zeros takes the place, but none where there is a border
            shape = *(int(size > 0 or mode is not WrapMode.Border)
                      for size, mode in zip(shape[:-1], reversed(self._modes), strict=True)), shape[-1]
            source = literal(source.type, 0, shape[-1])
            if not static:  # in memory, as texels are: what positions are counts
                source = core.opaque(source, tensor._where)
        if COMPUTES_IN[source.type] != source.type and not static and tracked(source) is not None and \
                not source.scope:  # what a region is given is added up so by whoever gives it
            source = self._in_single_precision(source)
        key = shape, type_, state.flags
        known = self._known
        if known.grid is None or known.grid[0] != key:
            known.grid = key, grid_of(shape, self._modes, type_, static)
        grid = known.grid[1]
        colors = Colors(_table(COMPUTES_IN[type_], tensor._where)) if self._srgb else None
        return Texels(grid, source, lookups.wanted(self._mask(function, active), positions, source), colors)

    def _in_single_precision(self, source: Node) -> Node:
        """Texels in half precision, of which gradients are added up in single precision."""
        wide = self._known.wide
        vertex = None if wide is None or wide[0] is not source else tracked(wide[1])
        if wide is None or vertex is None or vertex.rule is CONSUMED:
            wide = self._known.wide = source, cast(source, COMPUTES_IN[source.type])
        return wide[1]

    def _lookup(self, method: str, pos: Any, active: Any, work: Callable[[Texels, list[Node]], Any]) -> Any:
        """What a function returns of texels and a position: nodes of one result, in any containers."""
        function = f"{self._name}.{method}"
        nodes, type_ = self._positions(function, "pos", pos)
        try:
            return work(self._texels(function, active, nodes, type_), nodes), type_
        except CORE_ERRORS as error:
            raise translate(error, function) from None

    def _values(self, name: str, pos: Any, active: Any, method: int) -> Any:
        """The result of a lookup that has one value for each channel."""
        values, type_ = self._lookup(
            name, pos, active, lambda texels, nodes: lookups.lookup(texels, self._border, method, nodes)[0])
        return self._result(values, type_)

    # --- lookups -----------------------------------------------------------------------------------------------------

    def eval(self, pos: Any, active: Any = True) -> Any:
        """The texture at positions, interpolated as its filter mode says; zero where ``active`` is not set.

        Returns an array of as many channels. ``pos`` is a nested array, or a tuple, list or NumPy array of components,
        or one number or flat array for all axes. Differentiable; evaluates nothing. Raises a ``TypeError`` if a
        position has another number of components.

        >>> from drjit.llvm import Array1f, Float, Texture1f
        >>> Texture1f([[0, 10], [1, 20]]).eval(Array1f(Float(0.25, 0.5)), active=[True, False])
        [[0, 10],
         [0, 0]]
        """
        method = lookups.LINEAR if self._filter is FilterMode.Linear else lookups.NEAREST
        return self._values("eval", pos, active, method)

    def eval_fetch(self, pos: Any, active: Any = True) -> tuple[Any, ...]:
        """The texels that linear interpolation is between: a tuple of 2, 4 or 8 results, X changing first.

        See :meth:`eval`.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f([[1], [2], [3]]).eval_fetch(0.6)
        ([[2]], [[3]])
        """
        values, type_ = self._lookup("eval_fetch", pos, active,
                                     lambda texels, nodes: texels.fetch(nodes, self._border))
        return tuple([self._result(entry, type_) for entry in values])

    def eval_cubic(self, pos: Any, active: Any = True, force_nonaccel: bool = False) -> Any:
        """A smooth approximation of the texture at positions: the uniform cubic B-spline of its texels, which does not
        pass through them. Whatever the filter mode; see :meth:`eval`.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f([[0], [6], [0]]).eval_cubic(0.5)
        [[4]]
        """
        return self._values("eval_cubic", pos, active, lookups.SMOOTH)

    def eval_catmull_rom(self, pos: Any, active: Any = True) -> Any:
        """The cubic spline through the texels at positions, by Catmull and Rom. Whatever the filter mode; it may leave
        the range of the texels. See :meth:`eval`.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f([[0], [6], [0]]).eval_catmull_rom(0.5)
        [[6]]
        """
        return self._values("eval_catmull_rom", pos, active, lookups.INTERPOLATING)

    def eval_cubic_helper(self, pos: Any, active: Any = True) -> Any:
        """What :meth:`eval_cubic` returns.

        >>> from drjit.llvm import Texture1f
        >>> Texture1f([[0], [6], [0]]).eval_cubic_helper(0.5)
        [[4]]
        """
        return self.eval_cubic(pos, active)

    def eval_cubic_grad(self, pos: Any, active: Any = True) -> tuple[Any, list[Any]]:
        """What :meth:`eval_cubic` returns, and a list of the gradients of all channels with respect to the position.

        >>> from drjit.llvm import Texture1f
        >>> value, (gradient,) = Texture1f([[0], [6], [0]]).eval_cubic_grad(0.25)
        >>> gradient
        [[11.8125]]
        """
        found, type_ = self._derived("eval_cubic_grad", pos, active, 1)
        return self._result(found[(0,) * self._dimension], type_), self._gradients(found, type_)

    def eval_cubic_hessian(self, pos: Any, active: Any = True) -> tuple[Any, list[Any], list[Any]]:
        """What :meth:`eval_cubic_grad` returns, and a list of the Hessian matrices of all channels with respect to the
        position; for one axis these are nested lists of one entry.

        >>> from drjit.llvm import Texture1f
        >>> value, gradients, (hessian,) = Texture1f([[0], [6], [0]]).eval_cubic_hessian(0.5)
        >>> hessian
        [[[-108]]]
        """
        found, type_ = self._derived("eval_cubic_hessian", pos, active, 2)
        count = self._dimension
        entries = [[found[tuple((k == row) + (k == column) for k in range(count))][channel]
                    for row in range(count) for column in range(count)] for channel in range(self.shape[-1])]
        cls = _array_type(self._record, type_, 0) if count == 1 else _matrix_type(self._record, type_, count)
        hessians = [wrap(cls, nodes) if count > 1 else [[wrap(cls, nodes)]] for nodes in entries]
        return self._result(found[(0,) * count], type_), self._gradients(found, type_), hessians

    def _derived(self, name: str, pos: Any, active: Any, most: int) -> tuple[dict[tuple[int, ...], list[Node]], int]:
        """The B-spline and its derivatives, by how often each axis is derived by, up to so many times in all."""
        orders = [entry for entry in itertools.product(range(most + 1), repeat=self._dimension) if sum(entry) <= most]
        found, type_ = self._lookup(name, pos, active, lambda texels, nodes: lookups.lookup(
            texels, self._border, lookups.SMOOTH, nodes, orders))
        return dict(zip(orders, found, strict=True)), type_

    def _gradients(self, found: dict[tuple[int, ...], list[Node]], type_: int) -> list[Any]:
        cls, count = self._position_type(type_), self._dimension
        units = [tuple(int(k == axis) for k in range(count)) for axis in range(count)]
        return [wrap(cls, [found[unit][channel] for unit in units]) for channel in range(self.shape[-1])]

    def wrap(self, pos: Any) -> Any:
        """The texels that integer positions, possibly beyond the edges, stand for; with ``WrapMode.Border`` the closest
        ones.

        Floating-point numbers are truncated. Raises a ``TypeError`` for another number of components.

        >>> from drjit.llvm import Int, Texture1f
        >>> Texture1f([4], 1, wrap_mode=dr.WrapMode.Mirror).wrap(Int(-1, 3, 4, 5))
        [[0],
         [3],
         [3],
         [2]]
        """
        function = f"{self._name}.wrap"
        nodes, _ = self._positions(function, "pos", pos, INT64 if _is_wide(pos, "fiu") else INT32)
        grid = grid_of(self.shape, self._modes, FLOAT32, self._record.backend is SCALAR)
        found = [grid.wrapped(axis, node) for axis, node in zip(grid.axes, nodes, strict=True)]
        return wrap(self._position_type(INT32), found)

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(self, pos: Any, value: Any, active: Any = True) -> None:
        """Write texels at integer positions (X, Y, Z) where ``active`` is set; those beyond the edges are dropped.

        ``value`` is a sequence of one array or number for each channel. Of 8-bit textures, values from 0 to 1 are
        encoded (as sRGB colors if the texture holds such) and rounded, others clamped, NaN is 0. If several go to one
        texel, one of them wins. Values carry derivatives, but for those of 8 bits. Raises a ``RuntimeError`` if the
        texture is not writable, or has another number of channels. Evaluates nothing: texels are written by the next
        evaluation, and lookups see what was written before them.

        >>> from drjit.llvm import Texture1f, UInt
        >>> texture = Texture1f([3], 1, writable=True)
        >>> texture.write(UInt(2, 7), [5])
        >>> texture.value()
        [0, 0, 5]
        """
        function = f"{self._name}.write"
        if not self._writable:
            raise ArgumentError(f"{function}(): the texture is not writable: it was not made with writable=True.")
        arrays = isinstance(pos, ArrayBase) or isinstance(pos, (list, tuple)) and any(
            isinstance(entry, ArrayBase) for entry in pos)
        nodes, type_ = self._positions(
            function, "pos", pos, UINT64 if _is_wide(pos, "iu") else UINT32 if arrays else INT32)
        if type_ == INT32:
            nodes = [cast(node, UINT32) for node in nodes]  # negative ones are beyond the edges then, too
        entries = self._written_values(function, value)
        tensor = self._tensor
        grid = grid_of(tensor._s, self._modes, FLOAT32, self._record.backend is SCALAR)
        try:
            mask, index = self._mask(function, active), None
            for axis, node in zip(grid.axes, nodes, strict=True):
                inside = ops.lt(node, cast(axis.whole, node.type))
                mask = inside if mask is TRUE else ops.and_(mask, inside)
                part = cast(node, grid.index)
                part = ops.mul(part, grid.strides[axis.number]) if axis.number else part
                index = part if index is None else ops.add(index, part)
            assert index is not None
            if grid.static:
                self._write_number(grid, index, mask, entries)
                return
            mask = with_lanes(mask, core.broadcast_size("write", index, mask, *entries))
            node = tensor._n
            if node.size:
                for position, entry in zip(grid.positions(index), entries, strict=True):
                    node = core.scatter(node, entry, position, mask, _IDENTITY, _AUTO)
                store_written(tensor, [node])
        except CORE_ERRORS as error:
            raise translate(error, function) from None

    def _sampled(self, function: str, shape: tuple[int, ...]) -> Any:
        """A texture of the same options that holds what is looked up at the centres of its texels."""
        *sizes, channels = shape
        if channels != self.shape[-1]:
            raise ArgumentError(f"{function}(): a texture keeps the number of its channels, which is "
                                f"{self.shape[-1]}, found {channels}.")
        result, record = self._like(self._zeros(function, sizes, channels)), self._record
        result._writable = True
        places: Any
        if record.backend is SCALAR:
            places = [place[::-1] for place in itertools.product(*map(range, sizes))]
        else:
            index, place = arange(_array_type(record, UINT32, 0), math.prod(sizes)), []
            for size in reversed(sizes):
                index, rest = (index // size, index % size) if size else (index, index)
                place.append(rest)
            places = [place]
        kind = self._position_type(FLOAT64 if record.type == FLOAT64 else FLOAT32)
        for place in places:
            centre = kind(list(place)) + 0.5
            for axis, size in enumerate(reversed(sizes)):
                centre[axis] /= max(size, 1)
            result.write(list(place), list(self.eval(centre)))
        result._writable = self._writable
        return result

    def _written_values(self, function: str, value: Any) -> list[Node]:
        """What is written to each channel."""
        count, type_ = self.shape[-1], self._record.type
        if isinstance(value, ArrayBase) and value._depth == 1 or isinstance(value, (list, tuple)) or is_ndarray(value):
            entries = list(value)
        else:
            raise TypeError(f"{function}(): 'value' must be a sequence of channels, found {describe(value)}.")
        if len(entries) != count:
            raise ArgumentError(f"{function}(): 'value' must have an entry for each of the {count} channels, found "
                                f"{len(entries)}.")
        encoded = type_ == _UINT8
        cls = _array_type(self._record, FLOAT32 if encoded else type_, 0)
        nodes = []
        for channel, entry in enumerate(entries):
            try:
                node = coerce(cls, entry, function)[0]
            except (TypeError, ValueError, RuntimeError) as error:
                raise TypeError(f"{function}(): 'value' must have entries that are convertible to {cls._name}: "
                                f"{error}") from None
            nodes.append(_encoded(node, self._srgb and channel % 4 != 3) if encoded else node)
        return nodes

    def _write_number(self, grid: Grid, index: Node, mask: Node, entries: list[Node]) -> None:
        """Write a texel of drjit.scalar."""
        if mask.payload:
            view = self.value()
            for position, entry in zip(grid.positions(index), entries, strict=True):
                view[int(position.payload)] = entry.payload


# --- arguments -------------------------------------------------------------------------------------------------------


@functools.cache
def _array_type(record: Record, type_: int, count: int) -> Any:
    """The array type of the package over a scalar type, with so many components; flat for 0."""
    return lookup(record._replace(type=type_, kind="array", shape=(count,) if count else ()))


@functools.cache
def _matrix_type(record: Record, type_: int, count: int) -> Any:
    return lookup(record._replace(type=type_, kind="matrix", shape=(count, count)))


def _is_wide(pos: Any, kinds: str) -> bool:
    """Whether integer positions of 64 bits stand for a position, or components, of some kinds of numbers."""
    entries = pos if isinstance(pos, (list, tuple)) else (pos,)
    return any(isinstance(entry, ArrayBase) and entry._kind in kinds and
               (entry._kind == "f" or TYPES[entry._type].size == 8) for entry in entries)


def _wrap_modes(function: str, value: Any, count: int) -> tuple[WrapMode, ...]:
    """The modes of the axes, X first."""
    if isinstance(value, WrapMode):
        return (value,) * count
    if not isinstance(value, (list, tuple)) or len(value) != count or not all(isinstance(e, WrapMode) for e in value):
        raise TypeError(f"{function}(): 'wrap_mode' must be a drjit.WrapMode, or a sequence of {count}, found "
                        f"{value!r}.")
    return tuple(reversed(value))


def _border_values(function: str, value: Any, modes: Sequence[WrapMode], channels: int) -> tuple[float, ...] | None:
    if WrapMode.Border not in modes:
        if value is not None:
            raise ArgumentError(f"{function}(): 'border' is for WrapMode.Border, which no axis has.")
        return None
    values = [0.0 if value is None else value] * channels if not isinstance(value, (list, tuple)) else value
    numbers = [plain_scalar(entry) for entry in values]
    if len(numbers) != channels or any(number is None for number in numbers):
        raise ArgumentError(f"{function}(): 'border' must be a number, or one for each of the {channels} channels, "
                            f"found {value!r}.")
    return tuple(float(number) for number in numbers if number is not None)


# --- 8 bits ----------------------------------------------------------------------------------------------------------


@functools.cache
def _table(type_: int, where: int) -> Node:
    """The linear values of sRGB codes (IEC 61966-2-1)."""
    codes = [code / 255 for code in range(256)]
    values = [code / 12.92 if code <= 0.04045 else ((code + 0.055) / 1.055) ** 2.4 for code in codes]
    return import_copy(type_, Numbers(TYPES[type_].code, values), where)


def _encoded(value: Node, srgb: bool) -> Node:
    """A number from 0 to 1 as one of 8 bits, encoded as in IEC 61966-2-1."""
    value = primal(value)
    zero, one = literal(FLOAT32, 0), literal(FLOAT32, 1)
    value = ops.select(ops.gt(value, zero), ops.minimum(value, one), zero)
    if srgb:
        root = core.power(value, literal(FLOAT32, 1 / 2.4))
        curve = ops.fma(root, literal(FLOAT32, 1.055), literal(FLOAT32, -0.055))
        value = ops.select(ops.gt(value, literal(FLOAT32, 0.0031308)), curve, ops.mul(value, literal(FLOAT32, 12.92)))
    return cast(ops.round(ops.mul(value, literal(FLOAT32, 255))), _UINT8)


# --- the classes -----------------------------------------------------------------------------------------------------


def texture(name: str, module: str, record: Record) -> type:
    """The class of textures of a name in the package of a record, whose type is that of the texels."""
    storage = lookup(record._replace(kind="tensor", shape=()))
    return type(name, (TextureBase,), {
        "__slots__": (), "__module__": module, "__qualname__": name, "__doc__": TextureBase.__doc__,
        "_name": f"{module}.{name}", "_record": record, "_dimension": int(name[len("Texture")]), "_storage": storage,
        "_flat": None if record.backend is SCALAR else _array_type(record, record.type, 0)})


links.texture = texture
