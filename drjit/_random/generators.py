"""Random number generators: ``PCG32`` and ``Philox4x32``, a class of each in every package of array types.

Both are published algorithms, implemented from their papers; :class:`PCG32Base` and :class:`PhiloxBase` name them. The
classes hold arrays, and drawing numbers traces operations on them: nothing is evaluated.
"""

from __future__ import annotations

from typing import Any

from .._base.links import links
from .._base.types import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, SCALAR, UINT32, UINT64, Record
from .arithmetic import OnNodes, OnNumbers, array_type
from .pcg32 import PCG32Base
from .philox import PhiloxBase

__all__ = ["PCG32Base", "PhiloxBase", "generator"]


def generator(name: str, module: str, record: Record) -> type:
    """The class of a generator in the package of a record."""
    record = record._replace(kind="array", shape=())
    namespace = {"__slots__": (), "__module__": module, "__qualname__": name, "_name": f"{module}.{name}",
                 "_record": record}
    scalars = (BOOL, UINT32, INT64, UINT64, BFLOAT16, FLOAT16, FLOAT32, FLOAT64)
    if name == "PCG32":
        types = {scalar: array_type(record, scalar) for scalar in scalars}
        kind: Any = int if record.backend is SCALAR else types[UINT64]
        return type(name, (PCG32Base,), {
            **namespace, "__doc__": PCG32Base.__doc__, "DRJIT_STRUCT": {"state": kind, "inc": kind}, "_types": types,
            "_steps": OnNumbers if record.backend is SCALAR else OnNodes})
    arrays = {(scalar, size): array_type(record, scalar, (size,)) for scalar in scalars for size in (2, 4)}
    return type(name, (PhiloxBase,), {
        **namespace, "__doc__": PhiloxBase.__doc__, "_arrays": arrays, "_vectorised": record.backend is not SCALAR})


links.generator = generator
