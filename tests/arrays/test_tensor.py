"""Tensors against NumPy: construction, broadcasting, operators, conversions."""

import itertools
import operator

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm import (
    Array2f,
    Array3f,
    Array22f,
    Bool,
    Float,
    Int,
    TensorXb,
    TensorXf,
    TensorXf16,
    TensorXf64,
    TensorXi,
    TensorXu,
    UInt,
)
from tests.interop.harness import from_dlpack

rng = np.random.default_rng(7)


def tensor(shape, cls=TensorXf):
    values = rng.integers(-9, 10, shape).astype({TensorXf: np.float32, TensorXi: np.int32, TensorXb: bool}[cls])
    return cls(values), values


def same(found, expected, **tolerance):
    found = found.numpy()
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found, expected, **tolerance)


def test_flat_arrays_have_one_dimension():
    scalar = TensorXf([1], shape=())
    assert (scalar + Float(1)).shape == (1,) and (Float(1) + scalar).shape == (1,) and (scalar + 1).shape == ()
    assert (TensorXf([1, 2], shape=(2, 1)) + Float(1)).shape == (2, 1)
    assert dr.select(TensorXb([False], shape=()), scalar, Float(2)).shape == (1,)
    scalar[Bool(True)] = Float(3)
    assert scalar.shape == () and repr(scalar) == "3"


def test_a_tensor_without_dimensions_is_the_sum_over_its_first_axis():
    for function in (dr.sum, dr.prod, dr.min, dr.max):
        assert repr(function(TensorXf([2], shape=()), axis=0)) == "2"
        for axis in (1, -1):
            with pytest.raises(TypeError, match="out-of-bounds axis"):
                function(TensorXf([2], shape=()), axis=axis)


# --- construction ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value, shape", [
    (3, ()), (True, ()), (np.float32(2), ()), (np.array(3.0), ()), ([1, 2, 3], (3,)), ([7], (1,)), ([], (0,)),
    ([[], []], (2, 0)), ([[1, 2], [3, 4]], (2, 2)), ([[[1, 2], [3, 4]]], (1, 2, 2)), (range(4), (4,)),
    (np.arange(6.0).reshape(2, 3), (2, 3)), (np.zeros((2, 0, 3)), (2, 0, 3)),
    (np.asfortranarray(np.arange(6.0).reshape(2, 3)), (2, 3)), (np.arange(12).reshape(3, 4)[::-1, ::2], (3, 2)),
    ([np.arange(3.0), [4, 5, 6]], (2, 3)), (((k, k) for k in range(3)), (3, 2)),
])
def test_construction_from_host_data(value, shape):
    kept = list(value) if not isinstance(value, (int, float, np.ndarray, np.generic)) else value
    t = TensorXf(kept)
    assert t.shape == shape and t.ndim == len(shape) and len(t.array) == int(np.prod(shape))
    same(t, np.array([list(x) for x in kept] if isinstance(kept, list) and len(shape) > 1 else kept, dtype="f4")
         .reshape(shape))


@pytest.mark.parametrize("shape", [(6,), (2, 3), (3, 2, 1), (1, 6), (6, 1, 1)])
def test_construction_from_elements_and_a_shape(shape):
    expected = np.arange(6, dtype="f4").reshape(shape)
    same(TensorXf([0, 1, 2, 3, 4, 5], shape=shape), expected)
    same(TensorXf(dr.arange(Float, 6), shape), expected)
    same(TensorXf(TensorXf(np.arange(6.0).reshape(3, 2)), shape=shape), expected)


def test_without_arguments_a_tensor_is_empty():
    assert TensorXf().shape == (0,)


