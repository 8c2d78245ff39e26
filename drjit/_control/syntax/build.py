"""Pieces of a translated program: the nodes of syntax trees that translation makes."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TypeVar

__all__ = ["assign", "call_of", "if_unset", "is_vector", "load", "or_unset", "placed", "same", "store", "strings_of",
           "tuple_of"]

Node = TypeVar("Node", bound=ast.AST)


def load(name: str) -> ast.expr:
    """The value of a variable."""
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    """A variable that is assigned."""
    return ast.Name(name, ast.Store())


def assign(name: str, value: ast.expr) -> ast.stmt:
    """Assign a value to a variable."""
    return ast.Assign([store(name)], value)


def tuple_of(names: Iterable[str]) -> ast.expr:
    """A tuple of variables."""
    return ast.Tuple([load(name) for name in names], ast.Load())


def strings_of(names: Iterable[str]) -> ast.expr:
    """A tuple of strings."""
    return ast.Tuple([ast.Constant(name) for name in names], ast.Load())


def call_of(name: str, args: list[ast.expr], **keywords: ast.expr) -> ast.expr:
    """A call of a function, by its name."""
    return ast.Call(load(name), args, [ast.keyword(key, value) for key, value in keywords.items()])


def same(name: str, value: ast.expr) -> ast.expr:
    """Whether a variable is an object."""
    return ast.Compare(load(name), [ast.Is()], [value])


def is_vector(name: str, bound_by: ast.expr | None = None) -> ast.expr:
    """A test for an array that costs next to nothing if the condition is a ``bool``."""
    return ast.BoolOp(ast.And(), [
        ast.Compare(bound_by or load(name), [ast.IsNot()], [ast.Constant(True)]),
        ast.Compare(load(name), [ast.IsNot()], [ast.Constant(False)]), call_of("_dr_vector", [load(name)])])


def if_unset(names: Iterable[str]) -> list[ast.stmt]:
    """Make variables unassigned that were passed on as such."""
    return [ast.If(same(name, load("_dr_UNSET")), [ast.Delete([ast.Name(name, ast.Del())])], []) for name in names]


def or_unset(names: Iterable[str]) -> list[ast.stmt]:
    """Make variables that may not be assigned ones that can be passed on."""
    return [ast.Try([ast.Expr(load(name))], [ast.ExceptHandler(load("NameError"), None, [
        assign(name, load("_dr_UNSET"))])], [], []) for name in names]


def placed(node: Node, place: ast.AST) -> Node:
    """An expression or statement that was made, and what it contains, in the place of one of the program."""
    for inner in ast.walk(node):
        if "lineno" in inner._attributes and not hasattr(inner, "lineno"):
            ast.copy_location(inner, place)
    return node
