"""The form of a rule: its test, and the text of its page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from twinlens.diagnosis.evidence import Evidence
from twinlens.record.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. `find` decides; the other fields are the page of `code`, which `make reference` writes.

    `says`: one sentence. `evidence`: what is held against what. `lies`: when the rule is wrong. `remedy`: what to try,
    also shown as advice. `falsifier`: a measurement that would prove the rule wrong. `see`: names of other pages.
    """

    code: str
    find: Callable[[Evidence], Iterable[Finding]]
    says: str
    why: str
    evidence: str
    lies: str
    remedy: str
    falsifier: str
    sources: tuple[str, ...]
    see: tuple[str, ...]
