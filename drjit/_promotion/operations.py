"""The operations of the operators, one for each row of the op table that has one."""

from __future__ import annotations

import drjit_core as core

from .plans import AND, Operation

__all__ = ["ADD", "AND", "DIV", "EQ", "FLOORDIV", "FMA", "GE", "GT", "LE", "LT", "MOD", "MUL", "NEQ", "OR", "POWER",
           "SHL", "SHR", "SUB", "XOR", "method_of"]

ADD, SUB, MUL, DIV = Operation("add"), Operation("sub"), Operation("mul"), Operation("div")
# Division by a literal is a multiplication, which the compiler decides on while it traces.
FLOORDIV, MOD = Operation("floordiv", core.floordiv), Operation("mod", core.mod)
SHL, SHR, OR, XOR = Operation("shl"), Operation("shr"), Operation("or_"), Operation("xor")
EQ, NEQ, LT, LE, GT, GE = map(Operation, ("eq", "neq", "lt", "le", "gt", "ge"))
POWER = Operation("power", core.power)
FMA = Operation("fma")

#: Python's names of operators where they differ from those of the rows.
_METHODS = {"div": "truediv", "shl": "lshift", "shr": "rshift", "neq": "ne", "power": "pow"}


def method_of(operation: Operation, reverse: bool = False) -> str:
    """The name of the method of an operator: ``__add__``, or ``__radd__`` if the array stands on the right."""
    return f"__{'r' if reverse else ''}{_METHODS.get(operation.name, operation.name.rstrip('_'))}__"
