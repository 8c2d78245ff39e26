"""Loops over arrays: ``dr.while_loop``.

In *symbolic* mode the compiler traces the body once, and the loop becomes part of a kernel; in *evaluated* mode each
iteration is a kernel of its own, with ``select`` holding back the elements that have finished; *scalar* mode is a plain
Python loop.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal

import drjit_core as core
from drjit_core import IncompatibleSizes, JitFlag, Node, SymbolicValue, VarType, ops

from .._access.lanes import masked_access, note_version, with_lanes, written_from
from .._access.store import Buffers, Journal, innermost_journal, store, store_written
from .._base.arguments import require_bool, require_integer, require_label, require_mode
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError, describe, presented, user_part
from .._base.nodes import broadcast
from .._base.typing import Ts
from .._trees.classes import sole_array
from .._trees.pytree import TreeSpec, flatten, flatten_nodes
from .choice import store_arguments
from .frozen import Frozen
from .outside import (
    Again,
    Captured,
    Variables,
    Wider,
    Words,
    captured_earlier,
    journal_of,
    name_in_program,
    require_no_leftovers,
)
from .state import arguments, copies, equal

__all__ = ["loop_of", "while_loop"]

_FUNCTION = "drjit.while_loop"
_WORDS = Words(_FUNCTION, "the body of this symbolic loop",
               "make it a state variable: pass it in 'state' and return it from the body", "loop",
               "run the loop with mode='evaluated'")
_BOOL = VarType.Bool.value


def while_loop(state: tuple[*Ts], cond: Callable[[*Ts], ArrayBase | bool], body: Callable[[*Ts], tuple[*Ts]],
               labels: Sequence[str] = (), label: str | None = None,
               mode: Literal["scalar", "symbolic", "evaluated"] | None = None, strict: bool = True,
               compress: bool | None = None, max_iterations: int | None = None) -> tuple[*Ts]:
    """Repeat ``state = body(*state)`` for every element for which ``cond(*state)`` holds; returns the final state.

    ``state`` is a tuple of arrays, PyTrees of arrays, and other objects (which are passed on, but not tracked in
    symbolic mode). ``cond`` returns a mask, or a ``bool`` for a plain Python loop; it must be free of side effects.
    ``body`` returns state of the same structure and types. ``mode`` is ``'scalar'``, ``'symbolic'``, ``'evaluated'`` or
    ``None``, which decides by the type of the condition and ``JitFlag.SymbolicLoops``. ``labels`` name the entries of
    the state in messages. ``strict`` refuses changes of Python objects in symbolic mode. ``compress`` is a hint that
    does not change the result.

    Symbolic loops are traced once, become part of a kernel, and evaluate nothing; evaluated ones evaluate the state
    once for each iteration. ``body`` may write by index (``dr.scatter``, ``x[i] = value`` …) to arrays of the state and
    to others, which happens for the elements that are still in the loop; arrays of the state are copies. In symbolic
    loops each of them writes one value at a time, what is written can only be read by index, and other changes of
    arrays that are no state (``x += 1``) raise a ``RuntimeError``; so does a write to an array that ``body`` has made
    itself. If something raises in a symbolic loop, all arrays are as they were before. Raises a ``TypeError`` if the
    body changes the structure or a type of the state; what ``cond`` and ``body`` raise is passed on.

    Differentiable. A symbolic loop that writes what is differentiated by index has no derivative of its own: it is run
    in evaluated mode instead, together with the symbolic constructs around it. ``body`` is traced again when
    derivatives are computed, with the variables that it referred to the first time. Reverse mode keeps the state of
    each iteration, unless the body does nothing with what is differentiated but to add to it: for ``max_iterations`` of
    them, for as many as the condition allows if it counts (``i < 48``), or else for as many as there are, which an
    evaluation finds out. Gradients of elements that take more than ``max_iterations`` are NaN, and a ``RuntimeError``
    says so the next time that the program waits for a result. Within loops, branches and calls, a loop without a bound
    computes its state again for each iteration.

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
        return _run(state, cond, body, names, label, mode, strict, max_iterations)  # type: ignore[no-any-return]
    except Exception as error:
        raise presented(error, _FUNCTION)  # noqa: B904


def loop_of(state: tuple[Any, ...], cond: Callable[..., Any], body: Callable[..., Any], labels: Sequence[str] = (),
            label: str | None = None, mode: str | None = None, strict: bool = True, compress: bool | None = None,
            max_iterations: int | None = None) -> tuple[Any, ...]:
    """``while_loop``, whose writes by index to the state reach the caller's arrays, as those of a Python loop do."""
    names = _checked(state, cond, body, labels, label, mode, strict, compress, max_iterations)
    try:
        return _run(state, cond, body, names, label, mode, strict, max_iterations,  # type: ignore[no-any-return]
                    through=True)
    except Exception as error:
        raise presented(error, _FUNCTION)  # noqa: B904


