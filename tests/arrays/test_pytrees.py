"""PyTrees: every function that takes them, with every kind of container."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import drjit as dr
from drjit.llvm import PCG32, Array3f, Bool, Float, Int, Philox4x32, TensorXf, UInt


@dataclasses.dataclass
class Data:
    x: Any = None
    y: Any = None
    kind: ClassVar[str] = "not a field"


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any
    y: Any
    size: int = dataclasses.field(init=False, default=2)


class Struct:
    DRJIT_STRUCT: ClassVar[dict[str, type]] = {"x": Float, "y": Int}

    def __init__(self) -> None:
        self.x, self.y, self.note = Float(), Int(), "default"


class Foreign:
    """Joins by protocol; its constructor needs an argument."""

    def __init__(self, content: list[Any]) -> None:
        self.content = content

    def __drjit_children__(self) -> dict[str, Any]:
        return {"first": self.content[0], "second": self.content[1]}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Foreign:
        return Foreign([children["first"], children["second"]])


def struct(x: Any, y: Any) -> Struct:
    result = Struct()
    result.x, result.y = x, y
    return result


#: Makes a container of two things, and takes them out again.
CONTAINERS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], tuple[Any, Any]]]] = {
    "list": (lambda x, y: [x, y], tuple),
    "tuple": (lambda x, y: (x, y), tuple),
    "dict": (lambda x, y: {"x": x, 3: y}, lambda tree: (tree["x"], tree[3])),
    "nested": (lambda x, y: [{"a": (x, "text")}, [[y], None]], lambda tree: (tree[0]["a"][0], tree[1][0][0])),
    "data class": (Data, lambda tree: (tree.x, tree.y)),
    "frozen data class": (Frozen, lambda tree: (tree.x, tree.y)),
    "struct": (struct, lambda tree: (tree.x, tree.y)),
    "protocol": (lambda x, y: Foreign([x, y]), lambda tree: tuple(tree.content)),
    "protocol in a data class": (lambda x, y: Data([Foreign([x, 1.5])], {"y": y}),
                                 lambda tree: (tree.x[0].content[0], tree.y["y"])),
}
container = pytest.mark.parametrize(("make", "take"), CONTAINERS.values(), ids=CONTAINERS.keys())


def arrays() -> tuple[Float, Int]:
    return Float(1, 2, 3) + 0.5, Int(10, 20, 30) * 2


#: Functions that return a structure like their argument's, and the text of its arrays.
RESULTS: dict[str, tuple[Callable[[Any, Any], Any], tuple[str, str]]] = {
    "copy": (lambda tree, _: dr.copy(tree), ("[1.5, 2.5, 3.5]", "[20, 40, 60]")),
    "zeros_like": (lambda tree, _: dr.zeros_like(tree), ("[0, 0, 0]", "[0, 0, 0]")),
    "ones_like": (lambda tree, _: dr.ones_like(tree), ("[1, 1, 1]", "[1, 1, 1]")),
    "gather": (lambda tree, _: dr.gather(type(tree), tree, UInt(2, 0)), ("[3.5, 1.5]", "[60, 20]")),
    "select": (lambda tree, other: dr.select(Bool(True, False, True), tree, other), ("[1.5, 0, 3.5]", "[20, 7, 60]")),
    "select all": (lambda tree, other: dr.select(False, tree, other), ("[0, 0, 0]", "[7, 7, 7]")),
    "reshape": (lambda tree, _: dr.reshape(tree, 2, shrink=True), ("[1.5, 2.5]", "[20, 40]")),
    "while_loop": (lambda tree, _: dr.while_loop((tree, UInt(0, 0, 0)), lambda tree, i: i < 3,
                                                 lambda tree, i: (tree, i + 1))[0],
                   ("[1.5, 2.5, 3.5]", "[20, 40, 60]")),
}


@container
@pytest.mark.parametrize(("function", "texts"), RESULTS.values(), ids=RESULTS.keys())
def test_results_have_the_structure_of_the_argument(make, take, function, texts) -> None:
    before = make(*arrays())
    after = function(before, make(Float(0, 0, 0), Int(7, 7, 7)))
    assert type(after) is type(before)
    assert after is not before or function in (RESULTS["select all"][0], RESULTS["while_loop"][0])
    x, y = take(after)
    assert (type(x), type(y)) == (Float, Int)
    assert (repr(x), repr(y)) == texts
    assert [repr(array) for array in take(before)] == ["[1.5, 2.5, 3.5]", "[20, 40, 60]"]


@container
def test_evaluation(make, take) -> None:
    tree = make(*arrays())
    assert dr.width(tree) == 3
    assert dr.schedule(tree)
    assert [array.state for array in take(tree)] == [dr.VarState.Unevaluated] * 2
    assert dr.eval(tree)
    assert [array.state for array in take(tree)] == [dr.VarState.Evaluated] * 2
    assert not dr.eval(tree)
    literals = make(Float(1), Int(2))
    assert not dr.eval(literals)
    dr.make_opaque(literals)
    assert [array.state for array in take(literals)] == [dr.VarState.Evaluated] * 2
    assert [repr(array) for array in take(literals)] == ["[1]", "[2]"]


@container
def test_writes(make, take) -> None:
    target = make(Float(1, 2, 3), Int(4, 5, 6))
    dr.scatter(target, make(Float(0), Int(0)), UInt(1))
    dr.scatter_add(target, make(Float(5), Int(6)), UInt(2))
    dr.scatter_reduce(dr.ReduceOp.Max, target, make(Float(9), Int(0)), UInt(0))
    assert [repr(array) for array in take(target)] == ["[9, 0, 8]", "[4, 0, 12]"]


@container
def test_labels_and_text(make, take) -> None:
    tree = make(*arrays())
    dr.set_label(tree, "root")
    labels = [array.label for array in take(tree)]
    assert len(set(labels)) == 2
    assert all(label.startswith("root_") for label in labels)
    text = dr.format(tree)
    assert "[1.5, 2.5, 3.5]" in text
    assert "[20, 40, 60]" in text


@pytest.mark.parametrize(("make", "labels"), [
    (CONTAINERS["list"][0], ["root_0", "root_1"]), (CONTAINERS["dict"][0], ["root_x", "root_3"]),
    (Data, ["root_x", "root_y"]), (struct, ["root_x", "root_y"]),
    (CONTAINERS["protocol"][0], ["root_first", "root_second"]),
])
def test_labels_are_made_of_positions_keys_and_fields(make, labels) -> None:
    x, y = arrays()
    dr.set_label(make(x, y), "root")
    assert [x.label, y.label] == labels


# --- what fails, and changes nothing ---------------------------------------------------------------------------------


def cyclic() -> list[Any]:
    loop: list[Any] = [Float(1, 2) + 1]
    loop.append({"deeper": Data(loop)})
    return loop


CYCLIC: dict[str, Callable[[Any], Any]] = {
    "eval": dr.eval, "schedule": dr.schedule, "make_opaque": dr.make_opaque, "width": dr.width, "copy": dr.copy,
    "zeros_like": dr.zeros_like, "set_label": lambda tree: dr.set_label(tree, "name"), "format": dr.format,
    "print": dr.print, "select": lambda tree: dr.select(Bool(True, False), tree, tree),
    "gather": lambda tree: dr.gather(list, tree, UInt(0)), "scatter": lambda tree: dr.scatter(tree, tree, UInt(0)),
    "scatter_add": lambda tree: dr.scatter_add(tree, tree, UInt(0)),
    "reshape": lambda tree: dr.reshape(tree, 1, shrink=True),
    "while_loop": lambda tree: dr.while_loop((tree,), lambda tree: tree[0] < 0, lambda tree: (tree,)),
}


@pytest.mark.parametrize("function", CYCLIC.values(), ids=CYCLIC.keys())
def test_structures_that_contain_themselves(function) -> None:
    loop = cyclic()
    with pytest.raises(RecursionError, match="contains itself"):
        function(loop)
    assert loop[0].state is dr.VarState.Unevaluated or function in (dr.format, dr.print)
    assert loop[0].label is None


def test_one_object_in_two_places_is_no_cycle() -> None:
    shared = [Float(1, 2)]
    tree = dr.copy([shared, shared])
    assert repr(tree) == "[[[1, 2]], [[1, 2]]]"
    assert tree[0] is not tree[1]


@container
def test_failing_writes_change_nothing(make, take) -> None:
    target = make(Float(1, 2, 3), Int(4, 5, 6))
    with pytest.raises(TypeError):
        dr.scatter(target, make(Float(9), Float(0.5)), UInt(1))  # the second entry has another type
    with pytest.raises((TypeError, RuntimeError)):
        dr.scatter(target, [Float(9)], UInt(1))
    assert [repr(array) for array in take(target)] == ["[1, 2, 3]", "[4, 5, 6]"]


def test_structures_that_differ() -> None:
    with pytest.raises(RuntimeError, match=r"the structures of the arguments differ at \[1\]: found dict with the "):
        dr.select(Bool(True, False), [Float(1), {"a": Float(2)}], [Float(1), {"b": Float(2)}])
    with pytest.raises(TypeError, match="found list and tuple"):
        dr.scatter([[Float(1, 2)]], [(Float(1, 2),)], UInt(0))


# --- leaves ----------------------------------------------------------------------------------------------------------


def test_subclasses_of_containers_are_containers() -> None:
    pair = collections.namedtuple("pair", "x y")(Float(1, 2) + 1, 3)
    ordered = collections.OrderedDict(x=Float(1, 2) + 3)
    for tree in (pair, ordered):
        assert dr.width(tree) == 2
        assert dr.eval(tree)
        copy = dr.copy([tree])[0]
        assert copy is not tree and type(copy) is type(tree)
    assert pair.x.state is dr.VarState.Evaluated


def test_other_objects_are_passed_on() -> None:
    thing = object()
    tree = dr.copy([thing, None, "text", 1, 2.5, Float, {1: (thing,)}])
    assert tree == [thing, None, "text", 1, 2.5, Float, {1: (thing,)}]
    assert dr.select(Bool(True), [thing, "text"], [thing, "text"]) == [thing, "text"]


def test_attributes_without_annotation_get_their_defaults() -> None:
    value = struct(Float(1), Int(2))
    value.note = "changed"
    assert dr.copy(value).note == "default"
    assert dr.copy(Frozen(1, 2)) == Frozen(1, 2)


# --- creation --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Ray:
    origin: Array3f
    hits: Bool
    scale: float
    name: str = "ray"


@dataclasses.dataclass(frozen=True)
class Scene:
    ray: Ray
    generator: PCG32
    image: TensorXf | None = None


@pytest.mark.parametrize("shape", [4, (4,), [4]])
def test_creation_of_classes(shape) -> None:
    ray = dr.ones(Ray, shape)
    assert ray.origin.shape == (3, 4)
    assert repr(ray.hits) == "[True, True, True, True]"
    assert (ray.scale, ray.name) == (1.0, "ray")
    scene = dr.zeros(Scene, shape)
    assert scene.ray.origin.shape == (3, 4)
    assert scene.image is None
    assert repr(scene.generator.state) == "[0, 0, 0, 0]"
    assert repr(dr.full(Ray, 2, shape).origin.z) == "[2, 2, 2, 2]"
    assert dr.opaque(Ray, 1, shape).origin.state is dr.VarState.Evaluated
    assert dr.empty(Ray, shape).hits.shape == (4,)


def test_annotations_that_cannot_be_resolved() -> None:
    source = "from __future__ import annotations\nimport dataclasses\n" \
             "@dataclasses.dataclass\nclass Strange:\n    x: Missing = None\n"
    namespace: dict[str, Any] = {"__name__": __name__}
    exec(source, namespace)
    with pytest.raises(TypeError, match="no name 'Missing'"):
        dr.zeros(namespace["Strange"], 2)
    value = dr.copy(namespace["Strange"](Float(1)))  # the types are not needed here
    assert repr(value.x) == "[1]"


def test_classes_that_need_arguments() -> None:
    class Needy:
        DRJIT_STRUCT: ClassVar[dict[str, type]] = {"x": Float}

        def __init__(self, x: Float) -> None:
            self.x = x

    with pytest.raises(TypeError, match="must be constructible without arguments"):
        dr.copy(Needy(Float(1)))
    with pytest.raises(TypeError, match="must be constructible without arguments"):
        dr.zeros(Needy, 2)


def test_data_classes_that_need_more_than_their_fields() -> None:
    @dataclasses.dataclass
    class Scaled:
        x: Any
        scale: dataclasses.InitVar[float]

        def __post_init__(self, scale: float) -> None:
            if scale < 0:
                raise TypeError("negative")

    @dataclasses.dataclass
    class Strict:
        x: Any

        def __post_init__(self) -> None:
            if not isinstance(self.x, int):
                raise TypeError("no int")

    message = r"Scaled: data classes in PyTrees must be constructible with their fields alone \(missing .*'scale'\)"
    for function in (dr.copy, dr.detach, dr.grad, lambda value: dr.gather(Scaled, value, UInt(0))):
        with pytest.raises(TypeError, match=message):
            function(Scaled(Float(1), 2.0))
    strict = Strict(0)
    strict.x = Float(1)
    with pytest.raises(TypeError, match=r"^no int$"):  # what the class has to say
        dr.copy(strict)


# --- generators ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: PCG32(3), lambda: Philox4x32(5, UInt(1, 2, 3) + 4)])
def test_generators_are_structures(make) -> None:
    def draw(generator: Any) -> Any:
        return generator.next_uint32() if isinstance(generator, PCG32) else generator.next_uint32x4()

    rng = make()
    assert dr.width(rng) == 3
    same = dr.copy(rng)
    assert type(same) is type(rng)
    assert repr(draw(same)) == repr(draw(make()))
    assert repr(draw(rng)) == repr(draw(make()))
    before = repr(draw(dr.copy(rng)))
    dr.eval(rng)
    assert not dr.eval(rng)
    assert repr(draw(dr.copy(rng))) == before
    dr.make_opaque(rng)
    assert repr(draw(dr.copy(rng))) == before
    part = dr.gather(type(rng), rng, UInt(2))
    assert dr.width(part) == 1
    if isinstance(rng, PCG32):
        assert list(draw(part)) == list(draw(rng))[2:]
    else:
        assert [list(entry) for entry in draw(part)] == [list(entry)[2:] for entry in draw(rng)]


def test_generators_are_state_of_loops() -> None:
    def body(rng: PCG32, total: Float, i: UInt) -> tuple[PCG32, Float, UInt]:
        total = total + rng.next_float32()
        return rng, total, i + 1

    rng = PCG32(100)
    _, total, _ = dr.while_loop((rng, dr.zeros(Float, 100), UInt(0)), lambda rng, total, i: i < 10, body)
    expected, other = Float(0), PCG32(100)
    for _ in range(10):
        expected = expected + other.next_float32()
    assert dr.all(total == expected)
