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


_VIEW_NS = 20_000_000
"""How long what is in flight may be taken for unchanged where nothing begins or ends: contexts grow meanwhile."""
View = tuple[int, int, float, float, float, float, float, float]
"""Rows that decode, rows beside a new one with itself, context, half a step, seconds of the prompts that wait for a
step and not for a seat, by how much prompts of others slow decoding, seconds of a step with a new one that decodes,
and which share of those that wait has a seat."""


@dataclass(frozen=True, slots=True)
class Predictor:
    """`step` gives the seconds of a step of (rows, context, tokens beyond one a row, pairs). `seats`: requests that
    run at once, by max_num_seqs and by the blocks of KV cache that a mean request takes."""

    step: Callable[..., float]
    before_s: float
    after_s: float
    budget: int
    seats: int
    line: tuple[float, float, float] | None = None
    """Seconds of a token of context, of a token beyond one a row, and of a pair, where the law has one part."""

    def both_s(self, load: Load, now_ns: int, prompt: float, answer: float) -> tuple[float, float]:
        """TTFT and TPOT in seconds of a request of so many tokens that would be sent now.

        Prompts are taken in pieces of the budget of a step, beside all that decode. A request that comes meets half a
        step on average; prompts that came before it go first, unless they too wait for that step: then all start in
        the next one together. Without a free seat it waits for as many answers to end as are too many. Constant work,
        however much is in flight.
        """
        if load.view is None or now_ns > load.view_until_ns:
            load.view = self._view(load, now_ns)
            load.view_until_ns = now_ns + _VIEW_NS
        rows, beside, context, half_s, others_s, slower, base_s, seated = load.view
        ahead_s, tokens, squares = half_s, prompt, prompt * prompt
        if load.waiting:
            since_s, started_s = (now_ns - load.moved_ns) / 1e9, 0.0 if load.is_moving else self.before_s + half_s
            if since_s >= started_s:
                ahead_s = max(half_s, others_s + started_s - since_s)
            else:
                tokens, squares = tokens + seated * load.waiting_tokens, squares + seated * load.waiting_squares
        line, read = self.line, seated * load.waiting_tokens + prompt + answer / 2
        beyond = tokens - beside + rows
        if tokens > self.budget - rows:
            own_s = self._prompts_s(tokens, squares, beside, rows, context)
        elif line is not None:
            own_s = base_s + (line[1] * beyond if beyond > 0 else 0.0) + line[2] * squares / 2
        else:
            own_s = self.step(beside, context, max(0.0, beyond), squares / 2)
        ttft_s = self.before_s + ahead_s + own_s + self.after_s
        decode_s = base_s + line[0] * read if line is not None else self.step(beside, context + read)
        tpot_s = decode_s * slower
        over = load.waiting + rows + 1 - self.seats
        if over > 0:
            ttft_s += over * load.answer_tokens * tpot_s / self.seats
        return ttft_s, tpot_s

    def _view(self, load: Load, now_ns: int) -> View:
        """What a prediction takes from the load alone, and is the same until something begins or ends there."""
        step, rows = self.step, min(load.decoding, self.seats)
        context = load.context(now_ns) * (rows / load.decoding if load.decoding else 1.0)
        half_s = 0.0
        if rows:
            load.step_s = going_s = step(rows, context)
            half_s = going_s / 2
        waiting = min(load.waiting, self.seats - rows)
        seated, others_s = waiting / load.waiting if waiting else 0.0, 0.0
        if waiting:
            others_s = self._prompts_s(
                seated * load.waiting_tokens, seated * load.waiting_squares, rows + waiting, rows, context
            )
        beside = min(rows + waiting + 1, self.seats)
        mean = load.prompt_mean
        base_s = step(beside, context)
        extra_s = step(beside + 1, context, mean, mean * mean / 2) - base_s
        turning = 1.0 + self.seats * extra_s / (load.answer_tokens * base_s)
        slower = min(turning, 1.0 / (1.0 - min(_MOST_BUSY, load.rate_per_s(now_ns) * extra_s)))
        return rows, beside, context, half_s, others_s, slower, base_s, seated

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
    part = law.parts[0]
    is_line = len(law.parts) == 1
    return Predictor(
        part.at if is_line else law.seconds, law.before_s, law.after_s, rules.max_num_batched_tokens, max(1, seats),
        (part.context_s, part.token_s, part.pair_s) if is_line else None,
    )  # fmt: skip
