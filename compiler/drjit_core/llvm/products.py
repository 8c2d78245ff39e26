"""LLVM text of products of matrices and vectors.

The components of the vector are packets on the stack, and so are those of the result. A function of the module goes
over blocks of rows, whose sums are held in registers while it goes over the columns: each element of the matrix is
read once for a packet, and multiplies a whole one.
"""

from __future__ import annotations

from ..codegen.linear import Instruction
from ..types import BFLOAT16, FLOAT16, TYPES
from .function import FunctionEmitter
from .lines import function_text
from .texts import TypeText

__all__ = ["product"]

#: Registers for sums, where there are 32 of them of 512 bits, and where there are 16 of 256.
_SUMS, _FEW_SUMS = 20, 10
_MOST_ROWS = 16


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
    lines = ["entry:", "br label %rows0"]
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
                  f"{p}_y = getelementptr {type_}, ptr %y, i64 {p}_yoff2",
                  f"br label %columns{part}", f"columns{part}:",
                  f"{p}_k = phi i64 [ 0, %rows{part} ], [ {p}_k1, %columns{part} ]"]
        lines += [f"{p}_s{r} = phi {type_} [ {_zero(type_)}, %rows{part} ], [ {p}_t{r}, %columns{part} ]"
                  for r in range(rows)]
        lines += [f"{p}_xat = getelementptr {type_}, ptr %x, i64 {p}_k",
                  f"{p}_x = load {type_}, ptr {p}_xat, align {_alignment(type_)}",
                  f"{p}_koff = mul i64 {p}_k, {right * size}",
                  f"{p}_wk = getelementptr i8, ptr {p}_w, i64 {p}_koff"]
        for r in range(rows):
            lines += [f"{p}_a{r} = getelementptr i8, ptr {p}_wk, i64 {r * down * size}",
                      *_element(f"{p}_e{r}", f"{p}_a{r}", kind, type_),
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
