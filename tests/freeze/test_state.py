"""What frozen functions know and change besides arrays: data, generators of the host, attributes that classes show too,
variables of contexts, and numbers of objects that they know themselves."""

from __future__ import annotations

import abc
import array
import collections
import contextvars
import copy
import dataclasses
import decimal
import functools
import importlib
import io
import operator
import os
import random
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
from drjit.llvm import Float, UInt32, ad
from drjit.opt import Adam


def _nothing(function: Any) -> Any:
    return function


DATA: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "set": (lambda: {1, 2}, lambda data: (data.add(3), data.discard(1))),
    "NumPy array": (lambda: np.zeros(2), lambda data: data.__setitem__(0, 5)),
    "bytes": (lambda: bytearray(2), lambda data: data.extend(b"a")),
    "array": (lambda: array.array("i", [1, 2]), lambda data: data.append(3)),
}


@pytest.mark.parametrize("name", DATA)
def test_changes_of_data_are_repeated(name: str) -> None:
    make, change = DATA[name]

    def body(x: Any, data: Any) -> Any:
        change(data)
        return x + 1

    frozen, expected = dr.freeze(body), make()
    change(expected)
    for k in range(4):
        data = make()
        assert np.array_equal(frozen(Float(k, 1), data), [k + 1, 2])
        assert np.array_equal(data, expected) if isinstance(data, np.ndarray) else data == expected
    assert frozen.n_recordings == 1


def test_changes_happen_once_where_derivatives_are_recorded() -> None:
    calls = np.zeros(1)

    @dr.freeze
    def sine(x: Any) -> Any:
        calls[0] += 1
        return dr.sin(x)

    for k in range(3):
        x = ad.Float(1, 2)
        dr.enable_grad(x)
        sine(x)
        assert calls[0] == k + 1


def test_which_data_is_the_same_counts() -> None:
    def body(x: Any, one: set[int], two: set[int]) -> Any:
        one.add(5)
        return x + len(two)

    frozen = dr.freeze(body)
    for _ in range(2):
        one, two = {1}, {1}
        assert frozen(Float(1), one, one)[0] == 3
        assert one == {1, 5}
        one = {1}
        assert frozen(Float(1), one, two)[0] == 2
        assert (one, two) == ({1, 5}, {1})


def test_data_that_cannot_be_found_again_is_not_changed() -> None:
    numbers = {1}
    add = numbers.add
    with pytest.raises(RuntimeError, match="changes an object of type set, which calls that replay it do not, since "
                                           "they would not find it"):
        dr.freeze(lambda x: (add(7), x)[1])(Float(1, 2))
    assert numbers == {1}
    large = np.zeros(100_000)
    with pytest.raises(RuntimeError, match=r"changes an object of type numpy\.ndarray, .* since it is too large"):
        dr.freeze(lambda x, a: (a.__setitem__(0, 5), x)[1])(Float(1, 2), large)
    assert not large.any()


@pytest.mark.parametrize("make", [lambda: np.zeros(2), lambda: {1, 2}], ids=["array", "set"])
def test_data_that_is_returned_is_the_callers(make: Callable[[], Any]) -> None:
    frozen = dr.freeze(lambda x, data: (x + 1, data, [data]))
    for k in range(3):
        data = make()
        _, same, (again,) = frozen(Float(k, 1), data)
        assert same is data
        assert again is data
    assert frozen.n_recordings == 1


@dataclasses.dataclass
class _Counts:
    number: int = 3


def test_nobody_gets_results_that_others_have() -> None:
    @dr.freeze
    def made(x: Any) -> Any:
        numbers = np.zeros(2)
        return x + 1, _Counts(), {1, 2}, numbers, [numbers], {"of": _Counts(4)}

    for _ in range(3):
        _, counts, some, numbers, (again,), further = made(Float(1, 2))
        assert (counts, some, numbers.tolist(), further["of"].number) == (_Counts(3), {1, 2}, [0, 0], 4)
        assert again is numbers
        counts.number, numbers[0], further["of"].number = 7, 7, 7
        some.add(7)
    assert made.n_recordings == 1


