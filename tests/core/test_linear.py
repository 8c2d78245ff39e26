"""The linear program: what is uniform and what varies, last uses, blocks; and that the emitter prints just that."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import drjit_core as core
from drjit_core import KIND, Node, ReduceMode, ReduceOp, bitcast, cast, counter, gather, interpret, literal, ops, reduce
from drjit_core.codegen.linear import Block, Function, Instruction, Linear
from drjit_core.codegen.linearize import linearize
from drjit_core.codegen.program import Program
from drjit_core.ir.build import undefined
from drjit_core.ir.trace import opaque, scatter
from drjit_core.llvm import emit
from drjit_core.llvm.function import FunctionEmitter
from drjit_core.ops.table import CALL, COND, LITERAL, LOOP, SCATTER
from drjit_core.runtime.cpu.target import CPU_TARGET
from tests.core import regions
from tests.core.harness import (
    BOOL,
    FLOAT32,
    FLOAT64,
    UINT32,
    UINT64,
    array,
    assert_same_bits,
    evaluate_all,
    program_of,
    shared,
)

WIDE = 40
TRUE = literal(BOOL, True)


def wide(type_: int = FLOAT32) -> Node:
    return array(np.arange(WIDE) % 7, type_)


def one(type_: int = FLOAT32) -> Node:
    return array([3], type_)


def number(value: float, type_: int = FLOAT32) -> Node:
    return literal(type_, value)


def linear_of(*roots: Node) -> Linear:
    return linearize(program_of(*roots))


def kinds(block: Block) -> list[str]:
    return [core.OPS[instruction.kind].name for instruction in block.instructions]


# --- uniform or varying ----------------------------------------------------------------------------------------------

#: By name, something of which the operands are uniform (or not), from a function that makes those.
ROWS: dict[str, Callable[[Callable[..., Node]], Node]] = {
    "a row of one operand": lambda make: ops.neg(make()),
    "a row of two operands": lambda make: ops.add(make(), number(2.5)),
    "a row of three operands": lambda make: ops.fma(number(2.5), number(1.5), make()),
    "a selection": lambda make: ops.select(ops.lt(make(), number(1.5)), number(2.5), number(3.5)),
    "a cast": lambda make: cast(make(), FLOAT64),
    "a reinterpretation": lambda make: bitcast(make(), UINT32),
    "a gather": lambda make: gather(wide(), cast(make(), UINT32), TRUE),
    "a masked gather": lambda make: gather(wide(), number(1, UINT32), ops.lt(make(), number(1.5))),
    "an expansion": lambda make: core.sin(make()),
    "a chain": lambda make: ops.sqrt(ops.mul(core.exp(make()), ops.add(make(), number(9.5)))),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("make, uniform", [(one, True), (wide, False)], ids=["one element", "many"])
def test_what_is_computed_of_uniform_values_is_uniform_and_runs_once(name: str, make: Callable[..., Node],
                                                                     uniform: bool) -> None:
    node = ROWS[name](make)
    target = node if node.size > 1 else ops.add(cast(node, FLOAT32), wide())
    function = linear_of(target).kernel
    found = [i for i in function if i.node is node or i.kind >= KIND["add"] and i.node is not target
             and not all(operand.kind == LITERAL for operand in i.operands)]
    assert found and {i.uniform for i in found} == {uniform}
    assert all(i in (function.once if uniform else function.each).instructions for i in found)


@pytest.mark.parametrize("name, make, uniform", [
    ("literal", lambda: number(2.5), True), ("baked literal", lambda: number(1.0), True),
    ("one element", one, True), ("many elements", wide, False), ("foreign memory",
     lambda: shared(np.arange(WIDE, dtype=np.float32)), False),
    ("counter", lambda: cast(counter(WIDE), FLOAT32), False), ("undefined", lambda: undefined(FLOAT32, WIDE), True)])
def test_leaves(name: str, make: Callable[[], Node], uniform: bool) -> None:
    leaf = make()
    function = linear_of(ops.add(ops.add(leaf, wide()), wide())).kernel
    (found,) = [i for i in function if i.node is leaf]
    assert found.uniform == uniform and found in (function.once if uniform else function.each).instructions
    assert function.needs_mask == (name == "foreign memory")


@pytest.mark.parametrize("name", ROWS)
def test_in_a_kernel_of_width_one_all_is_uniform(name: str) -> None:
    function = linear_of(ROWS[name](one)).kernel
    assert not function.vectorized and not function.each.instructions
    assert all(instruction.uniform for instruction in function)
    assert function.order == function.once.instructions


def counting(start: Node, limit: Node, step: Callable[[list[Node]], list[Node]], *state: Node) -> list[Node]:
    return core.while_loop([start, *state], lambda s: ops.lt(s[0], limit),
                           lambda s: [ops.add(s[0], number(1, UINT32)), *step(s[1:])])


def in_a_target(function: Callable[[list[Node]], Node]) -> Linear:
    """A call whose first target is a function."""
    index = array(np.arange(WIDE) % 2, UINT32)
    results, _ = core.call(index, TRUE, [lambda a: [function(a)], lambda a: [ops.neg(a[0])]], [wide()])
    return linear_of(*results)


def test_loops_vary_with_what_they_begin_with_and_capture() -> None:
    def loop_of(linear: Linear) -> Instruction:
        (found,) = [i for function in (linear.kernel, *linear.targets) for i in function if i.kind == LOOP]
        return found

    def twice(s: list[Node]) -> list[Node]:
        return [ops.mul(s[0], number(1.5))]

    # of a width, in a kernel
    loop = loop_of(linear_of(counting(number(0, UINT32), number(5, UINT32), twice, wide())[1]))
    assert not loop.uniform and [f.uniform for f in loop.blocks[0].formals] == [True, False]  # all count alike
    # in a target, of one element: what it begins with decides
    for start, uniform in ((lambda a: number(1.25), True), (lambda a: a[0], False)):
        loop = loop_of(in_a_target(lambda a, start=start: ops.add(  # type: ignore[misc]
            a[0], counting(number(0, UINT32), number(5, UINT32), twice, start(a))[1])))
        assert loop.uniform == uniform == loop.once
        assert all(block.once == uniform and block.is_region for block in loop.blocks)
        inside = [i for block in loop.blocks for i in (*block.formals, block.mask, *block.instructions)]
        assert all(i is not None and (i.uniform == uniform or i.kind == LITERAL) for i in inside
                   if i is None or i.type not in (UINT32, BOOL) or i is loop.blocks[1].mask)


@pytest.mark.parametrize(("step", "uniform"), [
    (lambda a, b, x: [ops.mul(a, number(1.5)), ops.add(b, a)], [True, True]),
    (lambda a, b, x: [b, a], [True, True]),
    (lambda a, b, x: [ops.mul(a, number(1.5)), x], [True, False]),
    (lambda a, b, x: [b, x], [False, False]),
], ids=["computed", "exchanged", "what varies becomes state", "by way of other state"])
def test_state_that_is_the_same_in_all_elements_that_go_on(
        step: Callable[[Node, Node, Node], list[Node]], uniform: list[bool]) -> None:
    """What is asked for when the loop has ended varies, since elements end at different times."""
    limit = wide(UINT32)
    found = core.while_loop(
        [number(0, UINT32), number(1.25), number(2.5), wide()], lambda s: ops.lt(s[0], limit),
        lambda s: [ops.add(s[0], number(1, UINT32)), *step(*s[1:]), ops.add(s[3], ops.add(s[1], s[2]))])
    for asked, expected in (([3], [True, *uniform, False]), ([0, 3], [False, *uniform, False]),
                            ([0, 1, 2, 3], [False] * 4)):
        (loop,) = [i for i in linear_of(*(found[place] for place in asked)).kernel if i.kind == LOOP]
        assert [formal.uniform for formal in loop.blocks[0].formals] == expected
    del loop
    expected_values = interpret(found)
    for node, wanted in zip(evaluate_all(*found), expected_values, strict=True):
        assert_same_bits(node, wanted)


def branch(mask: Node, value: Node) -> Node:
    (result,), _ = core.cond(mask, [value], lambda a: [ops.mul(a[0], number(1.5))], lambda a: [ops.neg(a[0])])
    return result


@pytest.mark.parametrize("size", [1, WIDE])
def test_branches_and_calls_vary_where_there_are_packets(size: int) -> None:
    make = one if size == 1 else wide
    result = branch(ops.lt(make(), number(2.5)), make())
    function = linear_of(result).kernel
    (cond,) = [i for i in function if i.kind == COND]
    assert cond.uniform == (size == 1) == cond.once
    assert [block.mask.uniform for block in cond.blocks if block.mask] == [size == 1] * 2
    (value,), _ = core.call(array(np.zeros(size), UINT32), TRUE, [lambda a: [ops.neg(a[0])], lambda a: [a[0]]],
                            [make()])
    linear = linear_of(value)
    (call,) = [i for i in linear.kernel if i.kind == CALL]
    assert call.uniform == (size == 1)
    assert {argument.uniform for target in linear.targets for argument in target.arguments} == {size == 1}


def test_a_loop_that_chooses_by_element_varies_although_it_begins_with_one() -> None:
    """A branch in a loop of one element, in a target whose elements are packets."""
    def target(a: list[Node]) -> Node:
        state = counting(number(0, UINT32), number(10, UINT32),
                         lambda s: [branch(ops.gt(s[0], number(3.5)), s[0])], number(1.25))
        return ops.add(a[0], state[1])

    linear = in_a_target(target)
    (loop,) = [i for i in linear.targets[0] if i.kind == LOOP]
    assert not loop.uniform
    index, x = array(np.arange(WIDE) % 2, UINT32), wide()
    results, _ = core.call(index, TRUE, [lambda a: [target(a)], lambda a: [a[0]]], [x])
    expected = interpret(results)
    assert_same_bits(evaluate_all(*results)[0], expected[0])


def test_a_target_gets_the_value_of_an_expansion_from_its_caller() -> None:
    y, index = core.sin(wide()), array(np.arange(WIDE) % 2, UINT32)
    results, _ = core.call(index, TRUE, [lambda a: [ops.mul(a[0], y)], lambda a: [ops.add(a[0], y)]], [wide()])
    target = linear_of(*results).targets[0]
    (extra,) = target.extras
    assert extra.node is y and extra.access is not None and extra not in target.order
    expected = interpret(results)
    assert_same_bits(evaluate_all(*results)[0], expected[0])


# --- last uses, and what the whole needs -----------------------------------------------------------------------------


def test_last_uses_of_a_chain() -> None:
    a = wide()
    b = ops.neg(a)
    c = ops.mul(b, b)
    d = ops.add(c, a)
    function = linear_of(d, c).kernel
    by_node = {i.node.id: i for i in function}
    first, second, third, last = (by_node[node.id] for node in (a, b, c, d))
    assert (first.last_use, second.last_use, third.last_use, last.last_use) == \
        (last.number, third.number, last.number, last.number)
    assert function.most_live == 3 and function.largest == 4
    assert linear_of(ops.add(wide(FLOAT64), wide(FLOAT64))).kernel.largest == 8


def test_what_is_reduced_or_scattered_lives_to_the_end() -> None:
    a = wide()
    total, rest = reduce(ops.neg(a), ReduceOp.Add.value), ops.mul(a, ops.add(a, number(2.5)))
    function = linear_of(total, rest).kernel
    (output,) = function.reductions
    assert output.value.last_use == len(function.instructions)
    assert function.needs_mask and len(function.stores) == 1 and not function.scatters
    written = scatter(opaque(wide()), rest, counter(WIDE), TRUE, ReduceOp.Add.value, ReduceMode.Auto.value)
    core.evaluate([written.d0])  # type: ignore[list-item]
    function = linear_of(written).kernel
    (found,) = function.scatters
    assert found.kind == SCATTER and {o.last_use for o in found.operands} >= {len(function.instructions)}


def test_what_a_loop_captures_lives_until_it_ends() -> None:
    bound, factor = wide(UINT32), ops.sqrt(wide())
    state = counting(number(0, UINT32), bound, lambda s: [ops.mul(s[0], factor)], wide())
    function = linear_of(ops.add(state[1], number(2.5))).kernel
    by_node = {i.node.id: i for i in function}
    (loop,) = [i for i in function if i.kind == LOOP]
    condition, body = loop.blocks
    end = max(i.number for block in loop.blocks for i in (*block.formals, *block.instructions))
    assert by_node[bound.id].last_use == by_node[factor.id].last_use == end
    assert kinds(condition) == ["lt"] and sorted(kinds(body)) == ["add", "mul"]
    assert [i.kind for i in condition.results] == [KIND["lt"]] and len(body.results) == 2
    assert all(result.last_use == end for result in body.results)
    # what is only handed on is used by what comes after
    assert max(formal.last_use for formal in condition.formals) > end


def test_literals_are_counted() -> None:
    total = wide()
    for k in range(5):
        total = ops.add(total, number(k + 0.5))
    assert linear_of(ops.mul(total, number(1.0))).kernel.literals == 5


# --- blocks of nested regions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, WIDE])
def test_blocks_of_regions_within_regions(size: int) -> None:
    x = one() if size == 1 else wide()

    def body(s: list[Node]) -> list[Node]:
        inner = counting(number(0, UINT32), number(3, UINT32),
                         lambda t: [branch(ops.lt(t[0], number(9.5)), ops.sqrt(t[0]))], ops.add(s[0], number(0.5)))
        return [core.exp(inner[1])]

    function = linear_of(counting(number(0, UINT32), number(4, UINT32), body, x)[1]).kernel
    where: dict[str, list[str]] = {}

    def visit(instructions: list[Instruction], *enclosing: str) -> None:
        for instruction in instructions:
            name = core.OPS[instruction.kind].name
            where[name] = list(enclosing)
            for block in instruction.blocks:
                visit(block.instructions, name, *enclosing)

    visit(function.order)
    where = {name: where[name] for name in ("sqrt", "cond", "neg")}
    assert where == {"sqrt": ["loop", "loop"], "cond": ["loop", "loop"], "neg": ["cond", "loop", "loop"]}
    assert sum(i.kind == LOOP for i in function) == 2 and sum(i.kind == LOOP for i in function.order) == 1
    check(function)


def check(function: Function) -> None:
    """State what holds of every function."""
    seen: set[Instruction] = set()
    #: What is there before an instruction, and the blocks that are open: values of others are gone.
    place: dict[Instruction, Block] = {}
    #: A loop hands on its state, which is known in its second block and afterwards.
    states: set[Instruction] = set()

    def define(value: Instruction, block: Block) -> None:
        assert value not in seen, f"{value} is there twice"
        assert value.once == block.once
        seen.add(value)
        place[value] = block

    def use(user: Instruction | None, operand: Instruction, enclosing: tuple[Block, ...]) -> None:
        assert operand in seen, f"{user} uses {operand} before it is there"
        assert user is None or user.number <= operand.last_use, f"{user} uses {operand} after its last use"
        assert place[operand] in enclosing or operand in states, f"{user} uses {operand} of another region"
        assert operand.once or not enclosing[-1].once, f"{user} runs once, {operand} does not"

    def visit(instruction: Instruction, enclosing: tuple[Block, ...]) -> None:
        for operand in instruction.operands:
            use(instruction, operand, enclosing)
        numbers = [instruction.number]
        for i, inner in enumerate(instruction.blocks):
            assert inner.is_region and inner.once == instruction.once
            for formal in (*inner.formals, *([inner.mask] if inner.mask is not None else [])):
                define(formal, inner)
            if instruction.kind == LOOP and i == 0:
                states.update((*inner.formals, *inner.instructions))  # the body continues where the condition ends
            for nested in inner.instructions:
                visit(nested, (*enclosing, inner))
                numbers.append(nested.number)
            for result in inner.results:
                use(None, result, (*enclosing, inner))
        assert numbers == sorted(numbers)
        for value in (instruction, *instruction.results):
            define(value, enclosing[-1])

    outside = (function.once, function.each)
    for formal in (*function.arguments, *function.extras, *([function.live] if function.live is not None else [])):
        define(formal, function.each if function.vectorized else function.once)
    for instruction in function.order:
        assert instruction.once or function.vectorized
        block = function.once if instruction.once else function.each
        assert instruction in block.instructions
        visit(instruction, (function.once,) if instruction.once else outside)
    assert seen == set(function), "what the function has is not what its blocks list"
    for value in (*function.results, *(store.value for store in function.stores),
                  *(output.value for output in function.reductions),
                  *(operand for output in function.scatters for operand in output.operands)):
        use(None, value, outside)


@pytest.mark.parametrize("calls", [False, True], ids=["loop", "loop and call"])
def test_a_linear_program_has_no_cycles_and_takes_its_nodes_along(calls: bool) -> None:
    """Planning asks who else holds a node: what only the garbage collector releases would cost a copy."""
    root = counting(number(0, UINT32), wide(UINT32), lambda s: [branch(ops.lt(s[0], number(2.5)), core.sin(s[0]))],
                    wide())[1]
    if calls:
        (root,), _ = core.call(wide(UINT32), TRUE, [lambda a: [ops.neg(a[0])], lambda a: [core.log(a[0])]], [root])
    program = program_of(root)
    gc.collect()
    gc.disable()
    try:
        linear = linearize(program)
        nodes = [weakref.ref(instruction.node) for instruction in linear.kernel if instruction.kind != LITERAL]
        functions = [weakref.ref(function) for function in (linear.kernel, *linear.targets)]
        emit.ModuleEmitter(linear, 8).text()
        del linear
        assert not any(function() for function in functions)
        if not calls:  # where the programs of targets know that of their caller
            del program, root
            assert not any(node() for node in nodes)
    finally:
        gc.enable()


def random_kernels(seeds: range) -> Iterator[Program]:
    """Kernels of random programs with regions and memory nested in each other."""
    for seed in seeds:
        yield from regions.kernels_of(regions.trace(regions.generate(seed)))


def test_blocks_and_last_uses_of_random_programs() -> None:
    seen = 0
    for program in random_kernels(range(150)):
        linear = linearize(program)
        for function in (linear.kernel, *linear.targets, *linear.expansions.values()):
            check(function)
            seen += sum(bool(i.blocks) for i in function)
    assert seen > 200


# --- what is printed -------------------------------------------------------------------------------------------------


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[FunctionEmitter, str]]:
    """The emitters of functions that have been printed, and their texts."""
    found: list[tuple[FunctionEmitter, str]] = []
    text = FunctionEmitter.text

    def noting(self: FunctionEmitter, *arguments: Any, **keywords: Any) -> str:
        result = text(self, *arguments, **keywords)
        found.append((self, result))
        return result

    monkeypatch.setattr(FunctionEmitter, "text", noting)
    return found


def defined(text: str) -> list[str]:
    """The names that a text defines."""
    return re.findall(r"^(%\S+) =", text, re.MULTILINE)


def compare(emitter: FunctionEmitter, text: str) -> None:
    """What a function's text defines is what the linear program says: all of it, in packets or not, once or often."""
    function = emitter.function
    assert emitter.names.keys() == function.instructions.keys()
    once, often = (defined("\n".join(line for writer in writers for line in writer.lines))
                   for writers in ((emitter.prologue, emitter.entry), (emitter.body,)))
    everywhere = defined(text)
    assert len(everywhere) == len(set(everywhere)), "a name is defined twice"
    given = {argument.number for argument in (*function.arguments, function.live) if argument is not None}
    for instruction in function:
        name = emitter.names[instruction.number]
        # literals that are held, and what a function is given, are loaded at the beginning
        if name in everywhere and instruction.kind != LITERAL and instruction.number not in given:
            place = once if instruction.once or not function.vectorized else often
            assert name in place, f"{instruction} is not where it should be"
            (line,) = re.findall(rf"^{re.escape(name)} = (.*)", text, re.MULTILINE)
            assert (f"<{emitter.lanes} x" not in line) == instruction.uniform, f"{instruction}: {line}"
    assert set(re.findall(r"^%v(\d+) =", text, re.MULTILINE)) <= {str(number) for number in function.instructions}


