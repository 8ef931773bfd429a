"""Checks on one run. A check is a pure function of what was `Seen` that gives findings; CHECKS lists them all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding, worst_first
from twinlens.record.run import Run
from twinlens.spec.protocol import Tolerance
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload
from twinlens.stats.client import ClientVerdict
from twinlens.stats.finding.causes import causes
from twinlens.stats.finding.failures import failures, not_streamed, optimisations
from twinlens.stats.finding.steadiness import bubble, change_unseen, disturbed, extended, machine, of_saves, row_spread
from twinlens.stats.metrics.definition import is_impossible
from twinlens.stats.metrics.energy import POWER_CAP, other_programs, throttled
from twinlens.stats.metrics.fidelity import Gate
from twinlens.stats.metrics.training import divergence, missed_target, target_nats
from twinlens.stats.paired.slice_rate import empty_slots
from twinlens.stats.row_kind import row_kind
from twinlens.stats.server.metrics import short_prefix
from twinlens.stats.serving.goodput import decided_by, slo_standing
from twinlens.stats.serving.looks import level_of
from twinlens.stats.serving.window import SERVING_NEAR
from twinlens.stats.steady.levels import SteadyRule
from twinlens.stats.summary.group import SIMULATED, Verdict
from twinlens.stats.summary.serving import is_served

CEILING_STEADY = 0.1
"""A ceiling that differs by more after a run has moved: on a quiet machine its repeats scatter by a few per cent."""

MEMORY_NEAR = 0.05
"""How far what a rank holds may be from theory's prediction: norms and step counters are left out there."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The input of a check: the run as recorded, its metrics, and the verdicts on steadiness, client and fidelity.

    `client` is None where none was recorded, `gate` where fidelity was not compared. `server`: what the server's own
    figures lack, and where they and the client's differ.
    """

    run: Run
    metrics: Mapping[str, Estimate]
    verdict: Verdict
    client: ClientVerdict | None = None
    gate: Gate | None = None
    server: tuple[Finding, ...] = ()


FindingCheck = Callable[[Seen], Iterable[Finding]]


def findings(seen: Seen) -> tuple[Finding, ...]:
    """All that all checks found, the gravest first."""
    return worst_first(finding for check in CHECKS for finding in check(seen))


def precision_differs(seen: Seen) -> Iterable[Finding]:
    """A tensor class that ran in another format than declared: the number has another precision's name."""
    for check in seen.run.facts.precision if seen.run.facts else ():
        if check.verdict == "differs":
            numbers = {"declared": check.declared, "observed": check.observed, "evidence": check.evidence}
            yield Finding("precision-differs", "disqualifies", check.tensor_class, numbers)


def guard_failed(seen: Seen) -> Iterable[Finding]:
    """A guard of accuracy that failed: the server did not do the work that was asked of it."""
    for guard in seen.run.sections.guards:
        if guard.ruling == "fail":
            numbers, reason = {"after": guard.after}, (guard.reason,)
            yield Finding("guard-failed", "disqualifies", guard.id, numbers, guard.evidence, because=reason)


def held_up(seen: Seen) -> Iterable[Finding]:
    """The causes of a run that was not shown to be steady. "No cause found" is an answer too."""
    if seen.verdict.validity == "valid" or not seen.run.table.num_rows:
        return
    pace = row_kind(seen.run).pace(seen.run)
    suspects = causes(pace, seen.run.telemetry) if pace else ()
    for suspect in suspects:
        yield Finding("cause", "warns", suspect.source, {key: getattr(suspect, key) for key in _OF_A_CAUSE})
    if not suspects:
        yield Finding("no-cause-found", "notes", "", {"samples": seen.run.telemetry.num_rows})


_OF_A_CAUSE = ("how", "slow", "calm", "share", "correlation", "external")


def shared_machine(seen: Seen) -> Iterable[Finding]:
    """Activity that lowered a figure evenly, so that the run was steady all the same: a valid number of a shared
    machine."""
    telemetry, begin_s, end_s = seen.run.telemetry, seen.verdict.begin_s, seen.verdict.end_s
    share = other_programs(telemetry, begin_s, end_s)
    if share is not None and seen.verdict.validity == "valid":
        yield Finding("shared-machine", "warns", "", {"share": share})
    for reason, of_window in throttled(telemetry, begin_s, end_s):
        # A busy board stands at its power limit: that is the rate which it sustains, and nothing is wrong with it.
        yield Finding("throttled", "notes" if reason == POWER_CAP else "warns", reason, {"share": of_window})


def retaken(seen: Seen) -> Iterable[Finding]:
    """A run that was taken again: the attempts before it were disturbed by others, and are kept."""
    attempt = seen.run.sections.attempt
    if attempt > 1:
        yield Finding("retaken", "warns", "", {"attempt": attempt})


