"""Derivatives of every operation, here and on Dr.Jit's wheel: all are the same, or the difference is explained.

    python conformance/operation_gradients.py --peer PYTHON [--seed N] [--show COUNT]

``PYTHON`` is an interpreter that has the wheel (with ``DRJIT_LIBLLVM_PATH`` in the environment, if it needs that). The
operations and points (special numbers, all combinations of them, and random ones) are those of
``tests/derivatives/operations.py``; the types are half, single and double precision. Compared are, element by element,
the derivatives with respect to each operand: in reverse mode and in forward mode here on both backends, and there. What
may differ, and why, stands in ``operation_gradients_known.py``; any other difference is printed, and the exit status is
1. Second derivatives, which the wheel does not have, are compared with finite differences of first ones in double
precision.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "derivatives"))

from operations import OPERATIONS, TYPES, points  # noqa: E402

Array = np.ndarray[Any, Any]

def derivatives(text: str, name: str, operands: list[Array], dr: Any, types: Any) -> list[Any]:
    """The value of an operation, and its derivatives: of each operand, in reverse and in forward mode."""
    cls = getattr(types, name)

    def result(xs: list[Any]) -> Any:
        return eval(text, {"dr": dr}, dict(zip("xyz", xs, strict=False)))

    def of(x: Any) -> Any:
        return np.broadcast_to(x.numpy().astype(np.float64), operands[0].shape).copy()

    def tracked(which: Any) -> list[Any]:
        xs = [cls(values) for values in operands]
        dr.enable_grad(*[xs[k] for k in which])
        return xs

    everything = range(len(operands))
    xs = tracked(everything)
    value = result(xs)
    if dr.grad_enabled(value):
        dr.backward(value)
    found = [of(value), *(of(dr.grad(x)) for x in xs)]
    for k in everything:
        xs = tracked([k])
        value = result(xs)
        if dr.grad_enabled(value):
            dr.set_grad(xs[k], cls(1))
            dr.enqueue(dr.ADMode.Forward, xs[k])
            dr.traverse(dr.ADMode.Forward)
        found.append(of(dr.grad(value)))
    return found


def outcomes(seed: int, dr: Any, types: Any) -> dict[str, Any]:
    """All operations and types: arrays, or what is raised, as text."""
    found: dict[str, Any] = {}
    for text, count in OPERATIONS.items():
        for name, dtype in TYPES.items():
            try:
                found[f"{text}, {name}"] = derivatives(text, name, points(count, dtype, seed), dr, types)
            except Exception as error:
                found[f"{text}, {name}"] = f"{type(error).__name__}: {error}".splitlines()[0]
    return found


def worker(seed: int, target: Path) -> None:
    """The wheel's results."""
    import drjit
    from drjit.llvm import ad

    found = outcomes(seed, drjit, ad)
    np.savez(target, **{key: np.array(value) for key, value in found.items() if not isinstance(value, str)})
    target.with_suffix(".json").write_text(json.dumps({k: v for k, v in found.items() if isinstance(v, str)}), "utf-8")


