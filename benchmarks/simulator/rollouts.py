"""A real loop of reinforcement learning on this machine, beside its simulation.

One process answers prompts with the embedded executor's model, another trains on the answers and hands its weights
over: in turn (rollouts wait for each update) and beside each other. The reward is the share of even tokens, which
training raises. Two simulations of each loop: of the measured seconds of each rollout and step in their order, so that
what is left is what the rules of a loop leave out; and a forecast of the second half from the first.

    $ nice -n 5 python -m benchmarks.simulator.rollouts --updates 40
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from twinlens.executors.torch.model.build import build_model
from twinlens.simulation.training.rollouts import Loop, Trained, trained
from twinlens.simulation.training.steps import in_blocks
from twinlens.spec.model.any_model import any_model

MODEL, PROMPT, SHORTEST, LONGEST, BATCH, BLOCK, SEEDS = "tiny", 8, 4, 24, 8, 4, 400
RATE = 3e-3


@dataclass(frozen=True, slots=True)
class Sample:
    """An answer to one prompt; seconds on the clock that both processes share."""

    begin_s: float
    end_s: float
    weights: int
    tokens: torch.Tensor


def model_of() -> Any:
    torch.set_num_threads(1)
    return build_model(any_model(MODEL), "sdpa", 0, torch.device("cpu"))


@torch.no_grad()
def answer(model: Any, length: int, random: torch.Generator) -> torch.Tensor:
    """A prompt of even tokens and `length` tokens drawn behind it, [prompt + length]."""
    tokens = 2 * torch.randint(2, 200, (1, PROMPT), generator=random)
    out = model(input_ids=tokens, use_cache=True)
    drawn = [tokens]
    for _ in range(length):
        chances = torch.softmax(out.logits[:, -1], dim=-1)
        drawn.append(torch.multinomial(chances, 1, generator=random))
        out = model(input_ids=drawn[-1], past_key_values=out.past_key_values, use_cache=True)
    return torch.cat(drawn, dim=1)[0]


def rewards(samples: list[Sample]) -> list[float]:
    return [float((each.tokens[PROMPT:] % 2 == 0).float().mean()) for each in samples]


def update(model: Any, optimizer: torch.optim.Optimizer, samples: list[Sample]) -> float:
    """One step of REINFORCE with the mean reward as its baseline; the mean reward."""
    gained = torch.tensor(rewards(samples))
    longest = max(len(each.tokens) for each in samples)
    tokens = torch.zeros(len(samples), longest, dtype=torch.long)
    counts = torch.zeros(len(samples), longest - 1)
    for row, each in enumerate(samples):
        tokens[row, : len(each.tokens)] = each.tokens
        counts[row, PROMPT - 1 : len(each.tokens) - 1] = 1.0
    logs = torch.log_softmax(model(input_ids=tokens).logits[:, :-1], dim=-1)
    chosen = logs.gather(2, tokens[:, 1:, None])[..., 0] * counts
    loss = -((gained - gained.mean()) * chosen.sum(dim=1) / counts.sum(dim=1)).mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return float(gained.mean())


def rollouts(pipe: Connection, shared: Any, weights: Any, lock: Any, ahead: int, seed: int) -> None:
    """The answering process: it loads new weights between two answers, and begins none too far ahead of them."""
    model, version = model_of(), 0
    random, lengths = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    answer(model, 4, random)
    for begun in range(1_000_000):
        while begun >= (weights.value + 1 + ahead) * BATCH:
            time.sleep(0.0005)
        if weights.value < 0:
            return
        if weights.value > version:
            with lock:
                version = weights.value
                model.load_state_dict(shared.state_dict())
        begin_s = time.monotonic()
        tokens = answer(model, int(lengths.integers(SHORTEST, LONGEST + 1)), random)
        try:
            pipe.send_bytes(np.array([begin_s, time.monotonic(), version, *tokens.tolist()]).tobytes())
        except OSError:
            return


@dataclass(frozen=True, slots=True)
class Ran:
    """One real loop. `samples` by update; `steps` [updates, 2]: begin and end of each step; `load_s` [updates]."""

    samples: list[list[Sample]]
    steps: np.ndarray
    load_s: np.ndarray
    reward: list[float]

    @property
    def ages(self) -> np.ndarray:
        return np.array([place - each.weights for place, batch in enumerate(self.samples) for each in batch])


def run(ahead: int, updates: int) -> Ran:
    """A loop of so many updates: this process trains, another one answers."""
    context = multiprocessing.get_context("spawn")
    model = model_of()
    shared = model_of().share_memory()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    near, far = context.Pipe()
    weights, lock = context.Value("q", 0, lock=False), context.Lock()
    worker = context.Process(target=rollouts, args=(far, shared, weights, lock, ahead, 1), daemon=True)
    worker.start()
    far.close()
    ready, done, steps, loads, gained = [], [], [], [], []
    for _ in range(updates):
        while len(ready) < BATCH:
            ready.append(_received(near))
        while near.poll():
            ready.append(_received(near))
        taken, ready = ready[:BATCH], ready[BATCH:]
        begin_s = time.monotonic()
        gained.append(update(model, optimizer, taken))
        steps.append((begin_s, time.monotonic()))
        with lock:
            shared.load_state_dict(model.state_dict())
            weights.value += 1
        done.append(taken)
        loads.append(time.monotonic() - steps[-1][1])
    weights.value = -1
    near.close()
    worker.join(30)
    return Ran(done, np.array(steps), np.array(loads), gained)


def _received(pipe: Connection) -> Sample:
    values = np.frombuffer(pipe.recv_bytes())
    return Sample(values[0], values[1], int(values[2]), torch.from_numpy(values[3:].astype(np.int64)))


def in_order(ran: Ran) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of each rollout, in the order of their beginning, and of each step."""
    samples = sorted((each for batch in ran.samples for each in batch), key=lambda each: each.begin_s)
    return np.array([each.end_s - each.begin_s for each in samples]), ran.steps[:, 1] - ran.steps[:, 0]


