"""Training executors against their runtimes' own throughput lines, on the same model, batch and threads.

torch against the Trainer of transformers (`train_samples_per_second` of its `train`), torch-parallel against a plain
DDP loop with a clock around it, torch-deepspeed against the timer behind DeepSpeed's `SamplesPerSec`. Blocks of steps
in turns, in one process or in the same ranks. The Trainer's line counts from the call of `train` to its end, and what
it sets up takes as long as some steps: a step is the difference of two lines, of a long call and of a short one, over
the steps between. DeepSpeed's timer leaves out the drawing of a batch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.runtimes.pairs import Pairs, paired
from benchmarks.runtimes.specs import training_spec

ROOT = Path(__file__).parents[2]
STEPS = 4
_LONG, _SHORT = 9, 3  # steps of two calls of `train`
STACKS = ("torch", "torch-parallel", "torch-deepspeed")


def measured(stack: str, model: str, options: argparse.Namespace) -> list[Finding]:
    """Seconds a step by our rows, and how far over the runtime's own figure."""
    with watched() as seen:
        if stack == "torch":
            pairs, tool, where = _against_trainer(model, options), "the Trainer's own line", "1 process"
        else:
            pairs, where = _in_ranks(stack, model, options), f"{options.ranks} ranks"
            tool = "a plain DDP loop" if stack == "torch-parallel" else "DeepSpeed's own timer"
    return with_neighbours(pairs.findings(f"{model} {stack} fp32 {options.ranks}×256, {where}", tool), seen)


def _against_trainer(model: str, options: argparse.Namespace) -> Pairs:
    import torch
    import transformers

    from benchmarks.setup import opened_trainer

    spec = training_spec("torch", model, options.threads, options.ranks)
    trainer, copy = opened_trainer(spec), opened_trainer(spec).model
    rows = [{"input_ids": each, "labels": each} for each in torch.randint(0, 512, (options.ranks * _LONG, 256))]
    optimizer = torch.optim.AdamW(copy.parameters(), lr=spec.workload.learning_rate, fused=True)  # type: ignore[union-attr]

    def line(steps: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            said_nowhere = {"report_to": [], "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True}
            asked = transformers.TrainingArguments(
                output_dir=folder,
                max_steps=steps,
                per_device_train_batch_size=options.ranks,
                max_grad_norm=0.0,
                use_cpu=True,
                **said_nowhere,
            )
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
            tool = transformers.Trainer(copy, asked, train_dataset=rows, optimizers=(optimizer, schedule))
            tool.remove_callback(transformers.PrinterCallback)
            return options.ranks * steps / float(tool.train().metrics["train_samples_per_second"])

    def theirs() -> float:
        return (line(_LONG) - line(_SHORT)) / (_LONG - _SHORT)

    def ours() -> float:
        marks = [trainer.step() for _ in range(_LONG - _SHORT)]
        return (marks[-1].end_ns - marks[0].begin_ns) / 1e9 / (_LONG - _SHORT)

    line(1)  # transformers imports its trainer when it is first named
    if options.clock == "cpu":
        _put_processor_time()
    return paired(ours, theirs, options.seconds)


def _put_processor_time() -> None:
    """Let both sides read processor time, and nothing else."""

    s, ns = time.process_time, time.process_time_ns
    others = {"time": s, "perf_counter": s, "monotonic": s, "monotonic_ns": ns, "perf_counter_ns": ns}
    clock = SimpleNamespace(**(vars(time) | others))
    for name, module in list(sys.modules.items()):
        if name.startswith(("transformers.trainer", "twinlens.executors.torch")):
            vars(module).update({"time": clock} if vars(module).get("time") is time else {})


def _in_ranks(stack: str, model: str, options: argparse.Namespace) -> Pairs:
    """Runs `rank.py` on every rank; rank 0 writes the figures. Raises RuntimeError with the end of their output."""
    spec = training_spec(stack, model, options.threads, options.ranks, ranks=options.ranks, **_options(stack, options))
    python, environment = sys.executable, {"OMP_NUM_THREADS": str(options.threads), "GLOO_SOCKET_IFNAME": "lo"}
    if stack == "torch-deepspeed":
        from twinlens.executors.torch.deepspeed.program import program_of

        program = program_of(spec, lambda phrase: None)
        python, environment = program.python, environment | dict(program.environment)
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "pairs.json"
        order = {"spec": spec.to_dict(), "stack": stack, "steps": STEPS, "seconds": options.seconds}
        environment |= {
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "TWINLENS_ORDER": json.dumps(order | {"to": str(written)}),
        }
        command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(options.ranks)]
        command += ["-m", "benchmarks.runtimes.rank"]
        done = subprocess.run(
            command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=900
        )
        if done.returncode or not written.exists():
            raise RuntimeError(f"the ranks of {stack} failed: {done.stderr[-1500:]}")
        return Pairs(*np.array(json.loads(written.read_text(encoding="utf-8"))).T)


def _options(stack: str, options: argparse.Namespace) -> dict[str, Any]:
    return {"python": options.deepspeed_python} if stack == "torch-deepspeed" and options.deepspeed_python else {}
