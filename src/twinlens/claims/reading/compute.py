"""Claims on prefill, speculation and rates of users: FLOP over FLOP/s reached, tokens of a pass, and their sums."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from twinlens.claims.reading.memory import does_not_fit
from twinlens.claims.said import (
    Answer,
    Bound,
    Gap,
    View,
    assumed,
    beside,
    by_name,
    lacking,
    part_of_whole,
    solved,
)
from twinlens.claims.subject import bandwidth_of, context_of, devices_of, peak_of, said_device, said_model, stored_of
from twinlens.theory.figure import Figure, Input, by_law, product
from twinlens.theory.flop import prefill_flop
from twinlens.theory.law import LAWS
from twinlens.theory.roofline import batch_at_ridge, expected_tokens

_MOST_DRAFTS = 32


def prefill(view: View) -> Answer | Gap | None:
    """ "70B prefills 32K context in 12.2 s on an H100 at 50 % MFU", or a rate: FLOP over FLOP/s reached."""
    is_named = view.says("prefill", "forward")
    is_bare = bool(view.peek("flop_rate") and view.peek("rate") and not view.peek("bandwidth"))
    if not (is_named or is_bare) or view.about("training"):
        return None
    claimed, is_time = view.one("rate"), False
    if claimed is None:
        claimed, is_time = view.one("time") or view.one("token_time"), True
    if claimed is None:
        return _prefill_flop(view)
    subject, (peak, notes), context = said_model(view), peak_of(view), context_of(view)
    if subject is None or peak is None or (is_time and context is None):
        needed = {"model": subject, "device": peak, "context": context if is_time else 1}
        return Gap("ttft" if is_time else "prefill-rate", lacking(needed))
    mfu, many = view.value("share"), devices_of(view) or 1.0
    view.says("mfu")
    many = 1.0 if claimed.per == "device" else many
    users = view.value("sequences") or 1.0 if is_time else 1.0
    reached, tokens = peak * many * (mfu or 1.0), context or 1.0
    exact = subject.shape is not None and context is not None
    flop = (
        float(prefill_flop(subject.shape, tokens)) if exact and subject.shape else subject.flop("prefill-flop", tokens)
    )
    terms = (
        Input("flop", flop * users, "FLOP"),
        Input("reached", reached, "flop/s"),
        Input("context", tokens, "tokens"),
    )
    quantity, unit = ("ttft", "s") if is_time else ("prefill-rate", "tokens/s")
    value, formula = (flop * users / reached, "{0} / {1}") if is_time else (tokens * reached / flop, "{2} × {1} / {0}")
    case = Figure(quantity, value, unit, formula, terms, law="prefill-time" if is_time else None)
    is_limit = not mfu and claimed.side == ("least" if is_time else "most")
    linear = subject.flop("prefill-flop", tokens)
    inputs = (Input("flop", linear * users, "FLOP"), *terms[1:])
    without = value * (linear / flop if is_time else flop / linear)
    other = replace(case, value=without, inputs=inputs, reading="no-attention")
    share = value / claimed.value if is_time else claimed.value / value
    needed_mfu = share * (mfu or 1.0)
    bound: Bound = "same" if mfu else "at-least" if is_time else "at-most"
    phase = () if is_named else (assumed("phase", "prefill"),)
    stored = stored_of(view, subject) if view.claim.names("format") else ()
    return Answer(
        claimed, (case, other) if is_limit and exact else (case,), bound=bound,
        also=(other,) if mfu and exact else (), assumed=(*notes, *beside(subject.assumed), *phase),
        missing=() if mfu else ("mfu-reached",),
        solutions=(solved(quantity, unit, claimed.value, {"mfu": needed_mfu}),) if needed_mfu <= 1 else (),
        is_limit=is_limit,
        refuted=does_not_fit(view, stored, 0.0),
    )  # fmt: skip


def _prefill_flop(view: View) -> Answer | Gap | None:
    claimed, subject, context = view.one("flop"), said_model(view), context_of(view)
    if claimed is None:
        return None
    if subject is None or context is None:
        return Gap("prefill-flop", lacking({"model": subject, "context": context}))
    plain = subject.flop("prefill-flop", context)
    inputs = (Input("params", subject.active, "parameters"), Input("context", context, "tokens"))
    linear = Figure("prefill-flop", plain, "FLOP", "2 × {0} × {1}", inputs, law="prefill-flop", reading="no-attention")
    if subject.shape is None:
        return Answer(claimed, (linear,))
    flop = Input("flop", float(prefill_flop(subject.shape, context)), "FLOP")
    return Answer(claimed, (product("prefill-flop", "FLOP", (flop,)), linear))


def speculation(view: View) -> Answer | Gap | None:
    """ "Speculation gives 3x with 4 draft tokens at 70 % acceptance": (1 - a^(k+1)) / (1 - a), drafts for free."""
    is_yield = view.peek("passed")
    claimed = view.one("passed") if is_yield else view.one("ratio")
    if claimed is None or not (view.says("speculation", "acceptance") or view.peek("drafts")):
        return None
    view.says("acceptance", "ratio", "each")
    view.says("speculation")
    drafts, accepted = view.value("drafts"), part_of_whole(view.one("share"))
    if drafts is None or accepted is None:
        return Gap("speculation", lacking({"drafts": drafts, "acceptance": accepted}))
    share = min(1.0, view.value("share") or accepted.value)
    gain = float(expected_tokens(share, drafts))
    inputs = (Input("acceptance", share, "share"), Input("passed", drafts + 1, "1"))
    longer = (count for count in range(1, _MOST_DRAFTS + 1) if expected_tokens(share, count) >= claimed.value)
    enough = next(longer, None)
    solutions = () if enough is None else (solved("speculation", "1", claimed.value, {"drafts": enough}),)
    name = "tokens-per-pass" if is_yield else "speculation"
    case = Figure(name, gain, "1", "(1 − {0}^{1}) / (1 − {0})", inputs, law="tokens-per-pass")
    return Answer(
        claimed, (case,), bound="same" if is_yield else "at-most",
        missing=() if is_yield else ("draft-cost",), solutions=solutions,
    )  # fmt: skip


def totals(view: View) -> Answer | None:
    """ "100 users at 20 tokens/s each need 2,000 tokens/s", "8 GPUs at 700 W draw 5.6 kW": of each, and of all."""
    for kind, (quantity, unit) in _TOTALS.items():
        found = {each.value: each for each in view.claim.all(kind) if each.low is not None}.values()
        each = [said for said in found if said.per]
        whole = [said for said in found if not said.per]
        if not each and len(whole) == 2 and kind not in ("rate", "bytes"):  # "at 700 W draw 5.6 kW"
            each, whole = sorted(whole, key=lambda said: said.value)[:1], sorted(whole, key=lambda said: said.value)[1:]
        if len(each) != 1 or len(whole) != 1:
            continue
        many = view.value("sequences") if each[0].per == "user" else devices_of(view)
        if many is None:
            continue
        view.used.update(view.claim.all(kind))
        view.says("end-to-end")
        of_each = Input(kind, each[0].value, unit)
        counted = Input("users", many, "users" if each[0].per == "user" else "devices")
        return Answer(whole[0], (product(quantity, unit, (counted, of_each)),), is_arithmetic=True)
    return None


_TOTALS = {"rate": ("total-rate", "tokens/s"), "power": ("total", "w"), "bandwidth": ("total", "bytes/s"),
           "price_hour": ("total", "$/h"), "flop_rate": ("total", "flop/s"), "bytes": ("total", "bytes")}  # fmt: skip


def end_to_end(view: View) -> Answer | None:
    """ "TTFT of 200 ms plus 500 tokens at 20 ms each gives 10.2 s": TTFT and a time for each token."""
    times, each = view.claim.all("time"), view.value("token_time")
    many = view.value("tokens_out") if view.peek("tokens_out") else view.value("context")
    text = view.claim.text
    small = [time for time in times if time.per == "user" or text[time.at + len(time.text) :][:5] == " each"
             or re.search(r"(?i)tok(?:en)?s?(?: at| of| ×| x|,)? $", text[: time.at])]  # fmt: skip
    step = next(iter(small), None)
    rest = [time for time in times if time is not step]
    if many is None or len(rest) != 2 or (each is None) == (step is None):
        return None
    own = each if each is not None else (step.value if step else 0.0)
    view.used.update(times)
    view.says("prefill", "end-to-end", "tpot", "each")
    first, whole = sorted(rest, key=lambda time: time.value)
    given = by_name(Input("ttft", first.value, "s"), Input("token-time", own, "s"))
    case = by_law("end-to-end", {**given, "tokens": Input("context", many, "tokens")})
    return Answer(whole, (case,), is_arithmetic=True)


def ridge_batch(view: View) -> Answer | Gap | None:
    """ "An H100 needs a batch of 300 to be compute-bound in BF16": the ridge point by bits per weight over 16."""
    claimed = view.one("sequences") if view.says("compute-bound", "ridge") else None
    if claimed is None:
        return None
    (peak, notes), (bandwidth, _) = peak_of(view), bandwidth_of(view)
    if peak is None or bandwidth is None:
        return Gap("ridge-batch", lacking({"device": peak}))
    bits = {"fp8": 8.0, "int8": 8.0, "fp32": 32.0}.get(view.name("format") or "", 16.0)
    value = float(batch_at_ridge(peak, bandwidth, bits))
    inputs = (Input("peak", peak, "flop/s"), Input("bandwidth", bandwidth, "bytes/s"))
    case = Figure("ridge-batch", value, "users", f"{{0}} / {{1}} × {bits:g} / 16", inputs, law="ridge-batch")
    return Answer(claimed, (case,), assumed=notes)


# Claims on communication: the share of a training step that tensor-parallel all-reduces take, nothing overlapped.


def all_reduce_time(view: View) -> Answer | Gap | None:
    """ "All-reduce of 14 GB over 8 GPUs at 450 GB/s takes 31 ms": bytes over the bandwidth, which is that of the
    algorithm, or of the bus, on which each byte passes 2 (n - 1) / n times (nccl-tests)."""
    if not view.says("all-reduce"):
        return None
    claimed, size, bus, many = view.one("time"), view.value("bytes"), view.value("bandwidth"), view.value("devices")
    if claimed is None or size is None:
        return None
    if bus is None or many is None:
        return Gap("all-reduce-time", lacking({"link-bandwidth": bus, "devices": many}))
    of_a_byte = float(LAWS["all-reduce-time"].value({"ranks": many, "bytes": 1.0, "bus-bandwidth": 1.0}))
    inputs = (Input("moved", of_a_byte, "1"), Input("size", size, "bytes"), Input("bandwidth", bus, "bytes/s"))
    cases = (
        Figure("all-reduce-time", of_a_byte * size / bus, "s", "{0} × {1} / {2}", inputs, law="all-reduce-time",
               reading="bus-bandwidth"),
        Figure("all-reduce-time", size / bus, "s", "{0} / {1}", inputs[1:], reading="algorithm-bandwidth"),
    )  # fmt: skip
    is_of_bus = re.search(r"(?i)\bbus", view.claim.text)
    return Answer(claimed, cases[:1] if is_of_bus else cases)


def all_reduce_share(view: View) -> Answer | Gap | None:
    """ "TP8 all-reduce takes 30-40 % at 55 GB/s, 503 TFLOPS and 40 % MFU": four all-reduces a layer, per token."""
    if not view.says("all-reduce"):
        return None
    shares = view.all("share")
    mfu = next((each for each in shares if "MFU" in each.text), None)
    claimed = part_of_whole(next((each for each in shares if each is not mfu), None))
    subject, many, bus, device = said_model(view), view.value("devices"), view.value("bandwidth"), said_device(view)
    peak = view.value("flop_rate") or (device[0].rate("bf16") if device else None)
    shape = subject.shape if subject else None
    needed = {
        "figure": claimed,
        "model-layers": shape,
        "devices": many,
        "link-bandwidth": bus,
        "device": peak,
        "mfu": mfu,
    }
    if subject is None or shape is None or many is None or bus is None or not (peak and mfu and claimed):
        return Gap("all-reduce-share", lacking(needed))
    from twinlens.theory.collective import tensor_parallel_bytes  # it loads every model of a workload

    size = float(tensor_parallel_bytes(shape, 1, many))
    moving, computing = size / bus, subject.flop("training-flop", 1) / (many * peak * mfu.value)
    of_step = Input("compute-time", computing, "s")
    case = by_law("all-reduce-share", {"moving-time": Input("all-reduce-time", moving, "s"), "compute-time": of_step})
    share = min(claimed.value, 0.999)
    wanted = size / (LAWS["all-reduce-share"].inverse("moving-time", share, {"compute-time": computing}) or math.inf)
    return Answer(
        claimed, (case,), assumed=(*subject.assumed, *(device[1] if device else ())),
        missing=("overlap",), solutions=(solved("all-reduce-share", "share", share, {"link_bandwidth": wanted}),),
    )  # fmt: skip
