"""Compliance tests of a run: sample answers under load, then repeat them one at a time when the load is over.

After, not before: a request that was answered alone would meet the load in a cache. Requests of these tests are no
rows of the run. The rulings are in stats/compliance.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twinlens.executors.protocol import AuditableClient, NetworkClient
from twinlens.network.client import undisturbed
from twinlens.record.codec import encode
from twinlens.record.request import Request
from twinlens.record.sections import ComplianceTest, GreedyAnswer, GreedyAnswers, Response
from twinlens.record.store import update_run
from twinlens.schedule.closed_loop import ClosedLoop
from twinlens.schedule.draw import single_requests
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.prompt import Generate
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.compliance import (
    AnswerTimes,
    TokenFaults,
    answers,
    caching,
    compared,
    length,
    load_is_alone,
    not_applicable,
    tokens,
)

_PAIRS = 10  # of an identical and a distinct request: the fewest whose 99 % interval spans a tenth on a quiet server
_ROUNDS = 4
_PIECES = 6
_LEAST_PATIENCE_S = 30.0
_LEAST_TOGETHER = 1.5  # below this mean in flight an answer under load is an answer alone


@contextmanager
def with_compliance_tests(
    network_client: NetworkClient | None, spec: RunSpec, folder: Path, on_begin: Callable[[], None]
) -> Iterator[None]:
    """Listen to a load, and afterwards ask, rule and write `guards` into run.json; nothing where none are asked for.

    `on_begin` is called when the questions begin. A load that fails is not ruled on.
    """
    if not spec.protocol.guards:
        yield
        return
    workload = spec.workload
    if isinstance(workload, InferenceWorkload) and not isinstance(workload.task, Generate):
        yield
        update_run(folder, guards=[encode(guard) for guard in not_applicable("one-answer-no-tokens")])
        return
    client = network_client if isinstance(network_client, AuditableClient) else None
    sampler = ResponseSampler(spec.seed)
    if client is not None:
        client.on_response(sampler)
    try:
        yield
    finally:
        if client is not None:
            client.on_response(None)
    on_begin()
    update_run(folder, guards=[encode(guard) for guard in run_compliance_tests(client, spec, sampler)])
    if client is not None and sampler.sample and (greedy := greedy_answers(client, spec, _patience_s(spec))):
        update_run(folder, greedy=encode(greedy))


def _patience_s(spec: RunSpec) -> float:
    """How long the questions of one kind may take."""
    return max(_LEAST_PATIENCE_S, spec.protocol.duration_s)


@undisturbed()
def run_compliance_tests(
    client: AuditableClient | None, spec: RunSpec, sampler: ResponseSampler
) -> tuple[ComplianceTest, ...]:
    """Ask what must be asked alone, and rule. `sampler` has seen the load."""
    if client is None:
        return not_applicable("not-over-http")
    if not sampler.sample:
        return not_applicable("no-answer-sampled")
    patience_s = _patience_s(spec)
    once = answers_alone(client, [sampled.scheduled for sampled in sampler.sample], patience_s)
    again = answers_alone(client, [sampled.scheduled for sampled in once], patience_s)
    return (
        _caching(client, spec, sampler.sample[0].scheduled, patience_s),
        _tokens(client, sampler, once, patience_s),
        _answers(spec, sampler, once, again),
        _length(client, sampler, once),
    )


def _caching(client: AuditableClient, spec: RunSpec, like: ScheduledRequest, patience_s: float) -> ComplianceTest:
    """In rounds, until the interval decides; four looks at 99 % are wrong at most four times as often as one."""
    until_s = time.monotonic() + patience_s
    fresh = fresh_requests(spec, like, _ROUNDS * _PAIRS + 1)
    same, shuffle = fresh[0], random.Random(spec.seed).shuffle
    answers_alone(client, [same], patience_s)  # fills a cache, if there is one
    answers: list[SampledResponse] = []
    for begin in range(1, len(fresh), _PAIRS):
        order = [*[same] * _PAIRS, *fresh[begin : begin + _PAIRS]]
        shuffle(order)
        answers += answers_alone(client, order, until_s - time.monotonic())
        guard = _cached(same, answers)
        if guard.ruling != "not enough" or time.monotonic() > until_s:
            break
    return guard


def _cached(same: ScheduledRequest, answers: Sequence[SampledResponse]) -> ComplianceTest:
    is_cut = any(len(sampled.row.chunk_ns) > 1 for sampled in answers if sampled.scheduled.number != same.number)
    groups = [[h for h in answers if (h.scheduled.number == same.number) == is_same] for is_same in (True, False)]
    return caching(*[AnswerTimes(_decode_s(group) if is_cut else [], _whole_s(group)) for group in groups])


def _decode_s(group: Sequence[SampledResponse]) -> list[float]:
    """Per token, so that answers that ended early compare."""
    rows = [sampled.row for sampled in group if sampled.row.output_tokens > 1 and sampled.row.chunk_ns]
    return [(row.chunk_ns[-1] - row.chunk_ns[0]) / 1e9 / (row.output_tokens - 1) for row in rows]


def _whole_s(group: Sequence[SampledResponse]) -> list[float]:
    return [(sampled.row.end_ns - sampled.row.sent_ns) / 1e9 for sampled in group]


def _tokens(
    client: AuditableClient, sampler: ResponseSampler, once: Sequence[SampledResponse], patience_s: float
) -> ComplianceTest:
    first_ones = once[:_PIECES]
    with client.asking(in_one_piece=True):
        whole = {
            sampled.scheduled.number: sampled.response
            for sampled in answers_alone(client, [h.scheduled for h in first_ones], patience_s)
        }
    firsts = [(h.response, whole[h.scheduled.number]) for h in first_ones if h.scheduled.number in whole]
    return tokens(sampler.faults, firsts, recounts(client, first_ones, patience_s), forced=client.forces_length)


def _answers(
    spec: RunSpec, sampler: ResponseSampler, once: Sequence[SampledResponse], again: Sequence[SampledResponse]
) -> ComplianceTest:
    if sampler.mean_in_flight < _LEAST_TOGETHER:
        return load_is_alone(sampler.mean_in_flight)
    alone = {sampled.scheduled.number: sampled.response for sampled in once}
    loaded = [(alone[h.scheduled.number], h.response) for h in sampler.sample if h.scheduled.number in alone]
    repeated = [(alone[h.scheduled.number], h.response) for h in again if h.scheduled.number in alone]
    most_apart = 1 - spec.protocol.tolerance.top1_agreement
    return answers([compared(*pair) for pair in loaded], [compared(*pair) for pair in repeated], most_apart)


def _length(client: AuditableClient, sampler: ResponseSampler, once: Sequence[SampledResponse]) -> ComplianceTest:
    if client.forces_length:
        return length(sampler.output_tokens, sampler.asked_tokens, "asked")
    under_load = {sampled.scheduled.number: sampled.response.tokens for sampled in sampler.sample}
    pairs = [(under_load[h.scheduled.number], h.response.tokens) for h in once if h.scheduled.number in under_load]
    return length([load for load, _ in pairs], [alone for _, alone in pairs], "alone")


_SAMPLE = 16


@dataclass(frozen=True, slots=True)
class SampledResponse:
    """One answer and its request."""

    scheduled: ScheduledRequest
    row: Request
    response: Response


class ResponseSampler:
    """Listens under load: counts faults and lengths of all answers, and keeps a few of them whole, drawn evenly."""

    def __init__(self, seed: int) -> None:
        self.faults = TokenFaults()
        self.sample: list[SampledResponse] = []
        self.output_tokens, self.asked_tokens = array("q"), array("q")
        self._random = random.Random(seed)
        self._drawn = 0
        self._busy_ns = self._last_ns = 0
        self._first_ns: int | None = None

    def __call__(self, scheduled: ScheduledRequest, row: Request, response: Response) -> None:
        self._busy_ns += row.end_ns - row.sent_ns
        self._first_ns = row.sent_ns if self._first_ns is None else min(row.sent_ns, self._first_ns)
        self._last_ns = max(row.end_ns, self._last_ns)
        if row.outcome not in ("ok", "cut_off"):
            return
        self.faults = self.faults.plus(response, scheduled.output_tokens)
        self.output_tokens.append(row.output_tokens)
        self.asked_tokens.append(scheduled.output_tokens)
        if not scheduled.turn:  # a later turn holds what was said before: asked alone it would be another prompt
            self._draw(SampledResponse(scheduled, row, response))

    @property
    def mean_in_flight(self) -> float:
        """How many requests were under way, on average over time."""
        wall_ns = self._last_ns - (self._first_ns or 0)
        return self._busy_ns / wall_ns if wall_ns > 0 else 0.0

    def _draw(self, sampled: SampledResponse) -> None:
        """Reservoir sampling (Vitter 1985, algorithm R): every answer is kept with the same chance."""
        self._drawn += 1
        if len(self.sample) < _SAMPLE:
            self.sample.append(sampled)
        elif (place := self._random.randrange(self._drawn)) < _SAMPLE:
            self.sample[place] = sampled


PROMPTS = 8
MOST_TOKENS = 64
_MOST_CHARACTERS = 4096
_GREEDY_SALT = 0x9E3D


@undisturbed()
def greedy_answers(client: AuditableClient, spec: RunSpec, patience_s: float) -> GreedyAnswers | None:
    """Ask them one at a time, so that no batch decides a near tie; None for images, which have no text.

    Prompts depend on the workload and the study's seed alone: not on the point, the repeat or the server.
    """
    workload, seed = spec.workload, spec.protocol.seed
    assert isinstance(workload, InferenceWorkload)
    drawn = single_requests(workload, np.zeros(PROMPTS, np.int64), seed=seed, prompt_seed=seed * 1000 + _GREEDY_SALT)
    asked = [replace(each, output_tokens=min(each.output_tokens, MOST_TOKENS)) for each in drawn]
    if not any(each.output_tokens for each in asked):
        return None
    answered = {each.scheduled.number: each.response for each in answers_alone(client, asked, patience_s)}
    answers = [
        GreedyAnswer(response.text[:_MOST_CHARACTERS], response.tokens)
        if (response := answered.get(each.number)) is not None
        else None
        for each in asked
    ]
    identity = [workload.model_dump(mode="json"), seed, PROMPTS, MOST_TOKENS]
    prompts = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
    return GreedyAnswers(prompts, tuple(answers))


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
