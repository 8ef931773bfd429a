"""The plainest engine, as one loop over columns: who comes first is served first, and nothing is ever in short supply.

Without drafts, window, thresholds or batches, and prompts that share nothing: what most questions about rates and
lengths ask.
Blocks of KV cache may be bounded where they would hold every running request at its longest: nobody is preempted then.
Half the time of `carry.Carry`, which asks nothing of the rules.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import numpy as np

from twinlens.simulation.law import StepLaw
from twinlens.simulation.leaps.leap import even_steps, noisy_steps
from twinlens.simulation.noise import Factors, Noise
from twinlens.simulation.rules import Rules
from twinlens.simulation.state.steps import StepEnds
from twinlens.simulation.work import DONE, UNFINISHED, Floats, Ints, Served, Tokens, Work


def is_plain(rules: Rules, work: Work) -> bool:
    """Whether the loop below follows these rules on this work; where blocks turn out to be few, it says so then."""
    if rules.sliding_window is not None or rules.long_prefill_token_threshold or rules.num_speculative_tokens:
        return False
    orderly = rules.batching == "continuous" and rules.scheduling_policy == "fcfs" and rules.enable_chunked_prefill
    fits = rules.max_model_len is None or not np.any(work.prompt_tokens + work.output_tokens > rules.max_model_len)
    new = not rules.enable_prefix_caching or not _shares(work, rules.block_size)
    return orderly and rules.max_num_seqs <= rules.max_num_batched_tokens and fits and new


def _shares(work: Work, block_size: int) -> bool:
    """Whether a prefix cache may find a block of one prompt for another."""
    if work.group is None or work.shared_tokens is None:
        return False
    return bool(np.any((work.group >= 0) & (work.shared_tokens >= block_size)))


@dataclass(slots=True)
class Plain:
    """One engine: requests that have come, in order, and the times of the first of them, as they become known.

    `stretches`: of its steps, as `StepEnds` keeps them; None where no token times are wanted. `factors`: its noise.
    """

    arrival_s: list[float] = field(default_factory=list)
    prompt: list[int] = field(default_factory=list)
    output: list[int] = field(default_factory=list)
    start_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    end_s: list[float] = field(default_factory=list)
    first_step: list[int] = field(default_factory=list)
    stretches: list[float] | None = None
    factors: Factors | None = None


def serve_plainly(
    work: Work, law: StepLaw, rules: Rules, noise: Noise | None, *, tokens: bool, horizon_s: float | None
) -> Served | None:
    """All of the work through the plainest engine; None where blocks are few. The work has been checked."""
    engine = Plain(
        work.arrival_s.tolist(), work.prompt_tokens.tolist(), work.output_tokens.tolist(),
        stretches=[] if tokens else None, factors=noise.stream() if noise else None,
    )  # fmt: skip
    if next(passing(engine, law, rules, [len(work)], 0, math.inf), None) is None:
        return None
    return outcome_of([engine], np.zeros(len(work), dtype=np.int64), horizon_s)


def passing(
    engine: Plain, law: StepLaw, rules: Rules, loads: list[int], place: int, until_s: float
) -> Generator[float, float, None]:
    """Passes the steps of an engine that begin before `until_s`, and takes from `loads[place]` who is done by then.

    Yields a moment before which nobody else is done, whoever comes meanwhile: infinite where nothing is under way. Send
    it the next `until_s`; requests that came before it have to be in `engine`. Ends where blocks are few.

    `rows` decode, `context` is what their next step reads, `ends` the step after which each is done; of the prompt that
    is half computed, `half` is the request and `done` its tokens so far; `head` is the first that waits.
    """
    seats, budget = rules.max_num_seqs, rules.max_num_batched_tokens
    size, blocks = rules.block_size, rules.num_gpu_blocks
    lines = [(each.fixed_s, each.row_s, each.context_s, each.token_s, each.pair_s) for each in law.parts]
    (fixed_s, row_s, context_s, token_s, pair_s), *others = lines
    arrival_s, prompt, output, stretches = engine.arrival_s, engine.prompt, engine.output, engine.stretches
    factors, noise_at, shortest_s = engine.factors, -1, fixed_s
    if factors is not None:
        shortest_s *= float(factors.noise.factors.min())
    start_s, first_s, end_s, first_step = engine.start_s, engine.first_s, engine.end_s, engine.first_step
    count, head, half, done, rows, steps, reserved = len(prompt), 0, -1, 0, 0, 0, 0
    now, context = 0.0, 0
    ends: list[tuple[int, int]] = []
    while True:
        if not rows and half < 0:
            if head == count:
                until_s = yield math.inf
                count = len(prompt)
                continue
            now = max(now, arrival_s[head])
        left, begin = budget - rows, now
        if half >= 0 or (head < count and rows < seats and left and arrival_s[head] <= now):
            if now >= until_s:
                until_s = yield now + shortest_s
                count = len(prompt)
                continue
            pieces = more = pairs = 0
            ready: list[int] = []
            if half >= 0 and left:
                took = min(prompt[half] - done, left)
                pieces, more, left = 1, took - 1, left - took
                pairs += took * done + took * (took + 1) // 2
                done += took
                if done == prompt[half]:
                    ready.append(half)
                    half = -1
            there = rows + len(ready) + (half >= 0)
            while head < count and left and there < seats and arrival_s[head] <= now:
                if blocks is not None:
                    reserved -= -(prompt[head] + output[head]) // size
                    if reserved > blocks:
                        return
                took = min(prompt[head], left)
                pieces, more, left, there = pieces + 1, more + took - 1, left - took, there + 1
                pairs += took * (took + 1) // 2
                start_s.append(now)
                end_s.append(0.0)
                if took == prompt[head]:
                    ready.append(head)
                else:
                    half, done = head, took
                head += 1
            lasts = fixed_s + row_s * (rows + pieces) + context_s * context + token_s * more + pair_s * pairs
            for a, b, c, d, e in others:
                lasts = max(lasts, a + b * (rows + pieces) + c * context + d * more + e * pairs)
            if factors is not None:
                lasts *= factors.next()
            if stretches is not None:
                stretches += (begin, 1, lasts, 0.0, -1)
            now, steps, context = now + lasts, steps + 1, context + rows
        else:
            ready = []
            most, each_s, growth_s = ends[0][0] - steps, fixed_s + row_s * rows + context_s * context, context_s * rows
            if others:
                each_s, growth_s, most = _slowest(lines, rows, context, most)
            wait_s = arrival_s[head] - now if head < count and rows < seats and left else math.inf
            if factors is None:
                lasts = most * (each_s + growth_s * (most - 1) / 2)
                if lasts >= wait_s:
                    most, lasts = even_steps(each_s, growth_s, most, wait_s)
            else:
                factors.fill()
                noise_at = factors.place
                most, lasts = noisy_steps(
                    factors, each_s, growth_s, min(most, len(factors.factors) - factors.at), wait_s
                )
            if wait_s == math.inf and now + lasts > until_s:
                until_s = yield now + lasts
                count = len(prompt)
                continue
            if factors is not None:
                factors.at += most
            if stretches is not None:
                stretches += (begin, most, each_s, growth_s, noise_at)
            now, steps, context = now + lasts, steps + most, context + most * rows
        if now > until_s and ((ends and ends[0][0] <= steps) or any(output[each] == 1 for each in ready)):
            while now > until_s:
                until_s = yield now
            count = len(prompt)
        while ends and ends[0][0] <= steps:
            each = heapq.heappop(ends)[1]
            end_s[each] = now
            loads[place] -= 1
            rows, context = rows - 1, context - prompt[each] - output[each]
            if blocks is not None:
                reserved += -(prompt[each] + output[each]) // size
        for each in ready:
            first_s.append(now)
            first_step.append(steps - 1)
            if output[each] > 1:
                rows, context = rows + 1, context + prompt[each] + 1
                heapq.heappush(ends, (steps + output[each] - 1, each))
                continue
            end_s[each] = now
            loads[place] -= 1
            if blocks is not None:
                reserved += -(prompt[each] + output[each]) // size


def _slowest(
    lines: Sequence[tuple[float, float, float, float, float]], rows: int, context: int, most: int
) -> tuple[float, float, int]:
    """Seconds of the next step, their growth a step, and for how many steps the same part of the law is slowest."""
    seconds = [(a + b * rows + c * context, c * rows) for a, b, c, _, _ in lines]
    first_s, growth_s = max(seconds)
    for other_s, faster_s in seconds:
        if faster_s > growth_s:
            most = min(most, int((first_s - other_s) / (faster_s - growth_s)) + 1)
    return first_s, growth_s, most


def outcome_of(engines: Sequence[Plain], chosen: Ints, horizon_s: float | None) -> Served:
    """Columns of engines that have passed everything. `chosen`: which had each request. Shape: (requests,).

    What began at the horizon or later, or came later, never was.
    """
    back = np.argsort(np.argsort(chosen, kind="stable"), kind="stable")
    start_s, first_s, end_s = (
        np.concatenate([np.array(getattr(each, name), dtype=np.float64) for each in engines])[back]
        for name in ("start_s", "first_s", "end_s")
    )
    outcome = np.full(len(chosen), DONE, dtype=np.int64)
    tokens = _tokens(engines, chosen, back, horizon_s)
    if horizon_s is not None:
        outcome[end_s > horizon_s] = UNFINISHED
        start_s[start_s >= horizon_s] = np.nan
        first_s[first_s > horizon_s] = end_s[end_s > horizon_s] = np.nan
    none = np.zeros(len(chosen), dtype=np.int64)
    return Served(outcome, chosen, start_s, first_s, end_s, none, none.copy(), tokens)


def _tokens(engines: Sequence[Plain], chosen: Ints, back: Ints, horizon_s: float | None) -> Tokens | None:
    first_step, moments = (
        np.concatenate([np.array(getattr(each, name), dtype=np.int64) for each in engines])[back]
        for name in ("first_step", "output")
    )
    kept = [StepEnds(each.factors, each.stretches) for each in engines if each.stretches is not None]
    if not kept:
        return None
    ends_s = [each.written() for each in kept]
    if horizon_s is not None:
        passed = np.array([_begun(each.stretches, own_s, horizon_s) for each, own_s in zip(kept, ends_s, strict=True)])
        ends_s = [each[:steps] for each, steps in zip(ends_s, passed, strict=True)]
        moments = np.clip(passed[chosen] - first_step, 0, moments)
    return Tokens(tuple(ends_s), first_step, moments, {})


def _begun(stretches: list[float], ends_s: Floats, until_s: float) -> int:
    """Steps that begin before a moment: those of a stretch begin where the one before ends."""
    table = np.array(stretches).reshape(-1, 5)
    last = int(np.searchsorted(table[:, 0], until_s)) - 1
    if last < 0:
        return 0
    before = int(table[:last, 1].sum())
    return before + 1 + int(np.searchsorted(ends_s[before : before + int(table[last, 1]) - 1], until_s))
