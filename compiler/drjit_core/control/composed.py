"""Rows of other packages: what there is to know of them is their expansion, and how they are traced again."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..ir.expansion import COMPOSED, UPDATES
from ..ir.node import Node
from ..ops.op import MANY
from ..ops.structure import structural
from ..ops.table import INDEX, MASK, MEMORY, VALUE, register
from .inline import AGAIN, WRITES, traced_again_by

__all__ = ["composed_row", "composed_write"]


def composed_row(name: str, doc: str, values: int, indices: int, cost: int,
                 expansion: Callable[[Node, Sequence[Node]], Node], again: Callable[..., Node],
                 memory: int = 1) -> int:
    """Register a row of memory (so many arrays), some values, some indices and a mask, and return its kind.

    It is computed for the elements that take part; one without memory has no mask, and may be computed when nobody
    asked. ``expansion`` traces it from a node and what stands for its
    operands, of which it reads memory by :func:`drjit_core.ir.expansion.read`; ``again`` traces it of operands that may
    have derivatives, and ``attr`` and ``payload``, for which :func:`drjit_core.ir.structured.traced_each` is there if
    none has.
    """
    reads = bool(memory)
    roles = *[MEMORY] * memory, *[VALUE] * values, *[INDEX] * indices, *[MASK] * reads
    row = structural(name, roles, doc, cost=cost, needs_memory=reads, speculable=not reads, result="own")
    kind = register(row, _text_of(expansion)).kind
    COMPOSED[kind], AGAIN[kind] = expansion, traced_again_by(again)
    return kind


def composed_write(name: str, doc: str, cost: int,
                   updates: Callable[[Node, Sequence[Node]], Iterable[tuple[Node, Node, Node]]],
                   again: Callable[[Node, Sequence[Node], Any, int], Node]) -> int:
    """Register a row that stands for the updates of a write, and return its kind.

    Its operands are a mask and any number of values. It is the value of a ``SCATTER`` that adds, whose index is 0 and
    whose mask counts; in a region the mask of the row depends on that of the elements that take part, so that the row
    belongs to the region. Its ``attr`` is the number of ``updates``, which are traced from a node and what stands for
    its operands; ``again`` traces such a write of memory and operands that may have derivatives, the payload of the
    row, and the mode.
    """
    row = structural(name, (MASK, VALUE), doc, cost=cost, result="own")._replace(arity=MANY)
    kind = register(row, _text_of(updates)).kind
    UPDATES[kind], WRITES[kind] = updates, again
    return kind


def _text_of(function: Any) -> bytes:
    """The modules of the package that a function is of, as far as they can be read."""
    return _text_of_package(sys.modules[getattr(function, "func", function).__module__].__package__ or "")


@functools.cache
def _text_of_package(package: str) -> bytes:
    import pkgutil  # takes a millisecond to load

    found = []
    for _, name, _ in pkgutil.iter_modules(sys.modules[package].__path__, f"{package}."):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:  # there are compiled ones that an archive has in vain
            text = os.path.join(os.path.dirname(spec.origin), f"{name.rpartition('.')[2]}.py")
            file = text if os.path.isfile(text) else spec.origin  # of compiled ones the text, if it is there
            found.append(spec.loader.get_data(file))  # type: ignore[union-attr]
    return b"\0".join(found)
