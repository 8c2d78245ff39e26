"""Arrays and generators as values: pickles, deep copies, and what refuses them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import pickletools

import numpy as np
import pytest

import drjit as dr
import drjit.llvm as llvm
import drjit.scalar as scalar
from drjit.llvm import (
    PCG32,
    Array3f,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int,
    Matrix4f,
    Philox4x32,
    Quaternion4f,
    TensorXf,
    UInt,
    UInt64,
)

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)

ARRAYS = {
    "evaluated": lambda: Float(1, -0.0, float("inf")),
    "unevaluated": lambda: dr.arange(Float, 5) * 2 + 1,
    "literal": lambda: Float(2.5),
    "wide literal": lambda: dr.full(Float, -0.0, 1000),
    "not a number": lambda: Float(float("nan")),
    "empty": lambda: Float(),
    "undefined, then written": lambda: _written(),
    "mask": lambda: Bool(True, False, True),
    "literal mask": lambda: Bool(True),
    "half": lambda: Float16(1, 0.1, 65504),
    "large integers": lambda: UInt64(2**64 - 1, 0, 2**63),
    "small integers": lambda: llvm.Int8(-128, 127),
    "nested": lambda: Array3f([1, 2, 3], 4, dr.arange(Float, 3)),
    "one element a component": lambda: Array3f(1, dr.opaque(Float, 2), 3),
    "dynamic": lambda: ArrayXf([1, 2], [3, 4], [5, 6]),
    "dynamic, empty": lambda: ArrayXf(),
    "nothing but masks": lambda: llvm.Array2b([True, False], True),
    "two dimensions": lambda: llvm.Array22f([[1, 2], [3, 4]]),
    "matrix": lambda: Matrix4f(2) + dr.arange(Float, 3),
    "matrix of vectors": lambda: llvm.Matrix43f(3),
    "complex": lambda: Complex2f([1, 2], 3),
    "quaternion": lambda: Quaternion4f(1, 2, 3, [4, 5]),
    "tensor": lambda: TensorXf(dr.arange(Float, 24), (2, 3, 4)),
    "tensor of one number": lambda: TensorXf(3),
    "tensor, empty": lambda: TensorXf(Float(), (3, 0, 2)),
    "literal tensor": lambda: dr.zeros(TensorXf, (100, 100)),
    "component": lambda: Array3f([1, 2], 3, 4).x,
    "storage of a tensor": lambda: TensorXf(dr.arange(Float, 6), (2, 3)).array,
    "differentiable": lambda: llvm.ad.Array2f([1, 2], 3),
    "differentiable, empty": lambda: _tracked(llvm.ad.Float()),
    "differentiable literal": lambda: _tracked(llvm.ad.Float(2)),
    "scalar": lambda: scalar.Array3f(1, 2.5, -3),
    "scalar half": lambda: scalar.Array2f16(1, 0.1),
    "scalar matrix": lambda: scalar.Matrix3f(2),
    "scalar, of any length": lambda: scalar.ArrayXi([1, 2, 3]),
    "scalar, empty": lambda: scalar.ArrayXu(),
    "not listed": lambda: llvm.Array22i(1),
}


def _written() -> Float:
    x = dr.empty(Float, 3)
    dr.scatter(x, Float(1, 2, 3), UInt(2, 1, 0))
    return x


def _tracked(x):
    dr.enable_grad(x)
    return x


def content(array):
    """All there is to a value, by its bits."""
    return type(array), array.shape, [n.size for n in array._nodes()], array.numpy().tobytes(), array.numpy().dtype


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS)
def test_arrays_survive_pickling(make):
    for protocol in PROTOCOLS:
        array = make()
        restored = pickle.loads(pickle.dumps(array, protocol))
        assert restored.state == array.state  # literals stay literals, pickling evaluates all else
        assert content(restored) == content(make())


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, dr.copy])
def test_copies_have_the_same_values(duplicate, make):
    array = make()
    assert content(duplicate(array)) == content(make()) and duplicate(array) is not array


@pytest.mark.parametrize("package", [llvm, llvm.ad, scalar], ids=lambda package: package.__name__)
def test_all_types_can_be_pickled(package):
    for name in package.__all__:
        cls = getattr(package, name)
        is_array = isinstance(cls, type) and issubclass(cls, dr.ArrayBase)
        if not is_array or package is scalar and cls._special == "tensor":
            continue
        for array in (cls(), dr.zeros(cls, 3), dr.opaque(cls, 1, 3) if cls._dynamic else dr.ones(cls)):
            restored = pickle.loads(pickle.dumps(array))
            assert (type(restored), str(restored)) == (type(array), str(array))
        assert pickle.loads(pickle.dumps(cls)) is cls


def test_literals_take_no_memory():
    wide = dr.full(Float, 3, 10**8)
    text = pickle.dumps(wide)
    restored = pickle.loads(text)
    assert len(text) < 200 and restored.state == dr.VarState.Literal and len(restored) == 10**8


def test_a_node_at_several_places_is_stored_once():
    x = dr.arange(Float, 10_000) + 1
    assert len(pickle.dumps(Array3f(x, x, x))) < 1.1 * 40_000
    restored = pickle.loads(pickle.dumps(Array3f(x, 1, x)))
    restored.x[0] = 7
    assert (restored.x[0], restored.z[0]) == (7, 1)


def test_restored_arrays_are_independent():
    array = Array3f([1, 2], 3, 4)
    part, both = array.x, Float(array.x)
    restored, again, copied = pickle.loads(pickle.dumps((array, part, both)))
    again[0] = 9
    copied += 1
    assert (restored.x[0], again[0], copied[0], array.x[0]) == (1, 9, 2, 1)
    tensor = TensorXf([[1, 2]])
    restored, storage = copy.deepcopy([tensor, tensor.array])
    storage[0] = 9
    assert restored[0, 0].item() == 1 and tensor[0, 0].item() == 1
    same, equal = pickle.loads(pickle.dumps((array, array)))
    assert same is equal  # as pickles do with all objects


def test_one_kernel_for_one_pickle():
    matrix = Matrix4f(*[dr.arange(Float, 4) * (k + 2.5) for k in range(16)])
    with dr.profile_enable():
        pickle.dumps(matrix)
    assert len(dr.kernel_history()) == 1


def test_deep_copies_evaluate_nothing():
    x = dr.arange(Float, 4) + 1
    with dr.profile_enable():
        copied = copy.deepcopy({"a": [x, Array3f(x)]})
    assert not dr.kernel_history() and copied["a"][0].state == dr.VarState.Unevaluated


def test_deep_copies_are_out_of_reach_of_views_and_imports():
    exported, memory = dr.opaque(Float, 1, 3), np.array([1, 1, 1], dtype=np.float32)
    view, imported = exported.numpy(), Float(Shared(memory))
    copies = copy.deepcopy([exported, imported])
    view[0] = memory[0] = 5
    assert (exported[0], imported[0]) == (5, 5) and [c[0] for c in copies] == [1, 1]


class Shared:
    """Speaks DLPack only."""

    def __init__(self, memory):
        self.memory = memory

    def __dlpack__(self, **options):
        return self.memory.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.memory.__dlpack_device__()


def test_buffers_of_their_own():
    array, buffers = dr.arange(Float, 100_000) + 1, []
    text = pickle.dumps(array, 5, buffer_callback=buffers.append)
    assert len(text) < 200 and [len(buffer.raw()) for buffer in buffers] == [400_000]
    array[0] = 7  # after the pickle, before its buffer is written
    received = [bytearray(buffer) for buffer in buffers]
    restored = pickle.loads(text, buffers=received)
    received[0][:4] = b"\0\0\0\0"
    assert (restored[0], array[0]) == (1, 7)


@dataclasses.dataclass
class Particle:
    position: Array3f
    generator: PCG32
    name: str


def test_pytrees():
    tree = {"p": Particle(Array3f(1, [2, 3], 4), PCG32(2), "a"), "t": (TensorXf([[1]]), [Int(1, 2), None])}
    restored = pickle.loads(pickle.dumps(tree))
    assert dr.format(restored) == dr.format(tree)
    assert str(restored["p"].generator.next_float32()) == str(tree["p"].generator.next_float32())


GENERATORS = {
    "PCG32": lambda: PCG32(5, 7), "literal PCG32": lambda: PCG32(), "scalar PCG32": lambda: scalar.PCG32(1, 7),
    "PCG32 of llvm.ad": lambda: llvm.ad.PCG32(3), "Philox": lambda: Philox4x32(3, dr.arange(UInt, 4), iterations=10),
    "scalar Philox": lambda: scalar.Philox4x32(2**63 + 1, 5),
}


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_generators_go_on_where_they_were(make):
    def draw(generator):
        return str(generator.next_float32() if hasattr(generator, "next_float32") else generator.next_float32x4())

    generator = make()
    draw(generator)
    copies = [pickle.loads(pickle.dumps(generator, protocol)) for protocol in PROTOCOLS]
    copies += [copy.copy(generator), copy.deepcopy(generator)]
    expected = [draw(generator), draw(generator)]
    for other in copies:
        assert type(other) is type(generator) and [draw(other), draw(other)] == expected


class Labelled(Float):
    """A class that a program derives; unlike the package's own it has attributes."""


