"""Threads that trace at the same time do not notice each other."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit._control import instances
from drjit.llvm import ad
from drjit.llvm.ad import Float64 as F
from drjit.llvm.ad import UInt32 as U

THREADS, TIMES = 2, 12


class Scene:
    """Arrays that functions know, and change."""

    def __init__(self, seed: int) -> None:
        self.total, self.table = F(seed), dr.arange(F, 8) + seed
        self.entries = [F(0), F(seed, 1, 2, 3)]


def loop(scene: Scene, x: Any, mode: str) -> list[Any]:
    def body(i: Any, x: Any) -> Any:
        scene.total += x
        scene.entries[0] = scene.entries[0] + 1
        dr.scatter_add(scene.table, x, i)
        return i + 1, x * 0.5

    return [*dr.while_loop((U(0, 1, 2, 3), x), lambda i, x: i < 6, body, mode=mode), scene.total, scene.table,
            *scene.entries]


def branch(scene: Scene, x: Any, mode: str) -> list[Any]:
    def yes(x: Any) -> Any:
        scene.entries[1] += x
        dr.scatter(scene.table, x, U(3, 2, 1, 0))
        return x + scene.total

    return [dr.if_stmt((x,), x > 2, yes, lambda x: x * scene.entries[1], mode=mode), scene.table, *scene.entries]


def call(scene: Scene, x: Any, mode: str) -> list[Any]:
    def first(x: Any) -> Any:
        scene.total += x
        return x + dr.gather(F, scene.table, U(1))

    return [dr.switch(U(0, 1, 1, 0), [first, lambda x: x * 2], x, mode=mode), scene.total]


def nested(scene: Scene, x: Any, mode: str) -> list[Any]:
    def body(i: Any, x: Any) -> Any:
        (x,) = dr.if_stmt((x,), x > i, lambda x: (branch(scene, x, mode)[0],), lambda x: (x + 1,), mode=mode)
        return i + 1, x

    return [*dr.while_loop((U(0, 0, 0, 0), x), lambda i, x: i < 3, body, mode=mode), scene.table, *scene.entries]


def gradient(scene: Scene, x: Any, mode: str) -> list[Any]:
    dr.enable_grad(x)
    y = dr.while_loop((U(0, 1, 2, 3), x), lambda i, x: i < 5, lambda i, x: (
        i + 1, dr.sin(x) * dr.gather(F, scene.table, i)), mode=mode)[1]
    y = dr.if_stmt((y,), y > 0, lambda y: y * scene.total, dr.cos, mode=mode)
    dr.backward(y)
    return [dr.detach(y), x.grad]


PROGRAMS: dict[str, Callable[[Scene, Any, str], list[Any]]] = {
    "loop": loop, "branch": branch, "call": call, "nested": nested, "gradient": gradient}


@pytest.fixture
def often() -> Iterator[None]:
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def at_once(function: Callable[[int], None]) -> None:
    """Run a function, given a number, in several threads."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(THREADS)

    def run(number: int) -> None:
        try:
            barrier.wait()
            function(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_trace_at_the_same_time(name: str, mode: str) -> None:
    def outcome(seed: int) -> list[list[float]]:
        scene = Scene(seed)
        return [array.numpy().tolist() for array in PROGRAMS[name](scene, F(seed, 1, 2, 4), mode)]

    expected = [outcome(number) for number in range(THREADS)]

    def run(number: int) -> None:
        for _ in range(TIMES):
            assert outcome(number) == expected[number]

    at_once(run)


def test_what_a_thread_has_assumed_is_no_mistake_of_another() -> None:
    x = F(0.5)
    dr.enable_grad(x)
    y = dr.while_loop((U(0), x), lambda i, x: i < dr.opaque(U, 5), lambda i, x: (i + 1, dr.sin(x)),
                      max_iterations=2)[1]
    dr.backward(y)
    found = x.grad
    dr.eval(found)
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((ad.Float(1, 2) + 1).numpy().tolist())
        except RuntimeError as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert outcome == [[2, 3]]
    with pytest.raises(RuntimeError, match="max_iterations=2"):
        np.asarray(found)


def test_threads_wait_for_arrays_that_stand_for_others_in_functions_of_other_threads() -> None:
    shared = F(1, 2, 3, 4)
    traced, results = threading.Event(), list[Any]()

    def slow(x: Any) -> Any:
        traced.set()
        threading.Event().wait(0.2)
        return x * 2

    def first() -> None:
        results.append(dr.if_stmt((shared,), shared > 2, slow, lambda x: x, mode="symbolic"))

    def second() -> None:
        traced.wait()
        results.append(dr.if_stmt((shared,), ad.Bool(True, False, True, False), lambda x: x + 10, lambda x: x,
                                  mode="symbolic"))

    threads = [threading.Thread(target=target) for target in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [list(result) for result in results] == [[1, 2, 6, 8], [11, 2, 13, 4]]
    assert list(shared + 1) == [2, 3, 4, 5]


def elsewhere(function: Callable[[], Any]) -> Any:
    """What a function returns in another thread."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(function())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


def constant() -> list[Any]:
    return [F(3), U(2)]


def wide_constant() -> list[Any]:
    return [dr.full(F, 3, 3), dr.zeros(U, 3)]


def equal_arrays() -> list[Any]:
    return [array := dr.opaque(F, 3), F(array)]


def differentiated() -> list[Any]:
    dr.enable_grad(array := F(3))
    return [F(2), array]


def nested() -> list[Any]:
    return [ad.Array3f64(1, 2, 3), ad.TensorXf64(F(1, 1), (2,))]


def values(array: Any) -> Any:
    return (array + 1).numpy().tolist()


@pytest.mark.parametrize("change", [False, True])
@pytest.mark.parametrize("made", [constant, wide_constant, equal_arrays, differentiated, nested],
                         ids=lambda made: made.__name__)
def test_others_find_values_in_arrays_that_a_loop_refers_to(made: Callable[[], list[Any]], change: bool) -> None:
    """Also while its body is traced, which may change these, but has not done so yet."""
    arrays = made()
    expected = [(values(array), dr.grad_enabled(array)) for array in arrays]

    def body(i: Any, x: Any) -> Any:
        assert [(elsewhere(lambda a=array: values(a)), elsewhere(lambda a=array: dr.grad_enabled(a)))
                for array in arrays] == expected
        if change:
            arrays[0] += 1
        return i + 1, x + arrays[0].x if dr.depth_v(arrays[0]) > 1 else x + dr.sum(arrays[-1] * 0)

    dr.while_loop((U(0, 1, 2), F(1)), lambda i, x: i < 4, body, mode="symbolic")
    assert values(arrays[-1]) == expected[-1][0]


def test_what_others_compute_of_them_meanwhile_remains() -> None:
    scene = Scene(1)
    scene.total = F(3)

    @dr.freeze
    def frozen(x: Any) -> Any:
        return x * scene.total, x + scene.total

    def body(i: Any) -> Any:
        assert elsewhere(lambda: [float(found.numpy()[0]) for found in frozen(F(1))]) == [3, 4]
        return i + 1 + U(scene.total * 0)

    for _ in range(2):
        dr.while_loop((U(0, 1, 2),), lambda i: i < 4, body, mode="symbolic")


def test_what_others_do_to_them_meanwhile_is_not_lost() -> None:
    scene = Scene(1)
    scene.total = F(3)

    def count() -> None:
        scene.total += 1

    def body(i: Any) -> Any:
        elsewhere(count)
        return (i + 1,)

    dr.while_loop((U(0, 1, 2),), lambda i: (i < 4) & (scene.table[0] > 0), body, mode="symbolic")
    assert scene.total.numpy().tolist() == [4]


def test_instances_that_threads_number_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Light:
        def __init__(self, power: int) -> None:
            self.power = power

        def shine(self) -> Any:
            return F(self.power)

    kind = dr.instance_array(Light, U)
    first, second, refer, came = Light(1), Light(2), weakref.ref, list[Any]()

    def interrupted(instance: Any, forget: Any) -> Any:
        if not came:
            came.append(True)
            came.append(kind(second))  # as another thread does meanwhile
        return refer(instance, forget)

    monkeypatch.setattr(instances.weakref, "ref", interrupted)
    array = kind(first, second)
    monkeypatch.undo()
    assert array.shine().numpy().tolist() == [1, 2] and came[1].shine().numpy().tolist() == [2]
