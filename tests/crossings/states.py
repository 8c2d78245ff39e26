"""States: what an array may have gone through before it is touched."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import drjit as dr
from drjit import llvm
from drjit.llvm import ad

from .model import Array, difference

__all__ = ["STATES", "Sample", "State"]


@dataclass
class Sample:
    """An array, its model, and who else sees it.

    ``observe`` gets the model of the array before and after the touch and what the touch did (its *room*, see
    ``touches.py``), and says in words what is wrong elsewhere.
    """

    array: Any
    value: Array
    observe: Callable[[Array, Array, str], str] = lambda before, after, room: ""
    keep: list[Any] = field(default_factory=list)


class State(NamedTuple):
    """A row: a name, and how such an array is made."""

    name: str
    make: Callable[[], Sample]


class Exporter:
    """Memory that is offered by DLPack, and by nothing else."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack__(self, **arguments: Any) -> Any:
        """The memory."""
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> Any:
        """The device that it lies on."""
        return self.array.__dlpack_device__()


_NUMBERS = [3, 1, 4, 2]


def _array(text: Any, dtype: str = "f4") -> Array:
    return np.array(text, dtype)


def _evaluated(array: Any, value: Array) -> Sample:
    dr.eval(array)
    return Sample(array, value)


def _flat(name: str, dtype: str, numbers: Iterable[Any] = _NUMBERS) -> Callable[[], Sample]:
    def make() -> Sample:
        return _evaluated(getattr(llvm, name)(list(numbers)), _array(list(numbers), dtype))
    return make


def _simple(make: Callable[[], Any], value: Any, dtype: str = "f4") -> Callable[[], Sample]:
    return lambda: Sample(make(), _array(value, dtype))


def _scheduled() -> Sample:
    array = dr.arange(llvm.Float, 4) * 2
    dr.schedule(array)
    return Sample(array, _array([0, 2, 4, 6]))


def _component() -> Sample:
    owner = llvm.Array3f([1, 2, 3, 4], _NUMBERS, [5, 6, 7, 8])
    dr.eval(owner)

    def observe(before: Array, after: Array, room: str) -> str:
        expected = np.stack([_array([1, 2, 3, 4]), after, _array([5, 6, 7, 8])])
        found = difference(owner, expected, loose=True)
        return found and f"the array that it is a component of: {found}"
    return Sample(owner.y, _array(_NUMBERS), observe)


def _texels(form: Callable[[Any], Any], value: Any) -> Callable[[], Sample]:
    """What a texture holds, which sees what is done to it in place."""
    def make() -> Sample:
        texture = llvm.Texture1f(llvm.TensorXf(np.array(value, "f4").reshape(len(value), -1)))
        dr.eval(texture)
        centres = llvm.Array1f((dr.arange(llvm.Float, len(value)) + 0.5) / len(value))

        def observe(before: Array, after: Array, room: str) -> str:
            expected = after if after.shape == before.shape else before
            found = difference(texture.eval(centres), expected.reshape(len(value), -1).T, loose=True)
            return found and f"the texture that it belongs to: {found}"
        return Sample(form(texture), _array(value), observe)
    return make


def _looked_up() -> Sample:
    """What a lookup finds, which nobody has evaluated; the texture goes on as it was."""
    texture = llvm.Texture1f(llvm.TensorXf(_array([3, 5, 1, 3]).reshape(4, 1)))
    dr.eval(texture)
    found = texture.eval(llvm.Array1f((dr.arange(llvm.Float, 4) + 0.5) / 4)).x
    between = llvm.Array1f(llvm.Float(0.25, 0.5, 0.75))
    return Sample(found, _array([3, 5, 1, 3]),
                  lambda before, after, room: _unchanged("another lookup", texture.eval(between).x, _array([4, 3, 2])))


