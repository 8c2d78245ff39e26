"""An independent executor of the graph, on NumPy arrays: floor 3.

It runs nodes as they were traced, with the meanings of the op table, one after the other: no planning, no fusion, no
memory that is shared between versions.  It is slow, and it is the oracle of the tests.

===================  ==============================================================================================
:mod:`.elementwise`  rows of the table on whole arrays: by their folding functions, or by NumPy where that is the same
:mod:`.memory`       conversions, and accesses by index
:mod:`.steps`        what steps compute
:mod:`.execution`    what each kind of node means, and the order of execution
===================  ==============================================================================================
"""

from .execution import Interpreter

__all__ = ["Interpreter"]
