"""Exceptions of the array layer, and what they say: the user's function, the argument, what was found and expected.

Nothing is formatted before something fails. What runs below an operator or a public function raises *facts*: the
compiler's own exceptions, and the :class:`Misfit` of an operand. The boundary, which is the operator or function that
the user called, puts them into words (:func:`translate`), and raises one exception ``from None`` whose traceback starts
there: what happened inside of this package is no help to whoever wrote the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from drjit_core import IncompatibleSizes, SymbolicValue, UnsupportedType, is_internal

__all__ = ["CORE_ERRORS", "FAILURES", "ArgumentError", "CallSite", "ComponentError", "EndlessRecursion", "FormatError",
           "IncompatibleArguments", "IncompatibleShapes", "Misfit", "OutOfRange", "RangeError", "Site", "SizeError",
           "called", "describe", "describe_all", "no_deletion", "presented", "translate", "user_part"]

#: What tracing raises when operands do not fit together.
CORE_ERRORS = (IncompatibleSizes, UnsupportedType)


class ArgumentError(TypeError, RuntimeError):
    """An argument of an unsupported type; a ``RuntimeError`` too, which is what existing programs catch."""


class EndlessRecursion(RecursionError):
    """A function that calls itself through a loop, branch or call, and so is traced without end."""


class SizeError(RuntimeError):
    """Arrays whose sizes do not go together."""


class RangeError(ValueError, RuntimeError):
    """A number that an argument cannot have; a ``RuntimeError`` too, as above."""


class FormatError(ValueError, RuntimeError):
    """A format string that is malformed, or does not go with the arguments; a ``RuntimeError`` too, as above."""


class ComponentError(AttributeError, RuntimeError):
    """A component such as ``.x`` that a type lacks.

    An ``AttributeError``, so that ``hasattr`` is false; a ``RuntimeError`` too, which is what existing programs catch.
    """

# --- what is wrong, before it is put into words ----------------------------------------------------------------------


class Misfit(Exception):
    """An operand that does not fit; never leaves the package."""


class OutOfRange(Misfit):
    """A Python number that an array type cannot hold: the array type, and the number."""

    def __init__(self, leaf: str, value: bool | int | float) -> None:
        super().__init__(leaf, value)
        self.leaf, self.value = leaf, value


class IncompatibleShapes(Misfit):
    """Arrays whose shapes cannot be broadcast to a common one."""


class IncompatibleArguments(Misfit):
    """Types that cannot be combined: why."""


#: What a boundary passes to :func:`translate`.
FAILURES = (*CORE_ERRORS, Misfit, ArgumentError, SizeError)


#: A function that is found so often among those that are called calls itself.
_REPEATED = 3

#: What constructs raise themselves if their arguments do not fit.
_REFUSALS = (ArgumentError, NotImplementedError, SizeError, SymbolicValue)


# --- in words --------------------------------------------------------------------------------------------------------


class CallSite:
    """The call of a user's that an exception is about.

    ``function`` is a public function (``drjit.fma``) or the method of an operator (``__add__``), ``owner`` the array
    type that the user knows it by, and ``arguments`` are the names of the function's parameters.
    """

    __slots__ = ("arguments", "function", "owner")

    def __init__(self, function: str, owner: type | None = None, arguments: Sequence[str] = ()) -> None:
        self.function, self.owner, self.arguments = function, owner, arguments

    def __str__(self) -> str:
        """The name alone, to go before parentheses: ``drjit.fma``, ``drjit.llvm.Float.__add__``."""
        return f"{describe(self.owner)}.{self.function}" if self.function.startswith("__") else self.function

    def call(self) -> str:
        """The call: ``drjit.fma(<drjit.llvm.Float>)``, ``drjit.llvm.Float.__add__()``."""
        if self.owner is None or self.function.startswith("__"):
            return f"{self}()"
        return f"{self}(<{describe(self.owner)}>)"


#: How functions of this package are told on whose behalf they work: a function's name, or more than that.
Site = str | CallSite


def called(site: Site) -> str:
    """The user's call, as messages begin with it."""
    if isinstance(site, CallSite):
        return site.call()
    return site if site.endswith(")") else f"{site}()"


def argument(site: Site, position: int) -> str:
    """What the user calls an argument: ``argument 'arg1'``, or ``operand`` of an operator."""
    if not isinstance(site, CallSite):
        return f"argument {position + 1}"
    if site.function.startswith("__"):
        return "operand"
    return f"argument '{site.arguments[position] if position < len(site.arguments) else f'arg{position}'}'"


def describe(value: Any) -> str:
    """Name the type of a value the way its user writes it: ``drjit.llvm.Float``, ``int``, ``numpy.ndarray``."""
    cls = value if isinstance(value, type) else type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def describe_all(values: Sequence[Any]) -> str:
    """Types and shapes of arguments in their order: ``drjit.llvm.Array3f of shape (3, 10) and int``."""
    shown = [_with_shape(value) for value in values]
    return " and ".join(shown) if len(shown) < 3 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _with_shape(value: Any) -> str:
    try:
        shape = value.shape
    except AttributeError:
        return describe(value)
    except RuntimeError:  # components of several sizes
        return f"{describe(value)} (ragged)"
    return f"{describe(value)} of shape {shape}"


