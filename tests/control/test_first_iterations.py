"""What the first iteration does, and later ones do not, beside writes by index that all of them do; what sides of
branches fill for the first time; what both sides put in several places."""

from collections import deque

import pytest

import drjit as dr
import drjit.llvm
import drjit.llvm.ad

MODES = {"symbolic": {"mode": "symbolic"}, "evaluated": {"mode": "evaluated"},
         "compressed": {"mode": "evaluated", "compress": True}}


@pytest.fixture(params=MODES)
def options(request):
    return MODES[request.param]


@pytest.fixture(params=["symbolic", "evaluated"])
def mode(request):
    return request.param


@pytest.fixture(params=[drjit.llvm, drjit.llvm.ad])
def package(request):
    return request.param


def summed(entries, x):
    entries["t"] = entries["t"] + x if "t" in entries else x * 1


def set_once(entries, x):
    if "t" not in entries:
        entries["t"] = x * 10


def set_later(entries, x):
    entries["t"] = entries["s"] if "s" in entries else x * 3
    entries["s"] = x


STEPS = {summed: lambda x, n: n * x + n * (n - 1) / 2, set_once: lambda x, n: 10 * x * (n > 0),
         set_later: lambda x, n: (3 * x if n == 1 else x + n - 2) * (n > 0)}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("size", [0, 1, 2, 4])
@pytest.mark.parametrize("local", [False, True])
def test_first_iterations_beside_writes(package, step, size, local, options):
    F, U = package.Float, package.UInt32
    entries = {}
    memory = dr.zeros(F, size) if size else None
    own = dr.alloc_local(F, 2, 0) if local and options["mode"] == "symbolic" else None

    def body(i, n, x):
        step(entries, x)
        if memory is not None:
            dr.scatter_add(memory, x, dr.minimum(i, size - 1))
        if own is not None:
            own[i & 1] = x
        return i + 1, n, x + 1

    counts = (2, 1, 3)
    try:
        dr.while_loop((U(0), U(counts), F(1, 2, 3)), lambda i, n, x: i < n, body, **options)
    except RuntimeError as error:
        assert own is not None and "later iterations" in str(error) or \
            options == MODES["compressed"] and "This loop removes elements" in str(error)
        return
    assert dr.allclose(entries["t"], F([STEPS[step](x, n) for x, n in zip((1, 2, 3), counts, strict=True)]))
    if memory is not None:
        expected = [0.0] * size
        for x, n in zip((1, 2, 3), counts, strict=True):
            for i in range(n):
                expected[min(i, size - 1)] += x + i
        assert dr.allclose(memory, F(expected))


@pytest.mark.parametrize("step", STEPS)
def test_gradients_of_first_iterations_beside_writes(step):
    F, U = drjit.llvm.ad.Float, drjit.llvm.ad.UInt32
    found = []
    for mode in ("symbolic", "evaluated"):
        entries, x = {}, F(1, 2, 3)
        dr.enable_grad(x)
        memory = dr.zeros(F, 4)

        def body(i, x, entries=entries, memory=memory):
            step(entries, x * x)
            dr.scatter_add(memory, x * x, i)
            return i + 1, x + 1

        dr.while_loop((U(0), F(x)), lambda i, x: i < U(2, 1, 3), body, mode=mode)
        dr.backward(dr.sum(entries["t"]) + dr.sum(memory * F(1, 2, 3, 4)))
        found.append(x.grad)
    assert dr.allclose(*found)


def test_writes_of_what_differs_are_refused():
    F, U = drjit.llvm.Float, drjit.llvm.UInt32
    entries, memory = {}, dr.zeros(F, 4)

    def body(i, x):
        summed(entries, x)
        dr.scatter(memory, entries["t"], i)
        return i + 1, x

    with pytest.raises(RuntimeError, match="something else in later iterations"):
        dr.while_loop((U(0), F(1, 2)), lambda i, x: i < U(2, 1), body, mode="symbolic")
    assert not entries and dr.all(memory == 0)


def waiting():
    """A generator that keeps what it is sent twice, and then tells."""
    x = yield
    y = x * 2
    yield
    yield y


@pytest.mark.parametrize("construct", ["branch", "call"])
def test_variables_of_generators_that_a_side_fills_have_no_value(package, construct, mode):
    generator, x = waiting(), package.Float(1, 2, 3)
    next(generator)

    def side(x):
        generator.send(x)

    if construct == "branch":
        dr.if_stmt((x,), package.Bool(True, False, True), side, lambda x: None, mode=mode)
    else:
        dr.switch(package.UInt32(0, 1, 0), [side, lambda x: None], x, mode=mode)
    with pytest.raises(RuntimeError, match=r"no value.*variable 'y' of the generator 'waiting'"):
        dr.eval(next(generator) + 1)


