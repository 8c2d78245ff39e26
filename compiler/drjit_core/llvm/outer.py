"""LLVM text of sums of products of two vectors, which are the gradients of matrices by many elements.

Components of both vectors are packets on the stack.  A function of the module transposes those of the second one, so
that a register holds as many of them, of one element; each component of the first vector multiplies it, element after
element. Blocks of the matrix are added up in registers, and then to the room that the block of the kernel has among its
partial results (see :mod:`..codegen.partials`): so no sum of single precision has many terms. All of it is a handful of
loops, however large the matrix.

Writes in regions do the same, and what all blocks have added up is added to their memory in the end; where that cannot
wait, or in functions that a kernel calls, the products of a packet are.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..codegen.linear import Function, Instruction
from ..codegen.partials import Room
from ..codegen.target import ATOMIC, SUMMED
from ..ir.node import Node
from ..types import FLOAT32, FLOAT64, TYPES, ReduceOp
from .function import FunctionEmitter
from .module import ModuleContext
from .reduction import partial_stride
from .texts import TypeText, is_everywhere, zero
from .updates import Update
from .writer import Writer

__all__ = ["combine", "end", "outer", "write"]

#: Registers for sums, and for columns, where there are 32 of them of 512 bits, and where there are 16 of 256.
_SUMS, _FEW_SUMS, _COLUMNS, _FEW_COLUMNS = 24, 8, 4, 2
#: Elements of which the products are added up in single precision.
_FLUSHED = 512
#: Lanes of double precision that loops over a room take together.
_LANES = 8


def outer(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Add the products of a packet to the room, unless that is up to a write."""
    if not instruction.node.scope:
        active = emitter.taking_part(instruction.operands[0], instruction.uniform)
        room, at = _room(emitter, instruction, None)
        _add(emitter, instruction, active, room, at)
    emitter.define(instruction, "poison")


def write(emitter: FunctionEmitter, instruction: Instruction, base: str, condition: str) -> None:
    """Add products to memory where a mask is set: to the room, or at once."""
    (products, index, *_), access = instruction.operands, instruction.access
    assert access is not None
    if access.strategy == SUMMED:
        room, at = _room(emitter, products, instruction.node)
        _add(emitter, products, condition, room, at)
        return
    assert emitter.function.layout is not None
    room = Room(products.node, 0, emitter.function.layout)
    type_, module, w = emitter.scalars[products.type], emitter.module, emitter.writer
    extent, size = room.rows * room.width, type_.info.size
    at = emitter.keep(("outer of one", extent, type_),
                      lambda: emitter.prologue(f"alloca [{extent} x {type_}], align 64"))
    w.run(_zeros(module), f"ptr {at}", f"i64 {extent * size}")
    _add(emitter, products, condition, room, at, once=True)
    to = w.beyond(base, index.node.payload * size)
    w.run(_update(module, room, products.node, access.strategy == ATOMIC), f"ptr {at}", f"ptr {to}")


def _room(emitter: FunctionEmitter, products: Instruction, write: Node | None) -> tuple[Room, str]:
    """The room of some products, which a reduction or a write adds up."""
    outputs, rooms = emitter.function.reductions, emitter.function.rooms
    (number,) = (number for number in rooms if outputs[number].value is products and outputs[number].write is write)
    return rooms[number], _begun(emitter, number, rooms[number])


def _add(emitter: FunctionEmitter, products: Instruction, active: str, room: Room, at: str,
         once: bool = False) -> None:
    """Call a function that adds the products of a packet, where a mask is set, to a room or to memory that is a room
    for one packet."""
    uniform = products.uniform
    type_ = emitter.types(uniform)[products.type]
    left, right = (_memory(emitter, what, extent, type_) for what, extent in (("l", room.rows), ("r", room.width)))
    for place, value in enumerate(emitter.values(products.operands[1:], uniform)):
        w, (memory, entry) = emitter.writer, (left, place) if place < room.rows else (right, place - room.rows)
        if not is_everywhere(active):
            value = w(f"select {type_.mask} {active}, {type_} {value}, {type_} {zero(type_)}")
        w.store(type_, value, w.at(type_, memory, entry), type_.info.size)
        emitter.split_block()
    emitter.writer.run(_function(emitter, room, type_, once), f"ptr {left}", f"ptr {right}", f"ptr {at}")


