"""Run the code of Dr.Jit's reference against this project, and compare what is printed.

    PYTHONPATH=compiler:. python conformance/run_reference.py array_types.rst general_information.txt [--verbose]

The files are not part of this repository. In a reStructuredText file, the code blocks are found by their directive and
share a namespace within a chapter; in a plain text, by their prompts, or because they are paragraphs of Python, and
they share one throughout. A block *passes*; *differs* from the reference, or raises; comes *later*, as it needs a name
that is not implemented yet (the exception says so); or is *not runnable*. What differs for reasons of typography, or
because the reference leaves something out, is put right by the narrow rules below, each with its reason.
The exit status is 1 if a block differs.
"""

from __future__ import annotations

import argparse
import ast
import codeop
import collections
import contextlib
import difflib
import doctest
import io
import linecache
import pathlib
import re
import sys
import textwrap
import traceback
from collections.abc import Iterator
from typing import Any, NamedTuple

import drjit

STATES = ("passes", "differs", "later", "not runnable")
_HAS_GPU = drjit.has_backend(drjit.JitBackend.CUDA)


class Block(NamedTuple):
    """Code of the reference."""

    line: int  # of its first line, from 1
    text: str
    language: str  # of the directive; "python" in plain texts
    chapter: int  # blocks of one chapter share a namespace


class Rule(NamedTuple):
    """A regular expression, what stands for it, and why."""

    pattern: str
    replacement: str
    reason: str


#: What is not Python that could be run.
NOT_RUNNABLE = [
    Rule(r"\A(\w+ = (JitFlag|VarType|VarState|ReduceOp|ReduceMode|ADFlag|ADMode|JitBackend|FilterMode|WrapMode|LogLevel"
         r"|AllocType|KernelType)\.\w+\s*)+\Z", "", "a list of the members of an enumeration"),
    Rule(r"\Adef f\(arg: T, /\)", "", "a notation for signatures"),
    Rule(r"^    return dr\.grad\(\*args\)|^return dr\.grad\(\*args\)", "", "the body of a function, without its head"),
    Rule(r"^# No output \(yet\)\Z", "", "a remark"),
    Rule(r"^\s*@overload|_FloatCp|WhatIsThis", "", "an excerpt of a stub file, for type checkers"),
]

#: Changes of the code.
SOURCE = [
    Rule(r"\bArray3f\(\.\.\.\)", "Array3f([0.1, 0.2], [0.3, 0.4], [0.5, 0.6])", "the values are left out"),
    Rule(r"\bFloat\(\.\.\.\)", "Float(0.5, 0.25)", "the values are left out"),
    Rule(r"\bvalue=\.\.\.", "value=1", "the value is left out"),
    Rule(r"\.(Float|UInt)\(\[\.\.\.\]\)", r".\1(0, 1)", "the values are left out"),
    Rule(r"\bdtype\(\.\.\.\)", "dtype([0.25, 0.5])", "the values are left out"),
    Rule(r"select\(cond, true_fn, false_fn\)", "select(cond, true_state, false_state)", "the states are meant"),
    Rule(r"'my_param'\] = 0$", "'my_param'] = Float(0)", "a parameter is an array"),
    Rule(r"\bset_gradient\b", "set_grad", "the function is called set_grad"),
    Rule(r"ADMode\.Backwards\b", "ADMode.Backward", "the member is called Backward"),
    Rule(r"\\ +dr\.grad_enabled", "dr.grad_enabled", "a line that was broken"),
    Rule(r"^t = \.\.\.$", "t = drjit.zeros(TensorXf, (10, 20, 30, 40))", "the tensor is left out; its shape follows"),
    Rule(r"\bdrjit\.sum\(x\)", "drjit.sum(vec)", "there is no x: the ragged array above is called vec"),
    Rule(r"^a \* b / c \+ 1$", "(lambda a, b, c: a * b / c + 1)(*map(dr.llvm.Matrix3f, (1, 2, 3)))",
         "the matrices are left out"),
    Rule(r"(?<!Event\()\b(drjit|dr)\.cuda\b", r"\1.cuda" if _HAS_GPU else r"\1.llvm",
         "types of the GPU stand for those of any backend"),
]

