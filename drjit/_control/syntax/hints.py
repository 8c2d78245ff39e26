"""``drjit.hint`` around conditions."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable

__all__ = ["Hint", "is_hint", "rehinted", "unhinted"]

_HINTS = ("mode", "max_iterations", "label", "include", "exclude", "strict", "compress")


class Hint:
    """A condition, and what ``drjit.hint`` says about it."""

    def __init__(self, test: ast.expr, refuse: Callable[[ast.AST, str], SyntaxError]) -> None:
        self.test, self.keywords = test, dict[str, ast.expr]()
        self.include, self.exclude = set[str](), set[str]()
        self.scalar = False
        if not is_hint(test):
            return
        assert isinstance(test, ast.Call)
        if len(test.args) != 1 or isinstance(test.args[0], ast.Starred):
            raise refuse(test, "drjit.hint() takes one positional argument, the condition.")
        self.test = test.args[0]
        for keyword in test.keywords:
            if keyword.arg not in _HINTS:
                raise refuse(test, f"drjit.hint() does not support the keyword argument '{keyword.arg}'; it has "
                             f"{', '.join(_HINTS)}.")
            if keyword.arg in ("include", "exclude"):
                value = keyword.value
                if not isinstance(value, (ast.List, ast.Tuple)) or \
                        not all(isinstance(entry, ast.Name) for entry in value.elts):
                    raise refuse(test, f"'{keyword.arg}' of drjit.hint() must be a list of local variables.")
                names = {entry.id for entry in value.elts if isinstance(entry, ast.Name)}
                setattr(self, keyword.arg, names)
            elif keyword.arg == "mode" and isinstance(keyword.value, ast.Constant) and keyword.value.value == "scalar":
                self.scalar = True
            else:
                self.keywords[keyword.arg] = keyword.value

    def of(self, *names: str) -> dict[str, ast.expr]:
        """The hints that a construct takes."""
        return {name: copy.deepcopy(value) for name, value in self.keywords.items() if name in names}


def is_hint(node: ast.expr) -> bool:
    """Whether an expression is a call of ``drjit.hint``."""
    if not isinstance(node, ast.Call) or hasattr(node, "other"):  # another function of that name
        return False
    if hasattr(node, "renamed"):  # ``from drjit import hint as h``
        return True
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
    return name == "hint"


def unhinted(test: ast.expr) -> ast.expr:
    """A condition without its hint."""
    return test.args[0] if isinstance(test, ast.Call) and is_hint(test) and test.args else test


def rehinted(test: ast.expr, value: ast.expr) -> ast.expr:
    """Another condition with the hint of one."""
    if not is_hint(test):
        return value
    assert isinstance(test, ast.Call)
    result = ast.Call(test.func, [value], test.keywords)
    if hasattr(test, "renamed"):
        result.renamed = True  # type: ignore[attr-defined]
    return result
