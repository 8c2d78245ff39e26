"""Checkpoints: PyTrees that come back bit by bit, files that are complete or not there, and those that are damaged."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import textwrap
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import drjit as dr
import drjit.scalar as scalar
from drjit import nn
from drjit.llvm import ad
from drjit.llvm.ad import Array3f, Float, Float16, Float64, TensorXf, UInt, UInt64
from drjit.nn import tensors
from drjit.opt import SGD, Adam, GradScaler

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass
class Point:
    x: Float
    name: str


class Pair(NamedTuple):
    a: Any
    b: Any


def bits(value: Any) -> Any:
    found = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    return found.dtype.name, found.shape, found.tobytes()


VALUES: dict[str, Any] = {
    "float": lambda: Float(0.1, -0.0, dr.inf, dr.nan), "empty": Float, "literal": lambda: dr.full(Float, 3, 5),
    "half": lambda: ad.Float16(0.1, 65504), "bfloat16": lambda: ad.BFloat16(0.1, -3), "double": lambda: Float64(0.1),
    "mask": lambda: ad.Bool(True, False), "int": lambda: ad.Int(-1, 2), "long": lambda: ad.UInt64(2**64 - 1),
    "byte": lambda: ad.Int8(-128, 3), "nested": lambda: Array3f([1, 2], 3, 4),
    "matrix": lambda: ad.Matrix2f(1, 2, 3, 4), "complex": lambda: ad.Complex2f(1, [2, 3]),
    "quaternion": lambda: ad.Quaternion4f64(1, 2, 3, 4),
    "tensor": lambda: TensorXf(np.arange(6, dtype=np.float32), (1, 2, 3)), "deep": lambda: ad.ArrayXf([[1, 2], [3, 4]]),
    "bf16 tensor": lambda: ad.TensorXbf16([0.1, 0.2], (2, 1)), "no derivatives": lambda: dr.llvm.Float(1, 2),
    "scalar": lambda: scalar.Array3f(1, 2, 3), "numpy": lambda: np.arange(6).reshape(2, 3).astype(np.int16),
    "numpy scalar": lambda: np.float32(0.1), "numpy complex": lambda: np.array([1 + 2j, 3]),
    "attached": lambda: ad.Float(1, 2) * 2}


@pytest.mark.parametrize("name", list(VALUES))
def test_arrays_come_back_bit_by_bit(name: str, tmp_path: pathlib.Path) -> None:
    value = VALUES[name]()
    nn.save_checkpoint(tmp_path, {"x": value}, 0)
    for like in (None, {"x": VALUES[name]()}):
        found = nn.load_checkpoint(tmp_path, like)["x"]
        assert type(found) is type(value) and bits(found) == bits(value)


def test_containers_and_numbers_come_back(tmp_path: pathlib.Path) -> None:
    tree = {"list": [1, 2.5, None, True, "ü", 1 + 2j, 2**70], "tuple": (1e-320, float("inf")), 3: {"a.b": Float(1)},
            "a": {"b": Float(2)}}
    nn.save_checkpoint(tmp_path, tree, 5)
    found = nn.load_checkpoint(tmp_path)
    assert repr(found) == repr(tree)
    assert np.isnan(nn.load_checkpoint(nn.save_checkpoint(tmp_path, float("nan"), 6).parent))
    nn.save_checkpoint(tmp_path, Float(1, 2), 7)
    assert nn.load_checkpoint(tmp_path).numpy().tolist() == [1, 2]


def test_objects_come_back_in_the_form_of_what_is_given(tmp_path: pathlib.Path) -> None:
    def tree(x: float, losses: list[float]) -> Any:
        return {"point": Point(Float(x), "p"), "pair": Pair(x, [Float(x)]), "space": SimpleNamespace(x=x),
                "losses": losses}

    nn.save_checkpoint(tmp_path, tree(1, [1.0, 2.0]), 0)
    found = nn.load_checkpoint(tmp_path, tree(5, []))
    assert repr(found) == repr(tree(1, [1.0, 2.0])) and type(found["pair"]) is Pair
    for like, text in ((None, "point was saved as .*Point, but is missing"),
                       ({**tree(5, []), "pair": [5, 6]}, "pair was saved as .*Pair, but is of the type list"),
                       ({**tree(5, []), "losses": 3}, "losses was saved as list, but is of the type int"),
                       ({**tree(5, []), "point": Point(UInt(1), "p")}, r"point.x was saved as .*Float, but")):
        with pytest.raises(TypeError, match=text):
            nn.load_checkpoint(tmp_path, like)


@pytest.mark.parametrize(("tree", "text"), [({"a": [object()]}, "a.0 is of the type object"), (len, "the PyTree is"),
                                            ({"f": {(1, 2): 3}}, "f is of the type dict"), ({"b": b"x"}, "bytes"),
                                            ({"n": np.array(["text"])}, "str")])
def test_what_cannot_be_stored_is_named(tree: Any, text: str, tmp_path: pathlib.Path) -> None:
    nn.save_checkpoint(tmp_path, {"x": 1}, 0)
    with pytest.raises(TypeError, match=text):
        nn.save_checkpoint(tmp_path, tree, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-0000000000.safetensors"]


def training() -> dict[str, Any]:
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(-1, 1)).alloc(TensorXf)
    enc = nn.HashGridEncoding(Float, 2, n_levels=2)
    opt = Adam(lr=0.1)
    opt.update({**net, "features": enc.params})
    return {"net": net, "enc": enc, "opt": opt, "scaler": GradScaler(4), "rng": dr.rng(1), "step": 0}


def advance(state: dict[str, Any], steps: int) -> None:
    opt, net, scaler, enc = state["opt"], state["net"], state["scaler"], state["enc"]
    for _ in range(steps):
        net.update({key: opt[key] for key in net})
        enc.set_params(opt["features"])
        x = state["rng"].random(TensorXf, (2, 16))
        loss = dr.mean(dr.square(net(x) - 1), axis=None) + dr.sum(dr.square(enc(x) - 1), axis=None)
        dr.backward(scaler.scale(loss))
        scaler.step(opt)
        state["step"] += 1


def test_training_goes_on_with_the_same_bits(tmp_path: pathlib.Path) -> None:
    state = training()
    advance(state, 3)
    nn.save_checkpoint(tmp_path, state, 3)
    advance(state, 3)
    other = nn.load_checkpoint(tmp_path, training())
    assert other["step"] == 3
    advance(other, 3)
    for key in ("net", "enc", "opt", "scaler", "rng"):
        a, b = state[key].state_dict(), other[key].state_dict()
        assert a.keys() == b.keys() and all(bits(a[name]) == bits(b[name]) for name in a), key


def test_a_state_that_does_not_fit_changes_nothing(tmp_path: pathlib.Path) -> None:
    nn.save_checkpoint(tmp_path, {"a": SGD(1, {"x": Float(1)}), "b": SGD(1, {"x": Float(1)})}, 0)
    like = {"a": SGD(1, {"x": Float(5)}), "b": SGD(1, {"y": Float(5)})}
    with pytest.raises(KeyError, match=r"load_checkpoint\(\): b.*missing: 'y.value'"):
        nn.load_checkpoint(tmp_path, like)
    assert like["a"]["x"][0] == 5


def test_the_last_ones_are_kept(tmp_path: pathlib.Path) -> None:
    for step in (0, 10, 20, 30, 40):
        path = nn.save_checkpoint(tmp_path / "new", {"step": step}, step, keep=2)
        assert path.name == f"checkpoint-{step:010d}.safetensors"
    folder = tmp_path / "new"
    assert nn.checkpoints(folder) == [30, 40] and nn.load_checkpoint(folder, step=30) == {"step": 30}
    nn.save_checkpoint(folder, {"step": 35}, 35, keep=None)
    assert nn.checkpoints(folder) == [30, 35] and (folder / "checkpoint-0000000040.left").exists()
    for bad in ({"step": -1}, {"step": 0.5}, {"step": 1, "keep": 0}):
        with pytest.raises(ValueError, match="must be an int"):
            nn.save_checkpoint(folder, {}, **bad)
    with pytest.raises(FileNotFoundError, match="no checkpoint 7"):
        nn.load_checkpoint(folder, step=7)
    with pytest.raises(FileNotFoundError, match="no checkpoint in"):
        nn.load_checkpoint(tmp_path / "nowhere")


def test_every_damage_is_found_and_the_previous_one_loaded(tmp_path: pathlib.Path) -> None:
    nn.save_checkpoint(tmp_path, {"x": Float(1, 2, 3)}, 1)
    path = nn.save_checkpoint(tmp_path, {"x": Float(4, 5, 6)}, 2)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [good[:-1], good[:20], b"", good + b"x", b"no file of tensors"]
    for place in rng.integers(0, len(good), 40):
        damaged.append(bytes([*good[:place], good[place] ^ 1 << int(rng.integers(8)), *good[place + 1:]]))
    for content in damaged:
        path.write_bytes(content)
        with pytest.warns(RuntimeWarning, match="damaged"):
            assert nn.load_checkpoint(tmp_path)["x"].numpy().tolist() == [1, 2, 3]
        with pytest.raises(ValueError, match="damaged"):
            nn.load_checkpoint(tmp_path, step=2)
    assert path.read_bytes() == damaged[-1]
    nn.save_checkpoint(tmp_path, {"x": Float(7)}, 2)
    assert nn.load_checkpoint(tmp_path)["x"].numpy().tolist() == [7]


def test_a_write_that_fails_leaves_what_was_there(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nn.save_checkpoint(tmp_path, {"x": Float(1)}, 1)

    def fail(descriptor: int) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as context:
        context.setattr(tensors.os, "fsync", fail)
        for step in (1, 2):
            with pytest.raises(OSError, match="full"):
                nn.save_checkpoint(tmp_path, {"x": Float(2)}, step, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-0000000001.safetensors"]
    assert nn.load_checkpoint(tmp_path)["x"][0] == 1


PROGRAM = """
    import os, sys
    import drjit as dr
    from drjit import nn
    from drjit.llvm.ad import Float, TensorXf

    folder, end, killed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(-1, 1)).alloc(TensorXf)
    net = nn.pack(net, layout="training")
    opt = dr.opt.Adam(lr=0.01, params=net)
    state = {"net": net, "opt": opt, "rng": dr.rng(3), "step": 0, "losses": []}
    if nn.checkpoints(folder):
        state = nn.load_checkpoint(folder, state)

    @dr.freeze
    def train(net, opt, x):
        net.update(opt)
        y, = net(nn.CoopVec(x))
        loss = dr.mean(dr.square(y - dr.sin(3 * x)))
        dr.backward(loss)
        opt.step()
        return loss

    while state["step"] < end:
        loss = train(net, opt, state["rng"].random(Float, 64))
        state["losses"].append(float(loss[0]))
        state["step"] += 1
        if state["step"] % 5 == 0:
            nn.save_checkpoint(folder, state, state["step"], keep=2)
        if state["step"] == killed:
            os.kill(os.getpid(), 9)
