"""What the package says about the interpreter and the environment that it finds itself in.

:func:`check` runs at import, so it costs a listing of a few folders (well under a millisecond) and no import.
``python -m drjit`` asks the same functions.
"""

from __future__ import annotations

import os
import sys
import warnings

__all__ = ["check", "free_threading", "other_distributions"]


def other_distributions(folders: list[str] | None = None) -> list[str]:
    """Installed distributions named ``drjit``, as ``"drjit 1.1.0 in <folder>"``: not this project, which shares its
    import name only."""
    if folders is None:
        folders = [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *sys.path]
    found: list[str] = []
    for folder in dict.fromkeys(map(os.path.abspath, folders)):
        try:
            entries = os.listdir(folder)
        except OSError:  # a zip file, or an entry of sys.path that does not exist
            continue
        for entry in entries:
            name, _, version = entry.removesuffix(".dist-info").partition("-")
            if name == "drjit" and entry.endswith(".dist-info"):
                found.append(f"drjit {version} in {folder}")
    return found


def free_threading() -> bool:
    """Whether this interpreter runs without its global lock."""
    enabled = getattr(sys, "_is_gil_enabled", None)
    return enabled is not None and not enabled()


def check() -> None:
    """Warn once about what makes the package unreliable here."""
    for other in other_distributions():
        warnings.warn(
            f"Another distribution that provides the import name 'drjit' is installed ({other}). Both cannot be used "
            "in one environment: which files are imported depends on the order of installation. Run 'pip uninstall "
            "drjit drjit-python', then install the one that you want.", RuntimeWarning, stacklevel=3)
    if free_threading():
        warnings.warn(
            "drjit-python is not yet tested on interpreters without the global lock: use it from one thread at a time, "
            "or run Python with PYTHON_GIL=1.", RuntimeWarning, stacklevel=3)
