"""Document of `tune`: what was gained, the default and the winner side by side, and how the winner was found."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twinlens.record.estimate import Estimate
from twinlens.record.sections import ComplianceTest
from twinlens.reporting.display import ABSENT, bounds, clean, spread, value
from twinlens.reporting.document.block import (
    Block,
    Cell,
    Document,
    Drawing,
    Line,
    Notes,
    Section,
    Table,
    Tone,
    row,
)
from twinlens.reporting.wording.finding import clause_of
from twinlens.stats.metrics.definition import definition_of
from twinlens.tuning.ledger import Margin, Trial
from twinlens.tuning.search import rules_of
from twinlens.tuning.tuning import Tuning
from twinlens.units import SECONDS, digits, show

if TYPE_CHECKING:
    from twinlens.reporting.chart.figure import Figure as Chart

_FAILED = ("refused", "failed to start", "out of memory", "timed out", "failed", "no value")
_TONES: Mapping[str, Tone] = {"gain": "good", "loss": "bad", "not known": "doubt"}


def tuning_document(found: Tuning) -> Document:
    """A tuning, whole or as far as it is."""
    return Document.of("Tuning", _subject(found), _blocks(found), "--all")


def _subject(found: Tuning) -> str:
    study = found.bound.study
    what = f"{clean(study.workload.model, 60)} · {study.executor.kind} · {study.point.precision}"
    return f"{what} · {found.bound.objective.label} · tier {found.bound.tune.tier}"


def _blocks(found: Tuning) -> Iterator[Block]:
    yield Line(_subject(found), is_lead=True)
    broken = any(each.keeps is False for each in _winners(found)) and found.standing.phase == "over"
    tone = "bad" if broken or _failed(found) else _TONES.get(found.proof.verdict, "") if found.proof else ""
    yield Line(answer_words(found), tone, is_lead=True)
    yield _sides(found)
    yield row("settings", [settings_words(found, found.winner.settings) or "the default's"], "strong")
    yield row("search", [_shrinkage(found)], rank=1)
    yield row("limits", [_margin_words(each) for each in _winners(found)], rank=2)
    yield row("guards", [_guard_words(each) for each in found.guards], "bad" if _failed(found) else "", rank=3)
    yield row("not known", [clause_of(each) for each in found.proof.because] if found.proof else [], "doubt", rank=2)
    yield row("elsewhere", list(_elsewhere(found)), rank=3)
    yield row("matters", list(_matters(found)), rank=4)
    yield row("plateau", list(_plateau(found)), rank=5)
    yield row("budget", list(_budget(found)), rank=4)
    yield row("left out", list(_left_out(found)), "dim", rank=6)
    yield row("bound", [f"{found.bound.hash}; executors tuned by this bound may be compared, others may not"], rank=6)
    yield Drawing(lambda: _charts(found))
    yield row("next", [_next(found)], "strong")
    yield Section("Every trial", (_trials(found), Notes()), level=2, anchor="trials")
    if found.effects:
        yield Section("What each setting is worth", (_effects(found), Notes()), level=2, anchor="settings")


def answer_words(found: Tuning) -> str:
    """ "Tuned is 6.3 % better (4.1 to 8.5 %)."; "No gain shown: one of 2.1 % would have been."."""
    if found.standing.phase != "over":
        return f"Not over yet: {found.standing.counted} of {found.bound.tune.budget.trials} trials are begun."
    broken = [definition_of(each.metric).label for each in _winners(found) if each.keeps is False]
    if broken:
        whose = "The default breaks" if not found.winner.settings else "The winner, measured again, breaks"
        tried = " and no candidate that was tried keeps them all" if not found.winner.settings else ""
        return f"{whose} its limits ({', '.join(broken)}){tried}: no gain within this bound."
    if failed := _failed(found):
        which = ", ".join(failed)
        return f"The winner fails a guard ({which}): its server does not do the work, so no gain within this bound."
    if not found.winner.settings:
        rules = rules_of(found.bound)
        return (
            f"No gain shown: no candidate was better than the default. One better by {rules.least_gain:.0%} would have "
            f"stayed in the race with {1 - rules.error:.0%} chance."
        )
    proof = found.proof
    if proof is None or proof.verdict == "not known":
        why = f": {proof.ratio.lacks}" if proof is not None and proof.ratio.lacks else ""
        return f"Not proved yet{why}."
    if proof.verdict == "no gain shown":
        return f"No gain shown: tuned is {change(proof.ratio)}; a gain of {proof.smallest or 0.0:.1%} would have shown."
    better = "A gain" if proof.verdict == "gain" else "A loss"
    return f"{better}: {found.bound.objective.label} {change(proof.ratio)} against the default, measured again."


def change(ratio: Estimate) -> str:
    """ "+6.3 % (+4.1 to +8.5 %)"."""
    if ratio.value is None:
        return ABSENT
    bounded = ratio.low is not None and ratio.high is not None
    within = f" ({_percent(ratio.low or 0.0)} to {_percent(ratio.high or 0.0)} %)" if bounded else ""
    return f"{_percent(ratio.value)} %{within}"


def _percent(ratio: float) -> str:
    change = 100 * (ratio - 1)
    return f"{'−' if change < 0 else '+'}{abs(change):.1f}"


def _sides(found: Tuning) -> Table:
    """The default, the winner as searched, which stands struck through, and as measured again."""
    objective, proof = found.bound.objective, found.proof
    heads = ("", f"{objective.label}", "interval", "repeats", "against the default")
    rows: list[tuple[Cell, ...]] = []
    if proof is not None:
        rows.append((Cell("default"), *_figure(proof.default), Cell("")))
    if found.searched is not None:
        seen = Cell(change(found.searched), "struck")
        rows.append((Cell("tuned, as searched", "dim"), Cell("", "dim"), Cell("", "dim"),
                     Cell(f"{found.searched.n} rounds", "dim"), seen))  # fmt: skip
    if proof is not None:
        ratio = Cell(change(proof.ratio), why=proof.ratio.lacks or "")
        rows.append((Cell("tuned, measured again"), *_figure(proof.tuned), ratio))
    if not rows:
        figure = _figure(found.alone or Estimate.absent(found.bound.objective.unit, "each round was a run of its own"))
        rows.append((Cell("default, as searched"), *figure[:2], Cell(f"{len(found.default.values)} rounds"), Cell("")))
    caption = "The values of the search chose the winner, so they are too good; what was measured again counts."
    if not found.winner.settings:
        caption = "No candidate won, so nothing was measured again: the default by its run in the search."
    return Table(caption, heads, tuple(rows), ("left", "right", "right", "right", "right"), drop=(3, 2))


def _figure(estimate: Estimate) -> tuple[Cell, Cell, Cell]:
    return (
        Cell(value(estimate), beside="", why=estimate.lacks or ""),
        Cell(bounds(estimate) or spread(estimate)),
        Cell(str(estimate.n or "–")),
    )


def settings_words(found: Tuning, settings: Mapping[str, Any]) -> str:
    """ "max_sequences = 8, chunked_prefill = true (by default auto)"."""
    return ", ".join(
        f"{name} = {said(each)} (default: {said(found.bound.default.get(name))})" for name, each in settings.items()
    )


def said(each: Any) -> str:
    """A value of a setting in words."""
    if isinstance(each, bool):
        return str(each).lower()
    return "the runtime's own" if each is None else clean(each, 40)


def _shrinkage(found: Tuning) -> str:
    proof = found.proof
    if found.searched is None or found.searched.value is None or proof is None or proof.ratio.value is None:
        return ""
    saw, came = _percent(found.searched.value), _percent(proof.ratio.value)
    better = found.bound.objective.sign * (found.searched.value - proof.ratio.value) > 0
    return f"it saw {saw} %, measured again it is {came} %" + (": the best of many looks too good" if better else "")


def _winners(found: Tuning) -> Sequence[Margin]:
    return found.proof.margins if found.proof is not None and found.proof.margins else found.winner.margins


def _margin_words(margin: Margin) -> str:
    metric = definition_of(margin.metric)
    if margin.value is None:
        return f"{metric.label}: not known ({clean(margin.why, 80)})"
    value, limit = (show(each, metric.unit) if metric.unit else digits(each) for each in (margin.value, margin.limit))
    return f"{metric.label} {value}, limit {limit}: {'kept' if margin.keeps else 'BROKEN'}"


def _failed(found: Tuning) -> Sequence[str]:
    """The guards that the winner's server fails."""
    return [clean(each.id, 40) for each in found.guards if each.ruling == "fail"]


