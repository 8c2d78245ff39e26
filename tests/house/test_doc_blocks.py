"""The runner of the documentation's code: what it finds in a Markdown file, and what it calls a failure."""

from __future__ import annotations

import pytest

from conformance.run_doc_blocks import Block, blocks, main, run_block, run_file

PAGE = """\
# Title

```python
x = 1
```

Text with `code`.

```pycon
>>> x + 1
2
```

    >>> x + 2
    3

```bash
>>> not python
```

<!-- not run: it needs a GPU -->
```python
launch()
```

- in a list

  ```python
  y = 2
  ```

````markdown
```python
shown, not run
```
````
"""


def test_blocks_of_a_page():
    found = list(blocks(PAGE))
    assert [(block.line, block.text.strip().splitlines()[0], block.reason) for block in found] == [
        (4, "x = 1", ""), (10, ">>> x + 1", ""), (13, ">>> x + 2", ""), (23, "launch()", "it needs a GPU"),
        (29, "y = 2", "")]
    assert found[-1].text == "y = 2\n"


def test_a_reason_covers_the_next_block_only():
    page = "<!-- not run: a reason -->\n\nSome text.\n\n```python\nx\n```\n"
    assert [block.reason for block in blocks(page)] == [""]


def test_names_live_on_from_block_to_block():
    namespace = {}
    assert run_block(Block(1, "x = 1\n"), "page.md", namespace) is None
    assert run_block(Block(4, ">>> y = x + 1\n>>> y\n2\n"), "page.md", namespace) is None
    assert run_block(Block(9, "assert y == 2\n"), "page.md", namespace) is None


def test_annotations_are_evaluated_as_in_a_program_of_the_reader():
    namespace = {}
    assert run_block(Block(1, "class Point:\n    x: float = 0.0\n"), "page.md", namespace) is None
    assert namespace["Point"].__annotations__ == {"x": float}


def test_failure_inside_a_function_of_another_block():
    namespace = {}
    define = ">>> a = b = 1\n>>> def divide(x):\n...     return x / 0\n"
    assert run_block(Block(1, define), "page.md", namespace) is None
    assert "ZeroDivisionError" in run_block(Block(9, ">>> divide(1)\n1\n"), "page.md", namespace)


@pytest.mark.parametrize("text", [">>> [0, 1, 2]\n[0, ...]\n", ">>> 1 / 0\nTraceback (most recent call last):\n"
                                  "ZeroDivisionError: division by zero\n"])
def test_expected_output(text):
    assert run_block(Block(1, text), "page.md", {}) is None


@pytest.mark.parametrize(("text", "message"), [
    (">>> 1 + 1\n3\n", "Expected:\n    3\nGot:\n    2"), ("1 / 0\n", "ZeroDivisionError"),
    ("raise SystemExit(0)\n", "SystemExit"), ("x =\n", "SyntaxError")])
def test_failures_are_told_with_their_line(text, message):
    problem = run_block(Block(40, text), "page.md", {})
    assert message in problem
    assert 'page.md", line 40' in problem


def test_file(tmp_path, capsys):
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    assert run_file(path) == 0
    assert "4 blocks, 0 failures" in capsys.readouterr().out
    path.write_text(PAGE.replace("3\n", "4\n"))
    assert run_file(path) == 1


def test_program_runs_the_files_that_are_named(tmp_path, monkeypatch, capsys):
    path = tmp_path / "page.md"
    path.write_text("```python\nassert False\n```\n")
    monkeypatch.setattr("sys.argv", ["run_doc_blocks.py", str(path)])
    assert main() == 1
    assert "1 blocks, 1 failures" in capsys.readouterr().out
