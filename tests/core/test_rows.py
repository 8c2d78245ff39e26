"""Kernels that go over rows: views, reductions along axes, and random programs of them against the interpreter."""

from __future__ import annotations

import itertools
import math
import random
from contextlib import nullcontext

import numpy as np
import pytest

import drjit_core as core
from drjit_core import (
    SHAPE,
    TYPES,
    Node,
    ReduceOp,
    counter,
    evaluate,
    interpret,
    literal,
    ops,
    reduce,
    rooms,
    segment,
    view,
)
from drjit_core.ir.trace import access, gather, opaque, scatter
from drjit_core.ops.table import KIND
from drjit_core.passes.domain import Domain, refine, strides_in
from drjit_core.runtime.cpu.target import CPU_TARGET
from tests.core.harness import (
    ALL_TYPES,
    BOOL,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    TRUE,
    UINT8,
    UINT32,
    array,
    launches,
    shared,
    watched_memory,
)

ADD, MUL, MIN, MAX, AND, OR = (ReduceOp[name].value for name in ("Add", "Mul", "Min", "Max", "And", "Or"))


def seen(node: Node, base: int, extents: tuple[int, ...], strides: tuple[int, ...]) -> Node:
    found = view(node, base, extents, strides)
    assert found is not None
    return found


def reduced(node: Node, op: int, outer: int, extent: int, inner: int, part: int = 0) -> Node:
    found = segment(node, op, outer, extent, inner, part)
    assert found is not None
    return found


def agree(*roots: Node, precision: float = 1e-5) -> None:
    """Kernels compute what the interpreter does, which sums in another order."""
    expected = interpret(list(roots))
    evaluate(list(roots))
    for root, want in zip(roots, expected, strict=True):
        found = interpret([root])[0]
        assert found.dtype == want.dtype and found.shape == want.shape
        if want.dtype.kind == "f":
            np.testing.assert_allclose(found, want, rtol=precision, atol=precision)
        else:
            np.testing.assert_array_equal(found, want)


def numbers(size: int, type_: int, seed: int = 0) -> Node:
    generator = np.random.default_rng(seed)
    if type_ == BOOL:
        return array(generator.random(size) > 0.3)
    if TYPES[type_].kind == "f":
        return array((generator.random(size) * 2 - 0.7).astype(TYPES[type_].name))
    return array(generator.integers(0, 50, size).astype(TYPES[type_].name))


# --- views -----------------------------------------------------------------------------------------------------------

VIEWS = {
    "rows repeated": (0, (5, 40), (1, 0), 5), "a row repeated": (0, (5, 40), (0, 1), 40),
    "transposed": (0, (7, 30), (1, 7), 210), "columns backwards": (29, (7, 30), (30, -1), 210),
    "rows backwards": (180, (7, 30), (-30, 1), 210), "every other column": (1, (7, 15), (30, 2), 210),
    "the inner part": (31, (5, 28), (30, 1), 210), "three axes": (3, (2, 3, 17), (100, 20, 1), 260),
    "four axes, the last repeated": (0, (2, 3, 4, 65), (12, 4, 1, 0), 24), "short rows": (0, (50, 3), (3, 1), 150),
    "one axis at a distance": (2, (40,), (5,), 210), "rows of two": (1, (30, 2), (0, 3), 10),
}


@pytest.mark.parametrize("type_", (BOOL, UINT8, INT32, FLOAT32, FLOAT64), ids=lambda type_: TYPES[type_].name)
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_every_kind_of_memory(name: str, type_: int) -> None:
    base, extents, strides, size = VIEWS[name]
    data = interpret([numbers(size, type_)])[0]
    for source in (array(data), shared(data), opaque(array(data))):
        node = seen(source, base, extents, strides)
        other = numbers(math.prod(extents), type_, 1)
        agree(node, ops.xor(node, other) if type_ == BOOL else ops.add(node, other))


