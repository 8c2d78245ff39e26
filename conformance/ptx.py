"""Assembles PTX of our kernels: ``make ptx``.

    python -m conformance.ptx [--corpus FILE] [--programs N] [--architecture A …] [--most N] [--jobs N]

The kernels are those of a corpus (``conformance/on_gpu.py --make``), or those of all steps, and of random programs that
go to the null backend, for each architecture.  They are assembled by nvJitLink, in process, or by ptxas, whichever is
installed: ``pip install .[assembler]`` brings the first.  Reported are rejections, with what was said; registers,
spills, with the kernels, and the slowest ones.  Fails if a kernel is rejected, or spills that has no more than 180
reductions and calls no functions (of which some remain calls, across which registers are saved).  Without an assembler
nothing is checked, and it says so, with status 2.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "compiler")]

__all__ = ["Assembled", "assembler", "kernels_of_programs", "report"]

ARCHITECTURES = (75, 90, 100)
#: Kernels with more reductions may keep some of them in memory.
MOST_REDUCTIONS = 180


class Assembled(NamedTuple):
    """What an assembler says of a kernel."""

    error: str
    registers: int
    spilled: int  # bytes
    seconds: float


Assembler = Callable[[str, int], Assembled]
_REGISTERS, _SPILLED = re.compile(r"Used (\d+) registers"), re.compile(r"(\d+) bytes spill stores")


def _said(text: str, error: str, seconds: float) -> Assembled:
    return Assembled(error, max(map(int, _REGISTERS.findall(text)), default=0), sum(map(int, _SPILLED.findall(text))),
                     seconds)


def _ptxas(path: str) -> Assembler:
    def assemble(text: str, architecture: int) -> Assembled:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "kernel.ptx")
            source.write_text(text)
            start = time.perf_counter()
            done = subprocess.run([path, "-v", f"-arch=sm_{architecture}", str(source), "-o", f"{folder}/kernel.cubin"],
                                  capture_output=True, text=True, check=False)
            said = done.stdout + done.stderr
            return _said(said, said.strip()[:500] if done.returncode else "", time.perf_counter() - start)
    return assemble


def _link(library: Any) -> Assembler:
    """The library nvJitLink, whose functions carry the version in their names."""
    major, minor = ctypes.c_uint(), ctypes.c_uint()
    library.nvJitLinkVersion(ctypes.byref(major), ctypes.byref(minor))
    prefix, suffix = "__nvJitLink", f"_{major.value}_{minor.value}"

    def function(name: str) -> Any:
        return getattr(library, f"nvJitLink{name}", None) or getattr(library, f"{prefix}{name}{suffix}")

    def log(handle: Any, which: str) -> str:
        size = ctypes.c_size_t()
        function(f"Get{which}LogSize")(handle, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value + 1)
        function(f"Get{which}Log")(handle, buffer)
        return buffer.value.decode(errors="replace")

    def assemble(text: str, architecture: int) -> Assembled:
        options = [f"-arch=sm_{architecture}".encode(), b"-verbose"]
        handle, data = ctypes.c_void_p(), text.encode()
        start = time.perf_counter()
        status = function("Create")(ctypes.byref(handle), len(options), (ctypes.c_char_p * len(options))(*options))
        if status:
            return Assembled(f"nvJitLinkCreate: {status}", 0, 0, 0.0)
        status = function("AddData")(handle, 2, data, ctypes.c_size_t(len(data)), b"kernel.ptx") or \
            function("Complete")(handle)
        seconds = time.perf_counter() - start
        said = log(handle, "Info") + log(handle, "Error")
        function("Destroy")(ctypes.byref(handle))
        return _said(said, said.strip()[:500] or f"status {status}" if status else "", seconds)
    return assemble


def assembler() -> tuple[str, Assembler] | None:
    """The assembler that is installed, and its name: nvJitLink of a Python package, or ptxas of one or in the path."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(each) for each in spec.submodule_search_locations or ()] if spec is not None else []
    for folder in folders:
        for path in sorted(folder.glob("**/libnvJitLink.so.*"), reverse=True):
            return f"nvJitLink ({path.name})", _link(ctypes.CDLL(str(path)))
    found = [str(path) for folder in folders for path in folder.glob("**/bin/ptxas")]
    path_of = found[0] if found else shutil.which("ptxas")
    return None if path_of is None else ("ptxas", _ptxas(path_of))


def kernels_of_programs(count: int, architecture: int) -> list[str]:
    """Texts of random programs, of all kinds."""
    from drjit_core import SymbolicValue, evaluate, on_backend
    from drjit_core.runtime.gpu.texts import PTXTexts
    from drjit_core.runtime.null import Null
    from tests.core import regions, test_random_programs, test_rows
    from tests.core.harness import array

    regions.shared = test_random_programs.shared = array  # type: ignore[attr-defined]
    backend = Null(PTXTexts(architecture))
    makers: list[Callable[[int], Any]] = [
        lambda seed: regions.trace(regions.generate(seed)),
        lambda seed: list(test_random_programs.Program(seed, 25, True).run()),
        lambda seed: test_rows.Programs(seed, 0).roots()]
    with on_backend(backend):
        for seed in range(count):
            try:
                evaluate(makers[seed % 3](seed))
            except (SymbolicValue, NotImplementedError):
                continue  # refused
    return [kernel.text for kernel in backend.kernels.values()]


