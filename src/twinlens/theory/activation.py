"""Activations kept for the backward pass, in bytes: counted tensor by tensor, and by the usual paper."""

from __future__ import annotations

from typing import Literal

from twinlens.errors import BadInput
from twinlens.spec.model.shape import DecoderShape, ModelShape, Recurrent, ResnetShape, VitShape
from twinlens.theory.number import Number, choose, count, is_scalar, larger, rate
from twinlens.theory.parameter import convolutions, vit_tokens

Checkpointing = Literal["none", "selective", "full"]
Attention = Literal["materialised", "fused"]
_FP32 = 4.0  # norms and softmax work in fp32 whatever the model's format
_INT64 = 8.0


def activation_bytes(
    shape: ModelShape,
    microbatch: Number,
    seq_len: Number | None = None,
    checkpointing: Checkpointing = "none",
    attention: Attention = "fused",
    bytes_per_element: Number = 2.0,
) -> Number:
    """Bytes that autograd keeps for the layers of one microbatch; the scores at the loss are `logits_bytes`.

    Held to autograd within 2 % for Llama, Qwen3, Gemma, routed experts, latent attention, ViT and ResNet.
    Where SDPA has no fused kernel (latent attention on a CPU), "materialised" is what is kept; scans without
    fused kernels keep far more.

    Counted from the tensors that eager PyTorch saves in a Hugging Face block without dropout, in
    `bytes_per_element` e: a norm keeps its input in fp32 and two copies in e (Gemma's one of them in fp32),
    attention its queries, keys, values and output, a gated MLP four of its inner width. Besides, in fp32 for
    each token: a norm its scale (and its mean, with a bias), fused attention a log-sum-exp for each head, a router its
    scores. Left out, as they come once for all sequences or layers: RoPE angles, token ids, statistics of batch norms.
    `attention="fused"` (flash, SDPA) and `checkpointing="selective"` keep no square of scores. `"full"`
    keeps each layer's input and, while one layer is recomputed, that layer. Residual networks keep each
    convolution's output and its activation; checkpointing them is refused, as is a decoder without
    `seq_len` (BadInput).
    """
    e = rate("bytes_per_element", bytes_per_element)
    count("microbatch", microbatch)
    if isinstance(shape, ResnetShape):
        if checkpointing != "none":
            raise BadInput("checkpointing a residual network has no formula here; use none")
        return microbatch * _resnet(shape, e)
    tokens = sequence_tokens(shape, seq_len)
    squares = attention == "materialised" and checkpointing == "none"
    norm = _norm(shape, e)
    if isinstance(shape, VitShape):
        pixels = shape.channels * shape.image_size**2 * e
        attending = _scores(shape, tokens, squares, e) + 4 * shape.hidden * e
        layers = shape.layers * (2 * norm + attending)
        largest = layers / shape.layers + _mlp(shape, shape.intermediate, e)
        every = layers + shape.layers * _mlp(shape, shape.intermediate, e)
    else:
        pixels = 0
        every, largest = _decoder_layers(shape, tokens, squares, e)
    kept = shape.layers * shape.hidden * e + largest if checkpointing == "full" else every
    return microbatch * (tokens * (kept + norm) + pixels)  # the last norm stands before the head


def _scores(shape: DecoderShape | VitShape, tokens: Number, squares: bool, e: Number) -> Number:
    """Bytes per token of one layer's square of scores, where it is written out; fused, a log-sum-exp for each head."""
    return shape.heads * (tokens * (_FP32 + choose(e < _FP32, e, 0.0)) if squares else _FP32)


