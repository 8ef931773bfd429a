"""Memory of a GPT as Megatron trains it, on each device: activations and state (Korthikanti et al., 2205.05198)."""

from __future__ import annotations

from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.activation import Checkpointing, sequence_tokens
from twinlens.theory.number import Number, choose, count
from twinlens.theory.parameter import parameters


def megatron_bytes(
    shape: DecoderShape,
    microbatch: Number,
    seq_len: Number,
    checkpointing: Checkpointing = "none",
    *,
    tensor: Number = 1,
    sequence_parallel: bool = False,
    pipeline: Number = 1,
    chunks: Number = 1,
) -> Number:
    """Bytes of the layers on the first stage, which keeps one microbatch for each stage; scores at the loss aside.

    Per layer s·b·h·(10 + 24/t + 5·a·s/(h·t)) at 2 bytes with dropout, and with sequence parallelism 34/t in place of
    the first two; selective recompute drops the last, full recompute leaves the 2 bytes of the input. `chunks`: of
    layers on each stage, interleaved, of which more are in flight: 1 + (p − 1)/(p·v).
    """
    ranks, stages, many = count("tensor", tensor), count("pipeline", pipeline), count("chunks", chunks)
    wide = 1.0 * sequence_tokens(shape, seq_len) * count("microbatch", microbatch) * shape.hidden * shape.layers
    if checkpointing == "full":
        each = 2.0 / (ranks if sequence_parallel else 1)
    else:
        each = 34.0 / ranks if sequence_parallel else 10.0 + 24.0 / ranks
        if checkpointing == "none":
            each = each + 5.0 * shape.heads * seq_len / (shape.hidden * ranks)
    return wide * each * choose(many > 1, 1 + (stages - 1) / (stages * many), 1.0)


def megatron_state_bytes(
    shape: DecoderShape, bytes_per_parameter: Number, *, tensor: Number = 1, pipeline: Number = 1
) -> Number:
    """Weights, gradients, master copy and optimizer on one device of a stage between the ends of the pipeline.

    `bytes_per_parameter`: the total of a layout (theory/memory.py). Tables of tokens and positions lie at the ends.
    """
    ranks, stages, counted = count("tensor", tensor), count("pipeline", pipeline), parameters(shape)
    return (counted.total - counted.embedding) * bytes_per_parameter / (ranks * stages)
