"""Arrays of other packages among the arguments of functions of this one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import array_api as xp
from drjit import llvm as l


def test_tensors_of_torch_are_reduced_as_sequences() -> None:
    torch = pytest.importorskip("torch")
    t = torch.tensor([1.0, 2.0, 4.0])
    assert bool(dr.all(t > 0)) and not bool(dr.any(t > 5)) and float(dr.sum(t)) == 7
    assert isinstance(dr.sum(t), torch.Tensor) and isinstance(dr.all(t > 0), torch.Tensor)
    assert float(dr.max(t)) == 4 and float(dr.min(t)) == 1 and float(dr.prod(t)) == 8
    m = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert dr.sum(m).tolist() == [4, 6] and float(dr.sum(m, axis=None)) == 10
    assert dr.mean(m).tolist() == [2, 3] and float(dr.mean(m, axis=None)) == 2.5
    assert float(dr.sum(torch.tensor(3.0))) == 3 and dr.sum(torch.zeros(0)) == 0 and np.isnan(dr.mean(torch.zeros(0)))


@pytest.mark.parametrize("function", [dr.count, dr.var, dr.std, lambda t: dr.sum([t, t])])
def test_what_has_no_operator_is_done_by_torch(function: Any) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="arrays of torch are reduced by its own functions"):
        function(torch.tensor([True, False]))


@pytest.mark.parametrize("function", [dr.all, dr.any, dr.none, dr.sum, dr.max, dr.mean, dr.count])
def test_messages_about_arrays_of_the_array_api(function: Any) -> None:
    x = xp.asarray([1.0, 2.0])
    name = function.__name__
    with pytest.raises(TypeError, match=f"drjit\\.{name}\\(.*Array") as found:
        function(x > 0 if name in ("all", "any", "none", "count") else x)
    assert "its own functions" in str(found.value)


@pytest.mark.parametrize("function", [dr.graphviz, dr.graphviz_ad, dr.whos, dr.whos_ad])
@pytest.mark.parametrize("value", [xp.asarray([1.0, 2.0]), l.Float(1), 1])
def test_what_shows_all_variables_takes_no_array(value: Any, function: Any) -> None:
    with pytest.raises(TypeError, match=rf"drjit\.{function.__name__}\(\): 'as_string' must be a bool.* no array"):
        function(value)


def test_arrays_of_the_array_api_are_made_by_its_functions() -> None:
    with pytest.raises(TypeError, match=r"drjit\.zeros\(\): .*Array is no type of arrays.* without arguments"):
        dr.zeros(type(xp.asarray(1.0)), 3)


def test_modules_list_public_names() -> None:
    for module in (xp.linalg, xp.fft, xp.special):
        assert dir(module) == sorted(module.__all__)


def test_masks_and_floats() -> None:
    with pytest.raises(TypeError):
        l.Bool(True, False) & l.Float(3)
    assert list(l.Float(3) & l.Bool(True, False)) == [3, 0]


def test_membership() -> None:
    a = l.Array3f(1, 2, 3)
    assert a[0] in a and 2 in a and 5 not in a
