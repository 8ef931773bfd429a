"""Refuse what cannot be measured in slices, before anything is started."""

from __future__ import annotations

from twinlens.errors import BadInput
from twinlens.spec.study import RunSpec, Study
from twinlens.spec.workload.arrival import Closed, Lockstep, SingleStream
from twinlens.spec.workload.workload import CollectiveWorkload, InferenceWorkload, TrainingWorkload

MOST_POINTS = 16  # a round of more would be longer than most disturbances, and nothing would be paired


def refuse_unsliceable(study: Study) -> None:
    """Raises BadInput (TL202) where `protocol.pairing = "slices"` goes with something that cannot take turns."""
    if study.protocol.pairing == "slices" and (sentence := _problem(study)):
        raise BadInput(f'protocol.pairing = "slices": {sentence}', code="TL202")


def may_take_turns(spec: RunSpec) -> bool:
    """Whether a study of such runs could take turns, so that it may be advised."""
    workload = spec.workload
    if isinstance(workload, TrainingWorkload):
        return workload.until is None and workload.checkpoint is None and spec.protocol.kill is None
    if isinstance(workload, InferenceWorkload):
        is_closed = isinstance(workload.arrival, Lockstep | Closed | SingleStream)
        return is_closed and workload.sessions is None and spec.point.admission is None and spec.protocol.stall is None
    return False


def _problem(study: Study) -> str | None:
    protocol, workload = study.protocol, study.workload
    points = len(study.points())
    if study.search is not None:
        return "a search decides one run after another, so nothing can take turns; leave out one of the two"
    if points < 2:
        return "there is one operating point and nothing to pair it with; sweep something, such as sweep.precision"
    if points > MOST_POINTS:
        return f"{points} points are too many to take turns; sweep {MOST_POINTS} at most"
    if not protocol.isolate:
        return "points that take turns are processes of their own; set protocol.isolate = true"
    if any(run.executor.power_limit_w is not None for run in study.point_runs()):
        return "the power limit is one for all that run at a time; leave out executor.power_limit_w"
    if protocol.stall is not None:
        return "a stall stops one server, and it would not be its turn; leave out protocol.stall"
    if isinstance(workload, CollectiveWorkload):
        return "an exchange between ranks is measured alone; leave it out"
    if isinstance(workload, TrainingWorkload) and workload.until is not None:
        return "a race to a target loss is run alone; leave out workload.until"
    if isinstance(workload, InferenceWorkload) and (sentence := _load_problem(study, workload)):
        return sentence
    if protocol.slice_s > protocol.duration_s:
        return f"a slice of {protocol.slice_s:g} s is longer than protocol.duration_s = {protocol.duration_s:g}"
    return None


def _load_problem(study: Study, workload: InferenceWorkload) -> str | None:
    arrival = workload.arrival
    if isinstance(arrival, Lockstep):
        return None
    if not isinstance(arrival, Closed | SingleStream):
        return (
            "batches in lockstep and closed loops take turns; drained after each slice a server would never be as full "
            f'as {arrival.kind} arrivals make it: compare at a concurrency, workload.arrival.kind = "closed"'
        )
    if workload.sessions is not None:
        return "a conversation would wait in mid-sentence for its next turn; leave out workload.sessions"
    if any(run.point.admission is not None for run in study.point_runs()):
        return "an admission policy holds requests over from one slice to the next; leave out point.admission"
    if study.protocol.guards:
        return "guards ask when the load is over, which is others' turn; set protocol.guards = false"
    return None
