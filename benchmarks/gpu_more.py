"""Checks of one board that its first tier has no time for: adapters, saves, vLLM, TensorRT.

What is not installed is refused by the run itself, and then not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu_runs import Answer, inference_of
from benchmarks.gpu_several import measured

VLLM = Path(".venv-vllm/bin/python")
_TRAINING: dict[str, Any] = {"kind": "training", "model": "llama-3.2-1b", "global_batch": 8, "seq_len": 512}


def adapters(folder: Path) -> Iterator[Answer]:
    """LoRA beside weights in bf16, and beside weights in four bits."""
    runs: list[Answer] = []
    for method in ("lora", "qlora"):
        workload = _TRAINING | {"method": method, "adapter": {"r": 8}}
        runs.append(measured(folder / method, "torch", {}, workload, 15.0, method, point={"microbatch": 2}))
        yield {"runs": runs}


def saves(folder: Path) -> Iterator[Answer]:
    """Saves that block until they are on storage, and saves that block until they are copied aside."""
    runs: list[Answer] = []
    for mode in ("sync", "async"):
        workload = _TRAINING | {"model": "demo-134m", "checkpoint": {"every_steps": 20, "mode": mode}}
        runs.append(measured(folder / mode, "torch", {}, workload, 15.0, mode))
        yield {"runs": runs}


def vllm(folder: Path) -> Iterator[Answer]:
    """vLLM at bf16, and at fp8 that it makes of a wide folder."""
    workload = {"arrival": {"kind": "closed"}, "model": "demo-134m"} | inference_of(64, 32)
    runs: list[Answer] = []
    for precision in ("bf16", "fp8"):
        point = {"concurrency": 8, "precision": precision}
        options = {"python": str(VLLM)}
        runs.append(measured(folder / precision, "vllm", options, workload, 15.0, precision, point=point))
        yield {"runs": runs}


def tensorrt(folder: Path) -> Iterator[Answer]:
    """The same images through TensorRT and through torch."""
    workload = {"kind": "inference", "model": "resnet-50", "data": {"kind": "images"}}
    runs: list[Answer] = []
    for kind in ("tensorrt", "torch"):
        runs.append(measured(folder / kind, kind, {}, workload, 15.0, kind, point={"batch": 16, "precision": "fp16"}))
        yield {"runs": runs}


def counters(folder: Path) -> Answer:
    """Counters of errors as a burn-in reads them, and the digests of its products from two processes."""
    from twinlens.acceptance.driving.counters import Xids, read_gpu
    from twinlens.acceptance.driving.products import in_own_process
    from twinlens.record.codec import encode
    from twinlens.system.nvml import open_gpus

    gpus, why = open_gpus()
    if not gpus:
        return {"why_not": why, "reading": {}, "products": []}
    reading = read_gpu(gpus[0], Xids(gpus))
    products = [dict(in_own_process()[0].get(reading.device, {})) for _ in range(2)]
    return {"why_not": None, "reading": encode(reading), "products": products}
