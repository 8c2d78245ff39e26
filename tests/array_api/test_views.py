"""Views: what shares elements with an array in NumPy does so here, in both directions, lazily and with derivatives."""

from __future__ import annotations

import copy
import pickle
import random

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
from drjit.llvm.ad import Bool, Float, TensorXf, UInt32


def random_key(shape, rng):
    """A key of integers, slices, new axes and '...'."""
    key = []
    for size in shape:
        choice = rng.random()
        if choice < 0.3 and size:
            key.append(rng.randrange(-size, size))
        elif choice < 0.8:
            low, high = sorted((rng.randrange(size + 1), rng.randrange(size + 1)))
            step = rng.choice([1, 1, 2, -1, -2])
            key.append(slice(low, high, step) if step > 0 else slice(high, low - 1 if low else None, step))
        else:
            key.append(slice(None))
        if rng.random() < 0.1:
            key.append(None)
    if rng.random() < 0.3:
        key = key[:rng.randrange(len(key) + 1)]
    if rng.random() < 0.2:
        key.append(Ellipsis)
    return tuple(key)


def step(rng, pairs):
    """A random view of one of the pairs of arrays, or a write to it; both sides do the same."""
    a, x = rng.choice(pairs)
    if not a.ndim:
        return
    operation = rng.choice(["key", "key", "permute", "reshape", "flip", "expand", "unstack", "set", "set", "add",
                            "scale", "add to key", "set to array", "mask", "positions"])
    if operation == "key":
        key = random_key(a.shape, rng)
        if isinstance(a[key], np.ndarray) and a[key].ndim:
            pairs.append((a[key], x[key]))
    elif operation == "permute":
        order = tuple(rng.sample(range(a.ndim), a.ndim))
        pairs.append((a.transpose(order), xp.permute_dims(x, order)))
    elif operation == "reshape":
        shape = rng.choice([(-1,), (*a.shape, 1), (1, -1)]) if a.size else (*a.shape, 1)
        if np.shares_memory(a.reshape(shape), a) or not a.size:
            pairs.append((a.reshape(shape), xp.reshape(x, shape)))
    elif operation == "flip":
        pairs.append((np.flip(a), xp.flip(x)))
    elif operation == "expand":
        pairs.append((np.expand_dims(a, 0), xp.expand_dims(x, axis=0)))
    elif operation == "unstack":
        if a.shape[0] and a.ndim > 1:
            pairs.append((a[-1], xp.unstack(x)[-1]))
    elif operation == "set":
        key, value = random_key(a.shape, rng), rng.random()
        a[key] = value
        x[key] = value
    elif operation == "add":
        a += 2
        x += 2
    elif operation == "scale":
        a *= 1.5
        x *= 1.5
    elif operation == "add to key":
        key = random_key(a.shape, rng)
        a[key] += 3
        x[key] += 3
    elif operation == "set to array":
        b, y = rng.choice(pairs)
        if b.shape == a.shape:
            a[...] = b.copy()
            x[...] = y
    elif operation == "mask":
        a[a > 4] = 1
        x[x > 4] = 1
    elif operation == "positions" and a.shape[0]:
        index = np.array([0, a.shape[0] - 1])
        a[index] = 7
        x[xp.asarray(index)] = 7


def agree(seed):
    rng = random.Random(seed)
    shape = tuple(rng.randrange(0 if rng.random() < 0.1 else 1, 5) for _ in range(rng.randrange(1, 4)))
    a = np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape) + 1
    pairs = [(a, xp.asarray(a.copy(), copy=True))]
    for _ in range(rng.randrange(2, 10)):
        step(rng, pairs)
        if rng.random() < 0.2:
            dr.eval([x for _, x in pairs])
    for a, x in pairs:
        np.testing.assert_array_equal(np.asarray(x), a, err_msg=f"seed {seed}")


