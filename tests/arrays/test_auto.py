"""The automatic backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import drjit as dr
from drjit._base import backends


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    before = backends._chosen
    yield
    backends._chosen = before


def test_the_default_is_an_available_backend() -> None:
    from drjit.auto import Array3f, Float
    from drjit.auto.ad import Array3f as DiffArray3f

    assert Float(1, 2).shape == (2,)
    assert Array3f.__module__ in ("drjit.llvm", "drjit.cuda")
    assert DiffArray3f.__module__ == Array3f.__module__ + ".ad"
    assert set(dir(dr.auto)) == set(dir(dr.llvm)) or dr.has_backend(dr.JitBackend.CUDA)


@pytest.mark.parametrize(("argument", "module", "diff"), [
    ("llvm", "drjit.llvm", "drjit.llvm.ad"), ("cuda", "drjit.cuda", "drjit.cuda.ad"),
    ("scalar", "drjit.scalar", "drjit.scalar"), (dr.JitBackend.LLVM, "drjit.llvm", "drjit.llvm.ad"),
    (dr.JitBackend.CUDA, "drjit.cuda", "drjit.cuda.ad"),
])
def test_a_backend_can_be_chosen(argument: object, module: str, diff: str) -> None:
    dr.set_backend(argument)
    assert dr.auto.Array3f.__module__ == module
    assert dr.auto.ad.Array3f.__module__ == diff


def test_the_scalar_backend_has_the_types_of_python() -> None:
    dr.set_backend("scalar")
    from drjit.auto import Float

    assert Float is float


def test_star_imports_follow() -> None:
    dr.set_backend("scalar")
    names: dict[str, object] = {}
    exec("from drjit.auto import *", names)
    assert names["Array3f"] is dr.scalar.Array3f
    exec("from drjit.auto.ad import *", names)
    assert names["Array3f"] is dr.scalar.Array3f


@pytest.mark.parametrize("argument", ["", "metal", "LLVM", None, 1])
def test_other_arguments_raise(argument: object) -> None:
    with pytest.raises(TypeError, match=r"drjit\.set_backend\(\).*'scalar'"):
        dr.set_backend(argument)


def test_unknown_names_raise() -> None:
    for module in (dr.auto, dr.auto.ad):
        with pytest.raises(AttributeError):
            _ = module.Foo
