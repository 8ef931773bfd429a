"""Memory of plans against public measurements, from the tables in ../shared where they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.memory_of_plans import FITTED, PAGE, TWICE, cases, page

from twinlens.planning.fit.placement import MEMORY_ERROR, TRAINING_SHORT

SHARED = next((up / "shared" / "data" for up in Path(__file__).parents if (up / "shared" / "data").is_dir()), None)
pytestmark = pytest.mark.skipif(SHARED is None, reason="the public measurements lie beside the project, not in it")
CASES = cases(SHARED / "validation") if SHARED else []


def errors(source: str, what: str) -> dict[str, float]:
    return {
        case.model: case.error
        for case in CASES
        if (case.source, case.what) == (source, what) and case.error is not None
    }


def test_every_row_is_told_or_refused_with_a_reason() -> None:
    assert len(CASES) > 150
    assert all((case.error is None) == bool(case.reason) for case in CASES)


def test_what_vllm_takes_is_told_within_three_percent_of_the_memory_or_too_much() -> None:
    """Mistral-Small, which also sees, took 2.12 GiB to sample and prefill, and 4.88 GiB are told: 1,024 sequences × its
    131,072 scores × 39 B. Text models of the same page took just that (Llama-3.1-8B 4.76 GiB of 4.78, Qwen3-32B 5.64 of
    5.65), so this server sampled for fewer sequences, which no field of the model's config says; `--max-sequences`
    does. The sum is then 3.4 % too much: on the safe side, and beyond the aim."""
    sums = errors("vLLM", "sum, by the room left")
    assert abs(sums["gpt-oss-120b (MoE)"]) <= MEMORY_ERROR
    assert -MEMORY_ERROR <= sums["Mistral-Small-3.2-24B"] <= 0.036
    assert all(abs(error) <= 0.01 for error in errors("vLLM", "weights").values())
    assert abs(errors("vLLM", "activation_peak")["gpt-oss-120b (MoE)"]) <= MEMORY_ERROR


def test_what_megatron_takes_is_told_within_three_percent() -> None:
    found = [case.error for case in CASES if case.source == "Megatron"]
    assert len(found) == 9
    assert all(error is not None and abs(error) <= MEMORY_ERROR for error in found)


def test_what_was_trained_with_the_largest_batch_that_fit_is_told_to_fit() -> None:
    """By `plan fit` itself, on the catalogue's models and boards; norms without a bias were taken for RMSNorm, whose
    copies in fp32 made activations up to a fifth too much: 21 of 107 were told not to fit."""
    shares = [case.error for case in CASES if case.what == FITTED and case.error is not None]
    assert len(shares) >= 100
    assert max(shares) <= 0
    assert max(shares) > -0.1, "and the fullest nearly fills the memory"


def test_twice_the_largest_batch_that_fit_is_told_not_to_fit_in_most_runs() -> None:
    """With the whole gradients of a layer and the table 12 of 71 are told to fit, without them 17 of 72. The farthest,
    760M on 32,768 tokens with recompute, would leave a third free: perhaps nobody tried."""
    shares = [case.error for case in CASES if case.what == TWICE and case.error is not None]
    wrong = [error for error in shares if error <= 0]
    assert len(shares) >= 60
    assert len(wrong) <= 12


def test_the_published_table_is_what_the_rows_give() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(CASES)


def test_most_runs_that_are_wrongly_told_to_fit_are_told_that_it_is_close() -> None:
    """9 of 12; of the 107 that fitted, no more than 40 are called close."""
    near = {
        what: sum(1 / (1 + TRAINING_SHORT) <= 1 + case.error <= 1 for case in CASES
                  if case.what == what and case.error is not None)
        for what in (FITTED, TWICE)
    }  # fmt: skip
    assert near[TWICE] >= 9
    assert near[FITTED] <= 40
