"""Frozen functions: forms, what counts as an input, what is done on replays, derivatives."""

from __future__ import annotations

import copy
import dataclasses
import decimal
import enum
import fractions
import functools
import gc
import inspect
import io
import itertools
import logging
import random
import threading
from collections import OrderedDict, UserDict, namedtuple
from types import SimpleNamespace

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Float as Plain
from drjit.llvm.ad import Array3f, Float, Float64, TensorXf, TensorXf64, UInt
from drjit_core import live_vertices


def counts(frozen):
    return frozen.n_recordings, frozen.n_cached_recordings


def values(array):
    return array.numpy().tolist()


class Whole(int):
    """A number with attributes."""


class Level(enum.IntEnum):
    LOW, HIGH = 2, 3


class Numbers(list):
    """A list with attributes."""


class Digits(set):
    """A set with attributes."""


def test_values_of_all_kinds_of_numbers_count():
    @dr.freeze
    def scaled(x, k):
        return x * float(k)

    for cls in (np.float64, np.int32, Whole, Level, decimal.Decimal, fractions.Fraction, type("Text", (str,), {})):
        for number in (2, 3, 2):
            assert values(scaled(Float(1, 2), cls(number))) == [number, 2 * number], cls


def test_attributes_that_only_libraries_ask_for():
    @dr.freeze
    def scaled(x, k):
        return x * k["factor"]

    for cls in (UserDict, type("Derived", (UserDict,), {})):
        for factor in (2, 3, 2):
            assert values(scaled(Float(1, 2), cls(factor=factor))) == [factor, 2 * factor], cls


def test_attributes_of_numbers():
    """Also of the same number, and of one that the function knows."""
    number = Whole(3)

    @dr.freeze
    def scaled(x, given):
        return x * given * given.factor + number.factor

    for factor in (1, 2, 2, 1, 1):
        number.factor = factor
        assert values(scaled(Float(1, 2), number)) == [4 * factor, 7 * factor]
        other = Whole(4)
        other.factor = Float(1, factor)
        assert values(scaled(Float(1, 2), other)) == [4 + factor, 8 * factor + factor]


def test_what_has_a_content_and_attributes():
    @dr.freeze
    def scaled(x, k):
        k.count = k.count + 1
        return x * sum(k) * k.factor

    for cls in (Numbers, Digits):
        for entries, factor in (([1, 2], 1), ([3, 2], 1), ([3, 2], 4), ([3, 2], 4), ([1, 2], 1)):
            given = cls(entries)
            given.factor, given.count = factor, Float(0, 1)
            assert values(scaled(Float(1, 2), given)) == [sum(entries) * factor, 2 * sum(entries) * factor], cls
            assert values(given.count) == [1, 2]
            assert sorted(given) == sorted(entries)


# --- forms -----------------------------------------------------------------------------------------------------------


def test_forms_and_attributes():
    def add(x, y=1):
        """Adds."""
        return x + y

    for frozen in (dr.freeze(add), dr.freeze()(add), dr.freeze(limit=3)(add), dr.freeze(add, warn_after=2)):
        assert values(frozen(Float(1, 2))) == [2, 3] == values(frozen(Float(1, 2), y=1))
        assert (frozen.__name__, frozen.__doc__, frozen.__wrapped__) == ("add", "Adds.", add)
        assert inspect.signature(frozen) == inspect.signature(add)
        assert frozen.f is add
        assert frozen.enabled
        assert copy.copy(frozen) is frozen
        with pytest.raises(AttributeError):
            frozen.n_recordings = 3
        frozen.clear()
        assert counts(frozen) == (0, 0)


def test_any_callable_can_be_frozen():
    class Scale:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x * self.k

    scale = Scale(2)
    for function in (scale, functools.partial(lambda a, x: a * x, 2), scale.__call__, dr.freeze(lambda x: x * 2)):
        frozen = dr.freeze(function)
        assert values(frozen(Float(1, 2))) == [2, 4] == values(frozen(Float(1, 2)))
    frozen = dr.freeze(scale)
    frozen(Float(1, 2))
    scale.k = 5
    assert values(frozen(Float(1, 2))) == [5, 10]
    assert values(dr.freeze(dr.sin)(Float(0, 0))) == [0, 0]


def test_methods_share_recordings():
    class Model:
        k = 1.0

        @dr.freeze
        def plus(self, x):
            """Adds k."""
            return x + self.k

        @staticmethod
        @dr.freeze
        def double(x):
            return x * 2

        @classmethod
        @dr.freeze
        def name(cls, x):
            return x + cls.k

        @dr.freeze
        @staticmethod
        def triple(x):
            return x * 3

    one, two = Model(), Model()
    two.k = 2.0
    assert values(one.plus(Float(1, 2))) == [2, 3]
    assert values(two.plus(Float(1, 2))) == [3, 4]
    assert values(one.plus(Float(1, 2))) == [2, 3]
    assert one.plus.n_recordings == two.plus.n_recordings == Model.plus.n_recordings == 2
    assert (one.plus.__name__, one.plus.__doc__) == ("plus", "Adds k.")
    one.plus.enabled = False
    assert not Model.plus.enabled
    for _ in range(2):
        assert values(one.double(Float(1, 2))) == [2, 4]
        assert values(Model.name(Float(1, 2))) == [2, 3]
        assert values(one.triple(Float(1, 2))) == [3, 6]


@pytest.mark.parametrize("options", [{"limit": "a"}, {"warn_after": -1}, {"backend": 3}, {"auto_opaque": 1},
                                     {"state_fn": 3}, {"enabled": None}])
def test_wrong_options_are_refused(options):
    with pytest.raises(TypeError):
        dr.freeze(lambda x: x, **options)


def test_what_computes_nothing_when_called_is_refused():
    async def later(x):
        return x

    def one_by_one(x):
        yield x

    for function in (later, one_by_one, 3):
        with pytest.raises(TypeError):
            dr.freeze(function)


def test_plain_calls():
    frozen = dr.freeze(lambda x: x + 1, limit=0)
    frozen(Float(1, 2))
    assert counts(frozen) == (0, 0)
    frozen = dr.freeze(lambda x: x + 1, enabled=False)
    frozen(Float(1, 2))
    assert counts(frozen) == (0, 0)
    frozen.enabled = True
    with dr.scoped_set_flag(dr.JitFlag.KernelFreezing, False):
        frozen(Float(1, 2))
    assert counts(frozen) == (0, 0)
    outer = dr.freeze(lambda x: frozen(x) * 2)
    assert values(outer(Float(1, 2))) == [4, 6] == values(outer(Float(1, 2)))
    assert counts(frozen) == (0, 0)
    assert counts(outer) == (1, 1)