_python, _legacy = random.Random(1), np.random.RandomState(1)


@pytest.mark.parametrize("draw", [
    lambda: random.random(), lambda: np.random.rand(), lambda: _python.gauss(0, 1),
    lambda: _legacy.rand()], ids=["random", "numpy.random", "Random", "RandomState"])
def test_random_numbers_of_the_host_are_refused(draw: Callable[[], float]) -> None:
    before = random.getstate(), _python.getstate()
    with pytest.raises(RuntimeError, match="draws random numbers on the host"):
        dr.freeze(lambda x: x * draw())(Float(1, 2))
    assert (random.getstate(), _python.getstate()) == before


def test_generators_of_the_host_as_arguments() -> None:
    generator, other = np.random.default_rng(1), np.random.default_rng(1)
    with pytest.raises(RuntimeError, match=r"draws .* from an object of type numpy.random._generator.Generator"):
        dr.freeze(lambda x, g: x * g.random())(Float(1, 2), generator)
    assert generator.random() == other.random()
    frozen = dr.freeze(lambda x, g: x * np.random.default_rng(3).random())  # the same in each call
    assert np.array_equal(frozen(Float(1, 2), generator), frozen(Float(1, 2), generator))


def test_attributes_that_classes_show_as_well() -> None:
    found = []
    for form in (_nothing, dr.freeze):
        class Base:
            count = 0

        class Model(Base):
            def __call__(self, x: Any) -> Any:
                self.count += 1
                Base.count += 1
                return x * self.count

        call, seen = form(lambda model, x: model(x)), []
        for k in range(3):
            model = Model()
            seen.append((call(model, Float(k, 1)).numpy().tolist(), vars(model).copy(), Base.count))
            Base.count = 0
        found.append(seen)
    assert found[0] == found[1]


def test_attributes_that_are_removed_show_those_of_classes() -> None:
    class Model:
        scale = 2

        def __init__(self) -> None:
            self.scale = 5

    def body(model: Any, x: Any) -> Any:
        del model.scale
        return x * model.scale

    frozen = dr.freeze(body)
    for _ in range(3):
        model = Model()
        assert np.array_equal(frozen(model, Float(1, 2)), [2, 4])
        assert vars(model) == {}


def test_contexts_are_inputs() -> None:
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable")
    frozen = dr.freeze(lambda x, context: context.run(lambda: variable.get() + x))
    for k in range(3):
        context = contextvars.copy_context()
        context.run(variable.set, Float(k))
        assert np.array_equal(frozen(Float(1, 2), context), [1 + k, 2 + k])


def _step_of(optimiser: Any) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        loss = dr.sum(dr.square(optimiser["w"] - x))
        dr.backward(loss)
        optimiser.step()
        return loss

    return step


def test_rates_of_optimisers_that_the_function_knows_become_arrays() -> None:
    found = []
    for form in (_nothing, dr.freeze):
        optimiser, losses = Adam(lr=0.1), []
        optimiser["w"] = ad.Float([1, 2])

        called = form(_step_of(optimiser))
        for k in range(12):
            optimiser.set_learning_rate(0.1 * 0.9**k)
            losses.append(called(ad.Float([k, 1]))[0])
        found.append(losses)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    assert called.n_recordings <= 4


def test_classes_and_objects_that_are_called() -> None:
    class Model:
        kind = "model"

        def __init__(self) -> None:
            self._record, self.clear, self.scale = 1, 2, 3.0

        def __call__(self, x: Any) -> Any:
            return x * self.scale

    frozen = dr.freeze(Float)
    for k in range(2):
        assert np.array_equal(frozen(Float(k, 1)), [k, 1])
    assert (frozen.__name__, frozen.n_recordings) == ("Float", 1)
    model = Model()
    called = dr.freeze(model)
    assert np.array_equal(called(Float(1, 2)), [3, 6])
    model.scale = 4.0
    assert np.array_equal(called(Float(1, 2)), [4, 8])
    assert (called.scale, called.kind, called.n_recordings) == (4.0, "model", 2)
    called.clear()
    assert called.n_recordings == 0
    with pytest.raises(AttributeError, match="nothing"):
        _ = called.nothing


