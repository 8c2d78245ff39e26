"""Random programs with loops, reads and writes nested in each other: kernels and the interpreter give the same bits.

Each program runs in four ways: interpreted as it was traced, evaluated whole, evaluated in two parts or more that are
split at random, and with evaluations while it is traced.  Of all kernels that are met, equal keys have equal texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from drjit_core import TYPES, Node, evaluate, interpret
from drjit_core.codegen.program import Program as Kernel
from drjit_core.ir.verify import verify
from drjit_core.llvm import emit, jit
from drjit_core.runtime import cache, disk
from tests.core import regions
from tests.core.harness import assert_same_bits, values


def compare(roots: list[Node], expected: list[np.ndarray[Any, Any]], how: str) -> None:
    for i, (root, data) in enumerate(zip(roots, expected, strict=True)):
        assert_same_bits(values(root), data, f"result {i}, {how}")


def run_in_all_ways(program: regions.Program) -> None:
    """Compare the ways of running a program; raises an ``AssertionError`` that says which differ."""
    rng = np.random.default_rng(program.seed)
    roots = regions.trace(program)
    verify(roots)
    expected = interpret(roots)
    evaluate(roots)
    compare(roots, expected, "evaluated whole")
    del roots

    roots = regions.trace(program)
    order = rng.permutation(len(roots))
    first = int(rng.integers(len(roots)))
    evaluate([roots[i] for i in order[:first]])
    verify(roots)
    if rng.random() < 0.3:
        for i, data in zip(range(len(roots)), interpret(roots), strict=True):
            assert_same_bits(data, expected[i], f"result {i}, interpreted after an evaluation of {order[:first]}")
    if rng.random() < 0.5:
        evaluate([roots[i] for i in order[first:]])
    else:
        for i in order[first:]:
            evaluate([roots[i]])
    compare(roots, expected, f"after an evaluation of {order[:first]}, in the order {order}")
    del roots

    roots = regions.trace(program, evaluating=True)
    verify(roots)
    for i, data in enumerate(interpret(roots)):
        assert_same_bits(data, expected[i], f"result {i}, evaluated at some steps, then interpreted")
    compare(roots, expected, "evaluated at some steps")


def failure_of(program: regions.Program) -> str | None:
    """What goes wrong with a program, if anything does."""
    try:
        run_in_all_ways(program)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def check(seeds: range) -> None:
    for seed in seeds:
        program = regions.generate(seed)
        failure = failure_of(program)
        if failure is not None:
            sort = failure.split(":")[0]
            small = regions.minimised(program, lambda p, sort=sort: (failure_of(p) or "").startswith(sort))  # type: ignore[misc]
            raise AssertionError(f"seed {seed}: {failure}\nmade small: {failure_of(small)}\n{small}")


class Kernels:
    """Keys and texts of the kernels that are looked up."""

    def __init__(self) -> None:
        self.text_of: dict[Any, str] = {}
        #: Keys by text, of kernels whose types follow from the text: signed and unsigned numbers are often treated alike.
        self.key_of: dict[str, Any] = {}
        self.lookup = cache.lookup
        self.failures: list[str] = []

    def __call__(self, program: Kernel) -> tuple[cache.CompiledKernel, bool]:
        text, key = emit.emit(program, jit.lanes()), program.key
        if self.text_of.setdefault(key, text) != text:
            self.failures.append(f"one key, two texts:\n{key}\n{self.text_of[key]}\n{text}")
        if not any(TYPES[node.type].kind == "i" for node in program.order) \
                and self.key_of.setdefault(text, key) != key:
            self.failures.append(f"one text, two keys:\n{self.key_of[text]}\n{key}\n{text}")
        return self.lookup(program)

    def check(self) -> None:
        assert not self.failures, self.failures[0]


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernels]:
    """What is looked up; kernels are compiled in the quick tier, and those of other runs are left alone."""
    kernels = Kernels()
    monkeypatch.setattr(cache, "lookup", kernels)
    monkeypatch.setattr(cache, "_level", lambda: 0)
    monkeypatch.setattr(disk, "load", lambda key: None)
    monkeypatch.setattr(disk, "store", lambda key, data: None)
    yield kernels
    kernels.check()


@pytest.mark.parametrize("block", range(4))
def test_random_programs_agree_in_every_way_of_running_them(block: int, kernels: Kernels) -> None:
    check(range(50 * block, 50 * block + 50))
    assert len(kernels.text_of) > 100


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(100))
def test_many_random_programs_agree_in_every_way_of_running_them(block: int, kernels: Kernels,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    if block % 5 == 0:
        monkeypatch.setattr(cache, "_level", lambda: 2)
    check(range(1000 + 200 * block, 1200 + 200 * block))
