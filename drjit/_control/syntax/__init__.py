"""The translation of Python's control flow: ``@dr.syntax``."""

from .decorator import hint, syntax

__all__ = ["hint", "syntax"]