def test_dynamic_numbers_beside_arrays_of_the_standard() -> None:
    frozen = dr.freeze(lambda x, rate: x * rate, dynamic=("rate",))
    for rate in (1, 2.5, 3.0):
        found = frozen(xp.asarray([1.0, 2.0]), rate)
        assert found.dtype == xp.asarray([1.0]).dtype
        assert np.array_equal(np.asarray(found), [rate, 2 * rate])
    assert frozen.n_recordings == 1


def test_calls_without_their_arguments() -> None:
    def scaled(x: Any, k: int = 1) -> Any:
        return x * k

    frozen = dr.freeze(scaled)
    with pytest.raises(TypeError, match=r"scaled\(\): missing a required argument: 'x'"):
        frozen()
    frozen(Float(1, 2))
    scaled.__defaults__ = (2,)
    assert r"scaled.__defaults__[0] was 1, and is 2" in frozen.explain(Float(1, 2))


def test_derivatives_of_derivatives_where_numbers_are_arrays() -> None:
    class Options:
        rate = 0.5

    options = Options()
    options.rate = 0.5
    frozen = dr.freeze(lambda x: dr.sum(dr.sin(x) * options.rate))
    for k in range(6):
        options.rate = 0.5 + k
        x = ad.Float([1, 2])
        dr.enable_grad(x)
        dr.backward(frozen(x))
        np.testing.assert_allclose(dr.grad(x), np.cos([1, 2]) * options.rate, rtol=1e-5)
        x, v = ad.Float([1, 2]), ad.Float([1, 1])
        np.testing.assert_allclose(np.array(dr.hvp(frozen, x, v)), np.array(dr.hvp(frozen.f, x, v)), rtol=1e-5)
    assert frozen.n_recordings <= 4


class _Versioned(io.BytesIO):
    """What tensors of other libraries are like: their contents are no attributes, and changes are counted."""

    _version = 0


def test_objects_that_keep_more_than_attributes() -> None:
    frozen = dr.freeze(lambda x, data: x * len(data.getvalue()))
    one, two = io.BytesIO(b"12"), io.BytesIO(b"123")
    for data, scale, recordings in ((one, 2, 1), (two, 3, 2), (one, 2, 2), (two, 3, 2), (one, 2, 2)):
        assert np.array_equal(frozen(Float(1, 2), data), [scale, 2 * scale])
        assert frozen.n_recordings == recordings
    data = _Versioned(b"12")
    for k in range(3):
        assert np.array_equal(frozen(Float(1, 2), data), [2 + k, 4 + 2 * k])
        data.seek(0, 2)
        data.write(b"3")
        data._version += 1


_PROGRAM = '''
import drjit as dr
from . import options

GAIN = 1.0

class Layer:
    bias = 1.0

    def __init__(self):
        self.weight = 1.0

    def __call__(self, x):
        return x * self.weight * GAIN * options.SCALE + self.bias

layer = Layer()
'''


