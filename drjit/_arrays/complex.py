"""Complex numbers: two components, the real and the imaginary part.

The arithmetic is in :mod:`drjit._rules.complex`, the operators are in :mod:`drjit._arrays.special`; the contract with
the factory stands in :mod:`drjit._base.types`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from drjit_core import Node, literal, ops

from .._base.array import ArrayBase
from .._base.errors import ArgumentError
from .._base.types import base_class
from .._base.values import is_ndarray
from .._promotion.plans import is_complex
from .._rules import complex as rules
from .components import absent_component
from .format import hypercomplex_text
from .special import SpecialArray

__all__ = ["ComplexBase"]


@base_class("complex")
class ComplexBase(SpecialArray):
    """Behaviour of the ``complex`` types."""

    __slots__ = ()

    _rules: ClassVar[dict[str, Any]] = {
        "add": lambda a, b: list(map(ops.add, a, b)), "sub": lambda a, b: list(map(ops.sub, a, b)),
        "mul": rules.mul, "div": rules.divide, "power": rules.power, "fma": rules.fma,
    }
    _functions: ClassVar[dict[str, Any]] = {
        "abs": rules.absolute, "sqrt": rules.sqrt, "rsqrt": rules.rsqrt, "rcp": rules.rcp, "exp": rules.exp,
        "exp2": rules.exp2, "log": rules.log, "log2": rules.log2, "sin": rules.sin, "cos": rules.cos,
        "sincos": rules.sincos, "tan": rules.tan, "asin": rules.asin, "acos": rules.acos, "atan": rules.atan,
        "sinh": rules.sinh, "cosh": rules.cosh, "sincosh": rules.sincosh, "tanh": rules.tanh, "asinh": rules.asinh,
        "acosh": rules.acosh, "atanh": rules.atanh, "conj": rules.conjugate, "arg": rules.arg,
    }

    @classmethod
    def _unit(cls) -> Sequence[int]:
        return (0,)

    @classmethod
    def _inverse(cls, nodes: list[Node]) -> list[Node]:
        return rules.rcp(nodes)

    @classmethod
    def _construct(cls, args: tuple[Any, ...]) -> list[Node]:
        if len(args) == 1:
            value: Any = args[0]
            if is_ndarray(value) and not value.ndim:
                value = value.item()
                args = (value,)
            if is_complex(value):
                return [literal(cls._type, value.real), literal(cls._type, value.imag)]
            if is_ndarray(value) and value.ndim == 1 and cls._dynamic:
                if value.dtype.kind == "c":
                    return [node for part in (value.real, value.imag) for node in cls._leaf(part)._nodes()]
                return cls._identity(cls._leaf(value)._nodes()[0])
            if isinstance(value, ArrayBase) and value._depth < 0 and len(value.shape) > 1:
                raise ArgumentError(f"{cls._name}.__init__(): cannot convert {value._name} to {cls._name}, since "
                                    "either axis may be the one of real and imaginary parts; pass them as two "
                                    "arguments.")
            if isinstance(value, (list, tuple)) and any(map(is_complex, value)):
                parts = [complex(entry) for entry in value]
                return [node for part in ([z.real for z in parts], [z.imag for z in parts])
                        for node in cls._leaf(part)._nodes()]
        return super()._construct(args)

    def _format(self, limit: int) -> str:
        return hypercomplex_text(self, ((0, ""), (1, "j")), limit)

    @property
    def real(self) -> Any:
        """The real part: a live reference, and assignment."""
        return self._component(0)

    @real.setter
    def real(self, value: Any) -> None:
        self._set_component(0, value, f"{self._name}.real")

    @property
    def imag(self) -> Any:
        """The imaginary part: a live reference, and assignment."""
        return self._component(1)

    @imag.setter
    def imag(self, value: Any) -> None:
        self._set_component(1, value, f"{self._name}.imag")

    def numpy(self) -> Any:
        """A NumPy array of complex numbers, a copy. Evaluates the array and waits for the result."""
        import numpy

        real, imaginary = super().numpy()
        result = numpy.empty(numpy.shape(real), {2: "complex64", 4: "complex64", 8: "complex128"}[real.dtype.itemsize])
        result.real, result.imag = real, imaginary
        return result

    x, y, z, w = map(absent_component, "xyzw")
