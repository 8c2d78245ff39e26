"""Random programs on this project and on Dr.Jit's wheel: every result is the same, or the difference is explained.

    python conformance/random_peer.py --peer PYTHON [--programs 10000] [--seed N] [--show COUNT]

``PYTHON`` is an interpreter that has the wheel (with ``DRJIT_LIBLLVM_PATH`` in the environment, if it needs that). The
programs are those of ``tests/random_programs``. Each step of a program is run by the peer on the operands that it
had here, so that differences do not add up. Compared are type, shape, text and bits of the result, and whether the
step raises. What may differ, and why, stands in ``random_peer_known.py``; any other difference is shown with a program
of its own that reproduces it, and the exit status is 1.

The peer runs in a process of its own, on one batch of programs at a time. When it dies at a step, that is recorded, and
it goes on behind it.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "compiler"), str(ROOT / "conformance"), str(ROOT / "tests")]

from random_peer_known import Difference, classify, explain, values_agree  # noqa: E402
from random_peer_worker import decode_program, decode_value  # noqa: E402
from random_programs.programs import Program, Value, info_of  # noqa: E402

WORKER = ROOT / "conformance" / "random_peer_worker.py"
BATCH = 250
TIMEOUT = 300


def make_batch(first: int, count: int, folder: Path) -> Path:
    """A file with programs and their results here."""
    out = folder / f"programs-{first}.jsonl"
    subprocess.run([sys.executable, str(WORKER), "make", str(first), str(count), str(out)], check=True)
    return out


def replay_batch(peer: str, programs: Path, folder: Path) -> tuple[Path, list[str]]:
    """A file with the peer's results, and the steps at which it died or hung (``SEED:STEP``)."""
    out = programs.with_suffix(".replayed")
    progress = Path(f"{out}.progress")
    crashes: list[str] = []
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # which leads here
    while True:
        done = [f"{json.loads(line)['seed']}:done" for line in out.open(encoding="utf-8")] if out.exists() else []
        try:
            status = subprocess.run([peer, str(WORKER), "replay", str(programs), str(out), *done, *crashes],
                                    cwd=folder, env=environment, timeout=TIMEOUT, stderr=subprocess.DEVNULL).returncode
        except subprocess.TimeoutExpired:
            status = -1
        if status == 0:
            return out, crashes
        lines = progress.read_text("utf-8").split() if progress.exists() else []
        if not lines or lines[-1] in crashes:
            raise RuntimeError(f"the peer does not run (status {status}); try it by hand: {peer} {WORKER} replay "
                               f"{programs} {out}")
        crashes.append(lines[-1])


def compare(seed: int, program: Program, values: dict[str, Value], mine: list[dict[str, Any]],
            theirs: list[dict[str, Any]]) -> Iterator[Difference]:
    """The differences between the outcomes of a program's steps."""
    for step, ours, other in zip(program.steps, mine, theirs, strict=True):
        operands = {name: values[name] for name in step.uses}

        def difference(kind: str, mine: Any = None, theirs: Any = None) -> Difference:
            return Difference(seed, step, operands, kind, mine, theirs)  # noqa: B023

        if other.get("crashed"):
            yield difference("crashed")
        elif "raised" in ours or "raised" in other:
            if "raised" not in other:
                yield difference("raised here", ours["message"], decode_value(other["value"]))
            elif "raised" not in ours:
                yield difference("raised there", decode_value(ours["value"]), other["message"])
        else:
            a, b = decode_value(ours["value"]), decode_value(other["value"])
            if (a.type, ours["module"]) != (b.type, other["module"]):
                yield difference("type", a, b)
            elif a.type not in ("bool", "int", "float") and (
                    ours.get("shape") != other.get("shape") or len(a.parts) != len(b.parts)):
                yield difference("shape", a, b)
            elif not values_agree(a, b):
                yield difference("value", a, b)
            elif "text" in ours and "text" in other and ours["text"] != other["text"]:
                yield difference("text", ours.get("text"), other.get("text"))


