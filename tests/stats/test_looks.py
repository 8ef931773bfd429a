"""Looks at a run that goes on: when they are, how sure each must be, and that deciding early is wrong no more often."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.coverage.looks import CASES, PROTOCOL, one

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.spec.protocol import Protocol
from twinlens.spec.slo import Slo
from twinlens.stats.serving.looks import level_of, looks_s, undecided
from twinlens.stats.serving.window import Window
from twinlens.units import RATIO, SECONDS

SLO = Slo(ttft_s=1.0, quantile=0.9)


def window(label: str = "steady") -> Window:
    return Window(np.arange(9), 0, 1, 0, 9, label, True, Finding("steady", "notes"))  # type: ignore[arg-type]


def test_looks_grow_by_half_up_to_the_most_and_share_the_doubt() -> None:
    assert looks_s(Protocol(duration_s=60, most_s=240)) == (60, 90, 135, 202.5, 240)
    assert looks_s(Protocol(duration_s=60)) == (60,)
    assert level_of(Protocol(duration_s=60)) == pytest.approx(0.95)
    assert level_of(Protocol(duration_s=60, most_s=240)) == pytest.approx(0.99)


def test_a_run_goes_on_until_its_slo_is_decided() -> None:
    def seen(share: float, n: int) -> str:
        return undecided({"ttft_s_within": Estimate(share, RATIO, "made", "measured", n=n)}, window(), SLO, PROTOCOL)

    assert seen(0.99, 1000) == ""
    assert seen(0.5, 1000) == ""
    assert "within the SLO" in seen(0.91, 1000)
    at_95 = Estimate(0.93, RATIO, "made", "measured", n=400)
    assert undecided({"ttft_s_within": at_95}, window(), SLO, Protocol(duration_s=60)) == ""
    assert undecided({"ttft_s_within": at_95}, window(), SLO, PROTOCOL) != "", "what one look decides, five may not"


def test_without_an_slo_a_run_goes_on_until_p90_is_known_within_its_width() -> None:
    def seen(**bounds: float) -> str:
        return undecided({"ttft_s_p90": Estimate(1.0, SECONDS, "made", "measured", **bounds)}, window(), None, PROTOCOL)

    assert seen(low=0.85, high=1.15, level=0.95) == ""
    assert seen(low=0.85, high=1.25, level=0.95) == "p90 TTFT (known within 25%, 20% asked)"
    assert seen() == "p90 TTFT (no interval yet)"


def test_a_queue_that_grows_and_a_server_that_fails_are_not_waited_for() -> None:
    assert undecided({}, window("overload"), SLO, PROTOCOL) == ""
    assert undecided({}, window("failing"), None, PROTOCOL) == ""
    assert undecided({}, None, None, PROTOCOL) == "no request has ended"


@pytest.mark.parametrize("case", CASES)
def test_deciding_early_is_wrong_in_no_more_than_one_run_in_twenty(case: str) -> None:
    rng = np.random.default_rng(8)
    found = [one(CASES[case](rng, 8.0, PROTOCOL.most_s), level_of(PROTOCOL)) for _ in range(60)]
    assert sum(decided for decided, _ in found) <= 8, "3 of 60 are allowed, and 8 are 2.9 standard errors above"
    held = [holds for _, holds in found if holds is not None]
    assert len(held) >= 55, "of a queue 9 % had an interval, by luck, and 90 % of these held the truth"
    assert sum(held) >= 0.93 * len(held)
