"""Errors of the traced mathematics on the domains of Dr.Jit's documentation, next to the errors stated there.

    PYTHONPATH=compiler:. python conformance/accuracy.py [samples] [--markdown FILE]

As in that table, a result is compared with the correctly rounded one (a perfect function has errors of 0), on evenly
spaced arguments; "ulp" is the distance in units of the last place of the latter.  References are computed in extended
precision, or by mpmath, which is slow: there, arguments are fewer.  The last column is the error from the exact result,
which a perfect function has at 0.5.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
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
_UNIT, _TEN, _THIRTY, _ABOVE_ONE = (-1.0, 1.0), (-10.0, 10.0), (-30.0, 30.0), (1.0, 10.0)
#: Appendix "Accuracy of transcendental operations" of Dr.Jit's documentation, and domains of our own.
ROWS = [
    Row(FLOAT32, "sin", *_ANGLES, (1.2e-8, 1.2e-7, 1.9e-8, 1.8e-6, 0.25, 19)),
    Row(FLOAT32, "cos", *_ANGLES, (1.2e-8, 1.2e-7, 1.9e-8, 3.1e-6, 0.25, 47)),
    Row(FLOAT32, "tan", *_ANGLES, (4.7e-6, 8.1e-1, 3.4e-8, 3.1e-6, 0.42, 30)),
    Row(FLOAT32, "cot", *_ANGLES, None),
    Row(FLOAT32, "asin", *_UNIT, (2.3e-8, 1.2e-7, 2.9e-8, 2.3e-7, 0.33, 2)),
    Row(FLOAT32, "acos", *_UNIT, (4.7e-8, 2.4e-7, 2.9e-8, 1.2e-7, 0.33, 1)),
    Row(FLOAT32, "atan", *_UNIT, (1.8e-7, 6e-7, 4.2e-7, 8.2e-7, 4.9, 12)),
    Row(FLOAT32, "sinh", *_TEN, (2.6e-5, 2e-3, 2.8e-8, 2.7e-7, 0.34, 3)),
    Row(FLOAT32, "cosh", *_TEN, (2.9e-5, 2e-3, 2.9e-8, 2.5e-7, 0.35, 4)),
    Row(FLOAT32, "tanh", *_TEN, (4.8e-8, 4.2e-7, 5e-8, 5e-7, 0.76, 7)),
    Row(FLOAT32, "asinh", *_THIRTY, (2.8e-8, 4.8e-7, 1e-8, 1.7e-7, 0.13, 2)),
    Row(FLOAT32, "acosh", *_ABOVE_ONE, (2.9e-8, 2.4e-7, 1.5e-8, 2.4e-7, 0.18, 3)),
    Row(FLOAT32, "atanh", *_UNIT, (9.9e-9, 2.4e-7, 1.5e-8, 1.2e-7, 0.18, 1)),
    Row(FLOAT32, "exp", *_EXP, (0.72e4, 0.1e7, 2.4e-8, 1.2e-7, 0.27, 1)),
    Row(FLOAT32, "log", *_LOG, (9.6e-9, 7.6e-6, 1.4e-10, 1.2e-7, 0.0013, 1)),
    Row(FLOAT32, "erf", *_UNIT, (3.2e-8, 1.8e-7, 6.4e-8, 3.3e-7, 0.78, 4)),
    Row(FLOAT32, "erfc", *_UNIT, (3.4e-8, 2.4e-7, 6.4e-8, 1e-6, 0.79, 11)),
    Row(FLOAT32, "erf", -4.0, 4.0, None),
    Row(FLOAT32, "erfc", 1.0, 9.0, None),
    Row(FLOAT32, "erfinv", *_UNIT, None),
    Row(FLOAT32, "lgamma", 0.0, 30.0, None),
    Row(FLOAT32, "lgamma", 1.0, 2.0, None),
    Row(FLOAT32, "atan", *_THIRTY, None),
    Row(FLOAT32, "cbrt", *_THIRTY, None),
    Row(FLOAT32, "rsqrt", 0.5, 2.0, None),
    Row(FLOAT32, "sin", -1e6, 1e6, None),
    Row(FLOAT32, "cos", -4e6, 4e6, None),
    Row(FLOAT32, "exp2", *_EXP, None),
    Row(FLOAT32, "log", 0.5, 2.0, None),
    Row(FLOAT32, "log2", 0.5, 2.0, None),
    Row(FLOAT64, "sin", *_ANGLES, (2.2e-17, 2.2e-16, 3.6e-17, 3.1e-16, 0.25, 2)),
    Row(FLOAT64, "cos", *_ANGLES, (2.2e-17, 2.2e-16, 3.6e-17, 3e-16, 0.25, 2)),
    Row(FLOAT64, "tan", *_ANGLES, (6.8e-16, 1.2e-10, 5.4e-17, 4.1e-16, 0.35, 3)),
    Row(FLOAT64, "cot", *_ANGLES, (4.9e-16, 1.2e-10, 5.5e-17, 4.4e-16, 0.36, 3)),
    Row(FLOAT64, "asin", *_UNIT, (1.3e-17, 2.2e-16, 1.5e-17, 2.2e-16, 0.098, 1)),
    Row(FLOAT64, "acos", *_UNIT, (5.4e-17, 4.4e-16, 3.5e-17, 2.2e-16, 0.23, 1)),
    Row(FLOAT64, "atan", *_UNIT, (4.3e-17, 3.3e-16, 1e-16, 7.1e-16, 0.65, 5)),
    Row(FLOAT64, "sinh", *_TEN, (3.1e-14, 1.8e-12, 3.3e-17, 4.3e-16, 0.22, 2)),
    Row(FLOAT64, "cosh", *_TEN, (2.2e-14, 1.8e-12, 2e-17, 2.9e-16, 0.13, 2)),
    Row(FLOAT64, "tanh", *_TEN, (5.6e-17, 3.3e-16, 6.1e-17, 5.5e-16, 0.52, 3)),
    Row(FLOAT64, "asinh", *_THIRTY, (5.1e-17, 8.9e-16, 1.9e-17, 4.4e-16, 0.13, 2)),
    Row(FLOAT64, "acosh", *_ABOVE_ONE, (4.9e-17, 4.4e-16, 2.6e-17, 6.6e-16, 0.17, 5)),
    Row(FLOAT64, "atanh", *_UNIT, (1.8e-17, 4.4e-16, 3.2e-17, 3e-16, 0.21, 2)),
    Row(FLOAT64, "exp", *_EXP, (4.7e-6, 2e-3, 2.5e-17, 3.3e-16, 0.16, 2)),
    Row(FLOAT64, "log", *_LOG, (1.9e-17, 1.4e-14, 2.7e-19, 2.2e-16, 0.0013, 1)),
    Row(FLOAT64, "erf", *_UNIT, (4.7e-17, 4.4e-16, 9.6e-17, 5.9e-16, 0.63, 5)),
    Row(FLOAT64, "erfc", *_UNIT, (4.8e-17, 4.4e-16, 9.6e-17, 2.5e-15, 0.64, 16)),
    Row(FLOAT64, "erf", -4.0, 4.0, None),
    Row(FLOAT64, "erfc", 1.0, 20.0, None),
    Row(FLOAT64, "erfinv", *_UNIT, None),
    Row(FLOAT64, "lgamma", 0.0, 30.0, None),
    Row(FLOAT64, "lgamma", 1.0, 2.0, None),
    Row(FLOAT64, "atan", *_THIRTY, None),
    Row(FLOAT64, "cbrt", *_THIRTY, None),
    Row(FLOAT64, "sin", -1e10, 1e10, None),
    Row(FLOAT64, "cos", -1e15, 1e15, None),
    Row(FLOAT64, "exp2", *_EXP, None),
    Row(FLOAT64, "log", 0.5, 2.0, None),
    Row(FLOAT64, "log2", 0.5, 2.0, None),
]


#: Functions by other names, or written in terms of others, in extended precision.
REFERENCES: dict[str, Callable[[Any], Any]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "cot": lambda x: 1 / np.tan(x), "rsqrt": lambda x: 1 / np.sqrt(x)}
#: Functions whose reference is mpmath.
SLOW: dict[str, Callable[[Any], Any]] = {
    "erf": mpmath.erf, "erfc": mpmath.erfc, "erfinv": mpmath.erfinv, "lgamma": mpmath.loggamma}


def slow_reference(function: Callable[[Any], Any], x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values of a function of mpmath in extended precision: each a sum of two doubles."""
    with mpmath.workdps(30):
        exact = [function(mpmath.mpf(float(value))) for value in x]
        high = [float(value) for value in exact]
        low = [float(value - part) for value, part in zip(exact, high, strict=True)]
    return np.array(high, np.longdouble) + np.array(low, np.longdouble)


