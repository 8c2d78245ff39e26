"""What calls return and change: whether the compiler knows the index, or how many elements there are, is no part of it.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

import drjit as dr
from drjit.llvm import Array3f, Float, TensorXf, UInt

MODES: list[Any] = ["symbolic", "evaluated"]
#: Indices of three elements: known, known to be one for all, equal by chance, of some elements, of several functions.
INDICES: dict[str, Callable[[], UInt]] = {
    "number": lambda: UInt(0), "literal": lambda: dr.zeros(UInt, 3), "one": lambda: dr.opaque(UInt, 0),
    "equal": lambda: UInt(0, 0, 0), "out of range": lambda: UInt(0, 7, 0), "several": lambda: UInt(0, 1, 0)}


def returned(x: Float, entries: list[Float]) -> Any:
    return x, entries, x


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index", INDICES)
def test_results_are_new_however_much_is_known_of_the_index(index: str, mode: Any) -> None:
    """Elements that take no function have zeros there, which the caller's arrays have not."""
    x, y = Float(1, 2, 3), Float(4, 5, 6)
    entries = [y]
    first, second, third = dr.switch(INDICES[index](), [returned, returned], x, entries, mode=mode)
    assert first is not x and third is first  # as one array as it was
    assert second is not entries and second[0] is not y
    first += 10
    second[0] += 10
    assert list(x) == [1, 2, 3] and list(y) == [4, 5, 6] and entries[0] is y


@pytest.mark.parametrize("mode", MODES)
def test_results_of_a_call_of_one_element_have_all_elements(mode: Any) -> None:
    assert list(dr.switch(dr.opaque(UInt, 0), [lambda x: x], Float(1, 2, 3), mode=mode)) == [1, 2, 3]


def test_a_function_that_a_number_chooses_is_called_as_any_other() -> None:
    x, entries = Float(1, 2, 3), [Float(4, 5, 6)]
    found = dr.switch(0, [returned], x, entries)
    assert found[0] is x and found[1] is entries


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("targets", [1, 2])
def test_a_place_of_elements_that_take_no_function_holds_what_it_held(targets: int, mode: Any) -> None:
    """Also if all functions put the same array there, or there is one function."""
    seven = Float(7, 7, 7)

    def put(entries: list[Float], box: dict[str, Any]) -> int:
        entries[0] = entries[0] + 10
        box["a"] = seven
        box["b"] = [seven]
        return 0

    entries = [Float(1, 2, 3)]
    box: dict[str, Any] = {"a": Float(1, 2, 3), "b": [Float(4, 5, 6)]}
    dr.switch(UInt(0, 7, targets - 1), [put] * targets, entries, box, mode=mode)
    assert list(entries[0]) == [11, 2, 13]
    assert list(box["a"]) == [7, 2, 7] and list(box["b"][0]) == [7, 5, 7] and list(seven) == [7, 7, 7]


def test_an_evaluated_call_of_arrays_of_one_element_runs_once() -> None:
    """They are the caller's own, which a function need not be given by being called once more."""
    sums, out = dr.zeros(UInt, 3), io.StringIO()

    def add(lane: UInt, v: Any, entries: list[UInt]) -> Any:
        def body(i: UInt) -> Any:
            dr.scatter_add(sums, UInt(1), lane)
            dr.print("{}", lane, file=out)
            return (i + 1,)

        dr.while_loop((lane & 0,), lambda i: i < 1, body, mode="evaluated")
        v.x += 1
        entries[0] += 1
        return lane

    v: Any = Array3f(1, 2, 3)
    entries = [UInt(5)]
    dr.switch(dr.arange(UInt, 3) % 2, [add], dr.arange(UInt, 3), v, entries, mode="evaluated")
    dr.eval(sums)
    assert list(sums) == [1, 0, 1] and out.getvalue() == "[0, 2]\n"
    assert list(v.x) == [2, 1, 2] and list(entries[0]) == [6, 5, 6]


def grow_outside(array: Any, x: Any) -> Any:
    array += 1
    return x * 2


def grow_argument(array: Any, x: Any) -> Any:
    x += 1
    return array * 2


def add_both(array: Any, x: Any) -> Any:
    return array + x


def read_at(array: Any, x: Any) -> Any:
    return x + dr.gather(Float, array, UInt(3))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", [grow_outside, grow_argument, add_both, read_at])
def test_targets_that_find_an_argument_elsewhere_are_called_once(function: Callable[..., Any], mode: Any) -> None:
    array, calls = Float(1, 2, 3, 4), list[int]()

    def target(x: Any) -> Any:
        calls.append(1)
        return function(array, x)

    found = dr.switch(UInt(0, 1, 0, 1), [target, lambda x: x], array, mode=mode)
    changes = function in (grow_outside, grow_argument)
    assert list(array) == ([2, 2, 4, 4] if changes else [1, 2, 3, 4])
    assert list(found) == {grow_outside: [4, 2, 8, 4], grow_argument: [4, 2, 8, 4], add_both: [2, 2, 6, 4],
                           read_at: [5, 2, 7, 4]}[function]
    assert len(calls) == 1


def test_targets_that_change_an_argument_and_rely_on_all_its_elements() -> None:
    """An evaluated call gives the target some elements, of which the change would be missing in all."""
    array, other = Float(1, 2, 3, 4), Float(10, 20, 30, 40)

    def target(x: Any) -> Any:
        x += 1
        return array + other

    with pytest.raises(RuntimeError, match=r"'targets\[0\]' changes the argument 'args\[0\]' in place"):
        dr.switch(UInt(0, 1, 0, 1), [target, lambda x: x], array, mode="evaluated")
    assert list(array) == [1, 2, 3, 4]
    found = dr.switch(UInt(0, 1, 0, 1), [target, lambda x: x], array, mode="symbolic")
    assert list(found) == [12, 2, 34, 4] and list(array) == [2, 2, 4, 4]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index", [(0, 1, 1, 1), (0, 1, 0, 1)])
@pytest.mark.parametrize("given", ["the tensor", "its array twice", "both"])
@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_tensors_of_which_targets_are_given_some_elements(shape: tuple[int, ...], given: str, index: tuple[int, ...],
                                                          mode: Any) -> None:
    """Also a single one."""
    tensor = TensorXf([1, 2, 3, 4], shape=shape)
    array, shapes = tensor.array, list[tuple[int, ...]]()

    def change(first: Any, second: Any) -> None:
        shapes.append(first.shape)
        first += 1
        second *= 2

    arguments = {"the tensor": (tensor, tensor), "its array twice": (array, array), "both": (tensor, array)}[given]
    dr.switch(UInt(index), [change, lambda first, second: None], *arguments, mode=mode)
    assert list(array) == [(k + 2) * 2 if taken == 0 else k + 1 for k, taken in enumerate(index)]
    assert tensor.shape == shape
    if mode == "evaluated":
        assert shapes == [(index.count(0),)]
