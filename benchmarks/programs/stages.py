"""Where the time of an operation, a launch and a chain goes: the stages of this project, and totals of any side.

What compiled code does is not seen by a profiler: a stage is measured by calling its entry point of the core, or is
the difference of two expressions.  All stages of a panel add up to its total, but for those that begin with *more*.  An
operation's entry points, called from here, cost a call that compiled code does not make: there, it is subtracted.
"""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from measure import case, main, microseconds

import drjit as dr
from drjit.llvm import Float, Int

try:
    import drjit_core as core
except ModuleNotFoundError:  # the peer, of which totals are all that is known
    core = None  # type: ignore[assignment]

COUNT = 1000
SIZE = 1000
x, y = dr.arange(Float, SIZE) / SIZE, dr.arange(Float, SIZE) / (4 * SIZE) + 0.5
index = dr.arange(Int, SIZE)
dr.eval(x, y, index)
dr.sync_thread()

ALL = "in all"
OPERATION = {
    "operator: dispatch, types": "operator",
    "value table: lookup": "lookup",
    "value table: entry, removal": "entry",
    "node: made, released": "node",
    "array object: made, released": "object",
    "more for a number (a * 1.5)": "number",
    "more for a plan (a * i)": "plan",
}
LAUNCH = {
    "tracing": "tracing",
    "planning": "planning",
    "binding, key": "binding",
    "planning, binding, key in one walk": "walk",
    "lookup of the kernel": "lookup",
    "allocation": "allocation",
    "submission": "submission",
    "the kernel itself": "kernel",
    "commit": "commit",
    "all else": "rest",
}
ROUNDS = 300


# --- an operation ----------------------------------------------------------------------------------------------------


def operation() -> dict[str, float]:
    """Microseconds of ``a * b`` and of its stages."""
    variants: list[Any] = [x + k for k in range(1, COUNT + 1)]
    names = {"a": x, "b": y, "i": index}
    found = {ALL: microseconds("a * b", "a", variants, names)}
    if core is None:
        return found
    from drjit._base.handle import fresh
    from drjit_core.context import current
    from drjit_core.ir.node import enter, find2

    kept = [[a * y, a * 1.5, a * index] for a in variants]
    numbered, number, plan = (microseconds(text, "a", variants, names) for text in ("a * b", "a * 1.5", "a * i"))
    nodes = [a._n for a in variants]
    names = {"kind": core.KIND["mul"], "node": nodes[0], "right": y._n, "cls": Float, "find2": find2, "enter": enter,
             "fresh": fresh, "current": current}
    call = microseconds("current()", "node", nodes, names) if core.rooms_report().startswith("compiled") else 0.0
    lookup = microseconds("find2(kind, node, right, 0)", "node", nodes, names) - call
    entry = microseconds("enter(node, 0)", "node", [products[0]._n for products in kept], names) - call
    made = microseconds("fresh(cls)", "node", nodes, names) - call
    return found | {"operator": numbered - lookup - made, "lookup": lookup, "entry": entry,
                    "node": found[ALL] - numbered - entry, "object": made, "number": number - numbered,
                    "plan": plan - numbered}


# --- launches --------------------------------------------------------------------------------------------------------


