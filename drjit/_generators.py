"""Random number generators: ``PCG32`` and ``Philox4x32``, a class of each in every package of array types.

Both are published algorithms, implemented from their papers; :class:`PCG32Base` and :class:`PhiloxBase` name them. The
classes hold arrays, and drawing numbers traces operations on them: nothing is evaluated. In ``drjit.scalar`` a
generator holds Python integers and computes at once. What differs between the two, the arithmetic, is in
:class:`_OnNodes` and :class:`_OnNumbers`; the methods that draw numbers are made from the table :data:`_DRAWS`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, ClassVar

import drjit_core as core
from drjit_core import BAKED, SHAPE, Node, bitcast, cast, counter, literal, ops

from ._array import ArrayBase
from ._errors import CORE_ERRORS, ArgumentError, describe, translate
from ._promote import coerce, plain_scalar, wrap
from ._types import BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, SCALAR, UINT32, UINT64, Record, lookup, require_backend

__all__ = ["PCG32Base", "PhiloxBase", "generator"]

_MASK32, _MASK64 = (1 << 32) - 1, (1 << 64) - 1
_ops: Any = ops
_and, _or = getattr(ops, "and"), getattr(ops, "or")

# M. E. O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number
# Generation" (Harvey Mudd College, HMC-CS-2014-0905), and the reference implementation at pcg-random.org: the generator
# XSH-RR 64/32. Multiplier of the linear congruential generator (Knuth's), its inverse modulo 2^64, default seeds.
_MULTIPLIER = 0x5851F42D4C957F2D
_INVERSE = pow(_MULTIPLIER, -1, 1 << 64)
_STATE, _SEQUENCE = 0x853C49E6748FEA9B, 0xDA3E39CB94B95BDB

# J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011), section
# 3.3: multipliers of a round, and the increments of the key between rounds (golden ratio and sqrt(3) - 1).
_PHILOX_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85

Value = Any  # a node, or a Python number in drjit.scalar


@functools.cache
def _u32(value: int) -> Node:
    return literal(UINT32, value, 1, BAKED)


@functools.cache
def _u64(value: int) -> Node:
    return literal(UINT64, value, 1, BAKED)


@functools.cache
def _float(type_: int, value: float) -> Node:
    return literal(type_, value, 1, BAKED)


def _normal_from_uniform(value: Node, bits: int) -> Node:
    """A standard normal variate by inversion: sqrt(2) * erfinv(2 u - 1), where u has some bits.

    Where u is 0, which would give minus infinity, it is taken to be half of the next value.
    """
    type_ = value.type
    centred = ops.fma(value, _float(type_, 2.0), _float(type_, -1.0))
    inside = ops.maximum(centred, literal(type_, -1 + math.ldexp(1.0, -bits), 1, BAKED))
    return ops.mul(core.erfinv(inside), _float(type_, math.sqrt(2)))


def _box_muller(radius: Node, angle: Node) -> tuple[Node, Node]:
    """Two standard normal variates from two uniform ones.

    G. E. P. Box and M. E. Muller, "A Note on the Generation of Random Normal Deviates" (1958).
    """
    type_ = radius.type
    log = core.log(ops.sub(_float(type_, 1.0), radius))
    length = ops.sqrt(ops.mul(log, _float(type_, -2.0)))
    sine, cosine = core.sincos(ops.mul(angle, _float(type_, 2 * math.pi)))
    return ops.mul(cosine, length), ops.mul(sine, length)


class _OnNodes:
    """The arithmetic of generators that hold arrays."""

    accepts_arrays = True

    @staticmethod
    def value(array: Any) -> Node:
        return array._n  # type: ignore[no-any-return]

    @staticmethod
    def wrapped(kind: Any, node: Node) -> Any:
        return wrap(kind, [node])

    @staticmethod
    def copied(array: Any) -> Any:
        return type(array)(array)

    @staticmethod
    def separated(size: int, *seeds: Node) -> list[Node]:
        """Seeds to which the number of the entry is added."""
        if size == 1:
            return list(seeds)
        position = cast(counter(size), UINT64)
        return [ops.add(seed, position) for seed in seeds]

    @staticmethod
    def odd(sequence: Node) -> Node:
        return _or(ops.shl(sequence, _u64(1)), _u64(1))

    @staticmethod
    def total(a: Node, b: Node) -> Node:
        return ops.add(a, b)

    @staticmethod
    def advance(state: Node, increment: Node) -> Node:
        """The next state of the linear congruential generator."""
        return ops.fma(state, _u64(_MULTIPLIER), increment)

    @staticmethod
    def rewind(state: Node, increment: Node) -> Node:
        """The previous state."""
        return ops.mul(ops.sub(state, increment), _u64(_INVERSE))

    @staticmethod
    def permute(state: Node) -> Node:
        """The output of a state: the highest bits, xorshifted, rotated by the five above (counts are modulo 32)."""
        mixed = cast(ops.shr(ops.xor(ops.shr(state, _u64(18)), state), _u64(27)), UINT32)
        rotation = ops.shr(cast(ops.shr(state, _u64(32)), UINT32), _u32(27))
        return _or(ops.shr(mixed, rotation), ops.shl(mixed, ops.neg(rotation)))

    @staticmethod
    def select(mask: Node, new: Node, old: Node) -> Node:
        return _ops.select(mask, new, old)  # type: ignore[no-any-return]

    @staticmethod
    def join(low: Node, high: Node) -> Node:
        """64 bits from two times 32."""
        return _or(cast(low, UINT64), ops.shl(cast(high, UINT64), _u64(32)))

    @staticmethod
    def uint(bits: Node) -> Node:
        return bits

    @staticmethod
    def float32(bits: Node) -> Node:
        """The upper 23 of 32 bits as a number in [0, 1)."""
        return ops.mul(cast(ops.shr(bits, _u32(9)), FLOAT32), _float(FLOAT32, 2.0**-23))

    @staticmethod
    def float64(bits: Node) -> Node:
        """32 bits, or the upper 52 of 64, as a number in [0, 1)."""
        mantissa = ops.shl(cast(bits, UINT64), _u64(20)) if bits.type == UINT32 else ops.shr(bits, _u64(12))
        return ops.sub(bitcast(_or(mantissa, _u64(0x3FF << 52)), FLOAT64), _float(FLOAT64, 1.0))

    @classmethod
    def float16(cls, bits: Node) -> Node:
        """The number in single precision, rounded, but not up to 1."""
        return ops.minimum(cast(cls.float32(bits), FLOAT16), _float(FLOAT16, 1 - 2.0**-11))

    @classmethod
    def normal32(cls, bits: Node) -> Node:
        return _normal_from_uniform(cls.float32(bits), 23)

    @classmethod
    def normal64(cls, bits: Node) -> Node:
        return _normal_from_uniform(cls.float64(bits), 32)

    @classmethod
    def normal16(cls, bits: Node) -> Node:
        return cast(cls.normal32(bits), FLOAT16)

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
            rejected = _ops.lt(value, literal(type_, threshold))
            pending = rejected if mask is True else _and(rejected, mask)

            def body(variables: list[Node]) -> list[Node]:
                value, new = draw(variables[0])
                return [new, value, _ops.lt(value, literal(type_, threshold))]

            new, value, _ = core.while_loop([new, value, pending], lambda variables: variables[2], body)
        return new, core.mod(value, divisor) if bound > 1 else zero

    @staticmethod
    def jump(state: Node, increment: Node, delta: int) -> Node:
        """The state some steps further. The distance is a parameter of the kernel."""
        factor, summand = _jump(delta)
        return ops.add(ops.mul(state, literal(UINT64, factor, 1, SHAPE, tag=1)),
                       ops.mul(increment, literal(UINT64, summand, 1, SHAPE, tag=2)))

    @staticmethod
    def jump_each(state: Node, increment: Node, delta: Node) -> Node:
        """What :func:`_jump` does, for each entry."""
        zero, one = _u64(0), _u64(1)

        def body(variables: list[Node]) -> list[Node]:
            rest, square, double, factor, summand = variables
            odd = _ops.neq(_and(rest, one), zero)
            return [ops.shr(rest, one), ops.mul(square, square), ops.mul(ops.add(square, one), double),
                    _ops.select(odd, ops.mul(factor, square), factor),
                    _ops.select(odd, ops.add(ops.mul(summand, square), double), summand)]

        found = core.while_loop([bitcast(delta, UINT64), _u64(_MULTIPLIER), increment, one, zero],
                                lambda variables: _ops.neq(variables[0], zero), body)
        return ops.add(ops.mul(state, found[3]), found[4])

    @staticmethod
    def distance(start: Node, end: Node, increment: Node) -> Node:
        """The number of steps from one state to another, bit by bit: ``2**k`` steps decide about bit ``k``."""
        zero, one = _u64(0), _u64(1)

        def body(variables: list[Node]) -> list[Node]:
            state, bit, square, double, found = variables
            differs = _ops.neq(_and(ops.xor(state, end), bit), zero)
            return [_ops.select(differs, ops.add(ops.mul(state, square), double), state), ops.shl(bit, one),
                    ops.mul(square, square), ops.mul(ops.add(square, one), double),
                    _ops.select(differs, _or(found, bit), found)]

        def condition(variables: list[Node]) -> Node:
            return _and(_ops.neq(variables[0], end), _ops.neq(variables[1], zero))

        result = core.while_loop([start, one, _u64(_MULTIPLIER), increment, zero], condition, body)
        return bitcast(result[4], INT64)


class _OnNumbers:
    """The same for generators that hold Python integers."""

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
    def separated(size: int, *seeds: int) -> list[int]:
        return list(seeds)

    @staticmethod
    def odd(sequence: int) -> int:
        return (sequence << 1 | 1) & _MASK64

    @staticmethod
    def total(a: int, b: int) -> int:
        return a + b & _MASK64

    @staticmethod
    def advance(state: int, increment: int) -> int:
        return (state * _MULTIPLIER + increment) & _MASK64

    @staticmethod
    def rewind(state: int, increment: int) -> int:
        return (state - increment) * _INVERSE & _MASK64

    @staticmethod
    def permute(state: int) -> int:
        mixed, rotation = (state >> 18 ^ state) >> 27 & _MASK32, state >> 59
        return (mixed >> rotation | mixed << (-rotation & 31)) & _MASK32

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
        return _OnNodes.float16(literal(UINT32, bits)).payload  # type: ignore[no-any-return]

    @staticmethod
    def normal32(bits: int) -> float:
        return _OnNodes.normal32(literal(UINT32, bits)).payload  # type: ignore[no-any-return]

    @staticmethod
    def normal64(bits: int) -> float:
        return _OnNodes.normal64(literal(UINT32, bits)).payload  # type: ignore[no-any-return]

    @staticmethod
    def normal16(bits: int) -> float:
        return _OnNodes.normal16(literal(UINT32, bits)).payload  # type: ignore[no-any-return]

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
        factor, summand = _jump(delta)
        return (state * factor + increment * summand) & _MASK64

    @staticmethod
    def distance(start: int, end: int, increment: int) -> int:
        square, double, found = _MULTIPLIER, increment, 0
        for bit in range(64):
            if (start ^ end) >> bit & 1:
                start, found = start * square + double & _MASK64, found | 1 << bit
            square, double = square * square & _MASK64, (square + 1) * double & _MASK64
        return found - (found >> 63 << 64)


# --- what both generators share --------------------------------------------------------------------------------------


def _type(record: Record, scalar: int, shape: tuple[int, ...] = ()) -> Any:
    found = lookup(record._replace(type=scalar, shape=shape))
    assert found is not None
    return found


class _Generator:
    """Arguments and results."""

    __slots__ = ()

    #: The record of the package: of its flat arrays.
    _record: ClassVar[Record]
    _name: ClassVar[str]

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
                        f"{_type(self._record, BOOL)._name}, found {describe(mask)}.")

    @classmethod
    def _argument(cls, scalar: int, value: Any, function: str, name: str) -> Any:
        """An integer argument as an array of the package (a Python number in ``drjit.scalar``)."""
        kind = _type(cls._record, scalar)
        integral = value._kind in "iu" if isinstance(value, ArrayBase) else \
            plain_scalar(value).__class__ in (int, bool) or value.__class__ in (list, tuple, range)
        if not integral or isinstance(value, ArrayBase) and value._depth > 0:
            raise TypeError(f"{cls._function(function)}(): '{name}' must be an int or of type {kind._name}, found "
                            f"{describe(value)}.")
        if cls._record.backend is not SCALAR:
            return wrap(kind, coerce(kind, value, cls._function(function)))
        number = plain_scalar(value)
        if number is None or not kind._low <= number <= kind._high:
            raise TypeError(f"{cls._function(function)}(): '{name}' must be an int from {kind._low} to {kind._high}, "
                            f"found {value!r}.")
        return int(number)

    def _precision(self, dtype: Any, name: str) -> str:
        """``'16'``, ``'32'`` or ``'64'``."""
        record = self._record
        if dtype is float and record.backend is SCALAR:
            return "64"
        if isinstance(dtype, type) and issubclass(dtype, ArrayBase) and hasattr(dtype, "_record") and \
                dtype._kind == "f" and dtype._record.backend in (record.backend, SCALAR):
            return {FLOAT16: "16", FLOAT32: "32", FLOAT64: "64"}[dtype._type]
        raise TypeError(f"{self._function(name)}(): 'dtype' must be a floating-point type of the package "
                        f"{self._name.rpartition('.')[0]}, found {dtype!r}.")

    def __copy__(self) -> Any:
        return type(self)(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return type(self)(self)


# --- PCG32 -----------------------------------------------------------------------------------------------------------


def _jump(delta: int) -> tuple[int, int]:
    """Factor and summand that take the state ``delta`` steps further, the latter for an increment of 1.

    F. B. Brown, "Random Number Generation with Arbitrary Strides" (Transactions of the American Nuclear Society, 1994).
    """
    delta &= _MASK64
    factor, summand, square, double = 1, 0, _MULTIPLIER, 1
    while delta:
        if delta & 1:
            factor, summand = factor * square & _MASK64, (summand * square + double) & _MASK64
        double, square = (square + 1) * double & _MASK64, square * square & _MASK64
        delta >>= 1
    return factor, summand


def _draw(name: str, words: int, scalar: int, convert: str, what: str, forward: bool) -> Callable[..., Any]:
    """A method of PCG32 that draws numbers, going forward or backward."""
    method = f"{'next' if forward else 'prev'}_{name}"

    def draw(self: PCG32Base, mask: Any = True) -> Any:
        steps = self._steps
        bits = self._step(mask, forward, method)
        if words == 2:
            other = self._step(mask, forward, method)
            bits = steps.join(bits, other) if forward else steps.join(other, bits)
        return steps.wrapped(self._types[scalar], getattr(steps, convert)(bits))

    draw.__name__, draw.__qualname__ = method, f"PCG32.{method}"
    draw.__doc__ = f"{what[0].upper()}{what[1:]}" + (
        ". Entries that are not set in ``mask`` (a mask or a bool) are drawn, too, but keep their state."
        if forward else ": those that were drawn last. Takes back the state of the entries that are set in ``mask``.")
    return draw


class PCG32Base(_Generator):
    """A stream of pseudorandom numbers per entry: PCG32 (XSH-RR 64/32, period 2^64, 2^63 streams).

    The algorithm is that of M. E. O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms
    for Random Number Generation" (2014, pcg-random.org). Drawing numbers evaluates nothing; evaluate the generator
    now and then (``dr.eval(rng)``; it is a PyTree), lest its state be computed from the start each time.

    ``size`` is the number of streams. ``initstate`` and ``initseq`` are unsigned 64-bit integers, or arrays of such;
    if ``size`` is not 1, the number of the entry is added to both, so that streams differ. Another generator in the
    place of ``size`` is copied. ``drjit.scalar.PCG32`` is a single stream, whatever the size.

    ``rng + n`` and ``rng - n`` are generators that are ``n`` (an int, or an array of 64-bit integers) steps ahead or
    behind; ``rng - other`` is the number of steps from ``other``, if it belongs to the same streams.
    """

    __slots__ = ("__weakref__", "_inc", "_state")

    _steps: ClassVar[Any]
    #: Flat array types of the package by scalar type.
    _types: ClassVar[dict[int, Any]]
    DRJIT_STRUCT: ClassVar[dict[str, type]]

    _state: Any
    _inc: Any

    def __init__(self, size: Any = 1, initstate: Any = _STATE, initseq: Any = _SEQUENCE) -> None:
        require_backend(self._types[UINT64], self._function("__init__"))
        if isinstance(size, type(self)):
            self._state, self._inc = self._steps.copied(size._state), self._steps.copied(size._inc)
            return
        number = plain_scalar(size)
        if number.__class__ is not int or number < 1:
            raise TypeError(f"{self._function('__init__')}(): 'size' must be a positive int, or another generator of "
                            f"this type, found {size!r}.")
        seeds = [self._argument(UINT64, value, "__init__", name)
                 for value, name in ((initstate, "initstate"), (initseq, "initseq"))]
        self._start("__init__", *self._steps.separated(number, *map(self._steps.value, seeds)))

    def seed(self, initstate: Any = _STATE, initseq: Any = _SEQUENCE) -> None:
        """Start again: ``initstate`` determines the state, ``initseq`` the stream (64-bit integers, or arrays)."""
        value = self._steps.value
        self._start("seed", value(self._argument(UINT64, initstate, "seed", "initstate")),
                    value(self._argument(UINT64, initseq, "seed", "initseq")))

    def _start(self, function: str, initial: Value, sequence: Value) -> None:
        steps, kind = self._steps, self._types[UINT64]
        try:
            increment = steps.odd(sequence)
            state = steps.advance(steps.total(increment, initial), increment)
        except CORE_ERRORS as error:
            raise translate(error, self._function(function)) from error
        self._state, self._inc = steps.wrapped(kind, state), steps.wrapped(kind, increment)

    @property
    def state(self) -> Any:
        """State of the streams: unsigned 64-bit integers."""
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        self._state = self._argument(UINT64, value, "state", "state")

    @property
    def inc(self) -> Any:
        """Increments of the streams, which identify them: odd unsigned 64-bit integers."""
        return self._inc

    @inc.setter
    def inc(self, value: Any) -> None:
        self._inc = self._argument(UINT64, value, "inc", "inc")

    # --- traversal, see drjit._pytree --------------------------------------------------------------------------------

    def __drjit_children__(self) -> dict[str, Any]:
        return {"state": self._state, "inc": self._inc}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Any:
        result: Any = type(self).__new__(type(self))
        result._state, result._inc = children["state"], children["inc"]
        return result

    # --- drawing numbers ---------------------------------------------------------------------------------------------

    def _step(self, mask: Any, forward: bool, method: str) -> Value:
        """The output of this state or the previous one, to which the generator moves where the mask is set."""
        steps = self._steps
        if mask is not True:
            mask = self._mask(mask, method)
        state, increment = steps.value(self._state), steps.value(self._inc)
        try:
            new = steps.advance(state, increment) if forward else steps.rewind(state, increment)
            if mask is not True:
                new = steps.select(mask, new, state) if mask is not False else state
            bits = steps.permute(state if forward else new)
        except CORE_ERRORS as error:
            raise translate(error, self._function(method)) from error
        self._state = steps.wrapped(self._types[UINT64], new)
        return bits

    def next_float(self, dtype: Any, mask: Any = True) -> Any:
        """Uniformly distributed floating-point numbers in [0, 1) of the precision of the array type ``dtype``."""
        return getattr(self, f"next_float{self._precision(dtype, 'next_float')}")(mask)

    def prev_float(self, dtype: Any, mask: Any = True) -> Any:
        """What :meth:`next_float` returned last; takes the state back."""
        return getattr(self, f"prev_float{self._precision(dtype, 'prev_float')}")(mask)

    def next_float_normal(self, dtype: Any, mask: Any = True) -> Any:
        """Standard normal variates of the precision of the array type ``dtype``, by inversion."""
        return getattr(self, f"next_float{self._precision(dtype, 'next_float_normal')}_normal")(mask)

    def prev_float_normal(self, dtype: Any, mask: Any = True) -> Any:
        """What :meth:`next_float_normal` returned last; takes the state back."""
        return getattr(self, f"prev_float{self._precision(dtype, 'prev_float_normal')}_normal")(mask)

    def next_uint32_bounded(self, bound: int, mask: Any = True) -> Any:
        """Uniformly distributed integers below ``bound`` (an int from 1 to 2^32 - 1); 0 where ``mask`` is not set.

        Numbers that would favour some results are drawn again, so that streams may be different numbers of steps ahead
        afterwards.
        """
        return self._bounded(bound, mask, 32, "next_uint32_bounded")

    def next_uint64_bounded(self, bound: int, mask: Any = True) -> Any:
        """Uniformly distributed integers below ``bound`` (an int from 1 to 2^64 - 1).

        See :meth:`next_uint32_bounded`.
        """
        return self._bounded(bound, mask, 64, "next_uint64_bounded")

    def _bounded(self, bound: Any, mask: Any, bits: int, method: str) -> Any:
        number = plain_scalar(bound)
        if number.__class__ is not int or not 0 < number < 1 << bits:
            raise TypeError(f"{self._function(method)}(): 'bound' must be an int from 1 to 2**{bits} - 1, found "
                            f"{bound!r}.")
        scalar, state, increment = UINT32 if bits == 32 else UINT64, self._state, self._inc
        mask, steps = self._mask(mask, method), self._steps
        try:
            new, value = steps.bounded(steps.value(state), steps.value(increment), number, mask, bits)
        except CORE_ERRORS as error:
            raise translate(error, self._function(method)) from error
        self._state = steps.wrapped(self._types[UINT64], new)
        return steps.wrapped(self._types[scalar], value)

    # --- jumping -----------------------------------------------------------------------------------------------------

    def _moved(self, other: Any, sign: int, method: str) -> Any:
        """The state some steps ahead or behind; ``NotImplemented`` for what is no number of steps."""
        steps = self._steps
        state, increment = steps.value(self._state), steps.value(self._inc)
        number = plain_scalar(other)
        if number.__class__ in (int, bool):
            if not -1 << 63 <= number < 1 << 64:
                raise ArgumentError(f"{self._function(method)}(): the number of steps {number} is out of range.")
            return steps.wrapped(self._types[UINT64], steps.jump(state, increment, sign * number))
        if not isinstance(other, ArrayBase) or other._kind not in "iu" or other._depth > 0 or \
                not steps.accepts_arrays:
            return NotImplemented
        count = coerce(self._types[INT64], other, self._function(method))[0]
        try:
            moved = steps.jump_each(state, increment, count if sign > 0 else ops.neg(count))
        except CORE_ERRORS as error:
            raise translate(error, self._function(method)) from error
        return steps.wrapped(self._types[UINT64], moved)

    def _with(self, state: Any) -> Any:
        if state is NotImplemented:
            return state
        result = type(self)(self)
        result._state = state
        return result

    def __add__(self, other: Any) -> Any:
        return self._with(self._moved(other, 1, "__add__"))

    def __sub__(self, other: Any) -> Any:
        if not isinstance(other, type(self)):
            return self._with(self._moved(other, -1, "__sub__"))
        steps = self._steps
        value = steps.value
        try:
            distance = steps.distance(value(other._state), value(self._state), value(self._inc))
        except CORE_ERRORS as error:
            raise translate(error, self._function("__sub__")) from error
        return steps.wrapped(self._types[INT64], distance)

    def _move(self, state: Any) -> Any:
        if state is NotImplemented:
            return state
        self._state = state
        return self

    def __iadd__(self, other: Any) -> Any:
        return self._move(self._moved(other, 1, "__iadd__"))

    def __isub__(self, other: Any) -> Any:
        return self._move(self._moved(other, -1, "__isub__"))


#: What PCG32 draws: name, number of 32-bit words, scalar type, conversion, description.
_DRAWS: list[tuple[str, int, int, str, str]] = [
    ("uint32", 1, UINT32, "uint", "uniformly distributed unsigned 32-bit integers"),
    ("uint64", 2, UINT64, "uint", "uniformly distributed unsigned 64-bit integers (two steps)"),
    ("float16", 1, FLOAT16, "float16", "uniformly distributed half precision numbers in [0, 1)"),
    ("float32", 1, FLOAT32, "float32", "uniformly distributed single precision numbers in [0, 1)"),
    ("float64", 1, FLOAT64, "float64", "uniformly distributed double precision numbers in [0, 1), multiples of 2^-32"),
    ("float16_normal", 1, FLOAT16, "normal16", "standard normal variates in half precision, by inversion"),
    ("float32_normal", 1, FLOAT32, "normal32", "standard normal variates in single precision, by inversion"),
    ("float64_normal", 1, FLOAT64, "normal64", "standard normal variates in double precision, by inversion"),
]
for _name, *_row in _DRAWS:
    for _prefix in ("next", "prev"):
        setattr(PCG32Base, f"{_prefix}_{_name}", _draw(_name, *_row, _prefix == "next"))  # type: ignore[call-arg]
del _name, _row, _prefix


# --- Philox4x32 ------------------------------------------------------------------------------------------------------


def _philox_nodes(counters: list[Node], key: tuple[Node, Node], rounds: int) -> list[Node]:
    a, b, c, d = counters
    first, second = key
    factor_a, factor_c = map(_u32, _PHILOX_MULTIPLIERS)
    for number in range(rounds):
        if number:
            first, second = ops.add(first, _u32(_WEYL[0])), ops.add(second, _u32(_WEYL[1]))
        a, b, c, d = (ops.xor(ops.xor(ops.mul_hi(c, factor_c), b), first), ops.mul(c, factor_c),
                      ops.xor(ops.xor(ops.mul_hi(a, factor_a), d), second), ops.mul(a, factor_a))
    return [a, b, c, d]


def _philox_numbers(counters: list[int], key: tuple[int, int], rounds: int) -> list[int]:
    a, b, c, d = counters
    first, second = key
    for number in range(rounds):
        if number:
            first, second = first + _WEYL[0] & _MASK32, second + _WEYL[1] & _MASK32
        product_a, product_c = a * _PHILOX_MULTIPLIERS[0], c * _PHILOX_MULTIPLIERS[1]
        a, b, c, d = (product_c >> 32 ^ b ^ first, product_c & _MASK32,
                      product_a >> 32 ^ d ^ second, product_a & _MASK32)
    return [a, b, c, d]


class PhiloxBase(_Generator):
    """Pseudorandom numbers by encrypting counters: Philox4x32. Each combination of counters is a stream of its own.

    The algorithm is that of J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, "Parallel Random Numbers: As Easy as
    1, 2, 3" (SC 2011). ``seed`` is the key: a 64-bit integer, or an array of such. ``counter_0`` to ``counter_2`` are
    the first three counters, 32-bit integers or arrays of such; the fourth one starts at 0 and counts the calls.
    ``iterations`` is the number of rounds: 7 pass the usual tests of randomness, 10 are the authors' choice to be safe.
    Another generator in the place of ``seed`` is copied.

    Drawing numbers evaluates nothing. Entries that are not set in ``mask`` (a mask or a bool) are drawn, too, but keep
    their counter. Generators are PyTrees.
    """

    __slots__ = ("__weakref__", "_counter", "_iterations", "_seed")

    #: Array types of the package by scalar type and size.
    _arrays: ClassVar[dict[tuple[int, int], Any]]
    _vectorised: ClassVar[bool]

    def __init__(self, seed: Any, counter_0: Any = None, counter_1: Any = 0, counter_2: Any = 0,
                 iterations: int = 7) -> None:
        pair, four = self._arrays[UINT32, 2], self._arrays[UINT32, 4]
        require_backend(four, self._function("__init__"))
        if isinstance(seed, type(self)):
            self._seed, self._counter, self._iterations = pair(seed._seed), four(seed._counter), seed._iterations
            return
        if counter_0 is None:
            raise TypeError(f"{self._function('__init__')}(): missing argument 'counter_0'.")
        key = self._node(UINT64, seed, "seed")
        self._seed = wrap(pair, [cast(ops.shr(key, _u64(32)), UINT32), cast(key, UINT32)])
        counters = [self._node(UINT32, value, f"counter_{k}")
                    for k, value in enumerate((counter_0, counter_1, counter_2))]
        self._counter = wrap(four, [*counters, literal(UINT32, 0)])
        self.iterations = iterations

    def _node(self, scalar: int, value: Any, name: str) -> Node:
        found = self._argument(scalar, value, "__init__", name)
        return found._n if self._vectorised else literal(scalar, found)  # type: ignore[no-any-return]

    @property
    def seed(self) -> Any:
        """The key: upper and lower half of the seed."""
        return self._seed

    @seed.setter
    def seed(self, value: Any) -> None:
        self._seed = self._arrays[UINT32, 2](value)

    @property
    def counter(self) -> Any:
        """The four counters."""
        return self._counter

    @counter.setter
    def counter(self, value: Any) -> None:
        self._counter = self._arrays[UINT32, 4](value)

    @property
    def iterations(self) -> int:
        """The number of rounds."""
        return self._iterations  # type: ignore[no-any-return]

    @iterations.setter
    def iterations(self, value: int) -> None:
        try:
            number = operator.index(value)
        except TypeError:
            number = -1
        if not 0 <= number <= 64:
            raise TypeError(f"{self._function('iterations')}: the number of rounds must be an int from 0 to 64, found "
                            f"{value!r}.")
        self._iterations = number

    # --- traversal, see drjit._pytree --------------------------------------------------------------------------------

    def __drjit_children__(self) -> dict[str, Any]:
        return {"seed": self._seed, "counter": self._counter}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Any:
        result: Any = type(self).__new__(type(self))
        result._seed, result._counter, result._iterations = children["seed"], children["counter"], self._iterations
        return result

    # --- drawing numbers ---------------------------------------------------------------------------------------------

    def _next(self, mask: Any, name: str) -> list[Node]:
        """Four times 32 bits; counts the call where the mask is set."""
        if mask is not True:
            mask = self._mask(mask, name)
        counters = list(self._counter._nodes())
        high, low = self._seed._nodes()
        try:
            if self._vectorised:
                bits = _philox_nodes(counters, (high, low), self._iterations)
            else:
                numbers = _philox_numbers([node.payload for node in counters], (high.payload, low.payload),
                                          self._iterations)
                bits = [literal(UINT32, number) for number in numbers]
            last = ops.add(counters[3], literal(UINT32, 1))
            if mask is not True:
                last = _ops.select(mask, last, counters[3]) if mask is not False else counters[3]
        except CORE_ERRORS as error:
            raise translate(error, self._function(name)) from error
        self._counter = wrap(self._arrays[UINT32, 4], [*counters[:3], last])
        return bits

    def _pairs(self, mask: Any, name: str) -> list[Node]:
        a, b, c, d = self._next(mask, name)
        return [_OnNodes.join(a, b), _OnNodes.join(c, d)]

    def _array(self, scalar: int, nodes: list[Node]) -> Any:
        return wrap(self._arrays[scalar, len(nodes)], nodes)

    def next_uint32x4(self, mask: Any = True) -> Any:
        """Four uniformly distributed unsigned 32-bit integers."""
        return self._array(UINT32, self._next(mask, "next_uint32x4"))

    def next_uint64x2(self, mask: Any = True) -> Any:
        """Two uniformly distributed unsigned 64-bit integers."""
        return self._array(UINT64, self._pairs(mask, "next_uint64x2"))

    def next_float16x4(self, mask: Any = True) -> Any:
        """Four uniformly distributed half precision numbers in [0, 1)."""
        return self._array(FLOAT16, list(map(_OnNodes.float16, self._next(mask, "next_float16x4"))))

    def next_float32x4(self, mask: Any = True) -> Any:
        """Four uniformly distributed single precision numbers in [0, 1)."""
        return self._array(FLOAT32, list(map(_OnNodes.float32, self._next(mask, "next_float32x4"))))

    def next_float64x2(self, mask: Any = True) -> Any:
        """Two uniformly distributed double precision numbers in [0, 1)."""
        return self._array(FLOAT64, list(map(_OnNodes.float64, self._pairs(mask, "next_float64x2"))))

    def next_float16x4_normal(self, mask: Any = True) -> Any:
        """Four standard normal variates in half precision."""
        return self._array(FLOAT16, [cast(node, FLOAT16) for node in self._normals(mask, "next_float16x4_normal")])

    def next_float32x4_normal(self, mask: Any = True) -> Any:
        """Four standard normal variates in single precision."""
        return self._array(FLOAT32, self._normals(mask, "next_float32x4_normal"))

    def _normals(self, mask: Any, name: str) -> list[Node]:
        a, b, c, d = map(_OnNodes.float32, self._next(mask, name))
        return [*_box_muller(c, a), *_box_muller(d, b)]

    def next_float64x2_normal(self, mask: Any = True) -> Any:
        """Two standard normal variates in double precision."""
        first, second = map(_OnNodes.float64, self._pairs(mask, "next_float64x2_normal"))
        return self._array(FLOAT64, list(_box_muller(first, second)))


# --- the classes of the packages -------------------------------------------------------------------------------------

def generator(name: str, module: str, record: Record) -> type:
    """The class of a generator in the package of a record."""
    record = record._replace(kind="array", shape=())
    namespace = {"__slots__": (), "__module__": module, "__qualname__": name, "_name": f"{module}.{name}",
                 "_record": record}
    scalars = (BOOL, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64)
    if name == "PCG32":
        types = {scalar: _type(record, scalar) for scalar in scalars}
        kind: Any = int if record.backend is SCALAR else types[UINT64]
        return type(name, (PCG32Base,), {
            **namespace, "__doc__": PCG32Base.__doc__, "DRJIT_STRUCT": {"state": kind, "inc": kind}, "_types": types,
            "_steps": _OnNumbers if record.backend is SCALAR else _OnNodes})
    arrays = {(scalar, size): _type(record, scalar, (size,)) for scalar in scalars for size in (2, 4)}
    return type(name, (PhiloxBase,), {
        **namespace, "__doc__": PhiloxBase.__doc__, "_arrays": arrays, "_vectorised": record.backend is not SCALAR})
