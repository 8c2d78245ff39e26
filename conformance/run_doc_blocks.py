"""Run every Python block of the documentation, and every example in a docstring.

    python conformance/run_doc_blocks.py [file.md …] [--no-modules]

A Markdown file is one program: its fenced ``python`` and ``pycon`` blocks, and ``>>>`` examples outside of fences, run
from top to bottom in one namespace, each file in a process of its own.  Blocks with ``>>>`` are compared with what is
printed (``...`` stands for anything); other blocks must run without an exception.  A block after a comment
``<!-- not run: reason -->`` is left out and counted.  Docstrings of the installed packages run by :mod:`doctest`, where
``dr`` is the package.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import doctest
import importlib
import io
import os
import pathlib
import pkgutil
import re
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.REPORT_ONLY_FIRST_FAILURE
PACKAGES = ("drjit", "drjit_core")

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})\s*\{?(?P<language>[\w-]*)")
_NOT_RUN = re.compile(r"^\s*<!-- not run: (?P<reason>.+) -->\s*$")


class Block(NamedTuple):
    """Code of a Markdown file."""

    line: int  # of its first line, from 1
    text: str
    reason: str = ""  # why it is not run


def blocks(markdown: str) -> Iterator[Block]:
    """The Python blocks of a Markdown text, in order."""
    lines = markdown.splitlines()
    reason, position, prose = "", 0, 0

    def examples(end: int) -> Iterator[Block]:
        """The examples between the last block and this one."""
        text = "\n".join(lines[prose:end])
        if re.search(r"^\s*>>> ", text, re.MULTILINE):
            yield Block(prose + 1, text)

    while position < len(lines):
        match = _FENCE.match(lines[position])
        if match is None:
            marker = _NOT_RUN.match(lines[position])
            if lines[position].strip():
                reason = marker["reason"] if marker else ""
            position += 1
            continue
        yield from examples(position)
        start = position + 1
        closing = re.compile(rf"^ *{match['fence'][0]}{{{len(match['fence'])},}}\s*$")
        position = next((at for at in range(start, len(lines)) if closing.match(lines[at])), len(lines))
        if match["language"] in ("python", "pycon", "py"):
            indent = len(match["indent"])
            yield Block(start + 1, "\n".join(line[indent:] for line in lines[start:position]) + "\n", reason)
        position = prose = position + 1
        reason = ""
    yield from examples(len(lines))


def run_block(block: Block, path: str, namespace: dict[str, Any]) -> str | None:
    """Run one block; what went wrong, or None."""
    if re.search(r"^\s*>>> ", block.text, re.MULTILINE):
        # the name is that of a block: doctest finds the source of a function by it when one block calls another's
        test = doctest.DocTestParser().get_doctest(block.text, namespace, f"{path}:{block.line}", path,
                                                   block.line - 1)
        test.globs = namespace  # the parser makes a copy; names live on from block to block
        report = io.StringIO()
        runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
        runner.run(test, out=report.write, clear_globs=False)
        return report.getvalue() if runner.failures else None
    try:
        with redirect_stdout(io.StringIO()):
            exec(compile("\n" * (block.line - 1) + block.text, path, "exec", dont_inherit=True), namespace)
    except BaseException:
        return traceback.format_exc()
    return None


def run_file(path: pathlib.Path) -> int:
    """Run a Markdown file in this process; the exit status."""
    name = os.path.relpath(path, ROOT)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    count, left_out, failures = 0, [], 0
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.reason:
            left_out.append(f"{name}:{block.line}: not run: {block.reason}")
            continue
        count += 1
        problem = run_block(block, name, namespace)
        if problem:
            failures += 1
            print(f"{name}:{block.line}: this block fails\n{problem}")
    print(f"{name}: {count} blocks, {failures} failures", *left_out, sep="\n  ")
    return int(failures > 0)


def run_modules() -> int:
    """Run the examples in the docstrings of the packages; the exit status."""
    attempted = failed = 0
    names = {"dr": importlib.import_module("drjit")}
    for package in PACKAGES:
        for name in module_names(package):
            try:
                module = importlib.import_module(name)
            except ImportError as error:  # of an optional dependency; our own modules are always there
                if error.name is None or error.name.partition(".")[0] in PACKAGES:
                    raise
                print(f"{name}: left out, as {error.name} is not installed")
                continue
            results = doctest.testmod(module, globs=names, optionflags=OPTIONS)
            attempted, failed = attempted + results.attempted, failed + results.failed
    print(f"docstrings: {attempted} examples, {failed} failures")
    return int(failed > 0)


def module_names(package: str) -> list[str]:
    """Names of a package and of all modules in it."""
    root = importlib.import_module(package)
    found = pkgutil.walk_packages(root.__path__, f"{package}.", onerror=lambda name: None)
    return [package, *(entry.name for entry in found if not entry.name.endswith("__main__"))]


def documents() -> list[pathlib.Path]:
    """The Markdown files whose code is checked."""
    files = [ROOT / "README.md", ROOT / "compiler" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in files if path.exists() and "_build" not in path.parts]


def main() -> int:
    """Run everything, a process for each file; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--no-modules", action="store_true", help="leave the docstrings out")
    parser.add_argument("--here", action="store_true", help="run the one file in this process")
    options = parser.parse_args()
    if options.here:
        return run_file(options.files[0].resolve())
    jobs = [[sys.executable, __file__, "--here", str(path)] for path in options.files or documents()]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        status = 0
        for done in pool.map(lambda job: subprocess.run(job, cwd=ROOT, capture_output=True, text=True), jobs):
            print(done.stdout, done.stderr, sep="", end="", flush=True)
            status |= done.returncode
    if not options.files and not options.no_modules:
        status |= run_modules()
    return int(status != 0)


if __name__ == "__main__":
    sys.exit(main())
