"""What textures are made of, hold and tell, and what they refuse."""

from __future__ import annotations

import copy
import gc
import importlib
import pickle
import re
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit_core
from drjit import FilterMode, WrapMode, llvm, scalar
from drjit.llvm import ad


def test_they_are_made_in_two_ways() -> None:
    texture = llvm.Texture2f([2, 3], 4)
    assert texture.shape == (2, 3, 4) and texture.channel_count() == 4 and texture.IsTexture
    assert texture.filter_mode() is FilterMode.Linear and texture.wrap_mode() is WrapMode.Clamp
    assert texture.use_accel() and not texture.migrated() and not texture.writable() and not texture.srgb()
    assert texture.value().numpy().tolist() == [0] * 24 and texture.border() is None
    texture = llvm.Texture2f(shape=(2, 3), channels=1, use_accel=False, filter_mode=FilterMode.Nearest,
                             wrap_mode=WrapMode.Mirror, writable=True)
    assert not texture.use_accel() and texture.writable()
    assert repr(texture) == "Texture2f(shape=(2, 3, 1), filter_mode=Nearest, wrap_mode=Mirror, writable=True)"
    for data in (np.arange(6.0).reshape(2, 3, 1), [[[0], [1], [2]], [[3], [4], [5]]],
                 llvm.TensorXf(np.arange(6), (2, 3, 1)), llvm.TensorXf64(np.arange(6), (2, 3, 1)),
                 scalar.TensorXf(np.arange(6.0).reshape(2, 3, 1))):
        texture = llvm.Texture2f(data, True, True, FilterMode.Nearest, WrapMode.Repeat)
        assert texture.value().numpy().tolist() == list(range(6)) and texture.wrap_mode() is WrapMode.Repeat
    sizes = np.array([2, 3])
    assert llvm.Texture2f(sizes, sizes[0], True, FilterMode.Nearest, WrapMode.Repeat, True).writable()
    for name in ("scalar", "llvm", "llvm.ad", "auto", "auto.ad"):
        module = importlib.import_module(f"drjit.{name}")
        for dimension in (1, 2, 3):
            for form in ("f", "bf16", "f16", "f64", "f8u"):
                cls = getattr(module, f"Texture{dimension}{form}")
                texture = cls([2] * dimension, 3)
                assert texture.value().shape == (3 * 2**dimension,) and cls.__name__ == f"Texture{dimension}{form}"


@pytest.mark.parametrize(("arguments", "options", "error", "message"), [
    (([2, 3, 4], 1), {}, RuntimeError, r"'shape' must be a sequence of 2 sizes, found \[2, 3, 4\]"),
    (([2], 1), {}, RuntimeError, "'shape' must be"), ((5, 1), {}, RuntimeError, "'shape' must be"),
    (([2, -1], 1), {}, RuntimeError, "'shape' must be"),
    (([2, 3], 0), {}, RuntimeError, "'channels' must be at least 1"),
    (([2, 3],), {"channels": 1.5}, TypeError, "'channels' must be an int"),
    (([[1, 2]],), {}, RuntimeError, r"'tensor' must have 3 dimensions.*\(1, 2\)"),
    ((np.zeros((2, 2, 0)),), {}, RuntimeError, "'tensor' must have at least 1 channel"),
    (("x",), {}, RuntimeError, "'tensor' must be convertible"), ((), {}, TypeError, "'tensor' is missing"),
    (([2, 3], 1), {"srgb": True}, RuntimeError, "'srgb' is for textures of 8 bits"),
    (([2, 3], 1), {"wrap_mode": 1}, TypeError, "'wrap_mode' must be a drjit.WrapMode"),
    (([2, 3], 1), {"wrap_mode": [WrapMode.Clamp]}, TypeError, "'wrap_mode' must be"),
    (([2, 3], 1), {"filter_mode": "linear"}, TypeError, "'filter_mode' must be"),
    (([2, 3], 1), {"border": 1}, RuntimeError, "'border' is for"),
    (([2, 3], 2), {"wrap_mode": WrapMode.Border, "border": [1]}, RuntimeError, "'border' must be a number"),
    (([2, 3], 1), {"writable": 1}, TypeError, "'writable' must be a bool"),
    (([2, 3], 1), {"mipmap": 1}, TypeError, "'mipmap' is not known"),
    (([2, 3], 1), {"shape": [2, 3]}, TypeError, "'shape' is given twice"),
])
def test_what_does_not_go_together_is_refused(arguments: Any, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=r"drjit\.\w+\.Texture2f.__init__\(\): (the argument )?" + message):
        llvm.Texture2f(*arguments, **options)


