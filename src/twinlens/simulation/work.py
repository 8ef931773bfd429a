"""Work and what became of it, as columns: one place of each array is one request, in the order of arrival."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
class Served:
    """What became of `Work`. Shapes: (requests,). Seconds, NaN where it never was.

    `outcome`: REFUSED, UNFINISHED (under way at the horizon) or DONE. `engine`: which replica took it.
    `cached_tokens`: tokens of the prompt that a prefix cache had.
    """

    outcome: Ints
    engine: Ints
    start_s: Floats
    first_token_s: Floats
    end_s: Floats
    preemptions: Ints
    cached_tokens: Ints
