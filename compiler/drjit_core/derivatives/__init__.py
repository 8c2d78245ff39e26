"""Derivatives: how gradients flow along the vertices that tracing has recorded (:mod:`drjit_core.ir.dual`).

==================  ==================================================================================================
:mod:`.formulas`    the trace functions that the rules of :mod:`drjit_core.ops.derivatives` are written in
:mod:`.flow`        gradients of vertices: what is added to them, in which sizes, and how a failure leaves no trace
:mod:`.structure`   the derivatives of memory operations, reductions, layouts and steps
:mod:`.traversal`   which vertices take part, and their order
==================  ==================================================================================================
"""
