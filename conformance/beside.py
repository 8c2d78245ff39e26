"""Every public function of release 1.5.0 of Dr.Jit, and its options, called here and there: the same, or why not.

    python -m conformance.beside --peer PYTHON [--only TEXT] [--write]

``PYTHON`` is an interpreter that has the wheel (with ``DRJIT_LIBLLVM_PATH`` in the environment, if it needs that). The
programs stand in ``beside_calls.txt``. Each entry of the tuple that a program ends with is a result of its own; told of
it are the type, the shape, numbers to five digits, what was printed, or the classes of an exception. Differences have
a reason in :data:`REASONS`, or are open, and then the exit status is 1. ``--write`` also writes the table to
``docs/beside.md``. Functions are those of ``tests/data/names_1_5_0.json``; options are the names of their parameters.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CALLS, PAGE = ROOT / "conformance" / "beside_calls.txt", ROOT / "docs" / "beside.md"
NAMES = ROOT / "tests" / "data" / "names_1_5_0.json"
#: Why results differ, by a pattern of the text of the expression.
REASONS: dict[str, str] = {
    r"allclose\(a=": "a `bool`, as the reference says; a mask there",
    r"convolve\(x, 'gaussian', 2\)": "named filters are normalised, as the reference says",
    r"transpose\(m\)": "matrices as well", r"has_backend": "a `bool`, which is equal to the number there",
    r"keepdims=True\)|axis=\(0, 1\)": "`keepdims` of all axes and modes; there an error, or ignored",
    r"step\(1, 2\)|int\(l\.Int|float\(F": "numbers as well",
    r"forward_to\(y, x \* 2\)": "several arguments, as the reference says",
    r"dr\.eval\(\)": "whether there was something to do: there was, since it had been scheduled",
    r"reverse\(value=t|order='F'|take_interp\(value=": "tensors as well: an error there",
    r"type\(dr\.log_level": "the module that classes belong to",
    r"file=None": "`None` is the standard output",
    r"scatter_reduce\(op": "writes that are pending are lost there",
    r"scatter_(inc|exch|cas)": "results are values; there they can only be used in the same kernel",
    r"linspace\(l\.Float64, 0, 1, 1\)": "the start; NaN there",
    r"f\(v, axis=1\)": "components of one element count for all; there they do not",
    r"dr\.sum\('x'\)": "texts are no sequences of numbers", r"Q\(1, 2, 3, 4\); x\.(real|imag)":
    "the parts, as `dr.real` and `dr.imag` give; the number itself there",
    r"x\[1, 2\] = -1": "entries of tensors can be set; an error there",
    r"eval_cubic_hessian": "textures of one dimension as well",
    r"SinEncode": "exact sines of multiples of pi; components of one element stay so",
    r"transform_decompose\(a=": "the reference calls the parameter `arg`",
    r"dispatch\(inst=1": "any object, as `dr.switch` takes any number",
    r"CoopVec": "components of one element stay so",
}
#: Functions that are not called, and why.
UNCALLED: dict[str, str] = {
    r"get_cmake_dir": "of the wheel's own build", r"AnyArray|Callable|List|Literal|Sequence|Tuple|Type|Union|wraps":
    "names of other packages",
}
#: Classes of exceptions that programs catch.
CAUGHT = (TypeError, IndexError, ValueError, RuntimeError, AttributeError, KeyError, AssertionError)
HEADER = """\
import numpy as np
import drjit as dr
import drjit.llvm as l, drjit.llvm.ad as a, drjit.scalar as s
from drjit import dda, nn, opt
F, V, T, C, Q, U, I = l.Float, l.Array3f, l.TensorXf, l.Complex2f, l.Quaternion4f, l.UInt, l.Int

def t(*shape):
    return T(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))

def gradients(f, *args):
    args = [type(x)(x) for x in args]
    dr.enable_grad(*args)
    dr.backward(f(*args))
    return [dr.grad(x) for x in args]

def grad(f, x):
    return gradients(f, x)[0]

class Square(dr.CustomOp):
    def eval(self, x):
        self.x = x
        return x * x
    def forward(self):
        self.set_grad_out(2 * self.x * self.grad_in("x"))
    def backward(self):
        self.set_grad_in("x", 2 * self.x * self.grad_out())
    def name(self):
        return "square"

