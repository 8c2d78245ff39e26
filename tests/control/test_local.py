"""Local memory: each lane has a buffer of its own, in plain code and in loops, branches and calls of every mode.

Random programs are compared with a model on NumPy arrays, in which a buffer is a matrix of lanes and entries.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import random
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm import (
    Array2f,
    Array3f,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int,
    TensorXf,
    UInt,
    UInt64,
    ad,
)
from drjit_core import SymbolicValue, on_backend
from drjit_core.codegen import program as programs
from drjit_core.runtime.cpu.launches import course_of
from drjit_core.runtime.cpu.target import CPU_TARGET
from drjit_core.runtime.cpu.texts import TEXTS
from drjit_core.runtime.null import Null

MODES = ["symbolic", "evaluated"]


@dataclasses.dataclass
class Node:
    depth: UInt = dataclasses.field(default_factory=UInt)
    box: Array2f = dataclasses.field(default_factory=lambda: Array2f(0))


class Ray:
    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"origin": Array3f, "alive": Bool}


def plain(value: Any) -> Any:
    return np.asarray(value).tolist()


def entries(local: Any) -> list[Any]:
    """All entries, for each lane."""
    return np.stack([np.broadcast_to(np.asarray(local[k]), max(dr.width(local[j]) for j in range(len(local))))
                     for k in range(len(local))], -1).tolist()


# --- plain code ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 3, 16, 17, 100])
def test_lanes_have_entries_of_their_own(width: int) -> None:
    local = dr.alloc_local(UInt, 5, value=UInt(7))
    lane = dr.arange(UInt, width)
    local.write(lane, lane % 5)
    expected = np.full((width, 5), 7)
    expected[np.arange(width), np.arange(width) % 5] = np.arange(width)
    assert entries(local) == expected.tolist()
    local[2] = 9
    local.write(lane + 100, 3, lane % 2 == 0)
    expected[:, 2] = 9
    expected[::2, 3] = 100 + np.arange(width)[::2]
    assert entries(local) == expected.tolist()


def test_contents_of_one_lane_are_repeated_when_there_are_more() -> None:
    local = dr.alloc_local(Float, 3)
    for k in range(3):
        local[k] = Float(k + 1)
    local[UInt(0, 1, 2, 0)] = Float(10)
    assert entries(local) == [[10, 2, 3], [1, 10, 3], [1, 2, 10], [10, 2, 3]]


@pytest.mark.parametrize(("dtype", "value"), [
    (Float, Float(1, 2)), (Bool, Bool(True, False)), (UInt64, UInt64(1 << 40, 3)), (Array3f, Array3f([1, 2], 3, 4)),
    (Complex2f, Complex2f([1, 2], 3)), (llvm.Matrix2f, llvm.Matrix2f(1, 2, 3, 4)), (llvm.Float16, llvm.Float16(1, 2)),
    (llvm.ad.Float, llvm.ad.Float(1, 2)), (scalar.Array3f, scalar.Array3f(1, 2, 3)), (float, 2.5), (int, 3),
    (bool, True), (llvm.Quaternion4f, llvm.Quaternion4f(1, 2, 3, 4))])
def test_types(dtype: Any, value: Any) -> None:
    local = dr.alloc_local(dtype, 2)
    local[1] = value
    assert type(local[1]) is dtype
    assert plain(local[1]) == plain(value)
    full = dr.alloc_local(dtype, 2, value=value)
    assert plain(full[0]) == plain(full[1]) == plain(value)


def test_pytrees() -> None:
    local = dr.alloc_local(Node, 4, value=Node(UInt(1), Array2f(2)))
    local[UInt(0, 1)] = Node(UInt(5), Array2f([6, 7], 8))
    found = local[0]
    assert type(found) is Node
    assert (plain(found.depth), plain(found.box)) == ([5, 1], [[6, 2], [8, 2]])
    rays = dr.alloc_local(Ray, 2)
    ray = Ray()
    ray.origin, ray.alive = Array3f(1, 2, [3, 4]), Bool(True)
    rays[1] = ray
    assert type(rays[1]) is Ray
    assert plain(rays[1].origin) == [[1, 1], [2, 2], [3, 4]]
    pair = dr.alloc_local(tuple, 2, value=(Float(1), {"a": Int(2)}))
    pair[0] = Float(3, 4), {"a": Int(-5)}
    assert str(pair[0]) == "([3, 4], {'a': [-5, -5]})"
    rows = dr.alloc_local(ArrayXf, 2, value=ArrayXf([[1], [2], [3]]))
    assert plain(rows[0]) == [[1], [2], [3]]


def test_copies_are_independent() -> None:
    for make in (dr.Local, copy.copy, copy.deepcopy):
        for index in (0, UInt(0, 1)):
            local = dr.alloc_local(Float, 2, value=Float(1))
            local[index] = 2
            other = make(local)
            local[index] = 3
            other[1] = 4
            assert (plain(local[0])[0], plain(other[0])[0]) == (3, 2)
            assert plain(local[1])[0] == 1
    numbers = dr.alloc_local(float, 2, value=1.0)
    other = dr.Local(numbers)
    numbers[0] = 5
    assert (numbers[0], other[0]) == (5, 1)


def test_masked_reads_are_zero() -> None:
    local = dr.alloc_local(Array2f, 2, value=Array2f(3, 4))
    assert plain(local.read(1, Bool(True, False))) == [[3, 0], [4, 0]]
    numbers = dr.alloc_local(int, 2, value=3)
    numbers.write(4, 1, False)
    assert (numbers.read(1, False), numbers[1]) == (0, 3)


def test_scalar_entries_are_not_shared() -> None:
    local = dr.alloc_local(scalar.Array3f, 2, value=scalar.Array3f(1))
    value = scalar.Array3f(2)
    local[0] = value
    value.x = 9
    found = local[0]
    found.y = 9
    assert plain(local[0]) == [2, 2, 2]
    assert plain(local[1]) == [1, 1, 1]


@pytest.mark.parametrize("others", [False, True], ids=["its own lanes", "others"])
def test_loops_over_a_buffer_share_a_kernel(others: bool) -> None:
    """Lanes need not wait for others, whose entries they do not read; lanes of other memory do."""
    lanes, size = 1000, 8

    def filled(k: UInt, local: Any) -> Any:
        local[k] = Float(dr.arange(UInt, lanes) * (k + 1))
        return k + 1, local

    def doubled(k: UInt, local: Any) -> Any:
        local[k] = dr.if_stmt((local[k],), local[k] > 50, lambda x: x * 2, lambda x: x)
        return k + 2, local

    def added(k: UInt, total: Float, local: Any) -> Any:
        return k + 1, total + local[k], local

    def result() -> Float:
        local = dr.alloc_local(Float, size, value=Float(0))
        local = dr.while_loop((UInt(0), local), lambda k, local: k < size, filled)[1]
        local = dr.while_loop((UInt(0), local), lambda k, local: k < size, doubled)[1]
        total = dr.while_loop((UInt(0), dr.zeros(Float, lanes), local), lambda k, *_: k < size, added)[1]
        if others:
            shared = dr.zeros(Float, lanes)
            dr.scatter(shared, total, dr.arange(UInt, lanes))
            total = dr.while_loop((UInt(0), total), lambda k, x: k < 1, lambda k, x: (
                k + 1, x + dr.gather(Float, shared, lanes - 1 - dr.arange(UInt, lanes))))[1]
        return total + local[3]

    entries = np.arange(lanes)[:, None] * np.arange(1, size + 1.0)
    entries[:, ::2] *= np.where(entries[:, ::2] > 50, 2, 1)
    wanted = entries.sum(1)
    wanted = wanted + (wanted[::-1] if others else 0) + entries[:, 3]
    for _ in range(3):  # planned, and launched again
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            found = result()
            dr.eval(found)
            sources = [entry["ir"].getvalue() for entry in dr.kernel_history([dr.KernelType.JIT])]
        assert found.numpy().tolist() == wanted.tolist()
        looping = [text for text in sources if re.search(r"^\S*loop\d+:", text, re.MULTILINE)]
        assert len(looping) == 1 + others


def test_writes_in_plain_code_are_one_kernel() -> None:
    local = dr.alloc_local(Float, 4, value=Float(0))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        for k in range(4):
            local[k] = dr.arange(Float, 100) * k
        total = local[1] + local[3]
        dr.eval(total)
        assert len(dr.kernel_history([dr.KernelType.JIT])) == 1  # no memory is needed
        assert plain(local[UInt([1, 2] * 50)])[:4] == [0, 2, 2, 6]
        assert plain(local.read(2, dr.arange(UInt, 100) > 98))[-2:] == [0, 198]
    assert plain(total)[5] == 20


def test_evaluation() -> None:
    local = dr.alloc_local(UInt, 2, value=UInt(0))
    for _ in range(3):
        local[UInt(0, 1, 0)] += 1
        local[1] += 10
        dr.eval(local)
    assert entries(local) == [[3, 30], [0, 33], [3, 30]]


# --- loops, branches and calls ---------------------------------------------------------------------------------------

Program = Callable[[str], Any]
PROGRAMS: dict[str, tuple[Program, Any]] = {}
TRIPS = UInt(0, 1, 2, 3, 7)


def program(expected: Any) -> Callable[[Program], None]:
    def add(function: Program) -> None:
        PROGRAMS[function.__name__] = function, expected
    return add


def repeat(body: Callable[[UInt], None], mode: str, trips: UInt = TRIPS) -> None:
    """``body(k)`` for each ``k`` below a lane's number of trips."""
    def step(k: UInt) -> tuple[UInt]:
        body(k)
        return (k + 1,)

    dr.while_loop((UInt(0),), lambda k: k < trips, step, mode=mode)


