"""Random programs that have derivatives: made from a seed, as lines of Python, and run in several ways.

A program is a list of statements such as ``v5 = dr.sin(v1) * v2`` over flat arrays, vectors of three components and
tensors. It is smooth where it is run: statements that are not (roots, minima, sorting ...) come with conditions on
their operands. Values that are constants as far as derivatives go (those of ``hold``, of suspended scopes, rounding)
are recorded by a run, and another run, nearby, uses them again: finite differences then see what derivatives see.

Needs nothing but NumPy: modules and types are arguments, so that other interpreters can run programs, too.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["Differences", "Leaf", "Machine", "Program", "Rejected", "Statement", "differences", "generate", "numbers",
           "shrink", "weighted", "weights"]

Array = np.ndarray[Any, Any]
#: How far operands keep away from points where there is no derivative, and how far finite differences go.
MARGIN, STEP = 2e-2, 1e-4
LIMIT, SLOPE, BEND = 12.0, 200.0, 3e-4


class Rejected(Exception):
    """A statement has no derivative where it would run, or its values are out of bounds."""


@dataclasses.dataclass(frozen=True)
class Leaf:
    """An array that a program begins with: ``kind`` is one of ``FVT`` (flat, vector, tensor)."""

    name: str
    kind: str
    values: Array
    #: Whether derivatives are tracked.
    variable: bool = True

    def __str__(self) -> str:
        comment = "  # a variable" if self.variable else ""
        return f"{self.name} = {self.kind}({self.values.tolist()}){comment}"


@dataclasses.dataclass(frozen=True)
class Statement:
    """A line of Python, the variable that it makes or changes, those that it reads, and what these must fulfil."""

    text: str
    target: str
    uses: tuple[str, ...]
    conditions: tuple[str, ...] = ()
    changes: bool = False

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class Program:
    """Leaves and statements; all variables at the end are results, unless some are named."""

    seed: int
    leaves: tuple[Leaf, ...]
    statements: tuple[Statement, ...]
    results: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"# seed {self.seed}", *map(str, self.leaves), *map(str, self.statements)]
        return "\n".join(lines + ([f"# results: {', '.join(self.results)}"] if self.results else []))

    @property
    def text(self) -> str:
        """All statements."""
        return "\n".join(map(str, self.statements))


def numbers(value: Any) -> Array:
    """The numbers in an array, in double precision."""
    return np.asarray(value.numpy(), dtype=np.float64)


# --- conditions ------------------------------------------------------------------------------------------------------


def _nonzero(a: Any) -> bool:
    return bool((np.abs(numbers(a)) > MARGIN).all())


def _between(a: Any, low: float, high: float) -> bool:
    values = numbers(a)
    return bool((values > low + MARGIN).all() and (values < high - MARGIN).all())


def _off(a: Any, *limits: float) -> bool:
    """No element is near certain numbers."""
    return all(bool((np.abs(numbers(a) - limit) > MARGIN).all()) for limit in limits)


def _apart(a: Any, b: Any) -> bool:
    return bool((np.abs(numbers(a) - numbers(b)) > MARGIN).all())


def _distinct(*values: Any) -> bool:
    """No two elements of all are near each other."""
    found = np.sort(np.concatenate([numbers(value).ravel() for value in values]))
    return bool((np.diff(found) > MARGIN).all())


CONDITIONS: dict[str, Any] = {"nonzero": _nonzero, "between": _between, "off": _off, "apart": _apart,
                              "distinct": _distinct}


# --- running ---------------------------------------------------------------------------------------------------------


class Machine:
    """Runs statements.

    ``tape`` is what an earlier run has recorded, and ``None`` for a run that records; ``tracks`` says that derivatives
    are: scopes and other things that affect them are what they say then, and else what finite differences need.
    """

    def __init__(self, dr: Any, types: Any, *, tracks: bool, tape: list[Any] | None = None,
                 single: bool = False) -> None:
        self.dr, self.tracks = dr, tracks
        self.replays = tape is not None
        self.tape: list[Any] = [] if tape is None else list(tape)
        suffix = "" if single else "64"
        self.types: dict[str, Any] = {
            "F": getattr(types, "Float" + suffix), "V": getattr(types, "Array3f" + suffix),
            "T": getattr(types, "TensorXf" + suffix), "I": types.UInt32, "M": types.Bool}
        self.less_precise = {32: {"F": types.Float, "V": types.Array3f, "T": types.TensorXf},
                             16: {"F": types.Float16, "V": types.Array3f16, "T": types.TensorXf16}}
        self.values: dict[str, Any] = {}

    def names(self) -> dict[str, Any]:
        """What the lines of programs refer to (made anew: nothing here refers to itself)."""
        return {"dr": self.dr, **self.types, "hold": self.hold, "suspended": self.suspended, "resumed": self.resumed,
                "narrow": self.narrow, "replaced": self.replaced, "product": self.product, "rotated": self.rotated,
                "loop": self.loop, "filtered": self.filtered}

    def array(self, leaf: Leaf, values: Array | None = None) -> Any:
        """An array for a leaf: a literal, if all elements are equal."""
        values = leaf.values if values is None else values
        if leaf.kind == "F" and values.size > 1 and (values == values[0]).all():
            return self.dr.full(self.types["F"], float(values[0]), values.size)
        return self.types[leaf.kind](values)

    def run(self, statement: Statement) -> None:
        """Run a statement."""
        exec(_compiled(statement.text), self.names(), self.values)

    def check(self, statement: Statement) -> bool:
        """Whether the conditions of a statement hold."""
        return all(eval(_compiled(text, "eval"), {**CONDITIONS, **self.names()}, self.values)
                   for text in statement.conditions)

    # --- what depends on the way of running --------------------------------------------------------------------------

    def _recorded(self, value: Any) -> Any:
        """A constant: the value itself where it was recorded."""
        cls = type(value)
        if self.replays:
            return cls(self.tape.pop(0))
        self.tape.append(value.numpy())
        return cls(self.tape[-1])

    def hold(self, a: Any) -> Any:
        """``dr.detach``."""
        return self.dr.detach(a) if self.tracks else self._recorded(a)

    def suspended(self, function: Callable[..., Any], constants: Sequence[Any], others: Sequence[Any]) -> Any:
        """A function in a scope that suspends derivatives: all, or those with respect to some arrays."""
        if self.tracks:
            with self.dr.suspend_grad(*constants):
                return function(*constants, *others)
        if constants:
            return function(*map(self._recorded, constants), *others)
        return self._recorded(function(*others))

    def resumed(self, function: Callable[..., Any], constants: Sequence[Any], others: Sequence[Any]) -> Any:
        """A function in a scope that suspends all derivatives, in which one resumes those of the other arguments."""
        if self.tracks:
            with self.dr.suspend_grad(), self.dr.resume_grad(*others):
                return function(*constants, *others)
        return function(*map(self._recorded, constants), *others)

    def narrow(self, bits: int, a: Any) -> Any:
        """Converted to a less precise type and back: rounding has no derivative."""
        kind, _ = shape_of(a)
        cls = self.less_precise[bits][kind]
        if self.tracks:
            return type(a)(cls(a))
        return self._recorded(type(a)(cls(a)) - a) + a

    def replaced(self, a: Any, b: Any) -> Any:
        """``dr.replace_grad``."""
        if self.tracks:
            return self.dr.replace_grad(a, b)
        return self._recorded(a + b * 0) + (b - self._recorded(b))

    def product(self, a: Any, b: Any) -> Any:
        """A custom operation."""
        return self.dr.custom(_operations(self.dr)[0], a, b)

    def rotated(self, a: Any, b: Any) -> Any:
        """A custom operation with two results, in a structure."""
        found = self.dr.custom(_operations(self.dr)[1], [a, b], 0.5)
        return found["sum"] * found["product"]

    def loop(self, function: Callable[..., Any], count: Any, state: Any) -> Any:
        """An evaluated loop that goes so many times, for each element."""
        index = self.types["I"]
        _, state, _ = self.dr.while_loop((index(0), state, index(count)), lambda i, s, n: i < n,
                                         lambda i, s, n: (i + 1, function(s), n), mode="evaluated")
        return state

    def filtered(self, a: Any, limit: float) -> Any:
        """Elements that are greater, by their indices."""
        return self.dr.gather(type(a), a, self.dr.compress(a > limit))


_code: dict[tuple[str, str], Any] = {}
_classes: dict[int, tuple[Any, Any]] = {}


def _compiled(text: str, mode: str = "exec") -> Any:
    if (text, mode) not in _code:
        _code[text, mode] = compile(text, f"<{text}>", mode)
    return _code[text, mode]


def _operations(dr: Any) -> tuple[Any, Any]:
    if id(dr) in _classes:
        return _classes[id(dr)]

    class Product(dr.CustomOp):  # type: ignore[misc]
        def eval(self, x: Any, y: Any) -> Any:
            self.x, self.y = x, y
            return x * y

        def forward(self) -> None:
            self.set_grad_out(self.y * self.grad_in("x") + self.x * self.grad_in("y"))

        def backward(self) -> None:
            self.set_grad_in("x", self.y * self.grad_out())
            self.set_grad_in("y", self.x * self.grad_out())

    class Pair(dr.CustomOp):  # type: ignore[misc]
        def eval(self, values: Any, scale: float) -> Any:
            self.values, self.scale = values, scale
            a, b = values
            return {"sum": (a + b) * scale, "product": a * b}

        def forward(self) -> None:
            (a, b), (x, y) = self.values, self.grad_in("values")
            self.set_grad_out({"sum": (x + y) * self.scale, "product": a * y + b * x})

        def backward(self) -> None:
            (a, b), g = self.values, self.grad_out()
            s, p = g["sum"] * self.scale, g["product"]
            self.set_grad_in("values", [s + b * p, s + a * p])

    _classes[id(dr)] = Product, Pair
    return Product, Pair


def weights(values: dict[str, Any], seed: int) -> dict[str, Array]:
    """Numbers for each element of some arrays, always the same."""
    return {name: np.random.default_rng([seed, *name.encode()]).uniform(-1, 1, value.numpy().shape)
            for name, value in values.items()}


def weighted(values: dict[str, Any], factors: dict[str, Array], dr: Any, flat: Any) -> Any:
    """The weighted sum of all elements of some arrays, as an array of one."""
    total = flat(0)
    for name, factor in factors.items():
        value = values[name]
        product = dr.sum(value * type(value)(factor), axis=None)
        total += flat(product.array if dr.is_tensor_v(product) else product)
    return total


# --- finite differences ----------------------------------------------------------------------------------------------


class Differences:
    """A program at five points on a line, as far as it has been run."""

    def __init__(self, dr: Any, types: Any, leaves: Sequence[Leaf], seed: int) -> None:
        source = np.random.default_rng(seed)
        self.directions = {leaf.name: np.round(source.uniform(-1, 1, leaf.values.shape), 3)
                           for leaf in leaves if leaf.variable}
        self.leaves = tuple(leaves)
        self.dr, self.types = dr, types
        self.machines = [Machine(dr, types, tracks=False, tape=tape) for tape in (None, [], [], [], [])]
        for machine, step in zip(self.machines, (0, 1, -1, 2, -2), strict=True):
            for leaf in leaves:
                values = leaf.values + step * STEP * self.directions.get(leaf.name, np.zeros(()))
                machine.values[leaf.name] = machine.array(leaf, values)

    def try_(self, statement: Statement) -> None:
        """Run a statement; raises if it has no derivative there, or values are out of bounds; and changes nothing."""
        base = self.machines[0]
        if not base.check(statement):
            raise Rejected
        saved = [machine.values for machine in self.machines]
        taped = len(base.tape)
        for machine in self.machines:
            machine.values = {name: type(value)(value) if statement.changes and name == statement.target else value
                              for name, value in machine.values.items()}
        try:
            base.run(statement)
            for machine in self.machines[1:]:
                machine.tape = base.tape[taped:]
                machine.run(statement)
            self.judge(statement.target)
        except Exception:
            for machine, values in zip(self.machines, saved, strict=True):
                machine.values = values
            del base.tape[taped:]
            raise

    def judge(self, name: str) -> None:
        """Whether finite differences are trustworthy."""
        value = numbers(self.machines[0].values[name])
        if not np.isfinite(value).all() or np.abs(value).max(initial=0) > LIMIT or value.size > 400:
            raise Rejected
        first, second = self.slopes(name)
        if not np.isfinite(first).all() or np.abs(first).max(initial=0) > SLOPE or \
                np.abs(first - second).max(initial=0) > BEND:
            raise Rejected

    def slopes(self, name: str) -> tuple[Array, Array]:
        """Central differences with one step and with two."""
        _, a, b, c, d = (numbers(machine.values[name]) for machine in self.machines)
        return (a - b) / (2 * STEP), (c - d) / (4 * STEP)

    def expected(self, name: str) -> Array:
        """The change of a variable."""
        first, second = self.slopes(name)
        return np.asarray((4 * first - second) / 3)


def differences(program: Program, dr: Any, types: Any) -> Differences:
    """A whole program; raises if it has no derivative somewhere."""
    found = Differences(dr, types, program.leaves, program.seed)
    for statement in program.statements:
        found.try_(statement)
    return found


# --- making programs -------------------------------------------------------------------------------------------------


class _Maker:
    """Proposes statements on the variables that there are."""

    def __init__(self, source: random.Random, shapes: dict[str, tuple[str, tuple[int, ...]]], number: int) -> None:
        self.random, self.shapes, self.number = source, shapes, number

    # --- choices ---

    def names(self, kind: str, accept: Callable[[tuple[int, ...]], bool] = lambda shape: True) -> list[str]:
        return [name for name, (own, shape) in self.shapes.items() if own == kind and accept(shape)]

    def pick(self, names: Sequence[str]) -> str:
        if not names:
            raise Rejected
        recent = names[-4:]
        return self.random.choice(recent if self.random.random() < 0.5 else names)

    def flat(self, minimum: int = 1) -> str:
        return self.pick(self.names("F", lambda shape: shape[0] >= minimum))

    def like(self, name: str) -> str:
        """An operand that can be combined with another elementwise."""
        return self.pick(self.all_like(name))

    def all_like(self, name: str) -> list[str]:
        kind, shape = self.shapes[name]
        if kind == "T":
            return self.names("T", lambda other: _broadcasts(shape, other))
        size = shape[-1]
        return self.names(kind, lambda other: 1 in (size, other[-1]) or size == other[-1])

    def any(self) -> str:
        return self.pick(list(self.shapes))

    def tensor(self, rank: int = 1) -> str:
        return self.pick(self.names("T", lambda shape: len(shape) >= rank))

    def size(self, name: str) -> int:
        return self.shapes[name][1][-1]

    def indices(self, count: int, below: int, *, unique: bool = False) -> str:
        if unique:
            return f"I({self.random.sample(range(below), count)})"
        return f"I({[self.random.randrange(below) for _ in range(count)]})"

    def mask(self, count: int) -> str:
        return f"M({[self.random.random() < 0.7 for _ in range(count)]})"

    def constant(self) -> float:
        return round(self.random.choice([-1, 1]) * self.random.uniform(0.3, 1.5), 2)

    # --- statements ---

    def new(self, text: str, *uses: str, conditions: Sequence[str] = ()) -> Statement:
        name = f"v{self.number}"
        return Statement(f"{name} = {text}", name, tuple(dict.fromkeys(uses)), tuple(conditions))

    def change(self, text: str, target: str, *uses: str, conditions: Sequence[str] = ()) -> Statement:
        return Statement(text, target, tuple(dict.fromkeys((target, *uses))), tuple(conditions), True)

    def unary(self) -> Statement:
        a = self.any()
        text, *conditions = self.random.choice(UNARY)
        return self.new(text.format(a), a, conditions=[c.format(a) for c in conditions])

    def binary(self) -> Statement:
        a = self.any()
        b = a if self.random.random() < 0.1 else self.like(a)
        if self.random.random() < 0.5:
            a, b = b, a
        text, *conditions = self.random.choice(BINARY)
        return self.new(text.format(a, b, c=self.constant()), a, b, conditions=[c.format(a, b) for c in conditions])

    def ternary(self) -> Statement:
        a = self.any()
        b, c = self.like(a), self.like(a)
        if c not in self.all_like(b):
            raise Rejected
        text, *conditions = self.random.choice(TERNARY)
        return self.new(text.format(a, b, c), a, b, c, conditions=[k.format(a, b, c) for k in conditions])

    def held(self) -> Statement:
        a = self.any()
        b = self.like(a)
        text = self.random.choice(HELD)
        if text.startswith(("product", "rotated")) and self.shapes[a][0] == "T" and self.shapes[a] != self.shapes[b]:
            raise Rejected  # its author would have to sum gradients along axes
        return self.new(text.format(a, b), a, b)

    def gathered(self) -> Statement:
        a = self.flat()
        n = self.size(a)
        count = self.random.choice([1, n, n, self.random.randint(1, 9)])
        index = self.indices(count, n)
        if self.random.random() < 0.4:
            index += ", " + self.mask(self.random.choice([1, count]))
        kind = self.random.choice("FFV") if n >= 3 else "F"
        if kind == "V":
            index = f"I({[self.random.randrange(n // 3) for _ in range(count)]})"
        return self.new(f"dr.gather({kind}, {a}, {index})", a)

    def scattered(self) -> Statement:
        target = self.flat()
        n = self.size(target)
        if n >= 3 and self.random.random() < 0.2:
            v = self.pick(self.names("V"))
            k = self.size(v)
            count = k if k > 1 else self.random.randint(1, 4)
            op = "scatter" if k <= n // 3 and count <= n // 3 else "scatter_add"
            index = self.indices(count, n // 3, unique=op == "scatter")
            return self.change(f"dr.{op}({target}, {v}, {index})", target, v)
        op = self.random.choice(["Identity", "Add", "Add", "Mul", "Min", "Max"])
        value = self.pick(self.names("F", lambda shape: op != "Identity" or shape[0] <= n))
        k = self.size(value)
        count = k if k > 1 else self.random.randint(1, n if op == "Identity" else 6)
        index = self.indices(count, n, unique=op == "Identity")
        mask = ", " + self.mask(count) if self.random.random() < 0.4 else ""
        if value == target:
            raise Rejected
        if op == "Identity":
            return self.change(f"dr.scatter({target}, {value}, {index}{mask})", target, value)
        mode = ""
        if self.random.random() < 0.5:
            modes = ["Auto", "Direct", "Local", "Expand"] if op == "Add" else ["Auto", "Direct", "Local"]
            mode = f", mode=dr.ReduceMode.{self.random.choice(modes)}"
        conditions = [f"distinct({target}, {value})"] if op in ("Min", "Max") else []
        if op in ("Min", "Max") and k == 1 and count > 1:
            index, mask = self.indices(count, n, unique=True) if count <= n else f"I({self.random.randrange(n)})", ""
        return self.change(f"dr.scatter_reduce(dr.ReduceOp.{op}, {target}, {value}, {index}{mask}{mode})", target,
                           value, conditions=conditions)

    def reduced(self) -> Statement:
        a = self.any()
        kind, shape = self.shapes[a]
        options = ""
        if kind == "T" and shape:
            axes = self.random.sample(range(len(shape)), self.random.randint(1, len(shape)))
            axis = axes[0] if len(axes) == 1 else tuple(sorted(axes))
            options = self.random.choice(["", f", axis={axis}", f", axis={axis}, keepdims=True", ", axis=None"])
        text, *conditions = self.random.choice(REDUCTIONS)
        if kind == "V" and "square" in text:
            raise Rejected
        return self.new(text.format(a, options), a, conditions=[c.format(a) for c in conditions])

    def blocks(self) -> Statement:
        a = self.flat(2)
        n = self.size(a)
        size = self.random.choice([k for k in range(2, n + 1) if n % k == 0])
        text, *conditions = self.random.choice(BLOCKS)
        return self.new(text.format(a, size), a, conditions=[c.format(a) for c in conditions])

    def axes(self) -> Statement:
        a = self.tensor(1)
        axis = self.random.randrange(len(self.shapes[a][1]))
        text, *conditions = self.random.choice(ALONG)
        return self.new(text.format(a, axis), a, conditions=[c.format(a) for c in conditions])

    def slices(self, name: str) -> str:
        """An index of a flat array or a tensor."""
        _, shape = self.shapes[name]
        parts = []
        for extent in shape:
            start = self.random.randrange(extent)
            stop = self.random.randint(start + 1, extent)
            parts.append(self.random.choice([
                ":", f"{start}:{stop}", f"{start}:{stop}", "::2", "::-1", f"{stop - 1}::-1", f"{start}:", "None, :",
                f"[{start}, {extent - 1}]" if len(shape) > 1 else ":", str(start) if len(shape) > 1 else f"{start}:"]))
        if len(shape) == 1:
            parts = [parts[0].removeprefix("None, ")]
        if sum(part.startswith("[") for part in parts) > 1:
            raise Rejected
        return ", ".join(parts)

    def sliced(self) -> Statement:
        a = self.pick(self.names("F", lambda shape: shape[0] > 1) + self.names("T", lambda shape: len(shape) > 0))
        return self.new(f"{a}[{self.slices(a)}]", a)

    def assigned(self) -> Statement:
        a = self.pick(self.names("F", lambda shape: shape[0] > 1) + self.names("T", lambda shape: len(shape) > 0))
        kind, shape = self.shapes[a]
        choice = self.random.randrange(4)
        if choice == 0 and kind == "F":
            b = self.like(a)
            limit = self.constant()
            if self.size(b) > self.size(a):
                raise Rejected
            return self.change(f"{a}[{a} > {limit}] = {b}", a, b, conditions=[f"off({a}, {limit})"])
        if choice == 1 and kind == "F":
            return self.change(f"{a}[{self.random.randrange(shape[0])}] = {self.constant()}", a)
        index = self.slices(a).replace("None, ", "")
        if choice == 2:
            value = str(self.constant())
            return self.change(f"{a}[{index}] = {value}", a)
        zeros = np.empty(shape)
        found = eval(f"x[{index}]", {}, {"x": zeros}).shape
        if "[" in index and len(set(eval(index[index.index("["):index.index("]") + 1]))) < 2:
            raise Rejected
        names = self.names(kind, lambda other: _fits(other, found))
        b = self.pick([name for name in names if name != a])
        sign = self.random.choice(["=", "=", "+=", "*="])
        return self.change(f"{a}[{index}] {sign} {b}", a, b)

    def in_place(self) -> Statement:
        a = self.any()
        b = self.like(a)
        if not _fits(self.shapes[b][1], self.shapes[a][1]):
            a, b = b, a
        if not _fits(self.shapes[b][1], self.shapes[a][1]):
            raise Rejected
        return self.change(f"{a} {self.random.choice(['+=', '-=', '*='])} {b}", a, b)

    def components(self) -> Statement:
        v = self.pick(self.names("V"))
        size = self.size(v)
        part = self.random.choice("xyz")
        fitting = self.names("F", lambda shape: shape[0] in (1, size))
        choice = self.random.randrange(5)
        if choice == 0:
            return self.new(f"{v}.{part} * {v}.{self.random.choice('xyz')}", v)
        if choice == 1:
            return self.change(f"{v}.{part} {self.random.choice(['=', '+=', '*='])} {self.constant()}", v)
        if choice == 2 and fitting:
            a, b, c = (self.pick(fitting) for _ in range(3))
            return self.new(f"V({a}, {b}, {c})", a, b, c)
        if fitting:
            a = self.pick(fitting)
            return self.change(f"{v}.{part} {self.random.choice(['=', '+=', '*='])} {a}", v, a)
        return self.new(f"dr.norm({v})", v, conditions=[f"nonzero(dr.norm({v}))"])

    def vectors(self) -> Statement:
        v = self.pick(self.names("V"))
        w = self.like(v)
        text = self.random.choice(VECTORS)
        return self.new(text.format(v, w), v, w, conditions=[f"nonzero(dr.norm({v}))", f"nonzero(dr.norm({w}))"])

    def reshaped(self) -> Statement:
        kind = self.random.choice("FTT")
        a = self.pick(self.names(kind))
        _, shape = self.shapes[a]
        count = int(np.prod(shape))
        if kind == "F":
            return self.new(f"T({a}, shape={_split(self.random, count)})", a)
        if self.random.random() < 0.4:
            return self.new(f"{a}.array * {self.constant()}", a)
        return self.new(f"dr.reshape({a}, {_split(self.random, count)})", a)

    def taken(self) -> Statement:
        a = self.tensor(1)
        shape = self.shapes[a][1]
        axis = self.random.randrange(len(shape))
        count = self.random.randint(1, 4)
        choice = self.random.randrange(4)
        if choice == 0:
            return self.new(f"dr.take({a}, {self.indices(count, shape[axis])}, axis={axis})", a)
        if choice == 1:
            return self.new(f"{a}[{self.indices(count, shape[0])}]", a)
        if choice == 2:
            limit = self.constant()
            return self.change(f"{a}[{a} > {limit}] = {self.constant()}", a, conditions=[f"off({a}, {limit})"])
        return self.new(f"dr.gather(F, {a}.array, {self.indices(count, int(np.prod(shape)))})", a)

    def mixed(self) -> Statement:
        """With arrays of integers and literals."""
        a = self.flat()
        n = self.size(a)
        text = self.random.choice(MIXED)
        return self.new(text.format(a, n=n, i=self.indices(n, 3), m=self.mask(n), c=self.constant()), a)

    def permuted(self) -> Statement:
        a = self.tensor(2)
        rank = len(self.shapes[a][1])
        i, j = self.random.randrange(rank), self.random.randrange(rank)
        order = self.random.sample(range(rank), rank)
        text = self.random.choice([f"dr.moveaxis({a}, {i}, {j})", f"dr.swapaxes({a}, {i}, {j})",
                                   f"dr.transpose({a}, {order})", f"{a}.T" if rank == 2 else f"{a}.mT"])
        return self.new(text, a)

    def joined(self) -> Statement:
        if self.random.random() < 0.5:
            a, b = self.flat(), self.flat()
            return self.new(f"dr.concat(({a}, {b}))", a, b)
        a = self.tensor(1)
        shape = self.shapes[a][1]
        axis = self.random.randrange(len(shape))
        rest = shape[:axis] + shape[axis + 1:]
        b = self.pick(self.names("T", lambda o: len(o) == len(shape) and o[:axis] + o[axis + 1:] == rest))
        if self.shapes[b][1] == shape and self.random.random() < 0.4:
            return self.new(f"dr.stack(({a}, {b}), axis={axis})", a, b)
        return self.new(f"dr.concat(({a}, {b}), axis={axis})", a, b)

    def multiplied(self) -> Statement:
        a = self.tensor(1)
        shape = self.shapes[a][1]
        b = self.pick(self.names("T", lambda other: _multiplies(shape, other)))
        return self.new(f"({a} @ {b}) * 0.5", a, b)

    def looped(self) -> Statement:
        a = self.flat()
        b = self.pick(self.names("F", lambda shape: shape[0] in (1, self.size(a))))
        count: Any = self.random.randint(1, 3)
        if self.random.random() < 0.5:
            count = [self.random.randint(0, 3) for _ in range(self.size(a))]
        body = self.random.choice(["dr.sin(s) * b + a", "s * 0.5 + b", "dr.tanh(s * a)"])
        return self.new(f"loop(lambda s, a={a}, b={b}: {body}, {count}, {a} * 1.0)", a, b)

    def evaluated(self) -> Statement:
        a = self.any()
        return self.change(f"dr.{self.random.choice(['eval', 'make_opaque'])}({a})", a)

    def various(self) -> Statement:
        a = self.flat()
        text, *conditions = self.random.choice(FLAT)
        return self.new(text.format(a, k=self.random.randint(2, 3)), a, conditions=[c.format(a) for c in conditions])


UNARY: list[tuple[str, ...]] = [
    ("dr.sin({0})",), ("dr.cos({0})",), ("dr.tanh({0})",), ("dr.exp(-{0} * {0})",), ("dr.atan({0})",), ("-{0}",),
    ("{0} * {0}",), ("dr.square({0}) * 0.5",), ("dr.asinh({0})",), ("dr.erf({0})",), ("dr.rcp(1 + {0} * {0})",),
    ("dr.sqrt({0})", "between({0}, 0.05, 1e9)"), ("dr.log({0})", "between({0}, 0.1, 1e9)"),
    ("dr.rsqrt({0})", "between({0}, 0.2, 1e9)"), ("dr.abs({0})", "nonzero({0})"),
    ("dr.rcp({0})", "between(dr.abs({0}), 0.2, 1e9)"), ("dr.exp({0})", "between({0}, -50, 2)"),
    ("dr.cbrt({0})", "between(dr.abs({0}), 0.1, 1e9)"), ("{0} ** 3", "between({0}, -2, 2)"),
    ("dr.asin({0})", "between({0}, -0.9, 0.9)"), ("dr.clip({0}, -0.5, 0.75)", "off({0}, -0.5, 0.75)"),
    ("dr.select({0} > 0.25, {0} * 2, dr.sin({0}))", "off({0}, 0.25)"), ("dr.floor({0}) + {0}", "off(dr.sin({0} * "
     "3.141592653589793), 0)"), ("dr.sinh({0}) * 0.5", "between({0}, -2, 2)"), ("dr.cosh({0}) * 0.5",
     "between({0}, -2, 2)"), ("dr.tan({0})", "between({0}, -1.2, 1.2)"), ("dr.log2({0})", "between({0}, 0.1, 1e9)"),
    ("dr.exp2({0})", "between({0}, -50, 3)"), ("dr.lgamma({0})", "between({0}, 0.2, 8)"),
    ("dr.select({0} > 0, dr.sqrt({0}), 0)", "nonzero({0})"), ("dr.sum(dr.sincos({0}))",),
]
BINARY: list[tuple[str, ...]] = [
    ("{0} + {1}",), ("{0} - {1}",), ("{0} * {1}",), ("{0} * {1} + {c}",), ("{0} * {c} - {1}",), ("dr.sin({0} * {1})",),
    ("{0} / {1}", "between(dr.abs({1}), 0.3, 1e9)"), ("dr.atan2({0}, {1})", "nonzero({0})", "nonzero({1})"),
    ("dr.minimum({0}, {1})", "apart({0}, {1})"), ("dr.maximum({0}, {1})", "apart({0}, {1})"),
    ("dr.hypot({0}, {1})", "nonzero({0})"), ("{0} ** {1}", "between({0}, 0.3, 3)", "between({1}, -3, 3)"),
    ("dr.select({0} > {1}, {0}, {1} * {c})", "apart({0}, {1})"), ("{c} / ({0} * {0} + {1} * {1} + 1)",),
    ("dr.copysign({0}, {1})", "nonzero({0})", "nonzero({1})"), ("dr.mulsign({0}, {1})", "nonzero({0})",
                                                             "nonzero({1})"),
]
TERNARY: list[tuple[str, ...]] = [
    ("dr.fma({0}, {1}, {2})",), ("dr.lerp({0}, {1}, {2})",), ("dr.select({0} > 0.1, {1}, {2})", "off({0}, 0.1)"),
    ("{0} * {1} - {2} * {0}",), ("dr.clip({0}, dr.minimum({1}, {2}), dr.maximum({1}, {2}))",
                                "apart({0}, {1})", "apart({0}, {2})", "apart({1}, {2})"),
]
HELD = [
    "{0} * hold({0})", "hold({0}) * {1}", "{0} + hold({1}) * {1}", "hold({0}) - {0}",
    "suspended(lambda a, b: a * dr.sin(b), (), ({0}, {1}))",
    "suspended(lambda a, b: a * dr.sin(b) + a, ({0} * 2,), ({1} * 3,))",
    "resumed(lambda a, b: a * dr.sin(b) + dr.cos(a * b), ({0} * 2,), ({1} * 3,))",
    "resumed(lambda a, b: a * b, (), ({0}, {1}))", "replaced(dr.floor({0} * 4), {1} * {0})", "replaced({0}, {1})",
    "product({0}, {1})", "rotated({0}, {1})", "product({0} * 2, {0})", "product({0}, hold({1}))",
    "product(hold({0}), hold({1})) + {0}", "narrow(32, {0}) * {1}", "narrow(32, {0} * {1})", "narrow(16, {0}) + {1}",
]
REDUCTIONS: list[tuple[str, ...]] = [
    ("dr.sum({0}{1}) * 0.5",), ("dr.mean({0}{1})",), ("dr.prod({0}{1})",), ("dr.max({0}{1})", "distinct({0})"),
    ("dr.min({0}{1})", "distinct({0})"), ("{0} - dr.mean({0})",), ("dr.sum(dr.square({0}){1}) * 0.25",),
]
BLOCKS: list[tuple[str, ...]] = [
    ("dr.block_sum({0}, {1})",), ("dr.block_prefix_sum({0}, {1}) * 0.5",),
    ("dr.block_reduce(dr.ReduceOp.Max, {0}, {1})", "distinct({0})"),
    ("dr.block_reduce(dr.ReduceOp.Mul, {0}, {1})",), ("dr.block_reduce(dr.ReduceOp.Min, {0}, {1})", "distinct({0})"),
    ("dr.block_prefix_reduce(dr.ReduceOp.Max, {0}, {1}, exclusive=False)", "distinct({0})"),
    ("dr.block_prefix_reduce(dr.ReduceOp.Mul, {0}, {1}, reverse=True)",),
]
ALONG: list[tuple[str, ...]] = [
    ("dr.cumsum({0}, axis={1}) * 0.5",), ("dr.prefix_sum({0}, axis={1}) * 0.5",),
    ("dr.cumsum({0}, axis={1}, reverse=True) * 0.5",), ("dr.sort({0}, axis={1})", "distinct({0})"),
    ("dr.sort({0}, axis={1}, descending=True)", "distinct({0})"), ("dr.repeat({0}, 2, axis={1})",),
    ("dr.prefix_reduce(dr.ReduceOp.Min, {0}, {1}, False, True)", "distinct({0})"),
    ("dr.prefix_reduce(dr.ReduceOp.Mul, {0}, {1})",), ("dr.prefix_reduce(dr.ReduceOp.Mul, {0}, {1}, False, True)",),
    ("dr.var({0}, axis={1})",), ("dr.std({0}, axis={1})", "between(dr.var({0}, axis={1}), 0.1, 1e9)"),
]
FLAT: list[tuple[str, ...]] = [
    ("dr.prefix_sum({0}) * 0.5",), ("dr.cumsum({0}) * 0.5",), ("dr.prefix_sum({0}, reverse=True) * 0.5",),
    ("dr.sort({0})", "distinct({0})"), ("dr.sort({0}, descending=True)", "distinct({0})"), ("dr.reverse({0})",),
    ("dr.prefix_reduce(dr.ReduceOp.Max, {0}, exclusive=False)", "distinct({0})"),
    ("dr.prefix_reduce(dr.ReduceOp.Mul, {0}, exclusive=False)",), ("dr.prefix_reduce(dr.ReduceOp.Mul, {0})",),
    ("dr.repeat({0}, {k})",), ("dr.tile({0}, {k})",), ("F({0}) * {0}",), ("dr.dot({0}, {0}) * 0.25",),
    ("filtered({0}, 0.1)", "off({0}, 0.1)", "between(dr.max({0}), 0.1, 1e9)"), ("dr.var({0}) + dr.mean({0})",),
]
MIXED = ["{0} * {i}", "{i} - {0}", "dr.select({m}, {0}, {c})", "dr.select({m}, 0.5, {0})",
         "dr.linspace(F, 0, 1, {n}) * {0}", "dr.full(F, {c}, {n}) - {0}", "dr.zeros(F, {n}) * {0} + {0}",
         "dr.arange(F, {n}) * {0} * 0.1", "dr.select(True, {0}, {c})", "dr.sum({0}, mode='symbolic') * 0.5",
         "dr.sum({0}, mode='evaluated') * 0.5", "dr.fma({0}, {c}, {i})", "dr.prod(1 + {0} * 0.1)"]
VECTORS = ["dr.dot({0}, {1})", "dr.cross({0}, {1})", "dr.norm({0}) + dr.sum({1})", "dr.normalize({0})",
           "dr.ravel({0})", "{0}.x * {1}", "dr.squared_norm({0}) * {1}.z", "V({0}.y, {1}.x, {0}.y)"]


def _broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    try:
        np.broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
        return False
    return True


def _fits(shape: tuple[int, ...], into: tuple[int, ...]) -> bool:
    """Whether a value can be written to a place."""
    try:
        return np.broadcast_shapes(shape, into) == into
    except ValueError:
        return False


def _multiplies(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return (np.zeros(a) @ np.zeros(b)).size > 0
    except ValueError:
        return False


def _split(source: random.Random, count: int) -> tuple[int, ...]:
    """A shape with so many elements."""
    shape = []
    while count > 1:
        part = source.choice([k for k in range(2, count + 1) if count % k == 0])
        shape.append(part)
        count //= part
    if source.random() < 0.4:
        shape.insert(source.randint(0, len(shape)), 1)
    return tuple(shape) or (1,)


def shape_of(value: Any) -> tuple[str, tuple[int, ...]]:
    """The kind of a variable, and its shape."""
    name = type(value).__name__
    if name.startswith("Tensor"):
        return "T", tuple(value.shape)
    if name.startswith("Array3"):
        return "V", tuple(value.numpy().shape)
    return "F", (len(value),)


#: Ways of making statements, as often as they are to be drawn.
WAYS = [way for way, count in {
    "unary": 5, "binary": 6, "ternary": 2, "held": 4, "gathered": 2, "scattered": 3, "reduced": 3, "blocks": 1,
    "axes": 2, "sliced": 2, "assigned": 3, "in_place": 2, "components": 2, "vectors": 1, "reshaped": 1, "permuted": 1,
    "joined": 1, "multiplied": 2, "looped": 1, "taken": 2, "mixed": 2, "evaluated": 2, "various": 2,
}.items() for _ in range(count)]


def generate(seed: int, dr: Any, types: Any, *, without: Sequence[str] = (), longest: int = 40,
             refuse: Callable[[Statement, dict[str, Any]], Any] | None = None) -> tuple[Program, Differences]:
    """The program of a seed, and its finite differences.

    ``without`` names ways of making statements, and patterns that these must not match; ``refuse`` tells, given a
    statement and the variables in front of it, whether to do without it.
    """
    source = random.Random(seed)
    n = source.choice([1, 2, 3, 6, 6, 7, 12])
    shapes: list[tuple[str, tuple[int, ...]]] = [("F", (n,)), ("F", (source.choice([1, n]),)), ("V", (3, n))]
    rows, columns = source.choice([1, 2, 3]), source.choice([1, 2, 4])
    shapes += [("T", (rows, columns)), ("T", source.choice([(columns,), (columns, rows), (1, columns), (2, rows, 1)]))]
    leaves = []
    for number, (kind, shape) in enumerate(shapes):
        values = [round(source.choice([-1, 1]) * source.uniform(0.2, 1.4), 2) for _ in range(int(np.prod(shape)))]
        if source.random() < 0.15:
            values = values[:1] * len(values)
        leaves.append(Leaf(f"x{number}", kind, np.array(values).reshape(shape), source.random() < 0.8))
    if not any(leaf.variable for leaf in leaves):
        leaves[0] = dataclasses.replace(leaves[0], variable=True)
    state = Differences(dr, types, leaves, seed)
    known = {leaf.name: (leaf.kind, leaf.values.shape) for leaf in leaves}
    statements: list[Statement] = []
    goal = source.randint(5, longest)
    for _ in range(6 * goal):
        if len(statements) == goal:
            break
        way = source.choice(WAYS)
        try:
            try:
                statement = getattr(_Maker(source, known, len(statements)), way)()
            except (ValueError, IndexError):  # there is nothing to choose from in an empty array
                continue
            if way in without or any(re.search(text, statement.text) for text in without) or (
                    refuse is not None and refuse(statement, state.machines[0].values)):
                raise Rejected
            state.try_(statement)
        except Rejected:
            continue
        except Exception as error:
            error.add_note(f"in the program\n{Program(seed, tuple(leaves), (*statements, statement))}")
            raise
        statements.append(statement)
        known[statement.target] = shape_of(state.machines[0].values[statement.target])
    return Program(seed, tuple(leaves), tuple(statements)), state


# --- making them small -----------------------------------------------------------------------------------------------


def shrink(program: Program, dr: Any, types: Any, fails: Callable[[Program], bool]) -> Program:
    """A smaller program that fails as well."""
    def still(candidate: Program) -> bool:
        names = {leaf.name for leaf in candidate.leaves} | {statement.target for statement in candidate.statements}
        if not names.issuperset(candidate.results) or not any(leaf.variable for leaf in candidate.leaves):
            return False
        try:
            differences(candidate, dr, types)
        except Exception:
            return False
        return fails(candidate)

    if not program.results:
        names = [leaf.name for leaf in program.leaves] + [statement.target for statement in program.statements]
        for name in dict.fromkeys(names):
            candidate = dataclasses.replace(program, results=(name,))
            if still(candidate):
                program = candidate
                break
    again = True
    while again:
        again = False
        for candidate in _smaller(program, dr, types):
            if still(candidate):
                program, again = candidate, True
                break
    return program


def _smaller(program: Program, dr: Any, types: Any) -> list[Program]:
    found = []
    machine = Machine(dr, types, tracks=False)
    for leaf in program.leaves:
        machine.values[leaf.name] = machine.array(leaf)
    for number in range(len(program.statements)):  # from the back, as few as needed
        found.append(dataclasses.replace(program, statements=program.statements[:-1 - number]))
    for number, statement in enumerate(program.statements):
        rest = program.statements[:number] + program.statements[number + 1:]
        machine.run(statement)
        if statement.changes:
            found.append(dataclasses.replace(program, statements=rest))
            continue
        kind, _ = shape_of(machine.values[statement.target])
        values = np.round(numbers(machine.values[statement.target]), 3)
        for variable in (False, True):
            leaf = Leaf(statement.target, kind, values, variable)
            found.append(dataclasses.replace(program, leaves=(*program.leaves, leaf), statements=rest))
    used = {name for statement in program.statements for name in statement.uses} | set(program.results)
    for number, leaf in enumerate(program.leaves):
        if leaf.name not in used:
            found.insert(0, dataclasses.replace(program, leaves=program.leaves[:number] + program.leaves[number + 1:]))
        elif leaf.variable:
            constant = dataclasses.replace(leaf, variable=False)
            found.append(dataclasses.replace(
                program, leaves=(*program.leaves[:number], constant, *program.leaves[number + 1:])))
    return found
