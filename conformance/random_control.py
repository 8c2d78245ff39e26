"""Random programs with nested control flow: in all modes, they do what they do with one element at a time.

    python conformance/random_control.py [--programs 300] [--seed N] [--peer PYTHON] [--show COUNT] [--workers 2]

Programs are made of ``while_loop``, ``if_stmt`` and ``switch`` nested three deep, with conditions that differ between
elements or do not, which read tables, add to bins, take minima and maxima in them, use local memory and print. A third
of them changes objects: ``x += y``, components of arrays, entries of lists, dictionaries and objects, generators of
random numbers; those that a construct has as arguments and returns, or (in every other one of them, which the peer is
not asked for) those that it does not return, and those that it finds outside. Each is text, which any interpreter with
a ``drjit`` runs: in symbolic mode, in evaluated mode, in evaluated mode with loops that remove elements that have
finished, and once for each element: on the scalar backend, or, where objects change, with arrays of one element and
Python's own ``if`` and ``while``. ``PYTHON`` is one that has the
wheel (with ``DRJIT_LIBLLVM_PATH`` in the environment, if it needs that). All runs are in processes of their own, a
batch each. Operations are exact, so that results are compared bit by bit; what is equal in all elements may have one or
all of them; of what was printed, numbers are compared whatever their order. The exit status is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BATCH, TIMEOUT = 40, 400
SIZES = (1, 2, 7, 16, 17, 100)
TABLE, BINS = 37, 16
#: Programs from these seeds on change objects that constructs return; also others.
CHANGING, CAPTURING = 1_000_000, 2_000_000
#: What programs pass as ``mode``, by what they are run in.
MODES = {"symbolic": "symbolic", "evaluated": "evaluated", "compressed": "evaluated", "scalar": None}
#: Operations by the type of their operands; results are exact, and small enough to remain so.
OPERATIONS = {
    "Float": ("q({a} + {b})", "q({a} - {b})", "q({a} * {b})", "dr.minimum({a}, {b})", "dr.maximum({a}, {b})", "-{a}",
              "dr.abs({a})", "dr.select({a} < {b}, {b}, {a})", "q(dr.fma({a}, {b}, {c}))", "dr.floor({a})"),
    "UInt32": ("({a} + {b}) & 65535", "({a} + 65536 - {b}) & 65535", "({a} * {b}) & 65535", "{a} & {b}", "{a} | {b}",
               "{a} ^ {b}", "{a} >> ({b} & 7)", "dr.select({a} < {b}, {b}, {a})", "dr.minimum({a}, {b})",
               "dr.popcnt({a})"),
}
#: What programs begin with. ``q`` keeps floating point numbers multiples of 1/4 below 257, whose products are exact.
PRELUDE = """\
def switch(index, targets, *args, active=True):
    if mode is None and not active:  # masks are arrays, where elements are not taken one at a time
        return tuple([type(value)(0) for value in args])
    return dr.switch(index, targets, *args, active=active, mode=mode)
def q(x):
    return dr.floor(dr.minimum(dr.maximum(x, -256.0), 256.0) * 4) * 0.25