def _checked(state: Any, cond: Any, body: Any, labels: Any, label: Any, mode: Any, strict: Any, compress: Any,
             max_iterations: Any) -> tuple[str, ...]:
    """Refuse arguments of other types and values than they must have; returns the names of the state variables."""
    if state.__class__ is not tuple:
        raise TypeError(f"{_FUNCTION}(): 'state' must be a tuple, found {describe(state)}.")
    for name, value in (("cond", cond), ("body", body)):
        if not callable(value):
            raise TypeError(f"{_FUNCTION}(): '{name}' must be callable, found {describe(value)}.")
    require_mode(_FUNCTION, mode)
    require_bool(_FUNCTION, "strict", strict)
    if compress is not None and compress.__class__ is not bool:
        raise TypeError(f"{_FUNCTION}(): 'compress' must be a bool or None, found {describe(compress)} ({compress!r}).")
    if max_iterations is not None:
        require_integer(_FUNCTION, "max_iterations", max_iterations)
    require_label(_FUNCTION, label)
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
         mode: str | None, strict: bool, max_iterations: int | None, *, through: bool = False) -> Any:
    nodes, leaves, spec = flatten_nodes(state, _FUNCTION)
    if max_iterations is not None and max_iterations < 0:  # which says that there is no bound, as None does
        max_iterations = None
    if mode is None:
        try:
            test = cond(*arguments(_FUNCTION, spec, nodes, leaves))
        except RuntimeError:
            _require_initialized(spec, leaves, names)
            raise
        mode = "scalar" if test.__class__ is bool else \
            "symbolic" if core.flag(JitFlag.SymbolicLoops) else "evaluated"
    if mode == "scalar":
        return _scalar(spec.rebuild(copies(_FUNCTION, spec, nodes, leaves)), cond, body)
    _require_initialized(spec, leaves, names)
    if mode == "evaluated":
        return _evaluated(nodes, leaves, spec, cond, body, names, through=through)
    try:
        return _symbolic(nodes, leaves, spec, cond, body, names, label, strict, max_iterations, through=through)
    except core.NoDerivative:  # of writes, for example: iterations have some, one by one
        if core.innermost() is not None:
            raise  # there is a construct around this one, which does likewise
        return _evaluated(nodes, leaves, spec, cond, body, names, through=through)


# --- state -----------------------------------------------------------------------------------------------------------


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
    value = sole_array(value)
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


def _symbolic(nodes: list[Node], leaves: list[Any], spec: TreeSpec, cond: Callable[..., Any],
              body: Callable[..., Any], names: Sequence[str], label: str | None, strict: bool,
              max_iterations: int | None, *, through: bool) -> Any:
    around = innermost_journal()
    captured = [] if around is None else captured_earlier(around)
    inner: list[Any] = []
    buffers = Buffers() if around is None else around.buffers
    while True:
        journal = journal_of(around, buffers)
        journal.inner = inner
        try:
            results, final = _traced(nodes, leaves, spec, cond, body, names, label, strict, captured, journal,
                                     max_iterations)
        except Again as request:
            captured, inner = request.captured, journal.inner
            continue
        except Wider as request:
            if around is not None:
                raise
            request.widen()
            captured, inner = [], []
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
    for node, result in zip(nodes, results, strict=False):
        if core.is_version(core.primal(result)):
            note_version(result, node)
    state = spec.rebuild_nodes(results[:len(nodes)], final)
    if through:
        store_arguments(leaves, nodes, [result if core.is_version(core.primal(result)) else node
                                        for node, result in zip(nodes, results, strict=False)])
    for (array, position, initial, _), result in zip(captured, results[len(nodes):], strict=True):
        if result is not initial and (around is not None or not buffers.own(array)):
            before = array._nodes()[position]
            store_written(array, [result], position)
            note_version(result, before)
    return state


