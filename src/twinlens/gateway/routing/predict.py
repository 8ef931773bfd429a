"""TTFT and TPOT of a new request at a backend: its step law, with what is in flight there now."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from twinlens.gateway.routing.load import Load
from twinlens.simulation.law import StepLaw
from twinlens.simulation.rules import Rules

_MOST_BUSY = 0.9
"""Share of time that prompts of others may take from decoding, as predicted: beyond it there is no steady TPOT."""


@dataclass(frozen=True, slots=True)
class Predictor:
    """`step` gives the seconds of a step of (rows, context, tokens beyond one a row, pairs). `seats`: requests that
    run at once, by max_num_seqs and by the blocks of KV cache that a mean request takes."""

    step: Callable[..., float]
    before_s: float
    after_s: float
    budget: int
    seats: int

    def both_s(self, load: Load, now_ns: int, prompt: float, answer: float) -> tuple[float, float]:
        """TTFT and TPOT in seconds of a request of so many tokens that would be sent now.

        Prompts are taken in pieces of the budget of a step, beside all that decode. A request that comes meets half a
        step on average; prompts that came before it go first, unless they too wait for that step: then all start in
        the next one together. Without a free seat it waits for as many answers to end as are too many. Constant work,
        however much is in flight.
        """
        step, rows, context = self.step, load.decoding, load.context(now_ns)
        half_s = 0.0
        if rows:
            load.step_s = going_s = step(rows, context)
            half_s = going_s / 2
        ahead_s, tokens, squares, beside = half_s, prompt, prompt * prompt, rows + 1
        if load.waiting:
            since_s = (now_ns - load.moved_ns) / 1e9
            if load.is_moving or since_s > self.before_s + half_s:
                others_s = self._prompts_s(
                    load.waiting_tokens, load.waiting_squares, rows + load.waiting, rows, context
                )
                started_s = 0.0 if load.is_moving else self.before_s + half_s
                ahead_s = max(half_s, others_s + started_s - since_s)
            else:
                tokens, squares = tokens + load.waiting_tokens, squares + load.waiting_squares
            beside += load.waiting
        ttft_s = self.before_s + ahead_s + self._prompts_s(tokens, squares, beside, rows, context) + self.after_s
        decode_s = step(beside, context + load.waiting_tokens + prompt + answer / 2)
        mean = load.prompt_mean or prompt
        extra_s = step(beside + 1, context, mean, mean * mean / 2) - step(beside, context)
        tpot_s = decode_s / (1.0 - min(_MOST_BUSY, load.rate_per_s(now_ns) * extra_s))
        over = load.waiting + rows + 1 - self.seats
        if over > 0:
            ttft_s += over * load.answer_tokens * tpot_s / self.seats
        return ttft_s, tpot_s

    def _prompts_s(self, tokens: float, squares: float, beside: float, rows: int, context: float) -> float:
        """Seconds of the steps that take prompts of so many tokens, and decode `rows` others meanwhile."""
        steps = math.ceil(tokens / max(1, self.budget - rows))
        if steps <= 1:
            return self.step(beside, context, max(0.0, tokens - beside + rows), squares / 2)
        return steps * self.step(beside, context, tokens / steps - 1, squares / 2 / steps)

    def free_in_s(self, load: Load, now_ns: int) -> float:
        """Seconds until one of the requests here ends, on average: after which another may be sent."""
        _, tpot_s = self.both_s(load, now_ns, load.prompt_mean or 1.0, load.answer_tokens)
        return load.answer_tokens * tpot_s / max(1, load.in_flight)


def predictor(law: StepLaw, rules: Rules, mean_tokens: float) -> Predictor:
    """`mean_tokens`: of a request, prompt and half of its answer."""
    seats = rules.max_num_seqs
    if rules.num_gpu_blocks is not None:
        seats = min(seats, int(rules.num_gpu_blocks * rules.block_size / (mean_tokens + rules.block_size / 2)))
    step = law.parts[0].at if len(law.parts) == 1 else law.seconds
    return Predictor(step, law.before_s, law.after_s, rules.max_num_batched_tokens, max(1, seats))
