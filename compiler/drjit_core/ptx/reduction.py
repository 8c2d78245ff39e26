"""PTX text of reductions: of threads, warps and blocks, and a second kernel that combines what blocks have found.

The number of blocks follows from the width and the program alone, and so do the bits of a result.  Threads add single
precision up to 64 times before they go on in double precision, and half precision in single; what blocks store, and
combine, is double.  A few results are reduced by shuffles in each warp; many lie in shared memory first, eight at a
time, of which each warp reduces one by a function: that takes an instruction or two for each, not twenty.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ops.reductions import REDUCTIONS
from ..types import BOOL, COMPUTES_IN, FLOAT32, FLOAT64, POINTER, UINT32, ReduceOp
from . import atomics, elements, texts
from .calls import Callee, receive
from .function import TRUE, FunctionEmitter
from .module import ModuleContext
from .texts import Lines, T, accumulation, constant

__all__ = ["BLOCK", "COMBINE", "WARP", "WARPS", "Accumulator", "Flushes", "block", "block_total", "combine",
           "partial_bytes", "reduced_by_warp"]

#: Threads of a block, and of a warp; warps of a block.
BLOCK, WARP = 256, 32
WARPS = BLOCK // WARP
#: Name of the second kernel.
COMBINE = "combine"
#: Additions in single precision before the sum goes on in double precision.
_FLUSHED = 64
#: From so many on, reductions lie in shared memory.
_MANY = 4


def partial_bytes(count: int, blocks: int) -> int:
    """Bytes of partial results of some reductions."""
    return 8 * count * blocks


class Accumulator:
    """What a thread has reduced so far."""

    def __init__(self, emitter: FunctionEmitter, op: int, type_: int) -> None:
        self.emitter, self.op, self.result = emitter, op, type_
        self.kept = COMPUTES_IN[type_]
        self.flushed = op == ReduceOp.Add.value and self.kept == FLOAT32
        #: The type of what blocks store.
        self.last = FLOAT64 if self.flushed else self.kept
        self.start = constant(self.kept, REDUCTIONS[op].identity(self.kept))
        self.register = emitter.new(self.kept)
        self.wide = emitter.new(FLOAT64) if self.flushed else ""

    def begin(self) -> Lines:
        """Text that begins with the neutral element."""
        lines = [self.emitter.move(self.kept, self.register, self.start)]
        if self.flushed:
            lines.append(f"mov.f64 {self.wide}, {constant(FLOAT64, -0.0)};")
        return lines

    def add(self, value: str, active: str) -> Lines:
        """Text that adds an element, if it takes part."""
        emitter, t = self.emitter, T[self.kept]
        lines: Lines = []
        if self.result != self.kept:
            wide = emitter.new(self.kept)
            lines += texts.cast(emitter, wide, value, T[self.result], t)
            value = wide
        if active != TRUE:
            chosen = emitter.new(self.kept)
            if self.kept != BOOL:
                lines.append(f"selp.{t.bits} {chosen}, {value}, {self.start}, {active};")
            elif self.start == TRUE:
                lines += [f"not.pred {chosen}, {active};", f"or.pred {chosen}, {chosen}, {value};"]
            else:
                lines.append(f"and.pred {chosen}, {value}, {active};")
            value = chosen
        return [*lines, *accumulation(emitter, self.op, self.register, self.register, value, t)]

    def widen(self) -> Lines:
        """Text that adds what there is to the sum in double precision."""
        wide = self.emitter.new(FLOAT64)
        return [f"cvt.f64.f32 {wide}, {self.register};", f"add.rn.f64 {self.wide}, {self.wide}, {wide};"]

    def total(self, lines: Lines) -> str:
        """Append text of what the thread has in the end; the register with that, of the type ``last``."""
        if not self.flushed:
            return self.register
        lines += self.widen()
        return self.wide

    def rounded(self, lines: Lines, total: str) -> str:
        """Append text that makes the result of a total."""
        return _rounded(self.emitter, lines, total, self.last, self.result)


class Flushes:
    """What loops do at the end of an iteration: now and then, sums go on in double precision."""

    def __init__(self, emitter: FunctionEmitter, accumulators: Sequence[Accumulator], each: int) -> None:
        self.emitter, self.each = emitter, each  # elements that an iteration adds
        self.accumulators = [accumulator for accumulator in accumulators if accumulator.flushed]
        self.count = emitter.register("%r") if self.accumulators else ""

    def begin(self) -> Lines:
        """Text before the loop."""
        return [f"mov.b32 {self.count}, 0;"] if self.accumulators else []

    def latch(self) -> Lines:
        """Text at the end of an iteration."""
        if not self.accumulators:
            return []
        more, over = self.emitter.new(BOOL), self.emitter.label("kept")
        lines = [f"add.u32 {self.count}, {self.count}, {self.each};", f"setp.lt.u32 {more}, {self.count}, {_FLUSHED};",
                 f"@{more} bra {over};", f"mov.b32 {self.count}, 0;"]
        for accumulator in self.accumulators:
            lines += [*accumulator.widen(), f"mov.f32 {accumulator.register}, {accumulator.start};"]
        return [*lines, f"{over}:"]


def _rounded(emitter: FunctionEmitter, lines: Lines, total: str, last: int, type_: int) -> str:
    if last == type_:
        return total
    result = emitter.new(type_)
    lines += texts.cast(emitter, result, total, T[last], T[type_])
    return result


def reduced_by_warp(emitter: FunctionEmitter, op: int, type_: int, name: str) -> Lines:
    """Text that leaves in a register what all threads of the warp have in it, reduced."""
    lines = []
    for distance in (16, 8, 4, 2, 1):
        more, other = atomics.shuffled(emitter, type_, name, "bfly", f"{distance}, 31, -1")
        lines += [*more, *accumulation(emitter, op, name, name, other, T[type_])]
    return lines


def _of_shared(emitter: FunctionEmitter, op: int, type_: int, address: str, distance: int) -> tuple[Lines, str]:
    """Text that reduces what lies in shared memory, as many as a block has warps."""
    lines, total = [], ""
    for number in range(WARPS):
        one = emitter.new(type_)
        lines += elements.loaded(emitter, type_, one, f"{address}+{distance * number}", space="shared")
        if total:
            lines += accumulation(emitter, op, total, total, one, T[type_])
        total = total or one
    return lines, total


def block_total(emitter: FunctionEmitter, op: int, type_: int, name: str, tid: str) -> tuple[Lines, str]:
    """Text that reduces what all threads of a block have, for all of them; its warps have done so already."""
    area = "of_warps"
    variable = f".shared .align 8 .b8 {area}[{8 * WARPS}];"
    if variable not in emitter.variables:
        emitter.variables.append(variable)
    lane, warp, base, first = emitter.registers("%r", "%r", "%rd", "%p")
    loads, total = _of_shared(emitter, op, type_, base, 8)
    return ["bar.sync 0;", f"and.b32 {lane}, {tid}, {WARP - 1};", f"shr.u32 {warp}, {tid}, 5;",
            f"mov.u64 {base}, {area};", f"setp.eq.u32 {first}, {lane}, 0;",
            f"mad.wide.u32 {base}, {warp}, 8, {base};",
            *elements.stored(emitter, type_, base, name, f"@{first} ", "shared"),
            "bar.sync 0;", f"mov.u64 {base}, {area};", *loads], total


# --- partial results -------------------------------------------------------------------------------------------------


def block(emitter: FunctionEmitter, accumulators: Sequence[Accumulator], tid: str) -> Lines:
    """Text at the end of a kernel: the partial results of the block; ``tid`` is the number of the thread in it."""
    count, number, to = len(accumulators), *emitter.registers("%r", "%rd")
    head = [f"mov.u32 {number}, %ctaid.x;",
            f"mad.wide.u32 {to}, {number}, {partial_bytes(count, 1)}, {emitter.parameter(1)};"]
    write = _few if count < _MANY else _many
    return [*head, *write(emitter, accumulators, tid, to)]


def _few(emitter: FunctionEmitter, accumulators: Sequence[Accumulator], tid: str, to: str) -> Lines:
    """By shuffles; the first thread combines what the warps have found."""
    lane, warp, base, first, other = emitter.registers("%r", "%r", "%rd", "%p", "%p")
    emitter.variables.append(f".shared .align 8 .b8 partials[{8 * WARPS * len(accumulators)}];")
    out = [f"and.b32 {lane}, {tid}, {WARP - 1};", f"shr.u32 {warp}, {tid}, 5;", f"mov.u64 {base}, partials;",
           f"mad.wide.u32 {base}, {warp}, 8, {base};", f"setp.eq.u32 {first}, {lane}, 0;"]
    for place, a in enumerate(accumulators):
        total = a.total(out)
        out += reduced_by_warp(emitter, a.op, a.last, total)
        out += elements.stored(emitter, a.last, f"{base}+{8 * WARPS * place}", total, f"@{first} ", "shared")
    done = emitter.label("partials")
    out += ["bar.sync 0;", f"setp.ne.u32 {other}, {tid}, 0;", f"@{other} bra {done};", f"mov.u64 {base}, partials;"]
    for place, a in enumerate(accumulators):
        area = emitter.register("%rd")
        out.append(f"add.u64 {area}, {base}, {8 * WARPS * place};")
        lines, total = _of_shared(emitter, a.op, a.last, area, 8)
        out += [*lines, *elements.stored(emitter, a.last, f"{to}+{8 * place}", total)]
    return [*out, f"{done}:"]


def _runs(kinds: Sequence[tuple[int, ...]], most: int) -> list[tuple[int, int]]:
    """First places and lengths of runs of equal kinds."""
    runs: list[tuple[int, int]] = []
    for place, kind in enumerate(kinds):
        if runs and runs[-1][1] < most and kinds[runs[-1][0]] == kind:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((place, 1))
    return runs


def _many(emitter: FunctionEmitter, accumulators: Sequence[Accumulator], tid: str, to: str) -> Lines:
    """Eight at a time through shared memory."""
    base, own = emitter.registers("%rd", "%rd")
    emitter.variables.append(f".shared .align 8 .b8 values_of_threads[{8 * BLOCK * WARPS}];")
    out = emitter.lines = [f"mov.u64 {base}, values_of_threads;", f"mad.wide.u32 {own}, {tid}, 8, {base};"]
    for first, length in _runs([(a.op, a.last) for a in accumulators], WARPS):
        a = accumulators[first]
        out.append("bar.sync 0;")
        for place in range(length):
            total = accumulators[first + place].total(out)
            out += elements.stored(emitter, a.last, f"{own}+{8 * BLOCK * place}", total, space="shared")
        at, number = emitter.registers("%rd", "%r")
        out += ["bar.sync 0;", f"add.u64 {at}, {to}, {8 * first};", f"mov.u32 {number}, {length};"]
        _warps_function(emitter.module, a.op, a.last).call(
            emitter, [(POINTER, base), (POINTER, at), (UINT32, number), (UINT32, tid)], [])
    return out


def _warps_function(module: ModuleContext, op: int, type_: int) -> Callee:
    """A function: each warp reduces one of the values that all threads have stored."""
    name = f"of_block_{op}_{type_}"
    known: Callee | None = module.callees.get(name)
    if known is not None:
        return known
    callee = module.callees[name] = Callee(name, (POINTER, POINTER, UINT32, UINT32), ())
    emitter = FunctionEmitter(module, module.linear.kernel)
    base, at, number, tid, lane, warp, place = emitter.registers("%rd", "%rd", "%r", "%r", "%r", "%r", "%r")
    none, first = emitter.registers("%p", "%p")
    out: Lines = []
    for argument, (type_of, register) in enumerate(
            ((POINTER, base), (POINTER, at), (UINT32, number), (UINT32, tid))):
        out += receive(emitter, type_of, f"a{argument}", register)
    out += [f"and.b32 {lane}, {tid}, {WARP - 1};", f"shr.u32 {warp}, {tid}, 5;",
            f"setp.ge.u32 {none}, {warp}, {number};", f"@{none} bra ${name};",
            f"mad.lo.u32 {place}, {warp}, {BLOCK}, {lane};", f"mad.wide.u32 {base}, {place}, 8, {base};",
            f"mad.wide.u32 {at}, {warp}, 8, {at};"]
    lines, total = _of_shared(emitter, op, type_, base, 8 * WARP)
    out += [*lines, *reduced_by_warp(emitter, op, type_, total), f"setp.eq.u32 {first}, {lane}, 0;",
            *elements.stored(emitter, type_, at, total, f"@{first} ")]
    callee.lines = ["{", *emitter.declarations(), *out, f"${name}:", "ret;", "}"]
    return callee


# --- the second kernel -----------------------------------------------------------------------------------------------


def combine(module: ModuleContext, accumulators: Sequence[Accumulator], slots: Sequence[int]) -> Lines:
    """A warp for each result: its threads take every 32nd block, in order.  ``slots`` are the parameters with the
    addresses of results."""
    emitter = FunctionEmitter(module, module.linear.kernel)
    out = emitter.lines
    count, partials = len(accumulators), emitter.parameter(1)
    number, tid, blocks, k, at, own, over, first = emitter.registers("%r", "%r", "%r", "%r", "%rd", "%r", "%p", "%p")
    out += [f"mov.u32 {number}, %ctaid.x;", f"mov.u32 {tid}, %tid.x;", f"ld.param.u32 {blocks}, [blocks];",
            f"mad.wide.u32 {partials}, {number}, 8, {partials};", f"setp.eq.u32 {first}, {tid}, 0;"]
    for place, length in _runs([(a.op, a.last, a.result) for a in accumulators], count):
        a = accumulators[place]
        again, found, other = emitter.label("next"), emitter.label("found"), emitter.label("other")
        total, one = emitter.new(a.last), emitter.new(a.last)
        out += [f"sub.u32 {own}, {number}, {place};", f"setp.ge.u32 {over}, {own}, {length};", f"@{over} bra {other};",
                emitter.move(a.last, total, constant(a.last, REDUCTIONS[a.op].identity(a.last))),
                f"mov.b32 {k}, {tid};", f"mad.wide.u32 {at}, {tid}, {partial_bytes(count, 1)}, {partials};",
                f"{again}:", f"setp.ge.u32 {over}, {k}, {blocks};", f"@{over} bra {found};",
                *elements.loaded(emitter, a.last, one, at), *accumulation(emitter, a.op, total, total, one, T[a.last]),
                f"add.u64 {at}, {at}, {partial_bytes(count, WARP)};", f"add.u32 {k}, {k}, {WARP};", f"bra {again};",
                f"{found}:", *reduced_by_warp(emitter, a.op, a.last, total)]
        result = _rounded(emitter, out, total, a.last, a.result)
        to = _result_address(emitter, own, slots[place:place + length])
        out += [*elements.stored(emitter, a.result, to, result, f"@{first} "), "ret;", f"{other}:"]
    return [f".visible .entry {COMBINE} ({module.parameter_list}, .param .u32 blocks)", f".maxntid {WARP}, 1, 1", "{",
            *emitter.declarations(), *emitter.prologue, *out, "ret;", "}"]


def _result_address(emitter: FunctionEmitter, own: str, slots: Sequence[int]) -> str:
    """Append text of where the result of a number goes: its address is a parameter, most often next to the others."""
    if len(slots) == 1:
        return emitter.parameter(slots[0])
    word, place = emitter.register("%rd"), emitter.register("%r")
    out = emitter.lines
    out.append(f"add.u32 {place}, {own}, {slots[0]};")
    if list(slots) != list(range(slots[0], slots[0] + len(slots))):
        out.append(f"mov.b32 {place}, {slots[0]};")
        for number, slot in enumerate(slots[1:], 1):
            is_it = emitter.register("%p")
            out += [f"setp.eq.u32 {is_it}, {own}, {number};", f"selp.b32 {place}, {slot}, {place}, {is_it};"]
    space = "param" if not emitter.module.words_in_memory else "global.nc"
    if space == "param":
        out.append(f"mov.b64 {word}, p;")
    else:
        out.append(f"ld.param.u64 {word}, [p];")
    out += [f"mad.wide.u32 {word}, {place}, 8, {word};", f"ld.{space}.u64 {word}, [{word}];"]
    return word
