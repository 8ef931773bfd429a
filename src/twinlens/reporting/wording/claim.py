"""Sentences on claims: what was claimed and computed, with the arithmetic, what is missing, and what would be right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.record.finding import Finding
from twinlens.reporting.display import clean, join_names
from twinlens.reporting.wording.amount import amount, span
from twinlens.reporting.wording.number import number, numbers
from twinlens.units import digits

QUANTITIES = {
    "kv": "KV cache", "kv-per-token": "KV cache of a token", "decode-rate": "Decode rate",
    "decode-time": "Time of a decode step", "weights": "Weights", "memory": "Memory", "no-room": "Memory",
    "training-memory": "Training memory, activations aside", "training-time": "Training time", "mfu": "MFU",
    "ratio": "Ratio", "price-per-token": "Price of tokens", "monthly-bill": "Bill of a month",
    "cost-per-request": "Cost of a request", "break-even": "Break-even", "energy-per-token": "Energy of a token",
    "tokens-per-joule": "Tokens per joule", "energy-share": "Share of energy in the cost",
    "all-reduce-share": "Share of all-reduces in a step", "prefill-rate": "Prefill rate", "ttft": "Time of a prefill",
    "device": "Datasheet", "link": "Link",
    "all-reduce-time": "Time of an all-reduce", "speculation": "Speed-up", "price-per-hour": "Price of a useful hour",
    "bill": "Bill", "training-cost": "Cost of training", "energy": "Energy", "energy-cost": "Cost of energy",
    "device-time": "Device time", "training-flop": "FLOP of training", "flop-per-token": "FLOP of a token",
    "chinchilla": "Tokens at 20 per parameter", "training-rate": "Rate of training", "steps": "Steps",
    "tokens-per-step": "Tokens of a step", "stream-rate": "Rate of a stream", "in-flight": "Requests in flight",
    "ridge": "Ridge point", "ridge-batch": "Batch at the ridge point", "kv-tokens": "Tokens in the KV cache",
    "prefill-flop": "FLOP of a prefill", "tokens-per-pass": "Tokens of a pass", "total-rate": "Rate of all together",
    "total": "All together",
    "transfer-time": "Time of a transfer", "tokens-time": "Time for the tokens", "tokens": "Tokens", "mbu": "MBU",
    "tokens-per-parameter": "Tokens per parameter",
    "arithmetic": "Arithmetic",
    "tokens-per-dollar": "Tokens for a dollar", "cost-per-hour": "Cost of an hour", "left-over": "Memory left over",
    "end-to-end": "Latency", "model": "Model",
}  # fmt: skip


_MISSING = {
    "figure": "the figure itself", "lens": "training or inference", "model": "the model, or its parameters",
    "model-layers": "the model's layers, KV heads and head size (name a model)", "precision": "the precision",
    "device": "the device", "batch": "the batch", "context": "the context length", "users": "how many users",
    "bandwidth": "the memory bandwidth, or the device", "bandwidth-reached": "which share of the bandwidth is reached",
    "runtime-memory": "memory of activations and the runtime", "optimizer": "the optimizer and its formats",
    "activations": "activations (sequence, batch, recomputation)", "devices": "how many devices", "mfu": "the MFU",
    "workload": "the workload: which resource binds", "what-is-compared": "the two that are compared",
    "utilisation": "the utilisation (all hours are taken as busy)", "retries-and-cache": "retries and cached answers",
    "fixed-costs": "fixed costs (space, staff; taken as none)", "host-power": "power of host and cooling",
    "overlap": "how much is overlapped (nothing is taken as overlapped)", "link-bandwidth": "bandwidth of the links",
    "price-per-hour": "the price of an hour", "rate": "tokens per second", "cost-each": "the cost of one use",
    "uses-per-day": "uses a day", "money": "the price paid", "requests": "over how many requests",
    "hours-per-day": "hours of use a day", "saving": "a saving (an own hour costs as much as a rented one)",
    "power": "the power", "adapters": "adapters and their optimizer", "price-per-kwh": "the price of a kWh",
    "drafts": "how many tokens are drafted", "acceptance": "the share of drafted tokens that is accepted",
    "draft-cost": "the time of drafting (taken as none)",
    "price-and-life": "price and life of the machine",
    "link-generation": "the generation of the link",
    "direction": "one way or both ways", "mfu-reached": "the MFU that is reached", "tokens": "how many tokens",
}  # fmt: skip


_MEANT = {
    "4-bit": "4 bits and no scales", "bandwidth-bound": "bandwidth-bound", "capacity": "memory capacity",
    "compute-bound-bf16": "compute-bound in BF16", "compute-bound-fp8": "compute-bound in FP8",
    "weights-only": "weights alone", "weights-and-gradients": "weights and gradients alone",
    "adamw-8bit": "AdamW in 8 bits", "adamw-bf16": "AdamW in BF16", "adamw-no-master": "AdamW, no master copy",
    "adamw-master": "AdamW, FP32 master", "adamw-master-fp32-gradients": "AdamW, FP32 master and gradients",
    "bus-bandwidth": "bus bandwidth", "algorithm-bandwidth": "algorithm bandwidth",
    "driver": "as its driver shows it",
    "one-way": "one way", "one-way-coded": "one way after coding",
    "both-ways-coded": "both ways after coding", "both-ways": "both ways together",
    "of-all": "as said of all", "of-each": "as said of each", "30-days": "a month of 30 days",
    "365-days": "a twelfth of a year",
    "by-name": "the size in its name", "no-embedding": "without the embedding", "no-attention": "2·N alone",
    "weights-and-states": "weights and states",
    "master-and-states": "FP32 master and states", "weights-master-and-states": "weights, FP32 master and states",
    "16-bit-weights": "16-bit weights", "32-bit-weights": "32-bit weights", "int4": "INT4", "fp8": "FP8",
    "fp16": "FP16", "int8": "INT8", "q4_k_m": "Q4_K_M", "q4_0": "Q4_0", "nvfp4": "NVFP4", "mxfp4": "MXFP4",
}  # fmt: skip


_SHOWN_TERMS = {"devices": "devices", "days": "days", "uses": "uses a day", "requests": "requests", "users": "users"}


def compared(finding: Finding) -> str:
    unit, bound, computed, low, high, said = numbers(
        finding, "unit", "bound", "computed", "computed_low", "computed_high", "said"
    )
    name = QUANTITIES.get(finding.subject, finding.subject)
    spread = "" if high - low <= 1e-3 * high else f" ({span(low, high, unit)} by what it may mean)"
    if finding.subject in ("memory", "no-room"):
        room = amount(number(finding, "claimed_low"), unit)
        return f"{name}: {amount(computed, unit)} needed{spread}, {room} there."
    least = {"at-most": "at most ", "at-least": "at least "}.get(bound, "")
    size = "" if spread else _times_the_claim(computed, number(finding, "claimed_low"), number(finding, "claimed_high"))
    return f"{name}: claimed {clean(said, 40)}, {least}{amount(computed, unit)} computed{spread}{size}."


def _times_the_claim(computed: float, low: float | None, high: float | None) -> str:
    """ ", 4.3 times the claim": how far a computed value is from the nearest end of a claim; "" within a tenth."""
    if not low or not high:
        return ""
    nearest = low if computed < low else high if computed > high else computed
    ratio = computed / nearest
    return "" if 0.91 < ratio < 1.1 else f", {digits(ratio, 2)} times the claim"


def computed(finding: Finding) -> str:
    value, unit, terms, formula = numbers(finding, "value", "unit", "terms", "formula")
    told = [_term(term) for term in terms]
    meant = number(finding, "assumed")
    why = f"{meant_words(meant)}: " if meant else ""
    ours, steps = amount(value, unit), formula.format(*told)
    return f"{why}{ours}" if steps == ours else f"{why}{ours} = {steps}"


def _term(term: Mapping[str, Any]) -> str:
    name, value, unit = term["name"], term["value"], term["unit"]
    if name in ("weights", "kv") and unit == "bytes":
        return f"{amount(value, unit, plain=True)} {'of KV' if name == 'kv' else 'of weights'}"
    if name == "mfu":
        return f"{digits(100 * value)} % MFU"
    if unit in _SHOWN_TERMS:
        word = _SHOWN_TERMS[unit]
        return f"1 {word.removesuffix('s')}" if value == 1 else f"{value:,.12g} {word}"
    if unit == "bytes" and value < 100:
        return f"{value:.4g} B"
    names = {"layers": "layers", "kv-heads": "KV heads", "head-dim": "wide", "bytes": "B", "both": "(K and V)"}
    return f"{value:,.4g} {names[name]}" if name in names else amount(value, unit, plain=True)


def assumed(finding: Finding) -> str:
    taken = clean(str(number(finding, "taken")), 40)
    made = {
        "model": f"the model is {taken}", "kv-format": f"the KV cache is in {taken.upper()}",
        "device": f"the device is {taken}", "gib": "GB was meant as GiB", "users": "one user",
        "frozen-weights": f"the weights that are not trained are in {taken}",
        "phase": "it is prefill, or very many sequences together (decode of a few is bound by bandwidth)",
        "uses-per-user": "each user comes once a day, for 30 days",
    }  # fmt: skip
    if finding.subject in made:
        return made[finding.subject]
    figures = {"device-bandwidth": ("bandwidth", "bytes/s"), "device-memory": ("memory", "bytes"),
               "device-peak": ("flop_per_s", "flop/s"), "device-power": ("watts", "w")}  # fmt: skip
    name, unit = figures[finding.subject]
    return f"{amount(number(finding, name), unit, plain=True)} by the datasheet of {taken}"


def missing(finding: Finding) -> str:
    names, decides = numbers(finding, "names", "decides")
    return f"{'needed: ' if decides else 'not said: '}{', '.join(_MISSING.get(name, str(name)) for name in names)}"


def solved(finding: Finding) -> str:
    settings, value, unit = numbers(finding, "settings", "value", "unit")
    if high := settings.get("price_hour_high"):
        low = settings["price_hour"]
        ends = amount(low, "$/h") + ("" if high == low else f" to {amount(high, '$/h')}")
        return f"a rented hour at {ends}"
    if own := settings.get("own_hour"):
        return f"power, space and staff of at most {amount(own, '$/h')}"
    told = " at ".join(_setting(name, each) for name, each in settings.items() if name != "kv_share")
    exact = {"mean_context", "bandwidth", "mean_kv", "bits", "bytes_per_param", "mfu", "rate", "cost_each", "requests",
             "price_kwh", "link_bandwidth", "tokens_left", "drafts", "flop_rate", "price_hour", "price_device",
             "tokens",
             "device_time", "time", "power", "money"}  # fmt: skip
    return told if exact & set(settings) else f"{told} ({amount(value, unit, plain=True)})"


def _setting(name: str, value: Any) -> str:
    if name in ("format", "kv_format", "layout"):
        return f"{meant_words(str(value))}{' KV' if name == 'kv_format' else ''}"
    if name == "users":
        return "1 user" if value == 1 else f"{value:,.12g} users"
    plain = {
        "context": ("{} tokens", ""), "batch": ("batch {}", ""), "devices": ("{} devices", ""),
        "mean_context": ("a mean of {} tokens held by each", ""), "tokens_left": ("{} tokens of KV", ""),
        "requests": ("{} requests", ""), "bandwidth": ("{} of bandwidth", "bytes/s"),
        "mean_kv": ("{} of KV each", "bytes"),
        "bits": ("{} bits per weight", ""), "bytes_per_param": ("{} bytes per parameter", ""),
        "mfu": ("{} MFU", "share"),
        "drafts": ("{} drafted tokens", ""), "flop_rate": ("{} reached", "flop/s"),
        "rate": ("{}", "tokens/s"), "cost_each": ("{} a use", "$"), "price_kwh": ("{} a kWh", "$"),
        "link_bandwidth": ("links of {}", "bytes/s"), "params": ("{}", "parameters"), "time": ("{}", "s"),
        "price_hour": ("{}", "$/h"), "price_device": ("{} each", "$"), "tokens": ("{}", "tokens"),
        "device_time": ("{}", "device-s"), "power": ("{}", "w"), "money": ("{}", "$"),
        "share": ("{} of all hours", "share"),
    }[name]  # fmt: skip
    text, unit = plain
    whole = name in ("context", "batch", "mean_context", "tokens_left", "drafts")
    shown = amount(value, unit, plain=True) if unit else f"{value:,.0f}" if whole else digits(value)
    return text.format(shown if name != "devices" else f"{value:,.0f}")


def unused(finding: Finding) -> str:
    texts, decides = numbers(finding, "texts", "decides")
    told = join_names([clean(text, 30) for text in texts], 12)
    return f"not used: {told}" + (", which may change the ruling" if decides else "")


def meant_words(name: str) -> str:
    """A reading of a claim as it is said: "AdamW, FP32 master", "NVFP4", "AdamW in 8 bits"."""
    return _MEANT.get(name) or clean(name, 40)
