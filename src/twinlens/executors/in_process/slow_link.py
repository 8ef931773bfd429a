"""A slow link or rank, by the times of all pairs of ranks: slow against the fastest pair, in its best time too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinlens.record.finding import Finding

SLOW, SLOW_ON_DEVICE = 2.0, 1.5
"""Times the fastest pair's least time: noise adds to some repetitions, hardly to all. A GPU times large buffers itself,
of which a link at half its speed takes twice as long, and no longer."""


def slow_links(pairs: Mapping[tuple[int, int], Sequence[float]], *, on_processor: bool) -> tuple[Finding, ...]:
    """A rank all of whose pairs are slow, then pairs that no such rank explains; nothing below three pairs."""
    if len(pairs) < 3:
        return ()
    least = {pair: min(seconds) for pair, seconds in pairs.items()}
    fastest, limit = min(least.values()), SLOW if on_processor else SLOW_ON_DEVICE
    slow = {pair: seconds / fastest for pair, seconds in least.items() if seconds > limit * fastest}
    members = {rank for pair in pairs for rank in pair}
    ranks = [rank for rank in sorted(members) if all(pair in slow for pair in pairs if rank in pair)]
    found = [
        Finding("slow-rank", "warns", str(rank), {"times": min(t for pair, t in slow.items() if rank in pair)})
        for rank in ranks
    ]
    rest = {pair: times for pair, times in slow.items() if not set(pair) & set(ranks)}
    found += [Finding("slow-link", "warns", f"{a} and {b}", {"times": times}) for (a, b), times in sorted(rest.items())]
    return tuple(found)
