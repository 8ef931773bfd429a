"""Published figures on what fits, reproduced or refuted, and answers that hold whatever is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twinlens as tl
from twinlens.errors import BadInput

DEEPSEEK = {"model": "deepseek-v3", "precision": "fp8", "devices": 8}


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        # "H200 (141 GB) cannot hold both, B200 (192 GB) can": 70B FP16, 16 users at 32K. Neither can.
        ({"model": "70B", "users": 16, "context": "32K", "device": "H200"}, False),
        ({"model": "70B", "users": 16, "context": "32K", "device": "B200"}, False),
        ({"model": "70B", "users": 4, "context": "32K", "device": "B200", "kv": "fp8"}, True),
        # "70B on four to eight 80 GB GPUs with substantial headroom"
        ({"model": "70B", "users": 8, "context": "32K", "device": "H100", "devices": 4}, True),
        # "405B at FP16 across 8 GPUs": on H200, not on H100; there in FP8
        ({"model": "405B", "device": "H100", "devices": 8}, False),
        ({"model": "405B", "device": "H100", "devices": 8, "precision": "fp8"}, True),
        ({"model": "405B", "device": "H200", "devices": 8}, True),
        # "dual 96 GB for 70B Q4": one is enough
        ({"model": "70B", "device": "RTX PRO 6000", "precision": "q4_k_m"}, True),
        # "4-8x H100, H200 or B200" to fully fine-tune 70B: only eight B200 with AdamW and an fp32 master
        ({"model": "70B", "train": "full", "device": "B200", "devices": 4}, False),
        ({"model": "70B", "train": "full", "device": "B200", "devices": 8}, True),
        ({"model": "70B", "train": "full", "device": "H100", "devices": 8}, False),
        ({"model": "70B", "train": "qlora", "device": "RTX PRO 6000"}, True),
        ({"model": "8B", "train": "full", "device": "RTX PRO 6000"}, False),
        ({"model": "8B", "train": "full", "device": "RTX PRO 6000", "devices": 2}, True),
        ({"model": "8B", "train": "lora", "device": "RTX 4090", "context": 1024}, True),
        # Latent attention keeps 68.6 KiB a token, and is on every device whole.
        ({**DEEPSEEK, "device": "H200", "users": 19, "context": "32K"}, True),
        ({**DEEPSEEK, "device": "H200", "users": 20, "context": "32K"}, False),
        ({**DEEPSEEK, "device": "H100"}, False),
    ],
)
def test_what_is_said_of_fit(asked: dict[str, Any], fits: bool) -> None:
    assert tl.plan.fit(**asked).fits is fits


def test_a_config_of_an_unknown_type_with_a_dense_decoders_numbers_is_read_and_said_to_be(tmp_path: Path) -> None:
    config = {
        "model_type": "brand-new", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192,
    }  # fmt: skip
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(config))
    found = tl.plan.fit(str(file), device="H100")
    assert found.fits
    assert "model-type" in [each.subject for each in found.answer.assumptions()]
    file.write_text(json.dumps(config | {"num_experts": 8}))
    with pytest.raises(BadInput):
        tl.plan.fit(str(file), device="H100")


WORDS = st.sampled_from((
    "70B", "8B", "13B", "0", "-1", "nan", "inf", "1e9", "16", "32K", "32 GB", "fp8", "Q4", "H100", "L4", "full", "lora",
    "qlora", "adamw", "", " ", "²", "\x1b[31m", "8192", "3", "none", "this machine", "mixtral-8x7b", "tiny",
))  # fmt: skip
OPTIONS = (
    "users", "context", "device", "devices", "precision", "kv", "train", "optimizer", "layout", "batch", "recompute",
    "rank", "zero", "tensor", "pipeline", "expert", "runtime", "max_sequences",
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(model=WORDS, options=st.dictionaries(st.sampled_from(OPTIONS), WORDS, max_size=4))
def test_whatever_is_asked_there_is_an_answer_or_one_sentence(model: str, options: dict[str, str]) -> None:
    try:
        found = tl.plan.fit(model, **options)
    except BadInput as refused:
        told = str(refused)
    else:
        told = ""
        json.dumps(found.to_json(), allow_nan=False)
    assert "\n" not in told
