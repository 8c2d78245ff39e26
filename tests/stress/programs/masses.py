"""Many nodes and arrays are dropped at once: ``masses.py <way> <count>``; see ``WAYS``."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import drjit as dr
from drjit._base.handle import live_arrays
from drjit.llvm import Array3f, Float
from drjit_core.ir.fold import kept_literals
from drjit_core.ir.node import node_count
from tests.stress.programs.common import watch

__all__ = ["WAYS"]


class Own(Array3f):
    """A type with attributes."""


def steps(count: int) -> Any:
    """A chain whose nodes are each used by the next two."""
    x = dr.arange(Float, 3)
    for _ in range(count // 2):
        x = x * (x + 1.5)
    return x


def heap(count: int) -> list[Any]:
    """Arrays that use what came before them."""
    arrays = [dr.arange(Float, 3)]
    for k in range(1, count):
        arrays.append(arrays[k // 2] + arrays[k - 1])
    return arrays


def live() -> tuple[int, int]:
    """Nodes and arrays that there are."""
    gc.collect()
    return node_count() - kept_literals(), len(live_arrays())


def one_chain(count: int) -> None:
    chain = steps(count)
    del chain


def a_list(count: int) -> None:
    arrays = heap(count)
    arrays.clear()


def several_threads(count: int) -> None:
    """Threads drop what all of them hold parts of, while others trace and drop."""
    shared = heap(count // 2)
    parts: list[list[Any]] = [shared[k::4] + [steps(count // 16)] for k in range(4)]
    shared.clear()
    begin = threading.Barrier(8)

    def drop(part: list[Any]) -> None:
        begin.wait()
        part.clear()

    def trace() -> None:
        begin.wait()
        x = dr.arange(Float, 3)
        for k in range(count // 20):
            x = dr.fma(x, x, float(k % 7)) if k % 100 else dr.arange(Float, 3)

    threads = [threading.Thread(target=drop, args=(part,)) for part in parts]
    threads += [threading.Thread(target=trace) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def an_exception(count: int) -> None:
    """Frames with many arrays are left by an exception, and it by another one."""
    def inner() -> None:
        local, chain = heap(count // 2), steps(count // 2)
        try:
            local[0] + dr.arange(Float, 5) + chain
        finally:
            del chain
            raise KeyError("another one")

    try:
        inner()
    except KeyError as error:
        assert isinstance(error.__context__, ValueError | RuntimeError | TypeError), error.__context__
    else:
        raise AssertionError("nothing was raised")


def a_cycle(count: int) -> None:
    """The collector finds an array of a type with attributes, a generator, and all that they hold."""
    own = Own(1, steps(count // 2), 2)
    own.note = [own, own.y, heap(count // 2)]  # type: ignore[attr-defined]

    def generator() -> Iterator[Any]:
        try:
            yield own
        finally:
            own.last = own.x + 1  # type: ignore[attr-defined]

    own.generator = generator()  # type: ignore[attr-defined]
    next(own.generator)  # type: ignore[attr-defined]


def at_exit(count: int) -> None:
    """The interpreter drops what modules and threads still hold."""
    sys.kept = heap(count // 2), steps(count // 2)  # type: ignore[attr-defined]
    globals()["kept"] = [steps(count // 4), Own(1, 2, 3)]
    globals()["kept"][1].note = globals()["kept"]
    dr.eval(dr.arange(Float, 1000) * 2)


WAYS: dict[str, Callable[[int], None]] = {each.__name__: each for each in (
    one_chain, a_list, several_threads, an_exception, a_cycle, at_exit)}


def main(way: str, count: int) -> None:
    watch(600)
    Own(1, 2, 3) + dr.arange(Float, 3)
    before = live()
    WAYS[way](count)
    if way != "at_exit":
        after = live()
        assert before == after, f"{way}: nodes and arrays {before} before, {after} after"
    print(f"{way}: {count} dropped")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
