"""``python -m drjit``: what a bug report needs.

Each line is found out on its own, so that the report comes out of a broken installation too.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import drjit_core

from ._base import environment as _environment

#: Distributions whose versions matter: required ones, backends, neighbours.
DISTRIBUTIONS = ("llvmlite", "numpy", "cuda-bindings", "torch", "jax", "tensorflow")


def _project() -> str:
    try:
        return f"{version('drjit-python')} in {os.path.dirname(os.path.abspath(__file__))}"
    except PackageNotFoundError:
        return f"a checkout that is not installed, in {os.path.dirname(os.path.abspath(__file__))}"


def _python() -> str:
    lock = ", without the global lock (not yet tested)" if _environment.free_threading() else ""
    return f"{platform.python_implementation()} {platform.python_version()}{lock}, {sys.executable}"


def _packages() -> str:
    found = []
    for name in DISTRIBUTIONS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def _processor() -> str:
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), model)
    except OSError:  # not Linux
        pass
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {usable} of {os.cpu_count()} logical cores usable"


def _backends() -> str:
    lines = [f"{name:5} {'yes' if found else 'no '}  {detail}" for name, found, detail in drjit_core.backend_report()]
    return "\n".join(lines)


def _cache() -> str:
    location, size = drjit_core.cache_report()
    return f"{location or 'in memory only: every process compiles its kernels'}, {size / 2**20:.1f} MiB"


def _conflicts() -> str:
    return "\n".join(f"{other}: it provides the same import name, see README.md"
                     for other in _environment.other_distributions()) or "none"


SECTIONS: dict[str, Callable[[], object]] = {
    "drjit-python": _project,
    "Python": _python,
    "platform": platform.platform,
    "packages": _packages,
    "processor": _processor,
    "tracer": lambda: drjit_core.rooms_report(),
    "threads": lambda: drjit_core.thread_report(),
    "backends": _backends,
    "kernel cache": _cache,
    "conflicts": _conflicts,
}


def report() -> str:
    """The whole report as text."""
    lines = []
    for title, section in SECTIONS.items():
        try:
            text = str(section())
        except Exception as error:
            text = f"could not be found out: {type(error).__name__}: {error}"
        first, *rest = text.splitlines() or [""]
        lines += [f"{title + ':':14} {first}", *(" " * 15 + line for line in rest)]
    return "\n".join(lines)


if __name__ == "__main__":
    print(report())
