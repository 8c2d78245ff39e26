"""Every public name of release 1.5.0 is here, with its parameters, or it is known why not."""

from __future__ import annotations

import json
import re

from conformance.names import NAMES, REASONS, table


def test_nothing_is_missing_and_differences_have_reasons() -> None:
    rows = table(json.loads(NAMES.read_text(encoding="utf-8")))
    assert len(rows) > 1200
    assert not [row for row in rows if row[1] == "missing"]
    assert not [row for row in rows if row[1] == "differs" and not any(re.fullmatch(p, row[0]) for p in REASONS)]
    used = [row[0] for row in rows if row[1] == "differs"]
    assert all(any(re.fullmatch(pattern, name) for name in used) for pattern in REASONS)
