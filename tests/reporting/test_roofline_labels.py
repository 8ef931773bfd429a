"""Labels on the roofline: none on another, none on a point, and phases of a step that make up the whole step."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report_material import training_run
from twinlens.diagnosis.phase import phase_work
from twinlens.record.estimate import Estimate
from twinlens.reporting.chart.roofline import Box, label_boxes, placed_points
from twinlens.reporting.view import view
from twinlens.theory.memory import LAYOUTS
from twinlens.theory.traffic import training_phase_bytes, training_step_bytes

POINTS = st.lists(st.tuples(st.floats(0, 380), st.floats(0, 320)), min_size=1, max_size=16)


@given(POINTS)
def test_no_label_covers_another_or_leaves_the_plot(points: list[tuple[float, float]]) -> None:
    boxes = label_boxes(points, [f"decode batch {n}" for n in range(len(points))], 380, 320)
    drawn = [box for box in boxes if box is not None]
    assert all(box.is_within(380, 320) for box in drawn)
    assert not any(a.meets(b) for a, b in combinations(drawn, 2))
    for box in drawn:
        assert not any(box.left < x < box.right and box.top < y < box.bottom for x, y in points)


def test_a_label_stands_right_of_a_point_that_is_alone() -> None:
    (box,) = label_boxes([(100, 100)], ["decode"], 380, 320)
    assert isinstance(box, Box)
    assert box.left > 100
    assert box.top < 100 < box.bottom


def test_a_label_without_a_free_place_is_left_out() -> None:
    assert label_boxes([(10, 10)], ["a name that is wider than the plot"], 40, 20) == [None]


def test_phases_of_a_step_have_its_flop_and_its_bytes(tmp_path: Path) -> None:
    run, _ = training_run(tmp_path, "fp32", rows=60)
    assert run.facts is not None
    work = phase_work(run)
    step = run.facts.work["step_flop"].value
    assert work["forward"][0] + work["backward"][0] == pytest.approx(step)
    assert work["backward"][0] == pytest.approx(2 * work["forward"][0])
    shape = run.spec.model.shape
    assert shape is not None
    layout = LAYOUTS["fp32"]
    parts = training_phase_bytes(shape, layout, 2, 64, 3)
    assert sum(parts.values()) == pytest.approx(training_step_bytes(shape, layout, 2, 64, 3))
    assert parts["backward"] > parts["forward"]  # it writes gradients, too


def test_a_step_is_placed_by_its_phases(tmp_path: Path) -> None:
    run, summary = training_run(tmp_path, "fp32", rows=60)
    shares = {"forward_share": 0.3, "backward_share": 0.6, "optimize_share": 0.1}
    for name, share in shares.items():
        summary.metrics[name] = Estimate(share, "1", "by hand", "measured")
    (lens,) = view([(run, summary)]).lenses
    placed, missing = placed_points(lens, lens.entries)
    assert [point.kind for point in placed] == ["forward", "backward", "optimizer"]
    assert missing == []
    step_s, (flop, moved) = summary.metrics["step_s_p50"].value, phase_work(run)["forward"]
    assert step_s is not None
    assert placed[0].flop_per_s == pytest.approx(flop / (0.3 * step_s))
    assert placed[0].flop_per_byte == pytest.approx(flop / moved)
