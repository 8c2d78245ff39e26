"""The compiled form of ``native.py``."""

from libc.stdint cimport int32_t, int64_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from ..buffer cimport Buffer
from ..native cimport Entry, Native
from ..walk cimport Walk

from ...llvm import threads as _threads
from ...llvm.emit import COMBINE, KERNEL
from ...llvm.reduction import partial_stride
from ..dump import is_wanted
from . import cache, launches, pool

ctypedef void (*KernelFunction)(void*, int64_t, int64_t, int64_t, int64_t, int64_t, int32_t) noexcept nogil
ctypedef void (*CombineFunction)(void*, int64_t) noexcept nogil
ctypedef void (*SubmitFunction)(void*, int64_t, void*, void*, void*, int64_t, int64_t, int64_t, void*,
                                int64_t) noexcept nogil

cdef object STRAIGHT = launches.Course()  # without loops, and writes that conflict
cdef int64_t INLINE_WORK = launches.INLINE_WORK, SHORT_WORK = launches.SHORT_WORK
cdef int64_t SLOTS = _threads.SLOTS
cdef int SUBMITTED = _threads.SUBMITTED, COMPLETED = _threads.COMPLETED

# --- the one pool of the process -------------------------------------------------------------------------------------

cdef dict _module_of_pool = pool.__dict__
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


cdef bint _let_go(object found) except -1:
    """What the pool's ``let_go`` does, if there is anything to do."""
    global _let_go_until
    cdef int64_t completed = _words[COMPLETED]
    if completed != _let_go_until:
        found.let_go()
        _let_go_until = completed
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


# --- kernels ---------------------------------------------------------------------------------------------------------

cdef class CPUEntry(Entry):
    """A kernel, by the addresses of its functions."""

    cdef KernelFunction function
    cdef CombineFunction combine
    cdef int64_t work, words, stride, patience  # work that the quick tier does before the kernel is compiled again
    cdef bint quick
    cdef int64_t block  # elements, in a pass of a step; else 0
    cdef bint single  # the whole width is one block
    cdef bint repeats  # whether it has loops
    cdef int64_t measured, repeated  # units, and how much work each of them is
    cdef bint bounded  # whether a launch of them ends soon

    cdef bint load(self) except -1:
        functions = self.code = self.kernel.functions
        self.function = <KernelFunction> <uintptr_t> functions.addresses[0]
        self.combine = <CombineFunction> <uintptr_t> functions.addresses[1]
        self.work, self.words = functions.work, functions.words
        self.quick = self.kernel.quick
        self.patience = self.kernel.patience() if self.quick else 0
        return True


