"""Configuration of Sphinx; ``make docs`` builds the pages."""

from importlib.metadata import version as _version

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
