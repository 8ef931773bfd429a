"""What the verbs give back: typed, frozen, a screenful at most, and ready for other tools."""

from __future__ import annotations

import builtins
import dataclasses
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import twinlens as tl
from material import for_rows, inference, measured, study_of, training
from twinlens.api.measuring import progress
from twinlens.errors import BadInput
from twinlens.measurement.event import Event
from twinlens.record.store import create_run

STUDY = training("fake", sweep={"precision": ["fp32", "bf16"]}, protocol={"repeats": 3} | for_rows(60))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tl.Outcome:
    return tl.measure(study_of(STUDY), tmp_path_factory.mktemp("runs"), watch=None)


def test_whatever_is_shown_at_a_prompt_is_a_screenful(outcome: tl.Outcome) -> None:
    run = outcome.runs[0]
    assert "\n" not in repr(run)
    assert run.id in repr(run)
    many = tl.Runs(outcome.runs.items * 20)
    for value in (outcome, outcome.runs, many, tl.summary(run), study_of(STUDY), tl.check(study_of(STUDY))):
        assert len(repr(value).splitlines()) <= 24
        assert len(repr(value)) < 6000
    assert repr(many).splitlines()[-1] == f"… and {len(many) - 20} more"
    estimate = tl.summary(run).metrics["training_tokens_per_s"]
    assert "1,280 tokens/s" in repr(estimate)
    assert "not measured: " in repr(tl.Estimate.absent("s", "no clock"))


def test_escapes_in_a_name_do_not_reach_the_prompt(tmp_path: Path) -> None:
    run = dataclasses.replace(measured(tmp_path, training("fake")), id="a\x1b[31mb")
    assert "\x1b" not in repr(run)


def test_runs_are_a_sequence_that_cannot_be_changed(outcome: tl.Outcome) -> None:
    runs = outcome.runs
    assert len(runs) == 6
    assert [run.id for run in runs[1:3]] == [runs[1].id, runs[2].id]
    assert isinstance(runs[:2], tl.Runs)
    assert len(runs + runs[:1]) == 7
    with pytest.raises(dataclasses.FrozenInstanceError):
        runs.items = ()  # type: ignore[misc]


def test_a_broken_run_is_raised_or_left_out_and_named(tmp_path: Path) -> None:
    whole = measured(tmp_path, training("fake"))
    broken = create_run(tmp_path, study_of(training("fake")).runs()[0])
    (broken / "run.json").write_text("{")
    with pytest.raises(BadInput, match=r"run\.json"):
        tl.read(tmp_path)
    runs = tl.read(tmp_path, skip_broken=True)
    assert [run.id for run in runs] == [whole.id]
    assert len(runs.faults) == 1
    assert "could not be read" in repr(runs)
    with pytest.raises(BadInput, match=r"run\.json"):
        tl.read(broken, skip_broken=True)


def test_a_check_says_what_measure_would_refuse_and_never_disagrees_with_the_command() -> None:
    study = study_of(training("fake"), "executor.kind=trch")
    with pytest.raises(BadInput, match="did you mean 'torch'"):
        tl.check(study)
    big = study_of(training("torch", "llama-3.1-70b"))
    with pytest.raises(BadInput, match="does not fit"):
        tl.check(big)
    checked = tl.check(big, refuse=False)
    assert "does not fit" in str(checked.refusal)
    assert checked.points[0].memory_bytes is not None
    assert checked.points[0].memory_bytes > 1e12


def test_a_frame_has_a_row_for_each_run_and_metric(outcome: tl.Outcome) -> None:
    pandas = pytest.importorskip("pandas", reason="needs the pandas extra")
    frame = tl.frame(outcome.runs)
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == sum(len(tl.summary(run).metrics) for run in outcome.runs)
    rate = frame[frame.metric == "training_tokens_per_s"]
    assert sorted(rate.precision) == ["bf16"] * 3 + ["fp32"] * 3
    assert rate.value.tolist() == pytest.approx([1280] * 6)
    assert len(tl.frame(outcome.runs[0])) == len(tl.summary(outcome.runs[0]).metrics)
    assert list(tl.frame([]).columns) == list(frame.columns)


