cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t


cdef class Node:
    cdef public int kind
    cdef public unsigned short type
    cdef public unsigned short where
    cdef public int64_t size
    cdef public int64_t id
    cdef public Node d0
    cdef public Node d1
    cdef public Node d2
    cdef public Node d3
    cdef public int64_t attr
    cdef public object payload
    cdef public int64_t scope
    cdef int64_t place  # what a traversal knows of it: the number of the traversal, and a position (see runtime/walk.pyx)
    cdef uint64_t hash  # 0 if it is not in the table
    cdef int64_t mode  # that it was entered under; of a literal its tag
    cdef PyObject* older  # the list of all nodes that live
    cdef PyObject* younger
    cdef object __weakref__


cdef class ImportedNode(Node):
    cdef object tracked

cpdef int64_t new_id() noexcept
cpdef Node blank_node()
cpdef Node find1(int kind, Node a, int mode)
cpdef Node find2(int kind, Node a, Node b, int mode)
cpdef Node find3(int kind, Node a, Node b, Node c, int mode)
cpdef Node find(int kind, int type_, int64_t size, Node d0, Node d1, Node d2, Node d3, int64_t attr, object payload,
                int mode, int where=*)
cpdef void enter(Node node, int mode)
cdef Node literal_of_bits(int type_, int64_t size, uint64_t bits, int64_t attr, int64_t tag)
cpdef object normalise(int type_, object value)
cpdef Node find_literal(int type_, int64_t size, object value, int64_t attr, int64_t tag)
cpdef Node enter_literal(Node node, int64_t tag)
cpdef void forget(Node node)
cdef void become(Node node, object buffer)
cpdef tuple collect(int64_t scope, tuple known, tuple parts, bytes plain, operands)
