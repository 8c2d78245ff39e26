"""The packages of array types: names, descriptions, and what the factory makes of records."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import pickle
import subprocess
import sys
import threading

import pytest

import drjit as dr
from drjit import cuda, llvm, scalar
from drjit.cuda import interop
from drjit.llvm import ad

#: By package and name: ``= other`` for aliases, null for classes that are no arrays, else the ``__meta__`` string.
EXPECTED = json.loads((pathlib.Path(__file__).parent.parent / "data" / "array_types.json").read_text("utf-8"))
PACKAGES = {name: importlib.import_module(f"drjit.{name}") for name in EXPECTED}
PYTHON = {"bool": bool, "int": int, "float": float}


def run(program: str) -> str:
    """What a program prints in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True,
                          check=True).stdout


def one_line(meta: str) -> str:
    return " ".join(meta.removeprefix("ArrayMeta[").removesuffix("]").split())


def bfloat16_of(expected: dict[str, str | None]) -> dict[str, str]:
    """The types that the reference does not have: those over bfloat16, of the families that half precision has."""
    found = {}
    for name, meta in expected.items():
        if meta is not None and name.endswith("f16"):
            found[f"{name[:-3]}bf16"] = meta.replace("type=float16", "type=bfloat16")
    return {**found, "BFloat16": str(expected["Float16"]).replace("type=float16", "type=bfloat16")}


@pytest.mark.parametrize("package", EXPECTED)
def test_the_types_of_a_package_have_the_names_and_descriptions_of_the_data_file(package: str) -> None:
    module, expected = PACKAGES[package], EXPECTED[package]
    arrays = {name: meta for name, meta in expected.items() if meta is not None} | bfloat16_of(expected)
    textures = [f"Texture{d}{form}" for d in (1, 2, 3) for form in ("bf16", "f16", "f", "f64", "f8u")]
    others = {"PCG32", "Philox4x32", *textures, *(["Event"] if not package.startswith("scalar") else [])}
    others |= {"green_context"} if package.startswith("cuda") else set()
    others |= set(interop.__all__) if package == "cuda" else set()
    assert set(module.__all__) == {*arrays, *others}
    assert set(module.__all__) <= set(dir(module))
    for name, meta in arrays.items():
        cls = getattr(module, name)
        if meta.startswith("= "):
            other = meta.removeprefix("= ")
            assert cls is (PYTHON[other] if other in PYTHON else getattr(module, other))
            continue
        assert one_line(cls.__meta__) == meta
        assert cls.__meta__.startswith("ArrayMeta[\n  type=") and cls.__meta__.endswith(")\n]")
        assert (cls.__name__, cls.__qualname__, cls.__module__) == (name, name, f"drjit.{package}")
        assert issubclass(cls, dr.ArrayBase)


@pytest.mark.parametrize("package", EXPECTED)
def test_classes_of_a_package_that_are_no_arrays_exist_or_are_not_there(package: str) -> None:
    module = PACKAGES[package]
    for name in (name for name, meta in EXPECTED[package].items() if meta is None):
        assert hasattr(module, name) == (name in module.__all__) == (name in dir(module))


def test_unknown_names_raise() -> None:
    for module in PACKAGES.values():
        for name in ("Array5f", "Array3q", "Matrix5f", "Matrix2i", "Complex3f", "Foo", "array3f"):
            with pytest.raises(AttributeError, match=name):
                getattr(module, name)


def test_a_type_is_made_once_even_by_many_threads() -> None:
    program = """
import threading, sys
sys.setswitchinterval(1e-6)
import drjit.llvm as llvm
found, gate = [], threading.Barrier(8)
def work():
    gate.wait()
    found.append([llvm.Array3f, llvm.Matrix4f64, llvm.Quaternion4f, llvm.Array3f._mask_type, llvm.Array3f._value])
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
assert len({tuple(map(id, f)) for f in found}) == 1
"""
    run(program)


def test_relatives_of_types() -> None:
    for module in (llvm, ad, scalar):
        for name, plain, mask in (("Array3f", "Array3f", "Array3b"), ("Matrix2f", "Array22f", "Array22b"),
                                  ("Matrix34f", "Array334f", "Array334b"), ("Complex2f", "Array2f", "Array2b"),
                                  ("Quaternion4f64", "Array4f64", "Array4b"), ("ArrayXu", "ArrayXu", "ArrayXb")):
            cls = getattr(module, name)
            assert (cls._plain, cls._mask_type) == (getattr(module, plain), getattr(module, mask))
        assert module.TensorXf._mask_type is module.TensorXb
        assert module.TensorXf._plain is (module.Float if module is not scalar else module.ArrayXf)


