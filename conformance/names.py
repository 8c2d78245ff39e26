"""A table of every public name of another release of Dr.Jit: whether it is here, and takes the same arguments.

    python -m conformance.names [--all]

The names of release 1.5.0, with the names of the parameters of its functions and the members of its classes, are data
(``tests/data/names_1_5_0.json``), read off ``dir()`` and the signatures of an installed package:

    python conformance/names.py --read tests/data/names_1_5_0.json    # where that package is installed

A name is the *same*, *differs* (what parameters or members are not here, with the reason if one is known), or is
*missing*. Array types are counted, not listed. The exit status is 1 if a name is missing, or something differs, without
a reason.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import pathlib
import re
import sys
from typing import Any

MODULES = ("drjit", "drjit.detail", "drjit.dda", "drjit.opt", "drjit.random", "drjit.nn", "drjit.llvm", "drjit.llvm.ad",
           "drjit.scalar", "drjit.cuda", "drjit.cuda.ad", "drjit.auto", "drjit.auto.ad")
NAMES = pathlib.Path(__file__).resolve().parents[1] / "tests" / "data" / "names_1_5_0.json"

#: Names that another release shows without documenting them: modules and helpers of its own files.
INTERNAL = (r"drjit\.(\w+\.)*(annotations|Any|Callable|Dict|Extra|Generic|Iterator|LearningRate|List|Literal|Mapping|"
            r"MutableMapping|Optional|Sequence|Shape|TYPE_CHECKING|Tuple|Type|TypeVar|Union|Unpack|overload|wraps|"
            r"get_cmake_dir|Array(NfT|NiT|NuT|OrFloat|OrInt)|BoolT|FloatT|TensorXfT)|drjit\.detail\.\w+|"
            r"drjit\.random\.ArrayT|drjit\.nn\.(T|TensorOrViewOrNone|TypeAlias)")
#: Why something differs, or is missing on purpose, by a pattern of names.
REASONS = {
    r"drjit\.ArrayBase": "arrays have the components that their type has",
    r"drjit\.(opt\.\w+|random\.Philox4x32Generator|nn\.MatrixView)": "these join PyTrees by the traversal protocol",
    r"drjit\.(frob|transform_compose|transform_decompose)": "the reference shows positional parameters",
}


def parameters(value: Any) -> list[list[str]]:
    """The names of the parameters of a function, for each of its signatures."""
    found = [str(entry[0]) for entry in getattr(value, "__nb_signature__", None) or ()]
    if not found:
        try:
            return [list(inspect.signature(value).parameters)]
        except (TypeError, ValueError):
            return []
    return [_named(signature) for signature in found]


def _named(signature: str) -> list[str]:
    """The names of parameters in the text of a signature."""
    text = signature.partition("(")[2]
    depth, names, start = 0, list[str](), 0
    for position, letter in enumerate(text):
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        if depth < 0 or letter == "," and not depth:
            name = re.match(r"\s*\**(\w*)", text[start:position])
            if name is not None and name[1]:
                names.append(name[1])
            start = position + 1
        if depth < 0:
            break
    return names


def read() -> dict[str, Any]:
    """The public names of the installed package."""
    base = importlib.import_module("drjit").ArrayBase
    found: dict[str, Any] = {}
    for module in MODULES:
        try:
            namespace = importlib.import_module(module)
        except ImportError:
            continue
        for name in dir(namespace):
            value = getattr(namespace, name)
            if name.startswith("_") or inspect.ismodule(value):
                continue
            entry: dict[str, Any] = {"kind": "data"}
            if isinstance(value, type):
                array = issubclass(value, base) and value is not base
                entry = {"kind": "array"} if array else {
                    "kind": "class", "members": sorted(member for member in dir(value) if not member.startswith("_"))}
            elif callable(value):
                entry = {"kind": "function", "parameters": parameters(value)}
            found[f"{module}.{name}"] = entry
    return found


def compare(name: str, entry: dict[str, Any]) -> tuple[str, str]:
    """Whether a name is the same here, and what differs."""
    module, _, short = name.rpartition(".")
    try:
        value = getattr(importlib.import_module(module), short)
    except (ImportError, AttributeError):
        return "missing", ""
    if entry["kind"] == "class":
        lost = [member for member in entry["members"] if not hasattr(value, member)]
        return ("differs", "without " + ", ".join(lost)) if lost else ("same", "")
    if entry["kind"] != "function":
        return "same", ""
    here = parameters(value)
    if not here or any(re.fullmatch("args|kwargs", each) for each in here[0]):
        return "same", ""
    known = {each for signature in here for each in signature}
    lost = sorted({each for signature in entry["parameters"] for each in signature
                   if each not in known and not re.fullmatch(r"arg\d*|args|kwargs", each)})
    return ("differs", "no parameter " + ", ".join(lost)) if lost else ("same", "")


def table(names: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Names, states and what there is to say."""
    found = []
    for name, entry in names.items():
        if re.fullmatch(INTERNAL, name):
            continue
        state, what = compare(name, entry)
        reasons = [reason for pattern, reason in REASONS.items() if re.fullmatch(pattern, name)]
        found.append((name, state, "; ".join(filter(None, [what, *reasons]))))
    return found


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--read", type=pathlib.Path, metavar="FILE", help="write the names of the installed package")
    parser.add_argument("--all", action="store_true", help="list what is the same, too")
    arguments = parser.parse_args()
    if arguments.read is not None:
        arguments.read.write_text(json.dumps(read(), indent=0, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    names = json.loads(NAMES.read_text(encoding="utf-8"))
    rows = table(names)
    for name, state, what in rows:
        if arguments.all and names[name]["kind"] != "array" or state != "same":
            print(f"{name:45} {state:8} {what}")
    counts = {state: sum(row[1] == state for row in rows) for state in ("same", "differs", "missing")}
    print(", ".join(f"{count} {state}" for state, count in counts.items()))
    open_ = [name for name, state, _ in rows if state in ("missing", "differs")
             and not any(re.fullmatch(pattern, name) for pattern in REASONS)]
    return 1 if open_ else 0


if __name__ == "__main__":
    sys.exit(main())