def test_construction_from_arrays_keeps_their_shape():
    same(TensorXf(Array3f([1, 2], [3, 4], [5, 6])), [[1, 2], [3, 4], [5, 6]])
    same(TensorXf(Array2f([1, 2], 3)), [[1, 2], [3, 3]])
    same(TensorXf(Array3f(1, 2, 3)), [[1], [2], [3]])
    same(TensorXf(Array3f([1, 2], [3, 4], [5, 6]), flip_axes=True), [[1, 3, 5], [2, 4, 6]])
    same(TensorXf(Array22f([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])), np.arange(1.0, 9).reshape(2, 2, 2))
    same(TensorXf([Float(1, 2), Float(3, 4)]), [[1, 2], [3, 4]])
    same(TensorXi(Float(1.5, 2)), [1, 2])


def test_tensors_convert_to_other_arrays():
    t = TensorXf([1, 2, 3, 4, 5, 6], shape=(3, 2))
    assert repr(Array3f(t)) == "[[1, 3, 5],\n [2, 4, 6]]"
    same(TensorXf(Array3f(t)), t.numpy())
    same(Float(TensorXf([1, 2])), [1, 2])
    same(TensorXf64(t), t.numpy())


@pytest.mark.parametrize("make, words", [
    (lambda: TensorXf([1, 2, 3], shape=(2, 2)), "got 3, expected 4"),
    (lambda: TensorXf(3, shape=(2, 2)), "got 1, expected 4"),
    (lambda: TensorXf([[1, 2], [3]]), "ragged"), (lambda: TensorXf("a"), "str"), (lambda: TensorXf(None), "NoneType"),
    (lambda: TensorXf([1], shape=(-1,)), "'shape' must be"), (lambda: TensorXf([1], shape=3.5), "'shape' must be"),
    (lambda: TensorXi([1.5]), "float"), (lambda: Array3f(TensorXf([1, 2, 3])), "1 dimensions"),
    (lambda: Array3f(TensorXf(np.zeros((2, 3)))), "axis 0 of the tensor has size 2"),
    (lambda: Float(TensorXf(np.zeros((2, 3)))), "2 dimensions"),
    (lambda: dr.zeros(TensorXf, (-1,)), "'shape'"), (lambda: dr.full(TensorXf, [4, 5], (2, 2)), "'value'"),
])
def test_errors_of_construction(make, words):
    with pytest.raises(TypeError, match=words):
        make()


@pytest.mark.parametrize("create, value", [(dr.zeros, 0), (dr.ones, 1)])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0, 3), (0,)])
def test_creation(create, value, shape):
    same(create(TensorXf, shape), np.full(shape, value))
    same(create(TensorXb, shape), np.full(shape, bool(value)))
    assert dr.empty(TensorXf, shape).shape == shape
    same(dr.full(TensorXi, 4, shape), np.full(shape, 4))
    same(dr.opaque(TensorXi, 4, shape), np.full(shape, 4))
    same(dr.ones_like(dr.zeros(TensorXf, shape)), np.ones(shape))


def test_creation_with_a_number_makes_one_dimension():
    assert dr.zeros(TensorXf).shape == (1,) and dr.zeros(TensorXf, 3).shape == (3,)
    same(dr.arange(TensorXf, 4), np.arange(4.0))


# --- operators -------------------------------------------------------------------------------------------------------

SHAPES = [(), (1,), (4,), (3, 1), (1, 4), (3, 4), (2, 1, 4), (2, 3, 1), (1, 1, 1), (2, 3, 4), (5, 1, 3, 4)]
EMPTY = [((0,), (1,)), ((0,), ()), ((2, 0), (1, 1)), ((3, 1), (0,)), ((1, 3), (2, 0, 1))]


@pytest.mark.parametrize("a, b", [(a, b) for a, b in itertools.product(SHAPES, SHAPES)] + EMPTY)
def test_broadcasting(a, b):
    (x, left), (y, right) = tensor(a), tensor(b)
    same(x + y, left + right)
    same(x < y, left < right)
    same(dr.minimum(x * 2, y), np.minimum(left * 2, right))
    same(dr.fma(x, y, 3), left * right + 3)
    same(dr.select(x > y, x, y), np.where(left > right, left, right))
    assert type(x == y) is TensorXb


