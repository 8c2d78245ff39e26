"""Cost of tracing, operation by operation: *new*, each making what it stands for, and *found* by value numbering.

A row is an expression over evaluated operands.  With value numbering switched off, each evaluation of it makes a new
value; the values of a repeat are all kept until its end, as those of a traced program are.  With value numbering on,
and one value of the expression kept alive, each evaluation finds that one and drops its own reference again.  The
figure is the median over the repeats of the processor time that an evaluation takes in its thread (tracing waits for
nothing, so that other programs on the machine count less), minus that of the same loop around ``None``.  Functions are
looked up in ``dr`` each time, and the garbage collector runs as users have it.

Two numbers as arguments, ``k n``, ask for the k-th of n parts of the rows: sides that alternate often meet the same
machine, whose speed changes within seconds.
"""

from __future__ import annotations

import gc
import statistics
import sys
from collections.abc import Callable
from functools import partial
from itertools import repeat
from time import thread_time
from typing import Any

from measure import case, main

import drjit as dr
from drjit.llvm import Array3f, Array4f, Float, Int, Matrix4f, TensorXf, UInt

SIZE = 1000
REPEATS = 9
SHORTEST = 1e-3  #: Microseconds: what is as short as the empty loop is not negative.

#: Title, expression, evaluations in a repeat: some 5,000 new objects, so that the garbage collector has its share.
ROWS = [
    ("Float + Float", "a + b", 4000),
    ("Float * 1.5", "a * 1.5", 2000),
    ("Float ** 2", "a ** 2", 2000),
    ("Float + Int", "a + i", 2000),
    ("Int & Bool", "i & p", 2000),
    ("sin(Float)", "dr.sin(a)", 2000),
    ("fma(Float, Float, Float)", "dr.fma(a, b, c)", 2000),
    ("select(Bool, Float, Float)", "dr.select(p, a, b)", 2000),
    ("gather(Float, Float, UInt)", "dr.gather(Float, a, index)", 2000),
    ("Float(1.25)", "Float(1.25)", 4000),
    ("Array3f(a, b, c)", "Array3f(a, b, c)", 2000),
    ("Array3f.x", "v.x", 4000),
    ("Array3f + Array3f", "v + w", 1000),
    ("Float + Array3f", "a + v", 1000),
    ("Array3f + Float", "v + a", 1000),
    ("Array3f * Int", "v * i", 500),
    ("Array3f > 0.5", "v > 0.5", 1000),
    ("Array3f < Array3f", "v < w", 1000),
    ("Array3f == Array3f", "v == w", 1000),
    ("dot(Array3f, Array3f)", "dr.dot(v, w)", 1000),
    ("normalize(Array3f)", "dr.normalize(v)", 500),
    ("Matrix4f * 2", "m * 2", 200),
    ("Matrix4f @ Array4f", "m @ q", 200),
    ("Matrix4f @ Matrix4f", "m @ n", 100),
    ("TensorXf + TensorXf", "s + t", 1000),
    ("TensorXf * 2", "s * 2", 1000),
    ("TensorXf (25,40) + (40,)", "s + row", 300),
    ("TensorXf (25,1) + (1,40)", "column + line", 300),
    ("maximum(TensorXf, 0.5)", "dr.maximum(s, 0.5)", 1000),
]


def operands() -> dict[str, Any]:
    """What the expressions name: all types, and evaluated arrays of 1000 elements."""
    k = dr.arange(Float, SIZE)
    a, b, c = k / SIZE, k / (4 * SIZE) + 0.5, 1 - k / SIZE
    i = dr.arange(Int, SIZE) % 17 + 1
    found = {
        "a": a, "b": b, "c": c, "i": i, "p": i > 8, "index": SIZE - 1 - dr.arange(UInt, SIZE),
        "v": Array3f(a + 0.25, b, c), "w": Array3f(b, c, a), "q": Array4f(a, b, c, a + b),
        "m": Matrix4f(*(a * (1 + 0.1 * entry) + b for entry in range(16))),
        "n": Matrix4f(*(b * (2 - 0.1 * entry) - a for entry in range(16))),
        "s": TensorXf(a + 0.125, (25, 40)), "t": TensorXf(b, (25, 40)),
        "row": TensorXf(dr.arange(Float, 40) / 40, (40,)), "line": TensorXf(dr.arange(Float, 40) / 40, (1, 40)),
        "column": TensorXf(dr.arange(Float, 25) / 25, (25, 1)),
    }
    dr.eval(list(found.values()))
    dr.sync_thread()
    return {"dr": dr, "Float": Float, "Array3f": Array3f, **found}


OPERANDS = operands()


def timed_loop(statement: str) -> Callable[[int, list[Any]], float]:
    """A function that repeats a statement, all names in it being local, and returns the seconds this took."""
    names = ", ".join(OPERANDS)
    lines = [f"def loop(count, results, *, {names}):",
             " keep = results.append",
             " start = now()",
             " for _ in repeat(None, count):",
             f"  {statement}",
             " return now() - start"]
    scope: dict[str, Any] = {"now": thread_time, "repeat": repeat}
    exec("\n".join(lines), scope)
    loop = scope["loop"]
    return lambda count, results: loop(count, results, **OPERANDS)


def microseconds(statement: str, count: int) -> float:
    """Median time that a statement takes in a loop; what it kept is dropped between the repeats."""
    loop = timed_loop(statement)
    times = []
    for _ in range(REPEATS + 1):
        gc.collect()
        results: list[Any] = []
        times.append(loop(count, results) / count * 1e6)
        del results
    return statistics.median(times[1:])


def flat(value: Any) -> list[Any]:
    """The flat arrays of which a value consists."""
    if dr.is_tensor_v(value):
        return [value.array]
    if dr.depth_v(value) == 1:
        return [value]
    return [array for k in range(len(value)) for array in flat(value[k])]


def checksum(value: Any) -> float:
    """A number that depends on all components."""
    total = Float(0)
    for k, array in enumerate(flat(value)):
        total += (dr.select(array, Float(1), Float(0)) if dr.is_mask_v(array) else Float(array)) * (1 + 0.125 * k)
    return float(dr.mean(total)[0])


def new(expression: str, count: int) -> tuple[float, float]:
    """Microseconds of an expression whose values are new each time, and its checksum."""
    with dr.scoped_set_flag(dr.JitFlag.ValueNumbering, False):
        elapsed = microseconds(f"keep({expression})", count) - microseconds("keep(None)", count)
    return max(elapsed, SHORTEST), checksum(eval(expression, dict(OPERANDS)))


def found(expression: str, count: int) -> tuple[float, float]:
    """Microseconds of an expression whose value exists, and its checksum."""
    kept, again = eval(expression, dict(OPERANDS)), eval(expression, dict(OPERANDS))
    if [array.index for array in flat(kept)] != [array.index for array in flat(again)]:
        raise RuntimeError(f"value numbering does not find {expression!r} again")
    elapsed = microseconds(expression, count) - microseconds("None", count)
    return max(elapsed, SHORTEST), checksum(kept)


cases = [(kind, *row) for kind in (new, found) for row in ROWS]
part, parts = map(int, sys.argv[1:3]) if len(sys.argv) > 2 else (0, 1)
for kind, title, expression, count in cases[len(cases) * part // parts:len(cases) * (part + 1) // parts]:
    case(f"{kind.__name__}: {title}", unit="us")(partial(kind, expression, count))

if __name__ == "__main__":
    main()
