"""Health of a backend: after failures it rests, and is tried again with one request. Long answers are no failure."""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.gateway.outcome import Failure

_AT_ONCE: frozenset[Failure] = frozenset({"connect"})
"""Kinds that say at once that nobody is there; of the others, `MOST_IN_A_ROW` in a row do."""
_COUNTED: frozenset[Failure] = frozenset({"first token late", "status", "broken", "malformed", "error event"})
MOST_IN_A_ROW = 3
FIRST_REST_S = 1.0
LONGEST_REST_S = 60.0
_USUAL_WAIT_S = 1.0


@dataclass(slots=True)
class Health:
    """`rests_until_ns`: nothing is sent before. `on_trial`: it has rested, and one request finds out whether it is
    well. `why`: the kind of failure that it rests for."""

    in_a_row: int = 0
    rest_s: float = 0.0
    rests_until_ns: int = 0
    on_trial: bool = False
    trial_out: bool = False
    why: str = ""
    is_busy: bool = False
    """It rests because it said that it has too much to do."""

    def out(self, now_ns: int) -> str:
        """Why nothing may be sent now; "" where something may."""
        if now_ns < self.rests_until_ns:
            return f"rests after {self.why}"
        return f"one request tries it, after {self.why}" if self.trial_out else ""

    def begin(self) -> bool:
        """A request goes out; whether it is the one that tries a backend that has rested."""
        if self.on_trial and not self.trial_out:
            self.trial_out = True
            return True
        return False

    def end(self, now_ns: int, failure: Failure, *, is_trial: bool, retry_after_s: float | None, is_busy: bool) -> None:
        """A request is over. `is_busy`: the backend said that it has too much to do (429)."""
        if is_trial:
            self.trial_out = False
        if failure == "":
            self.in_a_row, self.rest_s, self.on_trial, self.why = 0, 0.0, False, ""
        elif failure in _AT_ONCE or failure in _COUNTED:
            self.in_a_row += 1
            self.is_busy = is_busy
            if is_busy:
                self._rest(now_ns, retry_after_s or _USUAL_WAIT_S, "429")
            elif retry_after_s is not None:
                self._rest(now_ns, retry_after_s, failure)
            elif is_trial or failure in _AT_ONCE or self.in_a_row >= MOST_IN_A_ROW:
                longer_s = min(LONGEST_REST_S, max(FIRST_REST_S, 2 * self.rest_s))
                if now_ns >= self.rests_until_ns:  # several that failed together are one reason to rest
                    self.rest_s = longer_s
                self._rest(now_ns, self.rest_s or FIRST_REST_S, failure)

    def works(self) -> None:
        """A first token came: whatever becomes of the answer, it is there."""
        self.in_a_row = 0

    def _rest(self, now_ns: int, seconds: float, why: str) -> None:
        until_ns = now_ns + round(min(LONGEST_REST_S, seconds) * 1e9)
        self.rests_until_ns, self.on_trial, self.why = max(self.rests_until_ns, until_ns), True, why
