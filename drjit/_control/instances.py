"""Arrays of instances of Python classes, whose methods are called for each element: ``dr.dispatch``.

The reference knows such arrays from C++ only; here, :func:`instance_array` makes their types. An element is the number
of an instance, from one on, or zero for ``None``; the type knows the instances that were put into arrays of it, as long
as they live.
"""

from __future__ import annotations

import functools
import operator
import threading
import weakref
from array import array
from collections.abc import Callable
from typing import Any

import drjit_core as core
from drjit_core import TYPES, ops

from .._access.lanes import TRUE
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._base.types import UINT32
from .._base.values import is_ndarray, plain_integer
from .._promotion.promote import wrap
from .invocation import call

__all__ = ["dispatch", "instance_array"]


#: The index of elements that are ``None``, or whose instance is gone.
_NOBODY = 0xffffffff


class _Registry:
    """The instances that a type of arrays knows, by their numbers; each is itself, whatever it is equal to."""

    def __init__(self, index: type[ArrayBase]) -> None:
        #: The type of arrays of numbers.
        self.index: Any = index
        #: How many numbers have been given; none is given again.
        self.count = 0
        self.lock = threading.RLock()  # a finaliser may ask while its thread is in here
        self.references: dict[int, weakref.ref[Any]] = {}
        self.numbers: dict[int, int] = {}  # by the ids of instances

    def number_of(self, instance: Any) -> int:
        """The number of an instance, a new one if it has none."""
        if instance is None:
            return 0
        key = id(instance)
        number = self.numbers.get(key)
        return self.new_number(instance, key) if number is None else number

    def new_number(self, instance: Any, key: int) -> int:
        """The number of an instance, which may have got one meanwhile from another thread."""
        def forget(_: Any) -> None:
            self.references.pop(self.numbers.pop(key, 0), None)

        with self.lock:
            try:
                reference = weakref.ref(instance, forget)
            except TypeError:
                raise TypeError(f"an instance of '{type(instance).__name__}' cannot be referred to weakly, as arrays "
                                "do; its class needs '__weakref__' among its __slots__.") from None
            number = self.numbers.get(key)
            if number is None:
                self.count = number = self.numbers[key] = self.count + 1
                self.references[number] = reference
        return number

    def live(self) -> dict[int, Any]:
        """The instances that live, by their numbers, which ascend."""
        found = ((number, reference()) for number, reference in sorted(self.references.copy().items()))
        return {number: instance for number, instance in found if instance is not None}


def instance_array(base: type, index: type[ArrayBase]) -> Any:
    """A type of arrays of instances of a class, or of classes derived from it; ``None`` is allowed.

    ``index`` is the type of flat arrays of 32-bit unsigned integers of a backend that compiles
    (``drjit.llvm.ad.UInt32``), from which the type derives. It is constructed from instances, a list of them, or an
    array of their numbers. The methods and properties of ``base`` are those of its arrays: they call, for each element,
    that of its instance, as :func:`dispatch` does. ``==`` and ``!=`` compare with instances, ``None``, and other arrays
    of the type. A pickle holds the instances, which it keeps alive only if something else in it does. Instances are
    told apart by their identity, and are not kept alive: elements whose instance is gone are like ``None``. Raises a
    ``TypeError`` for other arguments; the type does so for elements that are no instances, or cannot be referred to
    weakly. Not part of the reference, where classes of C++ have such types.

    >>> from drjit.llvm import Float, UInt32
    >>> class Shape:
    ...     def __init__(self, size):
    ...         self.size = Float(size)
    ...     def area(self, scale):
    ...         return self.size * scale
    >>> class Square(Shape):
    ...     def area(self, scale):
    ...         return self.size * self.size * scale
    >>> ShapePtr = dr.instance_array(Shape, UInt32)
    >>> line, square = Shape(3), Square(3)
    >>> ShapePtr([line, square, None, square]).area(Float(1, 1, 1, 10))
    [3, 9, 0, 90]
    """
    function = "drjit.instance_array"
    if not isinstance(base, type):
        raise TypeError(f"{function}(): 'base' must be a class, found {describe(base)}.")
    if not (isinstance(index, type) and issubclass(index, ArrayBase) and not index._depth and index._dynamic and
            index._type == UINT32):
        raise TypeError(f"{function}(): 'index' must be a type of flat arrays of {TYPES[UINT32].name}, such as "
                        f"drjit.llvm.UInt32, found {describe(index)}.")
    registry = _Registry(index)

    def construct(self: Any, *args: Any) -> None:
        if len(args) == 1 and isinstance(args[0], (list, tuple, range)):
            args = tuple(args[0])
        if args and all(arg is None or isinstance(arg, base) for arg in args):
            try:
                args = tuple([registry.number_of(arg) for arg in args])
            except TypeError as error:
                raise TypeError(f"{base.__name__}Ptr.__init__(): {error}") from None
        elif any(isinstance(arg, base) for arg in args):
            refuse(args, [arg is None or isinstance(arg, base) for arg in args])
        else:
            refuse(args, [_are_numbers(arg) for arg in args])
        index.__init__(self, *args)

    def refuse(args: tuple[Any, ...], valid: list[bool]) -> None:
        if not all(valid):
            wrong = valid.index(False)
            raise TypeError(f"{base.__name__}Ptr.__init__(): element {wrong} must be an instance of "
                            f"'{base.__name__}' or None, found {describe(args[wrong])}.")

    def numbered(other: Any) -> Any:
        return registry.number_of(other) if other is None or isinstance(other, base) else other

    def equal(self: Any, other: Any) -> Any:
        return index.__eq__(self, numbered(other))

    def unequal(self: Any, other: Any) -> Any:
        return index.__ne__(self, numbered(other))

    def reduce(self: Any, protocol: Any) -> tuple[Any, ...]:
        live = registry.live()
        numbers = [int(number) for number in index(self)]
        used = {number: live[number] for number in sorted(set(numbers)) if number in live}
        places = {number: place for place, number in enumerate(used)}
        return _restored, (type(self), list(used.values()), [places.get(number, -1) for number in numbers])

    def missing(self: Any, name: str) -> Any:
        raise AttributeError(
            f"'{base.__name__}Ptr' object has no attribute '{name}': it has the methods and properties of "
            f"'{base.__name__}', whatever classes the instances are of. For what only these have, use "
            f"drjit.dispatch(array, lambda instance: instance.{name}).")

    contents: dict[str, Any] = {
        "__init__": construct, "__getattr__": missing, "__eq__": equal, "__ne__": unequal, "__hash__": index.__hash__,
        "__reduce_ex__": reduce, "_registry": registry, "__module__": base.__module__,
        "__qualname__": f"{base.__qualname__}Ptr", "__doc__": f"Instances of {base.__name__}."}
    for name in dir(base):
        method = getattr(base, name)
        if name.startswith("_"):
            continue
        if isinstance(method, (property, functools.cached_property)):
            contents[name] = _property(name, method)
        elif callable(method):
            contents[name] = _method(name, method)
    return type(f"{base.__name__}Ptr", (index,), contents)