def steps(o):
    o["x"] = a.Float(1, 2)
    for _ in range(3):
        dr.backward(o["x"] * o["x"])
        o.step()
    return o["x"]

@dr.syntax
def collatz(n):
    steps = l.UInt(0)
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps

def plain(x):
    if x < 0:
        x = -x
    return x

@dr.syntax(recursive=True, print_ast=False, print_code=False)
def clamped(x):
    i = l.UInt(0)
    while dr.hint(i < 3, mode="symbolic", label="loop", max_iterations=None, include=[], exclude=[], strict=True):
        if dr.hint(x < 0, mode="symbolic"):
            x = -x
        i += 1
    return x
"""


class Program(NamedTuple):
    """A program: the functions of its section, the statements before its result, and the expressions of that."""

    section: str
    before: str
    parts: list[str]


def programs() -> list[Program]:
    """The programs of the file."""
    found, section = [], ""
    for line in CALLS.read_text("utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            section = line.strip()
            continue
        tree = ast.parse(line.strip())
        last = tree.body.pop()
        assert isinstance(last, ast.Expr), line
        entries = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
        found.append(Program(section, ast.unparse(tree), [ast.unparse(entry) for entry in entries]))
    return found


# --- what a program says, on either side -----------------------------------------------------------------------------


def _number(x: Any) -> str:
    if isinstance(x, complex):
        return f"{_number(x.real)} {_number(x.imag)}"
    if isinstance(x, float):
        return "nan" if math.isnan(x) else f"{x:.5g}".replace("-0", "0") if x == 0 else f"{x:.5g}"
    return str(x)


def told(value: Any) -> Any:
    """A value as text, or a list of such."""
    import numpy as np

    import drjit as dr

    if isinstance(value, dict):
        return {str(key): told(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [told(entry) for entry in value]
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}".replace("drjit.", "", 1)
    if isinstance(value, bool | int | float | complex | str | None):
        return _number(value)
    name = type(value).__name__
    if isinstance(value, dr.ArrayBase):
        try:
            found = np.asarray(value if "scalar" in type(value).__module__ and not hasattr(value, "numpy")
                               else value.numpy())
        except Exception:
            return f"{name} {value!r}"
        return f"{name}{list(found.shape)} " + " ".join(_number(x.item()) for x in found.ravel())
    if isinstance(value, np.ndarray):
        numbers = " ".join(_number(x.item()) for x in value.ravel())
        return f"ndarray {value.dtype} {list(value.shape)} {numbers}"
    return str(value) if name in ("VarState", "VarType", "KernelType") else name


def run(program: Program) -> list[Any]:
    """What is told of the results of a program."""
    space: dict[str, Any] = {"__name__": "programs"}
    exec(compile(HEADER, str(_header()), "exec"), space)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(program.before, space)
    except Exception as error:
        return [_raised(error)] * len(program.parts)
    results = []
    for part in program.parts:
        printed.seek(0)
        printed.truncate()
        try:
            with contextlib.redirect_stdout(printed):
                found = told(eval(part, space))
        except Exception as error:
            found = _raised(error)
        text = printed.getvalue()
        results.append([found, text] if text else found)
    return results


def _raised(error: Exception) -> str:
    return "raises " + " ".join(kind.__name__ for kind in CAUGHT if isinstance(error, kind))


def _header() -> Path:
    """A file with the header: decorators look for the source of functions."""
    path = Path(tempfile.gettempdir()) / f"beside_header_{os.getpid()}.py"
    path.write_text(HEADER, encoding="utf-8")
    return path


def worker(first: int, out: Path) -> None:
    """Run the programs from a number on; each line of the file is a result."""
    warnings.simplefilter("ignore")
    with out.open("a", encoding="utf-8") as file:
        for program in programs()[first:]:
            file.write(json.dumps(run(program)) + "\n")
            file.flush()
    _header().unlink(missing_ok=True)


def results_of(python: str, count: int) -> list[list[Any] | None]:
    """The results of all programs with an interpreter; ``None`` where it died."""
    found: list[list[Any] | None] = []
    environment = dict(os.environ)
    if python != sys.executable:
        environment.pop("PYTHONPATH", None)  # which leads here
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "results.jsonl"
        while len(found) < count:
            out.unlink(missing_ok=True)
            subprocess.run([python, str(Path(__file__).resolve()), "--worker", str(len(found)), str(out)], cwd=folder,
                           env=environment, stderr=subprocess.DEVNULL, check=False)
            lines = out.read_text("utf-8").splitlines() if out.exists() else []
            found += [json.loads(line) for line in lines]
            if len(found) < count:
                found.append(None)
    return found


# --- the table -------------------------------------------------------------------------------------------------------


def _same(one: Any, other: Any) -> bool:
    """Whether what is told is the same; exceptions if one of the peer's classes would be caught here as well."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, str) and isinstance(other, str) and one.startswith("raises ") and other.startswith("raises "):
        return set(other.split()) <= set(one.split())
    if isinstance(one, str) and isinstance(other, str) and one != other:
        a, b = one.split(), other.split()
        return len(a) == len(b) and all(x == y or _close(x, y) for x, y in zip(a, b, strict=True))
    return bool(one == other)