@pytest.mark.parametrize("eager", [0, 1 << 13])
@pytest.mark.parametrize("part", range(4))
def test_random_programs_agree_with_numpy(part, eager, monkeypatch):
    monkeypatch.setattr(xp.policy, "eager", eager)
    for seed in range(part * 60, part * 60 + 60):
        agree(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(50))
def test_many_random_programs_agree_with_numpy(part):
    for seed in range(10_000 + part * 100, 10_100 + part * 100):
        agree(seed)


@pytest.mark.parametrize("view", [
    lambda a: a[2], lambda a: a[:, 1:3], lambda a: a[::-1, ::2], lambda a: a[1, None, ::-2], lambda a: a.T,
    lambda a: a[..., 3], lambda a: a[:, :, 1:2], lambda a: a[-1:, 2, 1:], lambda a: a.reshape(-1)[7:90],
    lambda a: a.reshape(12, -1)[::2, 1:], lambda a: a[1:1]])
@pytest.mark.parametrize("write", [lambda v: v.__setitem__(..., 7), lambda v: v.__setitem__(slice(None, None, -2), 7),
                                   lambda v: v.__iadd__(1), lambda v: v.__setitem__(slice(1, 3), v[-2:] * 2),
                                   lambda v: v.__setitem__(..., v[:1])])
def test_writes_to_views_of_large_arrays(view, write):
    values = np.arange(4 * 5 * 6).reshape(4, 5, 6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xp.policy, "eager", 0)
        x = xp.asarray(values)
        write(view(x))
        write(view(values))
        np.testing.assert_array_equal(np.asarray(x), values)


def test_single_elements_are_copies():
    x = xp.arange(4.0)
    first = x[0]
    first += 5
    assert float(x[0]) == 0 and float(first) == 5
    x[1] += 5
    assert x.tolist() == [0, 6, 2, 3]


def test_a_view_of_a_view_belongs_to_the_root():
    x = xp.zeros((3, 4, 5))
    x[1].T[2, 3] = 1
    x[1, :, ::-1][0][0] = 2
    assert float(x[1, 3, 2]) == 1 and float(x[1, 0, 4]) == 2 and float(xp.sum(x)) == 3


def test_complex_views():
    x = xp.zeros((2, 3), dtype=xp.complex128)
    x.T[0] += 2 - 1j
    assert x.tolist() == [[2 - 1j, 0, 0], [2 - 1j, 0, 0]]


def test_copies_are_no_views():
    x = xp.arange(6.0)
    others = [xp.asarray(x, copy=True), xp.astype(x, xp.float64), copy.copy(x), copy.deepcopy(x[:]), +x, x + 0,
              xp.reshape(x, (6,), copy=True), xp.concat([x]), xp.conj(x), pickle.loads(pickle.dumps(x[:])), x[x >= 0],
              xp.take(x, xp.arange(6)), xp.roll(x, 0) + 0]
    x[:] = 9
    for other in others:
        assert other.tolist() == [0, 1, 2, 3, 4, 5]
        other[0] = -1
    assert x.tolist() == [9] * 6


def test_reshape_without_a_copy_is_refused_where_there_is_none():
    x = xp.zeros((2, 3))
    with pytest.raises(ValueError, match=r"reshape\(\): a view of the shape \(3, 2\) whose elements do not follow"):
        xp.reshape(x.T, (6,), copy=False)
    xp.reshape(x.T[::-1], (3, 1, 2), copy=False)[0, 0, 0] = 1
    assert x.tolist() == [[0, 0, 1], [0, 0, 0]]


def test_views_do_not_disturb_aliasing_assignments():
    a = np.arange(6.0)
    x = xp.asarray(a)
    a[1:] = a[:-1].copy()
    x[1:] = x[:-1]
    assert x.tolist() == a.tolist()


def test_derivatives_go_through_writes_to_views():
    w = xp.asarray([2.0, 3.0])
    dr.enable_grad(w)
    x = xp.ones((2, 2))
    column = x[:, 1]
    column *= w
    column[0] = w[1] * w[1]
    dr.backward(xp.sum(x * x).tensor)
    # The sum is 2 + w1**4 + w1**2.
    assert dr.grad(w).tolist() == [0, 4 * 27 + 6]


