"""Rows with structure that are registered from outside: bilinear interpolation in a table of two dimensions, which has
six operands, and in a region a seventh; and a sum of two products, four values.

What each floor has to be told about the first one stands here, from top to bottom; the second one follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drjit_core import Node, cast, gather, ops, primal
from drjit_core.codegen.linear import Instruction
from drjit_core.control import inline
from drjit_core.derivatives import structured as derivatives
from drjit_core.interpreter import execution
from drjit_core.ir import verify
from drjit_core.ir.build import literal
from drjit_core.ir.structured import differentiable, traced
from drjit_core.llvm import emit
from drjit_core.llvm.function import FunctionEmitter
from drjit_core.ops import table
from drjit_core.ops.structure import structural
from drjit_core.types import BOOL, FLOAT32, UINT32, UINT64

__all__ = ["CROSS", "ROW", "bilinear", "cross", "reference"]

# --- ops: what it is -------------------------------------------------------------------------------------------------

ROW = table.register(structural(
    "bilinear", (table.MEMORY, table.VALUE, table.VALUE, table.INDEX, table.INDEX, table.MASK),
    "Interpolation in a table, row by row: table, two coordinates of at most 1, width and height of at least 2, mask.",
    cost=60, needs_memory=True, speculable=False)._replace(accepts="f"), Path(__file__).read_bytes())

# --- ir: how it is traced, and what must hold ------------------------------------------------------------------------


def bilinear(source: Node, u: Node, v: Node, width: Node, height: Node, mask: Node, *, attr: int = 0,
             payload: Any = None) -> Node:
    """The table at a point, 0 where the mask is not set; each texel's centre is a multiple of one over its extent less
    one."""
    operands = source, u, v, width, height, mask
    return differentiable(ROW.kind, traced(ROW.kind, source.type, [primal(operand) for operand in operands], attr,
                                           payload), operands)


def _check(node: Node, values: list[Node]) -> None:
    verify.require(node.type == FLOAT32, node, "interpolates other numbers than single ones")


verify.CHECKS[ROW.kind] = _check

# --- control: what it is in a region that is traced again ------------------------------------------------------------

inline.AGAIN[ROW.kind] = inline.traced_again_by(bilinear)

# --- derivatives: by the table and both coordinates ------------------------------------------------------------------


def _place(coordinate: Node, extent: Node) -> tuple[Node, Node, Node]:
    """The texel before a coordinate, the distance from it, and the number of distances in the table."""
    last = cast(ops.sub(extent, literal(UINT32, 1)), FLOAT32)
    position = ops.minimum(ops.maximum(ops.mul(coordinate, last), literal(FLOAT32, 0)), last)
    first = ops.minimum(cast(primal(position), UINT32), ops.sub(extent, literal(UINT32, 2)))
    return first, ops.sub(position, cast(first, FLOAT32)), last


def _corners(operands: Sequence[Node]) -> list[tuple[Node, Node, Node, Node]]:
    """Index and weight of each corner, and the derivative of that by both coordinates."""
    _, u, v, width, height, _ = operands
    (x, fx, dx), (y, fy, dy) = _place(u, width), _place(v, height)
    one, found = literal(FLOAT32, 1), []
    for right in (0, 1):
        for below in (0, 1):
            wx, sx = (fx, dx) if right else (ops.sub(one, fx), ops.neg(dx))
            wy, sy = (fy, dy) if below else (ops.sub(one, fy), ops.neg(dy))
            index = ops.add(ops.mul(ops.add(y, literal(UINT32, below)), width), ops.add(x, literal(UINT32, right)))
            found.append((index, ops.mul(wx, wy), ops.mul(sx, wy), ops.mul(wx, sy)))
    return found


def _slope(operands: Sequence[Node], place: int) -> Node:
    """The derivative by a coordinate."""
    source, mask, total = operands[0], operands[5], literal(FLOAT32, 0)
    for index, _, *slopes in _corners(operands):
        total = ops.fma(gather(source, index, mask), slopes[place - 1], total)
    return total


def _forward(operands: Sequence[Node], place: int, change: Node) -> Node:
    return ops.mul(change, _slope(operands, place)) if place else bilinear(change, *operands[1:])


def _reverse(operands: Sequence[Node], place: int, gradient: Node) -> Node:
    return ops.mul(gradient, _slope(operands, place))


def _scattered(operands: Sequence[Node], place: int, gradient: Node) -> list[tuple[Node, Node, Node]]:
    return [(ops.mul(gradient, weight), index, operands[5]) for index, weight, _, _ in _corners(operands)]


derivatives.register(ROW.name, derivatives.Derivative(_forward, _reverse, _scattered))

# --- llvm: its text --------------------------------------------------------------------------------------------------


def _print(emitter: FunctionEmitter, instruction: Instruction) -> None:
    uniform, (access,), w = instruction.uniform, instruction.accesses, emitter.writer
    real, whole, mask, long = (emitter.types(uniform)[type_] for type_ in (FLOAT32, UINT32, BOOL, UINT64))
    base = emitter.parameter(access.slot, "ptr")
    *coordinates, width, height, wanted = emitter.values(instruction.operands, uniform)
    wanted = w(f"and {mask} {wanted}, {emitter.active_mask(uniform)}")
    places, weights = [], []
    for coordinate, extent in zip(coordinates, (width, height), strict=True):
        last = w(f"sub {whole} {extent}, {whole.splat(1)}")
        last_real = w(f"uitofp {whole} {last} to {real}")
        position = w(f"fmul {real} {coordinate}, {last_real}")
        position = w.call(real, f"llvm.maxnum.{real.suffix}", f"{real} {position}", f"{real} {real.splat('0.0')}")
        position = w.call(real, f"llvm.minnum.{real.suffix}", f"{real} {position}", f"{real} {last_real}")
        place, last = w(f"fptoui {real} {position} to {whole}"), w(f"sub {whole} {extent}, {whole.splat(2)}")
        places.append(w.call(whole, f"llvm.umin.{whole.suffix}", f"{whole} {place}", f"{whole} {last}"))
        weights.append(w(f"fsub {real} {position}, {w(f'uitofp {whole} {places[-1]} to {real}')}"))
    row = w(f"mul {whole} {places[1]}, {width}")
    corners = [w(f"add {whole} {row}, {places[0]}")]
    corners += [w(f"add {whole} {corners[0]}, {step}") for step in (whole.splat(1), width)]
    corners.append(w(f"add {whole} {corners[2]}, {whole.splat(1)}"))
    texels = []
    for corner in corners:
        index = f"{whole} {corner}"
        if access.wide or uniform:  # as long as it need not be, the address computation extends it by its sign
            index = f"{long} {w(f'zext {index} to {long}')}"
        at = w(f"getelementptr float, ptr {base}, {index}")
        if uniform:
            found = w.load("float", w.either(wanted, "ptr", at, "%parameters"), 4)
            texels.append(w.either(wanted, "float", found, "0.0"))
        else:
            texels.append(w.gathered(real, at, 4, wanted))

    def between(a: str, b: str, weight: str) -> str:
        part = w(f"fmul {real} {w(f'fsub {real} {b}, {a}')}, {weight}")
        return w(f"fadd {real} {a}, {part}")

    rows = (between(*texels[first:first + 2], weights[0]) for first in (0, 2))
    emitter.define(instruction, between(*rows, weights[1]))


emit.register(ROW.kind, _print)

# --- interpreter: its meaning ----------------------------------------------------------------------------------------


def reference(source: Any, u: Any, v: Any, width: Any, height: Any, mask: Any) -> Any:
    """What the row means, with NumPy, in its order of operations."""
    def place(coordinate: Any, extent: Any) -> tuple[Any, Any]:
        last = np.float32(extent - 1)
        position = np.clip(coordinate * last, np.float32(0), last)
        first = np.minimum(position.astype(np.uint32), np.uint32(extent - 2))
        return first, position - first.astype(np.float32)

    width, height = int(width), int(height)
    (x, fx), (y, fy) = place(u, width), place(v, height)
    first = np.where(mask, y * np.uint32(width) + x, 0).astype(np.int64)
    a, b, c, d = (source[first + offset] for offset in (0, 1, width, width + 1))
    upper, lower = a + (b - a) * fx, c + (d - c) * fx
    return np.where(mask, upper + (lower - upper) * fy, np.float32(0)).astype(np.float32)


def _meaning(interpreter: execution.Interpreter, node: Node) -> Any:
    source, u, v, width, height, mask, *live = interpreter.operands(node)
    for active in live:
        mask = mask & (active if node.size > 1 else active.any())
    return reference(source, u, v, width[0], height[0], mask)


execution.MEANINGS[ROW.kind] = _meaning


# --- a row without memory --------------------------------------------------------------------------------------------

CROSS = table.register(structural("cross", (table.VALUE,) * 4, "a * b - c * d", cost=3)._replace(accepts="f"),
                       Path(__file__).read_bytes())


def cross(a: Node, b: Node, c: Node, d: Node, *, attr: int = 0, payload: Any = None) -> Node:
    """``a * b - c * d``."""
    operands = a, b, c, d
    return differentiable(CROSS.kind, traced(CROSS.kind, a.type, [primal(operand) for operand in operands], attr,
                                             payload), operands)


def _print_cross(emitter: FunctionEmitter, instruction: Instruction) -> None:
    w, type_ = emitter.writer, emitter.types(instruction.uniform)[instruction.type]
    a, b, c, d = emitter.values(instruction.operands, instruction.uniform)
    products = w(f"fmul {type_} {a}, {b}"), w(f"fmul {type_} {c}, {d}")
    emitter.define(instruction, w(f"fsub {type_} {products[0]}, {products[1]}"))


def _factor(operands: Sequence[Node], place: int, gradient: Node) -> Node:
    other = operands[place ^ 1]
    return ops.mul(gradient, other if place < 2 else ops.neg(other))


def _cross(interpreter: execution.Interpreter, node: Node) -> Any:
    a, b, c, d = interpreter.operands(node)
    return a * b - c * d


emit.register(CROSS.kind, _print_cross)
inline.AGAIN[CROSS.kind] = inline.traced_again_by(cross)
execution.MEANINGS[CROSS.kind] = _cross
derivatives.register(CROSS.name, derivatives.Derivative(_factor, _factor))
