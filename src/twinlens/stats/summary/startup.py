"""Load and cold-start times of a launched server or of an engine in this process, as recorded when it came up."""

from __future__ import annotations

from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.record.sections import Running
from twinlens.units import RATIO, SECONDS

_READY = "from the start of the process to its first answer, asked for ten times a second"
_WEIGHTS = "the server's own word in its log"
_FIRST = "first token of the first request after it was ready, from sending"
_SECOND = "first token of the second request, sent when the first had ended"
_CACHED = "bytes of the model's files in the page cache just before the start, by mincore"
_SEVERAL = "each replica has a first request of its own"
_IN_PROCESS = ("start_load_s", "start_first_token_s")
_UNTIMED = "the executor did not time its start"
_SILENT = {
    "start_weights_s": "the server does not say when its weights are loaded",
    "start_first_token_s": "the first request after the start had no token",
    "start_second_token_s": "the second request after the start had no token",
    "start_cached_share": "this system does not say what is in its page cache",
}


def startup(run: Run) -> dict[str, Estimate]:
    """The figures of the start; none of training, of a server that somebody else started, or of one that was not timed.

    An engine in this process that was not timed (a recorded run, an executor that does not time its load) has the
    names with that reason.
    """
    if (server := run.sections.server) is not None:
        return _of_server(server) if server.startup else {}
    if run.lens != "inference" or run.facts is None or run.sections.client is not None:
        return {}
    return dict(run.facts.startup) or dict.fromkeys(_IN_PROCESS, Estimate.absent(SECONDS, _UNTIMED))


def _of_server(server: Running) -> dict[str, Estimate]:
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
