"""Classes of exceptions that programs catch: those of release 1.5.0 of Dr.Jit, and those that were here before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import drjit as dr
from drjit import llvm as l


def swizzled(array: Any, name: str, value: Any) -> None:
    setattr(array, name, value)


T = dr.zeros
PROGRAMS: dict[str, tuple[Callable[[], Any], tuple[type[Exception], ...]]] = {
    "imag of a vector": (lambda: swizzled(l.Array3f(1), "imag", 4), (TypeError, AttributeError)),
    "real of an array": (lambda: swizzled(l.Float(1), "real", 4), (TypeError, AttributeError)),
    "real of a tensor": (lambda: swizzled(l.TensorXf(1), "real", 4), (TypeError, AttributeError)),
    "three of two": (lambda: swizzled(l.Array3u(1, 2, 3), "xyz", l.Array2u(1)), (IndexError,)),
    "two of three": (lambda: swizzled(l.Array3u(1, 2, 3), "xw", l.Array3u(1)), (IndexError,)),
    "inner dimensions": (lambda: T(l.TensorXf, (2, 3)) @ T(l.TensorXf, (4, 5)), (ValueError, RuntimeError)),
    "batches": (lambda: dr.matmul(T(l.TensorXf, (2, 2, 3)), T(l.TensorXf, (3, 3, 5))), (ValueError, RuntimeError)),
    "0-d": (lambda: dr.matmul(l.TensorXf(1), T(l.TensorXf, (1, 3))), (ValueError, RuntimeError)),
    "At of 1-d": (lambda: dr.matmul(T(l.TensorXf, (3,)), T(l.TensorXf, (3, 3)), At=True), (ValueError, RuntimeError)),
    "Bt of 1-d": (lambda: dr.matmul(T(l.TensorXf, (3, 3)), T(l.TensorXf, (3,)), Bt=True), (ValueError, RuntimeError)),
    "out of range": (lambda: dr.slice_index(l.UInt, (3,), (5,)), (RuntimeError, IndexError)),
    "too many": (lambda: dr.slice_index(l.UInt, (3,), (1, 2)), (RuntimeError, IndexError)),
    "wrong kind": (lambda: dr.slice_index(l.UInt, (3,), ("x",)), (RuntimeError, TypeError)),
    "fractions": (lambda: dr.slice_index(l.UInt, (3,), (l.Float(1),)), (RuntimeError, TypeError)),
    "stacked shapes": (lambda: dr.stack((T(l.TensorXf, (2,)), T(l.TensorXf, (3,)))), (TypeError, RuntimeError)),
    "a stack of nothing": (lambda: dr.stack([]), (RuntimeError, TypeError)),
    "nothing joined": (lambda: dr.concat([]), (RuntimeError, TypeError)),
    "local memory is read": (lambda: dr.alloc_local(l.Float, 4, l.Float(0))[7], (RuntimeError, IndexError)),
    "local memory is written": (lambda: dr.alloc_local(l.Float, 4, l.Float(0)).write(l.Float(0), 7),
                                (RuntimeError, IndexError)),
    "a condition of numbers": (lambda: dr.if_stmt((l.Float(1),), l.Float(1), abs, abs), (TypeError, RuntimeError)),
    "a condition of numbers in a loop": (lambda: dr.while_loop((l.Float(1),), lambda x: x, lambda x: (x,)),
                                         (TypeError, RuntimeError)),
    "an index of numbers": (lambda: dr.switch(l.Float(0, 1), [abs, abs], l.Float(1)), (TypeError, RuntimeError)),
    "instances of numbers": (lambda: dr.dispatch(l.UInt(0, 1), abs), (TypeError, RuntimeError)),
    "a mask for a number": (lambda: dr.switch(0, [abs], l.Float(1), active=l.Bool(True)), (TypeError, RuntimeError)),
    "an argument too many": (lambda: dr.switch(l.UInt(0, 1), [lambda x: x] * 2, l.Float(1), active=l.Bool(True, False)),
                             (TypeError, RuntimeError)),
    "upsampled to nothing": (lambda: dr.upsample(T(l.TensorXf, (2, 2)), scale_factor=[2, 0]), (TypeError, ValueError)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_of_the_classes_can_be_caught(name: str) -> None:
    program, classes = PROGRAMS[name]
    with pytest.raises(Exception) as found:
        program()
    assert all(isinstance(found.value, cls) for cls in classes), (type(found.value).__mro__, str(found.value))


def test_a_failed_swizzle_changes_nothing() -> None:
    a = l.Array3u(1, 2, 3)
    for name, value in (("xyz", l.Array2u(9)), ("xw", l.Array3u(9))):
        with pytest.raises(IndexError):
            setattr(a, name, value)
    assert [a.x[0], a.y[0], a.z[0]] == [1, 2, 3]
