"""Whether two sides may be compared, how far they are apart, and what that can be given to."""

from __future__ import annotations

import math

import pytest

from sides import side
from twinlens.comparison.ranking import pairs_of
from twinlens.comparison.verdict import Comparison, compare
from twinlens.record.finding import Finding
from twinlens.reporting.comparing.comparison import comparison_document
from twinlens.reporting.comparison import rows_of, short_name, short_pair, verdict_words
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.text.fitted import plain
from twinlens.reporting.wording.finding import sentence_of

TOKENS = "output_tokens_per_s"


def codes(found: Comparison) -> list[str]:
    return [finding.code for finding in found.findings]


def words(found: Comparison) -> str:
    return " ".join(map(sentence_of, found.findings))


def test_training_against_inference_is_a_category_error_without_any_figure() -> None:
    comparison = compare(side("a", lens="training"), side("b"))
    assert (comparison.verdict, codes(comparison), comparison.effects) == ("category error", ["lens-differs"], ())
    assert "Compare training with training" in words(comparison)
    assert verdict_words(comparison) == "Category error."
    assert "A  a" in plain(screen(comparison_document([comparison])))


def test_one_name_for_two_formats_is_a_category_error() -> None:
    comparison = compare(side("a"), side("b", stack={"precision.weights": "int8"}))
    assert comparison.verdict == "category error"
    assert "weights format fp32 → int8" in words(comparison)
    assert [effect.ratio.value for effect in comparison.effects] == [None]


@pytest.mark.parametrize(
    ("setting", "aspect"),
    [
        ("workload.output_tokens.value=99", "workload"),
        ("point.rate_per_s=4.0", "load"),
        ("workload.arrival.kind=closed", "workload"),
    ],
)
def test_other_work_is_not_comparable_and_has_no_ratio(setting: str, aspect: str) -> None:
    values = {TOKENS: (100.0, 101.0, 102.0)}
    more = ["point.concurrency=2"] if "closed" in setting else []
    comparison = compare(side("a", values), side("b", values, asked=[setting, *more]))
    assert comparison.verdict == "not comparable"
    assert aspect in {finding.subject for finding in comparison.findings if finding.code == "must-match"}
    assert comparison.effects[0].ratio.reason == "must-match"
    assert comparison.effects[0].a.value == 101.0


def test_two_things_that_differ_qualify_and_the_ratio_is_of_both() -> None:
    values = {TOKENS: (100.0, 101.0, 102.0)}
    stack = {"software.driver.version": "560", "precision.weights": "bf16"}
    comparison = compare(side("a", values), side("b", values, asked=["point.precision=bf16"], stack=stack))
    assert comparison.verdict == "comparable with qualifiers"
    assert codes(comparison)[0] == "several-differ"
    assert "Precision and driver differ: a ratio is of all of them together, and of none alone." in words(comparison)
    assert comparison.effects[0].ratio.value == pytest.approx(1.0)


def test_one_thing_that_differs_takes_nothing_from_the_verdict() -> None:
    values = {TOKENS: (100.0, 101.0, 102.0)}
    comparison = compare(side("a", values), side("b", values, stack={"software.driver.version": "560"}))
    assert (comparison.verdict, codes(comparison)) == ("comparable", ["one-differs"])
    assert "driver 550 → 560" in words(comparison)
    assert [thing.aspect for thing in comparison.things] == ["driver"]


def test_a_kernel_and_an_unknown_qualify() -> None:
    stack = {"host.kernel": "6.2", "software.driver.version": None}
    comparison = compare(side("a"), side("b", stack=stack))
    assert comparison.verdict == "comparable with qualifiers"
    assert codes(comparison) == ["differs-too", "not-said", "nothing-differs"]
    assert "B does not say everything (driver)" in words(comparison)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"state": "interrupted"}, "interrupted"),
        ({"label": "slowdown"}, "slowdown"),
        ({"findings": [Finding("slo-missed", "disqualifies")]}, "slo"),
    ],
)
def test_runs_that_may_not_be_ranked_are_said_first_and_give_no_ratio(parts: dict[str, object], told: str) -> None:
    values = {TOKENS: (100.0, 101.0, 102.0)}
    comparison = compare(side("a", values), side("b", values, stack={"host.kernel": "6.2"}, **parts))
    assert (comparison.verdict, codes(comparison)[0]) == ("not comparable", "side-not-ranked")
    assert sentence_of(comparison.findings[0]).startswith("B (b) is not valid: ")
    assert told in sentence_of(comparison.findings[0]).lower()
    assert comparison.effects[0].ratio.value is None


def test_the_same_runs_on_both_sides_are_refused() -> None:
    assert codes(compare(side("a"), side("a")))[0] == "same-runs"


