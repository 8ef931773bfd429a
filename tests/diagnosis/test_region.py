"""Region of validity: ends worked by hand, and held to the roofline on both of their sides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnosis.saturated import CEILINGS, decoded, request, served, step, trained
from diagnosis.test_scale_out import demo
from twinlens.diagnosis.decoder import (
    Roofs,
    Trained,
    batch_at_flip,
    cache_bytes,
    context_at_cache,
    samples_at_flip,
    weights_bytes,
)
from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.quantise import prompt_at_flip, region
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import advice_of, sentence_of
from twinlens.theory.flop import prefill_flop

ROOFS = Roofs(100e9, 10e9)
CASES: dict[str, tuple[Evidence, list[str]]] = {
    "decode": (replace(decoded(6e7, 1.2e8), decoder=demo()),
               ["batch", "context", "prompt", "clock", "precision", "stack"]),
    "training": (replace(trained(step(forward=1.0), 70e9), trained=Trained(2, 35e9, 4e9, 1e8)),
                 ["samples", "clock", "precision", "stack"]),
    "served": (served(request(decode=1.0)), ["load", "precision", "stack"]),
    "no ceilings": (trained(step(forward=1.0), ceilings={}), ["precision", "stack"]),
}  # fmt: skip


def end(seen: Evidence, subject: str) -> Finding:
    return next(each for each in region(seen) if each.subject == subject)


@pytest.mark.parametrize("case", CASES)
def test_each_kind_of_run_has_its_ends_in_words(case: str) -> None:
    seen, subjects = CASES[case]
    found = region(seen)
    assert [each.subject for each in found] == subjects
    for each in found:
        assert not sentence_of(each).startswith("A check found")
        assert advice_of(each)


def test_a_step_flips_at_the_samples_worked_by_hand() -> None:
    # A sample is 35 GFLOP, 0.35 s at 100 GFLOP/s, and 0.1 GB, 0.01 s at 10 GB/s; 4 GB move anyway, 0.4 s.
    at = samples_at_flip(Trained(2, 35e9, 4e9, 1e8), CEILINGS)
    assert at == pytest.approx(0.4 / (0.35 - 0.01))
    assert "below 1.2 samples a step, bytes bind; 2 were measured" in sentence_of(end(CASES["training"][0], "samples"))
    assert samples_at_flip(Trained(2, 1e9, 4e9, 1e8), CEILINGS) is None, "its bytes grow faster than its arithmetic"
    assert samples_at_flip(Trained(2, 1e9, 4e9, 1e8), {}) is None


def test_a_clock_ends_it_where_the_ridge_passes_the_phase() -> None:
    # Decode of 0.5 FLOP/byte below a ridge of 10: at a twentieth of the clock arithmetic would bind.
    assert end(CASES["decode"][0], "clock").numbers["times"] == pytest.approx(0.05)
    # A step of 70 FLOP/byte: at seven times the clock bytes would.
    assert end(CASES["training"][0], "clock").numbers["times"] == pytest.approx(7.0)


def test_the_cache_of_the_demo_is_its_weights_at_a_context_worked_by_hand() -> None:
    # fp32: 8 layers' keys and values are 16 KiB a token; 117.5 MB of weights are 7,170 tokens of it.
    assert context_at_cache(demo()) == 7170
    assert context_at_cache(demo(), 10) == pytest.approx(717, abs=1)


@given(st.integers(1, 32))
def test_at_that_context_cache_and_weights_are_equal(batch: int) -> None:
    ran = demo(batch=batch)
    at = context_at_cache(ran)
    assert at is not None
    weights = float(weights_bytes(ran, None, batch))
    assert float(cache_bytes(ran, batch, None, at - 1)) < weights <= float(cache_bytes(ran, batch, None, at + 1))


@given(st.floats(1.1e10, 1e13), st.floats(1e9, 1e11))
def test_a_prompt_that_flips_is_the_shortest_one(flop_per_s: float, bytes_per_s: float) -> None:
    ran, roofs = demo(), Roofs(flop_per_s, bytes_per_s)
    at = prompt_at_flip(ran, roofs)
    if at is None or at == 1:
        return
    weights = float(weights_bytes(ran)) / bytes_per_s
    assert float(prefill_flop(ran.shape, at - 1)) / flop_per_s < 1.5 * weights
    assert float(prefill_flop(ran.shape, at)) / flop_per_s >= 0.99 * weights


def test_a_faster_memory_flips_at_a_smaller_batch() -> None:
    slow, fast = (batch_at_flip(demo(), Roofs(100e9, each)) for each in (10e9, 40e9))
    assert slow is not None
    assert fast is not None
    assert fast < slow
    assert batch_at_flip(demo(), Roofs(1e15, 1e9)) is None, "the cache of each sequence alone takes longer"
