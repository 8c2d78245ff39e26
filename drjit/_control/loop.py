"""Loops over arrays: ``dr.while_loop``.

In *symbolic* mode the compiler traces the body once, and the loop becomes part of a kernel; in *evaluated* mode each
iteration is a kernel of its own, with ``select`` holding back the elements that have finished; *scalar* mode is a plain
Python loop.
"""

from __future__ import annotations

import gc
import itertools
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import CellType, FunctionType, MethodType
from typing import Any, Literal, NamedTuple

import drjit_core as core
from drjit_core import IncompatibleSizes, JitFlag, Node, SymbolicValue, VarType, ops

from .._access.lanes import masked_access, written_from
from .._access.store import Journal, innermost_journal, store, store_written
from .._base.arguments import require_integer
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe, translate, user_part
from .._base.nodes import broadcast
from .._base.typing import Ts
from .._trees.pytree import TreeSpec, flatten, flatten_nodes

__all__ = ["while_loop"]

_FUNCTION = "drjit.while_loop"
_BOOL = VarType.Bool.value
#: What the loop itself raises if its arguments do not fit: nobody needs to see where in here that is.
_REFUSALS = (ArgumentError, NotImplementedError, SizeError, SymbolicValue)


def while_loop(state: tuple[*Ts], cond: Callable[[*Ts], ArrayBase | bool], body: Callable[[*Ts], tuple[*Ts]],
               labels: Sequence[str] = (), label: str | None = None,
               mode: Literal["scalar", "symbolic", "evaluated"] | None = None, strict: bool = True,
               compress: bool | None = None, max_iterations: int | None = None) -> tuple[*Ts]:
    """Repeat ``state = body(*state)`` for every element for which ``cond(*state)`` holds; returns the final state.

    ``state`` is a tuple of arrays, PyTrees of arrays, and other objects (which are passed on, but not tracked in
    symbolic mode). ``cond`` returns a mask, or a ``bool`` for a plain Python loop; it must be free of side effects.
    ``body`` returns state of the same structure and types. ``mode`` is ``'scalar'``, ``'symbolic'``, ``'evaluated'`` or
    ``None``, which decides by the type of the condition and ``JitFlag.SymbolicLoops``. ``labels`` name the entries of
    the state in messages. ``strict`` refuses changes of Python objects in symbolic mode. ``compress`` and
    ``max_iterations`` are hints that do not change the result.

    Symbolic loops are traced once, become part of a kernel, and evaluate nothing; evaluated ones evaluate the state
    once for each iteration. ``body`` may write by index (``dr.scatter``, ``x[i] = value`` …) to arrays of the state and
    to others, which happens for the elements that are still in the loop. In symbolic loops each of them writes one
    value at a time, what is written can only be read by index, and other changes of arrays that are no state
    (``x += 1``) raise a ``RuntimeError``; so does a write to an array that ``body`` has made itself. If something
    raises in a symbolic loop, all arrays are as they were before. Raises a ``TypeError`` if the body changes the
    structure or a type of the state; what ``cond`` and ``body`` raise is passed on.

    >>> from drjit.llvm import Int
    >>> steps, x = dr.while_loop(
    ...     state=(Int(0), Int(1, 5, 100)),
    ...     cond=lambda steps, x: x < 100,
    ...     body=lambda steps, x: (steps + 1, x * 2))
    >>> steps, x
    ([7, 5, 0], [128, 160, 100])
    """
    names = _checked(state, cond, body, labels, label, mode, strict, compress, max_iterations)
    try:
        return _run(state, cond, body, names, label, mode, strict)  # type: ignore[no-any-return]
    except Exception as error:
        traceback = user_part(error)
        if traceback is not None:  # raised by one of the functions: theirs, less our frames in between
            try:
                raise error.with_traceback(traceback)
            finally:
                # Its frames lead back to this one: a name in here would keep alive the arrays that they hold, until the
                # garbage collector comes along, and writes to those would go to copies.
                del traceback
        if isinstance(error, CORE_ERRORS):
            raise translate(error, _FUNCTION) from None
        if isinstance(error, _REFUSALS):
            raise error.with_traceback(None)  # noqa: B904
        raise


