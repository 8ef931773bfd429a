"""Document of a diagnosis: what binds, where the time goes, the four counters, findings, and what to try."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from twinlens.diagnosis.counter import Counter
from twinlens.diagnosis.diagnosis import RULES, Diagnosis, diagnose_repeats
from twinlens.diagnosis.phase import UNATTRIBUTED, Partition
from twinlens.diagnosis.verdict import ROOFLINE
from twinlens.errors import BadInput
from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.document.block import (
    DETAIL,
    Block,
    Document,
    Drawing,
    Fold,
    Line,
    More,
    Row,
    Section,
    Share,
    Shares,
    Table,
    Title,
    cells,
    row,
)
from twinlens.reporting.run.subject import subject
from twinlens.reporting.view import Entry, LensView, Material, view
from twinlens.reporting.wording.diagnosis import (
    PARTS,
    agreement_words,
    counter_name,
    counter_words,
    evidence_words,
    part_words,
)
from twinlens.reporting.wording.finding import advice_of, clause_of, sentence_of
from twinlens.reporting.wording.number import law_pages
from twinlens.units import SECONDS, show

if TYPE_CHECKING:  # charts are heavy
    from twinlens.reporting.chart.figure import Figure as Chart

_TITLE = "What binds"
_MORE = "more      --all: every finding; explain CODE: what it means; --json: numbers"
_FOLD = "Evidence, what to try, and what would prove it wrong"
_MOST_POINTS, _MOST_ADVICE = 12, 4
_RULE_OF = {rule.code: rule for rule in RULES}
_PLACES = [name for name in PARTS if name != UNATTRIBUTED]

Points = Sequence[tuple[str, Diagnosis]]
Diagnose = Callable[[Sequence[Material]], Diagnosis]


def diagnosis_document(found: Diagnosis, head: str) -> Document:
    """One diagnosis. `head`: what was diagnosed, in words."""
    of = f"{found.verdict.code} ({found.verdict.subject}), confidence {_confidence(found)}"
    return Document.of(_TITLE, of, _single(found, head), "--all")


def diagnoses_document(found: Sequence[tuple[Entry, Diagnosis]]) -> Document:
    """One point by itself, or a line for each of several and the whole of each; a page has their rooflines."""
    if len(found) == 1:
        ((entry, only),) = found
        one = diagnosis_document(only, subject(*entry.material[0]))
        return replace(one, blocks=(*one.blocks, Drawing(lambda: _rooflines(found), rank=DETAIL)))
    verdicts = Counts(each.verdict.code for _, each in found)
    counted = ", ".join(f"{count} {code}" for code, count in verdicts.most_common())
    return Document.of(_TITLE, f"{len(found)} points: {counted}", _several(found))


def _single(found: Diagnosis, head: str) -> Iterator[Block]:
    yield Line(head, "strong")
    yield from _blocks(found)
    laws = dict.fromkeys(law for each in (found.verdict, *found.phases, *found.findings) for law in _laws(each))
    yield row("laws", [law_pages(laws)] if laws else [], rank=DETAIL)
    yield More(_MORE)


def _blocks(found: Diagnosis) -> Iterator[Block]:
    """Findings leave a first screen before what binds and what to try, the last of them first."""
    yield Line(_headline(found), is_lead=True)
    for each in found.phases:
        if each != found.verdict:
            yield row("·", [sentence_of(each)], rank=6 if each.code == "indeterminate" else 0)
    yield _time(found.partition)
    yield from map(_counter, found.counters)
    yield row("scale", [sentence_of(found.scaling)], short=[clause_of(found.scaling)])
    # Narrower precisions, on a first screen those that were measured first.
    narrower = sorted(found.quantising, key=lambda each: "measured" not in each.evidence)
    yield row("bits", list(map(sentence_of, found.quantising)), apart=True,
              short=list(map(clause_of, narrower[:1])))  # fmt: skip
    yield row("ends", list(map(sentence_of, found.region)), apart=True, rank=DETAIL)
    for place, each in enumerate(found.findings, start=1):
        yield row("!" if each.severity == "warns" else "·", [sentence_of(each)], rank=min(place, DETAIL - 1))
        yield Fold(_FOLD, tuple(_behind(each)))
    yield row("try", [advice_of(found.verdict)], "strong")
    yield row("tried", list(map(clause_of, found.tried)), rank=2, apart=True, first=3)


def _several(found: Sequence[tuple[Entry, Diagnosis]]) -> Iterator[Block]:
    """One line for each, with what binds it, how many of its repeats alone say so, and what to try."""
    rows = tuple(cells(_line(entry, each)) for entry, each in found)
    heads = ("lens", "point", "verdict", "of", "confidence", "runs")
    caption = "What binds each point; how many of its repeats say so alone."
    yield Table(caption, heads, rows, ("left",) * 6, short=rows[:_MOST_POINTS], more="… and {} more: --all", gap=1)
    advice: dict[str, list[str]] = {}
    for _, each in found:
        advice.setdefault(advice_of(each.verdict), []).append(each.verdict.code)
    tried = [f"{codes[0]}: {words}" for words, codes in advice.items() if codes[0] != "indeterminate"]
    yield row("try", tried, apart=True, first=_MOST_ADVICE)
    yield More("diagnose RUN with one run folder: its time, counters and findings")
    yield Drawing(lambda: _rooflines(found), rank=DETAIL)
    yield from points_blocks([(subject(*entry.material[0]), each) for entry, each in found], (), rank=DETAIL)


def points_blocks(found: Points, missing: Sequence[str], *, rank: int = 0) -> Iterator[Block]:
    """The whole of each point, each in a fold of its own where there are several, and why others have none."""
    for name, each in found:
        blocks = tuple(replace(block, rank=max(rank, block.rank)) for block in _blocks(each))
        title = f"{display.clean(name, 80)}: {each.verdict.code}"
        yield from [Section(title, blocks)] if len(found) > 1 else blocks
    if missing:
        yield Title("Not diagnosed")
        yield from map(Line, missing)


def diagnosed_points(lens: LensView, diagnose: Diagnose = diagnose_repeats) -> tuple[Points, tuple[str, ...]]:
    """The diagnosis of each operating point with its name, and a sentence for each point that has none.

    `diagnose`: one that knows more than the run itself: its siblings, a kept profile, a tried falsifier.
    """
    found: list[tuple[str, Diagnosis]] = []
    missing: list[str] = []
    for entry in lens.entries:
        try:
            found.append((entry.name, diagnose(entry.material)))
        except BadInput as error:
            missing.append(f"{entry.name} is not diagnosed: {display.clean(str(error), 200)}.")
    return found, tuple(missing)


def _line(entry: Entry, found: Diagnosis) -> tuple[str, ...]:
    repeats, agree = (found.verdict.numbers.get(name) for name in ("repeats", "agree"))
    runs = str(len(entry.material)) if repeats is None else f"{agree} of {repeats} say so"
    name = display.clean(entry.name, 28)
    return entry.group.lens, name, found.verdict.code, found.verdict.subject, _confidence(found), runs


def _headline(found: Diagnosis) -> str:
    words = agreement_words(found)
    return f"{sentence_of(found.verdict)} Confidence: {_confidence(found)}{f' ({words})' if words else ''}."


def _confidence(found: Diagnosis) -> str:
    return display.clean(found.verdict.numbers.get("confidence", "low"), 20)


def _time(partition: Partition) -> Block:
    """ "a step takes 333 ms: forward 32.2 %, backward 61.0 %, …, unattributed 0.1 %"; the shares add up to 100 %."""
    if partition.reason is not None:
        return row("time", [f"no parts: {display.clean(partition.reason, 200)}"])
    takes = f"a {partition.unit} takes {show(partition.seconds, SECONDS)}"
    return Shares("time", takes, tuple(_share(partition, name) for name in partition.parts))


def _share(partition: Partition, name: str) -> Share:
    share = partition.share(name)
    place = _PLACES.index(name) if name in _PLACES else None
    percent = f"{100 * share:.1f} %"
    return Share(part_words(name), share, f"{percent} ({show(partition.parts[name], SECONDS)})", percent, place)


def _counter(counter: Counter) -> Row:
    name, words = f"{counter_name(counter):<21}", counter_words(counter)
    if counter.value.value is None:
        return row(name, [words], "dim")
    told = [words, f"confidence {counter.confidence}", f"from {display.clean(counter.value.method, 200)}"]
    return row(name, told, first=2)


def _behind(finding: Finding) -> Iterator[tuple[str, str]]:
    """What a finding rests on, and what its rule says of it."""
    seen = "; ".join(
        f"{evidence_words(name)} {display.value(estimate)}"
        for name, estimate in finding.evidence.items()
        if estimate.value is not None
    )
    rule = _RULE_OF.get(finding.code)
    told = [("Evidence", seen), ("By law", law_pages(_laws(finding))), ("What to try", advice_of(finding))]
    if rule is not None:
        told += [("Why it matters", rule.why), ("What would prove it wrong", rule.falsifier)]
        told += [("When it lies", rule.lies)]
    yield from (each for each in told if each[1])


def _laws(finding: Finding) -> tuple[str, ...]:
    """Laws of theory that a finding or a verdict rests on, by name."""
    rule = _RULE_OF.get(finding.code)
    return rule.laws if rule else ROOFLINE if "ridge" in finding.numbers else ()


def _rooflines(found: Sequence[tuple[Entry, Diagnosis]]) -> list[Chart]:
    from twinlens.reporting.chart.roofline import roofline_chart

    lenses = view([material for entry, _ in found for material in entry.material]).lenses
    drawn = [
        roofline_chart(lens, entries, f"{lens.lens}{place}-roof")
        for lens in lenses
        for place, entries in enumerate(lens.under("lockstep").parts)
    ]
    return [each for each in drawn if each is not None]
