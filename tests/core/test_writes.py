"""Writes: order between writes and reads, copy-on-write, and memory that belongs to others.

Random programs of overlapping scatters and pending readers are compared with NumPy, exactly: all values are integers.
Indices of plain writes are unique, because which of two writes to one element of one scatter wins is not specified.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from drjit_core import (
    Node,
    ReduceOp,
    cast,
    counter,
    evaluate,
    gather,
    literal,
    malloc_statistics,
    ops,
    reduce,
    rewritten,
    scatter,
    set_element,
    undefined,
)
from tests.core.harness import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT8,
    INT32,
    INT64,
    NUMBERS,
    TRUE,
    UINT8,
    UINT32,
    UINT64,
    array,
    assert_same_bits,
    dtype_of,
    evaluate_all,
    launches,
    name_of,
    shared,
    values,
)

IDENTITY = ReduceOp.Identity
UFUNC = {ReduceOp.Add: np.add, ReduceOp.Mul: np.multiply, ReduceOp.Min: np.minimum, ReduceOp.Max: np.maximum,
         ReduceOp.And: np.bitwise_and, ReduceOp.Or: np.bitwise_or}


def write(target: Node, value: Node, index: Node, mask: Node = TRUE, op: ReduceOp = IDENTITY) -> Node:
    return scatter(target, value, index, mask, op.value, 0)


def model_write(target: np.ndarray[Any, Any], value: Any, index: Any, mask: Any = True,
                op: ReduceOp = IDENTITY) -> np.ndarray[Any, Any]:
    """A write in NumPy, on a copy."""
    result = target.copy()
    index, value, mask = np.broadcast_arrays(index, value, mask)
    if op is IDENTITY:
        result[index[mask]] = value[mask]
    else:
        UFUNC[op].at(result, index[mask], value[mask])
    return result


# --- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("size", [2, 3, 15, 16, 17, 18, 64, 65, 66, 1000, 200_001])
def test_overlapping_writes_happen_in_program_order(size: int) -> None:
    """``x[:-1] = 1; x[1:] = 2`` in one loop over packets would be wrong at every packet's edge."""
    x = array(np.zeros(size), INT32)
    index = counter(size - 1)
    x = write(x, literal(INT32, 1), index)
    x = write(x, literal(INT32, 2), ops.add(index, literal(UINT32, 1)))
    assert_same_bits(values(x), np.array([1] + [2] * (size - 1), np.int32))