def end(emitter: FunctionEmitter) -> None:
    """Write what follows the loop over packets: what has been added up is complete."""
    for number, room in emitter.function.rooms.items():
        if room.flushed:
            emitter.writer.run(_flush(emitter.module, room), f"ptr {emitter.kept['room', number]}")


def combine(w: Writer, module: ModuleContext, function: Function, partials: str) -> None:
    """Add up the rooms of all ``%blocks``, and write the outputs, or add to memory, at the beginning of a function."""
    outputs, words = function.reductions, function.partial_words
    for number, room in function.rooms.items():
        output, write = outputs[number], outputs[number].write
        result, places = w.parameter(output.slot, "ptr"), (room.columns, 1)
        if write is not None:
            places = output.value.node.payload
            result = w.beyond(result, write.d2.payload * TYPES[write.type].size)  # type: ignore[union-attr]
        w.run(_combination(module, room, words, *places, added=write is not None),
              f"ptr {w.beyond(partials, 8 * room.first + room.sums)}", "i64 %blocks", f"ptr {result}")


def _memory(emitter: FunctionEmitter, what: str, extent: int, type_: TypeText) -> str:
    """Memory on the stack, which all products of the function share; what stays unused is zero."""
    def write() -> str:
        memory = emitter.prologue(f"alloca [{extent} x {type_}], align 64")
        emitter.prologue.run(_zeros(emitter.module), f"ptr {memory}",
                             f"i64 {extent * type_.info.size * max(1, type_.lanes)}")
        return memory

    return emitter.keep(("outer", what, extent, type_), write)


def _begun(emitter: FunctionEmitter, number: int, room: Room) -> str:
    """The room, which is filled with zeros before anything else."""
    def write() -> str:
        w, partials = emitter.prologue, emitter.parameter(1, "ptr")
        stride = partial_stride(emitter.function.partial_words)
        memory = w.beyond(partials, w.add(w.mul("%block", stride), 8 * room.first))
        w.run(_zeros(emitter.module), f"ptr {memory}", f"i64 {8 * room.words}")
        return memory

    return emitter.keep(("room", number), write)


# --- functions of the module -----------------------------------------------------------------------------------------


def _zeros(module: ModuleContext) -> str:
    """A function that fills memory with zeros: a number of bytes that is a multiple of 4."""
    def write(w: Writer) -> None:
        whole = w.and_("%bytes", -64)
        w.loop(0, whole, 64, [], lambda at, _: w.store("<8 x i64>", "zeroinitializer", w.beyond("%to", at), 4))
        w.loop(whole, "%bytes", 4, [], lambda at, _: w.store("i32", "0", w.beyond("%to", at), 4))

    return module.need_function("outer_zeros", "ptr %to, i64 %bytes", write)


def _flush(module: ModuleContext, room: Room) -> str:
    """A function that adds recent sums to those of double precision."""
    elements, wide, narrow = room.rows * room.width, f"<{_LANES} x double>", f"<{_LANES} x float>"

    def write(w: Writer) -> None:
        sums, recent = w.beyond("%room", room.sums), w.beyond("%room", room.recent)

        def add(at: str, _: list[str]) -> None:
            target, source = w.at("double", sums, at), w.at("float", recent, at)
            part = w(f"fpext {narrow} {w.load(narrow, source, 4)} to {wide}")
            w.store(wide, w(f"fadd {wide} {w.load(wide, target, 8)}, {part}"), target, 8)
            w.store(narrow, "zeroinitializer", source, 4)

        w.repeat(0, elements, _LANES, [], add)

    return module.need_function(f"outer_flush_{elements}", "ptr %room", write)


