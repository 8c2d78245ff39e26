"""``drjit.hint`` around conditions."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .names import walk

__all__ = ["Hint", "included", "is_hint", "named_elsewhere", "rehinted", "unhinted"]

#: The hints of each construct.
_HINTS = {
    "an 'if'": ("mode", "label", "include", "exclude", "strict"),
    "a loop": ("mode", "max_iterations", "label", "include", "exclude", "strict", "compress"),
    "a conditional expression": ("mode", "label", "strict"),
}
_MODES = ("scalar", "symbolic", "evaluated")
#: What hints must be, and whether a constant is that.
_VALUES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "mode": ("'scalar', 'symbolic', 'evaluated' or None", lambda value: value is None or value in _MODES),
    "max_iterations": ("an int >= -1 or None", lambda value: value is None or value.__class__ is int and value >= -1),
    "label": ("a str or None", lambda value: value is None or value.__class__ is str),
    "strict": ("a bool", lambda value: value.__class__ is bool),
    "compress": ("a bool or None", lambda value: value is None or value.__class__ is bool),
}


class Hint:
    """A condition, and what ``drjit.hint`` says about it; ``construct`` is a key of the hints that there are."""

    def __init__(self, test: ast.expr, construct: str, refuse: Callable[[ast.AST, str], SyntaxError]) -> None:
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
            name, value = keyword.arg, keyword.value
            if name not in _HINTS[construct]:
                what = "arguments given by '**'" if name is None else f"the keyword argument '{name}'"
                raise refuse(test, f"drjit.hint() around the condition of {construct} does not support {what}; it has "
                             f"{', '.join(_HINTS[construct])}.")
            if name in ("include", "exclude"):
                setattr(self, name, self._names(test, name, value, refuse))
            else:
                self._require_value(test, name, value, refuse)
                if isinstance(value, ast.Constant) and value.value == "scalar" and name == "mode":
                    self.scalar = True
                else:
                    self.keywords[name] = value
        both = self.include & self.exclude
        if both:
            raise refuse(test, f"drjit.hint() both includes and excludes '{min(both)}'.")

    @staticmethod
    def _names(test: ast.expr, name: str, value: ast.expr, refuse: Callable[[ast.AST, str], SyntaxError]) -> set[str]:
        if isinstance(value, ast.Constant) and value.value is None:
            return set()
        entries = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
        for entry in entries:
            if not isinstance(entry, ast.Name) or entry is value:
                raise refuse(test, f"'{name}' of drjit.hint() must be a list of variables, such as [a, b]; found "
                             f"{ast.unparse(entry)}.")
        return {entry.id for entry in entries if isinstance(entry, ast.Name)}

    @staticmethod
    def _require_value(test: ast.expr, name: str, value: ast.expr,
                       refuse: Callable[[ast.AST, str], SyntaxError]) -> None:
        """Refuse constants that a hint cannot have; other expressions are checked when they are computed."""
        try:
            found = ast.literal_eval(value)
        except (TypeError, ValueError):
            return
        expected, fits = _VALUES[name]
        if not fits(found):
            raise refuse(test, f"'{name}' of drjit.hint() must be {expected}, found {ast.unparse(value)}.")

    def of(self, *names: str) -> dict[str, ast.expr]:
        """The hints that a construct takes."""
        return {name: copy.deepcopy(value) for name, value in self.keywords.items() if name in names}


def is_hint(node: ast.expr) -> bool:
    """Whether an expression is a call of ``drjit.hint``, as the decorator has found out."""
    return hasattr(node, "is_hint")


def unhinted(test: ast.expr) -> ast.expr:
    """A condition without its hint."""
    return test.args[0] if isinstance(test, ast.Call) and is_hint(test) and test.args else test


def rehinted(test: ast.expr, value: ast.expr, keywords: Sequence[str] | None = None) -> ast.expr:
    """Another condition with the hint of one, or with some ``keywords`` of it."""
    if not is_hint(test):
        return value
    assert isinstance(test, ast.Call)
    result = ast.Call(test.func, [value], [each for each in test.keywords if keywords is None or each.arg in keywords])
    result.is_hint = True  # type: ignore[attr-defined]
    return result


def included(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that hints list in ``include``, in a program without the functions in it."""
    lists = [keyword.value for node in walk(nodes) if isinstance(node, ast.Call) and is_hint(node)
             for keyword in node.keywords if keyword.arg == "include"]
    return {entry.id for found in lists if isinstance(found, (ast.List, ast.Tuple)) for entry in found.elts
            if isinstance(entry, ast.Name)}


def named_elsewhere(function: ast.AST) -> set[str]:
    """The names that a program has outside of ``include`` and ``exclude``."""
    found, queue = set[str](), [function]
    while queue:
        node = queue.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
        hint = isinstance(node, ast.Call) and is_hint(node)
        queue += [inner for inner in ast.iter_child_nodes(node)
                  if not (hint and isinstance(inner, ast.keyword) and inner.arg in ("include", "exclude"))]
    return found
