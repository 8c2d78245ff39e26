"""A driver made of the machine: in the place of :class:`drjit_core.cuda.driver.Driver`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from drjit_core.cuda.errors import DriverError

from .machine import Fault, Machine, parse

__all__ = ["MachineDriver"]

#: Statuses of the real one: what is no program, and what a fault leaves behind.
_INVALID_VALUE, _INVALID_PTX, _ILLEGAL_ADDRESS, _OUT_OF_RESOURCES = 1, 218, 700, 701


class MachineDriver:
    """One simulated device, which does at once what it is asked for.

    A fault ruins it, as it does a real one: who asks next gets to know it.  One that is ``forgiving`` tells it at once,
    and goes on, so that of many tests one fails.
    """

    version, memory, multiprocessors = 13000, 1 << 31, 1

    def __init__(self, architecture: int = 90, seed: int | None = None, memory: int = 1 << 31,
                 forgiving: bool = False) -> None:
        self.name = "machine" if seed is None else f"machine, {seed}"
        self.architecture, self.memory = architecture, memory
        self.machine = Machine(seed=seed)
        self._parsed: dict[bytes, Any] = {}
        self._held = 0  # bytes that are allocated
        self._forgiving = forgiving
        self._fault = ""  # which has ruined it

    def _enter(self) -> None:
        if self._fault:
            raise DriverError("cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS", _ILLEGAL_ADDRESS, self._fault)

    # --- kernels -----------------------------------------------------------------------------------------------------

    def assemble(self, text: str) -> bytes:
        """PTX is its own code, if it can be read."""
        self._enter()
        code = text.encode()
        try:
            self._parsed[code] = parse(text)
        except SyntaxError as error:
            raise DriverError("cuLinkAddData_v2", "CUDA_ERROR_INVALID_PTX", _INVALID_PTX, str(error)) from None
        return code

    def load(self, code: bytes) -> Any:
        """The functions of a module."""
        self._enter()
        return self._parsed.pop(code, None) or parse(code.decode())

    def unload(self, module: Any) -> None:
        """Nothing is kept."""

    def function(self, module: Any, name: str) -> Any:
        """A kernel of a module."""
        return module, name

    def facts_of(self, function: Any) -> dict[str, int]:
        """Declared registers."""
        declared = function[0][function[1]]
        return {"registers": sum(count for _, count in declared.registers.values()),
                "local": declared.bytes["local"], "shared": declared.bytes["shared"]}

    def launch(self, function: Any, shape: Sequence[int], parameters: bytes) -> None:
        """Run a kernel: what it has behind its words are the last bytes."""
        self._enter()
        module, name = function
        if len(parameters) != module[name].given:
            raise DriverError("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", _OUT_OF_RESOURCES,
                              f"{len(parameters)} bytes of parameters, of {module[name].given}")
        words = {"p": np.frombuffer(parameters[:len(parameters) & -8], np.uint8),
                 "units": np.frombuffer(parameters[-8:], np.uint64),
                 "blocks": np.frombuffer(parameters[-4:], np.uint32)}
        try:
            self.machine.launch(module, name, words, shape[0], shape[1:])
        except Fault as fault:
            if self._forgiving:
                raise DriverError("cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE", _INVALID_VALUE, str(fault)) from fault
            self._fault = str(fault)

    def wait(self) -> None:
        """All has run."""
        self._enter()

    def mark(self) -> float:
        """The time."""
        return time.perf_counter()

    def milliseconds(self, begin: float, end: float) -> float:
        """The time between two points."""
        return 1000 * (end - begin)

    # --- memory ------------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> int:
        """New memory."""
        self._enter()
        if self._held + nbytes > self.memory:
            raise MemoryError
        address = self.machine.memory.allocate(nbytes)
        self._held += nbytes
        return address

    def release(self, address: int) -> None:
        """Give it back."""
        nbytes = self.machine.memory.blocks[address]
        self._held -= nbytes
        self.machine.memory.release(address, nbytes)

    def trim(self) -> None:
        """Nothing is kept."""

    def upload(self, address: int, data: bytes | memoryview) -> None:
        """Write to memory."""
        self._enter()
        self.machine.memory.at(address, len(data))[:] = np.frombuffer(data, np.uint8)

    def download(self, address: int, nbytes: int) -> bytes:
        """Read it."""
        self._enter()
        return bytes(self.machine.memory.at(address, nbytes))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy."""
        self.upload(target, self.download(source, nbytes))

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Set bytes."""
        self._enter()
        self.machine.memory.at(address, nbytes)[:] = byte
