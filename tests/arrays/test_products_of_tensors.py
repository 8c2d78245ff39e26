"""Products of tensors, and copies with axes in another order, against NumPy: all types, any shapes, views, threads."""

import ctypes
import itertools
import mmap
import os
import subprocess
import sys

import numpy as np
import pytest

import drjit as dr
from drjit import llvm
from drjit._promotion.promote import wrap
from drjit.llvm import Bool, TensorXf, TensorXf16, TensorXf64, TensorXi, TensorXu
from drjit_core import import_shared, malloc_statistics, on_backend

TYPES = {"float16": llvm.TensorXf16, "float32": llvm.TensorXf, "float64": llvm.TensorXf64, "int8": llvm.TensorXi8,
         "uint8": llvm.TensorXu8, "int32": llvm.TensorXi, "uint32": llvm.TensorXu, "int64": llvm.TensorXi64,
         "uint64": llvm.TensorXu64}
#: Around the edges of tiles, panels, blocks and packets.
EXTENTS = (1, 2, 3, 5, 6, 7, 13, 15, 16, 17, 31, 33, 63, 64, 65, 97, 129, 255, 256, 257, 300)
#: Rounding of one product and sum, relative to the sum of the magnitudes.
TOLERANCE = {"float16": 1e-3, "float32": 3e-6, "float64": 1e-14}


def numbers(rng, shape, name):
    if name.startswith("float"):
        return rng.standard_normal(shape).astype(name)
    low = 0 if name.startswith("u") else -100
    return rng.integers(low, 100, shape).astype(name)


def assert_product(found, a, b, name):
    """``found`` is ``a @ b`` up to the rounding of sums; exactly, modulo the range, for integers."""
    if not name.startswith("float"):
        expected = np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(name)
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)
        return
    expected = np.matmul(a.astype(np.float64), b.astype(np.float64))
    scale = np.matmul(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64)))
    assert found.shape == expected.shape
    assert np.all(np.abs(found - expected) <= TOLERANCE[name] * scale + (1e-7 if name == "float16" else 0))


def both_ways(tensor, array, flagged):
    """A tensor of an array: as it is, or of the transposed array, with the flag that exchanges axes."""
    return tensor(np.ascontiguousarray(np.swapaxes(array, -1, -2))) if flagged else tensor(array)


@pytest.mark.parametrize("name", TYPES)
def test_products_agree_with_numpy(name):
    rng, tensor = np.random.default_rng(1), TYPES[name]
    for case in range(24):
        rows, columns, depth = (int(rng.choice(EXTENTS)) for _ in range(3))
        depth = 2100 if case == 5 else 0 if case == 6 else depth
        rows = 0 if case == 7 else rows
        first, second = (((), ()), ((3,), ()), ((2, 1), (1, 3)), ((), (4,)), ((5,), (5,)))[case % 5]
        a, b = numbers(rng, (*first, rows, depth), name), numbers(rng, (*second, depth, columns), name)
        flags = (bool(case & 1), bool(case & 2))
        found = dr.matmul(both_ways(tensor, a, flags[0]), both_ways(tensor, b, flags[1]), *flags)
        assert type(found) is tensor
        assert_product(found.numpy(), a, b, name)


@pytest.mark.parametrize("name", TYPES)
def test_products_with_vectors_agree_with_numpy(name):
    rng, tensor = np.random.default_rng(2), TYPES[name]
    shapes = ((1, 1), (1, 5), (5, 1), (3, 70000), (1, 200000), (70, 33), (5000, 17), (64, 64), (0, 5), (5, 0))
    for rows, depth in shapes:
        matrix, vector = numbers(rng, (rows, depth), name), numbers(rng, (depth,), name)
        for flag in (False, True):
            operand = both_ways(tensor, matrix, flag)
            assert_product(dr.matmul(operand, tensor(vector), At=flag).numpy(), matrix, vector, name)
            assert_product(dr.matmul(tensor(vector), both_ways(tensor, matrix.T, flag), Bt=flag).numpy(), vector,
                           matrix.T, name)
    batch, vectors = numbers(rng, (50, 9, 12), name), numbers(rng, (50, 12, 1), name)
    assert_product((tensor(batch) @ tensor(vectors)).numpy(), batch, vectors, name)
    assert_product((tensor(vectors[0, :, 0]) @ tensor(batch).mT).numpy(), vectors[0, :, 0], np.swapaxes(batch, 1, 2),
                   name)
    assert_product((tensor(vectors[:, :, 0]) @ tensor(vectors[3, :, 0])).numpy(), vectors[:, :, 0], vectors[3, :, 0],
                   name)


