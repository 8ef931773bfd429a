"""GGUF files: written from a Hugging Face folder, quantised by llama.cpp itself, and read for formats."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.in_process.precision_check import summed
from twinlens.executors.in_process.torch_work import Linear
from twinlens.system.document import read_json

FILE_TYPES = {"fp32": "ALL_F32", "fp16": "MOSTLY_F16", "int8-dynamic": "MOSTLY_Q8_0", "int4-dynamic": "MOSTLY_Q4_K_M"}
"""Ours to llama.cpp's. Products with blocks of integers quantise activations to 8 bits in its kernels."""
_KEPT_WIDE = ("norm", "token_embd")
TYPES = ("llama", "qwen2", "qwen3")
"""Model types that are written here: the names of transformers are those of llama.cpp."""
_VARIANTS = ("attention_bias", "rope_scaling", "use_sliding_window")


def refuse_unknown_type(config: dict[str, Any], name: str) -> None:
    """Raises BadInput (TL202) for a model type, or a variant of one, that is not written here."""
    kind = config.get("model_type")
    variants = [each for each in _VARIANTS if config.get(each)]
    rope = config.get("rope_parameters") or {}
    if rope.get("rope_type", "default") != "default":
        variants.append("rope_parameters")
    if kind in TYPES and not variants:
        return
    why = f"of type {kind!r} with {', '.join(variants)}" if kind in TYPES else f"of type {kind!r}"
    raise BadInput(
        f"{name} is {why}; GGUF files are written here for plain models of the types {', '.join(TYPES)}: "
        'convert it with llama.cpp\'s own script and serve it (executor.kind = "llama-cpp")',
        code="TL202",
    )


def write(weights: Path, path: Path, precision: str) -> None:
    """Raises ExecutorFailed (TL302) where llama.cpp cannot quantise it."""
    wide = path if precision == "fp32" else path.with_suffix(".f32")
    _write_fp32(weights, wide)
    if wide == path:
        return
    import llama_cpp

    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_{FILE_TYPES[precision]}")
    failed = llama_cpp.llama_model_quantize(str(wide).encode(), str(path).encode(), params)
    wide.unlink()
    if failed:
        raise ExecutorFailed(f"llama.cpp cannot quantise {weights.name} to {FILE_TYPES[precision]}", code="TL302")


def _write_fp32(weights: Path, path: Path) -> None:
    import gguf
    from safetensors.numpy import load_file

    config = read_json(weights / "config.json")
    heads = int(config["num_attention_heads"])
    kv_heads = int(config.get("num_key_value_heads") or heads)
    width = int(config.get("head_dim") or config["hidden_size"] // heads)
    rope = config.get("rope_parameters") or {}
    kind = config["model_type"]
    writer = gguf.GGUFWriter(str(path), kind)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_dimension_count(width)
    writer.add_rope_freq_base(float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for file in sorted(weights.glob("*.safetensors")):
        for name, values in load_file(file).items():
            rows = values.astype(np.float32)
            if kind == "llama":
                rows = turned(name, rows, heads, kv_heads)
            writer.add_tensor(renamed(name), np.ascontiguousarray(rows))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensors(path: Path) -> Iterator[tuple[str, list[int], str, int]]:
    """(name, sides, llama.cpp's type, bytes) of every tensor of a file."""
    import gguf

    for each in gguf.GGUFReader(str(path)).tensors:
        yield each.name, [int(side) for side in each.shape], each.tensor_type.name, int(each.n_bytes)


def linears(path: Path) -> list[Linear]:
    """(out, in, stored format) of every product of activations with weights."""
    return [
        (sides[1], sides[0], format_of(kind))
        for name, sides, kind, _ in tensors(path)
        if len(sides) == 2 and not any(word in name for word in _KEPT_WIDE)
    ]


_FLASH = re.compile(r"resolve_fused_ops: Flash Attention (\w+)")
_CACHE = re.compile(r"[KV] \((\w+)\):\s*([\d.]+) MiB")
_FORMATS = {"F32": "fp32", "F16": "fp16", "BF16": "bf16", "Q8_0": "int8"}
_PLAIN = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
_IN_BLOCK = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def renamed(name: str) -> str:
    """A tensor of transformers' Llama, Qwen2 or Qwen3 by its name in GGUF. Raises KeyError for one of no such name."""
    stem, _, kind = name.rpartition(".")
    if stem in _PLAIN:
        return f"{_PLAIN[stem]}.{kind}"
    _, _, number, rest = stem.split(".", 3)
    return f"blk.{number}.{_IN_BLOCK[rest]}.{kind}"


def turned(name: str, values: np.ndarray, heads: int, kv_heads: int) -> np.ndarray:
    """llama.cpp rotates neighbouring pairs of a head, transformers its two halves: rows of queries and keys change
    places."""
    count = heads if "q_proj" in name else kv_heads if "k_proj" in name else 0
    if not count:
        return values
    half = values.shape[0] // count // 2
    return values.reshape(count, 2, half, -1).swapaxes(1, 2).reshape(values.shape)


def format_of(kind: str) -> str:
    """llama.cpp's word for a tensor type in ours; integers by their bits ("Q4_K" is int4, "Q6_K" its own)."""
    return _FORMATS.get(kind) or (f"int{kind[1]}" if kind[1:2] in "48" else kind.lower())


def cache_said(log: str) -> dict[str, int]:
    """Bytes of the KV cache by format, from the lines that llama.cpp prints when it makes a context; empty without."""
    said = (each for line in log.splitlines() if "size" in line for each in _CACHE.findall(line))
    return summed((format_of(word.upper()), round(float(size) * 2**20)) for word, size in said)


def flash_said(log: str) -> str:
    """How llama.cpp decided on flash attention where that was left to it; "" where its log does not say."""
    found = _FLASH.search(log)
    return f"flash attention {found[1]}" if found else ""
