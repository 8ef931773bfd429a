"""The verbs that take a study: check and measure."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from twinlens.api.progress import Progress, watching
from twinlens.measurement.event import Watch
from twinlens.measurement.preflight.check import Check, checked_study
from twinlens.measurement.search import measure_search, unfinished_search
from twinlens.measurement.study import Outcome, measure_study, unfinished_study
from twinlens.measurement.study_folder import is_held
from twinlens.measurement.summary_file import store_summary
from twinlens.record.store import end_study
from twinlens.reporting.text.paired_table import paired_of, write_paired
from twinlens.spec.study import Study
from twinlens.stats.summary.group import group


def check(study: Study, *, refuse: bool = True) -> Check:
    """The runs of a study and the prediction for each operating point; touches nothing.

    Raises BadInput for what `measure` would refuse; `refuse` False leaves it in the answer's `refusal`, beside what
    theory says. Raises BadInput for a model that is not there in either case.
    """
    result = checked_study(study)
    if refuse and result.refusal is not None:
        raise result.refusal
    return result


def measure(
    study: Study,
    out: str | Path = "runs",
    *,
    watch: Watch | Progress | None = Progress(),
    fresh: bool = False,
    keep_open: bool = False,
) -> Outcome:
    """Run a study: every operating point, every repeat in a fresh process, resuming where it was interrupted.

    A study with a search looks for the highest rate within its SLO instead, and writes search.json. `watch`: how
    progress is shown, a function that is told each Event, or None for silence. `fresh`: start over instead of resuming.
    `keep_open`: the caller has yet to show the outcome and calls `end_study` then; killed before, nothing is measured
    twice. Raises BadInput for what cannot be run, Interrupted; runs that failed are named in the outcome.
    """
    folder = Path(out)
    find, go = (unfinished_study, measure_study) if study.search is None else (unfinished_search, measure_search)
    resumed = None if fresh else find(study, folder)
    with watching(watch, study, resumed if resumed and not is_held(resumed) else None) as told:
        outcome = go(study, folder, told, fresh=fresh, shown=False)
    summaries = [store_summary(run) for run in outcome.runs]
    if study.protocol.pairing == "slices":
        with suppress(OSError):  # derived: it can be made again
            write_paired(outcome.folder, paired_of(group(summaries), outcome.runs))
    if not keep_open:
        end_study(outcome.folder)
    return outcome