@pytest.mark.parametrize("type_", (BOOL, UINT8, FLOAT32, FLOAT64), ids=lambda type_: TYPES[type_].name)
@pytest.mark.parametrize(("first", "stride"), [(1, 1), (0, 1), (210, -1), (209, -1)])
def test_shifted_arrays_beside_views(type_: int, first: int, stride: int) -> None:
    data = interpret([numbers(211, type_)])[0]
    for source in (array(data), shared(data), opaque(array(data))):
        neighbours = core.access(source, first, stride, 210)
        other = seen(numbers(210, type_, 1), 29, (7, 30), (30, -1))
        agree(ops.xor(neighbours, other) if type_ == BOOL else ops.add(neighbours, other))


def test_views_of_what_is_computed_move_to_the_memory() -> None:
    source = numbers(210, FLOAT32)
    node = seen(ops.add(ops.mul(source, source), literal(FLOAT32, 0.5)), 29, (7, 30), (30, -1))
    with launches() as found:
        agree(ops.neg(node))
    assert len(found) == 1


def test_views_of_what_is_dear_wait_for_it() -> None:
    node = seen(core.exp(numbers(210, FLOAT32)), 29, (7, 30), (30, -1))
    with launches() as found:
        agree(ops.neg(node))
    assert len(found) == 2


def test_views_repeat_single_elements_that_are_computed() -> None:
    makers = (lambda node: reduce(node, ADD), lambda node: gather(node, literal(UINT32, 3), TRUE),
              lambda node: ops.add(reduce(node, MAX), literal(FLOAT32, 0.25)))
    for make in makers:
        node = seen(make(numbers(210, FLOAT32)), 0, (5, 4), (0, 0))
        agree(ops.add(node, numbers(20, FLOAT32)))


def test_literals_of_many_elements_are_parameters_of_known_structures_too() -> None:
    for value in (0.5, 1.5, 2.5):
        source = numbers(210, FLOAT32)
        agree(ops.neg(seen(ops.add(source, literal(FLOAT32, value, 210)), 1, (7, 15), (30, 2))))


def test_distances_in_the_graph_are_not_those_of_a_view() -> None:
    for distance in (3, 5, 2):  # the view's is 3, and has this tag when it is read by index
        index = ops.mul(counter(90, UINT32), literal(UINT32, distance, 1, SHAPE, tag=20))
        node = seen(numbers(300, FLOAT32), 0, (30, 3), (9, 3))
        agree(ops.add(node, gather(numbers(450, FLOAT32, 1), index, TRUE)))


def test_views_that_have_no_common_domain_are_read_by_index() -> None:
    first = seen(numbers(6, FLOAT32), 0, (6, 4), (1, 0))
    second = seen(numbers(8, FLOAT32), 0, (8, 3), (1, 0))
    with launches() as found:
        agree(ops.add(first, second))
    assert len(found) == 1


def test_shapes_are_parameters() -> None:
    with launches() as found:
        for rows, columns in ((70, 130), (80, 129), (71, 177), (1000, 333)):
            row = seen(numbers(columns, FLOAT32), 0, (rows, columns), (0, 1))
            agree(ops.add(numbers(rows * columns, FLOAT32), row))
    assert len({each["hash"] for each in found}) == 1


def test_few_long_rows_are_shared_by_threads() -> None:
    data = numbers(3 * 50001, FLOAT32)
    node = ops.mul(data, seen(numbers(50001, FLOAT32, 1), 0, (3, 50001), (0, 1)))
    agree(node, reduce(node, ADD))


@pytest.mark.parametrize(("size", "views", "row", "extents", "fits"), (
    (24, [(6, 4)], 0, (6, 4), [True]), (24, [(6, 4), (8, 3)], 0, (6, 4), [True, False]),
    (24, [(6, 4), (2, 12)], 0, (2, 3, 4), [True, True]), (24, [(24,)], 0, (24,), [True]),
    (24, [(6, 4)], 12, (2, 12), [False]), (24, [(2, 12), (4, 6)], 6, (2, 2, 6), [True, True])))
def test_common_refinements(size: int, views: list[tuple[int, ...]], row: int, extents: tuple[int, ...],
                            fits: list[bool]) -> None:
    assert refine(size, views, row) == (extents, fits)


def test_strides_in_a_domain_that_refines_a_view() -> None:
    assert strides_in(Domain((2, 3, 4)), (6, 4), (10, 1)) == (30, 10, 1)
    assert strides_in(Domain((2, 3, 4)), (24,), (-1,)) == (-12, -4, -1)


