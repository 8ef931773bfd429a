"""Twinlens and optimum-benchmark on the same model, machine and threads, in turns, beside bare loops: who is right.

The truth for Twinlens is a bare loop over the same static cache and the same trainer; the truth for optimum-benchmark
is the `generate` and the training step that it calls, timed from outside. The two tools run different transformers
(its last release needs one below 5), so each is compared with its own truth first, and only then with the other.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.harness_cost import bare_answer, bare_step
from benchmarks.interleave import median_of
from benchmarks.setup import ANSWER, PROMPT, inference, opened_server, opened_trainer, training
from twinlens.executors.torch.model.build import build_model
from twinlens.measurement.session import run_here
from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.record.store import create_run, read_run
from twinlens.spec.model.reference import load_model
from twinlens.spec.study import RunSpec
from twinlens.units import RATIO, SECONDS

HERE = Path(__file__).parent
PACKAGES = ("optimum-benchmark==0.6.0", "transformers<5", "datasets<5")
BATCH, SEQ_LEN = 2, 256

_TIMES = "×"
Numbers = dict[str, float]


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers", description=__doc__)
    parser.add_argument("--venv", type=Path, default=HERE.parent / ".bench-venv", help="made if it is not there")
    parser.add_argument("--model", default="demo-34m")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=4, help="generations per tool and round")
    parser.add_argument("--steps", type=int, default=4, help="training steps per tool and round, after two more")
    parser.add_argument("--threads", type=int, default=1)
    return parser


def run(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """Both lenses at fp32 and bf16, and the peer's default training run."""
    found: list[Finding] = []
    with tempfile.TemporaryDirectory() as folder:
        _save_model(options.model, Path(folder) / "model")
        try:
            peer = Peer(_prepared(options.venv), Path(folder) / "model", options.threads)
        except (OSError, subprocess.CalledProcessError, RuntimeError) as error:
            return [Finding("optimum-benchmark", Estimate.absent(RATIO, f"it does not run here: {error}"))], []
        with peer:
            for precision in ("fp32", "bf16"):
                with watched() as seen:
                    rounds = _rounds(options, _inference_tools(options, precision, peer))
                found += with_neighbours(_inference_findings(precision, rounds), seen)
                with watched() as seen:
                    rounds = _rounds(options, _training_tools(options, precision, peer))
                found += with_neighbours(_training_findings(precision, rounds, options.steps), seen)
            found.append(_default_run(peer))
            return found, [f"peer: {peer.versions}"]


class Peer:
    """Two processes of the peer's Python, one for the tool and one for the bare loop."""

    def __init__(self, python: Path, folder: Path, threads: int) -> None:
        self._always = {"folder": str(folder), "threads": threads}
        command = [python, "-P", str(HERE / "peer_worker.py")]
        self._workers = {
            tool: subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            for tool in ("optimum", "bare")
        }
        self.versions = self.ask("optimum", "versions")

    def ask(self, tool: str, lens: str, **more: Any) -> Numbers:
        """One answer. Raises RuntimeError with the peer's own reason."""
        worker = self._workers[tool]
        assert worker.stdin
        assert worker.stdout
        worker.stdin.write(json.dumps({"tool": tool, "lens": lens, **self._always, **more}) + "\n")
        worker.stdin.flush()
        answer: dict[str, Any] = json.loads(worker.stdout.readline() or '{"error": "it ended"}')
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            assert worker.stdin
            worker.stdin.close()
            worker.wait(timeout=30)


Tools = dict[str, Callable[[], Numbers]]


def _rounds(options: argparse.Namespace, tools: Tools) -> list[dict[str, Numbers]]:
    """Every tool once a round, in turning order."""
    found = []
    for index in range(options.rounds):
        names = list(tools) if index % 2 == 0 else list(reversed(tools))
        found.append({name: tools[name]() for name in names})
    return found


def _inference_tools(options: argparse.Namespace, precision: str, peer: Peer) -> Tools:
    asked = {"precision": precision, "prompt": PROMPT, "answer": ANSWER, "count": options.count}
    spec = inference(options.model, precision, options.threads, min_rows=options.count + 1, duration_s=3)
    answer = bare_answer(opened_server(spec))

    def bare() -> Numbers:
        prefill_s, generate_s = (_wall_s(lambda n=tokens: answer(n), options.count) for tokens in (1, ANSWER))
        return {"prefill_s": prefill_s, "tpot_s": (generate_s - prefill_s) / (ANSWER - 1)}

    return {
        "twinlens": lambda: _answered(_measured(spec)),
        "optimum": lambda: peer.ask("optimum", "inference", **asked),
        "twinlens bare": bare,
        "optimum bare": lambda: peer.ask("bare", "inference", **asked),
    }


def _training_tools(options: argparse.Namespace, precision: str, peer: Peer) -> Tools:
    asked = {"precision": precision, "batch": BATCH, "seq_len": SEQ_LEN, "steps": options.steps, "warmup": 2}
    spec = training(options.model, precision, BATCH, SEQ_LEN, options.threads, min_rows=options.steps + 1, duration_s=3)
    step = bare_step(opened_trainer(spec))

    return {
        "twinlens": lambda: _stepped(_measured(spec)),
        "optimum": lambda: peer.ask("optimum", "training", **asked),
        "twinlens bare": lambda: {"step_s": _wall_s(step, options.steps)},
        "optimum bare": lambda: peer.ask("bare", "training", **asked),
    }


