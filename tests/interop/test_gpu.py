"""Exchange of a GPU's memory with a library that is made here: whose memory is read and written, who waits for whom,
and when memory goes back. Run with ``pytest --cuda=machine``."""

from __future__ import annotations

import ctypes
import gc
from types import SimpleNamespace

import numpy as np
import pytest

import drjit as dr
from drjit._arrays import dlpack
from drjit.interop import export_parts, frameworks, import_parts
from drjit_core import JitBackend, literal
from drjit_core.runtime.backends import backend_of
from tests.interop.harness import from_dlpack

cuda, ad = dr.cuda, dr.cuda.ad

#: Streams of the library.
SIDE, OTHER = 0x51DE, 0x07E4
#: Structures of capsules, which live as long as the tests.
_made: list[object] = []
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


@pytest.fixture(autouse=True)
def driver(request):
    """The simulated driver, which has noted nothing yet."""
    if request.config.getoption("--cuda") != "machine":
        pytest.skip("needs --cuda=machine")
    driver = backend_of(JitBackend.CUDA.value).driver
    gc.collect()
    del driver.orders[:]
    yield driver
    driver.behind = False
    driver.gone.clear()


class Theirs:
    """An array of another library, in memory of the device; notes what it is asked for and when it is given up."""

    def __init__(self, driver, values, *, view=None, device=(2, 0), ahead=0):
        values = np.ascontiguousarray(values)
        self.driver, self.whole, self.device, self.asked = driver, values, device, []
        self.address = driver.allocate(values.nbytes + ahead + 16) + ahead
        driver.upload(self.address, values.tobytes())
        shown = values if view is None else view(values)
        self.offset = shown.__array_interface__["data"][0] - values.__array_interface__["data"][0]
        self.shape, self.strides, self.dtype = shown.shape, shown.strides, values.dtype
        self.given_up = 0

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None, **options):
        self.asked.append(stream)
        managed = dlpack._DLManagedTensor()
        tensor, size = managed.tensor, self.dtype.itemsize
        shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        strides = (ctypes.c_int64 * len(self.shape))(*[step // size for step in self.strides])
        tensor.data, tensor.byte_offset = self.address, self.offset
        tensor.device_type, tensor.device_id = self.device
        tensor.ndim, tensor.shape, tensor.strides = len(self.shape), shape, strides
        tensor.code, tensor.bits, tensor.lanes = _CODES[self.dtype.kind], size * 8, 1

        @dlpack._Deleter
        def let_go(_address):
            self.given_up += 1

        managed.deleter = ctypes.cast(let_go, ctypes.c_void_p)
        _made.append((managed, shape, strides, let_go))
        return dlpack._capsule_new(ctypes.addressof(managed), dlpack._NAME, None)


class Taken:
    """What another library makes of one of our arrays."""

    def __init__(self, driver, array, **options):
        capsule = array.__dlpack__(**options)
        versioned = dlpack._capsule_is_valid(id(capsule), dlpack._VERSIONED)
        name = dlpack._VERSIONED if versioned else dlpack._NAME
        self.pointer = dlpack._capsule_pointer(id(capsule), name)
        dlpack._capsule_set_name(id(capsule), dlpack._TAKEN[name])
        self.managed = dlpack._STRUCTURES[name].from_address(self.pointer)
        self.flags = self.managed.flags if versioned else None
        tensor = self.managed.tensor
        self.device, self.address = (tensor.device_type, tensor.device_id), tensor.data
        kind = {code: kind for kind, code in _CODES.items()}[tensor.code]
        self.shape, self.dtype = tuple(tensor.shape[:tensor.ndim]), np.dtype(f"{kind}{tensor.bits // 8}")
        self.driver = driver

    def numpy(self):
        data = self.driver.download(self.address, int(np.prod(self.shape)) * self.dtype.itemsize)
        return np.frombuffer(data, self.dtype).reshape(self.shape)

    def write(self, values):
        self.driver.upload(self.address, np.asarray(values, self.dtype).tobytes())

    def let_go(self):
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.managed.deleter)(self.pointer)


def blocks(driver):
    return set(driver.machine.memory.blocks)


# --- export ----------------------------------------------------------------------------------------------------------


def test_the_device_is_the_gpu_and_memory_is_shared_both_ways(driver):
    x = dr.arange(cuda.Float, 10) + 1
    assert x.__dlpack_device__() == (2, 0)
    taken = Taken(driver, x)
    assert taken.device == (2, 0) and taken.shape == (10,) and taken.dtype == np.float32
    np.testing.assert_array_equal(taken.numpy(), np.arange(1, 11))
    taken.write(range(10))
    assert dr.all(x == dr.arange(cuda.Float, 10))
    x[3] = 7
    assert taken.numpy()[3] == 7
    y = cuda.TensorXf(cuda.Float(1, 2, 3, 4), (2, 2))
    again = Taken(driver, y)
    again.write([[5, 6], [7, 8]])
    assert again.shape == (2, 2) and y.numpy().tolist() == [[5, 6], [7, 8]]
    taken.let_go(), again.let_go()


@pytest.mark.parametrize(("stream", "handle"), [(None, 1), (1, 1), (2, 2), (SIDE, SIDE)])
def test_the_consumers_stream_waits_for_ours_and_ours_for_it_when_it_lets_go(driver, stream, handle):
    x = dr.arange(cuda.Float, 10) * 2
    taken = Taken(driver, x, stream=stream)
    assert driver.orders == [(driver.stream, handle)]
    taken.let_go()
    # a stream that somebody has made may be gone by then: all there is is waited for
    assert driver.orders == [(driver.stream, handle), (handle if handle in (0, 1, 2) else -1, driver.stream)]


def test_nobody_waits_where_none_is_asked_for(driver):
    taken = Taken(driver, dr.arange(cuda.Float, 10) * 2, stream=-1)
    assert driver.orders == []
    taken.let_go()
    assert driver.orders == [(1, driver.stream)]


@pytest.mark.parametrize("stream", [0, -2, "1", 1.5, True])
def test_other_streams_are_refused(driver, stream):
    before = len(dlpack._exported)
    with pytest.raises(BufferError, match=r"Float.__dlpack__\(\): 'stream'"):
        cuda.Float(1, 2).__dlpack__(stream=stream)
    assert driver.orders == [] and len(dlpack._exported) == before


def test_exports_keep_their_memory_and_nobody_gets_it_before_the_consumer_lets_go(driver):
    x = dr.arange(cuda.Float, 1000) + 5
    taken = Taken(driver, x, stream=SIDE)
    del x
    others = [dr.eval(dr.arange(cuda.Float, 1000) * k) for k in range(20)]
    assert taken.numpy()[-1] == 1004
    statistics = backend_of(JitBackend.CUDA.value).memory_statistics
    before = statistics()["in_use"]
    taken.let_go()
    assert driver.orders[-1] == (-1, driver.stream) and statistics()["in_use"] < before
    del others


def test_a_stream_that_is_gone_is_waited_for_with_all_others(driver):
    taken = Taken(driver, cuda.Float(1, 2), stream=SIDE)
    driver.gone.add(SIDE)
    taken.let_go()
    assert driver.orders[-1] == (-1, driver.stream)


def test_a_capsule_that_nobody_takes_gives_the_memory_back(driver):
    before = len(dlpack._exported)
    capsule = cuda.Float(1, 2).__dlpack__(stream=SIDE)
    assert len(dlpack._exported) == before + 1
    del capsule
    assert len(dlpack._exported) == before and driver.orders[-1] == (-1, driver.stream)


def test_exports_to_the_cpu_are_copies(driver):
    x = cuda.Float(1, 2, 3)
    assert from_dlpack(x).tolist() == [1, 2, 3]
    taken = SimpleNamespace(x=x.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))
    managed = dlpack._STRUCTURES[dlpack._VERSIONED].from_address(
        dlpack._capsule_pointer(id(taken.x), dlpack._VERSIONED))
    assert managed.tensor.device_type == 1 and managed.flags == 2 and driver.orders == []
    with pytest.raises(BufferError, match=r"device \(2, 0\).*\(1, 0\).*copy=False"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match=r"device \(2, 0\).*dl_device=\(2, 1\)"):
        x.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError, match="dl_device"):
        x.__dlpack__(dl_device="cpu")


