"""Frozen functions in files: what is replayed by others, what is refused, and what a file must be like."""

from __future__ import annotations

import enum
import json
import os
import pathlib
import stat
import subprocess
import sys
import textwrap
import threading
from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit_core as core
from drjit._freeze.format import FORMAT
from drjit.llvm import Array3f, Bool, Float, TensorXf, UInt
from drjit.llvm.ad import Float as Tracked
from drjit.opt import SGD, Adam


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    return str(tmp_path / "f.frozen")


def loaded(function: Any, path: str) -> Any:
    """The function as another process would have it."""
    function.save(path)
    return dr.load_frozen(path)


def floats(n: int, first: float = 1) -> Any:
    return Float(np.arange(n, dtype=np.float32) + first)


def same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, (list, tuple, deque)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif dr.is_array_v(one):
        assert np.array_equal(np.array(one), np.array(other), equal_nan=True)
    else:
        assert one == other


# --- what is replayed ---

weights = Float(1, 10, 100)
scale = 3


def knows_more(x: Any, n: int = 2) -> Any:
    return x * scale + dr.gather(Float, weights, UInt([0, 2, 1])) * n


def structures(x: Any) -> Any:
    y = x + 1
    return {"a": [y, x * 2, None, True, 1.5, "text", b"bytes", 2 + 1j], 7: (y, deque([x - 1], 3)),
            "o": OrderedDict(b=dr.sum(x))}


def changes(d: Any, entries: Any, x: Any) -> Any:
    d["new"] = x * 2
    d["n"] += 1
    entries[0] = x + 1
    entries.append("more")
    x += 10
    dr.scatter(d["target"], x, UInt([0, 1, 2]))


@dr.syntax
def loop(x: Any, n: Any) -> Any:
    i = UInt(0)
    while i < n:
        x = dr.select(x > 5, x * 0.5, x + 1)
        i += 1
    return x


def calls(x: Any, which: Any) -> Any:
    return dr.switch(which, [lambda x: x + 1, lambda x: x * 2, dr.sin], x)


def histogram(x: Any, index: Any) -> Any:
    bins = dr.zeros(Float, 4)
    dr.scatter_reduce(dr.ReduceOp.Add, bins, x, index)
    return bins


CASES: dict[str, tuple[Any, Any]] = {
    "arithmetic": (lambda x, y: x * 2 + dr.sin(y), lambda n: (floats(n), floats(n, 3))),
    "reductions": (lambda x: (dr.sum(x), dr.max(x), dr.mean(x), dr.any(x > 3)), lambda n: (floats(n),)),
    "running sums": (lambda x: dr.cumsum(x), lambda n: (floats(n),)),
    "sort": (lambda x: dr.sort(-x), lambda n: (floats(n),)),
    "argsort": (lambda x: dr.argsort(-x), lambda n: (floats(n),)),
    "compress": (lambda x: dr.gather(Float, x, dr.compress(x > 2)), lambda n: (floats(n),)),
    "structures": (structures, lambda n: (floats(n),)),
    "vectors": (lambda v: dr.norm(v) * v, lambda n: (Array3f(floats(n), 1, floats(n, 2)),)),
    "loop": (loop, lambda n: (floats(n), UInt(3))),
    "calls": (calls, lambda n: (floats(n), UInt(np.arange(n, dtype=np.uint32) % 3))),
    "scatter": (histogram, lambda n: (floats(n), UInt(np.arange(n, dtype=np.uint32) % 4))),
    "literals": (lambda x, y: x + y * 2, lambda n: (floats(n), Float(4))),
    "gathers": (lambda x: dr.gather(Float, x, dr.arange(UInt, 2)), lambda n: (floats(n),)),
    "numbers": (lambda x, k, f=None: (x * k, f), lambda n: (floats(n), 2.5, ("a", 1))),
    "keywords": (lambda x, *, k: x * k, lambda n: {"x": floats(n), "k": 3}),
    "random": (lambda x: dr.rng(seed=1).random(Float, 5) + dr.sum(x), lambda n: (floats(n),)),
    "a NumPy array as an argument": (lambda x, a: x + 1, lambda n: (floats(n), np.arange(3))),
    "masks": (lambda x, m: dr.select(m, x, 0), lambda n: (floats(n), floats(n) > 2)),
    "several kernels": (lambda x: (dr.eval(x + 1), dr.sum(x) * x)[1], lambda n: (floats(n),)),
}


