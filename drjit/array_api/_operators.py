"""Elementwise operations, and the operators of arrays: the road of most operations.

An operation has a formula on tensors for each kind of elements. Where the operands are arrays of one data type, or an
array and a Python number that its elements can be, the formula is called at once, with the number as it is: a literal.
All else, promotion and messages, is what the public function does.
"""

from __future__ import annotations

import contextvars
import importlib
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import drjit as dr
from drjit.detail import is_constant, is_recorded

from ._data import Storage, constant, made, of_own, of_value, parts_of, value_of, written
from ._dtypes import BY_NUMPY, DType
from ._evaluation import eager

__all__ = ["Operation", "Operators", "at_once", "enter", "entered", "exact_product", "fits", "go_together", "of_numpy",
           "selected", "stay_small"]

Formula = Callable[..., Any]
#: What operators do, by their names: operations, or functions of the namespace.
_operations: dict[str, Any] = {}
_ndarray = np.ndarray
_NUMBERS = (bool, int, float, complex, np.generic)
_SILENT = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "negative", "absolute", "maximum",
           "minimum", "logical_not", "invert", "bitwise_and", "bitwise_or", "bitwise_xor", "isnan", "isinf", "isfinite",
           "signbit", "copysign", "floor", "ceil", "trunc"}


def exact_product(a: Any, b: Any) -> Any:
    """The product of real numbers. ``FastMath`` makes 0 of all products with a constant that is 0, where infinite
    numbers and NaN have none, and negative ones -0."""
    found = a * b
    if not is_constant(found) or (isinstance(a, _PYTHON) or is_constant(a)) and \
            (isinstance(b, _PYTHON) or is_constant(b)):
        return found
    with dr.scoped_set_flag(dr.JitFlag.FastMath, False):
        return a * b


#: Formulas that take Python numbers beside tensors.
_OF_NUMBERS = {operator.add, operator.sub, exact_product, operator.mul, operator.truediv, operator.eq, operator.ne,
               operator.lt, operator.le, operator.gt, operator.ge, operator.and_, operator.or_, operator.xor}


def fits(dtype: DType, value: Any) -> bool:
    """Whether a value is a Python number that goes with a real data type, and that its elements can be."""
    cls = type(value)
    if cls is float:
        return dtype.kind == "f"
    if cls is int:
        low, high = dtype.integers
        return low <= value <= high  # type: ignore[no-any-return]
    return cls is bool and dtype.kind == "b"


