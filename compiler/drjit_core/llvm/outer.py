"""LLVM text of sums of products of two vectors, which are the gradients of matrices by many elements.

Components of both vectors are packets on the stack.  A function of the module transposes those of the second one, so
that a register holds as many of them, of one element; each component of the first vector multiplies it, element after
element. Blocks of the matrix are added up in registers, and then to the room that the block of the kernel has among its
partial results (see :mod:`..codegen.partials`): so no sum of single precision has many terms. All of it is a handful of
loops, however large the matrix.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..codegen.linear import Instruction, Reduction
from ..codegen.partials import Room, rooms_of
from .function import FunctionEmitter
from .lines import function_text
from .reduction import partial_stride
from .texts import TypeText

__all__ = ["combine", "end", "numbers_of", "outer"]

#: Registers for sums, and for columns, where there are 32 of them of 512 bits, and where there are 16 of 256.
_SUMS, _FEW_SUMS, _COLUMNS, _FEW_COLUMNS = 24, 8, 4, 2
#: Elements of which the products are added up in single precision.
_FLUSHED = 512
#: Lanes of double precision that loops over a room take together.
_LANES = 8


def numbers_of(outputs: list[Reduction]) -> dict[int, Room]:
    """The rooms of those reductions that are matrices, by their numbers."""
    return rooms_of([output.value.node for output in outputs])


def outer(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Add the products of a packet to the room."""
    outputs = emitter.function.reductions
    rooms = numbers_of(outputs)
    (number,) = (number for number in rooms if outputs[number].value is instruction)
    room, uniform, out = rooms[number], instruction.uniform, emitter.lines
    type_ = emitter.types(uniform)[instruction.type]
    left, right = (_memory(emitter, what, extent, type_) for what, extent in (("l", room.rows), ("r", room.width)))
    name, active = f"%v{instruction.number}", emitter.active_mask(uniform)
    for place, value in enumerate(emitter.values(instruction.operands, uniform)):
        memory, at = (left, place) if place < room.rows else (right, place - room.rows)
        if not uniform:
            out.append(f"{name}_m{place} = select {type_.mask} {active}, {type_} {value}, {type_} zeroinitializer")
            value = f"{name}_m{place}"
        out += [f"{name}_a{place} = getelementptr {type_}, ptr {memory}, i64 {at}",
                f"store {type_} {value}, ptr {name}_a{place}, align {type_.info.size}"]
        emitter.split_block()
    emitter.lines.append(f"call void @{_function(emitter, room, type_)}(ptr {left}, ptr {right}, "
                         f"ptr {_begun(emitter, number, room)})")
    emitter.define(instruction, "poison")


def end(emitter: FunctionEmitter) -> list[str]:
    """Text behind the loop over packets: what has been added up is complete."""
    return [f"call void @{_flush(emitter.module.helpers, room)}(ptr %room{number})"
            for number, room in numbers_of(emitter.function.reductions).items() if room.flushed]


def combine(helpers: dict[str, str], outputs: list[Reduction], words: int) -> list[str]:
    """Text that adds up the rooms of all blocks and writes the outputs, at the beginning of a function that gets the
    parameters and the number of blocks."""
    lines: list[str] = []
    for number, room in numbers_of(outputs).items():
        lines += [f"%to{number}_at = getelementptr inbounds i64, ptr %parameters, i64 {outputs[number].slot}",
                  f"%to{number} = load ptr, ptr %to{number}_at, align 8",
                  f"%from{number} = getelementptr i8, ptr %partials, i64 {8 * room.first + room.sums}",
                  f"call void @{_combination(helpers, room, words)}(ptr %from{number}, i64 %blocks, ptr %to{number})"]
    return lines


def _memory(emitter: FunctionEmitter, what: str, extent: int, type_: TypeText) -> str:
    """Memory on the stack, which all products of the function share; what stays unused is zero."""
    name = f"%outer_{what}{extent}_{type_.suffix}"
    if name not in emitter.loaded:
        emitter.loaded.add(name)
        emitter.prologue += [f"{name} = alloca [{extent} x {type_}], align 64",
                             f"call void @{_zeros(emitter.module.helpers)}(ptr {name}, "
                             f"i64 {extent * type_.info.size * max(1, type_.lanes)})"]
    return name


