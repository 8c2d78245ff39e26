"""What may differ between this project and Dr.Jit's wheel in a random step, and why; see ``random_peer.py``.

Differences of values are explained element by element, by :data:`RULES`. *Rounding* is judged by a bound: of a function
of one number by the errors that ``docs/accuracy.md`` states (for both sides), or by its exact value, computed with
mpmath; of a function of several numbers by what changing its operands in the last place does to the result. The other
rules are about special values. All else (exceptions, types, shapes, texts) is explained by rows of a table,
:data:`TABLE`, with predicates that are as narrow as they can be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mpmath
import numpy as np
from random_peer_worker import run_step
from random_programs.operations import ROWS, accepts
from random_programs.programs import Info, Raised, Step, Value, extract, info_of

import drjit as dr
from drjit import llvm

__all__ = ["RULES", "TABLE", "Difference", "classify", "explain", "values_agree"]

ACCURACY = Path(__file__).resolve().parent.parent / "docs" / "accuracy.md"
Array = np.ndarray[Any, Any]


class Difference(NamedTuple):
    """A step whose outcome differs.

    ``kind`` says in what: ``crashed``, ``raised here``, ``raised there``, ``type``, ``shape``,
    ``value``, or ``text``. ``mine`` and ``theirs`` are values, messages, or texts.
    """

    seed: int
    step: Step
    operands: dict[str, Value]
    kind: str
    mine: Any
    theirs: Any

    @property
    def first(self) -> Info:
        """The type of the first operand."""
        return info_of(self.operands[self.step.uses[0]].type)

    @property
    def infos(self) -> list[Info]:
        """The types of all operands."""
        return [info_of(value.type) for value in self.operands.values()]

    def parts(self) -> Iterator[tuple[Array, Array]]:
        """Components of both results, broadcast to one size."""
        for a, b in zip(self.mine.parts, self.theirs.parts, strict=True):
            yield np.broadcast_arrays(np.atleast_1d(a), np.atleast_1d(b))  # type: ignore[misc]


# --- equality --------------------------------------------------------------------------------------------------------


def _equal(a: Array, b: Array) -> Array:
    """Elements with the same bits; all NaNs are alike."""
    if a.dtype.kind != "f":
        return a == b
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


def values_agree(a: Value, b: Value) -> bool:
    """Whether two values of one type are equal bit by bit, where components of one element go with any width."""
    return all(_equal(*np.broadcast_arrays(np.atleast_1d(x), np.atleast_1d(y))).all()
               for x, y in zip(a.parts, b.parts, strict=True))


# --- rounding --------------------------------------------------------------------------------------------------------


def _documented() -> dict[tuple[str, str], float]:
    """The largest error of a function, here and of the wheel, by its name and ``f`` or ``f64``."""
    bounds: dict[tuple[str, str], float] = {}
    scalar = ""
    for line in ACCURACY.read_text("utf-8").splitlines():
        if line.startswith("## "):
            scalar = "f" if "Single" in line else "f64"
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 8 or not cells[1].startswith("`"):
            continue
        errors = sum(float(cell.split("/")[1]) for cell in cells[6:8] if "/" in cell)
        name = cells[1].strip("`")
        bounds[name, scalar] = max(bounds.get((name, scalar), 0), errors)
    return bounds


BOUNDS = _documented()
_TRIGONOMETRIC = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh")
#: Functions of one number, and their exact meaning.
EXACT: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(mpmath, name) for name in (*_TRIGONOMETRIC, "cot", "exp", "erf", "erfc", "erfinv")},
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "log": mpmath.log, "log2": lambda x: mpmath.log(x) / mpmath.log(2), "exp2": lambda x: mpmath.power(2, x),
    "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))), "rcp": lambda x: 1 / x, "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "safe_asin": lambda x: mpmath.asin(max(-1, min(1, x))), "safe_acos": lambda x: mpmath.acos(max(-1, min(1, x))),
    "sincos[0]": mpmath.sin, "sincos[1]": mpmath.cos, "sincosh[0]": mpmath.sinh, "sincosh[1]": mpmath.cosh,
    "rad2deg": lambda x: x * 180 / mpmath.pi, "deg2rad": lambda x: x * mpmath.pi / 180,
}
_ALIASES = {"safe_asin": "asin", "safe_acos": "acos", "sincos[0]": "sin", "sincos[1]": "cos", "sincosh[0]": "sinh",
            "sincosh[1]": "cosh"}
#: Bounds of what the page does not list; of the error here alone.
_OTHERS = {"lgamma": 6.0, "rcp": 1.0, "rsqrt": 2.0, "rad2deg": 1.0, "deg2rad": 1.0, "cbrt": 1.0, "erfc": 8.0}
#: Functions of several numbers, or of several roundings.
COMPOUND = frozenset((
    "**", "/", "/=", "@", "*", "*=", "abs", "dr.power", "dr.hypot", "dr.atan2", "dr.lerp", "dr.fma", "dr.mean",
    "dr.sum", "dr.prod", "dr.dot", "dr.abs_dot", "dr.squared_norm", "dr.norm", "dr.normalize", "dr.cross",
    "dr.unit_angle", "dr.det", "dr.trace", "dr.inverse", "dr.frob", "dr.matmul", "dr.quat_to_matrix",
    "dr.quat_to_euler", "dr.matrix_to_quat", "dr.slerp", "dr.quat_apply", "dr.arg", "dr.abs"))
_SPECIAL = ("complex", "quaternion", "matrix")


def _function(step: Step) -> str:
    """The name of a function of one number; the empty string for others."""
    match = re.fullmatch(r"v\d+ = dr\.(\w+)\(v\d+\)(\[[01]\])?", step.text)
    return match[1] + (match[2] or "") if match else ""


def _within_bounds(d: Difference) -> list[Array] | None:
    """Elements of a function of one number that are as accurate as stated."""
    name = _function(d.step)
    if name not in EXACT or d.first.kind in _SPECIAL:
        return None
    bound = _bound(name, d.first.scalar)
    found = []
    for x, (a, b) in zip(d.operands[d.step.uses[0]].parts, d.parts(), strict=True):
        x = np.broadcast_to(x, a.shape)
        near = np.abs(a.astype(float) - b.astype(float)) <= 2 * bound * np.spacing(np.abs(a)).astype(float)
        found.append(near & np.isfinite(a) & np.isfinite(b))
    return found


def _bound(name: str, scalar: str) -> float:
    """The sum of the errors of both sides, in units of the last place."""
    if scalar == "f16":
        return 1.0
    return max(BOUNDS.get((_ALIASES.get(name, name), scalar), 0.0), _OTHERS.get(name, 0.0))


def _exact(d: Difference) -> list[Array] | None:
    """Elements of a function of one number for which this project has the exact value, within its error."""
    name = _function(d.step)
    if name not in EXACT or d.first.kind in _SPECIAL:
        return None
    found = []
    for x, (a, b) in zip(d.operands[d.step.uses[0]].parts, d.parts(), strict=True):
        x, right = np.broadcast_to(x, a.shape), np.zeros(a.shape, bool)
        for k in np.flatnonzero(~_equal(a, b)):
            truth = _truth(EXACT[name], x[k])
            if truth is None:
                continue
            rounded = a.dtype.type(float(truth))
            ulp = float(np.spacing(max(abs(rounded), abs(a[k])))) if np.isfinite(rounded) else 0.0
            if name == "lgamma" and x[k] < 0:  # an absolute error, near the zeros
                ulp = max(ulp, 4 * float(np.finfo(a.dtype).eps))
            right[k] = rounded == a[k] or abs(float(a[k]) - float(rounded)) <= _bound(name, d.first.scalar) * ulp
        found.append(right)
    return found


def _truth(function: Callable[[Any], Any], x: Any) -> Any:
    if not np.isfinite(x):
        return None
    with mpmath.workprec(200):
        try:
            result = function(mpmath.mpf(float(x)))
        except (ValueError, ZeroDivisionError, OverflowError):
            return None
        return result if isinstance(result, mpmath.mpf) else None


def _neighbour(part: Any, rng: np.random.Generator) -> Any:
    """Numbers moved by at most two places."""
    if not isinstance(part, np.ndarray) or part.dtype.kind != "f":
        return part
    moved = part
    for _ in range(2):
        target = np.array(np.inf * rng.choice([-1, 1], part.shape), part.dtype)
        moved = np.where((part == 0) | ~np.isfinite(part), part, np.nextafter(moved, target))
    return moved


def _within_perturbation(d: Difference) -> list[Array] | None:
    """Elements that differ by no more than operands that differ in the last place would make them."""
    if d.step.op not in COMPOUND and d.first.kind not in _SPECIAL or info_of(d.mine.type).letter != "f":
        return None
    rng = np.random.default_rng(d.seed)
    pairs = [(a.astype(float), b.astype(float)) for a, b in d.parts()]
    spreads = [np.zeros(a.shape) for a, _ in pairs]
    for _ in range(8):
        moved = {name: value._replace(parts=tuple(_neighbour(part, rng) for part in value.parts))
                 for name, value in d.operands.items()}
        result = run_step(d.step, moved, dr, llvm)
        if isinstance(result, Raised):
            return None
        for k, (part, (a, _)) in enumerate(zip(extract(result).parts, pairs, strict=True)):
            spreads[k] = np.fmax(spreads[k], np.abs(np.atleast_1d(part).astype(float) - a))
    # The components of a vector share one error.
    largest: Any = 0.0
    if d.first.kind in _SPECIAL or d.step.op in _VECTORS:
        for a, _ in pairs:
            largest = np.fmax(largest, np.where(np.isfinite(a), np.abs(a), 0.0))
    limits = np.finfo(np.float64 if d.mine.type == "float" else info_of(d.mine.type).dtype)
    factor = 64 if d.first.kind == "matrix" else 8  # inverses by cofactors lose more
    return [np.abs(a - b) <= factor * spread + 16 * np.fmax(np.fmax(np.abs(a), largest) * float(limits.eps),
                                                       float(limits.smallest_subnormal))
            for spread, (a, b) in zip(spreads, pairs, strict=True)]


def _wider(d: Difference) -> list[Array] | None:
    """Elements that are nearly equal, the one here closer to the result in double precision."""
    if d.step.op not in COMPOUND and d.first.kind not in _SPECIAL or info_of(d.mine.type).scalar not in ("f", "f16"):
        return None
    operands = {}
    for name, value in d.operands.items():
        info = info_of(value.type)
        operands[name] = value if info.letter != "f" or info.kind == "python" else value._replace(
            type=info.over("f64"), parts=tuple(part.astype(float) for part in value.parts))
    text = re.sub(r"T\.(\w+)", lambda match: "T." + info_of(match[1]).over("f64"), d.step.text)
    if any(getattr(llvm, value.type, None) is None for value in operands.values()):
        return None
    result = run_step(d.step._replace(text=text), operands, dr, llvm)
    if isinstance(result, Raised):
        return None
    found = []
    for part, (a, b) in zip(extract(result).parts, d.parts(), strict=True):
        exact, mine, theirs = np.atleast_1d(part).astype(float), a.astype(float), b.astype(float)
        found.append((np.abs(mine - theirs) <= 0.01 * np.abs(exact)) & (np.abs(mine - exact) <= np.abs(theirs - exact)))
    return found


# --- special values --------------------------------------------------------------------------------------------------


def _flags(d: Difference, test: Callable[[Array], Array]) -> list[Array]:
    """For all elements of the results, whether an operand has an element in the same lane that satisfies a test."""
    with np.errstate(all="ignore"):
        hits = [test(part) for value in d.operands.values() for part in value.parts
                if isinstance(part, np.ndarray) and part.dtype.kind == "f"]
    found = []
    for a, _ in d.parts():
        flag = np.zeros(a.shape, bool)
        for hit in hits:
            flag |= hit if hit.size in (1, a.size) else hit.any()
        found.append(flag)
    return found


def _both(*lists: list[Array]) -> list[Array]:
    return [np.logical_and.reduce(arrays) for arrays in zip(*lists, strict=True)]


def _pairwise(d: Difference, test: Callable[[Array, Array], Array]) -> list[Array]:
    return [test(a, b) for a, b in d.parts()]


def _tiny(part: Array) -> Array:
    """Denormal numbers; those of half precision are no matter."""
    return (part != 0) & (np.abs(part) < np.finfo(part.dtype).smallest_normal) & (part.dtype.itemsize > 2)


def _square_underflows(part: Array) -> Array:
    return (part != 0) & (np.abs(part) < np.sqrt(np.finfo(part.dtype).smallest_normal))


def _denormal(d: Difference) -> list[Array] | None:
    numbers = [float(text) for text in re.findall(r"(?<!\w)\d\.?\d*e-\d+", d.step.text)]
    smallest = float(np.finfo(d.first.dtype).smallest_normal) if d.first.letter == "f" else 0.0
    if any(0 < number < smallest for number in numbers):
        return _pairwise(d, lambda a, b: np.ones(a.shape, bool))
    operands = _flags(d, _square_underflows if d.step.op in COMPOUND or d.first.kind in _SPECIAL else _tiny)
    if info_of(d.mine.type).letter != "f":
        return operands
    results = _pairwise(d, lambda a, b: (_tiny(a) | (a == 0)) & (_tiny(b) | (b == 0)))
    return [x | y for x, y in zip(operands, results, strict=True)]


def _nan_unequal(d: Difference) -> list[Array] | None:
    if d.step.op != "!=":
        return None
    lost = _pairwise(d, lambda a, b: a & ~b)
    return lost if re.search(r"\bnan\b", d.step.text) else _both(_flags(d, np.isnan), lost)


def _nan_lost(d: Difference) -> list[Array] | None:
    if info_of(d.mine.type).letter != "f":
        return None
    return _both(_flags(d, np.isnan), _pairwise(d, lambda a, b: np.isnan(a) & ~np.isnan(b)))


def _nan_to_mask(d: Difference) -> list[Array] | None:
    if d.step.op not in ("convert", "construct") or info_of(d.mine.type).letter != "b":
        return None
    return _flags(d, np.isnan)


def _nothing_but_nan(d: Difference) -> list[Array] | None:
    if d.step.op not in ("dr.min", "dr.max"):
        return None
    return _pairwise(d, lambda a, b: np.isinf(a) & np.isnan(b))


def _reversed_bounds(d: Difference) -> list[Array] | None:
    if d.step.op != "dr.clip":
        return None
    return _pairwise(d, lambda a, b: a > b)


def _not_finite(d: Difference) -> list[Array] | None:
    if (d.step.op not in COMPOUND and d.first.kind not in _SPECIAL) or info_of(d.mine.type).letter != "f":
        return None
    return _pairwise(d, lambda a, b: ~(np.isfinite(a) & np.isfinite(b)))


def _overflow(d: Difference) -> list[Array] | None:
    """Lanes whose products over- or underflow although the result does not; quotients by the sum of the squares
    of up to four components, whose reciprocal is denormal, included."""
    if (d.step.op not in COMPOUND and d.first.kind not in _SPECIAL) or info_of(d.mine.type).letter != "f":
        return None
    power = d.first.shape[0] if d.first.kind == "matrix" and d.step.op not in ("*", "@", "dr.matmul") else 2

    def test(part: Array) -> Array:
        limits, size = np.finfo(part.dtype), np.abs(part.astype(float))
        low = float(limits.smallest_normal) ** (1 / power)
        most = 0.25 / float(limits.smallest_normal) if d.step.op in ("/", "/=") else float(limits.max)
        return (size > most ** (1 / power)) | ((size != 0) & (size < low) & (part.dtype.itemsize == 2))

    return _flags(d, test)


def _ill_conditioned(d: Difference) -> list[Array] | None:
    """Elements of inverses and determinants that are as near as cancellation in the determinant allows."""
    matrix = d.operands[d.step.uses[-1]]
    info = info_of(matrix.type)
    if info.kind != "matrix" or d.step.op not in ("dr.det", "dr.rcp", "dr.inverse", "/", "/=", "**"):
        return None
    n, entries = info.shape[0], np.stack(np.broadcast_arrays(*matrix.parts)).astype(float)
    entries = entries.reshape(n, n, -1, entries.shape[-1]).transpose(2, 3, 0, 1)
    norms = np.linalg.norm(entries, axis=-1)
    bound = norms.prod(-1)  # Hadamard's
    determinant = np.abs(np.linalg.det(entries))
    loss = np.fmax.reduce(64 * float(np.finfo(info.dtype).eps) * bound / determinant)  # matrices of NaN aside
    largest: Any = 0.0
    for a, b in d.parts():
        largest = np.fmax(largest, np.fmax(np.abs(a), np.abs(b)))
    if d.first.kind == "matrix" and d.step.op in ("/", "/="):  # products with inverses, whose terms may cancel
        inverse = np.fmax.reduce(bound / norms.min(-1) / determinant)
        terms = n * inverse * np.fmax.reduce(np.broadcast_arrays(*map(np.abs, d.operands[d.step.uses[0]].parts)))
        largest = np.fmax(largest, terms if terms.size == largest.size else np.nanmax(terms))
    loss = loss if loss.size == largest.size else loss.max()
    return _pairwise(d, lambda a, b: np.abs(a.astype(float) - b.astype(float)) <= loss * largest)


def _converted(d: Difference) -> list[Array] | None:
    if d.step.op != "convert" or not _depths_differ(d):
        return None
    return _pairwise(d, lambda a, b: np.ones(a.shape, bool))


def _undefined(d: Difference) -> list[Array] | None:
    return _pairwise(d, lambda a, b: np.ones(a.shape, bool)) if _is_undefined(d) and d.first.kind in _SPECIAL else None


def _near_lock(d: Difference) -> list[Array] | None:
    """Lanes whose second Euler angle is nearly a right one."""
    if d.step.op != "dr.quat_to_euler":
        return None
    near = np.abs(np.abs(d.mine.parts[1].astype(float)) - np.pi / 2) < 2e-2
    return [np.broadcast_to(near, a.shape) for a, _ in d.parts()]


def _full_turn(d: Difference) -> list[Array] | None:
    """Angles that are pi on one side and -pi on the other."""
    if d.step.op not in ("dr.quat_to_euler", "dr.arg", "dr.atan2"):
        return None
    return _pairwise(d, lambda a, b: np.abs(np.abs(a.astype(float) - b.astype(float)) - 2 * np.pi) < 0.01)


def _unsigned_weight(d: Difference) -> list[Array] | None:
    if d.step.op != "dr.lerp" or all(info.letter != "u" for info in d.infos):
        return None
    return _pairwise(d, lambda a, b: np.ones(a.shape, bool))


def _exact_special(d: Difference) -> list[Array] | None:
    """Elements of a function of complex numbers or quaternions for which this project has the exact value, but for
    rounding."""
    name = _function(d.step)
    if d.first.kind not in ("complex", "quaternion") or name not in _COMPLEX:
        return None
    if d.first.kind == "quaternion" and name not in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "rcp"):
        return None
    operand = np.broadcast_arrays(*d.operands[d.step.uses[0]].parts)
    result = np.broadcast_arrays(*d.mine.parts)
    right = np.zeros(result[0].shape, bool)
    for k in range(right.size):
        numbers = [float(part[k]) for part in (*operand, *result)]
        if np.isfinite(numbers).all():
            with mpmath.workprec(2200):  # of arguments beyond 2**1000 too
                q, found = (list(map(mpmath.mpf, part)) for part in (numbers[:len(operand)], numbers[len(operand):]))
                exact = _exact_value(_COMPLEX[name], q)
                if exact is not None:
                    error = mpmath.norm([x - y for x, y in zip(exact, found, strict=True)])
                    right[k] = error <= 32 * float(np.finfo(d.first.dtype).eps) * mpmath.norm(exact)
    return [right if part.size == right.size else right.any(keepdims=True) for part, _ in d.parts()]


def _exact_value(function: Callable[[Any], Any], q: list[Any]) -> list[Any] | None:
    """The components of a function of a complex number, or of a quaternion, which lies in a complex plane."""
    try:
        if len(q) == 2:
            value = mpmath.mpc(function(mpmath.mpc(*q)))
            return [value.real, value.imag]
        length = mpmath.norm(q[:3])
        value = mpmath.mpc(function(mpmath.mpc(q[3], length)))
        return [*(x / length * value.imag for x in q[:3]), value.real]
    except (ValueError, ZeroDivisionError, OverflowError):
        return None


_COMPLEX: dict[str, Callable[[Any], Any]] = {
    **{name: EXACT[name] for name in (*_TRIGONOMETRIC, "exp", "exp2", "log", "log2")},
    "sqrt": mpmath.sqrt, "rsqrt": EXACT["rsqrt"], "rcp": EXACT["rcp"]}


def _zero_sign(d: Difference) -> list[Array] | None:
    if info_of(d.mine.type).letter != "f":
        return None
    if d.first.kind in _SPECIAL or d.step.op in COMPOUND or d.step.op in _ZEROS:
        return _pairwise(d, lambda a, b: (a == 0) & (b == 0))
    return None


def _out_of_range(d: Difference) -> list[Array] | None:
    letter = info_of(d.mine.type).letter
    if d.step.op not in ("convert", "construct") or letter not in "iu":
        return None
    limits = np.iinfo(info_of(d.mine.type).dtype)
    return _flags(d, lambda part: ~((part.astype(float) > float(limits.min) - 1) & (part.astype(float) < limits.max)))


def _branch(d: Difference) -> list[Array] | None:
    if d.first.kind != "complex" or d.step.op not in _MANY_VALUED.split():
        return None
    return _flags(d, lambda part: part == 0)


def _negative_base(d: Difference) -> list[Array] | None:
    if d.step.op not in ("**", "dr.power"):
        return None
    return _flags(d._replace(operands={d.step.uses[0]: d.operands[d.step.uses[0]]}), lambda part: part <= 0)


def _angle_of_zero(d: Difference) -> list[Array] | None:
    return _flags(d, lambda part: part == 0) if d.step.op in ("dr.atan2", "dr.arg") else None


def _infinite_argument(d: Difference) -> list[Array] | None:
    return _flags(d, np.isinf) if d.step.op == "dr.lgamma" else None


def _reciprocal_root_of_zero(d: Difference) -> list[Array] | None:
    if d.step.op != "dr.rsqrt":
        return None
    return _flags(d, lambda part: (part == 0) | (np.abs(part) >= np.finfo(part.dtype).max / 4))


_VECTORS = ("dr.cross", "dr.normalize", "dr.quat_to_euler", "dr.slerp", "dr.quat_apply")
_ZEROS = ("+", "+=", "-", "-=", "dr.fmin", "dr.fmax", "dr.minimum", "dr.maximum", "dr.clip", "dr.min", "dr.max", "**")
_MANY_VALUED = "dr.sqrt dr.rsqrt dr.log dr.log2 dr.asin dr.acos dr.atan dr.asinh dr.acosh dr.atanh dr.power ** dr.arg"

#: Reasons for differences of elements, and which elements they explain.
RULES: list[tuple[str, Callable[[Difference], list[Array] | None]]] = [
    ("rounding: functions of one number, within the documented errors of both sides", _within_bounds),
    ("rounding: functions of several numbers, within what rounding of their operands does", _within_perturbation),
    ("rounding: functions of one number, where the wheel is less exact than documented", _exact),
    ("rounding: complex and quaternion functions that the wheel computes by formulas which cancel", _exact_special),
    ("rounding: functions of several numbers, where the wheel is further from the result in double precision", _wider),
    ("denormals: the wheel takes denormal numbers for zero", _denormal),
    ("NaN: the wheel finds NaN equal to other numbers in compiled `!=`", _nan_unequal),
    ("NaN: the wheel loses NaN in atan, atan2, erf, and what is made of them", _nan_lost),
    ("NaN: conversion to a mask, the same as `!= 0`", _nan_to_mask),
    ("NaN: the minimum of nothing else is that of nothing; in the wheel it is not if there is one", _nothing_but_nan),
    ("clip: where the bounds are reversed, the lower one wins, as the reference says", _reversed_bounds),
    ("infinity: overflow and special values in functions of several numbers depend on the order of operations",
     _not_finite),
    ("infinity: products inside of functions of several numbers that over- or underflow", _overflow),
    ("rounding: matrices whose determinant loses digits by cancellation", _ill_conditioned),
    ("quat_to_euler: close to the poles, where two angles are one", _near_lock),
    ("branch cuts: angles of pi and -pi, where the sign of zero decides", _full_turn),
    ("lerp: the wheel negates unsigned weights", _unsigned_weight),
    ("zeros: the sign of a zero in sums, minima, and products of special arrays", _zero_sign),
    ("nested arrays of different depth: broadcasting as elsewhere, from the right", _converted),
    ("undefined: operations on types that the reference does not define them for", _undefined),
    ("conversion: of floating-point numbers that do not fit into the integer type", _out_of_range),
    ("branch cuts: complex functions on their cuts, where the sign of zero decides", _branch),
    ("power: of zero and negative numbers, which the wheel computes by the logarithm", _negative_base),
    ("zeros: atan2 of zeros is as in C99", _angle_of_zero),
    ("infinity: lgamma is infinite there", _infinite_argument),
    ("infinity: rsqrt(-0) is NaN in the wheel, and rsqrt(-max) is zero", _reciprocal_root_of_zero),
]


def _elements(d: Difference) -> list[str] | None:
    """The reasons that together explain all elements that differ."""
    reasons, left = explain(d)
    return None if left is None or any(mask.any() for mask in left) else reasons


def explain(d: Difference) -> tuple[list[str], list[Array] | None]:
    """Reasons for differences of elements, and which elements are left."""
    if d.mine.type != d.theirs.type or any(np.size(a) != np.size(b) and 1 not in (np.size(a), np.size(b))
                                           for a, b in zip(d.mine.parts, d.theirs.parts, strict=True)):
        return [], None
    left, reasons = [~_equal(a, b) for a, b in d.parts()], []
    with np.errstate(all="ignore"):
        for reason, rule in RULES:
            found = rule(d)
            if found is None:
                continue
            explained = [bool((mask & hit).any()) for mask, hit in zip(left, found, strict=True)]
            if any(explained):
                reasons.append(reason)
                left = [mask & ~hit for mask, hit in zip(left, found, strict=True)]
            if not any(mask.any() for mask in left):
                break
    return reasons, left


# --- everything else -------------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """A known difference: its reason, the kinds and operations in which it shows, and further conditions."""

    reason: str
    kinds: str
    ops: str
    test: Callable[[Difference], bool] = lambda d: True


def _says(*texts: str) -> Callable[[Difference], bool]:
    """The wheel's message has one of the texts."""
    return lambda d: any(text in str(d.theirs) for text in texts)


