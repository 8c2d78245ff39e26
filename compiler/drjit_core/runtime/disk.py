"""The kernel cache on disk: object code by the hash of everything that it depends on, of all backends.

The directory holds native code, so that it is the user's alone: created with mode 0700, and refused (with one warning)
if it, or a file in it, belongs to somebody else or can be written by others.  Files are written atomically and carry a
checksum, which is verified before anybody sees a byte; whatever is wrong with a file, it is a miss, never an error.

``DRJIT_CACHE_DIR`` sets the location (empty: no cache on disk), ``DRJIT_CACHE_SIZE`` the limit in bytes (default
1 GiB); beyond it the files that were not used for longest are removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
    all_suffixes,
)
from pathlib import Path

from .container import temporary_file

__all__ = ["Environment", "directory", "emitter", "identity", "load", "lock", "remembered", "report", "store"]

_MAGIC = b"drjit\x00\x00\x02"  # the last byte is the version of the format
_DIGEST = 32
_SUFFIX = ".kernel"
_DEFAULT_LIMIT = 1 << 30
_UNFINISHED = ".part"
#: The file that counts the bytes of the others, and its length from which on they are counted anew.
_USAGE, _LONGEST_USAGE = "usage", 1 << 13
#: Seconds after which somebody looks at the directory again: the user may have removed files.
_LOOK_AFTER = 3600.0
_BINARY = getattr(os, "O_BINARY", 0)
_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
_NOT_WAITING = getattr(os, "O_NONBLOCK", 0)  # for whoever writes to a pipe that stands in the place of a file
#: Seconds after which an unfinished file belongs to a process that was killed.
_ABANDONED_AFTER = 600.0
_TOUCH_AFTER = 3600.0  # seconds after which a use is noted in the file's time

_log = logging.getLogger("drjit")
lock = threading.Lock()
_warned = False


def _warn(reason: str, what: str = "is not used: %s; kernels are compiled anew in every process") -> None:
    """Say once why the cache is not used, or something else of it."""
    global _warned
    if not _warned:
        _warned = True
        _log.warning(f"the kernel cache on disk {what}", reason)


def _default_location() -> Path:
    if sys.platform == "win32":
        import tempfile

        return Path(os.environ.get("LOCALAPPDATA", tempfile.gettempdir())) / "drjit-python"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "drjit-python"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drjit-python"


@cache
def directory() -> Path | None:
    """The cache's directory, created if need be; ``None`` if there is none that may be used."""
    return None if emitter() is None else _folder()


def _folder() -> Path | None:
    location = os.environ.get("DRJIT_CACHE_DIR")
    if location == "":
        return None
    try:
        path = (Path(location) if location else _default_location()).absolute()  # wherever the program goes from here
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        problem = _problem(os.stat(path), str(path))
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home directory
        _warn(str(error))
        return None
    if problem:
        _warn(problem)
        return None
    return path


def _problem(status: os.stat_result, name: str) -> str | None:
    """What makes a directory or file unfit to hold code that is going to be run."""
    if hasattr(os, "geteuid"):
        if status.st_uid != os.geteuid():
            return f"{name} belongs to another user"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"{name} can be written by others"
    return None


_ROOT = __name__.partition(".")[0]
#: What has no part in turning a program into text and code: a change of any other module of the compiler makes all
#: kernels new ones.  The layout of cached files is versioned by itself.
_NOT_EMITTING = ("runtime",)
_LOADERS_OF_FOLDERS = (SourceFileLoader, SourcelessFileLoader, ExtensionFileLoader)


def _hash_of_modules() -> bytes:
    """Hash of the compiler's modules as they are loaded: source, bytecode or machine code, in a folder or anywhere
    else.

    Of a folder it is in the cache as well, by what the file system says of the files: reading all of them takes ten
    times as long. Whoever changes a file, or puts another one in its place, changes the time of the change.
    """
    spec = _spec(_ROOT)
    if not isinstance(spec.loader, _LOADERS_OF_FOLDERS) or spec.origin is None:
        found = sorted(_files_elsewhere())
        _require_modules([name for name, _ in found])
        return _hash(found)
    root = os.path.dirname(spec.origin)
    files = sorted(_files_below(root))
    _require_modules([path for path, _ in files])
    listing = "\n".join(path + identity(status) for path, status in files)

    def read() -> bytes:
        found = []
        for path, _ in files:
            with open(path, "rb", buffering=0) as file:
                found.append((path[len(root):], file.read()))
        return _hash(found)

    return remembered(f"{root}\n{listing}", read)


def identity(status: os.stat_result) -> str:
    """What the file system says of a file, which is another one if somebody changes or replaces it."""
    return f" {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def remembered(words: str, make: Callable[[], bytes]) -> bytes:
    """What a function makes, from the cache if it is there; the words tell all that it depends on."""
    key = hashlib.blake2b(words.encode(), digest_size=_DIGEST).digest()
    folder = _folder()
    known = None if folder is None else _load(folder, key)
    if known is None:
        known = make()
        if folder is not None:
            _store(folder, key, known)
    return known


