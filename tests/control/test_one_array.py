"""What a body puts in several places is one array there afterwards, as in Python, where all elements have one: what is
changed by one name shows by the others."""

import pytest

import drjit as dr
import drjit.llvm
import drjit.llvm.ad

MODES = {"symbolic": {"mode": "symbolic"}, "evaluated": {"mode": "evaluated"},
         "compressed": {"mode": "evaluated", "compress": True}}
COUNTS = [(2, 2, 2), (1, 2, 3), (2, 0, 1)]


@pytest.fixture(params=MODES)
def options(request):
    return MODES[request.param]


@pytest.fixture(params=[drjit.llvm, drjit.llvm.ad])
def package(request):
    return request.param


@pytest.fixture(params=["captured", "attribute"])
def box(request):
    """What takes entries, and what gives them back."""
    if request.param == "captured":
        entries = {}
        return entries.__setitem__, entries.__getitem__
    holder = type("Holder", (), {})()
    return lambda key, value: setattr(holder, key, value), lambda key: getattr(holder, key)


def looped(package, counts, x, body, options):
    """The state of a loop with so many iterations for each element, and what is left of ``x``."""
    u = package.UInt32
    return dr.while_loop((u(0), u(counts), x), lambda i, n, x: i < n, lambda i, n, x: (i + 1, n, body(x)), **options)[2]


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("kind", ["same", "list", "component", "component first", "three"])
def test_new_places(package, counts, kind, box, options):
    put, at = box
    F = package.Float

    def body(x):
        y = package.Array2f(x * 2, x) if kind.startswith("component") else x * 2
        if kind == "component first":
            put("a", y.x)
            put("b", y)
        else:
            put("a", [y] if kind == "list" else y)
            put("b", y.x if kind == "component" else y)
        if kind == "three":
            put("c", y)
        return x + 1

    looped(package, counts, F(1, 2, 3), body, options)
    a, b = [entry[0] if isinstance(entry, list) else entry for entry in (at("a"), at("b"))]
    expected = [0 if not count else 2 * (k + count) for k, count in enumerate(counts)]
    one, other = (a.x, b) if kind == "component" else (a, b.x) if kind == "component first" else (a, b)
    assert one is other
    assert dr.all(one == F(expected))
    one += 10
    assert dr.all(other == F(expected) + 10)
    assert kind != "three" or at("c") is a


@pytest.mark.parametrize("counts", COUNTS)
def test_old_places_are_one_where_elements_without_an_iteration_have_the_same(package, counts, options):
    F = package.Float
    before = F(5)
    entries = {"a": before, "b": before, "c": F(7, 8, 9)}

    def body(x):
        entries["a"] = entries["b"] = entries["c"] = x * 2
        return x + 1

    looped(package, counts, F(1, 2, 3), body, options)
    assert entries["a"] is entries["b"]
    if 0 in counts:
        assert entries["a"] is not entries["c"]
    entries["a"] += 10
    expected = [15 if not count else 2 * (k + count) + 10 for k, count in enumerate(counts)]
    assert dr.all(entries["b"] == F(expected)) and dr.all(before == 5)


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("kind", ["before", "after", "alone", "list", "component"])
def test_state_in_new_places(package, counts, kind, box, options):
    put, at = box
    F = package.Float

    def body(x):
        if kind != "after":
            put("a", [x] if kind == "list" else x.x if kind == "component" else x)
        if kind != "alone":
            x += 1
        if kind == "after":
            put("a", x)
        return x

    state = package.Array2f(F(1, 2, 3), 0) if kind == "component" else F(1, 2, 3)
    found = looped(package, counts, state, body, options)
    assert found is state
    kept = at("a")[0] if kind == "list" else at("a")
    part = state.x if kind == "component" else state
    assert kept is part
    expected = [k + 1 + count * (kind != "alone") for k, count in enumerate(counts)]
    assert dr.all(kept == F(expected))
    kept += 10
    assert dr.all(part == F(expected) + 10)


@pytest.mark.parametrize("counts", COUNTS)
def test_arrays_from_outside_in_new_places(package, counts, box, options):
    put, at = box
    F = package.Float
    total, fixed = F(1, 2, 3), F(4, 5, 6)

    def body(x):
        nonlocal total
        total += x
        put("a", total)
        put("b", fixed)
        return x

    looped(package, counts, F(1), body, options)
    assert at("a") is total and at("b") is fixed
    assert dr.all(total == F([k + 1 + count for k, count in enumerate(counts)]))


def test_what_the_first_iteration_puts_elsewhere_is_no_longer_one(package, options):
    F = package.Float
    entries = {}

    def body(x):
        entries["b"] = y = x * 2
        entries["a"] = x * 3 if "a" not in entries else y
        return x + 1

    try:
        looped(package, (1, 2, 3), F(1, 2, 3), body, options)
    except RuntimeError as error:
        assert "later iterations" in str(error) or options == MODES["compressed"] and "were removed" in str(error)
        return
    assert dr.all(entries["a"] == F(3, 6, 10)) and dr.all(entries["b"] == F(2, 6, 10))
    entries["a"] += 10
    assert dr.all(entries["b"] == F(2, 6, 10))


def test_gradients(options):
    F = drjit.llvm.ad.Float
    entries, x = {}, F(1, 2, 3)
    dr.enable_grad(x)

    def body(y):
        entries["a"] = entries["b"] = y * y
        return y + 1

    if options == MODES["compressed"]:
        options = MODES["evaluated"]
    looped(drjit.llvm.ad, (1, 2, 3), F(x), body, options)
    entries["a"] *= 2
    dr.backward(entries["b"])
    assert dr.all(x.grad == 4 * (F(1, 2, 3) + F(0, 1, 2)))


@dr.syntax
def filled(entries, x, n):
    i = n * 0
    while i < n:
        y = x * i
        entries["a"] = y
        entries["b"] = y
        i += 1


def test_syntax(package, options):
    flags = options["mode"] == "symbolic"
    entries = {}
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, flags):
        def go():
            filled(box, package.Float(1, 2, 3), package.UInt32(1, 2, 3))

        box = type("Box", (), {"__setitem__": lambda self, key, value: entries.__setitem__(key, value)})()
        go()
    assert entries["a"] is entries["b"] and dr.all(entries["a"] == package.Float(0, 2, 6))


@pytest.mark.parametrize("kind", ["set once", "inner loop"])
def test_arrays_that_are_one_in_some_iterations_do_not_change_in_place(package, kind, options):
    """Symbolic loops know after the first iteration what later ones find in new places: they refuse that."""
    F = package.Float
    entries = {}

    def inner(j, y):
        entries["a"] = entries["b"] = y * 2
        return j + 1, y + 1

    def body(x):
        if kind == "inner loop":
            dr.while_loop((package.UInt32(0), x), lambda j, y: j < 2, inner, mode=options["mode"])
        elif "a" not in entries:
            entries["a"] = entries["b"] = x * 1
        entries["b"] += 1
        return x + 1

    if options["mode"] == "symbolic":
        with pytest.raises(RuntimeError, match=r"changes an array in place .* not in all iterations"):
            looped(package, (1, 2, 3), F(1, 2, 3), body, options)
        assert not entries
        return
    if options == MODES["compressed"]:
        options = MODES["evaluated"]
    looped(package, (1, 2, 3), F(1, 2, 3), body, options)
    assert entries["a"] is entries["b"]
    assert dr.all(entries["a"] == (F(5, 9, 13) if kind == "inner loop" else F(2, 4, 6)))
