"""Promotion plans: what an operation with operands of given classes does, worked out once and kept.

The rules
---------
* Between arrays, the scalar type with the larger number in :class:`drjit.VarType` wins: masks, then integers by width
  (of two integers of one width the unsigned one), then floating point by width.
* Python numbers are weak: an ``int`` goes with anything but a mask (which becomes a 32-bit integer), a ``float`` turns
  masks and integers of any width into single precision. Lists and NumPy scalars count as their elements do; lists
  that hold arrays are arrays of these components.
* Static shapes broadcast from the right, as in NumPy, with the dynamic dimension apart: ``Array3f + Float``.

The mechanism
-------------
All of this follows from the classes of the operands, of which there are few combinations in a program. An
:class:`Operation` keeps a *plan* for each: a function of the operands that casts what must be cast, repeats what must
be repeated, and traces. Whoever calls an operation looks for its plan by the tuple of classes, and runs it;
:func:`apply` does both, and makes the plan that is missing.

What depends on values is left to the call: literals are made of numbers (a number may be out of range), arrays of
dynamic static size are compared (``ArrayXf``), tensors are aligned. Operands that no class can stand for become ones
that do before a plan is looked for: NumPy arrays and Python sequences become arrays (of the type that they promote to),
NumPy scalars numbers.

Common rules are here; kinds with rules of their own (tensors, matrices, complex numbers, quaternions) make plans by
their class method ``_plan``.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from drjit_core import TYPES, Extent, Node, common_type, is_float, literal

from .._base.array import ArrayBase
from .._base.errors import (
    FAILURES,
    ArgumentError,
    CallSite,
    IncompatibleArguments,
    Site,
    argument,
    called,
    describe,
    translate,
)
from .._base.types import BOOL, FLOAT32, INT32, Record, lookup, reshape, retype
from .._base.values import PYTHON_NUMBERS, is_ndarray, plain_scalar, scalar_type_of
from .componentwise import (
    FLAT,
    NESTED,
    NUMBER,
    OTHER,
    Chosen,
    Componentwise,
    Keys,
    Loader,
    Masking,
    Operation,
    Plan,
    chosen,
    masked,
)
from .promote import bound_number, coerce, is_row, leads, meeting_package, number_literal, repeated, trails, wrap

__all__ = ["AND", "SELECT", "Keys", "Operation", "Plan", "Promotion", "apply", "common_plan", "elementwise",
           "find_plan", "flat_loader", "is_array", "is_complex", "is_masking", "is_real_key", "leaf_of_elements",
           "loader_of_number", "masking", "operands", "promotion", "tensor_type"]

Trace = Callable[..., Node]


# --- the types of results --------------------------------------------------------------------------------------------


class _Elements(NamedTuple):
    """Stands for a Python sequence among keys: the rank of its numbers, and the largest scalar type of its arrays."""

    rank: int
    scalar: int
    #: What a sequence that holds arrays is by itself: its static shape, with these as components, and their types.
    shape: tuple[int, ...] | None = None
    arrays: tuple[type[ArrayBase], ...] = ()


def is_array(key: Any) -> bool:
    """Whether a key is an array type."""
    return isinstance(key, type) and issubclass(key, ArrayBase)


def is_real_key(key: Any) -> bool:
    """Whether an operand of a class is a single real component: a Python number or a flat array."""
    return key in PYTHON_NUMBERS or is_array(key) and not key._depth


def promote_scalars(scalar: int, rank: int) -> int:
    """The scalar type of a result, given the largest one of the arrays, and the rank of numbers."""
    if rank == 2 and not is_float(scalar):
        return FLOAT32
    return INT32 if rank == 1 and scalar == BOOL else scalar


class Promotion:
    """What operands of certain classes promote to.

    ``cls`` is their common array type, ``targets`` has what each operand becomes (that, or its type of masks), and
    ``loaders`` how the operands become component nodes of it. These lists have one length, unless the
    type is of a dynamic static size, see :func:`_common_length`.
    """

    __slots__ = ("cls", "keys", "loaders", "targets")

    def __init__(self, keys: Keys, cls: type[ArrayBase], targets: Sequence[type[ArrayBase]]) -> None:
        self.keys, self.cls, self.targets = keys, cls, targets
        self.loaders: tuple[Loader, ...] = tuple(map(loader, targets, keys))

    def load(self, *args: Any) -> list[list[Node]]:
        """The component nodes of the promoted operands, lists of one length."""
        loaders = self.loaders
        if len(loaders) == 2:
            lists = [loaders[0](args[0]), loaders[1](args[1])]
        else:
            lists = [load(value) for load, value in zip(loaders, args, strict=True)]
        return lists if self.cls._count >= 0 else _common_length(self.keys, lists)


_promotions: dict[tuple[Keys, int], Promotion] = {}


def promotion(keys: Keys, mask: int = -1) -> Promotion:
    """What operands promote to; not for tensors, whose shapes are no matter of types.

    The operand at position ``mask``, a mask array or ``bool``, takes part in broadcasting only. Raises
    :class:`IncompatibleArguments`.
    """
    found = _promotions.get((keys, mask))
    if found is None:
        cls = _common_type(keys, mask)
        found = Promotion(keys, cls, [cls._mask_type if position == mask else cls for position in range(len(keys))])
        _promotions[keys, mask] = found
    return found


def _common_type(keys: Keys, mask: int = -1) -> type[ArrayBase]:
    """The array type that operands promote to."""
    scalar, rank, top, held = _scalars(keys, mask)
    result = meeting_package([*top, *(cls for each in held for cls in each.arrays)], top[0])
    shapes = [key._record.shape for key in top]
    shapes += [each.shape or () for each in held if each.arrays or result._dynamic]
    shape = shapes[0] if len(shapes) == 1 else _broadcast_types(shapes)
    scalar = promote_scalars(scalar, rank)
    specials = {key._record[2:4] for key in top if key._special}
    if len(specials) > 1:  # matrices and matrices with further dimensions
        kind, longest = max(specials, key=lambda special: len(special[1]))
        specials = {(kind, longest)} if all(special[0] == kind and leads(special[1], longest) for special in specials) \
            else specials
    if not specials:
        try:
            return reshape(retype(result, scalar), shape)
        except TypeError as error:
            raise IncompatibleArguments(str(error).rstrip(".")) from None
    if len(specials) > 1:
        raise IncompatibleArguments("there is no rule for both together")
    kind, special_shape = specials.pop()
    return retype(_class_of(result._record._replace(kind=kind, shape=special_shape)), scalar)


def _scalars(keys: Keys, mask: int) -> tuple[int, int, list[type[ArrayBase]], list[_Elements]]:
    """The largest scalar type, the rank of the numbers, the array types (that of the mask last), and what sequences of
    arrays there are."""
    scalar, rank = BOOL, -1
    top: list[type[ArrayBase]] = []
    held: list[_Elements] = []
    for position, key in enumerate(keys):
        if position == mask:
            continue
        if isinstance(key, _Elements):
            scalar, rank = common_type(scalar, key.scalar), max(rank, key.rank)
            held += [] if key.shape is None else [key]
        elif key in PYTHON_NUMBERS:
            rank = max(rank, PYTHON_NUMBERS[key])
        elif is_array(key):
            scalar = common_type(scalar, key._type)
            top.append(key)
    if mask >= 0 and is_array(keys[mask]):
        top.append(keys[mask])
    return scalar, rank, top, held


def _class_of(record: Record) -> type[ArrayBase]:
    found = lookup(record) or lookup(record._replace(type=FLOAT32))
    assert found is not None
    return found


def _broadcast_types(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The common static shape (-1 where dynamic) of those of array types: they go together from the last dimension
    on, or else from the first one."""
    try:
        return _aligned(shapes)
    except IncompatibleArguments:
        longest = max(shapes, key=len)
        if all(leads(shape, longest) for shape in shapes):
            return longest
        raise