def _guard_words(guard: ComplianceTest) -> str:
    why = f" ({clause_of(guard.reason)})" if guard.ruling in ("fail", "not enough") else ""
    return f"{clean(guard.id, 40)}: {guard.ruling}{why}"


def _elsewhere(found: Tuning) -> Iterator[str]:
    for each in found.elsewhere:
        ratio = each.ratio
        if ratio is None or ratio.value is None:
            because = each.proof.because if each.proof is not None else ()
            why = each.why or (clause_of(because[0]) if because else ratio.lacks if ratio is not None else "")
            yield f"{each.condition.name}: not known, {clean(why or 'not measured', 120)}"
        else:
            yield f"{each.condition.name}: {change(ratio)}"


def _matters(found: Tuning) -> Iterator[str]:
    known = [each for each in found.effects if each.matters]
    for each in known:
        yield f"{each.setting} = {said(each.value)}: {change(each.ratio)}"
    if found.effects and not known:
        yield "no setting by itself can be told from the default"


def _plateau(found: Tuning) -> Iterator[str]:
    """What a simpler candidate showed: settings that were taken back, as they cannot be told apart."""
    for trial in found.standing.trials:
        if trial.outcome == "not told apart" and trial.number != found.winner.number:
            yield f"trial {trial.number} ({_short(trial.settings)}) cannot be told from the leader it raced"


