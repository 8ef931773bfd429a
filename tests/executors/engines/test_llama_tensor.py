"""Tensors as llama.cpp has them, worked by hand; no engine runs."""

from __future__ import annotations

import numpy as np
import pytest

from twinlens.executors.llama_cpp.gguf import cache_said, flash_said, format_of, renamed, turned

LOG = """\
llama_kv_cache:        CPU KV buffer size =     1.00 MiB
llama_kv_cache: size =    1.00 MiB (   256 cells,   2 layers,  2/2 seqs), K (f32):    0.50 MiB, V (f16):    0.25 MiB
sched_reserve:        CPU compute buffer size =     3.02 MiB
"""


def test_tensors_get_the_names_of_a_gguf_file() -> None:
    assert renamed("model.embed_tokens.weight") == "token_embd.weight"
    assert renamed("lm_head.weight") == "output.weight"
    assert renamed("model.layers.11.self_attn.q_proj.weight") == "blk.11.attn_q.weight"
    assert renamed("model.layers.0.self_attn.q_norm.weight") == "blk.0.attn_q_norm.weight", "Qwen3"
    assert renamed("model.layers.0.self_attn.k_proj.bias") == "blk.0.attn_k.bias", "Qwen2"
    with pytest.raises(KeyError):
        renamed("model.layers.0.mlp.experts.0.up_proj.weight")


def test_the_rows_of_queries_and_keys_are_paired_and_no_others() -> None:
    rows = np.arange(8, dtype=np.float32)[:, None]  # two heads of four: halves (0 1, 2 3) become pairs (0 2, 1 3)
    assert turned("model.layers.0.self_attn.q_proj.weight", rows, 2, 1)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    keys = turned("model.layers.0.self_attn.k_proj.weight", rows, 2, 1)
    assert keys[:, 0].tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    assert turned("model.layers.0.self_attn.v_proj.weight", rows, 2, 1) is rows


@pytest.mark.parametrize(
    ("kind", "ours"), [("F32", "fp32"), ("F16", "fp16"), ("Q8_0", "int8"), ("Q4_K", "int4"), ("Q6_K", "q6_k")]
)
def test_a_format_that_has_no_name_here_keeps_its_own(kind: str, ours: str) -> None:
    assert format_of(kind) == ours


def test_the_cache_is_as_the_log_says() -> None:
    assert cache_said(LOG) == {"fp32": 2**19, "fp16": 2**18}
    assert cache_said("") == {}


def test_flash_attention_is_as_the_log_says() -> None:
    log = "llama_context: flash_attn            = auto\nresolve_fused_ops: Flash Attention enabled\n"
    assert flash_said(log) == "flash attention enabled"
    assert flash_said(LOG) == ""
