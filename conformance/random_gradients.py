"""Gradients of random programs on this project and on Dr.Jit's wheel: all are the same.

    python conformance/random_gradients.py --peer PYTHON [--programs 300] [--seed N] [--show COUNT]

``PYTHON`` is an interpreter that has the wheel (with ``DRJIT_LIBLLVM_PATH`` in the environment, if it needs that). The
programs are those of ``tests/derivatives/programs.py``, without what the wheel does not have. A program with other
gradients, or that one side cannot run, is made small and printed, and the exit status is 1. The peer runs in a process
of its own; when it dies at a program, that is counted, and it goes on behind it.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "derivatives"))

from programs import Machine, Program, differences, generate, numbers, shrink, weighted, weights  # noqa: E402

#: What the wheel has no counterpart of, as patterns of statements: lists of rows of tensors, assignments by masks, axes
#: that change places with themselves, broadcast tensors in ``replace_grad``, derivatives of extrema of scattered single
#: elements, and of loops without a bound; vectors that are written to arrays whose size is no multiple of theirs. And
#: permuted tensors and sorting: there, gradients that such a step gives a variable replace those that it had.
MISSING = (r"\w\[.*\[.*\].*\]", r"\w\[\w+ > .*\] = ", r"axes?\(\w+, (\d), \1\)", "replaced", "permuted",
           r"dr\.sort", r"scatter_reduce\(dr.ReduceOp.M", "loop", r"scatter\w*\(\w+, \w+, I\(\[\d(, \d)*\]\)\)$")


def gradients(program: Program, dr: Any, types: Any) -> dict[str, list[float]]:
    """The gradients of the weighted sum of all results, by variables."""
    machine = Machine(dr, types, tracks=True)
    variables = {}
    for leaf in program.leaves:
        array = machine.array(leaf)
        if leaf.variable:
            dr.enable_grad(array)
            variables[leaf.name] = array
        machine.values[leaf.name] = type(array)(array)
    for statement in program.statements:
        machine.run(statement)
    names = program.results or tuple(machine.values)
    results = {name: machine.values[name] for name in names}
    loss = weighted(results, weights(results, program.seed), dr, types.Float64)
    if dr.grad_enabled(loss):
        dr.backward(loss)
    return {name: numbers(dr.grad(variable)).ravel().tolist() for name, variable in variables.items()}


def outcome(program: Program, dr: Any, types: Any) -> Any:
    """Gradients, or what is raised, as text."""
    try:
        return gradients(program, dr, types)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]


def worker(programs: Path, results: Path) -> None:
    """Run programs in this interpreter; a line for each."""
    import drjit
    from drjit.llvm import ad

    done = len(results.read_text("utf-8").splitlines()) if results.exists() else 0
    with results.open("a", encoding="utf-8") as file:
        for program in pickle.loads(programs.read_bytes())[done:]:
            file.write(json.dumps(outcome(program, drjit, ad)) + "\n")
            file.flush()


def at_peer(peer: str, programs: list[Program], folder: Path) -> list[Any]:
    """What the peer finds."""
    source, target = folder / "programs", folder / "results"
    source.write_bytes(pickle.dumps(programs))
    target.unlink(missing_ok=True)
    while True:
        status = subprocess.run([peer, __file__, "--worker", str(source), str(target)], cwd=folder,
                                stderr=subprocess.DEVNULL, timeout=600).returncode
        if status == 0:
            return [json.loads(line) for line in target.read_text("utf-8").splitlines()]
        with target.open("a", encoding="utf-8") as file:
            file.write(json.dumps(f"the process ended with the status {status}") + "\n")


def agree(program: Program, mine: Any, theirs: Any) -> bool:
    """Whether gradients are the same but for rounding."""
    if isinstance(mine, str) or isinstance(theirs, str):
        return False
    precision = 5e-2 if "narrow(16" in program.text else 1e-4 if "narrow(32" in program.text else 1e-9
    largest = max([1.0, *(abs(value) for row in mine.values() for value in row)])
    return all(abs(a - b) <= precision * largest for name, row in mine.items()
               for a, b in zip(row, theirs[name], strict=True))


def main() -> int:
    """Run the programs; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--peer", default=os.environ.get("DRJIT_PEER_PYTHON"), help="the interpreter with the wheel")
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--show", type=int, default=10, help="how many programs to make small and print")
    parser.add_argument("--worker", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(*options.worker)
        return 0
    if not options.peer:
        parser.error("name an interpreter: --peer, or DRJIT_PEER_PYTHON")
    sys.path[:0] = [str(ROOT), str(ROOT / "compiler")]
    import drjit
    from drjit.llvm import ad

    programs = [generate(seed, drjit, ad, without=MISSING, longest=25)[0]
                for seed in range(options.seed, options.seed + options.programs)]
    different = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program, theirs in zip(programs, at_peer(options.peer, programs, folder), strict=True):
            mine = outcome(program, drjit, ad)
            if agree(program, mine, theirs):
                continue
            different.append(program)
            if len(different) > options.show:
                continue

            def fails(candidate: Program, kind: str = str(theirs)[:30] if isinstance(theirs, str) else "") -> bool:
                found = at_peer(options.peer, [candidate], folder)[0]
                return not agree(candidate, outcome(candidate, drjit, ad), found) and (
                    isinstance(found, str) and found.startswith(kind) if kind else not isinstance(found, str))

            small = shrink(program, drjit, ad, fails)
            differences(small, drjit, ad)
            print(f"\n{small}\n# here  {outcome(small, drjit, ad)}\n"
                  f"# there {at_peer(options.peer, [small], folder)[0]}", flush=True)
    print(f"\nseeds {options.seed} to {options.seed + options.programs - 1}: {options.programs} programs, "
          f"{sum(len(program.statements) for program in programs)} statements, {len(different)} differences")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
