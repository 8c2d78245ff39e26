"""Changes in place: what an array holds is replaced in one place, and shows wherever the array shows."""

from __future__ import annotations

import ast
import gc
import sys
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import array_api
from drjit._access import store as storage
from drjit._arrays.flat import FlatArray
from drjit.llvm import Array2f, Array3f, Array22f, ArrayXf, Bool, Float, Int, Quaternion4f, TensorXf, UInt
from drjit_core import rooms

#: Every way to change an array of one dimension in place, and what becomes of [1, 2].
CHANGES: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "element": (lambda a: a.__setitem__(0, 9), [9, 2]), "slice": (lambda a: a.__setitem__(slice(1, 2), 9), [1, 9]),
    "all": (lambda a: a.__setitem__(slice(None), 9), [9, 9]), "index": (lambda a: a.__setitem__(UInt(1), 9), [1, 9]),
    "list": (lambda a: a.__setitem__([1, 0], Float(8, 9)), [9, 8]),
    "mask": (lambda a: a.__setitem__(Bool(True, False), 9), [9, 2]), "operator": (lambda a: a.__iadd__(1), [2, 3]),
    "scatter": (lambda a: dr.scatter(a, 9, UInt(1)), [1, 9]), "add": (lambda a: dr.scatter_add(a, 9, UInt(1)), [1, 11]),
    "opaque": (lambda a: dr.make_opaque(a), [1, 2]), "label": (lambda a: setattr(a, "label", "x"), [1, 2]),
}


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("start", [lambda: Float(1, 2), lambda: dr.arange(Float, 2) + 1], ids=["memory", "unevaluated"])
def test_changes_show_in_all_names_and_in_no_copy(start, change, expected) -> None:
    a = start()
    alias, copy, derived = a, Float(a), a + 0
    change(a)
    assert alias is a and list(a) == expected
    assert list(copy) == [1, 2] and list(derived) == [1, 2]


@pytest.mark.parametrize(("make", "part"), [
    (lambda: Float(1, 2), lambda a: a), (lambda: TensorXf([1, 2]), lambda a: a.array),
    (lambda: Array2f(Float(1, 2), Float(5, 6)), lambda a: a.x),
    (lambda: Array22f([[Float(1, 2), Float(5, 6)], [Float(7, 8), Float(9, 9)]]), lambda a: a[0][0])],
    ids=["flat", "tensor", "nested", "deep"])
def test_elements_are_written_in_place_unless_others_hold_the_memory(make, part) -> None:
    """The owner and its components hold the same node, which is no reason to copy it."""
    a = make()
    memory = part(a)._n.payload
    part(a)[0] = 7
    part(a)[1] = 8
    assert part(a)._n.payload is memory and list(part(a)) == [7, 8]
    copy, derived = type(a)(a), part(a) + 1
    part(a)[0] = 9
    assert list(part(a)) == [9, 8] and list(part(copy)) == [7, 8] and list(derived) == [8, 9]


@pytest.mark.parametrize("make", [lambda: Float(np.zeros(10_000)), lambda: array_api.zeros(10_000)],
                         ids=["native", "array_api"])
def test_threads_write_to_other_elements_of_one_array(make) -> None:
    array = make()

    def fill(first: int) -> None:
        for position in range(first, 10_000, 200):
            array[position] = first

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=fill, args=(first,)) for first in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert np.asarray(array).sum() == 50 * (1 + 2 + 3 + 4)


def test_one_array_as_two_components_is_written_in_one_of_them() -> None:
    x = Float(1, 2)
    v = Array2f(x, x)
    del x
    v.x[0] = 7
    assert list(v.x) == [7, 2] and list(v.y) == [1, 2]


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES.keys())
def test_changes_of_a_component_show_in_its_owner_and_in_other_views(change, expected) -> None:
    v = Array2f(Float(1, 2), Float(5, 6))
    copy, first = Array2f(v), v.x
    change(first)
    assert list(v.x) == expected and v[0] is first and list(v.y) == [5, 6]
    assert v.numpy().tolist() == [expected, [5, 6]] and copy.numpy().tolist() == [[1, 2], [5, 6]]
    v.y = 7
    assert list(first) == expected


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES.keys())
def test_changes_of_a_component_of_a_component(change, expected) -> None:
    m = Array22f([[Float(1, 2), Float(0)], [Float(0), Float(0)]])
    row, element, copy = m[0], m[0][0], Array22f(m)
    change(element)
    assert list(row.x) == expected and list(m.x.x) == expected and list(copy.x.x) == [1, 2]
    m[0] = Array2f(3, 4)
    assert list(element) == [3] and list(row.y) == [4]


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES.keys())
def test_changes_of_the_flat_array_show_in_the_tensor(change, expected) -> None:
    t = TensorXf([1, 2], shape=(1, 2))
    copy, flat = TensorXf(t), t.array
    change(flat)
    assert t.numpy().tolist() == [expected] and copy.numpy().tolist() == [[1, 2]] and list(t.array) == expected
    t[0, 0] = 30
    assert flat[0] == 30


