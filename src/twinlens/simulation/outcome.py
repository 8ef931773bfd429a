"""Outcomes of requests, as columns: sequences of one engine or of many put together in the order of arrival."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, overload

import numpy as np

from twinlens.simulation.state.sequence import Sequence
from twinlens.simulation.work import DONE, REFUSED, UNFINISHED, Floats, Ints, Served, Tokens, Work


def served(
    sequences: list[Sequence],
    engines: Ints | None = None,
    step_end_s: tuple[Floats, ...] | None = None,
    horizon_s: float | None = None,
) -> Served:
    """Columns of sequences in the order of arrival. `engines`: which replica took each; all the first, if not given.

    With a horizon, what came after it never was: the request is unfinished.
    """
    columns = Served(
        outcome=_column((each.outcome for each in sequences), int),
        engine=np.zeros(len(sequences), dtype=np.int64) if engines is None else engines,
        start_s=_column((each.start_s for each in sequences), float),
        first_token_s=_column((each.first_token_s for each in sequences), float),
        end_s=_column((each.end_s for each in sequences), float),
        preemptions=_column((each.preemptions for each in sequences), int),
        cached_tokens=_column((each.cached for each in sequences), int),
        tokens=None if step_end_s is None else tokens_of(sequences, step_end_s),
    )
    if horizon_s is not None:
        columns.outcome[(columns.outcome == DONE) & (columns.end_s > horizon_s)] = UNFINISHED
        for times in (columns.start_s, columns.first_token_s, columns.end_s):
            times[times > horizon_s] = np.nan
    return columns


def tokens_of(sequences: list[Sequence], step_end_s: tuple[Floats, ...]) -> Tokens:
    """When the tokens of each sequence came, by the steps that brought them."""
    apart = {
        place: (np.array(each.come(), dtype=np.int64), np.array(each.by_moment(), dtype=np.int64))
        for place, each in enumerate(sequences)
        if len(each.moments) > 1 or (each.moments and (each.moments[0][0] or each.steps + 1 < each.output))
    }
    return Tokens(
        step_end_s=step_end_s,
        first_step=_column((each.moments[0][1] if each.moments else 0 for each in sequences), int),
        moments=_column((each.made for each in sequences), int),
        apart=apart,
    )


def overloaded_from(work: Work, columns: Served) -> float | None:
    """Requests a second from which on a queue grows without bound, where it did; None where the rate was kept up with.

    By the second half of the arrivals: overloaded, where so many fewer were done in that time than came that chance
    does not explain it (4 standard deviations of a Poisson count of arrivals). The rate is that of requests done then.
    """
    kept = columns.outcome != REFUSED
    arrival_s, end_s = work.arrival_s[kept], columns.end_s[kept]
    if len(arrival_s) < 2:
        return None
    last_s = arrival_s[-1]
    middle_s = (arrival_s[0] + last_s) / 2
    came = int((arrival_s > middle_s).sum())
    done = int(((end_s > middle_s) & (end_s <= last_s)).sum())
    if last_s <= middle_s or came - done <= 4 * came**0.5:
        return None
    return float(done / (last_s - middle_s))


def conserved(columns: Served) -> bool:
    """Whether every request is done, refused or unfinished, each with the times that belong to it."""
    done, kept = columns.outcome == DONE, columns.outcome != REFUSED
    ordered = (columns.start_s <= columns.first_token_s) & (columns.first_token_s <= columns.end_s)
    known = np.isin(columns.outcome, (REFUSED, UNFINISHED, DONE))
    return bool(np.all(known) and np.all(ordered[done]) and np.all(np.isnan(columns.start_s[~kept])))


@overload
def _column(values: Iterable[Any], kind: type[int]) -> Ints: ...
@overload
def _column(values: Iterable[Any], kind: type[float]) -> Floats: ...
def _column(values: Iterable[Any], kind: type[int] | type[float]) -> Ints | Floats:
    return np.fromiter(values, np.int64) if kind is int else np.fromiter(values, np.float64)
