"""Numbers of objects that change from call to call: arrays take their places."""

from __future__ import annotations

import decimal
import functools
import pathlib
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
from drjit.llvm.ad import Array3f, Float, TensorXf, UInt
from drjit.opt import SGD, Adam, AdamW, Muon, RMSProp


class Model:
    def __init__(self) -> None:
        self.rate, self.bias, self.options = 1.0, Float(1, 2), {"scale": 0.5}


def test_numbers_of_objects_that_change_become_arrays(caplog: pytest.LogCaptureFixture) -> None:
    @dr.freeze
    def f(model: Any, x: Any) -> Any:
        return x * model.rate + model.bias * model.options["scale"]

    model, x = Model(), Float(3, 4) + 1
    with caplog.at_level("WARNING", "drjit"):
        for k in range(6):
            model.rate = 1 + k / 4
            assert dr.all(f(model, x) == x * model.rate + model.bias * 0.5)
            assert type(model.rate) is float
        assert f.n_recordings == 3
        assert "a third value of args[0].rate, which is an array of one element for it from now on" in caplog.text
        for k in range(6):
            model.options["scale"], model.rate = k / 2, k + 0.5
            assert dr.all(f(model, x) == x * model.rate + model.bias * (k / 2))
        assert f.n_recordings <= 6
    recordings = f.n_recordings
    for k in range(6):
        model.options["scale"], model.rate = k / 8, k + 2  # an int, too
        assert dr.all(f(model, x) == x * model.rate + model.bias * (k / 8))
    assert f.n_recordings == recordings
    model.rate = "text"
    with pytest.raises(Exception, match=r"unsupported|operand|float"):
        f(model, x)
    model.rate = 3.0
    assert dr.all(f(model, x) == x * 3.0 + model.bias * model.options["scale"])


def test_learning_rates_of_optimisers_become_arrays() -> None:
    def step(opt: Any, target: Any) -> Any:
        loss = dr.mean(dr.square(opt["x"] - target))
        dr.backward(loss)
        opt.step()
        return loss

    for kind, most in ((SGD, 3), (Adam, 4)):
        frozen = dr.freeze(step)
        found = []
        for function in (frozen, step):
            opt = kind(lr=0.1, params={"x": dr.opaque(Float, 0, 5)})
            for k in range(12):
                opt.set_learning_rate(0.1 / (k + 1))
                function(opt, Float(1, 2, 3, 4, 5))
                assert type(opt.learning_rate()) is float
            found.append(opt["x"].numpy())
        assert frozen.n_recordings == most and np.allclose(*found, rtol=1e-5)


def test_numbers_that_must_be_numbers_stay_numbers() -> None:
    def changes(model: Any, x: Any) -> Any:
        model.rate *= 2
        return x * model.rate

    def returns(model: Any, x: Any) -> Any:
        return x, model.rate

    def keeps(model: Any, x: Any) -> Any:
        model.last = model.rate
        return x + 1

    def decides(model: Any, x: Any) -> Any:
        return x + 1 if model.rate > 2 else x - 1

    for function in (changes, returns, keeps, decides):
        frozen, one, other, x = dr.freeze(function), Model(), Model(), Float(3, 4) + 1
        for k in range(6):
            one.rate = other.rate = 1 + k / 2
            found, expected = frozen(one, x), function(other, x)
            assert str(found) == str(expected) and one.rate == other.rate and type(one.rate) is float
            assert getattr(one, "last", None) == getattr(other, "last", None)


def test_a_number_that_turns_out_to_be_needed_is_one_again() -> None:
    @dr.freeze
    def f(model: Any, x: Any, decide: bool) -> Any:
        return x + 1 if decide and model.rate > 2 else x * model.rate

    model, x = Model(), Float(3, 4) + 1
    for k in range(6):
        model.rate = 1 + k / 2
        f(model, x, False)
    assert f.n_recordings == 3
    for k in range(6):
        model.rate = 1 + k / 2
        assert dr.all(f(model, x, True) == (x + 1 if model.rate > 2 else x * model.rate))
        assert dr.all(f(model, x, False) == x * model.rate)
        assert type(model.rate) is float


