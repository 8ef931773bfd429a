"""Standing of a gateway as plain data: its backends, its traffic, its budgets; what its page and its file say."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from twinlens.gateway.limits.budget import Limits
from twinlens.gateway.routing.calibration import Calibration
from twinlens.gateway.routing.router import Router
from twinlens.gateway.routing.state import State
from twinlens.gateway.settings import GatewaySettings
from twinlens.gateway.watch.tally import Tally
from twinlens.record.codec import encode
from twinlens.record.store import now_utc
from twinlens.stats.estimator.quantile import quantile
from twinlens.units import SECONDS
from twinlens.version import __version__

FILE = "gateway.json"
Taken = Mapping[str, tuple[Limits, float, float, Decimal]]
"""Of each key with limits: requests and tokens of this minute, money of this day."""
SCHEMA = 1


def standing_of(
    settings: GatewaySettings, router: Router, taken: Taken, tally: Tally, started_utc: str, routes: Sequence[Any] = ()
) -> dict[str, Any]:
    """Everything that a page needs; nothing of it is a secret or a text of a request."""
    requests = tally.by(tally.requests, 1)
    return {
        "schema": SCHEMA,
        "twinlens": __version__,
        "started_utc": started_utc,
        "at_utc": now_utc(),
        "policy": settings.policy,
        "stream_failure": settings.stream_failure,
        "slo": {"ttft_s": settings.slo_ttft_s, "tpot_s": settings.slo_tpot_s},
        "requests": tally.by(tally.requests, 2),
        "retried": sum(tally.retries.values()),
        "hedged": tally.by(tally.failed, 1).get("hedged", 0),
        "continued": tally.continued,
        "backends": [_backend(router.states[each.name], tally) for each in router.backends],
        "keys": [_key(each.name, requests.get(each.name, 0), taken) for each in settings.key],
        "routes": list(routes),
    }  # fmt: skip


def _backend(state: State, seen: Tally) -> dict[str, Any]:
    backend, measured = state.backend, state.backend.measured
    times = list(seen.ttft_s.get(backend.name, ()))
    return {
        "name": backend.name,
        "url": backend.url,
        "model": backend.model,
        "identity": backend.identity,
        "why": backend.why,
        "runs": list(measured.runs) if measured is not None else [],
        "weights": backend.weights,
        "predicts": state.known is not None,
        "in_flight": state.load.in_flight,
        "rests": state.health.out(time.monotonic_ns()),
        "asked": seen.asked[backend.name],
        "failed": {kind: count for (name, kind), count in seen.failed.items() if name == backend.name},
        "output_tokens": sum(
            count for (name, _, kind), count in seen.tokens.items() if (name, kind) == (backend.name, "output")
        ),
        "ttft_s": {name: encode(quantile(times, q, unit=SECONDS, in_time_order=True)) if times else None
                   for name, q in (("p50", 0.5), ("p90", 0.9))},
        "prompt_tokens_counted": state.load.counted,
        "predictions": {"ttft": _held(state.ttft), "tpot": _held(state.tpot)},
        "cost_per_token": state.cost,
        "joules_per_token": state.joules,
    }  # fmt: skip


def _held(calibration: Calibration) -> dict[str, int]:
    return {"held": calibration.held, "of": calibration.tried}


def _key(name: str, requests: int, taken: Taken) -> dict[str, Any]:
    limits, of_minute, tokens, money = taken.get(name, (None, None, None, None))
    return {
        "name": name,
        "requests": requests,
        "requests_per_min": limits and limits.requests,
        "requests_this_min": of_minute,
        "tokens_per_min": limits and limits.tokens,
        "tokens_this_min": tokens,
        "money_per_day": f"{limits.money} {limits.currency}" if limits and limits.money is not None else None,
        "money_today": str(money) if limits and limits.money is not None else None,
    }
