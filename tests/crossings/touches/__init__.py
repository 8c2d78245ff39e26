"""Touches: what is done to an array, beside the same thing done to its model.

Many rows need one function only, since NumPy has the same syntax. The *room* of a touch says what it needs:

========= =============================================================================================
lanes     computes something for each lane; needs no memory
inplace   gives the array other values, lane by lane
gather    reads the array at positions that differ by lane: it must be in memory, active lanes matter
scatter   writes to such positions
read      reads elements from the host, or combines lanes
item      changes one element from the host
write     writes elements whose positions have nothing to do with lanes
========= =============================================================================================

It depends on the kind of the array: ``v[1]`` is a component of a nested array, an element of a flat one, and a part
of a tensor. Kinds (letters as in ``model.py``) that a row does not list have no such cell; ``TABLE`` says why.
"""

from . import arithmetic, items, access, axes, values  # noqa: I001  (rows stand in this order)
from .rows import TOUCHES, Touch

__all__ = ["TOUCHES", "Touch", "access", "arithmetic", "axes", "items", "values"]
