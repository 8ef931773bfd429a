"""Activations kept for the backward pass, in bytes."""

from __future__ import annotations

from typing import Literal

from twinlens.errors import BadInput
from twinlens.spec.shape import DecoderShape, ModelShape, ResnetShape, VitShape
from twinlens.theory.convolution import convolutions
from twinlens.theory.parameter import vit_tokens

Checkpointing = Literal["none", "selective", "full"]
Attention = Literal["materialised", "fused"]


def activation_bytes(
    shape: ModelShape,
    microbatch: int,
    seq_len: int | None = None,
    checkpointing: Checkpointing = "none",
    attention: Attention = "fused",
    bytes_per_element: float = 2.0,
) -> float:
    """Bytes of the layers' activations for one microbatch; logits are `logits_bytes`.

    Transformers: s·b·h·(34 + 5·a·s/h)·L at 2 bytes per element (Korthikanti et al. 2022, arXiv 2205.05198),
    scaled to `bytes_per_element`. `attention="fused"` (flash, SDPA) or `checkpointing="selective"` keeps no
    s×s matrix and drops the 5·a·s/h term; `"full"` keeps each layer's input only, 2·s·b·h·L. The 34 is
    counted for a GPT block with dropout: a gated MLP wider than 4h keeps more. Vision transformers take s
    from their image. Residual networks: each convolution's output before and after its norm; checkpointing
    is not modelled for them. Raises BadInput when a decoder gets no `seq_len`, or a residual network a
    checkpointing it has no formula for.
    """
    if isinstance(shape, ResnetShape):
        if checkpointing != "none":
            raise BadInput("checkpointing a residual network has no formula here; use none")
        elements = sum(layer.elements for layer in convolutions(shape, shape.image_size))
        return 2.0 * elements * microbatch * bytes_per_element
    tokens = sequence_tokens(shape, seq_len)
    wide = tokens * microbatch * shape.hidden * shape.layers * bytes_per_element / 2
    if checkpointing == "full":
        return 2.0 * wide
    squares = attention == "materialised" and checkpointing == "none"
    return wide * (34.0 + (5.0 * shape.heads * tokens / shape.hidden if squares else 0.0))


def logits_bytes(shape: ModelShape, microbatch: int, seq_len: int | None, bytes_per_element: float) -> float:
    """Bytes of the output scores at the loss: as computed, and in fp32 the copy and its log-softmax.

    Checkpointing does not help here, and with a large vocabulary and few layers this outweighs every layer.
    """
    if isinstance(shape, DecoderShape):
        return sequence_tokens(shape, seq_len) * microbatch * shape.vocab * (bytes_per_element + 8.0)
    return microbatch * shape.labels * (bytes_per_element + 8.0)


def sequence_tokens(shape: DecoderShape | VitShape, seq_len: int | None) -> int:
    """Tokens per sequence, or per image."""
    if isinstance(shape, VitShape):
        return vit_tokens(shape, shape.image_size)
    if seq_len is None or seq_len < 1:
        raise BadInput(f"a language model needs a sequence length of at least 1, not {seq_len}")
    return seq_len
