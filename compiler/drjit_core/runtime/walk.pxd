cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from ..ir.node cimport Node

cdef enum:
    MOST_POINTERS = 64  # arrays that a kernel gathers from
    MOST_SIZES = 16  # of graphs for which sizes are numbered

cdef void* larger(void* memory, Py_ssize_t* capacity, Py_ssize_t needed, size_t size) except NULL
cdef uint64_t bits_of(int type_, object value) except? 0xFFFFFFFFFFFFFFFF
cdef int64_t bytes_of(Node node) noexcept
cdef int64_t width_of(Node root) noexcept


@cython.final
cdef class Walk:
    cdef object backend
    cdef object target  # which the numbers are from
    cdef int64_t language, streaming_width, streaming_bytes, large_bytes
    cdef int64_t walk  # number of the walk
    cdef int64_t place  # of the next node
    cdef int64_t* key
    cdef int key_count, parameter_count, input_count  # of a type that no word has: writing words cannot change them
    cdef Py_ssize_t key_capacity
    cdef uint64_t* parameters
    cdef Py_ssize_t parameter_capacity
    cdef PyObject** stack
    cdef Py_ssize_t stack_capacity
    cdef PyObject** inputs  # buffers, which the nodes of the program hold
    cdef Py_ssize_t input_capacity
    cdef Py_ssize_t* slots  # parameters with the addresses of the outputs
    cdef Py_ssize_t slot_capacity
    cdef bint borrowing  # whether any of the inputs is memory of others
    # of straight kernels
    cdef PyObject* pointer_nodes[MOST_POINTERS]
    cdef Py_ssize_t pointer_slots[MOST_POINTERS]
    cdef Py_ssize_t pointer_count
    cdef int64_t read_bytes, stored_bytes  # of an element, by position
    cdef list order  # leaves, counters and what is read, as they are appended; None: nobody wants to know
    cdef list sources  # (parameter, the node whose bits or address it is), likewise
    cdef int64_t operations, work  # as counted by whoever compiles: with expansions; in additions
    # of whole graphs
    cdef int64_t sizes[MOST_SIZES]
    cdef int size_count
    cdef bint exact  # whether planning looks at sizes
    cdef list details  # what is part of the key if it does
    cdef dict payloads  # of views, accesses, reductions of rows, writes and steps, numbered
    cdef PyObject** nodes  # by their places; the roots hold them
    cdef Py_ssize_t node_capacity

    cdef bint aim(self, object target) except -1
    cdef bytes key_bytes(self)
    cdef bint has_key(self, bytes key) noexcept
    cdef uint64_t hash(self) noexcept
    cdef bint room_for(self, Py_ssize_t parameters, Py_ssize_t inputs, Py_ssize_t outputs) except -1
    cdef list borrowed(self)
    cdef bint bind(self, list roots, int64_t width) except -1
    cdef bint bind_noting(self, list roots, int64_t width) except -1
    cdef int64_t streamed_bytes(self) noexcept
    cdef bint are_straight(self, list roots) except -1
    cdef bint scan(self, list roots, int64_t facts) except -1
    cdef bint add_sizes(self) except -1
    cdef bint give_place(self, Node node) except -1
    cdef bint _begin(self) except -1
    cdef bint _begin_kernel(self, int64_t width) except -1
    cdef int64_t _leaf(self, Node node) except -2
    cdef int64_t _pointer(self, Node source) except -2
    cdef bint _append(self, Node node) except -1
    cdef bint _visit(self, Node root) except -1
    cdef bint _visit_root(self, Node root) except -1
    cdef int _number_of_size(self, int64_t size) noexcept
    cdef bint _put_size(self, int64_t size) except -1
    cdef int64_t _number_of(self, object payload) except -1
    cdef bint _enter_node(self, Node node) except -1
    cdef bint _enter_regions(self, Node node) except -1
    cdef bint _enter_formal(self, Node formal) except -1
    cdef bint _scan(self, Node root) except -1
