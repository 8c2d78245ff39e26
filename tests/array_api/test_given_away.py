"""Arrays whose tensors or memory others have: what these write is seen in each view, whatever is done with that, as in
NumPy, where views are memory."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
from drjit.array_api._evaluation import COMPILED
from drjit.llvm.ad import UInt32

#: In the plain form, frozen functions find the tensors that a view had when it was read last.
compiled_form = pytest.mark.skipif(not COMPILED, reason="frozen functions do not ask views for tensors there")

#: What an outside write sets, at the first element of the third row.
NEW = -5.0
SHAPES = {"small": (4, 3), "large": (200, 100)}  # with a value, and without


def numbers(shape):
    return np.arange(float(shape[0] * shape[1])).reshape(shape)


def tensor(x):
    found = x.tensor
    return lambda: found.__setitem__((2, 0), NEW)


def updated_tensor(x):
    def write(found=x.tensor):
        found += 0
        found[2, 0] = NEW
    return write


def flat_array(x):
    found = x.tensor
    return lambda: dr.scatter(found.array, NEW, UInt32(2 * x.shape[1]))


def memory_of_tensor(x):
    found = x.tensor.numpy()
    return lambda: found.__setitem__((2, 0), NEW)


def dlpack(x):
    """What libraries do that cannot be told that memory is read-only."""
    found = np.from_dlpack(x)

    def write():
        memory = (ctypes.c_double * found.size).from_address(found.ctypes.data)
        memory[2 * x.shape[1]] = NEW
    return write


def made(give):
    def start(shape):
        x = xp.asarray(numbers(shape), copy=True)
        return x, lambda: give(x)
    return start


def computed(give):
    def start(shape):
        x = xp.asarray(numbers(shape), copy=True) * 1
        return x, lambda: give(x)
    return start


def imported(function):
    def start(shape):
        values = numbers(shape).copy()
        return function(values), lambda: lambda: values.__setitem__((2, 0), NEW)
    return start


#: How others get at an array's elements. Each makes an array, and a function that gives it away, which returns one that
#: writes.
WAYS = {
    "tensor": made(tensor), "updated tensor": made(updated_tensor), "flat array": made(flat_array),
    "memory of the tensor": made(memory_of_tensor), "dlpack": made(dlpack),
    "tensor of results": computed(tensor), "dlpack of results": computed(dlpack),
    "asarray": imported(lambda values: xp.asarray(values, copy=False)), "from_dlpack": imported(xp.from_dlpack)}
VIEWS = {
    "row": lambda x: x[2], "part": lambda x: x[2, 0:2], "part of a row": lambda x: x[2][0:2],
    "column": lambda x: x.T[0],
    "reversed": lambda x: x[::-1][-3], "reshaped": lambda x: x.reshape(-1)[2 * x.shape[1]:2 * x.shape[1] + 3],
    "whole": lambda x: x[:], "transposed": lambda x: x.T, "entry": lambda x: list(x)[2],
    "diagonal": lambda x: x[2:].diagonal()}
#: What has happened to the view before.
BEFORE = {"nothing": lambda v: None, "computed with": lambda v: np.asarray(v + 0), "exported": np.asarray,
          "evaluated": dr.eval, "tensor": lambda v: v.tensor.numpy()}


def looped(v):
    zeros = xp.zeros(v.shape)
    modes = [dr.while_loop((UInt32(0), zeros), lambda i, s: i < 2, lambda i, s: (i + 1, s + v), mode=mode)[1]
             for mode in ("symbolic", "evaluated")]
    np.testing.assert_array_equal(np.asarray(modes[0]), np.asarray(modes[1]))
    return modes[0] / 2


def derivative(v):
    weights = xp.ones(v.shape)
    dr.enable_grad(weights)
    dr.backward(xp.sum(weights * v).tensor)
    return dr.grad(weights)


def items(v):
    found = [v.reshape(-1)[k].item() for k in range(min(v.size, 3))]
    return found + np.asarray(v).reshape(-1)[3:].tolist()


#: What the view is used for; each yields its elements.
USES = {
    "+": lambda v: v + 0, "np.array": np.array, "np.asarray": np.asarray, "tensor": lambda v: v.tensor,
    "tolist": lambda v: v.tolist(), "items": items, "positions": lambda v: v[list(range(len(v)))],
    "mask": lambda v: v[v == v], "copy": lambda v: v.copy(), "concat": lambda v: xp.concat([v, v])[:len(v)],
    "where": lambda v: xp.where(v > 1e9, 0.0, v), "sort": lambda v: xp.sort(v.reshape(-1)),
    "view": lambda v: v[::-1][::-1], "product": lambda v: v @ xp.eye(v.shape[-1]), "dlpack": np.from_dlpack,
    "evaluated": lambda v: (dr.eval(v), v * 1)[1], "loop": looped, "derivative": derivative,
    "frozen": dr.freeze(lambda v: v * 1, warn_after=0), "captured": lambda v: dr.freeze(lambda: v * 1)()}


def check(way, size, view, when, before, uses):
    x, give = WAYS[way](SHAPES[size])
    shown = VIEWS[view](x) if when == "before" else None
    write = give()
    if shown is None:
        shown = VIEWS[view](x)
    BEFORE[before](shown)
    write()
    wanted = numbers(SHAPES[size]).copy()
    wanted[2, 0] = NEW
    wanted = VIEWS[view](wanted)
    for use in uses:
        found = np.asarray(USES[use](shown)).reshape(-1)
        expected = np.sort(wanted.reshape(-1)) if use == "sort" else wanted.reshape(-1)
        np.testing.assert_array_equal(found, expected, err_msg=f"{way}, {size}, {view}, {when}, {before}, {use}")


@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize("way", WAYS)
def test_views_see_what_others_write(way, size):
    """A part of the table: each view, each use first."""
    befores, uses = itertools.cycle(BEFORE), list(USES)
    for number, view in enumerate(VIEWS):
        for when in ("before", "after"):
            check(way, size, view, when, next(befores), (uses * 2)[2 * number:][:4])


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize("way", WAYS)
def test_views_see_what_others_write_whatever_they_are_used_for(way, size):
    for view, when, before, use in itertools.product(VIEWS, ("before", "after"), BEFORE, USES):
        check(way, size, view, when, before, [use])


def test_tensors_follow_until_something_is_written_to_the_array():
    for shape in SHAPES.values():
        x = xp.asarray(numbers(shape), copy=True)
        row, given = x[2], x.tensor
        row[1] = 7  # to memory of its own
        given[2, 0] = NEW
        first = numbers(shape)[2, 0]
        found = [row[0].item(), x[2, 0].item(), np.asarray(row)[0], row.tensor.array[0], (row + 0)[0].item()]
        assert found == [first] * 5
        assert row[1].item() == 7 and given.array[2 * shape[1] + 1] == first + 1


def test_the_tensor_of_a_view_is_its_own():
    for shape in SHAPES.values():
        x = xp.asarray(numbers(shape), copy=True)
        row = x[2]
        given, memory = row.tensor, np.from_dlpack(row)
        given[0] = NEW
        (ctypes.c_double * memory.size).from_address(memory.ctypes.data)[1] = NEW
        for found in (row, x[2], row + 0, row.tensor):
            np.testing.assert_array_equal(np.asarray(found), numbers(shape)[2])


@pytest.mark.parametrize("function", [lambda values: xp.asarray(values, copy=False), xp.from_dlpack])
def test_copies_of_shared_memory_are_copies(function):
    for shape in SHAPES.values():
        values = numbers(shape).copy()
        x = function(values)
        copies = [x.copy(), xp.asarray(x, copy=True), x[:].copy(), x.T.copy().T]
        values[2, 0] = NEW
        for copied in copies:
            np.testing.assert_array_equal(np.asarray(copied), numbers(shape))


@compiled_form
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("write", [lambda x, value: x.__setitem__((2, 0), value),
                                   lambda x, value: x.tensor.__setitem__((2, 0), value)])
def test_frozen_functions_see_what_has_been_written_to_what_their_views_are_of(write, captured):
    for shape in SHAPES.values():
        x = xp.asarray(numbers(shape), copy=True)
        row = x[2]
        function = dr.freeze((lambda row=row: row * 2) if captured else (lambda row: row * 2))
        for k in range(5):
            write(x, k)
            assert np.asarray(function() if captured else function(row))[0] == 2 * k
        assert function.n_recordings == 1


@compiled_form
def test_arrays_that_are_written_to_between_calls_of_a_frozen_function_are_the_same_input():
    x = xp.asarray(numbers((4, 3)), copy=True)
    row = x[2]
    double, add = dr.freeze(lambda x: x * 2), dr.freeze(lambda x: x.__iadd__(1))
    for k in range(5):
        x[2, 0] = k
        assert np.asarray(double(x))[2, 0] == 2 * k
        add(x)
        assert row[0].item() == np.asarray(row)[0] == x[2, 0].item() == k + 1
    assert double.n_recordings == 1 and add.n_recordings == 1


def _row(v):
    v += 1
    return v * 2


def _whole_and_row(x, v):
    x[2, :] += 1
    w = x[2, ::2]
    w += 1
    return v * 2


@pytest.mark.parametrize("captured", [False, True])
def test_frozen_functions_write_to_what_their_views_are_of(captured):
    """Also where nobody has that: what ``reshape`` returns is a view, too. Then somebody else's row takes its place."""
    for shape in SHAPES.values():
        x, y = numbers(shape).copy(), numbers(shape).copy() + 1
        found = [xp.reshape(xp.asarray(numbers(shape).ravel() + k, copy=True), shape) for k in range(2)]
        views, rows = [each[2] for each in found], [x[2], y[2]]
        function = dr.freeze((lambda v=views[0]: _row(v)) if captured else _row, warn_after=0)
        both = dr.freeze(_whole_and_row, warn_after=0)
        for k in range(4):
            np.testing.assert_array_equal(np.asarray(function() if captured else function(views[0])), _row(rows[0]))
            np.testing.assert_array_equal(np.asarray(both(found[0], views[k // 2])), _whole_and_row(x, rows[k // 2]))
            found[0][2, 1] = x[2, 1] = k
        for array, expected in zip((*found, *views), (x, y, *rows), strict=True):
            np.testing.assert_array_equal(np.asarray(array), expected)
        if COMPILED:
            assert function.n_recordings == 1 and both.n_recordings == 2