def _begun(emitter: FunctionEmitter, number: int, room: Room) -> str:
    """The room, which is filled with zeros before anything else."""
    name = f"%room{number}"
    if name not in emitter.loaded:
        emitter.loaded.add(name)
        stride = partial_stride(emitter.function.partial_words)
        emitter.parameter(1, "ptr")
        emitter.prologue += [f"{name}_block = mul i64 %block, {stride}",
                             f"{name}_at = add i64 {name}_block, {8 * room.first}",
                             f"{name} = getelementptr i8, ptr %p1, i64 {name}_at",
                             f"call void @{_zeros(emitter.module.helpers)}(ptr {name}, i64 {8 * room.words})"]
    return name


# --- functions of the module -----------------------------------------------------------------------------------------


def _loop(label: str, before: str, count: int | str, lines: list[str], step: int = 1) -> list[str]:
    """Text of a loop of one block, which uses the position ``%at_<label>``, and goes on at ``<label>_end``."""
    at = f"%at_{label}"
    return [f"br label %{label}", f"{label}:", f"{at} = phi i64 [ 0, %{before} ], [ {at}_next, %{label} ]", *lines,
            f"{at}_next = add nuw nsw i64 {at}, {step}", f"{at}_more = icmp ult i64 {at}_next, {count}",
            f"br i1 {at}_more, label %{label}, label %{label}_end", f"{label}_end:"]


def _zeros(helpers: dict[str, str]) -> str:
    """A function that fills memory with zeros: a number of bytes that is a multiple of 4."""
    name = "outer_zeros"
    helpers[name] = function_text(f"internal void @{name}(ptr %to, i64 %bytes) noinline #0", [
        "entry:", "%whole = and i64 %bytes, -64", "%any = icmp ne i64 %whole, 0",
        "br i1 %any, label %lines, label %tail",
        "lines:", "%i = phi i64 [ 0, %entry ], [ %i_next, %lines ]", "%at = getelementptr i8, ptr %to, i64 %i",
        "store <8 x i64> zeroinitializer, ptr %at, align 4", "%i_next = add i64 %i, 64",
        "%more = icmp ult i64 %i_next, %whole", "br i1 %more, label %lines, label %tail",
        "tail:", "%k = phi i64 [ %whole, %entry ], [ %whole, %lines ], [ %k_next, %word ]",
        "%left = icmp ult i64 %k, %bytes", "br i1 %left, label %word, label %done",
        "word:", "%word_at = getelementptr i8, ptr %to, i64 %k", "store i32 0, ptr %word_at, align 4",
        "%k_next = add i64 %k, 4", "br label %tail", "done:", "ret void"])
    return name


def _flush(helpers: dict[str, str], room: Room) -> str:
    """A function that adds recent sums to those of double precision."""
    elements = room.rows * room.width
    name, wide, narrow = f"outer_flush_{elements}", f"<{_LANES} x double>", f"<{_LANES} x float>"
    helpers[name] = function_text(f"internal void @{name}(ptr %room) noinline #0", [
        "entry:", f"%sums = getelementptr i8, ptr %room, i64 {room.sums}",
        f"%recent = getelementptr i8, ptr %room, i64 {room.recent}",
        *_loop("line", "entry", elements, [
            "%to = getelementptr double, ptr %sums, i64 %at_line",
            "%from = getelementptr float, ptr %recent, i64 %at_line",
            f"%new = load {narrow}, ptr %from, align 4", f"%more_of_it = fpext {narrow} %new to {wide}",
            f"%old = load {wide}, ptr %to, align 8", f"%sum = fadd {wide} %old, %more_of_it",
            f"store {wide} %sum, ptr %to, align 8",
            f"store {narrow} zeroinitializer, ptr %from, align 4"], _LANES),
        "ret void"])
    return name