def _checked(state: Any, cond: Any, body: Any, labels: Any, label: Any, mode: Any, strict: Any, compress: Any,
             max_iterations: Any) -> tuple[str, ...]:
    """Refuse arguments of other types and values than they must have; returns the names of the state variables."""
    if state.__class__ is not tuple:
        raise TypeError(f"{_FUNCTION}(): 'state' must be a tuple, found {describe(state)}.")
    for name, value in (("cond", cond), ("body", body)):
        if not callable(value):
            raise TypeError(f"{_FUNCTION}(): '{name}' must be callable, found {describe(value)}.")
    if mode is not None and not (isinstance(mode, str) and mode in ("scalar", "symbolic", "evaluated")):
        raise ArgumentError(f"{_FUNCTION}(): 'mode' must be 'scalar', 'symbolic', 'evaluated' or None, found {mode!r}.")
    if strict.__class__ is not bool:
        raise TypeError(f"{_FUNCTION}(): 'strict' must be a bool, found {describe(strict)} ({strict!r}).")
    if compress is not None and compress.__class__ is not bool:
        raise TypeError(f"{_FUNCTION}(): 'compress' must be a bool or None, found {describe(compress)} ({compress!r}).")
    if max_iterations is not None:
        require_integer(_FUNCTION, "max_iterations", max_iterations)
    if label is not None and not isinstance(label, str):
        raise TypeError(f"{_FUNCTION}(): 'label' must be a str or None, found {describe(label)} ({label!r}).")
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise TypeError(f"{_FUNCTION}(): 'labels' must be a sequence of strings, one for each state variable, found "
                        f"{describe(labels)} ({labels!r}).")
    if not labels:
        return tuple([f"state[{k}]" for k in range(len(state))])
    for k, entry in enumerate(labels):
        if not isinstance(entry, str):
            raise TypeError(f"{_FUNCTION}(): 'labels[{k}]' must be a str, found {describe(entry)} ({entry!r}).")
    if len(labels) != len(state):
        raise ArgumentError(f"{_FUNCTION}(): 'labels' has {len(labels)} entr{'y' if len(labels) == 1 else 'ies'} for "
                            f"{len(state)} state variable{'s' * (len(state) != 1)}.")
    return tuple(labels)


def _run(state: Any, cond: Callable[..., Any], body: Callable[..., Any], names: Sequence[str], label: str | None,
         mode: str | None, strict: bool) -> Any:
    nodes, leaves, spec = flatten_nodes(state, _FUNCTION)
    if mode is None:
        try:
            test = cond(*_arguments(spec, nodes, leaves))
        except RuntimeError:
            _require_initialized(spec, leaves, names)
            raise
        mode = "scalar" if test.__class__ is bool else \
            "symbolic" if core.flag(JitFlag.SymbolicLoops) else "evaluated"
    if mode == "scalar":
        return _scalar(spec.rebuild(_copies(spec, nodes, leaves)), cond, body)
    _require_initialized(spec, leaves, names)
    if mode == "evaluated":
        return _evaluated(nodes, leaves, spec, cond, body, names)
    return _symbolic(nodes, leaves, spec, cond, body, names, label, strict)


# --- state -----------------------------------------------------------------------------------------------------------


def _copies(spec: TreeSpec, nodes: list[Node], leaves: list[Any]) -> list[Any]:
    """Leaves with arrays of their own, so that in-place changes do not reach those of the caller."""
    found = flatten(spec.rebuild_nodes(nodes, leaves), _FUNCTION)[0]
    return [type(leaf)(leaf) if isinstance(leaf, ArrayBase) and not leaf._dynamic else leaf for leaf in found]


def _arguments(spec: TreeSpec, nodes: list[Node], leaves: list[Any]) -> Any:
    """The state as the functions get it: containers and arrays of their own."""
    if any(isinstance(leaf, ArrayBase) and not leaf._dynamic for leaf in leaves):
        return spec.rebuild(_copies(spec, nodes, leaves))
    return spec.rebuild_nodes(nodes, leaves)


def _require_initialized(spec: TreeSpec, leaves: list[Any], names: Sequence[str]) -> None:
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, ArrayBase) and leaf._dynamic and not min([node.size for node in leaf._nodes()], default=0):
            raise ArgumentError(f"{_FUNCTION}(): the state variable '{spec.paths(names)[position]}' of type "
                                f"{leaf._name} is empty; it must be initialized before the loop.") from None


