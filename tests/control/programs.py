"""Random functions with nested control flow, which mean the same for numbers and, element by element, for arrays.

Those of seeds from ``CHANGING`` on change objects that they are given, as well: their attributes, entries, and what
these hold, in statements, methods and other functions.
"""

from __future__ import annotations

import dataclasses
import linecache
import random
from collections.abc import Callable
from typing import Any, ClassVar

from drjit.llvm import UInt

__all__ = ["CHANGING", "contents", "define", "objects", "program"]

CHANGING = 1_000_000

_NAMES = ("a", "b", "c")


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.counters = 0
        self.budget = self.random.randint(6, 22)
        self.scalars: list[str] = ["s"]
        self.extra: list[str] = []
        self.tuple = self.random.random() < 0.3

    def write(self, depth: int, text: str) -> None:
        self.lines.append("    " * (depth + 1) + text)

    def names(self) -> list[str]:
        """What arrays of numbers below 256 there are."""
        return [*_NAMES, *self.extra]

    def atom(self) -> str:
        pick = self.random.random()
        if pick < 0.65:
            return self.random.choice(self.names())
        return self.random.choice(self.scalars) if pick < 0.75 else str(self.random.randint(0, 9))

    def value(self) -> str:
        """An array of numbers below 256."""
        name = self.random.choice(self.names())
        kind = self.random.randint(0, 5)
        if kind == 0:
            return f"({name} + {self.atom()}) & 255"
        if kind == 1:
            return f"({name} * {self.random.randint(2, 5)} + {self.atom()}) & 255"
        if kind == 2:
            return f"{name} ^ {self.atom()}"
        if kind == 3:
            return f"({name} + 256 - {self.random.choice(_NAMES)}) & 255"
        if kind == 4:
            # A sum is an array of its own: what changes it in place later changes no other name's.
            return f"(zero + ({name} if {self.condition()} else {self.random.choice(_NAMES)}))"
        return f"zero + {self.atom()}"

    def condition(self, depth: int = 0) -> str:
        kind = self.random.randint(0, 9 if depth < 2 else 3)
        if kind <= 2:
            return f"{self.random.choice(self.names())} {self.random.choice(['<', '>', '<=', '>='])} " \
                   f"{self.random.choice([self.atom(), str(self.random.randint(0, 255))])}"
        if kind == 3:
            return f"{self.random.choice(_NAMES)} & {self.random.choice([1, 2, 3])} == {self.random.randint(0, 2)}" \
                if self.random.random() < 0.8 else f"{self.random.choice(self.scalars)} < {self.random.randint(0, 4)}"
        if kind == 4:
            return f"{self.random.randint(0, 60)} < {self.random.choice(_NAMES)} <= {self.random.randint(60, 250)}"
        if kind in (5, 6):
            word = self.random.choice(["and", "or"])
            return f"({self.condition(depth + 1)} {word} {self.condition(depth + 1)})"
        if kind == 7:
            return f"not ({self.condition(depth + 1)})"
        if kind == 8:
            return f"check({self.random.choice(_NAMES)}, {self.atom()}) and {self.condition(depth + 1)}"
        return f"{self.random.choice(self.scalars)} > {self.random.randint(0, 4)}"

    def result(self) -> str:
        return f"{self.value()}, {self.value()}" if self.tuple else self.value()

    def block(self, depth: int, loops: int) -> None:
        count = self.random.randint(1, 3 if depth else 5)
        known = list(self.extra)
        for _ in range(count):
            self.statement(depth, loops)
        self.extra = known

    def statement(self, depth: int, loops: int) -> None:
        self.budget -= 1
        kind = self.random.randint(0, 16) if self.budget > 0 and depth < 5 else self.random.randint(0, 4)
        name = self.random.choice(_NAMES)
        if kind <= 2:
            self.write(depth, f"{name} = {self.value()}")
        elif kind == 3:
            self.write(depth, f"{name} = {name} {self.random.choice(['^', '|', '&'])} {self.random.choice(_NAMES)}")
        elif kind == 4:
            self.write(depth, f"new = {self.value()}")
            self.write(depth, f"{name} = (new + {self.atom()}) & 255")
        elif kind <= 8:
            self.branch(depth, loops)
        elif kind <= 10:
            self.while_loop(depth, loops)
        elif kind <= 12:
            self.for_loop(depth, loops)
        elif kind == 13 and loops:
            self.leave(depth, self.random.choice(["break", "continue"]))
        elif kind == 14:
            self.leave(depth, f"return {self.result()}")
        elif kind == 15 and loops:
            self.leave(depth, "break")
        else:
            self.counters += 1
            made = f"d{self.counters}"
            self.write(depth, f"if {self.condition()}:")
            self.write(depth + 1, f"{made} = {self.value()}")
            self.write(depth, "else:")
            self.block(depth + 1, loops)
            self.write(depth + 1, f"{made} = {self.value()}")
            self.extra.append(made)

    def leave(self, depth: int, statement: str) -> None:
        if self.random.random() < 0.85:
            self.write(depth, f"if {self.condition()}:")
            if self.random.random() < 0.3:
                self.write(depth + 1, f"a = {self.value()}")
            self.write(depth + 1, statement)
        else:
            self.write(depth, statement)

    def branch(self, depth: int, loops: int) -> None:
        self.write(depth, f"if {self.condition()}:")
        self.block(depth + 1, loops)
        while self.random.random() < 0.3:
            self.write(depth, f"elif {self.condition()}:")
            self.block(depth + 1, loops)
        if self.random.random() < 0.5:
            self.write(depth, "else:")
            self.block(depth + 1, loops)

    def while_loop(self, depth: int, loops: int) -> None:
        self.counters += 1
        n = f"n{self.counters}"
        limit = self.random.randint(1, 4)
        kind = self.random.randint(0, 3)
        self.write(depth, f"{n} = zero + 0")
        if kind == 0:
            self.write(depth, "while True:")
            self.write(depth + 1, f"{n} += 1")
            self.write(depth + 1, f"if {n} > {limit}:")
            self.write(depth + 2, "break")
        elif kind == 1:
            self.write(depth, f"while {n} < {limit} and {self.condition(1)}:")
            self.write(depth + 1, f"{n} += 1")
        elif kind == 2:
            self.write(depth, f"while ({n} := {n} + 1) < {limit}:")
        else:
            m = f"m{self.counters}"
            self.write(depth, f"{m} = 0")
            self.write(depth, f"while {m} < {limit}:")
            self.write(depth + 1, f"{m} += 1")
            # What Python counts cannot be tracked where some elements have left the loop: another counter is.
            self.lines[-3:] = [line.replace(f"{m} = 0", f"{m} = zero + 0") for line in self.lines[-3:]]
        self.block(depth + 1, loops + 1)
        self.otherwise(depth, loops)

    def for_loop(self, depth: int, loops: int) -> None:
        self.counters += 1
        k = f"k{self.counters}"
        name = self.random.choice(_NAMES)
        bounds = self.random.choice(["3", "1, 4", "4, 0, -1", f"{name} & 3", f"{name} & 1, 4",
                                     f"({name} & 3) + 1, 0, -1", "s"])
        self.write(depth, f"for {k} in range({bounds}):")
        known = "scalars" if bounds in ("3", "1, 4", "4, 0, -1", "s") else "extra"
        getattr(self, known).append(k)
        self.block(depth + 1, loops + 1)
        getattr(self, known).remove(k)  # what it is afterwards differs between elements, and may be nothing
        self.otherwise(depth, loops)

    def otherwise(self, depth: int, loops: int) -> None:
        if self.random.random() < 0.2:
            self.write(depth, "else:")
            self.block(depth + 1, loops)


