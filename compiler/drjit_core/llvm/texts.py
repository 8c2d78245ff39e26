"""LLVM text of the rows of the op table: templates of one instruction, what takes more, and which row has which.

Every function has the shape ``(d, a, …, t)``: the name of the result, the names of the operands, and the
:class:`TypeText` of the last operand.  Temporaries are named after the result, so that they are unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..ops.reductions import REDUCTIONS
from ..ops.semantics import bits_of
from ..ops.table import KIND, OPS
from ..types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, TYPE_BITS, TYPES, ReduceOp, TypeInfo
from . import jit

__all__ = ["ATOMIC_INSTRUCTIONS", "LlvmText", "TEXTS", "TypeText", "accumulation", "bitcast", "cast", "constant",
           "is_everywhere", "is_instruction", "update", "vector", "zero"]

LlvmText = Callable[..., str]

#: Elements of packets where there is AVX-512.
_LANES_OF_AVX512 = 16

#: Floating-point types as elements of packets; those that LLVM does not compute with everywhere are their bits.
_FLOATS = {BFLOAT16: "i16", FLOAT16: "half", FLOAT32: "float", FLOAT64: "double"}


class TypeText(str):
    """The text of a value's type, ``float`` or ``<16 x float>``, with what the templates derive from it."""

    info: TypeInfo
    element: str  # type of a value in a register: "float", "i32", "i1" for a mask
    lanes: int  # 0: a scalar
    suffix: str  # "f32" or "v16f32", as in the names of intrinsics
    mask: str  # type of a comparison's result: "i1" or "<16 x i1>"
    integer: str  # integer type of the same width: "i32"
    bits: str  # integer type of the same shape and width: "i32" or "<16 x i32>"
    is_bits: bool  # whether floating-point numbers are held as such integers, and widened to be computed with

    def __new__(cls, info: TypeInfo, lanes: int) -> TypeText:
        element = _FLOATS[info.type] if info.is_float else f"i{info.bits}"
        text = super().__new__(cls, f"<{lanes} x {element}>" if lanes else element)
        text.info, text.element, text.lanes = info, element, lanes
        name = element if element[0] == "i" else f"f{info.bits}"
        text.suffix = f"v{lanes}{name}" if lanes else name
        text.is_bits = info.is_float and element[0] == "i"
        text.mask = text.of("i1")
        text.integer = f"i{info.bits}"
        text.bits = text.of(text.integer)
        return text

    @property
    def wide(self) -> TypeText:
        """The type that numbers of this one are computed in."""
        return TypeText(TYPES[self.info.computes_in], self.lanes)

    @property
    def alignment(self) -> int:
        """Bytes that values of this type are aligned to in memory of our own: at most a line of the cache."""
        return min(64, self.info.size * max(1, self.lanes))

    def of(self, element: str) -> str:
        """The text of a type with the same number of lanes and other elements."""
        return f"<{self.lanes} x {element}>" if self.lanes else element

    def splat(self, constant: object, element: str | None = None) -> str:
        """The text of a constant of this type (or of another element type of the same shape)."""
        return f"splat ({element or self.element} {constant})" if self.lanes else str(constant)


def make_type_texts(lanes: int) -> list[TypeText]:
    """Type texts by scalar type for scalars (``lanes=0``) or packets."""
    return [TypeText(info, lanes) if info is not None else None for info in TYPES]


def constant(type_: int, value: Any) -> str:
    """Text of a scalar constant."""
    info = TYPES[type_]
    if type_ == FLOAT16:
        return f"0xH{bits_of(value, info):04X}"
    if type_ == BFLOAT16:
        return str(bits_of(value, info))
    if info.is_float:
        return f"0x{bits_of(float(value), TYPES[FLOAT64]):016X}"
    if info.kind == "b":
        return "true" if value else "false"
    return str(value)


def vector(element: str, values: Iterable[object]) -> str:
    """Text of a constant packet."""
    return f"<{', '.join(f'{element} {value}' for value in values)}>"


