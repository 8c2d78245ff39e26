"""A row that is registered from outside goes through all floors: it is traced, verified, printed, keyed, compiled,
interpreted, part of loops, branches and calls, differentiated and recorded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit._promotion.promote import wrap
from drjit.llvm import Float, UInt, ad
from drjit_core import (
    Node,
    NoDerivative,
    ReduceMode,
    ReduceOp,
    call,
    cast,
    cond,
    counter,
    evaluate,
    import_shared,
    literal,
    on_backend,
    ops,
    primal,
    record,
    scatter,
    while_loop,
)
from drjit_core.codegen.listing import format_program
from drjit_core.control import inline
from drjit_core.derivatives.structured import Derivative, register
from drjit_core.ir import expansion
from drjit_core.ir.node import FIELDS, new_node
from drjit_core.ir.print import format_graph
from drjit_core.ir.region import all_operands, arguments_of
from drjit_core.ir.structured import differentiable, traced
from drjit_core.ir.verify import VerificationError, verify
from drjit_core.ops import table
from drjit_core.ops.structure import structural
from drjit_core.runtime.gpu.texts import PTXTexts
from drjit_core.runtime.null import Null
from tests.core.harness import BOOL, FLOAT32, TRUE, UINT32, array, assert_same_bits, key_of, program_of, values
from tests.core.outside import CROSS, ROW, bilinear, cross, reference

ROOT = Path(__file__).resolve().parents[2]
WIDTH, HEIGHT, SIZE = 7, 5, 1000
RNG = np.random.default_rng(3)
TABLE = RNG.random(WIDTH * HEIGHT, dtype=np.float32)
U, V = RNG.random(SIZE, dtype=np.float32) * 1.2 - np.float32(0.1), RNG.random(SIZE, dtype=np.float32)
MASK = RNG.random(SIZE) < 0.7
EXPECTED = reference(TABLE, U, V, WIDTH, HEIGHT, MASK)


def uint(value: int) -> Node:
    return literal(UINT32, value)


def read(source: Node | None = None, u: Node | None = None, v: Node | None = None, mask: Node = TRUE) -> Node:
    return bilinear(array(TABLE) if source is None else source, array(U) if u is None else u,
                    array(V) if v is None else v, uint(WIDTH), uint(HEIGHT), mask)


# --- tracing, checks, texts ------------------------------------------------------------------------------------------


def test_it_has_more_operands_than_slots() -> None:
    node = read(mask=array(MASK))
    assert node.kind == ROW.kind and node.d3 is not None and node.d3.kind == table.PACK
    assert [operand.type for operand in all_operands(node)] == [FLOAT32, FLOAT32, FLOAT32, UINT32, UINT32, BOOL]
    assert arguments_of(node) == all_operands(node)[1:]
    assert verify([node]) == 8
    assert "bilinear(n" in format_graph([node]) and "pack(n" in format_graph([node])


def test_equal_ones_are_one_node() -> None:
    source, u, v, mask = array(TABLE), array(U), array(V), array(MASK)
    assert read(source, u, v, mask) is read(source, u, v, mask)
    assert read(source, u, v, mask) is not read(source, v, u, mask)
    assert read(source, u, v, mask) is not read(source, u, v)


def test_what_does_not_fit_is_refused() -> None:
    node = read()
    for slots, message in (({"d1": array(MASK)}, "different types"), ({"d3": None}, "3 operands instead of 6"),
                           ({"size": 5}, "."), ({"type": UINT32}, ".")):
        other: Node = new_node(Node)
        for name in FIELDS:
            setattr(other, name, slots.get(name, getattr(node, name)))
        with pytest.raises(VerificationError, match=message):
            verify([other])
    with pytest.raises(ValueError, match="there is a row bilinear already"):
        table.register(ROW)
    with pytest.raises(ValueError, match="does more than to compute its elements"):
        table.register(ROW._replace(name="other", effect="write"))


def test_the_key_tells_operands_apart_and_the_listing_shows_them() -> None:
    source, u, v, mask = array(TABLE), array(U), array(V), array(MASK)
    assert key_of(read(source, u, v, mask)) == key_of(read(array(TABLE[::-1]), array(V), array(U), array(~MASK)))
    assert len({bytes(key_of(node)) for node in (
        read(source, u, v, mask), read(source, u, u, mask), read(source, u, v),
        bilinear(source, u, v, uint(HEIGHT), uint(HEIGHT), mask), ops.add(read(source, u, v), u))}) == 5
    assert "bilinear(parameter " in format_program(program_of(read(source, u, v, mask)))


def test_the_key_tells_what_the_row_meant_when_it_was_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kind is another row's in another process, and kernels on disk are those of the text that it had."""
    before = table.VERSIONS[ROW.kind]
    assert before != table.VERSIONS[CROSS.kind]
    key = key_of(read())
    monkeypatch.setitem(table.VERSIONS, ROW.kind, before ^ 1)
    assert key_of(read()) != key


