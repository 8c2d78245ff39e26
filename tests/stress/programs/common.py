"""What the programs share: formulas of exact arithmetic on both sides, and a watch for deadlocks."""

from __future__ import annotations

import faulthandler
import signal
from typing import Any

import numpy as np

from drjit.llvm import UInt32

__all__ = ["STEPS", "check", "formula", "inputs", "watch"]

#: Operations a formula chooses from, and how many it has: ``5 ** STEPS`` different kernels.
STEPS = 6


def formula(number: int, x: Any, y: Any) -> Any:
    """One of many small programs over unsigned integers of 32 bits, for arrays of either library."""
    for _ in range(STEPS):
        number, digit = divmod(number, 5)
        x = x + y if digit == 0 else x ^ y if digit == 1 else x * y if digit == 2 else x | y if digit == 3 else y - x
        y = y ^ x
    return x ^ y


def inputs(size: int) -> tuple[Any, Any]:
    """Operands of formulas."""
    index = np.arange(size, dtype=np.uint32)
    return index * np.uint32(2654435761), index + np.uint32(12345)


def check(number: int, size: int = 1000) -> None:
    """Compute a formula with both libraries."""
    a, b = inputs(size)
    found = formula(number, UInt32(a), UInt32(b)).numpy()
    assert np.array_equal(found, formula(number, a, b)), f"formula {number} is wrong"


def watch(seconds: float) -> None:
    """End the process with the stacks of all threads if it hangs; a forked child calls it again.

    By a signal, not by a thread of ``faulthandler``: a child that is forked hangs when it looks for that.
    """
    faulthandler.enable()
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm(int(seconds))
