"""Run traced functions on NumPy arrays, for the tests of :mod:`drjit_core.math`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401  the NumPy dtype "bfloat16" from now on
import numpy as np

from drjit_core import TYPES, Node, VarType, host_view, import_copy, literal
from drjit_core.types import FLOAT16, FLOAT32, FLOAT64

__all__ = ["DTYPES", "FLOATS", "compute", "fold", "to_array", "to_node", "ulp_error"]

FLOATS = (FLOAT16, FLOAT32, FLOAT64)
DTYPES = {v.value: np.dtype(v.name.lower()) for v in VarType if v not in (VarType.Void, VarType.Pointer)}
_NUMBERS = {dtype: type_ for type_, dtype in DTYPES.items()}


def to_node(array: np.ndarray[Any, Any]) -> Node:
    """A copy of an array in the compiler's memory."""
    return import_copy(_NUMBERS[array.dtype], np.ascontiguousarray(array))


def to_array(node: Node) -> np.ndarray[Any, Any]:
    """The values of a node, evaluated if need be."""
    node, address, buffer = host_view(node)
    raw = ctypes.string_at(address, node.size * TYPES[node.type].size)
    del buffer
    return np.frombuffer(raw, DTYPES[node.type])


def compute(function: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> Any:
    """Trace a function of nodes and run it as a kernel."""
    result = function(*map(to_node, arrays))
    return tuple(map(to_array, result)) if isinstance(result, tuple) else to_array(result)


def fold(function: Callable[..., Node], type_: int, *values: float) -> Any:
    """The function of literals: what constant folding makes of it."""
    return function(*(literal(type_, value) for value in values)).payload


def ulp_error(result: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Distance from the exact result in units of the last place of the result's type; NaN where it is not finite."""
    rounded = exact.astype(result.dtype)
    with np.errstate(invalid="ignore"):
        return np.abs(result.astype(exact.dtype) - exact) / np.spacing(np.abs(rounded)).astype(exact.dtype)