def _budget(found: Tuning) -> Iterator[str]:
    budget, standing = found.bound.tune.budget, found.standing
    yield f"{standing.counted} of {budget.trials} trials"
    yield f"{show(standing.spent_s, SECONDS)} of {budget.wall_h:g} h at work"
    starts = [trial.startup_s for trial in standing.trials if trial.startup_s is not None]
    yield f"{show(sum(starts), SECONDS)} of it starting" if starts else "starts are not timed apart from rounds"
    failed = Counter(trial.outcome for trial in standing.trials if trial.outcome in _FAILED)
    yield from (f"{count} {outcome}" for outcome, count in failed.items())
    if found.bound.tune.engineer_hours is not None:
        yield f"{found.bound.tune.engineer_hours:g} engineer hours, as typed"
    yield f"it ended because {standing.why_over}" if standing.why_over else ""


def _left_out(found: Tuning) -> Iterator[str]:
    reasons = Counter(trial.reason for trial in found.standing.trials if trial.outcome == "left out")
    for reason, count in reasons.most_common(2):
        yield f"{count} before anything was started: {clean(reason, 160)}"


def _next(found: Tuning) -> str:
    proved = found.proof is not None and found.proof.verdict != "not known"
    if found.standing.phase != "over" or (found.winner.settings and not proved):
        return "run the same command again: it goes on where it was"
    if _failed(found):
        return "leave the setting that changes the work out of the space, and tune again"
    if any(each.keeps is False for each in _winners(found)):
        return "loosen the limits, lower the load, or name other settings"
    if found.proof is not None and found.proof.verdict == "gain":
        space = found.bound.space
        sets = " ".join(f"--set {space[n][0].path}={said(v)}" for n, v in found.winner.settings.items())
        return f"take the winner: twinlens measure SPEC {sets}"
    return "keep the default; more trials, or a larger effect, would be needed to show a gain"


def _short(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {said(each)}" for name, each in settings.items()) or "default"


def _trials(found: Tuning) -> Table:
    heads = ("trial", "settings", "by", "rounds", "against leader", "outcome", "start", "why")
    rows = tuple(_trial_row(found, trial) for trial in found.standing.trials)
    caption = "Every candidate, in the order of the ledger; it is held against the leader in the rounds that both had."
    return Table(caption, heads, rows, ("right", "left", "left", "right", "right", "left", "right", "left"),
                 remarks=True, drop=(6, 2))  # fmt: skip


def _trial_row(found: Tuning, trial: Trial) -> tuple[Cell, ...]:
    leads = trial.number == found.winner.number
    tone: Tone = "good" if leads else "bad" if trial.outcome in _FAILED else ""
    gap = f"{_percent(math.exp(found.bound.objective.sign * trial.gap))} %" if trial.gap is not None else ""
    return (
        Cell(str(trial.number), tone), Cell(_short(trial.settings)), Cell(trial.why), Cell(str(len(trial.values))),
        Cell(gap), Cell("leads" if leads else trial.outcome or "races"),
        Cell(show(trial.startup_s, SECONDS) if trial.startup_s is not None else ""), Cell(clean(trial.reason, 120)),
    )  # fmt: skip


def _effects(found: Tuning) -> Table:
    heads = ("setting", "value", "against the default", "candidates")
    rows = tuple(
        (Cell(each.setting), Cell(said(each.value)),
         Cell(change(each.ratio), "strong" if each.matters else "", why=each.ratio.lacks or ""), Cell(str(each.trials)))
        for each in found.effects
    )  # fmt: skip
    caption = "By least squares over all candidates of the search, as if effects added up; it proves nothing by itself."
    return Table(caption, heads, rows, ("left", "right", "right", "right"))


def _charts(found: Tuning) -> Sequence[Chart]:
    from twinlens.reporting.judging.tuning_chart import tuning_charts  # charts are heavy

    return tuning_charts(found)