def is_everywhere(mask: str) -> bool:
    """Whether a mask is known to be set for all elements."""
    return mask in ("true", "splat (i1 true)")


# --- one instruction -------------------------------------------------------------------------------------------------


def infix(instruction: str) -> LlvmText:
    """An instruction of two operands."""
    return lambda d, a, b, t: f"{d} = {instruction} {t} {a}, {b}"


def call1(name: str) -> LlvmText:
    """An intrinsic of one operand."""
    return lambda d, a, t: f"{d} = call {t} @llvm.{name}.{t.suffix}({t} {a})"


def call2(name: str) -> LlvmText:
    """An intrinsic of two operands."""
    return lambda d, a, b, t: f"{d} = call {t} @llvm.{name}.{t.suffix}({t} {a}, {t} {b})"


def maximum(d: str, a: str, b: str, t: TypeText) -> str:
    """The larger value. Where one is +0, LLVM makes three instructions of its intrinsic, and two of this."""
    if b != t.splat(constant(t.info.type, 0.0)):
        return call2("maximum")(d, a, b, t)
    return f"{d}_c = fcmp ugt {t} {a}, {b}\n{d} = select {t.mask} {d}_c, {t} {a}, {t} {b}"


def flagged(name: str) -> LlvmText:
    """An intrinsic whose second argument says that some input may be undefined; here none is."""
    return lambda d, a, t: f"{d} = call {t} @llvm.{name}.{t.suffix}({t} {a}, i1 false)"


# --- several ---------------------------------------------------------------------------------------------------------


def multiply_add(d: str, a: str, b: str, c: str, t: TypeText) -> str:
    """``a * b + c`` of integers."""
    return f"{d}_p = mul {t} {a}, {b}\n{d} = add {t} {d}_p, {c}"


def integer_divide(d: str, a: str, b: str, t: TypeText) -> str:
    """Division rounding towards zero, defined for every operand: ``x // 0 = 0`` and ``MIN // -1 = MIN``.

    x86 has no vector division of integers, and its scalar one raises a signal that kills the process.  Quotients of
    up to 32 bits are exact in double precision: the distance of a quotient from the next integer is at least 1/|b|,
    the rounding error below 2^32 / |b| * 2^-53.
    """
    info = t.info
    if info.bits == 64:
        return _guarded_division(d, a, b, t)
    signed = info.kind == "i"
    to_float, to_int = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
    wide, double = t.of("i64"), t.of("double")
    return "\n".join((
        f"{d}_a = {to_float} {t} {a} to {double}",
        f"{d}_b = {to_float} {t} {b} to {double}",
        f"{d}_z = icmp eq {t} {b}, {t.splat(0)}",
        f"{d}_s = select {t.mask} {d}_z, {double} {t.splat('1.0', 'double')}, {double} {d}_b",
        f"{d}_q = fdiv {double} {d}_a, {d}_s",
        f"{d}_w = {to_int} {double} {d}_q to {wide}",
        f"{d}_t = trunc {wide} {d}_w to {t}",
        f"{d} = select {t.mask} {d}_z, {t} {t.splat(0)}, {t} {d}_t"))


def _guarded_division(d: str, a: str, b: str, t: TypeText) -> str:
    lines = [f"{d}_z = icmp eq {t} {b}, {t.splat(0)}"]
    unsafe = f"{d}_z"
    if t.info.kind == "i":
        lines += [f"{d}_m = icmp eq {t} {b}, {t.splat(-1)}",
                  f"{d}_l = icmp eq {t} {a}, {t.splat(int(t.info.minimum))}",
                  f"{d}_o = and {t.mask} {d}_m, {d}_l",
                  f"{d}_u = or {t.mask} {d}_z, {d}_o"]
        unsafe = f"{d}_u"
    instruction = "sdiv" if t.info.kind == "i" else "udiv"
    lines += [f"{d}_s = select {t.mask} {unsafe}, {t} {t.splat(1)}, {t} {b}",
              f"{d}_q = {instruction} {t} {a}, {d}_s",
              f"{d} = select {t.mask} {d}_z, {t} {t.splat(0)}, {t} {d}_q"]
    return "\n".join(lines)