def test_a_tensor_keeps_its_shape() -> None:
    t = TensorXf([1, 2])
    alias, flat = t, t.array
    with pytest.raises(RuntimeError, match=r"__iadd__\(\): the result has the shape \(2, 2\).*is \(2,\)"):
        t += TensorXf([[1], [2]])
    other = TensorXf([5], shape=(1, 1))
    with pytest.raises(RuntimeError, match=r"shape \(1, 1\)"):
        view = other.array
        view += Float(1, 2, 3)
    flat += 1
    assert alias.shape == (2,) and list(t.array) == [2, 3] and other.numpy().tolist() == [[5]]
    flat *= Float(0)
    assert t.shape == (2,) and t.numpy().tolist() == [0, 0]


def test_quaternions_and_swizzles_are_stored_at_once() -> None:
    q = Quaternion4f(1, 2, 3, 4)
    i = q.x
    q.imag = Array3f(5, 6, 7)
    assert list(i) == [5] and list(q.real) == [4]
    v = Array3f(1, 2, 3)
    v.zx = v.xz
    assert repr(v) == "[[3, 2, 1]]"
    with pytest.raises(TypeError):
        v.xy = [1, "a"]
    assert repr(v) == "[[3, 2, 1]]"


@pytest.mark.parametrize(("key", "value"), [
    (slice(None), [Float(7), "a", 1]), ((slice(None), 0), "a"), ((slice(None), slice(None)), Float(1, 2, 3)),
    ([0, 5], 1), ([0, 1], [1, 2, 3]), (Bool(True, False, True), 1),
])
def test_an_assignment_that_fails_half_way_changes_nothing(key: Any, value: Any) -> None:
    v = Array3f([1, 2], [3, 4], [5, 6])
    parts, before = list(v), repr(v)
    with pytest.raises((TypeError, RuntimeError, IndexError)):
        v[key] = value
    assert repr(v) == before and [list(part) for part in parts] == [[1, 2], [3, 4], [5, 6]]


def test_a_single_element_is_written_in_place() -> None:
    a = Float(1, 2, 3) + 0
    dr.eval(a)
    address = a.numpy().ctypes.data
    a[1] = 9
    assert a.numpy().ctypes.data == address
    other = Float(a)
    a[1] = 10
    assert list(other) == [1, 9, 3] and a.numpy().ctypes.data != address


def test_lists_of_components_are_not_shared() -> None:
    a, b = ArrayXf(1, 2), Array3f(1, 2, 3)
    kept = b._nodes()
    before = list(kept)
    b.x = 5
    b[1] = 6
    assert kept == before
    a[:] = [3, 4]
    assert repr(a) == "[[3, 4]]"


# --- one place -------------------------------------------------------------------------------------------------------


