"""LLVM text of products of matrices and vectors.

The components of the vector are packets on the stack, and so are those of the result. A function of the module goes
over blocks of rows, whose sums are held in registers while it goes over the columns: each element of the matrix is
read once for a packet, and multiplies a whole one.
"""

from __future__ import annotations

import math
from functools import partial

from ..codegen.linear import Function, Instruction
from ..ops.table import BITCAST, CAST, EVALUATED, FIRST_ELEMENTWISE, FIRST_EXPANDED
from ..types import TYPES
from .function import FunctionEmitter
from .texts import TypeText, zero
from .writer import Writer

__all__ = ["late", "product"]

#: Registers for sums, where there are 32 of them of 512 bits, and where there are 16 of 256.
_SUMS, _FEW_SUMS = 20, 10
_MOST_ROWS = 16
#: What may be written late besides operations, and how many values within each other, at most.
_LATE, _MOST_WITHIN = (EVALUATED, CAST, BITCAST), 30
#: Elements of half precision that are converted together, where rows are neighbours.
_FEWEST, _MOST_TOGETHER = 4, 16


def product(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A product, which defines a component for each row that is wanted."""
    uniform, (access,) = instruction.uniform, instruction.accesses
    type_, w = emitter.types(uniform)[instruction.type], emitter.writer
    rows = sorted((instruction, *instruction.results), key=lambda row: row.node.attr)
    offset, down, right = instruction.node.payload
    columns, first = len(instruction.operands), rows[0].node.attr
    count = rows[-1].node.attr - first + 1
    kind, memory = instruction.node.d0.type, TYPES[instruction.node.d0.type]  # type: ignore[union-attr]
    given, found = (_room(emitter, what, extent, type_) for what, extent in (("x", columns), ("y", count)))
    for place, operand in enumerate(instruction.operands):
        w.store(type_, emitter.value(operand, uniform), w.at(type_, given, place), type_.alignment)
        emitter.split_block()
    base = emitter.parameter(access.slot, "ptr")
    function = _function(emitter, type_, kind, count, columns, down, right)
    matrix = w.beyond(base, (offset + first * down) * memory.size)
    lately = emitter.late and not instruction.once
    if lately:
        emitter.names.write(emitter.in_room)  # what is there still
    w.run(function, f"ptr {matrix}", f"ptr {given}", f"ptr {found}")

    def load(row: Instruction) -> None:
        emitter.define(row, w.load(type_, w.at(type_, found, row.node.attr - first), type_.alignment))
        emitter.split_block()

    if lately:
        emitter.in_room = [row.number for row in rows]
        emitter.names.waiting.update((row.number, partial(load, row)) for row in rows)
    else:
        for row in rows:
            load(row)


def late(function: Function) -> set[int]:
    """The numbers of the instructions of a function with products that are written only where they are used first.

    Products take their operands from memory and leave their results there. What is computed between two of them need
    not all be in registers, or on the stack, at once.
    """
    found: dict[int, int] = {}  # how many of them are written within each other, at most
    for instruction in function.order if function.products else ():
        kind = instruction.kind
        if instruction.blocks:
            return set()
        if not instruction.once and (FIRST_ELEMENTWISE <= kind < FIRST_EXPANDED or kind in _LATE):
            depth = 1 + max((found.get(operand.number, 0) for operand in instruction.operands), default=0)
            if depth <= _MOST_WITHIN:
                found[instruction.number] = depth
    return set(found)


def _room(emitter: FunctionEmitter, what: str, extent: int, type_: TypeText) -> str:
    """Memory on the stack, which all products of the function share."""
    return emitter.keep(("product", what, extent, type_),
                        lambda: emitter.prologue(f"alloca [{extent} x {type_}], align 64"))


def _function(emitter: FunctionEmitter, type_: TypeText, kind: int, count: int, columns: int, down: int,
              right: int) -> str:
    """The name of the function of the module that computes products of some form."""
    step = f"{down}_{right}".replace("-", "m")
    name = f"product_{count}x{columns}_{step}_{TYPES[kind].name}_{type_.suffix}"
    registers = max(1, type_.info.size * type_.lanes // (64 if emitter.lanes >= 16 else 32))
    most = max(1, min(_MOST_ROWS, (_SUMS if emitter.lanes >= 16 else _FEW_SUMS) // registers))
    blocks = -(-count // most)
    widened = kind != type_.info.type and _is_widened(columns, down, right)

    def write(w: Writer) -> None:
        wide = w(f"alloca [{most * columns} x {type_.element}], align 64") if widened else ""
        begin = 0
        # blocks of equal size but for some that have a row less, so that no block is short
        base_rows, longer = divmod(count, blocks)
        for rows, times in ((base_rows + 1, longer), (base_rows, blocks - longer)):
            if times:
                _write_blocks(w, type_, kind, begin, rows, times, columns, down, right, wide)
            begin += rows * times

    return emitter.module.need_function(name, "ptr noalias %w, ptr noalias %x, ptr noalias %y", write)


def _write_blocks(w: Writer, t: TypeText, kind: int, begin: int, rows: int, times: int, columns: int, down: int,
                  right: int, wide: str) -> None:
    """Products with several blocks of rows; if there is ``wide`` memory, their elements are converted there first."""
    size, align = TYPES[kind].size, t.alignment

    def block(number: str, _: list[str]) -> None:
        matrix, element = w.beyond("%w", w.add(w.mul(number, rows * down * size), begin * down * size)), kind
        row, column = down * size, right * size  # bytes from one to the next
        results = w.at(t, "%y", w.add(w.mul(number, rows), begin))
        if wide:
            _write_widening(w, matrix, wide, kind, t, rows, columns, down, right)
            matrix, element = wide, t.info.type
            row, column = (columns, 1) if right == 1 else (1, rows)
            row, column = row * t.info.size, column * t.info.size

        def add(k: str, sums: list[str]) -> list[str]:
            x = w.load(t, w.at(t, "%x", k), align)
            at = w.beyond(matrix, w.mul(k, column))
            return [w.call(str(t), f"llvm.fma.{t.suffix}", f"{t} {_element(w, w.beyond(at, r * row), element, t)}",
                           f"{t} {x}", f"{t} {sum_}") for r, sum_ in enumerate(sums)]

        for r, sum_ in enumerate(w.repeat(0, columns, 1, [(str(t), zero(t))] * rows, add)):
            w.store(t, sum_, w.at(t, results, r), align)

    w.repeat(0, times, 1, [], block)


def _is_widened(columns: int, down: int, right: int) -> bool:
    """Whether elements of half precision are converted, block by block, before they are used: where they are read by
    the vector, because some are neighbours. One by one, that takes as long as the product."""
    return down == 1 or right == 1 and columns % _FEWEST == 0


def _write_widening(w: Writer, matrix: str, wide: str, kind: int, t: TypeText, rows: int, columns: int, down: int,
                    right: int) -> None:
    """Convert the elements of a block of rows: row by row, or, where these are neighbours, by columns."""
    count = math.gcd(columns, _MOST_TOGETHER) if right == 1 else rows
    steps, pieces = (columns // count, rows) if right == 1 else (columns, 1)
    narrow, single = TypeText(TYPES[kind], count), TypeText(t.info, count)

    def step(number: str, _: list[str]) -> None:
        source, target = w.mul(number, count if right == 1 else right), w.mul(number, count)
        for r in range(pieces):
            at = w.at(narrow.element, matrix, w.add(source, r * down))
            to = w.at(t.element, wide, w.add(target, r * columns))
            value = _widened(w, w.load(narrow, at, narrow.info.size), narrow, single)
            w.store(single, value, to, single.info.size)

    w.repeat(0, steps, 1, [], step)


def _widened(w: Writer, value: str, narrow: TypeText, wide: TypeText) -> str:
    """Numbers as those that are computed with."""
    return value if narrow == wide else w.cast(value, narrow, wide)


def _element(w: Writer, address: str, kind: int, type_: TypeText) -> str:
    """An element of the matrix in all lanes of a packet, or a scalar."""
    narrow, wide = TypeText(TYPES[kind], 0), TypeText(type_.info, 0)
    value = _widened(w, w.load(narrow, address, narrow.info.size), narrow, wide)
    return w.splat(type_, value) if type_.lanes else value
