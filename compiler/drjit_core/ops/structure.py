"""Rows with structure: leaves of the graph, memory, reductions, regions.

The emitter has a function for each, and they are described in :mod:`drjit_core.ir.node`.
"""

from __future__ import annotations

from .op import INDEX, MASK, MEMORY, REGION, VALUE, Op, OpRows

__all__ = ["VACANT", "rows", "structural"]

#: What rows are called whose kinds wait for :func:`drjit_core.ops.table.register`.
VACANT = "vacant_"
_KINDS = 64  # of rows with structure, those that wait included


def _leaf(name: str, doc: str, cost: int = 0, numbered: bool = True) -> Op:
    return structural(name, (), doc, result="own", size="own", cost=cost, numbered=numbered)


def structural(name: str, roles: tuple[int, ...], doc: str, **columns: object) -> Op:
    """A row with structure, whose operands have roles."""
    columns = {"cost": 0, **columns}
    return Op(name, len(roles), "biuf", None, doc, roles=roles, **columns)  # type: ignore[arg-type]


rows = OpRows([
    # --- leaves ------------------------------------------------------------------------------------------------------
    _leaf("invalid", "The array of size zero."),
    structural("dual", (VALUE,), "A value with a derivative, as tracing knows it; see :mod:`drjit_core.ir.dual`.",
               numbered=False),
    _leaf("literal", "The same constant in every element; a kernel parameter unless baked in."),
    _leaf("bound", "A constant of which tracing knows the type only: it is bound when the kernel is launched.",
          numbered=False),
    _leaf("undefined", "Memory that has not been written yet.", numbered=False),
    _leaf("evaluated", "The contents of a buffer.", cost=6, numbered=False),
    _leaf("counter", "The position of the element: 0, 1, 2 …"),
    _leaf("phi", "The value of a loop variable at the start of an iteration.", numbered=False),
    # --- memory, reductions, regions ---------------------------------------------------------------------------------
    structural("gather", (MEMORY, INDEX, MASK), "Masked indirect read: source, index, mask.", cost=30,
               needs_memory=True, speculable=False),
    structural("scatter", (MEMORY, VALUE, INDEX, MASK),
               "A new version of a target after a masked indirect write: target, value, index, mask.", size="memory",
               effect="write", barrier=True, needs_memory=True, speculable=False, numbered=False),
    structural("reduce", (VALUE,), "Reduction of all elements to one, or to a matrix.", size="own", barrier=True),
    structural("opaque", (VALUE,), "The same values, in memory of their own.", numbered=False),
    structural("cast", (VALUE,), "Conversion to another type.", result="own", cost=1),
    structural("bitcast", (VALUE,), "Reinterpretation of the bits as another type of the same size.", result="bits"),
    structural("loop", (), "A region that is repeated while its condition holds in some element.", result="mask",
               size="own", effect="region", speculable=False, numbered=False),
    structural("cond", (MASK,), "Two regions: one for the elements whose mask is set, one for the others.",
               result="mask", size="own", effect="region", speculable=False, numbered=False),
    structural("call", (INDEX, MASK), "Several regions: each element goes through the one that its index says.",
               result="mask", size="own", effect="region", speculable=False, numbered=False),
    structural("result", (REGION,), "What a loop, a branch or a call computes.", result="own", size="own",
               numbered=False),
    structural("fetch", (MEMORY,), "What the lanes of a scatter-reduction found before their updates.", size="own",
               speculable=False),
    structural("access", (MEMORY,), "A part of an array in its own or in reverse order: offset and stride.",
               result="same", size="own", cost=7, needs_memory=True),
    structural("view", (VALUE,), "Elements of an array in another layout: base, extents, strides.", size="own",
               cost=7),
    structural("segment", (VALUE,), "Reduction of an array of three axes along the middle one.", size="own", cost=1),
    structural("step", (MEMORY, MEMORY, MEMORY),
               "One of the results of what takes launches of its own, see :mod:`.steps`; it may have fewer operands.",
               result="own", size="own", barrier=True, needs_memory=True),
    structural("pack", (), "Several operands of a node, behind one of its slots.", result="own", size="own"),
    structural("local", (), "Memory that each element has to itself, see :mod:`drjit_core.ir.extension`.",
               result="own", size="own", speculable=False, numbered=False),
])
rows += [_leaf(f"{VACANT}{kind}", "A kind that no row has taken.")._replace(accepts="")
         for kind in range(len(rows), _KINDS)]