def test_copies_stay_on_the_device(driver):
    x = cuda.Float(1, 2, 3)
    taken = Taken(driver, x, copy=True, max_version=(1, 0))
    assert taken.device == (2, 0) and taken.flags == 2
    taken.write([4, 5, 6])
    assert list(x) == [1, 2, 3]
    taken.let_go()


def test_nested_arrays_are_put_in_one_piece_on_the_device(driver):
    for array in (cuda.Array3f([1, 2], 3, [4, 5]), cuda.Matrix2f([[1, 2], [3, 4]]), cuda.Quaternion4f(1, 2, 3, [4, 5]),
                  ad.Array2f(1, [2, 3]), cuda.ArrayXf([[1, 2], [3, 4]]), cuda.Array2b(True, [False, True])):
        taken = Taken(driver, array, max_version=(1, 0))
        assert taken.device == (2, 0) and taken.flags == 2
        np.testing.assert_array_equal(taken.numpy(), array.numpy())
        taken.let_go()
    with pytest.raises(BufferError, match="copy"):
        cuda.Array3f(1).__dlpack__(copy=False)


@pytest.mark.parametrize("name", ["Complex2f", "Complex2f64", "Complex2f16"])
def test_complex_arrays_are_interleaved_on_the_device(driver, name):
    kind = getattr(cuda, name, None)
    if kind is None:
        pytest.skip(f"there is no {name}")
    x = kind([1, 2, 3], [4, 5, 6])
    taken = Taken(driver, x)
    assert taken.shape == (3,) and taken.dtype == x.numpy().dtype
    np.testing.assert_array_equal(taken.numpy(), x.numpy())
    taken.let_go()


