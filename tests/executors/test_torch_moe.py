"""Mixtures of experts: their products are counted, their experts quantised, and what a kernel cannot do is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from material import inference, quiet, spec_of, training

torch = pytest.importorskip("torch", reason="needs the torch extra")
from torch import nn  # noqa: E402

from twinlens.errors import BadInput  # noqa: E402
from twinlens.executors.torch.infer import TorchServer  # noqa: E402
from twinlens.executors.torch.model.build import build_model  # noqa: E402
from twinlens.executors.torch.model.quantize import apply_precision, split_experts  # noqa: E402
from twinlens.executors.torch.train import TorchTrainer  # noqa: E402
from twinlens.measurement.facts.predicted_work import coverage_of, theory_of  # noqa: E402
from twinlens.record.estimate import Estimate  # noqa: E402
from twinlens.record.executor.facts import Facts  # noqa: E402
from twinlens.reporting.wording.finding import sentence_of  # noqa: E402
from twinlens.spec.model.reference import load_model  # noqa: E402
from twinlens.stats.metrics.fidelity import fidelity  # noqa: E402
from twinlens.stats.metrics.training import _efficiency  # noqa: E402
from twinlens.units import FLOP_PER_S  # noqa: E402

pytestmark = pytest.mark.torch
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "vocab_size": 256,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
}


@pytest.fixture
def mixtral(tmp_path: Path) -> str:
    file = tmp_path / "mixtral.json"
    file.write_text(json.dumps(MIXTRAL))
    return str(file)


def opened(lens: Any, **parts: Any) -> tuple[Any, Facts]:
    executor = TorchServer() if lens is inference else TorchTrainer()
    return executor, executor.open(spec_of(lens(**parts)), quiet)


def test_experts_as_linear_layers_give_the_same_answer(mixtral: str) -> None:
    one, other = (build_model(load_model(mixtral), "sdpa", 3, torch.device("cpu")).eval() for _ in range(2))
    assert split_experts(other)
    assert not any(p.ndim == 3 for p in other.parameters())
    ids = torch.arange(12)[None]
    with torch.inference_mode():
        torch.testing.assert_close(other(input_ids=ids).logits, one(input_ids=ids).logits)


@pytest.mark.parametrize(("precision", "stored"), [("int8-weight", "int8"), ("int8-dynamic", "int8")])
def test_a_quantised_mixture_holds_what_it_is_called(mixtral: str, precision: str, stored: str) -> None:
    _, facts = opened(inference, model=mixtral, point={"precision": precision})
    seen = {check.tensor_class: check for check in facts.precision}
    assert (seen["weights"].observed, seen["weights"].verdict) == (stored, "agrees"), seen["weights"].evidence
    assert (fidelity(facts.fidelity)["top1_agreement"].value or 0) > 0.9


def test_a_small_deepseek_v3_in_int4_runs_and_says_what_its_kernel_could_not_do(tmp_path: Path) -> None:
    asked = {
        "model_type": "deepseek_v3", "hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "n_routed_experts": 4,
        "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
        "kv_lora_rank": 32, "q_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16,
        "vocab_size": 256, "max_position_embeddings": 128, "tie_word_embeddings": False,
    }  # fmt: skip
    file = tmp_path / "deepseek.json"
    file.write_text(json.dumps(asked))
    _, facts = opened(inference, model=str(file), point={"precision": "int4-weight"})
    (weights,) = (check for check in facts.precision if check.tensor_class == "weights")
    assert (weights.observed, weights.verdict) == ("int4", "agrees"), weights.evidence
    assert any("2 linear layers stay in bf16 (40 × 64)" in note for note in map(sentence_of, facts.findings)), (
        facts.findings
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_products_of_experts_are_counted(mixtral: str, precision: str) -> None:
    parts = {"model": mixtral, "options": {"attention": "eager"}, "point": {"precision": precision}}
    trainer, facts = opened(training, **parts)
    assert facts.work["counted_step_flop"].value == theory_of(trainer.spec)["step_flop_palm_full"].value
    server, facts = opened(inference, **parts)
    assert coverage_of(theory_of(server.spec) | facts.work)["flop_coverage"].value == 1.0


def test_hardware_flop_below_the_models_own_are_no_hfu() -> None:
    def flop(value: float) -> Estimate:
        return Estimate(value, "flop", "by hand", "measured", n=1)

    def efficiency(counted: float) -> dict[str, Estimate]:
        _, facts = opened(training)
        work = {"step_flop": flop(100.0), "counted_step_flop": flop(counted)}
        ceilings = {"matrix_flop_per_s": Estimate(1e3, FLOP_PER_S, "by hand", "measured", n=1)}
        rate = Estimate(10.0, "token/s", "by hand", "measured", 9.0, 11.0, 0.95, 20)
        return _efficiency(rate, 10.0, Facts(facts.executor, work=work, ceilings=ceilings))

    missed = efficiency(23.0)["hfu"]
    assert missed.value is None
    assert "only 23% of the model's FLOP were counted" in (missed.reason or "")
    whole = efficiency(120.0)
    assert (whole["hfu"].value or 0) == pytest.approx(1.2 * (whole["mfu"].value or 0))


def test_layers_a_kernel_cannot_do_stay_in_bf16_and_that_is_said() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fits, self.odd = nn.Linear(64, 64), nn.Linear(64, 40)

    model = apply_precision(Odd(), "int4-weight")
    assert not isinstance(model.fits, nn.Linear)
    assert isinstance(model.odd, nn.Linear)
    assert model.odd.weight.dtype == torch.bfloat16
    from twinlens.executors.torch.model.quantize import left_wide

    left = left_wide(model, "int4-weight")
    said = sentence_of(left) if left else ""
    assert said.startswith("1 linear layers stay in bf16 (40 × 64)")
    assert said.endswith("needs inputs that divide by 32 and outputs by 16.")


def test_a_model_no_layer_of_which_fits_is_refused_with_a_sentence() -> None:
    with pytest.raises(BadInput, match="fits no linear layer of this model") as refused:
        apply_precision(nn.Sequential(nn.Linear(30, 30)), "int4-weight")
    assert refused.value.code == "TL203"


def test_int8_weight_on_a_gpu_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(64, 64, device="meta"))
    monkeypatch.setattr(torch.Tensor, "device", property(lambda self: torch.device("cuda", 0)))
    with pytest.raises(BadInput, match="no fast kernel in torch for a GPU") as refused:
        apply_precision(model, "int8-weight")
    assert refused.value.code == "TL203"


def test_bytes_of_linear_layers_are_those_of_the_formats_they_are_stored_in() -> None:
    """A head tied to the embedding stays in bf16, in the model and so in its bytes."""
    config = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1,
              "num_attention_heads": 2, "vocab_size": 256, "max_position_embeddings": 64}  # fmt: skip
    linears = 4 * 64 * 64 + 3 * 64 * 128
    for tied, wanted in ((True, linears + 2 * 256 * 64), (False, linears + 256 * 64)):
        import tempfile

        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(config | {"tie_word_embeddings": tied}, file)
            file.flush()
            server, facts = opened(inference, model=file.name, point={"precision": "int8-weight"})
            assert facts.work["linear_bytes"].value == wanted
            modelled = theory_of(server.spec)["decode_bytes"].value or 0.0
            assert modelled > wanted
            assert modelled < 1.35 * wanted, "norms, scales, rows of the embedding and the cache come on top"
