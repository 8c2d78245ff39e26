"""The factory of array types: a record says what a type is, the base class says how it behaves.

A concrete type such as ``drjit.llvm.Array3f`` is a bare class without behaviour: a record (backend, scalar type, kind,
static shape, differentiable), what follows from it as class attributes that the operators read, and one base class.
Types are made when they are first needed: by the attribute access of a package (:func:`package`), or by an operation
that goes from a record to its class (:func:`lookup`) or to a relative of a class (:func:`retype`, :func:`reshape`).
Importing a package creates nothing.

Kinds and their base classes
----------------------------
==============  ==============================  ======================  ============================================
kind            base class                      component nodes         ``Record.shape``
==============  ==============================  ======================  ============================================
``array``       ``FlatArray``, ``NestedArray``  ``_n``, ``_c``          static sizes, outermost first
``matrix``      ``MatrixBase``                  ``_c``, row-major       (n, n), or (n, n, k) over ``Array<k>*``
``complex``     ``ComplexBase``                 ``_c``: real, imag      (2,)
``quaternion``  ``QuaternionBase``              ``_c``: i, j, k, real   (4,)
``tensor``      ``TensorBase``                  its own                 ()
==============  ==============================  ======================  ============================================

What the factory gives a class
------------------------------
``_record``, ``_type`` (scalar type, an int), ``_where`` (the backend as a bit, as nodes have it), ``_kind`` (letter of
the scalar type's kind, not of the record's), ``_name`` (as in messages), ``_depth``, ``_size``, ``_count`` (of static
dimensions, of the outermost one, of components; -1 if dynamic; a tensor has depth -1), ``_mask_type`` (result of
comparisons; always an array or tensor), ``_leaf`` (flat type), ``_value`` (type of an entry), ``_plain`` (the
``array_t``: the array type of the same layout), ``_special`` (the kind of matrices, complex numbers, quaternions and
tensors, else the empty string), ``_dynamic`` (whether a node may hold many elements: everywhere but in the static types
of ``drjit.scalar``).

What a base class of a special kind may override
------------------------------------------------
``_construct(cls, args)``
    A class method: the component nodes of an instance made from the arguments of the constructor (``__init__`` of
    :class:`drjit._arrays.nested.NestedArray` calls it; a tensor has an ``__init__`` of its own).
``_convert(cls, value, function)``
    A class method: the component nodes of an argument of an operation that is promoted to this type. Here a scalar
    becomes a multiple of the identity.
``_plan(operation, site, keys)``
    A class method: the plan of an elementwise operation with an operand of this kind (see
    :mod:`drjit._promotion.plans`), or ``None`` to go on with the common rules.
``_format(limit)``
    The text of ``repr``.
operators and methods
    By plain overriding. ``a * b`` asks the type of ``a`` first, then ``b.__rmul__``.

Common rules of promotion: the special kind wins over ``array``; two different special kinds raise. Types of another
scalar type are found by :func:`retype`, which turns special types over integers into plain arrays.
"""

from __future__ import annotations

import functools
import importlib
import math
import sys
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from drjit_core import TYPES, JitBackend, has_backend, missing_backend

from .array import ArrayBase
from .handle import adopt
from .links import links
from .records import (
    BFLOAT16,
    BOOL,
    FAMILIES,
    FLAT,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    GENERATORS,
    INT32,
    INT64,
    MODULES,
    NOT_LISTED,
    SCALAR,
    SUFFIX,
    TEXTURES,
    UINT32,
    UINT64,
    Record,
    existing,
    members,
    parse,
)

__all__ = ["BFLOAT16", "BOOL", "FLOAT16", "FLOAT32", "FLOAT64", "INT32", "INT64", "SCALAR", "UINT32", "UINT64",
           "Record", "base_class", "lookup", "members", "package", "relative", "require_backend", "reshape", "retype"]

_classes: dict[Record, type[ArrayBase]] = {}
#: Classes that this thread is making, which are published together once each of them is complete.
_unfinished: dict[Record, type[ArrayBase]] = {}
_lock = threading.RLock()


