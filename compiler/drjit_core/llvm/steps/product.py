"""LLVM text of products of matrices: one function that works off tiles of the result, for any shape and any strides.

A *task* is a tile of one product of the batch, over a part of the sum.  It goes through its part of the sum in blocks
of ``DEPTH`` elements; for each it copies its rows of the left matrix (elements of the sum next to each other, a
constant distance apart), then, two registers of columns at a time, a *panel* of the right one, and computes tiles of
registers from both.  Copies are left out where an operand can be read as it lies and is too small to be worth one.

Rounding: each element of the result is the sum, in order, of sums over ``DEPTH`` products that were accumulated in
order by fused multiply-adds, and so follows from the shape alone.  Half precision is multiplied and summed in single
precision and rounded once; integers of 8 and 16 bits are computed in 32 bits, which is exact modulo their range.

Parameters are 64-bit words, see :data:`.matrices.WORDS`; distances are in bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from ...types import TYPES
from ..lines import function_text
from ..texts import TypeText, bitcast, cast
from .matrices import DEPTH, WORDS, accumulator, register_tile
from .shuffles import transpose_registers
from .tasks import batches, divided, entry, first_lanes, lines, loaded, tile

__all__ = ["ProductTexts", "declarations", "located", "product_text"]


def declarations(wide: TypeText, narrow: TypeText) -> Iterable[str]:
    """Declarations of what loads and stores packets of two types, and adds up products."""
    for t in dict.fromkeys((wide, narrow)):
        yield f"declare {t} @llvm.masked.load.{t.suffix}.p0(ptr, i32, {t.mask}, {t})"
        yield f"declare void @llvm.masked.store.{t.suffix}.p0({t}, ptr, i32, {t.mask})"
    if wide.info.kind == "f":
        yield f"declare {wide} @llvm.fma.{wide.suffix}({wide}, {wide}, {wide})"
    yield "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
    yield "declare i64 @llvm.umin.i64(i64, i64)"


class ProductTexts:
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

    def below(self, name: str, limit: str) -> str:
        """A mask of the lanes whose number is below an ``i64``."""
        return first_lanes(self.width, name, limit)

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
        s, t = (TypeText(text.info, 0 if scalar else self.width) for text in (self.narrow, self.wide))
        return cast(name, value, s, t) if self.converts else bitcast(name, value, s, t)

    def narrowed(self, name: str, value: str) -> str:
        """The reverse."""
        return cast(name, value, self.wide, self.narrow)

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
    x = ProductTexts(type_, lanes)
    parts = [f"@zeros = internal constant [{x.width * x.size} x i8] zeroinitializer, align 64",
             *declarations(x.wide, x.narrow)]
    parts += [_tile(x, rows, registers) for rows in (x.rows, x.rows // 2) for registers in x.variants]
    parts += [_copy(x), _copy_transposed(x), _copy_general(x)]
    if x.converts:
        parts.append(_finish(x))
    parts += [_task(x), entry(name, WORDS)]
    return "\n".join(parts)


def _tile(x: ProductTexts, rows: int, registers: int) -> str:
    """A tile of registers: adds the product of ``rows`` rows and ``registers`` registers of columns to the result.

    Where there are fewer rows than that, the last one is computed several times, and stored once.
    """
    t, size = x.wide, x.size
    signature = (f"internal void @tile_{rows}_{registers}(ptr %a, i64 %a_row, i64 %a_apart, ptr %b, i64 %b_row, "
                 "i64 %depth, ptr %c, i64 %c_row, i64 %rows, i64 %columns, i1 %first) noinline")
    lines = ["entry:", "%last = sub i64 %rows, 1"]
    for i in range(rows):
        lines += [f"%i{i} = call i64 @llvm.umin.i64(i64 {i}, i64 %last)", f"%o{i} = mul i64 %i{i}, %a_row",
                  f"%a{i} = getelementptr i8, ptr %a, i64 %o{i}"]
    for i in range(rows):  # what the sums are added to is needed last
        lines += [f"%ahead{i}_o = mul i64 %c_row, {i}", f"%ahead{i} = getelementptr i8, ptr %c, i64 %ahead{i}_o"]
        for j in range(registers):
            lines += [f"%ahead{i}_{j} = getelementptr i8, ptr %ahead{i}, i64 {j * x.width * size}",
                      f"call void @llvm.prefetch.p0(ptr %ahead{i}_{j}, i32 1, i32 3, i32 1)"]
    lines += ["br label %loop", "loop:", "%k = phi i64 [ 0, %entry ], [ %k_next, %loop ]",
              "%b_k = phi ptr [ %b, %entry ], [ %b_next, %loop ]",
              "%a_k = phi i64 [ 0, %entry ], [ %a_next, %loop ]"]
    pairs = [(i, j) for i in range(rows) for j in range(registers)]
    for i, j in pairs:
        lines.append(f"%s{i}_{j} = phi {t} [ zeroinitializer, %entry ], [ %n{i}_{j}, %loop ]")
    for j in range(registers):
        lines += [f"%b{j}_at = getelementptr i8, ptr %b_k, i64 {j * x.width * size}", x.load(f"%b{j}", f"%b{j}_at")]
    for i in range(rows):
        lines += [f"%a{i}_at = getelementptr i8, ptr %a{i}, i64 %a_k",
                  f"%a{i}_k = load {t.element}, ptr %a{i}_at, align {size}", x.splat(f"%v{i}", f"%a{i}_k")]
        lines += [x.multiply_add(f"%n{i}_{j}", f"%v{i}", f"%b{j}", f"%s{i}_{j}") for j in range(registers)]
    lines += ["%k_next = add nuw i64 %k, 1", "%b_next = getelementptr i8, ptr %b_k, i64 %b_row",
              "%a_next = add i64 %a_k, %a_apart",
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
    return function_text(signature, [*lines, "done:", "ret void"])


#: ``to`` gets rows of so many columns (packets are filled up with zeros) out of ``from``, where columns are ``across``
#: apart, rows ``along``.
_COPY = "ptr %from, i64 %along, i64 %across, ptr %to, i64 %to_row, i64 %rows, i64 %columns"


def _copy_of_rows(number: int, body: str, before: str = "") -> str:
    """A function that copies row by row, from ``%from_r`` to ``%to_r``."""
    return f"""
