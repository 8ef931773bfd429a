"""Work through one engine in parts: what became of requests is given as they end, and only who is under way is kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from twinlens.errors import BadInput
from twinlens.simulation.engine import Engine
from twinlens.simulation.fits import check_work
from twinlens.simulation.law import StepLaw
from twinlens.simulation.leaps.carry import Carry, may_carry
from twinlens.simulation.noise import Noise
from twinlens.simulation.outcome import served
from twinlens.simulation.rules import Rules
from twinlens.simulation.serve import rows_of
from twinlens.simulation.state.sequence import Sequence
from twinlens.simulation.work import DONE, Ints, Served, Tokens, Work


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Requests that have ended since the part before. `place`: of each in the whole work. Shape: (requests,)."""

    place: Ints
    served: Served


def serve_in_parts(
    works: Iterable[Work],
    law: StepLaw,
    rules: Rules,
    *,
    noise: Noise | None = None,
    horizon_s: float | None = None,
    tokens: bool = True,
) -> Iterator[Part]:
    """What `serve` says of all of the works, one after another, in as much memory as one of them and who is under way.

    A part follows each work, a last one the end; who is then still under way is in that. Raises BadInput for a work
    that is no work, or begins before the last arrival of the one ahead of it.
    """
    engine = Engine(rules, law, noise, tokens=tokens)
    driver = Carry(engine, ahead=horizon_s is None) if may_carry(rules) else engine
    until_s, last_s = math.inf if horizon_s is None else horizon_s, 0.0
    for work in works:
        check_work(work, rules)
        if len(work) and work.arrival_s[0] < last_s:
            raise BadInput(f"a work begins at {work.arrival_s[0]:g} s, before {last_s:g} s, when the last request of "
                           "the one ahead of it arrives; give them in the order of arrival")  # fmt: skip
        for last_s, prompt, output, priority, group, shared in rows_of(work):
            driver.run_until(min(last_s, until_s))
            engine.add(last_s, prompt, output, priority=priority, group=group, shared=shared)
        yield _part(engine, _taken(engine), horizon_s)
    engine.close()
    driver.run_until(until_s)
    if isinstance(driver, Carry):
        driver.settle()
    running = [each for each in engine.running if each.outcome != DONE]  # a batch keeps who is done until its end
    under_way = [*running, *(each for _, each in engine.waiting)]
    yield _part(engine, [*_taken(engine), *under_way], horizon_s)


def _taken(engine: Engine) -> list[Sequence]:
    ended, engine.finished = engine.finished, []
    return ended


def _part(engine: Engine, ended: list[Sequence], horizon_s: float | None) -> Part:
    """Columns of who has ended; steps that brought nothing to anybody who is left are forgotten."""
    log = engine.ends
    columns = served(ended, None, None if log is None else (log.written(),), horizon_s)
    if log is not None and (tokens := columns.tokens) is not None:
        apart = {place: (steps - log.forgotten, so_far) for place, (steps, so_far) in tokens.apart.items()}
        moved = Tokens(tokens.step_end_s, tokens.first_step - log.forgotten, tokens.moments, apart)
        columns = Served(
            columns.outcome, columns.engine, columns.start_s, columns.first_token_s, columns.end_s,
            columns.preemptions, columns.cached_tokens, moved,
        )  # fmt: skip
        here = [*engine.running, *(each for _, each in engine.waiting)]
        log.forget(min((each.moments[0][1] for each in here if each.moments), default=engine.steps))
    return Part(np.array([each.number for each in ended], dtype=np.int64), columns)