def count_in(local: Any, amount: int = 1) -> Callable[[UInt], None]:
    def body(k: UInt) -> None:
        local[k % 3] += amount
    return body


COUNTS = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1], [3, 2, 2]]


@program(COUNTS)
def from_outside(mode: str) -> Any:
    local = dr.alloc_local(UInt, 3, value=UInt(0))
    repeat(count_in(local), mode)
    return entries(local)


@program([[COUNTS, COUNTS], True])
def state(mode: str) -> Any:
    local = dr.alloc_local(UInt, 3, value=UInt(0))

    def body(k: UInt, local: Any) -> Any:
        local[k % 3] += 1
        return k + 1, local

    _, found = dr.while_loop((UInt(0), local), lambda k, local: k < TRIPS, body, mode=mode)
    return [entries(found), entries(local)], found is local


@program(COUNTS)
def already_wide(mode: str) -> Any:
    local = dr.alloc_local(UInt, 3)
    for k in range(3):
        local[k] = dr.zeros(UInt, 5)
    repeat(count_in(local), mode)
    return entries(local)


@program([[1, 2, 3]] * 5)
def uniform_counter_and_wide_buffer(mode: str) -> Any:
    local = dr.alloc_local(UInt, 3, value=UInt(0))
    local[0] = dr.zeros(UInt, 5)

    def body(k: UInt) -> None:
        local[k] = dr.select(k == 0, 0, local[dr.maximum(k, 1) - 1]) + 1

    repeat(body, mode, UInt(3))
    return entries(local)


