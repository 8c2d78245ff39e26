"""The pages of the reference, made from signatures, docstrings, and the records of array types.

``docs/conf.py`` calls :func:`write` before Sphinx reads the pages. Each public name stands on one page; a name that has
no section, or is in one twice, is an error. Signatures are those of the stub where its overloads differ in the names of
their parameters, else those of the function itself. Members of enumerations and constants are described by comments
before their assignments that begin with ``#:``.
"""

from __future__ import annotations

import ast
import enum
import functools
import importlib
import inspect
import pathlib
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import drjit
from conformance.stubs.base import PARAMETERS
from drjit._base import typing as _typing
from drjit._base.array import ArrayBase
from drjit._base.records import _FLAT_NAME, FAMILIES, NOT_LISTED, SCALAR, SUFFIX, parse
from drjit._functions import constants as _constants
from drjit._functions import traits as _traits
from drjit_core import TYPES, JitBackend, VarType

from .sections import ADDED, names

__all__ = ["Entry", "Page", "described", "member_texts", "members", "pages", "public_names", "references",
           "text_of", "write"]

#: Names that the packages have beside array types.
_GENERATORS = ("PCG32", "Philox4x32")
#: The texture that stands for those of all dimensions and formats.
_TEXTURE = "Texture2f"
#: Packages of array types with their backends, and the modules that stand for one of them.
_PACKAGES: dict[str, JitBackend | None] = {
    "drjit.scalar": SCALAR, "drjit.llvm": JitBackend.LLVM, "drjit.llvm.ad": JitBackend.LLVM,
    "drjit.cuda": JitBackend.CUDA, "drjit.cuda.ad": JitBackend.CUDA, "drjit.auto": None, "drjit.auto.ad": None,
}
#: Modules that hold constants and type variables, with comments that describe them.
_DATA = (_constants, _traits, _typing)
#: What is documented of special methods: the operators are in a table of the class.
_SPECIAL = ("__len__", "__iter__", "__getitem__", "__setitem__", "__bool__", "__array__", "__dlpack__",
            "__dlpack_device__")


class Entry(NamedTuple):
    """A public name."""

    name: str  # with dots: drjit.gather, drjit.llvm.PCG32
    kind: str  # function, class, enum, data or module
    value: Any

    @property
    def module(self) -> str:
        """The module in which the name is public."""
        return self.name if self.kind == "module" else self.name.rpartition(".")[0]

    @property
    def short(self) -> str:
        """The name within its module."""
        return self.name.rpartition(".")[2]


class Page(NamedTuple):
    """A section of the reference."""

    title: str
    entries: list[Entry]

    @property
    def file(self) -> str:
        """Name of the file, without an extension."""
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")


# --- which names there are, and where ---------------------------------------------------------------------------------


def public_names() -> list[str]:
    """All public names, with dots: those of ``drjit``, of its modules, and what packages of types have besides."""
    found = [f"drjit.{name}" for name in drjit.__all__ if f"drjit.{name}" not in _PACKAGES]
    found += [f"drjit.{module}.{name}" for module in ("detail", "nn", "opt", "random", "textures")
              for name in getattr(drjit, module).__all__]
    found += [f"drjit.llvm.{name}" for name in (*_GENERATORS, "Event", _TEXTURE)]
    found += [f"drjit.cuda.{name}" for name in drjit.cuda.__all__ if name not in drjit.llvm.__all__]
    return [*found, *_PACKAGES]


def _kind(value: Any) -> str:
    if inspect.ismodule(value):
        return "module"
    if inspect.isclass(value):
        return "enum" if issubclass(value, enum.Enum) else "class"
    return "function" if inspect.isroutine(value) else "data"


def _entry(name: str) -> Entry:
    module, _, short = name.rpartition(".")
    try:
        value = importlib.import_module(name)
    except ImportError:
        value = getattr(importlib.import_module(module), short)
    return Entry(name, _kind(value), value)


def pages() -> list[Page]:
    """The sections in which something exists, with their names; raises if a public name is in none, or in two."""
    listed = {title: [entry.name for entry in entries] for title, entries in names().items()}
    for title, added in ADDED.items():
        listed.setdefault(title, []).extend(added)
    public = public_names()
    placed = [name for entries in listed.values() for name in entries]
    homeless, twice = [name for name in public if name not in placed], {n for n in placed if placed.count(n) > 1}
    if homeless or twice:
        raise ValueError(f"conformance.reference.sections: without a section: {homeless}; in several: {sorted(twice)}")
    found = [Page(title, [_entry(name) for name in entries if name in public]) for title, entries in listed.items()]
    return [page for page in found if page.entries]


