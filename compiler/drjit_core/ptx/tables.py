"""PTX text of tables that the threads of a block share: small memory that a kernel updates.

Many blocks that update few elements wait for each other: an element takes one update at a time, wherever it comes from.
So a block updates a table in shared memory, which begins as neutral elements, and then the memory once for each element
that has changed.  Neutral elements are no updates: memory of single precision flushes what is below the smallest normal
number to zero (PTX ISA, ``red.add.f32``), also if nothing is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..codegen.linear import Instruction
from ..codegen.target import SHARED
from ..ops.reductions import REDUCTIONS
from ..ops.semantics import bits_of
from ..types import TYPES
from . import atomics, elements
from .function import FunctionEmitter
from .texts import Lines, T

__all__ = ["Table", "begin", "end", "tables_of"]


class Table(NamedTuple):
    """What takes the place of some memory."""

    memory: int  # parameter with its address
    size: int  # and with the number of its elements
    op: int
    type: int
    base: str  # register with the address of the table


def tables_of(emitter: FunctionEmitter, scatters: Sequence[Instruction], size: int) -> list[Table]:
    """Declare the tables of a kernel, of some size, which its updates find by their memory."""
    tables = []
    for scatter in scatters:
        access = scatter.access
        assert access is not None
        if access.strategy == SHARED and access.slot not in emitter.tables:
            base = emitter.tables[access.slot] = emitter.register("%rd")
            emitter.variables.append(f".shared .align 8 .b8 {_name(access.slot)}[{size * T[scatter.type].size}];")
            tables.append(Table(access.slot, access.table, scatter.node.attr, scatter.type, base))
    return tables


def _name(slot: int) -> str:
    return f"table_{slot}"


def begin(emitter: FunctionEmitter, tables: Sequence[Table], tid: str) -> Lines:
    """Text that fills the tables; ``tid`` is the number of the thread in its block."""
    out: Lines = []
    for table in tables:
        word, bits = _bits(emitter, table)
        head, offset, tail = _elements(emitter, table, tid)
        place = emitter.register("%rd")
        out += [f"mov.u64 {table.base}, {_name(table.memory)};", f"mov.b{word} {bits}, {_neutral(table)};", *head,
                f"add.u64 {place}, {table.base}, {offset};", f"st.shared.b{word} [{place}], {bits};", *tail]
    return [*out, "bar.sync 0;"]


def end(emitter: FunctionEmitter, tables: Sequence[Table], tid: str) -> Lines:
    """Text that updates the memory, when all threads of the block are done."""
    out: Lines = ["bar.sync 0;"]
    for table in tables:
        word, bits = _bits(emitter, table)
        head, offset, tail = _elements(emitter, table, tid)
        place, address, changed = emitter.registers("%rd", "%rd", "%p")
        value = emitter.new(table.type)
        out += [*head, f"add.u64 {place}, {table.base}, {offset};",
                *elements.loaded(emitter, table.type, value, place, space="shared"), f"mov.b{word} {bits}, {value};",
                f"setp.ne.u{word} {changed}, {bits}, {_neutral(table)};",
                f"add.u64 {address}, {emitter.parameter(table.memory)}, {offset};",
                atomics.added(table.op, table.type, address, value, f"@{changed} "), *tail]
    return out


def _elements(emitter: FunctionEmitter, table: Table, tid: str) -> tuple[Lines, str, Lines]:
    """Text before and after what the threads of a block do with each element, and the register with its place."""
    again, over = emitter.label("elements"), emitter.label("table")
    number, threads, none, offset = emitter.registers("%r", "%r", "%p", "%rd")
    return [f"mov.u32 {number}, {tid};", f"mov.u32 {threads}, %ntid.x;", f"{again}:",
            f"setp.ge.u32 {none}, {number}, {emitter.parameter(table.size, 'u32')};", f"@{none} bra {over};",
            f"mul.wide.u32 {offset}, {number}, {T[table.type].size};"], offset, [
            f"add.u32 {number}, {number}, {threads};", f"bra {again};", f"{over}:"]


def _bits(emitter: FunctionEmitter, table: Table) -> tuple[int, str]:
    """How many bits an element has, and a register for them."""
    word = TYPES[table.type].bits
    return word, emitter.register("%rd" if word == 64 else "%r")


def _neutral(table: Table) -> int:
    """The bits of the neutral element."""
    return bits_of(REDUCTIONS[table.op].identity(table.type), TYPES[table.type])
