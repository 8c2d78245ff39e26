"""LLVM text that updates elements of memory: plainly, or atomically."""

from __future__ import annotations

from collections.abc import Callable

from ..ops.reductions import COMPARE_EXCHANGE, EXCHANGE, EXCHANGES, name_of_update
from ..types import ReduceOp
from .module import ModuleContext
from .texts import ATOMIC_INSTRUCTIONS, TypeText, is_instruction, update, zero
from .writer import Writer

__all__ = ["Update", "update_function"]


class Update:
    """Writes updates of one kind; ``type_`` says what elements are in memory."""

    def __init__(self, writer: Writer, op: int, type_: TypeText, atomic: bool) -> None:
        self.writer, self.op, self.atomic = writer, op, atomic
        self.scalar = TypeText(type_.info, 0)
        self.element, self.align = type_.element, type_.info.size
        self.instruction = ATOMIC_INSTRUCTIONS[op][type_.info.kind] if is_instruction(op, type_) else ""

    def places(self, base: str, index_type: str, indices: str, lanes: int) -> list[str]:
        """The addresses of elements.  Atomic updates are barriers to out-of-order execution: all lines of the cache
        are asked for before the first one."""
        w, found = self.writer, []
        for lane in range(lanes or 1):
            index = w(f"extractelement {index_type} {indices}, i32 {lane}") if lanes else indices
            found.append(w(f"getelementptr {self.element}, ptr {base}, {_scalar(index_type)} {index}"))
            if self.atomic:
                self.ask(found[-1])
        return found

    def ask(self, at: str) -> None:
        """Ask for the line of the cache that an element is in."""
        self.writer.run("llvm.prefetch.p0", f"ptr {at}", "i32 1", "i32 3", "i32 1")

    def __call__(self, at: str, value: str, expected: str = "") -> str:
        """Update an element by a value; what was there before, unless it was not looked at."""
        return self._atomically(at, value, expected) if self.atomic else self._plainly(at, value, expected)

    def _plainly(self, at: str, value: str, expected: str) -> str:
        w, element = self.writer, self.element
        old = "" if self.op == ReduceOp.Identity.value else w.load(element, at, self.align)
        if self.op == COMPARE_EXCHANGE:
            same = w(f"icmp eq i{8 * self.align} {self._bits(old)}, {self._bits(expected)}")
            value = w.either(same, element, value, old)
        elif old and self.op != EXCHANGE:
            value = self._updated(old, value)
        w.store(element, value, at, self.align)
        return old

    def _atomically(self, at: str, value: str, expected: str) -> str:
        w, element, bits = self.writer, self.element, f"i{8 * self.align}"
        if self.op in EXCHANGES:  # what programs synchronise by: other memory is ordered with it
            new = self._bits(value)
            old = w(f"atomicrmw xchg ptr {at}, {bits} {new} acq_rel, align {self.align}") if self.op == EXCHANGE else \
                self._exchange(at, self._bits(expected), new, "acq_rel acquire")[0]
            return w(f"bitcast {bits} {old} to {element}")
        if self.instruction:
            return w(f"atomicrmw {self.instruction} ptr {at}, {element} {value} monotonic, align {self.align}")
        before = ""

        def attempt(values: list[str]) -> tuple[str, list[str]]:
            nonlocal before
            before = w(f"bitcast {bits} {values[0]} to {element}")
            new = self._bits(self._updated(before, value))
            found, success = self._exchange(at, values[0], new, "monotonic monotonic")
            return success, [found]

        w.until([(bits, w(f"load atomic {bits}, ptr {at} monotonic, align {self.align}"))], attempt)
        return before

    def _updated(self, old: str, value: str) -> str:
        return self.writer.named(lambda name: update(self.op, name, old, value, self.scalar))

    def _bits(self, value: str) -> str:
        return self.writer(f"bitcast {self.element} {value} to i{8 * self.align}")

    def _exchange(self, at: str, old: str, new: str, orders: str) -> tuple[str, str]:
        w, bits = self.writer, f"i{8 * self.align}"
        pair = w(f"cmpxchg ptr {at}, {bits} {old}, {bits} {new} {orders}, align {self.align}")
        return w(f"extractvalue {{ {bits}, i1 }} {pair}, 0"), w(f"extractvalue {{ {bits}, i1 }} {pair}, 1")


