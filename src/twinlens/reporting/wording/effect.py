"""Effects in words: "tokens/s: B is 2.09× A (2.01–2.17×)", or that the two cannot be told apart."""

from __future__ import annotations

from twinlens.comparison.effect import Effect
from twinlens.reporting import display
from twinlens.reporting.wording.number import percent
from twinlens.stats.metrics.definition import METRICS

_WAYS = {"slices": ", from slices by turns", "arrivals": ", on the same arrivals"}


def label_of(metric: str) -> str:
    """The label of a metric, safe to show."""
    return METRICS[metric].label if metric in METRICS else display.clean(metric, 30)


def effect_words(effect: Effect) -> str:
    """One effect as a clause; of one that has no ratio, why."""
    label = label_of(effect.metric)
    if effect.ratio.value is None and effect.difference.value is None:
        return f"{label}: no ratio ({display.clean(effect.ratio.lacks)})"
    by_turns = _WAYS.get(effect.way, "")
    if effect.apart is None:
        return f"{label}: {_size(effect)}; whether they differ cannot be said ({display.no_interval(effect.ratio)})"
    if effect.apart:
        return f"{label}: {_size(effect)}{by_turns}"
    if effect.floor is not None and effect.ratio.low is not None and not _holds_1(effect):
        return (
            f"{label}: no difference beyond the noise floor of this machine, {percent(effect.floor)} ({_size(effect)})"
        )
    if effect.way in ("runs", "arrivals") and effect.chance is not None and not _holds_1(effect):
        return f"{label}: A and B are not told apart among so many figures ({_size(effect)})"
    seen = f"; a change below {percent(effect.smallest)} could not have shown" if effect.smallest else ""
    return f"{label}: A and B cannot be told apart ({_size(effect)}{by_turns}{seen})"


def _holds_1(effect: Effect) -> bool:
    """Whether by itself its ratio may be 1."""
    low, high = effect.ratio.low, effect.ratio.high
    return low is None or low <= 1 <= (high or 1)


def _size(effect: Effect) -> str:
    if effect.ratio.value is None:
        return f"B is {display.value(effect.difference)} above A"
    bounds = display.factor_bounds(effect.ratio)
    return f"B is {display.factor(effect.ratio)} A{f' ({bounds})' if bounds else ''}"
