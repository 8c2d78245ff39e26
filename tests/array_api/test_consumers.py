"""Some estimators of scikit-learn and functions of SciPy on our arrays; `conformance/consumers.py` has them all."""

from __future__ import annotations

import pytest

from conformance import consumers

pytest.importorskip("sklearn")
pytest.importorskip("scipy", minversion="1.17")


@pytest.mark.parametrize("name", ["StandardScaler", "PCA(full)", "Ridge(svd)", "GaussianMixture", "roc_curve",
                                  "r2_score", "pairwise.rbf", "special.log", "stats.skew", "stats.quantile",
                                  "signal.hilbert", "Rotation.mean", "find_root"])
def test_programs_run_and_agree(name: str) -> None:
    outcomes = [outcome for found in consumers.results(name).values() for outcome in found]
    assert outcomes
    for outcome in outcomes:
        assert not outcome.error and outcome.difference < consumers.TOLERANCE and outcome.ours, outcome
