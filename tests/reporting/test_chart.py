from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import altair as alt
import pytest

from report_material import Pair, estimate, image_run, inference_run, training_run
from twinlens import units
from twinlens.reporting.chart.all import Charts, charts
from twinlens.reporting.chart.figure import _safe, data, figure
from twinlens.reporting.chart.rate import rate_chart
from twinlens.reporting.chart.roofline import placed_points
from twinlens.reporting.palette import PRECISION_COLOURS, colour
from twinlens.reporting.view import Entry, headline, view


@pytest.fixture(scope="module")
def drawn(demo: list[Pair]) -> dict[str, Charts]:
    return {lens.lens: charts(lens, checked=True)[0] for lens in view(demo).lenses}


def test_every_chart_is_drawn(drawn: dict[str, Charts]) -> None:
    assert not [
        one.id for found in drawn.values() for one in (*found.main, *found.timelines) if "cannot be drawn" in one.svg
    ]


def test_each_lens_has_its_charts(drawn: dict[str, Charts]) -> None:
    kinds = {lens: [one.id.split("-")[1] for one in found.main] for lens, found in drawn.items()}
    assert kinds["training"] == ["rate", "step", "loss", "phase", "memory", "rule", "roof"]
    assert kinds["inference"] == ["rate", "ttft", "tpot", "e2e", "memory", "roof"]
    assert [len(found.timelines) for found in drawn.values()] == [2, 4]


def test_every_chart_has_a_sentence_a_caption_and_a_description(drawn: dict[str, Charts]) -> None:
    for found in drawn.values():
        for one in (*found.main, *found.timelines):
            assert one.title.endswith(".")
            assert one.caption
            root = ElementTree.fromstring(one.svg)
            assert root.get("role") == "img"
            assert root.get("aria-label") == one.alt


def test_ids_of_two_charts_never_meet(drawn: dict[str, Charts]) -> None:
    ids = [
        id
        for found in drawn.values()
        for one in (*found.main, *found.timelines)
        for id in re.findall(r' id="([^"]+)"', one.svg)
    ]
    assert ids
    assert len(ids) == len(set(ids))
    used = {id for found in drawn.values() for one in found.main for id in re.findall(r"url\(#([^)]+)\)", one.svg)}
    assert used <= set(ids)


def test_one_precision_has_one_colour_in_both_lenses(drawn: dict[str, Charts]) -> None:
    assert len(set(PRECISION_COLOURS.values())) == len(PRECISION_COLOURS)
    for found in drawn.values():
        assert colour("bf16") in found.main[0].svg


@pytest.mark.parametrize(
    ("name", "is_drawn"),
    [("a\x00b", True), ("\ud800", True), ("\u202e" * 9, True), ("constructor", False), ("x" * 999, True)],
)
def test_no_name_ends_the_process_that_draws_it(name: str, is_drawn: bool) -> None:
    rows = [{"name": name, "value": 1.0}, {"name": "x", "value": 2.0}]
    bars = alt.Chart(data(rows)).mark_bar().encode(x=alt.X("name:N", title=name), y="value:Q").properties(title=name)
    drawn = figure("bars", bars, "Two bars.", "By name.")
    assert ("cannot be drawn" in drawn.svg) is (name == "constructor")


def test_a_chart_with_a_script_is_refused() -> None:
    with pytest.raises(ValueError, match="script"):
        _safe('<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"><script/></svg>', "a", "b")
    with pytest.raises(ValueError, match="onload"):
        _safe('<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1" onload="x"/>', "a", "b")


def test_points_on_the_roofline_by_hand(tmp_path: Path) -> None:
    pair = inference_run(tmp_path, "fp32", rows=60)
    (lens,) = view([pair]).lenses
    placed, missing = placed_points(lens, lens.entries)
    decode = next(point for point in placed if point.kind == "decode")
    took_s = pair[1].metrics["tpot_s_p50"].value
    assert took_s is not None
    assert missing == []
    assert decode.flop_per_s == pytest.approx(2 * 34e6 / took_s)
    moved = 34e6 * 4 + 5e6
    assert decode.flop_per_byte == pytest.approx(2 * 34e6 / moved)
    assert decode.reached == pytest.approx(2 * 34e6 / took_s / (2 * 34e6 / moved * 2.4e10))


