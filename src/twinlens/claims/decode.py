"""Claims on decoding: tokens per second and time per token against the bytes that every step reads."""

from __future__ import annotations

import math
from collections.abc import Iterator

from twinlens.claims.answer import Answer, Case, Gap, Term, assumed, beside, solved
from twinlens.claims.said import Claim, Said
from twinlens.claims.subject import (
    Stored,
    Subject,
    device_of,
    is_memory_of_device,
    kv_per_token,
    stored_as,
    stored_of,
    subject_of,
)
from twinlens.record.finding import Finding
from twinlens.theory.traffic import weights_read_bytes

_NARROWER = ("fp8", "q4_k_m", "4-bit")


def decode_rate(claim: Claim) -> Answer | Gap | None:
    """ "70B Q4 does 45 tok/s on 1.79 TB/s": no step is faster than its bytes over the bandwidth."""
    claimed, is_time = claim.one("rate"), False
    if claimed is None:
        claimed, is_time = claim.one("token_time") or _bare_time(claim), True
    if claimed is None or claim.topics & {"training", "prefill"} or claim.all("price_hour") or claim.all("power"):
        return None
    bandwidth, where = _bandwidth(claim)
    subject, weights = subject_of(claim), _weights(claim)
    missing = [*(("bandwidth",) if bandwidth is None else ())]
    missing += [] if weights else ["model"] if subject is None else ["precision"]
    if claimed.low is None or not weights or bandwidth is None:
        unsaid = [name for name in ("batch", "context") if not claim.all("sequences" if name == "batch" else name)]
        figure = ("figure",) if claimed.low is None else ()
        return Gap("decode-time" if is_time else "decode-rate", (*figure, *missing, *unsaid))
    return _answer(claim, claimed, is_time, bandwidth, where, subject, weights)


def _answer(
    claim: Claim, claimed: Said, is_time: bool, bandwidth: float, where: tuple[Finding, ...], subject: Subject | None,
    weights: tuple[Stored, ...],
) -> Answer | Gap:  # fmt: skip
    batch, context = claim.value("sequences"), claim.value("context")
    each = kv_per_token(claim, subject)
    if context and each is None:
        return Gap("decode-rate", ("model-layers",))
    held = (each[0] if each and context else 0.0) * (context or 0.0)
    per_user = "each" in claim.topics or is_time
    cases = tuple(
        _case(stored, subject, held, batch or 1.0, bandwidth, per_user, is_time, len(weights) > 1) for stored in weights
    )
    missing = [name for name, value in (("batch", batch), ("context", context)) if value is None]
    notes = (
        *where,
        *(
            each[2]
            if each and context
            else beside(subject.assumed)
            if subject and (not claim.all("bytes") or subject.shape)
            else ()
        ),
    )
    best = max(case.value for case in cases) if not is_time else min(case.value for case in cases)
    beyond = claimed.range[0] > best if not is_time else claimed.range[1] < best
    solutions = (
        tuple(_solutions(claimed, is_time, subject, weights, held, batch, bandwidth, per_user)) if beyond else ()
    )
    return Answer(
        "decode-time" if is_time else "decode-rate", "s" if is_time else "tokens/s", claimed, cases,
        bound="at-least" if is_time else "at-most", assumed=notes, missing=(*missing, "bandwidth-reached"),
        solutions=solutions, is_open=beyond and batch is None and not per_user and any(map(_is_of_batch, solutions)),
    )  # fmt: skip


def _is_of_batch(solution: Finding) -> bool:
    return "batch" in solution.numbers["settings"]