def integer_modulo(d: str, a: str, b: str, t: TypeText) -> str:
    """Remainder of :func:`integer_divide`; zero for a zero divisor."""
    return "\n".join((
        integer_divide(f"{d}_d", a, b, t),
        f"{d}_p = mul {t} {d}_d, {b}",
        f"{d}_r = sub {t} {a}, {d}_p",
        f"{d} = select {t.mask} {d}_d_z, {t} {t.splat(0)}, {t} {d}_r"))


def multiply_high(d: str, a: str, b: str, t: TypeText) -> str:
    """Upper half of the double-width product.

    Packets of unsigned words take the odd halves of the products instead of shifting: LLVM would recognise the shift as
    an operation of its own, ``mulhu``, and where it finds out late that an operand is 1, turns that into a shift by the
    word size, which is undefined (LLVM 22: the result is not even stored).
    """
    bits, lanes = t.info.bits, t.lanes
    extend, wide = "sext" if t.info.kind == "i" else "zext", f"i{2 * bits}"
    vector = t.of(wide)
    lines = [f"{d}_a = {extend} {t} {a} to {vector}",
             f"{d}_b = {extend} {t} {b} to {vector}",
             f"{d}_p = mul {vector} {d}_a, {d}_b"]
    if lanes and extend == "zext" and bits < 64:
        halves, odd = f"<{2 * lanes} x i{bits}>", ", ".join(f"i32 {2 * i + 1}" for i in range(lanes))
        lines += [f"{d}_h = bitcast {vector} {d}_p to {halves}",
                  f"{d} = shufflevector {halves} {d}_h, {halves} poison, <{lanes} x i32> <{odd}>"]
    else:
        lines += [f"{d}_h = lshr {vector} {d}_p, {t.splat(bits, wide)}",
                  f"{d} = trunc {vector} {d}_h to {t}"]
    return "\n".join(lines)


def fused_multiply_add(d: str, a: str, b: str, c: str, t: TypeText) -> str:
    """``a * b + c`` with one rounding.

    Half precision needs care: LLVM computes it in a wider type, whose result then is rounded again.  In single
    precision (for bfloat16, which has the same range: in double precision) the product is exact, and the error of the
    sum can be computed (D. E. Knuth, *The Art of Computer Programming*, volume 2, section 4.2.2, theorem B), so that
    the sum can be rounded to odd, after which rounding to fewer bits gives what rounding once would have.
    """
    if t.info.computes_in == t.info.type:
        return f"{d} = call {t} @llvm.fma.{t.suffix}({t} {a}, {t} {b}, {t} {c})"
    wide = TypeText(TYPES[FLOAT64 if t.is_bits else FLOAT32], t.lanes)
    word, zero_ = wide.bits, wide.splat("0.0")
    return "\n".join((
        cast(f"{d}_a", a, t, wide), cast(f"{d}_b", b, t, wide), cast(f"{d}_c", c, t, wide),
        f"{d}_p = fmul {wide} {d}_a, {d}_b",
        f"{d}_s = fadd {wide} {d}_p, {d}_c",
        f"{d}_e0 = fsub {wide} {d}_s, {d}_p", f"{d}_e1 = fsub {wide} {d}_s, {d}_e0",
        f"{d}_e2 = fsub {wide} {d}_p, {d}_e1", f"{d}_e3 = fsub {wide} {d}_c, {d}_e0",
        f"{d}_e = fadd {wide} {d}_e2, {d}_e3",
        f"{d}_up = fcmp ogt {wide} {d}_e, {zero_}",
        f"{d}_x = fcmp one {wide} {d}_e, {zero_}",
        f"{d}_i = bitcast {wide} {d}_s to {word}",
        f"{d}_n = icmp slt {word} {d}_i, {wide.splat(0, wide.integer)}",
        f"{d}_in = xor {t.mask} {d}_up, {d}_n",  # the exact sum lies further from zero than the rounded one
        _round_to_odd(d, f"{d}_i", f"{d}_x", f"{d}_in", wide),
        cast(d, f"{d}_odd", wide, t)))