def test_parts_are_exported_on_the_device(driver):
    one = SimpleNamespace(__dlpack__=lambda **options: export_parts("f", [cuda.TensorXf([[1, 2]])], **options))
    taken = Taken(driver, one, stream=SIDE, max_version=(1, 0))
    assert taken.flags == 1 and taken.shape == (1, 2) and driver.orders == [(driver.stream, SIDE)]
    taken.let_go()
    for kind in (cuda.TensorXf, cuda.TensorXf64, cuda.TensorXf16):
        parts = [kind([[1, 2, 3]]), kind([[4, 5, 6]])]
        two = SimpleNamespace(__dlpack__=lambda parts=parts, **options: export_parts("f", parts, **options))
        taken = Taken(driver, two, max_version=(1, 0))
        np.testing.assert_array_equal(taken.numpy(), [[1 + 4j, 2 + 5j, 3 + 6j]])
        taken.let_go()


@pytest.mark.parametrize("name", ["Bool", "Int8", "UInt8", "Int16", "UInt", "Int64", "Float16", "Float64"])
def test_elements_of_all_types_are_exported(driver, name):
    x = getattr(cuda, name)([True, False, True] if name == "Bool" else [1, 0, 1])
    taken = Taken(driver, x)
    assert taken.dtype == x.numpy().dtype and taken.numpy().tolist() == [1, 0, 1]
    taken.let_go()


def test_literals_and_empty_arrays_are_exported(driver):
    x = cuda.Float(3)
    taken = Taken(driver, x)
    taken.write([5])
    assert x[0] == 5
    for array in (cuda.Float(), cuda.TensorXf(cuda.Float(), (0, 3)), cuda.Complex2f([], [])):
        empty = Taken(driver, array)
        assert empty.address is None and 0 in empty.shape
        empty.let_go()
    taken.let_go()


# --- import ----------------------------------------------------------------------------------------------------------


def address(array):
    taken = Taken(None, array, max_version=(1, 0))
    found = taken.address
    taken.let_go()
    return found


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64"])
def test_memory_is_imported_without_a_copy(driver, dtype):
    source = Theirs(driver, np.array([[1, 0, 1], [0, 1, 1]], dtype))
    suffix = {"bool": "b", "int32": "i", "float32": "f"}.get(dtype) or dtype[0] + dtype.strip("intfloau")
    kind = getattr(cuda, f"TensorX{suffix}")
    x = kind(source)
    assert source.asked == [driver.stream] and address(x) == source.address and x.shape == (2, 3)
    np.testing.assert_array_equal(x.numpy(), source.whole)
    driver.upload(source.address, (1 - source.whole.astype(int)).astype(dtype).tobytes())
    np.testing.assert_array_equal(x.numpy(), 1 - source.whole.astype(int))


