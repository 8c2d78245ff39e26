"""Containers that are PyTrees, in everything that takes PyTrees: they are what they were, with other entries."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import drjit as dr
from drjit.llvm.ad import Bool, Float, UInt

modes = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])


class Pair(NamedTuple):
    a: Any
    b: Any


class Items(list):  # type: ignore[type-arg]
    tag: Any


class Table(dict):  # type: ignore[type-arg]
    pass


class Both(tuple):  # type: ignore[type-arg]
    __slots__ = ()


class Annotated:
    """As the package attrs makes classes."""

    __attrs_attrs__ = (SimpleNamespace(name="a"), SimpleNamespace(name="b"))

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


class Fixed(Annotated):
    """As attrs makes frozen classes."""

    def __init__(self, a: Any, b: Any) -> None:
        object.__setattr__(self, "a", a)
        object.__setattr__(self, "b", b)

    def _frozen_setattrs(self, name: str, value: Any) -> None:
        raise AttributeError("can't set attribute")

    __setattr__ = _frozen_setattrs


class Hooked(Annotated):
    """As attrs makes classes with ``on_setattr=attrs.setters.frozen``, which assign in their constructor alone."""

    def __init__(self, a: Any, b: Any) -> None:
        object.__setattr__(self, "a", a)
        object.__setattr__(self, "b", b)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("can't set attribute")


class Queue(deque):  # type: ignore[type-arg]
    tag: Any


def queue(a: Any, b: Any) -> Queue:
    result = Queue([a, b], 5)
    result.tag = "kept"
    return result


def items(a: Any, b: Any) -> Items:
    result = Items([a, b])
    result.tag = "kept"
    return result


MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "named tuple": Pair, "OrderedDict": lambda a, b: OrderedDict(a=a, b=b),
    "defaultdict": lambda a, b: defaultdict(list, a=a, b=b), "deque": lambda a, b: deque([a, b], 5), "list": items,
    "dict": lambda a, b: Table(a=a, b=b), "tuple": lambda a, b: Both((a, b)),
    "namespace": lambda a, b: SimpleNamespace(a=a, b=b), "attrs": Annotated,
    "frozen attrs": Fixed, "attrs with hooks": Hooked, "queue": queue}
kinds = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def entries(tree: Any) -> list[Any]:
    if isinstance(tree, SimpleNamespace) or hasattr(tree, "__attrs_attrs__"):
        return [tree.a, tree.b]
    return list(tree.values()) if isinstance(tree, dict) else list(tree)


def same_kind(a: Any, b: Any) -> bool:
    return type(a) is type(b) and getattr(a, "default_factory", None) is getattr(b, "default_factory", None) and \
        getattr(a, "maxlen", None) == getattr(b, "maxlen", None) and getattr(a, "tag", None) == getattr(b, "tag", None)


@kinds
def test_gradients(make: Callable[[Any, Any], Any]) -> None:
    tree = make(Float(1, 2), [Float(3)])
    dr.enable_grad(tree)
    assert dr.grad_enabled(tree)
    first, (second,) = entries(tree)
    dr.backward(first * second)
    gradient = dr.grad(tree)
    assert same_kind(gradient, tree)
    assert list(entries(gradient)[0]) == [3, 3] and list(entries(gradient)[1][0]) == [3]
    assert not dr.grad_enabled(dr.detach(tree)) and same_kind(dr.detach(tree), tree)
    dr.set_grad(tree, 5)
    assert list(first.grad) == [5, 5]
    dr.clear_grad(tree)
    dr.disable_grad(tree)
    assert not dr.grad_enabled(tree)


@kinds
def test_evaluation_and_copies(make: Callable[[Any, Any], Any]) -> None:
    tree = make(Float(1, 2) + 1, (UInt(3, 4) + 1, None))
    assert dr.width(tree) == 2
    assert dr.eval(tree) and entries(tree)[0].state == dr.VarState.Evaluated
    copy = dr.copy(tree)
    assert same_kind(copy, tree) and copy is not tree and entries(copy)[0] is not entries(tree)[0]
    zeros = dr.zeros_like(tree)
    assert same_kind(zeros, tree) and list(entries(zeros)[0]) == [0, 0] and entries(zeros)[1][1] is None
    assert same_kind(dr.opaque(tree), tree)


@kinds
@modes
def test_loops(make: Callable[[Any, Any], Any], mode: str) -> None:
    tree = make(Float(1, 2), UInt(0, 0))
    count, result = dr.while_loop(
        (UInt(0, 1), tree), lambda i, tree: i < 3,
        lambda i, tree: (i + 1, make(entries(tree)[0] * 2, entries(tree)[1] + i)), mode=mode)
    assert list(count) == [3, 3]
    assert same_kind(result, tree)
    assert [list(entry) for entry in entries(result)] == [[8, 8], [3, 3]]


@kinds
@modes
def test_branches(make: Callable[[Any, Any], Any], mode: str) -> None:
    tree = make(Float(1, 2), UInt(3, 4))
    result = dr.if_stmt((tree,), Bool(True, False), lambda tree: make(entries(tree)[0] * 10, entries(tree)[1]),
                        lambda tree: make(entries(tree)[0], entries(tree)[1] + 1), mode=mode)
    assert same_kind(result, tree)
    assert [list(entry) for entry in entries(result)] == [[10, 2], [3, 5]]


@kinds
@modes
def test_calls(make: Callable[[Any, Any], Any], mode: str) -> None:
    tree = make(Float(1, 2), UInt(3, 4))
    result = dr.switch(UInt(0, 1), [lambda t: make(entries(t)[0] * 10, entries(t)[1]), lambda t: t], tree, mode=mode)
    assert same_kind(result, tree)
    assert [list(entry) for entry in entries(result)] == [[10, 2], [3, 4]]


@kinds
def test_frozen_functions(make: Callable[[Any, Any], Any]) -> None:
    @dr.freeze
    def function(x: Any) -> Any:
        return make(x * 2, [x + 1])

    for value in (1, 2, 3):
        found = function(Float(value, 0))
        assert same_kind(found, make(0, 0))
        assert list(entries(found)[0]) == [2 * value, 0]
        assert list(entries(found)[1][0]) == [value + 1, 1]


@kinds
def test_custom_operations(make: Callable[[Any, Any], Any]) -> None:
    class Scale(dr.CustomOp):  # type: ignore[misc]
        def eval(self, tree: Any) -> Any:
            a, b = entries(tree)
            return make(a * 2, b)

        def backward(self) -> None:
            a, b = entries(self.grad_out())
            self.set_grad_in("tree", make(a * 2, b))

    tree = make(Float(1, 2), Float(3))
    dr.enable_grad(tree)
    first, second = entries(tree)
    dr.backward(entries(dr.custom(Scale, tree))[0])
    assert list(first.grad) == [2, 2] and list(second.grad) == [0]


@kinds
@modes
def test_trees_that_loops_do_not_change(make: Callable[[Any, Any], Any], mode: str) -> None:
    tree = make(Float(1, 2), [UInt(3, 4)])
    _, result = dr.while_loop((UInt(0), tree), lambda i, tree: i < 3, lambda i, tree: (i + 1, tree), mode=mode)
    assert same_kind(result, tree) and list(entries(result)[0]) == [1, 2] and list(entries(tree)[1][0]) == [3, 4]


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"slots": False}, {"frozen": True, "slots": False},
                                     {"on_setattr": "frozen"}, {"on_setattr": "validate"}], ids=str)
def test_classes_of_attrs(options: dict[str, Any]) -> None:
    attrs = pytest.importorskip("attrs")
    hook = options.get("on_setattr")
    if hook:
        options = {"on_setattr": getattr(attrs.setters, hook)}
    made = attrs.make_class("Made", {"a": attrs.field(validator=lambda owner, field, value: None), "b": attrs.field()},
                            **options)
    test_loops(made, "symbolic")
    test_trees_that_loops_do_not_change(made, "evaluated")
    test_branches(made, "symbolic")
    test_calls(made, "evaluated")


def test_structures_that_differ_are_told() -> None:
    with pytest.raises((TypeError, RuntimeError)):
        dr.if_stmt((Float(1, 2),), Bool(True, False), lambda x: Pair(x, x), lambda x: (x, x))


def test_what_is_no_tree_passes() -> None:
    now, counts = time.localtime(), Counter("aab")
    copied = dr.copy({"now": now, "counts": counts})
    assert copied["now"] is now and copied["counts"] == counts and type(copied["counts"]) is Counter


def test_empty_containers() -> None:
    for tree in (OrderedDict(), defaultdict(int), deque(maxlen=2), Items(), Table(), Both(), SimpleNamespace()):
        assert same_kind(dr.copy(tree), tree)


class Fields(list):  # type: ignore[type-arg]
    DRJIT_STRUCT = {"a": Float, "b": Float}  # noqa: RUF012

    def __init__(self, a: Any = None, b: Any = None) -> None:
        super().__init__()
        self.a, self.b = a, b


@dataclass
class DataOfDict(dict):  # type: ignore[type-arg]
    a: Any
    b: Any


class Renaming(dict):  # type: ignore[type-arg]
    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(f"{key}_", value)


class RenamingOrdered(OrderedDict):  # type: ignore[type-arg]
    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(f"{key}_", value)


UNUSUAL = [Fields, DataOfDict, lambda a, b: Renaming(a=a, b=b), lambda a, b: RenamingOrdered(a=a, b=b)]


def values_of(tree: Any) -> list[list[float]]:
    found = tree.values() if isinstance(tree, dict) and tree else (tree.a, tree.b)
    return [list(each) for each in found]


@pytest.mark.parametrize("make", UNUSUAL)
def test_classes_say_themselves_what_is_in_their_objects(make: Any) -> None:
    tree = make(Float(1, 2), Float(3, 4))
    for found in (dr.detach(tree), dr.copy(tree), dr.opaque(tree), dr.select(True, tree, tree)):
        assert type(found) is type(tree)
        assert values_of(found) == [[1, 2], [3, 4]]
    dr.enable_grad(tree)
    dr.set_grad(tree, 2)
    assert values_of(dr.grad(tree)) == [[2, 2], [2, 2]]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("make", UNUSUAL)
def test_constructs_write_entries_whatever_their_classes_make_of_it(make: Any, mode: str) -> None:
    tree = make(Float(1, 2), Float(3, 4))

    def body(i: Any, tree: Any) -> Any:
        a, b = tree.values() if isinstance(tree, dict) and tree else (tree.a, tree.b)
        return i + 1, make(a + 1, b)

    for result in (dr.while_loop((UInt(0), tree), lambda i, tree: i < 3, body, mode=mode)[1],
                   dr.while_loop((UInt(0), tree), lambda i, tree: i < 3, lambda i, tree: (i + 1, tree), mode=mode)[1],
                   dr.if_stmt((tree,), Bool(True, False), lambda tree: tree, lambda tree: tree, mode=mode)):
        assert type(result) is type(tree)
        assert values_of(result)[1] == [3, 4]
