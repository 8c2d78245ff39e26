"""What the namespace says of itself."""

from __future__ import annotations

from typing import Any

from . import _dtypes as dtypes
from ._creation import chosen_device, isdtype
from ._devices import devices
from ._dtypes import DType
from ._evaluation import default_device

__all__ = ["__array_namespace_info__"]

_NAMESPACE = "drjit.array_api"


class Info:
    """Capabilities, devices and data types of the namespace."""

    def capabilities(self) -> dict[str, Any]:
        """What of the standard is optional: Boolean keys and data-dependent shapes exist; any number of dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """The device of new arrays, which ``drjit.array_api.policy.device`` says."""
        return default_device()

    def devices(self) -> tuple[str, ...]:
        """All devices: ``'cpu'``, and ``'cuda'`` where there is a GPU."""
        return devices()

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The data types of new arrays, by kind."""
        chosen_device(f"{_NAMESPACE}.__array_namespace_info__().default_dtypes", device)
        return {"real floating": dtypes.DEFAULT_FLOAT, "complex floating": dtypes.DEFAULT_COMPLEX,
                "integral": dtypes.DEFAULT_INT, "indexing": dtypes.DEFAULT_INT}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """Data types by name; those of a category, or of several, with ``kind``."""
        chosen_device(f"{_NAMESPACE}.__array_namespace_info__().dtypes", device)
        standard = {name: dtype for name, dtype in dtypes.ALL.items() if name != "float16"}
        return standard if kind is None else {name: dtype for name, dtype in standard.items() if isdtype(dtype, kind)}


def __array_namespace_info__() -> Info:
    """What the namespace says of itself."""
    return Info()
