"""Writing LLVM text: names, parameters, loops and branches with the phis that they take.

All text is written so, that of programs (by :mod:`.function`) and that of steps, of functions that modules have
besides, and of the threads of the pool; rows of the op table have templates (:mod:`.texts`).  Code of steps goes to the
processor as it is written, without optimisation passes: what is to be unrolled or kept in registers is written so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..types import INT32, TYPES
from .lines import ATTRIBUTES, Lines
from .texts import TypeText, cast, vector

__all__ = ["Writer"]

#: Values that go round a loop: types and initial values.
Carried = Sequence[tuple[str, str]]


class Writer:
    """Writes the functions of one module; or a part of a function, with names in a scope of its own, that begins within
    a basic block."""

    def __init__(self, scope: str = "", label: str = "") -> None:
        self.lines = Lines(label)
        self._scope = scope
        self._declarations: dict[str, None] = {}
        self._count = 0
        self._parameters: dict[int, str] = {}

    # --- functions ---------------------------------------------------------------------------------------------------

    def kernel(self) -> None:
        """Begin the kernel: ``%begin``, ``%end``, ``%block`` are those of the block, ``%worker`` an i32."""
        self.function("void @kernel(ptr noalias %parameters, i64 %row_begin, i64 %row_end, i64 %begin, i64 %end, "
                    "i64 %block, i32 %worker)")

    def combine(self) -> None:
        """Begin the function that runs when all ``%blocks`` of the kernel have ended."""
        self.function("void @combine(ptr noalias %parameters, i64 %blocks)")

    def function(self, signature: str, attributes: str = "#0") -> None:
        """Begin a function: its type, name and parameters; :meth:`parameter` needs one named ``%parameters``."""
        self.lines += [f"define {signature} {attributes} {{", "entry:"]
        self.lines.go_on("entry")
        self._parameters = {}

    def end(self, result: str = "void") -> None:
        """End the function, with a result and its type."""
        self.lines += [f"ret {result}", "}"]

    def text(self, attributes: str = ATTRIBUTES) -> str:
        """The module."""
        return "\n".join([self.functions(), *self._declarations]) + "\n" + attributes + "\n"

    def functions(self) -> str:
        """What has been written, for a module that declares what it needs."""
        return "\n".join(self.lines)

    def parameter(self, number: int, type_: str = "i64") -> str:
        """One of the words that a pass gives: an integer, or a pointer (``ptr``).  To be read in the entry block."""
        value = self._parameters.get(number)
        if value is None:
            at = self("getelementptr inbounds i64, ptr %parameters, i64 " + str(number))
            value = self._parameters[number] = self(f"load {type_}, ptr {at}, align 8")
        return value

    def constant(self, value: str, align: int) -> str:
        """The address of a constant of the module."""
        name = "@" + self.name("constant")
        self._declarations[f"{name} = private unnamed_addr constant {value}, align {align}"] = None
        return name

    # --- instructions ------------------------------------------------------------------------------------------------

    def name(self, prefix: str = "v") -> str:
        """A name that nothing else has."""
        self._count += 1
        return f"{self._scope}{prefix}{self._count}"

    def __call__(self, instruction: str) -> str:
        """Write an instruction; returns the name of its value."""
        name = "%" + self.name()
        self.lines.append(f"{name} = {instruction}")
        return name

    def line(self, text: str) -> None:
        """Write an instruction without a value."""
        self.lines.append(text)

    def named(self, text: Callable[[str], str]) -> str:
        """Write lines that are made for the name of their value."""
        name = "%" + self.name()
        self.lines.append(text(name))
        return name

    def phi(self, type_: str, *incoming: tuple[object, str]) -> str:
        """A value that depends on where the block is entered from: values, and the blocks that they come from."""
        return self(_phi(type_, incoming))

    def late_phi(self, type_: str) -> tuple[str, Callable[..., None]]:
        """A :meth:`phi`, and what takes its values and blocks when they are known."""
        name, place = "%" + self.name(), len(self.lines)
        self.lines.append("")

        def complete(*incoming: tuple[object, str]) -> None:
            self.lines[place] = f"{name} = {_phi(type_, incoming)}"

        return name, complete

    def call(self, type_: str, function: str, *arguments: str) -> str:
        """A call of an intrinsic, such as ``llvm.umin.i64``; arguments have their types."""
        return self(f"call {type_} @{function}({', '.join(arguments)})")

    def run(self, function: str, *arguments: str) -> None:
        """A call of a function without a value; arguments have their types."""
        self.line(f"call void @{function}({', '.join(arguments)})")

    def at(self, type_: object, pointer: str, index: object) -> str:
        """The address of an element."""
        return self(f"getelementptr {type_}, ptr {pointer}, i64 {index}")

    def beyond(self, pointer: str, nbytes: object) -> str:
        """The address of so many bytes further on."""
        return self.at("i8", pointer, nbytes)

    def load(self, type_: object, pointer: str, align: int) -> str:
        """Read memory."""
        return self(f"load {type_}, ptr {pointer}, align {align}")

    def masked_load(self, t: TypeText, pointer: str, align: int, mask: str, otherwise: str = "zeroinitializer") -> str:
        """Read a packet where a mask is set; ``otherwise`` is a constant."""
        return self(f"call {t} @llvm.masked.load.{t.suffix}.p0(ptr {pointer}, i32 {align}, {t.mask} {mask}, "
                    f"{t} {otherwise})")

    def masked_store(self, t: TypeText, value: str, pointer: str, align: int, mask: str) -> None:
        """Write a packet where a mask is set."""
        self.line(f"call void @llvm.masked.store.{t.suffix}.p0({t} {value}, ptr {pointer}, i32 {align}, "
                  f"{t.mask} {mask})")

    def gathered(self, t: TypeText, pointers: str, align: int, mask: str) -> str:
        """Read elements at addresses where a mask is set, zeros elsewhere."""
        return self(f"call {t} @llvm.masked.gather.{t.suffix}.v{t.lanes}p0({t.of('ptr')} {pointers}, i32 {align}, "
                    f"{t.mask} {mask}, {t} zeroinitializer)")

    def scattered(self, t: TypeText, value: str, pointers: str, align: int, mask: str) -> None:
        """Write elements to addresses where a mask is set."""
        self.line(f"call void @llvm.masked.scatter.{t.suffix}.v{t.lanes}p0({t} {value}, {t.of('ptr')} {pointers}, "
                  f"i32 {align}, {t.mask} {mask})")

    def store(self, type_: object, value: str, pointer: str, align: int, streamed: bool = False) -> None:
        """Write memory; past the cache, if it is ``streamed``."""
        hint = ", !nontemporal !0" if streamed else ""
        if streamed:
            self._declarations["!0 = !{i32 1}"] = None
        self.line(f"store {type_} {value}, ptr {pointer}, align {align}{hint}")

    def add(self, a: object, b: object) -> str:
        """The sum of two i64."""
        return self(f"add i64 {a}, {b}")

    def sub(self, a: object, b: object) -> str:
        """The difference of two i64."""
        return self(f"sub i64 {a}, {b}")

    def mul(self, a: object, b: object) -> str:
        """The product of two i64."""
        return self(f"mul i64 {a}, {b}")

    def udiv(self, a: object, b: object) -> str:
        """The quotient of two i64, unsigned."""
        return self(f"udiv i64 {a}, {b}")

    def and_(self, a: object, b: object) -> str:
        """The common bits of two i64."""
        return self(f"and i64 {a}, {b}")

    def minimum(self, a: object, b: object) -> str:
        """The smaller one of two i64, unsigned."""
        return self.call("i64", "llvm.umin.i64", f"i64 {a}", f"i64 {b}")

    def either(self, condition: str, type_: str, a: object, b: object) -> str:
        """``a if condition else b``."""
        return self(f"select i1 {condition}, {type_} {a}, {type_} {b}")

    def divided(self, value: str, by: str) -> tuple[str, str]:
        """The quotient of two i64, unsigned, and what is left."""
        quotient = self.udiv(value, by)
        return quotient, self.sub(value, self.mul(quotient, by))

    # --- packets -----------------------------------------------------------------------------------------------------

    def shuffle(self, t: str, a: str, b: str, lanes: Iterable[int]) -> str:
        """Lanes of two packets."""
        places = list(lanes)
        return self(f"shufflevector {t} {a}, {t} {b}, <{len(places)} x i32> {vector('i32', places)}")

    def splat(self, t: TypeText, value: str) -> str:
        """A packet of equal elements."""
        first = self(f"insertelement {t} poison, {t.element} {value}, i64 0")
        return self(f"shufflevector {t} {first}, {t} poison, <{t.lanes} x i32> zeroinitializer")

    def cast(self, value: str, before: TypeText, after: TypeText) -> str:
        """A value, or a packet, of another type."""
        return self.named(lambda name: cast(name, value, before, after))

    def folded(self, value: str, type_: TypeText, lanes: int,
               combine: Callable[[str, str, TypeText], str]) -> tuple[str, TypeText]:
        """A packet whose halves are combined until it has so many lanes, and its type."""
        while type_.lanes > lanes:
            half = TypeText(type_.info, type_.lanes // 2)
            low, high = (self.shuffle(type_, value, "poison", range(first, first + half.lanes))
                         for first in (0, half.lanes))
            value, type_ = combine(low, high, half), half
        return value, type_

    def first_lanes(self, lanes: int, count: str, last: bool = False) -> str:
        """A mask of the first lanes of a packet, or of the last ones, so many: none, if that is below zero.

        (LLVM 22 ends the process at level 0 if ``llvm.get.active.lane.mask`` gives the mask of a masked load.)
        """
        packet = TypeText(TYPES[INT32], lanes)
        few = self(f"trunc i64 {self.call('i64', 'llvm.smin.i64', f'i64 {count}', f'i64 {lanes}')} to i32")
        places = range(lanes - 1, -1, -1) if last else range(lanes)
        return self(f"icmp sgt {packet} {self.splat(packet, few)}, {vector('i32', places)}")

    # --- blocks ------------------------------------------------------------------------------------------------------

    @property
    def here(self) -> str:
        """The block that is being written: what phis name."""
        return self.lines.label

    def label(self, prefix: str = "block") -> str:
        """The name of a block to come."""
        return self.name(prefix)

    def open(self, label: str) -> None:
        """Begin a block, which nothing falls into."""
        self.lines.open(label)

    def go(self, label: str) -> None:
        """End the block: go on in another one."""
        self.line(f"br label %{label}")

    def fork(self, condition: str, label: str, otherwise: str) -> None:
        """End the block: go on in one of two."""
        self.line(f"br i1 {condition}, label %{label}, label %{otherwise}")

    def only_if(self, condition: str, otherwise: str, prefix: str = "on") -> None:
        """Go on here if a condition holds, or else in a block to come."""
        here = self.label(prefix)
        self.fork(condition, here, otherwise)
        self.open(here)

    def leave(self, condition: str, result: str = "void") -> None:
        """End the function, with a result and its type, if a condition holds."""
        leaves, here = self.label("leave"), self.label("on")
        self.fork(condition, leaves, here)
        self.open(leaves)
        self.line(f"ret {result}")
        self.open(here)

    # --- control flow ------------------------------------------------------------------------------------------------

    def loop(self, start: object, stop: object, step: int | str, carried: Carried,
             body: Callable[[str, list[str]], Iterable[str] | None]) -> list[str]:
        """``for index in range(start, stop, step)`` over i64, not at all if ``start >= stop``; what it carries on.

        The body gets the index and what it carries, and returns the next values of that.
        """
        loop, before = self.name("loop"), self.here
        self.fork(self(f"icmp ult i64 {start}, {stop}"), loop, f"{loop}.done")
        results, after = self._round(loop, before, start, stop, step, carried, body)
        return [self.phi(type_, (initial, before), (result, after))
                for (type_, initial), result in zip(carried, results, strict=True)]

    def repeat(self, start: object, stop: object, step: int | str, carried: Carried,
               body: Callable[[str, list[str]], Iterable[str] | None]) -> list[str]:
        """A :meth:`loop` that runs at least once."""
        loop, before = self.name("loop"), self.here
        self.go(loop)
        return self._round(loop, before, start, stop, step, carried, body)[0]

    def _round(self, loop: str, before: str, start: object, stop: object, step: int | str, carried: Carried,
               body: Callable[[str, list[str]], Iterable[str] | None]) -> tuple[list[str], str]:
        """The body of a loop; what it carries on, and the block that it ends in."""
        self.open(loop)
        place = len(self.lines)
        index = "%" + self.name("i")
        values = ["%" + self.name() for _ in carried]
        results = list(body(index, values) or ())
        after = self.here
        following = self.add(index, step)
        self.fork(self(f"icmp ult i64 {following}, {stop}"), loop, f"{loop}.done")
        self.lines[place:place] = [
            f"{value} = {_phi(type_, ((initial, before), (result, after)))}" for (type_, initial), value, result in
            zip((("i64", start), *carried), (index, *values), (following, *results), strict=True)]
        self.open(f"{loop}.done")
        return results, after

    def forever(self, body: Callable[[str], None]) -> None:
        """Run a body again and again, which gets the name of its first block; it goes elsewhere, or leaves."""
        again = self.label("again")
        self.go(again)
        self.open(again)
        body(again)
        self.go(again)

    def switch(self, value: str, cases: Mapping[int, Callable[[], None]], otherwise: Callable[[], None]) -> None:
        """What belongs to one of some i64, or something else."""
        label = self.name("switch")
        names = " ".join(f"i64 {case}, label %{label}.{case}" for case in cases)
        self.line(f"switch i64 {value}, label %{label}.else [ {names} ]")
        for name, run in (*cases.items(), ("else", otherwise)):
            self.open(f"{label}.{name}")
            run()
            self.go(f"{label}.end")
        self.open(f"{label}.end")

    def until(self, carried: Carried, body: Callable[[list[str]], tuple[str, Iterable[str]]]) -> list[str]:
        """Run a body again and again, until it says so (an i1, beside the next values of what it carries)."""
        loop, before = self.name("until"), self.here
        self.go(loop)
        self.open(loop)
        place = len(self.lines)
        values = ["%" + self.name() for _ in carried]
        stops, following = body(values)
        results, after = list(following), self.here
        self.fork(stops, f"{loop}.done", loop)
        self.lines[place:place] = [
            f"{value} = {_phi(type_, ((initial, before), (result, after)))}"
            for (type_, initial), value, result in zip(carried, values, results, strict=True)]
        self.open(f"{loop}.done")
        return results

    def branch(self, condition: str, then: Callable[[], Iterable[str] | None],
               otherwise: Callable[[], Iterable[str] | None] = lambda: (), types: Sequence[str] = ()) -> list[str]:
        """``then() if condition else otherwise()``: values of some types."""
        name = self.name("if")
        self.fork(condition, name, f"{name}.else")
        found, ends = [], []
        for label, run in ((name, then), (f"{name}.else", otherwise)):
            self.open(label)
            found.append(list(run() or ()))
            ends.append(self.here)
            self.go(f"{name}.end")
        self.open(f"{name}.end")
        return [self.phi(type_, (a, ends[0]), (b, ends[1]))
                for type_, a, b in zip(types, *found, strict=True)]


def _phi(type_: str, incoming: Iterable[tuple[object, str]]) -> str:
    return f"phi {type_} " + ", ".join(f"[ {value}, %{label} ]" for value, label in incoming)
