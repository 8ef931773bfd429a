"""Memory that was measured in parts: state and activations of Megatron, and the parts that vLLM reports at start."""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.number import Number
from twinlens.theory.parameter import parameters

SAMPLER_SEQUENCES = 1024.0
SAMPLER_BYTES = 39.0
"""Bytes per word of the vocabulary and sequence of vLLM's sampler at start (38.4 to 39.6 over eight text models)."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A Megatron split that memory depends on."""

    tensor: Number = 1
    pipeline: Number = 1
    virtual: Number = 1
    microbatches: Number = 1
    sequence_parallel: bool = False
    recompute: str = "none"
    """"none", "selective" or "full"."""


def megatron_state_bytes(shape: DecoderShape, split: Pipeline, bytes_per_parameter: Number = 18.0) -> Number:
    """Weights, gradients, master copy and Adam's moments of the layers on one device of a stage in the middle."""
    count = parameters(shape)
    return (count.total - count.embedding) * bytes_per_parameter / (split.tensor * split.pipeline)


def megatron_activation_bytes(shape: DecoderShape, split: Pipeline, microbatch: Number, length: Number) -> Number:
    """Activations on the first stage (Korthikanti et al., arXiv 2205.05198, equations 1 to 5 and section 4.2.3).

    The first of p stages keeps p microbatches of its L/p layers, and with v parts per stage 1 + (p − 1)/(p·v) times as
    much.
    """
    t = split.tensor
    squares = 5.0 * shape.heads * length / (shape.hidden * t) if split.recompute == "none" else 0.0
    if split.recompute == "full":
        per_layer = 2.0 / t if split.sequence_parallel else 2.0
    else:
        per_layer = 34.0 / t if split.sequence_parallel else 10.0 + 24.0 / t
    wide = 1.0 * length * microbatch * shape.hidden * shape.layers
    more = 1.0 + (split.pipeline - 1.0) / (split.pipeline * split.virtual) if split.virtual > 1 else 1.0
    return wide * (per_layer + squares) * more


def sampler_peak_bytes(shape: DecoderShape, sequences: Number = SAMPLER_SEQUENCES) -> Number:
    """What vLLM's profiling run needs beside the weights: scores of a full batch, not activations of layers."""
    return SAMPLER_BYTES * shape.vocab * sequences


def cache_bytes(
    visible_bytes: Number, share: Number, weights_bytes: Number, peak_bytes: Number, other_bytes: Number = 0.14e9
) -> Number:
    """What vLLM leaves for keys and values: its share of the device less weights, peak and the driver's own."""
    return visible_bytes * share - weights_bytes - peak_bytes - other_bytes
