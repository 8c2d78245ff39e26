"""The runner of the reference's code: which blocks it finds, and what it says about them."""

from __future__ import annotations

import pytest

from conformance.run_reference import Chapter, examples, rst_blocks, run_file, text_blocks

PAGE = """\
Title
=====

.. code-block:: pycon

   >>> from drjit.llvm import Float
   >>> x = Float(1, 2)
   >>> x + 1
   [2, 3]

- in a list

  .. code-block:: cpp

     x += 1;

.. code-block:: python

   y = x * 2

Other chapter
-------------

.. code-block:: pycon

   >>> x
   [1, 2]
"""

TEXT = """\
A heading

Words, and more words. x is short for y.

>>> from drjit.llvm import Int
>>> Int(1, 2)
[1, 2]

import drjit as dr

class A:
    x = 1

    y = 2

a
"""


def test_blocks_of_restructured_text() -> None:
    found = list(rst_blocks(PAGE))
    assert [(block.line, block.language, block.chapter) for block in found] == [
        (6, "pycon", 1), (15, "cpp", 1), (19, "python", 1), (26, "pycon", 2)]
    assert found[1].text == "x += 1;\n"


def test_blocks_of_plain_text() -> None:
    found = [(block.line, block.text) for block in text_blocks(TEXT)]
    assert found == [(5, ">>> from drjit.llvm import Int\n>>> Int(1, 2)\n[1, 2]\n"),
                     (9, "import drjit as dr\n\nclass A:\n    x = 1\n\n    y = 2\n")]


def test_output_ends_at_the_next_prompt() -> None:
    text = ">>> def f():\n...     return 1\n...\n>>> f()\n1\n\nmore\n>>> log()\nfirst\n...\n"
    assert examples(text) == [("def f():\n    return 1\n\n", ""), ("f()\n", "1\n\nmore"), ("log()\n", "first\n...")]


@pytest.mark.parametrize(("code", "state"), [
    (">>> dr.llvm.Int(1, 2) + 1\n[2, 3]", "passes"), (">>> dr.llvm.Int(1, 2) + 1\n[2, 4]", "differs"),
    (">>> dr.llvm.Int(1, 2) + dr.llvm.Int(1, 2, 3)\n[2, 4]", "differs"),
    (">>> dr.llvm.Int(1, 2) + dr.llvm.Int(1, 2, 3)\nTraceback (most recent call last):\n  File ...\n"
     "RuntimeError: drjit.llvm.Int.__add__(): operands have incompatible sizes! (sizes: 2, 3)", "passes"),
    (">>> 1 + 1\nRuntimeError: no", "differs"), (">>> dr.nn.Module()(3)", "later"),
    (">>> a = dr.llvm.Int(5)\n>>> b = dr.llvm.Int(5) + a.index\n>>> a.index, b.index, a.index\n(7, 9, 7)", "passes"),
    (">>> dr.llvm.Int(3).state\ndr.VarState.Literal", "passes"), (">>> dr.sum(...)\n...", "differs"),
    ("dr.llvm.Int(3).foo", "differs"), ("x: _FloatCp", "not runnable"),
])
def test_states(code: str, state: str) -> None:
    block = next(rst_blocks(".. code-block:: python\n\n" + "".join(f"   {line}\n" for line in code.splitlines())))
    assert Chapter().run(block, "page")[0] == state


def test_files(tmp_path, capsys) -> None:
    page = tmp_path / "page.rst"
    page.write_text(PAGE, encoding="utf-8")
    assert run_file(page, verbose=False) == {"passes": 2, "differs": 1, "later": 0, "not runnable": 1}
    output = capsys.readouterr().out
    assert "page.rst:26: differs" in output  # x belongs to the other chapter
    assert "name 'x' is not defined" in output
    text = tmp_path / "page.txt"
    text.write_text(TEXT, encoding="utf-8")
    assert run_file(text, verbose=True)["passes"] == 2
