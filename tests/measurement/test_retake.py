"""Runs that others disturbed are taken again: by what the others did, a bounded number of times, all of them kept."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from material import measured, study_of, training
from twinlens.measurement.study import attempt_of, disturbed_by_others, finished_attempts, is_owed, measure_study
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.stats.run_summary import summarise
from twinlens.stats.summary.group import Summary, group

IN_PASSING = Finding("cause", "warns", "other-programs", {"how": "in time", "external": True})


@pytest.fixture
def summary(tmp_path: Path) -> Summary:
    """Of a run that is too short to be ranked."""
    return replace(summarise(measured(tmp_path / "made", training("fake"))), findings=())


@pytest.mark.parametrize(
    ("numbers", "again"),
    [
        ({"how": "in time", "external": True}, True),
        ({"how": "throughout", "external": True}, False),
        ({"how": "in time", "external": False}, False),
    ],
)
def test_only_the_passing_work_of_others_is_a_reason(summary: Summary, numbers: dict[str, object], again: bool) -> None:
    assert not summary.ranked
    assert not disturbed_by_others(summary)
    assert disturbed_by_others(replace(summary, findings=(Finding("cause", "warns", "steal", numbers),))) is again


def test_a_ranked_run_is_never_taken_again(tmp_path: Path) -> None:
    long = {"duration_s": 30.0, "min_rows": 100}
    ranked = summarise(measured(tmp_path, training("fake", options={"noise": 0.02}, protocol=long)))
    assert ranked.ranked
    assert not disturbed_by_others(replace(ranked, findings=(IN_PASSING,)))


@pytest.mark.parametrize(("allowed", "taken"), [(0, 1), (2, 3)])
def test_a_disturbed_repeat_is_taken_again_as_often_as_allowed_and_all_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: int, taken: int
) -> None:
    monkeypatch.setattr(sys.modules[disturbed_by_others.__module__], "disturbed_by_others", lambda summary: True)
    study = study_of(training("fake", protocol={"retakes": allowed}))
    outcome = measure_study(study, tmp_path)
    assert sorted(attempt_of(run) for run in outcome.runs) == list(range(1, taken + 1))
    (one,) = group(map(summarise, outcome.runs))
    assert [run.attempt for run in one.runs] == [taken]
    assert len(one.retaken) == taken - 1


def test_an_undisturbed_second_attempt_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys.modules[disturbed_by_others.__module__], "disturbed_by_others", lambda summary: summary.attempt == 1
    )
    outcome = measure_study(study_of(training("fake", protocol={"retakes": 5})), tmp_path)
    first, last = sorted(outcome.runs, key=attempt_of)
    assert (attempt_of(first), attempt_of(last)) == (1, 2)
    assert [finding.code for finding in summarise(last).findings if finding.code == "retaken"] == ["retaken"]


def test_going_on_with_a_study_knows_the_attempts_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[disturbed_by_others.__module__], "disturbed_by_others", lambda summary: True)
    data = training("fake", protocol={"retakes": 1, "repeats": 2})
    folder = measure_study(study_of(data), tmp_path).folder
    known = finished_attempts(folder)
    assert [len(runs) for runs in known.values()] == [2, 2]
    owed = [is_owed(runs[0].spec, runs) for runs in known.values()]
    assert owed == [False, False]
    first: Run = next(iter(known.values()))[0]
    assert is_owed(first.spec, [first])