def test_rows_of_packages_have_versions_of_their_texts(tmp_path: Path) -> None:
    program = ("import sys; sys.path[:0] = ['compiler', '.']; import drjit.llvm; drjit.llvm.Texture2f; from "
               "drjit_core.ops.table import KIND, VERSIONS; print(VERSIONS[KIND['lookup2']], drjit.__file__)")
    found = []
    for number, changed in enumerate((None, None, "lookups.py", "grid.py")):
        folder = tmp_path / str(number)
        for package in ("drjit", "compiler"):
            shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        if changed is not None:
            with open(folder / "drjit" / "_texture" / changed, "a") as file:
                file.write("\nCHANGED = 1\n")
        done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True,
                              env={**os.environ, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"})
        version, place = done.stdout.split()
        assert Path(place).is_relative_to(folder)
        found.append(version)
    assert found[0] == found[1] and len(set(found)) == 3


def test_backends_that_have_no_text_of_it_say_so() -> None:
    with on_backend(Null(PTXTexts(90))):
        node = read()
        with pytest.raises(NotImplementedError, match="no PTX text of the row 'bilinear'"):
            evaluate([node])
    assert_same_bits(values(read()), looked_up(U, V))


# --- values ----------------------------------------------------------------------------------------------------------


def test_its_values_are_those_of_numpy(backend: str) -> None:
    assert_same_bits(values(read(mask=array(MASK))), EXPECTED)
    assert_same_bits(values(ops.mul(read(mask=array(MASK)), read(mask=array(MASK)))), EXPECTED * EXPECTED)
    one = read(u=literal(FLOAT32, 0.5), v=literal(FLOAT32, 0.25))
    assert_same_bits(values(one), reference(TABLE, np.full(1, 0.5, np.float32), np.full(1, 0.25, np.float32), WIDTH,
                                            HEIGHT, True))


def test_a_table_that_is_computed_is_stored_before(backend: str) -> None:
    doubled = ops.add(array(TABLE), array(TABLE))
    assert_same_bits(values(read(doubled)), reference(TABLE + TABLE, U, V, WIDTH, HEIGHT, True))
    constant = read(literal(FLOAT32, 0.5, WIDTH * HEIGHT))
    assert_same_bits(values(constant), np.full(SIZE, 0.5, np.float32))


def test_operands_of_different_kernels_meet(backend: str) -> None:
    """A pack is no value, and is never stored: what is in it comes from an earlier kernel or from this one."""
    width = cast(ops.mul(array(np.full(1, 3.5, np.float32)), literal(FLOAT32, 2)), UINT32)
    mask = ops.lt(counter(SIZE), uint(600))
    found = bilinear(ops.add(array(TABLE), literal(FLOAT32, 0)), array(U), array(V), width, uint(HEIGHT), mask)
    assert_same_bits(values(found), reference(TABLE, U, V, WIDTH, HEIGHT, np.arange(SIZE) < 600))


# --- regions ---------------------------------------------------------------------------------------------------------


def _in_loop(source: Node, u: Node, v: Node) -> Node:
    """Three reads, each of the sum of the coordinates and what has been read before."""
    def body(s: list[Node]) -> list[Node]:
        return [ops.add(s[0], uint(1)), ops.add(s[1], bilinear(source, s[1], v, uint(WIDTH), uint(HEIGHT), TRUE))]

    return while_loop([literal(UINT32, 0, SIZE), u], lambda s: ops.lt(s[0], uint(3)), body)[1]


def _in_branch(source: Node, u: Node, v: Node) -> Node:
    def true(s: list[Node]) -> list[Node]:
        return [ops.add(bilinear(source, s[0], v, uint(WIDTH), uint(HEIGHT), TRUE), s[0])]

    return cond(ops.lt(u, literal(FLOAT32, 0.5)), [u], true, lambda s: [ops.neg(s[0])])[0][0]


def _in_call(source: Node, u: Node, v: Node) -> Node:
    def target(factor: float) -> Callable[[list[Node]], list[Node]]:
        def function(s: list[Node]) -> list[Node]:
            return [ops.mul(bilinear(source, s[0], v, uint(WIDTH), uint(HEIGHT), TRUE), literal(FLOAT32, factor))]

        return function

    index = ops.and_(counter(SIZE), uint(1))
    return call(index, TRUE, [target(3.0), target(5.0)], [u])[0][0]


def looked_up(u: Any, v: Any) -> Any:
    return reference(TABLE, u, v, WIDTH, HEIGHT, True)


def _loop(u: Any, v: Any) -> Any:
    for _ in range(3):
        u = u + looked_up(u, v)
    return u


REGIONS: dict[str, tuple[Callable[[Node, Node, Node], Node], Callable[[Any, Any], Any]]] = {
    "loop": (_in_loop, _loop),
    "branch": (_in_branch, lambda u, v: np.where(u < 0.5, looked_up(u, v) + u, -u)),
    "call": (_in_call, lambda u, v: looked_up(u, v) * np.where(np.arange(SIZE) % 2, 5, 3).astype(np.float32)),
}


@pytest.mark.parametrize("name", REGIONS)
def test_it_is_part_of_regions(name: str, backend: str) -> None:
    function, expected = REGIONS[name]
    found = function(array(TABLE), array(U), array(V))
    verify([found])
    assert_same_bits(values(found), expected(U, V))


@pytest.mark.parametrize("inner", REGIONS)
def test_regions_with_it_are_parts_of_others(inner: str, backend: str) -> None:
    function, expected = REGIONS[inner]
    source, u, v = array(TABLE), array(U), array(V)

    def true(s: list[Node]) -> list[Node]:
        return [function(source, s[0], v)]

    found = cond(array(MASK), [u], true, lambda s: [s[0]])[0][0]
    verify([found])
    assert_same_bits(values(found), np.where(MASK, expected(U, V), U))


def test_what_a_loop_writes_it_reads_in_the_next_iteration(backend: str) -> None:
    def body(s: list[Node]) -> list[Node]:
        found = bilinear(s[1], literal(FLOAT32, 0.3), literal(FLOAT32, 0.3), uint(WIDTH), uint(HEIGHT), TRUE)
        table_ = scatter(s[1], ops.mul(found, literal(FLOAT32, 2)), ops.add(s[0], uint(8)), TRUE,
                         ReduceOp.Identity.value, ReduceMode.Auto.value)
        return [ops.add(s[0], uint(1)), table_, found]

    found = while_loop([uint(0), array(TABLE), literal(FLOAT32, 0)], lambda s: ops.lt(s[0], uint(3)), body)[2]
    source, point = TABLE.copy(), np.full(1, 0.3, np.float32)
    for step in range(3):
        expected = reference(source, point, point, WIDTH, HEIGHT, True)
        source[step + 8] = expected[0] * np.float32(2)
    assert_same_bits(values(found), expected)


# --- the array layer -------------------------------------------------------------------------------------------------


def lookup(source: Any, u: Any, v: Any, mask: Any = True) -> Any:
    """The row as a function of arrays."""
    mask = dr.mask_t(u)(mask)
    nodes = [each._nodes()[0] for each in (source, u, v)]
    return wrap(type(u), [bilinear(*nodes, uint(WIDTH), uint(HEIGHT), mask._nodes()[0])])


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_loops_and_branches_of_the_array_layer_have_it(mode: str) -> None:
    source, v = Float(TABLE), Float(V)
    _, u, _, _ = dr.while_loop((UInt(0), Float(U), source, v), lambda i, u, source, v: i < 3,
                               lambda i, u, source, v: (i + 1, u + lookup(source, u, v), source, v), mode=mode)
    assert_same_bits(u.numpy(), _loop(U, V))
    found = dr.if_stmt((Float(U),), Float(U) < 0.5, lambda u: lookup(source, u, v) + u, lambda u: -u, mode=mode)
    assert_same_bits(found.numpy(), REGIONS["branch"][1](U, V))


def test_a_recording_repeats_it() -> None:
    def function(source: Node, u: Node) -> list[Node]:
        return [read(source, u, u)]

    recording, (first,) = record(function, [array(TABLE), array(U)])
    assert_same_bits(values(first), looked_up(U, U))
    other = RNG.random(300, dtype=np.float32)
    assert recording.obstacle([array(TABLE[::-1]), array(other)]) is None
    (again,) = recording.replay([array(TABLE[::-1]), array(other)])
    assert_same_bits(values(again), reference(TABLE[::-1], other, other, WIDTH, HEIGHT, True))


@pytest.mark.parametrize("variants", [1, 2, 7])
def test_a_recording_repeats_calls_that_read_what_it_writes(variants: int) -> None:
    """At any size, by other arrays, which stay what they are."""
    def of(number: int, table_: Node) -> Callable[[list[Node]], list[Node]]:
        return lambda s: [ops.add(bilinear(table_, s[0], s[0], uint(WIDTH), uint(HEIGHT), TRUE),
                                  literal(FLOAT32, float(number)))]

    def function(source: Node, u: Node) -> list[Node]:
        before = read(source, u, u)
        written = scatter(source, literal(FLOAT32, 0.5), uint(8), TRUE, ReduceOp.Identity.value,
                          ReduceMode.Auto.value)
        index = ops.mod(cast(ops.mul(u, literal(FLOAT32, 1000)), UINT32), uint(variants))
        found = call(index, TRUE, [of(number, written) for number in range(variants)], [u])[0]
        return [before, written, *found]

    def expected(source: Any, u: Any) -> list[Any]:
        written = source.copy()
        written[8] = 0.5
        number = ((u * np.float32(1000)).astype(np.uint32) % variants).astype(np.float32)
        return [reference(source, u, u, WIDTH, HEIGHT, True), written,
                reference(written, u, u, WIDTH, HEIGHT, True) + number]

    def check(found: list[Node], source: Any, u: Any) -> None:
        for one, other in zip(found, expected(source, u), strict=True):
            assert_same_bits(values(one), other)

    recording, first = record(function, [array(TABLE), array(V)])
    check(first, TABLE, V)
    for size in (300, 5000):
        u, given = RNG.random(size, dtype=np.float32), array(TABLE[::-1])
        arguments = [given, array(u)]
        assert recording.obstacle(arguments) is None
        check(recording.replay(arguments), TABLE[::-1], u)
        assert_same_bits(values(given), TABLE[::-1])


def test_launches_are_found_again_without_planning() -> None:
    for _ in range(4):  # the third one has a recipe
        source, u = ops.add(array(TABLE), literal(FLOAT32, 0)), array(U)
        assert_same_bits(values(read(source, u, u)), looked_up(U, U))


def test_tables_may_have_more_elements_than_signed_indices_reach() -> None:
    width, height = 1 << 16, (1 << 15) + 2
    table = np.zeros(width * height, np.float32)  # pages that nobody has touched take no memory
    table[-2 * width:] = RNG.random(2 * width, dtype=np.float32)
    source = import_shared(FLOAT32, table.ctypes.data, table.size, table)
    assert key_of(read(source)) != key_of(read())
    u, v = np.float32([0.25, 0.5, 1, 0]), np.float32([1, 1, 1, 0])
    expected = reference(table, u, v, width, height, True)
    assert_same_bits(values(bilinear(source, array(u), array(v), uint(width), uint(height), TRUE)), expected)
    one = bilinear(source, literal(FLOAT32, 0.5), literal(FLOAT32, 1), uint(width), uint(height), TRUE)
    assert_same_bits(values(one), expected[1:2])


# --- derivatives -----------------------------------------------------------------------------------------------------

#: Points within the table, and not at the borders of its cells.
INSIDE = [((RNG.integers(0, extent - 1, SIZE) + RNG.uniform(0.2, 0.8, SIZE)) / (extent - 1)).astype(np.float32)
          for extent in (WIDTH, HEIGHT)]


def weights() -> np.ndarray[Any, Any]:
    """The derivative of each result by each element of the table."""
    found = np.zeros((SIZE, TABLE.size), np.float64)
    position = [point.astype(np.float64) * (extent - 1) for point, extent in zip(INSIDE, (WIDTH, HEIGHT), strict=True)]
    first = [place.astype(int) for place in position]
    (fx, fy) = (place - low for place, low in zip(position, first, strict=True))
    for right in (0, 1):
        for below in (0, 1):
            index = (first[1] + below) * WIDTH + first[0] + right
            found[np.arange(SIZE), index] = (fx if right else 1 - fx) * (fy if below else 1 - fy)
    return found


def slopes() -> list[np.ndarray[Any, Any]]:
    """The derivatives of the results by the coordinates, by finite differences within a cell, where it is bilinear."""
    result = []
    for axis in (0, 1):
        step = [np.float32(1e-2) if each == axis else np.float32(0) for each in (0, 1)]
        ends = [reference(TABLE.astype(np.float64), *(point.astype(np.float64) + sign * each for point, each in
                                                      zip(INSIDE, step, strict=True)), WIDTH, HEIGHT, True)
                for sign in (1, -1)]
        result.append((ends[0].astype(np.float64) - ends[1]) / 2e-2)
    return result


def test_gradients_flow_to_the_table_and_both_coordinates() -> None:
    source, u, v = ad.Float(TABLE), ad.Float(INSIDE[0]), ad.Float(INSIDE[1])
    dr.enable_grad(source, u, v)
    dr.backward(lookup(source, u, v))
    np.testing.assert_allclose(source.grad.numpy(), weights().sum(0), rtol=1e-4)
    np.testing.assert_allclose(u.grad.numpy(), slopes()[0], atol=2e-4)
    np.testing.assert_allclose(v.grad.numpy(), slopes()[1], atol=2e-4)


@pytest.mark.parametrize("place", range(3))
def test_changes_flow_from_each_operand(place: int) -> None:
    operands = [ad.Float(TABLE), ad.Float(INSIDE[0]), ad.Float(INSIDE[1])]
    dr.enable_grad(operands[place])
    change = RNG.random(dr.width(operands[place]), dtype=np.float32)
    dr.set_grad(operands[place], ad.Float(change))
    found = dr.forward_to(lookup(*operands))
    expected = weights() @ change if place == 0 else slopes()[place - 1] * change
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-4)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_gradients_flow_through_branches_and_loops(mode: str) -> None:
    source, u, v = ad.Float(TABLE), ad.Float(INSIDE[0]), ad.Float(INSIDE[1])
    dr.enable_grad(source, u)
    taken = ad.Bool(MASK)
    dr.backward(dr.if_stmt((u,), taken, lambda u: lookup(source, u, v), lambda u: u * 2, mode=mode))
    np.testing.assert_allclose(source.grad.numpy(), weights()[MASK].sum(0), rtol=1e-4)
    np.testing.assert_allclose(u.grad.numpy(), np.where(MASK, slopes()[0], 2), atol=2e-4)
    source, total = ad.Float(TABLE), dr.zeros(ad.Float, SIZE)
    dr.enable_grad(source)
    _, total = dr.while_loop((ad.UInt(0), total), lambda i, total: i < 3,
                             lambda i, total: (i + 1, total + lookup(source, ad.Float(INSIDE[0]), v)), mode=mode)
    dr.backward(total)
    np.testing.assert_allclose(source.grad.numpy(), 3 * weights().sum(0), rtol=1e-4)