def _close(x: str, y: str) -> bool:
    try:
        return math.isclose(float(x), float(y), rel_tol=2e-4, abs_tol=1e-6)
    except ValueError:
        return False


class Difference(NamedTuple):
    """Something that differs: the functions that it is of, its text, and what was told here and there."""

    functions: list[str]
    text: str
    here: Any
    there: Any

    @property
    def reason(self) -> str | None:
        """Why, if that is known."""
        return next((reason for pattern, reason in REASONS.items() if re.search(pattern, self.text)), None)


def _entries(part: str, here: Any, there: Any) -> Iterator[tuple[str, Any, Any]]:
    """The entries of a list that a part of a program makes for some functions, by the text of each; or the part."""
    node = ast.parse(part, mode="eval").body
    if isinstance(node, ast.ListComp) and isinstance(node.generators[0].iter, ast.Tuple) and \
            isinstance(here, list) and isinstance(there, list):
        items = node.generators[0].iter.elts
        if len(items) == len(here) == len(there):
            body = ast.unparse(node.elt)
            for item, one, other in zip(items, here, there, strict=True):
                yield f"{body} for {ast.unparse(item)}", one, other
            return
    yield part, here, there


def _functions(text: str, section: str) -> list[str]:
    """The functions of a section that a text mentions; all of them if it mentions none."""
    names = section.split()
    found = [name for name in names if re.search(rf"\b{name.rpartition('.')[2]}\b", text)]
    return found or names


def differences(found: list[Program], here: list[Any], there: list[Any]) -> list[Difference]:
    """All that differs."""
    result = []
    for program, mine, theirs in zip(found, here, there, strict=True):
        for k, part in enumerate(program.parts):
            one, other = (None if side is None else side[k] for side in (mine, theirs))
            for text, x, y in _entries(part, one, other):
                if not _same(x, y):
                    where = f"{program.before}; {text}" if program.before else text
                    result.append(Difference(_functions(where, program.section), where, x, y))
    return result


def options() -> dict[str, list[str]]:
    """The names of the parameters of all functions of the release."""
    names: dict[str, Any] = json.loads(NAMES.read_text("utf-8"))
    found = {}
    for name, entry in names.items():
        module, _, short = name.rpartition(".")
        if module in ("drjit", "drjit.dda", "drjit.nn") and entry["kind"] == "function" and not (
                module != "drjit" and short[:1].isupper()):
            parameters = {each for signature in entry["parameters"] for each in signature
                          if not re.fullmatch(r"arg\d*|args|kwargs", each)}
            found[short if module == "drjit" else name] = sorted(parameters)
    return {name: parameters for name, parameters in found.items()
            if not any(re.fullmatch(pattern, name) for pattern in UNCALLED)}