def test_values_are_set_and_seen() -> None:
    texture, value = ad.Texture1f([3], 2), ad.Float(1, 2, 3, 4, 5, 6)
    texture.set_value(value)
    assert texture.value() is texture.value() and texture.tensor() is texture.tensor()
    assert texture.value().index == value.index
    value += 1
    assert texture.value().numpy().tolist() == [1, 2, 3, 4, 5, 6]
    view = texture.value()
    view += 10
    assert texture.eval(0.5).numpy().tolist() == [[13], [14]] and texture.tensor()[0].numpy().tolist() == [11, 12]
    dr.scatter(view, ad.Float(0), ad.UInt(2))
    assert texture.eval(0.5).numpy().tolist() == [[0], [14]]
    texture.update_inplace()
    for other in ([6, 5, 4, 3, 2, 1], np.arange(6), np.arange(6, dtype=np.float64), ad.Float64([1] * 6)):
        texture.set_value(other)
        assert texture.value().numpy().tolist() == list(map(float, other)) and texture.value() is view
    texture.set_value_with_event([0] * 6, None)
    for wrong in (ad.Float(1), [1, 2], np.zeros(7)):
        with pytest.raises(RuntimeError, match="'value' must have the 6 elements"):
            texture.set_value(wrong)
    with pytest.raises(RuntimeError, match="'value' must be convertible"):
        texture.set_value("abcdef")
    texture.set_tensor(np.ones((4, 1)))
    assert texture.shape == (4, 1) and texture.value().numpy().tolist() == [1] * 4
    with pytest.raises(RuntimeError, match="'tensor' must have 2 dimensions"):
        texture.set_tensor(np.ones((4, 1, 1)))
    assert texture.map() is None and texture.unmap() is None and texture.native_handle() == 0
    with pytest.raises(RuntimeError, match="no native handles"):
        ad.Texture1f.from_native_handle(1)
    bytes_ = llvm.Texture1f8u([3], 1)
    bytes_.set_value([1.7, 2, 254.9])
    assert bytes_.value().numpy().tolist() == [1, 2, 254]


def test_texels_are_written() -> None:
    for module in (llvm, ad):
        for form in ("f", "bf16", "f16", "f64"):
            texture = getattr(module, f"Texture2{form}")([2, 3], 2, writable=True)
            before = texture.eval([0.0, 0.0])
            texture.write(module.Array2u([0, 2, 3, 0, 2**31], [0, 1, 0, 2, 0]),
                          [module.Float(1, 2, 3, 4, 5), 9], module.Bool(True))
            assert texture.value().numpy().tolist() == [1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 2, 9]
            assert before.numpy().tolist() == [[0], [0]] and texture.eval([0.0, 0.0]).numpy().tolist() == [[1], [9]]
            texture.write(module.Array2u(1, 0), module.Array2f(7, 8), active=False)
            texture.write([-1, 0], [7, 8])
            for kind in module.Array2u64, module.Array2i64:
                texture.write(kind(2**32 + 1, 0), [7, 8])
            texture.write([module.Int64(-2**32 + 1), 0], [7, 8])
            assert texture.value()[2] == 0
    number = scalar.Texture1f([3], 1, writable=True)
    number.write([1], [2.5])
    number.write([3], [2.5])
    assert list(number.value()) == [0, 2.5, 0]
    colors = llvm.Texture1f8u([4], 4, writable=True, srgb=True)
    colors.write(llvm.Array1u(llvm.UInt(0, 1, 2, 3)), [llvm.Float(0.25, float("nan"), -1, 2)] * 4)
    assert colors.value().numpy().reshape(4, 4).tolist() == [[137, 137, 137, 64], [0] * 4, [0] * 4, [255] * 4]
    texture = llvm.Texture1f([3], 2)
    with pytest.raises(RuntimeError, match="not writable"):
        texture.write([0], [1, 2])
    texture = llvm.Texture1f([3], 2, writable=True)
    with pytest.raises(RuntimeError, match="'value' must have an entry for each of the 2 channels, found 1"):
        texture.write([0], [1])
    with pytest.raises(TypeError, match="'value' must be a sequence"):
        texture.write([0], 1)
    with pytest.raises(TypeError, match="'pos' must be a position of 1 components"):
        texture.write([0, 1], [1, 2])
    texture.set_tensor(np.ones((4, 2)))
    assert not texture.writable()