def called(function: Any, given: Any) -> Any:
    return function(**given) if isinstance(given, dict) else function(*given)


@pytest.mark.parametrize("name", CASES)
def test_what_is_loaded_computes_the_same(name: str, path: str) -> None:
    function, given = CASES[name]
    frozen = dr.freeze(function)
    for n in (5, 7):
        called(frozen, given(n))
    other = loaded(frozen, path)
    for n in (5, 7, 12, 5, 300) if frozen.n_cached_recordings == 1 else (5, 7):
        same(called(other, given(n)), called(function, given(n)))
    assert sum(each.hits for each in other.recordings) >= 2 and other.n_recordings == 0


def test_what_a_function_knows_is_fixed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = dr.freeze(knows_more)
    expected = frozen(floats(3))
    frozen.save(path)
    monkeypatch.setattr(sys.modules[__name__], "scale", 5)
    monkeypatch.setattr(sys.modules[__name__], "weights", Float(0, 0, 0))
    same(dr.load_frozen(path)(floats(3)), expected)
    with pytest.raises(RuntimeError, match="has changed since"):
        frozen.save(path)
    frozen(floats(3))
    same(loaded(frozen, path)(floats(3)), frozen(floats(3)))


def test_recordings_of_other_circumstances_are_left_out(path: str, monkeypatch: pytest.MonkeyPatch,
                                                        caplog: pytest.LogCaptureFixture) -> None:
    frozen = dr.freeze(knows_more)
    frozen(floats(3))
    monkeypatch.setattr(sys.modules[__name__], "scale", 5)
    expected = frozen(floats(3))
    with caplog.at_level("WARNING", "drjit"):
        other = loaded(frozen, path)
    assert "1 recordings of knows_more() are not in" in caplog.text
    same(other(floats(3)), expected)


def test_what_is_done_to_arguments_is_repeated(path: str) -> None:
    def given() -> Any:
        return {"n": 1, "target": dr.opaque(Float, 0, 4)}, [1, 2], floats(3)

    frozen = dr.freeze(changes)
    frozen(*given())
    other, one, two = loaded(frozen, path), given(), given()
    other(*one)
    changes(*two)
    for a, b in zip(one, two, strict=True):
        same(a, b)


def test_tensors(path: str) -> None:
    def function(x: Any) -> Any:
        return dr.sum(x, axis=0), x[:, 1], x.shape

    frozen = dr.freeze(function)
    tensor = TensorXf(np.arange(12, dtype=np.float32).reshape(3, 4))
    frozen(tensor)
    other = loaded(frozen, path)
    for a, b in zip(other(tensor + 0), function(tensor), strict=True):
        assert np.array_equal(a, b)
    with pytest.raises(RuntimeError, match=r"args\[0\] was drjit.llvm.TensorXf\[3, 4\], and is .*\[4, 4\]"):
        other(TensorXf(np.zeros((4, 4), np.float32)))


@dataclass
class Pair:
    x: Any
    k: float = 2.0
    names: list[str] = field(default_factory=list)


class Holder:
    def __init__(self, x: Any) -> None:
        self.x, self.count = x, 0

    @dr.freeze
    def scaled(self, k: float) -> Any:
        self.count += 1
        self.last = self.x * k
        return self.last + 1


def test_objects_as_arguments(path: str) -> None:
    frozen = dr.freeze(lambda p: p.x * p.k)
    frozen(Pair(floats(3)))
    other = loaded(frozen, path)
    same(other(Pair(floats(3, 5))), floats(3, 5) * 2)
    with pytest.raises(RuntimeError, match=r"args\[0\].k was 2.0, and is 3.0"):
        other(Pair(floats(3), 3.0))
    with pytest.raises(RuntimeError, match="no recording"):
        other(Holder(floats(3)))


def test_methods(path: str) -> None:
    one, two = Holder(floats(3)), Holder(floats(3, 7))
    one.ignored = two.ignored = object()  # type: ignore[attr-defined]
    one.scaled(2.0)
    one.scaled.save(path)
    other = dr.load_frozen(path)
    result = other(two, 2.0)
    same(result, floats(3, 7) * 2 + 1)
    assert two.count == 1
    same(two.last, floats(3, 7) * 2)


