"""Components by name: ``.x``, ``.y``, ``.z``, ``.w``, and swizzles such as ``.zyx``.

A component (``v.x``) is a live reference, a swizzle (``v.xy``) a copy; both can be assigned to. A type that lacks a
component says so when it is read or written: a ``ComponentError``, which is an ``AttributeError`` and a
``RuntimeError``.
"""

from __future__ import annotations

import itertools
from typing import Any, NoReturn

from .._access.keys import require_assignable
from .._access.store import store
from .._base.array import ArrayBase
from .._base.errors import ComponentError, SwizzleError
from .._base.types import reshape
from .._promotion.promote import coerce, wrap
from .bases import Component

__all__ = ["absent_component", "component", "missing_attribute", "swizzle", "swizzled",
           "without_components"]

LETTERS = "xyzw"


def _inventory(array: ArrayBase) -> str:
    """What a type has instead of a component, for messages."""
    if array._special == "complex":
        return "its components are 'real' and 'imag'"
    if array._special == "matrix":
        return "its entries are reached by indices, as in a[0, 1]"
    if array._depth <= 0:
        return "its elements are reached by indices, as in a[0]"
    if array._size < 0 or array._size > len(LETTERS):
        return "its components are reached by indices, as in a[0]"
    names = [f"'{letter}'" for letter in LETTERS[:array._size]]
    if len(names) < 2:
        return f"its only component is {names[0]}" if names else "it has no components"
    return f"its components are {', '.join(names[:-1])} and {names[-1]}"


def _named(array: ArrayBase) -> int:
    """How many components of an array have a name of one letter."""
    return 0 if array._depth <= 0 or array._special in ("complex", "matrix") else array._size


def _error(array: ArrayBase, name: str) -> ComponentError:
    count = max(_named(array), 0)
    lacking = next((letter for letter in name if LETTERS.index(letter) >= count), name)
    return ComponentError(f"{array._name} does not have a '{lacking}' component ({_inventory(array)}).",
                          name=name, obj=array)


def missing_attribute(array: Any, name: str) -> AttributeError:
    """The exception for an attribute that a type lacks."""
    if name and not name.strip(LETTERS):
        return _error(array, name)
    return AttributeError(f"{array._name!r} object has no attribute {name!r}", name=name, obj=array)


def absent_component(name: str) -> property:
    """``.x`` and its like, where there are no components or where they have other names."""

    def get(self: ArrayBase) -> NoReturn:
        raise _error(self, name)

    def set_(self: ArrayBase, value: Any) -> NoReturn:
        raise _error(self, name)

    return property(get, set_, doc="This type has no such component: raises an ``AttributeError``.")


def without_components(cls: type[ArrayBase]) -> None:
    """Give a type what ``.x`` and swizzles are to arrays without components.

    Properties, since a ``__getattr__`` would slow down each access to an attribute of the class (CPython does not
    specialise them then).
    """
    for name, absent in _absent.items():
        setattr(cls, name, absent)


_absent = {"".join(letters): absent_component("".join(letters))
           for length in (1, 2, 3, 4) for letters in itertools.product(LETTERS, repeat=length)}


def component(name: str) -> Component:
    """``.x`` and its like: a live reference, and assignment."""
    position = LETTERS.index(name)
    return Component(position, lambda array: _error(array, name),
                     lambda array, value: array._set_component(position, value, f"{array._name}.{name}"),
                     f"Component {position} of arrays with a static size above that; a live reference.")


def swizzled(array: Any, positions: list[int]) -> Any:
    """A new array of some components, in a given order."""
    count = len(array._c) // array._size
    nodes = [node for position in positions for node in array._c[position * count:(position + 1) * count]]
    return wrap(reshape(type(array), (len(positions), *array._record.shape[1:])), nodes)


def swizzle(name: str) -> property:
    """``.xy`` and its like: a copy of several components, and assignment to them."""
    positions = list(map(LETTERS.index, name))
    last = max(positions)

    def check(self: Any) -> None:
        if self._size <= last or self._special in ("matrix", "complex"):
            raise _error(self, name)

    def get(self: Any) -> Any:
        check(self)
        return swizzled(self, positions)

    def set_(self: Any, value: Any) -> None:
        function = f"{self._name}.{name}"
        found = value._count if isinstance(value, ArrayBase) and value._depth == self._depth else len(positions)
        if found not in (-1, len(positions)):
            raise SwizzleError(f"{function}: cannot assign {found} components to {len(positions)}.")
        check(self)
        require_assignable(self, value, function)
        cls = reshape(type(self), (len(positions), *self._record.shape[1:]))
        nodes = coerce(cls, value, function)
        count = len(nodes) // len(positions)
        components = list(self._c)
        for k, position in enumerate(positions):
            components[position * count:(position + 1) * count] = nodes[k * count:(k + 1) * count]
        store(self, components)

    return property(get, set_, doc=f"The components {', '.join(name)} as a new array.")
