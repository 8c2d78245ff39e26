"""Text of kernels that work off tasks, each a tile of one of the matrices of a batch.

Parameters are 64-bit words, of which a table says where they are.  Behind these come, for each dimension of the batch,
the extent and two distances, in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..writer import Writer

__all__ = ["Words", "located_in_batch", "numbered", "tile", "up", "write_task", "write_tasks"]


def numbered(*names: str) -> dict[str, int]:
    """A table of words."""
    return {name: position for position, name in enumerate(names)}


def up(value: int, multiple: int) -> int:
    """The next multiple."""
    return -(-value // multiple) * multiple


class Words:
    """The parameters of a function, by their names in a table; to be read in the entry block for the first time."""

    def __init__(self, writer: Writer, table: Mapping[str, int], pointers: tuple[str, ...]) -> None:
        self.writer, self.table = writer, table
        for name, number in table.items():
            writer.parameter(number, "ptr" if name in pointers else "i64")

    def __getitem__(self, name: str) -> str:
        return self.writer.parameter(self.table[name])


class Tile(NamedTuple):
    """What a task has of an axis: where it begins, and how much it is."""

    begin: str
    length: str


def tile(w: Writer, number: str, size: str, extent: str) -> Tile:
    """A tile of some size along an axis, of which the last one may be smaller."""
    begin = w.mul(number, size)
    return Tile(begin, w.minimum(w.sub(extent, begin), size))


def located_in_batch(w: Writer, words: Words, batch: str) -> list[str]:
    """The distances of the matrices with some number in the batch, in two arrays."""
    rank = words["rank"]

    def dimension(index: str, values: list[str]) -> list[str]:
        rest, *sums = values
        word = w.add(w.mul(w.sub(w.sub(rank, index), 1), 3), len(words.table))
        extent_at = w.at("i64", "%parameters", word)
        extent = w.load("i64", extent_at, 8)
        rest, place = w.divided(rest, extent)
        steps = [w.load("i64", w.at("i64", extent_at, number), 8) for number in (1, 2)]
        return [rest, *(w.add(sum_, w.mul(place, step)) for sum_, step in zip(sums, steps, strict=True))]

    return w.loop("0", rank, 1, [("i64", batch), ("i64", "0"), ("i64", "0")], dimension)[1:]


def write_task(w: Writer, table: Mapping[str, int], pointers: tuple[str, ...], body: Callable[[Words], None]) -> None:
    """The function that does what belongs to ``%task``."""
    w.function("internal void @task(ptr %parameters, i64 %task, i32 %worker)", "noinline #0")
    body(Words(w, table, pointers))
    w.end()


def write_tasks(w: Writer, unit: int, end: str = "") -> None:
    """The kernel, which calls ``@task`` for each task of a block; a task is so many parts as the word ``unit`` says.

    ``end`` is an instruction for the end of a block.
    """
    w.kernel()
    size = w.parameter(unit)
    w.loop(w.udiv("%begin", size), w.udiv("%end", size), 1, [],
           lambda task, _: w.run("task", "ptr %parameters", f"i64 {task}", "i32 %worker"))
    if end:
        w.line(end)
    w.end()