@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.ge,
                                operator.eq, operator.ne, operator.pow])
def test_floating_point_operators(op):
    (x, a), (y, b) = tensor((3, 1)), tensor((4,))
    a, b = abs(a) + 1, abs(b) + 1
    x, y = abs(x) + 1, abs(y) + 1
    same(op(x, y), op(a, b), rtol=1e-5)
    same(op(x, 2), op(a, np.float32(2)), rtol=1e-6)
    same(op(2, x), op(np.float32(2), a), rtol=1e-5)
    same(op(x, Float(3)), op(a, np.float32(3)), rtol=1e-5)
    same(op(Float(3), x), op(np.float32(3), a), rtol=1e-5)
    same(op(x, Float(1, 2, 3, 4)), op(a, np.float32([1, 2, 3, 4])), rtol=1e-5)
    same(op(x, [1, 2]), op(a, np.float32([1, 2])), rtol=1e-5)
    same(op(x, np.float32([1, 2])), op(a, np.float32([1, 2])), rtol=1e-5)


@pytest.mark.parametrize("op", [operator.add, operator.and_, operator.or_, operator.xor, operator.mod, operator.lshift,
                                operator.rshift, operator.floordiv])
def test_integer_operators(op):
    a, b = np.arange(1, 13, dtype="i4").reshape(3, 4), np.arange(1, 4, dtype="i4").reshape(3, 1)
    same(op(TensorXi(a), TensorXi(b)), op(a, b))
    same(op(TensorXi(a), 3), op(a, 3))
    same(op(100, TensorXi(b)), op(100, b))


def test_unary_operators_and_masks():
    x, a = tensor((2, 3))
    same(-x, -a)
    same(abs(x), abs(a))
    same(~(x > 0), ~(a > 0))
    same(x**3, a**3)
    same(x & (x > 0), np.where(a > 0, a, 0))
    same(x & (x[0] > 0), np.where(a[0] > 0, a, 0))
    same(x & Bool(True), a)
    same(Float(2) & (x > 0), np.where(a > 0, 2, 0))
    same(dr.sqrt(abs(x)), np.sqrt(abs(a)), rtol=1e-6)
    same(dr.isnan(x / 0), np.isnan(a * np.nan) & (a == 0))
    same(dr.clip(x, -2, 2), np.clip(a, -2, 2))


def test_promotion():
    assert type(TensorXf(1) + TensorXi(1)) is TensorXf and type(TensorXi(1) + 1.5) is TensorXf
    assert type(TensorXi(1) + Float(1)) is TensorXf and type(TensorXb(True) + 1) is TensorXi
    assert type(Int(1) + TensorXu(1)) is TensorXu and type(TensorXf16(1) + 2.0) is TensorXf16
    assert type(TensorXf(1) + np.arange(2.0)) is TensorXf64


def test_in_place_operators_change_the_object():
    t = alias = TensorXf([1, 2])
    t += 1
    t *= TensorXf([2, 3])
    same(alias, [4, 9])
    with pytest.raises(RuntimeError, match=r"__iadd__\(\): the result has the shape \(2, 2\).*which is \(2,\)"):
        t += TensorXf([1, 2], shape=(2, 1))
    same(alias, [4, 9])
    t += TensorXf([1], shape=(1,))
    same(alias, [5, 10])