def test_derivatives_are_differentiable() -> None:
    """Second derivatives against differences of first ones, within a cell."""
    points = [TABLE, *INSIDE]
    directions = [RNG.uniform(-1, 1, point.size).astype(np.float32) for point in points]

    def gradients(step: float) -> list[np.ndarray[Any, Any]]:
        moved = [ad.Float(point + np.float32(step) * direction)
                 for point, direction in zip(points, directions, strict=True)]
        return [each.numpy() for each in dr.hvp(lookup, tuple(moved), tuple(map(ad.Float, directions)))[0]]

    found = dr.hvp(lookup, tuple(map(ad.Float, points)), tuple(map(ad.Float, directions)))[1]
    for second, after, before in zip(found, gradients(0.01), gradients(-0.01), strict=True):
        difference = (after.astype(np.float64) - before) / 0.02
        np.testing.assert_allclose(second.numpy(), difference, atol=2e-3 * np.abs(difference).max())


def test_explanations_know_which_operands_derivatives_flow_from() -> None:
    u = ad.Float(INSIDE[0])
    dr.enable_grad(u)
    found = lookup(ad.Float(TABLE), u, ad.Float(INSIDE[1]), u > 0.5)
    assert dr.explain_grad(u, found) == "Derivatives flow from x to y. Some paths are cut:\n  by gt"
    masked = lookup(ad.Float(TABLE), ad.Float(INSIDE[0]), ad.Float(INSIDE[1]), u > 0.5)
    assert dr.explain_grad(u, masked) == "No derivative flows from x to y. The path is cut:\n  by gt"