@pytest.mark.parametrize("size", [17, 1000])
def test_writes_of_one_element_happen_in_program_order_in_one_kernel(size: int) -> None:
    x = array(np.zeros(size), INT32)
    for i in range(10):
        x = write(x, literal(INT32, i + 2), literal(UINT32, i // 3))
    x = write(x, literal(INT32, 5), literal(UINT32, 0), op=ReduceOp.Add)
    with launches() as history:
        evaluate([x])
    assert [entry["size"] for entry in history] == [1]
    assert values(x)[:5].tolist() == [9, 7, 10, 11, 0]


@pytest.mark.usefixtures("backend")
def test_a_reader_keeps_the_version_that_it_was_traced_with() -> None:
    data = np.arange(50, dtype=np.int32)
    x = array(data)
    one, indices = literal(INT32, 1), counter(50)
    before = ops.add(x, one)
    x = write(x, ops.mul(x, literal(INT32, 10)), indices)
    between = gather(x, ops.sub(literal(UINT32, 49), indices), TRUE)
    x = write(x, literal(INT32, -1), literal(UINT32, 7))
    after = reduce(x, ReduceOp.Add.value)
    expected = data * 10
    assert_same_bits(values(after), np.array([expected.sum() - 71], np.int32))
    assert_same_bits(values(between), expected[::-1])
    assert_same_bits(values(before), data + 1)


def test_a_value_computed_before_a_write_is_not_computed_again_after_it() -> None:
    data = np.arange(40, dtype=np.int32)
    holder = [array(data)]
    doubled = ops.add(holder[0], holder[0])  # cheap: a later kernel would compute it again from memory
    holder[0] = write(holder[0], literal(INT32, 1000), counter(40))
    total = reduce(ops.add(holder[0], doubled), ReduceOp.Add.value)
    last = ops.add(ops.add(doubled, total), holder[0])
    evaluate([last])
    assert_same_bits(values(last), data * 2 + np.int32(40_000 + data.sum() * 2) + 1000)


def test_copies_are_made_only_if_somebody_else_holds_the_target() -> None:
    x = array(np.zeros(100_000), INT32)
    evaluate([x])
    indices = counter(100_000)
    gc.collect()  # what others have left
    before = malloc_statistics()
    for i in range(5):
        x = write(x, literal(INT32, i + 2), ops.xor(indices, literal(UINT32, 1)))
    with launches() as history:
        evaluate([x])
    assert [entry["size"] for entry in history] == [100_000] * (5 if len(history) == 5 else 1)
    assert malloc_statistics()["in_use"] == before["in_use"]
    other = x
    x = write(x, literal(INT32, 100), literal(UINT32, 3))
    evaluate([x])
    assert malloc_statistics()["in_use"] > before["in_use"]
    assert values(other)[3] == 6 and values(x)[3] == 100


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("type_", NUMBERS + [BOOL], ids=name_of)
def test_memory_that_is_shared_with_others_is_never_written(type_: int) -> None:
    data = np.arange(45).astype(dtype_of(type_))
    original = data.copy()
    one = literal(type_, 1)
    for op in ReduceOp:
        if (op.value >= ReduceOp.And.value and type_ in FLOATS
                or type_ == BOOL and op.name in ("Add", "Mul", "Min", "Max")):
            continue
        x = write(shared(data), one, counter(45), op=op)
        assert_same_bits(values(x), model_write(original, original.dtype.type(1), np.arange(45), op=op))
        assert_same_bits(data, original)


def test_literals_are_copied_before_they_are_written_to() -> None:
    zeros = literal(FLOAT32, 0, 30)
    first = write(zeros, literal(FLOAT32, 1), literal(UINT32, 4))
    second = write(zeros, literal(FLOAT32, 2), literal(UINT32, 5))
    a, b = evaluate_all(first, second)
    assert a[4] == 1 and a.sum() == 1 and b[5] == 2 and b.sum() == 2
    assert zeros.payload == 0 and literal(FLOAT32, 0, 30) is zeros


@pytest.mark.usefixtures("backend")
def test_masked_elements_are_not_touched() -> None:
    index = np.arange(40, dtype=np.uint32)
    index[::2] = 0xFFFF_FF00  # outside of the array
    mask = np.arange(40) % 2 == 1
    for op in (IDENTITY, ReduceOp.Add, ReduceOp.Mul, ReduceOp.Max):
        x = write(array(np.ones(40), INT32), literal(INT32, 3), array(index), array(mask), op)
        expected = model_write(np.ones(40, np.int32), np.int32(3), np.where(mask, index, 0), mask, op)
        assert_same_bits(values(x), expected)
    x = array(np.ones(40), INT32)
    assert write(x, literal(INT32, 3), array(index), literal(BOOL, False)) is x


# --- reductions into memory ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(("op", "type_"), [
    pytest.param(op, type_, id=f"{op.name}-{name_of(type_)}") for op in UFUNC for type_ in NUMBERS
    if op not in (ReduceOp.And, ReduceOp.Or) or type_ not in FLOATS])
@pytest.mark.parametrize("width", [1, 16, 37, 30_000])
def test_scattered_reductions_with_conflicts(op: ReduceOp, type_: int, width: int) -> None:
    rng = np.random.default_rng(width)
    dtype = dtype_of(type_)
    targets = 4000 if op in (ReduceOp.Add, ReduceOp.Mul) and type_ == FLOAT16 and width > 100 else 23
    start = rng.integers(0, 5, targets).astype(dtype)
    low = -3 if dtype.kind != "u" else 0
    value = rng.integers(low, 4, width).astype(dtype)
    if op is ReduceOp.Mul and type_ in FLOATS:
        value = rng.choice([1, -1], width).astype(dtype)
    index, mask = rng.integers(0, targets, width).astype(np.uint32), rng.random(width) < 0.8
    actual = values(write(array(start), array(value), array(index), array(mask), op))
    assert_same_bits(actual + dtype.type(0), model_write(start, value, index, mask, op) + dtype.type(0))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("type_", FLOATS, ids=name_of)
def test_scattered_minimum_and_maximum_ignore_nan(type_: int) -> None:
    dtype = dtype_of(type_)
    value = np.array([np.nan, 2, -3, np.inf, -np.inf, np.nan], dtype)
    index = np.array([0, 0, 1, 2, 3, 1], np.uint32)
    start = np.array([1, np.nan, 5, 5, np.nan], dtype)
    for op, expected in ((ReduceOp.Min, [1, -3, 5, -np.inf, np.nan]), (ReduceOp.Max, [2, -3, np.inf, 5, np.nan])):
        assert_same_bits(values(write(array(start), array(value), array(index), op=op)), np.array(expected, dtype))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("op", [ReduceOp.And, ReduceOp.Or], ids=lambda op: op.name)
