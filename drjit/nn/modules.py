"""Modules: what networks are made of."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, ClassVar

from .._access.store import store
from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.types import FLOAT32, FLOAT64, retype
from .._base.values import plain_integer
from .._functions.creation import zeros
from .._functions.elementwise import exp, exp2, fma, maximum, select, tanh
from .._functions.evaluation import eval
from .._random.generator import Generator
from .._random.generator import rng as new_generator
from .._trees.classes import children
from .product import matvec
from .vector import CoopVec, cast, on_components
from .views import MatrixView, Packable, map_parameters

__all__ = ["Cast", "Exp", "Exp2", "LeakyReLU", "Linear", "Module", "ReLU", "ScaleAdd", "Sequential", "Tanh"]

_SEED = 0x100000000  #: Of the generator of weights, apart from those that programs begin with.


class Module(MutableMapping[str, Any], Packable):
    """Base class of what networks are made of: a function of a cooperative vector or a tensor, with parameters.

    A module is called with a :class:`CoopVec` (after :func:`pack`) or with a tensor of features and samples (before),
    and returns what it was given. Before that, ``alloc`` makes a module with parameters of some type.

    A module is a dictionary of its parameters by dotted names, ``layers.0.weights``; of one that is packed, of the
    buffer ``weights``, which assignments write into, so that views of it see them. So optimisers take parameters over
    by ``opt.update(net)``, and give them back by ``net.update(opt)``. Values of another precision are converted;
    other shapes raise a ``ValueError``, what is no array a ``TypeError``, unknown names a ``KeyError``.

    Classes that are derived name their fields in ``DRJIT_STRUCT``, work without arguments (or set what those would),
    and define ``__call__``; those with parameters also ``_alloc(dtype, size, rng)``, which returns a module with
    parameters, and the number of components that it returns.

    >>> from drjit.llvm import Float, TensorXf16
    >>> net = dr.nn.Sequential(dr.nn.Linear(-1, 32), dr.nn.ReLU(), dr.nn.Linear(-1, 3))
    >>> net = net.alloc(TensorXf16, size=2)
    >>> list(net)
    ['layers.0.weights', 'layers.0.bias', 'layers.2.weights', 'layers.2.bias']
    >>> net = dr.nn.pack(net, layout="training")
    >>> x = dr.nn.cast(dr.nn.CoopVec(Float(0.5, 1), 2), dr.llvm.Float16)
    >>> len(net(x))
    3
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {}
    #: Whether all parameters lie in one buffer.
    _in_buffer = False
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, arg: Any, /) -> Any:
        """The result for a cooperative vector, or for a tensor of features and samples.

        >>> from drjit.llvm import Float
        >>> list(dr.nn.ReLU()(dr.nn.CoopVec(Float(-1, 2), 3)))
        [[0, 2], [3]]
        """
        raise NotImplementedError(f"{type(self).__name__}.__call__() is not implemented.")

    def alloc(self, dtype: Any, size: int = -1, rng: Generator | None = None) -> Any:
        """A module like this one with parameters, which are drawn anew.

        ``dtype`` is the tensor type of the parameters, of floating-point numbers. ``size`` is the number of components
        of the input, which is wanted if the first layer does not tell (else a ``RuntimeError``). Layers whose sizes do
        not fit raise a ``ValueError``. ``rng`` draws the parameters; the default is
        ``dr.rng(seed=0x100000000)``, anew for each call. Evaluates the parameters.

        >>> from drjit.llvm import TensorXf
        >>> dr.nn.Linear(-1, 3).alloc(TensorXf, size=2)
        Linear(in_features=2, out_features=3)
        """
        function = f"drjit.nn.{type(self).__name__}.alloc"
        if not isinstance(dtype, type) or not issubclass(dtype, ArrayBase) or dtype._depth >= 0 or dtype._kind != "f":
            raise TypeError(f"{function}(): 'dtype' must be a tensor type of floating-point numbers, such as "
                            f"drjit.llvm.ad.TensorXf, found {describe(dtype)}.")
        count = plain_integer(size)
        if count is None or (count < 1 and count != -1):
            raise ValueError(f"{function}(): 'size' must be a positive int or -1, found {size!r}.")
        result, _ = self._alloc(dtype, count, new_generator(seed=_SEED) if rng is None else rng)
        eval(result)
        return result

    def _alloc(self, dtype: Any, size: int, rng: Any, /) -> tuple[Any, int]:
        """A module with parameters, given the number of components of its input (-1: unknown), and that of its output.
        """
        return self, size

    @property
    def _wants(self) -> int:
        """The number of components that the input must have; -1 if any."""
        return -1

    def _gives(self, size: int) -> int:
        """The number of components of the output, as far as that is known before parameters are allocated."""
        return size

    # --- the mapping -------------------------------------------------------------------------------------------------

    @property
    def _prefix(self) -> str:
        found = getattr(self, "prefix", "")
        return f"{found}." if found else ""

    def _places(self) -> Iterator[tuple[str, Any, Any]]:
        """Names of parameters, and the containers and keys that they are found by."""
        for name in self.DRJIT_STRUCT:
            yield from _places(name, self, name, getattr(self, name, None))

    def _buffer(self) -> Any:
        """The buffer of a packed module, if it has parameters."""
        return next((view.buffer for _, view in _views(self)), None)

    def _slots(self) -> dict[str, tuple[Any, Any]]:
        """What is found by the names of parameters: a container, and a key."""
        return {f"{self._prefix}{name}": (holder, key) for name, holder, key in self._places()}

    def __iter__(self) -> Iterator[str]:
        if self._in_buffer:
            return iter([f"{self._prefix}weights"] if self._buffer() is not None else [])
        return iter(self._slots())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, key: str) -> Any:
        """A parameter: the object that the module holds.

        >>> from drjit.llvm import TensorXf
        >>> dr.nn.Linear(2, 3).alloc(TensorXf)["weights"].shape
        (3, 2)
        """
        if self._in_buffer:
            if key != f"{self._prefix}weights" or self._buffer() is None:
                raise KeyError(key)
            return self._buffer()
        holder, name = self._slots()[key]
        return _entry(holder, name)

    def __setitem__(self, key: str, value: Any) -> None:
        """Replace a parameter; of a packed module, write to the buffer.

        >>> from drjit.llvm import TensorXf
        >>> net = dr.nn.Linear(1, 2).alloc(TensorXf)
        >>> net["weights"] = TensorXf([1, 2], (2, 1))
        >>> net["weights"]
        [[1],
         [2]]
        """
        old = self[key]
        if not isinstance(value, ArrayBase) or value._kind != "f" or value._depth > 0 or \
                value._record.backend is not old._record.backend:
            raise TypeError(f"{type(self).__name__}: the parameter {key!r} is of the type {describe(old)}, found "
                            f"{describe(value)}.")
        if value.shape != old.shape:
            raise ValueError(f"{type(self).__name__}: the parameter {key!r} has the shape {old.shape}, found "
                             f"{value.shape}.")
        if type(value) is not type(old):
            value = type(old)(value)
        if self._in_buffer:
            store(old, value._nodes())
        else:
            holder, name = self._slots()[key]
            _put(holder, name, value)

    def __delitem__(self, key: str) -> None:
        raise TypeError(f"{type(self).__name__}: parameters cannot be deleted.")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __bool__(self) -> bool:
        return True

    # --- PyTrees, copies, packing ------------------------------------------------------------------------------------

    def __drjit_children__(self) -> dict[str, Any]:
        return {name: getattr(self, name, None) for name in self.DRJIT_STRUCT}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Any:
        result = copy.copy(self)
        for name, value in children.items():
            object.__setattr__(result, name, value)
        if self._in_buffer:
            _share_buffer(result)
        return result

    def _map_parameters(self, visit: Callable[[Any], Any]) -> Any:
        return self.__drjit_rebuild__({name: map_parameters(getattr(self, name, None), visit)
                                       for name in self.DRJIT_STRUCT})

    def _be_packed(self, packed: bool) -> None:
        self._in_buffer = packed

    def _config(self) -> str:
        return ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._config()})"


