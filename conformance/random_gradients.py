"""Gradients of random programs on this project and on Dr.Jit's wheel: all are the same.

    python conformance/random_gradients.py --peer PYTHON [--programs 300] [--seed N] [--show COUNT]

``PYTHON`` is an interpreter that has the wheel (with ``DRJIT_LIBLLVM_PATH`` in the environment, if it needs that). The
programs are those of ``tests/derivatives/programs.py``, without statements that the wheel cannot do or does wrong
(:data:`AVOIDED`), and with others in words that it gets right (:data:`REWRITTEN`). How many statements that are is told
by reason. A program at which the wheel differs is run there again, several times, because it may differ from itself;
that is counted apart. A program with other gradients, or that one side cannot run, is made small and printed, and the
exit status is 1. The peer runs in a process of its own; when it dies at a program, that is counted, and it goes on
behind it.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import json
import math
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "derivatives"))

from programs import (  # noqa: E402
    Machine,
    Program,
    Statement,
    generate,
    numbers,
    shape_of,
    shrink,
    weighted,
    weights,
)

Values = dict[str, Any]
TIMEOUT = 600
#: So often a program runs on the wheel again, whose sums of gathered elements are other ones now and then.
REPEATS = 20


class Avoided(NamedTuple):
    """Statements that programs here do without: a pattern, a test of the variables that they use, and why."""

    pattern: str
    reason: str
    test: Callable[[Statement, Values], Any] = lambda statement, values: True


def _kinds(kind: str) -> Callable[[Statement, Values], bool]:
    """Whether the first variable is of a kind, one of ``FVT``."""
    return lambda statement, values: shape_of(values[statement.uses[0]])[0] == kind


def _shapes(statement: Statement, values: Values, kind: str) -> list[tuple[int, ...]]:
    """The shapes of the variables of a kind."""
    return [shape for own, shape in (shape_of(values[name]) for name in statement.uses) if own == kind]


def _with_zeros(statement: Statement, values: Values) -> bool:
    return any((numbers(values[name]) == 0).any() for name in statement.uses)


def _uneven(statement: Statement, values: Values) -> bool:
    """Whether a vector has components of one element and wider ones."""
    return any(len({len(component) for component in values[name]}) > 1
               for name in statement.uses if shape_of(values[name])[0] == "V")


def _not_last(statement: Statement, values: Values) -> bool:
    """Whether a tensor is reduced along axes that others follow."""
    axes = [int(axis) for axis in re.findall(r"\d+", statement.text.partition("axis=")[2].partition("keep")[0])]
    rank = len(_shapes(statement, values, "T")[0])
    return sorted(axes) != list(range(rank - len(axes), rank))


#: Statements that programs here do without.
AVOIDED = (
    Avoided(r"\w\[.*\[.*\].*\]", "lists in brackets: the wheel has no such index"),
    Avoided(r"^\w+\[.*\] ([+*]=|= [a-z])", "slices of tensors: the wheel assigns numbers to them only", _kinds("T")),
    Avoided(r"= \w+\[0?:(, 0?:)*\]$", "slices of everything: in the wheel, the same array, which changes, too"),
    Avoided(r"dr\.reshape", "reshaping to the same shape: in the wheel, the same tensor, which changes with the other",
            lambda statement, values: f"{_shapes(statement, values, 'T')[0]})" in statement.text),
    Avoided(r"dr\.select\(.*, (\w+), \1\)", "select of the same operand twice: in the wheel, not as wide as the mask"),
    Avoided(r"\[\d*:\d*:-1\]", "flat arrays: the wheel fails at slices that go backwards", _kinds("F")),
    Avoided(r"axes?\(\w+, (\d), \1\)", "axes that change places with themselves: the wheel refuses them"),
    Avoided(r"dr\.take\(\w+, I\(\[\d+\]\)", "arrays of one index: for the wheel, a number, which drops the axis"),
    Avoided(r"dr\.sort", "sorting: in the wheel, its result has no derivative"),
    Avoided(r"scatter_reduce\(dr\.ReduceOp\.M", "extrema by scattering: in the wheel, they have no derivatives"),
    Avoided("replaced", "replace_grad: in the wheel, an operand of one element becomes as wide as the other",
            lambda statement, values: len(set(_shapes(statement, values, "F"))) > 1 or _uneven(statement, values)),
    Avoided("replaced", "replace_grad: the wheel does not broadcast tensors",
            lambda statement, values: len(set(_shapes(statement, values, "T"))) > 1),
    Avoided("", "tensors of one element: where the wheel broadcasts one, it leaves it with too many elements",
            lambda statement, values: len({math.prod(shape) for shape in _shapes(statement, values, "T")} | {1})
            > 1 and any(math.prod(shape) == 1 for shape in _shapes(statement, values, "T"))),
    Avoided("scatter", "vectors: the wheel scatters them to arrays whose size is a multiple of theirs only",
            lambda statement, values: _shapes(statement, values, "V") and _shapes(statement, values, "F")[0][0] % 3),
    Avoided(r"scatter.*I\(\[\d+, ", "vectors of one element: the wheel has no derivatives where they are scattered to "
            "several places", lambda statement, values: (3, 1) in _shapes(statement, values, "V")),
    Avoided("scatter", "vectors: the wheel has no derivatives of components of one element beside wider ones that are "
            "scattered", _uneven),
    Avoided(r"dr\.select", "select: in the wheel, as narrow as what it chooses, if that is the same for all elements",
            lambda statement, values: {(1,)} < set(_shapes(statement, values, "F"))),
    Avoided(r"^\w+\[0?:\] = ", "flat arrays: the wheel replaces them, and their size, by what all elements are to be",
            lambda statement, values: len(set(_shapes(statement, values, "F"))) > 1),
    Avoided(r"dr\.(min|max|prod)\(\w+, axis=[\d(]", "extrema and products along axes that are not the last ones: in "
            "the wheel, a loop that has no derivatives", _not_last),
    Avoided(r"prefix_reduce\(dr\.ReduceOp\.(Mul|Min|Max)", "running products and extrema: the wheel has derivatives of "
            "sums only"),
    Avoided(r"linspace\(F, 0, 1, 1\)", "linspace of one element: NaN in the wheel"),
    Avoided(r"gather\(.*M\(\[False\]\)", "gathers of nothing: in the wheel, an operand of one element becomes as wide "
            "as the zeros that are added to it"),
    Avoided(r"ReduceOp\.Mul|dr\.prod", "products of zeros: gradients of the wheel are NaN, or all zero", _with_zeros),
)
#: Statements that mean the same in other words, which the wheel gets right.
REWRITTEN = {
    # single elements of flat arrays with derivatives, which the wheel dies of
    r"^(\w+)\[(\d+)\] = ": lambda found: f"{found[1]}[{found[2]}:{int(found[2]) + 1}] = ",
    # scattering, which in the wheel takes memory that has not been computed for zeros, or forgets the write before it
    r"^(dr\.scatter\w*\((?:dr\.ReduceOp\.\w+, )?)(\w+)": r"dr.eval(\2); \1\2",
    # permuted tensors: the gradient replaces the one that the operand has by then
    r"(dr\.(?:moveaxis|swapaxes|transpose)\()(\w+)": r"\1\2 * 1.0",
    r"(\w+)\.(m?T)$": r"(\1 * 1.0).\2",
}

def gradients(program: Program, dr: Any, types: Any) -> dict[str, list[float]]:
    """The gradients of the weighted sum of all results, by variables."""
    machine = Machine(dr, types, tracks=True)
    variables = {}
    for leaf in program.leaves:
        array = machine.types[leaf.kind](leaf.values)  # never a literal: select() of such a mask is narrow in the wheel
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
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # which leads here
    found: list[Any] = []
    while True:
        done = len(found)
        status: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = subprocess.run([peer, __file__, "--worker", str(source), str(target)], cwd=folder, env=environment,
                                    stderr=subprocess.DEVNULL, timeout=TIMEOUT).returncode
        found = [json.loads(line) for line in target.read_text("utf-8").splitlines()] if target.exists() else []
        if status == 0:
            return found
        if status is not None or len(found) == done:  # it died, or hung at one program
            with target.open("a", encoding="utf-8") as file:
                file.write(json.dumps(f"the process ended with the status {status}") + "\n")


class Maker:
    """Makes programs that the peer should be able to run, and counts what it avoids."""

    def __init__(self, dr: Any, types: Any) -> None:
        self.dr, self.types = dr, types
        self.avoided: collections.Counter[str] = collections.Counter()

    def __call__(self, seed: int) -> Program:
        program, _ = generate(seed, self.dr, self.types, refuse=self.avoids, longest=25)
        return dataclasses.replace(program, statements=tuple(map(self.rewritten, program.statements)))

    def avoids(self, statement: Statement, values: Values) -> bool:
        """Whether a program has to do without a statement."""
        for row in AVOIDED:
            if re.search(row.pattern, statement.text) and row.test(statement, values):
                self.avoided[row.reason] += 1
                return True
        return False

    @staticmethod
    def rewritten(statement: Statement) -> Statement:
        """A statement in words that the wheel gets right."""
        text = statement.text
        for pattern, replacement in REWRITTEN.items():
            text = re.sub(pattern, replacement, text)
        return dataclasses.replace(statement, text=text)


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

    make = Maker(drjit, ad)
    programs = [make(seed) for seed in range(options.seed, options.seed + options.programs)]
    different, varying = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program, theirs in zip(programs, at_peer(options.peer, programs, folder), strict=True):
            mine = outcome(program, drjit, ad)
            if agree(program, mine, theirs):
                continue
            again = at_peer(options.peer, [program] * REPEATS, folder)
            if not isinstance(theirs, str) and any(agree(program, mine, found) for found in again):
                varying.append(program.seed)
                continue
            different.append(program)
            if len(different) > options.show:
                continue

            def fails(candidate: Program, kind: str = str(theirs)[:30] if isinstance(theirs, str) else "") -> bool:
                found = at_peer(options.peer, [candidate], folder)[0]
                return not agree(candidate, outcome(candidate, drjit, ad), found) and (
                    isinstance(found, str) and found.startswith(kind) if kind else not isinstance(found, str))

            small = shrink(program, drjit, ad, fails)
            print(f"\n{small}\n# here  {outcome(small, drjit, ad)}\n"
                  f"# there {at_peer(options.peer, [small], folder)[0]}", flush=True)
    print(f"\nseeds {options.seed} to {options.seed + options.programs - 1}: {options.programs} programs, "
          f"{sum(len(program.statements) for program in programs)} statements, {len(different)} differences; "
          f"the wheel differs from itself, and agrees now and then: {varying}; statements that were left out:")
    for reason, number in make.avoided.most_common():
        print(f"{number:7}  {reason}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
