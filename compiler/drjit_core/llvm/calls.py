"""LLVM text of calls: the elements of a packet go through one target after the other.

Arguments and results lie in memory of the caller, a *slot* for each packet.  A table has an entry for each target: the
address of its function, that of its record, which is to the function what the parameters are to a kernel, and the
address of another form of the function, which takes elements of all targets that share it: a packet of records, and
gathers what it needs of them.  The caller's text says nothing of the number of targets.
"""

from __future__ import annotations

from ..codegen.linear import Function, Instruction
from ..codegen.records import ENTRY_WORDS
from ..types import BOOL, UINT32
from .function import FunctionEmitter
from .module import ModuleContext
from .texts import TypeText, zero
from .writer import Writer

__all__ = ["call", "name_of_function", "target"]

#: The elements of a packet are taken target by target where there are no more of these, as far as the number of
#: elements of the first one tells. 1M elements on one thread, a function of 30 literals: of two targets a packet 4.9 ms
#: (together 13.9), of sixteen 51.4 (20.9); of one literal and one array: 2.6 (4.1), 15.7 (4.5).
_FEW_TARGETS = 5
_ENTRY = f"[{ENTRY_WORDS} x ptr]"


def name_of_function(number: int, records: bool = False) -> str:
    """The symbol of a kernel's function, or of that which takes several records."""
    return f"{'shared' if records else 'target'}{number}"


def _slot_bytes(emitter: FunctionEmitter) -> int:
    return max(64, 8 * emitter.lanes)