def steps_skipped(seen: Seen) -> Iterable[Finding]:
    """Steps whose gradients overflowed in fp16: the loss scale was lowered and the weights stayed as they were."""
    if seen.run.lens == "training" and (count := int((seen.run.steps.tag == "skipped").sum())):
        steps = int((seen.run.steps.kind == "step").sum())
        yield Finding("steps-skipped", "warns", "", {"skipped": count, "steps": steps})


def saves(seen: Seen) -> Iterable[Finding]:
    """Saves, and a rank that was killed: whether training went on as if nothing had been."""
    return of_saves(seen.run, seen.verdict) if seen.run.lens == "training" else ()


def memory_of_ranks(seen: Seen) -> Iterable[Finding]:
    """What the fullest rank, or the training of an adapter, holds beside what theory predicts for it."""
    known = seen.run.facts.memory if seen.run.facts else {}
    each = {}
    for name, predicted in known.items():
        counted = known.get(name.removeprefix("predicted_"))
        if name.startswith("predicted_") and counted is not None and counted.value is not None and predicted.value:
            each[name.removeprefix("predicted_").removesuffix("_bytes")] = (counted.value, predicted.value)
    if not each:
        return
    worst = max(each, key=lambda name: abs(each[name][0] / each[name][1] - 1))
    counted_bytes, predicted_bytes = each[worst]
    off = abs(counted_bytes / predicted_bytes - 1)
    numbers = {
        "counted_bytes": counted_bytes, "predicted_bytes": predicted_bytes, "off": off, "limit": MEMORY_NEAR,
        "of_adapter": "predicted_adapter_bytes" in known, "categories": sorted(each),
    }  # fmt: skip
    if off > MEMORY_NEAR:
        yield Finding("memory-differs", "warns", worst, numbers)
    else:
        yield Finding("memory-as-predicted", "notes", worst, numbers)


def pipeline_bubble(seen: Seen) -> Iterable[Finding]:
    """The idle share of a pipeline's ranks, beside what theory predicts for its schedule."""
    facts = seen.run.facts
    predicted = facts.work.get("predicted_bubble_share") if facts else None
    if facts and predicted is not None and seen.run.table.num_rows:
        many = facts.executor.value("training.accumulation_steps")
        found = bubble(seen.run.table, predicted, seen.verdict.begin_s, seen.verdict.end_s, many)
        yield from () if found is None else (found,)


def without_gradient(seen: Seen) -> Iterable[Finding]:
    """Steps of somebody's own loop in which the model also ran without gradients."""
    if seen.run.lens == "training" and (count := int((seen.run.steps.tag == "no-grad").sum())):
        steps = int((seen.run.steps.kind == "step").sum())
        yield Finding("passes-without-gradient", "notes", "", {"with": count, "steps": steps})


def lost_requests(seen: Seen) -> Iterable[Finding]:
    """Requests that failed, were refused or cut off, with their reasons; and a server that was gone."""
    return failures(seen.run)


def client_limit(seen: Seen) -> Iterable[Finding]:
    """A client that was not good enough for what it measured."""
    if seen.client is not None and not seen.client.valid:
        yield seen.client.limit
    yield from seen.client.notes if seen.client is not None else ()


def slo(seen: Seen) -> Iterable[Finding]:
    """An SLO that was missed beyond doubt, or could not be decided: the limit that fewest requests were within.

    `more`: how many more requests of the same kind would decide it; None where the share is the quantile itself.
    """
    workload, shares = seen.run.spec.workload, seen.metrics
    if not isinstance(workload, InferenceWorkload) or workload.slo is None:
        return
    within = {name: share for name in workload.slo.limits() if (share := shares.get(f"{name}_within")) is not None}
    known = {name: share for name, share in within.items() if share.value is not None}
    if not known:
        return
    name, worst = min(known.items(), key=lambda pair: pair[1].value or 0.0)
    numbers = {
        "limit_s": workload.slo.limits()[name], "quantile": workload.slo.quantile, "share": worst.value,
        "low": worst.low, "high": worst.high, "requests": worst.n,
    }  # fmt: skip
    ruling, evidence = (
        slo_standing(dict(shares), workload.slo, level_of(seen.run.spec.protocol)),
        {f"{name}_within": worst},
    )
    if ruling == "fail":
        yield Finding("slo-missed", "disqualifies", name, numbers, evidence)
    elif ruling == "inconclusive":
        yield Finding("slo-unclear", "warns", name, numbers | {"more": _more(worst, workload.slo.quantile)}, evidence)


def _more(share: Estimate, quantile: float) -> int | None:
    """How many more requests would decide whether a share reaches a quantile, if it stayed as it is.

    `share.n` counts independent requests; those that were sent are more, so this is the least.
    """
    independent = decided_by(share.value or 0.0, quantile)
    return None if independent is None else max(1, math.ceil(independent - (share.n or 0)))


def streaming(seen: Seen) -> Iterable[Finding]:
    """Answers that came whole at one moment: no time between tokens, and no ruling on an SLO that limits one."""
    workload = seen.run.spec.workload
    if is_served(seen.run) and isinstance(workload, InferenceWorkload):
        yield from not_streamed(seen.run.requests, workload.slo)


