"""Falsifiers tried: which setting is changed, how the ratio rules, and the real way on a machine of known laws."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import twinlens as tl
from diagnosis.saturated import decoded, step, trained
from material import fixed, inference, measured, spec_of, training
from twinlens.api.judging.falsify import tried_on
from twinlens.api.measuring.trials import kept_trials
from twinlens.cli.main import app
from twinlens.diagnosis.counter import Counter
from twinlens.diagnosis.diagnosis import Diagnosis, by_class, diagnose_evidence
from twinlens.diagnosis.evidence import Evidence
from twinlens.errors import BadInput
from twinlens.proof.falsifier import Change, bound_of, change_of, metric_of, ruled, ruling_of, study_data, with_trials
from twinlens.record.beside import keep, tried
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, observed
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import advice_of, sentence_of
from twinlens.spec.load import parse
from twinlens.stats.paired.ratio import PairedRatio

BUSY = step(data=0.01, forward=0.3, backward=0.6, optimize=0.09)
COMPUTE = diagnose_evidence("run", trained(BUSY))
BANDWIDTH = diagnose_evidence("run", decoded(8e9, 8e9))
LATENCY = diagnose_evidence("run", decoded(1e9, 1e9))


def change(found: Diagnosis, data: dict[str, Any]) -> Change:
    return change_of(spec_of(data), found)


def test_twice_the_batch_is_a_setting_of_training_and_of_decode() -> None:
    assert change(COMPUTE, training()) == Change("workload.global_batch", 4, 8)
    assert change(LATENCY, inference(point={"batch": 3})) == Change("point.batch", 3, 6)


def test_of_accumulated_parts_the_part_is_doubled_and_the_work_stays() -> None:
    assert change(COMPUTE, training(point={"microbatch": 2})) == Change("point.microbatch", 2, 4)
    assert change(COMPUTE, training(point={"microbatch": 4})) == Change("workload.global_batch", 4, 8)
    with pytest.raises(BadInput, match="cannot be tried"):
        change(COMPUTE, training(global_batch=6, point={"microbatch": 2}))


def test_half_the_bits_are_the_next_precision() -> None:
    assert change(BANDWIDTH, inference()) == Change("point.precision", "fp32", "bf16")
    assert change(BANDWIDTH, inference(point={"precision": "bf16"})) == Change("point.precision", "bf16", "int8-weight")
    with pytest.raises(BadInput, match="no precision here has weights of half the bits"):
        change(BANDWIDTH, inference(point={"precision": "int8-weight"}))


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (trained(step(data=0.7, forward=0.1, backward=0.2)), "no setting of a run takes that wait away"),
        (trained(BUSY, ceilings={}), "has no falsifier to try"),
    ],
)
def test_a_change_that_no_setting_makes_is_refused_in_one_sentence(seen: Evidence, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        change(diagnose_evidence("run", seen), training())


def test_the_study_is_the_run_at_two_values_in_turns() -> None:
    spec = spec_of(inference(point={"batch": 2}))
    study = parse(study_data(spec, Change("point.batch", 2, 4), row_s=0.2))
    assert [run.point.batch for run in study.point_runs()] == [2, 4]
    assert (study.protocol.pairing, study.protocol.repeats, study.protocol.isolate) == ("slices", 1, True)
    assert study.protocol.slice_s == pytest.approx(1.0), "a slice holds rows of the larger batch, too"
    assert all((run.workload, run.executor) == (spec.workload, spec.executor) for run in study.point_runs())


SERVED = {"arrival": {"kind": "closed"}, "point": {"concurrency": 3}}


def test_of_a_served_run_the_load_is_doubled_in_a_closed_loop() -> None:
    assert change(LATENCY, inference(**SERVED)) == Change("point.concurrency", 3, 6)
    at_rate = spec_of(inference(arrival={"kind": "poisson"}, point={"rate_per_s": 4.0}, protocol={"stall": None}))
    found = replace(LATENCY, verdict=replace(LATENCY.verdict, numbers=dict(LATENCY.verdict.numbers) | {"batch": 5}))
    made = change_of(at_rate, found)
    assert made == Change("point.concurrency", 5, 10)
    study = parse(study_data(at_rate, made, 0.2, 5))
    assert [run.point.concurrency for run in study.point_runs()] == [5, 10]
    assert {run.workload.arrival.kind for run in study.point_runs()} == {"closed"}
    assert {run.point.rate_per_s for run in study.point_runs()} == {None}


def test_what_a_server_cannot_be_made_to_do_is_one_sentence() -> None:
    http = inference("openai-http", options={"url": "http://127.0.0.1:9/v1"}, **SERVED)
    assert change(LATENCY, http) == Change("point.concurrency", 3, 6), "its load can be changed"
    with pytest.raises(
        BadInput, match="weights of a server that is up cannot be changed from here; let Twinlens launch"
    ):
        change(BANDWIDTH, http)
    full = Facts(ExecutorRecord({"serving.max_sequences": observed(4, "by hand")}))
    with pytest.raises(BadInput, match="runs at most 4 requests at once, and 6 would be needed"):
        change_of(spec_of(http), LATENCY, full)
    launched = inference("transformers-serve", **SERVED)
    assert change(BANDWIDTH, launched) == Change("point.precision", "fp32", "bf16")
    with pytest.raises(BadInput, match="no precision here has weights of half the bits"):
        change(BANDWIDTH, launched | {"point": {"concurrency": 3, "precision": "bf16"}})


def of_phase(found: Diagnosis, phase: str, **numbers: float) -> Diagnosis:
    return replace(found, verdict=replace(found.verdict, subject=phase, numbers=numbers | {"change": "double-batch"}))


def test_the_bound_is_of_the_phase_or_of_all_and_of_the_batch_that_grew() -> None:
    rate, whole = "decode_tokens_per_s", "output_tokens_per_s"
    slow = of_phase(LATENCY, "decode", at_least=1.6)  # a quarter of the step grows with its batch
    assert bound_of(slow, rate, None) == {"at_most": None, "at_least": 1.6}
    assert bound_of(slow, rate, 2.0)["at_least"] == pytest.approx(1.6)
    assert bound_of(slow, rate, 1.5)["at_least"] == pytest.approx(1.5 / 1.125)
    share = LATENCY.partition.share("decode")
    assert bound_of(slow, whole, None)["at_least"] == pytest.approx(1 / (share / 1.6 + 1 - share))
    full = of_phase(LATENCY, "prefill", at_most=1.2)
    share = LATENCY.partition.share("prefill")
    assert bound_of(full, whole, None)["at_most"] == pytest.approx(1 / (share / 1.2 + (1 - share) / 2))
    assert bound_of(full, "prefill_tokens_per_s", None)["at_most"] == 1.2


def test_a_batch_that_did_not_grow_rules_nothing() -> None:
    why = Finding("quiet", "notes")
    ratio = PairedRatio("a", "b", "decode_tokens_per_s", between(1.0, 1.05), "level", why, None, 1, 16, 32, 0)
    tried_at = Change("point.concurrency", 1, 2)
    full = of_phase(LATENCY, "decode", at_most=1.2)
    assert ruled(full, tried_at, ratio, "study", 2.0).numbers["ruling"] == "confirmed"
    said = ruled(full, tried_at, ratio, "study", 1.1)
    assert said.numbers["ruling"] == "undecided"
    assert sentence_of(said).endswith("did not compute the added requests together, so its batch was not doubled.")


def between(low: float, high: float) -> Estimate:
    return Estimate((low * high) ** 0.5, "1", "by hand", "derived", low=low, high=high, level=0.95)


@pytest.mark.parametrize(
    ("bound", "ratio", "ruling"),
    [
        ({"at_most": 1.4}, between(1.0, 1.1), "confirmed"),
        ({"at_most": 1.4}, between(1.5, 1.9), "refuted"),
        ({"at_most": 1.4}, between(1.3, 1.5), "undecided"),
        ({"at_least": 1.8}, between(1.85, 2.0), "confirmed"),
        ({"at_least": 1.8}, between(1.0, 1.1), "refuted"),
        ({"at_least": 1.8}, between(1.7, 1.9), "undecided"),
        ({"at_most": 1.4}, Estimate(1.0, "1", "by hand", "derived", no_interval="too few"), "undecided"),
        ({}, between(1.0, 1.1), "undecided"),
        ({"at_least": 1.3, "at_most": 1.6}, between(0.74, 1.25), "refuted"),  # it gained nothing, and was "confirmed"
        ({"at_least": 1.3, "at_most": 1.6}, between(1.35, 1.5), "confirmed"),
        ({"at_least": 1.3, "at_most": 1.6}, between(1.2, 1.5), "undecided"),
        ({"at_least": 1.3, "at_most": 1.6}, between(1.7, 1.9), "refuted"),
    ],
)
def test_the_whole_interval_rules(bound: dict[str, Any], ratio: Estimate, ruling: str) -> None:
    assert ruling_of(bound, ratio) == ruling


def trial(found: Diagnosis, ratio: Estimate) -> Finding:
    """A trial that is kept with its run; its ruling is of an earlier version, which judged one side only."""
    numbers = {"verdict": found.verdict.code, "metric": "decode_tokens_per_s", "ruling": "confirmed", "path": "x"}
    return Finding("falsifier-tried", "notes", "decode", numbers | {"from": 1, "to": 2}, {"ratio": ratio})


def test_a_refuted_verdict_is_withdrawn_from_headline_and_advice() -> None:
    after = with_trials(BANDWIDTH, [trial(BANDWIDTH, between(0.74, 1.25))])
    assert (after.verdict.code, after.verdict.numbers["why"]) == ("indeterminate", "refuted")
    assert sentence_of(after.verdict) == (
        "Decode is indeterminate: bandwidth-bound was refuted by its own test, and is withdrawn."
    )
    assert after.findings[0].numbers["ruling"] == "refuted"
    assert "bandwidth-bound" not in {each.code for each in after.phases}
    assert "narrower" not in advice_of(after.verdict)
    kept = with_trials(BANDWIDTH, [trial(BANDWIDTH, between(1.4, 1.8))])
    assert kept.verdict == BANDWIDTH.verdict


@pytest.mark.parametrize(
    ("gained", "code"), [((1.9, 2.0), "latency-bound"), ((1.0, 1.3), "kernel-bound"), ((1.5, 1.9), "below-ceilings")]
)
def test_below_both_ceilings_is_two_causes_and_the_trial_says_which(gained: tuple[float, float], code: str) -> None:
    after = with_trials(LATENCY, [trial(LATENCY, between(*gained))])
    assert after.verdict.code == code
    assert ("raise the batch" in advice_of(after.verdict)) is (code == "latency-bound")


def test_a_verdict_on_kernels_says_their_classes_where_a_profile_was_kept() -> None:
    shares = {"matrix products": 0.59, "attention": 0.11}
    beside = {name: Estimate(share, "1", "profiler", "measured") for name, share in shares.items()}
    kernels = Counter("kernels", beside["attention"], "medium", "decode", beside, "profiler")
    found = by_class(replace(LATENCY, counters=(*LATENCY.counters, kernels)))
    assert "Time by class of kernel: matrix products 59 %, attention 11 %." in sentence_of(found.verdict)
    assert found.verdict in found.phases


def test_the_rate_is_that_of_the_phase_the_verdict_is_about() -> None:
    known = ("output_tokens_per_s", "decode_tokens_per_s")
    assert metric_of(BANDWIDTH, known) == "decode_tokens_per_s"
    assert metric_of(COMPUTE, ("training_tokens_per_s",)) == "training_tokens_per_s"


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize(("per_request_s", "ruling"), [(0.0001, "confirmed"), (0.008, "refuted")])
def test_on_a_machine_of_known_laws_the_ruling_is_the_law(per_request_s: float, ruling: str, tmp_path: Path) -> None:
    """A decode step takes 8 ms whatever its batch: fixed costs, ×2. Or 8 ms for each request of it: ×1."""
    laws = {"pace": 1, "a_s": 0.002, "b_s": 0.0, "c_s": 0.008, "d_s": per_request_s}
    short = {"duration_s": 0.3, "min_rows": 3}
    run = measured(tmp_path / "runs", inference("fake", options=laws, output_tokens=fixed(6), protocol=short))
    found = replace(LATENCY, run=run.id, partition=replace(LATENCY.partition, parts={"decode": 0.05}))
    finding = tried_on(run, found, None, None)
    assert finding.numbers["ruling"] in (ruling, "undecided"), (
        "a busy machine widens the interval; it turns nothing round"
    )
    assert (finding.evidence["ratio"].value > 1.5) is (ruling == "confirmed")
    assert (finding.numbers["path"], finding.numbers["from"], finding.numbers["to"]) == ("point.batch", 1, 2)
    assert (finding.severity == "warns") is (finding.numbers["ruling"] == "refuted")
    assert tried(run.folder) == (finding,), "it is kept with the run"
    assert (run.folder.parent / finding.numbers["study"] / "study.json").exists()
    edited = replace(finding, numbers={**finding.numbers, "rounds": 900}, evidence={"ratio": between(9.0, 9.1)})
    keep(run.folder, edited)
    assert kept_trials(run) == [finding, finding], "an edited file is not believed: the rows of its two runs are"
    says = {"confirmed": "it is latency-bound", "refuted": "the kernels are below their ceilings"}
    assert says.get(finding.numbers["ruling"], "undecided") in sentence_of(finding)


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize(("per_token_s", "ruling"), [(0.0, "confirmed"), (0.002, "refuted")])
def test_prefill_is_tried_by_its_own_rate(per_token_s: float, ruling: str, tmp_path: Path) -> None:
    """A prefill takes 12 ms whatever its prompts: ×2. Or 2 ms for each token of them: ×1."""
    laws = {"pace": 1, "a_s": 0.012 if per_token_s == 0 else 0.0, "b_s": per_token_s, "c_s": 0.001, "d_s": 0.0}
    short = {"duration_s": 0.3, "min_rows": 3}
    data = inference("fake", options=laws, input_tokens=fixed(8), output_tokens=fixed(2), protocol=short)
    run = measured(tmp_path / "runs", data)
    found = replace(of_phase(LATENCY, "prefill", at_least=1.6), run=run.id)
    found = replace(found, partition=replace(LATENCY.partition, parts={"prefill": 0.05}))  # else each side takes 80 s
    finding = tried_on(run, found, None, None)
    assert finding.numbers["metric"] == "prefill_tokens_per_s"
    assert finding.numbers["ruling"] in (ruling, "undecided")
    assert (finding.evidence["ratio"].value > 1.5) is (ruling == "confirmed")


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize(("per_request_s", "ruling"), [(0.0, "confirmed"), (0.008, "refuted")])
def test_a_server_under_open_load_is_tried_in_a_closed_loop(per_request_s: float, ruling: str, tmp_path: Path) -> None:
    laws = {"pace": 1, "a_s": 0.002, "b_s": 0.0, "c_s": 0.008, "d_s": per_request_s}
    load = {"arrival": {"kind": "constant"}, "point": {"rate_per_s": 20.0}, "output_tokens": fixed(6)}
    run = measured(
        tmp_path / "runs", inference("fake", options=laws, protocol={"duration_s": 0.5, "min_rows": 3}, **load)
    )
    found = replace(of_phase(LATENCY, "decode", at_least=1.6, batch=2), run=run.id)
    found = replace(found, partition=replace(LATENCY.partition, parts={"decode": 0.05}))
    finding = tried_on(run, found, None, None)
    assert (finding.numbers["path"], finding.numbers["from"], finding.numbers["to"]) == ("point.concurrency", 2, 4)
    assert finding.numbers["metric"] == "decode_tokens_per_s"
    assert finding.numbers["grown"] > 1.5
    assert finding.numbers["ruling"] in (ruling, "undecided")
    assert (finding.evidence["ratio"].value > 1.4) is (ruling == "confirmed")
    assert "with ×" in sentence_of(finding)


def test_a_ruling_is_shown_with_the_verdict_it_is_of_and_with_no_other(tmp_path: Path) -> None:
    run = measured(tmp_path, inference("fake"))
    (found,) = tl.diagnose(run)
    numbers = {
        "verdict": found.verdict.code, "path": "point.batch", "from": 1, "to": 2, "ruling": "confirmed", "at_most": 1.4,
    }  # fmt: skip
    about = Finding("falsifier-tried", "notes", "decode", numbers, {"ratio": between(1.0, 1.1)})
    keep(run.folder, replace(about, numbers=numbers | {"verdict": "queue-bound"}))
    assert "falsifier-tried" not in {each.code for each in tl.diagnose(run)[0].findings}
    keep(run.folder, about)
    quoted = tl.diagnose(run)[0].findings[0]
    assert quoted == replace(about, numbers={**about.numbers, "quoted": True}), "its two runs are nowhere"
    assert "as falsifier.json quotes it" in sentence_of(quoted)
    shown = CliRunner().invoke(app, ["diagnose", str(run.folder)])
    text = " ".join(shown.stdout.split())
    assert "point.batch from 1 to 2 gave 1.05× (" in text
    assert "at most ×1.40 was expected" in text
    tl.report([run], to=tmp_path / "report.html")
    assert "point.batch from 1 to 2 gave 1.05× (" in (tmp_path / "report.html").read_text()


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    for text in ("{", '{"tried": 3}', '{"tried": [{}]}', "[]", json.dumps({"tried": [{"code": 1}]})):
        (tmp_path / "falsifier.json").write_text(text)
        with pytest.raises(BadInput, match="cannot be read"):
            tried(tmp_path)


def test_the_command_takes_one_run_and_a_verdict_that_has_a_falsifier(tmp_path: Path) -> None:
    run = measured(tmp_path, inference("fake"))
    told = CliRunner().invoke(app, ["diagnose", str(run.folder), "--try"])
    assert told.exit_code == 2
    assert "has no falsifier to try" in " ".join(told.stderr.split())
    measured(tmp_path, inference("fake", protocol={"seed": 2}))
    two = CliRunner().invoke(app, ["diagnose", str(tmp_path), "--try"])
    assert (two.exit_code, "one run at a time" in " ".join(two.stderr.split())) == (2, True)
