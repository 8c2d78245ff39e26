"""Translates the expressions of a function: ``and``, ``or``, ``not`` and conditional expressions."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Any

from .build import call_of, is_vector, load, placed, store, strings_of, tuple_of
from .exits import Scope
from .hints import Hint
from .names import OwnScope, reads, used, walk

if TYPE_CHECKING:
    from .translate import Translator

__all__ = ["Expressions"]

_SIMPLE = (ast.Name, ast.Constant, ast.Compare, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.NamedExpr, ast.Attribute,
           ast.expr_context, ast.cmpop, ast.boolop, ast.Add, ast.Sub, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor,
           ast.unaryop)


class Expressions(OwnScope):
    """Translates ``and``, ``or``, ``not`` and conditional expressions."""

    def __init__(self, owner: Translator, scope: Scope) -> None:
        super().__init__()
        self.owner, self.scope = owner, scope

    def _set(self, name: str, value: ast.expr) -> ast.expr:
        return ast.NamedExpr(store(name), value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        name = self.owner.temporary("value")
        return placed(ast.IfExp(is_vector(name, self._set(name, node.operand)), call_of("_dr_negated", [load(name)]),
                                 ast.UnaryOp(ast.Not(), load(name))), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        result = self.visit(node.values[0])
        conjunction = isinstance(node.op, ast.And)
        for position, second in enumerate(node.values[1:]):
            name = self.owner.temporary("value")
            other = self.visit(copy.deepcopy(second))
            if _is_simple(second):
                operator = ast.BitAnd() if conjunction else ast.BitOr()
                vector: ast.expr = ast.BinOp(load(name), operator, copy.deepcopy(other))
            else:
                sides = (second, ast.Constant(False)) if conjunction else (ast.Constant(True), second)
                identity = (node.identity, position)  # type: ignore[attr-defined]
                vector = self._choice(second, identity, name, *sides)
            result = placed(ast.IfExp(is_vector(name, self._set(name, result)), vector,
                                       ast.BoolOp(node.op, [load(name), other])), node)
        return result  # type: ignore[no-any-return]

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        hint = Hint(node.test, "a conditional expression", self.owner.refuse)
        test = self.visit(hint.test)
        body, orelse = self.visit(copy.deepcopy(node.body)), self.visit(copy.deepcopy(node.orelse))
        if hint.scalar:
            return ast.copy_location(ast.IfExp(test, body, orelse), node)
        name = self.owner.temporary("test")
        vector = self._choice(node, node.identity, name, node.body, node.orelse,  # type: ignore[attr-defined]
                              hint.of("mode", "label", "strict"))
        return placed(ast.IfExp(is_vector(name, self._set(name, test)), vector,
                                 ast.IfExp(load(name), body, orelse)), node)

    def _choice(self, node: ast.expr, identity: Any, test: str, first: ast.expr, second: ast.expr,
                hints: dict[str, ast.expr] | None = None) -> ast.expr:
        """The call for an array as the condition."""
        owner = self.owner
        parts: list[ast.AST] = [first, second]
        changed = sorted(_changed(parts) & owner.own - owner.theirs)
        args = [*changed, *sorted(set().union(*map(used, parts)) & owner.own - owner.theirs - set(changed))]
        names: list[str] = owner.built.get(identity, [])
        for what, part in (("then", first), ("otherwise", second)) if not names else ():
            scope = Scope(False, set(args), set(args))
            value = Expressions(owner, scope).visit(copy.deepcopy(part))
            result = ast.Tuple([value, *[load(name) for name in changed]], ast.Load())
            ends: list[ast.stmt] = [ast.copy_location(ast.Return(result), node)]
            names.append(owner.make(what, node, args, ends))
        owner.built[identity] = names
        call = call_of("_dr_choice", [tuple_of(args), load(test), *[load(name) for name in names], strings_of(args),
                                    ast.Constant(1 + len(changed))], **(hints or {}))
        if not changed:
            return ast.Subscript(call, ast.Constant(0), ast.Load())
        result_name = owner.temporary("results")
        entries: list[ast.expr] = [self._set(result_name, call)]
        for k, name in enumerate(changed):
            entries.append(self._set(name, ast.Subscript(load(result_name), ast.Constant(k + 1), ast.Load())))
        entries.append(ast.Subscript(load(result_name), ast.Constant(0), ast.Load()))
        return ast.Subscript(ast.Tuple(entries, ast.Load()), ast.Constant(-1), ast.Load())


def _is_simple(node: ast.expr) -> bool:
    """Whether an expression may be computed where it is not needed."""
    return all(isinstance(inner, _SIMPLE) for inner in ast.walk(node)) and \
        not any(isinstance(inner, ast.NamedExpr) and not inner.target.id.startswith("_dr_") for inner in ast.walk(node))


def _changed(nodes: list[ast.AST]) -> set[str]:
    """Variables that an expression may change: it assigns them, or passes them to a function."""
    found = {inner.target.id for inner in walk(nodes) if isinstance(inner, ast.NamedExpr)
             and not inner.target.id.startswith("_dr_")}
    for node in walk(nodes):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                found |= reads(node.func)
            found |= reads([*node.args, *[keyword.value for keyword in node.keywords]])
    return found
