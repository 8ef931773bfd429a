"""`twinlens probe`: the machine as it says of itself, and its measured ceilings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from twinlens.api.questions import Probe as Asked
from twinlens.api.reference import probe
from twinlens.cli.screen import err, out, print_json, sentences
from twinlens.measurement.machine.probe import CeilingRow, CollectiveFit, CollectiveProbe, Probe
from twinlens.record.executor.record import FIELDS
from twinlens.reporting.wording.finding import sentence_of
from twinlens.units import BYTES, BYTES_PER_S, SECONDS, show

_SHOWN = (
    "accelerator.product", "accelerator.count", "accelerator.memory_bytes", "host.cpu.model", "host.cpu.cores",
    "host.cpu.isa", "host.memory_bytes", "host.os", "host.kernel", "host.virtualisation",
    "power.limit_w", "power.source", "thermal.throttle", "tenancy.co_tenants",
    "software.driver.version", "software.python.version",
    "software.framework.version", "software.framework.source", "software.framework.threads",
    "software.framework.cpu_capability", "software.framework.onednn",
)  # fmt: skip


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = Asked.read(name, given)
        if not asked.quiet and not asked.json_:
            exchanges = ", and exchanges between processes, a minute" if asked.collectives else ""
            err().print(f"measuring ceilings, ten seconds on a processor and half a minute on a GPU{exchanges} …")
        probed = probe(asked.device, collectives=asked.collectives, ranks=asked.ranks)
        if asked.json_:
            print_json(probed.to_json())
            return
        console = out()
        console.print(_facts(probed))
        console.print(
            _ceilings(probed.ceilings, on_board=probed.record.value("accelerator.form_factor") != "processor")
            if probed.ceilings
            else f"Ceilings: not measured ({probed.why_no_ceilings})"
        )
        if probed.collectives is not None:
            console.print(collectives(probed.collectives))
            for line in remarks(probed.collectives):
                console.print(line, markup=False)
        for note in probed.notes:
            console.print(f"! {note}", style="yellow", markup=False)
        for lens, whole in probed.completeness().items():
            lacks = f"; a run adds {len(whole.missing)} more" if whole.missing else ""
            console.print(f"{lens}: {whole.verdict}{lacks}")
        console.print(f"executor record {probed.record.hash()[:16]}; all {len(probed.record.facts)} facts: --json")


def _facts(probed: Probe) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for key in _SHOWN:
        fact = probed.record.facts.get(key)
        if fact is None:
            continue
        value = f"unknown ({fact.reason})" if fact.value is None else _text(key, fact.value)
        table.add_row(FIELDS[key].label, value)
    return table


def _text(key: str, value: object) -> str:
    if key.endswith("_bytes") and isinstance(value, int | float):
        return show(value, "bytes")
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)


def _ceilings(rows: Sequence[CeilingRow], *, on_board: bool) -> Table:
    """One line per kind and format, one column per number of threads; of an accelerator's board one column."""
    threads = sorted({row.threads for row in rows})
    table = Table(title="Measured ceilings", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("rate")
    table.add_column("format")
    for count in threads:
        table.add_column("the board" if on_board else f"{count} thread{'s' if count > 1 else ''}", justify="right")
    lines: dict[tuple[str, str], dict[int, str]] = {}
    for row in rows:
        name = f"{row.format} {row.layout}".strip() or "–"
        absent = "not here" if row.estimate.value is None else show(row.estimate.value, row.estimate.unit)
        lines.setdefault((row.kind, name), {})[row.threads] = absent
    for (kind, name), cells in lines.items():
        table.add_row(kind, name, *(cells.get(count, "–") for count in threads))
    return table


# Collectives of a probe on the screen: one line a kind and decade of sizes, and what the fit came to.

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
    whole = f"{fit.kind}: latency {show(fit.segments[0].latency_s.value or 0.0, SECONDS)}"
    from_size = "" if len(fit.segments) == 1 else f" from {show(last.begin_bytes, BYTES)} on"
    rate = show(last.bus_bytes_per_s.value or 0.0, BYTES_PER_S)
    return f"{whole}, bus bandwidth {rate}{from_size}; at most {last.residual:.0%} off at a size."
