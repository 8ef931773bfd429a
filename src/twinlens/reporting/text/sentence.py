"""Three sentences on the result: precision in training, precision in inference, and that these are two results."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.record.beside import SearchRecord
from twinlens.record.estimate import Estimate
from twinlens.record.finding import weakest
from twinlens.reporting import display
from twinlens.reporting.gate import agreement_of, gate_word
from twinlens.reporting.load_kind import SERVED, load_of
from twinlens.reporting.paired import Paired, paired_words, ratio_words, standing_words
from twinlens.reporting.point_name import point_names, precision_of
from twinlens.reporting.text.serving_sentence import served_sentence
from twinlens.reporting.view import headline, in_order, runs_word
from twinlens.reporting.wording.finding import label_words
from twinlens.spec.precision import Lens
from twinlens.stats.estimator.ratio import difference_of_runs, ratio_of_runs
from twinlens.stats.estimator.repeats import widened
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.metrics.training import EQUAL_STEPS
from twinlens.stats.summary.group import Group
from twinlens.units import NATS


def sentences(
    training: Sequence[Group],
    inference: Sequence[Group],
    *,
    searches: Sequence[SearchRecord] = (),
    paired: Sequence[Paired] = (),
) -> tuple[str, str, str]:
    """One sentence per lens and one that keeps them apart. Factors have an interval or say they have none.

    Where points took turns (`paired`) the ratio is that of their slices, if it is valid or provisional.
    """
    both = {"training": in_order(training), "inference": in_order(inference)}
    parts = [f"{lens.capitalize()}: {_both_ways(groups, searches, paired)}" for lens, groups in both.items()]
    batches = [group for group in both["inference"] if load_of(group) not in SERVED]
    return parts[0], parts[1], _apart(both["training"], batches or both["inference"], paired)


def both_counts(group: Group, stalled_s: float) -> str | None:
    """The effect of a pause on p90 TTFT, measured from when requests were due and from when they were sent."""
    waits = [group.metrics.get(name) for name in ("ttft_s_p90", "ttft_from_send_s_p90")]
    if any(wait is None or wait.value is None for wait in waits):
        return None
    due, sent = (display.value(wait) for wait in waits)
    return (
        f"The server was paused for {stalled_s:g} s during the run. p90 TTFT is {due} measured from when requests "
        f"were due, and {sent} measured from when they were sent. Users feel the first."
    )


def against(group: Group, reference: Group, chosen_from: int = 1) -> Estimate | None:
    """The ratio of two groups' headline rates over their runs; None where either is not valid."""
    if not (group.ranked and reference.ranked):
        return None
    sides = [_rates(side) for side in (group, reference)]
    # The largest of several is large by luck too: its interval is of a level at which none of them says too much.
    if not all(sides):
        return None
    rates = [pair[1].hidden for side in (group, reference) if (pair := headline(side))]
    return widened(ratio_of_runs(*sides, level=1 - 0.05 / max(1, chosen_from)), *rates)


def reference_of(group: Group, groups: Sequence[Group]) -> Group | None:
    """The fp32 group of the same model, settings, machine and software, else the widest; None where it is `group`.

    Of an adapter's training that of all weights at the same precision, and of an adapter beside weights the one that
    was merged into them, if there is one.
    """
    if (plain := _without_adapter(group)) is not None:
        same = [each for each in groups if (each.model, each.point, each.tag) == (group.model, plain, group.tag)]
        if same:
            return same[0]
    settings, stack = _settings(group), _stack(group)
    alike = [
        other
        for other in groups
        if other.model == group.model and _settings(other) == settings and _stack(other) == stack
    ]
    reference = next((other for other in alike if precision_of(other) == "fp32"), alike[0] if alike else None)
    return None if reference is group else reference


def _without_adapter(group: Group) -> dict[str, object] | None:
    """The point that does the same without an adapter beside its weights; None where it has none."""
    if group.point.get("method"):
        return {key: value for key, value in group.point.items() if key not in ("method", "r")}
    return group.point | {"adapter": "merged"} if group.point.get("adapter") == "unmerged" else None


def comparison(ratio: Estimate) -> str:
    """A ratio in words: how much, its interval, or that there is no difference to be seen."""
    interval = display.factor_bounds(ratio)
    if not interval:
        return f"{display.factor(ratio)} (no interval: {display.no_interval(ratio)})"
    if ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high:
        return f"{display.factor(ratio)} ({interval}: no difference can be told)"
    return f"{display.factor(ratio)} ({interval})"