def _traced(nodes: list[Node], leaves: list[Any], spec: TreeSpec, cond: Callable[..., Any], body: Callable[..., Any],
            names: Sequence[str], label: str | None, strict: bool, captured: list[Captured],
            journal: Journal, max_iterations: int | None) -> tuple[list[Node], list[Any]]:
    """Nodes and leaves of the state after a loop, and the nodes of the arrays that it writes to."""
    tensors = any(isinstance(leaf, ArrayBase) and leaf._depth < 0 for leaf in leaves)
    count, final = len(nodes), leaves
    frozen: Frozen | None = None

    def begin(variables: list[Node]) -> None:
        if frozen is not None:
            frozen.require_unchanged()
        journal.begin()  # the loop may be traced again
        for (array, position, *_), formal in zip(captured, variables[count:], strict=True):
            store(array, [formal], position)

    def run_condition(variables: list[Node]) -> Node:
        if frozen is not None:  # for a derivative, which may trace one of the two alone
            with journal:
                begin(variables)
                return test_of(variables)
        begin(variables)
        return test_of(variables)

    def test_of(variables: list[Node]) -> Node:
        test = _condition(cond(*arguments(_FUNCTION, spec, variables[:count], leaves)))
        return with_lanes(test, test.size)

    def run_body(variables: list[Node]) -> list[Node]:
        if frozen is not None:
            with journal:
                begin(variables)
                return next_of(variables)
        return next_of(variables)

    def next_of(variables: list[Node]) -> list[Node]:
        nonlocal final
        before = arguments(_FUNCTION, spec, variables[:count], leaves)
        # a tensor of one element has as many as the loop is wide
        inside = flatten(before, _FUNCTION)[1] if tensors else spec
        variables_before = Variables((body,))
        results, final = _flattened(body(*before), inside, names)
        variables_before.require_same(_WORDS)
        _require_sizes(variables[:count], results, spec, names)
        changed = [new for old, new in zip(variables, results, strict=False)
                   if new is not old and not core.is_version(core.primal(new))]
        _require_common_size(changed, results, spec, names)
        if strict:
            _require_unchanged(leaves, final, spec, names)
        # arrays of the state are rebuilt: what the body returned need not live on
        final = [old if isinstance(old, ArrayBase) and old._dynamic else new
                 for old, new in zip(leaves, final, strict=True)]
        del before
        require_no_leftovers(_WORDS, journal, captured, variables[count:], (cond, body))
        return results + [array._nodes()[position] for array, position, *_ in captured]

    def name_of(position: int) -> str:
        if position < count:
            return spec.node_paths(names)[position]
        return name_in_program(captured[position - count].array, (cond, body))

    with journal:
        try:
            results = core.repeat([*nodes, *(entry.initial for entry in captured)], run_condition, run_body, label,
                                  name_of, count, max_iterations, _longest)
        except IncompatibleSizes as error:
            if user_part(error) is not None:
                raise
            _require_common_size(nodes, nodes, spec, names)
            widths = list(dict.fromkeys(size for size in error.sizes if size != 1))
            raise SizeError(
                f"{_FUNCTION}(): the state, and what the body of this symbolic loop computes and writes by index, have "
                f"incompatible sizes! (sizes: {', '.join(map(str, widths))}) All of it must be as wide as the loop; "
                "run the loop with mode='evaluated' otherwise.") from None
    if any(core.tracked(node) is not None for node in results):
        frozen = Frozen(_FUNCTION, (cond, body), [entry.array for entry in captured])
        cond, body = frozen.functions
    return results, final


def _longest(numbers: Node, others: list[Node]) -> int:
    """The largest number of iterations; evaluates them, and others that the same loop computes."""
    if not numbers.size:
        return 0
    most = core.reduce(numbers, core.ReduceOp.Max.value)
    core.evaluate([most, *others])
    return int(core.read_element(most, 0))


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


def _require_unchanged(before: list[Any], after: list[Any], spec: TreeSpec, names: Sequence[str]) -> None:
    """Refuse changes of what symbolic loops do not track."""
    for position, (old, new) in enumerate(zip(before, after, strict=True)):
        if old is new or isinstance(old, ArrayBase) and old._dynamic or equal(old, new):
            continue
        raise ArgumentError(
            f"{_FUNCTION}(): the body of this loop changed the state variable '{spec.paths(names)[position]}' of type "
            f"{describe(old)} from {old!r} to {new!r}. Symbolic loops do not track Python objects: use a Dr.Jit array "
            "instead, or pass strict=False.")


def _evaluated(nodes: list[Node], leaves: list[Any], spec: TreeSpec, cond: Callable[..., Any],
               body: Callable[..., Any], names: Sequence[str], *, through: bool) -> Any:
    active: Node | None = None
    originals, written = leaves, [True] * len(nodes)  # what is changed by nothing but writes by index
    first = nodes
    tensors = any(isinstance(leaf, ArrayBase) and leaf._depth < 0 for leaf in leaves)
    while True:
        core.evaluate(nodes)
        test = _condition(cond(*arguments(_FUNCTION, spec, nodes, leaves)))
        active = with_lanes(test, test.size) if active is None else ops.and_(active, test)
        if not active.size or not core.read_element(core.reduce(active, core.ReduceOp.Or.value), 0):
            if through:
                store_arguments(originals, first, [node if only else before for node, only, before
                                                   in zip(nodes, written, first, strict=True)])
            return spec.rebuild_nodes(nodes, leaves)
        core.evaluate((active,))
        before = arguments(_FUNCTION, spec, nodes, leaves)
        with masked_access(active):
            results, leaves = _flattened(body(*before), spec, names)
            written = [only and (new is old or written_from(new, old))
                       for only, old, new in zip(written, nodes, results, strict=True)]
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
