"""The distance from fp32, and the gate, by hand."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.record.codec import decode, encode
from twinlens.record.executor.facts import FidelityRow
from twinlens.reporting.wording.finding import clause_of
from twinlens.spec.protocol import Tolerance
from twinlens.stats.metrics.fidelity import Gate, fidelity, fidelity_gate

rows = st.builds(
    lambda tokens, agreed, kl, nll, reference: FidelityRow(tokens, min(tokens, agreed), kl, nll, reference),
    st.integers(2, 500), st.integers(0, 500), st.floats(0, 100), st.floats(0, 1000), st.floats(0.1, 1000),
)  # fmt: skip


def test_agreement_divergence_and_perplexity_by_hand() -> None:
    seen = [FidelityRow(11, 10, 0.22, 21.0, 20.0), FidelityRow(11, 9, 0.44, 20.0, 20.0)]
    metrics = fidelity(seen)
    assert metrics["top1_agreement"].value == pytest.approx((10 / 11 + 9 / 11) / 2)
    assert metrics["kl_nats"].value == pytest.approx(0.03)
    assert metrics["perplexity_change"].value == pytest.approx(math.expm1(0.05))  # (0.1 + 0) / 2 nats per token
    assert metrics["top1_agreement"].n == 2


def test_images_have_no_perplexity_and_nothing_compared_is_nothing() -> None:
    assert set(fidelity([FidelityRow(1, 1, 0.0, 0.0, 0.0)] * 8)) == {"top1_agreement", "kl_nats"}
    assert fidelity([]) == {}
    assert fidelity_gate({}, Tolerance()) is None


@given(st.lists(rows, min_size=1, max_size=12))
def test_shares_stay_shares_and_divergence_is_never_negative(seen: list[FidelityRow]) -> None:
    metrics = fidelity(seen)
    for name, most in (("top1_agreement", 1.0), ("kl_nats", math.inf)):
        estimate = metrics[name]
        for bound in (estimate.low, estimate.value, estimate.high):
            assert bound is None or 0 <= bound <= most


def test_the_gate_names_every_limit_that_is_broken() -> None:
    perfect = [FidelityRow(10, 10, 0.0, 9.0, 9.0)] * 8
    assert fidelity_gate(fidelity(perfect), Tolerance()) == Gate(True, (), Tolerance().model_dump())
    poor = fidelity_gate(fidelity([FidelityRow(10, 9, 1.0, 12.0, 9.0)] * 8), Tolerance())
    assert poor is not None
    assert poor.go is False
    assert decode(Gate, json.loads(json.dumps(encode(poor)))) == poor
    said = [clause_of(one) for one in poor.broken]
    assert said[:2] == ["top-1 agreement 0.900 is below 0.95", "KL per token 0.100 is above 0.05"]
    assert [one.subject for one in poor.broken] == ["top1_agreement", "kl_nats", "perplexity_change"]
    better = fidelity_gate(fidelity([FidelityRow(10, 10, 0.0, 3.0, 9.0)] * 8), Tolerance())
    assert better is not None
    assert better.go is True, "to be less perplexed than fp32 is no fault"