def test_transposed_operands_are_read_as_they_lie():
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((5, 70, 90)).astype("f4"), rng.standard_normal((5, 60, 90)).astype("f4")
    x, y = TensorXf(a), TensorXf(b)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        found = x @ y.mT
        dr.eval(found)
        history = dr.kernel_history()
    assert [entry["type"] for entry in history] == [dr.KernelType.BatchedGemm]
    assert_product(found.numpy(), a, np.swapaxes(b, 1, 2), "float32")
    z = x.mT  # the copy exists already
    dr.eval(z)
    assert_product((z @ x).numpy(), np.swapaxes(a, 1, 2), a, "float32")


#: Parts of tensors of the shape (4, 20, 30), some of which are read through by products, and some copied.
PARTS = {"rows": lambda x: x[:, 3:17], "columns": lambda x: x[:, :, 4:18], "steps": lambda x: x[:, ::2, :10],
         "batch": lambda x: x[::3], "entry": lambda x: x[1], "backwards": lambda x: x[:, ::-1],
         "column": lambda x: x[:, 5], "far": lambda x: x[:, :, ::3], "row": lambda x: x[2, :, 7:8]}


@pytest.mark.parametrize("name", PARTS)
def test_parts_as_operands_and_their_derivatives(name):
    """What products read of a tensor is what a copy of the part holds, and so are derivatives by it."""
    rng, part = np.random.default_rng(4), PARTS[name]
    array = rng.standard_normal((4, 20, 30))
    for exchanged in (False, True):
        expected = np.swapaxes(part(array), -1, -2) if exchanged else part(array)
        other = rng.standard_normal((expected.shape[-1], 3))
        found = []
        for copied in (False, True):
            x, y = llvm.ad.TensorXf64(array), llvm.ad.TensorXf64(other)
            dr.enable_grad(x, y)
            operand = part(x).mT if exchanged else part(x)
            product = (operand + 0 if copied else operand) @ y
            if not copied:
                assert_product(product.numpy(), expected, other, "float64")
            dr.backward(dr.sum(product * dr.cos(product), axis=None))
            found.append((dr.grad(x).numpy(), dr.grad(y).numpy()))
        for one, two in zip(*found, strict=True):  # sums in another order
            np.testing.assert_allclose(one, two, rtol=1e-11, atol=1e-11)


def test_parts_are_read_as_they_lie():
    rng = np.random.default_rng(5)
    x = TensorXf64(rng.standard_normal((4, 20, 30)))
    for part in (x[1:3, 3:17], x[:, :, 4:18], dr.detail.permuted((4, 20, 30), (0, 2, 1))(x)):
        y = TensorXf64(rng.standard_normal((part.shape[-1], 2)))
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            dr.eval(part @ y)
            assert {entry["type"] for entry in dr.kernel_history()} == {dr.KernelType.BatchedGemm}


def test_what_is_no_number_reaches_its_row_and_column_only():
    a, b = np.ones((40, 50), "f4"), np.ones((50, 60), "f4")
    a[3, 4], a[5, 6], b[7, 8] = np.nan, np.inf, -np.inf
    found = (TensorXf(a) @ TensorXf(b)).numpy()
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, a @ b)
        np.testing.assert_array_equal((TensorXf(a) @ TensorXf(b[:, 8])).numpy(), a @ b[:, 8])
        np.testing.assert_array_equal((TensorXf(a[3]) @ TensorXf(b)).numpy(), a[3] @ b)


