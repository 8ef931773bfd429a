"""The verdict of a comparison: whether two sides may be compared, how far, and what an effect is due to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from twinlens.comparison.difference import Aspect, Difference, differences, is_partial, of_role, touches
from twinlens.comparison.effect import Effect, Floor, above_floor, effects, floor_finding, headline
from twinlens.comparison.scaling import adapter_cost, scaling_efficiency, scaling_kind
from twinlens.comparison.side import Side, is_same
from twinlens.comparison.tuned import tuned_findings
from twinlens.comparison.twin import Twin, twin
from twinlens.errors import BadInput, nearest
from twinlens.record.codec import encode
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding, worst_first
from twinlens.record.foreign_text import in_one_line
from twinlens.spec.workload.workload import CollectiveWorkload, Own
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.paired.slice_rate import Rates
from twinlens.stats.summary.serving import is_served

# Attribution: the things that vary between two sides, each with what it brings with it. Of one, the effect is its.

# What comes along with another change and is no choice of its own, unless somebody asked for it.
_BRINGS: dict[Aspect, tuple[Aspect, ...]] = {
    "runtime": ("framework", "compiler", "settings", "packages"),
    "framework": ("compiler", "settings", "packages"),
    "machine": ("power", "settings"),
    "precision": ("compiler", "settings"),
    "compiler": ("settings",),
    "batching": ("settings",),
    "settings": ("compiler",),
}


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing that varies. `fields`: in what; `brings`: differences that came along with it."""

    aspect: Aspect
    fields: tuple[Difference, ...]
    brings: tuple[Difference, ...] = ()

    def __json__(self) -> dict[str, Any]:
        """A plain mapping; the fields by name, as they stand among the differences."""
        fields, brings = ([one.field for one in some] for some in (self.fields, self.brings))
        return {"aspect": self.aspect, "fields": fields, "brings": brings}


def things(found: Iterable[Difference]) -> tuple[Thing, ...]:
    """What varies, from the differences that are known and may vary (role V), in the order of `_ORDER`.

    A difference that nobody asked for belongs to a change that is known to bring it; a version of the framework is one
    change, with all the packages that come with it. What was asked for is always a thing of its own.
    """
    known = [one for one in found if one.is_known and one.role == "V"]
    leading = {one.aspect for one in known if one.is_asked}
    for aspect in _UNASKED:
        if any(one.aspect == aspect for one in known) and aspect not in _brought_by(leading):
            leading.add(aspect)
    parts: dict[Aspect, list[Difference]] = {}
    along: dict[Aspect, list[Difference]] = {}
    for one in known:
        owner = _owner(one, leading)
        (parts if owner == one.aspect else along).setdefault(owner, []).append(one)
    order = [aspect for aspect in _ORDER if aspect in parts]
    return tuple(Thing(aspect, tuple(parts[aspect]), tuple(along.get(aspect, ()))) for aspect in order)


_ORDER: tuple[Aspect, ...] = (
    "workload", "precision", "batching", "runtime", "framework", "compiler", "settings", "driver", "machine", "power",
    "packages", "operating system", "protocol", "quality", "content",
)  # fmt: skip


_UNASKED: tuple[Aspect, ...] = ("machine", "runtime", "framework", *_ORDER)  # what brings others along goes first


def _brought_by(aspects: Iterable[Aspect]) -> set[Aspect]:
    return {brought for aspect in aspects for brought in _BRINGS.get(aspect, ())}


def _owner(one: Difference, leading: set[Aspect]) -> Aspect:
    """The aspect that a difference is counted with: its own where somebody asked for it or nothing brought it."""
    owners = [aspect for aspect in _ORDER if aspect in leading and one.aspect in _BRINGS.get(aspect, ())]
    return one.aspect if one.is_asked or not owners else owners[0]


