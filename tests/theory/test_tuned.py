"""Fine-tuning counted by hand: parameters, FLOP and bytes of adapters on a small decoder."""

from __future__ import annotations

import pytest

from material import spec_of, training
from twinlens.errors import BadInput
from twinlens.measurement.facts.predicted_memory import predicted_memory
from twinlens.measurement.facts.predicted_work import theory_of
from twinlens.measurement.preflight.memory import needed
from twinlens.theory.adapter import Tuned, tuned
from twinlens.theory.parameter import parameters

# tiny: 2 layers, hidden 128, 4 heads of 32, 2 of keys and values, MLP 1024, vocabulary 512, head of its own.
OUTPUTS = 128 + 64 + 64 + 128 + 1024 + 1024 + 128
IN_AND_OUT = (128 + 128) + 2 * (128 + 64) + (128 + 128) + 3 * (128 + 1024)
MATRICES = 2 * (128 * 128 + 2 * 128 * 64 + 128 * 128 + 3 * 128 * 1024)
HEAD = 512 * 128


def of(**parts: object) -> Tuned:
    spec = spec_of(training(**parts))
    found = tuned(spec.workload, spec.model.shape, spec.precision)
    assert found is not None
    return found


def test_an_adapter_has_r_parameters_for_each_input_and_output_and_dora_one_more_for_each_output() -> None:
    assert of(method="lora").parameters == 2 * 8 * IN_AND_OUT == 69_632
    assert of(method="qlora", adapter={"r": 16}).parameters == 2 * 16 * IN_AND_OUT
    assert of(method="dora").parameters == 2 * (8 * IN_AND_OUT + OUTPUTS) == 74_752
    two = {"r": 4, "target_modules": ["q_proj", "down_proj"]}
    assert of(method="lora", adapter=two).parameters == 2 * 4 * (256 + 1152)
    assert of(method="dora", adapter=two).parameters == 2 * (4 * (256 + 1152) + 256)


def test_a_step_multiplies_frozen_weights_twice_and_adapters_three_times() -> None:
    # 4·N + 3·attention + 6·adapter, less what goes back to the first layer's input: its q, k, v and their inner halves.
    attention = 2 * (2 * 4 * 32 * 2) * 32 / 2  # two layers: scores and values of 4 heads of 32, half of a square
    by_hand = 4 * (MATRICES + HEAD) + 3 * attention + 6 * 69_632 - 2 * 128 * (128 + 64 + 64 + 3 * 8)
    assert of(method="lora").flop_per_token(32) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize(
    ("method", "precision", "frozen"),
    [
        ("lora", "fp32", 4 * 1_016_448),
        ("dora", "bf16", 2 * 1_016_448),
        # 4 bits, 8 more for 64 weights and 32 more for 64 × 256; head, table and norms in the format of the products.
        ("qlora", "bf16", MATRICES * (4 + 8 / 64 + 32 / 16384) / 8 + 2 * (1_016_448 - MATRICES)),
        ("qlora", "fp32", MATRICES * (4 + 8 / 64 + 32 / 16384) / 8 + 4 * (1_016_448 - MATRICES)),
    ],
)
def test_bytes_of_what_stays_and_16_for_each_parameter_that_is_trained(
    method: str, precision: str, frozen: float
) -> None:
    spec = spec_of(training(method=method, point={"precision": precision}))
    known = {name: estimate.value for name, estimate in predicted_memory(spec).items()}
    trained = of(method=method).parameters
    assert known["predicted_weights_bytes"] == pytest.approx(frozen, rel=1e-12)
    assert known["predicted_adapter_bytes"] == known["predicted_gradients_bytes"] == 4 * trained
    assert known["predicted_optimizer_bytes"] == 8 * trained
    memory = of(method=method, point={"precision": precision}).memory(4, 32)
    state = memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes
    assert state == pytest.approx(frozen + 16 * trained, rel=1e-12)


def test_theory_says_that_it_has_no_formula_for_adapters_on_experts() -> None:
    spec = spec_of(training(model="mixtral-8x7b", method="lora"))
    assert predicted_memory(spec) == {}
    assert theory_of(spec)["step_flop"].value is None
    assert "dense decoders" in (theory_of(spec)["step_flop"].reason or "")


def test_a_large_model_whose_adapter_alone_is_trained_needs_less_than_all_of_it() -> None:
    whole, adapter = (needed(spec_of(training(model="llama-3.1-8b", method=m)))[0] for m in ("full", "lora"))
    assert whole is not None
    assert adapter is not None
    shape = spec_of(training(model="llama-3.1-8b")).model.shape
    assert whole - adapter > 11 * parameters(shape).total, "gradients and two moments, less what an adapter takes"


def test_the_precision_of_an_adapters_training_has_its_own_formats_and_name() -> None:
    plain = spec_of(training(method="lora", point={"precision": "bf16"})).precision
    assert plain.name == "bf16"
    assert (plain.training["weights"], plain.training["master"]) == ("bf16", "fp32")
    packed = spec_of(training(method="qlora", point={"precision": "bf16"})).precision
    assert packed.name == "nf4, computed in bf16"
    assert (packed.training["weights"], packed.training["activations"]) == ("nf4", "bf16")
    assert spec_of(training(point={"precision": "bf16"})).precision.training["weights"] == "fp32"


def test_an_adapter_at_fp8_is_refused() -> None:
    with pytest.raises(BadInput, match="an adapter is trained at fp32, tf32, bf16 or fp16, not at fp8") as refused:
        spec_of(training(method="lora", point={"precision": "fp8"}))
    assert refused.value.code == "TL203"