@pytest.mark.parametrize("place", ["layer.weight", "layer.__class__.bias", "GAIN", "options.SCALE"])
@pytest.mark.parametrize("way", ["call", "attribute"])
def test_variables_of_installed_packages_count(place: str, way: str, tmp_path: Any, monkeypatch: Any) -> None:
    name = f"program_{way}_{place.replace('.', '_')}"
    (tmp_path / "site-packages" / name).mkdir(parents=True)
    (tmp_path / "site-packages" / name / "__init__.py").write_text(_PROGRAM)
    (tmp_path / "site-packages" / name / "options.py").write_text("SCALE = 1.0\n")
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    package = importlib.import_module(name)
    layer = package.layer
    frozen = dr.freeze((lambda x: layer(x)) if way == "call" else (lambda x: package.layer(x)))
    *path, attribute = place.split(".")
    owner = functools.reduce(getattr, path, package)
    for value in (1.0, 2.0, 3.0, 1.0):
        setattr(owner, attribute, value)
        assert np.array_equal(frozen(Float(1, 2)), layer(Float(1, 2)))


def test_numbers_of_libraries_count(tmp_path: Any, monkeypatch: Any) -> None:
    folder = tmp_path / "site-packages" / "library_of_numbers"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from . import options\nSCALE = 1.0\n")
    (folder / "options.py").write_text("SHIFT = 1.0\n")
    monkeypatch.syspath_prepend(folder.parent)
    library = importlib.import_module("library_of_numbers")
    frozen = dr.freeze(lambda x: x * library.SCALE + library.options.SHIFT)
    for value in (1.0, 2.0, 3.0, 1.0):
        library.SCALE = value
        assert np.array_equal(frozen(Float(1, 2)), Float(1, 2) * value + library.options.SHIFT)
        library.options.SHIFT = value + 1
        assert np.array_equal(frozen(Float(1, 2)), Float(1, 2) * value + value + 1)


def test_what_functions_of_libraries_know_counts(tmp_path: Any, monkeypatch: Any) -> None:
    """Those that a function knows by themselves are no less than its own, in frozen functions and loops."""
    folder = tmp_path / "site-packages" / "library_of_functions"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("_scale = 1\n\ndef scaled(x):\n    return x * _scale\n\n"
                                        "def grown(x):\n    global _scale\n    _scale += x\n    return _scale\n")
    monkeypatch.syspath_prepend(folder.parent)
    library = importlib.import_module("library_of_functions")
    scaled, grown = library.scaled, library.grown
    frozen = dr.freeze(lambda x: scaled(x))
    for value in (1.0, 2.0, 3.0, 1.0):
        library._scale = value
        assert np.array_equal(frozen(Float(1, 2)), Float(1, 2) * value)
    for mode in ("symbolic", "evaluated"):
        library._scale = Float(1, 2)
        state = dr.while_loop((UInt32(0, 0), Float(0, 0)), lambda k, x: k < 3, lambda k, x: (k + 1, grown(x + 1)),
                              mode=mode)
        assert list(state[1]) == list(library._scale) == [11, 15]


def test_views_of_dictionaries_count_as_these() -> None:
    options = {"scale": 1.0}
    view = types.MappingProxyType(options)
    frozen = dr.freeze(lambda x: x * view["scale"])
    for value in (1.0, 2.0, 3.0, 1.0):
        options["scale"] = value
        assert np.array_equal(frozen(Float(1, 2)), Float(1, 2) * value)


def test_what_dictionaries_make_of_missing_keys_is_an_attribute() -> None:
    table: Any = collections.defaultdict(list)

    @dr.freeze
    def append(x: Any) -> Any:
        found = table["new"]
        table.default_factory = None
        return x * len(found)

    for factory in (lambda: [1], lambda: [1, 2], lambda: [1]):
        table.clear()
        table.default_factory = factory
        assert np.array_equal(append(Float(1, 2)), Float(1, 2) * len(factory()))
        assert table.default_factory is None and list(table) == ["new"]


class Named:
    """An object whose attributes nobody mentions."""

    def __init__(self) -> None:
        self.strength = 1

    def doubled(self) -> int:
        return 2 * self.strength


@pytest.mark.parametrize("ask", [operator.methodcaller("doubled"), operator.attrgetter("strength"),
                                 lambda named: len(dir(named))])