def go_together(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether two shapes can be broadcast to a common one."""
    count = min(len(first), len(second))
    for k in range(1, count + 1):
        size, other = first[-k], second[-k]
        if size != other and size != 1 and other != 1:
            return False
    return True


def _silence() -> contextvars.Context | None:
    """A context in which NumPy says nothing of numbers that are infinite or NaN. ``np.errstate`` does so, but takes
    longer than an operation."""
    try:
        internals = importlib.import_module("numpy._core.umath")
        context = contextvars.Context()
        context.run(internals._extobj_contextvar.set, internals._make_extobj(all="ignore"))
    except (ImportError, AttributeError):  # NumPy before 2.0
        return None
    return context


_context = _silence()
_run: Any = None if _context is None else _context.run
#: Whether a thread is in the context, which another one cannot enter then.
_entered = _context is None


def at_once(function: Any, *operands: Any, **options: Any) -> Any:
    """What a function of NumPy makes of values, without warnings."""
    global _entered
    if _entered:
        with np.errstate(all="ignore"):
            return function(*operands, **options)
    _entered = True
    try:
        return _run(function, *operands, **options)
    finally:
        _entered = False


def _of_two(function: Any, left: Any, right: Any) -> Any:
    """What a function of NumPy makes of values, or of one if there is no other, without warnings."""
    global _entered
    if _entered:
        return at_once(function, left) if right is None else at_once(function, left, right)
    _entered = True
    try:
        return _run(function, left) if right is None else _run(function, left, right)
    finally:
        _entered = False


class Operation:
    """An elementwise operation: ``formulas`` on tensors by the kind of real elements, the data type of the ``result``
    if that is not the one of the operands, and what is done ``otherwise``, given the operands. ``numpy`` is the same
    function of NumPy, by which small arrays of some ``kinds`` are computed; ``finite``: if there are no special values
    among operands and results."""

    __slots__ = ("careful", "direct", "finite", "formulas", "kinds", "numpy", "otherwise", "plain", "result", "silent")

    def __init__(self, formulas: Mapping[str, Formula], result: DType | None, otherwise: Formula,
                 numpy: Any = None, kinds: str = "biuf", finite: bool = False) -> None:
        self.formulas, self.numpy = {kind: formula for kind, formula in formulas.items() if kind != "c"}, numpy
        self.kinds = {kind for kind in formulas if numpy is not None and kind in kinds}
        self.finite = finite
        #: Whether NumPy never warns of it.
        self.silent: bool = getattr(numpy, "__name__", "") in _SILENT
        #: Kinds whose results are of the data type of operands, or of the one given.
        self.plain = {kind for kind in self.kinds if kind in self.formulas and not finite}
        #: Complex products and quotients have special values of their own.
        self.careful = finite or numpy in (np.multiply, np.divide, np.square)
        #: Those that take numbers.
        self.direct = {kind: formula for kind, formula in self.formulas.items() if formula in _OF_NUMBERS}
        self.result, self.otherwise = result, otherwise

    def one(self, x: Any) -> Any:
        """The operation of one operand."""
        if isinstance(x, Storage):
            array = x
            dtype = array._dtype
            result = dtype if self.result is None else self.result
            if dtype.kind in self.kinds:
                most = eager()
                if most:
                    value = value_of(array, most)
                    if value is not None and (dtype.kind != "c" or not self.careful):
                        return self._now(result, value, None)
            formula = self.formulas.get(dtype.kind)
            if formula is not None:
                return made(result, (formula(parts_of(array)[0]),))
        return self.otherwise(x)

    def _now(self, dtype: DType, left: Any, right: Any) -> Any:
        """What NumPy makes of values, or of a value and a number."""
        if self.silent:
            found = self.numpy(left) if right is None else self.numpy(left, right)
        else:
            found = _of_two(self.numpy, left, right)
        if type(found) is not _ndarray:
            found = np.asarray(found)
        if found.dtype is not dtype.numpy:
            found = found.astype(dtype.numpy)
        return of_value(dtype, found) if found.ndim > 1 else of_own(dtype, found)

    def _both(self, x1: Any, x2: Any, most: int) -> Any:
        """What NumPy makes of small arrays, or of one and a Python number, whatever their types; ``None`` if they are
        others, if it raises, and where its special values are others than the operation's."""
        dtype = None
        if isinstance(x1, Storage):
            first = x1
            dtype = first._dtype
            left = value_of(first, most)
        else:
            left = x1 if type(x1) in _PYTHON else None
        if left is None:
            return None
        if isinstance(x2, Storage):
            second = x2
            right = value_of(second, most)
            if right is None:
                return None
            if dtype is None:
                dtype = second._dtype
                plain = fits(dtype, x1)
            else:
                plain = second._dtype is dtype
                if not stay_small(left, right, most):
                    return None
        elif dtype is not None and type(x2) in _PYTHON:
            right = x2
            plain = fits(dtype, x2)
        else:
            return None
        if plain and dtype.kind in self.plain:
            return self._now(dtype if self.result is None else self.result, left, right)
        kind = _KINDS[max(_KINDS.index(_kind_of(x1)), _KINDS.index(_kind_of(x2)))]
        if kind not in self.kinds:
            return None
        try:
            found = at_once(self.numpy, left, right)
        except (TypeError, ValueError, OverflowError):  # told in the words of the operation
            return None
        if self.careful and (kind == "c" or self.finite) and not _is_finite(found):
            return None
        if self.finite and not (_is_finite(left) and _is_finite(right) and
                                (right.all() if isinstance(x2, Storage) else right)):
            return None
        if type(found) is not _ndarray:
            found = np.asarray(found)
        wanted = BY_NUMPY.get(found.dtype)
        return None if wanted is None or wanted.bits == 16 else of_value(wanted, found)

    def in_place(self, array: Storage, other: Any) -> bool:
        """Write the operation of a small array and an array or a number that go with it as they are to the first one;
        whether that has been done."""
        dtype = array._dtype
        most = eager()
        if not most or self.result is not None or dtype.kind not in self.plain:
            return False
        target = value_of(array, most)
        if target is None:
            return False
        root = array if array._view is None else array._view.root
        if target is not root._value and (root._value is None or target.base is not root._value):
            return False
        if array._view is None and not target.ndim:  # which is like a number
            return False
        if isinstance(other, Storage):
            operand = other
            source = value_of(operand, most) if operand._dtype is dtype else None
            if source is None:
                return False
        elif fits(dtype, other):
            source = other
        else:
            return False
        try:
            at_once(self.numpy, target, source, target)
        except (TypeError, ValueError):  # shapes that do not go together are told in words
            return False
        written(root, True)
        return True

    def two(self, x1: Any, x2: Any) -> Any:
        """The operation of two operands."""
        if self.numpy is not None:
            most = eager()
            found = self._both(x1, x2, most) if most else None
            if found is not None:
                return found
        if isinstance(x1, Storage):
            a = x1
            dtype = a._dtype
            if isinstance(x2, Storage):
                b = x2
                if b._dtype is dtype:
                    formula = self.formulas.get(dtype.kind)
                    if formula is not None:
                        left, right = parts_of(a)[0], parts_of(b)[0]
                        shape, other = left.shape, right.shape
                        if type(left) is type(right) and (shape == other or go_together(shape, other)):
                            return made(dtype if self.result is None else self.result, (formula(left, right),))
            elif fits(dtype, x2):
                left = parts_of(a)[0]
                found = self._with_number(dtype.kind, left, left, x2)
                if found is not None:
                    return made(dtype if self.result is None else self.result, (found,))
        elif isinstance(x2, Storage):
            b = x2
            dtype = b._dtype
            if fits(dtype, x1):
                right = parts_of(b)[0]
                found = self._with_number(dtype.kind, right, x1, right)
                if found is not None:
                    return made(dtype if self.result is None else self.result, (found,))
        return self.otherwise(x1, x2)

    def _with_number(self, kind: str, part: Any, left: Any, right: Any) -> Any:
        """The formula of a tensor and a number; ``None`` if there is none."""
        formula = self.direct.get(kind)
        if formula is not None:
            return formula(left, right)
        formula = self.formulas.get(kind)
        if formula is None:
            return None
        cls = type(part)
        return formula(part, cls(right)) if left is part else formula(cls(left), part)


#: Kinds of elements, each of which is among the next: unsigned integers count as integers.
_KINDS = "bifc"
_PYTHON = (int, float, bool, complex)


def _kind_of(operand: Any) -> str:
    """The kind of the elements of an array, or of a Python number."""
    if isinstance(operand, Storage):
        kind: str = operand._dtype.kind
        return "i" if kind == "u" else kind
    return _KINDS[3 if type(operand) is complex else 2 if type(operand) is float else 1 if type(operand) is int else 0]


def _is_finite(value: Any) -> bool:
    """Whether there is no infinity and no NaN in a value or a number."""
    cls = type(value)
    if cls is int or cls is bool:
        return True
    if cls is _ndarray or isinstance(value, np.generic):
        return value.dtype.kind in "biu" or bool(np.isfinite(value).all())
    return bool(np.isfinite(value))


def stay_small(first: Any, second: Any, most: int) -> bool:
    """Whether two values go together, and are small together."""
    shape, other = first.shape, second.shape
    if shape == other:
        return True
    count, left, right = 1, len(shape), len(other)
    for k in range(1, max(left, right) + 1):
        size = shape[left - k] if k <= left else 1
        size2 = other[right - k] if k <= right else 1
        if size != size2 and size != 1 and size2 != 1:
            return False
        count *= max(size, size2)
    return count <= most


def selected(condition: Any, x1: Any, x2: Any) -> Any:
    """Elements of real arrays or numbers by a condition of the same shape; ``None`` if that is not what they are."""
    if not isinstance(condition, Storage):
        return None
    own = condition
    if own._dtype.kind != "b":
        return None
    if isinstance(x1, Storage):
        dtype = x1._dtype
    elif isinstance(x2, Storage):
        dtype = x2._dtype
    else:
        return None
    most = eager()
    if most:
        found = _selected_now(condition, dtype, x1, x2, most)
        if found is not None:
            return found
    mask = parts_of(own)[0]
    on_cpu = type(mask) is own._dtype.tensor
    first, second = _beside(mask, dtype, x1, on_cpu), _beside(mask, dtype, x2, on_cpu)
    return None if first is None or second is None else made(dtype, (dr.select(mask, first, second),))


def _selected_now(condition: Storage, dtype: DType, x1: Any, x2: Any, most: int) -> Any:
    """What NumPy selects of small values or numbers, if these go together; ``None`` for all else."""
    mask = value_of(condition, most)
    if mask is None:
        return None
    found = []
    for side in (x1, x2):
        if isinstance(side, Storage):
            value = value_of(side, most) if side._dtype is dtype else None
            if value is None or value.shape != mask.shape and not stay_small(mask, value, most):
                return None
            found.append(value)
        elif fits(dtype, side):
            found.append(dtype.numpy.type(side))
        else:
            return None
    try:
        chosen = np.where(mask, found[0], found[1])
    except ValueError:
        return None
    return of_value(dtype, chosen) if 0 < chosen.size <= most else None


def _beside(mask: Any, dtype: DType, value: Any, on_cpu: bool) -> Any:
    """The tensor or number of a value that is of a data type and goes with a mask, which is on the CPU or not, as it
    is; else ``None``."""
    if isinstance(value, Storage):
        array = value
        if array._dtype is not dtype or dtype.kind == "c":
            return None
        part = parts_of(array)[0]
        return part if part.shape == mask.shape and (type(part) is dtype.tensor) == on_cpu else None
    return value if fits(dtype, value) and dtype.kind != "b" else None


def enter(name: str, operation: Any) -> None:
    """Tell what an operator does."""
    _operations[name] = operation


def entered(name: str) -> Any:
    """What an operator does."""
    return _operations.get(name)


def of_numpy(array: Any, device: str | None = None) -> Any:
    """The array that one of NumPy, or a sequence, becomes."""
    return _operations["asarray"](array, device=device)


def _applied(name: str, self: Any, other: Any, reverse: bool) -> Any:
    """An operator: other operands than arrays and numbers are left to their own class."""
    if isinstance(other, (list, tuple)):
        other = of_numpy(other, self.device)
    elif not isinstance(other, Storage) and not isinstance(other, _NUMBERS):
        if isinstance(other, np.ndarray):
            return _applied(name, self, of_numpy(other, self.device), reverse)
        if is_recorded(other):
            return _applied(name, self, _operations["number"](name, self, other), reverse)
        if name in ("eq", "ne") and (other is None or isinstance(other, (str, bytes))):  # which no element is
            return constant(BY_NUMPY[np.dtype(bool)], name == "ne", self.shape, self.device)
        if isinstance(other, dr.ArrayBase):
            raise TypeError(f"drjit.array_api.Array.__{'r' * reverse}{name}__(): the other operand must be an array of "
                            f"drjit.array_api or a Python number, found {_name_of(type(other))}. "
                            "drjit.array_api.asarray() converts.")
        return NotImplemented
    operation = _operations[name]
    if isinstance(operation, Operation):
        known = operation
        return known.two(other, self) if reverse else known.two(self, other)
    return operation(other, self) if reverse else operation(self, other)


def _name_of(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


class Operators(Storage):
    """Arrays with operators."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return _applied("add", self, other, False)

    def __radd__(self, other: Any) -> Any:
        return _applied("add", self, other, True)

    def __sub__(self, other: Any) -> Any:
        return _applied("sub", self, other, False)

    def __rsub__(self, other: Any) -> Any:
        return _applied("sub", self, other, True)

    def __mul__(self, other: Any) -> Any:
        return _applied("mul", self, other, False)

    def __rmul__(self, other: Any) -> Any:
        return _applied("mul", self, other, True)

    def __truediv__(self, other: Any) -> Any:
        return _applied("truediv", self, other, False)

    def __rtruediv__(self, other: Any) -> Any:
        return _applied("truediv", self, other, True)

    def __floordiv__(self, other: Any) -> Any:
        return _applied("floordiv", self, other, False)

    def __rfloordiv__(self, other: Any) -> Any:
        return _applied("floordiv", self, other, True)

    def __mod__(self, other: Any) -> Any:
        return _applied("mod", self, other, False)

    def __rmod__(self, other: Any) -> Any:
        return _applied("mod", self, other, True)

    def __and__(self, other: Any) -> Any:
        return _applied("and", self, other, False)

    def __rand__(self, other: Any) -> Any:
        return _applied("and", self, other, True)

    def __or__(self, other: Any) -> Any:
        return _applied("or", self, other, False)

    def __ror__(self, other: Any) -> Any:
        return _applied("or", self, other, True)

    def __xor__(self, other: Any) -> Any:
        return _applied("xor", self, other, False)

    def __rxor__(self, other: Any) -> Any:
        return _applied("xor", self, other, True)

    def __lshift__(self, other: Any) -> Any:
        return _applied("lshift", self, other, False)

    def __rlshift__(self, other: Any) -> Any:
        return _applied("lshift", self, other, True)

    def __rshift__(self, other: Any) -> Any:
        return _applied("rshift", self, other, False)

    def __rrshift__(self, other: Any) -> Any:
        return _applied("rshift", self, other, True)

    def __matmul__(self, other: Any) -> Any:
        return _applied("matmul", self, other, False)

    def __rmatmul__(self, other: Any) -> Any:
        return _applied("matmul", self, other, True)

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        return _applied("pow", self, other, False)

    def __rpow__(self, other: Any, modulo: Any = None) -> Any:
        return _applied("pow", self, other, True)

    def __eq__(self, other: Any) -> Any:
        return _applied("eq", self, other, False)

    def __ne__(self, other: Any) -> Any:
        return _applied("ne", self, other, False)

    def __lt__(self, other: Any) -> Any:
        return _applied("lt", self, other, False)

    def __le__(self, other: Any) -> Any:
        return _applied("le", self, other, False)

    def __gt__(self, other: Any) -> Any:
        return _applied("gt", self, other, False)

    def __ge__(self, other: Any) -> Any:
        return _applied("ge", self, other, False)

    def __neg__(self) -> Any:
        return _operations["negative"](self)

    def __pos__(self) -> Any:
        return _operations["positive"](self)

    def __abs__(self) -> Any:
        return _operations["abs"](self)

    def __invert__(self) -> Any:
        return _operations["bitwise_invert"](self)
