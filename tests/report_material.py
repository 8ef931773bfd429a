"""Real run folders with made-up rows whose truth is known, summarised as any run is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from twinlens import units
from twinlens.record.arrow import RowWriter
from twinlens.record.codec import encode
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts, FidelityRow
from twinlens.record.executor.record import ExecutorRecord, PrecisionCheck, declared, observed, unknown
from twinlens.record.finding import Finding, Validity
from twinlens.record.request import Request
from twinlens.record.run import Run
from twinlens.record.samples import TELEMETRY_SCHEMA, Sample
from twinlens.record.step import Marks
from twinlens.record.store import create_run, end_run, open_rows, read_run, update_run
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.run.points import points_document
from twinlens.reporting.text.fitted import plain
from twinlens.spec.precision import precision
from twinlens.spec.study import RunSpec
from twinlens.stats.run_summary import summarise
from twinlens.stats.summary.group import Group, Summary

MODEL = "demo-34m"
PARAMETERS = 34_000_000
STEP_S = {"fp32": 0.40, "bf16": 0.145, "fp16": 0.62}
TTFT_S = {"fp32": 0.060, "bf16": 0.022, "int8-dynamic": 0.035, "int8-weight": 0.024, "int4-weight": 0.045}
TPOT_S = {"fp32": 0.0100, "bf16": 0.0058, "int8-dynamic": 0.0062, "int8-weight": 0.0052, "int4-weight": 0.011}
AGREED = {"fp32": 100, "bf16": 99, "int8-dynamic": 96, "int8-weight": 98, "int4-weight": 88}
ENTROPY_NATS = 2.05

Pair = tuple[Run, Summary]


def training_run(parent: Path, regime: str = "fp32", repeat: int = 0, *, rows: int = 240, **more: Any) -> Pair:
    """A training run: slow first rows, then steps with 2 % noise and rare stalls; loss falls to 2.10 nats."""
    workload = {
        "kind": "training",
        "model": more.get("model", MODEL),
        "global_batch": 8,
        "until": {"gap_nats": 0.15},
    }
    random = np.random.default_rng([repeat, len(regime), 1])
    mean_s = STEP_S[regime] * (1 + 0.012 * random.standard_normal())
    now, marks = 0, []
    rows = rows if regime == "fp32" else 2 * rows
    for row in range(rows):
        took_s = mean_s * (1 + 0.02 * random.standard_normal()) * (1 + 3.0 * np.exp(-row / 2.5))
        took_s *= 1.2 if random.random() < 0.01 else 1.0
        took_s *= 1 + 0.6 * (row > rows / 2) if more.get("slows") else 1
        took = int(took_s * 1e9)
        loss = 2.10 + 6.0 * np.exp(-row / 28) + 0.03 * random.standard_normal()
        data, forward, backward, optimize = (int(share * took) for share in (0.01, 0.30, 0.55, 0.10))
        tag = "compile" if row == 0 else None
        marks.append(Marks(now, now + took, 8, 2048, loss, data, forward, backward, None, optimize, "step", tag))
        now += took
        if row % 20 == 19:
            marks.append(Marks(now, now + took // 3, 8, 2048, 2.11 + 6.0 * np.exp(-row / 28), kind="evaluate"))
            now += took // 3
    return _run(parent, workload, regime, repeat, marks, {}, more)


def inference_run(
    parent: Path, regime: str = "fp32", repeat: int = 0, *, rows: int = 360, batch: int = 1, **more: Any
) -> Pair:
    """An inference run, closed loop, 256 tokens in and 32 out: slow first rows, a tail in first tokens."""
    workload = {"kind": "inference", "model": more.get("model", MODEL)}
    random = np.random.default_rng([repeat, len(regime), 2])
    speed = 1 + 0.012 * random.standard_normal()
    now, made = 0, []
    for row in range(rows):
        warm = 1 + 2.0 * np.exp(-row / 2.5)
        warm *= 1 + 0.6 * (row > rows / 2) if more.get("slows") else 1
        first = now + int(TTFT_S[regime] * speed * warm * (1 + random.pareto(6.0) * 0.15) * 1e9)
        gaps_s = TPOT_S[regime] * speed * warm * (1 + 0.04 * random.standard_normal(31).clip(-3, 3))
        chunks = (first, *(first + np.cumsum((gaps_s * 1e9).astype(int))).tolist())
        for _ in range(batch):
            made.append(Request(row, now, now + 20_000, chunks, (1,) * 32, chunks[-1], 256, 32))
        now = chunks[-1] + 100_000
    return _run(parent, workload, regime, repeat, made, {"batch": batch}, more)


def image_run(parent: Path, regime: str = "fp32", repeat: int = 0, *, rows: int = 160, **more: Any) -> Pair:
    """An image model: one chunk of no tokens per request."""
    random = np.random.default_rng([repeat, len(regime), 3])
    now, made = 0, []
    for row in range(rows):
        end = now + int(0.02 * (1 + 0.05 * random.random()) * 1e9)
        made.append(Request(row, now, now, (end,), (0,), end, 0, 0))
        now = end
    workload = {"kind": "inference", "model": "resnet-tiny", "data": {"kind": "images"}}
    return _run(parent, workload, regime, repeat, made, {}, more)


def study(parent: Path, repeats: int = 3) -> list[Pair]:
    """A whole demo: two precisions in training, four in inference; one inference run slows down."""
    made = [training_run(parent, regime, repeat) for repeat in range(repeats) for regime in ("bf16", "fp32")]
    for repeat in range(repeats):
        for regime in ("int8-weight", "fp32", "int4-weight", "bf16"):
            slows = regime == "int4-weight" and repeat == 1
            made.append(inference_run(parent, regime, repeat, slows=slows))
    return made


def estimate(value: float, unit: str, half: float = 0.0, n: int | None = None, **more: Any) -> Estimate:
    """A measured estimate with a symmetric 95 % interval."""
    bounds = {"low": value - half, "high": value + half, "level": 0.95} if half else {}
    return Estimate(value, unit, more.pop("method", "by hand"), more.pop("origin", "measured"), n=n, **bounds)


def relabelled(pair: Pair, label: str, ranked: bool) -> Pair:
    """The same run under another verdict, for the reason of that name."""
    run, summary = pair
    reason = summary.verdict.reason if ranked else Finding(label, "disqualifies")
    validity: Validity = "valid" if ranked else "not valid"
    return run, replace(
        summary, verdict=replace(summary.verdict, label=label, validity=validity, reason=reason, trend=None)
    )


def _run(
    parent: Path,
    workload: dict[str, Any],
    regime: str,
    repeat: int,
    rows: list[Any],
    point: dict[str, Any],
    more: dict[str, Any],
) -> Pair:
    asked = {"schema": 1, "name": "demo", "workload": workload, "point": {"precision": regime, **point}}
    spec = RunSpec.model_validate(asked | {"protocol": {"repeats": 3}, "repeat": repeat})
    folder = create_run(parent, spec)
    if more.get("facts", True):
        facts = facts_of(regime, spec.lens, tuple(more.get("notes", ())))
        update_run(folder, facts=encode(facts))
    writer = open_rows(folder, spec)
    for row in rows:
        writer.add(row)
    writer.close()
    _sample(folder, 1.9e9 if regime == "fp32" else 1.4e9, repeat)
    state = more.get("state", "finished")
    if state != "running":
        end_run(folder, state, more.get("error"))
    run = read_run(folder)
    return run, summarise(run)


def _sample(folder: Path, rss: float, repeat: int) -> None:
    writer = RowWriter(folder / "telemetry.arrows", TELEMETRY_SCHEMA)
    for moment in range(20):
        size = int(rss * (0.9 + 0.005 * moment)) + repeat * 100_000
        writer.add(Sample(moment * 10**9, "host", rss_bytes=size, cpu_busy=0.97))
    writer.close()


def facts_of(regime: str, lens: Any, notes: tuple[str, ...] = ()) -> Facts:
    """What an executor would say of itself on a small machine."""
    compute = precision(regime).compute
    rate = {"fp32": 1.5e12, "bf16": 4.1e12, "fp16": 9e11, "int8": 5.5e12}[compute]
    weights = PARAMETERS * precision(regime).weight_bits(lens, 512) / 8
    work: dict[str, float] = {"parameters": PARAMETERS}
    memory = {"weights_bytes": weights, "kv_bytes": 7.1e6}
    if lens == "training":
        work |= {"step_flop": 6.0 * PARAMETERS * 2048, "step_bytes": 2.2e9}
        kept = 11e8 if regime == "fp32" else 6e8
        memory = {
            "weights_bytes": 4.0 * PARAMETERS,
            "gradients_bytes": 4.0 * PARAMETERS,
            "optimizer_bytes": 8.0 * PARAMETERS,
            "activations_bytes": kept,
        }
    else:
        work |= {"prefill_flop": 2.0 * PARAMETERS * 256, "prefill_bytes": weights + 3e7}
        work |= {"decode_flop": 2.0 * PARAMETERS, "decode_bytes": weights + 5e6}
    unit = {"flop": units.FLOP, "bytes": units.BYTES, "parameters": units.COUNT}
    agreed = AGREED.get(regime, 100)
    prompts = [FidelityRow(100, min(100, agreed + i % 2), (100 - agreed) * 0.05, 210.2, 210.0) for i in range(8)]
    return Facts(
        executor=ExecutorRecord(_executor(regime)),
        precision=_checks(regime, lens),
        work={key: estimate(value, unit[key.rsplit("_", 1)[-1]], origin="modelled") for key, value in work.items()},
        ceilings={
            "read_bytes_per_s": estimate(2.4e10, units.BYTES_PER_S, 4e8, 9),
            "matrix_flop_per_s": estimate(rate, units.FLOP_PER_S, rate / 60, 9),
        },
        memory={key: estimate(value, units.BYTES) for key, value in memory.items()},
        fidelity=tuple(prompts) if lens == "inference" and regime != "fp32" else (),
        entropy_rate_nats=ENTROPY_NATS if lens == "training" else None,
        notes=notes,
    )


def _checks(regime: str, lens: Any) -> tuple[PrecisionCheck, ...]:
    compute = precision(regime).compute
    support = {"fp32": "native", "bf16": "native", "int8": "native", "fp16": "emulated"}[compute]
    looked = "element type in memory"
    checks = [
        PrecisionCheck(name, form, form, "agrees", "storage-only" if form.startswith("int") else support, looked)
        for name, form in precision(regime).classes(lens).items()
        if name != "accumulation"
    ]
    hidden = PrecisionCheck("accumulation", "fp32", None, "unknown", "unknown", "no kernel says how it adds")
    ran = PrecisionCheck("compute", compute, compute, "agrees", support, "kernel names of one step")
    return (*checks, hidden, ran)


def _executor(regime: str) -> dict[str, Any]:
    isa = ["avx2", "avx512f", "avx512_bf16", "avx512_vnni"]
    return {
        "accelerator.product": observed("AMD EPYC 9654 96-Core Processor", "/proc/cpuinfo"),
        "accelerator.count": observed(1, "host"),
        "accelerator.memory_bytes": unknown("a processor has no memory of its own"),
        "host.cpu.model": observed("AMD EPYC 9654 96-Core Processor", "/proc/cpuinfo"),
        "host.cpu.cores": observed(2, "affinity mask"),
        "host.cpu.isa": observed(isa, "/proc/cpuinfo"),
        "host.memory_bytes": observed(16 * 2**30, "/proc/meminfo"),
        "host.os": observed("Debian GNU/Linux 13", "/etc/os-release"),
        "power.source": unknown("no readable energy counter on this host"),
        "software.framework.name": observed("torch", "torch"),
        "software.framework.version": observed("2.13.0+cpu", "torch.__version__"),
        "software.framework.threads": observed(2, "torch.get_num_threads()"),
        "compiler.name": observed("eager (no compiler)", "spec"),
        "precision.name": declared(regime, "spec"),
        "precision.weights": observed(precision(regime).inference["weights"], "element type in memory"),
        "model.id": declared(MODEL, "spec"),
        "tenancy.co_tenants": unknown("other processes of this host are not visible from a container"),
    }


def first_text(groups: Sequence[Group], width: int = 80) -> str:
    """What a terminal shows first of some points."""
    return plain(screen(points_document(groups)), width)


def whole_text(groups: Sequence[Group], runs: Sequence[Pair] = (), width: int = 80) -> str:
    """All that a terminal shows of some points. `runs`: those of the points, with their summaries."""
    return plain(screen(points_document(groups, runs), whole=True), width)
