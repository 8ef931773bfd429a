"""The decoder that a run computed, under its measured roofs: the least time of a prefill and of a decode step, also at
another batch, context or precision."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twinlens.diagnosis.phase import Phase, known
from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate
from twinlens.record.executor.field import formats_of
from twinlens.record.run import Run
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.precision import AS_FOUND, AS_SERVED, Precision
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload
from twinlens.stats.summary.serving import is_served
from twinlens.theory.flop import decode_flop, prefill_flop
from twinlens.theory.memory import layout_of
from twinlens.theory.number import Number, larger
from twinlens.theory.traffic import decode_traffic, prefill_bytes, training_step_bytes
from twinlens.theory.weight_format import widths


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


# Points at which a bound flips: the batch where arithmetic binds, the context where the cache is most of the bytes.


def batch_at_flip(ran: Decoder, roofs: Roofs, precision: Precision | None = None) -> float | None:
    """The batch from which arithmetic takes longer than bytes in a decode step; None where the cache keeps bytes ahead.

    Arithmetic and cache grow with the batch, weights do not: b·c = max((W + b·k) / read, L / matvec), with c seconds of
    arithmetic, k cache bytes and L mat-vec bytes of one sequence, W bytes of weights. Experts: as for one sequence.
    """
    arithmetic = float(decode_flop(ran.shape, ran.context)) / roofs.flop_per_s
    cache = float(cache_bytes(ran, 1, precision, ran.context)) / roofs.bytes_per_s
    weights = float(weights_bytes(ran, precision)) / roofs.bytes_per_s
    if arithmetic <= cache:
        return None
    linear = linear_bytes(ran, precision)
    by_kernels = linear / roofs.matvec / arithmetic if linear and roofs.matvec else 0.0
    return max(weights / (arithmetic - cache), by_kernels)


def context_at_cache(ran: Decoder, batch: int | None = None) -> float | None:
    """The tokens of context at which a decode step reads more cache than weights; None where the cache has an end
    (windows, recurrent layers) below that."""
    many = ran.batch if batch is None else batch
    weights = float(weights_bytes(ran, None, many))

    def excess(tokens: float) -> float:
        return float(cache_bytes(ran, many, None, tokens)) - weights

    low, high = 1.0, 2.0
    while excess(high) < 0:
        low, high = high, 2 * high
        if high > 1e12:
            return None
    if excess(low) >= 0:
        return low
    while high - low > 0.5:
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) >= 0 else (middle, high)
    return math.ceil(high)


@dataclass(frozen=True, slots=True)
class Trained:
    """A training step as work per sample: FLOP, bytes that grow with the samples, and bytes that do not."""

    samples: int
    flop: float
    fixed_bytes: float
    sample_bytes: float


def samples_at_flip(ran: Trained, ceilings: Mapping[str, Estimate]) -> float | None:
    """The samples of a step from which arithmetic takes longer than bytes: n·c = (F + n·a) / copy. None where none."""
    peak = known(ceilings, "matrix_flop_per_s_at") or known(ceilings, "matrix_flop_per_s")
    rate = known(ceilings, "copy_bytes_per_s") or known(ceilings, "read_bytes_per_s")
    if peak is None or rate is None:
        return None
    left = ran.flop / peak - ran.sample_bytes / rate
    return ran.fixed_bytes / rate / left if left > 0 else None


# Parts of a spec that a diagnosis needs: the model, how it was computed, on how many devices, and its target.


def shape_of(run: Run) -> DecoderShape | None:
    """The shape of the model; None where it is not here any more, or has no layers of a decoder."""
    try:
        shape: Any = run.spec.model.shape
    except BadInput:
        return None
    return shape if isinstance(shape, DecoderShape) else None


def decoder_of(run: Run, phases: tuple[Phase, ...]) -> Decoder | None:
    """The decoder that ran in this process; None where batches are uneven, or its shape or formats are not known."""
    workload, regime, shape = run.spec.workload, run.spec.precision, shape_of(run)
    decode = next((phase for phase in phases if phase.name == "decode" and phase.seconds), None)
    if decode is None or shape is None or not isinstance(workload, InferenceWorkload):
        return None
    if is_served(run) or regime == AS_SERVED:
        return None
    prompt, answer = workload.input_tokens.max, workload.output_tokens.max
    return Decoder(shape, regime, run.spec.point.batch, prompt, answer, decode.kernel_bytes)


def trained_of(run: Run) -> Trained | None:
    """A training step of a decoder as work per sample, in one microbatch; None of accumulation, of an adapter's
    training and of other models."""
    workload, shape, facts = run.spec.workload, shape_of(run), run.facts
    flop = known(facts.work, "step_flop") if facts else None
    if not isinstance(workload, TrainingWorkload) or shape is None or flop is None or run.spec.precision == AS_FOUND:
        return None
    if (run.spec.point.microbatch or workload.global_batch) != workload.global_batch:
        return None
    if workload.method != "full":
        return None
    layout = layout_of(run.spec.precision)
    one, two = (float(training_step_bytes(shape, layout, many, workload.seq_len)) for many in (1, 2))
    return Trained(workload.global_batch, flop / workload.global_batch, 2 * one - two, two - one)


def precision_of(run: Run) -> Precision | None:
    """The precision that was asked of an engine in this process; None where a server or loop has its own."""
    return None if is_served(run) or run.spec.precision in (AS_SERVED, AS_FOUND) else run.spec.precision


def engine_formats_of(run: Run) -> dict[str, str]:
    """Formats that the matrix engine multiplies natively, or emulates; empty where it is not known."""
    return formats_of(run.facts.executor.value("accelerator.architecture")) if run.facts else {}


def devices_of(run: Run) -> int:
    """Devices that one model ran on; a run that says nothing of it had one."""
    told = run.facts.executor.value("training.world_size") if run.facts else None
    return told if isinstance(told, int) and told > 0 else 1


def slo_share_of(run: Run) -> float | None:
    """The share of requests that must keep the SLO; None without one."""
    workload = run.spec.workload
    slo = workload.slo if isinstance(workload, InferenceWorkload) else None
    return None if slo is None else slo.quantile
