"""Which names a piece of a program reads and binds, and which variables are needed later."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["TRY", "Guard", "Liveness", "OwnScope", "attributes", "bound", "captured", "completes", "escapes", "is_true",
           "kept", "kept_across", "nested_scopes", "reads", "touched", "used", "walk"]

TRY = (ast.Try, ast.TryStar)

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (*_FUNCTIONS, *_COMPREHENSIONS)


class Guard(ast.stmt):
    """Statements for the elements that have not left by ``break``, ``continue`` or ``return`` before.

    ``flags`` says by which of them some may have left.
    """

    _fields = ("body",)
    body: list[ast.stmt]
    flags: frozenset[str]

    def __init__(self, body: list[ast.stmt] | None = None, flags: frozenset[str] = frozenset()) -> None:
        super().__init__()
        if body:  # not while it is copied
            self.body, self.flags = body, flags
            ast.copy_location(self, body[0])


class OwnScope(ast.NodeTransformer):
    """Leaves functions and classes within a program as they are, and, unless it is told otherwise, comprehensions."""

    def __init__(self, comprehensions: bool = False) -> None:
        self.others = _FUNCTIONS if comprehensions else _SCOPES

    def visit(self, node: ast.AST) -> Any:
        """Visit a node, or return that of a nested scope."""
        return node if isinstance(node, self.others) else super().visit(node)


def walk(nodes: ast.AST | Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a program without those of nested scopes, whose outermost node is the last that is yielded."""
    queue = [nodes] if isinstance(nodes, ast.AST) else list(nodes)
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, _SCOPES):
            queue += ast.iter_child_nodes(node)


def nested_scopes(nodes: ast.AST | Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The outermost nested functions, classes and comprehensions."""
    return (node for node in walk(nodes) if isinstance(node, _SCOPES))


def _parameters(args: ast.arguments) -> set[str]:
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return {arg.arg for arg in every if arg is not None}


def _outer_parts(scope: ast.AST) -> list[ast.AST]:
    """What of a nested scope is computed in the scope around it."""
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        args = scope.args
        parts: list[ast.AST] = [*args.defaults, *[value for value in args.kw_defaults if value is not None]]
        if not isinstance(scope, ast.Lambda):
            every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
            parts += [*scope.decorator_list, *[arg.annotation for arg in every if arg is not None and arg.annotation]]
            if scope.returns is not None:
                parts.append(scope.returns)
        return parts
    if isinstance(scope, ast.ClassDef):
        return [*scope.bases, *[keyword.value for keyword in scope.keywords], *scope.decorator_list]
    return []


def captured(scope: ast.AST) -> set[str]:
    """The names that a nested scope takes from the scopes around it."""
    inner: set[str]
    if isinstance(scope, _COMPREHENSIONS):
        parts: list[ast.AST] = list(ast.iter_child_nodes(scope))
        inner = {node.id for part in scope.generators for node in ast.walk(part.target) if isinstance(node, ast.Name)}
        found = reads(parts)
        return {name for name in found if name not in inner}
    if isinstance(scope, ast.Lambda):
        return reads(scope.body) - _parameters(scope.args)
    assert isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    inner = bound(scope.body)
    outer = {name for node in walk(scope.body) if isinstance(node, ast.Nonlocal) for name in node.names}
    if not isinstance(scope, ast.ClassDef):
        inner |= _parameters(scope.args)
        inner |= {name for node in walk(scope.body) if isinstance(node, ast.Global) for name in node.names}
    else:
        inner = set()  # a class body that binds a name may still read the outer one before
    return (reads(scope.body) - inner) | outer


def kept(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """The names that functions, classes and generators in a program take from the scopes around them."""
    found = set[str]()
    for scope in nested_scopes(nodes):
        if isinstance(scope, (ast.ListComp, ast.SetComp, ast.DictComp)):  # which are over at once
            targets = {node.id for part in scope.generators for node in ast.walk(part.target)
                       if isinstance(node, ast.Name)}
            found |= kept(list(ast.iter_child_nodes(scope))) - targets
        else:
            found |= captured(scope) | kept(_outer_parts(scope))
    return found


def kept_across(nodes: Iterable[ast.stmt], made: set[str] | None = None) -> set[str]:
    """Variables that ``if``, ``while`` or ``for`` assign when a function that refers to them may be there already.

    ``made`` are those that functions from before refer to.
    """
    made = set() if made is None else made.copy()
    found = set[str]()
    for node in nodes:
        if isinstance(node, (ast.If, ast.While, ast.For)):
            found |= bound(node) & made
        choices = [inner for inner in walk(node) if isinstance(inner, (ast.IfExp, ast.BoolOp))]
        if choices:
            found |= bound(choices) & (made | kept(node))
        loop = isinstance(node, (ast.While, ast.For))
        for block in _blocks(node):
            found |= kept_across(block, made | kept(block) if loop else made)
        made |= kept(node)
    return found


def reads(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Names whose value is used; also of what is changed in part (``x.y = …``, ``x[i] = …``, ``x += …``) or deleted."""
    found = set()
    for node in walk(nodes):
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Store):
                found.add(node.id)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                found.add(node.target.id)
        elif isinstance(node, _SCOPES):
            found |= captured(node)
            found |= reads(_outer_parts(node))
    return found


