"""Several points on one screen: a line a point, no number cut, and whatever differs between them named."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.published import published
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from report_material import Pair, first_text, inference_run, training_run
from served_material import served_run
from twinlens.record.store import find_runs
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.run.points import runs_document
from twinlens.reporting.text.fitted import LINES, plain
from twinlens.stats.run_summary import summarise
from twinlens.stats.summary.group import Group, group

FOLDERS = sorted(published().glob("*/"))
_NUMBER = re.compile(r"\d[\d,.]*\d")


@pytest.fixture(scope="module")
def published() -> dict[str, list[Pair]]:
    return {folder.name: [(run, summarise(run)) for run in find_runs(folder)] for folder in FOLDERS}


@pytest.fixture(scope="module")
def rates(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    """Eight points of one served model."""
    parent = Path(tmp_path_factory.mktemp("rates"))
    return [served_run(parent, rate, seconds=20.0) for rate in (0.5, 1, 2, 3, 4, 6, 8, 10)]


def lines_of(pairs: list[Pair], width: int = 80) -> list[str]:
    return plain(screen(runs_document(pairs)), width).splitlines()


@pytest.mark.parametrize("folder", [folder.name for folder in FOLDERS])
def test_every_published_study_stands_on_one_screen(published: dict[str, list[Pair]], folder: str) -> None:
    lines = lines_of(published[folder])
    assert len(lines) <= LINES
    assert max(map(cell_len, lines)) <= 80


def test_eight_points_are_eight_lines_of_a_screen(rates: list[Pair]) -> None:
    lines = lines_of(rates)
    assert len(lines) <= LINES
    points = [line for line in lines if re.match(r"[✓✗] bf16 +[\d.]+ ", line)]
    assert [line.split()[2] for line in points] == ["0.5", "1", "2", "3", "4", "6", "8", "10"]


def test_columns_line_up_under_whole_heads(rates: list[Pair]) -> None:
    lines = lines_of(rates)
    head = next(line for line in lines if "TTFT p50" in line)
    assert "…" not in head
    ends = {found.end() for line in lines if (found := re.match(r"[✓✗] bf16 +[\d.]+ ", line))}
    assert len(ends) == 1


@settings(max_examples=25, deadline=None)
@given(width=st.integers(30, 140), which=st.sampled_from([folder.name for folder in FOLDERS]))
def test_no_line_is_too_long_and_no_number_is_cut(published: dict[str, list[Pair]], width: int, which: str) -> None:
    groups = group(summary for _, summary in published[which])
    lines = first_text(groups, width).splitlines()
    assert max(map(cell_len, lines)) <= width
    wide = first_text(groups, 400)
    rows = [
        line
        for line in lines
        if line.startswith(("✓", "~", "✗")) and " not valid: " not in line and " provisional: " not in line
    ]
    for number in _NUMBER.findall(" ".join(rows)):
        assert number in wide, f"{number} at {width} columns"


def test_a_narrow_table_says_which_columns_it_left_out(rates: list[Pair]) -> None:
    text = " ".join(lines_of(rates, 50)[-3:])
    assert "left out here: " in text
    assert "TPOT p50" in text


def test_runs_that_were_taken_again_are_counted_in_the_table(tmp_path: Path) -> None:
    pairs = [training_run(tmp_path, regime, repeat, rows=40) for regime in ("fp32", "bf16") for repeat in range(2)]
    summary = pairs[0][1]
    again = replace(summary, run=f"{summary.run}b", attempt=2)
    groups = group([*(one for _, one in pairs), again])
    text = first_text(groups, 120)
    assert "runs" in text
    assert "2 + 1 again" in text


def test_the_title_names_software_only_where_all_points_ran_on_it(tmp_path: Path) -> None:
    pairs = [training_run(tmp_path, regime, rows=40) for regime in ("fp32", "bf16")]
    first, second = (summary for _, summary in pairs)
    assert second.machine is not None
    software = second.machine.software
    assert software in first_text(group([first, second]), 200)
    other = replace(second, machine=replace(second.machine, software="DeepSpeed 0.19.8"))
    both = first_text(group([first, other]), 200)
    assert software not in both
    assert "DeepSpeed" not in both


def test_points_of_two_days_say_which_is_which(tmp_path: Path) -> None:
    first, second = (training_run(tmp_path, regime, rows=40)[1] for regime in ("fp32", "bf16"))
    groups = group([replace(first, run="2026-01-02T000000Z_a"), replace(second, run="2026-01-05T000000Z_b")])
    text = " ".join(first_text(groups, 120).split())
    assert "2026-01-02 to 2026-01-05" in text
    assert re.search(r"fp32 .* 01-02", text)
    assert re.search(r"bf16 .* 01-05", text)


def test_points_of_two_machines_stand_in_tables_that_name_them(tmp_path: Path) -> None:
    pairs = [training_run(tmp_path, regime, rows=40) for regime in ("fp32", "bf16")]
    summaries = [summary for _, summary in pairs]
    machine = summaries[1].machine
    assert machine is not None
    summaries[1] = replace(summaries[1], machine=replace(machine, id="other", name="Another CPU", stack="s"))
    text = first_text(group(summaries), 200)
    assert "A: AMD EPYC" in text
    assert "B: Another CPU" in text


def test_a_point_is_marked_as_ranked_or_not_without_colour(rates: list[Pair]) -> None:
    groups: tuple[Group, ...] = group(summary for _, summary in rates)
    text = first_text(groups)
    assert text.count("✓ bf16") == sum(one.validity == "valid" for one in groups)
    assert text.count("✗ bf16") >= sum(not one.ranked for one in groups)


def test_what_no_point_has_is_one_sentence(tmp_path: Path) -> None:
    pairs = [inference_run(tmp_path, regime, rows=40) for regime in ("fp32", "bf16")]
    text = " ".join(" ".join(lines_of(pairs)).split())
    assert text.count("not measured:") == 1
    assert "energy (no readable energy counter on this host)" in text