def test_many_updates_of_a_view_read_it_once():
    x = xp.zeros((4, 3))
    dr.eval(x)
    row = x[1]
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        for _ in range(20):
            row += 1
        dr.eval(x, row)
        history = dr.kernel_history()
    assert x[1].tolist() == row.tolist() == [20.0] * 3
    assert len(history) <= 2  # the updates, and the elements of the whole


def test_a_view_in_the_body_of_a_loop_does_not_leak():
    x = xp.arange(3.0)
    view = x[1:]
    x += 10
    _, total = dr.while_loop((dr.llvm.ad.Int(0, 0), dr.llvm.ad.Float64(0)), lambda k, s: k < 3,
                             lambda k, s: (k + 1, s + dr.sum(view.tensor).array))
    assert total.numpy().tolist() == [69.0] * 2 and view.tolist() == [11, 12]


@pytest.mark.parametrize("axes", [(), (None,), ((1, 0, 2),), (2, 0, 1), ([2, 1, 0],), (-1, 0, 1)])
def test_the_method_transpose_is_that_of_numpy(axes):
    a, x = np.zeros((2, 3, 4)), xp.zeros((2, 3, 4))
    a.transpose(*axes)[0, 1, 0] = 1
    x.transpose(*axes)[0, 1, 0] = 1
    np.testing.assert_array_equal(np.asarray(x), a)
    assert x.transpose(*axes).shape == a.transpose(*axes).shape
    if len(axes) < 2:
        assert xp.transpose(x, *axes).shape == a.transpose(*axes).shape


IDENTITIES = {
    "pow": lambda x: x ** 1, "clip": xp.clip, "roll": lambda x: xp.roll(x, 0), "real": xp.real, "positive": xp.positive,
    "conj": xp.conj, "floor": xp.floor, "broadcast_to": lambda x: xp.broadcast_to(x, (3,)),
    "broadcast_arrays": lambda x: xp.broadcast_arrays(x, x)[0], "astype": lambda x: xp.astype(x, x.dtype),
    "sum": lambda x: xp.sum(x, axis=()), "diff": lambda x: xp.diff(x, n=0), "concat": lambda x: xp.concat([x]),
    "tile": lambda x: xp.tile(x, (1,)), "repeat": lambda x: xp.repeat(x, 1), "meshgrid": lambda x: xp.meshgrid(x)[0],
    "abs": xp.abs, "where": lambda x: xp.where(x == x, x, x), "asarray": lambda x: xp.asarray(x, copy=True),
    "from_dlpack": xp.from_dlpack,
}


@pytest.mark.parametrize("dtype", [xp.float32, xp.uint32])
@pytest.mark.parametrize("name", IDENTITIES)
def test_functions_that_change_nothing_return_arrays_of_their_own(name, dtype):
    for write in (lambda x: x.__iadd__(1), lambda x: x.__setitem__(0, 7)):
        x = xp.asarray([1, 2, 3], dtype=dtype)
        y = IDENTITIES[name](x)
        write(y)
        assert np.asarray(x).tolist() == [1, 2, 3]
        y = IDENTITIES[name](x)
        write(x)
        assert np.asarray(y).tolist() == [1, 2, 3]


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("name", ["real", "broadcast_to", "abs", "positive"])
def test_arrays_of_their_own_in_symbolic_loops(name, tracked):
    dtype = xp.uint32 if name == "abs" else xp.float32
    x = xp.asarray([1, 2, 3], dtype=dtype)
    other = xp.asarray([1.0])
    if tracked:  # anywhere: from then on, floats that a body is known to use are variables of the loop
        dr.enable_grad(other)

    def body(i, total):
        IDENTITIES[name](x)[0] = 100
        return i + 1, total + UInt32(x[0].tensor.array)

    with pytest.raises(RuntimeError, match="that it has made itself"):
        dr.while_loop((UInt32(0), UInt32(0)), lambda i, total: i < 2, body)
    assert np.asarray(x).tolist() == [1, 2, 3]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize(("write", "expected"), [
    (lambda x: x.__iadd__(1), [3, 4, 5]), (lambda x: x.__setitem__(slice(None), 5), [5, 5, 5]),
    (lambda x: x.__setitem__(xp.asarray([True, False, True]), 5), [5, 2, 5])])