@pytest.mark.parametrize("operation, words", [
    (lambda t: t + TensorXf([1, 2, 3, 4]),
     r"TensorXf.__add__\(\): operands have incompatible shapes: drjit.llvm.TensorXf of shape \(2, 3\) and drjit"),
    (lambda t: t + Array2f(1, 2), "Array2f cannot be combined with tensors"),
    (lambda t: Array2f(1, 2) + t, "Array2f cannot be combined with tensors"),
    (lambda t: t + Float(1, 2), "incompatible shapes"), (lambda t: t * 2j, "complex"), (lambda t: t + "a", "str"),
    (lambda t: ~t, "float32"), (lambda t: dr.minimum(t, TensorXf([1, 2])), "drjit.minimum"),
    (lambda t: dr.gather(Float, t, UInt(0)), "source.array"), (lambda t: dr.scatter(t, 1, UInt(0)), "target.array"),
    (lambda t: t.T.x, "component"), (lambda t: TensorXf(np.zeros((1, 2, 3))).T, "mT"), (lambda t: t[0].mT, "two"),
    (lambda t: t.item(), "single element"), (lambda t: bool(t > 0), "exactly 1 element"),
])
def test_errors_of_operations(operation, words):
    with pytest.raises((TypeError, RuntimeError), match=words):
        operation(TensorXf(np.ones((2, 3))))


def test_select_with_a_bool_broadcasts():
    same(dr.select(True, TensorXf([1, 2]), TensorXf([1, 2], shape=(2, 1))), [[1, 2], [1, 2]])
    same(dr.select(Bool(True, False), TensorXf([1, 2]), 5), [1, 5])
    same(dr.select(TensorXb([True, False]), 1.0, 5), [1, 5])


def test_equal_shapes_and_scalars_fuse_into_one_kernel():
    x, y = dr.opaque(TensorXf, 2, (30, 40)), dr.opaque(TensorXf, 3, (30, 40))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        z = (x + y) * 2 - dr.sqrt(x) * Float(4)
        dr.eval(z)
        assert len(dr.kernel_history((dr.KernelType.JIT,))) == 1
    same(z, np.full((30, 40), 10 - np.sqrt(np.float32(2)) * 4), rtol=1e-6)


# --- properties, host ------------------------------------------------------------------------------------------------


def test_the_flat_array_is_live():
    t = TensorXf([1, 2, 3, 4], shape=(2, 2))
    flat = t.array
    assert type(flat) is Float and flat is t.array
    t.array[0] = 7
    dr.scatter(t.array, Float(9), UInt(3))
    same(t, [[7, 2], [3, 9]])
    t += 1
    same(flat, [8, 3, 4, 10])
    t.array *= 2
    same(t, [[16, 6], [8, 20]])
    t.array = Float(1)
    same(t, [[1, 1], [1, 1]])
    with pytest.raises(RuntimeError, match="3 elements"):
        t.array = Float(1, 2, 3)


def test_length_iteration_and_bool():
    t = TensorXf([1, 2, 3, 4], shape=(2, 2))
    assert len(t) == 2 and [list(map(float, row.array)) for row in t] == [[1, 2], [3, 4]]
    assert len(TensorXf(1)) == 0 and bool(TensorXb([True], shape=(1, 1))) and not bool(TensorXb(False))
    assert TensorXf([3], shape=(1, 1, 1)).item() == 3.0
    assert dr.width(t) == 4 and dr.shape(t) == (2, 2)


def test_transposes():
    t, a = tensor((2, 3, 4))
    same(t.mT, np.swapaxes(a, 1, 2))
    same(t[0].T, a[0].T)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 3, 4), (2, 0)])
def test_host_views_have_the_shape(shape):
    t, a = tensor(shape)
    same(t, a)
    np.testing.assert_array_equal(from_dlpack(t), a)
    np.testing.assert_array_equal(np.asarray(t), a)
    if a.size:
        assert t.memview().shape == shape and t.memview().tolist() == a.tolist()
        view = t.numpy()
        assert view.ctypes.data == t.numpy().ctypes.data
        t[...] = t + 0
        t.array[0] = 55
        dr.eval(t)
        assert t.numpy().reshape(-1)[0] == 55


def test_views_show_later_writes():
    t = TensorXf(np.zeros((2, 3)))
    view = t.numpy()
    t[1, 2] = 5
    dr.eval(t)
    dr.sync_thread()
    assert view[1, 2] == 5