def test_copies_and_pickles_are_independent() -> None:
    for module in (llvm, ad, scalar):
        texture = module.Texture2f(np.arange(8.0).reshape(2, 2, 2), wrap_mode=(WrapMode.Border, WrapMode.Mirror),
                                   border=[1, 2], filter_mode=FilterMode.Nearest)
        for other in (copy.copy(texture), copy.deepcopy(texture), pickle.loads(pickle.dumps(texture)),
                      dr.copy(texture)):
            assert type(other) is type(texture) and repr(other) == repr(texture) and other.border() == (1, 2)
            other.value()[0] = 100
            assert texture.value()[0] == 0 and other.value()[0] == 100
    with pytest.raises(ValueError, match="cannot restore this texture"):
        llvm.Texture2f.__new__(llvm.Texture2f).__setstate__({"format": 7})


def test_they_are_pytrees() -> None:
    texture = ad.Texture1f([[1], [2]])
    assert dr.width(texture) == 2
    dr.make_opaque(texture)
    dr.schedule(texture)
    dr.eval([texture, {"x": texture}])
    texture.set_value(texture.value() * 2)
    assert dr.detach(texture).eval(0.5).numpy().tolist() == [[3]]
    dr.enable_grad(texture)
    assert dr.grad_enabled(texture) and isinstance(dr.grad(texture), ad.Texture1f)
    dr.disable_grad(texture)
    assert not dr.grad_enabled(texture)


def test_tensors_of_other_channels_keep_the_border_if_it_is_one_number() -> None:
    texture = llvm.Texture1f([[1, 2]], wrap_mode=WrapMode.Border, border=7)
    texture.set_tensor([[1, 2, 3]])
    assert texture.border() == (7, 7, 7) and texture.eval(-1.0).numpy().tolist() == [[7]] * 3
    texture = llvm.Texture1f([[1, 2]], wrap_mode=WrapMode.Border, border=[7, 8])
    with pytest.raises(RuntimeError, match=r"'tensor' has 3 channels, but the 'border' .* each of 2: \(7.0, 8.0\)"):
        texture.set_tensor([[1, 2, 3]])
    assert texture.shape == (1, 2) and texture.border() == (7, 8)
    texture.set_tensor([[1, 2], [3, 4]])
    assert texture.eval(-1.0).numpy().tolist() == [[7], [8]]


def updated(texture: Any, value: Any, position: Any) -> None:
    """A texture is given other texels."""
    texture.set_value(value)
    dr.eval(texture.eval(position))


def written(texture: Any, value: Any, position: Any) -> None:
    """Some texels are written."""
    texture.write([ad.UInt(0, 2)], [ad.Float(value[0]), 2])
    dr.eval(texture.eval(position))


def trained(texture: Any, value: Any, position: Any) -> None:
    """A step of gradient descent by texels and positions."""
    position = type(position)(position)
    dr.enable_grad(value, position)
    texture.set_value(value)
    dr.backward(dr.sum(dr.sum(texture.eval(position))))
    dr.eval(dr.grad(value), dr.grad(position))


