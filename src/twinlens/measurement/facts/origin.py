"""The origin of a fact: what a plug-in claims to have observed is marked as its claim."""

from __future__ import annotations

from dataclasses import replace

from twinlens.executors.protocol import Exchanger, Server, Trainer
from twinlens.executors.registry import distribution_of
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, Fact
from twinlens.spec.study import RunSpec


def marked(facts: Facts, spec: RunSpec, executor: Trainer | Server | Exchanger) -> Facts:
    """The same facts, with the plug-in named in the source of each that it says; those of our own classes unchanged."""
    if type(executor).__module__.startswith("twinlens."):
        return facts
    who = distribution_of(spec.executor.kind)
    fields = {key: _with_source(fact, who) for key, fact in facts.executor.facts.items()}
    checks = tuple(replace(check, evidence=f"said by the plug-in {who}: {check.evidence}") for check in facts.precision)
    return replace(facts, executor=ExecutorRecord(fields), precision=checks)


def _with_source(fact: Fact, who: str) -> Fact:
    return fact if fact.value is None else replace(fact, source=f"said by the plug-in {who}: {fact.source}")
