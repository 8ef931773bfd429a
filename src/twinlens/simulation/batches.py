"""Static and dynamic batches: requests gathered in front of an engine, then run together to the longest answer.

Prompts are padded to the longest one and computed in one step, which no budget of tokens bounds. A request whose
answer is complete keeps its row, and the step pays for it, until the last of the batch is done. The blocks of all of
it, padded, are taken at the start: nobody is preempted, and no prefix is looked for.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

from twinlens.simulation.state.blocks import blocks_of
from twinlens.simulation.state.pairs import pairs_of
from twinlens.simulation.state.sequence import Sequence
from twinlens.simulation.work import DONE

if TYPE_CHECKING:
    from twinlens.simulation.engine import Engine


def next_batch_s(engine: Engine) -> float:
    """When the next step of the batch, or the next batch, begins if nothing arrives before; else infinite."""
    if engine.running:
        return engine.now_s
    waiting, full = engine.waiting, full_batch(engine)
    if len(waiting) > full:
        return engine.now_s
    if not waiting:
        return math.inf
    arrivals = [each.arrival_s for _, each in waiting]
    if len(waiting) == full or (engine.closed and engine.rules.batching == "static"):
        return max(engine.now_s, *arrivals)
    if engine.rules.batching == "static":
        return math.inf
    return max(engine.now_s, min(arrivals) + engine.rules.batch_wait_s)


def full_batch(engine: Engine) -> int:
    """Requests that a batch waits for."""
    return min(engine.rules.batch_size, engine.rules.max_num_seqs)


def batch_step(engine: Engine) -> None:
    """One step of a batch: all prompts, or one step of every answer, done or not."""
    if not engine.running:
        _gather(engine)
    engine.pass_time(*amounts_of(engine))
    for each in engine.running:
        if each.outcome != DONE:
            engine.bring(each)
    end_if_done(engine)


def end_if_done(engine: Engine) -> None:
    """With its longest answer the batch ends, and its blocks are free."""
    if all(each.outcome == DONE for each in engine.running):
        for each in engine.running:
            engine.cache.release(each)
        engine.running = []


def amounts_of(engine: Engine) -> tuple[int, float, int, float]:
    """Rows, context, tokens beyond one a row, pairs of its next step."""
    batch, window = engine.running, engine.rules.sliding_window
    rows, prompt = len(batch), max(each.prompt for each in batch)
    longest = max(batch, key=lambda each: each.steps)
    if not longest.made:
        return rows, 0.0, rows * (prompt - 1), rows * pairs_of(0, prompt, window)
    context = longest.context(prompt)
    context = context if window is None else min(context, window)
    return rows, rows * context, rows * engine.rules.num_speculative_tokens, 0.0


def _gather(engine: Engine) -> None:
    """The first that wait, as many as a batch has and as the cache holds when all are as long as the longest."""
    prompt = output = 0
    batch: list[Sequence] = engine.running
    while engine.waiting and len(batch) < full_batch(engine):
        first = engine.waiting[0][1]
        prompt, output = max(prompt, first.prompt), max(output, first.output)
        if blocks_of(prompt + output, engine.rules.block_size) * (len(batch) + 1) > engine.cache.free:
            break
        batch.append(heapq.heappop(engine.waiting)[1])
    tokens = max(each.prompt for each in batch) + max(each.output for each in batch)
    for each in batch:
        engine.cache.take(each, tokens)
        each.start_s = engine.now_s
