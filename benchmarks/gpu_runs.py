"""Checks that measure runs on the GPU, as `twinlens measure` does, and what their folders say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu_smi import tdp_w

Answer = dict[str, Any]
DEVICE = "cuda:0"
TRAINING = {"kind": "training", "global_batch": 8, "seq_len": 2048}


def training(folder: Path) -> Answer:
    found = _measured(folder, "bf16", {"model": "llama-3.2-1b"} | TRAINING, 60.0, {"microbatch": 2}, ceilings=True)
    return found | {"tdp_w": tdp_w()}


def decode(folder: Path) -> Answer:
    workload = {"model": "llama-3.2-1b"} | inference_of(512, 128)
    return _measured(folder, "bf16", workload, 30.0, {}, graph="compiled", ceilings=True)


def fp8_inference(folder: Path) -> Iterator[Answer]:
    """A head that is tied stays in bf16; at batch 16 a captured graph has other kernels than at 1."""
    workload = {"model": "llama-3.2-1b", "fidelity_prompts": 2} | inference_of(512, 64)
    runs: list[Answer] = []
    for precision, batch in (("bf16", 1), ("fp8", 1), ("fp8", 16), ("bf16", 16)):
        what = f"{precision} batch {batch}"
        runs.append(_measured(folder, precision, workload, 6.0, {"batch": batch}, graph="compiled", what=what))
        yield {"runs": runs}


def fp8_training(folder: Path) -> Iterator[Answer]:
    workload = {"model": "llama-3.2-1b"} | TRAINING
    runs: list[Answer] = []
    for precision, graph in (("fp8", "compiled"), ("bf16", "compiled"), ("fp8", "eager")):
        what = f"{precision} {graph}"
        runs.append(_measured(folder, precision, workload, 10.0, {"microbatch": 2}, graph=graph, what=what))
        yield {"runs": runs}


def int8_weight(folder: Path) -> Answer:
    from twinlens.errors import BadInput
    from twinlens.executors.torch.infer import TorchServer

    asked = study("int8", {"model": "tiny"} | inference_of(16, 8), "int8-weight")
    try:
        TorchServer().open(asked.runs()[0], print)
    except BadInput as error:
        return {"sentence": str(error)}
    return {"sentence": "it was not refused"}


def vision(folder: Path) -> Iterator[Answer]:
    from twinlens.executors.torch.device import fp32_settings
    from twinlens.executors.torch.infer import TorchServer
    from twinlens.stats.metrics.fidelity import fidelity

    found = {}
    for precision in ("fp32", "tf32", "bf16"):
        workload = {"model": "resnet-50", "data": {"kind": "images"}, "kind": "inference"}
        facts = TorchServer().open(study("vision", workload, precision).runs()[0], print)
        (compute,) = (check for check in facts.precision if check.tensor_class == "compute")
        kl = fidelity(facts.fidelity)["kl_nats"].value if facts.fidelity else None
        found[precision] = fp32_settings() | {"verdict": compute.verdict, "evidence": compute.evidence, "kl": kl}
        yield {"runs": found}


def inference_of(tokens: int, answer: int) -> dict[str, Any]:
    lengths = {"input_tokens": tokens, "output_tokens": answer}
    return {"kind": "inference"} | {name: {"kind": "fixed", "value": value} for name, value in lengths.items()}


def study(name: str, workload: dict[str, Any], precision: str = "bf16", **parts: Any) -> Any:
    from twinlens.spec.load import parse

    protocol = {"repeats": 1, "extend": 0, "steady_s": 0.0, "telemetry_s": 0.1, "min_rows": 5, "ceilings": False}
    return parse(
        {
            "name": name,
            "executor": {"device": DEVICE, "options": {"graph": parts.get("graph", "eager")}},
            "point": {"precision": precision} | parts.get("point", {}),
            "protocol": protocol | parts.get("protocol", {}),
            "workload": workload,
        }
    )


def _measured(
    folder: Path,
    precision: str,
    workload: dict[str, Any],
    duration_s: float,
    point: dict[str, Any],
    graph: str = "eager",
    ceilings: bool = False,
    what: str = "",
) -> Answer:
    """One run as `twinlens measure` makes it, and what its folder says."""
    from twinlens.errors import TwinlensError
    from twinlens.measurement.study import measure_study

    asked = study("gpu-check", workload, precision, graph=graph, point=point,
                  protocol={"duration_s": duration_s, "ceilings": ceilings})  # fmt: skip
    answer: Answer = {"what": what, "state": "", "checks": [], "metrics": {}, "facts": {}, "device_memory": None}
    try:
        outcome = measure_study(asked, folder / (what or precision).replace(" ", "-"))
    except TwinlensError as error:
        return answer | {"state": f"refused: {error}"}
    return answer | said_of(outcome.runs[0])


def said_of(run: Any) -> Answer:
    from twinlens.measurement.summary_file import summary_of
    from twinlens.reporting.wording.finding import sentence_of

    state = run.state if run.state == "finished" else f"{run.state}: {run.error}"
    if run.facts is None:
        return {"state": state}
    board = run.telemetry.column("memory_used_bytes").drop_null().to_pylist()
    return {
        "state": state,
        "checks": [{"class": c.tensor_class, "declared": c.declared, "observed": c.observed, "verdict": c.verdict,
                    "evidence": c.evidence} for c in run.facts.precision],
        "metrics": {name: estimate.value for name, estimate in summary_of(run).metrics.items()},
        "facts": {key: run.facts.executor.value(key) for key in _FACTS},
        "replicas": run_record(run).get("replicas"),
        "notes": [*run.facts.notes, *map(sentence_of, run.facts.findings)],
        "device_memory": asdict(held) if (held := run.sections.device_memory) else None,
        "board_bytes": max(board) if board else None,
        "power_over_counter": _power_over_counter(run.telemetry),
        "first_over_median": _first_over_median(run),
    }  # fmt: skip


_FACTS = (
    *("serving.graphs", "kernels.graph_breaks", "serving.replicas", "accelerator.uuid", "accelerator.count"),
    *("power.boundary", "training.world_size"),
)


def run_record(run: Any) -> dict[str, Any]:
    """What run.json of a run says."""
    found: dict[str, Any] = json.loads((run.folder / "run.json").read_text())
    return found


def _power_over_counter(telemetry: Any) -> float | None:
    rows = [row for row in telemetry.to_pylist() if row["power_w"] is not None and row["energy_mj"] is not None]
    if len(rows) < 20:
        return None
    times, power = np.array([r["time_ns"] for r in rows]) / 1e9, np.array([r["power_w"] for r in rows])
    counted = (rows[-1]["energy_mj"] - rows[0]["energy_mj"]) / 1e3
    return float(np.trapezoid(power, times) / counted) if counted else None


def _first_over_median(run: Any) -> float | None:
    if run.lens != "inference" or len(run.requests) < 3:
        return None
    took = run.requests.end_ns - run.requests.sent_ns
    return float(took[0] / np.median(took))
