"""An SLO has three colours, and an undecided one says how many requests it needs."""

from __future__ import annotations

import pytest

from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import sentence_of
from twinlens.stats.estimator.repeats import binomial_bounds
from twinlens.stats.serving.goodput import decided_by


@pytest.mark.parametrize(("share", "quantile"), [(1.0, 0.95), (0.969, 0.99), (0.90, 0.95), (0.96, 0.95)])
def test_so_many_requests_decide_it_and_a_tenth_fewer_do_not(share: float, quantile: float) -> None:
    enough = decided_by(share, quantile)
    assert enough is not None
    decided = [
        low >= quantile or high < quantile
        for low, high in (binomial_bounds(share, n, 0.95) for n in (enough, 0.9 * enough))
    ]
    assert decided == [True, False]


def test_all_good_requests_decide_a_95_percent_slo_after_72_of_them() -> None:
    """0.95^72 is 0.0249, the first below 0.025."""
    assert decided_by(1.0, 0.95) == pytest.approx(71.9, rel=0.02)


def test_a_share_that_is_the_quantile_is_never_decided() -> None:
    assert decided_by(0.95, 0.95) is None


def test_the_sentence_says_how_many_more() -> None:
    numbers = {
        "limit_s": 0.5,
        "quantile": 0.99,
        "share": 0.969,
        "low": 0.94,
        "high": 0.995,
        "requests": 96,
        "more": 250,
    }
    said = sentence_of(Finding("slo-unclear", "warns", "ttft_s", numbers))
    assert said.startswith("It is undecided if the SLO is met: 96.9% of requests keep TTFT")
    assert said.endswith("about 250 more requests decide it.")
