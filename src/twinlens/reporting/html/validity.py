"""The validity section, before any number: the client, the plan, the load and the compliance tests of each point."""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.html.stack import Stack
from twinlens.reporting.load_kind import SERVED, fault_of, load_of
from twinlens.reporting.text.first_lines import finding_lines, said_of
from twinlens.reporting.view import Entry, LensView, View, why_not_valid
from twinlens.reporting.wording.finding import clause_of, label_words
from twinlens.stats.client import MOST_LOAD
from twinlens.units import SECONDS, TOKENS_PER_S, digits, show

COLUMNS = (
    ("client_lag_s_p99", "sent late p99"),
    ("read_lag_s_p99", "read late p99"),
    ("client_load", "client load"),
    ("arrival_distance", "arrivals off plan"),
    ("failed_share", "failed"),
)
"""The metrics that a verdict on a run rests on, with their heads."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One point: whether its client and its load allow its numbers, each with the figures behind it."""

    name: str
    precision: str
    client: str
    load: str
    ranked: bool
    figures: tuple[tuple[str, str], ...]
    why: str


@dataclass(frozen=True, slots=True)
class Checks:
    """The points of one table. `heads`: (id, head) of each figure that any of them has; `absent`: the others, with the
    reason, "" where there are none."""

    heads: tuple[tuple[str, str], ...]
    rows: tuple[Checked, ...]
    absent: str


@dataclass(frozen=True, slots=True)
class GuardRow:
    """The ruling of one guard on one point."""

    name: str
    guard: str
    after: str
    ruling: str
    reason: str


def checks_of(entries: tuple[Entry, ...]) -> Checks:
    """The verdicts on all points, with the figures that any of them has."""
    found = [[entry.group.metrics.get(id) for entry in entries] for id, _ in COLUMNS]
    is_there = [any(map(_is_measured, column)) for column in found]
    heads = tuple(head for head, there in zip(COLUMNS, is_there, strict=True) if there)
    alike: dict[str, list[str]] = {}
    for (_, head), column, there in zip(COLUMNS, found, is_there, strict=True):
        if not there:
            alike.setdefault(display.absence(column[0]), []).append(head)
    absent = "; ".join(f"{', '.join(names)} ({why})" for why, names in alike.items())
    return Checks(heads, tuple(_checked(entry, heads) for entry in entries), absent)


def _is_measured(estimate: Estimate | None) -> bool:
    return estimate is not None and estimate.value is not None


def _checked(entry: Entry, heads: tuple[tuple[str, str], ...]) -> Checked:
    """The verdicts on one point, with a reason where it is not valid, or provisional."""
    group = entry.group
    has_client = any(run.sections.client for run, _ in entry.material)
    is_invalid = any(summary.verdict.label == "invalid" for _, summary in entry.material)
    client = "not recorded" if not has_client else "at its limit" if is_invalid else "good"
    load = "not judged" if group.label == "invalid" else fault_of(group) or label_words(group.label)
    return Checked(
        entry.name,
        entry.precision,
        client,
        load,
        group.ranked,
        tuple(_figure(group.metrics.get(id)) for id, _ in heads),
        why_not_valid(group) or "",
    )


def calibration(entries: tuple[Entry, ...]) -> str:
    """The client's calibration against a server that computes nothing, before the runs, in one sentence."""
    known = [measured for entry in entries for run, _ in entry.material if (measured := run.sections.calibration)]
    count = sum(len(entry.material) for entry in entries)
    if not known:
        return "The client was not calibrated before these runs, so its own share in their times is not known."
    ceiling, added, lag = ([float(getattr(each, key)) for each in known] for key in _KEYS)
    return (
        f"Before {len(known)} of {count} runs the client was calibrated against a server that computes nothing: "
        f"it takes {_range(ceiling, TOKENS_PER_S)}, adds {_range(added, SECONDS)} to a first token, and sends "
        f"{_range(lag, SECONDS)} late (p99). Above {100 * MOST_LOAD:.0f}% of what it takes a run is invalid."
    )


_KEYS = ("ceiling_tokens_per_s", "added_latency_s", "lag_s_p99")


def guards(entries: tuple[Entry, ...]) -> tuple[GuardRow, ...]:
    """The rulings of all guards, failures first; none where none were asked for."""
    rows = [
        GuardRow(
            entry.name,
            display.clean(guard.id, 40),
            display.clean(guard.after, 40),
            display.clean(guard.ruling, 40),
            clause_of(guard.reason),
        )
        for entry in entries
        for run, _ in entry.material
        for guard in run.sections.guards
    ]
    return tuple(sorted(rows, key=lambda row: row.ruling != "fail"))


def _figure(estimate: Estimate | None) -> tuple[str, str]:
    if estimate is None or estimate.value is None:
        return "not measured", display.absence(estimate)
    return display.value(estimate, 2), display.method(estimate)


def _range(values: list[float], unit: str) -> str:
    if not values:
        return "an amount that was not recorded"
    low, high = min(values), max(values)
    if unit == TOKENS_PER_S:
        return f"{digits(low)} tokens/s" if low == high else f"{digits(low)} to {digits(high)} tokens/s"
    return show(low, unit, 2) if low == high else f"{show(low, unit, 2)} to {show(high, unit, 2)}"


def validity(view: View, stack: Stack) -> tuple[str, ...]:
    """Warnings that a reader must see before any number: not valid, unfinished, not as declared, not recorded."""
    sentences = [said_of(line) for line in finding_lines([group for lens in view.lenses for group in lens.groups])]
    for lens in view.lenses:
        sentences += _served_validity(lens)
        for entry in lens.entries:
            reason = why_not_valid(entry.group)
            if reason is not None and load_of(entry.group) not in SERVED and not _only_found(entry):
                sentences.append(f"{lens.lens.capitalize()}, {entry.name} is {reason}.")
            for run, _ in entry.material:
                if run.error:
                    sentences.append(f"{display.clean(run.id, 80)} ended with an error: {display.clean(run.error)}")
    for who, verdict, missing in stack.completeness:
        if verdict == "vendor-number":
            sentences.append(
                f"{who}: too little is known of the executor; treat this like an unverified figure of a vendor."
            )
        elif missing:
            sentences.append(f"{who}: the executor is {verdict}; {len(missing)} facts are not known.")
    sentences += [f"{run} recorded no executor, so its numbers belong to no known stack." for run in stack.without]
    return tuple(dict.fromkeys(sentences))


def _only_found(entry: Entry) -> bool:
    """Whether it is not valid for what checks found alone, which has been said."""
    steady = all(run.state == "finished" and run.verdict.validity != "not valid" for run in entry.group.runs)
    return steady and entry.group.verdict.reason is None


def _served_validity(lens: LensView) -> list[str]:
    """One sentence a label on served points, of which a search has many beyond the limit; each reason stands below."""
    entries = lens.under(*SERVED).entries
    faults: dict[str, list[str]] = {}
    for entry in entries:
        if (fault := fault_of(entry.group)) and not _only_found(entry):
            faults.setdefault(fault, []).append(entry.name)
    sentences = [
        f"{lens.lens.capitalize()}, served: "
        f"{f'{len(names)} of {len(entries)} points' if len(entries) > 1 else 'the one point'} not valid, {fault}: "
        f"{display.join_names(names)}."
        for fault, names in faults.items()
    ]
    return sentences
