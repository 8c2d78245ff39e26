"""The kernel cache on disk, with code that is made up."""

from __future__ import annotations

import ast
import compileall
import errno
import logging
import os
import py_compile
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import drjit_core
from drjit_core.runtime import disk

CODE = bytes(range(250)) * 4
ENVIRONMENT = disk.Environment(lambda: ("test",))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    disk.emitter()  # which is in the cache as well, now in another one
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("DRJIT_CACHE_SIZE", raising=False)
    monkeypatch.setattr(disk, "_warned", False)
    clear()
    yield tmp_path / "cache"
    clear()


def clear() -> None:
    disk.directory.cache_clear()
    disk._size_limit.cache_clear()


def key(number: int) -> bytes:
    return ENVIRONMENT.key_of(str(number).encode(), "test")


def path_of(folder: Path, number: int) -> Path:
    return folder / (key(number).hex() + ".kernel")


def test_what_was_stored_is_found(folder: Path) -> None:
    assert disk.load(key(1)) is None
    disk.store(key(1), CODE)
    assert disk.load(key(1)) == CODE and disk.load(key(2)) is None
    assert folder.stat().st_mode & 0o777 == 0o700 and path_of(folder, 1).stat().st_mode & 0o077 == 0
    assert disk.report() == (str(folder), path_of(folder, 1).stat().st_size + (folder / "usage").stat().st_size)


def test_every_flipped_bit_and_every_truncation_is_a_miss(folder: Path) -> None:
    disk.store(key(1), CODE[:40])
    path = path_of(folder, 1)
    good = path.read_bytes()
    for position in range(len(good)):
        for bit in range(8):
            bad = bytearray(good)
            bad[position] ^= 1 << bit
            path.write_bytes(bad)
            assert disk.load(key(1)) is None
        path.write_bytes(good[:position])
        assert disk.load(key(1)) is None
    path.write_bytes(good)
    assert disk.load(key(1)) == CODE[:40]


