"""The compiled form of ``straight.py``: straight kernels; besides, steps whose operands are in memory, and recipes of
all other graphs whose structure is known.

A walk numbers the nodes that it comes by in a word of theirs: the number of the walk, and above that the position in
the program.  It writes the words of the key, which are those that :mod:`drjit_core.codegen.program` makes, and those of
the parameters, into memory that is used again and again: whoever is in here holds the lock of evaluations.

From the call of the kernel to the end of the commit no Python code runs, so that no interrupt comes in between.
"""

import logging
import math
import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy

from ...context cimport Context, current
from ...ir.node cimport Node, become, blank_node
from ...ir.region cimport Choice, Cond, Control, Region
from ...passes.trips cimport trips_of
from ..buffer cimport Buffer
from ..heap cimport Block, Heap

from ...codegen import program as _program
from ...codegen.records import layout_of
from ...codegen.signature import Role, decisions_of, slots_of
from ...flags import DEBUG as _DEBUG
from ...flags import KERNEL_HISTORY as _KERNEL_HISTORY
from ...flags import LAUNCH_BLOCKING as _LAUNCH_BLOCKING
from ...flags import PRINT_IR as _PRINT_IR
from ...ir.node import BAKED as _BAKED
from ...ir.node import PARAMETER as _PARAMETER
from ...ir.node import SHAPE as _SHAPE
from ...llvm import threads as _threads
from ...llvm.calls import name_of_function
from ...llvm.emit import COMBINE, KERNEL
from ...llvm.reduction import partial_stride
from ...ops import table
from ...passes.domain import WIDE_EXTENT as _WIDE_EXTENT
from ...passes.schedule import Kernel
from ...passes.domain import flat
from ...types import FLOAT16 as _FLOAT16
from ...types import FLOAT32 as _FLOAT32
from ...types import FLOAT64 as _FLOAT64
from ...types import TYPES
from ..launch import evaluate_by_kernels, launch as _launch_any
from .. import explain
from ..steps import placed_passes as _placed_passes
from .. import shortage
from . import cache, launches, pool
from .memory import HEAP
from .target import CPU_TARGET, last_level_cache, target as _target_of
from .thread_tables import filled_tables as _filled_tables, merged_tables as _merged_tables

cdef extern from "Python.h":
    unsigned long long PyLong_AsUnsignedLongLongMask(object) except? 0xFFFFFFFFFFFFFFFF
    Py_ssize_t _reference_count "Py_REFCNT"(PyObject*)

ctypedef void (*KernelFunction)(void*, int64_t, int64_t, int64_t, int64_t, int64_t, int32_t) noexcept nogil
ctypedef void (*CombineFunction)(void*, int64_t) noexcept nogil
ctypedef void (*SubmitFunction)(void*, int64_t, void*, void*, void*, int64_t, int64_t, int64_t, void*, int64_t) noexcept nogil

cdef object _INPUT = Role.INPUT, _MEMORY = Role.MEMORY, _LITERAL = Role.LITERAL
cdef long long _EXCEPTIONAL = _DEBUG | _KERNEL_HISTORY | _LAUNCH_BLOCKING | _PRINT_IR
cdef int BAKED = _BAKED, PARAMETER = _PARAMETER, SHAPE = _SHAPE
cdef int LITERAL = table.LITERAL, UNDEFINED = table.UNDEFINED, EVALUATED = table.EVALUATED, COUNTER = table.COUNTER
cdef int STEP = table.STEP, VIEW = table.VIEW, SEGMENT = table.SEGMENT
cdef int GATHER = table.GATHER, REDUCE = table.REDUCE, CAST = table.CAST, BITCAST = table.BITCAST, ACCESS = table.ACCESS
cdef int FIRST_ELEMENTWISE = table.FIRST_ELEMENTWISE
cdef int FLOAT16 = _FLOAT16, FLOAT32 = _FLOAT32, FLOAT64 = _FLOAT64
cdef int64_t WIDE_EXTENT = _WIDE_EXTENT
cdef int SCALAR = _program.SCALAR, ALIGNED = _program.ALIGNED, UNALIGNED = _program.UNALIGNED
cdef int SHIFTED = _program.SHIFTED, SHIFTED_UNALIGNED = _program.SHIFTED_UNALIGNED, REVERSED = _program.REVERSED
cdef int64_t STORE = _program.STORE, REDUCTION = _program.REDUCTION, STREAMED = _program.STREAMED
cdef int64_t STREAMING_WIDTH = CPU_TARGET.streaming_width, LARGE_BYTES = CPU_TARGET.large_bytes
cdef int64_t LANGUAGE = CPU_TARGET.code << 8 | 1
cdef int64_t INLINE_WORK = launches.INLINE_WORK, SHORT_WORK = launches.SHORT_WORK
cdef int64_t SLOTS = _threads.SLOTS
cdef Heap _heap = HEAP
cdef int SUBMITTED = _threads.SUBMITTED, COMPLETED = _threads.COMPLETED
cdef int INFO = logging.INFO

cdef int SCATTER = table.SCATTER
cdef int FIRST_EXPANDED = table.FIRST_EXPANDED
cdef int LOOP = table.LOOP, COND = table.COND, CALL = table.CALL, RESULT = table.RESULT
cdef bint _may_have_recipe[256]
cdef bint _may_be_in_region[256]
cdef bint _is_told_by_payload[256]  # whether the payload says what a node computes
cdef bint _is_told_by_sizes[256]  # whether it goes with the sizes that were there
cdef int _cost_of[256]


def _enter_row(row):
    """Put what is to be known about a row in the place of its kind."""
    cdef int kind = row.kind
    cdef bint registered = table.FIRST_REGISTERED <= kind < FIRST_ELEMENTWISE
    _may_be_in_region[kind] = registered or kind >= FIRST_ELEMENTWISE or kind in (
        COUNTER, GATHER, CAST, BITCAST, SCATTER, table.FETCH, table.PACK, LOOP, COND, CALL, RESULT)
    _may_have_recipe[kind] = _may_be_in_region[kind] or kind in (ACCESS, VIEW, SEGMENT, REDUCE, table.OPAQUE, STEP)
    _is_told_by_sizes[kind] = kind in (VIEW, SEGMENT, ACCESS)
    _is_told_by_payload[kind] = registered or kind in (VIEW, SEGMENT, ACCESS, SCATTER, STEP, RESULT)
    _cost_of[kind] = row.cost


for _row in table.OPS:
    _enter_row(_row)
table.listeners.append(_enter_row)
cdef int _size_of[16]
for _info in TYPES:
    if _info is not None:
        _size_of[_info.type] = _info.size

_log = logging.getLogger("drjit")


# --- the walk --------------------------------------------------------------------------------------------------------

cdef enum:
    MOST_POINTERS = 64  # arrays that a kernel gathers from
    PLACES = 1 << 24  # nodes of a program
    END_OF_REGION = -2  # in keys, where no node can begin
    SEEN = PLACES - 1  # the place of a node whose operands are not placed yet

cdef int64_t _walk = 0
cdef int64_t* _key = NULL
cdef Py_ssize_t _key_count = 0, _key_capacity = 0
cdef uint64_t* _parameters = NULL
cdef Py_ssize_t _parameter_count = 0, _parameter_capacity = 0
cdef PyObject** _stack = NULL
cdef Py_ssize_t _stack_capacity = 0
cdef PyObject** _inputs = NULL  # buffers, which the nodes of the program hold
cdef Py_ssize_t _input_count = 0, _input_capacity = 0
cdef Py_ssize_t* _slots = NULL  # parameters with the addresses of the outputs
cdef Py_ssize_t _slot_capacity = 0
cdef PyObject* _pointer_nodes[MOST_POINTERS]
cdef Py_ssize_t _pointer_slots[MOST_POINTERS]
cdef Py_ssize_t _pointer_count = 0
cdef int64_t _place = 0
cdef int64_t _read_bytes = 0
cdef bint _borrowing = False
cdef int64_t _operations = 0, _work = 0  # see operations_of and work_of in cache.py
cdef int64_t _cache_bytes = 0  # a threshold
cdef object _backend = None


