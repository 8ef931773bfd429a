"""Build the schedule that a run asks for, and the plan that is stored beside it."""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.schedule.admission import BatchAdmission, Continuous
from twinlens.schedule.closed_loop import ClosedLoop
from twinlens.schedule.conversation import Conversation, endless_sessions, session_requests
from twinlens.schedule.draw import endless_requests, single_requests
from twinlens.schedule.open_loop import OpenLoop, arrival_times_ns
from twinlens.schedule.plan import Plan
from twinlens.schedule.request import Schedule
from twinlens.schedule.trace_file import read_trace
from twinlens.spec.consistency import refuse_unpaired
from twinlens.spec.point import Point
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.arrival import Closed, SingleStream, Trace
from twinlens.spec.workload.workload import InferenceWorkload


@dataclass(frozen=True, slots=True)
class Load:
    """The load to play. `plan` is None for a closed loop, whose times nobody knows before.

    `unusable`: rows of a trace that cannot be asked for.
    """

    schedule: Schedule
    plan: Plan | None
    unusable: int = 0


def planned_load(spec: RunSpec, duration_s: float | None = None, *, salt: int = 0) -> Load:
    """The schedule of a run that is not in lockstep, over `duration_s` (None: the protocol's).

    Lengths and arrivals follow `spec.seed` alone, so all points of a repeat meet the same traffic; prompts are new for
    every point, repeat and `salt`. Raises BadInput: TL202 where arrival and point do not go together, TL213 where a
    trace cannot be read.
    """
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    refuse_unpaired(workload, spec.point)
    seconds = spec.protocol.duration_s if duration_s is None else duration_s
    load = _closed(spec, workload, seconds, salt) or _open(spec, workload, seconds, salt)
    return Load(admitted(load.schedule, spec.point), load.plan, load.unusable)


def admitted(schedule: Schedule, point: Point) -> Schedule:
    """The schedule behind the point's admission policy, if it has one."""
    if point.admission is None:
        return schedule
    if point.admission == "continuous":
        return Continuous(schedule, point.in_flight)
    timeout_ns = None if point.timeout_s is None else round(point.timeout_s * 1e9)
    return BatchAdmission(schedule, point.batch, timeout_ns)


def _closed(spec: RunSpec, workload: InferenceWorkload, duration_s: float, salt: int) -> Load | None:
    if not isinstance(workload.arrival, Closed | SingleStream):
        return None
    concurrency = 1 if isinstance(workload.arrival, SingleStream) else spec.point.concurrency or 1
    until_ns, prompt_seed = round(duration_s * 1e9), spec.prompt_seed(salt)
    if workload.sessions is not None:
        sessions = endless_sessions(workload, seed=spec.seed, prompt_seed=prompt_seed)
        return Load(Conversation(sessions, concurrency, until_ns=until_ns), None)
    upcoming = endless_requests(workload, seed=spec.seed, prompt_seed=prompt_seed)
    return Load(ClosedLoop(concurrency, upcoming, until_ns=until_ns, min_requests=spec.protocol.min_rows), None)


def _open(spec: RunSpec, workload: InferenceWorkload, duration_s: float, salt: int) -> Load:
    prompt_seed = spec.prompt_seed(salt)
    if isinstance(workload.arrival, Trace):
        recorded = read_trace(workload.arrival, duration_s, prompt_seed=prompt_seed)
        return Load(OpenLoop(recorded.plan), recorded.plan, recorded.unusable)
    times_ns = arrival_times_ns(workload.arrival, spec.point.rate_per_s, duration_s, spec.seed)
    if workload.sessions is None:
        plan = single_requests(workload, times_ns, seed=spec.seed, prompt_seed=prompt_seed)
        return Load(OpenLoop(plan), plan)
    plan = session_requests(workload, times_ns, seed=spec.seed, prompt_seed=prompt_seed)
    return Load(Conversation([plan], until_ns=round(duration_s * 1e9)), plan)