def call(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A call."""
    site, (target, wanted, *_), uniform, w = (instruction.site, instruction.operands, instruction.uniform,
                                              emitter.writer)
    assert site is not None
    types, size = emitter.types(uniform), _slot_bytes(emitter)
    mask, words, bits = types[BOOL], types[UINT32], "i8" if uniform else f"i{emitter.lanes}"
    count = len(site.arguments) + len(site.results) + len(site.extras)
    shared = site.shared and not uniform
    slots = emitter.prologue(f"alloca [{max(count + shared, 1) * size} x i8], align 64")

    def at(place: int) -> str:
        return w.beyond(slots, place * size)

    def put(place: int, value: Instruction) -> None:
        text = emitter.to_memory(emitter.value(value, uniform), value.type, uniform)
        w.store(emitter.stored_type(value.type, uniform), text, at(place), 64)

    first_result = len(site.arguments)
    for place, value in enumerate(site.arguments):
        put(place, value)
    for place, type_ in enumerate(site.results, first_result):
        stored = emitter.stored_type(type_, uniform)
        w.store(stored, zero(stored), at(place), 64)
    for place, value in enumerate(site.extras, first_result + len(site.results)):
        put(place, value)

    table, limit = emitter.parameter(site.slot, "ptr"), emitter.parameter(site.slot + 1, "i32")
    if not uniform:
        limit = emitter.broadcast(limit, words)
    index = emitter.value(target, uniform)
    known = w(f"icmp ult {words} {index}, {limit}")
    all_ = w(f"and {mask} {emitter.value(wanted, uniform)}, {emitter.active_mask(uniform)}")
    all_, done = w(f"and {mask} {all_}, {known}"), w.label("done")

    def run(entry: str, chosen: str) -> None:
        """Call the function of an entry for some lanes, which are bits."""
        function, record = w(f"load ptr, ptr {entry}"), w(f"load ptr, ptr {w.at('ptr', entry, 1)}")
        w.line(f"call void {function}(ptr {record}, {bits} {chosen}, ptr {slots})")

    if uniform:
        w.only_if(all_, done)
        chosen, number = w(f"zext i1 {all_} to i8"), w(f"zext i32 {index} to i64")
        run(w.at(_ENTRY, table, number), chosen)
        w.go(done)
    else:
        before, head = w.here, w.label("head")
        w.go(head)
        w.open(head)
        rest, meet = w.late_phi(mask)
        rest_bits = emitter.bits_of(rest)
        w.only_if(w(f"icmp ne {bits} {rest_bits}, 0"), done)
        first = w.call(bits, f"llvm.cttz.{bits}", f"{bits} {rest_bits}", "i1 true")
        first_target = w(f"extractelement {words} {index}, {bits} {first}")
        same = w(f"icmp eq {words} {index}, {w.splat(words, first_target)}")
        now = w(f"and {mask} {rest}, {same}")
        chosen = emitter.bits_of(now)
        following = _without(w, mask, rest, now)
        entry = w.at(_ENTRY, table, w(f"zext i32 {first_target} to i64"))
        lefts = []
        if shared:
            function = w(f"load ptr, ptr {w.at('ptr', entry, 2)}")
            count_of_first, count_of_rest = _popcount(w, chosen, bits), _popcount(w, rest_bits, bits)
            many = w(f"mul i32 {count_of_first}, {_FEW_TARGETS}")
            are_few = w(f"icmp uge i32 {many}, {count_of_rest}")
            is_own = w(f"icmp eq ptr {function}, null")
            single, several = w.label("single"), w.label("several")
            w.fork(w(f"or i1 {are_few}, {is_own}"), single, several)
            w.open(several)
            lefts.append((_several_targets(emitter, table, index, rest, function, slots, at(count)), several))
            w.go(head)
            w.open(single)
        run(entry, chosen)
        meet((all_, before), (following, w.here), *lefts)
        w.go(head)
    w.open(done)
    results = []
    for place, type_ in enumerate(site.results, first_result):
        found = w.load(emitter.stored_type(type_, uniform), at(place), 64)
        results.append(emitter.from_memory(found, type_, uniform))
    emitter.results[instruction.number] = results
    emitter.define(instruction, "")


def _popcount(w: Writer, word: str, bits: str) -> str:
    return w.call("i32", "llvm.ctpop.i32", f"i32 {w(f'zext {bits} {word} to i32')}")


def _without(w: Writer, mask: TypeText, all_: str, some: str) -> str:
    """A mask without the lanes of another one."""
    others = w(f"xor {mask} {some}, {mask.splat('true')}")
    return w(f"and {mask} {all_}, {others}")


def _several_targets(emitter: FunctionEmitter, table: str, index: str, rest: str, function: str, slots: str,
                     memory: str) -> str:
    """Call a function with all elements whose targets share it; the mask of what is left."""
    w, lanes, mask, words = emitter.writer, emitter.lanes, emitter.packets[BOOL], emitter.packets[UINT32]
    pointers = f"<{lanes} x ptr>"

    def read(entries: str, word: int, where: str) -> str:
        at = w(f"getelementptr ptr, {pointers} {entries}, i64 {word}")
        return w.call(pointers, f"llvm.masked.gather.v{lanes}p0.v{lanes}p0", f"{pointers} {at}", "i32 8",
                      f"{mask} {where}", f"{pointers} zeroinitializer")

    indices = w(f"zext {words} {index} to <{lanes} x i64>")
    entries = w(f"getelementptr {_ENTRY}, ptr {table}, <{lanes} x i64> {indices}")
    functions = read(entries, 2, rest)
    first = w(f"insertelement {pointers} poison, ptr {function}, i32 0")
    all_ = w(f"shufflevector {pointers} {first}, {pointers} poison, <{lanes} x i32> zeroinitializer")
    equal = w(f"icmp eq {pointers} {functions}, {all_}")
    together = w(f"and {mask} {rest}, {equal}")
    w.store(pointers, read(entries, 1, together), memory, 64)
    w.line(f"call void {function}(ptr {memory}, i{lanes} {emitter.bits_of(together)}, ptr {slots})")
    return _without(w, mask, rest, together)


def target(module: ModuleContext, function: Function) -> str:
    """The text of a target's function; what it needs in turn is entered among the helpers of the module."""
    emitter = FunctionEmitter(module, function)
    uniform, size, w = not emitter.vectorized, _slot_bytes(emitter), emitter.writer
    types = emitter.types(uniform)
    mask, bits = types[BOOL], "i8" if uniform else f"i{emitter.lanes}"
    live = emitter.live = emitter.prologue(f"{'trunc i8' if uniform else f'bitcast {bits}'} %bits to {mask}")
    if function.records:
        emitter.records = emitter.prologue.load(f"<{emitter.lanes} x ptr>", "%parameters", 64)
    emitter.set_active(live, uniform)

    def load(place: object, type_: int) -> tuple[str, str]:
        at = w.beyond("%slots", w.mul(place, size))
        return at, emitter.from_memory(w.load(emitter.stored_type(type_, uniform), at, 64), type_, uniform)

    for place, argument in enumerate(function.arguments):
        emitter.define(argument, load(place, argument.type)[1])
    assert function.live is not None
    emitter.define(function.live, live)
    for extra in function.extras:
        assert extra.access is not None
        emitter.define(extra, load(emitter.parameter(extra.access.slot, "i64"), extra.type)[1])
    emitter.run()
    for place, result in enumerate(function.results, len(function.arguments)):
        value, type_ = emitter.value(result, uniform), types[result.type]
        at, before = load(place, result.type)
        after = w(f"select {mask} {live}, {type_} {value}, {type_} {before}")
        w.store(emitter.stored_type(result.type, uniform), emitter.to_memory(after, result.type, uniform), at, 64)
    w.line("ret void")
    return emitter.text(f"void @{function.name}(ptr noalias %parameters, {bits} %bits, ptr %slots) #0", f"{bits} %bits")
