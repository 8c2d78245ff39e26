"""LLVM text of products of matrices and vectors, which read each element of the matrix once: memory decides.

There is one function for matrices whose rows lie in memory (sums of products along them), and one for those whose
columns do (a row of sums, to which columns are added, eight at a time).  Products of a vector and a matrix are those of
the transposed matrix.  Parameters are :data:`.matrices.WORDS`, the vector is the right operand.

Rounding: a lane adds up at most 512 products by fused multiply-adds, or sums of eight, before lanes and parts are
added.
"""

from __future__ import annotations

import math

from ..lines import function_text
from ..texts import TypeText, cast
from .matrices import WORDS, Matrices, Plan, words_of
from .product import ProductTexts, declarations, located
from .tasks import entry, up

__all__ = ["columns_text", "combine_text", "plan_vector", "rows_text"]

#: Rows that are read at the same time, and registers of each.
_GROUPS = ((4, 2), (1, 8))
#: Columns that are read at the same time.
_COLUMNS = 8


class _VectorTexts(ProductTexts):
    """What the functions of these modules have in common."""

    def combine(self, name: str, value: str) -> list[str]:
        """The sum of the lanes of a packet, by halves."""
        t, width = self.wide, self.width
        lines, distance = [], width // 2
        while distance:
            mask = ", ".join(f"i32 {(lane + distance) % width}" for lane in range(width))
            lines += [f"{name}_h{distance} = shufflevector {t} {value}, {t} poison, <{width} x i32> <{mask}>",
                      self.add(f"{name}_s{distance}", value, f"{name}_h{distance}")]
            value, distance = f"{name}_s{distance}", distance // 2
        return [*lines, f"{name} = extractelement {t} {value}, i64 0"]

    def store_scalar(self, name: str, value: str, address: str) -> list[str]:
        """Stores a sum as such, or as an element of the result."""
        t, s = self.wide.element, self.narrow.element
        if not self.converts:
            return [f"store {t} {value}, ptr {address}, align {self.size}"]
        return [f"br i1 %keeps, label {name}_wide, label {name}_narrow", f"{name[1:]}_wide:",
                f"store {t} {value}, ptr {address}, align {self.size}", f"br label {name}_end", f"{name[1:]}_narrow:",
                cast(f"{name}_n", value, TypeText(self.wide.info, 0), TypeText(self.narrow.info, 0)),
                f"store {s} {name}_n, ptr {address}, align {self.narrow_size}", f"br label {name}_end",
                f"{name[1:]}_end:"]


def rows_text(type_: int, lanes: int, name: str = "kernel") -> str:
    """The module of products of matrices whose rows lie in memory."""
    x = _VectorTexts(type_, lanes)
    return "\n".join([*declarations(x.wide, x.narrow), *(_rows(x, *group) for group in _GROUPS), _gathered(x),
                      _rows_task(x), entry(name, WORDS)])


