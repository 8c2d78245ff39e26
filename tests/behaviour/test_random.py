"""Random numbers: sizes that change between calls, and sizes that types contradict."""

from __future__ import annotations

from typing import Any

import pytest

import drjit as dr
from drjit import llvm, scalar


def test_sizes_may_change_between_calls() -> None:
    g = dr.rng(seed=llvm.UInt(0), symbolic=True)
    assert list(g.integers(llvm.Int, 3, 50)) == [15, 28, 39]
    assert list(g.integers(llvm.Int, 4, low=5, high=9)) == [7, 7, 5, 5]


@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("method", ["random", "uniform", "normal", "integers"])
def test_all_methods_take_other_sizes(method: str, symbolic: bool) -> None:
    g = dr.rng(seed=llvm.UInt(0), symbolic=symbolic)
    arguments = (0, 50) if method == "integers" else ()
    for size in (3, 4, 1, 7):
        kind = llvm.Int if method == "integers" else llvm.Float
        keywords = dict(zip(("low", "high"), arguments, strict=False))
        assert len(getattr(g, method)(kind, size, **keywords)) == size


@pytest.mark.parametrize("method", ["random", "uniform", "normal", "integers"])
@pytest.mark.parametrize(("kind", "shape"), [(scalar.Array3f, 4), (scalar.Array3f, (4,)), (llvm.Array3f, (4, 5)),
                                             (scalar.Matrix2f, (2, 3)), (llvm.Complex2f, (3, 5))])
def test_sizes_that_a_type_contradicts_are_refused(kind: Any, shape: Any, method: str) -> None:
    keywords = {}
    if method == "integers":
        if kind._special:
            pytest.skip("no such type")
        kind, keywords = dr.int32_array_t(kind), {"low": 0, "high": 5}
    with pytest.raises(RuntimeError):
        getattr(dr.rng(), method)(kind, shape, **keywords)
