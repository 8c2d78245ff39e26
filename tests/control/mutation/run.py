"""Running a cell, and saying in words what is wrong with it."""

from __future__ import annotations

import contextlib
import linecache
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import drjit as dr

from .model import (
    LANES,
    Expected,
    Instance,
    Observation,
    Setting,
    Stop,
    array_of,
    expected,
    expected_of_lane,
    observe,
    package,
)
from .table import HOLDERS, PLACES, STRUCTURE, Cell, refusal

__all__ = ["outcome"]


@contextlib.contextmanager
def _in_mode(mode: str) -> Iterator[None]:
    """Constructs choose a mode by flags."""
    with contextlib.ExitStack() as stack:
        for flag in (dr.JitFlag.SymbolicLoops, dr.JitFlag.SymbolicConditionals, dr.JitFlag.SymbolicCalls):
            stack.enter_context(dr.scoped_set_flag(flag, mode not in ("evaluated", "compressed")))
        stack.enter_context(dr.scoped_set_flag(dr.JitFlag.CompressLoops, mode == "compressed"))
        yield


def _names() -> dict[str, Callable[..., Any]]:
    return {"if_stmt": dr.if_stmt, "while_loop": dr.while_loop, "switch": dr.switch, "dispatch": dr.dispatch,
            "syntax": dr.syntax}


def _run(cell: Cell, lanes: list[int]) -> Observation:
    """What is seen of a cell in its mode."""
    setting, result = Setting(cell, package(cell), lanes, PLACES[cell.place]), None
    instances = [Instance(True), Instance(False)]
    with _in_mode(cell.mode):
        if PLACES[cell.place].raises:
            with contextlib.suppress(Stop):
                setting.call(_names(), instances)
                raise AssertionError("what was raised is lost")
        else:
            result = setting.call(_names(), instances)
    if cell.spends:
        try:
            dr.eval(array_of(eval(HOLDERS[cell.holder], {"q": setting.subject})) + 1)
            raise AssertionError("what nobody knows can be used")
        except RuntimeError as error:
            if "returns another array in its place" not in str(error):
                raise
    return observe(setting, result)


def _difference(found: Observation, wanted: Observation, objects: list[dict[str, str | None]]) -> str:
    """In words what is wrong; the empty string if nothing is."""
    if found.numbers.keys() != wanted.numbers.keys():
        return f"there is {', '.join(found.numbers)}; expected {', '.join(wanted.numbers)}"
    for path, values in wanted.numbers.items():
        other = found.numbers[path]
        if values.shape == (1,) and path.startswith("result"):  # results of calls have all elements
            values = np.broadcast_to(values, other.shape)
        if values.shape != other.shape or not np.array_equal(values, other):
            return f"{path} is {other.tolist()}, expected {values.tolist()}"
    for path in wanted.objects:
        where = found.objects.get(path)
        if all(where != known[path] for known in objects):
            wish = " or ".join(dict.fromkeys(f"what {known[path]} was" if known[path] else "new" for known in objects))
            return f"{path} is {f'what {where} was' if where else 'new'}, expected to be {wish}"
    if wanted.derivative is not None and found.derivative is not None and \
            not np.array_equal(wanted.derivative, found.derivative):
        return f"the derivative is {found.derivative.tolist()}, expected {wanted.derivative.tolist()}"
    return ""


def outcome(cell: Cell) -> str:
    """``ok``, ``refused``, or what is wrong: ``wrong: …``, ``raises: …``."""
    try:
        if cell.mode != "scalar":
            return _outcome(cell, list(range(LANES)), expected(cell))
        found = [_outcome(cell, [lane], expected_of_lane(cell, lane)) for lane in range(LANES)]
        return next((problem for problem in found if problem != "ok"), "ok")
    finally:
        for file in [file for file in linecache.cache if file.startswith("<program of ")]:
            del linecache.cache[file]


def _outcome(cell: Cell, lanes: list[int], wanted: Expected) -> str:
    pattern, required = (STRUCTURE, wanted.seen is None) if wanted.may_differ else refusal(cell)
    try:
        found = _run(cell, lanes)
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        if pattern and re.search(pattern, text):
            return "refused"
        return f"raises: {text}" + (f" (expected: {pattern})" if pattern else "")
    if required or wanted.seen is None:
        return f"wrong: is not refused (expected: {pattern})"
    problem = _difference(found, wanted.seen, wanted.objects)
    return f"wrong: {problem}" if problem else "ok"
