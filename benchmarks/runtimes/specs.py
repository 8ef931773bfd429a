"""Specs, runtimes and requests of the parts of this benchmark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinlens.executors.in_process.engine_server import export_of
from twinlens.record.request import Request
from twinlens.schedule.lockstep import LockstepLoop
from twinlens.spec.load import parse
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.length import Fixed

PROMPT, ANSWER = 64, 32  # a short prompt: the time of a token is asked for
_QUICK = {"ceilings": False, "extend": 0, "duration_s": 1e-9, "min_rows": 1, "repeats": 1}
Play = Callable[[Any, Callable[[Request], None]], None]


def spec_of(engine: str, model: str, precision: str, threads: int, answer: int = ANSWER) -> RunSpec:
    """Batch 1 and a prompt of 64 tokens; for images batch 1."""
    lengths = {"input_tokens": _fixed(PROMPT), "output_tokens": _fixed(answer)}
    data = {"data": {"kind": "images"}} if model.startswith(("resnet", "vit")) else {}
    workload = {"kind": "inference", "model": model, "fidelity_prompts": 0, **lengths, **data}
    return _parsed({"kind": engine, "threads": threads}, workload, {"precision": precision})


def training_spec(engine: str, model: str, threads: int, rows: int, **options: Any) -> RunSpec:
    """fp32, `rows` sequences of 256 tokens a step, all in one microbatch."""
    workload = {"kind": "training", "model": model, "global_batch": rows, "seq_len": 256}
    return _parsed({"kind": engine, "threads": threads, "options": options}, workload, {"precision": "fp32"})


def runtime_of(engine: str) -> Any:
    """Of an engine that is not torch."""
    if engine == "onnxruntime":
        from twinlens.executors.onnxruntime.decoder import RUNTIME as ORT

        return ORT
    if engine == "openvino":
        from twinlens.executors.openvino.decoder import RUNTIME as OPENVINO

        return OPENVINO
    if engine == "onnxruntime-served":
        from twinlens.executors.onnxruntime.decoder import SERVED as ORT_SERVED

        return ORT_SERVED
    if engine == "openvino-served":
        from twinlens.executors.openvino.served import SERVED as OPENVINO_SERVED

        return OPENVINO_SERVED
    from twinlens.executors.llama_cpp.decoder import RUNTIME as LLAMA

    return LLAMA


def loaded(runtime: Any, spec: RunSpec) -> tuple[Any, Any]:
    """The export and the engine that it is loaded into."""
    export = export_of(runtime, spec, spec.model.known(), lambda phrase: None)
    return export, runtime.load(export.path, spec, spec.model.known(), spec.executor.threads)


def one(play: Play, answer: int = ANSWER) -> Request:
    """The row of one request."""
    rows: list[Request] = []
    lengths = Fixed(value=PROMPT), Fixed(value=answer)
    play(LockstepLoop(1, *lengths, until_ns=0, min_requests=1, seed=0), rows.append)
    return rows[0]


def _parsed(executor: dict[str, Any], workload: dict[str, Any], point: dict[str, Any]) -> RunSpec:
    data = {"name": "benchmark", "executor": executor, "workload": workload, "point": point, "protocol": _QUICK}
    return parse(data).runs()[0]


def _fixed(tokens: int) -> dict[str, Any]:
    return {"kind": "fixed", "value": tokens}