def test_derivatives_flow_through(path: str) -> None:
    def function(x: Any, y: Any) -> Any:
        return dr.sum(x * x * y), x + 1

    frozen = dr.freeze(function)
    for n in (3, 5):
        x = Tracked(*range(n))
        dr.enable_grad(x)
        frozen(x, Tracked(*range(n)) + 1)
    other = loaded(frozen, path)
    for f in (other, function):
        x, y = Tracked(1, 2, 3, 4), Tracked(2, 3, 4, 5)
        dr.enable_grad(x)
        dr.backward(f(x, y)[0])
        same(x.grad, Tracked(4, 12, 24, 40))
        x = Tracked(1, 2, 3, 4)
        dr.enable_grad(x)
        out = f(x, y)[0]
        dr.forward(x)
        same(dr.grad(out), Tracked(2 * (2 + 6 + 12 + 20)))
    dr.set_grad(x, 1)
    with pytest.raises(RuntimeError, match=r"with derivatives, and is .* with derivatives and a gradient"):
        other(x, y)
    x = Tracked(1, 2, 3, 4)
    dr.enable_grad(x)
    with pytest.raises(RuntimeError, match="since it has been loaded from a file"):
        dr.hvp(lambda x: other(x, y)[0], x, Tracked(1, 1, 1, 1))


def test_derivatives_inside(path: str) -> None:
    def function(x: Any) -> Any:
        dr.enable_grad(x)
        loss = dr.sum(x * x)
        dr.backward(loss)
        return x.grad

    frozen = dr.freeze(function)
    frozen(Tracked(1, 2, 3))
    other, x = loaded(frozen, path), Tracked(4, 5, 6)
    same(other(x), Tracked(8, 10, 12))
    same(x.grad, Tracked(8, 10, 12))


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_steps_of_optimisers(kind: Any, path: str) -> None:
    def step(opt: Any, target: Any) -> Any:
        loss = dr.mean(dr.square(opt["x"] - target))
        dr.backward(loss)
        opt.step()
        return loss

    def run(function: Any, count: int) -> Any:
        opt = kind(lr=0.1, params={"x": dr.opaque(Tracked, 0, 5)})
        return [float(function(opt, target)[0]) for _ in range(count)], np.array(opt["x"])

    target = Tracked(1, 2, 3, 4, 5)
    frozen = dr.freeze(step)
    expected, values = run(step, 6)
    run(frozen, 6)
    other = loaded(frozen, path)
    found, others = run(other, 6)
    assert np.allclose(found, expected, rtol=1e-6) and np.allclose(others, values, rtol=1e-6)


def test_dynamic_numbers(path: str) -> None:
    frozen = dr.freeze(lambda x, rate: x * rate, dynamic=("rate",))
    frozen(floats(3), 0.5)
    other = loaded(frozen, path)
    same(other(floats(3), 0.25), floats(3) * 0.25)
    same(other(floats(3), rate=0.25), floats(3) * 0.25)


def test_constants_are_evaluated_where_that_was_recorded(path: str) -> None:
    frozen = dr.freeze(lambda x: x * 2)
    frozen(dr.opaque(Float, 1))
    same(loaded(frozen, path)(Float(3)), Float(6))


def test_threads(path: str) -> None:
    frozen = dr.freeze(lambda x, k: (x * k, dr.sum(x)))
    for n in (3, 5):
        frozen(floats(n), 2)
    other, wrong = loaded(frozen, path), []

    def work(number: int) -> None:
        for n in range(2, 60):
            found, total = other(floats(n, number), 2)
            expected = np.arange(n) + number
            if not np.array_equal(found, expected * 2) or total[0] != expected.sum():
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_another_number_of_threads(path: str) -> None:
    function, given = CASES["scatter"]
    before = dr.thread_count()
    try:
        dr.set_thread_count(2)
        frozen = dr.freeze(function)
        for n in (5, 7):
            frozen(*given(n))
        frozen.save(path)
        dr.set_thread_count(1)
        same(dr.load_frozen(path)(*given(9)), function(*given(9)))
        again = dr.freeze(function)
        again(*given(5))
        again.save(path)
        other = dr.load_frozen(path)
        other(*given(5))
        dr.set_thread_count(2)
        with pytest.raises(RuntimeError, match="no recording"):
            other(*given(5))
    finally:
        dr.set_thread_count(before)


def test_nothing_is_left_behind_by_flushes(path: str) -> None:
    frozen = dr.freeze(lambda x: (dr.sort(x), x + 1))
    frozen(floats(5))
    other = loaded(frozen, path)
    before = core.kernel_statistics()["compiled"]
    dr.flush_kernel_cache()
    dr.flush_malloc_cache()
    same(other(floats(5)), (floats(5), floats(5, 2)))
    assert core.kernel_statistics()["compiled"] == before


