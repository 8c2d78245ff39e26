"""Devices by their names: the CPU, with the tensors of ``drjit.llvm.ad``, and a GPU, with those of ``drjit.cuda.ad``.

An array is on the device whose tensors it holds. Results are where operands are; what is made of no array is where the
function is told to make it, or :attr:`drjit.array_api.policy.device`.
"""

from __future__ import annotations

from typing import Any

import drjit as dr

__all__ = ["BACKENDS", "CPU", "CUDA", "devices", "known_device"]

CPU, CUDA = "cpu", "cuda"
BACKENDS = {CPU: dr.JitBackend.LLVM, CUDA: dr.JitBackend.CUDA}


def devices() -> tuple[str, ...]:
    """The devices that this machine has."""
    return (CPU, CUDA) if dr.has_backend(dr.JitBackend.CUDA) else (CPU,)


def known_device(function: str, device: Any) -> str:
    """A device by its name. Raises a ``ValueError`` for other names, a ``RuntimeError`` that says why there is no GPU.
    """
    if isinstance(device, str):
        if device == CPU:
            return CPU
        if device == CUDA:
            missing = dr.detail.missing_backend(dr.JitBackend.CUDA)
            if missing:
                raise RuntimeError(f"{function}(): the device 'cuda' is not available on this machine: {missing}")
            return CUDA
    found = devices()
    raise ValueError(f"{function}(): there is no device {device!r}; " + (
        "the only one is 'cpu'." if len(found) == 1 else f"there are {' and '.join(map(repr, found))}."))