def _are_numbers(value: Any) -> bool:
    """Whether a value is the number of an instance, or an array of such."""
    if isinstance(value, ArrayBase):
        return value._kind in "iu"
    return value.dtype.kind in "iu" if is_ndarray(value) else plain_integer(value) is not None


def _method(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def dispatched(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _dispatch(f"{type(self).__name__}.{name}", self, operator.attrgetter(name), args, kwargs)

    return dispatched


def _property(name: str, prototype: Any) -> property:
    def value(self: Any) -> Any:
        return _dispatch(f"{type(self).__name__}.{name}", self,
                         lambda instance: functools.partial(getattr, instance, name), (), {})

    return property(value, doc=prototype.__doc__)


def _restored(kind: Any, instances: list[Any], places: list[int]) -> Any:
    """An array of instances that was pickled."""
    return kind([instances[place] if place >= 0 else None for place in places])


def dispatch(inst: Any, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``target(instance, *args, **kwargs)`` for the instance of every element; called once for each instance.

    ``inst`` is an array of a type that :func:`instance_array` has made, or an instance, for an ordinary call. All else
    is as for :func:`switch`: arguments and results, masks, ``mode``, ``label``, derivatives. Results of elements that
    are ``None`` are zero. Raises a ``TypeError`` for other arrays, and a ``RuntimeError`` if there is no instance.

    >>> from drjit.llvm import Float, UInt32
    >>> class Light:
    ...     def __init__(self, power):
    ...         self.power = power
    >>> LightPtr = dr.instance_array(Light, UInt32)
    >>> lamp, sun = Light(1), Light(100)
    >>> dr.dispatch(LightPtr(lamp, sun, lamp), lambda light, x: light.power * x, Float(1, 2, 3))
    [1, 200, 3]
    """
    function = "drjit.dispatch"
    if not callable(target):
        raise TypeError(f"{function}(): 'target' must be callable, found {describe(target)}.")
    if isinstance(inst, ArrayBase) and getattr(inst, "_registry", None) is None:
        raise ArgumentError(f"{function}(): 'inst' must be an array of instances (see drjit.instance_array), found "
                            f"{describe(inst)}.")
    if not isinstance(inst, ArrayBase):
        return target(inst, *args, **kwargs)
    return _dispatch(function, inst, lambda instance: functools.partial(target, instance), args, kwargs)


def _dispatch(function: str, inst: Any, bound: Callable[[Any], Callable[..., Any]], args: tuple[Any, ...],
              kwargs: dict[str, Any]) -> Any:
    """Call for each element what ``bound`` makes of its instance."""
    mode, label = kwargs.pop("mode", None), kwargs.pop("label", None)
    registry: _Registry = inst._registry
    instances = registry.live()
    if not instances:
        raise ArgumentError(f"{function}(): there is no instance to call: " + (
            "those that arrays of this type were made of are gone. Keep a reference to each, since arrays do not."
            if registry.count else "the array holds none."))
    numbers = inst._nodes()[0]
    if not numbers.size:
        index = numbers
    elif len(instances) == registry.count:
        index = ops.sub(numbers, core.literal(UINT32, 1))  # None becomes the largest number
    else:
        places = array("I", [_NOBODY]) * (registry.count + 1)
        for place, number in enumerate(instances):
            places[number] = place
        inside = ops.lt(numbers, core.literal(UINT32, len(places)))
        index = core.gather(registry.index(places)._nodes()[0], ops.select(inside, numbers, core.literal(UINT32, 0)),
                            TRUE)
    targets = [bound(instance) for instance in instances.values()]
    names = [f"{type(instance).__name__} instance {number}" for number, instance in instances.items()]
    return call(function, wrap(registry.index, [index]), "inst", targets, names, args, kwargs, mode, label, _NOBODY)
