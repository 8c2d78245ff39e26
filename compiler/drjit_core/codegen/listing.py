"""A program as text for people: what each parameter means, and the nodes with the user's source lines.

Lines of the user's program are known in debug mode (``JitFlag.Debug``), which labels each node.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator

from ..ir.labels import label_of
from ..ir.node import BAKED, Node
from ..ir.print import location_of
from ..ir.region import Choice, Loop, arguments_of, memory_of
from ..ops.reductions import name_of_update
from ..ops.table import (
    ACCESS,
    CALL,
    COND,
    EVALUATED,
    FIRST_ELEMENTWISE,
    FIRST_REGISTERED,
    IS_INDEXED,
    LITERAL,
    LOCAL,
    LOOP,
    OPS,
    PACK,
    RESULT,
    SCATTER,
)
from ..types import TYPES
from .program import ALIGNED, REVERSED, ROW, SCALAR, UNALIGNED, Program
from .signature import Role, Slot, slots_of
from .target import ATOMIC, COMBINED, PLAIN, PRIVATE, SHARED, SUMMED

__all__ = ["format_program"]

#: How inputs are read, by access class.
ACCESSES = {SCALAR: "one element for all", ALIGNED: "packets", ROW: "one element for each row",
            UNALIGNED: "packets, masked at the end: foreign memory"}
_STRATEGIES = {ATOMIC: "atomic", PLAIN: "plain", PRIVATE: "in tables", COMBINED: "combined",
               SUMMED: "summed", SHARED: "in tables of blocks"}


def format_program(program: Program) -> str:
    """Parameters, nodes and outputs, one a line."""
    lines = ["parameters"]
    for slot, parameter in enumerate(slots_of(program)):
        lines.append(_with_source(f"  {slot:3}  {_describe(program, slot, parameter)}", parameter.node))
    lines.append("program")
    done: set[int] = set()
    for node in program.order:
        lines += _node_lines(program, node, "  ", done)
    for node in program.stores:
        lines.append(f"  store v{program.position[node.id]} in parameter {program.slots[node.id]}")
    for node in program.reductions:
        assert node.d0 is not None
        operation = name_of_update(node.attr)
        lines.append(_with_source(f"  store {operation} over all elements of v{program.position[node.d0.id]} in "
                                  f"parameter {program.slots[node.id]}", node))
    for node in program.scatters:
        lines.append(_with_source("  " + _scatter(program, node), node))
    for number, function in enumerate(program.functions.values()):
        lines += _function_lines(function, number)
    return "\n".join(lines) + "\n"


def _describe(program: Program, number: int, slot: Slot) -> str:
    role, value = slot.role, program.parameters[number]
    array = f"{TYPES[slot.type].name}[{slot.size}]" if slot.type else ""
    if role is Role.LITERAL:
        assert slot.node is not None
        return f"literal {TYPES[slot.type].name} {slot.node.payload!r}"
    if role is Role.INPUT:
        assert slot.node is not None
        return f"input {array}, {ACCESSES[program.accesses[slot.node.id]]}"
    if role in (Role.OUTPUT, Role.MEMORY, Role.TABLES):
        return f"{role} {array}" + (", accessed by index" if role is Role.MEMORY else "")
    if role is Role.PARTIALS:
        return "address of the partial results of reductions"
    if role is Role.REPORT:
        return f"report of {slot.size} checked access{'' if slot.size == 1 else 'es'}"
    if role is Role.CALLS:
        return "table of a call"
    return f"{role} {value}"


def _node_lines(program: Program, node: Node, indent: str, done: set[int]) -> Iterator[str]:
    """The line of a node; a loop is followed by its region."""
    if node.id in done or node.kind == PACK:
        return
    done.add(node.id)
    yield _with_source(f"{indent}v{program.position[node.id]}: {TYPES[node.type].name} = {_right_side(program, node)}",
                       node)
    if node.kind == LOOP:
        yield from _loop_lines(program, node.payload, indent + "  ", done)
    elif node.kind == COND:
        yield from _cond_lines(program, node.payload, indent + "  ", done)
    elif node.kind == CALL:
        yield from _call_lines(program, node, indent + "  ")


def _loop_lines(program: Program, loop: Loop, inner: str, done: set[int]) -> Iterator[str]:
    region = loop.region
    for formal, value in zip(region.formals, loop.initial, strict=True):
        if formal.payload:
            yield f"{inner}memory, {_where(program.pointers[formal.id])}"
        else:
            done.add(formal.id)
            yield (f"{inner}v{program.position[formal.id]}: {TYPES[formal.type].name} = phi, initially "
                   f"v{program.position[value.id]}")
    done.update(mask.id for mask in region.masks)
    entering, live = (program.position[mask.id] for mask in region.masks)
    yield f"{inner}v{entering}: bool = elements that are left"
    for part in region.parts[0]:
        yield from _node_lines(program, part, inner, done)
    yield f"{inner}while v{program.position[loop.condition.id]}:"
    yield f"{inner}  v{live}: bool = elements that go on"
    for part in region.parts[1]:
        yield from _node_lines(program, part, inner + "  ", done)
    for formal, value in zip(region.formals, loop.finals, strict=True):
        if not formal.payload:
            yield f"{inner}  v{program.position[formal.id]} <- v{program.position[value.id]}"


def _cond_lines(program: Program, choice: Choice, inner: str, done: set[int]) -> Iterator[str]:
    for word, region in zip(("if", "else"), choice.regions, strict=True):
        yield f"{inner}{word}:"
        for formal in region.formals:
            if formal.payload:
                yield f"{inner}  memory, {_where(program.pointers[formal.id])}"
            else:
                done.add(formal.id)  # has the name of what it stands for
        done.add(region.masks[0].id)
        yield f"{inner}  v{program.position[region.masks[0].id]}: bool = elements that take part"
        for part in region.parts[0]:
            yield from _node_lines(program, part, inner + "  ", done)
        results = (f"v{program.position[result.id]}" for result in region.results[0][:choice.count])
        yield f"{inner}  return {', '.join(results)}"


def _call_lines(program: Program, node: Node, inner: str) -> Iterator[str]:
    site = program.calls[node.id]
    targets = [program.numbers[target.key] for target in site.targets]
    shown = ", ".join(map(str, targets[:16])) + (f" and {len(targets) - 16} more" if len(targets) > 16 else "")
    values = ", ".join(f"v{program.position[value.id]}" for value in (*site.arguments, *site.extras))
    yield f"{inner}of {values or 'nothing'}; targets: function {shown}; table: parameter {site.slot}"


def _function_lines(function: Program, number: int) -> Iterator[str]:
    """What a target computes; its parameters are words of its record."""
    yield f"function {number}"
    done: set[int] = set()
    for node in function.order:
        yield from _node_lines(function, node, "  ", done)
    yield f"  return {', '.join(f'v{function.position[node.id]}' for node in function.stores)}"


def _right_side(program: Program, node: Node) -> str:
    kind, name = node.kind, OPS[node.kind].word
    if kind == LITERAL:
        return f"{node.payload!r}" if node.attr == BAKED else f"parameter {program.slots[node.id]} ({node.payload!r})"
    if kind == EVALUATED:
        return f"input, parameter {program.slots[node.id]}"
    used = [f"v{program.position[d.id]}" for d in (node.d0, node.d1, node.d2)
            if d is not None and d.id in program.position]
    if kind == ACCESS:
        assert node.d0 is not None
        backwards = ", backwards" if program.accesses[node.id] == REVERSED else ""
        return (f"{name}(parameter {program.pointers[node.d0.id]}) from the position in parameter "
                f"{program.firsts[node.id]} on{backwards}")
    if kind == SCATTER:
        return _scatter(program, node)
    if IS_INDEXED[kind] or FIRST_REGISTERED <= kind < FIRST_ELEMENTWISE:
        used = [*(_where(program.pointers[memory.id]) for memory in memory_of(node)),
                *(f"v{program.position[d.id]}" for d in arguments_of(node))]
    if kind == LOCAL:
        return f"{name} of {node.size} entries, {_where(program.pointers[node.id])}"
    if kind == RESULT:
        used.append(str(node.attr))
    text = f"{name}({', '.join(used)})"
    return text + (f", checked against parameter {program.checks[node.id].slot}" if node.id in program.checks else "")


def _where(slot: int) -> str:
    """Where memory is: at an address that is a parameter, or the element's own."""
    return f"parameter {slot}" if slot >= 0 else f"local memory {-slot}"


def _scatter(program: Program, node: Node) -> str:
    operands = ", ".join(f"v{program.position[d.id]}" for d in arguments_of(node))
    name = OPS[SCATTER].word
    text = f"{name}_{name_of_update(node.attr)}" if node.attr else name
    text += f"({_where(program.pointers[node.id])}, {operands})"
    if node.attr:
        text += f", {_STRATEGIES[program.strategies[node.id]]}"
    return text + (f", checked against parameter {program.checks[node.id].slot}" if node.id in program.checks else "")


def _with_source(text: str, node: Node | None) -> str:
    """Append the label of a node; if that is a place in the user's program, also the line itself.

    Equal literals are one node, whose place is that of the first: it would mislead.
    """
    label = label_of(node) if node is not None else None
    place = location_of(label)
    if node is None or label is None or (place and node.kind == LITERAL):
        return text
    line = linecache.getline(*place).strip() if place else ""
    return f"{text:60}  # {label}" + (f": {line}" if line else "")
