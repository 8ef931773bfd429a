"""A request inside an engine: how far its prompt and its answer have come, and when."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from twinlens.simulation.work import UNFINISHED


@dataclass(slots=True, eq=False)
class Sequence:
    """One request under way. Tokens are counted, times are seconds, NaN where it never was.

    `steps`: decode steps that its answer takes after the first token; fewer than its tokens where drafts are accepted.
    `goal`: tokens to compute before the next one can be made: the prompt, and after a preemption all made so far too.
    `computed`: of these, tokens that have their place in the KV cache. `made`: moments at which tokens came: 0 none,
    1 the first token, then one a decode step. `held`: blocks of KV cache. `given`: tokens whose KV cache comes
    with it from another engine. `dropped`: blocks in front that left the
    window; `kept`: blocks that a prefix cache has looked at.
    """

    number: int
    arrival_s: float
    prompt: int
    output: int
    steps: int
    priority: int = 0
    group: int = -1
    shared: int = 0
    goal: int = 0
    computed: int = 0
    made: int = 0
    held: int = 0
    outcome: int = UNFINISHED
    start_s: float = math.nan
    first_token_s: float = math.nan
    end_s: float = math.nan
    preemptions: int = 0
    cached: int = 0
    blocks: list[int] = field(default_factory=list)
    """Blocks by number, where a prefix cache tells one from another."""
    given: int = 0
    dropped: int = 0
    kept: int = 0
    tick: int = 0
    """While `carry.Carry` has it: the step of the engine up to which `made` is true."""
    moments: list[tuple[int, int]] = field(default_factory=list)
    """Pairs (`made`, step of the engine): from there on one more moment with each step, until the next pair."""

    @property
    def urgency(self) -> tuple[int, int]:
        """The least is served first and preempted last."""
        return self.priority, self.number

    @property
    def decoding(self) -> bool:
        """Whether its next step makes a token of the answer alone, no piece of a prompt."""
        return self.made > 0 and self.computed >= self.goal

    @property
    def pace(self) -> float:
        """Tokens that a decode step adds, on average over the answer."""
        return (self.output - 1) / self.steps if self.steps else 0.0

    def tokens(self, made: int) -> int:
        """Tokens of the answer after so many moments: spread evenly over its steps."""
        if made == 0:
            return 0
        return 1 + (made - 1) * (self.output - 1) // self.steps if self.steps else 1

    def restart(self) -> None:
        """Preempted: its blocks are lost, and all that it had is computed again."""
        self.goal = self.prompt + self.tokens(self.made)
        self.computed = self.given = 0
        self.preemptions += 1

    def context(self, prompt: int) -> float:
        """Tokens that its next token attends to, behind so long a prompt."""
        return prompt + 1 + (self.made - 1) * self.pace

    def steps_below(self, window: int | None, prompt: int) -> int:
        """Decode steps, from the next one on, until its context is no longer within the window; 0: it is not now."""
        if window is None:
            return self.steps + 1
        short = window - self.context(prompt)
        return int(short / self.pace) + 1 if short > 0 else 0

    def came(self, step: int, moments: int) -> None:
        """Tokens of it came with so many steps from this one on."""
        self.comes(step)
        self.made += moments

    def comes(self, step: int) -> None:
        """Its next moment comes with this step, and then one with each."""
        if not self.moments or step - self.made != self.moments[-1][1] - self.moments[-1][0]:
            self.moments.append((self.made, step))

    def come(self) -> list[int]:
        """Steps of the engine with which its tokens came, one a moment. Shape: (made,), less what was given."""
        ends = [made for made, _ in self.moments[1:]] + [self.made]
        return [
            step + each
            for (made, step), end in zip(self.moments, ends, strict=True)
            for each in range(end - made)
        ]  # fmt: skip

    def by_moment(self) -> list[int]:
        """Tokens of the answer so far, at each moment that this engine brought. Shape: that of `come`."""
        first = self.moments[0][0] if self.moments else self.made
        return [self.tokens(each + 1) for each in range(first, self.made)]
