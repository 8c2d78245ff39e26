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

import hashlib
from collections.abc import Callable

from . import arithmetic, bits, comparisons, composed, functions, structure
from .derivatives import RULES
from .op import INDEX, MASK, MEMORY, PRECISE, REGION, VALUE, Op
from .structure import VACANT

__all__ = ["ELEMENTWISE", "EXPANDED", "FUNCTIONS", "HAS_MEMORY", "INDEX", "IS_BARRIER", "IS_NUMBERED", "IS_WRITE",
           "IS_INDEXED", "IS_POINTWISE", "KIND", "MASK", "MEMORY", "MEMORY_OPERANDS", "NEEDS_MEMORY", "OPERATIONS",
           "OPS", "Op", "REGION", "TWINS", "VALUE", "VERSIONS", "listeners", "register"]

_elementwise = [*arithmetic.rows, *comparisons.rows, *bits.rows]
#: The table: rows by kind.
OPS: list[Op] = [row._replace(kind=kind, roles=row.roles or (VALUE,) * row.arity, derivative=RULES.get(row.name))
                 for kind, row in enumerate([*structure.rows, *_elementwise, *functions.rows])]
#: Kinds by name.
KIND: dict[str, int] = {op.name: op.kind for op in OPS}
#: Kinds of what is traced in the place of others if ``JitFlag.FastMath`` is cleared, by those of the others.
TWINS: dict[int, int] = {KIND[op.name.removesuffix(PRECISE)]: op.kind for op in OPS if op.name.endswith(PRECISE)}
FIRST_ELEMENTWISE = len(structure.rows)
(INVALID, DUAL, LITERAL, BOUND, UNDEFINED, EVALUATED, COUNTER, PHI, GATHER, SCATTER, REDUCE, OPAQUE, CAST, BITCAST,
 LOOP, COND, CALL, RESULT, FETCH, ACCESS, VIEW, SEGMENT, STEP, PACK, LOCAL) = range(25)
#: From here on, kinds of rows that are registered.
FIRST_REGISTERED = 25
FIRST_EXPANDED = FIRST_ELEMENTWISE + len(_elementwise)
#: Rows that compute each element of the result from the same element of the operands.
ELEMENTWISE: list[Op] = OPS[FIRST_ELEMENTWISE:FIRST_EXPANDED]
#: Rows that do so by an expansion in terms of the others.
EXPANDED: list[Op] = OPS[FIRST_EXPANDED:]
#: Rows that are public functions, by name: with those that are composed of others.
FUNCTIONS: dict[str, Op] = {row.name: row for row in [*OPS, *composed.rows] if row.number is not None}

# Columns by kind, for whoever asks often: ``IS_BARRIER[node.kind]``.
#: How many of the first operands are memory; no other ever is.
MEMORY_OPERANDS: list[int] = []
#: Whether there is any.
HAS_MEMORY: list[bool] = []
#: Whether that must exist before the kernel begins.
NEEDS_MEMORY: list[bool] = []
#: Whether it is accessed by kernels at other positions than the element's own.
IS_INDEXED: list[bool] = []
#: Whether the result exists only when the kernel has ended.
IS_BARRIER: list[bool] = []
#: Whether the result is the next version of the memory operand.
IS_WRITE: list[bool] = []
#: Whether each element of the result is computed from the same element of those operands that are no memory.
IS_POINTWISE: list[bool] = []
#: Whether equal operations on equal operands are one node.
IS_NUMBERED: list[bool] = []
#: How many operations of a processor it is, about: of what is expanded or registered its cost.
OPERATIONS: list[int] = []


def _enter(row: Op) -> None:
    """Put a row's columns in the place of its kind."""
    memory = row.roles.count(MEMORY)
    operations = 1 if row.kind < FIRST_REGISTERED or FIRST_ELEMENTWISE <= row.kind < FIRST_EXPANDED else row.cost
    MEMORY_OPERANDS[row.kind:row.kind + 1], OPERATIONS[row.kind:row.kind + 1] = [memory], [operations]
    for column, value in ((HAS_MEMORY, memory > 0), (NEEDS_MEMORY, row.needs_memory),
                          (IS_INDEXED, row.needs_memory and row.size != "own"), (IS_BARRIER, row.barrier),
                          (IS_WRITE, row.effect == "write"),
                          (IS_POINTWISE, row.size == "operands" and row.effect == "none"), (IS_NUMBERED, row.numbered)):
        column[row.kind:row.kind + 1] = [value]


for _row in OPS:
    _enter(_row)

#: Called with each row that is registered, by whoever has made columns of his own.
listeners: list[Callable[[Op], None]] = []
#: Of rows that are registered, by kind: a number for what they mean, which keys of programs have beside the kind, since
#: that is another one in another process, and since rows of other packages may come to mean something else.
VERSIONS: dict[int, int] = {}


def register(row: Op, text: bytes = b"") -> Op:
    """Give a row with structure a kind, and a place in the table: the operands of its nodes, of any number, are
    values, indices, masks, and memory that is read; each element of the result is computed from the same element of
    those that are no memory.

    What it means to the other floors is registered there, see docs/architecture.md ("A row with structure"). The
    ``text`` is that of the modules that say so, if they are not the compiler's own: kernels on disk are those of it.

    Raises a ``ValueError`` for a name that is taken, and for what asks for more than that.
    """
    if row.name in KIND:
        raise ValueError(f"there is a row {row.name} already")
    if row.effect != "none" or row.barrier or row.size != "operands" or REGION in row.roles:
        raise ValueError(f"the row {row.name} does more than to compute its elements")
    if MEMORY in row.roles[row.roles.count(MEMORY):]:
        raise ValueError(f"the row {row.name} has memory behind other operands")
    vacant = [other.kind for other in OPS[FIRST_REGISTERED:FIRST_ELEMENTWISE] if other.name.startswith(VACANT)]
    if not vacant:
        raise ValueError(f"no kind is left for the row {row.name}")
    del KIND[OPS[vacant[0]].name]
    OPS[vacant[0]] = row = row._replace(kind=vacant[0])
    KIND[row.name] = row.kind
    VERSIONS[row.kind] = int.from_bytes(hashlib.blake2b(row.name.encode() + b"\0" + text, digest_size=7).digest())
    _enter(row)
    for listener in listeners:
        listener(row)
    return row
