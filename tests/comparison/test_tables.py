"""Tables of evidence: training beside inference in two columns, and the kernels' share of a served token by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sides import side
from twinlens.comparison.lenses import change_of, lens_rows, runtime_shares
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import compare
from twinlens.errors import BadInput
from twinlens.pages import find
from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.tables import lenses_document, runtimes_document
from twinlens.reporting.text.fitted import plain
from twinlens.reporting.wording.finding import advice_of, sentence_of

TPOT = {"tpot_s_p50": (0.030, 0.031, 0.029)}


def engine(values: Any = None, **parts: Any) -> Side:
    return side("engine", values or TPOT, stack={"model.parameters": 34e6, "software.framework.threads": 1}, **parts)


def server(values: Any = None, **parts: Any) -> Side:
    return side(
        "server", values or {"tpot_s_p50": (0.040, 0.041, 0.039)}, arrival={"kind": "closed"}, point={"concurrency": 1},
        stack={"model.parameters": 34e6, "software.framework.threads": 1}, **parts,
    )  # fmt: skip


def pair(lens: str, ratio: float, precision: str = "bf16") -> Any:
    name = "output_tokens_per_s" if lens == "inference" else "training_tokens_per_s"
    rates = (100.0, 101.0, 99.0)
    a = side(f"{lens}-a", {name: rates}, lens=lens, asked=["point.precision=fp32"])
    b = side(f"{lens}-b", {name: tuple(ratio * each for each in rates)}, lens=lens,
             asked=[f"point.precision={precision}"])  # fmt: skip
    return compare(a, b)


def test_a_change_has_a_cell_in_each_lens_and_no_number_of_both() -> None:
    rows = lens_rows([pair("training", 2.0), pair("inference", 1.4)])
    (row,) = rows
    assert row.change == "bf16 against fp32"
    assert row.training is not None
    assert row.inference is not None
    shown = plain(screen(lenses_document(rows, ())), 80)
    line = next(line for line in shown.splitlines() if line.startswith("bf16 against fp32"))
    assert "2.00×" in line
    assert "1.40×" in line
    assert "1.70" not in shown, "the mean of the two is nowhere"
    assert set(encode(row)) == {"model", "change", "training", "inference"}


def test_a_lens_without_that_pair_says_so() -> None:
    shown = plain(screen(lenses_document(lens_rows([pair("inference", 2.0, "int8-weight")]), ())), 80)
    assert "does not exist" in shown, "weights of 8 bits are not trained"
    assert "not measured" in plain(screen(lenses_document(lens_rows([pair("training", 2.0)]), ())), 80)


def test_a_training_run_against_an_inference_run_is_no_row() -> None:
    assert lens_rows([compare(side("a", lens="training"), side("b"))]) == ()


def test_a_change_of_machine_names_both() -> None:
    a, b = side("a"), side("b", stack={"host.cpu.model": "Xeon"})
    assert change_of(compare(a, b)).endswith("m against m")


def test_the_share_of_kernels_is_worked_by_hand() -> None:
    (found,) = runtime_shares([engine(), server()])
    (share,) = found.shares
    assert share.share.value == pytest.approx(0.75)
    assert share.rest.value == pytest.approx(0.010)
    assert share.share.low is not None
    assert share.share.high is not None
    assert share.share.low < 0.75 < share.share.high
    assert (share.share.n, share.rest.n) == (6, 6)
    shown = plain(screen(runtimes_document([found])), 80)
    assert "75 %" in shown
    assert "10.0 ms" in shown


def test_two_runs_a_side_have_no_interval() -> None:
    (found,) = runtime_shares([engine({"tpot_s_p50": (0.03, 0.03)}), server({"tpot_s_p50": (0.04, 0.04)})])
    assert found.shares[0].share.low is None
    assert found.shares[0].share.no_interval


def test_a_faster_server_has_no_share_and_other_kernels_are_said() -> None:
    (found,) = runtime_shares([engine({"tpot_s_p50": (0.05, 0.05, 0.05)}), server()])
    codes = {each.code: each for each in found.findings}
    assert {"kernels-differ", "no-kernel-share"} <= set(codes), "the fake executor is not transformers serve"
    assert "×1.25 as long as the server" in sentence_of(codes["no-kernel-share"])
    for each in codes.values():
        assert not sentence_of(each).startswith("A check found")
        assert advice_of(each)
        assert find(each.code).name == "kernels-differ"


def test_what_is_not_the_same_work_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match="there is no served run"):
        runtime_shares([engine(), engine()])
    with pytest.raises(BadInput, match="there is no engine-level run"):
        runtime_shares([server()])
    with pytest.raises(BadInput, match="differs from engine in precision"):
        runtime_shares([engine(asked=["point.precision=bf16"]), server(asked=["point.precision=fp32"])])


def test_a_side_that_is_not_ranked_stands_against_the_split() -> None:
    (found,) = runtime_shares([engine(label="drift"), server()])
    assert "A (engine) is not valid" in " ".join(map(sentence_of, found.findings))


@given(st.floats(0.001, 1.0), st.floats(0.001, 1.0))
def test_share_and_rest_come_to_the_whole(kernels_s: float, rest_s: float) -> None:
    ours, theirs = ({"tpot_s_p50": (value,) * 3} for value in (kernels_s, kernels_s + rest_s))
    (found,) = runtime_shares([engine(ours), server(theirs)])
    share, rest = found.shares[0].share.value, found.shares[0].rest.value
    assert share is not None
    assert rest is not None
    assert share * (kernels_s + rest_s) + rest == pytest.approx(kernels_s + rest_s)


FITS = {
    "good-for": Finding("good-for", "notes", "training", {
        "lens": "training", "model": "demo", "precision": "bf16", "resource": "compute-bound", "label": "flat"}),
    "inadequate-for": Finding("inadequate-for", "notes", "inference", {
        "lens": "inference", "model": "demo", "precision": "bf16", "resource": "queue-bound", "label": "flat"},
        because=(Finding("slo-missed", "disqualifies", "ttft_s"),)),
    "fitness-unknown": Finding("fitness-unknown", "notes", "inference", {
        "lens": "inference", "model": "demo", "precision": "bf16", "resource": "indeterminate", "label": "drift"}),
    "training-state": Finding("training-state", "notes", "training", {
        "needed_bytes": 64 * 2**30, "memory_bytes": 24 * 2**30, "fits": False, "tokens": 80}),
}  # fmt: skip


@pytest.mark.parametrize("code", FITS)
def test_what_an_executor_is_good_for_has_words_and_a_page(code: str) -> None:
    said = {
        "good-for": "Good for training demo in bf16; what limits it: compute.",
        "inadequate-for": "Inadequate for inference with demo in bf16: slo missed; what limits it: queue.",
        "fitness-unknown": "Not judged for inference with demo in bf16: the run is not valid (drift).",
        "training-state": "Its memory (24.0 GiB) cannot hold the training state of this model: 64.0 GiB in bf16 with "
        "AdamW, one sequence of 80 tokens.",
    }
    assert sentence_of(FITS[code]) == said[code]
    assert advice_of(FITS[code])
    assert find(code).name == "good-for"


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("kernel-bound", "the rate of its kernels"), ("latency-bound", "fixed costs of a step"),
        ("below-ceilings", "no ceiling, it is below both"), ("queue-bound", "queue"),
    ],
)  # fmt: skip
def test_what_limits_a_run_is_said_in_words(verdict: str, words: str) -> None:
    found = FITS["good-for"]
    told = sentence_of(replace(found, numbers=dict(found.numbers) | {"resource": verdict}))
    assert told == f"Good for training demo in bf16; what limits it: {words}."