def test_derived_classes_keep_their_attributes():
    array = Labelled(1, 2)
    array.unit = ["m"]
    for restored in (pickle.loads(pickle.dumps(array)), copy.deepcopy(array)):
        assert type(restored) is Labelled and str(restored) == "[1, 2]"
        assert restored.unit == ["m"] and restored.unit is not array.unit


def test_labels_stay_behind():
    x = dr.opaque(Float, 1, 3)
    x.label = "mine"
    assert pickle.loads(pickle.dumps(x)).label is None


def test_pickles_name_public_types_only():
    for value in (Array3f([1, 2], 3, 4), TensorXf([1]), scalar.Array2f(1, 2), PCG32(2), Philox4x32(1, 2)):
        for opcode, argument, _ in pickletools.genops(pickle.dumps(value, 2)):
            if opcode.name == "GLOBAL":
                module, name = argument.split()
                assert module in ("drjit.llvm", "drjit.scalar", "_codecs") and not name.startswith("_")


# --- what refuses ----------------------------------------------------------------------------------------------------


def test_symbolic_arrays_refuse():
    seen = []

    def body(i, v, rng):
        rng.next_uint32()
        for value in (i, v, rng, [v]):
            with pytest.raises(RuntimeError, match=r"a pickle holds the values.*this array is symbolic"):
                pickle.dumps(value)
            seen.append(value)
        return i + 1, copy.deepcopy(v) + 1, rng

    _, found, _ = dr.while_loop((Int(0, 1), Array3f(1), PCG32(2)), lambda i, v, rng: i < 2, body)
    assert str(found) == "[[3, 3, 3],\n [2, 2, 2]]" and seen


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_nodes_and_memory_refuse(duplicate):
    x = dr.opaque(Float, 1, 3)
    with pytest.raises(TypeError, match=r"cannot pickle or copy a node of the graph.*pickle the array"):
        duplicate(x._nodes()[0])
    with pytest.raises(TypeError, match=r"cannot pickle or copy the memory of an array.*pickle the array"):
        duplicate(x._nodes()[0].payload)


