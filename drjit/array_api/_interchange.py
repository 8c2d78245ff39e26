"""Arrays of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._creation import asarray, require_device
from ._data import Storage
from ._operands import describe

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["from_dlpack"]


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of what another library's array holds, by the DLPack protocol: a copy.

    ``copy=False`` raises a ``BufferError``. Arrays on other devices than the CPU raise one, too.
    """
    function = "drjit.array_api.from_dlpack"
    require_device(function, device)
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"{function}(): 'x' must have the method __dlpack__(), found {describe(x)}.")
    if isinstance(x, Storage):
        return asarray(x, copy=copy)
    if copy is False:
        raise BufferError(f"{function}(): the elements of {describe(x)} can be taken over by a copy only.")
    return asarray(np.from_dlpack(x))
