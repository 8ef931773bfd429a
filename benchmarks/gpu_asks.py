"""What each check asks of the GPU, in a process of its own: `python -m benchmarks.gpu_asks NAME FOLDER`.

Each line that begins with ANSWER holds the answer so far as plain JSON, without a judgement: that is gpu_judge's.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import gpu_more, gpu_several
from benchmarks.gpu_runs import (
    DEVICE,
    TRAINING,
    Answer,
    decode,
    fp8_inference,
    fp8_training,
    int8_weight,
    study,
    training,
    vision,
)
from benchmarks.gpu_smi import mig, smi
from benchmarks.own_group import MARK


def machine(folder: Path) -> Answer:
    import torch

    from twinlens.executors.torch.device import choose_device, why_no_gpu
    from twinlens.measurement.machine.host import capture_host
    from twinlens.spec.device import AskedDevice
    from twinlens.system.nvml import open_gpus

    why = why_no_gpu() or (None if torch.cuda.is_available() else "torch sees no CUDA device")
    chosen = str(choose_device(AskedDevice("auto")))
    if why:
        return {"why_not": why, "name": None, "auto": chosen, "nvml_uuids": [], "uuid": None,
                "mig": mig(), "product": None}  # fmt: skip
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    product = capture_host("cuda", [uuid])["accelerator.product"].value
    uuids = [gpu.uuid for gpu in open_gpus()[0]]
    return {"why_not": None, "name": torch.cuda.get_device_name(0), "auto": chosen, "uuid": uuid,
            "nvml_uuids": uuids, "mig": mig(), "product": product, "torch": torch.__version__,
            "driver": smi("driver_version")}  # fmt: skip


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

    from twinlens.measurement.machine.nvidia import open_gpm
    from twinlens.system.nvml import open_gpus

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

    from twinlens.executors.torch.device import fp32_as
    from twinlens.executors.torch.evidence.check import Product, fp32_computed_in, tf32_by_name
    from twinlens.executors.torch.evidence.trace import kernels_seen, longest

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

    from twinlens.executors.torch.ceiling.rates import matrix_flop_per_s, sustained_flop_per_s
    from twinlens.executors.torch.ceiling.timing import _calls, product, setting
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
            clocks.append(smi("clocks.sm"))
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
        refuse_what_cannot_fit(study("large", {"model": "llama-3.1-70b"} | TRAINING).runs()[0])
    except BadInput as error:
        sentence = str(error)
    return {"type": kind, "is_out_of_memory": known, "peak": peak, "allocated": held.nbytes, "sentence": sentence}


def second_gpu(folder: Path) -> Answer:
    import torch

    from twinlens.executors.torch.ceiling.rates import matrix_flop_per_s, read_bytes_per_s
    from twinlens.executors.torch.device import choose_device
    from twinlens.spec.device import asked_device
    from twinlens.system.nvml import open_gpus

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


def tests(folder: Path) -> Iterator[Answer]:
    """Every test of a GPU, each as it ends."""
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-v", "-ra", "-p", "no:randomly", "tests"]
    failed, passed, skipped, last = list[str](), 0, list[str](), ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout or ():
            print(line, end="")
            last = line.strip() or last
            if line.startswith("SKIPPED"):
                skipped.append(line.strip())
            elif line.startswith("tests/") and (" PASSED" in line or " FAILED" in line or " ERROR" in line):
                passed += " PASSED" in line
                failed += [line.split(" ")[0]] if " PASSED" not in line else []
                yield {"passed": passed, "failed": failed, "skipped": skipped, "code": None, "last_line": last}
    yield {"passed": passed, "failed": failed, "skipped": skipped, "code": running.returncode, "last_line": last}


ASKS: dict[str, Callable[[Path], Answer | Iterator[Answer]]] = {
    "machine": machine,
    "profiler": profiler,
    "gpm": gpm,
    "counters": gpu_more.counters,
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
    "server": gpu_several.server,
    "tests": tests,
    "exchanges": gpu_several.exchanges,
    "collectives": gpu_several.collectives,
    "parallel": gpu_several.parallel,
    "deepspeed": gpu_several.deepspeed,
    "watched": gpu_several.watched,
    "replicas": gpu_several.replicas,
    "adapters": gpu_more.adapters,
    "saves": gpu_more.saves,
    "vllm": gpu_more.vllm,
    "tensorrt": gpu_more.tensorrt,
}


if __name__ == "__main__":
    asked = ASKS[sys.argv[1]](Path(sys.argv[2]))
    for answer in [asked] if isinstance(asked, dict) else asked:
        print(MARK + json.dumps(answer, default=str), flush=True)
