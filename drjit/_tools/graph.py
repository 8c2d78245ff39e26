"""The graph of live variables as a picture."""

from __future__ import annotations

from typing import Any

import drjit_core as core
from drjit_core import OPS, VarState

from .._ad.listing import escaped
from .._arrays.format import format_element
from .._base.arguments import require_as_string
from .listing import live_variables, type_name

__all__ = ["graphviz"]


#: Colours of nodes by state.
_COLOURS = {VarState.Symbolic: "yellow", VarState.Dirty: "salmon", VarState.Evaluated: "lightblue2",
            VarState.Literal: "gray90"}


def graphviz(as_string: bool = False) -> Any:
    """The program's variables and what they are computed from, as a GraphViz diagram.

    Shows what :func:`whos` lists, and the constants that occur in it. Returns a ``graphviz.Source`` (whose method
    ``view()`` shows it), or the text with ``as_string``, which does without the package ``graphviz``; raises an
    ``ImportError`` where that is missing. Evaluates nothing.

    >>> from drjit.llvm import Float
    >>> x = Float(1, 2) + 1
    >>> print(dr.graphviz(as_string=True).splitlines()[0])
    digraph {
    """
    require_as_string("drjit.graphviz", as_string)
    lines = ["digraph {", "    rankdir=TB;", '    graph [dpi=50 fontname="Ubuntu Mono"];',
             '    node [shape=record fontname="Ubuntu Mono"];', '    edge [fontname="Ubuntu Mono"];']
    edges = []
    for node, *_ in live_variables():
        state, label = core.state_of(node), core.label_of(node)
        name = OPS[node.kind].word
        value = f": {format_element(node.payload)}" if state is VarState.Literal else ""
        head = f"Label: \\\"{escaped(label)}\\\"|" if label else ""
        colour = "wheat" if label else _COLOURS.get(state)
        style = f" style=filled fillcolor={colour}" if colour else ""
        lines.append(f'    n{node.id} [label="{{{head}{escaped(name + value)}|{{Type: {type_name(node)}|'
                     f'Size: {node.size}}}|{{r{core.index_of(node)}|{state.name}}}}}"{style}];')
        edges += [f"    n{operand.id} -> n{node.id};" for operand in core.operands(node)]
    lines += edges
    lines += ["    subgraph cluster_legend {", '        label="Legend";']
    for number, (name, colour) in enumerate([*((s.name, c) for s, c in _COLOURS.items()), ("Labeled", "wheat")]):
        lines.append(f'        l{number} [style=filled fillcolor={colour} label="{name}"];')
    text = "\n".join([*lines, "    }", "}", ""])
    if as_string:
        return text
    try:
        import graphviz as package  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise ImportError("drjit.graphviz(): the package 'graphviz' is not available (install it with: pip install "
                          "graphviz); drjit.graphviz(as_string=True) does without it.") from error
    return package.Source(text)