def members(cls: type) -> dict[str, Any]:
    """The public members of a class by name, with functions of a property, in the order of their definition.

    What it inherits from another public class of its module is told there.
    """
    order: dict[str, None] = {}
    for base in cls.__mro__[::-1]:
        if base is not cls and base.__module__ == cls.__module__ and base.__name__ in getattr(
                importlib.import_module(cls.__module__), "__all__", ()):
            order = {}
        elif base.__module__.partition(".")[0] in ("drjit", "drjit_core"):
            order.update(dict.fromkeys(vars(base)))
    special = _SPECIAL if issubclass(cls, ArrayBase) else ()
    found = {name: inspect.getattr_static(cls, name) for name in order if not name.startswith("_") or name in special}
    return {name: value for name, value in found.items()
            if isinstance(value, property) or inspect.isroutine(inspect.unwrap(getattr(value, "__func__", value)))}


# --- what describes them ----------------------------------------------------------------------------------------------


@functools.cache
def _comments(source: str) -> dict[str, str]:
    """The comments that begin with ``#:`` in a source, by the name that is assigned after them."""
    found: dict[str, str] = {}
    lines: list[str] = []
    for line in source.splitlines():
        comment, assignment = re.match(r" *#: ?(.*)", line), re.match(r" *(\w+)(?:: [^=]+)? = ", line)
        if comment:
            lines.append(comment[1])
        elif assignment and lines:
            found[assignment[1]] = "\n".join(lines)
            lines = []
        else:
            lines = []
    return found


def member_texts(cls: type[enum.Enum]) -> dict[str, str]:
    """What describes the members of an enumeration."""
    texts = _comments(inspect.getsource(cls))
    return {member.name: texts.get(member.name, "") for member in cls}


def text_of(entry: Entry) -> str:
    """What describes a public name: its docstring, or the comment before its assignment."""
    if entry.kind != "data":
        return inspect.getdoc(entry.value) or ""
    if entry.short in PARAMETERS:
        return f"Parameter of :class:`ArrayBase`: {PARAMETERS[entry.short]}."
    return next((texts[entry.short] for module in _DATA
                 for texts in [_comments(inspect.getsource(module))] if entry.short in texts), "")


def _first(entry: Entry) -> str:
    """The first sentence of what describes a name, with references that hold outside of its module."""
    paragraph = " ".join(text_of(entry).partition("\n\n")[0].split())
    if entry.module != "drjit":
        here = vars(importlib.import_module(entry.module))
        paragraph = re.sub(r"(:\w+:`)(\w+)`", lambda match: f"{match[1]}{match[2]} <{entry.module}.{match[2]}>`"
                           if match[2] in here else match[0], paragraph)
    match = re.match(r"(.*?[.;])(?:\s+[A-Z`]|$)", paragraph)
    return (match[1] if match else paragraph).rstrip(";.") + "."


def described() -> dict[str, str]:
    """What describes each public name that can have an example, members of classes other than enumerations included.

    Constants, type variables and packages have none: their value says it, or the types in them.
    """
    found: dict[str, str] = {}
    for page in pages():
        for entry in page.entries:
            if entry.kind in ("function", "class", "enum"):
                found[entry.name] = text_of(entry)
            if entry.kind == "class":
                found.update({f"{entry.name}.{name}": inspect.getdoc(value) or ""
                              for name, value in members(entry.value).items()})
    return found


# --- signatures -------------------------------------------------------------------------------------------------------


@functools.cache
def _overloads() -> dict[str, list[ast.FunctionDef]]:
    """The functions of the stub of ``drjit``."""
    stub = pathlib.Path(drjit.__file__).with_suffix(".pyi")
    found: dict[str, list[ast.FunctionDef]] = {}
    for statement in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.FunctionDef):
            found.setdefault(statement.name, []).append(statement)
    return found


def _public(annotation: str) -> bool:
    """Whether an annotation says something: no private class, and not just anything."""
    return bool(annotation) and re.search(r"\b_\w|\bAny\b|NoReturn", annotation) is None


