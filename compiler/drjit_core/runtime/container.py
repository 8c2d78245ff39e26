"""Files of the project's own: a header in JSON and pieces of bytes, of which nobody sees any before the file has been
checked.

===========  ==========================================================
8 bytes      ``drjit``, a zero, what the file is, and the version of the format
32 bytes     SHA-256 of all that follows
8 bytes      length of the header, little-endian
...          the header: JSON in UTF-8; its entry ``pieces`` has their lengths
...          the pieces, one after the other
===========  ==========================================================

A checksum finds accidents, and no forgery. Files may hold native code, so that they must belong to the user, or to the
system's administrator, and nobody else may be able to write to them: as in the cache of kernels (:mod:`.disk`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import struct
from collections.abc import Sequence
from typing import Any

__all__ = ["Damaged", "Foreign", "read_container", "temporary_file", "write_container"]

_MAGIC = b"drjit\x00"
_LENGTH = struct.Struct("<Q")
_DIGEST = 32
_SUFFIX = ".part"
#: Opening a pipe waits for somebody who writes to it.
_NEVER_WAIT = getattr(os, "O_NONBLOCK", 0)


class Damaged(ValueError, RuntimeError):
    """A file that is not what was written."""


class Foreign(PermissionError, RuntimeError):
    """A file that somebody else has written, or may write."""


def temporary_file(folder: str, prefix: str, suffix: str) -> tuple[int, str]:
    """A new file in a folder, open for writing, and its path: for what shall be there as a whole or not at all."""
    import tempfile  # which takes long to import, and most programs write nothing

    return tempfile.mkstemp(dir=folder, prefix=prefix, suffix=suffix)


def write_container(path: str, kind: bytes, header: dict[str, Any], pieces: Sequence[bytes]) -> None:
    """Write a file: it is there as a whole, or what was there before. ``kind`` is two bytes, the second of which is the
    version. It can be read by its owner only."""
    text = json.dumps({**header, "pieces": list(map(len, pieces))}, separators=(",", ":"), allow_nan=False).encode()
    digest = hashlib.sha256(_LENGTH.pack(len(text)) + text)
    for piece in pieces:
        digest.update(piece)
    path = os.path.realpath(path)  # a link stays one
    handle, temporary = temporary_file(os.path.dirname(path), os.path.basename(path), _SUFFIX)
    try:
        with open(handle, "wb") as file:
            file.write(_MAGIC + kind + digest.digest() + _LENGTH.pack(len(text)) + text)
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read_container(path: str, kind: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """The header and the pieces of a file.

    Raises :class:`Damaged` if it is none of this kind, or has changed since it was written, :class:`Foreign` if others
    could have written it, and an ``OSError`` if it cannot be read.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NEVER_WAIT)) as file:
        problem = _problem(os.fstat(file.fileno()))
        if problem:
            raise Foreign(f"{path} {problem}, and might run any code here")
        data = file.read()
    start = len(_MAGIC) + len(kind)
    if not data.startswith(_MAGIC + kind[:1]):
        raise Damaged(f"{path} is not such a file" if data else f"{path} is empty")
    if data[start - 1:start] != kind[1:]:
        raise Damaged(f"{path} has the version {data[start - 1] if len(data) >= start else 'nothing'} of its format, "
                      f"where {kind[1]} is known")
    body = memoryview(data)[start + _DIGEST:]
    if hashlib.sha256(body).digest() != data[start:start + _DIGEST]:
        raise Damaged(f"{path} has been damaged, or has not been written to its end: its checksum is another one")
    try:
        (length,) = _LENGTH.unpack_from(body)
        header = json.loads(bytes(body[_LENGTH.size:_LENGTH.size + length]))
        place, pieces = _LENGTH.size + length, []
        for size in header["pieces"]:
            pieces.append(bytes(body[place:place + size]))
            place += size
        if place != len(body):
            raise ValueError("there is more, or less, than the header says")
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{path} is not such a file: {error}") from None
    return header, pieces


def _problem(status: os.stat_result) -> str:
    """What makes a file unfit to hold code that is going to be run."""
    if not stat.S_ISREG(status.st_mode):
        return "is no file"
    if hasattr(os, "geteuid"):
        if status.st_uid not in (os.geteuid(), 0):
            return "belongs to another user"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return "can be written by others"
    return ""
