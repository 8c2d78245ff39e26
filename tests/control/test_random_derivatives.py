"""Random programs of nested branches, calls and loops: reverse and forward mode against finite differences.

They contain what cuts derivatives (``dr.detach``, suspended scopes), custom operations, updates of a buffer from
outside, and evaluations between recording and traversal. Finite differences hold what is cut constant: a first run
notes the values there, later ones take them from the notes.
"""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Float64 as F
from drjit.llvm.ad import UInt32 as U

_WIDTH = 5


class _Writer:
    """Writes the text of a function ``f(m, x, w, t, cut)``: of a mode, a variable for each element, one, a table, and
    what cuts derivatives."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = ["def f(m, x, w, t, cut):"]
        self.count = 0
        self.write(1, "bins = dr.zeros(F, 8)")
        self.write(1, "u, lane, v0, v1 = x * w, dr.arange(U, 5), x + 0, " + self.random.choice(["dr.cos(x)", "F(0.5)"]))
        self.block(1, ["v0", "v1"], ["lane"], 3)
        if self.random.random() < 0.4:
            self.write(1, self.random.choice(["dr.eval(v0)", "dr.eval(v0, v1)", "dr.eval(bins)"]))
        self.block(1, ["v0", "v1"], ["lane"], 2)
        self.write(1, "return v0 + 2 * v1 + dr.gather(F, bins * bins, lane)")

    def write(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def value(self, names: list[str], integers: list[str], depth: int = 0) -> str:
        kind = self.random.randint(0, 11 if depth < 2 else 3)
        if kind <= 1:
            return self.random.choice(names)
        if kind == 10:
            return f"cut({self.value(names, integers, depth + 1)})"
        if kind == 11:
            return f"dr.custom(Wave, {self.value(names, integers, depth + 1)})"
        if kind == 2:
            return self.random.choice(["w", "u", "x"])
        if kind == 3:
            return f"{self.random.uniform(-1, 1):.3f}"
        first, number = self.value(names, integers, depth + 1), self.random.choice(integers)
        if kind == 4:
            return f"dr.sin({first})"
        if kind == 8:
            return f"dr.gather(F, t, ({number} + {self.random.randint(0, 7)}) & 7)"
        second = self.value(names, integers, depth + 1)
        return f"dr.select({number} & 1 == 0, {first}, {second})" if kind == 9 else \
            f"({first} {'*+-'[kind - 5]} {second})"

    def block(self, depth: int, names: list[str], integers: list[str], budget: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.randint(0, 10) if budget else self.random.choice([0, 0, 0, 10])
            name = self.random.choice(names)
            if kind <= 2:
                self.write(depth, f"{name} = dr.sin({self.value(names, integers)}) + 0.3 * {name}")
            elif kind == 3:
                self.write(depth, f"{name} = {name} + dr.sin({self.value(['x', 'w'], integers)})")
            elif kind <= 5:
                functions = ", ".join(self.function(depth, names, integers, budget - 1) for _ in range(2))
                number = self.random.choice(integers)
                self.write(depth, f"{', '.join(names)}, = dr.if_stmt(({', '.join(names)},), "
                                  f"{number} & {self.random.randint(1, 3)} == 0, {functions}, mode=m)")
            elif kind <= 7:
                self.loop(depth, names, integers, budget - 1)
            elif kind == 8:
                count = self.random.randint(1, 3)
                functions = ", ".join(self.function(depth, names, integers, budget - 1) for _ in range(count))
                self.write(depth, f"{', '.join(names)}, = switch(m, ({self.random.choice(integers)} + lane) % "
                                  f"{count + self.random.randint(0, 1)}, [{functions}], "
                                  f"{', '.join(names)})")
            elif kind == 10:
                active = f", {self.random.choice(integers)} & 1 == 0" if self.random.random() < 0.4 else ""
                self.write(depth, f"dr.scatter_reduce(dr.ReduceOp.Add, bins, F({self.value(names, integers)}), "
                                  f"({self.random.choice(integers)} + lane) & 7{active})")
            else:
                self.write(depth, f"{name} = dr.fma({self.value(names, integers)}, w, {name} * 0.25)")

    def function(self, depth: int, names: list[str], integers: list[str], budget: int) -> str:
        function = self.name("f")
        self.write(depth, f"def {function}({', '.join(names)}):")
        self.block(depth + 1, names, integers, budget)
        self.write(depth + 1, f"return {', '.join(names)},")
        return function

    def loop(self, depth: int, names: list[str], integers: list[str], budget: int) -> None:
        i, body, limit = self.name("i"), self.name("b"), self.name("n")
        state = names if self.random.random() < 0.6 else self.random.sample(names, 1)
        others = [name for name in names if name not in state]
        self.write(depth, f"def {body}({i}, {', '.join(state)}):")
        self.block(depth + 1, state, [*integers, i], budget)
        if others:  # which changes later
            self.write(depth + 1, f"{state[0]} = {state[0]} * 0.5 + dr.sin({others[0]})")
        self.write(depth + 1, f"return {i} + 1, {', '.join(state)}")
        number = self.random.choice(["lane & 3", "lane % 3 + 1", "U(2)", "U(1)", "U(0)", "3 - (lane & 1)"])
        self.write(depth, f"{limit} = {number}")
        self.write(depth, f"_, {', '.join(state)} = dr.while_loop((U(0), {', '.join(state)}), lambda {i}, *_: {i} < "
                          f"{limit}, {body}, mode=m{self.random.choice(['', '', ', max_iterations=4'])})")


def switch(mode: str, index: Any, targets: list[Any], *args: Any) -> Any:
    """A call; evaluated, a branch for each target, since targets read variables from outside, which have all lanes."""
    if mode == "symbolic":
        return dr.switch(index, targets, *args)
    found = tuple([F(0) for _ in args])
    for number, target in enumerate(targets):
        def chosen(*old: Any, target: Any = target) -> Any:
            return tuple(target(*args))

        found = dr.if_stmt(found, index == number, chosen, lambda *old: old, mode="evaluated")
    return found


class Wave(dr.CustomOp):
    """x + cos(x), with rules of its own."""

    def eval(self, x: Any) -> Any:
        self.x = x
        return x + dr.cos(x)

    def forward(self) -> None:
        self.set_grad_out(self.grad_in("x") * (1 - dr.sin(self.x)))

    def backward(self) -> None:
        self.set_grad_in("x", self.grad_out() * (1 - dr.sin(self.x)))


class Cut:
    """Cuts derivatives: notes values, then takes them from the notes; or detaches, in one of two ways.

    The notes are bytes, which constructs neither join nor put back.
    """

    def __init__(self, way: str) -> None:
        self.way, self.notes = way, io.BytesIO()

    def __call__(self, value: Any) -> Any:
        if self.way == "detach":
            return dr.detach(value)
        if self.way == "suspend":
            with dr.suspend_grad():
                return value * 1
        if self.way == "note":
            np.save(self.notes, np.array(value))
            return value
        return F(np.load(self.notes))


def check(seed: int) -> None:
    text = "\n".join(_Writer(seed).lines)
    names: dict[str, Any] = {"dr": dr, "F": F, "U": U, "Wave": Wave, "switch": switch}
    exec(text, names)
    numbers = np.random.default_rng(seed)
    points = [numbers.uniform(-1, 1, size) for size in (_WIDTH, 1, 8)]
    directions = [numbers.standard_normal(point.shape) for point in points]

    def value(mode: str, at: list[Any], cut: Any) -> Any:
        return dr.sum(names["f"](mode, *at, cut) * F(np.cos(np.arange(_WIDTH)) + 1.5))

    def plain(step: float, cut: Cut, mode: str = "evaluated") -> float:
        cut.notes.seek(0)
        return float(value(mode, [F(point + step * direction)
                                  for point, direction in zip(points, directions, strict=True)], cut)[0])

    notes = Cut("note")
    np.testing.assert_allclose(plain(0, Cut("detach"), "symbolic"), plain(0, notes), rtol=1e-9, err_msg=text)
    notes.way = "replay"
    slope = (plain(1e-5, notes) - plain(-1e-5, notes)) / 2e-5
    for mode in ("symbolic", "evaluated"):
        variables = [F(point) for point in points]
        dr.enable_grad(variables)
        result = value(mode, variables, Cut("detach" if seed & 1 else "suspend"))
        if not dr.grad_enabled(result):
            assert abs(slope) < 1e-6, text
            continue
        if seed % 3 == 0:
            dr.eval(result)
        dr.backward(result, flags=dr.ADFlag.ClearInterior)
        reverse = sum(float((np.broadcast_to(variable.grad.numpy(), point.shape) * direction).sum()) for
                      variable, point, direction in zip(variables, points, directions, strict=True))
        np.testing.assert_allclose(reverse, slope, rtol=1e-5, atol=1e-5, err_msg=f"{mode}\n{text}")
        dr.clear_grad([variables, result])
        for variable, direction in zip(variables, directions, strict=True):
            dr.set_grad(variable, F(direction))
        np.testing.assert_allclose(float(dr.forward_to(result)[0]), slope, rtol=1e-5, atol=1e-5,
                                   err_msg=f"{mode}\n{text}")


@pytest.fixture(autouse=True)
def let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays are let go, too, when what is differentiated has been evaluated."""
    monkeypatch.setattr("drjit_core.derivatives.tape._FEW", -1)


@pytest.mark.parametrize("seed", [*range(20), 173, 251])
def test_random_programs(seed: int) -> None:
    check(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(20, 300))
def test_more_random_programs(seed: int) -> None:
    check(seed)
