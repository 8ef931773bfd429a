"""A server that says no queue: what a higher load adds to the first token is due to other requests, at least."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import twinlens as tl
from diagnosis.saturated import request, served, told
from material import fixed, for_rows, inference, measured, study_of
from twinlens.api.runs import material_of
from twinlens.api.siblings import Studies
from twinlens.diagnosis.diagnosis import diagnose_run
from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.rule.wait_for_others import wait_for_others
from twinlens.diagnosis.time_split import LowerLoad, added_wait, first_token_wait
from twinlens.measurement.study import measure_study
from twinlens.measurement.summary_file import summary_of
from twinlens.record.estimate import Estimate
from twinlens.reporting.wording.finding import sentence_of


def mean(value: float, half: float) -> Estimate:
    return Estimate(value, "s", "by hand", "measured", value - half, value + half, 0.95, 50)


def seen(here: Estimate, there: Estimate, **parts: float) -> Evidence:
    evidence = served(request(**(parts or {"decode": 0.5})))
    return replace(evidence, first_token=here, lower_load=LowerLoad("quiet", "1/s", there))


def test_the_bound_takes_both_means_at_their_worst() -> None:
    (found,) = wait_for_others(seen(mean(0.30, 0.02), mean(0.10, 0.01)))
    assert found.numbers["at_least_s"] == pytest.approx(0.28 - 0.11)
    added = found.evidence["added"]
    assert (added.origin, added.value) == ("derived", pytest.approx(0.20))
    assert (added.low, added.high) == (pytest.approx(0.17), pytest.approx(0.23))
    assert sentence_of(found).startswith("At least 170 ms of the wait for the first token (17 % of the time")


def test_nothing_is_said_where_it_is_not_shown_or_the_server_says_it() -> None:
    assert added_wait(mean(0.12, 0.02), LowerLoad("quiet", "1/s", mean(0.10, 0.01))) is None
    unsure = Estimate(0.1, "s", "by hand", "measured", no_interval="too few")
    assert added_wait(mean(0.9, 0.02), LowerLoad("quiet", "1/s", unsure)) is None
    assert list(wait_for_others(seen(mean(0.3, 0.02), mean(0.1, 0.01), queue=0.2, decode=0.5))) == []
    assert list(wait_for_others(served(request(decode=0.5), told()))) == []


def test_the_lowest_load_of_the_same_work_in_the_study_is_held_against(tmp_path: Path) -> None:
    data = inference("fake", arrival={"kind": "poisson"}, output_tokens=fixed(4), protocol=for_rows(60))
    study = study_of(data | {"sweep": {"rate_per_s": [0.5, 2.0, 8.0], "precision": ["fp32", "bf16"]}})
    runs = measure_study(study, tmp_path).runs
    studies = Studies(material_of(runs))
    for run in runs:
        found = studies.lower_load(run, summary_of(run))
        if run.spec.point.rate_per_s == 0.5:
            assert found is None
            continue
        assert found is not None
        (other,) = [each for each in runs if each.id == found.run]
        assert (other.spec.point.rate_per_s, found.load) == (0.5, "0.5/s")
        assert other.spec.point.precision == run.spec.point.precision
        assert found.wait.value == pytest.approx(0.0104, rel=0.5)
        told = replace(summary_of(run), metrics={"server_queue_s_mean": mean(0.1, 0.01)})
        assert studies.lower_load(run, told) is None, "it says its queue itself"


def test_a_shown_bound_reaches_the_diagnosis(tmp_path: Path) -> None:
    data = inference("fake", arrival={"kind": "poisson"}, point={"rate_per_s": 2.0}, protocol=for_rows(120))
    run = measured(tmp_path, data)
    quiet = LowerLoad("quiet", "1/s", mean(0.001, 0.0001))
    found = diagnose_run(run, summary_of(run), lower_load=quiet)
    assert ("wait-for-others" in codes(found)) is (first_token_wait(run, summary_of(run)).low is not None)
    assert found.partition == diagnose_run(run, summary_of(run)).partition, "a bound is no part"
    assert "wait-for-others" not in codes(diagnose_run(run, summary_of(run)))


def codes(found: tl.Diagnosis) -> list[str]:
    return [each.code for each in found.findings]
