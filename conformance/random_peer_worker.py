"""One of the two interpreters of ``random_peer.py``: makes random programs, or replays programs that were made.

    python conformance/random_peer_worker.py make FIRST COUNT OUT      the programs of seeds, with results of each step
    python conformance/random_peer_worker.py replay IN OUT [SKIP …]    each step again, on the operands it had there

Files hold one JSON object a line, a program each; numbers are kept bit by bit. ``replay`` uses whatever ``drjit`` the
interpreter has. It appends a line with the seed and the step to ``OUT.progress`` before it runs a step, so that who
started it knows where it crashed; ``SKIP`` are such lines (``SEED:STEP``), of steps to leave out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from random_programs.programs import (  # noqa: E402
    Program,
    Raised,
    Step,
    Value,
    build,
    extract,
    namespace,
    perform,
    run,
)

#: Text of results up to this many components is compared.
_PRINTED = 400


def encode_value(value: Value) -> list[Any]:
    """A value as JSON."""
    parts = [[part.dtype.name, part.tobytes().hex()] if isinstance(part, np.ndarray) else
             ["python", part.hex() if isinstance(part, float) else part] for part in value.parts]
    return [value.type, parts, value.shape, value.literal]


def decode_value(data: list[Any]) -> Value:
    """A value from JSON."""
    name, parts, shape, literal = data

    def part(kind: str, content: Any) -> Any:
        if kind == "python":
            return float.fromhex(content) if name == "float" else content
        return np.frombuffer(bytes.fromhex(content), kind)

    return Value(name, tuple(part(*entry) for entry in parts), None if shape is None else tuple(shape), literal)


def outcome(result: Any, api: Any) -> dict[str, Any]:
    """What a step did, as JSON."""
    if isinstance(result, Raised):
        return {"raised": result.name, "message": result.message}
    value = extract(result)
    found = {"module": type(result).__module__, "value": encode_value(value)}
    if isinstance(result, api.ArrayBase):
        found["shape"] = list(api.shape(result))
        if sum(part.size for part in value.parts) <= _PRINTED:
            found["text"] = repr(result).replace("-nan", "nan")  # the sign of a NaN is nobody's business
    return found


def make(first: int, count: int, out: Path) -> None:
    """Write programs with the results of their steps, computed together as far as they go."""
    sys.path[:0] = [str(ROOT), str(ROOT / "compiler")]
    from random_programs.generator import generate

    import drjit as api
    from drjit import llvm

    api.set_flag(api.JitFlag.FastMath, False)
    with out.open("w", encoding="utf-8") as file:
        for seed in range(first, first + count):
            program = generate(seed, api, llvm, sums=True)
            results = run(program, api, llvm)
            api.eval([result for result in results.values() if isinstance(result, api.ArrayBase)])
            steps = [{"step": step, "outcome": outcome(results[step.target], api)} for step in program.steps]
            inputs = {name: encode_value(value) for name, value in program.inputs.items()}
            file.write(json.dumps({"seed": seed, "inputs": inputs, "steps": steps}) + "\n")


def decode_program(data: dict[str, Any]) -> tuple[Program, dict[str, Value], list[dict[str, Any]]]:
    """A program, the values of its inputs and results, and the outcomes of its steps."""
    steps = tuple(Step(target, op, text, tuple(uses)) for target, op, text, uses in
                  (entry["step"] for entry in data["steps"]))
    inputs = {name: decode_value(value) for name, value in data["inputs"].items()}
    values = dict(inputs)
    for entry in data["steps"]:
        if "value" in entry["outcome"]:
            values[entry["step"][0]] = decode_value(entry["outcome"]["value"])
    return Program(data["seed"], False, inputs, steps), values, [entry["outcome"] for entry in data["steps"]]


def run_step(step: Step, values: dict[str, Value], api: Any, package: Any) -> Any:
    """Run a step on its own."""
    names = namespace(api, package)
    try:
        for name in step.uses:
            names[name] = build(package, values[name], api.make_opaque)
    except Exception as error:
        return Raised("operand", f"{type(error).__name__}: {error}")
    return perform(step, names)


def replay(programs: Path, out: Path, skip: set[str]) -> None:
    """Run the steps of programs, each by itself."""
    import drjit as api
    from drjit import llvm

    api.set_flag(api.JitFlag.FastMath, False)
    with programs.open(encoding="utf-8") as source, out.open("a", encoding="utf-8") as file, \
            Path(f"{out}.progress").open("a", encoding="utf-8") as progress:
        for line in source:
            program, values, _ = decode_program(json.loads(line))
            if f"{program.seed}:done" in skip:
                continue
            found = []
            for position, step in enumerate(program.steps):
                mark = f"{program.seed}:{position}"
                if mark in skip:
                    found.append({"crashed": True})
                    continue
                progress.write(mark + "\n")
                progress.flush()
                try:
                    found.append(outcome(run_step(step, values, api, llvm), api))
                except Exception as error:
                    found.append({"raised": type(error).__name__, "message": f"when read: {error}"})
            file.write(json.dumps({"seed": program.seed, "steps": found}) + "\n")
            file.flush()


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    else:
        replay(Path(sys.argv[2]), Path(sys.argv[3]), set(sys.argv[4:]))
