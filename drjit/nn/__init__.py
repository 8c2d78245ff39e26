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

from .activations import (
    ELU,
    GELU,
    Cast,
    Exp,
    Exp2,
    Identity,
    LeakyReLU,
    ReLU,
    ScaleAdd,
    Sigmoid,
    SiLU,
    Sin,
    Softplus,
    Tanh,
)
from .encodings import HashEncodingLayer, OneBlob, SinEncode, SphericalHarmonics, TriEncode
from .hashing import HashGridEncoding, PermutoEncoding
from .layers import Concat, Dropout, Embedding, LayerNorm, RMSNorm, Skip
from .linear import Linear
from .modules import Module, Parameters, Sequential
from .product import matvec
from .pytorch import from_torch, to_torch
from .saving import checkpoints, load_checkpoint, save_checkpoint
from .tensors import load_safetensors, save_safetensors
from .vector import CoopVec, cast
from .views import MatrixView, pack, unpack, view

__all__ = ["Cast", "Concat", "CoopVec", "Dropout", "ELU", "Embedding", "Exp", "Exp2", "GELU", "HashEncodingLayer",
           "HashGridEncoding", "Identity", "LayerNorm", "LeakyReLU", "Linear", "MatrixView", "Module", "OneBlob",
           "Parameters", "PermutoEncoding", "RMSNorm", "ReLU", "ScaleAdd", "Sequential", "SiLU", "Sigmoid", "Sin",
           "SinEncode", "Skip", "Softplus", "SphericalHarmonics", "Tanh", "TriEncode", "cast", "checkpoints",
           "from_torch", "load_checkpoint", "load_safetensors", "matvec", "pack", "save_checkpoint",
           "save_safetensors", "to_torch", "unpack", "view"]

for _name in __all__:
    globals()[_name].__module__ = "drjit.nn"
del _name
