"""Metrics of a run under load, of streamed answers and of answers in one piece.

Latency counts from the intended time, over *all* requests of the window, a failed one being slower than any; rates
count what answered requests delivered while the window lasted. Values from the time of sending stand beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.request import UNCOUNTED, Requests
from twinlens.spec.slo import Slo
from twinlens.spec.workload.prompt import Classify, Generate, Task, items_per_request
from twinlens.stats.estimator.interval import mean_interval
from twinlens.stats.estimator.quantile import Censored, censored_quantile
from twinlens.stats.estimator.rate import rate_interval
from twinlens.stats.estimator.repeats import inverse, scaled
from twinlens.stats.serving.goodput import LEVEL, fluidity, goodput, of_looks, share
from twinlens.stats.serving.latency import Latency, Overlap, chunking, decoding, gaps_s, latency, overlap
from twinlens.stats.serving.window import Window
from twinlens.stats.steady.slope import in_flight
from twinlens.units import COUNT, DOCUMENTS_PER_S, IMAGES_PER_S, REQUESTS_PER_S, SECONDS, TEXTS_PER_S, TOKENS_PER_S

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_ALL, _ENDS = ("p50", "p90", "p99"), ("p50", "p99")
_CHUNKS_AT_ONCE = 1 << 17
_NO_POLICY = "no admission policy held requests back"


def serving_metrics(
    requests: Requests,
    window: Window | None,
    slo: Slo | None,
    devices: int | None = None,
    task: Task = Generate(),
    level: float = LEVEL,
) -> dict[str, Estimate]:
    """All metrics of a served run. `devices`: accelerators that served it, None where that is not known. `level`: that
    each look at latencies and shares asks, so that those of all looks hold together in 95 % of runs."""
    if window is None:
        return {}
    rows = window.rows
    times, shared = latency(requests, rows), overlap(requests, window)
    metrics = _rates(requests, window, shared)
    closed_rate = metrics["requests_per_s"] if window.loop == "closed" else None
    good = goodput(times, slo, requests.intended_ns[rows], window.begin_ns, window.end_ns, closed_rate, level)
    if not isinstance(task, Generate):
        plain = _latencies(times, shared, tokens=False, level=level) | _lags(times)
        return metrics | plain | item_rates(requests, window, task) | no_tokens() | good
    if not requests.output_tokens.any():  # images: nothing to stream
        return metrics | _latencies(times, shared, tokens=False, level=level) | _lags(times)
    return (
        metrics
        | _token_rates(requests, window, devices)
        | _latencies(times, shared, tokens=True, level=level)
        | _after_reasoning(requests, rows, times, shared)
        | _gaps(requests, rows, shared, times.why_unstreamed)
        | _lags(times)
        | good
        | fluidity(requests, rows, times, slo, shared.why_not)
    )


def _latencies(times: Latency, shared: Overlap, *, tokens: bool, level: float) -> dict[str, Estimate]:
    e2e = {"e2e_latency_s": times.e2e_s, "e2e_from_send_s": times.e2e_from_send_s}
    metrics = _each(e2e, shared, level)
    if not tokens:
        return metrics
    many = ~np.isnan(times.tpot_s)
    metrics |= _each({"ttft_s": times.ttft_s, "ttft_from_send_s": times.ttft_from_send_s}, shared, level)
    if times.why_unstreamed:
        return metrics | _absent("tpot_s", _ALL, times.why_unstreamed)
    if not times.ok[many].any():
        return metrics | _absent("tpot_s", _ALL, "no answer has more than one token")
    of_many = replace(shared, waiting=shared.waiting and shared.waiting.of(many))
    metrics |= _each({"tpot_s": times.tpot_s[many]}, of_many, level)
    return metrics | {
        "tokens_per_s_per_request": inverse(metrics["tpot_s_p50"], 1.0, TOKENS_PER_S, "1 / median TPOT"),
        "slow_tokens_per_s_per_request": inverse(metrics["tpot_s_p90"], 1.0, TOKENS_PER_S, "1 / p90 TPOT"),
    }


def _after_reasoning(requests: Requests, rows: np.ndarray, times: Latency, shared: Overlap) -> dict[str, Estimate]:
    """The time to the first token of the answer itself; nothing where no answer holds reasoning: it is TTFT then."""
    if not (requests.reasoning_chunks[rows] > 0).any():
        return {}
    answers = Censored(times.ttfat_s, shared.together, shared.waiting)
    return {f"ttfat_s_{q}": _quantile(answers, q, shared, "requests without an answer or") for q in _ALL}


def _gaps(requests: Requests, rows: np.ndarray, shared: Overlap, why_unstreamed: str) -> dict[str, Estimate]:
    """Gaps between tokens or, where chunks carry several, between chunks: never one under the other's name.

    As many as decode at once end with one step. None where answers came whole (`why_unstreamed`).
    """
    if why_unstreamed:
        return _absent("itl_s", _ALL, why_unstreamed) | _absent("icl_s", _ALL, why_unstreamed)
    kind, why = chunking(requests, rows)
    gaps = gaps_s(requests, rows)
    if not np.isfinite(gaps).any():
        reason = "no answer has more than one chunk"
        return _absent("itl_s", _ALL, why or reason) | _absent("icl_s", _ALL, reason)
    steps = replace(shared, together=decoding(requests, rows, gaps))
    pooled = Censored(gaps, steps.together)
    metrics = {f"{kind}_s_{q}": _quantile(pooled, q, steps, "gaps") for q in _ALL}
    if kind == "icl":
        return metrics | _absent("itl_s", _ALL, f"{why}; see ICL")
    return metrics


def _lags(times: Latency) -> dict[str, Estimate]:
    """The delay between intended and sent, and the part of it that was policy. The client may be early by a clock
    tick."""
    metrics = _known("schedule_lag_s", times.lag_s, "nothing was sent")
    if times.client_s is times.lag_s:  # no policy held anything back
        metrics |= {f"client_lag_s_{q}": metrics[f"schedule_lag_s_{q}"] for q in _ENDS}
    else:
        metrics |= _known("client_lag_s", times.client_s, "nothing was sent")
    return metrics | _known("hold_s", times.held_s, _NO_POLICY)


def _known(name: str, values: np.ndarray, why_not: str) -> dict[str, Estimate]:
    known = np.maximum(values[~np.isnan(values)], 0.0)
    if not known.size:
        return _absent(name, _ENDS, why_not)
    late = Censored(known)
    return {f"{name}_{q}": _quantile(late, q) for q in _ENDS}


def _rates(requests: Requests, window: Window, shared: Overlap) -> dict[str, Estimate]:
    """Requests due, requests answered, the share that failed, and how many were under way at once."""
    rows = window.rows
    failed = ~requests.ok[rows]
    metrics = {
        "failed_share": share(failed, "requests not answered in full / all requests of the window"),
        "offered_requests_per_s": _offered(requests.intended_ns[rows], window),
    }
    if window.end_ns <= window.begin_ns:
        why = "the window has no length"
        return metrics | {
            "requests_per_s": Estimate.absent(REQUESTS_PER_S, why),
            "mean_in_flight": Estimate.absent(COUNT, why),
        }
    edges = edges_of(window)
    ended_ns = requests.end_ns[requests.ok]
    answers = amount_in(ended_ns, np.ones(ended_ns.size), edges)
    answered = int(answers.sum())
    level = in_flight(requests.intended_ns, requests.end_ns, edges)
    suffix = "; intended and not yet ended, over time"
    return metrics | {
        "requests_per_s": flow(answers, edges, REQUESTS_PER_S, "answers that ended in the window", answered),
        "mean_in_flight": _not_negative(
            mean_interval(level, unit=COUNT, method_suffix=suffix, seen=rows.size, why_not=shared.why_not)
        ),
    }


def _token_rates(requests: Requests, window: Window, devices: int | None) -> dict[str, Estimate]:
    """Tokens that answered requests delivered while the window lasted, whoever had asked for them and when."""
    names = ("output_tokens_per_s", "total_tokens_per_s")
    if window.end_ns <= window.begin_ns:
        return {name: Estimate.absent(TOKENS_PER_S, "the window has no length") for name in names}
    edges = edges_of(window)
    streamed = requests.ok & (np.diff(requests.offsets) > 0)
    first_ns = requests.chunk_ns[requests.offsets[:-1][streamed]]
    put_out = _tokens_in(requests, streamed, edges)
    answered = int(((first_ns >= window.begin_ns) & (first_ns <= window.end_ns)).sum())
    both = put_out + amount_in(first_ns, requests.input_tokens[streamed], edges)
    output = flow(put_out, edges, TOKENS_PER_S, "tokens of answered requests that came in the window", answered)
    total = (
        Estimate.absent(TOKENS_PER_S, UNCOUNTED)
        if np.isnan(both).any()
        else flow(both, edges, TOKENS_PER_S, "output tokens, and input tokens at the moment of the first one", answered)
    )
    rates = dict(zip(names, (output, total), strict=True))
    if devices is None:
        why = "how many devices served it is not known"
        return rates | {f"{name}_per_device": Estimate.absent(TOKENS_PER_S, why) for name in names}
    word = f"rate / {devices} device{'s' if devices > 1 else ''}"
    return rates | {
        f"{name}_per_device": scaled(rate, 1 / devices, TOKENS_PER_S, word, "measured") for name, rate in rates.items()
    }


def _tokens_in(requests: Requests, counted: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Output tokens of the rows `counted` [rows] in each interval of `edges` [k + 1]. Shape: (k,).

    Chunks say how tokens are spread over an answer, the server's usage how many there were. Some rows at a time: a
    million answers are a gigabyte of chunks, and only their sums are wanted.
    """
    tokens_in = np.zeros(len(edges) - 1)
    rows = len(requests)
    step = max(1, int(_CHUNKS_AT_ONCE * rows / max(1, requests.chunk_ns.size)))
    for begin in range(0, rows, step):
        chosen = np.flatnonzero(counted[begin : begin + step]) + begin
        within = _within_one(requests, begin, min(rows, begin + step), chosen, edges)
        whole, spread = chosen[within], chosen[~within]
        tokens_in += amount_in(requests.chunk_ns[requests.offsets[whole]], requests.output_tokens[whole], edges)
        tokens_in += _tokens_of_chunks(requests, spread, edges)
    return tokens_in