def _round_to_odd(d: str, bits: str, inexact: str, away: str, t: TypeText) -> str:
    """A number ``{d}_odd`` from the bits of the nearest one, whether that is inexact, and on which side of it the exact
    value lies: an even significand becomes the odd one that encloses the exact value."""
    word, one = t.bits, t.splat(1, t.integer)
    return "\n".join((
        f"{d}_lsb = and {word} {bits}, {one}", f"{d}_even = icmp eq {word} {d}_lsb, {t.splat(0, t.integer)}",
        f"{d}_move = and {t.mask} {d}_even, {inexact}",
        f"{d}_step = select {t.mask} {away}, {word} {one}, {word} {t.splat(-1, t.integer)}",
        f"{d}_moved = add {word} {bits}, {d}_step",
        f"{d}_bits = select {t.mask} {d}_move, {word} {d}_moved, {word} {bits}",
        f"{d}_odd = bitcast {word} {d}_bits to {t}"))


def _double_to_short(d: str, a: str, s: TypeText, t: TypeText) -> str:
    """Rounds once, where x86 has no instruction and LLVM would call a function of its support library."""
    wide = t.wide
    word, x = wide.bits, f"{d}_short"  # names are those of other steps as well
    magnitude = f"@llvm.fabs.{s.suffix}"
    return "\n".join((
        f"{x}_f = fptrunc {s} {a} to {wide}", f"{x}_back = fpext {wide} {x}_f to {s}",
        f"{x}_x = fcmp one {s} {x}_back, {a}",
        f"{x}_m = call {s} {magnitude}({s} {a})", f"{x}_n = call {s} {magnitude}({s} {x}_back)",
        f"{x}_away = fcmp ogt {s} {x}_m, {x}_n",
        f"{x}_i = bitcast {wide} {x}_f to {word}",
        _round_to_odd(x, f"{x}_i", f"{x}_x", f"{x}_away", wide),
        cast(d, f"{x}_odd", wide, t)))


def _widened(d: str, a: str, s: TypeText, t: TypeText) -> str:
    """Single precision from bfloat16, which are the upper halves."""
    return "\n".join((f"{d}_z = zext {s} {a} to {t.bits}", f"{d}_b = shl {t.bits} {d}_z, {t.splat(16, t.integer)}",
                      f"{d} = bitcast {t.bits} {d}_b to {t}"))


def _upper_half(d: str, a: str, s: TypeText, t: TypeText) -> str:
    """The nearest bfloat16 of single precision, the even one of two: a carry from the lower half.  NaN stay that."""
    word = s.bits

    def splat(value: int) -> str:
        return s.splat(value, s.integer)

    return "\n".join((
        f"{d}_bi = bitcast {s} {a} to {word}",
        f"{d}_bh = lshr {word} {d}_bi, {splat(16)}", f"{d}_bl = and {word} {d}_bh, {splat(1)}",
        f"{d}_bt = add {word} {d}_bi, {splat(0x7FFF)}", f"{d}_br = add {word} {d}_bt, {d}_bl",
        f"{d}_bn = fcmp uno {s} {a}, {a}", f"{d}_bq = or {word} {d}_bi, {splat(1 << 22)}",
        f"{d}_bs = select {t.mask} {d}_bn, {word} {d}_bq, {word} {d}_br",
        f"{d}_bu = lshr {word} {d}_bs, {splat(16)}", f"{d} = trunc {word} {d}_bu to {t}"))


