from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from report_material import Pair, estimate, inference_run, relabelled, training_run
from served_material import served_run
from twinlens import units
from twinlens.reporting.point_name import point_names
from twinlens.reporting.text.sentence import _quality, against, both_counts, comparison, reference_of, sentences
from twinlens.reporting.view import view
from twinlens.stats.estimator.ratio import ratio_of_runs
from twinlens.stats.metrics.fidelity import Gate
from twinlens.stats.summary.group import Group, group


def said(pairs: list[Pair]) -> tuple[str, str, str]:
    report = view(pairs)
    return sentences(report.groups("training"), report.groups("inference"))


def steady(pair: Pair) -> Pair:
    return relabelled(pair, "flat", True)


def test_each_lens_gets_its_factor_with_its_interval(demo: list[Pair]) -> None:
    training, inference, apart = said(demo)
    assert training.startswith("Training: bf16 sustains 2.76× (2.7")
    assert "the tokens/s of fp32" in training
    assert inference.startswith("Inference: int8-weight sustains 2.0")
    assert "passes the quality check" in inference
    assert inference.endswith("Not valid: int4-weight.")
    assert "neither predicts the other" in apart
    assert "2.76× in training" in apart


def test_a_fast_precision_that_fails_the_gate_is_not_sold(tmp_path: Path) -> None:
    pairs = [
        steady(inference_run(tmp_path, regime, repeat, rows=40, facts=regime != "none"))
        for regime in ("fp32", "bf16", "int8-weight")
        for repeat in range(3)
    ]
    failed = [
        (run, summary if run.spec.point.precision != "int8-weight" else _no_go(summary)) for run, summary in pairs
    ]
    text = said(failed)[1]
    assert "int8-weight sustains" in text
    assert "but fails the quality check" in text
    assert "the fastest that passes is bf16 at 1.8" in text


def test_why_a_ratio_has_no_interval_is_the_reason_it_has_none_for() -> None:
    """ "fewer than 3 runs a side" also stood where there were three, of which the slower side was not clear of 0."""
    unclear = ratio_of_runs([100.0, 101.0, 99.0], [10.0, 0.1, 30.0])
    assert unclear.low is None
    assert "fewer than 3 runs" not in comparison(unclear)
    assert "not clear of 0" in comparison(unclear)
    assert "fewer than 3 runs" in comparison(ratio_of_runs([100.0, 101.0], [10.0, 11.0]))


def test_the_largest_of_several_ratios_has_a_wider_interval(demo: list[Pair]) -> None:
    """Of 7 equal precisions the largest ratio claimed a gain in 6.8 % of studies, where 2.5 % was said."""
    one, other = (found for found in view(demo).groups("training")[:2])
    alone, chosen = against(one, other), against(one, other, chosen_from=7)
    assert alone is not None
    assert chosen is not None
    assert chosen.value == alone.value
    assert chosen.level == pytest.approx(1 - 0.05 / 7)
    assert chosen.high - chosen.low > 1.5 * (alone.high - alone.low)


def test_a_stall_is_told_from_when_requests_were_due_and_from_when_they_were_sent(tmp_path: Path) -> None:
    _, summary = served_run(tmp_path, 4.0, late_s=1.5)  # held back for a second and a half, each of them
    text = both_counts(group([summary])[0], 3.0)
    assert text is not None
    due, sent = (summary.metrics[name].value or 0 for name in ("ttft_s_p90", "ttft_from_send_s_p90"))
    assert due - sent > 1.4
    assert "paused for 3 s" in text
    assert text.index("p90 TTFT is 1.5") < text.index("from when they were sent")
    _, nothing = served_run(tmp_path, 4.0, fails=1.0)
    assert both_counts(group([nothing])[0], 3.0) is None


def test_one_run_a_side_gives_no_interval_and_says_so(tmp_path: Path) -> None:
    pairs = [steady(training_run(tmp_path, regime, rows=60)) for regime in ("fp32", "bf16")]
    assert "(no interval: fewer than 3 runs a side)" in said(pairs)[0]


def test_what_may_not_be_ranked_is_not_compared(tmp_path: Path) -> None:
    pairs = [relabelled(training_run(tmp_path, p, rows=60), "drift", False) for p in ("fp32", "bf16")]
    text = said(pairs)[0]
    assert text == "Training: nothing is valid (fp32: drift; bf16: drift)."
    assert "×" not in text