@pytest.mark.parametrize("width", [1, 40])
def test_scattered_reductions_of_masks(op: ReduceOp, width: int) -> None:
    rng = np.random.default_rng(3)
    start, value = rng.random(9) < 0.5, rng.random(width) < 0.5
    index = rng.integers(0, 9, width).astype(np.uint32)
    actual = values(write(array(start), array(value), array(index), op=op))
    assert_same_bits(actual, model_write(start, value, index, op=op))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("type_", [INT32, UINT32, INT64, UINT64], ids=name_of)
def test_indices_of_every_type(type_: int) -> None:
    index = np.random.default_rng(1).permutation(40).astype(dtype_of(type_))
    data = np.arange(40, dtype=np.float32)
    assert_same_bits(values(write(array(np.zeros(40), FLOAT32), array(data), array(index))),
                     model_write(np.zeros(40, np.float32), data, index))
    assert_same_bits(values(gather(array(data), array(index), TRUE)), data[index])
    one = array(index[:1])
    assert_same_bits(values(gather(array(data), one, TRUE)), data[index[:1]])
    assert values(write(array(np.zeros(40), FLOAT32), literal(FLOAT32, 5), one))[index[0]] == 5


# --- random programs -------------------------------------------------------------------------------------------------


class Variable:
    """An array with its model; the one holder of its node, as an array is."""

    __slots__ = ("model", "node")

    def __init__(self, node: Node, model: np.ndarray[Any, Any]) -> None:
        self.node = node
        self.model = model


class RandomWrites:
    """A random program over a few variables of one type and size."""

    def __init__(self, seed: int, steps: int, sizes: tuple[int, ...]) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.type = int(rng.choice([INT32, UINT32, INT64, FLOAT64, UINT8, INT8, BOOL]))
        self.dtype = dtype_of(self.type)
        self.size = int(rng.choice(sizes))
        self.log: list[str] = [f"type {name_of(self.type)}, size {self.size}"]
        self.variables: list[Variable] = []
        self.steps = steps
        self.owners: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []

    def random_values(self, count: int) -> np.ndarray[Any, Any]:
        if self.type == BOOL:
            return self.rng.random(count) < 0.5
        return self.rng.integers(0, 4, count).astype(self.dtype)

    def pick(self) -> Variable:
        return self.variables[self.rng.integers(len(self.variables))]

    def create(self) -> None:
        rng, size = self.rng, self.size
        kind = rng.choice(["import", "shared", "literal", "undefined", "computed", "copy"])
        data = self.random_values(size)
        if kind == "shared":
            self.owners.append((data, data.copy()))
            node = shared(data)
        elif kind == "literal":
            data[:] = data[0]
            node = literal(self.type, data[0].item(), size)
        elif kind == "undefined":
            order = rng.permutation(size).astype(np.uint32)
            node = write(undefined(self.type, size), array(data), array(order))
            data = model_write(data, data, order)
        elif kind == "computed":
            node = cast(ops.mul(counter(size), literal(UINT32, 3)), self.type)
            data = (np.arange(size, dtype=np.uint32) * 3).astype(self.dtype)
        elif kind == "copy" and self.variables:
            other = self.pick()
            node, data = other.node, other.model
        else:
            node = array(data)
        self.log.append(f"v{len(self.variables)} = {kind}")
        self.variables.append(Variable(node, data.copy()))

    def scatter(self) -> None:
        rng, size, variable = self.rng, self.size, self.pick()
        allowed = [IDENTITY, ReduceOp.And, ReduceOp.Or] if self.type == BOOL else list(ReduceOp)
        if self.type == FLOAT64:
            allowed = [IDENTITY, ReduceOp.Add, ReduceOp.Min, ReduceOp.Max]
        op = allowed[rng.integers(len(allowed))]
        width = int(rng.choice([1, 1, size, max(1, size - 1), rng.integers(1, size + 1)]))
        if op is IDENTITY:
            start = int(rng.integers(0, size - width + 1))
            index = np.arange(start, start + width) if rng.random() < 0.5 else rng.permutation(size)[:width]
        else:
            index = rng.integers(0, size, width)
        index = index.astype(np.uint32)
        mask = rng.random(width) < rng.choice([0.5, 1.0])
        mask_node = array(mask) if not mask.all() or rng.random() < 0.5 else TRUE
        source = self.pick()
        choice = rng.integers(4)
        if choice == 0:
            value = self.random_values(1)
            value_node = literal(self.type, value[0].item())
        elif choice == 1 and width > 1:
            value = self.random_values(width)
            value_node = array(value)
        elif choice == 2:  # what another variable, or this one, holds: as a value
            value, value_node = source.model, source.node
            if width != size:
                value, value_node = value[index], gather(source.node, array(index), TRUE)
        else:
            where = rng.integers(0, size, width).astype(np.uint32)
            value, value_node = source.model[where], gather(source.node, array(where), TRUE)
        self.log.append(f"v{self.variables.index(variable)}[{index.tolist()[:6]}… of {width}] {op.name} {choice} "
                        f"from v{self.variables.index(source)}, masked {not mask.all()}")
        variable.model = model_write(variable.model, value, index, mask, op)
        variable.node = write(variable.node, value_node, array(index), mask_node, op)

    def read(self) -> None:
        rng, a, b = self.rng, self.pick(), self.pick()
        choice = rng.integers(4)
        if choice == 0:
            where, mask = rng.integers(0, self.size, self.size).astype(np.uint32), rng.random(self.size) < 0.8
            node, data = gather(a.node, array(where), array(mask)), np.where(mask, a.model[where], self.dtype.type(0))
        elif choice == 1:
            node, data = ops.xor(a.node, b.node) if self.type != FLOAT64 else ops.maximum(a.node, b.node), (
                a.model ^ b.model if self.type != FLOAT64 else np.maximum(a.model, b.model))
        elif choice == 2 or self.type == BOOL:
            node, data = ops.select(ops.eq(a.node, b.node), b.node, literal(self.type, 1, self.size)), np.where(
                a.model == b.model, b.model, self.dtype.type(1))
        else:
            total = reduce(a.node, ReduceOp.Max.value)
            node, data = ops.minimum(total, b.node), np.minimum(a.model.max(), b.model)
        self.log.append(f"v{len(self.variables)} = read {choice} of v{self.variables.index(a)}, "
                        f"v{self.variables.index(b)}")
        self.variables.append(Variable(node, data.astype(self.dtype)))

    def poke(self) -> None:
        variable, index = self.pick(), int(self.rng.integers(self.size))
        value = self.random_values(1)[0].item()
        self.log.append(f"v{self.variables.index(variable)}[{index}] = {value}")
        variable.node = rewritten(variable.node, set_element(index, value))
        variable.model = variable.model.copy()
        variable.model[index] = value

    def check(self) -> None:
        chosen = [v for v in self.variables if self.rng.random() < 0.6]
        self.log.append(f"evaluate {[self.variables.index(v) for v in chosen]}")
        evaluate([v.node for v in chosen])
        for variable in chosen:
            assert_same_bits(values(variable.node), variable.model, f"v{self.variables.index(variable)}")

    def run(self) -> None:
        self.create()
        actions = [self.create, self.scatter, self.scatter, self.scatter, self.scatter, self.read, self.read,
                   self.check, self.drop, self.poke]
        for _ in range(self.steps):
            actions[self.rng.integers(len(actions))]()
        for variable in reversed(self.variables):
            assert_same_bits(values(variable.node), variable.model, f"v{self.variables.index(variable)}")
        for data, original in self.owners:
            assert_same_bits(data, original, "memory of others")

    def drop(self) -> None:
        if len(self.variables) > 2:
            victim = int(self.rng.integers(len(self.variables)))
            last = self.variables.pop()
            if victim < len(self.variables):
                self.variables[victim] = last
            self.log.append(f"drop v{victim}, v{len(self.variables)} takes its place")