@pytest.mark.parametrize("make", [lambda a: a, lambda a: a.T, lambda a: a[::2], lambda a: a[:1, :1].reshape(()),
                                  lambda a: a[:0]])
def test_dlpack_import(make):
    class Foreign:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **kwargs):
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    a = np.arange(12, dtype="f4").reshape(3, 4)
    part = make(a)
    same(TensorXf(Foreign(part)), part)


def test_repr():
    assert repr(TensorXf(3)) == "3" and repr(TensorXf()) == "[]" and repr(TensorXb([True, False])) == "[True, False]"
    assert repr(dr.zeros(TensorXf, (2, 0, 3))) == "[[],\n []]"
    assert repr(dr.zeros(TensorXf, (1, 2, 3))) == "[[[0, 0, 0],\n  [0, 0, 0]]]"
    assert repr(dr.zeros(TensorXf, (2, 30))) == \
        "[[0, 0, 0, .. 24 skipped .., 0, 0, 0],\n [0, 0, 0, .. 24 skipped .., 0, 0, 0]]"
    assert repr(dr.arange(TensorXf, 20)).count(",") == 19


def test_loops_carry_tensors():
    t, _ = dr.while_loop((TensorXf(np.zeros((2, 3))), UInt(0)), lambda t, i: i < 4, lambda t, i: (t + 2, i + 1))
    same(t, np.full((2, 3), 8))


@pytest.mark.parametrize("function", [
    lambda t, r: dr.power(Float(2), t), lambda t, r: dr.atan2(t, r), lambda t, r: dr.lerp(t, r, 0.5),
    lambda t, r: dr.sincosh(t)[1], lambda t, r: dr.sincos(t)[0], lambda t, r: dr.hypot(r, t), lambda t, r: dr.cbrt(t),
    lambda t, r: dr.mul_wide(TensorXu(t), TensorXu(r)), lambda t, r: dr.reinterpret_array(TensorXu, t),
    lambda t, r: dr.isfinite(t), lambda t, r: dr.clip(t, 0, r), lambda t, r: dr.copysign(t, r),
])
def test_functions_keep_and_broadcast_shapes(function):
    assert function(TensorXf(np.ones((2, 3))), TensorXf([1, 2, 3])).shape == (2, 3)


def test_statistics_and_products():
    t, a = tensor((4, 5))
    for axis in (None, 0, 1):
        same(dr.var(t, axis), a.var(axis=axis), rtol=1e-5)
        same(dr.std(t, axis, keepdims=True, ddof=1), a.std(axis=axis, keepdims=True, ddof=1), rtol=1e-5)
    same(dr.dot(t[0], t[1]), a[0] @ a[1])
    same(dr.norm(t[0]), np.linalg.norm(a[0]), rtol=1e-6)


@pytest.mark.parametrize("package", [llvm, scalar], ids=["llvm", "scalar"])
@pytest.mark.parametrize("name", ["TensorXf", "TensorXf64", "TensorXf16", "TensorXi", "TensorXu8", "TensorXi64"])
def test_the_flat_array_is_a_live_reference_in_every_package(package, name):
    cls = getattr(package, name)

    def numbers(value):
        return [float(entry) for entry in value]

    tensor = cls([1, 2, 3, 4], (2, 2))
    other, flat = cls(tensor), tensor.array
    assert tensor.array is flat
    flat[1] = 9
    assert numbers(tensor.array) == numbers(flat) == [1, 9, 3, 4] and tensor[0, 1] == 9
    tensor[1, 1] = 7
    assert numbers(flat) == [1, 9, 3, 7]
    flat += flat
    assert numbers(tensor.array) == numbers(flat) == [2, 18, 6, 14] and numbers((tensor + 0).array) == [2, 18, 6, 14]
    tensor += 1
    assert numbers(flat) == [3, 19, 7, 15]
    dr.scatter(tensor.array, type(flat)([20, 30]), dr.uint32_array_t(type(flat))([3, 0]))
    assert numbers(flat) == [30, 19, 7, 20] and tensor[0, 0] == 30
    dr.scatter_add(flat, type(flat)([1, 1]), dr.uint32_array_t(type(flat))([2, 2]))
    assert numbers(tensor.array) == [30, 19, 9, 20]
    tensor.array = type(flat)([5, 6, 7, 8])
    assert numbers(flat) == [5, 6, 7, 8]
    dr.eval(tensor)
    assert numbers(flat) == numbers(tensor.array) == [5, 6, 7, 8]
    assert numbers(other.array) == [1, 2, 3, 4]
    flat[flat > 6] = 0
    assert numbers(flat) == numbers(tensor.array) == [5, 6, 0, 0]
    flat[:2] = 1
    assert numbers(flat) == numbers(tensor.array) == [1, 1, 0, 0]
    tensor[:] = cls([[5, 6], [7, 8]])
    apart = type(flat)(flat)
    apart[0] = 50
    assert numbers(flat) == [5, 6, 7, 8]
    del tensor
    flat[0] = 6
    assert numbers(flat) == [6, 6, 7, 8]