def _tuple(result: Any, count: int) -> tuple[Any, ...]:
    """What the body returned: as many state variables as there are."""
    if result.__class__ is not tuple:
        if count == 1 and result is not None:
            return (result,)
        raise TypeError(f"{_FUNCTION}(): 'body' must return a tuple of {count} state variable{'s' * (count != 1)}, "
                        f"found {describe(result)}.")
    if len(result) != count:
        raise ArgumentError(f"{_FUNCTION}(): 'body' must return {count} state variables, found {len(result)}.")
    return result


def _flattened(result: Any, before: TreeSpec, names: Sequence[str]) -> tuple[list[Node], list[Any]]:
    """Nodes and leaves of what the body returned, if that is a state like the one before."""
    result = _tuple(result, len(names))
    nodes, leaves, spec = flatten_nodes(result, _FUNCTION)
    if spec == before:
        return nodes, leaves
    difference = before.difference(spec, names)
    if difference is not None:
        place, what, first, second = difference
        advice = " Convert it in the body, or begin with what it becomes." if what == "type" else ""
        raise ArgumentError(f"{_FUNCTION}(): the body of this loop changed the {what} of the state variable '{place}' "
                            f"from {first} to {second}.{advice}")
    # the same up to the order of the keys of dictionaries
    nodes, leaves, _ = flatten_nodes(before.rebuild(before.aligned(spec, leaves)), _FUNCTION)
    return nodes, leaves


def _condition(value: Any) -> Node:
    if isinstance(value, ArrayBase) and value._kind == "b" and value._depth <= 0 and value._dynamic:
        return value._nodes()[0]
    if value.__class__ is bool:
        raise TypeError(f"{_FUNCTION}(): 'cond' must return a one-dimensional mask array, found bool: that makes a "
                        "Python loop, which is mode='scalar'.")
    raise TypeError(f"{_FUNCTION}(): 'cond' must return a one-dimensional mask array or a bool, found "
                    f"{describe(value)}.")


def _require_sizes(before: Sequence[Node], after: Sequence[Node], spec: TreeSpec, names: Sequence[str]) -> None:
    """Refuse state variables that the body made wider or narrower than they were, but for broadcasts."""
    for position, (old, new) in enumerate(zip(before, after, strict=True)):
        if new.size not in (1, old.size) and (old.size != 1 or not new.size):
            raise _changed_size(old, new, spec.node_paths(names)[position])


def _changed_size(old: Node, new: Node, name: str) -> SizeError:
    return SizeError(f"{_FUNCTION}(): the body of this loop changed the size of the state variable '{name}' from "
                     f"{old.size} to {new.size}.")


def _require_common_size(nodes: Sequence[Node], state: Sequence[Node], spec: TreeSpec, names: Sequence[str]) -> None:
    """Refuse state variables, some of the state, whose sizes do not go together."""
    wide: Node | None = None
    for node in nodes:
        if node.size != 1:
            if wide is None:
                wide = node
            elif node.size != wide.size:
                paths = spec.node_paths(names)
                first, second = (paths[list(state).index(entry)] for entry in (wide, node))
                raise SizeError(f"{_FUNCTION}(): the state variables '{first}' and '{second}' have incompatible "
                                f"sizes! (sizes: {wide.size}, {node.size})")


# --- the three modes -------------------------------------------------------------------------------------------------


def _scalar(state: Any, cond: Callable[..., Any], body: Callable[..., Any]) -> Any:
    while cond(*state):
        state = _tuple(body(*state), len(state))
    return state


class _Captured(NamedTuple):
    """A component of an array from outside that the body of a symbolic loop writes to by index."""

    array: ArrayBase
    position: int  # of the component
    initial: Node


class _Again(Exception):
    """The body writes to arrays from outside: it must be traced with them as further variables."""

    def __init__(self, captured: list[_Captured]) -> None:
        super().__init__("the body writes to arrays from outside")
        self.captured = captured


