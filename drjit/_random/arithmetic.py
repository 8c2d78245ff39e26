"""What random number generators are made of: their arithmetic, on nodes and on Python numbers, and their arguments.

In ``drjit.scalar`` a generator holds Python integers and computes at once; elsewhere it holds arrays, and drawing
numbers traces operations on them.  What differs between the two is in :class:`OnNodes` and :class:`OnNumbers`.
"""

from __future__ import annotations

import copy
import copyreg
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, SupportsIndex

import drjit_core as core
from drjit_core import BAKED, SHAPE, Node, bitcast, cast, counter, literal

from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError, describe
from .._base.types import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, SCALAR, UINT32, UINT64, Record, lookup
from .._base.values import plain_scalar
from .._promotion.componentwise import flat_array
from .._promotion.promote import coerce, wrap
from .tracing import INVERSE, MULTIPLIER, advance, permute, rewind, unit_float32

__all__ = ["Generator", "MASK32", "MASK64", "OnNodes", "OnNumbers", "array_type", "box_muller", "jump_constants", "ops",
           "parameter",
           "u32", "u64"]

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1


class _Rows(Protocol):
    """The trace functions, for type checkers."""

    def __getattr__(self, name: str) -> Callable[..., Node]: ...


ops: _Rows = core.ops
_and: Callable[[Node, Node], Node] = ops.and_
_or: Callable[[Node, Node], Node] = ops.or_
#: Version of what pickles hold of a generator.
FORMAT = 1
#: What the names of methods that draw numbers of a type begin with.
_DRAWN = {BFLOAT16: "bfloat16", FLOAT16: "float16", FLOAT32: "float32", FLOAT64: "float64"}

Value = Any  # a node, or a Python number in drjit.scalar


@functools.cache
def u32(value: int) -> Node:
    """A 32-bit constant that is part of the program."""
    return literal(UINT32, value, 1, BAKED)


@functools.cache
def u64(value: int) -> Node:
    """A 64-bit constant that is part of the program."""
    return literal(UINT64, value, 1, BAKED)


def parameter(word: int, tag: int) -> Node:
    """A word that is a parameter of kernels, whatever its value; those of different meanings have different tags."""
    return literal(UINT32, word, 1, SHAPE, tag=tag)


@functools.cache
def _float(type_: int, value: float) -> Node:
    return literal(type_, value, 1, BAKED)


def normal_from_uniform(value: Node, bits: int) -> Node:
    """A standard normal variate by inversion: sqrt(2) * erfinv(2 u - 1), where u has some bits.

    Where u is 0, which would give minus infinity, it is taken to be half of the next value.
    """
    type_ = value.type
    centred = ops.fma(value, _float(type_, 2.0), _float(type_, -1.0))
    inside = ops.maximum(centred, literal(type_, -1 + math.ldexp(1.0, -bits), 1, BAKED))
    return ops.mul(core.erfinv(inside), _float(type_, math.sqrt(2)))


def box_muller(radius: Node, angle: Node) -> tuple[Node, Node]:
    """Two standard normal variates from two uniform ones.

    G. E. P. Box and M. E. Muller, "A Note on the Generation of Random Normal Deviates" (1958).
    """
    type_ = radius.type
    log = core.log(ops.sub(_float(type_, 1.0), radius))
    length = ops.sqrt(ops.mul(log, _float(type_, -2.0)))
    sine, cosine = core.sincos(ops.mul(angle, _float(type_, 2 * math.pi)))
    return ops.mul(cosine, length), ops.mul(sine, length)


