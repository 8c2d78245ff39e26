"""Cells that are known to be wrong, by defect. The list is to become empty: a cell in it that passes fails its test."""

from __future__ import annotations

import functools
from fnmatch import fnmatchcase
from typing import NamedTuple

__all__ = ["KNOWN", "Known"]


class Known(NamedTuple):
    """A defect, and the cells that show it: patterns of touches, states and places.

    ``crashes``: it destroys memory, or never ends. Such cells are not run with the others.
    """

    defect: str
    touches: str
    states: str = "*"
    places: str = "*"
    crashes: bool = False

    def covers(self, touch: str, state: str, place: str) -> bool:
        """Whether a cell is one of those."""
        return _matches(touch, self.touches) and _matches(state, self.states) and _matches(place, self.places)


@functools.cache
def _matches(name: str, patterns: str) -> bool:
    """Whether one of several patterns matches, and none of those that begin with ``!``."""
    positive = [pattern for pattern in patterns.split() if pattern[0] != "!"] or ["*"]
    return any(fnmatchcase(name, pattern) for pattern in positive) and \
        not any(fnmatchcase(name, pattern[1:]) for pattern in patterns.split() if pattern[0] == "!")


_OUTSIDE = "A symbolic loop changes arrays that were made outside, or leaves symbolic values in them"
_INDEPENDENT = "What depends on nothing in a symbolic loop counts as symbolic when it was computed inside"

KNOWN: list[Known] = [
    Known(_OUTSIDE,
          "in-place-number in-place-wide in-place-times in-place-and set-component-wide set-slice-all set-mask "
          "set-mask-wide increase-mask set-mask-of-array set-component increase-component write-after-copy",
          "*",
          "symbolic-captured"),
    Known(_OUTSIDE,
          "set-item set-item-last",
          "!tensor !tensor-unevaluated !tensor-vector !tensor-literal !tensor-half !tensor-int !tensor-mask "
          "!tensor-shared !tensor-exported",
          "symbolic-captured"),
    Known(_OUTSIDE,
          "increase-item",
          "!tensor !tensor-unevaluated !tensor-vector !tensor-literal !tensor-half !tensor-int !tensor-shared "
          "!tensor-exported",
          "symbolic-captured"),
    Known(_OUTSIDE,
          "set-slice",
          "one-literal one-evaluated one-reduced one-int one-mask row nested nested-literal nested-unevaluated "
          "nested-broadcast nested-int nested-half nested-mask nested-pending-target dynamic deep quaternion matrix "
          "tensor-one differentiable-nested",
          "symbolic-captured"),
    Known(_OUTSIDE,
          "set-slice-wide set-slice-numpy set-slice-shifted",
          "one-literal one-evaluated one-reduced one-int one-mask tensor-one",
          "symbolic-captured"),
    Known(_OUTSIDE,
          "set-slice-list set-slice-reversed",
          "one-literal one-evaluated one-reduced one-int one-mask",
          "symbolic-captured"),
    Known(_OUTSIDE,
          "set-element",
          "!tensor !tensor-unevaluated !tensor-literal !tensor-half !tensor-int !tensor-mask !tensor-shared "
          "!tensor-exported",
          "symbolic-captured"),
    Known(_OUTSIDE,
          "set-row-wide",
          "tensor-one",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "slice slice-step",
          "!literal !one-literal !one-evaluated !one-reduced !one-int !one-mask !row !nested !nested-literal "
          "!nested-unevaluated !nested-broadcast !nested-int !nested-half !nested-mask !nested-pending-target "
          "!dynamic !quaternion !tensor-literal !tensor-one !differentiable-nested",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "key-numpy",
          "!literal !one-literal !one-evaluated !one-int !one-mask !tensor-literal !tensor-one",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "mean-all",
          "!literal !one-literal !one-evaluated !nested-literal !tensor-literal !tensor-scalar !tensor-one",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "all-of-comparison",
          "!literal !one-literal !one-evaluated !one-int !nested-literal !nested-broadcast !tensor-literal "
          "!tensor-scalar !tensor-one",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "sum",
          "half tensor-half",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "sum-all prod-all",
          "half row nested nested-unevaluated nested-broadcast nested-int nested-half nested-pending-target dynamic "
          "deep complex complex-broadcast quaternion matrix tensor-half differentiable-nested",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "count",
          "!one-mask",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "max-all",
          "row nested nested-unevaluated nested-broadcast nested-int nested-half nested-pending-target dynamic deep "
          "differentiable-nested",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "any",
          "nested-mask",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "item item-last item-numpy list",
          "tensor tensor-unevaluated tensor-vector tensor-half tensor-int tensor-mask tensor-shared tensor-exported",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "element",
          "tensor tensor-unevaluated tensor-half tensor-int tensor-mask tensor-shared tensor-exported",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "slice-axes key-rows take",
          "!tensor-literal !tensor-one",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "sum-axis",
          "!tensor-vector !tensor-literal !tensor-one",
          "symbolic-captured"),
]
