"""Names of the reference that are yet to come: they can be imported, and say so when they are used."""

from __future__ import annotations

import re
from typing import Any, NoReturn

__all__ = ["Later", "package_name", "public_name"]

#: By area, the names of the public package.
_AREAS: dict[str, str] = {
    "derivatives": """
        ADFlag ADMode CustomOp accum_grad backward backward_from backward_to clear_grad custom detach disable_grad
        enable_grad enqueue forward forward_from forward_to grad grad_enabled graphviz_ad isolate_grad replace_grad
        resume_grad set_grad set_grad_enabled suspend_grad traverse whos_ad""",
    "control flow": "Local alloc_local dispatch hint if_stmt reorder_threads switch syntax",
    "memory operations": """
        argmax argmin argsort block_prefix_reduce block_prefix_sum block_reduce block_sum compress cumsum prefix_reduce
        prefix_sum scatter_add_kahan scatter_cas scatter_exch scatter_inc sort""",
    "tensor operations": "convolve repeat resample reverse slice take_interp tile",
    "random numbers": "random rng", "frozen functions": "freeze", "other frameworks": "wrap",
    "textures": "FilterMode WrapMode", "ray marching through grids": "dda", "neural networks": "nn",
    "optimizers": "opt", "profiling": "profile_enable profile_mark profile_range",
}
_AREA_OF = {name: area for area, names in _AREAS.items() for name in names.split()}

#: Names of the packages of array types.
_PACKAGE = re.compile(r"Event|Texture[123](?:f|f16|f64|f8u)")
_CUDA = {"GLInterop", "green_context", "map_graphics_resource_array", "map_graphics_resource_ptr",
         "memcpy_2d_to_array_async", "register_gl_buffer", "register_gl_texture", "unmap_graphics_resource",
         "unregister_cuda_resource"}


class Later:
    """Stands for a function, class or module that is not implemented yet; raises when it is called or inherited."""

    __slots__ = ("__name__", "_area", "_members")

    def __init__(self, name: str, area: str, members: bool = False) -> None:
        self.__name__, self._area, self._members = name, area, members

    def _raise(self) -> NoReturn:
        raise NotImplementedError(f"{self.__name__}(): not implemented yet ({self._area}).")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._raise()

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        self._raise()

    def __getattr__(self, name: str) -> Any:
        if self._members and not name.startswith("_"):
            return Later(f"{self.__name__}.{name}", self._area)
        raise AttributeError(f"{self.__name__!r} is not implemented yet ({self._area}) and has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<{self.__name__}: not implemented yet ({self._area})>"


def public_name(name: str) -> Later | None:
    """What stands for a name of the public package, or ``None`` if it is none that is to come."""
    area = _AREA_OF.get(name)
    return None if area is None else Later(f"drjit.{name}", area, name in ("nn", "opt", "dda", "random"))


def package_name(module: str, name: str) -> Later | None:
    """What stands for a name of a package of array types, or ``None`` if it is none that is to come."""
    if _PACKAGE.fullmatch(name) and (name != "Event" or module != "drjit.scalar"):
        area = "events" if name == "Event" else "textures"
        return Later(f"{module}.{name}", area)
    return Later(f"{module}.{name}", "CUDA") if name in _CUDA and module.startswith("drjit.cuda") else None