def test_loops_change_arrays_as_a_whole(write, expected, mode):
    x, calls = xp.asarray([1.0, 2.0, 3.0]), []

    def body(i):
        calls.append(i)
        write(x)
        return (i + 1,)

    dr.while_loop((UInt32(0),), lambda i: i < 2, body, mode=mode)
    assert np.asarray(x).tolist() == expected
    assert len(calls) == (1 if mode == "symbolic" else 2)
    x = xp.asarray([1.0, 2.0, 3.0])
    found = dr.while_loop((UInt32(0), x), lambda i, x: i < 2, lambda i, x: (i + 1, (write(x), x)[1]), mode=mode)[1]
    assert found is x
    assert np.asarray(x).tolist() == expected


def test_real_and_imaginary_parts_are_views():
    z = xp.asarray([[1 + 2j, 3], [4j, 5]])
    column = z[:, 0].imag
    z.real[0] *= 2
    z.imag += 1
    z.T.real[1] = [7, 8]
    column[0] = -1
    assert z.tolist() == [[2 - 1j, 7 + 1j], [5j, 8 + 1j]]
    assert column.tolist() == [-1, 5]
    z.real = 0
    z.imag = [[1, 2], [3, 4]]
    assert z.tolist() == [[1j, 2j], [3j, 4j]]


def test_parts_of_real_arrays_are_those_of_numpy():
    x = xp.asarray([1.0, 2.0])
    x.real[0] = 5
    x.real += 1
    assert x.tolist() == [6, 3] and x.imag.tolist() == [0, 0]
    with pytest.raises(TypeError, match=r"Array\.imag: an array of float64 has no imaginary part to set"):
        x.imag = 3
    for part in (x.imag, x.imag[1:]):
        with pytest.raises(ValueError, match="imaginary part of real numbers cannot be written to"):
            part[0] = 1


def test_a_key_with_an_ellipsis_is_a_view_without_axes():
    x = xp.arange(3.0)
    last = x[..., 2]
    last += 5
    x[0, ...] = -1
    assert x.tolist() == [-1, 1, 7] and last.shape == () and float(last) == 7
    x *= 2
    assert float(last) == 14


def test_diagonals_are_views():
    x = xp.zeros((3, 2, 3))
    diagonal = x.diagonal(1, 0, 2)
    x.T.diagonal()[...] = 1
    diagonal += 2
    a = np.zeros((3, 2, 3))
    for k in range(2):
        a.T[k, k] = 1
    for k in range(2):
        a[k, :, k + 1] += 2
    np.testing.assert_array_equal(np.asarray(x), a)
    assert xp.linalg.diagonal(xp.zeros((2, 0))).shape == (0,)


# --- derivatives -----------------------------------------------------------------------------------------------------


def gradient(value, *arrays):
    dr.backward(value.tensor)
    return [dr.grad(array).tolist() for array in arrays]


@pytest.mark.parametrize("view", [lambda x: x[0], lambda x: x.T[:, 0], lambda x: xp.reshape(x, (-1,))[:2]])
def test_a_view_that_was_there_before_derivatives_has_them(view):
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    v = view(x)
    for _ in range(3):
        dr.disable_grad(x)
        dr.enable_grad(x)
        assert gradient(xp.sum(v * v), x) == [[[2, 4], [0, 0]]]


def test_a_complex_part_that_was_there_before_derivatives_has_them():
    z = xp.asarray([1 + 2j, 3])
    part = z.imag
    dr.enable_grad(z)
    assert gradient(xp.sum(part * part), z) == [[4j, 0]]


