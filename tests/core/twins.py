"""What the rooms do of which there are two texts, as text: a program that runs in either form (see test_twins.py)."""

from __future__ import annotations

import copy
import ctypes
import gc
import inspect
import json
import math
import pickle
import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import drjit as dr
from drjit._base import handle
from drjit.llvm import Array2f, Array22f, Float, TensorXf
from drjit.llvm import ad as diff
from drjit_core import context, literal, ops, types
from drjit_core.ir import frames, node, number, trace, vertex
from drjit_core.ops import derivatives
from drjit_core.ops.table import EVALUATED, OPS
from drjit_core.runtime import buffer, elements, heap
from drjit_core.runtime.memory import System

TYPES = [type_ for type_, info in enumerate(types.TYPES) if info is not None]


def attempt(function: Callable[..., Any], *args: Any) -> Any:
    """What a function returns or raises."""
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__, str(error)


def of_elements() -> Iterator[Any]:
    bits = random.Random(1)
    memory = (ctypes.c_uint8 * 512)(*bits.randbytes(512))
    address = ctypes.addressof(memory)
    for type_ in TYPES:
        for index in range(512 // types.TYPES[type_].size):
            yield elements.peek(type_, address, index)
        for value in (0, 1, 2, 127, -1, -128, 255, 1 << 31, (1 << 64) - 1, 0.5, -0.0, 65504.0, 1e6, math.inf, math.nan,
                      True, "x", None):
            yield elements.copied(address + 3, type_)
            found = attempt(elements.pack, type_, value)
            yield types.TYPES[type_].name, value, found, found.__class__ is bytes and elements.unpack(type_, found)
    called: list[int] = []
    ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(elements.destructor(called.append))(7)
    yield called


def of_heap() -> Iterator[Any]:
    waits: list[None] = []
    own = heap.Heap(System(lambda: waits.append(None)))
    for exponent in range(42):
        for distance in (-513, -512, -1, 0, 1):
            size = (1 << exponent) + distance
            yield own.size_class(max(size, 0))
    draw, held = random.Random(2), []
    first: dict[int, int] = {}  # numbers of blocks, by their addresses
    for _ in range(400):
        if held and draw.random() < 0.5:
            own.release(held.pop(draw.randrange(len(held))))
        else:
            block = own.allocate(draw.choice([0, 1, 64, 65, 1000, 5000, 100_000, 1 << 20, 3 << 20]))
            yield first.setdefault(block.address, len(first)), block.capacity, block.address % 64, block.ticket
            ctypes.memset(block.address, 1, block.capacity)
            block.ticket = draw.randrange(100)
            held.append(block)
        yield own.statistics()
    own.reset_peak()
    yield own.statistics()
    while held:
        own.release(held.pop())
    own.flush()
    yield own.statistics(), len(waits)
    yield attempt(own.allocate, 1 << 60)
    yield attempt(heap.Block, own, 64, 128, None).capacity


class Backend:
    """Gets blocks back."""

    def __init__(self) -> None:
        self.released: list[Any] = []

    def release(self, block: Any) -> None:
        self.released.append((block.name, block.ticket))


class Block:
    def __init__(self, name: str, ticket: int) -> None:
        self.name, self.ticket = name, ticket


def of_buffer() -> Iterator[Any]:
    def fields(each: Any) -> Any:
        return (each.address, each.nbytes, each.padded, each.read_only, each.exported, each.ticket,
                each.backend is backend, type(each).__name__)

    backend: Any = Backend()
    own, eternal = buffer.Buffer(backend, 4096, 100, Block("a", 7)), buffer.Buffer(backend, 128, 4)
    yield fields(own), fields(eternal)
    own.ticket = 12
    part = buffer.view(own, 16, 32)
    yield fields(part)
    for ticket in (5, 30):
        other = buffer.view(part, 1, 2)
        other.ticket = ticket
        del other
        yield part.ticket, own.ticket
    own.exported = eternal.read_only = True
    yield fields(own), fields(eternal)
    for each in (own, eternal, part):
        yield attempt(copy.copy, each), attempt(copy.deepcopy, each), attempt(pickle.dumps, each)
    dead = weakref.ref(own)
    del own, each
    yield dead() is None, list(backend.released)
    del part
    gc.collect()
    yield dead() is None, list(backend.released)
    owner = Block("owner", 0)
    alive = weakref.ref(owner)
    shared = buffer.share(backend, 64, 8, owner)
    owner.name = shared  # a cycle
    yield fields(shared), isinstance(shared, buffer.Buffer)
    del owner, shared
    gc.collect()
    yield alive() is None, backend.released


#: What a context has, with values to set.
ATTRIBUTES = {"flags": 5, "mode": -1, "region": None, "scope": 9, "recording": None, "backend": None, "branches": "few",
              "derivatives": None, "acting": True, "open": {1: 2}, "scheduled": [1], "statements": [2], "queued": [3],
              "queue": 4, "boundary": [5]}


def of_context() -> Iterator[Any]:
    def values() -> list[tuple[str, Any]]:
        return [(name, getattr(context.state, name)) for name in ATTRIBUTES]

    def in_thread() -> None:
        found.append(values())
        for name, value in ATTRIBUTES.items():
            setattr(context.state, name, value)
        found.append(values())
        found.append([getattr(context.current(), name) for name in ATTRIBUTES])
        context.current().flags = 77
        found.append(context.state.flags)

    found: list[Any] = []
    yield context.DEFAULT_FLAGS, values(), hasattr(context.state, "other")
    for _ in range(2):
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
    yield found, values()


NUMBERS = [0, 1, -1, 2, 127, 128, -128, -129, 255, 256, 32767, 65535, 65536, 1 << 31, -(1 << 31), (1 << 31) - 1,
           1 << 32, (1 << 32) - 1, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1, 1 << 63, -(1 << 63), (1 << 64) - 1, 1 << 64,
           10**38, 10**39, 10**308, 10**309, 10**400, 0.0, -0.0, 1.0, -1.0, 0.5, 0.1, 1e-45, 1e-46, 5e-324, 1e-8,
           65504.0, 65519.0, 65520.0, 3.5e38, 1e300, math.inf, -math.inf, math.nan, -math.nan, True, False, None, "1",
           1j, Decimal(1)]


def of_number() -> Iterator[Any]:
    for _ in range(2):  # the second time they are known
        kept = []
        for type_ in TYPES:
            for value in NUMBERS:
                found = number.number(type_, value)
                kept.append(found)
                if found is None:
                    yield type_, value, None
                else:
                    yield (type_, value, found.kind, found.type, found.size, found.attr, found.payload, found.scope,
                           found is number.number(type_, value), found is literal(type_, value))
        numbers = {id(each): k for k, each in enumerate(kept)}
        yield [numbers[id(each)] for each in kept]
    assert len(number.recent_literals()) <= 1024


def of_frames() -> Iterator[Any]:
    def frame_in(module: str | None) -> Any:
        names: dict[str, Any] = {"sys": sys}
        if module is not None:
            names["__name__"] = module
        exec("def asked(): return sys._getframe()", names)
        return names["asked"]()

    def place_in(*modules: str) -> Any:
        """The user's place, as seen from functions of modules that call each other, the last one outermost."""
        function: Any = frames.user_place
        for module in modules:
            names: dict[str, Any] = {"function": function, "__name__": module}
            exec(f"def of_{module.replace('.', '_')}():\n    x = 1\n    return function()", names)
            function = names[f"of_{module.replace('.', '_')}"]
        code, position = function()
        return code.co_name, list(code.co_positions())[position // 2]  # which of an instruction's words does not matter

    for module in ("drjit", "drjit.llvm", "drjit_core.ir.node", "drjit_program", "contextlib", "mydrjit", "",
                   "__main__", "numpy", "drjit_core", None):
        for _ in range(2):
            yield module, frames.is_internal(frame_in(module))
    for modules in (("mine",), ("drjit._base",), ("drjit.llvm", "mine"), ("contextlib", "drjit", "you")):
        yield place_in(*modules)

    def plain(a: int, b: int = 3, *, c: int = 4) -> int:
        return a + b + c

    def closing() -> Any:
        return plain, bits

    bits = [1, 2]
    closing.seen = "an attribute"  # type: ignore[attr-defined]
    for function in (plain, closing, lambda: None, lambda *, by=2: by, attempt, of_frames):
        cells = frames.closure_of(function)
        yield frames.further_of(function), frames.keyword_defaults_of(function), frames.names_nothing(function.__code__)
        yield (frames.code_of(function) is function.__code__, frames.defaults_of(function), None if cells is None else
               [cell is own for cell, own in zip(cells, function.__closure__, strict=True)],
               frames.globals_of(function) is function.__globals__)


class Names:
    """Nodes by numbers of their own."""

    def __init__(self) -> None:
        self.known: dict[int, int] = {}

    def __call__(self, each: node.Node | None) -> Any:
        return None if each is None else self.known.setdefault(each.id, len(self.known))

    def fields(self, each: node.Node) -> Any:
        found = [getattr(each, name) for name in node.FIELDS]
        return self(each), [self(entry) if isinstance(entry, node.Node) else entry
                            for name, entry in zip(node.FIELDS, found, strict=True) if name != "id"]


def traced(seed: int) -> list[node.Node]:
    """A random program, in which much is there already."""
    draw = random.Random(seed)
    found = [trace.opaque(literal(types.FLOAT32, 1.5, 8)), trace.opaque(literal(types.FLOAT32, 2.5, 8)),
             literal(types.FLOAT32, 0.25), literal(types.FLOAT32, -0.0, 8), literal(types.FLOAT32, math.nan, 8)]
    one = [ops.sqrt, ops.abs, ops.neg]
    two = [ops.add, ops.mul, ops.sub, ops.minimum, ops.maximum]
    for _ in range(300):
        a, b, c = (draw.choice(found[-12:] + found[:5]) for _ in range(3))
        choice = draw.randrange(10)
        found.append(draw.choice(one)(a) if choice < 3 else ops.fma(a, b, c) if choice == 9 else draw.choice(two)(a, b))
    return found


def of_node() -> Iterator[Any]:
    for value in (True, False, 0, 1, -1, 2**31, 2**32 - 1, 2**32, 2**64, 10**400, -0.0, 0.1, 3.4e38, 3.5e38, 1e-46,
                  1e300, math.inf, math.nan):
        yield [repr(attempt(node.normalise, type_, value)) for type_ in TYPES]
    name = Names()
    gc.collect()
    node.sweep()
    start = node.new_id()

    def living() -> int:
        return sum(getattr(each, "id", 0) > start for each in node.live_nodes())

    found = traced(5)
    yield [name.fields(each) for each in found]
    again = traced(5)[5:]  # of other memory
    yield [name.fields(each)[1][:3] for each in again]
    node.sweep()
    yield living(), len(node.live_nodes()) == node.node_count(), 300 < node.numbered_count() <= node.node_count()
    for each in found[5:]:
        kind, operands = each.kind, [d for d in (each.d0, each.d1, each.d2) if d is not None]
        if OPS[kind].name in ("sqrt", "abs", "neg", "add", "mul", "sub", "minimum", "maximum", "fma"):
            for mode in (0, -1):
                search: Any = {1: node.find1, 2: node.find2, 3: node.find3}[len(operands)]
                yield name(search(kind, *operands, mode))
        else:
            yield name(node.find(kind, each.type, each.size, each.d0, each.d1, each.d2, each.d3, each.attr,
                                 each.payload, 0))
    each = found[-1]
    for forgotten in found[100:110]:
        node.forget(forgotten)
        operands = [d for d in (forgotten.d0, forgotten.d1, forgotten.d2) if d is not None]
        yield [name(search(forgotten.kind, *operands, 0))
               for search in ({1: node.find1, 2: node.find2, 3: node.find3}[len(operands)],)] if operands else None
        node.enter(forgotten, 0)
    own = node.blank_node()
    own.kind, own.type, own.size, own.id = OPS.index(OPS[found[0].kind]), types.FLOAT32, 8, node.new_id()
    own.d0 = own.d1 = own.d2 = own.d3 = own.payload = None
    own.attr, own.scope, own.where = 3, 0, found[0].where
    yield name.fields(own), repr(own).replace(f"n{own.id}", "n")
    key = (12345, 6, own.id)
    yield name(node.remembered(key))
    node.remember(key, own)
    yield name(node.remembered(key)), node.new_id() > own.id
    dead = weakref.ref(own)
    own.become_evaluated("a buffer")
    yield name.fields(own)
    del own
    yield dead() is None, node.remembered(key)
    yield attempt(type, "Sub", (node.Node,), {})[0], attempt(copy.copy, each), attempt(pickle.dumps, each)
    yield isinstance(node.imported_node(), node.Node)
    # parts of a region
    plain = bytes(int(kind > EVALUATED) for kind in range(len(OPS)))
    parts = ((found[-1], found[-5]), (found[-9], found[-2]))
    for known in ((), (found[50], found[60])):
        for scope in (7, 0):
            for place, entry in enumerate(found):
                entry.scope = scope if place % 3 else 0
            groups, users, captures, needed = node.collect(scope, known, parts, plain, lambda _: ())
            yield [[name(entry) for entry in group] for group in (*groups, users, captures)]
        yield sorted(known.index(entry) for entry in known if entry.id in needed)
    del found, again, each, groups, users, captures, known, parts, forgotten, operands
    gc.collect()
    yield living()
    node.sweep_if_large()


def of_vertex() -> Iterator[Any]:
    rule = next(row.derivative for row in OPS if row.name == "mul")
    assert isinstance(rule, derivatives.Rule)
    start, any_before = vertex.last_vertex(), vertex.any_vertex()
    leaf = vertex.Vertex(vertex.LEAF, types.FLOAT32, 4)
    second = vertex.new_vertex(rule, types.FLOAT32, 4, leaf, None, None)
    third = vertex.Vertex(rule, types.FLOAT64, 1, second, leaf, second, info=(1, 2))
    hub = vertex.Vertex(vertex.HUB, types.FLOAT32, 2, info=type("Inputs", (), {"inputs": (leaf, third)})())
    made = [leaf, second, third, hub]
    names = {id(each): k for k, each in enumerate(made)} | {id(None): None}

    def fields(each: vertex.Vertex) -> Any:
        return (each.type, each.size, each.name, [names[id(entry)] for entry in (each.a, each.b, each.c)],
                each.x, each.y, each.z, each.r, each.gradient, each.pending, each.sparse, each.label, each.scope,
                each.member, each.depended, each.noted, each.queued, [names[id(entry)] for entry in each.operands()])

    yield any_before, vertex.any_vertex(), [fields(each) for each in made], third.info
    yield sorted(each.id for each in made) == [each.id for each in made] and leaf.id > start
    yield [names[id(each)] for each in vertex.live_vertices(start)], vertex.last_vertex() >= hub.id
    yield [names[id(each)] for each in vertex.live_vertices(third.id)]
    second.sparse, second.label, second.queued, second.x = True, "x", -4, literal(types.FLOAT32, 2.5)
    yield second.sparse, second.label, second.queued, second.x.payload
    vertex.begin_era()
    yield [each.era - leaf.era for each in (*made, vertex.Vertex(vertex.LEAF, types.FLOAT32, 1))]
    for each in (second, leaf):
        each.release()
        yield fields(each)
    yield attempt(copy.copy, leaf), attempt(pickle.dumps, leaf)
    dead = [weakref.ref(each) for each in made] if hasattr(vertex.Vertex, "__weakref__") else []
    del made, each, second
    yield [names[id(each)] for each in vertex.live_vertices(start)]
    del third, hub, leaf
    gc.collect()
    yield vertex.live_vertices(start), [reference() for reference in dead if reference() is not None]
    region = type("Region", (), {"id": 17})()
    context.state.region = region
    yield attempt(lambda: vertex.Vertex(vertex.LEAF, types.FLOAT32, 1).scope)
    context.state.region = None


def of_handle() -> Iterator[Any]:
    gc.collect()
    count = len(handle.live_arrays())
    v, m, x, t = Array2f([1, 2], 3), Array22f([1, 2], [3, 4]), Float(1, 2), TensorXf([1, 2], (2,))
    yield len(handle.live_arrays()) - count
    yield handle.held(x) is x._n, handle.held(t) is t._n, [handle.is_flat(each) for each in (v, m, x, t, t.array)]
    yield [handle.is_younger(*each) for each in ((t, x), (x, t), (x, x))]
    yield handle.view_at(v, 0), handle.views(v)
    first = v.x
    yield handle.view_at(v, 0) is first, handle.view_at(v, 1), [k for k, _ in handle.views(v)], v.x is first
    made: Any = handle.flat_component(v, 1)
    yield made._n is v._c[1], handle.view_at(v, 1) is made, handle.flat_component(v, 2), handle.flat_component(m, 0)
    made += 4
    yield repr(v), [k for k, _ in handle.views(v)]
    view: Any = handle.fresh_array(Float)
    view._n = v._c[0]
    handle.add_view(v, 0, view, 0)
    view *= 2
    yield repr(v), handle.view_at(v, 0) is view
    row = m[1]
    row.x = 9
    yield repr(m), repr(row), [k for k, _ in handle.views(m)]
    first = v.x
    found = {v._c[0].id: -1, x._n.id: -1}
    handle.count_holders(found)
    yield *found.values(), len(handle.live_arrays()) - count
    gone = weakref.ref(first)
    del first
    yield gone() is None, handle.view_at(v, 0), [k for k, _ in handle.views(v)]
    del v
    yield repr(made)
    made += 1
    yield repr(made)
    for cls in (Float, Array2f, TensorXf, diff.Float, diff.Array2f):
        raw: Any = handle.fresh_array(cls)
        plain = handle.fresh(cls)
        yield type(raw) is cls, type(plain) is cls, isinstance(raw, handle.Handle)

    class Mine(Float):
        """A type of a program's own."""

    own: Any = Mine(1, 2)
    own.name, own.self = "mine", own
    alive = weakref.ref(own)
    yield type(own).__name__, own.name, repr(own + 1), type(own + 1).__name__
    del own
    gc.collect()
    yield alive() is None
    del m, row, x, t, made, raw, plain, view
    gc.collect()
    yield len(handle.live_arrays()) - count


def main() -> None:
    """Print what each of the rooms does."""
    found = {name.removeprefix("of_"): [repr(each) for each in function()] for name, function in list(globals().items())
             if name.startswith("of_") and inspect.isgeneratorfunction(function)}
    dr.sync_thread()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
