"""What holds arrays, but is neither a tree nor a leaf: nothing passes these over."""

from __future__ import annotations

import functools
import sys
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Bool, Float, UInt


class Object:
    def __init__(self, x: Any) -> None:
        self.x = x


class Slots:
    __slots__ = "x"

    def __init__(self, x: Any) -> None:
        self.x = x


@dataclass
class State:
    weight: Float
    rest: Any


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "object": Object, "slots": Slots, "object with a list": lambda x: Object([x]), "set": lambda x: {x},
    "frozenset": lambda x: frozenset([x]), "values": lambda x: {"a": x}.values(), "items": lambda x: {"a": x}.items(),
    "keys": lambda x: {x: 1}.keys(), "generator": lambda x: (entry for entry in [x]), "iterator": lambda x: iter([x]),
    "map": lambda x: map(abs, [x]), "zip": lambda x: zip([x], [1], strict=True), "reversed": lambda x: reversed([x]),
    "proxy": lambda x: MappingProxyType({"a": x}), "UserDict": lambda x: UserDict(a=x),
    "UserList": lambda x: UserList([x]), "ChainMap": lambda x: ChainMap({"a": x}),
    "NumPy": lambda x: np.array([x, None], dtype=object)}
LEAVES: dict[str, Any] = {
    "number": 1, "text": "a", "None": None, "function": len, "lambda": lambda: Float(1), "class": Object, "module": dr,
    "set": {1, 2}, "object": Object(3), "array": np.ones(2), "partial": functools.partial(max, 1), "range": range(2),
    "iterator": iter([1]), "proxy": MappingProxyType({"a": 1}), "exception": ValueError("a"), "slice": slice(1)}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(dr, name) for name in (
        "grad", "detach", "enable_grad", "disable_grad", "clear_grad", "grad_enabled", "eval", "schedule",
        "make_opaque", "opaque", "copy", "width")},
    "set_grad": lambda value: dr.set_grad(value, 1), "accum_grad": lambda value: dr.accum_grad(value, 1),
    "gather": lambda value: dr.gather(type(value), value, UInt(0))}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_all_arrays_refuse_it(function: str, holder: str) -> None:
    state = State(Float(1, 2), [0, HOLDERS[holder](Float(1, 2))])
    with pytest.raises(TypeError, match=rf"drjit\.{function}\(\): 'arg\.rest\[1\]' is of type .*, which holds arrays"):
        FUNCTIONS[function](state)


class Row(list[Any]):
    pass


class Table(dict[str, Any]):
    pass


class Pair(tuple[Any, ...]):
    pass


class Queue(deque[Any]):
    pass


@pytest.mark.parametrize("kind", [Row, Table, Pair, Queue])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_all_arrays_refuse_attributes_of_containers(function: str, kind: Callable[[Any], Any]) -> None:
    """Which trees would pass on as they are, attached and unevaluated, to what is made of them."""
    container: Any = kind({"a": Float(1, 2)} if kind is Table else [Float(1, 2)])
    for attribute in ("units", [1, len]):
        container.extra = attribute
        FUNCTIONS[function](State(Float(1, 2), container))
    for attribute in (Float(1, 2), [Float(1, 2)], Object(Float(1, 2))):
        container.extra = attribute
        with pytest.raises(TypeError, match=rf"drjit\.{function}\(\): an object of type .* has the attribute 'extra'"):
            FUNCTIONS[function](State(Float(1, 2), container))


@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_leaves_are_passed_on(function: str, leaf: str) -> None:
    found = FUNCTIONS[function](State(Float(1, 2), LEAVES[leaf]))
    if function in ("detach", "copy", "opaque", "gather"):
        assert found.rest is LEAVES[leaf]


def test_packages_are_looked_at_without_asking_their_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    class Deprecated:
        @property  # type: ignore[misc]
        def __class__(self) -> Any:
            raise AssertionError("asked for")

    package = ModuleType("a_package")
    package.__file__ = "site-packages/a_package.py"
    package.deprecated = Deprecated()  # type: ignore[attr-defined]
    package.Holder = type("Holder", (Object,), {"__module__": "a_package"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "a_package", package)
    with pytest.raises(TypeError, match="holds arrays"):
        dr.detach(package.Holder(Float(1)))


def test_a_class_says_that_what_it_holds_does_not_matter() -> None:
    class Scene:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __drjit_children__(self) -> dict[str, Any]:
            return {}

        def __drjit_rebuild__(self, children: dict[str, Any]) -> Scene:
            return self

    scene = Scene(Float(1))
    assert dr.detach(State(Float(1), scene)).rest is scene


def test_custom_operations_take_any_object() -> None:
    class Times(dr.CustomOp):
        def eval(self, holder: Any, x: Float) -> Any:
            self.x = holder.x
            return holder.x * x

        def backward(self) -> None:
            self.set_grad_in("x", self.grad_out() * self.x)

    x = Float(3)
    dr.enable_grad(x)
    dr.backward(dr.custom(Times, Object(Float(2)), x))
    assert list(x.grad) == [2]


@pytest.mark.parametrize("holder", ["set", "frozenset", "values", "proxy"])
def test_loops_refuse_other_objects_that_hold_arrays(holder: str) -> None:
    make = HOLDERS[holder]

    def entry(value: Any) -> Any:
        return value["a"] if holder == "proxy" else next(iter(value))

    for mode in ("symbolic", "evaluated"):
        with pytest.raises(TypeError, match=r"drjit\.while_loop\(\): the body of this loop (changed|returns another)"):
            dr.while_loop((UInt(0), make(UInt(1, 2))), lambda i, v: i < UInt(2, 3),
                          lambda i, v: (i + 1, make(entry(v) + 1)), mode=mode)


def test_views_of_what_a_branch_leaves_alone() -> None:
    table = {"a": Float(1, 2)}
    found = dr.if_stmt((table.values(), Float(1)), Bool(True, False), lambda v, y: next(iter(v)), lambda v, y: y)
    assert list(found) == [1, 1]
