"""Remarks without which a figure must not be read: a ceiling, a FLOP convention, an SLO, the first error."""

from __future__ import annotations

from twinlens.record.executor.facts import Facts
from twinlens.record.run import Run
from twinlens.reporting.display import clean, value
from twinlens.reporting.text.search_table import limits_of
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.summary.group import Summary

_CEILINGS = {
    "mfu": "matrix rate measured here",
    "mfu_own_shapes": "matrix rate at its own shapes",
    "mbu": "read bandwidth measured here",
    "matvec_share": "matrix-vector rate measured here",
}


def remarks(run: Run, summary: Summary) -> dict[str, str]:
    """By the id of a metric, what stands behind it on its line."""
    by_metric = _of_ceilings(run.facts) if run.facts else {}
    workload = run.spec.workload
    if isinstance(workload, InferenceWorkload) and workload.slo is not None:
        by_metric["slo_attainment"] = f"must be {100 * workload.slo.quantile:g}%: {limits_of(workload.slo)}"
    if "offered_requests_per_s" in summary.metrics:
        by_metric["goodput_per_s"] = f"of {value(summary.metrics['offered_requests_per_s'])} that came"
    failed = summary.metrics.get("failed_share")
    if failed is not None and failed.value == 0 and failed.n:
        by_metric["failed_share"] = f"0 of {failed.n:,}"
    lost = next(
        (finding for finding in summary.findings if "reasons" in finding.numbers and "lost" in finding.numbers), None
    )
    if lost is not None:
        reason, count = next(iter(lost.numbers["reasons"]), ["", 0])
        often = f"{count} × " if count < lost.numbers["lost"] else ""
        by_metric["failed_share"] = f"{lost.numbers['lost']} of {lost.numbers['requests']}: {often}{clean(reason, 60)}"
    return by_metric


def _of_ceilings(facts: Facts) -> dict[str, str]:
    by_metric = {}
    for id, words in _CEILINGS.items():
        name = METRICS[id].ceiling
        if name in facts.ceilings and facts.ceilings[name].value is not None:
            by_metric[id] = f"of {value(facts.ceilings[name])}, {words}"
    model = facts.work.get("step_flop")
    if model is not None:
        convention = clean(model.method, 60).removeprefix("convention ")
        by_metric |= {id: f"{by_metric[id]}; FLOP: {convention}" for id in ("mfu", "mfu_own_shapes") if id in by_metric}
    return by_metric
