"""Values show themselves in a notebook: what shows which type, loaded when the first of them is shown."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from twinlens.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from twinlens.measurement.study import Outcome
    from twinlens.record.run import Run, Runs
    from twinlens.stats.summary.group import Summary

_MOST_RUNS = 20
_DOCUMENTS = {
    ("comparison.verdict", "Comparison"): ("comparing.comparison", "comparison_document"),
    ("comparison.ledger", "Ledger"): ("comparing.ledger", "ledger_document"),
    ("comparison.history", "History"): ("comparing.history", "history_document"),
    ("diagnosis.diagnosis", "Diagnosis"): ("judging.diagnosis", "diagnosis_document"),
    ("measurement.preflight.check", "Check"): ("judging.check", "check_document"),
    ("measurement.machine.probe", "Probe"): ("judging.probe", "probe_document"),
    ("pack.check", "Checked"): ("judging.evidence", "checked_document"),
    ("api.judging.claim", "ClaimResult"): ("judging.claim", "claim_document"),
    ("api.judging.answers", "Answers"): ("judging.answers", "answers_document"),
}
"""Types by module and name, and where the document of each is made."""


def register() -> None:
    """Tell IPython. Does nothing where no session runs, and loads nothing that is heavy.

    What a verb prints as a screen is shown as that text. What has no HTML here (studies, estimates) shows
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
        for (module, kind), (room, document) in _DOCUMENTS.items():
            html.for_type_by_name(f"twinlens.{module}", kind, _shows(room, document))


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


def _shows(room: str, name: str) -> Callable[[Any], str]:
    """Shows a value by the document of its subject, whose module is loaded then."""

    def shown(value: Any) -> str:
        from twinlens.reporting.document.terminal import screen

        return _card(screen(getattr(import_module(f"twinlens.reporting.{room}"), name)(*_parts(value))))

    return shown


def _parts(value: Any) -> tuple[Any, ...]:
    """What the document of its subject takes: several where it is of several, and a diagnosis with its head."""
    kind = type(value).__name__
    if kind in ("Comparison", "History"):
        return ((value,),)
    if kind == "Diagnosis":
        return value, value.run
    return (value.judged,) if kind == "ClaimResult" else (value.candidates,) if kind == "Answers" else (value,)


def _card(screen: RenderableType) -> str:
    """The text of a screen of 80 columns, escaped."""
    from twinlens.api.documented import Shown
    from twinlens.reporting.text.fitted import plain

    return Shown(plain(screen))._repr_html_()
