"""A backend of somebody else (:mod:`.own_backend`): what it computes, and what its author is told of mistakes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Float, TensorXf, UInt, ad
from drjit_core import JitBackend, on_backend, register
from drjit_core.runtime.backend import KernelBackend
from drjit_core.runtime.interpreted import Interpreted
from tests.runtime.own_backend import Kernel, Launch, Own

VALUES = np.array([1, 2, 3.5], np.float32)


@pytest.fixture
def own() -> Iterator[Own]:
    gc.collect()
    with on_backend(Own()) as backend:
        assert isinstance(backend, Own) and isinstance(backend, KernelBackend)
        yield backend
        gc.collect()
        assert not backend.cells, "nobody has these arrays any more"


def gradient() -> Any:
    x = ad.Float(VALUES)
    dr.enable_grad(x)
    dr.backward(x * x)
    return x.grad


PROGRAMS: list[tuple[Callable[[], Any], Any]] = [
    (lambda: Float(VALUES) * 2 + 1, VALUES * 2 + 1),
    (lambda: dr.sqrt(dr.arange(Float, 5)), np.sqrt(np.arange(5, dtype=np.float32))),
    (lambda: dr.gather(Float, Float(VALUES), UInt(2, 0, 1, 1)), VALUES[[2, 0, 1, 1]]),
    (lambda: UInt(Float(VALUES)), [1, 2, 3]),
    (lambda: dr.reinterpret_array(UInt, Float(VALUES)), VALUES.view(np.uint32)),
    (lambda: dr.opaque(Float, 7, 4), [7] * 4),
    (lambda: dr.llvm.BFloat16(VALUES) + 1, VALUES + 1),
    (gradient, 2 * VALUES),
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_what_it_computes(number: int, own: Own) -> None:
    program, expected = PROGRAMS[number]
    for _ in range(3):  # planned, known, and by a recipe
        assert np.asarray(program().numpy(), np.float64).tolist() == np.asarray(expected, np.float64).tolist()
    assert own.count


def test_frozen_functions_are_replayed(own: Own) -> None:
    function = dr.freeze(lambda a, factor: a * factor + 1)
    for size in (3, 4, 3, 5):
        assert function(dr.arange(Float, size) + 0, Float(2)).numpy().tolist() == [2 * k + 1 for k in range(size)]
    assert function.n_recordings <= 2
    function.clear()


@pytest.mark.parametrize(("program", "what"), [
    (lambda: dr.sum(Float(VALUES)), "reduce"), (lambda: dr.cumsum(Float(VALUES)), "'scan'"),
    (lambda: dr.while_loop((UInt(0),), lambda i: i < UInt(1, 2, 3), lambda i: (i + 1,)), "'loop'"),
    (lambda: TensorXf([[1, 2], [3, 4]]) @ TensorXf([[1, 2], [3, 4]]), "own"),
])
def test_what_it_has_not_is_told_and_leaves_nothing(program: Callable[[], Any], what: str, own: Own) -> None:
    for _ in range(2):
        with pytest.raises(NotImplementedError, match=what):
            str(program())
    assert (Float(VALUES) + 1).numpy().tolist() == (VALUES + 1).tolist()


@pytest.mark.parametrize("turn", (1, 2, 3))
@pytest.mark.parametrize(("owner", "name"), [
    *((Own, name) for name in ("allocate", "read", "write", "target", "compile", "submit", "crowded")),
    *((Kernel, name) for name in ("shape", "launch", "course", "reuse", "dump")), (Launch, "run")])
def test_what_it_raises_is_raised_and_leaves_nothing(owner: type, name: str, turn: int, own: Own,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    function, calls, raised = getattr(owner, name), 0, 0

    def failing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == turn:
            raise ZeroDivisionError("mine")
        return function(*arguments)

    monkeypatch.setattr(owner, name, failing)
    for _ in range(6):
        x = None
        try:
            x = Float(VALUES) * 3
            assert x.numpy().tolist() == (VALUES * 3).tolist()
        except ZeroDivisionError as error:
            assert str(error) == "mine"
            raised += 1
            if x is not None:  # it is computed the next time that somebody asks
                assert x.numpy().tolist() == (VALUES * 3).tolist()
    assert raised == (calls >= turn)


def test_too_few_bytes_are_no_array_of_zeros(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Own, "read", lambda self, buffer, offset, count: b"1234")
    with pytest.raises(RuntimeError, match="the backend 'own' has read 4 bytes instead of 12"):
        Float(VALUES).numpy()


def test_backends_of_one_name_are_told_apart() -> None:
    with on_backend(Own()):
        x = Float(VALUES) + 1
        dr.eval(x)
        with on_backend(Own()), pytest.raises(RuntimeError, match="runs on the backend 'own', but one of its inputs, "
                                                                  r"float32\[3\], belongs to another one of this name"):
            dr.eval(x + 1)


class Mistaken(Own):
    where = JitBackend.CUDA.value


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda: None, TypeError, "must be a Backend .*, found an object of type 'NoneType' without allocate, copy, "),
    (lambda: Mistaken, TypeError, "must be a Backend .*, found the class Mistaken without recipes$"),
    (lambda: without("release"), TypeError, "found an object of type 'Mistaken' without release$"),
    (lambda: without("compile", "submit"), TypeError, "found an object of type 'Mistaken' without compile, submit$"),
    (Own, ValueError, "'own' belongs to 2 .*, and must belong to 1, the value of JitBackend.CUDA"),
    (lambda: at(JitBackend.CUDA), ValueError, "belongs to JitBackend.CUDA .*, and must belong to 1"),
    (lambda: at(4), ValueError, "belongs to 4 "),
    (lambda: Interpreted(Own.limits), ValueError, "'interpreter' belongs to 2 "),
])
def test_what_is_no_backend_is_not_registered(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=rf"^register\(\): .*{message}"):
        register(make())


def without(*names: str) -> Own:
    """A backend that lacks some members."""
    def missing(self: Any) -> None:
        raise AttributeError

    return type("Mistaken", (Mistaken,), dict.fromkeys(names, property(missing)))()


def at(where: Any) -> Own:
    """A backend at some place."""
    return type("Mistaken", (Mistaken,), {"where": where})()
