"""Formatted output of PyTrees."""

from __future__ import annotations

import sys
from typing import Any

import drjit_core as core
from drjit_core import literal

from .._arrays.format import format_element
from .._base.array import LIMIT, ArrayBase
from .._base.errors import ArgumentError, SizeError, describe
from .._base.nodes import broadcast
from .._base.types import BOOL, UINT32, retype
from .._base.values import plain_scalar
from .._promotion.promote import wrap
from .._trees.pytree import children

__all__ = ["format", "format_message", "print"]


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
