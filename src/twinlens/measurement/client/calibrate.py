"""The client proves itself before a run: against a null server on this machine, whose cost and times are known."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.network.client import Client
from twinlens.network.dialect.endpoint import EndpointConfig
from twinlens.network.discovery import find_out
from twinlens.network.limits import most_connections
from twinlens.network.null_server import null_server
from twinlens.network.target import Target
from twinlens.record.client import Calibration
from twinlens.record.request import Request
from twinlens.schedule.build import planned_load
from twinlens.schedule.draw import sample_lengths
from twinlens.schedule.plan import Plan
from twinlens.schedule.prompt import words_of
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.prompt import Generate
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.estimator.quantile import needed_for_quantile
from twinlens.system.processes import usable_processors
from twinlens.units import digits

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


# The number of clients a load needs, from what one can do on this machine: executor.options.clients = "auto".

# The ceiling is that of whole answers read at once; tokens that come one by one cost about twice as much each.
_MOST_SHARE = 0.4
# Nobody knows beforehand how fast a closed loop's server will be: 10 ms between tokens is quick for a user's stream.
_STREAM_TOKENS_PER_S = 100.0
_MOST_ANSWER_TOKENS = 512
_SAMPLE = 1024
# A calibration on a machine that was busy just then may say half of what the client can do.
_FAR_ABOVE = 2.0


def typical_answer_tokens(spec: RunSpec, plan: Plan | None) -> int:
    """The mean length of the answers asked for, at most 512: a calibration with as long ones costs what they do."""
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    if not isinstance(workload.task, Generate):
        return 1
    if plan is not None and len(plan):
        asked = plan.output_tokens
    else:
        asked = sample_lengths(workload.output_tokens, np.random.default_rng(spec.seed), _SAMPLE)
    return int(min(_MOST_ANSWER_TOKENS, max(1, round(float(asked.mean())))))


def needed_clients(spec: RunSpec, plan: Plan | None, client: Calibration) -> tuple[int, str]:
    """How many, and why; never more than there are processors here. `client`: what one client did."""
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    streams = spec.point.concurrency or 1
    if plan is None:
        tokens_per_s = streams * _STREAM_TOKENS_PER_S
        load = f"{streams} streams at {_STREAM_TOKENS_PER_S:g} tokens/s each"
    else:
        tokens_per_s = float(plan.output_tokens.sum()) / spec.protocol.duration_s
        load = f"{digits(tokens_per_s)} tokens/s asked for"
    most = most_connections() or streams
    wanted = max(math.ceil(tokens_per_s / (_MOST_SHARE * client.ceiling_tokens_per_s)), math.ceil(streams / most), 1)
    processors = usable_processors()
    count = min(wanted, processors, streams if plan is None else wanted)
    why = f"auto: {load}, and one client takes {digits(client.ceiling_tokens_per_s)} tokens/s at most"
    return count, why + (f"; {wanted} wanted, {processors} processors here" if wanted > count else "")


def refuse_overload(spec: RunSpec, plan: Plan | None, clients: Calibration) -> None:
    """Raises BadInput (TL216) for an open loop far above what the clients can take in, as they were just calibrated.

    It would be sent late, for many times its duration. Somewhat above, the run is played and called invalid.
    """
    if plan is None:
        return
    asked = float(plan.output_tokens.sum()) / spec.protocol.duration_s
    if asked <= _FAR_ABOVE * clients.ceiling_tokens_per_s:
        return
    rate = len(plan) / spec.protocol.duration_s
    most = digits(rate * clients.ceiling_tokens_per_s / asked)
    who = "one client takes" if clients.clients == 1 else f"{clients.clients} clients take"
    raise BadInput(
        f"{digits(rate)} requests/s with {asked:,.0f} tokens/s are far above the "
        f"{digits(clients.ceiling_tokens_per_s)} tokens/s that {who} on this machine: the run would "
        f"measure its client; ask for at most {most} requests/s, or let more clients ask "
        "(executor.options.clients, executor.options.on)",
        code="TL216",
    )
