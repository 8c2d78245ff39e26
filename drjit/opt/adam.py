"""Adam and AdamW: steps by averages of gradients, divided by averages of their magnitude."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import drjit_core as core
from drjit_core import Node, ReduceOp, literal, ops

from .._base.errors import describe
from .._base.types import FLOAT64
from .._promotion.promote import wrap
from .arguments import by_name, require_between
from .base import Optimizer
from .steps import Parameter, Rate, Step, flat_type

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    r"""Adam: gradient descent by a running average of gradients, divided by one of their magnitude.

    With the gradient :math:`g` and the learning rate :math:`\eta`, the :math:`t`-th step of a parameter is

    .. math::

        m &\leftarrow \beta_1 m + (1 - \beta_1) g \\
        v &\leftarrow \beta_2 v + (1 - \beta_2) g^2 \\
        p &\leftarrow p - \eta \frac{\sqrt{1 - \beta_2^t}}{1 - \beta_1^t} \frac{m}{\sqrt{v} + \varepsilon}.

    (D. P. Kingma and J. Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.) The factor in the middle makes up
    for averages that begin at zero; it counts the steps in which the parameter was active.

    - ``beta_1``, ``beta_2`` in [0, 1) are the weights of the past in the two averages.
    - ``epsilon`` is a number from 0 on that keeps from dividing by zero.
    - ``uniform`` divides by the largest :math:`\sqrt{v}` of all elements, so that all have the same step size
      (UniformAdam: B. Nicolet, A. Jacobson and W. Jakob, "Large Steps in Inverse Rendering of Geometry", 2021). The
      maximum takes a kernel of its own.
    - ``amsgrad`` divides by the largest :math:`\sqrt{v}` that the element has had (S. J. Reddi, S. Kale and S. Kumar,
      "On the Convergence of Adam and Beyond", ICLR 2018). It comes before ``uniform``, which changes nothing then.

    For the other arguments see :class:`Optimizer`. Two arrays of the size of the parameter are kept, three with
    ``amsgrad``.

    >>> from drjit.llvm.ad import Float
    >>> from drjit.opt import Adam
    >>> opt = Adam(lr=0.5, params={"x": Float(0, 0, 0)})
    >>> dr.set_grad(opt["x"], Float(1, -1000, 0))
    >>> opt.step()
    >>> dr.allclose(opt["x"], [-0.5, 0.5, 0])
    True
    """

    _counts = True
    _of_device = "power_1", "power_2"
    _options: ClassVar[tuple[str, ...]] = ("beta_1", "beta_2", "epsilon", "uniform", "amsgrad")

    def __init__(self, lr: Rate, params: Mapping[str, Any] | None = None, *, beta_1: float = 0.9,
                 beta_2: float = 0.999, epsilon: float = 1e-8, mask_updates: bool = False, promote_fp16: bool = True,
                 uniform: bool = False, amsgrad: bool = False) -> None:
        function = describe(type(self))
        self.beta_1 = require_between(function, "beta_1", beta_1, 0, 1)
        self.beta_2 = require_between(function, "beta_2", beta_2, 0, 1)
        self.epsilon = require_between(function, "epsilon", epsilon, 0)
        self.uniform, self.amsgrad = bool(uniform), bool(amsgrad)
        self._slots = ("first", "second", "largest") if self.amsgrad else ("first", "second")
        super().__init__(lr, params, mask_updates=mask_updates, promote_fp16=promote_fp16)

    def _of_rule(self, found: Parameter) -> Any:
        return found.steps, found.state["first"], found.state["second"], found.state.get("largest")

    def _correction(self, step: Step) -> float | Node:
        """What makes up for averages that begin at zero.

        The host counts the steps, unless the device decides which ones count, constructs do, or a frozen function is
        recorded: the device keeps powers of the weights then.
        """
        if step.active is None and not step.shared and core.state.recording is None:
            return math.sqrt(1 - self.beta_2**step.count) / (1 - self.beta_1**step.count)
        powers = []
        for name, beta in zip(self._of_device, (self.beta_1, self.beta_2)):
            old = step.shared.get(name)
            if old is None:
                old = core.opaque(literal(FLOAT64, beta**(step.count - 1)))
            new = ops.mul(old, literal(FLOAT64, beta))
            powers.append(new)
            step.shared[name] = new if step.active is None else ops.select(step.active, new, old)
        one = literal(FLOAT64, 1)
        # (An inactive first step has powers, too: there is no division by zero.)
        return ops.div(ops.sqrt(ops.sub(one, powers[1])), ops.sub(one, powers[0]))  # type: ignore[no-any-return]

    def _shared(self, found: Parameter) -> dict[str, Any]:
        if found.shared:
            return found.shared
        arrays = found.counted()
        if arrays is None:
            cls, nodes = flat_type(type(found.value), FLOAT64), [
                literal(FLOAT64, beta**found.steps) for beta in (self.beta_1, self.beta_2)]
            arrays = {name: wrap(cls, [node]) for name, node in zip(self._of_device, nodes, strict=True)}
            found.powers = found.steps, arrays, nodes
        return arrays

    def _advance(self, step: Step) -> None:
        first = step.average("first", self.beta_1, step.gradients)
        second = step.average("second", self.beta_2, [ops.mul(node, node) for node in step.gradients])
        if self.amsgrad:
            second = step.state["largest"] = [ops.maximum(*pair) for pair in zip(
                step.state["largest"], second, strict=True)]
        elif self.uniform:
            largest = [core.reduce(node, ReduceOp.Max.value) for node in second]
            for node in largest[1:]:
                largest[0] = ops.maximum(largest[0], node)
            second = largest[:1] * len(second)
        epsilon = step.constant(self.epsilon)
        self._begin(step)
        step.descend([ops.div(m, ops.add(ops.sqrt(v), epsilon)) for m, v in zip(first, second, strict=True)],
                     self._correction(step))

    def _begin(self, step: Step) -> None:
        """What happens to the values before they follow the gradients."""


class AdamW(Adam):
    r"""AdamW: :class:`Adam`, and a decay of the parameters that does not depend on gradients.

    A step of AdamW is that of Adam, and subtracts :math:`\eta\lambda p` as well, where :math:`\eta` is the learning
    rate, :math:`\lambda` is ``weight_decay`` and :math:`p` the value before the step. (I. Loshchilov and F. Hutter,
    "Decoupled Weight Decay Regularization", ICLR 2019.) A penalty in the loss would be scaled by Adam, as gradients
    are; this is not.

    ``weight_decay`` is a number from 0 on, or a dictionary of such numbers, or arrays of them, by the names of
    parameters, or functions of names that are true of some, of which the last one counts; others do not decay. That of
    a packed network comes from :meth:`drjit.nn.Module.spread`. For the other arguments see :class:`Adam` and
    :class:`Optimizer`.

    >>> from drjit.llvm.ad import Float
    >>> from drjit.opt import AdamW
    >>> opt = AdamW(lr=0.5, weight_decay=0.5, params={"x": Float(1, 2)})
    >>> opt.step()  # no gradient
    >>> opt["x"]
    [0.75, 1.5]
    >>> params = {"x": Float(1), "bias": Float(1)}
    >>> opt = AdamW(lr=0.5, weight_decay={lambda name: name != "bias": 0.5}, params=params)
    >>> opt.step()
    >>> opt["x"], opt["bias"]
    ([0.75], [1])
    """

    _options: ClassVar[tuple[str, ...]] = (*Adam._options, "weight_decay")

    def __init__(self, lr: Rate, params: Mapping[str, Any] | None = None, *, beta_1: float = 0.9,
                 beta_2: float = 0.999, epsilon: float = 1e-8, weight_decay: float | Mapping[Any, Any] = 0.01,
                 mask_updates: bool = False, promote_fp16: bool = True, uniform: bool = False,
                 amsgrad: bool = False) -> None:
        self.weight_decay = by_name(describe(type(self)), "weight_decay", weight_decay)
        super().__init__(lr, params, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, mask_updates=mask_updates,
                         promote_fp16=promote_fp16, uniform=uniform, amsgrad=amsgrad)

    def _begin(self, step: Step) -> None:
        step.decay(self.weight_decay)
