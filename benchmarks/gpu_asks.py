"""What each check asks of the GPU, in a process of its own: `python -m benchmarks.gpu_asks NAME FOLDER`.

The last line of the output is the answer, plain JSON, without a judgement: that is gpu_judge's.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

Answer = dict[str, Any]
DEVICE = "cuda:0"


def machine(folder: Path) -> Answer:
    import torch

    from twinlens.executors.torch.device import choose_device, why_no_gpu
    from twinlens.measurement.machine.host import capture_host
    from twinlens.measurement.machine.nvidia import open_gpus
    from twinlens.spec.asked_device import AskedDevice

    why = why_no_gpu() or (None if torch.cuda.is_available() else "torch sees no CUDA device")
    chosen = str(choose_device(AskedDevice("auto")))
    if why:
        return {"why_not": why, "name": None, "auto": chosen, "nvml_uuids": [], "uuid": None,
                "mig": _mig(), "product": None}  # fmt: skip
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    product = capture_host("cuda", [uuid])["accelerator.product"].value
    uuids = [gpu.uuid for gpu in open_gpus()[0]]
    return {"why_not": None, "name": torch.cuda.get_device_name(0), "auto": chosen, "uuid": uuid,
            "nvml_uuids": uuids, "mig": _mig(), "product": product, "torch": torch.__version__,
            "driver": _smi("driver_version")}  # fmt: skip


def profiler(folder: Path) -> Answer:
    import torch

    from twinlens.executors.torch.ceiling.timing import timed
    from twinlens.executors.torch.evidence.trace import compute_formats, kernels_seen, longest

    x, w = (torch.randn(4096, 4096, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))

    def call() -> None:
        for _ in range(20):
            torch.nn.functional.linear(x, w)

    call()
    kernels = kernels_seen(call, DEVICE)
    return {
        "operator_s": sum(k.self_time_s for k in kernels if not k.on_device),
        "device_s": sum(k.self_time_s for k in kernels if k.on_device),
        "event_s": statistics.median(timed(call, DEVICE)),
        "formats": compute_formats(kernels),
        "selected": longest(kernels),
    }


def gpm(folder: Path) -> Answer:
    """NVML's counters beside a product and beside a copy, and the product's rate with and without them being read."""
    import time

    import torch

    from twinlens.measurement.machine.gpm import open_gpm
    from twinlens.measurement.machine.nvidia import open_gpus

    gpus, why = open_gpus([f"GPU-{torch.cuda.get_device_properties(0).uuid}"])
    counters = open_gpm(gpus[0]) if gpus else None
    if counters is None:
        return {"why_not": why or "NVML says that this board has no GPM", "capability": _capability()}
    x, w = (torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    y, took_s = torch.empty_like(x), []

    def beside(call: Callable[[], Any], watched: bool = True, for_s: float = 1.5) -> tuple[Answer, float]:
        """What the counters say of the last reading, and calls per second."""
        said: Answer = {}
        counters.restart()
        begin_s = read_s = time.monotonic()
        calls = 0
        while (now_s := time.monotonic()) - begin_s < for_s:
            if watched and now_s >= read_s:
                said, read_s = dict(counters.read(time.monotonic_ns())) or said, now_s + 0.5
                took_s.append(time.monotonic() - now_s)
            for _ in range(10):
                call()
            torch.cuda.synchronize()
            calls += 10
        return said, calls / (time.monotonic() - begin_s)

    product, copy = (lambda: torch.mm(x, w)), (lambda: y.copy_(x))
    beside(product, for_s=1.0)
    ratios = []
    for _ in range(2):
        (multiplied, watched), (_, alone) = beside(product), beside(product, watched=False)
        ratios.append(watched / alone)
    copied, _ = beside(copy)
    return {"why_not": None, "capability": _capability(), "product": multiplied, "copy": copied,
            "rate_ratio": statistics.mean(ratios), "read_s": statistics.median(took_s)}  # fmt: skip


def _capability() -> list[int]:
    import torch

    return list(torch.cuda.get_device_capability(0))


def tf32(folder: Path) -> Answer:
    import torch

    from twinlens.executors.torch.evidence.tf32 import Product, fp32_computed_in, tf32_by_name
    from twinlens.executors.torch.evidence.trace import kernels_seen, longest
    from twinlens.executors.torch.fp32 import fp32_as

    found = []
    for flag in ("fp32", "tf32"):
        for shape in ((256,) * 3, (2048,) * 3, (8192,) * 3, (1, 8192, 8192)):
            x, w = torch.randn(shape[0], shape[2], device=DEVICE), torch.randn(shape[1], shape[2], device=DEVICE)
            with fp32_as(flag):
                said = fp32_computed_in({Product(*shape): 1}, DEVICE)
                kernels = kernels_seen(lambda x=x, w=w: torch.nn.functional.linear(x, w), DEVICE)
            name = "gemv 8192" if shape[0] == 1 else f"{shape[0]} squared"
            found.append({"flag": flag, "shape": name, "sizes": shape, "arithmetic": max(said, key=lambda f: said[f]),
                          "tf32_by_name": tf32_by_name(kernels), "kernels": longest(kernels, 3)})  # fmt: skip
    return {"products": found}


def sustained(folder: Path) -> Answer:
    import torch

    from twinlens.executors.torch.ceiling.kernel import product
    from twinlens.executors.torch.ceiling.matrix import matrix_flop_per_s, sustained_flop_per_s
    from twinlens.executors.torch.ceiling.timing import _calls, setting
    from twinlens.measurement.facts.predicted_work import datasheet_of
    from twinlens.spec.precision import precision

    burst = matrix_flop_per_s("bf16", DEVICE)
    ceiling = sustained_flop_per_s("bf16", DEVICE)
    torch.cuda.synchronize()
    rates, clocks = [], []
    with setting(None, "bf16"):
        call, _ = product("bf16", 8192, 8192, 8192, DEVICE)
        once_s = _calls(call, DEVICE, 1)
        for _ in range(10):
            count = max(1, round(1.0 / once_s))
            rates.append(2.0 * 8192**3 * count / _calls(call, DEVICE, count))
            clocks.append(_smi("clocks.sm"))
    sheet = datasheet_of(torch.cuda.get_device_name(0), precision("bf16")).get("datasheet_flop_per_s")
    return {"flop_per_s": rates, "mhz": [c for c in clocks if c], "ceiling": ceiling.value, "burst": burst.value,
            "datasheet": sheet.value if sheet else None, "method": ceiling.method}  # fmt: skip


def probe(folder: Path) -> Answer:
    import torch

    from twinlens.measurement.facts.predicted_work import datasheet_of
    from twinlens.spec.precision import precision

    found = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-m", "twinlens.cli.main", "probe", "--json"], capture_output=True,
                              text=True, check=True)  # fmt: skip
        rows = json.loads(done.stdout)["ceilings"]
        rate = {(row["kind"], row["format"]): row for row in rows}
        said = re.search(r"(\d+) squared", rate["matrix", "fp32"]["method"])
        found.append({"fp32_size": int(said[1]) if said else None, "fp32": rate["matrix", "fp32"]["value"],
                      "bf16": rate["matrix", "bf16"]["value"], "read": rate["read", ""]["value"]})  # fmt: skip
    sheet = datasheet_of(torch.cuda.get_device_name(0), precision("bf16")).get("datasheet_bytes_per_s")
    return {"probes": found, "datasheet_bytes_per_s": sheet.value if sheet else None}


def memory(folder: Path) -> Answer:
    import torch

    from twinlens.errors import BadInput
    from twinlens.executors.torch.evidence.memory import device_memory, forget_peak
    from twinlens.measurement.preflight.memory import refuse_what_cannot_fit
    from twinlens.measurement.session import is_out_of_memory

    device = torch.device(DEVICE)
    torch.empty(2**31, dtype=torch.uint8, device=device)  # a peak that is to be forgotten
    forget_peak(device)
    held = torch.empty(2**28, dtype=torch.uint8, device=device)
    peak = (device_memory(device) or {})["allocated_peak_bytes"]
    sentence, kind, known = "", "", False
    try:
        torch.empty(2**45, dtype=torch.uint8, device=device)
    except RuntimeError as error:
        kind, known = type(error).__name__, is_out_of_memory(error)
    try:
        refuse_what_cannot_fit(_study("large", {"model": "llama-3.1-70b"} | _TRAINING).runs()[0])
    except BadInput as error:
        sentence = str(error)
    return {"type": kind, "is_out_of_memory": known, "peak": peak, "allocated": held.nbytes, "sentence": sentence}


def training(folder: Path) -> Answer:
    found = _measured(folder, "bf16", {"model": "llama-3.2-1b"} | _TRAINING, 60.0, {"microbatch": 2}, ceilings=True)
    return found | {"tdp_w": _tdp_w()}


def decode(folder: Path) -> Answer:
    workload = {"model": "llama-3.2-1b"} | _inference(512, 128)
    return _measured(folder, "bf16", workload, 30.0, {}, graph="compiled", ceilings=True)


def fp8_inference(folder: Path) -> Answer:
    workload = {"model": "llama-3.1-8b", "fidelity_prompts": 2} | _inference(512, 64)
    asked = (("bf16", 1, "compiled"), ("fp8", 1, "compiled"), ("fp8", 16, "eager"))
    return {"runs": [_measured(folder, p, workload, 8.0, {"batch": b}, graph=g, what=f"{p} batch {b}")
                     for p, b, g in asked]}  # fmt: skip


def fp8_training(folder: Path) -> Answer:
    workload = {"model": "llama-3.2-1b"} | _TRAINING
    asked = (("fp8", "eager"), ("fp8", "compiled"), ("bf16", "compiled"))
    return {"runs": [_measured(folder, p, workload, 12.0, {"microbatch": 2}, graph=g, what=f"{p} {g}")
                     for p, g in asked]}  # fmt: skip


def int8_weight(folder: Path) -> Answer:
    from twinlens.errors import BadInput
    from twinlens.executors.torch.infer import TorchServer

    study = _study("int8", {"model": "tiny"} | _inference(16, 8), "int8-weight")
    try:
        TorchServer().open(study.runs()[0], print)
    except BadInput as error:
        return {"sentence": str(error)}
    return {"sentence": "it was not refused"}


def second_gpu(folder: Path) -> Answer:
    import torch

    from twinlens.executors.torch.ceiling.bandwidth import read_bytes_per_s
    from twinlens.executors.torch.ceiling.matrix import matrix_flop_per_s
    from twinlens.executors.torch.device import choose_device
    from twinlens.measurement.machine.nvidia import open_gpus
    from twinlens.spec.asked_device import asked_device

    count = torch.cuda.device_count()
    if count < 2:
        return {"count": count}
    rates = {}
    on_first = 0
    for name, device in (("second", "cuda:1"), ("first", "cuda:0")):
        choose_device(asked_device(device))
        rates[name] = {"read": read_bytes_per_s(device).value, "bf16": matrix_flop_per_s("bf16", device).value}
        if name == "second":
            uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
            boards = [gpu for gpu in open_gpus()[0] if gpu.uuid == uuid]
            mine = boards[0].ask("nvmlDeviceGetComputeRunningProcesses") or [] if boards else []
            on_first = sum(int(one.usedGpuMemory or 0) for one in mine if one.pid == os.getpid())
    return {"count": count, "bytes_on_first": on_first} | rates


def vision(folder: Path) -> Answer:
    from twinlens.executors.torch.fp32 import fp32_settings
    from twinlens.executors.torch.infer import TorchServer
    from twinlens.stats.metrics.quality import fidelity

    found = {}
    for precision in ("fp32", "tf32", "bf16"):
        workload = {"model": "resnet-50", "data": {"kind": "images"}, "kind": "inference"}
        facts = TorchServer().open(_study("vision", workload, precision).runs()[0], print)
        (compute,) = (check for check in facts.precision if check.tensor_class == "compute")
        kl = fidelity(facts.fidelity)["kl_nats"].value if facts.fidelity else None
        found[precision] = fp32_settings() | {"verdict": compute.verdict, "evidence": compute.evidence, "kl": kl}
    return {"runs": found}


def tests(folder: Path) -> Answer:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-ra", "tests"], capture_output=True, text=True
    )
    lines = done.stdout.strip().splitlines()
    print(done.stdout)
    return {"code": done.returncode, "last_line": lines[-1] if lines else "",
            "skipped": [text for text in lines if text.startswith("SKIPPED")]}  # fmt: skip


_TRAINING = {"kind": "training", "global_batch": 8, "seq_len": 2048}


def _inference(tokens: int, answer: int) -> dict[str, Any]:
    lengths = {"input_tokens": tokens, "output_tokens": answer}
    return {"kind": "inference"} | {name: {"kind": "fixed", "value": value} for name, value in lengths.items()}


def _study(name: str, workload: dict[str, Any], precision: str = "bf16", **parts: Any) -> Any:
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

    study = _study("gpu-check", workload, precision, graph=graph, point=point,
                   protocol={"duration_s": duration_s, "ceilings": ceilings})  # fmt: skip
    answer: Answer = {"what": what, "state": "", "checks": [], "metrics": {}, "facts": {}, "device_memory": None}
    try:
        outcome = measure_study(study, folder / (what or precision).replace(" ", "-"))
    except TwinlensError as error:
        return answer | {"state": f"refused: {error}"}
    return answer | _said(outcome.runs[0])


def _said(run: Any) -> Answer:
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
        "facts": {key: run.facts.executor.value(key) for key in ("serving.graphs", "kernels.graph_breaks")},
        "notes": [*run.facts.notes, *map(sentence_of, run.facts.findings)],
        "device_memory": asdict(held) if (held := run.sections.device_memory) else None,
        "board_bytes": max(board) if board else None,
        "power_over_counter": _power_over_counter(run.telemetry),
        "first_over_median": _first_over_median(run),
    }  # fmt: skip


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


def _smi(field: str) -> str | None:
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader", "-i", "0"],
                              capture_output=True, text=True, timeout=20)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _mig() -> str:
    said = (_smi("mig.mode.current") or "").lower()
    return "on" if said.startswith("enabled") else "off"


def _tdp_w() -> float | None:
    said = re.match(r"[\d.]+", _smi("power.limit") or "")
    return float(said[0]) if said else None


ASKS: dict[str, Callable[[Path], Answer]] = {
    "machine": machine,
    "profiler": profiler,
    "gpm": gpm,
    "tf32": tf32,
    "sustained": sustained,
    "probe": probe,
    "memory": memory,
    "training": training,
    "decode": decode,
    "fp8-inference": fp8_inference,
    "fp8-training": fp8_training,
    "int8-weight": int8_weight,
    "second-gpu": second_gpu,
    "vision": vision,
    "tests": tests,
}


if __name__ == "__main__":
    print(json.dumps(ASKS[sys.argv[1]](Path(sys.argv[2])), default=str))
