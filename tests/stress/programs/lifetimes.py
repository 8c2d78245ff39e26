"""Arrays and nodes come and go, in all ways that programs have: ``lifetimes.py <programs> <threads>``.

Each program traces some operations at random; one of ten is evaluated, and its values compared with those of NumPy.
Memory and live objects do not grow.
"""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import drjit as dr
from drjit._base.handle import live_arrays
from drjit.llvm import Array3u, Array22f, Bool, Float, TensorXf, UInt32
from tests.stress.programs.common import formula, inputs, watch
from tests.stress.programs.growth import measure

SIZE = 64
#: How many different programs are evaluated: each one is compiled once.
FORMULAS = 40


class Marked(Array3u):
    """A type with attributes."""

    note: Any = None

    def twice(self) -> Any:
        return self + self


class Otherwise(Marked):
    """Another one with the same attributes."""


class Plain(UInt32):
    """A type without attributes."""

    __slots__ = ()


class Refused(Exception):
    """What a program raises itself."""


class Lives:
    """What a thread holds, and what it does with that."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.pool: list[Any] = []
        self.failures = self.told = self.evaluated = 0
        a, b = inputs(SIZE)
        self.a, self.b = UInt32(a), UInt32(b)
        self.expected = [formula(7 * number, a, b) for number in range(FORMULAS)]
        dr.eval(self.a, self.b)

    def flat(self) -> Any:
        return self.rng.choice([each for each in self.pool[-6:] if type(each) in (UInt32, Plain)] or [self.a])

    def operators(self) -> None:
        x, y = self.flat(), self.flat()
        self.pool.append(x + y if self.rng.random() < 0.5 else x * self.rng.randrange(5))
        self.pool.append(dr.fma(x, y, self.a))
        self.pool.append(dr.select(x < y, x, 3))

    def in_place(self) -> None:
        x = UInt32(self.flat())
        alias = x
        x += self.b
        assert x is alias
        self.pool.append(x)
        written = UInt32(self.a)
        written[self.rng.randrange(SIZE):] = 5
        if self.rng.random() < 0.5:
            self.pool.append(written)

    def components(self) -> None:
        array = Array3u(self.flat(), 2, self.flat())
        held = [array[position] for position in self.rng.choices(range(3), k=2)]
        held[0] += 1
        assert array[0] is array.x
        if self.rng.random() < 0.3:
            held[1].__init__(9)
        if self.rng.random() < 0.5:
            del array
        self.rng.shuffle(held)
        self.pool += held[:1]
        matrix = Array22f([1, 2], [3, 4])
        row = matrix[0]
        element = row[1]
        del row
        element += 1
        assert matrix[0, 1] is matrix[0][1]

    def tensors(self) -> None:
        tensor = TensorXf(Float(self.a), shape=(8, 8))
        flat = tensor.array
        tensor += 1
        self.pool.append((tensor * 2).array if self.rng.random() < 0.5 else flat)

    def references(self) -> None:
        x = self.flat() + 1

        def told(reference: Any) -> None:
            self.told += 1
            self.pool.append(self.a + 1)

        self.pool.append(weakref.ref(x, told))
        assert self.pool[-1]() is x

    def cycles(self) -> None:
        array = Marked(1, self.flat(), 3)
        array.note = {"self": array, "component": array.y, "both": [array.x, lambda: array]}
        if self.rng.random() < 0.5:
            array.__class__ = Otherwise

        def steps(value: Any) -> Iterator[Any]:
            own = yield value
            yield own

        generator = steps(array)
        next(generator)
        generator.send(generator)
        array.generator = generator

    def failures_of_operators(self) -> None:
        wrong: list[Callable[[], Any]] = [
            lambda: self.a + UInt32(1, 2, 3), lambda: self.a + "text", lambda: dr.fma(self.a, object(), self.b),
            lambda: dr.select(Bool(True, False), self.a, self.b), lambda: Array3u(1, 2),
            lambda: Array3u(1, object(), 3), lambda: dr.gather(UInt32, object(), self.a), lambda: self.a[SIZE],
            lambda: Marked(1, 2, 3) + [self.a, 2], lambda: UInt32.__new__(UInt32) + self.a,
        ]
        try:
            self.rng.choice(wrong)()
        except (TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
            self.failures += 1
            self.pool.append(error)  # and all frames
        else:
            raise AssertionError("a wrong operation was accepted")

        def halfway() -> None:
            local = [self.flat() * k for k in range(5)]
            local[0] += self.b
            raise Refused

        try:
            halfway()
        except Refused as error:
            self.pool.append(error)

    def patched(self) -> None:
        class Patched(UInt32):
            pass

        x = Patched(self.flat())
        type.__setattr__(Patched, "__add__", lambda left, right: "patched")
        assert x + 1 == "patched" and type(x * 2) in (Patched, UInt32)
        type.__delattr__(Patched, "__add__")
        assert not isinstance(x + 1, str)
        self.pool.append(Plain(x))

    def evaluation(self) -> None:
        number = self.rng.randrange(FORMULAS)
        found = formula(7 * number, self.a, self.b)
        total, product = dr.sum(self.a), dr.max(self.b)
        if self.rng.random() < 0.5:
            dr.eval(found, total, product)
            assert product[0] == self.b.numpy().max()
        assert np.array_equal(found.numpy(), self.expected[number]), f"formula {number} is wrong"
        self.evaluated += 1

    #: The last ones cost more, and are rarer.
    WAYS = (operators, operators, in_place, components, references, failures_of_operators, tensors, cycles, patched)
    WEIGHTS = (8, 8, 4, 6, 4, 3, 2, 2, 0.2)

    def program(self, number: int) -> None:
        for way in self.rng.choices(self.WAYS, self.WEIGHTS, k=2):
            way(self)
        if number % 10 == 0:
            self.evaluation()
        if len(self.pool) > 24:
            self.rng.shuffle(self.pool)
            del self.pool[self.rng.randrange(12):]

    def run(self, count: int) -> None:
        for number in range(count):
            self.program(number)
        self.pool.clear()


def main(count: int, threads: int) -> None:
    watch(3000)
    lives = [Lives(seed) for seed in range(threads)]
    errors: list[BaseException] = []

    def work(each: Lives, share: int) -> None:
        try:
            each.run(share)
        except BaseException as error:
            errors.append(error)
            raise

    def together(share: int) -> None:
        workers = [threading.Thread(target=work, args=(each, share)) for each in lives]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert not errors, errors

    share, begin = max(1, count // threads), time.perf_counter()
    together(max(share // 5, 300))
    before, arrays = measure(), len(live_arrays())
    together(share)
    after = measure()
    seconds = time.perf_counter() - begin
    growth = [b - a for a, b in zip(before, after, strict=True)]
    assert all(each.failures and each.told for each in lives) or share < 100
    gc.collect()
    text = (f"{share * threads} programs in {threads} threads, {sum(each.evaluated for each in lives)} evaluated, "
            f"{seconds:.0f} s: resident {growth[0] / 1024:+.0f} KiB, allocator {growth[1] / 1024:+.0f} KiB, nodes "
            f"{growth[2]:+d}, arrays {len(live_arrays()) - arrays:+d}")
    assert growth[0] < 16 << 20, text  # kernels are compiled meanwhile
    assert growth[1] <= 1 << 20, text
    assert abs(growth[2]) < 20 and len(live_arrays()) == arrays, text
    print(text)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
