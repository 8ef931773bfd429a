"""Time by class of kernel, from a profiled run of its own beside the run that was timed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from material import for_rows, inference, measured, training
from twinlens.cli.main import app

pytest.importorskip("torch")

from twinlens.executors.torch.evidence.trace import Kernel
from twinlens.executors.torch.kernel_time import REST, kernel_class, passes_of, time_by_class

FORTY = {"duration_s": 0.1, "min_rows": 40}
WATCHED = ("--instrument", "profiler", "--json")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::addmm", "matrix products"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64", "matrix products"),
        ("nvjet_tst_128x64_64x8_4x2_h_bz_NNT", "matrix products"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "attention"),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits>", "attention"),
        ("aten::_fused_adamw_", "optimizer"),
        ("aten::native_layer_norm", "normalisation"),
        ("Memcpy HtoD (Pinned -> Device)", "copies"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "communication"),
        ("aten::mul", REST),
    ],
)
def test_a_kernel_has_its_class_by_its_name(name: str, kind: str) -> None:
    assert kernel_class(name) == kind


def test_operators_that_launched_gpu_kernels_are_not_counted_twice() -> None:
    seen = (Kernel("aten::mm", 1, 2.0), Kernel("gemm", 1, 2.0, on_device=True), Kernel("mul", 1, 1.0, on_device=True))
    assert time_by_class(seen) == {"matrix products": 2.0, REST: 1.0}


@pytest.mark.parametrize(
    ("data", "phases"),
    [(training(protocol=FORTY), ["step"]), (inference(protocol=FORTY), ["prefill", "decode"])],
)
def test_the_work_of_a_run_is_profiled_in_a_run_of_its_own(tmp_path: Path, data, phases: list[str]) -> None:
    run = measured(tmp_path, data)
    before = sorted(file.name for file in run.folder.iterdir())
    told = CliRunner().invoke(app, ["diagnose", str(run.folder), *WATCHED])
    assert told.exit_code == 0, told.stderr
    (found,) = json.loads(told.stdout)["diagnoses"]
    kernels = [each for each in found["counters"] if each["id"] == "kernels"]
    assert [each["about"] for each in kernels] == phases
    for each in kernels:
        assert sum(share["value"] for share in each["beside"].values()) == pytest.approx(1.0)
        assert {"matrix products", "attention"} <= set(each["beside"])
        assert "a run of its own of workload" in each["value"]["method"]
    assert ("optimizer" in kernels[0]["beside"]) is (phases == ["step"])
    assert len(found["counters"]) == 4 + len(phases), "the four stand beside it"
    after = sorted(file.name for file in run.folder.iterdir())
    assert [name for name in after if name != "instrument.json"] == before, "the measured run stays as it is"
    kept = json.loads((run.folder / "instrument.json").read_text())["watched"]["profile"]
    assert kept["passes"] == dict.fromkeys(phases, 3)
    again = CliRunner().invoke(app, ["diagnose", str(run.folder), "--json"])
    assert json.loads(again.stdout) == json.loads(told.stdout), "what was kept is read when nothing is watched"


@pytest.mark.parametrize(("pass_s", "passes"), [(0.0, 3), (0.1, 3), (1.4, 2), (2.0, 1), (60.0, 1)])
def test_fewer_passes_are_watched_where_one_takes_long(pass_s: float, passes: int) -> None:
    assert passes_of(pass_s) == passes


@pytest.mark.parametrize(
    ("instrument", "says"),
    [("profiler", "sees nothing of 'fake'"), ("stethoscope", "unknown instrument 'stethoscope'; known: profiler")],
)
def test_an_instrument_that_sees_nothing_is_one_sentence(tmp_path: Path, instrument: str, says: str) -> None:
    run = measured(tmp_path, training("fake", protocol=for_rows(60)))
    told = CliRunner().invoke(app, ["diagnose", str(run.folder), "--instrument", instrument])
    assert told.exit_code == 2
    assert says in told.stderr
    assert "TL239" in told.stderr
