"""RMSProp: steps divided by the length of past gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from drjit_core import ops

from .._base.errors import describe
from .arguments import require_between
from .base import Optimizer
from .steps import Rate, Step

__all__ = ["RMSProp"]


class RMSProp(Optimizer):
    r"""RMSProp: gradient descent by gradients that are divided by a running average of their magnitude.

    With the gradient :math:`g` and the learning rate :math:`\eta`, a step is

    .. math::

        m &\leftarrow \alpha m + (1 - \alpha) g^2 \\
        p &\leftarrow p - \eta \frac{g}{\sqrt{m} + \varepsilon}.

    (T. Tieleman and G. Hinton, "Lecture 6.5: RMSProp", Neural Networks for Machine Learning, 2012.)

    ``alpha`` in [0, 1) is the weight of the past in the average, ``epsilon`` a number from 0 on that keeps from
    dividing by zero. For the other arguments see :class:`Optimizer`.

    >>> from drjit.llvm.ad import Float
    >>> from drjit.opt import RMSProp
    >>> opt = RMSProp(lr=0.5, alpha=0.75, params={"x": Float(0, 0)})
    >>> dr.set_grad(opt["x"], Float(1, 1000))
    >>> opt.step()
    >>> opt["x"]
    [-1, -1]
    """

    _slots = ("average",)
    _options: ClassVar = ("alpha", "epsilon")

    def __init__(self, lr: Rate, params: Mapping[str, Any] | None = None, *, alpha: float = 0.99,
                 epsilon: float = 1e-8, mask_updates: bool = False, promote_fp16: bool = True) -> None:
        function = describe(type(self))
        self.alpha = require_between(function, "alpha", alpha, 0, 1)
        self.epsilon = require_between(function, "epsilon", epsilon, 0)
        super().__init__(lr, params, mask_updates=mask_updates, promote_fp16=promote_fp16)

    def _advance(self, step: Step) -> None:
        squares = [ops.mul(node, node) for node in step.gradients]
        average = step.average("average", self.alpha, squares)
        step.descend([ops.div(gradient, ops.add(ops.sqrt(node), step.constant(self.epsilon))) for gradient, node in zip(
            step.gradients, average, strict=True)])
