"""Recordings as plain data and pieces of bytes, for files: they are replayed by processes that trace nothing.

:class:`Packer` collects the pieces (kernels, contents of captured arrays) of several recordings; :class:`Unpacker`
makes recordings of what it has collected. Everything is numbers, texts, lists and dictionaries, as in JSON; functions
of expressions and fields of stages go by their names. Which kernels run elsewhere, their backend knows (``carrier``).

Some arguments may be *bound*: what they were becomes part of the recording.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from ..codegen.target import Target
from ..ir import build
from ..ir.extents import CONSTANT, CONTENT, OPERATION, SIZE, VALUE, Guard, Operation, Size, Terms
from ..ir.node import Node
from ..ops.steps import Step
from ..ops.table import EVALUATED, LITERAL
from ..types import JitBackend
from . import backends, exclusion
from .backend import KernelBackend, has_kernels
from .bounds import Access
from .contents import read_bytes
from .host import import_copy
from .recorder import Constant, HostCall, Reading
from .recording import Contents, Recording
from .stages import Made, Stage, Tables
from .steps import texts_of

__all__ = ["Packer", "Unpacker", "number_from", "number_in", "with_bound"]

_FUNCTIONS = {each.__name__: each for each in (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.neg,
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)}
_ROWS = {SIZE: "size", VALUE: "value", CONSTANT: "constant", OPERATION: "operation", CONTENT: "content"}
_ROW_NUMBERS = {name: kind for kind, name in _ROWS.items()}
#: What of a stage is written as it is; the others depend on the process, or are written in another way.
_FIELDS = [each.name for each in fields(Stage) if each.name not in ("kernel", "course", "step", "loaded", "releases")]
_EMPTY = Stage()
#: Steps may launch other texts for other sizes: those of arrays of so many elements, and of one more, are written.
_SIZES = [1 << bits for bits in range(1, 28)]


# --- numbers ----------------------------------------------------------------------------------------------------------

def number_in(value: Any) -> Any:
    """A number for JSON: with its type, and all of its bits."""
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    return value


def number_from(value: Any) -> Any:
    """The number again."""
    if isinstance(value, dict):
        if "float" in value:
            return float.fromhex(value["float"])
        return complex(*map(float.fromhex, value["complex"]))
    return value


# --- bound arguments --------------------------------------------------------------------------------------------------

def with_bound(recording: Recording, given: Mapping[int, Node]) -> Recording:
    """A recording of which some arguments, evaluated arrays or literals that share nothing with others, are part."""
    contents, kinds, aliases = recording.contents(), recording.pattern[3], recording.pattern[4]
    count = len(kinds) // 3
    kept = [number for number in range(count) if number not in given]
    order = [*kept, *given]
    new = {old: number for number, old in enumerate(order)}

    def place(old: int) -> int:
        return new.get(old, old)

    def row(kind: int, what: Any, operands: tuple[int, ...]) -> tuple[int, Any, tuple[int, ...]]:
        if kind not in (SIZE, VALUE):
            return kind, what, operands
        if what in given:
            return CONSTANT, given[what].size if kind == SIZE else given[what].payload, ()
        return kind, new[what], operands

    terms = Terms()
    terms.rows = [row(*each) for each in contents.rows]
    guards: list[Guard] = []
    guarded: list[int] = []
    for guard, number in zip(contents.guards, contents.guarded, strict=True):
        if number < 0:  # two arguments are equally large
            first, second = (each.argument for each in guard.expression.operands)  # type: ignore[union-attr]
            if first in given and second in given:
                continue
            if first in given or second in given:
                one, other = (second, first) if first in given else (first, second)
                size, number = given[other].size, len(terms.rows)
                terms.rows.append((SIZE, new[one], ()))
                guard = Guard(0, size, size, guard.reason)
            else:
                guard = guard._replace(expression=Operation(operator.sub, (Size(new[first]), Size(new[second]))))
        guards.append(guard)
        guarded.append(number)
    evaluated = [number for number in range(count) if kinds[3 * number] == EVALUATED]
    pairs = [(new[node], new[memory], new[number]) for number, (node, memory) in zip(evaluated, aliases, strict=False)
             if number not in given]
    shared = any(memory != number for _, memory, number in pairs)
    pattern = (*recording.pattern[:3], b"".join([kinds[3 * number:3 * number + 3] for number in kept]),
               tuple([(node, memory) for node, memory, _ in pairs]) if shared else ())
    return Recording(backend_of(recording), pattern, contents._replace(
        sizes=[contents.sizes[number] for number in kept], rows=terms.rows, guards=guards, guarded=guarded,
        pauses=[pause._replace(place=place(pause.place)) if isinstance(pause, Reading) else pause._replace(
            operands=tuple(map(place, pause.operands)), results=tuple([
                (place(where), type_, size) for where, type_, size in pause.results])) for pause in contents.pauses],
        captured=[*((new[number], node) for number, node in given.items()),
                  *((place(number), node) for number, node in contents.captured)],
        numbers=[(place(number), type_, term) for number, type_, term in contents.numbers],
        made=[each._replace(place=place(each.place)) for each in contents.made],
        written=sorted(map(place, contents.written)),
        results=[place(result) if isinstance(result, int) else result for result in contents.results],
        stages=[_moved(stage, new) for stage in contents.stages]))


def backend_of(recording: Recording) -> KernelBackend:
    """The backend that a recording launches on."""
    backend = recording.pattern[0]
    assert has_kernels(backend)
    return backend


def _moved(stage: Stage, new: Mapping[int, int]) -> Stage:
    """A stage with other numbers of places."""
    def moved(places: Sequence[int]) -> list[int]:
        return [new.get(place, place) for place in places]

    return Stage(**{name: getattr(stage, name) for name in (*_FIELDS, "kernel", "course", "step")} | {
        "places": moved(stage.places), "outputs": moved(stage.outputs), "undefined": moved(stage.undefined),
        "operands": moved(stage.operands), "written": [tuple(moved(pair)) for pair in stage.written],
        "tables": [each._replace(target=new.get(each.target, each.target), result=new.get(each.result, each.result))
                   for each in stage.tables]})


# --- out --------------------------------------------------------------------------------------------------------------

class Packer:
    """What becomes of recordings, of one backend, on their way to a file."""

    def __init__(self, backend: KernelBackend) -> None:
        carrier = backend.carrier
        if carrier is None:
            raise RuntimeError(f"kernels of the backend '{backend.name}' cannot be saved, those of LLVM only")
        self.backend, self._carrier = backend, carrier
        self.pieces: list[bytes] = []
        #: Facts of kernels, with the numbers of their pieces; by their keys.
        self._kernels: dict[str, tuple[int, Any, int]] = {}

    def environment(self) -> dict[str, Any]:
        """What a process must be like that is to replay what has been packed, with all kernels."""
        return {"backend": JitBackend(self.backend.where).name, **self._carrier.environment(),
                "kernels": [[facts, piece] for _, facts, piece in self._kernels.values()]}

    def piece(self, data: bytes) -> int:
        """The number of a piece."""
        self.pieces.append(data)
        return len(self.pieces) - 1

    def _kernel(self, facts: Any, pack: Any) -> int:
        """The number of a kernel."""
        known = self._kernels.get(facts[0])
        if known is None:
            known = self._kernels[facts[0]] = len(self._kernels), facts, self.piece(pack())
        return known[0]

    def array(self, node: Node) -> Any:
        """An evaluated array, or a literal."""
        if node.kind == EVALUATED:
            return {"type": node.type, "size": node.size, "where": int(node.where != 0),
                    "piece": self.piece(read_bytes(node, looks=False))}
        if node.kind == LITERAL:
            return {"type": node.type, "size": node.size, "value": number_in(node.payload), "attr": node.attr}
        return {"type": node.type}

    def recording(self, recording: Recording, general: bool) -> dict[str, Any]:
        """A recording, and whether it is good for arguments of other sizes."""
        contents = recording.contents()
        target = contents.target
        calls = [pause for pause in contents.pauses if isinstance(pause, HostCall)]
        if calls:
            raise RuntimeError(f"it calls {getattr(calls[0].function, '__name__', 'a function')}() on the host between "
                               "launches, which is no part of a file")
        self._add_texts(recording, contents, general)
        captured = {id(node): number for number, (_, node) in enumerate(contents.captured)}
        return {
            "flags": recording.pattern[2], "kinds": recording.pattern[3].hex(),
            "aliases": list(map(list, recording.pattern[4])),
            "one_thread": target.threads == 1, "sensitive": contents.sensitive, "sizes": contents.sizes,
            "rows": [[_ROWS[kind], _function_name(what) if kind == OPERATION else number_in(what), list(operands)]
                     for kind, what, operands in contents.rows],
            "guards": [[number, *([each.argument for each in guard.expression.operands]  # type: ignore[union-attr]
                                  if number < 0 else [number_in(guard.low), number_in(guard.high)]), guard.reason]
                       for guard, number in zip(contents.guards, contents.guarded, strict=True)],
            "readings": list(map(list, contents.pauses)),
            "captured": [[place, self.array(node)] for place, node in contents.captured],
            "numbers": list(map(list, contents.numbers)), "made": list(map(list, contents.made)),
            "places": contents.places, "written": contents.written, "order": contents.order,
            "results": [self._result(result, captured) for result in contents.results],
            "stages": list(map(self._stage, contents.stages)),
        }

    def _result(self, result: Any, captured: Mapping[int, int]) -> Any:
        if isinstance(result, int):
            return result
        if isinstance(result, Constant):
            return {"constant": list(result)}
        if id(result) in captured:
            return {"captured": captured[id(result)]}
        return {"node": self.array(result)}

    def _stage(self, stage: Stage) -> dict[str, Any]:
        found = {name: value for name in _FIELDS if (value := getattr(stage, name)) != getattr(_EMPTY, name)}
        if stage.kernel is not None:
            found["kernel"] = self._kernel(self._carrier.facts(stage.kernel),
                                           lambda: self._carrier.packed(stage.kernel))
            found["course"] = list(stage.course)
            addresses = {number for number, place in enumerate(stage.places) if place >= 0} | {*stage.slots}
            found["words"] = [0 if number in addresses else word for number, word in enumerate(stage.words)]
        if stage.step is not None:
            found["step"] = list(stage.step)
        return found

    def _add_texts(self, recording: Recording, contents: Contents, general: bool) -> None:
        """Add the kernels that steps launch: for the sizes that it was made for, and others if it is good for them."""
        sizes = contents.sizes
        stages = [stage for stage in contents.stages if stage.step is not None]
        if not stages:
            return
        kinds, rows = recording.pattern[3], contents.rows
        others = [[size if size <= 1 else most + more for size in sizes] for most in _SIZES for more in (0, 1)] \
            if general else []
        for case in [sizes, *others]:
            nodes = {number: _like(kinds[3 * number + 1], size) for number, size in enumerate(case)}
            nodes.update(dict(contents.captured))
            values = _values(rows, case, contents.pauses)
            for place, type_, size, number in contents.made:
                nodes[place] = _like(type_, size if number < 0 or values is None else values[number])
            for stage in stages:
                if values is None and case is not sizes:
                    continue
                assert stage.step is not None
                results = {position: nodes[place] for position, place in zip(
                    stage.positions, stage.outputs, strict=True)}
                try:
                    texts = texts_of(self.backend, stage.step, [nodes[place] for place in stage.operands], results,
                                     contents.target)
                except (ArithmeticError, ValueError, AssertionError):  # sizes that do not go together
                    continue
                for text in texts:
                    self._kernel(self._carrier.facts_of_text(text), lambda text=text: self._carrier.packed_text(text))


def _function_name(function: Any) -> str:
    name = getattr(function, "__name__", "")
    if _FUNCTIONS.get(name) is not function:
        raise RuntimeError(f"a size is computed by a function that has no name in files, {function!r}")
    return str(name)


def _like(type_: int, size: int) -> Node:
    """A node that says of what type and how large an array is."""
    return build.undefined(type_, max(int(size), 1))


def _values(rows: Sequence[Any], sizes: Sequence[int], pauses: Sequence[Any]) -> list[Any] | None:
    """What expressions are for some sizes; ``None`` if they are not defined."""
    found: list[Any] = []
    try:
        for kind, what, operands in rows:
            found.append(sizes[what] if kind == SIZE else pauses[what].value if kind == CONTENT else 1 if kind == VALUE
                         else what if kind == CONSTANT else what(*[found[number] for number in operands]))
    except ArithmeticError:
        return None
    return found


# --- in ---------------------------------------------------------------------------------------------------------------

class Unpacker:
    """What makes recordings of what a :class:`Packer` has packed."""

    def __init__(self, environment: Mapping[str, Any], pieces: Sequence[bytes]) -> None:
        """Raises a ``RuntimeError`` if kernels cannot run here."""
        backend = backends.backend_of(JitBackend[environment["backend"]].value)
        carrier = backend.carrier if has_kernels(backend) else None
        if not has_kernels(backend) or carrier is None:
            raise RuntimeError(f"kernels of the backend '{backend.name}' cannot be loaded")
        obstacle = carrier.obstacle(environment)
        if obstacle:
            raise RuntimeError(obstacle)
        self.backend, self._carrier, self._pieces = backend, carrier, pieces
        with exclusion.lock:
            self._target: Target = backend.target()
        #: Whoever uses the recordings keeps them: steps find theirs among them.
        self.kernels = [carrier.unpacked(facts, pieces[piece]) for facts, piece in environment["kernels"]]

    def array(self, data: Mapping[str, Any]) -> Node:
        """An array."""
        if "piece" in data:
            node = import_copy(data["type"], self._pieces[data["piece"]], self.backend.where if data["where"] else 0)
            if node.size != data["size"]:
                raise ValueError(f"an array of {node.size} elements was one of {data['size']}")
            return node
        if "value" in data:
            return build.literal(data["type"], number_from(data["value"]), data["size"], data["attr"])
        return build.invalid(data["type"])

    def recording(self, data: Mapping[str, Any]) -> Recording:
        """A recording."""
        kinds = bytes.fromhex(data["kinds"])
        captured = [(place, self.array(node)) for place, node in data["captured"]]
        guards, guarded = [], []
        for number, first, second, reason in data["guards"]:
            guarded.append(number)
            guards.append(Guard(Operation(operator.sub, (Size(first), Size(second))), 0, 0, reason) if number < 0 else
                          Guard(0, number_from(first), number_from(second), reason))
        contents = Contents(
            self._target._replace(threads=1) if data["one_thread"] else self._target, data["sensitive"],
            data["sizes"],
            [(_ROW_NUMBERS[kind], _FUNCTIONS[what] if kind == "operation" else number_from(what), tuple(operands))
             for kind, what, operands in data["rows"]],
            guards, guarded, [Reading(*each) for each in data["readings"]], captured,
            list(map(tuple, data["numbers"])), [Made(*each) for each in data["made"]],
            data["places"], data["written"], data["order"],
            [self._result(result, captured) for result in data["results"]], list(map(self._stage, data["stages"])))
        return Recording(self.backend, self.pattern(data["flags"], kinds, data["aliases"]), contents)

    def pattern(self, flags: int, kinds: bytes, aliases: Sequence[Sequence[int]]) -> Any:
        """What arguments must have in common, where this process is as it is now."""
        return self.backend, self.backend.recipes.target_number(), flags, kinds, tuple(map(tuple, aliases))

    def _result(self, result: Any, captured: Sequence[tuple[int, Node]]) -> Any:
        if isinstance(result, int):
            return result
        if "constant" in result:
            return Constant(*result["constant"])
        return captured[result["captured"]][1] if "captured" in result else self.array(result["node"])

    def _stage(self, data: dict[str, Any]) -> Stage:
        found: dict[str, Any] = {name: data[name] for name in _FIELDS if name in data}
        for name, make in (("links", tuple), ("moves", tuple), ("functions", tuple), ("written", tuple),
                           ("reports", tuple), ("tables", _table), ("accesses", _access)):
            if name in found:
                found[name] = [make(each) for each in found[name]]
        if "arrays" in found:
            found["arrays"] = tuple(found["arrays"])
        if "kernel" in data:
            found.update(kernel=self.kernels[data["kernel"]], course=self._carrier.course(data["course"]))
        if "step" in data:
            name, options, extents = data["step"]
            found["step"] = Step(name, tuple(options), tuple(extents))
        return Stage(**found)


def _table(fields: Sequence[int]) -> Tables:
    return Tables(*fields)


def _access(fields: Sequence[Any]) -> Access:
    return Access(*fields)
