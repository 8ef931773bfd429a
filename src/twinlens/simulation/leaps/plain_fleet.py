"""A fleet of the plainest engines: each is asked for as long as its queue cannot change, and left alone meanwhile.

Between two arrivals at it an engine's future is known: when its next request is done is a closed form. A router that
looks at every queue at every arrival so costs a list of counts, and an engine one turn for each answer that ends.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Generator, Sequence

import numpy as np

from twinlens.simulation.law import StepLaw
from twinlens.simulation.leaps.first_come import Plain, outcome_of, passing
from twinlens.simulation.noise import Noise
from twinlens.simulation.routing import BLIND, Router, Routing
from twinlens.simulation.rules import Rules
from twinlens.simulation.serve import rows_of
from twinlens.simulation.work import Served, Work

_SURELY = 1 - 1e-9
"""An answer takes at least the shortest of steps for each token, but for what is lost in rounding."""


def serve_plain_fleet(
    work: Work,
    machines: Sequence[tuple[StepLaw, Rules, Noise | None]],
    routing: Routing,
    *,
    tokens: bool,
    horizon_s: float | None,
) -> Served | None:
    """All of the work through engines that are always there; None where one has few blocks. The work was checked."""
    engines = [
        Plain(stretches=[] if tokens else None, factors=noise.stream(i) if noise else None)
        for i, (_, _, noise) in enumerate(machines)
    ]
    loads, router = [0] * len(machines), Router(routing)
    passes = [passing(engine, law, rules, loads, i, 0.0) for i, (engine, (law, rules, _)) in
              enumerate(zip(engines, machines, strict=True))]  # fmt: skip
    for each in passes:
        next(each)
    try:
        if routing.policy in BLIND:
            chosen = [router.choose(range(len(machines)), 0.0, -1, float) for _ in range(len(work))]
            _handed_out(work, engines, chosen)
        else:
            least_s = [
                _SURELY * law.parts[0].fixed_s * (float(noise.factors.min()) if noise else 1.0)
                for law, _, noise in machines
            ]
            chosen = _looking(work, engines, passes, loads, router, least_s)
        for each in passes:
            each.send(math.inf)
    except StopIteration:
        return None
    return outcome_of(engines, np.array(chosen, dtype=np.int64), horizon_s)


def _handed_out(work: Work, engines: Sequence[Plain], chosen: Sequence[int]) -> None:
    """Each engine has what was chosen for it, before it begins."""
    places = np.array(chosen)
    for number, engine in enumerate(engines):
        mine = places == number
        engine.arrival_s += work.arrival_s[mine].tolist()
        engine.prompt += work.prompt_tokens[mine].tolist()
        engine.output += work.output_tokens[mine].tolist()


def _looking(
    work: Work,
    engines: Sequence[Plain],
    passes: Sequence[Generator[float, float, None]],
    loads: list[int],
    router: Router,
    least_s: Sequence[float],
) -> list[int]:
    """Each request goes where the router sends it by the queues of that moment. `least_s`: of a step of each engine.

    `turns`: engines by the moment before which nobody of theirs is done, `quiet_s`, with moments that no longer hold
    among them.
    """
    quiet_s, turns, chosen = [math.inf] * len(engines), [(math.inf, -1)], []
    alive, load = range(len(engines)), loads.__getitem__
    for now_s, prompt, output, _, group, _ in rows_of(work):
        while turns[0][0] <= now_s:
            due_s, place = heapq.heappop(turns)
            if due_s == quiet_s[place]:
                due_s = quiet_s[place] = max(passes[place].send(now_s), math.nextafter(now_s, math.inf))
                if due_s < math.inf:
                    heapq.heappush(turns, (due_s, place))
        place = router.choose(alive, now_s, group, load)
        chosen.append(place)
        engine = engines[place]
        engine.arrival_s.append(now_s)
        engine.prompt.append(prompt)
        engine.output.append(output)
        loads[place] += 1
        due_s = now_s + output * least_s[place]
        if due_s < quiet_s[place]:
            quiet_s[place] = due_s
            heapq.heappush(turns, (due_s, place))
    return chosen