# --- a row without memory --------------------------------------------------------------------------------------------

NUMBERS = [RNG.random(SIZE, dtype=np.float32) for _ in range(4)]


def crossed(*arrays: Any) -> Any:
    """The other row as a function of arrays."""
    return wrap(type(arrays[0]), [cross(*(each._nodes()[0] for each in arrays))])


def test_a_row_without_memory_is_a_value_like_any(backend: str) -> None:
    a, b, c, d = map(array, NUMBERS)
    expected = NUMBERS[0] * NUMBERS[1] - NUMBERS[2] * NUMBERS[3]
    found = ops.add(cross(a, b, c, d), a)
    assert verify([found]) == 6 and cross(a, b, c, d) is cross(a, b, c, d) is not cross(a, b, d, d)
    assert_same_bits(values(found), expected + NUMBERS[0])
    total = while_loop([literal(UINT32, 0, SIZE), a], lambda s: ops.lt(s[0], uint(2)),
                       lambda s: [ops.add(s[0], uint(1)), cross(s[1], b, c, d)])[1]
    verify([total])
    assert_same_bits(values(total), expected * NUMBERS[1] - NUMBERS[2] * NUMBERS[3])
    assert CROSS.kind < table.FIRST_ELEMENTWISE


@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_by_more_operands_than_a_vertex_has_add_up(reverse: bool) -> None:
    arrays = [ad.Float(numbers) for numbers in NUMBERS]
    dr.enable_grad(arrays)
    found = crossed(*arrays)
    a, b, c, d = NUMBERS
    if reverse:
        dr.backward(found)
        for each, expected in zip(arrays, (b, a, -d, -c), strict=True):
            assert_same_bits(each.grad.numpy(), expected)
    else:
        for each in arrays:
            dr.set_grad(each, ad.Float(1))
        np.testing.assert_allclose(dr.forward_to(found).numpy(), b + a - d - c, rtol=1e-5, atol=1e-6)


