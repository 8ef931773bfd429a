"""Training: traffic of experts over nodes, and the usual estimate that predictions are compared with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.prediction.case import Case
from benchmarks.prediction.one_mfu import by_one_mfu

from twinlens.planning.prediction.band import shipped
from twinlens.planning.prediction.place import rates_of
from twinlens.planning.prediction.training import TrainingLayout, training_step
from twinlens.planning.prediction.work import stored, work_of
from twinlens.spec.device import load_device
from twinlens.spec.model.reference import load_model
from twinlens.spec.model.shape import DecoderShape


def _expert_s(expert: int, domain: float) -> float:
    shape, kept = load_model("deepseek-v3").shape, stored("fp8")
    assert isinstance(shape, DecoderShape)
    rates = replace(rates_of(load_device("h100-sxm-80gb"), kept), domain=domain, link_bytes_per_s=50e9)
    fitted = shipped()["training"].constants.at(())
    layout = TrainingLayout(devices=256, expert=expert)
    return float(training_step(work_of(shape, kept), rates, layout, fitted, 256, 1, 4096).expert_s)


def test_a_token_goes_once_to_each_node_that_holds_some_of_its_experts() -> None:
    # Links are as fast inside as outside here: 8 experts on 8 nodes need 8 · (1 − (7/8)^8) = 5.25 copies, not 8.
    assert _expert_s(64, domain=8) / _expert_s(64, domain=64) == pytest.approx(8 * (1 - (7 / 8) ** 8) / 8, rel=1e-6)


def test_one_mfu_is_the_median_of_a_device_and_knows_nothing_of_a_device_without_other_models() -> None:
    layout = {"devices": 8.0, "frozen": 0.0, "recompute": 0.0}
    one = Case("train-step", 2.0, "f", "mpt-7b", load_device("h100-sxm-80gb"), 8, "bf16", "fsdp", layout, 8.0, 2048.0)
    slow, other = replace(one, value=4.0), replace(one, model="mpt-13b", value=3.0)
    assert by_one_mfu([one, one, slow], own_model=True) == pytest.approx([2.0, 2.0, 2.0])
    assert np.isnan(by_one_mfu([one, slow], own_model=False)).all()
    assert np.isfinite(by_one_mfu([one, other], own_model=False)).all()
