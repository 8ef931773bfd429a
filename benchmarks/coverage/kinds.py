"""Each kind of interval on rows whose truth is known: what is simulated, and what the truth is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from benchmarks.coverage.batches import batched, true_gap_s
from benchmarks.coverage.truths import (
    LONG_BURN_IN,
    QUANTILES,
    UNSEEN,
    first_order,
    served,
    stay_quantiles,
    stays,
    truth_of,
)
from twinlens.record.estimate import Estimate
from twinlens.spec.slo import Slo
from twinlens.stats.estimator.dependence import too_dependent
from twinlens.stats.estimator.interval import mean_interval
from twinlens.stats.estimator.quantile import censored_quantile, quantile
from twinlens.stats.estimator.rate import rate_interval
from twinlens.stats.estimator.ratio import difference_of_runs, ratio_of_runs
from twinlens.stats.estimator.repeats import over_runs
from twinlens.stats.serving.goodput import goodput, share
from twinlens.stats.serving.latency import decoding, gaps_s, latency
from twinlens.stats.serving.metrics import serving_metrics
from twinlens.stats.serving.window import find_window

Generator = np.random.Generator
CV = 0.1
LENGTHS = (22, 70, 200, 1000, 3000)
_STALL, _STALLS = 10.0, 0.02


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table: `draw` gives an estimate from a generator, which should hold `truth`."""

    kind: str
    rows: str
    draw: Callable[[Generator], Estimate]
    truth: float
    weight: float = 1.0  # of the usual number of simulations: less for the slow ones


def _ar(phi: float) -> tuple[str, Callable[[Generator, int], np.ndarray], float, Callable[[float], float]]:
    name = "independent, CV 10 %" if phi == 0 else f"AR(1), φ {phi:g}, CV 10 %"
    return (
        name,
        lambda rng, n: np.exp(CV * first_order(rng, n, phi)),
        math.exp(CV**2 / 2),
        lambda q: math.exp(CV * float(ndtri(q))),
    )


_SERIES = (
    _ar(0.0),
    _ar(0.5),
    _ar(0.8),
    ("exponential", lambda rng, n: rng.exponential(1.0, n), 1.0, lambda q: -math.log1p(-q)),
    ("lognormal, σ 1", lambda rng, n: np.exp(rng.normal(size=n)), math.exp(0.5), lambda q: math.exp(float(ndtri(q)))),
    ("Pareto, α 2.5", lambda rng, n: 1 + rng.pareto(2.5, n), 1 / 1.5 + 1, lambda q: (1 - q) ** (-1 / 2.5)),
    (
        "2 % stalls of ten times",
        lambda rng, n: rng.normal(1, 0.05, n).clip(0.5) * np.where(rng.random(n) < _STALLS, _STALL, 1.0),
        1 + _STALLS * (_STALL - 1),
        None,
    ),
    ("M/M/1 stays, load 0.3", lambda rng, n: stays(rng, n, 0.3), 1 / 0.7, lambda q: -math.log1p(-q) / 0.7),
    ("M/M/1 stays, load 0.5", lambda rng, n: stays(rng, n, 0.5), 2.0, lambda q: -2 * math.log1p(-q)),
    ("M/M/1 stays, load 0.8", lambda rng, n: stays(rng, n, 0.8), 5.0, lambda q: -5 * math.log1p(-q)),
)  # fmt: skip


def _rate(took_s: np.ndarray) -> Estimate:
    end = np.cumsum(np.rint(took_s * 1e9).astype(np.int64))
    return rate_interval(np.ones(took_s.size), np.concatenate([[0], end[:-1]]), end, unit="1/s")


def _mean(series: np.ndarray, name: str) -> Estimate:
    """As the program takes it: of waits in a queue only where their run can show how far they depend on each other."""
    why_not = "" if _is_rows(name) else too_dependent(series)[0]
    return mean_interval(series, unit="s", why_not=why_not)


def _is_rows(name: str) -> bool:
    """Whether rows follow each other, so that they have a rate: stays in a queue overlap."""
    return not name.startswith(("M/M/", "even services", "bursty arrivals"))


def within_runs() -> Iterator[Case]:
    """Rates, means and quantiles within a run."""
    for name, draw, mean, at in _SERIES:
        for n in LENGTHS:
            rows = f"{name}; {n} rows"
            if _is_rows(name):
                yield Case("rate", rows, lambda rng, d=draw, n=n: _rate(d(rng, n)), 1 / mean)  # type: ignore[misc]
            yield Case("mean", rows, lambda rng, d=draw, n=n, w=name: _mean(d(rng, n), w), mean)  # type: ignore[misc]
            for q in QUANTILES if at else ():
                found: Any = lambda rng, d=draw, n=n, q=q: quantile(d(rng, n), q, unit="s", in_time_order=True)  # noqa: E731
                yield Case(f"p{100 * q:g}", rows, found, at(q))  # type: ignore[misc]


