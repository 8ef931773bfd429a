"""The share of prompt tokens that a prefix cache could find, beside the share that the server reports."""

from __future__ import annotations

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.schedule.content.prefix import expected_hit_share
from twinlens.spec.workload.arrival import Lockstep, Trace
from twinlens.spec.workload.prompt import Prefix
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.units import RATIO

_METHOD = "expected of a cache that forgets nothing, from the prefixes of the workload and the requests of the run"


def planned_hits(run: Run) -> dict[str, Estimate]:
    """The planned ratio of a run whose requests share prefixes; empty for any other, sessions and traces too."""
    prefix = _prefix(run)
    count = len(run.requests) if prefix is not None else 0
    if prefix is None or not count:
        return {}
    assert isinstance(run.spec.workload, InferenceWorkload)
    share = expected_hit_share(prefix, run.spec.workload.input_tokens, count)
    return {"planned_hit_ratio": Estimate(share, RATIO, _METHOD, "modelled", n=count)}


def short_prefix(run: Run) -> tuple[Finding, ...]:
    """Whether a shared prefix is too short for the blocks in which this server caches."""
    prefix = _prefix(run)
    block = run.facts.executor.value("serving.kv_block_tokens") if run.facts else None
    if prefix is None or not isinstance(block, int) or prefix.tokens >= block:
        return ()
    return (Finding("prefix-below-block", "notes", "", {"prefix_tokens": prefix.tokens, "block_tokens": block}),)


def shared_share(run: Run) -> float | None:
    """The share of prompt tokens that the workload lets requests have in common; None for sessions and traces, which
    say it in no number."""
    workload = run.spec.workload
    if not isinstance(workload, InferenceWorkload) or workload.sessions is not None:
        return None
    if isinstance(workload.arrival, Lockstep | Trace):
        return None
    if workload.prefix is None or not len(run.requests):
        return 0.0
    return expected_hit_share(workload.prefix, workload.input_tokens, len(run.requests))


def _prefix(run: Run) -> Prefix | None:
    workload = run.spec.workload
    if not isinstance(workload, InferenceWorkload) or isinstance(workload.arrival, Lockstep | Trace):
        return None
    return workload.prefix if workload.sessions is None else None
