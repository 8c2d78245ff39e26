"""A graph as a program that one can read: ``n7: float32[1000] = mul(n3, n5)``, operands first."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..ops.table import BOUND, COND, EVALUATED, LITERAL, LOOP, OPS, PHI, REDUCE, RESULT, SCATTER, STEP
from ..types import TYPES, ReduceOp
from .labels import label_of
from .node import BAKED, SHAPE, Node
from .region import CONTROL, Choice, Control, Loop, Region, operands

__all__ = ["format_graph", "location_of"]

_LOCATION = re.compile(r"(?P<file>.+):(?P<line>\d+)")


def location_of(label: str | None) -> tuple[str, int] | None:
    """File and line, if a label is the place in the user's program that debug mode records."""
    match = _LOCATION.fullmatch(label) if label else None
    return (match["file"], int(match["line"])) if match else None


_LITERAL_CLASSES = {BAKED: "baked", SHAPE: "shape"}


def format_graph(roots: Iterable[Node]) -> str:
    """One line per node that the roots need, operands first; regions are indented."""
    lines: list[str] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, done = stack.pop()
        if done:
            _format_node(node, "", lines)
        elif node.id not in seen:
            seen.add(node.id)
            stack.append((node, True))
            stack.extend((operand, False) for operand in reversed(list(operands(node))))
    return "\n".join(lines)


def _format_node(node: Node, indent: str, lines: list[str]) -> None:
    size = f"[{node.size}]" if node.size != 1 else ""
    label = label_of(node)
    lines.append(f"{indent}n{node.id}: {TYPES[node.type].name}{size} = {_right_side(node)}" +
                 (f"  # {label}" if label else ""))
    if node.kind == LOOP:
        _format_loop(node.payload, indent + "    ", lines)
    elif node.kind in CONTROL:
        _format_choice(node, indent + "    ", lines)


def _format_formals(control: Control, region: Region, indent: str, lines: list[str]) -> None:
    for formal, value in zip(region.formals, control.initial, strict=True):
        word = "memory" if formal.payload else "phi"
        lines.append(f"{indent}n{formal.id}: {TYPES[formal.type].name} = {word}({formal.attr}), initially n{value.id}")


def _format_loop(loop: Loop, indent: str, lines: list[str]) -> None:
    region = loop.region
    _format_formals(loop, region, indent, lines)
    entering, live = region.masks
    lines.append(f"{indent}n{entering.id}: bool = elements that are left")
    for part in region.parts[0]:
        _format_node(part, indent, lines)
    lines.append(f"{indent}while n{loop.condition.id}:")
    lines.append(f"{indent}    n{live.id}: bool = elements that go on")
    for part in region.parts[1]:
        _format_node(part, indent + "    ", lines)
    for formal, value in zip(region.formals, loop.finals, strict=True):
        lines.append(f"{indent}    n{formal.id} <- n{value.id}")


def _format_choice(node: Node, indent: str, lines: list[str]) -> None:
    choice: Choice = node.payload
    for number, region in enumerate(choice.regions):
        lines.append(f"{indent}{('if', 'else')[number] if node.kind == COND else f'target {number}'}:")
        _format_formals(choice, region, indent + "    ", lines)
        lines.append(f"{indent}    n{region.masks[0].id}: bool = elements that take part")
        for part in region.parts[0]:
            _format_node(part, indent + "    ", lines)
        results = ", ".join(f"n{result.id}" for result in region.results[0])
        lines.append(f"{indent}    return {results}")


def _right_side(node: Node) -> str:
    name, kind = OPS[node.kind].word, node.kind
    if kind == LITERAL:
        return f"{node.payload!r}" + (f" ({_LITERAL_CLASSES[node.attr]})" if node.attr in _LITERAL_CLASSES else "")
    if kind == BOUND:
        return f"{node.payload!r} (bound)"
    if kind == EVALUATED:
        return f"memory at {node.payload.address:#x}"
    used = [f"n{d.id}" for d in (node.d0, node.d1, node.d2, node.d3) if d is not None]
    if kind in (REDUCE, SCATTER):
        name += f"_{ReduceOp(node.attr).name.lower()}"
    if kind == STEP:
        name = ":".join(map(str, (node.payload.name, *node.payload.options, *node.payload.extents)))
        used += [f"result {node.attr}"] * bool(node.attr)
    if kind in (PHI, RESULT):
        used.append(str(node.attr))
    return f"{name}({', '.join(used)})"
