"""OpenVINO itself: the contract of executors, and what its precisions really compute."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from material import inference, quiet, spec_of
from twinlens.errors import ExecutorFailed
from twinlens.executors.in_process.engine_server import export_of
from twinlens.executors.registry import server
from twinlens.stats.metrics.fidelity import fidelity
from twinlens.testing import conformance

pytestmark = [pytest.mark.slow, pytest.mark.torch]
pytest.importorskip("openvino", reason="needs the openvino extra: make .venv/engines")
pytest.importorskip("nncf", reason="needs the openvino extra: make .venv/engines")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TWINLENS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


pytest.importorskip("openvino_genai", reason="needs the openvino extra: make .venv/engines")
from twinlens.executors.openvino import served  # noqa: E402 - not there without the extra
from twinlens.executors.openvino.decoder import computes_in_bf16  # noqa: E402

TestOpenVino = conformance("openvino")
TestOpenVinoServed = conformance("openvino-served")
BOUNDS = [("fp32", 0.999, 1e-6), ("bf16", 0.9, 0.01), ("int4-weight", 0.4, 0.2)]


def falls_back(precision: str) -> set[str]:
    """What a processor without products in bf16 has in fp32 instead; the run says so, class by class."""
    if precision == "fp32" or computes_in_bf16():
        return set()
    return {"activations", "compute"} if precision.startswith("int") else {"weights", "activations", "compute"}


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
    assert {name for name in ("weights", "activations", "kv", "compute") if verdicts[name] != "agrees"} == falls_back(
        precision
    )
    compared = fidelity(facts.fidelity)
    assert compared["top1_agreement"].value >= least
    assert compared["kl_nats"].value <= most
    assert facts.executor.value("serving.attention") == "ScaledDotProductAttentionWithKVCache"
    assert facts.executor.value("software.framework.threads") == 1


def test_a_token_written_in_place_continues_the_text_as_if_it_were_read_at_once() -> None:
    from twinlens.executors.openvino import decoder

    spec = spec_of(inference("openvino", point={"precision": "fp32", "batch": 2}))
    export = export_of(decoder.RUNTIME, spec, spec.model.known(), quiet)
    request = decoder.OpenVinoDecoder(export.path, spec, spec.model.known(), 1)._request
    text = np.random.default_rng(1).integers(0, 200, (2, 5))
    first = decoder._step(request, text, 0, np.array([4])).argmax(-1)
    second = decoder._step(request, first, 5, np.array([0])).argmax(-1)
    third = request.logits_again(second, 6).copy()
    request.request.reset_state()
    whole = decoder._step(request, np.concatenate([text, first, second], axis=1), 0, np.array([6]))
    np.testing.assert_allclose(third, whole, atol=1e-3)


@pytest.mark.parametrize("model", ["resnet-tiny", "vit-tiny"])
def test_a_classifier_is_calibrated_on_stated_images_and_multiplies_integers(model: str) -> None:
    opened = server("openvino")
    try:
        spec = spec_of(inference("openvino", model=model, point={"precision": "int8-static", "batch": 2}))
        facts = opened.open(spec, quiet)
    finally:
        opened.close()
    verdicts = {check.tensor_class: check.verdict for check in facts.precision}
    assert (verdicts["weights"], verdicts["activations"], verdicts["compute"]) == ("agrees",) * 3
    assert "32 standard normal images, seed 7, sha256 " in facts.executor.value("precision.calibration")
    assert fidelity(facts.fidelity)["kl_nats"].value < 0.1


@pytest.mark.parametrize(("precision", "most"), [("fp32", 1e-6), ("bf16", 0.01)])
def test_a_classifier_runs_in_the_format_asked_for(precision: str, most: float) -> None:
    opened = server("openvino")
    try:
        spec = spec_of(inference("openvino", model="resnet-tiny", point={"precision": precision, "batch": 2}))
        facts = opened.open(spec, quiet)
    finally:
        opened.close()
    compute = {check.tensor_class: check.verdict for check in facts.precision}["compute"]
    assert compute == ("differs" if falls_back(precision) else "agrees")
    assert fidelity(facts.fidelity)["kl_nats"].value < most


@pytest.mark.parametrize("precision", ["fp32", *(["bf16"] if computes_in_bf16() else [])])
def test_requests_join_a_batch_that_runs_and_the_cache_is_in_the_format_asked_for(precision: str) -> None:
    opened = server("openvino-served")
    try:
        facts = opened.open(spec_of(inference("openvino-served", point={"precision": precision})), quiet)
    finally:
        opened.close()
    assert facts.executor.value("serving.batching") == "continuous: a request joins while others run"
    assert {check.tensor_class: check.verdict for check in facts.precision}["kv"] == "agrees"
    assert fidelity(facts.fidelity)["kl_nats"].value < 0.01


def test_a_cache_that_this_processor_cannot_have_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "computes_in_bf16", lambda: False)
    with pytest.raises(ExecutorFailed, match="KV cache of bf16 in bf16, and this processor has no products in bf16"):
        server("openvino-served").open(spec_of(inference("openvino-served", point={"precision": "bf16"})), quiet)
