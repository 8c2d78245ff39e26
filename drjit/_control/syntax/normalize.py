"""Brings a function into the form that is translated: what follows a ``return`` in some elements becomes a guard.

No statement changes its meaning for Python numbers. Chained comparisons become conjunctions, ``if a: return b`` that is
followed by more becomes an ``if`` with an ``else``, and loops whose condition has side effects test it in their body.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Any

from .build import placed
from .hints import rehinted, unhinted
from .names import TRY, Guard, OwnScope, completes, escapes, is_true, walk

__all__ = ["Normalizer"]

_COMPOUND = (ast.If, ast.While, ast.For, ast.With, *TRY, ast.Match, Guard)


class Normalizer:
    """Rewrites the statements of one function.

    ``is_range`` tells calls of Python's ``range``, ``own`` names of variables of the function.
    """

    def __init__(self, is_range: Callable[[ast.expr], bool], own: set[str],
                 refuse: Callable[[ast.AST, str], SyntaxError]) -> None:
        self.is_range, self.own, self.refuse = is_range, own, refuse
        self.count = 0

    def function(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of the function."""
        chains = _Chains(self)
        body = [_statement(chains.visit(node)) for node in body]
        if any(isinstance(node, _COMPOUND) and "return" in escapes(node) for node in body) and completes(body):
            body.append(ast.copy_location(ast.Return(None), body[-1]))
        body = self.block(body)
        self._number(body)
        return body

    def _number(self, nodes: list[ast.stmt]) -> None:
        """Give constructs an identity that their copies share."""
        for part in nodes:
            for node in ast.walk(part):
                if isinstance(node, (ast.If, ast.While, ast.For, Guard, ast.BoolOp, ast.IfExp)):
                    self.count += 1
                    node.identity = self.count  # type: ignore[union-attr]
                if hasattr(node, "lowered"):
                    self._number([node.lowered])

    def temporary(self, what: str) -> str:
        """A new name."""
        self.count += 1
        name = f"_dr_{what}{self.count}"
        self.own.add(name)
        return name

    # --- statements --------------------------------------------------------------------------------------------------

    def block(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        """A sequence of statements."""
        found: list[ast.stmt] = []
        nodes = [part for node in nodes for part in self._without_else(node)]
        for position, node in enumerate(nodes):
            rest = nodes[position + 1:]
            flags = escapes(node) if isinstance(node, _COMPOUND) else frozenset()
            if isinstance(node, ast.If) and flags and rest:
                first, second = completes(node.body), completes(node.orelse)
                if not (first and second):
                    if second:
                        node.orelse = [*node.orelse, *rest]
                    elif first:
                        node.body = [*node.body, *rest]
                    return [*found, *self._statement(node)]
            found += self._statement(node)
            if not completes(node):
                break
            if flags and rest:
                found.append(Guard(self.block(rest), flags))
                break
        return found

    def _without_else(self, node: ast.stmt) -> list[ast.stmt]:
        """A loop with an ``else`` as a loop and an ``if``."""
        if not isinstance(node, (ast.While, ast.For)) or not node.orelse:
            return [node]
        orelse, node.orelse = node.orelse, []
        if "break" not in escapes(node.body):
            return [node, *[part for each in orelse for part in self._without_else(each)]]
        if isinstance(node, ast.While) and self._impure(node.test):
            node.go = self.temporary("go")  # type: ignore[attr-defined]
            test = ast.UnaryOp(ast.Not(), ast.Name(node.go, ast.Load()))  # type: ignore[attr-defined]
            return [node, placed(ast.If(test, orelse, []), orelse[0])]
        node.normal = normal = self.temporary("normal")  # type: ignore[union-attr]
        return [placed(ast.Assign([ast.Name(normal, ast.Store())], ast.Constant(False)), node), node,
                placed(ast.If(ast.Name(normal, ast.Load()), orelse, []), orelse[0])]

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, ast.While):
            return [self._while(node)]
        if isinstance(node, ast.For):
            return [self._for(node)]
        if isinstance(node, ast.Match):
            for case in node.cases:
                case.body = self.block(case.body)
        elif isinstance(node, (ast.If, ast.With, *TRY)):
            for field in ("body", "orelse", "finalbody"):
                if getattr(node, field, None):
                    setattr(node, field, self.block(getattr(node, field)))
            for handler in getattr(node, "handlers", []):
                handler.body = self.block(handler.body)
        return [node]

    def _while(self, node: ast.While) -> ast.stmt:
        if self._impure(node.test):
            go = getattr(node, "go", None) or self.temporary("go")
            test = node.test
            again = ast.While(rehinted(test, ast.Constant(True)), [
                ast.Assign([ast.Name(go, ast.Store())], unhinted(test)),
                ast.If(rehinted(test, ast.UnaryOp(ast.Not(), ast.Name(go, ast.Load())), ("mode", "strict")),
                       [ast.Break()], []),
                *node.body], [])
            placed(again, node)
            node = again
        body = self.block(_without_continue(node.body))
        flags = self._pending(body)
        node.plain_body, node.pending = body, flags  # type: ignore[attr-defined]
        node.body = [Guard(body, flags)] if flags and not is_true(unhinted(node.test)) else body
        return node

    def _for(self, node: ast.For) -> ast.stmt:
        iterable = unhinted(node.iter)
        if self.is_range(iterable):
            at, stop, step = (self.temporary(what) for what in ("at", "stop", "step"))
            load: list[ast.expr] = [ast.Name(name, ast.Load()) for name in (at, stop, step)]
            body = copy.deepcopy(node.body)
            more = ast.copy_location(ast.Call(ast.Name("_dr_more", ast.Load()), load, []), iterable)
            lowered = ast.While(rehinted(node.iter, more), [
                ast.Assign([copy.deepcopy(node.target)], load[0]),
                ast.Assign([ast.Name(at, ast.Store())],
                           ast.Call(ast.Name("_dr_following", ast.Load()), [load[0], load[2]], [])), *body], [])
            placed(lowered, node)
            lowered.normal = getattr(node, "normal", None)  # type: ignore[attr-defined]
            node.iter, node.lowered = iterable, self._while(lowered)  # type: ignore[attr-defined]
            node.counters = at, stop, step  # type: ignore[attr-defined]
        node.variable = node.target  # type: ignore[attr-defined]
        body = self.block(_without_continue(node.body))
        flags = self._pending(body)
        if flags:
            value = self.temporary("value")
            assign = placed(ast.Assign([node.target], ast.Name(value, ast.Load())), node)
            node.target = ast.copy_location(ast.Name(value, ast.Store()), node.target)
            body = [Guard([assign, *body], flags)]
        node.body, node.pending = body, flags  # type: ignore[attr-defined]
        return node

    @staticmethod
    def _pending(body: list[ast.stmt]) -> frozenset[str]:
        """By which statements some elements may have left a loop while Python's own loop goes on."""
        compound: list[ast.stmt] = [node for node in body if isinstance(node, _COMPOUND)]
        return escapes(compound) & {"break", "return"} if compound else frozenset()

    def _impure(self, test: ast.expr) -> bool:
        """Whether a condition may change anything: it assigns, or calls a method of a variable."""
        for node in walk(test):
            if isinstance(node, ast.NamedExpr) and not node.target.id.startswith("_dr_"):
                return True
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                root = node.func.value
                while isinstance(root, (ast.Attribute, ast.Subscript, ast.Call)):
                    root = root.func if isinstance(root, ast.Call) else root.value
                if isinstance(root, ast.Name) and root.id in self.own:
                    return True
        return False


