"""How often constructs call their functions, in the examples and in the code of the documentation.

    python conformance/called_once.py [--all] [file …]

Each symbolic loop, branch and call must call each of its functions once: its condition, its body, its sides, its
targets (a function that is dispatched once for each instance); in evaluated mode the sides once, a condition once more
than the body (of a statement ``while``, what the code around it has computed counts). A condition of a loop without a
mode is called once before, which tells whether the loop is Python's.
Files are examples and Markdown files, all of them unless some are named, each of which runs in a process of its own.
``dr.while_loop``, ``dr.if_stmt``, ``dr.switch``, ``dr.dispatch`` and the functions that the code of ``@dr.syntax``
calls are wrapped from outside; calls are written down as text, which nothing takes back. Printed are the functions that
were called more or less often than that, and why they may be (:data:`EXCEPTIONS`); ``--all`` prints every function. The
exit status is 1 if there are others. An example that needs a package which is not installed is not run, and says so.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import functools
import importlib.util
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MARK = "called-once: "
NOT_RUN = "not run: "
#: Packages that are always there.
OWN = {"conformance", "drjit", "drjit_core", "examples", "tests"}

#: Functions that may be called another number of times, by file and name, with the reason.
EXCEPTIONS = {("docs/tutorials/loops.md", name): "the body puts an array where nothing was" for name in (
    "is_small", "keep")}


class Function(NamedTuple):
    """A function of one construct: its part, and where its calls are written down."""

    place: str
    name: str
    construct: str
    part: str
    symbolic: bool
    calls: io.StringIO
    #: Of a condition: the calls of the body.
    body: io.StringIO | None

    def called(self) -> int:
        """How often it was called; for each instance, if it was called with some."""
        return _count(self.calls)

    def expected(self) -> int:
        """How often it should have been."""
        if self.symbolic or self.part.endswith("side"):
            return 1
        return self.called() if self.body is None else _count(self.body) + 1


def _count(calls: io.StringIO) -> int:
    """The most calls of one kind."""
    return max(Counter(calls.getvalue().splitlines()).values(), default=0)


#: All functions of all constructs so far.
FOUND: list[Function] = []


def _located(function: Any) -> tuple[str, str]:
    """Where a function stands, and its name."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(function if inspect.isfunction(function) else inspect.getattr_static(function, "__call__"),
                   "__code__", None)
    name = getattr(function, "__qualname__", type(function).__name__).replace(".<locals>", "")
    if code is None:
        return "?", name
    file = code.co_filename
    with contextlib.suppress(ValueError):
        file = str(Path(file).resolve().relative_to(ROOT))
    return f"{file}:{code.co_firstlineno}", name


def _counting(function: Callable[..., Any], construct: str, part: str, symbolic: bool,
              body: io.StringIO | None = None) -> tuple[Callable[..., Any], io.StringIO]:
    calls = io.StringIO()

    @functools.wraps(function, updated=())
    def counting(*args: Any, **kwargs: Any) -> Any:
        calls.write(f"{id(args[0]) if part == 'function of an instance' else 'called'}\n")
        return function(*args, **kwargs)

    FOUND.append(Function(*_located(function), construct, part, symbolic, calls, body))
    return counting, calls


def _is_symbolic(dr: Any, flag: str, hints: dict[str, Any], condition: Any = None) -> bool | None:
    """Whether a construct is symbolic; ``None`` if Python runs it, or what decides is known while it is traced."""
    if condition is not None:
        array = getattr(condition, "tensor", condition)
        if not dr.is_jit_v(array) or array.state == dr.VarState.Literal:
            return None
    mode = hints.get("mode")
    if mode == "scalar":
        return None
    return bool(mode == "symbolic" if mode is not None else dr.flag(getattr(dr.JitFlag, flag)))


