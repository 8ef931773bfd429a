"""Time in which nothing is computed: input, communication, the host, a queue. Its headroom is the whole part."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence, Rule
from twinlens.record.finding import Finding

_LEAST = 0.05
_PARTS = ("data", "communicate", "between-steps", "before-sending", "held", "queue", "transport", "after-last-token")


def time_waiting(seen: Evidence) -> Iterable[Finding]:
    """Each such part that takes 5 % of the time or more, the longest first."""
    partition = seen.partition
    for part in sorted(_PARTS, key=partition.share, reverse=True):
        share = partition.share(part)
        if share >= _LEAST:
            most = 1 / (1 - share) if share < 1 else None
            numbers = {"share": share, "headroom_s": partition.parts[part], "at_most": most, "of": partition.unit}
            yield Finding("time-waiting", "notes", part, numbers)


RULE = Rule(
    code="time-waiting",
    find=time_waiting,
    says="A part in which nothing is computed takes 5 % of the time or more.",
    why=(
        "Without the part, the step or request is faster by at most 1 / (1 − share). No other finding counts "
        "the same time."
    ),
    evidence=(
        "`subject` is the part: data, communicate, between-steps, before-sending, held, queue, transport or "
        "after-last-token. `headroom_s` is all of it."
    ),
    lies=("Behind one wait there may be another: data that is no longer waited for may then wait for the device."),
    remedy="Take the wait away (a batch kept in memory, one rank, no queue), and measure again.",
    falsifier=(
        "Take only this wait away. A gain above 1 / (1 − share) proves the partition wrong; a smaller one "
        "says that another wait follows."
    ),
    sources=(
        'Amdahl, "Validity of the single processor approach to achieving large scale computing capabilities",'
        " AFIPS 1967",
        "Holistic Trace Analysis (github.com/facebookresearch/HolisticTraceAnalysis), idle time breakdown",
    ),
    see=("step_share", "diagnosis"),
)
