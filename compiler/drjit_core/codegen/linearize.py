"""From the program of a kernel to the linear program: see :mod:`.linear`."""

from __future__ import annotations

from .builder import Builder
from .expand import Expanded
from .linear import Function, Linear
from .partials import rooms_of
from .program import Program
from .rows import RowsBuilder

__all__ = ["linearize"]


def linearize(program: Program) -> Linear:
    """The linear program of a kernel."""
    linear = Linear()
    linear.kernel = _function_of(linear, "kernel", program)
    linear.targets = [_function_of(linear, f"target{number}", target)
                      for number, target in enumerate(program.functions.values())]
    linear.shared = [_function_of(linear, f"shared{program.numbers[key]}", program.functions[key], True)
                     for key in program.shared]
    return linear


def _function_of(linear: Linear, name: str, program: Program, records: bool = False) -> Function:
    """The kernel's function, or that of a target: of one record, or of one for each element."""
    expanded = Expanded(program)
    function = Function(name, program.width != 1, records)
    function.wide, function.streaming, function.report = program.wide, program.streaming, program.report
    function.parameters, function.written = len(program.parameters), frozenset(program.written)
    function.partial_words, function.layout = program.partial_words, program.target.rooms
    function.rooms = rooms_of(program.reduced, function.layout)
    if not program.domain.is_flat:
        RowsBuilder(linear, function, expanded, program).build()
        return function
    builder = Builder(linear, function, expanded, program)
    builder.add_arguments()
    for node in expanded.order:
        builder.add(node, None)
    builder.add_outputs()
    builder.finish(len(expanded.order))
    return function
