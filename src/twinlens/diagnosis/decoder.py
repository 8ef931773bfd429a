"""The decoder that a run computed, under its measured roofs: the least time of a prefill and of a decode step, also at
another batch, context or precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twinlens.diagnosis.phase import known
from twinlens.record.estimate import Estimate
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.precision import Precision
from twinlens.theory.flop import decode_flop, prefill_flop
from twinlens.theory.number import Number, larger
from twinlens.theory.traffic import decode_traffic, prefill_bytes
from twinlens.theory.width import widths


@dataclass(frozen=True, slots=True)
class Decoder:
    """What was computed: `batch` sequences together, `prompt` and `answer` tokens each, in one precision.

    `linear_bytes`: of the weights that mat-vec kernels read in one step, as counted; None where nobody counted.
    """

    shape: DecoderShape
    precision: Precision
    batch: int
    prompt: int
    answer: int
    linear_bytes: float | None = None

    @property
    def context(self) -> int:
        """Tokens in the cache in the middle of an answer."""
        return self.prompt + self.answer // 2

    @property
    def steps(self) -> int:
        """Decode steps of one request: the first token is of the prefill."""
        return max(1, self.answer - 1)


@dataclass(frozen=True, slots=True)
class Roofs:
    """Measured rates. `matvec`: of mat-vec kernels reading weights; None where it was not measured."""

    flop_per_s: float
    bytes_per_s: float
    matvec: float | None = None


def roofs_of(ceilings: Mapping[str, Estimate]) -> Roofs | None:
    """The roofs of inference; None where compute or bandwidth was not measured."""
    peak = known(ceilings, "matrix_flop_per_s_at") or known(ceilings, "matrix_flop_per_s")
    read = known(ceilings, "read_bytes_per_s")
    return None if peak is None or read is None else Roofs(peak, read, known(ceilings, "matvec_bytes_per_s"))


def prefill_floor_s(ran: Decoder, roofs: Roofs, batch: Number, precision: Precision | None = None) -> Number:
    """The least seconds of one prefill of `batch` prompts."""
    kept = widths(ran.shape, precision or ran.precision)
    moved = prefill_bytes(ran.shape, ran.prompt, batch, kept.weight_bits, kept.kv_bytes, kept.head_bits)
    return larger(prefill_flop(ran.shape, ran.prompt) * batch / roofs.flop_per_s, moved / roofs.bytes_per_s)


def decode_floor_s(
    ran: Decoder,
    roofs: Roofs,
    batch: Number,
    precision: Precision | None = None,
    context: Number | None = None,
) -> Number:
    """The least seconds of one decode step: of arithmetic, of a plain read, and of what mat-vec kernels can read."""
    length = ran.context if context is None else context
    done = decode_flop(ran.shape, length) * batch / roofs.flop_per_s
    least = larger(done, decode_bytes(ran, batch, precision, length) / roofs.bytes_per_s)
    linear = linear_bytes(ran, precision)
    return larger(least, linear / roofs.matvec) if linear and roofs.matvec else least


def decode_bytes(ran: Decoder, batch: Number, precision: Precision | None, context: Number) -> Number:
    """Compulsory bytes of one decode step: weights with their scales once, the cache of each sequence."""
    return weights_bytes(ran, precision, batch) + cache_bytes(ran, batch, precision, context)


def weights_bytes(ran: Decoder, precision: Precision | None = None, batch: Number = 1) -> Number:
    """Bytes of weights and scales that one decode step of `batch` sequences reads."""
    kept = widths(ran.shape, precision or ran.precision)
    return decode_traffic(ran.shape, 1, batch, kept.weight_bits, kept.kv_bytes, kept.head_bits).weights_bytes


def cache_bytes(ran: Decoder, batch: Number, precision: Precision | None, context: Number) -> Number:
    """Bytes of cache and states that one decode step reads and writes."""
    kept = widths(ran.shape, precision or ran.precision)
    moved = decode_traffic(ran.shape, context, batch, kept.weight_bits, kept.kv_bytes, kept.head_bits)
    return moved.kv_bytes + moved.state_bytes


def linear_bytes(ran: Decoder, precision: Precision | None = None) -> float | None:
    """Weight bytes that mat-vec kernels read in one step: as counted, in proportion to the width of the weights."""
    if ran.linear_bytes is None or precision is None or precision == ran.precision:
        return ran.linear_bytes
    return float(ran.linear_bytes * weights_bytes(ran, precision) / weights_bytes(ran))
