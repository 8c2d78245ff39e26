"""Why a function is recorded again, for people: what differs between the inputs of two calls."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import drjit_core as core

from .._base.values import real_number

__all__ = ["RecordingInfo", "at_line", "difference", "distance", "of_arguments", "of_places",
           "only_differences", "parameter_at"]

_MOST_DIFFERENCES = 4
#: Numbers of elements, more than one, in the words for an array that is no tensor.
_ELEMENTS = re.compile(r"^((?!.*Tensor)[\w.]+\[(?:\d+, )*)(?!0\]|1\])\d+\]")
#: The values of constants, in the words for an array.
_VALUES = re.compile(r"(?<=\] literal )\[[^\]]*\]")
_POSITIONAL = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD


class RecordingInfo(NamedTuple):
    """A recording of a frozen function.

    - ``key``: what its inputs were like, by their paths (``args[0].x``).
    - ``any_size``: whether it is taken to be good for arrays of other sizes.
    - ``kernels``, ``launches``: how many kernels a replay launches, and how often it launches anything.
    - ``bytes``: of arrays that the recording keeps because the function knows them itself.
    - ``hits``: how many calls it has served for, but for the one that was recorded.
    """

    key: dict[str, str]
    any_size: bool
    kernels: int
    launches: int
    bytes: int
    hits: int


def _different(before: dict[str, str], now: dict[str, str]) -> list[str]:
    return [path for path in dict.fromkeys([*before, *now]) if before.get(path) != now.get(path)]


def difference(before: dict[str, str], now: dict[str, str], reason: str) -> str:
    """What differs between the inputs of two calls, in words."""
    paths = _different(before, now)
    if reason:  # the key was the same: sizes may differ, but do not matter
        return reason + "".join([f"; {path} was {before.get(path)}, and is {now.get(path)}" for path in paths[
            :_MOST_DIFFERENCES]])
    found = [f"{path or 'the arguments'} was {before.get(path, 'not there')}, and is {now.get(path, 'not there')}"
             for path in paths]
    more = f", and {len(found) - _MOST_DIFFERENCES} more" if len(found) > _MOST_DIFFERENCES else ""
    return "; ".join(found[:_MOST_DIFFERENCES]) + more if found else \
        "flags, scopes of derivatives, code of functions, the environment, or which objects are the same differ"


def distance(before: dict[str, str], now: dict[str, str]) -> int:
    """How much the inputs of two calls differ."""
    return len(_different(before, now))


def of_arguments(words: Mapping[str, str]) -> dict[str, str]:
    """Words about what arguments lead to alone."""
    return {path: text for path, text in words.items() if path.startswith(("args", "kwargs"))}


def of_places(text: str, positions: Sequence[int], path_of: Callable[[int], str]) -> str:
    """Words about a recording, with the places of its arguments, after which there are gradients."""
    def place(found: re.Match[str]) -> str:
        number = int(found[1])
        return path_of(positions[number]) if number < len(positions) else "a gradient"

    return re.sub(r"\bargument (\d+)", place, text)


def at_line() -> str:
    """Where the user's program stands, in words."""
    line = core.user_line()
    return "" if line is None else f" at {line[0]}:{line[1]}"


def only_differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """The paths of all that differs, but for numbers of elements and values of constants, which may; none if that is
    much."""
    paths = [path for path in _different(before, now)
             if _without_values(before.get(path, "")) != _without_values(now.get(path, ""))]
    return paths if len(paths) <= _MOST_DIFFERENCES else []


def _without_values(words: str) -> str:
    """The words for an array without what differs between arrays for which one recording may be good."""
    return _VALUES.sub("", _ELEMENTS.sub(r"\1]", words))


def parameter_at(function: Callable[..., Any], tree: Any, path: str) -> str | None:
    """The name of the parameter that an argument is for, if that is a number with a fraction."""
    found = re.fullmatch(r"args\[(\d+)\]|kwargs\['(\w+)'\]", path)
    if found is None:
        return None
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    name: str | None = found[2]
    if name is None:
        number = int(found[1])
        names = [each.name for each in parameters.values() if each.kind in _POSITIONAL]
        value = tree[0][number] if number < len(tree[0]) else None
        name = names[number] if number < len(names) else None
    else:
        value = tree[1].get(name)
    return name if type(real_number(value)) is float and name in parameters else None
