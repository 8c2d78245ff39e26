"""Touches: gathers and scatters, packets, and updates that tell what they found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import drjit as dr

from ..model import Array, Host, Operands, Typed
from .items import five, put
from .rows import ARITHMETIC, NUMBERS, UNORDERED, lane_wise, same, touch

__all__ = ["ACCESS", "TENSORS", "written", "written_model"]


ACCESS = "FNDCQM"
TENSORS = "tensors are read by slices; see gather-tensor"


def written(o: Operands) -> Any:
    """What a scatter writes: a number for each lane, as an array of the target's type."""
    return o.wide() if o.kind == "F" else o.type(o.wide())


def written_model(o: Operands) -> Any:
    return lane_wise(o, o.wide_value)


def _looked_up(filter_mode: dr.FilterMode) -> Callable[[Any, Operands], Any]:
    def act(a: Any, o: Operands) -> Any:
        form = {2: "f16", 4: "f", 8: "f64"}[o.dtype.itemsize]
        texture = getattr(o.package, f"Texture1{form}")([o.count], 1, filter_mode=filter_mode)
        texture.set_value(a)
        return texture.eval(o.package.Array1f((o.package.Float(o.key()) + 0.5) / max(o.count, 1))).x
    return act


touch("gather", lambda a, o: dr.gather(o.type, a, o.key()), lambda m, o: same(o, o.read(m)),
      f"{ACCESS}:gather", "biuf", TENSORS, masked=True)
touch("gather-masked", lambda a, o: dr.gather(o.type, a, o.key(), o.mask()),
      lambda m, o: same(o, o.read(m, o.mask_value)), f"{ACCESS}:gather", "biuf", TENSORS, masked=True)
touch("gather-tensor", lambda a, o: dr.gather(o.leaf, a, o.key()), None, "VTS:read", "biuf", "refused of tensors")
touch("gather-from-storage", lambda a, o: dr.gather(o.leaf, a.array, o.key()),
      lambda m, o: Typed(o.leaf, o.read(m)), "VTS:gather", "biuf", "tensors have a flat array behind them", masked=True)
for _mode in dr.FilterMode:
    touch(f"look-up-{_mode.name.lower()}", _looked_up(_mode),
          lambda m, o: Typed(o.package.Float, o.read(m).astype(np.float32)), "F:gather", "f",
          "texels of textures are floating-point numbers", masked=True)
touch("take", lambda a, o: dr.take(a, 0), lambda m, o: same(o, m[0]),
      "VT:read", "biuf", "of tensors")
touch("scatter", lambda a, o: dr.scatter(a, written(o), o.key()), lambda m, o: o.put(m, o.key_value, written_model(o)),
      f"{ACCESS}:scatter", "biuf", TENSORS)
touch("scatter-number", lambda a, o: dr.scatter(a, o.type(five(o)), o.key()), lambda m,
      o: o.put(m, o.key_value, o.number(five(o))),
      f"{ACCESS}:scatter", "biuf", TENSORS)
touch("scatter-masked", lambda a, o: dr.scatter(a, written(o), o.key(), o.mask()),
      lambda m, o: o.put(m, o.key_value, written_model(o), o.mask_value), f"{ACCESS}:scatter", "biuf", TENSORS)
touch("scatter-permuted", lambda a,
      o: dr.scatter(a, dr.gather(o.type, a, o.key()), o.of_left(o.index(o.key_value[::-1].tolist()))),
      lambda m, o: o.put(m, o.key_value[::-1], m[..., o.key_value].copy()), f"{ACCESS}:scatter", "biuf", TENSORS,
      holds=True)
touch("scatter-add", lambda a, o: dr.scatter_add(a, written(o), o.key()),
      lambda m, o: o.put(m, o.key_value, written_model(o), combine=np.add.at), f"{ACCESS}:scatter", ARITHMETIC,
      f"{NUMBERS}; {TENSORS}")
touch("scatter-add-one-place", lambda a, o: dr.scatter_add(a, written(o), o.key() * 0),
      lambda m, o: o.put(m, o.key_value * 0, written_model(o), combine=np.add.at), f"{ACCESS}:scatter", ARITHMETIC,
      f"{NUMBERS}; {TENSORS}")
