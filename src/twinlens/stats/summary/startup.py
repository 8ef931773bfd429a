"""Load and cold-start times of a launched server, from what was recorded when it came up."""

from __future__ import annotations

from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.units import RATIO, SECONDS

_READY = "from the start of the process to its first answer, asked for ten times a second"
_WEIGHTS = "the server's own word in its log"
_FIRST = "first token of the first request after it was ready, from sending"
_SECOND = "first token of the second request, sent when the first had ended"
_CACHED = "bytes of the model's files in the page cache just before the start, by mincore"
_SEVERAL = "each replica has a first request of its own"
_SILENT = {
    "start_weights_s": "the server does not say when its weights are loaded",
    "start_first_token_s": "the first request after the start had no token",
    "start_second_token_s": "the second request after the start had no token",
    "start_cached_share": "this system does not say what is in its page cache",
}


def startup(run: Run) -> dict[str, Estimate]:
    """The figures of the server's start; none of a run that started none, or of a version that did not time it."""
    server = run.sections.server
    if server is None or not server.startup:
        return {}
    known = server.startup
    cached = known.get("cached_share")
    warm = "" if not isinstance(cached, float) else f"; page cache {'cold' if cached < 0.01 else f'{cached:.0%} warm'}"
    told = {
        "start_ready_s": (server.ready_s, SECONDS, _READY + warm),
        "start_weights_s": (known.get("weights_s"), SECONDS, _WEIGHTS + warm),
        "start_first_token_s": (known.get("first_token_s"), SECONDS, _FIRST),
        "start_second_token_s": (known.get("second_token_s"), SECONDS, _SECOND),
        "start_cached_share": (cached, RATIO, _CACHED),
    }
    return {
        name: Estimate(float(value), unit, method, "measured", n=1)
        if isinstance(value, int | float)
        else Estimate.absent(unit, _SEVERAL if server.replicas > 1 and "token" in name else _SILENT[name])
        for name, (value, unit, method) in told.items()
    }
