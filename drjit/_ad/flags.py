"""The enumerations of derivatives."""

from __future__ import annotations

import enum

from .._base.errors import ArgumentError, describe

__all__ = ["ADFlag", "ADMode", "flags_of", "mode_of"]


class ADMode(enum.Enum):
    """What is computed: values, or derivatives from inputs to outputs or from outputs to inputs."""

    #: Values without derivatives. No mode of traversals.
    Primal = 0
    #: Derivatives flow from inputs to outputs.
    Forward = 1
    #: Derivatives flow from outputs to inputs.
    Backward = 2


class ADFlag(enum.IntFlag):
    """What a traversal clears of the graph it goes through; flags are combined by ``|``.

    >>> int(dr.ADFlag.Default) == dr.ADFlag.ClearEdges | dr.ADFlag.ClearVertices
    True
    """

    #: Nothing: the same derivatives may be computed again, and add up.
    ClearNone = 0
    #: The edges that were traversed, with all that was kept for them.
    ClearEdges = 1
    #: The gradients of the variables that the traversal began with.
    ClearInput = 2
    #: The gradients of what lies between.
    ClearInterior = 4
    #: Gradients, but no edges.
    ClearVertices = 6
    #: Edges and gradients.
    Default = 7
    #: Arguments that track no derivatives are no error.
    AllowNoGrad = 8


def flags_of(function: str, flags: object) -> int:
    """Flags that were given as an argument."""
    if flags.__class__ is bool or not isinstance(flags, int):
        raise ArgumentError(f"{function}(): the argument 'flags' must be a combination of drjit.ADFlag values (found "
                            f"{describe(flags)}).")
    return int(flags)


def mode_of(function: str, mode: object) -> int:
    """The direction that was given as an argument."""
    if not isinstance(mode, ADMode) or mode is ADMode.Primal:
        found = str(mode) if isinstance(mode, ADMode) else describe(mode)
        raise ArgumentError(f"{function}(): the argument 'mode' must be drjit.ADMode.Forward or drjit.ADMode.Backward "
                            f"(found {found}).")
    return int(mode.value)