def evaluated(a):
    x = TensorXf(a) * 1.5 - TensorXf(a) * 0.5
    dr.eval(x)
    return x


@pytest.mark.parametrize("make", [lambda a: dr.full(TensorXf, 0.5, a.shape), lambda a: TensorXf(a) * 1.5 - 0.25,
                                  evaluated, TensorXf], ids=["literal", "unevaluated", "evaluated", "imported"])
def test_operands_in_any_state(make):
    a = np.full((20, 30), 0.5, "f4")
    x = make(a)
    np.testing.assert_allclose((x @ x.T).numpy(), a @ a.T)
    np.testing.assert_allclose((x @ (x.T + 1)).numpy() * 2, 2 * (a @ (a.T + 1)))
    assert (x @ np.ones((30, 4), "f4")).shape == (20, 4)
    with pytest.raises(RuntimeError, match=r"incompatible shapes.*30 and 20"):
        x @ x


def test_masks_have_no_matrix_product() -> None:
    for package in (llvm, llvm.ad, dr.scalar):
        mask, values = package.TensorXb([True, False, True]), package.TensorXf([1, 2, 3])
        square = dr.reshape(package.TensorXb([True, False, True, True]), (2, 2))
        name = package.__name__.replace(".", r"\.")
        for multiply, function in (
                (lambda a, b: a @ b, rf"{name}\.\w+\.__matmul__\(\)"), (dr.matmul, r"drjit\.matmul\(\)")):
            for a, b in ((mask, mask), (mask, values), (values, mask), (square, square), (mask, [True, False, True]),
                         (mask[:1], mask[:1]), (mask[:0], mask[:0])):
                with pytest.raises(TypeError, match=rf"{function}: masks have no matrix product \(found {name}\."
                                                    rf".*Convert them to numbers, as in {name}\.TensorXf\(mask\)"):
                    multiply(a, b)
        with pytest.raises(TypeError, match=r"drjit\.matmul\(\): masks"):
            dr.matmul(square, square, At=True)
        with pytest.raises(TypeError, match=r"__matmul__\(\): masks"):
            square @= square
        with pytest.raises(TypeError, match=r"drjit\.dot\(.*elements of type bool"):
            dr.dot(mask, mask)
        assert (mask @ 2).array[0] == 2  # a number scales
    with pytest.raises(TypeError, match="masks have no matrix product"):
        Bool(True, False) @ llvm.TensorXb([True, False])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux's C library is known to be found, and to protect "
                    "a page so that reading it ends the process")
