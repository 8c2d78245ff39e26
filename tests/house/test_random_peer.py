"""The page on random programs lists what may differ from the wheel, and why."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "random-programs.md").read_text("utf-8")


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("mpmath")
    for folder in ("conformance", "tests"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    before = set(sys.modules)
    yield importlib.import_module("random_peer_known")
    for name in set(sys.modules) - before:
        if name.startswith("random_p"):
            del sys.modules[name]


def test_all_reasons_are_documented(known: Any) -> None:
    reasons = {reason for reason, _ in known.RULES} | {row.reason for row in known.TABLE}
    listed = {line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| ")} - {"reason"}
    assert sorted(reasons - listed) == [] and sorted(listed - reasons) == []


def test_the_table_names_kinds_of_differences_and_operations_that_there_are(known: Any) -> None:
    operations = {row.op for row in known.ROWS}
    for row in known.TABLE:
        assert set(row.kinds.split(", ")) <= {"crashed", "raised here", "raised there", "type", "shape", "text",
                                              "value"}
        assert row.ops == "*" or set(row.ops.split()) & operations, row.reason
