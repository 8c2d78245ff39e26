"""Algebraic simplification: each rule applies where it should, only there, and never changes a bit.

Every rule is run on special values with and without it: as traced, and with the constant as an array in memory, where
no rule can see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from drjit_core import BAKED, KIND, OPS, TYPES, JitFlag, Node, flag, literal, ops, scoped_set_flag, set_flag
from drjit_core.ir import simplify, trace
from drjit_core.ops.table import LITERAL
from tests.core.harness import (
    ALL_TYPES,
    BOOL,
    FLOAT32,
    FLOATS,
    INTEGERS,
    array,
    assert_same_bits,
    name_of,
    number,
    values,
)
from tests.ops.samples import combinations, samples

Constant = Callable[[int, Any], Node]
Expression = Callable[[Constant, Node], Node]
MASKS = [BOOL]


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """Without the flag that lets a product with zero be zero."""
    before = flag(JitFlag.FastMath)
    set_flag(JitFlag.FastMath, False)
    yield
    set_flag(JitFlag.FastMath, before)


def ones(type_: int) -> Any:
    """The value with all bits set."""
    info = TYPES[type_]
    return True if info.kind == "b" else -1 if info.kind == "i" else int(info.maximum)


SIGNED = [t for t in INTEGERS if TYPES[t].kind == "i"]
#: Name, types, and the expression in terms of a constant and of one array.
RULES: list[tuple[str, list[int], Expression]] = [
    ("x + 0", INTEGERS, lambda c, x: ops.add(x, c(x.type, 0))),
    ("0 + x", INTEGERS, lambda c, x: ops.add(c(x.type, 0), x)),
    ("x + -0", FLOATS, lambda c, x: ops.add(x, c(x.type, -0.0))),
    ("-0 + x", FLOATS, lambda c, x: ops.add(c(x.type, -0.0), x)),
    ("x - 0", INTEGERS + FLOATS, lambda c, x: ops.sub(x, c(x.type, 0))),
    ("0 - x", INTEGERS, lambda c, x: ops.sub(c(x.type, 0), x)),
    ("x * 1", INTEGERS + FLOATS, lambda c, x: ops.mul(x, c(x.type, 1))),
    ("1 * x", INTEGERS + FLOATS, lambda c, x: ops.mul(c(x.type, 1), x)),
    ("x * 0", INTEGERS, lambda c, x: ops.mul(x, c(x.type, 0))),
    ("x * -1", SIGNED + FLOATS, lambda c, x: ops.mul(x, c(x.type, -1))),
    ("-1 * x", SIGNED + FLOATS, lambda c, x: ops.mul(c(x.type, -1), x)),
    ("x / 1", FLOATS, lambda c, x: ops.div(x, c(x.type, 1))),
    ("x / -1", FLOATS, lambda c, x: ops.div(x, c(x.type, -1))),
    ("x // 1", INTEGERS, lambda c, x: ops.floordiv(x, c(x.type, 1))),
    ("x % 1", INTEGERS, lambda c, x: ops.mod(x, c(x.type, 1))),
    ("x % -1", SIGNED, lambda c, x: ops.mod(x, c(x.type, -1))),
    ("x & 0", INTEGERS + MASKS, lambda c, x: ops.and_(x, c(x.type, 0))),
    ("x & ~0", INTEGERS + MASKS, lambda c, x: ops.and_(c(x.type, ones(x.type)), x)),
    ("x | 0", INTEGERS + MASKS, lambda c, x: ops.or_(x, c(x.type, 0))),
    ("x | ~0", INTEGERS + MASKS, lambda c, x: ops.or_(x, c(x.type, ones(x.type)))),
    ("x ^ 0", INTEGERS + MASKS, lambda c, x: ops.xor(x, c(x.type, 0))),
    ("x ^ ~0", INTEGERS + MASKS, lambda c, x: ops.xor(c(x.type, ones(x.type)), x)),
    ("x << 0", INTEGERS, lambda c, x: ops.shl(x, c(x.type, 0))),
    ("x >> 0", INTEGERS, lambda c, x: ops.shr(x, c(x.type, 0))),
    ("rotr(x, 0)", INTEGERS, lambda c, x: ops.rotr(x, c(x.type, 0))),
    ("rotr(x, -width)", SIGNED, lambda c, x: ops.rotr(x, c(x.type, -TYPES[x.type].bits))),
    ("rotr(0, x)", INTEGERS, lambda c, x: ops.rotr(c(x.type, 0), x)),
    ("rotr(~0, x)", INTEGERS, lambda c, x: ops.rotr(c(x.type, ones(x.type)), x)),
    ("0 << x", INTEGERS, lambda c, x: ops.shl(c(x.type, 0), x)),
    ("0 >> x", INTEGERS, lambda c, x: ops.shr(c(x.type, 0), x)),
    ("m == true", MASKS, lambda c, x: ops.eq(x, c(BOOL, True))),
    ("false == m", MASKS, lambda c, x: ops.eq(c(BOOL, False), x)),
    ("fma(x, 1, y)", INTEGERS + FLOATS, lambda c, x: ops.fma(x, c(x.type, 1), ops.add(x, x))),
    ("fma(1, x, y)", INTEGERS + FLOATS, lambda c, x: ops.fma(c(x.type, 1), x, ops.add(x, x))),
    ("fma(x, 0, y)", INTEGERS, lambda c, x: ops.fma(x, c(x.type, 0), ops.add(x, x))),
    ("fma(x, y, 0)", INTEGERS, lambda c, x: ops.fma(x, ops.add(x, x), c(x.type, 0))),
    ("fma(x, y, -0)", FLOATS, lambda c, x: ops.fma(x, ops.add(x, x), c(x.type, -0.0))),
    ("select(true, x, y)", ALL_TYPES, lambda c, x: ops.select(c(BOOL, True), x, array(values(x)[::-1]))),
    ("select(false, x, y)", ALL_TYPES, lambda c, x: ops.select(c(BOOL, False), x, array(values(x)[::-1]))),
    ("select(m, true, false)", MASKS, lambda c, x: ops.select(x, c(BOOL, True), c(BOOL, False))),
    ("select(m, true, true)", MASKS, lambda c, x: ops.select(x, c(BOOL, True), literal(BOOL, True, x.size))),
    ("select(m, false, false)", MASKS, lambda c, x: ops.select(x, literal(BOOL, False, x.size), c(BOOL, False))),
    ("select(m, false, true)", MASKS, lambda c, x: ops.select(x, c(BOOL, False), c(BOOL, True))),
]


def baked(type_: int, value: Any) -> Node:
    """A constant that simplification can see."""
    return literal(type_, value, 1, BAKED)


@pytest.mark.parametrize(("type_", "build"), [
    pytest.param(t, build, id=f"{name}-{name_of(t)}") for name, types, build in RULES for t in types])
def test_rules_apply_and_change_nothing(type_: int, build: Expression) -> None:
    data = np.tile(samples(type_), 18)[:35]
    x = array(data)
    seen: list[Node] = []

    def constant(type_: int, value: Any) -> Node:
        seen.append(baked(type_, value))
        return seen[-1]

    simplified = build(constant, x)
    operands = [d for d in (simplified.d0, simplified.d1, simplified.d2) if d is not None]
    assert not any(d is c for d in operands for c in seen), "the rule has not applied"
    assert simplified.size == x.size
    assert_same_bits(values(simplified), values(build(number, array(data))), data)


@pytest.mark.parametrize(("type_", "build"), [
    pytest.param(t, build, id=f"{name}-{name_of(t)}") for name, types, build in RULES for t in types[-1:]])
def test_without_constant_propagation_the_program_is_as_written(type_: int, build: Expression) -> None:
    data = np.tile(samples(type_), 18)[:35]
    with scoped_set_flag(JitFlag.ConstantPropagation, False):
        as_written = build(baked, array(data))
        assert any(d is not None and d.kind == LITERAL for d in (as_written.d0, as_written.d1, as_written.d2))
    assert_same_bits(values(as_written), values(build(baked, array(data))), data)


#: What looks like a rule and is none: name, types, expression.
NO_RULES: list[tuple[str, list[int], Expression]] = [
    ("x + 0", FLOATS, lambda c, x: ops.add(x, c(x.type, 0.0))),
    ("x - -0", FLOATS, lambda c, x: ops.sub(x, c(x.type, -0.0))),
    ("0 - x", FLOATS, lambda c, x: ops.sub(c(x.type, 0.0), x)),
    ("x * 0", FLOATS, lambda c, x: ops.mul(x, c(x.type, 0.0))),
    ("1 / x", FLOATS, lambda c, x: ops.div(c(x.type, 1.0), x)),
    ("fma(x, 0, y)", FLOATS, lambda c, x: ops.fma(x, c(x.type, 0.0), ops.add(x, x))),
    ("fma(x, y, 0)", FLOATS, lambda c, x: ops.fma(x, ops.add(x, x), c(x.type, 0.0))),
    ("x - x", FLOATS, lambda c, x: ops.sub(x, x)),
    ("x == x", FLOATS, lambda c, x: ops.eq(x, x)),
    ("x != x", FLOATS, lambda c, x: ops.neq(x, x)),
    ("x <= x", FLOATS, lambda c, x: ops.le(x, x)),
    ("x / x", FLOATS, lambda c, x: ops.div(x, x)),
    ("x // x", INTEGERS, lambda c, x: ops.floordiv(x, x)),
    ("0 // x", INTEGERS, lambda c, x: ops.floordiv(c(x.type, 0), x)),
]


@pytest.mark.parametrize(("name", "type_", "build"), [
    pytest.param(name, t, build, id=f"{name}-{name_of(t)}") for name, types, build in NO_RULES for t in types])
def test_what_does_not_hold_for_every_value_is_not_simplified(name: str, type_: int, build: Expression) -> None:
    data = np.tile(samples(type_), 18)[:35]
    x = array(data)
    node = build(baked, x)
    assert node.kind != LITERAL and node is not x
    other = x if "x" not in name[1:] else array(data)  # another node, so that no rule sees that it is the same
    assert_same_bits(values(node), values(build(number, other)), data)


#: Rules for one operation applied twice, or to itself.
SAME: list[tuple[str, list[int], Callable[[Node], Node], Callable[[Any], Any]]] = [
    ("-(-x)", INTEGERS + FLOATS, lambda x: ops.neg(ops.neg(x)), lambda x: x),
    ("~~x", INTEGERS + MASKS, lambda x: ops.inv(ops.inv(x)), lambda x: x),
    ("abs(abs(x))", SIGNED + FLOATS, lambda x: ops.abs(ops.abs(x)), np.abs),
    ("abs(-x)", SIGNED + FLOATS, lambda x: ops.abs(ops.neg(x)), np.abs),
    ("ceil(ceil(x))", FLOATS, lambda x: ops.ceil(ops.ceil(x)), np.ceil),
    ("floor(floor(x))", FLOATS, lambda x: ops.floor(ops.floor(x)), np.floor),
    ("trunc(trunc(x))", FLOATS, lambda x: ops.trunc(ops.trunc(x)), np.trunc),
    ("round(round(x))", FLOATS, lambda x: ops.round(ops.round(x)), np.rint),
    ("min(x, x)", INTEGERS + FLOATS, lambda x: ops.minimum(x, x), lambda x: x),
    ("max(x, x)", INTEGERS + FLOATS, lambda x: ops.maximum(x, x), lambda x: x),
    ("x & x", INTEGERS + MASKS, lambda x: ops.and_(x, x), lambda x: x),
    ("x | x", INTEGERS + MASKS, lambda x: ops.or_(x, x), lambda x: x),
    ("x ^ x", INTEGERS + MASKS, lambda x: ops.xor(x, x), np.zeros_like),
    ("x - x", INTEGERS, lambda x: ops.sub(x, x), np.zeros_like),
    ("x == x", INTEGERS + MASKS, lambda x: ops.eq(x, x), lambda x: np.ones(x.size, bool)),
    ("x != x", INTEGERS + MASKS, lambda x: ops.neq(x, x), lambda x: np.zeros(x.size, bool)),
    ("x < x", INTEGERS, lambda x: ops.lt(x, x), lambda x: np.zeros(x.size, bool)),
    ("x > x", INTEGERS, lambda x: ops.gt(x, x), lambda x: np.zeros(x.size, bool)),
    ("x <= x", INTEGERS, lambda x: ops.le(x, x), lambda x: np.ones(x.size, bool)),
    ("x >= x", INTEGERS, lambda x: ops.ge(x, x), lambda x: np.ones(x.size, bool)),
    ("select(m, x, x)", ALL_TYPES, lambda x: ops.select(array(np.arange(x.size) % 3 == 0), x, x), lambda x: x),
]


@pytest.mark.parametrize(("type_", "build", "model"), [
    pytest.param(t, build, model, id=f"{name}-{name_of(t)}") for name, types, build, model in SAME for t in types])
def test_an_operation_on_itself(type_: int, build: Callable[[Node], Node], model: Callable[[Any], Any]) -> None:
    data = np.tile(samples(type_), 18)[:35]
    node = build(array(data))
    depth = 0
    step: Node | None = node
    while step is not None:
        step, depth = step.d0, depth + 1
    assert depth <= 2, "the rule has not applied"
    with np.errstate(all="ignore"):
        assert_same_bits(values(node), model(data), data)


def test_every_row_with_a_rule_is_tested() -> None:
    rows = {KIND[name] for name in (
        "neg", "inv", "abs", "ceil", "floor", "trunc", "round", "add", "sub", "mul", "div", "div_precise", "floordiv",
        "mod", "minimum", "maximum", "and_", "or_", "xor", "shl", "shr", "rotr", "eq", "neq", "lt", "gt", "le", "ge",
        "fma", "select")}
    assert simplify._UNARY.keys() | simplify._BINARY.keys() | simplify._TERNARY.keys() == rows


@pytest.mark.parametrize("type_", FLOATS, ids=name_of)
def test_fast_math_lets_a_product_with_zero_be_zero(type_: int) -> None:
    x = array(samples(type_))
    zero = literal(type_, 0)
    with scoped_set_flag(JitFlag.FastMath):
        for node in (ops.mul(x, zero), ops.mul(zero, x)):
            assert node.kind == LITERAL and node.payload == 0 and node.size == x.size
        y = array(samples(type_)[::-1])
        with np.errstate(all="ignore"):
            assert_same_bits(values(ops.fma(x, zero, y)), values(y) + 0)


@pytest.mark.parametrize("type_", FLOATS, ids=name_of)
def test_fast_math_changes_nothing_else(type_: int) -> None:
    a, b = combinations(samples(type_), samples(type_))
    for build in (lambda x, y: ops.add(x, y), lambda x, y: ops.sub(ops.add(x, y), y), lambda x, y: ops.mul(x, y),
                  lambda x, y: ops.div(x, y), lambda x, y: ops.add(x, literal(type_, 0))):
        exact = values(build(array(a), array(b)))
        with scoped_set_flag(JitFlag.FastMath):
            assert_same_bits(values(build(array(a), array(b))), exact, a, b)


def test_a_uniform_operand_keeps_the_size_of_the_result() -> None:
    """A rule must not return an array of one element where the expression has many."""
    one = number(ALL_TYPES[6], 5)
    for build in (ops.add, ops.sub, ops.xor):
        assert build(one, literal(one.type, 0, 40)).size == 40
        assert values(build(one, literal(one.type, 0, 40))).tolist() == [5] * 40
    assert values(ops.mul(one, literal(one.type, 1, 40))).tolist() == [5] * 40
    assert values(ops.mul(one, literal(one.type, 0, 40))).tolist() == [0] * 40
    masks = array(np.ones(40, bool))
    chosen = ops.select(masks, one, one)
    assert values(chosen).tolist() == [5] * 40
    assert values(ops.fma(one, literal(one.type, 1, 40), one)).tolist() == [10] * 40
    assert values(ops.fma(literal(one.type, 0, 40), one, one)).tolist() == [5] * 40
    assert values(ops.eq(number(BOOL, True), literal(BOOL, True, 40))).tolist() == [True] * 40
    assert values(ops.select(literal(BOOL, True, 40), one, literal(one.type, 3))).tolist() == [5] * 40


def test_parameters_are_not_looked_at() -> None:
    """The value of a literal that is a kernel parameter must not change the program."""
    x = array(np.arange(20), ALL_TYPES[5])
    for value in (0, 1, -1, 5):
        shape = literal(x.type, value, 1, 2)
        for build in (ops.add, ops.sub, ops.mul, ops.floordiv, ops.mod, ops.xor, ops.shl,
                      ops.and_, ops.or_):
            node = build(x, shape)
            assert node.d0 is x and node.d1 is shape


def test_rules_that_look_for_equal_operands_are_known_by_their_kinds() -> None:
    """Tracing asks for a simpler node of two that are one only where it may find any."""
    found = set()
    for kind in simplify._BINARY:
        for info in TYPES:
            if info is None or info.kind not in OPS[kind].accepts:
                continue
            node = trace.opaque(literal(info.type, 1, 4))
            if simplify.binary(ops, kind, node, node, 4) is not None:
                found.add(kind)
    number, mask = (trace.opaque(literal(type_, 1, 4)) for type_ in (FLOAT32, BOOL))
    for kind in simplify._TERNARY:
        first = mask if kind == KIND["select"] else trace.opaque(literal(FLOAT32, 2, 4))
        if simplify.ternary(ops, kind, first, number, number, 4) is not None:
            found.add(kind)
    assert found == simplify.KNOWS_EQUALS
