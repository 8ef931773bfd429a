"""Basis of a simulation: a law with its draws, its noise and its rules, and what of it a what-if changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from twinlens.simulation.law import Affine, StepLaw
from twinlens.simulation.noise import Noise
from twinlens.simulation.points.energy import OTHER, Powers
from twinlens.simulation.rules import Rules
from twinlens.simulation.work import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """`draws`: laws that are as likely as `law`; none where its constants are taken as they are. `noise`: factors of
    steps, as measured. `reach`: the least and the most of what was measured, by quantity. `device`: what it stands for.
    `doubts`: sentences on what widens the bands, or is taken for granted. `powers`: what an engine draws.
    """

    law: StepLaw
    rules: Rules = field(default_factory=Rules)
    draws: tuple[StepLaw, ...] = ()
    noise: Floats | None = None
    reach: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    device: str = ""
    doubts: tuple[str, ...] = ()
    powers: Powers = field(default_factory=Powers)

    def drawn(self, place: int, of: int) -> StepLaw:
        """The law of repeat `place` [0, of): spread evenly over the draws, so that few repeats see different ones."""
        if not self.draws:
            return self.law
        ordered = sorted(self.draws, key=lambda each: each.seconds(8, 1024, 64))
        return ordered[min(len(ordered) - 1, int((place + 0.5) / of * len(ordered)))]

    def noise_of(self, seed: int) -> Noise | None:
        return None if self.noise is None else Noise(self.noise, seed)

    def faster(self, **factors: float) -> Basis:
        """The same with a memory (`bandwidth`), matrix units (`compute`) or a host (`overhead`) so many times as fast.

        No law says how much of its fixed seconds is reading weights: laws between none and all of it become the draws.
        """
        if not factors:
            return self
        drawn = self.draws or (self.law,) * 21
        shares = np.linspace(0.0, 1.0, len(drawn))[np.random.default_rng(0).permutation(len(drawn))]
        laws = tuple(_faster(law, factors, share) for law, share in zip(drawn, shares, strict=True))
        said = ", ".join(f"{name} × {factor:g}" for name, factor in factors.items())
        doubts = (*self.doubts, f"{said}: how much of a step's fixed time it shortens is not known: from none to all")
        powers = self.powers if self.powers.power is None else Powers(absent=OTHER)
        return replace(self, law=_faster(self.law, factors, 0.5), draws=laws, doubts=doubts, powers=powers)


def _faster(law: StepLaw, factors: Mapping[str, float], share: float) -> StepLaw:
    """`share`: of the fixed seconds that the memory takes, the host the rest."""
    memory, matrix, host = (factors.get(name, 1.0) for name in ("bandwidth", "compute", "overhead"))
    parts = tuple(
        Affine(
            each.fixed_s * (share / memory + (1 - share) / host), each.row_s / matrix, each.context_s / memory,
            each.token_s / matrix, each.pair_s / matrix,
        )
        for each in law.parts
    )  # fmt: skip
    return replace(law, parts=parts, before_s=law.before_s / host, after_s=law.after_s / host)


@dataclass(frozen=True, slots=True)
class Binding:
    """One step in the middle: its seconds, and the share of each term of the part of the law that decides it.

    `seats`: requests in it. `limit`: the rule that keeps it from more, by its flag; "" where none is reached.
    """

    step_s: float
    shares: Mapping[str, float]
    seats: float
    limit: str = ""

    @property
    def largest(self) -> str:
        return max(self.shares, key=lambda name: self.shares[name])


_TERMS = ("fixed", "rows", "context", "prompts", "pairs")


def binding(law: StepLaw, rows: float, context: float, tokens: float, pairs: float, limit: str = "") -> Binding:
    """What the seconds of a step with so much work are made of."""
    part = max(law.parts, key=lambda each: each.at(rows, context, tokens, pairs))
    work = (1.0, rows, context, tokens, pairs)
    each_s = (part.fixed_s, part.row_s, part.context_s, part.token_s, part.pair_s)
    seconds = [constant * amount for constant, amount in zip(each_s, work, strict=True)]
    whole = sum(seconds)
    shares = {name: each / whole if whole else 0.0 for name, each in zip(_TERMS, seconds, strict=True)}
    return Binding(whole, shares, rows, limit)


def capacity(
    law: StepLaw, rules: Rules, prompts: Ints, outputs: Ints, seats: int | None = None, *, with_prompts: bool = True
) -> tuple[float, Binding]:
    """Requests per second that an engine can serve at most, batched continuously, and its step then.

    `prompts`, `outputs` (requests,): tokens. Of means: a slot makes a token a step, and a prompt of its length for
    each answer. Seats are bounded by max_num_seqs, by the blocks that requests hold on average, and by the tokens that
    a step may take; more seats never serve fewer, as every term of the law rises no faster than they do. Without
    `with_prompts`, another engine computes them.
    """
    prompt, output = float(prompts.mean()), float(outputs.mean())
    held = float((outputs * (prompts + outputs / 2)).mean()) / output  # a long answer is there for longer
    limits = {"max_num_seqs": float(rules.max_num_seqs if seats is None else min(seats, rules.max_num_seqs))}
    taken = prompt / output if with_prompts else 0.0
    limits["max_num_batched_tokens"] = rules.max_num_batched_tokens / (1 + taken)
    if rules.num_gpu_blocks is not None:
        limits["num_gpu_blocks"] = rules.num_gpu_blocks * rules.block_size / (held + rules.block_size / 2)
    name = min(limits, key=lambda each: limits[each])
    there = limits[name]
    pairs = float((prompts.astype(float) ** 2).mean()) / 2 / output if with_prompts else 0.0
    step = binding(law, there, there * held, there * taken, there * pairs, name)
    return there / (output * step.step_s), step


def pools_capacity(
    law: StepLaw, rules: Rules, prompts: Ints, outputs: Ints, prefill: float, decode: float
) -> tuple[float, Binding]:
    """The same of engines that compute prompts and engines that make the rest, so many each: the pool that serves less.

    A prefill engine fills its budget of tokens with prompts of the mean; the first token of an answer is theirs.
    """
    prompt, pairs = float(prompts.mean()), float((prompts.astype(float) ** 2).mean()) / 2
    there = min(float(rules.max_num_seqs), rules.max_num_batched_tokens / prompt)
    rows = max(1.0, there)
    step = binding(law, rows, 0.0, max(0.0, there * prompt - rows), there * pairs, "the prefill pool")
    found = [(prefill * there / step.step_s, step)]
    longer = outputs > 1
    if longer.any():
        rate, step = capacity(law, rules, prompts[longer], outputs[longer] - 1, with_prompts=False)
        found.append((decode * rate / float(longer.mean()), replace(step, limit="the decode pool")))
    return min(found, key=lambda each: each[0])
