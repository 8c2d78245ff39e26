"""Replays of recordings, on 16 elements: what they take beyond the kernels.  This project alone has them.

Each case is compared with tracing and launching the same program again (``traced: …``).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from measure import case, main

from drjit_core import (
    Node,
    Recorded,
    ReduceOp,
    cast,
    counter,
    evaluate,
    literal,
    opaque,
    ops,
    read_element,
    reduce,
    sync,
)
from drjit_core.types import FLOAT32

ROUNDS = 500  #: In a repeat.
REPEATS = 25
ADD = ReduceOp.Add.value


def array(first: float) -> Node:
    """16 elements from a number on."""
    return opaque(ops.fma(cast(counter(16), FLOAT32), literal(FLOAT32, 1 / 160), literal(FLOAT32, first)))


def microseconds(once: Callable[[], Any], rounds: int) -> float:
    """Median time of a round."""
    times = []
    for _ in range(REPEATS + 2):
        start = time.perf_counter()
        for _ in range(rounds):
            once()
        sync()
        times.append((time.perf_counter() - start) / rounds * 1e6)
    return statistics.median(times[2:])


def chain(count: int, stages: int) -> Callable[[Node, Node], list[Node]]:
    """So many operations in so many kernels, of which each needs the sum of what the one before has computed."""
    def program(x: Node, y: Node) -> list[Node]:
        for stage in range(stages):
            for number in range(count // stages):
                x = ops.fma(x, y, literal(FLOAT32, 0.1)) if number % 3 else ops.mul(x, y)
            if stage + 1 < stages:
                x = ops.mul(x, ops.div(literal(FLOAT32, 1.0), reduce(x, ADD)))
        return [x]

    return program


def total(*arguments: Node) -> list[Node]:
    """The sum of all arguments."""
    result = arguments[0]
    for each in arguments[1:]:
        result = ops.add(result, each)
    return [result]


def register(name: str, function: Callable[..., Sequence[Node]], arguments: Sequence[Node]) -> None:
    """The two cases of a program."""
    def checksum(results: Sequence[Node]) -> float:
        return sum(read_element(results[0], index) for index in range(16))

    @case(f"replay: {name}", unit="us")
    def replayed() -> tuple[float, float]:
        recorded = Recorded(function)
        recorded(*arguments)
        found = microseconds(lambda: recorded(*arguments), ROUNDS)
        return found, checksum(recorded(*arguments))

    @case(f"traced: {name}", unit="us")
    def traced() -> tuple[float, float]:
        def once() -> Sequence[Node]:
            results = function(*arguments)
            evaluate(results)
            return results

        return microseconds(once, ROUNDS // 10), checksum(once())


for operations, kernels in ((1, 1), (100, 1), (300, 1), (100, 2), (100, 4), (300, 4)):
    plural = "s" if kernels > 1 else ""
    register(f"{operations} operations, {kernels} kernel{plural}", chain(operations, kernels), [array(0.9), array(0.8)])
for count in (1, 10, 100):
    register(f"{count} arguments", total, [array(1.0) for _ in range(count)])

if __name__ == "__main__":
    main()
