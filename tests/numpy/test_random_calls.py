"""Random calls and programs of NumPy's functions on random arrays, empty ones and those without axes among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import drjit.numpy as dnp

#: Calls with a module, two arrays that can be broadcast, and two small integers.
CALLS: dict[str, Callable[..., Any]] = {
    "add": lambda np, x, y, i, j: x + y, "subtract": lambda np, x, y, i, j: np.subtract(x, y),
    "multiply": lambda np, x, y, i, j: x * y, "divide": lambda np, x, y, i, j: x / (y * y + 1),
    "maximum": lambda np, x, y, i, j: np.maximum(x, y), "fmin": lambda np, x, y, i, j: np.fmin(x, y),
    "less": lambda np, x, y, i, j: np.less(x, y), "where": lambda np, x, y, i, j: np.where(x > y, x, y),
    "where scalar": lambda np, x, y, i, j: np.where(x > i, x, 0.5), "logical": lambda np, x, y, i, j: (x > 0) | (y < 1),
    "number": lambda np, x, y, i, j: x * 2 + 0.5 - i, "sum": lambda np, x, y, i, j: np.sum(x, axis=i),
    "sum keepdims": lambda np, x, y, i, j: np.sum(x, axis=i, keepdims=True), "mean": lambda np, x, y, i, j: np.mean(x),
    "prod": lambda np, x, y, i, j: np.prod(x, axis=i), "max": lambda np, x, y, i, j: np.max(x, axis=i),
    "min": lambda np, x, y, i, j: x.min(), "any": lambda np, x, y, i, j: np.any(x, axis=i),
    "all": lambda np, x, y, i, j: (x > 0).all(i), "argmax": lambda np, x, y, i, j: np.argmax(x, axis=i),
    "argmin": lambda np, x, y, i, j: x.argmin(), "cumsum": lambda np, x, y, i, j: np.cumsum(x, axis=i),
    "cumsum flat": lambda np, x, y, i, j: np.cumsum(x), "count_nonzero": lambda np, x, y, i, j: np.count_nonzero(x, i),
    "ptp": lambda np, x, y, i, j: np.ptp(x, i), "median": lambda np, x, y, i, j: np.median(x, axis=i),
    "percentile": lambda np, x, y, i, j: np.percentile(x, 30 + i, axis=j),
    "sort": lambda np, x, y, i, j: np.sort(x, axis=i),
    "argsort": lambda np, x, y, i, j: np.argsort(x, i, kind="stable"),
    "unique": lambda np, x, y, i, j: np.unique(x, return_counts=True),
    "unique all": lambda np, x, y, i, j: np.unique(x, True, True, True),
    "nonzero": lambda np, x, y, i, j: np.nonzero(x),
    "mask": lambda np, x, y, i, j: x[x > 1], "isin": lambda np, x, y, i, j: np.isin(x, y),
    "reshape": lambda np, x, y, i, j: np.reshape(x, (-1, i or 1)), "ravel": lambda np, x, y, i, j: np.ravel(x, "F"),
    "transpose": lambda np, x, y, i, j: x.T, "swapaxes": lambda np, x, y, i, j: np.swapaxes(x, i, j),
    "moveaxis": lambda np, x, y, i, j: np.moveaxis(x, i, j), "expand_dims": lambda np, x, y, i, j: np.expand_dims(x, i),
    "squeeze": lambda np, x, y, i, j: np.squeeze(x), "flip": lambda np, x, y, i, j: np.flip(x, i),
    "roll": lambda np, x, y, i, j: np.roll(x, j, i), "roll flat": lambda np, x, y, i, j: np.roll(x, 2 * i - j),
    "rot90": lambda np, x, y, i, j: np.rot90(x, i), "tile": lambda np, x, y, i, j: np.tile(x, (abs(i), 2)),
    "repeat": lambda np, x, y, i, j: np.repeat(x, abs(i), axis=j), "diff": lambda np, x, y, i, j: np.diff(x, abs(i), j),
    "concatenate": lambda np, x, y, i, j: np.concatenate([x, x * 2], i),
    "stack": lambda np, x, y, i, j: np.stack([x, x], i),
    "vstack": lambda np, x, y, i, j: np.vstack([x, x]), "hstack": lambda np, x, y, i, j: np.hstack([x, x]),
    "dstack": lambda np, x, y, i, j: np.dstack([x, x]),
    "split": lambda np, x, y, i, j: np.array_split(x, abs(i) + 1, j),
    "slice": lambda np, x, y, i, j: x[i:, ..., ::-1], "item": lambda np, x, y, i, j: x[i],
    "list": lambda np, x, y, i, j: x[[i, j, i]], "new axis": lambda np, x, y, i, j: x[None, ..., None],
    "take": lambda np, x, y, i, j: np.take(x, [i, j], axis=0), "delete": lambda np, x, y, i, j: np.delete(x, i, 0),
    "insert": lambda np, x, y, i, j: np.insert(x, i, 1, 0), "append": lambda np, x, y, i, j: np.append(x, y),
    "pad": lambda np, x, y, i, j: np.pad(x, (abs(i), abs(j))), "pad edge": lambda np, x, y, i, j: np.pad(x, 1, "edge"),
    "trace": lambda np, x, y, i, j: np.trace(x, i), "diagonal": lambda np, x, y, i, j: np.diagonal(x, i),
    "tril": lambda np, x, y, i, j: np.tril(x, i), "outer": lambda np, x, y, i, j: np.outer(x, y),
    "dot": lambda np, x, y, i, j: np.dot(x, y.T), "inner": lambda np, x, y, i, j: np.inner(x, x),
    "matmul": lambda np, x, y, i, j: x @ y.T, "kron": lambda np, x, y, i, j: np.kron(x, y),
    "einsum": lambda np, x, y, i, j: np.einsum("...i->...", x), "clip": lambda np, x, y, i, j: np.clip(x, i, i + 2),
    "round": lambda np, x, y, i, j: np.round(x, i), "broadcast": lambda np, x, y, i, j: np.broadcast_arrays(x, y),
    "average": lambda np, x, y, i, j: np.average(x, axis=i),
    "searchsorted": lambda np, x, y, i, j: np.searchsorted([0, 1, 3], x),
    "histogram": lambda np, x, y, i, j: np.histogram(x, 3, (0, 4)), "bincount": lambda np, x, y, i, j: np.bincount(x),
    "gradient": lambda np, x, y, i, j: np.gradient(x, axis=i),
    "trapezoid": lambda np, x, y, i, j: np.trapezoid(x, axis=i),
    "interp": lambda np, x, y, i, j: np.interp(x, [0, 1, 4], [1, 3, 0]),
    "convolve": lambda np, x, y, i, j: np.convolve(x, y),
    "isclose": lambda np, x, y, i, j: np.isclose(x, y), "allclose": lambda np, x, y, i, j: np.allclose(x, x),
    "nansum": lambda np, x, y, i, j: np.nansum(x, axis=i), "norm": lambda np, x, y, i, j: np.linalg.norm(x, axis=i),
    "meshgrid": lambda np, x, y, i, j: np.meshgrid(x, y), "take_along": lambda np, x, y, i, j: np.take_along_axis(
        x, np.argsort(x, axis=i, kind="stable"), axis=i), "power": lambda np, x, y, i, j: (x + 0) ** abs(i),
    "floor_divide": lambda np, x, y, i, j: x // (abs(i) + 1), "remainder": lambda np, x, y, i, j: x % (abs(j) + 2),
    "add.reduce": lambda np, x, y, i, j: np.add.reduce(x, i),
    "maximum.accumulate": lambda np, x, y, i, j: np.maximum.accumulate(x, i),
    "lexsort": lambda np, x, y, i, j: np.lexsort((x, -x)), "argwhere": lambda np, x, y, i, j: np.argwhere(x),
    "atleast_2d": lambda np, x, y, i, j: np.atleast_2d(x), "atleast_3d": lambda np, x, y, i, j: np.atleast_3d(x),
    "resize": lambda np, x, y, i, j: np.resize(x, (2, 3)), "block": lambda np, x, y, i, j: np.block([x, x]),
    "cov": lambda np, x, y, i, j: np.cov(x), "select": lambda np, x, y, i, j: np.select([x > 1, x > 0], [x, y], 9),
}
#: Statements that change ``x``.
CHANGES: dict[str, Callable[..., Any]] = {
    "item": lambda np, x, y, i, j: x.__setitem__(i, 1),
    "slice": lambda np, x, y, i, j: x.__setitem__(slice(i, None), 2),
    "all": lambda np, x, y, i, j: x.__setitem__(..., y), "mask": lambda np, x, y, i, j: x.__setitem__(x > 1, 0),
    "list": lambda np, x, y, i, j: x.__setitem__([i, j], 3), "view": lambda np, x, y, i, j: x.T.__setitem__(..., 1),
    "add": lambda np, x, y, i, j: x.__iadd__(y), "row": lambda np, x, y, i, j: x[i:].__imul__(2),
    "at": lambda np, x, y, i, j: np.add.at(x, [i, j, i], 1), "sort": lambda np, x, y, i, j: x.sort(),
    "fill": lambda np, x, y, i, j: x.fill(1), "out": lambda np, x, y, i, j: np.multiply(x, 2, out=x),
    "fill_diagonal": lambda np, x, y, i, j: np.fill_diagonal(x, 5), "copyto": lambda np, x, y, i, j: np.copyto(x, y),
    "put": lambda np, x, y, i, j: np.put(x, [i, j], 4), "putmask": lambda np, x, y, i, j: np.putmask(x, x > 1, 0),
}
SHAPES = [(), (1,), (4,), (0,), (3, 4), (1, 4), (3, 1), (2, 0), (0, 3), (2, 3, 2), (1, 1), (2, 1, 3), (2, 3)]
TYPES = ["bool", "int32", "int64", "uint8", "float32", "float64"]


def sample(draw: Any, shape: tuple[int, ...], dtype: str) -> numpy.ndarray[Any, Any]:
    rng = numpy.random.default_rng(draw(st.integers(0, 1000)))
    values = rng.integers(0, 2 if dtype == "bool" else 5, shape)
    return numpy.asarray(values * 0.5 if dtype[0] == "f" else values).astype(dtype)


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            same(a, b)
        return
    array = numpy.asarray(found)
    assert array.shape == numpy.shape(expected) and array.dtype == numpy.asarray(expected).dtype, (array, expected)
    numpy.testing.assert_allclose(array, expected, rtol=1e-5 if array.dtype == "float32" else 1e-9, atol=1e-6)


def outcome(module: Any, program: list[Any], arrays: list[Any]) -> Any:
    try:
        return [step(module, *arrays, i, j) for step, i, j in program], arrays[0]
    except (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError) as error:
        return error


def compare(program: list[Any], x: Any, y: Any) -> None:
    with numpy.errstate(all="ignore"):
        expected = outcome(numpy, program, [x.copy(), y])
    found = outcome(dnp, program, [dnp.array(x), dnp.array(y)])
    if isinstance(expected, Exception):
        # Some types and sizes that NumPy refuses have a meaning here.
        refused = isinstance(expected, (TypeError, ZeroDivisionError)) or not x.size
        assert isinstance(found, Exception) or refused, (expected, found)
    elif isinstance(found, OverflowError) and "uint8" in {str(x.dtype), str(y.dtype)} or \
            isinstance(found, (ValueError, IndexError)) and not x.ndim:
        return  # numbers that do not fit, and axes of arrays that have none, which NumPy takes by way of exception
    elif isinstance(found, TypeError):  # of what has no place here: truth values as numbers, inexact assignments
        assert "bool" in {str(x.dtype), str(y.dtype)} or "assigned" in str(found) or "in place" in str(found), found
    else:
        assert not isinstance(found, Exception), found
        same([value for value in found[0] if value is not None], [value for value in expected[0] if value is not None])
        same(found[1], expected[1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_calls(name: str, eager: int, data: Any) -> None:
    x = sample(data.draw, data.draw(st.sampled_from(SHAPES)), data.draw(st.sampled_from(TYPES)))
    y = sample(data.draw, data.draw(st.sampled_from([x.shape, x.shape[1:], (),
        (1,)])), data.draw(st.sampled_from(TYPES)))
    compare([(CALLS[name], data.draw(st.integers(-2, 2)), data.draw(st.integers(-2, 2)))], x, y)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_programs_that_write(eager: int, data: Any) -> None:
    x = sample(data.draw, data.draw(st.sampled_from(SHAPES[1:])), data.draw(st.sampled_from(TYPES[1:])))
    y = sample(data.draw, data.draw(st.sampled_from([x.shape, x.shape[1:], ()])), str(x.dtype))
    names = data.draw(st.lists(st.sampled_from([*CHANGES]), min_size=1, max_size=4))
    steps = [(CHANGES[name], data.draw(st.integers(-2, 2)), data.draw(st.integers(-2, 2))) for name in names]
    compare([(lambda np, x, y, i, j, step=step: (step(np, x, y, i, j), None)[1], i, j) for step, i, j in steps], x, y)


def test_arrays_without_axes_are_like_scalars_in_place() -> None:
    total, seen = dnp.zeros(3).sum(), []
    for _ in range(3):
        total += dnp.ones(3).sum()
        seen.append(total)
    assert [float(value) for value in seen] == [3, 6, 9]
    count = dnp.arange(3).sum()
    count += 0.5
    assert float(count) == 3.5
    base = dnp.arange(4.0)
    view = base[1:2].reshape(())
    view += 5
    assert base.tolist() == [0, 6, 2, 3]


def test_numbers_are_added_in_the_type_of_the_array() -> None:
    x = dnp.array(numpy.array([250, 5], "uint8"))
    dnp.add.at(x, [0, 0, 1], 3)
    assert x.dtype == dnp.uint8 and x.tolist() == [0, 8]
    assert x.at[1].subtract(9).tolist() == [0, 255] and x.at[1].multiply(2).tolist() == [0, 16]
    with pytest.raises(TypeError, match="float64 cannot be combined with an array of uint8"):
        x.at[0].add(0.5)