def lookup(record: Record) -> type[ArrayBase] | None:
    """The class of a record, or ``None`` if there is no such type."""
    found = _classes.get(record)
    if found is not None or existing(record) is None:
        return found
    with _lock:
        found = _classes.get(record) or _unfinished.get(record)
        if found is None:
            outermost = not _unfinished
            try:
                found = _make(record)
                if outermost:
                    _classes.update(_unfinished)
            finally:
                if outermost:
                    _unfinished.clear()
    return found


def _require(record: Record) -> type[ArrayBase]:
    found = lookup(record)
    if found is None:
        sizes = "".join("X" if size < 0 else str(size) for size in record.shape)
        raise TypeError(f"The operation needs a type {MODULES[record.backend, record.diff]}.{record.kind.capitalize()}"
                        f"{sizes}{SUFFIX[record.type]}, which does not exist.")
    return found


def _retype(cls: type[ArrayBase], scalar: int) -> type[ArrayBase]:
    record = cls._record._replace(type=scalar)
    return lookup(record) or _require(record._replace(kind="array"))


def _reshape(cls: type[ArrayBase], shape: tuple[int, ...]) -> type[ArrayBase]:
    record = cls._record._replace(kind="array", shape=shape)
    return lookup(record) or _require(record._replace(shape=(-1,) * len(shape)))


def _relative(cls: type[ArrayBase], backend: JitBackend, diff: bool) -> type[ArrayBase]:
    return _require(cls._record._replace(backend=backend, diff=diff))


#: The type of the same kind and shape over another scalar type.
retype: Callable[[type[ArrayBase], int], type[ArrayBase]] = functools.cache(_retype)  # type: ignore[assignment]
#: The array type over the same scalar type with another static shape; a dynamically sized one where none exists.
reshape: Callable[[type[ArrayBase], tuple[int, ...]], type[ArrayBase]] = functools.cache(_reshape)  # type: ignore[assignment]
#: The type of the same name in another package.
relative: Callable[[type[ArrayBase], JitBackend, bool], type[ArrayBase]] = functools.cache(_relative)  # type: ignore[assignment]


# --- making classes --------------------------------------------------------------------------------------------------

_PYTHON: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float}
_LARGEST = math.ldexp(1 - 2.0**-53, 1024)  # of a Python float: an int beyond cannot become one


def require_backend(cls: type[ArrayBase], function: str) -> None:
    """Raise if the backend of a type is not available on this machine."""
    backend = cls._record.backend
    if backend is not SCALAR and not has_backend(backend):
        raise RuntimeError(f"{function}(): the {backend.name} backend is not available on this machine: "
                           f"{missing_backend(backend)}. Use the types of another package, or those of drjit.auto, "
                           "which stands for one that is available.")


def _first_instance(self: ArrayBase, *args: Any, **kwargs: Any) -> None:
    """``__init__`` of a type of CUDA's until it has an instance: whether there is a device is asked then.

    Looking for one takes as long as making hundreds of types.
    """
    require_backend(type(self), f"{self._name}.__init__")
    cls: Any = _require(self._record)  # which the type may be derived from
    with _lock:
        if "__init__" in vars(cls):
            del cls.__init__
            adopt(cls)
    cls.__init__(self, *args, **kwargs)


def _no_instances(self: ArrayBase, *args: Any, **kwargs: Any) -> None:
    """``__init__`` of the classes that stand for Python types."""
    raise TypeError("flat arrays of the scalar backend are Python numbers")


#: The base classes by kind of the record, ``"flat"`` and ``"nested"`` for that of arrays, and ``"scalar"`` for what
#: comes before them in the scalar backend: filled by the modules of :mod:`drjit._arrays`, see :func:`base_class`.
_base_classes: dict[str, type] = {}
_Class = TypeVar("_Class", bound=type)


def base_class(kind: str) -> Callable[[_Class], _Class]:
    """Decorator: a class becomes the base of the array types of a kind."""
    def register(cls: _Class) -> _Class:
        _base_classes[kind] = cls
        return cls

    return register


def _bases(record: Record) -> tuple[type, ...]:
    kind = record.kind if record.kind != "array" else "nested" if record.shape else "flat"
    base = _base_classes[kind]
    if record.backend is SCALAR and kind not in ("flat", "tensor"):
        return (_base_classes["scalar"], base)
    return (base,)


class ArrayType(type):
    """The class of array types: like ``type``, but that ``dir(Array3f)`` lists what programs use.

    The base classes, which ``isinstance`` is asked about in every operation, are plain classes.
    """

    def __dir__(cls) -> list[str]:
        return members(cls)


