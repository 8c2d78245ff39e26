"""Exchange of a GPU's memory with PyTorch, CuPy, JAX and Numba, on a device, within a minute.

    python -m conformance.gpu_interop [--only LIBRARY] [--seconds 60]

A line for each check, as it ends: ``ok``, ``FAILED`` or ``skipped``, the library, the check, its time, and what was
seen.  Libraries that are not installed, or have no device, are skipped.  The status is 1 if something failed, 2 without
a GPU.

Checks of streams keep one library at work for some 0.1 s, and let the other one look at, or use again, what that works
on: a wait that is missing gives wrong values.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "compiler")]
# Others keep the memory that they have had, or take most of it at once.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np  # noqa: E402

import drjit as dr  # noqa: E402
from drjit_core import JitBackend, backend_report, has_backend, malloc_statistics  # noqa: E402
from drjit_core.runtime.gpu.backend import the_gpu  # noqa: E402

LIBRARIES = ("torch", "cupy", "jax", "numba")
SIZE = 1 << 20
#: Cycles that ``torch.cuda._sleep`` waits, iterations of a loop of ours: 0.1 s or less each.
CYCLES, ITERATIONS = 200_000_000, 5_000_000
TYPES = {"bool": "Bool", "uint8": "UInt8", "int8": "Int8", "int16": "Int16", "int32": "Int", "int64": "Int64",
         "float16": "Float16", "float32": "Float", "float64": "Float64"}

CHECKS: list[tuple[str, str, Callable[[Any], str | None]]] = []


class Skipped(Exception):
    """A check that cannot run here."""


def check(library: str) -> Callable[[Callable[[Any], str | None]], Callable[[Any], str | None]]:
    """A function of a library is a check; what it returns is told."""
    def enter(function: Callable[[Any], str | None]) -> Callable[[Any], str | None]:
        CHECKS.append((library, function.__name__[len(library) + 2:].replace("_", " "), function))
        return function

    return enter


def same(found: Any, expected: Any, what: str = "values") -> None:
    """Raise if two arrays on the host differ."""
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected), err_msg=what)


def slow(start: Any) -> Any:
    """An array that takes a while to compute: what is behind a long loop of dependent operations."""
    def body(i: Any, x: Any) -> Any:
        return i + 1, dr.fma(x, 0.9999999, 1e-7)

    _, found = dr.while_loop((dr.zeros(dr.cuda.Int, len(start)), start), lambda i, x: i < ITERATIONS, body)
    return found


# --- PyTorch ---------------------------------------------------------------------------------------------------------


@check("torch")
def _torch_import_shares_memory(torch: Any) -> None:
    t = torch.arange(SIZE, dtype=torch.float32, device="cuda")
    x = dr.cuda.Float(t)
    same(x, np.arange(SIZE, dtype=np.float32))
    assert x.__cuda_array_interface__["data"][0] == t.data_ptr(), "a copy"
    t.add_(1)
    same(x, np.arange(1, SIZE + 1, dtype=np.float32), "what PyTorch writes later")
    x[0] = 7  # copies
    assert t[0].item() == 1, "an import was written to"


@check("torch")
def _torch_export_shares_memory(torch: Any) -> None:
    x = dr.arange(dr.cuda.Float, SIZE) + 1
    t = x.torch()
    assert t.is_cuda and t.data_ptr() == torch.from_dlpack(x).data_ptr(), "a copy"
    same(t.cpu(), np.arange(1, SIZE + 1, dtype=np.float32))
    t.mul_(2)  # on the default stream, with which ours is in one order
    same(x, 2 * np.arange(1, SIZE + 1, dtype=np.float32), "what PyTorch writes later")
    x[0] = 7
    dr.eval(x)
    assert t[0].item() == 7, "what is written later here"


@check("torch")
def _torch_element_types(torch: Any) -> str:
    for name, own in {**TYPES, "bfloat16": "BFloat16"}.items():
        t = (torch.arange(100, device="cuda") % 2).to(getattr(torch, name))
        x = getattr(dr.cuda, own)(t)
        back = x.torch()
        assert back.dtype == t.dtype and torch.equal(back, t), name
        assert torch.equal(torch.from_dlpack(x), t), name
    z = torch.complex(torch.arange(5.0), torch.ones(5)).cuda()
    c = dr.cuda.Complex2f(z)
    assert torch.equal(c.torch(), z) and torch.equal(torch.from_dlpack(c), z), "complex numbers"
    a = dr.cuda.Array3f([1, 2], 3, [4, 5])
    same(a.torch().cpu(), a.numpy(), "a nested array")
    return f"{len(TYPES) + 2} types"


@check("torch")
def _torch_strides(torch: Any) -> None:
    base = torch.arange(60, dtype=torch.float32, device="cuda").reshape(3, 4, 5)
    for view in (base.transpose(0, 2), base[:, ::2], base[1:, 1:, 1:], base[..., 1], base[2, 3, 4:], base[:0],
                 base[:1].expand(3, 4, 5), base.reshape(-1)[1:], base.reshape(-1)[3:30:3]):
        same(dr.cuda.TensorXf(view), view.cpu().numpy(), str(view.stride()))
    rows = dr.cuda.Array4f(base.reshape(-1)[1:57].reshape(4, 14))
    same(rows, base.reshape(-1)[1:57].reshape(4, 14).cpu())
    points = dr.cuda.Float(base.reshape(-1)[1:57])
    same(dr.gather(dr.cuda.Array4f, points, dr.arange(dr.cuda.UInt, 14)), base.reshape(-1)[1:57].reshape(14, 4).T.cpu())


@check("torch")
def _torch_works_on_a_side_stream_then_we_read(torch: Any) -> str:
    side, t = torch.cuda.Stream(), torch.zeros(SIZE, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(CYCLES)
        t.fill_(1)
        begin = time.perf_counter()
        y = dr.cuda.Float(t) + 1
        dr.eval(y)
        asked = time.perf_counter() - begin
    same(y, np.full(SIZE, 2, np.float32))
    return f"asked in {1000 * asked:.2f} ms, done in {1000 * (time.perf_counter() - begin):.0f} ms"


@check("torch")
def _torch_reads_on_a_side_stream_what_we_work_on(torch: Any) -> str:
    start = dr.arange(dr.cuda.Float, 1 << 14) / 1000 + 1
    dr.eval(start)
    expected = slow(start + 0).numpy()
    side = torch.cuda.Stream()
    begin = time.perf_counter()
    y = slow(start)
    with torch.cuda.stream(side):
        found = y.torch().clone()
    asked = time.perf_counter() - begin
    side.synchronize()
    took = time.perf_counter() - begin
    same(found.cpu(), expected)
    return f"asked in {1000 * asked:.2f} ms, done in {1000 * took:.0f} ms"


@check("torch")
def _torch_lets_go_while_its_kernels_run(torch: Any) -> None:
    side = torch.cuda.Stream()
    x = dr.arange(dr.cuda.Float, SIZE) + 1
    with torch.cuda.stream(side):
        t = x.torch()
        torch.cuda._sleep(CYCLES)
        found = t.clone()
        del t
    del x
    others = []
    for k in range(4):  # which may get the same memory
        others.append(dr.full(dr.cuda.Float, -1 - k, SIZE) + dr.opaque(dr.cuda.Float, 0))
        dr.eval(others)
    side.synchronize()
    same(found.cpu(), np.arange(1, SIZE + 1, dtype=np.float32))


@check("torch")
def _torch_gets_memory_back_while_our_kernels_run(torch: Any) -> str:
    driver, tried = the_gpu().driver, 0  # type: ignore[union-attr]
    side = torch.cuda.Stream()
    wait = dr.arange(dr.cuda.Float, 1 << 14) * 0 + 1
    dr.eval(wait)
    for _ in range(3):  # kernels are compiled in the first turn, which takes longer than they run
        with torch.cuda.stream(side):
            t = torch.arange(SIZE, dtype=torch.float32, device="cuda")
            x = dr.cuda.Float(t)
            y = slow(wait)
            dr.eval(y)
            z = dr.select(dr.gather(dr.cuda.Float, y, 0) > -1, x, 0)
            dr.eval(z)
            address, end = t.data_ptr(), driver.mark()
            del t, x
            others = [torch.full((SIZE,), -1.0, device="cuda") for _ in range(4)]
        if not driver.passed(end):  # on a busy machine, all may have run by now
            tried += 1
            assert all(other.data_ptr() != address for other in others), "PyTorch has had it back before"
        same(z, np.arange(SIZE, dtype=np.float32))
        del z, others
    dr.sync_thread()
    return f"seen in {tried} of 3 turns"


@check("torch")
def _torch_a_thousand_round_trips(torch: Any) -> str:
    x = dr.arange(dr.cuda.Float, 1 << 16) + 0
    side = torch.cuda.Stream()
    counts = []
    for k in range(1001):
        with torch.cuda.stream(side if k % 2 else torch.cuda.default_stream()):
            x = dr.cuda.Float(x.torch() + 1)
        dr.eval(x)
        if k in (200, 1000):
            dr.sync_thread()
            counts.append((torch.cuda.memory_allocated(), malloc_statistics()["in_use"]))
    assert x[0] == 1001, x[0]
    assert all(late <= early + (1 << 21) for early, late in zip(*counts, strict=True)), counts
    return f"bytes at 200 and 1000: {counts}"


@check("torch")
def _torch_gradients_from_inside(torch: Any) -> None:
    seen = []

    @dr.wrap("drjit", "torch")  # type: ignore[untyped-decorator]
    def f(x: Any, y: Any) -> Any:
        seen.append(x.is_cuda and y.is_cuda)
        return torch.sin(x) * y

    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        x, y = dr.cuda.ad.TensorXf(dr.cuda.ad.Float(1, 2, 3)), dr.cuda.ad.TensorXf(dr.cuda.ad.Float(4, 5, 6))
        dr.enable_grad(x, y)
        with torch.cuda.stream(stream):
            result = f(x, y)
            assert isinstance(result, dr.cuda.ad.TensorXf)
            dr.backward(dr.sum(result))
        np.testing.assert_allclose(x.grad, np.cos([1, 2, 3]) * [4, 5, 6], rtol=1e-5)
        np.testing.assert_allclose(y.grad, np.sin([1, 2, 3]), rtol=1e-5)
        x, y = dr.cuda.ad.TensorXf(dr.cuda.ad.Float(1, 2, 3)), dr.detach(y)  # whose gradient is one of the inputs
        dr.enable_grad(x)
        dr.set_grad(x, 1)
        np.testing.assert_allclose(dr.forward_to(f(x, y)), np.cos([1, 2, 3]) * [4, 5, 6], rtol=1e-5)
    assert all(seen), "a copy on the host"


@check("torch")
def _torch_gradients_from_outside(torch: Any) -> None:
    @dr.wrap("torch", "drjit")  # type: ignore[untyped-decorator]
    def f(x: Any, y: Any) -> Any:
        assert isinstance(x, dr.cuda.ad.TensorXf)
        return dr.sin(x) * y

    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            x = torch.rand(SIZE, device="cuda", requires_grad=True)
            y = torch.rand(SIZE, device="cuda", requires_grad=True)
            result = f(x * 1, y * 1)
            assert result.is_cuda
            (result * result).sum().backward()
            found = [x.grad.clone(), y.grad.clone()]
            x.grad = y.grad = None
            own = torch.sin(x) * y
            (own * own).sum().backward()
            torch.testing.assert_close(result, own)
            torch.testing.assert_close(found, [x.grad, y.grad])


@check("torch")
def _torch_errors(torch: Any) -> None:
    for function, error, text in (
            (lambda: dr.llvm.Float(torch.ones(3, device="cuda")), BufferError, "(2, 0)"),
            (lambda: dr.cuda.Float(torch.ones(3, 2, device="cuda")), TypeError, "2 dimensions"),
            (lambda: dr.cuda.Float(1, 2).__dlpack__(stream=0), BufferError, "stream"),
            (lambda: dr.cuda.Float(1, 2).__dlpack__(dl_device=(2, 7)), BufferError, "(2, 7)"),
            (lambda: dr.cuda.Float(torch.ones(3, dtype=torch.complex64, device="cuda")), TypeError, "complex")):
        try:
            function()
        except error as raised:
            assert text in str(raised), raised
        else:
            raise AssertionError(f"no {error.__name__} with {text!r}")
    same(dr.cuda.Float(torch.ones(3)), np.ones(3), "memory of the host is copied")
    assert dr.cuda.Float(1, 2).numpy().tolist() == [1, 2]


# --- CuPy ------------------------------------------------------------------------------------------------------------


@check("cupy")
def _cupy_shares_memory(cupy: Any) -> None:
    a = cupy.arange(SIZE, dtype=cupy.float32)
    x = dr.cuda.Float(a)
    a += 1
    same(x, np.arange(1, SIZE + 1, dtype=np.float32))
    y = dr.arange(dr.cuda.Float, SIZE) + 1
    b, c = cupy.from_dlpack(y), cupy.asarray(y)  # by DLPack, and by the CUDA array interface
    assert b.data.ptr == c.data.ptr, "a copy"
    b *= 2
    same(y, cupy.asnumpy(c))
    same(dr.cuda.TensorXf(a.reshape(1024, -1).T), cupy.asnumpy(a).reshape(1024, -1).T)


@check("cupy")
def _cupy_element_types(cupy: Any) -> str:
    for name, own in TYPES.items():
        a = (cupy.arange(100) % 2).astype(name)
        same(cupy.asnumpy(cupy.from_dlpack(getattr(dr.cuda, own)(a))), cupy.asnumpy(a), name)
    z = cupy.asarray([1 + 2j, 3 - 1j], dtype=cupy.complex64)
    same(cupy.asnumpy(cupy.from_dlpack(dr.cuda.Complex2f(z))), cupy.asnumpy(z))
    return f"{len(TYPES) + 1} types"


@check("cupy")
def _cupy_side_streams(cupy: Any) -> None:
    work = cupy.RawKernel("extern \"C\" __global__ void wait(long long cycles) { long long t = clock64(); "
                          "while (clock64() - t < cycles); }", "wait")
    for non_blocking in (False, True):
        side = cupy.cuda.Stream(non_blocking=non_blocking)
        a = cupy.zeros(SIZE, cupy.float32)
        cupy.cuda.Device().synchronize()
        with side:
            work((1,), (1,), (np.int64(CYCLES),))
            a += 1
            x = dr.cuda.Float(a) + 1
            dr.eval(x)
        same(x, np.full(SIZE, 2, np.float32), f"non_blocking={non_blocking}")
        expected = slow(dr.arange(dr.cuda.Float, 1 << 14)).numpy()
        y = slow(dr.arange(dr.cuda.Float, 1 << 14) + 0)
        with side:
            b = cupy.from_dlpack(y).copy()
        side.synchronize()
        same(cupy.asnumpy(b), expected, f"non_blocking={non_blocking}")


@check("cupy")
def _cupy_a_thousand_round_trips(cupy: Any) -> str:
    x, counts, pool = dr.arange(dr.cuda.Float, 1 << 16) + 0, [], cupy.get_default_memory_pool()
    for k in range(1001):
        x = dr.cuda.Float(cupy.from_dlpack(x) + 1)
        dr.eval(x)
        if k in (200, 1000):
            dr.sync_thread()
            counts.append((pool.used_bytes(), malloc_statistics()["in_use"]))
    assert x[0] == 1001
    assert all(late <= early + (1 << 21) for early, late in zip(*counts, strict=True)), counts
    return f"bytes at 200 and 1000: {counts}"


_GONE = """
import sys
sys.path[:0] = {path!r}
import cupy, drjit as dr
x = dr.arange(dr.cuda.Float, 1000) + 1
side = cupy.cuda.Stream(non_blocking=True)
with side:
    a = cupy.from_dlpack(x)