# --- packages together -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Float", "Array3f", "ArrayXf", "Array22f"])
def test_types_that_track_derivatives_compute_like_the_others(name: str) -> None:
    plain, diff = getattr(llvm, name), getattr(ad, name)
    a, b = plain(2), diff(3)
    for result in (a + b, b + a, dr.fma(a, b, 1), dr.maximum(a, b), a * b, dr.select(a < b, a, b)):
        assert type(result) is diff
    assert type(a < b) is diff._mask_type
    assert type(plain(b)) is plain and type(diff(a)) is diff
    assert repr(plain(b)) == repr(b) and repr(a + b) == repr(plain(5))
    assert dr.all(diff(a) == a, axis=None)


def test_other_scalar_types_and_shapes_meet_in_the_package_that_tracks_derivatives() -> None:
    assert type(ad.Int(1) + llvm.Float(2)) is ad.Float
    assert type(llvm.Array3f(1) + ad.Int(2)) is ad.Array3f
    assert type(ad.UInt(1) * llvm.Array3i(1, 2, 3)) is ad.Array3u
    assert type(dr.gather(ad.Float, ad.Float(1, 2, 3), llvm.UInt(0, 1))) is ad.Float
    value = ad.Float(1)
    value += llvm.Float(2)
    assert type(value) is ad.Float and value[0] == 3



needs_no_gpu = pytest.mark.skipif(dr.has_backend(dr.JitBackend.CUDA), reason="this machine has a GPU")


@needs_no_gpu
@pytest.mark.parametrize("name", ["Float", "Bool", "Array3f", "Matrix4f", "Complex2f", "TensorXf", "ArrayXi"])
def test_types_of_an_unavailable_backend_can_be_named_and_raise_when_used(name: str) -> None:
    for module in (cuda, cuda.ad):
        cls = getattr(module, name)
        message = rf"drjit\.cuda\.(ad\.)?{name}.*CUDA backend is not available"
        for args in ((), (1,), ([1, 2],)):
            with pytest.raises(RuntimeError, match=message):
                cls(*args)
        for create in (dr.zeros, dr.ones, dr.empty, lambda dtype: dr.full(dtype, 1)):
            with pytest.raises(RuntimeError, match="CUDA backend is not available"):
                create(cls)
    with pytest.raises(RuntimeError, match="CUDA backend is not available"):
        dr.arange(cuda.Float, 3)
    for made in (llvm.Float(1), llvm.Array3f(1, [2, 3], 4), llvm.TensorXf([1, 2])):
        with pytest.raises(RuntimeError, match=rf"{type(made).__name__}\.__setstate__\(\): the CUDA backend is not "):
            pickle.loads(pickle.dumps(made).replace(b"drjit.llvm", b"drjit.cuda"))
    with pytest.raises(RuntimeError, match=r"^drjit\.freeze\(\): .* is not available on this machine: .*driver"):
        dr.freeze(lambda: 1, backend=dr.JitBackend.CUDA)()


def test_types_are_made_without_a_search_for_a_device_which_the_first_instance_of_each_asks_for() -> None:
    assert run("""
import sys
from drjit import cuda
from drjit._base import types
class Mine(cuda.Float):
    def __init__(self, *args):
        super().__init__(*args)
for name in cuda.__all__:
    getattr(cuda, name)
print([name for name in sys.modules if name.startswith("drjit_core.runtime.gpu.")])
types.has_backend = lambda backend: True
print(Mine(2)._n.size, [type(cuda.Array3f(k, 1, 2)._c) for k in (1, 2)], cuda.Float(3)._n.size, cuda.Float()._n.size)
""") == "[]\n1 [<class 'list'>, <class 'list'>] 1 0\n"


@needs_no_gpu
def test_fields_of_an_unavailable_backend_raise_and_are_not_taken_for_available_ones_later() -> None:
    fields = type("Fields", (), {"DRJIT_STRUCT": {"x": cuda.UInt64}})
    for dtype in (fields, cuda.PCG32, cuda.UInt64):
        for create in (dr.zeros, dr.ones, dr.empty, lambda dtype: dr.full(dtype, 1), lambda dtype: dr.opaque(dtype, 1)):
            with pytest.raises(RuntimeError, match="CUDA backend is not available"):
                create(dtype)


def test_backends_do_not_mix() -> None:
    from drjit._promotion.promote import wrap

    foreign = wrap(cuda.Float, llvm.Float(1)._nodes())  # what a GPU would hold
    for operation in (lambda: llvm.Float(1) + foreign, lambda: foreign + ad.Array3f(1),
                      lambda: dr.fma(llvm.Float(1), foreign, 2), lambda: dr.maximum(foreign, llvm.Int(1)),
                      lambda: dr.select(llvm.Bool(True), foreign, 1), lambda: llvm.Float(1) < foreign):
        with pytest.raises(TypeError, match=r"drjit\.(cuda|llvm)\.\w* .*drjit\.(cuda|llvm).*different backends"):
            operation()


def test_no_lock_is_held_while_types_are_found() -> None:
    from drjit._base.types import lookup

    done = threading.Event()
    threading.Thread(target=lambda: (lookup(llvm.Array44f._record), done.set())).start()
    assert done.wait(10)
