"""Memory of several ranks: categories are of one of them, the peak is of all, and is not drawn as made of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from report_material import training_run
from twinlens.record.codec import encode
from twinlens.record.executor.record import observed
from twinlens.record.store import read_run
from twinlens.reporting.chart.memory import _memory_parts, rule_chart
from twinlens.reporting.view import Entry, LensView, view
from twinlens.stats.run_summary import summarise


def drawn(folder: Path, ranks: int) -> tuple[LensView, Entry]:
    """One run of so many ranks, of which the fullest holds 1 GB, and which peak at 20 GB together."""
    run, _ = training_run(folder, "bf16", 0)
    record = run.folder / "run.json"
    data = json.loads(record.read_text())
    data["facts"]["executor"]["training.world_size"] = encode(observed(ranks, "torch.distributed"))
    for name in ("weights_bytes", "gradients_bytes", "optimizer_bytes"):
        data["facts"]["memory"][name]["value"] = 1e9 / 4
    data["device_memory"] = {"allocated_peak_bytes": 20_000_000_000, "reserved_peak_bytes": 20_000_000_000}
    data["facts"]["executor"]["accelerator.uuid"] = encode(observed(["GPU-a"], "torch"))
    record.write_text(json.dumps(data))
    again = read_run(run.folder)
    (lens,) = view([(again, summarise(again))]).lenses
    return lens, lens.entries[0]


@pytest.mark.parametrize("ranks", [1, 8])
def test_what_remains_of_a_peak_is_drawn_of_one_process_alone(ranks: int, tmp_path: Path) -> None:
    lens, entry = drawn(tmp_path, ranks)
    assert entry.group.metrics["peak_bytes"].value == 2e10
    assert ("rest of the peak" in _memory_parts(lens, entry)) == (ranks == 1), "of 8 ranks it would be of seven others"
    assert (rule_chart((entry,), "rule") is None) == (ranks == 8), "a rank may hold a part of the model"
    said = entry.group.metrics["bytes_per_parameter"].method
    assert ("what one of 8 ranks keeps" in said) == (ranks == 8)