"""


class _Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.size = self.random.choice(SIZES)
        self.lines: list[str] = []
        self.serial = 0
        self.budget = self.random.randint(2, 8)
        self.wide = 0  # how many of the constructs around decide for each element

    def write(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def name(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def readable(self, type_: str, known: dict[str, str]) -> list[str]:
        """What has a type."""
        return [name for name, other in known.items() if other == type_]

    def value(self, type_: str, known: dict[str, str]) -> str:
        """A variable of a type, or a number."""
        names = self.readable(type_, known)
        if names and self.random.random() < 0.85:
            return self.random.choice(names)
        number = self.random.randint(0, 9)
        return f"m.Float({number / 4})" if type_ == "Float" else f"m.UInt32({number})"

    def mask(self, known: dict[str, str]) -> str:
        type_ = self.random.choice(("Float", "UInt32"))
        kind = self.random.random()
        if kind < 0.1:
            return self.random.choice(("m.Bool(True)", "m.Bool(False)"))
        if kind < 0.2:
            return f"m.UInt32({self.random.randint(0, 3)}) < {self.random.randint(0, 4)}"
        return f"{self.value(type_, known)} {self.random.choice(('<', '>', '!='))} {self.value(type_, known)}"

    def step(self, depth: int, known: dict[str, str]) -> None:
        """An operation, whose result becomes a variable, new or not."""
        type_ = self.random.choice(("Float", "UInt32"))
        kind = self.random.random()
        fitting = [name for name, other in known.items() if other == type_ and name != "lane"]
        name = self.random.choice(fitting) if fitting and self.random.random() < 0.4 else self.name("v")
        if kind < 0.15:
            table = "table" if type_ == "Float" else "numbers"
            active = f", {self.mask(known)}" if self.random.random() < 0.3 else ""
            self.write(depth, f"{name} = dr.gather(m.{type_}, {table}, ({self.value('UInt32', known)}) % {TABLE}"
                              f"{active})")
        elif kind < 0.25:
            other = "UInt32" if type_ == "Float" else "Float"
            value = self.value(other, known)
            self.write(depth, f"{name} = m.Float({value} & 127)" if other == "UInt32" else
                       f"{name} = m.UInt32(dr.minimum(dr.maximum({value}, 0), 1000))")
        else:
            pattern = self.random.choice(OPERATIONS[type_])
            self.write(depth, f"{name} = " + pattern.format(**{key: self.value(type_, known) for key in "abc"}))
        known[name] = type_

    def scatter(self, depth: int, known: dict[str, str]) -> None:
        """An update of a bin, whose result does not depend on the order of updates.

        One of a single value happens once in plain code, and once for each element in constructs that have several.
        """
        place, value = self.value("UInt32", known), self.value("UInt32", known)
        active = f", {self.mask(known)}" if self.random.random() < 0.5 else ""
        if not self.wide or self.random.random() < 0.5:
            place += " + lane"
        operation, bins = self.random.choice((("Add", "sums"), ("Max", "most"), ("Min", "least"), ("Or", "bits")))
        self.write(depth, f"dr.scatter_reduce(dr.ReduceOp.{operation}, {bins}, {value}, ({place}) % {BINS}{active})")

    def local(self, depth: int, known: dict[str, str]) -> None:
        """Local memory of four elements, written to and read at positions that are computed."""
        memory, name = self.name("memory"), self.name("v")
        type_ = self.random.choice(("Float", "UInt32"))
        self.write(depth, f"{memory} = dr.alloc_local(m.{type_}, 4, value=m.{type_}({self.random.randint(0, 3)}))")
        for _ in range(self.random.randint(1, 3)):
            self.write(depth, f"{memory}[({self.value('UInt32', known)}) & 3] = {self.value(type_, known)}")
        self.write(depth, f"{name} = {memory}[({self.value('UInt32', known)}) & 3]")
        known[name] = type_

    def block(self, depth: int, level: int, known: dict[str, str]) -> None:
        """Statements; ``level`` is how many constructs are around them."""
        for _ in range(self.random.randint(1, 4 if level else 5)):
            kind = self.random.random()
            if kind < 0.45 or level == 3 or self.budget <= 0:
                self.step(depth, known)
            elif kind < 0.53:
                self.scatter(depth, known)
            elif kind < 0.57:
                value = f"lane * 65536 + {self.value('UInt32', known)}"
                active = f", {self.mask(known)}" if self.random.random() < 0.4 else ""
                self.write(depth, f"note({self.name('p')!r}, {value}{active})")
            elif kind < 0.62:
                self.local(depth, known)
            elif kind < 0.65 and not level:
                trees = sorted(name for name, type_ in known.items() if type_ != "Plain")
                self.write(depth, f"dr.eval({self.random.choice(trees)})")
            else:
                self.budget -= 1
                self.random.choice((self.loop, self.branch, self.call))(depth, level, known)

    def arguments(self, known: dict[str, str]) -> list[str]:
        """Variables that a construct changes, the number of the element first."""
        names = sorted(name for name in known if name != "lane")
        return ["lane", *self.random.sample(names, min(len(names), self.random.randint(1, 4)))]

    def results(self, names: Sequence[str], inner: dict[str, str]) -> str:
        """What becomes of variables: variables of the same types."""
        found = ["lane"]
        for name in names[1:]:
            fitting = [other for other, type_ in inner.items() if type_ == inner[name] and other != "lane"]
            found.append(self.random.choice(fitting))
        return ", ".join(found)

    def function(self, depth: int, level: int, names: Sequence[str], known: dict[str, str], by: str) -> str:
        """A function of variables that returns as many; ``by`` is what decides whether it is called."""
        function, inner = self.name("f"), {name: known[name] for name in names}
        self.wide += "lane" in by
        self.write(depth, f"def {function}({', '.join(names)}, active=True):")
        self.block(depth + 1, level + 1, inner)
        self.write(depth + 1, f"return {self.results(names, inner)},")
        self.wide -= "lane" in by
        return function

    def loop(self, depth: int, level: int, known: dict[str, str]) -> None:
        names, counter, body = self.arguments(known), self.name("i"), self.name("body")
        limit, start = self.random.randint(1, 4), self.random.choice(("m.UInt32(0)", "lane & 1"))
        before = {**{name: known[name] for name in names}, counter: "UInt32"}
        bound = f"{limit}" if self.random.random() < 0.4 else f"1 + (({self.value('UInt32', before)}) & {limit})"
        if self.random.random() < 0.2:
            bound = f"(({self.value('UInt32', before)}) & {limit})"
        inner = {name: known[name] for name in names}
        self.write(depth, f"def {body}({', '.join([counter, *names])}):")
        self.wide += "lane" in start
        self.block(depth + 1, level + 1, inner)
        self.wide -= "lane" in start
        self.write(depth + 1, f"return {counter} + 1, {self.results(names, inner)},")
        self.write(depth, f"_, {', '.join(names)}, = dr.while_loop(({start}, {', '.join(names)},), "
                          f"lambda {', '.join([counter, *names])}: {counter} < {bound}, {body}, mode=mode)")

    def branch(self, depth: int, level: int, known: dict[str, str]) -> None:
        names, mask = self.arguments(known), self.mask(known)
        functions = [self.function(depth, level, names, known, mask) for _ in range(2)]
        self.write(depth, f"{', '.join(names)}, = dr.if_stmt(({', '.join(names)},), {mask}, "
                          f"{functions[0]}, {functions[1]}, mode=mode)")

    def call(self, depth: int, level: int, known: dict[str, str]) -> None:
        names, count, index = self.arguments(known), self.random.randint(1, 4), self.value("UInt32", known)
        functions = [self.function(depth, level, names, known, index) for _ in range(count)]
        if self.random.random() < 0.2:
            functions.append(functions[0])
        active = f", active={self.mask(known)}" if self.random.random() < 0.3 else ""
        self.write(depth, f"_, {', '.join(names[1:])}, = switch(({index}) % {len(functions)}, "
                          f"[{', '.join(functions)}], {', '.join(names)}{active})")

    def final(self, known: dict[str, str]) -> list[str]:
        """What a program returns."""
        return sorted(known)

    def program(self) -> str:
        self.write(0, "def program(dr, m, mode, lane, table, numbers, sums, most, least, bits, note):")
        for line in PRELUDE.splitlines():
            self.write(1, line)
        self.write(1, f"x = (m.Float(lane) - {self.size // 3}) * 0.75")
        self.write(1, "y = (lane * 7 + 3) & 65535")
        self.write(1, f"z = m.UInt32({self.random.randint(0, 9)})")
        known = {"lane": "UInt32", "x": "Float", "y": "UInt32", "z": "UInt32"}
        self.block(1, 0, known)
        self.random.choice((self.loop, self.branch, self.call))(1, 0, known)
        self.block(1, 0, known)
        self.write(1, f"return [{', '.join(self.final(known))}]")
        return "\n".join(self.lines) + "\n"


#: Classes of programs that change objects.
CLASSES = """\
import dataclasses
class Box:
    DRJIT_STRUCT = {"f": m.Float, "u": m.UInt32}
    def __init__(self, f=None, u=None):
        self.f, self.u = f, u
    def grow(self, f):
        self.f += f
        self.f -= self.f - q(self.f)
