"""Work through one engine in virtual time: what became of each request."""

from __future__ import annotations

import math
from collections.abc import Iterator

from twinlens.simulation.engine import Engine
from twinlens.simulation.fits import check_work, checked_law, checked_rules
from twinlens.simulation.law import StepLaw
from twinlens.simulation.leaps.carry import Carry, may_carry
from twinlens.simulation.leaps.first_come import is_plain, serve_plainly
from twinlens.simulation.noise import Noise
from twinlens.simulation.outcome import served
from twinlens.simulation.rules import Rules
from twinlens.simulation.work import Served, Work


def serve(
    work: Work,
    law: StepLaw,
    rules: Rules,
    *,
    noise: Noise | None = None,
    horizon_s: float | None = None,
    tokens: bool = True,
    leaps: bool = True,
) -> Served:
    """All of the work through one engine, until it is done or virtual time has reached the horizon.

    The law's `before_s` and `after_s` are not in it: add them outside. `tokens`: keep the time of every token.
    `leaps`: pass equal steps together, which gives the same times sooner. Overload ends too, once the queue is served:
    `outcome.overloaded_from` says from which rate on it grew. Raises BadInput before any work.
    """
    check_work(work, rules)
    if leaps and is_plain(rules, work):
        law, rules = checked_law(law), checked_rules(rules)
        plainly = serve_plainly(work, law, rules, noise, tokens=tokens, horizon_s=horizon_s)
        if plainly is not None:
            return plainly
    engine = Engine(rules, law, noise, tokens=tokens, leaps=leaps)
    driver = Carry(engine, ahead=horizon_s is None) if leaps and may_carry(rules) else engine
    until_s = math.inf if horizon_s is None else horizon_s
    sequences = []
    for arrival_s, prompt, output, priority, group, shared in rows_of(work):
        driver.run_until(min(arrival_s, until_s))
        sequences.append(engine.add(arrival_s, prompt, output, priority=priority, group=group, shared=shared))
    engine.close()
    driver.run_until(until_s)
    if isinstance(driver, Carry):
        driver.settle()
    return served(sequences, None, (engine.ends.written(),) if engine.ends else None, horizon_s)


def rows_of(work: Work) -> Iterator[tuple[float, int, int, int, int, int]]:
    """Arrival, prompt, output, priority, group and shared tokens of each request."""
    zeros, alone = [0] * len(work), [-1] * len(work)
    return zip(
        work.arrival_s.tolist(),
        work.prompt_tokens.tolist(),
        work.output_tokens.tolist(),
        zeros if work.priority is None else work.priority.tolist(),
        alone if work.group is None else work.group.tolist(),
        zeros if work.shared_tokens is None else work.shared_tokens.tolist(),
        strict=True,
    )
