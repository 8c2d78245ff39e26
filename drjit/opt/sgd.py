"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from drjit_core import ops

from .._base.errors import RangeError, describe
from .arguments import require_between
from .base import Optimizer
from .steps import Rate, Step

__all__ = ["SGD"]


class SGD(Optimizer):
    r"""Stochastic gradient descent, with momentum if it is asked for.

    With the gradient :math:`g`, the learning rate :math:`\eta` and the momentum :math:`\mu`, a step is

    .. math::

        v &\leftarrow \mu v + g \\
        p &\leftarrow p - \eta v \quad \text{or, with \texttt{nesterov},} \quad p - \eta (g + \mu v).

    (B. T. Polyak, "Some methods of speeding up the convergence of iteration methods", 1964; Y. Nesterov, "A method for
    solving a convex programming problem with convergence rate O(1/k²)", 1983, in the form of I. Sutskever et al., "On
    the importance of initialization and momentum in deep learning", 2013.)

    ``momentum`` is at least 0; gradients of the past count longer if it is larger (0.9 is typical), and nothing is kept
    if it is 0. ``nesterov`` needs a momentum. For the other arguments see :class:`Optimizer`.

    >>> from drjit.llvm.ad import Float
    >>> from drjit.opt import SGD
    >>> opt = SGD(lr=0.5, momentum=0.5, params={"x": Float(0, 1)})
    >>> for _ in range(2):
    ...     dr.backward(opt["x"])  # gradients are 1
    ...     opt.step()
    >>> opt["x"]
    [-1.25, -0.25]
    """

    _options: ClassVar = ("momentum", "nesterov")

    def __init__(self, lr: Rate, params: Mapping[str, Any] | None = None, *, momentum: float = 0.0,
                 nesterov: bool = False, mask_updates: bool = False, promote_fp16: bool = True) -> None:
        function = describe(type(self))
        self.momentum, self.nesterov = require_between(function, "momentum", momentum, 0), bool(nesterov)
        if nesterov and not momentum:
            raise RangeError(f"{function}(): 'nesterov' needs a 'momentum' above 0, found {momentum!r}.")
        self._slots = ("velocity",) if self.momentum else ()
        super().__init__(lr, params, mask_updates=mask_updates, promote_fp16=promote_fp16)

    def _advance(self, step: Step) -> None:
        direction = step.gradients
        if self.momentum:
            momentum = step.constant(self.momentum)
            velocity = step.state["velocity"] = [ops.fma(momentum, past, gradient) for past, gradient in zip(
                step.state["velocity"], step.gradients, strict=True)]
            direction = [ops.fma(momentum, node, gradient) for node, gradient in zip(
                velocity, step.gradients, strict=True)] if self.nesterov else velocity
        step.descend(direction)
