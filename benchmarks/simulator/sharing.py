"""How much slower serving and training are on one core together than each alone, measured here by turns.

`python -m benchmarks.simulator.sharing` prints docs/results/sharing.md (`--save` writes it). A real server
(`transformers serve`) answers one request after another on a core, the embedded executor trains on the same core; the
client has another. Each round has a slice of serving alone, of training alone and of both, so that a machine that
changes in the meantime changes all three. The slowdowns are those that `twinlens.simulation.training.day` asks for.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Event

import numpy as np
from scipy import stats

from benchmarks.columns import put
from benchmarks.published import FOLDER
from twinlens.executors.registry import server, trainer
from twinlens.record.request import Request
from twinlens.schedule.closed_loop import ClosedLoop
from twinlens.schedule.draw import endless_requests
from twinlens.spec.load import parse
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload

PLACE = FOLDER / "sharing.md"
CORE, MODEL = 0, "demo-34m"
_KINDS = ("serving", "training", "both")
_SETTLE_S = 0.5  # after a change of turn: a step or a request of the turn before


@dataclass(frozen=True, slots=True)
class Slice:
    """One turn: mean seconds to the first token and per later token, and steps per second; None where none ran."""

    first_s: float | None
    token_s: float | None
    steps_per_s: float | None


def main() -> None:
    """Measure, and print the page or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--slice-s", type=float, default=6.0)
    parser.add_argument("--save", action="store_true", help="write docs/results/sharing.md")
    asked = parser.parse_args()
    text = page(measured(asked.rounds, asked.slice_s), asked.slice_s)
    put(text, PLACE, save=asked.save)


def measured(rounds: int, slice_s: float) -> list[dict[str, Slice]]:
    """Slices by kind, round by round; the order of turns rotates."""
    context = multiprocessing.get_context("spawn")
    go, ends = context.Event(), context.SimpleQueue()
    child = context.Process(target=_train, args=(go, ends), daemon=True)
    child.start()
    spec = _spec(
        "transformers-serve",
        {"kind": "inference", "input_tokens": {"kind": "fixed", "value": 64},
         "output_tokens": {"kind": "fixed", "value": 16}, "arrival": {"kind": "single-stream"}},
        {"cpus": [CORE]},
    )  # fmt: skip
    assert isinstance(spec.workload, InferenceWorkload)
    opened = server("transformers-serve")
    opened.open(spec, print)
    ends.get()  # the first steps are behind it
    upcoming = endless_requests(spec.workload, seed=spec.seed, prompt_seed=7)
    found = []
    try:
        for number in range(rounds + 1):
            turns = [_KINDS[(number + place) % len(_KINDS)] for place in range(len(_KINDS))]
            one = {}
            for kind in turns:
                rows: list[Request] = []
                if kind != "serving":
                    go.set()
                begin_s = time.monotonic()
                if kind == "training":
                    time.sleep(slice_s)
                else:
                    opened.play(ClosedLoop(1, upcoming, until_ns=round(slice_s * 1e9), from_first=True), rows.append)
                go.clear()
                one[kind] = _slice(kind, rows, ends, begin_s)
            found.append(one)
    finally:
        opened.close()
        child.terminate()
    return found[1:]  # the first warms up


def _slice(kind: str, rows: Sequence[Request], ends: multiprocessing.SimpleQueue[float], begin_s: float) -> Slice:
    end_s = time.monotonic()
    time.sleep(_SETTLE_S)
    steps = []
    while not ends.empty():
        steps.append(ends.get())
    inside = [each for each in steps if begin_s + _SETTLE_S <= each <= end_s]
    rate = (len(inside) - 1) / (inside[-1] - inside[0]) if len(inside) > 1 else None
    if kind == "training":
        return Slice(None, None, rate)
    first = [(row.chunk_ns[0] - row.sent_ns) / 1e9 for row in rows[1:]]
    each = [(row.chunk_ns[-1] - row.chunk_ns[0]) / 1e9 / (row.output_tokens - 1) for row in rows[1:]]
    return Slice(float(np.mean(first)), float(np.mean(each)), rate if kind == "both" else None)


