"""Random programs: derivatives in both directions, on both backends, and finite differences agree.

The programs are those of :mod:`tests.derivatives.programs`. One fails with its source and its seed, after it was made
as small as it goes; ``DRJIT_FUZZ_SEED=<seed> pytest -k fresh`` runs programs from another seed on.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit_core
from drjit.llvm import ad
from tests.derivatives.programs import (
    Differences,
    Machine,
    Program,
    differences,
    generate,
    numbers,
    shrink,
    weighted,
    weights,
)

Array = np.ndarray[Any, Any]
INTERPRETER = "interpreter"


class Run:
    """A program whose derivatives are tracked, run once."""

    def __init__(self, program: Program, *, single: bool = False, isolated: bool = False, spoil: bool = False) -> None:
        self.program = program
        self.machine = Machine(dr, ad, tracks=True, single=single)
        values = self.machine.values
        self.variables: dict[str, Any] = {}
        for leaf in program.leaves:
            array = self.machine.array(leaf)
            if leaf.variable:
                dr.enable_grad(array)
                self.variables[leaf.name] = array
            values[leaf.name] = type(array)(array)
        middle = len(program.statements) // 2 if isolated else 0
        for statement in program.statements[:middle]:
            self.machine.run(statement)
        self._rest = program.statements[middle:]
        if not isolated:
            self.finish(spoil=spoil)

    def finish(self, *, spoil: bool = False) -> None:
        """Run the statements that are left."""
        for statement in self._rest:
            self.machine.run(statement)
        names = self.program.results or tuple(self.machine.values)
        self.results = {name: self.machine.values[name] * 1.0 for name in names}  # which nothing depends on
        if spoil:  # nothing that is written now has to do with what was recorded
            dr.eval(self.machine.values)
            for value in self.machine.values.values():
                if isinstance(value, ad.Float64):
                    dr.scatter(value, ad.Float64(1000), ad.UInt32(0))
                else:
                    value *= 1000

    def forward(self, directions: dict[str, Array]) -> dict[str, Array]:
        """The changes of the results."""
        for name, variable in self.variables.items():
            dr.set_grad(variable, type(variable)(directions[name]))
        dr.enqueue(dr.ADMode.Forward, list(self.variables.values()))
        dr.traverse(dr.ADMode.Forward)
        found = dr.grad(self.results)
        dr.eval(found)
        return {name: numbers(value) for name, value in found.items()}

    def weights(self) -> dict[str, Array]:
        """What results are multiplied by."""
        return weights(self.results, self.program.seed)

    def loss(self) -> Any:
        """The sum of all results, weighted."""
        return weighted(self.results, self.weights(), dr, ad.Float64)

    def gradients(self) -> dict[str, Array]:
        """Of the variables."""
        found = dr.grad(self.variables)
        dr.eval(found)
        return {name: numbers(value) for name, value in found.items()}

    def reverse(self) -> dict[str, Array]:
        """The gradients of the loss."""
        loss = self.loss()
        if dr.grad_enabled(loss):
            dr.backward(loss)
        return self.gradients()


def tolerance(program: Program) -> float:
    """Of derivatives, relative to the largest one."""
    return 2e-1 if "narrow(16" in program.text else 2e-4 if "narrow(32" in program.text else 3e-6


def disagreement(found: dict[str, Array], expected: dict[str, Array], precision: float, *, scale: float = 0) -> str:
    """What is different between numbers by names; empty if nothing is."""
    for name, wanted in expected.items():
        value = found[name]
        if value.shape != wanted.shape and value.size != 1 and wanted.size != 1:
            return f"{name}: the shapes are {value.shape} and {wanted.shape}"
        largest = max(1.0, scale, float(np.abs(wanted).max(initial=0)))
        if not (np.abs(value - wanted) <= precision * largest).all():
            return f"{name}: {value.tolist()} and {wanted.tolist()}"
    return ""


def along(gradients: dict[str, Array], directions: dict[str, Array]) -> float:
    return float(sum((gradients[name] * directions[name]).sum() for name in gradients))


def left_over() -> str:
    """Vertices that nothing needs."""
    return f"vertices are left:{dr.whos_ad(as_string=True)}" if drjit_core.live_vertices() else ""


# --- ways of running -------------------------------------------------------------------------------------------------

Check = Callable[[Program, Differences], str]


def in_forward_mode(program: Program, expected: Differences, **options: Any) -> str:
    """Forward mode and finite differences."""
    run = Run(program, **options)
    found = run.forward(expected.directions)
    precision = tolerance(program) if not options.get("single") else max(5e-3, tolerance(program))
    return disagreement(found, {name: expected.expected(name) for name in found}, precision)


def in_reverse_mode(program: Program, expected: Differences, **options: Any) -> str:
    """Reverse mode and finite differences."""
    run = Run(program, **options)
    found = run.reverse()
    terms = [weight * expected.expected(name) for name, weight in run.weights().items()]
    wanted = sum(float(term.sum()) for term in terms)
    scale = max(float(np.abs(part).sum()) for part in (*terms, *found.values(), np.zeros(1)))
    precision = tolerance(program) if not options.get("single") else max(5e-3, tolerance(program))
    return disagreement({"reverse mode": np.array(along(found, expected.directions))},
                        {"reverse mode": np.array(wanted)}, precision, scale=scale)


def both_modes(program: Program, expected: Differences) -> str:
    return in_forward_mode(program, expected) or in_reverse_mode(program, expected)


def on_the_interpreter(program: Program, expected: Differences) -> str:
    """The gradients of both backends."""
    found = Run(program).reverse()
    with drjit_core.on_backend(INTERPRETER):
        wanted = Run(program).reverse()
    largest = max((float(np.abs(gradient).max(initial=0)) for gradient in wanted.values()), default=0)
    return disagreement(found, wanted, max(1e-9, tolerance(program) if "narrow" in program.text else 0), scale=largest)


def written_afterwards(program: Program, expected: Differences) -> str:
    """Writes between recording and traversals."""
    return in_reverse_mode(program, expected, spoil=True) or in_forward_mode(program, expected, spoil=True)


def in_single_precision(program: Program, expected: Differences) -> str:
    return in_forward_mode(program, expected, single=True)


def twice(program: Program, expected: Differences) -> str:
    """Two traversals of one graph, and one within a scope that isolates its second half."""
    wanted = Run(program).reverse()
    run = Run(program)
    loss = run.loss()
    if not dr.grad_enabled(loss):
        return ""
    dr.backward(loss, flags=dr.ADFlag.ClearVertices)
    once = run.gradients()
    dr.backward(loss)
    both = run.gradients()
    largest = max((float(np.abs(gradient).max(initial=0)) for gradient in wanted.values()), default=0)
    precision = 1e-2 if "narrow(16" in program.text else 1e-5 if "narrow(32" in program.text else 1e-10
    found = disagreement(once, wanted, precision, scale=largest) or disagreement(
        {name: value / 2 for name, value in both.items()}, wanted, precision, scale=largest)
    if found:
        return found
    run = Run(program, isolated=True)
    with dr.isolate_grad():
        run.finish()
        dr.backward(run.loss(), flags=dr.ADFlag.Default | dr.ADFlag.AllowNoGrad)
    found = disagreement(run.gradients(), wanted, precision, scale=largest)
    return f"isolated: {found}" if found else ""


def of_second_order(program: Program, expected: Differences) -> str:
    """Products with the Hessian: finite differences of gradients, and its symmetry."""
    names = list(expected.directions)
    tape = expected.machines[0].tape
    factors = Run(program).weights()

    def function(*variables: Any, replay: bool = False) -> Any:
        machine = Machine(dr, ad, tracks=not replay, tape=tape if replay else None)
        given = dict(zip(names, variables, strict=True))
        for leaf in program.leaves:
            array = given.get(leaf.name)
            machine.values[leaf.name] = machine.array(leaf) if array is None else type(array)(array)
        for statement in program.statements:
            machine.run(statement)
        return weighted(machine.values, factors, dr, ad.Float64)

    leaves = {leaf.name: leaf for leaf in program.leaves}
    machine = Machine(dr, ad, tracks=True)

    def arrays(step: float) -> tuple[Any, ...]:
        return tuple(machine.array(leaves[name], leaves[name].values + step * expected.directions[name])
                     for name in names)

    def gradient(step: float) -> list[Array]:
        everything = tuple(range(len(names)))
        found = dr.value_and_grad(lambda *a: function(*a, replay=True), everything)(*arrays(step))
        return [numbers(g) for g in found[1]]

    source = np.random.default_rng(program.seed + 1)
    others = {name: source.uniform(-1, 1, leaves[name].values.shape) for name in names}

    def product(directions: dict[str, Array]) -> dict[str, Array]:
        changes = tuple(machine.array(leaves[name], directions[name]) for name in names)
        return dict(zip(names, map(numbers, dr.hvp(function, arrays(0), changes)[1]), strict=True))

    first, second = product(expected.directions), product(others)
    h = 1e-4
    steps = [gradient(step) for step in (h, -h, 2 * h, -2 * h)]
    wanted, doubt = {}, 0.0
    for name, a, b, c, d in zip(names, *steps, strict=True):
        near, far = (a - b) / (2 * h), (c - d) / (4 * h)
        wanted[name] = (4 * near - far) / 3
        doubt = max(doubt, float(np.abs(near - far).max(initial=0)))
    largest = max(1.0, max(float(np.abs(value).max(initial=0)) for value in wanted.values()))
    if not np.isfinite(largest) or doubt > 1e-2 * largest:
        return ""  # too bent for finite differences
    found = disagreement(first, wanted, max(tolerance(program), 1e-5 + doubt / largest), scale=largest)
    a, b = along(first, others), along(second, expected.directions)
    if not found and abs(a - b) > (tolerance(program) if "narrow" in program.text else 1e-6) * max(largest, abs(a)):
        found = f"the Hessian is not symmetric: {a} and {b}"
    return found


# --- tests -----------------------------------------------------------------------------------------------------------


def failure(program: Program, checks: Sequence[Check], expected: Differences | None = None) -> str:
    """What is wrong with a program; empty if nothing is."""
    for _ in range(3):  # what an earlier failure has left
        if drjit_core.live_vertices():
            gc.collect()
    try:
        expected = differences(program, dr, ad) if expected is None else expected
        for check in checks:
            found = check(program, expected) or left_over()
            if found:
                return f"{check.__name__}: {found}"
    except Exception as error:
        return f"{check.__name__}: {type(error).__name__}: {error}"
    return ""


def examine(seed: int, checks: Sequence[Check], **options: Any) -> None:
    """Check the program of a seed; make it small and fail if something is wrong."""
    program, expected = generate(seed, dr, ad, **options)
    found = failure(program, checks, expected)
    if found:
        kind = found.partition(":")[0]
        checks = [check for check in checks if check.__name__ == kind]
        small = shrink(program, dr, ad, lambda candidate: bool(failure(candidate, checks)))
        pytest.fail(f"seed {seed}: {failure(small, checks) or found}\n{small}", pytrace=False)


CHECKS: tuple[Check, ...] = (in_forward_mode, in_reverse_mode, on_the_interpreter, written_afterwards,
                             in_single_precision, twice)
#: What has derivatives of derivatives.
SMOOTH = {"without": ("product", "rotated"), "longest": 12}


@pytest.mark.parametrize("block", range(10))
def test_derivatives_of_random_programs(block: int) -> None:
    for seed in range(25 * block, 25 * block + 25):
        examine(seed, [CHECKS[seed % len(CHECKS)]], longest=16)


@pytest.mark.parametrize("block", range(5))
def test_second_derivatives_of_random_programs(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        examine(seed, [of_second_order], **SMOOTH)


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(40))
def test_derivatives_of_many_programs(block: int) -> None:
    for seed in range(10_000 + 100 * block, 10_100 + 100 * block):
        examine(seed, [in_forward_mode, in_reverse_mode, CHECKS[2 + seed % 4]])


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(10))
def test_second_derivatives_of_many_programs(block: int) -> None:
    for seed in range(10_000 + 100 * block, 10_100 + 100 * block):
        examine(seed, [of_second_order], **SMOOTH)


@pytest.mark.skipif("DRJIT_FUZZ_SEED" not in os.environ, reason="DRJIT_FUZZ_SEED names the first of 200 fresh seeds")
def test_derivatives_of_fresh_programs() -> None:
    start = int(os.environ["DRJIT_FUZZ_SEED"])
    for seed in range(start, start + 200):
        examine(seed, [in_forward_mode, in_reverse_mode, *CHECKS[2:]])
        examine(seed, [of_second_order], **SMOOTH)