def _aligned(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    result: list[int] = []
    for axis in range(-max(map(len, shapes)), 0):
        sizes = {shape[axis] for shape in shapes if len(shape) >= -axis}
        if len(sizes) > 1 and -1 not in sizes:
            raise IncompatibleArguments
        # A size of one goes with any other if one of both is dynamic, which the calls find out.
        result.append(-1 if -1 in sizes else sizes.pop())
    return tuple(result)


# --- from operands to nodes ------------------------------------------------------------------------------------------


def loader_of_number(cls: type[ArrayBase]) -> Loader:
    """How Python numbers become literals of an array type's scalar type."""
    repeats = 1 if cls._count < 0 else cls._count
    return Loader(NUMBER, cls._type, count=repeats, function=lambda value: number_literal(cls, value))


def flat_loader(cls: type[ArrayBase], key: Any) -> Loader:
    """How flat arrays or numbers become nodes of an array type's scalar type."""
    if not is_array(key):
        return loader_of_number(cls)
    return Loader(FLAT, cls._type, key._type != cls._type, 1 if cls._count < 0 else cls._count)


def loader(cls: Any, key: Any) -> Loader:
    """How operands of a class become component nodes of the type that they are promoted to."""
    if is_real_key(key):
        found = flat_loader(cls, key)
        if cls._special:
            return Loader(OTHER, cls._type, function=lambda value: cls._identity(found.node(value)))
        return found
    declared, shape = cls._record.shape, key._record.shape
    behind = not trails(shape, declared) or leads(shape, declared) and shape != declared and not is_row(cls, key)
    if behind and not leads(shape, declared) or cls._special and shape != declared and not (
            key._special == cls._special and leads(shape, declared)):
        raise IncompatibleArguments(f"cannot convert {describe(key)} to {describe(cls)}")
    if behind or cls._special and shape != declared:
        return Loader(OTHER, cls._type, function=lambda value: repeated(cls, value))
    return Loader(NESTED, cls._type, key._type != cls._type, cls._count // key._count if cls._count > 0 else 1)


def _common_length(keys: Keys, lists: Sequence[list[Node]]) -> list[list[Node]]:
    """Component lists of operands of which one has a dynamic static size, brought to one length."""
    count = 1
    nested = [len(nodes) for key, nodes in zip(keys, lists, strict=True) if not is_real_key(key)]
    for length in nested:
        if length != count and length != 1:
            if count != 1:
                raise IncompatibleArguments("their numbers of components differ")
            count = length
    return [nodes if len(nodes) == count else nodes * count for nodes in lists]


# --- operands that no class stands for -------------------------------------------------------------------------------


def is_complex(value: Any) -> bool:
    """Whether a value is a Python complex number or a NumPy scalar of that kind."""
    return isinstance(value, complex) or (type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0
                                          and value.dtype.kind == "c")


def _unsupported(site: Site, position: int, value: Any) -> ArgumentError:
    what = argument(site, position)
    found = f"unsupported operand of type '{describe(value)}'" if what == "operand" else \
        f"{what} has the unsupported type '{describe(value)}'"
    return ArgumentError(f"{called(site)}: {found} (expected a Dr.Jit array or a type that can be converted into one).")


def _elements_unsupported(site: Site, value: Any) -> ArgumentError:
    return ArgumentError(f"{called(site)}: arrays of type '{describe(value)}' with elements of type '{value.dtype}' "
                         "are not supported.")


def _elements(site: Site, position: int, value: Any) -> _Elements:
    """What the elements of a Python sequence contribute to promotion."""
    if value.__class__ not in (list, tuple, range):
        if isinstance(value, ArrayBase):
            cls = type(value) if value._depth >= 0 else value._leaf
            return _Elements(-1, value._type, cls._record.shape, (cls,))
        found = scalar_type_of(value) if is_ndarray(value) and value.ndim else None
        if found is not None:
            return _Elements(-1, found, value.shape[:-1])
        number = plain_scalar(value)
        if number is None:
            raise _unsupported(site, position, value)
        return _Elements(PYTHON_NUMBERS[number.__class__], BOOL)
    kinds = {item.__class__ for item in value}
    if kinds <= PYTHON_NUMBERS.keys():
        return _Elements(max((PYTHON_NUMBERS[kind] for kind in kinds), default=-1), BOOL)
    items = [_elements(site, position, item) for item in value]
    shapes = [item.shape for item in items if item.shape is not None]
    shape = (len(value) if len(value) <= 4 else -1, *_broadcast_types(shapes)) if shapes else None
    return _Elements(max(item.rank for item in items), functools.reduce(common_type, [item.scalar for item in items]),
                     shape, tuple({cls for item in items for cls in item.arrays}))


def _from_numpy(site: Site, value: Any, like: type[ArrayBase]) -> Any:
    """A NumPy array as an array over the backend of ``like``, and of its kind, as a sequence is.

    Beside a tensor it is a tensor; beside a nested array its leading dimensions are the components; beside complex
    numbers one dimension of real numbers is a flat array.
    """
    if value.dtype.kind == "c" and like._special == "complex":
        return _constructed(site, like, value)
    scalar = scalar_type_of(value)
    if scalar is None:
        raise _elements_unsupported(site, value)
    if like._depth < 0:
        return _constructed(site, retype(like, scalar), value)
    if like._special and not (like._special == "complex" and value.ndim == 1):
        return _constructed(site, retype(like, scalar if TYPES[scalar].kind == "f" else like._type), value)
    shape = like._record.shape
    if not shape or like._special:
        shape = (-1,) * (value.ndim - 1) if like._dynamic else value.shape
    return _constructed(site, reshape(retype(like._leaf, scalar), shape), value)


def _constructed(site: Site, cls: Any, value: Any) -> Any:
    try:
        return cls(value)
    except (TypeError, RuntimeError) as error:
        raise ArgumentError(f"{called(site)}: could not convert an operand of type '{describe(value)}' and the shape "
                            f"{value.shape} to {describe(cls)}: {error}") from None


def resolve(site: Site, args: Sequence[Any], mask: int = -1,
            masking: bool = False) -> tuple[list[Any], Keys]:
    """Operands that classes stand for, and these, from the arguments of an operation, at least one of them an array.

    ``mask`` is the position of an argument that takes part in broadcasting only. ``masking`` says that the operation is
    ``&``, in which a sequence of truth values is a mask.
    """
    values = list(args)
    arrays = [type(value) for value in values if isinstance(value, ArrayBase)]
    like = next((cls for cls in arrays if cls._depth < 0), max(arrays, key=attrgetter("_depth")))
    sequences: list[int] = []
    keys: list[Any] = []
    for position, value in enumerate(values):
        kind: Any = value.__class__
        if kind not in PYTHON_NUMBERS and not isinstance(value, ArrayBase):
            if kind in (list, tuple, range):
                sequences.append(position)
                kind = _elements(site, position, value)
            elif is_ndarray(value) and value.ndim:
                values[position] = value = _from_numpy(site, value, like)
                kind = type(value)
            elif kind is Extent:
                sequences.append(position)
                kind = _Elements(PYTHON_NUMBERS[value.value.__class__], BOOL)
            else:
                found = plain_scalar(value)
                if found is None:
                    found = _complex(value, arrays)
                    if found is None:
                        raise _unsupported(site, position, value)
                values[position] = found
                kind = found.__class__
        keys.append(kind)
    for position in sequences:
        tensor = like._depth < 0
        cls = tensor_type(tuple(keys), mask) if tensor else _common_type(tuple(keys), mask)
        if masking:
            other, found = keys[1 - position], keys[position]
            if found.rank <= 0 and found.scalar == BOOL and is_array(other) and other._kind != "b" and \
                    (position or other._kind == "f"):
                cls = cls._mask_type
        if values[position].__class__ is Extent:
            values[position] = array = wrap(cls._leaf, [bound_number(cls._leaf, values[position], site)])
            keys[position] = type(array)
            continue
        values[position] = array = cls(values[position]) if tensor else \
            wrap(cls, list(coerce(cls, values[position], site)))
        keys[position] = type(array)
    return values, tuple(keys)


def leaf_of_elements(site: Site, value: Any, like: type[ArrayBase]) -> type[ArrayBase]:
    """The flat type of an operand that is a sequence or a NumPy array, in an operation with an array of a type."""
    if is_ndarray(value):
        scalar = scalar_type_of(value)
        if scalar is None:
            raise _elements_unsupported(site, value)
        return retype(like._leaf, scalar)
    return _common_type((like._leaf, _elements(site, 1, value)._replace(shape=())))._leaf


def tensor_type(keys: Keys, mask: int) -> type[ArrayBase]:
    """The tensor type that operands promote to."""
    scalar, rank, top, held = _scalars(keys, mask)
    tensor = next(key for key in top if key._depth < 0)
    package = meeting_package([*top, *(cls for each in held for cls in each.arrays)], tensor)
    return retype(package, promote_scalars(scalar, rank))


def _complex(value: Any, arrays: Sequence[type[ArrayBase]]) -> Any:
    """A Python complex number as an array, if there are complex ones among the operands."""
    cls: Any = next((cls for cls in arrays if cls._special == "complex"), None)
    return cls(value) if cls is not None and is_complex(value) else None


# --- plans -----------------------------------------------------------------------------------------------------------


def find_plan(operation: Operation, site: Site, args: Sequence[Any]) -> tuple[Plan, Sequence[Any]]:
    """The plan for arguments, made if there is none yet, and the operands that it is for."""
    raw = tuple(value.__class__ for value in args)
    plan = operation.plans.get(raw)
    if plan is not None:
        return plan, args
    values, keys = resolve(site, args, 0 if operation is SELECT else -1, operation is AND)
    plan = operation.plans.get(keys)
    if plan is None:
        plan = (operation.make_plan or common_plan)(operation, site, keys)
        operation.plans[keys] = plan
    if keys != raw and _are_numbers(args, keys):
        operation.plans[raw] = _from_numpy_scalars(plan)
    return plan, values


def _are_numbers(args: Sequence[Any], keys: Keys) -> bool:
    """Whether all arguments that were converted are NumPy scalars, whose classes stand for what they are."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and all(value.__class__ is key or key in PYTHON_NUMBERS and isinstance(
        value, (numpy.bool_, numpy.integer, numpy.floating)) for value, key in zip(args, keys, strict=True))


def _from_numpy_scalars(plan: Plan) -> Plan:
    return lambda *args: plan(*[value if isinstance(value, ArrayBase) else plain_scalar(value) for value in args])


def common_plan(operation: Operation, site: Site, keys: Keys) -> Plan:
    """The plan of an elementwise operation: that of a special kind of array, or component by component."""
    special = next((key for key in keys if is_array(key) and key._depth < 0), None) or \
        next((key for key in keys if is_array(key) and key._special), None)
    if special is not None:
        plan: Plan | None = special._plan(operation, site, keys)
        if plan is not None:
            return plan
    found = promotion(keys)
    return _componentwise(operation.trace, found, found.cls._mask_type if operation.mask else found.cls)


def _componentwise(trace: Trace, found: Promotion, result: type[ArrayBase]) -> Plan:
    """The plan that traces each component of the promoted operands."""
    if not found.cls._depth or found.cls._count >= 0:
        return Componentwise(trace, found.loaders, result)
    load_all = found.load

    def dynamic(*args: Any) -> Any:
        return wrap(result, list(map(trace, *load_all(*args))))

    return dynamic


# --- operations whose operands have different roles ------------------------------------------------------------------


def _select_plan(operation: Operation, site: Site, keys: Keys) -> Plan:
    """The plan of ``dr.select`` with a mask as the first operand, which takes part in broadcasting only."""
    tensor = next((key for key in keys if is_array(key) and key._depth < 0), None)
    if tensor is not None:
        return tensor._plan(operation, site, keys)  # type: ignore[no-any-return]
    if keys[0] is bool:
        return _chosen_plan(promotion(keys[1:]))
    found = promotion(keys, mask=0)
    return _componentwise(operation.trace, found, found.cls)


def _chosen_plan(found: Promotion) -> Plan:
    """The plan of ``dr.select`` with a Python ``bool``, which chooses one of the other operands."""
    if not found.cls._depth or found.cls._count >= 0:
        return Chosen(found.loaders, found.cls)
    load_all = found.load

    def dynamic(condition: bool, first: Any, second: Any) -> Any:
        return wrap(found.cls, [chosen(condition, a, b) for a, b in zip(*load_all(first, second), strict=True)])

    return dynamic


def is_masking(keys: Keys) -> bool:
    """Whether ``&`` of operands of two classes masks numbers, as a mask on the right does; one on the left counts as 0
    and 1 before integers."""
    left, right = (key is bool or is_array(key) and key._kind == "b" for key in keys)
    return right and not left


def _and_plan(operation: Operation, site: Site, keys: Keys) -> Plan:
    """The plan of ``&``, which masks numbers as well: ``x & mask`` is ``x`` where the mask is set, and zero elsewhere.
    """
    if not is_masking(keys) or any(is_array(key) and key._depth < 0 for key in keys):
        return common_plan(operation, site, keys)
    found = promotion((keys[1], keys[0]), mask=0)
    zero = literal(found.cls._type, 0)
    if not found.cls._depth or found.cls._count >= 0:
        return Masking(found.loaders, found.cls, zero)
    select = _componentwise(masking(zero), found, found.cls)
    return lambda value, mask: select(mask, value)


def masking(zero: Node) -> Trace:
    """The trace function from a mask and a value to the value where the mask is set, and zero elsewhere."""
    return lambda mask, value: masked(mask, value, zero)


AND = Operation("and_", make_plan=_and_plan)
SELECT = Operation("select", mask=False, make_plan=_select_plan)


# --- for the other rooms ---------------------------------------------------------------------------------------------


def of_others(name: str, args: Sequence[Any]) -> Any:
    """What an elementwise function computes of objects whose class says so, or ``NotImplemented``."""
    for arg in args:
        method = getattr(arg.__class__, "__drjit_function__", None)
        if method is not None:
            return method(arg, name, tuple(args))
    return NotImplemented


def apply(operation: Operation, site: Site, args: Sequence[Any]) -> Any:
    """The result of an operation on any arguments, at least one of them an array."""
    try:
        plan, values = find_plan(operation, site, args)
        return plan(*values)
    except FAILURES as error:
        result = of_others(operation.name, args)
        if result is not NotImplemented:
            return result
        raise translate(error, site, args) from None


def elementwise(site: Site, trace: Operation | Trace, args: Sequence[Any], mask: bool = False) -> Any:
    """What :func:`apply` returns; also for a trace function that is no operation of its own (``mask`` if it returns
    masks), whose plan is not kept."""
    return apply(trace if isinstance(trace, Operation) else Operation("", trace, mask), site, args)


def operands(site: Site, args: Sequence[Any], mask: ArrayBase | None = None,
             ) -> tuple[type[ArrayBase], list[list[Node]]]:
    """Promote the arguments of an elementwise operation (at least one of them, or ``mask``, an array; no tensors).

    Returns their common array type and the component nodes of each, lists of one length. A ``mask`` (the first argument
    of ``select``) takes part in broadcasting only; its nodes come first. Messages add the type of the first array to a
    ``site`` that is the name of a function.
    """
    values, position = args, -1
    if mask is not None:
        values, position = (mask, *args), 0
    try:
        found = _promotions.get((tuple(map(type, values)), position))
        if found is None:
            values, keys = resolve(_with_owner(site, args), values, position)
            found = promotion(keys, position)
        return found.cls, found.load(*values)
    except FAILURES as error:
        raise translate(error, _with_owner(site, args), args) from None


def _with_owner(site: Site, args: Sequence[Any]) -> Site:
    """A function by its name, and the type of the first array that it was called with."""
    if isinstance(site, CallSite):
        return site
    return CallSite(site, next((type(value) for value in args if isinstance(value, ArrayBase)), None))
