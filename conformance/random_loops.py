"""Random loops through ``dr.while_loop``: symbolic and evaluated modes agree, and so does Dr.Jit's wheel.

    python conformance/random_loops.py [--programs 300] [--seed N] [--peer PYTHON] [--show COUNT]

Programs are made of loops, nested two deep, that read tables and add integers to bins; each is text, which any
interpreter with a ``drjit`` runs.  ``PYTHON`` is one that has the wheel (with ``DRJIT_LIBLLVM_PATH`` in the
environment, if it needs that); it runs in processes of its own, a batch each.  All operations are exact, so that
results are compared bit by bit; what is equal in all elements may have one or all of them.  The exit status is 1 if
anything differs.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BATCH, TIMEOUT = 50, 300
SIZES = (1, 2, 15, 16, 17, 100, 1000)
#: Operations by the type of their operands; the result has the same type.
OPERATIONS = {
    "Float": ("{a} + {b}", "{a} - {b}", "{a} * {b}", "dr.minimum({a}, {b})", "dr.maximum({a}, {b})", "-{a}",
              "dr.abs({a})", "dr.select({a} < {b}, {b}, {a})", "dr.fma({a}, {b}, {c})", "dr.floor({a})"),
    "UInt32": ("{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} & {b}", "{a} | {b}", "{a} ^ {b}", "{a} >> ({b} & 7)",
               "dr.select({a} < {b}, {b}, {a})", "dr.minimum({a}, {b})", "dr.popcnt({a})"),
}


class _Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.size = self.random.choice(SIZES)
        self.lines: list[str] = []
        self.serial = 0

    def write(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def name(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def value(self, type_: str, known: dict[str, str]) -> str:
        """A variable of a type, or a number."""
        names = [name for name, other in known.items() if other == type_]
        if names and self.random.random() < 0.85:
            return self.random.choice(names)
        number = self.random.randint(0, 9)
        return f"m.{type_}({number / 4 if type_ == 'Float' else number})"

    def step(self, depth: int, known: dict[str, str]) -> None:
        """An operation, whose result becomes a new variable."""
        type_ = self.random.choice(("Float", "UInt32"))
        kind = self.random.random()
        name = self.name("v")
        if kind < 0.15:
            table = "table" if type_ == "Float" else "numbers"
            active = f", {self.mask(known)}" if self.random.random() < 0.3 else ""
            self.write(depth, f"{name} = dr.gather(m.{type_}, {table}, ({self.value('UInt32', known)}) % 37{active})")
        elif kind < 0.25:
            other = "UInt32" if type_ == "Float" else "Float"
            value = self.value(other, known)
            self.write(depth, f"{name} = m.{type_}({value} & 1023)" if other == "UInt32" else
                       f"{name} = m.UInt32(dr.minimum(dr.maximum({value}, 0), 1000))")
        else:
            pattern = self.random.choice(OPERATIONS[type_])
            self.write(depth, f"{name} = " + pattern.format(**{key: self.value(type_, known) for key in "abc"}))
        known[name] = type_

    def mask(self, known: dict[str, str]) -> str:
        type_ = self.random.choice(("Float", "UInt32"))
        return f"{self.value(type_, known)} {self.random.choice(('<', '>', '!='))} {self.value(type_, known)}"

    def loop(self, depth: int, known: dict[str, str], outside: frozenset[str] = frozenset()) -> None:
        """A loop over some of the variables and a counter; they have new values afterwards.

        ``outside`` are variables that it can read only, since they belong to a function around it.
        """
        nested = bool(outside)
        own = sorted(name for name in known.keys() - outside if name[0] != "i")  # counters count
        names = self.random.sample(own, min(len(own), self.random.randint(1, 4)))
        function, counter, limit = self.name("loop"), self.name("i"), self.random.randint(1, 6)
        bins = not nested and self.random.random() < 0.5
        state = [counter, *names, *(["bins"] if bins else [])]
        self.write(depth, f"def {function}_cond({', '.join(state)}):")
        inner = {**known, counter: "UInt32"}
        bound = f"{limit}" if self.random.random() < 0.5 else f"1 + (({self.value('UInt32', known)}) & {limit})"
        self.write(depth + 1, f"return {counter} < {bound}")
        self.write(depth, f"def {function}_body({', '.join(state)}):")
        for _ in range(self.random.randint(1, 4)):
            self.step(depth + 1, inner)
        if not nested and self.random.random() < 0.4:
            self.loop(depth + 1, inner, frozenset(known) - set(names))
        if bins:
            place, active = self.value("UInt32", inner), self.mask(inner)
            self.write(depth + 1, f"dr.scatter_add(bins, {self.value('UInt32', inner)}, ({place}) % 16, {active})")
        results = [f"{counter} + 1"]
        for name in names:
            fitting = [other for other, type_ in inner.items() if type_ == inner[name]]
            results.append(self.random.choice(fitting))
        self.write(depth + 1, f"return {', '.join([*results, *(['bins'] if bins else [])])},")
        initial = [f"m.UInt32({self.random.choice(('0', 'lane & 1'))})", *names, *(["bins"] if bins else [])]
        self.write(depth, f"{', '.join(state)}, = dr.while_loop(({', '.join(initial)},), {function}_cond, "
                          f"{function}_body, mode=mode)")
        known[counter] = "UInt32"

    def program(self) -> str:
        self.write(0, "def program(dr, m, mode):")
        self.write(1, f"lane = dr.arange(m.UInt32, {self.size})")
        self.write(1, f"x = (m.Float(lane) - {self.size // 3}) * 0.375")
        self.write(1, "y = m.UInt32(lane * 7 + 3)")
        self.write(1, "table, numbers = m.Float(dr.arange(m.UInt32, 37)) * 0.5, dr.arange(m.UInt32, 37) * 5")
        self.write(1, "bins = dr.zeros(m.UInt32, 16)")
        known = {"lane": "UInt32", "x": "Float", "y": "UInt32"}
        for _ in range(self.random.randint(1, 3)):
            for _ in range(self.random.randint(0, 2)):
                self.step(1, known)
            self.loop(1, known)
        self.write(1, f"return [bins, {', '.join(sorted(known))}]")
        return "\n".join(self.lines) + "\n"


def text_of(seed: int) -> str:
    """The program of a seed."""
    return _Writer(seed).program()


def run(seed: int, dr: Any, module: Any, mode: str) -> list[str]:
    """The bits of the program's results, or what it raises."""
    import numpy as np

    scope: dict[str, Any] = {}
    exec(text_of(seed), scope)
    try:
        found = scope["program"](dr, module, mode)
        results = []
        for value in found:
            data = np.array(value)
            if data.dtype.kind == "f":  # one NaN
                data = np.where(np.isnan(data), np.float32("nan"), data)
            if len({data[i:i + 1].tobytes() for i in range(data.size)}) == 1:
                data = data[:1]
            results.append(f"{data.dtype} {data.reshape(-1).tobytes().hex()}")
        return results
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def worker(mode: str, seeds: Sequence[int]) -> None:
    """Run programs with whatever ``drjit`` there is, and print their results."""
    import drjit as dr
    import drjit.llvm as module

    dr.set_flag(dr.JitFlag.FastMath, False)
    for seed in seeds:
        print(json.dumps([seed, run(seed, dr, module, mode)]), flush=True)


