"""The compiled form of ``walk.py``.

A walk numbers the nodes that it comes by in a word of theirs: the number of the walk, and above that the position in
the program.  It writes the words of the key, which are those that :mod:`drjit_core.codegen.program` makes, and those of
the parameters, into memory that is used again and again: whoever is in here holds the lock of evaluations.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy

from ..ir.node cimport Node
from ..ir.region cimport Choice, Cond, Control, Region
from ..passes.trips cimport trips_of
from .buffer cimport Buffer

from ..codegen import program as _program
from ..ir.node import BAKED as _BAKED
from ..ir.node import PARAMETER as _PARAMETER
from ..ir.node import SHAPE as _SHAPE
from ..ops import table
from ..passes.domain import WIDE_EXTENT as _WIDE_EXTENT
from ..types import FLOAT32 as _FLOAT32
from ..types import FLOAT64 as _FLOAT64
from ..types import IS_FLOAT as _IS_FLOAT
from ..types import TYPE_BITS as _TYPE_BITS
from ..types import TYPES

cdef extern from "Python.h":
    unsigned long long PyLong_AsUnsignedLongLongMask(object) except? 0xFFFFFFFFFFFFFFFF
    Py_ssize_t _reference_count "Py_REFCNT"(PyObject*)

cdef int BAKED = _BAKED, PARAMETER = _PARAMETER, SHAPE = _SHAPE
cdef int LITERAL = table.LITERAL, BOUND = table.BOUND, UNDEFINED = table.UNDEFINED, EVALUATED = table.EVALUATED
cdef int COUNTER = table.COUNTER, STEP = table.STEP, VIEW = table.VIEW, SEGMENT = table.SEGMENT, SCATTER = table.SCATTER
cdef int GATHER = table.GATHER, REDUCE = table.REDUCE, CAST = table.CAST, BITCAST = table.BITCAST, ACCESS = table.ACCESS
cdef int LOOP = table.LOOP, COND = table.COND, CALL = table.CALL, RESULT = table.RESULT
cdef int FIRST_ELEMENTWISE = table.FIRST_ELEMENTWISE
cdef bytes IS_FLOAT = _IS_FLOAT
cdef int TYPE_BITS = _TYPE_BITS, FLOAT32 = _FLOAT32, FLOAT64 = _FLOAT64
cdef int64_t WIDE_EXTENT = _WIDE_EXTENT
cdef int SCALAR = _program.SCALAR, ALIGNED = _program.ALIGNED, UNALIGNED = _program.UNALIGNED
cdef int SHIFTED = _program.SHIFTED, SHIFTED_UNALIGNED = _program.SHIFTED_UNALIGNED, REVERSED = _program.REVERSED
cdef int64_t STORE = _program.STORE, REDUCTION = _program.REDUCTION, STREAMED = _program.STREAMED

cdef bint _may_have_recipe[256]
cdef bint _may_be_in_region[256]
cdef int _cost_of[256]
cdef int _operations_of[256]
cdef bint _is_told_by_payload[256]  # whether the payload says what a node computes
cdef bint _is_told_by_sizes[256]  # whether it goes with the sizes that were there


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
    _operations_of[kind] = table.OPERATIONS[kind]


for _row in table.OPS:
    _enter_row(_row)
table.listeners.append(_enter_row)
cdef int _size_of[16]
for _info in TYPES:
    if _info is not None:
        _size_of[_info.type] = _info.size

cdef enum:
    PLACES = 1 << 24  # nodes of a program
    END_OF_REGION = -2  # in keys, where no node can begin
    SEEN = PLACES - 1  # the place of a node whose operands are not placed yet
    MOST_TARGETS = 64  # of calls; keys of graphs with more of them would take megabytes

cdef int64_t _walks = 0  # of all backends: words of nodes know no other


cdef void* larger(void* memory, Py_ssize_t* capacity, Py_ssize_t needed, size_t size) except NULL:
    """Memory for more items."""
    cdef Py_ssize_t count = 2 * needed + 256
    cdef void* found = realloc(memory, count * size)
    if found == NULL:
        raise MemoryError
    capacity[0] = count
    return found


cdef uint64_t bits_of(int type_, object value) except? 0xFFFFFFFFFFFFFFFF:
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
    if IS_FLOAT[type_]:
        return _program.literal_bits(type_, value)
    return PyLong_AsUnsignedLongLongMask(int(value))


cdef int64_t bytes_of(Node node) noexcept:
    """Bytes of the elements of a node."""
    return node.size * _size_of[node.type]


cdef int64_t width_of(Node root) noexcept:
    """Elements that a kernel goes over, one of whose outputs is a root."""
    return root.d0.size if root.kind == REDUCE else root.size


cdef inline bint _is_inner(Node node) noexcept:
    """Whether a node is neither a leaf nor in memory."""
    return node.kind > UNDEFINED and node.kind != EVALUATED


# --- words, in functions that C makes part of their callers -----------------------------------------------------------

@cython.nonecheck(False)
cdef inline bint _make_room(Walk walk) except -1:
    """See to it that the entries of a node and its leaves find room."""
    if walk.key_count + 32 > walk.key_capacity:
        walk.key = <int64_t*> larger(walk.key, &walk.key_capacity, walk.key_count + 32, sizeof(int64_t))
    if walk.parameter_count + 16 > walk.parameter_capacity or walk.input_count + 8 > walk.input_capacity:
        walk.room_for(walk.parameter_count + 16, walk.input_count + 8, 0)
    return True


@cython.nonecheck(False)
cdef inline void _put(Walk walk, int64_t word) noexcept:
    walk.key[walk.key_count] = word
    walk.key_count += 1


@cython.nonecheck(False)
cdef inline void _pass(Walk walk, uint64_t word) noexcept:
    walk.parameters[walk.parameter_count] = word
    walk.parameter_count += 1


@cython.nonecheck(False)
cdef inline int64_t _place_of(Walk walk, Node node) noexcept:
    """Place of a node in the program, or -1 if it has none."""
    cdef int64_t word = node.place
    return word & SEEN if word >> 24 == walk.walk and word & SEEN != SEEN else -1


@cython.nonecheck(False)
cdef inline bint _has_place(Walk walk, Node node) noexcept:
    return node.place >> 24 == walk.walk and node.place & (PLACES - 1) != SEEN


@cython.nonecheck(False)
cdef inline void _set_place(Walk walk, Node node) noexcept:
    walk.work += _cost_of[node.kind]
    walk.operations += _operations_of[node.kind]
    node.place = walk.walk << 24 | walk.place
    walk.place += 1


@cython.nonecheck(False)
cdef inline bint _push(Walk walk, Py_ssize_t* count, Node node) except -1:
    """Push what has to be there before another node, with room for more."""
    if count[0] + 8 > walk.stack_capacity:
        walk.stack = <PyObject**> larger(walk.stack, &walk.stack_capacity, count[0] + 8, sizeof(PyObject*))
    walk.stack[count[0]] = <PyObject*> node
    count[0] += 1
    return True


@cython.final
cdef class Walk:
    """Keys and parameters of what a backend evaluates, made one after the other in the same memory."""

    def __init__(self, backend):
        self.backend = backend
        self.details, self.payloads = [], {}

    def __dealloc__(self):
        free(self.key)
        free(self.parameters)
        free(self.stack)
        free(self.inputs)
        free(self.slots)
        free(self.nodes)

    cdef bint aim(self, object target) except -1:
        """Decide by the numbers of a target from now on."""
        self.language = target.code << 8 | 1
        self.streaming_width, self.streaming_bytes = target.streaming_width, target.streaming_bytes
        self.large_bytes = target.large_bytes
        self.target = target
        return True

    # --- what has been made ------------------------------------------------------------------------------------------

    cdef bytes key_bytes(self):
        """The key."""
        return PyBytes_FromStringAndSize(<char*> self.key, 8 * self.key_count)

    cdef bint has_key(self, bytes key) noexcept:
        """Whether the key is a given one."""
        return PyBytes_GET_SIZE(key) == 8 * self.key_count and \
            not memcmp(PyBytes_AS_STRING(key), self.key, 8 * self.key_count)

    cdef uint64_t hash(self) noexcept:
        """A hash of the key."""
        cdef uint64_t h = <uint64_t> self.key_count
        cdef Py_ssize_t position
        for position in range(self.key_count):
            h = (h ^ <uint64_t> self.key[position]) * <uint64_t> 0x9E3779B97F4A7C15
            h ^= h >> 29
        return h

    cdef bint room_for(self, Py_ssize_t parameters, Py_ssize_t inputs, Py_ssize_t outputs) except -1:
        """See to it that others find room for what they put here."""
        if parameters > self.parameter_capacity:
            self.parameters = <uint64_t*> larger(self.parameters, &self.parameter_capacity, parameters,
                                                 sizeof(uint64_t))
        if inputs > self.input_capacity:
            self.inputs = <PyObject**> larger(self.inputs, &self.input_capacity, inputs, sizeof(PyObject*))
        if outputs > self.slot_capacity:
            self.slots = <Py_ssize_t*> larger(self.slots, &self.slot_capacity, outputs, sizeof(Py_ssize_t))
        return True

    cdef list borrowed(self):
        """The inputs, if any of them is memory of others, which must live until a launch has run."""
        cdef Py_ssize_t position
        return [<object> self.inputs[position] for position in range(self.input_count)] if self.borrowing else None

    cdef bint _begin(self) except -1:
        global _walks
        _walks += 1
        self.walk = _walks
        self.key_count = self.parameter_count = self.input_count = self.pointer_count = 0
        self.place = self.read_bytes = self.stored_bytes = self.operations = self.work = 0
        self.borrowing = False
        _make_room(self)
        _put(self, self.language)
        return True

    # --- straight kernels --------------------------------------------------------------------------------------------

    cdef bint _begin_kernel(self, int64_t width) except -1:
        self._begin()
        _put(self, 1 if width == 1 else 2 if width < WIDE_EXTENT else 3)
        _pass(self, <uint64_t> width)
        _pass(self, 0)
        return True

    cdef bint bind(self, list roots, int64_t width) except -1:
        """Make the key and the parameters of a kernel, without those of its outputs; whether that was possible.

        The roots are in order, different ones, and of one width.
        """
        cdef Node root
        cdef int64_t place
        cdef Py_ssize_t position = 0
        self._begin_kernel(width)
        for root in roots:
            if width_of(root) != width or not self._visit_root(root):
                return False
        if self.place >= PLACES - 16:
            return False
        self.room_for(0, 0, len(roots))
        for root in roots:
            _make_room(self)
            if root.kind == REDUCE:
                place = self._leaf(root.d0)
                if place < 0:
                    return False
                _put(self, REDUCTION)
                _put(self, root.attr)
                _put(self, place)
            else:
                self.stored_bytes += _size_of[root.type]
                _put(self, STORE)
                _put(self, _place_of(self, root))
            self.slots[position] = self.parameter_count  # an operand in memory may come between two outputs
            position += 1
            _pass(self, 0)
        if width > self.streaming_width and width * self.streamed_bytes() > self.streaming_bytes:
            _put(self, STREAMED)
        return True

    cdef int64_t streamed_bytes(self) noexcept:
        """What :func:`drjit_core.codegen.program.streamed_bytes` says of the kernel that was bound last."""
        return self.stored_bytes + self.read_bytes if self.stored_bytes else 0

    cdef bint bind_noting(self, list roots, int64_t width) except -1:
        """The same, noting the order and the sources."""
        self.order, self.sources = [], []
        return self.bind(roots, width)

    cdef bint are_straight(self, list roots) except -1:
        """Whether all kernels of some nodes are straight ones."""
        cdef Node root
        self._begin_kernel(1)
        for root in roots:
            if not self._visit_root(root):
                return False
            _make_room(self)
            if root.kind == REDUCE and self._leaf(root.d0) < 0:
                return False
        return self.place < PLACES - 16

    cdef int64_t _leaf(self, Node node) except -2:
        """Place of an operand, which is appended if it is a leaf that has none; -1 if the general way must care."""
        cdef int64_t place = _place_of(self, node)
        cdef int kind = node.kind, access, parameter = self.parameter_count
        cdef uint64_t bits
        cdef Buffer buffer
        if place >= 0:
            return place
        if kind == EVALUATED:
            if not isinstance(node.payload, Buffer):
                return -1
            buffer = <Buffer> node.payload
            if buffer.backend is not self.backend:
                return -1
            access = SCALAR if node.size == 1 else ALIGNED if buffer.padded else UNALIGNED
            _put(self, kind << TYPE_BITS | node.type)
            _put(self, access)
            if access != SCALAR:
                self.read_bytes += _size_of[node.type]
            _pass(self, buffer.address)
            if buffer.read_only:
                self.borrowing = True
            self.inputs[self.input_count] = <PyObject*> buffer
            self.input_count += 1
        elif kind == LITERAL or kind == BOUND:
            bits = bits_of(node.type, node.payload)
            if node.attr == BAKED and kind == LITERAL:
                _put(self, kind << TYPE_BITS | node.type)
                _put(self, <int64_t> bits)
            else:
                _put(self, node.type)
                _pass(self, bits)
        elif kind == UNDEFINED:
            _put(self, kind << TYPE_BITS | node.type)
        else:
            return -1
        place = self.place
        _set_place(self, node)
        if self.order is not None:
            self.order.append(node)
            if self.parameter_count > parameter:
                self.sources.append((parameter, node))
        return place

    cdef int64_t _pointer(self, Node source) except -2:
        """The parameter with the address of an array that is accessed by index; -1 if the general way must care."""
        cdef Py_ssize_t position
        cdef Buffer buffer
        if source.kind != EVALUATED:
            return -1
        for position in range(self.pointer_count):
            if self.pointer_nodes[position] == <PyObject*> source:
                return self.pointer_slots[position]
        if not isinstance(source.payload, Buffer):
            return -1
        buffer = <Buffer> source.payload
        if buffer.backend is not self.backend or self.pointer_count == MOST_POINTERS:
            return -1
        self.pointer_nodes[self.pointer_count] = <PyObject*> source
        self.pointer_slots[self.pointer_count] = self.parameter_count
        self.pointer_count += 1
        if buffer.read_only:
            self.borrowing = True
        self.inputs[self.input_count] = <PyObject*> buffer
        self.input_count += 1
        _pass(self, buffer.address)
        if self.sources is not None:
            self.sources.append((self.parameter_count - 1, source))
        return self.parameter_count - 1

    cdef bint _append(self, Node node) except -1:
        """Append a node whose operands are placed or leaves; whether that was possible."""
        cdef int kind = node.kind
        cdef int64_t first, second, third
        cdef int64_t pointer, start, stride
        cdef int layout
        cdef Node source
        _make_room(self)
        if kind >= FIRST_ELEMENTWISE:
            first = self._leaf(node.d0)
            if first < 0:
                return False
            if node.d1 is None:
                _put(self, kind << TYPE_BITS | node.type)
                _put(self, first)
            else:
                second = self._leaf(node.d1)
                if second < 0:
                    return False
                if node.d2 is None:
                    _put(self, kind << TYPE_BITS | node.type)
                    _put(self, first)
                    _put(self, second)
                else:
                    third = self._leaf(node.d2)
                    if third < 0:
                        return False
                    _put(self, kind << TYPE_BITS | node.type)
                    _put(self, first)
                    _put(self, second)
                    _put(self, third)
        elif kind == COUNTER:
            _put(self, kind << TYPE_BITS | node.type)
        elif kind == CAST or kind == BITCAST:
            first = self._leaf(node.d0)
            if first < 0:
                return False
            _put(self, kind << TYPE_BITS | node.type)
            _put(self, first)
        elif kind == GATHER:
            source = node.d0
            first = self._leaf(node.d1)
            if first < 0:
                return False
            second = self._leaf(node.d2)
            if second < 0:
                return False
            pointer = self._pointer(source)
            if pointer < 0:
                return False
            _put(self, kind << TYPE_BITS | node.type)
            _put(self, pointer)
            _put(self, (source.size >= WIDE_EXTENT) | (source.size * _size_of[source.type] > self.large_bytes) << 2)
            _put(self, first)
            _put(self, second)
        elif kind == ACCESS:
            source = node.d0
            pointer = self._pointer(source)
            if pointer < 0:
                return False
            start, stride = node.payload
            layout = REVERSED if stride < 0 else SHIFTED if (<Buffer> source.payload).padded else SHIFTED_UNALIGNED
            self.read_bytes += _size_of[node.type]
            _put(self, kind << TYPE_BITS | node.type)
            _put(self, pointer)
            _put(self, layout)
            _pass(self, <uint64_t> start)
        else:
            return False
        _set_place(self, node)
        if kind < FIRST_ELEMENTWISE and self.order is not None:
            self.order.append(node)
        return True

    cdef bint _visit(self, Node root) except -1:
        """Append what a root needs and is, operands first; whether that was possible.

        The order is that of :func:`drjit_core.passes.order.post_order`.  The lowest bit of an entry of the stack
        tells that the operands of its node are placed.
        """
        cdef Py_ssize_t count = 0
        cdef PyObject* entry
        cdef Node node
        cdef int kind
        _push(self, &count, root)
        while count:
            count -= 1
            entry = self.stack[count]
            if <uintptr_t> entry & 1:
                if not self._append(<Node> <PyObject*> (<uintptr_t> entry - 1)):
                    return False
                continue
            node = <Node> entry
            if node.place >> 24 == self.walk:
                continue
            node.place = self.walk << 24 | SEEN
            kind = node.kind
            if kind < FIRST_ELEMENTWISE and kind != COUNTER and kind != GATHER and kind != CAST and kind != BITCAST \
                    and kind != ACCESS:
                return False
            _push(self, &count, node)
            self.stack[count - 1] = <PyObject*> (<uintptr_t> entry | 1)
            if node.d2 is not None and _is_inner(node.d2):
                self.stack[count] = <PyObject*> node.d2
                count += 1
            if node.d1 is not None and _is_inner(node.d1):
                self.stack[count] = <PyObject*> node.d1
                count += 1
            if node.d0 is not None and _is_inner(node.d0):
                self.stack[count] = <PyObject*> node.d0
                count += 1
        return True

    cdef inline bint _visit_root(self, Node root) except -1:
        if root.kind == REDUCE:
            return not _is_inner(root.d0) or self._visit(root.d0)
        return self._visit(root)

    # --- whole graphs ------------------------------------------------------------------------------------------------

    cdef bint scan(self, list roots, int64_t facts) except -1:
        """Make the key of all that planning looks at, besides which it looks at what is given as a number; whether
        there may be a recipe.  :attr:`exact` tells whether sizes have to follow, by :meth:`add_sizes`."""
        cdef Node root
        self._begin()
        _put(self, facts)
        self.size_count, self.exact = 0, False
        self.details.clear()
        for root in roots:
            if not self._scan(root):
                return False
        if self.place >= PLACES - 16:
            return False
        for root in roots:
            _make_room(self)
            _put(self, _place_of(self, root))
        return True

    cdef bint add_sizes(self) except -1:
        """Make the sizes part of the key, and what else planning looks at together with them."""
        cdef Py_ssize_t number
        for number in range(self.size_count):
            _make_room(self)
            _put(self, self.sizes[number])
        for detail in self.details:
            _make_room(self)
            _put(self, detail)
        return True

    cdef int _number_of_size(self, int64_t size) noexcept:
        """The number of a size; -1 if it has none."""
        cdef int number
        if size == 1:
            return 0
        for number in range(self.size_count):
            if self.sizes[number] == size:
                return number + 1
        return -1

    cdef bint _put_size(self, int64_t size) except -1:
        """Put down a size by its number."""
        cdef int number = self._number_of_size(size)
        if number < 0:
            if self.size_count == MOST_SIZES:
                self.exact = True
                self.details.append(size)
                number = MOST_SIZES + 1
            else:
                self.sizes[self.size_count] = size
                self.size_count += 1
                number = self.size_count
        _put(self, number)
        return True

    cdef int64_t _number_of(self, object payload) except -1:
        found = self.payloads.get(payload)
        if found is None:
            found = self.payloads[payload] = len(self.payloads)
        return found

    cdef bint give_place(self, Node node) except -1:
        """Give a node the next place, and room for its words."""
        _make_room(self)
        if self.place + 1 > self.node_capacity:
            self.nodes = <PyObject**> larger(self.nodes, &self.node_capacity, self.place + 1, sizeof(PyObject*))
        self.nodes[self.place] = <PyObject*> node
        _set_place(self, node)
        return True

    cdef bint _enter_node(self, Node node) except -1:
        """Put down what planning looks at of a node whose operands are there; whether there may be a recipe."""
        cdef int kind = node.kind
        cdef Buffer buffer
        self.give_place(node)
        _put(self, kind << TYPE_BITS | node.type)
        self._put_size(node.size)
        if kind == EVALUATED:
            if not isinstance(node.payload, Buffer):
                return False
            buffer = <Buffer> node.payload
            if buffer.backend is not self.backend:
                return False
            _put(self, buffer.padded | buffer.read_only << 1)
        elif kind == LITERAL:
            _put(self, node.attr)
            if node.attr == SHAPE and node.size == 1:  # planning makes such of views, which may be equal or derived
                self.details.append(<int64_t> bits_of(node.type, node.payload))
            elif node.attr != PARAMETER or node.size > 1:
                _put(self, <int64_t> bits_of(node.type, node.payload))
        elif kind != UNDEFINED and kind != BOUND:  # nobody but the text looks at constants of unknown value
            _put(self, node.attr if kind != COUNTER else 0)  # recordings number counters
            _put(self, -1 if node.d0 is None else _place_of(self, node.d0))
            _put(self, -1 if node.d1 is None else _place_of(self, node.d1))
            _put(self, -1 if node.d2 is None else _place_of(self, node.d2))
            _put(self, -1 if node.d3 is None else _place_of(self, node.d3))
            if _is_told_by_payload[kind]:
                _put(self, self._number_of(node.payload))
                self.exact = self.exact or _is_told_by_sizes[kind]
            if kind == SCATTER:  # whether anybody else holds the target decides whether it is copied
                _put(self, min(_reference_count(<PyObject*> node.d0), 4))
            if kind == RESULT and node.payload:  # whether anybody else holds memory decides whether it is on the stack
                _put(self, _reference_count(<PyObject*> node))
            if kind == LOOP or kind == COND or kind == CALL:
                return self._enter_regions(node)
        return True

    cdef bint _enter_regions(self, Node node) except -1:
        """Put down what planning looks at of a loop, a branch or a call, and its results, of which it stores those
        that live."""
        cdef Node part, formal
        cdef Control control = node.payload
        cdef Choice choice
        cdef Region region
        cdef tuple initial = control.initial, nodes
        cdef Py_ssize_t position
        if len(control.regions) > MOST_TARGETS:
            return False
        if node.kind == LOOP:
            _put(self, trips_of(control))
        else:
            choice = control
            _put(self, choice.count)
            _put(self, len(choice.regions))
            _put(self, self._number_of((choice.memory_of, (<Cond> choice).rare if node.kind == COND else ""))
                      if choice.memory_of or node.kind == COND and (<Cond> choice).rare else -1)
        region = control.regions[0]
        for position in range(len(region.formals)):
            formal = <Node> region.formals[position]
            _make_room(self)
            _put(self, _place_of(self, <Node> initial[position]))
            _put(self, min(_reference_count(<PyObject*> initial[position]), 5) if formal.payload else 0)
        for region in control.regions:
            for formal in region.formals:
                self._enter_formal(formal)
            for formal in region.masks:
                self._enter_formal(formal)
            for listed in region.parts:
                for part in <list> listed:
                    if not _may_be_in_region[part.kind] or not _has_place(self, part) and not self._enter_node(part):
                        return False
            _make_room(self)
            _put(self, END_OF_REGION)
            for nodes in region.results:
                for part in nodes:
                    _make_room(self)
                    _put(self, _place_of(self, part))
        for reference in control.outputs:
            result = reference()
            if result is not None and not _has_place(self, <Node> result) and not self._enter_node(<Node> result):
                return False
        return True

    cdef bint _enter_formal(self, Node formal) except -1:
        if _has_place(self, formal):  # a loop that was traced to its end again has the formals that it had before
            _make_room(self)
            _put(self, ~_place_of(self, formal))
            return True
        self.give_place(formal)
        _put(self, formal.kind << TYPE_BITS | formal.type)
        self._put_size(formal.size)
        _put(self, formal.attr << 1 | bool(formal.payload))
        return True

    cdef bint _scan(self, Node root) except -1:
        """Put down all that a root needs and is; whether there may be a recipe."""
        cdef Py_ssize_t count = 0
        cdef PyObject* entry
        cdef Node node, operand
        cdef Control control
        cdef Region region
        cdef int kind
        _push(self, &count, root)
        while count:
            count -= 1
            entry = self.stack[count]
            if <uintptr_t> entry & 1:
                node = <Node> <PyObject*> (<uintptr_t> entry - 1)
                if not _has_place(self, node) and not self._enter_node(node):
                    return False
                continue
            node = <Node> entry
            if node.place >> 24 == self.walk:
                continue
            node.place = self.walk << 24 | SEEN
            kind = node.kind
            if kind <= UNDEFINED or kind == EVALUATED:
                if kind < LITERAL or not self._enter_node(node):
                    return False
                continue
            if not _may_have_recipe[kind]:
                return False
            _push(self, &count, node)
            self.stack[count - 1] = <PyObject*> (<uintptr_t> entry | 1)
            if node.d3 is not None:
                _push(self, &count, node.d3)
            if node.d2 is not None:
                _push(self, &count, node.d2)
            if node.d1 is not None:
                _push(self, &count, node.d1)
            if node.d0 is not None:
                _push(self, &count, node.d0)
            if kind == LOOP or kind == COND or kind == CALL:
                control = node.payload
                if len(control.regions) > MOST_TARGETS:
                    return False
                for operand in control.initial:
                    _push(self, &count, operand)
                for region in control.regions:
                    for operand in region.captures:
                        _push(self, &count, operand)
                    for operand in region.sources:
                        _push(self, &count, operand)
                operand = None
        return True