def _within_one(requests: Requests, begin: int, end: int, rows: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Which of `rows`, which lie in [begin, end) and have chunks, came within one interval, each chunk with a token."""
    offsets = requests.offsets
    part = slice(int(offsets[begin]), int(offsets[end]))
    later = np.diff(requests.chunk_ns[part])
    bounds = offsets[begin + 1 : end] - part.start - 1
    later[bounds[(bounds >= 0) & (bounds < later.size)]] = 0  # from one answer to another
    if later.min(initial=0) < 0 or requests.chunk_tokens[part].min(initial=1) < 1:
        return np.zeros(rows.size, bool)
    ends = (requests.chunk_ns[offsets[rows]], requests.chunk_ns[offsets[rows + 1] - 1])
    first, last = (np.searchsorted(edges, times, side="right") for times in ends)
    return np.asarray(first == last)


def _tokens_of_chunks(requests: Requests, rows: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Output tokens of `rows` in each interval of `edges`, chunk by chunk."""
    begins, counts = requests.offsets[rows], requests.offsets[rows + 1] - requests.offsets[rows]
    row = np.repeat(np.arange(rows.size), counts)
    chunk = np.arange(row.size) + (begins - np.cumsum(counts) + counts)[row]
    tokens = requests.chunk_tokens[chunk].astype(np.float64)
    carried = np.bincount(row, tokens, rows.size)
    scale = np.divide(requests.output_tokens[rows], carried, out=np.zeros(rows.size), where=carried > 0)
    return amount_in(requests.chunk_ns[chunk], tokens * scale[row], edges)


def _offered(intended_ns: np.ndarray, window: Window) -> Estimate:
    """n requests have n - 1 gaps between them, so their rate is (n - 1) / span."""
    span_s = float(intended_ns[-1] - intended_ns[0]) / 1e9
    if span_s <= 0:
        return Estimate.absent(REQUESTS_PER_S, "all requests were due at one moment")
    rate = (intended_ns.size - 1) / span_s
    method, why_not = "(requests - 1) / time from the first to the last intended", "this is what was asked"
    return Estimate(rate, REQUESTS_PER_S, method, "measured", n=intended_ns.size, no_interval=why_not)


def _each(times: Mapping[str, np.ndarray], shared: Overlap, level: float) -> dict[str, Estimate]:
    found: dict[str, Estimate] = {}
    for name, values in times.items():
        whole = Censored(values, shared.together, shared.waiting)
        found |= {f"{name}_{q}": _quantile(whole, q, shared, level=level) for q in _ALL}
    return found


def _quantile(
    values: Censored, q: str, shared: Overlap = Overlap(), what: str = "requests", level: float = LEVEL
) -> Estimate:
    found = censored_quantile(values, _QUANTILES[q], unit=SECONDS, what=what, why_not=shared.why_not, level=level)
    return of_looks(found)


def _absent(name: str, wanted: tuple[str, ...], reason: str) -> dict[str, Estimate]:
    return {f"{name}_{q}": Estimate.absent(SECONDS, reason) for q in wanted}


def _not_negative(estimate: Estimate) -> Estimate:
    if estimate.low is None or estimate.low >= 0:
        return estimate
    return Estimate(
        estimate.value, estimate.unit, estimate.method, estimate.origin, 0.0, estimate.high, estimate.level, estimate.n
    )


# Metrics of answers in one piece: the rates of what they hold, and the latencies of tokens that they do not have.

_ITEMS = {
    "embed": ("embedded_texts_per_s", TEXTS_PER_S),
    "rerank": ("reranked_documents_per_s", DOCUMENTS_PER_S),
    "classify": ("inference_images_per_s", IMAGES_PER_S),
}
_ONE_PIECE = "an answer in one piece has no tokens to time"


def item_rates(requests: Requests, window: Window, task: Task) -> dict[str, Estimate]:
    """Texts, documents or images of the answers that ended in the window, and tokens of the texts in them."""
    name, unit = _ITEMS[task.kind]
    names = (name,) if isinstance(task, Classify) else (name, "input_tokens_per_s")
    if window.end_ns <= window.begin_ns:
        return {each: Estimate.absent(unit, "the window has no length") for each in names}
    edges = edges_of(window)
    ended_ns = requests.end_ns[requests.ok]
    answers = amount_in(ended_ns, np.ones(ended_ns.size), edges)
    seen, each = int(answers.sum()), items_per_request(task)
    rates = {name: flow(answers * each, edges, unit, f"{each} in each answer that ended in the window", seen)}
    if not isinstance(task, Classify):
        tokens = amount_in(ended_ns, requests.input_tokens[requests.ok], edges)
        what = "input tokens of answers that ended in the window, by the server's usage, or as asked where it says none"
        rates["input_tokens_per_s"] = flow(tokens, edges, TOKENS_PER_S, what, seen)
    return rates


def no_tokens() -> dict[str, Estimate]:
    """Latencies of tokens, absent with the reason."""
    names = [f"{kind}_{q}" for kind in ("ttft_s", "tpot_s", "itl_s") for q in ("p50", "p90", "p99")]
    return {name: Estimate.absent(SECONDS, _ONE_PIECE) for name in names}


# Rates within a window: amounts counted in short intervals of time, and the rate with its interval over them.

_BINS = 200  # of time, in which the work of a rate is counted: as many as its interval groups rows into


def edges_of(window: Window) -> np.ndarray:
    """Edges of the intervals in which the work of a window is counted, in ns. Shape: (k + 1,)."""
    span = window.end_ns - window.begin_ns
    return np.linspace(window.begin_ns, window.end_ns, min(_BINS, span) + 1).astype(np.int64)


def amount_in(times_ns: np.ndarray, weights: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The sum of `weights` in each interval of `edges` [k + 1]; the last one holds its right edge. Shape: (k,)."""
    place = np.searchsorted(edges, times_ns, side="right")
    place[times_ns == edges[-1]] = len(edges) - 1
    return np.asarray(np.bincount(place, weights, len(edges) + 1)[1 : len(edges)])


def flow(amounts: np.ndarray, edges: np.ndarray, unit: str, what: str, seen: int) -> Estimate:
    """The rate of `amounts` [k] between `edges` [k + 1], of `what`; `seen`: answers that stand behind it."""
    return rate_interval(amounts, edges[:-1], edges[1:], unit=unit, method_suffix=f"; {what}", seen=seen)