del side
import gc; gc.collect()
del a
gc.collect()
assert dr.sum(x)[0] == 500500
"""


@check("cupy")
def _cupy_a_stream_that_is_gone_before_its_array(cupy: Any) -> None:
    done = subprocess.run([sys.executable, "-c", _GONE.format(path=sys.path[:2])], capture_output=True, text=True,
                          timeout=30, check=False)
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr[-300:]}"


# --- JAX -------------------------------------------------------------------------------------------------------------


@check("jax")
def _jax_shares_memory(jax: Any) -> None:
    a = jax.numpy.arange(SIZE, dtype="float32") + 1
    x = dr.cuda.Float(a)
    same(x, np.arange(1, SIZE + 1, dtype=np.float32))
    assert x.__cuda_array_interface__["data"][0] == a.unsafe_buffer_pointer(), "a copy"
    y = dr.arange(dr.cuda.Float, SIZE) * 2
    b = y.jax()
    assert b.devices() == a.devices()
    assert b.unsafe_buffer_pointer() == y.__cuda_array_interface__["data"][0], "a copy"
    same(b, 2 * np.arange(SIZE, dtype=np.float32))
    for name, own in TYPES.items():
        if name in ("float64", "int64"):  # unless JAX is told to have them
            continue
        c = (jax.numpy.arange(100) % 2).astype(name)
        same(getattr(dr.cuda, own)(c).jax(), c, name)
    z = jax.numpy.asarray([1 + 2j, 3 - 1j], dtype="complex64")
    same(dr.cuda.Complex2f(z).jax(), z)


@check("jax")
def _jax_and_we_at_work(jax: Any) -> None:
    product = jax.jit(lambda a: jax.lax.fori_loop(0, 200, lambda _, b: (b @ a) / 2048, a))
    a = jax.numpy.ones((2048, 2048), "float32")
    expected = np.asarray(product(a))
    for _ in range(3):
        x = dr.cuda.TensorXf(product(a)) + 0
        dr.eval(x)
        same(x, expected)
    expected = slow(dr.arange(dr.cuda.Float, 1 << 14)).numpy()
    y = slow(dr.arange(dr.cuda.Float, 1 << 14) + 0)
    same(y.jax() + 0, expected)


@check("jax")
def _jax_gradients(jax: Any) -> None:
    @dr.wrap("drjit", "jax")  # type: ignore[untyped-decorator]
    def inside(x: Any) -> Any:
        return jax.numpy.sin(x)

    @dr.wrap("jax", "drjit")  # type: ignore[untyped-decorator]
    def outside(x: Any) -> Any:
        assert isinstance(x, dr.cuda.ad.TensorXf)
        return dr.sin(x)

    x = dr.cuda.ad.TensorXf(dr.cuda.ad.Float(1, 2, 3))
    dr.enable_grad(x)
    dr.backward(dr.sum(inside(x)))
    np.testing.assert_allclose(x.grad, np.cos([1, 2, 3]), rtol=1e-5)
    found = jax.grad(lambda a: outside(a).sum())(jax.numpy.asarray([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(found, np.cos([1, 2, 3]), rtol=1e-5)


# --- Numba -----------------------------------------------------------------------------------------------------------


@check("numba")
def _numba_shares_memory(numba: Any) -> None:
    cuda = importlib.import_module("numba.cuda")
    y = dr.arange(dr.cuda.Float, 1000) + 1
    a = cuda.as_cuda_array(y)
    same(a.copy_to_host(), np.arange(1, 1001, dtype=np.float32))
    b = cuda.to_device(np.arange(1000, dtype=np.float32))
    x = dr.cuda.Float(b)
    same(x, np.arange(1000, dtype=np.float32))
    assert x.__cuda_array_interface__["data"][0] == b.__cuda_array_interface__["data"][0], "a copy"
    same(dr.cuda.Float(b[::2]), np.arange(0, 1000, 2, dtype=np.float32))


# --- all of them -----------------------------------------------------------------------------------------------------


def library(name: str) -> Any:
    """A library; raises what says why there is none that has the device."""
    try:
        found = importlib.import_module(name)
    except ImportError as error:
        raise Skipped(str(error)) from None
    try:
        usable = {"torch": lambda: found.cuda.is_available(), "cupy": lambda: found.cuda.runtime.getDeviceCount() > 0,
                  "jax": lambda: found.default_backend() == "gpu",
                  "numba": lambda: importlib.import_module("numba.cuda").is_available()}[name]()
    except Exception as error:
        raise Skipped(f"{name} does not start: {error}") from None
    if not usable:
        raise Skipped(f"{name} {found.__version__} has no GPU")
    return found


def main() -> int:
    """Run the checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=LIBRARIES)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    device = next(told for name, _, told in backend_report() if name == "CUDA")
    if not has_backend(JitBackend.CUDA):
        print(f"no GPU: {device}")
        return 2
    print(f"on {device}", flush=True)
    begin, libraries, counts = time.monotonic(), {}, {"ok": 0, "FAILED": 0, "skipped": 0}
    for name, title, function in CHECKS:
        if options.only not in (None, name):
            continue
        start, told = time.monotonic(), ""
        try:
            if name not in libraries:
                try:
                    libraries[name] = library(name)
                    told = f"{name} {libraries[name].__version__}; "
                except Skipped as reason:
                    libraries[name] = reason
            if isinstance(libraries[name], Skipped):
                raise libraries[name]
            if start - begin > options.seconds:
                raise Skipped("no time is left")
            outcome, told = "ok", told + (function(libraries[name]) or "")
        except Skipped as reason:
            outcome, told = "skipped", str(reason)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            outcome, told = "FAILED", f"{text} ({Path(place.filename).name}:{place.lineno})"
            where = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == __file__]
            told += f", from line {where[-1]}" if where else ""
        counts[outcome] += 1
        print(f"{outcome:8}{name:7}{title:50}{time.monotonic() - start:6.2f} s  {told}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()) + f", {time.monotonic() - begin:.0f} s")
    return int(counts["FAILED"] > 0)


if __name__ == "__main__":
    sys.exit(main())