def gaps() -> Iterator[Case]:
    """Gaps between tokens under batching."""
    for phi in (0.0, 0.7):
        for slots in (1, 8, 32, 128):
            for steps in (1560,) if slots > 8 else (390, 1560):
                for q in (0.5, 0.99):
                    draw: Any = lambda rng, s=slots, n=steps, p=phi, q=q: _gap(batched(rng, n, s, phi=p), q)  # noqa: E731
                    rows = f"{slots} slots, {steps} steps, φ {phi:g} between steps"
                    yield Case(f"ITL p{100 * q:g}", rows, draw, true_gap_s(q), 0.05 if slots > 8 else 0.3)


def _gap(requests: Any, q: float) -> Estimate:
    rows = np.arange(len(requests))
    gaps = gaps_s(requests, rows)
    return censored_quantile(gaps, q, unit="s", what="gaps", together=decoding(requests, rows, gaps))


def unseen() -> Iterator[Case]:
    """Rows of kinds that the rules were not chosen on: their truth is that of ten long runs."""
    for name, draw in UNSEEN:
        mean, at = truth_of(draw)
        for n in LENGTHS[2:]:
            rows = f"not chosen on: {name}; {n} rows"
            if _is_rows(name) and not name.startswith("φ"):
                yield Case("rate", rows, lambda rng, d=draw, n=n: _rate(d(rng, n)), 1 / mean, 0.4)  # type: ignore[misc]
            yield Case("mean", rows, lambda rng, d=draw, n=n, w=name: _mean(d(rng, n), w), mean, 0.4)  # type: ignore[misc]
            for q in QUANTILES:
                found: Any = lambda rng, d=draw, n=n, q=q: quantile(d(rng, n), q, unit="s", in_time_order=True)  # noqa: E731
                yield Case(f"p{100 * q:g}", rows, found, at[q], 0.4)


def queues() -> Iterator[Case]:
    """Latencies of whole served runs, as a report shows them: window, requests in flight and all."""
    for servers, load in ((1, 0.3), (1, 0.5), (1, 0.8), (1, 0.9), (4, 0.5), (4, 0.8), (16, 0.85)):
        truths = stay_quantiles(servers, load)
        for n in (200, 1000, 3000, 10_000):
            for q in QUANTILES:
                draw: Any = lambda rng, a=(servers, load, n, q): _latency(rng, *a)  # noqa: E731
                rows = f"M/M/{servers}, load {load:g}; {n} requests"
                yield Case(f"e2e p{100 * q:g}", rows, draw, truths[q], 0.1 if n > 3000 else 0.2)


def _latency(rng: Generator, servers: int, load: float, n: int, q: float) -> Estimate:
    requests = served(rng, load * servers, n, servers, 1.0, LONG_BURN_IN)
    window = find_window(requests, "open")
    assert window is not None
    return serving_metrics(requests, window, None, None)[f"e2e_latency_s_p{100 * q:g}"]


def _limited(rng: Generator, load: float, q: float, n: int) -> Estimate:
    times = stays(rng, n, load) if load else rng.exponential(1.0, n)
    limit = -math.log1p(-q) / (1 - load)
    return share(times <= limit, "share", {"e2e_latency_s": times})


