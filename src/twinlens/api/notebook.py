"""Values show themselves in a notebook: what shows which type, loaded when the first of them is shown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from twinlens.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from twinlens.api.claim import ClaimResult
    from twinlens.comparison.ledger import Ledger
    from twinlens.comparison.verdict import Comparison
    from twinlens.diagnosis.diagnosis import Diagnosis
    from twinlens.measurement.study import Outcome
    from twinlens.record.run import Run, Runs
    from twinlens.stats.summary.group import Summary

_MOST_RUNS = 20


def register() -> None:
    """Tell IPython. Does nothing where no session runs, and loads nothing that is heavy.

    What a verb prints as a screen is shown as that text. What has no HTML here (studies, checks, estimates) shows
    itself as text, in a line or two.
    """
    ipython: Any = sys.modules.get("IPython")
    session = ipython.get_ipython() if ipython is not None else None
    if session is not None:
        html = session.display_formatter.formatters["text/html"]
        html.for_type_by_name("twinlens.record.run", "Run", _run)
        html.for_type_by_name("twinlens.record.run", "Runs", _runs)
        html.for_type_by_name("twinlens.measurement.study", "Outcome", _outcome)
        html.for_type_by_name("twinlens.stats.summary.group", "Summary", _summary)
        html.for_type_by_name("twinlens.comparison.verdict", "Comparison", _comparison)
        html.for_type_by_name("twinlens.diagnosis.diagnosis", "Diagnosis", _diagnosis)
        html.for_type_by_name("twinlens.api.claim", "ClaimResult", _claim)
        html.for_type_by_name("twinlens.comparison.ledger", "Ledger", _ledger)


def _run(run: Run) -> str:
    from twinlens.measurement.summary_file import summary_of

    return _summary(summary_of(run))


def _summary(summary: Summary) -> str:
    from twinlens.reporting.notebook import summary_html

    return summary_html(summary)


def _runs(runs: Runs) -> str:
    from twinlens.measurement.summary_file import summary_of
    from twinlens.reporting.notebook import runs_html

    summaries, faults = [], [*runs.faults]
    for run in runs[:_MOST_RUNS]:
        try:
            summaries.append(summary_of(run))
        except BadInput as error:  # one with damaged rows hides no other
            faults.append(error)
    return runs_html(summaries, len(runs), faults)


def _outcome(outcome: Outcome) -> str:
    return _runs(outcome.runs)


def _comparison(comparison: Comparison) -> str:
    from twinlens.reporting.comparing.comparison import comparison_document
    from twinlens.reporting.document.terminal import screen

    return _card(screen(comparison_document((comparison,))))


def _diagnosis(diagnosis: Diagnosis) -> str:
    from twinlens.reporting.document.terminal import screen
    from twinlens.reporting.judging.diagnosis import diagnosis_document

    return _card(screen(diagnosis_document(diagnosis, diagnosis.run)))


def _claim(found: ClaimResult) -> str:
    from twinlens.reporting.document.terminal import screen
    from twinlens.reporting.judging.claim import claim_document

    return _card(screen(claim_document(found.judged)))


def _ledger(ledger: Ledger) -> str:
    from twinlens.reporting.comparing.ledger import ledger_document
    from twinlens.reporting.document.terminal import screen

    return _card(screen(ledger_document(ledger)))


def _card(screen: RenderableType) -> str:
    """The text of a screen of 80 columns, escaped."""
    from twinlens.api.documented import Shown
    from twinlens.reporting.text.fitted import plain

    return Shown(plain(screen))._repr_html_()