def _to_bits(d: str, a: str, s: TypeText, t: TypeText) -> str:
    """A number of another type as bfloat16."""
    source, wide = s.info, t.wide
    if s == wide:
        return _upper_half(d, a, s, t)
    if source.bits < 24:  # exact in single precision
        return f"{cast(f'{d}_f', a, s, wide)}\n{_upper_half(d, f'{d}_f', wide, t)}"
    if source.is_float:
        return _double_to_short(d, a, s, t)
    double, lines = TypeText(TYPES[FLOAT64], t.lanes), []
    if source.bits == 64:  # what is not exact in double precision is rounded to odd
        last, bound = s.splat((1 << 11) - 1), 1 << 53
        lines = [f"{d}_k = and {s} {a}, {last}", f"{d}_c = add {s} {d}_k, {last}", f"{d}_j = or {s} {a}, {d}_c",
                 f"{d}_o = and {s} {d}_j, {s.splat(-(1 << 11))}"]
        moved = a
        if source.kind == "i":
            moved = f"{d}_p"
            lines.append(f"{d}_p = add {s} {a}, {s.splat(bound)}")
            bound *= 2
        lines += [f"{d}_y = icmp ugt {s} {moved}, {s.splat(bound)}",
                  f"{d}_v = select {s.mask} {d}_y, {s} {d}_o, {s} {a}"]
        a = f"{d}_v"
    return "\n".join((*lines, cast(f"{d}_w", a, s, double), _double_to_short(d, f"{d}_w", double, t)))


def _shift(instruction: str, d: str, a: str, b: str, t: TypeText) -> str:
    return "\n".join((f"{d}_c = and {t} {b}, {t.splat(t.info.bits - 1)}", f"{d} = {instruction} {t} {a}, {d}_c"))


def shift_left(d: str, a: str, b: str, t: TypeText) -> str:
    """Left shift by a count modulo the word size (a larger count is undefined in LLVM)."""
    return _shift("shl", d, a, b, t)


def shift_right(d: str, a: str, b: str, t: TypeText) -> str:
    """Right shift, arithmetic for signed types, by a count modulo the word size."""
    return _shift("ashr" if t.info.kind == "i" else "lshr", d, a, b, t)


def rotate_right(d: str, a: str, b: str, t: TypeText) -> str:
    """Rotation to the right: a funnel shift of a word and itself, whose count LLVM takes modulo the word size."""
    return f"{d} = call {t} @llvm.fshr.{t.suffix}({t} {a}, {t} {a}, {t} {b})"


def cast(d: str, a: str, s: TypeText, t: TypeText) -> str:
    """Conversion from type ``s`` to type ``t``, with the meaning of :func:`drjit_core.ops.semantics.cast`."""
    source, target = s.info, t.info
    if s.is_bits:
        return "\n".join((_widened(f"{d}_of", a, s, s.wide), cast(d, f"{d}_of", s.wide, t))) if s.wide != t else \
            _widened(d, a, s, t)
    if t.is_bits:
        return _to_bits(d, a, s, t)
    if target.kind == "b":
        if source.kind == "f":
            return f"{d} = fcmp une {s} {a}, {s.splat('0.0')}"
        return f"{d} = icmp ne {s} {a}, {s.splat(0)}"
    if source.kind == "b":
        return f"{d} = {'uitofp' if target.kind == 'f' else 'zext'} {s} {a} to {t}"
    if source.kind == "f":
        if target.kind == "f":
            if source.bits == 64 and target.bits == 16:
                return _double_to_short(d, a, s, t)
            return f"{d} = {'fpext' if target.bits > source.bits else 'fptrunc'} {s} {a} to {t}"
        return _float_to_integer(d, a, s, t)
    if target.kind == "f":
        return f"{d} = {'sitofp' if source.kind == 'i' else 'uitofp'} {s} {a} to {t}"
    if target.bits == source.bits:
        return f"{d} = bitcast {s} {a} to {t}"
    if target.bits < source.bits:
        if (source.bits, target.bits) == (64, 32) and t.lanes:
            # The even halves: one permutation for two registers, where LLVM narrows each and joins them for a trunc.
            halves, even = f"<{2 * t.lanes} x i32>", ", ".join(f"i32 {2 * i}" for i in range(t.lanes))
            return (f"{d}_h = bitcast {s} {a} to {halves}\n"
                    f"{d} = shufflevector {halves} {d}_h, {halves} poison, {t} <{even}>")
        return f"{d} = trunc {s} {a} to {t}"
    return f"{d} = {'sext' if source.kind == 'i' else 'zext'} {s} {a} to {t}"


