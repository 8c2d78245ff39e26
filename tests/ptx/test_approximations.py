"""What kernels of GPUs approximate where FastMath is set: within stated errors, and exactly where it is cleared.

The machine rounds approximate instructions correctly; a device adds the errors that the PTX manual states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit_core as core
from drjit_core import JitFlag, Node, literal, on_backend, ops, scoped_set_flag
from tests.core.harness import FLOAT16, FLOAT32, FLOAT64, UINT32, array, assert_same_bits, dtype_of, values
from tests.machine.backend import OnMachine

Function = Callable[[Any], Any]
TINY = np.float32(1e-40)
ANGLES = np.concatenate([np.linspace(-100, 100, 1001), np.geomspace(1, 3e38, 300), -np.geomspace(1, 3e38, 300)])
POSITIVE = np.geomspace(2e-38, 2e38, 1001)
SIGNED = np.concatenate([POSITIVE, -POSITIVE])

#: By name: what is traced, its meaning, arguments, the largest absolute and relative error (either suffices), in
#: powers of two, and what becomes of 0, -0, inf, -inf, NaN, and of denormal numbers.
CASES: dict[str, tuple[Callable[[Node], Node], Function, Any, int, int, list[float], list[float]]] = {
    "div": (lambda x: ops.div(literal(FLOAT32, 2.5), x), lambda x: 2.5 / x, SIGNED, -150, -22,
            [np.inf, -np.inf, 0.0, -0.0, np.nan], [np.inf, -np.inf]),
    "rcp": (core.rcp, lambda x: 1 / x, SIGNED[np.abs(SIGNED) < 5e37], -126, -22,
            [np.inf, -np.inf, 0.0, -0.0, np.nan], [np.inf, -np.inf]),
    "rsqrt": (core.rsqrt, lambda x: 1 / np.sqrt(x), POSITIVE, -150, -21,
              [np.inf, -np.inf, 0.0, np.nan, np.nan], [np.inf, -np.inf]),
    "sqrt": (ops.sqrt, np.sqrt, POSITIVE, -150, -22, [0.0, -0.0, np.inf, np.nan, np.nan], [0.0, -0.0]),
    "exp2": (core.exp2, np.exp2, np.linspace(-125, 127, 1001), -150, -21, [1, 1, np.inf, 0, np.nan], [1, 1]),
    "exp": (core.exp, np.exp, np.linspace(-87, 88, 1001), -150, -16, [1, 1, np.inf, 0, np.nan], [1, 1]),
    "log2": (core.log2, np.log2, POSITIVE, -21, -21, [-np.inf, -np.inf, np.inf, np.nan, np.nan], [-np.inf, -np.inf]),
    "log": (core.log, np.log, POSITIVE, -21, -21, [-np.inf, -np.inf, np.inf, np.nan, np.nan], [-np.inf, -np.inf]),
    "sin": (core.sin, np.sin, ANGLES, -20, -150, [0.0, -0.0, np.nan, np.nan, np.nan], [0.0, -0.0]),
    "cos": (core.cos, np.cos, ANGLES, -20, -150, [1, 1, np.nan, np.nan, np.nan], [1, 1]),
    "tan": (core.tan, np.tan, np.linspace(-1.5, 1.5, 1001), -150, -17, [0.0, -0.0, np.nan, np.nan, np.nan],
            [0.0, -0.0]),
    "tanh": (core.tanh, np.tanh, np.concatenate([np.linspace(-12, 12, 1001), np.geomspace(2e-38, 1, 99)]), -150, -21,
             [0.0, -0.0, 1, -1, np.nan], [float(TINY), -float(TINY)])}


@pytest.fixture(autouse=True)
def fast(machine: OnMachine) -> Any:
    """With FastMath, unlike the other tests of this folder."""
    with scoped_set_flag(JitFlag.FastMath, True):
        yield


@pytest.mark.parametrize("name", CASES)
def test_single_precision(name: str, machine: OnMachine) -> None:
    trace, exact, arguments, absolute, relative, special, denormal = CASES[name]
    x = arguments.astype(np.float32)
    found, expected = values(trace(array(x))).astype(np.float64), exact(x.astype(np.float64))
    assert ".approx." in machine.last.text or "div.full" in machine.last.text
    error = np.abs(found - expected)
    within = (error <= 2.0 ** absolute) | (error <= 2.0 ** relative * np.abs(expected))
    assert within.all(), (x[~within][:5], found[~within][:5], expected[~within][:5])
    found = values(trace(array(np.float32([0.0, -0.0, np.inf, -np.inf, np.nan]))))
    assert_same_bits(found, np.float32(special))
    assert_same_bits(values(trace(array(np.float32([TINY, -TINY])))), np.float32(denormal))


@pytest.mark.parametrize("name", CASES)
def test_half_precision(name: str) -> None:
    trace, exact, *_ = CASES[name]
    if name == "div":
        def trace(x: Node) -> Node:
            return ops.div(literal(FLOAT16, 2.5), x)
    x = np.linspace(0.25, 1.5, 500, dtype=np.float16)
    np.testing.assert_allclose(values(trace(array(x))).astype(np.float64), exact(x.astype(np.float64)), rtol=2.0 ** -10)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("type_", [FLOAT32, FLOAT64])
def test_nothing_is_approximated_in_double_precision_or_without_fast_math(name: str, type_: int,
                                                                          machine: OnMachine) -> None:
    trace = CASES[name][0]
    x = np.linspace(0.1, 1.5, 300).astype(dtype_of(type_))
    if name == "div":
        def trace(x: Node) -> Node:
            return ops.div(literal(type_, 2.5), x)
    with scoped_set_flag(JitFlag.FastMath, type_ == FLOAT64):
        node = trace(array(x))
        found = values(node)
    assert ".approx" not in machine.last.text and ".full" not in machine.last.text and ".ftz" not in machine.last.text
    with on_backend("interpreter"), scoped_set_flag(JitFlag.FastMath, False):
        assert_same_bits(found, values(trace(array(x))))


@pytest.mark.parametrize("name", ["power", "asin", "atan", "sinh", "asinh", "erf", "erfinv", "lgamma", "cbrt"])
def test_other_functions_do_not_depend_on_the_flag(name: str, machine: OnMachine) -> None:
    x = np.linspace(-3, 3, 300, dtype=np.float32)
    operands = [array(x)] * (2 if name == "power" else 1)
    found = values(getattr(core, name)(*operands))
    assert ".approx" not in machine.last.text and ".full" not in machine.last.text
    with on_backend("interpreter"):
        assert_same_bits(found, values(getattr(core, name)(*[array(x)] * len(operands))))


def test_the_flag_of_tracing_counts_and_kernels_tell_the_two_apart(machine: OnMachine) -> None:
    x = array(np.linspace(1, 2, 100, dtype=np.float32))
    fast = ops.div(core.sin(x), ops.sqrt(x))
    with scoped_set_flag(JitFlag.FastMath, False):
        exact = ops.div(core.sin(x), ops.sqrt(x))
        assert exact is not fast and exact.d0 is not fast.d0
    for node, approximated in ((exact, False), (fast, True)):
        values(node)
        assert ("div.full.f32" in machine.last.text) == ("sin.approx.ftz.f32" in machine.last.text) == \
            ("sqrt.approx.ftz.f32" in machine.last.text) == approximated


def test_a_sine_and_a_cosine_share_their_reduction(machine: OnMachine) -> None:
    x = array(np.linspace(1, 2, 100, dtype=np.float32))
    values(ops.add(core.sin(x), core.cos(x)))
    assert machine.last.text.count("call (y), rare_angle") == machine.last.module.lanes


def test_a_reciprocal_of_a_root_is_one_instruction(machine: OnMachine) -> None:
    values(core.rsqrt(array(np.linspace(1, 2, 100, dtype=np.float32))))
    assert "rsqrt.approx.ftz.f32" in machine.last.text and "div" not in machine.last.text


def test_many_of_them_in_loops(machine: OnMachine) -> None:
    def run() -> np.ndarray[Any, Any]:
        x = array(np.linspace(0.1, 2, 300, dtype=np.float32))

        def body(state: list[Node]) -> list[Node]:
            y = state[1]
            for k in range(20):  # more than are inlined
                y = core.sin(ops.add(y, literal(FLOAT32, 0.1 * k)))
            return [ops.add(state[0], literal(UINT32, 1)), core.rsqrt(ops.add(core.exp(y), x))]

        return values(core.while_loop((literal(UINT32, 0), x),
                                      lambda s: ops.lt(s[0], literal(UINT32, 3)), body)[1])

    found = run()
    with on_backend("interpreter"):
        np.testing.assert_allclose(found, run(), rtol=1e-5)
