"""One engine, step by step: which requests a step takes, how long it lasts, what it brings.

The rules are those of vLLM V1 (`rules.READ_FROM`): running requests first, in order, each its next piece within one
budget of tokens; where no block is free, the last of them is preempted and starts again; waiting requests only where
nobody was preempted, in order, none overtaking the first.
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from twinlens.simulation.batches import batch_step, next_batch_s
from twinlens.simulation.fits import checked_law, checked_rules, refused
from twinlens.simulation.law import StepLaw
from twinlens.simulation.leaps.leap import leap
from twinlens.simulation.noise import Noise
from twinlens.simulation.rules import Rules
from twinlens.simulation.state.blocks import ENDLESS, Blocks, Cache, Endless
from twinlens.simulation.state.pairs import decode_steps, pairs_of
from twinlens.simulation.state.prefix_cache import PrefixCache
from twinlens.simulation.state.sequence import Sequence
from twinlens.simulation.state.steps import StepEnds
from twinlens.simulation.work import DONE, REFUSED

Piece = tuple[Sequence, int]
"""A sequence, and how many tokens of it a step computes."""


class Engine:
    """Virtual time of one engine: `add` requests as they arrive, `run_until` a time, look at what has happened.

    Add in the order of arrival, each after `run_until` its arrival: steps that begin earlier do not see it. `now_s` is
    the end of the last step. `leaps`: equal steps are passed together. `finished` has the sequences that are done,
    until somebody takes them out.
    """

    def __init__(
        self,
        rules: Rules,
        law: StepLaw,
        noise: Noise | None = None,
        *,
        number: int = 0,
        tokens: bool = True,
        leaps: bool = True,
    ) -> None:
        self.rules, self.law = checked_rules(rules), checked_law(law)
        self.number = number
        self.now_s = 0.0
        self.running: list[Sequence] = []
        self.waiting: list[tuple[tuple[int, int], Sequence]] = []
        self.closed = False
        self.finished: list[Sequence] = []
        self.cache = _cache(rules)
        self.factors = noise.stream(number) if noise else None
        self.drafts = np.random.default_rng((noise.seed if noise else 0, number, 1))
        self.steps = 0
        self.busy_s = 0.0
        self.added = 0
        self.leaps = leaps
        self.stuck = False
        self.ends = StepEnds(self.factors) if tokens else None

    def add(
        self,
        arrival_s: float,
        prompt: int,
        output: int,
        *,
        priority: int = 0,
        group: int = -1,
        shared: int = 0,
        given: bool = False,
    ) -> Sequence:
        """A request arrives; one that is longer than the context is refused at once, as its `outcome` says.

        `given`: with the KV cache of its prompt and its first token, both made by another engine.
        """
        rules = self.rules
        steps = decode_steps(output, rules, self.drafts) if rules.num_speculative_tokens else output - 1
        priority = priority if rules.scheduling_policy == "priority" else 0
        new = Sequence(self.added, arrival_s, prompt, output, steps, priority, group, min(shared, prompt), prompt)
        self.added += 1
        if given:
            new.made, new.goal, new.computed, new.given = 1, prompt + 1, prompt, prompt
        if rules.max_model_len is not None and refused(rules, prompt, output):
            new.outcome = REFUSED
            self.finished.append(new)
            return new
        if not self.waiting and not self.running:
            self.now_s = max(self.now_s, arrival_s)
        heapq.heappush(self.waiting, ((priority, new.number), new))
        self.stuck = False
        return new

    def close(self) -> None:
        """Nothing more will arrive: a batch that waits for more requests starts without them."""
        self.closed = True

    def drop(self, sequence: Sequence) -> None:
        """A request is no longer wanted: the next step does without it, or the batch that it is in runs on with it."""
        if sequence in self.running:
            if self.rules.batching == "continuous":
                self.running.remove(sequence)
                self.cache.release(sequence)
        else:
            self.waiting = [each for each in self.waiting if each[1] is not sequence]
            heapq.heapify(self.waiting)
        self.stuck = False

    def run_until(self, until_s: float) -> None:
        """All steps that begin before `until_s`."""
        while (start_s := self.next_s) < until_s:
            self.now_s = start_s
            if self.leaps and leap(self, until_s):
                continue
            if self.rules.batching == "continuous":
                self.step()
            else:
                batch_step(self)

    @property
    def next_s(self) -> float:
        """When the next step begins, if nothing arrives before; infinite where it has nothing to do."""
        if self.rules.batching != "continuous":
            return next_batch_s(self)
        return self.now_s if self.running or self.waiting else math.inf

    @property
    def outstanding_tokens(self) -> int:
        """Tokens still to compute or to make for all requests that are here."""
        here = self.running + [each for _, each in self.waiting]
        return sum(max(0, each.goal - each.computed) + each.output - each.tokens(each.made) for each in here)

    def step(self) -> None:
        """One step: choose pieces, let time pass, hand out tokens."""
        pieces, budget, preempted = self._continue()
        going = len(pieces)
        if not preempted:
            self.admit(pieces, budget)
        self.pass_time(*self._amounts(pieces))
        same = not preempted and len(pieces) == going and all(sequence.decoding for sequence, _ in pieces)
        for piece in pieces:
            self._advance(*piece)
        self.running = [each for each in self.running if each.outcome != DONE]
        self.stuck = same and len(self.running) == going and self._stays_stuck()

    def _stays_stuck(self) -> bool:
        """Whether a request that cannot start now cannot start either while the same ones go on.

        A window gives blocks back; and a first piece may fit once blocks that it would have found are evicted.
        """
        rules = self.rules
        evicts = rules.enable_prefix_caching and rules.num_gpu_blocks is not None
        return rules.sliding_window is None and (rules.scheduler_reserve_full_isl or not evicts)

    def pass_time(self, rows: int, context: float, tokens: int, pairs: float) -> None:
        """A step with so much work lasts as long as the law says, times its noise."""
        self.pass_seconds(self.law.seconds(rows, context, tokens, pairs))

    def pass_seconds(self, seconds: float) -> None:
        """A step lasts so long, times its noise."""
        if self.factors:
            seconds *= self.factors.next()
        start_s = self.now_s
        self.now_s += seconds
        self.busy_s += seconds
        self.steps += 1
        if self.ends:
            self.ends.stretches += (start_s, 1, seconds, 0.0, -1)

    def _continue(self) -> tuple[list[Piece], int, bool]:
        """Pieces of running requests, the budget that they leave, and whether somebody was preempted."""
        pieces: list[Piece] = []
        budget, place, preempted = self.rules.max_num_batched_tokens, 0, False
        while place < len(self.running) and budget > 0:
            sequence = self.running[place]
            tokens = self._wanted(sequence, budget)
            while not self.cache.take(sequence, tokens):
                preempted = True
                victim = self._preempt()
                if victim is sequence:
                    return pieces, budget, preempted
                given = sum(count for each, count in pieces if each is victim)
                if given:
                    budget += given
                    pieces = [piece for piece in pieces if piece[0] is not victim]
                    place -= 1
            pieces.append((sequence, tokens))
            budget -= tokens
            place += 1
        return pieces, budget, preempted

    def _wanted(self, sequence: Sequence, budget: int) -> int:
        if sequence.decoding:
            return min(1 + self.rules.num_speculative_tokens, budget)
        left = sequence.goal - sequence.computed
        return min(left, self.rules.long_prefill_token_threshold or left, budget)

    def _preempt(self) -> Sequence:
        """The least urgent of the running requests goes back to the queue, ahead of all that are as urgent."""
        victim = max(self.running, key=lambda each: each.urgency)
        self.running.remove(victim)
        self.cache.release(victim)
        victim.restart()
        heapq.heappush(self.waiting, (victim.urgency, victim))
        return victim

    def admit(self, pieces: list[Piece], budget: int) -> None:
        """Waiting requests start, in order, until the budget, a place or a block is missing for the first of them."""
        rules = self.rules
        while self.waiting and budget > 0 and len(self.running) < rules.max_num_seqs:
            sequence = self.waiting[0][1]
            found = 0 if sequence.given else self.cache.find(sequence)
            here = sequence.given or found * rules.block_size
            left = sequence.goal - here
            wanted = min(left, rules.long_prefill_token_threshold or left)
            if wanted > budget and not rules.enable_chunked_prefill:
                return
            tokens = min(wanted, budget)
            if not self.cache.take(sequence, tokens, found, whole=rules.scheduler_reserve_full_isl):
                return
            heapq.heappop(self.waiting)
            self.running.append(sequence)
            sequence.computed = here
            if not sequence.preemptions:
                sequence.start_s, sequence.cached = self.now_s, found * rules.block_size
            pieces.append((sequence, tokens))
            budget -= tokens

    def _amounts(self, pieces: list[Piece]) -> tuple[int, float, int, float]:
        """Rows, context, tokens beyond one a row, pairs: what the law asks for."""
        context = pairs = 0.0
        for sequence, tokens in pieces:
            if sequence.decoding or sequence.given:
                context += self.context(sequence)
            else:
                pairs += pairs_of(sequence.computed, tokens, self.rules.sliding_window)
        return len(pieces), context, sum(tokens - 1 for _, tokens in pieces), pairs

    def context(self, sequence: Sequence) -> float:
        """Tokens that its next token attends to."""
        context = sequence.context(sequence.prompt)
        return context if self.rules.sliding_window is None else min(context, self.rules.sliding_window)

    def _advance(self, sequence: Sequence, tokens: int) -> None:
        """The step has ended: its tokens are computed, and where the prompt is, one more moment of the answer comes."""
        if not sequence.decoding:
            sequence.computed += tokens
            if sequence.computed < sequence.goal:
                return
        self.bring(sequence)
        self.settle(sequence)

    def settle(self, sequence: Sequence) -> None:
        """All of its tokens but the last are computed; if that was the last of all, its blocks are free."""
        sequence.computed = sequence.goal = sequence.prompt + sequence.tokens(sequence.made) - 1
        if sequence.outcome == DONE:
            self.cache.release(sequence)

    def bring(self, sequence: Sequence, moments: int = 1) -> None:
        """Moments of its answer, with the last steps: the first token, those of decode steps; the end with the last."""
        if not sequence.made:
            sequence.first_token_s = self.now_s
        sequence.came(self.steps - moments, moments)
        if sequence.made == sequence.steps + 1:
            sequence.outcome, sequence.end_s = DONE, self.now_s
            self.finished.append(sequence)


def _cache(rules: Rules) -> Cache:
    found_again = rules.enable_prefix_caching and rules.batching == "continuous"
    if rules.num_gpu_blocks is None and not found_again:
        return Endless()
    make = PrefixCache if found_again else Blocks
    return make(rules.num_gpu_blocks or ENDLESS, rules.block_size, rules.sliding_window)
