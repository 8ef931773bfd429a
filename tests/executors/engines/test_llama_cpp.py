"""llama.cpp itself in this process: the contract of executors, and what its file types really hold."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from benchmarks.runtimes.own_tools import llama_bench

from material import inference, quiet, spec_of
from twinlens.executors.in_process.engine_server import export_of
from twinlens.executors.registry import server
from twinlens.spec.model.reference import load_model
from twinlens.stats.metrics.fidelity import fidelity
from twinlens.testing import conformance

pytestmark = [pytest.mark.slow, pytest.mark.torch]
pytest.importorskip("llama_cpp", reason="needs the llama-cpp-engine extra: make .venv/engines")
pytest.importorskip("gguf", reason="needs the llama-cpp-engine extra: make .venv/engines")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TWINLENS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


TestLlamaCpp = conformance("llama-cpp-engine")


@pytest.mark.parametrize(
    ("precision", "weights", "least", "most"),
    [("int8-dynamic", "agrees", 0.8, 0.001), ("int4-dynamic", "differs", 0.4, 0.01)],
)
def test_a_file_type_is_what_its_tensors_hold(precision: str, weights: str, least: float, most: float) -> None:
    """Rows of 128 do not divide into Q4_K's blocks of 256: llama.cpp takes wider types instead, and that is said."""
    opened = server("llama-cpp-engine")
    try:
        facts = opened.open(spec_of(inference("llama-cpp-engine", point={"precision": precision, "batch": 2})), quiet)
    finally:
        opened.close()
    verdicts = {check.tensor_class: check.verdict for check in facts.precision}
    assert (verdicts["weights"], verdicts["kv"], verdicts["compute"]) == (weights, "agrees", "unknown")
    compared = fidelity(facts.fidelity)
    assert compared["top1_agreement"].value >= least
    assert compared["kl_nats"].value <= most
    assert "Q8_0" in facts.executor.value("precision.detail")


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_fp32_is_fp32_to_the_last_product_and_a_file_holds_every_type_written_here(kind: str, tmp_path: Path) -> None:
    """Flash attention, which llama.cpp takes unasked, rounds to fp16 inside: log-probabilities are off by 3e-4 then."""
    config = load_model("tiny").config | {"model_type": kind, "_source": "made for this test"}
    if kind != "llama":
        config = {name: value for name, value in config.items() if name not in ("attention_bias", "mlp_bias")}
        config |= {"use_sliding_window": False, "head_dim": 32}
        config["architectures"] = [f"{kind.capitalize()}ForCausalLM"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    spec = spec_of(inference("llama-cpp-engine", model=str(tmp_path)))
    opened = server("llama-cpp-engine")
    try:
        facts = opened.open(spec, quiet)
    finally:
        opened.close()
    compared = fidelity(facts.fidelity)
    assert compared["top1_agreement"].value == 1.0
    assert compared["kl_nats"].value < 1e-7
    assert abs(compared["perplexity_change"].value) < 1e-6
    assert facts.executor.value("serving.attention").startswith("not fused")


def test_the_loop_of_llama_bench_runs_on_the_model_that_an_executor_has_loaded() -> None:
    from twinlens.executors.llama_cpp.decoder import RUNTIME, LlamaDecoder

    spec = spec_of(inference("llama-cpp-engine"))
    made = LlamaDecoder(export_of(RUNTIME, spec, spec.model.known(), quiet).path, spec, spec.model.known(), 1)
    try:
        prompt = np.random.default_rng(1).integers(0, 200, (1, 5))
        assert llama_bench(made, prompt, 4, time.monotonic) > 0
        stamped = made.answer(prompt, 4)[1]
        assert len(stamped) == 4, "what the loop left in the cache is in nobody's way"
    finally:
        made.close()


def test_tokens_given_one_by_one_continue_the_text_as_if_it_were_read_at_once() -> None:
    from twinlens.executors.llama_cpp.decoder import RUNTIME, LlamaDecoder

    spec = spec_of(inference("llama-cpp-engine", point={"precision": "fp32", "batch": 2}))
    export = export_of(RUNTIME, spec, spec.model.known(), quiet)
    made = LlamaDecoder(export.path, spec, spec.model.known(), 1)
    text = np.random.default_rng(1).integers(0, 200, (2, 5))
    try:
        made._empty()
        made._fill(text, every=False)
        answers = [made._decode()]
        made._arrange(2, 1, every=False)
        for at in (5, 6):
            made._tokens[:2], made._places[:2] = answers[-1], at
            answers.append(made._decode())
        *before, last = answers
        made._empty()
        made._fill(np.concatenate([text, np.array(before).T], axis=1), every=False)
        assert made._decode() == last
    finally:
        made.close()
