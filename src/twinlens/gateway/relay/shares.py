"""Shares of the traffic: how many requests may be sent again, or twice, of all that come."""

from __future__ import annotations

_FIRST = 10.0


class Share:
    """A budget that each request fills by `share` and each use takes 1 from. At the start `_FIRST` uses are there, and
    never more than that: a storm of failures is not answered by a storm of requests."""

    def __init__(self, share: float, first: float = _FIRST) -> None:
        self._share, self._most = share, first
        self.left = first if share > 0 else 0.0
        self.used = self.refused = 0

    def earn(self) -> None:
        """A request came."""
        self.left = min(self.left + self._share, self._most) if self._share > 0 else 0.0

    def take(self) -> bool:
        """Whether one more may be sent, which is counted."""
        if self.left < 1:
            self.refused += 1
            return False
        self.left -= 1
        self.used += 1
        return True
