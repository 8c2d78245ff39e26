"""What is made of textures: MIP maps, cube maps, Laplacian pyramids to optimise them by, textures from image files, and
lookups like those of PyTorch.

>>> from drjit.llvm import Array2f, TensorXf
>>> checkers = TensorXf([0, 1, 1, 0], (2, 2, 1))
>>> dr.textures.Mipmap(checkers).eval(Array2f(0.25, 0.25), lod=1)
[[0.5]]
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Sequence
from typing import Any

from drjit_core import FilterMode, WrapMode

from ._access.indirect import gather
from ._ad.arrays import grad_enabled
from ._base.arguments import require_bool
from ._base.array import ArrayBase
from ._base.errors import ArgumentError, describe
from ._base.types import FLOAT32, FLOAT64, lookup, reshape, retype
from ._base.values import plain_scalar
from ._control.while_loop import while_loop
from ._functions.creation import arange, zeros
from ._functions.elementwise import abs, ceil, clip, floor, fma, log2, maximum, minimum, round, select, sqrt, trunc
from ._functions.joining import concat
from ._functions.rearrangement import moveaxis
from ._functions.resampling import resample
from ._functions.traits import int32_array_t, is_diff_v, leaf_t, mask_t, uint32_array_t

__all__ = ["CubeMap", "Mipmap", "from_image", "from_laplacian_pyramid", "grid_sample", "laplacian_pyramid"]

_MOST_SAMPLES = 16  #: Of an anisotropic lookup, as in Direct3D 11.3.
#: Pillow's modes of 8 bits a channel, and of more: 16, 16 in 32, and floating-point numbers.
_CHANNELS = "L", "LA", "RGB", "RGBA"
_DEEP = "I;16", "I;16L", "I;16B", "I;16N", "I", "F"


def _image(function: str, name: str, value: Any) -> tuple[int, ...]:
    """The shape of a tensor of rows, columns and channels of floating-point numbers."""
    if not isinstance(value, ArrayBase) or value._depth >= 0 or value._kind != "f":
        raise TypeError(f"{function}(): '{name}' must be a tensor of floating-point numbers, found {describe(value)}.")
    if value.ndim != 3 or 0 in value.shape:
        raise ArgumentError(f"{function}(): '{name}' must have rows, columns and channels, found the shape "
                            f"{value.shape}.")
    return value.shape


def _halves(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of the next level of a pyramid."""
    height, width, channels = shape
    return max(1, height // 2), max(1, width // 2), channels


def _shapes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shapes of all levels of a pyramid."""
    found = [shape]
    while max(found[-1][:2]) > 1:
        found.append(_halves(found[-1]))
    return found


def _positions(function: str, like: Any, count: int, least: int = FLOAT32, /, **values: Any) -> list[Any]:
    """Arguments as positions of so many components, or as numbers, in the precision of the one that has the most, but
    at least of some; of the backend of an array, which passes their derivatives on."""
    types = [least, *[value._type for value in values.values() if isinstance(value, ArrayBase)]]
    kind = retype(leaf_t(like), FLOAT64 if FLOAT64 in types else FLOAT32)
    if count:
        kind = reshape(kind, (count,))
    create: Any = kind
    for name, value in values.items():
        if isinstance(value, ArrayBase) and grad_enabled(value) and not is_diff_v(kind):
            raise TypeError(f"{function}(): '{name}' tracks derivatives ({value._name}), which lookups of "
                            f"{like._name} do not pass on.")
        try:
            values[name] = value if type(value) is kind else create(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"{function}(): '{name}' must be convertible to {describe(kind)}: {error}") from None
    return list(values.values())


def _mask(function: str, pos: Any, active: Any) -> Any:
    """A mask of lookups at positions."""
    kind: Any = mask_t(type(pos.x))
    try:
        return kind(active)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{function}(): 'active' must be a mask, found {describe(active)}: {error}") from None


# --- Laplacian pyramids ----------------------------------------------------------------------------------------------


def laplacian_pyramid(image: Any, levels: int | None = None) -> list[Any]:
    """The Laplacian pyramid of an image: what each resolution adds to the next lower one, the finest first.

    ``image`` is a tensor of rows, columns and channels. Each level is the difference between an image and its lower
    resolution (half as many rows and columns, means over boxes), brought back by linear interpolation; the last one is
    the lowest resolution itself. ``levels`` is their number: by default, until one texel is left.

    To optimise the levels instead of the image, see :func:`from_laplacian_pyramid`, lets a step move whole regions:
    each texel of a coarse level is one parameter of all texels below. Steps then converge in few iterations where
    gradients are noisy or sparse. The decomposition is that of P. Burt and E. Adelson, "The Laplacian Pyramid as a
    Compact Image Code" (1983); doi:10.1145/3730855 is about textures that are optimised so. Differentiable; evaluates
    nothing. Raises a ``TypeError`` for what is no tensor, a ``RuntimeError`` for other shapes.

    >>> from drjit.llvm import TensorXf
    >>> pyramid = dr.textures.laplacian_pyramid(TensorXf([0, 1, 2, 3], (2, 2, 1)))
    >>> [level.array for level in pyramid]
    [[-1.5, -0.5, 0.5, 1.5], [1.5]]
    """
    function = "drjit.textures.laplacian_pyramid"
    shape = _image(function, "image", image)
    most = max(shape[:2]).bit_length()
    count = most if levels is None else plain_scalar(levels)
    if count.__class__ is not int or not 1 <= count <= most:
        raise ArgumentError(f"{function}(): 'levels' must be an int from 1 to {most}, found {levels!r}.")
    found = []
    for _ in range(int(count) - 1):
        lower = resample(image, _halves(image.shape), "box")
        found.append(image - resample(lower, image.shape, "linear"))
        image = lower
    return [*found, image]


def from_laplacian_pyramid(pyramid: Sequence[Any]) -> Any:
    """The image of a Laplacian pyramid: the inverse of :func:`laplacian_pyramid`, up to rounding.

    Differentiable; evaluates nothing. Raises a ``TypeError`` for levels that are no tensors, a ``RuntimeError`` for
    shapes that do not follow upon each other.

    >>> from drjit.llvm import TensorXf
    >>> image = TensorXf([0, 1, 2, 3, 4, 5], (2, 3, 1))
    >>> dr.textures.from_laplacian_pyramid(dr.textures.laplacian_pyramid(image)).array
    [0, 1, 2, 3, 4, 5]
    """
    function = "drjit.textures.from_laplacian_pyramid"
    if not isinstance(pyramid, (list, tuple)) or not pyramid:
        raise TypeError(f"{function}(): 'pyramid' must be a list of one level or more, found {pyramid!r}.")
    shapes = [_image(function, "pyramid", level) for level in pyramid]
    image = pyramid[-1]
    for number in range(len(pyramid) - 2, -1, -1):
        if _halves(shapes[number]) != shapes[number + 1]:
            raise ArgumentError(f"{function}(): 'pyramid' must have levels of half the size each, found the shapes "
                                f"{shapes[number]} and {shapes[number + 1]}.")
        image = pyramid[number] + resample(image, shapes[number], "linear")
    return image


# --- MIP maps --------------------------------------------------------------------------------------------------------


class Mipmap:
    """A texture of two dimensions with all of its lower resolutions, for lookups of areas instead of points.

    ``image`` is a tensor of rows, columns and channels of floating-point numbers. Level 0 is the image, each further
    one has half as many texels along either axis (rounded down, but one at least), which are means over boxes, down to
    a single texel. ``wrap_mode`` is a :class:`drjit.WrapMode`, but for ``Border``. L. Williams, "Pyramidal Parametrics"
    (1983).

    Lookups are differentiable with respect to the image, through all levels, and to positions. A MIP map is a PyTree of
    its levels. Raises a ``TypeError`` for what is no such tensor, a ``RuntimeError`` for other shapes.

    >>> from drjit.llvm import TensorXf
    >>> mipmap = dr.textures.Mipmap(dr.zeros(TensorXf, (4, 6, 3)))
    >>> [level.shape for level in mipmap.levels]
    [(4, 6, 3), (2, 3, 3), (1, 1, 3)]
    """

    __slots__ = ("__weakref__", "_data", "_mode", "_shapes")

    def __init__(self, image: Any, wrap_mode: WrapMode = WrapMode.Clamp) -> None:
        function = "drjit.textures.Mipmap.__init__"
        if wrap_mode not in (WrapMode.Clamp, WrapMode.Repeat, WrapMode.Mirror):
            raise TypeError(f"{function}(): 'wrap_mode' must be WrapMode.Clamp, Repeat or Mirror, found {wrap_mode!r}.")
        self._mode, self._shapes = wrap_mode, _shapes(_image(function, "image", image))
        levels = [image]
        for shape in self._shapes[1:]:
            levels.append(resample(levels[-1], shape, "box"))
        self._data = concat([level.array for level in levels])

    @property
    def levels(self) -> list[Any]:
        """The levels as tensors, the image first.

        >>> from drjit.llvm import TensorXf
        >>> dr.textures.Mipmap(TensorXf([1, 3], (1, 2, 1))).levels[1].array
        [2]
        """
        kind: Any = lookup(self._data._record._replace(kind="tensor", shape=()))
        first, found = 0, []
        for height, width, channels in self._shapes:
            size = height * width * channels
            found.append(kind(self._data[first:first + size], (height, width, channels)))
            first += size
        return found

    def __drjit_children__(self) -> dict[str, Any]:
        # Constructs compare the text: those of different shapes or modes are not merged.
        return {"data": self._data, "options": f"{self._mode.name} {' '.join(map(str, self._shapes[0]))}"}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Any:
        result: Any = type(self).__new__(type(self))
        mode, *shape = children["options"].split()
        result._mode, result._shapes, result._data = WrapMode[mode], _shapes(tuple(map(int, shape))), children["data"]
        return result

    def __repr__(self) -> str:
        return f"Mipmap(shape={self._shapes[0]}, levels={len(self._shapes)}, wrap_mode={self._mode.name})"

    # --- lookups -----------------------------------------------------------------------------------------------------

    def _table(self, values: Sequence[int], level: Any) -> Any:
        """A number for each level."""
        if isinstance(level, int):
            return values[level]
        return gather(type(level), type(level)(values), level)

    def _bilinear(self, pos: Any, level: Any, active: Any) -> list[Any]:
        """Bilinear interpolation within a level for each element."""
        real, whole, channels = type(pos.x), int32_array_t(type(pos.x)), self._shapes[0][2]
        kind = float if isinstance(level, int) else type(self._data)
        starts = [0]
        for height, width, _ in self._shapes[:-1]:
            starts.append(starts[-1] + height * width)
        corners, weights, sizes = [], [], []
        for axis, position in enumerate((pos.x, pos.y)):
            size = self._table([shape[1 - axis] for shape in self._shapes], level)
            scale, mode = real(size), self._mode
            if mode is WrapMode.Repeat:
                position = position - floor(position)
            elif mode is WrapMode.Mirror:
                position = abs(position - 2 * floor(position * 0.5 + 0.5))
            scaled = fma(position, scale, -0.5)
            before = floor(scaled)
            first = whole(before)
            pair = [first, first + 1]
            if mode is WrapMode.Repeat:
                last = whole(size) - 1
                pair = [select(pair[0] < 0, last, pair[0]), select(pair[1] > last, 0, pair[1])]
            corners.append([minimum(maximum(entry, 0), whole(size) - 1) for entry in pair])
            weights.append([1 - (scaled - before), scaled - before])
            sizes.append(size)
        unsigned: Any = type(level)
        total: list[Any] = [real(0)] * channels
        for y, wy in zip(corners[1], weights[1], strict=True):
            row = fma(unsigned(y), sizes[0], self._table(starts, level))
            for x, wx in zip(corners[0], weights[0], strict=True):
                texel, weight = (row + unsigned(x)) * channels, wx * wy
                total = [fma(weight, real(gather(kind, self._data, texel + c, active)), total[c])
                         for c in range(channels)]
        return total

    def _result(self, pos: Any, channels: list[Any], active: Any) -> Any:
        """Channels that were looked up at a position, where that was wanted."""
        count = len(channels)
        kind: Any = reshape(type(pos), (count if count <= 4 else -1,))
        return kind([select(active, value, 0) for value in channels])

    def _trilinear(self, pos: Any, lod: Any, active: Any) -> list[Any]:
        real = type(pos.x)
        last = len(self._shapes) - 1
        lod = clip(lod, 0, last)
        below = trunc(lod)
        level = minimum(uint32_array_t(real)(below), last)  # that of NaN, too
        fraction = lod - below
        fine = self._bilinear(pos, level, active)
        coarse = self._bilinear(pos, minimum(level + 1, last), active)
        return [fma(fraction, c - f, f) for f, c in zip(fine, coarse, strict=True)]

    def eval(self, pos: Any, lod: Any = 0, active: Any = True) -> Any:
        """The MIP map at positions and levels of detail, interpolated within the two levels around and between them.

        ``pos`` is a position (X, Y) from 0 to 1; ``lod`` is 0 for the image, 1 for the next level, and so on; what lies
        beyond is clamped. Zero where ``active`` is not set. Computes in single precision, or in double precision if
        ``pos`` has that. Evaluates nothing. Raises a ``TypeError`` for what does not convert to that.

        >>> from drjit.llvm import Array2f, Float, TensorXf
        >>> mipmap = dr.textures.Mipmap(TensorXf([0, 8], (1, 2, 1)))
        >>> mipmap.eval(Array2f(0.25, 0.5), lod=Float(0, 0.5, 1))
        [[0],
         [2],
         [4]]
        """
        function = "drjit.textures.Mipmap.eval"
        (pos,) = _positions(function, self._data, 2, pos=pos)
        (lod,) = _positions(function, self._data, 0, type(pos)._type, lod=lod)
        active = _mask(function, pos, active)
        return self._result(pos, self._trilinear(pos, lod, active), active)

    def eval_grad(self, pos: Any, ddx: Any, ddy: Any, max_anisotropy: int = 1, active: Any = True) -> Any:
        """The MIP map over the area that a pixel sees: ``ddx`` and ``ddy`` are how much the position changes from one
        pixel to the next, along either axis of the image.

        The level of detail follows from the longer of the two (the functional specification of Direct3D 11.3, 7.18.11).
        With a ``max_anisotropy`` of more than 1, up to 16, it follows from the shorter axis of the area, along the
        longer one of which up to so many lookups are averaged. See :meth:`eval`.

        >>> from drjit.llvm import Array2f, TensorXf
        >>> mipmap = dr.textures.Mipmap(TensorXf([0, 8], (1, 2, 1)))
        >>> mipmap.eval_grad(Array2f(0.25, 0.5), Array2f(1, 0), Array2f(0, 0.01))
        [[4]]
        """
        function = "drjit.textures.Mipmap.eval_grad"
        pos, ddx, ddy = _positions(function, self._data, 2, pos=pos, ddx=ddx, ddy=ddy)
        active = _mask(function, pos, active)
        most = plain_scalar(max_anisotropy)
        if most.__class__ is not int or not 1 <= most <= _MOST_SAMPLES:
            raise ArgumentError(f"{function}(): 'max_anisotropy' must be an int from 1 to {_MOST_SAMPLES}, found "
                                f"{max_anisotropy!r}.")
        height, width, channels = self._shapes[0]
        size, real = type(pos)(width, height), type(pos.x)
        x, y = ddx * size, ddy * size
        longer = maximum(x.x * x.x + x.y * x.y, y.x * y.x + y.y * y.y)
        if most == 1:
            return self._result(pos, self._trilinear(pos, 0.5 * log2(maximum(longer, 1)), active), active)
        along_x = x.x * x.x + x.y * x.y >= y.x * y.x + y.y * y.y
        length, area = sqrt(longer), abs(x.x * y.y - x.y * y.x)
        limited = longer >= most * area  # also where the area is nothing
        ratio = select(limited, real(most), longer / select(limited, 1, area))
        minor = select(limited, length / ratio, area / maximum(length, 1e-20))
        ratio = select(minor < 1, maximum(1, ratio * minor), ratio)
        lod, line = log2(maximum(minor, 1)), select(along_x, ddx, ddy)
        count = clip(ceil(ratio - 1e-4), 1, most)

        def body(k: Any, total: list[Any]) -> tuple[Any, list[Any]]:
            place = pos + line * ((k + 0.5) / count - 0.5)
            return k + 1, [one + two for one, two in zip(total, self._trilinear(place, lod, active), strict=True)]

        _, total = while_loop((zeros(real, 1) + 0 * count, [zeros(real, 1) + 0 * count for _ in range(channels)]),
                              lambda k, total: k < count, body, ("k", "total"), "mipmap", max_iterations=most)
        return self._result(pos, [value / count for value in total], active)


# --- cube maps -------------------------------------------------------------------------------------------------------


def _face_directions(size: int) -> Any:
    """The directions of the texels of all faces, each with a rim of texels that belong to its neighbours."""
    import numpy

    place = (2 * numpy.arange(-1, size + 1) + 1) / size - 1
    v, u = numpy.meshgrid(place, place, indexing="ij")
    one = numpy.ones_like(u)
    return numpy.array([numpy.stack(each, -1) for each in (
        (one, -v, -u), (-one, -v, u), (u, one, v), (u, -one, -v), (u, -v, one), (-u, -v, -one))])


def _sources(size: int) -> Any:
    """Of each texel of the faces with their rims, the three texels that it is the mean of (all the same, but for
    corners, which the three faces around share)."""
    import numpy

    directions = _face_directions(size).reshape(-1, 3)

    def texel(direction: Any) -> Any:
        x, y, z = direction.T
        magnitudes = numpy.abs(direction)
        axis, longest = magnitudes.argmax(1), magnitudes.max(1)
        face = 2 * axis + (direction[numpy.arange(len(axis)), axis] < 0)
        u = numpy.choose(face, [-z, z, x, x, x, -x])
        v = numpy.choose(face, [-y, -y, z, -z, -y, -y])
        column, row = (numpy.clip(((w / longest + 1) / 2 * size).astype(int), 0, size - 1) for w in (u, v))
        return (face * size + row) * size + column

    inside = numpy.sort(numpy.abs(directions), 1)
    corner = inside[:, 1] > 1
    found = numpy.repeat(texel(directions)[None], 3, 0)
    edge = numpy.sign(directions[corner])
    for axis in range(3):  # a little beyond each of the faces that meet there
        moved = edge.copy()
        moved[:, axis] *= 1 + 1e-6
        found[axis, corner] = texel(moved)
    return found.astype(numpy.uint32)


class CubeMap:
    """Six square images on the faces of a cube, looked up by directions.

    ``faces`` is a tensor of six faces of as many rows as columns, and channels of floating-point numbers. They are in
    the order and orientation of Direct3D and OpenGL: +X, -X, +Y, -Y, +Z, -Z. Interpolation is bilinear, and goes on
    across edges; at a corner, the three texels around have equal weights. Lookups are differentiable with respect to
    faces and directions. A cube map is a PyTree. Raises a ``TypeError`` for what is no such tensor, a ``RuntimeError``
    for other shapes.

    >>> from drjit.llvm import Array3f, TensorXf
    >>> faces = TensorXf([1, 2, 3, 4, 5, 6], (6, 1, 1, 1))
    >>> dr.textures.CubeMap(faces).eval(Array3f([1, 0, 1], 0, [0, -2, 1]))
    [[1],
     [6],
     [3]]
    """

    __slots__ = ("__weakref__", "_texture")

    def __init__(self, faces: Any) -> None:
        function = "drjit.textures.CubeMap.__init__"
        if not isinstance(faces, ArrayBase) or faces._depth >= 0 or faces._kind != "f":
            raise TypeError(f"{function}(): 'faces' must be a tensor of floating-point numbers, found "
                            f"{describe(faces)}.")
        shape = faces.shape
        if len(shape) != 4 or shape[0] != 6 or shape[1] != shape[2] or 0 in shape:
            raise ArgumentError(f"{function}(): 'faces' must have the shape (6, n, n, channels), found {shape}.")
        self._set(faces)

    def _set(self, faces: Any) -> None:
        size, channels = faces.shape[1], faces.shape[3]
        real, unsigned = type(faces.array), uint32_array_t(leaf_t(faces))
        sources = _sources(size)
        wide = unsigned(arange(unsigned, sources.shape[1] * channels))
        texel = wide // channels
        channel = wide - texel * channels
        padded = [gather(real, faces.array, gather(unsigned, unsigned(row), texel) * channels + channel)
                  for row in sources]
        kind: Any = type(faces)
        suffix = kind.__name__.removeprefix("TensorX")
        texture: Any = getattr(sys.modules[kind.__module__], f"Texture2{suffix}")
        rows = (padded[0] + padded[1] + padded[2]) / 3
        self._texture = texture(kind(rows, (6 * (size + 2), size + 2, channels)))

    def __drjit_children__(self) -> dict[str, Any]:
        return {"texture": self._texture}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Any:
        result: Any = type(self).__new__(type(self))
        result._texture = children["texture"]
        return result

    def __repr__(self) -> str:
        _, width, channels = self._texture.shape
        return f"CubeMap(shape={(6, width - 2, width - 2, channels)})"

    def eval(self, direction: Any, active: Any = True) -> Any:
        """The cube map in directions, which may be of any length but zero. Zero where ``active`` is not set.

        ``direction`` is a nested array (X, Y, Z), or converts to one. Raises a ``TypeError`` if it does not. Evaluates
        nothing.

        >>> from drjit.llvm import Array3f, TensorXf
        >>> cube = dr.textures.CubeMap(dr.zeros(TensorXf, (6, 4, 4, 3)))
        >>> cube.eval(Array3f(1, 2, 3))
        [[0, 0, 0]]
        """
        function = "drjit.textures.CubeMap.eval"
        (direction,) = _positions(function, self._texture.tensor(), 3, direction=direction)
        active = _mask(function, direction, active)
        x, y, z = direction
        ax, ay, az = abs(x), abs(y), abs(z)
        on_x, on_y = (ax >= ay) & (ax >= az), ay >= az
        real = type(x)
        _, width, _ = self._texture.shape
        size = width - 2
        main = select(on_x, x, select(on_y, y, z))
        positive = main > 0
        u = select(on_x, select(positive, -z, z), select(on_y, x, select(positive, x, -x)))
        v = select(on_x, -y, select(on_y, select(positive, z, -z), -y))
        face = select(on_x, real(0), select(on_y, real(2), real(4))) + select(positive, real(0), real(1))
        scale = 1 / abs(main)
        column = fma(u * scale, size / 2, size / 2 + 1) / (size + 2)
        row = (fma(v * scale, size / 2, size / 2 + 1) + face * (size + 2)) / (6 * (size + 2))
        create: Any = reshape(type(direction), (2,))
        return self._texture.eval(create(column, row), active)


# --- sampling as PyTorch does ----------------------------------------------------------------------------------------


def _padded(place: Any, size: int, padding: str, align: bool) -> Any:
    """A coordinate in texels, brought back into the image."""
    if padding == "reflection":
        low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
        if not span:
            return place * 0
        place = abs(place - low)
        turns = floor(place / span)
        extra = place - turns * span
        odd = turns - 2 * floor(turns * 0.5) > 0.5
        place = select(odd, span - extra, extra) + low
    if padding == "zeros":
        return place
    place = select(place > 0, place, 0)  # also NaN; at the bounds, the derivative is that of what is beyond
    return select(place < size - 1, place, size - 1)


def _cubic(t: Any) -> list[Any]:
    """The weights of PyTorch's bicubic interpolation: Keys' kernel with a = -3/4."""
    a = -0.75

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def grid_sample(input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool = False) -> Any:
    """What ``torch.nn.functional.grid_sample`` returns: images, looked up at the positions that a grid holds.

    ``input`` is a tensor of images, channels, and two or three axes (Y, X or Z, Y, X); ``grid`` one of images, as many
    axes of the output, and positions (X, Y or X, Y, Z) from -1 to 1. The result has images, channels, and the axes of
    the grid. ``mode`` is ``'bilinear'``, ``'nearest'`` or ``'bicubic'`` (of two axes), ``padding_mode`` ``'zeros'``,
    ``'border'`` or ``'reflection'`` (for both of which NaN counts as -1).
    -1 and 1 are the edges of the outermost texels, or with ``align_corners`` their
    centres. Differentiable by both; evaluates nothing. Raises a ``TypeError`` for what are no tensors of floating-point
    numbers of one type, a ``RuntimeError`` for shapes and options that do not go together.

    >>> from drjit.llvm import TensorXf
    >>> image, grid = TensorXf([0, 1, 2, 3], (1, 1, 2, 2)), TensorXf([0, 0, 1, 1], (1, 1, 2, 2))
    >>> dr.textures.grid_sample(image, grid).array
    [1.5, 0.75]
    """
    function = "drjit.textures.grid_sample"
    for name, value in (("input", input), ("grid", grid)):
        if not isinstance(value, ArrayBase) or value._depth >= 0 or value._kind != "f":
            raise TypeError(f"{function}(): '{name}' must be a tensor of floating-point numbers, found "
                            f"{describe(value)}.")
    if type(input) is not type(grid):
        raise TypeError(f"{function}(): 'grid' must have the type of 'input' ({input._name}), found {grid._name}.")
    shape, positions = input.shape, grid.shape
    count = len(shape) - 2
    if count not in (2, 3) or 0 in shape:
        raise ArgumentError(f"{function}(): 'input' must have images, channels and two or three axes, found the shape "
                            f"{shape}.")
    if len(positions) != count + 2 or positions[-1] != count or positions[0] != shape[0]:
        raise ArgumentError(f"{function}(): 'grid' must have {shape[0]} images, {count} axes and {count} components, "
                            f"found the shape {positions}.")
    if mode not in ("bilinear", "nearest", "bicubic") or mode == "bicubic" and count != 2:
        raise ArgumentError(f"{function}(): 'mode' must be 'bilinear', 'nearest', or for two axes 'bicubic', found "
                            f"{mode!r}.")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ArgumentError(f"{function}(): 'padding_mode' must be 'zeros', 'border' or 'reflection', found "
                            f"{padding_mode!r}.")
    require_bool(function, "align_corners", align_corners)
    sizes, width = shape[:1:-1], math.prod(positions[:-1])
    real = type(grid.array)
    whole, unsigned = int32_array_t(real), uint32_array_t(real)
    lanes = arange(unsigned, width)
    taps: list[list[tuple[Any, Any, Any]]] = []  # of each axis: the number of a texel, whether it exists, its weight
    for axis, size in enumerate(sizes):
        place = gather(real, grid.array, lanes * count + axis)
        place = (place + 1) * (0.5 * (size - 1)) if align_corners else ((place + 1) * size - 1) * 0.5
        if mode != "bicubic":
            place = _padded(place, size, padding_mode, align_corners)
        first = round(place) if mode == "nearest" else floor(place)
        weights: list[Any] = [1.0]
        if mode == "bilinear":
            weights = [1 - (place - first), place - first]
        elif mode == "bicubic":
            first, weights = first - 1, _cubic(place - first)
        found = []
        for number, weight in enumerate(weights):
            texel = first + number
            if mode == "bicubic":
                texel = _padded(texel, size, padding_mode, align_corners)
            exists = (texel >= 0) & (texel <= size - 1)
            found.append((unsigned(whole(select(exists, texel, 0))), exists, weight))
        taps.append(found)
    image = lanes // math.prod(positions[1:-1]) * (shape[1] * math.prod(sizes))
    channels: list[Any] = [zeros(real, width)] * shape[1]
    for corner in itertools.product(*taps):
        index, stride, exists, weight = image, 1, True, 1.0
        for (texel, known, factor), size in zip(corner, sizes, strict=True):
            index, stride, exists, weight = index + texel * stride, stride * size, known & exists, factor * weight
        channels = [fma(gather(real, input.array, index + channel * stride, exists), real(weight), total)
                    for channel, total in enumerate(channels)]
    kind: Any = type(input)
    result = kind(concat(channels), (shape[1], *positions[:-1]))
    return moveaxis(result, 0, 1) if shape[0] > 1 else kind(result.array, (1, shape[1], *positions[1:-1]))


# --- image files -----------------------------------------------------------------------------------------------------


def from_image(cls: Any, file: Any, filter_mode: FilterMode = FilterMode.Linear,
               wrap_mode: WrapMode | Sequence[WrapMode] = WrapMode.Clamp, raw: bool = False) -> Any:
    """A texture of the class ``cls`` (of two dimensions) from an image file, or from anything that Pillow opens.

    Textures of 8 bits keep the codes of the file, and decode sRGB colors in lookups; those of floating-point numbers
    hold linear values from 0 to 1, or whatever a file of floating-point numbers has. With ``raw``, values are left as
    they are encoded. Needs Pillow. Raises a ``TypeError`` for other classes, a ``RuntimeError`` for files of more bits
    than the texture, and what Pillow raises for the file.

    >>> import io
    >>> from PIL import Image
    >>> from drjit.llvm import Texture2f
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (3, 2), (255, 0, 0)).save(file, "PNG")
    >>> dr.textures.from_image(Texture2f, file).eval(0.5)
    [[1, 0, 0]]
    """
    import numpy
    from PIL import Image

    function = "drjit.textures.from_image"
    if not getattr(cls, "IsTexture", False) or cls._dimension != 2:
        raise TypeError(f"{function}(): 'cls' must be a texture of two dimensions, such as drjit.llvm.Texture2f, found "
                        f"{describe(cls)}.")
    require_bool(function, "raw", raw)
    with Image.open(file) as image:
        known = image.mode in _CHANNELS or image.mode in _DEEP
        mode = image.mode if known else "RGBA" if "transparency" in image.info else "RGB"
        codes = numpy.asarray(image.convert(mode))
    codes = codes.reshape(*codes.shape[:2], -1)
    colors = codes.shape[2] >= 3
    options = {"filter_mode": filter_mode, "wrap_mode": wrap_mode}
    if cls._storage._kind == "u":
        if mode in _DEEP:
            raise ArgumentError(f"{function}(): 'file' has more than 8 bits a channel (the mode {mode!r}), which "
                                f"{cls._name} does not hold.")
        return cls(codes, srgb=colors and not raw, **options)
    if mode == "F":  # linear, of any range
        return cls(codes, **options)
    values = codes / (65535 if mode in _DEEP else 255)
    if not raw:
        count = values.shape[2] - (values.shape[2] in (2, 4))  # without alpha
        part = values[..., :count]
        values[..., :count] = numpy.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055)**2.4)
    return cls(values, **options)