def _inference_findings(precision: str, rounds: list[dict[str, Numbers]]) -> list[Finding]:
    def said(tool: str, name: str, truth: str, of: str) -> Estimate:
        values = [one[tool][name] / one[truth][of] for one in rounds]
        return median_of(values, f"median over rounds of {tool} {name} / {truth} {of}")

    what = f"inference {precision}"
    ours, theirs = "Twinlens", "optimum-benchmark"
    inflated = [one["optimum"]["generate_samples_per_s"] * one["optimum bare"]["generate_s"] for one in rounds]
    pooled = rounds[0]["optimum"]["per_token_count"]
    return [
        Finding(f"{what}: {ours} TTFT / truth", said("twinlens", "prefill_s", "twinlens bare", "prefill_s")),
        Finding(f"{what}: {ours} TPOT / truth", said("twinlens", "tpot_s", "twinlens bare", "tpot_s")),
        Finding(f"{what}: {theirs} prefill / truth", said("optimum", "prefill_s", "optimum bare", "prefill_s")),
        Finding(f"{what}: {theirs} decode / truth", said("optimum", "tpot_s", "optimum bare", "tpot_s")),
        Finding(
            f"{what}: {theirs} per_token latency / truth",
            said("optimum", "per_token_s", "optimum bare", "tpot_s"),
            note=f"pools {pooled:.0f} gaps; earlier generations count again, with the prefills between them",
        ),
        Finding(
            f"{what}: {theirs} generate samples/s / truth",
            median_of(inflated, "median over rounds", _TIMES),
            note="divides tokens by the time of a generation and calls them samples",
        ),
        Finding(f"{what}: {ours} TPOT / {theirs} decode", said("twinlens", "tpot_s", "optimum", "tpot_s")),
        *_seconds(what, rounds, ("prefill_s", "tpot_s")),
    ]


def _training_findings(precision: str, rounds: list[dict[str, Numbers]], steps: int) -> list[Finding]:
    def said(tool: str, truth: str) -> Estimate:
        values = [one[tool]["step_s"] / one[truth]["step_s"] for one in rounds]
        return median_of(values, f"median over rounds of {tool} step / {truth} step")

    what = f"training {precision}"
    ours = [one["twinlens"]["samples_per_s"] * one["twinlens bare"]["step_s"] / BATCH for one in rounds]
    theirs = [one["optimum"]["samples_per_s"] * one["optimum bare"]["step_s"] / BATCH for one in rounds]
    return [
        Finding(f"{what}: Twinlens step / truth", said("twinlens", "twinlens bare")),
        Finding(f"{what}: Twinlens samples/s / truth", median_of(ours, "median over rounds")),
        Finding(f"{what}: optimum-benchmark step / truth", said("optimum", "optimum bare")),
        Finding(
            f"{what}: optimum-benchmark samples/s / truth",
            median_of(theirs, "median over rounds", _TIMES),
            note=f"samples of all {steps} timed steps over the time of one",
        ),
        *_seconds(what, rounds, ("step_s",)),
    ]


def _seconds(what: str, rounds: list[dict[str, Numbers]], names: tuple[str, ...]) -> list[Finding]:
    """What each said, in seconds: for the record, not for comparison."""
    return [
        Finding(f"{what}: {name} by {tool}", median_of([one[tool][name] for one in rounds], "median", SECONDS))
        for name in names
        for tool in rounds[0]
    ]


def _default_run(peer: Peer) -> Finding:
    """The peer's own defaults: 40 steps of warm-up, 100 timed, batch 2, 16 tokens. Its figure against its own step."""
    asked = {"precision": "fp32", "batch": 2, "seq_len": 16, "steps": 100, "warmup": 40}
    said = peer.ask("optimum", "training", **asked)
    truth_per_s = 2 / said["step_s"]
    method = "its samples/s / (batch / its own mean step)"
    factor = Estimate(said["samples_per_s"] / truth_per_s, _TIMES, method, "measured", n=1)
    note = f"it says {said['samples_per_s']:.0f}/s; its own step of 2 takes {said['step_s'] * 1e3:.0f} ms, which is "
    return Finding(
        "training, optimum-benchmark's defaults: samples/s / truth", factor, note=f"{note}{truth_per_s:.1f}/s"
    )


def _measured(spec: RunSpec) -> Run:
    """One whole Twinlens run in this process, read back from disk."""
    with tempfile.TemporaryDirectory() as parent:
        folder = create_run(Path(parent), spec)
        run_here(folder, spec, lambda phrase, share, count: None)
        run = read_run(folder)
        assert run.table.num_rows > 1  # read while the folder is there
        return run


def _answered(run: Run) -> Numbers:
    """Means over its rows but the first, as the peer takes means; so few rows get no median from Twinlens itself."""
    rows = run.requests
    first, last = rows.first_chunk_ns()[1:], rows.last_chunk_ns()[1:]
    ttft_s, tpot_s = (first - rows.intended_ns[1:]) / 1e9, (last - first) / (rows.output_tokens[1:] - 1) / 1e9
    return {"prefill_s": float(ttft_s.mean()), "tpot_s": float(tpot_s.mean())}


def _stepped(run: Run) -> Numbers:
    """Time over its steps but the first, with what lies between them."""
    step_s = (run.steps.end_ns[-1] - run.steps.end_ns[0]) / (len(run.steps) - 1) / 1e9
    return {"step_s": float(step_s), "samples_per_s": BATCH / float(step_s)}


def _wall_s(call: Callable[[], object], count: int) -> float:
    call()
    begin_s = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin_s) / count


def _save_model(name: str, folder: Path) -> None:
    build_model(load_model(name), "sdpa", 0, torch.device("cpu")).save_pretrained(folder)


def _prepared(folder: Path) -> Path:
    """The Python of the peer's environment, made with the torch that runs here if it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        same_torch = f"torch=={torch.__version__.split('+')[0]}"
        print(f"installing {', '.join(PACKAGES)} into {folder}", file=sys.stderr)
        subprocess.run([python, "-m", "pip", "install", "-q", same_torch, *PACKAGES], check=True)
    return python