def _both_ways(groups: Sequence[Group], searches: Sequence[SearchRecord], paired: Sequence[Paired]) -> str:
    """Points measured in batches, then those that were served: tokens/s at a given rate compare no precisions."""
    served = [group for group in groups if load_of(group) in SERVED]
    batches = [group for group in groups if load_of(group) not in SERVED]
    parts = [_of_machines(batches, paired)] if batches or not served else []
    words = served_sentence(served, searches) if served else ""
    if by_turns := _paired(served, paired):
        words = f"{words} By turns {by_turns}"
    return " ".join([*parts, words[:1].upper() + words[1:]]) if parts and words else words or parts[0]


def _of_machines(groups: Sequence[Group], paired: Sequence[Paired]) -> str:
    """One sentence for each machine: a factor is never of one over another."""
    tags = list(dict.fromkeys(group.tag for group in groups))
    if len(tags) < 2:
        return _paired(groups, paired) or _lens(groups)
    parts = {tag: [group for group in groups if group.tag == tag] for tag in tags}
    by_machine = {tag: _paired(mine, paired) or _lens(mine) for tag, mine in parts.items()}
    return " ".join(f"On machine {tag or '(not recorded)'}: {words}" for tag, words in by_machine.items())


def _paired(groups: Sequence[Group], paired: Sequence[Paired]) -> str | None:
    """The sentence of points that took turns; None where none of theirs may be compared."""
    members = set(map(id, groups))
    ratios = [pair for pair in paired if pair.ranked and pair.is_headline and id(pair.group) in members]
    if not ratios:
        return None
    best = max(ratios, key=lambda pair: pair.result.ratio.value or 0.0)
    text = paired_words(best) + _quality(best.group, best.reference)
    passing = [pair for pair in ratios if gate_word(pair.group) == "pass"]
    if gate_word(best.group) == "fail" and passing:
        second = max(passing, key=lambda pair: pair.result.ratio.value or 0.0)
        text += f"; the fastest that passes is {second.result.above} at {ratio_words(second)}"
    return f"{text}; {standing_words([best])}."


def _lens(groups: Sequence[Group]) -> str:
    if not groups:
        return "not measured."
    names = dict(zip(map(id, groups), point_names(groups), strict=True))
    ranked = [group for group in groups if group.ranked and headline(group)]
    if not ranked:
        reasons = "; ".join(f"{names[id(group)]}: {_state(group)}" for group in groups[:4])
        return f"nothing is valid ({reasons})."
    pairs = [(group, reference_of(group, groups)) for group in ranked]
    ratios = [(group, other, against(group, other)) for group, other in pairs if other is not None]
    ranked_ratios = [
        (group, other, ratio) for group, other, ratio in ratios if ratio is not None and ratio.value is not None
    ]
    if not ranked_ratios:
        return f"{_alone(ranked, names[id(ranked[0])])}{_left_out(groups, names)}"
    best = _for_choice(max(ranked_ratios, key=lambda pair: pair[2].value or 0.0), len(ranked_ratios))
    passing = [pair for pair in ranked_ratios if gate_word(pair[0]) in ("pass", "reference")]
    text = _pair(*best, names) + _quality(*best[:2])
    if best[0].lens == "inference" and gate_word(best[0]) == "fail" and passing:
        next_best = _for_choice(max(passing, key=lambda pair: pair[2].value or 0.0), len(ranked_ratios))
        text += f"; the fastest that passes is {names[id(next_best[0])]} at {comparison(next_best[2])}"
    return f"{text}.{_left_out(groups, names)}"


def _for_choice(pair: tuple[Group, Group, Estimate], of: int) -> tuple[Group, Group, Estimate]:
    """The same ratio with the interval of the largest of `of` ratios."""
    group, other, ratio = pair
    return group, other, against(group, other, of) or ratio


def _state(group: Group) -> str:
    unfinished = [run for run in group.runs if run.state != "finished"]
    return f"unfinished ({display.clean(unfinished[0].state)})" if unfinished else label_words(group.label)


def _pair(group: Group, other: Group, ratio: Estimate, names: dict[int, str]) -> str:
    pair = headline(group)
    rate = METRICS[pair[0]].label if pair else "rate"
    state = weakest(side.validity for side in (group, other))
    doubt = "" if state == "valid" else f" ({state})"
    return f"{names[id(group)]} sustains {comparison(ratio)} the {rate} of {names[id(other)]}{doubt}"


