"""What functions know, and may do, as their code tells: whether they are *closed*, so that nothing but what they are
given can be something else when they have returned.

What is read off a code is kept by its id (:func:`.._base.weak.note`).
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Sequence
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

from drjit_core import closure_of, code_of, defaults_of, further_of, globals_of, names_nothing

from .._base.array import ArrayBase
from .._base.weak import note
from .._trees.contents import contents_of
from .._trees.kinds import MISSING, VALUE, about, is_library, is_of_library, kind_at

__all__ = ["COMPUTES_ATTRIBUTES", "COMPUTES_VARIABLES", "FINDS_CLASSES", "called_by_operators", "functions_of",
           "imported_by", "is_closed", "is_harmless", "names_of", "sets_attributes", "variables_of"]

#: Names that a function, and those within it, use; those of variables of its module, and of modules that it imports: by
#: the id of its code.
_names: dict[int, tuple[str, ...]] = {}
_variables: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}
#: The instructions whose argument is the number of the name of such a variable; of one, twice that and more.
_EXTENDED, _LOAD_GLOBAL, _IMPORT = dis.EXTENDED_ARG, dis.opmap["LOAD_GLOBAL"], dis.opmap["IMPORT_NAME"]
_NAMES_VARIABLES = frozenset([number for name, number in dis.opmap.items() if name.endswith((
    "LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "_OR_GLOBALS", "LOAD_NAME",
    "STORE_NAME", "DELETE_NAME"))])
#: Whether a function, or one within it, gives variables of its module or of functions around it other values, by the id
#: of its code.
_rebinds: dict[int, bool] = {}
#: Whether functions set attributes, by their codes' ids.
_sets: dict[int, bool] = {}
_handed: dict[int, frozenset[str]] = {}
#: So deep functions are looked into that know functions.
_DEEPEST = 4
#: By what functions find variables of their module, or attributes, whose names they compute. Nobody can tell ``eval``
#: from the method of textures.
COMPUTES_VARIABLES = frozenset(("exec", "globals"))
COMPUTES_ATTRIBUTES = frozenset((
    "__dict__", "__getattribute__", "attrgetter", "dir", "getattr", "hasattr", "methodcaller", "vars"))
#: By what functions find the class of an object.
FINDS_CLASSES: frozenset[str] = COMPUTES_ATTRIBUTES | {"type", "__class__", "super", "isinstance"}
#: What describes the fields of classes, which have it as attributes, too.
_DESCRIBES = frozenset(("__annotations__", "__dataclass_fields__", "__dataclass_params__"))


def functions_of(value: Any) -> tuple[Any, ...]:
    """The functions of what a class or a module has by some name."""
    cls = type(value)
    if cls is staticmethod or cls is classmethod:
        return (value.__func__,)
    return (value.fget, value.fset, value.fdel) if cls is property else (value,)


def names_of(code: CodeType) -> tuple[str, ...]:
    """The names, of attributes or variables of its module, that a function uses, and those within it; first those by
    which it finds variables of other names."""
    found = _names.get(id(code))
    if found is None:
        inner = [name for constant in code.co_consts if constant.__class__ is CodeType for name in names_of(constant)]
        names = [*code.co_names, *inner]
        found = note(_names, code, tuple(dict.fromkeys([
            *[name for name in names if name in COMPUTES_VARIABLES], *names])))
    return found


def variables_of(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those of these names by which a function finds variables of its module (attributes of the same name are none),
    and the modules that it imports when it is called."""
    found = _variables.get(id(code))
    if found is None:
        names, modules, further = list[str](), list[str](), 0
        for constant in code.co_consts:
            if constant.__class__ is CodeType:
                within, imported = variables_of(constant)
                names += within
                modules += imported
        content = code.co_code
        for place in range(0, len(content), 2):
            operation, argument = content[place], content[place + 1] | further << 8
            further = argument if operation == _EXTENDED else 0
            if operation == _IMPORT:
                modules.append(code.co_names[argument])
            elif operation in _NAMES_VARIABLES:
                names.append(code.co_names[argument >> 1 if operation == _LOAD_GLOBAL else argument])
        found = note(_variables, code, (tuple(dict.fromkeys([
            *[name for name in (*code.co_names, *names) if name in COMPUTES_VARIABLES], *names])), tuple(modules)))
    return found


