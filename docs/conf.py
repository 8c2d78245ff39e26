"""Configuration of Sphinx; ``make docs`` builds the pages."""

import re
from importlib.metadata import version as _version
from typing import Any

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


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _unlink)
