"""The material of one report: runs put into groups, one lens at a time. Nothing here blends the two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.record.beside import SearchRecord
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.reporting.display import clean
from twinlens.reporting.load_kind import (
    SERVED,
    LoadKind,
    kind_of,
    load_of,
    place_of,
)
from twinlens.reporting.point_name import point_names, precision_of
from twinlens.reporting.text.equal_steps import at_equal_steps
from twinlens.reporting.wording.finding import clause_of, label_words, sentence_of, short
from twinlens.reporting.wording.steadiness import could_hide
from twinlens.spec.precision import PRECISIONS, Lens
from twinlens.stats.metrics.definition import HEADLINE
from twinlens.stats.summary.group import Group, Summary, group, once

LENSES: tuple[Lens, ...] = ("training", "inference", "collective")
Material = tuple[Run, Summary]


@dataclass(frozen=True, slots=True)
class Entry:
    """One operating point: its name for people, its group of repeats, and the runs behind it."""

    name: str
    precision: str
    group: Group
    material: tuple[Material, ...]

    @property
    def kind(self) -> str:
        """Its precision, and its admission policy where it has one: what a line of a chart stands for."""
        return kind_of(self.group)


@dataclass(frozen=True, slots=True)
class LensView:
    """One lens: its entries in order (model, machine, load, batch, then precision from wide to narrow, then rate)."""

    lens: Lens
    entries: tuple[Entry, ...]

    def under(self, *loads: LoadKind) -> LensView:
        """The same lens with only the entries whose requests came in one of these ways."""
        return LensView(self.lens, tuple(entry for entry in self.entries if load_of(entry.group) in loads))

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(entry.group for entry in self.entries)

    @property
    def parts(self) -> tuple[tuple[Entry, ...], ...]:
        """The entries that may stand in one table or chart: of one model on one machine."""
        parts: dict[tuple[str, str], list[Entry]] = {}
        for entry in self.entries:
            parts.setdefault((entry.group.model, entry.group.tag), []).append(entry)
        return tuple(map(tuple, parts.values()))


@dataclass(frozen=True, slots=True)
class View:
    """Everything one report shows. `lenses` holds those that were measured, training first."""

    title: str
    lenses: tuple[LensView, ...]
    notes: tuple[str, ...]
    searches: tuple[SearchRecord, ...] = ()

    @property
    def material(self) -> tuple[Material, ...]:
        return tuple(pair for lens in self.lenses for entry in lens.entries for pair in entry.material)

    def groups(self, lens: Lens) -> tuple[Group, ...]:
        """The groups of one lens; none where it was not measured."""
        return next((view.groups for view in self.lenses if view.lens == lens), ())


def view(
    material: Sequence[Material],
    title: str | None = None,
    searches: Sequence[SearchRecord] = (),
    left_out: Sequence[str] = (),
) -> View:
    """Put runs into lenses and groups, beside their searches. Raises ValueError when there is no run at all.

    `left_out`: sentences on runs that could not be read.
    """
    if not material:
        raise ValueError("a report needs at least one run")
    material, again = each_once(material)
    measured, absent = those_measured(material)
    material = at_equal_steps(measured)
    groups = group(summary for _, summary in material)
    by_summary = {id(summary): (run, summary) for run, summary in material}
    lenses = tuple(
        _lens(lens, mine, by_summary) for lens in LENSES if (mine := [item for item in groups if item.lens == lens])
    )
    notes = [clean(note, 600) for _, summary in material for note in summary.notes]
    findings = [item for _, summary in material for item in summary.findings if item.severity == "notes"]
    names = list(dict.fromkeys(run.spec.name for run, _ in material))
    return View(
        title=clean(title or _listed(names)),
        lenses=lenses,
        notes=tuple(
            dict.fromkeys(
                (
                    *(clean(item, 600) for item in (*left_out, *absent)),
                    *given_twice(again),
                    *notes,
                    *_once(findings),
                )
            )
        ),
        searches=tuple(searches),
    )


def each_once(material: Iterable[Material]) -> tuple[tuple[Material, ...], tuple[str, ...]]:
    """Each run once with its summary, and the ids of those that were given more than once."""
    pairs = tuple(material)
    kept, again = once(summary for _, summary in pairs)
    wanted = set(map(id, kept))
    return tuple(pair for pair in pairs if id(pair[1]) in wanted), again


def those_measured(material: Sequence[Material]) -> tuple[tuple[Material, ...], list[str]]:
    """Runs that were not refused, and a sentence for each reason why others were; all, where none was measured."""
    kept = tuple(pair for pair in material if not pair[0].sections.refused)
    return (kept, refusals([run for run, _ in material])) if kept else (tuple(material), [])


def refusals(runs: Sequence[Run]) -> list[str]:
    """Sentences on what was not measured and why, equal ones once."""
    return list(dict.fromkeys(f"not measured: {run.error}" for run in runs if run.sections.refused))


def _listed(names: Sequence[str]) -> str:
    """ "a, b and c": every study of a report stands in its title."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def given_twice(ids: Sequence[str]) -> list[str]:
    """A sentence on runs that were given more than once; none where none were."""
    return [sentence_of(Finding("given-twice", "notes", "", {"runs": len(ids)}))] if ids else []