def test_foreign_memory_is_not_read_beyond_its_end():
    page = mmap.PAGESIZE
    library = ctypes.CDLL(None)
    for rows, columns in ((3, 5), (17, 33), (64, 64), (100, 7), (150, 131)):
        size = rows * columns * 4
        used = -(-size // page) * page
        region = mmap.mmap(-1, used + page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(region))
        assert library.mprotect(ctypes.c_void_p(start + used), ctypes.c_size_t(page), 0) == 0
        a = np.frombuffer(region, "f4", rows * columns, used - size).reshape(rows, columns)
        a[...] = np.arange(a.size).reshape(a.shape) % 7
        flat = import_shared(dr.VarType.Float32.value, start + used - size, a.size, region)
        x = TensorXf(wrap(llvm.Float, [flat]), (rows, columns))
        np.testing.assert_array_equal((x @ x.T).numpy(), a @ a.T)
        np.testing.assert_array_equal((x.T @ x).numpy(), a.T @ a)
        np.testing.assert_array_equal((x @ x[0]).numpy(), a @ a[0])
        np.testing.assert_array_equal((x[0] @ x.T).numpy(), a @ a[0])
        np.testing.assert_array_equal((x.T + 0).numpy(), a.T)


def test_symbolic_operands_and_loops():
    rng = np.random.default_rng(4)
    w = rng.standard_normal((12, 12)).astype("f4") / 4
    state = TensorXf(np.ones((3, 12), "f4"))
    weights = TensorXf(w)
    for _ in range(3):
        state = dr.maximum(state @ weights, 0) + 0.5
    expected = np.ones((3, 12))
    for _ in range(3):
        expected = np.maximum(expected @ w.astype("f8"), 0) + 0.5
    np.testing.assert_allclose(state.numpy(), expected, rtol=1e-6)  # a few roundings of single precision

    def body(i, total):  # the product is outside of the loop, whatever stands in it
        return i + 1, total + (weights @ weights)[1, 2].array

    _, total = dr.while_loop((llvm.UInt32(0), llvm.Float(0)), lambda i, total: i < 3, body)
    np.testing.assert_allclose(total.numpy(), 3 * (w @ w)[1, 2], rtol=1e-6)


def bits(threads):
    rng = np.random.default_rng(5)
    before = dr.thread_count()
    dr.set_thread_count(threads)
    try:
        results = []
        for rows, columns, depth in ((300, 200, 700), (7, 9, 60000), (1, 1, 300000), (1000, 1, 90), (1, 70, 30000)):
            a = TensorXf(rng.standard_normal((rows, depth)).astype("f4"))
            b = TensorXf(rng.standard_normal((depth, columns)).astype("f4"))
            results.append((a @ b).numpy().tobytes())
        results.append(TensorXf(rng.standard_normal((300, 401)).astype("f4")).T.numpy().tobytes())
        return results
    finally:
        dr.set_thread_count(before)


def test_bits_do_not_depend_on_the_number_of_threads():
    assert bits(1) == bits(2) == bits(5)


PROGRAM = """
import hashlib, numpy as np
from drjit.llvm import TensorXf, TensorXi8, TensorXf16
rng, found = np.random.default_rng(6), hashlib.sha256()
for tensor, name in ((TensorXf, "f4"), (TensorXf16, "f2"), (TensorXi8, "i1")):
    for shape in ((50, 300, 70), (1, 3000, 50), (50, 3000, 1)):
        a = tensor((rng.standard_normal(shape[:2]) * 9).astype(name))
        b = tensor((rng.standard_normal(shape[1:]) * 9).astype(name))
        found.update((a @ b).numpy().tobytes())
        found.update((tensor((rng.standard_normal((shape[1], 70)) * 9).astype(name)).T + 0).numpy().tobytes())
print(found.hexdigest())
"""


def test_both_levels_of_compilation_agree(tmp_path):
    found = set()
    for level in ("0", "2"):
        environment = {**os.environ, "DRJIT_OPT_LEVEL": level, "DRJIT_CACHE_DIR": str(tmp_path / level),
                       "PYTHONPATH": os.pathsep.join(sys.path)}
        result = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True,
                                timeout=300, check=True)
        found.add(result.stdout)
    assert len(found) == 1


def test_memory_does_not_grow():
    a = TensorXf(np.ones((130, 130), "f4"))
    known = []
    for repetition in range(300):
        dr.eval((a @ a.T) + (a.T @ a) + (a + repetition).T)
        if repetition in (50, 299):
            dr.sync_thread()
            statistics = malloc_statistics()
            known.append(statistics["in_use"] + statistics["cached"])
    assert known[0] >= known[1]


def permutations(rank):
    return list(itertools.permutations(range(rank)))


@pytest.mark.parametrize("name", [*TYPES, "bool"])
def test_axes_in_any_order(name):
    rng = np.random.default_rng(7)
    tensor = {**TYPES, "bool": llvm.TensorXb}[name]
    shapes = ((130, 131), (16, 1024), (1, 200, 90), (26, 33, 29), (9, 8, 17, 25), (40, 1, 30, 20), (8, 9, 10, 11, 3))
    for shape in shapes:
        array = rng.integers(0, 2, shape).astype(bool) if name == "bool" else numbers(rng, shape, name)
        x = tensor(array)
        orders = permutations(len(shape))
        for axes in [orders[k] for k in rng.permutation(len(orders))[:6]]:
            found = dr.transpose(x, axes)
            np.testing.assert_array_equal(found.numpy(), array.transpose(axes))
    np.testing.assert_array_equal(dr.moveaxis(x, 0, -1).numpy(), np.moveaxis(array, 0, -1))
    np.testing.assert_array_equal(dr.swapaxes(x, 1, 3).numpy(), np.swapaxes(array, 1, 3))