def test_second_derivatives_by_more_operands_than_a_vertex_has() -> None:
    directions = [RNG.random(SIZE, dtype=np.float32) for _ in range(4)]
    _, found = dr.hvp(crossed, tuple(map(ad.Float, NUMBERS)), tuple(map(ad.Float, directions)))
    a, b, c, d = directions
    for second, expected in zip(found, (b, a, -d, -c), strict=True):
        assert_same_bits(second.numpy(), expected)


# --- what authors of rows forget -------------------------------------------------------------------------------------


def _scaled(name: str, again: bool = True, derivative: Derivative | None = None, payload: Any = None,
            result: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """What traces ``source[index] * weight`` on arrays, by a row that is registered with a mistake."""
    row = table.register(structural(name, (table.MEMORY, table.VALUE, table.INDEX, table.MASK),
                                    "source[index] * weight", cost=5, needs_memory=True, speculable=False))

    def trace(source: Node, weight: Node, index: Node, mask: Node, *, attr: int = 0, payload: Any = payload) -> Node:
        operands = source, weight, index, mask
        return differentiable(row.kind, traced(row.kind, source.type, [primal(each) for each in operands], attr,
                                               payload), operands)

    if again:
        inline.AGAIN[row.kind] = inline.traced_again_by(trace)
    if derivative is not None:
        register(name, derivative)
    expansion.COMPOSED[row.kind] = result or (
        lambda node, given: ops.mul(expansion.read(given[0], *given[2:]), given[1]))
    return lambda source, weight, index: wrap(type(weight), [trace(
        source._nodes()[0], weight._nodes()[0], index._nodes()[0], TRUE)])


def _given() -> tuple[Any, ...]:
    return ad.Float(1, 2, 3, 4), ad.Float(2, 3, 4), ad.UInt(0, 2, 1)


def _changed(place: int, row: Callable[..., Any]) -> None:
    arguments = _given()
    dr.enable_grad(arguments[place])
    dr.backward(row(*arguments))


def _repeated(row: Callable[..., Any]) -> None:
    source, weight, index = _given()
    dr.enable_grad(weight)
    _, total = dr.while_loop((ad.UInt(0), weight * 0), lambda k, y: k < 2, lambda k, y: (k + 1, y + row(
        source, weight, index)), max_iterations=2)
    dr.backward(total)


_PLAIN = Derivative(lambda given, place, change: change, lambda given, place, gradient: gradient)
_MISTAKES: dict[str, tuple[dict[str, Any], Callable[[Any], Any], type[Exception], str]] = {
    "m_again": ({"again": False, "derivative": _PLAIN}, _repeated, NotImplementedError,
                "cannot be traced again, .* an entry of drjit_core.control.inline.AGAIN"),
    "m_none": ({}, lambda row: _changed(1, row), NoDerivative, "has no derivative: one that is registered needs one"),
    "m_memory": ({"derivative": _PLAIN}, lambda row: _changed(0, row), RuntimeError, "has no derivative by its memory"),
    "m_nothing": ({"derivative": Derivative(lambda *_: None, lambda *_: None)},  # type: ignore[arg-type,return-value]
                  lambda row: _changed(1, row), TypeError, "must return a node .* 1 or 3 elements, found NoneType"),
    "m_size": ({"derivative": Derivative(_PLAIN.forward, lambda *_: literal(FLOAT32, 1, 5))},
               lambda row: _changed(1, row), TypeError, "must return a node .* 1 or 3 elements, found float32.5.$"),
    "m_number": ({"payload": (1.5,)}, lambda row: dr.eval(row(*_given())), TypeError,
                 "must be a tuple of integers, found .1.5,.$"),
    "m_whole": ({"payload": 5}, lambda row: dr.eval(row(*_given())), TypeError, "must be a tuple of integers, .* 5$"),
    "m_lost": ({"result": lambda node, given: None}, lambda row: dr.eval(row(*_given())), TypeError,
               "must return float32.3., found NoneType$"),
    "m_type": ({"result": lambda node, given: literal(UINT32, 1)}, lambda row: dr.eval(row(*_given())), TypeError,
               "must return float32.3., found uint32.1.$"),
}


@pytest.mark.parametrize("name", _MISTAKES)
def test_what_a_row_lacks_is_told_by_its_name(name: str) -> None:
    options, program, error, message = _MISTAKES[name]
    row = _scaled(name, **options)
    for _ in range(2):
        with pytest.raises(error, match=f"the row '{name}' {message}"):
            program(row)
    assert (ad.Float(1, 2) + 1).numpy().tolist() == [2, 3]


def test_memory_comes_first() -> None:
    with pytest.raises(ValueError, match="the row m_order has memory behind other operands"):
        table.register(structural("m_order", (table.VALUE, table.MEMORY), "", needs_memory=True))
    assert "m_order" not in table.KIND


def test_there_is_room_for_the_rows_of_other_packages() -> None:
    """Those of textures and networks are registered when they are needed first."""
    program = ("import drjit.llvm as llvm; llvm.Texture2f; from drjit_core.ops import table; "
               "print(sum(row.name.startswith('vacant_') for row in table.OPS))")
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(found.stdout) >= 24
