"""Random programs of ``@dr.syntax`` that change objects: the caller's objects become what they become in Python.

Python has numbers in them, one element at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import UInt
from tests.control.programs import CHANGING, contents, define, objects, program

LANES = 16


def elements(value: Any) -> Any:
    """What there is of a value for each element."""
    if isinstance(value, tuple):
        return list(zip(*map(elements, value), strict=True))
    found = np.array(value).reshape(-1).tolist()
    return found * LANES if len(found) == 1 else found


def check(seed: int) -> None:
    text = program(seed)
    function = define(text, str(seed))
    numbers = np.random.default_rng(seed).integers(0, 256, (3, LANES)).tolist()
    inner = np.random.default_rng(seed + 1).integers(0, 256, (13, LANES)).tolist()
    scalar = seed % 5
    expected: list[Any] = []
    for lane in range(LANES):
        given = objects(lambda k, lane=lane: inner[k][lane])
        result = function(*[column[lane] for column in numbers], scalar, 0, **given)
        expected.append([result, *contents(given)])
    decorated = dr.syntax(function)
    for lane in range(4):
        given = objects(lambda k, lane=lane: inner[k][lane])
        result = decorated(*[column[lane] for column in numbers], scalar, 0, **given)
        assert [result, *contents(given)] == expected[lane], text
    for symbolic in (True, False):
        with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, symbolic), \
                dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, symbolic):
            given = objects(lambda k: UInt(inner[k]))
            result = decorated(*map(UInt, numbers), scalar, UInt(0), **given)
        found = [elements(result), *map(elements, contents(given))]
        assert [list(entry) for entry in zip(*found, strict=True)] == expected, text


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part: int) -> None:
    for seed in range(CHANGING + part * 10, CHANGING + part * 10 + 10):
        check(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(50))
def test_many_random_programs(part: int) -> None:
    for seed in range(CHANGING + 1000 + part * 50, CHANGING + 1050 + part * 50):
        check(seed)