def test_the_flag_is_set_while_recording():
    seen = []
    frozen = dr.freeze(lambda x: (seen.append(dr.flag(dr.JitFlag.FreezingScope)), x)[1])
    frozen(Float(1, 2))
    assert seen == [True]
    frozen(Float(1, 2))
    assert seen == [True, True]  # what the function did to the list is done again


def test_backend():
    frozen = dr.freeze(lambda k: k)
    with pytest.raises(RuntimeError, match="no arrays"):
        frozen(1)
    frozen = dr.freeze(lambda x: x + 1, backend=dr.JitBackend.CUDA)
    with pytest.raises(RuntimeError):
        frozen(Float(1, 2))
    frozen = dr.freeze(lambda: dr.arange(Float, 4) + 1, backend=dr.JitBackend.LLVM)
    for _ in range(2):
        assert values(frozen()) == [1, 2, 3, 4]


# --- what is an input ------------------------------------------------------------------------------------------------


def test_numbers_and_texts_are_part_of_the_key():
    frozen = dr.freeze(lambda x, k: x * float(k))
    for k in (1, 1.0, True, 2, 1, "3", 2):
        assert values(frozen(Float(1, 2), k)) == [float(k), 2 * float(k)]
    assert counts(frozen) == (5, 5)


def test_dynamic_numbers_are_no_part_of_the_key():
    frozen = dr.freeze(lambda x, rate, k=1: x * rate + k, dynamic=("rate",))
    for rate in (0.5, 2, 3.0):
        assert values(frozen(Float(1, 2), rate)) == [rate + 1, 2 * rate + 1] == values(frozen(Float(1, 2), rate=rate))
        assert type(frozen(Float64(1, 2), rate)) is Float64
    assert counts(frozen) == (2, 2)
    for names in ("rate", ("other",), (1,)):
        with pytest.raises(TypeError):
            dr.freeze(lambda x, rate: x, dynamic=names)


def test_default_values_are_inputs():
    def add(x, y=Float(1, 2)):  # noqa: B008
        return x + y

    frozen = dr.freeze(add)
    assert values(frozen(Float(1, 2))) == [2, 4]
    add.__defaults__[0][:] = Float(5, 5)
    assert values(frozen(Float(1, 2))) == [6, 7]
    assert counts(frozen) == (1, 1)


def test_closures_attributes_and_helpers_are_watched():
    class Settings:
        a, b = 1, 7

    k, config, table, weights = 1, Settings(), {"x": 1}, Float(1, 2)

    def helper(x):
        return x * config.a

    @dr.freeze
    def f(x):
        return helper(x) + k + table["x"] + weights

    def expected(x):
        return (x * config.a + k + table["x"] + weights).numpy().tolist()

    x = Float(1, 2)
    assert values(f(x)) == expected(x)
    config.b = 8  # which nobody reads
    assert values(f(x)) == expected(x)
    assert counts(f) == (1, 1)
    config.a = 3
    assert values(f(x)) == expected(x)
    k = 5
    assert values(f(x)) == expected(x)
    table["x"] = 4
    assert values(f(x)) == expected(x)
    assert f.n_recordings == 4
    weights = Float(7, 8)
    assert values(f(x)) == expected(x)
    weights += 1
    assert values(f(x)) == expected(x)
    assert f.n_recordings == 4


MODULE_LEVEL = 2.0


def _reads_global(x):
    return x * MODULE_LEVEL


def test_globals_of_helpers_are_watched():
    global MODULE_LEVEL
    frozen = dr.freeze(lambda x: _reads_global(x) + 1)
    assert values(frozen(Float(1, 2))) == [3, 5]
    MODULE_LEVEL = 3.0
    try:
        assert values(frozen(Float(1, 2))) == [4, 7]
    finally:
        MODULE_LEVEL = 2.0
    assert counts(frozen) == (2, 2)


def test_nonlocal_variables_are_rebound_on_replays():
    total = Float(0, 0)

    @dr.freeze
    def f(x):
        nonlocal total
        total = total + x

    for step in range(1, 4):
        f(Float(1, 2))
        assert values(total) == [step, 2 * step]


def test_state_fn():
    class Holder:
        __slots__ = ("hidden",)

    holder = Holder()
    holder.hidden = Float(1, 2)
    frozen = dr.freeze(lambda h, x: x + h.hidden, state_fn=lambda h, x: h.hidden)
    for k in range(3):
        holder.hidden = Float(k, k)
        assert values(frozen(holder, Float(1, 2))) == [1 + k, 2 + k]
    assert counts(frozen) == (1, 1)


def test_types_of_containers_are_kept():
    Pair = namedtuple("Pair", "a b")

    @dataclasses.dataclass
    class Point:
        x: Float
        y: Float

    @dr.freeze
    def f(pair, table, point):
        return (Pair(pair.b, pair.a + 1), OrderedDict(reversed(list(table.items()))), Point(point.y, point.x * 2),
                None, 3, "text", [pair.a, pair.a], pair)

    for k in range(3):
        pair, point = Pair(Float(1, k), Float(3, 4)), Point(Float(5, 6), Float(7, k))
        result = f(pair, OrderedDict(a=Float(1, 2), b=Float(3, k)), point)
        assert type(result[0]) is Pair
        assert values(result[0].b) == [2, k + 1]
        assert type(result[1]) is OrderedDict
        assert list(result[1]) == ["b", "a"]
        assert type(result[2]) is Point
        assert values(result[2].y) == [10, 12]
        assert result[3:6] == (None, 3, "text")
        assert result[6][0] is pair.a is result[6][1]
        assert result[7] is pair
    assert counts(f) == (1, 1)


def test_aliases_are_keys():
    frozen = dr.freeze(lambda a, b: a + b)
    a, b = Float(1, 2), Float(3, 4)
    for first, second, total in ((a, a, [2, 4]), (a, b, [4, 6]), (a, Float(a), [2, 4]), (a, a, [2, 4]), (b, a, [4, 6])):
        assert values(frozen(first, second)) == total
    assert counts(frozen) == (3, 3)


def test_an_array_that_is_a_key_may_become_another_kind():
    frozen = dr.freeze(lambda x, k: x * k)
    x = Float(1, 2)
    for k in (2, dr.opaque(Float, 3), 2, Float64(2, 3), Float(4, 5), Array3f(1, 2, 3)):
        expected = x * k
        assert dr.allclose(frozen(x, k), expected)
    assert counts(frozen) == (5, 5)