def _symbolic(nodes: list[Node], leaves: list[Any], spec: TreeSpec, cond: Callable[..., Any],
              body: Callable[..., Any], names: Sequence[str], label: str | None, strict: bool) -> Any:
    around = innermost_journal()
    captured = [] if around is None else _captured_earlier(around)
    inner: list[Any] = []
    while True:
        journal = Journal()
        journal.inner = inner
        try:
            results, final = _traced(nodes, leaves, spec, cond, body, names, label, strict, captured, journal)
        except _Again as request:
            captured, inner = request.captured, journal.inner
            continue
        except SymbolicValue:
            wide = _widened(nodes, leaves) if journal.narrow else nodes
            if wide == nodes:
                raise
            nodes = wide
            continue
        break
    if around is not None:
        around.inner.append([(weakref.ref(entry.array), entry.position) for entry in captured])
    state = spec.rebuild_nodes(results[:len(nodes)], final)
    for (array, position, initial), result in zip(captured, results[len(nodes):], strict=True):
        if result is not initial:
            store_written(array, [result], position)
    return state


def _captured_earlier(around: Journal) -> list[_Captured]:
    """What this loop wrote to when the body around it was traced before: otherwise each level would double the traces.
    """
    number = len(around.inner)
    if number >= len(around.earlier):
        return []
    found = []
    for reference, position in around.earlier[number]:
        array = reference()
        if array is not None:
            node = array._nodes()[position]
            # an array of an earlier trace lives on as long as an exception that was raised in it is kept
            if core.is_version(node) and node.scope in core.state.open:
                found.append(_Captured(array, position, node))
    return found


def _traced(nodes: list[Node], leaves: list[Any], spec: TreeSpec, cond: Callable[..., Any], body: Callable[..., Any],
            names: Sequence[str], label: str | None, strict: bool, captured: list[_Captured],
            journal: Journal) -> tuple[list[Node], list[Any]]:
    """Nodes and leaves of the state after a loop, and the nodes of the arrays that it writes to."""
    tensors = any(isinstance(leaf, ArrayBase) and leaf._depth < 0 for leaf in leaves)
    count, final = len(nodes), leaves

    def run_condition(variables: list[Node]) -> Node:
        journal.begin()  # the loop may be traced again
        for (array, position, _), formal in zip(captured, variables[count:], strict=True):
            store(array, [formal], position)
        return _condition(cond(*_arguments(spec, variables[:count], leaves)))

    def run_body(variables: list[Node]) -> list[Node]:
        nonlocal final
        before = _arguments(spec, variables[:count], leaves)
        # a tensor of one element has as many as the loop is wide
        inside = flatten(before, _FUNCTION)[1] if tensors else spec
        results, final = _flattened(body(*before), inside, names)
        _require_sizes(variables[:count], results, spec, names)
        changed = [new for old, new in zip(variables, results, strict=False)
                   if new is not old and not core.is_version(new)]
        _require_common_size(changed, results, spec, names)
        if strict:
            _require_unchanged(leaves, final, spec, names)
        # arrays of the state are rebuilt: what the body returned need not live on
        final = [old if isinstance(old, ArrayBase) and old._dynamic else new
                 for old, new in zip(leaves, final, strict=True)]
        del before
        _require_no_leftovers(journal, captured, variables[count:], (cond, body))
        return results + [array._nodes()[position] for array, position, _ in captured]

    def name_of(position: int) -> str:
        if position < count:
            return spec.node_paths(names)[position]
        return _name_in_program(captured[position - count].array, (cond, body))

    with journal:
        try:
            results = core.while_loop([*nodes, *(entry.initial for entry in captured)], run_condition, run_body, label,
                                      name_of, count, together=True)
        except IncompatibleSizes as error:
            if user_part(error) is not None:
                raise
            _require_common_size(nodes, nodes, spec, names)
            widths = list(dict.fromkeys(size for size in error.sizes if size != 1))
            raise SizeError(
                f"{_FUNCTION}(): the state, and what the body of this symbolic loop computes and writes by index, have "
                f"incompatible sizes! (sizes: {', '.join(map(str, widths))}) All of it must be as wide as the loop; "
                "run the loop with mode='evaluated' otherwise.") from None
    return results, final


def _widened(nodes: list[Node], leaves: list[Any]) -> list[Node]:
    """The nodes of a state, in which the components of an array are as large as each other."""
    found, start = nodes.copy(), 0
    for leaf in leaves:
        if isinstance(leaf, ArrayBase) and leaf._dynamic:
            count = len(leaf._nodes())
            width = max([node.size for node in nodes[start:start + count]], default=0)
            found[start:start + count] = [node if node.scope else broadcast(node, width)
                                          for node in nodes[start:start + count]]
            start += count
    return found


