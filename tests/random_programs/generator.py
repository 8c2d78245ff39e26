"""The generator of random programs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .operations import GROUPS, SUMS, Row, accepts
from .programs import (
    SCALARS,
    Info,
    Program,
    Raised,
    Step,
    Value,
    build,
    components,
    info_of,
    listed_types,
    namespace,
    perform,
)

__all__ = ["generate"]


def _numbers(scalar: str, special: bool) -> list[Any]:
    """Numbers to draw elements from."""
    letter = scalar[0]
    if letter == "b":
        return [False, True]
    if letter == "f":
        limits = np.finfo(SCALARS[scalar][1])
        ordinary = [0.0, 1.0, -1.0, 0.5, 2.0, -0.75, 3.0, 1.25, 0.1, -2.6, 7.0]
        return ordinary + [-0.0, float(limits.smallest_subnormal), -float(limits.smallest_normal), float(limits.max),
                           -float(limits.max), np.inf, -np.inf, np.nan, 1e-3, 1e4, 2.5, -3.5,
                           float(2 ** limits.nmant + 1)] if special else ordinary
    limits = np.iinfo(SCALARS[scalar][1])
    ordinary = [0, 1, 2, 3, 5, 7, 10, 100]
    if letter == "i":
        ordinary += [-1, -2, -3, -8, -100]
    return ordinary + [int(limits.min), int(limits.max), int(limits.max) - 1, int(limits.max) // 3, limits.bits,
                       1 << limits.bits // 2] if special else ordinary


class _Generator:
    """What is known while a program is made."""

    def __init__(self, seed: int, lanes: bool, sums: bool, api: Any, package: Any) -> None:
        self.rng = rng = random.Random(f"{seed} {lanes}")
        self.lanes, self.sums = lanes, sums
        self.package, self.opaque = package, api.make_opaque
        self.special = rng.random() < 0.4
        self.width = rng.choice([2, 3, 5, 17])
        self.names = namespace(api, package)
        self.pool: dict[str, Info] = {}
        self.inputs: dict[str, Value] = {}
        self.steps: list[Step] = []
        # Programs stay with a few families and scalar types, so that their values meet.
        families = ["nested"] * 4 + ["matrix", "complex", "quaternion", "tensor"] + ([] if lanes else ["flat"] * 4)
        self.families = rng.sample(families, 2)
        self.scalars = rng.sample(sorted(SCALARS), 2) + ["f"]
        for _ in range(rng.randrange(2, 5)):
            self.add_input()
        for _ in range(rng.randrange(4, 13)):
            self.add_step()

    def fresh(self) -> str:
        return f"v{len(self.inputs) + len(self.steps)}"

    def element(self, scalar: str) -> Any:
        if scalar[0] == "f" and self.rng.random() < 0.5:
            return float(np.dtype(SCALARS[scalar][1]).type(self.rng.uniform(-4, 4)))
        return self.rng.choice(_numbers(scalar, self.special))

    def part(self, scalar: str, size: int) -> np.ndarray[Any, Any]:
        return np.array([self.element(scalar) for _ in range(size)], SCALARS[scalar][1])

    def add_input(self) -> None:
        rng = self.rng
        names = [name for name in listed_types() if info_of(name).kind in self.families
                 and info_of(name).scalar in self.scalars]
        if rng.random() < 0.15 or not names:
            names = [name for name in listed_types() if info_of(name).kind != "flat" or not self.lanes]
        # Each stem as often as another, not those with many scalar types more often.
        info = info_of(rng.choice(names))
        literal = rng.random() < 0.25
        shape: tuple[int, ...] | None = None
        if info.kind == "tensor":
            shape = tuple(rng.choice([1, 2, 3]) for _ in range(rng.randrange(0, 4)))
            parts = [self.part(info.scalar, int(np.prod(shape)))]
            literal = False
        else:
            count = info.count if info.count >= 0 else rng.choice([1, 2, 3])
            wide = self.width if not literal else 1
            parts = [self.part(info.scalar, rng.choice([wide, wide, wide, 1])) for _ in range(count)] \
                if info.kind != "flat" else [self.part(info.scalar, wide)]
        value = Value(info.name, tuple(parts), shape, literal)
        name = self.fresh()
        self.inputs[name], self.names[name], self.pool[name] = value, build(self.package, value, self.opaque), info

    def add_step(self) -> None:
        rng = self.rng
        first = self.recent()
        rows: list[Row] = []
        info, wild = self.pool[first], rng.random() < 0.03
        wild = wild and not (self.lanes and info.kind == "tensor")  # flat arrays in them would be numbers elsewhere
        while not rows:
            (group,) = rng.choices([rows for _, rows in GROUPS], [weight for weight, _ in GROUPS])
            rows = [row for row in group if self.allows(row, info)
                    and (wild or accepts(row, info))]
        row = rng.choice(rows)
        self.uses = [first]
        self.first, self.info, self.target = first, info, self.fresh()
        text = re.sub(r"\{(\w+)\}", lambda match: self.fill(match[1]), row.text)
        text = text if "{r}" in row.text else f"{self.target} = {text}"
        step = Step(self.target, row.op, text, tuple(dict.fromkeys(self.uses)))
        self.steps.append(step)
        result = perform(step, self.names)
        found = info_of(type(result).__name__)
        if isinstance(result, Raised) or found.kind in ("python", "other") or self.lanes and found.kind == "flat" \
                or found.scalar not in SCALARS:
            self.names.pop(self.target, None)
        else:
            self.pool[self.target] = found

    def allows(self, row: Row, info: Info) -> bool:
        """Whether a program of this sort may have the operation."""
        if self.lanes:
            return not row.across and (row.kinds != "T" or info.kind == "tensor")
        return self.sums or not row.across or info.letter != "f" or row.op not in SUMS

    def recent(self, among: Iterable[str] | None = None) -> str:
        """A name, later ones more often."""
        names = list(self.pool if among is None else among)
        return names[-1 - int(len(names) * self.rng.random() * self.rng.random())]

    def use(self, name: str) -> str:
        self.uses.append(name)
        return name

    def fill(self, place: str) -> str:
        """The source for a place in a row."""
        if place == "0":
            return self.first
        if place == "r":
            return self.target
        if place == "own":
            return self.info.name
        return str(getattr(self, f"fill_{place}")())

    # - values

    def matching(self, test: Callable[[Info], bool]) -> list[str]:
        return [name for name, info in self.pool.items() if test(info)]

    def fill_like(self) -> str:
        draw = self.rng.random()
        if draw < 0.2:
            return self.fill_number()
        if draw < 0.25:
            return self.use(self.recent())
        info = self.info

        def goes(other: Info) -> bool:
            if other.kind == "flat":
                return info.kind != "tensor"
            if other.letter == "b" or other.kind != info.kind:
                return False
            return other.shape == info.shape or info.kind == "nested" and other.shape == info.shape[-len(other.shape):]

        names = self.matching(goes)
        return self.use(self.recent(names)) if names else self.fill_number()

    def fill_same(self) -> str:
        return self.use(self.recent(self.matching(lambda other: other == self.info) or [self.first]))

    def fill_any(self) -> str:
        if self.rng.random() < 0.3:
            return str(self.rng.choice([0, 1, 0.5, -2, True]))
        return self.use(self.recent())

    def fill_entry(self) -> str:
        if self.rng.random() < 0.5 or self.info.letter == "b":
            return "True" if self.info.letter == "b" else self.fill_number()
        return f"{self.first}[{self.fill_k()}]"

    def fill_leaf(self) -> str:
        leaf = SCALARS[self.info.scalar][0]
        names = self.matching(lambda other: other.kind == "flat")
        return self.use(self.recent(names)) if names else f"T.{leaf}({self.literal(self.info.scalar)})"

    def fill_mask(self) -> str:
        info = self.info
        names = self.matching(lambda other: other.letter == "b" and (
            other.kind == "flat" or other.kind in ("nested", "tensor") and other.shape == info.shape))
        if names and self.rng.random() < 0.7:
            return self.use(self.recent(names))
        if info.kind in ("flat", "nested", "tensor") and info.letter != "b":
            return f"({self.first} > {self.fill_number()})"
        return str(self.rng.random() < 0.5)

    def fill_vector(self) -> str:
        size, scalar = self.info.shape[0] if self.info.shape else 3, self.info.scalar
        names = self.matching(lambda other: other.kind == "nested" and other.shape == self.info.shape[1:])
        if names:
            return self.use(self.recent(names))
        return f"T.Array{size}{scalar}({', '.join(self.literal(scalar) for _ in range(size))})"

    # - numbers

    def literal(self, scalar: str) -> str:
        return repr(self.element(scalar))

    def fill_number(self) -> str:
        rng, scalar = self.rng, self.info.scalar
        if rng.random() < 0.1:
            return str(rng.choice(["0.5", "1.5", "-3", "True", "1000", "-0.0", "2**33", "1e300"]))
        if rng.random() < 0.5:
            return str(rng.choice([1, 2, 3, 0]))
        text = self.literal(scalar)
        return f"({text})" if text.startswith("-") else text

    def fill_divisor(self) -> str:
        largest = min(int(np.iinfo(self.info.dtype).max), 2**31 - 1) if self.info.letter in "iu" else 100
        return str(self.rng.choice([1, 2, 3, 5, 7, 10, 16, 100, largest]))

    def fill_shift(self) -> str:
        bits = np.dtype(self.info.dtype).itemsize * 8
        return str(self.rng.choice([0, 1, 2, 5, bits // 2, bits - 1]))

    def fill_exponent(self) -> str:
        choices = ["0", "1", "2", "3", "4", "7"]
        return str(self.rng.choice(choices if self.info.letter != "f" else choices + ["-1", "-2", "0.5", "1.5"]))

    def fill_bit(self) -> str:
        return self.rng.choice("01")

    # - types

    def fill_other(self) -> str:
        return self.info.over(self.rng.choice(list(SCALARS)))

    def fill_cast(self) -> str:
        """A type that the operand may be converted to: of another kind, or smaller or larger."""
        info = self.info
        names = [name for name in listed_types() if info_of(name).scalar == info.scalar
                 and info_of(name).kind != "tensor" and not (self.lanes and info_of(name).kind == "flat")
                 and (info_of(name).shape == info.shape or info.kind == "flat" or self.rng.random() < 0.05)]
        return self.rng.choice(names or [info.name])

    def fill_bits(self) -> str:
        size = np.dtype(self.info.dtype).itemsize
        return self.info.over(self.rng.choice([s for s, (_, dtype) in SCALARS.items()
                                               if np.dtype(dtype).itemsize == size and s != "b"]))

    def fill_nested(self) -> str:
        return f"Array{min(self.rng.choice([2, 3, 4]), self.lanes_of())}{self.info.scalar}"

    def fill_matrix(self) -> str:
        return f"Matrix{self.rng.choice('34')}{self.info.scalar}"

    def fill_rotation(self) -> str:
        return f"Quaternion4{self.info.scalar}"

    def fill_vector3(self) -> str:
        return f"Array3{self.info.scalar}"

    # - positions

    def length(self) -> int:
        info = self.info
        if info.kind in ("nested", "matrix", "complex", "quaternion") and info.shape[0] >= 0:
            return info.shape[0]
        return len(self.names[self.first]) if info.kind != "tensor" or self.names[self.first].ndim else 1

    def fill_k(self) -> str:
        length = self.length()
        return str(self.rng.randrange(-length, length) if length else 0)

    def fill_axis(self) -> str:
        ndim = self.names[self.first].ndim if self.info.kind == "tensor" else 1
        return str(self.rng.randrange(max(ndim, 1)))

    def fill_axes(self) -> str:
        return self.rng.choice(["", ", axis=None"])

    def fill_slice(self) -> str:
        length = self.length()
        return self.rng.choice(["1:", ":1", "::2", f"0:{length}", f"-{max(length, 1)}:"])

    def fill_component(self) -> str:
        info = self.info
        if info.kind == "complex":
            return self.rng.choice(["real", "imag"])
        return self.rng.choice("xyzw"[:self.length()] or "x")

    def fill_swizzle(self) -> str:
        return "".join(self.rng.choice("xyzw"[:self.length()] or "x") for _ in range(self.rng.randrange(2, 5)))

    def fill_shape(self) -> str:
        size = int(np.prod(self.names[self.first].shape)) if self.info.kind == "tensor" else 1
        return self.rng.choice(["-1", str((size, 1)), str((1, -1)), "(-1, 2)"])

    def fill_indices(self) -> str:
        return ", ".join(str(self.rng.randrange(self.lanes_of())) for _ in range(self.rng.choice([1, self.width])))

    def fill_packets(self) -> str:
        return str(0) if self.lanes_of() < 8 else "0, 1, 0"

    def lanes_of(self) -> int:
        """Number of elements that can be gathered."""
        value = self.names[self.first]
        sizes = [len(leaf) for leaf in components(value, len(self.info.shape))] if self.info.kind != "tensor" else [1]
        return max(min(sizes, default=1), 1)


def generate(seed: int, api: Any, package: Any, lanes: bool = False, sums: bool = False) -> Program:
    """The program of a seed. With ``lanes`` it is elementwise: element k of results follows from element k of inputs.
    ``sums`` allows sums of many floating-point numbers, whose order depends on how they are computed."""
    made = _Generator(seed, lanes, sums, api, package)
    return Program(seed, lanes, made.inputs, tuple(made.steps))
