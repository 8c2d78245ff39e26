"""Random programs in which arrays are known by several names: one after the other, elements compute what all of them do
at once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

import drjit as dr
from drjit import llvm

LANES = 3
#: Places that can be filled, and others.
PLACES = "box.a", "box.b", "box.parts[0]", "box.parts[1]", "table['k']"
PARTS = "box.v.x", "box.w.y", "box.v.y"
PAIRS = "box.v", "box.w"
SEEN = (*PLACES, *PARTS, "box.w.x", "x", "z", "v.x", "v.y", "w.x", "w.y")
#: What is refused because one iteration, or some of the elements, do not tell what the others do.
REFUSED = ("in some iterations only", "change places", "Pass a copy", "Pass copies", "are one array", "compress=False",
           "gives 'targets")


class Box:
    """An object with arrays."""

    def __init__(self, **arrays: Any) -> None:
        vars(self).update(arrays)


class Run:
    """What a program uses: all elements at once, or one of them with Python's own constructs."""

    def __init__(self, mode: Any, compress: bool = False, lane: int = -1) -> None:
        self.mode, self.compress, self.lane = mode, compress, lane

    def float(self, *values: float) -> Any:
        return llvm.Float(*values) if self.lane < 0 else llvm.Float(values[self.lane])

    def int(self, *values: int) -> Any:
        return llvm.UInt32(*values) if self.lane < 0 else llvm.UInt32(values[self.lane])

    def loop(self, state: Any, cond: Any, body: Any) -> Any:
        if self.lane < 0:
            return dr.while_loop(state, cond, body, mode=self.mode, compress=self.compress)
        while cond(*state)[0]:
            state = body(*state)
        return state

    def branch(self, arguments: Any, mask: Any, *sides: Any) -> Any:
        if self.lane < 0:
            return dr.if_stmt(arguments, mask, *sides, mode=self.mode)
        return sides[0 if mask[0] else 1](*arguments)

    def call(self, index: Any, targets: Any, *arguments: Any) -> Any:
        if self.lane < 0:
            return dr.switch(index, targets, *arguments, mode=self.mode)
        return targets[int(index[0])](*arguments)


def _statement(pick: random.Random, names: Sequence[str]) -> str:
    def place() -> str:
        return pick.choice(names if names and pick.random() < 0.3 else [*PLACES, *PLACES, *PARTS])

    first, second = pick.sample(PLACES, 2)
    return pick.choice([
        f"{place()} {pick.choice(['+=', '*=', '-='])} {pick.choice(['2.0', '1.0', place()])}",
        f"{place()} {pick.choice(['+=', '*=', '-='])} {pick.choice(['2.0', '1.0', place()])}",
        f"t = {place()}; t += {place()}",
        f"{place()} = {place()} + 1.0",
        f"{pick.choice([*names, *PLACES])} = {place()}",
        f"{first}, {second} = {second}, {first}",
        "box.v, box.w = box.w, box.v",
        f"{pick.choice(PAIRS)} = llvm.Array2f({place()}, {place()})",
        f"{pick.choice(PAIRS)} += 1.0",
        f"y = y + {place()}"])


def program(seed: int) -> str:
    """A program, in which arrays are in several places, and a construct changes some of it."""
    pick = random.Random(seed)

    def source() -> str:
        return pick.choice(["x", "z", "v.x", "v.y", "w.x", "p.float(9, 9, 9)"])

    lines = ["v = llvm.Array2f(p.float(1, 2, 3), p.float(4, 5, 6))",
             f"w = {pick.choice(['v', 'llvm.Array2f(p.float(7, 8, 9), p.float(2, 4, 8))'])}",
             "x, z, y = p.float(1, 3, 5), p.float(10, 20, 30), p.float(0, 0, 0)",
             f"box = Box(a={source()}, b={source()}, v=v, w=w, parts=[{source()}, {source()}])",
             f"table = {{'k': {source()}}}"]
    arguments = [pick.choice(["x", "z", "box.a", "box.parts[0]", "v.x", "table['k']", "box.v.y"])
                 for _ in range(pick.choice([0, 1, 2]))]
    names = [f"q{k}" for k in range(len(arguments))]
    parameters, given = "".join(f", {name}" for name in names), "".join(f", {each}" for each in arguments)

    def function(head: str, result: str) -> None:
        lines.append(f"def {head}:")
        lines.extend(f"    {_statement(pick, names)}" for _ in range(pick.choice([1, 2, 2, 3, 4])))
        lines.append(f"    return {result}")

    kind = pick.choice(["loop", "loop", "branch", "call"])
    if kind == "loop":
        returned = parameters if pick.random() < 0.8 else "".join(f", {name}" for name in reversed(names))
        function(f"body(i, y{parameters})", f"i + 1, y{returned}")
        lines.append(f"_, y, *found = p.loop((p.int(0, 1, 2), y{given}), lambda i, *_: i < {pick.choice([2, 3, 4])}, "
                     "body)")
    else:
        function(f"first(y{parameters})", f"y{parameters},")
        if pick.random() < 0.5:
            function(f"second(y{parameters})", f"y{parameters},")
        else:
            lines.append(f"second = lambda y{parameters}: (y{parameters},)")
        lines.append(f"y, *found = p.branch((y{given},), p.int(0, 1, 2) < 2, first, second)" if kind == "branch" else
                     f"y, *found = p.call(p.int(0, 1, 1), [first, second], y{given})")
    return "\n".join([*lines, f"seen = [y, *found, {', '.join(SEEN)}]"])


def run(text: str, p: Run) -> list[list[float]]:
    scope: dict[str, Any] = {"llvm": llvm, "Box": Box, "p": p}
    exec(text, scope)
    found = [list(each) for each in scope["seen"]]
    return [each * LANES if p.lane < 0 and len(each) == 1 else each for each in found]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated", "compressed"])
@pytest.mark.parametrize("seed", range(8))
def test_arrays_with_several_names_are_as_with_one_element(seed: int, mode: str) -> None:
    refused = 0
    for number in range(25 * seed, 25 * seed + 25):
        text = program(number)
        columns = [run(text, Run(None, lane=lane)) for lane in range(LANES)]
        wanted = [[part[0] for part in parts] for parts in zip(*columns, strict=True)]
        try:
            found = run(text, Run("symbolic" if mode == "symbolic" else "evaluated", mode == "compressed"))
        except RuntimeError as error:
            assert [reason for reason in REFUSED if reason in str(error)], f"{number}: {error}\n{text}"
            refused += 1
        else:
            assert found == wanted, f"{number}:\n{text}"
    assert refused < 12