@dataclasses.dataclass
class Data:
    f: m.Float
    entries: list
class Plain:
    def __init__(self, f, u):
        self.f, self.u = f, u
"""
#: How objects are made, and where arrays are in them.
OBJECTS: dict[str, tuple[str, dict[str, list[str]]]] = {
    "Box": ("Box({f}, {u})", {"Float": ["{}.f"], "UInt32": ["{}.u"]}),
    "list": ("[{f}, {u}]", {"Float": ["{}[0]"], "UInt32": ["{}[1]"]}),
    "Data": ("Data({f}, [{f}, {u}])", {"Float": ["{}.f", "{}.entries[0]"], "UInt32": ["{}.entries[1]"]}),
    "dict": ("{{'a': ([Box({f}, {u})], {f}), 'b': {u}}}",
             {"Float": ["{}['a'][0][0].f"], "UInt32": ["{}['a'][0][0].u", "{}['b']"]}),
    "Array3f": ("m.Array3f({f}, {f}, {f})", {"Float": ["{}.x", "{}.y", "{}[2]"], "UInt32": []}),
    "PCG32": ("m.PCG32(1, m.UInt64(lane) + {n})", {"Float": [], "UInt32": []}),
    "Plain": ("Plain({f}, {u})", {"Float": ["{}.f"], "UInt32": ["{}.u"]}),
}


class _Changing(_Writer):
    """Writes a program that changes objects.

    No two names are ever of one object, since which object a name has may not differ between elements. With
    ``captures``, constructs do not return all that they change, and change what they are not given: not within calls,
    which may have some of the elements. What functions of a construct make anew, or put in a place, is new for some of
    the elements only, and one array or object for all of these behind it: so it is made anew for all there.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.captures = seed >= CAPTURING
        self.size = self.random.choice(SIZES[:5])
        self.outer: list[dict[str, str]] = []  # variables of functions around, but for those of calls
        self.assigned: list[set[str]] = []  # those that functions assign in place
        self.same: list[set[str]] = []  # what functions return as the object that it is
        self.renewed: list[dict[str, str]] = [{}]  # what has become new in functions around: names and places
        self.partly: list[dict[str, str]] = []  # likewise in functions of constructs, each of which some elements take

    def readable(self, type_: str, known: dict[str, str]) -> list[str]:
        found = super().readable(type_, known)
        for name, other in known.items():
            if other in OBJECTS:
                found += [place.format(name) for place in OBJECTS[other][1][type_]]
        return found

    def fresh(self, type_: str, value: str) -> str:
        """An array that nobody else has."""
        return f"q(({value}) + 0.25)" if type_ == "Float" else f"((({value}) + 1) & 65535)"

    def step(self, depth: int, known: dict[str, str]) -> None:
        if self.random.random() < 0.6:
            self.change(depth, known)
            return
        before, found = len(self.lines), dict(known)
        super().step(depth, found)
        name, _, value = self.lines[before].strip().partition(" = ")
        type_ = found[name]
        self.lines[before:] = []
        if self.is_same(name):
            name = self.name("v")
        known[name] = self.renewed[-1][name] = type_
        self.write(depth, f"{name} = {self.fresh(known[name], value)}")

    def change(self, depth: int, known: dict[str, str]) -> None:
        """A change of something, in place or of an entry."""
        outside = self.captures and bool(self.outer) and self.random.random() < 0.5
        names = self.outer[-1] if outside else known
        generators = [name for name, type_ in names.items() if type_ == "PCG32"]
        if generators and self.random.random() < 0.3:
            name = self.name("v")
            drawn = f"{self.random.choice(generators)}.next_uint32()"
            self.write(depth, f"{name} = {drawn} >> {self.random.randint(16, 30)}")
            known[name] = "UInt32"
            return
        type_ = self.random.choice(("Float", "UInt32"))
        places = [place for place in self.readable(type_, names) if place != "lane"]
        if not places:
            return
        place = self.random.choice(places)
        bare, kind, value = place.isidentifier(), self.random.random(), self.value(type_, known)
        if not bare and kind < 0.25 and "Array3f" not in (known | names)[place.split(".")[0].split("[")[0]]:
            self.write(depth, f"{place} = {self.fresh(type_, value)}")
            self.renewed[-1][place] = type_
            return
        if kind < 0.35 and place.endswith(".f") and names.get(place[:-2]) == "Box":
            self.write(depth, f"{place[:-2]}.grow({value})")
            return
        if kind < 0.45:
            self.write(depth, f"{place}[{self.mask(known)}] = {self.value(type_, known)}")
            return
        if kind < 0.6:
            other = self.name("t")
            self.write(depth, f"{other} = {place}")
            place, bare = other, False
        if bare and outside:
            self.assigned[-1].add(place)
        operator = self.random.choice("+-*" if type_ == "Float" else "+*^|")
        self.write(depth, f"{place} {operator}= {value}")
        self.write(depth, f"{place} -= {place} - q({place})" if type_ == "Float" else f"{place} &= 65535")

    def block(self, depth: int, level: int, known: dict[str, str]) -> None:
        if not level:
            for type_ in self.random.sample(sorted(OBJECTS), self.random.randint(1, 3)):
                if type_ != "Plain" or self.captures:
                    name = self.name("o")
                    parts = {"f": self.fresh("Float", self.value("Float", known)),
                             "u": self.fresh("UInt32", self.value("UInt32", known)), "n": self.random.randint(1, 9)}
                    self.write(depth, f"{name} = {OBJECTS[type_][0].format(**parts)}")
                    known[name] = type_
        super().block(depth, level, known)

    def results(self, names: Sequence[str], inner: dict[str, str]) -> str:
        found = ["lane"]
        for name in names[1:]:
            new = inner[name] not in OBJECTS and not self.is_same(name) and self.random.random() < 0.3
            if new:
                self.renewed[-1][name] = inner[name]
            found.append(self.fresh(inner[name], self.value(inner[name], inner)) if new else name)
        return ", ".join(found)

    def is_same(self, name: str) -> bool:
        """Whether a name must remain that of one object."""
        return any(name in names for names in self.same)

    def remember(self, depth: int, names: Sequence[str], known: dict[str, str], call: bool) -> list[tuple[str, str]]:
        """Other names of what constructs are given: what they have made of it is seen afterwards, whatever they return.

        The peer's calls change copies, and what its other constructs change in place remains as it was if they return
        something else.
        """
        found: list[tuple[str, str]] = []
        self.same.append(set())
        self.partly.append({})
        for name in names[1:]:
            if self.random.random() < 0.4 and (self.captures or not call):
                places = [(place, type_) for type_ in ("Float", "UInt32")
                          for place in self.readable(type_, {name: known[name]})]
                if not places:
                    continue
                place, type_ = self.random.choice(places)
                if not self.captures:
                    if place != name:
                        continue
                    self.same[-1].add(name)
                found.append((self.name("w"), type_))
                self.write(depth, f"{found[-1][0]} = {place}")
        return found

    def recall(self, depth: int, remembered: list[tuple[str, str]], known: dict[str, str], returned: Sequence[str],
               call: bool = False) -> None:
        self.same.pop()
        self.renew(depth, returned, call)
        for name, type_ in remembered:
            self.write(depth, f"{name} = {self.fresh(type_, name)}")
            known[name] = type_

    def renew(self, depth: int, returned: Sequence[str], call: bool) -> None:
        """Make anew what is new for some of the elements; what a call returns is so already."""
        for place, type_ in sorted(self.partly.pop().items()):
            name = re.split(r"[.\[]", place)[0]
            if place == name and name not in returned:
                continue
            self.renewed[-1][place] = type_
            if self.captures and not (call and name in returned):
                value = f"dr.copy({place})" if type_ in OBJECTS else self.fresh(type_, place)
                self.write(depth, f"{place} = {value}")

    def function(self, depth: int, level: int, names: Sequence[str], known: dict[str, str], by: str,
                 returned: Sequence[str] = (), call: bool = False) -> str:
        function, inner = self.name("f"), {name: known[name] for name in names}
        self.wide += "lane" in by
        head = len(self.lines)
        self.write(depth, f"def {function}({', '.join(names)}, active=True):")
        self.enter(names, known, call)
        self.block(depth + 1, level + 1, inner)
        self.write(depth + 1, f"return {self.results(returned or names, inner)},")
        self.leave(depth, head)
        self.wide -= "lane" in by
        return function

    def enter(self, names: Sequence[str], known: dict[str, str], call: bool) -> None:
        around = {} if call else (self.outer[-1] if self.outer else {}) | known
        self.outer.append({name: type_ for name, type_ in around.items() if name not in ("lane", *names)})
        self.assigned.append(set[str]())
        self.renewed.append({})

    def leave(self, depth: int, head: int) -> None:
        self.outer.pop()
        self.partly[-1] |= self.renewed.pop()
        names = self.assigned.pop()
        if names:
            self.lines.insert(head + 1, "    " * (depth + 1) + f"nonlocal {', '.join(sorted(names))}")

    def loop(self, depth: int, level: int, known: dict[str, str]) -> None:
        names, counter, body = self.arguments(known), self.name("i"), self.name("body")
        limit, start = self.random.randint(1, 4), self.random.choice(("m.UInt32(0)", "lane & 1"))
        bound = self.random.choice((f"{limit}", f"1 + (lane & {limit})", f"(lane & {limit})"))
        remembered = self.remember(depth, names, known, False)
        inner = {name: known[name] for name in names}
        head = len(self.lines)
        self.write(depth, f"def {body}({', '.join([counter, *names])}):")
        self.enter([counter, *names], known, False)
        self.wide += "lane" in start + bound
        self.block(depth + 1, level + 1, inner)
        self.wide -= "lane" in start + bound
        self.write(depth + 1, f"return {counter} + 1, {self.results(names, inner)},")
        self.leave(depth, head)
        self.write(depth, f"_, {', '.join(names)}, = dr.while_loop(({start}, {', '.join(names)},), "
                          f"lambda {', '.join([counter, *names])}: {counter} < {bound}, {body}, mode=mode)")
        self.recall(depth, remembered, known, names)

    def kept(self, names: Sequence[str]) -> list[str]:
        """Those arguments that a construct returns."""
        return ["lane", *[name for name in names[1:] if not self.captures or self.random.random() < 0.6]]

    def branch(self, depth: int, level: int, known: dict[str, str]) -> None:
        names, mask = self.arguments(known), self.mask(known)
        returned, remembered = self.kept(names), self.remember(depth, names, known, False)
        functions = [self.function(depth, level, names, known, mask, returned) for _ in range(2)]
        self.write(depth, f"{', '.join(returned)}, = dr.if_stmt(({', '.join(names)},), {mask}, "
                          f"{functions[0]}, {functions[1]}, mode=mode)")
        self.recall(depth, remembered, known, returned)

    def call(self, depth: int, level: int, known: dict[str, str]) -> None:
        # Evaluated calls have some elements of what they are given, but all of objects that are no PyTrees.
        names = [name for name in self.arguments(known) if not self.is_same(name) and known[name] != "Plain"]
        count, index = self.random.randint(1, 4), self.value("UInt32", known)
        returned, remembered = self.kept(names), self.remember(depth, names, known, True)
        functions = [self.function(depth, level, names, known, index, returned, True) for _ in range(count)]
        self.write(depth, f"_, {', '.join(returned[1:])}{', ' if returned[1:] else ''}= dr.switch("
                          f"({index}) % {len(functions)}, [{', '.join(functions)}], {', '.join(names)}, mode=mode)")
        self.renewed[-1].update({name: known[name] for name in returned[1:]})
        self.recall(depth, remembered, known, returned, True)

    def program(self) -> str:
        text = super().program()
        head, _, rest = text.partition("\n    x = ")
        classes = "".join(f"    {line}\n" for line in CLASSES.splitlines())
        return f"{head}\n{classes}    x = {rest}"

    def final(self, known: dict[str, str]) -> list[str]:
        draws = [f"{name}.next_uint32()" for name, type_ in sorted(known.items()) if type_ == "PCG32"]
        return [*self.readable("Float", known), *self.readable("UInt32", known), *draws]


