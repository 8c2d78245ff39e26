"""Run the stress tests of the native runtime in their full form, and print a table.

    python conformance/stress.py [--short] [<part of a name> …]

Exits with status 1 if anything went wrong. The scenarios are in tests/stress/harness.py.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "compiler")]

from tests.stress.harness import SCENARIOS, run_scenario  # noqa: E402


def main(arguments: list[str]) -> int:
    """Run what the arguments choose."""
    full = "--short" not in arguments
    wanted = [argument for argument in arguments if not argument.startswith("-")]
    failed = 0
    print("| scenario | seconds | found |\n|---|---:|---|")
    for name in SCENARIOS:
        if wanted and not any(part in name for part in wanted):
            continue
        start = time.perf_counter()
        try:
            found = run_scenario(name, full)
        except AssertionError as error:
            failed += 1
            found = "**failed**: " + str(error).replace("\n", "<br>")
        print(f"| {name} | {time.perf_counter() - start:.1f} | {found} |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
