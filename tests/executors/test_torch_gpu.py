"""The same executors on an NVIDIA GPU. Skipped, with the reason, where torch sees none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from material import inference, measured, quiet, spec_of, training

torch = pytest.importorskip("torch", reason="needs the torch extra")

from twinlens.errors import BadInput  # noqa: E402
from twinlens.executors.torch.infer import TorchServer  # noqa: E402
from twinlens.executors.torch.train import TorchTrainer  # noqa: E402
from twinlens.measurement.session import is_out_of_memory  # noqa: E402
from twinlens.measurement.summary_file import summary_of  # noqa: E402
from twinlens.stats.metrics.fidelity import fidelity  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.torch]
CUDA = {"device": "cuda"}
SHORT = {"duration_s": 2.0, "min_rows": 30, "telemetry_s": 0.1}


def supported(precision: str) -> None:
    least = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9)}.get(precision, (0, 0))
    if torch.cuda.get_device_capability() < least:
        pytest.skip(f"{precision} needs compute capability {least[0]}.{least[1]}")


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_a_gpu_trains_as_the_processor_does(precision: str) -> None:
    supported(precision)
    on_cpu, on_gpu = TorchTrainer(), TorchTrainer()
    on_cpu.open(spec_of(training("torch")), quiet)
    facts = on_gpu.open(spec_of(training("torch", executor=CUDA, point={"precision": precision})), quiet)
    losses = [[one.step().loss or 0.0 for _ in range(20)] for one in (on_cpu, on_gpu)]
    # Weights are drawn on the device, so the two start apart: both begin near ln 512 and both fall.
    for seen in losses:
        assert seen[0] == pytest.approx(6.24, abs=0.3)
        assert seen[-1] < seen[0] - 0.3
    seen_formats = {check.tensor_class: check for check in facts.precision}
    assert seen_formats["compute"].verdict in ("agrees", "unknown"), seen_formats["compute"]
    assert facts.executor.value("accelerator.uuid")[0].startswith("GPU-")


@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp16", "fp8"])
def test_a_lower_precision_on_a_gpu_is_near_fp32_and_not_fp32_itself(precision: str) -> None:
    supported(precision)
    facts = TorchServer().open(spec_of(inference("torch", executor=CUDA, point={"precision": precision})), quiet)
    metrics = fidelity(facts.fidelity)
    assert (metrics["top1_agreement"].value or 0) >= (0.75 if precision == "fp8" else 0.9)
    assert (metrics["kl_nats"].value or 0) > 0, "what it is compared with is IEEE fp32"


@pytest.mark.parametrize("precision", ["int8-weight", "int4-weight"])
def test_weights_for_which_torch_has_no_fast_kernel_on_a_gpu_are_refused(precision: str) -> None:
    with pytest.raises(BadInput) as refused:
        TorchServer().open(spec_of(inference("torch", executor=CUDA, point={"precision": precision})), quiet)
    assert refused.value.code == "TL203"


def test_a_compiled_decode_is_a_captured_graph_and_checked_as_such() -> None:
    server = TorchServer()
    options = {"graph": "compiled"}
    facts = server.open(spec_of(inference("torch", executor=CUDA, options=options, point={"precision": "bf16"})), quiet)
    assert facts.executor.value("serving.graphs") == "CUDA graphs captured"
    (compute,) = (check for check in facts.precision if check.tensor_class == "compute")
    assert compute.verdict in ("agrees", "unknown"), compute.evidence


def test_ceilings_of_a_board_are_of_large_products_and_below_its_datasheet(tmp_path: Path) -> None:
    run = measured(tmp_path, training("torch", executor=CUDA, protocol=SHORT | {"ceilings": True}))
    assert run.facts is not None
    for name in ("copy_bytes_per_s", "read_bytes_per_s", "matrix_flop_per_s", "matrix_burst_flop_per_s"):
        assert run.facts.ceilings[name].value, run.facts.ceilings[name].reason
    assert "4096" in run.facts.ceilings["matrix_burst_flop_per_s"].method


def test_the_second_board_is_measured_on_the_second_board() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    trainer = TorchTrainer()
    facts = trainer.open(spec_of(training("torch", executor={"device": "cuda:1"})), quiet)
    assert torch.cuda.current_device() == 1
    assert str(torch.cuda.get_device_properties(1).uuid) in facts.executor.value("accelerator.uuid")[0]
    assert torch.cuda.memory_allocated(0) == 0


def test_memory_and_ways_to_save_it_hold_on_the_board_too() -> None:
    peaks = []
    for parts in ({}, {"checkpointing": True}, {"point": {"microbatch": 1}}):
        trainer = TorchTrainer()
        trainer.open(spec_of(training("torch", executor=CUDA, global_batch=16, seq_len=256, **parts)), quiet)
        losses = [trainer.step().loss or 0.0 for _ in range(3)]
        peaks.append((trainer.device_memory() or {})["allocated_peak_bytes"])
        assert losses[0] == pytest.approx(6.24, abs=0.3)
        trainer.close()
        del trainer
        torch.cuda.empty_cache()
    assert peaks[1] < peaks[0]
    assert peaks[2] < peaks[0]


def test_fp8_trains_and_its_products_are_fp8() -> None:
    supported("fp8")
    pytest.importorskip("torchao", reason="needs the fp8 extra")
    trainer = TorchTrainer()
    facts = trainer.open(spec_of(training("torch", executor=CUDA, point={"precision": "fp8"})), quiet)
    (compute,) = (check for check in facts.precision if check.tensor_class == "compute")
    assert (compute.observed, compute.verdict) == ("fp8-e4m3", "agrees"), compute.evidence
    assert trainer.step().loss == pytest.approx(6.24, abs=0.3)


def test_too_large_an_allocation_on_the_board_is_known_as_out_of_memory() -> None:
    with pytest.raises(RuntimeError) as full:
        torch.empty(2**46, dtype=torch.uint8, device="cuda")
    assert is_out_of_memory(full.value)


@pytest.mark.parametrize("make", [training, inference])
@pytest.mark.parametrize("model", ["tiny", "vit-tiny"])
def test_both_lenses_are_measured_with_the_board_they_ran_on(tmp_path: Path, make: Any, model: str) -> None:
    run = measured(tmp_path, make("torch", model, executor=CUDA, protocol=SHORT))
    assert run.facts is not None
    assert run.facts.executor.value("accelerator.product") == torch.cuda.get_device_name()
    metrics = summary_of(run).metrics
    assert metrics["peak_bytes"].value
    assert "allocator" in metrics["peak_bytes"].method


def test_energy_is_read_from_the_board_or_its_absence_has_a_reason(tmp_path: Path) -> None:
    run = measured(tmp_path, training("torch", executor=CUDA, protocol=SHORT | {"duration_s": 16.0, "steady_s": 11.0}))
    energy = summary_of(run).metrics["energy_per_step_j"]
    if energy.value is None:
        assert energy.reason
        return
    mean_w = summary_of(run).metrics["mean_power_w"].value
    assert mean_w is not None
    assert 5 < mean_w < 3000
    assert 0 < energy.value < 3000


def test_int8_dynamic_is_refused_on_a_gpu() -> None:
    with pytest.raises(BadInput, match="runs on the CPU only"):
        TorchServer().open(spec_of(inference("torch", executor=CUDA, point={"precision": "int8-dynamic"})), quiet)


def test_every_byte_of_fp32_adamw_is_counted_on_the_board_too() -> None:
    trainer = TorchTrainer()
    facts = trainer.open(spec_of(training("torch", executor=CUDA)), quiet)
    count = sum(parameter.numel() for parameter in trainer.model.parameters())
    assert facts.memory["gradients_bytes"].value == 4 * count
    assert facts.memory["optimizer_bytes"].value == pytest.approx(8 * count, rel=1e-3)
