"""Collectives of a probe on the screen: one line a kind and decade of sizes, and what the fit came to."""

from __future__ import annotations

from rich.table import Table

from twinlens.measurement.machine.probe import CollectiveFit, CollectiveProbe
from twinlens.reporting.wording.finding import sentence_of
from twinlens.units import BYTES, BYTES_PER_S, SECONDS, show

_EVERY = 3  # of sizes that double: each eightfold one, and the largest


def collectives(probe: CollectiveProbe) -> Table:
    """Least, median and p90 of each kind and size, with the bandwidths of the least."""
    title = f"Collectives: {probe.ranks} ranks over {probe.backend}, the slowest rank's time"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("exchange", no_wrap=True)
    for name in ("size", "n", "least", "median", "p90", "algbw", "busbw"):
        table.add_column(name, justify="right")
    for kind in dict.fromkeys(row.kind for row in probe.rows):
        rows = [row for row in probe.rows if row.kind == kind]
        for row in [*rows[:-1:_EVERY], rows[-1]]:
            table.add_row(
                kind, show(row.size_bytes, BYTES), str(row.n), show(row.least_s, SECONDS), show(row.median_s, SECONDS),
                show(row.p90_s, SECONDS), show(row.algorithm_bytes_per_s, BYTES_PER_S),
                show(row.bus_bytes_per_s, BYTES_PER_S),
            )  # fmt: skip
    return table


def remarks(probe: CollectiveProbe) -> list[str]:
    """A line for each fit, each kind without a figure, and each finding."""
    lines = [_fit(fit) for fit in probe.fits]
    lines += [f"{kind}: not measured, {reason}." for kind, reason in probe.refused.items()]
    if probe.on_processor:
        lines.append("The ranks share this processor: these are rates of its memory and cores, not of a link.")
    return [*lines, *(f"! {sentence_of(finding)}" for finding in probe.findings)]


def _fit(fit: CollectiveFit) -> str:
    if fit.refused is not None:
        return f"{fit.kind}: latency and bandwidth not told ({fit.refused})."
    last = fit.segments[-1]
    whole = f"{fit.kind}: latency {show(fit.segments[0].latency.value or 0.0, SECONDS)}"
    from_size = "" if len(fit.segments) == 1 else f" from {show(last.begin_bytes, BYTES)} on"
    rate = show(last.bandwidth.value or 0.0, BYTES_PER_S)
    return f"{whole}, bus bandwidth {rate}{from_size}; at most {last.residual:.0%} off at a size."
