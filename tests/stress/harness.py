"""Scenarios of the stress tests: each runs programs of :mod:`tests.stress.programs` in processes of their own.

A scenario has a short form, which CI runs, and a full one (``pytest -m exhaustive`` or ``conformance/stress.py``); it
returns a line about what it has seen, and raises ``AssertionError`` for anything wrong.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.stress.programs import masses
from tests.stress.programs.exits import WAYS

__all__ = ["ROOT", "SCENARIOS", "run", "start"]

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = Path(__file__).resolve().parent / "programs"

Scenario = Callable[[Path, bool], str]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__.replace("_", " ")] = function
    return function


def start(program: str, *arguments: object, cache: Path | str, **environment: str) -> subprocess.Popen[str]:
    """A program in a process of its own, with its cache directory."""
    variables = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'compiler'}", "DRJIT_CACHE_DIR": str(cache),
                 "PYTHONDONTWRITEBYTECODE": "1", **environment}
    return subprocess.Popen([sys.executable, str(PROGRAMS / f"{program}.py"), *map(str, arguments)], env=variables,
                            cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(program: str, *arguments: object, cache: Path | str, warnings: int = 0,
        timeout: float = 900, **environment: str) -> str:
    """Run a program to its end, which must be a good one; returns the last line it printed."""
    process = start(program, *arguments, cache=cache, **environment)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"{program}: hangs\n{process.communicate()[1][-4000:]}") from None
    assert process.returncode == 0, f"{program}: exit status {process.returncode}\n{err[-4000:]}"
    found = [line for line in err.splitlines() if "warning:" in line]
    assert len(found) == warnings, f"{program}: {len(found)} warnings, expected {warnings}\n{err[-4000:]}"
    return out.strip().rpartition("\n")[2]


# --- the cache on disk -----------------------------------------------------------------------------------------------


def kernels(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.kernel"))


@scenario
def killed_while_filling_one_cache(folder: Path, full: bool) -> str:
    """Pairs of processes fill one directory, and are killed in the midst of it."""
    rounds, count = (50, 300) if full else (4, 100)
    cache, rng, seen = folder / "cache", random.Random(0), 0
    for _ in range(rounds):
        pair = [start("fill_cache", count, cache=cache) for _ in range(2)]
        for process in pair:
            assert process.stdout is not None and process.stdout.readline() == "ready\n", process.communicate()[1]
        time.sleep(rng.uniform(0, 0.3))
        for process in pair:
            process.send_signal(signal.SIGKILL)
        for process in pair:
            err = process.communicate()[1]
            assert "Error" not in err and "warning" not in err, err
        seen = max(seen, len(kernels(cache)))
        for path in kernels(cache):
            if rng.random() < 0.5:
                path.unlink()
    left = [path for path in cache.iterdir() if path.suffix == ".part"]
    (cache / "orphan.part").write_bytes(b"x" * 1000)
    for path in cache.glob("*.part"):  # an hour later
        os.utime(path, (time.time() - 3600, time.time() - 3600))
    (cache / "usage").unlink(missing_ok=True)  # else nobody looks at the directory for an hour
    run("fill_cache", count, cache=cache)
    assert not list(cache.glob("*.part")), "what killed processes left is still there"
    return f"{2 * rounds} processes killed, up to {seen} kernels; {len(left)} unfinished files left, and removed"


def damage(path: Path, rng: random.Random, others: list[Path]) -> str:
    data = bytearray(path.read_bytes())
    way = rng.choice(("bit", "bit", "bit", "truncated", "empty", "longer", "zeros", "swapped", "version"))
    if way == "bit":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif way == "truncated":
        del data[rng.randrange(len(data)):]
    elif way == "empty":
        data.clear()
    elif way == "longer":
        data += b"\0"
    elif way == "zeros":
        start_ = rng.randrange(len(data))
        data[start_:] = bytes(len(data) - start_)
    elif way == "swapped":
        data = bytearray(rng.choice([other for other in others if other != path]).read_bytes())
    else:
        data[7] ^= 3  # the version of the format
    path.write_bytes(data)
    return way


@scenario
def damaged_cache_files(folder: Path, full: bool) -> str:
    """Bits flipped, files truncated, swapped, of another version: misses, and repaired."""
    count = 230 if full else 40
    cache, rng = folder / "cache", random.Random(1)
    run("fill_cache", count, cache=cache)
    files = kernels(cache)
    good = {path: path.read_bytes() for path in files}
    chosen = rng.sample(files, min(len(files), 200 if full else 30))
    ways = [damage(path, rng, files) for path in chosen]
    run("fill_cache", count, cache=cache)
    for path in chosen:
        assert path.read_bytes() == good[path], f"{path.name} was not repaired"
    return f"{len(ways)} damaged files in {len(set(ways))} ways"


@scenario
def cache_limit(folder: Path, full: bool) -> str:
    """The directory never stays above its limit; two processes evict at once."""
    count, limit = (300 if full else 60), 150_000
    cache = folder / "cache"
    pair = [start("fill_cache", count, cache=cache, DRJIT_CACHE_SIZE=str(limit)) for _ in range(2)]
    for process in pair:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0 and out.endswith("right\n") and "warning" not in err, err
    total = sum(path.stat().st_size for path in cache.iterdir())
    assert total <= limit * 5 // 4, f"{total} bytes with a limit of {limit}"
    run("fill_cache", 5, cache=folder / "none", DRJIT_CACHE_SIZE="0")
    assert not kernels(folder / "none")
    return f"{total} bytes with a limit of {limit}"


@scenario
def unusable_cache(folder: Path, full: bool) -> str:
    """One warning, and right results, whatever is wrong with the directory or a file in it."""
    seen = []

    def check(what: str, cache: Path | str, warnings: int, *arguments: object) -> None:
        try:
            run("fill_cache", 6, *arguments, cache=cache, warnings=warnings)
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from error
        seen.append(what)

    check("disabled", "", 0)
    usual = folder / "usual"
    check("usual", usual, 0)
    assert usual.stat().st_mode & 0o777 == 0o700

    world = folder / "world-writable"
    world.mkdir()
    world.chmod(0o777)
    check("a directory that others can write", world, 1)
    assert not list(world.iterdir())
    kernels(usual)[0].chmod(0o666)
    check("a file that others can write", usual, 1)
    plain = folder / "file"
    plain.write_bytes(b"")
    check("a file in place of the directory", plain, 1)
    check("a parent that is a file", plain / "below", 1)
    check("writing fails midway", folder / "full", 1, 1024)
    assert not list((folder / "full").glob("*.part"))
    for path in kernels(usual):
        path.unlink()
        path.mkdir()
    check("directories in place of files", usual, 1)
    if os.geteuid() == 0:
        foreign = folder / "foreign"
        foreign.mkdir(mode=0o700)
        os.chown(foreign, 12345, 12345)
        check("a directory of another user", foreign, 1)
        shared = folder / "shared"
        check("usual", shared, 0)
        os.chown(kernels(shared)[0], 12345, 12345)
        check("a file of another user", shared, 1)
        for what, options in (("a full file system", "size=16k"), ("a file system that is read only", "ro")):
            mounted = folder / what
            mounted.mkdir()
            command = ["mount", "-t", "tmpfs", "-o", f"{options},mode=0700", "tmpfs", str(mounted)]
            if subprocess.run(command, capture_output=True).returncode == 0:  # containers may not mount
                try:
                    check(what, mounted, 1)
                finally:
                    subprocess.run(["umount", str(mounted)], check=True)
    else:
        read_only = folder / "read-only"
        read_only.mkdir(mode=0o500)
        check("a directory that is read only", read_only, 1)
    return f"{len(seen)} conditions: {', '.join(seen)}" if full else f"{len(seen)} conditions"


# --- threads, forks, exits, signals ----------------------------------------------------------------------------------


def program(name: str, text: str, short: tuple[object, ...], complete: tuple[object, ...], **environment: str) -> None:
    def one(folder: Path, full: bool) -> str:
        return run(name, *(complete if full else short), cache=folder / "cache", **environment)
    one.__doc__ = text
    SCENARIOS[text] = one


program("threads", "eight threads at once", (2,), (60,))
program("threads", "eight threads, forks, and caches emptied", (2, "control"), (30, "control"))
program("threads", "eight threads without a pool", (1,), (10,), DRJIT_THREADS="1")
program("forks", "forks while kernels run", (5,), (20,))
program("interrupts", "Ctrl-C at any moment", (60,), (1000,))
program("growth", "memory of a long loop", (2000,), (10_000,))
program("lifetimes", "programs come and go", (1500, 1), (600_000, 1))
program("lifetimes", "programs come and go in several threads", (1500, 3), (400_000, 4))
program("reuse", "memory used again while kernels are queued", (15,), (600,))
program("same_bits", "the same bits", (40,), (800,))


@scenario
def many_nodes_dropped_at_once(folder: Path, full: bool) -> str:
    """By threads, exceptions, the collector of cycles, and the end of the interpreter."""
    count = 1_000_000 if full else 100_000
    for way in masses.WAYS:
        run("masses", way, count, cache=folder / "cache")
    return f"{count} nodes in {len(masses.WAYS)} ways"


@scenario
def exits_with_work_in_flight(folder: Path, full: bool) -> str:
    ways = [WAYS[index % len(WAYS)] for index in range(27 if full else len(WAYS))]
    for way in ways:
        try:
            run("exits", way, cache=folder / "cache", timeout=100)
        except AssertionError as error:
            raise AssertionError(f"{way}: {error}") from error
    return f"{len(ways)} exits in {len(set(ways))} ways"


def run_scenario(name: str, full: bool) -> str:
    """Run one scenario in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="drjit-stress-", ignore_cleanup_errors=True) as folder:
        return SCENARIOS[name](Path(folder), full)