@program([[COUNTS, [[5 * c for c in row] for row in COUNTS]]])
def two_buffers(mode: str) -> Any:
    first, second = (dr.alloc_local(UInt, 3, value=UInt(0)) for _ in range(2))

    def body(k: UInt) -> None:
        first[k % 3] += 1
        second[k % 3] += 5

    repeat(body, mode)
    return [[entries(first), entries(second)]]


@program([0, 0, 1, 3, 21])
def made_within(mode: str) -> Any:
    def body(k: UInt, total: UInt) -> Any:
        local = dr.alloc_local(UInt, 4, value=UInt(0))
        local[k % 4] += k
        return k + 1, total + local[k % 4] + local[(k + 1) % 4]

    return plain(dr.while_loop((UInt(0), UInt(0)), lambda k, _: k < TRIPS, body, mode=mode)[1])


@program([0, 40, 80, 120, 280])
def many_entries_made_within(mode: str) -> Any:
    def body(k: UInt, total: UInt) -> Any:
        local = dr.alloc_local(Array2f, 20, value=Array2f(1))
        local[k] = Array2f(2, 0)
        other = dr.Local(local)
        local[3] = Array2f(100)
        return k + 1, total + UInt(sum(dr.sum(other[j]) for j in range(20)))

    return plain(dr.while_loop((UInt(0), UInt(0)), lambda k, _: k < TRIPS, body, mode=mode)[1])


@program([[0, 1, 2, 3, 7], COUNTS])
def nested_loops(mode: str) -> Any:
    outer = dr.alloc_local(UInt, 3, value=UInt(0))

    def body(k: UInt, total: UInt) -> Any:
        inner = dr.alloc_local(UInt, 3, value=UInt(0))

        def step(j: UInt) -> Any:
            inner[j] = j
            scratch = dr.alloc_local(UInt, 2, value=UInt(0))
            scratch[1] = inner[j]
            inner[j] = scratch[0] + scratch[1]
            outer[k % 3] += inner[j]
            return (j + 1,)

        dr.while_loop((UInt(0),), lambda j: j < 2, step, mode=mode)
        return k + 1, total + inner[1] + inner[0] + inner[2]

    _, total = dr.while_loop((UInt(0), UInt(0)), lambda k, _: k < TRIPS, body, mode=mode)
    return [plain(total), entries(outer)]


@program([[0, 10, 20, 3, 4], [[0, 9], [0, 9], [0, 9], [3, 8], [4, 8]]])
def branch(mode: str) -> Any:
    local = dr.alloc_local(UInt, 2, value=UInt(0))
    x = dr.arange(UInt, 5)

    def true(x: UInt) -> UInt:
        local[0] = x
        local[1] = 8
        return local[0]

    def false(x: UInt) -> UInt:
        local[1] = 9
        return x * 10

    found = dr.if_stmt((x,), x > 2, true, false, mode=mode)
    return [plain(found), entries(local)]


@program([0, 10, 20, 3, 4])
def made_in_a_branch(mode: str) -> Any:
    x = dr.arange(UInt, 5)

    def true(x: UInt) -> UInt:
        local = dr.alloc_local(UInt, 2, value=UInt(1))
        local[x % 2] = x
        return local[x % 2]

    return plain(dr.if_stmt((x,), x > 2, true, lambda x: x * 10, mode=mode))


@program([True, [[0, 0], [0, 0], [0, 0], [3, 0], [4, 0]]])
def argument_and_result_of_a_branch(mode: str) -> Any:
    local = dr.alloc_local(UInt, 2, value=UInt(0))
    x = dr.arange(UInt, 5)

    def true(x: UInt, local: Any) -> Any:
        local[0] = x
        return local

    found = dr.if_stmt((x, local), x > 2, true, lambda x, local: local, mode=mode)
    return [found is local, entries(local)]


@program([[0, 1, 12, 3, 14], [[0, 7], [7, 1], [2, 7], [7, 3], [4, 7]]])
def call(mode: str) -> Any:
    local = dr.alloc_local(UInt, 2, value=UInt(7))

    def even(x: UInt) -> UInt:
        local[0] = x
        own = dr.alloc_local(UInt, 3, value=UInt(10))
        own[0] = local[0]
        return own[0] + dr.select(x > 0, own[2], 0)

    def odd(x: UInt) -> UInt:
        local[1] = x
        own = dr.alloc_local(UInt, 2)
        own[1] = local[1]
        return own[1]

    x = dr.arange(UInt, 5)
    return [plain(dr.switch(x % 2, [even, odd], x, mode=mode)), entries(local)]


@program([[9, 4, 9, 4, 9], [[1, 0], [0, 2], [1, 0], [0, 2], [1, 0]]])
def writes_that_are_the_same_in_all_lanes_of_a_call(mode: str) -> Any:
    local = dr.alloc_local(UInt, 2, value=UInt(0))

    def even() -> UInt:
        local[0] = 1
        return UInt(9)

    def odd() -> UInt:
        local[1] = 2
        return UInt(4)

    return [plain(dr.switch(dr.arange(UInt, 5) % 2, [even, odd], mode=mode)), entries(local)]


