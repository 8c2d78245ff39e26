"""LLVM text of products of matrices and vectors.

The components of the vector are packets on the stack, and so are those of the result. A function of the module goes
over blocks of rows, whose sums are held in registers while it goes over the columns: each element of the matrix is
read once for a packet, and multiplies a whole one.
"""

from __future__ import annotations

import math

from ..codegen.linear import Instruction
from ..types import BFLOAT16, FLOAT16, TYPES
from .function import FunctionEmitter
from .lines import function_text
from .texts import TypeText

__all__ = ["product"]

#: Registers for sums, where there are 32 of them of 512 bits, and where there are 16 of 256.
_SUMS, _FEW_SUMS = 20, 10
_MOST_ROWS = 16
#: Elements of half precision that are converted together, where rows are neighbours.
_FEWEST, _MOST_TOGETHER = 4, 16


def product(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A product, which defines a component for each row that is wanted."""
    uniform, (access,) = instruction.uniform, instruction.accesses
    type_, out = emitter.types(uniform)[instruction.type], emitter.lines
    rows = sorted((instruction, *instruction.results), key=lambda row: row.node.attr)
    offset, down, right = instruction.node.payload
    columns, first = len(instruction.operands), rows[0].node.attr
    count = rows[-1].node.attr - first + 1
    kind, memory = instruction.node.d0.type, TYPES[instruction.node.d0.type]  # type: ignore[union-attr]
    name = f"%v{instruction.number}"
    given, found = (_room(emitter, what, extent, type_) for what, extent in (("x", columns), ("y", count)))
    for place, value in enumerate(emitter.values(instruction.operands, uniform)):
        out += [f"{name}_x{place} = getelementptr {type_}, ptr {given}, i64 {place}",
                f"store {type_} {value}, ptr {name}_x{place}, align {_alignment(type_)}"]
        emitter.split_block()
    base = emitter.parameter(access.slot, "ptr")
    function = _function(emitter, type_, kind, count, columns, down, right)
    out += [f"{name}_w = getelementptr i8, ptr {base}, i64 {(offset + first * down) * memory.size}",
            f"call void @{function}(ptr {name}_w, ptr {given}, ptr {found})"]
    for row in rows:
        result, place = f"%v{row.number}", row.node.attr - first
        out += [f"{result}_at = getelementptr {type_}, ptr {found}, i64 {place}",
                f"{result} = load {type_}, ptr {result}_at, align {_alignment(type_)}"]
        emitter.define(row, result)
        emitter.split_block()


def _alignment(type_: TypeText) -> int:
    return min(64, type_.info.size * max(1, type_.lanes))


def _room(emitter: FunctionEmitter, what: str, extent: int, type_: TypeText) -> str:
    """Memory on the stack, which all products of the function share."""
    name = f"%product_{what}{extent}_{type_.suffix}"
    if name not in emitter.loaded:
        emitter.loaded.add(name)
        emitter.prologue.append(f"{name} = alloca [{extent} x {type_}], align 64")
    return name


def _function(emitter: FunctionEmitter, type_: TypeText, kind: int, count: int, columns: int, down: int,
              right: int) -> str:
    """The name of the function of the module that computes products of some form."""
    step = f"{down}_{right}".replace("-", "m")
    name = f"product_{count}x{columns}_{step}_{TYPES[kind].name}_{type_.suffix}"
    if name in emitter.module.helpers:
        return name
    registers = max(1, type_.info.size * type_.lanes // (64 if emitter.lanes >= 16 else 32))
    most = max(1, min(_MOST_ROWS, (_SUMS if emitter.lanes >= 16 else _FEW_SUMS) // registers))
    blocks = -(-count // most)
    size = TYPES[kind].size
    widened = kind != type_.info.type and _is_widened(columns, down, right)
    lines = ["entry:", *([f"%wide = alloca [{most * columns} x {type_.element}], align 64"] if widened else ()),
             "br label %rows0"]
    begin, part, before = 0, 0, "entry"
    # blocks of equal size but for some that have a row less, so that no block is short
    base_rows, longer = divmod(count, blocks)
    for rows, times in ((base_rows + 1, longer), (base_rows, blocks - longer)):
        if not times:
            continue
        p = f"%b{part}"
        lines += [f"rows{part}:",
                  f"{p}_i = phi i64 [ 0, %{before} ], [ {p}_next, %end{part} ]",
                  f"{p}_woff = mul i64 {p}_i, {rows * down * size}",
                  f"{p}_woff2 = add i64 {p}_woff, {begin * down * size}",
                  f"{p}_w = getelementptr i8, ptr %w, i64 {p}_woff2",
                  f"{p}_yoff = mul i64 {p}_i, {rows}",
                  f"{p}_yoff2 = add i64 {p}_yoff, {begin}",
                  f"{p}_y = getelementptr {type_}, ptr %y, i64 {p}_yoff2"]
        head, matrix, element = f"rows{part}", f"{p}_w", kind
        row, column = down * size, right * size  # bytes from one to the next
        if widened:
            lines += _widening(part, kind, type_, rows, columns, down, right)
            head, matrix, element = f"widened{part}", "%wide", type_.info.type
            row, column = ((columns, 1) if right == 1 else (1, rows))
            row, column = row * type_.info.size, column * type_.info.size
        lines += [f"br label %columns{part}", f"columns{part}:",
                  f"{p}_k = phi i64 [ 0, %{head} ], [ {p}_k1, %columns{part} ]"]
        lines += [f"{p}_s{r} = phi {type_} [ {_zero(type_)}, %{head} ], [ {p}_t{r}, %columns{part} ]"
                  for r in range(rows)]
        lines += [f"{p}_xat = getelementptr {type_}, ptr %x, i64 {p}_k",
                  f"{p}_x = load {type_}, ptr {p}_xat, align {_alignment(type_)}",
                  f"{p}_koff = mul i64 {p}_k, {column}",
                  f"{p}_wk = getelementptr i8, ptr {matrix}, i64 {p}_koff"]
        for r in range(rows):
            lines += [f"{p}_a{r} = getelementptr i8, ptr {p}_wk, i64 {r * row}",
                      *_element(f"{p}_e{r}", f"{p}_a{r}", element, type_),
                      f"{p}_t{r} = call {type_} @llvm.fma.{type_.suffix}({type_} {p}_e{r}, {type_} {p}_x, "
                      f"{type_} {p}_s{r})"]
        lines += [f"{p}_k1 = add nuw nsw i64 {p}_k, 1", f"{p}_more = icmp ult i64 {p}_k1, {columns}",
                  f"br i1 {p}_more, label %columns{part}, label %end{part}", f"end{part}:"]
        for r in range(rows):
            lines += [f"{p}_o{r} = getelementptr {type_}, ptr {p}_y, i64 {r}",
                      f"store {type_} {p}_t{r}, ptr {p}_o{r}, align {_alignment(type_)}"]
        begin += rows * times
        following = f"rows{part + 1}" if begin < count else "done"
        lines += [f"{p}_next = add nuw nsw i64 {p}_i, 1", f"{p}_again = icmp ult i64 {p}_next, {times}",
                  f"br i1 {p}_again, label %rows{part}, label %{following}"]
        before, part = f"end{part}", part + 1
    lines += ["done:", "ret void"]
    emitter.module.helpers[name] = function_text(
        f"internal void @{name}(ptr noalias %w, ptr noalias %x, ptr noalias %y) noinline #0", lines)
    return name


def _is_widened(columns: int, down: int, right: int) -> bool:
    """Whether elements of half precision are converted, block by block, before they are used: where they are read by
    the vector, because some are neighbours. One by one, that takes as long as the product."""
    return down == 1 or right == 1 and columns % _FEWEST == 0


def _widening(part: int, kind: int, type_: TypeText, rows: int, columns: int, down: int, right: int) -> list[str]:
    """Text that converts the elements of a block of rows: row by row, or, where these are neighbours, by columns."""
    p, element = f"%b{part}", type_.element
    count = math.gcd(columns, _MOST_TOGETHER) if right == 1 else rows
    steps, pieces = (columns // count, rows) if right == 1 else (columns, 1)
    lines = [f"br label %widen{part}", f"widen{part}:", f"{p}_h = phi i64 [ 0, %rows{part} ], [ {p}_h1, %widen{part} ]",
             f"{p}_h_in = mul i64 {p}_h, {count if right == 1 else right}", f"{p}_h_out = mul i64 {p}_h, {count}"]
    for r in range(pieces):
        name = f"{p}_h{r}"
        lines += [f"{name}_in = add i64 {p}_h_in, {r * down}", f"{name}_out = add i64 {p}_h_out, {r * columns}",
                  f"{name}_from = getelementptr i16, ptr {p}_w, i64 {name}_in",
                  f"{name}_to = getelementptr {element}, ptr %wide, i64 {name}_out"]
        if kind == FLOAT16:
            lines += [f"{name}_half = load <{count} x half>, ptr {name}_from, align 2",
                      f"{name}_all = fpext <{count} x half> {name}_half to <{count} x float>"]
        else:
            lines += [f"{name}_half = load <{count} x i16>, ptr {name}_from, align 2",
                      f"{name}_bits = zext <{count} x i16> {name}_half to <{count} x i32>",
                      f"{name}_high = shl <{count} x i32> {name}_bits, splat (i32 16)",
                      f"{name}_all = bitcast <{count} x i32> {name}_high to <{count} x float>"]
        lines.append(f"store <{count} x float> {name}_all, ptr {name}_to, align 4")
    return [*lines, f"{p}_h1 = add nuw nsw i64 {p}_h, 1", f"{p}_h_more = icmp ult i64 {p}_h1, {steps}",
            f"br i1 {p}_h_more, label %widen{part}, label %widened{part}", f"widened{part}:"]


def _zero(type_: TypeText) -> str:
    return "zeroinitializer" if type_.lanes else "0.0"


def _element(name: str, address: str, kind: int, type_: TypeText) -> list[str]:
    """Text that reads an element of the matrix into all lanes of a packet, or into a scalar."""
    target = type_.element
    value = f"{name}_s" if type_.lanes else name
    if kind == FLOAT16:
        lines = [f"{name}_h = load half, ptr {address}, align 2", f"{value} = fpext half {name}_h to {target}"]
    elif kind == BFLOAT16:
        lines = [f"{name}_h = load i16, ptr {address}, align 2", f"{name}_z = zext i16 {name}_h to i32",
                 f"{name}_b = shl i32 {name}_z, 16", f"{value} = bitcast i32 {name}_b to float"]
    else:
        lines = [f"{value} = load {target}, ptr {address}, align {type_.info.size}"]
    if type_.lanes:
        lines += [f"{name}_0 = insertelement {type_} poison, {target} {value}, i32 0",
                  f"{name} = shufflevector {type_} {name}_0, {type_} poison, <{type_.lanes} x i32> zeroinitializer"]
    return lines
