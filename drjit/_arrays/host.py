"""Exchange of data with Python and NumPy on the host.

Flat arrays are exported without a copy, as a view of their evaluated memory; nested ones are gathered into one
contiguous block in C order. :mod:`drjit._arrays.dlpack` speaks to everybody else.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

from drjit_core import KIND, TYPES, Node, TypeInfo, evaluate, exported_view, host_view, to_memory

from .._base.array import ArrayBase
from .._base.links import links
from .._base.nodes import C_TYPES, number_of, pack, values

__all__ = ["CPU", "HostMemory", "host_memory", "numpy_type", "to_list", "to_memoryview", "to_numpy"]

_LITERAL = KIND["literal"]
#: The memory of the CPU in the terms of DLPack.
CPU = (1, 0)


class HostMemory:
    """Memory with the values of an array, in the terms of NumPy's array interface; that of the host unless another
    device is said."""

    __slots__ = ("address", "device", "holder", "info", "owner", "read_only", "shape")

    def __init__(self, address: int, shape: tuple[int, ...], info: Any, owner: Any, read_only: bool = False,
                 device: tuple[int, int] = CPU, holder: Any = None) -> None:
        self.device = device
        #: Whose memory it is, an array or a node. Others that share the node's memory, equal expressions or copies,
        #: copy it before they write to it as long as this one is there.
        self.holder = holder
        self.address, self.shape, self.info, self.owner = address, shape, info, owner
        #: Whether it belongs to another library, so that nobody is to write to it through this project.
        self.read_only = read_only

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return math.prod(self.shape) * self.info.size  # type: ignore[no-any-return]

    @property
    def __array_interface__(self) -> dict[str, Any]:
        kind = self.info.kind if self.info.code else "u"  # the bits of what NumPy does not know
        return {"version": 3, "shape": self.shape, "typestr": ("|" if self.info.size == 1 else "<") + kind
                + str(self.info.size), "data": (self.address, self.read_only)}


def host_memory(array: ArrayBase, pinned: bool = False) -> HostMemory:
    """The values of an array in C order; evaluates it and waits. Later writes to the array show there, unless they are
    to copy the memory before (``pinned``)."""
    info = TYPES[array._type]
    nodes = array._nodes()
    if not array._dynamic:
        data = ctypes.create_string_buffer(pack(nodes), len(nodes) * info.size)
        return HostMemory(ctypes.addressof(data) if nodes else 0, array._static_shape(), info, data)
    width = array._width(f"{array._name}.numpy")
    shape = (*array._static_shape(), width) if array._depth >= 0 else array.shape
    if not nodes or not width:
        return HostMemory(0, shape, info, None)
    if array._depth <= 0:
        node, address, owner, read_only = exported_view(nodes[0])
        if node is not nodes[0] and not nodes[0].scope:  # what was a literal stays in memory: the view shows changes
            array._replace([node])
        # Whoever holds the node as well makes later writes to the array copy its memory: the view does not show them.
        return HostMemory(address, shape, info, owner, read_only, holder=node if pinned else array)
    evaluate(nodes)  # all of them in one kernel
    block = (ctypes.c_char * (info.size * width * len(nodes)))()
    start, stride = ctypes.addressof(block), info.size * width
    for position, node in enumerate(nodes):
        _copy(node, width, info, start + position * stride)
    return HostMemory(start, shape, info, block)


def _copy(node: Node, width: int, info: TypeInfo, target: int) -> None:
    """Copy the elements of an evaluated node or of a literal to zeroed memory, the only one as often as needed."""
    total = info.size * width
    if node.kind == _LITERAL:
        element = to_memory(info, (node.payload,))
        if not any(element):
            return
        ctypes.memmove(target, element, info.size)
    else:
        _, address, _keep = host_view(node)
        if node.size == width:
            ctypes.memmove(target, address, total)
            return
        ctypes.memmove(target, address, info.size)
    done = info.size
    while done < total:
        part = min(done, total - done)
        ctypes.memmove(target + done, target, part)
        done += part


def numpy_type(info: TypeInfo) -> Any:
    """The type of NumPy for elements: bfloat16 is that of the package ``ml_dtypes``, or bits where it is missing."""
    import numpy

    if info.code:
        return numpy.dtype(info.name)
    try:
        import ml_dtypes
    except ModuleNotFoundError:
        return numpy.dtype("uint16")
    return numpy.dtype(ml_dtypes.bfloat16)


def to_numpy(array: ArrayBase, pinned: bool = False) -> Any:
    """See ``ArrayBase.numpy``, and :func:`host_memory`."""
    import numpy

    memory = host_memory(array, pinned)
    if not memory.address:
        return numpy.empty(memory.shape, dtype=numpy_type(memory.info))
    found = numpy.asarray(memory)
    return found if memory.info.code else found.view(numpy_type(memory.info))


def _view_code(info: TypeInfo) -> Any:
    """The letter of elements in a ``memoryview``, which has none for floating-point numbers of 16 bits: their bits."""
    return "H" if info.is_float and info.size == 2 else info.code


def to_memoryview(array: ArrayBase) -> memoryview:
    """See ``ArrayBase.memview``."""
    memory = host_memory(array)
    info = memory.info
    if not memory.address:
        return memoryview(bytearray(info.size)).cast(_view_code(info))[:0]
    elements = (C_TYPES[info.code] * math.prod(memory.shape)).from_address(memory.address)
    elements._memory = memory  # keeps it alive as long as the view refers to it
    flat: Any = memoryview(elements).cast("B")
    code = _view_code(info)
    view: memoryview = flat.cast(code, memory.shape) if len(memory.shape) != 1 else flat.cast(code)
    return view.toreadonly() if memory.read_only else view


def to_list(array: ArrayBase) -> Any:
    """See ``ArrayBase.tolist``."""
    nodes = array._nodes()
    if not array._dynamic:
        elements: list[Any] = list(map(number_of, nodes))
        shape = array._static_shape()
    else:
        width = array._width(f"{array._name}.tolist")
        shape = (*array._static_shape(), width) if array._depth >= 0 else array.shape
        evaluate(nodes)
        elements = []
        for node in nodes:
            elements += values(node) if node.size == width else [number_of(node)] * width
    if array._special == "complex":  # the first dimension is that of real and imaginary part
        half = len(elements) // 2
        elements, shape = list(map(complex, elements[:half], elements[half:])), shape[1:]
    for size in reversed(shape[1:]):
        elements = [elements[row * size:(row + 1) * size] for row in range(math.prod(shape[:-1]))]
        shape = shape[:-1]
    return elements if shape else elements[0]


links.to_numpy = to_numpy
links.to_memoryview = to_memoryview
links.to_list = to_list