GOOD = {"format": 1, "elements": "f4", "entries": [b"\0" * 8]}


@pytest.mark.parametrize(("cls", "state", "message"), [
    (Float, {**GOOD, "format": 2}, r"drjit\.llvm\.Float: .* format .* \(expected 1, found 2\)"),
    (Float, (b"\0" * 8,), "found none at all"), (Float, None, "found none at all"),
    (Float64, GOOD, "elements of the type 'f4', expected 'f8'"),
    (Float, {**GOOD, "entries": []}, "damaged"), (Float, {**GOOD, "entries": [b"123"]}, "damaged"),
    (Float, {**GOOD, "entries": [3]}, "damaged"), (Float, {"format": 1, "elements": "f4"}, "damaged"),
    (Array3f, GOOD, "1 components instead of 3"), (Array3f, {**GOOD, "positions": [0, 0, 1]}, "damaged"),
    (TensorXf, {**GOOD, "shape": (3,)}, "2 elements and the shape"), (TensorXf, GOOD, "damaged"),
    (scalar.Array3f, GOOD, "2 components instead of 3"), (scalar.Array3f, {**GOOD, "entries": [b"123"]}, "damaged"),
])
def test_what_is_no_state_of_an_array_raises(cls, state, message):
    with pytest.raises(ValueError, match=message):
        cls.__new__(cls).__setstate__(state)


def test_what_is_no_state_of_a_generator_raises():
    for cls in (PCG32, scalar.Philox4x32):
        with pytest.raises(ValueError, match="cannot restore this generator"):
            cls.__new__(cls).__setstate__({"format": 7})


class _Named(Float):
    """An array type of a program, whose instances have attributes."""


def test_deep_copies_copy_what_attributes_share_once() -> None:
    x, shared = _Named(1, 2), [1]
    x.myself, x.shared = x, shared
    copied, other = copy.deepcopy([x, shared])
    assert copied.myself is copied and copied is not x
    assert copied.shared is other and other is not shared
    copied += 1
    assert list(copied.myself) == [2, 3] and list(x) == [1, 2]