def _places(path: str, holder: Any, key: Any, value: Any) -> Iterator[tuple[str, Any, Any]]:
    """The parameters in a field of a module, or in what that holds."""
    if isinstance(value, ArrayBase):
        if value._kind == "f" and value._depth <= 0:
            yield path, holder, key
    elif isinstance(value, Module):
        for name, *place in value._places():
            yield f"{path}.{name}", *place
    elif not isinstance(value, MatrixView):
        for name, child in children(value) or ():
            yield from _places(f"{path}.{name}", value, name, child)


def _views(value: Any, path: str = "") -> Iterator[tuple[str, MatrixView]]:
    """The views in a module."""
    if isinstance(value, MatrixView):
        yield path, value
    elif not isinstance(value, ArrayBase):
        for name, child in children(value) or ():
            yield from _views(child, f"{path}.{name}" if path else str(name))


def _share_buffer(module: Module) -> None:
    """Let all views in a module that was made anew have one buffer again."""
    found = [view for _, view in _views(module)]
    for view in found:
        view._buffer = found[0]._buffer


def _entry(holder: Any, key: Any) -> Any:
    return getattr(holder, key) if isinstance(holder, Module) else dict(children(holder) or ())[key]


def _put(holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, (list, dict)):
        holder[key] = value
    else:
        setattr(holder, key, value)


