"""Random programs on the machine: with regions, memory and calls, graphs of all types, and kernels over rows; in the
order of the threads, and with warps that go on at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from drjit_core import Node, evaluate, interpret, on_backend
from tests.core import regions, test_random_programs, test_rows
from tests.core.harness import FLOATS, array, assert_same_bits, values
from tests.machine.backend import OnMachine

SCHEDULES = pytest.mark.parametrize("machine", [(90, None), (75, None), (90, 1)], indirect=True,
                                    ids=["sm_90", "sm_75", "any order"])


@pytest.fixture(autouse=True)
def copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """See :func:`use_copies`."""
    use_copies(monkeypatch)


def use_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs have their inputs copied: the device cannot access memory of the host."""
    monkeypatch.setattr(regions, "shared", array, raising=False)
    monkeypatch.setattr(test_random_programs, "shared", array, raising=False)


def agree(roots: list[Node], *context: object, but: Callable[[list[Any]], set[int]] = lambda expected: set()) -> None:
    """Evaluated, nodes have the bits that the interpreter says; but for those that are said to have none."""
    expected = interpret(roots)
    left_open = but(expected)
    evaluate(roots)
    for number, (root, data) in enumerate(zip(roots, expected, strict=True)):
        if number not in left_open:
            assert_same_bits(values(root), data, f"result {number}", *context)


def regions_agree(seed: int) -> None:
    agree(regions.trace_unless_refused(regions.generate(seed)) or [], f"seed {seed}")


def graphs_agree(seed: int) -> None:
    program = test_random_programs.Program(seed, 25, True)

    def signs(expected: list[Any]) -> set[int]:
        """What comes from an extremum that is zero: whether -0 or +0 is the smaller one is left open."""
        found = set[int]()
        for number, step in enumerate(program.steps):
            is_extremum = step.kind == "reduce" and step.detail in (3, 4) and step.type in FLOATS
            if is_extremum and not any(expected[number]) or not found.isdisjoint(step.operands):
                found.add(number)
        return found

    agree(list(program.run()), f"seed {seed}", but=signs)


def rows_agree(seed: int) -> None:
    programs = test_rows.Programs(seed, 0)
    roots = programs.roots()
    test_rows.agree(*roots, precision=1e-4)


CHECKS = {"regions": regions_agree, "graphs": graphs_agree, "rows": rows_agree}


@SCHEDULES
@pytest.mark.parametrize(("check", "count"), [("regions", 25), ("graphs", 20), ("rows", 20)])
def test_programs_agree_with_the_interpreter(check: str, count: int, machine: OnMachine) -> None:
    first = {90: 0, 75: 1000}[machine.driver.architecture] + (machine.driver.machine.random is not None) * 5000
    for seed in range(first, first + count):
        CHECKS[check](seed)


@pytest.mark.exhaustive
@SCHEDULES
@pytest.mark.parametrize("block", range(40))
@pytest.mark.parametrize(("check", "count"), [("regions", 500), ("graphs", 125), ("rows", 125)])
def test_twenty_thousand_programs(check: str, count: int, block: int, machine: OnMachine) -> None:
    for seed in range(10_000 + count * block, 10_000 + count * (block + 1)):
        CHECKS[check](seed)


def test_what_must_not_depend_on_the_order_of_threads() -> None:
    """The same seed gives the same bits on every schedule."""
    results: list[list[np.ndarray]] = []
    for backend in (OnMachine(90), OnMachine(90, 3), OnMachine(90, 4)):
        with on_backend(backend):
            found = []
            for seed in range(2000, 2004):
                roots = regions.trace(regions.generate(seed))
                evaluate(roots)
                found += [values(root) for root in roots]
            results.append(found)
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            assert_same_bits(one, two)
