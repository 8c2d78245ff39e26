"""States of objects: what they hold, by name, taken out of them and put back.

An object that has a state says which places it has (:class:`Place`), each with what is there, and how something else
gets there. Reading a state and checking another one against it, key by key, is done here for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import drjit_core as core
from drjit_core import KIND, VarType, primal

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.values import is_ndarray, plain_scalar
from .._promotion.promote import wrap_like

__all__ = ["Difference", "Mismatch", "Place", "Stateful", "detached", "fitting", "has_constants"]

_LITERAL = KIND["literal"]


class Difference(NamedTuple):
    """The keys in which a state differed from what an object has: what ``load_state_dict`` returns."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Mismatch(Exception):
    """A value that cannot be where another one is; the sort of error is that which the user sees."""

    def __init__(self, sort: type[Exception], text: str) -> None:
        super().__init__(text)
        self.sort = sort


class Place(NamedTuple):
    """A place of a state."""

    #: What is there: an array, a number, a string; ``None`` in a place that may be empty.
    value: Any
    #: Puts something else there.
    put: Callable[[Any], None]
    #: Makes of a value what is put; raises :class:`Mismatch`. The argument after the value: whether to convert.
    accept: Callable[[Any, bool], Any] | None = None
    #: Whether the place may be empty, and the key be missing.
    optional: bool = False
    #: Whether it is part of what another object has a place for: it comes after all others.
    last: bool = False


def detached(array: Any) -> Any:
    """A copy without derivatives."""
    return wrap_like(array, type(array), [primal(node) for node in array._nodes()])


def fitting(like: Any, value: Any, convert: bool = False, shape: tuple[int, ...] | None = None) -> Any:
    """A value in the form of another one, which it must fit: numbers of one sort, arrays of one shape and scalar type.

    Another precision of floating-point numbers is an error unless it is to be converted.
    """
    if not isinstance(like, ArrayBase):
        number = plain_scalar(value)
        if like.__class__ is float and number.__class__ is int:
            number = float(number)
        if number.__class__ is not like.__class__ or number is None:
            raise Mismatch(TypeError, f"must be of the type {describe(like)}, found {describe(value)}")
        return number
    wanted = like.shape if shape is None else shape
    name = VarType(like._type).name
    if not isinstance(value, ArrayBase) and not is_ndarray(value) and not hasattr(value, "__dlpack__"):
        raise Mismatch(TypeError, f"must be an array of the type {name} and the shape {wanted}, found "
                                  f"{describe(value)}")
    own = isinstance(value, ArrayBase)
    found = VarType(value._type).name if own else str(value.dtype).rpartition(".")[2]
    if tuple(value.shape) != tuple(wanted):
        raise Mismatch(ValueError, f"must have the shape {tuple(wanted)}, found {tuple(value.shape)}")
    if found.lower() != name.lower() and not (convert and like._kind == "f" and "float" in found.lower()):
        raise Mismatch(TypeError, f"must be of the type {name}, found {found}")
    cls = type(like)
    if type(value) is not cls:
        value = cls(value)
    return detached(value)


class Stateful:
    """Base class of what has a state, which can be read and put back."""

    __slots__ = ()

    def _state_places(self) -> dict[str, Place]:
        """The places of the state by name."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """The state: arrays without derivatives, and numbers, by name. What happens to the object later changes nothing
        in it, and the arrays are not copied before that.

        >>> dr.rng(seed=3).state_dict()
        {'seed': 3, 'counter': 0}
        """
        return {key: detached(place.value) if isinstance(place.value, ArrayBase) else place.value
                for key, place in self._state_places().items() if place.value is not None or not place.optional}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> Difference:
        """Take over a state: what :meth:`state_dict` returns, or arrays of NumPy and others by the same names.

        Shapes must be those that the object has, else a ``ValueError`` is raised. With ``strict``, a ``KeyError`` lists
        missing and unknown keys, and a ``TypeError`` arrays of another precision; otherwise missing keys leave alone
        what is there, unknown ones are ignored, and floating-point numbers are converted. If it raises, nothing has
        changed. Returns the missing and the unknown keys.

        >>> rng = dr.rng(seed=3)
        >>> rng.load_state_dict({"seed": 4, "counter": 2})
        Difference(missing_keys=[], unexpected_keys=[])
        >>> rng.state_dict()
        {'seed': 4, 'counter': 2}
        """
        puts, difference = self._planned(f"{describe(type(self))}.load_state_dict", state_dict, strict)
        for place, value in puts:
            place.put(value)
        return difference

    def _planned(self, function: str, state: Any, strict: bool) -> tuple[list[tuple[Place, Any]], Difference]:
        """What is to be put where, once all of it has been checked."""
        if not isinstance(state, Mapping):
            raise TypeError(f"{function}(): the state must be a dictionary, found {describe(state)}.")
        places, problems = self._state_places(), list[tuple[type[Exception], str]]()
        missing = [key for key, place in places.items() if key not in state and not place.optional]
        unexpected = [key for key in state if key not in places]
        if strict:
            problems += [(KeyError, f"{what} {_listed(keys)}") for what, keys in (
                ("missing:", missing), ("unknown:", unexpected)) if keys]
        puts = list[tuple[Place, Any]]()
        for key, place in places.items():
            if key not in state:
                if place.optional:
                    puts.append((place, None))
                continue
            try:
                value, convert = state[key], not strict
                found = fitting(place.value, value, convert) if place.accept is None else place.accept(value, convert)
                puts.append((place, _in_memory_like(place.value, found)))
            except Mismatch as error:
                problems.append((error.sort, f"{key!r} {error}"))
        if problems:
            raise problems[0][0](f"{function}(): nothing has been loaded, since the state does not fit; "
                                 f"{'; '.join(text for _, text in problems)}.")
        return puts, Difference(missing, unexpected)


def _in_memory_like(like: Any, value: Any) -> Any:
    """A value whose constants are in memory if those of what it replaces are: the kernels that read it stay the same,
    and with them the order in which they add."""
    if not isinstance(like, ArrayBase) or not like._dynamic or not isinstance(value, ArrayBase) or has_constants(like):
        return value
    return wrap_like(value, type(value), [core.opaque(node, value._where) if node.kind == _LITERAL else node
                                          for node in value._nodes()])


def has_constants(array: ArrayBase) -> bool:
    """Whether some elements are a number that is known while tracing, and take no memory."""
    return any(primal(node).kind == _LITERAL for node in array._nodes())


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(map(repr, keys))
