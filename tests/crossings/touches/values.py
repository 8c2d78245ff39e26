"""Touches: conversions to numbers and arrays of others, text, and copies."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np

import drjit as dr
from tests.interop.harness import from_dlpack

from ..model import Array, Host, Operands, Typed, text_of
from .access import ACCESS, TENSORS, written, written_model
from .items import DIMENSION, five
from .rows import ALL, ARITHMETIC, NUMBERS, PLAIN, same, touch

# --- conversion ------------------------------------------------------------------------------------------------------


def _numpy(m: Array, o: Operands) -> Host:
    return Host((m[0] + 1j * m[1]).astype("c16" if o.dtype.itemsize == 8 else "c8") if o.kind == "C" else m.copy())


touch("numpy", lambda a, o: a.numpy(), _numpy, f"{ALL}:read", "biuf", "")
touch("np-array", lambda a, o: np.array(a), _numpy, f"{ALL}:read", "biuf", "")
touch("np-asarray-double", lambda a, o: np.asarray(a, dtype="f8"), lambda m, o: Host(m.astype("f8")),
      f"{ALL.replace('C', '')}:read", why="complex numbers are no reals; " + NUMBERS)
touch("np-function", lambda a, o: np.add(o.host(), np.asarray(a)), lambda m, o: Host(m + o.host()),
      f"{ALL.replace('C', '')}:read", why="complex numbers: see np-array; " + NUMBERS)
touch("np-from-dlpack", lambda a, o: from_dlpack(a), _numpy, f"{ALL}:read", "biuf", "")
touch("memview", lambda a, o: np.array(a.memview()), _numpy, "FNVT:read", "iu", "formats of memory views")
touch("list", lambda a, o: list(a) if o.kind == "F" else tuple(a), lambda m,
      o: Host(m.tolist()) if o.kind == "F" else tuple(m),
      "F:read NDCQMVT:read", "biuf", DIMENSION)
touch("tolist", lambda a, o: a.tolist(), lambda m, o: Host(_numpy(m, o).value.tolist()), f"{ALL}:read", "biuf", "")
touch("length", lambda a, o: len(a), lambda m, o: Host(len(m)), "FNDCQMVT:lanes", "biuf", DIMENSION)
touch("float", lambda a, o: float(a), lambda m, o: Host(float(_one(m))), "FVTS:read", ARITHMETIC,
      f"{NUMBERS}; of one number")
touch("int", lambda a, o: int(a), lambda m, o: Host(int(_one(m))), "FVTS:read", ARITHMETIC,
      f"{NUMBERS}; of one number")
touch("range", lambda a, o: list(range(a)), lambda m, o: Host(list(range(_one(m)))), "FVTS:read", "iu",
      "of one integer")
touch("bool", lambda a, o: bool(a), lambda m, o: Host(bool(_one(m))), "FVTS:read", "b", "of one mask")
touch("cast-double", lambda a, o: dr.float64_array_t(o.type)(a),
      lambda m, o: Typed(dr.float64_array_t(o.type), m.astype("f8")), why=NUMBERS)
touch("cast-int", lambda a, o: dr.int32_array_t(o.type)(a), lambda m,
      o: Typed(dr.int32_array_t(o.type), m.astype("i4")),
      f"{PLAIN}:lanes", why="no integer matrices; " + NUMBERS)
touch("construct", lambda a, o: o.type(a), lambda m, o: same(o, m), letters="biuf", why="")


def _one(model: Array) -> Any:
    if model.size != 1:
        raise TypeError("one element")
    return model.reshape(-1)[0].item()


# --- text ------------------------------------------------------------------------------------------------------------


def _printed(a: Any, o: Operands) -> str:
    text = io.StringIO()
    dr.print("{}", a, file=text)
    return text.getvalue()


def _printed_model(m: Array, o: Operands) -> Host:
    """Of arrays with as many elements as a loop has lanes, active ones are printed."""
    shown = m[..., o.active] if not o.tensor and m.shape[-1] == o.lanes > 1 else m
    return Host(text_of(shown, o.kind) + "\n")


def _text(m: Array, o: Operands) -> Host:
    return Host(text_of(m, o.kind))


touch("repr", lambda a, o: repr(a), _text, f"{ALL}:read", "biuf", "")
touch("str", lambda a, o: str(a), _text, f"{ALL}:read", "biuf", "")
touch("f-string", lambda a, o: f"{a}", _text, f"{ALL}:read", "biuf", "")
touch("f-string-of-one", lambda a, o: f"{a:.2f}", lambda m, o: Host(f"{_one(m):.2f}"), "FVTS:read", ARITHMETIC,
      f"{NUMBERS}; of one number")
touch("format", lambda a, o: dr.format("<{}>", a), lambda m, o: Host(f"<{text_of(m, o.kind)}>"), f"{ALL}:read", "biuf",
      "")
touch("print", _printed, _printed_model, f"{ALL}:read", "biuf", "")

# --- copies ----------------------------------------------------------------------------------------------------------


def _changed(duplicate: Any, o: Operands) -> Any:
    """Changes a copy, which must leave the array alone."""
    if o.letter == "b":
        duplicate &= o.mask()
    else:
        duplicate += 2
    return duplicate


def _changed_model(m: Array, o: Operands) -> Typed:
    return same(o, m & o.spread(o.mask_value) if o.letter == "b" else m + o.number(2))


def _changed_memory(duplicate: Any, o: Operands) -> Any:
    """Writes to the memory of a copy."""
    target = duplicate.array if o.tensor else duplicate
    dr.scatter(target, o.leaf(five(o)) if o.tensor or o.kind == "F" else o.type(five(o)), o.index(0))
    return duplicate


def _changed_memory_model(m: Array, o: Operands) -> Typed:
    result = m.copy()
    if o.tensor:
        result.reshape(-1)[0] = five(o)
    else:
        result[..., 0] = o.number(five(o))[..., 0] if o.kind in "CQM" else o.number(five(o))
    return same(o, result)


def _pickled(a: Any) -> Any:
    return pickle.loads(pickle.dumps(a))


touch("copy", lambda a, o: _changed(copy.copy(a), o), _changed_model, letters="biuf", why="")
touch("deepcopy", lambda a, o: _changed(copy.deepcopy(a), o), _changed_model, letters="biuf", why="")
touch("dr-copy", lambda a, o: _changed(dr.copy(a), o), _changed_model, letters="biuf", why="")
touch("construct-change", lambda a, o: _changed(o.type(a), o), _changed_model, letters="biuf", why="")
touch("copy-write", lambda a, o: _changed_memory(copy.copy(a), o), _changed_memory_model, f"{ALL}:read", "biuf", "")
touch("deepcopy-write", lambda a, o: _changed_memory(copy.deepcopy(a), o), _changed_memory_model, f"{ALL}:read", "biuf",
      "")
touch("deepcopy-twice", lambda a, o: tuple(copy.deepcopy([a, a])), lambda m, o: (same(o, m), same(o, m)),
      letters="biuf", why="")
touch("pickle", lambda a, o: _pickled(a), lambda m, o: same(o, m), f"{ALL}:read", "biuf", "")
touch("pickle-write", lambda a, o: _changed_memory(_pickled(a), o), _changed_memory_model, f"{ALL}:read", "biuf", "")
touch("pickle-nested", lambda a, o: _pickled({"a": [a, a]})["a"][1], lambda m, o: same(o, m), f"{ALL}:read", "biuf", "")
touch("write-after-copy", lambda a, o: _written_after_copy(a, o), lambda m, o: _written_after_copy_model(m, o),
      "F:item",
      "biuf", "an element that is set from the host", holds=True)
touch("scatter-after-copy", lambda a, o: _scattered_after_copy(a, o), lambda m, o: _scattered_model(m, o),
      f"{ACCESS}:scatter", "biuf", TENSORS, holds=True)
touch("eval", lambda a, o: _evaluated(a), lambda m, o: same(o, m), f"{ALL}:read", "biuf", "")


def _written_after_copy(a: Any, o: Operands) -> Any:
    duplicate = copy.copy(a)
    a[0] = five(o)
    return duplicate


def _written_after_copy_model(m: Array, o: Operands) -> Typed:
    result = same(o, m.copy())
    m[0] = five(o)
    return result


def _scattered_after_copy(a: Any, o: Operands) -> Any:
    duplicate = dr.copy(a)
    dr.scatter(a, written(o), o.key())
    return duplicate


def _scattered_model(m: Array, o: Operands) -> Typed:
    result = same(o, m.copy())
    o.put(m, o.key_value, written_model(o))
    return result


def _evaluated(a: Any) -> Any:
    dr.eval(a)
    return a
