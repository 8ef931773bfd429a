"""A measured run, as a plan of money needs it: the rate within its SLO, tokens of a request, and power."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from twinlens.api.compare import sides
from twinlens.comparison.side import Side
from twinlens.errors import BadInput
from twinlens.planning.figure import Figure, assumed
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding

UNREADABLE = "TL231"


@dataclass(frozen=True, slots=True)
class Measured:
    """`power_w`: of all devices together, None where it was not measured; `notes`: what the run lacks."""

    throughput: Figure
    input_tokens: Figure | None
    output_tokens: Figure | None
    power_w: float | None
    name: str
    notes: tuple[Finding, ...] = ()


def measured(run: str | Path) -> Measured:
    """The point of the highest rate within its SLO. Raises BadInput (TL231) for runs that served nothing."""
    found = [side for side in sides(run, False) if side.lens == "inference"]
    best = max(found, key=_rank, default=None)
    rate, is_good = _rate(best) if best is not None else (None, False)
    if best is None or rate is None or not rate.value or rate.value <= 0:
        raise BadInput(
            f"--like {str(run)[:60]!r} has no rate of requests: give a run of inference that ended", code=UNREADABLE
        )
    name = best.name
    notes: tuple[Finding, ...] = () if best.group.ranked else (assumed("like-not-ranked", name),)
    notes += () if is_good else (assumed("like-without-slo", name),)
    is_banded = rate.low is not None and rate.high is not None and rate.low > 0
    ends = (rate.low, rate.high, rate.level) if is_banded else (None, None, None)
    notes += () if is_banded else (assumed("like-without-interval", name),)
    throughput = Figure("throughput", rate.value, "requests/s", low=ends[0], high=ends[1], level=ends[2],
                        origin="measured", source=name, assumptions=notes)  # fmt: skip
    ahead, after = _tokens(best, name)
    power = best.group.metrics.get("mean_power_w")
    return Measured(throughput, ahead, after, power.value if power else None, name, notes)


def _rank(side: Side) -> tuple[bool, bool, float]:
    rate, is_good = _rate(side)
    return side.group.ranked, is_good, (rate.value or 0.0) if rate else 0.0


def _rate(side: Side) -> tuple[Estimate | None, bool]:
    """Goodput, else the sustained rate whatever its latency; and whether it is goodput."""
    good = side.group.metrics.get("goodput_per_s")
    if good is not None and good.value is not None:
        return good, True
    return side.group.metrics.get("requests_per_s"), False


def _tokens(side: Side, name: str) -> tuple[Figure | None, Figure | None]:
    """Mean tokens of a request, in and out, from the rates of the run."""
    metrics = side.group.metrics
    rates = [metrics.get(each) for each in ("requests_per_s", "output_tokens_per_s", "total_tokens_per_s")]
    values = [rate.value if rate is not None else None for rate in rates]
    requests, after, both = values
    if not requests or after is None:
        return None, None
    out = Figure("output-tokens", after / requests, "tokens", origin="measured", source=name)
    if both is None or both <= after:
        return None, out
    return Figure("input-tokens", (both - after) / requests, "tokens", origin="measured", source=name), out
