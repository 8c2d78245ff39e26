"""LLVM text of products of matrices: one function that works off tiles of the result, for any shape and any strides.

A *task* is a tile of one product of the batch, over a part of the sum.  It goes through its part of the sum in blocks
of :data:`DEPTH` elements; for each it copies its rows of the left matrix (elements of the sum next to each other, a
constant distance apart), then, two registers of columns at a time, a *panel* of the right one, and computes tiles of
registers from both.  Copies are left out where an operand can be read as it lies and is too small to be worth one.

Rounding: each element of the result is the sum, in order, of sums over :data:`DEPTH` products that were accumulated in
order by fused multiply-adds, and so follows from the shape alone.  Half precision is multiplied and summed in single
precision and rounded once; integers of 8 and 16 bits are computed in 32 bits, which is exact modulo their range.

Parameters are 64-bit words, see :data:`WORDS`; distances are in bytes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

from ...types import FLOAT16, FLOAT32, INT32, TYPES, UINT32, TypeInfo
from ..texts import TypeText
from .shuffles import transpose_registers

__all__ = ["BATCH", "DEPTH", "DIRECT", "GENERAL", "ROWS_FIRST", "TRANSPOSED", "WORDS", "accumulator", "product_text",
           "register_tile"]

#: Elements of the sum in a block.
DEPTH = 256
#: How an operand is read: as it lies; copied, with its rows next to each other in memory; its columns; neither.
DIRECT, ROWS_FIRST, TRANSPOSED, GENERAL = range(4)
#: Words of parameters by name: where they are.  Behind them come, for each dimension of the batch, the extent and the
#: distances of both operands.
WORDS = {name: position for position, name in enumerate((
    "a", "b", "c", "scratch", "scratch_size", "rows", "columns", "depth", "a_row", "a_column", "b_row", "b_column",
    "c_row", "c_batch", "c_part", "tile_rows", "tile_columns", "part", "row_tiles", "column_tiles", "parts", "a_mode",
    "b_mode", "c_wide", "unit", "rank"))}
#: Where the dimensions of the batch begin.
BATCH = len(WORDS)


def accumulator(type_: int) -> int:
    """The scalar type that products of a type are computed in."""
    if type_ == FLOAT16:
        return FLOAT32
    info: TypeInfo = TYPES[type_]
    return (INT32 if info.kind == "i" else UINT32) if info.bits < 32 else type_


def register_tile(type_: int, lanes: int) -> tuple[int, int, int]:
    """What a tile that is computed in registers has: rows, registers in a row, elements in a register.

    AVX-512 and NEON have 32 registers, AVX2 has 16.
    """
    info: TypeInfo = TYPES[accumulator(type_)]
    return 6, 2 if lanes == 8 else 4, lanes * 4 // info.size


def _declarations(wide: TypeText, narrow: TypeText) -> Iterable[str]:
    for t in dict.fromkeys((wide, narrow)):
        yield f"declare {t} @llvm.masked.load.{t.suffix}.p0(ptr, i32, {t.mask}, {t})"
        yield f"declare void @llvm.masked.store.{t.suffix}.p0({t}, ptr, i32, {t.mask})"
    if wide.info.kind == "f":
        yield f"declare {wide} @llvm.fma.{wide.suffix}({wide}, {wide}, {wide})"
    yield "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
    yield "declare i64 @llvm.umin.i64(i64, i64)"


class _Texts:
    """What the functions of one module have in common."""

    def __init__(self, type_: int, lanes: int) -> None:
        self.rows, self.registers, self.width = register_tile(type_, lanes)
        #: Registers in the rows of the tiles that there are: the last panel may be narrower.
        self.variants = [self.registers, *(count for count in (2, 1) if count < self.registers)]
        self.masked = lanes == 16  # masks of stores cost nothing
        self.wide = TypeText(TYPES[accumulator(type_)], self.width)
        self.narrow = TypeText(TYPES[type_], self.width)
        self.size, self.narrow_size = TYPES[accumulator(type_)].size, TYPES[type_].size
        self.converts = self.wide != self.narrow
        self.iota = f"<{', '.join(f'i64 {lane}' for lane in range(self.width))}>"

    def below(self, name: str, limit: str) -> str:
        """A mask of the lanes whose number is below an ``i64``."""
        count = f"<{self.width} x i64>"
        return (f"{name}_i = insertelement {count} poison, i64 {limit}, i64 0\n"
                f"{name}_s = shufflevector {count} {name}_i, {count} poison, <{self.width} x i32> zeroinitializer\n"
                f"{name} = icmp slt {count} {self.iota}, {name}_s")

    def splat(self, name: str, value: str) -> str:
        t = self.wide
        return (f"{name}_i = insertelement {t} poison, {t.element} {value}, i64 0\n"
                f"{name} = shufflevector {t} {name}_i, {t} poison, <{self.width} x i32> zeroinitializer")

    def multiply_add(self, name: str, a: str, b: str, c: str) -> str:
        t = self.wide
        if t.info.kind == "f":
            return f"{name} = call {t} @llvm.fma.{t.suffix}({t} {a}, {t} {b}, {t} {c})"
        return f"{name}_p = mul {t} {a}, {b}\n{name} = add {t} {name}_p, {c}"

    def add(self, name: str, a: str, b: str) -> str:
        t = self.wide
        return f"{name} = {'fadd' if t.info.kind == 'f' else 'add'} {t} {a}, {b}"

    def widen(self, name: str, value: str, *, scalar: bool = False) -> str:
        """A packet, or a number, of an operand's type in the type of the sums."""
        s, t = (self.narrow.element, self.wide.element) if scalar else (self.narrow, self.wide)
        if not self.converts:
            return f"{name} = bitcast {s} {value} to {t}"
        kind = self.narrow.info.kind
        return f"{name} = {'fpext' if kind == 'f' else 'sext' if kind == 'i' else 'zext'} {s} {value} to {t}"

    def narrowed(self, name: str, value: str) -> str:
        """The reverse."""
        return f"{name} = {'fptrunc' if self.wide.info.kind == 'f' else 'trunc'} {self.wide} {value} to {self.narrow}"

    def load(self, name: str, address: str, mask: str = "", t: TypeText | None = None) -> str:
        t = t or self.wide
        align = TYPES[t.info.type].size
        if not mask:
            return f"{name} = load {t}, ptr {address}, align {align}"
        return (f"{name} = call {t} @llvm.masked.load.{t.suffix}.p0(ptr {address}, i32 {align}, {t.mask} {mask}, {t} "
                "zeroinitializer)")

    def store(self, value: str, address: str, mask: str = "", t: TypeText | None = None) -> str:
        t = t or self.wide
        align = TYPES[t.info.type].size
        if not mask:
            return f"store {t} {value}, ptr {address}, align {align}"
        return f"call void @llvm.masked.store.{t.suffix}.p0({t} {value}, ptr {address}, i32 {align}, {t.mask} {mask})"