def _bursts(rng: Generator, n: int, missed: float, length: int) -> Estimate:
    """Misses in bursts of `length` requests, whose times are ten times the usual."""
    begins = np.flatnonzero(rng.random(n + length) < missed / length)
    late = np.zeros(n + length, bool)
    for begin in begins:
        late[begin : begin + length] = True
    late = late[length // 2 : length // 2 + n]
    times = rng.exponential(1.0, n) + np.where(late, 100.0, 0.0)
    return share(times <= 50, "share", {"e2e_latency_s": times})


def _before_many(rng: Generator, servers: int, load: float, n: int) -> Estimate:
    """The share within the p90 of the stay before many servers, whose services hide how long queues last."""
    made = served(rng, load * servers, n, servers, 1.0, LONG_BURN_IN)
    times = latency(made, np.arange(n))
    limit_s = stay_quantiles(servers, load)[0.9]
    span = int(made.intended_ns[0]), int(made.intended_ns[-1])
    return goodput(times, Slo(e2e_latency_s=limit_s, quantile=0.9), made.intended_ns, *span)["slo_attainment"]


def shares() -> Iterator[Case]:
    """Shares of requests within a limit that the queue keeps exactly."""
    for load in (0.0, 0.5, 0.8, 0.9):
        for q in (0.95, 0.99):
            for n in (200, 1000, 3000):
                name = "independent" if not load else f"M/M/1, load {load:g}"
                yield Case("share", f"{name}; p{100 * q:g}, {n} requests",
                           lambda rng, a=(load, q, n): _limited(rng, *a), q, 0.5)  # type: ignore[misc]  # fmt: skip
    for n, missed in ((1000, 0.1), (3000, 0.1), (3000, 0.05), (10_000, 0.02), (1000, 0.01)):
        kept = (1 - missed / 20) ** 20
        yield Case("share", f"bursts of 20 misses, {100 * missed:g} % in all; {n} requests",
                   lambda rng, a=(n, missed, 20): _bursts(rng, *a), kept, 0.5)  # type: ignore[misc]  # fmt: skip


def full_servers() -> Iterator[Case]:
    """Shares at the limit of many servers that are nearly full."""
    for load in (0.9, 0.95):
        for n in (200, 1000, 3000):
            yield Case("share", f"M/M/16, load {load:g}; p90, {n} requests",
                       lambda rng, a=(16, load, n): _before_many(rng, *a), 0.9, 0.3)  # type: ignore[misc]  # fmt: skip


def _of_runs(values: np.ndarray, **how: Any) -> Estimate:
    runs = [Estimate(float(v), "1", "run", "measured") for v in values]
    return over_runs(runs, **how)


def _shares_of_runs(rng: Generator, p: float, n: int, runs: int, apart: float) -> Estimate:
    """`apart`: how many times the binomial variance runs differ by."""
    if apart > 1:
        size = (n - 1) / (apart - 1) - 1
        of = rng.beta(p * size, (1 - p) * size, runs)
    else:
        of = np.full(runs, p)
    seen = rng.binomial(n, of) / n
    return over_runs([Estimate(float(v), "1", "share", "measured", n=n) for v in seen], kind="share")


def _brackets(rng: Generator, spread: float, runs: int) -> Estimate:
    """Evaluations each 1; truth 7.3; `spread` of runs in evaluations."""
    crossing = 7.3 + spread * rng.normal(size=runs)
    high = np.ceil(crossing)
    of = [Estimate(h - 0.5, "s", "between", "measured", h - 1, h, None, 1) for h in high.tolist()]
    return over_runs(of, kind="bracket")


def over() -> Iterator[Case]:
    """Over runs: means, shares, times to target, ratios and differences."""
    for runs in (2, 3, 5, 10):
        yield Case("runs (2: range)" if runs == 2 else "runs", f"normal, CV 5 %; {runs} runs",
                   lambda rng, r=runs: _of_runs(rng.normal(1, 0.05, r)), 1.0, 2)  # type: ignore[misc]  # fmt: skip
    for runs in (3, 5):
        yield Case("runs", f"a slow mode of −20 % in one run of five; {runs} runs",
                   lambda rng, r=runs: _of_runs(rng.normal(1, 0.01, r) - 0.2 * (rng.random(r) < 0.2)), 0.96, 2)  # type: ignore[misc]  # fmt: skip
        for p in (0.99, 0.95, 0.8):
            for apart in (1.0, 3.0):
                yield Case("share over runs", f"{100 * p:g} % of 400 requests, variance × {apart:g}; {runs} runs",
                           lambda rng, a=(p, 400, runs, apart): _shares_of_runs(rng, *a), p)  # type: ignore[misc]  # fmt: skip
        for spread in (0.0, 0.3, 1.0, 3.0):
            yield Case("time to target over runs", f"runs differ by {spread:g} evaluations; {runs} runs",
                       lambda rng, a=(spread, runs): _brackets(rng, *a), 7.3)  # type: ignore[misc]  # fmt: skip
        for cv in (0.01, 0.05, 0.2):
            yield Case("ratio of runs", f"CV {100 * cv:g} % a side; {runs} and {runs} runs",
                       lambda rng, a=(cv, runs): ratio_of_runs(*rng.normal(1, a[0], (2, a[1])).clip(0.05)), 1.0)  # type: ignore[misc]  # fmt: skip
            yield Case("difference of runs", f"SD {cv:g} and {2 * cv:g}; {runs} and {runs} runs",
                       lambda rng, a=(cv, runs): difference_of_runs(rng.normal(5, a[0], a[1]), rng.normal(5, 2 * a[0], a[1]), unit="1"), 0.0)  # type: ignore[misc]  # fmt: skip  # noqa: E501


def with_long_truths() -> Iterator[Case]:
    """What stands in the table and takes long runs to know the truth of."""
    yield from unseen()
    yield from full_servers()
    yield from queues()


def every() -> Iterator[Case]:
    """All kinds whose truth is known at once, as they stand in the table."""
    yield from within_runs()
    yield from gaps()
    yield from shares()
    yield from over()
