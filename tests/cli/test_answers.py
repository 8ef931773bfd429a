"""Questions that runs answer, and the missing run as a line to paste."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from benchmarks.published import published
from click.testing import CliRunner, Result

import twinlens as tl
from twinlens.cli.main import app

RESULTS = published()
URL = RESULTS / "2026-11-22-url-epyc-2core"


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["evidence", *map(str, words)])


def test_a_question_names_what_differs_and_the_missing_run_as_a_line_to_paste() -> None:
    told = call(URL, "--for", "lens=inference,rate_per_s=4,slo.ttft_s=0.5")
    assert told.exit_code == 0, told.stderr
    lines = told.stdout.splitlines()
    assert lines[0] == "No run answers this; 1 of 3 points answers it in part."
    words = shlex.split(lines[-1])
    assert words[:2] == ["twinlens", "measure"]
    study = tl.load(words[2], [word for word in words[3:] if word != "--set"])
    assert (study.point.rate_per_s, study.workload.slo.ttft_s) == (4, 0.5)
    assert study.protocol.duration_s * 4 >= 368, "p99 needs that many requests"


def test_a_question_with_a_control_character_is_refused_without_echoing_it() -> None:
    for word in ("device=\x1b[31mx", "executor.options.a\x1b[2J=4", "workload.model=x\u202ey"):
        told = call(URL, "--for", f"rate_per_s=8,{word}")
        assert (told.exit_code, told.stdout, told.stderr.count("\n")) == (2, "", 1)
        assert not {"\x1b", "\u202e"} & set(told.stderr)


def test_a_question_that_is_answered_says_how() -> None:
    told = call(URL, "--for", "rate_per_s=2,slo.ttft_s=0.5,slo.quantile=0.5").stdout
    assert told.startswith("1 of 3 points answers this: within the limits.\n✓ as-served · 2/s: TTFT p50 is 35.2 ms")
    assert "Missing" not in told
    data = json.loads(call(URL, "--for", "rate_per_s=2", "--json").stdout)
    assert [each["standing"] for each in data["questions"][0]["candidates"]] == ["answers", "no answer", "no answer"]


@pytest.mark.parametrize(
    ("question", "start"), [("lens=training,precision=bf16", "pretrain"), ("demo-training", "demo-training")]
)
def test_where_no_run_is_near_an_example_or_the_spec_is_the_start(question: str, start: str) -> None:
    words = shlex.split(call(URL, "--for", question).stdout.splitlines()[-1])
    assert words[:3] == ["twinlens", "measure", start]
    assert tl.load(words[2], [word for word in words[3:] if word != "--set"]).workload.kind == "training"


def test_a_run_of_an_older_version_can_be_the_start() -> None:
    told = call(RESULTS / "2026-11-20-epyc-2core", "--for", "lens=training,precision=fp16,batch=1").stdout
    words = shlex.split(told.splitlines()[-1])
    assert tl.load(words[2], [word for word in words[3:] if word != "--set"]).point.precision == "fp16"