def _float_to_integer(d: str, a: str, s: TypeText, t: TypeText) -> str:
    """Truncation with a guard: LLVM leaves the conversion of what does not fit undefined.

    The value fits if ``low < a < high`` with bounds that are exact in every float type (float16 is widened first, as
    the bounds exceed its range).
    """
    source, target = s, t
    lines: list[str] = []
    if s.info.computes_in != s.info.type:
        source = TypeText(TYPES[s.info.computes_in], s.lanes)
        lines.append(cast(f"{d}_f", a, s, source))
        a = f"{d}_f"
    signed, bits = target.info.kind == "i", target.info.bits
    if bits >= 32 and t.lanes and t.lanes % _LANES_OF_AVX512 == 0 and jit.lanes() == _LANES_OF_AVX512:
        return "\n".join((*lines, *_truncated(d, a, source, t)))
    high = 2.0 ** (bits - 1 if signed else bits)
    # -2^(bits-1) itself fits; for widths where -2^(bits-1) - 1 is exact, values in between truncate into range too
    if not signed:
        compare, low = "ogt", -1.0
    elif bits < (24 if source.info.bits == 32 else 53):
        compare, low = "ogt", -high - 1.0
    else:
        compare, low = "oge", -high
    fallback = int(target.info.minimum) if signed else -1
    lines += [
        f"{d}_l = fcmp {compare} {source} {a}, {source.splat(constant(FLOAT64, low))}",
        f"{d}_h = fcmp olt {source} {a}, {source.splat(constant(FLOAT64, high))}",
        f"{d}_m = and {t.mask} {d}_l, {d}_h",
        f"{d}_t = {'fptosi' if signed else 'fptoui'} {source} {a} to {t}",
        f"{d} = select {t.mask} {d}_m, {t} {d}_t, {t} {t.splat(fallback)}"]
    return "\n".join(lines)


def _truncated(d: str, a: str, s: TypeText, t: TypeText) -> Iterator[str]:
    """Truncation by AVX-512, whose result for what does not fit is the one that is wanted, register by register.

    Besides taking an instruction instead of five, this needs no packet of ones. LLVM makes that where it is used, by an
    instruction that waits for what the register held before, so that packets waited for what earlier ones read from
    memory. (1M derivatives of lookups at random positions in 4 MiB: 7.4 ms, 4.4 so.)
    """
    lanes, size = 512 // max(s.info.bits, t.info.bits), "sd"[s.info.bits == 64]
    before, after = TypeText(s.info, lanes), TypeText(t.info, lanes)
    name = f"llvm.x86.avx512.mask.cvttp{size}2{'u' * (t.info.kind == 'u')}{'dq'[t.info.bits == 64]}q.512"
    parts = []
    for first in range(0, t.lanes, lanes):
        part = f"{d}_{first}" if t.lanes > lanes else d
        if t.lanes > lanes:
            yield _lanes(f"{part}_s", a, a, s, range(first, first + lanes))
        yield (f"{part} = call {after} @{name}({before} {f'{part}_s' if t.lanes > lanes else a}, "
               f"{after} zeroinitializer, i{lanes} -1, i32 4)")
        parts.append(part)
    while len(parts) > 1:
        joined = TypeText(t.info, 2 * after.lanes)
        names = [d] if len(parts) == 2 else [f"{low}_{joined.lanes}" for low in parts[::2]]
        for each, low, high in zip(names, parts[::2], parts[1::2], strict=True):
            yield _lanes(each, low, high, after, range(joined.lanes))
        parts, after = names, joined


def _lanes(d: str, a: str, b: str, t: TypeText, lanes: Iterable[int]) -> str:
    """Lanes of two packets of a type."""
    places = list(lanes)
    return f"{d} = shufflevector {t} {a}, {t} {b}, <{len(places)} x i32> {vector('i32', places)}"