def test_another_target_takes_the_ratio_from_what_depends_on_it_and_from_nothing_else() -> None:
    values = {"requests_per_s": (10.0, 10.1, 10.2), "goodput_per_s": (9.0, 9.1, 9.2)}
    asked = ["workload.arrival.kind=closed", "point.concurrency=2"]
    a, b = (side(name, values, asked=[*asked, f"workload.slo.ttft_s={slo}"]) for name, slo in (("a", 1.0), ("b", 2.0)))
    comparison = compare(a, b)
    ratios = {effect.metric: effect.ratio.value for effect in comparison.effects}
    assert comparison.verdict == "comparable with qualifiers"
    assert ratios == {"requests_per_s": pytest.approx(1.0), "goodput_per_s": None}


def test_the_ratio_has_fiellers_interval_and_the_difference_decides() -> None:
    """By hand: means 100 and 110, s² = 1 each, 3 runs: se² = 2/3, 4 degrees of freedom, t = 2.776."""
    comparison = compare(side("a", {TOKENS: (99.0, 100.0, 101.0)}), side("b", {TOKENS: (109.0, 110.0, 111.0)}))
    effect = comparison.effects[0]
    half = 2.7764451 * math.sqrt(2 / 3)
    assert effect.difference.value == pytest.approx(10.0)
    assert (effect.difference.low, effect.difference.high) == (pytest.approx(10 - half), pytest.approx(10 + half))
    assert effect.apart is True
    assert effect.is_worse is False
    assert effect.smallest == pytest.approx(half / 100)
    assert effect.ratio.value == pytest.approx(1.1)
    assert effect.ratio.low is not None
    assert effect.ratio.high is not None
    assert effect.ratio.low < 1.1 < effect.ratio.high
    assert verdict_words(comparison).startswith("Comparable. output tokens/s: B is 1.10× A (1.0")


def test_intervals_that_overlap_may_still_be_told_apart() -> None:
    """Each mean ± 4.303 · s/√3 overlaps the other's; the interval of the difference does not hold 0."""
    comparison = compare(side("a", {TOKENS: (99.0, 100.0, 101.0)}), side("b", {TOKENS: (102.0, 103.0, 104.0)}))
    a, b = comparison.effects[0].a, comparison.effects[0].b
    assert a.high is not None
    assert b.low is not None
    assert a.high > b.low
    assert comparison.effects[0].apart is True


def test_what_cannot_be_told_apart_says_what_would_have_shown() -> None:
    comparison = compare(side("a", {TOKENS: (95.0, 100.0, 105.0)}), side("b", {TOKENS: (96.0, 101.0, 106.0)}))
    assert comparison.effects[0].apart is False
    assert comparison.effects[0].is_worse is None
    assert "A and B cannot be told apart (B is 1.01× A" in verdict_words(comparison)
    assert "a change below 11 % could not have shown" in verdict_words(comparison)


def test_two_runs_a_side_have_a_ratio_without_interval_and_no_answer() -> None:
    comparison = compare(side("a", {TOKENS: (99.0, 101.0)}), side("b", {TOKENS: (149.0, 151.0)}))
    assert comparison.effects[0].apart is None
    assert "B is 1.50× A; whether they differ cannot be said (fewer than 3 runs a side)" in verdict_words(comparison)


def test_a_metric_that_may_be_0_is_compared_by_its_difference() -> None:
    values = [{TOKENS: (1.0,) * 3, "failed_share": shares} for shares in ((0.0, 0.0, 0.0), (0.01, 0.02, 0.03))]
    comparison = compare(side("a", values[0]), side("b", values[1]))
    (row,) = [row for row in rows_of(comparison) if row.metric == "failed_share"]
    assert row.cells[:3] == ("0%", "2.00%", "+2.00%")


def test_bytes_are_shown_in_their_unit() -> None:
    values = {TOKENS: (1.0,) * 3, "peak_bytes": (2.0**30,) * 3}
    comparison = compare(side("a", values), side("b", values, stack={"host.memory_bytes": 16 * 2**30}))
    assert "1.00 GiB" in plain(screen(comparison_document([comparison])))


