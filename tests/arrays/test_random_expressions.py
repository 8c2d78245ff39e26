"""Random programs over all array types: every way of running one gives the same bits.

The programs are those of :mod:`tests.random_programs`. One fails with its source and its seed, after it was made as
small as it goes; ``DRJIT_FUZZ_SEED=<seed> pytest -k fresh`` runs programs from another seed on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from tests.random_programs.generator import generate
from tests.random_programs.programs import Program, Raised, Value, extract, info_of, run, shrink

Results = dict[str, Any]


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """Without the flag that lets a product with zero be zero."""
    with dr.scoped_set_flag(dr.JitFlag.FastMath, False):
        yield


def data(results: Results) -> Results:
    """Results as data, computed in one evaluation."""
    dr.eval([result for result in results.values() if isinstance(result, dr.ArrayBase)])
    return {name: result if isinstance(result, Raised) else extract(result) for name, result in results.items()}


def same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Equal elements; all NaNs are alike, zeros of different sign are not."""
    if a.dtype.kind != "f":
        return bool((a == b).all())
    return bool((((a == b) & (np.signbit(a) == np.signbit(b))) | np.isnan(a) & np.isnan(b)).all())


def difference(mine: Any, theirs: Any) -> str:
    """What is different between two results of the same type and width; empty if nothing is."""
    if isinstance(mine, Raised) or isinstance(theirs, Raised):
        return "" if type(mine) is type(theirs) else f"{mine} and {theirs}"
    if (mine.type, mine.shape) != (theirs.type, theirs.shape) or len(mine.parts) != len(theirs.parts):
        return f"{mine} and {theirs}"
    for a, b in zip(mine.parts, theirs.parts, strict=True):
        if not isinstance(a, np.ndarray):
            a, b = np.array([a]), np.array([b])
        if a.size != b.size and 1 not in (a.size, b.size) or not same_bits(*np.broadcast_arrays(a, b)):
            return f"{mine} and {theirs}"
    return ""


# --- fused, and step by step -----------------------------------------------------------------------------------------


def fused_and_stepwise(program: Program) -> tuple[str, Results]:
    """The first difference between one evaluation of all steps and an evaluation after each."""
    fused = data(run(program, dr, llvm))
    stepwise = data(run(program, dr, llvm, after=dr.eval))
    for name, mine in fused.items():
        found = difference(mine, stepwise[name])
        if found:
            return f"{name}, fused and step by step: {found}", fused
    return "", fused


# --- all elements at once, and each by itself ------------------------------------------------------------------------


def scalar_lane(wide: Any, single: Any, lane: int) -> str:
    """What is different between an element of a vectorised result and the scalar one."""
    if isinstance(wide, Raised) and wide.message.startswith("drjit.sqrt(<") and getattr(single, "type", "") == "float":
        return ""  # the norm of integers: the sum of squares of a scalar array is a Python number, which has a root
    if isinstance(wide, Raised) or isinstance(single, Raised):
        return "" if type(wide) is type(single) else f"{wide} and {single}"
    info = info_of(wide.type)
    if info.kind == "flat":  # a Python number in the scalar backend
        a = wide.parts[0][lane if wide.parts[0].size > 1 else 0]
        b = np.asarray(single.parts[0]).astype(info.dtype, casting="unsafe").reshape(-1)
        return "" if same_bits(a, b) else f"{a} and {single}"
    if single.type != wide.type or wide.shape != single.shape or len(wide.parts) != len(single.parts):
        return f"{wide} and {single}"
    if wide.shape is not None:
        return difference(wide, single)
    for a, b in zip(wide.parts, single.parts, strict=True):
        if not same_bits(a[lane if a.size > 1 else 0], b[0]):
            return f"{a[lane if a.size > 1 else 0]!r} and {b[0]!r} of {wide.type}"
    return ""


def vectorised_and_scalar(program: Program) -> tuple[str, Results]:
    """The first difference between elements of vectorised results and scalar results."""
    wide = data(run(program, dr, llvm))
    width = program.width
    for lane in sorted({0, width // 2, width - 1}):
        for name, result in run(program, dr, scalar, lane).items():
            single = result if isinstance(result, Raised) else extract(result)
            found = scalar_lane(wide[name], single, lane)
            if found:
                return f"{name}, element {lane}: {found}", wide
    return "", wide


Check = Callable[[Program], tuple[str, Results]]


def check(seed: int, lanes: bool, compare: Check) -> None:
    """Run the program of a seed; shrink it and fail if there is a difference."""
    program = generate(seed, dr, llvm, lanes)
    found, results = compare(program)
    if not found:
        return
    values = {name: value for name, value in results.items() if isinstance(value, Value)}
    small = shrink(program, lambda candidate: bool(compare(candidate)[0]), values.get)
    found, _ = compare(small)
    pytest.fail(f"seed {seed}, {compare.__name__}: {found}\n{small}", pytrace=False)


@pytest.mark.parametrize("block", range(10))
def test_fused_programs_agree_with_programs_evaluated_step_by_step(block: int) -> None:
    for seed in range(25 * block, 25 * block + 25):
        check(seed, False, fused_and_stepwise)


@pytest.mark.parametrize("block", range(10))
def test_the_scalar_backend_agrees_with_each_element_of_the_llvm_backend(block: int) -> None:
    for seed in range(25 * block, 25 * block + 25):
        check(seed, True, vectorised_and_scalar)


@pytest.mark.exhaustive
@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize("block", range(20))
def test_many_programs_agree(block: int, lanes: bool) -> None:
    for seed in range(10_000 + 200 * block, 10_200 + 200 * block):
        check(seed, lanes, vectorised_and_scalar if lanes else fused_and_stepwise)


@pytest.mark.exhaustive
@pytest.mark.oracle
@pytest.mark.skipif("DRJIT_PEER_PYTHON" not in os.environ, reason="DRJIT_PEER_PYTHON names a Python that has the wheel")
def test_differences_from_the_wheel_are_explained() -> None:
    script = Path(__file__).parent.parent.parent / "conformance" / "random_peer.py"
    result = subprocess.run([sys.executable, str(script), "--programs", "1000"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.skipif("DRJIT_FUZZ_SEED" not in os.environ, reason="DRJIT_FUZZ_SEED names the first of 200 fresh seeds")
@pytest.mark.parametrize("lanes", [False, True])
def test_fresh_programs_agree(lanes: bool) -> None:
    start = int(os.environ["DRJIT_FUZZ_SEED"])
    for seed in range(start, start + 200):
        check(seed, lanes, vectorised_and_scalar if lanes else fused_and_stepwise)