def _writer(seed: int) -> _Writer:
    return _Changing(seed) if seed >= CHANGING else _Writer(seed)


def text_of(seed: int) -> str:
    """The program of a seed."""
    return _writer(seed).program()


def size_of(seed: int) -> int:
    """How many elements the arrays of a program have."""
    return _writer(seed).size


class _Plain:
    """``drjit`` with the constructs of Python, for one element."""

    def __init__(self, dr: Any) -> None:
        self._dr = dr

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dr, name)

    @staticmethod
    def if_stmt(args: Any, cond: Any, true_fn: Any, false_fn: Any, mode: Any = None) -> Any:
        """The result of one side."""
        return (true_fn if cond[0] else false_fn)(*args)

    @staticmethod
    def while_loop(state: Any, cond: Any, body: Any, mode: Any = None) -> Any:
        """The state after all iterations."""
        while cond(*state)[0]:
            state = body(*state)
        return state

    def switch(self, index: Any, targets: Any, *args: Any, mode: Any = None) -> Any:
        """The result of one target, which is new: elements could take none."""
        return self._dr.copy(targets[int(index[0])](*args))


def peer_runs(seed: int) -> bool:
    """Whether the peer has the same rules for what a program does."""
    return seed < CAPTURING


def _numbers(printed: str) -> list[str]:
    """What was printed, however it was split into lines: each number after the name of its place."""
    found: Counter[str] = Counter()
    for line in printed.splitlines():
        place, _, rest = line.partition(" ")
        found.update(f"{place} {number}" for number in re.findall(r"\d+", rest))
    return sorted(f"{key} x{count}" for key, count in found.items())


