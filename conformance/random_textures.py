"""Lookups in textures of every kind, at random and at awkward positions: as the model says, and as Dr.Jit's wheel does.

    python conformance/random_textures.py [--cases 50000] [--kinds N] [--seed N] [--part K/N] [--peer PYTHON]

A *case* is one method of one texture (format, filter, wrapping, dimension, channels, precision of positions, mask) at
one set of positions: random ones, centres and edges of texels exactly and next to them, seams, NaN, infinities, 2³¹
and more. The model is ``tests/textures/model.py``. With ``PYTHON``, an interpreter that has the wheel (with
``DRJIT_LIBLLVM_PATH`` in the environment, if it needs that), the same cases are looked up there as well, as far as it
has them; positions whose meaning it does not define are left out. Differences are shown; the exit status is 1 then.

Positions next to a seam, whose rounding decides which texel they are in, are not compared where that matters; those
exactly on one are.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent

FORMATS = ("f", "f16", "f64", "f8u", "bf16")
PRECISIONS = {"f": np.float32, "f16": np.float16, "f64": np.float64}
CHANNELS = (1, 2, 3, 4, 6)
METHODS = ("linear", "nearest", "eval_fetch", "eval_cubic", "eval_catmull_rom", "eval_cubic_grad", "eval_cubic_hessian")
WRAPS = ("Repeat", "Clamp", "Mirror", "Border", "mixed")
#: Of powers of two, scaled positions are exact.
SIZES = (1, 2, 3, 4, 5, 7, 8, 16)
LANES = 64
#: Kinds whose cases the peer looks up in one process.
BATCH = 20
TOLERANCE = {np.float32: 4e-5, np.float16: 6e-2, np.float64: 1e-12}


class Case(NamedTuple):
    """A texture and a set of positions, at which all methods look."""

    form: str
    precision: str
    shape: tuple[int, ...]
    modes: tuple[str, ...]  # X first
    border: list[float] | None
    srgb: bool
    data: Any
    positions: list[Any]
    active: Any  # None, a bool, or one for each position


def kinds() -> list[tuple[str, str, str, int, int]]:
    """Everything that kernels differ by."""
    return [(form, precision, wrap, dimension, channels) for form, precision, wrap, dimension, channels
            in itertools.product(FORMATS, PRECISIONS, WRAPS, (1, 2, 3), CHANNELS)
            if not (wrap == "mixed" and dimension == 1)]


def points(size: int, dtype: Any, rng: np.random.Generator) -> Any:
    """Positions along an axis."""
    found = rng.random(LANES) * 3 - 1
    found[:10] = (rng.integers(-size, 2 * size, 10) + 0.5) / size
    found[10:18] = rng.integers(-2 * size, 3 * size, 8) / size
    found[18:24] = [0, -0.0, 1, -1, 2, -2]
    near = np.nextafter(found[rng.integers(0, 24, 6)].astype(dtype), dtype(rng.choice([-9, 9])))
    found[24:30] = near
    found[30:44] = [np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31), 2.0**32, 2.0**31 / size, 1e4 + 0.25, -1e4 - 0.75,
                    1e30, -1e30, 1e-30, -1e-30, 2.0**24 + 1]
    rng.shuffle(found)
    with np.errstate(over="ignore"):
        return found.astype(dtype)


def texels(shape: tuple[int, ...], form: str, rng: np.random.Generator) -> Any:
    """Random texels, which the format holds exactly."""
    if form == "f8u":
        return rng.integers(0, 256, shape, dtype=np.uint8)
    values = rng.random(shape) * 2 - 1
    if form == "bf16":
        return (np.round(values * 128) / 128).astype(np.float32)
    return values.astype(PRECISIONS[form])


def make(kind: tuple[str, str, str, int, int], count: int, rng: np.random.Generator) -> list[Case]:
    """Cases of a kind, which have kernels in common: the same axes have one texel, and there is a mask, or is not."""
    form, precision, wrap, dimension, channels = kind
    names = WRAPS[:4]
    first, mask = int(rng.integers(4)), int(rng.integers(3))
    modes = (wrap,) * dimension if wrap != "mixed" else tuple(names[(first + k) % 4] for k in range(dimension))
    single, most = rng.random(dimension) < 0.12, {1: 8, 2: 7, 3: 5}[dimension]
    srgb, cases = form == "f8u" and bool(rng.random() < 0.5), []
    for _ in range(count):
        shape = tuple(1 if one else SIZES[int(rng.integers(1, most))] for one in single)
        border = rng.random(channels).tolist() if "Border" in modes else None
        active = (None, rng.random(LANES) < 0.7, bool(rng.random() < 0.8))[mask]
        cases.append(Case(form, precision, shape, modes, border, srgb, texels((*shape, channels), form, rng),
                          [points(size, PRECISIONS[precision], rng) for size in shape[::-1]], active))
    return cases


# --- one of the two packages -----------------------------------------------------------------------------------------


def everything(result: Any) -> list[Any]:
    """The flat arrays of a result."""
    if isinstance(result, (list, tuple)):
        return [array for entry in result for array in everything(entry)]
    if type(result).__name__.startswith("Matrix"):
        return [result[i][j] for i in range(len(result)) for j in range(len(result))]
    if not type(result).__name__.startswith("Array"):
        return [result]
    return [result[k] for k in range(len(result))]


def looked_up(case: Case, methods: tuple[str, ...]) -> dict[str, Any]:
    """What the installed package finds: of each method all its flat arrays, by lanes."""
    import drjit as dr
    from drjit import llvm

    dimension, module = len(case.shape), llvm
    modes = [getattr(dr.WrapMode, mode) for mode in reversed(case.modes)]
    options: dict[str, Any] = {"wrap_mode": modes[0] if len(set(modes)) == 1 else modes}
    if case.border is not None:
        options["border"] = case.border
    if case.srgb:
        options["srgb"] = True
    cls, suffix = getattr(module, f"Texture{dimension}{case.form}"), case.precision
    flat = getattr(module, {"f": "Float", "f16": "Float16", "f64": "Float64"}[suffix])
    pos = getattr(module, f"Array{dimension}{suffix}")(*[flat(place) for place in case.positions])
    storage = getattr(module, {"f": "TensorXf", "bf16": "TensorXf"}.get(case.form) or
                      {"f16": "TensorXf16", "f64": "TensorXf64", "f8u": "TensorXu8"}[case.form])
    data = storage(case.data)
    active = () if case.active is None else (module.Bool(case.active),)
    textures = {mode: cls(data, filter_mode=getattr(dr.FilterMode, mode), **options) for mode in ("Linear", "Nearest")}
    results = {}
    for method in methods:
        texture = textures["Nearest" if method == "nearest" else "Linear"]
        call = "eval" if method in ("linear", "nearest") else method
        results[method] = everything(getattr(texture, call)(pos, *active))
    dr.eval(results)
    return {method: np.array([np.broadcast_to(np.asarray(array.numpy(), np.float64), LANES) for array in found])
            for method, found in results.items()}


def methods_of(case: Case) -> tuple[str, ...]:
    """Those whose kernels compile in a reasonable time."""
    if len(case.shape) < 3:
        return METHODS
    wide = case.data.shape[-1] > 2 or case.form in ("f16", "bf16") or case.precision == "f16"
    return METHODS[:3] if wide and case.data.shape[-1] > 3 else METHODS[:4] if wide else METHODS


def methods_of_peer(case: Case) -> tuple[str, ...]:
    """Those that the peer has."""
    return tuple(method for method in methods_of(case) if method != "eval_catmull_rom" and
                 not (method == "eval_cubic_hessian" and len(case.shape) == 1))


def peer_has(case: Case) -> bool:
    """Whether the peer has such textures."""
    return case.form != "bf16" and case.border is None and len(set(case.modes)) == 1 and not (
        case.precision != "f" and len(case.shape) == 1)


# --- the model -------------------------------------------------------------------------------------------------------


def expected(case: Case, methods: tuple[str, ...]) -> dict[str, Any]:
    """What the model says."""
    from drjit import WrapMode
    from tests.textures import model

    dtype = PRECISIONS[case.precision]
    values = case.data / 255 if case.form == "f8u" else case.data.astype(np.float64)
    if case.srgb:
        linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055)**2.4)
        channel = np.arange(values.shape[-1]) % 4 != 3
        values = np.where(channel, linear, values)
    modes = [WrapMode[mode] for mode in case.modes]
    border = 0 if case.border is None else np.array(case.border)
    common = values, case.positions, modes, border, dtype
    count, channels = len(case.shape), range(values.shape[-1])
    units = np.eye(count, dtype=int)
    found: dict[str, Any] = {}
    with np.errstate(all="ignore"):
        for method in methods:
            if method == "eval_fetch":
                found[method] = np.concatenate([each.T for each in model.corners(*common)])
            elif method in ("eval_cubic_grad", "eval_cubic_hessian"):
                slopes = [model.cubic(*common, orders=list(unit)) for unit in units]
                parts = [model.cubic(*common).T, [slopes[k][:, c] for c in channels for k in range(count)]]
                if method == "eval_cubic_hessian":
                    second = {(i, j): model.cubic(*common, orders=list(units[i] + units[j]))
                              for i in range(count) for j in range(count)}
                    parts.append([second[i, j][:, c] for c in channels for i in range(count) for j in range(count)])
                found[method] = np.concatenate([np.asarray(part) for part in parts])
            else:
                name = {"eval_cubic": "cubic", "eval_catmull_rom": "catmull_rom"}.get(method, method)
                found[method] = getattr(model, name)(*common).T
    return found


def unsure(case: Case, shift: float) -> Any:
    """Where rounding decides which texel a position is in; not where it is exactly on an edge that it can be on."""
    result = np.zeros(LANES, bool)
    dtype = PRECISIONS[case.precision]
    epsilon = float(np.finfo(dtype).eps)
    for place, size in zip(case.positions, case.shape[::-1], strict=True):
        with np.errstate(all="ignore"):
            scaled = place.astype(np.longdouble) * size + shift
            exact = (scaled == np.round(scaled)) & (size & (size - 1) == 0) & (abs(scaled) < 1 / epsilon)
            near = abs(scaled - np.round(scaled)) <= 4 * epsilon * np.maximum(size, abs(scaled))
        result |= np.isfinite(scaled) & near & ~exact
    return result


def tolerance_of(case: Case, method: str, peer: bool) -> float:
    """How far a method may be off: derivatives are multiplied by sizes."""
    tolerance = TOLERANCE[PRECISIONS[case.precision]]
    if peer and case.form != "f64":
        tolerance = max(tolerance, 1e-6)
    order = {"eval_cubic_grad": 1, "eval_cubic_hessian": 2}.get(method, 0)
    return tolerance * (4 * max(case.shape))**order


def difference(case: Case, method: str, found: Any, wanted: Any, peer: bool = False) -> str:
    """In words how results differ; empty if they do not."""
    if found.shape != wanted.shape:
        return f"{found.shape[0]} arrays instead of {wanted.shape[0]}"
    active = np.broadcast_to(True if case.active is None else case.active, LANES)
    if (found[:, ~active] != 0).any():
        return "masked lanes are not zero"
    keep = active.copy()
    finite = np.all([np.isfinite(place) for place in case.positions], axis=0)
    most = 2**22 if case.precision != "f16" else 2**10
    huge = np.any([abs(place.astype(np.float64)) * size >= most for place, size
                   in zip(case.positions, case.shape[::-1], strict=True)], axis=0)
    if method in ("nearest", "eval_fetch"):
        keep &= ~unsure(case, 0.5 if method == "eval_fetch" else 0)
    if method == "eval_fetch" or peer:
        keep &= finite
    elif method == "eval_cubic_hessian":
        keep &= ~unsure(case, 0.5)  # the third derivative jumps, and beyond borders the second one
    if peer:
        keep &= ~huge
    rough = huge & (case.precision != "f64")
    tolerance = np.where(rough, 4, 1) * tolerance_of(case, method, peer)
    with np.errstate(invalid="ignore"):
        wrong = ~((abs(found - wanted) <= tolerance) | np.isnan(found) & np.isnan(wanted)) & keep
    if not wrong.any():
        return ""
    row, lane = np.argwhere(wrong)[0]
    place = [float(position[lane]) for position in case.positions]
    return f"at {place} array {row}: found {found[row, lane]:.7g}, expected {wanted[row, lane]:.7g}"


def describe(case: Case) -> str:
    """A case on one line."""
    return (f"Texture{len(case.shape)}{case.form}, positions {case.precision}, shape {case.data.shape}, "
            f"{'/'.join(case.modes)}, srgb {case.srgb}, mask {'no' if case.active is None else np.ndim(case.active)}")


# --- the program -----------------------------------------------------------------------------------------------------


def of_the_peer(python: str, cases: list[Case]) -> list[dict[str, Any]]:
    """What the peer finds."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # which leads here
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "cases", Path(folder) / "results"
        source.write_bytes(pickle.dumps([tuple(case) for case in cases]))
        subprocess.run([python, str(Path(__file__).resolve()), "--worker", str(source), str(result)], check=True,
                       cwd=folder, env=environment)
        return list(pickle.loads(result.read_bytes()))


