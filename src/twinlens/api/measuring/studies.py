"""The verbs that take a study: check and measure."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from twinlens.api.measuring.progress import Progress, watching
from twinlens.api.measuring.spec_asked import study_of
from twinlens.api.question import asks
from twinlens.api.questions import CHECK, MEASURE, Measure
from twinlens.api.questions import Check as CheckAsked
from twinlens.measurement.event import Watch
from twinlens.measurement.preflight.check import Check, checked_study
from twinlens.measurement.search import measure_search, unfinished_search
from twinlens.measurement.study import Outcome, measure_study, unfinished_study
from twinlens.measurement.study_folder import is_held
from twinlens.measurement.summary_file import store_summary
from twinlens.record.store import end_study
from twinlens.reporting.comparing.paired import paired_of, write_paired
from twinlens.spec.study import Study
from twinlens.spec.tune import refuse_tuning
from twinlens.stats.summary.group import group
from twinlens.tuning.bound import bound_of

if TYPE_CHECKING:
    from twinlens.api.words import CheckWords, MeasureWords


@asks(CHECK)
def check(study: Study | str | Path | None = None, *, refuse: bool = True, **words: Unpack[CheckWords]) -> Check:
    """The runs of a study and the prediction for each operating point; touches nothing.

    `study`: a study, or what `measure` takes for one; `at` and `set_` change a spec.

    Raises BadInput for what `measure` would refuse; `refuse` False leaves it in the answer's `refusal`, beside what
    theory says. Raises BadInput for a model that is not there in either case.
    """
    asked = CheckAsked.read(CHECK.name, {"spec": study.name if isinstance(study, Study) else study, **words})
    chosen, _ = study_of(study if isinstance(study, Study) else asked.spec, asked)
    if chosen.tune is not None:
        bound_of(chosen)
    result = checked_study(chosen)
    if refuse and result.refusal is not None:
        raise result.refusal
    return result


@asks(MEASURE)
def measure(
    study: Study | str | Path | None = None,
    out: str | Path = "runs",
    *,
    watch: Watch | Progress | None = Progress(),
    keep_open: bool = False,
    **words: Unpack[MeasureWords],
) -> Outcome:
    """Run a study: every operating point, every repeat in a fresh process, resuming where it was interrupted.

    `study`: a study, a spec file, an example by its name, the folder of a run, or the address of a server; as on the
    command line, `at="rate_per_s=1,2"` sweeps and `set_="protocol.repeats=3"` changes it. A study with a search looks
    for the highest rate within its SLO instead, and writes search.json. `watch`: how progress is shown, a function that
    is told each Event, or None for silence. `fresh`: start over instead of resuming. `keep_open`: the caller has yet to
    show the outcome and calls `end_study` then; killed before, nothing is measured twice. Raises BadInput for what
    cannot be run, Interrupted; runs that failed are named in the outcome.
    """
    asked = Measure.read(MEASURE.name, {"out": out, **words})
    chosen, _ = study_of(study, asked)
    refuse_tuning(chosen.name, chosen.tune)
    folder, fresh = asked.out, asked.fresh
    find, go = (unfinished_study, measure_study) if chosen.search is None else (unfinished_search, measure_search)
    resumed = None if fresh else find(chosen, folder)
    with watching(watch, chosen, resumed if resumed and not is_held(resumed) else None) as told:
        outcome = go(chosen, folder, told, fresh=fresh, shown=False)
    summaries = [store_summary(run) for run in outcome.runs]
    if chosen.protocol.pairing == "slices":
        with suppress(OSError):  # derived: it can be made again
            write_paired(outcome.folder, paired_of(group(summaries), outcome.runs))
    if not keep_open:
        end_study(outcome.folder)
    return outcome