Verdict = Literal["comparable", "comparable with qualifiers", "not comparable", "category error", "twin"]
CATEGORY_ERRORS = ("lens-differs", "precision-as-one", "peak-against-sustained")
_NOT_SUSTAINED = ("no steady state", "too short")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides, what they differ in, what that means, and how far they are apart.

    `findings`: disqualifying ones (not comparable, or a category error), then qualifiers, then notes. `things`: what
    varies; of one thing the effects are its, of several they are of all together. `effects` of what may not be compared
    have no ratio. `twin`: of a measured side and its simulation, where the two part.
    """

    a: Side
    b: Side
    verdict: Verdict
    findings: tuple[Finding, ...]
    differences: tuple[Difference, ...]
    things: tuple[Thing, ...]
    effects: tuple[Effect, ...]
    twin: Twin | None = None

    def __repr__(self) -> str:
        return in_one_line(f"<Comparison of {self.a.name} and {self.b.name}: {self.verdict}>")

    def __json__(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict, "lens": self.a.lens if self.a.lens == self.b.lens else None,
            "a": _side_json(self.a), "b": _side_json(self.b), "findings": self.findings,
            "differences": self.differences, "things": self.things, "effects": self.effects,
        } | ({} if self.twin is None else {"twin": self.twin})  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return encode(self)


def compare(
    a: Side,
    b: Side,
    rates: Mapping[str, Rates] | None = None,
    *,
    level: float = 0.95,
    floor: Floor | None = None,
) -> Comparison:
    """B against A, the baseline. `rates`: of the slices of runs that took turns, by id of the run; `floor`: of the
    machines, where somebody looked for it."""
    if a.lens != b.lens:
        finding = Finding("lens-differs", "disqualifies", "", {"a": a.lens, "b": b.lens})
        return Comparison(a, b, "category error", (finding,), (), (), ())
    is_weak = scaling_kind(a, b) == "weak"
    differing = differences(a, b, is_weak=is_weak)
    varying = things(differing)
    if a.group.is_simulated != b.group.is_simulated and (found_twin := _twin(a, b, differing)) is not None:
        return found_twin
    found = tuple(effects(a, b, rates or {}, level=level))
    findings = worst_first([*_judged(a, b, differing, varying), *_unranked(a, b, found)])
    figures = [each for each in (scaling_efficiency(a, b, found), adapter_cost(a, b, found)) if each is not None]
    findings = worst_first([*findings, *figures])
    verdict = _verdict(findings)
    if floor is not None and verdict.startswith("comparable"):
        found = tuple(above_floor(each, floor.of(a, b, each.metric)) for each in found)
        first = next((each for each in found if each.metric == headline(a)), None)
        told = floor_finding(floor.of(a, b, first.metric), first) if first else None
        findings = findings if told is None else worst_first([*findings, told])
    return Comparison(a, b, verdict, findings, differing, varying, _compared(found, findings, differing, is_weak))


def _twin(a: Side, b: Side, differing: Sequence[Difference]) -> Comparison | None:
    """The verdict on a measured side and its simulation; None where they were not asked the same, or are no load."""
    asked = [
        each for each in of_role(differing, "M") if each.is_known and each.is_asked and not is_partial(each.aspect)
    ]
    other = [each for each in of_role(differing, "V") if each.is_asked and each.aspect in ("precision", "batching")]
    if asked or other or not (is_served(a.runs[0]) and is_served(b.runs[0])):
        return None
    measured, simulated = (b, a) if a.group.is_simulated else (a, b)
    if not all(run.is_finished and run.table.num_rows for run in (*a.runs, *b.runs)):
        return None
    found = twin(measured.runs, simulated.runs)
    told = [each for each in found.parts if each.inside is False]
    numbers = {"parts": [each.part for each in told], "ratios": [each.ratio.value for each in told]}
    finding = Finding("twin-outside", "warns", "", numbers) if told else Finding("twin-inside", "notes")
    findings = [finding, *(each for each in _unranked(a, b, ()) if each.numbers.get("name") == measured.name)]
    kept = [replace(each, severity="warns") if each.severity == "disqualifies" else each for each in findings]
    return Comparison(a, b, "twin", worst_first(kept), tuple(differing), (), (), found)


def of_metric(comparison: Comparison, metric: str) -> Comparison:
    """The same comparison with the effect in one metric only. Raises BadInput (TL227) where other metrics have one."""
    chosen = tuple(each for each in comparison.effects if is_same(each.metric, metric))
    if comparison.effects and not chosen:
        known = [METRICS[each.metric].label for each in comparison.effects if each.metric in METRICS]
        alike = [each for each in known if each.endswith(f" {METRICS[metric].label}")]
        names = f"ask for {', '.join(alike)}" if alike else nearest(METRICS[metric].label, known)
        raise BadInput(f"these runs have no {METRICS[metric].label}; {names}", code="TL227")
    return replace(comparison, effects=chosen)


def _verdict(findings: Sequence[Finding]) -> Verdict:
    grave = [finding for finding in findings if finding.severity == "disqualifies"]
    if any(finding.code in CATEGORY_ERRORS for finding in grave):
        return "category error"
    if grave:
        return "not comparable"
    warned = any(finding.severity == "warns" for finding in findings)
    return "comparable with qualifiers" if warned else "comparable"


def _judged(a: Side, b: Side, differing: Sequence[Difference], varying: Sequence[Thing]) -> Iterator[Finding]:
    if a.group.is_simulated != b.group.is_simulated:
        letter, side = ("A", a) if a.group.is_simulated else ("B", b)
        yield Finding("simulated-beside-measured", "disqualifies", "", {"side": letter, "name": side.name})
    if {run.id for run in a.runs} & {run.id for run in b.runs}:
        yield Finding("same-runs", "disqualifies", "", {"runs": sorted({run.id for run in a.runs})})
    for aspect, members in _by_aspect(of_role(differing, "M")).items():
        known = [each for each in members if each.is_known]
        if known and aspect == "precision":
            yield Finding("precision-as-one", "disqualifies", a.group.point["precision"], _numbers(known))
        elif known:
            yield Finding("must-match", "warns" if is_partial(aspect) else "disqualifies", aspect, _numbers(known))
    if len(varying) > 1:
        yield Finding("several-differ", "warns", "", {"things": [thing.aspect for thing in varying]})
    elif varying:
        yield Finding("one-differs", "notes", varying[0].aspect, _numbers(varying[0].fields))
    elif not of_role(differing, "M"):
        yield Finding("nothing-differs", "notes")
    if any(thing.aspect == "precision" for thing in varying):
        yield _precision(a, b)
    for aspect, members in _by_aspect(of_role(differing, "Q")).items():
        if known := [each for each in members if each.is_known]:
            yield Finding("differs-too", "warns", aspect, _numbers(known))
    if unknown := [each for each in of_role(differing, "M", "V") if not each.is_known]:
        yield _not_said(unknown)
    yield from tuned_findings(a, b)
    if own := [letter for letter, side in (("A", a), ("B", b)) if _is_own(side)]:
        yield Finding("own-data", "warns", "", {"sides": own})


def _is_own(side: Side) -> bool:
    """Whether its data is a loop's own, so that two unknowns are no sign of the same work."""
    workload = side.runs[0].spec.workload
    return not isinstance(workload, CollectiveWorkload) and isinstance(workload.data, Own)


