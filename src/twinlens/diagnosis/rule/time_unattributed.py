"""Validity: time that belongs to no part. Above a tenth of it, no verdict on the rest holds."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence, Rule
from twinlens.diagnosis.phase import UNATTRIBUTED
from twinlens.diagnosis.verdict import MOST_UNATTRIBUTED
from twinlens.record.finding import Finding


def time_unattributed(seen: Evidence) -> Iterable[Finding]:
    """Where more than a tenth of the time is in no part, or the parts do not fit."""
    share = seen.partition.share(UNATTRIBUTED)
    if seen.partition.reason is not None or share > MOST_UNATTRIBUTED:
        unsaid = [part for part in ("queue", "prefill") if part not in seen.partition.parts]
        numbers = {"share": share, "reason": seen.partition.reason, "unsaid": unsaid if seen.kind == "served" else []}
        numbers |= {"unmarked": seen.unmarked} if seen.unmarked else {}
        yield Finding("time-unattributed", "warns", seen.partition.unit, numbers)


RULE = Rule(
    code="time-unattributed",
    find=time_unattributed,
    says="More than a tenth of the time belongs to no part, or the parts overlap.",
    why=(
        "A cause that nobody marked may hide there. No verdict on the rest is given unless one part takes a "
        "quarter of the time by itself."
    ),
    evidence=(
        "Time of a step or request less all its parts, on one clock. Of a server without a metrics page it is"
        " all from sending to the first token."
    ),
    lies=(
        "Parts that run at the same time, such as communication under the backward pass, are counted once or "
        "the partition is refused."
    ),
    remedy=(
        "Mark more phases in the trainer; in a loop of your own take batches through run.data(loader), so that the "
        "wait for them is a part. Turn on the metrics page of the server, or name it with "
        "executor.options.metrics_url."
    ),
    falsifier=(
        "Mark the missing phase and measure again. If less than a tenth stays without a part and the verdict "
        "is the same, nothing was hidden."
    ),
    sources=("Holistic Trace Analysis (github.com/facebookresearch/HolisticTraceAnalysis), temporal breakdown",),
    see=("step_share", "diagnosis"),
)