def update_function(module: ModuleContext, op: int, type_: TypeText, index_type: str, atomic: bool, fetched: bool,
                    masked: bool) -> str:
    """The name of a function that updates memory element by element.

    If it is ``fetched``, it returns the elements before their updates, and zero in lanes that are masked out.

    Lanes may coincide, so that they take turns.  A packet that is not full visits the lanes of its mask one after the
    other: those that are masked out touch no memory.
    """
    lanes = type_.lanes
    name = f"scatter_{name_of_update(op)}_{'atomic' if atomic else 'plain'}_{type_.info.name}_" \
           f"{_scalar(index_type)[1:]}_{lanes}{'_masked' * masked}{'_fetch' * fetched}"
    parameters, result = f"ptr %base, {type_} %values, {index_type} %indices", "void"
    if op == COMPARE_EXCHANGE:
        parameters += f", {type_} %expected"
    if masked:
        parameters += f", i{lanes or 1} %mask"
    if fetched:
        result = str(type_)

    def text(w: Writer) -> str:
        return _write_update(w, Update(w, op, type_, atomic), type_, index_type, fetched, masked)

    return module.need_function(name, parameters, text, result, "#0")


def _write_update(w: Writer, write: Update, type_: TypeText, index_type: str, fetched: bool, masked: bool) -> str:
    """Write such a function; what it ends with."""
    lanes, exchanges = type_.lanes, write.op == COMPARE_EXCHANGE
    own, otherwise = {}, w.label("otherwise")
    if masked and lanes:
        own = {given: w(f"alloca {t}, align 64") for given, t in (
            ("%values", type_), ("%indices", index_type), *([("%expected", type_)] if exchanges else []))}
        if fetched:
            own["found"] = w(f"alloca {type_}, align 64")
        w.only_if(w(f"icmp eq i{lanes} %mask, -1"), otherwise)
    elif masked:
        w.only_if("%mask", otherwise)
    places, found = write.places("%base", index_type, "%indices", lanes), "poison"
    for lane, at in enumerate(places):
        def of_lane(packet: str, lane: int = lane) -> str:
            return w(f"extractelement {type_} {packet}, i32 {lane}") if lanes else packet

        old = write(at, of_lane("%values"), of_lane("%expected") if exchanges else "")
        if fetched:
            found = w(f"insertelement {type_} {found}, {type_.element} {old}, i32 {lane}") if lanes else old
    if masked:
        w.line(f"ret {type_} {found}" if fetched else "ret void")
        w.open(otherwise)
        found = zero(type_)
        if lanes:
            w.leave(w(f"icmp eq i{lanes} %mask, 0"), f"{type_} {found}" if fetched else "void")
            found = _write_lanes_of_mask(w, write, type_, index_type, own)
    return f"{type_} {found}" if fetched else "void"


def _write_lanes_of_mask(w: Writer, write: Update, type_: TypeText, index_type: str, own: dict[str, str]) -> str:
    """Update the elements of the lanes of a mask, in memory of its own; what they were, if there is room for that."""
    index, element = _scalar(index_type), type_.element
    for given in ("%values", "%indices"):
        w.store(index_type if given == "%indices" else type_, given, own[given], 64)
    bits = w(f"zext i{type_.lanes} %mask to i64") if type_.lanes < 64 else "%mask"
    if "found" in own:
        w.store(type_, "zeroinitializer", own["found"], 64)
    if "%expected" in own:
        w.store(type_, "%expected", own["%expected"], 64)

    def place(lane: str) -> str:
        position = w(f"load {index}, ptr {w.at(index, own['%indices'], lane)}")
        return w(f"getelementptr {element}, ptr %base, {index} {position}")

    def one(lane: str) -> None:
        at = place(lane)
        value = w(f"load {element}, ptr {w.at(element, own['%values'], lane)}")
        expected = w(f"load {element}, ptr {w.at(element, own['%expected'], lane)}") if "%expected" in own else ""
        old = write(at, value, expected)
        if "found" in own:
            w.line(f"store {element} {old}, ptr {w.at(element, own['found'], lane)}")

    for visit in (lambda lane: write.ask(place(lane)), one) if write.atomic else (one,):
        def lane_of(rests: list[str], visit: Callable[[str], None] = visit) -> tuple[str, list[str]]:
            visit(w.call("i64", "llvm.cttz.i64", f"i64 {rests[0]}", "i1 true"))
            rest = w.and_(rests[0], w.sub(rests[0], 1))
            return w(f"icmp eq i64 {rest}, 0"), [rest]

        w.until([("i64", bits)], lane_of)
    return w.load(type_, own["found"], 64) if "found" in own else ""


def _scalar(index_type: str) -> str:
    return "i64" if "i64" in index_type else "i32"
