"""Work and what became of it, as columns: one place of each array is one request, in the order of arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from twinlens.errors import BadInput

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

REFUSED, UNFINISHED, DONE = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Requests to serve. Shapes: (requests,).

    `arrival_s` never falls. `priority`: the least is the most urgent. `group` and `shared_tokens`: the prompts of one
    group begin with the same `shared_tokens` tokens; group -1 shares nothing.
    """

    arrival_s: Floats
    prompt_tokens: Ints
    output_tokens: Ints
    priority: Ints | None = None
    group: Ints | None = None
    shared_tokens: Ints | None = None

    def __len__(self) -> int:
        return len(self.arrival_s)


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """When tokens came. `step_end_s`: of each engine, the ends of its steps.

    `first_step`, `moments`: a request's tokens came with so many successive steps from this one on. Shape: (requests,).
    `apart`: requests whose steps do not follow one another, or bring several tokens: step and tokens so far of each
    moment.
    """

    step_end_s: tuple[Floats, ...]
    first_step: Ints
    moments: Ints
    apart: Mapping[int, tuple[Ints, Ints]]

    def of(self, request: int) -> tuple[Ints, Ints]:
        """Steps that brought tokens of one request, and its tokens so far with each. Shapes: (moments,)."""
        if request in self.apart:
            return self.apart[request]
        count = self.moments[request]
        return self.first_step[request] + np.arange(count), np.arange(1, count + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """What became of `Work`. Shapes: (requests,). Seconds, NaN where it never was.

    `outcome`: REFUSED, UNFINISHED (under way at the horizon) or DONE. `engine`: which replica took it.
    `cached_tokens`: tokens of the prompt that a prefix cache had. `tokens`: when each token came, where it was kept.
    """

    outcome: Ints
    engine: Ints
    start_s: Floats
    first_token_s: Floats
    end_s: Floats
    preemptions: Ints
    cached_tokens: Ints
    tokens: Tokens | None = None


def token_times_s(served: Served, request: int) -> Floats:
    """Seconds at which each token of one request came; those of one moment have the same. Shape: (tokens so far,)."""
    tokens = _kept(served)
    ends = tokens.step_end_s[served.engine[request]] if tokens.moments[request] else np.empty(0)
    if request not in tokens.apart:
        first = tokens.first_step[request]
        return ends[first : first + tokens.moments[request]]
    steps, so_far = tokens.apart[request]
    return np.repeat(ends[steps], np.diff(so_far, prepend=0))


def all_token_times_s(served: Served) -> tuple[Floats, Ints]:
    """Token times of all requests, one after another, and where each begins. Shapes: (tokens,), (requests + 1,)."""
    tokens = _kept(served)
    joined = np.concatenate([np.empty(0), *tokens.step_end_s])
    begins = np.cumsum([0, *(len(each) for each in tokens.step_end_s)])[served.engine]
    counts = tokens.moments.copy()
    for request, (_, so_far) in tokens.apart.items():
        counts[request] = so_far[-1]
    places = np.concatenate([[0], np.cumsum(counts)])
    steps = np.arange(places[-1]) + np.repeat(tokens.first_step + begins - places[:-1], counts)
    for request, (each, so_far) in tokens.apart.items():
        of_each = np.repeat(each, np.diff(so_far, prepend=0)) + begins[request]
        steps[places[request] : places[request + 1]] = of_each
    return joined[steps], places


def _kept(served: Served) -> Tokens:
    if served.tokens is None:
        raise BadInput("token times were not kept; ask for them with serve(…, tokens=True)")
    return served.tokens
