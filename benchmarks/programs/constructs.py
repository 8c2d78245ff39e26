"""Cost of tracing loops, branches and calls: empty ones, the operations in them, and what their functions know.

Each construct is traced and dropped, in microseconds of processor time of this thread, the median of batches. The cost
of an operation within is the difference of constructs with many and with none, by their number.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from measure import case, main

import drjit as dr
from drjit.llvm import Array3f, Float, Int, UInt

SIZE, BATCHES, BATCH, OPERATIONS, OBJECTS = 16, 25, 60, 100, 60

x, y = dr.arange(Float, SIZE) + 0.5, dr.arange(Float, SIZE) * 0.25 + 1
count, index = dr.arange(Int, SIZE) % 3, dr.arange(UInt, SIZE) % 2
mask = x > 8
dr.eval(x, y, count, index, mask)


def microseconds(function: Callable[[], Any], batch: int = BATCH) -> float:
    """Median processor time of a call."""
    gc.collect()
    times: list[float] = []
    for _ in range(BATCHES + 2):
        start = time.thread_time()
        for _ in range(batch):
            function()
        times.append(time.thread_time() - start)
    return statistics.median(times[2:]) / batch * 1e6


def total(value: Any) -> float:
    """A checksum of a flat array."""
    return float(dr.sum(Float(value))[0])


# --- constructs ------------------------------------------------------------------------------------------------------


def loop(body: Callable[[Any, Any], Any], mode: str = "symbolic") -> Any:
    """A loop of up to two iterations."""
    return dr.while_loop((count, x), lambda i, _: i < 2, lambda i, v: (i + 1, body(v, y)), mode=mode)[1]


def branch(body: Callable[[Any, Any], Any], mode: str = "symbolic") -> Any:
    """A branch, of which one side computes."""
    return dr.if_stmt((x, y), mask, body, lambda v, w: v, mode=mode)


def call(body: Callable[[Any, Any], Any], mode: str = "symbolic") -> Any:
    """A call of two functions, of which one computes."""
    return dr.switch(index, [body, lambda v, w: v], x, y, mode=mode)


def chain(number: int, v: Any, w: Any) -> Any:
    """So many operations and one, each of the one before."""
    v = v + w
    for _ in range(number // 4):
        v = (dr.fma(v, w, w) + w) * v - w
    return v


CONSTRUCTS = {"loop": loop, "branch": branch, "call": call}
FIRST = {"loop": lambda v, w: v, "branch": lambda v, w: v + w, "call": lambda v, w: v + w}


def traced(name: str, body: Callable[[Any, Any], Any], mode: str = "symbolic") -> tuple[float, float]:
    """Microseconds of a construct, and what it computes."""
    function = CONSTRUCTS[name]
    return microseconds(partial(function, body, mode)), total(function(body, mode))


def operation(name: str) -> tuple[float, float]:
    """Microseconds of an operation within a construct."""
    none, many = traced(name, partial(chain, 0)), traced(name, partial(chain, OPERATIONS))
    return (many[0] - none[0]) / OPERATIONS, many[1]


def finished(name: str) -> tuple[float, float]:
    """Microseconds of a construct that is evaluated, until it is."""

    def run() -> None:
        dr.eval(CONSTRUCTS[name](FIRST[name], "evaluated"))

    return microseconds(run, 10), total(CONSTRUCTS[name](FIRST[name], "evaluated"))


# --- functions that know something ------------------------------------------------------------------------------------


class Shape:
    """An object of a scene."""

    def __init__(self, number: int) -> None:
        self.name, self.visible = f"shape {number}", True
        self.center = Array3f(Float(number), x, y)
        self.radius, self.albedo = Float(number + 1), Array3f(0.5, 0.25, 0.125)
        self.velocity = Array3f(0, 0, 1)
        self.hits = UInt(0)


class Scene:
    """Many of them."""

    def __init__(self) -> None:
        self.shapes = [Shape(number) for number in range(OBJECTS)]
        self.total = Float(0)


scene = Scene()


def assigning(v: Any, w: Any) -> Any:
    """A body that assigns to some of what it knows."""
    scene.shapes[3].radius = scene.shapes[3].radius + v
    scene.total = scene.total + w
    return v + scene.shapes[5].radius


def knowing(v: Any, w: Any) -> Any:
    """A body that knows a scene, and leaves it alone."""
    return v + scene.shapes[5].radius


def captured(name: str, body: Callable[[Any, Any], Any]) -> tuple[float, float]:
    """Microseconds of a construct whose function knows a scene."""
    scene.__init__()  # type: ignore[misc]
    return microseconds(partial(CONSTRUCTS[name], body)), total(CONSTRUCTS[name](knowing))


# --- translated functions --------------------------------------------------------------------------------------------


@dr.syntax
def translated_loop(i: Any, v: Any) -> Any:
    """A loop, as statements."""
    while i < 2:
        i += 1
        v = v + y
    return v


@dr.syntax
def translated_branch(v: Any, w: Any) -> Any:
    """A branch, as statements."""
    if v > w:
        v = v + w
    return v


case("an empty loop", unit="us")(partial(traced, "loop", FIRST["loop"]))
for name in ("branch", "call"):
    case(f"a {name} of one operation", unit="us")(partial(traced, name, FIRST[name]))
for name in CONSTRUCTS:
    case(f"an operation in a {name}", unit="us")(partial(operation, name))
for name in CONSTRUCTS:
    case(f"a {name} that knows {OBJECTS} objects", unit="us")(partial(captured, name, knowing))
case(f"a loop that assigns to 2 of {OBJECTS} objects", unit="us")(partial(captured, "loop", assigning))
for name in CONSTRUCTS:
    case(f"an evaluated {name}", unit="us")(partial(finished, name))
case("a translated loop", unit="us")(lambda: (microseconds(lambda: translated_loop(count, x)),
                                              total(translated_loop(count, x))))
case("a translated branch", unit="us")(lambda: (microseconds(lambda: translated_branch(x, y)),
                                                total(translated_branch(x, y))))

if __name__ == "__main__":
    main()