def _rows(x: _VectorTexts, rows: int, registers: int) -> str:
    """Sums of products of ``rows`` rows with the vector; where there are fewer, the last one is computed repeatedly."""
    t, size, step = x.wide, x.narrow_size, x.width * registers
    signature = (f"internal void @rows_{rows}(ptr %a, i64 %a_row, ptr %x, i64 %depth, ptr %c, i64 %c_size, "
                 "i64 %rows, i1 %keeps) noinline")
    lines = ["entry:", "%last = sub i64 %rows, 1"]
    for i in range(rows):
        lines += [f"%i{i} = call i64 @llvm.umin.i64(i64 {i}, i64 %last)", f"%o{i} = mul i64 %i{i}, %a_row",
                  f"%a{i} = getelementptr i8, ptr %a, i64 %o{i}"]
    pairs = [(i, j) for i in range(rows) for j in range(registers)]
    lines += [f"%whole = and i64 %depth, {-step}", "%some = icmp ugt i64 %whole, 0",
              "br i1 %some, label %loop, label %middle", "loop:", "%k = phi i64 [ 0, %entry ], [ %k_next, %loop ]"]
    lines += [f"%s{i}_{j} = phi {t} [ zeroinitializer, %entry ], [ %n{i}_{j}, %loop ]" for i, j in pairs]

    def loads(prefix: str, place: str, registers: int, mask: str = "") -> None:
        for i, base in [("x", "%x"), *((str(i), f"%a{i}") for i in range(rows))]:
            lines.append(f"%{prefix}{i}_at = getelementptr {x.narrow.element}, ptr {base}, i64 {place}")
            for j in range(registers):
                lines.extend((f"%{prefix}{i}_{j}_at = getelementptr i8, ptr %{prefix}{i}_at, i64 {j * x.width * size}",
                              x.load(f"%{prefix}{i}_{j}_l", f"%{prefix}{i}_{j}_at", mask, x.narrow),
                              x.widen(f"%{prefix}{i}_{j}", f"%{prefix}{i}_{j}_l")))

    loads("l", "%k", registers)
    lines += [x.multiply_add(f"%n{i}_{j}", f"%l{i}_{j}", f"%lx_{j}", f"%s{i}_{j}") for i, j in pairs]
    lines += [f"%k_next = add i64 %k, {step}", "%more = icmp ult i64 %k_next, %whole",
              "br i1 %more, label %loop, label %middle", "middle:"]
    lines += [f"%m{i}_{j} = phi {t} [ zeroinitializer, %entry ], [ %n{i}_{j}, %loop ]" for i, j in pairs]
    sums = []
    for i in range(rows):
        level = [f"%m{i}_{j}" for j in range(registers)]
        while len(level) > 1:
            joined = [f"{level[j]}_{len(level)}" for j in range(0, len(level), 2)]
            lines += [x.add(joined[j // 2], level[j], level[j + 1]) for j in range(0, len(level), 2)]
            level = joined
        sums.append(level[0])
    lines += ["%rest = icmp ult i64 %whole, %depth", "br i1 %rest, label %tail, label %stores", "tail:",
              "%q = phi i64 [ %whole, %middle ], [ %q_next, %tail ]"]
    lines += [f"%q{i} = phi {t} [ {sums[i]}, %middle ], [ %r{i}, %tail ]" for i in range(rows)]
    lines += ["%left = sub i64 %depth, %q", x.below("%mask", "%left")]
    loads("t", "%q", 1, "%mask")
    lines += [x.multiply_add(f"%r{i}", f"%t{i}_0", "%tx_0", f"%q{i}") for i in range(rows)]
    lines += [f"%q_next = add i64 %q, {x.width}", "%q_more = icmp ult i64 %q_next, %depth",
              "br i1 %q_more, label %tail, label %stores", "stores:"]
    lines += [f"%f{i} = phi {t} [ {sums[i]}, %middle ], [ %r{i}, %tail ]" for i in range(rows)]
    for i in range(rows):
        lines += x.combine(f"%g{i}", f"%f{i}")
    lines.append("br label %store_0")
    for i in range(rows):
        lines += [f"store_{i}:", f"%c{i}_o = mul i64 %c_size, {i}", f"%c{i} = getelementptr i8, ptr %c, i64 %c{i}_o",
                  *x.store_scalar(f"%e{i}", f"%g{i}", f"%c{i}")]
        if i + 1 < rows:
            lines += [f"%more{i} = icmp ugt i64 %rows, {i + 1}", f"br i1 %more{i}, label %store_{i + 1}, label %done"]
        else:
            lines.append("br label %done")
    return function_text(signature, [*lines, "done:", "ret void"])


def _gathered(x: ProductTexts) -> str:
    """Copies the elements of a vector that are apart."""
    s = x.narrow.element
    return f"""
define internal void @gather(ptr %from, i64 %step, ptr %to, i64 %count) noinline {{
entry:
  br label %element
element:
  %i = phi i64 [ 0, %entry ], [ %i_next, %element ]
  %o = mul i64 %i, %step
  %from_i = getelementptr i8, ptr %from, i64 %o
  %value = load {s}, ptr %from_i, align {x.narrow_size}
  %to_i = getelementptr {s}, ptr %to, i64 %i
  store {s} %value, ptr %to_i, align {x.narrow_size}
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %count
  br i1 %more, label %element, label %done
done:
  ret void
}}"""


def _tile_start(x: ProductTexts) -> str:
    """Where operands and result of a task are."""
    return f"""
located:
  %a_batch = getelementptr i8, ptr %a, i64 %a_sum
  %a_o0 = mul i64 %m_0, %a_row
  %a_o1 = mul i64 %k_0, %a_column
  %a_o = add i64 %a_o0, %a_o1
  %a_tile = getelementptr i8, ptr %a_batch, i64 %a_o
  %b_batch = getelementptr i8, ptr %b, i64 %b_sum
  %b_o = mul i64 %k_0, %b_row
  %b_tile = getelementptr i8, ptr %b_batch, i64 %b_o
  %keeps = icmp ne i64 %c_wide, 0
  %c_size = select i1 %keeps, i64 {x.size}, i64 {x.narrow_size}
  %c_o0 = mul i64 %batch, %c_batch
  %c_o1 = mul i64 %part_i, %c_part
  %c_o2 = mul i64 %m_0, %c_size
  %c_o3 = add i64 %c_o0, %c_o1
  %c_o = add i64 %c_o2, %c_o3
  %c_tile = getelementptr i8, ptr %c, i64 %c_o"""


def _rows_task(x: ProductTexts) -> str:
    many, one = _GROUPS[0][0], _GROUPS[1][0]
    return f"""
define internal void @task(ptr %parameters, i64 %task, i32 %worker) noinline {{
entry:
  {located()}
{_tile_start(x)}
  %lies = icmp eq i64 %b_mode, 0
  br i1 %lies, label %groups, label %copied
copied:
  call void @gather(ptr %b_tile, i64 %b_row, ptr %b_copy, i64 %k_count)
  br label %groups
groups:
  %x = phi ptr [ %b_tile, %located ], [ %b_copy, %copied ]
  br label %group
group:
  %i = phi i64 [ 0, %groups ], [ %i_next, %group_end ]
  %a_o2 = mul i64 %i, %a_row
  %a_i = getelementptr i8, ptr %a_tile, i64 %a_o2
  %c_o4 = mul i64 %i, %c_size
  %c_i = getelementptr i8, ptr %c_tile, i64 %c_o4
  %i_left = sub i64 %m_count, %i
  %i_n = call i64 @llvm.umin.i64(i64 %i_left, i64 {many})
  %single = icmp eq i64 %i_n, 1
  br i1 %single, label %one, label %many
one:
  call void @rows_{one}(ptr %a_i, i64 %a_row, ptr %x, i64 %k_count, ptr %c_i, i64 %c_size, i64 1, i1 %keeps)
  br label %group_end
many:
  call void @rows_{many}(ptr %a_i, i64 %a_row, ptr %x, i64 %k_count, ptr %c_i, i64 %c_size, i64 %i_n, i1 %keeps)
  br label %group_end
group_end:
  %i_next = add i64 %i, {many}
  %i_more = icmp slt i64 %i_next, %m_count
  br i1 %i_more, label %group, label %done
done:
  ret void
}}"""


def columns_text(type_: int, lanes: int, name: str = "kernel") -> str:
    """The module of products of matrices whose columns lie in memory."""
    x = _VectorTexts(type_, lanes)
    return "\n".join([*declarations(x.wide, x.narrow), _columns(x, _COLUMNS), _columns(x, 1), _copied_sums(x),
                      _columns_task(x), entry(name, WORDS)])


def _columns(x: ProductTexts, columns: int) -> str:
    """Adds ``columns`` columns times their elements of the vector to a row of sums."""
    s, t, size = x.narrow.element, x.wide, x.narrow_size
    signature = (f"internal void @columns_{columns}(ptr %a, i64 %a_column, ptr %x, i64 %x_step, ptr %sums, "
                 "i64 %count) noinline")
    lines = ["entry:"]
    for k in range(columns):
        lines += [f"%o{k} = mul i64 %a_column, {k}", f"%a{k} = getelementptr i8, ptr %a, i64 %o{k}",
                  f"%x{k}_o = mul i64 %x_step, {k}", f"%x{k}_at = getelementptr i8, ptr %x, i64 %x{k}_o",
                  f"%x{k}_l = load {s}, ptr %x{k}_at, align {size}", x.widen(f"%x{k}", f"%x{k}_l", scalar=True),
                  x.splat(f"%v{k}", f"%x{k}")]
    lines += [f"%whole = and i64 %count, {-x.width}", "%some = icmp ugt i64 %whole, 0",
              "br i1 %some, label %loop, label %middle"]
    for label, place, mask in (("loop", "%i", ""), ("tail", "%whole", "%mask")):
        lines.append(f"{label}:")
        if mask:
            lines += ["%left = sub i64 %count, %whole", x.below("%mask", "%left")]
        else:
            lines.append("%i = phi i64 [ 0, %entry ], [ %i_next, %loop ]")
        found = "zeroinitializer"
        for k in range(columns):
            n = f"%{label}{k}"
            lines += [f"{n}_at = getelementptr {s}, ptr %a{k}, i64 {place}",
                      x.load(f"{n}_l", f"{n}_at", mask, x.narrow), x.widen(f"{n}_w", f"{n}_l")]
            if k:
                lines.append(x.multiply_add(n, f"{n}_w", f"%v{k}", found))
            else:
                lines.append(f"{n} = {'fmul' if t.info.kind == 'f' else 'mul'} {t} {n}_w, %v{k}")
            found = n
        n = f"%{label}"
        lines += [f"{n}_at = getelementptr {t.element}, ptr %sums, i64 {place}", x.load(f"{n}_old", f"{n}_at"),
                  x.add(f"{n}_new", f"{n}_old", found), x.store(f"{n}_new", f"{n}_at")]
        if mask:
            lines.append("br label %done")
        else:
            lines += [f"%i_next = add i64 %i, {x.width}", "%more = icmp ult i64 %i_next, %whole",
                      "br i1 %more, label %loop, label %middle", "middle:", "%rest = icmp ult i64 %whole, %count",
                      "br i1 %rest, label %tail, label %done"]
    return function_text(signature, [*lines, "done:", "ret void"])


def _copied_sums(x: ProductTexts) -> str:
    """Sums become elements of the result, or partial results."""
    narrow = ["narrow:", x.narrowed("%values", "%sums"), f"%at = getelementptr {x.narrow.element}, ptr %to, i64 %i",
              x.store("%values", "%at", "%mask", x.narrow), "br label %next"] if x.converts else \
        ["narrow:", "br label %wide"]
    return f"""
define internal void @deliver(ptr %from, ptr %to, i64 %count, i1 %keeps) noinline {{
entry:
  br label %packet
packet:
  %i = phi i64 [ 0, %entry ], [ %i_next, %next ]
  %left = sub i64 %count, %i
  {x.below("%mask", "%left")}
  %from_i = getelementptr {x.wide.element}, ptr %from, i64 %i
  {x.load("%sums", "%from_i")}
  br i1 %keeps, label %wide, label %narrow
wide:
  %wide_at = getelementptr {x.wide.element}, ptr %to, i64 %i
  {x.store("%sums", "%wide_at", "%mask")}
  br label %next
{chr(10).join(narrow)}
next:
  %i_next = add i64 %i, {x.width}
  %more = icmp slt i64 %i_next, %count
  br i1 %more, label %packet, label %done
done:
  ret void
}}"""


def _columns_task(x: ProductTexts) -> str:
    return f"""
define internal void @task(ptr %parameters, i64 %task, i32 %worker) noinline {{
entry:
  {located()}
{_tile_start(x)}
  br label %clear
clear:
  %z = phi i64 [ 0, %located ], [ %z_next, %clear ]
  %z_at = getelementptr {x.wide.element}, ptr %b_copy, i64 %z
  {x.store("zeroinitializer", "%z_at")}
  %z_next = add i64 %z, {x.width}
  %z_more = icmp slt i64 %z_next, %m_count
  br i1 %z_more, label %clear, label %look
look:
  %k = phi i64 [ 0, %clear ], [ %k_eight, %eight ], [ %k_one, %one ]
  %a_o2 = mul i64 %k, %a_column
  %a_k = getelementptr i8, ptr %a_tile, i64 %a_o2
  %x_o = mul i64 %k, %b_row
  %x = getelementptr i8, ptr %b_tile, i64 %x_o
  %k_eight = add i64 %k, {_COLUMNS}
  %k_one = add i64 %k, 1
  %many = icmp sle i64 %k_eight, %k_count
  br i1 %many, label %eight, label %few
few:
  %some = icmp slt i64 %k, %k_count
  br i1 %some, label %one, label %finish
eight:
  call void @columns_{_COLUMNS}(ptr %a_k, i64 %a_column, ptr %x, i64 %b_row, ptr %b_copy, i64 %m_count)
  br label %look
one:
  call void @columns_1(ptr %a_k, i64 %a_column, ptr %x, i64 %b_row, ptr %b_copy, i64 %m_count)
  br label %look
finish:
  call void @deliver(ptr %b_copy, ptr %c_tile, i64 %m_count, i1 %keeps)
  ret void
}}"""


def combine_text(type_: int, lanes: int, name: str = "kernel") -> str:
    """Adds up the partial results of a product, in order: single precision in double.

    Parameters: addresses of the partial results and of the result; number of parts; elements of each.
    """
    x = ProductTexts(type_, lanes)
    t, s = x.wide, x.narrow
    double = t.info.bits == 32 and t.info.kind == "f" and not x.converts
    sum_ = t.of("double") if double else t
    plus = f"fadd {sum_}" if t.info.kind == "f" else f"add {sum_}"
    widen = f"%wide = fpext {t} %part to {sum_}" if double else f"%wide = bitcast {t} %part to {sum_}"
    if double:
        result = f"%values = fptrunc {sum_} %sum to {s}"
    elif x.converts:
        result = x.narrowed("%values", "%sum")
    else:
        result = f"%values = bitcast {t} %sum to {s}"
    return "\n".join([*declarations(x.wide, x.narrow), f"""
define void @{name}(ptr %parameters, i64 %unused0, i64 %unused1, i64 %begin, i64 %end, i64 %block, i32 %worker) {{
entry:
  %from = load ptr, ptr %parameters, align 8
  %to_at = getelementptr i64, ptr %parameters, i64 1
  %to = load ptr, ptr %to_at, align 8
  %parts_at = getelementptr i64, ptr %parameters, i64 2
  %parts = load i64, ptr %parts_at, align 8
  %count_at = getelementptr i64, ptr %parameters, i64 3
  %count = load i64, ptr %count_at, align 8
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %packet, label %done
packet:
  %i = phi i64 [ %begin, %entry ], [ %i_next, %store ]
  %left = sub i64 %end, %i
  {x.below("%mask", "%left")}
  br label %loop
loop:
  %p = phi i64 [ 0, %packet ], [ %p_next, %loop ]
  %sum_0 = phi {sum_} [ zeroinitializer, %packet ], [ %sum, %loop ]
  %place_0 = mul i64 %p, %count
  %place = add i64 %place_0, %i
  %at = getelementptr {t.element}, ptr %from, i64 %place
  {x.load("%part", "%at", "%mask")}
  {widen}
  %sum = {plus} %sum_0, %wide
  %p_next = add i64 %p, 1
  %p_more = icmp slt i64 %p_next, %parts
  br i1 %p_more, label %loop, label %store
store:
  {result}
  %to_i = getelementptr {s.element}, ptr %to, i64 %i
  {x.store("%values", "%to_i", "%mask", s)}
  %i_next = add i64 %i, {x.width}
  %more = icmp slt i64 %i_next, %end
  br i1 %more, label %packet, label %done
done:
  ret void
}}"""])


# --- what the host decides -------------------------------------------------------------------------------------------

#: Tiles are halved, and the sum is cut into parts, until there are so many tasks, of at least so many bytes.
_TASKS, _LEAST = 16, 1 << 17
#: Elements of the sum that a task adds up: of one row, of several, of columns (of which so many bytes are a tile).
_ONE_ROW, _ROWS, _DEPTH, _TILE = 1 << 16, 1 << 14, 1 << 12, 1 << 13


def plan_vector(type_: int, lanes: int, m: Matrices) -> Plan:
    """How products with one column on the right are computed; rows or columns of the matrix lie in memory."""
    x = ProductTexts(type_, lanes)
    size, wide, count, depth = x.narrow_size, x.size, math.prod(m.batch), max(m.depth, 1)
    by_rows = m.a[1] == 1
    if by_rows:
        tile, part, multiple = min(m.rows, 256), min(depth, _ONE_ROW if m.rows == 1 else _ROWS), _GROUPS[0][0]
    else:
        tile, part, multiple = min(m.rows, _TILE // wide), min(depth, _DEPTH), 4 * x.width

    def tasks() -> int:
        return count * -(-m.rows // tile) * -(-depth // part)

    while tasks() < _TASKS and tile * part * size > 2 * _LEAST:
        if by_rows and tile > multiple:
            tile = up(tile // 2, multiple)
        elif part > 1 << 9:  # long pieces of columns are read faster than short ones
            part //= 2
        elif tile > multiple:
            tile = up(tile // 2, multiple)
        else:
            break
    parts = -(-depth // part)
    out = wide if parts > 1 else size
    contiguous = m.b[0] == 1 or depth == 1
    scratch = up(min(part, depth), x.width) * size if by_rows else up(tile, x.width) * wide
    values = {
        "rows": m.rows, "columns": 1, "depth": m.depth, "a_row": m.a[0] * size, "a_column": m.a[1] * size,
        "b_row": m.b[0] * size, "c_batch": m.rows * out, "c_part": count * m.rows * out, "c_wide": int(parts > 1),
        "tile_rows": tile, "tile_columns": 1, "part": part, "row_tiles": -(-m.rows // tile), "column_tiles": 1,
        "parts": parts, "b_mode": int(not contiguous), "rank": len(m.batch), "scratch_size": up(scratch, 4096),
        "unit": max(1, tile * part // x.width)}
    return Plan(words_of(values, m, size), tasks(), parts, values["unit"], values["scratch_size"])
