"""What planning and assembling may know of where a program runs.

A backend makes a :class:`Target`.  All else on this floor, and whoever launches, knows of no threads, no caches and no
registers: it asks the target, which decides by its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..passes.domain import Domain
from ..types import ReduceMode

__all__ = ["ATOMIC", "COMBINED", "PLAIN", "PRIVATE", "SHARED", "SUMMED", "Copies", "Interval", "Limits", "Local",
           "Reductions", "Rooms", "Rows", "Shared", "Target", "Tracing", "limits", "tell_limits"]

#: How a scatter-reduction copes with conflicts: atomic updates of the memory; plain updates, because there are none;
#: plain updates of tables that the backend provides, and merges afterwards; atomic updates of what neighbours have for
#: one element, combined; sums of products are added up as those that reductions make, and to the memory in the end;
#: combined ones of a table that a block of threads shares, which updates the memory when these are done.
ATOMIC, PLAIN, PRIVATE, COMBINED, SUMMED, SHARED = 0, 1, 2, 3, 4, 5
#: By so much is memory smaller than a kernel whose loops and branches update tables in its place.
_SMALLER = 4
#: And by so much it may be larger than what these update at a time, if tables are asked for. Filling and merging an
#: element of two tables takes a third to a half of the time of an atomic addition, and loops do several.
_LARGER = 8


class Interval(NamedTuple):
    """What was decided by a number of elements: it stays the same as long as that lies within bounds."""

    what: str
    of_memory: bool  # whether it is that of the memory which is accessed, or the width of the kernel
    low: float
    high: float


def _around(what: str, of_memory: bool, size: int, limit: int) -> Interval:
    """The side of a limit on which a number of elements is."""
    return Interval(what, of_memory, *((1, limit) if size <= limit else (limit + 1, math.inf)))


class Rows(NamedTuple):
    """How kernels go over rows, or do not: in numbers of elements, and of rows."""

    flat: int  # kernels are flat, and take several rows together, if all views are of rows of at most so many elements
    indexed: int  # and where rows have at most so many, whatever their views are: these are read by index then
    views: int  # of views of such rows, kernels read at most so many
    short: int  # rows of at most so many elements are a class of their own
    few: int  # where there are fewer rows than this, long ones are cut
    part: int  # into parts of so many elements
    together: int  # what goes over columns adds up so many rows at once
    keep: int  # what costs at least so many additions is kept from pass to pass, in the place of an output


class Rooms(NamedTuple):
    """How matrices that reductions add up lie among the partial results of a block."""

    line: int  # each begins at a multiple of so many words, and so do its sums
    columns: int  # and has columns up to a multiple of so many


class Local(NamedTuple):
    """How much local memory there may be for an element, in bytes."""

    array: int  # for what a loop keeps of its iterations
    kernel: int  # for arrays that a kernel has to itself
    together: int  # for all that loops keep, which one kernel may need


class Shared(NamedTuple):
    """Which scatter-reductions update a table that a block of threads shares."""

    updates: frozenset[int]  # those of these operators and types, as ``operator << TYPE_BITS | type``
    # Four tables of 1,024 elements of 8 bytes, and what reductions exchange besides (16 KiB), are the 48 KiB of shared
    # memory that a kernel has without asking.
    size: int  # to memory of at most so many elements
    width: int  # of kernels of at least so many elements
    most: int  # and of so many arrays in a kernel, at most


class Reductions(NamedTuple):
    """How reductions along axes are cut while programs are traced: in numbers of elements, and of rows."""

    unrolled: int  # of at most so many elements they are a chain of reads; beyond, a loop
    parallel: int  # the kernel of a loop should compute so many elements, if there are parts enough
    results: int  # where there are fewer results, rows are cut in parts, so that there are about so many
    part: int  # but into parts of no fewer elements
    rows: int  # parts of columns have at least so many rows
    elements: int  # and at least so many elements
    short: int  # rows of so few elements are read column by column, if there are many
    narrow: int  # rows of fewer elements leave much of a packet empty


class Copies(NamedTuple):
    """When arrays whose axes are put in another order are copied, not read by index."""

    fewest: int  # if they have at least so many elements
    shortest: int  # and both axes of which the neighbours change have at least so many
    longest: int  # and at most so many


class Tracing(NamedTuple):
    """What is decided while programs are traced, in numbers."""

    blend: int  # what evaluated loops compute for some elements only is a branch if it costs more additions than that
    blend_width: int  # and if there are at least so many elements
    hoist: int  # a condition that costs no more is computed once more for the sake of reads that move before the loop
    reductions: Reductions
    copies: Copies
    products: bool  # products of matrices in memory and vectors are nodes, which kernels put together
    targets: int  # derivatives of calls of at most so many functions that write are branches
    apart: int  # tables of more bytes are read by a kernel for each of their levels
    apart_width: int  # for at least so many elements


class Limits(NamedTuple):
    """What arrays, kernels and who traces keep to."""

    padding: int  # bytes beyond the end of an array that kernels may touch
    local: Local
    tracing: Tracing
    row: int  # elements that sorts, and what looks for the smallest one, go along


class Target(NamedTuple):
    """Where a program runs, in numbers.

    What these decide shows in the program, and so in its key; but for ``traffic``, ``rows.together``, ``rows.keep``,
    ``rooms`` and ``shared.size``, for pieces, and for what is inlined or native, which texts depend on besides:
    ``features`` has to tell.  No text depends on ``graph``.
    """

    language: int  # of kernels, see :class:`drjit_core.types.JitBackend`
    features: int  # what texts depend on besides the program: that of an architecture, and see above
    threads: int  # with one, updates never conflict
    single: int  # one of them does the scatter-reductions of at most so many elements
    combines: bool  # whether neighbours combine what they have for one element, unless updates are to be direct
    has_tables: bool  # whether scatter-reductions may update tables of each thread instead of the memory
    shared: Shared | None  # of those that combine, whether blocks of threads have tables
    tables: int  # memory of at most so many elements gets tables for scatter-reductions, unless that is forbidden
    streaming_bytes: int  # kernels that read and write more bytes write past the caches,
    streaming_width: int  # but not those of at most so many elements,
    streaming_row: int  # and of those with rows only where rows are multiples of so many elements
    large_bytes: int  # memory of more bytes is asked for ahead where it is accessed by index
    traffic: int  # additions that take as long as 8 bytes to or from memory
    recompute: int  # values are stored, not computed again, if that costs more than so many additions
    views: int  # views of what costs more, reading included, wait until that is stored
    sink: int  # what only one side of a branch needs is computed there if it costs more than so many additions
    rows: Rows
    rooms: Rooms | None  # where products are nodes
    local: Local
    tracing: Tracing
    piece_bytes: int  # neighbours are written together up to so many bytes
    read_bytes: int  # and read
    aligned_pieces: bool  # whether their address has to be a multiple of their size
    inlined: int  # a row that has an expansion, and that a kernel has more of, becomes a function
    #: Rows with an expansion that have a text all the same, as ``kind << TYPE_BITS | type``.
    native: frozenset[int]
    static_calls: bool  # whether functions have to know where their arguments are
    graph: int  # recordings of at least so many launches ask for them together

    @property
    def code(self) -> int:
        """What keys say of the target: the language, and what else its texts depend on."""
        return self.features << 8 | self.language

    # --- how scatter-reductions cope with conflicts ------------------------------------------------------------------

    def strategy(self, mode: int, size: int, width: int) -> int:
        """How those of a kernel of some width do, to memory of some size."""
        if mode == ReduceMode.NoConflicts.value or self.threads == 1 or width <= self.single:
            return PLAIN
        if self.has_tables and (mode == ReduceMode.Expand.value or
                                mode == ReduceMode.Auto.value and size <= min(self.tables, width)):
            return PRIVATE
        return self._atomic(mode)

    def inner_strategy(self, mode: int, width: int) -> int:
        """How those within regions do, which other elements may never come to."""
        if mode == ReduceMode.NoConflicts.value or self.threads == 1 or width == 1:
            return PLAIN
        return self._atomic(mode)

    def _atomic(self, mode: int) -> int:
        return COMBINED if self.combines and mode != ReduceMode.Direct.value else ATOMIC

    def strategy_holds(self, mode: int, size: int, width: int) -> Iterator[Interval]:
        """Where :meth:`strategy` stays the same."""
        if mode == ReduceMode.NoConflicts.value or self.threads == 1 or width == 1:
            return
        yield _around("threads share it", False, width, self.single)
        if width <= self.single or mode != ReduceMode.Auto.value or not self.has_tables:
            return
        most = min(self.tables, width)
        if size <= most:  # both bounds lie between the two sizes, and so hold whatever these become
            yield Interval("tables", True, 1, most)
            yield Interval("tables", False, max(size, self.single + 1), math.inf)
        elif size > self.tables:
            yield Interval("no tables", True, self.tables + 1, math.inf)
        else:
            yield Interval("no tables", True, size, math.inf)
            yield Interval("no tables", False, 1, width)

    def may_share(self, mode: int, update: int, tables: int) -> bool:
        """Whether a scatter-reduction by an operator and of a type may update a table that its block shares, besides
        so many others."""
        return self.shared is not None and tables < self.shared.most and update in self.shared.updates and \
            mode in (ReduceMode.Auto.value, ReduceMode.Expand.value)

    def shares(self, size: int, width: int) -> bool:
        """Whether one that may does, to memory of some size."""
        return self.shared is not None and size <= self.shared.size and width >= self.shared.width

    def shares_holds(self, size: int, width: int) -> Iterator[Interval]:
        """Where that stays the same."""
        assert self.shared is not None
        yield _around("shared tables", False, width, self.shared.width - 1)
        if width >= self.shared.width:
            yield _around("shared tables", True, size, self.shared.size)

    def strategy_in_regions(self, mode: int, size: int, width: int, updates: int) -> int:
        """:meth:`strategy` of those of loops and branches to memory that these only update, in so many places. Perhaps
        few elements come to them, and perhaps often: tables, which have to be filled and merged, are worth it for
        memory that is smaller than the kernel; if they are asked for, unless they are much larger than the updates of
        one time."""
        if mode == ReduceMode.Expand.value and self.has_tables and self.threads > 1 and width > 1:
            return PRIVATE if size <= _LARGER * updates * width else ATOMIC
        return self.strategy(mode, size, max(2, width // _SMALLER))

    def strategy_in_regions_holds(self, mode: int, size: int, width: int, updates: int) -> Iterator[Interval]:
        """Where that stays the same."""
        if mode == ReduceMode.Expand.value and self.has_tables and self.threads > 1 and width > 1:
            factor = _LARGER * updates
            if size <= factor * width:
                yield Interval("tables", True, 1, factor * width)
                yield Interval("tables", False, max(2, -(-size // factor)), math.inf)
            else:
                yield Interval("no tables", True, factor * width + 1, math.inf)
                yield Interval("no tables", False, 2, (size - 1) // factor)
            return
        for interval in self.strategy_holds(mode, size, max(2, width // _SMALLER)):
            if not interval.of_memory:
                interval = interval._replace(low=interval.low if interval.low <= 2 else _SMALLER * interval.low,
                                             high=_SMALLER * interval.high + _SMALLER - 1)
            yield interval

    # --- how memory is accessed --------------------------------------------------------------------------------------

    def is_large(self, nbytes: int) -> bool:
        """Whether memory of so many bytes is asked for ahead where it is accessed by index."""
        return nbytes > self.large_bytes

    def large_holds(self, size: int, itemsize: int) -> Interval:
        """Where that stays the same."""
        return _around("asked for ahead", True, size, self.large_bytes // itemsize)

    def streams(self, width: int, nbytes: int, row: int = 0) -> bool:
        """Whether a kernel that reads and writes so many bytes for each element writes past the caches; ``row`` is the
        length of its rows, if it has any."""
        return width > self._streaming_limit(nbytes) and row % self.streaming_row == 0

    def streams_holds(self, width: int, nbytes: int) -> Interval:
        """Where that stays the same."""
        return _around("past the cache", False, width, self._streaming_limit(nbytes))

    def _streaming_limit(self, nbytes: int) -> int:
        return max(self.streaming_width, self.streaming_bytes // nbytes)

    # --- rows --------------------------------------------------------------------------------------------------------

    def cut(self, domain: Domain) -> Domain:
        """A domain with its rows in parts if they are few and long."""
        rows, part = self.rows, self.rows.part
        if domain.is_flat or domain.columns or domain.rows >= rows.few or domain.row < 2 * part:
            return domain
        return domain._replace(parts=-(-domain.row // part), part=part)

    def classes_of(self, domain: Domain) -> list[int]:
        """What the text of a kernel depends on: how large the whole is, and of rows, how long they are."""
        whole = domain.size_class
        if domain.is_flat:
            return [whole]
        return [whole, domain.columns | 2 * (domain.parts > 1) | 4 * self.has_short_rows(domain)]

    def has_short_rows(self, domain: Domain) -> bool:
        """Whether the rows of a domain are of the class of short ones."""
        return domain.row <= self.rows.short

    # --- pieces ------------------------------------------------------------------------------------------------------

    def pieces(self, length: int, size: int, read: bool = False, distance: int | None = None) -> list[tuple[int, int]]:
        """First elements and lengths of the pieces of a row of so many elements of some size: powers of two, the
        longest ones first. What is ``read`` may end with three elements of four, of which the last is left alone.
        Rows begin at multiples of a distance, which is their length unless it is given; anywhere, if it is 0."""
        step = length if distance is None else distance or 1
        found: list[tuple[int, int]] = []
        start, count = 0, (self.read_bytes if read else self.piece_bytes) // size
        while start < length:
            while count > length - start or self.aligned_pieces and (step % count or start % count):
                if read and length - start == 3 and count == 4 and not self.aligned_pieces:
                    return [*found, (start, 3)]
                count //= 2
            found.append((start, count))
            start += count
        return found


_ask: Callable[[int], Limits]


def tell_limits(ask: Callable[[int], Limits]) -> None:
    """Who knows the backends tells how to ask for their limits."""
    global _ask
    _ask = ask


def limits(where: int) -> Limits:
    """What holds for nodes that belong to a backend, given as a bit (0: wherever this thread evaluates): for those who
    trace, before there is a target."""
    return _ask(where)
