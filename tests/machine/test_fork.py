"""A process that was forked from one that uses a GPU."""

from __future__ import annotations

import os

import pytest

from drjit_core import on_backend, ops
from drjit_core.runtime.gpu.backend import GPU
from tests.core.harness import FLOAT32, array, values
from tests.machine.driver import MachineDriver


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_it_is_told_that_the_gpu_stays_with_its_parent() -> None:
    with on_backend(GPU(MachineDriver())):
        x = array([1, 2, 3], FLOAT32)
        for _ in range(2):  # in both ways
            values(ops.neg(x))
        child = os.fork()
        if not child:
            status = 1
            try:
                values(ops.neg(x))
            except RuntimeError as error:
                status = 0 if "was forked" in str(error) else 2
            finally:
                del x
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert values(ops.neg(x)).tolist() == [-1, -2, -3]