def work(source: str, result: str) -> None:
    """Look the cases of a file up, in the peer's process."""
    cases = [Case(*entry) for entry in pickle.loads(Path(source).read_bytes())]
    found = [looked_up(case, methods_of_peer(case)) for case in cases]
    Path(result).write_bytes(pickle.dumps(found))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=50000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", type=int, help="kinds of textures, which have a kernel each; by default all")
    parser.add_argument("--part", default="1/1", help="one of several parts of the kinds")
    parser.add_argument("--peer", metavar="PYTHON")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(*arguments.worker)
        return
    sys.path[:0] = [str(ROOT), str(ROOT / "compiler")]
    rng = np.random.default_rng(arguments.seed)
    everyone = kinds()
    rng.shuffle(everyone)  # type: ignore[arg-type]
    everyone = everyone[:arguments.kinds]
    part, parts = map(int, arguments.part.split("/"))
    chosen = [(str(f), str(p), str(w), int(d), int(c)) for f, p, w, d, c in everyone[part - 1::parts]]
    sets = -(-arguments.cases // (len(everyone) * 6))
    counts: collections.Counter[str] = collections.Counter()
    failures: list[str] = []
    compared, peers, start = 0, 0, time.perf_counter()
    for first in range(0, len(chosen), BATCH):
        cases = [case for kind in chosen[first:first + BATCH] for case in make(kind, sets, rng)]
        asked = [number for number, case in enumerate(cases) if arguments.peer and peer_has(case)]
        theirs = dict(zip(asked, of_the_peer(arguments.peer, [cases[number] for number in asked]), strict=True)) \
            if asked else {}
        for number, case in enumerate(cases):
            methods, peer = methods_of(case), theirs.get(number, {})
            mine, wanted = looked_up(case, methods), expected(case, methods)
            for method in methods:
                compared += 1
                counts[method] += 1
                problem = difference(case, method, mine[method], wanted[method])
                if problem:
                    failures.append(f"{describe(case)}: {method} {problem}")
                    print(failures[-1], flush=True)
                if method in peer:
                    peers += 1
                    problem = difference(case, method, mine[method], peer[method], True)
                    if problem:
                        failures.append(f"peer: {describe(case)}: {method} {problem}")
                        print(failures[-1], flush=True)
        print(f"{min(first + BATCH, len(chosen))} of {len(chosen)} kinds, {compared} cases, {peers} beside the peer, "
              f"{len(failures)} differences, {time.perf_counter() - start:.0f} s", flush=True)
    print(f"{len(chosen)} kinds, {compared} cases ({', '.join(f'{k} {v}' for k, v in counts.items())}), {peers} beside "
          f"the peer, {len(failures)} differences")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