def run(seed: int, dr: Any, mode: str, notes: bool = True) -> list[str]:
    """The bits of a program's results, and the numbers that it printed; or what it raises."""
    import numpy as np

    scope: dict[str, Any] = {"dr": dr}
    exec(compile(text_of(seed), f"<program {seed}>", "exec", dont_inherit=True), scope)
    plain = mode == "scalar" and seed >= CHANGING
    functions = _Plain(dr) if plain else dr
    module = dr.scalar if mode == "scalar" and not plain else dr.llvm
    # What loops refer to has all elements.
    dr.set_flag(dr.JitFlag.CompressLoops, mode == "compressed" and seed < CAPTURING)
    float_array = dr.scalar.ArrayXf if module is dr.scalar else module.Float
    integer_array = dr.scalar.ArrayXu if module is dr.scalar else module.UInt32
    size, out = size_of(seed), io.StringIO()
    numbers = np.arange(TABLE, dtype=np.uint32)
    tables = float_array(numbers * np.float32(0.5)), integer_array(numbers * 5)
    bins = [integer_array(np.full(BINS, value, np.uint32)) for value in (0, 0, 1 << 20, 0)]

    def note(place: str, value: Any, active: Any = True) -> None:
        if notes:
            dr.print(place + " {}", value, active=active, file=out, limit=1 << 20)

    def call(lane: Any) -> list[Any]:
        found: list[Any] = scope["program"](functions, module, MODES[mode], lane, *tables, *bins, note)
        return found

    try:
        if plain:
            columns = [[np.array(value) for value in call(module.UInt32(lane))] for lane in range(size)]
            found = [np.concatenate(column) for column in zip(*columns, strict=True)]
        elif mode == "scalar":
            columns = [call(lane) for lane in range(size)]
            found = [np.array(column, np.float32 if isinstance(column[0], float) else np.uint32)
                     for column in zip(*columns, strict=True)]
        else:
            found = [np.array(value) for value in call(dr.arange(module.UInt32, size))]
        results = []
        for data in (*found, *map(np.array, bins)):
            data = data.reshape(-1) + data.dtype.type(0)  # -0 + 0 is 0
            if data.size and (data == data[0]).all():
                data = data[:1]
            results.append(f"{data.dtype} {data.tobytes().hex()}")
        dr.eval()  # what is printed in the mean time
        dr.sync_thread()
        return [*results, *_numbers(out.getvalue())]
    except Exception as error:
        while error.__cause__ is not None:  # the peer says where something happened
            error = error.__cause__  # type: ignore[assignment]
        return [f"{type(error).__name__}: {error}"]


