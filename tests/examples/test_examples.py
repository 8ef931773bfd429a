"""Every example is a test: it loads, theory can say what it needs, and cut short it really runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import twinlens
from report_material import whole_text
from twinlens.measurement.facts.predicted_work import theory_of
from twinlens.measurement.preflight.memory import refuse_what_cannot_fit
from twinlens.measurement.study import measure_study
from twinlens.measurement.summary_file import summary_of
from twinlens.network.null_server import null_server
from twinlens.spec.load import dump, load, parse
from twinlens.spec.workload.workload import CollectiveWorkload
from twinlens.stats.metrics.definition import HEADLINE, METRICS
from twinlens.stats.summary.group import group

FOLDER = Path(twinlens.__file__).parent / "examples"
EXAMPLES = sorted(path for path in FOLDER.glob("*.toml") if not path.stem.startswith("demo-"))
SHORT = (
    "protocol.duration_s=0.3", "protocol.min_rows=3", "protocol.repeats=1", "protocol.extend=0",
    "protocol.steady_s=0", "protocol.isolate=false", "protocol.ceilings=false",
)  # fmt: skip
ELSEWHERE = (
    "adapter",
    "engines",
    "fine-tuning",
    "gateway",
    "gpu-",
    "input-",
    "attached",
    "batching",
    "chat",
    "checkpoints",
    "deepspeed",
    "ladder-",
    "parallel",
    "search",
    "serve-",
    "tune-",
    "vllm-",
    "weak-scaling",
)
"""Those that need a GPU, a server or processes of their own: they are run where those are tested."""
LONG = ("collectives", "compiled")  # six processes import torch; torch compiles for 17 s
SMALLER = {"resnet-50": "resnet-tiny", "vit-base": "vit-tiny"}
FEWER = {
    "accumulate": ["workload.seq_len=16"],
    "decode": [
        "sweep.precision=['fp32']",  # every precision has its own test; here it is the batch
        "workload.input_tokens.value=16",
        "workload.output_tokens.value=8",
    ],
    "lengths": ["workload.input_tokens.mean=16", "workload.input_tokens.max=32", "workload.output_tokens.max=16"],
    "pretrain": ["workload.seq_len=16"],
    "quality": ["workload.global_batch=2", "workload.until.gap_nats=2", "workload.until.every_steps=2"],
    "text": ["workload.seq_len=32", "workload.until.loss_nats=5", "workload.until.every_steps=2"],
}
"""Fewer tokens and an easier end: a processor without matrix units for bf16 takes a second for a thousand tokens."""


def test_there_are_at_least_ten_examples() -> None:
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_loads_and_theory_knows_its_work(path: Path) -> None:
    study = load(path)
    assert study.name == path.stem
    for spec in study.point_runs():
        if spec.lens == "collective":
            assert theory_of(spec) == {}, "an exchange has no model"
        else:
            assert theory_of(spec)["parameters"].value


@pytest.mark.torch
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in LONG else [])
        for path in EXAMPLES
        if not path.stem.startswith(ELSEWHERE)
    ],
)
def test_an_example_cut_short_runs_on_this_machine(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])  # text.toml names the README
    workload = load(path).workload
    settings = [*SHORT]
    if not isinstance(workload, CollectiveWorkload):
        settings.append(f"workload.model={SMALLER.get(workload.model, 'tiny')}")
    settings += FEWER.get(path.stem, [])
    study = load(path, settings)
    outcome = measure_study(study, tmp_path)
    assert not outcome.failures
    assert len(outcome.runs) == len(study.runs())
    for run in outcome.runs:
        summary = summary_of(run)
        assert set(summary.metrics) <= set(METRICS)
        assert any((summary.metrics[name].value or 0) > 0 for name in HEADLINE[run.lens] if name in summary.metrics)


@pytest.mark.slow
@pytest.mark.torch
def test_the_example_of_two_engines_gives_the_tokens_of_one_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime_genai", reason="needs the onnxruntime extra: make .venv/engines")
    monkeypatch.setenv("TWINLENS_CACHE", str(tmp_path / "cache"))
    settings = [*SHORT, "workload.model=tiny", "sweep.precision=['fp32']", "protocol.pairing=none"]
    outcome = measure_study(load(FOLDER / "engines.toml", settings), tmp_path)
    assert not outcome.failures
    assert {run.spec.executor.kind for run in outcome.runs} == {"torch", "onnxruntime"}
    weights = {run.facts.executor.value("model.weights_hash") for run in outcome.runs if run.facts}
    assert len(weights) == 1, "the same weights on both sides"


@pytest.mark.slow
@pytest.mark.torch
def test_the_examples_of_adapters_train_by_every_method_and_serve_both_ways(tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes", reason="needs the finetune extra: make .venv/engines")
    trained = measure_study(load(FOLDER / "fine-tuning.toml", [*SHORT, "protocol.hopeless_s=5"]), tmp_path / "trained")
    assert not trained.failures
    shares = {run.spec.workload.method: summary_of(run).metrics["trainable_share"].value for run in trained.runs}
    assert shares["full"] == 1
    assert 0.06 < (shares["lora"] or 0) == shares["qlora"] < (shares["dora"] or 0) < 0.07
    short = [*SHORT, "workload.model=tiny", "protocol.pairing=none"]
    served = measure_study(load(FOLDER / "adapter.toml", short), tmp_path / "served")
    assert not served.failures
    assert {summary_of(run).point["adapter"] for run in served.runs} == {"merged", "unmerged"}


@pytest.mark.alone
@pytest.mark.slow
def test_the_serving_example_measures_a_server_that_is_up(tmp_path: Path) -> None:
    with null_server(0.02, 0.005) as server:
        settings = [f"executor.options.url={server.url}", "sweep.rate_per_s=[20, 40]", "protocol.steady_s=0"]
        study = load(FOLDER / "attached.toml", [*settings, "protocol.duration_s=3", "protocol.repeats=1"])
        outcome = measure_study(study, tmp_path)
    assert not outcome.failures
    for run in outcome.runs:
        summary = summary_of(run)
        assert set(summary.metrics) <= set(METRICS)
        # The server answers after 20 ms: less would be a clock that lies, and much more a client that is late.
        assert 0.0195 < (summary.metrics["ttft_from_send_s_p50"].value or 0) < 0.1
        assert summary.metrics["failed_share"].value == 0
        assert summary.metrics["peak_bytes"].value is None
        assert run.sections.client
        assert run.sections.calibration
        assert (run.folder / "schedule.arrow").exists()


@pytest.mark.alone
@pytest.mark.slow
def test_the_batching_example_compares_three_policies_on_the_same_arrivals(tmp_path: Path) -> None:
    with null_server(0.02, 0.005) as server:
        study = load(
            FOLDER / "batching.toml",
            ['executor.kind="openai-http"', "executor.threads=",
             f'executor.options={{ url = "{server.url}" }}', "point.rate_per_s=40",
             "protocol.duration_s=3", "protocol.steady_s=0", "protocol.repeats=1"],
        )  # fmt: skip
        outcome = measure_study(study, tmp_path)
    assert not outcome.failures
    by_policy = {run.spec.point.admission: run for run in outcome.runs}
    assert set(by_policy) == {"static", "dynamic", "continuous"}
    plans = {run.requests.intended_ns[np.argsort(run.requests.intended_ns)].tobytes() for run in outcome.runs}
    assert len(plans) == 1, "all three meet the same arrivals"
    found = {policy: summary_of(run).metrics for policy, run in by_policy.items()}
    assert all((found[policy]["blocked_s_mean"].value or 0) > 0 for policy in ("static", "dynamic"))
    assert found["continuous"]["blocked_s_mean"].value == 0
    text = " ".join(whole_text(group(summary_of(run) for run in outcome.runs)).split())
    assert "p99" in text
    assert "take " in text or "told apart" in text or "No policy can be chosen" in text


GPU_SMALL = {
    "gpu-training": ["workload.model=tiny", "workload.seq_len=64"],
    "gpu-inference": ["workload.model=tiny", "workload.input_tokens.value=64", "workload.output_tokens.value=8"],
}


@pytest.mark.parametrize("name", GPU_SMALL)
def test_a_gpu_example_fits_a_card_of_80_gb_whole(name: str) -> None:
    for spec in load(FOLDER / f"{name}.toml").point_runs():
        refuse_what_cannot_fit(spec, 79e9)  # what is free on one beside its driver


@pytest.mark.torch
@pytest.mark.parametrize("name", GPU_SMALL)
def test_a_gpu_example_cut_as_short_as_its_gpu_test_runs_on_a_processor(name: str, tmp_path: Path) -> None:
    settings = [
        *SHORT,
        *GPU_SMALL[name],
        "executor.device=cpu",
        "executor.options.graph=eager",
        "sweep.precision=['bf16']",
    ]
    outcome = measure_study(load(FOLDER / f"{name}.toml", settings), tmp_path)
    assert not outcome.failures
    assert {run.state for run in outcome.runs} == {"finished"}


@pytest.mark.gpu
@pytest.mark.parametrize("name", GPU_SMALL)
def test_a_gpu_example_cut_short_runs_on_a_gpu(name: str, tmp_path: Path) -> None:
    outcome = measure_study(load(FOLDER / f"{name}.toml", [*SHORT, *GPU_SMALL[name]]), tmp_path)
    assert not outcome.failures
    assert all(run.state == "finished" or run.sections.refused for run in outcome.runs)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_written_back_is_the_same_study(path: Path) -> None:
    import tomllib

    study = load(path)
    assert parse(tomllib.loads(dump(study))) == study