"""


def test_a_program_that_is_killed_goes_on_with_the_same_bits(tmp_path: pathlib.Path) -> None:
    def run(folder: str, killed: int) -> int:
        path = os.pathsep.join((str(ROOT), str(ROOT / "compiler")))
        command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path / folder), "20", str(killed)]
        return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, timeout=240, check=False).returncode

    assert run("whole", 0) == 0
    assert run("parts", 7) == -9 and nn.checkpoints(tmp_path / "parts") == [5]
    assert run("parts", 13) == -9 and run("parts", 0) == 0
    files = [next((tmp_path / folder).glob("*20.safetensors")).read_bytes() for folder in ("whole", "parts")]
    assert files[0] == files[1]


def test_files_of_tensors(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.safetensors"
    given = {"x": TensorXf(np.arange(6, dtype=np.float32), (2, 3)), "b": ad.TensorXbf16([0.1, 2], (2,)),
             "h": Float16(0.5), "n": np.arange(3), "e": np.zeros((0, 2), np.float32)}
    nn.save_safetensors(path, given, {"made": "here"})
    assert tensors.read(path)[1] == {"made": "here"}
    found = nn.load_safetensors(path, TensorXf)
    assert {key: type(value).__name__ for key, value in found.items()} == {
        "x": "TensorXf", "b": "TensorXbf16", "h": "TensorXf16", "n": "TensorXi64", "e": "TensorXf"}
    assert all(bits(found[key]) == bits(given[key]) for key in given)
    assert {key: value.shape for key, value in found.items()} == {"x": (2, 3), "b": (2,), "h": (1,), "n": (3,),
                                                                  "e": (0, 2)}
    nn.save_safetensors(path, {"i": np.arange(3, dtype=np.int16)})
    with pytest.raises(ValueError, match="'i' has elements of the type I16"):
        nn.load_safetensors(path, TensorXf)
    with pytest.raises(TypeError, match="names are mapped to arrays, found 'x' with int"):
        nn.save_safetensors(path, {"x": 1})
    with pytest.raises(TypeError, match="'dtype' must be a tensor type"):
        nn.load_safetensors(path, Float)


def test_files_of_others(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "other.safetensors"
    header = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    for damage in ({}, {"data_offsets": [0, 16]}, {"dtype": "F7"}, {"shape": [3]}, {"data_offsets": 3}):
        text = json.dumps({"w": {**header["w"], **damage}}).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + np.array([1, 2], np.float32).tobytes())
        if damage:
            with pytest.raises(ValueError, match="damaged"):
                nn.load_safetensors(path, TensorXf)
        else:
            assert nn.load_safetensors(path, TensorXf)["w"].numpy().tolist() == [1, 2]


def test_the_library_reads_and_writes_the_same(tmp_path: pathlib.Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(-1, 1)).alloc(TensorXf)
    path = tmp_path / "net.safetensors"
    nn.save_safetensors(path, {**net.state_dict(), "h": ad.Float16(1, 2), "m": ad.Bool(True)}, {"a": "b"})
    found = library.load_file(path)
    assert all(np.array_equal(found[key], value.numpy()) for key, value in net.items())
    assert found["h"].dtype == np.float16 and found["m"].dtype == np.bool_
    library.save_file({key: value * 2 for key, value in found.items() if key in net}, path, {"c": "d"})
    net.load_state_dict(nn.load_safetensors(path, TensorXf))
    assert all(np.array_equal(found[key] * 2, value.numpy()) for key, value in net.items())
    checkpoint = nn.save_checkpoint(tmp_path, {"net": net}, 1)
    assert list(library.load_file(checkpoint)) == [f"net.{key}" for key in sorted(net)]


def test_what_was_in_memory_is_there_again(tmp_path: pathlib.Path) -> None:
    """Constants stay constants, and one element in memory does not become one: kernels are the same as before."""
    def states(*arrays: Any) -> list[Any]:
        return [array.state for array in arrays]

    def some() -> dict[str, Any]:
        rng = dr.rng(UInt64(7))
        dr.make_opaque(rng)
        return {"memory": dr.opaque(Float, 2), "constant": Float(3), "vector": Array3f(1, 2, 3), "rng": rng,
                "dropout": nn.Dropout(0.5).alloc(TensorXf)}

    saved = some()
    nn.save_checkpoint(tmp_path, saved, 0)
    for like in (some(), {**some(), "rng": dr.rng(UInt64(1))}):
        found = nn.load_checkpoint(tmp_path, like)
        for one in (saved, found):
            assert states(one["memory"], one["constant"], *one["vector"]) == \
                [dr.VarState.Evaluated, dr.VarState.Literal, *[dr.VarState.Literal] * 3]
            assert states(*one["rng"].state_dict().values()) == [dr.VarState.Evaluated] * 2
            assert states(*one["dropout"].rng.state_dict().values()) == [dr.VarState.Evaluated] * 2


def test_a_state_of_numpy_arrays_gets_into_memory_where_one_was() -> None:
    layer = nn.Dropout(0.5).alloc(TensorXf)
    layer.load_state_dict({key: type(value)(value.numpy()) for key, value in layer.state_dict().items()})
    assert [value.state for value in layer.state_dict().values()] == [dr.VarState.Evaluated] * 2
