"""Policies: which of the candidates a request goes to, and why, in words. None of them knows a score of quality."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from twinlens.gateway.routing.route import MOST_AHEAD, Band, Candidate
from twinlens.gateway.settings import GatewaySettings
from twinlens.simulation import routing as simulated

MOST_MORE = 8
"""Requests by which a home of a prefix, or a backend that is predicted, may have more in flight than the least."""
MOST_HOMES = 65536
_Indexed = tuple[int, Candidate]


class Choice(NamedTuple):
    """`place`: of the candidate among those given."""

    place: int
    reason: str


class Policies:
    """What the policies of one router remember: homes of prefixes and a generator, as those of a simulated fleet."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        plain = simulated.Routing(most_more=MOST_MORE)
        self._two = simulated.Router(simulated.Routing("two-choices", seed=plain.seed))
        self._prefix = simulated.Router(simulated.Routing("prefix", most_more=MOST_MORE))

    def choose(self, able: Sequence[_Indexed], turn: int, prefix: int) -> Choice:
        """One of `able`: place and candidate of each that may be asked, at least one."""
        if len(able) == 1:
            return Choice(0, "the only one that could be asked")
        policy = self._settings.policy
        if policy == "least-ttft":
            return least_ttft(able, turn, self._settings.slo_ttft_s)
        if policy in ("least-cost", "least-energy"):
            return self._least(able, turn, policy)
        if policy == "round-robin":
            return Choice(turn % len(able), "in turn")
        return self._as_simulated(able, prefix, policy)

    def _as_simulated(self, able: Sequence[_Indexed], prefix: int, policy: str) -> Choice:
        by_place = dict(able)
        alive = [number for number, _ in able]
        if policy == "prefix":
            homes = self._prefix.homes
            if len(homes) >= MOST_HOMES:
                homes.pop(next(iter(homes)))
            group = prefix & (2**62 - 1)
            was = homes.get(group)
            chosen = self._prefix.choose(alive, 0.0, group, lambda number: by_place[number].in_flight)
            why = "it had this beginning before" if was == chosen else "the fewest in flight take a new beginning"
            return Choice(alive.index(chosen), why)
        known = all(each.ttft_s is not None for _, each in able)
        chosen = self._two.choose(alive, 0.0, -1, lambda number: _load(by_place[number], known))
        return Choice(alive.index(chosen), "the better of two at random, by " + ("TTFT" if known else "requests"))

    def _least(self, able: Sequence[_Indexed], turn: int, policy: str) -> Choice:
        """The cheapest, or the one of fewest joules, of those whose band lies within the SLO; of equal ones the least
        TTFT, then the fewest in flight, in turn."""
        asked = self._settings
        within: list[tuple[float, float, int, int, int]] = []
        for place, (_, each) in enumerate(able):
            amount = each.cost if policy == "least-cost" else each.joules
            if amount is None or beyond(each.ttft_s, asked.slo_ttft_s) or beyond(each.tpot_s, asked.slo_tpot_s):
                continue
            soon_s = each.ttft_s.middle if each.ttft_s is not None else math.inf
            within.append((amount, soon_s, each.in_flight, (place - turn) % len(able), place))
        what = "cost" if policy == "least-cost" else "energy"
        if within:
            return Choice(min(within)[-1], f"least {what} of {len(within)} within the SLO")
        place, why = least_ttft(able, turn, asked.slo_ttft_s)
        return Choice(place, f"no {what} is known of one within the SLO; {why}")


def beyond(band: Band | None, most_s: float | None) -> bool:
    """Whether a prediction is not within a target for all of its band; what is not predicted is not known to be."""
    return most_s is not None and (band is None or band.high > most_s)


def least_ttft(able: Sequence[_Indexed], turn: int, slo_s: float | None) -> Choice:
    """The least middle of those predicted; of others, the fewest in flight, in turn where they are equal.

    Those that nothing is predicted of stand behind: they take over where the best prediction misses the SLO (unless
    they have a queue themselves), or has `MOST_MORE` more in flight than they.
    """
    count = len(able)
    best, fewest = -1, -1
    least_s = float("inf")
    for offset in range(count):
        place = (turn + offset) % count
        each = able[place][1]
        if each.ttft_s is None:
            if fewest < 0 or each.in_flight < able[fewest][1].in_flight:
                fewest = place
        elif each.ttft_s[0] < least_s:
            best, least_s = place, each.ttft_s[0]
    if best < 0:
        return Choice(fewest, "the fewest in flight; nothing is predicted")
    if fewest >= 0:
        ours, theirs = able[best][1], able[fewest][1]
        if slo_s is not None and least_s > slo_s and theirs.in_flight <= max(MOST_AHEAD, ours.in_flight):
            return Choice(fewest, "no predicted one is within the SLO; of the others, the fewest in flight")
        if ours.in_flight >= theirs.in_flight + MOST_MORE:
            return Choice(fewest, f"the best predicted one has {MOST_MORE} more in flight")
    return Choice(best, "the least predicted TTFT")


def _load(candidate: Candidate, by_prediction: bool) -> float:
    if by_prediction and candidate.ttft_s is not None:
        return candidate.ttft_s.middle
    return candidate.in_flight