def test_a_file_is_the_same_each_time(path: str, tmp_path: pathlib.Path) -> None:
    frozen = dr.freeze(structures)
    frozen(floats(5))
    frozen.save(path)
    frozen.save(str(tmp_path / "again"))
    assert pathlib.Path(path).read_bytes() == (tmp_path / "again").read_bytes()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["again", "f.frozen"]


def test_what_is_loaded_is_described(path: str) -> None:
    frozen = dr.freeze(CASES["arithmetic"][0])
    frozen(floats(3), floats(3))
    frozen(floats(4), floats(4))
    other = loaded(frozen, path)
    found, = other.recordings
    assert found.any_size and found.kernels == 1 and found.hits == 0
    assert "would replay recording 1 of 1: 1 launches" in other.explain(floats(3), floats(3))
    assert "would raise an exception: it has no recording for these arguments" in other.explain(floats(3), 2)
    other.clear()
    with pytest.raises(RuntimeError, match="has no recordings any more"):
        other(floats(3), floats(3))


# --- what is refused ---

Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


known = [1]
tracked = Tracked(1, 2, 3)


def test_what_cannot_be_written_is_refused_with_its_place(path: str, request: pytest.FixtureRequest) -> None:
    local = type("Local", (), {})

    def appends(x: Any) -> Any:
        known.append(2)
        return x + 1

    def counts(x: Any) -> Any:
        global scale
        scale += 1
        return x + 1

    def prints(x: Any) -> Any:
        dr.print("{}", x)
        return x

    def iterates(x: Any, values: Any) -> Any:
        return x + 1

    dr.enable_grad(tracked)
    request.addfinalizer(lambda: dr.disable_grad(tracked))
    opt = SGD(lr=0.1, params={"x": Tracked(1, 2)})

    def steps(x: Any) -> Any:
        dr.backward(dr.sum(opt["x"] * x))
        opt.step()

    cases: list[tuple[Any, tuple[Any, ...], str]] = [
        (lambda x: {"a": [x, Pair(x + 1)]}, (), r"the result\['a'\]\[1\] is of the type tests.freeze.test_saving.Pair"),
        (lambda x: Point(x + 1, 2), (), r"the result is of the type tests.freeze.test_saving.Point"),
        (lambda x: [x, Colour.RED], (), "cannot be compared|that the function knows itself"),
        (lambda x: [x, local()], (), r"the result\[1\] is an object of the type Local"),
        (lambda x, o: x + 1, (object(),), r"args\[1\] is an object of the type object"),
        (lambda x, f: f(x), (lambda x: x + 1,), r"args\[1\] is <function .*another process has others"),
        (lambda x, c: x + 1, (Colour.RED,), r"args\[1\] is something that the function knows itself as well"),
        (lambda x, y: x + weights, (weights,), r"knows itself as well"),
        (lambda x: weights, (), "the result is an array that the function knows itself"),
        (lambda x: x * tracked, (), "tracks derivatives: pass it as an argument"),
        (iterates, ((k for k in range(3)),), "cannot be compared"),
        (appends, (), "changes a list, which it knows itself"),
        (counts, (), "changes 'scale', which it knows itself"),
        (prints, (), "prints or asserts"),
        (steps, (), "knows an optimiser itself: pass it as an argument"),
    ]
    global scale
    for function, further, message in cases:
        before = scale
        frozen = dr.freeze(function)
        frozen(Tracked(1, 2) if function is steps else Tracked(1, 2, 3) if "tracks" in message else floats(3), *further)
        with pytest.raises(RuntimeError, match=r"drjit.freeze\(\): .*\(\) cannot be saved: .*" + message):
            frozen.save(path)
        scale = before
        assert not os.path.exists(path)
    with pytest.raises(RuntimeError, match="has no recordings: call it before"):
        dr.freeze(structures).save(path)
    frozen = dr.freeze(structures, state_fn=lambda x: None)
    frozen(floats(3))
    with pytest.raises(RuntimeError, match="'state_fn' cannot be called by another process"):
        frozen.save(path)
    frozen = dr.freeze(structures)
    frozen(floats(3))
    with pytest.raises(RuntimeError, match="has been loaded from a file itself"):
        loaded(frozen, path).save(path)
    with pytest.raises(FileNotFoundError):
        frozen.save(path + ".not/there")


