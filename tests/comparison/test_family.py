"""Many figures of two equal sides: one of them is "apart" by chance no more often than the level says."""

from __future__ import annotations

import numpy as np

from sides import side
from twinlens.comparison.effect import effects
from twinlens.comparison.side import Side
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.summary.point import quantile_of

_LEFT_OUT = ("client", "server", "peer")
NAMES = [
    name
    for name, metric in METRICS.items()
    if metric.lens in ("inference", "both") and metric.group not in _LEFT_OUT and quantile_of(name) is None
][:29]


def of(values: np.ndarray, name: str) -> Side:
    return side(name, {metric: tuple(each) for metric, each in zip(NAMES, values.tolist(), strict=True)})


def test_two_equal_sides_are_seldom_apart_in_any_of_29_metrics() -> None:
    """Each at 5 % by itself, 23 to 30 % of comparisons of 3 to 5 runs had one that was "apart"."""
    studies, alarms, alone = 80, 0, 0
    for seed in range(studies):
        values = np.random.default_rng(seed).normal(100, 2, (2, len(NAMES), 4))
        found = effects(of(values[0], "a"), of(values[1], "b"), {})
        alarms += any(each.apart for each in found)
        alone += any(each.chance is not None and each.chance < 0.05 for each in found)
    assert alone > studies / 2  # 1 - 0.95^29 is 77 %
    assert alarms <= 0.1 * studies + 2 * np.sqrt(0.1 * 0.9 * studies)  # the first metric by itself, the others together


def test_the_first_metric_is_judged_by_itself() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(100, 1, (2, len(NAMES), 3))
    values[0, 0], values[1, 0] = (99.0, 100.0, 101.0), (102.0, 103.0, 104.0)
    first = effects(of(values[0], "a"), of(values[1], "b"), {})
    by_name = {each.metric: each for each in first}
    one = first[0]
    assert one.metric in NAMES
    assert one.apart == (not one.difference.low <= 0 <= one.difference.high)
    assert sum(bool(each.apart) for each in by_name.values()) <= 1 + sum(
        each.chance < 0.05 / len(NAMES) for each in by_name.values() if each.chance is not None
    )


def test_a_large_effect_in_every_metric_is_found_in_every_metric() -> None:
    values = np.random.default_rng(5).normal(100, 0.2, (2, len(NAMES), 5))
    found = effects(of(values[0], "a"), of(values[1] * 1.1, "b"), {})
    assert sum(bool(each.apart) for each in found) == len(found)