def describe(difference: Difference) -> str:
    """A difference with a program that reproduces it."""
    program = Program(difference.seed, False, difference.operands, (difference.step,))
    text = f"{program}# {difference.kind}:\n"
    left = explain(difference)[1] if difference.kind == "value" else None
    if left is None:
        return f"{text}#   here  {difference.mine}\n#   there {difference.theirs}\n"
    parts = enumerate(zip(left, difference.parts(), strict=True))
    elements = [(k, lane, a[lane], b[lane]) for k, (mask, (a, b)) in parts for lane in mask.nonzero()[0]]
    for k, lane, mine, theirs in elements[:8]:
        text += f"#   component {k}, element {lane}: here {mine!r}, there {theirs!r}\n"
    return text


def main() -> int:
    """Run the programs; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--peer", default=os.environ.get("DRJIT_PEER_PYTHON"), help="the interpreter with the wheel")
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--show", type=int, default=20, help="how many of the unexplained differences to print")
    options = parser.parse_args()
    if not options.peer:
        parser.error("name an interpreter: --peer, or DRJIT_PEER_PYTHON")

    explained: collections.Counter[str] = collections.Counter()
    covered: collections.Counter[tuple[str, str]] = collections.Counter()
    steps, crashes, raised, differences = 0, 0, 0, 0
    unexplained: list[Difference] = []
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(1) as pool:
        folder = Path(name)

        def run_batch(first: int) -> tuple[Path, Path, list[str]]:
            programs = make_batch(first, min(BATCH, end - first), folder)
            return programs, *replay_batch(options.peer, programs, folder)

        end = options.seed + options.programs
        following = pool.submit(run_batch, options.seed)
        for first in range(options.seed, end, BATCH):
            programs, replayed, died = following.result()
            if first + BATCH < end:
                following = pool.submit(run_batch, first + BATCH)  # while this one is compared
            crashes += len(died)
            with programs.open(encoding="utf-8") as mine, replayed.open(encoding="utf-8") as theirs:
                found = {entry["seed"]: entry["steps"] for entry in map(json.loads, theirs)}
                for line in mine:
                    program, values, outcomes = decode_program(json.loads(line))
                    steps += len(program.steps)
                    raised += sum("raised" in outcome for outcome in outcomes)
                    for step in program.steps:
                        covered[step.op, info_of(values[step.uses[0]].type).name] += 1
                    for difference in compare(program.seed, program, values, outcomes, found[program.seed]):
                        try:
                            reasons = classify(difference)
                        except Exception as error:
                            raise RuntimeError(describe(difference)) from error
                        explained.update(reasons)
                        differences += 1
                        if not reasons:
                            unexplained.append(difference)
                            if len(unexplained) <= options.show:
                                print("\n" + describe(difference), flush=True)
            programs.unlink()
            replayed.unlink()
            print(f"\r{min(first + BATCH, end) - options.seed} programs, {steps} steps, {crashes} crashes of the peer, "
                  f"{differences - len(unexplained)} explained and {len(unexplained)} unexplained differences, "
                  f"{time.monotonic() - start:.0f} s", end="", flush=True)
    print(f"\n\nseeds {options.seed} to {end - 1}\n{options.programs} programs, {steps} steps ({raised} raise), "
          f"{len({op for op, _ in covered})} operations, {len({kind for _, kind in covered})} types, "
          f"{len(covered)} pairs of them\n{crashes} crashes of the peer\n\n"
          f"{differences} differences; explained, some by several reasons:")
    for reason, number in explained.most_common():
        print(f"{number:7}  {reason}")
    print(f"\nunexplained differences: {len(unexplained)}")
    groups = collections.Counter((d.step.op, d.kind, d.first.kind) for d in unexplained)
    for key, number in groups.most_common():
        print(f"{number:7}  {' '.join(key)}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
