"""The compiled form of ``straight.py``.

A walk numbers the nodes that it comes by in a word of theirs: the number of the walk, and above that the position in
the program.  It writes the words of the key, which are those that :mod:`drjit_core.codegen.program` makes, and those of
the parameters, into memory that is used again and again: whoever is in here holds the lock of evaluations.

From the call of the kernel to the end of the commit no Python code runs, so that no interrupt comes in between.
"""

import logging
import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy

from ...context cimport Context, current
from ...ir.node cimport Node, become
from ..buffer cimport Buffer
from .malloc cimport Block, allocate as allocate_block

from ...codegen import program as _program
from ...codegen.signature import Role, slots_of
from ...flags import DEBUG as _DEBUG
from ...flags import KERNEL_HISTORY as _KERNEL_HISTORY
from ...flags import LAUNCH_BLOCKING as _LAUNCH_BLOCKING
from ...flags import PRINT_IR as _PRINT_IR
from ...ir.node import BAKED as _BAKED
from ...ir.node import PARAMETER as _PARAMETER
from ...llvm import threads as _threads
from ...llvm.emit import COMBINE, KERNEL
from ...llvm.reduction import partial_stride
from ...ops import table
from ...passes.domain import WIDE_EXTENT as _WIDE_EXTENT
from ...passes.schedule import Kernel, plan
from ...passes.domain import flat
from ...types import FLOAT16 as _FLOAT16
from ...types import FLOAT32 as _FLOAT32
from ...types import FLOAT64 as _FLOAT64
from ...types import TYPES, JitBackend
from ..launch import evaluate_by_kernels, launch as _launch_any
from .. import explain
from ..steps import forget as _forget_steps
from ..steps import launch_alone as _launch_alone
from . import cache, launches, pool, shortage

cdef extern from "Python.h":
    unsigned long long PyLong_AsUnsignedLongLongMask(object) except? 0xFFFFFFFFFFFFFFFF

ctypedef void (*KernelFunction)(void*, int64_t, int64_t, int64_t, int64_t, int64_t, int32_t) noexcept nogil
ctypedef void (*CombineFunction)(void*, int64_t) noexcept nogil
ctypedef void (*SubmitFunction)(void*, int64_t, void*, void*, void*, int64_t, int64_t, int64_t, void*, int64_t) noexcept nogil

cdef object _INPUT = Role.INPUT, _MEMORY = Role.MEMORY, _LITERAL = Role.LITERAL
cdef long long _EXCEPTIONAL = _DEBUG | _KERNEL_HISTORY | _LAUNCH_BLOCKING | _PRINT_IR
cdef int BAKED = _BAKED, PARAMETER = _PARAMETER
cdef int LITERAL = table.LITERAL, UNDEFINED = table.UNDEFINED, EVALUATED = table.EVALUATED, COUNTER = table.COUNTER
cdef int STEP = table.STEP, VIEW = table.VIEW, SEGMENT = table.SEGMENT
cdef int GATHER = table.GATHER, REDUCE = table.REDUCE, CAST = table.CAST, BITCAST = table.BITCAST, ACCESS = table.ACCESS
cdef int FIRST_ELEMENTWISE = table.FIRST_ELEMENTWISE
cdef int FLOAT16 = _FLOAT16, FLOAT32 = _FLOAT32, FLOAT64 = _FLOAT64
cdef int64_t WIDE_EXTENT = _WIDE_EXTENT
cdef int SCALAR = _program.SCALAR, ALIGNED = _program.ALIGNED, UNALIGNED = _program.UNALIGNED
cdef int SHIFTED = _program.SHIFTED, SHIFTED_UNALIGNED = _program.SHIFTED_UNALIGNED, REVERSED = _program.REVERSED
cdef int64_t STORE = _program.STORE, REDUCTION = _program.REDUCTION, STREAMED = _program.STREAMED
cdef int64_t STREAMING_WIDTH = _program.STREAMING_WIDTH, LARGE_BYTES = _program.LARGE_BYTES
cdef int64_t LANGUAGE = JitBackend.LLVM.value << 8 | 1
cdef int64_t INLINE_WORK = launches.INLINE_WORK, SHORT_WORK = launches.SHORT_WORK
cdef int64_t SLOTS = _threads.SLOTS
cdef int SUBMITTED = _threads.SUBMITTED, COMPLETED = _threads.COMPLETED
cdef int INFO = logging.INFO

cdef int FIRST_EXPANDED = table.FIRST_EXPANDED
cdef int _cost_of[256]
for _op in table.OPS:
    _cost_of[_op.kind] = _op.cost
