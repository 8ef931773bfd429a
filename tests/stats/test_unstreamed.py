"""A server that does not stream has no time between tokens, and an SLO that limits one is never called kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from material import inference, spec_of
from served_rows import row
from twinlens.record.run import Run
from twinlens.record.store import create_run, end_run, open_rows, read_run
from twinlens.reporting.comparing.peers import TOOL_NAMES, peers_document
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.run.one import run_document
from twinlens.stats.run_summary import summarise

TOKENS = 64
BETWEEN_TOKENS = ("tpot_s_p50", "tpot_s_p99", "itl_s_p50", "itl_s_p99")
STREAMED = tuple(100.0 + 10 * i for i in range(TOKENS))
AT_ONCE = {
    "one event with the whole text": ((800.0,), (TOKENS,)),
    "each event in one write": ((800.0,) * TOKENS, (1,) * TOKENS),
    "the packets of one long write": (tuple(800.0 + 0.002 * i for i in range(TOKENS)), (1,) * TOKENS),
}


def run_of(folder: Path, answers: Sequence[tuple[Sequence[float], Sequence[int]]], **workload: Any) -> Run:
    """A run of 2 requests/s whose answers have these chunks: milliseconds after they were sent, and tokens in each."""
    asked = inference("fake", arrival={"kind": "constant"}, point={"rate_per_s": 2.0}, **workload)
    made = create_run(folder, spec_of(asked))
    with open_rows(made, read_run(made).spec) as rows:
        for number, (chunks_ms, tokens) in enumerate(answers):
            due_ms = 500.0 * number
            one = row(due_ms, [due_ms + at + 3 * (number % 7) for at in chunks_ms], tokens=tokens)
            rows.add(replace(one, group=number, asked_tokens=sum(tokens)))
    end_run(made, "finished")
    return read_run(made)


@pytest.mark.parametrize("how", AT_ONCE)
def test_an_answer_that_comes_whole_has_no_tpot_and_the_first_screen_says_so(tmp_path: Path, how: str) -> None:
    run = run_of(tmp_path, [AT_ONCE[how]] * 80)
    summary = summarise(run)
    for name in BETWEEN_TOKENS:
        assert summary.metrics[name].value is None
        assert "whole at one moment" in (summary.metrics[name].reason or "")
    assert "tokens_per_s_per_request" not in summary.metrics
    assert summary.metrics["ttft_s_p50"].value == pytest.approx(0.809)
    assert [finding.severity for finding in summary.findings if finding.code == "not-streamed"] == ["warns"]
    console = Console(width=80, record=True)
    console.print(screen(run_document(run, summary)))
    text = " ".join(console.export_text().split())
    assert "The server does not stream: 80 of 80 answers came whole at one moment, not token by token." in text
    assert "TPOT 0" not in text


@pytest.mark.parametrize("tool", TOOL_NAMES)
@pytest.mark.parametrize(
    ("answer", "says"), [(AT_ONCE["one event with the whole text"], True), ((STREAMED, (1,) * TOKENS), False)]
)
def test_another_tools_figures_of_whole_answers_are_shown_with_a_warning(
    tmp_path: Path, tool: str, answer: tuple[Sequence[float], Sequence[int]], says: bool
) -> None:
    run = run_of(tmp_path, [answer] * 40, slo={"tpot_s": 0.2})
    console = Console(width=80, record=True)
    console.print(screen(peers_document([run], tool), whole=True))
    text = " ".join(console.export_text().split())
    assert ("! 40 of 40 answers came whole at one moment" in text) is says


@pytest.mark.parametrize("limit", [{"tpot_s": 0.2}, {"itl_s": 0.2, "ttft_s": 5.0}])
def test_an_slo_between_tokens_is_not_judged_where_answers_come_whole(tmp_path: Path, limit: dict[str, float]) -> None:
    summary = summarise(run_of(tmp_path, [AT_ONCE["one event with the whole text"]] * 500, slo=limit))
    assert [finding.code for finding in summary.disqualified] == ["slo-not-judged"]
    assert not summary.ranked
    for name in ("slo_attainment", "goodput_per_s", "tpot_s_within" if "tpot_s" in limit else "itl_s_within"):
        assert summary.metrics[name].value is None
        assert "cannot be judged" in (summary.metrics[name].reason or "")


def test_an_slo_of_whole_answers_is_judged_however_they_come(tmp_path: Path) -> None:
    summary = summarise(run_of(tmp_path, [AT_ONCE["each event in one write"]] * 500, slo={"e2e_latency_s": 2.0}))
    assert summary.metrics["slo_attainment"].value == 1.0
    assert not summary.disqualified


@pytest.mark.parametrize(("whole", "told"), [(0, False), (2, False), (3, True), (150, True)])
def test_up_to_one_answer_in_a_hundred_may_come_whole(tmp_path: Path, whole: int, told: bool) -> None:
    answers = [AT_ONCE["one event with the whole text"]] * whole + [(STREAMED, (1,) * TOKENS)] * (200 - whole)
    summary = summarise(run_of(tmp_path, answers[::-1], slo={"tpot_s": 0.2}))
    assert ("not-streamed" in {finding.code for finding in summary.findings}) is told
    assert summary.metrics["tpot_s_p50"].value == (None if told else pytest.approx(0.01))
    assert summary.metrics["slo_attainment"].value == (None if told else 1.0)


def test_answers_of_one_token_and_quick_ones_are_streamed_as_far_as_can_be(tmp_path: Path) -> None:
    quick = tuple(20_000.0 + 0.5 * i for i in range(TOKENS))  # after 20 s in a queue, 2,000 tokens/s
    summary = summarise(run_of(tmp_path, [((800.0,), (1,)), (quick, (1,) * TOKENS)] * 40))
    assert "not-streamed" not in {finding.code for finding in summary.findings}
    assert summary.metrics["tpot_s_p50"].value == pytest.approx(0.0005)
