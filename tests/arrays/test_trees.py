"""Structures of PyTrees: taking apart, rebuilding, comparing, hashing, and the names of places in messages."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import drjit as dr
from drjit._trees.pytree import Difference, collect_nodes, flatten, flatten_nodes, leaves
from drjit.llvm import PCG32, Array3f, ArrayXf, Bool, Complex2f, Float, Int, Matrix2f, TensorXf, UInt
from drjit.scalar import Array3f as ScalarArray3f


@dataclasses.dataclass
class Ray:
    origin: Any = None
    scale: Any = None


class Struct:
    DRJIT_STRUCT: ClassVar[dict[str, type]] = {"x": Float, "y": Int}

    def __init__(self) -> None:
        self.x, self.y = Float(), Int()


class Foreign:
    """Joins by protocol; its constructor needs an argument."""

    def __init__(self, content: dict[Any, Any], note: str = "") -> None:
        self.content, self.note = content, note

    def __drjit_children__(self) -> dict[Any, Any]:
        return dict(self.content)

    def __drjit_rebuild__(self, children: dict[Any, Any]) -> Foreign:
        return Foreign(children, self.note)


def tensor(*shape: int) -> TensorXf:
    return dr.reshape(dr.arange(TensorXf, dr.prod(shape) if shape else 1), shape)


#: Structures, and the places of their leaves.
TREES: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "array": (lambda: Float(1, 2), ["s"]),
    "number": (lambda: 3, ["s"]),
    "nested array": (lambda: Array3f(1, 2, 3), ["s"]),
    "scalar array": (lambda: ScalarArray3f(1, 2, 3), ["s"]),
    "dynamic array": (lambda: ArrayXf(1, 2), ["s"]),
    "tensor": (lambda: tensor(2, 3), ["s"]),
    "empty list": (list, []),
    "list": (lambda: [Float(1), 2, [Int(3)]], ["s[0]", "s[1]", "s[2][0]"]),
    "tuple": (lambda: (Float(1), (Int(3),)), ["s[0]", "s[1][0]"]),
    "dict": (lambda: {"a": Float(1), 3: {"b": Int(3)}}, ["s['a']", "s[3]['b']"]),
    "data class": (lambda: Ray(Array3f(1), Ray(Float(2), None)), ["s.origin", "s.scale.origin", "s.scale.scale"]),
    "struct": (Struct, ["s.x", "s.y"]),
    "protocol": (lambda: Foreign({"x": Float(1), 0: [Int(1)]}, "note"), ["s.x", "s[0][0]"]),
    "generator": (lambda: PCG32(3), ["s.state", "s.inc"]),
}
tree = pytest.mark.parametrize(("make", "places"), TREES.values(), ids=TREES.keys())


@tree
def test_a_structure_is_rebuilt_from_its_leaves(make, places) -> None:
    value = make()
    found, spec = flatten(value, "f")
    again = spec.rebuild(found)
    assert type(again) is type(value)
    found_again, spec_again = flatten(again, "f")
    assert all(a is b for a, b in zip(found, found_again, strict=True))
    assert spec_again == spec
    assert hash(spec_again) == hash(spec)
    assert spec.difference(spec_again) is None
    assert found == leaves(value, "f") or all(a is b for a, b in zip(found, leaves(value, "f"), strict=True))
    if isinstance(value, Foreign):
        assert again.note == "note"


@tree
def test_a_structure_is_rebuilt_from_its_nodes(make, places) -> None:
    value = make()
    nodes, found, spec = flatten_nodes(value, "f")
    again = spec.rebuild_nodes(nodes, found)
    assert dr.format(again) == dr.format(value) or type(value) is Foreign
    assert collect_nodes([value], "f") == nodes
    nodes_again, found_again, spec_again = flatten_nodes(again, "f")
    assert nodes_again == nodes
    assert spec_again == spec
    for old, new in zip(found, found_again, strict=True):
        assert old is new if not hasattr(old, "_nodes") or not old._dynamic else old is not new


@tree
def test_places_are_written_as_in_a_program(make, places) -> None:
    value = make()
    found, spec = flatten(value, "f")
    assert spec.paths("s") == places
    for place, leaf in zip(places, found, strict=True):
        if not isinstance(value, (Foreign, PCG32)):
            assert eval(place, {"s": value}) is leaf
    assert len(spec.key_paths()) == len(places)


def test_structures_are_told_apart() -> None:
    specs = {flatten(make(), "f")[1] for make, _ in TREES.values()}
    assert len(specs) == len(TREES)
    specs |= {flatten(make(), "f")[1] for make, _ in TREES.values()}
    assert len(specs) == len(TREES)


@pytest.mark.parametrize(("value", "names"), [
    (Float(1), ["s"]), (Array3f(1), ["s.x", "s.y", "s.z"]), (Complex2f(1), ["s.real", "s.imag"]),
    (Matrix2f(1), ["s[0][0]", "s[0][1]", "s[1][0]", "s[1][1]"]), (ArrayXf(1, 2), ["s.x", "s.y"]),
    (ArrayXf(1, 2, 3, 4, 5), [f"s[{k}]" for k in range(5)]), ([2, TensorXf(1)], ["s[1]"]),
    ([ScalarArray3f(1)], []),
])
def test_names_of_components(value, names) -> None:
    nodes, _, spec = flatten_nodes(value, "f")
    assert spec.node_paths("s") == names
    assert len(nodes) == len(names)


@pytest.mark.parametrize(("first", "second", "expected"), [
    (Float(1), Int(1), ("s", "type", "drjit.llvm.Float", "drjit.llvm.Int")),
    (Float(1), 1.0, ("s", "type", "drjit.llvm.Float", "float")),
    ([1, (Float(1),)], [1, [Float(1)]], ("s[1]", "type", "tuple", "list")),
    ([1], [1, 2], ("s", "length", "1", "2")),
    ({"k": (1, 2)}, {"k": (1,)}, ("s['k']", "length", "2", "1")),
    ({"a": 1}, {"b": 1}, ("s", "keys", "['a']", "['b']")),
    ({"a": 1}, {"a": 1, "b": 2}, ("s", "keys", "['a']", "['a', 'b']")),
    (Ray(tensor(2, 3)), Ray(tensor(3, 2)), ("s.origin", "shape", "(2, 3)", "(3, 2)")),
    ([tensor(4)], [tensor(4, 1)], ("s[0]", "shape", "(4,)", "(4, 1)")),
    (Ray(1, ArrayXf(1, 2)), Ray(1, ArrayXf(1, 2, 3)), ("s.scale", "number of components", "2", "3")),
    (Ray(Ray(Float(1))), Ray(Ray(None)), ("s.origin.origin", "type", "drjit.llvm.Float", "NoneType")),
    (Foreign({"x": 1}), Foreign({"x": 1.0}), ("s.x", "type", "int", "float")),
    (Foreign({"x": 1}), Foreign({"y": 1}), ("s", "keys", "['x']", "['y']")),
    ({"a": 1, "b": 2.0}, {"b": 2, "a": 1}, ("s['b']", "type", "float", "int")),
])
def test_differences_name_the_place(first, second, expected) -> None:
    a, b = (flatten(value, "f")[1] for value in (first, second))
    assert a != b
    assert a.difference(b, "s") == Difference(*expected)


def test_the_order_of_keys_counts_for_equality_only() -> None:
    first, second = {"a": Float(1), "b": [Int(2), "x"]}, {"b": [Int(3), "y"], "a": Float(4)}
    (_, a), (found, b) = (flatten(value, "f") for value in (first, second))
    assert a != b
    assert a.difference(b) is None
    aligned = a.aligned(b, found)
    assert aligned == [second["a"], second["b"][0], "y"]
    assert list(a.rebuild(aligned)) == ["a", "b"]


def test_widths_and_values_are_no_part_of_a_structure() -> None:
    assert flatten([Float(1), 2], "f")[1] == flatten([Float(1, 2, 3), 5], "f")[1]


@pytest.mark.parametrize(("children", "message"), [
    (lambda self: [1, 2], r"Broken\.__drjit_children__\(\) must return a dictionary of children, found list"),
    (lambda self: {"x": Float(1)}, r"has a method __drjit_children__\(\), but no __drjit_rebuild__\(children\)"),
])
def test_classes_that_join_halfway(children, message) -> None:
    cls = type("Broken", (), {"__drjit_children__": children})
    with pytest.raises(TypeError, match=message):
        dr.copy([cls()])


# --- functions that traverse, on foreign arrays ----------------------------------------------------------------------


def foreign() -> Foreign:
    return Foreign({"x": Float(1, 2, 3) + 1, "rest": [Array3f(1) + 1, "text"]})


def test_foreign_arrays_are_evaluated() -> None:
    value = foreign()
    assert dr.width(value) == 3
    assert dr.schedule(value)
    assert dr.eval([value])
    assert value.content["x"].state is dr.VarState.Evaluated
    assert not dr.schedule(value)
    literal = Foreign({"x": Float(5)})
    dr.make_opaque(literal)
    assert literal.content["x"].state is dr.VarState.Evaluated


def test_foreign_arrays_are_copied() -> None:
    value = foreign()
    again = dr.copy(value)
    again.content["x"] += 1
    again.content["rest"][0].x += 1
    assert repr(value.content["x"]) == "[2, 3, 4]"
    assert repr(value.content["rest"][0]) == "[[2, 2, 2]]"
    assert repr(again.content["x"]) == "[3, 4, 5]"


def test_make_opaque_changes_nothing_if_it_fails() -> None:
    value = [Float(1), Int(0)]

    def body(i: Int) -> tuple[Int]:
        value[1] = i
        with pytest.raises(RuntimeError, match="symbolic"):
            dr.make_opaque(value)
        return (i + 1,)

    dr.while_loop((Int(0),), lambda i: i < 3, body)
    assert value[0].state is dr.VarState.Literal


@pytest.mark.parametrize("function", [dr.eval, dr.schedule, dr.make_opaque, dr.width, dr.copy])
def test_what_holds_no_array_is_ignored(function) -> None:
    assert function(3) in (False, None, 1, 3)
    assert function(()) in (False, None, 1, ())


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ((1.5, 3, lambda i: i < 2), TypeError, "'start' must be an int, found float"),
    ((1, None, lambda i: i < 2), TypeError, "'end' must be an int, found NoneType"),
    ((1, 3, 2), TypeError, "'pred' must be a function, found int"),
    ((1, 3, lambda i: Float(1)), TypeError, r"'pred' must return a mask or a bool, found drjit\.llvm\.Float"),
])
def test_bad_arguments_of_binary_search(arguments, error, message) -> None:
    with pytest.raises(error, match=message):
        dr.binary_search(*arguments)


@pytest.mark.parametrize(("start", "end"), [(0, 0), (3, 1), (0, 1), (0, 10), (-5, 7), (2, 9)])
@pytest.mark.parametrize("limit", [-10, 0, 3, 9, 20])
def test_binary_search_agrees_with_a_linear_one(start: int, end: int, limit: int) -> None:
    expected = next((k for k in range(start, end) if k >= limit), max(start, end) if end > start else start)
    assert dr.binary_search(start, end, lambda k: k < limit) == expected
    found = dr.binary_search(start, end, lambda k: Int(limit, limit + 1) > k)
    assert (found if isinstance(found, int) else found[0]) == expected


def test_exceptions_of_predicates_pass_through() -> None:
    with pytest.raises(ZeroDivisionError):
        dr.binary_search(0, 4, lambda k: Bool(1 // 0))


@pytest.mark.parametrize(("value", "message"), [
    ([Float(1, 2), Float(1, 2, 3)], r"drjit\.width\(\): the input is ragged .* found the sizes 2, 3"),
    ({"a": UInt(1, 2), "b": [UInt()]}, r"found the sizes 0, 2"),
])
def test_widths_that_do_not_go_together(value, message) -> None:
    with pytest.raises(RuntimeError, match=message):
        dr.width(value)


def test_specs_from_another_process_have_the_hash_of_this_one() -> None:
    spec = flatten({"a": Float(1)}, "test")[1]
    assert hash(spec)
    state = pickle.dumps(spec)
    found = pickle.loads(state)
    assert found == spec and hash(found) == hash(spec)
    assert b"_hash" not in state and str(hash(spec)).encode() not in pickle.dumps(spec, 0)
