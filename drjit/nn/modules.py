"""Modules: what networks are made of."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, ClassVar

from drjit_core import COMPUTES_IN, VarType

from .._access.store import store
from .._ad.arrays import grad_enabled, set_grad_enabled
from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.types import retype
from .._base.values import plain_integer
from .._functions.creation import full, zeros
from .._functions.evaluation import eval
from .._functions.states import Place, Stateful
from .._functions.traits import tensor_t
from .._random.generator import Generator
from .._random.generator import rng as new_generator
from .._trees.classes import children
from .views import MatrixView, Packable, map_parameters

__all__ = ["Module", "Parameters", "Sequential", "require"]

_SEED = 0x100000000  #: Of the generator of weights, apart from those that programs begin with.


class Module(MutableMapping[str, Any], Packable, Stateful):
    """Base class of what networks are made of: a function of a cooperative vector or a tensor, with parameters.

    A module is called with a :class:`CoopVec` (after :func:`pack`) or with a tensor of features and samples (before),
    and returns what it was given. Before that, ``alloc`` makes a module with parameters of some type.

    A module is a dictionary of its parameters by dotted names, ``layers.0.weights``; of one that is packed, of the
    buffer ``weights``, which assignments write into, so that views of it see them. So optimisers take parameters over
    by ``opt.update(net)``, and give them back by ``net.update(opt)``. Values of another precision are converted;
    other shapes raise a ``ValueError``, what is no array a ``TypeError``, unknown names a ``KeyError``.

    Classes that are derived name their fields in ``DRJIT_STRUCT``, work without arguments (or set what those would),
    and define ``__call__``. Modules among these fields, in lists and dictionaries as well, get their parameters if they
    know what they take. Classes with parameters of their own define ``_alloc(dtype, size, rng)``, which returns a
    module with parameters, and the number of components that it returns.

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
    #: Whether the arrays in it are no parameters.
    _constant = False
    #: Whether it returns as many components as it gets.
    _keeps = False
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

        Classes that do not say it have fields that know what they take, and are presumed to return as much as they get.
        """
        result = copy.copy(self)
        for name in self.DRJIT_STRUCT:
            setattr(result, name, _allocated(getattr(self, name), dtype, rng))
        return result, size

    @property
    def _wants(self) -> int:
        """The number of components that the input must have; -1 if any."""
        return -1

    def _gives(self, size: int) -> int:
        """The number of components of the output, as far as that is known before parameters are allocated; else -1."""
        return size if self._keeps else -1

    # --- the mapping -------------------------------------------------------------------------------------------------

    @property
    def _prefix(self) -> str:
        found = getattr(self, "prefix", "")
        return f"{found}." if found else ""

    def _places(self) -> Iterator[tuple[str, Any, Any]]:
        """Names of parameters, and the containers and keys that they are found by."""
        for name in () if self._constant else self.DRJIT_STRUCT:
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

    # --- the state, parameters in whatever form they are -------------------------------------------------------------

    def _entries(self) -> Iterator[tuple[str, Place]]:
        """What the module holds, whether packed or not, by names without the prefix."""
        for name in self.DRJIT_STRUCT:
            yield from _entries(name, self, name, getattr(self, name, None))

    def _state_places(self) -> dict[str, Place]:
        return {f"{self._prefix}{name}": place for name, place in self._entries()}

    def parameters(self, where: Callable[[str], Any] | None = None) -> Parameters:
        """A table of the parameters: a dictionary of tensors by the names that they have before packing.

        ``where`` is a function of names, which chooses some of them. Those of a packed module are read from the buffer.
        (:meth:`state_dict` has more: also that of encodings and generators in the module.)

        >>> from drjit.llvm import TensorXf
        >>> net = dr.nn.Sequential(dr.nn.Linear(2, 32), dr.nn.ReLU(), dr.nn.Linear(-1, 1)).alloc(TensorXf)
        >>> dr.nn.pack(net).parameters()
        name              shape    type     elements
        layers.0.weights  (32, 2)  Float32  64
        layers.0.bias     (32,)    Float32  32
        layers.2.weights  (1, 32)  Float32  32
        layers.2.bias     (1,)     Float32  1
        total                               129
        >>> list(net.parameters(lambda name: name.endswith("bias")))
        ['layers.0.bias', 'layers.2.bias']
        """
        places = {f"{self._prefix}{name}": _entry(holder, key) for name, holder, key in self._places()}
        views = {f"{self._prefix}{name}": view._tensor() for name, view in _views(self)}
        return Parameters((name, value) for name, value in {**places, **views}.items() if where is None or where(name))

    def spread(self, function: Callable[[str], float], /) -> dict[str, Any]:
        """A number for each parameter, as ``function`` tells it by name: what optimisers take as learning rates.

        The keys are those of the module. Of a packed one, which is a single parameter of an optimiser, it is an array
        with a number for each element.

        >>> from drjit.llvm.ad import TensorXf
        >>> net = dr.nn.pack(dr.nn.Linear(2, 1).alloc(TensorXf))
        >>> opt = dr.opt.SGD(lr=1, params=net)
        >>> opt.set_learning_rate(net.spread(lambda name: 0.5 if name == "bias" else 0.25))
        >>> opt.learning_rate("weights")
        [0.25, 0.25, 0.5]
        """
        if not self._in_buffer:
            return {name: function(name) for name in self}
        buffer = self._buffer()
        found = zeros(retype(type(buffer), COMPUTES_IN[buffer._type]), len(buffer))
        for name, view in _views(self):
            view._with(_buffer=found)._write(full(tensor_t(found), function(f"{self._prefix}{name}"), view._steps[:2]))
        eval(found)
        return dict.fromkeys(self, found)

    def train(self, mode: bool = True) -> Any:
        """Let layers that differ in training, :class:`Dropout`, be as they are in training, or after it (``False``).

        Changes the module, and returns it. A packed copy has the same such layers.

        >>> net = dr.nn.Sequential(dr.nn.Linear(1, 2), dr.nn.Dropout())
        >>> net.train(False).layers[1].training
        False
        """
        def change(module: Any) -> None:
            if hasattr(module, "training"):
                module.training = bool(mode)

        return self.apply(change)

    def apply(self, function: Callable[[Module], Any], /) -> Any:
        """Call a function of each module within this one, then of itself, and return it.

        >>> net = dr.nn.Sequential(dr.nn.Linear(1, 2), dr.nn.Dropout())
        >>> net.apply(lambda module: print(type(module).__name__)) is net
        Linear
        Dropout
        Sequential
        True
        """
        for module in _modules(self):
            function(module)
        return self

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
        return self if self._constant else self.__drjit_rebuild__({
            name: map_parameters(getattr(self, name, None), visit) for name in self.DRJIT_STRUCT})

    def _be_packed(self, packed: bool) -> None:
        self._in_buffer = packed

    def _config(self) -> str:
        return ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._config()})"


def require(module: Module, condition: bool, what: str) -> None:
    """See to it that a module is called as it can be."""
    if not condition:
        raise RuntimeError(f"drjit.nn.{type(module).__name__}: {what}")


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


def _entries(path: str, holder: Any, key: Any, value: Any) -> Iterator[tuple[str, Place]]:
    """What has a state in a field of a module, or in what that holds."""
    if isinstance(value, ArrayBase):
        if value._kind == "f" and value._depth <= 0 and not getattr(holder, "_constant", False):
            yield path, Place(value, lambda new: _put(holder, key, _like(value, new)))
    elif isinstance(value, MatrixView):
        yield path, Place(value._tensor(), value._write)
    elif isinstance(value, Stateful):
        for name, place in value._entries() if isinstance(value, Module) else value._state_places().items():
            yield f"{path}.{name}", place
    else:
        for name, child in children(value) or ():
            yield from _entries(f"{path}.{name}", value, name, child)


def _like(old: Any, new: Any) -> Any:
    """A new value, of which a gradient is wanted if there was one of the old value."""
    set_grad_enabled(new, grad_enabled(old))
    return new


class Parameters(dict[str, Any]):
    """Parameters by name, shown as a table: what :meth:`drjit.nn.Module.parameters` returns.

    >>> from drjit.llvm import TensorXf
    >>> dr.nn.Linear(2, 1, bias=False).alloc(TensorXf).parameters()
    name     shape   type     elements
    weights  (1, 2)  Float32  2
    total                     2
    """

    def __repr__(self) -> str:
        rows = [("name", "shape", "type", "elements"), *((name, str(value.shape), VarType(value._type).name, str(
            math.prod(value.shape))) for name, value in self.items())]
        rows.append(("total", "", "", str(sum(math.prod(value.shape) for value in self.values()))))
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _views(value: Any, path: str = "") -> Iterator[tuple[str, MatrixView]]:
    """The views in a module."""
    if isinstance(value, MatrixView):
        yield path, value
    elif not isinstance(value, ArrayBase):
        for name, child in children(value) or ():
            yield from _views(child, f"{path}.{name}" if path else str(name))


def _modules(value: Any) -> Iterator[Module]:
    """The modules in a module, and itself at the end."""
    if not isinstance(value, ArrayBase):
        for _, child in children(value) or ():
            yield from _modules(child)
    if isinstance(value, Module):
        yield value


def _share_buffer(module: Module) -> None:
    """Let all views in a module that was made anew have one buffer again."""
    found = [view for _, view in _views(module)]
    for view in found:
        view._buffer = found[0]._buffer


def _allocated(value: Any, dtype: Any, rng: Any) -> Any:
    """A field of a module, with parameters."""
    if isinstance(value, Module):
        return value._alloc(dtype, value._wants, rng)[0]
    if isinstance(value, (list, tuple)) and any(isinstance(entry, Module) for entry in value):
        return type(value)(_allocated(entry, dtype, rng) for entry in value)
    if isinstance(value, dict):
        return {key: _allocated(entry, dtype, rng) for key, entry in value.items()}
    return value


def _entry(holder: Any, key: Any) -> Any:
    return getattr(holder, key) if isinstance(holder, Module) else dict(children(holder) or ())[key]


def _put(holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, (list, dict)):
        holder[key] = value
    else:
        setattr(holder, key, value)


class Sequential(Module):
    """Modules that are evaluated one after the other, each with the result of the one before it.

    ``prefix`` stands before the names of all parameters, as in ``mlp.layers.0.weights``: of use where one optimiser has
    the parameters of several networks. Layers of given sizes that do not fit raise a ``ValueError``. A module that is
    given several times has parameters of its own in each place once they are allocated.

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
            since, size = (number if new != size or layer._gives(-1) > 0 else since), new

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
        found, since, presumed = [], None, False
        for number, layer in enumerate(self.layers):
            if presumed and layer._wants > 0:
                size = layer._wants
            self._check(number, size, since)
            made, new = layer._alloc(dtype, size, rng)
            presumed = type(layer)._alloc is Module._alloc and not layer._keeps or presumed and layer._keeps
            since, size = (number if new != size or layer._gives(-1) > 0 else since), new
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
