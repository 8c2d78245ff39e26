"""Encodings of positions by tables of features, which are found by dense indices or hashes."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from drjit_core import (
    BAKED,
    COMPUTES_IN,
    SHARED,
    TRACE,
    TYPES,
    Copy,
    Flow,
    Node,
    ReduceMode,
    ReduceOp,
    apart,
    cast,
    counter,
    current,
    gather,
    limits,
    literal,
    mod,
    ops,
    primal,
    scatter,
    size_of,
    thread_count,
    tracked,
)

from .._access.lanes import TRUE
from .._base.array import ArrayBase
from .._base.errors import SizeError, describe
from .._base.nodes import broadcast
from .._base.types import BOOL, FLOAT64, INT32, UINT32, relative, reshape, retype
from .._base.values import is_ndarray, plain_integer, plain_scalar
from .._functions.states import Place, Stateful
from .._functions.structure import Structure
from .._functions.traits import tensor_t
from .._promotion.promote import wrap
from .._random.generator import Generator
from .._random.generator import rng as new_generator
from .vector import CoopVec
from .views import Packable

__all__ = ["HashEncoding", "HashGridEncoding", "PermutoEncoding"]

#: Factors of the coordinates in hashes of grids, those of tiny-cuda-nn.
_PRIMES = 1, 2654435761, 805459861, 3674653429, 2097192037, 1434869437, 2165219737
#: The multiplier of hashes of permutohedral lattices.
_MULTIPLIER = 2531011
#: How the features of a level lie.
_STORAGES = "hash", "dense", "tiled"
#: Bytes that gradients may take in tables of the threads.
_ALL_TABLES = 1 << 27


_and: Callable[[Node, Node], Node] = ops.and_


class _Level:
    """The numbers of a level."""

    __slots__ = ("entries", "offset", "resolution", "scale", "stride")

    def __init__(self, scale: float, resolution: int, entries: int, offset: int, stride: int) -> None:
        self.scale, self.resolution, self.entries, self.offset = scale, resolution, entries, offset
        self.stride = stride  # entries from one row of vertices to the next; 0: they are found by hashes


def _whole(value: int) -> Node:
    return literal(UINT32, value % (1 << 32), 1, BAKED)


class HashEncoding(Stateful, Packable):
    """Base class of the encodings: levels of increasing resolution, each with a table of features at the vertices of a
    lattice, of which those around a position are interpolated.

    Parameters are a flat array, :attr:`params`, of the scalar type of ``dtype``.  See :class:`HashGridEncoding`.
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"data": object}
    #: Constructs give functions all of it, whatever elements they are called for.
    _dr_shared: ClassVar[bool] = True
    _options: ClassVar[tuple[str, ...]] = (
        "dimension", "hashmap_size", "n_levels", "n_features_per_level", "base_resolution", "per_level_scale",
        "align_corners", "smooth_weight_gradients", "smooth_weight_lambda")
    _title, _torchngp_compat = "HashEncoding", False
    data: Any

    def __init__(self, dtype: Any, dimension: int, *, n_levels: int = 16, n_features_per_level: int = 2,
                 hashmap_size: int = 2**19, base_resolution: int = 16, per_level_scale: float = 2,
                 align_corners: bool = False, smooth_weight_gradients: bool = False,
                 smooth_weight_lambda: float = 1.0, init_scale: float = 0.0001, rng: Generator | None = None,
                 max_resolution: int | None = None, storage: str = "hash") -> None:
        name = f"drjit.nn.{type(self).__name__}"
        if not isinstance(dtype, type) or not issubclass(dtype, ArrayBase) or dtype._kind != "f":
            raise RuntimeError(f"{name}(): 'dtype' must be an array type of floating-point numbers, found "
                               f"{describe(dtype)}.")
        for key, value in (("dimension", dimension), ("n_levels", n_levels), ("base_resolution", base_resolution),
                           ("n_features_per_level", n_features_per_level), ("hashmap_size", hashmap_size)):
            if value.__class__ is not int or value < 1:
                raise ValueError(f"{name}(): {key!r} must be a positive int, found {value!r}.")
        for key, given in (("per_level_scale", per_level_scale), ("init_scale", init_scale),
                           ("smooth_weight_lambda", smooth_weight_lambda)):
            real = _number(given)
            if real is None or not math.isfinite(real) or (real <= 0 and key == "per_level_scale"):
                wanted = "finite positive" if key == "per_level_scale" else "finite"
                raise ValueError(f"{name}(): {key!r} must be a {wanted} number, found {given!r}.")
        if max_resolution is not None:
            if max_resolution.__class__ is not int or max_resolution < base_resolution or n_levels < 2:
                raise ValueError(f"{name}(): 'max_resolution' is an int of at least 'base_resolution', "
                                 f"{base_resolution}, which the last of several levels has, found {max_resolution!r}.")
            per_level_scale = (max_resolution / base_resolution) ** (1 / (n_levels - 1))
        if storage not in _STORAGES:
            raise ValueError(f"{name}(): 'storage' must be one of {', '.join(map(repr, _STORAGES))}, found "
                             f"{storage!r}.")
        if dimension > len(_PRIMES):
            raise ValueError(f"{name}(): 'dimension' must be at most {len(_PRIMES)}, found {dimension}.")
        if n_features_per_level % 2:
            warnings.warn(f"{name}(): the number of features per level should be a multiple of 2, found "
                          f"{n_features_per_level}.", RuntimeWarning, stacklevel=2)
        if hashmap_size % n_features_per_level:
            raise AssertionError(f"{name}(): 'hashmap_size' must be a multiple of the number of features, "
                                 f"{n_features_per_level}, found {hashmap_size}.")
        leaf = dtype._leaf
        self._dtype, self._dimension, self._n_levels = leaf, dimension, n_levels
        self._n_features_per_level, self._hashmap_size = n_features_per_level, hashmap_size
        self._base_resolution, self._per_level_scale = base_resolution, per_level_scale
        self._align_corners, self._init_scale = bool(align_corners), init_scale
        self._smooth_weight_gradients, self._smooth_weight_lambda = bool(smooth_weight_gradients), smooth_weight_lambda
        self._storage, self._interpolation = storage, "linear"
        self._levels: list[_Level] = []
        offset = 0
        for number in range(n_levels):
            last = max_resolution is not None and number == n_levels - 1
            scale = max_resolution - 1. if last else base_resolution * per_level_scale ** number - 1  # type: ignore[operator]
            resolution = math.ceil(scale) + 1
            stride = min(resolution, base_resolution) if storage == "tiled" else resolution
            vertices, features = stride ** dimension, n_features_per_level
            entries = -(-vertices // features) * features
            if storage == "hash":
                entries = min(entries, hashmap_size)
            self._levels.append(_Level(scale, resolution, entries, offset, stride if vertices <= entries else 0))
            offset += entries
        self._entries = offset
        if offset * n_features_per_level >= 1 << 32:
            raise ValueError(f"{name}(): {offset * n_features_per_level} parameters are more than indices of 32 bits "
                             "reach.")
        generator = new_generator() if rng is None else rng
        self.data = generator.uniform(leaf, self.n_params, -init_scale, init_scale)

    @property
    def params(self) -> Any:
        """The parameters: all features of the first entry, of the second one …, level by level. The same object as
        ``data``.

        >>> from drjit.llvm import Float
        >>> dr.nn.HashGridEncoding(Float, 2, n_levels=1, base_resolution=4).params.shape
        (32,)
        """
        return self.data

    @params.setter
    def params(self, value: Any) -> None:
        self.set_params(value)

    def set_params(self, value: Any) -> None:
        """Replace the parameters, by an array of the same type and size (else an ``AssertionError``).

        >>> from drjit.llvm import Float
        >>> enc = dr.nn.HashGridEncoding(Float, 2, n_levels=1, base_resolution=4)
        >>> enc.set_params(dr.zeros(Float, 32))
        """
        if type(value) is not self._dtype or value.shape != (self.n_params,):
            raise AssertionError(f"drjit.nn.{type(self).__name__}: the parameters are {self.n_params} elements of the "
                                 f"type {describe(self._dtype)}, found {describe(value)} of the shape "
                                 f"{getattr(value, 'shape', ())}.")
        self.data = value

    def _state_places(self) -> dict[str, Place]:
        return {"data": Place(self.data, lambda value: setattr(self, "data", value))}

    @property
    def n_params(self) -> int:
        """How many parameters there are.

        >>> from drjit.llvm import Float
        >>> dr.nn.HashGridEncoding(Float, 2, n_levels=1).n_params
        512
        """
        return self._entries * self._n_features_per_level

    @property
    def n_output_features(self) -> int:
        """How many features there are of a position.

        >>> from drjit.llvm import Float
        >>> dr.nn.HashGridEncoding(Float, 2).n_output_features
        32
        """
        return self._n_levels * self._n_features_per_level

    def level_offset(self, level: int) -> int:
        """How many entries the levels before one have.

        >>> from drjit.llvm import Float
        >>> dr.nn.HashGridEncoding(Float, 2).level_offset(1)
        256
        """
        return self._level("level_offset", level).offset

    def level(self, number: int) -> Any:
        """The table of a level: a tensor of entries and features, a copy through which derivatives flow.

        >>> from drjit.llvm import Float
        >>> dr.nn.HashGridEncoding(Float, 2, base_resolution=4).level(0).shape
        (16, 2)
        """
        level, count = self._level("level", number), self._n_features_per_level
        tensor: Any = tensor_t(type(self.data))
        return tensor(self.data, (self._entries, count))[level.offset:level.offset + level.entries]

    def __call__(self, p: Any, active: Any = True, levels: Any = None) -> Any:
        """The features of positions in the unit cube, all of the first level, of the second one …, as an ``ArrayXf``.

        ``p`` has a component for each dimension: a nested array, a sequence of flat arrays, a cooperative vector, or a
        tensor of dimensions and positions; other numbers of them raise an ``AssertionError``. Where ``active`` is
        not set, features are zero, and nothing is read. Arithmetic is in the precision of the position, the result in
        that of the parameters.

        ``levels`` is how many levels count: of a number in between, the last one does by its fraction, and features of
        those behind it are zero. Training that begins with few levels, and lets more come in, finds coarse shapes
        first. In a frozen function it is an array, which may change.

        >>> from drjit.llvm import Array2f, Float
        >>> dr.nn.HashGridEncoding(Float, 2)(Array2f(0.25, 0.5)).shape
        (32, 1)
        """
        nodes = self._position(p)
        mask = self._mask(active)
        sizes = sorted({node.size for node in (*nodes, mask)} - {1})
        if len(sizes) > 1:
            raise SizeError(f"drjit.nn.{type(self).__name__}: the components of positions, and 'active', have "
                            f"different numbers of elements: {' and '.join(map(str, sizes))}.")
        diff = self._dtype._record.diff or any(tracked(node) is not None for node in nodes)
        leaf = relative(self._dtype, self._dtype._record.backend, diff)
        found = self._features(nodes, mask)
        if levels is not None:
            found = [ops.mul(node, self._share(levels, place // self._n_features_per_level, node.type))
                     for place, node in enumerate(found)]
        return wrap(reshape(leaf, (-1,)), found)

    # --- arguments ---------------------------------------------------------------------------------------------------

    def _level(self, function: str, number: Any) -> _Level:
        index = plain_integer(number)
        if index is None or not -self._n_levels <= index < self._n_levels:
            raise IndexError(f"drjit.nn.{type(self).__name__}.{function}(): there is no level {number!r} of "
                             f"{self._n_levels}.")
        return self._levels[index]

    def _position(self, p: Any) -> list[Node]:
        name = f"drjit.nn.{type(self).__name__}"
        if is_ndarray(p):
            if p.ndim not in (1, 2):
                raise AssertionError(f"{name}: positions have {self._dimension} components, found the shape {p.shape}.")
            p = [reshape(self._dtype, ())(row) for row in p] if p.ndim == 2 else [float(x) for x in p]
        if isinstance(p, Sequence | CoopVec):
            entries = list(p)
        elif isinstance(p, ArrayBase) and p._depth:
            array: Any = p
            entries = list(array) if p._depth > 0 else \
                [array[row].array for row in range(p.shape[0])] if p.ndim == 2 else [array.array]
        else:
            entries = [p]
        if len(entries) != self._dimension:
            raise AssertionError(f"{name}: positions have {self._dimension} components, found {len(entries)}.")
        arrays = [entry for entry in entries if isinstance(entry, ArrayBase)]
        leaf = arrays[0]._leaf if arrays else retype(self._dtype, COMPUTES_IN[self._dtype._type])
        if leaf._kind != "f" or any(array._depth or array._type != leaf._type for array in arrays):
            raise TypeError(f"{name}: the components of positions are flat arrays of one type of floating-point "
                            "numbers.")
        return [entry._nodes()[0] if isinstance(entry, ArrayBase) else literal(leaf._type, float(entry))
                for entry in entries]

    @staticmethod
    def _mask(active: Any) -> Node:
        if isinstance(active, ArrayBase):
            if active._kind != "b" or active._depth:
                raise TypeError(f"drjit.nn.HashEncoding: 'active' must be a mask or a bool, found {describe(active)}.")
            return active._nodes()[0]
        return TRUE if active else literal(BOOL, False)

    @staticmethod
    def _share(levels: Any, number: int, type_: int) -> Node:
        """By how much a level counts, of a number of levels."""
        plain = _number(levels)
        if plain is not None and not math.isnan(plain):
            return literal(type_, min(max(plain - number, 0.0), 1.0))
        if not isinstance(levels, ArrayBase) or levels._depth or levels._kind not in "iuf":
            raise TypeError(f"drjit.nn.HashEncoding: 'levels' must be a number or a flat array, found "
                            f"{describe(levels)}.")
        count = cast(levels._nodes()[0], type_)
        none, all_ = literal(type_, 0), literal(type_, 1)
        share: Node = ops.minimum(ops.maximum(ops.sub(count, literal(type_, number)), none), all_)
        return share

    # --- tracing -----------------------------------------------------------------------------------------------------

    def _features(self, position: list[Node], mask: Node) -> list[Node]:
        """Features of all levels."""
        data, result = self.data._nodes()[0], []
        type_ = self._dtype._type
        position = [cast(node, COMPUTES_IN[node.type]) for node in position]
        if self._is_apart(position, mask):
            return self._features_apart(data, position, mask)
        if tracked(data) is not None:
            data = cast(data, COMPUTES_IN[type_])  # so that gradients are added up in this type
        for level in self._levels:
            result += [cast(total, type_) for total in self._interpolated(data, position, mask, level)]
        return result

    def _interpolated(self, data: Node, position: list[Node], mask: Node, level: _Level) -> list[Node]:
        """Features of a level."""
        count, wide = self._n_features_per_level, self._wide(position)
        totals: list[Node] | None = None
        mode = _mode(data.size, wide)  # of additions to gradients
        for index, weight in self._corners(position, level):
            values = [cast(gather(data, ops.add(index, _whole(k)) if k else index, mask, False, mode), wide)
                      for k in range(count)]
            totals = [ops.mul(weight, value) for value in values] if totals is None else \
                [ops.fma(weight, value, total) for value, total in zip(values, totals, strict=True)]
        assert totals is not None
        return totals

    def _wide(self, position: list[Node]) -> int:
        """The type that features are computed in."""
        return FLOAT64 if position[0].type == FLOAT64 else COMPUTES_IN[self._dtype._type]

    def _corners(self, position: list[Node], level: _Level, begin: int | None = None) -> Iterator[tuple[Node, Node]]:
        """Where the features of the vertices around a position are, and their weights; ``begin`` is the first entry of
        the level, if it is not where all levels are."""
        count, wide = self._n_features_per_level, self._wide(position)
        cells, fractions = self._cell(position, level)
        first = literal(UINT32, level.offset if begin is None else begin)
        for corner, weight in self._vertices(cells, fractions):
            yield ops.mul(ops.add(self._index(corner, level), first), _whole(count)), cast(weight, wide)

    # --- level by level ----------------------------------------------------------------------------------------------

    def _is_apart(self, position: list[Node], mask: Node) -> bool:
        """Whether each level is a kernel of its own, whose table stays in the cache."""
        if current().region is not None or any(tracked(node) is not None for node in position):
            return False
        wide = max((*position, mask), key=lambda node: node.size)
        size, numbers = self.n_params * TYPES[self._dtype._type].size, limits(self._dtype._where).tracing
        return self._n_levels > 1 and size > numbers.apart and bool(size_of(wide) >= numbers.apart_width)

    def _features_apart(self, data: Node, position: list[Node], mask: Node) -> list[Node]:
        type_, source, result = self._dtype._type, primal(data), []
        position = [apart(node, SHARED) for node in position]  # all kernels read them
        tracks = tracked(data) is not None
        for number, level in enumerate(self._levels):
            found = [apart(cast(total, type_), number + 1)
                     for total in self._interpolated(source, position, mask, level)]
            if tracks:
                wide = cast(data, COMPUTES_IN[type_])  # so that gradients are added up in this type
                found = Interpolation(self, number, wide, position, mask).attached(found)
            result += found
        return result

    def _cell(self, position: list[Node], level: _Level) -> tuple[list[Node], list[Node]]:
        """The lower corner of the cell that a position is in, and where in the cell it is."""
        cells, fractions = [], []
        for coordinate in position:
            scale = literal(coordinate.type, level.scale)
            at = ops.mul(coordinate, scale) if self._align_corners else \
                ops.fma(coordinate, scale, literal(coordinate.type, 0.5))
            below = ops.floor(primal(at))
            cells.append(cast(cast(below, INT32), UINT32))
            fraction = ops.sub(at, below)
            if self._interpolation == "smoothstep":
                three, two = literal(fraction.type, 3), literal(fraction.type, 2)
                fraction = ops.mul(ops.mul(fraction, fraction), ops.sub(three, ops.mul(two, fraction)))
            fractions.append(fraction)
        return cells, fractions

    def _smoothed(self, weights: Sequence[Node]) -> Node:
        """The product of weights; to its derivative may be added that of a smoother function of it."""
        result = _product(weights)
        if self._smooth_weight_gradients and tracked(result) is not None:
            smooth = _smooth(result)
            factor = literal(result.type, self._smooth_weight_lambda)
            result = ops.add(result, ops.mul(factor, ops.sub(smooth, primal(smooth))))
        return result

    def _index(self, corner: Sequence[Node], level: _Level) -> Node:
        """The entry of a vertex within its level."""
        if level.stride:
            if self._storage == "tiled":
                corner = [mod(coordinate, literal(UINT32, level.stride)) for coordinate in corner]
            index, step = corner[0], 1
            for coordinate in corner[1:]:
                step *= level.stride
                index = ops.add(index, ops.mul(coordinate, literal(UINT32, step % (1 << 32))))
        else:
            index = self._hash(corner)
        entries = level.entries
        return mod(index, literal(UINT32, entries)) if entries & (entries - 1) else _and(index, _whole(entries - 1))

    def _hash(self, corner: Sequence[Node]) -> Node:
        raise NotImplementedError

    def _vertices(self, cells: list[Node], fractions: list[Node]) -> list[tuple[list[Node], Node]]:
        """The vertices around a position, and their weights."""
        raise NotImplementedError

    def _key(self, key: Any) -> tuple[Any, list[Node]]:
        entries = list(key)
        if len(entries) != self._dimension:
            raise AssertionError(f"drjit.nn.{type(self).__name__}: keys have {self._dimension} components, found "
                                 f"{len(entries)}.")
        leaf = retype(self._dtype, UINT32)
        first = next((entry for entry in entries if isinstance(entry, ArrayBase)), None)
        leaf = leaf if first is None else retype(first._leaf, UINT32)
        return leaf, [leaf(entry)._nodes()[0] for entry in entries]

    def hash(self, key: Any) -> Any:
        """The hash of a vertex, whose coordinates are integers: 32 bits.

        >>> from drjit.llvm import Array2u, Float
        >>> dr.nn.HashGridEncoding(Float, 2).hash(Array2u(1, 2))
        [1013904227]
        """
        leaf, nodes = self._key(key)
        return wrap(leaf, [self._hash(nodes)])

    def indexing_function(self, key: Any, level: int) -> Any:
        """The entry of a vertex within a level, whose coordinates are integers.

        >>> from drjit.llvm import Array2u, Float
        >>> dr.nn.HashGridEncoding(Float, 2).indexing_function(Array2u(1, 2), 0)
        [33]
        """
        found = self._level("indexing_function", level)
        leaf, nodes = self._key(key)
        return wrap(leaf, [self._index(nodes, found)])

    # --- PyTrees -----------------------------------------------------------------------------------------------------

    def __drjit_children__(self) -> dict[str, Any]:
        return {"data": [self.data]}  # in a list: it is no array of another package

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Any:
        result = type(self).__new__(type(self))
        result.__dict__.update(self.__dict__)
        result.data = children["data"][0]
        return result

    def _map_parameters(self, visit: Callable[[Any], Any]) -> Any:
        return self  # tables are no matrices: they stay where they are

    def _be_packed(self, packed: bool) -> None:
        pass

    def __repr__(self) -> str:
        shown = ["dtype=" + repr(self._dtype), *(f"{name}={getattr(self, name)}" for name in self._options),
                 *(f"{name}={value!r}" for name, usual in (("storage", "hash"), ("interpolation", "linear"))
                   if (value := getattr(self, name)) != usual)]
        return f"{self._title}(\n    " + ",\n    ".join(shown) + "\n)"


class Interpolation(Structure):
    """The features of a level, which are computed apart: linear in the parameters, which alone have derivatives.

    Gradients are added up in a table of the level, by a kernel of their own.
    """

    name = label = "hash encoding"

    def __init__(self, encoding: HashEncoding, number: int, data: Node, position: list[Node], mask: Node) -> None:
        super().__init__([data])
        self.encoding, self.number = encoding, number
        self.position, self.mask = position, mask

    def nodes(self) -> list[Node]:
        """The values that the derivative needs."""
        return [*self.position, self.mask]

    def moved(self, copy: Copy) -> Structure:
        """A copy of the lookup where other nodes and vertices stand for those that it has kept."""
        new: Any = super().moved(copy)
        new.position, new.mask = [copy.node(node) for node in self.position], copy.node(self.mask)
        return new  # type: ignore[no-any-return]

    def forward(self, flow: Flow) -> None:
        """Let changes of the parameters flow to the features."""
        (change,) = self.changes(flow)
        if change is not None:
            encoding = self.encoding
            source = broadcast(change, self.operands[0].size)
            found = encoding._interpolated(source, self.position, self.mask, encoding._levels[self.number])
            self.sent = {place: cast(node, self.outputs[place][0]) for place, node in enumerate(found)}

    def reverse(self, flow: Flow) -> None:
        """Let gradients flow to the parameters."""
        (vertex,), encoding = self.vertices, self.encoding
        if vertex is None or not flow.takes(vertex):
            return
        level, count, wide = encoding._levels[self.number], encoding._n_features_per_level, vertex.type
        type_, width = self.outputs[0]
        gradients = [cast(self.received.get(place, literal(type_, 0)), wide) for place in range(count)]
        if flow.crosses and flow.part is not None and vertex.id <= flow.limit:
            part = flow.part(width)
            gradients = [ops.select(part, node, literal(wide, 0)) for node in gradients]
        gradients = [apart(node, SHARED) for node in gradients]
        size = level.entries * count
        table: Node = apart(literal(wide, 0, size), self.number + 1)
        mode = _mode(size, wide)
        for index, weight in encoding._corners(self.position, level, 0):
            weight = cast(weight, wide)
            for k, gradient in enumerate(gradients):
                table = scatter(table, ops.mul(weight, gradient), ops.add(index, _whole(k)) if k else index, self.mask,
                                ReduceOp.Add.value, mode)
        place = ops.add(counter(size), literal(UINT32, level.offset * count))
        flow.scatter(vertex, table, place, TRUE, ReduceMode.NoConflicts.value)


def _number(value: Any) -> float | None:
    """An argument as a number, if it is a real one."""
    found = plain_scalar(value)
    return None if found is None or isinstance(found, (bool, complex)) else float(found)


def _mode(size: int, type_: int) -> int:
    """How gradients of so many parameters are added up."""
    tables = thread_count() * size * TYPES[type_].size
    return int((ReduceMode.Expand if tables <= _ALL_TABLES else ReduceMode.Auto).value)


def _product(nodes: Sequence[Node]) -> Node:
    result = nodes[0]
    for node in nodes[1:]:
        result = ops.mul(result, node)
    return result


def _smooth(weight: Node) -> Node:
    """Half of ``1 - cos(pi * weight)``."""
    type_ = weight.type
    half = literal(type_, 0.5)
    result: Node = ops.sub(half, ops.mul(half, TRACE["cos"](ops.mul(weight, literal(type_, math.pi)))))
    return result


class HashGridEncoding(HashEncoding):
    """Features on regular grids, interpolated linearly: the multiresolution hash grid of T. Müller et al., "Instant
    Neural Graphics Primitives with a Multiresolution Hash Encoding" (2022).

    - ``dtype`` is an array type, of whose scalar type parameters and results are; ``dimension`` (up to 7) is that of
      positions.
    - ``n_levels``, ``base_resolution`` and ``per_level_scale``: level ``l`` has the scale ``base_resolution *
      per_level_scale**l - 1``, and one vertex more along each axis (rounded up).
    - ``n_features_per_level`` features belong to each vertex: a multiple of two, or there is a ``RuntimeWarning``.
    - ``hashmap_size`` is the most entries of a level. Levels with no more vertices than that are dense tables, others
      are indexed by hashes.
    - ``align_corners``: positions 0 and 1 are vertices; without it (and with ``torchngp_compat``), positions are moved
      by half a cell.
    - ``smooth_weight_gradients``: derivatives by positions add those with the weights ``(1 - cos(pi * w)) / 2`` in
      place of ``w``, times ``smooth_weight_lambda``; values stay what they are.
    - ``init_scale``: parameters are drawn between ``-init_scale`` and ``init_scale``, by ``rng`` or ``dr.rng()``.
    - ``max_resolution``: that of the last level, in place of ``per_level_scale``.
    - ``interpolation``: ``"linear"``, or ``"smoothstep"``, whose derivative by the position is continuous.
    - ``storage``: ``"hash"``; ``"dense"``, tables of all vertices, however many; or ``"tiled"``, tables of
      ``base_resolution`` vertices along each axis, which are repeated.

    Positions may be negative, and beyond 1: cells are found by rounding down, and indices wrap around.

    Derivatives flow to the parameters and to positions. Those of half precision are summed in single precision.

    >>> from drjit.llvm.ad import Array2f, Float
    >>> enc = dr.nn.HashGridEncoding(Float, 2, n_levels=4)
    >>> dr.enable_grad(enc.params)
    >>> enc(Array2f([0.1, 0.2], 0.5)).shape
    (8, 2)
    """

    _title = "HashGrid"
    _options = (*HashEncoding._options[:7], "torchngp_compat", *HashEncoding._options[7:])

    def __init__(self, dtype: Any, dimension: int, *, n_levels: int = 16, n_features_per_level: int = 2,
                 hashmap_size: int = 2**19, base_resolution: int = 16, per_level_scale: float = 2,
                 align_corners: bool = False, torchngp_compat: bool = False, smooth_weight_gradients: bool = False,
                 smooth_weight_lambda: float = 1.0, init_scale: float = 0.0001, rng: Generator | None = None,
                 max_resolution: int | None = None, interpolation: str = "linear", storage: str = "hash") -> None:
        if interpolation not in ("linear", "smoothstep"):
            raise ValueError("drjit.nn.HashGridEncoding(): 'interpolation' must be 'linear' or 'smoothstep', found "
                             f"{interpolation!r}.")
        super().__init__(
            dtype, dimension, n_levels=n_levels, n_features_per_level=n_features_per_level, hashmap_size=hashmap_size,
            base_resolution=base_resolution, per_level_scale=per_level_scale,
            align_corners=align_corners and not torchngp_compat, smooth_weight_gradients=smooth_weight_gradients,
            smooth_weight_lambda=smooth_weight_lambda, init_scale=init_scale, rng=rng, max_resolution=max_resolution,
            storage=storage)
        self._torchngp_compat, self._interpolation = bool(torchngp_compat), interpolation

    def _hash(self, corner: Sequence[Node]) -> Node:
        result = corner[0]
        for coordinate, prime in zip(corner[1:], _PRIMES[1:], strict=False):
            result = ops.xor(result, ops.mul(coordinate, _whole(prime)))
        return result

    def _vertices(self, cells: list[Node], fractions: list[Node]) -> list[tuple[list[Node], Node]]:
        one = literal(fractions[0].type, 1)
        sides = [(ops.sub(one, fraction), fraction) for fraction in fractions]
        above = [ops.add(cell, _whole(1)) for cell in cells]
        return [([(above if side else cells)[axis] for axis, side in enumerate(corner)],
                 self._smoothed([sides[axis][side] for axis, side in enumerate(corner)]))
                for corner in itertools.product((0, 1), repeat=len(cells))]


class PermutoEncoding(HashEncoding):
    """Features on a permutohedral lattice, as in R. A. Rosu and S. Behnke, "PermutoSDF" (2023), where a position has
    one vertex more around it than dimensions; simplices are found by sorting the fractions within a cell.

    The arguments are those of :class:`HashGridEncoding`, without ``torchngp_compat``.

    >>> from drjit.llvm.ad import Array3f, Float
    >>> dr.nn.PermutoEncoding(Float, 3, n_levels=4)(Array3f(0.1, 0.2, 0.3)).shape
    (8, 1)
    """

    _title = "PermutoEncoding"

    def _hash(self, corner: Sequence[Node]) -> Node:
        result: Node | None = None
        for coordinate in corner:
            total = coordinate if result is None else ops.add(result, coordinate)
            result = ops.mul(total, _whole(_MULTIPLIER))
        assert result is not None
        return result

    def _vertices(self, cells: list[Node], fractions: list[Node]) -> list[tuple[list[Node], Node]]:
        one = literal(fractions[0].type, 1)
        values = [primal(fraction) for fraction in fractions]
        count = len(fractions)
        # the place of each axis in decreasing order of fractions: how many others come before it
        places: list[Node] = []
        before: list[list[Node]] = [[] for _ in range(count)]
        for first in range(count):
            for second in range(first + 1, count):
                leads = ops.ge(values[first], values[second])  # of equal ones, the first axis comes first
                before[second].append(leads)
                before[first].append(ops.lt(values[first], values[second]))
        zero, unit = _whole(0), _whole(1)
        for axis in range(count):
            total = zero
            for leads in before[axis]:
                total = ops.add(total, ops.select(leads, unit, zero))
            places.append(total)
        ordered = []
        for place in range(count):
            value = fractions[0]
            for axis in range(1, count):
                value = ops.select(ops.eq(places[axis], _whole(place)), fractions[axis], value)
            ordered.append(value)
        bounds = [one, *ordered, None]
        found, corner = [], cells
        for vertex in range(count + 1):
            if vertex:
                corner = [ops.add(coordinate, ops.select(ops.eq(places[axis], _whole(vertex - 1)), unit, zero))
                          for axis, coordinate in enumerate(corner)]
            upper, lower = bounds[vertex], bounds[vertex + 1]
            assert upper is not None
            found.append((corner, self._smoothed([upper if lower is None else ops.sub(upper, lower)])))
        return found


def _option(name: str, value: Any) -> property:
    return property(lambda self: getattr(self, f"_{name}"), doc=f"""The argument ``{name}``.

    >>> from drjit.llvm import Float
    >>> dr.nn.HashGridEncoding(Float, 2, n_levels=1).{name}
    {value}
    """)


for _name, _value in (("dtype", "<class 'drjit.llvm.Float'>"), ("dimension", 2), ("hashmap_size", 2**19),
                      ("n_levels", 1), ("n_features_per_level", 2), ("base_resolution", 16), ("per_level_scale", 2),
                      ("align_corners", False), ("smooth_weight_gradients", False), ("smooth_weight_lambda", 1.0),
                      ("init_scale", 0.0001), ("storage", "'hash'"), ("interpolation", "'linear'")):
    setattr(HashEncoding, _name, _option(_name, _value))
HashEncoding.torchngp_compat = _option("torchngp_compat", False)  # type: ignore[attr-defined]
del _name, _value