@dataclasses.dataclass
class Data:
    """A data class."""

    x: Any
    entries: list[Any]

    def add(self, value: Any) -> None:
        """Change an array, and have another one."""
        self.x += value
        self.x &= 255
        self.entries[0] = (self.entries[0] * 3 + value) & 255


class Struct:
    """A class that is a PyTree by its annotation."""

    DRJIT_STRUCT: ClassVar = {"x": UInt, "y": UInt}

    def __init__(self, x: Any = None, y: Any = None) -> None:
        self.x, self.y = x, y

    def add(self, value: Any) -> None:
        """Change an array, and have another one."""
        self.y += value
        self.y &= 255
        self.x = (self.x ^ self.y) & 255


class Plain:
    """A class that is no PyTree."""

    def __init__(self, x: Any, inner: Any) -> None:
        self.x, self.inner = x, inner

    def add(self, value: Any) -> None:
        """Change an array, and what another object has."""
        self.x += value
        self.x &= 255
        self.inner.add(self.x)


def add_to(entries: list[Any], value: Any) -> None:
    """Change an entry, and replace another one."""
    entries[0] += value
    entries[0] &= 255
    entries[1] = (entries[1] + 256 - value) & 255


#: Where the arrays of the objects are, and what changes several of them.
_PLACES = ("p.x", "p.entries[0]", "p.entries[1]", "t.x", "t.y", "q[0]", "q[1]", "d['a']", "d['b'][0].x", "d['b'][0].y",
           "o.x", "o.inner.x")
