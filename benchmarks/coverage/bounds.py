"""What any search could end with: the best tests of a limit by twelve runs, of servers whose runs are known exactly.

    python -m benchmarks.coverage.bounds [RUNS]

Two who know how runs at each rate scatter, to the last detail, and place all runs where these tell most. One knows the
law of misses too, all but the speed of the server: his interval ends at the speeds that the likelihood ratio (Neyman &
Pearson) tells from the true one. The other takes no law for granted but that misses grow with the rate: he shows that
one rate is not the limit, nor beyond, by runs at it, and of another that it is not below. Each at 2.5 % a side, in half
of the searches.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.coverage.searches import Decoder, Server
from twinlens.spec.slo import Slo

RUNS, REQUESTS, WRONG, DRAWS = 12, 1000, 0.025, 4000
RATES = (0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99, 1.0, 1.01, 1.02, 1.03, 1.05, 1.07, 1.1, 1.15, 1.2)
"""Over the limit."""
_EDGES = np.concatenate(([-1.0, 1e-9], np.geomspace(0.001, 1.0, 13)))


def missed(server: Server | Decoder, slo: Slo, over_limit: float, runs: int) -> np.ndarray:
    """Shares [runs] that miss in runs at a rate, of as many seconds as hold `REQUESTS` at the limit."""
    rng = np.random.default_rng([round(1000 * over_limit), 93])
    shares = []
    for _ in range(runs):
        rows = server.run(rng, over_limit * server.rate_per_s, round(over_limit * REQUESTS))
        answered = rows.chunk_ns[rows.offsets[:-1]] if slo.ttft_s else rows.end_ns
        shares.append(float(((answered - rows.intended_ns) / 1e9 > (slo.ttft_s or slo.e2e_latency_s)).mean()))
    return np.array(shares)


def told_apart(true: np.ndarray, other: np.ndarray, runs: int) -> float:
    """How often `runs` runs drawn from `true` shares reject that they are from `other` ones, which they do wrongly in
    2.5 %, by the sum of the logarithms of the ratios of their densities."""
    counts = [np.histogram(each, _EDGES)[0] + 0.5 for each in (true, other)]
    ratio = np.log(counts[0] / counts[0].sum()) - np.log(counts[1] / counts[1].sum())
    rng = np.random.default_rng(94)
    sums = [ratio[np.digitize(rng.choice(each, (DRAWS, runs)), _EDGES[1:-1])].sum(axis=1) for each in (true, other)]
    values, at = np.unique(sums[1], return_counts=True)
    beyond = np.cumsum(at[::-1])[::-1] / DRAWS  # of the other's runs at or above each value
    allowed = values[beyond <= WRONG]
    return float((sums[0] >= allowed.min()).mean()) if allowed.size else 0.0


def with_law(shares: dict[float, np.ndarray]) -> float:
    """High over low of who knows the law: the nearest speeds that twelve runs at one rate tell from the true one."""
    steps = [
        abs(math.log(there / here))
        for here in RATES
        for there in RATES
        if there != here and told_apart(shares[here], shares[there], RUNS) >= 0.5
    ]
    return math.exp(2 * min(steps))


def without_law(shares: dict[float, np.ndarray], runs: int = RUNS) -> float:
    """High over low of who knows no law: the nearest rates on either side that runs there tell from the limit."""
    told = {
        (rate, some): told_apart(shares[rate], shares[1.0], some)
        for rate in RATES
        if rate != 1.0
        for some in range(1, runs)
    }
    found = [
        high / low
        for low in RATES
        for high in RATES
        for some in range(1, runs)
        if low < 1 < high and told[low, some] * told[high, runs - some] >= 0.5
    ]
    return min(found, default=math.inf)


def lines(count: int) -> Iterator[str]:
    """One line a server."""
    yield "| server, SLO, load at the truth | no miss at the limit | with the law | without, 12 runs | 24 | 36 |"
    yield "|---|---|---|---|---|---|"
    for server in (Decoder(0.99, 0.9), Server(16, 1.0, 0.99, 0.85)):
        slo = server.slo()
        shares = {rate: missed(server, slo, rate, count) for rate in RATES}
        none = float((shares[1.0] == 0).mean())
        free = (without_law(shares, runs) for runs in (RUNS, 2 * RUNS, 3 * RUNS))
        told = " | ".join("open" if math.isinf(each) else f"{each:.2f}" for each in free)
        yield f"| {server.name} | {100 * none:.0f} % | {with_law(shares):.2f} | {told} |"


if __name__ == "__main__":
    for line in lines(int(sys.argv[1]) if len(sys.argv) > 1 else 1000):
        print(line, flush=True)
