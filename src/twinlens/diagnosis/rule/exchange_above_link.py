"""Gradients are under way longer than their bytes take at the bandwidth that a probe found between the same ranks."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence, Rule
from twinlens.diagnosis.phase import known
from twinlens.diagnosis.probe_ceilings import LINK
from twinlens.record.finding import Finding
from twinlens.theory.collective import bus_factor

_LEAST = 1.5
_TIMED = ("exchange-hidden", "exchange-not-resolved")


def exchange_above_link(seen: Evidence) -> Iterable[Finding]:
    """Where the exchange that the run timed takes half as long again as its bytes, or more."""
    rate = known(seen.ceilings, LINK)
    timed = next((each.numbers for each in seen.findings if each.code in _TIMED), None)
    if not rate or timed is None or timed.get("ranks") is None:
        return
    least_s = timed["bytes"] * float(bus_factor("all-reduce", timed["ranks"])) / rate
    if not least_s or timed["flight_s"] < _LEAST * least_s:
        return
    numbers = {
        "seconds": timed["flight_s"], "least_s": least_s, "bytes": timed["bytes"], "ranks": timed["ranks"],
        "times": timed["flight_s"] / least_s,
    }  # fmt: skip
    yield Finding("exchange-above-link", "notes", "communicate", numbers, {LINK: seen.ceilings[LINK]})


RULE = Rule(
    code="exchange-above-link",
    find=exchange_above_link,
    says="Gradients are under way half as long again as their bytes take at the probed bandwidth, or more.",
    why=(
        "A probe times the same all-reduce alone. What takes longer within a step is not the link: a rank comes "
        "late, buckets are small, or the exchange shares cores with the backward pass."
    ),
    evidence=(
        "Time in which a bucket of gradients is under way, as the run timed it before its rows, beside bytes × "
        "2 (n − 1) / n over the bus bandwidth that was fitted to all-reduces of the same number of ranks "
        "(`twinlens probe --collectives --json`, given as `diagnose --ceilings`). Latency is left out: it is what "
        "small buckets cost."
    ),
    lies=(
        "The fit is of the least times, and no step is all of those. On a processor the probe had the cores for "
        "itself, and a backward pass has not."
    ),
    remedy="Look for a rank that is late (straggler), and try larger buckets (executor.options.bucket_mib).",
    falsifier=(
        "Measure with one bucket (`executor.options.bucket_mib` above the size of all gradients) on a quiet machine. "
        "An exchange that is still as long proves that the link in use is slower than the one that was probed."
    ),
    sources=(
        'Li et al., "PyTorch Distributed: experiences on accelerating data parallel training", VLDB 2020, '
        "arXiv:2006.15704, on buckets and overlap",
        "NVIDIA nccl-tests, doc/PERFORMANCE.md, on bus bandwidth",
    ),
    see=("exchange-hidden", "collective", "interconnect-bound"),
    laws=("all-reduce-time",),
)
