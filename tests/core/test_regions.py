"""Random programs with regions and memory nested in each other: kernels and the interpreter give the same bits.

Each program runs in four ways: interpreted as it was traced, evaluated whole, evaluated in two parts or more that are
split at random, and with evaluations while it is traced.  Of all kernels that are met, equal keys have equal texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from drjit_core import (
    TYPES,
    JitFlag,
    Node,
    evaluate,
    interpret,
    kernel_history_clear,
    on_backend,
    scoped_set_flag,
)
from drjit_core.codegen.program import Program as Kernel
from drjit_core.ir.verify import verify
from drjit_core.llvm import emit, jit
from drjit_core.ops.table import CAST, SCATTER, TWINS
from drjit_core.runtime import disk
from drjit_core.runtime.backends import LLVM
from drjit_core.runtime.cpu import cache
from drjit_core.types import BFLOAT16, BOOL, UINT8, UINT32, UINT64, ReduceMode
from tests.core import regions
from tests.core.harness import assert_same_bits, values


def compare(roots: list[Node], expected: list[np.ndarray[Any, Any]], how: str) -> None:
    for i, (root, data) in enumerate(zip(roots, expected, strict=True)):
        assert_same_bits(values(root), data, f"result {i}, {how}")


def run_in_all_ways(program: regions.Program) -> bool:
    """Compare the ways of running a program; raises an ``AssertionError`` that says which differ.  Returns whether it
    runs at all: what is refused is so in each way."""
    rng = np.random.default_rng(program.seed)
    traced = regions.trace_unless_refused(program)
    if traced is None:
        assert regions.trace_unless_refused(program, evaluating=True) is None
        return False
    roots, traced = traced, None
    verify(roots)
    expected = interpret(roots)
    evaluate(roots)
    compare(roots, expected, "evaluated whole")
    del roots

    roots = regions.trace(program)
    order = rng.permutation(len(roots))
    first = int(rng.integers(len(roots)))
    evaluate([roots[i] for i in order[:first]])
    verify(roots)
    if rng.random() < 0.3:
        for i, data in zip(range(len(roots)), interpret(roots), strict=True):
            assert_same_bits(data, expected[i], f"result {i}, interpreted after an evaluation of {order[:first]}")
    if rng.random() < 0.5:
        evaluate([roots[i] for i in order[first:]])
    else:
        for i in order[first:]:
            evaluate([roots[i]])
    compare(roots, expected, f"after an evaluation of {order[:first]}, in the order {order}")
    del roots

    roots = regions.trace(program, evaluating=True)
    verify(roots)
    for i, data in enumerate(interpret(roots)):
        assert_same_bits(data, expected[i], f"result {i}, evaluated at some steps, then interpreted")
    compare(roots, expected, "evaluated at some steps")

    others = [program._replace(seed=program.seed + 1), program._replace(seed=program.seed + 2)]
    wide = program.sizes[0]
    if wide > 1:  # of other sizes as well
        memories = tuple((type_, size + 3 * (size // wide), origin) for type_, size, origin in program.memories)
        others.append(program._replace(sizes=(wide + 3, *program.sizes[1:]), memories=memories))
    for other in others:  # a structure that is known by now, other contents
        del roots
        roots = regions.trace_unless_refused(other) or []  # with other contents, constants are others
        expected = interpret(roots)
        evaluate(roots)
        compare(roots, expected, "of a known structure")
    return True


def failure_of(program: regions.Program) -> str | None:
    """What goes wrong with a program, if anything does."""
    try:
        run_in_all_ways(program)
    except Exception as error:
        return _named(error)
    return None


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def test_memory_has_its_size_in_functions_that_leave_it_alone() -> None:
    assert failure_of(regions.generate(1204)) is None


def test_what_a_construct_within_leaves_alone_is_not_taken_for_used() -> None:
    """It is traced once more by the outermost construct, and seems to use its variables until then."""
    assert failure_of(regions.generate(1348)) is None


def test_loops_that_begin_wider_than_they_are() -> None:
    """They presume the width of what is around them, which may have begun too wide, too."""
    assert failure_of(regions.generate(1725)) is None


def test_what_is_folded_in_a_trace_that_is_too_wide_leaves_no_width() -> None:
    """An index that is zero was as wide as memory that is written to, and so was what it reads outside of the loop."""
    assert failure_of(regions.generate(5006902)) is None


def test_a_loop_is_refused_for_what_it_does_in_the_width_that_it_has() -> None:
    """As long as memory is not known to be that, it counts."""
    assert failure_of(regions.generate(18769)) is None


def test_memory_that_a_loop_leaves_alone_is_not_taken_for_what_it_writes_to() -> None:
    """Both were taken for constants, where a mask was known."""
    assert failure_of(regions.generate(19107)) is None


@pytest.mark.parametrize("seed", [3652, 6488])
def test_memory_that_is_left_alone_where_a_mask_is_known_may_be_written_to_all_the_same(seed: int) -> None:
    """The mask is known as long as other variables are constant, or the loop is wider than it is."""
    assert failure_of(regions.generate(seed)) is None


def check(seeds: range) -> None:
    refused = 0
    for seed in seeds:
        program = regions.generate(seed)
        try:
            refused += not run_in_all_ways(program)
        except Exception as error:
            failure = _named(error)
            sort = failure.split(":")[0]
            small = regions.minimised(program, lambda p, sort=sort: (failure_of(p) or "").startswith(sort))  # type: ignore[misc]
            raise AssertionError(f"seed {seed}: {failure}\nmade small: {failure_of(small)}\n{small}") from None
    assert refused <= 2 + len(seeds) // 50


_EXACT = frozenset(TWINS.values())
#: Conversions that texts make anyway: masks are bytes in memory, and positions are extended by accesses.
_MADE_ANYWAY = {(BOOL, UINT8), (UINT8, BOOL), (UINT64, UINT32)}


def _has_text_of_another(node: Any) -> bool:
    """Whether a node may have the text of one that is not the same."""
    return TYPES[node.type].kind == "i" or node.type == BFLOAT16 or node.kind in _EXACT or \
        node.kind == CAST and (node.type, node.d0.type) in _MADE_ANYWAY or \
        node.kind == SCATTER and node.payload == ReduceMode.Direct.value


def _words(key: bytes) -> set[int]:
    """What a key says, whatever the order, and however often: numbers that are baked in have no text, wherever among
    the leaves they stand, and whether two of them are one node or two."""
    return set(memoryview(key).cast("q"))


class Kernels:
    """Keys and texts of kernels."""

    def __init__(self) -> None:
        self.text_of: dict[Any, str] = {}
        #: Keys by text, of kernels without signed integers and bfloat16, which texts often treat as unsigned integers,
        #: and without rows that are their twins' exact form, which some types have one text for, conversions that texts
        #: make anyway, and writes that do not go together with their neighbours, of which there may be none.
        self.key_of: dict[str, Any] = {}
        self.lookup = LLVM.compile

    def add(self, program: Kernel) -> None:
        text, key = emit.emit(program, jit.lanes()), program.key
        if self.text_of.setdefault(key, text) != text:
            raise AssertionError(f"one key, two texts:\n{key}\n{self.text_of[key]}\n{text}")
        if not any(map(_has_text_of_another, (*program.order, *program.scatters))) and \
                _words(self.key_of.setdefault(text, key)) != _words(key):
            raise AssertionError(f"one text, two keys:\n{self.key_of[text]}\n{key}\n{text}")

    def __call__(self, program: Kernel) -> tuple[cache.CompiledKernel, bool]:
        """Look up a kernel, and note it."""
        self.add(program)
        return self.lookup(program)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernels]:
    """What is looked up; kernels are compiled in the quick tier, and those of other runs are left alone."""
    kernels = Kernels()
    monkeypatch.setattr(LLVM, "compile", kernels)
    monkeypatch.setattr(cache, "_level", lambda: 0)
    monkeypatch.setattr(disk, "load", lambda key: None)
    monkeypatch.setattr(disk, "store", lambda key, data: None)
    with scoped_set_flag(JitFlag.KernelHistory):  # which the short way of the compiled form leaves alone
        yield kernels
    kernel_history_clear()


@pytest.mark.parametrize("block", range(4))
def test_random_programs_agree_in_every_way_of_running_them(block: int, kernels: Kernels,
                                                            request: pytest.FixtureRequest) -> None:
    check(range(50 * block, 50 * block + 50))
    assert len(kernels.text_of) > 100 or request.config.getoption("--cuda")


def test_random_programs_agree_in_every_way_of_interpreting_them() -> None:
    """As the backend of evaluations, whole or split, the interpreter gives what it gives when nothing is evaluated."""
    with on_backend("interpreter"):
        check(range(60))


def check_keys(seeds: range, variants: int) -> Kernels:
    """Programs that differ in little: their kernels have equal keys exactly if they have equal texts."""
    kernels = Kernels()
    for seed in seeds:
        program, rng = regions.generate(seed), np.random.default_rng(seed)
        for _ in range(variants):
            for kernel in regions.kernels_of(regions.trace_unless_refused(program) or []):
                kernels.add(kernel)
            program = regions.nearly(program, rng)
    return kernels


def test_kernels_of_nearly_equal_programs_have_equal_keys_exactly_if_they_have_equal_texts() -> None:
    assert len(check_keys(range(30), 8).text_of) > 100


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(10))
def test_kernels_of_many_nearly_equal_programs_have_equal_keys_exactly_if_they_have_equal_texts(block: int) -> None:
    check_keys(range(1000 + 100 * block, 1100 + 100 * block), 20)


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(100))
def test_many_random_programs_agree_in_every_way_of_running_them(block: int, kernels: Kernels,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    if block % 5 == 0:
        monkeypatch.setattr(cache, "_level", lambda: 2)
    check(range(1000 + 200 * block, 1200 + 200 * block))
