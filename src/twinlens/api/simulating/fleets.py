"""Fleets from words: how many replicas, how requests are routed to them, how old the signals are, what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import get_args

from twinlens.api.plan.reading.amount import bandwidth_of, seconds_of
from twinlens.api.questions import Simulate, SimulateServed
from twinlens.api.simulating.settings import UNREADABLE
from twinlens.errors import BadInput, nearest
from twinlens.simulation.points.fleet import Fleet
from twinlens.simulation.points.smallest import MOST
from twinlens.simulation.routing import BLIND, Policy, Routing

POLICIES: tuple[Policy, ...] = get_args(Policy)
SEARCH = "search"


@dataclass(frozen=True, slots=True)
class Fleets:
    """The fleets that were asked for; none: one engine. `searched`: their number of replicas is looked for."""

    each: tuple[Fleet, ...] = ()
    searched: bool = False

    @property
    def of_one_size(self) -> bool:
        """Whether they differ by routing alone."""
        return len({(fleet.replicas, fleet.prefill) for fleet in self.each}) < 2


def fleets_of(asked: Simulate) -> Fleets:
    """Each count with each routing. Raises BadInput (TL231, TL250)."""
    said = (asked.replicas, asked.routing, asked.signal_age, asked.failing, asked.slow, asked.pools, asked.link)
    if asked.price is not None and asked.replicas is None and asked.pools is None:
        raise BadInput("--price is of a replica-hour: say how many with --replicas 2, or --replicas search",
                       code=UNREADABLE)  # fmt: skip
    if all(word is None for word in said):
        return Fleets()
    searched = (asked.replicas or "").strip() == SEARCH
    pools = _pools(asked)
    sizes = pools or tuple((0, each) for each in ((2,) if searched else counts_of(asked.replicas or "1")))
    link_bytes_per_s = bandwidth_of("link", asked.link) if asked.link is not None else 0.0
    policies = _policies(asked.routing, max(prefill + rest for prefill, rest in sizes))
    age_s = _age_s(asked.signal_age, policies)
    dies_s, down_s = _failing(asked.failing)
    if searched and asked.seeds < 2:
        raise BadInput("--replicas search keeps the SLO in a whole band, and one simulation has none: --seeds 2 or "
                       "more", code=UNREADABLE)  # fmt: skip
    return Fleets(
        tuple(
            Fleet(prefill + rest, policy, age_s if policy not in BLIND else 0.0, dies_s, down_s, asked.slow or 1.0,
                  prefill, link_bytes_per_s)
            for (prefill, rest), policy in product(sizes, policies)
        ),
        searched,
    )  # fmt: skip


def _pools(asked: Simulate) -> tuple[tuple[int, int], ...]:
    """ "2+4,3+3": replicas for prompts, and for the rest. Raises BadInput (TL250)."""
    if asked.pools is None:
        if asked.link is not None:
            raise BadInput("--link carries KV cache between pools, and there are none: --pools 2+4", code=UNREADABLE)
        return ()
    if asked.replicas is not None:
        raise BadInput("--pools 2+4 says how many replicas there are: leave --replicas out", code=UNREADABLE)
    if asked.link is None:
        raise BadInput("--pools moves the KV cache of each prompt: say over what, as in --link 25GB/s", code=UNREADABLE)
    return tuple(dict.fromkeys(_pair(word) for word in asked.pools.split(",")))


def _pair(text: str) -> tuple[int, int]:
    first, plus, second = (each.strip() for each in text.partition("+"))
    if not plus or not all(each.isdecimal() and int(each[:9]) <= MOST for each in (first, second)):
        raise BadInput(f"--pools is so many replicas for prompts and so many for answers, as in 2+4, not {text[:40]!r}",
                       code=UNREADABLE)  # fmt: skip
    if not int(first) or not int(second):
        missing, there = ("prefill", "decode") if not int(first) else ("decode", "prefill")
        raise BadInput(f"--pools {text.strip()[:40]}: a {there} pool without a {missing} pool answers nobody; give "
                       "both", code=UNREADABLE)  # fmt: skip
    return int(first), int(second)


def counts_of(text: str) -> tuple[int, ...]:
    """ "2,4,8": each once. Raises BadInput (TL250)."""
    found = dict[int, None]()
    for word in text.split(","):
        plain = word.strip()
        if not plain.isdecimal() or not 1 <= int(plain[:9]) <= MOST:
            raise BadInput(f"--replicas is a whole number from 1 to {MOST:,}, several (2,4,8) or search, "
                           f"not {plain[:40]!r}", code=UNREADABLE)  # fmt: skip
        found[int(plain)] = None
    return tuple(found)


def engines_of(text: str | None) -> int:
    """The engines of a simulated server, one unless said. Raises BadInput (TL250)."""
    if text is None:
        return 1
    counts = () if text.strip() == SEARCH else counts_of(text)
    if len(counts) != 1:
        raise BadInput(f"a simulated server has so many engines: --replicas 4, not {text[:40]!r}", code=UNREADABLE)
    return counts[0]


def routing_of(asked: SimulateServed) -> Routing:
    """How a simulated server routes: to the shortest queue unless said. Raises BadInput (TL231, TL250)."""
    engines = engines_of(asked.replicas)
    policies = _policies(asked.routing, engines) if asked.routing is not None else ("shortest-queue",)
    if len(policies) != 1:
        raise BadInput(f"a simulated server has one router: one --routing, not {len(policies)}", code=UNREADABLE)
    if asked.signal_age is not None and engines == 1:
        raise BadInput("--signal-age is of a router between replicas, and there is one: --replicas 2", code=UNREADABLE)
    return Routing(policies[0], _age_s(asked.signal_age, policies), seed=asked.fail_seed)


def _policies(text: str | None, most: int) -> tuple[Policy, ...]:
    if text is None:
        return ("round-robin",)
    if most == 1:
        raise BadInput("--routing chooses between replicas, and there is one: --replicas 2", code=UNREADABLE)
    known = {str(each): each for each in POLICIES}
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in known:
            raise BadInput(f"no routing is called {word[:40]!r}; {nearest(word, POLICIES)}", code=UNREADABLE)
    return tuple(dict.fromkeys(known[word] for word in words))


def _age_s(text: str | None, policies: tuple[Policy, ...]) -> float:
    if text is None:
        return 0.0
    if all(each in BLIND for each in policies):
        raise BadInput(f"{' and '.join(policies)} looks at no queue, so no signal is old: --routing shortest-queue, "
                       "or leave --signal-age out", code=UNREADABLE)  # fmt: skip
    return seconds_of("signal-age", text)


def _failing(text: str | None) -> tuple[float | None, float | None]:
    if text is None:
        return None, None
    at, colon, down = text.partition(":")
    if not colon:
        raise BadInput(f"--failing says when a replica dies and for how long: 20s:30s, not {text[:40]!r}",
                       code=UNREADABLE)  # fmt: skip
    return seconds_of("failing", at), seconds_of("failing", down)
