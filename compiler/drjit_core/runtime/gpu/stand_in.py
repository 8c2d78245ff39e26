"""Steps that have no PTX yet: the host computes them, on NumPy arrays, as :mod:`drjit_core.interpreter.steps` says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ...codegen.steps import Array, Call, Pass, Text
from ...interpreter.elementwise import dtype_of
from ...interpreter.steps import MEANINGS
from ...ops.steps import Step
from .launches import Launch

__all__ = ["OnHost", "StandIn", "stand_in"]


class OnHost(NamedTuple):
    """What a launch needs to know besides addresses."""

    step: Step
    operands: tuple[tuple[int, int], ...]  # types and sizes
    results: tuple[tuple[int, int, int], ...]  # positions, types and sizes
    width: int


def _no_text() -> str:
    return ""


def stand_in(call: Call) -> Iterable[Pass]:
    """The one pass of a step, whose words are the addresses of operands and results."""
    launch = OnHost(call.step, tuple([(each.type, each.size) for each in call.operands]),
                    tuple([(place, each.type, each.size) for place, each in call.results.items()]),
                    call.operands[0].size)
    words = tuple([each.address for each in (*call.operands, *call.results.values())])
    return [Pass(Text(f"{call.step.name} on the host", (), _no_text, 1), words, launch)]


class StandIn:
    """A kernel that is none."""

    build_time, from_disk, size, operations, reductions, text = 0.0, False, 0, 1, 0, ""

    def __init__(self, backend: Any, name: str) -> None:
        self._backend, self.hash = backend, name

    def reuse(self, width: int, /) -> None:
        """There is nothing to count."""

    def launch_pass(self, one: Pass, keep: list[Any], timed: bool, /) -> Launch:
        """A launch."""
        return Launch(self, np.array(one.words, np.uint64).tobytes(), one.launch, b"", keep, timed)

    def run(self, launch: Launch) -> None:
        """Compute it."""
        shape: OnHost = launch.shape
        driver, addresses = self._backend.driver, np.frombuffer(launch.words, np.uint64).tolist()
        given = [Array(type_, size, address) for (type_, size), address in zip(shape.operands, addresses, strict=False)]
        operands = [np.frombuffer(driver.download(each.address, each.nbytes), dtype_of(each.type)) for each in given]
        found = MEANINGS[shape.step.name](shape.step, *operands)
        for (position, type_, _), address in zip(shape.results, addresses[len(given):], strict=True):
            driver.upload(address, np.ascontiguousarray(found[position], dtype_of(type_)).tobytes())