def _stores(path: Path) -> list[str]:
    """Functions of a module that set what an array holds, other than on an object that has just been made."""
    found = []

    def visit(node: ast.AST, name: str) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name = node.name
        targets = node.targets if isinstance(node, ast.Assign) else \
            [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []
        for target in (part for entry in targets for part in (entry.elts if isinstance(entry, ast.Tuple) else [entry])):
            if isinstance(target, ast.Subscript):
                target = target.value
            if isinstance(target, ast.Attribute) and target.attr in ("_n", "_c") and isinstance(target.value, ast.Name):
                owner = target.value.id
                if name not in ("__init__", "_construct", "restore_array") and owner not in new.get(name, ()):
                    found.append(f"{path.name}:{target.lineno} {name}: {owner}.{target.attr}")
        for child in ast.iter_child_nodes(node):
            visit(child, name)

    tree = ast.parse(path.read_text())
    new: dict[str, set[str]] = defaultdict(set)  # names of objects that a function makes, by function
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    new[function.name] |= {target.id for target in targets if isinstance(target, ast.Name)}
    visit(tree, "")
    return found


def test_no_other_module_replaces_what_an_array_holds() -> None:
    root = Path(dr.__file__).parent
    places = {str(path.relative_to(root)): _stores(path) for path in sorted(root.rglob("*.py"))}
    assert places.pop("_access/store.py"), "the check finds nothing, not even where it must"
    assert {name: found for name, found in places.items() if found} == {}


@pytest.mark.parametrize("change", [change for change, _ in CHANGES.values()], ids=CHANGES.keys())
def test_every_change_passes_through_one_function(change, monkeypatch: pytest.MonkeyPatch) -> None:
    original, seen = storage.store, []

    def store(array: Any, *args: Any) -> None:
        seen.append(array)
        original(array, *args)

    for name, module in list(sys.modules.items()):
        if name.startswith("drjit.") and vars(module).get("store") is original:
            monkeypatch.setattr(module, "store", store)
    monkeypatch.setattr(FlatArray, "_replace", store)
    a = Float(1, 2)
    change(a)
    assert len(seen) == 1 and seen[0] is a


def test_views_refuse_nothing_that_their_owner_takes() -> None:
    v = Array2f(1, 2)
    x = v.x
    x += Float(1, 2, 3)
    assert v.numpy().tolist() == [[2, 3, 4], [2, 2, 2]]
    x[Bool(True, False, True)] = np.array([7, 8, 9])
    assert list(v.x) == [7, 3, 9]
    n = Int(1, 2)
    n[:] = UInt(3)
    assert list(n) == [3, 3]


@pytest.mark.parametrize("mode", ["evaluated", "symbolic"])
def test_what_failed_holds_no_array_any_more(mode: str) -> None:
    """Else a write went to a copy, and a view of the memory did not show it."""
    a = Float(1, 2, 3) + 0
    view = a.numpy()

    def body(i: Int, x: Float) -> Any:
        x += x
        raise KeyError("body")

    failures: list[Callable[[], Any]] = [
        lambda: dr.while_loop((Int(1, 1, 1), a), lambda i, x: i > 0, body, mode=mode), lambda: a + "text",
        lambda: a + Float(1, 2), lambda: a["text"], lambda: a.__setitem__(slice(0, 2), Float(1, 2, 3)),
        lambda: dr.gather(Float, a, "text"), lambda: dr.scatter(a, "text", UInt(0)), lambda: a.__setitem__(9, 1),
    ]
    for number, fail in enumerate(failures):
        with pytest.raises((KeyError, TypeError, RuntimeError, IndexError)):
            fail()
        a[0:1] = number + 10
        dr.eval(a)
        assert view[0] == number + 10


@pytest.mark.skipif(rooms.compiled, reason="compiled arrays tell nobody that they are changed")
def test_components_may_be_asked_for_while_others_are_told_of_a_change() -> None:
    """As another thread may do; here it is a component itself that asks for another one when it is told."""
    v = Array3f(1, 2, 3)
    first, second = v.x, v.y

    class Asking(Float):
        __slots__ = ()

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "_n":
                asked.append(v.z)

    asked: list[Any] = []
    first.__class__ = Asking
    v += 10
    assert [list(part) for part in (first, second, *asked)] == [[11], [12], [13]]


@pytest.mark.parametrize(("make", "again"), [
    (lambda: Array3f(1, 2, 3), lambda view: view.__init__(7)),
    (lambda: Array22f([1, 2], [3, 4]), lambda view: view.__init__(7, 8)),
    (lambda: Array3f([1, 2], 2, 3), lambda view: view.__setstate__(Float(7, 8).__reduce_ex__(4)[2])),
], ids=["flat", "nested", "unpickled"])
def test_components_may_be_initialised_again(make: Callable[[], Any], again: Callable[[Any], None]) -> None:
    """Then they are arrays of their own, whoever dies first."""
    for owner_first in (True, False):
        owner = make()
        view, text, other = owner[0], repr(owner), owner[1]
        again(view)
        assert repr(owner) == text
        if owner_first:
            del owner
            view += 1
            other += 1
            assert np.all(view.numpy() >= 8)
            del view
        else:
            del view
            others = [Float(k) for k in range(9)]
            assert repr(owner) == text and repr(make()[0]) == repr(owner[0])
            assert [each[0] for each in others] == list(range(9))


class Own(Array3f):
    """A type with attributes."""


def test_an_array_that_holds_its_own_component_is_collected() -> None:
    def ends(keep: bool) -> weakref.ref[Own]:
        array = Own([1, 2], 2, 3)
        array.first, array.matrix = array.x, [array.z]  # type: ignore[attr-defined]
        array.first += 1  # type: ignore[attr-defined]
        assert list(array.x) == [2, 3] and array.x is array.first  # type: ignore[attr-defined]
        held.extend([array.y] if keep else [])
        return weakref.ref(array)

    held: list[Any] = []
    reference = ends(False)
    gc.collect()
    assert reference() is None
    reference = ends(True)
    gc.collect()
    held[0] += 5
    assert list(held[0]) == [7] and list(Own(held[0], 1, 1).x) == [7]
    held.clear()
    gc.collect()
    assert reference() is None


class Derived(Array3f):
    """A type of a program, with attributes."""


class DerivedTensor(TensorXf):
    """A type of tensors of a program."""


@pytest.mark.parametrize("make", [
    lambda: Derived(1, 2, 3), lambda: DerivedTensor([[1, 2], [3, 4]])], ids=["nested", "tensor"])
@pytest.mark.parametrize("changed", [False, True])
def test_cycles_through_components_that_their_owner_holds_are_collected(make: Callable[[], Any], changed: bool) -> None:
    references = []
    for _ in range(5):
        owner = make()
        owner.part = owner.array if isinstance(owner, TensorXf) else owner.y
        if changed:
            owner.part += 1
            owner += 2
        references.append(weakref.ref(owner))
        references.append(weakref.ref(owner.part))
        del owner
    gc.collect()
    assert [reference() for reference in references] == [None] * 10
