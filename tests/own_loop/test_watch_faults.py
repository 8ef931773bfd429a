"""No fault of ours ends a loop that is watched: the disk, the folder, the loss, a fork, and warnings as errors."""

from __future__ import annotations

import copy
import errno
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the torch extra")
import torch
from stranger import BATCH, LENGTH, loader, made, step

import twinlens as tl
from twinlens.errors import BadInput
from twinlens.measurement.own_loop.recording import Recording

STEPS = 5


def fails(error: Exception) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> Any:
        raise error

    return call


FAULTS = [OSError(errno.ENOSPC, "No space left"), OSError(errno.EIO, "I/O error"), FileNotFoundError("gone"),
          RuntimeError("of ours")]  # fmt: skip


WHERE = [(where, error) for where in ("take", "know", "stop", "end") for error in FAULTS]


@pytest.mark.parametrize(("where", "error"), [*WHERE, ("__init__", FAULTS[-1])])
def test_no_failure_of_the_recording_reaches_the_loop(
    where: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recording, where, fails(error))
    model, optimizer = made()
    done = 0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
            for tokens in run.data(loader(STEPS)):
                run.loss(step(model, optimizer, tokens))
                done += 1
        assert run.folder is None or run.folder.parent == tmp_path
    assert done == STEPS
    assert any("tl.watch" in str(each.message) for each in said)


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__ + str(error)[:9])
def test_a_loop_without_torch_goes_on_too(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "take", fails(error))
    done = 0
    with pytest.warns(UserWarning, match="tl.watch"), tl.watch(name="plain", out=tmp_path) as run:  # noqa: PT031
        run.log._every_s = 0.0
        for _ in range(STEPS):
            with run.step(samples=2):
                done += 1
    assert done == STEPS


def test_a_folder_that_is_deleted_meanwhile_ends_no_loop(tmp_path: Path) -> None:
    done = 0
    with pytest.warns(UserWarning, match="tl.watch"), tl.watch(name="plain", out=tmp_path) as run:  # noqa: PT031
        for at in range(STEPS):
            with run.step(samples=2):
                done += 1
            if at == 1 and run.folder is not None:
                shutil.rmtree(run.folder)
    assert done == STEPS


@pytest.mark.parametrize("loss", [None, torch.ones(4)], ids=["None", "unreduced"])
def test_a_loss_of_no_one_number_is_warned_of_once_and_the_rows_stay(loss: Any, tmp_path: Path) -> None:
    model, optimizer = made()
    with pytest.warns(UserWarning, match="run.loss takes a number") as said:  # noqa: PT031, SIM117
        with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
            for tokens in run.data(loader(STEPS)):
                step(model, optimizer, tokens)
                run.loss(loss)
    assert sum("run.loss takes" in str(each.message) for each in said) == 1
    (kept,) = tl.read(tmp_path)
    assert (kept.state, len(kept.steps)) == ("finished", STEPS)


SCRIPT = """
import os, sys, torch
import twinlens as tl
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def steps(count):
    for batch in run.data([torch.randn(8, 4)] * count):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
with tl.watch(model, optimizer, name="forked", out=sys.argv[1], profile=False) as run:
    steps(30)
    child = os.fork()
    steps(30)
    if child == 0:
        run.loss(None)
if child:
    print(os.waitpid(child, 0)[1])
print("the script goes on")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_that_was_forked_inside_the_block_writes_nothing(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True
    )
    assert (told.returncode, told.stdout.split()[0], told.stdout.count("the script goes on")) in (
        (0, "0", 2), (0, "the", 2)
    ), told.stderr  # fmt: skip
    (run,) = tl.read(tmp_path)
    assert (run.state, len(run.steps)) == ("finished", 60)


def test_warnings_as_errors_end_no_script(tmp_path: Path) -> None:
    model, optimizer = made()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("error")
        with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
            for tokens in run.data(loader(3)):
                step(model, optimizer, tokens)
                with run.step(samples=3):  # the optimizer says when a step ends
                    run.loss(None)
    assert ["leave run.step out" in str(each.message) for each in said] == [True], "shown, and no error"
    assert tl.read(tmp_path)[0].steps.samples.tolist() == [BATCH] * 3


def test_an_optimizer_of_another_model_is_refused_before_the_loop() -> None:
    model, _ = made()
    _, other = made()
    with pytest.raises(BadInput, match="updates no parameter of the model") as raised:
        tl.watch(model, other)
    assert raised.value.code == "TL222"


def test_two_views_of_each_batch_are_counted_once_in_a_real_loop(tmp_path: Path) -> None:
    model, optimizer = made()
    with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
        for tokens in run.data(loader(STEPS)):
            first, second = (model(tokens[:, :-1]) for _ in range(2))
            (first - second).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    rows = tl.read(tmp_path)[0].steps
    assert rows.samples.tolist() == [BATCH] * STEPS
    assert rows.tokens.tolist() == [BATCH * LENGTH] * STEPS


class Odd:
    @property
    def shape(self) -> tuple[int, ...]:
        raise RuntimeError("odd")


LOSSES = {"text": "x", "list": [1], "table": {"loss": 1.0}, "object": object(), "huge": 10**400, "odd": Odd(),
          "empty": torch.ones(0)}  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_a_loss_of_any_kind_costs_no_row(loss: Any, tmp_path: Path) -> None:
    model, optimizer = made()
    with pytest.warns(UserWarning, match="run.loss takes a number"):  # noqa: PT031, SIM117
        with tl.watch(model, optimizer, out=tmp_path, profile=False) as run:
            for tokens in run.data(loader(STEPS)):
                step(model, optimizer, tokens)
                run.loss(loss)
    (kept,) = tl.read(tmp_path)
    assert (kept.state, len(kept.steps)) == ("finished", STEPS)


def test_rows_of_before_the_watching_ended_are_kept(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="no phase is called"), tl.watch(name="plain", out=tmp_path) as run:  # noqa: PT031
        for _ in range(STEPS):
            with run.step(samples=2):
                pass
        with run.phase("nonsense"):  # type: ignore[arg-type]
            pass
    (kept,) = tl.read(tmp_path)
    assert (kept.state, len(kept.steps)) == ("failed", STEPS)


def test_a_watched_model_can_be_saved_whole_and_copied_and_neither_is_watched(tmp_path: Path) -> None:
    model, optimizer = made()
    with tl.watch(model, optimizer, out=tmp_path / "runs", profile=False) as run:
        for tokens in run.data(loader(STEPS)):
            step(model, optimizer, tokens)
        torch.save(model, tmp_path / "model.pt")
        average = copy.deepcopy(model)
        average(tokens)
        for tokens in run.data(loader(STEPS)):
            average(tokens)
            step(model, optimizer, tokens)
    saved = torch.load(tmp_path / "model.pt", weights_only=False)
    assert torch.isfinite(saved(tokens)).all()
    assert b"twinlens" not in (tmp_path / "model.pt").read_bytes()
    (kept,) = tl.read(tmp_path / "runs")
    assert (kept.state, set(kept.steps.samples.tolist())) == ("finished", {BATCH})


def test_a_show_of_warnings_that_fails_ends_no_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "showwarning", fails(RuntimeError("of theirs")))
    monkeypatch.setattr(warnings, "_showwarnmsg_impl", fails(RuntimeError("of theirs")), raising=False)
    done = 0
    with tl.watch(name="plain", out=tmp_path) as run:
        for _ in range(STEPS):
            with run.step(samples=2):
                done += 1
            run.loss(None)
    assert done == STEPS
