from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from report_material import Pair, inference_run, relabelled, training_run
from twinlens.record.executor.record import ExecutorRecord, observed
from twinlens.record.finding import Finding
from twinlens.reporting.load_kind import kind_of
from twinlens.reporting.point_name import point_names
from twinlens.reporting.report.executor import _machine_line
from twinlens.reporting.view import in_order, runs_word, view, why_not_valid
from twinlens.reporting.wording.finding import label_words
from twinlens.reporting.wording.steadiness import could_hide
from twinlens.stats.summary.group import group


def test_two_lenses_stay_two_sections_with_training_first(demo: list[Pair]) -> None:
    report = view(list(reversed(demo)))
    assert [lens.lens for lens in report.lenses] == ["training", "inference"]
    for lens in report.lenses:
        assert {summary.lens for entry in lens.entries for _, summary in entry.material} == {lens.lens}
    assert len(report.material) == len(demo)


def test_points_go_from_wide_to_narrow_whatever_order_they_were_measured_in(demo: list[Pair]) -> None:
    names = [[entry.name for entry in lens.entries] for lens in view(demo).lenses]
    assert names == [["fp32", "bf16"], ["fp32", "bf16", "int8-weight", "int4-weight"]]


def test_repeats_stand_together_with_their_runs(demo: list[Pair]) -> None:
    for lens in view(demo).lenses:
        for entry in lens.entries:
            assert [run.spec.repeat for run, _ in entry.material] == [0, 1, 2]
            assert {run.spec.point.precision for run, _ in entry.material} == {entry.precision}


def test_a_report_of_no_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        view([])


def test_names_say_only_what_differs(tmp_path: Path) -> None:
    pairs = [inference_run(tmp_path, "fp32", batch=size, rows=30) for size in (1, 8)]
    groups = view(pairs).groups("inference")
    assert point_names(groups) == ("fp32 · batch 1", "fp32 · batch 8")


def test_two_stacks_with_the_same_settings_get_two_names(tmp_path: Path) -> None:
    first, second = (inference_run(tmp_path, "fp32", rows=30) for _ in range(2))
    other = (second[0], replace(second[1], executor="torch, compiled"))
    assert len(set(point_names(view([first, other]).groups("inference")))) == 2


def test_points_that_differ_in_settings_of_the_executor_are_called_by_them(tmp_path: Path) -> None:
    pairs = [training_run(tmp_path, "fp32", rows=30) for _ in range(3)]
    asked = ({"threads": 1, "ranks": 1}, {"threads": 1, "ranks": 2}, {"threads": 1, "ranks": 2, "tensor": 2})
    changed = [
        (run, replace(summary, settings=settings, identity=str(settings)))
        for (run, summary), settings in zip(pairs, asked, strict=True)
    ]
    names = point_names(view(changed).groups("training"))
    assert names == ("fp32 · ranks 1", "fp32 · ranks 2", "fp32 · ranks 2 · tensor 2")


def test_the_reason_for_not_ranking_counts_the_runs(demo: list[Pair]) -> None:
    reasons = {entry.name: why_not_valid(entry.group) for entry in view(demo).lenses[1].entries}
    assert reasons["fp32"] is None
    assert reasons["int4-weight"] is not None
    assert reasons["int4-weight"].startswith("not valid: slowdown in 1 of 3 runs (")


def test_an_unfinished_run_keeps_its_group_from_being_ranked(tmp_path: Path) -> None:
    pairs = [
        training_run(tmp_path, "fp32", 0),
        training_run(tmp_path, "fp32", 1, rows=60, state="interrupted"),
    ]
    (group,) = view([relabelled(pair, "flat", True) for pair in pairs]).groups("training")
    assert not group.ranked
    assert why_not_valid(group) == "not valid: unfinished (interrupted) in 1 of 2 runs"


def test_labels_are_said_in_words() -> None:
    assert label_words("flat / warm-up") == "steady / steady after warm-up"
    assert label_words("drift") == "drift"


def test_notes_are_told_once(tmp_path: Path) -> None:
    pairs = [training_run(tmp_path, "fp32", repeat, rows=30, notes=("said twice",)) for repeat in range(2)]
    assert view(pairs).notes.count("said twice") == 1


def test_findings_that_differ_only_in_their_numbers_are_said_once() -> None:
    from twinlens.reporting.view import _once

    late = [Finding("read-late-stamped", "notes", "", {"late_s": late_s}) for late_s in (0.00844, 0.000017, 0.00844)]
    said = "The client read late (p99 8.44 ms); times are the kernel's, so the delay is not in them"
    assert _once(late) == [f"{said} (the first of 3 runs in which this was found)."]
    assert _once(late[:1] * 3) == [f"{said}."]


def test_a_title_names_every_study(tmp_path: Path) -> None:
    from twinlens.reporting.view import _listed

    assert _listed(["a"]) == "a"
    assert _listed(["a", "b", "c", "d"]) == "a, b, c and d"


def test_one_is_not_counted_as_several() -> None:
    def line(threads: int) -> str:
        record = ExecutorRecord({"host.cpu.usable_threads": observed(threads, "by hand")})
        return _machine_line(SimpleNamespace(machine=None), record)  # type: ignore[arg-type]

    assert [line(1), line(2)] == ["1 usable processor", "2 usable processors"]
    assert [runs_word(1), runs_word(3)] == ["1 run", "3 runs"]


def test_points_that_differ_in_a_switch_are_named_by_it_the_default_first(demo: list[Pair]) -> None:
    one = next(summary for _, summary in demo if summary.lens == "inference")
    asked = [{"ngram_tokens": 3}, {"prefix_caching": False}, {}]
    several = [replace(one, run=f"r{n}", identity=f"{n}", options=kept | {"cpus": 1}) for n, kept in enumerate(asked)]
    precision = one.point["precision"]
    assert [name.replace(precision, "P") for name in point_names(in_order(group(several)))] == [
        "P · default",
        "P · ngram tokens 3",
        "P · prefix caching off",
    ]
    assert kind_of(group(several)[1]) == f"{precision}, prefix caching off"
    alone = group([several[0]])[0]
    assert point_names([alone]) == (precision,), "what all points share is in no name"
    assert alone.switches is None


@pytest.mark.parametrize(
    ("change", "says"),
    [(0.17, "a change of less than 17 %"), (1.0, "even a change of 100 %"), (1758.5, "even a change of 100 %")],
)
def test_a_change_that_could_hide_is_said_in_a_size_that_means_something(change: float, says: str) -> None:
    assert f"but {says} could hide" in could_hide(change)
