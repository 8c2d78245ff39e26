"""Print the mutation table: ``python -m tests.control.mutation --help``."""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from fnmatch import fnmatchcase

from .run import outcome
from .table import DIMENSIONS, Cell, cells, sample
from .texts import text_of


def chosen(arguments: argparse.Namespace) -> list[Cell]:
    """The cells that are asked for."""
    patterns = [(name, getattr(arguments, name)) for name in DIMENSIONS if getattr(arguments, name) != "*"]

    def fits(cell: Cell) -> bool:
        return all(any(fnmatchcase(getattr(cell, name), pattern) for pattern in value.split("|"))
                   for name, value in patterns)

    if arguments.all:
        found = list(filter(fits, cells()))
    else:
        found = list(filter(fits, sample(arguments.strength)))
    if 0 < arguments.most < len(found):
        found = random.Random(0).sample(found, arguments.most)
    return found


def main() -> None:
    """Read the command line, run cells, and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.control.mutation", description=__doc__)
    parser.add_argument("--strength", type=int, default=2, choices=(1, 2, 3), help="how many dimensions are crossed")
    parser.add_argument("--all", action="store_true", help="all cells that fit, not a sample (there are millions)")
    parser.add_argument("--most", type=int, default=0, metavar="COUNT", help="at most so many of them")
    parser.add_argument("--text", action="store_true", help="print programs, too")
    parser.add_argument("--failed", action="store_true", help="print only cells that are not as expected")
    for name, values in DIMENSIONS.items():
        parser.add_argument(f"--{name}", default="*", metavar="PATTERN", help=f"of: {' | '.join(values)}"
                            .replace("%", "%%"))
    arguments = parser.parse_args()
    start, counts = time.perf_counter(), Counter[str]()
    by_value: dict[tuple[str, str], Counter[str]] = {}
    for cell in chosen(arguments):
        found = outcome(cell)
        kind = found.partition(":")[0]
        counts[kind] += 1
        for name, value in zip(DIMENSIONS, cell):
            by_value.setdefault((name, value), Counter())[kind] += 1
        if not arguments.failed or kind in ("wrong", "raises"):
            print(f"{cell.name}: {found}", flush=True)
            if arguments.text:
                print(text_of(cell))
    print(f"\n{'':40}" + "".join(f"{kind:>9}" for kind in ("ok", "refused", "wrong", "raises")))
    for name, values in DIMENSIONS.items():
        for value in values:
            if (name, value) in by_value:
                row = by_value[name, value]
                print(f"{name + ': ' + value:40}" + "".join(f"{row[kind]:9}" for kind in
                                                            ("ok", "refused", "wrong", "raises")))
    print(f"{'all':40}" + "".join(f"{counts[kind]:9}" for kind in ("ok", "refused", "wrong", "raises")))
    print(f"{time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
