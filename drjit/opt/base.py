"""What all optimisers have in common: parameters by name, learning rates, and steps.

A parameter is stored without derivatives, as a plain array (half precision as single precision, if that is wanted),
with one vertex of the graph of derivatives for each of its components. What is handed out joins the two; a step reads
the gradients of the vertices, and replaces both. So what a program does to an array that it was handed stays there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, ClassVar

import drjit_core as core
from drjit_core import COMPUTES_IN, cast, literal

from .._ad.arrays import differentiable
from .._base.array import ArrayBase
from .._base.errors import SizeError, describe
from .._base.types import FLOAT64, UINT32, retype
from .._functions.evaluation import copy
from .._functions.states import Place, Stateful, detached, fitting
from .._promotion.promote import wrap_like
from .._trees.classes import sole_array
from . import arguments
from .schedules import Schedule
from .steps import LITERAL, Nodes, Number, Parameter, Rate, Step, dressed, flat_type, values_of

__all__ = ["Optimizer"]


class Optimizer(MutableMapping[str, Any], Stateful):
    """Base class of optimisers: parameters by name, their learning rates, and what steps have in common.

    An optimiser is a dictionary of parameters, which are arrays of floating-point numbers of types that track
    derivatives (``drjit.*.ad``): flat and nested arrays, tensors, and matrices, quaternions and complex numbers, which
    are optimised component by component, and real arrays of ``drjit.array_api``. It owns them: what it is given is
    copied (without copying memory), and what it returns is a variable, with a gradient of its own since the last step.
    :meth:`step` reads that gradient and changes the parameter; arrays fetched earlier stay as they are, and changing
    them in place changes no parameter. Parameters may be added, assigned and deleted at any time.

    - ``lr`` is the learning rate, a number from 0 on, an array that is broadcast to parameters, or a
      :class:`Schedule`; :meth:`set_learning_rate` changes it, for all of them or for one.
    - ``params`` is a dictionary of parameters to begin with.
    - ``mask_updates`` leaves elements alone whose gradient is zero: neither they nor what the optimiser keeps for them
      (their momentum, say) change. Useful where a step sees a part of a parameter only.
    - ``promote_fp16`` stores parameters of half precision, and what is kept for them, in single precision. Programs
      still see half precision: it is rounded when they fetch it, so that small steps add up. Otherwise half precision
      is stored. Either way a step computes in single precision.

    Derived classes say how a step is made: use one of them. All parameters of one size take their step in one
    kernel, which is the same in each iteration. An optimiser is a PyTree of what it stores (for ``dr.eval``,
    ``dr.copy``, loops: with ``eval=False``), and may be pickled. Functions of loops, branches and calls change one that
    is among their arguments, for the elements that take part; one that they find otherwise they only read.

    >>> from drjit.llvm.ad import Float
    >>> from drjit.opt import SGD
    >>> opt = SGD(lr=0.25, params={"x": Float(1, 2)})
    >>> x = opt["x"]
    >>> dr.backward(x * x)
    >>> opt.step()
    >>> opt["x"], x
    ([0.5, 1], [1, 2])
    """

    #: Names of the arrays that the rule keeps for each component, zero at first.
    _slots: tuple[str, ...] = ()
    #: Whether the rule asks for the number of a step.
    _counts: ClassVar[bool] = False
    #: What the rule may keep on the device for a parameter as a whole: numbers of double precision.
    _of_device: ClassVar[tuple[str, ...]] = ()
    #: Attributes to show.
    _options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, lr: Rate, params: Mapping[str, Any] | None = None, *,
                 mask_updates: bool = False, promote_fp16: bool = True) -> None:
        self._rate = arguments.learning_rate(describe(type(self)), "'lr'", lr)
        self.mask_updates, self.promote_fp16 = bool(mask_updates), bool(promote_fp16)
        self._parameters: dict[str, Parameter] = {}
        self._registered = 0
        #: Steps since there has been a schedule.
        self._clock: Number | None = None
        self._follow([self._rate])
        if params is not None:
            for key, value in arguments.items(describe(type(self)), params):
                self[key] = value

    @property
    def lr(self) -> float | ArrayBase:
        """The learning rate of all parameters that have none of their own: see :meth:`learning_rate`.

        >>> from drjit.opt import SGD
        >>> SGD(lr=0.5).lr
        0.5
        """
        rate: float | ArrayBase = self._now(self._rate)
        return rate

    def _now(self, rate: Any) -> Any:
        """A learning rate as it is in the next step."""
        return rate(self._clock.array()) if isinstance(rate, Schedule) and self._clock else rate

    def _follow(self, rates: Iterable[Any]) -> None:
        """Count steps, if one of some learning rates is a schedule."""
        if self._clock is None and any(isinstance(rate, Schedule) for rate in rates):
            self._clock = Number("clock", UINT32, 0)
            self._place_clock()

    def _place_clock(self) -> None:
        """Let the steps be counted where the parameters are."""
        if self._clock is not None and self._parameters:
            self._clock.belong(type(next(iter(self._parameters.values())).value))

    @property
    def state(self) -> dict[str, tuple[Any, ...]]:
        """What is kept for each parameter, by name: the value in the precision that it is kept in, whether that is
        higher than the program's, the learning rate of its own (or None), and what the rule of the optimiser keeps: one
        array, or several as a tuple, or None. Those of Adam are the number of steps, as far as the host has counted
        them (those that are made in loops, branches and calls are counted for each element), and the averages of
        gradients and of their squares (and the largest of the latter, or None).

        >>> from drjit.llvm.ad import Float
        >>> dr.opt.SGD(lr=1, params={"x": Float(1, 2)}).state
        {'x': ([1, 2], False, None, None)}
        """
        return {name: (detached(found.value), found.promoted, found.rate, self._of_rule(found))
                for name, found in self._parameters.items()}

    def _of_rule(self, found: Parameter) -> Any:
        """What the rule keeps for a parameter, as programs see it."""
        return next(iter(found.state.values()), None)

    # --- a dictionary of parameters ----------------------------------------------------------------------------------

    def _method(self, name: str) -> str:
        return f"{describe(type(self))}.{name}"

    def _find(self, method: str, key: Any) -> Parameter:
        found = self._parameters.get(key)
        if found is None:
            names = ", ".join(map(repr, self._parameters)) or "none"
            raise KeyError(f"{self._method(method)}(): there is no parameter {key!r} (found: {names}).")
        return found

    def _check(self, key: str, value: Any) -> None:
        """Raise, if a value cannot be a parameter."""

    def __contains__(self, key: object, /) -> bool:
        """Whether there is a parameter of a name."""
        return key in self._parameters

    def __len__(self) -> int:
        """The number of parameters."""
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __getitem__(self, key: str, /) -> Any:
        """The value of a parameter: a variable, whose gradient the next step follows."""
        return self._find("__getitem__", key).array()

    def __setitem__(self, key: str, value: Any, /) -> None:
        """Change the value of a parameter, or add one.

        What is kept for a parameter (momentum and the like) stays, unless its type or shape changes. Evaluates nothing,
        except that constants are put in memory. Raises a ``TypeError`` for anything but arrays that can track
        derivatives, and a ``RuntimeError`` for empty ones.
        """
        self._enter(self._made(key, value))

    def _enter(self, found: Parameter) -> None:
        """Have a parameter; one of that name becomes like it, since others may know it."""
        old = self._parameters.setdefault(found.name, found)
        if old is not found:
            old.become(found)
        self._place_clock()

    def _made(self, key: Any, value: Any) -> Parameter:
        """A parameter with a new value, to take the place of the one of that name if there is one."""
        function = self._method("__setitem__")
        if not isinstance(key, str):
            raise TypeError(f"{function}(): the name of a parameter must be a str, found {describe(key)}.")
        form, value = value, sole_array(value)
        if not differentiable(value):
            value = form
            hint = "" if not isinstance(value, ArrayBase) or value._kind != "f" or not value._dynamic else \
                " Types of the same name in drjit.*.ad do."
            if not isinstance(value, ArrayBase):
                hint = " The arrays of a PyTree are parameters of their own, each by its name."
            raise TypeError(f"{function}(): the parameter {key!r} must be an array or a tensor of floating-point "
                            f"numbers that can track derivatives, found {describe(value)}.{hint}")
        if any(not node.size for node in value._nodes()) or not value._nodes():
            raise SizeError(f"{function}(): the parameter {key!r} is empty.")
        self._check(key, value)
        cls = type(value)
        promoted = retype(cls, COMPUTES_IN[value._type]) if self.promote_fp16 else cls
        nodes = values_of(value)
        if form is not value:  # of a constant, which takes no memory
            form = dressed(form, wrap_like(value, cls, [literal(node.type, 0, node.size) for node in nodes]))
        nodes = [cast(node, promoted._type) for node in nodes]
        # constants in memory: the kernel of the first step is that of all others
        stored = wrap_like(value, promoted, [core.opaque(node, promoted._where) if node.kind == LITERAL else node
                                             for node in nodes])
        old = self._parameters.get(key)
        serial = self._registered if old is None else old.serial
        self._registered += old is None
        found = Parameter(key, cls, stored, serial, None if form is value else form)
        if old is not None:
            found.rate = old.rate
        if old is not None and old.shape() == found.shape():
            found.state, found.shared, found.steps = old.state, old.shared, old.steps
        else:
            self._clear(found)
        return found

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a parameter, which is added first if there is none of that name.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> x = SGD(lr=1).setdefault("x", Float(1))
        >>> x, dr.grad_enabled(x)
        ([1], True)
        """
        if key not in self:
            self[key] = default
        return self[key]

    def __delitem__(self, key: str, /) -> None:
        """Remove a parameter, and what is kept for it."""
        self._find("__delitem__", key)
        del self._parameters[key]

    def keys(self) -> Iterator[str]:  # type: ignore[override]
        """The names of the parameters, one after the other.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> list(SGD(lr=1, params={"x": Float(1), "y": Float(2, 3)}).keys())
        ['x', 'y']
        """
        return iter(self)

    def values(self) -> Iterator[Any]:  # type: ignore[override]
        """The values of the parameters, one after the other.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> list(SGD(lr=1, params={"x": Float(1), "y": Float(2, 3)}).values())
        [[1], [2, 3]]
        """
        return (self[key] for key in self)

    def items(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        """Names and values of the parameters, one after the other.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> list(SGD(lr=1, params={"x": Float(1), "y": Float(2, 3)}).items())
        [('x', [1]), ('y', [2, 3])]
        """
        return ((key, self[key]) for key in self)

    def update(self, params: Any = None, **args: Any) -> None:  # type: ignore[override]
        """Assign several parameters: those of a dictionary, then those given by name.

        What is known for a parameter of the same type and shape stays (momentum and the like), see :meth:`reset`. If a
        value cannot be a parameter, nothing changes.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> opt = SGD(lr=1)
        >>> opt.update({"x": Float(1)}, y=Float(2, 3))
        >>> opt["x"], opt["y"]
        ([1], [2, 3])
        """
        given = [] if params is None else list(self._accepted(arguments.items(self._method("update"), params)))
        found = [self._made(key, value) for key, value in (*given, *args.items())]
        for parameter in found:
            self._enter(parameter)

    def _accepted(self, items: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
        """Those of many parameters that an optimiser of this class is for."""
        return items

    # Two optimisers with equal parameters are not the same, and arrays have no truth value.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        rates = {"default": self._rate} | {
            name: found.rate for name, found in self._parameters.items() if found.rate is not None}
        count = sum(math.prod(found.value.shape) for found in self._parameters.values())
        shown = {"parameters": list(self._parameters), "total_count": count, "lr": rates,
                 **{name: getattr(self, name) for name in (*self._options, "mask_updates", "promote_fp16")}}
        return f"{type(self).__name__}[\n" + ",\n".join(f"  {name} = {value}" for name, value in shown.items()) + "\n]"

    # --- the state as a dictionary, see Stateful ----------------------------------------------------------------------

    def _state_places(self) -> dict[str, Place]:
        def rate(value: Any, convert: bool) -> Any:
            return None if value is None else arguments.learning_rate(self._method("load_state_dict"), "'lr'", value)

        def set_rate(value: Any) -> None:
            self._rate = value

        result = {} if isinstance(self._rate, Schedule) else {"lr": Place(self._rate, set_rate, rate)}
        if self._clock is not None:
            result["clock"] = self._clock.place()
        for name, found in self._parameters.items():
            result |= {f"{name}.{key}": place for key, place in self._of_parameter(found, rate)}
        return result

    def _of_parameter(self, found: Parameter, rate: Any) -> Iterator[tuple[str, Place]]:
        """The places of a parameter: its value, what the rule keeps for it, the steps, a learning rate of its own."""
        def put(holder: dict[str, Any], key: str) -> Callable[[Any], None]:
            return lambda value: holder.pop(key, None) if value is None else holder.__setitem__(key, value)

        def set_value(value: Any) -> None:
            found.value = value
            found.attach()

        def stored(like: Any) -> Any:
            def accept(value: Any, convert: bool) -> Any:
                array = fitting(like, value, convert, None if like is found.value else (1,))
                return wrap_like(array, type(array), [core.opaque(node, like._where) if node.kind == LITERAL else node
                                                      for node in array._nodes()])
            return accept

        value = found.value
        yield "value", Place(value, set_value, stored(value))
        for key, array in found.state.items():
            yield key, Place(array, put(found.state, key), stored(value))
        for key in self._of_device:
            like = flat_type(type(value), FLOAT64)(0)
            yield key, Place(found.shared.get(key), put(found.shared, key), stored(like), optional=True)
        yield "steps", Place(found.steps, lambda steps: setattr(found, "steps", steps))
        if not isinstance(found.rate, Schedule):
            yield "lr", Place(found.rate, lambda value: setattr(found, "rate", value), rate, optional=True)

    # --- learning rates ----------------------------------------------------------------------------------------------

    def learning_rate(self, key: str | None = None) -> float | ArrayBase | None:
        """The default learning rate, or that of a parameter: ``None``, if it has none of its own. Of a schedule it is
        an array, the learning rate of the next step.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> opt = SGD(lr=1, params={"x": Float(1)})
        >>> opt.learning_rate(), opt.learning_rate("x")
        (1.0, None)
        """
        rate: Any = self._now(self._rate if key is None else self._find("learning_rate", key).rate)
        return detached(rate) if isinstance(rate, ArrayBase) else rate  # type: ignore[no-any-return]

    def set_learning_rate(self, value: Any = None, /, **kwargs: Any) -> None:
        """Set the default learning rate (a number, an array, or a :class:`Schedule`, for which steps are counted from
        here on), or those of parameters (a dictionary, or by name).

        The learning rate of a parameter comes before the default; ``None`` removes it. A key of the dictionary may be a
        function of names, which then stands for all parameters whose names it is true of; later keys come before
        earlier ones. Kernels stay the same. Raises a ``KeyError`` for names that are no parameters, and changes nothing
        then.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> opt = SGD(lr=1, params={"x": Float(1), "y": Float(2)})
        >>> opt.set_learning_rate(0.5)
        >>> opt.set_learning_rate({"x": 0.25}, y=0.125)
        >>> opt.set_learning_rate(y=None)
        >>> opt.learning_rate(), opt.learning_rate("x"), opt.learning_rate("y")
        (0.5, 0.25, None)
        >>> opt.set_learning_rate({lambda name: name != "x": 2})
        >>> opt.learning_rate("x"), opt.learning_rate("y")
        (0.25, 2.0)
        """
        function = self._method("set_learning_rate")
        default, rates = self._rate, dict(kwargs)
        if isinstance(value, Mapping):
            given = [(name, rate) for key, rate in value.items()
                     for name in (filter(key, self) if callable(key) else (key,))]
            rates = {**dict(given), **rates}
        elif value is not None:
            default = arguments.learning_rate(function, "the learning rate", value)
        found = [(self._find("set_learning_rate", key), None if rate is None else arguments.learning_rate(
            function, f"the learning rate of {key!r}", rate)) for key, rate in rates.items()]
        self._rate = default
        self._follow([default, *(rate for _, rate in found)])
        for parameter, rate in found:
            parameter.rate = rate

    # --- steps -------------------------------------------------------------------------------------------------------

    def _advance(self, step: Step) -> None:
        """Make a step: the rule of a derived class."""
        raise NotImplementedError(f"{step.function}(): {describe(type(self))} holds parameters, and does not say how "
                                  "steps are made: use drjit.opt.SGD, RMSProp, Adam, AdamW or Muon.")

    def step(self, *, eval: bool = True, grad_scale: float | ArrayBase | None = None,
             active: Any = None) -> None:
        """Change all parameters by their gradients, which are zero afterwards.

        - ``eval``: whether to evaluate parameters and all else that has changed, in one kernel for all parameters of
          one size. Otherwise parameters are evaluated when they are needed, so that what is computed from them can
          share the kernel; what else the optimiser keeps is evaluated with the next evaluation of anything.
        - ``grad_scale``: gradients are multiplied by this number or array first.
        - ``active``: ``False``, or an array of one element that is false, keeps parameters and state as they are.

        Raises a ``RuntimeError`` where an array does not fit a parameter. If it raises, nothing has changed.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> opt = SGD(lr=0.25, params={"x": Float(1, 2)})
        >>> dr.set_grad(opt["x"], Float(4, 0))
        >>> opt.step(grad_scale=0.5)
        >>> opt["x"], opt["x"].grad
        ([0.5, 2], [0, 0])
        """
        function = self._method("step")
        mask = arguments.mask(function, active)
        scale = None if grad_scale is None else arguments.factor(function, "'grad_scale'", grad_scale)
        found = list(self._parameters.values())
        if mask is False:
            for parameter in found:
                parameter.attach()
            return
        steps = []
        for parameter in found:
            rate: Any = self._now(self._rate if parameter.rate is None else parameter.rate)
            step = Step(function, parameter, rate, scale, mask)
            self._advance(step)
            step.keep(self.mask_updates)
            steps.append(step)
        for step in steps:
            step.finish()
        if self._clock is not None:
            self._clock.count(mask)
        if eval:
            self._evaluate()
        else:
            core.schedule([node for node in self._kept() if not node.scope])

    def _kept(self) -> Nodes:
        """The nodes of all that the rule keeps."""
        return [node for parameter in self._parameters.values()
                for array in (*parameter.state.values(), *parameter.shared.values()) for node in array._nodes()] + \
            ([] if self._clock is None else [self._clock.node])

    def _evaluate(self) -> None:
        core.evaluate([node for parameter in self._parameters.values() for node in parameter.value._nodes()]
                      + self._kept())

    def reset(self, key: str | None = None) -> None:
        """Forget what steps have left behind for a parameter (momentum, averages, counts), or for all of them.

        Values and learning rates stay.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> opt = SGD(lr=1, momentum=0.5, params={"x": Float(0)})
        >>> dr.set_grad(opt["x"], 1)
        >>> opt.step()
        >>> opt.reset("x")
        >>> opt.step()  # the gradient is zero, and nothing else would move it
        >>> opt["x"]
        [-1]
        """
        for parameter in self._parameters.values() if key is None else (self._find("reset", key),):
            self._clear(parameter)

    def _clear(self, parameter: Parameter) -> None:
        value = parameter.value
        # each in memory of its own: the kernel of the first step is that of all others
        parameter.state = {name: wrap_like(value, type(value), [
            core.opaque(literal(node.type, 0, node.size), value._where) for node in value._nodes()])
            for name in self._slots}
        parameter.shared, parameter.steps = {}, 0

    # --- a PyTree ----------------------------------------------------------------------------------------------------

    def __drjit_variables__(self) -> list[tuple[Any, bool]]:
        """The parameters, which are kept apart from what the traversal protocol shows, and whether their steps count.
        """
        found: list[tuple[Any, bool]] = list(zip(self._parameters.values(), itertools.repeat(self._counts)))
        if self._clock is not None:
            found.append((self._clock, False))
        return found

    def __drjit_children__(self) -> dict[Any, Any]:
        clock = {} if self._clock is None else {"clock": self._clock.array()}
        return {"lr": self._rate, **clock, "state": {name: {
            "value": found.value, "gradient": found.gradient(), "lr": found.rate, "state": found.state,
            "shared": self._shared(found)}
            for name, found in self._parameters.items()}}

    def __drjit_rebuild__(self, children: dict[Any, Any]) -> Any:
        result: Any = object.__new__(type(self))
        result.__dict__.update(self.__dict__)
        result._rate = children["lr"]
        if "clock" in children:
            result._clock = Number("clock", UINT32, 0)
            result._clock.cls = type(children["clock"])
            result._clock.take(children["clock"]._nodes())
        result._parameters = {}
        for name, child in children["state"].items():
            old = self._parameters[name]
            found = result._parameters[name] = Parameter(name, old.cls, child["value"], old.serial, old.form)
            found.follow(old, child["gradient"])
            found.rate, found.state, found.shared = child["lr"], child["state"], child["shared"]
            found.steps, found.powers = old.steps, old.powers
            counted = found.counted()
            if counted is not None and core.innermost() is None and not old.shared and all(
                    found.shared.get(key) is array for key, array in counted.items()):
                found.shared = {}  # the host goes on counting
        return result

    def _shared(self, found: Parameter) -> dict[str, Any]:
        """What is kept for a parameter as arrays of one element, or in constructs of one for each element: of rules
        that ask for the number of a step, also if the host counts these."""
        return found.shared

    def __copy__(self) -> Any:
        return copy(self)
