"""Two lines around a loop that somebody else wrote: a run like any other, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the torch extra")
import torch
from stranger import BATCH, LENGTH, Tiny, loader, loss_of, made, step

import twinlens as tl

HERE = Path(__file__).parent


def watched(out: Path, steps: int = 6, **options: Any) -> tl.Run:
    """A run of the stranger's loop."""
    model, optimizer = made()
    with tl.watch(model, optimizer, **({"out": out, "telemetry_s": 0.2, "profile": False} | options)) as run:
        for tokens in run.data(loader(steps)):
            run.loss(step(model, optimizer, tokens))
    return tl.read(out)[0]


def test_a_loop_is_a_run_with_rows_phases_facts_and_telemetry(tmp_path: Path) -> None:
    run = watched(tmp_path, profile=True)
    assert (run.state, run.lens, run.spec.executor.kind) == ("finished", "training", "own-loop")
    rows = run.steps
    assert rows.samples.tolist() == [BATCH] * 6
    assert rows.tokens.tolist() == [BATCH * LENGTH] * 6
    assert np.isfinite(rows.loss).all()
    for phase in ("data", "forward", "backward", "optimize"):
        assert (rows.phases_ns[phase] > 0).all(), phase
    assert np.isnan(rows.phases_ns["communicate"]).all()
    assert run.telemetry.num_rows
    assert run.facts is not None
    assert run.facts.executor.value("training.optimizer") == "AdamW, learning rate 0.001"
    assert run.facts.executor.value("kernels.selected")
    assert run.facts.executor.value("model.parameters") == sum(p.numel() for p in made()[0].parameters())
    assert run.facts.memory["optimizer_bytes"].value > run.facts.memory["weights_bytes"].value
    assert run.facts.executor.facts["workload.seed"].reason
    asked = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))["asked"]
    assert "learning_rate" not in asked["workload"], "nobody said it, and a default would be read as said"
    assert not {"seed", "duration_s"} & asked["protocol"].keys()
    assert run.spec.to_dict() == asked


def test_the_precision_is_what_was_found_in_memory_and_in_kernels(tmp_path: Path) -> None:
    run = watched(tmp_path / "fp32", profile=True)
    assert run.spec.point.precision == "fp32"
    assert {check.verdict for check in run.facts.precision} == {"agrees", "unknown"}  # the sums are inside a kernel
    model, optimizer = made()
    with tl.watch(model, optimizer, out=tmp_path / "bf16") as watching:
        for tokens in watching.data(loader(4)):
            with torch.autocast("cpu", torch.bfloat16):
                loss = loss_of(model, tokens)
            loss.backward()
            optimizer.step()
    assert tl.read(tmp_path / "bf16")[0].spec.point.precision == "bf16"