def called() -> dict[str, set[str]]:
    """The functions that programs call, with the names of the arguments that they are called with."""
    names = options()
    found: dict[str, set[str]] = {}
    texts = [HEADER, *["\n".join((program.before, *program.parts)) for program in programs()]]
    for text in texts:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute):
                found.setdefault(node.attr, set())
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.setdefault(node.value, set())
                for name in re.findall(r"dr\.(\w+)\(", node.value):
                    found.setdefault(name, set()).update(re.findall(r"(\w+)=", node.value))
            if isinstance(node, ast.ListComp) and isinstance(node.generators[0].iter, ast.Tuple):
                functions = [item.attr for item in node.generators[0].iter.elts if isinstance(item, ast.Attribute)]
                for call in ast.walk(node.elt):
                    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                        for name in functions:
                            found.setdefault(name, set()).update(_passed(name, names, call))
            if isinstance(node, ast.Call):
                target: Any = node.func
                while isinstance(target, ast.Call):
                    target = target.func
                if isinstance(target, ast.Attribute):
                    found.setdefault(target.attr, set()).update(_passed(target.attr, names, node))
    return found


def _passed(name: str, names: dict[str, list[str]], call: ast.Call) -> list[str]:
    """The arguments of a call of a function, by name."""
    return [*[keyword.arg for keyword in call.keywords if keyword.arg], *_in_order(name, names, len(call.args))]


def _in_order(name: str, names: dict[str, list[str]], count: int) -> list[str]:
    entry = json.loads(NAMES.read_text("utf-8")).get(f"drjit.{name}")
    return [each for signature in (entry or {}).get("parameters", []) for each in signature[:count]] \
        if name in names else []


def table(found: list[Difference]) -> Iterator[str]:
    """The lines of the table."""
    tried = called()
    by_function: dict[str, list[Difference]] = {}
    for difference in found:
        for name in difference.functions:
            by_function.setdefault(name, []).append(difference)
    sections = {name for program in programs() for name in program.section.split()}
    for name in sorted({*options(), *sections}, key=lambda name: (name.count("."), name.lower(), name)):
        parameters = ", ".join(f"`{each}`" for each in options().get(name, []))
        own = by_function.get(name, [])
        reasons = sorted({difference.reason or f"**open**: `{difference.text[:80]}`" for difference in own})
        state = "differs" if own else "same" if name.rpartition(".")[2] in tried or name in sections else "not called"
        yield f"| `{name}` | {parameters} | {state} | {'; '.join(reasons)} |"


def page(found: list[Difference]) -> str:
    """The page."""
    rows = list(table(found))
    counts = {state: sum(f" {state} |" in row for row in rows) for state in ("same", "differs", "not called")}
    count = sum(len(program.parts) for program in programs())
    return "\n".join([
        "# Beside release 1.5.0", "",
        "Every public function and class of release 1.5.0 of Dr.Jit is called on this package and on that release,",
        "functions with each of their options: the programs are `conformance/beside_calls.txt`, and this page is",
        "written by `conformance/beside.py`. Results are the same if types, shapes, numbers to a few digits, texts and",
        "classes of exceptions are. [What exists](what-exists.md) lists the names of the reference.", "",
        f"{count} results; {counts['same']} functions are the same, {counts['differs']} differ in something.", "",
        "| function | options | | where it differs |", "|---|---|---|---|", *rows, ""])


def main() -> int:
    """Print what differs; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peer", help="the interpreter with the wheel")
    parser.add_argument("--only", default="", help="print differences of functions with this text in their names")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--worker", nargs=2, metavar=("FIRST", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(int(arguments.worker[0]), Path(arguments.worker[1]))
        return 0
    run_all: Callable[[str], list[Any]] = lambda python: results_of(python, len(programs()))  # noqa: E731
    found = differences(programs(), run_all(sys.executable), run_all(arguments.peer))
    open_ = [difference for difference in found if difference.reason is None]
    for difference in open_:
        if arguments.only in " ".join(difference.functions):
            print(f"{difference.text}\n    here  {difference.here}\n    there {difference.there}")
    parts = sum(len(program.parts) for program in programs())
    print(f"{parts} results, {len(found)} differences, {len(open_)} of them open")
    if arguments.write:
        PAGE.write_text(page(found), encoding="utf-8")
    return 1 if open_ else 0


if __name__ == "__main__":
    sys.exit(main())