cdef int _size_of[16]
for _info in TYPES:
    if _info is not None:
        _size_of[_info.type] = _info.size

_log = logging.getLogger("drjit")


# --- the walk --------------------------------------------------------------------------------------------------------

cdef enum:
    MOST_POINTERS = 64  # arrays that a kernel gathers from
    PLACES = 1 << 24  # nodes of a program
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
        return _program._float_bits(type_, value)
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
    _forget_steps()


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
        block = allocate_block(nbytes)
    except (MemoryError, OverflowError):
        block = shortage.allocate(nbytes)
    buffer = Buffer.__new__(Buffer)
    buffer.backend = _backend
    buffer.address = block.address
    buffer.nbytes = nbytes
    buffer.padded = True
    buffer._block = block
    buffer.ticket = block.ticket
    return buffer


cdef bint _launch(Entry entry, list roots, int64_t width, int64_t unit) except -1:
    """Launch a kernel with the parameters that were made last; its outputs are evaluated afterwards.

    The width is a number of units, of so many elements.
    """
    cdef list buffers = []
    cdef Buffer buffer, partials = None
    cdef Node root
    cdef Py_ssize_t position = 0
    cdef int64_t size = _block_size(entry.work, width, unit), blocks = (width + size - 1) // size
    cdef int64_t work = width * unit * entry.work, ticket
    cdef bint short_ = work < INLINE_WORK or width <= size
    cdef int64_t begin, block
    cdef Queued queued
    cdef bint unattended
    if entry.combine != NULL:
        partials = _allocate(entry.stride * blocks)
        _parameters[1] = partials.address
    for root in roots:
        buffer = _allocate(root.size * _size_of[root.type])
        _parameters[_slots[position]] = buffer.address
        position += 1
        buffers.append(buffer)
    _look_at_pool()
    if _pool is None and not short_ and pool._worth_starting(work):
        pool._started()
        _look_at_pool()
    if _pool is not None and not (_words[COMPLETED] == _words[SUBMITTED] and (short_ or _pool.count == 1)):
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
        unattended = _pool.count == 1 and _pool.stand_in
        _pool.kept[ticket] = queued
        _submit(<void*> _words, ticket, <void*> entry.function, <void*> entry.combine, queued.parameters, width, blocks,
                size, NULL, unattended)
    else:
        ticket = _words[SUBMITTED] if _pool is not None else _module_of_pool["_last"]
        if entry.combine == NULL:
            if work < SHORT_WORK:
                entry.function(_parameters, 0, 1, 0, width, 0, 0)
            else:
                with nogil:
                    entry.function(_parameters, 0, 1, 0, width, 0, 0)
        elif work < SHORT_WORK:
            for block in range(blocks):
                begin = block * size
                entry.function(_parameters, 0, 1, begin, min(width, begin + size), block, 0)
            entry.combine(_parameters, blocks)
        else:
            with nogil:
                for block in range(blocks):
                    begin = block * size
                    entry.function(_parameters, 0, 1, begin, min(width, begin + size), block, 0)
                entry.combine(_parameters, blocks)
    for position in range(_input_count):
        (<Buffer> _inputs[position]).ticket = ticket
    if partials is not None:
        partials.ticket = ticket
    for position in range(len(roots)):
        buffer = <Buffer> buffers[position]
        buffer.ticket = ticket
        become(<Node> roots[position], buffer)
    return True


cdef bint _run(list roots, int64_t width) except -1:
    """Bind and launch one kernel; whether that was possible."""
    global _hits
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
        _launch_any(_backend, pool.policy(), kernel)
        return True
    if entry.loaded:
        entry.loaded = False
        _launch(entry, roots, width, 1)
        return True
    if entry.quick:
        entry.patience -= width * entry.work
        if entry.patience <= 0:
            entry.kernel.worked(entry.kernel.patience() - entry.patience)
            entry.load()
    _hits += 1
    _launch(entry, roots, width, 1)
    return True


# --- kernels that go over rows ---------------------------------------------------------------------------------------
#
# Which kernels there are, and over what they go, follows from the whole graph. Where that is one kernel, a recipe says
# what its parameters are; it is found by all that planning looks at, sizes included.

cdef class Recipe:
    """What takes a graph of some structure to the launch of its one kernel."""

    cdef Entry entry
    cdef bytes key
    cdef int64_t units, unit
    cdef uint64_t* words  # parameters, as far as they are always the same
    cdef int32_t* places  # of the node whose bits or address a parameter is; -1: none
    cdef Py_ssize_t count
    cdef tuple outputs  # parameters, in the order of the roots

    def __dealloc__(self):
        free(self.words)
        free(self.places)


