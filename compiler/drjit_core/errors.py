"""Exceptions of the compiler: floor 0.

They derive from the built-in exception a user would expect, so that ``except RuntimeError`` goes on working; the array
layer adds the name of the user's function and argument.
"""

from __future__ import annotations

__all__ = ["CompilationError", "IncompatibleBackends", "IncompatibleSizes", "NoDerivative", "SymbolicValue",
           "UnsupportedType"]


class IncompatibleSizes(RuntimeError):
    """Operands of an operation whose sizes are neither equal nor 1."""

    def __init__(self, operation: str, sizes: tuple[int, ...]) -> None:
        self.operation = operation
        self.sizes = sizes
        super().__init__(f"{operation}(): operands have incompatible sizes! (sizes: {', '.join(map(str, sizes))})")


class IncompatibleBackends(RuntimeError):
    """Operands of an operation that belong to several backends."""

    def __init__(self, operation: str, names: tuple[str, ...]) -> None:
        self.operation = operation
        self.names = names
        super().__init__(f"{operation}(): the operands belong to the backends {self.listed}, and must belong to one: "
                         "convert some of them")

    @property
    def listed(self) -> str:
        """The names of the backends."""
        return " and ".join([f"'{name}'" for name in self.names])


class UnsupportedType(TypeError):
    """An operation that is not defined for the scalar type of its operands."""

    def __init__(self, operation: str, type_name: str) -> None:
        self.operation = operation
        self.type_name = type_name
        super().__init__(f"{operation}(): operation not supported for arrays of type {type_name}")


class SymbolicValue(RuntimeError):
    """An operation needs a value that exists only inside a loop that is being traced, or was."""


class NoDerivative(RuntimeError):
    """An operation of which there is no derivative is differentiated."""


class CompilationError(RuntimeError):
    """The backend refused a kernel: a defect of this project, reported with the text that caused it."""
