"""Routing: which replica of a fleet a request goes to, by what the router knows of each, however old that is."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from twinlens.errors import BadInput

Policy = Literal["random", "round-robin", "two-choices", "shortest-queue", "least-tokens", "prefix"]
Load = Callable[[int], float]
BLIND: tuple[Policy, ...] = ("random", "round-robin")
"""They look at no replica."""


@dataclass(frozen=True, slots=True)
class Routing:
    """`policy`: "two-choices" takes the shorter queue of two at random; "least-tokens" the least left to compute and
    to make; "prefix" sends a group to where it was last, unless that has more than `most_more` requests above the
    shortest queue. Ties go to the first.

    `signal_age_s`: the router looks at all replicas that often, and in between knows what it saw last; 0: it sees them
    as they are.
    """

    policy: Policy = "round-robin"
    signal_age_s: float = 0.0
    most_more: int = 8
    seed: int = 0


@dataclass(slots=True)
class Router:
    """What a router remembers. `seen`: load of each replica when it last looked, at `seen_s`."""

    routing: Routing
    turn: int = 0
    seen_s: float = -float("inf")
    seen: dict[int, float] = field(default_factory=dict)
    homes: dict[int, int] = field(default_factory=dict)
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.routing.seed)

    def choose(self, alive: Sequence[int], now_s: float, group: int, load: Load) -> int:
        """One of the replicas that are there. `load` looks at one of them as it is now."""
        policy = self.routing.policy
        if policy == "random":
            return self.any_of(alive)
        if policy == "round-robin":
            self.turn += 1
            return alive[(self.turn - 1) % len(alive)]
        known = self._known(alive, now_s, load)
        if policy == "two-choices":
            first, second = self.any_of(alive), self.any_of(alive)
            return first if known(first) <= known(second) else second
        least = min(alive, key=known)
        if policy != "prefix" or group < 0:
            return least
        home = self.homes.get(group, least)
        if home not in alive or known(home) > known(least) + self.routing.most_more:
            home = least
        self.homes[group] = home
        return home

    def any_of(self, alive: Sequence[int]) -> int:
        """What `random.choice` takes of them, in a third of its time."""
        count, draw = len(alive), self.random.getrandbits
        bits = count.bit_length()
        while (place := draw(bits)) >= count:
            pass
        return alive[place]

    def _known(self, alive: Sequence[int], now_s: float, load: Load) -> Load:
        age_s = self.routing.signal_age_s
        if age_s <= 0:
            return load
        if now_s >= self.seen_s + age_s:
            self.seen_s = now_s - now_s % age_s
            self.seen = {each: load(each) for each in alive}
        return lambda each: self.seen.get(each, 0.0)


def check_routing(routing: Routing) -> None:
    """Raises BadInput for a routing without sense."""
    if not 0 <= routing.signal_age_s < float("inf"):
        raise BadInput(f"signal_age_s is {routing.signal_age_s}; it has to be a number that is not negative")
    if routing.most_more < 0:
        raise BadInput(f"most_more is {routing.most_more}; it cannot be negative")
