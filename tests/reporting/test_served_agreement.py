"""The sentence on what the server counted: a range over points, or why there is none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twinlens.record.estimate import Estimate
from twinlens.reporting.run.points import agreement_sentence
from twinlens.units import RATIO


def point(**shares: float | None) -> Any:
    found = {
        f"server_{name}_agreement": Estimate.absent(RATIO, "silent")
        if share is None
        else Estimate(share, RATIO, "counts", "measured", n=5)
        for name, share in shares.items()
    }
    return SimpleNamespace(metrics=found, runs=(SimpleNamespace(metrics=found),))


def test_all_points_share_one_sentence_with_their_range() -> None:
    groups = [point(tokens=1.0, requests=1.0, ttft=0.9), point(tokens=1.0, requests=1.02, ttft=0.85)]
    assert agreement_sentence(groups) == (
        "The server's own figures, of the client's: tokens 100%, requests 100–102%, mean TTFT from send 85–90%."
    )


def test_what_the_server_does_not_say_is_left_out() -> None:
    assert "tokens" not in agreement_sentence([point(tokens=None, requests=1.0, ttft=None)])


def test_a_server_without_figures_is_said_to_have_none_and_why() -> None:
    silent = [point(tokens=None, requests=None, ttft=None)] * 2
    assert agreement_sentence(silent) == (
        "The server's own figures (tokens, requests, mean TTFT from send) are not measured: silent."
    )
    nobody: Any = SimpleNamespace(metrics={})
    assert agreement_sentence([nobody]) == ""
