"""The embedded trainer against what is known beforehand: the same data, the same losses, every byte and FLOP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from material import measured, quiet, spec_of, training

torch = pytest.importorskip("torch", reason="needs the torch extra")

from twinlens.errors import BadInput  # noqa: E402
from twinlens.executors.torch.model.build import build_model  # noqa: E402
from twinlens.executors.torch.model.data import Batches  # noqa: E402
from twinlens.executors.torch.train import TorchTrainer  # noqa: E402
from twinlens.measurement.facts.predicted_work import theory_of  # noqa: E402
from twinlens.record.executor.facts import Facts  # noqa: E402
from twinlens.reporting.wording.finding import sentence_of  # noqa: E402
from twinlens.spec.model.reference import load_model  # noqa: E402
from twinlens.spec.model.shape import DecoderShape  # noqa: E402
from twinlens.stats.run_summary import summarise  # noqa: E402
from twinlens.theory.activation import activation_bytes  # noqa: E402
from twinlens.theory.flop import parameters, training_flop_per_token  # noqa: E402

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")


def opened(**parts: Any) -> tuple[TorchTrainer, Facts]:
    trainer = TorchTrainer()
    return trainer, trainer.open(spec_of(training(**parts)), quiet)


def losses(steps: int, **parts: Any) -> list[float]:
    trainer, _ = opened(**parts)
    return [trainer.step().loss or 0.0 for _ in range(steps)]


def test_accumulated_microbatches_train_as_the_whole_batch_does() -> None:
    whole = losses(6)
    assert losses(6, point={"microbatch": 1}) == pytest.approx(whole, abs=2e-4)
    assert losses(6, point={"microbatch": 2}) == pytest.approx(whole, abs=2e-4)
    assert whole[-1] < whole[0]
    assert len(set(whole)) == 6


def test_a_microbatch_that_does_not_divide_the_batch_is_refused() -> None:
    with pytest.raises(BadInput, match=r"microbatch 3 does not divide workload\.global_batch 4"):
        opened(point={"microbatch": 3})


def test_checkpointing_changes_what_is_kept_and_not_what_is_learned() -> None:
    plain, facts = opened()
    leaner, lean_facts = opened(checkpointing=True)
    for _ in range(4):
        assert leaner.step().loss == pytest.approx(plain.step().loss, abs=1e-5)
    kept, less = (found.memory["activations_bytes"].value for found in (facts, lean_facts))
    assert kept is not None
    assert less is not None
    assert less < 0.7 * kept
    more = lean_facts.work["counted_step_flop"].value
    assert more is not None
    assert more > 1.2 * (facts.work["counted_step_flop"].value or 0), "the forward pass is done again"
    assert lean_facts.executor.value("training.recompute") == "all layers"


def test_activations_are_those_of_theory_and_no_weights_are_among_them() -> None:
    _, facts = opened()
    shape = spec_of(training()).model.shape
    assert isinstance(shape, DecoderShape)
    rows, length = 4, 32
    layers = activation_bytes(shape, rows, length, bytes_per_element=4.0)
    scores = 4 * rows * length * shape.vocab
    assert facts.memory["activations_bytes"].value == pytest.approx(layers + scores, rel=0.02)


@pytest.mark.parametrize("seed", [0, 5])
def test_a_seed_decides_weights_and_data(seed: int) -> None:
    assert losses(3, protocol={"seed": seed}) == losses(3, protocol={"seed": seed})
    assert losses(3, protocol={"seed": seed}) != losses(3, protocol={"seed": seed + 1})


@pytest.mark.parametrize("model", ["tiny", "vit-tiny"])
def test_taking_evidence_leaves_the_weights_as_they_were(model: str) -> None:
    trainer, _ = opened(model=model)
    untouched = build_model(load_model(model), "sdpa", trainer.spec.seed, CPU)
    for (name, now), before in zip(trainer.model.named_parameters(), untouched.parameters(), strict=True):
        assert torch.equal(now, before), name
    assert not trainer.optimizer.state, "the moments of the evidence step are gone"
    assert all(p.grad is None for p in trainer.model.parameters())


def test_taking_evidence_uses_up_no_training_data() -> None:
    trainer, _ = opened()
    workload = trainer.workload
    afresh = Batches(workload.data, trainer.ref, 4, workload.seq_len, trainer.spec.seed, CPU, 4)
    assert torch.equal(trainer.batches.next()[0], afresh.next()[0])


def test_every_byte_of_fp32_adamw_is_counted() -> None:
    trainer, facts = opened()
    count = parameters(load_model("tiny").shape).total
    buffers = sum(buffer.nbytes for buffer in trainer.model.buffers())
    counters = 4 * len(list(trainer.model.parameters()))  # AdamW's step count, one fp32 number per tensor
    found = {name: estimate.value for name, estimate in facts.memory.items()}
    assert found["weights_bytes"] == 4 * count + buffers
    assert found["gradients_bytes"] == 4 * count
    assert found["optimizer_bytes"] == 8 * count + counters
    assert buffers + counters < 1000


@pytest.mark.parametrize("microbatch", [4, 2])
def test_counted_flop_are_theorys_with_attention_written_out(microbatch: int) -> None:
    trainer, facts = opened(options={"attention": "eager"}, point={"microbatch": microbatch})
    assert facts.work["counted_step_flop"].value == theory_of(trainer.spec)["step_flop_palm_full"].value


def test_counted_flop_of_fused_attention_are_causal_and_one_product_more() -> None:
    # Seven products in place of six: the fused backward pass computes the scores anew.
    shape, tokens = load_model("tiny").shape, 4 * 32
    causal, full = (tokens * training_flop_per_token(shape, 32, c) for c in ("causal", "palm-full"))  # type: ignore[arg-type]
    attention = full - causal  # of the causal convention: the other half is what it saves
    _, facts = opened()
    assert facts.work["counted_step_flop"].value == pytest.approx(causal + attention / 6, rel=1e-12)


def test_bf16_is_what_was_declared_and_what_ran() -> None:
    trainer, facts = opened(point={"precision": "bf16"})
    seen = {check.tensor_class: check for check in facts.precision}
    for name, wanted in {"compute": "bf16", "activations": "bf16", "master": "fp32", "optimizer": "fp32"}.items():
        assert (seen[name].declared, seen[name].observed, seen[name].verdict) == (wanted, wanted, "agrees"), name
    assert facts.executor.facts["precision.activations"].capture == "observed"
    assert trainer.step().loss == pytest.approx(losses(1)[0], rel=0.02)


def test_fp32_really_is_fp32() -> None:
    _, facts = opened()
    assert facts.executor.facts["compiler.name"].capture == "declared", "an option says it, nothing looked"
    assert {c.observed for c in facts.precision if c.observed} == {"fp32"}
    assert {c.verdict for c in facts.precision} == {"agrees", "unknown"}


@pytest.mark.parametrize("model", ["vit-tiny", "resnet-tiny"])
def test_a_vision_model_trains_on_images(model: str) -> None:
    trainer, facts = opened(model=model, options={"attention": "eager"})  # fused, it computes the scores twice
    marks = trainer.step()
    assert (marks.samples, marks.tokens) == (4, 0)
    assert facts.entropy_rate_nats is None
    assert facts.work["counted_step_flop"].value == theory_of(trainer.spec)["step_flop"].value


def test_evaluations_come_when_due_and_train_nothing() -> None:
    trainer, _ = opened(until={"loss_nats": 0.001, "every_steps": 2, "batches": 1})
    kinds, weights = [], []
    for _ in range(7):
        kinds.append(trainer.step().kind)
        weights.append(next(iter(trainer.model.parameters())).detach().clone())
    assert kinds == ["step", "step", "evaluate", "step", "step", "evaluate", "step"]
    assert torch.equal(weights[1], weights[2])
    assert not torch.equal(weights[2], weights[3])
    assert trainer.model.training


def test_an_evaluation_uses_no_dropout(tmp_path: Path) -> None:
    small = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 1, "n_positions": 64, "vocab_size": 300}
    (tmp_path / "config.json").write_text(json.dumps(small | {"resid_pdrop": 0.9, "embd_pdrop": 0.9}))
    trainer, _ = opened(
        model=str(tmp_path), learning_rate=1e-12, until={"loss_nats": 0.1, "every_steps": 1, "batches": 1}
    )
    looked = [marks.loss for marks in (trainer.step() for _ in range(4)) if marks.kind == "evaluate"]
    assert looked[0] == pytest.approx(looked[1], abs=1e-6)


def test_a_model_learns_the_language_to_within_the_gap_and_never_beats_it(tmp_path: Path) -> None:
    gap, rows, length = 0.2, 8, 64
    run = measured(
        tmp_path,
        training(
            data={"kind": "markov", "symbols": 16, "branches": 4},
            global_batch=rows,
            seq_len=length,
            learning_rate=4e-3,
            until={"gap_nats": gap, "every_steps": 10},
            protocol={"duration_s": 60.0},
        ),
    )
    metrics = summarise(run).metrics
    assert run.facts is not None
    floor = run.facts.entropy_rate_nats
    assert floor == pytest.approx(1.2425, abs=1e-4), "H of (12, 6, 4, 3) / 25"
    looked = run.steps.loss[run.steps.kind == "evaluate"]
    assert looked[-1] <= floor + gap < looked[-2]
    before, reached = metrics["time_to_target_s"].low, metrics["time_to_target_s"].high
    assert before is not None
    assert reached is not None
    assert 0 < before < reached
    assert metrics["loss_gap"].value == pytest.approx(looked[-1] - floor)
    # The mean of that many surprises, each of a standard deviation below 1, strays no further than four errors.
    assert looked.min() > floor - 4 / (4 * rows * length) ** 0.5


def test_a_local_text_is_learned_byte_by_byte(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("she sells sea shells by the sea shore. " * 200)
    trainer, facts = opened(data={"kind": "text", "path": str(text)}, learning_rate=4e-3)
    assert facts.entropy_rate_nats is None, "nobody knows it for a text"
    inputs, targets = trainer.batches.next()
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    assert bytes(inputs[0].tolist()).decode() in text.read_text()
    seen = [trainer.step().loss or 0.0 for _ in range(40)]
    assert seen[-1] < 0.5 * seen[0]


def test_a_text_that_is_too_short_or_missing_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "short.txt"
    text.write_text("too short")
    with pytest.raises(BadInput, match="too short for sequences of 33 bytes"):
        opened(data={"kind": "text", "path": str(text)})
    with pytest.raises(BadInput, match="cannot read the text file"):
        opened(data={"kind": "text", "path": str(tmp_path / "none.txt")})


def test_a_compiled_graph_trains_alike_is_looked_at_and_no_row_pays_for_compiling(one_layer: str) -> None:
    eager = losses(3, model=one_layer)
    trainer, facts = opened(model=one_layer, options={"graph": "compiled"})
    untouched = build_model(load_model(one_layer), "sdpa", trainer.spec.seed, CPU)
    assert all(torch.equal(a, b) for a, b in zip(trainer.model.parameters(), untouched.parameters(), strict=True))
    marks = [trainer.step() for _ in range(3)]
    assert [mark.loss for mark in marks] == pytest.approx(eager, abs=1e-3)
    assert [mark.tag for mark in marks] == [None] * 3
    assert facts.executor.value("compiler.name") == "torch.compile (inductor)"
    assert facts.executor.value("kernels.graph_breaks") == {"count": 0, "reasons": []}
    assert any("Compiling took" in note for note in map(sentence_of, facts.findings))
    assert "eager twin" in facts.work["counted_step_flop"].method
    (compute,) = (check for check in facts.precision if check.tensor_class == "compute")
    assert (compute.observed, compute.verdict) == ("fp32", "agrees")


def test_ceilings_are_measured_again_once_the_rows_are_taken(tmp_path: Path) -> None:
    run = measured(tmp_path, training(protocol={"ceilings": True}))
    assert run.facts
    before, after = run.facts.ceilings["matrix_flop_per_s"], run.sections.ceilings_after["matrix_flop_per_s"]
    assert min(before.value or 0.0, after.value or 0.0) > 0
    assert before.unit == after.unit
    without = measured(tmp_path, training())
    assert not without.sections.ceilings_after