_FUNCTIONS = "from drjit.llvm.ad import Float, UInt\nx, y = Float(1, 2), Float(3, 4)\ndr.enable_grad(x)\n"
#: What excerpts refer to, by a pattern of their code.
EXCERPTS = [
    Rule(r"^result = complex_function", "from drjit.llvm import Float\ncomplex_function = lambda x, *_: x * 2", ""),
    Rule(r"^i: int = 1$|^i, x = dr\.while_loop", "from drjit.llvm import Float\ni, x = 1, Float(2, 3)", ""),
    Rule(r"^while cond\(state\):", "state, cond, body = (1,), (lambda s: s[0] < 3), (lambda i: (i + 1,))", ""),
    Rule(r"^active &= cond\(state\)|^   active &= cond\(state\)",
         "from drjit.llvm import Float\nstate, cond, body = Float(1, 2), (lambda s: s < 3), (lambda s: s + 1)", ""),
    Rule(r"^x, y = dr\.if_stmt\(",
         "from drjit.llvm import Int, Float\ni, x, y, f = Int(1, -1), Float(1, 2), Float(3, 4), Float", ""),
    Rule(r"^    state = true_fn\(\*args\)", "cond, args = True, (1,)\ntrue_fn = false_fn = lambda x: (x,)", ""),
    Rule(r"^true_state = true_fn", "from drjit.llvm import Bool, Float\n"
         "cond, state = Bool(True, False), (Float(1, 2),)\ntrue_fn = false_fn = lambda x: (x,)", ""),
    Rule(r"^result_1, result_2 = dr\.dispatch",
         "from drjit.llvm import Float, UInt32\n"
         "class _Base:\n    def func_1(self, x): return x + 1\n    def func_2(self, x): return x * 2\n"
         "_kept = [_Base(), _Base()]\ninst = dr.instance_array(_Base, UInt32)(_kept)\n"
         "arg1, arg2 = Float(1, 2), Float(3, 4)", ""),
    Rule(r"^b = f\(a\)|^y = f\(x\)|^    z = g\(y\)", _FUNCTIONS + "f, g = dr.sin, dr.cos", ""),
    Rule(r"^b, c, d, e = f\(a\)", _FUNCTIONS + "f = lambda a: (a * 2, a * 3, a, a * a)", ""),
    Rule(r"dr\.suspend_grad\(x\)", "from drjit.llvm.ad import Float\nx = Float(1)\ndr.enable_grad(x)", ""),
    Rule(r"\bAdam\(|\bGradScaler\(", "from drjit.opt import *\nfrom drjit.llvm.ad import Float\n"
         "my_optimization_task = my_func = lambda x: dr.sum(dr.square(x - 1))\nx, y = Float(1, 2), Float(3)", ""),
    Rule(r"\bclip\(opt\['x'\]", "from drjit.opt import *\nfrom drjit.llvm.ad import Float\nfrom drjit import clip\n"
         "opt = Adam(lr=1e-3, params={'x': Float(0.5, 1.5)})", ""),
]

#: What the code uses without an import.
PRELUDE = "import drjit, drjit as dr\nfrom drjit.llvm import Array3f, UInt, UInt32, TensorXf"

#: Changes of the output that is expected.
EXPECTED = [
    Rule(r"\s*(â†µ|↵)\s*", " ", "a sign for the break of a line"),
    Rule(r"\n(Parameters:|  • ).*", "", "what follows is no output"),
    Rule(r"^(Attempted .*|.*out-of-bounds .*) \(<stdin>:\d+\)$", r"...RuntimeWarning: ...\1\n...",
         "warnings tell where they come from in Python's way, and what is printed is left out"),
    Rule(r"^(\.\.\.RuntimeWarning: \.\.\.)Attempted", r"\1attempted", "the function stands before it"),
    Rule(r"^dr\.(?=VarState\.)", "", "enumerations print without the name of the module"),
    Rule(r"\.__richcmp__\(\)", ".__eq__()", "the name of a slot of CPython, not of a method"),
    Rule(r"jit_var_\w+\([^)]*\): (?=operands)", "", "a function of the C++ core"),
    Rule(r"^\[\[10, 2\],$", "[[11, 2],", "a slip of the pen: 1 + 10 = 11, as the peer computes"),
    Rule(r"(?<=fma\(r3, r6, r8\)\n)(jit_var_new.*\n)+", "", "acos() is a single step, expanded in a kernel"),
]

#: Changes of both outputs.
BOTH = [
    Rule(r"(?<=sizes: )3, 2\b", "2, 3", "in which order a sum visits its operands is not specified"),
    Rule(r"(?m)(?<=^jit_var_new\(\): )(\w+ r\d+)\[\d+\]", r"\1", "the log shows sizes above 1; the reference has none"),
]

_RAISED = re.compile(r"^(?P<name>\w*(?:Error|Exception)): (?P<message>.*(?:\n\S.*)*)", re.MULTILINE)


def changed(text: str, rules: list[Rule]) -> str:
    """A text after some rules."""
    for rule in rules:
        text = re.sub(rule.pattern, rule.replacement, text, flags=re.MULTILINE)
    return text


# --- finding blocks --------------------------------------------------------------------------------------------------