def _once(notes: Iterable[Finding]) -> list[str]:
    """A sentence for each code and subject; where runs differ in the numbers, those of the first, and how many do."""
    alike: dict[tuple[str, str], list[Finding]] = {}
    for note in notes:
        alike.setdefault((note.code, note.subject), []).append(note)
    return [
        sentence_of(alike_notes[0])
        if all(note == alike_notes[0] for note in alike_notes)
        else f"{clause_of(alike_notes[0])} (the first of {len(alike_notes)} runs in which this was found)."
        for alike_notes in alike.values()
    ]


def in_order(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Groups by model, machine, load, ranks, batch, microbatch, size, then precision from wide to narrow, then switches
    (the default first), then rate."""
    models = list(dict.fromkeys(member.model for member in groups))
    regimes = list(PRECISIONS)

    def place(member: Group) -> tuple[Any, ...]:
        name = precision_of(member)
        rank = regimes.index(name) if name in regimes else len(regimes)
        point = member.point
        ranks, batch = member.runs[0].settings.get("ranks"), point.get("batch") or point.get("global_batch")
        sizes = ranks or 0, batch or 0, point.get("microbatch") or 0, point.get("size_bytes") or 0
        load = load_of(member)
        way = SERVED.index(load) + 1 if load in SERVED else 0
        switches = member.switches or {}
        kind = (rank, name, len(switches), str(switches))
        return models.index(member.model), member.tag, way, *sizes, *kind, place_of(member) if way else 0.0

    return tuple(sorted(groups, key=place))


def headline(member: Group | Summary) -> tuple[str, Estimate] | None:
    """The id and estimate of the sustained rate that stands first in this lens; None without one."""
    present = [(key, member.metrics[key]) for key in HEADLINE[member.lens] if key in member.metrics]
    return next((pair for pair in present if pair[1].value is not None), present[0] if present else None)


def why_not_valid(member: Group, word: Callable[[str], str] = label_words) -> str | None:
    """The state of a group with its reason, to stand behind "is"; None of a valid one. `word`: of a label."""
    if member.validity == "valid":
        return None
    if member.validity == "provisional":
        return f"provisional: {could_hide(member.verdict.hidden)}"
    reasons: dict[str, dict[str, str]] = {}  # by word: of each run the first sentence
    for run in member.runs:
        if run.state != "finished":
            reasons.setdefault(f"unfinished ({clean(run.state)})", {}).setdefault(run.run, "")
        elif run.verdict.validity == "not valid":
            reasons.setdefault(word(run.verdict.label), {}).setdefault(run.run, clause_of(run.verdict.reason))
        for finding in run.disqualified:
            if not (finding.code == "client-limit" and run.verdict.label == "invalid"):  # the verdict has said so
                reasons.setdefault(short(finding.code), {}).setdefault(run.run, clause_of(finding))
    told = [_reason(name, tuple(sentences.values()), len(member.runs)) for name, sentences in reasons.items()]
    if member.verdict.reason is not None:
        told.insert(0, f"{word(member.label)} in all runs together ({clause_of(member.verdict.reason)})")
    return f"not valid: {'; '.join(told) or clean(member.label)}"


def _reason(label: str, sentences: Sequence[str], runs: int) -> str:
    """ "slowdown in 2 of 3 runs (rows from 81 on take longer)": the reason is that of the first of them."""
    often = "" if runs == 1 else f" in {len(sentences)} of {runs} runs"
    return f"{label}{often} ({sentences[0]})" if sentences[0] and sentences[0] != label else f"{label}{often}"


def runs_word(count: int) -> str:
    """ "1 run", "3 runs"."""
    return f"{count} run" + ("" if count == 1 else "s")


def _lens(lens: Lens, groups: Sequence[Group], by_summary: dict[int, Material]) -> LensView:
    ordered = in_order(groups)
    entries = tuple(
        Entry(name, precision_of(member), member, tuple(by_summary[id(summary)] for summary in member.runs))
        for name, member in zip(point_names(ordered), ordered, strict=True)
    )
    return LensView(lens, entries)