def test_parts_of_rows_cover_them() -> None:
    domain = CPU_TARGET.cut(Domain((2, 100_001)))
    assert domain.parts * domain.part >= 100_001 > (domain.parts - 1) * domain.part
    assert domain.units == 2 * domain.parts


# --- reductions along axes -------------------------------------------------------------------------------------------

SHAPES = ((3, 17, 1), (40, 2, 1), (2, 1000, 1), (5, 64, 1), (1, 9, 5), (1, 300, 70), (4, 7, 3), (50, 8, 16), (1, 17, 2))


@pytest.mark.parametrize("type_", ALL_TYPES, ids=lambda type_: TYPES[type_].name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reductions_of_every_type(shape: tuple[int, int, int], type_: int) -> None:
    kind = TYPES[type_].kind
    operators = (AND, OR) if kind == "b" else (ADD, MIN, MAX) if kind == "f" else (ADD, MUL, MIN, MAX, AND, OR)
    if TYPES[type_].bits == 16 and kind == "f" and shape[2] > 1:
        return  # columns are added up in single precision, which is the caller's to ask for
    for op, part in itertools.product(operators, (0, 4)):
        outer, extent, inner = shape
        if part and -(-extent // part) * outer * inner == 1:
            continue
        node = numbers(math.prod(shape), type_)
        agree(reduced(node, op, outer, extent, inner, part), precision=2e-3 if TYPES[type_].bits == 16 else 1e-5)


def test_nan_in_a_reduction_of_a_row_is_treated_as_in_one_of_everything() -> None:
    data = np.array([[1, np.nan, 3, -1], [np.nan] * 4, [np.inf, -np.inf, np.nan, 0]], np.float32)
    for op in (ADD, MUL, MIN, MAX):
        whole = [interpret([reduce(array(row), op)])[0][0] for row in data]
        node = reduced(array(data), op, 3, 4, 1)
        evaluate([node])
        np.testing.assert_array_equal(interpret([node])[0], whole)
        columns = reduced(array(np.repeat(data.T, 5, 1)), op, 1, 4, 15)
        evaluate([columns])
        np.testing.assert_array_equal(interpret([columns])[0], np.repeat(whole, 5))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("first", "stride"), ((0, -1), (3, 1)), ids=("backwards", "later"))
def test_reductions_of_parts_of_arrays(shape: tuple[int, int, int], first: int, stride: int) -> None:
    size = math.prod(shape)
    for make, part in itertools.product((array, shared), (0, 4)):
        source = make(interpret([numbers(size + first, INT32)])[0])
        node = access(source, first if stride > 0 else size - 1, stride, size)
        if part and -(-shape[1] // part) * shape[0] * shape[2] == 1:
            continue
        sums, largest = reduced(node, ADD, *shape, part), reduced(node, MAX, *shape, part)
        agree(sums, ops.add(sums, largest))


def softmax(node: Node, rows: int, row: int) -> Node:
    largest = seen(reduced(node, MAX, rows, row, 1), 0, (rows, row), (1, 0))
    powers = core.exp(ops.sub(node, largest))
    return ops.div(powers, seen(reduced(powers, ADD, rows, row, 1), 0, (rows, row), (1, 0)))


@pytest.mark.parametrize("shape", ((5, 17), (64, 300), (2, 2)), ids=str)
def test_a_softmax_is_one_kernel(shape: tuple[int, int]) -> None:
    rows, row = shape
    with launches() as found:
        agree(softmax(numbers(rows * row, FLOAT32), rows, row))
    assert len(found) == 1


def test_single_elements_made_of_all_rows_wait_and_have_no_rows() -> None:
    soft = softmax(numbers(600, FLOAT32), 20, 30)
    total = reduce(soft, ADD)
    with launches() as found:
        agree(ops.div(total, literal(FLOAT32, 600)))
    assert [entry["size"] for entry in found] == [600, 1]
    agree(ops.mul(soft, seen(ops.sqrt(total), 0, (20, 30), (0, 0))))
    agree(softmax(ops.sub(soft, ops.div(total, literal(FLOAT32, 600))), 30, 20))


def test_what_is_scattered_from_rows_has_no_rows() -> None:
    soft = softmax(numbers(600, FLOAT32), 20, 30)
    for size in (7, 600, 1200):
        index = ops.mod(counter(600), literal(UINT32, size))
        binned = scatter(opaque(literal(FLOAT32, 0, size)), soft, index, TRUE, ADD, 0)
        doubled = ops.mul(binned, literal(FLOAT32, 2))
        expected = interpret([doubled])[0]
        evaluate([doubled])
        np.testing.assert_allclose(interpret([doubled])[0], expected, rtol=1e-5)


def test_results_of_rows_and_whole_rows_may_be_asked_for_together() -> None:
    node = numbers(600, FLOAT32)
    squares = ops.mul(node, node)
    sums = reduced(squares, ADD, 20, 30, 1)
    roots = ops.sqrt(sums)
    with launches() as found:
        agree(ops.div(node, seen(roots, 0, (20, 30), (1, 0))), sums, roots, squares, reduce(squares, ADD))
    assert len(found) == 1


def test_what_is_used_in_another_way_waits() -> None:
    node = numbers(600, FLOAT32)
    sums = reduced(node, ADD, 20, 30, 1)
    agree(ops.add(node, gather(sums, ops.and_(counter(600), literal(UINT32, 15)), TRUE)))
    node = numbers(600, FLOAT32)
    sums = reduced(node, ADD, 20, 30, 1)
    agree(ops.add(node, seen(sums, 0, (30, 20), (0, 1))))  # beside each other
    square = numbers(400, FLOAT32)
    sums = reduced(square, ADD, 20, 20, 1)
    agree(ops.add(square, seen(sums, 0, (20, 20), (0, 1))), ops.sub(square, seen(sums, 0, (20, 20), (1, 0))))


def test_writes_of_what_rows_reduce() -> None:
    node = numbers(600, FLOAT32)
    sums = reduced(node, ADD, 20, 30, 1)
    target = opaque(literal(FLOAT32, 0, 30))
    whole = ops.mul(node, seen(sums, 0, (20, 30), (1, 0)))
    version = scatter(target, sums, counter(20), TRUE, ReduceOp.Identity.value, 0)
    other = scatter(opaque(literal(FLOAT32, 0, 600)), whole, counter(600), TRUE, ReduceOp.Identity.value, 0)
    expected = interpret([version, other])
    evaluate([version, other])
    for root, want in zip((version, other), expected, strict=True):
        np.testing.assert_allclose(interpret([root])[0], want, rtol=1e-5)


def test_reductions_of_rows_beside_a_loop() -> None:
    data = numbers(600, FLOAT32)
    limit = literal(UINT32, 3)
    summed = core.while_loop([literal(UINT32, 0, 600), data], lambda state: ops.lt(state[0], limit), lambda state: [
        ops.add(state[0], literal(UINT32, 1)), ops.add(state[1], state[1])])[1]
    agree(softmax(summed, 20, 30))
    sums = ops.mul(reduced(data, ADD, 20, 30, 1), literal(FLOAT32, 2))
    looped = core.while_loop([literal(UINT32, 0, 20), sums], lambda state: ops.lt(state[0], limit), lambda state: [
        ops.add(state[0], literal(UINT32, 1)), ops.mul(state[1], sums)])[1]
    agree(looped, sums, ops.add(seen(looped, 0, (20, 30), (1, 0)), seen(sums, 0, (20, 30), (1, 0))))


KEPT = ("first", "second", "exp", "tanh", "total", "binned", "moved")


@pytest.mark.parametrize("wanted", [each for count in (3, 7) for each in itertools.combinations(KEPT, count)],
                         ids="+".join)
def test_dear_values_that_later_passes_need(wanted: tuple[str, ...]) -> None:
    rows, row = 20, 37
    data = numbers(rows * row, FLOAT32)
    powers, tanhs = core.exp(data), core.tanh(data)
    sums = seen(reduced(powers, ADD, rows, row, 1), 0, (rows, row), (1, 0))
    largest = seen(reduced(ops.mul(tanhs, sums), MAX, rows, row, 1), 0, (rows, row), (1, 0))
    first, second = ops.div(powers, sums), ops.sub(ops.mul(tanhs, largest), powers)
    made = {"first": first, "second": second, "exp": powers, "tanh": tanhs,
            "total": reduce(second, ADD),
            "binned": scatter(array(np.zeros(7, np.float32)), ops.mul(tanhs, sums),
                              ops.mod(counter(data.size), literal(UINT32, 7)), TRUE, ADD, 0),
            "moved": scatter(array(np.zeros(data.size, np.float32)), ops.add(powers, largest), counter(data.size),
                             ops.gt(tanhs, literal(FLOAT32, 0)), ReduceOp.Identity.value, 0)}
    with launches() as found:
        agree(*(made[name] for name in wanted))
    assert len(found) == 1


def test_a_loop_and_a_reduction_of_rows_that_are_as_many_points() -> None:
    data = numbers(600, FLOAT32)
    looped = core.while_loop([literal(UINT32, 0, 600), data], lambda state: ops.lt(state[0], literal(UINT32, 3)),
                             lambda state: [ops.add(state[0], literal(UINT32, 1)), ops.add(state[1], state[1])])[1]
    agree(looped, reduced(data, ADD, 20, 30, 1), ops.neg(data))


def test_what_all_rows_make_is_used_by_the_scalars_of_rows() -> None:
    data, other = numbers(600, FLOAT32), numbers(20, FLOAT32, 1)
    total = ops.mul(reduce(data, ADD), literal(FLOAT32, 0.5))
    columns = reduced(numbers(100, FLOAT32, 2), ADD, 1, 5, 20)
    sums = reduced(ops.mul(data, total), ADD, 20, 30, 1)
    with launches() as found:
        agree(ops.add(sums, ops.add(other, ops.sub(total, ops.neg(columns)))))
    assert len(found) == 3


# --- random programs -------------------------------------------------------------------------------------------------


class Programs:
    """Random graphs of arrays of some shapes: each step makes a node out of what is there."""

    def __init__(self, seed: int, data: int = 0) -> None:
        self.random = random.Random(seed)
        choice = self.random.choice
        self.shape = (choice((2, 3, 5, 12)), choice((2, 4, 9, 20)), choice((2, 3, 16, 33, 70)))
        size = math.prod(self.shape)
        self.type = choice((FLOAT32, FLOAT32, FLOAT64, INT32, UINT8, INT16))
        self.is_float = TYPES[self.type].kind == "f"
        a, b, c = self.shape
        #: Nodes by their number of elements.
        self.nodes: dict[int, list[Node]] = {}
        for count in (size, size, a * b, a, c, b * c):
            self.add(numbers(count, self.type, self.random.randrange(1000) + data))
        for _ in range(self.random.randrange(2, 12)):
            self.step()

    def add(self, node: Node) -> None:
        self.nodes.setdefault(node.size, []).append(node)

    def pick(self, size: int) -> Node | None:
        found = self.nodes.get(size)
        return self.random.choice(found[-4:]) if found else None

    def step(self) -> None:
        choice = self.random.choice
        a, b, c = self.shape
        size = a * b * c
        kind = choice(("elementwise", "elementwise", "elementwise", "repeat", "repeat", "view", "reduce", "reduce",
                       "dear", "all", "softmax", "scatter", "gather", "select", "cast", "step", "loop"))
        if kind == "elementwise":
            count = choice(list(self.nodes))
            first, second = self.pick(count), choice((self.pick(count), literal(self.type, 2), self.pick(1)))
            assert first is not None
            self.add(ops.add(first, second or literal(self.type, 3)) if self.random.random() < 0.5 else
                     ops.minimum(first, second or literal(self.type, 3)))
        elif kind == "repeat":
            count, extents, strides = choice((
                (a * b, (a * b, c), (1, 0)), (a, (a, b * c), (1, 0)), (c, (a * b, c), (0, 1)),
                (b * c, (a, b * c), (0, 1)), (a * b, (a, b, c), (b, 1, 0))))
            source = self.pick(count)
            if source is not None:
                self.add(seen(source, 0, extents, strides))
        elif kind == "view":
            source = self.pick(size)
            assert source is not None
            self.add(seen(source, *choice((
                (0, (c, b, a), (1, c, b * c)), (size - 1, (a, b * c), (-b * c, -1)), (0, (b, a, c), (c, b * c, 1)),
                (c - 1, (a * b, c), (c, -1)), (1, (a * b * c - 1,), (1,))))))
        elif kind == "reduce":
            source = self.pick(size)
            assert source is not None
            op = choice((ADD, MIN, MAX))
            outer, extent, inner = choice(((a * b, c, 1), (a, b * c, 1), (1, a, b * c), (a, b, c), (1, a * b, c)))
            self.add(reduced(source, op, outer, extent, inner, choice((0, 0, 0, 2, 8))))
        elif kind == "dear" and self.is_float:
            source = self.pick(choice(list(self.nodes)))
            assert source is not None
            self.add(core.tanh(source))
        elif kind == "all":
            source = self.pick(choice([count for count in self.nodes if count > 1]))
            assert source is not None
            self.add(reduce(source, choice((ADD, MAX))))
        else:
            self.crossing(kind, self.random)

    def crossing(self, kind: str, generator: random.Random) -> None:
        """What rows meet: other kinds of nodes, of any size."""
        choice = generator.choice
        a, b, c = self.shape
        source = self.pick(choice([count for count in self.nodes if count > 1]))
        assert source is not None
        size = source.size
        if kind == "softmax" and self.is_float:
            rows, row = choice(((a * b, c), (a, b * c)))
            whole = self.pick(a * b * c)
            assert whole is not None
            self.add(softmax(whole, rows, row))
        elif kind == "scatter":
            target, op = choice(list(self.nodes)), choice((ADD, MAX, ReduceOp.Identity.value))
            active = TRUE if generator.random() < 0.5 else ops.lt(counter(size), literal(UINT32, size // 2 + 1))
            index = counter(size)
            if target < size:
                index, op = ops.mod(index, literal(UINT32, target)), choice((ADD, MAX))
            held = self.pick(target) if generator.random() < 0.3 else None
            memory = choice((numbers(target, self.type), opaque(literal(self.type, 1, target))))
            memory = held if held is not None and held.kind > KIND["literal"] else memory
            if memory.size == target and target > 1:
                self.add(scatter(memory, source, index, active, op, 0))
        elif kind == "gather":
            count = choice(list(self.nodes))
            index = ops.mod(ops.mul(counter(count), literal(UINT32, 7)), literal(UINT32, size))
            self.add(gather(source, index, TRUE))
        elif kind == "select":
            self.add(ops.select(ops.lt(source, literal(self.type, 1)), source, self.pick(size)))
        elif kind == "cast":
            self.add(core.cast(core.cast(source, choice((FLOAT64, INT32) if self.is_float else (UINT8, FLOAT64))),
                               self.type))
        elif kind == "step":
            extents = choice(((1, 0, 1), (size // c, c, 1) if size % c == 0 else (1, size, 1)))
            name, options = choice((("scan", (ADD, 0, 0)), ("scan", (MAX, 1, 1)), ("sort", (0, 1))))
            self.add(core.step(name, [source], [(self.type, size)], options, extents)[0])
        elif kind == "loop" and generator.random() < 0.3:
            limit, other = literal(UINT32, 2), self.pick(size)
            assert other is not None
            self.add(core.while_loop(
                [literal(UINT32, 0, size), source], lambda state: ops.lt(state[0], limit),
                lambda state: [ops.add(state[0], literal(UINT32, 1)), ops.maximum(state[1], other)])[1])

    def roots(self) -> list[Node]:
        found = [nodes[-1] for nodes in self.nodes.values()]
        self.random.shuffle(found)
        return [node for node in found if node.kind != KIND["literal"]][:self.random.randrange(1, 5)]


def check(seed: int) -> None:
    for data in range(3):  # the second time, a recipe is made; the third time, it is used
        programs = Programs(seed, data)
        roots = programs.roots()
        with nullcontext() if rooms.compiled else watched_memory():
            agree(*roots, precision=1e-4 if programs.type == FLOAT32 else 1e-9)


@pytest.mark.parametrize("block", range(10))
def test_random_programs_agree_with_the_interpreter(block: int) -> None:
    for seed in range(30 * block, 30 * block + 30):
        check(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(40))
def test_twenty_thousand_random_programs(block: int) -> None:
    for seed in range(1000 + 500 * block, 1500 + 500 * block):
        check(seed)


