"""A process that was forked from one that uses a GPU."""

from __future__ import annotations

import os

import pytest

from drjit_core import (
    JitFlag,
    flush_kernel_cache,
    flush_malloc_cache,
    kernel_history_clear,
    on_backend,
    ops,
    scoped_set_flag,
)
from drjit_core.cuda.errors import DriverError
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


def test_a_device_that_is_lost_leaves_the_others_alone() -> None:
    driver = MachineDriver()
    gpu = GPU(driver)
    with on_backend(gpu):
        x = array([1, 2, 3], FLOAT32)
        driver._fault = "an address of no memory"
        with pytest.raises(RuntimeError, match="is lost to this process"):
            values(ops.neg(x))
        with pytest.raises(RuntimeError, match="is lost to this process"):
            values(ops.neg(x))
        flush_kernel_cache()
        flush_malloc_cache()
        gpu.wait()
    assert values(ops.neg(array([1, 2, 3], FLOAT32))).tolist() == [-1, -2, -3]


def test_a_launch_that_the_driver_refuses_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = MachineDriver()
    with on_backend(GPU(driver)):
        x = array([1, 2, 3], FLOAT32)
        y = ops.neg(x)

        def refuse(*arguments: object) -> None:
            raise DriverError("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", 701)

        with scoped_set_flag(JitFlag.KernelHistory), monkeypatch.context() as patch:
            patch.setattr(driver, "launch", refuse)
            with pytest.raises(RuntimeError, match="OUT_OF_RESOURCES"):
                values(y)
        kernel_history_clear()
        assert values(y).tolist() == [-1, -2, -3]
