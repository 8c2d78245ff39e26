"""Where the functions of branches and loop bodies end, and what they return there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from .build import assign, call_of, load, or_unset, placed
from .names import OwnScope

__all__ = ["Exit", "Exits", "Scope"]


class Exit(ast.stmt):
    """Where the function of a branch or loop body ends: replaced when its results are known."""

    _fields = ()

    def __init__(self, place: ast.AST, kind: str, assigned: Iterable[str], value: ast.expr | None = None) -> None:
        super().__init__()
        ast.copy_location(self, place)
        self.kind, self.assigned, self.value = kind, set(assigned), value


class Scope:
    """The function that statements are translated into."""

    def __init__(self, main: bool, assigned: set[str], possible: set[str], loop: int | None = None) -> None:
        self.main = main
        self.assigned = set(assigned)  # variables that have a value
        self.start = frozenset(assigned)
        self.possible = set(possible)  # that may have one
        self.loops: list[int | None] = [loop]  # the loops that ``break`` leaves, from outside
        self.inline = [False]  # whether those are loops of this function
        self.flags = set[str]()  # flags that are set in this function
        self.leaves = False  # whether this function finds out if all elements have left, as ``_dr_left``
        self.tells = False  # whether it says so: the function of a branch, which elements may leave
        self.exits: list[Exit] = []
        self.received_result = False  # whether the value to return is an argument


class Exits(OwnScope):
    """Replaces the ends of a branch or loop body by ``return`` of its results."""

    def __init__(self, outs: Sequence[str], flags: Sequence[str], returns: bool, scope: Scope) -> None:
        super().__init__()
        self.outs, self.flags, self.returns, self.scope = outs, flags, returns, scope

    def statements(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        """Statements with their ends replaced."""
        holder = ast.Module(nodes, [])
        self.visit(holder)
        return holder.body

    def visit_Exit(self, node: Exit) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        values: list[ast.expr] = [load(name) for name in self.outs]
        if node.kind == "return":
            assert node.value is not None
            found.append(assign("_dr_result", node.value))
        # where all elements may have left, what is behind a guard has not happened
        sure = self.scope.start if node.kind == "end" and self.scope.flags else node.assigned
        found += or_unset([name for name in self.outs if name not in sure])
        if self.returns:
            known = node.kind == "return" or "returned" in self.scope.flags or self.scope.received_result
            values.append(load("_dr_result" if known else "_dr_UNSET"))
        kind = {"break": "broken", "continue": "continued", "return": "returned"}.get(node.kind)
        for flag in self.flags:
            if kind is not None and flag.rstrip("0123456789") == kind:
                values.append(ast.Constant(True))
            elif flag in self.scope.flags and node.kind in ("end", "dead"):
                values.append(load(f"_dr_{flag}"))
            else:
                values.append(ast.Constant(False))
        results: ast.expr = ast.Tuple(values, ast.Load())
        if self.scope.tells and node.kind == "dead":
            results = call_of("_dr_Dead", [results])
        elif self.scope.tells and node.kind == "end" and self.scope.leaves:
            results = ast.IfExp(load("_dr_left"), call_of("_dr_Dead", [results]), results)
        found.append(ast.Return(results))
        return [placed(statement, node) for statement in found]