_CHANGES = ("p.add({})", "t.add({})", "o.add({})", "add_to(q, {})", "add_to(p.entries, {})", "d['b'][0].add({})")


def objects(make: Callable[[int], Any]) -> dict[str, Any]:
    """The objects that functions are given, with arrays made by their numbers."""
    return {"p": Data(make(0), [make(1), make(2)]), "t": Struct(make(3), make(4)), "q": [make(5), make(6)],
            "d": {"a": make(7), "b": (Struct(make(8), make(9)),)}, "o": Plain(make(10), Struct(make(11), make(12)))}


def contents(given: dict[str, Any]) -> list[Any]:
    """The arrays of objects."""
    return [eval(place, {}, given) for place in _PLACES]


class _Changing(_Writer):
    def names(self) -> list[str]:
        return [*super().names(), *self.random.sample(_PLACES, 2)]

    def statement(self, depth: int, loops: int) -> None:
        if self.random.random() < 0.35:
            self.change(depth)
        else:
            super().statement(depth, loops)

    def change(self, depth: int) -> None:
        """Change an object. Two names are never of one array."""
        kind, place = self.random.random(), self.random.choice(_PLACES)
        if kind < 0.25:
            self.write(depth, self.random.choice(_CHANGES).format(f"({self.value()}) & 15"))
        elif kind < 0.5:
            self.write(depth, f"{place} = (({self.value()}) + 1) & 255")
        else:
            self.write(depth, f"{place} {self.random.choice(['+=', '^=', '|=', '*='])} {self.atom()}")
            self.write(depth, f"{place} &= 255")


def program(seed: int) -> str:
    """The text of a function ``f(a, b, c, s, zero)``, which calls ``check``; or one that has objects as well."""
    writer = _Changing(seed) if seed >= CHANGING else _Writer(seed)
    writer.block(0, 0)
    writer.write(0, "return a + 0, b + c" if writer.tuple else "return (a + 3 * b + 5 * c) & 1023")
    given = ", p, t, q, d, o" if seed >= CHANGING else ""
    return f"def f(a, b, c, s, zero{given}):\n" + "\n".join(writer.lines) + "\n"


def define(text: str, name: str, **names: Any) -> Callable[..., Any]:
    """The function of a text, whose source can be found."""
    file = f"<random program {name}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    names["check"] = lambda x, y: (x + y) & 3 != 0
    names["add_to"] = add_to
    exec(compile(text, file, "exec"), names)
    return names["f"]