def _row() -> Sample:
    owner = llvm.Matrix2f([1, 2, 3, 4], _NUMBERS, [5, 6, 7, 8], [9, 8, 7, 6])
    dr.eval(owner)

    def observe(before: Array, after: Array, room: str) -> str:
        expected = np.stack([after, _array([[5, 6, 7, 8], [9, 8, 7, 6]])])
        found = difference(owner, expected, loose=True)
        return found and f"the matrix that it is a row of: {found}"
    return Sample(owner[0], _array([[1, 2, 3, 4], _NUMBERS]), observe)


def _shared(make: Callable[[Array], Any], shape: tuple[int, ...] = (4,)) -> Callable[[], Sample]:
    def build() -> Sample:
        source = _array(_NUMBERS if shape == (4,) else [[3, 1, 4], [2, 5, 6]])

        def observe(before: Array, after: Array, room: str) -> str:
            return "" if np.array_equal(source, before) else f"the memory that was imported: found {source.tolist()}"
        return Sample(make(source), source.copy(), observe, [source])
    return build


def _exported(make: Callable[[], Any], export: Callable[[Any], Any], value: Any) -> Callable[[], Sample]:
    def build() -> Sample:
        array = make()
        view = export(array)

        def observe(before: Array, after: Array, room: str) -> str:
            allowed = [after] if room in ("scatter", "write", "item") else [before,
      after] if room == "inplace" else [before]
            if any(np.array_equal(view, expected) for expected in allowed):
                return ""
            return f"the view that was exported: found {np.asarray(view).tolist()}, expected {allowed[0].tolist()}"
        return Sample(array, _array(value), observe)
    return build


def _equal_exported() -> Sample:
    array = dr.arange(llvm.Float, 4) * 2 + 7
    view = (dr.arange(llvm.Float, 4) * 2 + 7).numpy()

    def observe(before: Array, after: Array, room: str) -> str:
        return "" if np.array_equal(view, before) else f"the view of another array: found {view.tolist()}"
    return Sample(array, _array([7, 9, 11, 13]), observe)


def _held() -> Sample:
    array = llvm.Float(_NUMBERS)
    copy = llvm.Float(array)
    return Sample(array, _array(_NUMBERS), lambda before, after, room: _unchanged("a copy", copy, before))


def _unchanged(what: str, array: Any, before: Array) -> str:
    found = difference(array, before)
    return found and f"{what}: {found}"


def _read_by_pending() -> Sample:
    array = llvm.Float(_NUMBERS)
    dr.eval(array)
    reader = dr.gather(llvm.Float, array, llvm.UInt(3, 2, 1, 0)) * 2
    return Sample(array, _array(_NUMBERS),
                  lambda before, after, room: _unchanged("a pending gather", reader, before[::-1] * 2))


def _used_by_pending() -> Sample:
    array = llvm.Float(_NUMBERS)
    dr.eval(array)
    user = array * 2 + 1
    return Sample(array, _array(_NUMBERS),
                  lambda before, after, room: _unchanged("a pending expression", user, before * 2 + 1))


def _pending_target() -> Sample:
    array = llvm.Float(1, 1, 1, 2)
    dr.scatter(array, llvm.Float(3, 4), llvm.UInt(0, 2))
    return Sample(array, _array([3, 1, 4, 2]))


def _pending_addition() -> Sample:
    array = dr.zeros(llvm.Float, 4)
    dr.scatter_add(array, llvm.Float(1, 2, 3, 4, 5), llvm.UInt(0, 1, 2, 2, 0))
    return Sample(array, _array([6, 2, 7, 0]))


def _nested_target() -> Sample:
    array = llvm.Array2f([1, 1, 1, 2], [5, 6, 7, 8])
    dr.scatter(array, llvm.Array2f([3, 4], 9), llvm.UInt(0, 2))
    return Sample(array, _array([[3, 1, 4, 2], [9, 6, 9, 8]]))


def _tensor(name: str, dtype: str, numbers: Any, evaluate: bool = True) -> Callable[[], Sample]:
    def make() -> Sample:
        value = _array(numbers, dtype)
        array = getattr(llvm, name)(value.reshape(-1).tolist() if value.size else [], shape=value.shape)
        return _evaluated(array, value) if evaluate else Sample(array, value)
    return make


