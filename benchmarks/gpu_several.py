"""Checks that take two boards or more, and of servers on a board: exchanges, parallel training, a watched loop,
replicas. Each run is measured as `twinlens measure` does it; the answer is what its folder says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu_runs import Answer, inference_of, said_of

HOSTS = Path(".venv-hosts/bin/python")
_CHAT = {"arrival": {"kind": "closed"}, "model": "small"} | inference_of(64, 32)


def server(folder: Path) -> Answer:
    """One launched server: it is given one board of those that are here."""
    return _served(folder, {}, 15.0) | {"boards_here": boards()}


def replicas(folder: Path) -> Answer:
    """Two replicas in turn with one."""
    return {
        "boards_here": boards(),
        "one": _served(folder / "one", {}, 20.0),
        "two": _served(folder / "two", {"replicas": 2}, 20.0),
    }


def exchanges(folder: Path) -> Answer:
    """`probe --collectives`, over all boards."""
    done = subprocess.run([sys.executable, "-m", "twinlens.cli.main", "probe", "--collectives", "--json"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    found = json.loads(done.stdout)["collectives"]
    return {"boards_here": boards(), "link": _link(), "backend": found["backend"], "ranks": found["ranks"],
            "rows": found["rows"], "findings": [each["code"] for each in found["findings"]]}  # fmt: skip


def collectives(folder: Path) -> Iterator[Answer]:
    """Exchanges as runs: a small one and a large one."""
    runs: list[Answer] = []
    for size in (2**20, 2**30):
        workload = {"kind": "collective", "exchange": "all-reduce", "size_bytes": size}
        options = {"ranks": boards()}
        runs.append(measured(folder / str(size), "torch-collectives", options, workload, 10.0, str(size)))
        yield {"boards_here": boards(), "link": _link(), "runs": runs}


def parallel(folder: Path) -> Iterator[Answer]:
    """Training over all boards: copies, and shards."""
    runs: list[Answer] = []
    for how in ("ddp", "fsdp2"):
        options = {"parallel": how, "ranks": boards()}
        runs.append(measured(folder / how, "torch-parallel", options, _training(), 30.0, how, {"ceilings": True}))
        yield {"boards_here": boards(), "runs": runs}


def deepspeed(folder: Path) -> Iterator[Answer]:
    """ZeRO 3 over all boards."""
    if not HOSTS.exists():
        yield {"error": f"{HOSTS} is not here: make .venv-hosts/ready"}
        return
    options = {"stage": 3, "ranks": boards(), "python": str(HOSTS)}
    yield {"boards_here": boards(),
           "runs": [measured(folder, "torch-deepspeed", options, _training(), 30.0, "ZeRO 3")]}  # fmt: skip


def watched(folder: Path) -> Answer:
    """A loop of our own whose model lies on two boards."""
    import torch

    import twinlens as tl

    class Halves(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(4096, 4096).to("cuda:0"), torch.nn.Linear(4096, 8).to("cuda:1")

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x).to("cuda:1"))

    model = Halves()
    optimizer = torch.optim.AdamW(model.parameters())
    with tl.watch(model, optimizer, out=folder, steady_s=5.0) as run:
        for _ in range(3000):
            with run.step(samples=256):
                loss = model(torch.randn(256, 4096, device="cuda:0")).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    (found,) = tl.load(folder)
    return said_of(found)


def boards() -> int:
    import torch

    return int(torch.cuda.device_count())


def _training() -> dict[str, Any]:
    return {"kind": "training", "model": "demo-134m", "global_batch": 4 * boards(), "seq_len": 512}


def _link() -> str:
    from twinlens.measurement.machine.nvidia import gpu_facts
    from twinlens.system.nvml import open_gpus

    gpus, why = open_gpus()
    return str(gpu_facts(gpus, why)["interconnect.device_link"].value)


def _served(folder: Path, options: dict[str, Any], duration_s: float) -> Answer:
    point = {"concurrency": 8, "precision": "bf16"}
    return measured(folder, "transformers-serve", options, _CHAT, duration_s, "served", point=point)


def measured(
    folder: Path,
    kind: str,
    options: dict[str, Any],
    workload: dict[str, Any],
    duration_s: float,
    what: str,
    protocol: dict[str, Any] | None = None,
    point: dict[str, Any] | None = None,
) -> Answer:
    from twinlens.errors import TwinlensError
    from twinlens.measurement.study import measure_study
    from twinlens.spec.load import parse

    bounds = {"duration_s": duration_s, "repeats": 1, "extend": 0, "steady_s": 0.0, "min_rows": 5, "ceilings": False}
    asked: dict[str, Any] = {
        "name": "gpu-check",
        "executor": {"kind": kind, "device": "cuda", "options": options},
        "protocol": bounds | (protocol or {}),
        "workload": workload,
    }
    if workload["kind"] != "collective":
        asked["point"] = {"precision": "bf16"} | (point or {})
    answer: Answer = {"what": what, "state": "", "checks": [], "metrics": {}, "facts": {}, "device_memory": None}
    try:
        outcome = measure_study(parse(asked), folder)
    except TwinlensError as error:
        return answer | {"state": f"refused: {error}"}
    return answer | said_of(outcome.runs[0])
