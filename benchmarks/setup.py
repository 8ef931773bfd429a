"""Specs and opened executors for the benchmarks, without a file and without the parts of a run they time themselves."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

from twinlens.executors.torch.infer import TorchServer
from twinlens.executors.torch.train import TorchTrainer
from twinlens.schedule.lockstep import LockstepLoop
from twinlens.spec.load import parse
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.length import Fixed

PROMPT, ANSWER = 256, 32
Found = TypeVar("Found")


def training(
    model: str, precision: str, batch: int, seq_len: int, threads: int, graph: str = "eager", **protocol: Any
) -> RunSpec:
    """A training run of `batch` sequences a step, all in one microbatch."""
    workload = {"kind": "training", "model": model, "global_batch": batch, "seq_len": seq_len}
    return _spec(workload, precision, threads, graph, protocol)


def inference(model: str, precision: str, threads: int, graph: str = "eager", **protocol: Any) -> RunSpec:
    """An inference run at batch 1: a prompt of 256 tokens, an answer of 32."""
    lengths = {"input_tokens": _fixed(PROMPT), "output_tokens": _fixed(ANSWER)}
    return _spec(
        {"kind": "inference", "model": model, "fidelity_prompts": 0, **lengths}, precision, threads, graph, protocol
    )


def opened_trainer(spec: RunSpec) -> TorchTrainer:
    """A trainer, ready for its first step."""
    trainer = TorchTrainer()
    trainer.open(spec, lambda phrase: None)
    return trainer


def opened_server(spec: RunSpec) -> TorchServer:
    """A server, ready for its first request."""
    server = TorchServer()
    server.open(spec, lambda phrase: None)
    return server


def requests(count: int) -> LockstepLoop:
    """`count` requests, one after the other."""
    lengths = Fixed(value=PROMPT), Fixed(value=ANSWER)
    return LockstepLoop(1, *lengths, until_ns=0, min_requests=count, seed=0)


def in_fresh_process(call: Callable[..., Found], *given: Any) -> Found:
    """`call(*given)` in its own process: compiled graphs keep their frozen weights as long as one lives."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(call, *given).result()


def _fixed(tokens: int) -> dict[str, Any]:
    return {"kind": "fixed", "value": tokens}


def _spec(workload: dict[str, Any], precision: str, threads: int, graph: str, protocol: dict[str, Any]) -> RunSpec:
    quick = {"ceilings": False, "extend": 0, "duration_s": 1e-9, "min_rows": 1, "repeats": 1} | protocol
    data = {
        "name": "benchmark",
        "executor": {"kind": "torch", "device": "cpu", "threads": threads, "options": {"graph": graph}},
        "workload": workload,
        "point": {"precision": precision},
        "protocol": quick,
    }
    return parse(data).runs()[0]