def test_what_is_asked_for_by_names_that_objects_know_counts(ask: Callable[[Any], int]) -> None:
    named = Named()
    frozen = dr.freeze(lambda x: x * ask(named))
    for k in range(4):
        setattr(named, "strength" if k < 3 else "other", k)
        assert np.array_equal(frozen(Float(1, 2)), Float(1, 2) * ask(named))


def test_equal_slices_are_equal() -> None:
    frozen = dr.freeze(lambda x, key: x[key])
    for stop in (2, 3, 2, 3):
        assert np.array_equal(frozen(Float(1, 2, 3, 4), slice(0, stop)), np.arange(1, stop + 1))
    assert frozen.n_recordings == 2

class Box:
    """An object that may hold what nobody can use."""

    new: Any

    def __init__(self, given: bool) -> None:
        self.x = ad.Float(1, 2)
        if given:
            self.new = ad.Float(5, 6)
            return

        def put(x: Any) -> Any:
            self.new = x * 5
            return x

        dr.if_stmt((self.x,), ad.Bool(True, False), put, lambda x: x)


def test_what_nobody_can_use_may_be_held_and_handed_on() -> None:
    """It is told apart from what can be used, and says what it is where it is used."""
    held = dr.freeze(lambda box, z: box.x * z)
    for k, given in enumerate((False, False, True, False, True)):
        assert np.array_equal(held(Box(given), ad.Float(k, k)), [k, 2 * k])
    assert held.n_recordings == 2

    returned = dr.freeze(lambda box, z: (box.new, box.x * z))
    put = dr.freeze(lambda box, other, z: other.update(new=box.new) or z + 1)
    direct = dr.freeze(lambda x, z: (x, z * 2))
    side = dr.freeze(lambda x, z: dr.if_stmt((x, z), z > 1, lambda x, z: (x, z + 1), lambda x, z: (x, z)))
    for k in range(3):
        box, other = Box(False), dict[str, Any]()
        found = returned(box, ad.Float(k, k))
        assert found[0] is box.new and np.array_equal(found[1], [k, 2 * k])
        assert put(box, other, ad.Float(k, k))[0] == k + 1 and other["new"] is box.new
        assert direct(box.new, ad.Float(k, k))[0] is box.new
        assert np.array_equal(side(box.new, ad.Float(1, 2))[1], [1, 3])
    assert [f.n_recordings for f in (returned, put, direct)] == [1, 1, 1]

    used = dr.freeze(lambda box, z: box.new * z)
    for given in (False, True, False):
        if given:
            assert np.array_equal(used(Box(True), ad.Float(2)), [10, 12])
        else:
            with pytest.raises(RuntimeError, match=r"(__mul__\(\)|operation) \(.*: this array has no value: "):
                used(Box(False), ad.Float(2))


def test_derivatives_beside_what_nobody_can_use() -> None:
    squares = dr.freeze(lambda box, z: (box.new, z * z))
    for k in range(3):
        z = ad.Float(k, 2)
        dr.enable_grad(z)
        dr.backward(squares(Box(False), z)[1])
        assert np.array_equal(z.grad, [2 * k, 4])
    assert squares.n_recordings == 1


def _moves_last(table: dict[str, Any], x: Any) -> Any:
    key = next(iter(table))
    value = table.pop(key)
    table[key] = value + x
    table.setdefault("new", x)
    return value


def _moves_first(table: collections.OrderedDict[str, Any], x: Any) -> Any:
    table.move_to_end("b", last=False)
    table["a"] = table["a"] + x


def _raises(table: dict[str, Any], x: Any) -> Any:
    table["a"] = table.pop("a") + 1
    raise KeyError("a")