def _precision(a: Side, b: Side) -> Finding:
    """Two precisions are two products: the quality of the lower one belongs beside its speed."""
    numbers: dict[str, Any] = {}
    for letter, side in (("a", a), ("b", b)):
        gates = [run.gate.go for run in side.group.runs if run.gate is not None]
        numbers |= {letter: side.group.point["precision"], f"{letter}_passes": all(gates) if gates else None}
    return Finding("precision-compared", "warns", "", numbers)


def _not_said(unknown: Sequence[Difference]) -> Finding:
    sides = sorted({"A" if not each.a else "B" for each in unknown})
    return Finding("not-said", "warns", "", {"sides": sides, "fields": [each.label for each in unknown]})


def _unranked(a: Side, b: Side, found: Sequence[Effect]) -> Iterator[Finding]:
    """A side that may not be ranked, which is said first; where a ratio from slices stands, it only qualifies."""
    by_turns = any(effect.way == "slices" for effect in found)
    if a.group.ranked != b.group.ranked and not by_turns:
        letter, side, other = ("A", a, b) if b.group.ranked else ("B", b, a)
        if all(run.state == "finished" and run.verdict.label in _NOT_SUSTAINED for run in side.group.runs):
            numbers = {"side": letter, "name": side.name, "label": side.group.runs[0].verdict.label}
            numbers |= {"other": "AB".replace(letter, ""), "other_name": other.name}
            yield Finding("peak-against-sustained", "disqualifies", "", numbers)
            return
    for letter, side in (("A", a), ("B", b)):
        if not side.group.ranked:
            state, label, because = side.group.fault
            numbers = {"side": letter, "name": side.name, "state": state, "label": label}
            yield Finding("side-not-ranked", "warns" if by_turns else "disqualifies", "", numbers, because=because)


def _compared(
    found: Sequence[Effect], findings: Sequence[Finding], differing: Sequence[Difference], is_weak: bool
) -> tuple[Effect, ...]:
    """The effects, without the ratios that may not be given: all of a refused comparison, else those that a target, a
    reference or a counter has a bearing on which differs; of weak scaling, those of what was learned."""
    refused = next((each for each in findings if each.severity == "disqualifies"), None)
    partial = {each.aspect for each in of_role(differing, "M") if each.is_known and is_partial(each.aspect)}
    shown = []
    for effect in found:
        aspect = next((aspect for aspect in sorted(partial) if touches(aspect, effect.metric)), None)
        why = refused.code if refused else f"the {aspect} differs" if aspect else None
        why = why or ("the batch grows with the ranks" if is_weak and touches("quality", effect.metric) else None)
        shown.append(without_ratio(effect, why) if why else effect)
    return tuple(shown)


def without_ratio(effect: Effect, why: str) -> Effect:
    """The figures of both sides, and why they are not compared."""
    none = Estimate.absent(effect.ratio.unit, why)
    return replace(effect, ratio=none, difference=none, way="none", apart=None, smallest=None)


def _by_aspect(members: Sequence[Difference]) -> dict[str, list[Difference]]:
    parts: dict[str, list[Difference]] = {}
    for each in members:
        parts.setdefault(each.aspect, []).append(each)
    return parts


def _numbers(members: Sequence[Difference]) -> dict[str, Any]:
    return {"fields": [{"label": each.label, "a": list(each.a), "b": list(each.b)} for each in members]}


def _side_json(side: Side) -> dict[str, Any]:
    group = side.group
    machine = group.machine.name if group.machine else None
    return {"name": side.name, "lens": group.lens, "model": group.model, "point": group.point, "machine": machine} | {
        "validity": group.validity, "runs": [run.id for run in side.runs]
    }  # fmt: skip