def _begins(name: str) -> Callable[[Difference], bool]:
    """An operand has a type whose name begins so."""
    return lambda d: any(info.name.startswith(name) for info in d.infos)


def _kinds(*kinds: str) -> Callable[[Difference], bool]:
    """The first operand is of one of the kinds."""
    return lambda d: d.first.kind in kinds


def _scalars(*scalars: str) -> Callable[[Difference], bool]:
    """The first operand has one of the scalar types."""
    return lambda d: d.first.scalar in scalars


def _depths_differ(d: Difference) -> bool:
    """Nested arrays of different depth meet, or a component does with its array."""
    infos = d.infos
    if d.step.op == "convert":  # the type that was asked for matters as well
        infos = infos + [info_of(value.type) for value in (d.mine, d.theirs) if isinstance(value, Value)]
    depths = {len(info.shape) for info in infos if info.kind in ("nested", *_SPECIAL)}
    return len(depths) > 1 or max(depths, default=0) > 1 and d.step.op in ("dr.normalize", "dr.unit_angle")


def _is_undefined(d: Difference) -> bool:
    """The operation is not in the table of operations for the first operand, or for a special one."""
    infos = [info for info in d.infos if info == d.first or info.kind in _SPECIAL]
    return not all(any(row.op == d.step.op and accepts(row, info) for row in ROWS) for info in infos)