def simulated(ran: Ran, ahead: int, updates: int, rollout_s: np.ndarray, step_s: np.ndarray) -> Trained:
    loop = Loop(1, BATCH, float(step_s.mean()), float(ran.load_s.mean()), ahead)
    return trained(loop, rollout_s, updates, step_s)


def lines(name: str, ran: Ran, ahead: int) -> Iterator[str]:
    """Measured beside simulated: updates a second, and the mean age of samples."""
    half = len(ran.steps) // 2
    rollout_s, step_s = in_order(ran)
    alike = simulated(ran, ahead, len(ran.steps), rollout_s, step_s)
    rate = (len(ran.steps) - 1) / (ran.steps[-1, 1] - ran.steps[0, 1])
    off = alike.updates_per_s / rate - 1
    yield f"{name}: reward {np.mean(ran.reward[:5]):.3f} in the first five updates, {np.mean(ran.reward[-5:]):.3f} last"
    yield f"  replayed: {rate:.4f} updates/s measured, {alike.updates_per_s:.4f} simulated ({off:+.1%})"
    yield f"  replayed: age {ran.ages.mean():.3f} measured, {alike.age.mean():.3f} simulated"
    late = ran.steps[half:]
    measured = (len(late) - 1) / (late[-1, 1] - late[0, 1])
    drawn = []
    for seed in range(SEEDS):
        random = np.random.default_rng(seed)
        rollouts_s = in_blocks(rollout_s[: half * BATCH], BLOCK * BATCH, len(late) * BATCH, random)
        drawn.append(simulated(ran, ahead, len(late), rollouts_s, in_blocks(step_s[:half], BLOCK, len(late), random)))
    low, middle, high = np.quantile([each.updates_per_s for each in drawn], [0.025, 0.5, 0.975])
    inside = "inside" if low <= measured <= high else "outside"
    yield f"  second half: {measured:.4f} updates/s measured, {middle:.4f} ({low:.4f} to {high:.4f}) forecast: {inside}"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--updates", type=int, default=40)
    updates = asked.parse_args().updates
    for name, ahead in (("in turn", 0), ("beside each other, one update ahead", 1), ("four ahead", 4)):
        for line in lines(name, run(ahead, updates), ahead):
            print(line, flush=True)


if __name__ == "__main__":
    main()