def kernels_of_steps(architecture: int) -> list[str]:
    """Texts of all steps, with every type that they take, and of every kind."""
    from drjit_core.codegen.steps import Array, Call
    from drjit_core.ops.reductions import REDUCTIONS
    from drjit_core.ops.steps import Step
    from drjit_core.ptx.steps import LAUNCHES
    from drjit_core.runtime.gpu.target import target_of
    from drjit_core.types import BOOL, POINTER, TYPES, UINT32, UINT64

    many, few = 1 << 20, 1 << 10
    matrices = [(rows, rows, rows, 0, 0, rows, 1, rows, 1, 2, 0, 0) for rows in (8, 40, 64, 1024)]
    texts: dict[str, None] = {}

    def run(name: str, options: tuple[int, ...], extents: tuple[int, ...], type_: int, size: int) -> None:
        call = Call(Step(name, options, extents), [Array(type_, size, 0)] * 2, dict.fromkeys((0, 1), Array(
            type_, size, 0)), lambda nbytes: 0, target_of(architecture))
        if name in ("count", "compress"):
            call = call._replace(operands=[Array(BOOL, size, 0), Array(UINT64, size, 0)][:1 + (name == "compress")])
        elif name != "matmul":
            call = call._replace(operands=call.operands[:1])
        for each in LAUNCHES[name](call):
            texts[each.text.text()] = None
    for info in filter(None, TYPES):
        type_ = info.type
        if info.kind not in "biuf" or type_ == POINTER:
            continue
        for op in REDUCTIONS.values():
            for extents in ((1, 0, 1), (0, 64, 1), (0, 64, 16)) if info.kind in op.accepts else ():
                for exclusive in (0, 1):
                    run("scan", (op.op.value, exclusive, exclusive), extents, type_, many)
        for flag in (0, 1):
            for extents in ((1, 0, 1), (0, 128, 1), (0, 16, 16)):
                run("extremum", (flag,), extents, type_, many)
            for size in (many, few):
                run("sort", (flag, 1 - flag), (1, 0, 1), type_, size)
        run("transpose", (64, 64, 64, 64, 0, 2, 4096, 4096), (), type_, 8192)
        for options in matrices if info.kind != "b" else ():
            run("matmul", options, (), type_, 2 * options[0] ** 2)
    for name in ("count", "compress"):
        run(name, (), (1 << 14, 0), UINT32, many)
    return list(texts)


def _for_architecture(text: str, architecture: int) -> str:
    """A text of an older architecture, as one that a newer one accepts."""
    from drjit_core.ptx.features import head
    lines = text.splitlines()
    return "\n".join([*head(architecture), *lines[3:]]) + "\n"


def report(texts: dict[int, list[str]], assemble: Assembler, jobs: int) -> bool:
    """Assemble kernels by architecture, and print what there is to say; whether all is well."""
    good = True
    print("| sm_ | kernels | rejected | spills | registers, median | most | ms, median | slowest |\n"
          "|---|---:|---:|---:|---:|---:|---:|---:|")
    rejected: Counter[str] = Counter()
    spilling: list[str] = []
    examples: dict[str, str] = {}
    for architecture, kernels in texts.items():
        with ThreadPoolExecutor(jobs) as pool:
            found = list(pool.map(lambda text, a=architecture: assemble(text, a), kernels))
        accepted = [each for each in found if not each.error]
        spills = 0
        for text, each in zip(kernels, found, strict=True):
            if each.error:
                key = re.sub(r"line \d+|'[^']*'", "…", each.error.splitlines()[0])
                rejected[key] += 1
                examples.setdefault(key, each.error)
            elif each.spilled:
                spills += 1
                may = text.count("\nst.shared") > MOST_REDUCTIONS or ".func" in text
                good &= may
                spilling.append(f"sm_{architecture}: {each.spilled} bytes, by a kernel of {text.count(';')} lines and "
                                f"{each.registers} registers" + (", which may" if may else f":\n{text[:2000]}"))
        registers, seconds = (sorted(getattr(each, name) for each in accepted) or [0]
                              for name in ("registers", "seconds"))
        middle = len(registers) // 2
        print(f"| {architecture} | {len(kernels)} | {len(found) - len(accepted)} | {spills} | {registers[middle]} | "
              f"{registers[-1]} | {1000 * seconds[middle]:.0f} | {1000 * seconds[-1]:.0f} |", flush=True)
    print(*spilling[:10], sep="\n", end="\n" * bool(spilling))
    for key, count in rejected.most_common(10):
        print(f"{count} times: {examples[key]}")
    return good and not rejected


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--corpus", type=Path, help="kernels of this corpus, instead of random programs")
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--architecture", type=int, action="append")
    parser.add_argument("--most", type=int, default=1 << 30, help="kernels of each architecture")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    found = assembler()
    if found is None:
        print("There is no assembler of PTX: neither nvJitLink (pip install 'drjit-python[assembler]') nor ptxas is "
              "installed.  Nothing was checked.")
        return 2
    name, assemble = found
    texts: dict[int, list[str]] = {}
    for architecture in arguments.architecture or ARCHITECTURES:
        if arguments.corpus is None:
            kernels = kernels_of_steps(architecture) + kernels_of_programs(arguments.programs, architecture)
        else:
            from tests.machine.corpus import load
            kernels = [_for_architecture(text, architecture)
                       for text in dict.fromkeys(entry.text for entry in load(arguments.corpus))]
        texts[architecture] = kernels[:arguments.most]
    print(f"Assembled by {name}.")
    return int(not report(texts, assemble, arguments.jobs))


if __name__ == "__main__":
    sys.exit(main())