def _case(
    stored: Stored, subject: Subject | None, held: float, batch: float, bandwidth: float, per_user: bool, is_time: bool,
    is_choice: bool,
) -> Case:  # fmt: skip
    weights = read_bytes(stored, subject, batch)
    moved = weights + batch * held
    terms = [Term("bandwidth", bandwidth, "bytes/s"), Term("weights", weights, "bytes")]
    below = "{1}"
    if held:
        terms.append(Term("kv", batch * held, "bytes"))
        below = "({1} + {2})"
    value, formula = bandwidth / moved, f"{{0}} / {below}"
    if is_time:
        value, formula = moved / bandwidth, f"{below} / {{0}}"
    elif batch != 1 and not per_user:
        terms.append(Term("batch", batch, "users"))
        value, formula = value * batch, f"{formula} × {{{len(terms) - 1}}}"
    return Case(value, tuple(terms), formula, stored.name if is_choice else "")


def read_bytes(stored: Stored, subject: Subject | None, batch: float) -> float:
    """Weight bytes of one step: all, or of a model with experts those that a batch reaches."""
    if subject is None or subject.shape is None or not subject.shape.experts:
        return stored.bytes
    return float(weights_read_bytes(subject.shape, max(1, round(batch)), stored.bits))


def _solutions(
    claimed: Said, is_time: bool, subject: Subject | None, weights: tuple[Stored, ...], held: float,
    batch: float | None, bandwidth: float, per_user: bool,
) -> Iterator[Finding]:  # fmt: skip
    """What would make the rate possible: other bandwidth, more sequences, an empty cache, narrower weights."""
    wanted = claimed.value if not is_time else 1 / claimed.value
    many = batch or 1.0
    least = min(read_bytes(stored, subject, many) for stored in weights)
    steps = wanted if per_user else wanted / many
    unit = "s" if is_time else "tokens/s"
    figure = "decode-time" if is_time else "decode-rate"
    if not per_user and (count := _batch_for(wanted, least, held, bandwidth)) is not None and count > many:
        rate = count * bandwidth / (least + count * held)
        yield solved(figure, unit, rate, {"batch": count})
    yield solved(figure, unit, claimed.value, {"bandwidth": steps * (least + many * held)})
    if held and bandwidth / least >= steps:
        room = (bandwidth / steps - least) / many
        yield solved(figure, unit, claimed.value, {"mean_kv": room, "kv_share": room / held})
    for name in _NARROWER if subject else ():
        stored = stored_as(subject, name) if subject else weights[0]
        rate = bandwidth / (read_bytes(stored, subject, many) + many * held)
        if stored.bytes < least and rate >= steps * (1 - claimed.off):
            shown = 1 / rate if is_time else rate * (1 if per_user else many)
            yield solved(figure, unit, shown, {"format": name})
            return


def _batch_for(wanted: float, weights: float, held: float, bandwidth: float) -> int | None:
    """The least batch whose total rate is `wanted`; None where the cache alone is too much."""
    left = bandwidth - wanted * held
    return max(1, math.ceil(wanted * weights / left)) if left > 0 else None


def _bare_time(claim: Claim) -> Said | None:
    """A time alone, where it is one of a step: milliseconds beside a bandwidth."""
    times = claim.all("time")
    return (
        times[0] if len(times) == 1 and times[0].value < 10 and (claim.all("bandwidth") or claim.all("bytes")) else None
    )


def _bandwidth(claim: Claim) -> tuple[float | None, tuple[Finding, ...]]:
    said = claim.value("bandwidth")
    many = claim.value("devices") or 1.0
    if said is not None:
        return said, ()
    device = device_of(claim)
    if device is None:
        return None, ()
    notes = (*device[1], assumed("device-bandwidth", device[0].name, bandwidth=device[0].bandwidth_bytes_per_s))
    return device[0].bandwidth_bytes_per_s * many, notes


def _weights(claim: Claim) -> tuple[Stored, ...]:
    """Bytes as said, else of the model in each format that the claim may mean."""
    said, subject = claim.one("bytes"), subject_of(claim)
    if said is not None and not (subject and is_memory_of_device(claim, said)):
        ends = dict.fromkeys((said.low or 0.0, said.high or 0.0))
        return tuple(Stored(end, 8 * end / subject.params if subject else 0.0, f"{end / 1e9:g} GB") for end in ends)
    return stored_of(claim, subject) if subject else ()
