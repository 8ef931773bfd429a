"""The energy of a whole training run leaves out what its rate leaves out: looks at held-out data."""

from __future__ import annotations

from pathlib import Path

import pytest

from report_material import training_run
from twinlens.record.arrow import RowWriter
from twinlens.record.samples import TELEMETRY_SCHEMA, Sample
from twinlens.record.store import read_run
from twinlens.stats.run_summary import summarise


def test_a_run_at_constant_power_spends_it_on_its_steps_only(tmp_path: Path) -> None:
    """14.2 J a step were said of steps of 10.0 J, as evaluations were in the energy and not in the steps."""
    run, _ = training_run(tmp_path)
    watts, last_s = 100.0, int(run.steps.end_ns.max() / 1e9) + 2
    writer = RowWriter(run.folder / "telemetry.arrows", TELEMETRY_SCHEMA)
    for i in range(10 * last_s):
        writer.add(Sample(int(i * 1e8), "package:0", energy_mj=round(watts * 100 * i)))
    writer.close()
    summary = summarise(read_run(run.folder))
    per_step = summary.metrics["energy_per_step_j"]
    assert "stretches without work" in per_step.method
    steps = run.steps.where(run.steps.kind == "step")
    settled = (steps.end_ns - steps.begin_ns)[20:] / 1e9
    assert per_step.value == pytest.approx(watts * settled.mean(), rel=0.02)
    whole = summary.metrics["energy_to_completion_j"]
    lasted_s = (run.steps.end_ns.max() - run.steps.begin_ns[0]) / 1e9
    assert whole.value == pytest.approx(watts * lasted_s, rel=0.01)
