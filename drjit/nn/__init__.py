"""Neural networks: cooperative vectors, products with matrices, modules and encodings.

A network is made of modules, gets parameters of some type, and is packed into one buffer for products with cooperative
vectors, which are part of the kernel that needs them:

>>> from drjit.llvm.ad import Float, TensorXf
>>> net = dr.nn.Sequential(dr.nn.Linear(2, 16), dr.nn.ReLU(), dr.nn.Linear(-1, 1)).alloc(TensorXf)
>>> net = dr.nn.pack(net, layout="training")
>>> y, = net(dr.nn.CoopVec(Float(0.5, 1), Float(2, 3)))
>>> y.shape
(2,)
"""

from .activations import Cast, Exp, Exp2, LeakyReLU, ReLU, ScaleAdd, Tanh
from .encodings import HashEncodingLayer, SinEncode, TriEncode
from .hashing import HashGridEncoding, PermutoEncoding
from .linear import Linear
from .modules import Module, Parameters, Sequential
from .product import matvec
from .saving import checkpoints, load_checkpoint, save_checkpoint
from .tensors import load_safetensors, save_safetensors
from .vector import CoopVec, cast
from .views import MatrixView, pack, unpack, view

__all__ = ["Cast", "CoopVec", "Exp", "Exp2", "HashEncodingLayer", "HashGridEncoding",
           "LeakyReLU", "Linear", "MatrixView", "Module", "Parameters", "PermutoEncoding", "ReLU", "ScaleAdd",
           "Sequential", "SinEncode", "Tanh", "TriEncode", "cast", "checkpoints", "load_checkpoint", "load_safetensors",
           "matvec", "pack", "save_checkpoint", "save_safetensors", "unpack", "view"]

for _name in __all__:
    globals()[_name].__module__ = "drjit.nn"
del _name