def _quality(group: Group, other: Group) -> str:
    if group.lens == "inference":
        word = gate_word(group)
        agreement = agreement_of(group)
        shown = f" ({agreement[0]} {display.value(agreement[1])})" if agreement else ""
        if word == "fail":
            return f", but fails the quality check{shown}"
        return f" and passes the quality check{shown}" if word == "pass" else "; its fidelity was not measured"
    times = [side.metrics.get("time_to_target_s") for side in (group, other)]
    if all(target_time is not None and target_time.value is not None for target_time in times):
        first, second = (display.value(target_time) for target_time in times)
        return f" and meets the target loss after {first} against {second}"
    losses = [side.metrics.get("final_loss") for side in (group, other)]
    if any(loss is None or loss.value is None for loss in losses):
        return ""
    shown = " and ".join(display.bare(loss, 4) for loss in losses)
    apart = difference_of_runs(*(_losses(side) for side in (group, other)), unit=NATS)
    if apart.value is None or apart.low is None or apart.high is None:
        return f" (final loss {shown} nats, no interval)"
    if apart.low <= 0 <= apart.high:
        told = f"no difference can be told, {apart.low:+.2g} to {apart.high:+.2g} nats"
    else:
        ends = dict.fromkeys(f"{end:.2g}" for end in sorted(map(abs, (apart.low, apart.high))))
        told = f"they differ by {' to '.join(ends)} nats"
    is_equal = all(EQUAL_STEPS in run.metrics["final_loss"].method for side in (group, other) for run in side.runs)
    steps = EQUAL_STEPS if is_equal else "after equal time, not equal steps"
    return f", with final losses of {shown} nats ({told}; {steps})"


def _losses(group: Group) -> list[float]:
    losses = [run.metrics.get("final_loss") for run in group.runs if run.state == "finished"]
    return [loss.value for loss in losses if loss is not None and loss.value is not None]


def _alone(ranked: Sequence[Group], name: str) -> str:
    group, pair = ranked[0], headline(ranked[0])
    spread = display.spread(pair[1]) if pair else ""
    doubt = "" if group.validity == "valid" else group.validity
    how = ", ".join(filter(None, (spread, runs_word(len(group.runs)), doubt)))
    amount = display.value(pair[1]) if pair else "no rate"
    other = "method" if group.point.get("method") else "precision"
    why = f"there is no ratio, as no other {other} is valid"
    if len(ranked) > 1:
        why = f"there is no ratio, as the other {other} is not valid"
    return f"{name} sustains {amount} ({how}); {why}."


def _left_out(groups: Sequence[Group], names: dict[int, str]) -> str:
    """By the names that the sentence before it uses: the fp32 of another model is another point."""
    left = [names[id(group)] for group in groups if not group.ranked]
    return f" Not valid: {', '.join(dict.fromkeys(left))}." if left else ""


def _apart(training: Sequence[Group], inference: Sequence[Group], paired: Sequence[Paired]) -> str:
    if not (training and inference):
        lens: Lens = "training" if training else "inference"
        other = "inference" if training else "training"
        return f"Only {lens} was measured: it says nothing about {other}."
    for group in reversed(training):
        asked = group.model, precision_of(group), group.tag
        twin = next(
            (
                other_group
                for other_group in inference
                if (other_group.model, precision_of(other_group), other_group.tag) == asked
            ),
            None,
        )
        if twin is None:
            continue
        ratios = [_of_reference(group, training, paired), _of_reference(twin, inference, paired)]
        if None not in ratios:
            first, second = (display.factor(ratio) for ratio in ratios if ratio is not None)
            return (
                f"{precision_of(group)} is worth {first} in training and {second} in inference: "
                "two different numbers, and neither predicts the other."
            )
    return "These are two different numbers: neither predicts the other."


def _of_reference(group: Group, groups: Sequence[Group], paired: Sequence[Paired]) -> Estimate | None:
    for pair in paired:
        if pair.ranked and pair.is_headline and pair.group is group:
            return pair.result.ratio
    reference = reference_of(group, groups)
    return against(group, reference) if reference is not None else None


def _rates(group: Group) -> list[float]:
    pairs = [headline(run) for run in group.runs if run.state == "finished"]
    return [pair[1].value for pair in pairs if pair and pair[1].value]


def _stack(group: Group) -> str:
    return group.machine.stack if group.machine else ""


def _settings(group: Group) -> dict[str, object]:
    return {key: value for key, value in group.point.items() if key != "precision"}
