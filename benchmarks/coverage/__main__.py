"""`python -m benchmarks.coverage [SIMULATIONS] [intervals|searches]`: how often they hold the truth, as tables."""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.coverage.kinds import Case, every, with_long_truths
from benchmarks.coverage.searches import Server, search
from twinlens.version import __version__

SERVERS = (
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
    print("\n| search at 95 % | requests a run | holds | low above the truth | high below | high / low | narrow |")
    print("|---|---|---|---|---|---|---|")
    for server in SERVERS:
        for requests in (400, 1000, 3000):
            print(search_line(server, requests, count), flush=True)


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


def search_line(server: Server, requests: int, count: int) -> str:
    """Searches at one server: how many intervals hold the highest rate within the SLO."""
    limit_s, truth = server.limit_s(), server.load * server.servers
    found = [search(np.random.default_rng([seed, requests]), server, limit_s, requests) for seed in range(count)]
    above = sum(one.low is not None and one.low >= truth for one in found)
    below = sum(one.high is not None and one.high < truth for one in found)
    widths = [one.high / one.low for one in found if one.low and one.high]
    narrow = sum(one.outcome == "narrow" for one in found)
    shown = [1 - (above + below) / count, above / count, below / count]
    width = f"{np.median(widths):.2f}" if len(widths) > count / 2 else "open"
    return f"| {server.name} | {requests} | {' | '.join(map(_percent, shown))} | {width} | {_percent(narrow / count)} |"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
