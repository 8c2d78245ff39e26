"""The heap of the CPU's arrays: its blocks are used by the pool's launches."""

from __future__ import annotations

from ..heap import Heap
from ..memory import System
from . import pool

__all__ = ["HEAP"]

HEAP = Heap(System(pool.wait))
pool.hold_across_fork(HEAP.lock)
pool.keep_when_leaving(HEAP)
