"""Random work, laws and rules for tests of the simulator: small, with every rule in reach."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from twinlens.simulation.fits import most_blocks
from twinlens.simulation.law import Affine, StepLaw
from twinlens.simulation.noise import Noise
from twinlens.simulation.rules import Rules
from twinlens.simulation.work import Work


def work_of(arrival_s: list[float], prompt: list[int], output: list[int], **more: list[int]) -> Work:
    """Work of plain lists."""
    columns = {name: np.array(values, dtype=np.int64) for name, values in more.items()}
    return Work(np.array(arrival_s, dtype=float), np.array(prompt), np.array(output), **columns)


@st.composite
def works(draw: st.DrawFn) -> Work:
    """Up to 40 requests, alone or in bursts, some of one group."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, 40))
    gaps = generator.exponential(draw(st.sampled_from([0.01, 0.1, 1.0])), n) * (generator.random(n) < 0.7)
    prompt = generator.integers(1, draw(st.sampled_from([2, 20, 60])), n)
    return Work(
        arrival_s=np.cumsum(gaps),
        prompt_tokens=prompt,
        output_tokens=generator.integers(1, draw(st.sampled_from([2, 10, 80])), n),
        priority=generator.integers(0, 3, n),
        group=generator.integers(-1, 3, n),
        shared_tokens=generator.integers(0, 40, n),
    )


@st.composite
def laws(draw: st.DrawFn) -> StepLaw:
    """One or two parts, each with some terms missing."""
    term = st.one_of(st.just(0.0), st.floats(1e-7, 1e-3))
    parts = [
        Affine(draw(st.floats(1e-3, 2e-2)), draw(term), draw(term) / 100, draw(term), draw(term) / 1000)
        for _ in range(draw(st.integers(1, 2)))
    ]
    return StepLaw(tuple(parts))


@st.composite
def rules_for(draw: st.DrawFn, work: Work) -> Rules:
    """Rules with which this work can be served."""
    chunked = draw(st.booleans())
    window = draw(st.sampled_from([None, None, 8, 30]))
    rules = Rules(
        max_num_batched_tokens=draw(st.sampled_from([4, 32, 100])) if chunked else 200,
        max_num_seqs=draw(st.sampled_from([1, 3, 16, 128])),
        enable_chunked_prefill=chunked,
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 7])),
        block_size=draw(st.sampled_from([1, 4, 16])),
        scheduler_reserve_full_isl=draw(st.booleans()),
        scheduling_policy=draw(st.sampled_from(["fcfs", "priority"])),
        enable_prefix_caching=draw(st.booleans()),
        num_speculative_tokens=draw(st.sampled_from([0, 0, 3])),
        acceptance_rate=draw(st.sampled_from([0.0, 0.6, 1.0])),
        sliding_window=window,
        max_model_len=draw(st.sampled_from([None, None, 60])),
        batching=draw(st.sampled_from(["continuous", "continuous", "continuous", "static", "dynamic"])),
        batch_size=draw(st.integers(1, 6)),
        batch_wait_s=draw(st.sampled_from([0.0, 0.05])),
    )
    if draw(st.booleans()):
        return rules
    pairs = zip(work.prompt_tokens.tolist(), work.output_tokens.tolist(), strict=True)
    least = max(most_blocks(rules, *pair) for pair in pairs)
    return _with_blocks(rules, least + draw(st.integers(0, 30)))


def _with_blocks(rules: Rules, blocks: int) -> Rules:
    values = {name: getattr(rules, name) for name in rules.__slots__}
    return Rules(**{**values, "num_gpu_blocks": blocks})


@st.composite
def noises(draw: st.DrawFn) -> Noise | None:
    """None, or measured factors with slow spells."""
    if draw(st.booleans()):
        return None
    generator = np.random.default_rng(draw(st.integers(0, 99)))
    return Noise(generator.gamma(9, 1 / 9, 50), seed=draw(st.integers(0, 9)), block=draw(st.sampled_from([1, 8, 64])))