class OnNodes:
    """The arithmetic of generators that hold arrays."""

    accepts_arrays = True

    @staticmethod
    def value(array: Any) -> Node:
        return array._n  # type: ignore[no-any-return]

    wrapped = staticmethod(flat_array)

    @staticmethod
    def copied(array: Any) -> Any:
        return type(array)(array)

    @staticmethod
    def separated(kind: Any, size: int, *seeds: Node) -> list[Node]:
        """Seeds of a type of arrays, to which the number of the entry is added."""
        if size == 1:
            return list(seeds)
        position = cast(counter(size, UINT32, kind._where), UINT64)
        return [ops.add(seed, position) for seed in seeds]

    @staticmethod
    def odd(sequence: Node) -> Node:
        return _or(ops.shl(sequence, u64(1)), u64(1))

    @staticmethod
    def total(a: Node, b: Node) -> Node:
        return ops.add(a, b)

    advance = staticmethod(advance)
    rewind = staticmethod(rewind)
    permute = staticmethod(permute)
    float32 = staticmethod(unit_float32)

    @staticmethod
    def select(mask: Node, new: Node, old: Node) -> Node:
        return ops.select(mask, new, old)

    @staticmethod
    def join(low: Node, high: Node) -> Node:
        """64 bits from two times 32."""
        return _or(cast(low, UINT64), ops.shl(cast(high, UINT64), u64(32)))

    @staticmethod
    def uint(bits: Node) -> Node:
        return bits

    @staticmethod
    def float64(bits: Node) -> Node:
        """32 bits, or the upper 52 of 64, as a number in [0, 1)."""
        mantissa = ops.shl(cast(bits, UINT64), u64(20)) if bits.type == UINT32 else ops.shr(bits, u64(12))
        return ops.sub(bitcast(_or(mantissa, u64(0x3FF << 52)), FLOAT64), _float(FLOAT64, 1.0))

    @classmethod
    def rounded(cls, bits: Node, type_: int) -> Node:
        """The number in single precision, rounded to fewer bits, but not up to 1."""
        return ops.minimum(cast(cls.float32(bits), type_), _float(type_, 1 - 2.0**-{FLOAT16: 11, BFLOAT16: 8}[type_]))

    @classmethod
    def float16(cls, bits: Node) -> Node:
        return cls.rounded(bits, FLOAT16)

    @classmethod
    def bfloat16(cls, bits: Node) -> Node:
        return cls.rounded(bits, BFLOAT16)

    @classmethod
    def normal32(cls, bits: Node) -> Node:
        return normal_from_uniform(cls.float32(bits), 23)

    @classmethod
    def normal64(cls, bits: Node) -> Node:
        return normal_from_uniform(cls.float64(bits), 32)

    @classmethod
    def normal16(cls, bits: Node) -> Node:
        return cast(cls.normal32(bits), FLOAT16)

    @classmethod
    def normalb16(cls, bits: Node) -> Node:
        return cast(cls.normal32(bits), BFLOAT16)

    @classmethod
    def bounded(cls, state: Node, increment: Node, bound: int, mask: Any, bits: int) -> tuple[Node, Node]:
        """The next state and numbers below a bound. Draws until the number is at least ``2**bits % bound``."""
        type_ = UINT32 if bits == 32 else UINT64
        divisor, zero = literal(type_, bound), literal(type_, 0, core.broadcast_size("bounded", state, increment))
        threshold = (1 << bits) % bound

        def draw(state: Node) -> tuple[Node, Node]:
            value, state = cls.permute(state), cls.advance(state, increment)
            if bits == 64:
                value, state = cls.join(value, cls.permute(state)), cls.advance(state, increment)
            return value, state

        if mask is False:
            return state, zero
        value, new = draw(state)
        if mask is not True:
            value, new = cls.select(mask, value, zero), cls.select(mask, new, state)
        if threshold:  # few are drawn again
            rejected = ops.lt(value, literal(type_, threshold))
            pending = rejected if mask is True else _and(rejected, mask)

            def body(variables: list[Node]) -> list[Node]:
                value, new = draw(variables[0])
                return [new, value, ops.lt(value, literal(type_, threshold))]

            new, value, _ = core.while_loop([new, value, pending], lambda variables: variables[2], body, trips=64)
        return new, core.mod(value, divisor) if bound > 1 else zero

    @staticmethod
    def jump(state: Node, increment: Node, delta: int) -> Node:
        """The state some steps further. The distance is a parameter of the kernel."""
        factor, summand = jump_constants(delta)
        return ops.add(ops.mul(state, literal(UINT64, factor, 1, SHAPE, tag=1)),
                       ops.mul(increment, literal(UINT64, summand, 1, SHAPE, tag=2)))

    @staticmethod
    def jump_each(state: Node, increment: Node, delta: Node) -> Node:
        """What :func:`jump_constants` does, for each entry."""
        zero, one = u64(0), u64(1)

        def body(variables: list[Node]) -> list[Node]:
            rest, square, double, factor, summand = variables
            odd = ops.neq(_and(rest, one), zero)
            return [ops.shr(rest, one), ops.mul(square, square), ops.mul(ops.add(square, one), double),
                    ops.select(odd, ops.mul(factor, square), factor),
                    ops.select(odd, ops.add(ops.mul(summand, square), double), summand)]

        found = core.while_loop([bitcast(delta, UINT64), u64(MULTIPLIER), increment, one, zero],
                                lambda variables: ops.neq(variables[0], zero), body, trips=64)
        return ops.add(ops.mul(state, found[3]), found[4])

    @staticmethod
    def distance(start: Node, end: Node, increment: Node) -> Node:
        """The number of steps from one state to another, bit by bit: ``2**k`` steps decide about bit ``k``."""
        zero, one = u64(0), u64(1)

        def body(variables: list[Node]) -> list[Node]:
            state, bit, square, double, found = variables
            differs = ops.neq(_and(ops.xor(state, end), bit), zero)
            return [ops.select(differs, ops.add(ops.mul(state, square), double), state), ops.shl(bit, one),
                    ops.mul(square, square), ops.mul(ops.add(square, one), double),
                    ops.select(differs, _or(found, bit), found)]

        def condition(variables: list[Node]) -> Node:
            return _and(ops.neq(variables[0], end), ops.neq(variables[1], zero))

        result = core.while_loop([start, one, u64(MULTIPLIER), increment, zero], condition, body, trips=64)
        return bitcast(result[4], INT64)


