"""What diagnose knows beyond the run itself reaches the report: other precisions of its study, as measured."""

from __future__ import annotations

import html
from pathlib import Path

from benchmarks.published import published

import twinlens as tl
from twinlens.diagnosis.diagnosis import diagnose_run
from twinlens.reporting.wording.finding import sentence_of

RESULTS = published()
STUDY = RESULTS / "2026-11-22-neighbour-epyc-2core" / "2026-11-22T123635Z_demo-inference_904c"


def test_a_measured_sibling_reaches_the_report(tmp_path: Path) -> None:
    run = next(run for run in tl.read(STUDY) if run.spec.point.precision == "fp32" and run.is_finished)
    (found,) = tl.diagnose(run)
    (measured,) = [each for each in found.quantising if "measured" in each.evidence]
    alone = diagnose_run(run, tl.summary(run))
    assert not [each for each in alone.quantising if "measured" in each.evidence], "only its study knows it"
    text = " ".join(html.unescape(tl.report([run], to=tmp_path / "report.html").read_text()).split())
    assert sentence_of(measured) in text
    assert sentence_of(measured) not in map(sentence_of, alone.quantising)
    assert "×1.41 (1.36–1.46×" in sentence_of(measured), "the ratio from slices, as compare gives it"
