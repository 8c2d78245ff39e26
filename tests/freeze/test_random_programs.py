"""Random programs, frozen and not: equal results over calls with other sizes, values, aliases, types and state.

On the backend that launches nothing, what is there besides contents is equal, and a replay launches what its recording
has launched.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit_core as core
from drjit.llvm import ad
from drjit_core import on_backend
from tests.freeze.programs import KINDS, Case

CALLS = 8
#: What is said where contents are looked at while there are none.
REFUSALS = "is being recorded, and looks at", "the null backend launches nothing"


def leaves_of(array: Any) -> list[Any]:
    """The flat arrays that an array consists of."""
    return [leaf for entry in array for leaf in leaves_of(entry)] if array._depth > 0 else [array]


class Seen:
    """What can be seen of the values of a call: types, sizes, shapes, contents, and which are the same."""

    def __init__(self, contents: bool) -> None:
        self.contents = contents
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []

    def of(self, value: Any) -> Any:
        if value is None or isinstance(value, int | float | str | bool | type) or callable(value):
            return value
        if id(value) in self._numbers:
            return "again", self._numbers[id(value)]
        self._numbers[id(value)] = len(self._alive)
        self._alive.append(value)
        name = type(value).__name__
        if isinstance(value, dr.ArrayBase):
            shape = value.shape if value._depth < 0 else [len(leaf) for leaf in leaves_of(value)]
            found = name, shape, dr.grad_enabled(value)
            return (*found, *[leaf.numpy() for leaf in leaves_of(dr.detach(value))]) if self.contents else found
        if isinstance(value, list | tuple):
            return name, [self.of(entry) for entry in value]
        if isinstance(value, dict):
            return name, [(key, self.of(entry)) for key, entry in value.items()]
        return name, [(key, self.of(entry)) for key, entry in vars(value).items()]


#: Addresses are larger, on the backend that launches nothing as well as in this process.
_ADDRESSES = 1 << 40


def launched(first: int) -> list[Any]:
    """What the backend that launches nothing has been given since: kernels, widths, and parameters but for addresses
    (and what looks like these)."""
    return [(launch.kernel.hash, launch.width, launch.single, launch.block, [
        -1 if word >= _ADDRESSES else word for word in launch.parameters])
        for launch in core.state.backend.launches[first:]]


def calls(case: Case, function: Any, seed: int, contents: bool = True, launches: list[Any] | None = None,
          shaken: int = 0) -> list[Any]:
    """What is seen after each call of a function, and which exceptions are raised; and what each has launched."""
    source, found = random.Random(seed), []
    kinds = [source.random() for _ in range(3)]
    for _ in range(CALLS):
        like = random.Random(source.choice(kinds))
        given = case.given(like, source)
        if shaken:
            given = _shaken(given, shaken)
        variables: dict[int, Any] = {}
        for array in given.values():
            if isinstance(array, dr.ArrayBase) and dr.is_float_v(array) and not dr.is_half_v(array) and (
                    like.random() < 0.4 or id(array) in variables):
                variables.setdefault(id(array), array)
        dr.enable_grad(list(variables.values()))
        # What is changed in place is another variable then.
        copies = {key: type(array)(array) for key, array in variables.items()}
        given = {name: copies.get(id(value), value) for name, value in given.items()}
        tracked, seeds = list(variables.values()), source.random()
        if launches is not None:
            dr.eval()  # gradients that are scheduled, which this call would launch
        first = 0 if launches is None else len(core.state.backend.launches)
        try:
            result = function(**given)
            if launches is not None:
                launches.append(launched(first))
        except Exception as error:
            found.append(raised(error))
            if any(words in found[-1][1] for words in REFUSALS):
                return found
            case.lasting.clear()  # a frozen function has changed nothing then
            continue
        seen = Seen(contents)
        found.append([seen.of(result), seen.of(given)])
        try:
            found.append(gradients(result, tracked, seeds, contents))
        except Exception as error:
            found.append(raised(error))
        dr.disable_grad(tracked)
    return found


def raised(error: Exception) -> tuple[str, str]:
    """What a program can know of an exception."""
    return next(cls.__name__ for cls in type(error).__mro__ if cls.__module__ == "builtins"), str(error)


def gradients(result: Any, tracked: list[Any], seed: float, contents: bool) -> Any:
    """The gradients of what was given, or the changes of the results."""
    leaves = _followed(result)
    if not tracked or not leaves:
        return None
    if seed < 0.7:
        for number, leaf in enumerate(leaves):
            dr.set_grad(leaf, type(leaf)(0.5 + number))
        dr.enqueue(dr.ADMode.Backward, leaves)
        dr.traverse(dr.ADMode.Backward, dr.ADFlag.ClearInterior)  # some are what was given, and keep what they have
        ends = tracked
    else:
        for array in tracked:
            dr.set_grad(array, type(array)(1))
        dr.enqueue(dr.ADMode.Forward, tracked)
        dr.traverse(dr.ADMode.Forward, dr.ADFlag.ClearNone)  # results that others are computed of have changes, too
        ends = leaves
    seen = Seen(contents)
    return Gradients([seen.of(dr.grad(array)) for array in ends])


class Gradients(list[Any]):
    """What is seen of gradients."""


def certain(one: Gradients, other: Gradients, *shaken: list[Gradients]) -> tuple[Gradients, Gradients]:
    """Gradients without what the last digits of what was given decide: where two differ by no more than either of them
    does if these are others, or where these change them a thousand times as much."""
    found = Gradients(), Gradients()
    for first, second, *more in zip(one, other, *(zip(*runs, strict=True) for runs in shaken), strict=True):
        parts = []
        for a, b, *others in zip(first, second, *(zip(*runs, strict=True) for runs in more), strict=True):
            if isinstance(a, np.ndarray) and a.shape == b.shape:
                with np.errstate(all="ignore"):
                    spread = np.max([np.ptp(np.stack([own, *runs]).astype(np.float64), axis=0)
                                     for own, runs in zip((a, b), others, strict=True)], axis=0)
                    same = ~(np.abs(a - b) > 8 * spread) | (spread > 4e3 * np.finfo(a.dtype).eps * np.abs(a))
                    a, b = (np.where(same, 0, each) for each in (a, b))
            parts.append((a, b))
        for place, each in enumerate(found):
            each.append(tuple([pair[place] for pair in parts]))
    return found


def comparable(number: int, call: int, first: Any, second: Any) -> tuple[Any, Any]:
    """What two calls of a program, the second one frozen, have given, without what the last digits of what these were
    given decide."""
    kind, seed = case_of(number)
    if kind != "expressions" or not isinstance(first, Gradients) or not difference(first, second):
        return first, second
    runs: list[list[Gradients]] = [[], []]
    for shaken in range(1, 5):
        for found, wrap in zip(runs, (lambda function: function, dr.freeze), strict=True):
            case = KINDS[kind][0](seed)
            found.append(calls(case, wrap(case.function), seed, shaken=shaken)[call])
    return certain(first, second, *runs)


def _shaken(given: dict[str, Any], seed: int) -> dict[str, Any]:
    """What is given, with other last digits."""
    source = np.random.default_rng(seed)

    def other(array: Any) -> Any:
        if array._depth > 0:
            return type(array)(*map(other, array))
        flat = array.array if array._depth < 0 else array
        flat = flat * (1 + dr.epsilon(flat) * type(flat)(source.choice((-2, -1, 1, 2), len(flat))))
        return type(array)(flat, array.shape) if array._depth < 0 else flat

    found = {id(value): other(value) for value in given.values() if isinstance(
        value, dr.ArrayBase) and dr.is_float_v(value) and not dr.is_half_v(value)}
    return {name: found.get(id(value), value) for name, value in given.items()}


def _followed(value: Any) -> list[Any]:
    """The arrays among results that have derivatives."""
    if isinstance(value, dr.ArrayBase):
        return [value] if dr.is_float_v(value) and dr.grad_enabled(value) else []
    if isinstance(value, dict):
        value = list(value.values())
    return [array for entry in value for array in _followed(entry)] if isinstance(value, list | tuple) else []


def difference(one: Any, other: Any, path: str = "") -> str:
    """What differs between two things that were seen; empty if nothing does."""
    if type(one) is not type(other):
        return f"{path}: {one!r:.300} and {other!r:.300}"
    if isinstance(one, np.ndarray):
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"{path}: {one.dtype}{one.shape} and {other.dtype}{other.shape}"
        wrong = ~_near(one, other)
        return f"{path}: {one[wrong].ravel()[:5]} and {other[wrong].ravel()[:5]} at " \
               f"{np.argwhere(wrong)[:5].tolist()} of {one.shape}" if wrong.any() else ""
    if isinstance(one, list | tuple) and len(one) == len(other):
        return next((found for place, (first, second) in enumerate(zip(one, other, strict=True))
                     if (found := difference(first, second, f"{path}[{place}]"))), "")
    return "" if one == other or one != one and other != other else f"{path}: {one!r:.300} and {other!r:.300}"


def _near(one: Any, other: Any) -> Any:
    if one.dtype.kind not in "fc":
        return one == other
    precision = 2e-2 if one.dtype == np.float16 else 2e-4
    with np.errstate(all="ignore"):
        scale = np.abs(one[np.isfinite(one)]).max(initial=0.2)  # of what cancels, less may be left
        return np.isclose(one, other, precision, 0, equal_nan=True) | (np.abs(one - other) <= precision * scale)


def case_of(number: int) -> tuple[str, int]:
    """The kind and the seed of a program."""
    place = number * 37 % 100
    for kind, (_, share) in KINDS.items():
        if place < share:
            return kind, number
        place -= share
    raise AssertionError


@contextmanager
def nothing_launched() -> Iterator[None]:
    """On the backend that launches nothing, in the place of that of the types."""
    with on_backend("null") as null:
        null.where = dr.backend_v(ad.Float).value
        yield


def without_contents(seen: Any) -> Any:
    """What is seen where there are no contents, of what is seen where there are."""
    if isinstance(seen, list | tuple):
        kept = [without_contents(entry) for entry in seen if not isinstance(entry, np.ndarray)]
        return Gradients(kept) if isinstance(seen, Gradients) else type(seen)(kept)
    return seen


def compare(number: int) -> str:
    """Compare a program that is frozen with one that is not, on both backends; returns what has come of it.

    What is there besides contents follows from the program that is not frozen, with contents: on the backend that has
    none it may write an element of an array at once, where the frozen one has a kernel do so.
    """
    kind, seed = case_of(number)
    make = KINDS[kind][0]
    one = make(seed)
    expected = calls(one, one.function, seed)
    what = ""
    for contents in True, False:
        case = make(seed)
        frozen = dr.freeze(case.function)
        with nullcontext() if contents else nothing_launched():
            found = calls(case, frozen, seed, contents)
        refused = bool(found) and isinstance(found[-1], tuple) and any(words in found[-1][1] for words in REFUSALS)
        what = what or ("refused" if refused else f"{frozen.n_recordings} recordings")
        for call, (first, second) in enumerate(zip(expected, found[:-1] if refused else found, strict=not refused)):
            if isinstance(second, tuple) and any(words in second[1] for words in REFUSALS):
                continue  # there is no derivative in this mode
            first, second = comparable(number, call, first, second) if contents else (without_contents(first), second)
            if isinstance(first, tuple) and isinstance(second, tuple):  # which function the user has called may differ
                assert first[1].partition("(): ")[2] in second[1] and first[0] == second[0], (first, second)
                continue
            found_different = difference(first, second)
            assert not found_different, \
                f"program {number} ({kind}), contents {contents}, event {call}{found_different}\n{one.text}"
    return what


def sizes_of(key: dict[str, str]) -> int:
    """How many sizes the arrays of a call have, by the words for these."""
    return len({size for words in key.values() for size in re.findall(r"\[(\d+)\]", words)})


def compare_launches(number: int) -> int:
    """Compare what replays launch with what recordings of the same calls do; returns how many replays there were.

    A recording launches derivatives as well, behind the results; so do calls where sizes differ for the first time,
    which are recorded to be compared. What turns out not to be good for the derivatives of a call has been launched in
    vain, and the call is recorded. One that was recorded for several sizes launches a kernel for each, also where these
    happen to be one.
    """
    kind, seed = case_of(number)
    one, other = KINDS[kind][0](seed), KINDS[kind][0](seed)
    replaying, recording = (dr.freeze(case.function, dynamic=None, auto_opaque=False) for case in (one, other))

    used: list[Any] = []
    made: list[Any] = []
    totals = [0]

    def replayed(**given: Any) -> Any:
        result = replaying(**given)
        used.append(replaying.recordings[0])
        totals.append(replaying.n_recordings)
        return result

    def recorded(**given: Any) -> Any:
        recording.clear()
        result = recording(**given)
        made.append(recording.recordings[0])
        return result

    found: list[Any] = []
    expected: list[Any] = []
    with nothing_launched():
        variable = ad.Float(1)  # with one, programs are traced with copies that have vertices of their own
        dr.enable_grad(variable)
        calls(one, replayed, seed, False, found)
        calls(other, recorded, seed, False, expected)
    replays = 0
    for call, (live, anew) in enumerate(zip(found, expected, strict=False)):
        if live == anew or totals[call + 1] > totals[call] and live[len(live) - len(anew):] == anew:
            continue
        launches = used[call].launches
        first = len(live) - launches  # before, inputs are evaluated
        if len(anew) < len(live) and live[:first] == anew[:first] and \
                sizes_of(made[call].key) < sizes_of(used[call].key):
            replays += 1
            continue
        again = live[len(anew):] if live[:len(anew)] == anew else live
        places = range(len(anew) - len(again) + 1) if bool(again) == bool(launches) else (0,)  # evaluates inputs
        assert any(again == anew[first:first + len(again)] for first in places), \
            f"program {number} ({kind}), call {call}: launches differ\n{live}\n{anew}\n{one.text}"
        replays += 1
    return replays


def compare_saved(number: int, path: str) -> int:
    """Compare a program with one that has been saved and loaded; returns how many of its calls that has served for, or
    -1 if it cannot be saved."""
    kind, seed = case_of(number)
    make = KINDS[kind][0]
    one, other, third = make(seed), make(seed), make(seed)
    frozen = dr.freeze(other.function)
    calls(other, frozen, seed)
    try:
        frozen.save(path)
    except RuntimeError as error:
        assert "() cannot be saved: " in str(error), error
        return -1
    loaded = dr.load_frozen(path)
    served = 0

    def function(**given: Any) -> Any:
        nonlocal served
        if "would raise" in loaded.explain(**given):
            return third.function(**given)
        served += 1
        return loaded(**given)

    expected, found = calls(one, one.function, seed), calls(third, function, seed)
    for call, (first, second) in enumerate(zip(expected, found, strict=True)):
        if isinstance(second, tuple) and ("is being recorded" in second[1] or "loaded from a file" in second[1]):
            continue
        first, second = comparable(number, call, first, second)
        if isinstance(first, tuple) and isinstance(second, tuple):
            continue
        found_different = difference(first, second)
        assert not found_different, f"program {number} ({kind}), event {call}{found_different}\n{one.text}"
    return served


def check(number: int) -> str:
    """Compare a program with itself on both backends; returns what has come of it."""
    what = compare(number)
    compare_launches(number)
    return what


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_random_programs(first: int) -> None:
    for number in range(first, first + 10):
        check(number)


@pytest.mark.parametrize("number", [1024, 1117, 1362, 1447, 1543, 1838, 1861, 3078, 3281, 3387, 4172])
def test_programs_that_have_failed(number: int) -> None:
    check(number)


@pytest.mark.parametrize("number", [3, 17, 40, 58])
def test_programs_that_are_saved(number: int, tmp_path: Any) -> None:
    compare_saved(number, str(tmp_path / "program"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(1000, 6000, 50))
def test_many_random_programs(first: int) -> None:
    for number in range(first, first + 50):
        check(number)