def test_what_cannot_be_traced_is_refused(path: str) -> None:
    frozen = dr.freeze(lambda x: x + 1)
    frozen(floats(3))
    other = loaded(frozen, path)
    for call in (lambda: dr.freeze(lambda x: other(x))(floats(3)), lambda: dr.if_stmt(
            (floats(3),), Bool(True, False, True), lambda x: other(x), lambda x: x)):
        with pytest.raises(RuntimeError, match="loaded from a file: it can be launched, but not be traced"):
            call()
    other.enabled = False
    with pytest.raises(RuntimeError, match="not be traced"):
        other(floats(3))


# --- what a file must be like ---

def test_damaged_files_are_refused(path: str) -> None:
    frozen = dr.freeze(lambda x: x + 1)
    frozen(floats(3))
    frozen.save(path)
    data = pathlib.Path(path).read_bytes()
    bad = pathlib.Path(path + ".bad")
    bad.touch(0o600)
    for changed, message in [
            (b"", "is empty"), (data[:5], "is not such a file"), (b"x" * 100, "is not such a file"),
            (data[:7], "version nothing"), (data[:7] + b"\x09" + data[8:], "has the version 9 of its format"),
            (data[:-1], "its checksum is another one"), (data[:50], "checksum"), (data + b"\0", "checksum"),
            (data[:60] + bytes([data[60] ^ 1]) + data[61:], "checksum"),
            (data[:-9] + bytes([data[-9] ^ 128]) + data[-8:], "checksum")]:
        bad.write_bytes(changed)
        with pytest.raises(ValueError, match=rf"drjit.load_frozen\(\): .*{message}"):
            dr.load_frozen(bad)
    with pytest.raises(FileNotFoundError):
        dr.load_frozen(path + ".none")
    with pytest.raises(OSError):
        dr.load_frozen(os.path.dirname(path))
    assert dr.load_frozen(pathlib.Path(path))(floats(3))[0] == 2


def test_files_of_others_are_refused(path: str) -> None:
    frozen = dr.freeze(lambda x: x + 1)
    frozen(floats(3))
    frozen.save(path)
    os.chmod(path, 0o666)
    with pytest.raises(PermissionError, match="can be written by others, and might run any code here"):
        dr.load_frozen(path)
    os.chmod(path, 0o644)
    dr.load_frozen(path)
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        with pytest.raises(RuntimeError, match="belongs to another user"):
            dr.load_frozen(path)


def rewritten(path: str, change: Any) -> None:
    """Change a file as only somebody could who knows the format."""
    header, pieces = core.read_container(path, FORMAT)
    del header["pieces"]
    change(header, pieces)
    core.write_container(path, FORMAT, header, pieces)


@pytest.mark.parametrize(("change", "message"), [
    (lambda h, p: h.update(version="0.0"), "written by version 0.0 of this package"),
    (lambda h, p: h["environment"].update(llvm="9.0.0"), "the version of LLVM is .*, and was 9.0.0"),
    (lambda h, p: h["environment"].update(architecture="sparc"), "the architecture is .*, and was sparc"),
    (lambda h, p: h["environment"].update(lanes=3), "packet"),
    (lambda h, p: h["environment"].update(emitter="0"), "the version of this package is .*, and was 0"),
    (lambda h, p: h["environment"]["features"].append("warp-drive"), "lacks what that one .* had: warp-drive"),
    (lambda h, p: h["environment"].update(backend="CUDA"), "CUDA"),
    (lambda h, p: h.pop("recordings"), "is not what this package writes"),
    (lambda h, p: h["recordings"][0]["plan"].pop("steps"), "is not what this package writes"),
    (lambda h, p: p.clear(), "is not what this package writes"),
    (lambda h, p: h["recordings"][0]["outcome"]["result"].__setitem__(2, ["os", "system"]),
     r"is not what this package writes: .*there is no os.system"),
])
def test_files_for_others_are_refused(path: str, change: Any, message: str) -> None:
    frozen = dr.freeze(lambda x: x + 1)
    frozen(floats(3))
    frozen.save(path)
    rewritten(path, change)
    with pytest.raises(RuntimeError, match=message):
        dr.load_frozen(path)


