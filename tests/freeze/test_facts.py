"""What makes a frozen function be recorded again, and what does not: one row for each kind of change."""

from __future__ import annotations

import copy
import enum
import pickle
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Float as Plain
from drjit.llvm.ad import PCG32, Array3f, Float, Float64, TensorXf, Texture2f, UInt
from drjit.opt import SGD, Adam, RMSProp


class Colour(enum.Enum):
    RED, BLUE = 1, 2


@dataclass
class One:
    x: Any


@dataclass
class Two:
    x: Any


Pair = namedtuple("Pair", "x y")


def floats(n: int, cls: Any = Float) -> Any:
    return cls(np.arange(n) + 1.0)


def tensor(*shape: int) -> Any:
    return TensorXf(np.ones(shape, np.float32))


class Attached(NamedTuple):
    """An array that is tracked in calls: nothing is while other tests run."""

    array: Any

    def made(self) -> Any:
        found = type(self.array)(self.array)
        dr.enable_grad(found)
        return found


def twice(x: Any, y: Any) -> Any:
    return x + 1, y * 2


#: The function, the arguments of calls in order, and how many recordings there are after each.
ROWS: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]], list[int]]] = {
    "other widths": (lambda x: x + 1, [(floats(3),), (floats(4),), (floats(1000),)], [1, 1, 1]),
    "one element and several": (lambda x: x + 1, [
        (floats(3),), (dr.opaque(Float, 2),), (floats(5),), (dr.opaque(Float, 3),)], [1, 2, 2, 2]),
    "no elements": (lambda x: x + 1, [(floats(3),), (Float(),), (floats(4),), (Float(),)], [1, 2, 2, 2]),
    "widths that were equal": (twice, [
        (floats(3), floats(3)), (floats(4), floats(4)), (floats(3), floats(4)), (floats(5), floats(6)),
        (floats(7), floats(7))], [1, 1, 2, 2, 2]),  # one kernel, or two
    "widths that must be equal": (lambda x, y: x * y, [
        (floats(3), floats(3)), (floats(4), floats(4)), (floats(4), dr.opaque(Float, 2))], [1, 1, 2]),
    "one variable twice": (twice, [
        (a := floats(3), a), (b := floats(3), floats(3)), (b, Float(b)), (a, a), (floats(4), floats(4))],
        [1, 2, 3, 3, 3]),
    "other shapes of tensors": (lambda t: t + 1, [(tensor(2, 3),), (tensor(4, 3),), (tensor(2, 3),)], [1, 2, 2]),
    "rank": (lambda t: t + 1, [(tensor(6),), (tensor(2, 3),)], [1, 2]),
    "type": (lambda x: x + 1, [(floats(3),), (floats(3, Plain),), (floats(3, Float64),), (
        floats(3, UInt),)], [1, 2, 3, 4]),
    "kinds of arrays": (lambda x: x + 1, [(floats(3),), (Array3f(floats(2)),)], [1, 2]),
    "numbers": (lambda x, k: x if k is None else x + 1, [(floats(3), k) for k in (
        1, 2, 1.0, True, 1, "a", b"a", 1j, None, Colour.RED, Colour.BLUE, int, float, len, max, None, Colour.RED)],
        [1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 14, 14]),
    "zeros of both signs": (lambda x, k: x + k, [(floats(3), k) for k in (0.0, -0.0, 0.0)], [1, 2, 2]),
    "a number and an array": (lambda x, k: x + k, [(floats(3), 2), (floats(3), dr.opaque(Float, 2)), (
        floats(3), 2)], [1, 2, 2]),
    "structures": (lambda x: x, [(floats(3),), ([floats(3)],), ((floats(3),),), ({"a": floats(3)},), (
        {"b": floats(3)},), ([floats(3), 1],), (OrderedDict(a=floats(3)),), (Pair(floats(3), 1),), ([floats(4)],)],
        [1, 2, 3, 4, 5, 6, 7, 8, 8]),
    "order of keys": (lambda d: d["a"] + 1, [({"a": floats(3), "b": 1},), ({"b": 1, "a": floats(3)},)], [1, 2]),
    "types of data classes": (lambda o: o.x + 1, [(One(floats(3)),), (Two(floats(3)),), (One(floats(2)),)], [1, 2, 2]),
    "derivatives": (lambda x: x * 2, [(floats(3),), (Attached(floats(3)),), (floats(3),)], [1, 2, 2]),
    "constants": (lambda x, y: x + y, [(floats(2), Float(k)) for k in (1, 1, 2, 3, 3)], [1, 1, 2, 2, 2]),
    "constants that differ at different times": (lambda x, y, z: x + y * z, [
        (floats(2), Float(1), Float(5)), (floats(2), Float(2), Float(5)), (floats(2), Float(3), Float(6)),
        (floats(2), Float(4), Float(7))], [1, 2, 3, 3]),
    "a constant and an array": (lambda x, y: x + y, [(floats(2), Float(1)), (floats(2), dr.opaque(Float, 1)), (
        floats(2), Float(1))], [1, 2, 2]),
    "NumPy arrays": (lambda x, a: x + float(a.sum()), [(floats(3), np.arange(3)), (floats(3), np.arange(3)), (
        floats(3), np.arange(4))], [1, 1, 2]),
    "contents of textures": (lambda t: t.eval(dr.llvm.ad.Array2f(0.5, 0.5))[0] + dr.opaque(Float, 0), [
        (Texture2f(tensor(2, 2, 1)),), (Texture2f(tensor(2, 2, 1) * 2),)], [1, 1]),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_recorded_again(name: str) -> None:
    function, calls, expected = ROWS[name]
    frozen = dr.freeze(function, dynamic=None)
    found = []
    for given in calls:
        args = [arg.made() if isinstance(arg, Attached) else arg for arg in given]
        one = frozen(*args)
        other = function(*args)
        assert str(one) == str(other)
        found.append(frozen.n_recordings)
    assert found == expected and frozen.n_cached_recordings == expected[-1]


def test_ways_of_passing_arguments_are_keys() -> None:
    frozen = dr.freeze(lambda x, k=2: x * k)
    x = floats(3)
    for call, count in ((lambda: frozen(x), 1), (lambda: frozen(x, 2), 2), (lambda: frozen(x, k=2), 3), (
            lambda: frozen(x=x, k=2), 4), (lambda: frozen(k=2, x=x), 5), (lambda: frozen(x), 5)):
        call()
        assert frozen.n_recordings == count


def test_flags_are_keys() -> None:
    frozen, x = dr.freeze(lambda x: x * 2 + 1), floats(3)
    frozen(x)
    for flag, count in ((dr.JitFlag.FastMath, 2), (dr.JitFlag.Debug, 3), (dr.JitFlag.KernelHistory, 3), (
            dr.JitFlag.LaunchBlocking, 3)):
        with dr.scoped_set_flag(flag, not dr.flag(flag)):
            frozen(x)
            assert frozen.n_recordings == count
    frozen(x)
    assert frozen.n_recordings == 3
    dr.kernel_history_clear()


def test_what_is_emptied_is_not_recorded_again() -> None:
    frozen, x = dr.freeze(lambda x: dr.sum(x * 2)), floats(3)
    frozen(x)
    for empty in (dr.flush_kernel_cache, dr.flush_malloc_cache):
        empty()
        frozen(x)
    assert frozen.n_recordings == 1


def test_blocks_of_other_numbers_are_right() -> None:
    frozen = dr.freeze(lambda x: dr.block_sum(x, 2))
    for n in (4, 6, 8, 10, 100):
        assert np.array_equal(frozen(floats(n)), dr.block_sum(floats(n), 2))


@pytest.mark.parametrize("inside", [True, False])
def test_reductions_into_arrays_are_one_recording(inside: bool) -> None:
    def into(x: Any, target: Any) -> Any:
        result = dr.zeros(Float, 4) if inside else Float(target)
        dr.scatter_add(result, x, UInt(1))
        return result

    frozen = dr.freeze(into)
    for n in (5, 6, 7, 100):
        assert np.array_equal(frozen(floats(n), dr.opaque(Float, 1, 4)), into(floats(n), dr.opaque(Float, 1, 4)))
    assert frozen.n_recordings == 1


@pytest.mark.parametrize(("kind", "most"), [(SGD, 1), (RMSProp, 1), (Adam, 2)])
def test_steps_of_optimisers(kind: Any, most: int) -> None:
    opt = kind(lr=0.1, params={"x": dr.opaque(Float, 0, 3)})

    @dr.freeze
    def step(opt: Any, target: Any) -> Any:
        loss = dr.mean(dr.square(opt["x"] - target))
        dr.backward(loss)
        opt.step()
        return loss

    for _ in range(6):
        step(opt, floats(3))
    assert step.n_recordings == most


def test_generators() -> None:
    @dr.freeze
    def draw(rng: Any, x: Any) -> Any:
        return rng.random(Float, 4) + x

    numbers = []
    for rng in (dr.rng(seed=1), dr.rng(seed=1), dr.rng(seed=2)):
        numbers.append([draw(rng, floats(4)).numpy().tolist() for _ in range(4)])
    assert numbers[0] == numbers[1] != numbers[2]
    recordings, rng = draw.n_recordings, dr.rng(seed=2)
    assert recordings <= 7  # what begins as Python numbers becomes constants, and then arrays
    assert numbers[2] == [draw(rng, floats(4)).numpy().tolist() for _ in range(4)] and draw.n_recordings == recordings
    rng = dr.rng(seed=1)
    assert numbers[0] == [(rng.random(Float, 4) + floats(4)).numpy().tolist() for _ in range(4)]


def test_each_frozen_function_has_recordings_of_its_own() -> None:
    def twice(x: Any) -> Any:
        return x * 2

    one, two = dr.freeze(twice), dr.freeze(twice)
    one(floats(3))
    assert (one.n_recordings, two.n_recordings) == (1, 0)
    assert copy.copy(one) is one
    for make in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be pickled or copied deeply"):
            make(one)


class Scaling:
    """An object with a frozen method."""

    def __init__(self) -> None:
        self.scale = Float(1, 2)

    @dr.freeze
    def scaled(self, x: Any) -> Any:
        return x * self.scale


def test_frozen_methods_are_copied_as_methods_are() -> None:
    one = Scaling()
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        other.scale = Float(3, 4)
        assert np.array_equal(other.scaled(floats(2)), [3, 8])
    assert np.array_equal(one.scaled(floats(2)), [1, 4])
    assert copy.copy(one.scaled) == one.scaled
    for method in (copy.deepcopy(one.scaled), pickle.loads(pickle.dumps(one.scaled))):
        assert method.__self__ is not one and method.__func__ is Scaling.scaled
        assert np.array_equal(method(floats(2)), [1, 4])
    blank: Any = object.__new__(type(one.scaled))
    with pytest.raises(AttributeError):
        blank.enabled


def test_histories_tell_recordings_from_replays() -> None:
    frozen, x = dr.freeze(lambda x: dr.sum(x + 1)), floats(1000)
    found = []
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        for call in (lambda: dr.eval(dr.sum(x + 1)), lambda: frozen(x), lambda: frozen(x), lambda: frozen(x)):
            dr.kernel_history_clear()
            call()
            found.append([{key: entry[key] for key in ("recording_mode", "type", "size", "hash", "input_count",
                                                       "output_count", "operation_count", "backend", "uses_optix")}
                          for entry in dr.kernel_history()])
    modes = [{entry.pop("recording_mode") for entry in each} for each in found]
    mode = dr.KernelRecordingMode
    assert modes == [{mode.Inactive}, {mode.Recorded}, {mode.Replayed}, {mode.Replayed}]
    assert found[1] == found[2] == found[3]


def test_what_the_body_may_ask_for() -> None:
    @dr.freeze
    def body(x: Any) -> Any:
        y = x + 1
        dr.schedule(y)
        z = Float(y)
        dr.make_opaque(z)
        dr.eval(y, z)
        dr.sync_thread()
        dr.assert_true(y > 0)
        return y * 2, z + len(dr.kernel_history())

    for n in (3, 4, 5):
        x = floats(n)
        assert [each.numpy().tolist() for each in body(x)] == [((x + 1) * 2).numpy().tolist(), (x + 1).numpy().tolist()]
    assert body.n_recordings == 1


def test_arrays_of_the_host_in_the_body() -> None:
    weights = np.array([1, 2, 3], np.float32)

    @dr.freeze
    def body(x: Any) -> Any:
        return x + Float([1, 2, 3]) + Float(1, 2, 3) + Float(weights) + TensorXf(np.ones((3, 1), np.float32)).array + \
            dr.opaque(Float, 3) + dr.full(Float, 2, 3) + Float(3)

    for k in range(3):
        x = floats(3) * (k + 1)
        assert np.array_equal(body(x), x + body.f(floats(3)) - floats(3))
    weights[0] = 5  # which counts by its contents
    assert np.array_equal(body(floats(3)), body.f(floats(3)))


def test_memory_of_the_host_at_any_address() -> None:
    memory = np.arange(64, dtype=np.float32)
    frozen = dr.freeze(lambda x: x * 2)
    for first in (0, 1, 2, 3, 4, 8, 16):
        assert np.array_equal(frozen(Float(memory[first:first + 10])), 2 * memory[first:first + 10])
    assert frozen.n_recordings == 1


def test_what_textures_are_like_counts() -> None:
    frozen = dr.freeze(lambda t, x: t.eval(dr.llvm.ad.Array1f(x))[0])
    cls, counts = dr.llvm.ad.Texture1f, []
    linear, nearest = dr.FilterMode.Linear, dr.FilterMode.Nearest
    for size, filter_mode, wrap_mode in ((4, linear, dr.WrapMode.Clamp), (4, linear, dr.WrapMode.Clamp),
                                         (8, linear, dr.WrapMode.Clamp), (4, nearest, dr.WrapMode.Clamp),
                                         (4, linear, dr.WrapMode.Repeat), (4, linear, dr.WrapMode.Clamp)):
        texture = cls(TensorXf(np.arange(size, dtype=np.float32).reshape(size, 1)), filter_mode=filter_mode,
                      wrap_mode=wrap_mode)
        x = floats(5) / 4
        assert np.array_equal(frozen(texture, x), frozen.f(texture, x))
        counts.append(frozen.n_recordings)
    assert counts[0] == counts[1] and counts == sorted(counts) and counts[-1] == counts[-2]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_loops_go_on_as_long_as_each_call_says(mode: str) -> None:
    @dr.freeze
    def power(x: Any, n: Any) -> Any:
        return dr.while_loop((UInt(0), x), lambda i, y: i < n, lambda i, y: (i + 1, y * 2), mode=mode)[1]

    for n in (3, 2, 5, 0, 3):
        try:
            found = power(floats(2), dr.opaque(UInt, n))
        except RuntimeError as error:  # which says why
            assert mode == "evaluated" and "looks at the contents of an array" in str(error)
        else:
            assert np.array_equal(found, floats(2) * 2**n)


def test_identity_of_results() -> None:
    @dr.freeze
    def same(x: Any, y: Any) -> Any:
        z = x * 2
        return x, [z, z], y, {"x": x}

    for k in range(3):
        x, y = floats(3) * k, {"a": floats(3)}
        one, (two, three), four, five = same(x, y)
        assert one is x and two is three and four is y and five["x"] is x


def test_targets_keep_what_copies_hold() -> None:
    @dr.freeze
    def put(target: Any, x: Any) -> None:
        dr.scatter(target, x, dr.arange(UInt, 3))

    for target in (dr.opaque(Float, 7, 5), dr.zeros(Float, 5), dr.opaque(Float, 8, 5)):
        kept, before = Float(target), target.numpy().tolist()
        put(target, floats(3))
        assert kept.numpy().tolist() == before
        assert target.numpy().tolist() == [1, 2, 3, *before[3:]]


async def _coroutine(x: Any) -> Any:
    return x


def _generator(x: Any) -> Any:
    yield x


async def _asynchronous_generator(x: Any) -> Any:
    yield x


@pytest.mark.parametrize("function", [_coroutine, _generator, _asynchronous_generator])
def test_functions_that_compute_nothing_when_they_are_called_are_refused(function: Any) -> None:
    with pytest.raises(TypeError, match="computes nothing when it is called"):
        dr.freeze(function)


class Ray:
    DRJIT_STRUCT = {"o": Float, "d": Float}  # noqa: RUF012

    def __init__(self) -> None:
        self.o, self.d = Float(), Float()


def test_structures_are_arguments_and_results() -> None:
    @dr.freeze
    def moved(ray: Any, t: Any) -> Any:
        ray.d = -ray.d
        found = Ray()
        found.o, found.d = ray.o + t * ray.d, ray.d
        return found

    for k in range(4):
        ray = Ray()
        ray.o, ray.d = floats(3 + k), floats(3 + k) * (k + 1)
        found = moved(ray, floats(3 + k))
        assert type(found) is Ray and np.array_equal(ray.d, -(k + 1) * floats(3 + k))
        assert np.array_equal(found.d, ray.d) and np.array_equal(found.o, floats(3 + k) + floats(3 + k) * ray.d)
    assert moved.n_recordings == 1


@pytest.mark.parametrize("look", [
    lambda x: x[0], float, lambda x: bool(x > 1), list, str, lambda x: x.numpy(), lambda x: x.__dlpack__(), np.array])
def test_looking_at_contents_is_refused(look: Any) -> None:
    found = []

    @dr.freeze
    def body(x: Any) -> Any:
        y = dr.sum(x + 1)
        found.append(look(y))
        return y

    with pytest.raises(RuntimeError, match="is being recorded"):
        body(floats(3))
    assert not found and body.n_cached_recordings == 0 and not dr.flag(dr.JitFlag.FreezingScope)


def test_states_of_pcg32_are_inputs() -> None:
    draw, one, other = dr.freeze(lambda rng: rng.next_float32()), PCG32(5), PCG32(5)
    for _ in range(5):
        assert np.array_equal(draw(one), other.next_float32())
    assert draw.n_recordings == 1
