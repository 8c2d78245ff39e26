"""The generator PCG32; the methods that draw numbers are made from the table :data:`_DRAWS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from drjit_core import ops

from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, translate
from .._base.types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT64, UINT32, UINT64, require_backend
from .._base.values import plain_scalar
from .._promotion.promote import coerce
from .arithmetic import Generator, OnNodes
from .tracing import draw as draw_word

__all__ = ["PCG32Base"]

#: Default seeds, those of the reference implementation at pcg-random.org.
_STATE, _SEQUENCE = 0x853C49E6748FEA9B, 0xDA3E39CB94B95BDB
Value = Any  # a node, or a Python number in drjit.scalar


def _draw(name: str, words: int, scalar: int, convert: str, what: str, shown: str,
          forward: bool) -> Callable[..., Any]:
    """A method of PCG32 that draws numbers, going forward or backward."""
    method = f"{'next' if forward else 'prev'}_{name}"

    plain = forward and convert in ("uint", "float32") and words == 1

    def draw(self: PCG32Base, mask: Any = True) -> Any:
        steps = self._steps
        if plain and mask is True and steps is OnNodes:
            types = self._types
            try:
                return draw_word(self, types[UINT64], types[scalar], scalar == FLOAT32)
            except CORE_ERRORS as error:
                raise translate(error, self._function(method)) from None
        bits = self._step(mask, forward, method)
        if words == 2:
            other = self._step(mask, forward, method)
            bits = steps.join(bits, other) if forward else steps.join(other, bits)
        return steps.wrapped(self._types[scalar], getattr(steps, convert)(bits))

    draw.__name__, draw.__qualname__ = method, f"PCG32.{method}"
    if forward:
        text = (f"{what}. Entries that are not set in ``mask`` (a mask or a bool) are drawn, too, but keep their "
                f"state.\n\n"
                f">>> from drjit.llvm import PCG32\n>>> PCG32(size=2).{method}()\n{shown}")
    else:
        text = (f"{what}: those that were drawn last. Takes back the state of the entries that are set in ``mask``.\n\n"
                f">>> from drjit.llvm import PCG32\n>>> rng = PCG32(size=2)\n>>> x = rng.next_{name}()\n"
                f">>> dr.all(rng.{method}() == x)\n[True]")
    draw.__doc__ = text[0].upper() + text[1:] + "\n"
    return draw


class PCG32Base(Generator):
    """A stream of pseudorandom numbers per entry: PCG32 (XSH-RR 64/32, period 2^64, 2^63 streams).

    The algorithm is that of M. E. O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms
    for Random Number Generation" (2014, pcg-random.org). Drawing numbers evaluates nothing; evaluate the generator now
    and then (``dr.eval(rng)``; it is a PyTree), lest its state be computed from the start each time.

    ``size`` is the number of streams. ``initstate`` and ``initseq`` are unsigned 64-bit integers, or arrays of such; if
    ``size`` is not 1, the number of the entry is added to both, so that streams differ. Another generator in the place
    of ``size`` is copied. ``drjit.scalar.PCG32`` is a single stream, whatever the size. Raises a ``TypeError`` for
    other arguments.

    ``rng + n`` and ``rng - n`` are generators that are ``n`` (an int, or an array of 64-bit integers) steps ahead or
    behind; ``rng - other`` is the number of steps from ``other``, if it belongs to the same streams.

    >>> from drjit.llvm import PCG32
    >>> rng = PCG32(size=3)
    >>> rng.next_float32()
    [0.108379, 0.533909, 0.00684452]
    >>> rng.next_float32()
    [0.90696, 0.325773, 0.479291]
    >>> (rng - 2).next_float32()
    [0.108379, 0.533909, 0.00684452]
    """

    __slots__ = ("__weakref__", "_inc", "_state")
    _fields = ("state", "inc")
    _dr_value = "_state", "_inc"

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
        if number.__class__ is not int or number < (0 if self._steps.accepts_arrays else 1):
            which = "an int that is not negative" if self._steps.accepts_arrays else "a positive int"
            raise TypeError(f"{self._function('__init__')}(): 'size' must be {which}, or another generator of this "
                            f"type, found {size!r}.")
        seeds = [self._argument(UINT64, value, "__init__", name)
                 for value, name in ((initstate, "initstate"), (initseq, "initseq"))]
        initial, sequence = map(self._steps.value, seeds)
        if self._steps.accepts_arrays:
            if number > 1 << 32:
                raise ArgumentError(f"{self._function('__init__')}(): 'size' must be at most 2^32, found {number}.")
            self._require_sizes("__init__", number, initstate=initial, initseq=sequence)
        self._start("__init__", *self._steps.separated(self._types[UINT64], number, initial, sequence))

    def seed(self, initstate: Any = _STATE, initseq: Any = _SEQUENCE) -> None:
        """Start again: ``initstate`` determines the state, ``initseq`` the stream (64-bit integers, or arrays).

        Raises a ``TypeError`` for other arguments. Evaluates nothing.

        >>> from drjit.llvm import PCG32, UInt64
        >>> rng = PCG32()
        >>> rng.seed(initstate=1, initseq=UInt64(1, 2))
        >>> rng.next_uint32()
        [3380776849, 257813417]
        """
        initial, sequence = (self._steps.value(self._argument(UINT64, value, "seed", name))
                             for value, name in ((initstate, "initstate"), (initseq, "initseq")))
        if self._steps.accepts_arrays:
            self._require_sizes("seed", 1, initstate=initial, initseq=sequence)
        self._start("seed", initial, sequence)

    def _start(self, function: str, initial: Value, sequence: Value) -> None:
        steps, kind = self._steps, self._types[UINT64]
        try:
            increment = steps.odd(sequence)
            state = steps.advance(steps.total(increment, initial), increment)
        except CORE_ERRORS as error:
            raise translate(error, self._function(function)) from None
        self._state, self._inc = steps.wrapped(kind, state), steps.wrapped(kind, increment)

    @property
    def state(self) -> Any:
        """State of the streams, as a copy: unsigned 64-bit integers. Can be set.

        >>> from drjit.llvm import PCG32
        >>> rng = PCG32()
        >>> before = rng.state
        >>> x = rng.next_uint32()
        >>> rng.state = before
        >>> dr.all(rng.next_uint32() == x)
        [True]
        """
        return self._steps.copied(self._state)

    @state.setter
    def state(self, value: Any) -> None:
        self._state = self._argument(UINT64, value, "state", "state")

    @property
    def inc(self) -> Any:
        """Increments of the streams, which identify them, as a copy: odd unsigned 64-bit integers. Can be set.

        >>> from drjit.llvm import PCG32
        >>> PCG32(size=2, initseq=10).inc
        [21, 23]
        """
        return self._steps.copied(self._inc)

    @inc.setter
    def inc(self, value: Any) -> None:
        self._inc = self._argument(UINT64, value, "inc", "inc")

    # --- traversal, see drjit._trees.pytree ---------------------------------------------------------------------------

    def __drjit_children__(self) -> dict[str, Any]:
        return {"state": self._state, "inc": self._inc}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Any:
        result = self._another()
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
            raise translate(error, self._function(method)) from None
        self._state = steps.wrapped(self._types[UINT64], new)
        return bits

    def next_float(self, dtype: Any, mask: Any = True) -> Any:
        """Uniformly distributed floating-point numbers in [0, 1) of the precision of the array type ``dtype``.

        Raises a ``TypeError`` for types without fractions or of another package. Entries that are not set in ``mask``
        (a mask or a bool) are drawn, too, but keep their state. Evaluates nothing.

        >>> from drjit.llvm import Float64, PCG32
        >>> PCG32(size=2).next_float(Float64)
        [0.108379, 0.533909]
        """
        return getattr(self, f"next_{self._precision(dtype, 'next_float')}")(mask)

    def prev_float(self, dtype: Any, mask: Any = True) -> Any:
        """What :meth:`next_float` returned last; takes the state back.

        >>> from drjit.llvm import Float, PCG32
        >>> rng = PCG32()
        >>> dr.all(rng.next_float(Float) == rng.prev_float(Float))
        [True]
        """
        return getattr(self, f"prev_{self._precision(dtype, 'prev_float')}")(mask)

    def next_float_normal(self, dtype: Any, mask: Any = True) -> Any:
        """Standard normal variates of the precision of the array type ``dtype``, by inversion. See :meth:`next_float`.

        >>> from drjit.llvm import Float, PCG32
        >>> PCG32(size=3).next_float_normal(Float)
        [-1.2352, 0.0850992, -2.46532]
        """
        return getattr(self, f"next_{self._precision(dtype, 'next_float_normal')}_normal")(mask)

    def prev_float_normal(self, dtype: Any, mask: Any = True) -> Any:
        """What :meth:`next_float_normal` returned last; takes the state back.

        >>> from drjit.llvm import Float, PCG32
        >>> rng = PCG32()
        >>> dr.all(rng.next_float_normal(Float) == rng.prev_float_normal(Float))
        [True]
        """
        return getattr(self, f"prev_{self._precision(dtype, 'prev_float_normal')}_normal")(mask)

    def next_uint32_bounded(self, bound: int, mask: Any = True) -> Any:
        """Uniformly distributed integers below ``bound`` (an int from 1 to 2^32 - 1); 0 where ``mask`` is not set.

        Numbers that would favour some results are drawn again, so that streams may be different numbers of steps ahead
        afterwards. Raises a ``TypeError`` for other bounds. Evaluates nothing.

        >>> from drjit.llvm import PCG32
        >>> PCG32(size=6).next_uint32_bounded(6) + 1
        [1, 4, 4, 3, 4, 6]
        """
        return self._bounded(bound, mask, 32, "next_uint32_bounded")

    def next_uint64_bounded(self, bound: int, mask: Any = True) -> Any:
        """Uniformly distributed integers below ``bound`` (an int from 1 to 2^64 - 1). See :meth:`next_uint32_bounded`.

        >>> from drjit.llvm import PCG32
        >>> PCG32(size=6).next_uint64_bounded(6) + 1
        [1, 6, 6, 1, 4, 2]
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
            raise translate(error, self._function(method)) from None
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
            raise translate(error, self._function(method)) from None
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
            raise translate(error, self._function("__sub__")) from None
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


