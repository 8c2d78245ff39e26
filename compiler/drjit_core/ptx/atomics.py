"""PTX text of updates of memory: plain ones, ``red`` and ``atom``, and, for what has no such instruction, loops of
compare-and-exchange on the aligned word that the element is part of.

Threads of a warp that update the same element combine what they have first, so that one of them does all, and conflicts
remain between warps (E. Westphal, *Voting and shuffling to optimize atomic operations*, NVIDIA 2015): in each round the
threads of one element halve in number.  Where memory is small, these update a table of their block (:mod:`.tables`).

Exchanges are what programs synchronise by: other memory is ordered with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codegen.linear import Access
from ..codegen.target import ATOMIC, COMBINED, SHARED
from ..ops.reductions import COMPARE_EXCHANGE, EXCHANGE, REDUCTIONS
from ..types import BOOL, FLOAT16, TYPE_BITS, TYPES, ReduceOp, TypeInfo
from . import elements
from .registers import FALSE, TRUE, Registers
from .texts import Lines, T, accumulation

if TYPE_CHECKING:
    from .function import FunctionEmitter

__all__ = ["SHARED_UPDATES", "added", "as_bits", "exchange", "from_bits", "shuffled", "update"]

_RELAXED, _ORDERED, _IN_BLOCK = ".relaxed.gpu.global", ".acq_rel.gpu.global", ".relaxed.cta.shared"
_BITWISE = {ReduceOp.And.value: "and", ReduceOp.Or.value: "or"}
_EXTREMES = {ReduceOp.Min.value: "min", ReduceOp.Max.value: "max"}


def _instruction(op: int, info: TypeInfo) -> str | None:
    """What ``red`` and ``atom`` do at once."""
    if op == ReduceOp.Add.value and info.type == FLOAT16:
        return "add.noftz.f16"
    if info.bits < 32:
        return None
    if op == ReduceOp.Add.value:
        return f"add.{'f' if info.kind == 'f' else 'u'}{info.bits}"
    if op in _EXTREMES and info.kind != "f":
        return f"{_EXTREMES[op]}.{T[info.type]}"
    return f"{_BITWISE[op]}.b{info.bits}" if op in _BITWISE else None


#: Updates of tables that threads of a block share, as ``operator << TYPE_BITS | type``: those that are an instruction.
SHARED_UPDATES = frozenset(op << TYPE_BITS | info.type for op in REDUCTIONS for info in TYPES
                           if info is not None and info.bits >= 32 and info.kind in REDUCTIONS[op].accepts and
                           _instruction(op, info) is not None)


def update(emitter: FunctionEmitter, op: int, type_: int, address: str, data: str, wanted: str,
           access: Access) -> str:
    """Combine a value into an element; returns the register with what that was, if it is wanted."""
    out, guard = emitter.lines, emitter.guard(wanted)
    if access.strategy not in (ATOMIC, COMBINED, SHARED):
        old, new = emitter.new(type_), emitter.new(type_)
        out += elements.loaded(emitter, type_, old, address, guard)
        if type_ == BOOL:
            data = emitter.as_register(data)
        out += accumulation(emitter, op, new, old, data, T[type_])
        out += elements.stored(emitter, type_, address, new, guard)
        return old
    if access.strategy != ATOMIC and not access.fetched:
        done = emitter.label("combined")
        emitter.skip(wanted, done)
        data, first = _combined(emitter, op, type_, address, data)
        if access.strategy == SHARED:
            out.append(f"@{first} red{_IN_BLOCK}.{_instruction(op, TYPES[type_])} [{address}], {data};")
        else:
            update(emitter, op, type_, address, data, first, access._replace(strategy=ATOMIC))
        out.append(f"{done}:")
        return ""
    name = _instruction(op, TYPES[type_])
    if name is None and op in _EXTREMES and TYPES[type_].bits >= 32 and not access.fetched:
        _by_bits(emitter, op, type_, address, data, wanted)
        return ""
    if name is None:
        return _attempts(emitter, op, type_, address, data, wanted)
    if not access.fetched:
        out.append(added(op, type_, address, data, guard))
        return ""
    old = emitter.new(type_)
    out += [emitter.clear(type_, old), f"{guard}atom{_RELAXED}.{name} {old}, [{address}], {data};"]
    return old


def added(op: int, type_: int, address: str, data: str, guard: str) -> str:
    """Text that combines a value into an element of memory, of the updates that are an instruction."""
    return f"{guard}red{_RELAXED}.{_instruction(op, TYPES[type_])} [{address}], {data};"


def shuffled(emitter: Registers, type_: int, name: str, how: str, rest: str) -> tuple[Lines, str]:
    """Text of the value that another thread of the warp has."""
    t, other, shuffle = T[type_], emitter.new(type_), f"shfl.sync.{how}.b32"
    if t.word == 64:
        low, high, a, b = emitter.registers("%r", "%r", "%r", "%r")
        return [f"mov.b64 {{{low}, {high}}}, {name};", f"{shuffle} {a}, {low}, {rest};",
                f"{shuffle} {b}, {high}, {rest};", f"mov.b64 {other}, {{{a}, {b}}};"], other
    if t.word == 32:
        return [f"{shuffle} {other}, {name}, {rest};"], other
    word = emitter.register("%r")
    out, back = (f"selp.b32 {word}, 1, 0, {name};", f"setp.ne.u32 {other}, {word}, 0;") if type_ == BOOL else \
        (f"cvt.u32.u16 {word}, {name};", f"cvt.u16.u32 {other}, {word};")
    return [out, f"{shuffle} {word}, {word}, {rest};", back], other


def _combined(emitter: FunctionEmitter, op: int, type_: int, address: str, data: str) -> tuple[str, str]:
    """Append text that combines what threads have for one address; in the first of them, the result, and its mask."""
    out, again, over = emitter.lines, emitter.label("peers"), emitter.label("alone")
    active, peers, below, rank, rest, lane, following, odd = emitter.registers(*["%r"] * 8)
    total, sum_, first, others, more, is_odd = emitter.new(type_), emitter.new(type_), *emitter.registers(*["%p"] * 4)
    out += [f"activemask.b32 {active};", f"match.any.sync.b64 {peers}, {address}, {active};",
            f"mov.u32 {below}, %lanemask_lt;", f"and.b32 {below}, {peers}, {below};", f"popc.b32 {rank}, {below};",
            f"setp.eq.u32 {first}, {below}, 0;", f"mov.u32 {rest}, %lanemask_gt;", f"and.b32 {rest}, {peers}, {rest};",
            f"mov.u32 {lane}, %laneid;", emitter.move(type_, total, data), f"{again}:",
            f"setp.ne.u32 {others}, {rest}, 0;", f"vote.sync.any.pred {more}, {others}, {active};",
            f"@!{more} bra {over};", f"brev.b32 {following}, {rest};", f"clz.b32 {following}, {following};",
            f"selp.b32 {following}, {following}, {lane}, {others};"]
    lines, other = shuffled(emitter, type_, total, "idx", f"{following}, 31, {active}")
    out += [*lines, *accumulation(emitter, op, sum_, total, other, T[type_])]
    out += [f"@{others} mov.{T[type_].declared} {total}, {sum_};", f"and.b32 {odd}, {rank}, 1;",
            f"setp.ne.u32 {is_odd}, {odd}, 0;", f"vote.sync.ballot.b32 {odd}, {is_odd}, {active};",
            f"not.b32 {odd}, {odd};", f"and.b32 {rest}, {rest}, {odd};", f"shr.u32 {rank}, {rank}, 1;",
            f"bra {again};", f"{over}:"]
    return total, first


def exchange(emitter: FunctionEmitter, op: int, type_: int, address: str, data: str, wanted: str,
             expected: list[str]) -> str:
    """Put a value in the place of an element, maybe only if that is what is expected; returns what it was."""
    if TYPES[type_].size < 4:
        return _attempts(emitter, op, type_, address, data, wanted, *expected)
    word, out, guard = TYPES[type_].bits, emitter.lines, emitter.guard(wanted)
    bits, old = as_bits(emitter, type_, data), _bits_register(emitter, word)
    out.append(f"mov.b{word} {old}, 0;")
    if op == EXCHANGE:
        out.append(f"{guard}atom{_ORDERED}.exch.b{word} {old}, [{address}], {bits};")
    else:
        out.append(f"{guard}atom{_ORDERED}.cas.b{word} {old}, [{address}], "
                   f"{as_bits(emitter, type_, expected[0])}, {bits};")
    return from_bits(emitter, type_, old)


def _attempts(emitter: FunctionEmitter, op: int, type_: int, address: str, data: str, wanted: str,
              expected: str = "") -> str:
    """A loop of compare-and-exchange.  Who meets conflicts takes a round for each of them."""
    t, out, small = T[type_], emitter.lines, T[type_].size < 4
    order = _ORDERED if op in (EXCHANGE, COMPARE_EXCHANGE) else _RELAXED
    word, field = max(32, 8 * t.size), (1 << 8 * t.size) - 1
    done, again, result = emitter.label("updated"), emitter.label("update"), emitter.new(type_)
    out.append(emitter.clear(type_, result))
    if wanted == FALSE:
        return result
    emitter.skip(wanted, done)
    if type_ == BOOL:
        data = emitter.as_register(data)
    found, assumed, new_word, failed = *(_bits_register(emitter, word) for _ in range(3)), emitter.new(BOOL)
    base, shift, cleared = address, "", ""
    if small:
        base, low, shift, hole, cleared = emitter.registers("%rd", "%rd", "%r", "%r", "%r")
        out += [f"and.b64 {base}, {address}, -4;", f"and.b64 {low}, {address}, 3;", f"cvt.u32.u64 {shift}, {low};",
                f"shl.b32 {shift}, {shift}, 3;", f"mov.b32 {hole}, {field};", f"shl.b32 {hole}, {hole}, {shift};",
                f"not.b32 {hole}, {hole};"]
    bits = as_bits(emitter, type_, data) if order == _ORDERED else ""
    wished = as_bits(emitter, type_, expected) if op == COMPARE_EXCHANGE else ""
    out += [f"ld.relaxed.gpu.global.b{word} {found}, [{base}];", f"{again}:", f"mov.b{word} {assumed}, {found};"]
    piece = assumed
    if small:
        piece = emitter.register("%r")
        out += [f"shr.u32 {piece}, {assumed}, {shift};", f"and.b32 {piece}, {piece}, {field};",
                f"and.b32 {cleared}, {assumed}, {hole};"]
    old = from_bits(emitter, type_, piece)
    if op == COMPARE_EXCHANGE:
        same, chosen = emitter.new(BOOL), _bits_register(emitter, word)
        out += [f"setp.eq.u{word} {same}, {piece}, {wished};", f"selp.b{word} {chosen}, {bits}, {piece}, {same};"]
        bits = chosen
    elif op != EXCHANGE:
        new = emitter.new(type_)
        out += accumulation(emitter, op, new, old, data, t)
        bits = as_bits(emitter, type_, new)
    if small:
        out += [f"shl.b32 {new_word}, {bits}, {shift};", f"or.b32 {new_word}, {new_word}, {cleared};"]
    else:
        out.append(f"mov.b{word} {new_word}, {bits};")
    out += [f"atom{order}.cas.b{word} {found}, [{base}], {assumed}, {new_word};",
            f"setp.ne.u{word} {failed}, {found}, {assumed};", f"@{failed} bra {again};",
            emitter.move(type_, result, old), f"{done}:"]
    return result


def _by_bits(emitter: FunctionEmitter, op: int, type_: int, address: str, data: str, wanted: str) -> None:
    """Minima and maxima of floats, unless they are there already: as integers, those without a sign have the same
    order, and those with one the opposite one.  NaN, which a number takes the place of, has none."""
    t, out, word = T[type_], emitter.lines, T[type_].word
    done, slow = emitter.label("extreme"), emitter.label("nan")
    if wanted == FALSE:
        return
    emitter.skip(wanted, done)
    old, bits = emitter.new(type_), _bits_register(emitter, word)
    is_nan, better, negative = emitter.registers("%p", "%p", "%p")
    lower, upper = ("min", "max") if op == ReduceOp.Min.value else ("max", "min")
    out += [f"ld.relaxed.gpu.global.{t} {old}, [{address}];", f"setp.nan.{t} {is_nan}, {old}, {old};",
            f"@{is_nan} bra {slow};",
            f"setp.{'lt' if lower == 'min' else 'gt'}.{t} {better}, {data}, {old};", f"@!{better} bra {done};",
            f"mov.b{word} {bits}, {data};", f"setp.lt.s{word} {negative}, {bits}, 0;",
            f"@!{negative} red{_RELAXED}.{lower}.s{word} [{address}], {bits};",
            f"@{negative} red{_RELAXED}.{upper}.u{word} [{address}], {bits};", f"bra {done};", f"{slow}:"]
    _attempts(emitter, op, type_, address, data, TRUE)
    out.append(f"{done}:")


def _bits_register(emitter: Registers, word: int) -> str:
    return emitter.register("%rd" if word == 64 else "%r")


def as_bits(emitter: Registers, type_: int, value: str) -> str:
    """A value as it lies in memory, in a register of at least 32 bits."""
    t, word = T[type_], max(32, 8 * T[type_].size)
    bits = _bits_register(emitter, word)
    if type_ == BOOL:
        emitter.lines.append(f"mov.b32 {bits}, {int(value == TRUE)};" if value in (TRUE, FALSE) else
                             f"selp.b32 {bits}, 1, 0, {value};")
    elif t.word == 16:
        emitter.lines.append(f"cvt.u32.u16 {bits}, {value};")
        if t.size == 1:
            emitter.lines.append(f"and.b32 {bits}, {bits}, 255;")
    else:
        emitter.lines.append(f"mov.b{word} {bits}, {value};")
    return bits


def from_bits(emitter: Registers, type_: int, bits: str) -> str:
    """The value that such bits are."""
    t, value = T[type_], emitter.new(type_)
    if type_ == BOOL:
        emitter.lines.append(f"setp.ne.u32 {value}, {bits}, 0;")
    elif t.word == 16:
        emitter.lines.append(f"cvt.u16.u32 {value}, {bits};")
        if t.size == 1:
            emitter.lines.append(f"cvt.{t}.{t.memory} {value}, {value};")
    else:
        emitter.lines.append(f"mov.b{t.word} {value}, {bits};")
    return value
