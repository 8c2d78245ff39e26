"""The op table, the single source of what an operation is: floor 0.

One row per operation.  From it come the trace function, constant folding, the ``dr.*`` function with its stub and its
page, and the tests of the operation on every type.  Rows know of no backend: each has its own texts for them, such as
:mod:`drjit_core.llvm.texts`.  **Adding an elementwise operation is adding a row**, in the module of its subject, and
its texts:

===================  ===============================================================================================
:mod:`.structure`    leaves, memory, reductions, regions: rows with a ``kind`` below :data:`FIRST_ELEMENTWISE`
:mod:`.arithmetic`   sums, products, roots, rounding
:mod:`.comparisons`  comparisons and selection
:mod:`.bits`         bits of integers and masks
:mod:`.functions`    ``exp``, ``sin`` …: their text is made from an expansion, see :mod:`drjit_core.math`
:mod:`.composed`     functions that are traced as several of the others at once: rows without a kind
===================  ===============================================================================================
"""

from __future__ import annotations

from . import arithmetic, bits, comparisons, composed, functions, structure
from .derivatives import RULES
from .op import INDEX, MASK, MEMORY, REGION, VALUE, Op

__all__ = ["ELEMENTWISE", "EXPANDED", "FUNCTIONS", "HAS_MEMORY", "INDEX", "IS_BARRIER", "IS_NUMBERED", "IS_WRITE",
           "KIND", "MASK", "MEMORY", "MEMORY_OPERANDS", "NEEDS_MEMORY", "OPS", "Op", "REGION", "VALUE"]

_elementwise = [*arithmetic.rows, *comparisons.rows, *bits.rows]
#: The table: rows by kind.
OPS: list[Op] = [row._replace(kind=kind, roles=row.roles or (VALUE,) * row.arity, derivative=RULES.get(row.name))
                 for kind, row in enumerate([*structure.rows, *_elementwise, *functions.rows])]
#: Kinds by name.
KIND: dict[str, int] = {op.name: op.kind for op in OPS}
FIRST_ELEMENTWISE = len(structure.rows)
(INVALID, DUAL, LITERAL, BOUND, UNDEFINED, EVALUATED, COUNTER, PHI, GATHER, SCATTER, REDUCE, OPAQUE, CAST, BITCAST,
 LOOP, COND, CALL, RESULT, FETCH, ACCESS, VIEW, SEGMENT, STEP, OFFER, LOCAL) = range(FIRST_ELEMENTWISE)
FIRST_EXPANDED = FIRST_ELEMENTWISE + len(_elementwise)
#: Rows that compute each element of the result from the same element of the operands.
ELEMENTWISE: list[Op] = OPS[FIRST_ELEMENTWISE:FIRST_EXPANDED]
#: Rows that do so by an expansion in terms of the others.
EXPANDED: list[Op] = OPS[FIRST_EXPANDED:]
#: Rows that are public functions, by name: with those that are composed of others.
FUNCTIONS: dict[str, Op] = {row.name: row for row in [*OPS, *composed.rows] if row.number is not None}

# Columns by kind, for whoever asks often: ``IS_BARRIER[node.kind]``.
#: How many of the first operands are memory; no other ever is.
MEMORY_OPERANDS: tuple[int, ...] = tuple(row.roles.count(MEMORY) for row in OPS)
#: Whether there is any.
HAS_MEMORY: tuple[bool, ...] = tuple(count > 0 for count in MEMORY_OPERANDS)
#: Whether that must exist before the kernel begins.
NEEDS_MEMORY: tuple[bool, ...] = tuple(row.needs_memory for row in OPS)
#: Whether the result exists only when the kernel has ended.
IS_BARRIER: tuple[bool, ...] = tuple(row.barrier for row in OPS)
#: Whether the result is the next version of the memory operand.
IS_WRITE: tuple[bool, ...] = tuple(row.effect == "write" for row in OPS)
#: Whether equal operations on equal operands are one node.
IS_NUMBERED: tuple[bool, ...] = tuple(row.numbered for row in OPS)
