"""A training that a run starts by the user's own command: a real loop of torch, its log quoted and the machine sampled
meanwhile."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import twinlens as tl
from material import command, measured, training
from nvml_machine import Board
from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.trainer_log.formats import read_megatron
from twinlens.executors.trainer_log.live import TOLERANCE_NS, Tail, placed
from twinlens.executors.trainer_log.rows import collected, rows_of
from twinlens.measurement.summary_file import summary_of
from twinlens.record.step import Marks
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.judging.check import check_document
from twinlens.reporting.wording.finding import sentence_of

pytest.importorskip("torch", reason="needs the torch extra")

LOOP = """
import pathlib, sys, time
folder, steps, pause_s, code = pathlib.Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
STEP
for step in range(1, steps + 1):
    while step == 4 and not any(folder.rglob("steps.arrows")):
        time.sleep(0.02)  # rows are taken from here on
    time.sleep(PAUSES_S.get(step, 0.0))  # as an evaluation does
    begun = time.perf_counter()
    loss = train()
    time.sleep(pause_s)
    print(f" iteration {step:8d}/ {steps} | consumed samples: {32 * step:12d} | elapsed time per iteration (ms): "
          f"{1e3 * (time.perf_counter() - begun):.3f} | global batch size:    32 | lm loss: {loss:.6E} |")
if code:
    raise RuntimeError("the disk of the checkpoints is full")
"""
TORCH = """
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256))
optimizer = torch.optim.AdamW(model.parameters())
def train():
    data = torch.randn(32, 256)
    loss = (model(data) - data).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()
