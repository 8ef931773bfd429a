"""The plainest engine, as one loop over columns: who comes first is served first, and nothing is ever in short supply.

For one part of a law, no noise, and rules without bounded blocks, prefix cache, drafts, window, thresholds or batches:
what most questions about rates and lengths ask. Half the time of `carry.Carry`, which asks nothing of the rules.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from twinlens.simulation.law import StepLaw
from twinlens.simulation.leaps.leap import even_steps
from twinlens.simulation.noise import Noise
from twinlens.simulation.rules import Rules
from twinlens.simulation.state.steps import StepEnds
from twinlens.simulation.work import DONE, Served, Tokens, Work


def is_plain(law: StepLaw, rules: Rules, noise: Noise | None) -> bool:
    """Whether the loop below follows these rules."""
    odd = (
        rules.num_gpu_blocks, rules.sliding_window, rules.max_model_len, noise,
        rules.long_prefill_token_threshold or None, rules.num_speculative_tokens or None,
        rules.enable_prefix_caching or None,
    )  # fmt: skip
    if any(each is not None for each in odd) or len(law.parts) != 1:
        return False
    orderly = rules.batching == "continuous" and rules.scheduling_policy == "fcfs" and rules.enable_chunked_prefill
    return orderly and rules.max_num_seqs <= rules.max_num_batched_tokens


@dataclass(slots=True)
class _Columns:
    """Times and first steps of requests, as they become known."""

    start_s: list[float]
    first_s: list[float]
    end_s: list[float]
    first_step: list[int]


def serve_plainly(work: Work, law: StepLaw, rules: Rules, *, tokens: bool) -> Served:
    """All of the work through the plainest engine. The work has been checked."""
    count = len(work)
    found = _Columns([0.0] * count, [0.0] * count, [0.0] * count, [0] * count)
    ends = StepEnds(None) if tokens else None
    _loop(work, law, rules, found, ends.stretches if ends else None)
    kept = None
    if ends:
        kept = Tokens((ends.written(),), np.array(found.first_step, dtype=np.int64), work.output_tokens.copy(), {})
    none = np.zeros(count, dtype=np.int64)
    return Served(
        none + DONE, none, np.array(found.start_s), np.array(found.first_s), np.array(found.end_s),
        none.copy(), none.copy(), kept,
    )  # fmt: skip


def _loop(work: Work, law: StepLaw, rules: Rules, found: _Columns, stretches: list[float] | None) -> None:
    """`rows` decode, `context` is what their next step reads, `ends` the step after which each is done; of the prompt
    that is half computed, `half` is the request and `done` its tokens so far; `head` is the first that waits."""
    part, seats, budget = law.parts[0], rules.max_num_seqs, rules.max_num_batched_tokens
    fixed_s, row_s, context_s, token_s, pair_s = (
        part.fixed_s, part.row_s, part.context_s, part.token_s, part.pair_s
    )  # fmt: skip
    arrival_s, prompt, output = work.arrival_s.tolist(), work.prompt_tokens.tolist(), work.output_tokens.tolist()
    start_s, first_s, end_s, first_step = found.start_s, found.first_s, found.end_s, found.first_step
    count, head, half, done, rows, steps = len(prompt), 0, -1, 0, 0, 0
    now, context = 0.0, 0
    ends: list[tuple[int, int]] = []
    while True:
        if not rows and half < 0:
            if head == count:
                return
            now = max(now, arrival_s[head])
        left, begin = budget - rows, now
        if half >= 0 or (head < count and rows < seats and left and arrival_s[head] <= now):
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
                took = min(prompt[head], left)
                pieces, more, left, there = pieces + 1, more + took - 1, left - took, there + 1
                pairs += took * (took + 1) // 2
                start_s[head] = now
                if took == prompt[head]:
                    ready.append(head)
                else:
                    half, done = head, took
                head += 1
            lasts = fixed_s + row_s * (rows + pieces) + context_s * context + token_s * more + pair_s * pairs
            if stretches is not None:
                stretches += (begin, 1, lasts, 0.0, -1)
            now, steps, context = now + lasts, steps + 1, context + rows
        else:
            ready = []
            most, each_s, growth_s = ends[0][0] - steps, fixed_s + row_s * rows + context_s * context, context_s * rows
            lasts = most * (each_s + growth_s * (most - 1) / 2)
            if head < count and rows < seats and left and lasts >= arrival_s[head] - now:
                most, lasts = even_steps(each_s, growth_s, most, arrival_s[head] - now)
            if stretches is not None:
                stretches += (begin, most, each_s, growth_s, -1)
            now, steps, context = now + lasts, steps + most, context + most * rows
        while ends and ends[0][0] <= steps:
            each = heapq.heappop(ends)[1]
            end_s[each] = now
            rows, context = rows - 1, context - prompt[each] - output[each]
        for each in ready:
            first_s[each], first_step[each] = now, steps - 1
            if output[each] == 1:
                end_s[each] = now
            else:
                rows, context = rows + 1, context + prompt[each] + 1
                heapq.heappush(ends, (steps + output[each] - 1, each))
