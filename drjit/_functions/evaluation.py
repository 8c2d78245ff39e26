"""Evaluation of PyTrees, and their widths and shapes."""

from __future__ import annotations

from itertools import islice
from typing import Any

import drjit_core as core

from .._base.array import ArrayBase
from .._base.errors import SizeError, describe
from .._base.methods import FlatSlots
from .._base.types import UINT32, retype
from .._base.typing import T
from .._base.values import is_ndarray, plain_scalar
from .._trees.pytree import children, collect_nodes, known_leaves, transform

__all__ = ["copy", "eval", "make_opaque", "opaque_width", "schedule", "shape", "width"]


def schedule(*args: Any) -> bool:
    """Include arrays in the next evaluation.

    ``args`` are arrays and PyTrees, which are traversed; literals, evaluated arrays and leaves without arrays are
    ignored. Returns whether any array was scheduled. Evaluates nothing by itself. Raises a ``RuntimeError`` for values
    of a symbolic loop.

    >>> from drjit.llvm import Float
    >>> x = Float(1, 2) + 1
    >>> y = x * 2
    >>> dr.schedule(x, y)
    True
    >>> dr.eval()  # one kernel for both
    True
    >>> x.state, y.state
    (VarState.Evaluated, VarState.Evaluated)
    """
    return core.schedule(collect_nodes(args, "drjit.schedule"))


def eval(*args: Any) -> bool:
    """Evaluate arrays and everything that was scheduled, in as few kernels as possible.

    ``args`` are arrays and PyTrees, which are traversed; literals, evaluated arrays and leaves without arrays are left
    alone.
    Does not wait for the kernels to finish. Returns whether anything was evaluated. Reading, printing or converting an
    array evaluates it, too: calls of this function are a matter of speed. Raises a ``RuntimeError`` for values of a
    symbolic loop.

    >>> from drjit.llvm import Float
    >>> x = Float(1, 2) + 1
    >>> dr.eval(x)
    True
    >>> dr.eval(x)
    False
    """
    return core.evaluate(collect_nodes(args, "drjit.eval"))


def make_opaque(*args: Any) -> None:
    """Evaluate arrays, literals included: their values no longer take part in compilation.

    ``args`` are arrays and PyTrees, which are traversed. Kernels for other values are the same then, see
    :func:`opaque`. Does not wait for the kernels to finish. Raises a ``RuntimeError`` for values of a symbolic loop.

    >>> from drjit.llvm import Float
    >>> x = dr.zeros(Float, 4)
    >>> dr.make_opaque(x)
    >>> x.state
    VarState.Evaluated
    """
    found = [leaf for arg in args for leaf in known_leaves(arg, "drjit.make_opaque")
             if isinstance(leaf, ArrayBase) and leaf._dynamic]
    for where in {array._where for array in found}:
        group = [array for array in found if array._where == where]
        nodes = iter(core.opaque_all([node for array in group for node in array._nodes()], where))
        for array in group:
            array._replace(list(islice(nodes, len(array._nodes()))))


def width(*args: Any) -> int:
    """Number of elements that are processed in parallel: the size of the trailing dimension of the arrays in PyTrees.

    Arrays of size 1 go with any other, one without elements included; raises a ``RuntimeError`` if the sizes are
    inconsistent. 1 if there is no array. Evaluates nothing.

    >>> from drjit.llvm import Array2f, Float
    >>> dr.width(Float(1, 2, 3)), dr.width({"position": Array2f([1, 2], 0), "weight": 1.0})
    (3, 2)
    """
    if len(args) == 1 and isinstance(args[0], FlatSlots) and type(args[0])._dynamic:  # type: ignore[attr-defined]
        return core.size_for_program(args[0]._n)
    arrays = [leaf for arg in args for leaf in known_leaves(arg, "drjit.width") if isinstance(leaf, ArrayBase)]
    sizes = {size for array in arrays for size in (
        (core.size_for_program(node) for node in array._nodes()) if array._dynamic else array.shape[-1:])}
    if not sizes:
        return 0 if arrays else 1
    wide = sizes - {1} if sizes != {1} else sizes
    if len(wide) > 1:
        raise SizeError("drjit.width(): the input is ragged (i.e., it does not have a consistent size): found the "
                        f"sizes {', '.join(map(str, sorted(sizes)))}.")
    return wide.pop()


def opaque_width(*args: Any) -> Any:
    """The :func:`width` of PyTrees as an evaluated array of unsigned integers, of the backend of their first array.

    Kernels that compute with it are the same for all widths. Raises a ``TypeError`` if there is no array that is
    traced.

    >>> from drjit.llvm import Float
    >>> dr.opaque_width(Float(1, 2, 3))
    [3]
    """
    arrays = [leaf for arg in args for leaf in known_leaves(arg, "drjit.opaque_width")
              if isinstance(leaf, ArrayBase) and leaf._dynamic]
    if not arrays:
        raise TypeError("drjit.opaque_width(): there is no array that is traced among the arguments.")
    found: Any = retype(arrays[0]._leaf, UINT32)(width(*args))
    make_opaque(found)
    return found


def shape(arg: Any) -> tuple[int, ...]:
    """Sizes of the dimensions of an array or of a nested sequence, outermost first.

    Raises a ``RuntimeError`` if the sizes of the components are inconsistent (entries of size 1 go with any other), a
    ``TypeError`` for anything but arrays, sequences and numbers. Evaluates nothing.

    >>> from drjit.llvm import Array2f
    >>> dr.shape(Array2f([1, 2, 3], 0)), dr.shape([[1, 2], [3, 4], [5, 6]]), dr.shape(1.5)
    ((2, 3), (3, 2), ())
    """
    if isinstance(arg, ArrayBase):
        if arg._depth < 0 or not arg._dynamic:
            return arg.shape
        return (*arg._static_shape(), arg._width("drjit.shape"))
    if is_ndarray(arg) or hasattr(arg, "shape"):
        return tuple(arg.shape)
    if plain_scalar(arg) is not None:
        return ()
    if arg.__class__ in (list, tuple, range):
        if arg.__class__ is range:
            return (len(arg),)
        inner = [shape(item) for _, item in children(arg) or ()]
        if not inner:
            return (0,)
        depth = max(map(len, inner))
        columns = [{s[axis] for s in inner if len(s) > axis} for axis in range(depth)]
        if any(len(column - {1}) > 1 for column in columns) or any(len(s) not in (0, depth) for s in inner):
            raise SizeError("drjit.shape(): the input is ragged (i.e., it does not have a consistent size).")
        return (len(inner), *(next(iter(column - {1}), 1) for column in columns))
    raise TypeError(f"drjit.shape(): argument 'arg' must be an array, a sequence or a number, found {describe(arg)}.")


def copy(arg: T, /) -> T:
    """A deep copy of a PyTree: its containers are made anew, arrays are copied, other objects are passed on.

    Changes of the copy in place do not reach the original. Evaluates nothing; memory is shared until one of them is
    written to.

    >>> from drjit.llvm import Float
    >>> x = {"weights": Float(1, 2)}
    >>> y = dr.copy(x)
    >>> y["weights"] += 10
    >>> x, y
    ({'weights': [1, 2]}, {'weights': [11, 12]})
    """
    result: T = transform("drjit.copy", lambda leaf: type(leaf)(leaf) if isinstance(leaf, ArrayBase) else leaf, arg)
    return result