@pytest.mark.parametrize("update", [updated, written, trained])
def test_many_updates_leave_nothing_behind(update: Any) -> None:
    texture, value = ad.Texture1f([4], 2, writable=True), ad.Float(np.arange(8))
    position = ad.Array1f(ad.Float(0.1, 0.4))

    def live() -> tuple[int, int, int]:
        gc.collect()
        return (len(re.findall(r"\n", dr.whos(as_string=True))), len(gc.get_objects()),
                drjit_core.malloc_statistics()["in_use"])

    for k in range(12_000):
        update(texture, value + k, position)
        if k == 2_000:  # what is kept for later has its size: literals, kernels, tables
            before = live()
    arrays, objects, memory = (now - then for now, then in zip(live(), before, strict=True))
    assert arrays <= 2 and objects < 500 and memory < 4096


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("options", [
    {"wrap_mode": WrapMode.Mirror}, {"filter_mode": FilterMode.Nearest}, {"use_accel": False}])
def test_textures_of_other_options_are_not_merged(options: Any, mode: str) -> None:
    one, other = llvm.Texture1f([[1], [2]]), llvm.Texture1f([[3], [4]], **options)
    condition = dr.opaque(llvm.Bool, False, 2)
    with pytest.raises(RuntimeError, match=r"different values of 'result.options'"):
        dr.if_stmt((one, other), condition, lambda one, other: one, lambda one, other: other, mode=mode)
    with pytest.raises(RuntimeError, match=r"different values of 'result.options'"):
        dr.switch(llvm.UInt(0, 1), [lambda one, other: one, lambda one, other: other], one, other, mode=mode)
    with pytest.raises(RuntimeError, match=r"drjit.select\(\): cannot select between"):
        dr.select(llvm.Bool(False), one, other)
    assert dr.select(False, one, other) is other
    like = llvm.Texture1f([[5], [6]], **options)
    found = dr.if_stmt((like, other), condition, lambda one, other: one, lambda one, other: other, mode=mode)
    assert repr(found) == repr(other) and found.value().numpy().tolist() == [3, 4]


def test_borders_are_options() -> None:
    def bordered(border: Any) -> Any:
        return llvm.Texture1f([[1], [2]], wrap_mode=WrapMode.Border, border=border)

    with pytest.raises(RuntimeError, match="cannot select"):
        dr.select(llvm.Bool(False), bordered(1), bordered(2))
    assert dr.select(llvm.Bool(False), bordered(float("inf")), bordered(float("inf"))).eval(9.0).numpy() == np.inf


@pytest.mark.parametrize("package", [llvm, scalar])
@pytest.mark.parametrize("mode", list(WrapMode))
def test_wide_positions_are_wrapped_as_they_are(package: Any, mode: WrapMode) -> None:
    texture, position = package.Texture1f([3], 1, wrap_mode=mode), [2**40, -2**40 - 1, 2**33 + 2]
    expected = {WrapMode.Repeat: [value % 3 for value in position],
                WrapMode.Mirror: [min(value % 6, 5 - value % 6) for value in position]}.get(mode, [2, 0, 2])
    for kind in ("i64", "f64"):
        cls = getattr(package, f"Array1{kind}")
        found = [texture.wrap(cls(value))[0] for value in position]
        assert [int(value if package is scalar else value[0]) for value in found] == expected


def test_derivatives_of_positions_are_not_lost() -> None:
    texture, position = llvm.Texture2f([2, 2], 1), ad.Float(0.5)
    dr.enable_grad(position)
    for pos in (position, [0.5, position], ad.Array2f(position)):
        with pytest.raises(TypeError, match=r"Texture2f.eval\(\): 'pos' tracks derivatives"):
            texture.eval(pos)


def test_flags_are_flags() -> None:
    texture = llvm.Texture1f([2], 1)
    for set_texels in (lambda: texture.set_value([1, 2], "yes"), lambda: texture.set_tensor([[1], [2]], 1)):
        with pytest.raises(TypeError, match="'migrate' must be a bool"):
            set_texels()
    assert texture.value().numpy().tolist() == [0, 0]


@pytest.mark.parametrize("enum", [WrapMode, FilterMode])
def test_modes(enum: Any) -> None:
    assert [repr(entry) for entry in enum] == [f"{enum.__name__}.{entry.name}" for entry in enum]
    assert next(iter(enum)).value == 0 and pickle.loads(pickle.dumps(list(enum))) == list(enum)
