"""Consistency of workload and operating point: a setting without effect is refused, never ignored."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from twinlens.errors import BadInput
from twinlens.spec.device import Device
from twinlens.spec.point import FROM_LOG, Point
from twinlens.spec.protocol import Protocol
from twinlens.spec.slo import Search
from twinlens.spec.workload.arrival import Closed, Constant, Gamma, Lockstep, Poisson, Trace
from twinlens.spec.workload.length import Free
from twinlens.spec.workload.prompt import Classify, Generate
from twinlens.spec.workload.workload import (
    CollectiveWorkload,
    Images,
    InferenceWorkload,
    Markov,
    Own,
    TrainingWorkload,
    Workload,
)

_ADMISSION_FIELDS = {"dynamic": "timeout_s", "continuous": "in_flight"}
# A loop of somebody's own runs in their program.
_OWN = (
    'data and an optimizer of kind "own" are those of a loop that tl.watch measured, which a spec cannot start; run '
    "that program again"
)


def refuse_unpaired(workload: Workload, point: Point, executor: str = "") -> None:
    """Raises BadInput (TL202) where arrival, sessions and point need something of each other that is not there.

    `executor`: its kind; a trainer's log says nothing of its optimizer and data, which are then its own.
    """
    if isinstance(workload, CollectiveWorkload):
        wrong = _of_exchange(point)
    elif isinstance(workload, InferenceWorkload):
        wrong = _of_inference(workload, point, executor)
    else:
        wrong = _of_training(workload, point, executor)
    _refuse(wrong)


def _refuse(wrong: Iterator[str]) -> None:
    """Raises BadInput (TL202) with the first of what is wrong."""
    if sentence := next(wrong, None):
        raise BadInput(sentence, code="TL202")


def _of_exchange(point: Point) -> Iterator[str]:
    """An exchange has elements of a format, and nothing else of an operating point."""
    stock = Point()
    for name in sorted(set(Point.model_fields) - {"precision"}):
        if getattr(point, name) != getattr(stock, name):
            means = "means nothing to an exchange between ranks, which has workload.size_bytes; leave it out"
            yield f"point.{name} {means}"


def _of_inference(workload: InferenceWorkload, point: Point, executor: str) -> Iterator[str]:
    arrival, kind = workload.arrival, workload.arrival.kind
    if point.microbatch is not None:
        yield "point.microbatch is for training; inference has point.batch"
    if point.batch != 1 and point.admission is None and not isinstance(arrival, Lockstep):
        yield (
            f"point.batch means nothing to {kind} arrivals without an admission policy that makes batches: "
            '--set point.admission="static", or leave it out'
        )
    if point.rate_per_s is not None and point.concurrency is not None:
        yield "a rate (open loop) and a concurrency (closed loop) exclude each other; leave out one of the two"
    wants_rate, wants_concurrency = isinstance(arrival, Constant | Poisson | Gamma), isinstance(arrival, Closed)
    if wants_rate and point.rate_per_s is None:
        yield f"{kind} arrivals need a rate: --at rate_per_s=1,2,4"
    if wants_concurrency and point.concurrency is None:
        yield "a closed loop needs a concurrency: --at concurrency=1,8,64"
    if point.rate_per_s is not None and not wants_rate:
        yield f'point.rate_per_s means nothing to {kind} arrivals; --set workload.arrival.kind="poisson"'
    if point.concurrency is not None and not wants_concurrency:
        yield f'point.concurrency means nothing to {kind} arrivals; --set workload.arrival.kind="closed"'
    yield from _of_admission(point, has_batches=isinstance(arrival, Lockstep))
    if isinstance(workload.output_tokens, Free) and isinstance(arrival, Lockstep):
        yield (
            'output_tokens = "free" is for servers over HTTP; in lockstep every answer of a batch has the same length: '
            "--set workload.output_tokens.value=32"
        )
    talks = [field for field in ("sessions", "prefix") if getattr(workload, field) is not None]
    if talks and isinstance(arrival, Lockstep | Trace):
        yield f"workload.{talks[0]} means nothing to {kind} arrivals"
    if isinstance(workload.data, Own) and executor != FROM_LOG:
        yield _OWN
    if not isinstance(workload.task, Generate):
        yield from _of_one_piece(workload, talks)
    if workload.adapter is not None and workload.adapter.lora_dropout:
        yield "workload.adapter.lora_dropout means nothing where an adapter is served; leave it out"


def _of_one_piece(workload: InferenceWorkload, talks: list[str]) -> Iterator[str]:
    """An answer in one piece has no tokens to limit, and takes part in no conversation."""
    task = f'workload.task.kind = "{workload.task.kind}"'
    if isinstance(workload.arrival, Lockstep | Trace):
        yield f'{task} needs requests over HTTP: --set workload.arrival.kind="closed", or "poisson"'
    if isinstance(workload.task, Classify) != isinstance(workload.data, Images):
        yield (
            f'{task} does not fit workload.data.kind = "{workload.data.kind}": classify goes with images, and images '
            "over HTTP with classify"
        )
    if talks:
        yield f"workload.{talks[0]} means nothing where an answer comes in one piece ({task})"
    limits = workload.slo.limits() if workload.slo else {}
    if wrong := next((name for name in limits if name != "e2e_latency_s"), None):
        yield f"workload.slo.{wrong} limits tokens, and {task} answers in one piece; give workload.slo.e2e_latency_s"


def _of_training(workload: TrainingWorkload, point: Point, executor: str) -> Iterator[str]:
    if point.batch != 1:
        yield "point.batch is for inference; training has workload.global_batch and point.microbatch"
    if point.microbatch is not None and workload.global_batch % point.microbatch:
        yield f"point.microbatch {point.microbatch} does not divide workload.global_batch {workload.global_batch}"
    for name in ("rate_per_s", "concurrency"):
        if getattr(point, name) is not None:
            yield f"point.{name} is for inference; training has workload.global_batch and point.microbatch"
    yield from _of_admission(point, has_batches=True)
    if (isinstance(workload.data, Own) or workload.optimizer == "own") and executor != FROM_LOG:
        yield _OWN
    # A gap is counted from the entropy rate, which only the synthetic language has.
    if workload.until and workload.until.gap_nats is not None and not isinstance(workload.data, Markov):
        yield (
            f"workload.until.gap_nats needs data whose entropy rate is known, and that of {workload.data.kind} data is "
            "not; give workload.until.loss_nats"
        )
    if workload.method == "qlora" and workload.checkpoint is not None:
        yield 'workload.checkpoint saves no weights in NF4; take workload.method = "lora", or leave it out'


def _of_admission(point: Point, *, has_batches: bool) -> Iterator[str]:
    for policy, field in _ADMISSION_FIELDS.items():
        if getattr(point, field) is not None and point.admission != policy:
            yield f'point.{field} means nothing without {policy} admission; --set point.admission="{policy}"'
    if point.admission == "dynamic" and point.timeout_s is None:
        yield "dynamic admission needs a timeout: --set point.timeout_s=0.05"
    if point.admission and has_batches:
        yield "lockstep has its batches already; admission policies need other arrivals, such as poisson"


def refuse_unsearchable(
    search: Search, workload: Workload, point: Point, swept: Collection[str], protocol: Protocol
) -> None:
    """Raises BadInput (TL202) where a search has nothing to meet, or what it is over is given as well."""
    _refuse(_of_search(search, workload, point, swept, protocol))


def _of_search(
    search: Search, workload: Workload, point: Point, swept: Collection[str], protocol: Protocol
) -> Iterator[str]:
    if not isinstance(workload, InferenceWorkload) or workload.slo is None:
        yield 'a search needs an SLO to meet: --set workload.slo="mlperf-llama3.1-8b", or limits of its own'
    if search.over in swept:
        yield f"{search.over} is both swept and searched; leave out one of the two"
    if getattr(point, search.over) is not None:
        yield f"point.{search.over} means nothing where it is searched; search.start says where to begin"
    if search.budget_s is not None and search.budget_s < protocol.duration_s:
        yield (
            f"search.budget_s = {search.budget_s:g} ends before one run does (protocol.duration_s = "
            f"{protocol.duration_s:g}); give it several times as much"
        )


def refuse_unread_adapter(workload: Workload, swept: Collection[str]) -> None:
    """Raises BadInput (TL202) for an adapter that no point of the study trains."""
    alone = isinstance(workload, TrainingWorkload) and workload.method == "full" and workload.adapter is not None
    if alone and "workload.method" not in swept:
        raise BadInput(
            'workload.adapter means nothing where all weights are trained: --set workload.method="lora", or leave it '
            "out",
            code="TL202",
        )


# Sanity checks on the figures of a device: an implied clock, ratios of rates, FLOP per byte. Units slip often.

_CLOCK_HZ = (0.5e9, 3.2e9)
_FLOP_PER_BYTE = (5.0, 2500.0)
_HALVED = (("fp8", ("bf16", "fp16"), 3.2), ("int8", ("bf16", "fp16"), 4.2), ("fp4", ("fp8",), 4.2))
"""A narrower format, the wider ones to hold it to, and the most times that one may be faster: GeForce parts accumulate
16 and 8 bits in fp32 at half the rate."""
_MOST_BYTES, _LEAST_BYTES = 1e14, 1e9
_MOST_BANDWIDTH, _LEAST_BANDWIDTH = 2e13, 1e9


def implied_clock_hz(device: Device) -> float | None:
    """The clock at which its units would do its 16-bit rate; None where either is not known."""
    rate = device.rate("bf16") or device.rate("fp16")
    units = device.matrix_units
    return None if rate is None or units is None else rate / (units.count * units.flop_per_clock)


def implausible(device: Device) -> Iterator[str]:
    """What cannot be in the figures of a device, in clauses that say what to look at; nothing where all may be."""
    clock = implied_clock_hz(device)
    if clock is not None and not _CLOCK_HZ[0] <= clock <= _CLOCK_HZ[1]:
        yield f"its 16-bit rate needs a clock of {clock / 1e9:.2f} GHz (is it the rate with sparsity, or in TFLOP/s?)"
    for narrow, wider, most in _HALVED:
        rate = device.rate(narrow)
        wide = next((found for name in wider if (found := device.rate(name)) is not None), None)
        if rate is not None and wide is not None and not 0.95 <= rate / wide <= most:
            yield f"its {narrow} rate is {rate / wide:.2g} times its {wider[0]} rate (is one of them with sparsity?)"
    if not _LEAST_BYTES <= device.memory_bytes <= _MOST_BYTES:
        yield f"memory_bytes of {device.memory_bytes:,} is no memory (in bytes: 80 GB are 80_000_000_000)"
    seen = device.memory_visible_bytes
    if seen is not None and not 0.5 <= seen / device.memory_bytes <= 1.1:
        yield f"its driver would show {seen / device.memory_bytes:.2g} times its memory"
    if not _LEAST_BANDWIDTH <= device.bandwidth_bytes_per_s <= _MOST_BANDWIDTH:
        yield f"bandwidth_bytes_per_s of {device.bandwidth_bytes_per_s:g} is none (in bytes/s: 3.35 TB/s are 3.35e12)"
        return
    rate = device.rate("bf16") or device.rate("fp16")
    if rate is not None and not _FLOP_PER_BYTE[0] <= rate / device.bandwidth_bytes_per_s <= _FLOP_PER_BYTE[1]:
        ratio = rate / device.bandwidth_bytes_per_s
        yield f"{ratio:.3g} FLOP per byte of bandwidth is beyond any device (are they in FLOP/s and bytes/s?)"
