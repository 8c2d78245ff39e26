"""The compiled form of ``native.py``."""

from cpython cimport array
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from .buffer cimport Buffer
from .heap cimport Block, Heap
from .walk cimport Walk

import array

from . import shortage

cdef array.array _NO_WORDS = array.array("Q")


cdef Buffer buffer_from(object backend, Heap heap, int64_t nbytes):
    """A buffer with undefined contents, of a backend's heap."""
    cdef Block block
    cdef Buffer buffer
    try:
        block = heap.allocate(nbytes)
    except (MemoryError, OverflowError):
        block = shortage.allocate(heap, nbytes)
    buffer = Buffer.__new__(Buffer)
    buffer.backend = backend
    buffer.address = block.address
    buffer.nbytes = nbytes
    buffer.padded = True
    buffer._block = block
    buffer.ticket = block.ticket
    return buffer


cdef class Entry:
    """What a launch needs to know of a kernel, or of a pass of a step: of one stage of a recipe, or a straight one."""

    def __init__(self, kernel, course=None, plan=None):
        self.kernel, self.course, self.plan = kernel, course, plan
        self.count, self.moves = -1, ()

    cdef bint shape_for(self, int64_t units, int64_t unit) except -1:
        """Find out how a launch of so many units goes, unless that is known."""
        kernel = self.kernel
        if self.plan is not None:
            self.shape = kernel.shape_of_pass(self.plan.launch)
        else:
            self.shape = kernel.shape(self.course, units, unit)
            self.partial_bytes = kernel.partial_bytes(units, unit) if kernel.partial_words else 0
        self.units, self.unit = units, unit
        return True


cdef class Native:
    """Launches on a backend, by its methods in Python; backends may have a faster one."""

    def __init__(self, backend):
        self.backend, self.heap = backend, backend.heap
        self.numbers = {}

    cdef bint may_launch(self) except -1:
        """Whether anything can be launched the short way."""
        return True

    cdef bint begin(self) except -1:
        """Begin an evaluation, with a target that decides alike about straight kernels; whether it may go on."""
        self.look()
        return self.may_launch()

    cdef int64_t look(self) except -1:
        """A number for the target of the evaluation, which is at hand from now on."""
        target = self.backend.target()
        if target is not self.target:
            if target not in self.numbers:
                self.numbers[target] = len(self.numbers) + 1
            self.number = self.numbers[target]
            self.target = target
        return self.number

    cdef Buffer allocate(self, int64_t nbytes):
        """A buffer with undefined contents: of the backend's heap, if it has one."""
        if self.heap is not None:
            return buffer_from(self.backend, self.heap, nbytes)
        return self.backend.allocate(nbytes)

    cdef Entry find(self, Walk walk, int64_t width, Py_ssize_t reductions):
        """The kernel of a key that has just been made, if it is known without being compiled; for a launch of some
        width."""
        return None

    cdef Entry enter(self, object kernel, object course):
        """A kernel, for launches that take some course."""
        return Entry(kernel, course)

    cdef Entry enter_pass(self, object kernel, object plan):
        """A pass of a step, whose kernel is given."""
        return Entry(kernel, None, plan)

    cdef bint use(self, Entry entry, int64_t width) except -1:
        """Note a launch of so many elements, which is going to follow; the code may be another one afterwards."""
        if entry.is_counted:
            entry.is_counted = False
        else:
            entry.kernel.reuse(width)
        return True

    cdef int64_t launch(self, Entry entry, uint64_t* words, Py_ssize_t count, int64_t units, int64_t unit,
                        list keep) except -1:
        """Launch a kernel with parameters, and tables of calls behind them, over so many units of so many elements;
        returns a ticket.

        Once the kernel has been launched, it returns: an exception that comes then is :attr:`interrupt`.
        """
        cdef Buffer partials = None
        cdef array.array parameters
        if keep is None:
            keep = []
        if entry.shape is None or entry.units != units or entry.unit != unit:
            entry.shape_for(units, unit)
        if entry.partial_bytes:
            partials = self.allocate(entry.partial_bytes)
            words[1] = partials.address
        parameters = array.clone(_NO_WORDS, count, False)
        memcpy(parameters.data.as_voidptr, words, count * sizeof(uint64_t))
        if entry.count >= 0:
            entry.kernel.place(parameters, entry.moves, keep)
            parameters = parameters[:entry.count]
        launched = entry.kernel.launch(parameters, entry.shape, keep, False)
        try:
            ticket = self.backend.submit(launched)
        except BaseException as error:
            if not launched.begun:
                raise
            ticket, self.interrupt = self.backend.submitted(), error
        if partials is not None:
            partials.ticket = ticket
        return ticket

    cdef bint gather(self, object known) except -1:
        """Begin the launches of a recording, of which so much is known: they may be asked for together."""
        return True

    cdef object gathered(self, object known):
        """Ask for what has not been asked for since then; what is known for the next time."""
        return None

    cdef uint64_t host_address(self, Buffer buffer) except? 0:
        """Where the host may access the contents of a buffer, once the launches that use it have ended."""
        return self.backend.host_address(buffer)
