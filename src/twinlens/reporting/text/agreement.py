"""One sentence on whether the server counted what its client counted, over all runs of a table."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.reporting.text.column import column
from twinlens.stats.summary.group import Group

_COUNTS = (
    ("tokens", "server_tokens_agreement"),
    ("requests", "server_requests_agreement"),
    ("mean TTFT from send", "server_ttft_agreement"),
)
_TOKENS = column("server_tokens_agreement")


def agreement_sentence(groups: Sequence[Group]) -> str:
    """The server's own figures in per cent of the client's: the range over the points that have them, or why none."""
    parts = []
    for name, key in _COUNTS:
        values = [group.metrics[key].value for group in groups if key in group.metrics]
        known = sorted(100 * value for value in values if value is not None)
        if known:
            low, high = (f"{bound:.4g}" for bound in (known[0], known[-1]))
            parts.append(f"{name} {low}%" if low == high else f"{name} {low}–{high}%")
    if parts:
        return f"The server's own figures, of the client's: {', '.join(parts)}."
    named = [name for name, key in _COUNTS if any(key in group.metrics for group in groups)]
    why = next((_TOKENS.reason(group) for group in groups if _TOKENS.ids[0] in group.metrics), "")
    return f"The server's own figures ({', '.join(named)}) are not measured: {why}." if named else ""
