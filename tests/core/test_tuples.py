"""Classes of tuples are what ``typing.NamedTuple`` makes of the same body."""

from __future__ import annotations

import inspect
import pickle
import typing

from drjit_core import tuples
from drjit_core.types import TYPES


class Ours(tuples.NamedTuple):
    """A point."""

    x: int
    y: typing.Any = 2
    label: str = ""

    @property
    def total(self) -> int:
        return self.x + self.y

    def __str__(self) -> str:
        return f"<{self.x}>"


class Theirs(typing.NamedTuple):
    """A point."""

    x: int
    y: typing.Any = 2
    label: str = ""

    @property
    def total(self) -> int:
        return self.x + self.y

    def __str__(self) -> str:
        return f"<{self.x}>"


def test_classes_are_those_of_typing():
    assert Ours.__mro__[1:] == Theirs.__mro__[1:] and type(Ours) is type(Theirs)
    for name in ("_fields", "_field_defaults", "__module__", "__doc__", "__match_args__", "__slots__"):
        assert getattr(Ours, name) == getattr(Theirs, name), name
    assert Ours.__qualname__ == "Ours" and set(vars(Ours)) - {"__static_attributes__", "__firstlineno__"} \
        <= set(vars(Theirs))
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs) == {"x": int, "y": typing.Any, "label": str}
    assert list(inspect.signature(Ours).parameters) == ["x", "y", "label"]


def test_values_are_those_of_typing():
    ours, theirs = Ours(1), Theirs(1)
    assert ours == theirs == (1, 2, "") and hash(ours) == hash(theirs)
    assert (ours.total, str(ours), ours._replace(y=5).total) == (theirs.total, str(theirs), 6)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert pickle.loads(pickle.dumps(ours)) == ours
    assert not hasattr(ours, "__dict__")


def test_the_compiler_uses_them():
    info = next(filter(None, TYPES))
    assert type(info).__doc__ and isinstance(info, tuple) and type(info)._fields[0] == "type"
