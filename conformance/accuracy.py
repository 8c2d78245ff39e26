"""Errors of the traced mathematics on the domains of Dr.Jit's documentation, next to the errors stated there.

    PYTHONPATH=compiler:. python conformance/accuracy.py [samples]

As in that table, a result is compared with the correctly rounded one (a perfect function has errors of 0), on evenly
spaced arguments; "ulp" is the distance in units of the last place of the latter.  References are computed in extended
precision.  The last column is the error from the exact result, which a perfect function has at 0.5.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

import numpy as np

import drjit_core as core

FLOAT32, FLOAT64 = core.VarType.Float32.value, core.VarType.Float64.value


class Row(NamedTuple):
    """A function, its domain, and the documented errors: absolute, relative and ulp, each mean and largest."""

    type: int
    name: str
    low: float
    high: float
    documented: tuple[float, float, float, float, float, float] | None


_ANGLES, _EXP, _LOG = (-8192.0, 8192.0), (-20.0, 30.0), (1e-20, 2e30)
#: Appendix "Accuracy of transcendental operations" of Dr.Jit's documentation, and domains of our own.
ROWS = [
    Row(FLOAT32, "sin", *_ANGLES, (1.2e-8, 1.2e-7, 1.9e-8, 1.8e-6, 0.25, 19)),
    Row(FLOAT32, "cos", *_ANGLES, (1.2e-8, 1.2e-7, 1.9e-8, 3.1e-6, 0.25, 47)),
    Row(FLOAT32, "tan", *_ANGLES, (4.7e-6, 8.1e-1, 3.4e-8, 3.1e-6, 0.42, 30)),
    Row(FLOAT32, "exp", *_EXP, (0.72e4, 0.1e7, 2.4e-8, 1.2e-7, 0.27, 1)),
    Row(FLOAT32, "log", *_LOG, (9.6e-9, 7.6e-6, 1.4e-10, 1.2e-7, 0.0013, 1)),
    Row(FLOAT32, "sin", -1e6, 1e6, None),
    Row(FLOAT32, "cos", -4e6, 4e6, None),
    Row(FLOAT32, "exp2", *_EXP, None),
    Row(FLOAT32, "log", 0.5, 2.0, None),
    Row(FLOAT32, "log2", 0.5, 2.0, None),
    Row(FLOAT64, "sin", *_ANGLES, (2.2e-17, 2.2e-16, 3.6e-17, 3.1e-16, 0.25, 2)),
    Row(FLOAT64, "cos", *_ANGLES, (2.2e-17, 2.2e-16, 3.6e-17, 3e-16, 0.25, 2)),
    Row(FLOAT64, "tan", *_ANGLES, (6.8e-16, 1.2e-10, 5.4e-17, 4.1e-16, 0.35, 3)),
    Row(FLOAT64, "exp", *_EXP, (4.7e-6, 2e-3, 2.5e-17, 3.3e-16, 0.16, 2)),
    Row(FLOAT64, "log", *_LOG, (1.9e-17, 1.4e-14, 2.7e-19, 2.2e-16, 0.0013, 1)),
    Row(FLOAT64, "sin", -1e10, 1e10, None),
    Row(FLOAT64, "cos", -1e15, 1e15, None),
    Row(FLOAT64, "exp2", *_EXP, None),
    Row(FLOAT64, "log", 0.5, 2.0, None),
    Row(FLOAT64, "log2", 0.5, 2.0, None),
]


def operations(root: core.Node) -> int:
    """Number of operations of a traced function, without leaves and reinterpretations."""
    seen: dict[int, core.Node] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        if node.id not in seen:
            seen[node.id] = node
            stack += [d for d in (node.d0, node.d1, node.d2, node.d3) if d is not None]
    free = {core.KIND[name] for name in ("literal", "evaluated", "bitcast")}
    return sum(node.kind not in free for node in seen.values())


def measure(row: Row, samples: int) -> tuple[int, list[float]]:
    """Number of operations, and the errors in the order of the table."""
    dtype = np.dtype(core.TYPES[row.type].name)
    x = np.linspace(row.low, row.high, samples).astype(dtype)
    traced = getattr(core, row.name)(core.import_copy(row.type, x))
    count = operations(traced)
    node, address, buffer = core.host_view(traced)
    y = np.frombuffer(ctypes.string_at(address, node.size * dtype.itemsize), dtype).astype(np.longdouble)
    del buffer
    exact: Any = getattr(np, row.name)(x.astype(np.longdouble))
    rounded = exact.astype(dtype)
    spacing = np.spacing(np.abs(rounded)).astype(np.longdouble)
    error = np.abs(y - rounded)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = error / np.abs(rounded)
    columns = [error, relative[np.isfinite(relative)], error / spacing]
    errors = [float(f(c)) for c in columns for f in (np.mean, np.max)]
    return count, [*errors, float((np.abs(y - exact) / spacing).max())]


def main(samples: int) -> None:
    """Print the table; a line below a row shows what is documented."""
    print(f"{'function':14} {'domain':>20} {'ops':>4} {'abs mean':>9} {'max':>8} {'rel mean':>9} {'max':>8} "
          f"{'ulp mean':>9} {'max':>5} {'exact':>6}")
    for row in ROWS:
        count, errors = measure(row, samples)
        text = "{:9.2g} {:8.2g} {:9.2g} {:8.2g} {:9.2g} {:5.3g}"
        print(f"{row.name:5} {core.TYPES[row.type].name:8} {f'{row.low:g} … {row.high:g}':>20} {count:4} "
              f"{text.format(*errors[:6])} {errors[6]:6.2f}")
        if row.documented is not None:
            print(f"{'':14} {'documented':>20} {'':4} {text.format(*row.documented)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 20)
