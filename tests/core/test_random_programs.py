"""Random graphs over all types: fused, evaluated step by step, and folded from literals, they give the same bits.

A program is a list of steps, each an operation on earlier results.  It is run in five ways: as one fused evaluation;
with evaluations at random points in between; as written, without folding and value numbering; for each of a few
elements with literals in place of arrays, which folds everything; and with all operands of one element.  All arithmetic
is exactly rounded, so that they must agree in every bit (NaN patterns aside).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from drjit_core import (
    BINARY,
    ELEMENTWISE,
    TERNARY,
    TYPES,
    UNARY,
    JitFlag,
    Node,
    ReduceOp,
    bitcast,
    cast,
    counter,
    evaluate,
    gather,
    literal,
    ops,
    reduce,
    scoped_set_flag,
)
from drjit_core.ir.verify import verify
from drjit_core.ops.table import LITERAL
from tests.core.harness import (
    ALL_TYPES,
    BOOL,
    FLOATS,
    UINT32,
    array,
    assert_same_bits,
    dtype_of,
    name_of,
    values,
)
from tests.ops.samples import samples

_TRACE: dict[int, Callable[..., Node]] = {**UNARY, **BINARY, **TERNARY}


class Step(NamedTuple):
    """One operation; operands are numbers of earlier results."""

    kind: str  # "input", "counter", "literal", "op", "cast", "bitcast", "select", "gather", "reduce"
    type: int
    operands: tuple[int, ...] = ()
    detail: Any = None


class Program:
    """Steps with the data of the inputs."""

    def __init__(self, seed: int, length: int, structure: bool) -> None:
        self.seed = seed
        self.rng = rng = np.random.default_rng(seed)
        self.size = int(rng.choice([2, 5, 16, 17, 33, 100]))
        self.steps: list[Step] = []
        self.data: dict[int, np.ndarray[Any, Any]] = {}
        for _ in range(int(rng.integers(2, 5))):
            self.add_input(int(rng.choice(ALL_TYPES)))
        while len(self.steps) < length:
            self.add_step(structure)

    def add_input(self, type_: int) -> int:
        rng = self.rng
        choice = rng.integers(5)
        if choice == 0 and type_ == UINT32:
            self.steps.append(Step("counter", UINT32))
        elif choice == 1:
            self.steps.append(Step("literal", type_, (), rng.choice(samples(type_)).item()))
        else:
            self.data[len(self.steps)] = rng.choice(samples(type_), 1 if choice == 2 else self.size)
            self.steps.append(Step("input", type_))
        return len(self.steps) - 1

    def pick(self, type_: int | None = None) -> int:
        """A result of a type, recent ones more often; a new input if there is none."""
        candidates = [i for i, step in enumerate(self.steps) if type_ is None or step.type == type_]
        if not candidates:
            return self.add_input(type_)  # type: ignore[arg-type]
        return candidates[-1 - int(self.rng.integers(len(candidates)) * self.rng.random())]

    def add_step(self, structure: bool) -> None:
        rng, first = self.rng, self.pick()
        type_ = self.steps[first].type
        choice = rng.random()
        if choice < 0.55:
            rows = [op for op in ELEMENTWISE if TYPES[type_].kind in op.accepts and op.name != "select"]
            op = rows[rng.integers(len(rows))]
            operands = (first, *(self.pick(type_) for _ in range(op.arity - 1)))
            self.steps.append(Step("op", BOOL if op.result == "mask" else type_, operands, op.kind))
        elif choice < 0.7:
            target = int(rng.choice(ALL_TYPES))
            self.steps.append(Step("cast", target, (first,)))
        elif choice < 0.76:
            same = [t for t in ALL_TYPES[1:] if TYPES[t].size == TYPES[type_].size and type_ != BOOL]
            if same and type_ not in FLOATS:  # not from floats: the bits of a NaN are nobody's business
                self.steps.append(Step("bitcast", int(rng.choice(same)), (first,)))
        elif choice < 0.88:
            mask, other = self.pick(BOOL), self.pick(type_)
            self.steps.append(Step("select", type_, (mask, first, other)))
        elif structure and choice < 0.94:
            index, mask = self.pick(UINT32), self.pick(BOOL)
            self.steps.append(Step("gather", type_, (first, index, mask)))
        elif structure:
            allowed = [ReduceOp.And, ReduceOp.Or] if TYPES[type_].kind == "b" else [ReduceOp.Min, ReduceOp.Max]
            if TYPES[type_].kind in "iu":
                allowed += [ReduceOp.Add, ReduceOp.Mul, ReduceOp.And, ReduceOp.Or]
            self.steps.append(Step("reduce", type_, (first,), allowed[rng.integers(len(allowed))].value))

    def source(self, i: int, lane: int | None, single: bool) -> Node:
        """A leaf: for one element as a literal or array of one, else as it is."""
        step = self.steps[i]
        if step.kind == "counter":
            if lane is None:
                return counter(self.size)
            value: Any = lane
        elif step.kind == "literal":
            if not single:
                return literal(step.type, step.detail)
            value = step.detail
        else:
            data = self.data[i]
            if lane is None:
                return array(data)
            value = data[0 if data.size == 1 else lane].item()
        return array([value], step.type) if single else literal(step.type, value)

    def run(self, lane: int | None = None, single: bool = False, evaluate_often: int | None = None) -> list[Node]:
        """Trace the program; returns the results of all steps."""
        rng = np.random.default_rng(evaluate_often)
        results: list[Node] = []
        for i, step in enumerate(self.steps):
            nodes = [results[k] for k in step.operands]
            if step.kind in ("input", "counter", "literal"):
                node = self.source(i, lane, single)
            elif step.kind == "op":
                node = _TRACE[step.detail](*nodes)
            elif step.kind == "cast":
                node = cast(nodes[0], step.type)
            elif step.kind == "bitcast":
                node = bitcast(nodes[0], step.type)
            elif step.kind == "select":
                node = ops.select(*nodes)
            elif step.kind == "gather":
                size = literal(UINT32, max(nodes[0].size, 1))
                node = gather(nodes[0], ops.mod(nodes[1], size), nodes[2])
            else:
                node = reduce(nodes[0], step.detail)
            results.append(node)
            if evaluate_often is not None and rng.random() < 0.4:
                evaluate([results[k] for k in rng.integers(0, len(results), 3)])
        return results

    def roots(self) -> list[int]:
        """Results that no step uses, and a few that are used."""
        used = {k for step in self.steps for k in step.operands}
        extra = np.random.default_rng(self.seed + 1).random(len(self.steps)) < 0.1
        return [i for i in range(len(self.steps)) if i not in used or extra[i]]

    def __str__(self) -> str:
        from drjit_core import OPS

        lines = [f"size {self.size}"]
        for i, step in enumerate(self.steps):
            what = OPS[step.detail].name if step.kind == "op" else step.kind
            detail = self.data[i][:4] if i in self.data else "" if step.kind == "op" else step.detail
            lines.append(f"  {i}: {name_of(step.type)} = {what}{step.operands} {detail}")
        return "\n".join(lines)


def _full(data: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    return np.repeat(data, size) if data.size == 1 else data


def run_in_all_ways(seed: int, length: int, structure: bool) -> None:
    program = Program(seed, length, structure)
    size, roots = program.size, program.roots()
    try:
        fused = program.run()
        chosen = [fused[i] for i in roots]
        verify(chosen)
        evaluate(chosen)
        expected = [values(node) for node in chosen]

        stepwise = program.run(evaluate_often=seed)
        for i, data in zip(roots, expected, strict=True):
            assert_same_bits(_full(values(stepwise[i]), size), _full(data, size), f"step {i}, step by step")
        with scoped_set_flag(JitFlag.ConstantPropagation, False), scoped_set_flag(JitFlag.ValueNumbering, False):
            plain = program.run()
        evaluate([plain[i] for i in roots])
        for i, data in zip(roots, expected, strict=True):
            assert_same_bits(_full(values(plain[i]), size), _full(data, size), f"step {i}, as written")
        if structure:
            return
        for lane in {0, size // 2, size - 1}:
            folded, single = program.run(lane), program.run(lane, single=True)
            evaluate([single[i] for i in roots])
            for i, data in zip(roots, expected, strict=True):
                element = data[lane:lane + 1] if data.size > 1 else data
                if folded[i].kind == LITERAL:
                    result = np.array([folded[i].payload], dtype_of(folded[i].type))
                    assert_same_bits(result, element, f"step {i}, folded, element {lane}")
                assert_same_bits(values(folded[i]), element, f"step {i}, of literals, element {lane}")
                assert_same_bits(values(single[i]), element, f"step {i}, of one element, element {lane}")
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, length {length}, structure {structure}: {error}\n{program}") from None


@pytest.fixture(autouse=True)
def exact() -> Any:
    """Without the flag that lets a product with zero be zero."""
    with scoped_set_flag(JitFlag.FastMath, False):
        yield


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("block", range(4))
def test_elementwise_programs_agree_in_every_way_of_running_them(block: int) -> None:
    for seed in range(40 * block, 40 * block + 40):
        run_in_all_ways(seed, 4 + seed % 25, structure=False)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("block", range(4))
def test_programs_with_gathers_and_reductions_agree_in_every_way_of_running_them(block: int) -> None:
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        run_in_all_ways(seed, 4 + seed % 30, structure=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(20))
def test_many_programs_agree_in_every_way_of_running_them(block: int) -> None:
    for seed in range(10_000 + 100 * block, 10_100 + 100 * block):
        run_in_all_ways(seed, 5 + seed % 60, structure=seed % 2 == 0)