def _require(module: Module, condition: bool, what: str) -> None:
    if not condition:
        raise RuntimeError(f"drjit.nn.{type(module).__name__}: {what}")


class Sequential(Module):
    """Modules that are evaluated one after the other, each with the result of the one before it.

    ``prefix`` stands before the names of all parameters, as in ``mlp.layers.0.weights``: of use where one optimiser has
    the parameters of several networks. Layers of given sizes that do not fit raise a ``ValueError``.

    >>> from drjit.llvm import TensorXf
    >>> net = dr.nn.Sequential(dr.nn.Linear(2, 3), dr.nn.Tanh(), prefix="mlp").alloc(TensorXf)
    >>> list(net)
    ['mlp.layers.0.weights', 'mlp.layers.0.bias']
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"layers": tuple, "prefix": str}

    def __init__(self, *args: Module, prefix: str = "") -> None:
        for number, layer in enumerate(args):
            if not isinstance(layer, Module):
                raise TypeError(f"drjit.nn.Sequential(): layer {number} is no module, but {describe(layer)}.")
        self.layers, self.prefix = tuple(args), prefix
        size, since = self._wants, None
        for number, layer in enumerate(self.layers):
            self._check(number, size, since)
            new = layer._gives(size)
            since, size = (number if new != size or isinstance(layer, Linear) else since), new

    def __call__(self, arg: Any, /) -> Any:
        """The result of the last module.

        >>> from drjit.llvm import Float
        >>> dr.nn.Sequential(dr.nn.ReLU(), dr.nn.Exp2())(Float(-1, 3))
        [1, 8]
        """
        for layer in self.layers:
            arg = layer(arg)
        return arg

    @property
    def _wants(self) -> int:
        return self.layers[0]._wants if self.layers else -1

    def _gives(self, size: int) -> int:
        for layer in self.layers:
            size = layer._gives(size)
        return size

    def _check(self, number: int, size: int, since: int | None) -> None:
        """See to it that a layer fits the one whose output it gets."""
        layer, wants = self.layers[number], self.layers[number]._wants
        if size > 0 and wants > 0 and size != wants:
            source = f"the input has {size}" if since is None else \
                f"layer {since}, {_brief(self.layers[since])}, returns {size}"
            raise ValueError(f"drjit.nn.Sequential: layer {number}, {_brief(layer)}, takes {wants} components, but "
                             f"{source}.")

    def _alloc(self, dtype: Any, size: int, rng: Any, /) -> tuple[Any, int]:
        found, since = [], None
        for number, layer in enumerate(self.layers):
            self._check(number, size, since)
            made, new = layer._alloc(dtype, size, rng)
            since, size = (number if new != size or isinstance(layer, Linear) else since), new
            found.append(made)
        result = copy.copy(self)
        result.layers, result._in_buffer = tuple(found), False
        return result, size

    def __repr__(self) -> str:
        lines = ",\n".join(repr(layer) for layer in self.layers).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  {lines}\n)" if lines else f"{type(self).__name__}()"


def _brief(layer: Module) -> str:
    """A layer in messages: in one line."""
    text = repr(layer)
    return text if "\n" not in text else type(layer).__name__


class Linear(Module):
    """An affine transformation with parameters: ``weights @ x + bias``.

    ``in_features=-1`` takes as many components as the layer before returns, ``out_features=-1`` returns as many as it
    takes. Without ``bias``, nothing is added. ``alloc`` draws the weights between ``-k`` and ``k``, where ``k`` is
    ``1 / sqrt(out_features)``; biases begin as zeros.

    >>> from drjit.llvm import Float, TensorXf
    >>> layer = dr.nn.Linear(2, 1).alloc(TensorXf)
    >>> layer["weights"] = TensorXf([1, 2], (1, 2))
    >>> layer["bias"] = TensorXf([3], (1,))
    >>> layer(TensorXf([1, 10, 1, 20], (2, 2)))
    [[6, 53]]
    >>> list(dr.nn.pack(layer)(dr.nn.CoopVec(Float(1, 10), Float(1, 20))))
    [[6, 53]]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"config": tuple, "weights": object, "bias": object}

    def __init__(self, in_features: int = -1, out_features: int = -1, bias: bool = True) -> None:
        for name, value in (("in_features", in_features), ("out_features", out_features)):
            count = plain_integer(value)
            if count is None or (count < 1 and count != -1):
                raise ValueError(f"drjit.nn.Linear(): {name!r} must be a positive int or -1, found {value!r}.")
        self.config = int(in_features), int(out_features), bool(bias)
        self.weights: Any = None
        self.bias: Any = None

    @property
    def _wants(self) -> int:
        return self.config[0]

    def _gives(self, size: int) -> int:
        into, out, _ = self.config
        return out if out > 0 else into if into > 0 else size

    def _alloc(self, dtype: Any, size: int, rng: Any, /) -> tuple[Any, int]:
        into, out, bias = self.config
        if into < 0:
            into = size
        if into < 0:
            raise RuntimeError("drjit.nn.Linear.alloc(): the network has layers of an unknown size: pass the number of "
                               "components of the input, as in net.alloc(dtype, size=2).")
        if size > 0 and size != into:
            raise ValueError(f"drjit.nn.Linear: {self!r} takes {into} components, but the input has {size}.")
        if out < 0:
            out = into
        drawn = dtype if dtype._type == FLOAT64 else retype(dtype, FLOAT32)
        weights = (rng.random(drawn, (out, into)) * 2 - 1) * (1 / math.sqrt(out))
        result = Linear(into, out, bias)
        result.weights = dtype(weights)
        if bias:
            result.bias = zeros(dtype, (out,))
        return result, out

    def __call__(self, arg: Any, /) -> Any:
        """The product with the weights, and the bias added.

        >>> from drjit.llvm import TensorXf
        >>> dr.nn.Linear(3, 2).alloc(TensorXf)(dr.zeros(TensorXf, (3, 5))).shape
        (2, 5)
        """
        weights, bias = self.weights, self.bias
        _require(self, weights is not None, "the network has no parameters yet: net = net.alloc(<tensor type>) makes a "
                                            "network that has.")
        if isinstance(arg, CoopVec):
            _require(self, isinstance(weights, MatrixView), "cooperative vectors need packed weights: drjit.nn.pack("
                                                            "net) makes a network that has.")
            return matvec(weights, arg, bias)
        _require(self, not isinstance(weights, MatrixView), "tensors need weights that are not packed: pass a "
                                                            "drjit.nn.CoopVec, or use the network from before "
                                                            "drjit.nn.pack().")
        if not isinstance(arg, ArrayBase) or arg._depth >= 0:
            raise TypeError(f"drjit.nn.Linear: the input is a cooperative vector, or a tensor of features and samples, "
                            f"found {describe(arg)}.")
        if arg.ndim != 2 or arg.shape[0] != weights.shape[1]:
            raise RuntimeError(f"drjit.nn.Linear: the input is a tensor of {weights.shape[1]} features and any number "
                               f"of samples, found the shape {arg.shape}.")
        result = weights @ arg
        return result if bias is None else result + bias[:, None]

    def _config(self) -> str:
        into, out, bias = self.config
        return f"in_features={into}, out_features={out}{'' if bias else ', bias=False'}"


