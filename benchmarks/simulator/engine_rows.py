"""Rows as a client would see them of one engine in virtual time, whose law is known."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pyarrow as pa

from twinlens.record.request import REQUEST_SCHEMA, Request, Requests
from twinlens.simulation.law import StepLaw
from twinlens.simulation.noise import Noise
from twinlens.simulation.rules import Rules
from twinlens.simulation.serve import serve
from twinlens.simulation.work import Work, token_times_s

S = 1_000_000_000


def rows(
    arrival_s: np.ndarray,
    prompts: np.ndarray,
    answers: np.ndarray,
    law: StepLaw,
    rules: Rules = Rules(),
    *,
    cv: float = 0.0,
    seed: int = 0,
) -> Requests:
    """Requests in order of arrival. Steps scatter by `cv`, slow ones in spells; tokens of one step come 25 µs apart."""
    rng = np.random.default_rng(seed)
    noise = Noise(spells(rng, cv), seed) if cv else None
    served = serve(Work(arrival_s + law.before_s, prompts, answers), law, rules, noise=noise)

    def chunks_ns(request: int) -> tuple[int, ...]:
        times_s = token_times_s(served, request) + law.after_s
        return tuple(np.round((times_s + 5e-5 * rng.random(len(times_s))) * S).astype(int).tolist())

    def made(request: int) -> Request:
        chunks, due_ns = chunks_ns(request), round(arrival_s[request] * S)
        return Request(
            request, due_ns, due_ns, chunks, (1,) * len(chunks), chunks[-1], int(prompts[request]), len(chunks)
        )

    known = [asdict(made(request)) for request in range(len(arrival_s))]
    return Requests.from_table(pa.Table.from_pylist(known, schema=REQUEST_SCHEMA))


def spells(rng: np.random.Generator, cv: float, memory: float = 0.8, count: int = 16384) -> np.ndarray:
    """Factors of mean 1 of which slow ones come in spells: the exponential of a first-order series."""
    sigma, fresh = float(np.sqrt(np.log1p(cv * cv))), np.sqrt(1 - memory * memory) * rng.standard_normal(count)
    state = np.empty(count)
    state[0] = rng.standard_normal()
    for i in range(1, count):
        state[i] = memory * state[i - 1] + fresh[i]
    return np.exp(sigma * state - sigma * sigma / 2)
