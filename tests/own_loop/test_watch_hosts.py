"""Loops that others run for one: accelerate, and the Trainers of transformers, trl and Lightning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the torch extra")
import torch
from stranger import BATCH, LENGTH, VOCABULARY, loader, loss_of, made

import twinlens as tl

ROOT = Path(__file__).parents[2]
HOSTS = ROOT / ".venv-hosts" / "bin" / "python"


def small_model() -> Any:
    transformers = pytest.importorskip("transformers", reason="needs the torch extra")
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
        vocab_size=VOCABULARY,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def arguments(out: Path, **options: Any) -> Any:
    from transformers import TrainingArguments

    plain = {"report_to": [], "save_strategy": "no", "use_cpu": True, "disable_tqdm": True, "max_steps": 6}
    batch = {"per_device_train_batch_size": BATCH, "gradient_accumulation_steps": 2, "logging_steps": 2}
    return TrainingArguments(output_dir=str(out), **(plain | batch | options))


def sentences(count: int) -> list[dict[str, torch.Tensor]]:
    rows = torch.randint(0, VOCABULARY, (count, LENGTH))
    return [{"input_ids": row, "labels": row} for row in rows]


def accelerator_with(**options: Any) -> Any:
    """On the processor, and not of what an earlier test of this process asked: accelerate keeps that for good."""
    accelerate = pytest.importorskip("accelerate", reason="comes with the serve extra")
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()
    return accelerate.Accelerator(cpu=True, **options)


def test_a_loop_on_accelerate_is_watched_with_what_it_prepared(tmp_path: Path) -> None:
    accelerator = accelerator_with(gradient_accumulation_steps=2)
    model, optimizer = accelerator.prepare(*made())
    with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
        for tokens in run.data(loader(8)):
            with accelerator.accumulate(model):
                accelerator.backward(loss_of(model, tokens))
                optimizer.step()
                optimizer.zero_grad()
    steps = tl.read(tmp_path)[0].steps
    assert steps.samples.tolist() == [2 * BATCH] * 4
    assert all((steps.phases_ns[phase] > 0).all() for phase in ("data", "forward", "backward", "optimize"))


def test_bf16_and_a_shorter_last_step_of_accelerate_are_seen(tmp_path: Path) -> None:
    accelerator = accelerator_with(gradient_accumulation_steps=4, mixed_precision="bf16")
    data = torch.utils.data.DataLoader(torch.randint(0, VOCABULARY, (10 * BATCH, LENGTH + 1)), batch_size=BATCH)
    model, optimizer, data = accelerator.prepare(*made(), data)
    with tl.watch(model, optimizer, out=tmp_path) as run:
        for _ in range(2):
            for tokens in run.data(data):
                with accelerator.accumulate(model):
                    loss = loss_of(model, tokens)
                    run.loss(loss)
                    accelerator.backward(loss)
                    optimizer.step()
                    optimizer.zero_grad()
    run = tl.read(tmp_path)[0]
    assert run.steps.samples.tolist() == [4 * BATCH, 4 * BATCH, 2 * BATCH] * 2, "10 batches by fours, twice"
    assert run.steps.loss == pytest.approx(np.full(6, np.log(VOCABULARY)), abs=0.5)
    assert (run.spec.point.precision, run.facts.executor.value("precision.master")) == ("bf16", "fp32")


def test_a_step_that_a_scaler_skips_is_part_of_the_next_row(tmp_path: Path) -> None:
    accelerator = accelerator_with()
    accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=4.0)  # fp16 has one on a GPU
    model, optimizer = accelerator.prepare(*made())
    skipped = []
    with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
        for index, tokens in enumerate(run.data(loader(5))):
            accelerator.backward(loss_of(model, tokens) * (float("inf") if index == 2 else 1.0))
            optimizer.step()
            skipped.append(optimizer.step_was_skipped)
            optimizer.zero_grad()
    assert skipped == [False, False, True, False, False]
    run = tl.read(tmp_path)[0]
    assert run.is_finished
    assert run.steps.samples.tolist() == [BATCH, BATCH, 2 * BATCH, BATCH]


def test_the_trainer_of_transformers_is_watched_by_a_callback(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="transformers' Trainer needs it; it comes with the serve extra")
    from transformers import Trainer

    options = {"eval_strategy": "steps", "eval_steps": 3}
    callback = tl.trainer_callback(out=tmp_path / "runs", profile=False)
    trainer = Trainer(
        model=small_model(), args=arguments(tmp_path, **options), train_dataset=sentences(48),
        eval_dataset=sentences(8), callbacks=[callback],
    )  # fmt: skip
    trainer.train()
    (run,) = tl.read(tmp_path / "runs")
    rows = run.steps
    assert run.is_finished
    assert rows.kind.tolist() == ["step"] * 3 + ["evaluate"] + ["step"] * 3 + ["evaluate"]
    trained = rows.where(rows.kind == "step")
    assert set(trained.tokens.tolist()) == {2 * BATCH * LENGTH}
    assert all((trained.phases_ns[phase] > 0).all() for phase in ("data", "forward", "backward", "optimize"))
    assert trained.loss == pytest.approx(np.full(6, np.log(VOCABULARY)), abs=0.5)
    assert rows.loss[3] == pytest.approx(np.log(VOCABULARY), abs=0.5)
    assert rows.samples[3] == 8
    assert run.facts.work["step_flop"].value is None or run.spec.workload.seq_len == LENGTH


def test_a_training_that_raises_is_ended_by_the_next_one(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="transformers' Trainer needs it; it comes with the serve extra")
    from transformers import Trainer, TrainerCallback

    class Breaks(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            raise RuntimeError("mine")

    callback = tl.trainer_callback(out=tmp_path / "runs", profile=False)
    for others, fails in (([Breaks()], True), ([], False)):
        given = {"args": arguments(tmp_path, max_steps=2), "train_dataset": sentences(48)}
        trainer = Trainer(model=small_model(), callbacks=[callback, *others], **given)
        if fails:
            with pytest.raises(RuntimeError, match="mine"):
                trainer.train()
        else:
            trainer.train()
    first, second = sorted(tl.read(tmp_path / "runs"), key=lambda run: run.state, reverse=True)
    assert (first.state, second.state) == ("interrupted", "finished")
    assert "next training" in first.error


def ran(script: str, out: Path) -> tl.Run:
    """A script in the environment of the hosts, and the run that it left."""
    if not HOSTS.exists():
        pytest.skip("no .venv-hosts here; `make test-slow` builds it")
    path = os.pathsep.join([str(ROOT / "src"), str(Path(__file__).parent)])
    done = subprocess.run(
        [str(HOSTS), "-c", script, str(out)], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        timeout=600, cwd=out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return tl.read(out / "runs")[0]


LIGHTNING = """
import sys, torch, lightning as L, twinlens as tl
from stranger import Tiny, loss_of, VOCABULARY, LENGTH, BATCH
torch.set_num_threads(1)
class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Tiny()
    def training_step(self, batch, index):
        return loss_of(self.model, batch)
    def validation_step(self, batch, index):
        self.log("val_loss", loss_of(self.model, batch))
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)
data = torch.utils.data.DataLoader(torch.randint(0, VOCABULARY, (64, LENGTH + 1)), batch_size=BATCH)
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
L.Trainer(max_steps=8, accumulate_grad_batches=2, accelerator="cpu", val_check_interval=8,
          callbacks=[tl.lightning_callback(out=sys.argv[1] + "/runs")], **quiet).fit(Module(), data, data)
