"""Parts of arrays: neighbours are read as packets, forwards or backwards; everything else is gathered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drjit_core import (
    KIND,
    Node,
    access,
    bound,
    counter,
    evaluate,
    interpret,
    literal,
    ops,
    record,
    reduce,
    scatter,
    while_loop,
)
from drjit_core.codegen.listing import format_program
from drjit_core.codegen.program import REVERSED, SHIFTED, SHIFTED_UNALIGNED
from drjit_core.ir.trace import opaque
from tests.core.harness import (
    ALL_TYPES,
    BOOL,
    FLOAT32,
    TRUE,
    UINT32,
    array,
    assert_same_bits,
    dtype_of,
    key_of,
    launches,
    name_of,
    program_of,
    shared,
    values,
)

SIZES = (2, 5, 16, 17, 63, 64, 65, 1000)
#: First position, stride and number of elements, for a size.
PARTS = {
    "all but the first": lambda n: (1, 1, n - 1), "all but the last": lambda n: (0, 1, n - 1),
    "backwards": lambda n: (n - 1, -1, n), "all but the first, backwards": lambda n: (n - 1, -1, n - 1),
    "the middle": lambda n: (n // 3, 1, max(1, n // 2)), "all": lambda n: (0, 1, n), "one": lambda n: (n - 1, 1, 1),
    "every other one": lambda n: (0, 2, (n + 1) // 2), "every third one, backwards": lambda n: (n - 1, -3, n // 3),
    "none": lambda n: (0, 1, 0), "one, repeated": lambda n: (1, 0, 7)}


def contents(type_: int, size: int) -> np.ndarray[Any, Any]:
    return (np.arange(size) % 3 != 1).astype(bool) if type_ == BOOL else np.arange(1, size + 1).astype(dtype_of(type_))


def pick(data: np.ndarray[Any, Any], first: int, stride: int, size: int) -> np.ndarray[Any, Any]:
    return data[first + stride * np.arange(size)]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
def test_parts_of_arrays_of_every_type_and_kind_of_memory(type_: int, part: str) -> None:
    for size in SIZES:
        data, chosen = contents(type_, size), PARTS[part](size)
        for source in (array(data), shared(data), opaque(array(data)), literal(type_, data[0].item(), size)):
            expected = pick(np.full(size, data[0]) if source.kind == KIND["literal"] else data, *chosen)
            node = access(source, *chosen)
            if node.size:
                (interpreted,) = interpret([node])
                assert_same_bits(interpreted, expected, part, size)
            assert_same_bits(values(node), expected, part, size)


def wide(size: int = 100) -> Node:
    return array(np.arange(size, dtype=np.float32))


def layouts(*roots: Node) -> list[int]:
    program = program_of(*roots)
    return [program.accesses[node.id] for node in program.order if node.kind == KIND["access"]]


def test_neighbours_are_read_as_packets() -> None:
    assert layouts(access(wide(), 1, 1, 99)) == [SHIFTED]
    assert layouts(access(shared(np.zeros(100, np.float32)), 1, 1, 99)) == [SHIFTED_UNALIGNED]
    assert layouts(access(wide(), 99, -1, 100)) == [REVERSED]
    assert access(wide(), 0, 2, 50).kind == KIND["view"]
    assert access(wide(), 5, 1, 1).kind == KIND["gather"]


def test_where_a_part_begins_is_no_part_of_the_key_but_its_layout_is() -> None:
    x = wide()
    assert key_of(access(x, 1, 1, 50)) == key_of(access(x, 40, 1, 30))
    assert len({key_of(access(x, 50, 1, 50)), key_of(access(x, 50, -1, 50)),
                key_of(access(shared(np.zeros(100, np.float32)), 50, 1, 50)), key_of(access(x, 3, -1, 2))}) == 3


def test_parts_of_one_array_share_a_kernel_with_what_uses_them() -> None:
    x = wide()
    with launches() as entries:
        assert_same_bits(values(ops.sub(access(x, 1, 1, 99), access(x, 0, 1, 99))), np.ones(99, np.float32))
    assert len(entries) == 1
    assert access(x, 1, 1, 99) is access(x, 1, 1, 99) is not access(x, 1, 1, 98)


def test_parts_of_what_is_cheap_are_computed_of_parts() -> None:
    x = wide()
    with launches() as entries:
        found = values(access(ops.mul(x, x), 99, -1, 100))
    assert_same_bits(found, np.arange(99, -1, -1, dtype=np.float32) ** 2)
    assert len(entries) == 1


def test_what_is_not_in_memory_is_stored_first() -> None:
    x = wide()
    with launches() as entries:
        found = values(access(ops.div(ops.div(ops.div(ops.mul(x, x), x), x), literal(FLOAT32, 4)), 99, -1, 99))
    assert_same_bits(found, np.full(99, 0.25, np.float32))
    assert [entry["size"] for entry in entries] == [100, 99]
    total = access(ops.add(x, reduce(x, 1)), 3, 1, 4)  # 1: a sum
    assert_same_bits(values(total), np.arange(4953, 4957, dtype=np.float32))


def test_a_part_that_is_pending_keeps_what_it_reads() -> None:
    x = array(np.arange(100, dtype=np.float32))
    part = access(x, 1, 1, 99)
    x = scatter(x, access(x, 0, 1, 99), ops.add(counter(99), literal(UINT32, 1)), TRUE, 0, 0)
    evaluate([x, part])
    assert_same_bits(values(part), np.arange(1, 100, dtype=np.float32))
    assert_same_bits(values(x), np.concatenate([[0], np.arange(99)]).astype(np.float32))


def test_positions_beyond_the_array_are_refused() -> None:
    for first, stride, size in ((1, 1, 100), (-1, 1, 3), (2, -1, 4), (100, 1, 1), (0, 60, 3)):
        with pytest.raises(IndexError, match=r"access\(\): .* not all within an array of size 100"):
            access(wide(), first, stride, size)


def test_parts_in_loops_and_recordings() -> None:
    x = wide()
    whole = access(x, 1, 1, 50)

    def body(state: list[Node]) -> list[Node]:
        i, v = state
        return [ops.add(i, literal(UINT32, 1)), ops.add(ops.add(v, whole), access(x, 49, -1, 50))]

    _, found = while_loop((literal(UINT32, 0), literal(FLOAT32, 0.0, 50)), lambda state: ops.lt(
        state[0], literal(UINT32, 3)), body)
    assert_same_bits(values(found), np.full(50, 150, np.float32))
    recording, _ = record(lambda y: [ops.add(access(y, 1, 1, 50), whole), bound(UINT32, 3)], [x])
    y = array(np.arange(100, 0, -1, dtype=np.float32))
    assert_same_bits(values(recording.replay([y])[0]), np.full(50, 100, np.float32))
    assert recording.obstacle([wide(50)]) is not None and recording.obstacle([wide(51)]) is None


def test_listings_show_parts() -> None:
    assert "access(parameter 2) from the position in parameter 3 on, backwards" in format_program(
        program_of(access(wide(), 99, -1, 100)))
