"""Lists, dictionaries and objects that bodies of loops and branches change: they remain the caller's, as in Python."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Bool, Float, Int, UInt

MODES = ["symbolic", "evaluated"]


def plain(array: Any) -> Any:
    return np.asarray(array).tolist()


@contextlib.contextmanager
def in_mode(mode: str) -> Iterator[None]:
    symbolic = mode == "symbolic"
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, symbolic), \
            dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, symbolic):
        yield


@dataclasses.dataclass
class Data:
    """A data class."""

    n: Any


class Struct:
    """A class that joins PyTrees by its annotation, with an attribute that takes no part."""

    DRJIT_STRUCT = {"n": Int}  # noqa: RUF012

    def __init__(self, n: Any = None) -> None:
        self.n = n
        self.name = "a name"

    def step(self) -> Any:
        self.n = self.n + 1
        return self.n


#: How a container of one array is made, and the key or name of that.
KINDS: dict[str, tuple[Any, Any]] = {
    "list": (lambda n: [n], 0), "dict": (lambda n: {"n": n}, "n"), "data class": (Data, "n"), "struct": (Struct, "n")}


def entry(value: Any, key: Any) -> Any:
    return value[key] if isinstance(value, (list, dict)) else getattr(value, key)


def increase(value: Any, key: Any) -> Any:
    if isinstance(value, (list, dict)):
        value[key] = value[key] + 1
    else:
        setattr(value, key, getattr(value, key) + 1)
    return value


@pytest.mark.parametrize("mode", [*MODES, "scalar"])
@pytest.mark.parametrize("kind", KINDS)
def test_containers_that_a_body_changes_are_the_callers(kind: str, mode: str) -> None:
    make, key = KINDS[kind]
    start, wanted = (2, 5) if mode == "scalar" else (Int(2, 7), [5, 7])
    value = make(start)
    found, = dr.while_loop((value,), lambda value: entry(value, key) < 5, lambda value: (increase(value, key),),
                           mode=mode)
    assert found is value
    assert plain(entry(value, key)) == wanted
    value = make(start)
    found = dr.if_stmt((value,), True if mode == "scalar" else entry(value, key) < 5,
                       lambda value: increase(value, key), lambda value: value, mode=mode)
    assert found is value
    assert plain(entry(value, key)) == (3 if mode == "scalar" else [3, 7])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_containers_that_a_body_makes_are_others(kind: str, mode: str) -> None:
    make, key = KINDS[kind]
    value = make(Int(2, 7))
    found, = dr.while_loop((value,), lambda value: entry(value, key) < 5, lambda value: (make(entry(value, key) + 1),),
                           mode=mode)
    assert (plain(entry(value, key)), plain(entry(found, key))) == ([2, 7], [5, 7])
    found = dr.if_stmt((value,), entry(value, key) < 5, lambda value: make(entry(value, key) + 1), lambda value: value,
                       mode=mode)
    assert (plain(entry(value, key)), plain(entry(found, key))) == ([2, 7], [3, 7])


@pytest.mark.parametrize("mode", MODES)
def test_methods_that_change_their_object(mode: str) -> None:
    @dr.syntax
    def total(self: Struct, count: Any) -> Any:
        found, i = Int(0), Int(0)
        while i < count:
            if found < 5:
                found += self.step()
            i += 1
        return found

    struct = Struct(Int(1, 2, 3))
    with in_mode(mode):
        assert plain(total(struct, Int(1, 2, 3))) == [2, 7, 9]
    assert plain(struct.n) == [2, 4, 5]
    assert struct.name == "a name"


@pytest.mark.parametrize("mode", MODES)
def test_containers_in_several_places_are_one(mode: str) -> None:
    @dr.syntax
    def function(first: Data, count: Any) -> Any:
        second, i = first, Int(0)
        while i < count:
            second.n = second.n + 1
            first.n = first.n * 2
            i += 1
        return second

    data = Data(Int(1, 7))
    with in_mode(mode):
        assert function(data, Int(3, 1)) is data
    assert plain(data.n) == [22, 16]


@pytest.mark.parametrize("mode", MODES)
def test_containers_within_containers(mode: str) -> None:
    inner = Data(Int(1, 7))
    tree = {"a": [inner, Int(3)], "b": (Data(Int(5)), None)}

    @dr.syntax
    def function(tree: Any, count: Any) -> None:
        i = Int(0)
        while i < count:
            if tree["a"][0].n > 2:
                tree["a"][0].n += 1
            else:
                tree["b"][0].n += 2
            i += 1

    with in_mode(mode):
        function(tree, Int(3, 2))
    assert plain(inner.n) == [1, 9]
    assert plain(tree["b"][0].n) == [11, 5]
    assert tree["a"][0] is inner


@pytest.mark.parametrize("mode", MODES)
def test_lists_that_both_sides_make_longer(mode: str) -> None:
    def append(values: list[Any], value: Any) -> list[Any]:
        values.insert(0, value)
        return values

    table, values = dr.zeros(Int, 2), [Int(1, 2)]

    def first(values: list[Any]) -> list[Any]:
        dr.scatter(values[0], Int(10), UInt(0))
        return append(values, Int(3))

    found = dr.if_stmt((values, table), Int(0, 1) > 0, lambda values, table: append(values, table + 5),
                       lambda values, table: append(values, table + 6), mode=mode)
    assert found is values
    assert [plain(value) for value in values] == [[6, 5], [1, 2]]
    values = [Int(1, 2)]
    before = values[0]
    dr.if_stmt((values,), Int(0, 1) > 0, first, lambda values: append(values, Int(4)), mode=mode)
    assert plain(before) == [10, 2]


@pytest.mark.parametrize("mode", MODES)
def test_containers_that_change_places_are_copied(mode: str) -> None:
    first, second = [Int(1, 1)], [Int(5, 5)]
    _, a, b = dr.while_loop((Int(0, 0), first, second), lambda i, a, b: i < Int(1, 2), lambda i, a, b: (i + 1, b, a),
                            mode=mode)
    assert (plain(a[0]), plain(b[0])) == ([5, 1], [1, 5])
    assert (plain(first[0]), plain(second[0])) == ([1, 1], [5, 5])


@pytest.mark.parametrize("mode", MODES)
def test_containers_that_change_places_and_that_the_body_changes(mode: str) -> None:
    """In the first iteration the first list, in the second one the other."""
    def body(i: Any, a: list[Int], b: list[Int]) -> Any:
        a[0] = a[0] + 1
        return i + 1, b, a

    first, second = [Int(1, 1)], [Int(5, 5)]
    _, a, b = dr.while_loop((Int(0, 0), first, second), lambda i, a, b: i < Int(1, 2), body, mode=mode)
    assert (plain(a[0]), plain(b[0])) == ([5, 2], [2, 6])
    assert (plain(first[0]), plain(second[0])) == ([2, 2], [5, 6])


@pytest.mark.parametrize("mode", MODES)
def test_containers_are_as_before_if_a_body_raises(mode: str) -> None:
    def body(values: list[Any]) -> Any:
        values[0] = values[0] + 1
        raise KeyError("stop")

    values = [Int(1, 2)]
    with pytest.raises(KeyError):
        dr.while_loop((values,), lambda values: values[0] < 5, body, mode=mode)
    with pytest.raises(KeyError):
        dr.if_stmt((values,), values[0] < 2, body, lambda values: values, mode=mode)
    assert plain(values[0]) == [1, 2]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives(mode: str, reverse: bool) -> None:
    x = Float(1, 2)
    dr.enable_grad(x)

    def body(values: list[Any]) -> Any:
        values[0] = values[0] * x
        values[1] = values[1] + 1
        return values

    values = [x * 1, UInt(0)]
    found, = dr.while_loop((values,), lambda values: values[1] < 3, body, mode=mode, max_iterations=3)
    assert found is values
    if reverse:
        dr.backward(values[0])
        assert plain(x.grad) == [4, 32]
    else:
        x.grad = 1
        assert plain(dr.forward_to(values[0])) == [4, 32]


class Particle:
    """An object whose methods change it, by what it knows itself."""

    DRJIT_STRUCT = {"x": Float, "v": Float}  # noqa: RUF012

    def __init__(self) -> None:
        self.x, self.v = Float(0, 1), Float(1, 2)

    @dr.syntax
    def run(self, count: Int) -> Any:
        i = Int(0, 0)
        while dr.hint(i < count, max_iterations=8):
            self.x += self.v * self.v
            i += 1
        return self.x

    @dr.syntax
    def double(self, mask: Any) -> Any:
        if mask:
            self.x = self.x * self.v
        return self.x


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_through_methods_that_change_their_object(mode: str, reverse: bool) -> None:
    for method, given, value, derivative in ("run", Int(3, 4), [3, 17], [6, 16]), \
            ("double", dr.llvm.ad.Bool(False, True), [0, 2], [0, 1]):
        particle = Particle()
        dr.enable_grad(particle.v)
        v = particle.v
        with in_mode(mode):
            y = getattr(particle, method)(given)
        particle.x = Float(7, 7)  # later changes of what the construct has set change nothing
        if reverse:
            dr.backward(y)
            assert plain(v.grad) == derivative
        else:
            v.grad = 1
            assert plain(dr.forward_to(y)) == derivative
        assert plain(y) == value and plain(particle.x) == [7, 7]


@pytest.mark.parametrize("mode", MODES)
def test_derivatives_of_functions_that_know_what_the_construct_changes(mode: str) -> None:
    """It is one object, whether they are given it or know it: they see what they have made of it."""
    particle, numbers = Particle(), [Float(1, 1)]
    dr.enable_grad(particle.v)
    v = particle.v

    def body(i: Int, other: Particle, values: list[Float]) -> Any:
        other.x = other.x + (particle.x + numbers[0]) * other.v
        values.append(Float(5, 5))
        return i + 1, other, values[:1]

    _, found, rest = dr.while_loop((Int(0, 0), particle, numbers),
                                   lambda i, other, values: i < 3 + 0 * Int(particle.x), body, mode=mode,
                                   max_iterations=8)
    assert found is particle and plain(particle.x) == [7, 53]  # x + 1 has become (x + 1) * (v + 1) ** 3
    assert len(rest) == 1 and [plain(value) for value in numbers] == [[1, 1], [5, 5]]
    dr.backward(particle.x)
    assert plain(v.grad) == [12, 54]
    assert plain(particle.x) == [7, 53] and plain(numbers[0]) == plain(rest[0]) == [1, 1]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("both", [True, False])
def test_entries_that_sides_add_to_an_argument(both: bool, mode: Any) -> None:
    """What only some elements would have is refused; returned or not."""
    def add(entries: dict[str, Any], factor: int) -> None:
        entries["b"] = entries["a"] * factor

    for returned in (True, False):
        def yes(entries: dict[str, Any]) -> Any:
            add(entries, 2)
            return entries if returned else None  # noqa: B023

        def no(entries: dict[str, Any]) -> Any:
            if both:
                add(entries, 3)
            return entries if returned else None  # noqa: B023

        entries = {"a": UInt(1, 2)}
        if both:
            dr.if_stmt((entries,), Bool(True, False), yes, no, mode=mode)
            assert list(entries) == ["a", "b"] and list(entries["b"]) == [2, 6]
        else:
            with pytest.raises(RuntimeError, match="structure"):
                dr.if_stmt((entries,), Bool(True, False), yes, no, mode=mode)
            assert list(entries) == ["a"]


@pytest.mark.parametrize("mode", MODES)
def test_objects_that_know_each_other_are_looked_at_once(mode: str) -> None:
    class Node:
        array: Any = None

    nodes = [Node() for _ in range(24)]  # of which there are more paths than anybody could follow
    for node in nodes:
        vars(node).update({f"to{number}": other for number, other in enumerate(nodes)})
    holder = Node()
    holder.array = nodes[0]

    def change(x: Any) -> Any:
        holder.array = nodes[1]
        return x + 1

    found = dr.if_stmt((UInt(0, 1),), Bool(True, False), change, lambda x: x, mode=mode)
    assert plain(found) == [1, 1]
    assert holder.array is nodes[1]


def test_arrays_deep_within_objects_are_found() -> None:
    class Link:
        def __init__(self, content: Any) -> None:
            self.content = content

    chains = []
    for _ in range(2):
        chain: Any = Float(1, 2)
        for _ in range(20):
            chain = Link(chain)
        chains.append(chain)
    holder = Link(chains[0])

    def change(x: Any) -> Any:
        holder.content = chains[1]
        return x

    with pytest.raises(Exception, match="another object"):
        dr.if_stmt((UInt(0, 1),), Bool(True, False), change, lambda x: x, mode="symbolic")


#: What programs put arrays in beside lists: made of some entries, and the place of the second of two.
SEQUENCES: dict[str, tuple[Any, Any]] = {
    "queue": (collections.deque, 1),
    "user list": (collections.UserList, 1),
    "NumPy array": (lambda entries: objects((2,), entries), 1),
    "table": (lambda entries: objects((1, 2), entries), (0, 1))}


def objects(shape: tuple[int, ...], entries: list[Any]) -> Any:
    found = np.empty(shape, object)
    for place, entry in zip(np.ndindex(shape), entries, strict=True):
        found[place] = entry
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", SEQUENCES)
def test_functions_put_arrays_in_sequences(kind: str, mode: str) -> None:
    make, place = SEQUENCES[kind]
    sequence = make([None, UInt(1, 2)])

    def multiply(x: Any) -> Any:
        sequence[place] = sequence[place] * 10
        return x

    def add(x: Any) -> Any:
        sequence[place] += 5
        return x

    with in_mode(mode):
        dr.if_stmt((UInt(0, 0),), Bool(True, False), multiply, add)
        assert plain(sequence[place]) == [10, 7]
        dr.while_loop((UInt(0, 1),), lambda i: i < 3, lambda i: (i + 1, multiply(i))[:1])
    assert plain(sequence[place]) == [10000, 700]


@pytest.mark.parametrize("mode", MODES)
def test_functions_rotate_queues(mode: str) -> None:
    queue = collections.deque([UInt(1, 2), UInt(3, 4), UInt(5, 6)], 3)

    def rotate(x: Any) -> Any:
        queue.append(queue[0] + x)
        return x

    with in_mode(mode):
        dr.if_stmt((UInt(1, 1),), Bool(True, False), rotate, lambda x: x)
    assert [plain(entry) for entry in queue] == [[3, 2], [5, 4], [2, 6]]