def _decoder_layers(shape: DecoderShape, tokens: Number, squares: bool, e: Number) -> tuple[Number, Number]:
    """Bytes per token of all layers together, and of the largest one."""
    # A norm behind a block feeds the residual alone, and a sum keeps nothing.
    norms = shape.layer_norms * _norm(shape, e) - max(0, shape.layer_norms - 2) * shape.hidden * e
    scores = _scores(shape, tokens, squares, e)
    kinds = ((shape.full_view, shape.full_layers, shape.shared_kv_full),
             (shape, shape.windowed_layers + shape.cross_attention_layers, shape.shared_kv_windowed))  # fmt: skip
    every, mixer = shape.layers * norms, 0.0
    for view, layers, shared in kinds:
        if layers:
            attending = scores + _decoder_mixer(view, e, squares)
            every = every + layers * attending - shared * _keys_and_values(view, e, squares)
            mixer = larger(mixer, attending)
    if shape.recurrent:
        every = every + shape.recurrent.layers * _recurrent_mixer(shape.recurrent, e)
        mixer = larger(mixer, _recurrent_mixer(shape.recurrent, e))
    dense = _mlp(shape, shape.intermediate, e)
    every = every + (shape.dense_layers + shape.double_mlp_layers) * dense
    mlps = [dense * (2 if shape.double_mlp_layers else 1)] if shape.dense_layers else []
    if shape.experts and shape.expert_layers:
        # Each chosen expert also keeps a gathered copy of its input, and its output for the score that scales it.
        width = shape.experts.per_token * shape.experts.intermediate + shape.experts.shared_width
        mlps.append(_mlp(shape, width, e) + 2 * shape.experts.per_token * shape.hidden * e + _router(shape, e))
        every = every + shape.expert_layers * mlps[-1]
    if shape.per_layer_input:
        # Its norm; then gate, activation, embedding and their product, and the input of the gate.
        small = shape.per_layer_input * (_FP32 + _normed(shape, e) + 4 * e) + _FP32 + shape.hidden * e
        every, norms = every + shape.layers * small, norms + small
    mlp: Number = 0.0
    for each in mlps:
        mlp = larger(mlp, each)
    return every, norms + (larger(mixer, mlp) if shape.attending_layers is not None else mixer + mlp)


def _mlp(shape: DecoderShape | VitShape, width: int, e: Number) -> Number:
    """Bytes per token of an MLP of this inner width."""
    gated = isinstance(shape, DecoderShape) and shape.gated_mlp
    return (4 if gated else 2) * width * e


def _router(shape: DecoderShape, e: Number) -> Number:
    """Bytes per token of one layer's choice: a score of every expert, and of each that is chosen its score and its
    number (four times: chosen, sorted, gathered, added up). One that scales its input norms it, too, and its experts
    have a norm of their own before them (Gemma 4)."""
    experts = shape.experts
    assert experts is not None
    kept = _FP32 * experts.count + experts.per_token * (4 * _INT64 + e)
    if experts.router_in_fp32:
        kept = kept + choose(e < _FP32, _FP32 * shape.hidden, 0.0)
    if experts.router_scales:
        kept = kept + shape.hidden * (e + choose(e < _FP32, _FP32 + 2 * e, 0.0)) + _FP32
    return kept


def _recurrent_mixer(mixer: Recurrent, e: Number) -> Number:
    """Bytes per token of one recurrent layer with fused kernels: what is convolved, before and after; gate and output.

    States at the bounds of chunks, and what an unfused scan keeps, come on top.
    """
    return (2 * mixer.convolved + 3 * mixer.value_heads * mixer.value_dim) * e


