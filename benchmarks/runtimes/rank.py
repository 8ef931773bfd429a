"""One rank of `training.py`: our steps and the runtime's own loop in turns, on one model or on two alike."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

from benchmarks.runtimes.pairs import FEWEST, Figure, group
from twinlens.executors.torch.parallel.training import RankTraining
from twinlens.spec.study import RunSpec

Loop = Callable[[int], float]
"""Seconds per step over so many steps."""


def main() -> None:
    """Take groups until the time is over, by rank 0's clock, and write them."""
    order = json.loads(os.environ["TWINLENS_ORDER"])
    spec = RunSpec.model_validate_json(json.dumps(order["spec"]))
    ours, theirs = (_zero if order["stack"] == "torch-deepspeed" else _ddp)(spec)
    found = _in_turns(lambda: ours(order["steps"]), lambda: theirs(order["steps"]), order["seconds"])
    if dist.get_rank() == 0:
        Path(order["to"]).write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


def _in_turns(ours: Figure, theirs: Figure, seconds: float) -> list[tuple[float, float]]:
    ours()
    theirs()
    found: list[tuple[float, float]] = []
    until_s = time.monotonic() + seconds
    while _goes_on(len(found) < FEWEST or time.monotonic() < until_s):
        found.append(group(ours, theirs, is_ours_outside=len(found) % 2 == 0))
    return found


def _goes_on(wanted: bool) -> bool:
    """Rank 0's word, so that all ranks do as many steps."""
    said = torch.tensor([int(wanted)])
    dist.broadcast(said, 0)
    return bool(said.item())


def _ddp(spec: RunSpec) -> tuple[Loop, Loop]:
    from twinlens.executors.torch.parallel.options import ParallelOptions

    dist.init_process_group("gloo")
    training = RankTraining(spec, ParallelOptions.of(spec.executor.options), torch.device("cpu"))
    model = torch.nn.parallel.DistributedDataParallel(training.whole_model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=training.workload.learning_rate, fused=True)
    batches = training.fresh_batches()

    def plain(steps: int) -> float:
        begin_s = time.monotonic()
        for _ in range(steps):
            inputs, targets = batches.next()
            _loss(model, inputs, targets).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return (time.monotonic() - begin_s) / steps

    return _rows_of(training), plain


def _zero(spec: RunSpec) -> tuple[Loop, Loop]:
    import deepspeed

    from twinlens.executors.torch.deepspeed.engine import divided_by
    from twinlens.executors.torch.deepspeed.entry import ZeroOptions

    deepspeed.init_distributed(dist_backend="gloo")
    asked = ZeroOptions.of(spec.executor.options)
    bare = spec.model_copy(update={"executor": spec.executor.model_copy(update={"options": {}})})
    training = RankTraining(bare, asked, torch.device("cpu"), divided_by(asked))
    engine: Any = training.divided.forward
    timer = engine.tput_timer

    def own(steps: int) -> float:
        before_s = timer.total_elapsed_time
        for _ in range(steps):
            inputs, targets = training.batches.next()
            engine.backward(_loss(engine, inputs, targets))
            engine.step()
        return float(timer.total_elapsed_time - before_s) / steps

    return _rows_of(training), own


def _rows_of(training: RankTraining) -> Loop:
    def rows(steps: int) -> float:
        taken = [training.step() for _ in range(steps)]
        return float(taken[-1]["end_ns"] - taken[0]["begin_ns"]) / 1e9 / steps

    return rows


def _loss(model: Any, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    logits = model(input_ids=inputs, use_cache=False).logits.flatten(0, 1)
    return F.cross_entropy(logits.float(), targets.flatten())


if __name__ == "__main__":
    main()