def _make(record: Record) -> type[ArrayBase]:
    """Make the class of a record that may exist, and those that it refers to."""
    backend, scalar, kind, shape, diff = record
    module, name, info = MODULES[backend, diff], record.name, TYPES[scalar]
    python = _PYTHON[info.kind]
    floating, tensor, array = info.kind == "f", kind == "tensor", kind == "array"
    methods: dict[str, Any] = {}
    if backend is JitBackend.CUDA:
        methods["__init__"] = _first_instance
    elif backend is SCALAR and array and not shape:
        # Stands for a Python type where operations need a class; there are no instances.
        module, name = "builtins", python.__name__
        methods["__init__"] = _no_instances
    dynamic = backend is not SCALAR or tensor
    cls: Any = ArrayType(name, _bases(record), {
        "__slots__": (), "__module__": module, "__qualname__": name,
        "_record": record, "_type": scalar, "_where": backend.value, "_kind": info.kind,
        "_name": name if module == "builtins" else f"{module}.{name}",
        # Python scalars that the operators may turn into a literal of this type without further ado.
        "_floating": floating,
        "_low": -_LARGEST if floating else info.minimum if info.kind != "b" else 1,
        "_high": _LARGEST if floating else info.maximum if info.kind != "b" else 0,
        "_depth": len(shape) if not tensor else -1,
        "_size": shape[0] if shape else -1,  # of the outermost static dimension
        "_count": math.prod(shape) if -1 not in shape and not tensor else -1,  # of components
        "_special": "" if array else kind,
        "_dynamic": dynamic, **methods,
    })
    adopt(cls)
    _unfinished[record] = cls
    cls._mask_type = cls if scalar == BOOL else \
        _require(Record(backend, BOOL, kind if tensor else "array", shape, diff))
    cls._leaf = cls if array and not shape else _require(Record(backend, scalar, "array", (), diff))
    if shape and (dynamic or len(shape) > 1):
        cls._value = _require(Record(backend, scalar, "array", shape[1:], diff))
    else:
        cls._value = python
    if tensor:
        cls._plain = cls._leaf if backend is not SCALAR else _require(Record(backend, scalar, "array", (-1,), diff))
    else:
        cls._plain = cls if array else _require(Record(backend, scalar, "array", shape, diff))
    return cls  # type: ignore[no-any-return]


# --- packages --------------------------------------------------------------------------------------------------------


def _listed(backend: JitBackend) -> list[str]:
    names = [name for name in FLAT if backend is SCALAR or name not in NOT_LISTED]
    names += [f"{prefix}{digits}{suffix}" for prefix, _, shapes, suffixes in FAMILIES for digits in shapes
              for suffix in suffixes.split()]
    return sorted([*names, *GENERATORS, *TEXTURES])


def package(namespace: dict[str, Any], backend: JitBackend, diff: bool = False,
            others: Mapping[str, str] = MappingProxyType({})) -> None:
    """Give a module the types of a package, each made when it is first asked for, and list them in ``__all__``;
    ``others`` are names besides, and the modules that define them."""
    module = namespace["__name__"]

    names = _listed(backend)
    if backend is not SCALAR:
        others = {"Event": "drjit._tools.event", **others}
    names = sorted([*names, *others])
    has_diff = not diff and backend is not SCALAR

    def get(name: str) -> Any:
        if name == "ad" and has_diff:
            return importlib.import_module(f"{module}.ad")
        record = parse(name, backend, diff)
        if name in GENERATORS:
            namespace[name] = links.generator(name, module, Record(backend, FLOAT32, "array", (), diff))
            return namespace[name]
        if name in TEXTURES:
            namespace[name] = links.texture(name, module, Record(backend, TEXTURES[name], "array", (), diff))
            return namespace[name]
        if name in others:
            namespace[name] = getattr(importlib.import_module(others[name]), name)
            return namespace[name]
        if record is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules.get(module))
        cls: Any = _PYTHON[TYPES[record.type].kind] if backend is SCALAR and name in FLAT else lookup(record)
        namespace[name] = cls
        return cls

    namespace["__getattr__"] = get
    namespace["__all__"] = names
    namespace["__dir__"] = lambda: sorted([*names, "ad"] if has_diff else names)