def operations(root: core.Node) -> int:
    """Number of operations of a function's expansion, without leaves and reinterpretations."""
    seen: dict[int, core.Node] = {}
    stack = [root]
    while stack:
        node = core.expansion(stack.pop())
        if node.id not in seen:
            seen[node.id] = node
            stack += [d for d in (node.d0, node.d1, node.d2, node.d3) if d is not None]
    free = {core.KIND[name] for name in ("literal", "evaluated", "bitcast")}
    return sum(node.kind not in free for node in seen.values())


def measure(row: Row, samples: int) -> tuple[int, list[float]]:
    """Number of operations, and the errors in the order of the table."""
    dtype = np.dtype(core.TYPES[row.type].name)
    if row.name in SLOW:
        samples //= 256
    x = np.linspace(row.low, row.high, samples).astype(dtype)
    if row.name in SLOW or row.name in ("acosh", "atanh"):
        x = x[1:-1]  # without poles, and the end that rounding moves out of the domain
    traced = getattr(core, row.name)(core.import_copy(row.type, x))
    count = operations(traced)
    node, address, buffer = core.host_view(traced)
    y = np.frombuffer(ctypes.string_at(address, node.size * dtype.itemsize), dtype).astype(np.longdouble)
    del buffer
    if row.name in SLOW:
        exact: Any = slow_reference(SLOW[row.name], x)
    else:
        exact = REFERENCES.get(row.name, getattr(np, row.name, None))(x.astype(np.longdouble))
    rounded = exact.astype(dtype)
    spacing = np.spacing(np.abs(rounded)).astype(np.longdouble)
    error = np.abs(y - rounded)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = error / np.abs(rounded)
    columns = [error, relative[np.isfinite(relative)], error / spacing]
    errors = [float(f(c)) for c in columns for f in (np.mean, np.max)]
    return count, [*errors, float((np.abs(y - exact) / spacing).max())]


