"""Frozen functions in scopes of derivatives, and scopes in frozen functions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

import drjit as dr
from drjit.llvm.ad import Float


def _suspended(a: Any, b: Any) -> Any:
    with dr.suspend_grad():
        c = a * 3
    return c * b + a


def _suspended_for_one(a: Any, b: Any) -> Any:
    with dr.suspend_grad(a):
        return a * b


def _isolated(a: Any, b: Any) -> Any:
    with dr.isolate_grad():
        return a * b * b


def _resumed(a: Any, b: Any) -> Any:
    with dr.resume_grad(a):
        return a * b


def _with_variable(a: Any, b: Any) -> Any:
    c = Float(7, 8, 9) + 0
    dr.enable_grad(c)
    return c * a * b


def _disabled(a: Any, b: Any) -> Any:
    dr.disable_grad(a)
    return a * b


def _gradient_read(a: Any, b: Any) -> Any:
    return dr.grad(a) + a * b


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda a, b: a * b + dr.sin(a), "suspended": _suspended, "suspended for one": _suspended_for_one,
    "isolated": _isolated, "resumed": _resumed, "replaced": lambda a, b: dr.replace_grad(a * b, a + b),
    "with a variable": _with_variable, "disabled": _disabled, "gradient": _gradient_read}

SCOPES: dict[str, Callable[[Any, Any], list[Any]]] = {
    "none": lambda u, y: [], "suspended": lambda u, y: [dr.suspend_grad()],
    "again none": lambda u, y: [], "suspended for one": lambda u, y: [dr.suspend_grad(u)],
    "resumed": lambda u, y: [dr.suspend_grad(), dr.resume_grad(y)], "isolated": lambda u, y: [dr.isolate_grad()]}


def _seen(function: Callable[[Any, Any], Any], scope: str, mode: str) -> list[Any]:
    x, y = Float(1, 2, 3), Float(4, 5, 6)
    dr.enable_grad(x, y)
    u = x * 2
    dr.set_grad(u, Float(1, 2, 4))
    with ExitStack() as stack:
        for each in SCOPES[scope](u, y):
            stack.enter_context(each)
        z = function(u, y)
        if mode == "inside" and dr.grad_enabled(z):
            dr.backward(z)
    found = [dr.grad_enabled(z), dr.detach(z)]
    if mode == "forward":
        dr.clear_grad(u)
        dr.set_grad([x, y], [Float(1), Float(1)])
        dr.enqueue(dr.ADMode.Forward, [x, y])
        dr.traverse(dr.ADMode.Forward)
        found.append(dr.grad(z))
    elif mode == "backward" and dr.grad_enabled(z):
        dr.backward(z)
    return [value.numpy().tolist() if isinstance(value, dr.ArrayBase) else value
            for value in (*found, dr.grad(x), dr.grad(y), dr.grad(u))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_scopes(name: str) -> None:
    """Each scope is a recording of its own, which is found again."""
    frozen = dr.freeze(FUNCTIONS[name])
    recordings = []
    for _ in range(2):
        for scope in SCOPES:
            for mode in ("backward", "forward", "inside"):
                assert _seen(frozen, scope, mode) == _seen(frozen.f, scope, mode), (scope, mode)
        recordings.append(frozen.n_recordings)
    assert recordings[0] == recordings[1] <= len(SCOPES) - 1