def bitcast(d: str, a: str, s: TypeText, t: TypeText) -> str:
    """Reinterpretation of a bit pattern."""
    return f"{d} = bitcast {s} {a} to {t}"


# --- the rows --------------------------------------------------------------------------------------------------------


def _negate(d: str, a: str, t: TypeText) -> str:
    return f"{d} = sub {t} {t.splat(0)}, {a}"


def _negate_float(d: str, a: str, t: TypeText) -> str:
    return f"{d} = fneg {t} {a}"


def _invert(d: str, a: str, t: TypeText) -> str:
    return f"{d} = xor {t} {a}, {t.splat('true' if t.info.kind == 'b' else -1)}"


def _select(d: str, m: str, a: str, b: str, t: TypeText) -> str:
    return f"{d} = select {t.mask} {m}, {t} {a}, {t} {b}"


def _flip_sign(d: str, a: str, t: TypeText) -> str:
    return f"{d} = xor {t} {a}, {t.splat(1 << t.info.bits - 1)}"


def _clear_sign(d: str, a: str, t: TypeText) -> str:
    return f"{d} = and {t} {a}, {t.splat((1 << t.info.bits - 1) - 1)}"


def _compute_wide(function: LlvmText, compares: bool) -> LlvmText:
    """Text for numbers that are held as bits: widens operands, and rounds the result, unless that is a mask."""
    def text(d: str, *operands_and_type: Any) -> str:
        *operands, t = operands_and_type
        wide = t.wide
        lines = [cast(f"{d}_{number}w", operand, t, wide) for number, operand in enumerate(operands)]
        names = [f"{d}_{number}w" for number in range(len(operands))]
        if compares:
            return "\n".join((*lines, function(d, *names, wide)))
        return "\n".join((*lines, function(f"{d}_x", *names, wide), cast(d, f"{d}_x", wide, t)))

    return text


def _compare(signed: str, unsigned: str, floating: str) -> dict[str, LlvmText]:
    return {"i": infix(f"icmp {signed}"), "bu": infix(f"icmp {unsigned}"), "f": infix(f"fcmp {floating}")}


#: By the name of a row, its text by type class of the last operand; a key may name several classes.
_ROWS: dict[str, dict[str, LlvmText]] = {
    "neg": {"iu": _negate, "f": _negate_float},
    "add": {"iu": infix("add"), "f": infix("fadd")},
    "sub": {"iu": infix("sub"), "f": infix("fsub")},
    "mul": {"iu": infix("mul"), "f": infix("fmul")},
    "div": {"f": infix("fdiv")}, "div_precise": {"f": infix("fdiv")},
    "floordiv": {"iu": integer_divide},
    "mod": {"iu": integer_modulo},
    "fma": {"iu": multiply_add, "f": fused_multiply_add},
    "mul_hi": {"iu": multiply_high},
    "abs": {"i": flagged("abs"), "f": call1("fabs")},
    "sqrt": {"f": call1("sqrt")}, "sqrt_precise": {"f": call1("sqrt")},
    "minimum": {"i": call2("smin"), "u": call2("umin"), "f": call2("minimum")},
    "maximum": {"i": call2("smax"), "u": call2("umax"), "f": maximum},
    "ceil": {"f": call1("ceil")},
    "floor": {"f": call1("floor")},
    "trunc": {"f": call1("trunc")},
    "round": {"f": call1("rint")},
    "eq": _compare("eq", "eq", "oeq"),
    "neq": _compare("ne", "ne", "une"),
    "lt": _compare("slt", "ult", "olt"),
    "le": _compare("sle", "ule", "ole"),
    "gt": _compare("sgt", "ugt", "ogt"),
    "ge": _compare("sge", "uge", "oge"),
    "select": {"biuf": _select},
    "inv": {"biu": _invert},
    "and_": {"biu": infix("and")},
    "or_": {"biu": infix("or")},
    "xor": {"biu": infix("xor")},
    "shl": {"iu": shift_left},
    "shr": {"iu": shift_right},
    "rotr": {"iu": rotate_right},
    "popcnt": {"iu": call1("ctpop")},
    "lzcnt": {"iu": flagged("ctlz")},
    "tzcnt": {"iu": flagged("cttz")},
    "brev": {"iu": call1("bitreverse")},
}

