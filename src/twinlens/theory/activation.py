"""Activations kept for the backward pass, in bytes: counted tensor by tensor, and by the usual paper."""

from __future__ import annotations

from typing import Literal

from twinlens.errors import BadInput
from twinlens.spec.model.shape import DecoderShape, ModelShape, ResnetShape, VitShape
from twinlens.theory.convolution import convolutions
from twinlens.theory.parameter import vit_tokens

Checkpointing = Literal["none", "selective", "full"]
Attention = Literal["materialised", "fused"]
_FP32 = 4.0  # norms and softmax work in fp32 whatever the model's format
_INT64 = 8.0


def activation_bytes(
    shape: ModelShape,
    microbatch: int,
    seq_len: int | None = None,
    checkpointing: Checkpointing = "none",
    attention: Attention = "fused",
    bytes_per_element: float = 2.0,
) -> float:
    """Bytes that autograd keeps for the layers of one microbatch; the scores at the loss are `logits_bytes`.

    Counted from the tensors that eager PyTorch saves in a Hugging Face block without dropout, in
    `bytes_per_element` e: a norm keeps its input in fp32 and two copies in e, attention its queries,
    keys, values and output, a gated MLP four of its inner width. `attention="fused"` (flash, SDPA) and
    `checkpointing="selective"` keep no square of scores. `"full"` keeps each layer's input and, while
    one layer is recomputed, that layer. Residual networks keep each convolution's output and its
    activation; checkpointing them is refused, as is a decoder without `seq_len` (BadInput).
    """
    e = bytes_per_element
    if isinstance(shape, ResnetShape):
        if checkpointing != "none":
            raise BadInput("checkpointing a residual network has no formula here; use none")
        return microbatch * _resnet(shape, e)
    tokens = sequence_tokens(shape, seq_len)
    squares = attention == "materialised" and checkpointing == "none"
    scores = shape.heads * tokens * (_FP32 + (e if e < _FP32 else 0.0)) if squares else 0.0
    mixer = scores + (_decoder_mixer(shape, e) if isinstance(shape, DecoderShape) else 4 * shape.hidden * e)
    norm = _norm(shape, e)
    layers = [2 * norm + mixer + width for width in _mlps(shape, e)]
    kept = shape.layers * shape.hidden * e + max(layers) if checkpointing == "full" else sum(layers)
    pixels = 0 if isinstance(shape, DecoderShape) else shape.channels * shape.image_size**2 * e
    return microbatch * (tokens * (kept + norm) + pixels)  # the last norm stands before the head


def _resnet(shape: ResnetShape, e: float) -> float:
    """Bytes for one image: itself, each convolution's output and activation, max pool with indices."""
    layers = convolutions(shape, shape.image_size)
    outputs = sum(layer.elements * (1 if layer.shortcut else 2) for layer in layers)
    pooled = shape.embedding * ((layers[0].side + 1) // 2) ** 2
    return e * (shape.channels * shape.image_size**2 + outputs + pooled) + _INT64 * pooled


def _norm(shape: DecoderShape | VitShape, e: float) -> float:
    """Bytes per token of one norm and of what it feeds."""
    rms = isinstance(shape, DecoderShape) and not shape.norm_bias
    return shape.hidden * (_FP32 + 2 * e if rms else 2 * e)


def _decoder_mixer(shape: DecoderShape, e: float) -> float:
    """Bytes per token of one layer's attention, scores aside."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    values, out = shape.kv_heads * shape.value_head_dim, shape.heads * shape.value_head_dim
    normed = (queries + keys) * (_FP32 + e) if shape.qk_norm else 0.0
    latent = shape.mla.kv_lora_rank + (shape.mla.q_lora_rank or 0) if shape.mla else 0
    return e * (queries + keys + values + out) + normed + latent * (_FP32 + 2 * e)


def _mlps(shape: DecoderShape | VitShape, e: float) -> list[float]:
    """Bytes per token of each layer's MLP."""
    if isinstance(shape, VitShape):
        return [2 * shape.intermediate * e] * shape.layers
    copies = 4 if shape.gated_mlp else 2
    dense = [copies * shape.intermediate * e] * (shape.layers - shape.expert_layers)
    if not shape.experts:
        return dense
    # Each chosen expert also keeps a gathered copy of its input.
    chosen = shape.experts.per_token * (copies * shape.experts.intermediate + shape.hidden)
    shared = copies * shape.experts.shared * shape.experts.intermediate
    return dense + [(chosen + shared) * e] * shape.expert_layers


def korthikanti_bytes(
    shape: DecoderShape,
    microbatch: int,
    seq_len: int,
    checkpointing: Checkpointing = "none",
    attention: Attention = "materialised",
) -> float:
    """s·b·h·(34 + 5·a·s/h)·L at 2 bytes per element (Korthikanti et al. 2022, arXiv 2205.05198).

    Selective recompute, like fused attention, drops the 5·a·s/h term; full recompute leaves 2·s·b·h·L.
    It describes a GPT block with dropout and an MLP of 4h; a Llama block in eager PyTorch keeps a
    quarter to two fifths more.
    """
    wide = float(sequence_tokens(shape, seq_len) * microbatch * shape.hidden * shape.layers)
    if checkpointing == "full":
        return 2.0 * wide
    squares = attention == "materialised" and checkpointing == "none"
    return wide * (34.0 + (5.0 * shape.heads * seq_len / shape.hidden if squares else 0.0))


def logits_bytes(shape: ModelShape, microbatch: int, seq_len: int | None, bytes_per_element: float) -> float:
    """Bytes of the output scores at the loss: as computed, their fp32 log-softmax and its gradient.

    Checkpointing does not help here; with a large vocabulary this outweighs layers that are recomputed.
    """
    if isinstance(shape, DecoderShape):
        return sequence_tokens(shape, seq_len) * microbatch * shape.vocab * (bytes_per_element + 2 * _FP32)
    return microbatch * shape.labels * (bytes_per_element + 2 * _FP32)


def sequence_tokens(shape: DecoderShape | VitShape, seq_len: int | None) -> int:
    """Tokens per sequence, or per image. Raises BadInput for a decoder without a sequence length."""
    if isinstance(shape, VitShape):
        return vit_tokens(shape, shape.image_size)
    if seq_len is None or seq_len < 1:
        raise BadInput(f"a language model needs a sequence length of at least 1, not {seq_len}")
    return seq_len
