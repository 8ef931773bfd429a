"""The pace of the rows that a run's verdict is made of, for the search for causes."""

from __future__ import annotations

import numpy as np

from twinlens.record.request import Requests
from twinlens.record.run import Run
from twinlens.record.step import Steps
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.finding.causes import Pace


def pace_of(run: Run) -> Pace | None:
    """The pace of a run's rows; None where too few ended well to have one."""
    if run.lens == "training":
        return _steps(run.steps)
    if run.lens == "collective":
        rows = run.exchanges
        return _pace(rows.begin_ns, rows.begin_ns + rows.slowest_ns, np.ones(len(rows)))
    workload = run.spec.workload
    assert isinstance(workload, InferenceWorkload)
    return _batches(run.requests) if workload.arrival.kind == "lockstep" else _served(run.requests)


def _steps(steps: Steps) -> Pace | None:
    steps_only = np.flatnonzero(steps.kind == "step")
    work = np.where(steps.tokens[steps_only] > 0, steps.tokens[steps_only], steps.samples[steps_only])
    return _pace(steps.begin_ns[steps_only], steps.end_ns[steps_only], work, steps.tag[steps_only] == "compile")


def _batches(requests: Requests) -> Pace | None:
    if not len(requests):
        return None
    _, heads = np.unique(requests.group, return_index=True)
    heads = heads[np.argsort(requests.end_ns[heads], kind="stable")]
    ends = requests.end_ns[heads]
    begins = np.concatenate([requests.intended_ns[heads[:1]], ends[:-1]])
    return _pace(begins, ends, requests.input_tokens[heads] + requests.output_tokens[heads])


def _served(requests: Requests) -> Pace | None:
    served = np.flatnonzero(requests.ok)
    return _pace(requests.intended_ns[served], requests.end_ns[served], requests.output_tokens[served])


def _pace(begin_ns: np.ndarray, end_ns: np.ndarray, work: np.ndarray, tagged: np.ndarray | None = None) -> Pace | None:
    long = (end_ns > begin_ns) & (work > 0)
    if long.sum() < 2:
        return None
    begin, end, done = (array[long].astype(np.float64) for array in (begin_ns, end_ns, work))
    tags = np.zeros(begin.size, bool) if tagged is None else np.asarray(tagged[long], bool)
    return Pace(begin, end, np.log(end - begin) - np.log(done), tags)
