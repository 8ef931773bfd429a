"""Calibrated precisions of OpenVINO, on a model that has learned something."""

from __future__ import annotations

from pathlib import Path

import pytest

from material import fixed, inference, quiet, spec_of, training
from twinlens.executors.registry import server
from twinlens.stats.metrics.fidelity import fidelity

pytestmark = [pytest.mark.slow, pytest.mark.torch]
for package in ("torch", "openvino", "nncf"):
    pytest.importorskip(package, reason="needs the openvino extra: make .venv/engines")

from twinlens.executors.torch.train import TorchTrainer  # noqa: E402


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINLENS_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model that has learned the known language: on random weights every method of rounding is as good."""
    trainer, folder = TorchTrainer(), tmp_path_factory.mktemp("trained") / "tiny"
    trainer.open(spec_of(training(global_batch=16, seq_len=64, learning_rate=3e-3)), quiet)
    losses = [trainer.step().loss or 0.0 for _ in range(120)]
    trainer.save(folder)
    assert losses[-1] < losses[0] - 3
    return str(folder)


def test_calibrated_rounding_is_nearer_to_fp32_and_the_record_names_its_prompts(trained: str) -> None:
    far = {}
    for precision in ("int4-weight", "int4-weight-gptq"):
        opened = server("openvino")
        try:
            asked = inference("openvino", model=trained, point={"precision": precision}, input_tokens=fixed(64))
            facts = opened.open(spec_of(asked), quiet)
        finally:
            opened.close()
        assert {c.tensor_class: c.verdict for c in facts.precision}["weights"] == "agrees"
        far[precision] = fidelity(facts.fidelity)["kl_nats"].value
    assert far["int4-weight-gptq"] < far["int4-weight"]
    said = facts.executor.value("precision.calibration")
    assert said.startswith("32 prompts of 64 tokens drawn from the workload's markov data, seed 1000000007, sha256 ")
