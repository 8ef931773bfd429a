"""A server that does not say its queue: the wait that other requests add, from the same work at a lower load."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence, Rule
from twinlens.diagnosis.time_split import added_wait
from twinlens.record.finding import Finding


def wait_for_others(seen: Evidence) -> Iterable[Finding]:
    """Where the wait for the first token is shown to be longer than at a lower load, and no queue is told."""
    if seen.kind != "served" or seen.first_token is None or seen.lower_load is None or "queue" in seen.partition.parts:
        return
    added = added_wait(seen.first_token, seen.lower_load)
    if added is None or added.low is None:
        return
    total = seen.partition.seconds
    numbers = {
        "at_least_s": added.low, "share": added.low / total if total else None, "of": seen.partition.unit,
        "here_s": seen.first_token.value, "there_s": seen.lower_load.wait.value, "load": seen.lower_load.load,
        "run": seen.lower_load.run,
    }  # fmt: skip
    yield Finding("wait-for-others", "notes", "first-token", numbers, {"added": added})


RULE = Rule(
    code="wait-for-others",
    find=wait_for_others,
    says="Requests wait longer for their first token than the same server makes them wait at a lower load.",
    why=(
        "A server without metrics does not say how long a request was in its queue, so that time is in no part. What a "
        "higher load adds is due to other requests: it is a lower bound, marked derived, and stays unattributed."
    ),
    evidence=(
        "Mean time from sending to the first token here, less that of a run of the same study, or given beside it: the "
        "same work, executor and precision, at the lowest rate or concurrency. Its bounds take both at their worst."
    ),
    lies=(
        "The run at the lower load has a queue of its own, so the true wait is longer. Some of it is no queue: a "
        "prompt that shares its steps with others that decode is computed more slowly."
    ),
    remedy="Turn on the metrics page of the server: it then says queue and prefill. Lower the load, or add slots.",
    falsifier="Read the server's own queue time. Above the bound less what prefill grew by, it agrees.",
    sources=("Little, A Proof for the Queuing Formula L = λW, Operations Research 9 (3), 1961",),
    see=("server_queue_s", "diagnosis"),
)
