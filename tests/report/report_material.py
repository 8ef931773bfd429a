"""Real run folders with made-up rows whose truth is known, and summaries computed from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from twinlens import units
from twinlens.record.estimate import Estimate
from twinlens.record.executor import ExecutorRecord, PrecisionCheck, declared, observed, unknown
from twinlens.record.facts import Facts
from twinlens.record.request import Request
from twinlens.record.run import Run
from twinlens.record.step import Marks
from twinlens.record.store import create_run, end_run, open_rows, read_run, update_run
from twinlens.spec.precision import precision
from twinlens.spec.study import RunSpec
from twinlens.stats.bootstrap import rate_interval
from twinlens.stats.group import Summary, Verdict
from twinlens.stats.quantile import quantile

MODEL = "demo-34m"
PARAMETERS = 34_000_000
STEP_S = {"fp32": 0.40, "bf16": 0.145, "fp16": 0.30}
TTFT_S = {"fp32": 0.060, "bf16": 0.022, "int8-dynamic": 0.035, "int8-weight": 0.024, "int4-weight": 0.045}
TPOT_S = {
    "fp32": 0.0100,
    "bf16": 0.0058,
    "int8-dynamic": 0.0062,
    "int8-weight": 0.0052,
    "int4-weight": 0.0110,
}
WARM_ROWS = 12


def training_run(
    parent: Path,
    regime: str = "fp32",
    repeat: int = 0,
    *,
    rows: int = 240,
    label: str = "steady",
    state: str = "finished",
    model: str = MODEL,
    notes: tuple[str, ...] = (),
) -> tuple[Run, Summary]:
    """A training run: slow first rows, then steps with 2 % noise and rare stalls; loss falls to 2.10 nats."""
    workload = {
        "kind": "training",
        "model": model,
        "global_batch": 8,
        "seq_len": 256,
        "until": {"gap_nats": 0.15},
    }
    random = np.random.default_rng([repeat, len(regime), 1])
    mean_s = STEP_S[regime] * (1 + 0.012 * random.standard_normal())
    now, marks = 0, []
    for row in range(rows):
        took = mean_s * (1 + 0.02 * random.standard_normal()) * (1 + 3.0 * np.exp(-row / 2.5))
        took *= 1.8 if random.random() < 0.01 else 1.0
        if label == "slowdown":
            took *= 1 + row / rows
        took_ns = int(took * 1e9)
        loss = 2.10 + 6.0 * np.exp(-row / 28) + 0.03 * random.standard_normal()
        split = [int(share * took_ns) for share in (0.01, 0.30, 0.55, 0.10)]
        marks.append(
            Marks(
                now,
                now + took_ns,
                8,
                2048,
                loss,
                split[0],
                split[1],
                split[2],
                None,
                split[3],
                tag="compile" if row == 0 else None,
            )
        )
        now += took_ns
        if row % 20 == 19:
            held_out = 2.11 + 6.0 * np.exp(-row / 28)
            marks.append(Marks(now, now + took_ns // 3, 8, 2048, held_out, kind="evaluate"))
            now += took_ns // 3
    run = _folder(parent, workload, regime, repeat, marks, _facts(regime, "training", notes), state)
    return run, _training_summary(run, label, model, notes)


def inference_run(
    parent: Path,
    regime: str = "fp32",
    repeat: int = 0,
    *,
    rows: int = 160,
    label: str = "steady",
    state: str = "finished",
    model: str = MODEL,
    notes: tuple[str, ...] = (),
    batch: int = 1,
) -> tuple[Run, Summary]:
    """An inference run, closed loop, 256 in and 32 out, first rows slow, a tail of slow requests."""
    workload = {"kind": "inference", "model": model}
    random = np.random.default_rng([repeat, len(regime), 2])
    faster = 1 + 0.012 * random.standard_normal()
    now, made = 0, []
    for row in range(rows):
        warm = 1 + 2.0 * np.exp(-row / 2.5)
        tail = 1 + random.pareto(6.0) * 0.15
        first = now + int(TTFT_S[regime] * faster * warm * tail * 1e9)
        gaps = (
            TPOT_S[regime] * faster * warm * (1 + 0.04 * random.standard_normal(31).clip(-3, 3)) * 1e9
        ).astype(int)
        chunks = (first, *(first + np.cumsum(gaps)).tolist())
        for _ in range(batch):
            made.append(Request(row, now, now + 20_000, chunks, (1,) * 32, chunks[-1], 256, 32))
        now = chunks[-1] + 100_000
    facts = _facts(regime, "inference", notes)
    run = _folder(parent, workload, regime, repeat, made, facts, state, batch=batch)
    return run, _inference_summary(run, label, model, notes)


def study(parent: Path) -> list[tuple[Run, Summary]]:
    """A whole demo: two precisions in training, four in inference, three repeats, one that slowed down."""
    made = [training_run(parent, regime, repeat) for repeat in range(3) for regime in ("bf16", "fp32")]
    labels = {("int4-weight", 1): "slowdown"}
    for repeat in range(3):
        for regime in ("int8-weight", "fp32", "int4-weight", "bf16"):
            label = labels.get((regime, repeat), "steady")
            made.append(inference_run(parent, regime, repeat, label=label))
    return made


def estimate(value: float, unit: str, half: float = 0.0, n: int | None = None, **more: Any) -> Estimate:
    """A measured estimate with a symmetric 95 % interval."""
    bounds = {"low": value - half, "high": value + half, "level": 0.95} if half else {}
    return Estimate(
        value, unit, more.pop("method", "by hand"), more.pop("origin", "measured"), n=n, **bounds, **more
    )


def _folder(
    parent: Path,
    workload: dict[str, Any],
    regime: str,
    repeat: int,
    rows: list[Any],
    facts: Facts,
    state: str,
    **point: Any,
) -> Run:
    asked = {
        "schema": 1,
        "name": "demo",
        "workload": workload,
        "point": {"precision": regime, **point},
        "protocol": {"repeats": 3, "duration_s": 60.0},
        "repeat": repeat,
    }
    spec = RunSpec.model_validate(asked)
    folder = create_run(parent, spec)
    update_run(folder, facts=facts.to_json())
    writer = open_rows(folder, spec)
    for row in rows:
        writer.add(row)
    writer.close()
    if state != "running":
        end_run(folder, state)  # type: ignore[arg-type]
    return read_run(folder)


def _facts(regime: str, lens: Any, notes: tuple[str, ...]) -> Facts:
    classes = precision(regime).classes(lens)
    compute = precision(regime).compute
    support = {"fp32": "native", "bf16": "native", "int8": "native", "fp16": "emulated"}.get(
        compute, "unknown"
    )
    checks = [
        PrecisionCheck(name, form, form, "agrees", support, "dtype in memory")
        for name, form in classes.items()
    ]
    checks[-1] = PrecisionCheck(
        checks[-1].tensor_class,
        checks[-1].declared,
        None,
        "unknown",
        "unknown",
        "no kernel names on this device",
    )
    checks.append(
        PrecisionCheck(
            "compute",
            compute,
            "bf16" if regime == "int8-weight" else compute,
            "agrees",
            "storage-only" if "weight" in regime else support,
            "kernel names of one step",
        )
    )
    rate = {"fp32": 3.1e11, "bf16": 1.25e12, "fp16": 4e11, "int8": 1.9e12}[compute]
    step = 6.0 * PARAMETERS * 2048
    bits = precision(regime).weight_bits(lens, 512)
    weights = PARAMETERS * bits / 8
    work = (
        {"step_flop": step, "step_bytes": 34 * 16.0 * 1e6 * 4}
        if lens == "training"
        else {
            "prefill_flop": 2.0 * PARAMETERS * 256,
            "prefill_bytes": weights + 3e7,
            "decode_flop": 2.0 * PARAMETERS,
            "decode_bytes": weights + 5e6,
        }
    )
    unit = {"flop": units.FLOP, "bytes": units.BYTES}
    return Facts(
        executor=ExecutorRecord(_executor(regime)),
        precision=tuple(checks),
        work={
            key: estimate(value, unit[key.rsplit("_", 1)[1]], origin="derived") for key, value in work.items()
        },
        ceilings={
            "read_bytes_per_s": estimate(2.4e10, units.BYTES_PER_S, 4e8, 9),
            "matrix_flop_per_s": estimate(rate, units.FLOP_PER_S, rate / 60, 9),
        },
        notes=notes,
    )


def _executor(regime: str) -> dict[str, Any]:
    return {
        "accelerator.product": observed("host processor", "no accelerator found"),
        "accelerator.count": observed(1, "host"),
        "accelerator.memory_bytes": unknown("a processor has no memory of its own"),
        "host.cpu.model": observed("AMD EPYC 9654 96-Core Processor", "/proc/cpuinfo"),
        "host.cpu.cores": observed(2, "affinity mask"),
        "host.cpu.isa": observed(["avx2", "avx512f", "avx512_bf16", "avx512_vnni"], "/proc/cpuinfo"),
        "host.memory_bytes": observed(16 * 2**30, "/proc/meminfo"),
        "host.os": observed("Debian GNU/Linux 13", "/etc/os-release"),
        "power.source": unknown("no readable energy counter on this host"),
        "software.framework.name": observed("torch", "torch"),
        "software.framework.version": observed("2.13.0+cpu", "torch.__version__"),
        "software.framework.threads": observed(2, "torch.get_num_threads()"),
        "compiler.name": observed("eager (no compiler)", "spec"),
        "precision.name": declared(regime, "spec"),
        "precision.weights": observed("fp32" if regime == "fp32" else regime, "dtype in memory"),
        "model.id": declared(MODEL, "spec"),
        "tenancy.co_tenants": unknown("other processes of this host are not visible from a container"),
    }


def _verdict(label: str, begin_ns: np.ndarray, end_ns: np.ndarray, begin_row: int) -> Verdict:
    ranked = label == "steady"
    reason = "mean level held over the window" if ranked else "the last third is 31 % slower than the first"
    return Verdict(
        label, ranked, reason, begin_row, len(end_ns), begin_ns[begin_row] / 1e9, float(end_ns[-1]) / 1e9
    )


def _training_summary(run: Run, label: str, model: str, notes: tuple[str, ...]) -> Summary:
    steps = run.steps
    begin = min(WARM_ROWS, max(0, len(steps) - 40))
    chosen = np.arange(len(steps)) >= begin
    kept = steps.where(chosen & (steps.kind == "step"))
    took = (kept.end_ns - kept.begin_ns) / 1e9
    rate = rate_interval(kept.tokens, kept.begin_ns, kept.end_ns, unit=units.TOKENS_PER_S)
    peak = 2048 / float(np.quantile(took, 0.02))
    regime = run.spec.point.precision
    flop = 6.0 * PARAMETERS * 2048 / float(np.median(took))
    ceiling = run.facts.ceilings["matrix_flop_per_s"].value  # type: ignore[union-attr]
    held_out = steps.loss[steps.kind == "evaluate"][-1]
    metrics = {
        "training_tokens_per_s": rate,
        "retention": estimate((rate.value or 0) / peak, units.RATIO, origin="derived"),
        "step_s_p50": quantile(took, 0.5, unit=units.SECONDS, in_time_order=True),
        "step_s_p90": quantile(took, 0.9, unit=units.SECONDS, in_time_order=True),
        "step_s_p99": quantile(took, 0.99, unit=units.SECONDS, in_time_order=True),
        "data_share": estimate(0.01, units.RATIO),
        "forward_share": estimate(0.30, units.RATIO),
        "backward_share": estimate(0.55, units.RATIO),
        "communicate_share": Estimate.absent(units.RATIO, "there is one device"),
        "optimize_share": estimate(0.10, units.RATIO),
        "unattributed_share": estimate(0.04, units.RATIO, origin="derived"),
        "flop_per_s": estimate(flop, units.FLOP_PER_S, origin="derived"),
        "mfu": estimate(flop / ceiling, units.RATIO, origin="derived"),
        "weights_bytes": estimate(4.0 * PARAMETERS, units.BYTES),
        "gradients_bytes": estimate(4.0 * PARAMETERS, units.BYTES),
        "optimizer_bytes": estimate(8.0 * PARAMETERS, units.BYTES),
        "activations_bytes": estimate(11e8 if regime == "fp32" else 6e8, units.BYTES),
        "bytes_per_parameter": estimate(16.0, units.BYTES, origin="derived"),
        "peak_bytes": estimate(1.9e9 if regime == "fp32" else 1.4e9, units.BYTES),
        "final_loss": estimate(float(held_out), units.NATS, 0.012, 4),
        "loss_gap": estimate(float(held_out) - 2.05, units.NATS, 0.012, 4, origin="derived"),
        "time_to_target_s": Estimate(
            float(steps.end_ns[105]) / 1e9,
            units.SECONDS,
            "first evaluation below the target",
            "measured",
            low=float(steps.end_ns[84]) / 1e9,
            high=float(steps.end_ns[105]) / 1e9,
        ),
        "energy_per_token_j": Estimate.absent(units.JOULES, "no readable energy counter on this host"),
        "mean_power_w": Estimate.absent(units.WATTS, "no readable energy counter on this host"),
    }
    return _summary(
        run, label, model, notes, _verdict(label, steps.begin_ns, steps.end_ns, begin), metrics, None
    )


def _inference_summary(run: Run, label: str, model: str, notes: tuple[str, ...]) -> Summary:
    rows = run.requests
    begin = min(WARM_ROWS, max(0, len(rows) - 40))
    first, end = rows.first_chunk_ns()[begin:], rows.end_ns[begin:]
    ttft, e2e = (first - rows.intended_ns[begin:]) / 1e9, (end - rows.intended_ns[begin:]) / 1e9
    tpot = (end - first) / 31 / 1e9
    rate = rate_interval(rows.output_tokens[begin:], rows.sent_ns[begin:], end, unit=units.TOKENS_PER_S)
    regime = run.spec.point.precision
    agreement, kl = {
        "fp32": (1.0, 0.0),
        "bf16": (0.994, 0.0008),
        "int8-weight": (0.981, 0.004),
        "int4-weight": (0.882, 0.121),
        "int8-dynamic": (0.94, 0.03),
    }[regime]
    bits = precision(regime).weight_bits("inference", 512)
    metrics = {
        "output_tokens_per_s": rate,
        "retention": estimate(0.93, units.RATIO, origin="derived"),
        "mbu": estimate(
            PARAMETERS * bits / 8 / float(np.median(tpot)) / 2.4e10, units.RATIO, origin="derived"
        ),
        "weights_bytes": estimate(PARAMETERS * bits / 8, units.BYTES),
        "kv_bytes": estimate(7.1e6, units.BYTES),
        "peak_bytes": estimate(PARAMETERS * bits / 8 + 9.1e7, units.BYTES),
        "top1_agreement": estimate(agreement, units.RATIO, 0.006, 8),
        "kl_nats": estimate(kl, units.NATS, kl / 5, 8),
        "perplexity_change": estimate(kl * 1.2, units.RATIO, kl / 5, 8),
        "energy_per_output_token_j": Estimate.absent(units.JOULES, "no readable energy counter on this host"),
        "mean_power_w": Estimate.absent(units.WATTS, "no readable energy counter on this host"),
    }
    for name, values in (("ttft_s", ttft), ("tpot_s", tpot), ("e2e_latency_s", e2e)):
        for share in (50, 90, 99):
            metrics[f"{name}_p{share}"] = quantile(
                values, share / 100, unit=units.SECONDS, in_time_order=True
            )
    gate = None
    if regime != "fp32":
        passed = agreement >= 0.95
        gate = {
            "verdict": "go" if passed else "no-go",
            "reason": "within tolerance" if passed else f"top-1 agreement {agreement:.1%} is below 95 %",
        }
    return _summary(
        run, label, model, notes, _verdict(label, rows.sent_ns, rows.end_ns, begin), metrics, gate
    )


def _summary(
    run: Run,
    label: str,
    model: str,
    notes: tuple[str, ...],
    verdict: Verdict,
    metrics: dict[str, Estimate],
    gate: dict[str, Any] | None,
) -> Summary:
    return Summary(
        run=run.id,
        lens=run.lens,
        state=run.state,
        model=model,
        executor="torch",
        point=run.spec.point.model_dump(mode="json"),
        repeat=run.spec.repeat,
        rows=len(run.table),
        verdict=verdict,
        metrics=metrics,
        gate=gate,
        notes=notes,
    )
