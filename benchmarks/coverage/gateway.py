"""How often a gateway's bands hold: its router in front of simulated engines, under steady loads and growing queues.

`python -m benchmarks.coverage.gateway` prints the table of docs/results/coverage-gateway.md (`--save` writes it).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.coverage.told import told
from benchmarks.gateway_routing import LAW, Truth, held, play, times
from twinlens.gateway.routing.route import MOST_AHEAD
from twinlens.simulation.rules import Rules

PLACE = Path(__file__).parents[2] / "docs" / "results" / "coverage-gateway.md"
SEEDS = 3
_HEAD = """# How often a gateway's predictions hold

Bands of TTFT and TPOT are meant to hold nine in ten. Simulated engines behind the router of the gateway, Poisson
arrivals, prompts of 400 and answers of 60 tokens on average (exponential), {seeds} times {count:,} requests a line
(`python -m benchmarks.coverage.gateway --save`); nothing in it depends on the machine that makes it. One engine with 64
seats serves about 35 requests a second: beyond that its queue grows as long as requests come.

"Predicted": of how many requests anything was predicted. Where more than {most} requests wait at an engine for their
first token, nothing is: what came true until then is of a time when fewer waited. "True over predicted": the middle one
of ten, half and nine of ten.

| band | load | predicted | holds | true over predicted: p10, p50, p90 |
|---|---|--:|--:|--:|
"""
ENGINES: tuple[tuple[str, Any, float, dict[str, Any]], ...] = (
    ("1 engine, 2/s", [LAW], 2.0, {}),
    ("1 engine, 12/s", [LAW], 12.0, {}),
    ("1 engine, 24/s", [LAW], 24.0, {}),
    ("1 engine, 8/s, 8 seats", [LAW], 8.0, {"rules": Rules(max_num_seqs=8)}),
    ("1 engine, 12/s, noise 30 %", [LAW], 12.0, {"noise": 0.3}),
    ("4 engines, 40/s", [LAW] * 4, 40.0, {}),
    ("4 engines, one of half speed, 40/s", [*[LAW] * 3, times(LAW, 2.0)], 40.0, {}),
    ("4 engines, 40/s, slower by half in mid-day", [LAW] * 4, 40.0, {"change": lambda at: 1.5 if at > 0.5 else 1.0}),
    ("1 engine, 32/s, nearly full", [LAW], 32.0, {}),
    ("1 engine, 36/s, a queue that grows", [LAW], 36.0, {}),
    ("1 engine, 40/s, a queue that grows", [LAW], 40.0, {}),
    ("1 engine, 60/s, a queue that grows", [LAW], 60.0, {}),
)


def line(which: str, load: str, found: list[Truth]) -> str:
    """One line of the table."""
    good, of = held(found, which)
    pairs = [(t.ttft_s, t.predicted) if which == "ttft" else (t.tpot_s, t.predicted_tpot) for t in found]
    ratios = sorted(true / band.middle for true, band in pairs if band and true)
    off = ", ".join(f"{ratios[int(q * (len(ratios) - 1))]:.2f}" for q in (0.1, 0.5, 0.9))
    return f"| {which.upper()} of a gateway | {load} | {of / len(found):.0%} | {good / of:.1%} | {off} |"


def lines(count: int) -> Iterator[str]:
    """The table."""
    yield _HEAD.format(count=count, seeds=SEEDS, most=MOST_AHEAD).rstrip("\n")
    for name, laws, rate, more in ENGINES:
        made = [play(laws, rate_per_s=rate, requests=count, seed=seed, **more).told for seed in range(SEEDS)]
        found = [each for one in made for each in one]
        yield from (line(which, name, found) for which in ("ttft", "tpot"))


def main() -> None:
    told("gateway", __doc__, "requests", 2000, lines, PLACE)


if __name__ == "__main__":
    main()
