"""Requests sent one at a time when the load is over, and the texts that they quote."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from twinlens.executors.protocol import AuditableClient
from twinlens.measurement.compliance.sampler import SampledResponse
from twinlens.schedule.content.draw import single_requests
from twinlens.schedule.loop.closed_loop import ClosedLoop
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload

_MOST_TOKENS = 64  # decoding at one pace shows in 64 tokens as in a thousand
_SALT = 0x6A4D


def answers_alone(
    client: AuditableClient, upcoming: Sequence[ScheduledRequest], patience_s: float
) -> list[SampledResponse]:
    """The answers to requests, one at a time, in their order, as far as patience goes; those that failed are left
    out."""
    sampled: list[SampledResponse] = []
    client.on_response(lambda scheduled, row, response: sampled.append(SampledResponse(scheduled, row, response)))
    try:
        client.play(ClosedLoop(1, _in_time(upcoming, patience_s)), lambda row: None)
    finally:
        client.on_response(None)
    return [each for each in sampled if each.row.outcome in ("ok", "cut_off")]


def _in_time(upcoming: Iterable[ScheduledRequest], patience_s: float) -> Iterator[ScheduledRequest]:
    until_s = time.monotonic() + patience_s
    for scheduled in upcoming:
        if time.monotonic() > until_s:
            return
        yield scheduled


def fresh_requests(spec: RunSpec, like: ScheduledRequest, count: int) -> list[ScheduledRequest]:
    """Requests of one length that the server has never seen."""
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    drawn = single_requests(workload, np.zeros(count, np.int64), seed=spec.seed, prompt_seed=spec.prompt_seed(_SALT))
    most = min(like.output_tokens, _MOST_TOKENS)
    return [
        replace(a, input_tokens=like.input_tokens, output_tokens=most, prefix_id=None, prefix_tokens=0) for a in drawn
    ]


def recounts(client: AuditableClient, samples: Sequence[SampledResponse], patience_s: float) -> list[tuple[int, int]]:
    """Tokens claimed for a text, and the server's own count of that text as a prompt, its template taken off.

    Texts with broken characters are left out: what broke them is not in the text. So are those that hold reasoning.
    """
    whole = [
        h
        for h in samples
        if h.response.counted_tokens and "\ufffd" not in h.response.text and not h.response.reasoning_chunks
    ]
    if not whole:
        return []
    quotes = Quotes(["a", *[sampled.response.text for sampled in whole]])
    upcoming = [ScheduledRequest(i, i, 0, input_tokens=1, output_tokens=4, seed=(i,)) for i in range(len(whole) + 1)]
    with client.asking(words=quotes):
        counts = {
            sampled.scheduled.number: sampled.response.prompt_tokens
            for sampled in answers_alone(client, upcoming, patience_s)
        }
    template = counts.get(0)
    if template is None:
        return []
    claims = [(h.response.counted_tokens or 0, counts.get(i)) for i, h in enumerate(whole, 1)]
    return [(claimed, count - template + 1) for claimed, count in claims if count is not None]


class Quotes:
    """Words that are whole given texts: the seed's last number says which."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def cut(self, seed: tuple[int, ...], tokens: int, skip: int = 0) -> str:
        return self._texts[seed[-1]]
