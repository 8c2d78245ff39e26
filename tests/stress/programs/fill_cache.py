"""Compute many formulas, in an order of this process's own: ``fill_cache.py <count> [<largest file in bytes>]``."""

from __future__ import annotations

import os
import random
import resource
import sys

from tests.stress.programs.common import check, watch


def main(count: int, largest: int = 0) -> None:
    watch(300)
    if largest:  # what a full disk does: writing fails in the middle of a file
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    check(0)
    print("ready", flush=True)
    numbers = list(range(count))
    random.Random(os.getpid()).shuffle(numbers)
    for number in numbers:
        check(number)
    print("right", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
