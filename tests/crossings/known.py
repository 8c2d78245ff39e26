"""Cells that are known to be wrong, by defect. The list is to become empty: a cell in it that passes fails its test."""

from __future__ import annotations

import functools
from fnmatch import fnmatchcase
from typing import NamedTuple

__all__ = ["KNOWN", "Known"]


class Known(NamedTuple):
    """A defect, and the cells that show it: patterns of touches, states and places.

    ``crashes``: it destroys memory. Such cells are not run with the others.
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


_PICKLE = "Pickles hold addresses of memory"
_EMPTY = "Evaluated loops take empty state variables"
_OUTSIDE = "A symbolic loop changes arrays that were made outside, or leaves symbolic values in them"
_INDEPENDENT = "What depends on nothing in a symbolic loop counts as symbolic when it was computed inside"
_NUMPY = "NumPy operands of nested arrays give dynamic arrays, or nothing"
_COMPLEX = "Complex NumPy operands, and complex DLPack exports"
_CONVERSIONS = "Conversions: tolist, float, int, range, formats of one element"
_MEAN = "The mean of no numbers is 0"

KNOWN: list[Known] = [
    Known(_PICKLE,
          "pickle*",
          "*",
          "*", crashes=True),
    Known(_EMPTY,
          "add-number number-minus add-wide wide-times add-one-element add-itself times-itself add-double add-numpy "
          "numpy-minus add-numpy-number negative absolute square divide fma select maximum sqrt function-of-numpy "
          "in-place-number in-place-wide in-place-times greater equal-number equal-wide unequal-itself less-numpy "
          "item item-last item-numpy item-beyond slice slice-all slice-reversed slice-step mask-key set-item-beyond "
          "set-item-text set-slice-all set-mask set-mask-wide increase-mask set-mask-of-array sum sum-all prod-all "
          "max max-all mean-all all-of-comparison numpy np-array np-asarray-double np-function np-from-dlpack list "
          "tolist length cast-double cast-int construct repr str f-string format print copy deepcopy dr-copy "
          "construct-change deepcopy-twice eval",
          "empty nested-empty tensor-empty",
          "evaluated-carried"),
    Known(_EMPTY,
          "add-list subtract-list gather gather-masked scatter scatter-number scatter-masked scatter-permuted "
          "scatter-add scatter-add-one-place scatter-max scatter-after-copy",
          "empty nested-empty",
          "evaluated-carried"),
    Known(_EMPTY,
          "slice-nothing slice-none key-numpy set-item set-item-last increase-item set-slice set-slice-wide "
          "set-slice-numpy set-slice-shifted set-slice-mismatch set-key-numpy increase-key-numpy float int "
          "f-string-of-one",
          "empty tensor-empty",
          "evaluated-carried"),
    Known(_EMPTY,
          "slice-column key key-signed set-slice-list set-slice-reversed set-key set-key-wide increase-key "
          "write-after-copy",
          "empty",
          "evaluated-carried"),
    Known(_EMPTY,
          "element",
          "nested-empty tensor-empty",
          "evaluated-carried"),
    Known(_EMPTY,
          "key-nested component",
          "nested-empty",
          "evaluated-carried"),
    Known(_EMPTY,
          "slice-axes slice-ellipsis key-rows set-row-wide set-element gather-tensor gather-from-storage take "
          "sum-axis",
          "tensor-empty",
          "evaluated-carried"),
    Known(_OUTSIDE,
          "in-place-number in-place-wide in-place-times in-place-and set-component-wide set-mask set-mask-wide "
          "set-mask-of-array set-component increase-component",
          "*",
          "symbolic-captured"),
    Known(_OUTSIDE,
          "set-item set-item-last",
          "!literal !one-literal !one-evaluated !one-mask !tensor !tensor-unevaluated !tensor-vector "
          "!tensor-literal !tensor-half !tensor-int !tensor-mask !tensor-shared !tensor-exported",
          "symbolic-captured"),
    Known(_OUTSIDE,
          "increase-item",
          "!literal !one-literal !one-evaluated !tensor !tensor-unevaluated !tensor-vector !tensor-literal "
          "!tensor-half !tensor-int !tensor-shared !tensor-exported",
          "symbolic-captured"),
    Known(_OUTSIDE,
          "write-after-copy",
          "!literal !one-literal !one-evaluated !one-mask",
          "symbolic-captured"),
    Known(_OUTSIDE,
          "set-slice",
          "one-literal one-evaluated one-reduced one-mask row nested nested-literal nested-unevaluated "
          "nested-broadcast nested-int nested-half nested-mask nested-pending-target dynamic deep quaternion matrix "
          "tensor-one differentiable-nested",
          "symbolic-captured"),
    Known(_OUTSIDE,
          "set-slice-shifted",
          "one-literal one-evaluated one-reduced one-mask tensor-one",
          "symbolic-captured"),
    Known(_OUTSIDE,
          "set-element",
          "!nested-literal !tensor !tensor-unevaluated !tensor-literal !tensor-half !tensor-int !tensor-mask "
          "!tensor-shared !tensor-exported",
          "symbolic-captured"),
    Known(_OUTSIDE,
          "set-slice-all",
          "row nested nested-literal nested-unevaluated nested-broadcast nested-int nested-half nested-mask "
          "nested-pending-target dynamic deep quaternion matrix tensor tensor-unevaluated tensor-vector "
          "tensor-literal tensor-one tensor-half tensor-int tensor-mask tensor-shared tensor-exported "
          "differentiable-nested",
          "symbolic-captured"),
    Known(_OUTSIDE,
          "set-row-wide set-slice-wide set-slice-numpy",
          "tensor-one",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "slice",
          "!one-literal !one-evaluated !one-reduced !one-mask !row !nested !nested-literal !nested-unevaluated "
          "!nested-broadcast !nested-int !nested-half !nested-mask !nested-pending-target !dynamic !quaternion "
          "!tensor-one !differentiable-nested",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "slice-step",
          "!row !nested !nested-literal !nested-unevaluated !nested-broadcast !nested-int !nested-half !nested-mask "
          "!nested-pending-target !dynamic !quaternion !differentiable-nested",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "sum max",
          "literal one-literal one-evaluated tensor-literal tensor-scalar tensor-one",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "sum-all prod-all",
          "literal one-literal one-evaluated row nested nested-literal nested-unevaluated nested-broadcast "
          "nested-int nested-half nested-pending-target dynamic deep complex complex-broadcast quaternion matrix "
          "tensor-literal tensor-scalar tensor-one differentiable-nested",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "max-all",
          "literal one-literal one-evaluated row nested nested-literal nested-unevaluated nested-broadcast "
          "nested-int nested-half nested-pending-target dynamic deep tensor-literal tensor-scalar tensor-one "
          "differentiable-nested",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "key-rows take mean-all all-of-comparison count",
          "*",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "numpy np-array np-from-dlpack eval",
          "literal one-literal one-evaluated one-mask nested-literal nested-broadcast complex-broadcast "
          "tensor-literal tensor-scalar tensor-one",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "np-asarray-double np-function",
          "literal one-literal one-evaluated nested-literal nested-broadcast tensor-literal tensor-scalar "
          "tensor-one",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "any",
          "one-mask nested-mask",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "list",
          "nested-broadcast complex-broadcast tensor tensor-unevaluated tensor-vector tensor-literal tensor-half "
          "tensor-int tensor-mask tensor-shared tensor-exported",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "item item-last item-numpy key-numpy",
          "tensor tensor-unevaluated tensor-vector tensor-literal tensor-one tensor-half tensor-int tensor-mask "
          "tensor-shared tensor-exported",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "element",
          "tensor tensor-unevaluated tensor-literal tensor-one tensor-half tensor-int tensor-mask tensor-shared "
          "tensor-exported",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "slice-axes",
          "!tensor-one",
          "symbolic-captured"),
    Known(_INDEPENDENT,
          "sum-axis",
          "!tensor-vector",
          "symbolic-captured"),
    Known(_NUMPY,
          "add-numpy numpy-minus",
          "row nested nested-literal nested-unevaluated nested-broadcast nested-empty nested-int nested-half "
          "nested-pending-target deep quaternion matrix differentiable-nested",
          "plain thread fork exception"),
    Known(_NUMPY,
          "add-numpy numpy-minus",
          "row nested nested-literal nested-unevaluated nested-broadcast nested-int nested-half "
          "nested-pending-target deep quaternion matrix differentiable-nested",
          "symbolic-carried symbolic-captured evaluated-carried evaluated-captured"),
    Known(_NUMPY,
          "function-of-numpy less-numpy",
          "row nested nested-literal nested-unevaluated nested-broadcast nested-empty nested-int nested-half "
          "nested-pending-target deep differentiable-nested",
          "plain thread fork exception"),
    Known(_NUMPY,
          "function-of-numpy less-numpy",
          "row nested nested-literal nested-unevaluated nested-broadcast nested-int nested-half "
          "nested-pending-target deep differentiable-nested",
          "symbolic-carried symbolic-captured evaluated-carried evaluated-captured"),
    Known(_NUMPY,
          "and-numpy",
          "nested-mask"),
    Known(_COMPLEX,
          "add-numpy-complex",
          "*"),
    Known(_COMPLEX,
          "np-from-dlpack",
          "complex complex-broadcast",
          "plain thread fork exception evaluated-carried evaluated-captured"),
    Known(_COMPLEX,
          "np-from-dlpack",
          "complex",
          "symbolic-captured"),
    Known(_CONVERSIONS,
          "tolist float int f-string-of-one",
          "*",
          "plain thread fork exception"),
    Known(_CONVERSIONS,
          "tolist",
          "!empty !nested-empty !tensor-empty",
          "symbolic-carried symbolic-captured evaluated-carried evaluated-captured"),
    Known(_CONVERSIONS,
          "float int f-string-of-one",
          "!empty !tensor-empty",
          "symbolic-carried symbolic-captured evaluated-carried evaluated-captured"),
    Known(_CONVERSIONS,
          "range",
          "*"),
    Known(_MEAN,
          "mean-all",
          "empty nested-empty tensor-empty",
          "plain thread fork exception"),
]
