"""Random programs with nested control flow: all modes agree with the scalar backend."""

from __future__ import annotations

import pytest

import drjit as dr
from conformance.random_control import CAPTURING, CHANGING, MODES, run, text_of
from drjit import llvm, scalar

assert llvm and scalar  # which programs refer to by name


def check(seed: int) -> bool:
    """Compare the modes; returns whether the program runs in all of them."""
    with dr.scoped_set_flag(dr.JitFlag.FastMath, False), dr.scoped_set_flag(dr.JitFlag.CompressLoops, False):
        found = {mode: run(seed, dr, mode) for mode in MODES}
    refused = found["symbolic"][0].startswith("SymbolicValue") and "mode='evaluated'" in found["symbolic"][0]
    if refused:
        del found["symbolic"]  # it says what to do instead
    values = list(found.values())
    assert len(values[0]) > 1 and all(value == values[0] for value in values), f"{found}\n{text_of(seed)}"
    return not refused


@pytest.mark.parametrize("part", range(6))
def test_modes_agree(part: int) -> None:
    assert all(check(seed) for seed in range(part * 20, part * 20 + 20))


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("first", [CHANGING, CAPTURING])
def test_modes_agree_on_programs_that_change_objects(first: int, part: int) -> None:
    assert all(check(seed) for seed in range(first + part * 10, first + part * 10 + 10))


@pytest.mark.parametrize("seed", [1131, 20428, 24604, 24873, 100862, 102916])
def test_programs_of_which_a_trace_writes_elsewhere_than_the_one_before(seed: int) -> None:
    """What is found to be the same in all iterations may decide for a branch, or which function is called."""
    assert check(seed)


def test_a_program_that_prints_in_loops_of_one_element() -> None:
    """As many values as there are, which a loop around that loop has been made wide for."""
    assert check(23863)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(50))
def test_modes_agree_on_more_programs(part: int) -> None:
    assert [check(seed) for seed in range(10_000 + part * 20, 10_020 + part * 20)].count(False) <= 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(25))
@pytest.mark.parametrize("first", [CHANGING, CAPTURING])
def test_modes_agree_on_more_programs_that_change_objects(first: int, part: int) -> None:
    seeds = range(first + 10_000 + part * 10, first + 10_010 + part * 10)
    assert [check(seed) for seed in seeds].count(False) <= 1
