"""One run on one screen: what ran, whether to believe it and why, its figures, what to try next."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.reporting.display import MARKS, STYLES, clean, value
from twinlens.reporting.screen.figures import figures_of
from twinlens.reporting.screen.next_step import next_step
from twinlens.reporting.screen.subject import subject
from twinlens.reporting.screen.workload import workload_words
from twinlens.reporting.text.column import not_measured
from twinlens.reporting.text.fitted import MORE, Fitted, shortest
from twinlens.reporting.text.footnote import hanging, left_out
from twinlens.reporting.view import could_hide
from twinlens.reporting.wording.finding import clause_of, label_words, sentence_of, short, verdict_word
from twinlens.stats.summary.group import Summary
from twinlens.units import digits

_TERSE = ((4, 1, 1, 1), (2, 1, 1, 1), (2, 0, 1, 1), (1, 0, 1, 1), (1, 0, 1, 0), (1, 0, 0, 0), (0, 0, 0, 0))


def run_screen(run: Run, summary: Summary) -> RenderableType:
    """At most 24 lines at 80 columns; longer, and whole, on a narrower terminal."""
    return Fitted(lambda width: shortest(_choices(run, summary, width), width))


def _choices(run: Run, summary: Summary, width: int) -> Iterator[RenderableType]:
    """Ever shorter: fewer findings, no empty lines, no reasons, the sentences of marks in one line."""
    figures = figures_of(run, summary)
    for findings, air, marks, reasons in _TERSE:
        yield Stack(
            hanging("", subject(run, summary), "bold"),
            hanging("", workload_words(run, summary), ""),
            *_verdict(summary, findings),
            *[Text("")] * air,
            figures.shown(width),
            *[Text("")] * air,
            *(figures.notes.listed() if marks else figures.notes.folded()),
            *not_measured([(label, why if reasons else "--all says why") for label, why in figures.absent]),
            *_client(summary),
            hanging("next   ", next_step(run, summary), "bold"),
            hanging("more   ", MORE, "dim"),
        )


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


def _verdict(summary: Summary, most: int) -> list[RenderableType]:
    state = summary.validity
    lines = [hanging(f"{MARKS[state]} ", verdict_line(summary), STYLES[state])]
    if summary.error:
        lines.append(hanging("✗ ", clean(summary.error, 400), "yellow"))
    told = _findings_shown(summary)
    lines += [
        hanging("✗ " if finding in summary.disqualified else "! ", sentence_of(finding), "yellow")
        for finding in told[:most]
    ]
    return [*lines, *left_out(len(told) - most, "finding")]


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


def _client(summary: Summary) -> list[RenderableType]:
    """Whether the client was good enough to be left out of the figures."""
    load, lag = (summary.metrics.get(name) for name in ("client_load", "schedule_lag_s_p99"))
    if load is None or load.value is None:
        return []
    late = f", p99 of sending {value(lag)} late" if lag is not None and lag.value is not None else ""
    return [hanging("client ", f"at {value(load)} of what it can take{late}", "dim")]