@pytest.mark.parametrize("body", [_moves_last, _moves_first, _raises])
@pytest.mark.parametrize("with_arrays", [False, True])
def test_the_order_of_entries_is_that_of_plain_calls(body: Any, with_arrays: bool) -> None:
    def seen(function: Any) -> list[Any]:
        table = collections.OrderedDict({key: Float(k, 2) if with_arrays else k for k, key in enumerate("abc")})
        found = []
        for k in range(6):
            try:
                found.append(str(function(table, Float(k, 1))))
            except KeyError:
                assert function is not body
            found.append(str(list(table.items())))
        return found

    frozen = dr.freeze(body)
    if body is _raises:  # and changes nothing
        assert len(set(seen(frozen))) == 1
    else:
        assert seen(frozen) == seen(body)


def test_classes_that_are_registered_later() -> None:
    class Scaled(metaclass=abc.ABCMeta):  # noqa: B024 (no method is needed to register classes)
        pass

    class Thing:
        pass

    frozen = dr.freeze(lambda thing, x: x * 2 if isinstance(thing, Scaled) else x)
    thing = Thing()
    assert str(frozen(thing, Float(1, 2))) == "[1, 2]"
    Scaled.register(Thing)
    assert str(frozen(thing, Float(1, 2))) == "[2, 4]" == str(frozen(thing, Float(1, 2)))


def test_views_of_buffers_count_by_what_they_show() -> None:
    data = bytearray(b"abc")
    view = memoryview(data)
    frozen = dr.freeze(lambda x: x * view[0])
    for k in (1, 1, 2):
        view[0] = k
        assert str(frozen(Float(1, 2))) == str(Float(1, 2) * k)
    assert frozen.n_recordings == 2


_IMPORTS = {"import": "import {0}.settings\n    return x * {0}.settings.SCALE",
            "import as": "import {0}.settings as s\n    return x * s.SCALE",
            "from": "from {0}.settings import SCALE\n    return x * SCALE",
            "relative": "from . import settings\n    return x * settings.SCALE",
            "relative from": "from .settings import get\n    return x * get()",
            "within": "def g(x):\n        from .settings import SCALE\n        return x * SCALE\n    return g(x)"}


@pytest.mark.parametrize("form", _IMPORTS)
def test_variables_of_modules_that_the_function_imports_count(form: str, tmp_path: Any, monkeypatch: Any) -> None:
    name = f"imported_{form.replace(' ', '_')}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(f"def body(x):\n    {_IMPORTS[form].format(name)}\n")
    (tmp_path / name / "settings.py").write_text("SCALE = 1.0\ndef get():\n    return SCALE\n")
    monkeypatch.syspath_prepend(tmp_path)
    frozen = dr.freeze(importlib.import_module(name).body)
    for value in (1.0, 2.0, 3.0, 1.0):
        if f"{name}.settings" in sys.modules:
            sys.modules[f"{name}.settings"].SCALE = value
        assert np.array_equal(frozen(Float(1, 2)), Float(1, 2) * value)


def test_variables_with_the_names_of_attributes_do_not_count() -> None:
    class Model:
        scale = 2

        def step(self, x: Any) -> Any:
            return x * self.scale

    names: dict[str, Any] = {}
    exec("def body(model, x):\n    def inner(x):\n        return model.step(x)\n    return inner(x) + shift", names)
    names["shift"] = 1
    frozen = dr.freeze(names["body"])
    for value in range(6):
        names["step"] = names["scale"] = names["inner"] = value
        assert np.array_equal(frozen(Model(), Float(1, 2)), [3, 5])
    assert frozen.n_recordings == 1
    names["shift"] = 2
    assert np.array_equal(frozen(Model(), Float(1, 2)), [4, 6])


@pytest.mark.parametrize("read", [
    lambda: float(os.environ["DRJIT_TEST_SCALE"]), lambda: float(os.getenv("DRJIT_TEST_SCALE", "0")),
    lambda: float(decimal.Decimal(1) / decimal.Decimal(3)), lambda: dr.log_level().value], ids=[
        "environ", "getenv", "decimal", "log level"])