"""
NOTHING = "train = lambda: 2.0"


def loop(folder: Path, steps: int = 16, pause_s: float = 0.02, code: int = 0, step: str = NOTHING) -> list[str]:
    """The command of a loop; from its fourth step on it waits until a run in the folder takes rows."""
    script = folder / "train.py"
    pauses_s = {4: 1.0, 10: 1.6} if step == TORCH else {4: 0.4}
    script.write_text(LOOP.replace("STEP", step).replace("PAUSES_S", str(pauses_s)))
    return [sys.executable, str(script), str(folder), str(steps), str(pause_s), str(code)]


def asked(words: Any, **options: Any) -> dict[str, Any]:
    known = {"command": words, "format": "megatron", "tokens_per_step": 32 * 8}
    return training("trainer-log", options=known | options, global_batch=32, seq_len=8)


def test_a_real_loop_that_a_run_started_is_quoted_and_its_machine_is_sampled(tmp_path: Path) -> None:
    run = measured(tmp_path, asked(loop(tmp_path, step=TORCH)))
    assert (run.state, run.place) == ("finished", "here")
    whole = rows_of(collected(read_megatron((run.folder / "command.log").open())), 32, 8)
    assert whole.lines == 16
    kept = [row for row in run.table.to_pylist() if row["kind"] == "step"]
    assert 0 < len(kept) < 16, "the first line came before sampling began"
    last = whole.marks[-len(kept) :]
    assert [row["end_ns"] - row["begin_ns"] for row in kept] == [each.end_ns - each.begin_ns for each in last]
    assert [row["loss"] for row in kept] == [each.loss for each in last]
    times = [(row["begin_ns"], row["end_ns"]) for row in run.table.to_pylist()]
    assert all(before[1] == after[0] for before, after in pairwise(times)), "on one clock, without a hole"
    gaps = [row for row in run.table.to_pylist() if row["kind"] == "between"]
    assert max(row["end_ns"] - row["begin_ns"] for row in gaps) > 0.5e9, "the pause before the tenth step"
    assert {row["tokens"] for row in gaps} == {0}, "in no rate"
    samples = run.telemetry.to_pylist()
    theirs = [each["rss_bytes"] for each in samples if each["source"] == "server"]
    assert max(theirs, default=0) > 100 * 2**20, "resident memory of the process that holds torch"
    assert all(each["time_ns"] >= 0 for each in samples)
    metrics = summary_of(run).metrics
    assert {metrics[name].origin for name in ("training_tokens_per_s", "step_s_p50", "final_loss")} == {"quoted"}
    assert metrics["peak_bytes"].origin == "measured"
    assert run.facts is not None
    assert run.facts.work == {}, "what the command trains is not the spec's word"
    assert run.facts.executor.value("host.cpu.threads") == psutil.cpu_count()
    said = next(sentence_of(each) for each in run.facts.findings if each.code == "read-from-log")
    assert said.startswith(f"This run started `{sys.executable}")
    assert "16 lines" in said
    assert "Step times, losses and counts are quoted from it; what is told of power" in said
    assert "nothing was measured" not in said
    assert "steps quoted from its log" in " ".join(tl.show(run).split())
    assert len(tl.diagnose(run)) == 1
    assert "nothing was measured" not in tl.report([run], to=tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_command_that_fails_keeps_its_rows_and_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(ExecutorFailed, match="ended with code 1: RuntimeError: the disk of the checkpoints is full"):
        measured(tmp_path, asked(loop(tmp_path, code=1)))
    (run,) = tl.read(tmp_path)
    assert run.state == "failed"
    assert run.table.num_rows > 5
    assert "command.log" in (run.error or "")


class Below(Sequence[int]):
    """Processes that this one has started, as the driver lists those that compute on a board."""

    def __len__(self) -> int:
        return len(psutil.Process().children(recursive=True))

    def __getitem__(self, place: Any) -> Any:
        return [each.pid for each in psutil.Process().children(recursive=True)][place]


def test_the_boards_on_which_the_command_computes_are_sampled_and_no_others(tmp_path: Path, machine: Any) -> None:
    machine(Board("GPU-a", pids=Below()), Board("GPU-b", pids=[1]))
    run = measured(tmp_path, asked(loop(tmp_path)))
    assert run.facts is not None
    assert run.facts.executor.value("accelerator.uuid") == ["GPU-a"]
    assert run.facts.executor.value("accelerator.product") == "NVIDIA H100 80GB HBM3"
    boards = [each for each in run.telemetry.to_pylist() if each["source"].startswith("gpu:")]
    assert {(each["source"], each["power_w"]) for each in boards} == {("gpu:GPU-a", 350.0)}
    assert summary_of(run).metrics["peak_bytes"].value == 10 << 30, "what the driver says that the board holds"


def test_a_command_on_several_nodes_has_no_energy_and_no_memory_of_one(tmp_path: Path, machine: Any) -> None:
    machine(Board("GPU-a", pids=Below()))
    run = measured(tmp_path, asked(["env", "WORLD_SIZE=16", "LOCAL_WORLD_SIZE=8", *loop(tmp_path)]))
    metrics = summary_of(run).metrics
    assert "2 nodes" in (metrics["energy_per_token_j"].reason or "")
    assert "other nodes" in (metrics["peak_bytes"].reason or "")


def test_boards_that_nobody_is_seen_on_are_not_charged_to_the_command(tmp_path: Path, machine: Any) -> None:
    machine(Board("GPU-a", pids=None))
    run = measured(tmp_path, asked(loop(tmp_path)))
    assert run.facts is not None
    assert "none of the command's processes" in (run.facts.executor.facts["accelerator.uuid"].reason or "")
    assert not [each for each in run.telemetry.to_pylist() if each["source"].startswith("gpu:")]


def test_a_command_that_prints_another_format_is_ended_when_that_shows(tmp_path: Path) -> None:
    words = loop(tmp_path, steps=3)
    script = tmp_path / "train.py"
    script.write_text(script.read_text() + "\nprint('warming up\\n' * 30)\ntime.sleep(3600)\n")
    with pytest.raises(BadInput, match=r'no line of nemo, but 3 of megatron: --set .*format="megatron"'):
        measured(tmp_path, asked(words, format="nemo"))
    assert not _running(words[1])


@pytest.mark.slow
def test_an_interrupt_ends_the_command_and_all_it_started_and_keeps_the_rows(tmp_path: Path) -> None:
    words = loop(tmp_path, steps=10_000, step=TORCH)
    asking = subprocess.Popen(
        command("measure", _spec(tmp_path, words), "--out", tmp_path / "runs"),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        rows = _until(lambda: next(iter((tmp_path / "runs").glob("*/*/steps.arrows")), None))
        _until(lambda: rows.stat().st_size > 3000 or None)
        (child,) = _until(lambda: _running(words[1]) or None)
        os.killpg(asking.pid, signal.SIGINT)
        told = asking.communicate(timeout=60)[1]
    finally:
        asking.kill()
    assert asking.returncode == 130
    assert f"running {sys.executable} {words[1]}" in told.replace("\n", "")
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
    (run,) = tl.read(tmp_path / "runs")
    assert run.state == "interrupted"
    assert run.table.num_rows > 0
    assert run.facts is not None
    assert "This run started" in sentence_of(run.facts.findings[0])


def _spec(folder: Path, words: list[str]) -> Path:
    listed = ", ".join(f'"{word}"' for word in words)
    spec = folder / "spec.toml"
    spec.write_text(
        f'schema = 1\nname = "own"\n[executor]\nkind = "trainer-log"\n[executor.options]\ncommand = [{listed}]\n'
        'tokens_per_step = 256\n[workload]\nkind = "training"\nmodel = "tiny"\nglobal_batch = 32\nseq_len = 8\n'
    )
    return spec


def _until(found: Any) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (value := found()) is not None:
            return value
        time.sleep(0.05)
    raise AssertionError("it never came")


def _running(script: str) -> list[int]:
    named = [(each.pid, each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"])]
    return [pid for pid, words in named if words[1:2] == [script]]


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    words = [*loop(tmp_path, steps=4), ";", "touch", str(tmp_path / "made"), "$(touch made)"]
    measured(tmp_path, asked(words))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("python train.py", "is a list of words"),
        ([], "needs the log"),
        ([""], "is a list of words"),
        (["python", 3], "is a list of words"),
        (["no-such-trainer"], "no-such-trainer is not to be found here"),
    ],
)
def test_a_command_that_is_none_is_refused_by_check_and_by_measure_alike(words: Any, told: str, tmp_path: Path) -> None:
    study = tl.parse(asked(words))
    with pytest.raises(BadInput, match=told) as refused:
        tl.check(study)
    assert refused.value.code == "TL207"
    with pytest.raises(BadInput, match=told):
        tl.measure(study, out=tmp_path, watch=None)


def test_a_wait_for_silence_beside_a_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="follow_s means nothing to a command"):
        tl.check(tl.parse(asked(loop(tmp_path), follow_s=5.0)))


def test_a_command_is_started_once_where_nobody_asks_for_more(tmp_path: Path) -> None:
    protocol = tl.load(_spec(tmp_path, loop(tmp_path))).protocol
    assert (protocol.repeats, protocol.retakes) == (1, 0), "a disturbed run is no reason to train again"


def test_check_says_what_it_would_run_and_predicts_nothing_of_it(tmp_path: Path) -> None:
    words = loop(tmp_path)
    checked = tl.check(tl.load(_spec(tmp_path, words)))
    assert (checked.points[0].theory, checked.points[0].memory_bytes) == ({}, None)
    console = Console(width=400, record=True, file=io.StringIO())
    console.print(screen(check_document(checked)))
    told = console.export_text()
    assert f"Measuring it runs, without a shell: {' '.join(words)}" in told
    assert "1 run, as long as the trainer's log goes on" in told
    assert not (tmp_path / "runs").exists()


def test_a_command_that_ends_before_any_row_is_taken_is_told_to_run_longer(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"1 step ended before .* began to be sampled"):
        measured(tmp_path, asked(loop(tmp_path, steps=1)))


def test_a_log_that_somebody_else_writes_is_followed_until_it_is_silent(tmp_path: Path) -> None:
    words, log = loop(tmp_path, steps=12), tmp_path / "train.log"
    with log.open("w") as file, subprocess.Popen([*words[:1], "-u", *words[1:]], stdout=file) as trainer:
        _until(lambda: log.stat().st_size or None)
        run = measured(tmp_path, asked((), log=str(log), follow_s=1.5))
        assert trainer.poll() == 0, "it was read to its end"
    assert run.place == "recorded"
    assert run.telemetry.num_rows == 0, "nothing says that it runs on this machine"
    whole = rows_of(collected(read_megatron(log.open())), 32, 8).marks
    assert [row["end_ns"] for row in run.table.to_pylist()] == [each.end_ns for each in whole]


def _written(path: Path, pieces: list[bytes]) -> Iterator[bool]:
    """Writes one piece at each asking; over when there are none."""
    for piece in pieces:
        with path.open("ab") as file:
            file.write(piece)
        yield False
    while True:
        yield True


TEXT = "é iteration 1/ 2 | elapsed time per iteration (ms): 15.1 |\r\n" + "x" * 30_000 + "\n\n\rlast\nunfinished"


@given(st.lists(st.integers(0, len(TEXT.encode()) - 1), max_size=4))
def test_however_a_log_is_written_its_lines_are_those_of_the_whole(cuts: list[int]) -> None:
    pieces = [TEXT.encode()[begin:end] for begin, end in pairwise([0, *sorted({*cuts} - {0}), len(TEXT.encode())])]
    with TemporaryDirectory() as folder:
        over = _written(path := Path(folder) / "train.log", pieces)
        tail = Tail(path, 0, lambda: next(over))
        told = list(tail.lines())
    whole = ["é iteration 1/ 2 | elapsed time per iteration (ms): 15.1 |", "x" * 20_000, "", "", "last"]
    assert told == [f"{line}\n" for line in whole]
    assert tail.is_cut
    assert all(tail.came_ns(line) <= tail.came_ns(line + 1) for line in range(4))


def test_a_log_that_is_begun_again_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("one\ntwo\n")
    over = iter([False, False, True, True])
    tail = Tail(path, 0, lambda: next(over))
    lines = tail.lines()
    assert [next(lines), next(lines)] == ["one\n", "two\n"]
    path.write_text("new\n")
    assert list(lines) == ["new\n"]


def marks(seconds: list[float]) -> list[Marks]:
    return [Marks(0, round(each * 1e9), 32, 256) for each in seconds]


def test_rows_stand_where_their_lines_came_and_gaps_between_them_are_rows_of_their_own() -> None:
    came = [2.0, 3.05, 4.0, 9.0]  # after an evaluation of four seconds
    rows = list(placed(zip(marks([1.0] * 4), [round(each * 1e9) for each in came], strict=True)))
    assert [(row.kind, row.begin_ns / 1e9, row.end_ns / 1e9) for row in rows] == [
        ("step", 1.0, 2.0), ("step", 2.0, 3.0), ("step", 3.0, 4.0), ("between", 4.0, 8.0), ("step", 8.0, 9.0),
    ]  # fmt: skip


def test_lines_that_come_together_are_placed_by_the_last_of_them_and_none_lies_before_the_start() -> None:
    came = [0.4, 5.0, 5.0, 5.0, 6.0]  # held back by a trainer's buffer
    rows = list(placed(zip(marks([1.0] * 5), [round(each * 1e9) for each in came], strict=True)))
    assert [row.kind for row in rows] == ["step", "step", "between", "step", "step"]
    assert rows[-1].end_ns == 6_000_000_000
    assert rows[0].begin_ns == 400_000_000


@given(st.lists(st.tuples(st.floats(0.001, 9.0), st.floats(0.0, 20.0)), min_size=1, max_size=20))
def test_rows_on_our_clock_are_as_long_as_the_log_says_and_follow_each_other(each: list[tuple[float, float]]) -> None:
    came, at_s = [], 0.0
    for _, waited_s in each:
        at_s += waited_s
        came.append(round(at_s * 1e9))
    asked_for = marks([length for length, _ in each])
    rows = list(placed(zip(asked_for, came, strict=True)))
    assert all(before.end_ns == after.begin_ns for before, after in pairwise(rows))
    assert all(row.begin_ns >= 0 for row in rows)
    steps = [row.end_ns - row.begin_ns for row in rows if row.kind == "step"]
    assert steps == [each.end_ns for each in asked_for][len(asked_for) - len(steps) :]
    assert all(row.end_ns - row.begin_ns > TOLERANCE_NS for row in rows if row.kind == "between")
