"""Diagnoses as values for the templates: verdict, time by part, counters, and findings with what to try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twinlens.diagnosis.counter import Counter
from twinlens.diagnosis.diagnosis import RULES, Diagnosis, diagnose_repeats
from twinlens.diagnosis.phase import UNATTRIBUTED, Partition
from twinlens.errors import BadInput
from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.chart.figure import PART_COLOURS, REST_COLOUR
from twinlens.reporting.view import LensView, Material
from twinlens.reporting.wording.diagnosis import (
    PARTS,
    agreement_words,
    counter_name,
    counter_words,
    evidence_words,
    part_words,
)
from twinlens.reporting.wording.finding import advice_of, sentence_of
from twinlens.units import SECONDS, show

_RULE_OF = {rule.code: rule for rule in RULES}


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the bar. `width`: per cent of the whole, for the style; `text`: the same with its time."""

    name: str
    colour: str
    width: str
    text: str


@dataclass(frozen=True, slots=True)
class CounterRow:
    """One counter: its name, its value in words, how sure it is, and where it comes from."""

    name: str
    value: str
    confidence: str
    source: str


@dataclass(frozen=True, slots=True)
class Found:
    """One finding. `folded`: pairs of a head and a text, shown when opened."""

    severity: str
    sentence: str
    evidence: str
    folded: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """One diagnosis. `standing`: of which runs it is; `why_no_parts`: "" where `parts` has the time by part."""

    name: str
    word: str
    verdict: str
    confidence: str
    standing: str
    phases: tuple[str, ...]
    time: str
    parts: tuple[Part, ...]
    why_no_parts: str
    counters: tuple[CounterRow, ...]
    scaling: str
    narrower: tuple[str, ...]
    ends: tuple[str, ...]
    advice: str
    tried: tuple[str, ...]
    findings: tuple[Found, ...]


Diagnose = Callable[[Sequence[Material]], Diagnosis]


def diagnosed_points(
    lens: LensView, diagnose: Diagnose = diagnose_repeats
) -> tuple[tuple[Diagnosed, ...], tuple[str, ...]]:
    """The diagnosis of each operating point, and a sentence for each point that has none.

    `diagnose`: one that knows more than the run itself: its siblings, a kept profile, a tried falsifier.
    """
    found: list[Diagnosed] = []
    missing: list[str] = []
    for entry in lens.entries:
        try:
            one = diagnose(entry.material)
            standing = f"{words}." if (words := agreement_words(one)) else ""
            found.append(diagnosed(entry.name, one, standing))
        except BadInput as error:
            missing.append(f"{entry.name} is not diagnosed: {display.clean(str(error), 200)}.")
    return tuple(found), tuple(missing)


def diagnosed(name: str, found: Diagnosis, standing: str = "") -> Diagnosed:
    """One diagnosis as the page shows it."""
    return Diagnosed(
        name=display.clean(name, 80),
        word=display.clean(found.verdict.code, 40),
        verdict=sentence_of(found.verdict),
        confidence=display.clean(found.verdict.numbers.get("confidence", "low"), 20),
        standing=standing,
        phases=tuple(sentence_of(each) for each in found.phases if each != found.verdict),
        time=_time(found.partition),
        parts=_parts(found.partition),
        why_no_parts=display.clean(found.partition.reason or "", 200),
        counters=tuple(
            CounterRow(counter_name(each), counter_words(each), each.confidence, _source(each))
            for each in found.counters
        ),
        scaling=sentence_of(found.scaling),
        narrower=tuple(sentence_of(each) for each in found.quantising),
        ends=tuple(sentence_of(each) for each in found.region),
        advice=advice_of(found.verdict),
        tried=tuple(sentence_of(each) for each in found.tried),
        findings=tuple(map(_found, found.findings)),
    )


def _source(counter: Counter) -> str:
    return display.ABSENT if counter.value.value is None else display.clean(counter.value.method, 200)


def _time(partition: Partition) -> str:
    return f"a {partition.unit} takes {show(partition.seconds, SECONDS)}" if partition.reason is None else ""


def _parts(partition: Partition) -> tuple[Part, ...]:
    """The parts in the order in which they pass; their widths sum to 100 %."""
    return tuple(
        Part(
            part_words(name),
            _colour(name),
            f"{100 * partition.share(name):.3f}",
            f"{show(spent, SECONDS)}, {100 * partition.share(name):.1f} %",
        )
        for name, spent in partition.parts.items()
    )


def _colour(part: str) -> str:
    """A colour for each part, the same in every bar; grey for what belongs to none."""
    names = [name for name in PARTS if name != UNATTRIBUTED]
    return PART_COLOURS[names.index(part) % len(PART_COLOURS)] if part in names else REST_COLOUR


def _found(finding: Finding) -> Found:
    rule = _RULE_OF.get(finding.code)
    folded = [("What to try", advice_of(finding))]
    if rule is not None:
        folded += [
            ("Why it matters", rule.why),
            ("What would prove it wrong", rule.falsifier),
            ("When it lies", rule.lies),
        ]
    return Found(
        finding.severity,
        sentence_of(finding),
        "; ".join(
            f"{evidence_words(name)} {display.value(estimate)}"
            for name, estimate in finding.evidence.items()
            if estimate.value is not None
        ),
        tuple((head, text) for head, text in folded if text),
    )
