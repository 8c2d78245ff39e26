"""What pyproject.toml cannot say: an editable installation names its two folders in a path file.

Setuptools would install a finder for packages in two folders, which runs in the interpreter only: mypy, pyright and
editors would not see the package from other projects. They do read path files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).resolve().parent
FOLDERS = (ROOT, ROOT / "compiler")


class PathFile:
    """Setuptools' protocol of a way to install a project so that changes of it are seen at once."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, wheel: Any, files: list[str], mapping: Mapping[str, str]) -> None:
        wheel.writestr(f"__editable__.{self.name}.pth", "".join(f"{folder}\n" for folder in FOLDERS))

    def __enter__(self) -> PathFile:
        return self

    def __exit__(self, *args: object) -> None:
        """Nothing was changed that would have to be put back."""


class EditableWheel(editable_wheel):
    """The command that makes the wheel of an editable installation."""

    def _select_strategy(self, name: str, tag: str, build_lib: Any) -> Any:
        return PathFile(name)


setup(cmdclass={"editable_wheel": EditableWheel})
