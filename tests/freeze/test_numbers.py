"""Numbers of objects that change from call to call: arrays take their places."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Float
from drjit.opt import SGD, Adam


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
