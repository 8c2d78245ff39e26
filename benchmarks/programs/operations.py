"""Cost of tracing, operation by operation, in three situations:

* *new, unnumbered*: value numbering is switched off, and each evaluation of the expression makes its value;
* *new*: value numbering is on, and each evaluation makes a value that it has to look for first and then enters;
* *numbered*: value numbering is on, and each evaluation finds the value that exists.

A row is an expression with an operand that varies: a repeat evaluates it for hundreds of different ones, each with a
value of its own and none with a long chain behind it, and drops the values at its end (see
:func:`measure.microseconds`).  Functions are looked up in ``dr`` each time.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from measure import case, main, microseconds

import drjit as dr
from drjit.llvm import Array3f, Array4f, ArrayXf, Float, Int, Matrix4f, TensorXf, UInt

try:
    import drjit_core as core
except ModuleNotFoundError:  # the peer, whose nodes cannot be made one by one
    core = None  # type: ignore[assignment]

SIZE = 1000
UNNUMBERED, NEW, NUMBERED = "new, unnumbered", "new", "numbered"
#: Title, expression, the operand that varies, evaluations in a repeat (about a millisecond's worth).
ROWS = [
    ("Float + Float", "a + b", "a", 1000),
    ("Float * 1.5", "a * 1.5", "a", 1000),
    ("Array3f + Array3f", "v + w", "v", 400),
    ("Float + Array3f", "a + v", "a", 400),
    ("Array3f + Float", "v + a", "v", 400),
    ("Matrix4f @ Matrix4f", "m @ n", "m", 40),
    ("Matrix4f * 2", "m * 2", "m", 100),
    ("Matrix4f @ Array4f", "m @ q", "m", 100),
    ("sin(Float)", "dr.sin(a)", "a", 1000),
    ("Float ** 2", "a ** 2", "a", 1000),
    ("select(Bool, Float, Float)", "dr.select(p, a, b)", "a", 1000),
    ("Int & Bool", "i & p", "i", 1000),
    ("TensorXf + TensorXf", "s + t", "s", 400),
    ("TensorXf * 2", "s * 2", "s", 400),
    ("TensorXf (25,40) + (40,)", "s + row", "s", 200),
    ("maximum(TensorXf, 0.5)", "dr.maximum(s, 0.5)", "s", 400),
    ("Array3f < Array3f", "v < w", "v", 400),
    ("gather(Float, Float, UInt)", "dr.gather(Float, a, index)", "index", 1000),
    ("dot(Array3f, Array3f)", "dr.dot(v, w)", "v", 400),
    ("normalize(Array3f)", "dr.normalize(v)", "v", 200),
    ("Array3f(a, b, c)", "Array3f(a, b, c)", "a", 1000),
    ("Array3f.x", "v.x", "v", 1000),
    ("Float(1.25)", "Float(number)", "number", 1000),
    ("fma(Float, Float, Float)", "dr.fma(a, b, c)", "a", 1000),
]


def operands() -> dict[str, Any]:
    """What the expressions name: all types, a number, and evaluated arrays of 1000 elements."""
    k = dr.arange(Float, SIZE)
    a, b, c = k / SIZE, k / (4 * SIZE) + 0.5, 1 - k / SIZE
    i = dr.arange(Int, SIZE) % 17 + 1
    found = {
        "a": a, "b": b, "c": c, "i": i, "p": i > 8, "index": SIZE - 1 - dr.arange(UInt, SIZE),
        "v": Array3f(a + 0.25, b, c), "w": Array3f(b, c, a), "q": Array4f(a, b, c, a + b),
        "m": Matrix4f(*(a * (1 + 0.1 * entry) + b for entry in range(16))),
        "n": Matrix4f(*(b * (2 - 0.1 * entry) - a for entry in range(16))),
        "s": TensorXf(a + 0.125, (25, 40)), "t": TensorXf(b, (25, 40)),
        "row": TensorXf(dr.arange(Float, 40) / 40, (40,)),
    }
    dr.eval(list(found.values()))
    dr.sync_thread()
    return {"dr": dr, "Float": Float, "Array3f": Array3f, "number": 1.25, **found}


OPERANDS = operands()


def flat(value: Any) -> list[Any]:
    """The flat arrays of which a value, or a list of them, consists."""
    if isinstance(value, list):
        return [array for entry in value for array in flat(entry)]
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


def evaluated(expression: str, varying: str, variants: list[Any]) -> list[Any]:
    """What an expression gives for the values of the name that varies."""
    code = compile(expression, "<row>", "eval")
    return [eval(code, OPERANDS | {varying: variant}) for variant in variants]


def measured(kind: str, expression: str, varying: str, count: int) -> tuple[float, float]:
    """Microseconds of an operation in one of the situations, and its checksum."""
    variants = [OPERANDS[varying] + k for k in range(1, count + 1)]
    with dr.scoped_set_flag(dr.JitFlag.ValueNumbering, kind != UNNUMBERED):
        kept = evaluated(expression, varying, variants)
        if len({flat(value)[0].index for value in kept}) != count:
            raise RuntimeError(f"{expression!r} is the same for different values of {varying!r}")
        again = evaluated(expression, varying, variants)
        same = all(x.index == y.index for x, y in zip(flat(kept), flat(again), strict=True))
        if kind == NUMBERED and not same:
            raise RuntimeError(f"value numbering does not find {expression!r} again")
        del again
        if kind != NUMBERED:
            kept.clear()
        elapsed = microseconds(expression, varying, variants, OPERANDS)
    return elapsed, checksum(evaluated(expression, varying, [OPERANDS[varying]])[0])


def measured_core() -> tuple[float, float]:
    """Microseconds of a node that is made and entered into the value table, as the array layer asks for it."""
    type_ = core.VarType.Float32.value
    left, right = core.cast(core.counter(SIZE), type_), core.undefined(type_, SIZE)
    nodes = [core.ops.add(left, core.literal(type_, float(k))) for k in range(1, 1001)]
    if hasattr(core, "binary"):
        return microseconds("binary(kind, node, right)", "node", nodes,
                            {"binary": core.binary, "kind": core.KIND["add"], "right": right}), 0.0
    return microseconds("add(node, right)", "node", nodes, {"add": core.ops.add, "right": right}), 0.0


def measured_batch() -> tuple[float, float]:
    """Microseconds of a node among a thousand that one operator makes and numbers."""
    names: dict[str, Any] = {"y": ArrayXf([OPERANDS["b"] * (1.25 + k) for k in range(SIZE)])}
    variants = [ArrayXf([OPERANDS["a"] + (0.5 + k + n * SIZE) for k in range(SIZE)]) for n in range(10)]
    first = variants[0] + names["y"]
    return microseconds("x + y", "x", variants, names) / SIZE, checksum([first[0], first[1], first[SIZE - 1]])


case("a node of a thousand that an operator makes", unit="us")(measured_batch)
if core is not None:
    case("a node made and numbered in the core", unit="us")(measured_core)
for kind in (UNNUMBERED, NEW, NUMBERED):
    for title, *row in ROWS:
        case(f"{kind}: {title}", unit="us")(partial(measured, kind, *row))

if __name__ == "__main__":
    main()
