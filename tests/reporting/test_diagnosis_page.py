"""Diagnoses in HTML: verdict and numbers, a bar that is 100 %, counters, findings with remedy and falsifier."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from report_material import Pair, inference_run, training_run
from twinlens.diagnosis.diagnosis import RULES, Diagnosis, diagnose_run
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.reporting.document.block import Shares
from twinlens.reporting.document.html import html, write
from twinlens.reporting.judging.diagnosis import diagnosed_points, diagnoses_document, diagnosis_document
from twinlens.reporting.report.page import render
from twinlens.reporting.view import view

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


def diagnosis_page(found: Sequence[tuple[Pair, Diagnosis]]) -> str:
    entries = [entry for lens in view([pair for pair, _ in found]).lenses for entry in lens.entries]
    by_run = {pair[0].id: each for pair, each in found}
    return html(diagnoses_document([(entry, by_run[entry.material[0][0].id]) for entry in entries]))


RULE_OF = {rule.code: rule for rule in RULES}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    folder = Path(tmp_path_factory.mktemp("diagnosed"))
    return [training_run(folder, "fp32", rows=60), inference_run(folder, "fp32", rows=60)]


def test_the_parts_of_a_bar_are_all_of_the_time_and_what_is_in_none_is_shown(pairs: list[Pair]) -> None:
    for run, summary in pairs:
        document = diagnosis_document(diagnose_run(run, summary), run.id)
        (shown,) = [each for each in document.blocks if isinstance(each, Shares)]
        assert shown.parts
        assert sum(part.share for part in shown.parts) == pytest.approx(1, abs=1e-9)
        assert shown.parts[-1].name == "unattributed"
        assert len({part.place for part in shown.parts}) == len(shown.parts)
        widths = re.findall(r'<span style="width:([\d.]+)%', html(document))
        assert sum(map(float, widths)) == pytest.approx(100, abs=0.01)


def test_a_page_has_verdict_counters_and_findings_with_what_would_prove_them_wrong(pairs: list[Pair]) -> None:
    found = [(pair, diagnose_run(*pair)) for pair in pairs]
    text = diagnosis_page(found)
    assert text.count('<div class="whole"') == 2
    assert text.count("Memory bandwidth") == 2
    codes = [each.code for _, one in found for each in one.findings]
    assert codes
    for code in codes:
        first_words = RULE_OF[code].falsifier.split(".")[0].split("`")[0]
        assert first_words in text
    assert 'id="chart-inference0-roof"' in text


def test_the_report_diagnoses_every_operating_point(pairs: list[Pair]) -> None:
    text = render(view(pairs))
    assert text.count('<div class="whole"') == 2
    assert 'id="binds-training"' in text
    assert 'id="binds-inference"' in text


def test_a_point_whose_runs_did_not_finish_says_why_it_has_no_diagnosis(tmp_path: Path) -> None:
    (lens,) = view([training_run(tmp_path, rows=0, state="failed", facts=False, error="out of memory")]).lenses
    found, missing = diagnosed_points(lens)
    assert found == []
    assert len(missing) == 1
    assert "failed (out of memory), so there is nothing to diagnose" in missing[0]


def test_several_runs_of_a_point_have_one_verdict_and_how_many_alone_come_to_it(tmp_path: Path) -> None:
    runs = [training_run(tmp_path, "fp32", rows=60, repeat=repeat) for repeat in range(3)]
    (lens,) = view(runs).lenses
    (((name, one),), _) = diagnosed_points(lens)
    text = html(diagnosis_document(one, name))
    assert re.search(r"\(3 repeats together; (each|[012]) of them alone ha(s|ve) this verdict\)\.", text)


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
    target = write(diagnosis_document(diagnose_run(*pairs[0]), pairs[0][0].id), tmp_path / "new" / "page.html")
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
