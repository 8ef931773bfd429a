"""Served runs in a terminal of 80 columns: what stands against them first, then a row for each point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.reporting import display
from twinlens.reporting.gate import agreement_of, gate_legend, gate_word, why_no_gate
from twinlens.reporting.load_kind import TITLES, LoadKind, fault_of, kinds_of, place_of
from twinlens.reporting.machine import machine_words
from twinlens.reporting.point_name import point_names
from twinlens.reporting.text.column import Column, column
from twinlens.reporting.text.footnote import Footnotes, hanging, in_lines
from twinlens.reporting.text.policies import HELD, HOLD_COLUMNS, WHY, choices, has_policies
from twinlens.reporting.text.serving_column import GATE, PLACE_HEADS, other_columns, served_columns
from twinlens.reporting.view import why_not_valid
from twinlens.stats.summary.group import Group
from twinlens.units import digits

_LABEL_WIDTH = 12
_WORDS = {"no steady state": "unsteady"}  # what is too wide for its column; the line above says it in full
_SHARES = ("slo_attainment", "failed_share")
_WHY_NO_BOUNDS = "no interval: its runs came to the same share, which does not show how far others may lie apart"


def served_table(load: LoadKind, groups: Sequence[Group], notes: Footnotes, runs: Mapping[str, Run]) -> RenderableType:
    """One model served in one way on one machine. Why groups are not valid, or provisional, is said first.

    `runs`: of the groups, by id; policies that met the same arrivals are compared on these.
    """
    names = dict(zip(map(id, groups), point_names(groups), strict=True))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("", overflow="fold", max_width=_LABEL_WIDTH)
    wanted = served_columns(groups)
    gated = any(agreement_of(group) for group in groups)
    columns = tuple(column for column in wanted if column is not GATE)  # it stands below the verdict: 80 columns
    for head in (PLACE_HEADS[load], *(each.head for each in columns)):
        table.add_column(head.replace(" ", "\n"), justify="right", no_wrap=True)
    table.add_column("verdict\nquality" if gated else "verdict", no_wrap=True)
    for group in groups:
        _add(table, group, columns, notes, gated=gated)
    title = Text(
        display.clean(f"Inference · {groups[0].model}, {TITLES[load]}{machine_words(groups[0])}", 160), style="bold"
    )
    against = [
        hanging(f"{display.MARKS[group.validity]} ", f"{names[id(group)]} is {why}", display.STYLES[group.validity])
        for group in groups
        if (why := why_not_valid(group)) is not None
    ]
    agreed = agreement_sentence(groups)
    legend = _legend(load, _shown(columns, groups)) + (f" {gate_legend(groups)}" if gated else "")
    why = "" if gated or GATE not in wanted else f"Fidelity is not measured: {GATE.reason(groups[0])}."
    below = [hanging("", words, "dim") for words in (legend, agreed, why) if words]
    return Stack(
        *(title, *against, Text(""), table, Text(""), *notes.listed_since(), *below, Text("")),
        *_others(load, groups, notes),
        *_held(load, groups, notes, runs),
    )


def _others(load: LoadKind, groups: Sequence[Group], notes: Footnotes) -> list[RenderableType]:
    """The figures that the first table has no room for."""
    wanted = other_columns(groups)
    if not wanted:
        return []
    title = Text("Throughput, latency of the whole answer, and failures", style="bold")
    table = _plain_table(load, groups, wanted, notes)
    told = notes.listed_since()
    return [title, Text(""), table, Text(""), *told, *([Text("")] if told else [])]


def _plain_table(
    load: LoadKind, groups: Sequence[Group], columns: Sequence[Column], notes: Footnotes
) -> RenderableType:
    """A row for each point with its name, its load and these columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("", overflow="fold", max_width=_LABEL_WIDTH)
    for head in (PLACE_HEADS[load], *(each.head for each in columns)):
        table.add_column(head.replace(" ", "\n"), justify="right", no_wrap=True)
    for group in groups:
        style = "" if group.ranked else "dim"
        cells = [_cell(column, group, notes, style) for column in columns]
        table.add_row(Text(_label(group), style=style), f"{place_of(group):.4g}", *cells)
    return table


def _held(load: LoadKind, groups: Sequence[Group], notes: Footnotes, runs: Mapping[str, Run]) -> list[RenderableType]:
    """Requests that each policy kept back and why, where one held any; and which policy, executor or switch to take."""
    chosen = [hanging("→ ", words, "bold") for words in choices(groups, runs)]
    if not has_policies(groups):
        return [*chosen, Text("")] if chosen else []
    return [
        Text(HELD, style="bold"),
        Text(""),
        _plain_table(load, groups, HOLD_COLUMNS, notes),
        Text(""),
        *notes.listed_since(),
        *chosen,
        hanging("", WHY, "dim"),
        Text(""),
    ]