cdef void* _larger(void* memory, Py_ssize_t* capacity, Py_ssize_t needed, size_t size) except NULL:
    """Memory for more items."""
    cdef Py_ssize_t count = 2 * needed + 256
    cdef void* found = realloc(memory, count * size)
    if found == NULL:
        raise MemoryError
    capacity[0] = count
    return found


cdef inline bint _make_room() except -1:
    """See to it that the entries of a node and its leaves find room."""
    global _key, _parameters, _inputs
    if _key_count + 32 > _key_capacity:
        _key = <int64_t*> _larger(_key, &_key_capacity, _key_count + 32, sizeof(int64_t))
    if _parameter_count + 16 > _parameter_capacity:
        _parameters = <uint64_t*> _larger(_parameters, &_parameter_capacity, _parameter_count + 16, sizeof(uint64_t))
    if _input_count + 8 > _input_capacity:
        _inputs = <PyObject**> _larger(_inputs, &_input_capacity, _input_count + 8, sizeof(PyObject*))
    return True


cdef inline void _put(int64_t word) noexcept:
    global _key_count
    _key[_key_count] = word
    _key_count += 1


cdef inline void _pass(uint64_t word) noexcept:
    global _parameter_count
    _parameters[_parameter_count] = word
    _parameter_count += 1


cdef inline int64_t _place_of(Node node) noexcept:
    """Place of a node in the program, or -1 if it has none."""
    cdef int64_t word = node.place
    return word & SEEN if word >> 24 == _walk and word & SEEN != SEEN else -1


cdef inline void _set_place(Node node) noexcept:
    global _place, _operations, _work
    _work += _cost_of[node.kind]
    _operations += _cost_of[node.kind] if node.kind >= FIRST_EXPANDED else 1
    node.place = _walk << 24 | _place
    _place += 1


cdef uint64_t _bits(int type_, object value) except? 0xFFFFFFFFFFFFFFFF:
    """The bits of a literal."""
    cdef float single
    cdef double double_
    cdef uint32_t half
    cdef uint64_t bits
    if type_ == FLOAT32:
        single = <float> <double> value
        memcpy(&half, &single, 4)
        return half
    if type_ == FLOAT64:
        double_ = value
        memcpy(&bits, &double_, 8)
        return bits
    if type_ == FLOAT16:
        return _program.literal_bits(type_, value)
    return PyLong_AsUnsignedLongLongMask(int(value))


cdef int64_t _leaf(Node node) except -2:
    """Place of an operand, which is appended if it is a leaf that has none; -1 if the general way must care for it."""
    cdef int64_t place = _place_of(node)
    cdef int kind = node.kind, access
    cdef uint64_t bits
    cdef Buffer buffer
    global _input_count, _read_bytes, _borrowing
    if place >= 0:
        return place
    if kind == EVALUATED:
        if not isinstance(node.payload, Buffer):
            return -1
        buffer = <Buffer> node.payload
        if buffer.backend is not _backend:
            return -1
        access = SCALAR if node.size == 1 else ALIGNED if buffer.padded else UNALIGNED
        _put(kind << 4 | node.type)
        _put(access)
        if access != SCALAR:
            _read_bytes += _size_of[node.type]
        _pass(buffer.address)
        if buffer.read_only:
            _borrowing = True
        _inputs[_input_count] = <PyObject*> buffer
        _input_count += 1
    elif kind == LITERAL:
        bits = _bits(node.type, node.payload)
        if node.attr == BAKED:
            _put(kind << 4 | node.type)
            _put(<int64_t> bits)
        else:
            _put(node.type)
            _pass(bits)
    elif kind == UNDEFINED:
        _put(kind << 4 | node.type)
    else:
        return -1
    place = _place
    _set_place(node)
    return place


cdef int64_t _pointer(Node source) except -2:
    """The parameter with the address of an array that is accessed by index; -1 if the general way must care for it."""
    global _pointer_count, _input_count, _borrowing
    cdef Py_ssize_t position
    cdef Buffer buffer
    if source.kind != EVALUATED:
        return -1
    for position in range(_pointer_count):
        if _pointer_nodes[position] == <PyObject*> source:
            return _pointer_slots[position]
    if not isinstance(source.payload, Buffer):
        return -1
    buffer = <Buffer> source.payload
    if buffer.backend is not _backend or _pointer_count == MOST_POINTERS:
        return -1
    _pointer_nodes[_pointer_count] = <PyObject*> source
    _pointer_slots[_pointer_count] = _parameter_count
    _pointer_count += 1
    if buffer.read_only:
        _borrowing = True
    _inputs[_input_count] = <PyObject*> buffer
    _input_count += 1
    _pass(buffer.address)
    return _parameter_count - 1


cdef bint _append(Node node) except -1:
    """Append a node whose operands are placed or leaves; whether that was possible."""
    cdef int kind = node.kind
    cdef int64_t first, second, third
    cdef int64_t pointer, start, stride
    cdef int layout
    cdef Node source
    global _read_bytes
    _make_room()
    if kind >= FIRST_ELEMENTWISE:
        first = _leaf(node.d0)
        if first < 0:
            return False
        if node.d1 is None:
            _put(kind << 4 | node.type)
            _put(first)
        else:
            second = _leaf(node.d1)
            if second < 0:
                return False
            if node.d2 is None:
                _put(kind << 4 | node.type)
                _put(first)
                _put(second)
            else:
                third = _leaf(node.d2)
                if third < 0:
                    return False
                _put(kind << 4 | node.type)
                _put(first)
                _put(second)
                _put(third)
    elif kind == COUNTER:
        _put(kind << 4 | node.type)
    elif kind == CAST or kind == BITCAST:
        first = _leaf(node.d0)
        if first < 0:
            return False
        _put(kind << 4 | node.type)
        _put(first)
    elif kind == GATHER:
        source = node.d0
        first = _leaf(node.d1)
        if first < 0:
            return False
        second = _leaf(node.d2)
        if second < 0:
            return False
        pointer = _pointer(source)
        if pointer < 0:
            return False
        _put(kind << 4 | node.type)
        _put(pointer)
        _put((source.size >= WIDE_EXTENT) | (source.size * _size_of[source.type] > LARGE_BYTES) << 2)
        _put(first)
        _put(second)
    elif kind == ACCESS:
        source = node.d0
        pointer = _pointer(source)
        if pointer < 0:
            return False
        start, stride = node.payload
        layout = REVERSED if stride < 0 else SHIFTED if (<Buffer> source.payload).padded else SHIFTED_UNALIGNED
        _read_bytes += _size_of[node.type]
        _put(kind << 4 | node.type)
        _put(pointer)
        _put(layout)
        _pass(<uint64_t> start)
    else:
        return False
    _set_place(node)
    return True


cdef inline bint _is_inner(Node node) noexcept:
    """Whether a node is neither a leaf nor in memory."""
    return node.kind > UNDEFINED and node.kind != EVALUATED


