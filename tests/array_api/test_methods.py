"""Methods of arrays, and changed copies, against those of NumPy's arrays, on which a table of programs runs as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp

DTYPES = ["bool", "int8", "uint16", "int32", "int64", "float32", "float64", "complex128"]
REAL = [name for name in DTYPES if name[0] not in "bc"]

#: What is asked of an array of two axes; ``of`` makes an array of the same kind, ``i`` an index.
METHODS: dict[str, tuple[Any, list[str]]] = {
    "sum": (lambda x, of: (x.sum(), x.sum(0), x.sum(axis=1, keepdims=True), x.sum(axis=(0, 1))), DTYPES),
    "sum dtype": (lambda x, of: x.sum(dtype="float32"), REAL),
    "sum where": (lambda x, of: x.sum(axis=0, where=of([True, False, True, True]), initial=3), REAL),
    "prod": (lambda x, of: (x.prod(1), x.prod(axis=0, where=of([True, False, True, False]))), DTYPES),
    "mean": (lambda x, of: (x.mean(), x.mean(1), x.mean(axis=1, where=of([True, False, True, True]))), DTYPES[1:]),
    "std": (lambda x, of: (x.std(), x.std(0, ddof=1), x.var(axis=1, keepdims=True)), REAL),
    "max": (lambda x, of: (x.max(), x.min(0), x.max(axis=1, initial=5), x.min(where=x > 1, initial=9)), REAL),
    "max bool": (lambda x, of: (x.max(), x.min(0)), ["bool"]),
    "ptp": (lambda x, of: np.ptp(x, axis=0) if isinstance(x, np.ndarray) else x.ptp(0), REAL),
    "all": (lambda x, of: (x.all(), x.any(0), (x != 0).all(axis=1, where=of([True, True, False, False]))), DTYPES),
    "arg": (lambda x, of: (x.argmax(), x.argmin(0), x.argmax(axis=1, keepdims=True)), REAL),
    "cum": (lambda x, of: (x.cumsum(), x.cumsum(0), x.cumprod(axis=1), x[0].cumsum(dtype="float64")), REAL),
    "trace": (lambda x, of: (x.trace(), x.trace(offset=1), x.diagonal(), x.diagonal(-1)), DTYPES),
    "dot": (lambda x, of: (x.dot(x.T), x[0].dot(x[1]), x.dot(of([1, 2, 3, 4])), x.dot(2)), REAL),
    "clip": (lambda x, of: (x.clip(1, 3), x.clip(min=2), x.clip(max=2), x.clip(of([0, 1, 2, 3]), 3)),
             ["int64", "float64"]),
    "clip float": (lambda x, of: x.clip(0.5, 2.5), ["int32", "float32", "float64"]),
    "round": (lambda x, of: (x.round(), (x / 7).round(2), (x * 25).round(-2)), ["int64", "float64"]),
    "astype": (lambda x, of: (x.astype("float32"), x.astype(np.int16), x.astype(float), x.astype("bool")), REAL),
    "copy": (lambda x, of: (x.copy(), x.conj(), x.conjugate(), x.real, x.imag), DTYPES[1:]),
    "reshape": (lambda x, of: (x.reshape(4, 3), x.reshape((2, -1)), x.reshape(-1), x.reshape(2, 6, order="F")), DTYPES),
    "ravel": (lambda x, of: (x.ravel(), x.flatten(), x.ravel("F"), x.T.ravel(), x.T.flatten("F")), DTYPES),
    "squeeze": (lambda x, of: (x[None].squeeze(), x[:, None].squeeze(1), x[0].T, x[None].T), DTYPES),
    "axes": (lambda x, of: (x.swapaxes(0, 1), x.transpose(), x.transpose(1, 0), x.transpose((0, 1)), x.T), DTYPES),
    "repeat": (lambda x, of: (x.repeat(2), x.repeat(3, axis=1), x.repeat([1, 0, 2], axis=0)), DTYPES),
    "take": (lambda x, of: (x.take([0, 5]), x.take([[0], [-1]], axis=1), x.take(of([13, -2]), mode="wrap"),
                            x.take([5, 1], axis=0, mode="clip"), x.take(3)), DTYPES),
    "compress": (lambda x, of: (x.compress([True, False, True], axis=0), x.compress([False, True])), DTYPES),
    "choose": (lambda x, of: (x % 2).choose([x * 0, x * 0 + 5]), ["int32", "int64"]),
    "nonzero": (lambda x, of: x.nonzero(), DTYPES),
    "sort": (lambda x, of: (x.argsort(kind="stable"), x.argsort(axis=0, kind="stable")), REAL),
    "searchsorted": (lambda x, of: (of([1, 3, 5]).searchsorted(x), of([1, 3, 5]).searchsorted([0, 3], side="right")),
                     REAL),
    "item": (lambda x, of: [x.item(3), x.item(1, 2), x.tolist(), x.tobytes(), x.itemsize, x.nbytes, x.strides], DTYPES),
    "view": (lambda x, of: (x.view("float32"), x.view()), ["int32"]),
}


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            same(a, b)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert isinstance(found, xp.Array) and found.shape == expected.shape
        assert found.dtype.name == expected.dtype.name
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5 if expected.itemsize < 8 else 1e-12)
    else:
        assert found == expected


def sample(dtype: str) -> np.ndarray[Any, Any]:
    values = np.array([[3, 1, 0, 2], [4, 1, 5, 9], [2, 6, 0, 3]])
    return (values * (1 - 2j) if dtype == "complex128" else values).astype(dtype)


@pytest.mark.parametrize(("name", "dtype"),
                         [(name, dtype) for name, (_, dtypes) in METHODS.items() for dtype in dtypes])
def test_methods_are_those_of_numpy(name: str, dtype: str) -> None:
    array, program = sample(dtype), METHODS[name][0]
    same(program(xp.asarray(array), xp.asarray), program(array, np.asarray))


def changes(x: Any, of: Any) -> Any:
    x.fill(7)
    x[1] = of([3, 1, 2, 0])
    x.sort()
    x.sort(axis=0)
    x.put([0, -1], [20, 30])
    row = x.ravel()
    row[5] = 50
    x.flat[6] = 60
    x[2].partition(0)
    out = of([[0] * 4])
    x.sum(axis=0, keepdims=True, out=out)
    x.max(axis=0, out=x[0])
    return x, out


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_methods_that_write_are_those_of_numpy(dtype: str) -> None:
    array = sample(dtype)
    found = changes(xp.asarray(array), lambda rows: xp.asarray(rows, dtype=dtype))
    same(found, changes(array, lambda rows: np.asarray(rows, dtype=dtype)))


KEYS = [1, slice(1, 4), [0, 2, 2], ([0, 0, 1], [1, 1, 1]), -1, np.array([2, 0, 2]), xp.asarray([1, 1, 0])]


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power", "minimum", "maximum"])
def test_changed_copies_count_positions_as_often_as_they_are_given(name: str, key: Any) -> None:
    array = np.array([[3.0, 1, 2], [4, 1, 5], [2, 6, 1], [5, 3, 5]])
    x, expected = xp.asarray(array), array.copy()
    getattr(np, name).at(expected, np.asarray(key) if isinstance(key, xp.Array) else key, 2.0)
    found = getattr(x.at[key], {"minimum": "min", "maximum": "max"}.get(name, name))(2.0)
    np.testing.assert_allclose(np.asarray(found), expected)
    np.testing.assert_array_equal(np.asarray(x), array)
    assert np.asarray(x.at[key].set(7.0)[key] == 7).all() and np.asarray(x.at[key].get() == x[key]).all()


def test_changed_copies_of_other_types_and_of_views(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = xp.asarray([True, False, False])
    assert mask.at[[1, 1]].add(True).tolist() == [True, True, False]
    assert mask.at[[0, 0]].multiply(xp.asarray([True, False])).tolist() == [False, False, False]
    z = xp.zeros(3, dtype="complex64").at[[0, 0, 2]].add(1j)
    assert z.tolist() == [2j, 0, 1j]
    x = xp.reshape(xp.arange(6), (2, 3))
    assert x.T.at[0].add(10).tolist() == [[10, 13], [1, 4], [2, 5]] and x.sum() == 15
    assert x.at[x > 3].set(0).tolist() == [[0, 1, 2], [3, 0, 0]]
    assert x.at[:, 1].apply(lambda column: -column).tolist() == [[0, -1, 2], [3, -4, 5]]
    with monkeypatch.context() as patch:  # of what is computed, what lies beyond is left out
        patch.setattr(xp.policy, "eager", 0)
        assert x.at[xp.asarray([0, 7])].add(1)[0].tolist() == [1, 2, 3]
    with pytest.raises(IndexError, match=r"index 7 is out of bounds"):
        x.at[7].add(1)
    with pytest.raises(TypeError, match=r"^drjit\.array_api\.Array\.at\[\]\.add\(\): elements of float64 cannot be"):
        x.at[0].add(0.5)
    with pytest.raises(NotImplementedError, match=r"at\[\]\.multiply\(\)"):
        z.at[0].multiply(2)


@pytest.mark.parametrize("program", [
    lambda x: x.at[[0, 2, 2]].add(x[1:]).sum(), lambda x: (x.mean() * x.std(ddof=1)), lambda x: x.dot(x.cumsum()),
    lambda x: (x.reshape(2, 2).T.ravel() * x).sum(), lambda x: x.clip(0.2, 0.7).prod(),
    lambda x: (x.at[1].multiply(x[0]) * x.take([3, 2, 1, 0])).sum(),
    lambda x: x.ptp() + x.max(where=x < 0.8, initial=0)])
def test_derivatives(program: Any) -> None:
    point = np.array([0.3, 0.9, 0.5, 0.65])
    x = xp.asarray(point)
    dr.enable_grad(x)
    dr.backward(program(x))
    slopes = [(float(program(xp.asarray(point + step))) - float(program(xp.asarray(point - step)))) / 2e-6
              for step in 1e-6 * np.eye(4)]
    np.testing.assert_allclose(np.asarray(dr.grad(x)), slopes, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda x: x.sum(axis=5), IndexError, r"Array\.sum\(\): 'axis' is 5"),
    (lambda x: x.reshape(5), ValueError, r"Array\.reshape\(\): an array of the shape \(2, 3\)"),
    (lambda x: x.reshape(6, order="Z"), ValueError, r"Array\.reshape\(\): 'order' must be"),
    (lambda x: x.astype("float99"), TypeError, r"Array\.astype\(\): 'dtype' must be a data type"),
    (lambda x: x.astype("int8", casting="safe"), TypeError, r"Array\.astype\(\): float64 cannot become int8 by"),
    (lambda x: x.dot(x), ValueError, r"Array\.dot\(\): the shapes \(2, 3\) and \(2, 3\) do not go together"),
    (lambda x: x.squeeze(0), ValueError, r"Array\.squeeze\(\): axis 0 has the size 2"),
    (lambda x: x.take([0], mode="soft"), ValueError, r"Array\.take\(\): 'mode' must be"),
    (lambda x: x.view("int8"), ValueError, r"Array\.view\(\): the bits of float64 cannot be seen as int8")])
def test_errors_name_the_method(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=rf"^drjit\.array_api\.{message}"):
        call(xp.ones((2, 3)))


def test_assigned_numbers_lose_fractions_and_results_in_out_do_not() -> None:
    x, mask = xp.zeros(4, dtype="int32"), xp.ones(4, dtype=bool)
    x[1], x[2:], mask[::2], mask[1] = 2.7, -1.5, 0, 5
    assert x.tolist() == [0, 2, -1, -1] and mask.tolist() == [False, True, False, True]
    x.fill(3.9)
    x[:2] = range(2)
    assert x.tolist() == [0, 1, 3, 3]
    with pytest.raises(TypeError, match=r"__setitem__\(\): complex numbers cannot become float64"):
        xp.ones(1)[0] = 1j
    for write in (lambda: xp.arange(4.0).cumsum(out=x), lambda: xp.arange(4.0).clip(0, 1, out=x)):
        with pytest.raises(TypeError, match="'out' is an array of int32, which elements of float64 cannot be written"):
            write()
    assert x.tolist() == [0, 1, 3, 3]


def test_in_place_operators_keep_the_type_of_a_kind() -> None:
    x = xp.ones(2, dtype="float32")
    x += xp.ones(2)
    x *= xp.arange(2)
    assert x.dtype == "float32" and x.tolist() == [0, 2]
    count = xp.arange(3)
    with pytest.raises(TypeError, match="cannot become one of float64 in place"):
        count /= 2


def test_names_are_data_types() -> None:
    assert xp.zeros(2, dtype="float32").dtype == xp.float32 and xp.zeros(2, dtype=int).dtype == xp.int64
    assert xp.float32 == "float32" and xp.float32 != "float64" and xp.float32 == np.float32
    assert xp.result_type(xp.ones(1, dtype="uint8"), xp.int16) == "int16"
    assert xp.float32(2.5).dtype == xp.float32 and xp.int8([1, 2]).tolist() == [1, 2]
