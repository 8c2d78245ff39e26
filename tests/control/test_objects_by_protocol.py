"""Objects that join PyTrees by the protocol: functions are given the caller's, wherever else they find them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import drjit as dr
from drjit.llvm import PCG32, Float, Philox4x32, UInt, UInt64

LANES = range(4)
modes = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])


class Rebinding:
    """A class of a program, whose method puts another array in the place of its child."""

    def __init__(self, v: Any) -> None:
        self.v = v

    def __drjit_children__(self) -> dict[str, Any]:
        return {"v": self.v}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Any:
        return type(self)(children["v"])

    def draw(self) -> Any:
        self.v = self.v + 1
        return self.v * 1


class InPlace(Rebinding):
    def draw(self) -> Any:
        self.v += 1
        return self.v * 1


class Hiding(Rebinding):
    """Its child is in an attribute of another name."""

    __slots__ = ("_v",)

    def __init__(self, v: Any) -> None:
        self._v = v

    @property
    def v(self) -> Any:
        return self._v

    def draw(self) -> Any:
        self._v = self._v + 1
        return self._v * 1


class Pcg(PCG32):
    def draw(self) -> Any:
        return self.next_float32()


class Philox(Philox4x32):
    def draw(self) -> Any:
        return self.next_float32x4().x


MAKERS: dict[str, Callable[[], Any]] = {
    "PCG32": lambda: Pcg(initstate=UInt64(0, 1, 2, 3)),
    "Philox4x32": lambda: Philox(seed=UInt64(1), counter_0=UInt(0, 1, 2, 3)),
    "rebinding": lambda: Rebinding(Float(1, 2, 3, 4)),
    "in place": lambda: InPlace(Float(1, 2, 3, 4)),
    "hiding": lambda: Hiding(Float(1, 2, 3, 4)),
}


def drawn(value: Any, lane: int) -> Callable[[], float]:
    """What one lane draws, one after the other."""
    return lambda: value.draw()[lane]


def branch(kind: str) -> Callable[..., Any]:
    def run(value: Any, first: Callable[[Any], Any], second: Callable[[Any], Any], mode: Any) -> Any:
        sides: list[Any] = [lambda g: first(g).draw() * 2, lambda g: -second(g).draw()]
        odd = UInt(LANES) % 2
        return dr.switch(1 - odd, sides, value, mode=mode) if kind == "call" else \
            dr.if_stmt((value,), odd == 1, sides[0], sides[1], mode=mode)
    return run


def loop(value: Any, first: Callable[[Any], Any], second: Callable[[Any], Any], mode: Any) -> Any:
    _, result, same = dr.while_loop(
        (UInt(0), Float(0), value), lambda i, r, g: i < UInt(LANES),
        lambda i, r, g: (i + 1, r + first(g).draw() * 2 - second(g).draw(), g), mode=mode)
    assert same is value
    return result


def branch_in_loop(value: Any, first: Callable[[Any], Any], second: Callable[[Any], Any], mode: Any) -> Any:
    @dr.syntax
    def run(g: Any, n: Any) -> Any:
        i, r = UInt(0), Float(0)
        while dr.hint(i < n, mode=mode):
            if dr.hint(i % 2 == 0, mode=mode):
                r += first(g).draw() * 2
            else:
                r -= second(g).draw()
            i += 1
        return r
    return run(value, UInt(LANES))


def in_loop(lane: int, draw: Callable[[], float]) -> float:
    return sum(draw() * 2 - draw() for _ in range(lane))


CONSTRUCTS: dict[str, tuple[Callable[..., Any], Callable[[int, Callable[[], float]], float]]] = {
    "branch": (branch("branch"), lambda lane, draw: draw() * 2 if lane % 2 else -draw()),
    "call": (branch("call"), lambda lane, draw: draw() * 2 if lane % 2 else -draw()),
    "loop": (loop, in_loop),
    "branch in loop": (branch_in_loop, lambda lane, draw: sum(-draw() if i % 2 else draw() * 2 for i in range(lane))),
}


@modes
@pytest.mark.parametrize("ways", ["argument/argument", "argument/captured", "captured/argument", "argument/attribute",
                                  "attribute/captured"])
@pytest.mark.parametrize("construct", CONSTRUCTS)
@pytest.mark.parametrize("kind", MAKERS)
def test_functions_find_one_object(kind: str, construct: str, ways: str, mode: Any) -> None:
    value = MAKERS[kind]()
    holder = SimpleNamespace(value=value)
    find: dict[str, Callable[[Any], Any]] = {
        "argument": lambda given: given, "captured": lambda _: value, "attribute": lambda _: holder.value}
    run, model = CONSTRUCTS[construct]
    results = list(run(value, *[find[way] for way in ways.split("/")], mode))
    after = list(value.draw())
    for lane in LANES:
        numbers = drawn(MAKERS[kind](), lane)
        assert results[lane] == pytest.approx(model(lane, numbers))
        assert after[lane] == numbers()


@modes
@pytest.mark.parametrize("construct", CONSTRUCTS)
@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind != "in place"])
def test_children_of_before_stay_what_they_were(kind: str, construct: str, mode: Any) -> None:
    value = MAKERS[kind]()
    before = next(iter(value.__drjit_children__().values()))
    expected = next(iter(MAKERS[kind]().__drjit_children__().values()))
    CONSTRUCTS[construct][0](value, lambda given: given, lambda given: given, mode)
    assert dr.all(before == expected, axis=None)


@modes
def test_generators_are_wound_back(mode: Any) -> None:
    @dr.syntax
    def total(rng: Any, n: Any) -> Any:
        i, r = UInt(0), Float(0)
        while dr.hint(i < n, mode=mode):
            r += rng.next_float32()
            i += 1
        return r

    rng = PCG32(4)
    before = rng.state
    once = list(total(rng, UInt(LANES)))
    rng.state = before
    assert list(total(rng, UInt(LANES))) == once


@modes
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_objects_have_their_children_again_if_a_function_raises(construct: str, mode: Any) -> None:
    value = MAKERS["rebinding"]()
    child = value.v

    def stop(given: Any) -> Any:
        given.draw()
        raise KeyError("stop")

    with pytest.raises(KeyError):
        CONSTRUCTS[construct][0](value, lambda given: given, stop, mode)
    assert value.v is child and list(child) == [1, 2, 3, 4]
