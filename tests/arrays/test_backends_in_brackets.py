"""Keys and values in brackets are of the backend of the array that they are for, or of the scalar one."""

from functools import partial

import pytest

import drjit as dr
import drjit.cuda
import drjit.llvm
import drjit.scalar
import drjit_core as core
from drjit._promotion.promote import wrap


def of_another(cls, value=1, size=2):
    """An array of a package for which this machine need not have a device."""
    return wrap(cls, [core.literal(cls._leaf._type, value, size)] * max(cls._count, 1))


def assign(array, key, value):
    array[key] = value


def assign_attribute(name, array, value):
    setattr(array, name, value)


C, L = drjit.cuda, drjit.llvm
KEYS = [C.UInt32, C.Int32, C.UInt64, C.Bool]
ARRAYS = {"flat": lambda: dr.zeros(L.Float, 2), "tensor": lambda: dr.zeros(L.TensorXf, (2, 2)),
          "nested": lambda: dr.zeros(L.Array2f, 2), "matrix": lambda: dr.zeros(L.Matrix2f, 2)}


@pytest.mark.parametrize("cls", KEYS)
@pytest.mark.parametrize("make", ARRAYS)
@pytest.mark.parametrize("form", ["alone", "entry"])
@pytest.mark.parametrize("use", ["read", "write"])
def test_keys_of_another_backend_are_refused(cls, make, form, use):
    array = ARRAYS[make]()
    before = dr.copy(array)
    key = of_another(cls)
    key = key if form == "alone" else (key, slice(None)) if make == "tensor" else (key,) if make == "flat" else (0, key)
    with pytest.raises(TypeError, match=r"__[gs]etitem__\(\): .*different backends|masks must stand alone"):
        array[key] if use == "read" else assign(array, key, 1)
    assert dr.all(array == before, axis=None)


@pytest.mark.parametrize("make, change", [
    *[(make, partial(assign)) for make in ARRAYS],
    ("nested", partial(assign_attribute, "x")), ("nested", partial(assign_attribute, "xy")),
    ("tensor", partial(assign_attribute, "array"))])
def test_values_of_another_backend_are_refused(make, change):
    array = ARRAYS[make]()
    before = dr.copy(array)
    for key in (0, slice(None), L.UInt32(0), L.Bool(True, False), ...) if change.func is assign else (None,):
        value = of_another(C.Array2f if change.args == ("xy",) else C.Float)
        with pytest.raises(TypeError, match=r"different backends|invalid key|components are chosen"):
            change(array, value) if key is None else change(array, key, value)
    assert dr.all(array == before, axis=None)


@pytest.mark.parametrize("function", [dr.gather, dr.scatter, dr.scatter_add])
def test_functions_refuse_them_too(function):
    array = dr.zeros(L.Float, 2)
    with pytest.raises(TypeError, match="'index' has an unsupported type"):
        function(L.Float, array, of_another(C.UInt32)) if function is dr.gather else \
            function(array, L.Float(1), of_another(C.UInt32))


def test_scalar_arrays_go_with_all():
    array = dr.zeros(L.Float, 3)
    array[drjit.scalar.ArrayXu(0, 2)] = drjit.scalar.ArrayXf(4, 5)
    assert dr.all(array == L.Float(4, 0, 5))
    numbers = drjit.scalar.ArrayXf(1, 2, 3)
    assert dr.all(L.Float(numbers[L.UInt32(2, 0)]) == L.Float(3, 1))
    numbers[0] = L.Float(7)
    assert list(numbers) == [7, 2, 3]