def test_a_view_that_is_a_variable_stays_one_when_its_root_is_written_to():
    x = xp.asarray([1.0, 2.0, 3.0])
    v = x[1:]
    dr.enable_grad(v)
    x[:2] = [5, 7]
    assert v.tolist() == [7, 3] and gradient(xp.sum(v * v), v) == [[14, 6]]
    w = xp.asarray(2.0)
    dr.enable_grad(w)
    x[0] = w
    with pytest.raises(RuntimeError, match="enabled for a view of an array, into which values that have derivatives"):
        v + 1


@pytest.mark.parametrize("write", [
    lambda x: x.__iadd__(1), lambda x: x.__setitem__(0, 1), lambda x: x[1:].__imul__(2), lambda x: x.fill(3),
    lambda x: x.sort(), lambda x: x.__setitem__(x > 1, 0), lambda x: xp.asarray(2.0).__isub__(1) and x.__isub__(x)])
def test_variables_of_derivatives_are_not_written_to(write):
    x = xp.asarray([1.0, 2.0])
    dr.enable_grad(x)
    with pytest.raises(RuntimeError, match=r"derivatives have been enabled for this array.*Write to a copy"):
        write(x)
    assert x.tolist() == [1, 2]
    assert gradient(xp.sum(x * x), x) == [[2, 4]]
    with dr.suspend_grad():
        write(x)
    y = xp.asarray([1.0, 2.0])
    dr.enable_grad(y)
    z = y * 1
    write(z)  # what is computed of variables may be written to
    dr.disable_grad(y)
    write(y)
    assert z.tolist() == y.tolist() == x.tolist()


# --- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("evaluated", [False, True])
@pytest.mark.parametrize("make", [lambda: xp.arange(5.0), lambda: xp.zeros(5), lambda: xp.arange(100_000.0) * 2,
                                  lambda: xp.arange(10.0)[2:7], lambda: xp.asarray(np.arange(5.0))])
@pytest.mark.parametrize("export", [np.asarray, np.from_dlpack, lambda x: x.numpy()])
def test_what_is_exported_shows_no_later_writes(export, make, evaluated):
    x = make()
    if evaluated:
        dr.eval(x)
    found = export(x)
    before = found.copy()
    for write in (lambda: x.__setitem__(0, 9), lambda: x.__iadd__(1), lambda: x.__setitem__(slice(1, 3), 7),
                  lambda: x.__setitem__(xp.asarray([0, 1]), -1), lambda: x[1:].fill(3)):
        write()
        dr.eval(x)
        np.testing.assert_array_equal(found, before)


def test_copies_of_variables_are_none() -> None:
    """They may be written to, and lead to the gradient of what they are copies of."""
    makers = [
        lambda x: x.copy(), lambda x: xp.asarray(x, copy=True), copy.copy, copy.deepcopy, lambda x: +x,
        lambda x: x.flatten(), lambda x: xp.astype(x, x.dtype), lambda x: xp.repeat(x, 1)]
    for make in makers:
        x = xp.asarray([1.0, 2.0, 3.0])
        dr.enable_grad(x)
        copied = make(x)
        copied[0] = 5
        dr.backward(xp.sum(copied * copied))
        assert np.asarray(dr.grad(x)).tolist() == [0, 4, 6]


def test_sides_of_branches_change_views_that_they_know() -> None:
    a = xp.asarray(np.array([1.0, 2.0, 3.0], np.float32))
    v = a[:]

    def side() -> None:
        v.__iadd__(10)

    dr.if_stmt((), Bool(True, False, True), side, lambda: None, mode="evaluated")
    assert np.asarray(a).tolist() == np.asarray(v).tolist() == [11, 2, 13]


