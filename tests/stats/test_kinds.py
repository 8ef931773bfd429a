"""Every kind of interval that the program can print has a published line, which says that it holds the truth."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.coverage.others import cases, line
from benchmarks.coverage.producers import producers
from benchmarks.coverage.registry import KINDS, Kind

RESULTS = Path(__file__).parents[2] / "docs" / "results"
COVERED = [kind for kind in KINDS if kind.page]


def test_every_function_that_gives_bounds_has_one_kind() -> None:
    named = [name for kind in KINDS for name in kind.of]
    assert len(named) == len(set(named))
    assert producers() - set(named) == set(), "a new interval: simulate it, and name its line in the registry"
    assert set(named) - producers() == set(), "the registry names what no longer is"


def test_bounds_are_found_however_they_are_given(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(
        "def by_place():\n    return Estimate(v, u, m, o, low, high, 0.95)\n"
        "def by_name():\n    return replace(one, high=2.0)\n"
        "def of_a_band():\n    return made(Band, (v, low, high))\n"
        "def of_none():\n    return replace(Estimate(v, u, m, o, n=3), low=None, high=None)\n"
    )
    assert producers(tmp_path) == {"new.py:by_place", "new.py:by_name", "new.py:of_a_band"}


@pytest.mark.parametrize("kind", COVERED, ids=lambda kind: kind.what)
def test_every_kind_has_its_lines(kind: Kind) -> None:
    rows = (RESULTS / kind.page).read_text(encoding="utf-8").splitlines()
    for begins in kind.lines:
        assert any(row.startswith(begins) for row in rows), f"{kind.page} has no line {begins!r}"


def test_lines_of_served_runs_and_of_others_hold_what_they_say() -> None:
    """Below 95 % by no more than three standard errors and two points; above it is on the safe side, and said."""
    told = 0
    for page in ("coverage-served.md", "coverage-others.md", "coverage-arrivals.md", "coverage-burnin.md",
                 "coverage-added.md"):  # fmt: skip
        for row in (RESULTS / page).read_text(encoding="utf-8").splitlines():
            found = re.search(r"\| (\d+\.\d) % ± (\d+\.\d) % \||\| (\d+\.\d)% ± (\d+\.\d)% \|", row)
            if found is None:
                continue
            holds, error = (float(each) for each in found.groups() if each is not None)
            told += 1
            assert holds >= 93 - 3 * error, row
    assert told > 150


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case[0]}: {case[1]}")
def test_a_few_simulations_of_each_kind_hold_the_truth(case) -> None:
    found = re.search(r"([\d.]+)% ±", line(*case, 80))
    assert found is None or float(found[1]) >= 88