def imported_by(names: Sequence[str], variables: dict[str, Any]) -> list[ModuleType]:
    """The modules that a function imports by some names, from its own package or any of those around it, too."""
    package, known = variables.get("__package__") or "", sys.modules
    found = [known.get(name) for name in names]
    while package:
        found += [known.get(f"{package}.{name}" if name else package) for name in names]
        package = package.rpartition(".")[0]
    return [module for module in found if type(module) is ModuleType]


def _does_rebind(code: CodeType) -> bool:
    """Whether a function, or one within it, gives variables of its module or of functions around it other values."""
    found = _rebinds.get(id(code))
    if found is None:
        stores = [each for each in dis.get_instructions(code) if each.opname[:6] in ("STORE_", "DELETE")]
        rebound = [each for each in stores if each.opname.endswith("_GLOBAL") or each.argval in code.co_freevars]
        within = [inner for inner in code.co_consts if inner.__class__ is CodeType and _does_rebind(inner)]
        found = note(_rebinds, code, bool(rebound or within))
    return found


def sets_attributes(code: CodeType) -> bool:
    """Whether a function, or one within it, sets or deletes attributes."""
    found = _sets.get(id(code))
    if found is None:
        sets = [each for each in dis.get_instructions(code) if each.opname in ("STORE_ATTR", "DELETE_ATTR") or
                each.argval in ("setattr", "delattr", "__setattr__", "__dict__", "vars")]
        within = [inner for inner in code.co_consts if inner.__class__ is CodeType and sets_attributes(inner)]
        found = note(_sets, code, bool(sets or within))
    return found


def _handed_on(code: CodeType) -> frozenset[str]:
    """The variables with which a function, or one within it, does something else than to call them, or to ask them for
    attributes."""
    found = _handed.get(id(code))
    if found is None:
        names, before, loaded = set[str](), "", tuple[str, ...]()
        for each in dis.get_instructions(code):
            if each.opname != "LOAD_ATTR" and each.opname != "LOAD_METHOD" and each.opname != "PUSH_NULL":
                names.update(loaded)
            loaded = ()
            if "LOAD_FAST" in each.opname or each.opname[:9] in ("LOAD_DERE", "LOAD_NAME") or \
                    each.opname == "LOAD_CLASSDEREF" or each.opname == "LOAD_GLOBAL" and not (each.arg or 0) & 1:
                if type(each.argval) is tuple:  # two at once
                    names.add(each.argval[0])
                if before != "PUSH_NULL" or type(each.argval) is tuple:
                    loaded = (each.argval[-1] if type(each.argval) is tuple else each.argval,)
            before = each.opname
        for inner in code.co_consts:
            if inner.__class__ is CodeType:
                names |= _handed_on(inner)
        found = note(_handed, code, frozenset(names))
    return found


def _sets_others(code: CodeType) -> bool:
    """Whether a function may set or delete attributes of something else than its first argument."""
    before, first = None, code.co_varnames[:1]
    for each in dis.get_instructions(code):
        if each.opname in ("STORE_ATTR", "DELETE_ATTR") and before not in first or \
                each.argval in ("setattr", "delattr", "__setattr__", "__dict__", "vars"):
            return True
        before = each.argval if each.opname[:9] == "LOAD_FAST" else None
    return bool([inner for inner in code.co_consts if inner.__class__ is CodeType and sets_attributes(inner)])