def worker(mode: str, seeds: Sequence[int], notes: bool) -> None:
    """Run programs with whatever ``drjit`` there is, and print their results."""
    import drjit as dr

    for name in ("llvm", "scalar"):
        __import__(f"drjit.{name}")
    dr.set_flag(dr.JitFlag.FastMath, False)
    for seed in seeds:
        print(json.dumps([seed, run(seed, dr, mode, notes)]), flush=True)


def collect(python: str, mode: str, seeds: Sequence[int], ours: bool, notes: bool) -> dict[int, list[str]]:
    """The results of a batch of programs in an interpreter; of those at which it dies, that it did."""
    found: dict[int, list[str]] = {}
    rest = list(seeds)
    setup = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'compiler')!r}]\n" if ours else "import sys\n"
    start = f"{setup}sys.path.append({str(ROOT / 'conformance')!r}); import random_control\n"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # which leads here
    with tempfile.TemporaryDirectory() as folder:
        while rest:
            try:
                done = subprocess.run([python, "-c", f"{start}random_control.worker({mode!r}, {rest}, {notes})"],
                                      cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT,
                                      check=False).stdout
            except subprocess.TimeoutExpired as error:
                done = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
            for line in done.splitlines():
                seed, results = json.loads(line)
                found[seed] = results
            missing = [seed for seed in rest if seed not in found]
            if missing:
                found[missing[0]] = ["died or hung"]
            rest = missing[1:]
    return found


