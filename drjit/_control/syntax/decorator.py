"""``@dr.syntax`` and ``dr.hint``: Python's ``if``, ``while`` and ``for`` over arrays."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, overload

from ..._base.errors import ArgumentError
from .runtime import HELPERS
from .translate import Translator

__all__ = ["hint", "syntax"]

T = TypeVar("T")

#: The attribute of translated functions, which decorators around them copy.
_DONE = "__drjit_syntax__"
#: That of functions which are decorated by ``drjit.wrap``, likewise.
_WRAPPED = "__drjit_wrap__"


@overload
def syntax(f: None = None, *, recursive: bool = False, print_ast: bool = False,
           print_code: bool = False) -> Callable[[T], T]: ...


@overload
def syntax(f: T, *, recursive: bool = False, print_ast: bool = False, print_code: bool = False) -> T: ...


def syntax(f: Any = None, *, recursive: bool = False, print_ast: bool = False, print_code: bool = False) -> Any:
    """Decorator of functions whose control flow may depend on arrays.

    In the decorated function, ``if``, ``while``, ``for … in range(…)``, ``a if condition else b``, ``and``, ``or``,
    ``not`` and chained comparisons work element by element where they meet arrays: they call ``drjit.if_stmt`` and
    ``drjit.while_loop``. Where conditions are Python numbers, they are what they always were. ``break``, ``continue``
    and ``return`` may be used anywhere; the values that different elements return must have the same type.

    The variables that a construct uses or assigns, and that are needed by it or after it, become its state; they must
    keep their types. A variable that is assigned by some elements only has no value afterwards. ``drjit.hint`` adds
    options to a condition. Functions in the function are left alone, unless ``recursive`` is set; comprehensions and
    ``lambda`` always are. ``print_ast`` and ``print_code`` print the function before and after.

    Raises a ``SyntaxError`` for generators and coroutines, and a ``RuntimeError`` if the source of the function cannot
    be found, or if this decorator stands above ``@drjit.wrap``.

    >>> from drjit.llvm import UInt
    >>> @dr.syntax
    ... def collatz(n):
    ...     steps = UInt(0)
    ...     while n != 1:
    ...         if n % 2 == 0:
    ...             n //= 2
    ...         else:
    ...             n = 3 * n + 1
    ...         steps += 1
    ...     return steps
    >>> collatz(UInt(1, 2, 3, 27))
    [0, 1, 7, 111]
    """
    if f is None:
        return functools.partial(syntax, recursive=recursive, print_ast=print_ast, print_code=print_code)
    if isinstance(f, (staticmethod, classmethod)):
        return type(f)(syntax(f.__func__, recursive=recursive, print_ast=print_ast, print_code=print_code))
    if not isinstance(f, types.FunctionType):
        raise TypeError(f"drjit.syntax(): expected a function, found an object of type '{type(f).__name__}'. Place the "
                        "decorator below others that return no functions.")
    if _WRAPPED in f.__dict__:
        raise ArgumentError(f"drjit.syntax(): '{f.__qualname__}' is decorated by @drjit.wrap, which lets it meet "
                            "another framework, and belongs above: first @drjit.wrap, then @drjit.syntax.")
    if _DONE in f.__dict__:  # this function, or the one in it, is translated already
        return f
    if hasattr(f, "__wrapped__"):
        return _within(f, lambda inner: syntax(inner, recursive=recursive, print_ast=print_ast, print_code=print_code))
    return _translated(f, recursive, print_ast, print_code)


def hint(arg: T, /, *, mode: Literal["scalar", "evaluated", "symbolic"] | None = None,
         max_iterations: int | None = None, label: str | None = None, include: list[object] | None = None,
         exclude: list[object] | None = None, strict: bool = True, compress: bool | None = None) -> T:
    """Options for an ``if``, a loop or a conditional expression of a function with ``@drjit.syntax``; returns ``arg``.

    Around a condition, or the ``range(…)`` of a ``for``, it tells the decorator what to pass on to ``drjit.if_stmt`` or
    ``drjit.while_loop``: ``mode`` (``'symbolic'`` or ``'evaluated'``; ``'scalar'`` leaves the construct as it is),
    ``label``, ``strict`` and, of loops, ``max_iterations`` and ``compress``. ``include`` and ``exclude`` list
    variables that are, or are not, to be part of the state of an ``if`` or loop; what is excluded can be read. Those
    that are included may also be variables of a function around the decorated one, or of its module. None of this
    matters where the condition is no array. Raises a ``SyntaxError`` when the function is decorated, if a construct has
    no such hint, a constant is no value of it, or a list names what is no variable.

    >>> from drjit.llvm import UInt
    >>> @dr.syntax
    ... def double(x, limit):
    ...     while dr.hint(x < limit, mode="evaluated", label="doubling"):
    ...         x *= 2
    ...     return x
    >>> double(UInt(1, 3, 50), 40)
    [64, 48, 50]
    >>> dr.hint(5, label="nothing")
    5
    """
    del mode, max_iterations, label, include, exclude, strict, compress
    return arg


def _within(f: types.FunctionType, decorate: Callable[[Any], Any]) -> Any:
    """A decorated function, as the decorator returned it, with the function in it translated."""
    inner = f.__wrapped__  # type: ignore[attr-defined]
    cells = f.__closure__ or ()
    places = [k for k, cell in enumerate(cells) if _contents(cell) is inner]
    if not places:
        raise TypeError(f"drjit.syntax(): cannot find the function inside of the decorated function "
                        f"'{f.__qualname__}'. Place @dr.syntax below the other decorators.")
    result = decorate(inner)
    cell = types.CellType(result)
    copy = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__,
                              tuple([cell if k in places else old for k, old in enumerate(cells)]))
    _copy_attributes(f, copy)
    copy.__wrapped__ = result  # type: ignore[attr-defined]
    return copy


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _copy_attributes(f: types.FunctionType, copy: types.FunctionType) -> None:
    copy.__kwdefaults__ = dict(f.__kwdefaults__) if f.__kwdefaults__ else None
    copy.__annotations__ = f.__annotations__
    copy.__doc__, copy.__module__, copy.__qualname__ = f.__doc__, f.__module__, f.__qualname__
    copy.__dict__.update(f.__dict__)
    if hasattr(f, "__type_params__"):
        copy.__type_params__ = f.__type_params__  # type: ignore[attr-defined]


class _Source:
    """Where a function is written."""

    def __init__(self, f: types.FunctionType) -> None:
        self.file, self.name = f.__code__.co_filename, f.__qualname__

    def refuse(self, node: ast.AST | None, message: str, line: int = 0) -> SyntaxError:
        """The exception for something that cannot be translated."""
        line = getattr(node, "lineno", line)
        return SyntaxError(f"@drjit.syntax ({self.file}:{line}): {message}", (self.file, line, None, None))


def _definition(f: types.FunctionType) -> ast.FunctionDef:
    """The definition of a function, with the lines of its file."""
    code = f.__code__
    source = _Source(f)
    if code.co_name == "<lambda>":
        raise TypeError("drjit.syntax(): a lambda expression cannot be translated; define a function by 'def'.")
    flags = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    if code.co_flags & flags:
        kind = "a generator" if code.co_flags & inspect.CO_GENERATOR else "an asynchronous function"
        raise source.refuse(None, f"'{f.__qualname__}' is {kind}, which cannot be translated.", code.co_firstlineno)
    try:
        lines, first = inspect.getsourcelines(f)
    except (OSError, TypeError) as error:
        raise RuntimeError(
            f"drjit.syntax(): the source of function '{f.__qualname__}' ({code.co_filename}:{code.co_firstlineno}) "
            "cannot be found, which the decorator needs: define it in a file, a notebook, or register its text in "
            f"Python's module 'linecache' ({error}).") from None
    tree = ast.parse("if True:\n" + "".join(lines) if lines[0][:1].isspace() else "".join(lines), code.co_filename)
    ast.increment_lineno(tree, first - 1 - lines[0][:1].isspace())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            return node
    raise RuntimeError(f"drjit.syntax(): the source of function '{f.__qualname__}' that is found at "
                       f"{code.co_filename}:{code.co_firstlineno} is that of something else.")


class _Translation(NamedTuple):
    """What was made of a function's code, and what that depends on besides."""

    code: weakref.ref[types.CodeType]
    name: str
    recursive: bool
    #: Whether ``range`` is Python's; the names by which hints are called, or others of that name, and whether they are.
    ranges: bool
    hints: list[tuple[tuple[str, ...], bool]]
    codes: dict[str, types.CodeType]

    def fits(self, f: types.FunctionType, recursive: bool) -> bool:
        """Whether translating a function would give this."""
        return self.code() is f.__code__ and self.name == f.__qualname__ and self.recursive == recursive and \
            self.ranges == _has_own_range(f) and all(_is_hint(f, path) == was for path, was in self.hints)