SMALL, LARGE = (1, 2, 5, 16, 17, 33, 100, 700), (10_000, 65_537, 150_001)


def run_random_writes(seed: int, steps: int, sizes: tuple[int, ...] = SMALL) -> None:
    program = RandomWrites(seed, steps, sizes)
    try:
        program.run()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, {steps} steps: {error}\n" + "\n".join(program.log)) from None


@pytest.mark.usefixtures("backend")
@pytest.mark.oracle
@pytest.mark.parametrize("block", range(6))
def test_random_writes_agree_with_numpy(block: int) -> None:
    for seed in range(200 * block, 200 * block + 200):
        run_random_writes(seed, 4 + seed % 14)


@pytest.mark.usefixtures("backend")
@pytest.mark.oracle
@pytest.mark.parametrize("block", range(2))
def test_random_writes_to_large_arrays_agree_with_numpy(block: int) -> None:
    """Launches of several blocks, which run asynchronously."""
    for seed in range(10 * block, 10 * block + 10):
        run_random_writes(seed, 12, LARGE)


@pytest.mark.oracle
@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(20))
def test_many_random_writes_agree_with_numpy(block: int) -> None:
    for seed in range(10_000 + 1000 * block, 11_000 + 1000 * block):
        run_random_writes(seed, 5 + seed % 20)
    for seed in range(100 + 20 * block, 120 + 20 * block):
        run_random_writes(seed, 5 + seed % 20, LARGE)
