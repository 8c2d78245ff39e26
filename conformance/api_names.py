"""Which names of Dr.Jit's reference exist, and which are yet to come.

    PYTHONPATH=compiler:. python conformance/api_names.py path/to/api_names.json [--at-least N]

The argument is a JSON object from dotted names (``drjit.gather``, ``drjit.nn.Linear``) to objects with the keys
``kind``, ``line`` (the order in the reference) and ``members`` (of classes and enumerations). Sections follow from the
first name in each. A name exists if it can be found: nothing stands for what does not. With ``--at-least`` the exit
status is 1 if fewer names and members exist.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import sys
from typing import Any

from conformance.reference.sections import SECTIONS

STATES = ("exists", "to come")


def find(name: str) -> Any:
    """What a dotted name stands for; raises an ``AttributeError`` if there is nothing."""
    parts = name.split(".")
    found: Any = importlib.import_module(parts[0])
    for position, part in enumerate(parts[1:], 2):
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(".".join(parts[:position]))
            except ImportError:
                raise AttributeError(name) from None
    return found


def state_of(name: str) -> str:
    """Whether a name ``exists``, or is ``to come``."""
    try:
        find(name)
    except AttributeError:
        return "to come"
    return "exists"


def member_state(name: str, member: str) -> str:
    """Whether a member of a class exists, or is to come; those of the base of all arrays are asked of a vector."""
    if name != "drjit.ArrayBase":
        return state_of(f"{name}.{member}")
    return "exists" if hasattr(find("drjit.llvm.Array4f"), member) else "to come"


def main() -> int:
    """Print a table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", type=pathlib.Path, help="the JSON file")
    parser.add_argument("--at-least", type=int, default=0, metavar="N", help="fail if fewer exist")
    options = parser.parse_args()
    reference: dict[str, dict[str, Any]] = json.loads(options.names.read_text("utf-8"))

    section = "Other"
    found: dict[str, dict[str, list[str]]] = {}
    for name, entry in sorted(reference.items(), key=lambda item: item[1]["line"]):
        section = SECTIONS.get(name, section)
        table = found.setdefault(section, {state: [] for state in STATES})
        state = state_of(name)
        table[state].append(name)
        if state == "exists":
            for member in entry["members"]:
                table[member_state(name, member)].append(f"{name}.{member}")

    print(f"{'section':34}{'exist':>8}{'to come':>9}")
    for section, table in found.items():
        print(f"{section:34}{len(table['exists']):8}{len(table['to come']):9}")
    totals = {state: sum(len(table[state]) for table in found.values()) for state in STATES}
    print(f"{'all':34}{totals['exists']:8}{totals['to come']:9}")
    print("\nto come:")
    for section, table in found.items():
        if table["to come"]:
            print(f"  {section}: {' '.join(name.removeprefix('drjit.') for name in table['to come'])}")
    return int(totals["exists"] < options.at_least)


if __name__ == "__main__":
    sys.exit(main())