def _require_no_leftovers(journal: Journal, captured: list[_Captured], formals: Sequence[Node],
                          functions: Sequence[Callable[..., Any]]) -> None:
    """Refuse changes of arrays from outside that are no writes by index; ask for another trace because of such writes.

    Arrays of the body's own may change as they like; but to write by index to them needs memory that each lane has for
    itself.
    """
    region = core.innermost()
    assert region is not None
    holders = _Holders(functions)
    known = {(id(entry.array), entry.position) for entry in captured}
    found: list[_Captured] = []
    for array, before in journal.entries.values():
        for position, (old, new) in enumerate(zip(before, array._nodes(), strict=True)):
            if new is old or old.scope == region.id or (id(array), position) in known:
                continue
            origin = core.written_outside(new)
            if origin is None and not holders.keep(array):
                continue
            if origin is None:
                raise SymbolicValue(
                    f"{_FUNCTION}(): the body of this symbolic loop changes {_name_in_program(array, functions)}, "
                    "which was made outside, as a whole. Elements of it may be written by drjit.scatter(); to give it "
                    "new values, make it a state variable: pass it in 'state' and return it from the body, or run the "
                    "loop with mode='evaluated'.")
            if not holders.keep(array):
                raise _own_memory(array)
            found.append(_Captured(array, position, origin))
    for owner, values in journal.attributes.values():
        if not any(isinstance(value, ArrayBase) and any(node.scope == region.id for node in value._nodes())
                   for value in values.values()) and holders.keep(owner):
            raise SymbolicValue(
                f"{_FUNCTION}(): the body of this symbolic loop changes {_name_in_program(owner, functions)}, which "
                "was made outside. Make it a state variable: pass it in 'state' and return it from the body, or run "
                "the loop with mode='evaluated'.")
    if found:
        for entry, formal in zip(captured, formals, strict=True):
            if entry.array._nodes()[entry.position] is formal:  # the last trace wrote to it, this one to another array
                raise _own_memory(entry.array)
        raise _Again([*captured, *found])


#: References to an array in :meth:`_Holders.keep` that the journal and its reader hold.
_JOURNALED = 4


class _Holders:
    """Who holds an array, or another object, that the body of a loop has changed.

    Cycles can hold what nobody uses any more; to find them costs as much as all objects of the program, so that it is
    done once at most, and not for what the loop's functions can be seen to use.
    """

    __slots__ = ("collected", "functions")

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        self.functions = functions
        self.collected = False

    def keep(self, array: Any) -> bool:
        """Whether anybody but the journal holds an array."""
        if sys.getrefcount(array) <= _JOURNALED:
            return False
        if self.collected or _place(array, self.functions) is not None:
            return True
        gc.collect()
        self.collected = True
        return sys.getrefcount(array) > _JOURNALED


def _own_memory(array: ArrayBase) -> SymbolicValue:
    return SymbolicValue(
        f"{_FUNCTION}(): the body of this symbolic loop writes by index to an array of type {array._name} that it has "
        "made itself, of which there is one for all elements. Make it before the loop, or run the loop with "
        "mode='evaluated'.")


def _name_in_program(array: Any, functions: Sequence[Callable[..., Any]]) -> str:
    """An array, or another object, as the user knows it: by the name of a variable that the functions use."""
    word = "array" if isinstance(array, ArrayBase) else "object"
    place = _place(array, functions)
    return f"an {word} of type {getattr(array, '_name', type(array).__name__)}" if place is None else \
        f"the {word} '{place}'"


