"""An engine whose formats are its own, beside one whose formats are those of the precision."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from material import inference, quiet, spec_of
from twinlens.executors.in_process.engine import Evidence
from twinlens.executors.in_process.engine_server import facts_of
from twinlens.executors.in_process.export import Export
from twinlens.executors.in_process.torch_work import TorchWork
from twinlens.executors.registry import server
from twinlens.measurement.facts.predicted_work import theory_of
from twinlens.measurement.facts.provenance import provenance
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord
from twinlens.reporting.wording.finding import sentence_of
from twinlens.spec.study import RunSpec

CEILINGS = {
    "matrix_flop_per_s": Estimate(1e9, "FLOP/s", "", "measured"),
    "copy_bytes_per_s": Estimate(1.0, "B/s", "", "measured"),
}
BESIDE = TorchWork(None, CEILINGS, {}, "2")
FOUND = Evidence(held={"weights": {"bf16": 8}, "kv": {"int8": 8}}, ran={"all": {"bf16": 1.0}}, missing="", facts={})
LEFT = ("weights", "activations", "kv", "compute")


def spec(kind: str = "openvino", precision: str = "fp32", **options: Any) -> RunSpec:
    return spec_of(inference(kind, point={"precision": precision}, executor={"options": options}))


def facts(found: Evidence) -> Facts:
    asked = spec()
    return facts_of(asked, asked.model.known(), found, BESIDE, Export(Path(), 1.0, 8), [(2, 2, "fp32")])


def test_formats_that_are_left_to_the_runtime_differ_from_nothing_and_are_named() -> None:
    held = {each.tensor_class: each.verdict for each in facts(FOUND).precision}
    assert held == dict.fromkeys(LEFT, "differs") | {"accumulation": "unknown"}
    shipped = facts(replace(FOUND, left=LEFT))
    checks = {each.tensor_class: each for each in shipped.precision}
    assert {checks[name].verdict for name in LEFT} == {"agrees"}
    assert (checks["kv"].declared, checks["kv"].observed) == ("as shipped", "int8")
    note = next(each for each in shipped.findings if each.code == "as-shipped")
    assert "the runtime itself took weights bf16, activations bf16, kv int8, compute bf16" in sentence_of(note)


def test_a_format_that_is_left_and_not_seen_is_unknown_and_no_agreement() -> None:
    shipped = facts(replace(FOUND, ran={}, missing="no profile", left=LEFT))
    assert {each.tensor_class: each.verdict for each in shipped.precision}["compute"] == "unknown"
    assert shipped.executor.facts["precision.compute"].value is None
    note = next(each for each in shipped.findings if each.code == "as-shipped")
    assert sentence_of(note).endswith("Not seen: activations, compute.")


def test_products_in_another_format_have_no_ceiling_of_the_one_that_was_measured() -> None:
    shipped = facts(replace(FOUND, left=LEFT)).ceilings
    assert shipped["matrix_flop_per_s"].value is None
    assert "computed in bf16" in str(shipped["matrix_flop_per_s"].reason)
    assert shipped["copy_bytes_per_s"].value == 1.0
    assert facts(replace(FOUND, ran={"all": {"fp32": 1.0}}, left=LEFT)).ceilings == CEILINGS


def test_as_shipped_is_stock_and_controlled_is_not() -> None:
    for kind in ("openvino", "openvino-served", "llama-cpp-engine"):
        controlled, shipped = (
            str(provenance(asked, Facts(ExecutorRecord({})))["protocol.tier"].value)
            for asked in (spec(kind), spec(kind, settings="as-shipped"))
        )
        assert controlled.startswith("not stock: ")
        assert shipped.startswith("B0 stock")


def test_a_cache_in_another_format_is_that_of_the_precision_of_checks_memory_and_traffic() -> None:
    wide, narrow = spec("llama-cpp-engine", "int8-dynamic"), spec("llama-cpp-engine", "int8-dynamic", kv_format="fp16")
    assert (wide.precision.inference["kv"], narrow.precision.inference["kv"]) == ("fp32", "fp16")
    assert spec("llama-cpp-engine", "int8-dynamic", kv_format="auto").precision == wide.precision
    theirs, ours = (theory_of(each)["decode_bytes"].value for each in (wide, narrow))
    assert theirs is not None
    assert ours is not None
    context, layers, heads, width = 16 + 6 // 2 + 1, 2, 2, 32  # of tiny; one is written
    assert theirs - ours == 2 * 2 * context * layers * heads * width, "two bytes less of each key and value"
    assert theory_of(wide, found={"kv": "fp16"})["decode_bytes"].value == ours, "and where a runtime took it by itself"


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    ("options", "kv", "attention"),
    [
        ({}, "fp32", "flash attention enabled"),
        ({"settings": "as-shipped"}, "fp16", "flash attention enabled"),
        (
            {"kv_format": "fp16", "flash_attention": "off", "max_batched_tokens": 8},
            "fp16",
            "not fused: flash attention rounds to fp16",
        ),
    ],
)
def test_llama_cpp_keeps_the_cache_that_is_asked_for_or_its_own(
    options: dict[str, Any], kv: str, attention: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("llama_cpp", reason="needs the llama-cpp-engine extra: make .venv/engines")
    monkeypatch.setenv("TWINLENS_CACHE", str(tmp_path))
    opened = server("llama-cpp-engine")
    try:
        seen = opened.open(spec("llama-cpp-engine", "int8-dynamic", **options), quiet)
    finally:
        opened.close()
    cache = next(each for each in seen.precision if each.tensor_class == "kv")
    assert (cache.observed, cache.verdict) == (kv, "agrees")
    assert seen.executor.value("serving.attention") == attention
    assert seen.executor.value("serving.max_batched_tokens") == options.get("max_batched_tokens", 128)
    assert np.isfinite([each.kl_nats for each in seen.fidelity]).all()
