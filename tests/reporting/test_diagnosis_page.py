"""Diagnoses in HTML: verdict and numbers, a bar that is 100 %, counters, findings with remedy and falsifier."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from report_material import Pair, inference_run, training_run
from twinlens.diagnosis.diagnosis import RULES, diagnose_run
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.reporting.html.diagnosed import diagnosed, diagnosed_points
from twinlens.reporting.html.diagnosis_page import diagnosis_page, write_diagnosis
from twinlens.reporting.html.render import render
from twinlens.reporting.view import view

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
RULE_OF = {rule.code: rule for rule in RULES}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    folder = Path(tmp_path_factory.mktemp("diagnosed"))
    return [training_run(folder, "fp32", rows=60), inference_run(folder, "fp32", rows=60)]


def test_the_parts_of_a_bar_are_all_of_the_time_and_what_is_in_none_is_shown(pairs: list[Pair]) -> None:
    for run, summary in pairs:
        shown = diagnosed(run.id, diagnose_run(run, summary))
        assert shown.parts
        assert sum(float(part.width) for part in shown.parts) == pytest.approx(100, abs=0.01)
        assert shown.parts[-1].name == "unattributed"
        assert len({part.colour for part in shown.parts}) == len(shown.parts)


def test_a_page_has_verdict_counters_and_findings_with_what_would_prove_them_wrong(pairs: list[Pair]) -> None:
    found = [(pair, diagnose_run(*pair)) for pair in pairs]
    text = diagnosis_page(found)
    assert text.count('<article class="binds">') == 2
    assert text.count("The four counters.") == 2
    codes = [each.code for _, one in found for each in one.findings]
    assert codes
    for code in codes:
        first_words = RULE_OF[code].falsifier.split(".")[0].split("`")[0]
        assert first_words in text
    assert 'id="chart-inference0-roof"' in text


def test_the_report_diagnoses_every_operating_point(pairs: list[Pair]) -> None:
    text = render(view(pairs))
    assert text.count('<article class="binds">') == 2
    assert 'id="binds-training"' in text
    assert 'id="binds-inference"' in text


def test_a_point_whose_runs_did_not_finish_says_why_it_has_no_diagnosis(tmp_path: Path) -> None:
    (lens,) = view([training_run(tmp_path, rows=0, state="failed", facts=False, error="out of memory")]).lenses
    found, missing = diagnosed_points(lens)
    assert found == ()
    assert len(missing) == 1
    assert "failed (out of memory), so there is nothing to diagnose" in missing[0]


def test_several_runs_of_a_point_have_one_verdict_and_how_many_alone_come_to_it(tmp_path: Path) -> None:
    runs = [training_run(tmp_path, "fp32", rows=60, repeat=repeat) for repeat in range(3)]
    (lens,) = view(runs).lenses
    ((one,), _) = diagnosed_points(lens)
    assert re.search(r"^3 repeats together; (each|[012]) of them alone ha(s|ve) this verdict\.$", one.standing)


def test_hostile_names_do_not_reach_the_page_as_marks(pairs: list[Pair]) -> None:
    run, summary = pairs[0]
    evil = Finding("time-waiting", "notes", HOSTILE, {"share": 0.2, "headroom_s": 0.1, "of": HOSTILE},
                   {HOSTILE: Estimate(1.0, HOSTILE, HOSTILE, "measured")})  # fmt: skip
    found = diagnose_run(run, replace(summary, model=HOSTILE))
    partition = replace(found.partition, parts={HOSTILE: 1.0})
    counters = tuple(replace(each, id=HOSTILE, about=HOSTILE) for each in found.counters)
    found = replace(found, run=HOSTILE, findings=(evil,), partition=partition, counters=counters)
    text = diagnosis_page([(pairs[0], found)])
    assert "<script>" not in text
    assert "<img" not in text
    assert "&lt;script&gt;" in text


def test_a_page_makes_its_folder(pairs: list[Pair], tmp_path: Path) -> None:
    target = write_diagnosis([(pairs[0], diagnose_run(*pairs[0]))], tmp_path / "new" / "page.html")
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
