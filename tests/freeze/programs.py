"""Random programs for frozen functions, of all kinds, and what their calls are given.

A :class:`Case` is a function and what makes arguments for its calls. What these are like (sizes, aliases, numbers)
follows from one source of random numbers, their values from another. Some objects stay from call to call, and change.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

import drjit as dr
from drjit.llvm import ad
from drjit.llvm.ad import Array3f, Float, TensorXf, UInt
from tests.control import programs as control
from tests.control import test_random_derivatives as constructs
from tests.derivatives import programs as derivatives
from tests.random_programs import generator as expressions
from tests.random_programs.programs import Program, Raised, build, info_of, run

__all__ = ["KINDS", "SIZES", "Case"]

SIZES = (0, 1, 2, 3, 4, 5, 8, 17, 64, 300)


class Case(NamedTuple):
    """A function, and what its calls are given, by a source for what that is like and one for values."""

    text: str
    function: Callable[..., Any]
    given: Callable[[random.Random, random.Random], dict[str, Any]]
    #: What stays from call to call, until one raises; made on the backend of the first call.
    lasting: dict[str, Any]


# --- steps that use memory, tensors and state ---


class _State:
    """What programs find beside their arguments."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.k: float = rng.choice((1, 2, 0.5))
        self.table: dict[str, Any] = {"a": Float(1, 2, 3), "n": 2}
        self.entries: list[Any] = [Float(4), 7]
        self.last: Any = None
        self.weights = Float(0.5)


def with_state(seed: int) -> Case:
    """A function of two arrays, a number and a state, made of random steps."""
    rng = random.Random(seed)
    steps = [rng.choice(STEPS) for _ in range(rng.randint(2, 7))]
    choices = [rng.random() for _ in steps]

    def program(x: Any, y: Any, k: Any, state: Any) -> Any:
        values = [x, y]
        for step, choice in zip(steps, choices, strict=True):
            a = values[int(choice * 7919) % len(values)]
            b = values[int(choice * 104729) % len(values)]
            found = step(a, b, k, state, choice)
            if found is not None:
                values.append(found)
        return values[-1], values[2:]

    def given(like: random.Random, source: random.Random) -> dict[str, Any]:
        if not lasting:
            lasting["state"] = _State(seed)
        state = lasting["state"]
        n = like.choice(SIZES)
        x = _floats(source, n)
        y = x if like.random() < 0.15 else _floats(source, like.choice((n, 1, n)))
        if like.random() < 0.1:
            y = Float(source.randint(0, 3))
        if source.random() < 0.1:
            state.k = source.choice((1, 3))
        return {"x": x, "y": y, "k": like.choice((1, 2.0, 2, True)), "state": state}

    lasting: dict[str, Any] = {}
    return Case(", ".join(step.__name__ for step in steps), program, given, lasting)


def _floats(source: random.Random, n: int) -> Any:
    return Float([source.randint(-4, 6) for _ in range(n)])


