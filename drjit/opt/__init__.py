"""Optimisation by gradient descent: optimisers, and loss scaling for half precision.

An optimiser owns the parameters that it optimises: a program fetches them by name, computes a loss from them, lets
derivatives flow back to them, and asks the optimiser for a step.

>>> from drjit.auto.ad import Float
>>> from drjit.opt import Adam
>>> opt = Adam(lr=0.1, params={"x": Float(3, -2)})
>>> for _ in range(200):
...     x = opt["x"]
...     loss = dr.squared_norm(x - 1)
...     dr.backward(loss)
...     opt.step()
>>> dr.allclose(opt["x"], 1, atol=1e-3)
True
"""

from .adam import Adam, AdamW
from .base import Optimizer
from .gradients import Accumulator, Average, clip_grad_norm, clip_grad_value
from .muon import Muon
from .rmsprop import RMSProp
from .scaler import GradScaler
from .schedules import Schedule
from .sgd import SGD

__all__ = ["Accumulator", "Adam", "AdamW", "Average", "GradScaler", "Muon", "Optimizer", "RMSProp", "SGD", "Schedule",
           "clip_grad_norm", "clip_grad_value"]

for _name in __all__:
    globals()[_name].__module__ = "drjit.opt"
del _name
