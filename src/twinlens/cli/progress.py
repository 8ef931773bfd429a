"""Progress on stderr of verbs that measure, and the precisions that this machine could not run."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.api.measuring.progress import Progress
from twinlens.cli.screen import err
from twinlens.measurement.study import Outcome
from twinlens.reporting.view import refusals


def progress(quiet: bool) -> Progress | None:
    """How a verb shows how far it is: at once, and in a log as lines."""
    return None if quiet else Progress(after_s=0.0, lines=True)


def tell_refusals(outcomes: Iterable[Outcome]) -> None:
    """A sentence on stderr for each precision that could not be had here."""
    for sentence in (sentence for outcome in outcomes for sentence in refusals(outcome.runs)):
        err().print(sentence, soft_wrap=True)
