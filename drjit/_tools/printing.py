"""Formatted output of PyTrees."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import drjit_core as core
from drjit_core import Node, SymbolicValue, literal

from .._access.lanes import TRUE, widest_mask, with_lanes
from .._arrays.format import format_element
from .._base.array import LIMIT, ArrayBase
from .._base.errors import ArgumentError, FormatError, SizeError, describe
from .._base.nodes import broadcast, values
from .._base.types import BOOL, UINT32, retype
from .._base.values import plain_scalar
from .._promotion.promote import wrap
from .._trees.pytree import children

__all__ = ["Message", "format", "is_deferred", "message", "message_now", "print", "with_arrays", "write_later"]


class _Shown(NamedTuple):
    """An array within a text."""

    array: ArrayBase
    indent: str


class _Numbers(NamedTuple):
    """Where a text says which elements it shows."""

    position: int  # in the format string


_Piece = str | _Shown | _Numbers


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


def _take_apart(value: Any, out: list[_Piece], path: set[int], indent: str = "") -> None:
    """Append the text of a PyTree, but for its arrays."""
    if isinstance(value, ArrayBase):
        out.append(_Shown(value, indent))
        return
    items = children(value)
    if items is None:
        out.append(str(value) if value.__class__ is str and not path else
                   format_element(value) if value.__class__ is float else repr(value))
        return
    if id(value) in path:
        raise RecursionError(f"the PyTree contains itself: a {describe(value)} is its own descendant.")
    path.add(id(value))
    cls = value.__class__
    start, end = {list: ("[", "]"), tuple: ("(", ")"), dict: ("{", "}")}.get(cls) or (f"{cls.__name__}[", "]")
    inner = indent + "  "
    names = ("" if cls in (list, tuple) else f"{key!r}: " if cls is dict else f"{key}=" for key, _ in items)
    out.append(start)
    for number, (name, (_, child)) in enumerate(zip(names, items, strict=True)):
        out.append(f"{',' if number else ''}\n{inner}{name}")
        _take_apart(child, out, path, inner)
    path.discard(id(value))
    out.append((f"\n{indent}" if items else "") + end)


def _is_symbolic(array: Any) -> bool:
    """Whether an array has no values yet."""
    return isinstance(array, ArrayBase) and any(node.scope for node in array._nodes())


def _text(function: str, pieces: list[_Piece], limit: int, selection: _Selection) -> str:
    """The text as it is now."""
    out = []
    for piece in pieces:
        if isinstance(piece, _Shown):
            array: Any = piece.array
            if selection.applies_to(array):
                array = _filtered(array, selection.positions or [])
            out.append(str(array._format(limit)).replace("\n", "\n" + piece.indent))
        elif isinstance(piece, _Numbers):
            raise _missing(function, "thread_id", piece.position)
        else:
            out.append(piece)
    return "".join(out)


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


def _checked_mask(active: Any, function: str) -> Any:
    """The argument 'active' as a bool or an array of masks."""
    number = plain_scalar(active)
    if number.__class__ is bool:
        return number
    if not isinstance(active, ArrayBase) or active._kind != "b" or active._depth > 0 or not active._dynamic:
        raise ArgumentError(f"{function}(): 'active' must be a bool, a flat mask or a tensor of masks, found "
                            f"{describe(active)}.")
    return active


def _selection(active: Any) -> _Selection:
    """The entries at which a mask is set, of lanes that take part where control flow is evaluated."""
    if not isinstance(active, ArrayBase):
        lanes = widest_mask() if active else None
        if lanes is None:
            return _ALL if active else _Selection([], 0, None)
        return _set_in(lanes, None)
    node = active._nodes()[0]
    if node.size == 1 and active._depth >= 0:  # one of all lanes
        return _selection(bool(values(node)[0]))
    return _set_in(with_lanes(node, node.size), active.shape if active._depth < 0 else None)


def _set_in(node: Node, shape: tuple[int, ...] | None) -> _Selection:
    found = values(node)
    if len(found) == 1:
        return _ALL if found[0] else _Selection([], 0, shape)
    positions = None if found and all(found) else [k for k, value in enumerate(found) if value]
    return _Selection(positions, len(found), shape)


def _missing(function: str, name: str, position: int) -> FormatError:
    return FormatError(f"{function}(): missing keyword argument \"{name}\" referenced by format string (at position "
                     f"{position}).")


def _pieces(function: str, fmt: Any, args: tuple[Any, ...], kwargs: dict[str, Any], limit: Any) -> list[_Piece]:
    """A text as it was formatted, in which the arrays are left out."""
    if limit.__class__ is not int or limit < 0:
        raise TypeError(f"{function}(): 'limit' must be an int >= 0, found {limit!r}.")
    if "thread_id" in kwargs:
        raise ArgumentError(f"{function}(): the keyword argument 'thread_id' is reserved for the positions of the "
                            "elements that a symbolic print statement shows.")
    out: list[_Piece] = []
    if fmt.__class__ is not str:
        if args:
            raise TypeError(f"{function}(): expected a format string before several arguments, found {describe(fmt)}.")
        _take_apart(fmt, out, set())
        return out
    if not args and not kwargs and "{" not in fmt and "}" not in fmt:
        return [str(fmt)]
    position, implicit, end = 0, 0, len(fmt)
    explicit: bool | None = None
    while position < end:
        letter = fmt[position]
        if letter in "{}" and fmt[position:position + 2] == letter * 2:
            out.append(letter)
            position += 2
        elif letter == "}":
            raise FormatError(f"{function}(): single \"}}\" encountered in format string (at position {position}).")
        elif letter == "{":
            close = fmt.find("}", position)
            if close < 0:
                raise FormatError(f"{function}(): unmatched brace in format string (at position {position}).")
            name = fmt[position + 1:close]
            repeated, name = name.endswith("="), name.removesuffix("=")
            where = f"referenced by format string (at position {position})"
            if not name or name.isdecimal():
                if explicit is not None and explicit is not bool(name):
                    raise FormatError(f"{function}(): cannot switch between explicit and implicit field numbering.")
                explicit = bool(name)
                number = int(name) if name else implicit
                implicit += 1
                if number >= len(args):
                    raise FormatError(f"{function}(): missing positional argument {number} {where}.")
                value = args[number]
            elif name in kwargs:
                value = kwargs[name]
            elif name == "thread_id":
                out += ("thread_id=" * repeated, _Numbers(position))
                position = close + 1
                continue
            else:
                raise _missing(function, name, position)
            if repeated:
                out.append(f"{name}=")
            _take_apart(value, out, set())
            position = close + 1
        else:
            out.append(letter)
            position += 1
    return out


# --- deferred --------------------------------------------------------------------------------------------------------


class Message(NamedTuple):
    """What a statement writes when it is known, and where."""

    function: str
    pieces: list[_Piece]
    end: str
    output: Any
    limit: int


def message(function: str, fmt: Any, args: tuple[Any, ...], kwargs: dict[str, Any], end: str, output: Any,
            limit: Any) -> Message:
    """The message of a statement; everything but its arrays is formatted, so that later changes do not show."""
    return Message(function, _pieces(function, fmt, args, kwargs, limit), end, output, limit)


def is_symbolic(message: Message) -> bool:
    """Whether a message shows an array that has no value yet."""
    return any(isinstance(piece, _Shown) and _is_symbolic(piece.array) for piece in message.pieces)


def is_deferred(message: Message, active: Any) -> bool:
    """Whether a message is written later: it shows something symbolic, or some elements of a region only.

    In a symbolic loop, every array counts: those elements are shown that the loop makes reach the statement.  Also, a
    variable that the body leaves alone is passed to it as it was before the loop, when this has turned out.
    """
    if is_symbolic(message) or _is_symbolic(active):
        return True
    return core.innermost() is not None and any(
        isinstance(value, ArrayBase) and value._dynamic
        for value in (active, *(piece.array for piece in message.pieces if isinstance(piece, _Shown))))


class _Place(NamedTuple):
    """An array within a text that is written later."""

    number: int
    indent: str


def with_arrays(message: Message, arrays: Sequence[ArrayBase], act: Callable[[Message, list[Any]], None]) -> bool:
    """In a program that is being recorded, and outside of regions: let a function act on a message, and other arrays,
    as they are in each replay. Otherwise, return ``False``."""
    if core.state.recording is None or core.innermost() is not None:
        return False
    shown = [piece for piece in message.pieces if isinstance(piece, _Shown)]
    # what is kept must not hold what is recorded
    kept = [_Kept.of(array) for array in (*[piece.array for piece in shown], *arrays)]
    indents = [piece.indent if isinstance(piece, _Shown) else piece for piece in message.pieces]
    places = [isinstance(piece, _Shown) for piece in message.pieces]
    message = message._replace(pieces=[])

    def write() -> None:
        found = [each.array() for each in kept]
        following = iter(found)
        pieces = [_Shown(next(following), piece) if place else piece  # type: ignore[arg-type]
                  for piece, place in zip(indents, places, strict=True)]
        act(message._replace(pieces=pieces), found[len(shown):])

    core.defer(core.Statement([memory for each in kept for memory in each.memory], write, shown=True))
    return True


class _Kept(NamedTuple):
    """An array, without what it holds."""

    cls: Any
    shape: Any
    memory: list[core.Memory]
    itself: Any

    @classmethod
    def of(cls, array: Any) -> _Kept:
        if not array._dynamic:
            return cls(None, None, [], array)
        return cls(type(array), array._s if array._depth < 0 else None,
                   [core.Memory(core.primal(node)) for node in array._nodes()], None)

    def array(self) -> Any:
        if self.cls is None:
            return self.itself
        result: Any = wrap(self.cls, [memory.node for memory in self.memory])
        if self.shape is not None:
            result._s = self.shape
        return result


def write_later(message: Message, active: Node) -> None:
    """Write a message, with the values of those elements for which a mask is set, after the next evaluation."""
    function, pieces, _, _, limit = message
    if not limit:
        raise ArgumentError(f"{function}(): 'limit' must be at least 1 where values are printed later: it says how "
                            "many of them are kept.")
    template: list[str | _Numbers | _Place] = []
    types: list[type[ArrayBase]] = []
    components: list[list[Node]] = []
    for piece in pieces:
        if not isinstance(piece, _Shown):
            template.append(piece)
        elif piece.array._dynamic:
            template.append(_Place(len(types), piece.indent))
            types.append(type(piece.array))
            components.append(piece.array._nodes())
        else:
            template.append(_text(function, [piece], limit, _ALL))

    def act(capture: core.Capture) -> None:
        count, elements, values = core.captured(capture)
        if count:
            following = iter(values)
            found = [wrap(cls, list(islice(following, len(nodes))))
                     for cls, nodes in zip(types, components, strict=True)]
            _write(message, template, elements, found)
            if count > len(elements) and any(not isinstance(piece, str) for piece in template):
                _warn(count, len(elements))

    nodes = [node for group in components for node in group]
    region = core.innermost()
    lanes = region.live.size if region is not None and region.live is not None else 1
    try:
        width = max(core.broadcast_size(function, active, *nodes), lanes)
        core.capture(function, nodes, with_lanes(active, width), limit, act)
    except core.IncompatibleSizes as error:
        sizes = ", ".join(map(str, error.sizes))
        raise SizeError(f"{function}(): the arguments have incompatible sizes! (sizes: {sizes})") from None


def _write(message: Message, template: list[str | _Numbers | _Place], elements: list[int], found: list[Any]) -> None:
    out = []
    for piece in template:
        if isinstance(piece, _Place):
            out.append(str(found[piece.number]._format(message.limit)).replace("\n", "\n" + piece.indent))
        elif isinstance(piece, _Numbers):
            out.append(str(elements))
        else:
            out.append(piece)
    _output(message).write("".join(out) + message.end)


def _output(message: Message) -> Any:
    return sys.stdout if message.output is None else message.output


def _warn(count: int, found: int) -> None:
    level = 1  # of the user's frame: where the program evaluates
    frame = sys._getframe()
    while frame.f_back is not None and core.is_internal(frame):
        frame = frame.f_back
        level += 1
    warnings.warn(
        f"dr.print(): symbolic print statement only captured {found} of {count} available outputs. The above is a "
        "non-deterministic sample, in which entries are in the right order but not necessarily contiguous. Specify "
        "`limit=..` to capture more information and/or add the special format field `{thread_id}` show the thread "
        "ID/array index associated with each entry of the captured output.", RuntimeWarning, stacklevel=level)


# --- public functions ------------------------------------------------------------------------------------------------


def message_now(message: Message, active: Any) -> str:
    """The text of a message of an assertion; arrays show the entries that are set in the mask ``active``."""
    return _text(message.function, message.pieces, LIMIT, _selection(active))


def _of_value(function: str, kwargs: dict[str, Any]) -> Any:
    """The single value, where it has a name instead of the first place."""
    if "value" not in kwargs:
        raise TypeError(f"{function}(): 'fmt' is missing, the format string or a single value.")
    return kwargs.pop("value")


def format(fmt: Any = ..., *args: Any, limit: int = LIMIT, **kwargs: Any) -> str:
    """Text of a format string with arguments, or of a single value: arrays and PyTrees, indented.

    ``{}``, ``{0}`` and ``{name}`` stand for arguments, ``{name=}`` for ``name=`` and the argument, ``{{`` and ``}}``
    for braces. Arrays of more than ``limit`` entries are abbreviated. Evaluates the arrays it shows; raises a
    ``RuntimeError`` for a bad format string and for symbolic arrays.

    >>> from drjit.llvm import Float
    >>> dr.format("{x=} of {0}", 2, x=Float(1, 2))
    'x=[1, 2] of 2'
    """
    function = "drjit.format"
    if fmt is ...:
        fmt = _of_value(function, kwargs)
    found = message(function, fmt, args, kwargs, "", None, limit)
    if is_symbolic(found):
        raise SymbolicValue(f"{function}(): symbolic arrays have no values that could be returned at once: use "
                            "drjit.print() with a 'file' of your own.")
    return _text(function, found.pieces, limit, _ALL)


def print(fmt: Any = ..., *args: Any, active: Any = True, end: str = "\n", file: Any = None, limit: int = LIMIT,
          mode: str = "auto", **kwargs: Any) -> None:
    """Print what :func:`format` returns, followed by ``end``, to ``file`` (by default the standard output).

    Of arrays, only the entries that are set in the mask ``active`` are shown; nothing is printed if there is none. A
    flat mask selects entries of flat and nested arrays of its width, and shows tensors whole; a tensor of masks selects
    entries of tensors of its shape too, which are shown one after the other. Evaluates the arrays that it shows.

    *In a symbolic loop*, arrays have no values yet. The statement prints later, when anything is evaluated after the
    loop (``dr.eval()`` suffices), once for all iterations. It shows the values of all elements for which the statement
    was reached, and ``active`` is set: those of one element after the other, and of each in the order in which it went
    through the loop. The format field ``{thread_id}`` shows which element each value belongs to. Arrays from outside
    are shown in the same way, an entry for each value of the others, and tensors as flat arrays; statements without
    arrays print when the loop has been traced. No more than ``limit`` values are kept, and a ``RuntimeWarning`` says so
    when there were more. What has not been evaluated when the program ends is dropped, and so is the output of a loop
    whose body raises.

    ``mode`` is ``'auto'``, which is that; ``'evaluated'``, which prints at once, and refuses symbolic arrays; or
    ``'symbolic'``, which prints later wherever the statement stands, if it shows any elements. ``file`` needs a method
    ``write(text)``. Raises a ``RuntimeError`` for a bad format string, for symbolic arrays in the condition of a loop
    (which must be free of side effects), and if sizes of arrays that are printed later do not go together.

    >>> from drjit.llvm import Int
    >>> x = Int(1, 2, 3)
    >>> dr.print("{}", x, active=x != 2)
    [1, 3]
    >>> def body(i, n):
    ...     dr.print("{thread_id=} {i=}", i=i)
    ...     return i + 1, n
    >>> i, n = dr.while_loop((Int(0), Int(2, 3)), lambda i, n: i < n, body, mode="symbolic")
    >>> dr.eval()
    thread_id=[0, 0, 1, 1, 1] i=[0, 1, 0, 1, 2]
    True
    """
    function = "drjit.print"
    if fmt is ...:
        fmt = _of_value(function, kwargs)
    if mode not in ("auto", "evaluated", "evaluate", "symbolic"):
        raise ArgumentError(f"{function}(): 'mode' must be \"auto\", \"evaluated\" or \"symbolic\", found {mode!r}.")
    if not hasattr(sys.stdout if file is None else file, "write"):
        raise ArgumentError(f"{function}(): 'file' must have a method write(), found {describe(file)}.")
    active = _checked_mask(active, function)
    if file is None and core.state.recording is None:  # in a replay, what it is then
        file = sys.stdout
    found = message(function, fmt, args, kwargs, end, file, limit)
    if mode in ("evaluated", "evaluate"):
        if is_symbolic(found) or _is_symbolic(active):
            raise SymbolicValue(f"{function}(): symbolic arrays have no values that could be printed at once, as "
                                f"mode={mode!r} asks for: leave out 'mode' to print them when they are known.")
    elif is_deferred(found, active) or mode == "symbolic" and _has_elements(found):
        if active is not False:
            write_later(found, TRUE if active is True else active._nodes()[0])
        return
    masks = [active] if isinstance(active, ArrayBase) else []
    if not with_arrays(found, masks, lambda message, masks: _print_now(message, masks[0] if masks else active)):
        _print_now(found, active)


def _print_now(message: Message, active: Any) -> None:
    selection = _selection(active)
    if selection.positions is not None and not selection.positions:
        return
    text = _text(message.function, message.pieces, message.limit, selection) + message.end

    def write() -> None:
        _output(message).write(text)

    core.defer(core.Statement((), write, shown=True))  # in a symbolic loop once, however often that is traced


def _has_elements(message: Message) -> bool:
    """Whether there is anything in a message that could be printed later."""
    if core.innermost() is not None:
        return True
    nodes = [node for piece in message.pieces if isinstance(piece, _Shown) and piece.array._dynamic
             for node in piece.array._nodes()]
    return any(isinstance(piece, _Numbers) for piece in message.pieces) if not nodes else \
        all(node.size for node in nodes)