def test_a_file_that_cannot_be_written_leaves_the_old_one(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = dr.freeze(lambda x: x + 1)
    frozen(floats(3))
    frozen.save(path)
    data = pathlib.Path(path).read_bytes()

    def fails(*args: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fails)
    frozen(floats(3), )
    with pytest.raises(OSError, match="no space left"):
        frozen.save(path)
    assert pathlib.Path(path).read_bytes() == data and os.listdir(os.path.dirname(path)) == ["f.frozen"]


# --- other processes ---

_HERE = """
    import sys, numpy as np
    import drjit as dr, drjit_core as core
    from drjit.llvm import Float, UInt
    from drjit.llvm.ad import Float as Tracked
    from dataclasses import dataclass
    @dataclass
    class Pair:
        x: object
        k: float
    def floats(n, cls=Float):
        return cls(np.arange(n, dtype=np.float32) + 1)
"""
_SAVE = """
    w = floats(3)
    def f(p, n, which):
        dr.scatter_add(p.x, Float(1), UInt([0, 2]))
        i, x = dr.while_loop((UInt(0), p.x), lambda i, x: i < n, lambda i, x: (i + 1, x * 0.5 + p.k))
        x = dr.switch(which, [lambda x: x + 1, dr.sin], x)
        return {"x": x, "sorted": dr.sort(-x), "sum": dr.cumsum(x), "w": w * 2, "n": 3,
                "some": dr.gather(Float, x, dr.compress(x > 1))}
    def g(x):
        return dr.sum(dr.sin(x) * x)
    f, g = dr.freeze(f), dr.freeze(g)
    for n in (5, 9):
        f(Pair(floats(n), 1.5), UInt(2), UInt(0))
        z = floats(n, Tracked)
        dr.enable_grad(z)
        g(z)
    f.save(sys.argv[1] + "/f")
    g.save(sys.argv[1] + "/g")
"""
_USE = """
    f, g = dr.load_frozen(sys.argv[1] + "/f"), dr.load_frozen(sys.argv[1] + "/g")
    def never(*args, **kwargs):
        raise AssertionError("a function is traced, or a kernel compiled")
    import drjit_core.llvm.jit as jit, drjit_core.llvm.emit as emit, drjit_core.codegen.program as program
    jit.compile_text = emit.emit = program.assemble = never
    import json
    found = {}
    for n in (5, 9, 20, 1000):
        found[n] = {k: v if isinstance(v, int) else np.array(v).tolist() for k, v in f(
            Pair(floats(n), 1.5), UInt(2), UInt(0)).items()} if n < 20 else {}
        x = floats(n, Tracked)
        dr.enable_grad(x)
        dr.backward(g(x))
        found[n]["grad"] = np.array(dr.grad(x)).tolist()
    print(json.dumps([found, core.kernel_statistics()["compiled"], core.kernel_statistics()["loaded"]]))
"""


def _run(text: str, folder: pathlib.Path, **environment: str) -> str:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(_HERE) + textwrap.dedent(text), str(folder)],
                          capture_output=True, text=True, env={**os.environ, **environment}, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_process_that_never_traces_nor_compiles(tmp_path: pathlib.Path) -> None:
    _run(_SAVE, tmp_path)
    found, compiled, from_disk = json.loads(_run(_USE, tmp_path, DRJIT_CACHE_DIR=""))
    assert compiled == from_disk == 0
    for n in (5, 9, 20, 1000):
        x = np.arange(n, dtype=np.float32) + 1
        each = found[str(n)]
        assert np.allclose(each["grad"], np.sin(x) + x * np.cos(x), atol=2e-3)
        if n >= 20:
            continue
        x[[0, 2]] += 1
        for _ in range(2):
            x = x * 0.5 + 1.5
        x += 1
        assert np.allclose(each["x"], x) and np.allclose(each["sorted"], np.sort(-x))
        assert np.allclose(each["sum"], np.cumsum(x), rtol=1e-5) and np.allclose(each["some"], x[x > 1])
        assert each["w"] == [2, 4, 6] and each["n"] == 3


def test_classes_may_be_imported_later(path: str) -> None:
    frozen = dr.freeze(lambda p: p.x * p.k)
    frozen(Pair(floats(3)))
    frozen.save(path)
    own = sys.modules[__name__].Pair
    del sys.modules[__name__].Pair
    try:
        other = dr.load_frozen(path)
        with pytest.raises(RuntimeError, match=r"objects of the class .*Pair, which this process has not imported"):
            other(own(floats(3)))
    finally:
        sys.modules[__name__].Pair = own
    same(other(own(floats(3))), floats(3) * 2)
