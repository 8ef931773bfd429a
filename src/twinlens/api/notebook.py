"""Values show themselves in a notebook: what shows which type, loaded when the first of them is shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from twinlens.api.documented import Shown
from twinlens.errors import BadInput
from twinlens.reporting.display import clean

if TYPE_CHECKING:
    from rich.console import RenderableType

    from twinlens.measurement.study import Outcome
    from twinlens.record.run import Run
    from twinlens.stats.summary.group import Summary

_MOST_FAULTS = 3
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
    return _runs((run,))


def _summary(summary: Summary) -> str:
    from twinlens.reporting.document.terminal import screen
    from twinlens.reporting.run.points import points_document
    from twinlens.stats.summary.group import group

    return _card(screen(points_document(group([summary]))))


def _runs(runs: Sequence[Run]) -> str:
    """What `show` prints of them, and which could not be read: one with damaged rows hides no other."""
    from twinlens.api.runs import show
    from twinlens.measurement.summary_file import summary_of
    from twinlens.record.run import Runs

    readable, faults = [], list(runs.faults) if isinstance(runs, Runs) else []
    for run in runs:
        try:
            summary_of(run)
            readable.append(run)
        except BadInput as error:
            faults.append(error)
    lost = "".join(f"Left out: {clean(fault, 400)}\n" for fault in faults[:_MOST_FAULTS])
    return Shown(f"{show(readable) if readable else ''}{lost}")._repr_html_()


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
    from twinlens.reporting.text.fitted import plain

    return Shown(plain(screen))._repr_html_()
