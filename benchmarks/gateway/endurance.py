"""One process of ours at its limits: tokens a second through it, and its memory over many requests."""

from __future__ import annotations

import asyncio

from benchmarks.finding import Finding
from benchmarks.gateway import light
from benchmarks.gateway.ways import Way
from twinlens.record.estimate import Estimate
from twinlens.units import BYTES, RATIO, TOKENS_PER_S

STREAMS, GAP_S = 256, 0.025
"""10,240 tokens a second where nothing is late."""
_TARGET_PER_S, _TENTHS, _CONNECTIONS = 10_000.0, 10, 16
_MOST_GROWTH_BYTES = 2e6


def throughput(way: Way, tokens: int) -> list[Finding]:
    """`way` stands before a server that sends a token every `GAP_S` in each of `STREAMS` streams."""
    port = int(way.url.rpartition(":")[2])
    asyncio.run(light.streams(port, 16, 8, 0.001))
    before_s = way.spent_s()
    got, took_s = asyncio.run(light.streams(port, STREAMS, tokens, GAP_S / STREAMS))
    busy_s = way.spent_s() - before_s
    lost = STREAMS * tokens - got
    note = f"{lost} tokens did not come" if lost else f"{STREAMS} streams, a token every {GAP_S * 1e3:g} ms"
    rate = Estimate(got / took_s, TOKENS_PER_S, "all tokens over the time of all streams", "measured",
                    n=got, no_interval="one turn")  # fmt: skip
    share = Estimate(
        busy_s / took_s, RATIO, "processor time of it over that time", "measured", n=1, no_interval="one turn"
    )
    most = Estimate(
        got / busy_s, TOKENS_PER_S, "tokens over its processor time", "derived", n=got, no_interval="one turn"
    )
    return [
        Finding("ours: tokens a second, offered 10,240", rate, _TARGET_PER_S, "at least", note),
        Finding("ours: processors busy meanwhile", share),
        Finding("ours: tokens a second of a whole processor", most, _TARGET_PER_S, "at least"),
    ]


def growth(way: Way, requests: int, within_s: float) -> tuple[list[Finding], str]:
    """Plain requests in ten parts; what is resident after each. The first part fills what is bounded: routes that are
    kept, times of backends, buffers of rows."""
    port, resident, answered, failed = int(way.url.rpartition(":")[2]), list[int](), 0, 0
    for _ in range(_TENTHS):
        good, bad = asyncio.run(light.plain(port, requests // _TENTHS, _CONNECTIONS, within_s / _TENTHS))
        answered, failed = answered + good, failed + bad
        resident.append(way.resident_bytes())
    told = ", ".join(f"{each / 1e6:.1f}" for each in resident)
    grown = Estimate(float(resident[-1] - resident[0]), BYTES, "resident after the last tenth less after the first",
                     "measured", n=answered, no_interval="one process")  # fmt: skip
    note = f"{failed} were refused" if failed else ""
    found = Finding(f"ours: growth over {answered:,} plain requests", grown, _MOST_GROWTH_BYTES, note=note)
    return [found], f"Resident after each tenth of {answered:,} plain requests, in MB: {told}."
