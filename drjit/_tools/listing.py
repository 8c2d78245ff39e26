"""Labels and listings of live variables."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import drjit_core as core
from drjit_core import TYPES, JitBackend, Node, VarState, literal

from .._base.arguments import require_as_string
from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.handle import live_arrays
from .._base.links import links
from .._trees.pytree import flatten

__all__ = ["Variable", "live_variables", "set_label", "type_name", "whos"]


def set_label(*args: Any, **kwargs: Any) -> None:
    """Label arrays for listings and graphs: ``set_label(value, 'name')`` or ``set_label(name=value, …)``.

    Traverses PyTrees and nested arrays, whose entries get the names of positions, keys and fields appended after
    underscores. Other values, and arrays that are not traced, are ignored. Raises a ``TypeError`` for other arguments.
    Evaluates nothing.

    >>> from drjit.llvm import Array2f, Float
    >>> x, v = Float(1, 2), Array2f(3, 4)
    >>> dr.set_label(x=x, v=v)
    >>> x.label, v.x.label, v.y.label
    ('x', 'v_0', 'v_1')
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
                plain, vertex = core.primal(node), core.vertex_of(node)
                own = literal(plain.type, plain.payload, plain.size, plain.attr, hash(name))
                node = own if vertex is None else core.dual(own, vertex)
            core.set_label(node, name)
            nodes.append(node)
        value._replace(nodes)


# --- what is alive ---------------------------------------------------------------------------------------------------


class Variable(NamedTuple):
    """A node that the program's arrays need, and how many arrays and other nodes refer to it."""

    node: Node
    references: int
    held: bool  # by an array
    backend: JitBackend  #: That it belongs to; of what goes with all, that of an array which holds it, if one does.


def live_variables() -> list[Variable]:
    """What the program's arrays hold, and what that is computed from, oldest first.

    A search through all objects of the process. What only the compiler holds (its literals and other nodes that it
    keeps for another time) is not among it.
    """
    references: dict[int, int] = {}
    found: dict[int, Node] = {}
    held: dict[int, JitBackend] = {}
    for candidate in live_arrays():
        if candidate._dynamic:
            try:
                nodes = [core.primal(node) for node in candidate._nodes()]
            except AttributeError:  # it is just being made, perhaps by another thread
                continue
            if None in nodes:  # likewise
                continue
            for node in nodes:
                references[node.id] = references.get(node.id, 0) + 1
                found[node.id] = node
                held.setdefault(node.id, candidate._record.backend)
    pending = list(found.values())
    while pending:
        for operand in core.operands(pending.pop()):
            references[operand.id] = references.get(operand.id, 0) + 1
            if operand.id not in found:
                found[operand.id] = operand
                pending.append(operand)
    return [Variable(node, references[number], number in held,
                     JitBackend(node.where) if node.where else held.get(number, JitBackend.Invalid))
            for number, node in sorted(found.items())]


def _storage(node: Node) -> int:
    """Bytes that the elements of a node take, or would take if it were evaluated."""
    return node.size * TYPES[node.type].size if node.type else 0


def type_name(node: Node) -> str:
    """The type of a node's elements, as graphs show it."""
    return TYPES[node.type].name if node.type else "void"


def _short_type(node: Node) -> str:
    return type_name(node) if not node.type or TYPES[node.type].kind == "b" else TYPES[node.type].short


#: What listings show of a state; evaluated arrays show the backend whose memory they are in.
_STATUS = {VarState.Literal: "const.", VarState.Unevaluated: "", VarState.Dirty: "dirty",
           VarState.Symbolic: "symbolic", VarState.Undefined: "undefined", VarState.Invalid: "empty"}


def _bytes(size: int) -> str:
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.5g} {unit}"


def whos(as_string: bool = False) -> str | None:
    """Print a list of the program's variables and the memory they take, or return it with ``as_string``.

    Variables are what arrays hold (of nested ones each component), and what those are computed from that have not yet
    been evaluated. ``Refs`` is the number of arrays and of other variables that refer to one. ``Status`` is ``const.``
    for literals, the backend where the elements are in memory (with ``shared`` where that belongs to another library),
    ``dirty`` for pending writes, and nothing for what is yet to be computed. Before the type stands the backend that a
    variable belongs to, or a dash for what goes with all. Constants that only occur in computations, and arrays of
    ``drjit.scalar``, are left out. Evaluates nothing.

    The list is found by a search through all objects of the process: this is not for inner loops.

    >>> from drjit.llvm import Float
    >>> x = dr.opaque(Float, 1, 1000)
    >>> dr.set_label(x=x)
    >>> print([line for line in dr.whos(as_string=True).splitlines() if line.endswith(" x")][0][11:])
    LLVM  f32   LLVM         1          1000       3.9062 KiB  x
    """
    require_as_string("drjit.whos", as_string)
    rule = "  " + "=" * 72
    lines = ["", "  ID       Type        Status       Refs       Size       Storage     Label", rule]
    evaluated: dict[int, int] = {}  # bytes by buffer, which several versions of an array may share
    pending = 0
    listed = [entry for entry in live_variables()
              if entry.held or core.state_of(entry.node) not in (VarState.Literal, VarState.Invalid)]
    for node, references, _, backend in listed:
        state, storage, place = core.state_of(node), "", backend.name if backend is not JitBackend.Invalid else "-"
        if state is VarState.Evaluated:
            evaluated[id(node.payload)] = _storage(node)
            storage = _bytes(_storage(node))
            status = JitBackend(node.payload.backend.where).name + " shared" * node.payload.read_only
        else:
            status = _STATUS[state]
            pending += 0 if state is VarState.Literal else _storage(node)
        lines.append(f"  {core.index_of(node):<8} {place:<5} {_short_type(node):<5} {status:<12} {references:<10} "
                     f"{node.size:<10} {storage:<11} {core.label_of(node) or ''}".replace("\n", " ").rstrip())
    if not listed:
        lines.append("                       -- No variables registered --")
    kernels = core.kernel_statistics()
    lines += [rule, "", "  JIT compiler", "  ============",
              f"   - Storage           : {_bytes(sum(evaluated.values()))} evaluated, {_bytes(pending)} unevaluated.",
              f"   - Variables         : {len(listed)}.",
              f"   - Kernel launches   : {kernels['launches']} ({kernels['hits']} cache hits, "
              f"{kernels['loaded']} soft, {kernels['compiled']} hard misses).", "",
              "  Memory allocator", "  ================",
              *(f"   - {name:<8}: {_bytes(memory['in_use'])} in use, {_bytes(memory['cached'])} cached "
                f"(peak: {_bytes(memory['peak'])})." for name, memory in core.memory_of_backends()), ""]
    text = "\n".join(lines)
    if as_string:
        return text
    sys.stdout.write(text + "\n")
    return None


links.set_label = set_label
