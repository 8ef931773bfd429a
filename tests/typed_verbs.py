"""Verbs as a type checker sees them, which `make lint` asks: an `ignore` that is not needed is an error there."""

from __future__ import annotations

from typing import assert_type

import twinlens as tl


def keywords_and_results_have_types() -> None:
    assert_type(tl.plan.fit("70B", device="H100", users=16, context="8K"), tl.FitResult)
    assert_type(tl.plan.capacity("8B", device="H100", rate=4), tl.CapacityResult)
    assert_type(tl.plan.calibrate("runs", device="H100", tensor=2), tl.Calibration)
    assert_type(tl.measure("chat", at=("rate_per_s=1,2",), fresh=True), tl.Outcome)
    assert_type(tl.burnin("decode", for_="48h", criteria="accept.toml"), tl.BurninResult)
    assert_type(tl.history("runs", metric="ttft_p99"), tuple[tl.History, ...])
    assert_type(tl.claim("70B Q4", users=16, context="8K"), tl.ClaimResult)


def a_misspelt_keyword_and_a_wrong_type_are_errors() -> None:
    tl.plan.fit("8B", contxt="8K")  # type: ignore[call-arg]
    tl.plan.fit("8B", users=[16])  # type: ignore[arg-type]
    tl.plan.cost(rent="3 USD/h", retires="0.03")  # type: ignore[call-arg]
    tl.show("runs", wohle=True)  # type: ignore[call-arg]
    tl.measure("chat", freh=True)  # type: ignore[call-arg]
    tl.compare("a", "b", metrc="ttft_p99")  # type: ignore[call-arg]
