"""The pages of the reference: each public name on one of them, cross references that lead somewhere, what exists."""

from __future__ import annotations

import re

import pytest

import drjit as dr
from conformance.reference import coverage, pages
from conformance.reference.sections import ADDED, SECTIONS, divide, names


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    return {path.stem: path.read_text(encoding="utf-8") for path in pages.write(folder)}


def defined(text):
    """The names that a page defines, with their modules."""
    module = "drjit"
    for line in text.splitlines():
        found = re.match(r"\.\. py:(currentmodule|module|function|class|data):: ([\w.]+)", line)
        if found is None:
            continue
        if found[1] == "currentmodule":
            module = found[2]
        else:
            yield found[2] if found[1] == "module" else f"{module}.{found[2]}"


def test_every_public_name_stands_on_one_page(texts):
    found = [name for text in texts.values() for name in defined(text)]
    assert sorted(found) == sorted(pages.public_names())
    assert {f"drjit.{name}" for name in dr.__all__} <= set(found)


def test_every_name_is_described():
    nothing = [entry.name for page in pages.pages() for entry in page.entries if not pages.text_of(entry)]
    nothing += [f"{entry.name}.{member}" for page in pages.pages() for entry in page.entries if entry.kind == "enum"
                for member, text in pages.member_texts(entry.value).items() if not text]
    assert not nothing


def test_cross_references_lead_to_a_name_of_these_pages(texts):
    known = set(pages.public_names()) | set(pages.described())
    known |= {f"{entry.name}.{member}" for page in pages.pages() for entry in page.entries if entry.kind == "enum"
              for member in pages.member_texts(entry.value)}
    lost = []
    for stem, text in texts.items():
        module = owner = "drjit"
        for line in text.splitlines():
            scope = re.match(r"\.\. py:(currentmodule|module|function|class|data):: ([\w.]+)", line)
            if scope:
                module = scope[2] if "module" in scope[1] else module
                owner = f"{module}.{scope[2]}"
            lost += [f"{stem}: {target}" for target in pages.references(line)
                     if not {target, f"{module}.{target}", f"{owner}.{target}"} & known]
    assert not lost


def test_a_name_without_a_section_is_an_error(monkeypatch):
    public = pages.public_names()
    monkeypatch.setattr(pages, "public_names", lambda: [*public, "drjit.unheard_of"])
    with pytest.raises(ValueError, match="unheard_of"):
        pages.pages()


def test_a_name_in_two_sections_is_an_error(monkeypatch):
    monkeypatch.setitem(ADDED, "Colour", ["drjit.gather"])
    with pytest.raises(ValueError, match="gather"):
        pages.pages()


def test_ways_to_call_that_differ_are_all_shown(texts):
    assert re.search(r"function:: arange\(dtype: type\[T\], size: int\).*\n\s+arange\(dtype: type\[T\], start: int, ",
                     texts["array-creation"])
    assert ".. py:function:: gather(dtype: type[T], source, index: ArrayBase | Sequence[int] | int, active: ArrayBase" \
        in texts["scatter-and-gather"]


def test_a_table_lists_the_types_of_a_package(texts):
    page = texts["array-packages"]
    listed = set(re.findall(r"``(\w+)``", page.partition("``drjit.llvm``")[2].partition("``drjit.llvm.ad``")[0]))
    assert listed == {name for name in dr.llvm.__all__
                      if name not in ("PCG32", "Philox4x32", "Event") and not name.startswith("Texture")}


def test_pages_are_left_alone_until_they_change(tmp_path):
    paths = pages.write(tmp_path)
    paths[0].write_text("old", encoding="utf-8")
    (tmp_path / "gone.rst").write_text("a section of long ago", encoding="utf-8")
    before = paths[1].stat().st_mtime_ns
    assert pages.write(tmp_path) == paths
    assert paths[0].read_text(encoding="utf-8") != "old"
    assert paths[1].stat().st_mtime_ns == before
    assert not (tmp_path / "gone.rst").exists()


# --- what exists ------------------------------------------------------------------------------------------------------


def test_the_page_of_what_exists_is_up_to_date():
    assert coverage.PAGE.read_text(encoding="utf-8") == coverage.page()


def test_every_section_has_its_first_name():
    listed = names()
    assert {entries[0].name: title for title, entries in listed.items()} == SECTIONS


def test_division_into_sections():
    found = divide({"drjit.zeros": [], "drjit.ones": [], "drjit.gather": ["a"]})
    assert {title: [entry.name for entry in entries] for title, entries in found.items()} == {
        "Array creation": ["drjit.zeros", "drjit.ones"], "Scatter and gather": ["drjit.gather"]}


def test_what_does_not_exist_is_not_said_to(monkeypatch):
    table = {"drjit.zeros": [], "drjit.surely_no_function": [], "drjit.SurelyNoClass": ["member"],
             "drjit.VarState": ["Literal", "NoState"]}
    monkeypatch.setattr(coverage, "names", lambda: divide(table))
    text = coverage.page()
    assert "| Array creation | 3 | 4 |" in text
    assert "Exist (3): `zeros`, `VarState` (`Literal`)" in text
    assert "Not yet (4): `surely_no_function`, `SurelyNoClass` (`member`), `VarState.NoState`" in text


def test_list_of_names_from_another_form(tmp_path):
    source = tmp_path / "names.json"
    source.write_text('{"drjit.b": {"line": 2, "members": ["m"]}, "drjit.a": {"line": 1, "members": []}}')
    assert coverage.convert(source) == '{\n"drjit.a": [],\n"drjit.b": ["m"]\n}\n'
