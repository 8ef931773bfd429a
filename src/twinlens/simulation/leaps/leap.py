"""Leaps: steps that differ only in their context are passed together, in closed form.

While the same requests decode, the seconds of a step grow evenly: n steps last n·a + b·n(n-1)/2, and the number of
steps until a time is a square root. A leap may only skip what `Engine.step` would repeat; where the next step takes a
prompt, admits, preempts or ends somebody, there is none.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING

from twinlens.simulation.batches import amounts_of, end_if_done
from twinlens.simulation.noise import Factors
from twinlens.simulation.state.blocks import ENDLESS
from twinlens.simulation.state.prefix_cache import PrefixCache
from twinlens.simulation.work import DONE

if TYPE_CHECKING:
    from twinlens.simulation.engine import Engine


def leap(engine: Engine, until_s: float) -> bool:
    """Pass equal steps that begin before `until_s`; False where the next step has to be taken by itself."""
    if engine.rules.batching != "continuous":
        return _leap_batch(engine, until_s)
    running, drafts, window = engine.running, engine.rules.num_speculative_tokens, engine.rules.sliding_window
    left = engine.rules.max_num_batched_tokens - len(running) * (1 + drafts)
    if not running or left < 0 or not all(each.decoding for each in running):
        return False
    full = len(running) >= engine.rules.max_num_seqs or not left
    if engine.waiting and not full and not engine.stuck:
        return False
    most = min(min(each.steps + 1 - each.made for each in running), _safe_steps(engine))
    context, growth, below = 0.0, 0.0, most
    for each in running:
        context += engine.context(each)
        beneath = each.steps_below(window, each.prompt)
        if beneath:
            growth += each.pace
            below = min(below, beneath)
    if below < 1:
        return False
    steps = pass_steps(engine, len(running), context, growth, len(running) * drafts, below, until_s)
    _take_blocks(engine, steps)
    for each in running:
        engine.bring(each, steps)
        engine.settle(each)
    engine.running = [each for each in running if each.outcome != DONE]
    if len(engine.running) < len(running):
        engine.stuck = False
    return True


def _leap_batch(engine: Engine, until_s: float) -> bool:
    """The same for a batch, whose rows stay until its longest answer is complete."""
    batch = engine.running
    if not batch or not batch[0].made:
        return False
    rows, context, tokens, _ = amounts_of(engine)
    longest = max(batch, key=lambda each: each.steps)
    most = min(each.steps + 1 - each.made for each in batch if each.outcome != DONE)
    below = longest.steps_below(engine.rules.sliding_window, max(each.prompt for each in batch))
    growth = rows * longest.pace if below else 0.0
    steps = pass_steps(engine, rows, context, growth, tokens, min(most, below or most), until_s)
    for each in batch:
        if each.outcome != DONE:
            engine.bring(each, steps)
    end_if_done(engine)
    return True


def pass_steps(engine: Engine, rows: int, context: float, growth: float, tokens: int, most: int, until_s: float) -> int:
    """Up to `most` steps pass, the context growing with each, while they begin before `until_s`. How many did."""
    first_s, growth_s, most = _slowest(engine, rows, context, growth, tokens, most)
    factors, start_s, wait_s, place = engine.factors, engine.now_s, until_s - engine.now_s, -1
    if factors:
        factors.fill()
        place, most = factors.place, min(most, len(factors.factors) - factors.at)
        steps, passed_s = noisy_steps(factors, first_s, growth_s, most, wait_s)
        factors.at += steps
    else:
        steps, passed_s = even_steps(first_s, growth_s, most, wait_s)
    engine.now_s += passed_s
    engine.busy_s += passed_s
    engine.steps += steps
    if engine.ends:
        engine.ends.stretches += (start_s, steps, first_s, growth_s, place)
    return steps


def _slowest(
    engine: Engine, rows: int, context: float, growth: float, tokens: int, most: int
) -> tuple[float, float, int]:
    """Seconds of the next step, their growth a step, and the steps for which the same part of the law is slowest."""
    lines = [
        (part.fixed_s + part.row_s * rows + part.context_s * context + part.token_s * tokens, part.context_s * growth)
        for part in engine.law.parts
    ]
    first_s, growth_s = max(lines)
    for other_s, faster_s in lines:
        if faster_s > growth_s:
            most = min(most, int((first_s - other_s) / (faster_s - growth_s)) + 1)
    return first_s, growth_s, most


def even_steps(first_s: float, growth_s: float, most: int, wait_s: float) -> tuple[int, float]:
    """Steps, at least one and at most `most`, until so long has passed, and how long they last."""
    half_s = growth_s / 2
    last_s = most * (first_s + half_s * (most - 1))
    if last_s < wait_s:
        return most, last_s
    if half_s * most < 1e-9 * first_s:
        steps = wait_s / first_s
    else:
        slope_s = first_s - half_s
        steps = 2 * wait_s / (slope_s + math.sqrt(slope_s * slope_s + 4 * half_s * wait_s))
    count = min(max(1, math.ceil(steps)), most)
    while count < most and count * (first_s + half_s * (count - 1)) < wait_s:
        count += 1
    while count > 1 and (count - 1) * (first_s + half_s * (count - 2)) >= wait_s:
        count -= 1
    return count, count * (first_s + half_s * (count - 1))


def noisy_steps(factors: Factors, first_s: float, growth_s: float, most: int, wait_s: float) -> tuple[int, float]:
    """The same where each step has its factor."""
    at, sums, moments = factors.at, factors.sums, factors.moments
    base_s = first_s - growth_s * at
    sum_before, moment_before = sums[at], moments[at]

    def seconds(steps: int) -> float:
        end = at + steps
        return base_s * (sums[end] - sum_before) + growth_s * (moments[end] - moment_before)

    last_s = seconds(most)
    if last_s < wait_s:
        return most, last_s
    count = 1 + bisect_left(range(1, most), wait_s, key=seconds)
    return count, seconds(count)


def _safe_steps(engine: Engine) -> int:
    """Steps for which the free blocks surely suffice."""
    rules, rows = engine.rules, len(engine.running)
    if rules.num_gpu_blocks is None:
        return ENDLESS
    grows = 1 + rules.num_speculative_tokens
    if isinstance(engine.cache, PrefixCache) and (grows > 1 or rules.sliding_window is not None):
        return 0
    if grows == 1 and rules.sliding_window is None:
        return _exact_steps(engine)
    return max(0, (engine.cache.free // rows - 2) * rules.block_size // grows - 1)


def _exact_steps(engine: Engine) -> int:
    """Steps until one asks for a block more than are free: each request asks for one in every `block_size` steps."""
    size = engine.rules.block_size
    asks = [0] * size
    for each in engine.running:
        asks[-each.computed % size] += 1
    rounds, left = divmod(engine.cache.free, len(engine.running))
    for step, asked in enumerate(asks):
        left -= asked
        if left < 0:
            return rounds * size + step
    return rounds * size + size


def _take_blocks(engine: Engine, steps: int) -> None:
    """Blocks of so many steps, taken in the order in which the steps would have taken them."""
    rules = engine.rules
    if rules.num_gpu_blocks is None:
        return
    if not isinstance(engine.cache, PrefixCache):
        for each in engine.running:
            each.computed = each.prompt + each.tokens(each.made + steps - 1) - 1
            engine.cache.take(each, 1 + rules.num_speculative_tokens)
        return
    asks = [
        (step, place)
        for place, each in enumerate(engine.running)
        for step in range(-each.computed % rules.block_size, steps, rules.block_size)
    ]
    start = [each.computed for each in engine.running]
    for step, place in [*sorted(asks), *((steps - 1, place) for place in range(len(start)))]:
        engine.running[place].computed = start[place] + step
        engine.cache.take(engine.running[place], 1)