#: What PCG32 draws: name, number of 32-bit words, scalar type, conversion, description, what ``PCG32(size=2)`` returns.
_DRAWS: list[tuple[str, int, int, str, str, str]] = [
    ("uint32", 1, UINT32, "uint", "uniformly distributed unsigned 32-bit integers", "[465482994, 2293120725]"),
    ("uint64", 2, UINT64, "uint", "uniformly distributed unsigned 64-bit integers (two steps)",
     "[16730461300013839602, 6009457872796008149]"),
    ("float16", 1, FLOAT16, "float16", "uniformly distributed half precision numbers in [0, 1)",
     "[0.108398, 0.533691]"),
    ("bfloat16", 1, BFLOAT16, "bfloat16", "uniformly distributed numbers of type bfloat16 in [0, 1)",
     "[0.108398, 0.535156]"),
    ("float32", 1, FLOAT32, "float32", "uniformly distributed single precision numbers in [0, 1)",
     "[0.108379, 0.533909]"),
    ("float64", 1, FLOAT64, "float64", "uniformly distributed double precision numbers in [0, 1), multiples of 2^-32",
     "[0.108379, 0.533909]"),
    ("float16_normal", 1, FLOAT16, "normal16", "standard normal variates in half precision, by inversion",
     "[-1.23535, 0.085083]"),
    ("bfloat16_normal", 1, BFLOAT16, "normalb16", "standard normal variates of type bfloat16, by inversion",
     "[-1.23438, 0.0849609]"),
    ("float32_normal", 1, FLOAT32, "normal32", "standard normal variates in single precision, by inversion",
     "[-1.2352, 0.0850992]"),
    ("float64_normal", 1, FLOAT64, "normal64", "standard normal variates in double precision, by inversion",
     "[-1.2352, 0.0850993]"),
]
for _row in _DRAWS:
    for _prefix in ("next", "prev"):
        setattr(PCG32Base, f"{_prefix}_{_row[0]}", _draw(*_row, _prefix == "next"))
del _row, _prefix


# What Python says of missing arguments names the public class.
PCG32Base.__init__.__qualname__ = "PCG32.__init__"
