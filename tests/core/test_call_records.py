"""Targets of a call that are like others are not assembled, and get the function and record that they would get."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from drjit_core import TYPES, Node, cast, gather, ops, products
from drjit_core.codegen.program import Program, assemble
from drjit_core.codegen.records import ENTRY_WORDS, Alike, layout_of
from drjit_core.control.choice import call, cond
from drjit_core.ir.build import BAKED, evaluated, literal
from drjit_core.passes.schedule import plan
from drjit_core.runtime.cpu.target import CPU_TARGET
from drjit_core.types import BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, UINT32

_addresses = count(1 << 20, 64)


def memory(type_: int, size: int, padded: bool = True) -> Node:
    """Memory that is never accessed."""
    return evaluated(type_, size, SimpleNamespace(
        backend=SimpleNamespace(heap=None), address=next(_addresses), nbytes=size * TYPES[type_].size, padded=padded,
        read_only=False, ticket=0), 0)


TRUE = literal(BOOL, True)


def kernel_of(targets: list[Any], arguments: list[Node], index: Node | None = None) -> Any:
    results, _ = call(memory(UINT32, 100) if index is None else index, TRUE, targets, arguments)
    return plan(results, CPU_TARGET)[-1]


def alike(kernel: Any) -> int:
    """How many targets were not assembled, whose function and record must be those that they would get otherwise."""
    short, whole = assemble(kernel, CPU_TARGET), assemble(kernel, CPU_TARGET, detailed=True)
    assert short.key == whole.key
    assert {node.id for node in short.inputs} == {node.id for node in whole.inputs}
    (one,), (other,) = short.calls.values(), whole.calls.values()
    assert one.extras == other.extras
    assert one.shared == other.shared
    for target, expected in zip(one.targets, other.targets, strict=True):
        assert isinstance(expected, Program)
        assert target.key == expected.key
        assert target.parameters == expected.parameters
        assert list(target.links) == expected.links
    assert list(short.functions) == list(whole.functions)
    assert list(short.shared) == list(whole.shared)
    return sum(isinstance(target, Alike) for target in one.targets)


def test_instances_that_differ_in_numbers_and_arrays_are_alike() -> None:
    def target(k: int) -> Any:
        buffer, single, number = memory(FLOAT32, 4 + k), memory(FLOAT32, 1), literal(FLOAT32, 1.5 + k)
        half, double = literal(FLOAT16, 3.25 * k + 2), literal(FLOAT64, -7.125 * k - 3)
        whole = literal(INT32, -5 - k)
        return lambda a: [ops.fma(gather(buffer, a[1], TRUE), ops.mul(a[0], single), number), cast(half, FLOAT32),
                          ops.add(cast(a[0], FLOAT64), double), ops.sub(cast(a[1], INT32), whole)]

    arguments = [memory(FLOAT32, 100), memory(UINT32, 100)]
    assert alike(kernel_of([target(k) for k in range(8)], arguments)) == 7


VARIANTS = {
    "the same": lambda a, x, y, z: ops.add(ops.mul(a[0], x), y),
    "captures in another order": lambda a, x, y, z: ops.add(ops.mul(a[0], y), x),
    "one capture twice": lambda a, x, y, z: ops.add(ops.mul(a[0], x), x),
    "another operation": lambda a, x, y, z: ops.sub(ops.mul(a[0], x), y),
    "another argument": lambda a, x, y, z: ops.add(ops.mul(a[2], x), y),
    "operands the other way round": lambda a, x, y, z: ops.add(y, ops.mul(a[0], x)),
    "an array of one element": lambda a, x, y, z: ops.add(ops.mul(a[0], z), y),
    "a value from outside": lambda a, x, y, z: ops.add(ops.mul(a[0], WIDE), y),
    "part of the program": lambda a, x, y, z: ops.add(ops.mul(a[0], literal(FLOAT32, 3, attr=BAKED)), y),
    "another part of the program": lambda a, x, y, z: ops.add(ops.mul(a[0], literal(FLOAT32, 5, attr=BAKED)), y),
    "what was given": lambda a, x, y, z: a[0],
    "a number": lambda a, x, y, z: x,
    "another number": lambda a, x, y, z: y,
    "reads": lambda a, x, y, z: ops.add(gather(TABLE, a[1], TRUE), y),
    "reads of a large array": lambda a, x, y, z: ops.add(gather(LARGE, a[1], TRUE), y),
    "two reads of an array": lambda a, x, y, z: ops.add(gather(TABLE, a[1], TRUE), gather(TABLE, a[3], TRUE)),
    "reads of two arrays": lambda a, x, y, z: ops.add(gather(TABLE, a[1], TRUE), gather(OTHER, a[3], TRUE)),
    "a product": lambda a, x, y, z: ops.add(*products(TABLE, [a[0], x, a[2]], 2, 1, 3, 1)),
    "a product with another array": lambda a, x, y, z: ops.add(*products(OTHER, [a[0], x, a[2]], 2, 1, 3, 1)),
    "a product with other values": lambda a, x, y, z: ops.add(*products(TABLE, [a[0], a[2], x], 2, 1, 3, 1)),
    "a product of other places": lambda a, x, y, z: ops.add(*products(TABLE, [a[0], x, a[2]], 2, 0, 3, 1)),
    "a product of many values": lambda a, x, y, z: products(OTHER, [a[0], x, a[2], y, a[0], x, y], 1, 1, 7, 1)[0],
    "a product of as many": lambda a, x, y, z: products(OTHER, [a[0], x, a[2], y, a[0], y, x], 1, 1, 7, 1)[0],
    "products with numbers": lambda a, x, y, z: ops.add(*products(TABLE, [x, y, a[0]], 2, 0, 3, 1)),
    "a branch": lambda a, x, y, z: cond(ops.lt(a[0], x), [a[0], y], lambda b: [ops.mul(b[0], b[1])],
                                        lambda b: [b[0]])[0][0],
}
WIDE, TABLE, OTHER = memory(FLOAT32, 100), memory(FLOAT32, 10), memory(FLOAT32, 20)
LARGE = memory(FLOAT32, 1 << 22)


def variant(name: str, number: int) -> Any:
    x, y, z = literal(FLOAT32, 2.5 + number), literal(FLOAT32, 100.5 + number), memory(FLOAT32, 1)
    return lambda a: [VARIANTS[name](a, x, y, z)]


def four() -> list[Node]:
    return [memory(type_, 100) for type_ in (FLOAT32, UINT32, FLOAT32, UINT32)]


@pytest.mark.parametrize("one", VARIANTS)
def test_targets_are_alike_if_they_have_one_function(one: str) -> None:
    for other in VARIANTS:
        kernel = kernel_of([variant(one, 0), variant(other, 1), variant(one, 2), variant(other, 3)], four())
        found = alike(kernel)
        if one != "a branch" != other:
            assert found == 4 - len(assemble(kernel, CPU_TARGET).functions)


def test_functions_of_random_operations_are_those_that_they_would_be_otherwise() -> None:
    found = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        shared = [memory(FLOAT32, int(size)) for size in rng.choice([1, 9, 100], 4)]

        def target(a: list[Node], shape: int, number: int, shared: list[Node] = shared) -> list[Node]:
            choices = np.random.default_rng(shape)  # so that some have the same operations
            pool = [a[0], a[2], literal(FLOAT32, 2.5 + number), literal(FLOAT32, 0.5 + number)]
            pool += [node for node in shared if node.size != 9]
            for _ in range(4):
                one, other = (pool[choices.integers(len(pool))] for _ in range(2))
                if choices.random() < 0.3:
                    pool.append(gather(shared[(number + choices.integers(4)) % 4], a[1], TRUE))
                elif choices.random() < 0.5:
                    pool.append(ops.mul(one, other))
                else:
                    pool.append(ops.select(ops.lt(one, other), one, other))
            return [pool[-1], pool[choices.integers(len(pool))]]

        shapes = rng.integers(0, 5, 20)
        targets = [lambda a, s=int(s), n=n, f=target: f(a, s, n) for n, s in enumerate(shapes)]
        found += alike(kernel_of(targets, four(), memory(UINT32, 100)))
    assert found > 300


def test_tables_and_records_mean_the_same_wherever_they_lie() -> None:
    """Calls within calls, and what a target's target gets from the kernel."""
    single, index = memory(FLOAT32, 1), memory(UINT32, 100)

    def outer(k: int) -> Any:
        number = literal(FLOAT32, 1.5 + k)
        def inner(j: int) -> Any:
            return lambda b: [ops.fma(b[0], number, ops.mul(single, literal(FLOAT32, j + 2.5)))]

        return lambda a: call(a[1], TRUE, [inner(j) for j in range(3)], [a[0]])[0]

    program = assemble(kernel_of([outer(k) for k in range(2)], [memory(FLOAT32, 100), index], index), CPU_TARGET)
    layout = layout_of(program)
    assert layout.words[:len(program.parameters)] == program.parameters and layout.parts[0] is program
    assert len(layout.parts) == len(layout.firsts) == 1 + 2 + 2 * 3
    moves, functions = dict(layout.moves), {word: number for word, number, shared in layout.functions if not shared}

    def check(part: Any, first: int) -> int:
        count = 1
        for site in part.calls.values():
            table = moves[first + site.slot]
            assert layout.words[first + site.slot + 1] == len(site.targets)
            for number, target in enumerate(site.targets):
                entry = table + ENTRY_WORDS * number
                record = moves[entry + 1]
                assert list(program.functions)[functions[entry]] == target.key
                assert layout.firsts[layout.parts.index(target)] == record
                assert layout.words[record:record + len(target.parameters)] == target.parameters
                assert {(record + inner, first + source) for inner, source in target.links} <= set(layout.links)
                count += check(target, record)
        return count

    assert check(program, 0) == len(layout.parts)
    assert all(source < word for word, source in layout.links)  # those of calls within calls come after their source
