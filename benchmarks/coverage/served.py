"""How often intervals of served runs hold the truth: latencies, goodput, rates and shares, in one run and over repeats.

`python -m benchmarks.coverage.served` prints the table of docs/results/coverage-served.md (`--save` writes it).
The server is that of `language_model.py`: 16 places, decoded together; the truth is that of a million requests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.coverage.language_model import MOST_PER_S, decoded, in_turn, true_waits
from benchmarks.coverage.told import told
from twinlens.record.estimate import Estimate
from twinlens.spec.slo import Slo
from twinlens.stats.estimator.quantile import pooled_quantile
from twinlens.stats.estimator.repeats import over_runs
from twinlens.stats.serving.goodput import good_rate_of_runs
from twinlens.stats.serving.metrics import serving_metrics
from twinlens.stats.serving.window import find_window
from twinlens.stats.summary.point import quantile_of

PLACE = Path(__file__).parents[2] / "docs" / "results" / "coverage-served.md"
LOADS, USERS, LENGTHS, REPEATS = (0.7, 0.8, 0.9), (8, 16, 32), (400, 1000, 3000), (1, 3, 5, 10)
_RATES = ("requests_per_s", "output_tokens_per_s")
_SHARES = ("slo_attainment",)
_IN_TURN = "goodput_per_s, closed loop"
_HEAD = """# How often intervals of served runs hold the truth

By simulation: a server that decodes up to 16 requests together, {count} runs a cell, in groups of as many as there are
repeats; of closed loops twice as many. Made by `python -m benchmarks.coverage.served --save`; nothing in it depends on
the machine that makes it.
Load 1 is what full batches come to; the truth is that of a million requests; the SLO is a whole stay that nine in ten
keep. "Given": how many had an interval; "holds": how many of these hold the truth, with the standard error of the
simulation (of 0 misses, as if there were one); "±": half its width over the truth, at the median.

Latencies and shares hold more often than 95 %: how long a queue lasts is itself known from few stretches, and the
doubt is put on the safe side.

In a closed loop the last requests end on a server that empties, which makes goodput of 400 requests up to 1 % too high:
ten runs know it to 1 to 4 % and hold in 87 to 100 %.

| interval | load | requests a run | runs | given | holds | ± |
|---|---|---|---|---|---|---|
"""


@cache
def limit_s(load: float) -> float:
    """The stay that nine in ten keep."""
    return true_waits(load)["e2e_latency_s_p90"]


@cache
def truths(load: float) -> dict[str, float]:
    """Each metric's truth at a load."""
    rate = load * MOST_PER_S
    tokens = decoded(np.random.default_rng(94), 200_000, load, 0).output_tokens
    known = {"requests_per_s": rate, "output_tokens_per_s": rate * float(tokens.mean())}
    return true_waits(load) | known | {"slo_attainment": 0.9, "goodput_per_s": 0.9 * rate}


def run(load: float, n: int, seed: int) -> dict[str, Estimate]:
    """The metrics of one run."""
    requests = decoded(np.random.default_rng([seed, n, round(100 * load)]), n, load)
    return serving_metrics(
        requests, find_window(requests, "open"), Slo(e2e_latency_s=limit_s(load), quantile=0.9), None
    )


@cache
def truths_in_turn(users: int) -> dict[str, float]:
    """The same of a closed loop, and the stay that nine in ten keep in it, from 1,500,000 requests."""
    rows = in_turn(np.random.default_rng(93), 1_500_000, users, 2000)
    stay_s, span_s = (rows.end_ns - rows.intended_ns) / 1e9, float(np.ptp(rows.end_ns)) / 1e9
    return {"limit_s": float(np.quantile(stay_s, 0.9)), _IN_TURN: 0.9 * (len(rows) - 1) / span_s}


def run_in_turn(users: int, n: int, seed: int) -> dict[str, Estimate]:
    """The goodput of one run of a closed loop."""
    requests = in_turn(np.random.default_rng([seed, n, users]), n, users)
    slo = Slo(e2e_latency_s=truths_in_turn(users)["limit_s"], quantile=0.9)
    return {_IN_TURN: serving_metrics(requests, find_window(requests, "closed"), slo, None)["goodput_per_s"]}


def together(name: str, runs: Sequence[dict[str, Estimate]]) -> Estimate:
    """One metric over runs, as a group of repeats has it."""
    if len(runs) == 1:
        return runs[0][name]
    if (q := quantile_of(name)) is not None:
        spreads = [each.spread for one in runs if (each := one[name]).spread is not None]
        return pooled_quantile(spreads, q, unit="s")
    if name == "goodput_per_s":
        offered = [(one[name].value or 0.0) / (one["slo_attainment"].value or 1.0) for one in runs]
        return good_rate_of_runs(together("slo_attainment", runs), offered)
    return over_runs([one[name] for one in runs], kind="share" if name in _SHARES else "mean", least=0.0)


def line(name: str, load: str, n: int, truth: float, repeats: int, runs: Sequence[dict[str, Estimate]]) -> str:
    """One line: how many groups of `repeats` runs had an interval, and how many of these hold the truth."""
    found = [together(name, runs[at : at + repeats]) for at in range(0, len(runs) - repeats + 1, repeats)]
    given = [each for each in found if each.low is not None]
    place = f"| {name} | {load} | {n} | {repeats} |"
    if len(given) < 5:  # how often fewer hold says nothing
        return f"{place} {len(given) / len(found):.0%} | | |"
    misses = sum(not (each.low or 0.0) <= truth <= (math.inf if each.high is None else each.high) for each in given)
    share = max(1, misses) / len(given)
    error = math.sqrt(share * (1 - share) / len(given))
    halves = [((math.inf if each.high is None else each.high) - (each.low or 0.0)) / 2 / truth for each in given]
    half = f"{np.median(halves):.0%}" if np.isfinite(np.median(halves)) else "open"
    return f"{place} {len(given) / len(found):.0%} | {1 - misses / len(given):.1%} ± {error:.1%} | {half} |"


def lines(count: int) -> Iterator[str]:
    """The table."""
    yield _HEAD.format(count=count).rstrip("\n")
    for load in LOADS:
        for n in LENGTHS:
            runs = [run(load, n, seed) for seed in range(count)]
            for name in (*true_waits(load), *_RATES, *_SHARES, "goodput_per_s"):
                truth = truths(load)[name]
                yield from (line(name, f"{load:g}", n, truth, repeats, runs) for repeats in REPEATS)
    for users in USERS:
        for n in LENGTHS:
            runs, truth = [run_in_turn(users, n, seed) for seed in range(2 * count)], truths_in_turn(users)[_IN_TURN]
            yield from (line(_IN_TURN, f"{users} users", n, truth, repeats, runs) for repeats in REPEATS)


def main() -> None:
    told("served", __doc__, "runs", 300, lines, PLACE)


if __name__ == "__main__":
    main()
