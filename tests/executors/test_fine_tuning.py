"""Fine-tuning on torch: what is trained, what is held, where it begins. Refusals need no PEFT; runs are slow tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from material import inference, measured, quiet, spec_of, training

torch = pytest.importorskip("torch", reason="needs the torch extra")

from twinlens.errors import BadInput  # noqa: E402
from twinlens.executors import refuse  # noqa: E402
from twinlens.executors.torch.infer import TorchServer  # noqa: E402
from twinlens.executors.torch.model.build import build_model  # noqa: E402
from twinlens.executors.torch.train import TorchTrainer  # noqa: E402
from twinlens.measurement.facts.predicted_memory import predicted_memory  # noqa: E402
from twinlens.measurement.facts.predicted_work import theory_of  # noqa: E402
from twinlens.record.executor.facts import Facts  # noqa: E402
from twinlens.reporting.wording.finding import sentence_of  # noqa: E402
from twinlens.spec.model.reference import load_model  # noqa: E402
from twinlens.stats.run_summary import summarise  # noqa: E402

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")


def opened(**parts: Any) -> tuple[TorchTrainer, Facts]:
    trainer = TorchTrainer()
    return trainer, trainer.open(spec_of(training(**parts)), quiet)


def refused(**parts: Any) -> BadInput:
    with pytest.raises(BadInput) as caught:
        refuse.refuse_unsupported(spec_of(training(**parts)))
    return caught.value


def test_without_peft_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refuse, "find_spec", lambda name: None)
    error = refused(method="qlora")
    assert str(error) == (
        "workload.method 'qlora' needs peft and bitsandbytes, not installed here; "
        "install the extra: pip install 'twinlens[finetune]'"
    )
    assert error.code == "TL207"


def test_an_executor_that_trains_all_weights_only_says_so() -> None:
    error = refused(kind="torch-parallel", method="lora", options={"ranks": 2})
    assert "torch-parallel trains with the method full, and workload.method is 'lora'" in str(error)


def test_an_adapter_where_all_weights_are_trained_is_refused() -> None:
    with pytest.raises(BadInput, match=r"workload\.adapter means nothing where all weights are trained"):
        spec_of(training(adapter={"r": 4}))
    assert spec_of(training(adapter={"r": 4}, sweep={"workload.method": ["full", "lora"]})).workload


def test_an_adapter_on_layers_that_are_not_there_names_those_that_are() -> None:
    with pytest.raises(BadInput) as error:
        opened(method="lora", adapter={"target_modules": ["q_proj", "c_attn"]})
    assert str(error.value) == (
        "workload.adapter.target_modules names 'c_attn', and tiny has no such linear layer; it has q_proj, k_proj, "
        "v_proj, o_proj, gate_proj, up_proj, down_proj"
    )
    assert error.value.code == "TL202"


def test_an_adapter_on_a_vision_model_is_refused() -> None:
    with pytest.raises(BadInput, match="an adapter stands beside the layers of a decoder, and vit-tiny is none"):
        opened(model="vit-tiny", method="lora")


def test_training_goes_on_from_the_weights_of_a_folder_and_says_which(tmp_path: Path) -> None:
    build_model(load_model("tiny"), "sdpa", 7, CPU).save_pretrained(tmp_path, safe_serialization=True)
    trainer, facts = opened(model=str(tmp_path))
    given = build_model(load_model("tiny"), "sdpa", 7, CPU)
    inputs, targets = trainer.batches.held_out(0)
    logits = given(inputs).logits.flatten(0, 1)
    expected = float(torch.nn.functional.cross_entropy(logits, targets.flatten()).detach())
    note = next(finding for finding in facts.findings if finding.code == "from-weights")
    assert note.numbers["loss_nats"] == pytest.approx(expected, rel=1e-5)
    assert note.numbers["hash"] == facts.executor.value("model.weights_hash")
    assert facts.executor.facts["model.weights_hash"].source == "weights"
    assert "Training begins with the weights of" in sentence_of(note)
    untouched = zip(trainer.model.parameters(), given.parameters(), strict=True)
    assert all(torch.equal(now, before) for now, before in untouched)


def test_random_weights_are_not_called_a_beginning() -> None:
    assert "from-weights" not in {finding.code for finding in opened()[1].findings}


def test_an_adapter_is_served_by_torch_alone_and_without_dropout() -> None:
    with pytest.raises(BadInput, match=r"llama-cpp-engine serves no workload\.adapter"):
        refuse.refuse_unsupported(spec_of(inference(kind="llama-cpp-engine", adapter={"r": 4})))
    with pytest.raises(BadInput, match=r"lora_dropout means nothing where an adapter is served"):
        spec_of(inference(adapter={"lora_dropout": 0.1}))


def test_an_adapter_beside_quantised_weights_is_refused() -> None:
    with pytest.raises(BadInput, match="an adapter beside weights in int8-weight is not built"):
        TorchServer().open(spec_of(inference(adapter={"r": 4}, point={"precision": "int8-weight"})), quiet)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("method", ["lora", "dora", "qlora"])
def test_each_method_trains_what_theory_counts_and_holds_what_it_says(method: str, precision: str) -> None:
    pytest.importorskip("bitsandbytes", reason="needs the finetune extra: make .venv/engines")
    trainer, facts = opened(method=method, point={"precision": precision}, options={"attention": "eager"})
    trained = 74_752 if method == "dora" else 69_632
    assert facts.work["trainable_parameters"].value == trained
    assert facts.memory["adapter_bytes"].value == facts.memory["gradients_bytes"].value == 4 * trained, "fp32"
    for name, predicted in predicted_memory(trainer.spec).items():
        counted = facts.memory[name.removeprefix("predicted_")].value
        assert counted == pytest.approx(predicted.value, rel=0.03), name
    seen = {check.tensor_class: check.observed for check in facts.precision if check.verdict == "agrees"}
    held = "nf4" if method == "qlora" else precision
    assert seen == {"weights": held, "activations": precision, "compute": precision} | dict.fromkeys(
        ("master", "gradients", "optimizer"), "fp32"
    )
    # Attention written out counts the half that its causal mask hides; DoRA's norms of columns come on top.
    causal_half = 6 * 4 * 32 * 32 * 4 * 32 * 2 / 2 * 2
    counted, least = facts.work["counted_step_flop"].value, theory_of(trainer.spec)["step_flop"].value
    assert counted is not None
    assert least is not None
    assert counted > least + 6_291_456 if method == "dora" else counted == least + 6_291_456 == least + causal_half
    whole, _ = opened(point={"precision": precision}, options={"attention": "eager"})
    first = trainer.step().loss
    near = 0.02 if method == "qlora" else 2e-3 if precision == "bf16" else 1e-6
    assert first == pytest.approx(whole.step().loss, rel=near), "an adapter adds nothing at first"
    frozen = {name: p.detach().clone() for name, p in trainer.model.named_parameters() if not p.requires_grad}
    assert trainer.step().loss < first
    assert all(torch.equal(p, frozen[n]) for n, p in trainer.model.named_parameters() if n in frozen)


@pytest.mark.slow
def test_qlora_learns_after_an_evaluation_as_it_does_without_one() -> None:
    pytest.importorskip("bitsandbytes", reason="needs the finetune extra: make .venv/engines")
    asked = {"method": "qlora", "point": {"precision": "bf16"}, "learning_rate": 1e-2}
    looked_at, undisturbed = (
        opened(until={"loss_nats": 0.1, "every_steps": 2, "batches": 1}, **asked)[0],
        opened(**asked)[0],
    )
    rows = [looked_at.step() for _ in range(8)]
    assert [row.kind for row in rows].count("evaluate") == 2
    losses = [row.loss for row in rows if row.kind == "step"]
    assert losses == pytest.approx([undisturbed.step().loss for _ in losses], rel=1e-3)


@pytest.mark.slow
def test_a_run_with_an_adapter_says_its_share_and_keeps_it_as_peft_does(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="needs the finetune extra: make .venv/engines")
    asked = {"r": 4, "target_modules": ["q_proj", "v_proj"]}
    run = measured(tmp_path, training(method="lora", adapter=asked, save=True, checkpointing=True))
    summary = summarise(run)
    trained = 2 * 4 * ((128 + 128) + (128 + 64))
    assert summary.metrics["trainable_parameters"].value == trained
    assert summary.metrics["trainable_share"].value == pytest.approx(trained / (1_016_448 + trained))
    assert summary.point["method"] == "lora"
    assert "memory-as-predicted" in {finding.code for finding in summary.findings}
    saved = peft.LoraConfig.from_pretrained(run.folder / "weights")
    assert (saved.r, set(saved.target_modules)) == (4, {"q_proj", "v_proj"})
    assert (run.folder / "weights" / "adapter_model.safetensors").is_file()


@pytest.mark.slow
def test_a_merged_adapter_answers_as_one_beside_the_weights_and_does_the_work_of_none() -> None:
    pytest.importorskip("peft", reason="needs the finetune extra: make .venv/engines")
    opened_at: dict[str, tuple[TorchServer, Facts]] = {}
    asked = {"adapter": {"r": 8}, "fidelity_prompts": 4}
    for how in ("unmerged", "merged"):
        server = TorchServer()
        opened_at[how] = server, server.open(spec_of(inference(**asked, options={"adapter": how})), quiet)
    bare = TorchServer()
    without = bare.open(spec_of(inference()), quiet)
    (beside, unmerged), (whole, merged) = opened_at["unmerged"], opened_at["merged"]
    assert merged.work["counted_decode_flop"].value == without.work["counted_decode_flop"].value
    more = (unmerged.work["counted_decode_flop"].value or 0) - (merged.work["counted_decode_flop"].value or 0)
    assert more == 2 * 69_632, "one token through every adapter"
    assert unmerged.memory["adapter_bytes"].value == 4 * 69_632
    assert "adapter_bytes" not in merged.memory
    assert merged.memory["weights_bytes"].value == without.memory["weights_bytes"].value
    assert not unmerged.fidelity, "it is the reference"
    assert all(row.agreed == row.tokens and row.kl_nats < 1e-6 for row in merged.fidelity)
    assert len(merged.fidelity) == 4
    tokens = torch.arange(16)[None]
    with torch.inference_mode():
        one, other, base = (each.model(input_ids=tokens).logits for each in (beside, whole, bare))
    assert torch.allclose(one, other, atol=1e-5)
    assert not torch.allclose(one, base, atol=1e-2), "the adapter's values are no zeros"
    assert unmerged.executor.value("serving.adapter").startswith("beside the weights, r 8, lora_alpha 16, on 14 layers")
    assert merged.executor.value("serving.adapter") == "merged, r 8, lora_alpha 16"
