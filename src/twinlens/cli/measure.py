"""`twinlens measure`: run a study, say where it went, show what it came to."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from twinlens.cli.asked import Asked, study_of
from twinlens.cli.opening import opening
from twinlens.cli.screen import StudyProgress, err, planned_s, print_json, sentences
from twinlens.cli.show import show_runs, summaries_json
from twinlens.errors import ExecutorFailed, GateFailed
from twinlens.measurement.refused import refusals
from twinlens.measurement.search import measure_search, unfinished_search
from twinlens.measurement.study import Outcome, measure_study, unfinished_study
from twinlens.measurement.study_folder import is_held
from twinlens.measurement.summary_file import summary_of
from twinlens.record.search import read_search
from twinlens.record.store import end_study
from twinlens.reporting.finding_text import finding_text
from twinlens.reporting.text.paired_table import paired_of, write_paired
from twinlens.spec.study import Study
from twinlens.stats.finding.failures import is_hopeless
from twinlens.stats.summary.group import Summary, group


@dataclass(frozen=True, slots=True)
class Switches:
    """The yes-or-no options of `measure`."""

    json: bool
    quiet: bool
    fresh: bool
    gate: bool


def cluster(on: str | None) -> list[str]:
    """`--on` as the setting that it stands for."""
    return [] if on is None else [f"executor.options.on={json.dumps(on)}"]


def run(asked: Asked, out: Path, switches: Switches) -> None:
    with sentences():
        study, given_up = study_of(asked)
        if not switches.quiet:
            for line in filter(None, [*opening(study), given_up]):
                err().print(line, soft_wrap=True)
        outcome = measure_with_progress(study, out, switches.quiet, switches.fresh, shown=False)
        if switches.json:
            print_json(summaries_json(outcome.runs))
        else:
            show_runs(outcome.runs)
            err().print(f"\nruns: {outcome.folder}", soft_wrap=True)
        sys.stdout.flush()
        end_study(outcome.folder)
        fail_if_any(outcome)
        fail_if_hopeless(outcome)
        if switches.gate:
            fail_the_gate(outcome)


def measure_with_progress(study: Study, out: Path, quiet: bool, fresh: bool, *, shown: bool = True) -> Outcome:
    """Measure with a progress bar on stderr, saying first if an unfinished study is resumed.

    `shown` False: the caller says `end_study` when the outcome was shown; a kill before that measures nothing again.
    """
    is_search = study.search is not None
    unfinished = None if fresh else (unfinished_search if is_search else unfinished_study)(study, out)
    if unfinished and not quiet and not is_held(unfinished):
        err().print(f"resuming {unfinished} (--fresh starts over)", soft_wrap=True)
    with StudyProgress(study.name, planned_s(study), quiet) as progress:
        outcome = (measure_search if is_search else measure_study)(study, out, progress, fresh=fresh, shown=shown)
    for one in outcome.runs:
        summary_of(one)  # written beside each run while we are here
    if study.protocol.pairing == "slices":
        with suppress(OSError):  # derived: it can be made again
            write_paired(outcome.folder, paired_of(group(map(summary_of, outcome.runs)), outcome.runs))
    for sentence in refusals(outcome.runs):
        err().print(sentence, soft_wrap=True)
    return outcome


def fail_the_gate(outcome: Outcome) -> None:
    """Raises GateFailed naming the first run that is not ranked, or that has a finding which fails a gate.

    A try that failed and was made again is not held against the study. Of a search the runs beyond the limit are meant
    to fail: it fails itself where no rate met the SLO.
    """
    record = read_search(outcome.folder)
    for found in record.found if record else ():
        if found.low is None or found.outcome in ("invalid", "failed"):
            raise GateFailed(f"the search has no rate within the SLO: {found.reason}")
    failing = [] if record else [run for one in group(map(summary_of, outcome.runs)) for run in one.runs if _why(run)]
    if failing:
        more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
        raise GateFailed(f"{failing[0].run} {_why(failing[0])}{more}")


GATED = ("fidelity-failed", "target-missed")
"""Findings that keep no rate from being ranked and yet fail the gate: who asks for one asks for them."""


def _why(summary: Summary) -> str:
    """Why the gate refuses a run, in words; "" where it does not."""
    found = next((one for one in summary.findings if one in summary.disqualified or one.code in GATED), None)
    if summary.state != "finished":
        return f"is not finished: {summary.state}"
    if found is not None:
        return f"fails the gate: {finding_text(found).rstrip('.')} ({found.code})"
    if not summary.verdict.ranked:
        return f"is not steady: {summary.verdict.label} ({summary.verdict.reason})"
    return ""


def fail_if_any(outcome: Outcome) -> None:
    """Raises ExecutorFailed naming the runs that did not finish, after everything else was shown."""
    if outcome.failures:
        more = f" (and {len(outcome.failures) - 1} more)" if len(outcome.failures) > 1 else ""
        raise ExecutorFailed(f"a run failed: {outcome.failures[0]}{more}", code=outcome.failures[0].code)


def fail_if_hopeless(outcome: Outcome) -> None:
    """Raises ExecutorFailed (TL310) where nearly all requests of a run were lost, or its server was gone.

    A search goes beyond what a server can do, and says itself what it found.
    """
    if read_search(outcome.folder) is not None:
        return
    runs = [run for one in group(map(summary_of, outcome.runs)) for run in one.runs]
    lost = [(run, found) for run in runs for found in run.findings if is_hopeless(found)]
    if lost:
        more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        said = finding_text(lost[0][1])
        raise ExecutorFailed(
            f"{lost[0][0].run} measured next to nothing{more}: {said[:1].lower()}{said[1:]}", code="TL310"
        )
