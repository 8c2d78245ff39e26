"""Print the crossing table: ``python -m tests.crossings --help``."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from fnmatch import fnmatchcase
from typing import Any

from .places import PLACES
from .states import STATES, State
from .table import Cell, cells, exclusion, known, refusal, run
from .touches import TOUCHES

#: What may be said of a cell, from good to bad.
OUTCOMES = ("value", "refused", "excluded", "known", "failed")
COLOURS = {"value": "#3f8f5f", "refused": "#3b6fb0", "excluded": "#e6e6e6", "known": "#e0a030", "failed": "#c03030"}


def outcome(cell: Cell, failures: dict[str, str] | None) -> str:
    """What is said of a cell; without failures, what the rules say."""
    if exclusion(cell):
        return "excluded"
    if known(cell) is not None:
        return "known"
    if failures is not None and failures[cell.touch.name]:
        return "failed"
    return "refused" if refusal(cell) is not None else "value"


Table = dict[tuple[str, str], Counter[str]]


def collect(states: list[State], places: list[str], execute: bool) -> tuple[Table, dict[str, Counter[str]], list[str]]:
    """Outcomes by touch and state, outcomes by place, and failures in words."""
    by_pair: Table = {}
    by_place: dict[str, Counter[str]] = {place: Counter() for place in places}
    words = []
    for state in states:
        for place in places:
            failures = run(state, place) if execute else None
            for cell in cells(state, place):
                found = outcome(cell, failures)
                by_pair.setdefault((cell.touch.name, state.name), Counter())[found] += 1
                by_place[place][found] += 1
                if found == "failed" and failures is not None:
                    words.append(f"{cell.name}: {failures[cell.touch.name]}")
                elif found == "known" and failures is not None and not failures.get(cell.touch.name, "crashes"):
                    words.append(f"{cell.name}: passes, but is in KNOWN")
    return by_pair, by_place, words


def symbol(counts: Counter[str]) -> str:
    """One character: in how many places a touch of a state runs; marks where it is wrong."""
    ran = counts["value"] + counts["refused"]
    return "!" if counts["failed"] else "x" if counts["known"] else str(ran) if ran else "."


def show(states: list[State], by_pair: Table, by_place: dict[str, Counter[str]]) -> None:
    """Print the table."""
    print("Columns are states:")
    for first in range(0, len(states), 5):
        print("  " + "  ".join(f"{first + k:2} {state.name:22}" for k, state in enumerate(states[first:first + 5])))
    print("A number says in how many places it runs; . none (excluded), x known to be wrong somewhere, ! failed\n")
    width = max(len(touch.name) for touch in TOUCHES)
    print(" " * width + " " + "".join(str(k // 10) if k % 10 == 0 else " " for k in range(len(states))))
    print(" " * width + " " + "".join(str(k % 10) for k in range(len(states))))
    for touch in TOUCHES:
        print(f"{touch.name:{width}} " + "".join(symbol(by_pair[touch.name, state.name]) for state in states))
    print(f"\n{'place':20}" + "".join(f"{name:>10}" for name in OUTCOMES))
    total: Counter[str] = Counter()
    for place, counts in by_place.items():
        total += counts
        print(f"{place:20}" + "".join(f"{counts[name]:10}" for name in OUTCOMES))
    print(f"{'all':20}" + "".join(f"{total[name]:10}" for name in OUTCOMES))


def draw(path: str, states: list[State], by_pair: Table) -> None:
    """Write the table as a picture: each square is divided by outcomes in all places."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    figure, axes = plt.subplots(figsize=(0.2 * len(states) + 4, 0.16 * len(TOUCHES) + 3), layout="constrained")
    for row, touch in enumerate(TOUCHES):
        left: dict[str, list[Any]] = {"x": [], "width": [], "start": [], "colour": []}
        for column, state in enumerate(states):
            counts = by_pair[touch.name, state.name]
            start = float(column)
            for name in OUTCOMES:
                part = counts[name] / sum(counts.values())
                if part:
                    left["start"].append(start)
                    left["width"].append(part)
                    left["colour"].append(COLOURS[name])
                start += part
        axes.barh([row] * len(left["start"]), left["width"], left=left["start"], height=0.9, color=left["colour"])
    axes.set_xticks([k + 0.5 for k in range(len(states))], [state.name for state in states], rotation=90, fontsize=6)
    axes.set_yticks(range(len(TOUCHES)), [touch.name for touch in TOUCHES], fontsize=6)
    axes.set_xlim(0, len(states))
    axes.set_ylim(len(TOUCHES) - 0.4, -0.6)
    axes.xaxis.tick_top()
    figure.legend(handles=[Patch(color=COLOURS[name], label=name) for name in OUTCOMES], ncols=len(OUTCOMES),
                  loc="outside lower center", frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.crossings", description=__doc__)
    parser.add_argument("--run", action="store_true", help="run the cells (a minute or two), and print what fails")
    parser.add_argument("--png", metavar="FILE", help="write the table as a picture (needs matplotlib)")
    parser.add_argument("--states", default="*", metavar="PATTERN", help="only states whose names match")
    parser.add_argument("--places", default="*", metavar="PATTERN", help="only places whose names match")
    arguments = parser.parse_args()
    states = [state for state in STATES if fnmatchcase(state.name, arguments.states)]
    places = [place for place in PLACES if fnmatchcase(place, arguments.places)]
    start = time.perf_counter()
    by_pair, by_place, words = collect(states, places, arguments.run)
    show(states, by_pair, by_place)
    if arguments.run:
        print(f"\n{time.perf_counter() - start:.1f} s; {len(words)} cells are not as expected")
        print("\n".join(words))
    if arguments.png:
        draw(arguments.png, states, by_pair)


if __name__ == "__main__":
    main()
