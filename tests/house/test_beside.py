"""The page on release 1.5.0 lists all that it has, which its programs call with every option."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    sys.modules.pop("conformance.beside", None)
    from conformance import beside

    return beside


def test_every_function_is_called_with_every_option(beside: Any) -> None:
    called = beside.called()
    missing = {}
    for name, options in beside.options().items():
        known = called.get(name.rpartition(".")[2])
        left = [option for option in options if known is None or option not in known]
        if known is None or left:
            missing[name] = left
    assert not missing


def test_the_page_lists_every_function(beside: Any) -> None:
    lines = beside.PAGE.read_text("utf-8").splitlines()
    listed = {line.split("`")[1]: line for line in lines if line.startswith("| `")}
    assert set(beside.options()) <= set(listed)
    assert not [line for line in listed.values() if "**open**" in line or "not called" in line]


def test_reasons_are_of_programs_that_there_are(beside: Any) -> None:
    import re

    texts = ["; ".join(filter(None, (program.before, part))) for program in beside.programs() for part in program.parts]
    assert [pattern for pattern in beside.REASONS if not any(re.search(pattern, text) for text in texts)] == []