def test_the_flat_array_is_a_live_reference_of_masks_of_one_element_and_of_none():
    for package in (llvm, scalar):
        mask = package.TensorXb([True, False], (2, 1))
        flat = mask.array
        flat[1] = True
        assert mask.numpy().tolist() == [[True], [True]]
        mask &= False
        assert [bool(entry) for entry in flat] == [False, False]
        one = package.TensorXf([3], (1, 1))
        flat = one.array
        flat *= 2
        assert one[0, 0] == 6
        one[0, 0] = 1
        assert flat[0] == 1
        none = package.TensorXf([], (0, 2))
        flat = none.array
        flat += flat
        assert len(flat) == 0 and none.shape == (0, 2)
    tensor = scalar.TensorXf([1])
    flat = tensor.array
    with pytest.raises(RuntimeError, match=r"ArrayXf: cannot replace the 1 elements of a tensor of the shape .* by 3"):
        flat += scalar.ArrayXf([1, 2, 3])
    assert tensor[0] == flat[0] == 1


def test_the_flat_array_of_a_scalar_tensor_has_no_numbers_while_a_symbolic_loop_writes_to_it():
    tensor = scalar.TensorXf([1, 2, 3])
    flat = tensor.array

    def body(i):
        tensor[0] = tensor[0] + 1
        for access in (lambda: flat[0], lambda: repr(flat + 1), lambda: flat.__setitem__(1, 5),
                       lambda: tensor.array[0]):
            with pytest.raises(RuntimeError, match="symbolic"):
                access()
        return (i + 1,)

    dr.while_loop((UInt(0),), lambda i: i < 3, body)
    assert list(flat) == list(tensor.array) == [4, 2, 3]
    flat[1] = 7
    assert list(tensor.array) == [4, 7, 3]


@pytest.mark.parametrize("package", [llvm, scalar], ids=["llvm", "scalar"])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2), (0, 2), (1, 1), (1,), ()])
def test_elements_in_the_order_of_columns_and_joined_without_axes_in_every_package(package, shape):
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    tensor = package.TensorXf(values)
    flat = dr.ravel(tensor, order="F")
    assert type(flat) is type(tensor.array)
    assert list(flat) == values.ravel(order="F").tolist()
    sizes = (values.size, 1)
    same(dr.reshape(tensor, sizes, order="F"), values.reshape(sizes, order="F"))
    if values.size == 12:
        same(dr.reshape(tensor, (2, -1), order="F"), values.reshape((2, -1), order="F"))
        found = dr.reshape(package.TensorXi, tensor, (4, 3), order="F")
        same(found, values.reshape((4, 3), order="F").astype(np.int32))
    joined = dr.concat([tensor, package.TensorXf([7, 8])], axis=None)
    assert type(joined) is type(flat) and list(joined) == [*values.ravel(), 7, 8]
