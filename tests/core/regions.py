"""Random programs on nodes with loops, branches, calls, reads and writes nested in each other.

A program is a tree of steps.  A step is a kind and some numbers between 0 and 1, which choose its operands among what
is there when it is traced: any part of a program may be left out, and what remains is a program as well, so that
failures can be made small (:func:`smaller`).

Programs do what is specified only.  Outside of loops, plain writes go to distinct elements.  A loop treats memory that
it writes to in one of two ways: each lane reads and writes elements of its own, or all lanes update any elements by one
commutative operation on integers, and nothing is read before the loop has ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from drjit_core import (
    BINARY,
    ELEMENTWISE,
    TERNARY,
    TYPES,
    UNARY,
    Node,
    ReduceMode,
    ReduceOp,
    SymbolicValue,
    atomic,
    bitcast,
    call,
    cast,
    cond,
    counter,
    evaluate,
    gather,
    literal,
    ops,
    reduce,
    scatter,
    undefined,
    while_loop,
)
from drjit_core.codegen.program import Program as Kernel
from drjit_core.codegen.program import assemble
from drjit_core.ir.node import forget
from drjit_core.ir.trace import opaque as opaque_node
from drjit_core.ops.table import INVALID, LITERAL
from drjit_core.passes.schedule import plan
from drjit_core.runtime.cpu.target import CPU_TARGET
from tests.core.harness import ALL_TYPES, BOOL, FLOATS, INT32, INTEGERS, TRUE, UINT32, UINT64, array, name_of, shared
from tests.ops.samples import samples

__all__ = ["Program", "Step", "generate", "kernels_of", "minimised", "nearly", "smaller", "trace",
           "trace_unless_refused"]

_TRACE: dict[int, Callable[..., Node]] = {**UNARY, **BINARY, **TERNARY}
_DRAWS = 6
SIZES = (1, 2, 15, 16, 17, 100, 1000)
_COMMUTATIVE = [op.value for op in (ReduceOp.Add, ReduceOp.Mul, ReduceOp.Min, ReduceOp.Max, ReduceOp.And, ReduceOp.Or)]
_MODES = [mode.value for mode in (ReduceMode.Auto, ReduceMode.Direct, ReduceMode.Local, ReduceMode.Expand)]
_MODES_WITHOUT_CONFLICTS = [*_MODES, ReduceMode.NoConflicts.value]
_CONTROL = ("loop", "cond", "call")
_DEPTH = 3


class Step(NamedTuple):
    """One operation; or a loop, with the steps of its condition and its body; or a branch or a call, with those of two
    functions."""

    kind: str
    draws: tuple[float, ...]
    condition: tuple[Step, ...] = ()
    body: tuple[Step, ...] = ()

    def lines(self, indent: str = "  ") -> Iterator[str]:
        yield f"{indent}{self.kind} {' '.join(f'{draw:.2f}' for draw in self.draws)}"
        names = ("condition", "body") if self.kind == "loop" else ("one", "other")
        for part, steps in zip(names, (self.condition, self.body), strict=True):
            if steps:
                yield f"{indent}  {part}"
                for step in steps:
                    yield from step.lines(indent + "    ")


class Program(NamedTuple):
    """Steps, and what they are about."""

    seed: int
    sizes: tuple[int, ...]  # widths of values: the first one is the usual one
    memories: tuple[tuple[int, int, str], ...]  # type, size, and how it comes into being
    types: tuple[int, ...]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        memories = ", ".join(f"{name_of(type_)}[{size}] {origin}" for type_, size, origin in self.memories)
        return "\n".join([f"seed {self.seed}, sizes {self.sizes}, types {', '.join(map(name_of, self.types))}",
                          f"memory: {memories}", *(line for step in self.steps for line in step.lines())])


# --- generation ------------------------------------------------------------------------------------------------------

_EVERYWHERE = {"op": 24, "cast": 5, "bitcast": 2, "select": 5, "gather": 16, "literal": 2, "lane": 2, "mask": 4}
_OUTSIDE = {"reduce": 4, "scatter": 24, "keep": 4, "version": 6, "opaque": 2, "input": 2,
            "loop": 16, "cond": 6, "call": 6, "evaluate": 4}
_INSIDE = {"scatter": 20, "loop": 6, "cond": 4, "call": 4, "state": 16}


#: Memory that is never accessed.
_NOWHERE = SimpleNamespace(backend=SimpleNamespace(heap=None), address=0, nbytes=1 << 40, padded=True, read_only=False,
                           ticket=0)


def kernels_of(roots: Sequence[Node]) -> Iterator[Kernel]:
    """The kernels that would evaluate nodes, each left as if it had run: what it computes is in memory that is never
    accessed, and the same traced again is another node.  Literals are not evaluated, as elsewhere: all hold them."""
    for kernel in plan([root for root in roots if root.kind != LITERAL], CPU_TARGET):
        yield assemble(kernel, CPU_TARGET)
        for node in (*kernel.outputs, *kernel.undefined):
            forget(node)
            node.become_evaluated(_NOWHERE)


def generate(seed: int, length: int | None = None) -> Program:
    """The program of a seed."""
    rng = np.random.default_rng(seed)
    wide = int(rng.choice(SIZES, p=[0.1, 0.1, 0.15, 0.15, 0.2, 0.2, 0.1]))
    sizes = (wide, int(rng.choice(SIZES)), 1)
    types = tuple(int(t) for t in rng.choice(ALL_TYPES, 2)) + (UINT32,)
    origins = ["input", "input", "opaque", "literal", "undefined", "computed", "shared"]
    memories = tuple((int(rng.choice(types + (INT32,))), int(rng.choice([1, 2, wide, wide, 3 * wide, 10, sizes[1]])),
                      str(rng.choice(origins))) for _ in range(rng.integers(1, 4)))
    return Program(seed, sizes, memories, types, _steps(rng, length or int(rng.integers(4, 14)), 0))


def _steps(rng: np.random.Generator, length: int, depth: int, condition: bool = False) -> tuple[Step, ...]:
    weights = {**_EVERYWHERE, **({} if condition else _INSIDE if depth else _OUTSIDE)}
    if depth == _DEPTH:
        weights = {kind: weight for kind, weight in weights.items() if kind not in _CONTROL}
    kinds, total = list(weights), sum(weights.values())
    return tuple(_step(rng, str(rng.choice(kinds, p=[weights[kind] / total for kind in kinds])), depth)
                 for _ in range(length))


def _step(rng: np.random.Generator, kind: str, depth: int) -> Step:
    draws = tuple(rng.random(_DRAWS).tolist())
    if kind not in _CONTROL:
        return Step(kind, draws)
    if kind != "loop":
        return Step(kind, draws, *(_steps(rng, int(rng.integers(1, 5)), depth + 1) for _ in range(2)))
    return Step(kind, draws, _steps(rng, int(rng.integers(0, 3)), depth + 1, condition=True),
                _steps(rng, int(rng.integers(2, 8)), depth + 1))


def nearly(program: Program, rng: np.random.Generator) -> Program:
    """A program in which one step does what it does in another way."""
    return program._replace(steps=_nearly(program.steps, rng))


def _nearly(steps: tuple[Step, ...], rng: np.random.Generator) -> tuple[Step, ...]:
    i = int(rng.integers(len(steps)))
    step = steps[i]
    part = rng.random()
    if step.body and part < 0.7:
        step = step._replace(body=_nearly(step.body, rng))
    elif step.condition and part < 0.85:
        step = step._replace(condition=_nearly(step.condition, rng))
    else:
        k = int(rng.integers(_DRAWS))
        step = step._replace(draws=(*step.draws[:k], float(rng.random()), *step.draws[k + 1:]))
    return (*steps[:i], step, *steps[i + 1:])


def smaller(program: Program) -> Iterator[Program]:
    """Programs with something left out."""
    for steps in _smaller(program.steps):
        yield program._replace(steps=steps)
    for i, size in enumerate(program.sizes):
        for other in (1, 2, 17):
            if other < size:
                yield program._replace(sizes=(*program.sizes[:i], other, *program.sizes[i + 1:]))
    for i, (type_, size, origin) in enumerate(program.memories):
        rest = program.memories[:i], program.memories[i + 1:]
        if len(program.memories) > 1:
            yield program._replace(memories=(*rest[0], *rest[1]))
        if origin != "input":
            yield program._replace(memories=(*rest[0], (type_, size, "input"), *rest[1]))
        if type_ != UINT32:
            yield program._replace(memories=(*rest[0], (UINT32, size, origin), *rest[1]))
    for i, type_ in enumerate(program.types):
        if type_ != UINT32:
            yield program._replace(types=(*program.types[:i], UINT32, *program.types[i + 1:]))


def _smaller(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    if len(steps) > 3:
        yield steps[:len(steps) // 2]
        yield steps[len(steps) // 2:]
    for i, step in enumerate(steps):
        yield (*steps[:i], *steps[i + 1:])
        for condition in _smaller(step.condition):
            yield (*steps[:i], step._replace(condition=condition), *steps[i + 1:])
        for body in _smaller(step.body):
            yield (*steps[:i], step._replace(body=body), *steps[i + 1:])


def minimised(program: Program, fails: Callable[[Program], bool], attempts: int = 600) -> Program:
    """A small program that still fails."""
    found = True
    while found:
        found = False
        for candidate in smaller(program):
            attempts -= 1
            if attempts < 0:
                return program
            if fails(candidate):
                program, found = candidate, True
                break
    return program


# --- tracing ---------------------------------------------------------------------------------------------------------


class _Memory:
    """A variable that is written to: its present version, and how the loops that are open treat it."""

    def __init__(self, node: Node, size: int | None = None) -> None:
        self.node = node
        #: Its number of elements, which a formal that stands for it has only when it turns out to be memory.
        self.size = node.size if size is None else size
        #: By which operation lanes update any of its elements, or ``None``: each lane has elements of its own.
        self.shared: int | None = None

    @property
    def type(self) -> int:
        return self.node.type


class _Scope:
    """What steps can use: outside of loops, or in a body."""

    def __init__(self, program: Program, width: int, values: list[Node], memories: list[_Memory], tables: list[Node],
                 inside: bool) -> None:
        self.program = program
        self.width = width
        self.values = values
        self.memories = memories
        #: Arrays in memory, none of which is written to: also versions that have a successor.
        self.tables = tables
        self.inside = inside
        #: Values of a loop's variables after the steps so far.
        self.state: list[Node] = []

    def fitting(self, width: int) -> list[Node]:
        """Values of a width, and all that depend on a loop, whose width turns out when it has been traced."""
        return [value for value in self.values if value.scope or value.size in (1, width)]

    def pick(self, draw: float, type_: int | None, width: int) -> Node:
        """A value of a type, recent ones more often; if there is none, one is made of another or of a number."""
        found = [value for value in self.fitting(width) if type_ is None or value.type == type_]
        if type_ is not None and (not found or draw > 0.97):
            others = self.fitting(width)
            if draw * 100 % 1 < 0.3 or not others:
                numbers = samples(type_)
                return literal(type_, numbers[int(draw * 1e4) % len(numbers)].item())
            return cast(others[int(draw * 1e4) % len(others)], type_)
        return _recent(found, draw)

    def index(self, draw: float, size: int, width: int) -> Node:
        """Any element of an array, in one of the types of indices."""
        index = ops.mod(self.pick(draw, UINT32, width), literal(UINT32, size))
        return _as_index(index, draw)

    def mask(self, draw: float, width: int) -> Node:
        mask = TRUE if draw < 0.5 else self.pick((draw - 0.5) * 2, BOOL, width)
        # whether a loop writes must not depend on what it has for variables
        return TRUE if mask.kind == LITERAL else mask

    def lane(self, width: int) -> Node:
        return counter(width) if width > 1 else literal(UINT32, 0)


def _recent(found: list[Any], draw: float) -> Any:
    return found[-1 - int(draw * draw * len(found))]


def _as_index(index: Node, draw: float) -> Node:
    return cast(index, (UINT32, UINT32, UINT32, UINT64, INT32)[int(draw * 1e3) % 5])


class Tracer:
    """Traces a program; ``evaluating`` says whether it evaluates what it has at some of the steps that ask for it."""

    def __init__(self, program: Program, evaluating: bool) -> None:
        self.program = program
        self.evaluating = evaluating
        self.roots: list[Node] = []

    def trace(self) -> list[Node]:
        """The results of the program."""
        program, rng = self.program, np.random.default_rng(self.program.seed)
        values = [array(rng.choice(samples(type_), size)) for type_ in program.types for size in program.sizes[:2]]
        values += [array(rng.choice(samples(BOOL), program.sizes[0])),
                   array(rng.integers(0, 5, program.sizes[0]).astype(np.uint32))]
        memories = [_Memory(_origin(*memory, rng)) for memory in program.memories]
        scope = _Scope(program, program.sizes[0], values, memories, [], False)
        del values, memories
        for step in program.steps:
            self.perform(step, scope)
        roots = [*self.roots, *(memory.node for memory in scope.memories)]
        roots += [value for value in scope.values[-8:] if value.kind != INVALID]
        return roots

    def perform(self, step: Step, scope: _Scope) -> None:
        getattr(self, f"_{step.kind}")(scope, *step.draws, *([step] if step.kind in _CONTROL else []))

    def width(self, scope: _Scope, draw: float) -> int:
        """The width of an operation."""
        return scope.width if scope.inside or draw < 0.7 else _recent(list(scope.program.sizes), draw)

    # Each method is a kind of step; ``a`` … ``f`` are its draws.

    def _op(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        width = self.width(scope, f)
        first = scope.pick(a, None, width)
        rows = [op for op in ELEMENTWISE if TYPES[first.type].kind in op.accepts and op.name != "select"]
        row = rows[int(b * len(rows))]
        scope.values.append(_TRACE[row.kind](
            first, *(scope.pick(draw, first.type, width) for draw in (c, d)[:row.arity - 1])))

    def _cast(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        types = scope.program.types
        scope.values.append(cast(scope.pick(a, None, self.width(scope, f)), types[int(b * len(types))]))

    def _bitcast(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        value = scope.pick(a, None, self.width(scope, f))
        same = [t for t in INTEGERS + FLOATS if TYPES[t].size == TYPES[value.type].size]
        if value.type not in [*FLOATS, BOOL]:  # not from floats: the bits of a NaN are nobody's business
            scope.values.append(bitcast(value, same[int(b * len(same))]))

    def _select(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        width = self.width(scope, f)
        value = scope.pick(a, None, width)
        scope.values.append(ops.select(scope.pick(b, BOOL, width), value, scope.pick(c, value.type, width)))

    def _mask(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        width = self.width(scope, f)
        value = scope.pick(a, None, width)
        scope.values.append((ops.lt, ops.neq, ops.ge)[int(c * 3)](value, scope.pick(b, value.type, width)))

    def _literal(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        type_ = scope.program.types[int(a * len(scope.program.types))]
        numbers = samples(type_)
        scope.values.append(literal(type_, numbers[int(b * len(numbers))].item()))

    def _lane(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        scope.values.append(scope.lane(self.width(scope, f)))

    def _input(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        rng = np.random.default_rng(int(a * 1e6))
        type_ = scope.program.types[int(a * len(scope.program.types))]
        scope.values.append(array(rng.choice(samples(type_), self.width(scope, f))))

    def _reduce(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        value = scope.pick(a, None, self.width(scope, f))
        if value.type in FLOATS:
            value = ops.lt(value, literal(value.type, 1))
        allowed = _COMMUTATIVE[-2:] if value.type == BOOL else _COMMUTATIVE
        scope.values.append(reduce(value, allowed[int(b * len(allowed))]))

    def _opaque(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        value = scope.pick(a, None, self.width(scope, f))
        if value.kind != INVALID:
            scope.values.append(opaque_node(value))

    # --- memory ------------------------------------------------------------------------------------------------------

    def _keep(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        """Ask for a version that may be followed by others."""
        self.roots.append(_recent(scope.memories, a).node)

    def _version(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        """Use a version as values, and as a table in loops that may write to its successors."""
        version = _recent(scope.memories, a).node
        (scope.tables if b < 0.5 else scope.values).append(version)

    def _gather(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        width = self.width(scope, f)
        if c < 0.5 and scope.memories:
            memory = _recent(scope.memories, a)
            if not scope.inside:
                source, index, mask = memory.node, scope.index(b, memory.size, width), scope.mask(d, width)
            elif memory.shared is None:
                source = memory.node
                index, mask = _own(scope, memory, b, d)
            else:
                return
        else:
            tables = scope.tables if scope.inside else [*scope.tables, *scope.values]
            if not tables:
                return
            source = _recent(tables, a)
            index, mask = scope.index(b, source.size, width), scope.mask(d, width)
        value = gather(source, index, mask)
        scope.values.append(value)
        if scope.state and e < 0.7:  # many values are used nowhere, and what is read is of interest
            place = int(f * len(scope.state))
            before = scope.state[place]
            scope.state[place] = (ops.xor if before.type not in FLOATS else ops.add)(before, cast(value, before.type))

    def _scatter(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        if not scope.memories:
            return
        memory, width = _recent(scope.memories, a), self.width(scope, f)
        value = scope.pick(b, memory.type, width)
        reductions = [ReduceOp.Identity.value, *_reductions(memory.type, own=True)]
        if not scope.inside:
            op = reductions[int(c * c * len(reductions))]
            if op == ReduceOp.Identity.value or memory.type in FLOATS:
                index, mask = _distinct(scope, memory.size, width, e, scope.mask(d, width))
            else:
                index, mask = scope.index(e, memory.size, width), scope.mask(d, width)
        elif memory.shared is None:
            op = reductions[int(c * c * len(reductions))]
            index, mask = _own(scope, memory, e, d)
        else:
            op = memory.shared
            index, mask = scope.index(e, memory.size, width), scope.mask(d, width)
        modes = _MODES if scope.inside and memory.shared is not None or not scope.inside else _MODES_WITHOUT_CONFLICTS
        mode = modes[int(f * 1e4) % len(modes)]
        if scope.inside and memory.type in FLOATS and mode == ReduceMode.Expand.value:
            mode = ReduceMode.Auto.value  # tables add up what one lane adds several times, and then that
        own = memory.shared is None if scope.inside else memory.type in FLOATS
        if own and op != ReduceOp.Identity.value and c > 0.6:  # what each lane finds does not depend on the others
            found, memory.node = atomic(memory.node, value, index, mask, op, mode)
            scope.values.append(found)
        else:
            memory.node = scatter(memory.node, value, index, mask, op, mode)

    def _evaluate(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        if self.evaluating:
            chosen = [_recent(scope.values, draw) for draw in (a, b)]
            evaluate([*chosen, *([_recent(scope.memories, c).node] if c < 0.7 else [])])

    # --- loops -------------------------------------------------------------------------------------------------------

    def _state(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        """Give a variable of the innermost loop a new value."""
        if scope.state:
            place = int(a * len(scope.state))
            scope.state[place] = scope.pick(b * 0.5, scope.state[place].type, scope.width)

    def chosen(self, scope: _Scope, a: float, b: float) -> list[_Memory]:
        """Memory that a loop, branch or call may write to, and how it does that."""
        chosen = [memory for i, memory in enumerate(scope.memories) if int(a * 64) >> i & 1 or i == 0]
        for memory in chosen:
            if not scope.inside:
                operations = _reductions(memory.type, own=False)
                draw = (b * 7 + 0.3 * memory.size) % 1
                memory.shared = operations[int(draw * 1e3) % len(operations)] if operations and draw < 0.5 else None
        return chosen

    def tables(self, scope: _Scope, chosen: list[_Memory], a: float) -> list[Node]:
        """Memory that is only read, perhaps what was there before the writes."""
        if scope.inside:
            return scope.tables
        return [*scope.tables, *scope.values[-3:], *([memory.node for memory in chosen] if a < 0.3 else [])]

    def _cond(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float, step: Step) -> None:
        self.choose(scope, a, b, c, e, f, (step.condition, step.body),
                    lambda width, arguments, functions: cond(scope.pick(d, BOOL, width), arguments, *functions))

    def _call(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float, step: Step) -> None:
        def trace(width: int, arguments: list[Node], functions: list[Any]) -> tuple[list[Node], dict[int, Node]]:
            index = ops.mod(scope.pick(d, UINT32, width), literal(UINT32, 2 + int(e * 3)))
            return call(index, scope.mask(f, width), functions, arguments)

        self.choose(scope, a, b, c, e, f, (step.condition, step.body, step.body[:1] + step.condition), trace)

    def choose(self, scope: _Scope, a: float, b: float, c: float, e: float, f: float, targets: Sequence[Sequence[Step]],
               trace: Callable[..., tuple[list[Node], dict[int, Node]]]) -> None:
        """Trace a branch or a call."""
        width, values = self.width(scope, a), scope.fitting(self.width(scope, a))
        chosen = self.chosen(scope, b, c)
        tables = self.tables(scope, chosen, a)
        state = [scope.pick(draw, None, width) for draw in (e, f, b)[:1 + int(f * 3)]]
        count = len(state)

        def function(steps: Sequence[Step]) -> Callable[[list[Node]], list[Node]]:
            def traced(s: list[Node]) -> list[Node]:
                inner = _inner(scope, width, values, s, count, chosen, tables)
                for part in steps:
                    self.perform(part, inner)
                return inner.state
            return traced

        results, versions = trace(width, [*state, *(memory.node for memory in chosen)], list(map(function, targets)))
        for position, version in versions.items():
            chosen[position - count].node = version
        scope.values += results

    def _loop(self, scope: _Scope, a: float, b: float, c: float, d: float, e: float, f: float, step: Step) -> None:
        width = self.width(scope, a)
        chosen = self.chosen(scope, b, c)
        tables = self.tables(scope, chosen, a)
        values = scope.fitting(width)
        bound = ops.mod(scope.pick(d, UINT32, width), literal(UINT32, 2 + int(e * 4)))
        state = [literal(UINT32, 0), *(scope.pick(draw, None, width) for draw in (e, f, b)[:1 + int(f * 3)])]
        initial = [*state, *(memory.node for memory in chosen)]
        count = len(state)

        def inner_scope(s: list[Node]) -> _Scope:
            return _inner(scope, width, values, s, count, chosen, tables)

        def condition(s: list[Node]) -> Node:
            inner = inner_scope(s)
            for part in step.condition:
                self.perform(part, inner)
            test: Node = ops.lt(s[0], bound)
            return ops.and_(test, inner.pick(a, BOOL, width)) if step.condition and c < 0.5 else test  # type: ignore[no-any-return]

        def body(s: list[Node]) -> list[Node]:
            inner = inner_scope(s)
            for part in step.body:
                self.perform(part, inner)
            return [ops.add(s[0], literal(UINT32, 1)), *inner.state[1:], *(memory.node for memory in inner.memories)]

        results = while_loop(initial, condition, body)
        for memory, result in zip(chosen, results[count:], strict=True):
            memory.node = result
        scope.values += results[:count]


def _inner(scope: _Scope, width: int, values: list[Node], s: list[Node], count: int, chosen: list[_Memory],
           tables: list[Node]) -> _Scope:
    """What there is in a region with some formals: values, and memory."""
    inside = [_Memory(node, outer.size) for node, outer in zip(s[count:], chosen, strict=True)]
    for memory, outer in zip(inside, chosen, strict=True):
        memory.shared = outer.shared
    inner = _Scope(scope.program, width, [*values, *s[:count]], inside, tables, True)
    inner.state = s[:count]
    return inner


def _origin(type_: int, size: int, origin: str, rng: np.random.Generator) -> Node:
    data = rng.choice(samples(type_), size)
    if origin == "undefined":  # contents that matter nowhere before they are there
        whole = undefined(type_, size)
        index = counter(size) if size > 1 else literal(UINT32, 0)
        return scatter(whole, array(data), index, TRUE, ReduceOp.Identity.value, ReduceMode.Auto.value)
    if origin == "literal":
        return literal(type_, data[0].item(), size)
    if origin == "opaque":
        return opaque_node(literal(type_, data[0].item(), size))
    if origin == "shared":
        return shared(np.ascontiguousarray(data))
    node = array(data)
    return node if origin == "input" else ops.xor(node, node) if type_ not in FLOATS else ops.abs(node)


def _reductions(type_: int, own: bool) -> list[int]:
    """Reductions that are exact: of several lanes, or (without minima of floats, which have signed zeros) of one."""
    if type_ == BOOL:
        return _COMMUTATIVE[-2:]
    return _COMMUTATIVE if type_ not in FLOATS else _COMMUTATIVE[:2] if own else []


def _distinct(scope: _Scope, size: int, width: int, draw: float, mask: Node) -> tuple[Node, Node]:
    """Elements of an array, another one for each lane, as far as they go."""
    lane = scope.lane(width)
    if width > size:
        mask = ops.and_(mask, ops.lt(lane, literal(UINT32, size)))
        width = size
    forms = [lambda: lane, lambda: ops.sub(literal(UINT32, width - 1), ops.mod(lane, literal(UINT32, width))),
             lambda: ops.mod(ops.add(lane, literal(UINT32, int(draw * 20))), literal(UINT32, size))]
    return _as_index(ops.mod(forms[int(draw * 3)](), literal(UINT32, size)), draw), mask


def _own(scope: _Scope, memory: _Memory, draw: float, mask_draw: float) -> tuple[Node, Node]:
    """An element of an array that no other lane of a loop ever accesses."""
    width, size, lane = scope.width, memory.size, scope.lane(scope.width)
    mask = scope.mask(mask_draw, width)
    if width > size:
        count = literal(UINT32, size)
        return _as_index(ops.mod(lane, count), draw), ops.and_(mask, ops.lt(lane, count))
    several = size // width
    index: Node = ops.mul(lane, literal(UINT32, several))
    if several > 1:
        index = ops.add(index, ops.mod(scope.pick(draw, UINT32, width), literal(UINT32, several)))
    elif size % 2:
        index = ops.sub(literal(UINT32, width - 1), index)
    return _as_index(index, draw), mask


def trace(program: Program, evaluating: bool = False) -> list[Node]:
    """The results of a program."""
    return Tracer(program, evaluating).trace()


#: How the compiler refuses writes of which it is not clear how often they happen.
_REFUSED = re.compile(r"[\w.]+\(\): this write (of one value is part of a symbolic (loop|branch|call) within "
                      r"(another one|a symbolic (loop|branch|call))|is part of a symbolic loop with \d)")


def trace_unless_refused(program: Program, evaluating: bool = False) -> list[Node] | None:
    """The results of a program; ``None`` if it is refused for what one in two hundred does: a write in a construct, the
    width of which is due to other writes only, so that it is not clear how often this one happens."""
    try:
        return trace(program, evaluating)
    except SymbolicValue as error:
        if not _REFUSED.match(str(error)) or not any(step.kind in _CONTROL and _writes(step) for step in program.steps):
            raise
        return None


def _writes(construct: Step) -> bool:
    """Whether there is a write in a construct."""
    return any(step.kind == "scatter" or step.kind in _CONTROL and _writes(step)
               for step in (*construct.condition, *construct.body))
