"""Served runs with made-up rows whose truth is known: an engine with a few slots, in real run folders."""

from __future__ import annotations

import heapq
import json
from pathlib import Path
from typing import Any

import numpy as np

from report_material import Pair, facts_of
from twinlens.record.arrow import RowWriter
from twinlens.record.codec import encode
from twinlens.record.executor.record import declared
from twinlens.record.request import Request
from twinlens.record.samples import SERVER_SCHEMA, ServerSample
from twinlens.record.store import create_run, end_run, open_rows, read_run, update_run
from twinlens.spec.study import RunSpec
from twinlens.stats.run_summary import summarise

SLOTS = 16
TPOT_S = {"fp32": 0.016, "bf16": 0.010}
TOKENS = 32
SLO = {"ttft_s": 0.5, "tpot_s": 0.03, "quantile": 0.9}
CALIBRATION = {"ceiling_tokens_per_s": 80_000.0, "added_latency_s": 0.00012, "lag_s_p99": 0.0004}


def capacity_per_s(regime: str) -> float:
    """Requests per second that the engine can answer: all slots busy, each request as slow as that makes it."""
    return SLOTS / (0.04 + TOKENS * _tpot_s(regime, SLOTS))


def served_run(parent: Path, rate: float, regime: str = "bf16", *, seconds: float = 60.0, **more: Any) -> Pair:
    """An open-loop run at `rate` requests/s, or a closed one with `concurrency=` in `more`.

    `late_s`: how late the client sent. `point`: more of the operating point, such as a policy that held requests back.
    `fails`: the share of requests that failed. `server`: whether it has metrics.
    """
    closed = "concurrency" in more
    asked: dict[str, Any] = {
        "kind": "inference", "model": more.get("model", "small"), "slo": more.get("slo", SLO),
        "arrival": {"kind": "closed" if closed else "poisson"},
        "input_tokens": {"kind": "fixed", "value": 128}, "output_tokens": {"kind": "fixed", "value": TOKENS},
    }  # fmt: skip
    point = {"concurrency": more["concurrency"]} if closed else {"rate_per_s": rate}
    point |= more.get("point", {})
    repeat = more.get("repeat", 0)
    spec = RunSpec.model_validate_json(json.dumps(
        {
            "name": more.get("name", "chat"), "workload": asked, "point": {"precision": regime} | point,
            "executor": {"kind": "openai-http", "options": {"url": more.get("url", "http://127.0.0.1:8000/v1")}},
            "protocol": {"duration_s": seconds, "steady_s": 0.0, "repeats": 1}, "repeat": repeat,
        }
    ))  # fmt: skip
    random = np.random.default_rng([round(100 * rate), repeat, len(regime), 5])
    due_s = _arrivals(random, rate, seconds) if not closed else np.zeros(0)
    rows = _played(random, due_s, regime, more, seconds)
    folder = create_run(parent, spec)
    facts = encode(facts_of(regime, "inference"))
    facts["executor"] |= {"model.id": encode(declared(asked["model"], "/v1/models"))} | more.get("said", {})
    update_run(folder, facts=facts, calibration=more.get("calibration", CALIBRATION))
    update_run(folder, client={"stamps": "kernel", "merged_reads": 0})
    writer = open_rows(folder, spec)
    writer.add_all(rows)
    writer.close()
    if more.get("server", True):
        _sample(folder, rows, seconds)
    end_run(folder, more.get("state", "finished"))
    run = read_run(folder)
    return run, summarise(run)


def _arrivals(random: np.random.Generator, rate: float, seconds: float) -> np.ndarray:
    times = np.cumsum(random.exponential(1 / rate, int(2 * rate * seconds) + 20))
    return times[times < seconds]


def _played(
    random: np.random.Generator, due_s: np.ndarray, regime: str, more: dict[str, Any], seconds: float
) -> list[Request]:
    free, busy = [0.0] * min(SLOTS, more.get("concurrency", SLOTS)), list[float]()
    heapq.heapify(free)
    rows: list[Request] = []
    while len(rows) < due_s.size or (not due_s.size and free[0] < seconds):
        number = len(rows)
        due = float(due_s[number]) if due_s.size else free[0]
        sent = due + more.get("late_s", 0.0001)
        begin = max(heapq.heappop(free), sent)
        busy = [end for end in busy if end > begin]
        tpot_s = _tpot_s(regime, len(busy) + 1) * float(random.lognormal(0, 0.06))
        first = begin + 0.04 * float(random.lognormal(0, 0.25))
        chunks = first + tpot_s * np.arange(TOKENS)
        heapq.heappush(free, float(chunks[-1]))
        busy.append(float(chunks[-1]))
        lost = random.random() < more.get("fails", 0.0)
        times = tuple(int(1e9 * chunk) for chunk in chunks)
        rows.append(
            Request(
                number, int(1e9 * due), int(1e9 * sent), () if lost else times, () if lost else (1,) * TOKENS,
                int(1e9 * (sent + 0.002)) if lost else times[-1], 128, 0 if lost else TOKENS,
                "failed" if lost else "ok", asked_tokens=TOKENS, lag_ns=120_000, merged_reads=0,
                released_ns=int(1e9 * (sent - 0.0001)) if "point" in more else None,
            )
        )  # fmt: skip
    return rows


def _tpot_s(regime: str, running: int) -> float:
    return TPOT_S[regime] * (1 + 0.05 * running)


def _sample(folder: Path, rows: list[Request], seconds: float) -> None:
    begin = np.array([r.intended_ns for r in rows])
    first = np.array([r.chunk_ns[0] if r.chunk_ns else r.end_ns for r in rows])
    end = np.array([r.end_ns for r in rows])
    writer = RowWriter(folder / "server.arrows", SERVER_SCHEMA)
    for at in np.arange(0.0, seconds, 0.5) * 1e9:
        running = int(((first <= at) & (end > at)).sum())
        waiting = int(((begin <= at) & (first > at)).sum())
        writer.add(ServerSample(int(at), 2_000_000, running=running, waiting=waiting, kv_use=min(1.0, running / 18)))
    writer.close()