def no_deletion(array: Any) -> TypeError:
    """The exception for ``del array[key]``."""
    return TypeError(f"{array._name}.__delitem__(): the elements of an array cannot be deleted, which has a size that "
                     "stays; assign other values, or make an array of those to keep, as in drjit.gather.")


def translate(error: Exception, site: Site, args: Sequence[Any] = ()) -> Exception:
    """The exception for the user, given what was raised below the boundary: raise it ``from None``.

    ``args`` are what the user passed, if the message is to name their types and shapes.
    """
    if isinstance(error, (ArgumentError, SizeError)):
        return error.with_traceback(None)
    call = called(site)
    if isinstance(error, IncompatibleSizes):
        sizes = ", ".join(map(str, error.sizes))
        return SizeError(f"{call}: operands have incompatible sizes! (sizes: {sizes})")
    if isinstance(error, UnsupportedType):
        return ArgumentError(f"{call}: operation not supported for this type (elements of type {error.type_name}).")
    if isinstance(error, OutOfRange):
        value = error.value
        if isinstance(value, float):
            return ArgumentError(f"{call}: could not initialize an element of type {error.leaf} with the value "
                                 f"{value!r}.")
        shown = str(value) if abs(value) < 1 << 100 else f"of {value.bit_length()} bits"
        return ArgumentError(f"{call}: could not initialize an element of type {error.leaf} with the value {shown} of "
                             "type 'int': it is out of range.")
    if isinstance(error, IncompatibleShapes):
        return SizeError(f"{call}: operands have incompatible shapes: {describe_all(args)}.")
    if isinstance(error, IncompatibleArguments):
        reason = f": {error}" if error.args else ""
        return ArgumentError(f"{call}: incompatible arguments: {describe_all(args)}{reason}.")
    raise AssertionError(f"translate() has no words for {error!r}") from error


def presented(error: Exception, site: Site) -> Exception:
    """What a construct that has called functions of the user's raises for an error of theirs, or of its own.

    The exceptions that functions raise keep their traceback from the user's first frame on, and so lose our frames in
    between; what the construct refuses has none, since nobody needs to see where in here that is.
    """
    traceback = user_part(error)
    try:
        if error.__class__ is EndlessRecursion:  # of the calls, which all are alike, the outermost is shown
            return error.with_traceback(None)
        if error.__class__ is RecursionError:
            place = _calls_itself(error)
            if place is not None:
                function, file, line = place
                found = EndlessRecursion(
                    f"{called(site)}: {function} ({file}:{line}) calls itself through this construct, and so without "
                    "end: conditions on arrays end no recursion, since both sides of a branch, and in symbolic mode "
                    "all functions of a call and the body of a loop are called, whichever of them elements take. Let a "
                    "Python number that counts the depth end it, or write it as a loop; calls with mode='evaluated' "
                    "leave out what no element takes.")
                found.__suppress_context__ = True
                return found
        if traceback is not None:
            return error.with_traceback(traceback)
        if isinstance(error, CORE_ERRORS):
            translated = translate(error, site)
            translated.__suppress_context__ = True
            return translated
        return error.with_traceback(None) if isinstance(error, _REFUSALS) else error
    finally:
        # Its frames lead back to that of the construct: a name for it would keep alive the arrays that they hold, until
        # the garbage collector comes along, and writes to those would go to copies.
        del traceback


def _calls_itself(error: BaseException) -> tuple[str, str, int] | None:
    """The function that calls a construct again and again, the file and the line of that, if one does so through it."""
    traceback = error.__traceback__
    construct = None if traceback is None else _place(traceback)
    found: list[TracebackType] = []  # where functions of the user call it, or what calls it for them
    last: TracebackType | None = None
    while traceback is not None:
        if not is_internal(traceback.tb_frame):
            last = traceback
        elif last is not None and _place(traceback) == construct:
            found.append(last)
            last = None
        traceback = traceback.tb_next
    codes = [place.tb_frame.f_code for place in found]
    code = max(codes, key=codes.count, default=None)
    if code is None or codes.count(code) < _REPEATED:
        return None
    name = code.co_qualname.rpartition("<locals>.")[2]
    return f"{name}()" if name != "<lambda>" else "a lambda function", code.co_filename, \
        found[codes.index(code)].tb_lineno


def _place(traceback: TracebackType) -> tuple[str, str]:
    """What tells functions apart, of which those of compiled modules have a code for each exception."""
    code = traceback.tb_frame.f_code
    return code.co_filename, code.co_name


def user_part(error: BaseException) -> TracebackType | None:
    """The traceback of an exception from the user's first frame on, or ``None`` if none of theirs is in it."""
    traceback = error.__traceback__
    while traceback is not None and is_internal(traceback.tb_frame):
        traceback = traceback.tb_next
    return traceback