def rst_blocks(text: str) -> Iterator[Block]:
    """The code blocks of a reStructuredText file; chapters are underlined by ``=`` or ``-``."""
    lines = text.splitlines()
    chapter = position = 0
    while position < len(lines):
        line = lines[position]
        if re.fullmatch(r"=+|-+", line) and position and lines[position - 1].strip():
            chapter += 1
        match = re.match(r"^(?P<indent> *)\.\. code-block:: (?P<language>\w+)\s*$", line)
        position += 1
        if match is None:
            continue
        start = position
        while position < len(lines) and (not lines[position].strip() or
                                         lines[position].startswith(match["indent"] + " ")):
            position += 1
        code = textwrap.dedent("\n".join(lines[start:position])).strip("\n") + "\n"
        offset = next(k for k in range(start, position) if lines[k].strip())
        yield Block(offset + 1, code, match["language"], chapter)


def _is_code(text: str) -> bool:
    """Whether a paragraph of a plain text is a program: statements, not just words."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return False
    return any(not isinstance(statement, (ast.Expr, ast.AnnAssign)) for statement in body) and not any(
        isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Call) for statement in body)


def text_blocks(text: str) -> Iterator[Block]:
    """The sessions and the programs of a plain text. A program spans paragraphs that are code, or are indented."""
    paragraphs: list[tuple[int, str]] = []
    for match in re.finditer(r"(?:^[^\n]*\S[^\n]*\n?)+", text, re.MULTILINE):
        paragraphs.append((text.count("\n", 0, match.start()) + 1, match[0].rstrip("\n")))
    position = 0
    while position < len(paragraphs):
        line, paragraph = paragraphs[position]
        position += 1
        if paragraph.lstrip().startswith(">>> "):
            yield Block(line, textwrap.dedent(paragraph) + "\n", "python", 0)
            continue
        found = ""
        candidate, following = paragraph, position
        while True:
            if _is_code(textwrap.dedent(candidate)):
                found, position = candidate, following
            if following == len(paragraphs) or following - position > 3:
                break
            next_line, next_paragraph = paragraphs[following]
            candidate += "\n" * (next_line - line - candidate.count("\n")) + next_paragraph
            following += 1
        if found:
            yield Block(line, textwrap.dedent(found) + "\n", "python", 0)


def examples(text: str) -> list[tuple[str, str]]:
    """Statements after prompts, and what each prints: everything up to the next prompt, blank lines included."""
    found: list[list[list[str]]] = []
    for line in text.splitlines():
        if line.startswith(">>> ") or line == ">>>":
            found.append([[line[4:]], []])
        elif re.match(r"\.\.\.( |$)", line) and found and not found[-1][1] and not _is_complete(found[-1][0]):
            found[-1][0].append(line[4:])
        elif found:
            found[-1][1].append(line)
    return [("\n".join(source) + "\n", "\n".join(output).strip("\n")) for source, output in found]


def _is_complete(lines: list[str]) -> bool:
    """Whether a statement needs no further lines: a line of dots is what it prints then."""
    try:
        return codeop.compile_command("\n".join(lines)) is not None
    except SyntaxError:
        return True


# --- running ---------------------------------------------------------------------------------------------------------


def _renumbered(text: str, found: dict[str, int], pattern: str) -> str:
    """The numbers of variables in the order in which they appear."""
    return re.sub(pattern, lambda match: str(found.setdefault(match[0], len(found) + 1)), text)


class Chapter:
    """The state that blocks build upon."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.indices: tuple[dict[str, int], dict[str, int]] = ({}, {})
        exec(PRELUDE, self.namespace)

    def execute(self, source: str, name: str, mode: str) -> tuple[str, BaseException | None]:
        """What some code prints and raises."""
        output = io.StringIO()
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # for @dr.syntax
        try:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                exec(compile(source, name, mode, dont_inherit=True), self.namespace)
        except Exception as error:
            return output.getvalue(), error
        return output.getvalue(), None

    def run(self, block: Block, path: str) -> tuple[str, str]:
        """The state of a block, and what is to be said about it."""
        if block.language not in ("python", "pycon"):
            return "not runnable", f"it is {block.language} code"
        for rule in NOT_RUNNABLE:
            if re.search(rule.pattern, block.text, re.MULTILINE):
                return "not runnable", rule.reason
        name = f"{path}:{block.line}"
        for rule in EXCERPTS:
            if re.search(rule.pattern, block.text, re.MULTILINE):
                exec(rule.replacement, self.namespace)
        if ">>> " not in block.text:
            source = changed(block.text, SOURCE)
            _, error = self.execute(source, name, "exec")
            if is_later(error):
                return "later", str(error)
            return ("passes", "") if error is None else ("differs", f"{source}raises {describe(error)}")
        # The text around says that these are in debug mode.
        checks = re.search(r"^Attempted to|out-of-bounds|Assertion failure", block.text, re.MULTILINE) is not None
        with drjit.scoped_set_flag(drjit.JitFlag.Debug, checks):
            for source, want in examples(block.text.replace("def (x)", "def f(x)")):
                state, note = self.example(source, want, name)
                if state != "passes":
                    return state, note
        return "passes", ""

    def example(self, source: str, want: str, name: str) -> tuple[str, str]:
        """Whether a line with a prompt prints what it should, and what else there is to say."""
        source = changed(source, SOURCE)
        output, error = self.execute(source, name, "single")
        if "jit_var_new" in want:
            drjit.set_log_level(drjit.LogLevel.Warn)  # one statement is logged
        if is_later(error):
            return "later", str(error)
        want = changed(changed(want, EXPECTED), BOTH)
        raised = list(_RAISED.finditer(want))
        if error is not None:
            if not raised:
                return "differs", f"{source}raises {describe(error)}"
            return self._compare(source, *self._exceptions(error, raised))
        if raised:
            return "differs", f"{source}does not raise {raised[-1][0]}"
        if not want:
            return "passes", ""  # the result is left out
        got = changed(output, BOTH)
        for texts in (r"\br\d+\b",) if "jit_var_new" in want else (r"\b\d+\b",) if ".index" in source else ():
            want, got = (_renumbered(text, found, texts) for text, found in zip((want, got), self.indices, strict=True))
        return self._compare(source, want, got)

    def _exceptions(self, error: BaseException, raised: list[re.Match[str]]) -> tuple[str, str]:
        """What is expected to be raised and what is: subclasses will do, and the message of the cause may be the
        exception's own, where the reference says that it stands above."""
        message = " ".join(raised[-1]["message"].split())
        if message.endswith("failed (see above)!") and len(raised) > 1:
            cause = " ".join(raised[-2]["message"].split())
            message = message.replace("failed (see above)!", cause.partition("(): ")[2])
        bases = [cls.__name__ for cls in type(error).__mro__]
        name = raised[-1]["name"]
        return f"{name}: {message}", f"{name if name in bases else bases[0]}: {changed(str(error), BOTH)}"

    def _compare(self, source: str, want: str, got: str) -> tuple[str, str]:
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if doctest.OutputChecker().check_output(want.rstrip() + "\n", got.rstrip() + "\n", options):
            return "passes", ""
        lines = difflib.unified_diff(want.splitlines(), got.splitlines(), "reference", "this project", lineterm="", n=1)
        return "differs", source + "\n".join(lines)


