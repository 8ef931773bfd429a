"""A fitted run simulated from its own arrivals: what its law lacks is what happens outside the steps.

A client sees when steps end, not when a request may join one: a server whose own processor also runs the engine takes
longer to hand over a request while a step is under way. So the law is held against the run that it came from, and what
its first tokens lack is waited before the engine, what its later ones lack lengthens the steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from twinlens.record.request import Requests
from twinlens.simulation.law import Affine, StepLaw
from twinlens.simulation.noise import Noise
from twinlens.simulation.rules import Rules
from twinlens.simulation.serve import serve
from twinlens.simulation.work import Floats, Work

_ROUNDS = 2
_SEEDS = 3
_MOST_REQUESTS = 1500


@dataclass(frozen=True, slots=True)
class Lacking:
    """What a law lacks of a run: a factor on its steps, and seconds before them. `requests`: how many say so."""

    factor: float
    before_s: float
    requests: int


def lacking(requests: Requests, law: StepLaw, noise: Floats, rules: Rules, begin_s: float = 0.0) -> Lacking:
    """Until simulated means of TTFT from sending and of TPOT are those of the run, of requests sent from `begin_s` on.

    Nothing, of no request, where the law cannot serve these requests in an order that ends.
    """
    work, measured_first_s, measured_each_s = arrivals_of(requests)
    counts = (work.arrival_s >= begin_s) & np.isfinite(measured_each_s)
    if not counts.any():
        return Lacking(1.0, 0.0, 0)
    first_s, each_s = measured_first_s[counts].mean(), measured_each_s[counts].mean()
    factor, before_s = 1.0, 0.0
    for _ in range(_ROUNDS):
        now = times(law, factor, before_s)
        simulated = [served_times(work, now, noise, rules, seed) for seed in range(_SEEDS)]
        simulated_first_s = np.mean([first[counts].mean() for first, _ in simulated])
        ratio = each_s / np.mean([each[counts].mean() for _, each in simulated])
        # Slower steps make first tokens later by themselves: of what they wait but for the time before the engine.
        steps_s = (simulated_first_s - now.before_s) * (ratio - 1)
        factor, before_s = factor * ratio, before_s + first_s - simulated_first_s - steps_s
    return Lacking(float(factor), float(before_s), int(counts.sum()))


def times(law: StepLaw, factor: float, before_s: float = 0.0) -> StepLaw:
    """The law with its steps times a factor, and so many seconds more before them, in all not below 0."""
    parts = tuple(Affine(*(factor * getattr(part, name) for name in Affine.__slots__)) for part in law.parts)
    return replace(law, parts=parts, before_s=max(law.before_s + before_s, 0.0))


def arrivals_of(requests: Requests) -> tuple[Work, Floats, Floats]:
    """What came to the engine, in order, with seconds to the first token and per later token, NaN of answers of one."""
    tokens = np.add.reduceat(np.append(requests.chunk_tokens, 0), requests.offsets[:-1])
    answered = np.flatnonzero(np.diff(requests.offsets) > 0)
    order = answered[np.argsort(requests.sent_ns[answered], kind="stable")][:_MOST_REQUESTS]
    first_s, last_s = requests.first_chunk_ns()[order] / 1e9, requests.last_chunk_ns()[order] / 1e9
    sent_s, made = requests.sent_ns[order] / 1e9, tokens[order].astype(np.int64)
    later = np.where(made > 1, made - 1, np.nan)
    work = Work(sent_s, requests.input_tokens[order].astype(np.int64), made)
    return work, first_s - sent_s, (last_s - first_s) / later


def served_times(work: Work, law: StepLaw, noise: Floats, rules: Rules, seed: int) -> tuple[Floats, Floats]:
    """Seconds from sending to the first token, and per later token, of each request (requests,) of one simulation."""
    alone = replace(rules, enable_prefix_caching=False, max_model_len=None)  # no two of these prompts are alike
    ready = replace(work, arrival_s=work.arrival_s + law.before_s)
    served = serve(ready, law, alone, noise=Noise(noise, seed), tokens=False)
    first_s = served.first_token_s + law.after_s - work.arrival_s
    return first_s, (served.end_s - served.first_token_s) / np.maximum(work.output_tokens - 1, 1)