def is_closed(function: Any, within: tuple[Any, ...] = ()) -> bool:
    """Whether a function is one in Python that knows nothing but its arguments and what never changes, functions like
    that included, and gives no variable of its surroundings, and no attribute of these functions, another value. It is
    known of those that it is asked ``within``."""
    if type(function) is not FunctionType or further_of(function) is not None:
        return False
    code, cells, defaults = code_of(function), closure_of(function), defaults_of(function)
    if cells is not None:
        for number, cell in enumerate(cells):
            value = contents_of(cell)
            if not _is_fixed(value, function, within) or _is_class_of_users(value) and \
                    code.co_freevars[number] in _handed_on(code):
                return False
    if defaults is not None:
        for value in defaults:
            if not _is_fixed(value, function, within) or _is_class_of_users(value):
                return False
    named = not names_nothing(code)
    if named:
        (names, modules), variables = variables_of(code), globals_of(function)
        if names and names[0] in COMPUTES_VARIABLES or not all(map(is_library, imported_by(modules, variables))):
            return False
        for name in names:
            value = variables.get(name, MISSING)
            if not _is_fixed(value, function, within) or _is_class_of_users(value) and name in _handed_on(code):
                return False
    return not (named or cells is not None) or not _does_rebind(code)


def _is_fixed(value: Any, function: FunctionType, within: tuple[Any, ...]) -> bool:
    """Whether something that a function knows never changes, and refers to nothing that does: numbers, texts,
    libraries, their classes and functions; closed functions and classes, if neither the function sets attributes, nor
    those functions do, which may be given a class."""
    cls = type(value)
    if cls is int or cls is float or cls is bool or cls is str or value is None or value is MISSING:
        return True
    if cls is ModuleType:
        return is_library(value)
    if isinstance(value, type):
        known = about(value)
        return not known.is_users and not known.bases or not sets_attributes(code_of(function)) and (
            value in within or len(within) < _DEEPEST and _is_fixed_class(value, function, (*within, value)))
    if cls is FunctionType:
        return is_of_library(value) or not sets_attributes(code_of(function)) and not sets_attributes(code_of(
            value)) and (value in within or len(within) < _DEEPEST and is_closed(value, (*within, function)))
    known = about(cls)
    return kind_at(value) == VALUE and not known.has_more and not isinstance(value, ArrayBase)


def _is_class_of_users(value: Any) -> bool:
    """Whether something is a class that has attributes of the user's."""
    return isinstance(value, type) and bool(about(value).is_users or about(value).bases)


def _is_fixed_class(cls: type, function: FunctionType, within: tuple[Any, ...]) -> bool:
    """Whether nothing that a function does to objects of a class, which it refers to, changes anything else: all that
    is in the class never changes, its functions are closed, and none that sets attributes is given a class."""
    if type(cls) is not type:
        return False
    for base in about(cls).bases:
        if base not in within and not _is_fixed_class(base, function, (*within, base)):
            return False
    for key, value in vars(cls).items():
        kind = type(value)
        if kind is MemberDescriptorType or kind is GetSetDescriptorType or key in _DESCRIBES:
            continue
        if kind is tuple or key == "DRJIT_STRUCT" and kind is dict:
            for each in value if kind is tuple else value.values():
                if not _is_fixed(each, function, within):
                    return False
            continue
        if kind is not FunctionType and kind is not staticmethod and kind is not classmethod and kind is not property:
            if not _is_fixed(value, function, within) or _is_class_of_users(value):
                return False
            continue
        has_class = kind is classmethod or key == "__new__"
        for each in functions_of(value):
            if each is None or each in within:
                continue
            if not is_closed(each, within):
                return False
            code = code_of(each)
            if has_class and not _handed_on(code).isdisjoint(code.co_varnames[:1]) or sets_attributes(code) and (
                    has_class or not FINDS_CLASSES.isdisjoint(names_of(code))):
                return False
    codes = [code_of(each) for base in (cls, *about(cls).bases) for value in vars(base).values()
             for each in functions_of(value) if type(each) is FunctionType]
    return not ([code for code in codes if not FINDS_CLASSES.isdisjoint(names_of(code))] and
                [code for code in codes if _sets_others(code)])


def called_by_operators(value: Any) -> list[Any]:
    """What operators call, or ask for what they call, of an attribute of a class that they look for."""
    return [each for each in functions_of(value) if each is not None and (callable(each) or hasattr(
        type(each), "__get__")) and type(each) is not GetSetDescriptorType and type(each) is not MemberDescriptorType]


def is_harmless(cls: type, function: FunctionType) -> bool:
    """Whether a closed function changes nothing by what it does to objects of a class that it is given."""
    return _is_fixed_class(cls, function, (cls,))