def test_imports_are_copied_before_they_are_written_to(driver):
    source = Theirs(driver, np.arange(4, dtype=np.float32))
    x = cuda.Float(source)
    x[1] = 9
    assert list(x) == [0, 9, 2, 3]
    assert driver.download(source.address, 16) == source.whole.tobytes()
    y = cuda.Float(source)
    dr.scatter(y, 5, cuda.UInt(2))
    assert list(y) == [0, 1, 5, 3] and driver.download(source.address, 16) == source.whole.tobytes()


VIEWS = {
    "every other one": lambda a: a[::2], "backwards": lambda a: a[::-1], "transposed": lambda a: a.T,
    "a column": lambda a: a[:, 1], "moved": lambda a: a[1:, 1:], "one row": lambda a: a[2:3, 3:],
    "empty": lambda a: a[:0],
    "broadcast": lambda a: np.broadcast_to(a[:, :1], (4, 3)), "all": lambda a: a,
}


@pytest.mark.parametrize("dtype", ["float32", "uint8", "complex64", "complex128"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("ahead", [0, 8])
def test_views_of_any_strides_are_imported(driver, view, dtype, ahead):
    values = (np.arange(20).reshape(4, 5) * (1 + 2j if dtype.startswith("c") else 1)).astype(dtype)
    parts = import_parts("f", Theirs(driver, values, view=VIEWS[view], ahead=ahead))
    assert isinstance(parts[0], ad.TensorXf if dtype == "float32" else dr.ArrayBase)
    found = parts[0].numpy() + (1j * parts[1].numpy() if len(parts) == 2 else 0)
    np.testing.assert_array_equal(found, VIEWS[view](values))


def test_rows_anywhere_are_read(driver):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    for ahead in (0, 4, 8, 2):
        array = cuda.Array3f(Theirs(driver, values, ahead=ahead))
        np.testing.assert_array_equal((array + 1).numpy(), values + 1)
    # neighbours in rows, which kernels read at once
    points = cuda.Float(Theirs(driver, np.arange(40, dtype=np.float32), ahead=4))
    found = dr.gather(cuda.Array4f, points, dr.arange(cuda.UInt, 10))
    np.testing.assert_array_equal(found.numpy(), np.arange(40).reshape(10, 4).T)


def test_elements_are_converted_on_the_device(driver):
    assert list(cuda.Float(Theirs(driver, np.array([1, 2, 3], np.int64)))) == [1, 2, 3]
    z = cuda.Complex2f(Theirs(driver, np.array([1 + 2j, 3 - 1j], np.complex64)))
    assert list(z.real) == [1, 3] and list(z.imag) == [2, -1]
    x = ad.Float(Theirs(driver, np.array([1, 2], np.float32)))
    dr.enable_grad(x)
    dr.backward(dr.sum(x * x))
    assert list(x.grad) == [2, 4]
    assert cuda.Array2f(Theirs(driver, np.ones((3, 2), np.float32)), flip_axes=True).shape == (2, 3)


def test_memory_goes_back_when_the_launches_that_use_it_have_run(driver):
    source = Theirs(driver, np.arange(1000, dtype=np.float32))
    x = cuda.Float(source)
    y = x + 1
    driver.behind = True
    del x
    dr.eval(y)
    gc.collect()
    assert source.given_up == 0
    driver.behind = False
    dr.sync_thread()
    assert source.given_up == 1 and y[999] == 1000


def test_memory_goes_back_at_the_latest_when_more_is_imported(driver):
    sources = [Theirs(driver, np.ones(10, np.float32)) for _ in range(3)]
    driver.behind = True
    for source in sources[:2]:
        dr.eval(cuda.Float(source) * 2)
    driver.behind = False
    x = cuda.Float(sources[2])
    wanted = [source.given_up for source in sources]
    dr.sync_thread()
    assert [source.given_up for source in sources] == [1, 1, 0] and wanted[2] == 0
    assert dr.all(x == 1)


def test_a_thousand_round_trips_need_no_more_memory(driver):
    x = dr.arange(cuda.Float, 100) + 1
    before, exported = None, len(dlpack._exported)
    for k in range(1000):
        x = cuda.Float(Ours(x)) + 1
        dr.eval(x)
        if k == 50:
            before = len(blocks(driver))
    dr.sync_thread()
    assert x[0] == 1001 and len(blocks(driver)) <= before and len(dlpack._exported) <= exported + 2


class Ours:
    """One of our arrays, as a library would hand it on."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_managed_memory_is_that_of_the_gpu(driver):
    assert list(cuda.Float(Theirs(driver, np.array([1, 2], np.float32), device=(13, 0)))) == [1, 2]


def test_memory_of_the_host_is_copied_to_the_device(driver):
    assert list(cuda.Float(memoryview(np.ones(2, np.float32)))) == [1, 1]
    assert list(cuda.Float(Ours(dr.scalar.ArrayXf(1, 2)))) == [1, 2]


def test_other_gpus_are_refused(driver):
    with pytest.raises(BufferError, match=r"Theirs.*\(2, 1\) of DLPack \(CUDA\).*\(2, 0\)"):
        cuda.Float(Theirs(driver, np.ones(2, np.float32), device=(2, 1)))
    with pytest.raises(BufferError, match=r"\(2, 0\) of DLPack \(CUDA\).*drjit.cuda"):
        dr.scalar.ArrayXf(Theirs(driver, np.ones(2, np.float32)))
    with pytest.raises(BufferError, match=r"\(8, 0\) of DLPack \(Metal\)"):
        cuda.Float(Theirs(driver, np.ones(2, np.float32), device=(8, 0)))


def test_a_capsule_alone_is_behind_the_default_stream(driver):
    class Old:
        def __dlpack__(self, stream=None):
            return Theirs(driver, np.ones(2, np.float32)).__dlpack__()

    assert list(cuda.Float(Old())) == [1, 1] and driver.orders == [(1, driver.stream)]


# --- the CUDA array interface ----------------------------------------------------------------------------------------


def test_the_interface_tells_of_memory_and_stream(driver):
    x = cuda.Float(1, 2, 3)
    told = x.__cuda_array_interface__
    assert told["shape"] == (3,) and told["typestr"] == "<f4" and told["stream"] == driver.stream
    where, read_only = told["data"]
    assert where == address(x) and not read_only
    driver.upload(where, np.array([4, 5, 6], np.float32).tobytes())
    assert list(x) == [4, 5, 6]
    x += 1
    dr.eval(x)
    dr.eval([dr.arange(cuda.Float, 3) + k for k in range(9)])
    assert np.frombuffer(driver.download(where, 12), np.float32).tolist() == [4, 5, 6]  # as long as there is the array
    del driver.orders[:]
    del x
    assert driver.orders == [(1, driver.stream)] and not dlpack._told
    for array in (cuda.Array2f(1, 2), dr.scalar.ArrayXf(1), cuda.BFloat16(1, 2)):
        assert not hasattr(array, "__cuda_array_interface__")


class Device:
    """An array of a library that has the interface alone."""

    def __init__(self, driver, values, **fields):
        self.theirs = Theirs(driver, values)
        self.__cuda_array_interface__ = {
            "version": 3, "shape": values.shape, "typestr": values.dtype.str, "data": (self.theirs.address, False),
            "strides": None} | fields


def test_the_interface_of_others_is_imported(driver):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = cuda.TensorXf(Device(driver, values, stream=SIDE))
    assert driver.orders == [(SIDE, driver.stream)]
    np.testing.assert_array_equal(x.numpy(), values)
    flat = Device(driver, np.arange(6, dtype=np.float32), shape=(3,), strides=(8,))
    assert list(cuda.Float(flat)) == [0, 2, 4]
    assert list(cuda.Complex2f(Device(driver, np.array([1 + 2j], np.complex64))).imag) == [2]
    empty = Device(driver, np.ones(1, np.float32), shape=(0,), data=(0, False))
    assert len(cuda.Float(empty)) == 0
    for fields, error in (({"typestr": "<M8"}, "<M8"), ({"mask": 1}, "masked"), ({"strides": (3,)}, "multiples")):
        with pytest.raises(TypeError, match=error):
            cuda.Float(Device(driver, np.ones(2, np.float32), **fields))


def test_frozen_functions_do_not_export():
    def f(x):
        y = x + 1
        y.__dlpack__()
        return y

    with pytest.raises(RuntimeError, match=r"__dlpack__\(\): this program is being recorded"):
        dr.freeze(f)(cuda.Float(1, 2))


def test_broadcasts_of_literals_are_written_out(driver):
    x = dr.full(cuda.Float, 2, 5)
    assert x._nodes()[0].kind == literal(x._type, 1).kind
    taken = Taken(driver, x)
    assert taken.numpy().tolist() == [2] * 5
    taken.let_go()


# --- frameworks ------------------------------------------------------------------------------------------------------


class Doubling(frameworks.Framework):
    """A framework that works on a stream of its own, and whose functions have the derivative 2."""

    name = module = package = "doubling"

    def __init__(self, driver):
        self.driver = driver

    def load(self, function):
        return self

    def is_array(self, value):
        return isinstance(value, Theirs)

    def is_floating(self, value):
        return True

    def export(self, *parts):
        taken = Taken(self.driver, frameworks._View(parts, immutable=False), stream=SIDE)
        assert taken.device == (2, 0)
        found = Theirs(self.driver, taken.numpy())
        taken.let_go()
        return found

    def plain(self, value):
        return value

    def differentiate(self, function, arrays, tracked):
        self.reverse = lambda gradients: [self.double(gradient) for gradient in gradients]
        self.forward = self.reverse
        return function(arrays), self

    def embed(self, inner, arrays):
        found = inner.run(arrays, [True for _ in arrays])
        self.gradients = inner.reverse([Theirs(self.driver, np.ones(one.shape, np.float32)) for one in found])
        return found

    def double(self, array):
        return Theirs(self.driver, array.whole * 2)


def test_what_frameworks_get_and_give_stays_on_the_device(driver, monkeypatch):
    framework = Doubling(driver)
    monkeypatch.setitem(frameworks.FRAMEWORKS, "doubling", framework)
    double = dr.wrap("drjit", "doubling")(framework.double)
    x = ad.TensorXf([1, 2, 3])
    dr.enable_grad(x)
    y = double(x)
    assert isinstance(y, ad.TensorXf) and y.numpy().tolist() == [2, 4, 6]
    dr.backward(dr.sum(y * y))
    assert x.grad.numpy().tolist() == [8, 16, 24]
    assert set(driver.orders) == {(driver.stream, SIDE), (-1, driver.stream)}
    dr.set_grad(x, 1)
    assert dr.forward_to(double(x)).numpy().tolist() == [2, 2, 2]

    square = dr.wrap("doubling", "drjit")(lambda a: a * a)
    found = square(Theirs(driver, np.array([1, 2, 3], np.float32)))
    assert found.whole.tolist() == [1, 4, 9] and framework.gradients[0].whole.tolist() == [2, 4, 6]


def test_frameworks_get_a_copy_of_what_belongs_to_others(driver):
    x = cuda.Float(Theirs(driver, np.ones(4, np.float32)))
    for immutable in (False, True):
        taken = Taken(driver, frameworks._View([x], immutable=immutable))
        assert (taken.address == address(x)) == immutable
        taken.let_go()
    parts = [cuda.TensorXf([1, 2]), cuda.TensorXf([3, 4])]
    taken = Taken(driver, frameworks._View(parts, immutable=False))
    assert taken.numpy().tolist() == [1 + 3j, 2 + 4j]
    taken.let_go()


def test_the_array_api_says_that_it_has_no_such_memory(driver):
    import drjit.array_api as xp

    with pytest.raises(BufferError):
        xp.from_dlpack(Theirs(driver, np.ones(2, np.complex64), device=(8, 0)))
