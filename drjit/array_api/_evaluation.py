"""When arrays are evaluated: a policy for programs that look at values as they go.

Operations are traced. When a program asks for a value, what it holds of that is stored by the same kernels
(:func:`settle`): the next iteration of a loop begins with memory, and runs the same kernels. What nobody asks for is
stored when it has become so many operations that a larger kernel would run no faster (:func:`_grown`), and where the
program has done so before, since a loop's iterations are the same kernels only if they are cut in the same place.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType, FunctionType
from typing import Any

import drjit as dr
from drjit.detail import computes_now, eval_held, in_plain_code, is_pending

from ._devices import CPU, known_device
from ._dtypes import float32

__all__ = ["COMPILED", "Policy", "default_device", "eager", "in_body", "note", "on_default", "policy", "settle"]

#: How many frames tell a place in the program.
_FRAMES = 8
#: So many operations more than the limit are waited for a place where the program has been cut before.
_PATIENCE = 2
#: So many places are known.
_PLACES = 4096


class Policy:
    """When arrays of the namespace are evaluated, and where they are made; ``drjit.array_api.policy`` is what holds.

    >>> import drjit.array_api as xp
    >>> xp.policy
    Policy(keep=True, limit=128, small=65536, eager=8192, device='cpu')
    """

    __slots__ = ("_eager", "_keep", "_limit", "_small")

    def __init__(self, keep: bool, limit: int | None, small: int, eager: int) -> None:
        self._keep, self._limit, self._small, self._eager = keep, limit, small, eager
        _set_limit(limit)
        _set_eager(eager)

    @property
    def device(self) -> str:
        """Where arrays are made of what is on no device: of numbers, sequences, and the memory of the host."""
        return default_device()

    @device.setter
    def device(self, value: str) -> None:
        _set_device(known_device("drjit.array_api.policy.device", value))
        float32.on(value)  # so that operands are looked at

    @property
    def eager(self) -> int:
        """Operations on real arrays on the CPU of at most so many elements are NumPy's, at once, where no derivatives
        are tracked; 0 for none: everything is traced."""
        return self._eager

    @eager.setter
    def eager(self, value: int) -> None:
        if not isinstance(value, int) or value < 0:
            raise ValueError(f"drjit.array_api.policy.eager: expected an int, 0 or more, found {value!r}.")
        self._eager = value
        _set_eager(value)

    @property
    def keep(self) -> bool:
        """Whether what is asked for is stored together with all arrays that it is computed from and that the program
        holds."""
        return self._keep

    @keep.setter
    def keep(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"drjit.array_api.policy.keep: expected a bool, found {value!r}.")
        self._keep = value

    @property
    def limit(self) -> int | None:
        """After so many operations, all arrays that the program holds are stored; ``None`` for never."""
        return self._limit

    @limit.setter
    def limit(self, value: int | None) -> None:
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ValueError(f"drjit.array_api.policy.limit: expected a positive int or None, found {value!r}.")
        self._limit = value
        _set_limit(value)

    @property
    def small(self) -> int:
        """Products of matrices and vectors on the CPU of at most so many multiplications are NumPy's, at once, where
        no derivatives are tracked; 0 for none."""
        return self._small

    @small.setter
    def small(self, value: int) -> None:
        if not isinstance(value, int) or value < 0:
            raise ValueError(f"drjit.array_api.policy.small: expected an int, 0 or more, found {value!r}.")
        self._small = value

    def __repr__(self) -> str:
        return f"Policy(keep={self._keep}, limit={self._limit}, small={self._small}, "\
            f"eager={self._eager}, device={self.device!r})"


#: The device of the policy, and the one that is meant instead within some function.
_here = CPU
_there: ContextVar[str | None] = ContextVar("device", default=None)


def default_device() -> str:
    """The device of new arrays."""
    found: str = _there.get() or _here
    return found


def _set_device(device: str) -> None:
    global _here
    _here = device


@contextmanager
def on_default(device: str) -> Iterator[None]:
    """Let another device than that of the policy be the one of new arrays, for a while and in this thread."""
    token = _there.set(device)
    try:
        yield
    finally:
        _there.reset(token)


#: Arrays that have been made, of which some may have no values yet.
_recent: list[weakref.ref[Any]] = []
_reference = weakref.ref
#: How many have been made since all had values, and when something is done about it.
_count = 0
_due = 0
#: Where the program has been cut.
_places: set[tuple[Any, ...]] = set()
#: How many arrays are noted before those are forgotten that are gone.
_NOTED = 1024


#: Arrays of at most so many elements are computed at once.
_most = 0


def _set_eager(most: int) -> None:
    global _most
    _most = most


def eager() -> int:
    """Of how many elements arrays are that are computed at once, by NumPy; 0 where nothing is: in constructs and
    recordings, and in the plain form."""
    return _most if COMPILED and _most and in_plain_code() else 0


def _set_limit(limit: int | None) -> None:
    global _due
    _due = _NOTED if limit is None else limit


def note(array: Any) -> None:
    """Tell of an array that has just got its parts."""
    global _count
    _recent.append(_reference(array))
    _count += 1
    if _count >= _due:
        _grown()


def in_body() -> bool:
    """Whether the body of a symbolic loop, branch or call is traced: variables that are made in there stay in there."""
    return dr.flag(dr.JitFlag.SymbolicScope)


def settle(*arrays: Any) -> None:
    """Evaluate arrays whose values are asked for, with what the policy says."""
    asked = [part for array in arrays if array._tensors() is not None or array._view is not None
             for part in array._parts]
    if not [part for part in asked if is_pending(part)]:
        return
    if not policy.keep or in_body():
        return  # whoever reads them evaluates them
    held = [part for array in _alive() for part in array._tensors() or ()]
    eval_held(asked, held)
    _forget()


def _alive() -> list[Any]:
    found = [reference() for reference in _recent]
    return [array for array in found if array is not None]


def _forget() -> None:
    """Keep those recent arrays only that have no values yet."""
    global _recent, _count
    found = []
    for reference in _recent:
        array = reference()
        if array is not None:
            for part in array._tensors() or ():
                if is_pending(part):
                    found.append(reference)
                    break
    _recent = found
    if not found:
        _count = 0


def _grown() -> None:
    """Store what the program holds, if it is in a place where that was done before, or has not been for long."""
    global _count, _due
    limit = policy.limit
    if limit is None or not computes_now():
        _forget()
        _due = _count + _NOTED + len(_recent)
        return
    _due = limit
    if _count < limit:
        return
    if _count == limit:  # and not the search for a place that follows
        _forget()
        if not _recent:
            return
    place = _place(sys._getframe())
    if place not in _places:
        if _count < _PATIENCE * limit:
            return
        if len(_places) >= _PLACES:
            _places.clear()
        _places.add(place)
    eval_held([part for array in _alive() for part in array._tensors() or ()])
    _forget()
    _count = 0


def _place(frame: FrameType | None) -> tuple[Any, ...]:
    """Where the program is: positions in the code of the innermost functions."""
    found: list[Any] = []
    while frame is not None and len(found) < 2 * _FRAMES:
        found += (frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return tuple(found)


#: Whether this module is compiled.
COMPILED = not isinstance(in_body, FunctionType)
policy = Policy(keep=True, limit=128, small=1 << 16, eager=1 << 13)
