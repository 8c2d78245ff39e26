"""Driving the compiler without the array layer: NumPy arrays in and out, comparison of bits, and what was launched."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes  # the NumPy dtype "bfloat16" from now on
import numpy as np

from drjit_core import (
    TYPES,
    JitFlag,
    Node,
    VarType,
    evaluate,
    host_view,
    import_copy,
    import_shared,
    kernel_history,
    kernel_history_clear,
    literal,
    scoped_set_flag,
)
from drjit_core.codegen.program import Program, assemble
from drjit_core.ops.table import INVALID
from drjit_core.passes.schedule import plan
from drjit_core.runtime.cpu import pool
from drjit_core.runtime.cpu.memory import HEAP
from drjit_core.runtime.cpu.target import CPU_TARGET
from drjit_core.runtime.heap import Block

BOOL, INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64, BFLOAT16, FLOAT16, FLOAT32, FLOAT64 = (
    VarType[name].value for name in ("Bool", "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64",
                                     "BFloat16", "Float16", "Float32", "Float64"))
ALL_TYPES = [BOOL, INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64, BFLOAT16, FLOAT16, FLOAT32, FLOAT64]
INTEGERS = ALL_TYPES[1:9]
FLOATS = ALL_TYPES[9:]
NUMBERS = ALL_TYPES[1:]
TRUE = literal(BOOL, True)


def name_of(type_: int) -> str:
    """Name of a scalar type, for the ids of parametrised tests."""
    return TYPES[type_].name


def dtype_of(type_: int) -> np.dtype[Any]:
    """The NumPy dtype of a scalar type."""
    return np.dtype(TYPES[type_].name)


def limits_of(type_: int) -> Any:
    """The limits of a floating-point type, as NumPy has them."""
    return ml_dtypes.finfo(dtype_of(type_))


_TYPE_OF = {dtype_of(type_): type_ for type_ in ALL_TYPES}


def array(values: Any, type_: int | None = None) -> Node:
    """An evaluated array with a copy of the values."""
    data = np.ascontiguousarray(values, None if type_ is None else dtype_of(type_)).reshape(-1)
    return import_copy(_TYPE_OF[data.dtype], data.view(np.uint16) if data.dtype == "bfloat16" else data)


def shared(values: np.ndarray[Any, Any]) -> Node:
    """An evaluated array over the memory of a NumPy array."""
    return import_shared(_TYPE_OF[values.dtype], values.ctypes.data, values.size, values)


def number(type_: int, value: Any) -> Node:
    """An evaluated array of one element."""
    return array([value], type_)


def values(node: Node) -> np.ndarray[Any, Any]:
    """The elements of an array, evaluated if need be."""
    dtype = dtype_of(node.type)
    if node.kind == INVALID:
        return np.empty(0, dtype)
    evaluated, address, _buffer = host_view(node)
    data = (ctypes.c_char * (evaluated.size * dtype.itemsize)).from_address(address)
    raw = np.frombuffer(data, np.uint8).copy()
    if node.type == BOOL:
        assert raw.max() <= 1, "a mask in memory is a byte of 0 or 1"
    return raw.view(dtype)


def plain(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What the interpreter computes, where bfloat16 is the only field of a structure, in the dtypes of tests."""
    return data.view("bfloat16") if data.dtype.names else data


def bits(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Bit patterns as unsigned integers, with one pattern for all NaN."""
    raw = data.view(f"u{data.dtype.itemsize}")
    if data.dtype == "bfloat16":
        return np.where(raw & 0x7FFF > 0x7F80, np.uint16(0xFFFF), raw)
    return np.where(np.isnan(data), ~raw.dtype.type(0), raw) if data.dtype.kind == "f" else raw


#: Whether numbers below the smallest normal one are zeros after additions to memory: devices of NVIDIA do that (PTX
#: ISA, ``red.add.f32``).
flushes = False


def assert_same_bits(actual: np.ndarray[Any, Any], expected: Any, *context: Any) -> None:
    """Equal types, sizes and bits; NaN equals NaN, but 0 does not equal -0.  The context goes into the message."""
    actual, expected = plain(actual), plain(np.ascontiguousarray(expected))
    assert actual.dtype == expected.dtype, (actual.dtype, expected.dtype)
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    wrong = np.flatnonzero(bits(actual) != bits(expected))
    if flushes and actual.dtype == np.float32:
        wrong = wrong[np.maximum(abs(actual[wrong]), abs(expected[wrong])) >= np.finfo(np.float32).tiny]
    if wrong.size:
        lines = [f"  at {i}: {actual[i]!r} instead of {expected[i]!r}" +
                 "".join(f", {c[i]!r}" if isinstance(c, np.ndarray) and c.size == actual.size else "" for c in context)
                 for i in wrong[:8].tolist()]
        rest = [str(c) for c in context if not isinstance(c, np.ndarray)]
        raise AssertionError("\n".join([f"{wrong.size} of {actual.size} elements differ {' '.join(rest)}", *lines]))


@contextmanager
def launches() -> Iterator[list[dict[str, Any]]]:
    """The entries of the kernel history of the block, once it has ended."""
    entries: list[dict[str, Any]] = []
    kernel_history_clear()
    with scoped_set_flag(JitFlag.KernelHistory):
        yield entries
        entries += kernel_history()


_CANARY = 0xA5
_WATCHED = 4096


@contextmanager
def watched_memory() -> Iterator[None]:
    """Fail if a launch of the block writes farther behind an array than packets reach.

    Needs the plain rooms: compiled ones have no place for another allocator.
    """
    original, original_flush = HEAP.allocate, HEAP.flush
    blocks: dict[int, tuple[int, int]] = {}  # by address: of what size it was last, and to where it is watched

    def allocate(nbytes: int) -> Block:
        block = original(nbytes + _WATCHED)
        pool.wait(block.ticket)
        start = block.address + nbytes + HEAP.padding
        ctypes.memset(start, _CANARY, block.address + block.capacity - start)
        blocks[block.address] = nbytes, block.address + block.capacity
        return block

    def check() -> None:
        pool.wait()
        for address, (nbytes, end) in blocks.items():
            behind = ctypes.string_at(address + nbytes + HEAP.padding, end - address - nbytes - HEAP.padding)
            assert behind.count(_CANARY) == len(behind), f"something is written behind an array of {nbytes} bytes"
        blocks.clear()

    def flush() -> None:  # some of the blocks go back to the system
        check()
        original_flush()

    heap: Any = HEAP
    heap.allocate, heap.flush = allocate, flush
    try:
        yield
        check()
    finally:
        del heap.allocate, heap.flush


def program_of(*roots: Node) -> Program:
    """The assembled program of outputs that need only one kernel."""
    (kernel,) = plan(list(roots), CPU_TARGET)
    return assemble(kernel, CPU_TARGET)


def key_of(*roots: Node) -> Any:
    """The key of that kernel."""
    return program_of(*roots).key


def evaluate_all(*nodes: Node) -> list[np.ndarray[Any, Any]]:
    """Elements of arrays that are evaluated together."""
    evaluate(nodes)
    return [values(node) for node in nodes]