cdef Py_ssize_t MOST_RECIPES = 65536
cdef dict _recipes = {}
cdef dict _payloads = {}  # views, accesses and reductions of rows, numbered
cdef PyObject** _nodes = NULL  # by their places; the roots hold them
cdef Py_ssize_t _node_capacity = 0


cdef int64_t _number_of(object payload) except -1:
    found = _payloads.get(payload)
    if found is None:
        found = _payloads[payload] = len(_payloads)
    return found


cdef bint _enter_node(Node node) except -1:
    """Put down what planning looks at of a node whose operands are there; whether there may be a recipe."""
    cdef int kind = node.kind
    cdef Buffer buffer
    global _nodes
    _make_room()
    if _place + 1 > _node_capacity:
        _nodes = <PyObject**> _larger(_nodes, &_node_capacity, _place + 1, sizeof(PyObject*))
    _put(kind << 4 | node.type)
    _put(node.size)
    if kind == EVALUATED:
        if not isinstance(node.payload, Buffer):
            return False
        buffer = <Buffer> node.payload
        if buffer.backend is not _backend:
            return False
        _put(buffer.padded)
    elif kind == LITERAL:
        _put(node.attr)
        if node.attr != PARAMETER or node.size > 1:  # planning makes such ones as well, which may be equal or derived
            _put(<int64_t> _bits(node.type, node.payload))
    else:
        _put(node.attr)
        _put(-1 if node.d0 is None else _place_of(node.d0))
        _put(-1 if node.d1 is None else _place_of(node.d1))
        _put(-1 if node.d2 is None else _place_of(node.d2))
        if kind == VIEW or kind == SEGMENT or kind == ACCESS:
            _put(_number_of(node.payload))
    _nodes[_place] = <PyObject*> node
    _set_place(node)
    return True


cdef bint _scan(Node root) except -1:
    """Put down all that a root needs and is; whether there may be a recipe."""
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
            if not _enter_node(<Node> <PyObject*> (<uintptr_t> entry - 1)):
                return False
            continue
        node = <Node> entry
        if node.place >> 24 == _walk:
            continue
        node.place = _walk << 24 | SEEN
        kind = node.kind
        if kind == EVALUATED or kind == LITERAL:
            if not _enter_node(node):
                return False
            continue
        if kind < FIRST_ELEMENTWISE and kind != COUNTER and kind != GATHER and kind != CAST and kind != BITCAST \
                and kind != ACCESS and kind != VIEW and kind != SEGMENT and kind != REDUCE or node.d3 is not None:
            return False
        if count + 8 > _stack_capacity:
            _stack = <PyObject**> _larger(_stack, &_stack_capacity, count + 8, sizeof(PyObject*))
        _stack[count] = <PyObject*> (<uintptr_t> entry | 1)
        count += 1
        if node.d2 is not None:
            _stack[count] = <PyObject*> node.d2
            count += 1
        if node.d1 is not None:
            _stack[count] = <PyObject*> node.d1
            count += 1
        if node.d0 is not None:
            _stack[count] = <PyObject*> node.d0
            count += 1
    return True


class _Listener:
    """Makes a recipe of the launch of one kernel."""

    def __init__(self, list roots, bytes key, dict places):
        self.roots, self.key, self.places, self.recipe = roots, key, places, None

    def begin(self, program, kernel):
        """A program is about to be launched."""
        cdef Recipe recipe
        cdef Py_ssize_t number = 0
        places = self.places
        outputs = {node.id: program.slots[node.id] for node in (*program.stores, *program.reductions)}
        if program.scatters or program.versions or program.checks or program.calls or len(outputs) != len(self.roots) \
                or any(root.id not in outputs for root in self.roots):
            return
        roles = slots_of(program)
        if any(slot.node.id not in places for slot in roles if slot.role is _INPUT or slot.role is _MEMORY):
            return
        recipe = Recipe.__new__(Recipe)
        recipe.key, recipe.units, recipe.unit, recipe.count = self.key, program.units, program.unit, len(roles)
        recipe.outputs = tuple([outputs[root.id] for root in self.roots])
        recipe.words = <uint64_t*> malloc(recipe.count * sizeof(uint64_t))
        recipe.places = <int32_t*> malloc(recipe.count * sizeof(int32_t))
        if recipe.words == NULL or recipe.places == NULL:
            raise MemoryError
        for slot in roles:
            role = slot.role
            recipe.words[number] = program.parameters[number]
            recipe.places[number] = -1
            if role is _INPUT or role is _MEMORY or role is _LITERAL:  # other literals follow from the structure
                recipe.places[number] = places.get(slot.node.id, -1)
            number += 1
        entry = Entry.__new__(Entry)
        (<Entry> entry).kernel, (<Entry> entry).key = kernel, program.key
        (<Entry> entry).stride = partial_stride(kernel.reductions)
        (<Entry> entry).load()
        recipe.entry = <Entry> entry
        self.recipe = recipe

    def end(self, program):
        """A program has been launched."""

    def allocated(self, node):
        """An array without contents has got memory."""


