"""Agreement of the greedy answers of served points, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from material import inference, measured
from twinlens.record.sections import GreedyAnswer, GreedyAnswers
from twinlens.reporting.text.column import column
from twinlens.stats.run_summary import from_json, summarise, to_json
from twinlens.stats.summary.group import Summary, group
from twinlens.stats.summary.point import greedy_agreement


def answers(*texts: str | None, prompts: str = "p") -> GreedyAnswers:
    """A token a letter."""
    return GreedyAnswers(prompts, tuple(None if text is None else GreedyAnswer(text, len(text)) for text in texts))


def test_agreement_is_the_share_of_tokens_before_the_first_difference() -> None:
    reference = answers("abcdefghij", "abcdefghij", "abcdefghij", "abcdefghij", "abcdefghij")
    other = answers("abcdefghij", "abcdeXghij", "Xbcdefghij", "abcdefghij", "abcdefgh")
    agreement = greedy_agreement(reference, [other], "fp32")
    assert agreement.value == pytest.approx((1.0 + 0.5 + 0.0 + 1.0 + 0.8) / 5)
    assert agreement.n == 5
    assert (agreement.low, agreement.high) == (
        pytest.approx(0.183, abs=1e-3),
        pytest.approx(0.967, abs=1e-3),
    )  # 3.3 of 5


def test_each_prompt_is_averaged_over_repeats_and_is_one_observation() -> None:
    reference = answers("abcd", "abcd")
    agreement = greedy_agreement(reference, [answers("abcd", "abcd"), answers("abXX", "XXXX")], "fp32")
    assert (agreement.value, agreement.n) == (pytest.approx((0.75 + 0.5) / 2), 2)


def test_an_agreement_that_is_all_one_is_bounded_by_its_prompts_and_unanswered_ones_do_not_count() -> None:
    agreement = greedy_agreement(answers("ab", "cd", None, ""), [answers("ab", None, "ef", "x")], "fp32")
    assert (agreement.value, agreement.n, agreement.low) == (1.0, 1, pytest.approx(0.025))
    nothing = greedy_agreement(answers(None), [answers("a")], "fp32")
    assert (nothing.value, nothing.reason) == (None, "no prompt was answered by both")


@pytest.fixture
def run(tmp_path: Path) -> Summary:
    return summarise(measured(tmp_path, inference("fake")))


def point(run: Summary, precision: str, greedy: GreedyAnswers | None) -> Summary:
    return replace(run, run=precision, identity=precision, point={"precision": precision}, greedy=greedy)


def test_points_are_compared_with_the_widest_precision_wherever_it_stands(run: Summary) -> None:
    narrow, wide = point(run, "bf16", answers("abXX", "abcd")), point(run, "fp32", answers("abcd", "abcd"))
    found = {one.point["precision"]: one.metrics["greedy_agreement"] for one in group([narrow, wide])}
    assert found["bf16"].value == pytest.approx(0.75)
    assert "first difference from fp32" in found["bf16"].method
    assert found["fp32"].value is None
    assert "reference" in (found["fp32"].reason or "")
    shown = next(one for one in group([narrow, wide]) if one.point["precision"] == "fp32")
    assert "it is the reference" in column("greedy_agreement").reason(shown)


def test_answers_to_other_prompts_and_a_point_alone_are_not_compared(run: Summary) -> None:
    others = [
        point(run, "fp32", answers("abcd")),
        point(run, "bf16", answers("abcd", prompts="q")),
        point(run, "fp16", None),
    ]
    assert not any("greedy_agreement" in one.metrics for one in group(others))


def test_a_summary_keeps_its_greedy_answers(run: Summary) -> None:
    kept = replace(run, greedy=answers("ab", None))
    assert from_json(to_json(kept)) == kept