def add(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return a + dr.sum(b)


def multiply(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return a * k + state.k


def elementwise(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return dr.sin(a) + dr.abs(a) * dr.minimum(a, 2)


def mean(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return dr.mean(a) + b


def variance(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return dr.var(a) if len(a) > 1 else a


def running(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return dr.cumsum(a)


def reverse(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return dr.reverse(a)


def tile(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return dr.tile(a, 2) if dr.width(a) < 1000 else a


def join(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return dr.concat([a, b]) if dr.width(a) < 1000 else a


def slice_(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return a[1:4] if choice < 0.5 else a[::2]


def extreme(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return dr.max(a) + b if dr.width(a) else b


def arrange(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return dr.sort(a)


def count(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return Float(dr.count(a > 1))


def number(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return a * dr.width(b) + len(a)


def select(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return dr.select(dr.any(a > 3), a, a + 1)


def in_place(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    a += 1


def scatter(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    if dr.width(a):
        dr.scatter(a, Float(choice), UInt(0))


def scatter_add(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    target = dr.zeros(Float, 4)
    dr.scatter_add(target, a, dr.arange(UInt, dr.width(a)) % 4)
    return target


def gather(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return dr.gather(Float, state.table["a"], dr.arange(UInt, 3)) + a[:0].shape[0]


def use_table(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    state.table["b"] = dr.sum(a) + state.table["n"]
    return state.table["b"]


def keep(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    state.last = a * 2


def rebind(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    state.entries[0] = state.entries[0] + dr.sum(a)
    return state.entries[0]


def weights(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    state.weights += choice
    return a * state.weights


def alias(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return a


def tensor(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    t = TensorXf(a)
    return dr.sum(t[:, None] * t[None, :], axis=0).array if dr.width(a) < 50 else a


def loop(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    def body(i, v):
        return i + 1, v * 0.5 + 1
    return dr.while_loop((UInt(0), a + 0), lambda i, v: i < UInt(3), body)[1]


def gradient(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    z = Float(dr.detach(a))
    dr.enable_grad(z)
    dr.backward(z * z * k)
    return dr.grad(z)


def tensor_slices(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    t = _grid(a)
    return (t[1:] if choice < 0.3 else t[:, ::-1] if choice < 0.6 else t[..., None, 1]).array


def tensor_axes(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    t = _grid(a)
    return (dr.sum(t, axis=0) + dr.max(t, axis=1)[:1] if choice < 0.5 else dr.cumsum(t, axis=0)).array


def tensor_moved(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    t = _grid(a)
    return (dr.moveaxis(t, 0, 1) if choice < 0.4 else dr.concat([t, t * 2], axis=0) if choice < 0.7 else
            dr.stack([t, t])).array


def tensor_product(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    t = _grid(a)
    return (t @ dr.moveaxis(t, 0, 1)).array


def _grid(a: Any) -> Any:
    """A tensor with three columns of what there is, at most 40 rows."""
    rows = min(dr.width(a) // 3, 40)
    return TensorXf(a[:3 * rows] if dr.width(a) > 1 else dr.full(Float, 2, 3 * rows), shape=(rows, 3))


def pick(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return dr.gather(Float, a, dr.compress(a > 1)) * 2 if dr.width(a) > 1 else a


def pick_and_sum(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    where = dr.compress(a > k)
    return dr.sum(dr.gather(Float, a, where)) + dr.width(where) if dr.width(a) > 1 else a


def histogram(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    target = dr.zeros(Float, max(dr.width(a), 1))
    dr.scatter_reduce(dr.ReduceOp.Max, target, dr.abs(a), dr.arange(UInt, dr.width(a)) // 2)
    return target


def vectors(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    v = Array3f(a, 1, a * 2)
    v.y += choice
    return dr.norm(v.zyx + v)


def blocks(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return dr.block_sum(dr.repeat(a, 4), 2)


def branch(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return dr.if_stmt((a,), a > 1, lambda v: v * 2, lambda v: v - choice)


def call(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return dr.switch(UInt(dr.abs(a)) % 3, [lambda v: v + 1, lambda v: v * k, lambda v: dr.sin(v)], a)


def local(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    memory = dr.alloc_local(Float, 3, value=Float(0))
    memory[UInt(dr.abs(a)) % 3] = a + 1
    return memory[1] + a


def forward(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    z = Float(dr.detach(a))
    dr.enable_grad(z)
    w = dr.sin(z) * z
    dr.forward(z)
    return dr.grad(w)


def detach(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return a * dr.detach(a)


def suspend(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    with dr.suspend_grad():
        c = a * 3
    return c + a


def masked(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    a[a > 2] = -1
    return Float(dr.all(a < 2)) + dr.prefix_sum(dr.abs(a))


def shrink(a: Any, b: Any, k: Any, state: Any, choice: float) -> Any:
    return a[:1] if choice < 0.3 else a[:0] if choice < 0.4 else a


STEPS = (add, multiply, elementwise, mean, variance, running, reverse, tile, join, slice_, extreme, arrange, count,
         number, select, in_place, scatter, scatter_add, gather, use_table, keep, rebind, weights, alias, tensor, loop,
         gradient, tensor_slices, tensor_axes, tensor_moved, tensor_product, pick, pick_and_sum, histogram, vectors,
         blocks, branch, call, local, forward, detach, suspend, masked, shrink)


# --- expressions over all types ---------------------------------------------------------------------------------------


@lru_cache(1)
def _expressions(seed: int) -> tuple[Program, str, Callable[..., Any]]:
    """A program without steps that raise, its text, and the function."""
    made = expressions.generate(seed, dr, ad, sums=True)
    found = run(made, dr, ad)
    steps = [step for step in made.steps if not isinstance(found[step.target], Raised) and not re.search(
        r"gather\(|cross\((\w+), \1\)", step.text)]
    lost: set[str] = {step.target for step in made.steps if step not in steps}
    kept = []
    for step in steps:
        if lost.isdisjoint(step.uses):
            kept.append(step)
        else:
            lost.add(step.target)
    text = "\n    ".join([f"def program({', '.join(made.inputs)}):", *(step.text for step in kept),
                          f"return [{', '.join(step.target for step in kept)}]"])
    names: dict[str, Any] = {"dr": dr, "T": ad, "inf": float("inf"), "nan": float("nan")}
    exec(text, names)
    return made, text, names["program"]


def with_expressions(seed: int) -> Case:
    """An expression of arrays of all types; all that are as wide become as wide as something else, and axes of tensors
    likewise."""
    made, text, program = _expressions(seed)
    lasting: dict[str, Any] = {}

    def given(like: random.Random, source: random.Random) -> dict[str, Any]:
        if lasting and source.random() < 0.2:
            return lasting
        wide, extents = like.choice(SIZES[:9]), {k: like.choice((1, 2, 3, 4)) if k > 1 else k for k in range(9)}
        lasting.clear()
        for name, value in made.inputs.items():
            parts = value.parts
            shape = value.shape
            if shape is not None:
                shape = tuple(extents[k] for k in shape)
                parts = (_resized(source, parts[0], int(np.prod(shape))),)
            elif info_of(value.type).kind != "python":
                parts = tuple(_resized(source, part, wide if part.size == made.width > 1 else part.size)
                              for part in parts)
            lasting[name] = build(ad, value._replace(parts=parts, shape=shape), dr.make_opaque)
        names_of: dict[type, list[str]] = {}
        for name, array in lasting.items():
            names_of.setdefault(type(array), []).append(name)
        for alike in names_of.values():
            if len(alike) > 1 and like.random() < 0.2:
                lasting[alike[1]] = lasting[alike[0]]
        return lasting

    return Case(text, program, given, lasting)


def _resized(source: random.Random, part: Any, size: int) -> Any:
    """So many of some numbers."""
    return part[[source.randrange(part.size) for _ in range(size)]] if part.size else part


# --- control flow -----------------------------------------------------------------------------------------------------


@lru_cache(1)
def _objects(seed: int) -> tuple[str, Callable[..., Any]]:
    """A function of ``@dr.syntax``, and its text."""
    text = control.program(control.CHANGING + 50_000 + seed)
    return text, dr.syntax(control.define(text, f"frozen {seed}"))


def with_objects(seed: int) -> Case:
    """A function of ``@dr.syntax`` that changes objects, which remain from call to call."""
    text, function = _objects(seed)
    lasting: dict[str, Any] = {}

    def given(like: random.Random, source: random.Random) -> dict[str, Any]:
        n = like.choice(SIZES[1:])

        def array(k: int = 0) -> Any:
            found = UInt([source.randint(0, 255) for _ in range(n)])
            dr.make_opaque(found)  # one number is a constant otherwise, of which a branch knows more
            return found

        if source.random() < 0.6 or not lasting:
            for name, value in control.objects(array).items():
                lasting[name] = value
        else:  # the same objects, with other arrays
            new = control.objects(array)
            for place in ("p.x", "q[0]", "d['a']", "o.inner.x"):
                exec(f"lasting{_path(place)} = new{_path(place)}", {"lasting": lasting, "new": new})
        return {**{name: array() for name in "abc"}, "s": like.choice((0, 1, 1, 4)), "zero": UInt(0), **lasting}

    return Case(text, function, given, lasting)


def _path(place: str) -> str:
    return re.sub(r"^(\w)", r"['\1']", place)


# --- derivatives ------------------------------------------------------------------------------------------------------


def with_derivatives(seed: int) -> Case:
    """Statements that have derivatives."""
    made, _ = derivatives.generate(seed, dr, ad, longest=12, without=("looped", "held"))

    def program(**arrays: Any) -> Any:
        machine = derivatives.Machine(dr, ad, tracks=True)
        for name, array in arrays.items():
            machine.values[name] = type(array)(array)
        for statement in made.statements:
            machine.run(statement)
        return {name: value for name, value in machine.values.items() if name not in arrays}

    def given(like: random.Random, source: random.Random) -> dict[str, Any]:
        machine = derivatives.Machine(dr, ad, tracks=True)
        arrays = {leaf.name: machine.array(leaf, leaf.values * source.choice((1, 0.9, 0.8))) for leaf in made.leaves}
        if like.random() < 0.3 and "gather" not in str(made) and "scatter" not in str(made):
            size = like.choice(SIZES[:8])
            arrays["x0"] = type(arrays["x0"])([source.uniform(0.2, 1) for _ in range(size)])
        return arrays

    return Case(str(made), program, given, {})


def with_constructs(seed: int) -> Case:
    """Nested branches, calls and loops that have derivatives."""
    text = "\n".join(constructs._Writer(seed).lines).replace(
        "dr.arange(U, 5)", "dr.arange(U, dr.width(x))").replace("dr.gather(F, bins * bins, lane)",
                                                                "dr.gather(F, bins * bins, lane & 7)")
    names: dict[str, Any] = {"dr": dr, "F": ad.Float64, "U": ad.UInt32, "Wave": constructs.Wave,
                             "switch": constructs.switch}
    exec(text, names)
    f = names["f"]

    def program(x: Any, w: Any, t: Any) -> Any:
        return f("symbolic", x, w, t, dr.detach)

    def given(like: random.Random, source: random.Random) -> dict[str, Any]:
        sizes = like.choice(SIZES[1:]), 1, 8
        return dict(zip("xwt", [ad.Float64([source.uniform(-1, 1) for _ in range(size)]) for size in sizes],
                        strict=True))

    return Case(text, program, given, {})


#: The generators, with how many of a hundred programs are of each.
KINDS: dict[str, tuple[Callable[[int], Case], int]] = {
    "state": (with_state, 40), "expressions": (with_expressions, 25), "objects": (with_objects, 15),
    "derivatives": (with_derivatives, 10), "constructs": (with_constructs, 10)}