def program(count: int) -> Float:
    """So many operations, one after the other."""
    result = x
    for _ in range(count // 2):
        result = result * 0.999 + 0.001
    return result


#: Runs something, and gives the seconds that each stage of it took.
Probe = Callable[[], dict[str, float]]


def timed(stage: str, function: Callable[[], Any]) -> Probe:
    """A probe for a function; what that returns is dropped within the time."""

    def probe() -> dict[str, float]:
        start = perf_counter()
        function()
        return {stage: perf_counter() - start}

    return probe


def medians(probes: list[Probe]) -> dict[str, float]:
    """Median microseconds of all stages; the probes take turns, since the speed of the machine changes."""
    times: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for probe in (timed("", lambda: None), *probes):
            for stage, elapsed in probe().items():
                times.setdefault(stage, []).append(elapsed)
    found = {stage: statistics.median(values) * 1e6 for stage, values in times.items()}
    nothing = found.pop("")
    return {stage: value - nothing for stage, value in found.items()}


def launch(count: int) -> dict[str, float]:
    """Microseconds of tracing and evaluating a program, and of the stages."""
    for _ in range(50):
        dr.eval(program(count))
    dr.sync_thread()
    probes = [timed(ALL, lambda: dr.eval(program(count)))]
    if core is None:
        return medians(probes)
    probes.append(timed("tracing", lambda: program(count)))
    walk = walked(count)
    if walk:
        found = medians([*probes, *walk, lambda: {"kernel": by_hand(count)["kernel"]}])
    else:
        found = medians([*probes, partial(by_hand, count)])
        found["submission"] -= found["kernel"]
    return found | {"rest": found[ALL] - sum(found[stage] for stage in found if stage != ALL)}


def by_hand(count: int) -> dict[str, float]:
    """Evaluate a program by the general way, stage after stage, and run its kernel once more by itself."""
    from drjit_core.codegen.program import assemble
    from drjit_core.passes.schedule import plan
    from drjit_core.runtime import backends
    from drjit_core.runtime.launch import _allocate_outputs, _commit

    backend, roots = backends.backend_of(0), [program(count)._n]
    marks = [perf_counter()]
    (kernel,) = plan(roots, backend.target())
    marks.append(perf_counter())
    assembled = assemble(kernel, backend.target(), False)
    marks.append(perf_counter())
    compiled, _ = backend.compile(assembled)
    marks.append(perf_counter())
    outputs = _allocate_outputs(backend, assembled, compiled)
    marks.append(perf_counter())
    shape = compiled.shape(compiled.course(assembled), assembled.units, assembled.unit)
    launched = compiled.launch(array("Q", assembled.parameters), shape, [], False)
    ticket = backend.submit(launched)
    marks.append(perf_counter())
    _commit(backend, assembled, outputs, [], ticket)
    marks.append(perf_counter())
    stages = ("planning", "binding", "lookup", "allocation", "submission", "commit")
    found = {stage: end - start for stage, start, end in zip(stages, marks, marks[1:], strict=False)}
    native, address = compiled.functions.callables[1], launched.address
    marks = [perf_counter()]
    native(address, 0, 1, 0, SIZE, 0, 0)
    marks.append(perf_counter())
    native(address, 0, 1, 0, 0, 0, 0)  # no elements: what a call costs that is made from here
    marks.append(perf_counter())
    return found | {"kernel": 2 * marks[1] - marks[0] - marks[2]}


def walked(count: int) -> list[Probe]:
    """Probes of compiled code that does most at once; none where that is not what evaluates the program.

    Lookup, submission and commit cannot be told from all else there.
    """
    from drjit_core.runtime import backends
    from drjit_core.runtime.cpu.memory import HEAP

    recipes, result = backends.LLVM.recipes, program(count)
    if recipes.key_of([result._n]) is None:
        return []
    return [timed("walk", lambda: recipes.key_of([result._n])),
            timed("allocation", lambda: HEAP.release(HEAP.allocate(4 * SIZE)))]


# --- the cases -------------------------------------------------------------------------------------------------------

PANELS: dict[str, tuple[Callable[[], dict[str, float]], dict[str, str]]] = {
    "operation": (operation, OPERATION),
    "launch": (partial(launch, 2), LAUNCH),
    "chain": (partial(launch, 100), LAUNCH),
}


for panel, (measure_panel, stages) in PANELS.items():
    measured = measure_panel()
    for stage, key in {ALL: ALL, **stages}.items():
        case(f"{panel}: {stage}", unit="us")(partial(lambda value: (value, 0.0), measured.get(key)))

if __name__ == "__main__":
    main()