def test_formats_without_a_name_are_as_found(tmp_path: Path) -> None:
    model = Tiny().to(torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with tl.watch(model, optimizer, out=tmp_path) as watching:
        for tokens in watching.data(loader(4)):
            step(model, optimizer, tokens)
    run = tl.read(tmp_path)[0]
    assert (run.spec.point.precision, run.facts.executor.value("precision.master")) == ("as-found", "bf16")
    assert tl.summary(run).metrics["training_tokens_per_s"].value
    assert tl.diagnose(run) is not None


def test_a_precision_that_is_said_and_does_not_run_is_found(tmp_path: Path) -> None:
    summary = tl.summary(watched(tmp_path, precision="bf16", profile=True))
    assert "precision-differs" in {finding.code for finding in summary.findings}


def test_every_verb_that_reads_a_run_reads_this_one(tmp_path: Path) -> None:
    runs = [watched(tmp_path / name) for name in ("a", "b")]
    assert "tokens/s" in str(tl.show(runs[0]))
    assert tl.diagnose(runs)
    (comparison,) = tl.compare(runs[0], runs[1])
    assert "own-data" in {finding.code for finding in comparison.findings}


@pytest.mark.slow
def test_a_report_shows_this_run(tmp_path: Path) -> None:
    tl.report([watched(tmp_path)], to=tmp_path / "report.html")
    assert "own-loop" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_steps_last_as_long_as_the_strangers_own_timer_says(tmp_path: Path) -> None:
    model, optimizer = made()
    ends: list[int] = []
    with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
        for tokens in run.data(loader(40, wait_s=0.02)):
            step(model, optimizer, tokens)
            ends.append(time.perf_counter_ns())
    rows = tl.read(tmp_path)[0].steps
    # Both clocks in one run, step by step: a neighbour slows both alike, and the median leaves out a step in which one
    # was stopped between the optimizer's end and the script's own stamp.
    ours, theirs = (rows.end_ns - rows.begin_ns)[1:], np.diff(ends)
    assert np.median(ours / theirs) == pytest.approx(1.0, abs=0.01)


def test_microbatches_of_one_step_are_one_row(tmp_path: Path) -> None:
    model, optimizer = made()
    with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
        for index, tokens in enumerate(run.data(loader(12))):
            loss_of(model, tokens).backward()
            if index % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
    run = tl.read(tmp_path)[0]
    assert run.steps.samples.tolist() == [3 * BATCH] * 4
    assert (run.spec.workload.global_batch, run.spec.point.microbatch) == (3 * BATCH, BATCH)
    assert run.facts.executor.value("training.accumulation_steps") == 3


def state_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[Any, ...]:
    hooks = (model._forward_hooks, model._forward_pre_hooks, model._backward_hooks)
    steps = (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks)
    return (*(len(each) for each in (*hooks, *steps)), torch.Tensor.backward)


def test_nothing_is_left_behind_whatever_happens(tmp_path: Path) -> None:
    model, optimizer = made()
    before = state_of(model, optimizer)
    with tl.watch(model, optimizer, out=tmp_path / "whole", profile=False) as run:
        assert state_of(model, optimizer) != before
        for tokens in run.data(loader(2)):
            step(model, optimizer, tokens)
    assert state_of(model, optimizer) == before
    with pytest.raises(ZeroDivisionError), tl.watch(model, optimizer, out=tmp_path / "broken", profile=False):
        raise ZeroDivisionError
    assert state_of(model, optimizer) == before


def test_an_exception_of_the_loop_is_raised_and_leaves_a_readable_unfinished_run(tmp_path: Path) -> None:
    model, optimizer = made()

    def broken() -> None:
        with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
            for index, tokens in enumerate(run.data(loader(9))):
                step(model, optimizer, tokens)
                if index == 3:
                    raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        broken()
    run = tl.read(tmp_path)[0]
    assert (run.state, run.error, len(run.steps)) == ("failed", "RuntimeError: mine", 4)
    assert run.facts is not None
    assert tl.summary(run).state == "failed"


def test_an_exception_before_the_first_step_leaves_a_run_too(tmp_path: Path) -> None:
    model, optimizer = made()
    with pytest.raises(MemoryError), tl.watch(model, optimizer, out=tmp_path, profile=False):
        raise MemoryError("no room")
    run = tl.read(tmp_path)[0]
    assert (run.state, run.error, run.table.num_rows) == ("failed", "MemoryError: no room", 0)


@pytest.mark.slow
def test_a_script_that_is_killed_leaves_what_was_written(tmp_path: Path) -> None:
    script = (
        "import sys, twinlens as tl\n"
        "from stranger import loader, made, step\n"
        "model, optimizer = made()\n"
        f"with tl.watch(model, optimizer, out={str(tmp_path)!r}) as run:\n"
        "    for tokens in run.data(loader(10**6, wait_s=0.02)):\n"
        "        step(model, optimizer, tokens)\n"
    )
    path = os.pathsep.join([str(HERE), *filter(None, sys.path)])
    with subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}) as process:
        rows = _until(lambda: [run.table.num_rows for run in _runs(tmp_path) if run.table.num_rows > 5])
        process.send_signal(signal.SIGKILL)
    (run,) = _runs(tmp_path)
    assert run.state == "interrupted"
    assert len(run.steps) >= rows[0]
    assert (run.spec.workload.global_batch, run.spec.workload.seq_len) == (BATCH, LENGTH)


def _runs(out: Path) -> list[tl.Run]:
    return list(tl.read(out)) if list(out.glob("*/run.json")) else []


def _until(look: Callable[[], list[int]], limit_s: float = 120.0) -> list[int]:
    end_s = time.monotonic() + limit_s
    while not (seen := look()):
        assert time.monotonic() < end_s, "the script wrote no rows"
        time.sleep(0.1)
    return seen


def test_an_error_of_ours_ends_the_watching_and_never_the_loop(tmp_path: Path) -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = 0
    with warnings.catch_warnings(record=True) as said, tl.watch(model, optimizer, out=tmp_path, profile=False):
        warnings.simplefilter("always")
        for _ in range(3):
            model.weight.square().sum().backward()  # the model is never called, so nothing says how much a step is
            optimizer.step()
            steps += 1
    assert steps == 3
    assert [str(each.message) for each in said if "stopped watching" in str(each.message)]
    assert len(optimizer._optimizer_step_post_hooks) == 0
    run = tl.read(tmp_path)[0]
    assert run.state == "failed"
    assert "how many samples" in run.error


def test_an_evaluation_is_a_row_of_its_own_and_an_unnamed_one_is_said(tmp_path: Path) -> None:
    model, optimizer = made()
    with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
        for index, tokens in enumerate(run.data(loader(6))):
            step(model, optimizer, tokens)
            if index == 2:
                with run.evaluation(), torch.no_grad():
                    loss_of(model, tokens)
            if index == 4:
                with torch.no_grad():
                    loss_of(model, tokens)
    run = tl.read(tmp_path)[0]
    assert run.steps.kind.tolist() == ["step"] * 3 + ["evaluate"] + ["step"] * 3
    assert run.steps.samples.tolist() == [BATCH] * 7
    assert run.steps.tag.tolist()[-1] == "no-grad"
    assert "passes-without-gradient" in {finding.code for finding in tl.summary(run).findings}


