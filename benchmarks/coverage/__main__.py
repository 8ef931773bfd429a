"""`python -m benchmarks.coverage [SIMULATIONS] [intervals|searches]`: how often they hold the truth, as tables."""

from __future__ import annotations

import math
import sys

import numpy as np

from benchmarks.coverage.kinds import Case, every, with_long_truths
from benchmarks.coverage.searches import Decoder, Server, search
from twinlens.version import __version__

SERVERS: tuple[Server | Decoder, ...] = (
    Decoder(0.99, 0.7),
    Decoder(0.99, 0.8),
    Decoder(0.95, 0.8),
    Decoder(0.9, 0.9),
    Decoder(0.99, 0.9),
    Server(1, 1.0, 0.9, 0.5),
    Server(1, 1.0, 0.95, 0.8),
    Server(4, 0.5, 0.95, 0.86),
    Server(16, 0.3, 0.95, 0.71),
    Server(16, 1.0, 0.95, 0.89),
    Server(16, 1.0, 0.99, 0.85),
)


def main(words: list[str]) -> int:
    """Simulate and print; 2,000 simulations a line where nothing else is asked for."""
    count = int(words[0]) if words else 2000
    wanted = words[1:] or ["intervals", "searches"]
    print(f"Twinlens {__version__}, seeds 0 …, at most {count:,} simulations a line.\n")
    if "intervals" in wanted:
        print("| interval | rows | given | holds | too low | too high |\n|---|---|---|---|---|---|")
        for case in (*every(), *with_long_truths()):
            print(line(case, max(20, round(count * case.weight))), flush=True)
    if "searches" in wanted:
        _searches(max(20, count // 2))
    return 0


def _searches(count: int) -> None:
    print("\n| search at 95 % | requests a run | holds | low above | high below | high / low | ±10 % | wrong then |")
    print("|---|---|---|---|---|---|---|---|")
    for server in SERVERS:
        for requests in (400, 1000, 3000):
            print(search_line(server, requests, count), flush=True)
    print("\n| search that goes on | further | runs, median | 90 % | holds | high / low | ±10 % | wrong then |")
    print("|---|---|---|---|---|---|---|---|")
    for server in SERVERS:
        for further in (1, 2):
            print(search_line(server, 1000, count, further), flush=True)


def line(case: Case, count: int) -> str:
    """One kind on one sort of rows: how many had an interval, and how many of these hold the truth."""
    found = [case.draw(np.random.default_rng(seed)) for seed in range(count)]
    given = [(one.low, one.high) for one in found if one.low is not None and one.high is not None]
    if not given:
        return f"| {case.kind} | {case.rows} | none | | | |"
    under = np.array([high < case.truth - 1e-12 for _, high in given])
    over = np.array([low > case.truth + 1e-12 for low, _ in given])
    cells = [_percent(len(given) / count), _percent(1 - (under | over).mean()), _percent(under.mean())]
    return f"| {case.kind} | {case.rows} | {' | '.join(cells)} | {_percent(over.mean())} |"


def search_line(server: Server | Decoder, requests: int, count: int, further: int = 0) -> str:
    """Searches at one server: how many intervals hold the highest rate within the SLO; how many are of ±10 %, and how
    many of all are so and wrong. Of those that go on `further` times, also how many runs they took."""
    slo, truth = server.slo(), server.rate_per_s
    found = [search(np.random.default_rng([seed, requests]), server, slo, requests, further) for seed in range(count)]
    above = [one.low is not None and one.low >= truth for one in found]
    below = [one.high is not None and one.high < truth for one in found]
    widths = [one.high / one.low if one.low and one.high else math.inf for one in found]
    near = [width <= 1.1 / 0.9 for width in widths]
    false = sum(is_near and (over or under) for is_near, over, under in zip(near, above, below, strict=True))
    holds = 1 - (sum(above) + sum(below)) / count
    shown = [holds] if further else [holds, sum(above) / count, sum(below) / count]
    width = f"{np.median(widths):.2f}" if math.isfinite(float(np.median(widths))) else "open"
    cells = [*map(_percent, shown), width, _percent(sum(near) / count), _percent(false / count)]
    runs = [one.trials for one in found]
    begins = f"{further} | {np.median(runs):.0f} | {np.quantile(runs, 0.9):.0f}" if further else requests
    return f"| {server.name} | {begins} | {' | '.join(cells)} |"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
