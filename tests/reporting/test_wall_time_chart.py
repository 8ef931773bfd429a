"""The chart of where the wall time went, and the columns of runs that saved."""

from pathlib import Path

from report_material import Pair, training_run
from twinlens.record.codec import encode
from twinlens.record.sections import Checkpoints, Recovery, Resumed, Save
from twinlens.record.store import read_run, update_run
from twinlens.reporting.chart.all import wall_time_chart
from twinlens.reporting.text.column import columns
from twinlens.reporting.view import view
from twinlens.reporting.wording.finding import sentence_of
from twinlens.stats.run_summary import summarise

S = 10**9


def saved(parent: Path, *, worst: float | None = 0.0, unknown: int = 0) -> Pair:
    """A run with the record of one save and one recovery beside it."""
    run, _ = training_run(parent)
    recovery = Recovery(1, 40, 20, 1, 10 * S, 11 * S, 29 * S, 30 * S, Resumed(19, worst, 1e-4, unknown))
    known = Checkpoints("sync", 20, "ext4", 10**9, 4 * 10**8, (Save(20, 5 * S, S, 6 * S),), None, recovery)
    update_run(run.folder, checkpoints=encode(known), startup_s=12.0)
    again = read_run(run.folder)
    return again, summarise(again)


def test_the_wall_time_of_a_run_that_saved_is_drawn_and_has_columns(tmp_path: Path) -> None:
    lens = view([saved(tmp_path)]).lenses[0]
    chart = wall_time_chart(lens.entries, "wall")
    assert chart is not None
    assert "went into steps that were kept" in chart.title
    assert "start-up" in chart.svg
    heads = [column.head for column in columns("training", [entry.group for entry in lens.entries])]
    assert heads[3:6] == ["save costs", "recovery", "goodput"]


def test_a_run_that_saved_nothing_has_no_such_chart(demo: list[Pair]) -> None:
    lens = next(each for each in view(demo).lenses if each.lens == "training")
    assert wall_time_chart(lens.entries, "wall") is None


def test_losses_that_differ_after_a_kill_are_not_ranked_and_none_compared_neither(tmp_path: Path) -> None:
    for worst, code in ((0.5, "resumed-differs"), (None, "resumed-not-compared")):
        _, summary = saved(tmp_path / code, worst=worst)
        found = next(each for each in summary.findings if each.code == code)
        assert found.severity == "disqualifies"
        assert not summary.ranked
        assert "the kill" in sentence_of(found)


def test_a_loss_that_is_no_number_after_a_kill_is_not_ranked_and_the_sentence_says_so(tmp_path: Path) -> None:
    _, summary = saved(tmp_path, worst=0.0, unknown=2)
    found = next(each for each in summary.findings if each.code == "resumed-differs")
    assert not summary.ranked
    assert "in 2 of them a loss is absent or not finite" in sentence_of(found)


def test_losses_that_are_equal_are_told_with_the_recovery(tmp_path: Path) -> None:
    _, summary = saved(tmp_path)
    told = {each.code: sentence_of(each) for each in summary.findings}
    assert "with 1 restart." in told["rank-killed"]
    assert "resumed-equal" in told
    assert "holds no save" in told["few-saves"]
