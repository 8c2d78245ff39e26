"""Configuration of Sphinx; ``make docs`` builds the pages."""

import pathlib
import re
import sys
from importlib.metadata import version as _version
from typing import Any

_HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE.parent)]  # the pages of the reference are made by conformance.reference

project = "drjit-python"
author = "the drjit-python developers"
copyright = author
release = _version("drjit-python")

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"drjit-python {release}"


def _unlink(app: Any, name: str, source: list[str]) -> None:
    """Links to files outside of ``docs`` lead somewhere in a checkout only: keep their text."""
    source[0] = re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", source[0])


def _write_reference(app: Any) -> None:
    """Make the pages of the reference from the package as it is."""
    from conformance.reference import pages

    pages.write(_HERE / "reference")


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", _write_reference)
    app.connect("source-read", _unlink)