def test_a_frame_without_pandas_is_one_sentence(outcome: tl.Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BadInput, match=r"pip install 'twinlens\[pandas\]'"):
        tl.frame(outcome.runs)


def test_rows_of_several_runs_are_one_table_that_names_them(outcome: tl.Outcome, tmp_path: Path) -> None:
    table = tl.rows(*outcome.runs[:2])
    assert table.column_names[0] == "run"
    assert table.num_rows == sum(run.table.num_rows for run in outcome.runs[:2])
    assert set(table["run"].to_pylist()) == {run.id for run in outcome.runs[:2]}
    other = measured(tmp_path, inference("fake"))
    with pytest.raises(BadInput, match="share no columns"):
        tl.rows(outcome.runs[0], other)
    with pytest.raises(BadInput, match="no run"):
        tl.rows()


class Screen(io.StringIO):
    """A terminal that can be read."""

    def __init__(self, *, tty: bool) -> None:
        super().__init__()
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, watch: tl.Progress | None, *, tty: bool) -> str:
    screen = Screen(tty=tty)
    monkeypatch.setattr(progress, "Console", lambda **_: Console(file=screen, force_terminal=tty, width=80))
    tl.measure(study_of(STUDY), tmp_path / "out", watch=watch)
    return screen.getvalue()


def test_progress_is_a_bar_in_a_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "small 6/6" in shown(monkeypatch, tmp_path, tl.Progress(after_s=0.0), tty=True)


def test_what_is_over_at_once_shows_no_progress(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert shown(monkeypatch, tmp_path, tl.Progress(after_s=3600.0), tty=True) == ""


def test_progress_in_a_log_is_lines_only_where_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert shown(monkeypatch, tmp_path / "a", tl.Progress(0.0, lines=True), tty=False).count("\n") >= 6
    assert shown(monkeypatch, tmp_path / "b", tl.Progress(0.0), tty=False) == ""
    assert shown(monkeypatch, tmp_path / "c", None, tty=True) == ""


def test_progress_names_the_executor_where_a_study_has_several(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = (
        study_of(inference("fake", **extra))
        for extra in ({}, {"variants": [{"executor.kind": "fake"}, {"executor.kind": "torch"}]})
    )
    for study in (one, two):
        with progress.watching(tl.Progress(0.0, lines=True), study, None) as watch:
            watch(Event(1, 2, study.point_runs()[0], "building", 0.0, 0))
    alone, among = capsys.readouterr().err.splitlines()
    assert (alone, among) == (f"{one.name} 1/2 fp32: building", f"{one.name} 1/2 fake fp32: building")


def test_progress_in_a_notebook_is_one_line_that_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    display = pytest.importorskip("IPython.display", reason="needs IPython")
    told: list[str] = []

    class Handle:
        def update(self, line: dict[str, str], *, raw: bool) -> None:
            told.append(line["text/html"])

    def first(line: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        told.append(line["text/html"])
        return Handle()

    monkeypatch.setattr(display, "display", first)
    monkeypatch.setattr(progress, "Console", lambda **_: Console(file=io.StringIO(), force_jupyter=True))
    study = study_of(STUDY | {"name": "small"})
    tl.measure(study, tmp_path, watch=tl.Progress(after_s=0.0))
    assert "small 6/6" in told[-1]
    assert "<progress" in told[0]


def test_a_notebook_shows_text_as_it_is_printed_and_only_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """rich displays what it prints where it believes to be in Jupyter, whatever file it was given."""
    runs = tl.measure(study_of(STUDY | {"name": "small"}), tmp_path, watch=None).runs
    outside = tl.show(*runs)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    inside = tl.show(*runs)
    assert inside == outside
    assert "valid" in inside.partition("\n")[0]
    assert inside._repr_html_().startswith("<pre")  # type: ignore[attr-defined]
    assert "<" not in inside._repr_html_().removeprefix('<pre style="line-height:1.25">').removesuffix("</pre>")  # type: ignore[attr-defined]
    assert tl.explain("ttft")._repr_markdown_() == tl.explain("ttft")  # type: ignore[attr-defined]
