"""The number of clients a load needs, from what one can do on this machine: executor.options.clients = "auto"."""

from __future__ import annotations

import math

import numpy as np

from twinlens.errors import BadInput
from twinlens.network.limits import most_connections
from twinlens.record.client import Calibration
from twinlens.schedule.content.length import sample_lengths
from twinlens.schedule.plan import Plan
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.prompt import Generate
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.system.processes import usable_processors
from twinlens.units import digits

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