define internal void @copy_{number}({_COPY}) noinline {{
entry:
  {before}
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r_next, %row_end ]
  %from_r = phi ptr [ %from, %entry ], [ %from_next, %row_end ]
  %to_r = phi ptr [ %to, %entry ], [ %to_next, %row_end ]
{body}
row_end:
  %r_next = add i64 %r, 1
  %from_next = getelementptr i8, ptr %from_r, i64 %along
  %to_next = getelementptr i8, ptr %to_r, i64 %to_row
  %rows_left = icmp slt i64 %r_next, %rows
  br i1 %rows_left, label %row, label %done
done:
  ret void
}}"""


def _copy(x: ProductTexts) -> str:
    """Copies rows whose elements are neighbours."""
    step_to, step_from = x.width * x.size, x.width * x.narrow_size
    return _copy_of_rows(1, f"""\
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
  br i1 %more, label %packet, label %row_end""")


def _copy_transposed(x: ProductTexts) -> str:
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


def _copy_general(x: ProductTexts) -> str:
    """Copies one element after the other; packets are filled up with zeros."""
    s, t = x.narrow.element, x.wide.element
    zero = "0.0" if x.wide.info.kind == "f" else "0"
    return _copy_of_rows(3, f"""\
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
  br label %fill""", f"%up = add i64 %columns, {x.width - 1}\n%padded = and i64 %up, {-x.width}")


def _finish(x: ProductTexts) -> str:
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


def located() -> str:
    """Reads the parameters; where a task is: its tile and part, and the distance of its matrices in the batch.

    The label ``located`` has to follow.
    """
    return lines(
        loaded(WORDS, ("a", "b", "c", "scratch")),
        "%worker_w = zext i32 %worker to i64", "%own = mul i64 %worker_w, %scratch_size",
        "%b_copy = getelementptr i8, ptr %scratch, i64 %own",
        divided("%t1", "%part_i", "%task", "%parts"), divided("%t2", "%n_i", "%t1", "%column_tiles"),
        divided("%batch", "%m_i", "%t2", "%row_tiles"), tile("m", "%m_i", "%tile_rows", "%rows"),
        tile("n", "%n_i", "%tile_columns", "%columns"), tile("k", "%part_i", "%part", "%depth"),
        batches(WORDS, "a", "b"))


def _task(x: ProductTexts) -> str:
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
  {located()}
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
  %a_apart = select i1 %a_lies, i64 %a_column, i64 {x.size}
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


def _whole(x: ProductTexts) -> str:
    """Whether there is a tile of exactly the columns that are left, so that nothing is read beyond them."""
    lines = [f"%j_is_{count} = icmp eq i64 %jn, {count * x.width}" for count in x.variants]
    found = f"%j_is_{x.variants[0]}"
    for count in x.variants[1:]:
        lines.append(f"%j_to_{count} = or i1 {found}, %j_is_{count}")
        found = f"%j_to_{count}"
    return "\n".join([*lines, f"%j_whole = or i1 {found}, false"])


def _tile_calls(x: ProductTexts, label: str, rows: int) -> str:
    """Calls of the narrowest tile that has so many columns as are left."""
    lines = [f"{label}:"]
    for wider, registers in itertools.pairwise(x.variants):
        lines += [f"%{label}_{wider} = icmp ugt i64 %jn, {registers * x.width}",
                  f"br i1 %{label}_{wider}, label %{label}_call_{wider}, label %{label}_to_{registers}",
                  f"{label}_to_{registers}:"]
    lines.append(f"br label %{label}_call_1")
    for registers in x.variants:
        lines += [f"{label}_call_{registers}:",
                  f"call void @tile_{rows}_{registers}(ptr %a_i, i64 %a_along, i64 %a_apart, ptr %b_from, "
                  "i64 %b_along, i64 %kn, ptr %c_i, i64 %sums_row, i64 %in, i64 %jn, i1 %first)", "br label %tile_end"]
    return "\n".join(lines)


