"""Random programs of NumPy calls: views, writes, reductions, sorting, ties, empty arrays and those without axes.

A seed is a program. It runs on NumPy and on `drjit.numpy`, statement by statement, on arrays that share memory in the
one where they do in the other; all that is there is compared in the end. `python -m tests.numpy.programs 0 20000` runs
the programs of a range of seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy

import drjit.array_api as xp
import drjit.numpy as dnp

from .test_random_calls import CALLS, CHANGES, SHAPES, TYPES, same

__all__ = ["Difference", "agree"]

#: What makes views, of which some are written to later.
VIEWS: dict[str, Callable[..., Any]] = {
    "rows": lambda np, x, y, i, j: x[i:], "columns": lambda np, x, y, i, j: x[..., ::2],
    "reversed": lambda np, x, y, i, j: x[::-1], "element": lambda np, x, y, i, j: x[..., i],
    "transposed": lambda np, x, y, i, j: x.T, "flat": lambda np, x, y, i, j: x.reshape(-1),
    "wider": lambda np, x, y, i, j: x[None], "ravelled": lambda np, x, y, i, j: np.ravel(x),
    "swapped": lambda np, x, y, i, j: np.swapaxes(x, i, j), "flipped": lambda np, x, y, i, j: np.flip(x),
    "parts": lambda np, x, y, i, j: np.array_split(x, 2)[1], "squeezed": lambda np, x, y, i, j: np.squeeze(x),
    "labels": lambda np, x, y, i, j: np.einsum("ij->ji", x), "real": lambda np, x, y, i, j: x.real,
    "copy": lambda np, x, y, i, j: x.copy(), "whole": lambda np, x, y, i, j: x[...]}
#: More changes of ``x``, by what is in ``y``.
WRITES: dict[str, Callable[..., Any]] = {
    **CHANGES, "part": lambda np, x, y, i, j: x.__setitem__((..., slice(i, None)), 3),
    "subtract": lambda np, x, y, i, j: x.__isub__(1), "part of it": lambda np, x, y, i, j: x[i:].__iadd__(x[:1]),
    "by mask": lambda np, x, y, i, j: x.__setitem__(x == i, j), "rolled": lambda np, x, y, i, j:
    x.__setitem__(..., np.roll(x, 1)), "sorted": lambda np, x, y, i, j: x.__setitem__(..., np.sort(x, axis=-1)),
    "where": lambda np, x, y, i, j: x.__setitem__(..., np.where(x > i, x, j)),
    "maximum": lambda np, x, y, i, j: np.maximum(x, i, out=x)}
#: NumPy's are read-only, or views of what ours are copies of, or lie in another order in memory.
_ALIASED = {"broadcast", "diagonal", "meshgrid", "cov", "argwhere"}
#: Operators in place, which make new numbers of arrays without axes here: those are scalars in NumPy, unless they are
#: made by functions that create arrays.
_IN_PLACE = {"add", "subtract", "row", "part of it"}


class Difference(AssertionError):
    """What a program has shown."""


def _made(rng: numpy.random.Generator, shape: tuple[int, ...]) -> Any:
    dtype = str(rng.choice(TYPES))
    values = rng.integers(0, 2 if dtype == "bool" else 5, shape)
    return numpy.asarray(values * 0.5 if dtype[0] == "f" else values).astype(dtype)


def _done(module: Any, step: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return step(module, *arguments)
    except (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError, NotImplementedError) as error:
        return error


def agree(seed: int) -> int:
    """Run the program of a seed, and raise a :class:`Difference` if there is one; how many statements were compared."""
    rng = numpy.random.default_rng(seed)
    shape = SHAPES[rng.integers(len(SHAPES))]
    theirs = [_made(rng, shape), _made(rng, shape if rng.random() < 0.6 else shape[1:])]
    ours = [dnp.array(array) for array in theirs]
    text, count = [f"x0 = {theirs[0]!r}, x1 = {theirs[1]!r}"], 0
    for _ in range(int(rng.integers(3, 12))):
        table = [CALLS, VIEWS, WRITES, WRITES][rng.integers(4)]
        name = str(rng.choice([*table]))
        a, b, i, j = int(rng.integers(len(theirs))), int(rng.integers(len(theirs))), *map(int, rng.integers(-2, 3, 2))
        text.append(f"{name}(x{a}, x{b}, {i}, {j})")
        if table is WRITES and (not theirs[a].flags.writeable or name in _IN_PLACE and not theirs[a].ndim):
            continue
        with numpy.errstate(all="ignore"):
            expected = _done(numpy, table[name], theirs[a], theirs[b], i, j)
        found = _done(dnp, table[name], ours[a], ours[b], i, j)
        if isinstance(expected, Exception) or isinstance(found, Exception):
            if isinstance(expected, Exception) and table is not WRITES:
                continue
            if isinstance(expected, Exception) and isinstance(found, Exception):
                return count  # NumPy may have written to some elements
            if _stricter(expected, found, theirs[a], theirs[b], table is WRITES):
                return count
            raise Difference(f"seed {seed}: {found!r} and not {expected!r}: {'; '.join(text)}")
        count += 1
        try:
            if table is not WRITES:
                same(found, expected)
                if isinstance(expected, numpy.ndarray) and expected.size < 200 and name not in _ALIASED and \
                        str(expected.dtype) in TYPES:
                    theirs.append(expected)
                    ours.append(found)
            for mine, other in zip(ours, theirs, strict=True):
                same(mine, other)
        except AssertionError as error:
            raise Difference(f"seed {seed}: {error}: {'; '.join(text)}") from None
    return count


def _stricter(expected: Any, found: Any, x: Any, y: Any, writes: bool) -> bool:
    """Whether what NumPy does is refused here for a reason, or the other way round; the program ends there."""
    if isinstance(expected, Exception):
        return not x.size or not y.size or isinstance(expected, TypeError)
    if isinstance(found, TypeError):  # truth values as numbers, inexact assignments
        return "bool" in {str(x.dtype), str(y.dtype)} or "assigned" in str(found) or "in place" in str(found) or writes
    return isinstance(found, OverflowError) and "uint8" in {str(x.dtype), str(y.dtype)} or not x.ndim or not y.ndim or \
        isinstance(found, NotImplementedError)


def main() -> int:
    """Run the programs of a range of seeds."""
    first, last = int(sys.argv[1]), int(sys.argv[2])
    xp.policy.eager = int(sys.argv[3]) if len(sys.argv) > 3 else xp.policy.eager
    wrong = total = 0
    for seed in range(first, last):
        try:
            total += agree(seed)
        except Difference as difference:
            wrong += 1
            print(difference, flush=True)
    print(f"{last - first} programs, {total} statements: {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