cdef bint _visit(Node root) except -1:
    """Append what a root needs and is, operands first; whether that was possible.

    The order is that of :func:`drjit_core.passes.schedule.post_order`.  The lowest bit of an entry of the stack tells
    that the operands of its node are placed.
    """
    global _stack
    cdef Py_ssize_t count = 1
    cdef PyObject* entry
    cdef Node node
    cdef int kind
    if _stack_capacity < 16:
        _stack = <PyObject**> _larger(_stack, &_stack_capacity, 16, sizeof(PyObject*))
    _stack[0] = <PyObject*> root
    while count:
        count -= 1
        entry = _stack[count]
        if <uintptr_t> entry & 1:
            if not _append(<Node> <PyObject*> (<uintptr_t> entry - 1)):
                return False
            continue
        node = <Node> entry
        if node.place >> 24 == _walk:
            continue
        node.place = _walk << 24 | SEEN
        kind = node.kind
        if kind < FIRST_ELEMENTWISE and kind != COUNTER and kind != GATHER and kind != CAST and kind != BITCAST \
                and kind != ACCESS:
            return False
        if count + 8 > _stack_capacity:
            _stack = <PyObject**> _larger(_stack, &_stack_capacity, count + 8, sizeof(PyObject*))
        _stack[count] = <PyObject*> (<uintptr_t> entry | 1)
        count += 1
        if node.d2 is not None and _is_inner(node.d2):
            _stack[count] = <PyObject*> node.d2
            count += 1
        if node.d1 is not None and _is_inner(node.d1):
            _stack[count] = <PyObject*> node.d1
            count += 1
        if node.d0 is not None and _is_inner(node.d0):
            _stack[count] = <PyObject*> node.d0
            count += 1
    return True


cdef inline int64_t _width_of(Node root) noexcept:
    return root.d0.size if root.kind == REDUCE else root.size


cdef bint _begin(int64_t width) except -1:
    """Begin a program."""
    global _walk, _key_count, _parameter_count, _input_count, _pointer_count, _place, _read_bytes, _borrowing, _operations, _work
    _walk += 1
    _key_count = _parameter_count = _input_count = _pointer_count = 0
    _place = _read_bytes = _operations = _work = 0
    _borrowing = False
    _make_room()
    _put(LANGUAGE)
    _put(1 if width == 1 else 2 if width < WIDE_EXTENT else 3)
    _pass(<uint64_t> width)
    _pass(0)
    return True


cdef bint _bind(list roots, int64_t width) except -1:
    """Make the key and the parameters of a kernel, without those of its outputs; whether that was possible.

    The roots are in order, different ones, and of one width.
    """
    global _slots
    cdef Node root
    cdef int64_t place, stored = 0
    cdef Py_ssize_t position = 0
    _begin(width)
    for root in roots:
        if _width_of(root) != width or not _visit_root(root):
            return False
    if _place >= PLACES - 16:
        return False
    if len(roots) > _slot_capacity:
        _slots = <Py_ssize_t*> _larger(_slots, &_slot_capacity, len(roots), sizeof(Py_ssize_t))
    for root in roots:
        _make_room()
        if root.kind == REDUCE:
            place = _leaf(root.d0)
            if place < 0:
                return False
            _put(REDUCTION)
            _put(root.attr)
            _put(place)
        else:
            stored += _size_of[root.type]
            _put(STORE)
            _put(_place_of(root))
        _slots[position] = _parameter_count  # an operand that is in memory may come between two outputs
        position += 1
        _pass(0)
    if stored and width > STREAMING_WIDTH and width * (stored + _read_bytes) > _cache_bytes:
        _put(STREAMED)
    return True


cdef inline bint _visit_root(Node root) except -1:
    if root.kind == REDUCE:
        return not _is_inner(root.d0) or _visit(root.d0)
    return _visit(root)


# --- kernels ---------------------------------------------------------------------------------------------------------

cdef class Entry:
    """What a launch needs to know of a kernel."""

    cdef object kernel, functions
    cdef bytes key
    cdef KernelFunction function
    cdef CombineFunction combine
    cdef int64_t work, stride, patience  # work that the quick tier does before the kernel is compiled again
    cdef bint quick, loaded  # the latter only until its first launch, which is counted already

    cdef bint load(self) except -1:
        functions = self.functions = self.kernel.functions
        self.function = <KernelFunction> <uintptr_t> functions.addresses[0]
        self.combine = <CombineFunction> <uintptr_t> functions.addresses[1]
        self.work = functions.work
        self.quick = self.kernel.quick
        self.patience = self.kernel.patience() if self.quick else 0
        return True


cdef dict _entries = {}
cdef int64_t _hits = 0  # launches of known kernels
cdef dict _module_of_pool = pool.__dict__


cdef uint64_t _hash() noexcept:
    cdef uint64_t h = <uint64_t> _key_count
    cdef Py_ssize_t position
    for position in range(_key_count):
        h = (h ^ <uint64_t> _key[position]) * <uint64_t> 0x9E3779B97F4A7C15
        h ^= h >> 29
    return h


cdef Entry _find(uint64_t h, int64_t width, Py_ssize_t reductions):
    """The kernel with the key that was made last, if it is known, or on disk."""
    cdef Entry entry = _entries.get(h)
    cdef bint loaded = False
    if entry is None or PyBytes_GET_SIZE(entry.key) != 8 * _key_count or \
            memcmp(PyBytes_AS_STRING(entry.key), _key, 8 * _key_count):
        key = PyBytes_FromStringAndSize(<char*> _key, 8 * _key_count)
        kernel = cache._kernels.get(key)
        if kernel is None and not os.environ.get("DRJIT_DUMP_DIR"):
            kernel = cache.load(cache.Facts(key, width, _operations, _work + 1, _parameter_count, reductions,
                                            (KERNEL, COMBINE) if reductions else (KERNEL,)))
            if kernel is not None:
                explain.note(key, kernel.hash)
                loaded = True
        if kernel is None:
            return None
        entry = Entry.__new__(Entry)
        entry.kernel, entry.key = kernel, key
        entry.stride = partial_stride(kernel.reductions)
        entry.load()
        entry.loaded = loaded
        if len(_entries) > 65536:
            _entries.clear()
        _entries[h] = entry
    return entry


def forget():
    """Forget all kernels."""
    _entries.clear()
    _recipes.clear()
    _met.clear()
    _payloads.clear()
    _steps.clear()


def hits():
    """How many launches of known kernels there were."""
    return _hits


cache.other_hits.append(hits)


# --- launches --------------------------------------------------------------------------------------------------------

cdef class Queued:
    """A launch that may not have run yet, and what must live until it has."""

    cdef uint64_t* parameters
    cdef object functions
    cdef public object keep

    def __dealloc__(self):
        free(self.parameters)


cdef object _pool = None
cdef int64_t* _words = NULL
cdef SubmitFunction _submit = NULL
cdef int64_t _let_go_until = -1  # the last launch that had finished when those that had were let go


cdef bint _look_at_pool() except -1:
    """Find the native queue, if there is one."""
    global _pool, _words, _submit, _let_go_until
    found = _module_of_pool["_pool"]
    if found is not _pool:
        if found is not None:
            _words = <int64_t*> <uintptr_t> found.address
            _submit = <SubmitFunction> <uintptr_t> found.code.addresses["pool_submit"]
        _pool = found
        _let_go_until = -1
    return True


