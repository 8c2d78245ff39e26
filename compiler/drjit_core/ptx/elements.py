"""PTX text of one element in memory: its address, a load, a store."""

from __future__ import annotations

from ..types import BOOL, INT32, UINT32
from .registers import FALSE, TRUE, Registers
from .texts import Lines, T

__all__ = ["address_of", "as_byte", "loaded", "stored"]


def loaded(emitter: Registers, type_: int, target: str, address: str, guard: str = "",
           space: str = "global") -> Lines:
    """Text that loads an element; zero where the guard does not hold."""
    if type_ == BOOL:
        byte = emitter.register("%h")
        return [*([f"mov.b16 {byte}, 0;"] if guard else []), f"{guard}ld.{space}.u8 {byte}, [{address}];",
                f"setp.ne.u16 {target}, {byte}, 0;"]
    return [*([emitter.clear(type_, target)] if guard else []),
            f"{guard}ld.{space}.{T[type_].memory} {target}, [{address}];"]


def stored(emitter: Registers, type_: int, address: str, value: str, guard: str = "",
           space: str = "global") -> Lines:
    """Text that stores an element."""
    if type_ != BOOL:
        return [f"{guard}st.{space}.{T[type_].memory} [{address}], {value};"]
    byte, lines = as_byte(emitter, value)
    return [*lines, f"{guard}st.{space}.u8 [{address}], {byte};"]


def as_byte(emitter: Registers, mask: str) -> tuple[str, Lines]:
    """A mask as it lies in memory, and text that makes it."""
    byte = emitter.register("%h")
    if mask in (TRUE, FALSE):
        return byte, [f"mov.b16 {byte}, {int(mask == TRUE)};"]
    return byte, [f"selp.b16 {byte}, 1, 0, {mask};"]


def address_of(emitter: Registers, base: str, index: str, type_: int, size: int) -> str:
    """The address of an element, by its index."""
    address = emitter.register("%rd")
    if type_ in (UINT32, INT32):  # one instruction, for the assembler
        emitter.lines += [f"mul.wide.{T[type_]} {address}, {index}, {size};",
                          f"add.s64 {address}, {base}, {address};"]
    else:
        emitter.lines.append(f"mad.lo.u64 {address}, {index}, {size}, {base};")
    return address