def bound(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Names that are assigned, deleted, imported or defined."""
    found = set()
    for node in walk(nodes):
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name is not None:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest is not None:
            found.add(node.rest)
        elif isinstance(node, _COMPREHENSIONS):
            found |= {inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)}
    return found


def touched(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Names that are used or bound."""
    nodes = [nodes] if isinstance(nodes, ast.AST) else list(nodes)
    return reads(nodes) | bound(nodes)


def attributes(nodes: Iterable[ast.AST]) -> set[tuple[str, ...]]:
    """Attributes of variables that are assigned (``x.a.b = …``): the variable, and the names of the attributes."""
    found = set[tuple[str, ...]]()
    for node in walk(nodes):
        place, names = node, list[str]()
        while isinstance(place, ast.Attribute) and (names or not isinstance(place.ctx, ast.Load)):
            names.insert(0, place.attr)
            place = place.value
        if isinstance(place, ast.Name) and names:
            found.add((place.id, *names))
    return found


# --- where control flow goes -----------------------------------------------------------------------------------------


def is_true(test: ast.expr) -> bool:
    """Whether a condition is a constant that holds: ``while True``."""
    return isinstance(test, ast.Constant) and bool(test.value)


def _blocks(node: ast.stmt) -> list[list[ast.stmt]]:
    if isinstance(node, ast.Match):
        return [case.body for case in node.cases]
    found = [getattr(node, field, []) for field in ("body", "orelse", "finalbody")]
    return found + [handler.body for handler in getattr(node, "handlers", [])]


def escapes(nodes: ast.stmt | list[ast.stmt]) -> frozenset[str]:
    """Which of ``break``, ``continue`` and ``return`` in some statements lead out of them."""
    if isinstance(nodes, list):
        return frozenset().union(*map(escapes, nodes))
    if isinstance(nodes, (ast.Break, ast.Continue, ast.Return)):
        return frozenset([type(nodes).__name__.lower()])
    if isinstance(nodes, _SCOPES):
        return frozenset()
    if isinstance(nodes, (ast.While, ast.For)):
        return escapes(nodes.body) & {"return"} | escapes(nodes.orelse)
    return frozenset().union(*map(escapes, _blocks(nodes)))


def completes(nodes: ast.stmt | list[ast.stmt], suppressed: bool = False) -> bool:
    """Whether the statement after some statements may be reached."""
    if isinstance(nodes, list):
        return all(completes(node, suppressed) for node in nodes)
    node = nodes
    if isinstance(node, (ast.Break, ast.Continue, ast.Return)):
        return False
    if isinstance(node, ast.Raise):
        return suppressed
    if isinstance(node, ast.If):
        return completes(node.body, suppressed) or completes(node.orelse, suppressed)
    if isinstance(node, ast.While):
        if is_true(node.test):
            return "break" in escapes(node.body)
        return "break" in escapes(node.body) or completes(node.orelse, suppressed)
    if isinstance(node, ast.For):
        return "break" in escapes(node.body) or completes(node.orelse, suppressed)
    if isinstance(node, ast.With):
        return completes(node.body, True)
    if isinstance(node, TRY):
        inner = completes([*node.body, *node.orelse], True) or any(completes(h.body, suppressed) for h in node.handlers)
        return inner and completes(node.finalbody, suppressed)
    return True


class Liveness:
    """Finds for each statement which names are needed after it: the attribute ``live_out`` of ``if``, guards and loops.

    The blocks of ``if`` get ``live_in`` as well, loops what is needed where an iteration begins (``live_head``).
    """

    def __init__(self) -> None:
        self.leave: set[str] = set()  # needed where ``break`` goes
        self.again: set[str] = set()  # where ``continue`` goes
        self.caught: set[str] = set()  # where exceptions go

    def block(self, nodes: list[ast.stmt], out: set[str]) -> set[str]:
        """What is needed before some statements, given what is after them."""
        for node in reversed(nodes):
            out = self._statement(node, out) | self.caught
        return out

    def _targets(self, flags: frozenset[str]) -> set[str]:
        return (self.leave if "break" in flags else set()) | (self.again if "continue" in flags else set())

    def _statement(self, node: ast.stmt, out: set[str]) -> set[str]:
        if isinstance(node, ast.Break):
            return self.leave
        if isinstance(node, ast.Continue):
            return self.again
        if isinstance(node, (ast.Return, ast.Raise)):
            return reads(node)
        if isinstance(node, (ast.If, Guard)):
            out = out | self._targets(escapes(node))
            if isinstance(node, Guard):
                out = out | self._targets(node.flags)
                node.live_out, node.live_in = out, self.block(node.body, out) | out  # type: ignore[attr-defined]
                return node.live_in  # type: ignore[attr-defined,no-any-return]
            node.live_out = out  # type: ignore[attr-defined]
            node.live_in = self.block(node.body, out) | self.block(node.orelse, out)  # type: ignore[attr-defined]
            return used(node.test) | node.live_in  # type: ignore[attr-defined,no-any-return]
        if isinstance(node, (ast.While, ast.For)):
            return self._loop(node, out)
        if isinstance(node, ast.Match):
            return out | reads(node) | set().union(*[self.block(case.body, out) for case in node.cases])
        if isinstance(node, TRY):
            return self._try(node, out)
        if isinstance(node, ast.With):
            before, self.caught = self.caught, self.caught | out
            result = self.block(node.body, out)
            self.caught = before
            return result | reads(node.items)
        if isinstance(node, ast.Delete):
            return (out - bound(node)) | reads(node)
        return (out - bound(node)) | used(node)

    def _loop(self, node: ast.While | ast.For, out: set[str]) -> set[str]:
        lowered = getattr(node, "lowered", None)
        extra = self._loop(lowered, out) - {*node.counters} if lowered is not None else set()  # type: ignore[union-attr]
        after = out
        head = after | (used(node.test) if isinstance(node, ast.While) else set())
        before = self.leave, self.again
        while True:
            self.leave, self.again = out, head
            entered = self.block(node.body, head)
            if isinstance(node, ast.For):
                entered = (entered - bound(node.target)) | reads(node.target)
            found = head | entered
            if found == head:
                break
            head = found
        self.leave, self.again = before
        node.live_out, node.live_head = after, head  # type: ignore[union-attr]
        return head | extra | (reads(node.iter) if isinstance(node, ast.For) else set())

    def _try(self, node: ast.Try | ast.TryStar, out: set[str]) -> set[str]:
        everything = out | reads(node) | self.leave | self.again
        before, self.caught = self.caught, self.caught | everything
        final = self.block(node.finalbody, out | everything)
        for handler in node.handlers:
            self.block(handler.body, final)
        result = self.block(node.body, self.block(node.orelse, final))
        self.caught = before
        return result | everything


def used(node: ast.AST) -> set[str]:
    """Names that are used, without the temporaries that the same expression makes."""
    found = reads(node)
    own = {inner.target.id for inner in walk(node) if isinstance(inner, ast.NamedExpr)
           and inner.target.id.startswith("_dr_")}
    return found - own