def no_go(seen: Seen) -> Iterable[Finding]:
    """A fidelity outside its tolerance. It disqualifies where the spec asks for a tolerance of its own."""
    if seen.gate is not None and not seen.gate.go:
        asked = seen.run.spec.protocol.tolerance != Tolerance()
        yield Finding("fidelity-failed", "disqualifies" if asked else "warns", because=seen.gate.broken)


def diverged(seen: Seen) -> Iterable[Finding]:
    """A loss that is no number: what the steps compute from there on is no training, however fast."""
    if seen.run.lens == "training" and seen.run.table.num_rows:
        lost = divergence(seen.run.steps)
        if lost is not None:
            yield Finding("diverged", "disqualifies", "loss", lost)


def target_missed(seen: Seen) -> Iterable[Finding]:
    """A training run that asked for a loss and did not reach it. Its rate is as good as any: it warns."""
    workload, facts = seen.run.spec.workload, seen.run.facts
    if not isinstance(workload, TrainingWorkload) or not seen.run.table.num_rows:
        return
    target = target_nats(workload, facts.entropy_rate_nats if facts else None)
    missed = None if target is None else missed_target(seen.run.steps, target)
    if missed:
        yield Finding("target-missed", "warns", "time_to_target_s", missed)


def impossible_share(seen: Seen) -> Iterable[Finding]:
    """A share of a ceiling above 1, so that nobody has to notice it unaided."""
    for id, share in seen.metrics.items():
        if is_impossible(id, share):
            yield Finding("impossible-share", "warns", id, {"share": share.value}, {id: share})


def ceiling_moved(seen: Seen) -> Iterable[Finding]:
    """A ceiling that was another one after the run: shares of it are uncertain by as much."""
    for name, after in seen.run.sections.ceilings_after.items():
        before = seen.run.facts.ceilings.get(name) if seen.run.facts else None
        if before is None or not before.value or not after.value:
            continue
        change = after.value / before.value - 1
        if abs(change) > CEILING_STEADY:
            numbers = {"before": before.value, "after": after.value, "change": change, "unit": after.unit}
            yield Finding("ceiling-moved", "warns", name, numbers, {name: after})


def was_steady(seen: Seen) -> Iterable[Finding]:
    """Disturbances of the steady window, changes that could be unseen, and what else moved meanwhile."""
    yield from disturbed(seen.verdict)
    yield from change_unseen(seen.verdict, SERVING_NEAR if is_served(seen.run) else SteadyRule().near)
    yield from row_spread(seen.verdict)
    yield from extended(seen.run.sections.extended, seen.run.spec.protocol.duration_s, seen.verdict)
    yield from machine(seen.verdict, seen.run.telemetry)


def in_slices(seen: Seen) -> Iterable[Finding]:
    """The loss of a closed loop's rate where it was played in slices."""
    workload = seen.run.spec.workload
    if is_served(seen.run) and isinstance(workload, InferenceWorkload):
        yield from empty_slots(seen.run.requests, seen.run.spec.point.concurrency or 1)


def said_by_server(seen: Seen) -> Iterable[Finding]:
    """Gaps in the server's own figures, where they and the client's differ, and a prefix that it cannot reuse."""
    yield from seen.server
    yield from short_prefix(seen.run)


def flattered(seen: Seen) -> Iterable[Finding]:
    """Optimisations of a server that the weights or the load make look better, or worse, than they would be."""
    return optimisations(seen.run, seen.metrics)


def left_out(seen: Seen) -> Iterable[Finding]:
    """Rows of a trace that asked for no answer or had no prompt: nothing could be sent for them."""
    if count := seen.run.sections.unusable_trace_rows:
        yield Finding("trace-rows-left-out", "notes", "", {"rows": count})


def said_by_executor(seen: Seen) -> Iterable[Finding]:
    """Findings of the executor on itself."""
    return seen.run.facts.findings if seen.run.facts else ()


def simulated(seen: Seen) -> Iterable[Finding]:
    """Nothing was measured, which everybody has to read beside the figures."""
    if (known := seen.run.sections.simulated) is not None:
        numbers = {"origin": known.origin, "source": known.source or None, "rules_from": known.rules_from}
        yield Finding(SIMULATED, "warns", "", numbers | {"not_modelled": known.not_modelled})
        if known.horizon_s is not None:
            yield Finding("simulation-stopped", "disqualifies", "", {"horizon_s": known.horizon_s})


CHECKS: tuple[FindingCheck, ...] = (
    simulated,
    lost_requests,
    guard_failed,
    precision_differs,
    client_limit,
    slo,
    streaming,
    no_go,
    diverged,
    target_missed,
    impossible_share,
    ceiling_moved,
    was_steady,
    in_slices,
    held_up,
    shared_machine,
    retaken,
    steps_skipped,
    saves,
    memory_of_ranks,
    pipeline_bubble,
    without_gradient,
    said_by_server,
    flattered,
    left_out,
    said_by_executor,
)
"""In the order in which people read them. A new check is a line here."""
