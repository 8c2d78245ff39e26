"""One exit of the interpreter with work in flight: ``exits.py <way>``."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time

import numpy as np

import drjit as dr
from drjit.llvm import Float, UInt32
from tests.stress.programs.common import watch

WAYS = ("end", "exit", "thread", "daemon", "daemon-sync", "os._exit", "atexit-before", "exception", "view")


def start() -> Float:
    x = dr.arange(Float, 1_000_000)
    for _ in range(40):
        x = x * 0.5 + 1
        dr.eval(x)
    return x


def evaluate_forever() -> None:
    while True:
        start()


def sync_forever() -> None:
    while True:
        x = start()
        del x
        dr.sync_thread()


def main(way: str) -> None:
    watch(60)
    kept = start()
    if way == "exit":
        sys.exit(0)
    elif way == "thread":
        threading.Thread(target=lambda: [start() for _ in range(5)]).start()
    elif way.startswith("daemon"):
        for _ in range(3):
            threading.Thread(target=sync_forever if way == "daemon-sync" else evaluate_forever, daemon=True).start()
        time.sleep(0.1)
    elif way == "os._exit":
        os._exit(0)
    elif way == "exception":
        try:
            raise ValueError
        except ValueError as error:
            sys.last_value = error  # what a traceback keeps alive
            sys.last_arrays = kept  # type: ignore[attr-defined]
    elif way == "view":
        sys.view = kept.numpy()  # type: ignore[attr-defined]
        start()


def late() -> None:
    """Runs after the project's own exit handler, which was registered later."""
    x = dr.arange(UInt32, 1_000_000) + 1
    dr.eval(x)
    assert np.array_equal(x.numpy(), np.arange(1, 1_000_001, dtype=np.uint32))


if __name__ == "__main__":
    if sys.argv[1] == "atexit-before":
        from drjit_core.runtime.cpu import pool

        atexit.unregister(pool._leave)
        atexit.register(late)
        atexit.register(pool._leave)
    main(sys.argv[1])
