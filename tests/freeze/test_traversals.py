"""What frozen functions do with derivatives: as if they were within ``dr.isolate_grad()``, in all calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Float


def variable(k: int) -> Any:
    found = Float(dr.opaque(Float, k + 1, 3) * Float(1, 2, 3))
    dr.eval(found)
    dr.enable_grad(found)
    return found


def inner(k: int) -> tuple[Any, Any]:
    """A variable, and what depends on it."""
    x = variable(k)
    return x, x * 2


def inner_with_gradient(k: int) -> tuple[Any, Any]:
    x, z = inner(k)
    dr.set_grad(z, k + 2)
    return x, z


def copied(k: int) -> tuple[Any, Any]:
    """Two arrays with one derivative."""
    x = variable(k)
    return x, Float(x)


def variables(k: int) -> tuple[Any, Any]:
    return variable(k), variable(k + 5)


def set_on_result(x: Any, z: Any) -> Any:
    y = x * z
    dr.set_grad(y, 3)
    return y


def kept_on_result(x: Any, z: Any) -> Any:
    y = z * z
    dr.backward(y, flags=dr.ADFlag.ClearNone)
    return y


def forward_to_result(x: Any, z: Any) -> Any:
    y = z * z
    dr.set_grad(z, 4)
    dr.forward_from(z, flags=dr.ADFlag.ClearVertices)
    return y


def forward_from_one(x: Any, z: Any) -> Any:
    y = x * z
    dr.forward_from(x)
    return dr.grad(y)


def backward_to(x: Any, z: Any) -> Any:
    y = z * z
    dr.set_grad(y, 1)
    return dr.backward_to(z)


def traversed_from_input(x: Any, z: Any) -> Any:
    dr.set_grad(z, 5)
    dr.enqueue(dr.ADMode.Backward, z)
    dr.traverse(dr.ADMode.Backward)
    return dr.grad(x)


def accumulated(x: Any, z: Any) -> None:
    dr.accum_grad(z, 1)
    dr.accum_grad(x, 2)


def read_and_cleared(x: Any, z: Any) -> Any:
    found = dr.grad(z)
    dr.clear_grad(z)
    return found


def within_a_scope(x: Any, z: Any) -> Any:
    with dr.isolate_grad():
        dr.backward(dr.sum(z * z))
        return dr.grad(z)


#: What a function does, and of which arguments.
ROWS: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, Any]]]] = {
    "a gradient of a result": (set_on_result, inner),
    "a gradient of a result that a traversal keeps": (kept_on_result, inner),
    "a change of a result that a traversal keeps": (forward_to_result, inner),
    "a gradient of an argument": (lambda x, z: dr.set_grad(z, 5), inner),
    "more gradient of arguments": (accumulated, inner_with_gradient),
    "a gradient that is read": (read_and_cleared, inner_with_gradient),
    "backward": (lambda x, z: dr.backward(dr.sum(z * z) + dr.sum(x)), inner),
    "backward from an argument": (lambda x, z: dr.backward(z), inner),
    "a traversal from an argument": (traversed_from_input, inner),
    "backward to an argument that depends on another one": (backward_to, inner),
    "forward from an argument that depends on another one": (lambda x, z: forward_from_one(z, x), inner),
    "within a scope": (within_a_scope, inner),
    "backward to one vertex of two arrays": (lambda x, z: dr.backward(dr.sum(x * z)), copied),
    "forward from one vertex of two arrays": (forward_from_one, copied),
    "forward from one of two variables": (forward_from_one, variables),
}


def outcome(function: Callable[..., Any], given: tuple[Any, Any]) -> list[Any]:
    """The result, and all gradients: of the result, of the arguments, and when these have flowed on."""
    result = function(*given)
    found = [None if result is None else result.numpy().tolist()]
    found += [dr.grad(each).numpy().tolist() for each in (*given, *([] if result is None else [result]))]
    for each in (result, given[1]):
        if each is not None and dr.grad_enabled(each):
            dr.backward_from(each, flags=dr.ADFlag.ClearVertices)
    return [*found, dr.grad(given[0]).numpy().tolist()]


@pytest.mark.parametrize("name", ROWS)
def test_functions_are_isolated(name: str) -> None:
    function, make = ROWS[name]
    frozen = dr.freeze(function)

    def isolated(*args: Any) -> Any:
        with dr.isolate_grad():
            return function(*args)

    for k in range(3):
        assert outcome(frozen, make(k)) == outcome(isolated, make(k))
    assert frozen.n_recordings == 1


def test_which_arrays_have_one_derivative_is_part_of_the_key() -> None:
    def body(x: Any, y: Any) -> None:
        dr.backward(dr.sum(x * y))

    frozen = dr.freeze(body)
    for k, make in enumerate((copied, variables, copied, variables)):
        given, expected = make(k), make(k)
        frozen(*given)
        body(*expected)
        assert list(map(str, map(dr.grad, given))) == list(map(str, map(dr.grad, expected)))
        assert frozen.n_recordings == min(k + 1, 2)


def test_what_is_outside_may_be_traversed_again() -> None:
    frozen, (x, z) = dr.freeze(lambda z: dr.backward(dr.sum(z * z))), inner(0)
    for _ in range(3):
        frozen(z)
    dr.backward(z)
    assert np.array_equal(dr.grad(x), 3 * 8 * Float(1, 2, 3) + 2)


def forward_to(x: Any, z: Any) -> Any:
    return dr.forward_to(z * z)


def backward_to_what_is_outside(x: Any, z: Any) -> Any:
    y = z * z
    dr.set_grad(y, 1)
    return dr.backward_to(x)


@pytest.mark.parametrize(("function", "needs_gradient"), [
    (forward_to, True), (lambda x, z: dr.forward_to(z), True), (forward_from_one, False),
    (backward_to_what_is_outside, False)])
@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.parametrize("loaded", [False, True])
def test_ways_outside_of_the_function_are_refused(function: Any, needs_gradient: bool, replayed: bool, loaded: bool,
                                                  tmp_path: Any) -> None:
    def with_gradient(given: tuple[Any, Any]) -> tuple[Any, Any]:
        if needs_gradient:
            dr.set_grad(given[0], 1)
        return given

    def body(x: Any, z: Any) -> Any:
        return function(x, z)

    frozen = dr.freeze(body)
    if replayed or loaded:  # of arguments that do not depend on each other
        assert str(frozen(*with_gradient(variables(1)))) == str(function(*with_gradient(variables(1))))
    if loaded:
        frozen.save(tmp_path / "body.frozen")
        frozen = dr.load_frozen(tmp_path / "body.frozen")
    x, z = with_gradient(inner(1))
    before = dr.grad(x).numpy().tolist()
    with pytest.raises(RuntimeError, match=r"by way of args\[1\], which depends on args\[0\]"):
        frozen(x, z)
    assert dr.grad(x).numpy().tolist() == before and dr.grad(z).numpy().tolist() == [0, 0, 0]
    if needs_gradient and not loaded:
        assert str(frozen(*inner(2))) == "[0, 0, 0]"


def test_what_waits_for_a_traversal_is_refused() -> None:
    @dr.freeze
    def enqueues(x: Any, z: Any) -> Any:
        y = x * z
        dr.enqueue(dr.ADMode.Backward, y)
        return y

    y = variable(0) * 3
    dr.set_grad(y, 1)
    dr.enqueue(dr.ADMode.Backward, y)
    with pytest.raises(RuntimeError, match="leaves the traversal to its caller"):
        enqueues(*inner(0))
    assert not enqueues.n_cached_recordings
    dr.traverse(dr.ADMode.Backward)  # what waited before
    assert np.array_equal(dr.grad(y), [0, 0, 0])


# --- what begins in the call, and what traversals have taken apart ---

def enables(w: Any, x: Any, kept: dict[str, Any]) -> Any:
    dr.enable_grad(w)
    return dr.sum(w * w * x)


def makes(w: Any, x: Any, kept: dict[str, Any]) -> Any:
    made = kept["made"] = Float(dr.detach(w))
    dr.enable_grad(made)
    return made * x, made * made


def makes_what_nobody_sees(w: Any, x: Any, kept: dict[str, Any]) -> Any:
    made = Float(dr.detach(w))
    dr.enable_grad(made)
    return made * 3, made * x


def takes_apart(w: Any, x: Any, kept: dict[str, Any]) -> Any:
    dr.enable_grad(w)
    y = kept["y"] = w * w
    z = y * x
    dr.backward(z)
    return z, z * 2, w * 3


def flows_forward(w: Any, x: Any, kept: dict[str, Any]) -> Any:
    dr.enable_grad(w)
    y = kept["y"] = w * w
    dr.forward(w)
    return y


def flows_forward_from_within(w: Any, x: Any, kept: dict[str, Any]) -> Any:
    made = kept["made"] = w * 2
    dr.enable_grad(made)
    y = made * x
    dr.forward(made)
    return y


_ACTS: tuple[Callable[[list[Any], list[Any]], Any], ...] = (
    lambda ends, begins: dr.backward(ends),
    lambda ends, begins: dr.forward_to(ends),
    lambda ends, begins: dr.forward(begins),
    lambda ends, begins: dr.backward(ends[-1] * 2),
    lambda ends, begins: dr.forward_to(ends[0] * 2))


@pytest.mark.parametrize("act", range(len(_ACTS)))
@pytest.mark.parametrize("body", [enables, makes, makes_what_nobody_sees, takes_apart, flows_forward,
                                  flows_forward_from_within])
@pytest.mark.parametrize("saved", [False, True])
def test_derivatives_outside_of_what_has_begun_inside(body: Any, act: int, saved: bool, tmp_path: Any) -> None:
    def seen(function: Any, k: int) -> list[Any]:
        w, x, kept = variable(k), Float(4, 5, 6 + k), {}
        dr.disable_grad(w)
        if k % 2:
            dr.enable_grad(x)
        result = function(w, x, kept)
        begins = [array for array in (w, x, *kept.values()) if dr.grad_enabled(array)]
        ends = [*result] if isinstance(result, tuple) else [result]
        for array in begins if act else ():
            dr.set_grad(array, 1)
        try:
            found = _ACTS[act](ends, begins or ends)
        except RuntimeError as error:
            return [type(error)]
        return [str(found), *map(str, map(dr.grad, (w, x, *kept.values(), *ends)))]

    frozen = dr.freeze(body)
    for k in range(4):
        assert seen(frozen, k) == seen(body, k)
    if saved:
        frozen.save(tmp_path / "body.frozen")
        loaded = dr.load_frozen(tmp_path / "body.frozen")
        assert seen(loaded, 4) == seen(body, 4)


def test_derivatives_of_derivatives_of_what_has_begun_inside_are_refused() -> None:
    @dr.freeze
    def cube(x: Any) -> Any:
        made = Float(dr.detach(x))
        dr.enable_grad(made)
        return x * x * made, made

    for _ in range(2):
        with pytest.raises(RuntimeError, match="makes variables that its results depend on"):
            dr.hvp(lambda x: dr.sum(cube(x)[0]), Float(1, 2), Float(1, 1))
