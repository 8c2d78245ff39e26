"""Muon: steps along orthogonal matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import drjit_core as core
from drjit_core import ReduceOp, literal, ops

from .._arrays.products import product
from .._base.arguments import require_count
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._base.types import retype
from .._promotion.promote import wrap_like
from .arguments import by_name, require_between
from .base import Optimizer
from .steps import Rate, Step

__all__ = ["Muon"]

#: Coefficients of the iteration x <- a x + b x³ + c x⁵ on singular values, which takes those in (0, 1] to about 1
#: quickly (to between 0.7 and 1.2 in five steps): K. Jordan, "Muon", 2024, section "Deriving the coefficients".
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_EPSILON = 1e-7  # added to the norm of the matrix; the same source


class Muon(Optimizer):
    r"""Muon: gradient descent with momentum, along the orthogonal matrix next to the direction of descent.

    It is meant for the weights of hidden layers of neural networks, which are tensors with two axes; biases, and the
    first and last layers, are better left to :class:`AdamW`. With the gradient :math:`G` and the learning rate
    :math:`\eta`, a step is

    .. math::

        M &\leftarrow \mu M + (1 - \mu) G \\
        P &\leftarrow P - \eta \lambda P - \eta \sqrt{\max(1, \tfrac{\text{rows}}{\text{columns}})}\; O(D),

    where :math:`D` is :math:`M` or, with ``nesterov``, :math:`(1 - \mu) G + \mu M`, and :math:`O` replaces all singular
    values by about 1, by ``ns_steps`` steps of a Newton-Schulz iteration. (K. Jordan et al., "Muon: An optimizer for
    hidden layers in neural networks", https://kellerjordan.github.io/posts/muon/, 2024.)

    - ``lr`` is the spectral norm of a step, but for the factor of tall matrices.
    - ``params`` must be tensors with two axes. :meth:`Optimizer.update` ignores all other entries of a dictionary, so
      that it may be given all parameters of a network.
    - ``momentum`` is in [0, 1), ``ns_steps`` an int from 0 on, ``weight_decay`` (:math:`\lambda`) a number from 0
      on, or a dictionary as for :class:`AdamW`.

    For the other arguments see :class:`Optimizer`. The products of matrices are kernels of their own.

    >>> from drjit.llvm.ad import TensorXf
    >>> from drjit.opt import Muon
    >>> opt = Muon(lr=1, params={"x": TensorXf([[0, 0], [0, 0]])})
    >>> dr.set_grad(opt["x"], TensorXf([[1000, 0], [0, 1]]))
    >>> opt.step()
    >>> dr.norm(opt["x"].array) < 1.5  # both singular values are about 1, or on the way there
    [True]
    """

    _slots = ("momentum",)
    _options: ClassVar = ("momentum", "nesterov", "ns_steps", "weight_decay")

    def __init__(self, lr: Rate, params: Mapping[str, Any] | None = None, *, momentum: float = 0.95,
                 nesterov: bool = True, ns_steps: int = 5, weight_decay: float | Mapping[Any, Any] = 0.0,
                 mask_updates: bool = False, promote_fp16: bool = True) -> None:
        function = describe(type(self))
        self.momentum, self.nesterov = require_between(function, "momentum", momentum, 0, 1), bool(nesterov)
        self.ns_steps = require_count(function, "ns_steps", ns_steps)
        self.weight_decay = by_name(function, "weight_decay", weight_decay)
        super().__init__(lr, params, mask_updates=mask_updates, promote_fp16=promote_fp16)

    def _check(self, key: str, value: Any) -> None:
        if not _is_matrix(value):
            raise ArgumentError(f"{self._method('__setitem__')}(): the parameter {key!r} must be a tensor with two "
                                f"axes, found {describe(value)} of shape {value.shape}.")

    def _accepted(self, items: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
        return ((key, value) for key, value in items if _is_matrix(value))

    def _advance(self, step: Step) -> None:
        direction = step.average("momentum", self.momentum, step.gradients)
        if self.nesterov:
            old, new = step.constant(self.momentum), step.constant(1 - self.momentum)
            direction = [ops.fma(old, direction[0], ops.mul(new, step.gradients[0]))]
        value = step.parameter.value
        rows, columns = value.shape
        if self.weight_decay:
            step.decay(self.weight_decay)
        tensor = wrap_like(value, retype(type(value), step.type), direction)
        step.descend(_orthogonal(tensor, self.ns_steps)._nodes(), max(1.0, rows / columns)**0.5)


def _is_matrix(value: Any) -> bool:
    return isinstance(value, ArrayBase) and value._depth < 0 and len(value.shape) == 2


def _orthogonal(matrix: Any, steps: int) -> Any:
    """About the orthogonal matrix next to one: U V* of its singular value decomposition U S V*."""
    node, cls = matrix._nodes()[0], type(matrix)
    norm = ops.sqrt(core.reduce(ops.mul(node, node), ReduceOp.Add.value))
    x = wrap_like(matrix, cls, [ops.div(node, ops.add(norm, literal(node.type, _EPSILON)))])
    a, b, c = (literal(node.type, value) for value in _COEFFICIENTS)
    tall = matrix.shape[0] > matrix.shape[1]  # the smaller one of the two products with the transpose
    for _ in range(steps):
        gram = _product(x, x, tall, not tall)
        square = _product(gram, gram)
        factor = wrap_like(gram, cls, [ops.fma(c, square._nodes()[0], ops.mul(b, gram._nodes()[0]))])
        change = _product(x, factor) if tall else _product(factor, x)
        x = wrap_like(x, cls, [ops.fma(a, x._nodes()[0], change._nodes()[0])])
    return x


def _product(a: Any, b: Any, at: bool = False, bt: bool = False) -> Any:
    return product("drjit.opt.Muon.step", a, b, (at, bt))
