"""An engine in a hurry: what its decoding requests add up to is carried along, and none is touched until it ends.

For the cases in which the sums say all: no cache that evicts, no drafts or window where blocks are few. A step that
takes prompts costs by the prompts, a leap costs the same for 2 requests as for 200. Anything else, preemption first of
all, is a plain step of the engine, after each request was told how far it has come.
"""

from __future__ import annotations

import heapq
import math

from twinlens.simulation.engine import Engine, Piece
from twinlens.simulation.leaps.leap import even_steps, noisy_steps
from twinlens.simulation.rules import Rules
from twinlens.simulation.state.blocks import Blocks
from twinlens.simulation.state.pairs import pairs_of
from twinlens.simulation.state.sequence import Sequence
from twinlens.simulation.work import DONE


def may_carry(rules: Rules) -> bool:
    """Whether sums over its requests say all about an engine with these rules."""
    if rules.batching != "continuous":
        return False
    plain = not rules.enable_prefix_caching and not rules.num_speculative_tokens and rules.sliding_window is None
    return rules.num_gpu_blocks is None or plain


class Carry:
    """Drives one engine. `run_until` has `Engine.run_until`'s meaning; `settle` before looking at single requests.

    Of the requests that decode: `rows` how many, `context` tokens that the next step reads for all, `growth` what each
    step adds to that, `ends` a heap of the step after which each is done, `reaches` of the step at which each reaches
    the window, `asks` how many ask for a block in steps of each remainder modulo the block size. `prompts`: running
    requests whose prompt is not yet computed, in order. `ahead`: an engine without a free place may pass `until_s`,
    since nothing that arrives could join it.
    """

    __slots__ = (
        "ahead",
        "asks",
        "budget",
        "capped",
        "context",
        "ends",
        "engine",
        "grows",
        "growth",
        "parts",
        "prompts",
        "reaches",
        "rows",
        "seats",
        "size",
        "window",
    )  # fmt: skip

    def __init__(self, engine: Engine, *, ahead: bool = False) -> None:
        rules = engine.rules
        self.engine, self.ahead = engine, ahead
        self.parts = [
            (part.fixed_s, part.row_s, part.context_s, part.token_s, part.pair_s) for part in engine.law.parts
        ]
        self.budget, self.seats, self.size = rules.max_num_batched_tokens, rules.max_num_seqs, rules.block_size
        self.grows, self.window = 1 + rules.num_speculative_tokens, rules.sliding_window
        self.gather()

    def gather(self) -> None:
        """Sums over the requests as they are."""
        bounded = self.engine.rules.num_gpu_blocks is not None
        self.rows, self.context, self.growth = 0, 0.0, 0.0
        self.ends: list[tuple[int, int, Sequence]] = []
        self.reaches: list[tuple[int, int, Sequence]] = []
        self.capped: set[int] = set()
        self.asks = [0] * self.size if bounded else []
        self.prompts = []
        for each in self.engine.running:
            if each.decoding:
                each.comes(self.engine.steps)
                self._join(each)
            else:
                self.prompts.append(each)

    @property
    def quiet_s(self) -> float:
        """Until then at least nothing ends, if nothing arrives; noise of a step is not known before it passes."""
        engine = self.engine
        if self.prompts or engine.waiting or engine.factors or not self.ends:
            return engine.now_s
        first_s = max([a + b * self.rows + c * self.context for a, b, c, _, _ in self.parts])
        return engine.now_s + first_s * (self.ends[0][0] - engine.steps) * (1 - 1e-9)

    def settle(self) -> None:
        """Tell each request how far it has come."""
        steps = self.engine.steps
        for _, _, each in self.ends:
            moments = steps - each.tick
            if moments:
                each.tick = steps
                each.made += moments
                each.computed = each.goal = each.prompt + each.tokens(each.made) - 1
                if self.asks:
                    each.held = -(-each.computed // self.size)

    def run_until(self, until_s: float) -> None:
        """All steps that begin before `until_s`."""
        engine = self.engine
        while engine.now_s < until_s:
            if self.prompts or (
                engine.waiting
                and not engine.stuck
                and len(engine.running) < self.seats
                and self.rows * self.grows < self.budget
            ):
                done = self._prompt_step()
            elif self.rows:
                full = self.ahead and len(engine.running) >= self.seats
                done = self._decode(math.inf if full else until_s)
            else:
                return
            if not done and not self._preempting_step():
                self.settle()
                engine.step()
                self.gather()

    def _prompt_step(self) -> bool:
        """One step with pieces of prompts; False where it needs a look at every request."""
        engine, asks = self.engine, self.asks
        budget, pieces = self.budget - self.rows * self.grows, list[Piece]()
        if budget < 0 or (self.prompts and not self._continue(pieces, budget)):
            return False
        if asks:
            taken = asks[engine.steps % self.size]
            if not isinstance(engine.cache, Blocks) or self._blocks(pieces) + taken > engine.cache.free:
                return False
            engine.cache.used += taken
        if pieces:
            for each, tokens in pieces:
                engine.cache.take(each, tokens)
            budget -= sum([tokens for _, tokens in pieces])
        going = len(pieces)
        if engine.waiting:
            engine.admit(pieces, budget)
        engine.stuck = not pieces
        more, pairs, context = self.rows * (self.grows - 1), 0.0, self.context
        for each, tokens in pieces:
            more += tokens - 1
            if each.given:
                context += engine.context(each)
            else:
                pairs += pairs_of(each.computed, tokens, self.window)
        rows = self.rows + len(pieces)
        engine.pass_seconds(max([a + b * rows + c * context + d * more + e * pairs for a, b, c, d, e in self.parts]))
        self._passed(1)
        for place, (each, tokens) in enumerate(pieces):
            each.computed += tokens
            if each.computed < each.goal:
                if place >= going:
                    self.prompts.append(each)
                continue
            if not each.made and each.steps:  # the usual case of what `bring` and `settle` do
                each.made, each.first_token_s = 1, engine.now_s
                each.moments.append((0, engine.steps - 1))
                self._join(each)
                continue
            engine.bring(each)
            engine.settle(each)
            if each.outcome == DONE:
                engine.running.remove(each)
                engine.stuck = False
            else:
                self._join(each)
        if going:
            self.prompts = [each for each in self.prompts if each.computed < each.goal]
        return True

    def _continue(self, pieces: list[Piece], budget: int) -> bool:
        """Pieces of running prompts; False where the budget ends before the last request of the engine."""
        threshold = self.engine.rules.long_prefill_token_threshold
        for each in self.prompts:
            left = each.goal - each.computed
            wanted = min(left, threshold) if threshold else left
            if wanted > budget:
                if each is not self.engine.running[-1]:
                    return False
                wanted = budget
            if wanted:
                pieces.append((each, wanted))
                budget -= wanted
        return True

    def _blocks(self, pieces: list[Piece]) -> int:
        return sum(-(-(each.computed + tokens) // self.size) - each.held for each, tokens in pieces)

    def _decode(self, until_s: float) -> bool:
        """Steps in which all that run decode; False where the next one asks for more blocks than are free."""
        engine, rows = self.engine, self.rows
        if rows * self.grows > self.budget:
            return False
        most = self.ends[0][0] - engine.steps
        if self.reaches:
            most = min(most, self.reaches[0][0] - engine.steps)
        if self.asks and engine.cache.free < rows * (most // self.size + 1):
            most = min(most, self._fitting())
            if not most:
                return False
        more, context, growth = rows * (self.grows - 1), self.context, self.growth
        lines = [(a + b * rows + c * context + d * more, c * growth) for a, b, c, d, _ in self.parts]
        first_s, growth_s = max(lines)
        if len(lines) > 1:
            for other_s, faster_s in lines:
                if faster_s > growth_s:
                    most = min(most, int((first_s - other_s) / (faster_s - growth_s)) + 1)
        start_s, place = engine.now_s, -1
        if engine.factors:
            factors = engine.factors
            factors.fill()
            place, most = factors.place, min(most, len(factors.factors) - factors.at)
            steps, passed_s = noisy_steps(factors, first_s, growth_s, most, until_s - start_s)
            factors.at += steps
        else:
            passed_s = most * (first_s + growth_s * (most - 1) / 2)
            steps = most
            if passed_s >= until_s - start_s:
                steps, passed_s = even_steps(first_s, growth_s, most, until_s - start_s)
        if self.asks:
            self._take(steps)
        engine.now_s = start_s + passed_s
        engine.busy_s += passed_s
        engine.steps += steps
        if engine.ends:
            engine.ends.stretches += (start_s, steps, first_s, growth_s, place)
        self._passed(steps)
        return True

    def _preempting_step(self) -> bool:
        """A step that takes blocks from the last to come, until all before it have theirs; False where urgency decides.

        Whoever asks and gets none has the last preempted, which is itself at worst: so the last go until the rest fits.
        """
        engine = self.engine
        first_come = engine.rules.scheduling_policy == "fcfs"
        if not (first_come and self.asks and self.rows and not self.prompts and self.rows <= self.budget):
            return False
        assert isinstance(engine.cache, Blocks)
        place = engine.steps % self.size
        victims = []
        while self.asks[place] > engine.cache.free:
            victim = engine.running.pop()
            moments, victim.tick = engine.steps - victim.tick, engine.steps
            victim.made += moments
            victim.computed = victim.prompt + victim.tokens(victim.made) - 1
            self._leave(victim)
            victims.append(victim)
        if not victims:
            return False
        gone = {each.number for each in victims}
        self.ends = [entry for entry in self.ends if entry[1] not in gone]
        heapq.heapify(self.ends)
        for each in victims:
            each.restart()
            heapq.heappush(engine.waiting, (each.urgency, each))
        engine.cache.used += self.asks[place]
        engine.stuck = False
        engine.pass_seconds(max([a + b * self.rows + c * self.context for a, b, c, _, _ in self.parts]))
        self._passed(1)
        return True

    def _passed(self, steps: int) -> None:
        """So many steps have passed: contexts have grown, some have reached the window, some are done."""
        engine, now = self.engine, self.engine.steps
        self.context += steps * self.growth
        while self.reaches and self.reaches[0][0] <= now:
            each = heapq.heappop(self.reaches)[2]
            assert self.window is not None
            self.context += self.window - (each.prompt + 1 + (each.made - 1 + now - each.tick) * each.pace)
            self.growth -= each.pace
            self.capped.add(each.number)
        while self.ends and self.ends[0][0] <= now:
            each = heapq.heappop(self.ends)[2]
            each.made, each.outcome, each.end_s = each.steps + 1, DONE, engine.now_s
            each.computed = each.goal = each.prompt + each.output - 1
            self._leave(each)
            engine.running.remove(each)
            engine.finished.append(each)
            engine.stuck = False

    def _join(self, each: Sequence) -> None:
        """From the next step on it decodes."""
        now = self.engine.steps
        each.tick, end = now, now + each.steps + 1 - each.made
        heapq.heappush(self.ends, (end, each.number, each))
        context = each.prompt + 1 + (each.made - 1) * each.pace
        self.rows += 1
        if self.window is not None:
            if context >= self.window:
                self.context += self.window
                self.capped.add(each.number)
                return
            reach = now + math.ceil((self.window - context) / each.pace)
            if reach < end:
                heapq.heappush(self.reaches, (reach, each.number, each))
        self.context += context
        self.growth += each.pace
        if self.asks:
            self.asks[(now - each.computed) % self.size] += 1

    def _leave(self, each: Sequence) -> None:
        """It is done: what it added is taken off, and its blocks are free."""
        self.rows -= 1
        if each.number in self.capped:
            self.capped.discard(each.number)
            self.context -= self.window or 0
        else:
            self.context -= each.prompt + 1 + (each.made - 1) * each.pace
            self.growth -= each.pace
        if not self.rows:
            self.context = self.growth = 0.0
        if self.asks:
            self.asks[(self.engine.steps - each.computed) % self.size] -= 1
            each.held = -(-each.computed // self.size)
        self.engine.cache.release(each)

    def _fitting(self) -> int:
        """Steps until one asks for a block more than are free."""
        rounds, left = divmod(self.engine.cache.free, self.rows)
        for step in range(self.size):
            left -= self.asks[(self.engine.steps + step) % self.size]
            if left < 0:
                return rounds * self.size + step
        return rounds * self.size + self.size

    def _take(self, steps: int) -> None:
        """Blocks that so many steps ask for."""
        assert isinstance(self.engine.cache, Blocks)
        rounds, rest = divmod(steps, self.size)
        begin = self.engine.steps % self.size
        end = begin + rest
        asked = sum(self.asks[begin:end]) + (sum(self.asks[: end - self.size]) if end > self.size else 0)
        self.engine.cache.used += rounds * self.rows + asked
