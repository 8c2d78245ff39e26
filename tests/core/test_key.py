"""The key of a kernel is injective: programs that are nearly the same differ in it, and only those."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from drjit_core import (
    BAKED,
    SHAPE,
    TYPES,
    Node,
    ReduceMode,
    ReduceOp,
    bitcast,
    call,
    cast,
    cond,
    counter,
    gather,
    literal,
    opaque,
    ops,
    products,
    reduce,
    scatter,
    sin,
    undefined,
    while_loop,
)
from drjit_core.codegen.linearize import linearize
from drjit_core.codegen.program import Program, assemble
from drjit_core.codegen.target import ATOMIC, PLAIN, PRIVATE
from drjit_core.llvm import emit
from drjit_core.passes.schedule import plan
from drjit_core.runtime.cpu.target import CPU_TARGET
from tests.core.harness import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    TRUE,
    UINT8,
    UINT32,
    UINT64,
    array,
    key_of,
    number,
    program_of,
    shared,
)

_keep: list[Any] = []


def floats(size: int = 40) -> Node:
    return array(np.arange(size), FLOAT32)


def integers(size: int = 40, type_: int = UINT32) -> Node:
    return array(np.arange(size), type_)


def foreign(size: int = 40) -> Node:
    data = np.zeros(size, np.float32)
    _keep.append(data)
    return shared(data)


def written(op: ReduceOp = ReduceOp.Identity, mode: int = 0, **changes: Any) -> Node:
    """A scatter, with some of its operands changed."""
    parts = {"target": integers(), "value": integers(30), "index": integers(30), "mask": TRUE} | changes
    return scatter(parts["target"], parts["value"], parts["index"], parts["mask"], op.value, mode)


def looped(order: tuple[int, int] = (0, 1), swap: bool = False, step: int = 1, size: int = 40) -> Node:
    """A loop over two variables of one type."""
    i, x = literal(UINT32, 0), integers(size)
    initial = [i, x] if order == (0, 1) else [x, i]

    def body(state: list[Node]) -> list[Node]:
        a, b = state[order[0]], state[order[1]]
        after = [ops.add(a, literal(UINT32, step, 1, BAKED)), ops.add(b, b)]
        if swap:
            after = [ops.add(a, literal(UINT32, step, 1, BAKED)), ops.mul(b, b)]
        return [after[order[0]], after[order[1]]]

    return while_loop(initial, lambda s: ops.lt(s[order[0]], literal(UINT32, 10)), body)[order[1]]


def of_one(build: Callable[..., Node], *variants: Any) -> list[list[Node]]:
    return [[build(*variant) if isinstance(variant, tuple) else build(variant)] for variant in variants]


def _on(build: Callable[[Node], Any], make: Callable[[], Node] = floats) -> list[Node]:
    result = build(make())
    return result if isinstance(result, list) else [result]


#: By what is different: programs of which no two may share a kernel.
DIFFERENT: dict[str, Callable[[], list[list[Node]]]] = {
    "operation": lambda: [_on(lambda x: ops.add(x, x)), _on(lambda x: ops.mul(x, x)), _on(lambda x: ops.sub(x, x))],
    "class of a literal": lambda: of_one(lambda c: ops.mul(floats(), literal(FLOAT32, 3, 1, c)), BAKED, None),
    "baked value": lambda: of_one(lambda v: ops.maximum(floats(), literal(FLOAT32, v, 1, BAKED)), 0.0, -0.0, 1.0, -1.0,
                                  2.0, math.inf, -math.inf, math.nan),
    "zero or one": lambda: of_one(lambda v: ops.sub(literal(UINT32, v), integers()), 1, 5),
    "operand order": lambda: [[ops.sub(floats(), foreign())], [ops.sub(foreign(), floats())]],
    "which input is first": lambda: [_on(lambda x: ops.sub(ops.mul(x, x), floats())),
                                     _on(lambda x: ops.sub(floats(), ops.mul(x, x)))],
    "one input or two": lambda: [_on(lambda x: ops.mul(x, x)), _on(lambda x: ops.mul(x, floats()))],
    "type of operands": lambda: [_on(lambda x: ops.add(x, x), lambda t=t: integers(40, t))  # type: ignore[misc]
                                 for t in (UINT8, INT32, UINT32, UINT64, FLOAT32, FLOAT64)],
    "target of a cast": lambda: of_one(lambda t: cast(integers(), t), UINT64, INT32, FLOAT32, FLOAT64, BOOL, UINT8),
    "source of a cast": lambda: of_one(lambda t: cast(integers(40, t), FLOAT32), UINT64, INT32, UINT32, FLOAT64, UINT8),
    "cast or reinterpretation": lambda: of_one(lambda f: f(integers(), FLOAT32), cast, bitcast),
    "one element or a packet": lambda: of_one(lambda n: ops.mul(floats(), floats(n)), 40, 1),
    "width one": lambda: of_one(lambda n: ops.neg(floats(n)), 40, 1),
    "foreign memory": lambda: of_one(lambda f: ops.neg(f()), floats, foreign),
    "another output": lambda: [_on(lambda x: ops.neg(x)), _on(lambda x: [ops.neg(x), ops.abs(x)])],
    "output of an intermediate": lambda: [_on(lambda x: ops.abs(ops.sqrt(x))),
                                          _on(lambda x: [ops.sqrt(x), ops.abs(ops.sqrt(x))])],
    "two outputs of one program": lambda: [_on(lambda x: [ops.sqrt(x), ops.abs(ops.sqrt(x))]),
                                           _on(lambda x: [ops.abs(x), ops.abs(ops.sqrt(x))])],
    "reduction or store": lambda: [_on(lambda x: ops.sqrt(x)), _on(lambda x: reduce(ops.sqrt(x), 1))],
    "reduction": lambda: of_one(lambda op: reduce(integers(), op.value), *list(ReduceOp)[1:]),
    "two reductions": lambda: [_on(lambda x: [reduce(x, 1), reduce(x, 3)]), _on(lambda x: [reduce(x, 3), reduce(x, 1)]),
                               _on(lambda x: [reduce(x, 1)])],
    "type of a reduction": lambda: of_one(lambda t: reduce(integers(40, t), 1), UINT32, INT32, FLOAT32, UINT64),
    "scatter": lambda: of_one(written, *ReduceOp),
    "mask of a scatter": lambda: of_one(lambda m: written(mask=m), TRUE, array(np.ones(30, bool)), number(BOOL, True)),
    "index of a scatter": lambda: of_one(lambda t: written(index=integers(30, t)), UINT32, INT32, UINT64),
    "value of a scatter": lambda: of_one(lambda n: written(value=integers(n)), 30, 1),
    "width of a scatter": lambda: [[written()], [written(value=integers(1), index=integers(1))]],
    "gather": lambda: [[gather(floats(), integers(), TRUE)], [gather(floats(), integers(), array(np.ones(40, bool)))],
                       [gather(floats(), integers(40, INT32), TRUE)], [gather(floats(), literal(UINT32, 3, 40), TRUE)]],
    "source of gathers": lambda: [
        _on(lambda x: ops.add(gather(x, integers(), TRUE), gather(x, literal(UINT32, 3), TRUE))),
        _on(lambda x: ops.add(gather(x, integers(), TRUE), gather(floats(), literal(UINT32, 3), TRUE)))],
    "type of a mask's use": lambda: [[ops.select(array(np.ones(40, bool)), floats(), floats())],
                                     [ops.select(ops.neq(integers(), literal(UINT32, 0)), floats(), floats())]],
    "loop": lambda: [[looped()], [looped(order=(1, 0))], [looped(swap=True)], [looped(step=2)], [looped(size=1)]],
    "result of a loop": lambda: [while_loop([literal(UINT32, 0), integers(), integers()],
                                            lambda s: ops.lt(s[0], literal(UINT32, 9)),
                                            lambda s: [ops.add(s[0], literal(UINT32, 1)), ops.add(s[1], s[2]),
                                                       ops.add(s[2], s[1])])[k:k + 1] for k in (0, 1, 2)],
    "where a condition ends": lambda: [
        [while_loop([literal(UINT32, 0), integers()], lambda s, f=f: ops.lt(f(s[0]), literal(UINT32, 9)),  # type: ignore[misc]
                    lambda s, g=g: [ops.add(g(s[0]), literal(UINT32, 1)), ops.add(s[1], s[1])])[1]]
        for f, g in ((ops.popcnt, lambda x: x), (lambda x: x, ops.popcnt), (ops.popcnt, ops.popcnt))],
}


#: Different programs of one text: the number of texts, and why they do not differ.
SAME_TEXT = {
    "type of operands": 5,  # sums of signed and unsigned words are the same instruction
    "type of a reduction": 3,
    "index of a scatter": 2,  # so are accesses by indices below 2^31
    "gather": 3,
}


def test_how_a_scatter_copes_with_conflicts_is_part_of_the_key() -> None:
    programs = []
    for mode in (ReduceMode.Auto, ReduceMode.Direct, ReduceMode.NoConflicts):
        root = written(ReduceOp.Add, mode.value, value=integers(100_000), index=integers(100_000))
        (kernel,) = plan([root], CPU_TARGET)
        programs.append(assemble(kernel, CPU_TARGET._replace(threads=2, tables=1000)))
    assert [list(program.strategies.values()) for program in programs] == [[PRIVATE], [ATOMIC], [PLAIN]]
    assert len({program.key for program in programs}) == 3
    assert len({emit.emit(program, 16) for program in programs}) == 3


@pytest.mark.parametrize("name", DIFFERENT)
def test_programs_that_are_nearly_the_same_have_different_keys(name: str) -> None:
    programs = DIFFERENT[name]()
    keys = [key_of(*roots) for roots in programs]
    assert len(set(keys)) == len(keys)
    texts = [emit.emit(program_of(*roots), 16) for roots in DIFFERENT[name]()]
    assert len(set(texts)) == SAME_TEXT.get(name, len(texts)), "the programs are the same after all"


#: By what is different: programs that must share a kernel.
EQUAL: dict[str, Callable[[], list[list[Node]]]] = {
    "value of a literal": lambda: of_one(
        lambda v: ops.mul(floats(), literal(FLOAT32, v)), 3.0, 0.1, -7.0, math.inf, math.nan),
    "value of a shape": lambda: of_one(lambda v: ops.add(integers(), literal(UINT32, v, 1, SHAPE)), 0, 1, 2, 100),
    "size": lambda: of_one(lambda n: ops.neg(floats(n)), 2, 3, 16, 17, 1000, 100_000),
    "size of a counter": lambda: of_one(lambda n: ops.mul(counter(n), literal(UINT32, 3)), 2, 77, 1_000_000),
    "size of a reduction": lambda: of_one(lambda n: reduce(floats(n), 1), 2, 77, 100_000),
    "size of what is read by index": lambda: of_one(lambda n: gather(floats(n), integers(20), TRUE), 20, 200, 1),
    "size of a target": lambda: of_one(lambda n: written(target=integers(n)), 30, 300),
    "size of a loop": lambda: of_one(lambda n: looped(size=n), 2, 77),
    "memory that is read by index and directly": lambda: [  # both are parameters, which may hold the same address
        _on(lambda x: ops.add(gather(x, counter(40), TRUE), x)),
        _on(lambda x: ops.add(gather(x, counter(40), TRUE), floats()))],
    "the same twice": lambda: [_on(lambda x: [ops.sqrt(x), reduce(ops.sqrt(x), 1)]) for _ in range(2)],
    "the order in which outputs are asked for": lambda: [
        _on(lambda x: [ops.sqrt(x), ops.abs(x)]), _on(lambda x: [ops.sqrt(x), ops.abs(x)][::-1])],
}


@pytest.mark.parametrize("name", EQUAL)
def test_programs_that_differ_in_values_and_sizes_share_a_kernel(name: str) -> None:
    programs = [program_of(*roots) for roots in EQUAL[name]()]
    assert len({program.key for program in programs}) == 1
    assert len({emit.emit(program, 16) for program in programs}) == 1


def test_a_value_that_a_branch_or_call_is_given_twice_makes_the_program_of_one() -> None:
    x, index = array(np.linspace(0, 1, 100, dtype=np.float32)), array(np.arange(100, dtype=np.uint32) % 2)
    mask = ops.gt(x, literal(FLOAT32, 0.5))
    once, twice = [(lambda v: [ops.mul(sin(v[0]), v[0])]), (lambda v: [ops.add(v[0], v[0])])], \
        [(lambda v: [ops.mul(sin(v[1]), v[0])]), (lambda v: [ops.add(v[0], v[1])])]
    assert key_of(*cond(mask, [x], *once)[0]) == key_of(*cond(mask, [x, x], *twice)[0])
    assert key_of(*call(index, TRUE, once, [x])[0]) == key_of(*call(index, TRUE, twice, [x, x])[0])


def test_indices_of_64_bits_are_part_of_the_key() -> None:
    """Positions beyond 2^31 need other instructions; planning and emission need no memory."""
    small, large = (program_of(ops.add(counter(n, UINT64), literal(UINT64, 5))) for n in (40, 1 << 33))
    assert small.key != large.key
    assert emit.emit(small, 16) != emit.emit(large, 16)


def test_what_is_written_past_the_cache_is_part_of_the_key() -> None:
    """Only what is: kernels of sizes around the least one that may be are one otherwise."""
    small, middle, large = (program_of(ops.add(counter(n), literal(UINT32, 5)))
                            for n in (CPU_TARGET.streaming_width, CPU_TARGET.streaming_width + 64, 1 << 30))
    assert not small.streaming and not middle.streaming and large.streaming
    assert small.key == middle.key != large.key
    assert emit.emit(small, 16) == emit.emit(middle, 16) != emit.emit(large, 16)


@pytest.mark.parametrize("type_", [UINT8, FLOAT32, FLOAT64])
@pytest.mark.parametrize("streams", [1, 3, 40])
def test_what_comes_from_memory_is_asked_for_ahead(type_: int, streams: int) -> None:
    def prefetches(size: int) -> tuple[int, int]:
        """How many there are, and bytes of a packet."""
        program = program_of(functools.reduce(ops.add, [opaque(undefined(type_, size)) for _ in range(streams)]))
        packets = emit.packets_per_iteration(linearize(program), 16)
        return emit.emit(program, 16).count("call void @llvm.prefetch"), 16 * packets * TYPES[type_].size

    count, nbytes = prefetches(1 << 24)
    assert count == streams * -(-nbytes // 64)
    assert prefetches(1000)[0] == 0


@pytest.mark.parametrize(("write", "operations", "asked"), [(True, 10, True), (True, 40, False), (False, 2, True),
                                                            (False, 10, False)])
def test_elements_of_large_arrays_are_asked_for_ahead(write: bool, operations: int, asked: bool) -> None:
    """At indices that are computed, if that does not take too long: reads of later packets begin by themselves."""
    index = opaque(undefined(UINT32, 1 << 18))
    for number_ in range(operations):
        index = (ops.mul, ops.add)[number_ % 2](index, literal(UINT32, 2 * number_ + 3))
    memory = array(np.zeros(1 << 22, np.float32))
    root = scatter(memory, literal(FLOAT32, 1), index, TRUE, ReduceOp.Add.value, ReduceMode.Local.value) if write \
        else gather(memory, index, TRUE)
    *_, kernel = plan([root], CPU_TARGET)  # written memory is copied before
    lines = emit.emit(assemble(kernel, CPU_TARGET), 16).splitlines()
    places = {line.split()[0] for line in lines if "extractelement <" in line and "x ptr>" in line}
    found = [line for line in lines if "@llvm.prefetch" in line and line.split("ptr ")[1].split(",")[0] in places]
    assert bool(found) == asked
    assert all(f"i32 {int(write)}, i32 3" in line for line in found)


def test_long_programs_of_products_have_two_registers_a_packet() -> None:
    """So that elements of matrices are read once for both; where processors have registers for the sums."""

    def packets(multiply: bool, lanes: int = 16) -> int:
        values = [opaque(undefined(FLOAT32, 1 << 20)) for _ in range(80)]
        found = products(opaque(undefined(FLOAT32, 80 * 80)), values, 80, 0, 80, 1) if multiply else \
            [ops.mul(value, other) for value, other in itertools.pairwise([*values, values[0]])]
        return emit.packets_per_iteration(linearize(program_of(functools.reduce(ops.add, found))), lanes)

    assert packets(True) == 2
    assert packets(True, 8) == packets(False) == 1


def test_long_chains_of_operations_are_interleaved() -> None:
    """Also where values are spilled for it; what has enough to do beside each other is not."""

    def packets(length: int, kept: int, chains: int, lanes: int = 16) -> int:
        """For chains of operations that use their first results once more at their end."""
        x = opaque(undefined(FLOAT32, 1 << 20))
        ends = []
        for chain in range(chains):
            values = [ops.add(x, literal(FLOAT32, chain + 2.5))]
            for k in range(length):
                values.append(ops.add(ops.mul(values[-1], x), literal(FLOAT32, chain + k + 2.75)))
            ends.append(functools.reduce(ops.mul, values[:kept], values[-1]))
        return emit.packets_per_iteration(linearize(program_of(functools.reduce(ops.add, ends))), lanes)

    assert packets(15, 12, 1) == 4
    assert packets(15, 12, 1, 8) == 1
    assert packets(25, 20, 1) == 2
    assert packets(12, 12, 3) == 1


# --- random programs -------------------------------------------------------------------------------------------------


_BINARY = [ops.add, ops.sub, ops.mul, ops.minimum, ops.and_, ops.shl]


def random_program(seed: int, scale: int) -> list[Node]:
    """A small program; equal seeds give the same program, ``scale`` its size and the values of its literals."""
    rng = np.random.default_rng(seed)
    pool = [array(np.arange(scale), UINT32) for _ in range(rng.integers(1, 3))]
    if rng.random() < 0.3:
        pool.append(array([scale], UINT32))
    if rng.random() < 0.3:
        pool.append(counter(scale))
    if rng.random() < 0.5:
        pool.append(literal(UINT32, scale * 3 + 4))
    if rng.random() < 0.3:
        pool.append(literal(UINT32, int(rng.integers(3)), 1, int(rng.integers(1, 3))))
    for _ in range(rng.integers(1, 4)):
        a, b = (pool[rng.integers(len(pool))] for _ in range(2))
        choice = rng.integers(8)
        if choice < 5:
            node = _BINARY[rng.integers(len(_BINARY))](a, b)
        elif choice == 5:
            node = ops.select(ops.lt(a, b), a, b)
        elif choice == 6:
            node = gather(pool[0], a, TRUE)
        else:
            node = cast(cast(a, [FLOAT32, UINT8, UINT64][rng.integers(3)]), UINT32)
        pool.append(node)
    root = pool[-1]
    if root.size == 1:
        root = ops.add(root, pool[0])
    roots = [root]
    if rng.random() < 0.3:
        roots.append(reduce(root, int(rng.integers(1, 5))))
    if rng.random() < 0.2:
        roots.append(ops.inv(pool[0]))
    return [node for node in roots if node.kind > 4]


def _programs(seed: int, scale: int) -> list[Program]:
    kernels = plan(random_program(seed, scale), CPU_TARGET)
    return [assemble(kernel, CPU_TARGET) for kernel in kernels if kernel.stage == 0]


def _check_injectivity(seeds: range) -> tuple[int, int]:
    text_of: dict[Any, str] = {}
    key_of_text: dict[str, Any] = {}
    for seed in seeds:
        for program in _programs(seed, 40):
            text = emit.emit(program, 16)
            assert text_of.setdefault(program.key, text) == text, f"seed {seed}: one key, two texts"
            assert key_of_text.setdefault(text, program.key) == program.key, f"seed {seed}: one text, two keys"
    return len(text_of), len(seeds)


def test_random_programs_have_equal_keys_exactly_if_they_have_equal_texts() -> None:
    distinct, programs = _check_injectivity(range(1500))
    assert 200 < distinct < programs  # many differ, and some are met again


@pytest.mark.exhaustive
def test_many_random_programs_have_equal_keys_exactly_if_they_have_equal_texts() -> None:
    distinct, programs = _check_injectivity(range(1500, 40_000))
    assert distinct < programs


def test_random_programs_keep_their_keys_when_sizes_and_values_change() -> None:
    for seed in range(300):
        first, second = _programs(seed, 40), _programs(seed, 1000)
        assert [program.key for program in first] == [program.key for program in second], f"seed {seed}"


def test_a_kernel_runs_with_the_parameters_of_any_program_of_its_key() -> None:
    """The number and kinds of parameters follow from the key."""
    shapes: dict[Any, tuple[int, int, int]] = {}
    for seed in range(500):
        for program in _programs(seed, 40):
            shape = len(program.parameters), len(program.inputs), len(program.stores)
            assert shapes.setdefault(program.key, shape) == shape
