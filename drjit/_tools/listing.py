"""Labels and listings of live variables."""

from __future__ import annotations

import sys
from typing import Any

import drjit_core as core
from drjit_core import TYPES, Node, VarState, literal

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.links import links
from .._trees.pytree import flatten

__all__ = ["set_label", "type_name", "whos"]



def set_label(*args: Any, **kwargs: Any) -> None:
    """Label arrays for listings and graphs: ``set_label(value, 'name')`` or ``set_label(name=value, …)``.

    Traverses PyTrees and nested arrays, whose entries get the names of positions, keys and fields appended after
    underscores. Other values, and arrays that are not traced, are ignored.
    """
    if args and (len(args) != 2 or args[1].__class__ is not str or kwargs):
        found = ", ".join([*map(describe, args), *(f"{name}={describe(value)}" for name, value in kwargs.items())])
        raise TypeError(f"drjit.set_label(): expected a value and a str, or keyword arguments only, found {found}.")
    for label, value in [(args[1], args[0])] if args else kwargs.items():
        leaves, spec = flatten(value, "drjit.set_label")
        for leaf, keys in zip(leaves, spec.key_paths(), strict=True):
            if isinstance(leaf, ArrayBase):
                _label_array(leaf, "_".join(map(str, (label, *keys))))


def _label_array(value: ArrayBase, label: str) -> None:
    if value._dynamic:
        nodes = []
        for position, node in enumerate(value._nodes()):
            name, rest, suffix = label, position, ""
            for size in reversed(value._static_shape() if value._depth > 0 else ()):
                rest, index = divmod(rest, size)
                suffix = f"_{index}{suffix}"
            name += suffix
            if core.state_of(node) is VarState.Literal:  # equal literals are one node: the label needs one of its own
                node = literal(node.type, node.payload, node.size, node.attr, hash(name))
            core.set_label(node, name)
            nodes.append(node)
        value._replace(nodes)


# --- what is alive ---------------------------------------------------------------------------------------------------


def _storage(node: Node) -> int:
    """Bytes that the elements of a node take, or would take if it were evaluated."""
    return node.size * TYPES[node.type].size if node.type else 0


def type_name(node: Node) -> str:
    """The type of a node's elements, as listings show it."""
    return TYPES[node.type].name if node.type else "void"


def _bytes(size: int) -> str:
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.5g} {unit}"


def whos(as_string: bool = False) -> str | None:
    """Print (or return) a list of live variables of the compiler and the memory they take.

    The list is found by a search through all objects of the process: this is not for inner loops.
    """
    rule, lines = "  " + "=" * 72, ["", "  ID       Type       Status         Size       Storage     Label"]
    lines.append(rule)
    nodes, evaluated, pending = core.live_nodes(), 0, 0
    for node in nodes:
        state, storage = core.state_of(node), ""
        if state is VarState.Evaluated:
            evaluated += _storage(node)
            storage = _bytes(_storage(node))
        elif state is not VarState.Literal:
            pending += _storage(node)
        lines.append(f"  {'r' + str(core.index_of(node)):<8} {type_name(node):<10} {state.name:<14} {node.size:<10} "
                     f"{storage:<11} {core.label_of(node) or ''}".rstrip())
    if not nodes:
        lines.append("                       -- No variables registered --")
    memory = core.malloc_statistics()
    lines += [rule, "", "  JIT compiler", "  ============",
              f"   - Variables : {len(nodes)}.",
              f"   - Storage   : {_bytes(evaluated)} evaluated, {_bytes(pending)} unevaluated.", "",
              "  Memory allocator", "  ================",
              f"   - LLVM      : {_bytes(memory['in_use'])} in use, {_bytes(memory['cached'])} cached "
              f"(peak: {_bytes(memory['peak'])}).", ""]
    text = "\n".join(lines)
    if as_string:
        return text
    sys.stdout.write(text + "\n")
    return None


links.set_label = set_label
