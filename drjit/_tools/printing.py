"""Formatted output of PyTrees."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import drjit_core as core
from drjit_core import Node, literal

from .._access.lanes import widest_mask, with_lanes
from .._arrays.format import format_element
from .._base.array import LIMIT, ArrayBase
from .._base.errors import ArgumentError, SizeError, describe
from .._base.nodes import broadcast, values
from .._base.types import BOOL, UINT32, retype
from .._base.values import plain_scalar
from .._promotion.promote import wrap
from .._trees.pytree import children

__all__ = ["format", "format_message", "print"]


class _SymbolicInput(Exception):
    """An argument that is to be shown has no value yet."""


class _Selection(NamedTuple):
    """The entries to show, by a mask: of arrays that have as many entries, and of tensors if the mask is one."""

    positions: list[int] | None  # where the mask is set; None stands for everywhere
    width: int
    shape: tuple[int, ...] | None  # of a mask that is a tensor

    def applies_to(self, array: ArrayBase) -> bool:
        """Whether entries of an array are to be left out."""
        if self.positions is None or not array._dynamic:
            return False
        nodes = array._nodes()
        if array._depth < 0:
            return self.shape is not None and array.shape == self.shape
        return bool(nodes) and all(node.size in (1, self.width) for node in nodes)


_ALL = _Selection(None, 1, None)


def _show(value: Any, limit: int, selection: _Selection, path: set[int], indent: str = "") -> str:
    """Text of a PyTree."""
    if isinstance(value, ArrayBase):
        if any(node.scope for node in value._nodes()):
            raise _SymbolicInput
        if selection.applies_to(value):
            value = _filtered(value, selection.positions or [])
        return str(value._format(limit)).replace("\n", "\n" + indent)
    items = children(value)
    if items is None:
        return str(value) if value.__class__ is str and not path else \
            format_element(value) if value.__class__ is float else repr(value)
    if id(value) in path:
        raise RecursionError(f"the PyTree contains itself: a {describe(value)} is its own descendant.")
    path.add(id(value))
    cls = value.__class__
    start, end = {list: ("[", "]"), tuple: ("(", ")"), dict: ("{", "}")}.get(cls) or (f"{cls.__name__}[", "]")
    inner = indent + "  "
    names = ("" if cls in (list, tuple) else f"{key!r}: " if cls is dict else f"{key}=" for key, _ in items)
    parts = [f"\n{inner}{name}" + _show(child, limit, selection, path, inner)
             for name, (_, child) in zip(names, items, strict=True)]
    path.discard(id(value))
    return start + ",".join(parts) + (f"\n{indent}" if parts else "") + end


def _filtered(array: ArrayBase, positions: list[int]) -> Any:
    """The entries of an array at some positions; those of tensors as one dimension."""
    nodes = array._nodes()
    if not positions:
        return wrap(type(array), [core.invalid(node.type) for node in nodes])
    cls: Any = retype(array._leaf, UINT32)
    index, mask = cls(positions)._nodes()[0], literal(BOOL, True)
    core.evaluate(nodes)
    return wrap(type(array), [core.gather(node, index, mask) if node.size > 1 else broadcast(node, len(positions))
                              for node in nodes])


def _selection(active: Any, function: str) -> _Selection:
    """The entries at which a mask is set, of lanes that take part where control flow is evaluated."""
    number = plain_scalar(active)
    if number.__class__ is bool:
        lanes = widest_mask() if number else None
        if lanes is None:
            return _ALL if number else _Selection([], 0, None)
        return _set_in(lanes, None)
    if not isinstance(active, ArrayBase) or active._kind != "b" or active._depth > 0 or not active._dynamic:
        raise ArgumentError(f"{function}(): 'active' must be a bool, a flat mask or a tensor of masks, found "
                            f"{describe(active)}.")
    node = active._nodes()[0]
    if node.scope:
        raise _SymbolicInput
    return _set_in(with_lanes(node, node.size), active.shape if active._depth < 0 else None)


def _set_in(node: Node, shape: tuple[int, ...] | None) -> _Selection:
    found = values(node)
    if len(found) == 1:
        return _ALL if found[0] else _Selection([], 0, shape)
    positions = None if found and all(found) else [k for k, value in enumerate(found) if value]
    return _Selection(positions, len(found), shape)


def _text(function: str, fmt: Any, args: tuple[Any, ...], kwargs: dict[str, Any], limit: Any,
          selection: _Selection) -> str:
    if limit.__class__ is not int or limit < 0:
        raise TypeError(f"{function}(): 'limit' must be an int >= 0, found {limit!r}.")
    if fmt.__class__ is not str:
        if args:
            raise TypeError(f"{function}(): expected a format string before several arguments, found {describe(fmt)}.")
        return _show(fmt, limit, selection, set())
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
            out.append((f"{name}=" if repeated else "") + _show(value, limit, selection, set()))
            position = close + 1
        else:
            out.append(letter)
            position += 1
    return "".join(out)


def format_message(function: str, fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any], active: Any) -> str:
    """Text of the message of an assertion; arrays show the entries that are set in the mask ``active``."""
    try:
        return _text(function, fmt, args, kwargs, LIMIT, _selection(active, function))
    except _SymbolicInput:
        return fmt


def format(fmt: Any, *args: Any, limit: int = LIMIT, **kwargs: Any) -> str:
    """Text of a format string with arguments, or of a single value: arrays and PyTrees, indented.

    ``{}``, ``{0}`` and ``{name}`` stand for arguments, ``{name=}`` for ``name=`` and the argument, ``{{`` and ``}}``
    for braces. Arrays of more than ``limit`` entries are abbreviated. Evaluates the arrays it shows; raises a
    ``RuntimeError`` for a bad format string and for symbolic arrays.

    >>> from drjit.llvm import Float
    >>> dr.format("{x=} of {0}", 2, x=Float(1, 2))
    'x=[1, 2] of 2'
    """
    try:
        return _text("drjit.format", fmt, args, kwargs, limit, _ALL)
    except _SymbolicInput:
        raise SizeError("drjit.format(): symbolic arrays have no values that could be returned at once.") from None


def print(fmt: Any, *args: Any, active: Any = True, end: str = "\n", file: Any = None, limit: int = LIMIT,
          mode: str = "auto", **kwargs: Any) -> None:
    """Print what :func:`format` returns, followed by ``end``, to ``file`` (by default the standard output).

    Of arrays, only the entries that are set in the mask ``active`` are shown; nothing is printed if there is none. A
    flat mask selects entries of flat and nested arrays of its width, and shows tensors whole; a tensor of masks selects
    entries of tensors of its shape too, which are shown one after the other. ``mode`` is ``'auto'`` or ``'evaluated'``:
    printing symbolic arrays later (``'symbolic'``) is yet to come and raises a ``NotImplementedError``. Evaluates the
    arrays that it shows.

    >>> from drjit.llvm import Int
    >>> x = Int(1, 2, 3)
    >>> dr.print("{}", x, active=x != 2)
    [1, 3]
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
        selection = _selection(active, function)
        if selection.positions is not None and not selection.positions:
            return
        text = _text(function, fmt, args, kwargs, limit, selection)
    except _SymbolicInput:
        raise NotImplementedError(f"{function}(): not implemented yet (deferred, symbolic printing).") from None
    output.write(text + end)
