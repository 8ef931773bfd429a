"""Models that theory reads and the embedded engine does not run are refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the torch extra")

from material import inference, spec_of, training  # noqa: E402
from twinlens.errors import BadInput  # noqa: E402
from twinlens.executors.refuse import refuse_unsupported  # noqa: E402
from twinlens.executors.torch.model.build import build_model, parameter_count  # noqa: E402
from twinlens.spec.model.reference import load_model  # noqa: E402
from twinlens.theory.parameter import parameters  # noqa: E402

pytestmark = pytest.mark.torch
SIZES: dict[str, Any] = {
    "vocab_size": 128, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
JAMBA = {
    **SIZES, "model_type": "jamba", "num_experts": 1, "num_experts_per_tok": 1, "attn_layer_period": 2,
    "attn_layer_offset": 0, "expert_layer_period": 2, "expert_layer_offset": 1, "mamba_d_state": 4, "mamba_d_conv": 4,
    "mamba_expand": 2,
}  # fmt: skip
SINKS = {**SIZES, "model_type": "gpt_oss", "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2}
SEEING = {"model_type": "llama4", "vision_config": {}, "text_config": {
    **SIZES, "model_type": "llama4_text", "intermediate_size_mlp": 96, "num_local_experts": 2,
    "num_experts_per_tok": 1}}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "says"), [(JAMBA, "recurrent layers"), (SINKS, 'attention = "eager"'), (SEEING, "images beside text")]
)
def test_a_model_that_only_theory_reads_is_refused(tmp_path: Path, config: dict[str, Any], says: str) -> None:
    file = tmp_path / "model.json"
    file.write_text(json.dumps(config))
    ref = load_model(str(file))
    assert parameters(ref.shape).total > 0
    with pytest.raises(BadInput, match=says) as caught:
        build_model(ref, "sdpa", 0, torch.device("meta"))
    assert caught.value.code == "TL202"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("executor", ["torch", "onnxruntime", "openvino", "llama-cpp-engine", "torch-parallel"])
@pytest.mark.parametrize("config", [JAMBA, SEEING])
def test_check_refuses_it_as_measure_does_before_anything_is_built(
    tmp_path: Path, config: dict[str, Any], executor: str
) -> None:
    file = tmp_path / "model.json"
    file.write_text(json.dumps(config))
    lens = training if executor == "torch-parallel" else inference
    with pytest.raises(BadInput, match="embedded engine") as caught:
        refuse_unsupported(spec_of(lens(executor, model=str(file))))
    assert caught.value.code == "TL202"


def test_sinks_run_with_attention_written_out(tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    file.write_text(json.dumps(SINKS))
    ref = load_model(str(file))
    build_model(ref, "eager", 0, torch.device("meta"))
    assert parameter_count(ref) == parameters(ref.shape).total