def _statement(node: Any) -> ast.stmt:
    assert isinstance(node, ast.stmt)
    return node


def _without_continue(nodes: list[ast.stmt]) -> list[ast.stmt]:
    """The body of a loop without ``continue`` where the iteration ends anyway."""
    if not nodes:
        return nodes
    last = nodes[-1]
    if isinstance(last, ast.Continue):
        return nodes[:-1] or [ast.copy_location(ast.Pass(), last)]
    if isinstance(last, ast.If):
        last.body, last.orelse = _without_continue(last.body), _without_continue(last.orelse)
    return nodes


class _Chains(OwnScope):
    """Turns ``a < b < c`` into ``a < b and b < c`` with one evaluation of ``b``."""

    def __init__(self, owner: Normalizer) -> None:
        super().__init__()
        self.owner = owner

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        left, parts = node.left, list[ast.expr]()
        for position, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            again = right
            if position < len(node.ops) - 1 and not isinstance(right, (ast.Constant, ast.Name)):
                name = self.owner.temporary("operand")
                right = ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), right), right)
                again = ast.Name(name, ast.Load())
            parts.append(ast.copy_location(ast.Compare(left, [op], [right]), node))
            left = again
        result = ast.copy_location(ast.BoolOp(ast.And(), parts), node)
        return ast.fix_missing_locations(result)