def test_random_programs_are_printed_as_the_linear_program_says(printed: list[tuple[FunctionEmitter, str]]) -> None:
    for program in random_kernels(range(100)):
        emit.emit(program, 8)
        for emitter, text in printed:
            compare(emitter, text)
        assert len(printed) >= 1 + len(program.functions)
        printed.clear()


@pytest.mark.parametrize("make", [one, wide], ids=["one element", "many"])
def test_expansions_are_printed_as_the_linear_program_says(make: Callable[..., Node],
                                                           printed: list[tuple[FunctionEmitter, str]]) -> None:
    rows = [row for row in core.EXPANDED if row.arity == 1]
    few = [getattr(core, row.name, core.sin)(make()) for row in rows]
    many = [core.sin(ops.add(make(), number(k + 0.5))) for k in range(CPU_TARGET.inlined + 1)]
    for roots in (few, many, [core.cos(ops.add(root, make(UINT64) and make())) for root in many]):
        emit.emit(program_of(*roots), 4)
    assert any(emitter.function.name == "sin_0" for emitter, _ in printed)
    for emitter, text in printed:
        check(emitter.function)
        compare(emitter, text)


@pytest.mark.parametrize("capture", [lambda: number(2.5), one], ids=["literal", "one element"])
def test_what_only_the_targets_of_a_call_in_a_loop_capture_is_no_part_of_the_loop(capture: Callable[[], Node]) -> None:
    captured, index = capture(), array(np.arange(WIDE) % 2, UINT32)

    def body(s: list[Node]) -> list[Node]:
        (value,), _ = core.call(index, TRUE, [lambda a: [ops.mul(a[0], captured)], lambda a: [ops.neg(a[0])]], s)
        return [value]

    state = counting(number(0, UINT32), number(4, UINT32), body, wide())
    linear = linear_of(state[1])
    check(linear.kernel)
    assert captured.id not in {instruction.node.id for instruction in linear.kernel}
    expected = interpret(state[1:])
    assert_same_bits(evaluate_all(state[1])[0], expected[0])


def test_programs_go_with_their_last_holder() -> None:
    """Planning counts who holds a node: what a collection of garbage changes would change kernels."""
    index = cast(wide(), UINT32)
    scale = opaque(number(3.0))

    def inner(v: list[Node]) -> list[Node]:
        return core.call(index, TRUE, [lambda w: [ops.mul(w[0], scale)], lambda w: [ops.neg(w[0])]], v)[0]

    (node,) = core.call(index, TRUE, [inner, lambda v: [ops.add(v[0], number(1.5))]], [wide()])[0]
    gc.disable()
    try:
        program = program_of(node)
        linear = linearize(program)
        references = [weakref.ref(program), *(weakref.ref(each) for each in program.functions.values())]
        assert len(references) > 4 and linear.targets
        del program, linear
        assert [reference() for reference in references] == [None] * len(references)
    finally:
        gc.enable()
