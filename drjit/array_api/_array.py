"""The class of arrays."""
from __future__ import annotations
from typing import Any
from ._data import Storage
class Array(Storage):
    __slots__ = ()
Storage.final = Array
