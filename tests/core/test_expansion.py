"""Rows with an expansion: one node when traced, and the bits of the expansion wherever they stand in a program."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit_core as core
from drjit_core import EXPANDED, KIND, OPS, JitFlag, Node, expansion, literal, ops, scoped_set_flag
from drjit_core.codegen.expand import Expanded
from drjit_core.ir.expansion import EXPANSIONS
from drjit_core.ir.verify import verify
from drjit_core.llvm import emit, jit
from drjit_core.runtime.cpu.target import CPU_TARGET
from tests.core.harness import (
    BOOL,
    FLOAT32,
    FLOAT64,
    FLOATS,
    UINT32,
    array,
    assert_same_bits,
    dtype_of,
    evaluate_all,
    launches,
    name_of,
    program_of,
    values,
)

HIDDEN = [op for op in EXPANDED if op.number is None]  # reached by a flag, or by targets
ROWS = [pytest.param(op, type_, id=f"{op.name}-{name_of(type_)}") for op in EXPANDED if op not in HIDDEN
        for type_ in FLOATS]


def arguments(type_: int, count: int = 100) -> list[np.ndarray[Any, Any]]:
    """Two arrays with ordinary and special values."""
    rng = np.random.default_rng(7)
    special = np.array([0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 2.0, 1e-30])
    with np.errstate(over="ignore"):
        a = np.concatenate([special, rng.normal(size=count) * 3]).astype(core.TYPES[type_].name)
    return [a, rng.permutation(a)]


def trace(op: core.Op, *operands: Node) -> Node:
    return getattr(core, op.name)(*operands)  # type: ignore[no-any-return]


def expanded_now(op: core.Op, *operands: Node) -> Node:
    """The operations of the expansion, as nodes of the graph."""
    return EXPANSIONS[op.kind](*operands)


def test_every_row_has_an_expansion() -> None:
    assert EXPANSIONS.keys() == {op.kind for op in EXPANDED}


@pytest.mark.parametrize("op, type_", ROWS)
def test_one_node_gives_the_bits_of_its_expansion(op: core.Op, type_: int) -> None:
    operands = [array(a) for a in arguments(type_)[:op.arity]]
    node = trace(op, *operands)
    assert node.kind == op.kind and [node.d0, node.d1][:op.arity] == operands
    assert trace(op, *operands) is node
    assert_same_bits(values(node), values(expanded_now(op, *operands)))


@pytest.mark.parametrize("op, type_", ROWS)
def test_values_of_one_element_and_literals(op: core.Op, type_: int) -> None:
    arrays = arguments(type_)[:op.arity]
    expected = values(expanded_now(op, *(array(a) for a in arrays)))
    for place in range(0, 40, 3):
        single = trace(op, *(array(a[place:place + 1]) for a in arrays))
        folded = trace(op, *(literal(type_, float(a[place])) for a in arrays))
        assert folded.kind == KIND["literal"]
        for result in (single, folded):
            assert_same_bits(values(result), expected[place:place + 1])


@pytest.mark.parametrize("name", ["power", "atan2", "hypot"])
@pytest.mark.parametrize("type_", FLOATS, ids=name_of)
def test_a_parameter_as_operand_is_part_of_no_text(name: str, type_: int) -> None:
    a, b = arguments(type_)
    function = getattr(core, name)
    with launches() as history:
        for value in (0.3, 2.5, -1.75, 1e4):
            node, same = literal(type_, value), array(np.full_like(a, value))
            assert_same_bits(values(function(array(a), node)), values(function(array(a), same)))
            assert_same_bits(values(function(node, array(b))), values(function(same, array(b))))
    assert sum(not entry["cache_hit"] for entry in history) <= 3


def test_operands_that_were_not_folded() -> None:
    with scoped_set_flag(JitFlag.ConstantPropagation, False):
        a = ops.neg(literal(FLOAT32, 0.3))
        b = core.sin(ops.add(a, literal(FLOAT32, 0.4)))
        c = core.exp(ops.abs(a))
    assert values(b)[0] == pytest.approx(np.sin(0.1), rel=1e-6)
    assert values(c)[0] == pytest.approx(np.exp(0.3), rel=1e-6)


def operations_of(*roots: Node) -> int:
    return len(Expanded(program_of(*roots)).order)


@pytest.mark.parametrize("first, second", [("sin", "cos"), ("sinh", "cosh"), ("tan", "cot"), ("asin", "acos")])
def test_expansions_share_what_they_have_in_common(first: str, second: str) -> None:
    a = array(np.linspace(-1, 1, 20, dtype=np.float32))
    one, other = getattr(core, first)(a), getattr(core, second)(a)
    assert operations_of(one, other) < 0.85 * (operations_of(one) + operations_of(other))


def test_every_combination_in_a_chain() -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(0.1, 0.9, 50).astype(np.float32)
    unary = [op for op in EXPANDED if op.arity == 1 and op not in HIDDEN]
    for seed in range(20):
        picks = np.random.default_rng(seed).integers(len(unary), size=4)
        one = other = array(x)
        for pick in picks:
            one, other = trace(unary[pick], one), expanded_now(unary[pick], other)
        verify([one])
        assert_same_bits(values(one), values(other))


@pytest.mark.parametrize("size", [1, 5, 40])
def test_expansions_inside_loops(size: int) -> None:
    x = np.linspace(0.2, 0.8, size).astype(np.float32)

    def run(function: Callable[[Any, Node], Node]) -> list[np.ndarray[Any, Any]]:
        outside = array(x)
        power, sine = OPS[KIND["power"]], OPS[KIND["sin"]]
        before = function(sine, outside)

        def condition(i: Node, a: Node) -> Node:  # uses an expansion of a captured value, and of the state
            return ops.and_(ops.lt(i, literal(UINT32, 4)),
                        ops.lt(function(sine, outside), ops.add(function(sine, a), literal(FLOAT32, 3.0))))

        def body(i: Node, a: Node) -> tuple[Node, Node]:
            cosine = function(OPS[KIND["cos"]], a)
            mixed = ops.add(function(sine, outside), ops.mul(cosine, before))
            raised = EXPANSIONS[power.kind](a, literal(FLOAT32, 1.7)) if function is expanded_now else \
                core.power(a, literal(FLOAT32, 1.7))
            return ops.add(i, literal(UINT32, 1)), ops.add(ops.abs(mixed), raised)

        state = core.while_loop((literal(UINT32, 0), outside), lambda s: condition(*s),
                                lambda s: body(*s))
        after = ops.add(function(sine, outside), state[1])
        verify([after])
        return [values(after), values(state[0])]

    for one, other in zip(run(trace), run(expanded_now), strict=True):
        assert_same_bits(one, other)


def test_the_precise_expansion_where_fast_math_is_off() -> None:
    a = array(np.array([1e6, 5e6, 1e9], np.float32))
    with scoped_set_flag(JitFlag.FastMath, False):
        node = core.sin(a)
    assert node.kind == KIND["sin_precise"] and core.sin(a) is not node
    np.testing.assert_allclose(values(node), np.sin(np.array([1e6, 5e6, 1e9])), rtol=1e-6)


def test_flags_and_log_do_not_reach_into_expansions() -> None:
    x = np.linspace(-2, 2, 9)
    with scoped_set_flag(JitFlag.Debug), scoped_set_flag(JitFlag.ValueNumbering, False):
        node = core.exp(core.cos(array(x)))
        result = values(node)
    np.testing.assert_allclose(result, np.exp(np.cos(x)), rtol=1e-14)


def test_the_expansion_of_a_node() -> None:
    a = array(np.ones(3, np.float64))
    assert expansion(a) is a
    assert expansion(core.erfc(a)).kind == KIND["select"]
    assert a.type == FLOAT64


def test_branches_that_few_elements_take() -> None:
    x = np.linspace(0.5, 3, 1000, dtype=np.float32)
    exact = np.sin(x.astype(np.float64))
    for places in ([], [0], [17, 18, 999], range(0, 1000, 2), range(1000)):
        large = x.copy()
        large[list(places)] = 1e9 + 64 * np.arange(len(places))
        expected = exact.copy()
        expected[list(places)] = np.sin(large[list(places)].astype(np.float64))
        node = core.sin(array(large))
        verify([node])
        np.testing.assert_allclose(values(node), expected, rtol=3e-7)
        folded = np.array([core.sin(literal(FLOAT32, float(v))).payload for v in large], np.float32)
        assert_same_bits(values(node), folded)


def test_such_a_branch_is_shared() -> None:
    a = array(np.full(20, 1e9, np.float32))
    order = Expanded(program_of(core.sin(a), core.cos(a))).order
    assert sum(node.kind == KIND["cond"] for node in order) == 1


def test_the_regions_of_such_a_branch_are_traced_once() -> None:
    def branches(a: Node) -> list[Any]:
        return [node.payload for node in Expanded(program_of(core.sin(a), core.log(a))).order
                if node.kind == KIND["cond"]]

    first, second = (branches(array(np.full(size, 1e9, np.float32))) for size in (20, 1))
    assert [choice.rare for choice in first] == [choice.rare for choice in second] == ["reduction", "log"]
    for one, other in zip(first, second, strict=True):
        assert one.regions == other.regions and one.initial != other.initial
    (other,) = [node.payload for node in Expanded(program_of(core.sin(array(np.ones(9))))).order
                if node.kind == KIND["cond"]]
    assert other.rare == "reduction" and other.regions != first[0].regions  # of other types


@pytest.mark.parametrize("size", [1, 50])
def test_such_a_branch_within_a_loop(size: int) -> None:
    x = expected = np.linspace(1e3, 1e5, size).astype(np.float32)
    for _ in range(4):
        expected = values(ops.mul(core.sin(array(expected)), literal(FLOAT32, 1e7)))
    state = core.while_loop((literal(UINT32, 0), array(x)), lambda s: ops.lt(s[0], literal(UINT32, 4)),
                            lambda s: [ops.add(s[0], literal(UINT32, 1)),
                                       ops.mul(core.sin(s[1]), literal(FLOAT32, 1e7))])
    assert_same_bits(values(state[1]), expected)


@pytest.mark.parametrize("lanes", [4, 8, 16, 32, 64])
def test_such_branches_compile_for_packets_of_any_width(lanes: int) -> None:
    a = array(np.ones(1000))
    text = emit.emit(program_of(core.sin(a), core.power(a, a)), lanes)
    assert text.count("define internal void @rare_") == 2
    assert jit.compile_text(text, 0)


# --- rows that a program has many of ---------------------------------------------------------------------------------

MANY = CPU_TARGET.inlined + 1


def functions_of(*roots: Node) -> list[str]:
    """Names of the functions that a kernel computes expansions with."""
    text = emit.emit(program_of(*roots), 16)
    found = re.findall(r"define internal \S.*? @(\w+)\(.*noinline #0", text)
    assert all(f"@{name}(" in text.split("\n}", 1)[0] for name in found)
    return found


@pytest.mark.parametrize("op, type_", ROWS)
def test_rows_that_become_a_function_keep_their_bits(op: core.Op, type_: int) -> None:
    data = [[np.roll(a, k) for k in range(MANY)] for a in arguments(type_)[:op.arity]]
    expected = values(trace(op, *(array(np.concatenate(a)) for a in data))).reshape(MANY, -1)
    nodes = [trace(op, *map(array, operands)) for operands in zip(*data, strict=True)]
    assert functions_of(*nodes) == [f"{op.name}_0"]
    assert functions_of(*nodes[:-1]) == []
    for result, row in zip(evaluate_all(*nodes), expected, strict=True):
        assert_same_bits(result, row)


@pytest.mark.parametrize("op, type_", ROWS)
def test_functions_of_uniform_values_and_of_one_element(op: core.Op, type_: int) -> None:
    data = [a[:MANY] for a in arguments(type_)[:op.arity]]
    expected = values(trace(op, *map(array, data)))
    single = [trace(op, *(array(a[k:k + 1]) for a in data)) for k in range(MANY)]
    assert functions_of(*single) == [f"{op.name}_0"]
    sizes = [array(np.full(40, k, dtype_of(type_))) for k in range(MANY)]
    wide = [ops.select(ops.eq(size, size), node, size) for size, node in zip(sizes, single, strict=True)]
    assert functions_of(*wide) == [f"{op.name}_0"]
    for result, value in zip(evaluate_all(*wide), expected, strict=True):
        assert_same_bits(result, np.full(40, value))
    single = [trace(op, *(array(a[k:k + 1]) for a in data)) for k in range(MANY)]
    assert_same_bits(np.concatenate(evaluate_all(*single)), expected)


def test_rows_of_the_same_operands_are_one_call() -> None:
    data = [array(np.linspace(k, k + 1, 50)) for k in range(MANY)]
    sines, cosines = [core.sin(a) for a in data], [core.cos(a) for a in data]
    exponentials = [core.exp(a) for a in data[:3]]  # few: not part of the function
    alone = core.sin(array(np.ones(50)))
    roots = [*sines, *cosines, *exponentials, alone]
    assert functions_of(*roots) == ["sin_cos_0", "sin_1"]
    text = emit.emit(program_of(*roots), 16)
    assert text.count("call { <16 x double>, <16 x double> } @sin_cos_0(") == MANY
    expected = [values(f(array(values(a)))) for f in (core.sin, core.cos) for a in data]
    for result, other in zip(evaluate_all(*sines, *cosines), expected, strict=True):
        assert_same_bits(result, other)


def test_constants_and_repeated_operands_are_part_of_a_function() -> None:
    data = [array(np.linspace(k, k + 1, 50, dtype=np.float32)) for k in range(MANY)]
    one = literal(FLOAT32, 1, 1, core.BAKED)
    with_one = [core.atan2(a, one) for a in data]
    twice = [core.atan2(a, a) for a in data]
    plain = [core.atan2(a, array(np.full(50, k, np.float32))) for k, a in enumerate(data)]
    assert functions_of(*with_one, *twice, *plain) == ["atan2_0", "atan2_1", "atan2_2"]
    expected = [values(core.atan2(array(values(a)), b)) for b in (one,) for a in data]
    expected += [values(core.atan2(*[array(values(a))] * 2)) for a in data]
    for result, other in zip(evaluate_all(*with_one, *twice), expected, strict=True):
        assert_same_bits(result, other)


@pytest.mark.parametrize("type_", [FLOAT32, FLOAT64], ids=name_of)
@pytest.mark.parametrize("places", [[], [3], [17, 18, 999], range(1000)], ids=["none", "one", "some", "all"])
def test_branches_that_few_elements_take_within_functions(type_: int, places: Any) -> None:
    x = np.linspace(0.5, 3, 1000).astype(dtype_of(type_))
    x[list(places)] = 1e17
    data = [x + k for k in range(MANY)]
    nodes = [core.sin(array(a)) for a in data]
    assert functions_of(*nodes) == ["sin_0"]
    for result, a in zip(evaluate_all(*nodes), data, strict=True):
        assert_same_bits(result, values(core.sin(array(a))))


@pytest.mark.parametrize("size", [1, 50])
def test_functions_inside_loops(size: int) -> None:
    x = np.linspace(0.2, 0.8, size).astype(np.float32)

    def run(count: int, sine: Callable[[Node], Node], cosine: Callable[[Node], Node]) -> np.ndarray[Any, Any]:
        outside = array(x)

        def body(state: list[Node]) -> list[Node]:
            a = state[1]
            for k in range(count):
                moved = ops.add(a, literal(FLOAT32, 0.1 * k))
                a = ops.add(sine(moved), ops.mul(cosine(moved), sine(outside)))
            return [ops.add(state[0], literal(UINT32, 1)), a]

        before = cosine(outside)
        state = core.while_loop((literal(UINT32, 0), outside), lambda s: ops.lt(s[0], literal(UINT32, 3)), body)
        result = ops.add(ops.add(state[1], before), sine(outside))
        verify([result])
        if sine is core.sin:
            assert any(name.startswith("sin") for name in functions_of(result))
        return values(result)

    def expanded(name: str) -> Callable[[Node], Node]:
        return lambda a: expanded_now(OPS[KIND[name]], a)

    assert_same_bits(run(MANY, core.sin, core.cos), run(MANY, expanded("sin"), expanded("cos")))


@pytest.mark.parametrize("count", [1, MANY])
def test_what_a_target_of_a_call_captures_is_computed_by_the_caller(count: int) -> None:
    x = array(np.linspace(0.2, 0.8, 50).astype(np.float32))

    def run(trace: Callable[[Node], Node]) -> np.ndarray[Any, Any]:
        captured = [trace(ops.mul(x, literal(FLOAT32, 0.1 * k))) for k in range(count)]
        index = ops.and_(core.counter(50), literal(UINT32, 1))

        def target(arguments: list[Node]) -> list[Node]:
            (value,) = arguments
            for each in captured:
                value = ops.add(value, ops.mul(trace(value), each))
            return [value]

        return values(core.call(index, literal(BOOL, True), [target, lambda s: s], [x])[0][0])

    assert_same_bits(run(core.sin), run(lambda a: expanded_now(OPS[KIND["sin"]], a)))


@pytest.mark.parametrize("lanes", [4, 8, 16, 32, 64])
def test_functions_compile_for_packets_of_any_width(lanes: int) -> None:
    data = [array(np.full(100, k, np.float64)) for k in range(MANY)]
    program = program_of(*(f(a) for a in data for f in (core.sin, core.cos, core.sinh, core.cosh, core.exp)))
    text = emit.emit(program, lanes)
    assert text.count("noinline #0") == 1 and jit.compile_text(text, 0)


def test_thousands_of_sines_compile_in_bounded_text() -> None:
    a = array(np.linspace(0, 1, 100, dtype=np.float32))
    total = a
    for k in range(2000):
        total = ops.add(total, core.sin(ops.add(a, literal(FLOAT32, float(k)))))
    assert len(emit.emit(program_of(total), 16)) < 2000 * 600