def test_cycles_in_arguments():
    entries = [Float(1, 2)]
    entries.append(entries)
    frozen = dr.freeze(lambda e: e[1][1][0] + 1)
    for _ in range(2):
        assert values(frozen(entries)) == [2, 3]
    assert counts(frozen) == (1, 1)


def test_literals():
    frozen = dr.freeze(lambda x, k: x + k)
    found = []
    for k in (1, 1, 2, 3, 3):
        assert values(frozen(Float(1, 2), Float(k))) == [1 + k, 2 + k]
        found.append(frozen.n_recordings)
    assert found == [1, 1, 2, 2, 2]
    frozen = dr.freeze(lambda x, k: x + k, auto_opaque=False)
    for k in (1, 2, 3):
        literal = Float(k)
        assert values(frozen(Float(1, 2), literal)) == [1 + k, 2 + k]
        assert literal.state == dr.VarState.Evaluated
    assert counts(frozen) == (1, 1)


def test_inputs_are_evaluated():
    x = Float(1, 2) + 1
    dr.freeze(lambda x: x + 1)(x)
    assert x.state == dr.VarState.Evaluated


# --- what the body does ----------------------------------------------------------------------------------------------


def test_changes_of_arguments_are_repeated():
    @dr.freeze
    def f(x, table, entries, state):
        before = Float(x)
        x += 1
        dr.scatter(state.buffer, Float(9), UInt(0))
        table["new"] = x * 2
        table.pop("old", None)
        entries[0] = before
        entries.pop()
        entries.pop()
        entries.append(x + 5)
        state.n = 3
        state.kept = x
        return before

    def plain(x, table, entries, state):
        return f.f(x, table, entries, state)

    for k in range(3):
        made = []
        for function in (f, plain):
            x, state = Float(k, 2), SimpleNamespace(buffer=Float(1, 2, 3), n=0)
            copy_, table, entries = Float(x), {"old": 1, "a": Float(1, 2)}, [1, 2, 3]
            other = state.buffer
            result = function(x, table, entries, state)
            assert state.buffer is other
            assert state.kept is x
            assert values(copy_) == [k, 2]
            made.append((values(x), values(state.buffer), list(table), values(table["new"]), values(entries[0]),
                         len(entries), values(entries[1]), state.n, values(result)))
        assert made[0] == made[1]
    assert counts(f) == (1, 1)


def test_scatters_into_closures():
    target, again = Float(0, 0, 0), dr.zeros(Float, 3)

    @dr.freeze
    def f(i):
        dr.scatter_add(target, Float(1), i)
        dr.scatter_add(again, Float(1), i)

    for k in range(3):
        f(UInt(k))
    f(UInt(0))
    assert values(target) == [2, 1, 1] == values(again)


def test_loops_branches_and_calls():
    @dr.freeze
    @dr.syntax
    def f(x, n):
        i = UInt(0)
        while i < n:
            x = x * 2
            i += 1
        if x > 10:
            x = -x
        return dr.switch(UInt(n) % 2, [lambda v: v + 1, lambda v: v + 2], x)

    for n in ([1, 2], [3, 0], [5, 1, 2]):
        x = dr.arange(Float, len(n)) + 1
        expected = f.f(Float(x), UInt(n))
        assert dr.allclose(f(x, UInt(n)), expected)
    assert counts(f) == (1, 1)


def test_reads_by_the_host_are_refused():
    for function in (lambda x: x[0], lambda x: float(dr.sum(x)), str, lambda x: x.numpy(), list):
        frozen = dr.freeze(lambda x, function=function: function(x))
        x = Float(1, 2)
        with pytest.raises(RuntimeError, match="recorded"):
            frozen(x)
        assert frozen.n_cached_recordings == 0
        assert values(x) == [1, 2]
    assert not dr.flag(dr.JitFlag.FreezingScope)


def test_exceptions_of_the_body():
    calls = []

    @dr.freeze
    def f(x, fail):
        calls.append(1)
        x += 1
        if fail:
            raise KeyError("mine")
        return x

    x = Float(1, 2)
    with pytest.raises(KeyError, match="mine") as caught:
        f(x, True)
    assert isinstance(caught.value, RuntimeError)
    assert any("recorded" in note for note in caught.value.__notes__)
    assert values(x) == [1, 2]
    assert calls == []
    assert counts(f) == (1, 0)
    assert values(f(x, False)) == [2, 3]


def test_inside_constructs_the_body_is_traced():
    frozen = dr.freeze(lambda x: x + 1)

    @dr.syntax
    def f(x, n):
        i = UInt(0)
        while i < n:
            x = frozen(x)
            i += 1
        return x

    assert values(f(Float(0, 0), UInt(2, 3))) == [2, 3]
    assert counts(frozen) == (0, 0)


# --- sizes -----------------------------------------------------------------------------------------------------------

BY_SIZE = {
    "elementwise": lambda x: x * 2 + dr.sin(x), "sum": dr.sum, "mean": dr.mean, "min": dr.min, "max": dr.max,
    "prod": dr.prod, "dot": lambda x: dr.dot(x, x), "norm": dr.norm, "cumsum": dr.cumsum, "prefix": dr.prefix_sum,
    "sort": dr.sort, "argsort": dr.argsort, "argmax": dr.argmax, "repeat": lambda x: dr.repeat(x, 2),
    "any": lambda x: dr.any(x > 3), "all": lambda x: dr.all(x > 0), "none": lambda x: dr.none(x > 3), "var": dr.var,
    "std": dr.std, "median": dr.median, "reverse": dr.reverse, "tile": lambda x: dr.tile(x, 2),
    "concat": lambda x: dr.concat([x, x + 1]), "ravel": lambda x: dr.ravel(Array3f(x, 1, 2)),
    "roll": lambda x: dr.gather(Float, x, (dr.arange(UInt, dr.width(x)) + 1) % dr.width(x)),
    "zeros": lambda x: dr.zeros(Float, dr.width(x)), "len": lambda x: (len(x), x.shape, dr.width(x)),
    "factor": lambda x: x * len(x), "arange": lambda x: dr.arange(Float, dr.width(x)), "slice": lambda x: x[:5],
    "steps": lambda x: x[::2], "last": lambda x: x[-2:], "opaque": lambda x: x / dr.opaque_width(x),
    "count": lambda x: dr.count(x > 2), "linspace": lambda x: dr.linspace(Float, 0, 1, dr.width(x)),
    "reshape": lambda x: dr.reshape(TensorXf, x, (-1, 1)), "nested": lambda x: dr.sum(Array3f(x, 2, 3)),
    "scatter": lambda x: _scattered(x), "shape": lambda x: 1 if len(x) > 5 else 2,
    "outer": lambda x: TensorXf(x)[:, None] * TensorXf(x)[None, :], "block": lambda x: dr.block_sum(x, 1),
}