def test_a_screen_has_24_lines_however_much_there_is_to_say() -> None:
    stack = {"host.kernel": "6.2", "software.packages": {"a": "b"}, "tenancy.co_tenants": "seen", "host.os": "other"}
    values = dict.fromkeys((TOKENS, "ttft_s_p50", "ttft_s_p99", "tpot_s_p50", "peak_bytes"), (1.0, 1.1, 1.2))
    a = side("a" * 60, values, stack=dict.fromkeys(stack, "x"))
    b = side("b" * 60, values, asked=["point.precision=bf16"], stack=stack | {"software.driver.version": "9"})
    for pairs in ([compare(a, b)], [compare(a, b)] * 40):
        text = plain(screen(comparison_document(pairs)))
        assert text.count("\n") <= 24
        assert max(map(len, text.splitlines())) <= 80
    whole = screen(comparison_document([compare(a, b)], ["c"]), whole=True)
    assert "No counterpart, so not compared: c." in plain(whole)


def test_a_name_cannot_reach_the_terminal_with_escapes() -> None:
    text = plain(screen(comparison_document([compare(side("a\x1b[31m"), side("b\u202e"))])))
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_one_folder_is_compared_within_itself_one_lens_at_a_time() -> None:
    fast, slow = side("fast"), side("slow", asked=["point.precision=bf16"])
    train, alone = side("train", lens="training"), side("bf16", lens="training", asked=["point.precision=bf16"])
    pairs = pairs_of([[train, alone, fast, slow]])
    assert [(a.name, b.name) for a, b in pairs.pairs] == [("train", "bf16"), ("fast", "slow")]
    assert pairs_of([[train, fast]]).pairs == ()
    assert [side.name for side in pairs_of([[train, fast]]).alone] == ["train", "fast"]


def test_several_folders_are_compared_point_by_point() -> None:
    a = [side("a32"), side("a16", asked=["point.precision=bf16"])]
    b = [side("b16", asked=["point.precision=bf16"]), side("b8", asked=["point.precision=int8-weight"])]
    pairs = pairs_of([a, b])
    assert [(x.name, y.name) for x, y in pairs.pairs] == [("a16", "b16")]
    assert [side.name for side in pairs.alone] == ["a32", "b8"]


def test_points_that_nothing_matches_are_paired_so_that_the_verdict_can_say_why() -> None:
    ((a, b),) = pairs_of([[side("a", lens="training")], [side("b")]]).pairs
    assert compare(a, b).verdict == "category error"


def test_a_long_name_keeps_its_point_and_loses_of_its_folder() -> None:
    assert short_name(side("2026-11-22-neighbour-epyc-2core · bf16")) == "…epyc-2core · bf16"
    assert short_name(side("runs · bf16")) == "runs · bf16"
    assert len(short_name(side("f" * 40 + " · " + "p" * 40))) == 18


def test_names_that_would_be_cut_to_the_same_lose_what_they_share() -> None:
    a, b = side("2026-11-20-epyc-2core · fp32"), side("2026-11-22-neighbour-epyc-2core · fp32")
    assert short_pair(a, b) == ("2026-11-20… · fp32", "…neighbour… · fp32")
    assert short_pair(a, a) == ("…epyc-2core · fp32", "…epyc-2core · fp32")
    assert short_pair(side("x · fp32"), side("y · fp32")) == ("x · fp32", "y · fp32")
    policies = side("batching · bf16 · dynamic 4, 200 ms · 4/s"), side("batching · bf16 · static 4 · 4/s")
    assert short_pair(*policies) == ("dynamic 4, 200 ms", "static 4")


def test_a_table_of_several_keeps_its_marks_and_its_intervals() -> None:
    values = {TOKENS: (100.0, 101.0, 102.0)}
    a, b = side("a" * 30 + " · fp32", values), side("b" * 30 + " · bf16", values)
    text = plain(screen(comparison_document([compare(a, b)] * 2)))
    row = text.splitlines()[3].split("  ")
    assert row[:5] == ["✓", "…bbbbbbbbbb · bf16", "…aaaaaaaaaa · fp32", "output tokens/s", "1.00×"]
    assert row[-1] == "0.98–1.02×"


@pytest.mark.parametrize("label", ["no steady state", "too short"])
def test_a_burst_against_a_sustained_window_is_a_category_error(label: str) -> None:
    found = compare(side("a"), side("b", label=label))
    assert found.verdict == "category error"
    assert [each.code for each in found.findings if each.severity == "disqualifies"] == ["peak-against-sustained"]
    assert sentence_of(found.findings[0]).startswith(f"B (b) has no sustained rate ({label}), and A (a) has one")
    both = compare(side("a", label=label), side("b", label=label))
    assert both.verdict == "not comparable"


def test_of_two_tables_only_the_entries_that_differ_are_said() -> None:
    tables = {"hidden_size": 128, "layers": 2, "heads": 4}, {"hidden_size": 256, "layers": 2, "heads": 4}
    a, b = (side(name, stack={"model.shape": table}) for name, table in zip("ab", tables, strict=True))
    assert "model shape: hidden size 128 → 256." in words(compare(a, b))
