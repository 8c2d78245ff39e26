"""Why a kernel had to be compiled although one like it was there: for the log, at ``LogLevel.Info``.

Every kernel that is compiled leaves a short description: its *structure* (operations and how they use each other) and
its *details* (types, classes of inputs and literals, baked-in values, outputs).  A program with the structure of an
earlier kernel differs from it in details alone, and these can be named.  Nothing here runs when a kernel is found in
memory.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..codegen.program import ALIGNED, REDUCTION, SCALAR, STORE, STREAMED, Program
from ..ir.build import source_line
from ..ir.labels import label_of
from ..ir.node import BAKED, Node
from ..ir.print import location_of
from ..ir.region import arguments_of, memory_of
from ..ops.semantics import from_memory
from ..ops.table import (
    ACCESS,
    BITCAST,
    CAST,
    EVALUATED,
    FIRST_ELEMENTWISE,
    FIRST_REGISTERED,
    GATHER,
    LITERAL,
    LOOP,
    NEEDS_MEMORY,
    OPS,
    RESULT,
    VIEW,
)
from ..types import TYPE_BITS, TYPES

__all__ = ["forget", "note", "remember"]

_log = logging.getLogger("drjit")
#: Kernels of one structure that are compared with: the latest ones.
_CANDIDATES = 16
_WIDTHS = {0: "one element", 1: "several elements", 2: "2^31 elements or more"}
_INPUTS = {SCALAR: "an array of one element", ALIGNED: "an array of several elements"}


class _Kernel(NamedTuple):
    number: int  # kernels are counted as they are compiled
    hash: str
    details: tuple[Any, ...]


_kernels: dict[int, list[_Kernel]] = {}  # by hash of the structure
_count = 0


def remember(program: Program, hash_: str) -> None:
    """Describe a kernel that has just been compiled or loaded, and log in what it differs from the most similar one."""
    global _count
    _count += 1
    number, structure, details = _count, tuple(_structure(program)), tuple(_details(program))
    if _log.isEnabledFor(logging.INFO):
        while _noted:
            _remember(*_described(*_noted.popleft()))
        reason = _compare(program, details, _kernels.get(hash(structure), []))
        _log.info("     this is kernel %i%s", number, f": {reason}" if reason else ".")
    _remember(structure, _Kernel(number, hash_, details))


def note(key: bytes, hash_: str) -> None:
    """Note a straight kernel (see :mod:`.recipes`) that has been loaded; it is described when somebody asks."""
    global _count
    _count += 1
    _noted.append((_count, key, hash_))


#: Number, key and hash of kernels that are not described yet.
_noted: deque[tuple[int, bytes, str]] = deque(maxlen=4096)


def _remember(structure: tuple[int, ...], kernel: _Kernel) -> None:
    kernels = _kernels.setdefault(hash(structure), [])
    kernels.append(kernel)
    kernels.sort(key=lambda each: each.number)
    del kernels[:-_CANDIDATES]


def forget() -> None:
    """Drop all descriptions."""
    _kernels.clear()
    _noted.clear()


def _compare(program: Program, details: tuple[Any, ...], kernels: list[_Kernel]) -> str | None:
    best: tuple[_Kernel, list[str]] | None = None
    for kernel in reversed(kernels):
        differences = list(_differences(program, details, kernel.details))
        if best is None or len(differences) < len(best[1]):
            best = kernel, differences
    if best is None or not best[1]:
        return None
    kernel, (first, *others) = best
    more = f", and {len(others)} further difference{'' if len(others) == 1 else 's'}" if others else ""
    return f"same program as kernel {kernel.number} ({kernel.hash[:16]}), but {first}{more}"


# --- descriptions ----------------------------------------------------------------------------------------------------


def _structure(program: Program) -> Iterator[int]:
    """Operations and the positions of what they use; outputs are details."""
    position = program.position
    memory: dict[int, int] = {}
    for node in program.order:
        kind = node.kind
        yield kind
        if kind == LOOP:
            loop = node.payload
            yield position[loop.condition.id]
            for group in zip(loop.initial, loop.region.formals, loop.finals, strict=True):
                yield from (-1 if group[1].payload else position[part.id] for part in group)
        elif NEEDS_MEMORY[kind] or kind == VIEW and node.id in program.firsts:
            for array in memory_of(node) or (node.d0,):
                slot = program.pointers[array.id]  # type: ignore[union-attr]
                yield memory.setdefault(slot, len(memory))
            yield from (position[operand.id] for operand in arguments_of(node) if kind != VIEW)
        else:
            if kind == RESULT:
                yield node.attr
            used = arguments_of(node) if FIRST_REGISTERED <= kind < FIRST_ELEMENTWISE else (node.d0, node.d1, node.d2)
            yield from (position[operand.id] for operand in used if operand is not None)


def _details(program: Program) -> Iterator[Any]:
    """What may differ between programs of one structure: first of the whole, then of each node, then of the outputs."""
    yield 0 if program.width == 1 else 2 if program.wide else 1
    yield program.streaming, tuple(program.target.classes_of(program.domain)[1:]), len(program.domain.extents)
    yield program.checked and bool(program.checks)
    for node in program.order:
        if node.kind == LITERAL:
            yield node.type, str(node.payload) if node.attr == BAKED else None
        elif node.kind in (EVALUATED, ACCESS, VIEW):
            yield node.type, program.accesses[node.id], *program.short.get(node.id, ())
        else:
            yield node.type
    yield tuple(_outputs(program))


_WHOLE = 3  # details before those of nodes


def _described(number: int, key: bytes, hash_: str) -> tuple[tuple[int, ...], _Kernel]:
    """Structure and details of a straight kernel, read from its key."""
    words = memoryview(key).cast("q")
    structure: list[int] = []
    details: list[Any] = [{1: 0, 2: 1, 3: 2}[words[1]], (words[-1] == STREAMED, (), 1), False]
    stores: list[tuple[Any, ...]] = []
    reductions: list[tuple[Any, ...]] = []
    memory: dict[int, int] = {}
    place = 2
    while place < len(words):
        word = words[place]
        kind, type_ = word >> TYPE_BITS or LITERAL, word & (1 << TYPE_BITS) - 1
        if word == STREAMED:
            taken = 1
        elif word == STORE:
            taken = 2
            stores.append(("store", words[place + 1]))
        elif word == REDUCTION:
            taken = 3
            reductions.append(("reduce", words[place + 1], words[place + 2]))
        elif kind == LITERAL:
            structure.append(LITERAL)
            taken = 2 if word >> TYPE_BITS else 1
            details.append((type_, _number(type_, words[place + 1]) if word >> TYPE_BITS else None))
        elif kind == EVALUATED or kind == ACCESS:
            structure.append(kind)
            if kind == ACCESS:
                structure.append(memory.setdefault(words[place + 1], len(memory)))
            taken = 2 if kind == EVALUATED else 3
            details.append((type_, words[place + taken - 1]))
        elif kind == GATHER:
            structure += (kind, memory.setdefault(words[place + 1], len(memory)), *words[place + 3:place + 5])
            taken = 5
            details.append(type_)
        else:
            taken = 1 + OPS[kind].arity
            structure += (kind, *words[place + 1:place + taken])
            details.append(type_)
        place += taken
    details.append((*stores, *reductions))
    return tuple(structure), _Kernel(number, hash_, tuple(details))


def _number(type_: int, bits: int) -> str:
    """A literal, by its bits."""
    info = TYPES[type_]
    value = from_memory(info, struct.pack("<q", bits)[:info.size])[0]
    return str(value)


def _outputs(program: Program) -> Iterator[tuple[Any, ...]]:
    position = program.position
    for node in program.stores:
        yield "store", position[node.id]
    for node in program.reductions:
        yield "reduce", node.attr, position[node.d0.id]  # type: ignore[union-attr]
    for node in program.scatters:
        yield ("scatter", node.attr, program.strategies.get(node.id, 0), node.type,
               *(position[operand.id] for operand in (node.d1, node.d2, node.d3)))  # type: ignore[union-attr]


# --- differences -----------------------------------------------------------------------------------------------------


def _differences(program: Program, now: tuple[Any, ...], before: tuple[Any, ...]) -> Iterator[str]:
    """Each difference in words: those of the user's values first, as the others tend to follow from them.

    The type of most operations follows from their operands, that of most constants from an input: not worth a word.
    """
    if len(now) != len(before):
        return  # the hashes of two structures coincide
    if now[0] != before[0]:
        yield f"it computes {_WIDTHS[now[0]]} now ({_WIDTHS[before[0]]} then){_place(None)}"
    alone = 0 in (now[0], before[0]) and now[0] != before[0]  # then the sizes of the inputs follow
    changed_types = set()
    literals = []
    for place, node in enumerate(program.order):
        new, old = now[_WHOLE + place], before[_WHOLE + place]
        if new == old:
            continue
        if node.kind in (EVALUATED, CAST, GATHER, ACCESS, VIEW):
            changed_types.add(_type_change(new, old))
        if node.kind == EVALUATED:
            if new[0] != old[0] or not alone:
                yield _input_difference(program, node, new, old)
        elif node.kind == LITERAL:
            literals.append((node, new, old))
        elif node.kind in (CAST, BITCAST):
            yield f"the result of a conversion {_types(new, old)}{_place(node)}"
        elif node.kind == ACCESS or node.kind == VIEW:
            what = _name(node.d0, "the array of which a part is read")
            yield f"{what} {_types(new[0], old[0])}{_place(node)}" if new[0] != old[0] else \
                f"{what} is now read in another way (backwards, at a distance, or from foreign memory){_place(node)}"
        elif node.kind == GATHER:
            yield f"{_name(node.d0, 'the array that is read by index')} {_types(new, old)}{_place(node)}"
        elif not any(operand is not None for operand in (node.d0, node.d1)) and node.kind != LOOP:
            yield f"a value {_types(new, old)}{_place(node)}"
    for node, new, old in literals:
        if new[1] != old[1] or _type_change(new, old) not in changed_types:
            yield _literal_difference(node, new, old)
    if now[1] != before[1]:
        if now[1][0] != before[1][0]:
            yield f"its inputs and outputs are {'larger' if now[1][0] else 'smaller'} than the cache{_place(None)}"
        else:
            yield f"its rows are of another length, or laid out in another way{_place(None)}"
    if now[2] != before[2]:
        yield f"indices are {'now' if now[2] else 'no longer'} checked (JitFlag.Debug){_place(None)}"
    if now[-1] != before[-1]:
        if len(now[-1]) == len(before[-1]):
            yield f"its outputs are other ones{_place(None)}"
        else:
            count = len(now[-1])
            yield f"it has {count} output{'' if count == 1 else 's'} now ({len(before[-1])} then){_place(None)}"


def _type_change(new: Any, old: Any) -> tuple[int, int]:
    return (new, old) if isinstance(new, int) else (new[0], old[0])


def _input_difference(program: Program, node: Node, new: tuple[int, int], old: tuple[int, int]) -> str:
    inputs = [other for other in program.order if other.kind == EVALUATED]
    name = _name(node, f"input {inputs.index(node) + 1}", "input ")
    if new[0] != old[0]:
        return f"{name} {_types(new[0], old[0])}{_place(node)}"
    words = [_INPUTS.get(access, "memory that was imported") for access in (new[1], old[1])]
    return f"{name} is now {words[0]} (was {words[1]}){_place(node)}"


def _literal_difference(node: Node, new: tuple[int, str | None], old: tuple[int, str | None]) -> str:
    name = _name(node, f"the constant {node.payload}", "the constant ")
    if new[0] != old[0]:
        return f"{name} {_types(new[0], old[0])}{_place(None)}"
    if new[1] is None:
        return f"a constant is now {node.payload}, a parameter (was {old[1]}, part of the program){_place(None)}"
    was = "a parameter" if old[1] is None else old[1]
    return f"a constant is now {new[1]}, part of the program (was {was}){_place(None)}"


def _types(new: int, old: int) -> str:
    return f"is now {TYPES[new].name} (was {TYPES[old].name})"


def _name(node: Node | None, otherwise: str, prefix: str = "") -> str:
    label = label_of(node) if node is not None else None
    return f"{prefix}'{label}'" if label and not location_of(label) else otherwise


def _place(node: Node | None) -> str:
    """Where a node was traced (known in debug mode), else where the evaluation was asked for."""
    label = label_of(node) if node is not None else None
    place = label if location_of(label) else source_line()
    return f" ({place})" if place else ""