@program([[0], [3], [3, 3, 3]])
def one_lane(mode: str) -> Any:
    local = dr.alloc_local(UInt, 2, value=UInt(0))
    repeat(lambda k: local.write(k + 1, 1), mode, UInt(3))
    first = [plain(local[0]), plain(local[1])]
    repeat(lambda k: local.write(local[1], 0), mode, UInt(1, 2, 0))
    return [*first, plain(local[1])]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, mode: str) -> None:
    function, expected = PROGRAMS[name]
    assert [*function(mode)] == expected


def test_memory_from_outside_is_read_where_nobody_writes() -> None:
    local = dr.alloc_local(UInt, 4)
    for k in range(4):
        local[k] = dr.arange(UInt, 5) * 10 + k
    k, total = dr.while_loop((UInt(0), UInt(0)), lambda k, _: k < 4, lambda k, total: (k + 1, total + local[k]))
    assert plain(total) == [6, 46, 86, 126, 166]


def test_conditions_read() -> None:
    local = dr.alloc_local(UInt, 2, value=UInt(0))
    local[1] = UInt(3, 1, 0)

    def body(k: UInt) -> Any:
        local[0] += 2
        local[1] -= 1
        return (k + 1,)

    k, = dr.while_loop((UInt(0),), lambda k: local[1] > 0, body)
    assert (plain(k), plain(local[0])) == ([3, 1, 0], [6, 2, 0])


@pytest.mark.parametrize("start", [[0], [0, 1]])
def test_calls_that_a_later_trace_knows_to_be_of_one_function(start: list[int]) -> None:
    """Memory is made in a call first, and then in the loop around it, for an index that is the same in all of it."""
    def written(x: UInt) -> UInt:
        local = dr.alloc_local(UInt, 4, value=UInt(0))
        local[x & 3] = UInt(2)
        return local[x & 3]

    def body(k: UInt, which: UInt, x: UInt) -> Any:
        return k + 1, which, dr.switch(which % 2, [written, lambda x: x], x, mode="symbolic")

    k, _, x = dr.while_loop((UInt(start), UInt(0), UInt(1)), lambda k, *_: k < 3, body, mode="symbolic")
    assert (plain(k), plain(x)) == ([3] * len(start), [2] * len(start))


# --- typical uses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_insertion_sort(mode: str) -> None:
    count, width = 8, 37
    data = np.random.default_rng(1).random((count, width), np.float32)
    local = dr.alloc_local(Float, count)
    for k in range(count):
        local[k] = Float(data[k])

    def insert(i: UInt) -> Any:
        value, j = local[i], UInt(i)

        def move(j: UInt) -> Any:
            local[j] = local[j - 1]
            return (j - 1,)

        j, = dr.while_loop((j,), lambda j: (j > 0) & (local.read(j - 1, j > 0) > value), move, mode=mode)
        local[j] = value
        return (i + 1,)

    dr.while_loop((UInt(1),), lambda i: i < count, insert, mode=mode)
    assert np.array_equal(np.stack([np.asarray(local[k]) for k in range(count)]), np.sort(data, 0))


@pytest.mark.parametrize("mode", MODES)
def test_histogram(mode: str) -> None:
    width, steps = 50, 20
    local = dr.alloc_local(UInt, 6, value=UInt(0))
    lane = dr.arange(UInt, width)

    def body(k: UInt, seed: UInt) -> Any:
        local[(seed >> 16) % 6] += 1
        return k + 1, seed * 1664525 + 1013904223

    dr.while_loop((UInt(0), lane), lambda k, _: k < steps, body, mode=mode)
    expected, seed = np.zeros((width, 6), np.uint32), np.arange(width, dtype=np.uint32)
    for _ in range(steps):
        expected[np.arange(width), (seed >> 16) % 6] += 1
        seed = seed * np.uint32(1664525) + np.uint32(1013904223)
    assert entries(local) == expected.tolist()


