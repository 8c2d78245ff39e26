"""One array in several places: what functions change in place shows in all of them, as in Python with one element."""

from __future__ import annotations

from typing import Any

import pytest

import drjit as dr
from drjit import llvm
from drjit.llvm import ad


@pytest.mark.parametrize("alive", [False, True])
@pytest.mark.parametrize("module", [llvm, ad])
def test_one_array_given_twice_to_a_loop_is_one(module: Any, alive: bool) -> None:
    other = ad.Float(1)
    if alive:
        dr.enable_grad(other)

    def body(i: Any, y: Any, z: Any) -> Any:
        y += z
        return i + 1, y, z

    given = module.Float(1, 1)
    _, y, z = dr.while_loop((module.UInt(0, 1), given, given), lambda i, y, z: i < 4, body, mode="symbolic")
    assert list(y) == list(z) == list(given) == [16, 8]


@pytest.mark.parametrize("alive", [False, True])
@pytest.mark.parametrize("around", ["loop", "branch"])
def test_one_array_given_twice_to_a_loop_within_is_one(around: str, alive: bool) -> None:
    other = ad.Float(1)
    if alive:
        dr.enable_grad(other)

    def body(i: Any, y: Any, z: Any) -> Any:
        y += z
        return i + 1, y, z

    def doubled(start: Any, array: Any) -> Any:
        _, y, _ = dr.while_loop((start, array, array), lambda i, y, z: i < 4, body)
        return y

    given = ad.Float(1, 1)
    if around == "branch":
        found = dr.if_stmt((ad.UInt(0, 1), given), ad.Bool(True, True), doubled, lambda i, y: y, mode="symbolic")
    else:
        _, found = dr.while_loop((ad.UInt(0, 0), given), lambda k, y: k < 1,
                                 lambda k, y: (k + 1, doubled(ad.UInt(0, 1), y)), mode="symbolic")
    assert list(found) == list(given) == [16, 8]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_what_is_returned_for_an_array_that_the_body_knows_is_another_one(mode: Any) -> None:
    known = llvm.Float(1, 2)
    _, found = dr.while_loop((llvm.UInt(0, 1), known), lambda i, y: i < 3, lambda i, y: (i + 1, y + known), mode=mode)
    assert list(found) == [4, 6]
    assert list(known) == [1, 2]