def _combination(module: ModuleContext, room: Room, words: int, down: int, across: int, added: bool) -> str:
    """A function that adds up the sums of all blocks, rounds them, and writes the matrix without its padding, or adds
    it to what is there; ``down`` and ``across`` are the distances of its rows and columns."""
    lanes = _LANES if across == 1 else 1
    wide, result = (TypeText(TYPES[type_], lanes) for type_ in (FLOAT64, FLOAT32 if room.flushed else FLOAT64))
    name = f"outer_{'add' if added else 'combine'}_{room.rows}x{room.columns}_{down}_{across}_{result.suffix}"

    def write(w: Writer) -> None:
        def add_row(row: str, _: list[str]) -> None:
            source, target = w.mul(row, room.width), w.mul(row, down)

            def add_columns(column: str, _: list[str]) -> None:
                first = w.at("double", "%from", w.add(source, column))

                def add(block: str, sums: list[str]) -> list[str]:
                    part = w.load(wide, w.beyond(first, w.mul(block, partial_stride(words))), 8)
                    return [w(f"fadd {wide} {sums[0]}, {part}")]

                (total,) = w.repeat(0, "%blocks", 1, [(str(wide), wide.splat("-0.0"))], add)
                at = w.at(result.element, "%to", w.add(target, w.mul(column, across)))
                mask = w.first_lanes(lanes, w.sub(room.columns, column))
                if added:
                    before = w.masked_load(result, at, result.info.size, mask)
                    if room.flushed:
                        before = w(f"fpext {result} {before} to {wide}")
                    total = w(f"fadd {wide} {before}, {total}")
                if room.flushed:
                    total = w(f"fptrunc {wide} {total} to {result}")
                w.masked_store(result, total, at, result.info.size, mask)

            w.repeat(0, room.columns, lanes, [], add_columns)

        w.repeat(0, room.rows, 1, [], add_row)

    return module.need_function(name.replace("-", "m"), "ptr %from, i64 %blocks, ptr %to", write)


def _update(module: ModuleContext, room: Room, products: Node, atomic: bool) -> str:
    """A function that adds a matrix, with its padding, to memory, element by element."""
    (down, across), type_ = products.payload, TypeText(TYPES[products.type], 0)
    name = f"outer_update_{room.rows}x{room.columns}_{down}_{across}_{'atomic' if atomic else 'plain'}_{type_.suffix}"

    def write(w: Writer) -> None:
        update = Update(w, ReduceOp.Add.value, type_, atomic)

        def add_row(row: str, _: list[str]) -> None:
            source, target = w.mul(row, room.width), w.mul(row, down)

            def add(column: str, _: list[str]) -> None:
                value = w.load(type_, w.at(type_, "%from", w.add(source, column)), type_.info.size)
                update(w.at(type_, "%to", w.add(target, w.mul(column, across))), value)

            w.repeat(0, room.columns, 1, [], add)

        w.repeat(0, room.rows, 1, [], add_row)

    return module.need_function(name.replace("-", "m"), "ptr %from, ptr %to", write)