def test_a_file_of_another_format_or_of_another_key_is_a_miss(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.store(key(1), CODE)
    path_of(folder, 1).rename(path_of(folder, 2))
    assert disk.load(key(2)) is None
    disk.store(key(1), CODE)
    monkeypatch.setattr(disk, "_MAGIC", disk._MAGIC[:-1] + b"\xff")
    assert disk.load(key(1)) is None
    disk.store(key(1), CODE)
    assert disk.load(key(1)) == CODE


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
@pytest.mark.parametrize("what", ("pipe", "folder", "socket", "device", "loop"))
def test_what_is_no_file_is_a_miss_and_makes_nobody_wait(folder: Path, monkeypatch: pytest.MonkeyPatch,
                                                         caplog: pytest.LogCaptureFixture, what: str) -> None:
    disk.store(key(2), CODE)
    path, found = path_of(folder, 1), []
    if what == "pipe":
        os.mkfifo(path, 0o600)
    elif what == "folder":
        path.mkdir(0o700)
    elif what == "socket":
        monkeypatch.chdir(folder)  # there are limits for such paths
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    else:
        path.symlink_to("/dev/zero" if what == "device" else path.name)
    thread = threading.Thread(target=lambda: found.append(disk.load(key(1))), daemon=True)
    thread.start()
    thread.join(30)
    assert found == [None] and not caplog.records
    disk.store(key(1), CODE)
    assert disk.load(key(1)) == (None if what == "folder" else CODE) and disk.load(key(2)) == CODE
    assert not [entry for entry in folder.iterdir() if entry.suffix == ".part"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
@pytest.mark.parametrize("what", ("cache", "count", "above"))
def test_a_pipe_in_the_place_of_a_folder_or_of_the_count_makes_nobody_wait(
        folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str) -> None:
    if what == "count":
        folder.mkdir(0o700)
        os.mkfifo(folder / "usage", 0o600)
    else:
        os.mkfifo(folder, 0o600)
        if what == "above":
            monkeypatch.setenv("DRJIT_CACHE_DIR", str(folder / "below"))
    found: list[bytes | None] = []

    def use() -> None:
        disk.store(key(1), CODE)
        found.append(disk.load(key(1)))

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join(30)
    assert found == [CODE if what == "count" else None]
    assert [record.levelname for record in caplog.records] == ([] if what == "count" else ["WARNING"])


def test_nobody_reads_a_damaged_file_to_its_end(folder: Path) -> None:
    disk.store(key(1), CODE)
    with open(path_of(folder, 1), "wb") as file:
        file.truncate(1 << 42)  # takes no space
    assert disk.load(key(1)) is None
    disk.store(key(1), CODE)
    assert disk.load(key(1)) == CODE


def test_files_not_used_for_longest_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(disk._MAGIC) + 2 * disk._DIGEST + len(CODE)
    monkeypatch.setenv("DRJIT_CACHE_SIZE", str(20 * size))
    now = time.time()
    for number in range(20):
        disk.store(key(number), CODE)
        os.utime(path_of(folder, number), (now - 90_000 + number, now - 90_000 + number))
    for number in (0, 3):  # used again, and noted so
        assert disk.load(key(number)) == CODE
    for number in range(20, 24):
        disk.store(key(number), CODE)
    left = {number for number in range(24) if path_of(folder, number).exists()}
    assert {0, 3, 20, 21, 22, 23} <= left and len(left) <= 20
    gone = set(range(24)) - left
    assert gone == set(sorted(set(range(1, 20)) - {3})[:len(gone)])
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 20 * size


def test_unfinished_files_are_removed_when_they_are_old(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    for name, age in (("old.part", 3600), ("new.part", 1), ("foreign.txt", 3600)):
        (folder / name).write_bytes(b"x")
        os.utime(folder / name, (time.time() - age, time.time() - age))
    disk.store(key(1), CODE)
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".kernel") == ["foreign.txt", "new.part",
                                                                                                 "usage"]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often the directory is listed."""
    found: list[str] = []
    scandir = os.scandir

    def counted(path: str) -> object:
        found.append(str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    return found


SIZE = len(disk._MAGIC) + 2 * disk._DIGEST + len(CODE)


def test_the_directory_is_listed_once_for_many_stores(folder: Path, looks: list[str]) -> None:
    """It takes milliseconds if there are thousands of files."""
    for number in range(200):
        disk.store(key(number), CODE)
    assert looks.count(str(folder)) == 1
    looked, *sizes = map(int, (folder / "usage").read_text().split())
    assert abs(looked - time.time()) < 100
    assert sum(sizes) == 200 * SIZE == sum(path.stat().st_size for path in folder.glob("*.kernel"))
    for _ in range(3000):
        disk._limit_size(folder, SIZE)
    assert 1 < looks.count(str(folder)) < 10  # the file that counts does not grow for ever
    assert (folder / "usage").stat().st_size < 10_000


@pytest.mark.parametrize("what", ["missing", "empty", "no numbers", "half a line", "negative", "long", "old", "future",
                                  "a directory", "unreadable"])
def test_without_a_count_of_bytes_the_directory_is_listed(folder: Path, looks: list[str], what: str) -> None:
    disk.store(key(1), CODE)
    usage, now = folder / "usage", int(time.time())
    usage.unlink()
    if what == "a directory":
        usage.mkdir()
    elif what == "unreadable":
        usage.symlink_to(folder / "nowhere" / "usage")
    elif what != "missing":
        usage.write_bytes({"empty": b"", "no numbers": b"\xff\xfe\n1\n", "half a line": b"1", "long": b"1\n" * 10_000,
                           "negative": b"%d\n-5000\n" % now, "old": b"%d\n1\n" % (now - 4000),
                           "future": b"%d\n1\n" % (now + 4000)}[what])
    disk.store(key(2), CODE)
    assert looks.count(str(folder)) == 2
    disk.store(key(3), CODE)
    assert looks.count(str(folder)) == (3 if what == "a directory" else 2)
    assert all(disk.load(key(number)) == CODE for number in (1, 2, 3))
    assert not list(folder.glob("*.part"))


def test_files_that_somebody_has_removed_cost_no_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRJIT_CACHE_SIZE", str(10 * SIZE))
    for number in range(10):
        disk.store(key(number), CODE)
    for number in range(8):
        path_of(folder, number).unlink()
    for number in range(10, 15):
        disk.store(key(number), CODE)
    assert all(path_of(folder, number).exists() for number in range(8, 15))


FILL = """
import sys
import tempfile
from drjit_core.runtime import disk
for number in range(int(sys.argv[1]), int(sys.argv[1]) + 100):
    key = disk.Environment(lambda: ("test",)).key_of(str(number).encode(), "test")
    disk.store(key, bytes(range(250)) * 4)
"""


def test_several_processes_keep_the_limit_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRJIT_CACHE_SIZE", str(150 * SIZE))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen([sys.executable, "-c", FILL, str(1000 * number)], env=environment)
               for number in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    disk.store(key(1), CODE)
    total = sum(path.stat().st_size for path in folder.glob("*.kernel"))
    assert 100 * SIZE < total <= 150 * SIZE
    assert not list(folder.glob("*.part"))


def test_an_interrupted_write_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(source: str, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        disk.store(key(1), CODE)
    assert not list(folder.iterdir())


def test_a_file_that_another_process_evicts_while_it_is_written_is_no_reason_to_warn(
        folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    replace = os.replace

    def evicted(source: str, target: Path) -> None:
        os.unlink(source)
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", evicted)
        disk.store(key(1), CODE)
    assert not caplog.records and not list(folder.iterdir())
    disk.store(key(1), CODE)
    assert disk.load(key(1)) == CODE


def test_one_warning_however_often_it_fails(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk.store(key(1), CODE)
    path_of(folder, 1).chmod(0o666)
    with caplog.at_level(logging.WARNING, "drjit"):
        for _ in range(3):
            assert disk.load(key(1)) is None
    assert [record.getMessage().count("can be written by others") for record in caplog.records] == [1]


def test_a_folder_that_takes_nothing_more_is_still_read(folder: Path, monkeypatch: pytest.MonkeyPatch,
                                                        caplog: pytest.LogCaptureFixture) -> None:
    """A cache that is part of a read-only image, or on a disk that is full."""
    def refuse(**_: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    disk.store(key(1), CODE)
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    for _ in range(2):
        disk.store(key(2), CODE)
    assert disk.load(key(1)) == CODE and disk.load(key(2)) is None
    assert [record.getMessage() for record in caplog.records] == [
        f"the kernel cache on disk takes no further kernels: [Errno {errno.EROFS}] {os.strerror(errno.EROFS)}; those "
        "that it does not have are compiled anew in every process"]


@pytest.mark.parametrize("limit", ("much", "-1", "1e9"))
def test_a_limit_that_is_no_number_of_bytes_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch,
                                                        caplog: pytest.LogCaptureFixture, limit: str) -> None:
    monkeypatch.setenv("DRJIT_CACHE_SIZE", limit)
    disk.store(key(1), CODE)
    assert f"DRJIT_CACHE_SIZE must be a number of bytes, found {limit!r}" in caplog.text and disk.load(key(1)) == CODE


def test_a_relative_location_stays_where_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.parent.joinpath("elsewhere").mkdir()
    monkeypatch.setenv("DRJIT_CACHE_DIR", "cache")
    monkeypatch.chdir(folder.parent)
    disk.store(key(1), CODE)
    monkeypatch.chdir("elsewhere")
    disk.store(key(2), CODE)
    assert disk.load(key(1)) == disk.load(key(2)) == CODE and disk.report()[0] == str(folder)


def test_no_directory_no_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRJIT_CACHE_DIR", "")
    clear()
    disk.store(key(1), CODE)
    assert disk.load(key(1)) is None and disk.report() == (None, 0) and not folder.exists()


# --- the hash of the emitter ------------------------------------------------------------------------------------------

PACKAGE = Path(drjit_core.__file__).resolve().parent
#: Prints the emitter's hash.
DIGEST = """
from drjit_core.runtime import disk
emitter = disk.emitter()
print(emitter.hex() if emitter else None)
"""


def imported_by(name: str, seen: set[str]) -> set[str]:
    """Modules of the compiler that a module's text imports, wherever it does, and what they import in turn."""
    if name in seen:
        return seen
    path = PACKAGE.joinpath(*name.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.is_file():  # a name that is imported from a module, not a module
        return seen
    if name:
        seen.add(name)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [alias.name.removeprefix("drjit_core.") for alias in node.names if "drjit_core." in alias.name]
        elif isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("drjit_core")):
            parts = package.split(".") if package else []
            base = parts[:len(parts) - node.level + 1] if node.level else []
            base += [part for part in (node.module or "").split(".") if part not in ("", "drjit_core")]
            found = [".".join(base), *(".".join([*base, alias.name]) for alias in node.names)]
        for other in found:
            if other:
                imported_by(other, seen)
    return seen


def test_the_hash_covers_all_that_text_follows_from() -> None:
    needed: set[str] = set()
    for root in ("llvm.emit", "llvm.jit", "codegen.program", "math"):  # math registers what emission expands
        imported_by(root, needed)
    assert {"llvm.emit", "control.rare", "types", "ops.table", "math.trigonometric", "ir.node"} <= needed
    assert not any(name.startswith("runtime") for name in needed)
    covered = {Path(name).relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
               for name, _ in disk._files_below(str(PACKAGE))}
    assert needed <= covered, f"not covered: {sorted(needed - covered)}"
    folders = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")}
    assert folders - {name.partition(".")[0] for name in covered} - {f"{name}.py" for name in covered} == {"runtime"}


def digest_of(folder: Path) -> str:
    process = subprocess.run([sys.executable, "-c", DIGEST], capture_output=True, text=True, check=False,
                             env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}, cwd="/")
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def as_source(tree: Path) -> Path:
    return tree


def as_bytecode(tree: Path) -> Path:
    """Without any ``.py`` file."""
    assert compileall.compile_dir(tree, quiet=1, legacy=True, stripdir=str(tree),
                                  invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    for path in tree.rglob("*.py"):
        path.unlink()
    return tree


def as_archive(tree: Path) -> Path:
    """With compiled rooms, if there are any, which cannot be loaded from there."""
    return Path(shutil.make_archive(str(tree), "zip", tree))


@pytest.mark.parametrize("form", (as_source, as_bytecode, as_archive))
def test_a_change_of_any_module_changes_the_hash(tmp_path: Path, form: Callable[[Path], Path]) -> None:
    found = []
    for number, changed in enumerate((None, None, "control/rare.py", "types.py", "runtime/history.py")):
        tree = tmp_path / str(number)
        shutil.copytree(PACKAGE, tree / "drjit_core", ignore=shutil.ignore_patterns("__pycache__"))
        if changed:
            with open(tree / "drjit_core" / changed, "a") as file:
                file.write("\nCHANGED = 1\n")
        found.append(digest_of(form(tree)))
    assert found[0] == found[1] == found[4] and "None" not in found
    assert len({found[0], found[2], found[3]}) == 3


def test_files_are_read_again_if_the_file_system_tells_of_a_change(tmp_path: Path) -> None:
    """Also if length and time of the last change are those of the file before."""
    shutil.copytree(PACKAGE, tmp_path / "drjit_core", ignore=shutil.ignore_patterns("__pycache__"))
    changed = tmp_path / "drjit_core" / "control" / "rare.py"
    with open(changed, "a") as file:
        file.write("\nCHANGED = 1\n")
    first = digest_of(tmp_path)
    assert digest_of(tmp_path) == first
    before = changed.stat()
    changed.write_text(changed.read_text().replace("CHANGED = 1", "CHANGED = 2"))
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert changed.stat().st_size == before.st_size
    assert digest_of(tmp_path) not in (first, "None")


def test_without_files_to_hash_there_is_no_cache(folder: Path, monkeypatch: pytest.MonkeyPatch,
                                                 caplog: pytest.LogCaptureFixture) -> None:
    """An importer that hands out no files: the emitter may be any, so that no code of its may be kept."""
    disk.emitter.cache_clear()
    monkeypatch.setattr(disk, "_files_below", lambda root: iter(()))
    try:
        disk.store(key(1), CODE)
        assert disk.load(key(1)) is None and not folder.exists()
        assert "does not list its modules" in caplog.text
    finally:
        monkeypatch.undo()
        disk.emitter.cache_clear()
