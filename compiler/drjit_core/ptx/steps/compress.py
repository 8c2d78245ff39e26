"""Positions of the set elements of a mask: ``count`` says how many come before each chunk, ``compress`` writes them.

A block takes a chunk, each of its warps a part of that, 32 elements at a time.  Chunks look back at those before them
as the tiles of scans do (:mod:`.scan`), so that counting is one launch.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...codegen.steps import Call, Pass, Text
from ...types import UINT8, UINT32, UINT64, ReduceOp
from . import scan
from .writer import BLOCK, WARP, WARPS, Grid, Writer

__all__ = ["count_passes", "passes"]

_ADD = ReduceOp.Add.value


class _Part:
    """The elements of a warp: a part of the block's chunk."""

    def __init__(self, w: Writer, chunk: int, number: str, size: str) -> None:
        self.w, self.part = w, -(-chunk // BLOCK) * WARP
        self.lane, self.warp = w.lane(), w.r("shr.u32", w.tid, 5)
        begin = w.rd("mul.wide.u32", number, chunk)
        self.limit = w.rd("min.u64", w.rd("add.u64", begin, chunk), size)
        self.begin = w.rd("add.u64", begin, w.rd("mul.wide.u32", self.warp, self.part))
        self.source = w.parameter(0)

    def mask_at(self, first: str) -> tuple[str, str, str]:
        """Position, whether the element of the thread is set, and which of the warp's are."""
        w = self.w
        position = w.rd("add.u64", first, w.wide(self.lane))
        there = w.p("setp.lt.u64", position, self.limit)
        byte = w.load(UINT8, w.rd("add.u64", self.source, position), there, "0")
        is_set = w.p("setp.ne.u16", byte, 0)
        return position, is_set, w.r("vote.sync.ballot.b32", is_set, -1)

    def count(self) -> str:
        """How many elements of the warp's part are set."""
        w, total, offset = self.w, self.w.r("mov.b32", 0), self.w.rd("mov.b64", 0)
        with w.loop() as unless:
            unless(w.p("setp.lt.u64", offset, self.part))
            _, _, ballot = self.mask_at(w.rd("add.u64", self.begin, offset))
            w.line(f"add.u32 {total}, {total}, {w.r('popc.b32', ballot)};")
            w.line(f"add.u64 {offset}, {offset}, {WARP};")
        return total

    def before(self, total: str) -> tuple[str, str]:
        """How many are set before the warp's part in the chunk, and in all of the chunk."""
        w = self.w
        shared = w.shared("counts", 4 * WARPS)
        with w.when(w.p("setp.eq.u32", self.lane, 0)):
            w.store(UINT32, w.at(shared, self.warp, 4), total, space="shared")
        w.barrier()
        before, all_ = w.r("mov.b32", 0), w.r("mov.b32", 0)
        for k in range(WARPS):
            w.set(UINT32, before, w.select(UINT32, w.p("setp.eq.u32", self.warp, k), all_, before))
            one = w.load(UINT32, shared, space="shared", offset=4 * k)
            w.line(f"add.u32 {all_}, {all_}, {one};")
        return before, all_


def _count(architecture: int, chunk: int) -> str:
    """Words: mask, counts (or 0), their total (or 0), scratch, elements, chunks, flags and values of the levels."""
    w = Writer(architecture)
    number = w.ticket(w.parameter(3), w.shared("ticket", 16))
    part = _Part(w, chunk, number, w.parameter(4))
    _, total = part.before(part.count())
    with w.when(w.p("setp.eq.u32", part.warp, 0)):
        zero = w.r("mov.b32", 0)
        levels = [(w.parameter(6 + 2 * k), w.parameter(7 + 2 * k), zero) for k in range(scan.LEVELS)]
        wide = w.wide(total)
        before = scan.look_back(w, _ADD, UINT64, wide, w.rd("mov.b64", 0), number, levels)
        first = w.p("setp.eq.u32", part.lane, 0)
        for k, value, mask in ((1, before, first),
                               (2, w.rd("add.u64", before, wide), w.both(first, w.p(
                                   "setp.eq.u64", w.rd("add.u64", w.wide(number), 1), w.parameter(5))))):
            target = w.parameter(k)
            wanted = w.both(mask, w.p("setp.ne.u64", target, 0))
            w.store(UINT64, w.at(target, number, 8) if k == 1 else target, value, wanted)
    return w.text(6 + 2 * scan.LEVELS)


def count_passes(call: Call) -> Iterable[Pass]:
    """Those of counting."""
    (mask,), chunk, architecture = call.operands, call.step.extents[0], call.target.features
    chunks = -(-mask.size // chunk)
    levels = scan.tiles_in(chunks, 1)
    zeros, nbytes, places = scan.scratch_bytes(1, levels)
    scratch = call.scratch(nbytes)
    yield scan.cleared_pass(scratch, zeros, architecture)
    results = [call.results[k].address if k in call.results else 0 for k in (0, 1)]
    tables = [scratch + place for pair in places for place in pair]
    yield Pass(Text("count", (architecture, chunk), _count, 4), (mask.address, *results, scratch, mask.size, chunks,
                                                                 *tables), Grid(mask.size, chunks))


def _compress(architecture: int, chunk: int) -> str:
    """Words: mask, counts before chunks, positions, elements."""
    w = Writer(architecture)
    part = _Part(w, chunk, w.block, w.parameter(3))
    before, _ = part.before(part.count())
    start = w.load(UINT64, w.at(w.parameter(1), w.block, 8))
    at = w.rd("add.u64", start, w.wide(before))
    below, offset = w.r("mov.u32", "%lanemask_lt"), w.rd("mov.b64", 0)
    with w.loop() as unless:
        unless(w.p("setp.lt.u64", offset, part.part))
        position, is_set, ballot = part.mask_at(w.rd("add.u64", part.begin, offset))
        rank = w.r("popc.b32", w.r("and.b32", ballot, below))
        own = w.at(w.parameter(2), w.rd("add.u64", at, w.wide(rank)), 4)
        w.store(UINT32, own, w.r("cvt.u32.u64", position), is_set)
        w.line(f"add.u64 {at}, {at}, {w.wide(w.r('popc.b32', ballot))};")
        w.line(f"add.u64 {offset}, {offset}, {WARP};")
    return w.text(4)


def passes(call: Call) -> Iterable[Pass]:
    """Those of writing positions."""
    (mask, before), chunk = call.operands, call.step.extents[0]
    yield Pass(Text("compress", (call.target.features, chunk), _compress, 6),
               (mask.address, before.address, call.results[0].address, mask.size),
               Grid(mask.size, -(-mask.size // chunk)))
