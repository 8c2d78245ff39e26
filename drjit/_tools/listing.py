"""Labels, listings and graphs of live variables, and formatted output of PyTrees."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import drjit_core as core
from drjit_core import OPS, TYPES, Node, VarState, literal

from .._arrays.format import LIMIT, format_element
from .._arrays.host import broadcast
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError, describe
from .._base.types import BOOL, UINT32, retype
from .._promotion.promote import plain_scalar, wrap
from .._trees.pytree import children

__all__ = ["format", "format_message", "graphviz", "print", "set_label", "whos"]

_print = print


def set_label(*args: Any, **kwargs: Any) -> None:
    """Label arrays for listings and graphs: ``set_label(value, 'name')`` or ``set_label(name=value, …)``.

    Traverses PyTrees and nested arrays, whose entries get the names of positions, keys and fields appended after
    underscores. Other values, and arrays that are not traced, are ignored.
    """
    if args and (len(args) != 2 or args[1].__class__ is not str or kwargs):
        found = ", ".join([*map(describe, args), *(f"{name}={describe(value)}" for name, value in kwargs.items())])
        raise TypeError(f"drjit.set_label(): expected a value and a str, or keyword arguments only, found {found}.")
    for label, value in [(args[1], args[0])] if args else kwargs.items():
        for array, name in list(_labelled(value, label, ())):
            _label_array(array, name)


def _labelled(value: Any, label: str, path: tuple[int, ...]) -> Iterator[tuple[ArrayBase, str]]:
    """The arrays in a PyTree, and what they are to be called."""
    if isinstance(value, ArrayBase):
        yield value, label
        return
    items = children(value)
    if items is None:
        return
    if id(value) in path:
        raise RecursionError(f"drjit.set_label(): the PyTree contains itself: a {describe(value)} is its own "
                             "descendant.")
    for key, child in items:
        yield from _labelled(child, f"{label}_{key}", (*path, id(value)))


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


def _type_name(node: Node) -> str:
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
        lines.append(f"  {'r' + str(core.index_of(node)):<8} {_type_name(node):<10} {state.name:<14} {node.size:<10} "
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
    _print(text)
    return None


#: Colours of nodes by state.
_COLOURS = {VarState.Symbolic: "yellow", VarState.Dirty: "salmon", VarState.Evaluated: "lightblue2",
            VarState.Literal: "gray90"}


def _escape(text: str) -> str:
    return "".join("\\" + c if c in '\\"{}|<>' else " " if c == "\n" else c for c in text)


def _operands(node: Node) -> list[Node]:
    found = [operand for operand in (node.d0, node.d1, node.d2, node.d3) if operand is not None]
    loop = node.payload
    return found + list(loop.inputs()) if hasattr(loop, "inputs") else found


def graphviz(as_string: bool = False) -> Any:
    """The live variables of the compiler and what they are computed from, as a GraphViz diagram.

    Returns a ``graphviz.Source`` (whose method ``view()`` shows it), or the text with ``as_string``, which does without
    the package ``graphviz``.
    """
    lines = ["digraph {", "    rankdir=TB;", '    graph [dpi=50 fontname="Ubuntu Mono"];',
             '    node [shape=record fontname="Ubuntu Mono"];', '    edge [fontname="Ubuntu Mono"];']
    edges = []
    for node in core.live_nodes():
        state, label = core.state_of(node), core.label_of(node)
        name = OPS[node.kind].name
        value = f": {format_element(node.payload)}" if state is VarState.Literal else ""
        head = f"Label: \\\"{_escape(label)}\\\"|" if label else ""
        colour = "wheat" if label else _COLOURS.get(state)
        style = f" style=filled fillcolor={colour}" if colour else ""
        lines.append(f'    n{node.id} [label="{{{head}{_escape(name + value)}|{{Type: {_type_name(node)}|'
                     f'Size: {node.size}}}|{{r{core.index_of(node)}|{state.name}}}}}"{style}];')
        edges += [f"    n{operand.id} -> n{node.id};" for operand in _operands(node)]
    lines += edges
    lines += ["    subgraph cluster_legend {", '        label="Legend";']
    for number, (name, colour) in enumerate([*((s.name, c) for s, c in _COLOURS.items()), ("Labeled", "wheat")]):
        lines.append(f'        l{number} [style=filled fillcolor={colour} label="{name}"];')
    text = "\n".join([*lines, "    }", "}", ""])
    if as_string:
        return text
    try:
        import graphviz as package
    except ImportError as error:
        raise ImportError("drjit.graphviz(): the package 'graphviz' is not available (install it with: pip install "
                          "graphviz); drjit.graphviz(as_string=True) does without it.") from error
    return package.Source(text)


# --- formatted output ------------------------------------------------------------------------------------------------


class _SymbolicInput(Exception):
    """An argument that is to be shown has no value yet."""


def _show(value: Any, limit: int, active: list[int] | None, width: int, path: set[int], indent: str = "") -> str:
    """Text of a PyTree; of flat and nested arrays with ``width`` entries, those at the positions ``active`` only."""
    if isinstance(value, ArrayBase):
        if any(node.scope for node in value._nodes()):
            raise _SymbolicInput
        if active is not None and value._dynamic and value._depth >= 0:
            value = _filtered(value, active, width)
        return value._format(limit).replace("\n", "\n" + indent)
    items = children(value)
    if items is None:
        return str(value) if value.__class__ is str and not path else \
            format_element(value) if value.__class__ is float else repr(value)
    if id(value) in path:
        raise RecursionError(f"the PyTree contains itself: a {describe(value)} is its own descendant.")
    path.add(id(value))
    cls = value.__class__
    start, end = {list: "[]", tuple: "()", dict: "{}"}.get(cls) or (f"{cls.__name__}[", "]")
    inner = indent + "  "
    names = ("" if cls in (list, tuple) else f"{key!r}: " if cls is dict else f"{key}=" for key, _ in items)
    parts = [f"\n{inner}{name}" + _show(child, limit, active, width, path, inner)
             for name, (_, child) in zip(names, items, strict=True)]
    path.discard(id(value))
    return start + ",".join(parts) + (f"\n{indent}" if parts else "") + end


def _filtered(array: ArrayBase, active: list[int], width: int) -> Any:
    """The entries of an array at some positions, if it has as many as the mask."""
    nodes = array._nodes()
    if not nodes or any(node.size not in (1, width) for node in nodes):
        return array
    if not active:
        return wrap(type(array), [core.invalid(node.type) for node in nodes])
    cls: Any = retype(array._leaf, UINT32)
    index, mask = cls(active)._nodes()[0], literal(BOOL, True)
    core.evaluate(nodes)
    return wrap(type(array), [core.gather(node, index, mask) if node.size > 1 else broadcast(node, len(active))
                              for node in nodes])


def _positions(active: Any, function: str) -> tuple[list[int] | None, int]:
    """Set positions of a mask and its size; ``None`` stands for all."""
    number = plain_scalar(active)
    if number.__class__ is bool:
        return (None, 1) if number else ([], 0)
    if not isinstance(active, ArrayBase) or active._kind != "b" or active._depth > 0 or not active._dynamic:
        raise ArgumentError(f"{function}(): 'active' must be a bool or a flat mask, found {describe(active)}.")
    node = active._nodes()[0]
    if node.scope:
        raise _SymbolicInput
    values = [bool(value) for value in active.memview()] if node.size else []
    if len(values) == 1:
        return (None, 1) if values[0] else ([], 0)
    return (None if all(values) else [k for k, value in enumerate(values) if value]), len(values)


def _text(function: str, fmt: Any, args: tuple[Any, ...], kwargs: dict[str, Any], limit: Any,
          active: list[int] | None, width: int) -> str:
    if limit.__class__ is not int or limit < 0:
        raise TypeError(f"{function}(): 'limit' must be an int >= 0, found {limit!r}.")
    if fmt.__class__ is not str:
        if args:
            raise TypeError(f"{function}(): expected a format string before several arguments, found {describe(fmt)}.")
        return _show(fmt, limit, active, width, set())
    if not args and not kwargs and "{" not in fmt and "}" not in fmt:
        return str(fmt)
    out, position, implicit, end = [], 0, 0, len(fmt)
    explicit: bool | None = None
    while position < end:
        letter = fmt[position]
        if letter in "{}" and fmt[position:position + 2] == letter * 2:
            out.append(letter)
            position += 2
        elif letter == "}":
            raise SizeError(f"{function}(): single \"}}\" encountered in format string (at position {position}).")
        elif letter == "{":
            close = fmt.find("}", position)
            if close < 0:
                raise SizeError(f"{function}(): unmatched brace in format string (at position {position}).")
            name = fmt[position + 1:close]
            repeated, name = name.endswith("="), name.removesuffix("=")
            where = f"referenced by format string (at position {position})"
            if not name or name.isdecimal():
                if explicit is not None and explicit is not bool(name):
                    raise SizeError(f"{function}(): cannot switch between explicit and implicit field numbering.")
                explicit = bool(name)
                number = int(name) if name else implicit
                implicit += 1
                if number >= len(args):
                    raise SizeError(f"{function}(): missing positional argument {number} {where}.")
                value = args[number]
            elif name in kwargs:
                value = kwargs[name]
            else:
                raise SizeError(f"{function}(): missing keyword argument \"{name}\" {where}.")
            out.append((f"{name}=" if repeated else "") + _show(value, limit, active, width, set()))
            position = close + 1
        else:
            out.append(letter)
            position += 1
    return "".join(out)


def format_message(function: str, fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any], active: Any) -> str:
    """Text of the message of an assertion; arrays show the entries that are set in the mask ``active``."""
    try:
        return _text(function, fmt, args, kwargs, LIMIT, *_positions(active, function))
    except _SymbolicInput:
        return fmt


def format(fmt: Any, /, *args: Any, limit: int = LIMIT, **kwargs: Any) -> str:
    """Text of a format string with arguments, or of a single value: arrays and PyTrees, indented.

    ``{}``, ``{0}`` and ``{name}`` stand for arguments, ``{name=}`` for ``name=`` and the argument, ``{{`` and ``}}``
    for braces. Arrays of more than ``limit`` entries are abbreviated. Evaluates the arrays it shows; raises a
    ``RuntimeError`` for a bad format string and for symbolic arrays.
    """
    try:
        return _text("drjit.format", fmt, args, kwargs, limit, None, 1)
    except _SymbolicInput:
        raise SizeError("drjit.format(): symbolic arrays have no values that could be returned at once.") from None


def print(fmt: Any, /, *args: Any, active: Any = True, end: str = "\n", file: Any = None, limit: int = LIMIT,
          mode: str = "auto", **kwargs: Any) -> None:
    """Print what :func:`format` returns, followed by ``end``, to ``file`` (by default the standard output).

    Of arrays, only the entries that are set in the mask ``active`` are shown; nothing is printed if there is none.
    ``mode`` is ``'auto'`` or ``'evaluated'``: printing symbolic arrays later (``'symbolic'``) is yet to come and raises
    a ``NotImplementedError``.
    """
    function = "drjit.print"
    if mode not in ("auto", "evaluated", "evaluate", "symbolic"):
        raise ArgumentError(f"{function}(): 'mode' must be \"auto\", \"evaluated\" or \"symbolic\", found {mode!r}.")
    output = sys.stdout if file is None else file
    if not hasattr(output, "write"):
        raise ArgumentError(f"{function}(): 'file' must have a method write(), found {describe(file)}.")
    try:
        if mode == "symbolic":
            raise _SymbolicInput
        positions, width = _positions(active, function)
        if positions is not None and not positions:
            return
        text = _text(function, fmt, args, kwargs, limit, positions, width)
    except _SymbolicInput:
        raise NotImplementedError(f"{function}(): not implemented yet (deferred, symbolic printing).") from None
    output.write(text + end)
