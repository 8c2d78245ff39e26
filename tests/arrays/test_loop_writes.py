"""Loops that write by index: to arrays of their state, and to arrays from outside.

Programs are run in symbolic and in evaluated mode, and compared with what they must give. In most of them lanes take 2,
0, 3 and 1 iterations, so that some have finished while others go on.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm
from drjit.llvm import PCG32, Array2f, Array3f, Bool, Complex2f, Float, Float16, Int, TensorXf, UInt
from drjit_core import SymbolicValue
from tests.interop.harness import from_dlpack

MODES = ["symbolic", "evaluated"]
TRIPS = [2, 0, 3, 1]
#: What ``y[left] += 1`` adds up to, for the trips above, where ``left`` counts down to one.
HITS = [0, 3, 2, 1]


def loop(body: Callable[..., Any], mode: str | None, *state: Any, trips: list[int] = TRIPS) -> Any:
    """``body(left, *state)`` as long as ``left``, which counts down, is positive; it may return state."""
    def step(left: Int, *state: Any) -> Any:
        result = body(left, *state)
        return (left - 1, *(state if result is None else result))

    return dr.while_loop((Int(trips), *state), lambda left, *state: left > 0, step, mode=mode)[1:]


def plain(value: Any) -> Any:
    """Arrays as lists."""
    if isinstance(value, (tuple, list)):
        return [plain(entry) for entry in value]
    return np.asarray(value).tolist()


# --- programs --------------------------------------------------------------------------------------------------------

PROGRAMS: dict[str, tuple[Callable[[str], Any], Any]] = {}


def program(expected: Any) -> Callable[[Callable[[str], Any]], None]:
    """A function of the mode, and its result as lists."""
    def add(function: Callable[[str], Any]) -> None:
        PROGRAMS[function.__name__.replace("_", "-").strip("-")] = function, expected
    return add


@program([0, 1, 1, 1])
def scatter(mode: str) -> Any:
    y = dr.zeros(Float, 4)
    loop(lambda left: dr.scatter(y, Float(1), UInt(left)), mode)
    return y


@program(HITS)
def scatter_add(mode: str) -> Any:
    y = dr.zeros(Float, 4)
    loop(lambda left: dr.scatter_add(y, Float(1), UInt(left)), mode)
    return y


@program([0, 3, 2, 2])
def scatter_max_of_integers(mode: str) -> Any:
    y = dr.zeros(Int, 4)
    loop(lambda left: dr.scatter_reduce(dr.ReduceOp.Max, y, dr.arange(Int, 4), UInt(left)), mode)
    return y


@program([3, 0, 6, 1])
def reads_what_it_has_written(mode: str) -> Any:
    y, own = dr.zeros(UInt, 4), dr.arange(UInt, 4)
    loop(lambda left: dr.scatter(y, dr.gather(UInt, y, own) + UInt(left), own), mode)
    return y


@program([[0, 6, 4, 2], [0, 0, 0, 0]])
def reads_what_a_copy_has_kept(mode: str) -> Any:
    y = dr.zeros(UInt, 4)
    kept = UInt(y)

    def body(left: Int) -> None:
        dr.scatter_add(y, UInt(1), UInt(left))
        dr.scatter_add(y, dr.gather(UInt, kept, UInt(left)) + 1, UInt(left))

    loop(body, mode)
    return y, kept


@program([[1, 7, 5, 3], [16]])
def one_loop_after_the_other(mode: str) -> Any:
    y = dr.zeros(UInt, 4)
    for _ in range(2):
        loop(lambda left: dr.scatter_add(y, UInt(1), UInt(left)), mode)
    y += 1
    return y, dr.sum(y)


@program([0, 0, 0, 0])
def never_entered(mode: str) -> Any:
    y = dr.zeros(Float, 4)
    loop(lambda left: dr.scatter(y, Float(7), UInt(left)), mode, trips=[0, 0, 0, 0])
    return y


@program([[10, 6, 6, 3], [8, 10, 3, 18]])
def captured_and_carried(mode: str) -> Any:
    """In the first iteration, both are one array."""
    x = Float(1, 2, 3, 4)

    def body(left: Int, carried: Float) -> Any:
        dr.scatter(x, carried * 2, UInt(3, 2, 1, 0))
        return (carried + 1,)

    return (*loop(body, mode, x), x)


@program([[2, 5, 3, 6], [21, 2, 33, 14]])
def two_arrays_that_share_their_contents(mode: str) -> Any:
    x = Float(1, 2, 3, 4)
    y = Float(x)

    def body(left: Int) -> None:
        dr.scatter_add(x, Float(1), UInt(3, 2, 1, 0))
        dr.scatter_add(y, Float(10), UInt(0, 1, 2, 3))

    loop(body, mode)
    return x, y


@program([[1, 35, 25, 15], [5, 0, 7, 8], [9, 9, 9, 9]])
def components_held_before_and_inside(mode: str) -> Any:
    v = Array3f([1, 2, 3, 4], [5, 6, 7, 8], 9)
    held = v.x

    def body(left: Int) -> None:
        dr.scatter_add(v.x, Float(1), UInt(left))
        dr.scatter_add(held, Float(10), UInt(left))
        v.y[1] = 0

    loop(body, mode)
    assert plain(held) == plain(v.x)
    return v


@program([[[1, 3, 1, 1], [3, 0, 0, 5]], [1, 3, 1, 1, 3, 0, 0, 5]])
def tensors_and_their_flat_arrays(mode: str) -> Any:
    t = dr.zeros(TensorXf, (2, 4))
    held = t.array

    def body(left: Int) -> None:
        dr.scatter_add(t.array, Float(1), UInt(left))
        t[1, 3] = 5
        held[4] = 3
        t[0] = Float(left)  # of as many elements as the loop has: by each its own

    loop(body, mode)
    return t, held


@program([True, False, True, True])
def masks(mode: str) -> Any:
    m = Bool(True, False, True, False)

    def body(left: Int) -> None:
        dr.scatter(m, left > 1, UInt(left))
        m[3] = True

    loop(body, mode)
    return m


@program([0, 1, 2, 3, 2])
def half_precision(mode: str) -> Any:
    y = dr.zeros(Float16, 5)

    def body(left: Int) -> None:
        dr.scatter(y, Float16(left), UInt(left))
        y[4] = 2

    loop(body, mode)
    return y


@program(HITS)
def differentiable_types(mode: str) -> Any:
    y = dr.zeros(llvm.ad.Float, 4)

    def body(left: llvm.ad.Int) -> tuple[llvm.ad.Int]:
        dr.scatter_add(y, llvm.ad.Float(1), llvm.ad.UInt(left))
        return (left - 1,)

    dr.while_loop((llvm.ad.Int(TRIPS),), lambda left: left > 0, body, mode=mode)
    return y


@program([HITS, [0, 0, 1, 0, 2, 0, 3, 0], [3, 1, 4, 2], HITS])
def structures_as_state(mode: str) -> Any:
    a = dr.zeros(Float, 4)
    state = {"a": a, "list": [dr.zeros(Float, 8), Float(1)]}

    def body(left: Int, s: Any) -> Any:
        dr.scatter_add(s["a"], Float(1), UInt(left))
        dr.scatter(s["list"][0], Float(left), UInt(left) * 2)
        s["list"][1] = s["list"][1] + 1
        return (s,)

    (s,) = loop(body, mode, state)
    assert s is state
    return s["a"], s["list"][0], s["list"][1], a


@dataclasses.dataclass
class Film:
    """Arrays as attributes."""

    weights: Float
    hits: Array2f


@program([HITS, [HITS, [0, 6, 4, 2]]])
def structures_from_outside(mode: str) -> Any:
    film = Film(dr.zeros(Float, 4), dr.zeros(Array2f, 4))

    def body(left: Int) -> None:
        dr.scatter_add(film.weights, Float(1), UInt(left))
        dr.scatter_add(film.hits, Array2f(1, 2), UInt(left))

    loop(body, mode)
    return film.weights, film.hits


@program([HITS, [0, 6, 4, 2]])
def a_structure_as_the_target(mode: str) -> Any:
    target = (dr.zeros(Float, 4), dr.zeros(Float, 4))
    loop(lambda left: dr.scatter_add(target, (Float(1), Float(2)), UInt(left)), mode)
    return target


@program([[[0, 3, 2, 1], [5, 8, 7, 6]], [[0, 3, 2, 1], [5, 5, 5, 5]]])
def components_of_one_element(mode: str) -> Any:
    v, c = Array2f([0, 0, 0, 0], 5), Complex2f([0, 0, 0, 0], 5)

    def body(left: Int, v: Array2f, c: Complex2f) -> Any:
        dr.scatter_add(v, Array2f(1, 1), UInt(left))
        dr.scatter_add(c, Complex2f(1, 0), UInt(left))
        return v, c

    v, c = loop(body, mode, v, c)
    return v, [c.real, c.imag]


@program([[0, 603, 302, 101], [0, 3006, 2003, 1001]])
def loops_in_loops_write_to_the_same_arrays(mode: str) -> Any:
    x, y = dr.zeros(Float, 4), dr.zeros(Float, 4)

    def body(left: Int) -> None:
        dr.scatter_add(x, Float(1), UInt(left))

        def inner(j: Int) -> tuple[Int]:
            dr.scatter_add(y, Float(1), UInt(j))
            dr.scatter_add(x, Float(100), UInt(j))
            return (j - 1,)

        dr.while_loop((Int(left),), lambda j: j > 0, inner, mode=mode)
        dr.scatter_add(y, Float(1000), UInt(left))

    loop(body, mode)
    return x, y


@program([0, 6, 3, 1])
def an_inner_loop_writes_to_the_state_of_the_outer_one(mode: str) -> Any:
    def body(left: Int, x: Float) -> Any:
        def inner(j: Int) -> tuple[Int]:
            dr.scatter_add(x, Float(1), UInt(j))
            return (j - 1,)

        dr.while_loop((Int(left),), lambda j: j > 0, inner, mode=mode)
        return (x,)

    return loop(body, mode, dr.zeros(Float, 4))[0]


@program([0, 3, 3, 1])
def a_loop_of_the_other_mode_inside(mode: str) -> Any:
    y = dr.zeros(Float, 4)
    other = "evaluated" if mode == "symbolic" else "symbolic"

    def body(left: Int) -> None:
        def inner(j: Int) -> tuple[Int]:
            dr.scatter_add(y, Float(1), UInt(j))
            return (j - 1,)

        dr.while_loop((Int(2, 1, 0, 3),), lambda j: j > 0, inner, mode=other)

    loop(body, mode)
    return y


@program([1, 30, 20, 10])
def an_inner_loop_that_fails_has_changed_nothing(mode: str) -> Any:
    y = dr.zeros(Float, 4)

    def body(left: Int) -> None:
        y[0] = 1

        def inner(j: Int) -> Any:
            if mode == "symbolic":
                dr.scatter_add(y, Float(1000), UInt(j))
            raise KeyError

        with pytest.raises(KeyError):
            dr.while_loop((Int(left),), lambda j: j >= 0, inner, mode=mode)
        dr.scatter_add(y, Float(10), UInt(left))

    loop(body, mode)
    return y


# elements that are set by their number

@program([1, 2, 7, 4])
def one_value_from_outside_is_set_by_all(mode: str) -> Any:
    y = Float(1, 2, 3, 4)

    def body(left: Int) -> None:
        y[2] = 7

    loop(body, mode)
    return y


@program([9, 9, 8, 3])
def one_value_of_the_state_is_set_by_all(mode: str) -> Any:
    def body(left: Int, x: Float) -> Any:
        x[0], x[1], x[2] = 9, 9, 8  # the second lane never runs
        return (x,)

    return loop(body, mode, dr.arange(Float, 4))[0]


@program([[8, 1, 5, 3], [6, 0, 14, 5]])
def an_element_that_is_set_and_read_by_index(mode: str) -> Any:
    def body(left: Int, x: Float, s: Float) -> Any:
        x[0], x[2] = 8, 5
        return x, s + dr.gather(Float, x, UInt(3) - UInt(left))

    x, s = loop(body, mode, dr.arange(Float, 4), dr.zeros(Float, 4))
    return x, s


@program([1, 2, 2, 2, 1, 1, 1])
def the_whole_selection_has_one_element_for_each_lane(mode: str) -> Any:
    y = dr.full(Float, 1, 7)

    def body(left: Int) -> None:
        y[0:4] = dr.select(left > 0, Float(2), 3) * Float(0.5, 1, 1, 1)

    loop(body, mode, trips=[1, 1, 2, 3])
    return y


# loops of one element, whose writes are wide

@program([0, 1, 1, 1, 0, 0])
def a_slice_in_a_loop_of_one_element(mode: str) -> Any:
    y = dr.zeros(Float, 6)

    def body(left: Int) -> None:
        y[1:4] = Float(left)

    loop(body, mode, trips=[3])
    return y


@program([3, 4, 5])
def an_array_of_the_body_filled_with_a_symbolic_value(mode: str) -> Any:
    def body(left: Int, total: Float) -> Any:
        own = dr.zeros(Float, 3)
        own[:] = Float(left)
        own[:] += Float(0, 1, 2) * (left == 1)
        return (total + own,)

    return loop(body, mode, dr.zeros(Float, 3), trips=[2])[0]


@program([0, 6, 0, 12, 0, 18, 0, 24])
def many_updates_in_a_loop_of_one_element(mode: str) -> Any:
    y, values, index = dr.zeros(Float, 8), Float(1, 2, 3, 4), UInt(1, 3, 5, 7)
    loop(lambda left: dr.scatter_add(y, values * left, index), mode, trips=[3])
    return y


@program([[0, 1, 1, 1, 1, 0], [0, 2, 3, 4], [0, 0, 3, 0], [0, 3, 2, 1]])
def updates_by_the_state_beside_many_in_a_loop_of_one_element(mode: str) -> Any:
    """They happen once, though the loop has become wider."""
    y, by_index, by_mask, written = dr.zeros(Float, 6), dr.zeros(Float, 4), dr.zeros(Float, 4), dr.zeros(Float, 4)

    def body(left: Int) -> None:
        y[1:5] = Float(left)
        dr.scatter_add(by_index, Float(left) + 1, UInt(left))
        dr.scatter_add(by_mask, dr.select(left > 1, Float(left - 1), 0), UInt(2), left > 1)
        written[UInt(left)] = 4 - Float(left)

    loop(body, mode, trips=[3])
    return y, by_index, by_mask, written


@program([[0, 3, 3, 3, 3, 0], [0, 6]])
def as_many_updates_of_one_element_as_there_are_values(mode: str) -> Any:
    y, z = dr.zeros(Float, 6), dr.zeros(Float, 2)

    def body(left: Int) -> None:
        dr.scatter_add(y, Float(1), UInt(1, 2, 3, 4))
        dr.scatter_add(z, Float(left) * Float(1, 0, 0, 0), UInt(1))

    loop(body, mode, trips=[3])
    return y, z


@program([[0, 1, 1, 1, 1, 0], [0, 3]])
def one_update_beside_many_in_a_loop_of_one_element(mode: str) -> Any:
    y, z = dr.zeros(Float, 6), dr.zeros(Float, 2)

    def body(left: Int) -> None:
        y[1:5] = Float(left)
        dr.scatter_add(z, Float(1), UInt(1))

    loop(body, mode, trips=[3])
    return y, z


@program([[3, 3, 3], [2, 3, 4], [1, 4, 9], [0, 0, 0]])
def rows_of_a_tensor(mode: str) -> Any:
    t, scale = dr.zeros(TensorXf, (4, 3)), TensorXf([1, 2, 3])

    def body(left: Int) -> None:
        row = 3 - left
        t[row, :] = dr.select(left == 3, TensorXf(Float(left)), dr.select(left == 2, scale + 1, scale * scale))

    loop(body, mode, trips=[3])
    return t


@program([[0, 1, 2], [3, 5, 7], [9, 12, 15]])
def each_row_of_a_tensor_follows_from_the_one_before(mode: str) -> Any:
    t = TensorXf(dr.arange(Float, 9), (3, 3))

    def body(left: Int) -> None:
        row = UInt(3 - left)
        t[row, :] += t[row - 1, :]

    loop(body, mode, trips=[2])
    return t


@program([[0, 3, 2, 1], [0, 3, 2, 1], [0, 30, 20, 10]])
def elements_of_all_components_at_once(mode: str) -> Any:
    v = dr.zeros(Array3f, 4)

    def body(left: Int) -> None:
        v[0:2, UInt(left)] += Float(4) - Float(left)
        v[:, UInt(left)] = Array3f(v.x[UInt(left)], v.y[UInt(left)], Float(40 - 10 * left))

    loop(body, mode, trips=[3])
    return v


# tables in the state of a loop of one element, which is not as wide as they are

@program([[0, 0, 0], [1, 2, 0], [0, 0, 0], [0, 0, 0]])
def a_part_of_a_tensor_in_the_state(mode: str) -> Any:
    def body(left: Int, t: TensorXf) -> Any:
        t[1, 0:2] = TensorXf([1, 2])
        return (t,)

    return loop(body, mode, dr.zeros(TensorXf, (4, 3)), trips=[3])[0]


@program([0, 0, 1, 1, 1, 0, 0, 0])
def a_slice_of_an_array_in_the_state(mode: str) -> Any:
    def body(left: Int, x: Float) -> Any:
        x[2:5] = Float(left)
        return (x,)

    return loop(body, mode, dr.zeros(Float, 8), trips=[3])[0]


@program([[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]])
def rows_of_a_tensor_in_the_state(mode: str) -> Any:
    def body(left: Int, t: TensorXf) -> Any:
        row = UInt(4 - left)
        t[row, :] = t[row - 1, :] + 1
        return (t,)

    return loop(body, mode, TensorXf(dr.arange(Float, 12), (4, 3)), trips=[3])[0]


@program([[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]])
def elements_of_all_components_in_the_state(mode: str) -> Any:
    def body(left: Int, v: Array3f) -> Any:
        index = UInt(4 - left)
        v[:, index] = v[:, index - 1] + 1
        return (v,)

    return loop(body, mode, dr.zeros(Array3f, 4), trips=[3])[0]


@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_errors_of_the_body_are_passed_on_beside_tables_in_the_state(error: type[Exception]) -> None:
    raised = []

    def body(left: Int, x: Float) -> Any:
        dr.scatter(x, Float(left), UInt(left))
        raised.append(error("no"))
        raise raised[-1]

    with pytest.raises(error, match="no") as caught:
        loop(body, "symbolic", dr.zeros(Float, 8), trips=[3])
    assert [caught.value] == raised or [caught.value.__cause__] == raised


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_programs(name: str, mode: str) -> None:
    run, expected = PROGRAMS[name]
    assert plain(run(mode)) == expected


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_histograms(size: int) -> None:
    """Each lane writes as often as it likes, over several packets and threads."""
    trips = np.arange(size) % 5
    y = dr.zeros(UInt, 5)

    def body(left: Int) -> tuple[Int]:
        dr.scatter_add(y, UInt(1), UInt(left))
        return (left - 1,)

    dr.while_loop((Int(trips),), lambda left: left > 0, body, mode="symbolic")
    assert plain(y) == [0, *(int((trips >= k).sum()) for k in range(1, 5))]


def test_without_a_mode_loops_may_write() -> None:
    y = dr.zeros(Float, 4)
    loop(lambda left: dr.scatter_add(y, Float(1), UInt(left)), None)
    assert plain(y) == HITS


def test_a_random_generator_in_the_state_draws_in_each_iteration() -> None:
    found = []
    for mode in MODES:
        y = dr.zeros(Float, 4)

        def body(left: Int, rng: PCG32) -> Any:
            dr.scatter_add(y, rng.next_float32(), UInt(left))  # noqa: B023
            return (rng,)

        (rng,) = loop(body, mode, PCG32(size=4))
        found.append((plain(y), plain(rng.state)))
    assert found[0] == found[1]


@pytest.mark.parametrize("mode", MODES)
def test_who_shares_the_memory_sees_what_it_would_outside_of_loops(mode: str) -> None:
    source = np.array([1, 2, 3, 4], "f4")

    class Exporter:
        def __dlpack__(self, **arguments: Any) -> Any:
            return source.__dlpack__(**arguments)

        def __dlpack_device__(self) -> Any:
            return source.__dlpack_device__()

    y = Float(Exporter())
    z = dr.zeros(Float, 4) + 1
    dr.eval(z)
    view = from_dlpack(z)

    def body(left: Int) -> None:
        dr.scatter(y, Float(left), UInt(left))
        dr.scatter(z, Float(left), UInt(left))

    loop(body, mode)
    dr.eval(y, z)
    assert plain(y) == plain(z) == [1, 1, 2, 3]
    assert source.tolist() == [1, 2, 3, 4]
    assert view.tolist() == [1, 1, 2, 3]


def test_threads_trace_loops_that_write() -> None:
    failures: list[Any] = []

    def work(k: int) -> None:
        y = dr.zeros(Float, 4)
        for _ in range(20):
            loop(lambda left: dr.scatter_add(y, Float(k), UInt(left)), "symbolic")
        if plain(y) != [20 * k * hits for hits in HITS]:
            failures.append(plain(y))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# --- what is read in a loop, but does not depend on it ---------------------------------------------------------------

TABLE = np.arange(4 * 300, dtype="f4").reshape(4, 300)


@pytest.mark.parametrize("read", [
    lambda t: t[1, 2:6].array, lambda t: t[:, [3, 1]].array, lambda t: t[np.array([1, 0])].array,
    lambda t: dr.take(t, 1).array, lambda t: dr.sum(t, axis=1).array, lambda t: dr.sum(t, axis=0).array,
    lambda t: (t @ dr.ones(TensorXf, (300,))).array,
    lambda t: dr.mean(t, axis=None).array, lambda t: t.array[::7], lambda t: t.array[[5, 3]], lambda t: t[2].array + 1,
    lambda t: dr.concat((t.array, t.array)), lambda t: t.array[dr.arange(UInt, 1) + 3],
    lambda t: dr.meshgrid(t.array[0:3], t.array[3:5])[1], lambda t: dr.zeros(TensorXf, (3, 1)).array,
    lambda t: (t + t[:, 0:1]).array, lambda t: PCG32(size=3).next_float32(), lambda t: dr.moveaxis(t, 0, 1).array,
], ids=[str(k) for k in range(18)])
def test_what_does_not_depend_on_a_loop_has_values_inside(read: Callable[[TensorXf], Float]) -> None:
    table, found = TensorXf(TABLE), []
    loop(lambda left: found.append(plain(read(table))), "symbolic")
    assert found[0] == plain(read(TensorXf(TABLE)))


class _Film:
    def __init__(self) -> None:
        self.data = dr.zeros(Float, 4)

    def add(self, left: Int) -> None:
        dr.scatter_add(self.data, Float(1), UInt(left))


def _writer(kind: str) -> tuple[Callable[[Int], Any], Callable[[], list[Float]]]:
    """A body that writes to arrays that it reaches in some way, and what gives those arrays."""
    film, films = _Film(), [_Film() for _ in range(3)]
    arrays = [film.data for film in films]

    def all_arrays(left: Int) -> None:
        for array in arrays:
            dr.scatter_add(array, Float(1), UInt(left))

    def all_films(left: Int) -> None:
        for film in films:
            film.add(left)

    return {"attribute": (lambda left: dr.scatter_add(film.data, Float(1), UInt(left)), lambda: [film.data]),
            "method": (lambda left: film.add(left), lambda: [film.data]),
            "list": (all_arrays, lambda: arrays),
            "out of sight": (all_films, lambda: arrays)}[kind]


@pytest.mark.parametrize(("kind", "most"), [("attribute", 0), ("method", 0), ("list", 0), ("out of sight", 1)])
def test_arrays_that_the_body_writes_to_cost_no_search_for_cycles(kind: str, most: int,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """One costs as much as all objects of the program: many milliseconds."""
    body, arrays = _writer(kind)
    collections = []
    monkeypatch.setattr("gc.collect", lambda *_: collections.append(1))
    loop(body, "symbolic")
    assert len(collections) <= most
    assert [plain(array) for array in arrays()] == [HITS] * len(arrays())


def test_indices_of_the_user_are_read_if_a_lane_takes_part_only() -> None:
    """They may lie anywhere if none does."""
    table, index = Float(1, 2, 3, 4), dr.opaque(UInt, 1 << 31)
    with pytest.raises(RuntimeError, match="symbolic"):
        loop(lambda left: plain(dr.gather(Float, table, index)), "symbolic")
    (x,) = loop(lambda left, x: (x + dr.gather(Float, table, index),), "symbolic", Float(0), trips=[0, 0])
    assert plain(x) == [0, 0]


# --- what is refused -------------------------------------------------------------------------------------------------


def _add_in_place(y: Float, left: Int) -> None:
    y += 1


def _set(y: Float, key: Any, value: Any) -> None:
    y[key] = value


def _increase(y: Float, left: Int) -> None:
    y[0] += 1


def _own(y: Float, left: Int) -> None:
    own = dr.zeros(Float, 4)
    dr.scatter(own, Float(1), UInt(left))
    dr.scatter_add(y, dr.gather(Float, own, UInt(0)), UInt(left))


def _older(y: Float, left: Int) -> None:
    dr.scatter(y, Float(1), UInt(left))
    copy = Float(y)
    dr.scatter(y, Float(2), UInt(left))
    dr.scatter_add(y, dr.gather(Float, copy, UInt(left)), UInt(left))


def _evaluate(y: Float, left: Int) -> None:
    dr.eval(y)
    dr.scatter(y, Float(1), UInt(left))


#: Name, what is done to an array of 8 elements in a loop of 4, and words of the message.
REFUSED: list[tuple[str, Callable[[Float, Int], Any], str]] = [
    ("as a whole", _add_in_place, r"incompatible sizes! \(sizes: 4, 8\).*as wide as the loop; run the loop with mode="),
    ("all elements", lambda y, left: _set(y, slice(None), 1), r"incompatible sizes! \(sizes: 4, 8\)"),
    ("a mask as key", lambda y, left: _set(y, dr.arange(UInt, 8) > 3, 1), r"incompatible sizes! \(sizes: 4, 8\)"),
    ("read by the host", _increase, "looks at elements of the array 'target', and changes it.*drjit.gather.*evaluated"),
    ("two elements", lambda y, left: _set(y, slice(0, 2), 1), r"drjit.llvm.Float.__setitem__\(\): this assignment to 2 "
     "elements is part of a symbolic loop with 4 elements"),
    ("one for all elements of a slice", lambda y, left: _set(y, slice(0, 4), 1), "this assignment to 4 elements"),
    ("two indices", lambda y, left: dr.scatter(y, Float(1), UInt(0, 1)), r"drjit.scatter\(\): this write is part of a "
     "symbolic loop with 4 elements.*but not 2"),
    ("an array of the body", _own, "writes by index to an array of type drjit.llvm.Float that it has made itself"),
    ("older contents", _older, r"drjit.gather\(\).*older copy of the array 'target', which the symbolic loop .* "
     r"writes to; it was written to since.*no older contents"),
    ("evaluation", _evaluate, "looks at elements of the array 'target', and changes it"),
]


@pytest.mark.parametrize(("change", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_a_symbolic_loop_cannot_do_is_refused_in_words(change: Callable[[Float, Int], Any], words: str) -> None:
    target = dr.zeros(Float, 8)
    with pytest.raises(RuntimeError, match=f"(?s){words}"):
        loop(lambda left: change(target, left), "symbolic")
    assert plain(target) == [0] * 8
    loop(lambda left: dr.scatter_add(target, Float(1), UInt(left)), "symbolic")
    assert plain(target) == HITS + [0] * 4


def _keep(left: Int, a: Float, b: Float) -> Any:
    """Read and write in the place of another array."""
    dr.scatter(b, dr.gather(Float, a, UInt(left)) + 1, UInt(left))
    return b, a


def _older_returned(read: bool, write_before: bool) -> Callable[..., Any]:
    def body(left: Int, a: Float, b: Float) -> Any:
        if write_before:
            dr.scatter(a, Float(1), UInt(left))
        copy = Float(a)
        dr.scatter(a, Float(2), UInt(left))
        return copy, b + dr.gather(Float, a, UInt(left)) if read else b
    return body


#: Name, body, and words of the message, which names the variables as they are labelled.
REFUSED_STATE: list[tuple[str, Callable[..., Any], type[Exception], str]] = [
    ("written and exchanged", _keep, NotImplementedError,
     "returns the state variable 'b' in the place of the state variable 'a', and accesses elements of them by "
     "index.*number of iterations.*one array.*mode='evaluated'"),
    ("read and exchanged", lambda left, a, b: (b, a + dr.gather(Float, a, UInt(left)) * 0), NotImplementedError,
     "returns the state variable 'b' in the place of the state variable 'a'"),
    ("only one exchanged", lambda left, a, b: [dr.scatter(b, Float(1), UInt(left)), b, b][1:], NotImplementedError,
     "returns the state variable 'b' in the place of the state variable 'a'"),
    ("new values", lambda left, a, b: (a + dr.gather(Float, a, UInt(left)), b), NotImplementedError,
     "the state variable 'a' is accessed by index and given other values"),
    ("as it was", _older_returned(False, False), SymbolicValue,
     "writes by index to the state variable 'a', or to a copy of it, but returns an older copy"),
    ("as it was before a write that is read", _older_returned(True, False), SymbolicValue, "returns an older copy"),
    ("as it was between two writes", _older_returned(False, True), SymbolicValue, "returns an older copy"),
    # gave the elements of the second write
    ("as it was between two writes that are read", _older_returned(True, True), SymbolicValue,
     "returns an older copy"),
]


@pytest.mark.parametrize(("body", "error", "words"), [row[1:] for row in REFUSED_STATE],
                         ids=[row[0] for row in REFUSED_STATE])
def test_state_that_a_symbolic_loop_cannot_exchange_is_refused_in_words(
        body: Callable[..., Any], error: type[Exception], words: str) -> None:
    def step(left: Int, a: Float, b: Float) -> Any:
        return (left - 1, *body(left, a, b))

    for mode in MODES:
        state = Int(3), Float(1, 2, 3, 4), Float(5, 6, 7, 8)
        try:
            dr.while_loop(state, lambda left, a, b: left > 0, step, ("left", "a", "b"), mode=mode)
        except error as caught:
            assert mode == "symbolic"
            assert re.search(words, str(caught)), str(caught)
            assert plain(state) == [[3], [1, 2, 3, 4], [5, 6, 7, 8]]
        else:
            assert mode == "evaluated"


@pytest.mark.parametrize("size", [3, 100, 5000])
def test_rows_of_any_length(size: int) -> None:
    t = dr.zeros(TensorXf, (4, size))
    t[0] = TensorXf(dr.arange(Float, size))

    def body(left: Int) -> None:
        row = UInt(4 - left)
        t[row, :] = t[row - 1, :] + 1

    loop(body, "symbolic", trips=[3])
    assert plain(t) == [[k + row for k in range(size)] for row in range(4)]


def _count(y: Float, s: Float, t: TensorXf, left: UInt) -> None:
    y[1:] = Float(left)
    s[left] += 1


def _accumulate(y: Float, s: Float, t: TensorXf, left: UInt) -> None:
    dr.scatter_add(s, Float(1), UInt(0))
    y[1:] = dr.gather(Float, s, UInt(0))


def _reverse(y: Float, s: Float, t: TensorXf, left: UInt) -> None:
    t[left, :] = t[left - 1, ::-1] + 1


def _shift(y: Float, s: Float, t: TensorXf, left: UInt) -> None:
    dr.scatter(y, Float(left), dr.arange(UInt, 100) + left)


def _read_elsewhere(y: Float, s: Float, t: TensorXf, left: UInt) -> None:
    y[1:] = dr.gather(Float, y, UInt(5)) + 1


@pytest.mark.parametrize("change", [_count, _accumulate, _reverse, _shift, _read_elsewhere])
def test_what_elements_of_a_widened_loop_would_do_to_each_other_is_refused(change: Callable[..., Any]) -> None:
    """Packets run one after the other, each all iterations: most of these gave wrong values."""
    arrays = dr.zeros(Float, 3000), dr.zeros(Float, 4), dr.zeros(TensorXf, (4, 3000))
    with pytest.raises(SymbolicValue, match=r"this symbolic loop of one element writes \d+ values at once.*run in no "
                                            r"order; but what one of them writes to the array 'arrays\[\d]'"):
        loop(lambda left: change(*arrays, UInt(left)), "symbolic", trips=[3])
    assert all(not dr.any(dr.ravel(array) != 0)[0] for array in arrays)


def test_writes_of_several_widths() -> None:
    target = dr.zeros(Float, 5)

    def body(left: Int) -> None:
        dr.scatter_add(target, Float(1, 2, 3), UInt(0, 1, 2))
        dr.scatter_add(target, Float(1), UInt(3, 4))

    with pytest.raises(RuntimeError, match=r"(?s)drjit.while_loop\(\): .*what the body of this symbolic loop computes "
                                           r"and writes by index, have incompatible sizes! \(sizes: 3, 2\)"):
        loop(body, "symbolic", trips=[2])
    loop(body, "evaluated", trips=[2])
    assert plain(target) == [2, 4, 6, 2, 2]


@pytest.mark.parametrize("mode", MODES)
def test_the_whole_of_an_array_from_outside_is_filled(mode: str) -> None:
    target = dr.zeros(Float, 3)
    loop(lambda left: _set(target, slice(None), Float(left)), mode, trips=[2])
    assert plain(target) == [1, 1, 1]


def test_what_is_written_by_index_is_no_value() -> None:
    target = dr.zeros(Float, 4)

    def body(left: Int, x: Float) -> Any:
        dr.scatter(target, Float(1), UInt(left))
        return (x + target,)

    with pytest.raises(RuntimeError, match="writes to the array 'target' by index, and computes with all of it"):
        loop(body, "symbolic", dr.zeros(Float, 4))


@pytest.mark.parametrize("change", [lambda y: _add_in_place(y, Int(0)), lambda y: _set(y, 0, 1),
                                    lambda y: dr.scatter(y, Float(1), UInt(0))], ids=["whole", "element", "scatter"])
def test_conditions_change_nothing(change: Callable[[Float], Any]) -> None:
    y = dr.zeros(Float, 4)

    def condition(left: Int) -> Bool:
        change(y)
        return left > 0

    with pytest.raises(RuntimeError, match=r"condition of (a loop|this symbolic loop changes the array 'y')"):
        dr.while_loop((Int(TRIPS),), condition, lambda left: (left - 1,), mode="symbolic")
    assert plain(y) == [0, 0, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_attributes_of_methods_are_changed(mode: str) -> None:
    class Renderer:
        def __init__(self) -> None:
            self.film = dr.zeros(Float, 4)

        def body(self, left: Int) -> tuple[Int]:
            self.film += 1
            return (left - 1,)

    renderer = Renderer()
    dr.while_loop((Int(TRIPS),), lambda left: left > 0, renderer.body, mode=mode)
    assert plain(renderer.film) == TRIPS


def test_a_random_generator_from_outside_draws_in_each_iteration() -> None:
    found = []
    for mode in MODES:
        rng = PCG32(size=4)
        (x,) = loop(lambda left, x, rng=rng: (x + rng.next_float32(),), mode, dr.zeros(Float, 4))
        found.append((plain(x), plain(rng.state)))
    assert found[0] == found[1]
    rng = PCG32(size=4)

    def body(left: Int, x: Float) -> Any:
        own = PCG32(rng)
        return (x + own.next_float32(),)

    (x,) = loop(body, "symbolic", dr.zeros(Float, 4))
    drawn = plain(PCG32(rng).next_float32())
    assert plain(x) == pytest.approx([2 * drawn[0], 0, 3 * drawn[2], drawn[3]])


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt], ids=lambda error: error.__name__)
@pytest.mark.parametrize("nested", [False, True], ids=["alone", "nested"])
def test_an_exception_after_writes_leaves_all_arrays_as_they_were(error: type[BaseException], nested: bool) -> None:
    y, v, t, rng = Float(1, 2, 3, 4), Array2f([1, 2, 3, 4], 5), dr.zeros(TensorXf, (2, 4)), PCG32(size=4)
    copy, held, flat, state = Float(y), v.x, t.array, plain(rng.state)

    def body(left: Int, x: Float) -> Any:
        dr.scatter(y, Float(1), UInt(left))
        y[2] = 4
        v.x += 1
        dr.scatter(v, Array2f(7), UInt(left))
        t[0, 1] = 2
        rng.next_uint32()
        dr.scatter(x, Float(1), UInt(left))
        raise error

    def outer(left: Int, x: Float) -> Any:
        y[3] = 9
        return dr.while_loop((left, x), lambda left, x: left > 0, body, mode="symbolic")

    x = dr.zeros(Float, 4)
    with pytest.raises(error):
        dr.while_loop((Int(TRIPS), x), lambda left, x: left > 0, outer if nested else body, mode="symbolic")
    assert plain([y, copy, x]) == [[1, 2, 3, 4], [1, 2, 3, 4], [0, 0, 0, 0]]
    assert plain(v) == [[1, 2, 3, 4], [5, 5, 5, 5]]
    assert plain([held, flat]) == [[1, 2, 3, 4], [0] * 8]
    assert plain(rng.state) == state
    y += 1  # and they can be used
    assert plain(y) == [2, 3, 4, 5]


def test_what_is_not_tracked_must_not_change_beside_writes() -> None:
    y = dr.zeros(Float, 4)

    def body(left: Int, count: int) -> Any:
        dr.scatter(y, Float(1), UInt(left))
        return left - 1, count + 1

    with pytest.raises(RuntimeError, match="changed the state variable 'state\\[1\\]' of type int"):
        dr.while_loop((Int(TRIPS), 1), lambda left, count: left > 0, body, mode="symbolic")
    assert plain(y) == [0, 0, 0, 0]
    dr.while_loop((Int(TRIPS), 1), lambda left, count: left > 0, body, mode="symbolic", strict=False)
    assert plain(y) == [0, 1, 1, 1]


@pytest.mark.parametrize("mode", MODES)
def test_an_inner_loop_changes_what_the_outer_body_holds(mode: str) -> None:
    def body(left: Int, x: Float) -> Any:
        y = x * 2

        def inner(j: Int) -> tuple[Int]:
            nonlocal y
            y += 1
            return (j - 1,)

        dr.while_loop((Int(left),), lambda j: j > 0, inner, mode=mode)
        return (y,)

    expected = [0, 0, 0, 0]
    for lane, trips in enumerate(TRIPS):
        for left in range(trips, 0, -1):
            expected[lane] = 2 * expected[lane] + left
    assert plain(loop(body, mode, dr.zeros(Float, 4))[0]) == expected


@pytest.mark.parametrize("mode", MODES)
def test_a_nested_loop_writes_to_the_state_of_a_loop_that_is_narrower_than_it(mode: str) -> None:
    """The first trace takes scalars of the state to be as wide as the tables, and fails at the second write."""
    def body(i: UInt, v: Int, first: Int, second: Int) -> tuple[UInt, Int, Int, Int]:
        def write(j: UInt, v: Int) -> tuple[UInt, Int]:
            dr.scatter(second, v, j)
            return j + 1, v + 1

        _, v = dr.while_loop((UInt(0), v), lambda j, v: j < i, write, mode=mode)
        first[UInt(0)] = v
        return i + 1, v, first, second

    i, v, first, second = dr.while_loop((UInt(0), Int(1), Int(1, 2, 3, 4, 5), Int(5, 4, 3, 2, 1)),
                                        lambda i, v, first, second: i < 3, body, mode=mode)
    assert (list(i), list(v)) == ([3], [4])
    assert (list(first), list(second)) == ([4, 2, 3, 4, 5], [2, 3, 3, 2, 1])


@pytest.mark.parametrize("mode", MODES)
def test_one_element_writes_to_an_array_from_outside_beside_a_table_in_the_state(mode: str) -> None:
    """The first trace takes the element for as many as the table has, which one assignment refuses."""
    target = dr.zeros(Int, 5)

    def body(i: UInt, v: Int, table: Float) -> tuple[UInt, Int, Float]:
        target[UInt(2)] = v
        return i + 1, v * 2, table

    dr.while_loop((UInt(0), Int(3), Float(1, 2, 3, 4, 5)), lambda i, v, table: i < 3, body, mode=mode)
    assert list(target) == [0, 0, 12, 0, 0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("table", [1, 3, 5])
def test_a_mask_that_is_seen_to_be_unset_in_some_traces_only(mode: str, known: bool, table: int) -> None:
    """``v < v`` is false, which is not seen as soon as one of both is a broadcast of what the loop leaves alone."""
    target, v = Int(1, 2, 3), (UInt(4) if known else dr.opaque(UInt, 4))

    def body(i: UInt, v: UInt, table: Float) -> tuple[UInt, UInt, Float]:
        dr.scatter(target, Int(9), i, active=dr.select(UInt(5) != 1, v, i) < v)
        return i + 1, v, table

    i, v, _ = dr.while_loop((UInt(0, 1, 2), v, dr.zeros(Float, table)), lambda i, v, table: i < 3, body, mode=mode)
    assert list(i) == [3, 3, 3] and dr.all(v == 4)
    assert list(target) == [1, 2, 3]


@pytest.mark.parametrize(("action", "error", "advice"), [
    (lambda: dr.zeros(Int, 3).__setitem__(2, Int(7)), TypeError, r"x\[drjit.llvm.UInt\(0\)\] = value"),
    (lambda: bool(Bool(True, False)), RuntimeError, "use '&', '[|]' and '~' instead of"),
    (lambda: dr.while_loop((UInt(0, 1),), lambda i: i < 3, lambda i: (i + 0.5,)), TypeError,
     "begin with what it becomes"),
    (lambda: dr.format("{x}", y=1), ValueError, "missing keyword argument \"x\""),
    (lambda: dr.format("{"), ValueError, "unmatched brace"),
], ids=["array as an element", "and", "type of the state", "missing keyword", "brace"])
def test_messages_say_what_to_do(action: Callable[[], Any], error: type[Exception], advice: str) -> None:
    with pytest.raises(error, match=advice):
        action()


@pytest.mark.parametrize("mode", MODES)
def test_a_state_of_an_inner_loop_only(mode: str) -> None:
    target = dr.zeros(Float, 4)

    def write(k: UInt, x: Float) -> tuple[UInt, Float]:
        dr.scatter(x, Float(1), k)
        return k + 1, x

    def body(i: UInt) -> tuple[UInt]:
        dr.while_loop((UInt(0), target), lambda k, x: k < 2, write, mode=mode)
        return i + 1,

    dr.while_loop((UInt(0),), lambda i: i < 3, body, mode=mode)
    assert list(target) == [1, 1, 0, 0]


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("reads", [True, False])
def test_branches_pass_on_what_the_loop_around_them_writes(optimize: bool, reads: bool) -> None:
    """As functions with ``@dr.syntax`` do with all variables that a branch mentions."""
    index = dr.arange(UInt, 4)

    def inner(x: Any, b: Any, mode: Any) -> Any:
        return dr.if_stmt((x, b), x > 5, lambda x, b: (x + 1, b), lambda x, b: (x, b), mode=mode)

    def run(mode: Any) -> Any:
        def body(x: Any, i: Any, b: Any, c: Any) -> Any:
            x = x * 1.5
            dr.scatter_add(b, x, index)
            x, b = dr.if_stmt(
                (x, b), x > 3, lambda x, b: inner(x + dr.gather(Float, b, index) if reads else x, b, mode),
                lambda x, b: (x, b), mode=mode)
            return x, i + 1, b, c

        return dr.while_loop((Float(0.25, 0.5, 1, 2), UInt(0), dr.zeros(Float, 4), Float(3)),
                             lambda x, i, b, c: i < 6, body, mode=mode)

    with dr.scoped_set_flag(dr.JitFlag.OptimizeLoops, optimize):
        for first, second in zip(run("symbolic"), run("evaluated"), strict=True):
            assert np.array_equal(np.broadcast_to(second.numpy(), first.shape), first.numpy())