def _default(value: Any) -> str:
    if value is ...:
        return "..."
    return str(value) if isinstance(value, enum.Enum) else repr(value)


def _signature(name: str, value: Any, method: bool = False) -> str:
    """The parameters of a function, with annotations that say something."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return f"{name}()"
    parts: list[str] = []
    parameters = list(signature.parameters.values())[int(method):]
    for position, parameter in enumerate(parameters):
        kind = parameter.kind
        if kind is parameter.KEYWORD_ONLY and not any(
                p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL) for p in parameters[:position]):
            parts.append("*")
        annotation = parameter.annotation if isinstance(parameter.annotation, str) else ""
        text = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(kind, "") + parameter.name
        text += f": {annotation}" if _public(annotation) else ""
        if parameter.default is not parameter.empty:
            text += (" = " if ":" in text else "=") + _default(parameter.default)
        parts.append(text)
        if kind is parameter.POSITIONAL_ONLY and (
                position + 1 == len(parameters) or parameters[position + 1].kind is not kind):
            parts.append("/")
    result = signature.return_annotation
    arrow = f" -> {result}" if isinstance(result, str) and _public(result) else ""
    return f"{name}({', '.join(parts)}){arrow}"


def _signatures(entry: Entry) -> list[str]:
    """The ways to call a function: those of the stub if they differ in the names of parameters."""
    overloads = _overloads().get(entry.short, []) if entry.module == "drjit" else []
    spellings: dict[tuple[str, ...], str] = {}
    for overload in overloads:
        arguments = overload.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        key = tuple(argument.arg for argument in every)
        if key not in spellings:
            for argument in every:
                if argument.annotation is not None and not _public(ast.unparse(argument.annotation)):
                    argument.annotation = None
            result = ast.unparse(overload.returns) if overload.returns else ""
            spellings[key] = f"{entry.short}({ast.unparse(arguments)})" + (f" -> {result}" if _public(result) else "")
    if len(spellings) > 1:
        return list(spellings.values())
    return [_signature(entry.short, entry.value)]


# --- text -------------------------------------------------------------------------------------------------------------


def _title(text: str, letter: str) -> str:
    return f"{text}\n{letter * len(text)}\n"


def _object(directive: str, signatures: list[str], text: str, options: str = "") -> str:
    """A directive of Sphinx's domain for Python."""
    head = f".. py:{directive}:: "
    shown = ("\n" + " " * len(head)).join(signatures)
    return f"{head}{shown}\n{options}\n{textwrap.indent(text, '   ')}\n"


def _function(entry: Entry) -> str:
    return _object("function", _signatures(entry), text_of(entry))


def _member(cls: type, name: str, value: Any) -> str:
    text = inspect.getdoc(value) or ""
    if isinstance(value, property):
        returned = inspect.signature(value.fget).return_annotation if value.fget is not None else ""
        kind = f"   :type: {returned}\n" if isinstance(returned, str) and _public(returned) else ""
        return _object("property", [name], text, kind)
    static = isinstance(value, (classmethod, staticmethod))
    return _object("method", [_signature(name, getattr(cls, name), method=not static)], text)


def _class(entry: Entry) -> str:
    signature = entry.short if issubclass(entry.value, ArrayBase) else \
        _signature(entry.short, entry.value.__init__, method=True).partition(" -> ")[0]
    parts = [text_of(entry) + "\n"]
    parts += [_member(entry.value, name, value) for name, value in members(entry.value).items()]
    return _object("class", [signature], "\n".join(parts))


