"""The compiled form of ``native.py``."""

from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy

from ...ir.frames cimport user_place
from ..buffer cimport Buffer
from ..native cimport Entry, Native
from ..walk cimport Walk, larger

from .launches import described as _described

cdef extern from "Python.h":
    ctypedef struct PyThreadState
    PyThreadState* PyThreadState_Get() noexcept
    uint64_t PyThreadState_GetID(PyThreadState*) noexcept

ctypedef int (*LaunchFunction)(void* function, unsigned x, unsigned y, unsigned z, unsigned threads_x,
                               unsigned threads_y, unsigned threads_z, unsigned shared, void* stream,
                               void** parameters, void** extra) noexcept nogil
ctypedef int (*UploadFunction)(uint64_t target, const void* source, size_t count, void* stream) noexcept nogil

cdef enum:
    LISTED = 5
    OUT_OF_MEMORY = 2  # a status
    #: A driver has room for some launches, and lets who comes with one more wait: from then on, without the
    #: interpreter's lock. Before, releasing it would let other threads have it for some milliseconds.
    MOST_QUEUED = 512


cdef class GPUEntry(Entry):
    """A kernel, by the handles of its functions."""

    cdef void* function
    cdef void* combine
    cdef object name  # of the kernel
    cdef bint rows, in_memory
    cdef int64_t width  # of the launch whose blocks are at hand
    cdef unsigned blocks, x, y, results, combine_x
    # tables of calls
    cdef Buffer tables  # where they are on the device
    cdef uint64_t* uploaded  # what has been uploaded last
    cdef Py_ssize_t upload_capacity, upload_count

    def __dealloc__(self):
        free(self.uploaded)

    cdef bint blocks_for(self, int64_t width, int64_t units) except -1:
        """Find the blocks of a launch."""
        shape = self.kernel.module.shape(width, units)
        self.blocks, self.x, self.y = shape.blocks, shape.x, shape.y
        if self.combine != NULL:
            self.partial_bytes = self.kernel.module.partial_bytes(width, units)
        self.width, self.units = width, units
        return True


