"""The page of the names of ``drjit.numpy`` says what exists."""

from __future__ import annotations

import numpy
import pytest

from conformance import numpy_names


@pytest.mark.skipif(numpy.__version__.split(".")[:2] != ["2", "4"], reason="the page counts the names of NumPy 2.4")
def test_the_page_of_names_is_up_to_date() -> None:
    assert numpy_names.PAGE.read_text(encoding="utf-8") == numpy_names.page(), "python -m conformance.numpy_names"
