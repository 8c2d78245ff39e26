"""Learning rates that depend on the number of the step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.types import FLOAT32, FLOAT64, retype
from .._base.values import plain_scalar
from .._functions.elementwise import cos, exp2, floor, minimum, select

__all__ = ["Schedule"]


def _choose(condition: Any, a: Any, b: Any) -> Any:
    return (a if condition else b) if condition.__class__ is bool else select(condition, a, b)


def _piecewise(t: Any, lr: float, values: dict[int, float]) -> Any:
    found = t * 0 + lr
    for boundary, value in values.items():
        found = _choose(t >= boundary, value, found)
    return found


def _joined(t: Any, schedules: tuple[Schedule, ...], boundaries: tuple[int, ...]) -> Any:
    found = schedules[0]._at(t)
    for schedule, boundary in zip(schedules[1:], boundaries, strict=True):
        found = _choose(t >= boundary, schedule._at(t - boundary), found)
    return found


def _exponential(t: Any, lr: float, factor: float, steps: int, staircase: bool) -> Any:
    # half a step more, lest a rounded quotient fall short of the next integer
    exponent = floor((t + 0.5) * (1 / steps)) if staircase else t * (1 / steps)
    return lr * exp2(exponent * math.log2(factor))


#: The learning rate of a step, which is a float or an array of floating-point numbers, by the name of the schedule.
_FORMULAS: dict[str, Callable[..., Any]] = {
    "constant": lambda t, lr: t * 0 + lr,
    "linear": lambda t, lr, steps, last: lr + (last - lr) * minimum(t * (1 / steps), 1),
    "cosine": lambda t, lr, steps, last: last + (lr - last) * (0.5 + 0.5 * cos(math.pi * minimum(t * (1 / steps), 1))),
    "exponential": _exponential, "piecewise": _piecewise, "joined": _joined,
}


class Schedule:
    """A learning rate that depends on the number of the step, which begins with 0.

    A schedule is made by one of the methods below, and is the argument ``lr`` of an optimiser, or of
    :meth:`Optimizer.set_learning_rate`: the optimiser counts its steps then, on the device, so that a frozen step is
    recorded once and follows the schedule; the count is part of ``state_dict()``. Steps that a mask leaves out do not
    count. Schedules are also functions: of an ``int``, whose result is a ``float``, and of an array of steps.

    >>> schedule = dr.opt.Schedule.cosine(0.5, steps=100).warmup(10)
    >>> [round(schedule(step), 3) for step in (0, 5, 10, 60, 110, 500)]
    [0.0, 0.25, 0.5, 0.25, 0.0, 0.0]
    >>> from drjit.llvm.ad import Float
    >>> opt = dr.opt.Adam(lr=schedule, params={"x": Float(1)})
    >>> opt.learning_rate()
    [0]
    """

    __slots__ = ("_kind", "_options")
    _kind: str
    _options: dict[str, Any]

    def __init__(self) -> None:
        raise TypeError("drjit.opt.Schedule: schedules are made by its methods, such as drjit.opt.Schedule.cosine().")

    @classmethod
    def _of(cls, kind: str, **options: Any) -> Schedule:
        """A schedule, once its arguments have been checked."""
        function = f"drjit.opt.Schedule.{kind}"
        for name, value in options.items():
            if name in ("lr", "last"):
                options[name] = _require(function, name, value, 0)
            elif name == "steps" and (value.__class__ is not int or value < 1):
                raise ValueError(f"{function}(): 'steps' must be a positive int, found {value!r}.")
        result = cls.__new__(cls)
        result._kind, result._options = kind, options
        return result

    @classmethod
    def constant(cls, lr: float) -> Schedule:
        """Always ``lr``.

        >>> dr.opt.Schedule.constant(0.5)(7)
        0.5
        """
        return cls._of("constant", lr=lr)

    @classmethod
    def linear(cls, lr: float, steps: int, last: float = 0.0) -> Schedule:
        """From ``lr`` in a straight line to ``last``, which is reached after ``steps``.

        >>> dr.opt.Schedule.linear(1, 4)(1)
        0.75
        """
        return cls._of("linear", lr=lr, steps=steps, last=last)

    @classmethod
    def cosine(cls, lr: float, steps: int, last: float = 0.0) -> Schedule:
        """From ``lr`` along half a period of the cosine to ``last``, which is reached after ``steps``.

        (I. Loshchilov and F. Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", ICLR 2017.)

        >>> dr.opt.Schedule.cosine(1, 100)(0), dr.opt.Schedule.cosine(1, 100)(100)
        (1.0, 0.0)
        """
        return cls._of("cosine", lr=lr, steps=steps, last=last)

    @classmethod
    def exponential(cls, lr: float, factor: float, steps: int = 1, staircase: bool = False) -> Schedule:
        """``lr * factor**(step / steps)``; with ``staircase``, the exponent is rounded down.

        >>> dr.opt.Schedule.exponential(1, 0.5, steps=10)(20)
        0.25
        """
        if not _require("drjit.opt.Schedule.exponential", "factor", factor, 0):
            raise ValueError("drjit.opt.Schedule.exponential(): 'factor' must be positive, found 0.")
        return cls._of("exponential", lr=lr, factor=float(factor), steps=steps, staircase=bool(staircase))

    @classmethod
    def piecewise(cls, lr: float, values: Mapping[int, float]) -> Schedule:
        """``lr``, then, from each step that is a key of a dictionary on, its value.

        >>> schedule = dr.opt.Schedule.piecewise(1, {100: 0.5, 200: 0.25})
        >>> schedule(99), schedule(100), schedule(500)
        (1.0, 0.5, 0.25)
        """
        keys = _increasing("piecewise", "the keys of 'values'", list(values))
        numbers = {key: _require("drjit.opt.Schedule.piecewise", "values", values[key], 0) for key in keys}
        return cls._of("piecewise", lr=lr, values=numbers)

    @classmethod
    def joined(cls, schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
        """Several schedules one after the other, each of which begins at a boundary with its step 0.

        There is one boundary less than there are schedules.

        >>> first, second = dr.opt.Schedule.linear(1, 10), dr.opt.Schedule.constant(0.125)
        >>> schedule = dr.opt.Schedule.joined([first, second], [5])
        >>> schedule(0), schedule(4), schedule(5)
        (1.0, 0.6, 0.125)
        """
        function = "drjit.opt.Schedule.joined"
        if not all(isinstance(each, Schedule) for each in schedules) or len(schedules) != len(boundaries) + 1:
            raise ValueError(f"{function}(): there must be schedules, and one boundary less than there are of them, "
                             f"found {len(schedules)} and {len(boundaries)}.")
        found = _increasing("joined", "'boundaries'", list(boundaries))
        return cls._of("joined", schedules=tuple(schedules), boundaries=tuple(found))

    def warmup(self, steps: int, first: float = 0.0) -> Schedule:
        """This schedule after some steps in which the learning rate grows from ``first`` to its beginning.

        >>> schedule = dr.opt.Schedule.constant(1).warmup(4)
        >>> schedule(1), schedule(10)
        (0.25, 1.0)
        """
        return self.joined([self.linear(first, steps, self(0)), self], [steps])

    def _at(self, t: Any) -> Any:
        return _FORMULAS[self._kind](t, **self._options)

    def __call__(self, step: Any) -> Any:
        """The learning rate of a step, a number from 0 on, or of an array of them."""
        if isinstance(step, ArrayBase):
            return self._at(retype(type(step), FLOAT64 if step._type == FLOAT64 else FLOAT32)(step))
        number = plain_scalar(step)
        if number is None or number < 0:
            raise ValueError(f"drjit.opt.Schedule: a step is a number from 0 on, or an array, found {step!r}.")
        return float(self._at(float(number)))

    def __repr__(self) -> str:
        return f"Schedule.{self._kind}({', '.join(f'{name}={value!r}' for name, value in self._options.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and (self._kind, self._options) == (other._kind, other._options)

    def __hash__(self) -> int:
        return hash((self._kind, repr(self._options)))

    def __getstate__(self) -> tuple[str, dict[str, Any]]:
        return self._kind, self._options

    def __setstate__(self, state: tuple[str, dict[str, Any]]) -> None:
        self._kind, self._options = state

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return object.__new__, (Schedule,), self.__getstate__()


def _require(function: str, name: str, value: Any, least: float) -> float:
    number = plain_scalar(value)
    if number is None or not least <= number < math.inf:
        raise ValueError(f"{function}(): {name!r} must be a finite number from {least} on, found "
                         f"{value if number is not None else describe(value)}.")
    return float(number)


def _increasing(method: str, what: str, values: list[Any]) -> list[int]:
    if any(value.__class__ is not int or value < 1 for value in values) or values != sorted(set(values)):
        raise ValueError(f"drjit.opt.Schedule.{method}(): {what} must be increasing positive ints, found {values!r}.")
    return values
