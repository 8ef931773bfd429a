"""Claims on decoding: tokens per second and time per token against both roofs, bytes of a step and its FLOP."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from twinlens.claims.reading.memory import does_not_fit
from twinlens.claims.said import Answer, Bound, Gap, Said, View, beside, solved, values
from twinlens.claims.subject import (
    Cache,
    Notes,
    Stored,
    Subject,
    bandwidth_of,
    cache_of,
    context_of,
    devices_of,
    is_memory_of_device,
    peak_of,
    said_model,
    stored_as,
    stored_of,
)
from twinlens.record.finding import Finding
from twinlens.theory.figure import Figure, Input
from twinlens.theory.flop import decode_flop
from twinlens.theory.traffic import weights_read_bytes

_NARROWER = ("fp8", "q4_k_m", "4-bit")


@dataclass(frozen=True, slots=True)
class Step:
    """All that decides how long a step takes: `peak` of all devices is None where it is not known."""

    subject: Subject | None
    cache: Cache | None
    context: float
    bandwidth: float
    peak: float | None

    def read_bytes(self, stored: Stored, batch: float) -> float:
        """Weight bytes of one step: all, or of a model with experts those that a batch reaches."""
        if self.subject is None or self.subject.shape is None or not self.subject.shape.experts:
            return stored.bytes
        return float(weights_read_bytes(self.subject.shape, max(1, round(batch)), stored.bits))

    def held(self, batch: float) -> float:
        return self.cache.held(self.context, batch) if self.cache and self.context else 0.0

    def flop(self, batch: float) -> float:
        """FLOP of one step of a batch; 0 where no model is known."""
        if self.subject is None:
            return 0.0
        if self.subject.shape is None or not self.context:
            return self.subject.flop("prefill-flop", batch)
        return batch * float(decode_flop(self.subject.shape, self.context))

    def time_s(self, stored: Stored, batch: float) -> tuple[float, bool]:
        """Seconds of a step, and whether arithmetic binds."""
        moving = (self.read_bytes(stored, batch) + self.held(batch)) / self.bandwidth
        computing = self.flop(batch) / self.peak if self.peak else 0.0
        return max(moving, computing), computing > moving


def decode_rate(view: View) -> Answer | Gap | None:
    """ "70B Q4 does 45 tok/s on 1.79 TB/s": no step is faster than its bytes over the bandwidth, or FLOP over peak."""
    return _decode(view, view.one("rate"), is_time=False)


def decode_time(view: View) -> Answer | Gap | None:
    """ "70B FP16 takes 29 ms per token on an H200": the same, as the time of a step."""
    return _decode(view, view.one("token_time") or _bare_time(view), is_time=True)


def _decode(view: View, claimed: Said | None, *, is_time: bool) -> Answer | Gap | None:
    if view.about("training", "prefill", "mfu", "mbu", "chinchilla") or view.peek("price_hour") or view.peek("power"):
        return None
    if claimed is None:
        return None
    is_named = view.says("decode", "tpot", "weights") | view.says("bandwidth")
    if not (is_named or view.claim.names("model") or view.claim.names("device") or view.peek("params")):
        view = View(
            replace(view.claim, said=tuple(each for each in view.claim.said if each.kind != "devices")), view.used
        )
    bandwidth, where = bandwidth_of(view)
    subject = said_model(view)
    weights = _weights(view, subject)
    unsaid = [name for name in ("batch", "context") if not view.peek("sequences" if name == "batch" else name)]
    missing = [*(("bandwidth",) if bandwidth is None else ())]
    missing += [] if weights else ["model"] if subject is None else ["precision"]
    quantity = "decode-time" if is_time else "decode-rate"
    if claimed.low is None or not weights or bandwidth is None:
        figure = ("figure",) if claimed.low is None else ()
        return Gap(quantity, (*figure, *missing, *unsaid))
    if not view.claim.names("format") and not view.peek("bits") and does_not_fit(view, weights, 0.0):
        return Gap(quantity, ("precision", *unsaid))  # as it was published it does not fit, and narrower it may
    batch = 1.0 if view.says("single") else view.value("sequences")
    context = context_of(view)
    cache = cache_of(view, subject) if context or view.peek("kv_token") else None
    if context and cache is None:
        return Gap(quantity, ("model-layers",))
    many = devices_of(view) or 1.0
    peak, peaked = peak_of(view)
    step = Step(subject, cache, context or 0.0, bandwidth, peak * many if peak else None)
    share = 1 / many if claimed.per == "device" else 1.0
    per_user = is_time or claimed.per == "user" or view.says("each")
    cases = tuple(
        _case(
            step,
            stored,
            batch or 1.0,
            per_user,
            is_time,
            stored.name if len(weights) > 1 or not (view.claim.names("format") or view.peek("bytes")) else "",
            share,
        )
        for stored in weights
    )
    notes = (*where, *_notes(view, subject, cache, context))
    bound: Bound = "same" if view.says("needs") and view.peek("bandwidth") else "at-least" if is_time else "at-most"
    best = values(cases)[0 if is_time else 1]
    beyond = claimed.range[0] > best if not is_time else claimed.range[1] < best
    wanted = (claimed.value if not is_time else 1 / claimed.value) / share
    solutions = tuple(_solutions(claimed, is_time, step, weights, batch, wanted, per_user)) if beyond else ()
    is_open = (
        beyond and batch is None and not per_user and any("batch" in each.numbers["settings"] for each in solutions)
    )
    binds = any(step.time_s(each, batch or 1.0)[1] for each in weights)
    return Answer(
        claimed, cases, bound=bound,
        assumed=(*notes, *(peaked if binds else ())),
        missing=(*(name for name, value in (("batch", batch), ("context", context)) if value is None),
                 "bandwidth-reached"),
        solutions=solutions, is_open=is_open, is_limit=claimed.side == ("least" if is_time else "most"),
        refuted=does_not_fit(view, weights, step.held(batch or 1.0)),
    )  # fmt: skip


def _notes(view: View, subject: Subject | None, cache: Cache | None, context: float | None) -> Notes:
    if cache and context:
        return cache.assumed
    return beside(subject.assumed) if subject and (not view.peek("bytes") or subject.shape) else ()


def _case(step: Step, stored: Stored, batch: float, per_user: bool, is_time: bool, name: str, share: float) -> Figure:
    weights, held = step.read_bytes(stored, batch), step.held(batch)
    seconds, is_compute = step.time_s(stored, batch)
    if is_compute:
        terms = [Input("peak", step.peak or 0.0, "flop/s"), Input("flop", step.flop(batch), "FLOP")]
        below = "{1}"
    else:
        terms = [Input("bandwidth", step.bandwidth, "bytes/s"), Input("weights", weights, "bytes")]
        terms += [Input("kv", held, "bytes")] if held else []
        below = "({1} + {2})" if held else "{1}"
    value, formula = (seconds, f"{below} / {{0}}") if is_time else (1 / seconds, f"{{0}} / {below}")
    if not is_time and batch != 1 and not per_user:
        terms.append(Input("batch", batch, "users"))
        value, formula = value * batch, f"{formula} × {{{len(terms) - 1}}}"
    if not is_time and share != 1:
        terms.append(Input("devices", 1 / share, "devices"))
        value, formula = value * share, f"{formula} / {{{len(terms) - 1}}}"
    quantity, unit = ("decode-time", "s") if is_time else ("decode-rate", "tokens/s")
    law = None if is_compute else quantity
    return Figure(quantity, value, unit, formula, tuple(terms), law=law, reading=name)


def _solutions(
    claimed: Said, is_time: bool, step: Step, weights: tuple[Stored, ...], batch: float | None, wanted: float,
    per_user: bool,
) -> Iterator[Finding]:  # fmt: skip
    """What would make the rate possible: other bandwidth, more sequences, an empty cache, narrower weights."""
    many = batch or 1.0
    narrow = min(weights, key=lambda stored: step.read_bytes(stored, many))
    least, held = step.read_bytes(narrow, many), step.held(1.0)
    steps = wanted if per_user else wanted / many
    unit, figure = ("s", "decode-time") if is_time else ("tokens/s", "decode-rate")
    ceiling = math.inf if not step.peak or not step.flop(1.0) else step.peak / step.flop(1.0)
    if not per_user and (count := _batch_for(wanted, least, held, step.bandwidth)) is not None and count > many:
        rate = count * step.bandwidth / (least + count * held)
        if wanted * (1 - claimed.off) <= ceiling:
            yield solved(figure, unit, rate, {"batch": count})
    if steps * many > ceiling * (1 + claimed.off):
        return  # no bandwidth helps where arithmetic binds
    yield solved(figure, unit, claimed.value, {"bandwidth": steps * (least + many * held)})
    if held and step.bandwidth / least >= steps:
        room = (step.bandwidth / steps - least) / many
        yield solved(figure, unit, claimed.value, {"mean_kv": room, "kv_share": room / held})
    for name in _NARROWER if step.subject else ():
        stored = stored_as(step.subject, name) if step.subject else weights[0]
        rate = step.bandwidth / (step.read_bytes(stored, many) + many * held)
        if stored.bytes < least and rate >= steps * (1 - claimed.off):
            shown = 1 / rate if is_time else rate * (1 if per_user else many)
            yield solved(figure, unit, shown, {"format": name})
            return


def _batch_for(wanted: float, weights: float, held: float, bandwidth: float) -> int | None:
    """The least batch whose total rate is `wanted`; None where the cache alone is too much."""
    left = bandwidth - wanted * held
    return max(1, math.ceil(wanted * weights / left)) if left > 0 else None


def _bare_time(view: View) -> Said | None:
    """A time alone, where it is one of a step: milliseconds beside a bandwidth, or TPOT by its name."""
    times = view.claim.all("time")
    if (
        len(times) == 1
        and times[0].value < (10 if view.about("tpot") or view.peek("bandwidth") else 0.5)
        and (view.peek("bandwidth") or view.peek("bytes") or view.about("tpot", "decode"))
    ):
        return view.one("time")
    return None


def _weights(view: View, subject: Subject | None) -> tuple[Stored, ...]:
    """Bytes as said, else of the model in each format that the claim may mean."""
    said = next(iter(view.claim.all("bytes")), None)
    if said is not None and subject and is_memory_of_device(view, said):
        view.used.add(said)
        said = None
    if said is None or view.about("kv"):
        return stored_of(view, subject) if subject else ()
    one = view.one("bytes")
    assert one is not None
    ends = dict.fromkeys((one.low or 0.0, one.high or 0.0))
    return tuple(Stored(end, 8 * end / subject.params if subject else 0.0, f"{end / 1e9:g} GB") for end in ends)
