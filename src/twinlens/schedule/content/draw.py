"""Contents of requests drawn from a seed: lengths and shared prefixes. The n-th is the same however many are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count as counting

import numpy as np

from twinlens.schedule.content.length import sample_lengths
from twinlens.schedule.content.prefix import draw_prefixes
from twinlens.schedule.plan import Plan
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.workload.length import AnswerLength
from twinlens.spec.workload.prompt import Embed, Generate, Prefix, Rerank, items_per_request
from twinlens.spec.workload.workload import Images, InferenceWorkload

# Streams of random numbers, one per quantity, so that a change to one leaves the others as they were.
_INPUT, _OUTPUT, _PREFIX = 2, 3, 4
_CHUNK = 1024

Draw = Callable[[np.random.Generator, int], np.ndarray]


def drawn(draw: Draw, seed: int, stream: int, first: int, count: int) -> np.ndarray:
    """Numbers `first` to `first + count` of a stream, shape (count,), int64.

    Each chunk of the stream has a seed of its own, so any stretch can be drawn alone: a run that goes on continues.
    """
    begin, end = first // _CHUNK, -(-(first + count) // _CHUNK)
    chunks = [draw(np.random.default_rng([seed, stream, chunk]), _CHUNK) for chunk in range(begin, end)]
    return np.concatenate([np.empty(0, dtype=np.int64), *chunks])[first - begin * _CHUNK :][:count]


def single_requests(
    workload: InferenceWorkload, intended_ns: np.ndarray, *, seed: int, prompt_seed: int, first: int = 0
) -> Plan:
    """Requests at the given times, shape (asks,); the first of them has number `first`.

    `seed` decides lengths and prefixes, `prompt_seed` the words.
    """
    count = len(intended_ns)
    none = np.zeros(count, dtype=np.int64)
    inputs = none if isinstance(workload.data, Images) else lengths(workload.input_tokens, seed, _INPUT, first, count)
    if isinstance(workload.task, Embed | Rerank):
        inputs = inputs * items_per_request(workload.task)
    if isinstance(workload.task, Rerank):
        inputs = inputs + workload.task.query_tokens
    streams = isinstance(workload.task, Generate) and not isinstance(workload.data, Images)
    outputs = lengths(workload.output_tokens, seed, _OUTPUT, first, count) if streams else none
    plan = Plan(prompt_seed, intended_ns, inputs, outputs, first_number=first)
    return plan if workload.prefix is None else plan.behind(*prefixes(workload.prefix, seed, first, count))


def endless_requests(
    workload: InferenceWorkload, *, seed: int, prompt_seed: int, first: int = 0
) -> Iterator[ScheduledRequest]:
    """Requests without end, for a closed loop, which decides their times itself."""
    for begin in counting(first, _CHUNK):
        yield from single_requests(
            workload, np.zeros(_CHUNK, dtype=np.int64), seed=seed, prompt_seed=prompt_seed, first=begin
        )


def lengths(length: AnswerLength, seed: int, stream: int, first: int, count: int) -> np.ndarray:
    """Numbers `first` to `first + count` of a stream of lengths in tokens, shape (count,)."""
    return drawn(lambda rng, n: sample_lengths(length, rng, n), seed, stream, first, count)


def prefixes(prefix: Prefix, seed: int, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which prefix each opens with (NONE: with none) and its tokens, both of shape (count,)."""
    ids = drawn(lambda rng, n: draw_prefixes(prefix, rng, n), seed, _PREFIX, first, count)
    return ids, np.where(ids >= 0, prefix.tokens, 0)