def test_what_depends_on_no_element_generators_keep(package, mode):
    generator, x = waiting(), package.Float(1, 2, 3)
    next(generator)
    dr.if_stmt((), package.Bool(True, False, True), lambda: (generator.send(x), None)[1], lambda: None, mode=mode)
    assert dr.all(next(generator) == package.Float(2, 4, 6))


@pytest.mark.parametrize("value", [(5,), (5, 6, 7)])
@pytest.mark.parametrize("part", [False, True])
def test_arguments_that_one_side_puts_where_nothing_was_have_no_value(package, value, part, mode):
    x = package.Float(*value)
    v = package.Array2f(x, package.Float(1, 2, 3)) if part else x
    entries = {}

    def side(v):
        entries["k"] = v.x if part else v

    dr.if_stmt((v,), package.Bool(True, False, True), side, lambda v: None, mode=mode)
    with pytest.raises(RuntimeError, match=r"no value.*entry 'k'"):
        entries["k"] += 1
    dr.if_stmt((v,), package.Bool(True, False, True), side, side, mode=mode)
    assert entries["k"] is (v.x if part else v)


@pytest.mark.parametrize("construct", ["branch", "call"])
@pytest.mark.parametrize("before", [None, 0])
def test_what_all_sides_put_in_several_places_is_one_array(package, construct, before, mode):
    F = package.Float
    entries = {} if before is None else {"t": F(before), "s": F(before)}

    def double(x):
        entries["t"] = entries["s"] = y = x * 2
        return y

    def triple(x):
        entries["t"], entries["s"] = y, [y][0] = x * 3, x * 3
        entries["s"] = entries["t"]
        return entries["t"]

    if construct == "branch":
        y = dr.if_stmt((F(1, 2, 3),), package.Bool(True, False, True), double, triple, mode=mode)
        assert y is entries["t"]
    else:
        y = dr.switch(package.UInt32(0, 1, 0), [double, triple], F(1, 2, 3), mode=mode)
        assert y is not entries["t"]  # results of calls are new
    assert entries["t"] is entries["s"] and dr.all(y == F(2, 6, 6))
    entries["t"] += 10
    assert dr.all(entries["s"] == F(12, 16, 16))


def test_what_one_side_puts_in_several_places_is_several_arrays(package, mode):
    F = package.Float
    entries = {"t": F(0), "s": F(1)}

    def double(x):
        entries["t"] = entries["s"] = x * 2

    dr.if_stmt((F(1, 2, 3),), package.Bool(True, False, True), double, lambda x: None, mode=mode)
    entries["t"] += 10
    assert dr.all(entries["t"] == F(12, 10, 16)) and dr.all(entries["s"] == F(2, 1, 6))


def test_calls_that_elements_take_none_of(package, mode):
    F = package.Float
    entries = {"t": F(0), "s": F(1)}

    def double(x):
        entries["t"] = entries["s"] = x * 2

    dr.switch(package.UInt32(0, 1, 7), [double, double], F(1, 2, 3), mode=mode)
    assert dr.all(entries["t"] == F(2, 4, 0)) and dr.all(entries["s"] == F(2, 4, 1))


@pytest.mark.parametrize("change", ["rotate", "popleft", "rotate and put", "rotate in place"])
def test_queues_that_rotate(package, change, options):
    F, U = package.Float, package.UInt32

    def act(queue, x):
        if change == "popleft":
            queue.append(queue.popleft())
        else:
            queue.rotate(1)
        if change == "rotate and put":
            queue[0] = x * 1
        if change == "rotate in place":
            queue[0] += x

    if change == "rotate in place" and options["mode"] == "symbolic":
        pytest.skip("arrays that change in place, and places in each iteration, are refused")
    queue, counts = deque([F(1), F(2), F(3)]), (0, 1, 2, 3)
    expected = [deque([1, 2, 3]) for _ in counts]
    for lane, n in zip(expected, counts, strict=True):
        for _ in range(n):
            act(lane, 7)

    def body(i, n):
        act(queue, F(7))
        return i + 1, n

    dr.while_loop((U(0), U(counts)), lambda i, n: i < n, body, **options)
    assert [dr.all(array == F([lane[k] for lane in expected])) for k, array in enumerate(queue)] == [[True]] * 3
