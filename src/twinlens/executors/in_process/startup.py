"""The start of an engine in this process as figures: its load, its page cache, and its first two answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twinlens.executors.protocol import TakesRow
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates
from twinlens.record.request import Request
from twinlens.schedule.loop.lockstep import LockstepLoop
from twinlens.schedule.request import Schedule
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.length import Fixed
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.units import RATIO, SECONDS

Play = Callable[[Schedule, TakesRow], None]
_SEED = 8  # of prompts that are neither the run's nor those of the evidence
_CACHED = "bytes of the model's files in the page cache just before the load, by mincore"
_NOT_SAID = "this system does not say what is in its page cache"
_FAILED = "the request was not answered"


def loaded(seconds: float, how: str, cached: float | None) -> Estimates:
    """Seconds to load, and the share of the model's files in the page cache before that; `how`: what was loaded."""
    warm = "" if cached is None else f"; page cache {'cold' if cached < 0.01 else f'{cached:.0%} warm'}"
    share = Estimate.absent(RATIO, _NOT_SAID) if cached is None else Estimate(cached, RATIO, _CACHED, "measured", n=1)
    return {"start_load_s": Estimate(seconds, SECONDS, how + warm, "measured", n=1), "start_cached_share": share}


def first_answers(play: Play, spec: RunSpec, *, together: int, is_text: bool, before: str = "") -> Estimates:
    """Seconds from sending to the first token (or class) of the first two batches after the load, one after the other.

    `play`: a player of its own, as times of the run count from that player's first call. `together`: requests of one
    batch. `before`: what the same process had computed already, for the method.
    """
    rows: list[Request] = []
    lengths = _one_token(spec) if is_text else (None, None)
    play(LockstepLoop(together, *lengths, until_ns=0, min_requests=2 * together, seed=_SEED), rows.append)
    return estimates_of(rows[::together], together, is_text=is_text, before=before)


def estimates_of(heads: Sequence[Request], together: int, *, is_text: bool, before: str) -> Estimates:
    """The estimates of the first rows of both batches, in the order in which they were sent."""
    what, unit = ("token", "prompts") if is_text else ("answer", "images")
    batch = f"of a batch of {together} {unit} of the run's largest size, from sending"
    found: Estimates = {}
    for place, row in zip(("first", "second"), heads, strict=False):
        name = f"start_{place}_{what}_s"
        if row.outcome == "ok" and row.chunk_ns:
            method = f"{what} of the {place} request after the load, {batch}{before}"
            found[name] = Estimate((row.chunk_ns[0] - row.sent_ns) / 1e9, SECONDS, method, "measured", n=1)
        else:
            found[name] = Estimate.absent(SECONDS, _FAILED)
    return found


def _one_token(spec: RunSpec) -> tuple[Fixed, Fixed]:
    """One token: a graph of the decode that is compiled at the second token is not part of the first."""
    assert isinstance(spec.workload, InferenceWorkload)
    return Fixed(value=spec.workload.input_tokens.max), Fixed(value=1)