def install(dr: Any) -> None:
    """Wrap the constructs."""
    from drjit._control.syntax import runtime

    def loop(construct: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(construct)
        def wrapped(state: Any, cond: Any, body: Any, *args: Any, **hints: Any) -> Any:
            symbolic = _is_symbolic(dr, "SymbolicLoops", hints)
            if name == "while" and state and state[-1] is True:
                symbolic = None  # all elements have left before
            if symbolic is not None:
                before = len(FOUND)
                body, calls = _counting(body, name, "body", symbolic)
                asked = iter([cond]) if hints.get("mode") is None and name != "while" else iter(())
                counted, told = _counting(cond, name, "condition", symbolic, calls)
                if "test" in hints and not symbolic:  # which the program itself has computed
                    told.write("called\n")

                @functools.wraps(cond, updated=())
                def first(*args: Any) -> Any:  # without a mode, it is asked for one before: whether it is of Python
                    function = next(asked, counted)
                    value = function(*args)
                    if function is not counted and type(value) is bool:
                        del FOUND[before:]  # a plain loop
                    return value

                cond = first
            return construct(state, cond, body, *args, **hints)

        return wrapped

    def branch(construct: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(construct)
        def wrapped(args: Any, cond: Any, true_fn: Any, false_fn: Any, *rest: Any, **hints: Any) -> Any:
            symbolic = _is_symbolic(dr, "SymbolicConditionals", hints, cond)
            if symbolic is not None:
                true_fn, _ = _counting(true_fn, name, "true side", symbolic)
                false_fn, _ = _counting(false_fn, name, "false side", symbolic)
            return construct(args, cond, true_fn, false_fn, *rest, **hints)

        return wrapped

    def switch(index: Any, targets: Sequence[Any], *args: Any, **options: Any) -> Any:
        symbolic = _is_symbolic(dr, "SymbolicCalls", options, index)
        if symbolic:  # otherwise, some are not called
            made = {id(target): _counting(target, "dr.switch", "target", symbolic)[0] for target in targets}
            targets = [made[id(target)] for target in targets]
        return public["switch"](index, targets, *args, **options)

    def dispatch(instances: Any, function: Any, *args: Any, **options: Any) -> Any:
        if _is_symbolic(dr, "SymbolicCalls", options, instances):
            function, _ = _counting(function, "dr.dispatch", "function of an instance", True)
        return public["dispatch"](instances, function, *args, **options)

    public = {name: getattr(dr, name) for name in ("while_loop", "if_stmt", "switch", "dispatch")}
    dr.while_loop = loop(public["while_loop"], "dr.while_loop")
    dr.if_stmt = branch(public["if_stmt"], "dr.if_stmt")
    dr.switch = functools.wraps(public["switch"])(switch)
    dr.dispatch = functools.wraps(public["dispatch"])(dispatch)
    helpers: dict[str, Any] = runtime.HELPERS
    for name in ("_dr_while_loop", "_dr_run_loop"):
        helpers[name] = loop(helpers[name], "while")
    for name, word in (("_dr_if_stmt", "if"), ("_dr_run_if", "if"), ("_dr_choice", "... if ... else ...")):
        helpers[name] = branch(helpers[name], word)


def report() -> list[list[Any]]:
    """What was found: for each function its place, name, construct, part, mode, how many constructs there were, the
    fewest and the most calls, and in how many constructs their number is wrong."""
    rows: dict[tuple[str, ...], list[Function]] = {}
    for each in FOUND:
        key = each.place, each.name, each.construct, each.part, "symbolic" if each.symbolic else "evaluated"
        rows.setdefault(key, []).append(each)
    return [[*key, len(group), min(each.called() for each in group), max(each.called() for each in group),
             sum(each.called() != each.expected() for each in group)] for key, group in rows.items()]


def run_example(path: Path) -> None:
    """Run an example at a small size."""
    from tests.house.test_examples import CASES

    specification = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "picture.png"
        if path.stem == "photo":
            module.main(["--repeats", "1", "--output", str(output)])
        else:
            module.main(**{name: arguments for name, arguments, *_ in CASES}[path.stem], output=output)


def run_here(path: Path) -> int:
    """Run a file in this process; print what was found."""
    sys.path[:0] = [str(ROOT), str(ROOT / "compiler")]
    import drjit as dr

    install(dr)
    out, status = io.StringIO(), 0
    with contextlib.redirect_stdout(out):
        if path.suffix == ".md":
            from conformance.run_doc_blocks import run_file

            status = run_file(path)
        else:
            try:
                run_example(path)
            except ModuleNotFoundError as error:
                if error.name is None or error.name.partition(".")[0] in OWN:
                    raise
                print(MARK + json.dumps(error.name), file=sys.__stdout__)
                return 0
    if status:
        print(out.getvalue(), file=sys.stderr)
    print(MARK + json.dumps(report()))
    return status


def files() -> list[Path]:
    """All examples and documents."""
    from conformance.run_doc_blocks import documents

    return [*sorted((ROOT / "examples").glob("*.py")), *documents()]


class Row(NamedTuple):
    """What was found of a function in all constructs of one file."""

    place: str
    name: str
    construct: str
    part: str
    mode: str
    number: int
    least: int
    most: int
    wrong: int

    @property
    def reason(self) -> str:
        """Why it may be called another number of times."""
        return EXCEPTIONS.get((self.place.rpartition(":")[0], self.name), "")

    def __str__(self) -> str:
        calls = str(self.least) if self.least == self.most else f"{self.least} to {self.most}"
        wrong = (f", wrong in {self.wrong}" if self.wrong else "") + (f" ({self.reason})" if self.reason else "")
        return f"{self.place} {self.name}: {self.part} of {self.number} {self.mode} {self.construct}, " \
               f"called {calls} times{wrong}"


def count(path: Path) -> tuple[list[Row], str]:
    """What was found in a file, and in words what went wrong with it, or why it was not run."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "compiler")])}
    done = subprocess.run([sys.executable, __file__, "--here", str(path)], cwd=ROOT, env=environment,
                          capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    rows = json.loads(lines[-1].removeprefix(MARK)) if lines else []
    if type(rows) is str:
        return [], f"{NOT_RUN}{rows} is not installed"
    return [Row(*row) for row in rows], "" if done.returncode == 0 and lines else done.stdout + done.stderr


def main() -> int:
    """Run everything, and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--all", action="store_true", help="print every function")
    parser.add_argument("--here", action="store_true", help="run the one file in this process")
    options = parser.parse_args()
    if options.here:
        return run_here(options.files[0].resolve())
    sys.path[:0] = [str(ROOT), str(ROOT / "compiler")]
    paths, found, status = options.files or files(), list[Row](), 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for path, (rows, problem) in zip(paths, pool.map(count, paths)):
            wrong, uses = [row for row in rows if row.wrong], sum(row.number for row in rows)
            print(f"{os.path.relpath(path.resolve(), ROOT)}: {len(rows)} functions in {uses} uses, "
                  f"{len(wrong)} called another number of times" + (f"\n{problem}" if problem else ""),
                  *(rows if options.all else wrong), sep="\n  ", flush=True)
            found += rows
            status |= bool(problem) and not problem.startswith(NOT_RUN)
    wrong = [row for row in found if row.wrong and not row.reason]
    print(f"\n{len(found)} functions in {sum(row.number for row in found)} uses, {len(wrong)} called another number of "
          f"times, {sum(bool(row.wrong) for row in found) - len(wrong)} excused")
    return int(status or bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
