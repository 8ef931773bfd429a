"""Memory that the embedded engine allocated against what theory predicts for the same run; to 2 %."""

from __future__ import annotations

from typing import Any

import pytest

from material import inference, quiet, spec_of, training

torch = pytest.importorskip("torch", reason="needs the torch extra")

from twinlens.executors.torch.infer import TorchServer  # noqa: E402
from twinlens.executors.torch.train import TorchTrainer  # noqa: E402
from twinlens.spec.model.reference import load_model  # noqa: E402
from twinlens.spec.model.shape import DecoderShape  # noqa: E402
from twinlens.spec.precision import precision  # noqa: E402
from twinlens.theory.memory import kv_bytes, layout_of  # noqa: E402
from twinlens.theory.parameter import parameters  # noqa: E402
from twinlens.theory.weight_format import stored_bytes, weight_format  # noqa: E402

pytestmark = pytest.mark.torch


def decoder(name: str) -> DecoderShape:
    shape = load_model(name).shape
    assert isinstance(shape, DecoderShape)
    return shape


def memory_of(executor: Any, spec: dict[str, Any]) -> dict[str, float]:
    facts = executor.open(spec_of(spec), quiet)
    return {name: estimate.value for name, estimate in facts.memory.items() if estimate.value is not None}


@pytest.mark.parametrize(
    ("name", "stored_as", "kv_element"), [("fp32", "fp32", 4), ("bf16", "bf16", 2), ("int4-weight", "int4-g32", 2)]
)
def test_serving_allocates_the_weights_and_the_cache_that_are_predicted(
    name: str, stored_as: str, kv_element: int
) -> None:
    held = memory_of(TorchServer(), inference(model="small", point={"precision": name, "batch": 3}))
    predicted = stored_bytes(decoder("small"), weight_format(stored_as))
    # Tables of rotary positions are no parameters: some kB, here half a per cent.
    assert held["weights_bytes"] == pytest.approx(predicted, rel=0.02)
    assert held["kv_bytes"] == pytest.approx(kv_bytes(decoder("small"), 16 + 6, kv_element, sequences=3), rel=0.02)


@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_training_allocates_the_state_that_is_predicted(name: str) -> None:
    trainer = TorchTrainer()
    held = memory_of(trainer, training(model="small", point={"precision": name}, global_batch=1, seq_len=8))
    layout, count = layout_of(precision(name)), parameters(decoder("small")).total
    assert held["weights_bytes"] == pytest.approx(count * layout.weights, rel=0.02)
    assert held["optimizer_bytes"] == pytest.approx(count * layout.optimizer, rel=0.02)
