"""PTX text of the rows of the op table, and of conversions.

Masks are predicates, half precision is native, bfloat16 goes through single precision, and integers of 8 bits are kept
in registers of 16, extended as their type says.  Nothing is contracted, because every operation says how it rounds
(``.rn``), and denormal numbers count (no ``.ftz``).  But for the rows that are approximated in single precision, which
others stand for where ``JitFlag.FastMath`` is cleared: their errors are those of the PTX manual.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from ..ops.reductions import REDUCTIONS
from ..ops.semantics import bits_of
from ..ops.table import FIRST_EXPANDED, KIND, OPS
from ..types import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, TYPE_BITS, TYPES, UINT32, UINT64, TypeInfo
from . import features

__all__ = ["NATIVE", "REGISTERS", "TEXTS", "Lines", "Text", "TypeText", "T", "accumulation", "bitcast", "cast",
           "constant", "reciprocal", "reciprocal_root", "zero"]

Lines = list[str]
#: Text of a row: of the emitter, the register of the result, those of the operands, and the type of the last operand.
Text = Callable[..., Lines]


class Emitter(Protocol):
    """What gives new registers, see :class:`.registers.Registers`."""

    architecture: int

    def new(self, type_: int, /) -> str:
        """One for a value of some type."""

    def register(self, prefix: str, /) -> str:
        """One by its prefix."""

    def registers(self, *prefixes: str) -> list[str]:
        """Several of them."""


#: Registers by prefix, and what they are declared as.
REGISTERS = {"%p": "pred", "%h": "b16", "%r": "b32", "%rd": "b64", "%f": "f32", "%d": "f64"}


class TypeText(str):
    """Arithmetic type of a value ("f32"), and what follows from it."""

    info: TypeInfo
    prefix: str  # of its registers
    declared: str  # what these are declared as
    memory: str  # type of loads and stores
    bits: str  # untyped bits of a register
    word: int  # number of bits of a register
    size: int  # bytes in memory

    def __new__(cls, info: TypeInfo) -> TypeText:
        """The text of a type."""
        kind, bits = info.kind, info.bits
        if kind == "b":
            text, prefix, memory, word = "pred", "%p", "u8", 1
        elif kind == "f":
            text, word = info.short, bits
            prefix = {16: "%h", 32: "%f", 64: "%d"}[bits]
            memory = "b16" if bits == 16 else text
        else:
            letter, word = "s" if kind == "i" else "u", max(bits, 16)
            text, memory = f"{letter}{word}", f"{letter}{bits}"
            prefix = {16: "%h", 32: "%r", 64: "%rd"}[word]
        self = super().__new__(cls, text)
        self.info, self.prefix, self.declared, self.memory = info, prefix, REGISTERS[prefix], memory
        self.word, self.size = word, info.size
        self.bits = "pred" if word == 1 else f"b{word}"
        return self


#: Texts of types, by type.
T: list[TypeText] = [TypeText(info) if info is not None else None for info in TYPES]


def constant(type_: int, value: Any) -> str:
    """An immediate operand; of masks and of half precision there is none."""
    info = TYPES[type_]
    if type_ == FLOAT32:
        return f"0f{bits_of(value, info):08X}"
    if type_ == FLOAT64:
        return f"0d{bits_of(value, info):016X}"
    if info.is_float:
        return f"0x{bits_of(value, info):04X}"
    if info.kind == "b":
        return "true" if value else "false"
    return str(value)


def zero(type_: int) -> str:
    """Zero, as an immediate operand."""
    return constant(type_, 0)


# --- rows ------------------------------------------------------------------------------------------------------------


def _extended(t: TypeText, d: str) -> Lines:
    """Text that extends a byte in its register."""
    return [f"cvt.{t}.{t.memory} {d}, {d};"] if t.info.bits == 8 else []


def _infix(name: str) -> Text:
    def text(e: Emitter, d: str, a: str, b: str, t: TypeText) -> Lines:
        return [f"{name.format(t=t, b=t.bits)} {d}, {a}, {b};", *_extended(t, d)]
    return text


def _prefix(name: str) -> Text:
    def text(e: Emitter, d: str, a: str, t: TypeText) -> Lines:
        return [f"{name.format(t=t, b=t.bits)} {d}, {a};", *_extended(t, d)]
    return text


def _negated_unsigned(e: Emitter, d: str, a: str, t: TypeText) -> Lines:
    return [f"neg.s{t.word} {d}, {a};", *_extended(t, d)]


def _in_single(single: Text) -> Text:
    """Half precision through single: rounding twice gives what rounding once would have (24 >= 2 * 11 + 2 bits)."""
    def text(e: Emitter, d: str, *rest: Any) -> Lines:
        *operands, _ = rest
        singles, result = [e.new(FLOAT32) for _ in operands], e.new(FLOAT32)
        return [*(f"cvt.f32.f16 {x}, {a};" for x, a in zip(singles, operands, strict=True)),
                *single(e, result, *singles, T[FLOAT32]), f"cvt.rn.f16.f32 {d}, {result};"]
    return text


def _minimum(name: str) -> Text:
    """A minimum or maximum that is NaN if one of its operands is."""
    def text(e: Emitter, d: str, a: str, b: str, t: TypeText) -> Lines:
        if t.info.bits < 64 and features.has_nan_minimum(e.architecture):
            return [f"{name}.NaN.{t} {d}, {a}, {b};"]
        unordered = e.new(BOOL)
        if t.info.bits == 16:
            x, y, r = (e.new(FLOAT32) for _ in range(3))
            return [f"cvt.f32.f16 {x}, {a};", f"cvt.f32.f16 {y}, {b};", f"{name}.f32 {r}, {x}, {y};",
                    f"setp.nan.f32 {unordered}, {x}, {y};", f"selp.f32 {r}, 0f7FC00000, {r}, {unordered};",
                    f"cvt.rn.f16.f32 {d}, {r};"]
        r, nan = e.new(t.info.type), constant(t.info.type, float("nan"))
        return [f"{name}.{t} {r}, {a}, {b};", f"setp.nan.{t} {unordered}, {a}, {b};",
                f"selp.{t} {d}, {nan}, {r}, {unordered};"]
    return text


def _fma(e: Emitter, d: str, a: str, b: str, c: str, t: TypeText) -> Lines:
    return [f"fma.rn.{t} {d}, {a}, {b}, {c};"]


def _mad(e: Emitter, d: str, a: str, b: str, c: str, t: TypeText) -> Lines:
    return [f"mad.lo.{t} {d}, {a}, {b}, {c};", *_extended(t, d)]


def _high_half(e: Emitter, d: str, a: str, b: str, t: TypeText) -> Lines:
    if t.info.bits == 8:
        return [f"mul.lo.{t} {d}, {a}, {b};", f"shr.{t} {d}, {d}, 8;"]
    return [f"mul.hi.{t} {d}, {a}, {b};"]


def _divided(name: str) -> Text:
    """Zero for a divisor of zero; what ``minimum / -1`` is follows from the divisor being 1 there."""
    def text(e: Emitter, d: str, a: str, b: str, t: TypeText) -> Lines:
        by_zero, replaced, divisor, result = e.new(BOOL), e.new(BOOL), e.new(t.info.type), e.new(t.info.type)
        lines = [f"setp.eq.{t} {by_zero}, {b}, 0;"]
        if t.info.kind == "i":
            by_one = e.new(BOOL)
            lines += [f"setp.eq.{t} {by_one}, {b}, -1;",
                      f"setp.eq.and.{t} {replaced}, {a}, {t.info.minimum}, {by_one};",
                      f"or.pred {replaced}, {replaced}, {by_zero};"]
        else:
            replaced = by_zero
        return [*lines, f"selp.{t.bits} {divisor}, 1, {b}, {replaced};", f"{name}.{t} {result}, {a}, {divisor};",
                f"selp.{t.bits} {d}, 0, {result}, {by_zero};"]
    return text


def _count(e: Emitter, b: str, t: TypeText) -> tuple[Lines, str]:
    """A count of a shift modulo the bits of a word, in 32 bits."""
    count = e.new(UINT32)
    if t.word == 32:
        return [f"and.b32 {count}, {b}, 31;"], count
    return [f"cvt.u32.u{t.word} {count}, {b};", f"and.b32 {count}, {count}, {t.info.bits - 1};"], count


def _shifted_left(e: Emitter, d: str, a: str, b: str, t: TypeText) -> Lines:
    lines, count = _count(e, b, t)
    return [*lines, f"shl.{t.bits} {d}, {a}, {count};", *_extended(t, d)]


def _shifted_right(e: Emitter, d: str, a: str, b: str, t: TypeText) -> Lines:
    lines, count = _count(e, b, t)
    return [*lines, f"shr.{t} {d}, {a}, {count};"]


def _rotated(e: Emitter, d: str, a: str, b: str, t: TypeText) -> Lines:
    bits = t.info.bits
    if bits == 32:
        return [f"shf.r.wrap.b32 {d}, {a}, {a}, {b};"]
    lines, count = _count(e, b, t)
    rest, low, high = e.new(UINT32), e.new(t.info.type), e.new(t.info.type)
    if bits == 8:
        byte = e.new(t.info.type)
        lines.append(f"and.b16 {byte}, {a}, 255;")
        a = byte
    return [*lines, f"neg.s32 {rest}, {count};", f"and.b32 {rest}, {rest}, {bits - 1};",
            f"shr.u{t.word} {low}, {a}, {count};", f"shl.{t.bits} {high}, {a}, {rest};",
            f"or.{t.bits} {d}, {low}, {high};", *_extended(t, d)]


def _as_word(e: Emitter, a: str, t: TypeText) -> tuple[Lines, str]:
    """The bits of an integer, and zeros above them, in a register of at least 32 bits."""
    bits = t.info.bits
    if bits >= 32:
        return [], a
    word = e.new(UINT32)
    return [f"cvt.u32.u16 {word}, {a};", f"and.b32 {word}, {word}, {(1 << bits) - 1};"], word


def _from_word(d: str, word: str, t: TypeText) -> str:
    """Text that makes an integer of a count of 32 bits."""
    return f"cvt.u{t.word}.u32 {d}, {word};" if t.word != 32 else f"mov.b32 {d}, {word};"


def _ones(e: Emitter, d: str, a: str, t: TypeText) -> Lines:
    lines, word = _as_word(e, a, t)
    count = e.new(UINT32)
    return [*lines, f"popc.b{max(t.info.bits, 32)} {count}, {word};", _from_word(d, count, t)]


def _leading_zeros(e: Emitter, d: str, a: str, t: TypeText) -> Lines:
    lines, word = _as_word(e, a, t)
    count, bits = e.new(UINT32), t.info.bits
    lines.append(f"clz.b{max(bits, 32)} {count}, {word};")
    if bits < 32:
        lines.append(f"sub.s32 {count}, {count}, {32 - bits};")
    return [*lines, _from_word(d, count, t)]


def _trailing_zeros(e: Emitter, d: str, a: str, t: TypeText) -> Lines:
    lines, word = _as_word(e, a, t)
    count, bits = e.new(UINT32), t.info.bits
    if bits < 32:
        lines.append(f"or.b32 {word}, {word}, {1 << bits};")
    turned = e.new(UINT64 if bits == 64 else UINT32)
    width = max(bits, 32)
    return [*lines, f"brev.b{width} {turned}, {word};", f"clz.b{width} {count}, {turned};", _from_word(d, count, t)]


def _reversed(e: Emitter, d: str, a: str, t: TypeText) -> Lines:
    bits = t.info.bits
    if bits >= 32:
        return [f"brev.{t.bits} {d}, {a};"]
    word = e.new(UINT32)
    return [f"cvt.u32.u16 {word}, {a};", f"brev.b32 {word}, {word};", f"shr.u32 {word}, {word}, {32 - bits};",
            f"cvt.u16.u32 {d}, {word};", *_extended(t, d)]


def _selected(e: Emitter, d: str, mask: str, a: str, b: str, t: TypeText) -> Lines:
    if t.word > 1:
        return [f"selp.{t.bits} {d}, {a}, {b}, {mask};"]
    first, other = e.new(BOOL), e.new(BOOL)
    return [f"and.pred {first}, {a}, {mask};", f"not.pred {other}, {mask};", f"and.pred {other}, {other}, {b};",
            f"or.pred {d}, {first}, {other};"]


def _comparison(name: str, floating: str) -> dict[str, Text]:
    def of_numbers(predicate: str) -> Text:
        return lambda e, d, a, b, t: [f"setp.{predicate}.{t} {d}, {a}, {b};"]

    def of_masks(e: Emitter, d: str, a: str, b: str, t: TypeText) -> Lines:
        if name in ("eq", "ne"):
            lines = [f"xor.pred {d}, {a}, {b};"]
            return lines if name == "ne" else [*lines, f"not.pred {d}, {d};"]
        inverse = e.new(BOOL)
        first, second = (a, b) if name in ("lt", "ge") else (b, a)  # a < b: !a & b; a >= b: a | !b
        if name in ("lt", "gt"):
            return [f"not.pred {inverse}, {first};", f"and.pred {d}, {inverse}, {second};"]
        return [f"not.pred {inverse}, {second};", f"or.pred {d}, {inverse}, {first};"]

    return {"iu": of_numbers(name), "f": of_numbers(floating), "b": of_masks}


_LOG2_E, _LOG_2 = constant(FLOAT32, 1 / math.log(2)), constant(FLOAT32, math.log(2))
#: ``(tanh(x) - x) / x**3`` in ``x**2`` below a limit, relative error of the tangent 2^-25.99.
_TANH_LIMIT = 0.5
_TANH = (-0.333331435918808, 0.13325870037078857, -0.053044773638248444, 0.017239773645997047)


def _exponential(e: Emitter, d: str, a: str, t: TypeText) -> Lines:
    scaled = e.new(FLOAT32)
    return [f"mul.rn.f32 {scaled}, {a}, {_LOG2_E};", f"ex2.approx.ftz.f32 {d}, {scaled};"]


def _logarithm(e: Emitter, d: str, a: str, t: TypeText) -> Lines:
    binary = e.new(FLOAT32)
    return [f"lg2.approx.ftz.f32 {binary}, {a};", f"mul.rn.f32 {d}, {binary}, {_LOG_2};"]


def _hyperbolic_tangent(e: Emitter, d: str, a: str, t: TypeText) -> Lines:
    """``1 - 2 / (exp(2 |a|) + 1)``, and a polynomial where that would cancel."""
    x, power, z, sum_, far, near = (e.new(FLOAT32) for _ in range(6))
    small = e.new(BOOL)
    lines = [f"abs.f32 {x}, {a};", f"mul.rn.f32 {power}, {x}, {constant(FLOAT32, 2 / math.log(2))};",
             f"ex2.approx.ftz.f32 {power}, {power};", f"add.rn.f32 {power}, {power}, {constant(FLOAT32, 1)};",
             f"rcp.approx.ftz.f32 {power}, {power};",
             f"fma.rn.f32 {far}, {power}, {constant(FLOAT32, -2)}, {constant(FLOAT32, 1)};",
             f"mul.rn.f32 {z}, {a}, {a};", f"mov.f32 {sum_}, {constant(FLOAT32, _TANH[-1])};"]
    lines += [f"fma.rn.f32 {sum_}, {sum_}, {z}, {constant(FLOAT32, each)};" for each in _TANH[-2::-1]]
    return [*lines, f"mul.rn.f32 {z}, {z}, {x};", f"fma.rn.f32 {near}, {sum_}, {z}, {x};",
            f"setp.lt.f32 {small}, {x}, {constant(FLOAT32, _TANH_LIMIT)};",
            f"selp.f32 {far}, {near}, {far}, {small};", f"copysign.f32 {d}, {a}, {far};"]


#: Reciprocals in single precision, and those of square roots.
reciprocal, reciprocal_root = _prefix("rcp.approx.ftz.f32"), _prefix("rsqrt.approx.ftz.f32")

#: Texts of rows, by classes of types: "s" is single precision where it is approximated, and half precision by it; "h"
#: is half precision, where it has one of its own.
_ROWS: dict[str, dict[str, Text]] = {
    "neg": {"i": _prefix("neg.{t}"), "u": _negated_unsigned, "f": _prefix("neg.{t}")},
    "add": {"iu": _infix("add.{t}"), "f": _infix("add.rn.{t}")},
    "sub": {"iu": _infix("sub.{t}"), "f": _infix("sub.rn.{t}")},
    "mul": {"iu": _infix("mul.lo.{t}"), "f": _infix("mul.rn.{t}")},
    "div": {"s": _infix("div.full.f32"), "f": _infix("div.rn.{t}")},
    "div_precise": {"f": _infix("div.rn.{t}"), "h": _in_single(_infix("div.rn.f32"))},
    "floordiv": {"iu": _divided("div")},
    "mod": {"iu": _divided("rem")},
    "fma": {"iu": _mad, "f": _fma},
    "mul_hi": {"iu": _high_half},
    "abs": {"i": _prefix("abs.{t}"), "f": _prefix("abs.{t}")},
    "sqrt": {"s": _prefix("sqrt.approx.ftz.f32"), "f": _prefix("sqrt.rn.{t}")},
    "rsqrt": {"s": reciprocal_root},
    "sqrt_precise": {"f": _prefix("sqrt.rn.{t}"), "h": _in_single(_prefix("sqrt.rn.f32"))},
    "minimum": {"iu": _infix("min.{t}"), "f": _minimum("min")},
    "maximum": {"iu": _infix("max.{t}"), "f": _minimum("max")},
    "ceil": {"f": _prefix("cvt.rpi.{t}.{t}")},
    "floor": {"f": _prefix("cvt.rmi.{t}.{t}")},
    "trunc": {"f": _prefix("cvt.rzi.{t}.{t}")},
    "round": {"f": _prefix("cvt.rni.{t}.{t}")},
    "eq": _comparison("eq", "eq"), "neq": _comparison("ne", "neu"), "lt": _comparison("lt", "lt"),
    "le": _comparison("le", "le"), "gt": _comparison("gt", "gt"), "ge": _comparison("ge", "ge"),
    "select": {"biuf": _selected},
    "inv": {"biu": _prefix("not.{b}")},
    "and_": {"biu": _infix("and.{b}")}, "or_": {"biu": _infix("or.{b}")}, "xor": {"biu": _infix("xor.{b}")},
    "shl": {"iu": _shifted_left}, "shr": {"iu": _shifted_right}, "rotr": {"iu": _rotated},
    "popcnt": {"iu": _ones}, "lzcnt": {"iu": _leading_zeros}, "tzcnt": {"iu": _trailing_zeros},
    "brev": {"iu": _reversed},
    "exp2": {"s": _prefix("ex2.approx.ftz.f32")}, "exp": {"s": _exponential},
    "log2": {"s": _prefix("lg2.approx.ftz.f32")}, "log": {"s": _logarithm}, "tanh": {"s": _hyperbolic_tangent},
    "sin_reduced": {"s": _prefix("sin.approx.ftz.f32")}, "cos_reduced": {"s": _prefix("cos.approx.ftz.f32")},
}


# --- bfloat16 --------------------------------------------------------------------------------------------------------


def _widened(e: Emitter, d: str, a: str) -> Lines:
    """Single precision from bfloat16, which are the upper halves."""
    low = e.register("%h")
    return [f"mov.b16 {low}, 0;", f"mov.b32 {d}, {{{low}, {a}}};"]


def _narrowed(e: Emitter, d: str, a: str) -> Lines:
    """The nearest bfloat16 of single precision, the even one of two: a carry from the lower half."""
    bits, carry, nan = e.registers("%r", "%r", "%p")
    return [f"mov.b32 {bits}, {a};", f"shr.u32 {carry}, {bits}, 16;", f"and.b32 {carry}, {carry}, 1;",
            f"add.u32 {carry}, {carry}, 32767;", f"add.u32 {bits}, {bits}, {carry};", f"shr.u32 {bits}, {bits}, 16;",
            f"cvt.u16.u32 {d}, {bits};", f"setp.nan.f32 {nan}, {a}, {a};", f"selp.b16 {d}, 32704, {d}, {nan};"]


def _by_single(text: Text, is_predicate: bool) -> Text:
    """A row of bfloat16 by that of single precision: rounding twice gives what rounding once would have."""
    def through(e: Emitter, d: str, *rest: Any) -> Lines:
        *operands, _ = rest
        singles = [e.new(FLOAT32) for _ in operands]
        lines = [line for single, a in zip(singles, operands, strict=True) for line in _widened(e, single, a)]
        result = d if is_predicate else e.new(FLOAT32)
        lines += text(e, result, *singles, T[FLOAT32])
        return lines if is_predicate else [*lines, *_narrowed(e, d, result)]
    return through


def _odd(e: Emitter, d: str, a: str, inexact: str, bits: int) -> Lines:
    """What was rounded towards zero, rounded to odd: it can be rounded again."""
    word, other = e.registers(*["%rd" if bits == 64 else "%r"] * 2)
    return [f"mov.b{bits} {word}, {a};", f"or.b{bits} {other}, {word}, 1;",
            f"selp.b{bits} {word}, {other}, {word}, {inexact};", f"mov.b{bits} {d}, {word};"]


def _fused_bfloat(e: Emitter, d: str, a: str, b: str, c: str, t: TypeText) -> Lines:
    singles, inexact = [e.new(FLOAT32) for _ in range(7)], e.new(BOOL)
    x, y, z, low, high, middle, odd = singles
    operands = f"{x}, {y}, {z}"
    return [*_widened(e, x, a), *_widened(e, y, b), *_widened(e, z, c), f"fma.rm.f32 {low}, {operands};",
            f"fma.rp.f32 {high}, {operands};", f"fma.rz.f32 {middle}, {operands};",
            f"setp.neu.f32 {inexact}, {low}, {high};", *_odd(e, odd, middle, inexact, 32), *_narrowed(e, d, odd)]


def _cast_to_bfloat(e: Emitter, d: str, a: str, s: TypeText) -> Lines:
    single, info = e.new(FLOAT32), s.info
    if info.bits == 64:  # rounded to odd on the way
        back, inexact, lines = e.new(info.type), e.new(BOOL), []
        if info.kind != "f":
            wide, odd = e.new(FLOAT64), e.new(FLOAT64)
            lines = [f"cvt.rz.f64.{s} {wide}, {a};", f"cvt.rzi.{s}.f64 {back}, {wide};",
                     f"setp.ne.{s} {inexact}, {back}, {a};", *_odd(e, odd, wide, inexact, 64)]
            a, back, inexact = odd, e.new(FLOAT64), e.new(BOOL)
        near = e.new(FLOAT32)
        return [*lines, f"cvt.rz.f32.f64 {near}, {a};", f"cvt.f64.f32 {back}, {near};",
                f"setp.neu.f64 {inexact}, {back}, {a};", *_odd(e, single, near, inexact, 32), *_narrowed(e, d, single)]
    if info.bits == 32 and info.kind != "f":
        wide = e.new(FLOAT64)
        return [f"cvt.rn.f64.{s} {wide}, {a};", *_cast_to_bfloat(e, d, wide, T[FLOAT64])]
    return [*cast(e, single, a, s, T[FLOAT32]), *_narrowed(e, d, single)]


_PREDICATES = {"eq", "neq", "lt", "le", "gt", "ge"}
#: Rows of bfloat16 that do not go through those of single precision.
_BFLOATS: dict[str, Text] = {
    "neg": lambda e, d, a, t: [f"xor.b16 {d}, {a}, 32768;"],
    "abs": lambda e, d, a, t: [f"and.b16 {d}, {a}, 32767;"], "fma": _fused_bfloat}


def _texts() -> list[Any]:
    found: list[Any] = [None] * (len(OPS) << TYPE_BITS)
    for name, by_classes in _ROWS.items():
        place = KIND[name] << TYPE_BITS
        for info in TYPES:
            if info is None:
                continue
            for classes, text in by_classes.items():
                if info.type == BFLOAT16 and classes == "f":
                    found[place | info.type] = _BFLOATS.get(name) or _by_single(text, name in _PREDICATES)
                elif info.kind in classes or classes == "h" and info.type == FLOAT16:
                    found[place | info.type] = text
        single = by_classes.get("s")
        if single is not None:
            found[place | FLOAT32], found[place | FLOAT16] = single, _in_single(single)
            found[place | BFLOAT16] = _by_single(single, False)
        if name == "select":
            found[place | BFLOAT16] = _selected
    return found


#: Texts of the elementwise rows by ``kind << TYPE_BITS | type`` (that of the last operand).
TEXTS: list[Any] = _texts()
#: Rows with an expansion that have a text all the same.
NATIVE = frozenset(key for key, text in enumerate(TEXTS) if text is not None and key >> TYPE_BITS >= FIRST_EXPANDED)


# --- conversions -----------------------------------------------------------------------------------------------------


def cast(e: Emitter, d: str, a: str, s: TypeText, t: TypeText) -> Lines:
    """Text of a conversion, with the meaning of :func:`drjit_core.ops.semantics.cast`."""
    source, target = s.info, t.info
    if source.type == BFLOAT16 != target.type:
        single = e.new(FLOAT32)
        return [*_widened(e, single, a), *cast(e, d, single, T[FLOAT32], t)]
    if target.type == BFLOAT16 != source.type and source.kind != "b":
        return _cast_to_bfloat(e, d, a, s)
    if target.kind == "b":
        return _cast_to_mask(e, d, a, s)
    if source.kind == "b":
        if target.kind == "f" and target.bits == 16:
            return [f"selp.b16 {d}, {constant(target.type, 1)}, 0, {a};"]
        type_ = t if target.kind == "f" else t.bits
        return [f"selp.{type_} {d}, {constant(target.type, 1)}, {zero(target.type)}, {a};"]
    if source.kind == "f":
        if target.kind != "f":
            return _truncated(e, d, a, s, t)
        if s == t:
            return [f"mov.{t.declared} {d}, {a};"]
        return [f"cvt{'.rn' if target.bits < source.bits else ''}.{t}.{s} {d}, {a};"]
    if target.kind == "f":
        return [f"cvt.rn.{t}.{s} {d}, {a};"]
    if t.word == s.word:
        if target.bits >= source.bits and (target.bits > 8 or source.kind == target.kind):
            return [f"mov.{t.bits} {d}, {a};"]
        return [f"cvt.{t}.{t.memory} {d}, {a};"]
    return [f"cvt.{t}.{s} {d}, {a};", *_extended(t, d)]


def _cast_to_mask(e: Emitter, d: str, a: str, s: TypeText) -> Lines:
    if s.info.kind == "b":
        return [f"mov.pred {d}, {a};"]
    if s.info.type == FLOAT16:
        single = e.new(FLOAT32)
        return [f"cvt.f32.f16 {single}, {a};", f"setp.neu.f32 {d}, {single}, {zero(FLOAT32)};"]
    return [f"setp.{'neu' if s.info.kind == 'f' else 'ne'}.{s} {d}, {a}, {zero(s.info.type)};"]


def _truncated(e: Emitter, d: str, a: str, s: TypeText, t: TypeText) -> Lines:
    """``cvt`` saturates, and makes 0 of NaN; wanted is the smallest number of a signed type, and the largest of an
    unsigned one, for all that does not fit."""
    info, lines = t.info, []
    if s.info.bits == 16:
        single = e.new(FLOAT32)
        lines.append(f"cvt.f32.f16 {single}, {a};")
        a, s = single, T[FLOAT32]
    signed, word, source = info.kind == "i", max(info.bits, 32), s.info.type
    sign = "s" if signed else "u"
    result, outside, below = e.new(INT32 if word == 32 else INT64), e.new(BOOL), e.new(BOOL)
    lines.append(f"cvt.rzi.{sign}{word}.{s} {result}, {a};")
    high = 2.0 ** (info.bits - 1 if signed else info.bits)
    if signed:
        lines.append(f"setp.geu.{s} {outside}, {a}, {constant(source, high)};")
        low, replaced = f"setp.le.{s} {below}, {a}, {constant(source, -high - 1)};", info.minimum
    else:
        lines.append(f"setp.leu.{s} {outside}, {a}, {constant(source, -1.0)};")
        low, replaced = f"setp.ge.{s} {below}, {a}, {constant(source, high)};", info.maximum if info.bits < 64 else -1
    if info.bits < 32:  # what does not fit, but fits a word
        lines += [low, f"or.pred {outside}, {outside}, {below};"]
    lines.append(f"selp.b{word} {result}, {replaced}, {result}, {outside};")
    lines.append(f"cvt.{t}.{sign}32 {d}, {result};" if info.bits < 32 else f"mov.b{word} {d}, {result};")
    return [*lines, *_extended(t, d)]


def bitcast(e: Emitter, d: str, a: str, s: TypeText, t: TypeText) -> Lines:
    """Text of a reinterpretation."""
    if s.info.bits == 8:
        return [f"cvt.{t}.{t.memory} {d}, {a};"]
    return [f"mov.{t.bits} {d}, {a};"]


# --- reductions ------------------------------------------------------------------------------------------------------


def accumulation(e: Emitter, op: int, d: str, a: str, b: str, t: TypeText) -> Lines:
    """Text that combines ``b`` into ``a``; minimum and maximum prefer numbers, as ``min.f32`` does."""
    row = REDUCTIONS[op].row(t.info.type)
    if row not in ("fmin", "fmax"):
        return TEXTS[KIND[row] << TYPE_BITS | t.info.type](e, d, a, b, t)  # type: ignore[no-any-return]
    if t.info.type == BFLOAT16:
        return _by_single(_infix(f"{row[1:]}.{{t}}"), False)(e, d, a, b, t)
    if t.info.bits == 16:
        return _in_single(_infix(f"{row[1:]}.f32"))(e, d, a, b, t)
    return [f"{row[1:]}.{t} {d}, {a}, {b};"]
