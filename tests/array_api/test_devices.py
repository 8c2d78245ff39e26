"""Arrays on a GPU beside arrays on the CPU: every function, on both, whatever the default device is. Run with ``pytest
--cuda=machine``; the last tests are for machines without a GPU."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
import zlib

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
import drjit.numpy as dnp
from drjit.sparse import coo_array
from drjit_core import JitBackend
from drjit_core.runtime.backends import backend_of
from tests.array_api import test_against_numpy as table
from tests.array_api import test_methods as methods
from tests.interop import test_gpu
from tests.numpy import test_functions as numpys

CREATE = {"arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros"}
#: Those of ``drjit.numpy``, which know no devices.
OF_NUMPY = {*CREATE, "array", "fftfreq", "identity", "rfftfreq"}
#: Functions that read what is on the device, and how: the host computes, or asks how many elements there are.
READ = {"nonzero", "repeat", "unique_all", "unique_counts", "unique_inverse", "unique_values", "linalg.det",
        "linalg.inv", "linalg.pinv", "linalg.svdvals", "linalg.slogdet", "linalg.solve", "linalg.cholesky",
        "linalg.eigvalsh", "linalg.eigh", "linalg.eigvals", "linalg.eig", "linalg.qr", "linalg.svd",
        "linalg.matrix_rank", "linalg.matrix_power",
        *(f"fft.{name}" for name in ("fft", "ifft", "fftn", "ifftn", "rfft", "rfftn", "irfft", "irfftn", "hfft",
                                     "ihfft"))}


@pytest.fixture
def gpu(request):
    """The simulated driver; new arrays are on the CPU unless they are told otherwise."""
    if not request.config.getoption("--cuda"):
        pytest.skip("needs --cuda=machine")
    xp.policy.device = "cpu"
    yield backend_of(JitBackend.CUDA.value).driver
    xp.policy.device = "cuda"


class On:
    """The namespace, or a part of it, with functions that make arrays on a device."""

    def __init__(self, device, part=xp):
        self._device, self._part = device, part

    def __getattr__(self, name):
        found = getattr(self._part, name)
        if name in ("linalg", "fft", "special") and self._part in (xp, dnp):
            return On(self._device, found)
        if self._part.__name__.startswith("drjit.numpy"):
            return (lambda *args, **kwargs: moved(found(*args, **kwargs), self._device)) if name in OF_NUMPY else found
        if name in CREATE or name in ("fftfreq", "rfftfreq"):
            return lambda *args, **kwargs: found(*args, device=self._device, **kwargs)
        return found


def moved(found, device):
    if isinstance(found, tuple):
        return tuple([moved(each, device) for each in found])
    return found.to_device(device) if isinstance(found, xp.Array) else found


def flat(found):
    return [entry for part in found for entry in flat(part)] if isinstance(found, (tuple, list)) else [found]


def chosen(name):
    """The cases of a function, each with one data type of every kind, but another one for each case."""
    for number, case in enumerate(table.CASES[name]):
        for kind in case.kinds:
            types = [dtype for dtype in table.KINDS[kind] if dtype != "float16" or not name.startswith(table.NO_HALVES)]
            yield number, case, types[zlib.crc32(f"{name} {number}".encode()) % len(types)]


@pytest.mark.parametrize("name", table.NAMES)
def test_functions(gpu, monkeypatch, name):
    """Results are those of NumPy, and on the device of the arguments: nothing is fetched from there, and the default
    device does not matter."""
    fetched = []
    download = gpu.download
    monkeypatch.setattr(gpu, "download", lambda address, count: fetched.append(count) or download(address, count))
    for number, case, dtype in chosen(name):
        what = f"{name} {number} {dtype}"
        arrays = [table.numbers(case.values, dtype, shape, k) for k, shape in enumerate(case.shapes)]
        with np.errstate(all="ignore"):
            expected = case.call(np, *arrays)
        scale = max([1.0, *[abs(complex(each)) for array in arrays for each in array.flat if np.isfinite(each)]])
        del fetched[:]
        found = case.call(On("cuda"), *[xp.asarray(array, device="cuda") for array in arrays])
        if name not in READ:
            assert not fetched, what
        assert {each.device for each in flat(found)} == {"cuda"}, what
        table.compare(found, expected, max(case.ulps, 1) * 4, what, scale)


@pytest.mark.parametrize("name", table.NAMES)
def test_functions_beside_a_default_device(gpu, name):
    """Arrays on the CPU stay there."""
    xp.policy.device = "cuda"
    for number, case, dtype in list(chosen(name))[:2]:
        arrays = [table.numbers(case.values, dtype, shape, k) for k, shape in enumerate(case.shapes)]
        found = case.call(On("cpu"), *[xp.asarray(array, device="cpu") for array in arrays])
        assert {each.device for each in flat(found)} == {"cpu"}, (number, dtype)


@pytest.mark.parametrize("name", sorted(set(methods.METHODS) - {"nonzero", "item"}))
def test_methods(gpu, name):
    program, types = methods.METHODS[name]
    for dtype in types[:1] + types[-1:]:
        array = methods.sample(dtype)
        found = program(xp.asarray(array, device="cuda"), lambda value: xp.asarray(value, device="cuda"))
        assert {each.device for each in flat(found)} == {"cuda"}
        methods.same(found, program(array, np.asarray))


@pytest.mark.parametrize("name", xp.special.__all__)
def test_special_functions(gpu, name):
    values = np.array([0.1, 0.35, 0.8])
    count = 2 if name in ("xlogy", "xlog1py", "rel_entr", "kl_div") else 1
    ours, theirs = (getattr(xp.special, name)(*[xp.asarray(values, device=device)] * count)
                    for device in ("cuda", "cpu"))
    assert ours.device == "cuda" and theirs.device == "cpu"
    # double precision, by functions of the other target: some hundred operations
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-13)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_creation(gpu, device):
    """Without a device, arrays are on that of the policy."""
    for name, calls in table.WITHOUT_ARRAYS.items():
        for number, call in enumerate(calls):
            found = call(On(device))
            assert found.device == device, (name, number)
            table.compare(found, call(np), 4, f"{name} {number}")
    xp.policy.device = device
    assert xp.__array_namespace_info__().default_device() == device
    for name, calls in table.WITHOUT_ARRAYS.items():
        assert {call(xp).device for call in calls} == {device}, name
    for found in (xp.asarray(2), xp.asarray([1.0, 2.0]), xp.asarray(np.ones(2)), xp.sin(0.5), xp.add(1, 2),
                  xp.float32(2.5), xp.asarray(dr.scalar.ArrayXf([1, 2])), xp.full(2, True)):
        assert found.device == device


def test_what_there_is(gpu):
    info = xp.__array_namespace_info__()
    assert info.devices() == ("cpu", "cuda")
    for device in (None, *info.devices()):
        assert info.default_dtypes(device=device)["real floating"] is xp.float64
        assert info.dtypes(device=device, kind="bool") == {"bool": xp.bool}
    with pytest.raises(ValueError, match=r"dtypes\(\): there is no device 'tpu'; there are 'cpu' and 'cuda'"):
        info.dtypes(device="tpu")
    with pytest.raises(ValueError, match=r"drjit\.array_api\.policy\.device\(\): there is no device 'gpu'"):
        xp.policy.device = "gpu"
    assert xp.policy.device == "cpu"


# --- two devices -----------------------------------------------------------------------------------------------------

#: Calls with arrays of shape (3,) on two devices, and what messages name: the function and the arguments.
MIXED = {
    "add": (lambda x, y: x + y, r"add\(\)", "'x1'", "'x2'"),
    "types": (lambda x, y: x + xp.astype(y, xp.int32), r"add\(\)", "'x1'", "'x2'"),
    "equal": (lambda x, y: x == y, r"equal\(\)", "'x1'", "'x2'"),
    "divide": (lambda x, y: xp.divide(x, y), r"divide\(\)", "'x1'", "'x2'"),
    "in place": (lambda x, y: x.__iadd__(y), r"add\(\)", "'x1'", "'x2'"),
    "logical": (lambda x, y: xp.logical_and(x, y), r"logical_and\(\)", "'x1'", "'x2'"),
    "where": (lambda x, y: xp.where(x > 1, y, 0), r"where\(\)", "'condition'", "'x1'"),
    "where 2": (lambda x, y: xp.where(x > 1, x, y), r"where\(\)", "'condition'", "'x2'"),
    "concat": (lambda x, y: xp.concat([x, y]), r"concat\(\)", r"'arrays\[0\]'", r"'arrays\[1\]'"),
    "stack": (lambda x, y: xp.stack([x, y]), r"stack\(\)", r"'arrays\[0\]'", r"'arrays\[1\]'"),
    "broadcast": (lambda x, y: xp.broadcast_arrays(x, y), r"broadcast_arrays\(\)", r"'arrays\[0\]'", r"'arrays\[1\]'"),
    "meshgrid": (lambda x, y: xp.meshgrid(x, y), r"meshgrid\(\)", r"'arrays\[0\]'", r"'arrays\[1\]'"),
    "matmul": (lambda x, y: x @ y, r"matmul\(\)", "'x1'", "'x2'"),
    "vecdot": (lambda x, y: xp.vecdot(x, y), r"vecdot\(\)", "'x1'", "'x2'"),
    "solve": (lambda x, y: xp.linalg.solve(x[:, None] * x, y), r"solve\(\)", "'x1'", "'x2'"),
    "clip": (lambda x, y: xp.clip(x, y, None), r"clip\(\)", "'x'", "'min'"),
    "take": (lambda x, y: xp.take(x, xp.astype(y, xp.int64)), r"take\(\)", "'x'", "'indices'"),
    "key": (lambda x, y: x[xp.astype(y, xp.int64)], r"__getitem__\(\)", "'self'", "'key'"),
    "mask": (lambda x, y: x[y > 1], r"__getitem__\(\)", "'self'", "'key'"),
    "assignment": (lambda x, y: x.__setitem__(slice(None), y), r"__setitem__\(\)", "'self'", "'value'"),
    "assignment by key": (lambda x, y: x.__setitem__(y > 1, 0), r"__setitem__\(\)", "'self'", "'key'"),
    "at": (lambda x, y: x.at[xp.asarray([0, 1, 0], device=x.device)].add(y), r"add\(\)", "'self'", "'values'"),
    "isin": (lambda x, y: xp.isin(x, y), r"isin\(\)", "'x1'", "'x2'"),
    "searchsorted": (lambda x, y: xp.searchsorted(x, y), r"searchsorted\(\)", "'x1'", "'x2'"),
    "diff": (lambda x, y: xp.diff(x, prepend=y), r"(diff|concat)\(\)", r"'arrays\[0\]'", r"'arrays\[1\]'"),
    "special": (lambda x, y: xp.special.xlogy(x, y), r"xlogy\(\)", "'x'", "'y'"),
    "sequence": (lambda x, y: xp.asarray([x, y]), r"asarray\(\)", "", ""),
    "uint": (lambda x, y: xp.astype(x, xp.uint64) < xp.astype(y, xp.int64), r"less\(\)", "'x1'", "'x2'"),
}


@pytest.mark.parametrize("eager", [0, 8192])
@pytest.mark.parametrize("name", MIXED)
def test_arrays_on_different_devices_are_refused(gpu, monkeypatch, name, eager):
    """With the function, the arguments and both devices; nothing has changed then."""
    monkeypatch.setattr(xp.policy, "eager", eager)
    call, function, first, second = MIXED[name]
    for devices in (("cuda", "cpu"), ("cpu", "cuda")):
        x, y = (xp.asarray([0.0, 1.0, 2.0], device=device) for device in devices)
        with pytest.raises(ValueError, match=rf"{function}: the arguments are on different devices: ") as caught:
            call(x, y)
        text = str(caught.value)
        assert re.search(rf"{first}.* on 'cuda'", text) or re.search(rf"{first}.* on 'cpu'", text)
        assert re.search(second, text) and "'cpu'" in text and "'cuda'" in text and "to_device()" in text
        assert (x.device, y.device) == devices and np.asarray(x).tolist() == [0, 1, 2] == np.asarray(y).tolist()


def test_numbers_go_beside_anything(gpu):
    x = xp.asarray([1.0, 2.0], device="cuda")
    for number in (2, 2.0, True, np.float32(2), xp.asarray(2.0), xp.asarray(2), xp.sum(xp.ones(2)),
                   xp.sum(xp.ones(20000)) / 1e4):
        for found in (x + number, number * x, x < number, xp.where(x > 1, x, number), xp.maximum(x, number)):
            assert found.device == "cuda"
            np.testing.assert_array_equal(np.asarray(found).shape, (2,))
    assert (x * (1 + 2j)).device == "cuda" and (x * xp.asarray(1 + 2j)).device == "cuda"
    assert (xp.ones(2) * xp.asarray(3.0, device="cuda")).device == "cpu"
    x[0] = xp.asarray(5)
    assert np.asarray(x).tolist() == [5, 2] and np.asarray(x[xp.asarray(1)]) == 2
    tracked = xp.asarray(2.0)
    dr.enable_grad(tracked)
    dr.backward(xp.sum(x * tracked))
    assert dr.grad(tracked).device == "cpu" and float(dr.grad(tracked)) == 7
    with pytest.raises(ValueError, match="different devices"):  # what is on the device remains there
        xp.ones(2) * xp.sum(x)


def test_numpy_arrays_go_where_the_array_is(gpu):
    x, other = xp.asarray([1.0, 2.0, 3.0], device="cuda"), np.array([1.0, 2, 3])
    for found in (x + other, other * x, x @ other, x == [1, 2, 3], x[np.array([2, 0])], x[[True, False, True]],
                  x.dot(other), x.at[np.array([0])].add(np.array([1.0])), x.searchsorted(other), x.clip(other, 9),
                  xp.concat([other, x]), xp.stack([x, other]), xp.broadcast_arrays(x, other)[1],
                  xp.meshgrid(other, x)[0], xp.vecdot(x, other), xp.logical_and(other, x), xp.take(x, np.array([1])),
                  dnp.r_[x, 1, 2], dnp.concatenate([other, x]), np.add(other, x), np.sin(x),
                  x.take(np.array([0])), x.repeat(np.array([1, 2, 0])), x.compress(other > 1)):
        assert found.device == "cuda"
    x[1:] = np.array([7.0, 8])
    x += other
    x[other > 2] = 0
    assert x.device == "cuda" and np.asarray(x).tolist() == [2, 9, 0]
    assert xp.asarray([x, x]).device == "cuda" and xp.asarray([[x[0], 1], [2, x[1]]]).device == "cuda"
    assert xp.asarray([x, [1, 2, 3]]).device == "cuda"


# --- from one to the other -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", table.ALL)
def test_there_and_back(gpu, dtype):
    for shape in ((), (3,), (2, 3), (2, 0)):
        array = table.numbers("few", dtype, shape, 1)
        x = xp.asarray(array)
        there = x.to_device("cuda")
        back = there.to_device("cpu")
        assert (x.device, there.device, back.device) == ("cpu", "cuda", "cpu")
        assert there.dtype == back.dtype == x.dtype and there.to_device("cuda") is there
        for found in (there, back, xp.astype(x, dtype, device="cuda"), xp.asarray(x, device="cuda"),
                      xp.from_dlpack(x, device="cuda"), xp.zeros_like(x, device="cuda") + there if dtype != "bool" else
                      there, xp.from_dlpack(there, device="cpu")):
            assert found.shape == shape
            np.testing.assert_array_equal(np.asarray(found), array)
    with pytest.raises(ValueError, match=r"to_device\(\): .* no streams"):
        x.to_device("cuda", stream=1)
    for refused in (lambda: xp.asarray(x, device="cuda", copy=False), lambda: xp.from_dlpack(x, device="cuda",
                    copy=False), lambda: xp.asarray(array, device="cuda", copy=False)):
        with pytest.raises(ValueError, match="copy"):
            refused()


def test_constants_move_without_an_evaluation(gpu):
    x = xp.full((1000, 1000), 2)
    there = x.to_device("cuda")
    assert there.tensor.state is dr.VarState.Literal and there.device == "cuda"


def test_derivatives_cross(gpu):
    x = xp.asarray([1.0, 2.0, 3.0])
    dr.enable_grad(x)
    y = xp.sin(x.to_device("cuda")) * 2
    assert y.device == "cuda" and dr.grad_enabled(y)
    dr.backward(xp.sum(y.to_device("cpu")))
    np.testing.assert_allclose(np.asarray(dr.grad(x)), 2 * np.cos([1, 2, 3]))
    dr.disable_grad(x)
    dr.enable_grad(x)
    dr.set_grad(x, xp.asarray([1.0, 0.0, 1.0]))
    y = x.to_device("cuda") ** 2
    found = dr.forward_to(y)
    assert found.device == "cuda"
    np.testing.assert_allclose(np.asarray(found), [2, 0, 6])


def test_dlpack(gpu):
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]], device="cuda")
    assert x.__dlpack_device__() == (2, 0) and xp.asarray([1]).__dlpack_device__() == (1, 0)
    taken = test_gpu.Taken(gpu, x, max_version=(1, 0))
    assert taken.device == (2, 0) and taken.numpy().tolist() == [[1, 2], [3, 4]]
    taken.let_go()
    z = xp.asarray([1 + 2j, 3], dtype=xp.complex64, device="cuda")
    capsule = z.__dlpack__(max_version=(1, 0))
    assert "dltensor_versioned" in repr(capsule)
    with pytest.raises(BufferError, match=r"__dlpack__\(\): complex numbers"):
        z.__dlpack__(copy=False)
    theirs = test_gpu.Theirs(gpu, np.array([1.0, 2.0, 3.0]))
    for found in (xp.from_dlpack(theirs), xp.asarray(theirs), xp.from_dlpack(dr.cuda.ad.TensorXf64([1, 2, 3])),
                  xp.asarray(dr.cuda.Float64(1, 2, 3)), xp.asarray(theirs, device="cuda", copy=True)):
        assert found.device == "cuda" and found.dtype == xp.float64
        assert np.asarray(found + 1).tolist() == [2, 3, 4]
    for found in (xp.from_dlpack(theirs, device="cpu"), xp.asarray(theirs, device="cpu"),
                  xp.from_dlpack(np.array([1.0, 2.0, 3.0]))):
        assert found.device == "cpu" and np.asarray(found).tolist() == [1, 2, 3]
    complexes = xp.from_dlpack(test_gpu.Theirs(gpu, np.array([1 + 2j, 3])))
    assert complexes.device == "cuda" and complexes.dtype == xp.complex128
    assert np.asarray(complexes).tolist() == [1 + 2j, 3]


def test_what_is_read_is_a_copy(gpu):
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]], device="cuda")
    assert x.numpy().tolist() == x.tolist() == np.asarray(x.__buffer__(0)).tolist() == [[1, 2], [3, 4]]
    assert np.from_dlpack(x, device="cpu").tolist() == [[1, 2], [3, 4]]
    assert float(x[0, 0]) == 1 and int(x[1, 1]) == 4 and bool(x[0, 1] == 2) and 3 in x and x.item(2) == 3
    assert repr(x) == "Array([[1., 2.],\n       [3., 4.]], dtype=float64)"
    with pytest.raises(ValueError, match=r"__array__\(\): a copy is needed, .* on the device 'cuda'"):
        np.asarray(x, copy=False)


def test_copies_and_pickles_stay_there(gpu):
    for x in (xp.asarray([1.0, 2.0], device="cuda"), xp.asarray([1 + 2j], device="cuda")):
        for found in (copy.copy(x), copy.deepcopy(x), x.copy(), pickle.loads(pickle.dumps(x)), xp.asarray(x, copy=True),
                      xp.positive(x)):
            assert found.device == "cuda" and found is not x
            np.testing.assert_array_equal(np.asarray(found), np.asarray(x))


# --- programs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", numpys.GROUPS)
def test_functions_of_numpy(gpu, group):
    """Those of ``drjit.numpy`` make arrays where their arguments are."""
    for number, (call, types) in enumerate(numpys.GROUPS[group]):
        if number % 3 and group in ("reductions", "searching") or (group, number) == ("polynomials", 3):
            continue  # the machine is slow; a polynomial is where its coefficients are
        dtype = types[number % len(types)]
        arrays = numpys.arrays(dtype, number)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = call(np, *arrays)
            found = call(On("cuda", dnp), *[xp.asarray(array, device="cuda") for array in arrays])
        if group not in ("creation", "signals", "polynomials", "types"):  # where some calls have no arrays
            assert {each.device for each in flat(found) if isinstance(each, xp.Array)} <= {"cuda"}, (group, number)
        numpys.same(found, expected)


def test_views_and_writes(gpu):
    x = xp.reshape(xp.arange(12.0, device="cuda"), (3, 4))
    same = np.arange(12.0).reshape(3, 4)
    row, column, corner = x[1], x.T[0], x[:2, 1:3]
    row += 1
    same[1] += 1
    column[...] = xp.asarray(-1.0)
    same.T[0] = -1
    corner *= corner
    same[:2, 1:3] *= same[:2, 1:3]
    x[xp.asarray([0, 2], device="cuda"), xp.asarray([3, -1], device="cuda")] = 9
    same[[0, 2], [3, -1]] = 9
    x[x > 8] = 0
    same[same > 8] = 0
    z = xp.zeros(3, dtype=xp.complex64, device="cuda")
    z.real[1:] = 2
    z.imag = xp.ones(3, device="cuda")
    for view, expected in ((x, same), (row, same[1]), (column, same.T[0]), (corner, same[:2, 1:3]),
                           (z, [1j, 2 + 1j, 2 + 1j]), (z.real, [0, 2, 2]), (x.ravel()[::-1], same.ravel()[::-1])):
        assert view.device == "cuda"
        np.testing.assert_array_equal(np.asarray(view), expected)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_loops_and_branches(gpu, mode):
    count, total = dr.while_loop((xp.zeros(4, dtype=xp.int64, device="cuda"), xp.zeros(4, device="cuda")),
                                 lambda count, total: count < xp.arange(4, device="cuda"),
                                 lambda count, total: (count + 1, total + xp.asarray(1.5)), mode=mode)
    assert count.device == total.device == "cuda" and total.tolist() == [0, 1.5, 3, 4.5]
    x = xp.arange(4.0, device="cuda")
    dr.enable_grad(x)
    y = dr.if_stmt((x,), x > 1.5, lambda x: x * x, lambda x: x - 1, mode=mode)
    dr.backward(xp.sum(y))
    assert y.device == "cuda" and y.tolist() == [-1, 0, 4, 9] and dr.grad(x).tolist() == [1, 1, 4, 6]


@dr.freeze
def frozen(x):
    return xp.linalg.inv(x) @ xp.ones(2, device=x.device) + xp.sort(x)[0]


@dr.freeze
def frozen_on_two(x):
    return x.to_device("cpu") * 2


def test_frozen_functions(gpu):
    for scale in (1.0, 2.0, 4.0):
        values = np.array([[2.0, 1], [0, 4]]) * scale
        found = frozen(xp.asarray(values, device="cuda"))
        assert found.device == "cuda"
        np.testing.assert_allclose(np.asarray(found), np.linalg.inv(values) @ np.ones(2) + np.sort(values)[0])
    with pytest.raises(RuntimeError, match=r"recorded for the backend 'cuda', and evaluates arrays of .* 'llvm'"):
        frozen_on_two(xp.asarray(values, device="cuda"))


GRADIENTS = {
    "elementwise": lambda x: xp.sin(x) * xp.exp(x) / (x + 5), "where": lambda x: xp.where(x > 1, x * x, -x),
    "matmul": lambda x: x @ x.T, "inv": xp.linalg.inv, "slogdet": lambda x: xp.linalg.slogdet(x)[1],
    "cholesky": lambda x: xp.linalg.cholesky(x @ x.T + xp.eye(3, device=x.device)), "svd": xp.linalg.svdvals,
    "qr": lambda x: xp.linalg.qr(x)[1], "eigh": lambda x: xp.linalg.eigh(x + x.T)[0], "pinv": xp.linalg.pinv,
    "solve": lambda x: xp.linalg.solve(x, x[0]), "fft": lambda x: xp.abs(xp.fft.fft(x)),
    "rfft": lambda x: xp.real(xp.fft.rfft(x)),
    "sort": xp.sort, "cumulative": lambda x: xp.cumulative_prod(x, axis=1),
    "std": lambda x: xp.std(x, axis=0), "norm": xp.linalg.vector_norm, "special": lambda x: xp.special.erf(x),
    "views": lambda x: x[1:, ::2] * x.T[0, 1],
    "take": lambda x: xp.take(x, xp.asarray([2, 0, 0], device=x.device), axis=1),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(gpu, name):
    """Those on the device are those on the CPU."""
    values, found = np.array([[4.0, 1, 0.5], [0.3, 3, 1.2], [2, 0.1, 5]]), {}
    for device in ("cpu", "cuda"):
        x = xp.asarray(values, device=device)
        dr.enable_grad(x)
        y = GRADIENTS[name](x)
        dr.backward(xp.sum(y * y))
        assert y.device == dr.grad(x).device == device
        found[device] = np.asarray(dr.detach(y)), np.asarray(dr.grad(x))
    for ours, theirs in zip(found["cuda"], found["cpu"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def test_random_numbers(gpu):
    """Generators draw on the device of their parameters, or of the policy; traced ones are the same everywhere."""
    xp.policy.device = "cuda"
    rng = dnp.random.default_rng(3)
    there = [rng.random(5), rng.normal(size=4), rng.integers(0, 10, 6), rng.permutation(5), rng.choice(4, 3)]
    assert {found.device for found in there} == {"cuda"}
    assert sorted(there[3].tolist()) == [0, 1, 2, 3, 4]
    xp.policy.device = "cpu"
    rng = dnp.random.default_rng(3)
    eager, xp.policy.eager = xp.policy.eager, 0
    try:
        here = [rng.random(5), rng.normal(size=4), rng.integers(0, 10, 6)]
    finally:
        xp.policy.eager = eager
    for one, other in zip(here, there[:3], strict=True):
        assert one.device == "cpu"
        # the same bits go in; normal numbers take logarithms and cosines of the other target
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12)
    low = xp.asarray([0.0, 10.0], device="cuda")
    for found in (rng.uniform(low, low + 1), rng.normal(low, 1.0), rng.gamma(low + 1), rng.poisson(low + 1)):
        assert found.device == "cuda" and found.shape == (2,)


def test_optimisers(gpu):
    opt = dr.opt.Adam(lr=0.5, params={"x": xp.asarray([1.0, 2.0], device="cuda")})
    for _ in range(2):
        dr.backward(xp.sum(opt["x"] ** 2))
        opt.step()
    assert opt["x"].device == "cuda" and np.all(np.asarray(dr.detach(opt["x"])) < [1, 2])


def test_sparse_matrices(gpu):
    dense = np.array([[1.0, 0, 2], [0, 3, 0]])
    A = coo_array((xp.asarray([1.0, 2, 3], device="cuda"), ([0, 0, 1], [0, 2, 1]))).tocsr()
    for found, expected in ((A @ np.ones(3), dense @ np.ones(3)),
                            (A @ xp.ones((3, 2), device="cuda"), dense @ np.ones((3, 2))),
                            (np.ones(2) @ A, np.ones(2) @ dense), (A.toarray(), dense),
                            ((A @ A.T).toarray(), dense @ dense.T), ((2 * A).data, [2, 4, 6])):
        assert found.device == "cuda"
        np.testing.assert_array_equal(np.asarray(found), expected)


# --- without a GPU ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(dr.has_backend(dr.JitBackend.CUDA), reason="there is a GPU")
@pytest.mark.parametrize("call", [
    lambda: xp.zeros(3, device="cuda"), lambda: xp.asarray([1], device="cuda"), lambda: xp.ones(2).to_device("cuda"),
    lambda: xp.astype(xp.ones(2), xp.int8, device="cuda"), lambda: xp.from_dlpack(np.ones(2), device="cuda"),
    lambda: xp.fft.fftfreq(3, device="cuda"), lambda: setattr(xp.policy, "device", "cuda"),
    lambda: xp.__array_namespace_info__().dtypes(device="cuda")])
def test_why_there_is_no_gpu(call):
    """The reason is that of ``python -m drjit``."""
    with pytest.raises(RuntimeError, match=r"^drjit\.array_api.*: the device 'cuda' is not available") as caught:
        call()
    assert dr.detail.missing_backend(dr.JitBackend.CUDA) in str(caught.value)
    assert xp.policy.device == "cpu" and xp.__array_namespace_info__().devices() == ("cpu",)


@pytest.mark.skipif(dr.has_backend(dr.JitBackend.CUDA), reason="there is a GPU")
@pytest.mark.parametrize("device", ["gpu", "cuda:0", 0, (2, 0), b"cpu"])
def test_unknown_devices(device):
    for call in (lambda: xp.zeros(3, device=device), lambda: xp.ones(2).to_device(device),
                 lambda: xp.from_dlpack(np.ones(2), device=device), lambda: setattr(xp.policy, "device", device)):
        with pytest.raises(ValueError, match=rf"there is no device {re.escape(repr(device))}; the only one is 'cpu'"):
            call()


def test_the_policy_shows_its_device():
    assert repr(xp.policy).endswith(f"device={xp.policy.device!r})")
