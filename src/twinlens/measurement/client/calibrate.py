"""The client proves itself before a run: against a null server on this machine, whose cost and times are known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from twinlens.errors import ExecutorFailed
from twinlens.network.client import Client
from twinlens.network.dialect.endpoint import EndpointConfig
from twinlens.network.discovery import find_out
from twinlens.network.null_server import null_server
from twinlens.network.target import Target
from twinlens.record.client import Calibration
from twinlens.record.request import Request
from twinlens.schedule.build import planned_load
from twinlens.schedule.content.prompt import words_of
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.estimator.quantile import needed_for_quantile

# A ceiling of half a second scatters no more than one of a whole one (docs/decisions/0025), and it is all that decides:
# what the client adds at its pace is shown, and its lateness in the run itself is seen there.
_CEILING_S, _STREAMS, _TOKENS = 0.5, 64, 128
_PACED_S, _TTFT_S, _ITL_S = 0.75, 0.02, 0.01
_LEAST_RATE_PER_S, _MOST_RATE_PER_S = 60.0, 400.0
CALIBRATION_S = 2.0
"""About what it takes, the start of the null server included."""


def calibrate(rate_per_s: float | None, tokens: int = _TOKENS) -> Calibration:
    """Two short runs of our client: as fast as it can take tokens, and paced at the rate of the run to come, or faster
    where that is too slow for a few dozen requests in so short a time.

    `tokens`: how long the answers of the first are; short ones cost more a token. Takes about CALIBRATION_S. Raises
    ExecutorFailed where the null server does not answer.
    """
    rate = min(max(rate_per_s or 0.0, _LEAST_RATE_PER_S), _MOST_RATE_PER_S)
    with null_server(life_s=60.0) as server:
        fastest = _played(server.url, {}, {"kind": "closed"}, {"concurrency": _STREAMS}, _CEILING_S, tokens)
        pace = {"null_pace_s": [_TTFT_S, _ITL_S]}
        paced = _played(server.url, pace, {"kind": "constant"}, {"rate_per_s": rate}, _PACED_S, 8)
    took_s = max(r.end_ns for r in fastest) / 1e9
    ttft_s = np.array([(r.chunk_ns[0] - r.sent_ns) / 1e9 for r in paced])
    late_s = np.array([(r.sent_ns - r.intended_ns) / 1e9 for r in paced])
    return Calibration(
        ceiling_tokens_per_s=sum(r.output_tokens for r in fastest) / took_s,
        added_latency_s=max(0.0, float(np.median(ttft_s)) - _TTFT_S),
        lag_s_p99=_p99(late_s),
    )


def _p99(late_s: np.ndarray) -> float:
    """The p99 of lateness, not below 0; its largest value where there are too few requests for a p99 (368)."""
    worst = late_s.max() if late_s.size < needed_for_quantile(0.99) else np.quantile(late_s, 0.99)
    return max(0.0, float(worst))


def _played(
    url: str, body: dict[str, Any], arrival: dict[str, Any], point: dict[str, Any], duration_s: float, tokens: int
) -> list[Request]:
    rows: list[Request] = []
    spec = _spec(url, body, arrival, point, duration_s, tokens)
    assert isinstance(spec.workload, InferenceWorkload)
    client = Client()
    try:
        target = Target(url, body=body)
        found = find_out(target, words_of(spec.workload.prompts), spec)
        client.equip(EndpointConfig(target, found.requests), found.address)
        client.play(planned_load(spec).schedule, rows.append)
    finally:
        client.close()
    answered = [row for row in rows if row.outcome == "ok" and row.chunk_ns]
    if not answered:
        raise ExecutorFailed("the client cannot be calibrated: its null server gave no answer", code="TL302")
    return answered


def _spec(
    url: str, body: dict[str, Any], arrival: dict[str, Any], point: dict[str, Any], duration_s: float, tokens: int
) -> RunSpec:
    data = {
        "name": "calibration",
        "executor": {"kind": "openai-http", "options": {"url": url, "body": body}},
        "workload": {
            "kind": "inference",
            "model": "tiny",
            "arrival": arrival,
            "input_tokens": {"kind": "fixed", "value": 32},
            "output_tokens": {"kind": "fixed", "value": tokens},
            "fidelity_prompts": 0,
        },
        "point": point,
        "protocol": {"duration_s": duration_s, "min_rows": 1},
    }
    return RunSpec.model_validate_json(json.dumps(data))
