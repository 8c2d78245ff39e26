"""Loss scaling: gradients of half precision that neither vanish nor overflow."""

from __future__ import annotations

import math
from typing import Any

import drjit_core as core
from drjit_core import ReduceOp, literal, ops

from .._arrays.broadcasting import make
from .._base.arguments import require_count, require_float
from .._base.array import ArrayBase
from .._base.errors import RangeError, describe
from .._base.types import BOOL, FLOAT32, UINT32, reshape, retype
from .._functions.states import Place, Stateful
from .._promotion.promote import wrap
from .._trees.classes import sole_array
from .base import Optimizer
from .steps import Number

__all__ = ["GradScaler"]

#: Between these the scale, which is of single precision, and its reciprocal are finite and normal numbers.
_LEAST, _MOST = 2.0**-126, 2.0**126


class GradScaler(Stateful):
    """Scaling of the loss, and of gradients back, in programs that compute with half precision.

    Gradients of half precision become zero where they are small. Those of a loss that is multiplied by a large number
    do not, and a step may divide them by that number. If it is too large, gradients overflow: the scaler finds that
    out (by infinities and NaN among them), skips the step, and goes on with a smaller scale. If nothing overflows for
    long, it tries larger ones. (P. Micikevicius et al., "Mixed Precision Training", ICLR 2018.) All of this happens on
    the device: the program does not wait for it.

    - ``init_scale`` is the scale to begin with. It is large, so that the first steps may be skipped. The scale stays
      between ``2**-126`` and ``2**126`` at all times, whatever gradients are.
    - ``growth_factor``, at least 1 and finite: what the scale is multiplied by after a step, once ``growth_interval``
      steps have passed without an overflow, until there is one.
    - ``backoff_factor``, above 0 and below 1: what it is multiplied by after an overflow.
    - ``debug`` prints a line whenever the scale changes, and waits for each step.

    >>> from drjit.llvm.ad import Float16
    >>> from drjit.opt import GradScaler, SGD
    >>> opt = SGD(lr=0.5, params={"x": Float16(3)})
    >>> scaler = GradScaler(init_scale=1024)
    >>> x = opt["x"]
    >>> dr.backward(scaler.scale(x * x * 1e-4))
    >>> scaler.step(opt)
    >>> dr.allclose(opt["x"], 3 - 3e-4, rtol=1e-3)
    True
    """

    def __init__(self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, debug: bool = False) -> None:
        scale, growth, backoff = (require_float("drjit.opt.GradScaler", name, value) for name, value in (
            ("init_scale", init_scale), ("growth_factor", growth_factor), ("backoff_factor", backoff_factor)))
        for name, value, valid, wanted in (("init_scale", scale, _LEAST <= scale <= _MOST, "in [2**-126, 2**126]"),
                                           ("growth_factor", growth, 1 <= growth < math.inf, ">= 1 and finite"),
                                           ("backoff_factor", backoff, 0 < backoff < 1, "above 0 and below 1")):
            if not valid:
                raise RangeError(f"drjit.opt.GradScaler(): {name!r} must be {wanted}, found {value!r}.")
        self.growth_factor, self.backoff_factor = growth, backoff
        self.growth_interval = require_count("drjit.opt.GradScaler", "growth_interval", growth_interval)
        self.debug = bool(debug)
        self._scale = Number("scale", FLOAT32, scale)
        #: Steps since the last overflow.
        self._steps = Number("steps", UINT32, 0)

    def __drjit_variables__(self) -> list[tuple[Number, bool]]:
        """What changes on the device; of none of it steps are counted."""
        return [(self._scale, False), (self._steps, False)]

    def __repr__(self) -> str:
        options = ("growth_factor", "backoff_factor", "growth_interval", "debug")
        return f"GradScaler({', '.join(f'{name}={getattr(self, name)}' for name in options)})"

    def scale(self, arg: Any, /) -> Any:
        """Multiply an array (a loss) by the scale; half precision becomes single precision.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import GradScaler
        >>> GradScaler(init_scale=4).scale(Float(1, 2))
        [4, 8]
        """
        return self._times("scale", arg)

    def unscale(self, arg: Any, /) -> Any:
        """Divide an array by the scale. (:meth:`step` does that with gradients.)

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import GradScaler
        >>> GradScaler(init_scale=4).unscale(Float(1, 2))
        [0.25, 0.5]
        """
        return self._times("unscale", arg)

    def _belong(self, cls: Any) -> None:
        """Let the numbers be where arrays of a class are."""
        for number in (self._scale, self._steps):
            number.belong(cls)

    def _times(self, method: str, arg: Any) -> Any:
        """An array, also one of another package, times the scale or, to ``unscale``, its reciprocal."""
        array: Any = sole_array(arg)
        if not isinstance(array, ArrayBase) or not array._dynamic or array._kind != "f":
            raise TypeError(f"drjit.opt.GradScaler.{method}(): the argument must be an array of floating-point "
                            f"numbers, found {describe(arg)}.")
        self._belong(type(array))
        node = self._scale.node if method == "scale" else ops.div(literal(FLOAT32, 1), self._scale.node)
        foreign = array is not arg
        return arg * (arg.__array_namespace__().asarray(make(retype(type(array), FLOAT32), node, ())) if foreign else
                      wrap(retype(reshape(type(array), ()), FLOAT32), [node]))

    def step(self, opt: Optimizer, **kwargs: Any) -> None:
        """Let an optimiser make a step with gradients of the scaled loss, unless one of them is infinite or NaN.

        ``kwargs`` goes to :meth:`Optimizer.step`: ``eval``, that is.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import GradScaler, SGD
        >>> opt, scaler = SGD(lr=1, params={"x": Float(1)}), GradScaler(init_scale=4)
        >>> dr.set_grad(opt["x"], dr.inf)
        >>> scaler.step(opt)
        >>> opt["x"], scaler.scale(Float(1))
        ([1], [2])
        """
        if not isinstance(opt, Optimizer):
            raise TypeError(f"drjit.opt.GradScaler.step(): 'opt' must be an optimiser, found {describe(opt)}.")
        unknown = kwargs.keys() - {"eval"}
        if unknown:
            raise TypeError(f"drjit.opt.GradScaler.step(): {', '.join(map(repr, sorted(unknown)))} cannot be given: "
                            "the scaler says itself what gradients are multiplied by, and whether the step is made.")
        parameters = list(opt._parameters.values())
        if not parameters:
            return
        finite = literal(BOOL, True)
        for parameter in parameters:
            for node in parameter.gradients():
                finite = ops.and_(finite, core.reduce(core.isfinite(node), ReduceOp.And.value))
        cls = type(parameters[0].value)
        self._belong(cls)
        arrays = [wrap(retype(reshape(cls, ()), node.type), [node])
                  for node in (ops.div(literal(FLOAT32, 1), self._scale.node), finite)]
        opt.step(grad_scale=arrays[0], active=arrays[1], **{**kwargs, "eval": False})
        before = self._scale.node
        steps = ops.add(self._steps.node, literal(UINT32, 1))
        grows = ops.gt(steps, literal(UINT32, self.growth_interval))
        growth = ops.select(grows, literal(FLOAT32, self.growth_factor), literal(FLOAT32, 1))
        scale = ops.mul(before, ops.select(finite, growth, literal(FLOAT32, self.backoff_factor)))
        usable = ops.and_(ops.ge(scale, literal(FLOAT32, _LEAST)), ops.le(scale, literal(FLOAT32, _MOST)))
        self._scale.node = scale = ops.select(usable, scale, before)
        self._steps.node = ops.select(finite, steps, literal(UINT32, 0))
        core.schedule([self._scale.node, self._steps.node])
        if kwargs.get("eval", True):
            opt._evaluate()
        if self.debug:
            old, new = (core.read_element(node, 0) for node in (before, scale))
            if old != new:
                what = "increasing" if new > old else "overflow: reducing"
                print(f"GradScaler: {what} the scale from {old:g} to {new:g}")  # noqa: T201 - asked for

    def _state_places(self) -> dict[str, Place]:
        """What the device changes: reading it waits for that."""
        return {"scale": self._scale.place(), "steps": self._steps.place()}
