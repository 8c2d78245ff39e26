"""Executes PTX: all threads of a launch at once, instruction by instruction.

Threads that have branched apart are at places of their own.  Who is furthest behind goes on first, so that they meet
again where structured control flow joins; who spins lets others go on.  With a generator of random numbers, any warps
anywhere go on instead, which shows races.

The machine is strict where hardware is undefined or faults: addresses that are misaligned or belong to nobody, shuffles
and barriers that not all threads of a warp or block reach, registers that are read before they are written, and memory
that one launch both writes and reads as constant (``ld.global.nc``, whose cache does not see what is written).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import arithmetic
from .memory import GRANULE, Fault, Memory
from .text import BITS, DTYPES, Function, Instruction, parse

__all__ = ["Fault", "Machine", "Memory", "parse"]

WARP = 32
#: Jumps back, without anybody ending, after which whoever waits elsewhere goes on.
_PATIENCE = 64
#: Rounds after which a launch is said not to end.
_MOST_ROUNDS = 500_000
#: Threads that run at once, in whole blocks, if the order is that of the threads: a cache has their registers then.
_AT_ONCE = 1 << 13

_TWO_OPERANDS = (*arithmetic.TWO, "min", "max")


class Machine:
    """A device."""

    def __init__(self, memory: Memory | None = None, seed: int | None = None) -> None:
        self.memory = memory or Memory()
        self.random = None if seed is None else np.random.default_rng(seed)
        self.functions: dict[str, Function] = {}
        self.executed = 0  # instructions, each for all of the threads that came to it together
        self.uses = Uses(self.memory)

    def launch(self, functions: dict[str, Function], name: str, parameters: Mapping[str, Any], blocks: int,
               threads: Sequence[int]) -> None:
        """Run a kernel; parameters are arrays."""
        for function in functions.values():
            if not function.steps:
                _prepare(function)
        self.functions = functions
        x, y = (*threads, 1)[:2]
        words = {key: np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
                 for key, value in parameters.items()}
        shared = functions[name].bytes["shared"]
        together = blocks if self.random is not None else max(_AT_ONCE // (x * y), 1)
        try:
            with np.errstate(all="ignore"):
                for first in range(0, blocks, together):
                    some = min(together, blocks - first)
                    frame = Frame(self, functions[name], np.arange(first * x * y, (first + some) * x * y), (x, y),
                                  blocks)
                    frame.words, frame.first = words, first
                    if shared:
                        frame.shared = np.full((some, (shared + 15) // 8 * 8), 0xA5, np.uint8)
                    frame.run()
        finally:
            self.uses.forget()


class Uses:
    """What a launch has read as constant, and what it has written, of granules of memory."""

    CONSTANT, WRITTEN = 1, 2

    def __init__(self, memory: Memory) -> None:
        self._marks = np.zeros(len(memory.owned), np.uint8)
        self._marked: list[Any] = []

    def note(self, use: int, at: Any, line: str) -> None:
        """Some bytes are used; faults if they are used in the other way as well."""
        granules = at // GRANULE
        marks = self._marks[granules]
        if (marks & ~np.uint8(use)).any():
            raise Fault(f"{line}: memory that the launch both writes and reads as constant")
        if not marks.all():
            self._marks[granules] = use
            self._marked.append(granules)

    def forget(self) -> None:
        """The launch has ended."""
        for granules in self._marked:
            self._marks[granules] = 0
        self._marked.clear()


class Frame:
    """Threads within a function."""

    shared: Any = None
    first = 0  # of the blocks that run

    def __init__(self, machine: Machine, function: Function, threads: Any, shape: tuple[int, int],
                 blocks: int) -> None:
        self.machine, self.function, self.threads = machine, function, threads
        self.shape, self.blocks, self.block = shape, blocks, shape[0] * shape[1]
        self.count = len(threads)
        self.registers: dict[str, Any] = {}
        self.written: dict[str, Any] = {}  # by which threads, of registers that not all have written
        self.words: dict[str, Any] = {}  # parameters of the kernel
        self.values: dict[str, Any] = {}  # arguments and results, by name and offset
        local = function.bytes["local"]
        self.local = np.full((self.count, (local + 15) // 8 * 8), 0xA5, np.uint8) if local else None
        self.gone = np.zeros(self.count, bool)

    # --- values ------------------------------------------------------------------------------------------------------

    def get(self, name: str, chosen: Any) -> Any:
        """A register, of all threads or of those that are chosen."""
        register = self.registers.get(name)
        written = self.written.get(name)
        if register is None or written is not None and not (written if chosen is None else written[chosen]).all():
            raise Fault(f"{self.function.name}: {name} is read before it is written")
        return register if chosen is None else register[chosen]

    def set(self, name: str, chosen: Any, values: Any) -> None:
        """Write it: with what nobody else has."""
        if chosen is None:
            self.registers[name] = values
            self.written.pop(name, None)
            return
        register = self.registers.get(name)
        if register is None:
            register = self.registers[name] = np.zeros(self.count, values.dtype)
            self.written[name] = np.zeros(self.count, bool)
        register[chosen] = values
        if name in self.written:
            self.written[name][chosen] = True

    def special(self, name: str, chosen: Any) -> Any:
        """What tells a thread who it is."""
        threads = self.threads if chosen is None else self.threads[chosen]
        x, y = self.shape
        if name.startswith("%n"):
            number = {"%ntid.x": x, "%ntid.y": y, "%nctaid.x": self.blocks}[name]
            return _repeated(number.to_bytes(4, "little"), np.dtype(np.uint32), len(threads))
        if name.startswith("%lanemask"):
            bits = np.uint32(1) << (threads % self.block % WARP).astype(np.uint32)
            return bits - np.uint32(1) if name.endswith("lt") else ~(bits - np.uint32(1)) & ~bits
        number_of = {"%tid.x": lambda: threads % x, "%tid.y": lambda: threads // x % y,
                     "%ctaid.x": lambda: threads // self.block, "%laneid": lambda: threads % self.block % WARP}
        return number_of[name]().astype(np.uint32)

    def by_warp(self, chosen: Any, values: Any) -> tuple[Any, Any, Any, Any]:
        """Values of threads as a table of warps and lanes, which of these there are, and where threads are in it."""
        threads = self.threads if chosen is None else self.threads[chosen]
        warps, lanes = threads // WARP - threads[0] // WARP, threads % WARP
        there = np.zeros((warps[-1] + 1, WARP), bool)
        table = np.zeros(there.shape, values.dtype)
        table[warps, lanes], there[warps, lanes] = values, True
        return table, there, warps, lanes

    # --- memory ------------------------------------------------------------------------------------------------------

    def locate(self, space: str, addresses: Any, size: int, total: int, line: str) -> Any:
        """Element numbers of accesses."""
        if space == "global":
            return self.machine.memory.positions(addresses, size, total, line)
        at, limit = addresses.astype(np.int64), (self.local if space == "local" else self.shared).shape[1]
        if len(at) and (at.min() < 0 or at.max() + total > limit):
            raise Fault(f"{line}: beyond {space} memory")
        if (at % total).any():
            raise Fault(f"{line}: a misaligned address")
        return at // size

    def _rows(self, space: str, chosen: Any) -> Any:
        if space == "local":
            return np.arange(self.count) if chosen is None else chosen
        return (self.threads if chosen is None else self.threads[chosen]) // self.block - self.first

    def read(self, space: str, at: Any, dtype: np.dtype[Any], chosen: Any) -> Any:
        """Elements of memory."""
        if space == "global":
            return self.machine.memory.views[dtype.str[1:]][at]
        return (self.local if space == "local" else self.shared).view(dtype)[self._rows(space, chosen), at]

    def update(self, at: Any, dtype: np.dtype[Any], function: Any, values: Any, chosen: Any) -> None:
        """Combine values into shared memory."""
        function.at(self.shared.view(dtype), (self._rows("shared", chosen), at), values)

    def write(self, space: str, at: Any, values: Any, chosen: Any) -> None:
        """Write them; of several threads that write to one, the last one stays."""
        if space == "global":
            self.machine.memory.views[values.dtype.str[1:]][at] = values
        else:
            (self.local if space == "local" else self.shared).view(values.dtype)[self._rows(space, chosen), at] = values

    # --- the course --------------------------------------------------------------------------------------------------

    def ready_of(self, pc: int, places: Any, mask: Any) -> Any:
        """Of the threads at an instruction for some of a warp, those all of whose party is there."""
        here = np.flatnonzero(places == pc)
        masks = mask(self, here)
        _, there, warps, lanes = self.by_warp(here, masks)
        if not (masks >> lanes.astype(np.uint32) & np.uint32(1)).all():
            raise Fault(f"threads that are not of their own party: {self.function.code[pc].line}")
        present = _bits(there)
        return here[masks & ~present[warps] == 0]

    def ready(self, pc: int, places: Any) -> Any:
        """Of the threads at a barrier or shuffle, those all of whose block or warp is there, or has ended."""
        mask = self.function.steps[pc].mask
        if mask is not None:
            return self.ready_of(pc, places, mask)
        party, name = (self.block, "barrier") if self.function.code[pc].opcode == "bar.sync" else (WARP, "shuffle")
        if self.count % party:
            raise Fault(f"a {name} of threads that are no whole {'block' if party == self.block else 'warp'}")
        here, gone = (places == pc).reshape(-1, party), self.gone.reshape(-1, party)
        if name == "shuffle" and (here.any(1) & gone.any(1)).any():
            raise Fault(f"a shuffle with threads that have ended: {self.function.code[pc].line}")
        return np.flatnonzero((here & (here | gone).all(1)[:, None]).reshape(-1))

    def run(self) -> None:
        """Run all threads until they have ended."""
        function, count, random = self.function, self.count, self.machine.random
        steps, plain, end = function.steps, function.plain, len(function.steps)
        joins = set(function.labels.values())
        places, waiting = np.zeros(count, np.int64), np.zeros(count, bool)
        pc, chosen = 0, None
        spins = turn = rounds = 0
        while True:
            if pc < 0:
                pc, chosen = self._next(places, waiting, spins > _PATIENCE, turn)
                if pc < 0:
                    return
                if spins > _PATIENCE:
                    spins, turn = 0, turn + 1
            here = slice(None) if chosen is None else chosen
            if random is None and plain[pc]:
                waiting[here] = False
                for run in plain[pc]:
                    run(self, chosen)
                self.machine.executed += len(plain[pc])
                rounds += len(plain[pc])
                pc += len(plain[pc])
                if pc == end:
                    places[here], self.gone[here], pc = end, True, -1
                elif chosen is not None and pc in joins:
                    places[here], pc = pc, -1
                continue
            rounds += 1
            if rounds > _MOST_ROUNDS:
                raise Fault(f"{function.name} does not end")
            step = steps[pc]
            if step.waits and (chosen is not None or step.mask is not None) and (
                    chosen is None or not waiting[chosen].all()):
                places[here], waiting[here] = pc, True
                chosen = self.ready(pc, places)
                if not len(chosen):
                    pc = -1
                    continue
            waiting[here if chosen is None else chosen] = False
            if step.targets is None:
                step.run(self, chosen)
                pc += 1
            else:
                targets = step.targets(self, chosen, pc)
                if isinstance(targets, int):
                    spins += targets <= pc
                    pc = targets
                else:
                    spins += int(targets.min()) <= pc
                    places[here] = targets
                    pc = -1
                    continue
            here = slice(None) if chosen is None else chosen
            if pc == end:
                places[here], self.gone[here], pc = end, True, -1
            elif chosen is not None and (pc in joins or step.targets is not None) or \
                    random is not None and random.random() < 0.05:
                places[here], pc = pc, -1
            self.machine.executed += 1

    def _next(self, places: Any, waiting: Any, patient: bool, turn: int) -> tuple[int, Any]:
        """Who goes on, and where: -1 if all have ended."""
        end, random = len(self.function.steps), self.machine.random
        free = places[~waiting & (places < end)]
        if not len(free):
            for pc in np.unique(places[waiting]).tolist():  # those that have ended may have been waited for
                chosen = self.ready(pc, places)
                if len(chosen):
                    return pc, chosen
            if waiting.any():
                raise Fault(f"{self.function.name}: threads wait for each other for ever")
            return -1, None
        pc = int(free.min())
        if random is not None or patient:
            others = np.flatnonzero(np.bincount(free))
            pc = int(others[int(random.random() * len(others)) if random is not None else turn % len(others)])
        here = np.flatnonzero((places == pc) & ~waiting)
        if random is not None:
            warps = self.threads[here] // WARP - self.threads[0] // WARP
            kept = (random.random(warps[-1] + 1) < 0.5)[warps]
            if kept.any():
                here = here[kept]
        return pc, None if len(here) == self.count else here


# --- steps -----------------------------------------------------------------------------------------------------------


#: Instructions of several threads of a warp, the last operand of which says which; and those of all of its threads.
_OF_PARTIES, _OF_ALL = ("shfl", "vote", "match"), ("bar", "mma")


def _bits(table: Any) -> Any:
    """Masks of lanes as words."""
    return (table.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(-1).astype(np.uint32)


#: Roundings besides that to the nearest.
_DIRECTED = ("rz", "rm", "rp")
_ROUNDINGS = {"rn", "approx", "full", *_DIRECTED}


class Step:
    """What an instruction does."""

    __slots__ = ("mask", "run", "targets", "waits")

    def __init__(self, run: Any, targets: Any = None, waits: bool = False, mask: Any = None) -> None:
        self.run = run  # of the frame and the threads that take part (None: all)
        self.targets = targets  # of a jump: where to, as one place or one for each thread
        self.waits = waits  # for the rest of the warp or block
        self.mask = mask  # or for these threads of the warp


def _prepare(function: Function) -> None:
    """Make steps of its code; and those that come one after the other, whoever comes to them, by the first of them."""
    steps = function.steps = [_step(function, instruction) for instruction in function.code]
    plain: list[list[Any]] = [[] for _ in steps]
    joins = set(function.labels.values())
    for pc in range(len(steps) - 1, -1, -1):
        step = steps[pc]
        if step.targets is None and not step.waits:
            plain[pc] = [step.run, *(plain[pc + 1] if pc + 1 < len(steps) and pc + 1 not in joins else ())]
    function.plain = plain


def _step(function: Function, instruction: Instruction) -> Step:
    parts = instruction.opcode.split(".")
    name = parts[0]
    make = _MAKERS.get(name)
    if make is None:
        raise SyntaxError(f"unknown instruction: {instruction.line}")
    predicate = _source(function, instruction.guard, "pred") if instruction.guard else None
    negated = instruction.negated

    def taking_part(frame: Frame, chosen: Any) -> Any:
        values = predicate(frame, chosen)  # type: ignore[misc]
        return ~values if negated else values

    if name in ("bra", "ret", "brx"):
        return _jump(function, instruction, None if predicate is None else taking_part)
    run = make(function, parts, instruction.operands, instruction.line)
    if predicate is None:
        mask = _source(function, instruction.operands[-1], "u32") if name in _OF_PARTIES and \
            instruction.operands[-1] != "-1" else None
        return Step(run, waits=name in (*_OF_ALL, *_OF_PARTIES), mask=mask)
    if name in (*_OF_ALL, *_OF_PARTIES):
        raise SyntaxError(f"nobody may be left out: {instruction.line}")

    def guarded(frame: Frame, chosen: Any) -> None:
        values = taking_part(frame, chosen)
        if values.all():
            run(frame, chosen)
        elif values.any():
            run(frame, np.flatnonzero(values) if chosen is None else chosen[values])
    return Step(guarded)


def _jump(function: Function, instruction: Instruction, taking_part: Any) -> Step:
    end = len(function.code)
    if instruction.opcode == "brx.idx":
        number = _source(function, instruction.operands[0], "u32")
        places = np.array([function.labels[label] for label in function.branches[instruction.operands[1]]])

        def by_table(frame: Frame, chosen: Any, pc: int) -> Any:
            numbers = number(frame, chosen)
            if (numbers >= len(places)).any():
                raise Fault(f"{instruction.line}: beyond the table")
            return places[numbers]
        return Step(None, by_table)
    target = end if instruction.opcode == "ret" else function.labels[instruction.operands[0]]

    def targets(frame: Frame, chosen: Any, pc: int) -> Any:
        if taking_part is None:
            return target
        values = taking_part(frame, chosen)
        if values.all():
            return target
        return np.where(values, target, pc + 1) if values.any() else pc + 1
    return Step(None, targets)


def _as(values: Any, dtype: np.dtype[Any]) -> Any:
    """The same bits as another type of the size."""
    return values if values.dtype == dtype else values.view(dtype)


_SPECIAL = re.compile(r"%(tid|ntid|ctaid|nctaid)\.[xy]|%laneid|%lanemask_[lg]t")
_IMMEDIATE = re.compile(r"-?(0x)?[0-9A-Fa-f]+")


def _repeated(word: bytes, dtype: np.dtype[Any], count: int) -> Any:
    """The same number for all threads, which nobody may write to."""
    return np.ndarray(count, dtype, word, 0, (0,))


def _source(function: Function, text: str, type_: str) -> Any:
    """What yields an operand, as a type."""
    dtype = np.dtype(DTYPES[type_])
    if _SPECIAL.fullmatch(text):
        return lambda frame, chosen: _as(frame.special(text, chosen), dtype)
    if text.startswith("%"):
        own = function.type_of(text)
        if BITS[own] != BITS[type_]:
            raise SyntaxError(f"{function.name}: {text} is no {type_}")

        def register(frame: Frame, chosen: Any) -> Any:
            values = frame.registers.get(text)
            if values is None or frame.written and text in frame.written:
                values = frame.get(text, chosen)
            elif chosen is not None:
                values = values[chosen]
            return values if values.dtype == dtype else values.view(dtype)
        return register
    if text.startswith("0f"):
        value = np.array(int(text[2:], 16), np.uint32).view(np.float32)
    elif text.startswith("0d"):
        value = np.array(int(text[2:], 16), np.uint64).view(np.float64)
    elif _IMMEDIATE.fullmatch(text):
        if type_ in ("pred", "f16"):
            raise SyntaxError(f"{function.name}: {type_} has no immediate operands")
        bits = int(text, 0) & (1 << BITS[type_]) - 1
        value = np.array(bits, f"u{dtype.itemsize}").view(dtype)
    elif text in function.variables:
        value = np.array(function.variables[text][1], np.uint64)
    elif text in function.parameters:
        value = np.array(0, np.uint64)
    else:
        raise SyntaxError(f"{function.name}: operand {text}")
    if value.dtype.itemsize != dtype.itemsize:
        raise SyntaxError(f"{function.name}: {text} is no {type_}")
    word = value.tobytes()
    return lambda frame, chosen: _repeated(word, dtype, frame.count if chosen is None else len(chosen))


def _put(function: Function, name: str, type_: str) -> Any:
    """What writes a register."""
    own = function.type_of(name)
    if BITS[own] != BITS[type_]:
        raise SyntaxError(f"{function.name}: {name} is no {type_}")
    dtype = np.dtype(DTYPES[own])
    return lambda frame, chosen, values: frame.set(name, chosen, _as(values, dtype))


def _widened(values: Any, bits: int) -> Any:
    """Extended to the bits of a register, as the type says."""
    return values if values.dtype.itemsize * 8 == bits else values.astype(f"{values.dtype.kind}{bits // 8}")


def _arithmetic(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    name, type_ = parts[0], parts[-1]
    result = type_
    if name in ("min", "max"):
        compute = arithmetic.minimum(name == "min", "NaN" in parts)
    elif name in ("mul", "mad") and "wide" in parts:
        result = f"{type_[0]}{2 * BITS[type_]}"
        wide = np.dtype(DTYPES[result])

        def compute(a: Any, b: Any, *c: Any) -> Any:
            product = a.astype(wide) * b.astype(wide)
            return product + c[0] if c else product
    elif name == "mad":
        def compute(a: Any, b: Any, c: Any) -> Any:  # type: ignore[misc]
            return a * b + c
    elif {"approx", "full"} & set(parts):
        compute = arithmetic.approximate(name, "ftz" in parts)
    elif name == "fma":
        compute = functools.partial(arithmetic.fma, rounding=next((each for each in parts if each in _DIRECTED), "rn"))
    else:
        compute = arithmetic.TWO.get(".".join(parts[:2])) or arithmetic.TWO.get(name) or arithmetic.ONE[name]
        if name in ("popc", "clz"):
            result = "u32"
    if type_[0] == "f" and name in ("add", "sub", "mul", "div", "sqrt", "fma") and not _ROUNDINGS & set(parts):
        raise SyntaxError(f"{line} does not say how it rounds")
    types = [type_] * (len(operands) - 1)
    if name in ("shl", "shr"):
        types[1] = "u32"
    if name == "mad" and "wide" in parts:
        types[2] = result
    sources = [_source(function, operand, each) for operand, each in zip(operands[1:], types, strict=True)]
    put = _put(function, operands[0], result)

    if len(sources) == 1:
        only, = sources
        return lambda frame, chosen: put(frame, chosen, compute(only(frame, chosen)))
    if len(sources) == 2:
        one, two = sources
        return lambda frame, chosen: put(frame, chosen, compute(one(frame, chosen), two(frame, chosen)))
    return lambda frame, chosen: put(frame, chosen, compute(*(source(frame, chosen) for source in sources)))


def _funnel(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    low, high, count = (_source(function, operand, "u32") for operand in operands[1:])
    put = _put(function, operands[0], "u32")
    if parts[1:] != ["r", "wrap", "b32"]:
        raise SyntaxError(line)

    def run(frame: Frame, chosen: Any) -> None:
        word = high(frame, chosen).astype(np.uint64) << np.uint64(32) | low(frame, chosen).astype(np.uint64)
        put(frame, chosen, (word >> (count(frame, chosen) & np.uint32(31)).astype(np.uint64)).astype(np.uint32))
    return run


def _moved(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    target, source = operands
    if source.startswith("{") and parts[-1] == "b32":
        low, high = (_source(function, each.strip(), "u16") for each in source[1:-1].split(","))
        put = _put(function, target, "b32")
        return lambda frame, chosen: put(frame, chosen, high(frame, chosen).astype(np.uint32) << np.uint32(16) |
                                         low(frame, chosen).astype(np.uint32))
    if target.startswith("{"):
        value = _source(function, source, "u64")
        puts = [_put(function, each.strip(), "u32") for each in target[1:-1].split(",")]

        def split(frame: Frame, chosen: Any) -> None:
            words = np.ascontiguousarray(value(frame, chosen)).view(np.uint32)
            for place, put in enumerate(puts):
                put(frame, chosen, words[place::2].copy())
        return split
    put = _put(function, target, parts[-1])
    if source.startswith("{"):
        low, high = (_source(function, each.strip(), "u32") for each in source[1:-1].split(","))
        return lambda frame, chosen: put(frame, chosen, high(frame, chosen).astype(np.uint64) << np.uint64(32) |
                                         low(frame, chosen).astype(np.uint64))
    value = _source(function, source, parts[-1])
    return lambda frame, chosen: put(frame, chosen, value(frame, chosen).copy())


def _selected(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    a, b = (_source(function, operand, parts[-1]) for operand in operands[1:3])
    mask, put = _source(function, operands[3], "pred"), _put(function, operands[0], parts[-1])
    return lambda frame, chosen: put(frame, chosen, np.where(mask(frame, chosen), a(frame, chosen), b(frame, chosen)))


def _compared(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    a, b = (_source(function, operand, parts[-1]) for operand in operands[1:3])
    put = _put(function, operands[0], "pred")
    also = _source(function, operands[3], "pred") if len(operands) > 3 else None
    if parts[2:-1] != (["and"] if also else []) or parts[1] not in arithmetic.COMPARISONS and not (
            parts[-1][0] == "f" and (parts[1] == "nan" or parts[1][:-1] in arithmetic.COMPARISONS)):
        raise SyntaxError(line)

    def run(frame: Frame, chosen: Any) -> None:
        result = arithmetic.compare(parts[1], a(frame, chosen), b(frame, chosen))
        put(frame, chosen, result & also(frame, chosen) if also else result)
    return run


def _converted(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    target, source = parts[-2:]
    register, own = BITS[function.type_of(operands[1])], BITS[function.type_of(operands[0])]
    value, put = _source(function, operands[1], source if register == BITS[source] else f"u{register}"), \
        _put(function, operands[0], f"b{own}")
    dtype, from_ = np.dtype(DTYPES[target]), np.dtype(DTYPES[source])
    if (source[0] != "f" == target[0] or source[0] == target[0] == "f" and BITS[target] < BITS[source]) and not \
            {"rn", "rz"} & set(parts):
        raise SyntaxError(f"{line} does not say how it rounds")

    def run(frame: Frame, chosen: Any) -> None:
        values = value(frame, chosen)
        result = arithmetic.convert(parts[1:-2], values.astype(from_) if values.dtype != from_ else values, dtype)
        put(frame, chosen, _widened(result, own))
    return run


_ADDRESS = re.compile(r"\[([%\w]+)(?:\+(-?\d+))?\]$")


def _place(text: str) -> tuple[str, int]:
    match = _ADDRESS.match(text)
    if match is None:
        raise SyntaxError(text)
    return match[1], int(match[2] or 0)


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text[1:-1].split(",")] if text.startswith("{") else [text]


def _space_of(parts: list[str], line: str) -> str:
    found = [part for part in parts if part in ("global", "shared", "local", "param")]
    if len(found) != 1:
        raise SyntaxError(line)
    return found[0]


def _vector_of(parts: list[str], names: list[str], line: str) -> None:
    count = next((int(part[1:]) for part in parts if re.fullmatch(r"v\d", part)), 1)
    if count != len(names) or count not in (1, 2, 4):
        raise SyntaxError(line)


def _loaded(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    type_, names, (base, offset) = parts[-1], _listed(operands[0]), _place(operands[1])
    dtype, space = np.dtype(DTYPES[type_]), _space_of(parts, line)
    _vector_of(parts, names, line)
    own = [BITS[function.type_of(name)] for name in names]
    puts = [_put(function, name, f"b{bits}") for name, bits in zip(names, own, strict=True)]
    if space == "param":
        return _loaded_parameter(function, base, offset, dtype, own[0], puts[0])
    address, size, is_constant = _source(function, base, "u64"), dtype.itemsize, "nc" in parts

    def run(frame: Frame, chosen: Any) -> None:
        addresses = address(frame, chosen) + np.uint64(offset & (1 << 64) - 1)
        first = frame.locate(space, addresses, size, size * len(puts), line)
        if is_constant:
            frame.machine.uses.note(Uses.CONSTANT, first * size, line)
        for place, put in enumerate(puts):
            put(frame, chosen, _widened(frame.read(space, first + place, dtype, chosen), own[place]))
    return run


def _loaded_parameter(function: Function, base: str, offset: int, dtype: np.dtype[Any], bits: int, put: Any) -> Any:
    address = _source(function, base, "u64") if base.startswith("%") else None

    def run(frame: Frame, chosen: Any) -> None:
        if address is not None:  # the parameter of a kernel
            at = (address(frame, chosen) + np.uint64(offset)).astype(np.int64)
            values = frame.words["p"].view(dtype)[at // dtype.itemsize]
        elif base in frame.words:
            word = frame.words[base][offset:offset + dtype.itemsize].tobytes()
            values = _repeated(word, dtype, frame.count if chosen is None else len(chosen))
        else:
            name = f"{base}+{offset}"
            if name not in frame.values:
                raise Fault(f"{function.name}: {name} is read before it is written")
            values = _as(frame.values[name] if chosen is None else frame.values[name][chosen], dtype)
        put(frame, chosen, _widened(values, bits).copy())
    return run


def _stored(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    type_, names, (base, offset) = parts[-1], _listed(operands[1]), _place(operands[0])
    dtype, space = np.dtype(DTYPES[type_]), _space_of(parts, line)
    _vector_of(parts, names, line)
    sources = []
    for name in names:
        bits = BITS[function.type_of(name)] if name.startswith("%") else BITS[type_]
        sources.append(_source(function, name, type_ if bits == BITS[type_] else f"u{bits}"))

    def value(source: Any, frame: Frame, chosen: Any) -> Any:
        values = source(frame, chosen)
        return values.astype(dtype) if values.dtype.itemsize != dtype.itemsize else _as(values, dtype)

    if space == "param":
        def give(frame: Frame, chosen: Any) -> None:
            name, given = f"{base}+{offset}", value(sources[0], frame, chosen)
            whole = frame.values.get(name)
            if whole is None or whole.dtype != dtype:
                whole = frame.values[name] = np.zeros(frame.count, dtype)
            whole[slice(None) if chosen is None else chosen] = given
        return give
    address, size = _source(function, base, "u64"), dtype.itemsize

    def run(frame: Frame, chosen: Any) -> None:
        addresses = address(frame, chosen) + np.uint64(offset & (1 << 64) - 1)
        first = frame.locate(space, addresses, size, size * len(sources), line)
        if space == "global":
            frame.machine.uses.note(Uses.WRITTEN, first * size, line)
        for place, source in enumerate(sources):
            frame.write(space, first + place, value(source, frame, chosen), chosen)
    return run


def _exchanged(memory: Any, at: Any, expected: Any, new: Any) -> Any:
    """What threads find that compare and exchange one after the other: each time, up to those that change something."""
    old, left = np.empty(len(at), memory.dtype), np.arange(len(at))
    changing = expected != new
    while True:
        old[left] = memory[at[left]]
        who = left[(old[left] == expected[left]) & changing[left]]
        if not len(who):
            return old
        places, first = np.unique(at[who], return_index=True)
        memory[places] = new[who[first]]
        place = np.minimum(np.searchsorted(places, at[left]), len(places) - 1)
        left = left[(places[place] == at[left]) & (left > who[first][place])]


def _updated(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    fetched, type_ = parts[0] == "atom", parts[-1]
    dtype = np.dtype(DTYPES[type_])
    op = next(part for part in parts[1:] if part in (*arithmetic.UPDATES, "exch", "cas"))
    space = _space_of(parts, line)
    if type_ == "f16" and "noftz" not in parts or space not in ("global", "shared") or fetched and space == "shared":
        raise SyntaxError(line)
    put = _put(function, operands.pop(0), type_) if fetched else None
    base, offset = _place(operands[0])
    address, sources = _source(function, base, "u64"), [_source(function, each, type_) for each in operands[1:]]

    def one_by_one(memory: Any, at: Any, values: list[Any]) -> Any:
        if op == "cas":
            return _exchanged(memory, at, *values)
        old = np.empty(len(at), dtype)
        for number, place in enumerate(at.tolist()):
            old[number] = memory[place]
            memory[place] = values[0][number] if op == "exch" else arithmetic.UPDATES[op](
                memory[place], values[0][number])
        return old

    def run(frame: Frame, chosen: Any) -> None:
        at = frame.locate(space, address(frame, chosen) + np.uint64(offset), dtype.itemsize, dtype.itemsize, line)
        if space == "shared":
            frame.update(at, dtype, arithmetic.UPDATES[op], sources[0](frame, chosen), chosen)
            return
        frame.machine.uses.note(Uses.WRITTEN, at * dtype.itemsize, line)
        memory, values = frame.machine.memory.views[dtype.str[1:]], [source(frame, chosen) for source in sources]
        if put is None:
            arithmetic.UPDATES[op].at(memory, at, values[0])
        else:
            put(frame, chosen, one_by_one(memory, at, values))
    return run


def _active(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    put = _put(function, operands[0], "u32")

    def run(frame: Frame, chosen: Any) -> None:
        count = frame.count if chosen is None else len(chosen)
        _, there, warps, _ = frame.by_warp(chosen, np.zeros(count, bool))
        put(frame, chosen, _bits(there)[warps])
    return run


def _voted(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    if parts[1:] not in (["sync", "any", "pred"], ["sync", "ballot", "b32"]):
        raise SyntaxError(line)
    value, mask = _source(function, operands[1], "pred"), _source(function, operands[2], "u32")
    put = _put(function, operands[0], parts[-1])

    def run(frame: Frame, chosen: Any) -> None:
        table, _, warps, _ = frame.by_warp(chosen, value(frame, chosen))
        bits = _bits(table)[warps] & mask(frame, chosen)
        put(frame, chosen, bits != 0 if parts[2] == "any" else bits)
    return run


def _matched(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    if parts[1:] != ["any", "sync", "b64"]:
        raise SyntaxError(line)
    value, mask = _source(function, operands[1], "u64"), _source(function, operands[2], "u32")
    put = _put(function, operands[0], "u32")

    def run(frame: Frame, chosen: Any) -> None:
        table, there, warps, lanes = frame.by_warp(chosen, value(frame, chosen))
        equal = _bits((table[:, :, None] == table[:, None, :]) & there[:, None, :])
        put(frame, chosen, equal[warps, lanes] & mask(frame, chosen))
    return run


def _shuffled_from(function: Function, operands: list[str], line: str) -> Any:
    """From lanes that each thread chooses, which have to be of its party."""
    value, from_, mask = (_source(function, operands[place], "u32") for place in (1, 2, 4))
    put = _put(function, operands[0], "u32")

    def run(frame: Frame, chosen: Any) -> None:
        table, _, warps, _ = frame.by_warp(chosen, value(frame, chosen))
        lanes = from_(frame, chosen)
        if not (lanes < WARP).all() or not (mask(frame, chosen) >> lanes & np.uint32(1)).all():
            raise Fault(f"{line}: from a thread that takes no part")
        put(frame, chosen, table[warps, lanes])
    return run


def _shuffled(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    if parts[1:] == ["sync", "idx", "b32"] and operands[3] == "31":
        return _shuffled_from(function, operands, line)
    if parts[1:] != ["sync", "bfly", "b32"] or operands[3:] != ["31", "-1"]:
        raise SyntaxError(line)
    value, put, distance = _source(function, operands[1], "u32"), _put(function, operands[0], "u32"), int(operands[2])

    def run(frame: Frame, chosen: Any) -> None:
        values = value(frame, chosen)  # of whole warps
        put(frame, chosen, values[np.arange(len(values)) ^ distance])
    return run


def _multiplied(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    """The product of matrices that the threads of a warp have the elements of, as the PTX manual says."""
    type_ = parts[-2]
    if parts[1:] != ["sync", "aligned", "m16n8k16", "row", "col", "f32", type_, type_, "f32"] or type_ not in (
            "f16", "bf16"):
        raise SyntaxError(line)
    target, *given = map(_listed, operands)
    if [len(target), *map(len, given)] != [4, 4, 2, 4]:
        raise SyntaxError(line)
    puts = [_put(function, name, "f32") for name in target]
    *factors, sums = [[_source(function, name, of) for name in names]
                      for names, of in zip(given, ("u32", "u32", "f32"), strict=True)]
    group, pair = np.arange(WARP) // 4, np.arange(WARP) % 4 * 2

    def halves(words: Any) -> Any:
        """Both numbers of each word, the lower half first."""
        each = np.ascontiguousarray(words.reshape(-1, WARP)).view(np.uint16).reshape(-1, WARP, 2)
        if type_ == "f16":
            return each.view(np.float16).astype(np.float64)
        return (each.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)

    def run(frame: Frame, chosen: Any) -> None:
        (a, b), c = [[halves(value(frame, chosen)) for value in values] for values in factors], [
            value(frame, chosen).reshape(-1, WARP) for value in sums]
        count = len(c[0])
        left, right, total = np.empty((count, 16, 16)), np.empty((count, 16, 8)), np.empty((count, 16, 8))
        for k in range(2):
            for number in range(4):
                left[:, group + 8 * (number % 2), pair + k + 8 * (number // 2)] = a[number][:, :, k]
            for number in range(2):
                right[:, pair + k + 8 * number, group] = b[number][:, :, k]
                total[:, group + 8 * number, pair + k] = c[2 * number + k]
        result = (left @ right + total).astype(np.float32)
        for number in range(2):
            for k in range(2):
                puts[2 * number + k](frame, chosen, result[:, group + 8 * number, pair + k].reshape(-1))
    return run


def _barrier(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    if (parts[1:], operands) not in ((["sync"], ["0"]), (["warp", "sync"], ["-1"])):
        raise SyntaxError(line)
    return lambda frame, chosen: None


def _called(function: Function, parts: list[str], operands: list[str], line: str) -> Any:
    results = [each.strip() for each in operands.pop(0)[1:-1].split(",")] if operands[0].startswith("(") else []
    name = operands[0]
    given = [each.strip() for each in operands[1][1:-1].split(",")] if len(operands) > 1 else []

    def run(frame: Frame, chosen: Any) -> None:
        callee = frame.machine.functions[name]
        threads = frame.threads if chosen is None else frame.threads[chosen]
        inner = Frame(frame.machine, callee, threads, frame.shape, frame.blocks)
        inner.shared, inner.first = frame.shared, frame.first
        here = slice(None) if chosen is None else chosen
        for parameter, argument in zip(callee.parameters, given, strict=True):
            inner.values[f"{parameter}+0"] = frame.values[f"{argument}+0"][here].copy()
        inner.run()
        for parameter, result in zip(callee.results, results, strict=True):
            for key, values in inner.values.items():
                base, _, offset = key.partition("+")
                if base == parameter:
                    whole = frame.values.get(f"{result}+{offset}")
                    if whole is None or whole.dtype != values.dtype:
                        whole = frame.values[f"{result}+{offset}"] = np.zeros(frame.count, values.dtype)
                    whole[here] = values
    return run


_MAKERS: dict[str, Any] = {
    **dict.fromkeys((*_TWO_OPERANDS, *arithmetic.ONE, *arithmetic.APPROXIMATE, "mul", "mad", "fma"), _arithmetic),
    "shf": _funnel, "mov": _moved, "selp": _selected, "setp": _compared, "cvt": _converted, "ld": _loaded,
    "st": _stored, "atom": _updated, "red": _updated, "shfl": _shuffled, "vote": _voted, "match": _matched,
    "activemask": _active, "bar": _barrier, "mma": _multiplied, "call": _called,
    "bra": _jump, "brx": _jump, "ret": _jump}