def _combination(helpers: dict[str, str], room: Room, words: int) -> str:
    """A function that adds up the sums of all blocks, rounds them, and writes the matrix without its padding."""
    kind = "f32" if room.flushed else "f64"
    stride = partial_stride(words)
    name, wide = f"outer_combine_{room.rows}x{room.columns}_{kind}", f"<{_LANES} x double>"
    result = f"<{_LANES} x float>" if room.flushed else wide
    size, places = 4 if room.flushed else 8, ", ".join(f"i64 {k}" for k in range(_LANES))
    rounded = [f"%rounded = fptrunc {wide} %t to {result}"] if room.flushed else []
    helpers[name] = function_text(f"internal void @{name}(ptr %from, i64 %blocks, ptr %to) noinline #0", [
        "entry:", "br label %row", "row:", "%r = phi i64 [ 0, %entry ], [ %r_next, %row_end ]",
        f"%r_from = mul i64 %r, {room.width}", f"%r_to = mul i64 %r, {room.columns}", "br label %column",
        "column:", "%c = phi i64 [ 0, %row ], [ %c_next, %block_end ]", "%at = add i64 %r_from, %c",
        "%first = getelementptr double, ptr %from, i64 %at", "br label %block",
        "block:", "%b = phi i64 [ 0, %column ], [ %b_next, %block ]",
        f"%s = phi {wide} [ splat (double -0.0), %column ], [ %t, %block ]", f"%b_at = mul i64 %b, {stride}",
        "%here = getelementptr i8, ptr %first, i64 %b_at", f"%in = load {wide}, ptr %here, align 8",
        f"%t = fadd {wide} %s, %in", "%b_next = add i64 %b, 1", "%b_more = icmp ult i64 %b_next, %blocks",
        "br i1 %b_more, label %block, label %block_end", "block_end:", *rounded,
        "%to_at = add i64 %r_to, %c",
        f"%place = getelementptr {'float' if room.flushed else 'double'}, ptr %to, i64 %to_at",
        f"%left = sub i64 {room.columns}, %c", f"%left_0 = insertelement <{_LANES} x i64> poison, i64 %left, i32 0",
        f"%left_all = shufflevector <{_LANES} x i64> %left_0, <{_LANES} x i64> poison, "
        f"<{_LANES} x i32> zeroinitializer",
        f"%mask = icmp slt <{_LANES} x i64> <{places}>, %left_all",
        f"call void @llvm.masked.store.v{_LANES}{kind}.p0({result} {'%rounded' if room.flushed else '%t'}, "
        f"ptr %place, i32 {size}, <{_LANES} x i1> %mask)",
        f"%c_next = add i64 %c, {_LANES}", f"%c_more = icmp ult i64 %c_next, {room.columns}",
        "br i1 %c_more, label %column, label %row_end",
        "row_end:", "%r_next = add i64 %r, 1", f"%r_more = icmp ult i64 %r_next, {room.rows}",
        "br i1 %r_more, label %row, label %done", "done:", "ret void"])
    return name