def product_text(type_: int, lanes: int, name: str = "kernel") -> str:
    """The module of products of a scalar type, with packets of so many elements of 32 bits."""
    x = _Texts(type_, lanes)
    parts = [f"@zeros = internal constant [{x.width * x.size} x i8] zeroinitializer, align 64",
             *_declarations(x.wide, x.narrow)]
    parts += [_tile(x, rows, registers) for rows in (x.rows, x.rows // 2) for registers in x.variants]
    parts += [_copy(x), _copy_transposed(x), _copy_general(x)]
    if x.converts:
        parts.append(_finish(x))
    parts += [_task(x), _entry(name)]
    return "\n".join(parts)


def _entry(name: str) -> str:
    """The function that works off tasks."""
    return f"""
define void @{name}(ptr %parameters, i64 %unused0, i64 %unused1, i64 %begin, i64 %end, i64 %block, i32 %worker) {{
entry:
  %unit_at = getelementptr i64, ptr %parameters, i64 {WORDS["unit"]}
  %unit = load i64, ptr %unit_at, align 8
  %first = udiv i64 %begin, %unit
  %last = udiv i64 %end, %unit
  br label %look
look:
  %task = phi i64 [ %first, %entry ], [ %next, %work ]
  %more = icmp slt i64 %task, %last
  br i1 %more, label %work, label %done
work:
  call void @task(ptr %parameters, i64 %task, i32 %worker)
  %next = add i64 %task, 1
  br label %look
done:
  ret void
}}"""


def _tile(x: _Texts, rows: int, registers: int) -> str:
    """A tile of registers: adds the product of ``rows`` rows and ``registers`` registers of columns to the result.

    Where there are fewer rows than that, the last one is computed several times, and stored once.
    """
    t, size = x.wide, x.size
    lines = [f"define internal void @tile_{rows}_{registers}(ptr %a, i64 %a_row, ptr %b, i64 %b_row, i64 %depth, "
             "ptr %c, i64 %c_row, i64 %rows, i64 %columns, i1 %first) noinline {",
             "entry:", "%last = sub i64 %rows, 1"]
    for i in range(rows):
        lines += [f"%i{i} = call i64 @llvm.umin.i64(i64 {i}, i64 %last)", f"%o{i} = mul i64 %i{i}, %a_row",
                  f"%a{i} = getelementptr i8, ptr %a, i64 %o{i}"]
    for i in range(rows):  # what the sums are added to is needed last
        lines += [f"%ahead{i}_o = mul i64 %c_row, {i}", f"%ahead{i} = getelementptr i8, ptr %c, i64 %ahead{i}_o"]
        for j in range(registers):
            lines += [f"%ahead{i}_{j} = getelementptr i8, ptr %ahead{i}, i64 {j * x.width * size}",
                      f"call void @llvm.prefetch.p0(ptr %ahead{i}_{j}, i32 1, i32 3, i32 1)"]
    lines += ["br label %loop", "loop:", "%k = phi i64 [ 0, %entry ], [ %k_next, %loop ]",
              "%b_k = phi ptr [ %b, %entry ], [ %b_next, %loop ]"]
    pairs = [(i, j) for i in range(rows) for j in range(registers)]
    for i, j in pairs:
        lines.append(f"%s{i}_{j} = phi {t} [ zeroinitializer, %entry ], [ %n{i}_{j}, %loop ]")
    for j in range(registers):
        lines += [f"%b{j}_at = getelementptr i8, ptr %b_k, i64 {j * x.width * size}", x.load(f"%b{j}", f"%b{j}_at")]
    for i in range(rows):
        lines += [f"%a{i}_at = getelementptr {t.element}, ptr %a{i}, i64 %k",
                  f"%a{i}_k = load {t.element}, ptr %a{i}_at, align {size}", x.splat(f"%v{i}", f"%a{i}_k")]
        lines += [x.multiply_add(f"%n{i}_{j}", f"%v{i}", f"%b{j}", f"%s{i}_{j}") for j in range(registers)]
    lines += ["%k_next = add nuw i64 %k, 1", "%b_next = getelementptr i8, ptr %b_k, i64 %b_row",
              "%more = icmp ult i64 %k_next, %depth", "br i1 %more, label %loop, label %stores", "stores:"]
    if not x.masked:
        lines += [f"%whole = icmp eq i64 %columns, {registers * x.width}",
                  "br i1 %whole, label %whole_0, label %masks", "masks:"]
    for j in range(registers):
        if j:
            lines.append(f"%left{j} = sub i64 %columns, {j * x.width}")
        lines.append(x.below(f"%m{j}", f"%left{j}" if j else "%columns"))
    lines.append("br label %part_0")
    for kind in ("part",) if x.masked else ("whole", "part"):
        for i in range(rows):
            p = f"%{kind}{i}"
            lines += [f"{kind}_{i}:", f"{p}_o = mul i64 %c_row, {i}", f"{p}_c = getelementptr i8, ptr %c, i64 {p}_o"]
            for j in range(registers):
                mask = f"%m{j}" if kind == "part" else ""
                lines += [f"{p}_{j}_at = getelementptr i8, ptr {p}_c, i64 {j * x.width * size}",
                          f"{p}_{j}_from = select i1 %first, ptr @zeros, ptr {p}_{j}_at",
                          x.load(f"{p}_{j}_old", f"{p}_{j}_from", mask),
                          x.add(f"{p}_{j}_sum", f"{p}_{j}_old", f"%n{i}_{j}"),
                          x.store(f"{p}_{j}_sum", f"{p}_{j}_at", mask)]
            if i + 1 < rows:
                lines += [f"{p}_more = icmp ugt i64 %rows, {i + 1}",
                          f"br i1 {p}_more, label %{kind}_{i + 1}, label %done"]
            else:
                lines.append("br label %done")
    return "\n".join([*lines, "done:", "ret void", "}"])


#: ``to`` gets rows of so many columns (packets are filled up with zeros) out of ``from``, where columns are ``across``
#: apart, rows ``along``.
_COPY = "ptr %from, i64 %along, i64 %across, ptr %to, i64 %to_row, i64 %rows, i64 %columns"


def _copy(x: _Texts) -> str:
    """Copies rows whose elements are neighbours."""
    step_to, step_from = x.width * x.size, x.width * x.narrow_size
    return f"""
define internal void @copy_1({_COPY}) noinline {{
entry:
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r_next, %row_end ]
  %from_r = phi ptr [ %from, %entry ], [ %from_next, %row_end ]
  %to_r = phi ptr [ %to, %entry ], [ %to_next, %row_end ]
  br label %packet
packet:
  %c = phi i64 [ 0, %row ], [ %c_next, %written ]
  %from_c = phi ptr [ %from_r, %row ], [ %from_c_next, %written ]
  %to_c = phi ptr [ %to_r, %row ], [ %to_c_next, %written ]
  %c_next = add i64 %c, {x.width}
  %full = icmp sle i64 %c_next, %columns
  br i1 %full, label %plain, label %tail
plain:
  {x.load("%whole", "%from_c", t=x.narrow)}
  br label %written
tail:
  %left = sub i64 %columns, %c
  {x.below("%mask", "%left")}
  {x.load("%part", "%from_c", "%mask", x.narrow)}
  br label %written
written:
  %value = phi {x.narrow} [ %whole, %plain ], [ %part, %tail ]
  {x.widen("%wide", "%value")}
  {x.store("%wide", "%to_c")}
  %from_c_next = getelementptr i8, ptr %from_c, i64 {step_from}
  %to_c_next = getelementptr i8, ptr %to_c, i64 {step_to}
  %more = icmp slt i64 %c_next, %columns
  br i1 %more, label %packet, label %row_end
row_end:
  %r_next = add i64 %r, 1
  %from_next = getelementptr i8, ptr %from_r, i64 %along
  %to_next = getelementptr i8, ptr %to_r, i64 %to_row
  %rows_left = icmp slt i64 %r_next, %rows
  br i1 %rows_left, label %row, label %done
done:
  ret void
}}"""


def _copy_transposed(x: _Texts) -> str:
    """Copies columns whose elements are neighbours, by squares of registers, which are filled up with zeros."""
    n, t = x.width, x.wide
    lines = [f"define internal void @copy_2({_COPY}) noinline {{", "entry:", "br label %row", "row:",
             "%r = phi i64 [ 0, %entry ], [ %r_next, %row_end ]", "%r_left = sub i64 %rows, %r",
             x.below("%mask", "%r_left"),
             f"%r_offset = mul i64 %r, {x.narrow_size}", "%from_r = getelementptr i8, ptr %from, i64 %r_offset",
             "%r_to = mul i64 %r, %to_row", "%to_r = getelementptr i8, ptr %to, i64 %r_to", "br label %square",
             "square:", "%c = phi i64 [ 0, %row ], [ %c_next, %square ]", "%c_left = sub i64 %columns, %c"]
    for i in range(n):
        # Columns that do not exist are the first one again, under a mask that is false.
        lines += [f"%e{i} = icmp sgt i64 %c_left, {i}", f"%q{i} = select i1 %e{i}, i64 {i}, i64 0",
                  f"%p{i} = add i64 %c, %q{i}", f"%o{i} = mul i64 %p{i}, %across",
                  f"%f{i} = getelementptr i8, ptr %from_r, i64 %o{i}",
                  f"%k{i} = select i1 %e{i}, {t.mask} %mask, {t.mask} zeroinitializer",
                  x.load(f"%l{i}", f"%f{i}", f"%k{i}", x.narrow), x.widen(f"%w{i}", f"%l{i}")]
    turned, found = transpose_registers(t, x.size, [f"%w{i}" for i in range(n)], "%t")
    lines += turned
    lines += [f"%c_offset = mul i64 %c, {x.size}", "%to_c = getelementptr i8, ptr %to_r, i64 %c_offset"]
    for i, value in enumerate(found):
        lines += [f"%d{i}_o = mul i64 %to_row, {i}", f"%d{i} = getelementptr i8, ptr %to_c, i64 %d{i}_o",
                  x.store(value, f"%d{i}")]
    lines += [f"%c_next = add i64 %c, {n}", "%more = icmp slt i64 %c_next, %columns",
              "br i1 %more, label %square, label %row_end", "row_end:", f"%r_next = add i64 %r, {n}",
              "%rows_left = icmp slt i64 %r_next, %rows", "br i1 %rows_left, label %row, label %done",
              "done:", "ret void", "}"]
    return "\n".join(lines)


def _copy_general(x: _Texts) -> str:
    """Copies one element after the other; packets are filled up with zeros."""
    s, t = x.narrow.element, x.wide.element
    zero = "0.0" if x.wide.info.kind == "f" else "0"
    return f"""
define internal void @copy_3({_COPY}) noinline {{
entry:
  %up = add i64 %columns, {x.width - 1}
  %padded = and i64 %up, {-x.width}
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r_next, %row_end ]
  %from_r = phi ptr [ %from, %entry ], [ %from_next, %row_end ]
  %to_r = phi ptr [ %to, %entry ], [ %to_next, %row_end ]
  br label %element
element:
  %c = phi i64 [ 0, %row ], [ %c_next, %element ]
  %from_c = phi ptr [ %from_r, %row ], [ %from_c_next, %element ]
  %value = load {s}, ptr %from_c, align {x.narrow_size}
  {x.widen("%wide", "%value", scalar=True)}
  %to_c = getelementptr {t}, ptr %to_r, i64 %c
  store {t} %wide, ptr %to_c, align {x.size}
  %from_c_next = getelementptr i8, ptr %from_c, i64 %across
  %c_next = add i64 %c, 1
  %more = icmp slt i64 %c_next, %columns
  br i1 %more, label %element, label %fill
fill:
  %f = phi i64 [ %c_next, %element ], [ %f_next, %zero ]
  %missing = icmp slt i64 %f, %padded
  br i1 %missing, label %zero, label %row_end
zero:
  %to_f = getelementptr {t}, ptr %to_r, i64 %f
  store {t} {zero}, ptr %to_f, align {x.size}
  %f_next = add i64 %f, 1
  br label %fill
row_end:
  %r_next = add i64 %r, 1
  %from_next = getelementptr i8, ptr %from_r, i64 %along
  %to_next = getelementptr i8, ptr %to_r, i64 %to_row
  %rows_left = icmp slt i64 %r_next, %rows
  br i1 %rows_left, label %row, label %done
done:
  ret void
}}"""


def _finish(x: _Texts) -> str:
    """Sums of a wider type become elements of the result."""
    return f"""
define internal void @finish(ptr %from, i64 %from_row, ptr %to, i64 %to_row, i64 %rows, i64 %columns) noinline {{
entry:
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r_next, %row_end ]
  %from_o = mul i64 %r, %from_row
  %from_r = getelementptr i8, ptr %from, i64 %from_o
  %to_o = mul i64 %r, %to_row
  %to_r = getelementptr i8, ptr %to, i64 %to_o
  br label %packet
packet:
  %c = phi i64 [ 0, %row ], [ %c_next, %packet ]
  %left = sub i64 %columns, %c
  {x.below("%mask", "%left")}
  %from_c = getelementptr {x.wide.element}, ptr %from_r, i64 %c
  %to_c = getelementptr {x.narrow.element}, ptr %to_r, i64 %c
  {x.load("%sums", "%from_c")}
  {x.narrowed("%values", "%sums")}
  {x.store("%values", "%to_c", "%mask", x.narrow)}
  %c_next = add i64 %c, {x.width}
  %more = icmp slt i64 %c_next, %columns
  br i1 %more, label %packet, label %row_end
row_end:
  %r_next = add i64 %r, 1
  %rows_left = icmp slt i64 %r_next, %rows
  br i1 %rows_left, label %row, label %done
done:
  ret void
}}"""


def _loaded() -> str:
    """Loads of the parameters, named as in :data:`WORDS`."""
    lines = []
    for name, position in WORDS.items():
        kind = "ptr" if name in ("a", "b", "c", "scratch") else "i64"
        lines += [f"%{name}_at = getelementptr i64, ptr %parameters, i64 {position}",
                  f"%{name} = load {kind}, ptr %{name}_at, align 8"]
    return "\n".join(lines)


def _located() -> str:
    """Where a task is: its tile and part, and the distance of its matrices in the batch; ends in front of ``located``.
    """
    return f"""
  %worker_w = zext i32 %worker to i64
  %own = mul i64 %worker_w, %scratch_size
  %b_copy = getelementptr i8, ptr %scratch, i64 %own
  %t1 = udiv i64 %task, %parts
  %t1_p = mul i64 %t1, %parts
  %part_i = sub i64 %task, %t1_p
  %t2 = udiv i64 %t1, %column_tiles
  %t2_p = mul i64 %t2, %column_tiles
  %n_i = sub i64 %t1, %t2_p
  %batch = udiv i64 %t2, %row_tiles
  %t3_p = mul i64 %batch, %row_tiles
  %m_i = sub i64 %t2, %t3_p
  %m_0 = mul i64 %m_i, %tile_rows
  %m_left = sub i64 %rows, %m_0
  %m_count = call i64 @llvm.umin.i64(i64 %m_left, i64 %tile_rows)
  %n_0 = mul i64 %n_i, %tile_columns
  %n_left = sub i64 %columns, %n_0
  %n_count = call i64 @llvm.umin.i64(i64 %n_left, i64 %tile_columns)
  %k_0 = mul i64 %part_i, %part
  %k_left = sub i64 %depth, %k_0
  %k_count = call i64 @llvm.umin.i64(i64 %k_left, i64 %part)
  br label %batches
batches:
  %d = phi i64 [ %rank, %entry ], [ %d_next, %batch_step ]
  %rest = phi i64 [ %batch, %entry ], [ %rest_next, %batch_step ]
  %a_sum = phi i64 [ 0, %entry ], [ %a_sum_next, %batch_step ]
  %b_sum = phi i64 [ 0, %entry ], [ %b_sum_next, %batch_step ]
  %d_more = icmp sgt i64 %d, 0
  br i1 %d_more, label %batch_step, label %located
batch_step:
  %d_next = sub i64 %d, 1
  %d_3 = mul i64 %d_next, 3
  %d_word = add i64 %d_3, {BATCH}
  %extent_at = getelementptr i64, ptr %parameters, i64 %d_word
  %extent = load i64, ptr %extent_at, align 8
  %a_step_at = getelementptr i64, ptr %extent_at, i64 1
  %a_step = load i64, ptr %a_step_at, align 8
  %b_step_at = getelementptr i64, ptr %extent_at, i64 2
  %b_step = load i64, ptr %b_step_at, align 8
  %rest_next = udiv i64 %rest, %extent
  %rest_p = mul i64 %rest_next, %extent
  %place = sub i64 %rest, %rest_p
  %a_more = mul i64 %place, %a_step
  %a_sum_next = add i64 %a_sum, %a_more
  %b_more = mul i64 %place, %b_step
  %b_sum_next = add i64 %b_sum, %b_more
  br label %batches"""


def _task(x: _Texts) -> str:
    panel = x.registers * x.width
    panel_bytes, line = DEPTH * panel * x.size, DEPTH * x.size
    if x.converts:  # sums are kept behind the copies until they are complete
        target = f"""
  %up_rows = add i64 %tile_rows, {x.width - 1}
  %rows_padded = and i64 %up_rows, {-x.width}
  %copied_size = mul i64 %rows_padded, {line}
  %keeps = icmp ne i64 %c_wide, 0
  %sums_own = getelementptr i8, ptr %a_copy, i64 %copied_size
  %sums = select i1 %keeps, ptr %c_tile, ptr %sums_own
  %up_columns = add i64 %tile_columns, {panel - 1}
  %columns_padded = and i64 %up_columns, {-panel}
  %sums_row_own = mul i64 %columns_padded, {x.size}
  %sums_row = select i1 %keeps, i64 %c_row, i64 %sums_row_own"""
        finish = """
  br i1 %keeps, label %kept, label %finish
finish:
  call void @finish(ptr %sums, i64 %sums_row, ptr %c_tile, i64 %c_row, i64 %m_count, i64 %n_count)
  br label %kept
kept:"""
    else:
        target = """
  %sums = getelementptr i8, ptr %c_tile, i64 0
  %sums_row = add i64 %c_row, 0"""
        finish = ""
    return f"""
define internal void @task(ptr %parameters, i64 %task, i32 %worker) noinline {{
entry:
  {_loaded()}
{_located()}
located:
  %a_copy = getelementptr i8, ptr %b_copy, i64 {panel_bytes}
  %a_batch = getelementptr i8, ptr %a, i64 %a_sum
  %a_o0 = mul i64 %m_0, %a_row
  %a_o1 = mul i64 %k_0, %a_column
  %a_o = add i64 %a_o0, %a_o1
  %a_tile = getelementptr i8, ptr %a_batch, i64 %a_o
  %b_batch = getelementptr i8, ptr %b, i64 %b_sum
  %b_o0 = mul i64 %n_0, %b_column
  %b_o1 = mul i64 %k_0, %b_row
  %b_o = add i64 %b_o0, %b_o1
  %b_tile = getelementptr i8, ptr %b_batch, i64 %b_o
  %c_o0 = mul i64 %batch, %c_batch
  %c_o1 = mul i64 %part_i, %c_part
  %c_o2 = mul i64 %m_0, %c_row
  %c_wider = icmp ne i64 %c_wide, 0
  %c_size = select i1 %c_wider, i64 {x.size}, i64 {x.narrow_size}
  %c_o3 = mul i64 %n_0, %c_size
  %c_o4 = add i64 %c_o0, %c_o1
  %c_o5 = add i64 %c_o2, %c_o3
  %c_o = add i64 %c_o4, %c_o5
  %c_tile = getelementptr i8, ptr %c, i64 %c_o
  {target}
  br label %block
block:
  %k = phi i64 [ 0, %located ], [ %k_next, %block_end ]
  %a_k = phi ptr [ %a_tile, %located ], [ %a_next, %block_end ]
  %b_k = phi ptr [ %b_tile, %located ], [ %b_next, %block_end ]
  %first = icmp eq i64 %k, 0
  %k_rest = sub i64 %k_count, %k
  %kn = call i64 @llvm.umin.i64(i64 %k_rest, i64 {DEPTH})
  switch i64 %a_mode, label %a_general [ i64 0, label %panels
    i64 1, label %a_rows
    i64 2, label %a_transposed ]
a_rows:
  call void @copy_1(ptr %a_k, i64 %a_row, i64 %a_column, ptr %a_copy, i64 {line}, i64 %m_count, i64 %kn)
  br label %panels
a_transposed:
  call void @copy_2(ptr %a_k, i64 %a_row, i64 %a_column, ptr %a_copy, i64 {line}, i64 %m_count, i64 %kn)
  br label %panels
a_general:
  call void @copy_3(ptr %a_k, i64 %a_row, i64 %a_column, ptr %a_copy, i64 {line}, i64 %m_count, i64 %kn)
  br label %panels
panels:
  %a_lies = icmp eq i64 %a_mode, 0
  %a_from = select i1 %a_lies, ptr %a_k, ptr %a_copy
  %a_along = select i1 %a_lies, i64 %a_row, i64 {line}
  br label %panel
panel:
  %j = phi i64 [ 0, %panels ], [ %j_next, %panel_end ]
  %j_rest = sub i64 %n_count, %j
  %jn = call i64 @llvm.umin.i64(i64 %j_rest, i64 {panel})
  %j_o = mul i64 %j, %b_column
  %b_j = getelementptr i8, ptr %b_k, i64 %j_o
  {_whole(x)}
  %b_direct = icmp eq i64 %b_mode, 0
  %b_lies = and i1 %b_direct, %j_whole
  br i1 %b_lies, label %tiles, label %b_copied
b_copied:
  switch i64 %b_mode, label %b_rows [ i64 2, label %b_transposed
    i64 3, label %b_general ]
b_rows:
  call void @copy_1(ptr %b_j, i64 %b_row, i64 %b_column, ptr %b_copy, i64 {panel * x.size}, i64 %kn, i64 %jn)
  br label %tiles
b_transposed:
  call void @copy_2(ptr %b_j, i64 %b_row, i64 %b_column, ptr %b_copy, i64 {panel * x.size}, i64 %kn, i64 %jn)
  br label %tiles
b_general:
  call void @copy_3(ptr %b_j, i64 %b_row, i64 %b_column, ptr %b_copy, i64 {panel * x.size}, i64 %kn, i64 %jn)
  br label %tiles
tiles:
  %b_from = select i1 %b_lies, ptr %b_j, ptr %b_copy
  %b_along = select i1 %b_lies, i64 %b_row, i64 {panel * x.size}
  %j_size = mul i64 %j, {x.size}
  %c_j = getelementptr i8, ptr %sums, i64 %j_size
  br label %tile
tile:
  %i = phi i64 [ 0, %tiles ], [ %i_next, %tile_end ]
  %a_i = phi ptr [ %a_from, %tiles ], [ %a_i_next, %tile_end ]
  %c_i = phi ptr [ %c_j, %tiles ], [ %c_i_next, %tile_end ]
  %i_rest = sub i64 %m_count, %i
  %in = call i64 @llvm.umin.i64(i64 %i_rest, i64 {x.rows})
  %many = icmp ugt i64 %in, {x.rows // 2}
  br i1 %many, label %high, label %low
{_tile_calls(x, "high", x.rows)}
{_tile_calls(x, "low", x.rows // 2)}
tile_end:
  %i_next = add i64 %i, {x.rows}
  %a_i_o = mul i64 %a_along, {x.rows}
  %a_i_next = getelementptr i8, ptr %a_i, i64 %a_i_o
  %c_i_o = mul i64 %sums_row, {x.rows}
  %c_i_next = getelementptr i8, ptr %c_i, i64 %c_i_o
  %i_more = icmp slt i64 %i_next, %m_count
  br i1 %i_more, label %tile, label %panel_end
panel_end:
  %j_next = add i64 %j, {panel}
  %j_more = icmp slt i64 %j_next, %n_count
  br i1 %j_more, label %panel, label %block_end
block_end:
  %k_next = add i64 %k, {DEPTH}
  %a_k_o = mul i64 %a_column, {DEPTH}
  %a_next = getelementptr i8, ptr %a_k, i64 %a_k_o
  %b_k_o = mul i64 %b_row, {DEPTH}
  %b_next = getelementptr i8, ptr %b_k, i64 %b_k_o
  %k_more = icmp slt i64 %k_next, %k_count
  br i1 %k_more, label %block, label %complete
complete:
  {finish}
  ret void
}}"""


def _whole(x: _Texts) -> str:
    """Whether there is a tile of exactly the columns that are left, so that nothing is read beyond them."""
    lines = [f"%j_is_{count} = icmp eq i64 %jn, {count * x.width}" for count in x.variants]
    found = f"%j_is_{x.variants[0]}"
    for count in x.variants[1:]:
        lines.append(f"%j_to_{count} = or i1 {found}, %j_is_{count}")
        found = f"%j_to_{count}"
    return "\n".join([*lines, f"%j_whole = or i1 {found}, false"])


def _tile_calls(x: _Texts, label: str, rows: int) -> str:
    """Calls of the narrowest tile that has so many columns as are left."""
    lines = [f"{label}:"]
    for wider, registers in itertools.pairwise(x.variants):
        lines += [f"%{label}_{wider} = icmp ugt i64 %jn, {registers * x.width}",
                  f"br i1 %{label}_{wider}, label %{label}_call_{wider}, label %{label}_to_{registers}",
                  f"{label}_to_{registers}:"]
    lines.append(f"br label %{label}_call_1")
    for registers in x.variants:
        lines += [f"{label}_call_{registers}:",
                  f"call void @tile_{rows}_{registers}(ptr %a_i, i64 %a_along, ptr %b_from, i64 %b_along, i64 %kn, "
                  "ptr %c_i, i64 %sums_row, i64 %in, i64 %jn, i1 %first)", "br label %tile_end"]
    return "\n".join(lines)


# --- what the host decides -------------------------------------------------------------------------------------------


class Matrices(NamedTuple):
    """The operands of a batch of products: extents, and where elements are, in elements."""

    rows: int
    columns: int
    depth: int
    batch: tuple[int, ...]
    a: tuple[int, int]  # distances of rows and columns
    b: tuple[int, int]
    a_batch: tuple[int, ...]
    b_batch: tuple[int, ...]


class Plan(NamedTuple):
    """How a batch of products is worked off; it follows from shapes and strides alone."""

    words: list[int]  # the parameters, without addresses
    tasks: int
    parts: int  # of the sum; if there are several, they are stored one after the other, as sums, to be added up
    unit: int  # multiply-adds of packets in a task, which is what its work is counted in
    scratch: int  # bytes that each thread needs


#: Tiles of the result are halved until there are so many tasks, but no further than to so many multiply-adds each.
_TASKS, _LEAST = 16, 1 << 20
#: The largest tile.
_TILE = 256
#: The sum is cut into parts, of at least so many elements, where tiles alone do not make enough tasks.
_PART = 4 * DEPTH


def plan_product(type_: int, lanes: int, m: Matrices) -> Plan:
    """How products of a type are computed on a machine."""
    height, registers, width = register_tile(type_, lanes)
    panel = registers * width
    size, wide = TYPES[type_].size, TYPES[accumulator(type_)].size
    count, depth = math.prod(m.batch), max(m.depth, 1)
    row_tiles, column_tiles, parts = -(-m.rows // _TILE), -(-m.columns // _TILE), 1
    tile_rows, tile_columns, part = _share(m.rows, row_tiles, height), _share(m.columns, column_tiles, panel), depth
    while (row_tiles * column_tiles * parts * count < _TASKS
           and tile_rows * tile_columns * part > 2 * _LEAST):
        if tile_rows >= tile_columns and tile_rows > 4 * height:
            row_tiles *= 2
            tile_rows = _share(m.rows, row_tiles, height)
        elif tile_columns > panel:
            column_tiles *= 2
            tile_columns = _share(m.columns, column_tiles, panel)
        elif part > _PART:
            parts *= 2
            part = _share(depth, parts, DEPTH)
        else:
            break
    row_tiles, column_tiles = -(-m.rows // tile_rows), -(-m.columns // tile_columns)
    parts = -(-depth // part)
    converts = accumulator(type_) != type_ and size != wide
    a_mode = _mode(m.a[0], m.a[1])
    if a_mode == ROWS_FIRST and not converts and (tile_columns <= panel or m.rows * depth <= 1 << 14):
        a_mode = DIRECT
    b_mode = _mode(m.b[0], m.b[1])
    if b_mode == ROWS_FIRST and not converts and (tile_rows <= 4 * height or m.columns * depth <= 1 << 13):
        b_mode = DIRECT
    padded_rows, padded_columns = _up(tile_rows, width), _up(tile_columns, panel)
    scratch = DEPTH * panel * wide + (a_mode != DIRECT) * padded_rows * DEPTH * wide
    if converts:
        scratch = DEPTH * (panel + padded_rows) * wide + padded_rows * padded_columns * wide
    out = wide if parts > 1 else size
    values = {
        "rows": m.rows, "columns": m.columns, "depth": m.depth, "a_row": m.a[0] * size, "a_column": m.a[1] * size,
        "b_row": m.b[0] * size, "b_column": m.b[1] * size, "c_row": m.columns * out,
        "c_batch": m.rows * m.columns * out, "c_part": count * m.rows * m.columns * out, "c_wide": int(parts > 1),
        "tile_rows": tile_rows,
        "tile_columns": tile_columns, "part": part, "row_tiles": row_tiles, "column_tiles": column_tiles,
        "parts": parts, "a_mode": a_mode, "b_mode": b_mode, "rank": len(m.batch), "scratch_size": _up(scratch, 4096),
        "unit": max(1, min(tile_rows, m.rows) * min(tile_columns, m.columns) * part // width)}
    words = _words(values, m, size)
    return Plan(words, row_tiles * column_tiles * parts * count, parts, values["unit"], values["scratch_size"])


def _words(values: dict[str, int], m: Matrices, size: int) -> list[int]:
    words = [values.get(name, 0) for name in WORDS]
    for extent, a, b in zip(m.batch, m.a_batch, m.b_batch, strict=True):
        words += [extent, a * size, b * size]
    return words


def _share(extent: int, shares: int, multiple: int) -> int:
    """The size of shares that an extent is divided into."""
    return _up(-(-extent // shares), multiple)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _mode(row: int, column: int) -> int:
    return ROWS_FIRST if column == 1 else TRANSPOSED if row == 1 else GENERAL
