"""OpenVINO itself: the contract of executors, and what its precisions really compute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from material import inference, quiet, spec_of
from twinlens.executors.registry import server
from twinlens.stats.metrics.quality import fidelity
from twinlens.testing import conformance

pytestmark = [pytest.mark.slow, pytest.mark.torch]
pytest.importorskip("openvino", reason="needs the openvino extra: make .venv/engines")
pytest.importorskip("nncf", reason="needs the openvino extra: make .venv/engines")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TWINLENS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


TestOpenVino = conformance("openvino")
BOUNDS = [("fp32", 0.999, 1e-6), ("bf16", 0.9, 0.01), ("int4-weight", 0.4, 0.2)]


@pytest.mark.parametrize(("precision", "least", "most"), BOUNDS)
def test_a_precision_runs_as_it_is_called_and_is_as_near_to_fp32_as_it_should(
    precision: str, least: float, most: float
) -> None:
    opened = server("openvino")
    try:
        facts = opened.open(spec_of(inference("openvino", point={"precision": precision, "batch": 2})), quiet)
    finally:
        opened.close()
    verdicts = {check.tensor_class: check.verdict for check in facts.precision}
    assert {verdicts.pop(name) for name in ("weights", "activations", "kv", "compute")} == {"agrees"}
    compared = fidelity(facts.fidelity)
    assert compared["top1_agreement"].value >= least
    assert compared["kl_nats"].value <= most
    assert facts.executor.value("serving.attention") == "ScaledDotProductAttentionWithKVCache"
    assert facts.executor.value("software.framework.threads") == 1
