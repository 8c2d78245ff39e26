"""What is made of textures: MIP maps, Laplacian pyramids to optimise them by, and textures from image files.

>>> from drjit.llvm import Array2f, TensorXf
>>> checkers = TensorXf([0, 1, 1, 0], (2, 2, 1))
>>> dr.textures.Mipmap(checkers).eval(Array2f(0.25, 0.25), lod=1)
[[0.5]]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drjit_core import FilterMode, WrapMode

from ._access.indirect import gather
from ._base.array import ArrayBase
from ._base.errors import ArgumentError, describe
from ._base.types import FLOAT32, lookup, reshape, retype
from ._base.values import plain_scalar
from ._control.loop import while_loop
from ._functions.creation import zeros
from ._functions.elementwise import abs, ceil, clip, floor, fma, log2, maximum, minimum, select, sqrt, trunc
from ._functions.joining import concat
from ._functions.resampling import resample
from ._functions.traits import int32_array_t, leaf_t, mask_t, uint32_array_t

__all__ = ["Mipmap", "from_image", "from_laplacian_pyramid", "laplacian_pyramid"]

_MOST_SAMPLES = 16  #: Of an anisotropic lookup, as in Direct3D 11.3.


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
        raise TypeError(f"{function}(): 'pyramid' must be a list of levels, found {describe(pyramid)}.")
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
        shapes = [_image(function, "image", image)]
        levels = [image]
        while max(shapes[-1][:2]) > 1:
            shapes.append(_halves(shapes[-1]))
            levels.append(resample(levels[-1], shapes[-1], "box"))
        self._mode, self._shapes = wrap_mode, shapes
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
        return {"data": self._data}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Any:
        result: Any = type(self).__new__(type(self))
        result._mode, result._shapes, result._data = self._mode, self._shapes, children["data"]
        return result

    def __repr__(self) -> str:
        return f"Mipmap(shape={self._shapes[0]}, levels={len(self._shapes)}, wrap_mode={self._mode.name})"

    # --- lookups -----------------------------------------------------------------------------------------------------

    def _position(self, function: str, name: str, value: Any) -> Any:
        kind = reshape(retype(leaf_t(self._data), FLOAT32), (2,))
        create: Any = kind
        try:
            return value if type(value) is kind else create(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"{function}(): '{name}' must be convertible to {kind._name}: {error}") from None

    def _table(self, values: Sequence[int], level: Any) -> Any:
        """A number for each level."""
        return gather(type(level), type(level)(values), level)

    def _bilinear(self, pos: Any, level: Any, active: Any) -> list[Any]:
        """Bilinear interpolation within a level for each element."""
        real, whole, channels = type(pos.x), int32_array_t(type(pos.x)), self._shapes[0][2]
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
                total = [fma(weight, real(gather(type(self._data), self._data, texel + c, active)), total[c])
                         for c in range(channels)]
        return total

    def _result(self, channels: list[Any]) -> Any:
        count = len(channels)
        kind: Any = reshape(type(channels[0]), (count if count <= 4 else -1,))
        return kind(channels)

    def _trilinear(self, pos: Any, lod: Any, active: Any) -> list[Any]:
        real = type(pos.x)
        last = len(self._shapes) - 1
        lod = clip(real(lod), 0, last)
        below = trunc(lod)
        level = uint32_array_t(real)(below)
        fraction = lod - below
        fine = self._bilinear(pos, level, active)
        coarse = self._bilinear(pos, minimum(level + 1, last), active)
        return [fma(fraction, c - f, f) for f, c in zip(fine, coarse, strict=True)]

    def eval(self, pos: Any, lod: Any = 0, active: Any = True) -> Any:
        """The MIP map at positions and levels of detail, interpolated within the two levels around and between them.

        ``pos`` is a position (X, Y) from 0 to 1; ``lod`` is 0 for the image, 1 for the next level, and so on; what lies
        beyond is clamped. Zero where ``active`` is not set. Computes in single precision. Evaluates nothing.

        >>> from drjit.llvm import Array2f, Float, TensorXf
        >>> mipmap = dr.textures.Mipmap(TensorXf([0, 8], (1, 2, 1)))
        >>> mipmap.eval(Array2f(0.25, 0.5), lod=Float(0, 0.5, 1))
        [[0],
         [2],
         [4]]
        """
        pos = self._position("drjit.textures.Mipmap.eval", "pos", pos)
        found = self._trilinear(pos, lod, active)
        return self._result([select(active, value, 0) for value in found])

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
        pos, ddx, ddy = (self._position(function, name, value)
                         for name, value in (("pos", pos), ("ddx", ddx), ("ddy", ddy)))
        most = plain_scalar(max_anisotropy)
        if most.__class__ is not int or not 1 <= most <= _MOST_SAMPLES:
            raise ArgumentError(f"{function}(): 'max_anisotropy' must be an int from 1 to {_MOST_SAMPLES}, found "
                                f"{max_anisotropy!r}.")
        height, width, channels = self._shapes[0]
        size, real = type(pos)(width, height), type(pos.x)
        x, y = ddx * size, ddy * size
        longer = maximum(x.x * x.x + x.y * x.y, y.x * y.x + y.y * y.y)
        if most == 1:
            found = self._trilinear(pos, 0.5 * log2(maximum(longer, 1)), active)
            return self._result([select(active, value, 0) for value in found])
        along_x = x.x * x.x + x.y * x.y >= y.x * y.x + y.y * y.y
        length, area = sqrt(longer), abs(x.x * y.y - x.y * y.x)
        ratio = longer / area
        limited = ~(ratio <= most)  # also where the area is nothing
        ratio = select(limited, real(most), ratio)
        minor = select(limited, length / ratio, area / maximum(length, 1e-20))
        ratio = select(minor < 1, maximum(1, ratio * minor), ratio)
        lod, line = log2(maximum(minor, 1)), select(along_x, ddx, ddy)
        count = clip(ceil(ratio - 1e-4), 1, most)
        mask = mask_t(real)(active)

        def body(k: Any, total: list[Any]) -> tuple[Any, list[Any]]:
            place = pos + line * ((k + 0.5) / count - 0.5)
            return k + 1, [one + two for one, two in zip(total, self._trilinear(place, lod, mask), strict=True)]

        _, total = while_loop((zeros(real, 1) + 0 * count, [zeros(real, 1) + 0 * count for _ in range(channels)]),
                              lambda k, total: k < count, body, ("k", "total"), "mipmap", max_iterations=most)
        return self._result([select(mask, value / count, 0) for value in total])


# --- image files -----------------------------------------------------------------------------------------------------


def from_image(cls: Any, file: Any, filter_mode: FilterMode = FilterMode.Linear,
               wrap_mode: WrapMode | Sequence[WrapMode] = WrapMode.Clamp, raw: bool = False) -> Any:
    """A texture of the class ``cls`` (of two dimensions) from an image file, or from anything that Pillow opens.

    Textures of 8 bits keep the codes of the file, and decode sRGB colors in lookups; those of floating-point numbers
    hold linear values from 0 to 1. With ``raw``, values are left as they are encoded. Needs Pillow. Raises a
    ``TypeError`` for other classes, and what Pillow raises for the file.

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
    with Image.open(file) as image:
        known = image.mode in ("L", "LA", "RGB", "RGBA")
        mode = image.mode if known else "RGBA" if "transparency" in image.info else "RGB"
        codes = numpy.asarray(image.convert(mode))
    codes = codes.reshape(*codes.shape[:2], -1)
    colors = codes.shape[2] >= 3
    options = {"filter_mode": filter_mode, "wrap_mode": wrap_mode}
    if cls._storage._kind == "u":
        return cls(codes, srgb=colors and not raw, **options)
    values = codes / 255
    if not raw:
        count = values.shape[2] - (values.shape[2] in (2, 4))  # without alpha
        part = values[..., :count]
        values[..., :count] = numpy.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055)**2.4)
    return cls(values, **options)