@pytest.mark.parametrize("mode", MODES)
def test_stack_of_a_traversal(mode: str) -> None:
    """Sums of the leaves below a bound in a binary tree whose nodes are numbered as in a heap."""
    leaves, width = 16, 33
    bound = dr.arange(UInt, width) % (leaves + 1)

    stack = dr.alloc_local(UInt, 8)
    stack[0] = UInt(1)

    def visit(top: UInt, total: UInt) -> Any:
        top -= 1
        node = stack[top]
        leaf = node >= leaves
        taken = leaf & (node - leaves < bound)
        stack.write(2 * node, top, ~leaf)
        stack.write(2 * node + 1, top + 1, ~leaf)
        return dr.select(leaf, top, top + 2), total + dr.select(taken, node - leaves, 0)

    _, total = dr.while_loop((UInt(1), dr.zeros(UInt, width)), lambda top, _: top > 0, visit, mode=mode)
    assert plain(total) == [n * (n - 1) // 2 for n in np.asarray(bound).tolist()]


# --- random programs -------------------------------------------------------------------------------------------------


class Random:
    """A program of reads and writes by index, within loops and branches, for arrays or for one lane in numbers."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.size = self.choose.choice([1, 2, 3, 5])
        self.buffers = self.choose.choice([1, 2])
        self.program = self.block(3)

    def block(self, depth: int) -> list[Any]:
        kinds = ["write", "write", "read", "masked", "uniform", *(["loop", "branch", "call", "own"] * (depth > 0))]
        return [self.statement(self.choose.choice(kinds), depth) for _ in range(self.choose.randint(1, 3))]

    def statement(self, kind: str, depth: int) -> Any:
        numbers = [self.choose.randint(1, 9) for _ in range(3)]
        buffer = self.choose.randrange(self.buffers)
        blocks = {"loop": 1, "branch": 2, "call": 2, "own": 1}.get(kind, 0)
        return kind, buffer, numbers, [self.block(depth - 1) for _ in range(blocks)]

    def run(self, lane: Any, mode: str) -> list[Any]:
        uint = type(lane)
        buffers = [dr.alloc_local(uint, self.size, value=uint(k + 1)) for k in range(self.buffers)]
        x = self.run_block(self.program, lane + 0, lane, buffers, mode)
        return [x, *(buffer[k] for buffer in buffers for k in range(self.size))]

    def run_block(self, block: list[Any], x: Any, lane: Any, buffers: list[Any], mode: str) -> Any:
        for kind, number, (a, b, c), blocks in block:
            buffer = buffers[number]
            place = (x * a + lane + b) % self.size
            if kind == "write":
                buffer[place] = (x + c) % 1000
            elif kind == "read":
                x = (x + buffer[place] * b) % 1000
            elif kind == "masked":
                buffer.write((x + lane) % 1000, place, (x + a) % 2 == 0)
                x = (x + buffer.read(place, (lane + c) % 3 == 0)) % 1000
            elif kind == "uniform":
                buffer[a % self.size] = (buffer[b % self.size] + c) % 1000
            elif kind == "own":
                own = dr.alloc_local(type(lane), self.size, value=type(lane)(a))
                if c % 2:
                    own[c % self.size] = c
                own[place] = x
                inner = [own, *buffers[1:]]
                x = (self.run_block(blocks[0], x, lane, inner, mode) + own[b % self.size]) % 1000
            elif kind == "loop":
                def body(k: Any, x: Any, block: Any = blocks[0]) -> Any:
                    return k + 1, self.run_block(block, x, lane, buffers, mode)

                trips = (lane + a) % 4
                _, x = dr.while_loop((type(lane)(0), x), lambda k, _, trips=trips: k < trips, body, mode=mode)
            else:
                functions = [lambda x, lane, block=block: self.run_block(block, x, lane, buffers, mode)
                             for block in blocks]
                if kind == "branch":
                    x = dr.if_stmt((x, lane), (x + a) % 2 == 0, functions[0], functions[1], mode=mode)
                else:
                    index = (x + b) % 2
                    x = dr.switch(index, functions, x, lane, **({} if mode == "scalar" else {"mode": mode}))
        return x


@pytest.mark.parametrize("seed", range(25))
def test_random_programs(seed: int) -> None:
    random_program, width = Random(seed), 19
    expected = [random_program.run(lane, "scalar") for lane in range(width)]
    for mode in MODES:
        found = random_program.run(dr.arange(UInt, width), mode)
        assert [np.broadcast_to(np.asarray(each), width).tolist() for each in found] == np.array(expected).T.tolist()


@pytest.mark.parametrize("seed", range(100, 110))
def test_random_programs_on_the_interpreter(seed: int) -> None:
    random_program, width = Random(seed), 19
    compiled = random_program.run(dr.arange(UInt, width), "symbolic")
    expected = [np.broadcast_to(np.asarray(each), width).tolist() for each in compiled]
    with on_backend("interpreter"):
        for mode in MODES:
            found = random_program.run(dr.arange(UInt, width), mode)
            assert [np.broadcast_to(np.asarray(each), width).tolist() for each in found] == expected


# --- on the stack ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def arrays_on_stack() -> Iterator[list[int]]:
    """The number of entries of each array that is found to lie on the stack."""
    found: list[int] = []
    append = programs.Program.append_stack

    def counted(self: programs.Program, begin: Any, entries: int) -> None:
        found.append(entries)
        append(self, begin, entries)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs.Program, "append_stack", counted)
        yield found


def rotated(dtype: Any, value: Any, lanes: int, size: int) -> tuple[list[Any], Any]:
    """All entries after a loop has written to some, and what they are."""
    local = dr.alloc_local(dtype, size, **({} if value is None else {"value": dtype(value)}))
    lane = dr.arange(UInt, lanes)

    def write(k: UInt) -> Any:
        local[(lane + k) % size] = dtype(k == 2) if dtype is Bool else dtype(k)
        return (k + 1,)

    dr.while_loop((dr.zeros(UInt, lanes),), lambda k: k < (size if value is None else 3), write)
    expected = np.full((lanes, size), 0 if value is None else value, bool if dtype is Bool else np.float64)
    for k in range(size if value is None else 3):
        expected[np.arange(lanes), (np.arange(lanes) + k) % size] = (k == 2) if dtype is Bool else k
    return [local[k] for k in range(size)], expected


@pytest.mark.parametrize("dtype", [Bool, Float16, Float, Float64, Int, UInt64])
@pytest.mark.parametrize("value", [None, 0, 1, 3])
@pytest.mark.parametrize("lanes", [1, 2, 16, 17, 100, 1000])
def test_memory_of_one_kernel_lies_on_the_stack(dtype: Any, value: Any, lanes: int) -> None:
    if dtype is Bool and value == 3:
        return
    for repetition in range(3):  # planned, and launched by a recipe
        with arrays_on_stack() as found:
            values, expected = rotated(dtype, value, lanes, 5)
            dr.eval(values)
        assert repetition or found == ([5] if lanes > 1 else [])
        assert np.array_equal(np.stack([np.asarray(each) for each in values], 1), expected)


def test_sizes_that_recipes_tell_apart() -> None:
    for lanes, size in 2 * [(64, 4), (64, 4), (64, 4), (32, 8), (17, 4), (100, 3), (64, 4), (40, 8), (17, 8),
                            (1000, 2)]:
        values, expected = rotated(Float, 7, lanes, size)
        dr.eval(values)
        assert np.array_equal(np.stack([np.asarray(each) for each in values], 1), expected)


def test_the_target_says_how_much_of_it_a_kernel_has() -> None:
    def launches(most: int) -> int:
        with on_backend(Null(TEXTS, CPU_TARGET._replace(local=CPU_TARGET.local._replace(kernel=most)))) as backend:
            assert isinstance(backend, Null)
            dr.eval(rotated(Float, 7, 64, 4)[0])
            return len(backend.launches)

    assert launches(15) > launches(16) == 1


@pytest.mark.parametrize(("size", "anywhere"), [(16, True), (200, True), (300, False), (2000, False)])
def test_threads_with_small_stacks_leave_large_local_memory_to_the_pool(size: int, anywhere: bool,
                                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads have large ones, and take what is not known to end soon."""
    made: list[programs.Program] = []
    append = programs.Program.append_stack

    def noted(self: programs.Program, begin: Any, entries: int) -> None:
        append(self, begin, entries)
        made.append(self)

    def computed() -> Float:
        local, lane = dr.alloc_local(Float, size, value=Float(0)), dr.arange(UInt, 64)

        def write(k: UInt) -> Any:  # four times, which is known
            local.write(Float(lane), (lane + k) % size)
            return (k + 1,)

        dr.while_loop((UInt(0),), lambda k: k < 4, write)
        return local.read(lane % size)

    def run() -> None:
        results.extend([np.asarray(computed()).tolist() for _ in range(3)])

    results: list[Any] = []
    monkeypatch.setattr(programs.Program, "append_stack", noted)
    run()
    assert made
    assert all((course_of(program).trips is not None) == anywhere for program in made)
    before = threading.stack_size(64 << 10)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert results == 6 * [list(range(64))]


def numbered(lanes: int, size: int, begin: int = 0) -> Any:
    """A buffer that holds ``10 * lane + entry + begin``, which a loop writes."""
    local = dr.alloc_local(UInt, size, value=UInt(0))

    def write(k: UInt) -> Any:
        local[k] = dr.arange(UInt, lanes) * 10 + k + begin
        return (k + 1,)

    dr.while_loop((dr.zeros(UInt, lanes),), lambda k: k < size, write)
    return local


def total(local: Any, lanes: int) -> UInt:
    """The sum of the entries, by a loop."""
    return dr.while_loop((dr.zeros(UInt, lanes), dr.zeros(UInt, lanes)), lambda k, _: k < len(local),
                         lambda k, sum_: (k + 1, sum_ + local[k]))[1]


LANE = np.arange(50)


def test_a_buffer_that_somebody_holds_is_stored() -> None:
    for _ in range(3):
        for held in (True, False):
            local = numbered(50, 4)
            found = total(local, 50)
            if not held:
                del local
            with arrays_on_stack() as stack:
                dr.eval(found)
            assert not (held and stack)
            assert plain(found) == (40 * LANE + 6).tolist()
            if held:
                assert plain(local[3]) == (10 * LANE + 3).tolist()
                local[3] = 1
                assert plain(total(local, 50)) == (30 * LANE + 4).tolist()


def test_what_is_asked_for_later_is_computed_once_more() -> None:
    for _ in range(3):
        local = numbered(50, 4)
        first, second = dr.while_loop((dr.zeros(UInt, 50), dr.zeros(UInt, 50), dr.zeros(UInt, 50)),
                                      lambda k, *_: k < 4, lambda k, sum_, last, local=local: (
                                          k + 1, sum_ + local[k], local[k]))[1:]
        third = local[2]
        del local
        for found, expected in ((first, 40 * LANE + 6), (second, 10 * LANE + 3), (third, 10 * LANE + 2)):
            dr.eval(found)
            assert plain(found) == expected.tolist()


def test_what_writes_to_other_memory_happens_once() -> None:
    for _ in range(3):
        local, counts = dr.alloc_local(UInt, 2, value=UInt(0)), dr.zeros(UInt, 3)

        def body(k: UInt, local: Any = local, counts: UInt = counts) -> Any:
            local[k % 2] += k
            dr.scatter_add(counts, UInt(1), local[k % 2] % 3)
            return (k + 1,)

        k, = dr.while_loop((dr.zeros(UInt, 50),), lambda k: k < 4, body)
        first, second = local[0], local[1]
        del local, body
        dr.eval(first)
        dr.eval(second, k)
        assert (plain(first)[7], plain(second)[7], plain(counts)) == (2, 4, [50, 100, 50])


def test_several_buffers_and_copies() -> None:
    for _ in range(3):
        one, two = numbered(50, 4), numbered(50, 3, 1000)
        three = dr.Local(one)

        def mix(k: UInt, one: Any = one, two: Any = two, three: Any = three) -> Any:
            three[k] = dr.if_stmt((one[k],), one[k] % 3 == 0, lambda x, two=two: x + two[0], lambda x: x)
            return (k + 1,)

        dr.while_loop((dr.zeros(UInt, 50),), lambda k: k < 4, mix)
        found = [total(one, 50), total(two, 50), total(three, 50)]
        del one, two, three, mix
        dr.eval(found)
        values = 10 * LANE[:, None] + np.arange(4)
        changed = np.where(values % 3, values, values + 10 * LANE[:, None] + 1000)
        assert [plain(each) for each in found] == [values.sum(1).tolist(), (30 * LANE + 3003).tolist(),
                                                   changed.sum(1).tolist()]


def test_large_buffers_are_arrays() -> None:
    with arrays_on_stack() as stack:
        found = [total(numbered(50, size), 50) for size in (1000, 2000, 3000)]
        dr.eval(found)
    assert stack == [1000]  # 12 KiB would be too much for two of them
    assert [plain(each) for each in found] == [(10 * LANE * size + size * (size - 1) // 2).tolist()
                                               for size in (1000, 2000, 3000)]


def test_written_by_all_lanes_and_read_by_others() -> None:
    """What an evaluated call is given are other lanes than those with the same positions."""
    for _ in range(3):
        chosen = UInt(np.random.default_rng(0).permutation(50))
        local = numbered(50, 4)
        found = dr.switch(chosen % 2, [lambda x, local=local: total(local, dr.width(x)),
                                       lambda x, local=local: local[1] + 0 * x], chosen, mode="evaluated")
        assert plain(found) == np.where(np.asarray(chosen) % 2, 10 * LANE + 1, 40 * LANE + 6).tolist()
        local = numbered(50, 4)
        dr.switch(chosen % 2, [lambda x, local=local: local.write(x, 1), lambda x: None], chosen, mode="evaluated")
        assert plain(local[1]) == np.where(np.asarray(chosen) % 2, 10 * LANE + 1, np.asarray(chosen)).tolist()


def test_derivatives_of_what_is_read() -> None:
    for evaluated in (False, True, False):
        x = ad.Float(np.linspace(0, 1, 50))
        dr.enable_grad(x)
        local = dr.alloc_local(ad.Float, 4, value=ad.Float(0.5))

        def write(k: ad.UInt, local: Any = local) -> Any:
            local[k] = ad.Float(k) + 1
            return (k + 1,)

        dr.while_loop((dr.zeros(ad.UInt, 50),), lambda k: k < 4, write)
        y = dr.while_loop((dr.zeros(ad.UInt, 50), x), lambda k, y: k < 4,
                          lambda k, y, local=local: (k + 1, y * local[k]), max_iterations=4)[1]
        del local, write
        if evaluated:
            dr.eval(y)
        dr.backward(dr.sum(y))
        assert plain(x.grad) == [24] * 50


@pytest.mark.parametrize("seed", range(200, 212))
def test_random_programs_evaluated_at_once(seed: int) -> None:
    random_program = Random(seed)
    for lanes in (19, 40, 7, 19):
        expected = np.array([random_program.run(lane, "scalar") for lane in range(lanes)]).T.tolist()
        for first in (0, 1):
            found = random_program.run(dr.arange(UInt, lanes), "symbolic")
            dr.eval(found[:first])
            dr.eval(found)
            assert [np.broadcast_to(np.asarray(each), lanes).tolist() for each in found] == expected


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("function", "error", "message"), [
    (lambda: dr.alloc_local(Float, 0), ValueError, "drjit.alloc_local(): 'size' must be an int >= 1, found 0."),
    (lambda: dr.alloc_local(Float, 1.5), TypeError, "drjit.alloc_local(): 'size' must be an int, found float (1.5)."),
    (lambda: dr.alloc_local(3, 1), TypeError, "drjit.alloc_local(): 'dtype' must be a type, found int (3)."),
    (lambda: dr.alloc_local(str, 1), TypeError, "'dtype' must be an array type or a PyTree class, found str."),
    (lambda: dr.alloc_local(dict, 1), TypeError, "pass 'value'"),
    (lambda: dr.alloc_local(ArrayXf, 1), TypeError, "pass 'value'"),
    (lambda: dr.alloc_local(TensorXf, 1), TypeError, "entries cannot be tensors (drjit.llvm.TensorXf)."),
    (lambda: dr.alloc_local(tuple, 1, (Float(1), 2)), TypeError, "of one package, but 'tuple[1]' is of type int."),
    (lambda: dr.alloc_local(tuple, 1, (Float(1), "a")), TypeError, "consist of arrays, but 'tuple[1]' is of type str."),
    (lambda: dr.alloc_local(Node, 1, Float(1)), TypeError, "'value' must be of type"),
    (lambda: dr.alloc_local(Float, 1, "a"), TypeError, "'value' must be of type drjit.llvm.Float"),
    (lambda: dr.alloc_local(float, 1, "a"), TypeError, "'value' must be of type float, found str."),
    (lambda: dr.Local(3), TypeError, "drjit.Local(): 'arg' must be a drjit.Local, found int."),
    (lambda: dr.alloc_local(Float, 2).write("a", 0), TypeError, "drjit.Local.write(): 'value' must be of type"),
    (lambda: dr.alloc_local(Node, 2).write(Float(1), 0), TypeError, "drjit.Local.write()"),
    (lambda: dr.alloc_local(Float, 2)[2], IndexError, "__getitem__(): index 2 is out of bounds (the buffer has 2"),
    (lambda: dr.alloc_local(Float, 2).read(-1), IndexError, "drjit.Local.read(): index -1 is out of bounds"),
    (lambda: dr.alloc_local(Float, 2).read(UInt(2)), IndexError, "drjit.Local.read(): index 2 is out of bounds"),
    (lambda: dr.alloc_local(float, 2).write(1.0, 2), IndexError, "drjit.Local.write(): index 2 is out of bounds"),
    (lambda: dr.alloc_local(Float, 2)["a"], TypeError, "'index' must be an int or an array of integers, found str."),
    (lambda: dr.alloc_local(float, 2)[1.0], TypeError, "drjit.Local.__getitem__(): 'index' must be an int, found"),
    (lambda: dr.alloc_local(float, 2).read(1, 3), TypeError, "drjit.Local.read(): 'active' must be a bool, found int"),
    (lambda: dr.alloc_local(Float, 2).write(Float(1, 2), UInt(0, 1, 1)), RuntimeError, "incompatible sizes"),
])
def test_refusals(function: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        function()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index", [UInt(2), UInt(1, 2), UInt(2, 2)])
def test_constant_indices_that_no_element_reads(index: Any, mode: str) -> None:
    """A constant that is out of bounds where no element takes part is no error, as other arrays are none."""
    local = dr.alloc_local(UInt, 2, value=UInt(5))

    def write(k: Any) -> Any:
        local[k] = UInt(7)
        return local[k]

    inside = dr.opaque(UInt, 2, 2) < 2
    assert plain(dr.if_stmt((index,), inside, write, lambda k: k * 0, mode=mode)) == [0, 0]
    assert plain(dr.if_stmt((), inside, lambda: write(index), lambda: UInt(0), mode=mode)) == [0, 0]
    assert plain(local.read(UInt(0, 1))) == [5, 5]


def test_other_numbers_of_lanes_are_refused() -> None:
    local = dr.alloc_local(Float, 2)
    local[0] = Float(1, 2, 3)
    with pytest.raises(RuntimeError, match=r"drjit.Local.write\(\): 2 elements access a buffer .* by 3 elements"):
        local.write(Float(1, 2), 0)
    with pytest.raises(RuntimeError, match=r"drjit\.Local\.read"):
        dr.while_loop((UInt(0, 0),), lambda k: k < 2, lambda k: (k + UInt(local.read(k)),))


def test_derivatives_are_refused() -> None:
    x = llvm.ad.Float(1, 2)
    dr.enable_grad(x)
    local = dr.alloc_local(llvm.ad.Float, 2, value=llvm.ad.Float(0))
    with pytest.raises(RuntimeError, match=r"drjit.Local.write\(\): 'value' tracks derivatives.*drjit.detach"):
        local.write(x, 0)
    with pytest.raises(RuntimeError, match=r"drjit.alloc_local\(\): 'value' tracks derivatives"):
        dr.alloc_local(llvm.ad.Float, 2, value=x)
    local[0] = dr.detach(x)
    assert not dr.grad_enabled(local[0])


def test_a_buffer_of_a_loop_ends_with_it() -> None:
    kept: list[Any] = []

    def body(k: UInt) -> Any:
        kept.append(dr.alloc_local(UInt, 2, value=UInt(0)))
        kept[-1][0] = k
        return (k + 1,)

    k = dr.while_loop((UInt(0, 1),), lambda k: k < 3, body)
    assert plain(k[0]) == [3, 3]
    with pytest.raises(SymbolicValue, match=r"drjit.Local.read\(\): this buffer was made in a symbolic loop"):
        kept[-1].read(0)


@pytest.mark.parametrize("mode", MODES)
def test_debug_mode_checks_indices(mode: str) -> None:
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        local = dr.alloc_local(UInt, 2, value=UInt(1))
        local[0] = UInt(5, 6, 7)
        with pytest.warns(RuntimeWarning, match=r"write\(\): out-of-bounds write to entry 4 of a buffer of 2"):
            local.write(UInt(8), UInt(1, 4, 0))
            assert entries(local) == [[5, 8], [6, 1], [8, 1]]
        with pytest.warns(RuntimeWarning, match=r"read\(\): out-of-bounds read from entry 2 of a buffer of 2"):
            _, total = dr.while_loop((UInt(0), UInt(0)), lambda k, _: k < UInt(1, 2, 3),
                                     lambda k, total: (k + 1, total + local.read(k)), mode=mode)
            assert plain(total) == [5, 7, 9]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plain(local[0]) == [5, 6, 8]


def test_types_of_precision() -> None:
    local = dr.alloc_local(Float64, 2)
    local[0] = 1 / 3
    assert plain(local[0]) == [1 / 3]


@pytest.mark.parametrize("package", [llvm, llvm.ad], ids=["llvm", "llvm.ad"])
def test_writes_in_loops_beside_arrays_that_track_derivatives(package: Any) -> None:
    """A loop's state may turn out to be differentiated as long as any array is: what it stores is not for that."""
    other = llvm.ad.Float(1, 2)
    dr.enable_grad(other)

    def body(i: Any, x: Any) -> Any:
        memory = dr.alloc_local(package.Float, 4, value=package.Float(1))
        memory[i] = -x
        return i + 1, dr.minimum(x, memory[i])

    _, x = dr.while_loop((package.UInt(0), package.Float(1, 2, 3)), lambda i, x: i < 2, body, mode="symbolic")
    assert list(x) == [-1, -2, -3]
    y = llvm.ad.Float(1, 2, 3)
    dr.enable_grad(y)
    if package is llvm.ad:
        with pytest.raises(RuntimeError, match="'value' tracks derivatives"):
            dr.while_loop((package.UInt(0), y), lambda i, x: i < 2, body, mode="symbolic")


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_how_large_a_buffer_is_says_nothing_of_lanes_if_something_else_has_derivatives(mode: str) -> None:
    x = ad.Float(1, 2)
    dr.enable_grad(x)
    other = x * 2
    buffer = dr.alloc_local(Float, 4, value=Float(1))
    widths = []

    def body(i: Any) -> Any:
        buffer[i % 4] += 2
        widths.append(dr.width(buffer[i % 4]))
        return i + 1

    i, = dr.while_loop((UInt(0),), lambda i: i < 3, body, mode=mode)
    assert dr.width(i) == 1 and set(widths) == {1}
    assert [list(buffer[k]) for k in range(4)] == [[3], [3], [3], [1]]
    assert dr.grad_enabled(other)