def print_table(samples: int) -> None:
    """Print the table; a line below a row shows what is documented."""
    print(f"{'function':15} {'domain':>20} {'ops':>4} {'abs mean':>9} {'max':>8} {'rel mean':>9} {'max':>8} "
          f"{'ulp mean':>9} {'max':>5} {'exact':>6}")
    for row in ROWS:
        count, errors = measure(row, samples)
        text = "{:9.2g} {:8.2g} {:9.2g} {:8.2g} {:9.2g} {:5.3g}"
        print(f"{row.name:6} {core.TYPES[row.type].name:8} {f'{row.low:g} … {row.high:g}':>20} {count:4} "
              f"{text.format(*errors[:6])} {errors[6]:6.2f}")
        if row.documented is not None:
            print(f"{'':15} {'documented':>20} {'':4} {text.format(*row.documented)}")


INTRODUCTION = """# Accuracy of mathematical functions

Errors of the traced functions against references in extended precision, on evenly spaced arguments. As in the appendix
of Dr.Jit's documentation, the result is compared with the correctly rounded one, so that a perfect function has an
error of 0; the unit of the last place (ulp) is that of the latter. *Documented* are the errors that the appendix
states, mean / largest. Functions of half precision are computed in single precision.

This page is written by `python conformance/accuracy.py --markdown docs/accuracy.md`.
"""


def write_page(file: str, samples: int) -> None:
    """Write the table as a page of the documentation."""
    lines = [INTRODUCTION]
    for type_, title in ((FLOAT32, "Single precision"), (FLOAT64, "Double precision")):
        lines += [f"## {title}\n",
                  "| function | domain | operations | abs. error | rel. error | ulp | documented ulp |",
                  "|---|---|---|---|---|---|---|"]
        for row in (row for row in ROWS if row.type == type_):
            count, e = measure(row, samples)
            known = "" if row.documented is None else "{:.2g} / {:g}".format(*row.documented[4:])
            lines.append(f"| `{row.name}` | {row.low:g} … {row.high:g} | {count} | {e[0]:.1e} / {e[1]:.1e} | "
                         f"{e[2]:.1e} / {e[3]:.1e} | {e[4]:.2g} / {e[5]:.0f} | {known} |")
        lines.append("")
    with open(file, "w", encoding="utf-8") as output:
        output.write("\n".join(lines))


def main() -> None:
    """Print the table, or write the page."""
    parser = argparse.ArgumentParser(description="Errors of the traced mathematics.")
    parser.add_argument("samples", nargs="?", type=int, default=1 << 20, help="arguments (default: %(default)s)")
    parser.add_argument("--markdown", metavar="FILE", help="write a page of the documentation instead")
    options = parser.parse_args()
    if options.markdown:
        write_page(options.markdown, options.samples)
    else:
        print_table(options.samples)


if __name__ == "__main__":
    main()
