"""Green contexts: streams whose kernels run on some of the multiprocessors of a device.

Numbers and structures are those of NVIDIA's ``cuda.h``, 12.4 to 13.5.  By the manual of the driver (CUDA Driver API,
13.0, 6.35 *Green Contexts*), what ``cuCtxFromGreenCtx`` returns *is a normal primary context but with the resources of
the specified green context*: memory, events, modules and their functions belong to the primary context, which is where
they are made here, and a function that is launched into a stream of a green context runs on its multiprocessors.
A stream belongs to the green context that was the current one when it was made (see ``cuStreamGetGreenCtx`` there),
which drivers of version 12.4 know as well, unlike ``cuGreenCtxStreamCreate``; it must be a *non-blocking* one, in no
order with the default stream.
"""

from __future__ import annotations

import ctypes
from typing import Any

from .calls import Calls
from .errors import DriverError

__all__ = ["FUNCTIONS", "SINCE", "GreenContexts", "Part"]

SINCE = 12040
_INT, _POINTER = ctypes.c_uint, ctypes.c_void_p
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuDeviceGetDevResource": (_INT, _POINTER, _INT),
    "cuDevSmResourceSplitByCount": (_POINTER, _POINTER, _POINTER, _POINTER, _INT, _INT),
    "cuDevResourceGenerateDesc": (_POINTER, _POINTER, _INT),
    "cuGreenCtxCreate": (_POINTER, _POINTER, _INT, _INT),
    "cuGreenCtxDestroy": (_POINTER,),
    "cuCtxFromGreenCtx": (_POINTER, _POINTER),
    "cuStreamDestroy_v2": (_POINTER,),
}
#: CUdevResourceType, CUgreenCtxCreate_flags (which must be this one), CUstream_flags.
_SM, _DEFAULT_STREAM, _NON_BLOCKING = 1, 1, 1
#: The status of a group that cannot be made.
_INVALID_CONFIGURATION = 915


class _Resource(ctypes.Structure):
    """``CUdevResource``: of what belongs to a kind, all we read is a number."""

    _fields_ = (("kind", _INT), ("internal", ctypes.c_ubyte * 92), ("multiprocessors", _INT),
                ("external", ctypes.c_ubyte * 44))


class Part:
    """A green context, by its handles."""

    def __init__(self, context: int, current: int, multiprocessors: int) -> None:
        self.context = context  #: ``CUgreenCtx``
        self.current = current  #: the same as a ``CUcontext``
        self.multiprocessors = multiprocessors
        self.stream = 0


class GreenContexts(Calls):
    """What a driver has of green contexts."""

    def divide(self, count: int) -> tuple[Part, Any]:
        """A green context of at least so many multiprocessors, with a stream, and the rest of the device, for
        :meth:`part_of`.  Raises a ``RuntimeError`` if there are not so many, or no such contexts."""
        self._require("green contexts", FUNCTIONS, SINCE)
        whole = _Resource()
        with self._inside():
            self.call("cuDeviceGetDevResource", self.number, ctypes.byref(whole), _SM)
            if count > whole.multiprocessors:
                raise RuntimeError(f"{count} multiprocessors were asked for, the GPU has {whole.multiprocessors}")
            group, rest = self._split(whole, count)
            part = self.part_of(group)
            assert part is not None
            try:
                part.stream = self._stream_of(part)
            except BaseException:
                self.forget(part)
                raise
        return part, rest

    def _split(self, whole: _Resource, count: int) -> tuple[_Resource, _Resource]:
        """At least so many multiprocessors of the whole, and the others.  Groups have a least size, and multiples of
        it: where none is that large, the whole is the next larger one."""
        group, rest, made = _Resource(), _Resource(), _INT(1)
        try:
            self.call("cuDevSmResourceSplitByCount", ctypes.byref(group), ctypes.byref(made), ctypes.byref(whole),
                       ctypes.byref(rest), 0, count)
        except DriverError as error:
            if error.status != _INVALID_CONFIGURATION:
                raise
            made.value = 0
        return (group, rest) if made.value and group.multiprocessors >= count else (whole, _Resource())

    def part_of(self, rest: Any) -> Part | None:
        """A green context of what is left, without a stream, ``None`` if nothing is."""
        if rest.kind != _SM or not rest.multiprocessors:
            return None
        with self._inside():
            description = self._made("cuDevResourceGenerateDesc", ctypes.byref(rest), 1)
            context = self._made("cuGreenCtxCreate", description, self.number, _DEFAULT_STREAM)
            try:
                return Part(context, self._made("cuCtxFromGreenCtx", context), rest.multiprocessors)
            except BaseException:
                self.call("cuGreenCtxDestroy", context)
                raise

    def _stream_of(self, part: Part) -> int:
        self.call("cuCtxPushCurrent_v2", part.current)
        try:
            return self._made("cuStreamCreate", _NON_BLOCKING)
        finally:
            self._made("cuCtxPopCurrent_v2")

    def forget(self, part: Part) -> None:
        """Destroy a green context, when its stream has run; nobody asks that one any more."""
        with self._inside():
            try:
                if part.stream:
                    self.call("cuStreamSynchronize", part.stream)
                    self.call("cuStreamDestroy_v2", part.stream)
            finally:
                self.call("cuGreenCtxDestroy", part.context)