def seed_of(number: int) -> int:
    """The seed of the program of a number: a third of the programs change objects."""
    return number if number % 3 else number + (CHANGING if number % 2 else CAPTURING)


def main() -> int:
    """Run, compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peer", help="an interpreter that has Dr.Jit's wheel")
    parser.add_argument("--show", type=int, default=3, help="how many differing programs to print")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    seeds = [seed_of(number) for number in range(arguments.seed, arguments.seed + arguments.programs)]
    sides = {"symbolic mode": (sys.executable, "symbolic", True, True),
             "evaluated mode": (sys.executable, "evaluated", True, True),
             "loops that remove elements": (sys.executable, "compressed", True, True),
             "one element at a time": (sys.executable, "scalar", True, True)}
    if arguments.peer:
        sides["the peer"] = (arguments.peer, "symbolic", False, False)
    results: dict[str, dict[int, list[str]]] = {name: {} for name in sides}
    batches = [seeds[k:k + BATCH] for k in range(0, len(seeds), BATCH)]
    with concurrent.futures.ThreadPoolExecutor(arguments.workers) as pool:
        tasks = {}
        for batch in batches:
            for name, (python, mode, ours, notes) in sides.items():
                chosen = [seed for seed in batch if ours or peer_runs(seed)]
                tasks[pool.submit(collect, python, mode, chosen, ours, notes)] = name
        for count, task in enumerate(concurrent.futures.as_completed(tasks), 1):
            results[tasks[task]].update(task.result())
            print(f"\r{count} of {len(tasks)} batches", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if arguments.peer:
        odd = [seed for seed, found in results["the peer"].items() if differs(results["symbolic mode"][seed], found)]
        again = collect(arguments.peer, "evaluated", odd, False, False)
        itself = [seed for seed in odd if len(again[seed]) > 1 and
                  not differs(results["symbolic mode"][seed], again[seed])]
        print(f"the peer differs from its own evaluated mode, which agrees with us: {len(itself)}")
        results["the peer"].update({seed: again[seed] for seed in itself})
    return compare(seeds, results, arguments.show)


def differs(own: list[str], found: list[str]) -> bool:
    """Whether the peer has other results; it prints nothing, and what it raises or dies of is counted elsewhere."""
    return len(found) > 1 and own[:len(found)] != found


def compare(seeds: Sequence[int], results: dict[str, dict[int, list[str]]], show: int) -> int:
    """Print what differs from symbolic mode; 1 if anything does."""
    symbolic = results.pop("symbolic mode")
    raised = [seed for seed in seeds if len(symbolic[seed]) == 1]
    print(f"{len(seeds)} programs, {len(raised)} of which raise in symbolic mode")
    status = int(bool(raised))
    for seed in raised[:show]:
        print(f"\nseed {seed}: {symbolic[seed][0]}\n{text_of(seed)}")
    for name, found in results.items():
        failed = [seed for seed in seeds if seed in found and len(found[seed]) == 1]
        known = {seed: found[seed] for seed in seeds if seed in found}
        if name == "the peer":  # which prints in another order, and raises or dies at some programs
            known = {seed: found[seed] for seed in known if seed not in failed}
        differing = []
        for seed, values in known.items():
            own = symbolic[seed][:len(values)] if name == "the peer" else symbolic[seed]
            if values != own:
                differing.append(seed)
        print(f"symbolic mode and {name}: {len(differing)} of {len(known)} differ; {len(failed)} raise or die")
        status |= bool(differing)
        for seed in differing[:show]:
            own, values = symbolic[seed], found[seed]
            wrong = [i for i in range(max(len(own), len(values))) if own[i:i + 1] != values[i:i + 1]]
            print(f"\nseed {seed}: results {wrong}\n{text_of(seed)}")
            print("  symbolic:", *(own[i][:100] for i in wrong[:3] if i < len(own)), sep="\n    ")
            print(f"  {name}:", *(values[i][:100] for i in wrong[:3] if i < len(values)), sep="\n    ")
        for seed in failed[:1] if name != "the peer" else []:
            print(f"\nseed {seed} with {name}: {found[seed][0]}\n{text_of(seed)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