def _keeps_shape(d: Difference) -> bool:
    return d.first.kind == "tensor" and "do not change the shape" in str(d.mine)


def _has_masks(d: Difference) -> bool:
    return any(info.letter == "b" for info in d.infos) or "True" in d.step.text or "False" in d.step.text


def _has_no_elements(d: Difference) -> bool:
    return any(value.shape is not None and 0 in value.shape or not any(np.size(part) for part in value.parts)
               for value in d.operands.values())


_ROTATIONS = "dr.quat_to_matrix dr.matrix_to_quat dr.quat_apply dr.slerp dr.quat_to_euler"
_BITS = "dr.mul_hi dr.mul_wide dr.popcnt dr.lzcnt dr.tzcnt dr.brev"
_REDUCTIONS = "dr.sum dr.prod dr.min dr.max dr.mean dr.dot dr.abs_dot dr.all dr.any dr.none dr.count @"

TABLE = [
    Known("types: the wheel lacks a type that the result or an operand needs", "raised there", "*",
          _says("has no attribute 'Array", "has no attribute 'Matrix", "has no attribute 'Complex",
                "has no attribute 'Quaternion", "lacks bindings")),
    Known("functions: the reference has them, the wheel does not", "raised there", "dr.cot dr.erfc",
          _says("module 'drjit' has no attribute")),
    Known("empty static arrays: the wheel cannot combine them with anything", "raised there", "*", _begins("Array0")),
    Known("empty static arrays: the wheel reduces them to Python numbers", "type", _REDUCTIONS, _begins("Array0")),
    Known("empty static arrays: the wheel reduces all types of them", "raised here", _REDUCTIONS, _begins("Array0")),
    Known("empty static arrays: the wheel dies", "crashed", "*", _begins("Array0")),
    Known("empty static arrays: the wheel converts them to flat ones", "raised here", "convert", _begins("Array0")),
    Known("components: dynamic arrays have those of static ones, where they are as long", "raised there", "component",
          lambda d: d.first.shape == (-1,)),
    Known("undefined: operations on types that the reference does not define them for", "raised here, raised there",
          "*", _is_undefined),
    Known("division: the wheel refuses integer operands where it would have to promote them", "raised there", "/ /=",
          _says("unsupported operand")),
    Known("matmul: of flat arrays, the inner product; the wheel returns numbers, or dies", "crashed, type, raised here",
          "@ dr.matmul", _kinds("flat")),
    Known("matmul: of dynamic vectors, and of matrices of vectors", "raised there", "@ dr.matmul",
          _says("unsupported operand")),
    Known("dot: the wheel dies of flat arrays", "crashed", "dr.dot", _kinds("flat")),
    Known("dot: of all elements of tensors, as of other reductions", "shape", "dr.dot dr.abs_dot", _kinds("tensor")),
    Known("powers of dynamic arrays with the exponent 0 have as many components", "shape", "** dr.power",
          lambda d: d.first.shape == (-1,)),
    Known("tensors: the wheel does not assign to single entries", "raised there", "assign", _kinds("tensor")),
    Known("arrays without elements: the wheel does not broadcast them, or dies", "raised there, crashed", "*",
          _has_no_elements),
    Known("mul_wide: of tensors is wide too", "type", "dr.mul_wide", _kinds("tensor")),
    Known("copysign: the wheel dies of some signed integers", "crashed", "dr.copysign"),
    Known("step, masks: the wheel dies of operands of different shapes or sizes", "crashed", "dr.step &mask"),
    Known("division: the wheel dies of integer tensors that are broadcast", "crashed", "// %", _kinds("tensor")),
    Known("hypot: the wheel compares where it must not", "raised there", "dr.hypot", _kinds("tensor", "flat")),
    Known("select: by masks only", "raised here", "dr.select", lambda d: d.first.letter != "b"),
    Known("special arrays together with plain ones of the same shape", "raised there", "*",
          lambda d: len({info.kind for info in d.infos if info.kind in ("nested", *_SPECIAL)}) > 1),
    Known("slices of special arrays are plain arrays", "raised there", "slice", _kinds(*_SPECIAL)),
    Known("slices of dynamic arrays are dynamic; the wheel's are on one backend only", "type", "slice",
          lambda d: d.first.shape == (-1,)),
    Known("tensors without dimensions: indexing by `...` and None", "raised there", "slice", _kinds("tensor")),
    Known("nested arrays: indexing by `...` and None", "raised there", "slice", _kinds("nested")),
    Known("assignments to tensors: the wheel accepts masks that do not fit, and cuts off fractions", "raised here",
          "assign", _kinds("tensor")),
    Known("assignments to components: the wheel cuts off fractions", "raised here", "assign",
          lambda d: d.first.kind == "nested" and d.first.letter in "iu"),
    Known("tensors: assignments do not change the shape", "shape", "assign", _kinds("tensor")),
    Known("clip: the wheel compares with the lower bound first, which unsigned integers cannot be", "raised there",
          "dr.clip", lambda d: d.first.letter == "u"),
    Known("tensors: in-place operators do not change the shape", "raised here",
          "+= -= *= /= //= %= &= |= ^= <<= >>= **=", _keeps_shape),
    Known("rotations: the wheel has them for single and double precision", "raised there", _ROTATIONS, _scalars("f16")),
    Known("rotations: the wheel promotes half precision", "type", _ROTATIONS, _scalars("f16")),
    Known("cross: of dynamic arrays with three components too", "raised there", "dr.cross",
          lambda d: d.first.shape == (-1,)),
    Known("8-bit and 64-bit integers: not supported by the wheel", "raised there", f"{_BITS} {_REDUCTIONS}",
          _scalars("i8", "u8", "i64", "u64", "b")),
    Known("matrices with as many further dimensions: a matrix counts on the first two axes", "value", "*",
          lambda d: {info.kind for info in d.infos} == {"matrix"} and len({info.shape for info in d.infos}) > 1),
    Known("nested arrays of different depth: broadcasting as elsewhere, from the right", "raised there, raised here",
          "*", _depths_differ),
    Known("unsigned types: the wheel needs -1 for `sign` and what is made of it", "raised there",
          "dr.sign dr.mulsign dr.copysign dr.take take", lambda d: any(info.letter == "u" for info in d.infos)),
    Known("masks as numbers: the wheel has no arithmetic of masks", "raised there", "*", _has_masks),
    Known("masks as numbers: raised to a power they are integers", "type", "**", lambda d: d.first.letter == "b"),
    Known("diag: the wheel fails for vectors of vectors", "raised there", "dr.diag", _says("internal error")),
    Known("isfinite and isnan of special arrays, by component", "raised there, type", "dr.isfinite dr.isinf dr.isnan",
          _kinds(*_SPECIAL)),
    Known("rcp, fma: the wheel dies of matrices now and then", "crashed", "dr.rcp dr.inverse dr.fma", _kinds("matrix")),
    Known("transpose: of matrices too", "raised there", "dr.transpose", _kinds("matrix", "nested")),
    Known("inverse: of matrices only, as the reference says", "raised here", "dr.inverse", _kinds("nested")),
    Known("gather: the wheel's packets must divide the source", "raised there", "gather", _says("not divisible")),
    Known("take, swapaxes: negative indices and equal axes", "raised there", "take swapaxes"),
    Known("mulsign: `a * sign(b)`, as the reference says, has the promoted type", "type", "dr.mulsign"),
]


def classify(d: Difference) -> list[str]:
    """The reasons for a difference; none if it is not explained."""
    if d.kind == "value":
        found = _elements(d)
        if found:
            return found
    for known in TABLE:
        if d.kind in known.kinds.split(", ") and (known.ops == "*" or d.step.op in known.ops.split()) and known.test(d):
            return [known.reason]
    return []
