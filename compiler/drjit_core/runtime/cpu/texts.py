"""What the CPU's kernels are before anything is compiled: for :mod:`..null`."""

from __future__ import annotations

from ...types import JitBackend
from . import cache, launches
from .target import LIMITS, target
from .thread_tables import filled_tables, merged_tables

__all__ = ["TEXTS", "LLVMTexts"]


class LLVMTexts:
    """Texts of LLVM, and what the CPU's launches follow from, see :class:`..null.Texts`."""

    language = JitBackend.LLVM
    limits = LIMITS
    target = staticmethod(target)
    text_of = staticmethod(cache.text_of)
    operations_of, work_of = staticmethod(cache.operations_of), staticmethod(cache.work_of)
    partial_bytes = staticmethod(cache.partial_bytes)
    course_of = staticmethod(launches.course_of)
    fill_tables, merge_tables = staticmethod(filled_tables), staticmethod(merged_tables)
    passes = staticmethod(cache.passes)


TEXTS = LLVMTexts()
