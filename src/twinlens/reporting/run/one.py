"""Document of one run: what ran, whether to believe it and why, its figures, what to try next, then every metric."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.record.finding import Finding, Validity
from twinlens.record.run import Run
from twinlens.reporting.display import MARKS, clean, value
from twinlens.reporting.document.block import (
    DETAIL,
    Block,
    Brief,
    Document,
    Gap,
    Line,
    More,
    Notes,
    Section,
    Tone,
    row,
)
from twinlens.reporting.run.figures import figures_of
from twinlens.reporting.run.grid import absent_line, metric_blocks
from twinlens.reporting.run.next_step import next_step
from twinlens.reporting.run.subject import subject, workload_words
from twinlens.reporting.text.fitted import CHARTS, EVERY
from twinlens.reporting.wording.finding import clause_of, label_words, sentence_of, short, verdict_word
from twinlens.reporting.wording.steadiness import could_hide
from twinlens.stats.summary.group import Summary
from twinlens.units import digits

TONES: dict[Validity, Tone] = {"valid": "good", "provisional": "part", "not valid": "doubt"}
_RANKS, _MORE = (3, 6), 8
"""Of findings, the gravest first, and of those that follow."""


def run_document(run: Run, summary: Summary) -> Document:
    """A first screen of its figures; the whole with every metric and its method."""
    return Document.of("Run", subject(run, summary), _blocks(run, summary), "--all")


def _blocks(run: Run, summary: Summary) -> Iterator[Block]:
    figures = figures_of(run, summary)
    yield Line(subject(run, summary), is_lead=True)
    yield Line(workload_words(run, summary))
    yield row(MARKS[summary.validity], [verdict_line(summary)], TONES[summary.validity])
    yield row("✗", [clean(summary.error, 400) if summary.error else ""], "doubt")
    for place, finding in enumerate(_findings_shown(summary)):
        yield finding_row(sentence_of(finding), finding in summary.disqualified, _RANKS, place)
    yield Gap(7)
    yield from figures.tables
    yield Gap(7)
    yield Brief(Notes(), Notes(folded=True), 4)
    yield absent_line(figures.absent, 5)
    yield row("client", [_client(summary)], "dim")
    yield row("next", [next_step(run, summary)], "strong")
    yield More(EVERY, "more", CHARTS)
    caption = f"{clean(summary.run)}: {summary.state}, {summary.rows:,} rows, {summary.lens} lens"
    yield Section("Every metric, and how it was computed", metric_blocks(summary.metrics, caption))
    told = [clean(note, 600) for note in summary.notes]
    told += [sentence_of(finding) for finding in summary.findings if finding.severity == "notes"]
    yield row("·", told, rank=DETAIL, apart=True)


def finding_row(words: str, is_grave: bool, ranks: tuple[int, ...], place: int) -> Block:
    """A finding, of which the first have ranks of their own."""
    return row("✗" if is_grave else "!", [words], "doubt", rank=ranks[place] if place < len(ranks) else _MORE)


def verdict_line(summary: Summary) -> str:
    """ "valid: steady after warm-up, from 0.7 to 59.9 s", "not valid: unsteady (row time grows by 7 %, …)"."""
    verdict, label = summary.verdict, label_words(summary.verdict.label)
    if summary.validity == "valid":
        unseen = verdict.least_visible_change
        change = f"; a change of less than {digits(100 * unseen, 2)} % would hardly show" if unseen else ""
        return f"valid: {label}, from {digits(verdict.begin_s)} to {digits(verdict.end_s)} s{change}"
    if summary.validity == "provisional":
        return f"provisional: {could_hide(verdict.least_visible_change)}"
    causes = [
        short(finding.code) for finding in summary.disqualified if finding.code != "client-limit" or label != "invalid"
    ]
    if summary.state != "finished":
        causes.insert(0, clean(summary.state))
    if not causes or verdict.validity == "not valid":
        causes.append(verdict_word(verdict.label))
    return f"not valid: {', '.join(dict.fromkeys(causes))} ({clause_of(verdict.reason)})"


def _findings_shown(summary: Summary) -> list[Finding]:
    """Findings that disqualify, then the cause, then other warnings; that no cause was found is an answer too."""
    shown = {"change-unseen"} if summary.ranked else set[str]()
    shown |= {"client-limit"} if summary.verdict.label == "invalid" else set[str]()
    known = [finding for finding in summary.findings if finding.code not in shown]
    causes = (
        []
        if summary.validity == "valid"
        else [finding for finding in known if finding.code in ("cause", "no-cause-found")]
    )
    grave = [finding for finding in known if finding.severity == "disqualifies"]
    return [*grave, *causes, *(finding for finding in known if finding.severity == "warns" and finding not in causes)]


def _client(summary: Summary) -> str:
    """Whether the client was good enough to be left out of the figures."""
    load, lag = (summary.metrics.get(name) for name in ("client_load", "schedule_lag_s_p99"))
    if load is None or load.value is None:
        return ""
    late = f", p99 of sending {value(lag)} late" if lag is not None and lag.value is not None else ""
    return f"at {value(load)} of what it can take{late}"
