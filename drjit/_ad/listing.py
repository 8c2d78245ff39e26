"""Listings and diagrams of the graph of derivatives."""

from __future__ import annotations

import sys
from typing import Any

from drjit_core import LEAF, TYPES, Vertex, live_vertices

from .._base.arguments import require_as_string

__all__ = ["escaped", "graphviz_ad", "whos_ad"]


def _name(vertex: Vertex) -> str:
    return vertex.label or vertex.name


def escaped(text: str) -> str:
    """A text in a label of a record in GraphViz, where some characters mean something else."""
    return "".join("\\" + c if c in '\\"{}|<>' else " " if c == "\n" else c for c in text)


def whos_ad(as_string: bool = False) -> str | None:
    """Print a list of the variables in the graph of derivatives, or return it with ``as_string``.

    These are the variables that :func:`enable_grad` has made and the results of operations on them, as long as arrays
    or other variables need them. ``Refs`` is the number of operations that depend on one. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1, 2)
    >>> dr.enable_grad(x)
    >>> dr.set_label(x=x)
    >>> [line.split()[1:] for line in dr.whos_ad(as_string=True).splitlines() if line.endswith(" x")]
    [['f32', '2', '0', 'x']]
    """
    require_as_string("drjit.whos_ad", as_string)
    vertices = live_vertices()
    references: dict[int, int] = {}
    for vertex in vertices:
        for operand in vertex.operands():
            references[operand.id] = references.get(operand.id, 0) + 1
    rule = "  " + "=" * 57
    lines = ["", "  ID        Type        Size     Refs    Label", rule]
    for vertex in vertices:
        type_ = TYPES[vertex.type].short if vertex.type else "-"
        lines.append(f"  {vertex.id:<9} {type_:<6} {vertex.size:>9} {references.get(vertex.id, 0):>8}    "
                     f"{_name(vertex)}".replace("\n", " ").rstrip())
    if not vertices:
        lines.append("                -- No variables registered --")
    text = "\n".join([*lines, rule, ""])
    if as_string:
        return text
    sys.stdout.write(text + "\n")
    return None


def graphviz_ad(as_string: bool = False) -> Any:
    """The graph of derivatives as a GraphViz diagram: what :func:`whos_ad` lists, and how derivatives flow.

    Returns a ``graphviz.Source`` (whose method ``view()`` shows it), or the text with ``as_string``, which does without
    the package ``graphviz``; raises an ``ImportError`` where that is missing. Evaluates nothing.

    >>> print(dr.graphviz_ad(as_string=True).splitlines()[0])
    digraph {
    """
    require_as_string("drjit.graphviz_ad", as_string)
    lines = ["digraph {", "    rankdir=BT;", '    graph [dpi=50 fontname="Ubuntu Mono"];',
             '    node [shape=record fontname="Ubuntu Mono"];', '    edge [fontname="Ubuntu Mono"];']
    edges = []
    for vertex in live_vertices():
        name = escaped(_name(vertex))
        type_ = f"Type: {TYPES[vertex.type].name}|" if vertex.type else ""
        colour = "salmon" if vertex.gradient is not None else "wheat" if vertex.rule is LEAF else "white"
        lines.append(f'    a{vertex.id} [label="{{{name}|{{{type_}Size: {vertex.size}}}|{{a{vertex.id}}}}}" '
                     f"style=filled fillcolor={colour}];")
        edges += [f"    a{vertex.id} -> a{operand.id};" for operand in vertex.operands()]
    text = "\n".join([*lines, *edges, "}", ""])
    if as_string:
        return text
    try:
        import graphviz as package  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise ImportError("drjit.graphviz_ad(): the package 'graphviz' is not available (install it with: pip install "
                          "graphviz); drjit.graphviz_ad(as_string=True) does without it.") from error
    return package.Source(text)