@pytest.mark.parametrize("way", ["[:]", "reshape", "T", "squeeze"])
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_views_of_all_elements_in_order_are_changed_element_by_element_in_constructs(way, mode):
    """The construct may compute with them besides."""
    array = xp.asarray(np.arange(4, dtype=np.float32))
    view = {"[:]": lambda: array[:], "reshape": lambda: array.reshape(2, 2), "T": lambda: array.T,
            "squeeze": lambda: array.reshape(1, 4).squeeze()}[way]()

    def change(x):
        part = view[:]
        part += 2
        return x + view.reshape(4)

    found = dr.if_stmt((xp.zeros(4, dtype=xp.float32),), Bool(True, False, True, False), change, lambda x: x, mode=mode)
    assert np.array_equal(np.asarray(array), [2, 1, 4, 3])
    assert np.array_equal(np.asarray(view).ravel(), [2, 1, 4, 3])
    assert np.array_equal(np.asarray(found), [2, 0, 4, 0])


# --- objects that constructs change -----------------------------------------------------------------------------------


class Holder:
    def __init__(self, value):
        self.value = value


class Struct(Holder):
    DRJIT_STRUCT = {"value": object}  # noqa: RUF012

    def __init__(self, value=None):
        super().__init__(value)


VIEWS = {"own": lambda array: array, "[:]": lambda array: array[:], "reshape": lambda array: array.reshape(2, 2),
         "[::-1]": lambda array: array[::-1]}
MODES = ["symbolic", "evaluated", "evaluated compressed"]


def numbers():
    return xp.asarray(np.arange(1, 5, dtype=np.float32))


@pytest.mark.parametrize("way", VIEWS)
@pytest.mark.parametrize("mode", MODES)
def test_views_that_a_loop_changes_in_place_and_returns_others_for(way, mode):
    """The first iteration changes the caller's array; what the others do is done to what it has returned."""
    array = numbers()
    view, counts = VIEWS[way](array), UInt32(0, 1, 2, 3)
    before = np.array(view).ravel()

    def body(i, view, counts):
        view += 2
        return i + 1, view + 1, counts

    _, found, _ = dr.while_loop((UInt32(0, 0, 0, 0), view, counts), lambda i, _, counts: i < counts, body,
                                mode=mode.split()[0], compress="compressed" in mode)
    changed = before + [0, 2, 2, 2]
    assert np.array_equal(np.asarray(view).ravel(), changed)
    assert np.array_equal(np.asarray(found).ravel(), before + [0, 3, 6, 9])
    assert np.array_equal(np.asarray(array), changed[::-1] if way == "[::-1]" else changed)


@pytest.mark.parametrize("mode", MODES)
def test_arrays_that_a_loop_replaces_in_structs_are_as_before(mode):
    array = numbers()
    struct = type("Kind", (Struct,), {"DRJIT_STRUCT": {"value": type(array)}})(array)

    def body(i, struct, counts):
        struct.value = struct.value + 2
        return i + 1, struct, counts

    dr.while_loop((UInt32(0, 0, 0, 0), struct, UInt32(0, 1, 2, 3)), lambda i, _, counts: i < counts, body,
                  mode=mode.split()[0], compress="compressed" in mode)
    assert struct.value is not array
    assert np.array_equal(np.asarray(array), [1, 2, 3, 4])
    assert np.array_equal(np.asarray(struct.value), [1, 4, 7, 10])


@pytest.mark.parametrize("way", VIEWS)
@pytest.mark.parametrize("construct", ["branch", "call"])
@pytest.mark.parametrize("mode", MODES[:2])
def test_one_function_replaces_what_another_one_changes_in_place(way, construct, mode):
    array = numbers()
    holder = Holder(VIEWS[way](array))
    before = np.array(holder.value).ravel()

    def replace():
        holder.value = holder.value + 2

    def change():
        part = holder.value
        part *= 5

    if construct == "branch":
        dr.if_stmt((), Bool(True, False, True, False), replace, change, mode=mode)
    else:
        dr.switch(UInt32(0, 1, 0, 1), [replace, change], mode=mode)
    if way != "[::-1]":
        assert np.array_equal(np.asarray(array), before * [1, 5, 1, 5])
        assert np.array_equal(np.asarray(holder.value).ravel(), (before + [2, 0, 2, 0]) * [1, 5, 1, 5])
    else:
        assert np.array_equal(np.asarray(holder.value) != before, [True] * 4)


