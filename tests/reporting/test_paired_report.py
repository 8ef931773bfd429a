"""Ratios from paired slices in tables, sentences, JSON and HTML: which of the two is ranked, the ratio or the rates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from material import called, study_of, training
from twinlens.measurement.study import Outcome, measure_study
from twinlens.measurement.summary_file import summary_of
from twinlens.record.codec import encode
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.reporting.comparing.paired import cells, paired_document, paired_of, write_paired
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.paired import Paired, paired_json, ratios_lead, standing_words
from twinlens.reporting.report.page import render
from twinlens.reporting.text.equal_steps import at_equal_steps
from twinlens.reporting.text.first_lines import verdict_words
from twinlens.reporting.text.fitted import plain
from twinlens.reporting.text.sentence import sentences
from twinlens.reporting.view import in_order, view
from twinlens.reporting.wording.finding import with_words
from twinlens.stats.paired.ratio import PairedRatio
from twinlens.stats.summary.group import Group, group
from twinlens.stats.summary.point import PointVerdict

PAIRED = {"isolate": True, "pairing": "slices", "slice_s": 0.5, "duration_s": 6.0, "repeats": 3, "min_rows": 3}
STUDY = training("fake", options={"noise": 0.05}, sweep={"precision": ["fp32", "bf16"]}, protocol=PAIRED)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return measure_study(study_of(STUDY), tmp_path_factory.mktemp("out"))


def found_in(outcome: Outcome) -> tuple[tuple[Group, ...], tuple[Paired, ...]]:
    groups = group(map(summary_of, outcome.runs))
    return groups, paired_of(groups, outcome.runs)


def with_ratio(pair: Paired, value: float, **changes: object) -> Paired:
    ratio = Estimate(value, "1", "by hand", "derived", low=value * 0.98, high=value * 1.02, level=0.95, n=3)
    return replace(pair, result=replace(pair.result, ratio=ratio), fault="", validity="valid", **changes)  # type: ignore[arg-type]


def not_valid(pair: Paired, fault: str) -> Paired:
    return replace(pair, validity="not valid", fault=fault)


def test_each_point_that_took_turns_has_a_ratio_to_its_reference(outcome: Outcome) -> None:
    _, (one,) = found_in(outcome)
    assert (one.result.above, one.result.below, one.result.metric) == ("bf16", "fp32", "training_tokens_per_s")
    assert (one.result.repeats, one.result.label) == (3, "level")
    assert one.result.blocks >= 30
    assert one.ranked
    assert one.result.ratio.low is not None
    assert one.result.ratio.high is not None
    assert one.result.ratio.low < 1.02
    assert one.result.ratio.high > 0.98


def test_the_table_fits_a_terminal_and_says_what_is_ranked(outcome: Outcome) -> None:
    _, found = found_in(outcome)
    text = plain(screen(paired_document(found)))
    assert "Training · ratios from paired slices" in text
    assert "bf16 / fp32" in text
    assert "valid" in text
    assert "would have shown" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_ratio_that_drifts_is_shown_not_ranked_with_its_reason(outcome: Outcome) -> None:
    _, (one,) = found_in(outcome)
    document = paired_document([not_valid(one, "unsteady (the ratio grows by 9 % over a repeat)")])
    text = " ".join(plain(screen(document)).split())
    assert "the ratio is not valid: unsteady (the ratio grows by 9 % over a repeat)" in text
    assert cells(not_valid(one, "unsteady"))[-1] == "not valid"


def test_the_first_lines_count_ranked_ratios_beside_points_that_are_not(outcome: Outcome) -> None:
    groups, (one,) = found_in(outcome)
    shaky = tuple(replace(single, verdict=PointVerdict("not valid", "drift")) for single in groups)
    said = {
        number: verdict_words(shaky, turns)
        for number, turns in enumerate(((), (one,), (one, not_valid(one, "drift")), (not_valid(one, "drift"),)))
    }
    assert "paired" not in said[0]
    assert said[1].startswith("All 2 points are not valid. The one paired ratio is valid.")
    assert "Of 2 paired ratios 1 is valid, 1 not valid." in said[2]
    assert "The one paired ratio is not valid." in said[3]


def test_the_sentence_ranks_the_ratio_where_the_rates_are_not(outcome: Outcome) -> None:
    groups, (one,) = found_in(outcome)
    shaky = tuple(replace(single, verdict=PointVerdict("not valid", "drift")) for single in groups)
    pair = with_ratio(one, 1.83, group=shaky[groups.index(one.group)], reference=shaky[groups.index(one.reference)])
    said, _, _ = sentences(shaky, (), paired=[pair])
    assert "bf16 sustains 1.83× (1.79–1.87×) the tokens/s of fp32" in said
    assert "the ratio is valid, the absolute rates are not valid" in said
    assert "nothing is valid" in sentences(shaky, ())[0]


def test_the_sentence_says_it_where_both_are_ranked(outcome: Outcome) -> None:
    groups, (one,) = found_in(outcome)
    steady = tuple(replace(single, verdict=PointVerdict("valid", "flat")) for single in groups)
    pair = with_ratio(one, 1.83, group=steady[groups.index(one.group)], reference=steady[groups.index(one.reference)])
    assert standing_words([pair]) == "the ratio is valid, and so are the absolute rates"


def test_a_point_that_is_not_what_was_declared_is_not_ranked_by_a_ratio_either(outcome: Outcome) -> None:
    """Others on the machine met both sides; a precision that did not run is a fault of its own."""
    differs = Finding("precision-differs", "disqualifies", "weights", {})
    disturbed = Finding("disturbed", "disqualifies", "", {})
    for finding, ranked in ((differs, False), (disturbed, True)):
        summaries = [
            replace(summary, findings=(finding,)) if summary.point["precision"] == "bf16" else summary
            for summary in map(summary_of, outcome.runs)
        ]
        (one,) = paired_of(group(summaries), outcome.runs)
        assert one.ranked is ranked
    assert one.fault == ""


def test_no_ratio_that_cannot_be_told_from_one_is_called_a_gain(outcome: Outcome) -> None:
    groups, (one,) = found_in(outcome)
    said, _, _ = sentences(groups, (), paired=[with_ratio(one, 1.01)])
    assert "no difference can be told" in said


def test_runs_that_took_no_turns_have_no_paired_ratio(tmp_path: Path) -> None:
    outcome = measure_study(study_of(training("fake", sweep={"precision": ["fp32", "bf16"]})), tmp_path)
    assert found_in(outcome)[1] == ()


def test_html_has_the_table_and_the_sentence(outcome: Outcome) -> None:
    page = render(view([(run, summary_of(run)) for run in outcome.runs]))
    assert "Ratios from paired slices" in page
    assert "bf16 / fp32" in page
    assert "the ratio is valid" in page


def test_json_holds_the_ratio_beside_the_runs(outcome: Outcome) -> None:
    shown = called("show", outcome.folder, "--json")
    data = json.loads(shown.stdout)
    _, found = found_in(outcome)
    assert data["paired"] == json.loads(json.dumps(with_words(paired_json(found))))
    assert data["paired"][0]["reason"]["text"]
    assert len(data["runs"]) == 6


def test_show_prints_the_table_from_the_folder_alone(outcome: Outcome) -> None:
    assert "bf16 / fp32: " in called("show", outcome.folder).stdout
    assert "ratios from paired slices" in called("show", outcome.folder, "--all").stdout


def test_show_makes_the_file_of_ratios_again_where_it_says_something_else(outcome: Outcome) -> None:
    path = outcome.folder / "paired.json"
    path.write_text('{"schema": 1, "paired": []}')
    assert called("show", outcome.folder).exit_code == 0
    _, found = found_in(outcome)
    assert json.loads(path.read_text())["paired"] == json.loads(json.dumps(paired_json(found)))
    made_ns = path.stat().st_mtime_ns
    called("show", outcome.folder)
    assert path.stat().st_mtime_ns == made_ns, "equal data is not written again"
    path.write_text("{}")
    called("show", outcome.runs[0].folder)
    assert path.read_text() == "{}", "one run of several says nothing about the study"


def test_show_leaves_a_file_of_ratios_that_differs_in_a_last_digit_as_it_is(outcome: Outcome) -> None:
    path = outcome.folder / "paired.json"
    _, found = found_in(outcome)
    for factor, is_kept in ((1 + 1e-13, True), (1 + 1e-6, False)):
        write_paired(outcome.folder, found)
        data = json.loads(path.read_text())
        data["paired"][0]["ratio"]["value"] *= factor
        path.write_text(written := json.dumps(data))
        write_paired(outcome.folder, found)
        assert (path.read_text() == written) is is_kept, "another processor's last digit is no other ratio"
    assert data["paired"][0]["ratio"]["value"] != json.loads(path.read_text())["paired"][0]["ratio"]["value"]


def test_a_ratio_as_data_is_plain(outcome: Outcome) -> None:
    _, (one,) = found_in(outcome)
    plain_data = encode(one.result)
    assert json.loads(json.dumps(plain_data))["validity"] == "valid"
    assert set(PairedRatio.__slots__) <= set(plain_data)


def on_another_stack(member: Group, executor: str) -> Group:
    runs = tuple(
        replace(run, executor=executor, machine=replace(run.machine, stack=executor))  # type: ignore[type-var]
        for run in member.runs
    )
    return replace(member, runs=runs)


def test_points_of_several_executors_that_took_turns_stand_against_one_of_them(outcome: Outcome) -> None:
    fp32, bf16 = in_order(group(map(summary_of, outcome.runs)))
    pairs = paired_of((fp32, on_another_stack(bf16, "openvino")), outcome.runs)
    assert [(pair.result.above, pair.result.below) for pair in pairs] == [("openvino · bf16", "fake · fp32")]
    assert pairs[0].ranked


def test_points_of_several_executors_stand_against_torch_where_it_is_among_them(outcome: Outcome) -> None:
    first, second = in_order(group(map(summary_of, outcome.runs)))
    same = replace(second, point=first.point)
    pairs = paired_of((on_another_stack(first, "openvino"), on_another_stack(same, "torch")), outcome.runs)
    assert [(pair.result.above, pair.result.below) for pair in pairs] == [("openvino · fp32", "torch · fp32")]


def test_ratios_stand_before_rates_where_more_of_them_may_be_compared(outcome: Outcome) -> None:
    groups, (one,) = found_in(outcome)
    unsteady = [replace(each, verdict=replace(each.verdict, validity="not valid")) for each in groups]
    assert ratios_lead(unsteady, [one])
    ranked = [replace(each, verdict=replace(each.verdict, validity="valid")) for each in groups]
    assert not ratios_lead(ranked, [one])
    assert not ratios_lead(unsteady, [not_valid(one, "drift")]), "none of either"
    assert not ratios_lead(groups, [])


def test_losses_of_points_that_took_turns_are_after_equally_many_steps(outcome: Outcome) -> None:
    material = [(run, summary_of(run)) for run in outcome.runs]
    taken = [int((run.steps.kind == "step").sum()) for run, _ in material]
    assert len(set(taken)) > 1, "the faster point takes more steps in the same time"
    for (run, before), (_, after) in zip(material, at_equal_steps(material), strict=True):
        loss, least = after.metrics["final_loss"], min(taken)
        window = run.steps.loss[run.steps.kind == "step"][:least][-max(5, least // 10) :]
        assert loss.value == pytest.approx(window.mean())
        assert f"at equal steps: the last of {least}" in loss.method
        assert {**after.metrics, "final_loss": before.metrics["final_loss"]} == before.metrics
    entries = view(material).lenses[0].entries
    shown = {each.metrics["final_loss"].value for entry in entries for each in entry.group.runs}
    assert shown == {each.metrics["final_loss"].value for _, each in at_equal_steps(material)}


def test_a_run_that_stood_alone_keeps_its_own_loss(outcome: Outcome) -> None:
    (run, *_) = outcome.runs
    assert at_equal_steps([(run, summary_of(run))])[0][1] == summary_of(run)