def test_numbers_of_objects_in_files(tmp_path: pathlib.Path) -> None:
    @dr.freeze
    def f(model: Any, x: Any) -> Any:
        return x * model.rate

    model, x = Model(), Float(3, 4) + 1
    for k in range(4):
        model.rate = 1 + k / 4
        f(model, x)
    f.save(tmp_path / "f")
    loaded = dr.load_frozen(tmp_path / "f")
    model.rate = 7.5
    assert dr.all(loaded(model, x) == x * 7.5)


class Simulation:
    """Numbers that its steps change, in step with others."""

    def __init__(self) -> None:
        self.count, self.time, self.step = 0, 0.0, 0.125
        self.x = Float(1, 2, 3)
        self.log: list[Any] = [0]

    def advance(self, y: Any) -> Any:
        self.x = self.x * 0.5 + y * self.count + dr.sin(y * self.time)
        self.count += 1
        self.time += self.step
        return dr.sum(self.x), self.count


def test_counters_that_the_function_changes_are_inputs(caplog: pytest.LogCaptureFixture) -> None:
    plain, other, frozen = Simulation(), Simulation(), dr.freeze(Simulation.advance)
    with caplog.at_level("WARNING", "drjit"):
        for k in range(20):
            y = Float(np.arange(3) + k)
            (one, first), (two, second) = plain.advance(y), frozen(other, y)
            np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-5)
            assert first == second and type(second) is int
            assert (plain.count, plain.time) == (other.count, other.time)
            assert type(other.count) is int and type(other.time) is float
    assert frozen.n_recordings == 3
    assert "a third value of args[0].count and args[0].time, which may be any number from now on" in caplog.text
    other.count = 1.5  # type: ignore[assignment]
    assert frozen(other, y)[1] == 2.5
    other.count = True
    assert type(frozen(other, y)[1]) is int


NUMBERS = {
    "operators": lambda x, n: (x * n - n / 2, n + x, x < n, x ** 2 * n),
    "arithmetic": lambda x, n: x * (n % 3) - n // 2,
    "powers": lambda x, n: x / (1 - 0.9 ** (n + 1)),
    "arrays": lambda x, n: (Float(n), UInt(n) + 1, dr.full(Float, n, 3)),
    "functions": lambda x, n: (dr.select(x > n, x, n), dr.maximum(n, x), dr.fma(x, n, 1.5)),
    "tensors": lambda x, n: (TensorXf(x) * n, Array3f(x, 1, 2) * n),
    "positions": lambda x, n: dr.gather(Float, x, n % 3),
    "loops": lambda x, n: dr.while_loop((UInt(0), Float(x)), lambda i, v: i < n, lambda i, v: (i + 1, v * 2))[1],
    "containers": lambda x, n: [n, {"next": n + 1, "half": n * 0.5}, x * n],
}


@pytest.mark.parametrize("name", NUMBERS)
def test_integers_that_flow_into_arrays_are_inputs(name: str) -> None:
    function = NUMBERS[name]
    frozen = dr.freeze(function)
    for n in range(8):
        x = Float(1, 2, 6)
        assert str(frozen(x, n)) == str(function(x, n))
    assert frozen.n_recordings == 3


def test_what_decides_is_recorded_for_each_decision() -> None:
    @dr.freeze
    def every_third(x: Any, n: int) -> Any:
        return x + n if n % 3 == 0 else x * n

    for n in range(20):
        x = Float(1, 2, 6)
        assert str(every_third(x, n)) == str(every_third.f(x, n))
    assert every_third.n_recordings == 4
    for function in (lambda x, n: [x * k for k in range(n)], lambda x, n: (x * n, f"{n}"), lambda x, n: x ** n):
        frozen = dr.freeze(function)
        for n in (1, 2, 3, 4, 5, 1, 2, 3, 4, 5):
            assert str(frozen(Float(1, 2), n)) == str(function(Float(1, 2), n))
        assert frozen.n_recordings == 5