touch("scatter-max", lambda a, o: dr.scatter_reduce(dr.ReduceOp.Max, a, written(o), o.key()),
      lambda m, o: o.put(m, o.key_value, written_model(o), combine=np.maximum.at), "FND:scatter", ARITHMETIC,
      f"{NUMBERS}; {TENSORS}; {UNORDERED}")
touch("scatter-storage", lambda a, o: dr.scatter(a.array, o.leaf(five(o)), o.index(0)),
      lambda m, o: put(m.reshape(-1), 0, five(o)), "VTS:write", "biuf", "tensors have a flat array behind them")

# What several lanes write to one place is ordered by no one: packets are written by the lanes of ``mask``.


def _packet_type(o: Operands) -> Any:
    """The type of two components whose elements the array has."""
    return next(kind for name in dir(o.package) if name.startswith("Array2") and name[6] in "iufb"
                and dr.leaf_t(kind := getattr(o.package, name)) is o.leaf)


def _packet_value(o: Operands) -> Array:
    """Which packet of two elements each lane means."""
    return o.key_value % 2


def _packet_key(o: Operands) -> Any:
    return o.index(_packet_value(o).tolist())


def _packet(o: Operands) -> Any:
    """A packet for each lane: a number, and five."""
    return _packet_type(o)(o.wide(), five(o))


def _read_packets(m: Array, o: Operands) -> Typed:
    found = np.stack([m[_packet_value(o) * 2 + k] for k in range(2)])
    return Typed(_packet_type(o), np.where(o.active, found, o.dtype.type(0)))


def _put_packets(m: Array, o: Operands, where: Any = True, combine: Any = None) -> None:
    for k, values in enumerate((o.wide_value, five(o))):
        o.put(m, _packet_value(o) * 2 + k, values, where, combine)


def _exchanged(m: Array, o: Operands, values: Any, where: Any = True) -> Typed:
    """What was at the keys' positions before they are written."""
    before = same(o, o.read(m))
    o.put(m, o.key_value, values, where)
    return before


def _compared(a: Any, o: Operands) -> Any:
    before, written = dr.scatter_cas(a, o.leaf(o.scalar(1)), o.leaf(five(o)), o.key())
    return before, written


def _compared_model(m: Array, o: Operands) -> tuple[Typed, Array]:
    before = o.read(m)
    written = o.active & (before == 1)
    return _exchanged(m, o, five(o), before == 1), written


def _compensated(a: Any, o: Operands) -> None:
    dr.scatter_add_kahan(a, o.spare, o.wide(), o.key() * 0)


_PACKETS = "packets are parts of flat arrays; of numbers and masks that have a type of two components"
touch("gather-packet", lambda a, o: dr.gather(_packet_type(o), a, _packet_key(o)), _read_packets, "F:gather", "biuf",
      _PACKETS, masked=True)
touch("scatter-packet", lambda a, o: dr.scatter(a, _packet(o), _packet_key(o), o.mask()),
      lambda m, o: _put_packets(m, o, o.mask_value), "F:scatter", "biuf", _PACKETS)
touch("scatter-add-packet", lambda a, o: dr.scatter_add(a, _packet(o), _packet_key(o)),
      lambda m, o: _put_packets(m, o, combine=np.add.at), "F:scatter", ARITHMETIC, f"{NUMBERS}; {_PACKETS}")
touch("scatter-inc", lambda a, o: dr.scatter_inc(a, o.key()), lambda m, o: _exchanged(m, o, o.read(m) + 1),
      "F:scatter", "u", "counters are unsigned numbers of 32 bits")
touch("scatter-exch", lambda a, o: dr.scatter_exch(a, o.wide(), o.key()),
      lambda m, o: _exchanged(m, o, o.wide_value), "F:scatter", "biuf", "elements of flat arrays are exchanged")
touch("scatter-cas", _compared, _compared_model, "F:scatter", ARITHMETIC,
      f"{NUMBERS}; elements of flat arrays are compared and exchanged")
touch("scatter-add-kahan", _compensated, lambda m, o: o.put(m, o.key_value * 0, o.wide_value, combine=np.add.at),
      "F:scatter", "f", "floating point only, in flat arrays")
touch("slice-lane", lambda a, o: dr.slice(a, 0), lambda m, o: Host(m[0].item()) if o.kind == "F" else m[..., 0],
      f"{ACCESS}:read", "biuf", "tensors have no lanes")