@pytest.mark.parametrize("way", VIEWS)
@pytest.mark.parametrize("mode", MODES[:2])
@pytest.mark.parametrize("changed", ["the argument", "the other"])
def test_arguments_whose_elements_a_function_finds_elsewhere(way, mode, changed):
    """They are one array, or that is refused."""
    array = numbers()
    argument = VIEWS[way](array)

    def function(argument):
        if changed == "the argument":
            argument *= 2
            return array + 0
        part = array
        part *= 2
        return argument.reshape(4) + 0

    def run():
        return dr.if_stmt((argument,), Bool(True, False, True, False), function,
                          lambda argument: argument.reshape(4) + 0, mode=mode)

    if way == "own" and mode == "symbolic":
        assert np.array_equal(np.asarray(run()), [2, 2, 6, 4])
        assert np.array_equal(np.asarray(array), [2, 2, 6, 4])
    else:
        with pytest.raises(RuntimeError, match="in place, and finds them in another array"):
            run()
        assert np.array_equal(np.asarray(array), [1, 2, 3, 4])


def test_views_in_places_that_a_symbolic_loop_replaces_besides_changing_them():
    array = numbers()
    holder = Holder(array[:])

    def body(i):
        part = holder.value
        part *= 5
        holder.value = holder.value + 2
        return (i + 1,)

    with pytest.raises(RuntimeError, match="in some iterations only"):
        dr.while_loop((UInt32(0, 0, 0, 0),), lambda i: i < UInt32(0, 1, 2, 3), body, mode="symbolic")
    assert np.array_equal(np.asarray(array), [1, 2, 3, 4])


@pytest.mark.parametrize("mode", MODES[:2])
def test_gradients_of_what_a_loop_changes_by_a_view(mode):
    """The view reads itself again; that is no change of its own."""
    x = Float(1, 2, 3, 4)
    dr.enable_grad(x)
    array = xp.asarray(TensorXf(x * 2, shape=(4,)))
    holder = Holder(array[:])

    def body(i):
        part = holder.value
        part *= 3
        return (i + 1,)

    dr.while_loop((UInt32(0, 0, 0, 0),), lambda i: i < 3, body, mode=mode, max_iterations=4)
    dr.backward(xp.sum(array) + xp.sum(holder.value))
    assert np.array_equal(x.grad, [2 * 54] * 4)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("key", [slice(None), slice(None, None, -1), slice(1, 3)])
@pytest.mark.parametrize("construct", ["if_stmt", "switch", "while_loop"])
def test_views_that_constructs_change_write_to_what_they_are_of(mode: str, key: slice, construct: str) -> None:
    """Whether a function refers to a view, or to the array that it is of, as well."""
    owner = xp.asarray([2.0, 4.0, 6.0, 8.0], dtype=xp.float32)
    view = owner[key]
    wanted = np.array([2.0, 4.0, 6.0, 8.0], np.float32)

    def one() -> None:
        nonlocal view
        view += 2

    def other() -> None:
        nonlocal view
        view *= 5

    size = wanted[key].size
    index = dr.arange(UInt32, size) % 2
    part = wanted[key]
    if construct == "while_loop":
        def body(k: UInt32) -> tuple[UInt32]:
            one()
            return (k + 1,)

        dr.while_loop((dr.zeros(UInt32, size),), lambda k: k < 3, body, mode=mode)
        part += 6
    else:
        if construct == "switch":
            dr.switch(index, [one, other], mode=mode)
        else:
            dr.if_stmt((), index == 0, one, other, mode=mode)
        part[::2] += 2
        part[1::2] *= 5
    np.testing.assert_array_equal(np.asarray(owner), wanted)
    np.testing.assert_array_equal(np.asarray(view), wanted[key])
