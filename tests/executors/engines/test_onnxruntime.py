"""ONNX Runtime itself: the contract of executors, the tokens of torch, and what its precisions really compute."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from material import inference, quiet, spec_of
from twinlens.executors.registry import server
from twinlens.stats.metrics.fidelity import fidelity
from twinlens.testing import conformance

pytestmark = [pytest.mark.slow, pytest.mark.torch]
pytest.importorskip("onnxruntime_genai", reason="needs the onnxruntime extra: make .venv/engines")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TWINLENS_CACHE", str(folder))
        yield


TestOnnxRuntime = conformance("onnxruntime")
TestOnnxRuntimeServed = conformance("onnxruntime-served")


@pytest.mark.parametrize(
    ("precision", "least", "most"), [("fp32", 0.999, 1e-6), ("int8-dynamic", 0.85, 0.02), ("int4-dynamic", 0.4, 0.2)]
)
def test_a_precision_runs_as_it_is_called_and_is_as_near_to_fp32_as_it_should(
    precision: str, least: float, most: float
) -> None:
    opened = server("onnxruntime")
    try:
        facts = opened.open(spec_of(inference("onnxruntime", point={"precision": precision, "batch": 2})), quiet)
    finally:
        opened.close()
    verdicts = {check.tensor_class: check.verdict for check in facts.precision}
    assert {verdicts.pop(name) for name in ("weights", "activations", "kv", "compute")} == {"agrees"}
    assert verdicts == {"accumulation": "unknown"}
    compared = fidelity(facts.fidelity)
    assert compared["top1_agreement"].value >= least
    assert compared["kl_nats"].value <= most
    assert facts.executor.value("software.framework.parallel_backend").keys() == {"CPUExecutionProvider"}


@pytest.mark.parametrize("model", ["resnet-tiny", "vit-tiny"])
def test_a_classifier_is_calibrated_on_stated_images_and_multiplies_integers(model: str) -> None:
    opened = server("onnxruntime")
    try:
        spec = spec_of(inference("onnxruntime", model=model, point={"precision": "int8-static", "batch": 2}))
        facts = opened.open(spec, quiet)
    finally:
        opened.close()
    verdicts = {check.tensor_class: check.verdict for check in facts.precision}
    assert verdicts["weights"] == "agrees"
    assert verdicts["compute"] == verdicts["activations"] == "agrees"
    assert "32 standard normal images" in facts.executor.value("precision.calibration")
    assert fidelity(facts.fidelity)["kl_nats"].value < 0.1


def test_widened_weights_are_told_from_integer_products() -> None:
    from twinlens.executors.onnxruntime.graph import _alone, quantised

    rng = np.random.default_rng(0)
    weights, rows = (rng.standard_normal((size, 64), dtype=np.float32) for size in (32, 4))
    errors = {}
    for bits in (4, 8):
        packed, scales, exact = quantised(weights, bits, 32)
        for level in (0, 4):
            how = {"K": 64, "N": 32, "bits": bits, "block_size": 32, "accuracy_level": level}
            seen, wanted = _alone(how, packed, scales, rows, 1), rows @ exact.T
            errors[bits, level] = float(np.abs(seen - wanted).max() / np.abs(wanted).max())
    assert max(errors[4, 0], errors[8, 0]) < 1e-5, "accuracy level 0 widens"
    assert min(errors[4, 4], errors[8, 4]) > 1e-3, "accuracy level 4 multiplies integers"