def _scattered(x):
    found = dr.zeros(Float, dr.width(x))
    dr.scatter_add(found, x, dr.arange(UInt, dr.width(x)) // 2)
    return found


@pytest.mark.parametrize("name", BY_SIZE)
def test_right_at_every_size(name):
    function = BY_SIZE[name]
    frozen = dr.freeze(function)
    for size in (3, 4, 4, 7, 9, 1, 2, 300, 5, 3):
        x = Float([(k * 7 + 3) % 11 for k in range(size)])
        try:
            expected = function(Float(x))
        except RuntimeError as error:
            with pytest.raises(type(error)):
                frozen(x)
            continue
        _same(frozen(x), expected)


BY_SHAPE = {
    "sum0": lambda t: dr.sum(t, axis=0), "sum1": lambda t: dr.sum(t, axis=1), "row": lambda t: t[0],
    "column": lambda t: t[:, 1], "transpose": lambda t: dr.transpose(t),
    "flat": lambda t: dr.reshape(TensorXf, t, (-1,)),
    "concat": lambda t: dr.concat([t, t], axis=0), "cumsum": lambda t: dr.cumsum(t, axis=0), "array": lambda t: t.array,
    "matmul": lambda t: t @ dr.transpose(t), "shape": lambda t: t.shape, "elementwise": lambda t: t * 2 + 1,
    "mean": lambda t: dr.mean(t, axis=0), "large": lambda t: 1 if t.shape[0] > 3 else 0,
}


@pytest.mark.parametrize("name", BY_SHAPE)
def test_right_at_every_shape(name):
    function = BY_SHAPE[name]
    frozen = dr.freeze(function)
    for shape in ((2, 3), (3, 2), (4, 3), (2, 3), (1, 2), (5, 2)):
        count = shape[0] * shape[1]
        t = TensorXf(dr.arange(Float, count) * 1.5 + dr.opaque(Float, 0, count), shape=shape)
        _same(frozen(t), function(t))


def _same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            _same(one, other)
    elif isinstance(expected, dr.ArrayBase):
        assert found.shape == expected.shape
        assert dr.allclose(found, expected)
    else:
        assert found == expected


def test_widths_do_not_record_again():
    frozen = dr.freeze(lambda x, y: (x * y + 1, dr.sum(x)))
    for size in (2, 3, 100, 5000, 7):
        x = dr.arange(Float, size) + dr.opaque(Float, 1)
        found = frozen(x, x + 1)
        assert dr.allclose(found[0], x * (x + 1) + 1)
    assert counts(frozen) == (1, 1)
    frozen(Float(3) + dr.opaque(Float, 1), Float(1, 2))
    assert counts(frozen) == (2, 2)


_PICKED = {
    "positions": lambda x: dr.compress(x > 1),
    "chosen": lambda x: dr.gather(Float, x, dr.compress(x > 1)) * 2,
    "used as a number": lambda x: x + dr.width(dr.compress(x > 1)),
    "twice": lambda x: (lambda y: dr.gather(Float, y, dr.compress(y > 3)))(dr.gather(Float, x, dr.compress(x > 1)) * 2),
    "reversed": lambda x: dr.reverse(dr.gather(Float, x, dr.compress(x > 1))),
    "counted": lambda x: dr.arange(Float, dr.width(dr.compress(x > 1))),
}


@pytest.mark.parametrize("name", _PICKED)
def test_sizes_that_follow_from_contents(name):
    function = _PICKED[name]
    frozen = dr.freeze(function)
    for contents in ((1, 2, 3), (3, 2, 1, 5), (4, 4), (0, 0, 0), (1, 0, 0), (5, 5, 5, 5, 0, 5), (9, 9, 0), (9, 9, 7),
                     (0, 3, 0, 0), (2,)):
        _same(frozen(Float(contents)), function(Float(contents)))


def test_contents_do_not_record_again():
    """Neither other numbers of elements, nor more of them than are counted at once."""
    frozen = dr.freeze(lambda x: dr.sum(dr.gather(Float, x, dr.compress(x > 3))))
    source = random.Random(0)
    for size in (20000, 20000, 30000, 50000):
        x = Float([source.randint(0, 9) for _ in range(size)])
        _same(frozen(x), frozen.f(x))
    assert frozen.n_recordings == 1


def test_derivatives_of_chosen_elements():
    frozen = dr.freeze(lambda x: dr.square(dr.gather(Float, x, dr.compress(x > 1))))
    for contents in ((1, 2, 3), (3, 0, 4), (3, 2, 4), (5, 6, 0, 9), (0, 0, 0), (2, 0, 0)):
        x = Float(contents)
        dr.enable_grad(x)
        y = frozen(x)
        if dr.grad_enabled(y):
            dr.backward(y)
        assert x.grad.numpy().tolist() == [2 * k if k > 1 else 0 for k in contents]


def test_arrays_without_elements():
    frozen = dr.freeze(lambda x: (x + 1, dr.sum(x)))
    for x in (Float(), Float(1, 2), Float()):
        _same(frozen(x), frozen.f(x))
    assert counts(frozen) == (2, 2)


# --- derivatives -----------------------------------------------------------------------------------------------------


def test_derivatives_flow_through_the_call():
    frozen = dr.freeze(lambda x, k: (dr.sin(x) * x * k, x + k))
    for step, size in enumerate((3, 3, 5, 2)):
        grads = []
        for function in (frozen, frozen.f):
            x, k = dr.arange(Float, size) + step, Float(2) + dr.opaque(Float, step)
            dr.enable_grad(x, k)
            y, z = function(x * 2, k)
            assert dr.grad_enabled(y, z)
            dr.backward(y * 3 + z)
            grads.append((x.grad, k.grad))
        _same(*grads)
    assert frozen.n_recordings == 1


def test_derivatives_flow_forward():
    frozen = dr.freeze(lambda x: dr.exp(x) * x)
    for _ in range(2):
        x = Float(1, 2, 3)
        dr.enable_grad(x)
        y = frozen(x)
        dr.forward(x)
        assert dr.allclose(y.grad, dr.exp(dr.detach(x)) * (1 + dr.detach(x)))


def test_derivatives_of_results_that_others_are_computed_of():
    def chain(x):
        y = x * x
        return y, y * 2, dr.sum(y)

    frozen = dr.freeze(chain)
    for _ in range(3):
        found = []
        for function in (chain, frozen):
            x = Float(1, 2, 3)
            dr.enable_grad(x)
            results = [each * 5 for each in function(x)]
            dr.forward(x)
            found.append([dr.grad(each).numpy().tolist() for each in results])
        assert found[0] == found[1] == [[10, 20, 30], [20, 40, 60], [60]]


def test_results_with_one_vertex_have_one_afterwards():
    """Gradients of the one are those of the other, and what the body makes itself is as much the same."""
    def parts(x):
        y, z = x * 2, Float(5, 6)
        dr.enable_grad(z)
        return y, Array3f(y, 1, 2), z, Float(z)

    for function in (dr.freeze(parts), parts):
        for _ in range(2):
            x = Float(1, 2, 3)
            dr.enable_grad(x)
            y, v, z, other = function(x)
            dr.set_grad(y, 1)
            dr.set_grad(v.x, 10)
            dr.set_grad(z, 4)
            assert dr.all(y.grad == 10) and dr.all(other.grad == 4)
            dr.enqueue(dr.ADMode.Backward, y)
            dr.traverse(dr.ADMode.Backward)
            assert dr.all(x.grad == 20)


def test_derivatives_of_what_is_constant():
    """All arrays are constants, and none is an argument of the recording."""
    frozen = dr.freeze(lambda x: x * x)
    for _ in range(2):
        x = Array3f(1, 2, 3)
        dr.enable_grad(x)
        dr.backward(frozen(x))
        assert dr.all(x.grad == Array3f(2, 4, 6), axis=None)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("rows", [3, 40])
def test_derivatives_of_equal_extremes(rows, axis):
    def extreme(t):
        return dr.max(t, axis=axis)

    for frozen in (False, True):
        t = TensorXf(Float([2, 2, 1] * rows), shape=(rows, 3))
        dr.enable_grad(t)
        dr.backward((dr.freeze(extreme) if frozen else extreme)(t))
        found = t.grad.numpy()
        assert (found == (1 if axis == 0 else [[1, 1, 0]])).all()


def test_blocks_may_be_incomplete():
    frozen = dr.freeze(lambda x: dr.block_prefix_sum(x, 3))
    for size in (6, 8, 8, 9, 7):
        grads = []
        for function in (frozen, frozen.f):
            x = dr.arange(Float, size) + 1
            dr.enable_grad(x)
            y = function(x)
            dr.backward(y * dr.arange(Float, size))
            grads.append((dr.detach(y), x.grad))
        _same(*grads)
    assert frozen.n_recordings == 1


def test_derivatives_of_higher_order():
    """Those of the function, which is traced again for them, whatever is in the place of its arguments by then."""
    def smooth(x, y):
        x *= 2
        return dr.sin(x) * y["y"] * x, dr.exp(x * 0.1)

    def third(function):
        def first(x):
            return dr.sum(dr.value_and_grad(lambda z: dr.sum(function(z, {"y": z})[0]))(x)[1])

        def second(x):
            return dr.sum(dr.value_and_grad(first)(x)[1])
        return lambda x: dr.value_and_grad(second)(x)[1]

    def product(function):
        return lambda x: dr.hvp(lambda x, y: sum(map(dr.sum, function(x + 0, {"y": y}))), (x, x * x),
                                (Float(1, -1, 0.5), Float(1, 2, 3)))[1]

    frozen = dr.freeze(smooth)
    for _ in range(3):
        for ask in (product, third):
            for one, other in zip(ask(frozen)(Float(0.5, 1, 2)), ask(smooth)(Float(0.5, 1, 2)), strict=True):
                assert dr.allclose(one, other, 1e-4, 1e-4)
    assert frozen.n_recordings <= 3


def test_derivatives_of_higher_order_are_refused():
    state = {"k": 2}

    class Box:
        def __init__(self, x):
            self.x = x

    def grows(x):
        state["k"] += 1
        return x * x * state["k"]

    def differentiates(x):
        dr.backward(x * x)
        return dr.exp(x)

    squared = dr.freeze(lambda box: box.x * box.x)
    for function, words in ((dr.freeze(grows), "has changed after"),
                            (dr.freeze(differentiates), "changes their gradients"),
                            (lambda x: squared(Box(x)), "type Box")):
        with pytest.raises(RuntimeError, match=words):
            dr.hvp(lambda x, f=function: dr.sum(f(x)), Float(1, 2), Float(1, 1))


def test_custom_operations_need_only_what_is_used():
    class Square(dr.CustomOp):
        def eval(self, x):
            self.x = x
            return x * x

        def backward(self):
            self.set_grad_in("x", 2 * self.x * self.grad_out())

    frozen = dr.freeze(lambda x: dr.custom(Square, x) + 1)
    for k in range(2):
        x = Float(1, 2 + k)
        dr.enable_grad(x)
        dr.backward(frozen(x))
        assert values(x.grad) == [2, 4 + 2 * k]
    y = frozen(x)
    with pytest.raises(RuntimeError, match="forward"):
        dr.forward_from(x)
    del y


def test_textures_are_inputs():
    from drjit.llvm.ad import Array2f, Texture2f

    def data(k, n=4):
        return TensorXf(dr.arange(Float, n * n) * k, (n, n, 1))

    texture, p = Texture2f(data(1)), Array2f(Float(0.1, 0.2, 0.9), Float(0.5))
    known, given = dr.freeze(lambda p: texture.eval(p)[0]), dr.freeze(lambda t, p: t.eval(p)[0])
    for k in range(2, 6):
        texture.set_tensor(data(k))
        assert values(known(p)) == values(given(texture, p)) == values(texture.eval(p)[0])
    assert counts(known) == counts(given) == (1, 1)
    other = Texture2f(data(2, 5))
    assert values(given(other, p)) == values(other.eval(p)[0])

    @dr.freeze
    def write(texture, x):
        texture.set_value(x)
        return texture.eval(p)[0]

    for k in range(3):
        x = dr.arange(Float, 16) + k
        assert values(write(texture, x)) == values(texture.eval(p)[0]) == values(Texture2f(
            TensorXf(x, (4, 4, 1))).eval(p)[0])


def test_scalers_of_gradients():
    from drjit.llvm.ad import Float16
    from drjit.opt import SGD, GradScaler

    def run(wrap):
        opt, scaler = SGD(lr=0.25, params={"x": Float16(3, 1)}), GradScaler(init_scale=2.0**15, growth_interval=2)

        def step(opt, factor):
            loss = dr.sum(opt["x"] * opt["x"] * factor)
            dr.backward(scaler.scale(loss))
            scaler.step(opt)
            return scaler.scale(Float(1))

        step = wrap(step)
        return [(values(step(opt, Float16(k % 5))), values(opt["x"])) for k in range(12)], step

    (found, frozen), (expected, _) = run(dr.freeze), run(lambda f: f)
    assert found == expected
    assert len({str(scale) for scale, _ in found}) > 2
    assert frozen.n_recordings < 12


def test_gradients_are_part_of_the_key():
    frozen = dr.freeze(lambda x: x * x)
    x = Float(1, 2)
    frozen(x)
    dr.enable_grad(x)
    assert dr.grad_enabled(frozen(x))
    with dr.suspend_grad():
        assert not dr.grad_enabled(frozen(x))
    assert dr.grad_enabled(frozen(x))
    assert not dr.grad_enabled(frozen(dr.detach(x)))


@pytest.mark.parametrize("through", [False, True])
def test_calls_that_are_differentiated_leave_nothing_behind(through):
    frozen = dr.freeze(lambda x, y: (dr.sum(x * y), dr.sin(x)))

    def step():
        x, y = Float(1, 2, 3), Float(3, 2, 1)
        dr.enable_grad(x, y)
        value, _ = frozen(x, y)
        if through:
            dr.backward(value)

    step()
    gc.collect()
    before = len(live_vertices())
    for _ in range(10):
        step()
    gc.collect()
    assert len(live_vertices()) == before


def test_backward_in_the_body():
    @dr.freeze
    def f(x):
        dr.backward(x * x)

    x = Float(1, 2)
    dr.enable_grad(x)
    z = x * 3
    f(z)
    assert values(x.grad) == [18, 36]
    y = Float(1, 2)
    dr.enable_grad(y)
    for k in range(1, 4):
        f(y)
        assert values(y.grad) == [2 * k, 4 * k]

    @dr.freeze
    def g(x):
        dr.enable_grad(x)
        dr.backward(x * x)
        return dr.grad(x)

    for _ in range(2):
        x = Float(1, 2)
        assert values(g(x)) == [2, 4]
        assert dr.grad_enabled(x)
        assert values(x.grad) == [2, 4]


def test_gradients_of_inputs_are_read_and_written():
    @dr.freeze
    def f(x):
        found = dr.grad(x)
        dr.set_grad(x, found * 2)
        return found

    x = Float(1, 2)
    dr.enable_grad(x)
    x.grad = Float(3, 4)
    assert values(f(x)) == [3, 4]
    assert values(f(x)) == [6, 8]
    assert values(x.grad) == [12, 16]


@pytest.mark.parametrize("make", [lambda o: o.SGD(lr=0.1), lambda o: o.SGD(lr=0.1, momentum=0.9),
                                  lambda o: o.Adam(lr=0.1), lambda o: o.RMSProp(lr=0.1)])
def test_optimizers(make):
    import drjit.opt as opt
    found = []
    for freeze in (True, False):
        optimizer = make(opt)
        optimizer["x"] = Float(1, 2, 3)
        target = Float(3, 2, 1)

        def step(optimizer, target):
            loss = dr.mean(dr.square(optimizer["x"] - target))
            dr.backward(loss)
            optimizer.step()
            return loss

        function = dr.freeze(step) if freeze else step
        losses = [function(optimizer, target).numpy().tolist() for _ in range(6)]
        if freeze:
            assert function.n_recordings <= 3
        found.append((losses, optimizer["x"]))
    assert dr.allclose(Plain(found[0][1]), Plain(found[1][1]))


@pytest.mark.parametrize("make", [lambda o: o.SGD(lr=1e-4, momentum=0.9), lambda o: o.Adam(lr=1e-4)])
def test_half_precision_of_parameters_adds_up_small_steps(make):
    """Parameters are kept in single precision; programs see them rounded, and a step must not see that."""
    import drjit.opt as opt
    from drjit.llvm.ad import Float16
    found = []
    for freeze in (dr.freeze, lambda function: function):
        optimizer = make(opt)
        optimizer["x"] = Float16(1, 2, 3)

        def step(optimizer, target):
            dr.backward(dr.sum(dr.square(optimizer["x"] - target)))
            optimizer.step()

        step = freeze(step)
        for _ in range(10):
            step(optimizer, Float16(0, 0, 1))
        found.append(optimizer.state["x"][0].numpy())
    assert (found[0] == found[1]).all() and (found[0] < np.float32([0.9995, 1.9995, 2.9995])).all()


@pytest.mark.parametrize("half", [False, True])
def test_assigned_parameters_are_those_of_each_optimizer(half):
    import drjit.opt as opt
    from drjit.llvm.ad import Float16
    cls = Float16 if half else Float

    def run(freeze):
        optimizers = [opt.SGD(lr=0.25, params={"x": cls(k, 3)}) for k in range(2)]

        def step(optimizer):
            dr.backward(dr.sum(dr.square(optimizer["x"])))
            optimizer.step()
            optimizer["x"] = optimizer["x"] + cls(1 / 3)

        step = freeze(step)
        for _ in range(3):
            for optimizer in optimizers:
                step(optimizer)
        return [optimizer.state["x"][0].numpy().tolist() for optimizer in optimizers]

    assert run(dr.freeze) == run(lambda function: function)


def test_parameters_that_calls_would_share_are_refused():
    from drjit.opt import SGD

    @dr.freeze
    def add(optimizer, x):
        optimizer["x"] = x

    @dr.freeze
    def make(x):
        return SGD(lr=1, params={"x": x})

    for call in (lambda: add(SGD(lr=1), Float(1, 2)), lambda: make(Float(1, 2))):
        with pytest.raises(RuntimeError, match=r"makes a parameter of an optimiser.*Make it before the call"):
            call()


# --- limit, warnings, threads ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "recordings"), [(None, 3), (-1, 3), (2, 4), (1, 5), (0, 0)])
def test_limit(limit, recordings):
    frozen = dr.freeze(lambda x, p: x + p, limit=limit, dynamic=None)
    for p in (0, 1, 2, 1, 0, 0):
        assert values(frozen(Float(1, 2), p)) == [1 + p, 2 + p]
    assert frozen.n_recordings == recordings
    if limit is not None and limit > 0:
        assert frozen.n_cached_recordings == limit


def test_warnings_name_what_changed(caplog):
    frozen = dr.freeze(lambda x, settings: x * settings["lr"], warn_after=1)
    with caplog.at_level(logging.WARNING, logger="drjit"):
        frozen(Float(1, 2), {"lr": 0.5})
        assert not caplog.records
        frozen(Float(1, 2), {"lr": 0.25})
    (record,) = caplog.records
    assert "args[1]['lr']" in record.getMessage()
    assert "0.5" in record.getMessage()
    assert "0.25" in record.getMessage()


def test_threads():
    frozen = dr.freeze(lambda x, k: x * k + 1)
    failures = []

    def work(number):
        try:
            for k in range(20):
                x = dr.arange(Float, 4) + number
                dr.eval(x)
                assert values(frozen(x, k % 3)) == [(i + number) * (k % 3) + 1 for i in range(4)]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert frozen.n_cached_recordings >= 3


def test_replays_do_not_grow():
    frozen = dr.freeze(lambda x, y: x * y + 1)
    x = Float(1, 2)
    for _ in range(10):
        frozen(x, x)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(500):
        frozen(x, x)
    gc.collect()
    assert len(gc.get_objects()) - before < 100


def test_random_numbers():
    found = []
    for freeze in (True, False):
        rng = dr.rng(seed=3)
        function = dr.freeze(lambda r, x: r.random(Float, 4) + x) if freeze else (lambda r, x: r.random(Float, 4) + x)
        found.append([values(function(rng, Float(1, 2, 3, 4))) for _ in range(4)])
    assert found[0] == found[1]



# --- what is printed, and asserted -----------------------------------------------------------------------------------


def test_prints_are_repeated(capsys):
    @dr.freeze
    def f(x, k, file=None):
        y = x * k
        dr.print("{} of {}", y, k, active=y > 2, file=file)
        dr.eval(y)
        dr.print("{}", TensorXf(y, (2, 1)), end="", mode="evaluated")
        dr.print("text")

        def body(i, v):
            dr.print("i={}", i, active=i < 2)
            return i + 1, v + 1

        return dr.while_loop((UInt(0), y), lambda i, v: i < 2, body)[1]

    for k in range(1, 4):
        x = Float(1, 2) * k
        f(x, 2)
        found = capsys.readouterr().out
        f.f(x, 2)
        dr.eval()
        assert found == capsys.readouterr().out.replace("i=[0, 1, 0, 1]\ntext", "text\ni=[0, 1, 0, 1]")
        assert f"{4 * k}] of 2" in found
    assert counts(f) == (1, 1)
    lines = io.StringIO()
    f(x, 2, lines)
    f(x, 2, lines)
    assert lines.getvalue().count("of 2") == 2


def test_assertions_are_repeated():
    seen = Float(0, 0)

    @dr.freeze
    def f(x):
        dr.assert_true(x < 10, "too large: {}", x)
        nonlocal seen
        seen = x + 0
        return x

    for debug in (True, False):
        with dr.scoped_set_flag(dr.JitFlag.Debug, debug):
            f(Float(1, 2))
            f(Float(3, 4))
            if debug:
                with pytest.raises(AssertionError, match=r"too large: \[12\]"):
                    f(Float(1, 12))
                assert values(seen) == [3, 4], "what raises changes nothing"
            else:
                f(Float(1, 12))
                assert values(seen) == [1, 12]


# --- what is explained, and numbers that change ----------------------------------------------------------------------


def test_recordings_are_listed():
    weights = Float(1, 2, 3, 4) + dr.opaque(Float, 0)

    @dr.freeze
    def f(x, k):
        return dr.sum(x * k + dr.gather(Float, weights, UInt(0))), dr.sort(x)

    assert f.recordings == []
    for k in (1, 1, 2, 1):
        f(Float(3, 1, 2), k)
    last, other = f.recordings
    assert (last.key["args[1]"], other.key["args[1]"]) == ("1", "2")
    assert (last.hits, other.hits) == (2, 0)
    assert 1 <= last.kernels <= last.launches
    assert last.any_size
    assert f.explain(Float(3, 2, 1), 2).startswith("f() would replay recording 2 of 2")


def test_calls_are_explained():
    class Settings:
        rate = 1

    settings = Settings()

    @dr.freeze
    def f(x, options):
        return x * options["k"] * settings.rate

    x = Float(1, 2, 3) + 0
    assert "there is no recording" in f.explain(x, {"k": 2})
    f(x, {"k": 2})
    assert f.explain(x, {"k": 2}) == "f() would replay recording 1 of 1: 1 launches."
    assert f.explain(x, {"k": 3}) == "f() would be recorded again: args[1]['k'] was 2, and is 3."
    assert "traced once more" in f.explain(Float(1, 2) + 0, {"k": 2})
    assert "sizes 0 and 1" in f.explain(dr.opaque(Float, 1), {"k": 2})
    settings.rate = 2
    assert "settings.rate was not there, and is 2" in f.explain(x, {"k": 2})
    f.enabled = False
    assert "'enabled' is False" in f.explain(x, {"k": 2})
    assert counts(f) == (1, 1)


def test_warnings_name_place_values_and_line(caplog):
    @dr.freeze(warn_after=1, dynamic=None)
    def f(x, k):
        return x * k

    with caplog.at_level(logging.WARNING, "drjit"):
        f(Float(1, 2), 0.5)
        f(Float(1, 2), 0.25)
    line = inspect.currentframe().f_lineno - 1
    assert f"f() was recorded again (2 recordings) at {__file__}:{line}: args[1] was 0.5, and is 0.25." in caplog.text


def test_numbers_that_change_become_arrays(caplog):
    def step(x, lr, y=None):
        return {"x": x * lr + (0 if y is None else y)}

    with caplog.at_level(logging.WARNING, "drjit"):
        f = dr.freeze(step)
        for k in range(6):
            assert values(f(Float(1, 2), 0.5 * k, Float(1, 1))["x"]) == [0.5 * k + 1, k + 1]
    assert f.n_recordings == 3
    assert "'lr', which is passed as an array" in caplog.text
    assert values(f(Float(1, 2), lr=2.5)["x"]) == [2.5, 5]


@pytest.mark.parametrize(("body", "recordings"), [
    (lambda x, k: x * (2 if k > 1 else 3), 4), (lambda x, k: (x, k), 3), (lambda x, k: x * int(k), 6),
    (lambda x, k: {"a": k}, 3)], ids=["decides", "returns", "reads", "holds"])
def test_numbers_that_must_be_numbers_remain(body, recordings):
    f = dr.freeze(body)
    x = Float(1, 2)
    for k in range(6):
        found, expected = f(x, k * 0.5), body(x, k * 0.5)
        assert str(found) == str(expected)
    assert f.n_recordings == recordings


def test_numbers_do_not_become_arrays_if_nobody_wants_that():
    f = dr.freeze(lambda x, k: x * k, dynamic=None)
    for k in range(5):
        f(Float(1, 2), k * 0.5)
    assert f.n_recordings == 5


@pytest.mark.parametrize(("function", "shapes"), [
    (lambda a, b: a @ b, ((2, 3), (2, 3, 1))), (lambda a, b: a @ b, ((4, 5), (3, 5, 6))),
    (lambda a, b: a @ b, ((3, 4, 5), (5, 6))), (lambda a: dr.prod(a, axis=1), ((3, 4, 5),)),
    (lambda a: dr.max(a, axis=0), ((3, 4, 5),)), (lambda a, b: a + b, ((3, 1, 5), (4, 1)))])
def test_gradients_that_sum_along_axes(function, shapes) -> None:
    values = [np.random.default_rng(3).random(shape) + 0.5 for shape in shapes]
    seen = []
    for called in (function, *[dr.freeze(function)] * 3):
        arrays = [TensorXf64(value) for value in values]
        dr.enable_grad(arrays)
        result = called(*arrays)
        dr.backward(dr.sum(result.array * dr.arange(Float64, len(result.array))))
        seen.append([array.grad.numpy() for array in arrays])
    for others in seen[1:]:
        for one, other in zip(seen[0], others, strict=True):
            np.testing.assert_allclose(one, other, 1e-12)


@pytest.mark.parametrize("data", [np.array([1.0, 2.0]), bytearray([1, 2])], ids=["array", "bytes"])
def test_data_that_the_function_changes_is_seen_at_each_call(data) -> None:
    @dr.freeze
    def function(x):
        data[0] += 1
        return x + float(data[0])

    first = float(data[0])
    assert [function(Float(x)).numpy().tolist() for x in (1, 2, 3)] == [[first + 2], [first + 4], [first + 6]]
    assert float(data[0]) == first + 3


def test_constants_that_were_evaluated_are_arguments() -> None:
    @dr.freeze
    def function(x):
        return x + 1

    for array in (dr.zeros(Float, 3), dr.zeros(TensorXf, (3,))):
        array.numpy()
        for _ in range(2):
            assert function(array).numpy().tolist() == [1, 1, 1]


# --- functions and iterators -----------------------------------------------------------------------------------------


def endless(start):
    """A generator of numbers or arrays."""
    number = start
    while True:
        yield number
        number = number + 1


def test_variables_of_generators_count():
    numbers = endless(2)
    next(numbers)

    @dr.freeze
    def scaled(x):
        return x * numbers.gi_frame.f_locals["number"]

    for expected in (2, 3, 4):
        assert values(scaled(Float(1, 2))) == [expected, 2 * expected]
        next(numbers)


def test_generators_that_hold_arrays_are_inputs():
    @dr.freeze
    def scaled(x, numbers):
        return x * numbers.gi_frame.f_locals["number"]

    for k in range(4):
        numbers = endless(Float(k))
        next(numbers)
        assert values(scaled(Float(1, 2), numbers)) == [k, 2 * k]
    assert counts(scaled)[0] <= 2


@pytest.mark.parametrize("make", [lambda: endless(2), lambda: iter([2, 3, 4]), lambda: zip([2, 3, 4], strict=True),
                                  lambda: enumerate([2, 3]), lambda: iter({2: 3, 3: 4}), lambda: reversed([2, 3, 4]),
                                  itertools.count, lambda: map(abs, itertools.count(0.5, 0.5)),
                                  lambda: itertools.count(Float(1)), lambda: itertools.cycle([1]),
                                  lambda: itertools.product([1, 2]), lambda: itertools.tee([1, 2])[1]])
def test_iterators_are_not_advanced(make):
    numbers = make()
    next(numbers)

    @dr.freeze
    def scaled(x):
        next(numbers)
        return x * 2

    with pytest.raises(RuntimeError, match=r"the function (advances|knows) an iterator of type .*dvance it outside"):
        scaled(Float(1, 2))


def test_what_is_counted_outside_counts():
    numbers = itertools.count()
    frozen = dr.freeze(lambda x: x + int(repr(numbers)[6:-1]))
    for expected in (1, 2, 3):
        assert values(frozen(Float(0, 1))) == [expected - 1, expected]
        next(numbers)


class Counter:
    """An object with a method."""

    def __init__(self, n):
        self.n = n

    def count(self):
        return self.n


def test_methods_of_the_callers_objects():
    @dr.freeze
    def stepped(x, counter):
        counter.n = counter.n + x
        counter.function = counter.count
        return counter.count

    for _ in range(3):
        counter = Counter(Float(1, 2))
        assert values(stepped(Float(1, 2), counter)()) == [2, 4] == values(counter.function())
        assert counter.function.__self__ is counter


@pytest.mark.parametrize("make", [lambda y: (lambda: y), lambda y: functools.partial(abs, y), lambda y: {y}.copy])
def test_functions_of_arrays_are_no_results(make):
    @dr.freeze
    def function(x):
        return make(x + 1)

    with pytest.raises(RuntimeError, match="that refers to arrays"):
        function(Float(1, 2))


def test_arrays_of_objects_are_results():
    @dr.freeze
    def made(x):
        found = np.empty(2, object)
        found[0], found[1] = x * 2, [x]
        return found, found

    for n in (3, 4, 3):
        x = dr.arange(Float, n)
        one, other = made(x)
        assert one is other and values(one[0]) == values(x * 2) and one[1][0] is x


def test_containers_that_are_made_keep_their_attributes():
    @dr.freeze
    def made(x):
        found = Numbers([x])
        found.factor = x + 1
        return found

    for k in range(3):
        found = made(Float(k, 2))
        assert type(found) is Numbers
        assert values(found[0]) == [k, 2]
        assert values(found.factor) == [k + 1, 3]


def test_numbers_beside_objects_in_numpy_arrays_count():
    @dr.freeze
    def scaled(x, given):
        return x * given["o"].ravel()[0] * float(given["n"].ravel()[1])

    given = np.zeros(2, [("n", "f8"), ("o", object)])
    for number, shape in ((2, 2), (3, 2), (3, (1, 2))):
        given["n"][1], given["o"][0] = number, Float(1, 2)
        assert values(scaled(Float(1, 2), given.reshape(shape))) == [number, 4 * number]