class OnNumbers:
    """The arithmetic of generators that hold Python integers."""

    accepts_arrays = False

    @staticmethod
    def value(number: int) -> int:
        return number

    @staticmethod
    def wrapped(kind: Any, number: int | float) -> int | float:
        return number

    @staticmethod
    def copied(number: int) -> int:
        return number

    @staticmethod
    def separated(kind: Any, size: int, *seeds: int) -> list[int]:
        return list(seeds)

    @staticmethod
    def odd(sequence: int) -> int:
        return (sequence << 1 | 1) & MASK64

    @staticmethod
    def total(a: int, b: int) -> int:
        return a + b & MASK64

    @staticmethod
    def advance(state: int, increment: int) -> int:
        return (state * MULTIPLIER + increment) & MASK64

    @staticmethod
    def rewind(state: int, increment: int) -> int:
        return (state - increment) * INVERSE & MASK64

    @staticmethod
    def permute(state: int) -> int:
        mixed, rotation = (state >> 18 ^ state) >> 27 & MASK32, state >> 59
        return (mixed >> rotation | mixed << (-rotation & 31)) & MASK32

    @staticmethod
    def select(mask: bool, new: int, old: int) -> int:
        return new if mask else old

    @staticmethod
    def join(low: int, high: int) -> int:
        return low | high << 32

    @staticmethod
    def uint(bits: int) -> int:
        return bits

    @staticmethod
    def float32(bits: int) -> float:
        return (bits >> 9) * 2.0**-23

    @staticmethod
    def float64(bits: int) -> float:
        return bits * 2.0**-32

    @staticmethod
    def float16(bits: int) -> float:
        return OnNodes.float16(literal(UINT32, bits)).payload  # type: ignore[no-any-return]

    @staticmethod
    def bfloat16(bits: int) -> float:
        return OnNodes.bfloat16(literal(UINT32, bits)).payload  # type: ignore[no-any-return]

    @staticmethod
    def normal32(bits: int) -> float:
        return OnNodes.normal32(literal(UINT32, bits)).payload  # type: ignore[no-any-return]

    @staticmethod
    def normal64(bits: int) -> float:
        return OnNodes.normal64(literal(UINT32, bits)).payload  # type: ignore[no-any-return]

    @staticmethod
    def normal16(bits: int) -> float:
        return OnNodes.normal16(literal(UINT32, bits)).payload  # type: ignore[no-any-return]

    @staticmethod
    def normalb16(bits: int) -> float:
        return OnNodes.normalb16(literal(UINT32, bits)).payload  # type: ignore[no-any-return]

    @classmethod
    def bounded(cls, state: int, increment: int, bound: int, mask: bool, bits: int) -> tuple[int, int]:
        threshold = (1 << bits) % bound
        while mask:
            value, state = cls.permute(state), cls.advance(state, increment)
            if bits == 64:
                value, state = cls.join(value, cls.permute(state)), cls.advance(state, increment)
            if value >= threshold:
                return state, value % bound
        return state, 0

    @staticmethod
    def jump(state: int, increment: int, delta: int) -> int:
        factor, summand = jump_constants(delta)
        return (state * factor + increment * summand) & MASK64

    @staticmethod
    def distance(start: int, end: int, increment: int) -> int:
        square, double, found = MULTIPLIER, increment, 0
        for bit in range(64):
            if (start ^ end) >> bit & 1:
                start, found = start * square + double & MASK64, found | 1 << bit
            square, double = square * square & MASK64, (square + 1) * double & MASK64
        return found - (found >> 63 << 64)