def test_what_is_around_the_function_counts(read: Callable[[], float], monkeypatch: Any) -> None:
    frozen, level = dr.freeze(lambda x: x * read()), dr.log_level()
    try:
        for k in (1, 1, 2, 3, 2):
            monkeypatch.setenv("DRJIT_TEST_SCALE", str(k))
            dr.set_log_level(k - 1)
            with decimal.localcontext(prec=k):
                assert np.array_equal(frozen(Float(1, 2)), Float(1, 2) * read())
    finally:
        dr.set_log_level(level)
    assert frozen.n_recordings == 3


def test_classes_may_come_to_derive_from_others() -> None:
    class One:
        scale = 1

    class Two:
        scale = 2

    class Derived(One):
        pass

    frozen, value = dr.freeze(lambda x, owner: x * owner.scale), Derived()
    for base in (One, One, Two, Two, One):
        Derived.__bases__ = (base,)
        assert np.array_equal(frozen(Float(1, 2), value), Float(1, 2) * base.scale)
    assert frozen.n_recordings == 2


@pytest.mark.parametrize("read", [
    lambda cls: cls.__name__, lambda cls: type(cls()).__qualname__, lambda cls: cls.__module__, lambda cls: cls.__doc__,
    lambda cls: cls.mro()[0].__name__, lambda cls: getattr(cls, "__na" + "me__"), lambda cls: f"{cls}",
    lambda cls: repr(cls()).split()[0], lambda cls: cls.method.__name__, lambda cls: cls.method.__doc__,
    lambda cls: str(cls.method.__annotations__), lambda cls: cls().named()])
def test_what_classes_and_functions_are_called_counts(read: Callable[[Any], str]) -> None:
    class Owner:
        """A text."""

        def method(self) -> None:
            """Another one."""

        @classmethod
        def named(cls) -> str:
            return cls.__name__

    owner: Any = Owner
    frozen = dr.freeze(lambda x: x * len(read(owner)))
    for text in ("one", "one", "a longer one", "one"):
        for each in (Owner, Owner.method):
            each.__name__ = each.__qualname__ = each.__doc__ = each.__module__ = text
        owner.method.__annotations__ = {"return": text}
        assert np.array_equal(frozen(Float(1, 2)), Float(1, 2) * len(read(owner)))
    assert frozen.n_recordings == 2


def test_functions_that_rename_classes_do_so_in_replays() -> None:
    class Owner:
        pass

    @dr.freeze
    def rename(x: Any, text: str) -> Any:
        Owner.__name__ = text
        return x * len(Owner.__name__)

    for k in (1, 2, 1, 2):
        Owner.__name__ = "before"
        assert np.array_equal(rename(Float(1, 2), "a" * k), Float(1, 2) * k)
        assert Owner.__name__ == "a" * k
    assert rename.n_recordings == 2


def test_classes_that_are_derived_from_others_count() -> None:
    class Owner:
        pass

    class One(Owner):
        scale = 1.0

    @dr.freeze
    def scaled(x: Any) -> Any:
        for cls in Owner.__subclasses__():
            x = x * cls.scale
        return x

    assert np.array_equal(scaled(Float(1, 2)), Float(1, 2))
    One.scale = 3.0
    assert np.array_equal(scaled(Float(1, 2)), Float(3, 6))
    two = type("Two", (Owner,), {"scale": 2.0})
    assert np.array_equal(scaled(Float(1, 2)), Float(6, 12))
    two.scale = 3.0  # type: ignore[attr-defined]
    assert np.array_equal(scaled(Float(1, 2)), Float(9, 18))


@pytest.mark.parametrize("make", [types.SimpleNamespace, lambda: types.ModuleType("settings")],
                         ids=["object", "module"])
