"""Writing LLVM text by hand: names, parameters, loops and branches with the phis that they take.

Code goes to the processor as it is written, without optimisation passes: what is to be unrolled or kept in registers is
written so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..lines import ATTRIBUTES, Lines

__all__ = ["Writer"]

#: Values that go round a loop: types and initial values.
Carried = Sequence[tuple[str, str]]


class Writer:
    """Writes the functions of one module."""

    def __init__(self) -> None:
        self._lines = Lines()
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

    def function(self, signature: str) -> None:
        """Begin a function: its type, name and parameters; :meth:`parameter` needs one named ``%parameters``."""
        self._lines += [f"define {signature} #0 {{", "entry:"]
        self._lines.go_on("entry")
        self._parameters = {}

    def end(self, result: str = "void") -> None:
        """End the function, with a result and its type."""
        self._lines += [f"ret {result}", "}"]

    def text(self) -> str:
        """The module."""
        return "\n".join([*self._lines, *self._declarations]) + "\n" + ATTRIBUTES + "\n"

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
        return f"{prefix}{self._count}"

    def __call__(self, instruction: str) -> str:
        """Write an instruction; returns the name of its value."""
        name = "%" + self.name()
        self._lines.append(f"{name} = {instruction}")
        return name

    def line(self, text: str) -> None:
        """Write an instruction without a value, or lines that name theirs."""
        self._lines.append(text)

    def named(self, text: Callable[[str], str]) -> str:
        """Write lines that are made for the name of their value."""
        name = "%" + self.name()
        self._lines.append(text(name))
        return name

    def call(self, type_: str, function: str, *arguments: str) -> str:
        """A call of an intrinsic, such as ``llvm.umin.i64``; arguments have their types."""
        return self(f"call {type_} @{function}({', '.join(arguments)})")

    def at(self, type_: str, pointer: str, index: str) -> str:
        """The address of an element."""
        return self(f"getelementptr {type_}, ptr {pointer}, i64 {index}")

    def load(self, type_: str, pointer: str, align: int) -> str:
        """Read memory."""
        return self(f"load {type_}, ptr {pointer}, align {align}")

    def store(self, type_: str, value: str, pointer: str, align: int, streamed: bool = False) -> None:
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

    def minimum(self, a: str, b: str) -> str:
        """The smaller one of two i64, unsigned."""
        return self.call("i64", "llvm.umin.i64", f"i64 {a}", f"i64 {b}")

    # --- control flow ------------------------------------------------------------------------------------------------

    def loop(self, start: str, stop: str, step: int | str, carried: Carried,
             body: Callable[[str, list[str]], Iterable[str]]) -> list[str]:
        """``for index in range(start, stop, step)`` over i64, not at all if ``start >= stop``; what it carries on.

        The body gets the index and what it carries, and returns the next values of that.
        """
        loop = self.name("loop")
        before = self._lines.label
        enters = self(f"icmp ult i64 {start}, {stop}")
        self.line(f"br i1 {enters}, label %{loop}, label %{loop}.done")
        self._lines.open(loop)
        place = len(self._lines)
        index = "%" + self.name("i")
        values = ["%" + self.name() for _ in carried]
        results = list(body(index, values))
        after = self._lines.label
        following = self(f"add i64 {index}, {step}")
        more = self(f"icmp ult i64 {following}, {stop}")
        self.line(f"br i1 {more}, label %{loop}, label %{loop}.done")
        phis = [f"{index} = phi i64 [ {start}, %{before} ], [ {following}, %{after} ]"]
        for (type_, initial), value, result in zip(carried, values, results, strict=True):
            phis.append(f"{value} = phi {type_} [ {initial}, %{before} ], [ {result}, %{after} ]")
        self._lines[place:place] = phis
        self._lines.open(f"{loop}.done")
        return [self(f"phi {type_} [ {initial}, %{before} ], [ {result}, %{after} ]")
                for (type_, initial), result in zip(carried, results, strict=True)]

    def until(self, carried: Carried, body: Callable[[list[str]], tuple[str, Iterable[str]]]) -> list[str]:
        """Run a body again and again, until it says so (an i1, beside the next values of what it carries)."""
        loop, before = self.name("until"), self._lines.label
        self.line(f"br label %{loop}")
        self._lines.open(loop)
        place = len(self._lines)
        values = ["%" + self.name() for _ in carried]
        stops, following = body(values)
        results = list(following)
        self.line(f"br i1 {stops}, label %{loop}.done, label %{loop}")
        self._lines[place:place] = [
            f"{value} = phi {type_} [ {initial}, %{before} ], [ {result}, %{self._lines.label} ]"
            for (type_, initial), value, result in zip(carried, values, results, strict=True)]
        self._lines.open(f"{loop}.done")
        return results

    def branch(self, condition: str, then: Callable[[], Iterable[str]],
               otherwise: Callable[[], Iterable[str]] = lambda: (), types: Sequence[str] = ()) -> list[str]:
        """``then() if condition else otherwise()``: values of some types."""
        name = self.name("if")
        self.line(f"br i1 {condition}, label %{name}, label %{name}.else")
        self._lines.open(name)
        first = list(then())
        first_end = self._lines.label
        self.line(f"br label %{name}.end")
        self._lines.open(f"{name}.else")
        second = list(otherwise())
        second_end = self._lines.label
        self.line(f"br label %{name}.end")
        self._lines.open(f"{name}.end")
        return [self(f"phi {type_} [ {a}, %{first_end} ], [ {b}, %{second_end} ]")
                for type_, a, b in zip(types, first, second, strict=True)]
