"""One sentence on whether the server counted what its client counted, over all runs of a table."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.reporting.text.column import Column
from twinlens.stats.summary.group import Group

_COUNTS = (
    ("tokens", "server_tokens_agreement"),
    ("requests", "server_requests_agreement"),
    ("mean TTFT from send", "server_ttft_agreement"),
)
_TOKENS = Column("tokens", ("server_tokens_agreement",))


def agreement_sentence(groups: Sequence[Group]) -> str:
    """The server's own figures in per cent of the client's: the range over the points that have them, or why none."""
    said = []
    for name, key in _COUNTS:
        found = [one.metrics[key].value for one in groups if key in one.metrics]
        known = sorted(100 * value for value in found if value is not None)
        if known:
            low, high = (f"{bound:.4g}" for bound in (known[0], known[-1]))
            said.append(f"{name} {low}%" if low == high else f"{name} {low}–{high}%")
    if said:
        return f"The server's own figures, of the client's: {', '.join(said)}."
    named = [name for name, key in _COUNTS if any(key in one.metrics for one in groups)]
    why = next((_TOKENS.reason(one) for one in groups if _TOKENS.ids[0] in one.metrics), "")
    return f"The server's own figures ({', '.join(named)}) are not measured: {why}." if named else ""