def _function(emitter: FunctionEmitter, room: Room, type_: TypeText, once: bool) -> str:
    """A function that adds the products of a packet, or of one element, to a room, or ``once`` to memory that is there
    for them."""
    module, lanes, size, wide = emitter.module, type_.lanes or 1, type_.info.size, emitter.lanes >= 16
    register = min(room.width, (64 if wide else 32 if emitter.lanes >= 8 else 16) // size)
    vector = TypeText(type_.info, register)
    most_columns = _COLUMNS if wide else _FEW_COLUMNS

    def write(w: Writer) -> None:
        sums, right = "%room" if once else w.beyond("%room", room.recent), "%right"
        if lanes > 1:
            right = w(f"alloca [{lanes * room.width} x {type_.element}], align 64")
            _write_transposition(w, room, lanes, vector, right)
        for columns in _shares(room.width // register, most_columns):
            for rows in _shares(room.rows, max(1, (_SUMS if wide else _FEW_SUMS) // columns[0])):
                _write_blocks(w, rows, columns, room, lanes, vector, right, sums)
        if room.flushed and not once:
            count = w.add(w.load("i64", "%room", 8), 1)

            def flush() -> list[str]:
                w.run(_flush(module, room), "ptr %room")
                return ["0"]

            due = w(f"icmp uge i64 {count}, {max(1, _FLUSHED // lanes)}")
            (since,) = w.branch(due, flush, lambda: [count], ["i64"])
            w.store("i64", since, "%room", 8)

    return module.need_function(f"outer_{'once_' * once}{room.rows}x{room.columns}_{type_.suffix}",
                                "ptr noalias %left, ptr noalias %right, ptr noalias %room", write)


def _shares(count: int, most: int) -> Iterator[tuple[int, int, int]]:
    """Shares of at most so many, as equal as they can be: their size, the first element, and how many of them."""
    shares = -(-count // most)
    size, longer = divmod(count, shares)
    if longer:
        yield size + 1, 0, longer
    if shares > longer:
        yield size, longer * (size + 1), shares - longer


def _write_transposition(w: Writer, room: Room, lanes: int, vector: TypeText, turned: str) -> None:
    """Turn packets of components into rows of components: squares of registers."""
    size, element, align = vector.lanes, vector.element, vector.info.size
    across = lanes // size  # squares of a packet

    def turn(number: str, _: list[str]) -> None:
        component, part = w.divided(number, str(across))
        source = w.at(element, "%right", w.add(w.mul(component, size * lanes), w.mul(part, size)))
        target = w.at(element, turned, w.add(w.mul(part, size * room.width), w.mul(component, size)))
        rows = [w.load(vector, w.at(element, source, k * lanes), align) for k in range(size)]
        distance = 1
        while distance < size:
            before, rows = rows, list(rows)
            low = [lane if not lane & distance else lane - distance + size for lane in range(size)]
            high = [lane + distance if not lane & distance else lane + size for lane in range(size)]
            for k in range(size):
                if not k & distance:
                    for place, lanes_ in ((k, low), (k + distance, high)):
                        rows[place] = w.shuffle(vector, before[k], before[k + distance], lanes_)
            distance *= 2
        for k, row in enumerate(rows):
            w.store(vector, row, w.at(element, target, k * room.width), align)

    w.repeat(0, across * (room.width // size), 1, [], turn)


def _write_blocks(w: Writer, rows: tuple[int, int, int], columns: tuple[int, int, int], room: Room, lanes: int,
                  vector: TypeText, right: str, sums: str) -> None:
    """Go over blocks of a matrix, of so many rows and registers of columns, and in each over elements."""
    (height, first_row, times_row), (width, first_column, times_column) = rows, columns
    size, element, align = vector.lanes, vector.element, vector.info.size

    def over_columns(number: str, _: list[str]) -> None:
        column = w.add(w.mul(number, width * size), first_column * size)

        def over_rows(number: str, _: list[str]) -> None:
            row = w.add(w.mul(number, height), first_row)
            target = w.at(element, sums, w.add(w.mul(row, room.width), column))
            ys, xs = w.at(element, "%left", w.mul(row, lanes)), w.at(element, right, column)

            def over_elements(number: str, totals: list[str]) -> list[str]:
                y_row, x_row = w.at(element, ys, number), w.at(element, xs, w.mul(number, room.width))
                factors = [w.load(vector, w.at(element, x_row, c * size), align) for c in range(width)]
                found = []
                for r in range(height):
                    y = w.splat(vector, w.load(element, w.at(element, y_row, r * lanes), align))
                    found += [w.call(str(vector), f"llvm.fma.{vector.suffix}", f"{vector} {y}", f"{vector} {x}",
                                     f"{vector} {totals[r * width + c]}") for c, x in enumerate(factors)]
                return found

            totals = w.repeat(0, lanes, 1, [(str(vector), "zeroinitializer")] * (height * width), over_elements)
            for place, total in enumerate(totals):
                r, c = divmod(place, width)
                at = w.at(element, target, r * room.width + c * size)
                w.store(vector, w(f"fadd {vector} {w.load(vector, at, align)}, {total}"), at, align)

        w.repeat(0, times_row, 1, [], over_rows)

    w.repeat(0, times_column, 1, [], over_columns)