"""


@pytest.mark.slow
def test_lightning_is_watched_by_a_callback(tmp_path: Path) -> None:
    run = ran(LIGHTNING, tmp_path)
    rows = run.steps
    trained = rows.where(rows.kind == "step")
    assert run.is_finished
    assert trained.samples.tolist() == [2 * BATCH] * 8
    assert "evaluate" in rows.kind.tolist()
    assert all((trained.phases_ns[phase] > 0).all() for phase in ("data", "forward", "backward", "optimize"))
    spent = sum(np.nan_to_num(values) for values in trained.phases_ns.values())
    assert (spent <= trained.end_ns - trained.begin_ns).all(), "the closure inside the optimizer is not counted twice"
    assert trained.loss == pytest.approx(np.full(8, np.log(VOCABULARY)), abs=0.5)


TRL = """
import sys, torch, twinlens as tl
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from tokenizers import Tokenizer, models, pre_tokenizers
from trl import SFTConfig, SFTTrainer
torch.set_num_threads(1)
words = {f"w{i}": i for i in range(60)} | {"<pad>": 60, "<eos>": 61, "<unk>": 62}
inner = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
inner.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", model_max_length=64)
model = LlamaForCausalLM(LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1,
    num_attention_heads=2, num_key_value_heads=2, vocab_size=63))
text = [{"text": " ".join(f"w{(i * j) % 60}" for j in range(20))} for i in range(32)]
settings = SFTConfig(output_dir=sys.argv[1], max_steps=4, per_device_train_batch_size=4, report_to=[], use_cpu=True,
    save_strategy="no", disable_tqdm=True, max_length=32, bf16=False)
SFTTrainer(model=model, args=settings, train_dataset=Dataset.from_list(text), processing_class=tokenizer,
    callbacks=[tl.trainer_callback(out=sys.argv[1] + "/runs")]).train()
"""


@pytest.mark.slow
def test_a_trainer_of_trl_takes_the_same_callback(tmp_path: Path) -> None:
    run = ran(TRL, tmp_path)
    assert run.is_finished
    assert run.steps.samples.tolist() == [4] * 4
    assert (run.steps.phases_ns["backward"] > 0).all()


@pytest.mark.slow
def test_a_compiled_model_is_watched_from_outside_its_graph(tmp_path: Path) -> None:
    model, optimizer = made()
    compiled = torch.compile(model)
    with tl.watch(compiled, optimizer, out=tmp_path) as run:
        for tokens in run.data(loader(5)):
            loss_of(compiled, tokens).backward()
            optimizer.step()
            optimizer.zero_grad()
    run = tl.read(tmp_path)[0]
    assert run.facts.executor.value("compiler.name") == "torch.compile"
    assert run.steps.samples.tolist() == [BATCH] * 5
    assert (run.steps.phases_ns["backward"] > 0).all()


def test_without_the_package_its_callback_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(tl.BadInput, match="pip install lightning"):
        tl.lightning_callback()