def _function(emitter: FunctionEmitter, room: Room, type_: TypeText) -> str:
    """A function that adds the products of a packet, or of one element, to a room."""
    helpers, lanes, element = emitter.module.helpers, type_.lanes or 1, type_.element
    name = f"outer_{room.rows}x{room.columns}_{type_.suffix}"
    if name in helpers:
        return name
    size = type_.info.size
    wide = emitter.lanes >= 16
    register = min(room.width, (64 if wide else 32 if emitter.lanes >= 8 else 16) // size)
    vector = TypeText(type_.info, register)
    lines = ["entry:", f"%sums = getelementptr i8, ptr %room, i64 {room.recent}"]
    label, right = "entry", "%right"
    if lanes > 1:
        lines += [f"%turned = alloca [{lanes * room.width} x {element}], align 64",
                  *_transposition(room, lanes, vector)]
        label, right = "turn_end", "%turned"
    most_columns = _COLUMNS if wide else _FEW_COLUMNS
    for columns, first_column, times_column in _shares(room.width // register, most_columns):
        most = max(1, (_SUMS if wide else _FEW_SUMS) // columns)
        for rows, first_row, times_row in _shares(room.rows, most):
            tag = f"p{first_column}_{first_row}"
            lines += _block(tag, label, (rows, first_row, times_row), (columns, first_column, times_column),
                            room, lanes, vector, right)
            label = f"{tag}_done"
    if room.flushed:
        lines += ["%count = load i64, ptr %room, align 8", "%count_1 = add i64 %count, 1",
                  f"%due = icmp uge i64 %count_1, {max(1, _FLUSHED // lanes)}",
                  "br i1 %due, label %flush, label %counted", "flush:",
                  f"call void @{_flush(helpers, room)}(ptr %room)", "br label %counted", "counted:",
                  f"%count_2 = phi i64 [ %count_1, %{label} ], [ 0, %flush ]", "store i64 %count_2, ptr %room, align 8"]
    lines.append("ret void")
    helpers[name] = function_text(
        f"internal void @{name}(ptr noalias %left, ptr noalias %right, ptr noalias %room) noinline #0", lines)
    return name


def _shares(count: int, most: int) -> Iterator[tuple[int, int, int]]:
    """Shares of at most so many, as equal as they can be: their size, the first element, and how many of them."""
    shares = -(-count // most)
    size, longer = divmod(count, shares)
    if longer:
        yield size + 1, 0, longer
    if shares > longer:
        yield size, longer * (size + 1), shares - longer


def _transposition(room: Room, lanes: int, vector: TypeText) -> list[str]:
    """Text that turns packets of components into rows of components: squares of registers."""
    size, element = vector.lanes, vector.element
    across = lanes // size  # squares of a packet
    names = [f"%q{k}" for k in range(size)]
    lines = [f"%turn_c = udiv i64 %at_turn, {across}", f"%turn_m = mul i64 %turn_c, {across}",
             "%turn_s = sub i64 %at_turn, %turn_m", f"%turn_row = mul i64 %turn_c, {size * lanes}",
             f"%turn_lane = mul i64 %turn_s, {size}", "%turn_from = add i64 %turn_row, %turn_lane",
             f"%turn_to_0 = mul i64 %turn_s, {size * room.width}", f"%turn_to_1 = mul i64 %turn_c, {size}",
             "%turn_to = add i64 %turn_to_0, %turn_to_1",
             f"%turn_in = getelementptr {element}, ptr %right, i64 %turn_from",
             f"%turn_out = getelementptr {element}, ptr %turned, i64 %turn_to"]
    for k, name in enumerate(names):
        lines += [f"{name}_at = getelementptr {element}, ptr %turn_in, i64 {k * lanes}",
                  f"{name} = load {vector}, ptr {name}_at, align {vector.info.size}"]
    distance = 1
    while distance < size:
        turned = [""] * size
        for k in range(size):
            if k & distance:
                continue
            low, high = [], []
            for lane in range(size):
                low.append(lane if not lane & distance else lane - distance + size)
                high.append(lane + distance if not lane & distance else lane + size)
            for other, order in ((k, low), (k + distance, high)):
                turned[other] = f"%q{distance}_{other}"
                places = ", ".join(f"i32 {place}" for place in order)
                lines.append(f"{turned[other]} = shufflevector {vector} {names[k]}, {vector} {names[k + distance]}, "
                             f"<{size} x i32> <{places}>")
        names, distance = turned, 2 * distance
    for k, name in enumerate(names):
        lines += [f"%o{k}_at = getelementptr {element}, ptr %turn_out, i64 {k * room.width}",
                  f"store {vector} {name}, ptr %o{k}_at, align {vector.info.size}"]
    return _loop("turn", "entry", across * (room.width // size), lines)


def _block(tag: str, before: str, rows: tuple[int, int, int], columns: tuple[int, int, int], room: Room, lanes: int,
           vector: TypeText, right: str) -> list[str]:
    """Text that goes over blocks of a matrix, of so many rows and registers of columns, and in each over elements."""
    (height, first_row, times_row), (width, first_column, times_column) = rows, columns
    p, size, element, align = f"%{tag}", vector.lanes, vector.element, vector.info.size
    sums = [(r, c) for r in range(height) for c in range(width)]
    lines = [f"br label %{tag}_columns", f"{tag}_columns:",
             f"{p}_j = phi i64 [ 0, %{before} ], [ {p}_j_next, %{tag}_column_end ]",
             f"{p}_column_0 = mul i64 {p}_j, {width * size}",
             f"{p}_column = add i64 {p}_column_0, {first_column * size}",
             f"br label %{tag}_rows", f"{tag}_rows:",
             f"{p}_i = phi i64 [ 0, %{tag}_columns ], [ {p}_i_next, %{tag}_end ]",
             f"{p}_row_0 = mul i64 {p}_i, {height}", f"{p}_row = add i64 {p}_row_0, {first_row}",
             f"{p}_at_0 = mul i64 {p}_row, {room.width}", f"{p}_at = add i64 {p}_at_0, {p}_column",
             f"{p}_to = getelementptr {element}, ptr %sums, i64 {p}_at",
             f"{p}_left_at = mul i64 {p}_row, {lanes}",
             f"{p}_left = getelementptr {element}, ptr %left, i64 {p}_left_at",
             f"{p}_right = getelementptr {element}, ptr {right}, i64 {p}_column"]
    lines += [f"br label %{tag}_elements", f"{tag}_elements:",
              f"{p}_t = phi i64 [ 0, %{tag}_rows ], [ {p}_t_next, %{tag}_elements ]"]
    lines += [f"{p}_s{r}_{c} = phi {vector} [ zeroinitializer, %{tag}_rows ], [ {p}_n{r}_{c}, %{tag}_elements ]"
              for r, c in sums]
    lines += [f"{p}_x_at = mul i64 {p}_t, {room.width}",
              f"{p}_x_row = getelementptr {element}, ptr {p}_right, i64 {p}_x_at",
              f"{p}_y_row = getelementptr {element}, ptr {p}_left, i64 {p}_t"]
    for c in range(width):
        lines += [f"{p}_x{c}_at = getelementptr {element}, ptr {p}_x_row, i64 {c * size}",
                  f"{p}_x{c} = load {vector}, ptr {p}_x{c}_at, align {align}"]
    for r in range(height):
        lines += [f"{p}_y{r}_at = getelementptr {element}, ptr {p}_y_row, i64 {r * lanes}",
                  f"{p}_y{r}_1 = load {element}, ptr {p}_y{r}_at, align {align}",
                  f"{p}_y{r}_0 = insertelement {vector} poison, {element} {p}_y{r}_1, i32 0",
                  f"{p}_y{r} = shufflevector {vector} {p}_y{r}_0, {vector} poison, <{size} x i32> zeroinitializer"]
        lines += [f"{p}_n{r}_{c} = call {vector} @llvm.fma.{vector.suffix}({vector} {p}_y{r}, {vector} {p}_x{c}, "
                  f"{vector} {p}_s{r}_{c})" for c in range(width)]
    lines += [f"{p}_t_next = add nuw nsw i64 {p}_t, 1", f"{p}_t_more = icmp ult i64 {p}_t_next, {lanes}",
              f"br i1 {p}_t_more, label %{tag}_elements, label %{tag}_end", f"{tag}_end:"]
    for r, c in sums:
        at = f"{p}_a{r}_{c}"
        lines += [f"{at} = getelementptr {element}, ptr {p}_to, i64 {r * room.width + c * size}",
                  f"{at}_old = load {vector}, ptr {at}, align {align}",
                  f"{at}_new = fadd {vector} {at}_old, {p}_n{r}_{c}",
                  f"store {vector} {at}_new, ptr {at}, align {align}"]
    return [*lines, f"{p}_i_next = add nuw nsw i64 {p}_i, 1", f"{p}_i_more = icmp ult i64 {p}_i_next, {times_row}",
            f"br i1 {p}_i_more, label %{tag}_rows, label %{tag}_column_end", f"{tag}_column_end:",
            f"{p}_j_next = add nuw nsw i64 {p}_j, 1", f"{p}_j_more = icmp ult i64 {p}_j_next, {times_column}",
            f"br i1 {p}_j_more, label %{tag}_columns, label %{tag}_done", f"{tag}_done:"]