cdef inline int64_t _block_size(int64_t work, int64_t width, int64_t unit) noexcept:
    """See :func:`.launches.block_size`."""
    cdef int64_t smallest, largest, size, power = 1
    work *= unit
    smallest = max(<int64_t> 1 if unit > 1 else <int64_t> 64, (<int64_t> 1 << 19) // work)
    largest = max(smallest, min(<int64_t> 1 << 18, (<int64_t> 1 << 22) // work))
    size = max(smallest, min(largest, width // 16))
    while 2 * power <= size:
        power *= 2
    return power

assert launches._BLOCKS == 16 and launches._LEAST_WORK == 1 << 19 and launches._MOST_WORK == 1 << 22
assert launches._LARGEST_BLOCK == 1 << 18 and launches._SMALLEST_BLOCK == 64


cdef bint _let_go(object found) except -1:
    """What the pool's ``let_go`` does, if there is anything to do."""
    global _let_go_until
    cdef int64_t completed = _words[COMPLETED]
    if completed != _let_go_until:
        found.let_go()
        _let_go_until = completed
    return True


cdef Buffer _allocate(int64_t nbytes):
    cdef Block block
    cdef Buffer buffer
    try:
        block = _heap.allocate(nbytes)
    except (MemoryError, OverflowError):
        block = shortage.allocate(_heap, nbytes)
    buffer = Buffer.__new__(Buffer)
    buffer.backend = _backend
    buffer.address = block.address
    buffer.nbytes = nbytes
    buffer.padded = True
    buffer._block = block
    buffer.ticket = block.ticket
    return buffer


cdef bint _launch(Entry entry, list roots, int64_t width, int64_t unit, Stage step=None) except -1:
    """Launch a kernel with the parameters that were made last; its outputs are evaluated afterwards.

    The width is a number of units, of so many elements; a single block, if the kernel of a stage asks for that.
    """
    cdef list buffers = []
    cdef Buffer buffer, partials = None
    cdef Node root
    cdef Py_ssize_t position = 0
    cdef bint bounded = True
    cdef int64_t ticket, work = entry.work * unit
    cdef int64_t size = width if step is not None and step.single else _block_size(entry.work, width, unit)
    if step is not None and step.repeats:
        if step.measured != width:
            step.work, step.bounded = entry.kernel.repeated(step.trips, unit, width)
            step.measured = width
        work, bounded = step.work, step.bounded
    if entry.combine != NULL:
        partials = _allocate(entry.stride * ((width + size - 1) // size))
        _parameters[1] = partials.address
    for root in roots:
        buffer = _allocate(root.size * _size_of[root.type])
        _parameters[_slots[position]] = buffer.address
        position += 1
        buffers.append(buffer)
    ticket = _submit_blocks(entry, width, size, width * work, entry.combine != NULL, step, bounded)
    if partials is not None:
        partials.ticket = ticket
    for position in range(len(roots)):
        buffer = <Buffer> buffers[position]
        buffer.ticket = ticket
        become(<Node> roots[position], buffer)
    return True


cdef int64_t _submit_blocks(Entry entry, int64_t width, int64_t size, int64_t work, bint blocked, Stage step=None,
                            bint bounded=True) except -1:
    """Enqueue a launch with the parameters and inputs that were made last, or run it at once; returns its ticket.

    What is blocked must be called block by block; the length of what is not bounded is unknown.  From the call of the
    kernel on no Python code runs.
    """
    cdef int64_t blocks = (width + size - 1) // size, ticket
    cdef bint short_ = work < INLINE_WORK or blocks <= 1
    cdef Py_ssize_t position
    cdef Queued queued
    cdef bint unattended, queues
    if not bounded:
        pool.expect_unbounded()
    _look_at_pool()
    if _pool is None and not short_ and pool._worth_starting(work):
        pool._started()
        _look_at_pool()
    queues = _pool is not None and (_words[COMPLETED] != _words[SUBMITTED] or
                                    (not short_ and _pool.count > 1 if bounded else _pool.stand_in or _pool.count > 1))
    if queues:
        ticket = _words[SUBMITTED] + 1
        if ticket - 1 - _words[COMPLETED] >= SLOTS - 2:
            _pool.wait(ticket - 1 - SLOTS // 2)
        _let_go(_pool)
        queued = Queued.__new__(Queued)
        queued.parameters = <uint64_t*> malloc(_parameter_count * sizeof(uint64_t))
        if queued.parameters == NULL:
            raise MemoryError
        memcpy(queued.parameters, _parameters, _parameter_count * sizeof(uint64_t))
        queued.functions = entry.functions
        if _borrowing:
            queued.keep = [<object> _inputs[position] for position in range(_input_count)]
        if step is not None:
            _fill_tables(step, queued.parameters)
        unattended = _pool.stand_in and (not bounded or _pool.count == 1)
        if not bounded:
            _pool.last_unbounded = ticket
        assert blocks > 0, "a launch without blocks never ends"
        _pool.kept[ticket] = queued
        _submit(<void*> _words, ticket, <void*> entry.function, <void*> entry.combine, queued.parameters, width, blocks,
                size, NULL, unattended)
    else:
        ticket = _words[SUBMITTED] if _pool is not None else _module_of_pool["_last"]
        if step is not None:
            _fill_tables(step, _parameters)
        if not blocked:
            if bounded and work < SHORT_WORK:
                entry.function(_parameters, 0, 1, 0, width, 0, 0)
            else:
                with nogil:
                    entry.function(_parameters, 0, 1, 0, width, 0, 0)
        elif bounded and work < SHORT_WORK:
            _run_blocks(entry, width, size, blocks)
        else:
            with nogil:
                _run_blocks(entry, width, size, blocks)
    for position in range(_input_count):
        (<Buffer> _inputs[position]).ticket = ticket
    return ticket


cdef bint _fill_tables(Stage step, uint64_t* parameters) except -1:
    """Make the tables of the calls of a stage, which lie behind the parameters."""
    cdef Py_ssize_t word, other
    for word, other in step.moves:
        parameters[word] = <uint64_t> <uintptr_t> (parameters + other)
    return True


cdef void _run_blocks(Entry entry, int64_t width, int64_t size, int64_t blocks) noexcept nogil:
    cdef int64_t block
    for block in range(blocks):
        entry.function(_parameters, 0, 1, block * size, min(width, (block + 1) * size), block, 0)
    if entry.combine != NULL:
        entry.combine(_parameters, blocks)


cdef bint _run(list roots, int64_t width) except -1:
    """Bind and launch one kernel; whether that was possible."""
    cdef Entry entry
    cdef Node root
    cdef Py_ssize_t reductions = 0
    if not _bind(roots, width):
        return False
    for root in roots:
        reductions += root.kind == REDUCE
    entry = _find(_hash(), width, reductions)
    if entry is None:
        kernel = Kernel(0, flat(width))
        kernel.outputs = roots
        _launch_any(_backend, _target_of(), kernel)
        return True
    if entry.loaded:
        entry.loaded = False
        _launch(entry, roots, width, 1)
        return True
    _note_use(entry, width)
    _launch(entry, roots, width, 1)
    return True


# --- steps -----------------------------------------------------------------------------------------------------------

cdef class Pass:
    """A launch of a step of some structure, wherever its arrays are."""

    cdef Entry entry
    cdef int64_t width, block
    cdef uint64_t* words  # parameters: numbers, and distances from the beginnings of arrays
    cdef int32_t* arrays  # of whose addresses they are distances: operands, then results, then scratch; -1: none
    cdef Py_ssize_t count

    def __dealloc__(self):
        free(self.words)
        free(self.arrays)


cdef class Passes:
    """The launches of a step of some structure, and the bytes of memory of its own."""

    cdef list passes
    cdef tuple scratch


cdef Passes _passes_of(list nodes):
    """Make the launches of a step."""
    cdef Passes found = Passes.__new__(Passes)
    cdef Pass one
    cdef Py_ssize_t number
    plans, scratch = _placed_passes(_backend, nodes, _target_of())
    found.passes, found.scratch = [], tuple(scratch)
    for plan, arrays, kernel in plans:
        one = Pass.__new__(Pass)
        one.width, one.block, one.count = plan.launch.width, plan.launch.block, len(plan.words)
        one.words = <uint64_t*> malloc(one.count * sizeof(uint64_t))
        one.arrays = <int32_t*> malloc(one.count * sizeof(int32_t))
        if one.words == NULL or one.arrays == NULL:
            raise MemoryError
        for number in range(one.count):
            one.words[number] = PyLong_AsUnsignedLongLongMask(plan.words[number])
            one.arrays[number] = arrays[number]
        one.entry = Entry.__new__(Entry)
        one.entry.kernel = kernel
        one.entry.load()
        found.passes.append(one)
    return found


cdef dict _steps = {}
cdef Py_ssize_t MOST_STEPS = 1024


cdef bint _launch_step(list nodes) except -1:
    """Launch a step, whose wanted results are given, if its operands are in memory; whether it was done."""
    global _parameters, _parameter_count, _inputs, _input_count, _borrowing
    cdef Node node = nodes[0], operand
    cdef Passes known
    cdef Pass one
    cdef Buffer buffer
    cdef Py_ssize_t number, count = 0
    cdef list structure = [node.payload, _pool_count()], buffers = []
    for operand in (node.d0, node.d1, node.d2):
        if operand is None:
            break
        if operand.kind != EVALUATED or not isinstance(operand.payload, Buffer) or \
                (<Buffer> operand.payload).backend is not _backend:
            return False
        structure.append(operand.type)
        structure.append(operand.size)
        buffers.append(operand.payload)
    for node in nodes:
        structure.append(node.attr)
        structure.append(node.size)
    key = tuple(structure)
    known = _steps.get(key)
    if known is None:
        if len(_steps) >= MOST_STEPS:
            _steps.clear()
        known = _steps[key] = _passes_of(nodes)
    for node in nodes:
        buffers.append(_allocate(node.size * _size_of[node.type]))
    for nbytes in known.scratch:
        buffers.append(_allocate(nbytes))
    for one in known.passes:
        while one.count > _parameter_capacity:
            _parameters = <uint64_t*> _larger(_parameters, &_parameter_capacity, one.count, sizeof(uint64_t))
        while len(buffers) > _input_capacity:
            _inputs = <PyObject**> _larger(_inputs, &_input_capacity, len(buffers), sizeof(PyObject*))
        _parameter_count, _input_count, _borrowing = one.count, 0, False
        for buffer in buffers:
            _borrowing = _borrowing or buffer.read_only
            _inputs[_input_count] = <PyObject*> buffer
            _input_count += 1
        for number in range(one.count):
            _parameters[number] = one.words[number]
            if one.arrays[number] >= 0:
                _parameters[number] += (<Buffer> _inputs[one.arrays[number]]).address
        _note_use(one.entry, one.width)
        _submit_blocks(one.entry, one.width, one.block, one.width * one.entry.work, True)
    count = len(buffers) - len(known.scratch) - len(nodes)
    for number in range(len(nodes)):
        become(<Node> nodes[number], buffers[count + number])
    return True


cdef bint _note_use(Entry entry, int64_t width) except -1:
    """Note a launch of a known kernel."""
    global _hits
    if entry.quick:
        entry.patience -= width * entry.work
        if entry.patience <= 0:
            entry.kernel.worked(entry.kernel.patience() - entry.patience)
            entry.load()
    _hits += 1
    return True


# --- recipes ---------------------------------------------------------------------------------------------------------
#
# Which kernels there are, and over what they go, follows from the whole graph. A recipe says what is launched for a
# graph of some structure, and what the parameters are; it is found by all that planning looks at.
# Nodes have *places*: those of the graph in the order of the walk, and behind them what planning has made besides.
#
# Sizes are numbered in the order of the walk; number 0 is the size 1. What matters is which are equal, and in which
# intervals they lie, as in recordings: a recipe is good for all others. Where there are views, and reductions of rows,
# planning looks at the sizes themselves: then these are part of what a recipe is found by.

cdef class Stage:
    """One launch of a recipe: a kernel, or a step, which is launched in its own way."""

    cdef Entry entry  # None: a step
    cdef int64_t units, unit
    cdef int width  # number of the size that the units are; -1: they are always the same
    cdef bint single  # the whole width is one block
    cdef object trips  # how often its loops repeat: 1 without any, None if nobody knows
    cdef bint repeats  # whether it has loops
    cdef int64_t measured, work  # units, and how much work each of them is; whether a launch of them ends soon
    cdef bint bounded
    cdef uint64_t* words  # parameters, as far as they are always the same
    cdef int32_t* places  # of the node whose bits or address a parameter is; -1: none
    cdef Py_ssize_t count
    # Behind the parameters follow, if there are calls, those of their targets, and the tables of the calls.
    cdef Py_ssize_t total
    cdef tuple firsts  # where the parameters of each target begin
    cdef tuple links  # (parameter of a target, that which it is equal to), those of outer targets first
    cdef tuple moves  # (word, another one, whose address it is)
    cdef tuple symbols  # (word of a table, name of the function whose address it is)
    cdef object linked  # the code that the addresses in ``words`` are those of
    cdef tuple outputs  # places
    cdef tuple slots  # parameters with their addresses
    cdef tuple undefined  # places of arrays without contents, which get memory
    cdef tuple written  # (place of an array after a write, place of the one before), in order
    cdef tuple tables  # (parameter, place of the target, operator, place of the scatter)
    cdef list releases  # places that nothing needs afterwards

    def __cinit__(self):
        self.outputs = self.slots = self.undefined = self.written = self.tables = ()
        self.firsts = self.links = self.moves = self.symbols = ()
        self.releases = []

    def __dealloc__(self):
        free(self.words)
        free(self.places)

    def used(self):
        """The places of all nodes that it looks at."""
        cdef Py_ssize_t number
        found = {*self.outputs, *self.undefined}
        for pair in self.written:
            found.update(pair)
        for _, target, _, scatter in self.tables:
            found.update((target, scatter))
        if self.places != NULL:
            found.update([self.places[number] for number in range(self.total) if self.places[number] >= 0])
        return found


cdef class Recipe:
    """What takes a graph of some structure to its launches."""

    cdef bytes key
    cdef list steps  # empty: there is no recipe
    cdef tuple made  # of each node that planning makes: type, size, and the number of the size, -1 if it stays the same
    cdef bint exact  # whether the sizes are part of the key
    cdef list least, most  # bounds of the sizes, by their numbers
    cdef Recipe other  # for other sizes
    cdef int depth  # number of those
    cdef set used  # all places that launches look at; None: the graph holds them as long as it takes


cdef enum:
    MOST_TARGETS = 64  # of calls; keys of graphs with more of them would take megabytes
    MOST_SIZES = 16  # of graphs for which sizes are numbered
    MOST_OTHERS = 8  # recipes of one structure

cdef int64_t _sizes[MOST_SIZES]
cdef int _size_count = 0
cdef bint _exact = False  # whether planning looks at sizes
cdef list _details = []  # what is part of the key if it does
cdef Py_ssize_t MOST_RECIPES = 4096  # some kilobytes each
cdef dict _recipes = {}
cdef set _met = set()  # hashes of keys that came once
cdef Py_ssize_t MOST_MET = 16384, MOST_PAYLOADS = 16384
cdef dict _payloads = {}  # of views, accesses, reductions of rows, writes and steps, numbered
cdef PyObject** _nodes = NULL  # by their places; the roots hold them
cdef Py_ssize_t _node_capacity = 0


cdef int _number_of_size(int64_t size) noexcept:
    """The number of a size; -1 if it has none."""
    cdef int number
    if size == 1:
        return 0
    for number in range(_size_count):
        if _sizes[number] == size:
            return number + 1
    return -1


cdef bint _put_size(int64_t size) except -1:
    """Put down a size by its number."""
    global _size_count, _exact
    cdef int number = _number_of_size(size)
    if number < 0:
        if _size_count == MOST_SIZES:
            _exact = True
            _details.append(size)
            number = MOST_SIZES + 1
        else:
            _sizes[_size_count] = size
            _size_count += 1
            number = _size_count
    _put(number)
    return True


cdef int64_t _number_of(object payload) except -1:
    found = _payloads.get(payload)
    if found is None:
        found = _payloads[payload] = len(_payloads)
    return found


cdef bint _take_place(Node node) except -1:
    """Give a node the next place, and room for its words."""
    global _nodes
    _make_room()
    if _place + 1 > _node_capacity:
        _nodes = <PyObject**> _larger(_nodes, &_node_capacity, _place + 1, sizeof(PyObject*))
    _nodes[_place] = <PyObject*> node
    _set_place(node)
    return True


cdef inline bint _has_place(Node node) noexcept:
    return node.place >> 24 == _walk and node.place & (PLACES - 1) != SEEN


cdef bint _enter_node(Node node) except -1:
    """Put down what planning looks at of a node whose operands are there; whether there may be a recipe."""
    global _exact
    cdef int kind = node.kind
    cdef Buffer buffer
    _take_place(node)
    _put(kind << 4 | node.type)
    _put_size(node.size)
    if kind == EVALUATED:
        if not isinstance(node.payload, Buffer):
            return False
        buffer = <Buffer> node.payload
        if buffer.backend is not _backend:
            return False
        _put(buffer.padded | buffer.read_only << 1)
    elif kind == LITERAL:
        _put(node.attr)
        if node.attr == SHAPE and node.size == 1:  # planning makes such ones of views, which may be equal or derived
            _details.append(<int64_t> _bits(node.type, node.payload))
        elif node.attr != PARAMETER or node.size > 1:
            _put(<int64_t> _bits(node.type, node.payload))
    elif kind != UNDEFINED:
        _put(node.attr)
        _put(-1 if node.d0 is None else _place_of(node.d0))
        _put(-1 if node.d1 is None else _place_of(node.d1))
        _put(-1 if node.d2 is None else _place_of(node.d2))
        _put(-1 if node.d3 is None else _place_of(node.d3))
        if _is_told_by_payload[kind]:
            _put(_number_of(node.payload))
            _exact = _exact or _is_told_by_sizes[kind]
        if kind == SCATTER:  # whether anybody else holds the target decides whether it is copied
            _put(min(_reference_count(<PyObject*> node.d0), 4))
        if kind == RESULT and node.payload:  # whether anybody else holds memory decides whether it is on the stack
            _put(_reference_count(<PyObject*> node))
        if kind == LOOP or kind == COND or kind == CALL:
            return _enter_regions(node)
    return True


cdef bint _enter_regions(Node node) except -1:
    """Put down what planning looks at of a loop, a branch or a call, and its results, of which it stores those that
    live."""
    cdef Node part, formal
    cdef Control control = node.payload
    cdef Choice choice
    cdef Region region
    cdef tuple initial = control.initial, nodes
    cdef Py_ssize_t position
    if len(control.regions) > MOST_TARGETS:
        return False
    if node.kind == LOOP:
        _put(trips_of(control))
    else:
        choice = control
        _put(choice.count)
        _put(len(choice.regions))
        _put(_number_of((choice.memory_of, (<Cond> choice).rare if node.kind == COND else ""))
             if choice.memory_of or node.kind == COND and (<Cond> choice).rare else -1)
    region = control.regions[0]
    for position in range(len(region.formals)):
        formal = <Node> region.formals[position]
        _make_room()
        _put(_place_of(<Node> initial[position]))
        _put(min(_reference_count(<PyObject*> initial[position]), 5) if formal.payload else 0)
    for region in control.regions:
        for formal in region.formals:
            _enter_formal(formal)
        for formal in region.masks:
            _enter_formal(formal)
        for listed in region.parts:
            for part in <list> listed:
                if not _may_be_in_region[part.kind] or not _has_place(part) and not _enter_node(part):
                    return False
        _make_room()
        _put(END_OF_REGION)
        for nodes in region.results:
            for part in nodes:
                _make_room()
                _put(_place_of(part))
    for reference in control.outputs:
        result = reference()
        if result is not None and not _has_place(<Node> result) and not _enter_node(<Node> result):
            return False
    return True


cdef bint _enter_formal(Node formal) except -1:
    _take_place(formal)
    _put(formal.kind << 4 | formal.type)
    _put_size(formal.size)
    _put(formal.attr << 1 | bool(formal.payload))
    return True


cdef bint _push(Py_ssize_t* count, Node node) except -1:
    """Push what has to be there before another node."""
    global _stack
    if count[0] + 8 > _stack_capacity:
        _stack = <PyObject**> _larger(_stack, &_stack_capacity, count[0] + 8, sizeof(PyObject*))
    _stack[count[0]] = <PyObject*> node
    count[0] += 1
    return True


cdef bint _scan(Node root) except -1:
    """Put down all that a root needs and is; whether there may be a recipe."""
    cdef Py_ssize_t count = 0
    cdef PyObject* entry
    cdef Node node, operand
    cdef Control control
    cdef Region region
    cdef int kind
    _push(&count, root)
    while count:
        count -= 1
        entry = _stack[count]
        if <uintptr_t> entry & 1:
            node = <Node> <PyObject*> (<uintptr_t> entry - 1)
            if not _has_place(node) and not _enter_node(node):
                return False
            continue
        node = <Node> entry
        if node.place >> 24 == _walk:
            continue
        node.place = _walk << 24 | SEEN
        kind = node.kind
        if kind <= UNDEFINED or kind == EVALUATED:
            if kind != EVALUATED and kind != LITERAL and kind != UNDEFINED or not _enter_node(node):
                return False
            continue
        if not _may_have_recipe[kind]:
            return False
        _push(&count, node)
        _stack[count - 1] = <PyObject*> (<uintptr_t> entry | 1)
        if node.d3 is not None:
            _push(&count, node.d3)
        if node.d2 is not None:
            _push(&count, node.d2)
        if node.d1 is not None:
            _push(&count, node.d1)
        if node.d0 is not None:
            _push(&count, node.d0)
        if kind == LOOP or kind == COND or kind == CALL:
            control = node.payload
            if len(control.regions) > MOST_TARGETS:
                return False
            for operand in control.initial:
                _push(&count, operand)
            for region in control.regions:
                for operand in region.captures:
                    _push(&count, operand)
                for operand in region.sources:
                    _push(&count, operand)
            operand = None
    return True


class _Listener:
    """Makes a recipe of the launches of a plan."""

    def __init__(self, dict places, bint exact):
        self.places, self.count, self.exact = places, len(places), exact
        self.least, self.most = [0] * (_size_count + 1), [math.inf] * (_size_count + 1)
        self.sizes = {1: 0} | {_sizes[number]: number + 1 for number in range(_size_count)}
        self.made, self.undefined, self.steps = [], [], []
        self.begun = None
        self.fails = False

    def place_of_output(self, node):
        """The place of what a launch gives: a new one for what planning has made."""
        place = self.places.get(node.id)
        if place is None:
            place = self.places[node.id] = self.count + len(self.made)
            self.made.append((node.type, node.size, self.number(node.size)))
        return place

    def number(self, size):
        """The number of a size, unless it stays the same."""
        found = -1 if self.exact else self.sizes.get(size)
        if found is None:  # it follows from others, nobody knows how
            self.exact = True
            found = -1
        return found

    def bound(self, program):
        """Note what has been decided by sizes."""
        if program.width > 1 and not program.domain.is_flat:
            self.exact = True
        for decision in decisions_of(program):
            number = self.number(program.width if decision.memory is None else decision.memory.size)
            if number >= 0:
                self.least[number] = max(self.least[number], decision.low)
                self.most[number] = min(self.most[number], decision.high)

    def begin(self, program, kernel):
        """A program is about to be launched."""
        cdef Stage step
        cdef Py_ssize_t number = 0
        places = self.places
        layout = layout_of(program)
        roles = [slot for each in layout.parts for slot in slots_of(each)]
        written = [(node, node.d0) for node in program.scatters]
        written += [(node, node.d0.payload.origin(node.attr)) for node in program.versions]
        if self.fails or program.checks or any(
                slot.node.id not in places for slot in roles if slot.role is _INPUT or slot.role is _MEMORY or
                slot.role is _LITERAL and slot.node.attr == PARAMETER and slot.node.size == 1) or any(
                node.id not in places or target.id not in places for node, target in written):
            self.fails = True
            return
        if any(slot.role is _LITERAL and slot.node.id not in places for slot in roles):
            self.exact = True  # planning has made it, maybe of a size
        self.bound(program)
        step = Stage.__new__(Stage)
        step.units, step.unit = program.units, program.unit
        step.single, step.trips = kernel.course(program)
        step.count = len(program.parameters)
        step.width = self.number(program.width)
        outputs = [*program.stores, *program.reductions]
        step.outputs = tuple([self.place_of_output(node) for node in outputs])
        step.slots = tuple([program.slots[node.id] for node in outputs])
        step.undefined, self.undefined = tuple(self.undefined), []
        step.written = tuple([(places[node.id], places[target.id]) for node, target in written
                              if node.id not in program.tables])
        step.repeats = step.trips != 1
        step.measured = -1
        step.tables = tuple([(program.tables[node.id], places[node.d0.id], node.attr, places[node.id])
                             for node in program.scatters if node.id in program.tables])
        parameters, step.firsts = layout.words, tuple(layout.firsts[1:])
        step.links, step.moves, step.total = tuple(layout.links), tuple(layout.moves), len(parameters)
        step.symbols = tuple([(word, name_of_function(number, shared)) for word, number, shared in layout.functions])
        step.words = <uint64_t*> malloc(step.total * sizeof(uint64_t))
        step.places = <int32_t*> malloc(step.total * sizeof(int32_t))
        if step.words == NULL or step.places == NULL:
            raise MemoryError
        for number in range(step.total):
            step.words[number] = parameters[number]
            step.places[number] = -1
        number = 0
        for slot in roles:
            role = slot.role
            if role is _INPUT or role is _MEMORY or role is _LITERAL:  # other literals follow from the structure
                step.places[number] = places.get(slot.node.id, -1)
            number += 1
        entry = Entry.__new__(Entry)
        (<Entry> entry).kernel, (<Entry> entry).key = kernel, program.key
        (<Entry> entry).stride = partial_stride(kernel.reductions)
        (<Entry> entry).load()
        step.entry = <Entry> entry
        self.begun = step

    def end(self, program):
        """A program has been launched."""
        self.steps.append(self.begun)

    def allocated(self, node):
        """An array without contents has got memory."""
        place = self.places.get(node.id)
        if place is None:
            self.fails = True
        else:
            self.undefined.append(place)

    def begin_step(self, payload, operands, results):
        """A step is about to be launched."""
        cdef Stage step = Stage.__new__(Stage)
        if any(node.id not in self.places for node in (*operands, *results)):
            self.fails = True
            return
        step.outputs = tuple([self.places[node.id] for node in results])
        step.undefined, self.undefined = tuple(self.undefined), []
        self.begun = step

    def end_step(self, results, positions):
        """A step has been launched."""
        self.steps.append(self.begun)

    def recipe(self, bytes key):
        """The recipe, or that there is none."""
        cdef Recipe recipe = Recipe.__new__(Recipe)
        cdef Stage step
        recipe.key, recipe.steps, recipe.made, recipe.used = key, [], tuple(self.made), None
        recipe.exact, recipe.least, recipe.most = self.exact, self.least, self.most
        if self.fails:
            return recipe
        recipe.steps = self.steps
        kept = len(self.steps) > 1 or bool(self.made)
        for step in self.steps:  # what has run may have been the last to hold what is noted next
            kept = kept or bool(step.written or step.tables)
        if kept:
            recipe.used = set()
            for step in reversed(self.steps):
                used = step.used()
                step.releases = sorted(used - recipe.used)
                recipe.used |= used
        return recipe


cdef Recipe _recipe_of(uint64_t h):
    """The recipe with the key that was made last, for the sizes at hand; else the last one with that key, or none."""
    cdef Recipe recipe = _recipes.get(h), found
    if recipe is None or PyBytes_GET_SIZE(recipe.key) != 8 * _key_count or \
            memcmp(PyBytes_AS_STRING(recipe.key), _key, 8 * _key_count):
        return None
    found = recipe
    while found is not None:
        if found.exact or _are_between(found.least, found.most):
            return found
        found = found.other
    return None


cdef bint _is_worth_a_recipe(uint64_t h) except -1:
    """Whether a key has come before: many structures, such as those of sizes that vary, never come again."""
    if h in _met:
        _met.discard(h)
        return True
    if len(_met) > MOST_MET:
        _met.clear()
    _met.add(h)
    return False


cdef bint _are_between(list least, list most) except -1:
    cdef int number
    for number in range(_size_count):
        if not least[number + 1] <= _sizes[number] <= most[number + 1]:
            return False
    return True


cdef bint _make_recipe(list roots, uint64_t h, bint exact) except -1:
    """Plan and launch what some nodes need, and make a recipe of it under the key that was made last, if that has come
    before; whether it was done."""
    cdef Recipe made, found
    cdef Py_ssize_t number
    if not _is_worth_a_recipe(h):
        return False
    key = PyBytes_FromStringAndSize(<char*> _key, 8 * _key_count)
    places = {(<Node> _nodes[number]).id: number for number in range(_place)}
    assert len(places) == _place, "a node has two places"
    listener = _Listener(places, exact)
    evaluate_by_kernels(_backend, roots, listener)
    made = listener.recipe(key)
    if made.exact and not exact:  # it turned out to be for these sizes only: the next ones are looked up by sizes as well
        made.steps = []
    elif not exact:
        found = _recipes.get(h)
        if found is not None and found.key == key and found.depth < MOST_OTHERS:
            made.other, made.depth = found, found.depth + 1
    _recipes[h] = made
    return True


cdef bint _run_recipe(list roots) except -1:
    """Launch what some nodes need whose structure is known; make a recipe if it is not; whether it was done."""
    global _nodes, _size_count, _exact
    cdef Node root, node
    cdef Recipe recipe
    cdef Py_ssize_t number, place, count
    cdef uint64_t h
    cdef list held = None
    cdef Stage step
    cdef int which
    if len(_recipes) > MOST_RECIPES or len(_payloads) > MOST_PAYLOADS:  # before anything is numbered
        _recipes.clear()
        _met.clear()
        _payloads.clear()
    _begin(1)
    _put(_pool_count())
    _size_count, _exact = 0, False
    _details.clear()
    for root in roots:
        if not _scan(root):
            return False
    if _place >= PLACES - 16:
        return False
    for root in roots:
        _make_room()
        _put(_place_of(root))
    recipe = None
    if not _exact:
        h = _hash()
        recipe = _recipe_of(h)
    root = None  # planning counts who holds nodes
    if recipe is None and not _exact:
        return _make_recipe(roots, h, False)
    if recipe is None or recipe.exact:
        for number in range(_size_count):
            _make_room()
            _put(_sizes[number])
        for detail in _details:
            _make_room()
            _put(detail)
        h = _hash()
        recipe = _recipe_of(h)
        if recipe is None:
            return _make_recipe(roots, h, True)
    if not recipe.steps:
        return False
    count = _place
    if recipe.used is not None:
        held = [None] * (count + len(recipe.made))
        for place in recipe.used:
            if place < count:
                held[place] = <Node> _nodes[place]
        if len(held) > _node_capacity:
            _nodes = <PyObject**> _larger(_nodes, &_node_capacity, len(held), sizeof(PyObject*))
        for number in range(len(recipe.made)):
            node = blank_node()
            node.kind = UNDEFINED
            node.type, node.size, which = recipe.made[number]
            if which >= 0:
                node.size = _sizes[which - 1] if which else 1
            held[count + number] = node
            _nodes[count + number] = <PyObject*> node
        node = root = None
    for step in recipe.steps:
        for place in step.undefined:
            node = <Node> _nodes[place]
            if node.kind == UNDEFINED:
                become(node, _allocate(node.size * _size_of[node.type]))
        if step.entry is not None:
            if step.width >= 0:
                step.units = _sizes[step.width - 1] if step.width else 1
            _run_stage(step)
        elif not _launch_step([<Node> _nodes[<Py_ssize_t> place] for place in step.outputs]):
            node = None
            roots = [root for root in roots if (<Node> root).kind != EVALUATED]
            evaluate_by_kernels(_backend, roots)  # what is left is planned anew
            return True
        if held is not None:
            node = None
            for place in step.releases:
                held[place] = None
    return True


cdef bint _run_stage(Stage step) except -1:
    """Launch a kernel of a recipe."""
    global _parameters, _parameter_count, _input_count, _inputs, _borrowing, _slots
    cdef Entry entry = step.entry
    cdef Node node
    cdef Buffer buffer
    cdef Py_ssize_t number, other, position = 0
    cdef int32_t place
    cdef list outputs = [], tables = None
    if step.tables:  # before the parameters are made: these are launches as well
        where = _target_of()
        tables = [_filled_tables(_backend, where, <Node> _nodes[<Py_ssize_t> target], op)
                  for _, target, op, _ in step.tables]
    while step.total > _parameter_capacity:
        _parameters = <uint64_t*> _larger(_parameters, &_parameter_capacity, step.total, sizeof(uint64_t))
    while step.total + 8 > _input_capacity:
        _inputs = <PyObject**> _larger(_inputs, &_input_capacity, step.total + 8, sizeof(PyObject*))
    if len(step.slots) > _slot_capacity:
        _slots = <Py_ssize_t*> _larger(_slots, &_slot_capacity, len(step.slots), sizeof(Py_ssize_t))
    _note_use(entry, step.units * step.unit)
    if step.symbols and step.linked is not entry.functions:  # code of the other tier lies elsewhere
        addresses = entry.functions.owner.addresses
        for number, name in step.symbols:
            step.words[number] = addresses[name]
        step.linked = entry.functions
    memcpy(_parameters, step.words, step.total * sizeof(uint64_t))
    if step.width >= 0:
        _parameters[0] = step.units
        for number in step.firsts:
            _parameters[number] = step.units
    _parameter_count, _input_count, _borrowing = step.total, 0, False
    for number in range(step.total):
        place = step.places[number]
        if place < 0:
            continue
        node = <Node> _nodes[place]
        if node.kind == LITERAL:
            _parameters[number] = _bits(node.type, node.payload)
        else:
            buffer = <Buffer> node.payload
            _parameters[number] = buffer.address
            if buffer.read_only:
                _borrowing = True
            _inputs[_input_count] = <PyObject*> buffer
            _input_count += 1
    for number, other in step.links:
        _parameters[number] = _parameters[other]
    for slot in step.slots:
        _slots[position] = slot
        position += 1
    for number in step.outputs:
        outputs.append(<Node> _nodes[number])
    if tables is not None:
        for position in range(len(tables)):
            number = step.tables[position][0]
            _parameters[number], _parameters[number + 1] = tables[position].words
    _launch(entry, outputs, step.units, step.unit, step)
    _commit_writes(step)
    if tables is not None:
        for position in range(len(tables)):
            tables[position].whole.payload.ticket = pool.submitted()
            node = <Node> _nodes[<Py_ssize_t> step.tables[position][3]]
            become(node, _merged_tables(_backend, where, tables[position]))
        _commit_writes(step)
    return True


cdef bint _commit_writes(Stage step) except -1:
    """The writes have values whose targets have been written in place."""
    cdef Node node, target
    for number, place in step.written:
        node, target = <Node> _nodes[<Py_ssize_t> number], <Node> _nodes[<Py_ssize_t> place]
        if node.kind != EVALUATED and target.kind == EVALUATED:
            become(node, target.payload)
    return True


cdef int64_t _pool_count() except -1:
    """What planning and assembling look at besides the graph."""
    count = _module_of_pool["_count"]
    if count is None:
        count = pool.thread_count()
    return <int64_t> _module_of_pool["_expand_threshold"] << 16 | <int64_t> count


def _id_of(Node node):
    return node.id


def _place_in_plan(Node node):
    return _width_of(node), node.id


cdef bint _are_straight(list roots) except -1:
    """Whether all kernels of some nodes are straight ones."""
    cdef Node root
    _begin(1)
    for root in roots:
        if not _visit_root(root):
            return False
        _make_room()
        if root.kind == REDUCE and _leaf(root.d0) < 0:
            return False
    return _place < PLACES - 16


cdef dict _levels = _log._cache  # what Logger.isEnabledFor looks at first


def evaluate(backend, list roots):
    """Give values to nodes.  The caller holds the lock."""
    global _backend
    cdef Context context = current()
    if context.recording is not None or context.flags & _EXCEPTIONAL or _module_of_pool["_forsaken"] or \
            (_levels.get(INFO) is not False and _log.isEnabledFor(INFO)):
        evaluate_by_kernels(backend, roots)
        return
    _backend = backend
    if len(roots) == 1 and (<Node> roots[0]).kind == STEP and _launch_step(roots):
        return
    if not _evaluate(roots) and not _run_recipe(roots):
        evaluate_by_kernels(backend, roots)


cdef bint _evaluate(list roots) except -1:
    """Give values to nodes, unless the general way has to; whether it was done."""
    global _cache_bytes
    cdef Node root
    cdef int64_t width
    cdef bint several = False
    cdef list group
    cdef Py_ssize_t position, count = len(roots)
    if not _cache_bytes:
        _cache_bytes = last_level_cache()
    width = _width_of(<Node> roots[0])
    if count > 1:
        for root in roots:
            several = several or _width_of(root) != width
        roots.sort(key=_id_of)
    if not several:
        return _run(roots, width)
    if not _are_straight(roots):  # then no kernel is launched
        return False
    roots.sort(key=_place_in_plan)
    position = 0
    while position < count:
        width = _width_of(<Node> roots[position])
        group = []
        while position < count and _width_of(<Node> roots[position]) == width:
            group.append(roots[position])
            position += 1
        if not _run(group, width):
            raise AssertionError("a kernel was straight a moment ago, and is not any more")
    return True


cpdef uint64_t host_address(object self, Buffer buffer) except? 0:
    """The address of a buffer once the launches that use it have ended."""
    _look_at_pool()
    if _pool is None and not _module_of_pool["_forsaken"]:
        return buffer.address
    if _pool is not None and _words[COMPLETED] >= buffer.ticket:
        _let_go(_pool)
    else:
        pool.wait(buffer.ticket)
    return buffer.address


def key_of(object backend, list roots):
    """For tests: key and parameters (those of outputs are 0) of the one kernel of some nodes, or ``None``."""
    global _backend, _cache_bytes
    cdef Node root
    cdef Py_ssize_t position
    _backend = backend
    _cache_bytes = last_level_cache()
    if not roots or not _bind(roots, _width_of(<Node> roots[0])):
        return None
    return PyBytes_FromStringAndSize(<char*> _key, 8 * _key_count), [_parameters[position] for position
                                                                     in range(_parameter_count)]