def _place(sought: Any, functions: Sequence[Callable[..., Any]]) -> str | None:
    """The name of a variable, or of a part of it, in which functions, or those that they call, find an object."""
    queue = list(functions)  # and what those call
    for function in itertools.islice(_growing(queue), _FUNCTIONS_SEARCHED):
        method, function = function, getattr(function, "__func__", function)
        code = getattr(function, "__code__", None)
        if code is None:
            continue
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        variables = {name: cell.cell_contents for name, cell in cells if cell != _EMPTY_CELL}
        queue += [value for value in variables.values() if hasattr(value, "__code__")]
        if method is not function:
            variables[code.co_varnames[0]] = method.__self__
        variables |= {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
        for name, value in variables.items():
            if value is sought:
                return str(name)
            if value.__class__ in _CONTAINERS:
                if len(value) <= _ENTRIES_SEARCHED:
                    for key, entry in list(value.items() if value.__class__ is dict else enumerate(value)):
                        if entry is sought:
                            return f"{name}[{key!r}]"
                continue
            attributes = getattr(value, "__dict__", {})
            for attribute in code.co_names:
                if attributes.get(attribute) is sought:
                    return f"{name}.{attribute}"
                if attribute not in attributes and not isinstance(value, ArrayBase):
                    method = _method(type(value), attribute)
                    if method is not None:
                        queue.append(MethodType(method, value))
    return None


def _method(kind: type, name: str) -> FunctionType | None:
    """A method of a class that is written in Python."""
    for base in kind.__mro__:
        found = base.__dict__.get(name)
        if found is not None:
            return found if found.__class__ is FunctionType else None
    return None


def _growing(queue: list[Any]) -> Iterator[Any]:
    """The entries of a list that grows meanwhile."""
    position = 0
    while position < len(queue):
        yield queue[position]
        position += 1


#: So many functions, of those that a loop's functions call, are searched for the name of an array.
_FUNCTIONS_SEARCHED = 16
#: Lists, tuples and dictionaries of more entries are not looked through.
_ENTRIES_SEARCHED = 256
_EMPTY_CELL = CellType()
_CONTAINERS = (list, tuple, dict)


def _require_unchanged(before: list[Any], after: list[Any], spec: TreeSpec, names: Sequence[str]) -> None:
    """Refuse changes of what symbolic loops do not track."""
    for position, (old, new) in enumerate(zip(before, after, strict=True)):
        if old is new or isinstance(old, ArrayBase) and old._dynamic or _equal(old, new):
            continue
        raise ArgumentError(
            f"{_FUNCTION}(): the body of this loop changed the state variable '{spec.paths(names)[position]}' of type "
            f"{describe(old)} from {old!r} to {new!r}. Symbolic loops do not track Python objects: use a Dr.Jit array "
            "instead, or pass strict=False.")


def _equal(old: Any, new: Any) -> bool:
    """Whether two objects other than traced arrays are known to be equal."""
    if isinstance(old, ArrayBase):
        return [node.payload for node in old._nodes()] == [node.payload for node in new._nodes()]
    try:
        return bool(old == new)
    except Exception:  # of objects that hold symbolic arrays, or several elements
        return False


def _evaluated(nodes: list[Node], leaves: list[Any], spec: TreeSpec, cond: Callable[..., Any],
               body: Callable[..., Any], names: Sequence[str]) -> Any:
    active: Node | None = None
    tensors = any(isinstance(leaf, ArrayBase) and leaf._depth < 0 for leaf in leaves)
    while True:
        core.evaluate(nodes)
        test = _condition(cond(*_arguments(spec, nodes, leaves)))
        active = test if active is None else ops.and_(active, test)
        if not active.size or not core.read_element(core.reduce(active, core.ReduceOp.Or.value), 0):
            return spec.rebuild_nodes(nodes, leaves)
        core.evaluate((active,))
        before = _arguments(spec, nodes, leaves)
        with masked_access(active):
            results, leaves = _flattened(body(*before), spec, names)
            nodes = [_blended(active, position, old, new, spec, names)
                     for position, (old, new) in enumerate(zip(nodes, results, strict=True))]
        del before, results  # they hold what scatters of the next iteration could otherwise write to in place
        if tensors:  # those of one element may have become wider
            spec = flatten(spec.rebuild_nodes(nodes, leaves), _FUNCTION)[1]


def _blended(active: Node, position: int, old: Node, new: Node, spec: TreeSpec, names: Sequence[str]) -> Node:
    """The new value of a state variable where its elements are active, the old one elsewhere."""
    if new is old or written_from(new, old):
        return new
    if new.size not in (1, old.size) and (old.size != 1 or not new.size):
        raise _changed_size(old, new, spec.node_paths(names)[position])
    try:
        return ops.select(active, new, old)  # type: ignore[no-any-return]
    except IncompatibleSizes as error:
        raise SizeError(f"{_FUNCTION}(): the state variable '{spec.node_paths(names)[position]}' has a size that does "
                        f"not go with that of the condition! (sizes: {error.sizes[-1]}, {active.size})") from None
