"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import re
import signal
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

# A shell that runs the tests in the background lets them ignore Ctrl-C, and what they start as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# SciPy looks at this when it is imported: whether its functions take arrays of other namespaces.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

#: Processors that any newer one of their kind can stand in for, and what packets of theirs depend on.  (The last one is
#: for packets of four elements; it had no conversions of half precision.)
_PROCESSORS = {"haswell": "+avx,+avx2,+fma,+f16c,+fast-gather", "ivybridge": "+avx,+f16c",
               "westmere": "+sse4.2,+popcnt,+f16c"}

#: Folders of which CI runs every N-th test with plain rooms instead of compiled ones.
_PLAIN = {"arrays": 6, "core": 4, "math": 8, "ops": 8, "control": 8, "derivatives": 8, "runtime": 4}


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--watched``: every test fails that writes behind the memory of an array (plain rooms only); ``--cpu``: kernels
    are those of an older processor; ``--one-of 10``: a tenth of the tests, always the same ones; ``--form``: those that
    CI runs in this form of the rooms; ``--second``: types of arrays are those of another backend, whose memory the host
    cannot access; ``--cuda``: they are those of the backend of GPUs, over a driver that is simulated (``machine``), or
    the real one (``device``), where a test that ruins the device ends its process: with ``-n``, pytest goes on in
    another. Arrays of ``drjit.array_api`` are on the device then unless they are told otherwise."""
    parser.addoption("--watched", action="store_true", help="fail where something is written behind an array")
    parser.addoption("--one-of", type=int, default=1, metavar="N", help="run every N-th test, by a hash of its name")
    parser.addoption("--form", choices=["plain", "compiled"], help="run the share of this form of the rooms")
    parser.addoption("--second", action="store_true", help="run on another backend, beside the CPU's")
    parser.addoption("--cuda", choices=["machine", "device"], help="run on the backend of GPUs")
    parser.addoption("--architecture", default="90", help="that of the simulated GPU")
    parser.addoption("--cpu", choices=_PROCESSORS, help="compile for this processor instead of the one at hand")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the processor before anything is compiled, and the backend before there are types."""
    cpu = config.getoption("--cpu")
    if cpu is not None:
        from drjit_core.llvm import jit

        jit.host_cpu = cache(lambda: (cpu, _PROCESSORS[cpu]))  # type: ignore[assignment]
    if config.getoption("--second"):
        from tests.second import Second, take_over

        take_over(Second())
        _on_device()
    elif config.getoption("--cuda"):
        import drjit_core
        from drjit_core.cuda.driver import Driver
        from drjit_core.runtime.gpu.backend import GPU
        from tests.machine.driver import MachineDriver
        from tests.second import take_over

        take_over(GPU(Driver() if config.getoption("--cuda") == "device" else
                      MachineDriver(int(config.getoption("--architecture")), forgiving=True)))
        _on_device()
        from tests.core import harness

        harness.flushes = config.getoption("--cuda") == "device"
        # Tests expect what is exact; tests/ptx/test_approximations.py has what is approximated otherwise.
        drjit_core.set_flag(drjit_core.JitFlag.FastMath, False)


def _on_device() -> None:
    """Let arrays of the standard be where tests have those of Dr.Jit."""
    import drjit.array_api

    drjit.array_api.policy.device = "cuda"


def _listed(name: str) -> dict[str, str]:
    """The tests that a file lists: a line is a reason, those after it, indented, are names of tests, or of files; ``*``
    stands for anything."""
    found, reason = {}, ""
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            found[f"tests/{line.strip()}"] = reason
        else:
            reason = line.strip()
    return found


def _is_one_of(count: int, item: pytest.Item) -> bool:
    """Whether this test is in a sample of so many, which is always the same."""
    return zlib.crc32(item.nodeid.encode()) % count == 0


def _is_plain(item: pytest.Item) -> bool:
    """Whether CI runs this test with plain rooms, which find what compiled ones do not tell of."""
    share = _PLAIN.get(item.nodeid.split("/")[1])
    return share is not None and _is_one_of(share, item)


def _choose(config: pytest.Config, items: list[pytest.Item], chosen: Callable[[pytest.Item], bool]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if not chosen(item)])
    items[:] = filter(chosen, items)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Expect known tests to fail; one that passes must be taken off the list. Leave out what is not in the sample, and
    what is not for a second backend."""
    for item in items:
        sample = item.get_closest_marker("sample")
        if sample is not None and not _is_one_of(sample.args[0], item):
            item.add_marker(pytest.mark.exhaustive)
    count, form = config.getoption("--one-of"), config.getoption("--form")
    if count > 1:
        _choose(config, items, lambda item: _is_one_of(count, item))
    if form is not None:
        _choose(config, items, lambda item: _is_plain(item) is (form == "plain"))
    if config.getoption("--second") or config.getoption("--cuda"):
        elsewhere = _listed("second.txt")
        if config.getoption("--cuda"):
            elsewhere |= _listed("cuda.txt") | _listed(f"{config.getoption('--cuda')}.txt")
        parts = [(re.compile(re.escape(name).replace(r"\*", ".*")), reason)
                 for name, reason in elsewhere.items() if "*" in name]
        for item in items:
            names = item.nodeid, item.nodeid.partition("[")[0], item.nodeid.partition("::")[0]
            reason = next((elsewhere[name] for name in names if name in elsewhere), None) or next(
                (why for pattern, why in parts if pattern.fullmatch(item.nodeid)), None)
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))
    known = _listed("known.txt")
    for item in items:
        reason = known.get(item.nodeid)
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def pytest_collection_finish() -> None:
    """Let the collector pass over modules and test cases, which stay as they are: many tests collect."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _watched(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.config.getoption("--watched"):
        from tests.core.harness import watched_memory

        with watched_memory():
            yield
    else:
        yield


@pytest.fixture(autouse=True)
def _nothing_left_open() -> Iterator[None]:
    """No test leaves behind a construct of this thread that it has begun."""
    yield
    from drjit._access.lanes import in_plain_code
    from drjit._access.store import innermost_journal, no_journal
    from drjit_core import innermost, state

    assert innermost() is None
    assert in_plain_code()
    assert innermost_journal() is None
    assert no_journal()
    assert state.recording is None


@pytest.fixture(autouse=True)
def _device_lives(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that has ruined the device is the last one of its process."""
    yield
    if request.config.getoption("--cuda") == "device":
        from drjit_core import JitBackend
        from drjit_core.runtime.backends import backend_of

        try:
            backend_of(JitBackend.CUDA.value).wait()
        except RuntimeError as error:
            os.write(2, f"{request.node.nodeid}: {error}\n".encode())
            os._exit(3)
