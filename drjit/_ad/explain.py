"""Why derivatives do not flow from one array to another."""

from __future__ import annotations

from typing import Any

import drjit_core as core
from drjit_core import KIND, OPS, STRUCTURE, TYPES, Node, label_of, primal, vertex_of

from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._trees.pytree import leaves

__all__ = ["explain_grad"]

#: Rows with structure through which derivatives flow, by the position of the operands that they flow through.
_FLOWS = {KIND[name]: places for name, places in {
    "gather": (0,), "scatter": (0, 1), "reduce": (0,), "opaque": (0,), "cast": (0,), "access": (0,), "view": (0,),
    "segment": (0,), "step": (0, 1, 2)}.items()}
_CAST, _BITCAST, _STEP, _PACK = KIND["cast"], KIND["bitcast"], KIND["step"], KIND["pack"]


def explain_grad(x: Any, y: Any) -> str:
    """Whether derivatives flow from one array to another, and if not, which operations cut the path.

    ``x`` and ``y`` are arrays or PyTrees; ``y`` was computed from ``x``. The text names each operation on a path from
    ``x`` to ``y`` through which no derivative flows: rounding, comparisons, conversions to integers and masks,
    reinterpretation of bits, indices and masks of memory accesses, and ``detach`` or ``suspend_grad``. With
    ``JitFlag.Debug`` set while the program runs, it says in which line. What has been evaluated no longer tells what it
    was computed from: ask before that. (An addition to the interface of Dr.Jit.) Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1.5, 2.5)
    >>> dr.enable_grad(x)
    >>> print(dr.explain_grad(x, dr.floor(x) * 2))
    No derivative flows from x to y. The path is cut:
      by floor
    """
    sources, targets = _nodes("drjit.explain_grad", "x", x), _nodes("drjit.explain_grad", "y", y)
    flows = _depends(targets, sources)
    cuts, met = _cuts([primal(node) for node in targets], {primal(node).id for node in sources})
    lines = [f"  {cut}" for cut in cuts]
    if flows:
        return "\n".join(["Derivatives flow from x to y." + (" Some paths are cut:" if lines else ""), *lines])
    if _depends(sources, targets):
        return "No derivative flows from x to y. (Derivatives flow from y to x: the variable is the first argument.)"
    if not any(vertex_of(node) is not None for node in sources):
        return "No derivative flows from x to y: x is no variable and depends on none, see drjit.enable_grad()."
    if not met:
        return ("No derivative flows from x to y, and as far as is known, y is not computed from x: what has been "
                "evaluated no longer tells what it was computed from, an element that was read (as in x[0]) is a "
                "number, and x may have been replaced since.")
    return "\n".join(["No derivative flows from x to y. The path is cut:",
                      *(lines or ["  by detach(), suspend_grad(), or a type that tracks no derivatives"])])


def _nodes(function: str, name: str, value: Any) -> list[Node]:
    found = [node for leaf in leaves(value, function) if isinstance(leaf, ArrayBase) and leaf._dynamic
             for node in leaf._nodes()]
    if not found:
        raise ArgumentError(f"{function}(): the argument '{name}' must be a traced array, or a PyTree with some (found "
                            f"{describe(value)}).")
    return found


def _depends(targets: list[Node], sources: list[Node]) -> bool:
    """Whether derivatives flow from some nodes to others."""
    vertices, roots = ([vertex for node in nodes if (vertex := vertex_of(node)) is not None]
                       for nodes in (targets, sources))
    wanted = {vertex.id for vertex in roots}
    seen: set[int] = set()
    while vertices:
        vertex = vertices.pop()
        if vertex.id in wanted:
            return True
        if vertex.id not in seen:
            seen.add(vertex.id)
            vertices += vertex.operands()
    return False


def _cuts(targets: list[Node], sources: set[int]) -> tuple[list[str], bool]:
    """What cuts the paths from sources to targets, in words; and whether there are any."""
    users: dict[int, list[tuple[Node, int]]] = {}
    seen: dict[int, Node] = {}
    stack = list(targets)
    reached: list[int] = []
    while stack:
        node = stack.pop()
        if node.id in seen:
            continue
        seen[node.id] = node
        if node.id in sources:
            reached.append(node.id)
        for place, operand in enumerate(_operands(node)):
            users.setdefault(operand.id, []).append((node, place))
            stack.append(operand)
    found: dict[str, None] = {}
    done: set[int] = set()
    while reached:
        number = reached.pop()
        if number in done:
            continue
        done.add(number)
        for user, place in users.get(number, ()):
            cut = _cut(seen[number], user, place)
            if cut:
                label = label_of(user)
                found[f"by {cut}" + (f" ({label})" if label else "")] = None
            else:
                reached.append(user.id)
    return list(found), bool(done)


def _operands(node: Node) -> list[Node]:
    """What a node uses, and no packs of that."""
    found = core.operands(node)
    return core.all_operands(node) if any(operand.kind == _PACK for operand in found) else found


def _cut(operand: Node, user: Node, place: int) -> str:
    """What an operation does to the derivative of an operand, if none gets through; else the empty text."""
    row = OPS[user.kind]
    info = TYPES[user.type]
    if row.derivative is not None:
        if info.kind != "f":
            return row.word
        partial = row.derivative.partials[place] if place < len(row.derivative.partials) else None
        return "" if partial is not None else f"the mask of {row.word}"
    if user.kind == _CAST:
        return "" if info.kind == "f" else f"a conversion to {info.name}"
    if user.kind == _BITCAST:
        return "a reinterpretation of bits"
    if user.kind in _FLOWS:
        if user.kind == _STEP:
            return "" if user.payload.name in STRUCTURE and info.kind == "f" else user.payload.name
        return "" if place in _FLOWS[user.kind] and info.kind == "f" else f"the index or mask of a {row.word}"
    if row.name in STRUCTURE and info.kind == "f":
        return "" if TYPES[operand.type].kind == "f" else f"the index or mask of a {row.word}"
    return row.word
