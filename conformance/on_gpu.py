"""What a GPU says of our kernels, in a few minutes: one command, for whoever has a device for a while.

    python -m conformance.on_gpu --make                  record the corpus on the machine: no device is needed
    python -m conformance.on_gpu [--out DIR] [--only PART] [--failed] [--minutes M]

Parts, in the order of what they tell: ``facts`` (device, copy bandwidth, latency of launches), ``kernel`` (one kernel),
``corpus`` (launches that the machine has run, compared with what they left in memory), ``speed`` (axpy, a sum, a
softmax, a gather, as bandwidth; updates of few elements; copies; replays of recordings).  Results are written as they
come, a line of JSON each, to ``results.jsonl``; ``--failed`` repeats what failed there.  The corpus runs in a process
of its own, which begins anew behind a launch that has ruined the device.  At the end there is a table for
``docs/gpu.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "compiler")]

import numpy as np  # noqa: E402

from drjit_core.cuda.driver import Driver  # noqa: E402
from drjit_core.cuda.errors import DriverError, NoDevice  # noqa: E402
from tests.machine.corpus import Block, Entry, load, save  # noqa: E402

CORPUS = ROOT / "build" / "corpus.pkl"
#: Relative error where numbers are added up in the order that threads come in, by type.
CLOSE = {"float16": 2e-2, "float32": 1e-3, "float64": 1e-9}
#: Kernels that are compiled ahead, side by side.
THREADS = 16
#: Seeds of each kind of program, for the corpus.
PROGRAMS = {"regions": 700, "graphs": 150, "rows": 300}


# --- the corpus ------------------------------------------------------------------------------------------------------


def make(path: Path, scale: float = 1.0) -> None:
    """Record the corpus: every row with every type, conversions, random programs, kernels by subject."""
    from drjit_core import JitFlag, cast, on_backend, scoped_set_flag
    from tests.core import regions, test_random_programs
    from tests.core.harness import array, values
    from tests.machine.backend import OnMachine
    from tests.machine.corpus import recording
    from tests.ops.test_conversions import PAIRS, interesting
    from tests.ops.test_table import ROWS, TRACE, operands_of
    from tests.ptx.test_programs import CHECKS

    regions.shared = test_random_programs.shared = array  # type: ignore[attr-defined]
    backend = OnMachine(75)  # texts that all devices can run
    with on_backend(backend), recording(backend) as recorder:
        for row in ROWS[::max(1, round(1 / scale))]:
            op, type_ = row.values
            operands = [operand[:700] for operand in operands_of(op, type_)]
            values(TRACE[op.kind](*map(array, operands)))
        for pair in PAIRS[::max(1, round(1 / scale))]:
            source, target = pair.values
            values(cast(array(interesting(source)), target))
        with scoped_set_flag(JitFlag.FastMath, False):  # what comes out is compared with the interpreter
            for kind, count in PROGRAMS.items():
                for seed in range(max(1, int(count * scale))):
                    CHECKS[kind](seed)
    save(path, recorder.entries)
    print(f"{len(recorder.entries)} launches of {len(backend.kernels)} kernels, "
          f"{path.stat().st_size / 1e6:.1f} MB in {path}")


def parameters_of(words: Any, entry: Entry) -> bytes:
    """The parameters of the kernel."""
    return words.tobytes() + np.uint64(entry.units).tobytes() if ".param .u64 units" in entry.text else words.tobytes()


def run_entry(device: Any, module: Any, entry: Entry) -> str:
    """Repeat a launch; what is wrong, if anything is."""
    addresses = [device.allocate(len(block.before)) for block in entry.blocks]
    try:
        for address, block in zip(addresses, entry.blocks, strict=True):
            device.upload(address, moved(block.before, block.moves, addresses))
        words = np.frombuffer(moved(entry.words, entry.moves, addresses), np.uint64)
        device.launch(device.function(module, "kernel"), entry.shape, parameters_of(words, entry))
        if entry.combine:
            blocks = np.uint32(entry.shape[0]).tobytes()
            device.launch(device.function(module, "combine"), entry.combine, words.tobytes() + blocks)
        device.wait()
        expected = entry.expected
        for number, (address, block) in enumerate(zip(addresses, entry.blocks, strict=True)):
            found = compare(device.download(address, len(block.after)), block, expected)
            if found:
                return f"memory {number}: {found}"
        return ""
    finally:
        for address in addresses:
            device.release(address)


def moved(data: bytes, moves: Iterable[tuple[int, int, int]], addresses: list[int]) -> bytes:
    """Words with the addresses that blocks have now."""
    moves = tuple(moves)
    if not moves:
        return data
    words = np.frombuffer(data, np.uint64).copy()
    for place, block, distance in moves:
        words[place] = addresses[block] + distance
    return words.tobytes()


def compare(found: bytes, block: Block, expected: str) -> str:
    """How memory differs from what the machine has left in it, if it does."""
    if not block.type or expected == "no fault" or found == block.after:
        return ""
    dtype = np.dtype("u1" if block.type == "bool" else block.type)
    end = len(found) // dtype.itemsize * dtype.itemsize
    a, b = np.frombuffer(found[:end], dtype), np.frombuffer(block.after[:end], dtype)
    bits = f"u{dtype.itemsize}"
    same = a.view(bits) == b.view(bits)
    if dtype.kind == "f":
        same |= np.isnan(a) & np.isnan(b)
        if expected == "close":
            with np.errstate(all="ignore"):
                same |= np.isclose(a.astype(np.float64), b.astype(np.float64), CLOSE[block.type], 1e-6)
    if same.all():
        return ""
    place = int(np.flatnonzero(~same)[0])
    return f"{(~same).sum()} of {len(a)} differ ({block.type}), at {place}: {a[place]!r} instead of {b[place]!r}"


def run_corpus(device: Any, entries: list[Entry], numbers: list[int], tell: Callable[[dict[str, Any]], None]) -> None:
    """Repeat launches.  A :class:`DriverError` of a launch ends it, when it has been told: nothing works any more."""
    def compiled(number: int) -> Any:
        start = time.perf_counter()
        try:
            return device.load(device.assemble(entries[number].text)), time.perf_counter() - start
        except (DriverError, MemoryError) as error:
            return str(error), 0.0

    texts: dict[str, int] = {}
    for number in numbers:
        texts.setdefault(entries[number].text, number)
    with ThreadPoolExecutor(THREADS) as pool:
        modules = dict(zip(texts, pool.map(compiled, texts.values()), strict=True))
        for number in numbers:
            entry = entries[number]
            module, seconds = modules[entry.text]
            result = {"part": "corpus", "entry": number, "kernel": entry.name, "compile": round(seconds, 4)}
            if isinstance(module, str):
                tell({**result, "error": module})
                continue
            try:
                error = run_entry(device, module, entry)
                tell({**result, "error": error, **device.facts_of(device.function(module, "kernel"))})
            except DriverError as error:
                tell({**result, "error": str(error), "fatal": True})
                raise


# --- the other parts -------------------------------------------------------------------------------------------------


def seconds_of(device: Any, work: Callable[[], Any]) -> float:
    """How long the device takes for what a function asks of it."""
    begin = device.mark()
    work()
    found: float = device.milliseconds(begin, device.mark())
    return found / 1000


def facts(device: Any) -> Iterator[dict[str, Any]]:
    """What device there is, and how fast it copies and launches."""
    yield {"device": device.name, "driver": device.version, "architecture": device.architecture,
           "memory": device.memory, "multiprocessors": device.multiprocessors}
    nbytes = 1 << 28
    source, target = device.allocate(nbytes), device.allocate(nbytes)
    try:
        device.copy(target, source, nbytes)
        seconds = min(seconds_of(device, lambda: device.copy(target, source, nbytes)) for _ in range(5))
    finally:
        device.release(source)
        device.release(target)
    yield {"copy GB/s": round(2 * nbytes / seconds / 1e9, 1)}
    empty = (f".version 8.1\n.target sm_{min(device.architecture, 90)}\n.address_size 64\n"
             ".visible .entry kernel (.param .align 8 .b8 p[8])\n{\nret;\n}\n")
    function = device.function(device.load(device.assemble(empty)), "kernel")
    count, words = 1000, bytes(8)
    start = time.perf_counter()
    for _ in range(count):
        device.launch(function, (1, 1), words)
    host = time.perf_counter() - start
    device.wait()
    yield {"launch, host us": round(1e6 * host / count, 2),
           "launch us": round(1e6 * (time.perf_counter() - start) / count, 2)}


class Prepared:
    """A kernel of some nodes, and memory for it, of any width."""

    def __init__(self, device: Any, roots: Any, width: int, units: int = 0) -> None:
        from drjit_core.codegen.program import assemble
        from drjit_core.codegen.signature import Role, slots_of
        from drjit_core.passes.schedule import plan
        from drjit_core.ptx.emit import emit
        from drjit_core.runtime.gpu.target import target_of
        from drjit_core.types import TYPES

        target = target_of(device.architecture)
        (kernel,) = plan(roots, target)
        program = assemble(kernel, target)
        self.device, self.width, self.units = device, width, units or width
        self.made = emit(program)
        module = device.load(device.assemble(self.made.text))
        self.function = device.function(module, "kernel")
        self.after = device.function(module, "combine") if self.made.reductions else None
        self.shape = self.made.shape(width, self.units)
        words, self.bytes, scale = list(program.parameters), 0, width // program.width
        self.blocks: dict[int, int] = {}
        for number, slot in enumerate(slots_of(program)):
            if slot.role in (Role.INPUT, Role.OUTPUT, Role.MEMORY):
                size = slot.size * (scale if slot.size > 1 else 1)
                nbytes = size * TYPES[slot.type].size
                self.bytes += nbytes
                self.blocks[number] = words[number] = device.allocate(nbytes + 256)
                device.upload(words[number], bytes(min(nbytes, 1 << 20)))
        words[0] = width
        if self.made.reductions:
            self.blocks[1] = words[1] = device.allocate(self.made.partial_bytes(width, self.units))
        self.words = np.array(words, np.uint64).tobytes()

    def launch(self) -> None:
        """Launch it."""
        rows = np.uint64(self.units).tobytes() if self.made.rows else b""
        self.device.launch(self.function, self.shape, self.words + rows)
        if self.after is not None:
            self.device.launch(self.after, self.made.combine_shape(),
                               self.words + np.uint32(self.shape.blocks).tobytes())

    def release(self) -> None:
        """Give its memory back."""
        for address in self.blocks.values():
            self.device.release(address)


def _axpy(size: int) -> Any:
    from drjit_core import literal, ops
    from tests.core.harness import FLOAT32, array
    x, y = array(np.arange(size), FLOAT32), array(np.ones(size), FLOAT32)
    return [ops.fma(x, literal(FLOAT32, 2.5), y)]


def _updates(width: int, places: int, mode: Any) -> Any:
    from drjit_core import ReduceOp, counter, literal, ops, scatter
    from tests.core.harness import FLOAT32, TRUE, UINT32, array
    index = ops.mod(counter(width), literal(UINT32, places))
    return [scatter(array(np.zeros(places), FLOAT32), literal(FLOAT32, 1), index, TRUE, ReduceOp.Add.value, mode.value)]


def kernel(device: Any) -> Iterator[dict[str, Any]]:
    """One kernel, whose result is known."""
    size = 1000
    one = Prepared(device, _axpy(size), size)
    inputs = [np.arange(size, dtype=np.float32), np.ones(size, np.float32)]
    *given, output = one.blocks.values()
    for address, data in zip(given, inputs, strict=True):
        device.upload(address, data.tobytes())
    one.launch()
    device.wait()
    found = np.frombuffer(device.download(output, 4 * size), np.float32)
    expected = inputs[0] * np.float32(2.5) + inputs[1]
    one.release()
    yield {"error": "" if (found == expected).all() else f"axpy is wrong: {found[:8]}", **device.facts_of(
        one.function), "lanes": one.made.lanes}


def speed(device: Any, width: int = 1 << 26) -> Iterator[dict[str, Any]]:
    """How much memory some kernels read and write in a second."""
    from drjit_core import ReduceMode, ReduceOp, gather, literal, ops, reduce
    from tests.core.harness import FLOAT32, TRUE, UINT32, array
    from tests.core.test_rows import softmax

    small = 4096
    x = array(np.ones(small), FLOAT32)
    programs: dict[str, tuple[Any, int]] = {
        "axpy": (_axpy(small), width),
        "sum of squares": ([reduce(ops.mul(x, x), ReduceOp.Add.value)], width),
        "gather in order": ([gather(x, array(np.arange(small), UINT32), TRUE)], width),
        "square root and division": ([ops.div(ops.sqrt(x), ops.add(x, literal(FLOAT32, 1.5)))], width),
        "softmax, rows of 4096": ([softmax(array(np.ones(4 * 4096), FLOAT32), 4, 4096)], max(width // 4, 1 << 14)),
        **{f"a quarter as many updates of {places} elements, {how}": (_updates(width // 4, places, mode), width // 4)
           for places in (100, 1000) for how, mode in (("tables of blocks", ReduceMode.Auto),
                                                       ("combined by warps", ReduceMode.Local))}}
    for name, (roots, elements) in programs.items():
        one = Prepared(device, roots, elements, elements // 4096 if "softmax" in name else 0)
        try:
            one.launch()
            device.wait()
            seconds = min(seconds_of(device, one.launch) for _ in range(10))
            yield {"name": name, "us": round(1e6 * seconds, 1), "GB/s": round(one.bytes / seconds / 1e9, 1),
                   "lanes": one.made.lanes, **device.facts_of(one.function)}
        except DriverError as error:
            yield {"name": name, "error": str(error), "fatal": True}
            raise
        finally:
            one.release()


    yield from copies(device, width)
    yield from replays(device, max(2, width >> 18))


def copies(device: Any, most: int) -> Iterator[dict[str, Any]]:
    """What copies between the host and the device take, of the host and in all, by way of pinned memory where that is
    used, and not."""
    devices = [("", device)]
    if isinstance(device, Driver):
        devices.append((", no pinned memory", Driver(pinned=False)))
    for nbytes in (4, 1 << 12, 1 << 16, 1 << 20, 1 << 22, most):
        data, count = memoryview(bytearray(nbytes)), 100 if nbytes < 1 << 22 else 5
        for how, each in devices:
            address = each.allocate(nbytes)
            for what, work in (("writing", lambda each=each, address=address, data=data: each.upload(address, data)),
                               ("reading", lambda each=each, address=address, data=data: each.download(
                                   address, data.nbytes))):
                work()
                each.wait()
                start = time.perf_counter()
                for _ in range(count):
                    work()
                host = time.perf_counter() - start
                each.wait()
                yield {"name": f"{what} {nbytes} bytes{how}", "host us": round(1e6 * host / count, 1),
                       "us": round(1e6 * (time.perf_counter() - start) / count, 1)}
            each.release(address)
            each.wait()  # the two are in no order


def replays(device: Any, count: int) -> Iterator[dict[str, Any]]:
    """What a replay of a recording of some launches takes, of the host and in all, if the device gets them one by one,
    and as a graph: where ``Target.graph`` belongs."""
    from drjit_core import Recorded, evaluate, literal, on_backend, ops
    from drjit_core.runtime.gpu.backend import GPU
    from drjit_core.runtime.gpu.target import target_of
    from tests.core.harness import FLOAT32, array

    def chain(x: Any, launches: int) -> list[Any]:
        for _ in range(launches):
            x = ops.add(x, literal(FLOAT32, 1))
            evaluate([x])
        return [x]

    for launches in (2, 4, 8, 16, 64):
        for how, fewest in (("one by one", 1 << 62), ("a graph", 1)):
            backend = GPU(device, target_of(device.architecture)._replace(graph=fewest))
            with on_backend(backend):
                function, x = Recorded(lambda x, launches=launches: chain(x, launches)), array(np.ones(1024), FLOAT32)
                least = [float("inf")] * 2
                for round_ in range(4):  # of which the first one makes what is needed
                    backend.wait()
                    start = time.perf_counter()
                    for _ in range(count):
                        (x,) = function(x)
                    host = time.perf_counter() - start
                    backend.wait()
                    if round_:
                        least = [*map(min, least, (host, time.perf_counter() - start))]
                del x, function
                backend.flush()
                backend.flush_memory()
            yield {"name": f"a replay of {launches} launches, {how}", "host us": round(1e6 * least[0] / count, 1),
                   "us": round(1e6 * least[1] / count, 1)}


PARTS: dict[str, Callable[[Any], Iterator[dict[str, Any]]] | None] = {
    "facts": facts, "kernel": kernel, "corpus": None, "speed": speed}


# --- the command -----------------------------------------------------------------------------------------------------


class Results:
    """Lines of JSON, written as they come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def tell(self, result: dict[str, Any]) -> None:
        """Append a line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")

    def read(self) -> list[dict[str, Any]]:
        """All of them."""
        return [json.loads(line) for line in self.path.read_text("utf-8").splitlines()] if self.path.exists() else []


def corpus_in_processes(results: Results, corpus: Path, numbers: list[int], until: float) -> None:
    """Repeat launches in a process that begins anew where one ends early."""
    while numbers and time.monotonic() < until:
        before = len(results.read())
        worker = [sys.executable, "-m", "conformance.on_gpu", "--worker", "--out", str(results.path.parent),
                  "--corpus", str(corpus)]
        try:
            process = subprocess.run(worker, input=json.dumps(numbers), text=True, cwd=ROOT, check=False,
                                     timeout=max(1.0, until - time.monotonic()), capture_output=True)
            how = f"exit status {process.returncode}: {process.stderr.strip()[-500:]}"
        except subprocess.TimeoutExpired:
            how = "out of time"
        told = {result["entry"] for result in results.read()[before:] if result.get("part") == "corpus"}
        left = [number for number in numbers if number not in told]
        if not told and left:  # it ended at the first one without a word
            results.tell({"part": "corpus", "entry": left[0], "kernel": "", "error": f"the process ended: {how}"})
            left = left[1:]
        numbers = left


def failed_parts(lines: list[dict[str, Any]]) -> tuple[set[str], list[int]]:
    """The parts that failed, and the launches of the corpus that did, as the last lines about them say."""
    last = {(line["part"], line.get("entry"), line.get("name")): line for line in lines if "part" in line}
    wrong = [line for line in last.values() if line.get("error")]
    return {line["part"] for line in wrong}, sorted(line["entry"] for line in wrong if line.get("entry") is not None)


def table(lines: list[dict[str, Any]]) -> str:
    """What was found, for ``docs/gpu.md``."""
    last = {(line["part"], line.get("entry"), line.get("name"), None if "entry" in line or "name" in line else
             tuple(sorted(line))): line for line in lines if "part" in line}
    rows = [(line["part"], ", ".join(f"{key} {value}" for key, value in line.items() if key != "part" and value != ""))
            for line in last.values() if line["part"] != "corpus"]
    corpus = [line for line in last.values() if line["part"] == "corpus"]
    if corpus:
        wrong = Counter(line["error"].split(":")[0][:60] for line in corpus if line["error"])
        spilled = sum(1 for line in corpus if line.get("local"))
        registers, slowest = (max(line.get(key, 0) for line in corpus) for key in ("registers", "compile"))
        rows.append(("corpus", f"{len(corpus)} launches, {sum(wrong.values())} wrong {dict(wrong) or ''}; registers "
                     f"up to {registers}, local memory in {spilled}; slowest compilation {slowest} s"))
    return "\n".join(["| part | found |", "|---|---|", *(f"| {part} | {found} |" for part, found in rows)])


def run(arguments: argparse.Namespace) -> int:
    """All parts that are asked for."""
    results = Results(arguments.out / "results.jsonl")
    until = time.monotonic() + 60 * arguments.minutes
    wanted, numbers = set(arguments.only or PARTS), None
    if arguments.failed:
        failed, numbers = failed_parts(results.read())
        wanted &= failed
    try:
        device = Driver()
    except NoDevice as error:
        print(f"Nothing was run: {error}")
        return 2
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True,
                            check=False).stdout.strip()
    results.tell({"begin": time.strftime("%Y-%m-%d %H:%M"), "commit": commit, "device": device.name})
    for part, function in PARTS.items():
        if part not in wanted:
            continue
        start = time.monotonic()
        if function is None:
            if not arguments.corpus.exists():
                results.tell({"part": part, "name": "corpus", "error": f"{arguments.corpus} is not there: --make"})
                continue
            count = len(load(arguments.corpus))
            limit = min(until, start + 60 * arguments.minutes * 0.7)
            corpus_in_processes(results, arguments.corpus, list(range(count)) if numbers is None else numbers, limit)
        else:
            try:
                for found in function(device):
                    results.tell({"part": part, **found})
            except Exception as error:
                results.tell({"part": part, "error": f"{type(error).__name__}: {error}"})
        print(f"{part}: {time.monotonic() - start:.0f} s", flush=True)
        if time.monotonic() > until:
            break
    lines = results.read()
    begin = max(number for number, line in enumerate(lines) if "begin" in line)
    print(table(lines))
    return int(bool(failed_parts(lines[begin:])[0]))


def work(arguments: argparse.Namespace) -> int:
    """The process of the corpus."""
    results = Results(arguments.out / "results.jsonl")
    try:
        run_corpus(Driver(), load(arguments.corpus), json.load(sys.stdin), results.tell)
    except DriverError:
        return 3
    return 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--make", action="store_true", help="record the corpus, without a device")
    parser.add_argument("--scale", type=float, default=1.0, help="of the corpus")
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT") or ROOT / "build" / "on_gpu"))
    parser.add_argument("--only", action="append", choices=PARTS, help="one part; may be repeated")
    parser.add_argument("--failed", action="store_true", help="what failed before")
    parser.add_argument("--minutes", type=float, default=8.0, help="limit of all parts together")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make:
        make(arguments.corpus, arguments.scale)
        return 0
    return work(arguments) if arguments.worker else run(arguments)


if __name__ == "__main__":
    sys.exit(main())
