"""Online reinforcement learning: rollouts make samples, a step trains on a batch of them, and new weights are loaded.

Not modelled: rollouts that go on with new weights, answers that end sooner where fewer run beside them, and rewards
that take time of their own (add it to each rollout).
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass

import numpy as np

from twinlens.errors import BadInput
from twinlens.simulation.work import Floats, Ints


@dataclass(frozen=True, slots=True)
class Loop:
    """`slots`: rollouts at once. `batch`: samples of an update. `train_s`: a step on them. `load_s`: until new weights
    answer: between updates where rollouts wait, beside the next step where they do not.

    `ahead`: updates for which samples may be begun before their turn, and so the most that samples are old on average;
    None for any number, 0 for a loop in which rollouts wait for each update. A long rollout is used when it ends, and
    may be older.
    """

    slots: int
    batch: int
    train_s: float
    load_s: float = 0.0
    ahead: int | None = 0


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """Samples in the order in which they were begun, [samples]: `begin_s`, `end_s`, `update` that used it and `age`,
    the updates that had ended between its weights and the step on it. Updates [updates]: `step_s` and `done_s`, begin
    and end of each step. Samples that no update used are left out."""

    begin_s: Floats
    end_s: Floats
    update: Ints
    age: Ints
    step_s: Floats
    done_s: Floats

    @property
    def updates_per_s(self) -> float:
        """Between the first update and the last: what the loop does in the long run."""
        if len(self.done_s) < 2:
            return 1 / float(self.done_s[-1])
        return (len(self.done_s) - 1) / float(self.done_s[-1] - self.done_s[0])

    @property
    def training_share(self) -> float:
        """The share of time from the first step on in which a step is under way."""
        return float((self.done_s - self.step_s).sum() / (self.done_s[-1] - self.step_s[0]))


def trained(loop: Loop, rollout_s: Floats, updates: int, train_s: Floats | None = None) -> Trained:
    """So many updates. `rollout_s` [samples]: seconds of each rollout, in the order of their beginning; from the first
    on again where there are fewer than needed. `train_s` [steps]: of each step, likewise, in place of the loop's. A
    step takes the samples that ended first. Raises BadInput.

    A rollout begins only while the samples begun are fewer than (updates loaded + 1 + ahead) × batch, as AReaL limits
    them (arXiv 2505.24298).
    """
    lasts_s = _checked(loop, rollout_s, updates)
    steps_s = np.array([loop.train_s]) if train_s is None else _above_0(train_s, "steps")
    begins, weights, ends = list[float](), list[int](), list[float]()
    uses, step_s, done_s = list[list[int]](), list[float](), list[float]()
    running: list[tuple[float, int]] = []
    ready: list[int] = []
    loading: deque[float] = deque()  # when each version of the weights that is on its way answers
    version, now = 0, 0.0
    while len(done_s) < updates:
        while loading and loading[0] <= now:
            loading.popleft()
            version += 1
        while len(running) < loop.slots and _may_begin(loop, len(begins), version):
            last_s = float(lasts_s[len(begins) % len(lasts_s)])
            heapq.heappush(running, (now + last_s, len(begins)))
            begins.append(now)
            weights.append(version)
            ends.append(now + last_s)
        if len(ready) >= loop.batch and (not done_s or done_s[-1] <= now):
            taken, ready = ready[: loop.batch], ready[loop.batch :]
            uses.append(taken)
            step_s.append(now)
            done_s.append(now + float(steps_s[len(done_s) % len(steps_s)]))
            loading.append(done_s[-1] + loop.load_s)
        now = min(
            running[0][0] if running else np.inf,
            loading[0] if loading else np.inf,
            done_s[-1] if done_s and done_s[-1] > now else np.inf,
        )
        while running and running[0][0] <= now:
            ready.append(heapq.heappop(running)[1])
    return _trained(begins, ends, weights, uses, np.array(step_s), np.array(done_s))


def _trained(
    begins: list[float], ends: list[float], weights: list[int], uses: list[list[int]], step_s: Floats, done_s: Floats
) -> Trained:
    sample = np.concatenate([np.array(each, np.int64) for each in uses])
    update = np.repeat(np.arange(len(uses)), [len(each) for each in uses])
    order = np.argsort(sample)
    sample, update = sample[order], update[order]
    return Trained(np.array(begins)[sample], np.array(ends)[sample], update, update - np.array(weights)[sample],
                   step_s, done_s)  # fmt: skip


def _may_begin(loop: Loop, begun: int, version: int) -> bool:
    return loop.ahead is None or begun < (version + 1 + loop.ahead) * loop.batch


def _checked(loop: Loop, rollout_s: Floats, updates: int) -> Floats:
    if loop.slots < 1 or loop.batch < 1 or updates < 1:
        raise BadInput("a loop has at least one slot, one sample in a batch, and one update")
    if loop.ahead is not None and loop.ahead < 0:
        raise BadInput(f"ahead is 0 or more updates, not {loop.ahead}")
    if not (0 < loop.train_s < np.inf and 0 <= loop.load_s < np.inf):
        raise BadInput("a step takes seconds above 0, and loading weights seconds of 0 or more")
    lasts_s = _above_0(rollout_s, "rollouts")
    if loop.ahead is None and loop.slots * loop.train_s > 1e6 * loop.batch * float(lasts_s.mean()):
        raise BadInput("rollouts are a million times faster than steps; give `ahead`, or samples wait without end")
    return lasts_s


def _above_0(seconds: Floats, name: str) -> Floats:
    given = np.asarray(seconds, dtype=np.float64)
    if not given.size or not np.isfinite(given).all() or given.min() <= 0:
        raise BadInput(f"{name} take seconds above 0, and there must be some")
    return given
