"""Texts of a few kernels as a whole, keys beside texts, and what assembles them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from conformance import ptx
from drjit_core import JitBackend, Node, ReduceOp, evaluate, gather, literal, on_backend, ops, reduce, step
from drjit_core.runtime.gpu.target import ARCHITECTURES, target_of
from drjit_core.runtime.gpu.texts import PTXTexts
from drjit_core.runtime.null import Null
from tests.core import regions
from tests.core.harness import FLOAT32, TRUE, UINT32, array
from tests.core.test_rows import reduced
from tests.ptx.test_programs import use_copies

GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture(autouse=True)
def copies(monkeypatch: pytest.MonkeyPatch) -> None:
    use_copies(monkeypatch)


def floats(size: int = 1000) -> Node:
    return array(np.zeros(size), FLOAT32)


def axpy() -> Node:
    return ops.fma(floats(), literal(FLOAT32, 2.5), floats())


def gather_and_square_root() -> Node:
    return ops.sqrt(gather(floats(), array(np.zeros(1000), UINT32), TRUE))


def smallest() -> Node:
    return ops.minimum(floats(), array([1], FLOAT32))


def sum_of_all() -> Node:
    return reduce(floats(), ReduceOp.Add.value)


def sum_of_rows() -> Node:
    return reduced(floats(4000), ReduceOp.Max.value, 40, 100, 1)


def text_of(make: Callable[[], Node], architecture: int) -> str:
    backend = Null(PTXTexts(architecture))
    with on_backend(backend):
        evaluate([make()])
    (kernel,) = backend.kernels.values()
    return kernel.text


@pytest.mark.parametrize("architecture", [75, 90])
@pytest.mark.parametrize("make", [axpy, gather_and_square_root, smallest, sum_of_all, sum_of_rows],
                         ids=lambda make: make.__name__)
def test_golden_texts(make: Callable[[], Node], architecture: int) -> None:
    """If a text is meant to change, delete the file, run this test, and look at what has changed."""
    path = GOLDEN / f"{make.__name__}_{architecture}.ptx"
    text = text_of(make, architecture)
    if not path.exists():
        path.write_text(text)
        pytest.fail(f"{path.name} is new: look at it")
    assert text == path.read_text()


def test_the_null_backend_goes_the_whole_road_and_equal_keys_have_equal_texts() -> None:
    found: dict[bytes, str] = {}
    for _ in range(2):
        backend = Null(PTXTexts(90))
        assert backend.language == JitBackend.CUDA
        with on_backend(backend):
            for seed in range(40):
                evaluate(regions.trace_unless_refused(regions.generate(seed)) or [])
        for key, kernel in backend.kernels.items():
            assert found.setdefault(key, kernel.text) == kernel.text
    assert len(set(found.values())) == len(found) > 100


def test_the_null_backend_records_the_launches_of_steps() -> None:
    backend = Null(PTXTexts(90))
    with on_backend(backend):
        for size in (1000, 100_000):
            evaluate(step("scan", [floats(size)], [(FLOAT32, size)], (ReduceOp.Add.value, 0, 0), (1, size, 1)))
    assert [(launch.width, launch.block) for launch in backend.launches][::2] == [(1000, 256), (100_000, 256)]
    assert len(backend.launches) == 3 and all(".visible .entry" in each.text for each in backend.kernels.values())


def test_architectures_are_part_of_keys() -> None:
    codes = {target_of(architecture).code for architecture in ARCHITECTURES}
    assert len(codes) == len(ARCHITECTURES)
    assert target_of(86) is not target_of(80) and target_of(86) == target_of(80) and target_of(120) == target_of(100)
    with pytest.raises(ValueError, match="too old"):
        target_of(70)


def test_assemblers_that_are_missing_or_reject(monkeypatch: pytest.MonkeyPatch,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(ptx, "assembler", lambda: None)
    monkeypatch.setattr("sys.argv", ["ptx"])
    assert ptx.main() == 2 and "Nothing was checked" in capsys.readouterr().out

    def assemble(text: str, architecture: int) -> ptx.Assembled:
        return ptx.Assembled("line 7: unknown" if "sqrt" in text else "", 20, 8 if "fma" in text else 0, 0.01)
    texts = {name: text_of(make, 90) for name, make in (("a", axpy), ("b", gather_and_square_root), ("c", smallest))}
    assert not ptx.report({90: [texts["b"]]}, assemble, 1) and "line 7: unknown" in capsys.readouterr().out
    assert not ptx.report({90: [texts["a"]]}, assemble, 1)
    assert ptx.report({90: [texts["c"]]}, assemble, 1) and "| 90 | 1 | 0 | 0 | 20 | 20 | 10 | 10 |" in \
        capsys.readouterr().out


@pytest.mark.skipif(ptx.assembler() is None, reason="no assembler of PTX is installed")
@pytest.mark.parametrize("architecture", ptx.ARCHITECTURES)
def test_kernels_are_assembled(architecture: int) -> None:
    found = ptx.assembler()
    assert found is not None
    for text in ptx.kernels_of_programs(9, architecture)[:12]:
        said = found[1](text, architecture)
        assert not said.error and 0 < said.registers < 255 and not said.spilled
