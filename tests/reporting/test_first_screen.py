"""The first screen of a run: 24 lines of 80 columns, and no number cut on a narrower terminal."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.published import published
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from material import inference, spec_of, training
from report_material import Pair, image_run, inference_run, training_run
from served_material import served_run
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.store import find_runs
from twinlens.reporting.document.terminal import screen as as_screen
from twinlens.reporting.run.next_step import next_step
from twinlens.reporting.run.one import run_document
from twinlens.reporting.text.fitted import LINES, plain
from twinlens.reporting.text.footnote import Footnotes
from twinlens.reporting.wording.finding import advice_of
from twinlens.stats.run_summary import summarise
from twinlens.stats.steady.segment import VALIDITY

RESULTS = published()
PUBLISHED = sorted(path.parent for path in RESULTS.glob("*/*/*/run.json"))
_NUMBER = re.compile(r"(?<![a-zA-Z\d])\d[\d,.–]*")


@pytest.fixture(scope="module")
def published() -> list[Pair]:
    """The published runs, summarised without writing beside them."""
    runs = [run for folder in PUBLISHED for run in find_runs(folder)]
    return [(run, summarise(run)) for run in runs]


def screen(pair: Pair, width: int = 80) -> list[str]:
    return plain(as_screen(run_document(*pair)), width).splitlines()


def test_every_published_run_stands_on_one_screen(published: list[Pair]) -> None:
    assert len(published) >= 34
    for pair in published:
        lines = screen(pair)
        assert len(lines) <= LINES, pair[0].id
        assert max(map(cell_len, lines)) <= 80, pair[0].id
        assert "…" not in re.sub(r"… \d+ more line", "", "".join(lines[6:])), pair[0].id


@pytest.mark.parametrize("width", [30, 40, 60, 79, 100, 200])
def test_no_line_is_longer_than_the_terminal_and_no_number_is_cut(published: list[Pair], width: int) -> None:
    for run, summary in published[:: len(published) // 6]:
        lines = screen((run, summary), width)
        assert max(map(cell_len, lines)) <= width
        wide = " ".join(screen((run, summary), 200))
        for number in _NUMBER.findall(" ".join(lines)):
            assert number.rstrip(",") in wide, f"{number} at {width} columns"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    """A run of each kind."""
    parent = Path(tmp_path_factory.mktemp("made"))
    kinds: dict[str, Callable[[], Pair]] = {
        "training": lambda: training_run(parent),
        "engine": lambda: inference_run(parent, "bf16"),
        "images": lambda: image_run(parent),
        "rate": lambda: served_run(parent, 4.0),
        "closed": lambda: served_run(parent, 0.0, concurrency=4),
        "failing": lambda: served_run(parent, 4.0, fails=0.3),
        "unfinished": lambda: training_run(parent, rows=12, state="running", facts=False),
        "empty": lambda: served_run(parent, 4.0, seconds=0.001),
    }
    return {kind: make() for kind, make in kinds.items()}


@pytest.mark.parametrize("kind", ["training", "engine", "images", "rate", "closed", "failing", "unfinished", "empty"])
def test_a_run_of_every_kind_stands_on_one_screen(made: dict[str, Pair], kind: str) -> None:
    lines = screen(made[kind])
    assert len(lines) <= LINES
    assert max(map(cell_len, lines)) <= 80
    assert any(line.startswith("next ") for line in lines)


@settings(max_examples=30, deadline=None)
@given(width=st.integers(24, 160), kind=st.sampled_from(["training", "engine", "rate", "closed", "failing"]))
def test_a_screen_fits_any_width(made: dict[str, Pair], width: int, kind: str) -> None:
    assert max(map(cell_len, screen(made[kind], width))) <= width


def test_a_training_run_says_what_ran_and_how_its_mfu_was_counted(made: dict[str, Pair]) -> None:
    text = " ".join(" ".join(screen(made["training"])).split())
    for word in ("demo-34m", "fp32", "torch 2.13.0", "AMD EPYC", "batch 8 × 256 tokens", "60 s, 240 steps", "seed 0"):
        assert word in text, word
    assert re.search(r"MFU +[\d.]+% .*of 1\.50 TFLOP/s, matrix rate measured here", text)


def test_a_served_run_has_its_waits_its_goodput_and_its_failures(made: dict[str, Pair]) -> None:
    lines = screen(made["failing"])
    heads = next(line for line in lines if "p50" in line)
    assert heads.split() == ["p50", "p90", "p99"]
    assert {"TTFT", "TPOT", "ITL", "E2E"} <= {line.split()[0] for line in lines if line.strip()}
    text = " ".join(lines)
    assert "serving: 4 requests/s, poisson" in text
    assert "TTFT ≤ 0.5 s and TPOT ≤ 0.03 s" in " ".join(text.split())
    assert re.search(r"failed +\d+.* \d+ of \d+: failed, and nobody said why", " ".join(text.split()))


def test_a_figure_without_an_interval_has_a_mark_and_the_mark_a_sentence(made: dict[str, Pair]) -> None:
    lines = screen(made["unfinished"])
    marks = set(re.findall(r"\[\d+\]", " ".join(lines)))
    assert marks
    assert all(any(line.startswith(mark) for line in lines) for mark in marks)


def test_what_was_not_measured_is_one_sentence_by_reason(made: dict[str, Pair]) -> None:
    assert " ".join(screen(made["training"])).count("not measured:") == 1
    whole = " ".join(plain(as_screen(run_document(*made["training"]), whole=True)).split())
    energies = "energy/step, energy/token, energy to target, energy of the run, mean power"
    assert whole.partition("Every metric")[2].count("not measured:") == 1
    assert f"{energies} (no readable energy counter on this host)" in whole


def test_a_verdict_names_its_cause_before_other_warnings(made: dict[str, Pair]) -> None:
    run, summary = made["training"]
    cause = Finding("cause", "warns", "other-programs", {"how": "in time", "slow": 0.33, "calm": 0.02, "share": 0.8})
    odd = Finding("odd-thing", "warns")
    verdict = replace(
        summary.verdict,
        label="unproven",
        validity="provisional",
        least_visible_change=0.17,
        reason=Finding("unproven", "notes", "", {"rows": 22, "least_visible_change": 0.17}),
    )
    lines = screen((run, replace(summary, findings=(odd, cause), verdict=verdict)))
    place = next(
        number
        for number, line in enumerate(lines)
        if line.startswith("~ provisional: nothing wrong was seen, but a change of less than 17 %")
    )
    assert "33 %" in " ".join(lines[place + 1 : place + 3])
    assert "Stop the other programs" in " ".join(line for line in lines if line.startswith("next "))


def test_many_findings_are_cut_to_those_that_fit_and_counted(made: dict[str, Pair]) -> None:
    run, summary = made["rate"]
    many = tuple(Finding(f"odd-{number}", "warns") for number in range(12))
    lines = screen((run, replace(summary, findings=many)))
    assert len(lines) <= LINES
    assert any(re.match(r"… \d+ more lines: --all", line) for line in lines)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"state": "interrupted"}, "goes on where it stopped"),
        ({"state": "failed"}, "Mend what ended it"),
        ({"state": "failed", "code": "server-died"}, "Read the server's log"),
        ({"label": "unproven"}, "protocol.duration_s=240"),
        ({"label": "overload"}, "Offer less"),
        ({"code": "slo-missed"}, "--at rate_per_s=search"),
        ({"code": "server-died"}, "Read the server's log"),
        ({"code": "precision-differs"}, advice_of(Finding("precision-differs", "disqualifies"))),
    ],
)
def test_what_to_try_next_follows_from_what_was_found(made: dict[str, Pair], change: dict[str, str], said: str) -> None:
    run, summary = made["rate"]
    found = (Finding(change["code"], "disqualifies"),) if "code" in change else ()
    label = change.get("label", summary.verdict.label)
    verdict = replace(summary.verdict, label=label, validity=VALIDITY.get(label, "not valid"))
    changed = replace(summary, findings=found, verdict=verdict, state=change.get("state", "finished"))
    assert said in next_step(run, changed)


@pytest.mark.parametrize(
    ("load", "reason", "cause", "said"),
    [
        (0.9, "client-loaded", "", "executor.options.clients=auto"),
        (0.9, "client-loaded", "other-programs", "executor.options.clients=auto"),
        (0.009, "sent-late", "other-programs", "Stop the other programs"),
        (0.009, "read-late", "swapping", "Free memory"),
        (0.009, "sent-late", "", "Keep the client running"),
    ],
)
def test_more_clients_are_advised_only_where_the_load_is_too_much_for_one(
    made: dict[str, Pair], load: float, reason: str, cause: str, said: str
) -> None:
    run, summary = made["rate"]
    limit = Finding("client-limit", "disqualifies", because=(Finding(reason, "disqualifies"),))
    causes = (Finding("cause", "warns", subject=cause),) if cause else ()
    measured = dict(summary.metrics) | {
        "client_load": Estimate(load, "1", "tokens/s / the client's ceiling", "measured")
    }
    verdict = replace(summary.verdict, label="invalid", validity="not valid")
    changed = replace(summary, findings=(limit, *causes), metrics=measured, verdict=verdict)
    assert said in next_step(run, changed)


@pytest.mark.parametrize(
    ("reasons", "is_free"),
    [
        ([["7 of 64 tokens, finish_reason stop", 62]], True),
        (
            [
                ["7 of 64 tokens, finish_reason stop; the answer came in one piece, not as a stream", 40],
                ["HTTP 500", 22],
            ],
            True,
        ),
        ([["7 of 64 tokens, finish_reason length", 62]], False),
        ([["7 of 64 tokens, no finish_reason", 62]], False),
        ([["HTTP 503: busy", 60], ["7 of 64 tokens, finish_reason stop", 2]], False),
    ],
)
@pytest.mark.parametrize("state", ["finished", "failed"])
@pytest.mark.parametrize(
    ("code", "label"), [("mostly-failed", "failing"), ("mostly-failed", "flat"), ("requests-failed", "failing")]
)
def test_where_answers_end_by_themselves_free_lengths_are_advised(
    made: dict[str, Pair], reasons: list[list[Any]], is_free: bool, code: str, label: str, state: str
) -> None:
    run, summary = made["rate"]
    numbers = {"requests": 62, "lost": 62, "outcomes": {"cut_off": 62}, "reasons": reasons}
    severity = "warns" if code == "requests-failed" else "disqualifies"
    verdict = replace(summary.verdict, label=label, validity="not valid")
    changed = replace(summary, findings=(Finding(code, severity, numbers=numbers),), verdict=verdict, state=state)
    assert ("--set workload.output_tokens.kind=free" in next_step(run, changed)) is is_free


def test_more_time_is_not_advised_where_a_run_ended_at_its_target(made: dict[str, Pair]) -> None:
    run, summary = made["training"]
    few = replace(summary, findings=(), verdict=replace(summary.verdict, label="unproven", validity="provisional"))
    reached = Estimate(2.3, "s", "first evaluation at the target", "measured")
    for known, said in (
        (reached, "It ended at its target"),
        (Estimate.absent("s", "not reached"), "Measure four times"),
    ):
        ended = replace(few, metrics=dict(few.metrics) | {"time_to_target_s": known})
        assert next_step(run, ended).startswith(said)


_TURNS = {"protocol": {"pairing": "slices", "isolate": True, "slice_s": 0.1}, "sweep": {"precision": ["fp32", "bf16"]}}


@pytest.mark.parametrize(
    ("spec", "of_many", "said"),
    [
        (inference("fake"), False, "ratios survive them: --set protocol.pairing=slices"),
        (inference("fake", **_TURNS), False, "Its ratios survive other programs"),
        (inference("fake", **_TURNS), True, "and measure again"),
        (training("fake", until={"gap_nats": 0.1}), False, "and measure again"),
        (training("fake", checkpoint={"every_steps": 5}), False, "and measure again"),
        (inference("fake", arrival={"kind": "poisson"}, point={"rate_per_s": 1.0}), False, "and measure again"),
        (training("own-loop"), False, "and measure again"),
    ],
)
def test_turns_are_advised_only_where_they_could_be_taken(
    made: dict[str, Pair], spec: dict[str, Any], of_many: bool, said: str
) -> None:
    run, summary = made["training"]
    found = (Finding("cause", "warns", subject="other-programs"),)
    disturbed = replace(summary, findings=found, verdict=replace(summary.verdict, validity="not valid"))
    assert said in next_step(replace(run, spec=spec_of(spec)), disturbed, of_many=of_many)


def test_foreign_words_are_only_text(made: dict[str, Pair]) -> None:
    run, summary = made["training"]
    hostile = replace(
        summary, model="[bold red]x[/] \x1b[2J", metrics={"mfu": Estimate.absent("1", "[link=x]y[/link]")}
    )
    text = "\n".join(screen((run, hostile)))
    assert "[bold red]x[/] [2J" in text
    assert "[link=x]y[/link]" in text
    assert "\x1b" not in text


def test_footnotes_are_numbered_and_each_stands_once() -> None:
    notes = Footnotes()
    marks = [notes.mark(said) for said in ("p50 needs 6 values", "no counter", "p99 needs 368 values", "no counter")]
    assert marks == ["[1]", "[2]", "[3]", "[2]"]
    assert notes.sentences() == ["p50 needs 6 values", "no counter", "p99 needs 368 values"]


def test_evaluations_are_told_beside_the_steps_and_not_among_them(made: dict[str, Pair]) -> None:
    run, _ = made["training"]
    evaluations, steps = (int((run.steps.kind == kind).sum()) for kind in ("evaluate", "step"))
    assert evaluations >= 2
    assert f"{steps} steps, {evaluations} evaluations" in " ".join(" ".join(screen(made["training"])).split())