def test_the_screen_tells_steps_from_evaluations_and_the_loop_where_its_run_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, optimizer = made()
    with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
        for tokens in run.data(loader(5)):
            step(model, optimizer, tokens)
            with run.evaluation(), torch.no_grad():
                loss_of(model, tokens)
    (kept,) = tl.read(tmp_path)
    assert "5 steps, 5 evaluations" in " ".join(tl.show(kept).split())
    assert f"twinlens: the run is in {kept.folder} (finished)" in capsys.readouterr().err


def test_checkpointed_layers_are_counted_once(tmp_path: Path) -> None:
    from torch.utils.checkpoint import checkpoint

    model, optimizer = made()
    inner = model.inner
    model.inner = torch.nn.Identity()
    model.inner.forward = lambda x: checkpoint(inner, x, use_reentrant=False)  # type: ignore[method-assign]
    with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
        for tokens in run.data(loader(3)):
            step(model, optimizer, tokens)
    assert tl.read(tmp_path)[0].steps.samples.tolist() == [BATCH] * 3


def test_a_backward_pass_that_is_no_tensors_method_is_seen_by_its_gradients(tmp_path: Path) -> None:
    model, optimizer = made()
    with tl.watch(model, optimizer, out=tmp_path) as run:
        for tokens in run.data(loader(3)):
            torch.autograd.backward(loss_of(model, tokens))
            optimizer.step()
    assert (tl.read(tmp_path)[0].steps.phases_ns["backward"] > 0).all()


def test_another_way_to_go_back_is_seen_after_a_while_in_mid_loop(tmp_path: Path) -> None:
    model, optimizer = made()
    with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
        for index, tokens in enumerate(run.data(loader(24))):
            loss = loss_of(model, tokens)
            loss.backward() if index < 8 else torch.autograd.backward(loss)
            optimizer.step()
    seen = np.isfinite(tl.read(tmp_path)[0].steps.phases_ns["backward"])
    assert seen[:8].all()
    assert seen[17:].all()


def test_a_closure_is_not_counted_twice(tmp_path: Path) -> None:
    model, optimizer = made()

    def closure(tokens: torch.Tensor) -> float:
        optimizer.zero_grad()
        loss = loss_of(model, tokens)
        loss.backward()
        return float(loss.detach())

    with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
        for tokens in run.data(loader(4)):
            optimizer.step(lambda tokens=tokens: closure(tokens))
    steps = tl.read(tmp_path)[0].steps
    assert (sum(np.nan_to_num(spent) for spent in steps.phases_ns.values()) <= steps.end_ns - steps.begin_ns).all()
    assert (steps.phases_ns["forward"] > 0).all()


def test_steps_of_changing_size_have_no_work_by_theory(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the torch extra")
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
        vocab_size=64,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters())
    for name, lengths in (("even", [16] * 4), ("uneven", [16, 16, 8, 16])):
        with tl.watch(model, optimizer, out=tmp_path / name):
            for length in lengths:
                tokens = torch.randint(0, 64, (2, length))
                model(input_ids=tokens, labels=tokens).loss.backward()
                optimizer.step()
        facts = tl.read(tmp_path / name)[0].facts
        assert facts.executor.facts["kernels.selected"].reason is None
        assert facts.work["parameters"].value == sum(p.numel() for p in model.parameters())
        assert (facts.work["step_flop"].value is None) == (name == "uneven")
        assert np.isfinite(tl.read(tmp_path / name)[0].steps.loss).all(), "the model's own loss is recorded"
        assert tl.read(tmp_path / name)[0].spec.point.precision == "fp32"


def test_a_loop_without_torch_is_watched_too(tmp_path: Path) -> None:
    with tl.watch(name="mine", out=tmp_path) as run:
        for _ in range(5):
            with run.step(samples=8, tokens=256, loss=1.5):
                with run.phase("data"):
                    time.sleep(0.002)
                time.sleep(0.003)
    run = tl.read(tmp_path)[0]
    assert run.steps.tokens.tolist() == [256] * 5
    assert (run.steps.phases_ns["data"] >= 2e6).all()
    assert np.isnan(run.steps.phases_ns["forward"]).all()
    assert tl.summary(run).metrics["training_tokens_per_s"].value
    assert run.facts.executor.facts["software.framework.name"].reason


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("model", "optimizer"), "was given a str"),
        ((torch.nn.Linear(1, 1), "optimizer"), "was given a str"),
        ((torch.nn.Linear(1, 1),), "give both"),
    ],
)
def test_what_is_no_model_or_optimizer_is_refused(words: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(tl.BadInput, match=sentence):
        tl.watch(*words)


def test_names_precisions_and_folders_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for options in ({"name": "a/b"}, {"precision": "int4-weight"}, {"precision": "fp23"}):
        with pytest.raises(tl.BadInput):
            tl.watch(**options)
    (tmp_path / "file").write_text("")
    with pytest.raises(tl.BadInput, match="cannot write"), tl.watch(out=tmp_path / "file"):
        pass


def test_a_spec_cannot_start_such_a_loop(tmp_path: Path) -> None:
    run = watched(tmp_path)
    with pytest.raises(tl.BadInput):
        tl.measure(tl.load(run.folder), out=tmp_path / "again")