#: Translations by the ids of codes: a function within another one is decorated each time that the outer one runs.
_translations: dict[int, _Translation] = {}


def _translated(f: types.FunctionType, recursive: bool, print_ast: bool, print_code: bool) -> types.FunctionType:
    known = _translations.get(id(f.__code__))
    if known is None or print_ast or print_code or not known.fits(f, recursive):
        known = _translate(f, recursive, print_ast, print_code)
    code, codes = f.__code__, known.codes
    cells = dict(zip(code.co_freevars, f.__closure__ or (), strict=True))
    cells |= {name: types.CellType(value) for name, value in HELPERS.items()}
    cells |= {name: types.CellType() for name in codes if name != code.co_name}
    for name, inner in codes.items():
        if name == code.co_name:
            continue
        cells[name].cell_contents = types.FunctionType(inner, f.__globals__, name, None, _closure(inner, cells))
    inner = codes[code.co_name]
    result = types.FunctionType(inner, f.__globals__, f.__name__, f.__defaults__, _closure(inner, cells))
    _copy_attributes(f, result)
    result.__wrapped__ = f  # type: ignore[attr-defined]
    setattr(result, _DONE, True)
    return result


def _translate(f: types.FunctionType, recursive: bool, print_ast: bool, print_code: bool) -> _Translation:
    node = _definition(f)
    _print("Input", node, print_ast, print_code)
    code = f.__code__
    free = code.co_freevars
    ranges = _has_own_range(f)

    def is_range(call: ast.expr) -> bool:
        return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range" and \
            not call.keywords and not ranges

    hints = _mark_hints(f, node)
    taken = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    translator = Translator(node, is_range, _Source(f).refuse, taken, {*free}, f.__globals__.__contains__,
                            "__class__" in free, recursive)
    node.body = translator.translate(node.body)
    node.decorator_list = []
    _print("Output", ast.Module([*translator.functions, node], []), print_ast, print_code)
    codes = {name: inner.replace(co_qualname=code.co_qualname if name == code.co_name else f"{f.__qualname__}.{name}")
             for name, inner in _compiled(f, node, translator.functions, free).items()}
    number = id(code)
    reference = weakref.ref(code, lambda _: _translations.pop(number, None))
    found = _Translation(reference, f.__qualname__, recursive, ranges, hints, codes)
    _translations[number] = found
    return found