def is_later(error: BaseException | None) -> bool:
    """Whether an exception says that something is not implemented yet."""
    if isinstance(error, ImportError):
        match = re.match(r"cannot import name '(\w+)' from 'drjit'", str(error))
        try:
            getattr(drjit, match[1] if match else "__name__")
        except AttributeError as cause:
            error = cause
    return isinstance(error, NotImplementedError) or \
        isinstance(error, AttributeError) and "not implemented yet" in str(error)


def describe(error: BaseException) -> str:
    """An exception in one line."""
    return "".join(traceback.format_exception_only(error)).strip()


def run_file(path: pathlib.Path, verbose: bool) -> dict[str, int]:
    """Run a file; how many of its blocks are in which state."""
    text = path.read_text(encoding="utf-8")
    blocks = list((rst_blocks if path.suffix == ".rst" else text_blocks)(text))
    chapters: dict[int, Chapter] = collections.defaultdict(Chapter)
    counts = dict.fromkeys(STATES, 0)
    for block in blocks:
        state, note = chapters[block.chapter].run(block, path.name)
        counts[state] += 1
        print(f"{path.name}:{block.line}: {state}" + (f": {note}" if note and "\n" not in note else ""))
        if verbose or state == "differs":
            print(textwrap.indent(block.text.rstrip(), "    | "))
        if note and "\n" in note:
            print(textwrap.indent(note, "    "))
    drjit.set_log_level(drjit.LogLevel.Warn)
    return counts


def main() -> int:
    """Run all files; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--verbose", action="store_true", help="show the code of all blocks")
    options = parser.parse_args()
    table = {path: run_file(path, options.verbose) for path in options.files}
    print(f"\n{'file':30}" + "".join(f"{state:>14}" for state in STATES))
    for path, counts in table.items():
        print(f"{path.name:30}" + "".join(f"{counts[state]:14}" for state in STATES))
    return int(any(counts["differs"] for counts in table.values()))


if __name__ == "__main__":
    sys.exit(main())
