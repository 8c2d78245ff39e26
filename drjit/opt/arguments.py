"""Arguments of optimisers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from drjit_core import Extent, Node

from .._base.arguments import require_float
from .._base.array import ArrayBase
from .._base.errors import RangeError, SizeError, describe
from .._base.values import plain_scalar
from .._functions.states import detached
from .schedules import Schedule
from .steps import LITERAL, Rate

__all__ = ["by_name", "factor", "items", "learning_rate", "mask", "require_between"]


def require_between(function: str, name: str, value: Any, least: float, below: float = math.inf) -> float:
    """An argument that must be a finite number from ``least`` on, and below ``below``."""
    found = require_float(function, name, value)
    if not least <= found < below:
        wanted = f"in [{least:g}, {below:g})" if below < math.inf else "finite" if found > least else f">= {least:g}"
        raise RangeError(f"{function}(): '{name}' must be {wanted}, found {value!r}.")
    return found


def by_name(function: str, name: str, value: Any) -> Any:
    """An argument that is a number from 0 on, for all parameters, or a dictionary of such numbers and arrays."""
    if not isinstance(value, Mapping):
        return require_between(function, name, value, 0)
    return {key: detached(each) if isinstance(each, ArrayBase) and each._kind == "f" else require_between(
        function, name, each, 0) for key, each in value.items()}


def learning_rate(function: str, what: str, value: Any) -> Rate:
    """A learning rate as it is kept."""
    if isinstance(value, Schedule):
        return value
    found: Rate = factor(function, what, value)
    if isinstance(found, (float, Extent)) and not 0 <= found < math.inf:
        raise RangeError(f"{function}(): {what} must be {'finite' if found > 0 else '>= 0'}, found {value!r}.")
    return found


def factor(function: str, what: str, value: Any) -> Any:
    """What gradients are multiplied by: a number, that of a recording, or an array that fits the parameters."""
    if isinstance(value, Extent):
        return value * 1.0
    if isinstance(value, ArrayBase) and value._dynamic and value._kind != "b":
        return detached(value)
    found = None if isinstance(value, (bool, ArrayBase)) else plain_scalar(value)
    if found is None:
        raise TypeError(f"{function}(): {what} must be a number or an array of numbers, found {describe(value)}.")
    return float(found)


def items(function: str, params: Any) -> list[tuple[str, Any]]:
    """Names and values of a mapping, or of pairs."""
    try:
        return [(key, params[key]) for key in params] if hasattr(params, "keys") else \
            [(key, value) for key, value in params]
    except (TypeError, ValueError):
        raise TypeError(f"{function}(): parameters must be given as a dictionary from names to arrays, found "
                        f"{describe(params)}.") from None


def mask(function: str, active: Any) -> Node | Literal[False] | None:
    """The argument ``active``: ``None`` if all parameters take part, ``False`` if none does."""
    if active is None or active is True:
        return None
    if active is False:
        return False
    if not isinstance(active, ArrayBase) or active._kind != "b" or active._depth > 0:
        raise TypeError(f"{function}(): 'active' must be a bool, or a mask with one element, found {describe(active)}.")
    if not active._dynamic:
        return None if bool(active) else False
    node: Node = active._nodes()[0]
    if node.size != 1:
        raise SizeError(f"{function}(): 'active' must have one element, found {node.size}.")
    if node.kind == LITERAL:
        return None if node.payload else False
    return node
