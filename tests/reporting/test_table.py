from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from report_material import Pair, image_run, inference_run, training_run, whole_text
from twinlens.record.estimate import Estimate
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.run.one import run_document
from twinlens.reporting.text.fitted import plain
from twinlens.reporting.text.footnote import in_lines
from twinlens.reporting.view import view
from twinlens.spec.precision import Lens
from twinlens.stats.summary.group import group


def shown(pairs: list[Pair], lens: Lens) -> str:
    return whole_text(view(pairs).groups(lens))


@pytest.mark.parametrize("lens", ["training", "inference"])
def test_a_table_fits_eighty_columns_and_cuts_nothing_off(demo: list[Pair], lens: Lens) -> None:
    text = shown(demo, lens)
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert "…" not in text


def test_long_names_and_many_settings_still_fit(tmp_path: Path) -> None:
    pairs = [inference_run(tmp_path, "int8-dynamic", batch=size, rows=40) for size in (1, 16)]
    text = shown(pairs, "inference")
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert "batch 16" in text


def test_values_of_a_column_end_in_the_same_place(demo: list[Pair]) -> None:
    lines = shown(demo, "training").splitlines()
    rates = [line for line in lines if line[2:].startswith(("fp32 ", "bf16 "))]
    assert len(rates) == 2
    ends = [line.index(line.split()[2]) + len(line.split()[2]) for line in rates]
    assert ends[0] == ends[1]


def test_what_is_not_ranked_is_shown_last_and_marked(demo: list[Pair]) -> None:
    text = shown(demo, "inference")
    points = [line.split()[1] for line in text.splitlines() if line.startswith(("✓ ", "~ ", "✗ "))]
    assert points.index("int4-weight") > points.index("int8-weight")
    assert "✗ int4-weight is not valid: " in text


def test_energy_without_a_counter_is_said_with_its_reason(demo: list[Pair]) -> None:
    text = shown(demo, "training")
    assert "energy (no readable energy counter on this host)" in " ".join(text.split())


def test_two_runs_give_a_range_and_the_table_says_so(tmp_path: Path) -> None:
    text = shown([training_run(tmp_path, "fp32", repeat) for repeat in range(2)], "training")
    assert "(±) is the range of two runs: no confidence is claimed." in " ".join(text.split())


def test_the_gate_stands_beside_speed(demo: list[Pair]) -> None:
    lines = [line for line in shown(demo, "inference").splitlines() if re.match("[✓~✗] [a-z0-9-]+ +[0-9]", line)]
    rows = {line.split()[1]: line for line in lines}
    assert " pass" in rows["int8-weight"]
    assert " fail" in rows["int4-weight"]
    assert " ref" in rows["fp32"]


def test_images_and_tokens_do_not_share_a_table(tmp_path: Path) -> None:
    text = shown([inference_run(tmp_path, rows=40), image_run(tmp_path)], "inference")
    assert "Inference · demo-34m" in text
    assert "Inference · resnet-tiny" in text
    images = text[text.index("resnet-tiny") :]
    assert "TTFT" not in images
    assert "images/s" in images.replace("\n", " ")


def test_every_metric_of_a_run_has_value_n_origin_and_method(demo: list[Pair]) -> None:
    run, summary = next(pair for pair in demo if pair[0].spec.point.precision == "fp32")
    text = plain(screen(run_document(run, summary), whole=True))
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    for method in {found.method for found in summary.metrics.values() if found.value is not None}:
        words = [word for word in re.split(r"[\d,.]+", method.split(",")[0][:40]) if len(word) > 3]
        assert all(word in " ".join(text.split()) for word in words), method
    assert "step p99 (p99 needs at least 368 values" in " ".join(text.split())


def test_markup_in_a_name_is_only_text(tmp_path: Path) -> None:
    run, summary = training_run(tmp_path, rows=30)
    hostile = replace(
        summary,
        model="[bold red]x[/] \x1b[2J",
        metrics={"mfu": Estimate.absent("1", "[link=http://x]y[/link]")},
    )
    assert "[bold red]x[/] [2J" in shown([(run, hostile)], "training")
    text = plain(screen(run_document(run, hostile), whole=True))
    assert "[link=http://x]y[/link]" in text
    assert "\x1b" not in text


def test_a_share_above_one_is_marked_in_the_table_of_a_study(tmp_path: Path) -> None:
    _, summary = inference_run(tmp_path, "fp32")
    over = {"mbu": replace(summary.metrics["mbu"], value=1.95, low=1.9, high=2.0)}
    (one,) = group([replace(summary, metrics=summary.metrics | over)])
    text = " ".join(whole_text([one]).split())
    assert "MBU: above 100%: its ceiling was measured too low" in text


def test_a_long_name_is_broken_and_never_cut() -> None:
    assert in_lines("llama-cpp-engine", 15) == ["llama-cpp-", "engine"]
    assert in_lines("torch, compiled", 15) == ["torch, compiled"]
    assert in_lines("dynamic 8, 50.0 ms", 12) == ["dynamic 8,", "50.0 ms"]
    assert in_lines("averylongnamewithoutabreak", 12) == ["averylongnamewithoutabreak"], "the table folds it"


def test_names_that_differ_at_their_ends_stay_apart_at_80_columns(demo: list[Pair]) -> None:
    ends = ("engine, compiled", "engine, as shipped")
    points = [
        replace(single, runs=tuple(replace(run, executor=f"llama-cpp-{end}") for run in single.runs))
        for single, end in zip(view(demo).groups("inference"), ends, strict=False)
    ]
    text = whole_text(points)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text.split("Each row")[0]
    for end in ("engine", "compiled", "as", "shipped"):
        assert end in text
