"""The crossing table, see the package: a test for each state in each place, whose failures name cells."""

from __future__ import annotations

import pytest

from tests.crossings.known import KNOWN, Known
from tests.crossings.places import PLACES, isolated
from tests.crossings.states import STATES, State
from tests.crossings.table import EXCLUDED, REFUSED, Cell, cells, exclusion, known, refusal, run
from tests.crossings.touches import TOUCHES

PRODUCT = [(state, place) for state in STATES for place in PLACES]


def _all_cells() -> list[Cell]:
    return [cell for state, place in PRODUCT for cell in cells(state, place)]


#: Each run tries every fourth of these, and of nested constructs, which take long to compile, every eighth.
CASES = [pytest.param(state, place, id=f"{state.name}-{place}",
                      marks=pytest.mark.sample(8 if place.startswith("nested") else 4)) for state, place in PRODUCT]


@pytest.mark.parametrize(("state", "place"), CASES)
def test_cells(state: State, place: str) -> None:
    failures = run(state, place)
    problems = []
    for cell in cells(state, place):
        if exclusion(cell):
            assert cell.touch.name not in failures
            continue
        entry = known(cell)
        if entry is not None and entry.crashes:
            assert cell.touch.name not in failures  # see below
            continue
        failure = failures[cell.touch.name]
        if failure and entry is None:
            problems.append(f"{cell.name}: {failure}")
        elif not failure and entry is not None:
            problems.append(f"{cell.name}: passes; take it out of KNOWN ({entry.defect})")
    assert not problems, f"{len(problems)} cells:\n" + "\n".join(problems)


def test_every_cell_runs_or_has_a_reason() -> None:
    reasons = [exclusion(cell) for cell in _all_cells()]
    excluded = sum(map(bool, reasons))
    print(f"{len(TOUCHES)} touches x {len(STATES)} states x {len(PLACES)} places: {len(reasons)} cells, "
          f"{len(reasons) - excluded} run, {excluded} excluded")
    assert len(reasons) == len(TOUCHES) * len(STATES) * len(PLACES)
    assert len(reasons) - excluded > 30_000
    assert all(len(reason) >= 8 for reason in reasons if reason)


def test_no_rule_is_stale() -> None:
    all_cells = _all_cells()
    unused = [reason for predicate, reason in EXCLUDED if not any(map(predicate, all_cells))]
    included = [cell for cell in all_cells if not exclusion(cell)]
    unused += [refusal.reason for predicate, refusal in REFUSED if not any(map(predicate, included))]
    unused += [entry.defect for entry in KNOWN
               if not any(entry.covers(cell.touch.name, cell.state, cell.place) for cell in included)]
    assert not unused


@pytest.mark.parametrize("entry", [entry for entry in KNOWN if entry.crashes], ids=lambda entry: entry.touches)
def test_what_cannot_be_run_with_the_others_still_fails(entry: Known) -> None:
    """Such cells may pass by accident, so that one that fails is enough."""
    chosen = {cell.name: cell for cell in _all_cells() if not exclusion(cell) and known(cell) is entry}
    by_name = {state.name: state for state in STATES}
    failures = isolated(list(chosen)[:10], lambda name: PLACES[chosen[name].place](
        by_name[chosen[name].state], [chosen[name].touch], lambda touch: refusal(chosen[name]),
    )[chosen[name].touch.name], seconds=3)
    assert any(failures.values()), "take it out of KNOWN"


@pytest.mark.parametrize("rows", [STATES, TOUCHES], ids=["states", "touches"])
def test_names_are_unique(rows: list[object]) -> None:
    names = [row.name for row in rows]  # type: ignore[attr-defined]
    assert len(set(names)) == len(names)
