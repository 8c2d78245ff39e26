"""Evaluated loops that remove elements that have finished: ``compress=True``, ``JitFlag.CompressLoops``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import PCG32, Array2f, Bool, Complex2f, Float, Int, TensorXf, UInt32, ad

WIDTH = 100


def both(state: Any, cond: Any, body: Any, **options: Any) -> tuple[Any, Any]:
    """The results with and without the elements that have finished."""
    return tuple(dr.while_loop(state(), cond, body, mode="evaluated", compress=compress, **options)
                 for compress in (True, False))  # type: ignore[return-value]


def same(first: Any, second: Any) -> None:
    for one, other in zip(first, second, strict=True):
        assert type(one) is type(other)
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def lengths(count: int = WIDTH) -> UInt32:
    return (dr.arange(UInt32, count) * 7919) % 23


def test_body_sees_those_that_are_left() -> None:
    widths = []

    def body(k: Any, x: Any) -> Any:
        widths.append((dr.width(k), dr.width(x)))
        return k - 1, x * 2

    found = dr.while_loop((lengths(), dr.ones(Float, WIDTH)), lambda k, x: k > 0, body, mode="evaluated", compress=True)
    assert widths[0] == (WIDTH, WIDTH) and widths[-1][0] < WIDTH // 4
    assert widths == sorted(widths, reverse=True)
    assert dr.all(found[1] == 2.0 ** Float(lengths()))


def test_flag_decides_if_nothing_is_said() -> None:
    def smallest(**options: Any) -> int:
        widths = []

        def body(k: Any) -> Any:
            widths.append(dr.width(k))
            return (k - 1,)

        dr.while_loop((lengths(),), lambda k: k > 0, body, mode="evaluated", **options)
        return min(widths)

    with dr.scoped_set_flag(dr.JitFlag.CompressLoops):
        assert smallest() < WIDTH
        assert smallest(compress=False) == WIDTH
    assert smallest() == WIDTH


@dataclass
class Particle:
    position: Array2f
    alive: Bool
    generation: UInt32


@pytest.mark.parametrize("count", [2, 3, 17, 1000])
def test_state_of_all_kinds(count: int) -> None:
    def state() -> Any:
        return (lengths(count), Particle(Array2f(dr.arange(Float, count), 1), dr.full(Bool, True, count), UInt32(0)),
                [Complex2f(1, 0.5), {"z": TensorXf(dr.arange(Float, count))}], TensorXf(3.0),
                PCG32(count), dr.zeros(Float, count), "text")

    def body(k: Any, particle: Any, values: Any, tensor: Any, rng: Any, drawn: Any, text: Any) -> Any:
        drawn = drawn + rng.next_float32()
        return (k - 1, Particle(particle.position * 1.5 + drawn, particle.alive & (k != 5), particle.generation + 1),
                [values[0] * Complex2f(0, 1), {"z": values[1]["z"] + 1}], tensor * 2, rng, drawn, text)

    first, second = both(state, lambda k, *_: k > 0, body)
    same([first[0], first[1].position, first[1].alive, first[1].generation, first[2][0], first[2][1]["z"], first[5]],
         [second[0], second[1].position, second[1].alive, second[1].generation, second[2][0], second[2][1]["z"],
          second[5]])
    assert dr.all(first[4].state == second[4].state)
    assert first[3].shape == second[3].shape and first[6] == "text"
    assert dr.all(first[3].array == second[3].array)


def test_tensors_of_several_dimensions_keep_their_shape() -> None:
    shapes = set()

    def body(k: Any, x: Any) -> Any:
        shapes.add(x.shape)
        return k - 1, x + TensorXf([1, 2], (2, 1))

    same(*both(lambda: (lengths(10), TensorXf(dr.arange(Float, 10), (2, 5))), lambda k, x: k > 0, body))
    assert shapes == {(2, 5)}


def test_variables_that_become_wide_late() -> None:
    def body(n: Any, k: Any, x: Any) -> Any:
        n[0] += 1
        return n, k - 1, x + 1 if n[0] > 15 else x

    one = dr.while_loop(([0], lengths(), Float(2)), lambda n, k, x: k > 0, body, mode="evaluated", compress=True,
                        strict=False)
    two = dr.while_loop(([0], lengths(), Float(2)), lambda n, k, x: k > 0, body, mode="evaluated", compress=False,
                        strict=False)
    same(one[1:], two[1:])
    assert dr.width(one[2]) == WIDTH


@pytest.mark.parametrize("kind", ["scalar", "vector"])
@pytest.mark.parametrize("late", [1, 2])
def test_the_callers_own_array_becomes_wide_after_elements_were_removed(kind: str, late: int) -> None:
    def run(mode: str) -> tuple[Any, ...]:
        weight = ad.Float(1.5)
        dr.enable_grad(weight)
        state = ad.Float(weight) if kind == "scalar" else ad.Array3f(weight, 2, weight)
        iterations = iter(range(9))

        def body(i: ad.UInt32, lane: ad.UInt32, state: Any) -> Any:
            if mode == "symbolic" or next(iterations) >= late:
                added = dr.select(i >= late, ad.Float(lane) * weight, 0)
                if kind == "scalar":
                    state += added
                else:
                    state.x += added
            return i + 1, lane, state

        lane = dr.arange(ad.UInt32, WIDTH)
        found = dr.while_loop((ad.UInt32(0), lane, state), lambda i, lane, state: i < 1 + (lane & 3), body, mode=mode,
                              compress=True)[2]
        assert found is state
        dr.backward(dr.sum(found if kind == "scalar" else dr.sum(found)))
        return found, weight.grad

    same(run("evaluated"), run("symbolic"))


@pytest.mark.parametrize("count", [2, 7, 50, WIDTH])
def test_tables_of_the_state_stay_whole(count: int) -> None:
    """Also those that have as many elements as there are lanes, at some time or other."""
    def body(k: Any, x: Any, table: Any, seen: Any) -> Any:
        x = x + dr.gather(Float, table, k % count)
        dr.scatter_add(seen, UInt32(1), k % count)
        return k - 1, x, table, seen

    one, two = both(lambda: (lengths(), dr.zeros(Float, WIDTH), dr.arange(Float, count) * 10, dr.zeros(UInt32, count)),
                    lambda k, *_: k > 0, body)
    same(one, two)
    assert dr.sum(one[3]) == dr.sum(lengths())


def test_tables_of_symbolic_constructs_within() -> None:
    table = dr.arange(Float, WIDTH) * 3
    dr.eval(table)

    def state() -> Any:
        return lengths(), dr.zeros(Float, WIDTH), Float(table), dr.zeros(UInt32, WIDTH)

    def inner(j: Any, y: Any, t: Any, seen: Any) -> Any:
        dr.scatter_add(seen, UInt32(1), j)
        return j + 1, y + dr.gather(Float, t, j), t, seen

    def body(k: Any, x: Any, t: Any, seen: Any) -> Any:
        _, x, t, seen = dr.while_loop((k * 2, x, t, seen), lambda j, y, t, seen: j < k * 2 + 3, inner, mode="symbolic")
        return k - 1, x, t, seen

    one, two = both(state, lambda k, *_: k > 0, body)
    same(one, two)


def test_table_found_late_is_refused() -> None:
    def body(n: Any, k: Any, x: Any, table: Any) -> Any:
        n[0] += 1
        if n[0] > 15:
            x = x + dr.gather(Float, table, k)
        return n, k - 1, x, table

    with pytest.raises(TypeError, match=r"'table' by index, but only after .* compress=False"):
        dr.while_loop(([0], lengths(), dr.zeros(Float, WIDTH), dr.arange(Float, WIDTH)), lambda n, k, *_: k > 0, body,
                      mode="evaluated", compress=True, strict=False, labels=("n", "k", "x", "table"))


def test_element_read_by_the_host_is_that_of_all() -> None:
    same(*both(lambda: (lengths(), dr.zeros(Float, WIDTH), dr.arange(Float, WIDTH)), lambda k, *_: k > 0,
               lambda k, x, table: (k - 1, x + table[99], table)))


def test_own_neighbours_are_read_from_all() -> None:
    """What is both computed with and read by index cannot be made smaller."""
    neighbour = (dr.arange(UInt32, WIDTH) + 1) % WIDTH
    dr.eval(neighbour)
    same(*both(lambda: (lengths(), dr.arange(Float, WIDTH), UInt32(neighbour)), lambda k, *_: k > 0,
               lambda k, x, n: (k - 1, x * 0.5 + dr.gather(Float, x, n), n)))


def test_accesses_of_all_elements_are_those_of_the_ones_left() -> None:
    index, one = dr.arange(UInt32, WIDTH), dr.ones(UInt32, WIDTH)
    dr.eval(index, one)
    counts = []
    for compress in (True, False):
        seen = dr.zeros(UInt32, WIDTH)

        def body(k: Any, seen: Any = seen) -> Any:
            dr.scatter_add(seen, one, index)
            return (k - 1,)

        dr.while_loop((lengths(),), lambda k: k > 0, body, mode="evaluated", compress=compress)
        counts.append(seen)
    assert dr.all(counts[0] == counts[1]) and dr.all(counts[0] == lengths())


def test_masks_of_constructs_around_do_not_belong_to_lanes_within() -> None:
    """An outer loop of as many elements as are left within."""
    seen = dr.zeros(UInt32, WIDTH)

    def outer(n: Any) -> Any:
        def inner(i: Any, k: Any) -> Any:
            dr.scatter_add(seen, UInt32(1), i)
            return i, k - 1

        dr.while_loop((dr.arange(UInt32, WIDTH), lengths()), lambda i, k: k > 0, inner, mode="evaluated",
                      compress=True)
        return (n - 1,)

    for width in range(2, 60):
        seen = dr.zeros(UInt32, WIDTH)
        n = UInt32([1] + [0] * (width - 1))
        dr.while_loop((n,), lambda n: n > 0, outer, mode="evaluated")
        assert dr.all(seen == lengths()), width


def test_arrays_of_all_elements_from_outside_are_refused() -> None:
    other = dr.arange(Float, WIDTH)
    with pytest.raises(RuntimeError, match=r"compress=True.* of which \d+ are left.* all 100 elements"):
        dr.while_loop((lengths(), dr.zeros(Float, WIDTH)), lambda k, x: k > 0, lambda k, x: (k - 1, x + other),
                      mode="evaluated", compress=True)
    with pytest.raises(RuntimeError, match="compress=True"):
        dr.while_loop((lengths(), dr.zeros(Float, WIDTH)), lambda k, x: (k > 0) & (other > -1),
                      lambda k, x: (k - 1, x), mode="evaluated", compress=True)
    with pytest.raises(RuntimeError, match="compress=True"):
        dr.while_loop((lengths(), Float(0)), lambda k, x: k > 0, lambda k, x: (k - 1, other + 0),
                      mode="evaluated", compress=True)
    with pytest.raises(RuntimeError, match=r"compress=True.*read or written by index \('x'\).* computed with as well"):
        dr.while_loop((lengths(), dr.arange(Float, WIDTH)), lambda k, x: k > 0, lambda k, x: (
            k - UInt32(dr.gather(Float, x, UInt32(1)) + 0 * x), x), ("k", "x"), mode="evaluated", compress=True)


def test_messages_say_once_that_elements_were_removed() -> None:
    kept = [Float(0)]

    def body(i: Any, x: Any) -> Any:
        kept[0] = kept[0] + x
        return i + 1, x

    with pytest.raises(ValueError) as caught:
        dr.while_loop((UInt32(0, 1, 2), Float(0, 1, 2)), lambda i, x: i < 3, body, mode="evaluated", compress=True)
    assert str(caught.value).count("compress=True") == 1


def test_local_memory() -> None:
    digits = lengths() * 12345 + 7
    found = []
    for compress in (True, False):
        local = dr.alloc_local(UInt32, 10, value=UInt32(0))

        def body(n: Any, local: Any, outside: Any = local) -> Any:
            local[n % 10] += 1
            outside[n % 10] += 1
            return n // 10, local

        dr.while_loop((UInt32(digits), dr.Local(local)), lambda n, local: n > 0, body, mode="evaluated",
                      compress=compress)
        found.append([local[k] for k in range(10)])
    same(*found)


def test_local_memory_of_an_iteration_ends_with_it() -> None:
    def body(k: Any, local: Any) -> Any:
        return k - 1, dr.alloc_local(UInt32, 2, value=UInt32(k))

    def use(k: Any, local: Any) -> Any:
        local[1] = k
        return body(k, local)

    with pytest.raises(RuntimeError, match="iteration of a loop that removes finished elements"):
        dr.while_loop((lengths(), dr.alloc_local(UInt32, 2, value=UInt32(0))), lambda k, local: k > 0, use,
                      mode="evaluated", compress=True, strict=False)


def test_derivatives() -> None:
    def loss(scale: Any, x: Any, compress: bool) -> Any:
        def body(k: Any, y: Any, product: Any) -> Any:
            return k - 1, dr.sin(y * scale) + 0.5 * y, product * (y + 1)

        k = ad.UInt32(lengths())
        _, y, product = dr.while_loop((k, x, ad.Float(1)), lambda k, y, p: k > 0, body, mode="evaluated",
                                      compress=compress)
        return dr.mean(y * y + 1e-3 * product)

    found = []
    for compress in (True, False):
        scale, x = ad.Float(1.25), ad.Float(dr.arange(ad.Float, WIDTH) * 0.01)
        dr.enable_grad(scale, x)
        value = loss(scale, x, compress)
        dr.backward(value)
        other, y = ad.Float(1.25), ad.Float(dr.arange(ad.Float, WIDTH) * 0.01)
        dr.enable_grad(other)
        result = loss(other, y, compress)
        dr.forward(other)
        found.append((value.numpy(), dr.grad(scale).numpy(), dr.grad(x).numpy(), dr.grad(result).numpy()))
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4)
    np.testing.assert_allclose(found[0][1], found[0][3], rtol=1e-4)

    def double(scale: float) -> float:
        y, product = np.arange(WIDTH) * 0.01, np.ones(WIDTH)
        for step in range(23):
            run = lengths().numpy() > step
            y, product = np.where(run, np.sin(y * scale) + 0.5 * y, y), np.where(run, product * (y + 1), product)
        return float(np.mean(y * y + 1e-3 * product))

    np.testing.assert_allclose(found[0][0], double(1.25), rtol=1e-4)
    np.testing.assert_allclose(found[0][1], (double(1.25 + 1e-5) - double(1.25 - 1e-5)) / 2e-5, rtol=1e-3)


def test_gradients_of_tables() -> None:
    grads = []
    for compress in (True, False):
        table = ad.Float(dr.arange(ad.Float, WIDTH))
        dr.enable_grad(table)
        _, x = dr.while_loop((ad.UInt32(lengths()), dr.zeros(ad.Float, WIDTH)), lambda k, x: k > 0,
                             lambda k, x, t=table: (k - 1, x * 0.5 + dr.gather(ad.Float, t, k)), mode="evaluated",
                             compress=compress)
        dr.backward(dr.sum(x))
        grads.append(dr.grad(table))
    np.testing.assert_allclose(grads[0].numpy(), grads[1].numpy(), rtol=1e-5)


def test_nothing_is_compiled_from_iteration_to_iteration() -> None:
    def run(count: int) -> set[Any]:
        limit = (dr.arange(UInt32, count) * 7919) % 301
        dr.eval(limit)
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            dr.while_loop((dr.zeros(UInt32, count), dr.arange(Float, count), UInt32(limit)), lambda k, x, n: k < n,
                          lambda k, x, n: (k + 1, x * 1.25, n), mode="evaluated", compress=True)
            return {entry["hash"] for entry in dr.kernel_history() if entry["type"] == dr.KernelType.JIT}

    assert len(run(5000)) <= 16
    assert len(run(5000) | run(4001)) <= 20


def test_through_the_syntax_writes_reach_the_table() -> None:
    @dr.syntax
    def program(k: UInt32, table: Float, seen: UInt32) -> Float:
        x = dr.zeros(Float, WIDTH)
        while dr.hint(k > 0, mode="evaluated"):
            x += dr.gather(Float, table, k)
            dr.scatter_add(seen, UInt32(1), k)
            k -= 1
        return x

    table, seen = dr.arange(Float, WIDTH), dr.zeros(UInt32, WIDTH)
    n = Float(lengths())
    with dr.scoped_set_flag(dr.JitFlag.CompressLoops):
        assert dr.all(program(lengths(), table, seen) == n * (n + 1) / 2)
    assert dr.sum(seen) == dr.sum(lengths())


def test_exceptions_leave_nothing_behind() -> None:
    def body(n: Any, k: Any) -> Any:
        n[0] += 1
        if n[0] > 15:
            raise ZeroDivisionError
        return n, k - 1

    with pytest.raises(ZeroDivisionError):
        dr.while_loop(([0], lengths()), lambda n, k: k > 0, body, mode="evaluated", compress=True,
                      strict=False)
    x = dr.zeros(UInt32, WIDTH)
    dr.scatter(x, UInt32(1), dr.arange(UInt32, WIDTH))
    assert dr.all(x == 1)


@pytest.mark.parametrize("kind", ["flat", "component", "element"])
def test_elements_that_an_integer_names_are_those_of_all_lanes(kind: str) -> None:
    def body(left: Int, array: Any) -> Any:
        if kind == "flat":
            array[-1] = 50
        elif kind == "component":
            array.x[-1] = 50
        else:
            array[0, -1] = 50
        return left - 1, array

    results = []
    for compress in (False, True):
        array: Any = Float(1, 2, 3, 4) if kind == "flat" else Array2f([1, 2, 3, 4], [5, 6, 7, 8])
        results.append(dr.while_loop((Int(2, 0, 3, 1), array), lambda left, _: left > 0, body, mode="evaluated",
                                     compress=compress)[1])
    assert np.array_equal(np.array(results[0]), np.array(results[1]))


def test_an_array_of_one_element_that_becomes_wider_and_is_written_by_masks() -> None:
    def body(left: Int, array: Float) -> Any:
        array[dr.arange(UInt32, 4) < 2] += 1
        return left - 1, array

    for compress in (False, True):
        array = dr.while_loop((Int(2, 0, 3, 1), Float(5)), lambda left, _: left > 0, body, mode="evaluated",
                              compress=compress)[1]
        assert array.numpy().tolist() == [7, 5, 5, 5]


class _Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.mark.parametrize("compress", [False, True])
def test_objects_of_the_state_are_replaced_only_by_all_elements_together(compress: bool) -> None:
    def run(*limits: int) -> Any:
        return dr.while_loop((_Holder(UInt32(0)), UInt32(limits)), lambda held, limit: held.value < limit,
                             lambda held, limit: (_Holder(held.value + 1), limit), mode="evaluated",
                             compress=compress)[0].value

    assert dr.all(run(3, 3, 3) == 3)
    with pytest.raises(RuntimeError, match=r"returns another object, with arrays, as the state variable 'state\[0\]'"):
        run(1, 2, 3)


@pytest.mark.parametrize("width", [1, 3])
def test_the_condition_is_called_once_for_each_iteration(width: int) -> None:
    calls = []

    def cond(i: UInt32) -> Any:
        calls.append(1)
        return i < 2

    assert list(dr.while_loop((dr.zeros(UInt32, width),), cond, lambda i: (i + 1,), mode="evaluated",
                              compress=True)[0]) == [2] * width
    assert len(calls) == 3


def test_containers_hold_what_they_did_if_a_body_returns_something_else() -> None:
    box = [dr.arange(UInt32, 4)]
    before = box[0]
    with pytest.raises(TypeError, match="'body' must return a tuple"):
        dr.while_loop((box, UInt32(0)), lambda box, i: i < 2, lambda box, i: (box[0] + 1).__class__, mode="evaluated",
                      compress=True)
    assert box[0] is before


@dr.syntax
def _first_above(n: Any, x: Any, limit: Any, two: Any) -> Any:
    """Returns from two places, of which one is met late."""
    while n > 0:
        x = x * 1.5
        n -= 1
        if x > limit:
            return x, n
        for k in range(two):
            x = x + 1
            if x + k > 3 * limit:
                return -x, n + 100
    return x, n


@pytest.mark.parametrize("tracked", [False, True])
def test_elements_leave_by_return_after_others_were_removed(tracked: bool) -> None:
    start = np.arange(WIDTH) / 32 + 0.5
    found, expected, gradients = [], [], []
    for compress in (True, False):
        with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False), \
                dr.scoped_set_flag(dr.JitFlag.CompressLoops, compress), \
                dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, False):
            x = ad.Float(start)
            if tracked:
                dr.enable_grad(x)
            y, n = _first_above(ad.UInt32(lengths()), x, 20, ad.UInt32(2))
            if tracked:
                dr.backward(y * y)
                gradients.append(x.grad)
            found.append((dr.detach(y), n))
    same(*found)
    if tracked:
        same(*[[gradient] for gradient in gradients])
    for n, x in zip(lengths().numpy(), start, strict=True):
        expected.append(_first_above(int(n), float(x), 20, 2))
    np.testing.assert_allclose(found[0][0].numpy(), [y for y, _ in expected], rtol=1e-5)  # float32, 60 operations
    assert list(found[0][1]) == [n for _, n in expected]