def _view(make: Callable[[Any], Any], of: Array) -> Callable[[], Sample]:
    """What is computed from a tensor in memory and not evaluated, beside that tensor; NumPy does the same."""
    def build() -> Sample:
        source = llvm.TensorXf(of.reshape(-1).tolist(), shape=of.shape)
        dr.eval(source)
        return Sample(make(source), np.array(make(of), "f4", order="C"),
                      lambda before, after, room: _unchanged("the tensor that it comes from", source, of))
    return build


def _sorted() -> Sample:
    source = llvm.Float(_NUMBERS)
    return Sample(dr.sort(source), _array([1, 2, 3, 4]),
                  lambda before, after, room: _unchanged("what was sorted", source, _array(_NUMBERS)))


def _scanned() -> Sample:
    source = llvm.Float(_NUMBERS)
    return Sample(dr.cumsum(source), _array([3, 4, 8, 10]),
                  lambda before, after, room: _unchanged("what was summed", source, _array(_NUMBERS)))


def _packet() -> Sample:
    memory = llvm.Float(9, 3, 9, 1, 9, 4, 9, 2)
    dr.eval(memory)
    packet = dr.gather(llvm.Array2f, memory, llvm.UInt(0, 1, 2, 3))
    return Sample(packet.y, _array(_NUMBERS),
                  lambda before, after, room: _unchanged("its neighbour", packet.x, _array([9, 9, 9, 9])))


def _generator() -> Any:
    """A generator that has drawn."""
    generator = dr.rng(llvm.UInt64(7))
    generator.random(llvm.Float, 4)
    return generator


def _draw(generator: Any) -> Any:
    """Numbers of which single precision holds each exactly, and sums of some."""
    return llvm.Float(generator.integers(llvm.Int, 4, 1, 9))


def _random(through: Callable[[Any], Any]) -> Callable[[], Sample]:
    """What a generator draws that has gone through something; it, and the one it came from, go on as they should."""
    def build() -> Sample:
        plain = _generator()
        drawn = [_draw(plain).numpy().copy() for _ in range(2)]
        source = _generator()
        duplicate = through(source)
        array = _draw(duplicate)

        def observe(before: Array, after: Array, room: str) -> str:
            return _unchanged("the next numbers of the generator", _draw(duplicate), drawn[1]) or \
                (_unchanged("the numbers of the generator that it is a copy of", _draw(source), drawn[0])
                 if duplicate is not source else "")
        return Sample(array, drawn[0], observe)
    return build


def _random_in_loop(mode: str) -> Callable[[], Sample]:
    """The sum of what a generator draws in a loop."""
    def build() -> Sample:
        plain = _generator()
        drawn = [_draw(plain).numpy().copy() for _ in range(3)]

        def body(left: Any, generator: Any, total: Any) -> Any:
            return left - 1, generator, total + _draw(generator)

        _, generator, total = dr.while_loop((llvm.Int(2, 2, 2, 2), _generator(), dr.zeros(llvm.Float, 4)),
                                            lambda left, generator, total: left > 0, body, mode=mode)
        return Sample(total, drawn[0] + drawn[1],
                      lambda before, after, room: _unchanged("the numbers after the loop", _draw(generator), drawn[2]))
    return build


_LANES = [[1, 2, 3, 4], [5, 6, 7, 8], [4, 3, 2, 1], [2, 2, 3, 3]]
_GRID = [[3, 1, 4], [2, 5, 6]]

def _tracked(name: str, numbers: Any, operation: Callable[[Any], Any] = lambda x: x) -> Callable[[], Sample]:
    """An array that tracks derivatives, or depends on one that does."""
    def make() -> Sample:
        cls = getattr(ad, name)
        variable = cls(*numbers)
        dr.enable_grad(variable)
        return Sample(operation(variable), _array(numbers, "f8" if name == "Float64" else "f4"), keep=[variable])

    return make