def _enumeration(entry: Entry) -> str:
    parts = [text_of(entry) + "\n"]
    for name, text in member_texts(entry.value).items():
        parts.append(_object("attribute", [name], text, f"   :value: {entry.value[name].value}\n"))
    return _object("class", [entry.short], "\n".join(parts))


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [head, *rows]:
        lines += [f"   {'  -' if position else '* -'} {cell}".rstrip() for position, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def _data(entry: Entry) -> str:
    value = "" if entry.short in _typing.__all__ else f"   :value: {entry.value!r}\n"
    return _object("data", [entry.short], text_of(entry), value)


def _types(backend: JitBackend) -> str:
    """A table of the array types of a package: a row for each shape, a column for each scalar type."""
    scalars = [scalar for scalar in _FLAT_NAME if backend is SCALAR or _FLAT_NAME[scalar] not in NOT_LISTED]
    head = ["shape", *(TYPES[scalar].name for scalar in scalars)]
    aliases = {VarType.Int32.value: "Int32", VarType.UInt32.value: "UInt32", VarType.Float32.value: "Float32"}
    flat = [f"``{_FLAT_NAME[scalar]}``" + (f", ``{aliases[scalar]}``" if scalar in aliases else "")
            for scalar in scalars]
    rows = [["flat" if backend is not SCALAR else "Python numbers", *flat]]
    for prefix, kind, shapes, suffixes in FAMILIES:
        for digits, shape in shapes.items():
            sizes = " × ".join("any" if size < 0 else str(size) for size in shape)
            label = {"array": sizes, "tensor": "tensor"}.get(kind, f"{kind}, {sizes}")
            stem, listed = prefix + digits, suffixes.split()
            rows.append([label, *(f"``{stem}{SUFFIX[scalar]}``" if SUFFIX[scalar] in listed else ""
                                  for scalar in scalars)])
    return _table(head, rows)


def _module(entry: Entry) -> str:
    text = text_of(entry)
    backend = _PACKAGES.get(entry.name)
    if backend is not None and entry.name.count(".") == 1:
        count = sum(parse(name, backend, False) is not None for name in entry.value.__all__)
        text += f"\n\nThe {count} names of its array types:\n\n{_types(backend)}"
    elif backend is not None:
        text += f"\n\nThe names are those of :mod:`{entry.name.removesuffix('.ad')}`."
    return _title(f"``{entry.name}``", "-") + f"\n.. py:module:: {entry.name}\n\n{text}\n"


_WRITERS = {"function": _function, "class": _class, "enum": _enumeration, "data": _data, "module": _module}


def page_text(page: Page) -> str:
    """The text of a page, in reStructuredText, which is what docstrings are written in."""
    parts = [_title(page.title, "="), ".. py:currentmodule:: drjit\n"]
    listed = [entry for entry in page.entries if entry.kind != "module"]
    if len(listed) > 1:
        role = {"function": "func", "data": "data"}
        parts.append(_table(["name", "meaning"], [
            [f":py:{role.get(entry.kind, 'class')}:`{entry.name.removeprefix('drjit.')} <{entry.name}>`",
             _first(entry)] for entry in listed]))
    module = "drjit"
    for entry in page.entries:
        if entry.module != module and entry.kind != "module":
            parts.append(f".. py:currentmodule:: {entry.module}\n")
        module = entry.module
        parts.append(_WRITERS[entry.kind](entry))
    return "\n".join(parts)


def index_text(found: list[Page]) -> str:
    """The text of the first page."""
    texts = described()
    total, examples = sum(len(page.entries) for page in found), sum(">>> " in text for text in texts.values())
    head = f"""\
The {total} public names by subject. Every page is made from docstrings and signatures. Of {len(texts)} functions,
classes and members of classes, {examples} have an example. Examples are programs: a test runs each of them. They take
for granted that ``import drjit as dr`` came first, and import the array types that they use. :doc:`../what-exists`
counts what is still missing of Dr.Jit's reference.
"""
    lines = [_title("Reference", "="), head, ".. toctree::", "   :maxdepth: 1", ""]
    return "\n".join([*lines, *(f"   {page.file}" for page in found)]) + "\n"


def write(folder: pathlib.Path) -> list[pathlib.Path]:
    """Write all pages into a folder, which holds nothing else afterwards; files that would not change are not touched.

    Returns their paths.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = pages()
    texts = {folder / "index.rst": index_text(found), **{folder / f"{page.file}.rst": page_text(page)
                                                         for page in found}}
    for path in folder.glob("*.rst"):
        if path not in texts:
            path.unlink()
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return list(texts)


def references(text: str) -> Iterator[str]:
    """The targets of cross references in a text."""
    for target in re.findall(r":(?:py:)?(?:func|class|meth|attr|mod|data|obj):`([^`]+)`", text):
        yield target.partition("<")[2].rstrip(">") if "<" in target else target.lstrip("~")


if __name__ == "__main__":
    for path in write(pathlib.Path(sys.argv[1])):
        print(path)
