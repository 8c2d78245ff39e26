"""Arguments of functions of derivatives: directions and flags."""

from __future__ import annotations

from drjit_core import ADFlag, ADMode

from .._base.errors import ArgumentError, describe

__all__ = ["flags_of", "mode_of"]

_DEFAULT, _DEFAULT_BITS = ADFlag.Default, int(ADFlag.Default)
_ALL_FLAGS = int(ADFlag.Default | ADFlag.AllowNoGrad)


def flags_of(function: str, flags: object) -> int:
    """Flags that were given as an argument."""
    if flags is _DEFAULT:
        return _DEFAULT_BITS
    if flags.__class__ is bool or not isinstance(flags, int) or int(flags) & ~_ALL_FLAGS:
        found = repr(flags) if flags.__class__ is int else describe(flags)
        raise ArgumentError(f"{function}(): the argument 'flags' must be a combination of drjit.ADFlag values (found "
                            f"{found}).")
    return int(flags)


def mode_of(function: str, mode: object) -> int:
    """The direction that was given as an argument."""
    if not isinstance(mode, ADMode) or mode is ADMode.Primal:
        found = str(mode) if isinstance(mode, ADMode) else describe(mode)
        raise ArgumentError(f"{function}(): the argument 'mode' must be drjit.ADMode.Forward or drjit.ADMode.Backward "
                            f"(found {found}).")
    return int(mode.value)