def _after_evaluation(array: Any) -> Any:
    dr.eval(array)
    return array


STATES = [
    # how a flat array came to be
    State("literal", _simple(lambda: dr.full(llvm.Float, 3, 4), [3] * 4)),
    State("unevaluated", _simple(lambda: dr.arange(llvm.Float, 4) * 2 + 1, [1, 3, 5, 7])),
    State("evaluated", _flat("Float", "f4")),
    State("scheduled", _scheduled),
    State("empty", _simple(lambda: llvm.Float(), [])),
    State("one-literal", _simple(lambda: llvm.Float(3), [3])),
    State("one-evaluated", _flat("Float", "f4", [3])),
    State("one-reduced", _simple(lambda: dr.sum(llvm.Float(1, 2, 3)), [6])),
    State("one-int", _flat("Int", "i4", [3])),
    State("gathered",
        _simple(lambda: dr.gather(llvm.Float, llvm.Float(2, 4, 1, 3), llvm.UInt(3, 2, 1, 0)), [3, 1, 4, 2])),
    # scalar types
    State("tracked", _tracked("Float", _NUMBERS)),
    State("one-tracked", _tracked("Float", [3])),
    State("tracked-result", _tracked("Float", _NUMBERS, lambda x: x * 1)),
    State("tracked-evaluated", _tracked("Float64", _NUMBERS, lambda x: _after_evaluation(x * 1))),
    State("half", _flat("Float16", "f2")),
    State("double", _flat("Float64", "f8")),
    State("int", _flat("Int", "i4")),
    State("uint", _flat("UInt", "u4")),
    State("int8", _flat("Int8", "i1")),
    State("uint8", _flat("UInt8", "u1")),
    State("int16", _flat("Int16", "i2")),
    State("int64", _flat("Int64", "i8")),
    State("uint64", _flat("UInt64", "u8")),
    State("mask", _flat("Bool", "?", [True, False, False, True])),
    State("mask-unevaluated", _simple(lambda: dr.arange(llvm.Int, 4) > 1, [False, False, True, True], "?")),
    State("one-mask", _flat("Bool", "?", [True])),
    # who else sees it
    State("component", _component),
    State("row", _row),
    State("texels", _texels(lambda texture: texture.value(), _NUMBERS)),
    State("shared-import", _shared(lambda source: llvm.Float(Exporter(source)))),
    State("exported", _exported(lambda: llvm.Float(_NUMBERS), lambda a: a.numpy(), _NUMBERS)),
    State("exported-dlpack", _exported(lambda: llvm.Float(_NUMBERS) + 0, np.from_dlpack, _NUMBERS)),
    State("equal-exported", _equal_exported),
    State("held", _held),
    State("read-by-pending", _read_by_pending),
    State("used-by-pending", _used_by_pending),
    State("pending-target", _pending_target),
    State("pending-addition", _pending_addition),
    # nested arrays
    State("nested", lambda: _evaluated(llvm.Array3f(*_LANES[:3]), _array(_LANES[:3]))),
    State("nested-literal", _simple(lambda: llvm.Array3f(1, 2, 3), [[1], [2], [3]])),
    State("nested-unevaluated", _simple(lambda: llvm.Array3f(*_LANES[:3]) + 1, np.array(_LANES[:3]) + 1)),
    State("nested-broadcast", _simple(lambda: llvm.Array3f([3, 1, 4, 2], 5, 6), [_NUMBERS, [5] * 4, [6] * 4])),
    State("nested-empty", _simple(lambda: llvm.Array3f(), np.zeros((3, 0)))),
    State("nested-int", _simple(lambda: llvm.Array2i(*_LANES[:2]), _LANES[:2], "i4")),
    State("nested-half", _simple(lambda: llvm.Array2f16(*_LANES[:2]), _LANES[:2], "f2")),
    State("nested-mask", _simple(lambda: llvm.Array2b([True, False, True, False], [False, False, True, True]),
                                 [[True, False, True, False], [False, False, True, True]], "?")),
    State("nested-pending-target", _nested_target),
    State("dynamic", _simple(lambda: llvm.ArrayXf(_LANES[:2]), _LANES[:2])),
    State("deep", _simple(lambda: llvm.Array22f([_LANES[:2], _LANES[2:]]), [_LANES[:2], _LANES[2:]])),
    State("complex", _simple(lambda: llvm.Complex2f(*_LANES[:2]), _LANES[:2])),
    State("complex-broadcast", _simple(lambda: llvm.Complex2f(_NUMBERS, 5), [_NUMBERS, [5] * 4])),
    State("quaternion", _simple(lambda: llvm.Quaternion4f(*_LANES), _LANES)),
    State("matrix", _simple(lambda: llvm.Matrix2f(*_LANES), np.array(_LANES).reshape(2, 2, 4))),
    # tensors
    State("tensor", _tensor("TensorXf", "f4", _GRID)),
    State("tensor-unevaluated", _simple(lambda: llvm.TensorXf(dr.arange(llvm.Float, 6) * 2, shape=(2, 3)) + 1,
                                        [[1, 3, 5], [7, 9, 11]])),
    State("tensor-texels", _texels(lambda texture: texture.tensor(), _GRID)),
    State("tensor-vector", _tensor("TensorXf", "f4", _NUMBERS)),
    State("tensor-literal", _simple(lambda: dr.full(llvm.TensorXf, 3, (2, 3)), np.full((2, 3), 3))),
    State("tensor-scalar", _tensor("TensorXf", "f4", 3)),
    State("tensor-one", _tensor("TensorXf", "f4", [[3]])),
    State("tensor-empty", _tensor("TensorXf", "f4", np.zeros((0, 3)))),
    State("tensor-half", _tensor("TensorXf16", "f2", _GRID)),
    State("tensor-int", _tensor("TensorXi", "i4", _GRID)),
    State("tensor-mask", _tensor("TensorXb", "?", [[True, False, True], [False, False, True]])),
    State("tensor-shared", _shared(lambda source: llvm.TensorXf(Exporter(source)), (2, 3))),
    State("tensor-exported",
        _exported(lambda: llvm.TensorXf([3, 1, 4, 2, 5, 6], shape=(2, 3)), lambda a: a.numpy(), _GRID)),
    # tensors that are views of others, or sums, that nobody has evaluated
    State("tensor-reversed", _view(lambda x: x[:, ::-1], _array(_GRID))),
    State("tensor-transposed", _view(lambda x: x.T, _array([[3, 2], [1, 5], [4, 6]]))),
    State("tensor-broadcast", _view(lambda x: x + np.zeros((2, 3), "f4"), _array([[3, 1, 4]]))),
    State("tensor-summed", _view(lambda x: x.sum(-1) if isinstance(x, np.ndarray) else dr.sum(x, axis=-1),
                                 _array([[[1, 2], [3, -2], [4, 0]], [[1, 1], [2, 3], [5, 1]]]))),
    State("tensor-product", _view(lambda x: x @ x[:, ::-1], _array([[1, 2], [3, 4]]))),
    # steps that nobody has evaluated
    State("sorted", _sorted),
    State("scanned", _scanned),
    State("packet", _packet),
    State("looked-up", _looked_up),
    # numbers of a generator that has drawn before
    State("random", _random(lambda generator: generator)),
    State("random-pickled", _random(lambda generator: pickle.loads(pickle.dumps(generator)))),
    State("random-copied", _random(copy.deepcopy)),
    State("random-cloned", _random(lambda generator: generator.clone())),
    State("random-in-loop", _random_in_loop("evaluated")),
    State("random-in-symbolic-loop", _random_in_loop("symbolic")),
    # arrays that derivatives may be taken of
    State("differentiable", lambda: _evaluated(llvm.ad.Float(_NUMBERS), _array(_NUMBERS))),
    State("differentiable-nested", _simple(lambda: llvm.ad.Array3f(*_LANES[:3]), _LANES[:3])),
]