class ReLU(Module):
    """The larger one of ``x`` and 0.

    >>> from drjit.llvm import Float
    >>> dr.nn.ReLU()(Float(-1, 2))
    [0, 2]
    """

    def __call__(self, arg: Any, /) -> Any:
        """``max(x, 0)``."""
        return on_components(arg, lambda x: maximum(x, 0))


class LeakyReLU(Module):
    """``x`` where that is positive, else ``negative_slope * x``; the slope is a number or an array.

    >>> from drjit.llvm import Float
    >>> dr.nn.LeakyReLU(0.1)(Float(-1, 2))
    [-0.1, 2]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"negative_slope": object}

    def __init__(self, negative_slope: Any = 0.01) -> None:
        self.negative_slope = negative_slope

    def __call__(self, arg: Any, /) -> Any:
        """``x`` or ``negative_slope * x``."""
        slope = self.negative_slope
        return on_components(arg, lambda x: select(x >= 0, x, x * _converted(slope, x)))

    def _map_parameters(self, visit: Callable[[Any], Any]) -> Any:
        return self

    def _places(self) -> Iterator[tuple[str, Any, Any]]:
        return iter(())


def _converted(value: Any, like: Any) -> Any:
    """A number, or an array in the precision of another one."""
    if not isinstance(value, ArrayBase):
        return value
    return retype(type(value), like._type)(value)


class Exp(Module):
    """The exponential function.

    >>> from drjit.llvm import Float
    >>> dr.nn.Exp()(Float(0))
    [1]
    """

    def __call__(self, arg: Any, /) -> Any:
        """``exp(x)``."""
        return on_components(arg, exp)


class Exp2(Module):
    """The exponential function to base 2.

    >>> from drjit.llvm import Float
    >>> dr.nn.Exp2()(Float(3))
    [8]
    """

    def __call__(self, arg: Any, /) -> Any:
        """``exp2(x)``."""
        return on_components(arg, exp2)


class Tanh(Module):
    """The hyperbolic tangent.

    >>> from drjit.llvm import Float
    >>> dr.nn.Tanh()(Float(0))
    [0]
    """

    def __call__(self, arg: Any, /) -> Any:
        """``tanh(x)``."""
        return on_components(arg, tanh)


class Cast(Module):
    """Conversion to the scalar type of an array type ``dtype``.

    >>> from drjit.llvm import Float, Float16
    >>> dr.nn.Cast(Float16)(dr.nn.CoopVec(Float(1)))
    drjit.nn.CoopVec[drjit.llvm.Float16, shape=(1, 1)]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"dtype": type}

    def __init__(self, dtype: Any = None) -> None:
        self.dtype = dtype

    def __call__(self, arg: Any, /) -> Any:
        """The input in another precision."""
        dtype = self.dtype
        if not isinstance(dtype, type) or not issubclass(dtype, ArrayBase):
            raise TypeError(f"drjit.nn.Cast: the type to convert to must be an array type, found {describe(dtype)}.")
        if isinstance(arg, CoopVec):
            return cast(arg, dtype)
        return retype(type(arg), dtype._type)(arg)

    def _config(self) -> str:
        return f"dtype={self.dtype.__name__ if isinstance(self.dtype, type) else self.dtype}"


class ScaleAdd(Module):
    """``x * scale + offset``, by constants: numbers or flat arrays, which are no parameters.

    >>> from drjit.llvm import Float
    >>> dr.nn.ScaleAdd(2, 1)(Float(3))
    [7]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"scale": object, "offset": object}

    def __init__(self, scale: Any = None, offset: Any = None) -> None:
        self.scale, self.offset = scale, offset

    def __call__(self, arg: Any, /) -> Any:
        """``x * scale + offset``."""
        scale, offset = self.scale, self.offset
        if scale is None or offset is None:
            raise RuntimeError("drjit.nn.ScaleAdd: there must be a scale and an offset.")
        return on_components(arg, lambda x: fma(x, _converted(scale, x), _converted(offset, x)))

    def _map_parameters(self, visit: Callable[[Any], Any]) -> Any:
        return self

    def _places(self) -> Iterator[tuple[str, Any, Any]]:
        return iter(())