def test_numbers_are_checked_as_they_are_in_plain_calls() -> None:
    @dr.freeze
    def f(x: Any, n: Any) -> Any:
        return x + n

    for n in (1, 2, 3, 4, -1, 5, 1 << 31, 1 << 32, 1 << 70, 7, True, 2.0, 8):
        found = []
        for function in (f, f.f):
            try:
                found.append(str(function(UInt(1, 2), n)))
            except Exception as error:
                found.append(type(error).__name__)
        assert found[0] == found[1], n


@pytest.mark.parametrize("function", [
    lambda x, n: (str([n]), repr((n, {n: 1})), f"{n!r}"), lambda x, n: x * len(str({"n": n})),
    lambda x, n: (np.arange(3) + n, np.array([n, 2]), np.where(np.arange(3) > 1, n, 0)),
    lambda x, n: (np.float32(0.1) * n, n * np.float32(0.1), np.int8(100) + n, np.float32(1.5) ** n, np.ones(2) > n),
    lambda x, n: (np.arange(3, dtype=np.uint8) * n).dtype.str, lambda x, n: (np.add(n, 2), np.clip([1, 5], 0, n)),
    lambda x, n: x + Float(np.arange(3) * n), lambda x, n: np.isscalar(n)])
def test_numbers_that_meet_texts_and_numpy_are_those_of_plain_calls(function: Any) -> None:
    frozen = dr.freeze(function)
    for n in (1, 2, 3, 4, 5, 0.5, 1.5, 2.5, 3.5, 4.5):
        assert repr(frozen(Float(1, 2, 3), n)) == repr(function(Float(1, 2, 3), n))


def test_derivatives_know_numbers_that_are_inputs(tmp_path: pathlib.Path) -> None:
    @dr.freeze
    def f(x: Any, n: int) -> Any:
        return dr.sum(x * x * n + x / (n + 1)), n + 1

    for n in range(8):
        x = Float(1, 2, 3)
        dr.enable_grad(x)
        y, following = f(x, n)
        dr.backward(y)
        np.testing.assert_allclose(dr.grad(x).numpy(), 2 * np.array([1, 2, 3]) * n + 1 / (n + 1), rtol=1e-6)
        assert following == n + 1
    assert f.n_recordings == 3
    path = str(tmp_path / "f")
    f.save(path)
    loaded = dr.load_frozen(path)
    x = Float(1, 2, 3)
    dr.enable_grad(x)
    y, following = loaded(x, 50)
    dr.backward(y)
    np.testing.assert_allclose(dr.grad(x).numpy(), 2 * np.array([1, 2, 3]) * 50 + 1 / 51, rtol=1e-6)
    assert following == 51 and type(following) is int


def _by_pattern(x: Any, n: Any) -> Any:
    match n:
        case int():
            return x * n
    return x - 1


@pytest.mark.parametrize("function", [
    lambda x, n: x * n if isinstance(n, int) else x - 1, lambda x, n: x * n if type(n) is int else x - 1, _by_pattern,
    lambda x, n: x * n if n.__class__ in (int, float) else x - 1])
def test_functions_that_ask_for_types_find_numbers(function: Any) -> None:
    frozen = dr.freeze(function)
    for n in (1, 2, 3, 4, 0.5, 1.5, 2.5, 3.5):
        assert str(frozen(Float(1, 2), n)) == str(function(Float(1, 2), n))
    assert frozen.n_recordings == 8


