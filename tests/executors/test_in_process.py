"""What any engine in this process shares, worked by hand and without torch."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.in_process.ceiling import rate
from twinlens.executors.in_process.inputs import PromptPool, check_data
from twinlens.executors.in_process.precision_check import compared_with, over_phases, precision_checks
from twinlens.spec.model.reference import load_model
from twinlens.spec.workload.workload import Images, Markov


def test_a_distribution_is_compared_with_its_reference_by_hand() -> None:
    reference = np.log(np.array([[0.5, 0.5], [0.9, 0.1]], dtype=np.float32))
    seen = np.log(np.array([[0.25, 0.75], [0.8, 0.2]], dtype=np.float32))
    row = compared_with(reference, seen, np.array([0, 1]))
    first = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    second = 0.9 * math.log(0.9 / 0.8) + 0.1 * math.log(0.1 / 0.2)
    assert (row.tokens, row.agreed) == (2, 1)
    assert row.kl_nats == pytest.approx(first + second, rel=1e-5)
    assert row.nll_nats == pytest.approx(-math.log(0.75), rel=1e-6), "of the second token, after the first"
    assert row.reference_nll_nats == pytest.approx(-math.log(0.5), rel=1e-6)


def test_an_image_has_no_likelihood_and_a_model_is_no_distance_from_itself() -> None:
    same = np.log(np.array([[0.2, 0.8]], dtype=np.float32))
    row = compared_with(same, same, None)
    assert (row.kl_nats, row.nll_nats, row.reference_nll_nats, row.agreed) == (0.0, 0.0, 0.0, 1)


@pytest.mark.parametrize("tokens", [None, np.array([0, 1])])
@pytest.mark.parametrize("broken", [math.nan, -math.inf])
def test_outputs_that_are_no_probabilities_are_refused_and_not_a_distance_of_zero(
    tokens: np.ndarray | None, broken: float
) -> None:
    reference = np.log(np.array([[0.5, 0.5], [0.9, 0.1]], dtype=np.float32))
    seen = reference.copy()
    seen[1, 0] = broken
    with pytest.raises(ExecutorFailed, match=r"no probabilities at 1 of 2 positions"):
        compared_with(reference, seen, tokens)


def test_a_class_that_both_rule_out_adds_nothing_to_the_distance() -> None:
    with np.errstate(divide="ignore"):
        reference = np.log(np.array([[0.5, 0.5, 0.0]], dtype=np.float32))
        seen = np.log(np.array([[0.25, 0.75, 0.0]], dtype=np.float32))
    kl = compared_with(reference, seen, None).kl_nats
    assert kl == pytest.approx(0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75), rel=1e-5)


def test_equal_seeds_give_equal_prompts_of_the_models_vocabulary() -> None:
    ref = load_model("tiny")
    one, other = (PromptPool(Markov(), ref, 7, 64) for _ in range(2))
    prompts = one.batch([(1, 0), (1, 1), (1, 0)], 16)
    assert prompts.shape == (3, 16)
    assert (prompts[0] == prompts[2]).all()
    assert (prompts[0] != prompts[1]).any()
    assert (prompts == other.batch([(1, 0), (1, 1), (1, 0)], 16)).all()
    assert 0 <= prompts.min() <= prompts.max() < ref.shape.vocab  # type: ignore[union-attr]
    with pytest.raises(BadInput, match="do not fit"):
        check_data(Images(), ref)


def test_what_ran_is_checked_against_what_was_declared_over_all_phases() -> None:
    declared, support = {"weights": "int8", "compute": "bf16"}, {"bf16": "native"}
    resident = {"weights": {"int8": 900, "bf16": 200}}  # 900 elements and 100
    prefill = precision_checks(declared, resident, {"bf16": 1.0}, support, "")
    decode = precision_checks(declared, resident, {"fp32": 0.9, "bf16": 0.1}, support, "")
    assert [(check.verdict, check.support) for check in prefill] == [("agrees", "storage-only"), ("agrees", "native")]
    both = {check.tensor_class: check for check in over_phases({"prefill": prefill, "decode": decode})}
    assert both["weights"].verdict == "agrees"
    assert (both["compute"].verdict, both["compute"].observed) == ("differs", "fp32")
    unseen = precision_checks({"compute": "bf16"}, {}, {}, support, "nobody looked")
    assert (unseen[0].verdict, unseen[0].evidence) == ("unknown", "nobody looked")


def test_a_rate_is_the_median_of_its_repeats() -> None:
    estimate = rate(6.0, [1.0, 2.0, 3.0], "bytes/s", "by hand")
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (3.0, 2.0, 6.0, 3)


def test_none_of_it_imports_torch() -> None:
    names = ("ceiling", "precision_check", "inputs", "player")
    imports = "; ".join(f"import twinlens.executors.in_process.{name}" for name in names)
    code = f"import sys; {imports}; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