def jump_constants(delta: int) -> tuple[int, int]:
    """Factor and summand that take the state ``delta`` steps further, the latter for an increment of 1.

    F. B. Brown, "Random Number Generation with Arbitrary Strides" (Transactions of the American Nuclear Society, 1994).
    """
    delta &= MASK64
    factor, summand, square, double = 1, 0, MULTIPLIER, 1
    while delta:
        if delta & 1:
            factor, summand = factor * square & MASK64, (summand * square + double) & MASK64
        double, square = (square + 1) * double & MASK64, square * square & MASK64
        delta >>= 1
    return factor, summand


def array_type(record: Record, scalar: int, shape: tuple[int, ...] = ()) -> Any:
    found = lookup(record._replace(type=scalar, shape=shape))
    assert found is not None
    return found


class Generator:
    """Arguments and results."""

    __slots__ = ()

    #: The record of the package: of its flat arrays.
    _record: ClassVar[Record]
    _name: ClassVar[str]
    #: What a generator consists of, by public name: arrays (numbers in ``drjit.scalar``) and settings.
    _fields: ClassVar[tuple[str, ...]]
    #: The attributes that hold arrays, in the order of its children. It is a value: nobody else knows these arrays, and
    #: it exchanges them instead of changing them.
    _dr_value: ClassVar[tuple[str, ...]]

    @classmethod
    def _function(cls, name: str) -> str:
        return f"{cls._name}.{name}"

    def _mask(self, mask: Any, name: str) -> Any:
        """``True``, ``False`` or a node."""
        if mask is True or mask is False:
            return mask
        if isinstance(mask, ArrayBase) and mask._kind == "b" and not mask._depth and mask._dynamic and \
                mask._record.backend is self._record.backend:
            node = mask._nodes()[0]
            return bool(node.payload) if node.kind == core.KIND["literal"] and node.size == 1 else node
        number = plain_scalar(mask)
        if number.__class__ is bool:
            return number
        raise TypeError(f"{self._function(name)}(): 'mask' must be a bool or of type "
                        f"{array_type(self._record, BOOL)._name}, found {describe(mask)}.")

    @classmethod
    def _argument(cls, scalar: int, value: Any, function: str, name: str) -> Any:
        """An integer argument as an array of the package (a Python number in ``drjit.scalar``)."""
        kind = array_type(cls._record, scalar)
        integral = value._kind in "iu" if isinstance(value, ArrayBase) else \
            plain_scalar(value).__class__ in (int, bool) or value.__class__ in (list, tuple, range)
        if not integral or isinstance(value, ArrayBase) and value._depth > 0:
            raise TypeError(f"{cls._function(function)}(): '{name}' must be an int or of type {kind._name}, found "
                            f"{describe(value)}.")
        number = plain_scalar(value)
        if number is not None and not kind._low <= number <= kind._high or \
                number is None and cls._record.backend is SCALAR:
            found = repr(value) if number is not None else describe(value)
            raise ArgumentError(f"{cls._function(function)}(): '{name}' must be an int from {kind._low} to "
                                f"{kind._high}, found {found}.")
        if cls._record.backend is SCALAR:
            return int(number)
        try:
            return wrap(kind, coerce(kind, value, cls._function(function)))
        except ArgumentError as error:
            raise ArgumentError(str(error).replace("convert an argument", f"convert the argument '{name}'", 1)) \
                from None

    @classmethod
    def _require_sizes(cls, function: str, size: int, **nodes: Any) -> None:
        """Refuse arguments, by their names, that have neither one element nor as many as the first one of another
        size; or as ``size``, if that is not 1."""
        owner = "'size'"
        for name, node in nodes.items():
            found = getattr(node, "size", 1)  # a number in drjit.scalar
            if found != 1 and size not in (1, found):
                have = f"{owner} is {size}" if owner == "'size'" else f"{owner} has {size}"
                raise SizeError(f"{cls._function(function)}(): '{name}' has {found} elements, but {have}.")
            if found != 1 and size == 1:
                owner, size = f"'{name}'", found

    def _precision(self, dtype: Any, name: str) -> str:
        """How the methods for a floating-point type are called, such as ``'float32'``."""
        record = self._record
        if dtype is float and record.backend is SCALAR:
            return "float64"
        if isinstance(dtype, type) and issubclass(dtype, ArrayBase) and hasattr(dtype, "_record") and \
                dtype._type in _DRAWN and dtype._record.backend in (record.backend, SCALAR):
            return _DRAWN[dtype._type]
        raise TypeError(f"{self._function(name)}(): 'dtype' must be a floating-point type of the package "
                        f"{self._name.rpartition('.')[0]}, found {dtype!r}.")

    # --- copies, by value --------------------------------------------------------------------------------------------

    def _another(self) -> Any:
        """An object of this class, with what attributes those of derived classes have besides."""
        result: Any = type(self).__new__(type(self))
        attributes = getattr(self, "__dict__", None)
        if attributes:
            result.__dict__.update(attributes)
        return result

    def __copy__(self) -> Any:
        cls: Any = type(self)
        return cls(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        result: Any = type(self).__new__(type(self))
        for name in self._fields:
            setattr(result, f"_{name}", copy.deepcopy(getattr(self, f"_{name}"), memo))
        return result

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        state = {"format": FORMAT, **{name: getattr(self, f"_{name}") for name in self._fields}}
        return copyreg.__newobj__, (type(self),), state  # type: ignore[attr-defined]

    def __setstate__(self, state: Any) -> None:
        form = state.get("format") if isinstance(state, dict) else None
        if form != FORMAT:
            found = "none at all" if form is None else f"{form!r}"
            raise ValueError(f"{self._name}: cannot restore this generator: its pickle has a format that this version "
                             f"of the package does not know (expected {FORMAT}, found {found}).")
        for name in self._fields:
            setattr(self, f"_{name}", state[name])