def _has_own_range(f: types.FunctionType) -> bool:
    """Whether ``range`` is something else than Python's in a function."""
    code = f.__code__
    return "range" in (*code.co_varnames, *code.co_cellvars, *code.co_freevars) or \
        f.__globals__.get("range", builtins.range) is not builtins.range


def _mark_hints(f: types.FunctionType, node: ast.AST) -> list[tuple[tuple[str, ...], bool]]:
    """Tell calls of ``drjit.hint``, by whatever name, from those of other functions.

    Returns names from outside of the function that end in ``hint``, or are of it, and whether they are.
    """
    hints = []
    #: What is behind names that the function imports.
    imported: dict[str, tuple[str, ...]] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import):
            imported |= {name.asname or name.name: ("hint",) for name in inner.names if name.name == "drjit"}
        elif isinstance(inner, ast.ImportFrom) and inner.module == "drjit":
            imported |= {name.asname or name.name: () for name in inner.names if name.name == "hint"}
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Call):
            continue
        path, place = tuple[str, ...](), inner.func
        while isinstance(place, ast.Attribute):
            path, place = (place.attr, *path), place.value
        if not isinstance(place, ast.Name):
            continue
        if place.id in imported:
            is_hint = path == imported[place.id]
        else:
            is_hint = _is_hint(f, (place.id, *path))
            if is_hint or (place.id, *path)[-1] == "hint":
                hints.append(((place.id, *path), is_hint))
        if is_hint:
            inner.is_hint = True  # type: ignore[attr-defined]
    return hints