def at_peer(peer: str, seed: int) -> dict[str, Any]:
    """What the peer finds."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "found.npz"
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # which leads here
        subprocess.run([peer, __file__, "--worker", str(target), "--seed", str(seed)], cwd=folder, check=True,
                       timeout=600, env=environment)
        with np.load(target) as arrays:
            return {**arrays, **json.loads(target.with_suffix(".json").read_text("utf-8"))}


def second_derivatives(seed: int, dr: Any, types: Any) -> list[str]:
    """Products with the Hessian that are not what finite differences of gradients are."""
    wrong = []
    for text, count in OPERATIONS.items():
        xs = [values[-150:].astype(np.float64) for values in points(count, np.float64, seed)]
        direction = [np.random.default_rng([seed, k]).uniform(-1, 1, 150) for k in range(count)]

        def function(*operands: Any, text: str = text) -> Any:
            return dr.sum(eval(text, {"dr": dr}, dict(zip("xyz", operands, strict=False))) * types.Float64(1))

        def gradient(step: float) -> list[Array]:
            operands = [types.Float64(x + step * d) for x, d in zip(xs, direction, strict=True)]  # noqa: B023
            found = dr.value_and_grad(function, tuple(range(count)))(*operands)[1]  # noqa: B023
            return [np.broadcast_to(entry.numpy(), 150) for entry in found]

        h = 1e-5
        product = dr.hvp(function, tuple(map(types.Float64, xs)), tuple(map(types.Float64, direction)))[1]
        for position, found in enumerate(product):
            steps = [gradient(step)[position] for step in (h, -h, 2 * h, -2 * h)]
            near, far = (steps[0] - steps[1]) / (2 * h), (steps[2] - steps[3]) / (4 * h)
            smooth = np.isfinite(near) & (np.abs(near - far) <= 1e-3 * (np.abs(near) + 1))
            off = np.abs(found.numpy() - (4 * near - far) / 3) > 1e-4 * (np.abs(near) + 1)
            for k in (smooth & off).nonzero()[0][:3]:
                wrong.append(f"{text}: second derivative by operand {position} at {[float(x[k]) for x in xs]}: "
                             f"{np.broadcast_to(found.numpy(), 150)[k]}, but finite differences are {near[k]}")
    return wrong


def main() -> int:
    """Compare all operations; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--peer", default=os.environ.get("DRJIT_PEER_PYTHON"), help="the interpreter with the wheel")
    parser.add_argument("--seed", type=int, default=0, help="of the random points")
    parser.add_argument("--show", type=int, default=3, help="how many elements of a difference to print")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.seed, options.worker)
        return 0
    if not options.peer:
        parser.error("name an interpreter: --peer, or DRJIT_PEER_PYTHON")
    sys.path[:0] = [str(ROOT), str(ROOT / "compiler")]
    from operation_gradients_known import KNOWN, MISSING, Point, equal

    import drjit
    import drjit_core
    from drjit.llvm import ad

    theirs = at_peer(options.peer, options.seed)
    mine = {"LLVM": outcomes(options.seed, drjit, ad)}
    with drjit_core.on_backend("interpreter"):
        mine["interpreter"] = outcomes(options.seed, drjit, ad)
    reasons: collections.Counter[str] = collections.Counter()
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    failures = second_derivatives(options.seed, drjit, ad)
    for backend, results in mine.items():
        for key, own in results.items():
            text, _, name = key.rpartition(", ")
            other, count = theirs[key], OPERATIONS[text]
            if isinstance(own, str) or isinstance(other, str):
                reason = next((reason for part, reason in MISSING.items() if part in str(other)), "")
                counts[text]["missing there"] += 1
                if isinstance(own, str) or not reason:
                    failures.append(f"{key}, {backend}: here {own if isinstance(own, str) else 'derivatives'}, "
                                    f"there {other if isinstance(other, str) else 'derivatives'}")
                else:
                    reasons[reason] += 1
                continue
            operands = [values.astype(np.float64) for values in points(count, TYPES[name], options.seed)]
            for row in range(1, 2 * count + 1):
                position, mode = (row - 1) % count, "reverse" if row <= count else "forward"
                a, b = own[row], other[row]
                left = ~equal(a, b, name)
                counts[text]["equal"] += int((~left).sum())
                point = Point(a, b, own[0], other[0], position, name, operands)
                for known in KNOWN if left.any() else ():
                    if text in known.operations or not known.operations:
                        with np.errstate(all="ignore"):
                            found = left & known.test(point)
                        reasons[known.reason] += int(found.sum())
                        counts[text]["explained"] += int(found.sum())
                        left &= ~found
                counts[text]["unexplained"] += int(left.sum())
                for k in left.nonzero()[0][:options.show]:
                    failures.append(f"{key}, {backend}, {mode} mode, operand {position} at "
                                    f"{[float(values[k]) for values in operands]} (value {own[0][k]:.6g}): "
                                    f"here {a[k]:.9g}, there {b[k]:.9g}")
    for failure in failures:
        print(failure)
    columns = ("equal", "explained", "missing there", "unexplained")
    print(f"\n{'operation':26}" + "".join(f"{column:>15}" for column in columns))
    for text, row in counts.items():
        print(f"{text:26}" + "".join(f"{row[column]:15}" for column in columns))
    print(f"{'all':26}" + "".join(f"{sum(row[column] for row in counts.values()):15}" for column in columns))
    print("\ndifferences that are explained:")
    for reason, number in reasons.most_common():
        print(f"{number:8}  {reason}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