def test_a_point_without_bytes_is_left_out_and_named(tmp_path: Path) -> None:
    run, summary = training_run(tmp_path, "fp32", rows=60)
    assert run.facts is not None
    del run.facts.work["step_bytes"]
    (lens,) = view([(run, summary)]).lenses
    assert placed_points(lens, lens.entries) == ([], ["training step of fp32 is left out: bytes not known"])
    found = charts(lens)[0]
    assert "roof" not in " ".join(one.id for one in found.main)
    assert found.missing == ("No roofline: training step of fp32 is left out: bytes not known.",)


def test_a_point_above_its_roof_is_called_impossible(tmp_path: Path) -> None:
    run, summary = training_run(tmp_path, "fp32", rows=60)
    assert run.facts is not None
    run.facts.ceilings["matrix_flop_per_s"] = estimate(1e11, units.FLOP_PER_S)
    roof = charts(view([(run, summary)]).lenses[0])[0].main[-1]
    assert "lies above its roof" in roof.title


def test_the_loss_chart_names_bound_and_target(drawn: dict[str, Charts]) -> None:
    loss = next(one for one in drawn["training"].main if one.id.endswith("loss"))
    assert "entropy rate 2.05" in loss.svg
    assert "target 2.20" in loss.svg
    assert "meets the target first, between" in loss.title


def test_curves_of_one_precision_differ_in_their_dashes(tmp_path: Path) -> None:
    material = [training_run(tmp_path / name, "fp32", rows=60) for name in ("one", "other")]
    for (_, summary), method in zip(material, ("full", "lora"), strict=True):
        summary.point["method"] = method
    loss = next(one for one in charts(view(material).lenses[0])[0].main if one.id.endswith("loss"))
    assert 'stroke-dasharray="7,3"' in loss.svg


def test_images_have_a_latency_and_no_token_times(tmp_path: Path) -> None:
    found = charts(view([image_run(tmp_path)]).lenses[0])[0]
    ids = [one.id for one in found.main]
    assert "inference0-e2e" in ids
    assert not any("ttft" in id or "tpot" in id for id in ids)


def test_runs_without_rows_or_facts_draw_nothing_and_do_not_fail(tmp_path: Path) -> None:
    empty = [
        training_run(tmp_path, rows=0, state="failed", facts=False, error="out of memory"),
        inference_run(tmp_path, rows=0, state="running", facts=False),
    ]
    for lens in view(empty).lenses:
        (found,) = charts(lens)
        assert found.timelines == ()
        assert found.missing


@pytest.mark.parametrize("reach", [0.02, 0.9, 180.0])
def test_the_words_of_a_bar_begin_where_its_interval_ends(demo: list[Pair], reach: float) -> None:
    """However wide the interval: its line went through its own label like a strike-through."""
    lens = view(demo).lenses[0]

    def widened(entry: Entry) -> Entry:
        (key, rate) = headline(entry.group) or pytest.fail("no rate")
        value = rate.value or 0.0
        wide = replace(rate, low=max(0.0, value * (1 - reach)), high=value * (1 + reach))
        return replace(entry, group=replace(entry.group, metrics=entry.group.metrics | {key: wide}))

    chart = rate_chart(lens, tuple(widened(entry) for entry in lens.entries), "a")
    assert chart
    root = ElementTree.fromstring(chart.svg)
    rules = {y: x + float(line.get("x2", 0)) for line, x, y in _placed(root, "line", "stroke-width", "2")}
    words = [(y, x) for _, x, y in _placed(root, "text", "text-anchor", "start") if x > 0]  # the title is at 0
    assert len(words) == len(rules) == len(lens.entries)
    for y, x in words:
        row = min(rules, key=lambda at: abs(at - y))
        assert x >= rules[row] + 4


def _placed(
    root: ElementTree.Element, tag: str, key: str, value: str
) -> list[tuple[ElementTree.Element, float, float]]:
    """Elements with an attribute of this value, each with where its own translation puts it."""
    placed = []
    for mark in root.iter():
        at = re.match(r"translate\(([-\d.]+),\s*([-\d.]+)\)", mark.get("transform") or "")
        if at and mark.tag.rpartition("}")[2] == tag and mark.get(key) == value:
            placed.append((mark, float(at[1]), float(at[2])))
    return placed
