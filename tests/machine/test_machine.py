"""What the machine refuses, because hardware would fault or do anything; and a few instructions by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from drjit_core.cuda.errors import DriverError
from tests.machine import arithmetic
from tests.machine import machine as module
from tests.machine.driver import MachineDriver
from tests.machine.machine import Fault, Machine, Memory, parse

HEAD = ".version 8.1\n.target sm_75\n.address_size 64\n.visible .entry kernel (.param .align 8 .b8 p[8])\n{\n" \
       ".reg .pred %p<9>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n" \
       "ld.param.u64 %rd1, [p+0];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd2, %rd1, %rd2;\n"


def run(text: str, threads: int = 32, seed: int | None = None, size: int = 1024, blocks: int = 1) -> np.ndarray:
    """The memory that a kernel of some lines leaves: words, of which thread ``t`` has address ``%rd2``."""
    machine = Machine(Memory(1 << 20), seed)
    address = machine.memory.allocate(size)
    machine.memory.contents(address)[:] = 0
    machine.launch(parse(f"{HEAD}{text}\nret;\n}}\n"), "kernel", {"p": np.array([address], np.uint64)}, blocks,
                   (threads,))
    return machine.memory.contents(address).view(np.uint32).copy()


@pytest.mark.parametrize(("text", "message"), [
    ("st.global.u32 [%rd1+2], %r1;", "misaligned"),
    ("st.global.v2.u32 [%rd1+4], {%r1, %r1};", "misaligned"),
    ("st.global.u32 [%rd1+2048], %r1;", "nobody has allocated"),
    ("mov.b64 %rd3, 0;\nst.global.u32 [%rd3], %r1;", "no memory"),
    ("add.u32 %r3, %r2, 1;", "%r2 is read before it is written"),
    ("setp.lt.u32 %p1, %r1, 5;\n@%p1 mov.u32 %r2, 1;\nadd.u32 %r3, %r2, 1;", "%r2 is read before it is written"),
    ("setp.lt.u32 %p1, %r1, 5;\n@%p1 bra $end;\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\n$end:",
     "threads that have ended"),
    ("div.u32 %r2, %r1, %r1;", "division by zero"),
    ("ld.global.nc.u32 %r2, [%rd1];\nst.global.u32 [%rd2], %r2;", "both writes and reads as constant"),
    ("red.relaxed.gpu.global.add.u32 [%rd1], 1;\nld.global.nc.u32 %r2, [%rd1];", "both writes and reads as constant"),
    ("$again:\nbra $again;", "does not end"),
])
def test_what_is_undefined_is_a_fault(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_ROUNDS", 1000)
    with pytest.raises(Fault, match=message):
        run(text)


def test_constant_memory_may_be_written_elsewhere_and_later() -> None:
    text = "ld.global.nc.u32 %r2, [%rd2+512];\nst.global.u32 [%rd2], 7;"
    assert (run(text)[:32] == 7).all()
    machine = Machine(Memory(1 << 20))
    words = {"p": np.array([machine.memory.allocate(1024)], np.uint64)}
    for line in ("st.global.u32 [%rd2], 7;", "ld.global.nc.u32 %r2, [%rd2];", "st.global.u32 [%rd2], 7;"):
        machine.launch(parse(f"{HEAD}{line}\nret;\n}}\n"), "kernel", words, 1, (32,))


@pytest.mark.parametrize("shape", [(0, 32), (1 << 31, 32), (1, 0), (1, 64), (1, 32, 2)])
def test_launches_that_a_driver_refuses(shape: tuple[int, ...]) -> None:
    driver = MachineDriver()
    text = f"{HEAD}ret;\n}}\n".replace("\n{\n", "\n.maxntid 32, 1, 1\n{\n")
    function = driver.function(driver.load(driver.assemble(text)), "kernel")
    driver.launch(function, (1, 32), bytes(8))
    with pytest.raises(DriverError, match="INVALID_VALUE"):
        driver.launch(function, shape, bytes(8))


def test_barriers_that_not_all_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_ROUNDS", 1000)
    text = "setp.lt.u32 %p1, %r1, 40;\n@%p1 bra $loop;\nbar.sync 0;\nbra $end;\n$loop:\n@%p1 bra $loop;\n$end:"
    with pytest.raises(Fault):
        run(text, 64)


@pytest.mark.parametrize("text", [
    "add.f32 %f1, %f2, %f3;", "frob.u32 %r1, %r2;", "mov.b64 %rd1, %r1;", "ld.global.v3.u32 {%r2, %r3, %r4}, [%rd1];",
    "mov.u32 %r99, 1;", "bra %nowhere", "setp.around.u32 %p1, %r1, 0;", "@%p1 bar.sync 0;", "cvt.s32.f32 %r1, %f1;x"])
def test_what_is_no_ptx(text: str) -> None:
    with pytest.raises((SyntaxError, KeyError)):
        run(text)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_threads_meet_again(seed: int | None) -> None:
    text = ("setp.lt.u32 %p1, %r1, 7;\nmov.u32 %r2, 10;\n@%p1 bra $few;\nadd.u32 %r2, %r2, %r1;\nbra $both;\n$few:\n"
            "mov.u32 %r2, 1;\n$both:\nshfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;\nst.global.u32 [%rd2], %r3;")
    own = np.where(np.arange(64) < 7, 1, 10 + np.arange(64))
    assert (run(text, 64, seed)[:64] == own[np.arange(64) ^ 1]).all()


@pytest.mark.parametrize("seed", [None, 1])
def test_updates_of_one_word(seed: int | None) -> None:
    text = ("atom.relaxed.gpu.global.add.u32 %r2, [%rd1], 2;\n"
            "mul.wide.u32 %rd3, %r2, 2;\nadd.s64 %rd3, %rd3, %rd1;\nst.global.u32 [%rd3+4], 1;\n")
    found = run(text, 64, seed)
    assert found[0] == 128 and (found[1:65] == 1).all()


def test_a_race_shows_in_some_order() -> None:
    """Each thread reads what its neighbour of the next warp has written, without a barrier."""
    text = ("st.global.u32 [%rd2], 1;\nxor.b32 %r2, %r1, 32;\nmul.wide.u32 %rd3, %r2, 4;\nadd.s64 %rd3, %rd3, %rd1;\n"
            "ld.global.u32 %r3, [%rd3];\nst.global.u32 [%rd2+256], %r3;")
    assert (run(text, 64)[64:128] == 1).all()
    found = [run(text, 64, seed)[64:128].sum() for seed in range(30)]
    assert min(found) == 32 and max(found) == 64


def test_threads_that_compare_and_exchange_come_one_after_the_other() -> None:
    rng = np.random.default_rng(1)
    for count, places, numbers in ((1, 1, 2), (50, 1, 3), (200, 7, 2), (300, 40, 4)):
        at = rng.integers(0, places, count)
        expected, new, memory = (rng.integers(0, numbers, size).astype(np.uint32) for size in (count, count, places))
        after, old = memory.copy(), []
        for place, a, b in zip(at, expected, new, strict=True):
            old.append(after[place])
            after[place] = b if after[place] == a else after[place]
        np.testing.assert_array_equal(module._exchanged(memory, at, expected, new), old)
        np.testing.assert_array_equal(memory, after)


def test_multiply_adds_of_doubles_are_rounded_once() -> None:
    """Those of the C library are; exponents are moderate, and extreme."""
    rng = np.random.default_rng(1)
    for most in (3, 60, 421, 1050):
        a, b, c = (np.ldexp(rng.standard_normal(2000), rng.integers(-most, min(most, 1023), 2000)) for _ in range(3))
        for x in (a, b, c):
            x[rng.integers(0, 2000, 40)] = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 5e-324], 40)
        with np.errstate(all="ignore"):
            c = np.where(rng.random(2000) < 0.3, -(a * b) * (1 + rng.integers(-2, 3, 2000) * 2.0**-52), c)
            found, expected = arithmetic.fma(a, b, c), arithmetic._fma_by_one(a, b, c).astype(np.float64)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(expected[found == 0]))


def test_memory_is_found_again() -> None:
    memory = Memory(1 << 20)
    blocks = [memory.allocate(1000) for _ in range(5)]
    memory.release(blocks[1], 1000)
    assert memory.allocate(900) == blocks[1]
    for block in blocks[2:4]:
        memory.release(block, 1000)
    with pytest.raises(Fault, match="nobody"):
        memory.positions(np.array([blocks[2]], np.uint64), 4, 4, "a read")
    memory.top = memory.size  # full, but for gaps
    assert memory.allocate(2000) == blocks[2]
    with pytest.raises(MemoryError):
        memory.allocate(1 << 19)
