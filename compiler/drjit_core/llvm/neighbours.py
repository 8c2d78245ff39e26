"""Indices that are those of neighbours in all packets: what is accessed at them is a packet in memory.

In regions such accesses are gathers and scatters in the program, since their positions change from one iteration to the
next: ``table[row * width + element]``. Entries of local memory are another case, those of sixteen elements being
together.
"""

from __future__ import annotations

from ..codegen.linear import Instruction
from ..ops.table import COUNTER, FIRST_ELEMENTWISE, KIND, LITERAL
from .function import FunctionEmitter

__all__ = ["are_neighbours"]

#: What is known of a value's elements in a packet: nothing, that they are equal, that each is one more than the last.
_ANY, _EQUAL, _RISING = range(3)
_ADD, _SUB, _AND = KIND["add"], KIND["sub"], KIND["and_"]


def are_neighbours(emitter: FunctionEmitter, index: Instruction) -> bool:
    """Whether an index rises by one from element to element, whatever the packet."""
    return not index.uniform and _course(emitter, index) == _RISING


def _course(emitter: FunctionEmitter, value: Instruction) -> int:
    if value.uniform:
        return _EQUAL
    known = emitter.courses.get(value.number)
    if known is None:
        known = emitter.courses[value.number] = _course_of(emitter, value)
    return known


def _course_of(emitter: FunctionEmitter, value: Instruction) -> int:
    if value.kind == COUNTER:
        return _RISING
    if value.kind < FIRST_ELEMENTWISE or not value.operands:  # an argument of a function is whatever it was there
        return _ANY
    if value.kind == _AND:
        first, second = value.operands
        counter, mask = (second, first) if first.kind == LITERAL else (first, second)
        if counter.kind == COUNTER and mask.kind == LITERAL and mask.access is None:
            period = int(mask.node.payload) + 1  # packets begin at multiples of their length
            return _RISING if period & period - 1 == 0 and period % emitter.lanes == 0 else _ANY
    courses = [_course(emitter, operand) for operand in value.operands]
    if all(course == _EQUAL for course in courses):
        return _EQUAL
    if value.kind == _ADD and sorted(courses) == [_EQUAL, _RISING]:
        return _RISING
    if value.kind == _SUB and courses[0] == _RISING:
        return {_EQUAL: _RISING, _RISING: _EQUAL}.get(courses[1], _ANY)
    return _ANY
