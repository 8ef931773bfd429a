"""The expected duration of a study."""

from __future__ import annotations

from twinlens.spec.study import Study

_OVERHEAD_S = 9.0  # what a run costs beside its rows, until this study's own runs have told


def expected_s(study: Study) -> float:
    """Seconds: the durations of its runs and what each costs beside them; of a search, the most it may take."""
    if study.search is None:
        return float(sum(run.protocol.duration_s + _OVERHEAD_S for run in study.runs()))
    each_s = study.protocol.duration_s + _OVERHEAD_S
    most_s = study.search.most_points * each_s
    return float(len(study.points()) * min(most_s, study.search.budget_s or most_s))
