"""Write ``docs/what-exists.md``: which names of Dr.Jit's reference exist here.

    python -m conformance.reference.coverage [--check] [--names path/to/api_names.json]

With ``--check``, nothing is written, and the exit status is 1 if the page in the tree is not what would be written.
``--names`` replaces ``tests/data/reference_names.json``, from which the page is made, by the names and members in a
JSON object of another form: from dotted names to objects with the keys ``line`` (the order in the reference) and
``members``.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Iterable

from conformance.api_names import member_state, state_of

from .sections import NAMES, Name, names

__all__ = ["PAGE", "convert", "page"]

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "what-exists.md"

_HEAD = """\
# What of Dr.Jit's reference exists

The names of the reference of Dr.Jit {total}, members of classes and enumerations included, and which of them
this package has. This page is generated (`make reference`) and compared with the package by a test; what a name does
is told in the [reference](reference/index.rst).
"""


def _states(entries: Iterable[Name]) -> tuple[list[str], list[str]]:
    """What exists and what does not, members included (those of a class that does not exist count as missing)."""
    exists: list[str] = []
    missing: list[str] = []
    for name, members in entries:
        here = state_of(name) == "exists"
        (exists if here else missing).append(name)
        for member in members:
            found = here and member_state(name, member) == "exists"
            (exists if found else missing).append(f"{name}.{member}")
    return exists, missing


def _listed(found: list[str]) -> str:
    """Names as code; the members of a class that are there, or not, as a whole are only counted."""
    shown, members = [name for name in found if name.count(".") == 1], {}
    for name in found:
        owner, _, member = name.rpartition(".")
        if owner != "drjit":
            members.setdefault(owner, []).append(member)
    lines = []
    for name in shown:
        inside = members.pop(name, [])
        short = name.removeprefix("drjit.")
        if not inside:
            lines.append(f"`{short}`")
        elif len(inside) > 8:
            lines.append(f"`{short}` with {len(inside)} members")
        else:
            lines.append(f"`{short}` ({', '.join(f'`{member}`' for member in inside)})")
    for owner, inside in members.items():  # members of modules, or of classes that are on the other side
        short = owner.removeprefix("drjit.")
        lines += [f"`{short}.{member}`" for member in inside]
    return ", ".join(lines)


def _wrapped(text: str) -> str:
    """Lines of at most 120 characters, broken between names."""
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > 120:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return "\n".join([*lines, line])


def page() -> str:
    """The text of the page."""
    sections = {title: _states(entries) for title, entries in names().items()}
    exists, missing = (sum(len(states[k]) for states in sections.values()) for k in (0, 1))
    rows = ["| section | exist | not yet |", "|---|---|---|"]
    rows += [f"| {title} | {len(here)} | {len(absent)} |" for title, (here, absent) in sections.items()]
    rows.append(f"| **all** | **{exists}** | **{missing}** |")
    parts = [_HEAD.format(total=f"({exists + missing} of them)"), "\n".join(rows) + "\n"]
    for title, (here, absent) in sections.items():
        parts.append(f"## {title}\n")
        if here:
            parts.append(_wrapped(f"Exist ({len(here)}): {_listed(here)}") + "\n")
        if absent:
            parts.append(_wrapped(f"Not yet ({len(absent)}): {_listed(absent)}") + "\n")
    return "\n".join(parts)


def convert(source: pathlib.Path) -> str:
    """The names and members of another file, in the form of ours."""
    entries = sorted(json.loads(source.read_text(encoding="utf-8")).items(), key=lambda item: item[1]["line"])
    lines = [f"{json.dumps(name)}: {json.dumps(entry['members'])}" for name, entry in entries]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    """Write or check; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--names", type=pathlib.Path, help="replace the list of names first")
    options = parser.parse_args()
    if options.names is not None:
        NAMES.write_text(convert(options.names), encoding="utf-8")
    text = page()
    if options.check:
        if PAGE.read_text(encoding="utf-8") != text:
            print("docs/what-exists.md is out of date: make reference", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
