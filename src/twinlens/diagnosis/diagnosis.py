"""A diagnosis of one run: the verdict, the parts of its time, the four counters, and findings with their headroom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twinlens.diagnosis.counter import Counter, counters_of, with_instruments
from twinlens.diagnosis.evidence import Evidence, Rule, evidence_of
from twinlens.diagnosis.phase import Partition, known
from twinlens.diagnosis.probe_ceilings import LINK
from twinlens.diagnosis.quantise import Siblings, quantise, region
from twinlens.diagnosis.rule import (
    batch_below_ridge,
    cache_full,
    ceiling_not_measured,
    exchange_above_link,
    instrument_contradicts,
    kernel_below_stream,
    optimizer_time,
    run_not_ranked,
    time_unattributed,
    time_waiting,
    wait_for_others,
)
from twinlens.diagnosis.scale_out import scale_out
from twinlens.diagnosis.time_split import LowerLoad, first_token_wait
from twinlens.diagnosis.verdict import ABOUT_KERNELS, agreed, joined, phase_verdict, verdict_of
from twinlens.errors import BadInput
from twinlens.record.codec import encode
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.foreign_text import in_one_line
from twinlens.record.run import Run
from twinlens.stats.summary.group import Summary

RULES: tuple[Rule, ...] = (
    run_not_ranked.RULE,
    ceiling_not_measured.RULE,
    instrument_contradicts.RULE,
    time_unattributed.RULE,
    time_waiting.RULE,
    wait_for_others.RULE,
    cache_full.RULE,
    optimizer_time.RULE,
    exchange_above_link.RULE,
    kernel_below_stream.RULE,
    batch_below_ridge.RULE,
)
"""Rules on validity first, then those on what takes the time. A new rule is a file and a line here,
and `make reference` writes its page."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`verdict`: what binds a step or a request; `phases`: what binds each phase of it; both as findings.

    `findings` in the order of RULES; `headroom_s` of a finding is time within a part that no other finding counts.
    `scaling`: scale out or optimise. `quantising`: each narrower precision, whether it helps. `region`: changes that
    end what was concluded. `tried`: remedies that other runs beside it have, with what they gave.
    """

    run: str
    verdict: Finding
    phases: tuple[Finding, ...]
    partition: Partition
    counters: tuple[Counter, ...]
    findings: tuple[Finding, ...]
    scaling: Finding
    quantising: tuple[Finding, ...]
    tried: tuple[Finding, ...]
    region: tuple[Finding, ...]

    def __repr__(self) -> str:
        return in_one_line(f"<Diagnosis of {self.run}: {self.verdict.code} ({self.verdict.subject})>")

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return encode(self)


def diagnose_run(
    run: Run,
    summary: Summary,
    siblings: Siblings | None = None,
    ceilings: Mapping[str, Estimate] | None = None,
    lower_load: LowerLoad | None = None,
) -> Diagnosis:
    """A diagnosis of one finished run, see `diagnose_repeats`. Raises BadInput (TL228) where there is nothing in it."""
    return diagnose_repeats(((run, summary),), siblings, ceilings, lower_load)


def diagnose_repeats(
    members: Sequence[tuple[Run, Summary]],
    siblings: Siblings | None = None,
    ceilings: Mapping[str, Estimate] | None = None,
    lower_load: LowerLoad | None = None,
) -> Diagnosis:
    """One diagnosis of the finished repeats of one point, under the name of the first. `siblings`: the same work in
    other precisions. `ceilings`: from an earlier probe, where the runs measured none. `lower_load`: the same work on
    the same server at a lower load.

    Repeats in which there is nothing to diagnose are left out. Raises BadInput (TL228) where that leaves none.
    """
    found: list[Evidence] = []
    why: BadInput | None = None
    for run, summary in members:
        try:
            found.append(_lent(evidence_of(run, summary), ceilings or {}))
        except BadInput as error:
            why = error
    if not found:
        raise why or BadInput("there is no run to diagnose", code="TL228")
    seen = joined(found)
    if lower_load is not None:
        seen = replace(seen, lower_load=lower_load, first_token=first_token_wait(*members[0]))
    diagnosed = diagnose_evidence(members[0][0].id, seen, siblings)
    verdict = agreed(diagnosed.verdict, found)
    phases = tuple(verdict if each == diagnosed.verdict else each for each in diagnosed.phases)
    return replace(diagnosed, verdict=verdict, phases=phases)


def _lent(seen: Evidence, ceilings: Mapping[str, Estimate]) -> Evidence:
    lent = {name: each for name, each in ceilings.items() if not known(seen.ceilings, name)}
    return replace(seen, ceilings={**seen.ceilings, **lent}, probed=bool(set(lent) - {LINK}))


def diagnose_evidence(name: str, seen: Evidence, siblings: Siblings | None = None) -> Diagnosis:
    """The same from evidence, however it was come by."""
    verdict = verdict_of(seen)
    phases = tuple(phase_verdict(phase, seen) for phase in seen.phases)
    busiest = max(seen.phases, key=lambda phase: seen.partition.parts.get(phase.part, 0.0))
    counters = with_instruments(counters_of(seen, busiest.name), seen.instruments)
    findings = tuple(finding for rule in RULES for finding in rule.find(seen))
    formats, ends = quantise(seen, siblings), region(seen)
    return Diagnosis(name, verdict, phases, seen.partition, counters, findings, scale_out(seen), formats, (), ends)


def by_class(found: Diagnosis) -> Diagnosis:
    """With the shares of time by class of kernel in the verdict, where it is about kernels and a profile was kept."""
    profiled = {each.about: each for each in found.counters if each.id == "kernels" and each.value.value is not None}
    counter = profiled.get(found.verdict.subject)
    if counter is None or found.verdict.code not in ABOUT_KERNELS:
        return found
    classes = {name: each.value for name, each in counter.beside.items()}
    verdict = replace(found.verdict, numbers=dict(found.verdict.numbers) | {"classes": classes})
    phases = tuple(verdict if each == found.verdict else each for each in found.phases)
    return replace(found, verdict=verdict, phases=phases)