cdef class GPUNative(Native):
    """Launches by the driver's functions, and memory of the heap."""

    cdef readonly int64_t count, done
    cdef public int64_t hits
    cdef public bint is_lost
    cdef list last
    cdef LaunchFunction function
    cdef UploadFunction upload
    cdef uint64_t thread  # that has entered last, 0 if it has to enter anew
    cdef void* stream  # of that thread
    cdef uint64_t* words  # of a launch, with what the kernel gets behind them
    cdef Py_ssize_t capacity

    def __init__(self, backend):
        Native.__init__(self, backend)
        self.last = [None] * LISTED
        found = backend.driver.natives()
        if found is not None:
            self.function = <LaunchFunction> <uintptr_t> found.launch
            self.upload = <UploadFunction> <uintptr_t> found.upload

    def __dealloc__(self):
        free(self.words)

    def forget_thread(self):
        """Who launches next enters anew, and finds its stream."""
        self.thread = 0

    cpdef int64_t note(self, object name) except -1:
        """There was a launch; returns its ticket."""
        self.count += 1
        self.last[self.count % LISTED] = (name, user_place())
        return self.count

    def have_run(self, int64_t count):
        """All launches up to one have run."""
        if count > self.done:
            self.done = count

    def waiting(self):
        """How many launches may not have run, and the last of them."""
        first = max(self.done, self.count - LISTED) + 1
        return self.count - self.done, _described([self.last[each % LISTED] for each in range(first, self.count + 1)])

    # --- what the short way asks -------------------------------------------------------------------------------------

    cdef bint begin(self) except -1:
        if self.target is None:
            self.look()
        return True

    cdef int64_t look(self) except -1:
        return self.number if self.target is not None else Native.look(self)

    cdef Entry find(self, Walk walk, int64_t width, Py_ssize_t reductions):
        cdef Entry entry
        kernel, in_memory = self.backend.known(walk.key_bytes(), walk.operations)
        if kernel is None:
            return None
        entry = self.enter(kernel, None)
        entry.is_counted = not in_memory
        return entry

    cdef Entry enter(self, object kernel, object course):
        cdef GPUEntry entry = GPUEntry(kernel, course)
        entry.name, entry.width, entry.code = kernel.hash, -1, kernel
        if self.function == NULL:
            return entry
        module = kernel.module
        entry.function = <void*> <uintptr_t> kernel.function
        entry.rows, entry.in_memory = module.rows, module.words_in_memory
        if kernel.combine is not None:
            entry.combine = <void*> <uintptr_t> kernel.combine
            entry.results, entry.combine_x, _ = module.combine_shape()
        return entry

    cdef Entry enter_pass(self, object kernel, object plan):
        cdef GPUEntry entry = <GPUEntry> self.enter(kernel, None)
        entry.plan = plan
        grid = plan.launch
        entry.blocks, entry.x, entry.y = grid.blocks, grid.x, grid.y
        return entry

    cdef bint use(self, Entry entry, int64_t width) except -1:
        if entry.is_counted:
            entry.is_counted = False
        else:
            self.hits += 1
        return True

    cdef int64_t launch(self, Entry entry, uint64_t* words, Py_ssize_t count, int64_t units, int64_t unit,
                        list keep) except -1:
        cdef GPUEntry known = <GPUEntry> entry
        cdef Buffer partials = None, place = None
        cdef Py_ssize_t nbytes
        cdef int64_t ticket
        if self.function == NULL or self.is_lost:  # which says why
            return Native.launch(self, entry, words, count, units, unit, keep)
        self.enter_thread()
        if known.plan is None and (known.width != units * unit or known.units != units):
            known.blocks_for(units * unit, units)
        if known.combine != NULL:
            partials = self.allocate(known.partial_bytes)
            words[1] = partials.address
        if known.moves:
            self.move_tables(known, words, count)
        if known.count >= 0:
            count = known.count
        if known.in_memory:
            place = self.allocate(8 * count)
            self.write(place.address, words, count)
            words, count = &place.address, 1
        if count + 1 > self.capacity:
            self.words = <uint64_t*> larger(self.words, &self.capacity, count + 1, sizeof(uint64_t))
        memcpy(self.words, words, count * sizeof(uint64_t))
        nbytes = 8 * count
        if known.rows:
            self.words[count] = units
            nbytes += 8
        self.ask(known.function, known.blocks, known.x, known.y, nbytes)
        if known.combine != NULL:
            (<unsigned*> (self.words + count))[0] = known.blocks
            self.ask(known.combine, known.results, known.combine_x, 1, 8 * count + 4)
        ticket = self.note(known.name)
        if partials is not None:
            partials.ticket = ticket
        if place is not None:
            place.ticket = ticket
        return ticket

    # --- the driver --------------------------------------------------------------------------------------------------

    cdef bint enter_thread(self) except -1:
        """Let the calling thread use the device, and launches go to its stream."""
        cdef uint64_t thread = PyThreadState_GetID(PyThreadState_Get())
        if thread != self.thread:
            self.backend.driver.enter()
            self.stream = <void*> <uintptr_t> self.backend.streams.turn()
            self.thread = thread
        return True

    cdef bint write(self, uint64_t address, uint64_t* words, Py_ssize_t count) except -1:
        """Write words to memory of the device."""
        cdef int status = self.upload(address, words, 8 * count, self.stream)
        if status:
            self.backend.fail("cuMemcpyHtoDAsync_v2", status)
        return True

    cdef bint move_tables(self, GPUEntry entry, uint64_t* words, Py_ssize_t count) except -1:
        """Let parameters be the addresses of the tables behind them, on the device, which get there if they have
        changed."""
        cdef Py_ssize_t word, other
        cdef size_t nbytes
        if entry.tables is None:
            entry.tables = self.allocate(8 * count)
            entry.upload_count = -1
        for word, other in entry.moves:
            words[word] = entry.tables.address + 8 * other
        nbytes = 8 * (count - entry.count)
        if entry.upload_count == count and not memcmp(entry.uploaded, words + entry.count, nbytes):
            return True
        if count > entry.upload_capacity:
            entry.uploaded = <uint64_t*> larger(entry.uploaded, &entry.upload_capacity, count, sizeof(uint64_t))
        entry.upload_count = -1
        self.write(entry.tables.address + 8 * entry.count, words + entry.count, count - entry.count)
        memcpy(entry.uploaded, words + entry.count, nbytes)
        entry.upload_count = count
        return True

    cdef bint ask(self, void* function, unsigned blocks, unsigned x, unsigned y, size_t nbytes) except -1:
        """Ask the driver for a launch, with the words at hand."""
        cdef void* extra[5]
        cdef int status, attempt
        extra[0], extra[1], extra[2], extra[3], extra[4] = <void*> 1, self.words, <void*> 2, &nbytes, NULL
        for attempt in range(2):
            if self.count - self.done < MOST_QUEUED:
                status = self.function(function, blocks, 1, 1, x, y, 1, 0, self.stream, NULL, extra)
            else:
                with nogil:
                    status = self.function(function, blocks, 1, 1, x, y, 1, 0, self.stream, NULL, extra)
            if status != OUT_OF_MEMORY or attempt:
                break
            self.backend.flush_memory()
        if status:
            self.backend.fail("cuLaunchKernel", status)
        return True
