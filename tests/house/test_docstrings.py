"""Every public name has an example, and every example prints what it says.

``dr`` is the package in all of them; everything else is imported by the example itself.
"""

from __future__ import annotations

import doctest
import io

import pytest

import drjit as dr
from conformance.reference.pages import described

TEXTS = described()
PARSER = doctest.DocTestParser()


def run(name, text):
    """Run the examples in a text; what went wrong."""
    test = PARSER.get_doctest(text, {"dr": dr}, name, None, None)
    report = io.StringIO()
    doctest.DocTestRunner(verbose=False).run(test, out=report.write)
    return report.getvalue()


def settings():
    return [dr.flag(flag) for flag in dr.JitFlag], dr.log_level(), dr.thread_count(), dr.expand_threshold()


def test_every_public_name_has_an_example():
    without = sorted(name for name, text in TEXTS.items() if not PARSER.get_examples(text))
    print(f"{len(TEXTS)} public names that can have an example, {len(TEXTS) - len(without)} with one")
    assert len(TEXTS) >= 300
    assert not without


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if ">>> " in text])
def test_example(name):
    before = settings()
    problem = run(name, TEXTS[name])
    assert not problem, problem
    assert settings() == before


def test_an_example_that_is_wrong_is_found():
    assert "Expected:\n    3\nGot:\n    2" in run("wrong", ">>> 1 + 1\n3\n")