def test_what_is_not_ranked_is_named_with_its_model_where_there_are_several(tmp_path: Path) -> None:
    """ "demo-34m · fp32 … Not valid: fp32." read as a contradiction: the second was another model's."""
    pairs = [steady(training_run(tmp_path, regime, rows=60)) for regime in ("fp32", "bf16")]
    pairs.append(relabelled(training_run(tmp_path, "fp32", rows=60, model="tiny"), "drift", False))
    text = said(pairs)[0]
    assert "the tokens/s of demo-34m · fp32" in text
    assert text.endswith("Not valid: tiny · fp32.")


def test_one_lens_says_nothing_about_the_other(tmp_path: Path) -> None:
    training, inference, apart = said([steady(training_run(tmp_path, rows=60))])
    assert "no other precision is valid" in training
    assert inference == "Inference: not measured."
    assert apart == "Only training was measured: it says nothing about inference."


def test_an_interval_across_one_is_no_difference() -> None:
    text = comparison(estimate(1.01, units.RATIO, 0.05))
    assert text == "1.01× (0.96–1.06×: no difference can be told)"


def test_a_slower_precision_is_said_to_be_slower(tmp_path: Path) -> None:
    pairs = [steady(training_run(tmp_path, p, r, rows=60)) for p in ("fp32", "fp16") for r in range(3)]
    assert said(pairs)[0].startswith("Training: fp16 sustains 0.6")


def _no_go(summary):  # type: ignore[no-untyped-def]
    return replace(summary, gate=Gate(False, (), {}))


def test_losses_are_told_apart_by_their_difference_and_not_by_the_overlap_of_their_intervals(tmp_path: Path) -> None:
    """The published losses were said not to be told apart: 0.090 to 0.362 nats lie between them."""
    trained = [training_run(tmp_path, regime, repeat, rows=30) for regime in ("fp32", "bf16") for repeat in range(3)]
    fp32, bf16 = (found for found in view(trained).groups("training")[:2])
    apart = _quality(_ended(bf16, 5.489, 5.382, 5.503), _ended(fp32, 5.720, 5.701, 5.630))
    assert "they differ by 0.09 to 0.36 nats" in apart
    assert "after equal time, not equal steps" in apart
    alike = _quality(_ended(bf16, 5.489, 5.382, 5.703), _ended(fp32, 5.720, 5.401, 5.630))
    assert "no difference can be told" in alike
    assert "told apart" not in alike


def _ended(one: Group, *losses: float) -> Group:
    runs = tuple(
        replace(run, metrics={"final_loss": estimate(loss, units.NATS)})
        for run, loss in zip(one.runs, losses, strict=True)
    )
    return replace(one, runs=runs, metrics={"final_loss": estimate(sum(losses) / 3, units.NATS)})


def test_an_adapter_is_set_beside_full_training_at_its_precision_and_named_by_its_method(tmp_path: Path) -> None:
    _, full = training_run(tmp_path, "bf16")
    _, wide = training_run(tmp_path, "fp32")
    asked = {"lora": {"method": "lora", "r": 8}, "dora": {"method": "dora", "r": 8}}
    tuned = [
        replace(full, run=name, point=full.point | point, identity=name, asked=name) for name, point in asked.items()
    ]
    groups = group([wide, full, *tuned])
    assert point_names(groups) == ("fp32 · full", "bf16 · full", "bf16 · lora", "bf16 · dora")
    assert [reference_of(each, groups) for each in groups[2:]] == [groups[1]] * 2
    assert reference_of(groups[1], groups) is groups[0]


def test_an_adapter_beside_weights_is_set_beside_the_one_that_is_merged(tmp_path: Path) -> None:
    _, one = inference_run(tmp_path, "bf16")
    ways = [
        replace(one, run=how, point=one.point | {"adapter": how, "r": 8}, identity=how, asked=how)
        for how in ("unmerged", "merged")
    ]
    groups = group(ways)
    assert point_names(groups) == ("bf16 · adapter unmerged", "bf16 · adapter merged")
    assert reference_of(groups[0], groups) is groups[1]
