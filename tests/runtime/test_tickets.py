"""Tickets of launches stay in order when the threads start anew: arrays carry those of their last use."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os
import drjit as dr
from drjit.llvm import Float

dr.set_thread_count(2)
x = dr.arange(Float, 1 << 20) + 1
for _ in range(5):
    x = x + 1
    dr.eval(x)
dr.sync_thread()
{between}
y = dr.arange(Float, 1 << 20) + 2
dr.eval(y)
assert (x[0], y[1]) == (6, 3)
"""


@pytest.mark.parametrize("between", ["dr.set_thread_count(3)", "child = os.fork()"])
def test_arrays_of_an_earlier_pool_can_be_read(between):
    if "fork" in between and not hasattr(os, "fork"):
        pytest.skip("there is no fork")
    end = "if 'child' in dir() and child:\n    assert os.waitpid(child, 0)[1] == 0\n"
    subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM.format(between=between) + end], check=True,
                   timeout=60, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