def test_attributes_whose_names_are_computed_count(make: Callable[[], Any]) -> None:
    def body(x: Any, owner: Any, name: str) -> Any:
        return x * getattr(owner, "the_" + name, 7) + hasattr(owner, "an" + "other")

    frozen, owner = dr.freeze(body), make()
    steps: list[Callable[[], Any]] = [
        lambda: None, lambda: setattr(owner, "the_scale", 2), lambda: setattr(owner, "another", 0),
        lambda: setattr(owner, "the_scale", 3), lambda: delattr(owner, "the_scale")]
    for number, step in enumerate(steps, 1):
        step()
        for _ in range(2):
            assert np.array_equal(frozen(Float(1, 2), owner, "scale"), body(Float(1, 2), owner, "scale"))
        assert frozen.n_recordings == number


@pytest.mark.parametrize("keep", [functools.cache, functools.lru_cache(4)], ids=["all", "some"])
@pytest.mark.parametrize("make", [float, lambda value: Float(value, 1) + 0, lambda value: {"scale": Float(value)}],
                         ids=["number", "array", "arrays"])
def test_results_that_functions_keep_and_forget(keep: Any, make: Any) -> None:
    """As long as they keep those of the recorded call, replays find what the function would find."""
    value = 2.0

    @keep
    def kept(n: int) -> Any:
        return make(value * n)

    def scale(n: int) -> Any:
        found = kept(n)
        return found["scale"] if isinstance(found, dict) else found

    kept(3)  # else the first call would find nothing, and the second one an array that might be any other
    frozen, x = dr.freeze(lambda x: x * scale(3)), Float(1, 2)
    for change, expected, recordings in ((None, 6, 1), (4, 6, 1), (None, 6, 1), (kept.cache_clear, 15, 2),
                                         (5, 15, 2), (None, 15, 2)):
        if callable(change):
            change()
            value = 5.0
            kept(3)
        elif change is not None:
            kept(change)
        for _ in range(2):
            assert frozen(x)[0] == expected
            assert np.array_equal(frozen(x), x * scale(3))
        if not isinstance(kept(3), dict):  # else arrays in all that is kept are inputs
            assert frozen.n_recordings == recordings, change


def test_arrays_that_functions_keep_may_change_in_place() -> None:
    @functools.cache
    def kept() -> Any:
        return Float(1, 2) + 0

    frozen = dr.freeze(lambda x: x + kept())
    for k in range(4):
        array = kept()
        array += k // 2
        assert np.array_equal(frozen(Float(0, 0)), kept())


def test_what_modules_answer_counts() -> None:
    module = types.ModuleType("answering")
    exec("value = 2.0\ndef __getattr__(name):\n    return value", module.__dict__)
    frozen = dr.freeze(lambda x: x * module.anything)
    for change, expected in ((lambda: None, 2), (lambda: setattr(module, "value", 3.0), 3),
                             (lambda: setattr(module, "anything", 4.0), 4), (lambda: delattr(module, "anything"), 3)):
        change()
        for _ in range(2):
            assert np.array_equal(frozen(Float(1, 2)), Float(1, 2) * expected)


@pytest.mark.parametrize("base", [dict, list])
def test_what_copies_note_in_classes_counts_for_nothing(base: Any) -> None:
    class Container(base):  # type: ignore[misc]
        pass

    class Part:
        pass

    @dr.freeze
    def function(x: Float, name: str = "none") -> Any:
        assert not getattr(Part(), name, None)  # all attributes count
        return Container({"x": 2 * x} if base is dict else [2 * x])

    for _ in range(2):
        function(Float(1, 2) + 1)
        copy.copy(Part())  # lets Python note the names of slots in the class
        copy.copy(Container())
    assert function.n_recordings == 1


def test_copies_that_are_made_in_the_function_are_copies_in_replays() -> None:
    @dr.freeze
    def copies(x: Any) -> Any:
        return copy.deepcopy(x), dr.opaque(x)

    for first in (1, 2, 3):
        x = Float(first, 2)
        view = x.numpy()
        found = copies(x)
        view[0] = 7
        assert np.array_equal(x, [7, 2])
        for each in found:
            assert np.array_equal(each, [first, 2])
    assert copies.n_recordings == 1