def _label(group: Group) -> str:
    """Precision and policy on lines of their own, each as wide as its column."""
    return "\n".join(part for line in kinds_of(group) for part in in_lines(line, _LABEL_WIDTH))


def _add(table: Table, group: Group, columns: Sequence[Column], notes: Footnotes, *, gated: bool) -> None:
    style = "" if group.ranked else "dim"
    fault = fault_of(group)
    word = _WORDS.get(fault, fault) or group.validity
    place = place_of(group)
    shown = f"{place:g}" if place == float(f"{place:.4g}") else digits(place)
    cells = [Text(_label(group), style=style), Text(shown, style=style)]
    cells += [_cell(column, group, notes, style) for column in columns]
    verdict = Text(word, style=display.STYLES[group.validity])
    table.add_row(*cells, Text("\n").join([verdict, _gate(group, notes, style)]) if gated else verdict)


def _gate(group: Group, notes: Footnotes, style: str) -> Text:
    """ "go 99.2%"."""
    agreed, word = agreement_of(group), gate_word(group)
    if agreed is None:
        return Text(f"{display.ABSENT} {notes.mark(f'quality: not measured: {why_no_gate(group)}')}", style=style)
    return Text(f"{word} {display.value(agreed[1])}", style={"pass": "green", "fail": "red"}.get(word, style))


def _cell(column: Column, group: Group, notes: Footnotes, style: str) -> Text:
    pair = column.estimate(group)
    if pair is None or pair[1].value is None:
        why = f"{column.head}: not measured: {column.reason(group, counted=False)}"
        return Text(f"{display.ABSENT} {notes.mark(why)}", style=style)
    under = display.under(pair[1])
    if pair[1].low is None or pair[1].high is None:
        under = notes.mark(f"no interval: {display.no_interval(pair[1], counted=False)}")
    elif pair[0] in _SHARES:
        under = share_bounds(pair[1]) or notes.mark(_WHY_NO_BOUNDS)
    return Text(f"{column.text(group)}\n{under}", style=style)


def share_bounds(estimate: Estimate) -> str:
    """The same, in brackets where it is a range of two runs."""
    ends = share_ends(estimate)
    return f"({ends})" if ends and display.kind(estimate) == "range" else ends


def share_ends(estimate: Estimate) -> str:
    """The interval of a share in per cent, to a tenth: "89.4–99.9"; "" where there is none."""
    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return ""
    low, high = (f"{share:.1f}" if (share := 100 * bound) < 99.95 else "100" for bound in (estimate.low, estimate.high))
    return f"{low}–{high}"


def _shown(columns: Sequence[Column], groups: Sequence[Group]) -> list[Estimate]:
    return [pair[1] for group in groups for column in columns if (pair := column.estimate(group))]


def _legend(load: LoadKind, shown: Sequence[Estimate]) -> str:
    place = {
        "rate": "rate: requests sent per second, on schedule (open loop).",
        "concurrency": "in flight: requests in flight; each answer starts the next request (closed loop).",
        "other": "due: the rate at which requests came.",
    }[load]
    return (
        f"{place} TTFT and TPOT count from when each request was due, failures being slower than any answer. "
        f"{' '.join([*display.legend(shown), ''])}goodput: requests that met every limit; within SLO: their share."
    )


# One sentence on whether the server counted what its client counted, over all runs of a table.

_COUNTS = (
    ("tokens", "server_tokens_agreement"),
    ("requests", "server_requests_agreement"),
    ("mean TTFT from send", "server_ttft_agreement"),
)
_TOKENS = column("server_tokens_agreement")


def agreement_sentence(groups: Sequence[Group]) -> str:
    """The server's own figures in per cent of the client's: the range over the points that have them, or why none."""
    parts = []
    for name, key in _COUNTS:
        values = [group.metrics[key].value for group in groups if key in group.metrics]
        known = sorted(100 * value for value in values if value is not None)
        if known:
            low, high = (f"{bound:.4g}" for bound in (known[0], known[-1]))
            parts.append(f"{name} {low}%" if low == high else f"{name} {low}–{high}%")
    if parts:
        return f"The server's own figures, of the client's: {', '.join(parts)}."
    named = [name for name, key in _COUNTS if any(key in group.metrics for group in groups)]
    why = next((_TOKENS.reason(group) for group in groups if _TOKENS.ids[0] in group.metrics), "")
    return f"The server's own figures ({', '.join(named)}) are not measured: {why}." if named else ""