def _train(go: Event, ends: multiprocessing.SimpleQueue[float]) -> None:
    """Steps while `go` is set; the end of each, in seconds of the machine's monotonic clock."""
    os.sched_setaffinity(0, {CORE})
    opened = trainer("torch")
    workload = {"kind": "training", "global_batch": 1, "seq_len": 128, "data": {"kind": "markov", "branches": 8}}
    opened.open(_spec("torch", workload, {"freed_memory": "kept"}), lambda phrase: None)
    for _ in range(5):
        opened.step()
    ends.put(time.monotonic())
    while True:
        go.wait()
        opened.step()
        ends.put(time.monotonic())


def _spec(kind: str, workload: dict[str, object], options: dict[str, object]) -> RunSpec:
    data = {
        "schema": 1, "name": "sharing", "executor": {"kind": kind, "threads": 1, "options": options},
        "workload": {"model": MODEL, **workload}, "point": {"precision": "fp32"},
        "protocol": {"duration_s": 60, "repeats": 1, "ceilings": False},
    }  # fmt: skip
    return parse(data, ()).runs()[0]


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Together over alone: geometric mean over rounds with its 95 % interval, from `n` rounds."""

    value: float
    low: float
    high: float
    n: int


def slowdown(ratios: Sequence[float]) -> Slowdown:
    """Of ratios by round, at least two; the interval is Student's, of their logarithms."""
    logs = np.log(ratios)
    half = float(stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs)))
    middle = float(logs.mean())
    return Slowdown(float(np.exp(middle)), float(np.exp(middle - half)), float(np.exp(middle + half)), len(logs))


def slowdowns(found: Sequence[dict[str, Slice]]) -> dict[str, Slowdown]:
    """By what is slower, of the rounds in which all three turns gave a figure."""
    pairs: dict[str, list[float]] = {"time to first token": [], "time per token": [], "training step": []}
    for one in found:
        alone, both, trains = one["serving"], one["both"], one["training"]
        if alone.first_s and both.first_s:
            pairs["time to first token"].append(both.first_s / alone.first_s)
        if alone.token_s and both.token_s:
            pairs["time per token"].append(both.token_s / alone.token_s)
        if trains.steps_per_s and both.steps_per_s:
            pairs["training step"].append(trains.steps_per_s / both.steps_per_s)
    return {name: slowdown(ratios) for name, ratios in pairs.items() if len(ratios) > 1}


def page(found: Sequence[dict[str, Slice]], slice_s: float) -> str:
    """The slowdowns, and the middle of what each did alone."""
    lines = [
        "# Serving and training on one core",
        "",
        "Made by `python -m benchmarks.simulator.sharing --save`; not edited by hand. `transformers serve` answers one",
        f"request after another ({MODEL}, fp32, 64 + 16 tokens), the embedded executor trains the same model (1 x 128",
        "tokens a step), one core for both and another for the client.",
        f"{len(found)} rounds, each with {slice_s:g} s of serving alone, of training alone and of both; a ratio is of",
        "one round. Measured; 95 % intervals over rounds.",
        "",
        "| slower | together over alone | 95 % interval | rounds |",
        "|---|---:|---:|---:|",
    ]
    for name, each in slowdowns(found).items():
        lines.append(f"| {name} | {each.value:.2f} | {each.low:.2f}–{each.high:.2f} | {each.n} |")
    first = np.median([one["serving"].first_s for one in found if one["serving"].first_s])
    token = np.median([one["serving"].token_s for one in found if one["serving"].token_s])
    steps = np.median([one["training"].steps_per_s for one in found if one["training"].steps_per_s])
    lines += [
        "",
        f"Alone, in the middle: {first * 1e3:.0f} ms to the first token, {token * 1e3:.1f} ms a token, "
        f"{steps:.2f} training steps/s.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