def _resnet(shape: ResnetShape, e: Number) -> Number:
    """Bytes for one image: itself, each convolution's output and activation, max pool with indices."""
    layers = convolutions(shape, shape.image_size)
    outputs = sum(layer.elements * (1 if layer.shortcut else 2) for layer in layers)
    pooled = shape.embedding * ((layers[0].side + 1) // 2) ** 2
    return e * (shape.channels * shape.image_size**2 + outputs + pooled) + _INT64 * pooled


def _norm(shape: DecoderShape | VitShape, e: Number) -> Number:
    """Bytes per token of one norm and of what it feeds."""
    rms = isinstance(shape, DecoderShape) and not (shape.norm_bias or shape.layer_norm)
    return shape.hidden * (_FP32 + _normed(shape, e) + e if rms else 2 * e) + (_FP32 if rms else 2 * _FP32)


def _normed(shape: DecoderShape | VitShape, e: Number) -> Number:
    """Bytes of one element before it is multiplied by the norm's weight."""
    return larger(_FP32, e) if isinstance(shape, DecoderShape) and shape.norm_in_fp32 else e


def _decoder_mixer(shape: DecoderShape, e: Number, squares: bool = False) -> Number:
    """Bytes per token of one layer's attention, scores aside. Unfused, keys and values are repeated for every head."""
    shared = shape.heads if squares else shape.kv_heads
    queries, keys = shape.heads * shape.head_dim, shared * shape.head_dim
    values, out = shared * shape.value_head_dim, shape.heads * shape.value_head_dim
    both = queries + shape.kv_heads * shape.head_dim
    scales = _FP32 * (shape.heads + shape.kv_heads)
    normed = both * (_FP32 + _normed(shape, e)) + scales if shape.qk_norm else 0.0
    latent = shape.mla.kv_lora_rank + (shape.mla.q_lora_rank or 0) if shape.mla else 0
    normed = normed + (shape.kv_heads * (shape.value_head_dim + 1) * _FP32 if shape.value_norm else 0.0)
    return e * (queries + keys + values + out) + normed + latent * (_FP32 + 2 * e)


def _keys_and_values(shape: DecoderShape, e: Number, squares: bool) -> Number:
    """Bytes per token that a layer with keys and values of its own keeps, and one that reads another's does not."""
    keys, scale = shape.kv_heads * shape.head_dim, _FP32 * shape.kv_heads
    normed = keys * (_FP32 + _normed(shape, e)) + scale if shape.qk_norm else 0.0
    normed = normed + (shape.kv_heads * shape.value_head_dim * _FP32 + scale if shape.value_norm else 0.0)
    return normed + (0.0 if squares else e * (keys + shape.kv_heads * shape.value_head_dim))


def korthikanti_bytes(
    shape: DecoderShape,
    microbatch: Number,
    seq_len: Number,
    checkpointing: Checkpointing = "none",
    attention: Attention = "materialised",
) -> Number:
    """s·b·h·(34 + 5·a·s/h)·L at 2 bytes per element (Korthikanti et al. 2022, arXiv 2205.05198).

    Selective recompute, like fused attention, drops the 5·a·s/h term; full recompute leaves 2·s·b·h·L.
    It describes a GPT block with dropout and an MLP of 4h; a Llama block in eager PyTorch keeps a
    quarter to two fifths more.
    """
    wide = 1.0 * sequence_tokens(shape, seq_len) * microbatch * shape.hidden * shape.layers
    if checkpointing == "full":
        return 2.0 * wide
    squares = attention == "materialised" and checkpointing == "none"
    return wide * (34.0 + (5.0 * shape.heads * seq_len / shape.hidden if squares else 0.0))


def logits_bytes(shape: ModelShape, microbatch: Number, seq_len: Number | None, bytes_per_element: Number) -> Number:
    """Bytes of the output scores at the loss: as computed, their fp32 log-softmax and its gradient.

    Checkpointing does not help here; with a large vocabulary this outweighs layers that are recomputed.
    """
    if isinstance(shape, DecoderShape):
        return sequence_tokens(shape, seq_len) * microbatch * shape.vocab * (bytes_per_element + 2 * _FP32)
    return microbatch * shape.labels * (bytes_per_element + 2 * _FP32)


def sequence_tokens(shape: DecoderShape | VitShape, seq_len: Number | None) -> Number:
    """Tokens per sequence, or per image. Raises BadInput for a decoder without a sequence length."""
    if isinstance(shape, VitShape):
        return vit_tokens(shape, shape.image_size)
    if seq_len is None or (is_scalar(seq_len) and seq_len < 1):
        raise BadInput(f"a language model needs a sequence length of at least 1, not {seq_len}")
    return count("seq_len", seq_len)
