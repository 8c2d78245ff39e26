"""Exceptions of the array layer, and what they say: the user's function, the argument, what was found and expected.

Nothing is formatted before something fails. What runs below an operator or a public function raises *facts*: the
compiler's own exceptions, and the :class:`Misfit` of an operand. The boundary, which is the operator or function that
the user called, puts them into words (:func:`translate`), and raises one exception ``from None`` whose traceback starts
there: what happened inside of this package is no help to whoever wrote the call.

What functions of the user's raise, which loops, branches, calls and custom operations have called, is raised again as
an exception of the same class and a ``RuntimeError`` as well (:func:`passed_on`): existing programs catch either.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections.abc import Sequence
from types import GetSetDescriptorType, MemberDescriptorType, TracebackType
from typing import Any

from drjit_core import IncompatibleBackends, IncompatibleSizes, SymbolicValue, UnsupportedType, is_internal

__all__ = ["CORE_ERRORS", "FAILURES", "ArgumentError", "BoundsError", "CallSite", "ComponentError", "CountError",
           "EndlessRecursion", "FormatError", "IncompatibleArguments", "IncompatibleShapes", "Misfit", "OutOfRange",
           "RangeError", "ReadOnlyError", "ShapeError", "Site", "SizeError", "SwizzleError", "called", "describe",
           "describe_all", "no_deletion", "passed_on", "presented", "translate", "user_part"]

#: What tracing raises when operands do not fit together.
CORE_ERRORS = (IncompatibleSizes, IncompatibleBackends, UnsupportedType)


class ArgumentError(TypeError, RuntimeError):
    """An argument of an unsupported type; a ``RuntimeError`` too, which is what existing programs catch."""


class EndlessRecursion(RecursionError):
    """A function that calls itself through a loop, branch or call, and so is traced without end."""


class SizeError(ValueError, RuntimeError):
    """Arrays whose sizes do not go together."""


class ShapeError(SizeError, ArgumentError):
    """Arrays whose shapes an operation does not take: as much a matter of sizes as of types."""


class BoundsError(IndexError, RuntimeError):
    """A position that does not exist; a ``RuntimeError`` too, as above."""


class RangeError(ValueError, RuntimeError):
    """A number that an argument cannot have; a ``RuntimeError`` too, as above."""


class CountError(RangeError, ArgumentError):
    """Something that is no count: too small, or no integer."""


class FormatError(ValueError, RuntimeError):
    """A format string that is malformed, or does not go with the arguments; a ``RuntimeError`` too, as above."""


class SwizzleError(IndexError, ArgumentError):
    """Another number of components than are assigned to."""


class ReadOnlyError(AttributeError, ArgumentError):
    """An attribute that can only be read."""


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
    if isinstance(error, IncompatibleBackends):
        return ArgumentError(f"{call}: the arguments have arrays of the backends {error.listed}, and must be of one: "
                             "convert some of them.")
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

    The exceptions that functions raise are :func:`passed_on`; what the construct refuses has no traceback, since nobody
    needs to see where in here that is.
    """
    traceback = user_part(error)
    try:
        if error.__class__ is EndlessRecursion:  # of the calls, which all are alike, the outermost is shown
            return error.with_traceback(None)
        if error.__class__ is RecursionError or \
                isinstance(error, ctypes.ArgumentError) and "RecursionError" in str(error):  # in a conversion
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
            return passed_on(error)
        if isinstance(error, CORE_ERRORS):
            translated = translate(error, site)
            translated.__suppress_context__ = True
            return translated
        if error.__class__ is TypeError:  # a function that cannot be called with these arguments
            return _as_runtime_error(error) or error
        return error.with_traceback(None) if isinstance(error, _REFUSALS) else error
    finally:
        # Its frames lead back to that of the construct: a name for it would keep alive the arrays that they hold, until
        # the garbage collector comes along, and writes to those would go to copies.
        del traceback


def passed_on(error: Exception) -> Exception:
    """What a function of ours raises for an exception of a function that it has called for the user.

    It is a ``RuntimeError``, too, and has the original as its cause. It keeps the traceback from the user's first frame
    on, and so loses our frames in between. An exception is passed on itself that is a ``RuntimeError``, ends an
    iterator, or is of a class that cannot have another base.
    """
    traceback = user_part(error)
    try:
        if traceback is None:
            return error
        error.__traceback__ = traceback
        cls = type(error)
        if isinstance(error, (RuntimeError, StopIteration, StopAsyncIteration)) or _is_own(cls):
            return error
        found = _as_runtime_error(error)
        return error if found is None else found.with_traceback(traceback)
    finally:
        del traceback


def _is_own(cls: type) -> bool:
    """Whether a class of exceptions is of this package, which asks for another trace by some."""
    return cls.__module__.partition(".")[0] in ("drjit", "drjit_core")


def _as_runtime_error(error: Exception) -> Exception | None:
    """An exception like another one, which is its cause; ``None`` if there can be none."""
    cls = _combined(type(error))
    if cls is None:
        return None
    try:  # the class's own __init__ has done what it does
        found: Exception = _builtin_base(cls).__new__(cls, *error.args)
        for base in type(error).__mro__:
            if base not in (BaseException, object):
                _copy_slots(base, error, found)
        found.args = error.args
        vars(found).update(vars(error))
        if hasattr(error, "__notes__"):
            found.__notes__ = list(error.__notes__)
        found.__original__ = error  # type: ignore[attr-defined]
    except Exception:
        return None
    found.__cause__ = error
    return found


def _copy_slots(base: type, error: Exception, found: Exception) -> None:
    """Give an exception the attributes of another one that a class has made places for."""
    for name, entry in vars(base).items():
        if isinstance(entry, (MemberDescriptorType, GetSetDescriptorType)) and name not in ("__dict__", "__weakref__"):
            with contextlib.suppress(AttributeError, TypeError):  # it has no value, or __new__ has set it for good
                value = entry.__get__(error)
                if getattr(found, name, entry) is not value:
                    entry.__set__(found, value)


def _builtin_base(cls: type) -> Any:
    """The class of Python's own that a class of exceptions is derived from."""
    return next(base for base in cls.__mro__[1:] if not base.__flags__ & _HEAP_TYPE)


#: Classes that are made by programs (``Py_TPFLAGS_HEAPTYPE``).
_HEAP_TYPE = 1 << 9

#: Classes of exceptions that are RuntimeErrors, too, by the original ones; as long as there is any such exception.
_classes: weakref.WeakKeyDictionary[type, weakref.ref[type]] = weakref.WeakKeyDictionary()


def _combined(cls: type[Exception]) -> type[Exception] | None:
    """A class that is derived from another one and from ``RuntimeError``, and called like the former; or ``None``."""
    reference = _classes.get(cls)
    found = None if reference is None else reference()
    if found is not None:
        return found
    if type(cls) is not type or any("__init_subclass__" in vars(base) for base in cls.__mro__[:-1]):
        return None  # somebody keeps an account of these classes
    contents = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__,
                "__slots__": ("__original__",), "__reduce_ex__": _reduced}
    try:
        found = type(cls.__name__, (cls, RuntimeError), contents)
    except TypeError:  # of layouts that do not go together, for example
        return None
    _classes[cls] = weakref.ref(found)
    return found


def _reduced(self: Any, protocol: Any) -> tuple[Any, ...]:
    """How a combined exception is copied and pickled, whose class nobody finds by its name: by the original."""
    del protocol
    return _restored, (self.__original__,)


def _restored(error: Exception) -> Exception:
    return _as_runtime_error(error) or error


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