#: Text by kind and type of the last operand, at ``kind << TYPE_BITS | type``; ``None`` where there is none.
TEXTS: list[Any] = [None] * (len(OPS) << TYPE_BITS)
for _name, _by_classes in _ROWS.items():
    for _classes, _function in _by_classes.items():
        for _info in TYPES:
            if _info is not None and _info.kind in _classes:
                TEXTS[KIND[_name] << TYPE_BITS | _info.type] = _function
#: Rows that bits of floating-point numbers go through without being widened.
_OF_BITS: dict[str, LlvmText] = {"neg": _flip_sign, "abs": _clear_sign, "select": _select, "fma": fused_multiply_add}
for _info in TYPES:
    if _info is not None and TypeText(_info, 0).is_bits:
        for _row in OPS:
            _place = _row.kind << TYPE_BITS | _info.type
            if TEXTS[_place] is not None:
                TEXTS[_place] = _OF_BITS.get(_row.name) or _compute_wide(TEXTS[_place], _row.result == "mask")


# --- reduction operators ---------------------------------------------------------------------------------------------

_MIN, _MAX = {"i": "smin", "u": "umin", "f": "fmin"}, {"i": "smax", "u": "umax", "f": "fmax"}
#: By operator and type class, what ``atomicrmw`` calls the operator; there is no product.
ATOMIC_INSTRUCTIONS: dict[int, dict[str, str]] = {
    ReduceOp.Add.value: {"i": "add", "u": "add", "f": "fadd"},
    ReduceOp.Min.value: {**_MIN, "i": "min"}, ReduceOp.Max.value: {**_MAX, "i": "max"},
    ReduceOp.And.value: dict.fromkeys("biu", "and"), ReduceOp.Or.value: dict.fromkeys("biu", "or")}
#: By row, how to take the second operand of two: an ordered comparison, which is false for NaN.
_BETTER = {"fmin": "olt", "fmax": "ogt"}
#: By row, the intrinsic that prefers numbers to NaN, be it the first operand or the second.
_NUMBER = {"fmin": call2("minnum"), "fmax": call2("maxnum")}


def accumulation(op: int, d: str, a: str, b: str, t: TypeText) -> str:
    """Text that combines the element ``b`` into a partial result ``a``, which is never NaN if the operator ignores it.
    """
    row = REDUCTIONS[op].row(t.info.type)
    if row in _BETTER:
        return f"{d}_c = fcmp {_BETTER[row]} {t} {b}, {a}\n{d} = select {t.mask} {d}_c, {t} {b}, {t} {a}"
    return str(TEXTS[KIND[row] << TYPE_BITS | t.info.type](d, a, b, t))


def is_instruction(op: int, t: TypeText) -> bool:
    """Whether ``atomicrmw`` has an operator for a type."""
    return op in ATOMIC_INSTRUCTIONS and not t.is_bits


def update(op: int, d: str, a: str, b: str, t: TypeText) -> str:
    """Text that combines ``b`` into ``a``, which may be anything: an element of memory."""
    row = REDUCTIONS[op].row(t.info.type)
    if row in _NUMBER and t.is_bits:
        return _compute_wide(_NUMBER[row], False)(d, a, b, t)
    return (_NUMBER[row] if row in _NUMBER else TEXTS[KIND[row] << TYPE_BITS | t.info.type])(d, a, b, t)


def zero(t: TypeText) -> str:
    """Text of a zero of some type."""
    if t.lanes:
        return "zeroinitializer"
    return "false" if t.info.kind == "b" else "0" if t.element[0] == "i" else "0.0"
