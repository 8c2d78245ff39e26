"""What happens to gradients between the backward pass and the step, and to parameters after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import drjit_core as core
from drjit_core import COMPUTES_IN

from .._ad.arrays import accum_grad, clear_grad, grad, set_grad, variables
from .._base.arguments import require_count
from .._base.array import ArrayBase
from .._base.errors import RangeError, describe
from .._base.types import reshape, retype
from .._functions.elementwise import fma, maximum, minimum, select, sqrt
from .._functions.evaluation import eval
from .._functions.reductions import sum
from .._functions.states import Place, Stateful, detached
from .._promotion.promote import wrap
from .._trees.classes import sole_array
from .arguments import items, require_between
from .base import Optimizer

__all__ = ["Accumulator", "Average", "clip_grad_norm", "clip_grad_value"]


def _arrays(function: str, params: Any) -> list[Any]:
    """The arrays whose gradients are meant: those of an optimiser, or in a PyTree."""
    if isinstance(params, Optimizer):
        return [sole_array(value) for value in params.values()]
    return list(variables(function, dict(params) if isinstance(params, Mapping) else params))


def _wide(array: Any) -> Any:
    """An array in the precision that is computed in."""
    type_ = COMPUTES_IN[array._type]
    return array if type_ == array._type else retype(type(array), type_)(array)


def _limit(function: str, name: str, value: Any) -> Any:
    """A limit: a number from 0 on, or an array of one element."""
    if isinstance(value, ArrayBase) and value._dynamic and value._kind == "f" and value.shape == (1,):
        return detached(value)
    return require_between(function, name, value, 0)


def clip_grad_value(params: Any, limit: Any) -> None:
    """Bring the gradients of parameters into the range from ``-limit`` to ``limit``, element by element.

    ``params`` is an optimiser, whose next step follows these gradients, a module, or another PyTree of arrays.
    ``limit`` is a number from 0 on or an array of one element: with a :class:`GradScaler`, ``scaler.scale(...)`` of
    one. NaN stay NaN. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> opt = dr.opt.SGD(lr=1, params={"x": Float(1, 2)})
    >>> dr.set_grad(opt["x"], Float(-5, 0.5))
    >>> dr.opt.clip_grad_value(opt, 1)
    >>> dr.grad(opt["x"])
    [-1, 0.5]
    """
    bound = _limit("drjit.opt.clip_grad_value", "limit", limit)
    for array in _arrays("drjit.opt.clip_grad_value", params):
        found = _wide(grad(array))
        set_grad(array, type(array)(maximum(minimum(found, bound), -bound)))


def clip_grad_norm(params: Any, limit: Any) -> Any:
    """Scale the gradients of parameters, if the Euclidean norm of all of them together is larger than ``limit``.

    Returns the norm from before: an array of one element. ``params`` is an optimiser, whose next step follows these
    gradients, a module, or another PyTree of arrays. ``limit`` is a number from 0 on or an array of one element: with a
    :class:`GradScaler`, ``scaler.scale(...)`` of one. The norm is summed in single precision where gradients are of
    half precision. If it is infinite, gradients become zero, or NaN where they are infinite themselves; if it is NaN,
    so are all of them. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> opt = dr.opt.SGD(lr=1, params={"x": Float(1), "y": Float(1)})
    >>> dr.set_grad(opt["x"], 3)
    >>> dr.set_grad(opt["y"], 4)
    >>> dr.opt.clip_grad_norm(opt, 1)
    [5]
    >>> dr.grad(opt["x"]), dr.grad(opt["y"])
    ([0.6], [0.8])
    """
    function = "drjit.opt.clip_grad_norm"
    bound = _limit(function, "limit", limit)
    arrays = _arrays(function, params)
    found = [_wide(grad(array)) for array in arrays]
    total: Any = 0
    for array in found:
        leaf = retype(reshape(type(array), ()), array._type)
        for node in array._nodes():
            part: Any = wrap(leaf, [node])
            total = total + sum(part * part)
    if not found:
        raise RangeError(f"{function}(): there are no arrays that track derivatives.")
    norm = sqrt(total)
    factor = bound / (norm + _TINY)
    factor = select(factor >= 1, 1, factor)
    for array, value in zip(arrays, found, strict=True):
        leaf = retype(reshape(type(value), ()), value._type)
        set_grad(array, type(array)(value * leaf(factor)))
    return detached(norm)


#: Keeps from dividing by zero, as in PyTorch.
_TINY = 1e-6


class Accumulator(Stateful):
    """Steps of an optimiser by the mean of the gradients of several micro-batches.

    ``every`` is the number of micro-batches of a step. After the backward pass of each of them, :meth:`step` adds it to
    those before: gradients are evaluated, so that what is kept does not grow, and the last one lets the optimiser make
    a step by the mean. A state has the gradients of the micro-batches so far; that of the optimiser is loaded before
    it, in a checkpoint in any order. With a :class:`GradScaler`, ``step`` takes it.

    >>> from drjit.llvm.ad import Float
    >>> opt = dr.opt.SGD(lr=1, params={"x": Float(0)})
    >>> batches = dr.opt.Accumulator(opt, every=2)
    >>> for value in (1, 3):
    ...     dr.backward(opt["x"] * value)
    ...     print(batches.step(), opt["x"])
    False [0]
    True [-2]
    """

    def __init__(self, opt: Optimizer, every: int) -> None:
        if not isinstance(opt, Optimizer):
            raise TypeError(f"drjit.opt.Accumulator(): 'opt' must be an optimiser, found {describe(opt)}.")
        self.opt, self.every = opt, require_count("drjit.opt.Accumulator", "every", every)
        if not self.every:
            raise RangeError("drjit.opt.Accumulator(): 'every' must be at least 1, found 0.")
        #: Micro-batches since the last step.
        self.count = 0

    def step(self, scaler: Any = None) -> bool:
        """Add a micro-batch, whose derivatives have flowed back; whether the optimiser has made a step.

        >>> from drjit.llvm.ad import Float
        >>> dr.opt.Accumulator(dr.opt.SGD(lr=1, params={"x": Float(0)}), every=1).step()
        True
        """
        arrays = _arrays("drjit.opt.Accumulator.step", self.opt)
        self.count += 1
        if self.count < self.every:
            core.evaluate([node for array in arrays for node in grad(array)._nodes()])
            return False
        self.count = 0
        if scaler is None:
            self.opt.step(grad_scale=1 / self.every)
            return True
        for array in arrays:
            set_grad(array, type(array)(_wide(grad(array)) * (1 / self.every)))
        scaler.step(self.opt)
        return True

    def __drjit_children__(self) -> dict[str, Any]:
        return {"opt": self.opt, "count": self.count}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Accumulator:
        result = Accumulator(children["opt"], self.every)
        result.count = children["count"]
        return result

    def _state_places(self) -> dict[str, Place]:
        def place(name: str) -> Place:
            def put(value: Any) -> None:
                array = sole_array(self.opt[name])  # as it is by then: its value may have been loaded meanwhile
                clear_grad(array)
                accum_grad(array, value)
            return Place(grad(sole_array(self.opt[name])), put, last=True)

        return {"count": Place(self.count, lambda value: setattr(self, "count", value)),
                **{f"{name}.grad": place(name) for name in self.opt}}


class Average(Stateful, Mapping[str, Any]):
    """An exponential moving average of parameters, which is often better than the last ones.

    ``params`` is a module, an optimiser or a dictionary of arrays of floating-point numbers, by which the average
    begins. :meth:`update` lets it go on by ``average = decay * average + (1 - decay) * parameter``, where ``decay`` is
    a number in [0, 1). The averages are kept in single precision at least; as a dictionary, they have the types of the
    parameters and no derivatives, so that ``net.update(average)`` gives them to a network. (B. T. Polyak and A. B.
    Juditsky, "Acceleration of stochastic approximation by averaging", 1992.)

    >>> from drjit.llvm.ad import Float
    >>> average = dr.opt.Average({"x": Float(0)}, decay=0.75)
    >>> average.update({"x": Float(4)})
    >>> average["x"]
    [1]
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, params: Any, decay: float = 0.999) -> None:
        self.decay = require_between("drjit.opt.Average", "decay", decay, 0, 1)
        self._types: dict[str, Any] = {}
        self._values: dict[str, Any] = {}
        for name, value in items("drjit.opt.Average", params):
            if not isinstance(value, ArrayBase) or value._kind != "f":
                raise TypeError(f"drjit.opt.Average(): {name!r} must be an array of floating-point numbers, found "
                                f"{describe(value)}.")
            self._types[name], self._values[name] = type(value), _wide(detached(value))
        eval(self._values)

    def update(self, params: Any) -> None:
        """Let the averages go on by the values that parameters have now, and evaluate them.

        Raises a ``KeyError`` if one is missing, a ``ValueError`` for another shape; nothing has changed then.

        >>> from drjit.llvm.ad import Float
        >>> average = dr.opt.Average({"x": Float(0)}, decay=0.5)
        >>> for _ in range(2):
        ...     average.update({"x": Float(4)})
        >>> average["x"]
        [3]
        """
        given = dict(items("drjit.opt.Average.update", params))
        missing = [name for name in self._values if name not in given]
        if missing:
            raise KeyError(f"drjit.opt.Average.update(): missing: {', '.join(map(repr, missing))}.")
        result = {}
        for name, old in self._values.items():
            value = given[name]
            if not isinstance(value, ArrayBase) or value.shape != old.shape:
                raise ValueError(f"drjit.opt.Average.update(): {name!r} must be an array of the shape {old.shape}, "
                                 f"found {describe(value)} of the shape {getattr(value, 'shape', ())}.")
            result[name] = fma(type(old)(detached(value)) - old, 1 - self.decay, old)
        self._values = result
        eval(result)

    def __getitem__(self, key: str) -> Any:
        """An average in the type of the parameter."""
        found = self._values[key]
        return found if type(found) is self._types[key] else self._types[key](found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Average(decay={self.decay}, parameters={list(self._values)})"

    def __drjit_children__(self) -> dict[str, Any]:
        return {"values": self._values}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Average:
        result = object.__new__(type(self))
        result.decay, result._types, result._values = self.decay, self._types, children["values"]
        return result

    def _state_places(self) -> dict[str, Place]:
        def place(name: str) -> Place:
            return Place(self._values[name], lambda value: self._values.__setitem__(name, value))
        return {name: place(name) for name in self._values}
