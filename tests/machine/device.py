"""The machine in the place of a device: for ``conformance/on_gpu.py``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .machine import Fault, Machine, parse

__all__ = ["FakeDevice"]


class FakeDevice:
    """What :class:`conformance.driver.Device` does, without a driver."""

    name, driver, memory, architecture, multiprocessors = "machine", 13000, 1 << 31, 90, 1

    def __init__(self, error: type[Exception], seed: int | None = None) -> None:
        self.machine = Machine(seed=seed)
        self.error = error  # what it raises; a fault ruins it
        self.ruined = False

    def _check(self) -> None:
        if self.ruined:
            raise self.error("the device is ruined")

    def load(self, text: str) -> Any:
        """Read PTX."""
        self._check()
        try:
            return parse(text)
        except SyntaxError as error:
            raise self.error(str(error)) from None

    def facts_of(self, module: Any, name: str) -> dict[str, int]:
        """Declared registers."""
        return {"registers": sum(count for _, count in module[name].registers.values()),
                "local": module[name].bytes["local"], "shared": module[name].bytes["shared"]}

    def allocate(self, nbytes: int) -> int:
        """New memory."""
        self._check()
        return self.machine.memory.allocate(nbytes)

    def release(self, address: int) -> None:
        """Give it back."""
        self.machine.memory.release(address, self.machine.memory.blocks[address])

    def upload(self, address: int, data: bytes) -> None:
        """Write to memory."""
        self._check()
        self.machine.memory.at(address, len(data))[:] = np.frombuffer(data, np.uint8)

    def download(self, address: int, nbytes: int) -> bytes:
        """Read it."""
        self._check()
        return bytes(self.machine.memory.at(address, nbytes))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy."""
        self.upload(target, self.download(source, nbytes))

    def launch(self, module: Any, name: str, shape: Sequence[int], parameters: bytes) -> None:
        """Run a kernel."""
        self._check()
        words = {"p": np.frombuffer(parameters, np.uint8), "units": np.frombuffer(parameters[-8:], np.uint64),
                 "blocks": np.frombuffer(parameters[-4:], np.uint32)}
        try:
            self.machine.launch(module, name, words, shape[0], shape[1:])
        except Fault as fault:
            self.ruined = True
            raise self.error(str(fault)) from None

    def wait(self) -> None:
        """All has run."""
        self._check()

    def seconds(self, work: Callable[[], Any]) -> float:
        """How long it takes."""
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
