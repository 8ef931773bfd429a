"""Compliance tests of a run: sample answers under load, then repeat them one at a time when the load is over.

After, not before: a request that was answered alone would meet the load in a cache. Requests of these tests are no
rows of the run. The rulings are in stats/compliance.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from twinlens.executors.protocol import AuditableClient, NetworkClient
from twinlens.measurement.compliance.alone import answers_alone, fresh_requests, recounts
from twinlens.measurement.compliance.greedy import greedy_answers
from twinlens.measurement.compliance.sampler import ResponseSampler, SampledResponse
from twinlens.record.codec import encode
from twinlens.record.sections import ComplianceTest
from twinlens.record.store import update_run
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.task import Generate
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.compliance import (
    AnswerTimes,
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