def _is_hint(f: types.FunctionType, names: tuple[str, ...]) -> bool:
    """Whether what a function knows by a name, and attributes of it, is ``drjit.hint``, or will be if it is not there
    yet."""
    first, code = names[0], f.__code__
    if first in code.co_freevars:
        found = _contents((f.__closure__ or ())[code.co_freevars.index(first)])
    elif first in code.co_varnames or first in code.co_cellvars:
        return False
    else:
        found = f.__globals__.get(first, getattr(builtins, first, None))
    if found is None:
        return names[-1] == "hint"
    for name in names[1:]:
        found = getattr(found, name, None) if isinstance(found, types.ModuleType) else None
    return found is hint


def _print(title: str, node: ast.AST, print_ast: bool, print_code: bool) -> None:
    if print_ast:
        sys.stdout.write(f"{title} AST\n{'-' * (len(title) + 4)}\n{ast.dump(node, indent=4)}\n\n")
    if print_code:
        sys.stdout.write(f"{title} code\n{'-' * (len(title) + 5)}\n{ast.unparse(node)}\n\n")


def _closure(code: types.CodeType, cells: dict[str, types.CellType]) -> tuple[types.CellType, ...]:
    return tuple([cells[name] for name in code.co_freevars])


def _compiled(f: types.FunctionType, node: ast.FunctionDef, functions: Sequence[ast.FunctionDef],
              free: Sequence[str]) -> dict[str, types.CodeType]:
    """The code of a translated function, and of those beside it, by name.

    They are compiled as functions in another one whose arguments are the variables that they capture, and in a class of
    the right name if names with two underscores are to be found.
    """
    args = node.args
    plain = ast.arguments(args.posonlyargs, args.args, args.vararg, args.kwonlyargs, [None] * len(args.kwonlyargs),
                          args.kwarg, [])
    for arg in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]:
        if arg is not None:
            arg.annotation = None
    # Defaults are those of the function that was decorated.
    main = ast.copy_location(ast.FunctionDef(node.name, plain, node.body, [], None), node)
    if "type_params" in ast.FunctionDef._fields:
        main.type_params = []  # type: ignore[attr-defined]
    body: list[ast.stmt] = [*functions, main]
    path = f.__qualname__.split(".")
    owner = path[-2] if len(path) > 1 and path[-2] != "<locals>" else None
    if owner is not None:
        body = [ast.ClassDef(owner, [], [], body, [])]
        if "type_params" in ast.ClassDef._fields:
            body[0].type_params = []  # type: ignore[attr-defined]
    if (owner or node.name) not in free:  # a global variable of that name is not what is defined here
        body.insert(0, ast.Global([owner or node.name]))
    names = [name for name in {**dict.fromkeys(free), **HELPERS, **{entry.name: None for entry in functions}}
             if owner is None or name != "__class__"]
    factory = ast.FunctionDef("_dr_factory", ast.arguments([], [ast.arg(name) for name in names], None, [], [], None,
                                                           []), body, [], None)
    if "type_params" in ast.FunctionDef._fields:
        factory.type_params = []  # type: ignore[attr-defined]
    ast.copy_location(factory, node)
    module = ast.fix_missing_locations(ast.Module([factory], []))
    future = f.__code__.co_flags & 0x1000000  # annotations
    code = compile(module, f.__code__.co_filename, "exec", flags=future, dont_inherit=True)
    found: dict[str, types.CodeType] = {}
    wanted = {entry.name for entry in functions} | {node.name}
    inner = next(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    if owner is not None:
        inner = next(constant for constant in inner.co_consts if isinstance(constant, types.CodeType))
    for constant in inner.co_consts:
        if isinstance(constant, types.CodeType) and constant.co_name in wanted:
            found[constant.co_name] = constant
    return found