cdef bint _run_recipe(list roots) except -1:
    """Launch the one kernel of some nodes whose structure is known; make a recipe if it is not; whether it was done."""
    global _parameters, _parameter_count, _input_count, _inputs, _borrowing, _slots, _hits
    cdef Node root, node
    cdef Recipe recipe
    cdef Py_ssize_t number, position = 0
    cdef int32_t place
    cdef uint64_t h
    cdef Entry entry
    cdef Buffer buffer
    cdef dict places
    if len(_recipes) > MOST_RECIPES or len(_payloads) > MOST_RECIPES:  # before anything is numbered
        _recipes.clear()
        _payloads.clear()
    _begin(1)
    _put(_pool_count())
    for root in roots:
        if not _scan(root):
            return False
    if _place >= PLACES - 16:
        return False
    for root in roots:
        _make_room()
        _put(_place_of(root))
    h = _hash()
    recipe = _recipes.get(h)
    if recipe is None or PyBytes_GET_SIZE(recipe.key) != 8 * _key_count or \
            memcmp(PyBytes_AS_STRING(recipe.key), _key, 8 * _key_count):
        key = PyBytes_FromStringAndSize(<char*> _key, 8 * _key_count)
        places = {(<Node> _nodes[number]).id: number for number in range(_place)}
        kernels = plan(list(roots))
        listener = _Listener(list(roots), key, places) if len(kernels) == 1 else None
        for kernel in kernels:
            _launch_any(_backend, pool.policy(), kernel, listener)
        if listener is not None and listener.recipe is not None:
            _recipes[h] = listener.recipe
        return True
    entry = recipe.entry
    while recipe.count > _parameter_capacity:
        _parameters = <uint64_t*> _larger(_parameters, &_parameter_capacity, recipe.count, sizeof(uint64_t))
    while recipe.count > _input_capacity:
        _inputs = <PyObject**> _larger(_inputs, &_input_capacity, recipe.count, sizeof(PyObject*))
    if len(roots) > _slot_capacity:
        _slots = <Py_ssize_t*> _larger(_slots, &_slot_capacity, len(roots), sizeof(Py_ssize_t))
    memcpy(_parameters, recipe.words, recipe.count * sizeof(uint64_t))
    _parameter_count, _input_count, _borrowing = recipe.count, 0, False
    for number in range(recipe.count):
        place = recipe.places[number]
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
    for slot in recipe.outputs:
        _slots[position] = slot
        position += 1
    if entry.quick:
        entry.patience -= recipe.units * recipe.unit * entry.work
        if entry.patience <= 0:
            entry.kernel.worked(entry.kernel.patience() - entry.patience)
            entry.load()
    _hits += 1
    _launch(entry, roots, recipe.units, recipe.unit)
    return True


cdef int64_t _pool_count() except -1:
    """What planning and assembling look at besides the graph."""
    return pool.get_expand_threshold() << 16 | pool.thread_count()


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
    cdef Context context = current()
    cdef Node root
    if context.recording is not None or context.flags & _EXCEPTIONAL or _module_of_pool["_forsaken"] or \
            (_levels.get(INFO) is not False and _log.isEnabledFor(INFO)):
        evaluate_by_kernels(backend, roots)
        return
    if len(roots) == 1:
        root = roots[0]
        if root.kind == STEP and _launch_alone(backend, root):
            return
    if not _evaluate(backend, roots) and not _run_recipe(roots):
        evaluate_by_kernels(backend, roots)


cdef bint _evaluate(object backend, list roots) except -1:
    """Give values to nodes, unless the general way has to; whether it was done."""
    global _backend, _cache_bytes
    cdef Node root
    cdef int64_t width
    cdef bint several = False
    cdef list group
    cdef Py_ssize_t position, count = len(roots)
    _backend = backend
    if not _cache_bytes:
        _cache_bytes = pool.last_level_cache()
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
    _cache_bytes = pool.last_level_cache()
    if not roots or not _bind(roots, _width_of(<Node> roots[0])):
        return None
    return PyBytes_FromStringAndSize(<char*> _key, 8 * _key_count), [_parameters[position] for position
                                                                     in range(_parameter_count)]
