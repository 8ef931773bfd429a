"""Document of a probe: the machine as it says of itself, its measured ceilings, and exchanges between ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlens.measurement.machine.probe import CeilingRow, CollectiveFit, CollectiveProbe, CollectiveRow, Probe
from twinlens.record.executor.record import FIELDS
from twinlens.reporting.display import ABSENT, clean
from twinlens.reporting.document.block import Block, Document, Line, Row, Table, Title, cells, row
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
_EVERY = 3
"""Of sizes that double: each eightfold one, and the largest."""


def probe_document(probed: Probe) -> Document:
    machine = probed.record.value("accelerator.product") or probed.record.value("host.cpu.model")
    return Document.of("Probe", clean(machine or "this machine", 80), _blocks(probed), "--json")


def _blocks(probed: Probe) -> Iterator[Block]:
    facts = [(FIELDS[key].label, _fact(key, probed)) for key in _SHOWN if key in probed.record.facts]
    rows = tuple(map(cells, facts))
    yield Table("The machine as it says of itself.", ("fact", ""), rows, ("left",) * 2, remarks=True, shrinks=True)
    if probed.ceilings:
        yield Title("Measured ceilings")
        yield _ceilings(probed.ceilings, probed.record.value("accelerator.form_factor") != "processor")
    else:
        yield Line(f"Ceilings: not measured ({probed.why_no_ceilings})")
    if probed.collectives is not None:
        yield from collective_blocks(probed.collectives)
    yield row("!", probed.notes, "doubt", apart=True)
    for lens, whole in probed.completeness().items():
        lacks = f"; a run adds {len(whole.missing)} more" if whole.missing else ""
        yield Line(f"{lens}: {whole.verdict}{lacks}")
    yield Line(f"executor record {probed.record.hash()[:16]}; all {len(probed.record.facts)} facts: --json")


def _fact(key: str, probed: Probe) -> str:
    fact = probed.record.facts[key]
    if fact.value is None:
        return f"unknown ({fact.reason})"
    if key.endswith("_bytes") and isinstance(fact.value, int | float):
        return show(fact.value, BYTES)
    return ", ".join(map(str, fact.value)) if isinstance(fact.value, list | tuple) else str(fact.value)


def _ceilings(rows: Sequence[CeilingRow], on_board: bool) -> Table:
    """One line per kind and format, one column per number of threads; of an accelerator's board one column."""
    threads = sorted({each.threads for each in rows})
    heads = ["the board" if on_board else f"{count} thread{'s' if count > 1 else ''}" for count in threads]
    lines: dict[tuple[str, str], dict[int, str]] = {}
    for each in rows:
        name = f"{each.format} {each.layout}".strip() or ABSENT
        absent = "not here" if each.estimate.value is None else show(each.estimate.value, each.estimate.unit)
        lines.setdefault((each.kind, name), {})[each.threads] = absent
    shown = tuple(cells((*name, *(line.get(count, ABSENT) for count in threads))) for name, line in lines.items())
    sides = ("left", "left", *["right"] * len(threads))
    return Table("Rates by kind and number format.", ("rate", "format", *heads), shown, sides)


def collective_blocks(probe: CollectiveProbe) -> Iterator[Block]:
    """Times of each kind and of some sizes, a line for each fit and each kind without a figure, and findings."""
    yield Title(f"Collectives: {probe.ranks} ranks over {probe.backend}, the slowest rank's time")
    rows = []
    for kind in dict.fromkeys(each.kind for each in probe.rows):
        mine = [each for each in probe.rows if each.kind == kind]
        rows += [cells(_collective(each)) for each in (*mine[:-1:_EVERY], mine[-1])]
    heads = ("exchange", "size", "n", "least", "median", "p90", "algbw", "busbw")
    yield Table("Least, median and p90 of each kind and size; bandwidths of the least.", heads, tuple(rows), gap=1)
    yield from map(Line, map(_fit, probe.fits))
    yield from (Line(f"{kind}: not measured, {reason}.") for kind, reason in probe.refused.items())
    if probe.on_processor:
        yield Line("The ranks share this processor: these are rates of its memory and cores, not of a link.")
    yield Row("!", tuple(map(sentence_of, probe.findings)), apart=True)


def _collective(each: CollectiveRow) -> tuple[str, ...]:
    seconds = [show(value, SECONDS) for value in (each.least_s, each.median_s, each.p90_s)]
    rates = [show(value, BYTES_PER_S) for value in (each.algorithm_bytes_per_s, each.bus_bytes_per_s)]
    return each.kind, show(each.size_bytes, BYTES), str(each.n), *seconds, *rates


def _fit(fit: CollectiveFit) -> str:
    if fit.refused is not None:
        return f"{fit.kind}: latency and bandwidth not told ({fit.refused})."
    last = fit.segments[-1]
    whole = f"{fit.kind}: latency {show(fit.segments[0].latency_s.value or 0.0, SECONDS)}"
    from_size = "" if len(fit.segments) == 1 else f" from {show(last.begin_bytes, BYTES)} on"
    rate = show(last.bus_bytes_per_s.value or 0.0, BYTES_PER_S)
    return f"{whole}, bus bandwidth {rate}{from_size}; at most {last.residual:.0%} off at a size."