def _require_modules(names: list[str]) -> None:
    if not any(f"codegen{separator}program" in name for name in names for separator in (os.sep, ".")):
        raise ImportError(f"the importer of {_ROOT} does not list its modules")


def _hash(files: list[tuple[str, bytes]]) -> bytes:
    digest = hashlib.blake2b()
    for name, data in files:
        digest.update(f"{name} {len(data)}\n".encode() + data)
    return digest.digest()


def _files_elsewhere() -> Iterator[tuple[str, bytes]]:
    """Modules in an archive or the like: a third slower. Compiled ones are listed, but cannot be loaded from there."""
    for name in _modules():
        spec = _found(name)
        if spec is None:
            continue
        get_data = getattr(spec.loader, "get_data", None)
        if get_data is None or spec.origin is None:
            raise ImportError(f"the importer of {name} does not hand out files")
        yield name, get_data(spec.origin)


def _files_below(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Files that may be modules, whichever form of them is loaded; of those that were compiled the text, if it is
    there: what was made of other texts is not loaded, and a module that has no text tells of which it was made
    (:mod:`drjit_core.rooms`)."""
    suffixes, compiled = tuple(all_suffixes()), tuple(EXTENSION_SUFFIXES)
    folders = [root]
    while folders:
        folder = folders.pop()
        entries = list(os.scandir(folder))
        names = {entry.name for entry in entries}
        for entry in entries:
            if entry.name.endswith(suffixes):
                if not entry.name.endswith(compiled) or f"{entry.name.partition('.')[0]}.py" not in names:
                    yield entry.path, entry.stat()
            elif entry.is_dir() and entry.name != "__pycache__" and not (
                    folder == root and entry.name in _NOT_EMITTING):
                folders.append(entry.path)


def _modules() -> Iterator[str]:
    """Names of modules, as the import system lists them."""
    import pkgutil  # takes a millisecond to load

    packages = [_ROOT]
    while packages:
        package = packages.pop()
        yield package
        for _, name, is_package in pkgutil.iter_modules(_spec(package).submodule_search_locations, f"{package}."):
            if not is_package:
                yield name
            elif name.removeprefix(f"{_ROOT}.") not in _NOT_EMITTING:
                packages.append(name)


def _found(name: str) -> ModuleSpec | None:
    """How a module is loaded, if it can be."""
    import importlib.util

    module = sys.modules.get(name)
    return module.__spec__ if module is not None else importlib.util.find_spec(name)


def _spec(name: str) -> ModuleSpec:
    spec = _found(name)
    if spec is None:
        raise ImportError(f"there is no module {name}")
    return spec


@cache
def emitter() -> bytes | None:
    """Hash of the emitter, or ``None`` if its files cannot be read (an unusual importer)."""
    try:
        return _hash_of_modules()
    except (ImportError, OSError) as error:
        _warn(str(error))
        return None


class Environment:
    """What the code of a backend depends on besides its programs: words, such as the processor and the version of the
    compiler, which are asked for when they are needed first; and the emitter."""

    def __init__(self, words: Callable[[], Iterable[str]]) -> None:
        self._words = words
        self._hash = b""

    def key_of(self, program: bytes, options: str) -> bytes:
        """Hash of what determines a module's code: a program's key or text, options, and the environment."""
        return self.key_from(self.hash_of(program), options)

    def hash_of(self, program: bytes) -> bytes:
        """Hash of all but the options.  (Processors have instructions for it: it takes half as long as others.)"""
        if not self._hash:
            self._hash = hashlib.blake2b("\n".join(self._words()).encode() + b"\0" + (emitter() or b"")).digest()
        digest = hashlib.sha256(self._hash)
        digest.update(program)
        return digest.digest()

    @staticmethod
    def key_from(hash_: bytes, options: str) -> bytes:
        """What :meth:`key_of` says, given what :meth:`hash_of` has said of the program."""
        return hashlib.blake2b(hash_ + options.encode(), digest_size=_DIGEST).digest()


def _checksum(key: bytes, code: bytes) -> bytes:
    digest = hashlib.sha256(key)
    digest.update(code)
    return digest.digest()


def load(key: bytes) -> bytes | None:
    """Object code by key, or ``None``."""
    folder = directory()
    return None if folder is None else _load(folder, key)


def _load(folder: Path, key: bytes) -> bytes | None:
    path = f"{folder}{os.sep}{key.hex()}{_SUFFIX}"
    code = None
    try:
        handle = os.open(path, os.O_RDONLY | _BINARY | _CLOSE_ON_EXEC | _NOT_WAITING)
    except OSError:
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return None
        problem = _problem(status, path)
        if problem:
            _warn(problem)
            return None
        head = os.read(handle, len(_MAGIC) + 2 * _DIGEST)
        if head.startswith(_MAGIC + key):  # else nobody knows how long it is
            code = _rest(handle, status.st_size - len(head))
    except OSError:
        return None
    finally:
        os.close(handle)
    if code is None or head != _MAGIC + key + _checksum(key, code):
        _log.info("damaged file in the kernel cache: %s is compiled anew", os.path.basename(path))
        return None
    if time.time() - status.st_mtime > _TOUCH_AFTER:
        with contextlib.suppress(OSError):  # somebody else removed it: the code is ours already
            os.utime(path)
    return code


def _rest(handle: int, size: int) -> bytes:
    """So many bytes of a file, or what it has."""
    data = os.read(handle, size)
    while len(data) < size and (more := os.read(handle, size - len(data))):
        data += more
    return data


def store(key: bytes, code: bytes) -> None:
    """Write object code under its key; failure leaves the cache as it was."""
    folder = directory()
    if folder is not None:
        _store(folder, key, code)


def _store(folder: Path, key: bytes, code: bytes) -> None:
    data = _MAGIC + key + _checksum(key, code) + code
    try:
        _replace(folder, key.hex() + _SUFFIX, data)
    except OSError as error:
        if not (isinstance(error, FileNotFoundError) and folder.is_dir()):  # else another process evicted the file
            _warn(str(error), "takes no further kernels: %s; those that it does not have are compiled anew in every "
                              "process")
        return
    _limit_size(folder, len(data))


def _replace(folder: Path, name: str, data: bytes) -> None:
    """Write a file of the directory: it is there as a whole, or what was there before."""
    handle, temporary = temporary_file(str(folder), "tmp", _UNFINISHED)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, folder / name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _limit_size(folder: Path, added: int) -> None:
    """Keep the directory within its limit, now that a file of so many bytes was added."""
    with lock:
        if not _is_within_limit(folder, added):
            _begin_usage(folder)
            total = _clean(folder)
            with contextlib.suppress(OSError):  # somebody removed it: the next one looks again
                _add_usage(folder, total)


def _is_within_limit(folder: Path, added: int) -> bool:
    """Add a number of bytes to those that the directory is known to hold; whether they are known, and not too many.

    A file has the time when somebody has begun to look at the directory, the bytes that were found, and those added
    since, a line each, by all processes: to read it takes 20 microseconds, to look at thousands of files as many
    milliseconds. What is added while another process looks may be counted twice, until somebody looks again.
    """
    try:
        looked, *sizes = map(int, _add_usage(folder, added).split())
    except (OSError, ValueError):  # it is not there, or damaged, or too long
        return False
    return 0 <= time.time() - looked < _LOOK_AFTER and min(sizes, default=-1) >= 0 and sum(sizes) <= _size_limit()


def _add_usage(folder: Path, size: int) -> bytes:
    """Add a line to the file that counts; what it says then, or nothing if that is too much."""
    handle = os.open(folder / _USAGE, os.O_RDWR | os.O_APPEND | _BINARY | _NOT_WAITING)
    try:
        os.write(handle, b"%d\n" % size)
        os.lseek(handle, 0, os.SEEK_SET)
        data = os.read(handle, _LONGEST_USAGE)
    finally:
        os.close(handle)
    return data if len(data) < _LONGEST_USAGE else b""


def _begin_usage(folder: Path) -> None:
    """Begin to count anew: whoever adds a file from now on is seen by the look that follows, or counts it here."""
    with contextlib.suppress(OSError):  # then the next one looks again
        _replace(folder, _USAGE, b"%d\n" % time.time())


def _clean(folder: Path) -> int:
    """Remove what killed processes left, and the files not used for longest if the directory is over its limit; returns
    the bytes that are left.
    """
    files = []
    now = time.time()
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith((_SUFFIX, _UNFINISHED)):
                with contextlib.suppress(OSError):
                    status = entry.stat()
                    if not entry.name.endswith(_SUFFIX) and now - status.st_mtime > _ABANDONED_AFTER:
                        os.unlink(entry.path)
                        continue
                    files.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    limit = _size_limit()
    if total <= limit:
        return total
    for _, size, path in sorted(files):
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
        if total <= limit * 3 // 4:
            break
    return total


@cache
def _size_limit() -> int:
    value = os.environ.get("DRJIT_CACHE_SIZE")
    if value:
        try:
            size = int(value)
        except ValueError:
            size = -1
        if size >= 0:
            return size
        _log.warning("DRJIT_CACHE_SIZE must be a number of bytes, found %r: using %i", value, _DEFAULT_LIMIT)
    return _DEFAULT_LIMIT


def report() -> tuple[str | None, int]:
    """Location of the cache and the bytes it takes."""
    folder = directory()
    if folder is None:
        return None, 0
    total = 0
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                total += entry.stat().st_size
    return str(folder), total