def test_transposed_copies_keep_every_bit():
    words = np.random.default_rng(8).integers(0, 1 << 32, (200, 300), dtype=np.uint64).astype(np.uint32)
    x = TensorXf(words.view("f4"))
    np.testing.assert_array_equal(x.T.numpy().view(np.uint32), words.T)
    large = np.random.default_rng(9).integers(0, 1 << 32, (1600, 2000), dtype=np.uint64)  # written past the cache
    np.testing.assert_array_equal(llvm.TensorXu64(large).T.numpy(), large.T)


def test_transposes_of_literals_and_of_few_elements_are_no_kernels():
    assert dr.zeros(TensorXf, (300, 400)).T.state == dr.VarState.Literal
    x = TensorXf(np.ones((300, 400), "f4"))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        dr.eval(TensorXf(np.ones((5, 6), "f4")).T + 1)
        dr.eval(x.T + 1)
        kinds = [entry["type"] for entry in dr.kernel_history()]
    assert kinds == [dr.KernelType.JIT, dr.KernelType.Memcpy, dr.KernelType.JIT]


def test_interpreter_and_kernels_agree():
    rng = np.random.default_rng(10)
    a, b = rng.integers(-9, 9, (3, 40, 50)), rng.integers(-9, 9, (50, 60))
    cases = {TensorXi: "i4", TensorXu: "u4", TensorXf: "f4", TensorXf64: "f8", TensorXf16: "f2"}

    def results():
        found = []
        for tensor, name in cases.items():
            x, y = tensor(a.astype(name)), tensor(b.astype(name))
            found += [(x @ y).numpy(), (y.T @ x.mT).numpy(), (x @ y[:, 0]).numpy(), dr.transpose(y @ y.T).numpy()]
        return found

    with on_backend("interpreter"):
        expected = results()
    for found, known in zip(results(), expected, strict=True):
        np.testing.assert_array_equal(found, known)


def test_debug_mode_and_masks():
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        x = TensorXf(np.ones((20, 30), "f4"))
        assert dr.all((x @ x.T).array == 30) == Bool(True)


@pytest.mark.parametrize("there", (False, True), ids=("expressions", "in memory"))
@pytest.mark.parametrize("kind", ("TensorXf", "TensorXf16", "TensorXi", "TensorXf64"))
def test_short_sums_of_products(kind: str, there: bool) -> None:
    generator = np.random.default_rng(0)
    type_ = getattr(llvm, kind)
    for a_shape, b_shape in (((4, 4), (4, 4)), ((3, 3), (3,)), ((3,), (3, 3)), ((50, 2), (2, 70)), ((3,), (3,)),
                             ((100, 3, 3), (100, 3, 3)), ((2, 1, 5, 4), (3, 4, 2)), ((100, 1, 3), (3, 1)),
                             ((1, 4), (4, 1)), ((6, 5), (5, 7))):
        a, b = (generator.integers(-4, 5, shape) for shape in (a_shape, b_shape))
        for offset in range(3):
            x, y = type_(a + offset), type_(b)
            if there:
                dr.eval(x, y)
            else:
                x, y = x * 1 + 0, 0 - (0 - y)
            found = x @ y
            np.testing.assert_array_equal(found.numpy(), (a + offset) @ b)
            np.testing.assert_array_equal(dr.matmul(x, y).numpy(), (a + offset) @ b)
            if a.ndim > 1 and b.ndim > 1:
                swapped = type_(np.swapaxes(b, -1, -2).copy())
                np.testing.assert_array_equal(dr.matmul(x, swapped, Bt=True).numpy(), (a + offset) @ b)
