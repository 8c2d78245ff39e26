"""What an evaluation costs the host on the backend of GPUs: of one launch to sixty-four, traced and frozen.

.. code-block:: shell

    python benchmarks/gpu_launch.py [--idle] [--calls 1000]

Prints how many launches there are, and microseconds per evaluation, the least of seven rounds. The last column is for
frozen functions whose launches the driver gets as a graph, however few they are (``Target.graph``). Without a GPU, or
with ``--idle``, the driver is one that does nothing, so that this is the cost of all but the driver. With a GPU, arrays
are so small that the device keeps up.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

from drjit_core import register
from drjit_core.cuda.driver import Graph, Natives
from drjit_core.runtime.gpu.backend import GPU, the_gpu


class Idle:
    """A driver that does nothing."""

    name, version, architecture, memory, multiprocessors, stream = "no device", 13000, 90, 1 << 35, 132, 1

    def __init__(self) -> None:
        self._next = 1 << 32
        # what returns 0, whatever it gets, and looks at nothing: no two of these numbers are equal
        nothing = ctypes.cast(ctypes.CDLL(None).pthread_equal, ctypes.c_void_p).value
        self._natives = Natives(*[nothing or 0] * 4)

    def natives(self) -> Natives:
        """Functions of C that do nothing."""
        return self._natives

    def fail(self, function: str, status: int) -> None:
        """It never does."""
        raise AssertionError(f"{function}: {status}")

    def assemble(self, text: str) -> bytes:
        """No code."""
        return b"nothing"

    def load(self, code: bytes) -> int:
        """No module."""
        return 1

    def function(self, module: Any, name: str) -> int:
        """No function."""
        return 1 << 40

    def launch(self, function: Any, shape: Sequence[int], parameters: bytes) -> None:
        """Nothing."""

    def graph(self, launches: Sequence[tuple[int, Sequence[int], bytes]]) -> Graph:
        """No graph."""
        return Graph(1, 1 << 40, [*range(len(launches))])

    def mark(self) -> float:
        """The time."""
        return time.perf_counter()

    def milliseconds(self, begin: float, end: float) -> float:
        """The time between two points."""
        return 1000 * (end - begin)

    def allocate(self, nbytes: int) -> int:
        """Addresses that nobody has."""
        self._next += nbytes + 256
        return self._next & -256

    def download(self, address: int, nbytes: int) -> bytes:
        """Zeros."""
        return bytes(nbytes)

    def nothing(self, *arguments: Any) -> None:
        """Nothing."""

    enter = wait = trim = release = unload = unmark = upload = copy = fill = discard = nothing


def microseconds(function: Callable[[Any], Any], x: Any, calls: int) -> float:
    """The time of one call and its evaluation, whose result is the next one's argument."""
    import drjit as dr

    for _ in range(20):
        x = function(x)
        dr.eval(x)
    best = float("inf")
    for _ in range(7):
        dr.sync_thread()
        start = time.perf_counter()
        for _ in range(calls):
            x = function(x)
            dr.eval(x)
        best = min(best, (time.perf_counter() - start) / calls)
    return best * 1e6


def stages(count: int) -> Callable[[Any], Any]:
    """A function of so many launches."""
    import drjit as dr

    def function(x: Any) -> Any:
        for _ in range(count - 1):
            x = x * (1 / dr.sum(x))
        return x + 0.5

    return function


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="launches on a GPU, as the host sees them")
    parser.add_argument("--idle", action="store_true", help="a driver that does nothing")
    parser.add_argument("--calls", type=int, default=1000)
    options = parser.parse_args()
    backend = None if options.idle else the_gpu()
    if backend is None:
        backend = GPU(Idle())
    import drjit as dr
    from drjit.cuda import Float

    @dr.syntax
    def called(x: Any) -> Any:
        return dr.switch(dr.arange(dr.uint32_array_t(Float), 64) & 1, [lambda x: x + 1, lambda x: x * 0.5], x)

    print(f"{backend.driver.name}, microseconds")
    print(f"{'':24}{'launches':>10}{'traced':>10}{'frozen':>10}{'a graph':>10}")
    cases = [(f"{count} kernel{'s' if count > 1 else ''}", stages(count)) for count in (1, 2, 4, 8, 16, 64)]
    alone, together = (GPU(backend.driver, backend.target()._replace(graph=fewest)) for fewest in (1 << 62, 1))
    for name, function in [*cases, ("a call of two functions", called), ("a prefix sum", dr.cumsum)]:
        found = []
        for each, frozen in ((alone, False), (alone, True), (together, True)):
            register(each)
            x = dr.full(Float, 1, 64) + dr.opaque(Float, 0)
            dr.eval(x)
            launched = each.submitted()
            dr.eval(function(x))
            launched = each.submitted() - launched
            found.append(microseconds(dr.freeze(function) if frozen else function, x, options.calls))
        print(f"{name:24}{launched:10}{''.join(f'{each:10.1f}' for each in found)}")


if __name__ == "__main__":
    main()