def collect(python: str, mode: str, seeds: Sequence[int], ours: bool) -> dict[int, list[str]]:
    """The results of programs in an interpreter; of those at which it dies, that it did."""
    found: dict[int, list[str]] = {}
    rest = list(seeds)
    setup = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'compiler')!r}]\n" if ours else "import sys\n"
    start = f"{setup}sys.path.append({str(ROOT / 'conformance')!r}); import random_loops\n"
    with tempfile.TemporaryDirectory() as folder:
        while rest:
            batch = rest[:BATCH]
            try:
                done = subprocess.run([python, "-c", f"{start}random_loops.worker({mode!r}, {batch})"], cwd=folder,
                                      capture_output=True, text=True, timeout=TIMEOUT, check=False).stdout
            except subprocess.TimeoutExpired as error:
                done = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
            for line in done.splitlines():
                seed, results = json.loads(line)
                found[seed] = results
            missing = [seed for seed in batch if seed not in found]
            if missing:
                found[missing[0]] = ["died or hung"]
            rest = [seed for seed in rest if seed not in found]
    return found


def main() -> int:
    """Run, compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peer", help="an interpreter that has Dr.Jit's wheel")
    parser.add_argument("--show", type=int, default=3, help="how many differing programs to print")
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.programs)
    symbolic = collect(sys.executable, "symbolic", seeds, True)
    others = {"evaluated": collect(sys.executable, "evaluated", seeds, True)}
    if arguments.peer:
        others["the peer"] = collect(arguments.peer, "symbolic", seeds, False)
    raised = [seed for seed in seeds if len(symbolic[seed]) == 1]
    print(f"{len(seeds)} programs, {len(raised)} of which raise in symbolic mode")
    status = 0
    for name, results in others.items():
        failed = [seed for seed in seeds if len(results[seed]) == 1]
        differing = [seed for seed in seeds if results[seed] != symbolic[seed]]
        if name == "the peer":  # which dies of some nested loops
            differing = [seed for seed in differing if seed not in failed]
        print(f"symbolic mode and {name}: {len(differing)} differ; {name} raises or dies at {len(failed)}")
        status |= bool(differing)
        for seed in differing[:arguments.show]:
            wrong = [i for i, (a, b) in enumerate(zip(symbolic[seed], results[seed], strict=False)) if a != b]
            print(f"\nseed {seed}: results {wrong}\n{text_of(seed)}")
            print("  symbolic:", *(symbolic[seed][i][:100] for i in wrong[:2]), sep="\n    ")
            print(f"  {name}:", *(results[seed][i][:100] for i in wrong[:2]), sep="\n    ")
    return status


if __name__ == "__main__":
    sys.exit(main())
