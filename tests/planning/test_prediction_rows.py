"""Rows of public tables become questions, or are refused with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.prediction import names
from benchmarks.prediction.__main__ import parsed
from benchmarks.prediction.case import No
from benchmarks.prediction.cases import read
from benchmarks.prediction.devices import device_name
from benchmarks.prediction.layouts import GROUPS, layout_name, serving_layout

from twinlens.planning.prediction.band import shipped

SHARED = next((up / "shared" / "data" for up in Path(__file__).parents if (up / "shared" / "data").is_dir()), None)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.1-70b"),
        ("Meta-Llama-3-8B", "llama-3.1-8b"),
        ("LLAMA3.1_405B", "llama-3.1-405b"),
        ("llama2-70b-99.9", "llama-2-70b"),
        ("Qwen3_235B_a22B", "qwen3-235b-a22b"),
        ("Qwen/Qwen3-32B-FP8", "qwen3-32b"),
        ("nvidia/DeepSeek-V3.1-NVFP4", "deepseek-v3"),
        ("GPT OSS 120B", "gpt-oss-120b"),
        ("gpt-oss-120b (MoE)", "gpt-oss-120b"),
        ("DeepSeekV3 (w/ MTP)", "deepseek-v3"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("mistralai/Mixtral-8x22B-v0.1", None),
        ("DeepSeekV4 Flash", None),
        ("whisper", None),
        ("", None),
    ],
)
def test_a_model_is_known_by_any_of_its_spellings_and_never_by_a_guess(spelling: str, name: str | None) -> None:
    assert names.model_name(spelling) == name


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("h100_sxm", "h100-sxm-80gb"),
        ("NVIDIA Blackwell GPU (GB200)", "gb200"),
        ("4090 24GB * 8", "rtx-4090"),
        ("H100 PCIe 80GB", "h100-pcie-80gb"),
        ("AMD Instinct MI300X 192GB HBM3 (x32), AMD Instinct MI325X 256GB HBM3e (x16)", None),
        ("RTX 4000 Ada 20GB", "rtx-4000-ada"),
        ("M1 Max 32‑Core GPU 64GB", "m1-max"),
    ],
)
def test_a_device_is_known_by_its_spellings_and_a_mixture_is_none(spelling: str, name: str | None) -> None:
    assert device_name(spelling) == name


@pytest.mark.parametrize(
    ("spelling", "name"),
    [("fp8", "fp8"), ("FP8-MX", "mxfp8"), ("NVFP4", "nvfp4"), ("amp_bf16", "bf16"), ("Q4_K_M", "q4_k_m"), ("zz", None)],
)
def test_a_precision_is_known_by_its_spellings(spelling: str, name: str | None) -> None:
    assert names.precision_name(spelling) == name


def test_degrees_of_a_layout_are_read_in_any_order() -> None:
    assert serving_layout("agg tp2 pp1 dp4 moe_tp1 ep8") == {"tensor": 2, "data": 4, "pipeline": 1, "expert": 8}
    assert serving_layout("DEP4")["data"] == 4
    assert serving_layout("TP8,PP2")["pipeline"] == 2


def test_a_product_of_degrees_over_the_same_devices_is_taken_apart() -> None:
    assert serving_layout("agg tp64 pp1 dp1 moe_tp8 ep8", "c4_tp8_ep8_920")["tensor"] == 8
    assert serving_layout("agg tp1 pp1 dp64 moe_tp8 ep8", "c64_tp8_ep8_937")["data"] == 8


def test_workers_are_counted_and_unknown_ones_are_refused() -> None:
    layout = serving_layout("disagg P:1x(tp1 dp4 ep4) D:5x(tp4 dp1 ep4)")
    assert (layout["workers"], layout["tensor"], layout["first_data"]) == (5, 4, 4)
    with pytest.raises(No, match="not stated"):
        serving_layout("disagg P:?x(tp8 dp1 ep8) D:?x(tp8 dp1 ep8)")
    with pytest.raises(No, match="0 devices"):
        serving_layout("agg tp2 pp1 dp0 moe_tp0 ep0")


def test_every_public_row_is_a_question_or_has_a_reason() -> None:
    if SHARED is None:
        pytest.skip("needs the public tables beside the project")
    cases, refused = read(SHARED / "validation")
    rows = sum(len(path.read_text(encoding="utf-8").splitlines()) - 1 for path in (SHARED / "validation").glob("*.csv"))
    assert len(cases) + len(refused) == rows
    assert len(cases) > 5000
    assert all(each.why for each in refused)
    assert all(case.value > 0 for case in cases)


def test_rows_that_say_nothing_are_refused_with_what_they_lack(tmp_path: Path) -> None:
    names = "source,workload,model,precision,hardware,n_gpus,parallelism,batch_or_concurrency"
    head = names + ",input_len,output_len,metric,value,unit,note"
    rows = {
        "x,infer,Foo-9B,fp8,h100_sxm,1,TP1,4,10,10,tpot_mean,5,ms,": "no decoder of the catalogue",
        "x,infer,Qwen/Qwen3-32B,fp8,h100_sxm,1,TP1,4,10,10,tpot_mean,nan,ms,": "no number",
        "x,infer,Qwen/Qwen3-32B,fp8,h100_sxm,1,TP999,4,10,10,tpot_mean,5,ms,": "no legal layout",
        "x,infer,Qwen/Qwen3-32B,fp8,h9000,1,TP1,4,10,10,tpot_mean,5,ms,": "unknown or mixed device",
        "x,infer,Qwen/Qwen3-32B,fp8,h100_sxm,1,TP1,,10,10,tpot_mean,5,ms,": "concurrency is not stated",
        "x,infer,Qwen/Qwen3-32B,fp8,h100_sxm,1,TP1,4,10,10,ttft_p99,5,ms,": "tails",
        "x,train,MPT-7b,bf16,H100-SXM-80GB,7,TP2,GBS8 MBS1,2048,,throughput_per_gpu,5,t,": "does not divide",
    }
    (tmp_path / "odd.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    cases, refused = read(tmp_path)
    assert cases == []
    assert [why in each.why for each, why in zip(refused, rows.values(), strict=True)] == [True] * len(rows)


HEAD = "source,workload,model,params,precision,hardware,n_gpus,parallelism,batch_or_concurrency,input_len,output_len,metric,value,unit,provenance,note"  # noqa: E501
LOAD = "64,1024,1024,tpot_mean_ms,20,ms,,trtllm 1.2"


def _parsed(folder: Path, *rows: str) -> tuple[list[Any], list[str]]:
    (folder / "rows.csv").write_text("\n".join((HEAD, *rows)) + "\n")
    cases, refused = parsed(folder)
    return cases, [each.why for each in refused]


def test_a_degree_that_heads_do_not_divide_is_read_as_groups_that_share_experts(tmp_path: Path) -> None:
    """The "tp72" of a rack is not tensor parallel: DeepSeek-V3 has 128 heads."""
    cases, why = _parsed(tmp_path, f"x,infer,deepseek-ai/DeepSeek-R1,,fp8,gb300,72,tp72,{LOAD}",
                         f"x,infer,deepseek-ai/DeepSeek-R1,,fp8,b200_sxm,8,tp8,{LOAD}")  # fmt: skip
    assert why == []
    assert [layout_name(each) for each in cases] == [GROUPS, "tensor and pipeline"]
    assert (cases[0].layout["tensor"], cases[0].layout["data"]) == (1.0, 72.0)


def test_processors_and_workers_without_room_are_refused(tmp_path: Path) -> None:
    apart = f"x,infer,deepseek-ai/DeepSeek-R1,,fp8,h100_sxm,{{}},disagg P:1x(tp16 dp1 ep16) D:1x(tp{{}} dp1 ep1),{LOAD}"
    cases, why = _parsed(tmp_path, f"x,infer,meta-llama/Llama-3.1-8B,,bf16,Xeon 6980P,1,tp1,{LOAD}",
                         apart.format(24, 8), apart.format(32, 16))  # fmt: skip
    assert any("processor" in each for each in why)
    assert len(why) == 2
    assert [each.devices for each in cases] == [32]


def test_bands_of_groups_are_no_narrower_than_others() -> None:
    known = shipped()["serving"]
    seen = {"device": "b200-sxm-180gb", "engine": "trtllm", "model": "deepseek-v3"}
    for metric in ("tpot", "ttft"):
        usual, groups = known.band(metric, **seen), known.band(metric, **seen, groups=True)
        assert groups.low <= usual.low
        assert groups.high >= usual.high
        assert groups.kind == f"{metric}: groups"
        assert groups.rows < usual.rows