def test_counters_beside_arrays_that_objects_hold_alone() -> None:
    class Model:
        def __init__(self) -> None:
            self.weights, self.count = Float(1, 2, 3), 0

        def step(self) -> Any:
            rate = 0.1 * 0.9 ** (self.count // 2)
            self.count += 1
            self.weights = self.weights - rate * self.weights
            return self.weights if self.count % 3 else self.weights * 2

    plain, other = Model(), Model()
    frozen = dr.freeze(Model.step)
    for _ in range(20):
        np.testing.assert_allclose(plain.step().numpy(), frozen(other).numpy(), rtol=1e-5)
        assert plain.count == other.count
    assert frozen.n_recordings <= 5


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Counted:
    count: int = 0


class Settings:
    scale = 1

    @classmethod
    def scaled(cls, x: Any, k: int) -> Any:
        cls.scale = cls.scale + 1
        return x * cls.scale


def _counting(x: Any, k: int, counts: dict[str, int] = {}) -> Any:  # noqa: B006
    counts["n"] = counts.get("n", 0) + 1
    return x * counts["n"]


def _with_keyword(x: Any, k: int, *, state: Any = ([1, 2],)) -> Any:
    state[0][1] += k
    return x * state[0][1], state


def _counted(x: Any, k: int, counted: Any) -> Any:
    counted.count += 1
    return x * counted.count, counted


PLACES: dict[str, tuple[Any, Any]] = {
    "tuples": (lambda x, p: (x * p[0] + p[1], p), lambda k: ((k, k / 2),)),
    "tuples in tuples": (lambda x, p: (x * p[0][1] + p[1][0], p[0]), lambda k: (((1, k), (3 * k,)),)),
    "one tuple twice": (lambda x, p, q: (x * p[0] + q[0], p is q), lambda k: (p := (k,), p)),
    "named tuples": (lambda x, p: (x * p.a + p.b, p), lambda k: (Pair(k, k + 1),)),
    "tuples in containers": (lambda x, d: (x * d["p"][0][0], d["p"]), lambda k: ({"p": [(k,)]},)),
    "arguments": (lambda x, *more: x * more[1] + more[0], lambda k: (k, k / 4)),
    "default values": (_counting, lambda k: (7,)),
    "keywords with default values": (_with_keyword, lambda k: (7,)),
    "attributes of classes": (Settings.scaled, lambda k: (7,)),
    "data classes": (_counted, lambda k: (7, Counted(k))),
}


@pytest.mark.parametrize("name", PLACES)
def test_numbers_in_all_places_are_inputs(name: str) -> None:
    function, given = PLACES[name]

    def results(called: Any) -> list[Any]:
        _counting.__defaults__[0].clear()  # type: ignore[index]
        _with_keyword.__kwdefaults__["state"][0][1] = Settings.scale = 2  # type: ignore[index]
        return [str(called(Float(1, 2), *given(k))) for k in range(8)]

    frozen = dr.freeze(function)
    assert results(frozen) == results(function)
    assert frozen.n_recordings <= 4


def test_tuples_that_hold_inputs_are_the_caller_s() -> None:
    class Holder:
        pair: Any = None

    @dr.freeze
    def f(x: Any, holder: Any, pair: Any) -> Any:
        first, holder.pair = holder.pair, (holder.pair[0] + 1, pair)
        return x * first[0] + pair[0], first, pair

    holder = Holder()
    holder.pair = (0, None)
    for k in range(8):
        pair, before = (k, 0.5), holder.pair
        y, first, second = f(Float(1, 2), holder, pair)
        assert first is before and second is pair and holder.pair[1] is pair
        assert type(holder.pair[0]) is int and holder.pair[0] == k + 1
        assert str(y) == str(Float(1, 2) * k + k)


@pytest.mark.parametrize("make", [
    lambda: SGD(lr=0.1, momentum=0.9), lambda: RMSProp(lr=0.1), lambda: Adam(lr=0.1),
    lambda: AdamW(lr=0.1, weight_decay=0.01), lambda: Muon(lr=0.1)])
def test_learning_rates_may_follow_from_counters(make: Callable[[], Any]) -> None:
    def step(trained: Any, x: Any) -> Any:
        trained.step += 1
        trained.opt.set_learning_rate(0.1 / trained.step)
        dr.backward(dr.sum(dr.square(trained.opt["w"] - x)))
        trained.opt.step()
        return trained.opt["w"]

    def begun() -> Any:
        opt = make()
        opt["w"] = TensorXf(Float(1, 2, 3, 4), (2, 2))
        return types.SimpleNamespace(opt=opt, step=0)

    frozen, one, other = dr.freeze(step), begun(), begun()
    for k in range(10):
        x = TensorXf(Float(4, 3, 2, 1) * k, (2, 2))
        # the rate is computed within the recording there, and rounded otherwise
        assert np.allclose(frozen(one, x), step(other, x), rtol=1e-5)
        assert one.step == k + 1 and one.opt.learning_rate() == other.opt.learning_rate() == 0.1 / (k + 1)
    assert frozen.n_recordings <= 4
    assert "recorded again" in frozen.explain(one, TensorXf(Float(1), (1, 1)))


@dataclass(frozen=True)
class Fixed:
    x: Any
    k: int


@dataclass(frozen=True, slots=True)
class FixedSlots:
    x: Any
    k: int


@pytest.mark.parametrize("cls", [Fixed, FixedSlots])
def test_numbers_of_data_classes_that_are_frozen_may_change(cls: Any) -> None:
    frozen = dr.freeze(lambda each: cls(each.x * each.k, each.k + 1))
    for k in range(2, 10):
        found = frozen(cls(Float(1, 2), k))
        assert type(found) is cls and found.k == k + 1 and np.array_equal(found.x, [k, 2 * k])
    assert frozen.n_recordings == 3


class Counting:
    DRJIT_STRUCT: Any = {"total": Float}  # noqa: RUF012

    def __init__(self) -> None:
        self.total, self.count = Float(0, 0), 0

    @dr.freeze
    def add(self, x: Any) -> Any:
        self.total += x
        self.count += 1
        return self.total / self.count


class CountingToo(Counting):
    pass


def test_numbers_may_change_in_objects_that_take_turns() -> None:
    one, other = Counting(), CountingToo()
    for k in range(10):
        for each in (one, other):
            assert np.array_equal(each.add(Float(1, 2)), [1, 2]) and each.count == k + 1
    assert Counting.add.n_recordings <= 6


def test_numbers_become_arrays_while_sizes_change() -> None:
    frozen = dr.freeze(lambda x, rate: dr.sum(x) * rate)
    for k in range(8):
        x = dr.arange(Float, 5 + k) + 1
        assert dr.allclose(frozen(x, 0.5 * k), dr.sum(x) * (0.5 * k))
    assert frozen.n_recordings == 3


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_numbers_of_numpy_become_arrays_like_others(kind: Any) -> None:
    rates = [kind(0.1 * k) for k in range(8)]
    by_name = dr.freeze(lambda x, rate: x - x * rate, dynamic=("rate",))
    by_itself = dr.freeze(lambda x, rate: x - x * rate)
    by_attribute = dr.freeze(lambda model, x: x * model.rate + model.bias)
    model, x = Model(), Float(3, 4) + 1
    for rate in rates:
        model.rate = rate
        for found in (by_name(x, rate), by_itself(x, rate)):
            assert np.allclose(found, x - x * rate)
        assert np.allclose(by_attribute(model, x), x * rate + model.bias) and model.rate is rate
    assert [each.n_recordings for each in (by_name, by_itself, by_attribute)] == [1, 3, 3]
    counted = dr.freeze(lambda x, n: x * n, dynamic=("n",))
    for n in np.arange(5):
        assert np.array_equal(counted(x, n), [4 * n, 5 * n])
    assert counted.n_recordings == 1


class Trainer:
    scale = 1.0

    def __init__(self) -> None:
        self.count, self.rate, self.x = 0, 0.5, Float(1, 2)

    def step(self, x: Any) -> Any:
        self.count += 1
        self.x = self.x * self.rate + x * self.count
        return self.x

    def __call__(self, x: Any) -> Any:
        return x * self.rate

    @property
    def doubled(self) -> float:
        return self.rate * 2

    def other(self, x: Any) -> Any:
        return x * self.doubled


KNOWN: dict[str, Any] = {
    "methods that count": lambda each: each.step,
    "properties of methods' objects": lambda each: each.other,
    "objects that are called": lambda each: each,
    "what was given before": lambda each: functools.partial(lambda one, x: x * one.rate, each),
    "what was given before by name": lambda each: functools.partial(lambda x, one: x * one.rate, one=each),
    "objects in objects": lambda each: functools.partial(
        lambda one, x: x * one.each.rate, types.SimpleNamespace(each=each)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_numbers_of_what_the_function_knows_itself_are_inputs(name: str) -> None:
    plain, other = Trainer(), Trainer()
    frozen, function = dr.freeze(KNOWN[name](other)), KNOWN[name](plain)
    for k in range(8):
        plain.rate = other.rate = 0.25 * k + 0.5
        x = Float(1, 2) + k
        assert np.allclose(frozen(x), function(x)) and plain.count == other.count
        assert type(other.count) is int and type(other.rate) is float
    assert frozen.n_recordings <= 4
    other.rate = "text"  # type: ignore[assignment]
    assert ".rate was a number, and is 'text'" in frozen.explain(x)


def test_numbers_in_modules_that_are_named_are_inputs() -> None:
    module = types.ModuleType("settings")
    module.scale, module.options = 1.0, {"offset": 0.5}  # type: ignore[attr-defined]
    frozen = dr.freeze(lambda x: x * module.scale + module.options["offset"])  # type: ignore[attr-defined]
    for k in range(10):
        module.scale, module.options["offset"] = 0.5 * k, 0.25 * k  # type: ignore[attr-defined]
        assert np.allclose(frozen(Float(1, 2)), np.array([1, 2]) * 0.5 * k + 0.25 * k)
    assert frozen.n_recordings == 3


def test_numbers_change_together_with_constants() -> None:
    """A state of one element that is a constant stays one, and each call has another value of it."""
    frozen = dr.freeze(lambda weights, rate: {name: value - rate * value for name, value in weights.items()})
    weights = {"a": Float(1, 2), "b": Float(3)}
    expected = {name: value.numpy() for name, value in weights.items()}
    for k in range(10):
        rate = 0.1 / (k + 1)
        weights = frozen(weights, rate)
        expected = {name: value - rate * value for name, value in expected.items()}
        for name, value in expected.items():
            assert np.allclose(weights[name], value)
    assert frozen.n_recordings <= 4


def test_numbers_that_are_equal_are_not_always_the_same() -> None:
    class Special(float):
        pass

    frozen = dr.freeze(lambda x, value: (dr.copysign(1, x * value), str(value)) if not isinstance(value, complex)
                       else dr.copysign(1, x * value.imag))
    x = Float(1, 2)
    for values in ((0.0, -0.0), (np.float64(0), np.float64(-0.0)), (np.float32(0), np.float32(-0.0)),
                   (Special(0), Special(-0.0)), (0j, complex(0, -0.0)),
                   (np.complex128(0), np.complex128(complex(0, -0.0)))):
        for value in (*values, *values):
            assert str(frozen(x, value)) == str(frozen.f(x, value)), repr(value)
    places = dr.freeze(lambda x, value: x * len(str(value)))
    for text in ("1.0", "1.00", "1.0"):
        assert np.array_equal(places(x, decimal.Decimal(text)), [len(text), 2 * len(text)])


@pytest.mark.parametrize("function", [
    lambda a, n: a * n + n - 1 / (n + a), lambda a, n: (a > n, n <= a, a == n, a != n), lambda a, n: a.__iadd__(n)])
def test_integers_beside_arrays_of_the_standard_are_inputs(function: Any) -> None:
    frozen = dr.freeze(function)
    for n in range(1, 9):
        first, second = (xp.asarray([1.0, 2.5, 4.0]) for _ in range(2))
        found, expected = frozen(first, n), function(second, n)
        assert np.allclose(np.asarray(found), np.asarray(expected), rtol=1e-14)  # a few roundings
        assert np.array_equal(np.asarray(first), np.asarray(second)) and (found is first) == (expected is second)
    assert frozen.n_recordings == 3
    small = dr.freeze(lambda a, n: a + n)
    for n in (1, 2, 3, 4, 5):
        assert np.array_equal(np.asarray(small(xp.asarray([1, 2], dtype=xp.uint8), n)), [1 + n, 2 + n])
    with pytest.raises(OverflowError, match=r"300 does not fit into uint8"):
        small(xp.asarray([1, 2], dtype=xp.uint8), 300)
    shaped = dr.freeze(lambda x, n: x + dr.full(TensorXf, n, (2, 2)))
    for n in range(8):
        assert np.array_equal(shaped(TensorXf(Float(1, 2, 3, 4), (2, 2)), n), np.array([[1, 2], [3, 4]]) + n)
    assert shaped.n_recordings == 3