cdef inline int64_t _block_size(int64_t work, int64_t width, int64_t unit, int64_t words) noexcept:
    """See :func:`.launches.block_size`."""
    cdef int64_t smallest, largest, size, power = 1
    work *= unit
    smallest = max(<int64_t> 1 if unit > 1 else <int64_t> 64, (<int64_t> 1 << 19) // work)
    largest = max(smallest, min(<int64_t> 1 << 18, (<int64_t> 1 << 22) // work))
    size = max(smallest, min(largest, width // 16))
    if words > 1024:
        size = max(size, words // (16 * unit), width // 32)
    while 2 * power <= size:
        power *= 2
    return power

assert launches._BLOCKS == 16 and launches._LEAST_WORK == 1 << 19 and launches._MOST_WORK == 1 << 22
assert launches._LARGEST_BLOCK == 1 << 18 and launches._SMALLEST_BLOCK == 64
assert launches._MANY_WORDS == 1024 and launches._WORDS_OF_ELEMENT == 16 and launches._FEW_BLOCKS == 32

cdef int64_t _hits = 0  # launches of known kernels


def hits():
    """How many launches of known kernels there were."""
    return _hits


cache.other_hits.append(hits)


# --- launches --------------------------------------------------------------------------------------------------------

cdef class Queued:
    """A launch that may not have run yet, and what must live until it has."""

    cdef uint64_t* parameters
    cdef object code
    cdef public object keep

    def __dealloc__(self):
        free(self.parameters)


cdef class CPUNative(Native):
    """Launches by the pool, and memory of the heap."""

    cdef object count, threshold  # what the pool decides about the target

    cdef uint64_t host_address(self, Buffer buffer) except? 0:
        return host_address(self, buffer)

    cdef bint may_launch(self) except -1:
        return not _module_of_pool["_forsaken"]

    cdef bint begin(self) except -1:
        if self.target is None:
            self.look()
        return self.may_launch()

    cdef int64_t look(self) except -1:
        count, threshold = _module_of_pool["_count"], _module_of_pool["_expand_threshold"]
        if count is not self.count or threshold is not self.threshold or count is None:
            Native.look(self)
            self.count, self.threshold = _module_of_pool["_count"], threshold
        return self.number

    cdef Entry find(self, Walk walk, int64_t width, Py_ssize_t reductions):
        cdef Entry entry
        cdef bint loaded = False
        key = walk.key_bytes()
        kernel = cache._kernels.get(key)
        if kernel is None and not is_wanted():
            exports = (KERNEL, COMBINE) if reductions else (KERNEL,)
            kernel = cache.load(cache.Facts(key, width, walk.operations, walk.work + 1, walk.parameter_count,
                                            reductions, exports))
            loaded = kernel is not None
        if kernel is None:
            return None
        entry = self.enter(kernel, STRAIGHT)
        entry.is_counted = loaded
        return entry

    cdef Entry enter(self, object kernel, object course):
        cdef CPUEntry entry = CPUEntry(kernel)
        entry.stride = partial_stride(kernel.partial_words)
        entry.measured = -1
        if course is not None:
            entry.course = course
            entry.single, entry.repeats = course.single, course.trips != 1
        entry.load()
        return entry

    cdef Entry enter_pass(self, object kernel, object plan):
        cdef CPUEntry entry = CPUEntry(kernel)
        entry.block = plan.launch.block
        entry.load()
        return entry

    cdef bint use(self, Entry entry, int64_t width) except -1:
        global _hits
        cdef CPUEntry known = <CPUEntry> entry
        if known.is_counted:
            known.is_counted = False
            return True
        if known.quick:
            known.patience -= width * known.work
            if known.patience <= 0:
                known.kernel.worked(known.kernel.patience() - known.patience)
                known.load()
        _hits += 1
        return True

    cdef int64_t launch(self, Entry entry, uint64_t* words, Py_ssize_t count, int64_t units, int64_t unit,
                        list keep) except -1:
        cdef CPUEntry known = <CPUEntry> entry
        cdef Buffer partials = None
        cdef bint bounded = True
        cdef int64_t ticket, size, work = known.work * unit
        if known.block:
            return _submit_blocks(known, words, count, units, known.block, units * known.work, True, True, keep)
        size = units if known.single else _block_size(known.work, units, unit, known.words)
        if known.repeats:
            if known.measured != units:
                known.repeated, known.bounded = known.kernel.repeated(known.course.trips, unit, units)
                known.measured = units
            work, bounded = known.repeated, known.bounded
        if known.combine != NULL:
            partials = self.allocate(known.stride * ((units + size - 1) // size))
            words[1] = partials.address
        ticket = _submit_blocks(known, words, count, units, size, units * work, known.combine != NULL, bounded, keep)
        if partials is not None:
            partials.ticket = ticket
        return ticket


cdef int64_t _submit_blocks(CPUEntry entry, uint64_t* words, Py_ssize_t count, int64_t width, int64_t size,
                            int64_t work, bint blocked, bint bounded, list keep) except -1:
    """Enqueue a launch, or run it at once; returns its ticket.

    What is blocked must be called block by block; the length of what is not bounded is unknown.
    """
    cdef int64_t blocks = (width + size - 1) // size, ticket
    cdef bint short_ = work < INLINE_WORK or blocks <= 1
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
        queued.parameters = <uint64_t*> malloc(count * sizeof(uint64_t))
        if queued.parameters == NULL:
            raise MemoryError
        memcpy(queued.parameters, words, count * sizeof(uint64_t))
        queued.code, queued.keep = entry.code, keep
        _fill_tables(entry, queued.parameters)
        unattended = _pool.stand_in and (not bounded or _pool.count == 1)
        if not bounded:
            _pool.last_unbounded = ticket
        assert blocks > 0, "a launch without blocks never ends"
        _pool.kept[ticket] = queued
        _submit(<void*> _words, ticket, <void*> entry.function, <void*> entry.combine, queued.parameters, width, blocks,
                size, NULL, unattended)
        return ticket
    ticket = _words[SUBMITTED] if _pool is not None else _module_of_pool["_last"]
    _fill_tables(entry, words)
    if not blocked:
        if bounded and work < SHORT_WORK:
            entry.function(words, 0, 1, 0, width, 0, 0)
        else:
            with nogil:
                entry.function(words, 0, 1, 0, width, 0, 0)
    elif bounded and work < SHORT_WORK:
        _run_blocks(entry, words, width, size, blocks)
    else:
        with nogil:
            _run_blocks(entry, words, width, size, blocks)
    return ticket


cdef inline bint _fill_tables(Entry entry, uint64_t* words) except -1:
    """Make the tables of the calls of a stage, which lie behind the parameters."""
    cdef Py_ssize_t word, other
    for word, other in entry.moves:
        words[word] = <uint64_t> <uintptr_t> (words + other)
    return True


cdef void _run_blocks(CPUEntry entry, uint64_t* words, int64_t width, int64_t size, int64_t blocks) noexcept nogil:
    cdef int64_t block
    for block in range(blocks):
        entry.function(words, 0, 1, block * size, min(width, (block + 1) * size), block, 0)
    if entry.combine != NULL:
        entry.combine(words, blocks)
