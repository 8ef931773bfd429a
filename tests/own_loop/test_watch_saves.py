"""Saves of somebody's own loop: told apart from its steps, and goodput of the whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import twinlens as tl
from twinlens.stats.run_summary import summarise
from twinlens.stats.wall_time import LOSSES


def loop(out: Path, *, saves: bool) -> Path:
    with tl.watch(name="mine", out=out) as run:
        for step in range(24):
            with run.step(samples=2, loss=1.0):
                np.sort(np.random.default_rng(step).random(20_000))
            if saves and step % 8 == 7 and step < 23:
                with run.save():
                    (out / "weights.npy").write_bytes(np.random.default_rng(step).bytes(2_000_000))
    assert run.folder is not None
    return run.folder


def test_a_save_that_is_named_is_no_part_of_a_steps_work_and_gives_goodput(tmp_path: Path) -> None:
    (run,) = tl.read(loop(tmp_path, saves=True))
    saved = run.steps.phases_ns["checkpoint"]
    assert np.flatnonzero(saved > 0).tolist() == [8, 16], "in the row of the step after it"
    metrics = summarise(run).metrics
    shares = [metrics[name].value or 0.0 for name in ("training_goodput", *LOSSES)]
    assert sum(shares) == pytest.approx(1.0)
    assert metrics["lost_checkpoint_share"].value == pytest.approx(np.nansum(saved) / run.steps.end_ns[-1])
    assert "from entering the watched block" in metrics["training_goodput"].method


def test_a_loop_that_names_no_save_has_no_goodput(tmp_path: Path) -> None:
    (run,) = tl.read(loop(tmp_path, saves=False))
    assert "training_goodput" not in summarise(run).metrics


def test_a_save_of_the_trainer_of_transformers_is_one_too(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="transformers' Trainer needs it; it comes with the serve extra")
    from test_watch_hosts import arguments, sentences, small_model
    from transformers import Trainer

    saves = {"save_strategy": "steps", "save_steps": 2, "logging_steps": 1, "gradient_accumulation_steps": 1}
    callback = tl.trainer_callback(out=tmp_path / "runs", profile=False)
    Trainer(
        model=small_model(), args=arguments(tmp_path, **saves), train_dataset=sentences(48), callbacks=[callback]
    ).train()
    (run,) = tl.read(tmp_path / "runs")
    saved = run.steps.phases_ns["checkpoint"]
    assert [bool(each > 0) for each in saved] == [False, False, True, False, True, False], "before the step after it"
    assert summarise(run).metrics["lost_checkpoint_share"].value == pytest.approx(
        np.nansum(saved) / run.steps.end_ns[-1]
    )
