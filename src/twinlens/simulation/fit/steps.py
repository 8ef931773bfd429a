"""Engine steps of any server, recovered from the times at which a client got its tokens.

Tokens of one step arrive together, and every request that decodes has one in every step. So a new step begins with a
gap between arrivals, and where a request comes a second time. How long that gap must be is found by what contradicts
it: steps between a request's first token and its last in which it has none. The gap with the fewest contradictions
parts the steps, and their share says how far the steps can be trusted: one engine leaves less than 1 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinlens.record.request import Requests
from twinlens.simulation.rules import Rules
from twinlens.simulation.work import Floats, Ints

_SHORTEST_GAP_S = 2e-5
_GAPS = 40
_MOST_IN_A_BURST = 12
_AS_GOOD = 1e-3
"""Share of contradictions by which a gap may exceed the least and still count as equally good."""


@dataclass(frozen=True, slots=True, eq=False)
class EngineSteps:
    """Steps in order of time. Shapes: (steps,), but for `first_step` and `found_idle`, (requests,).

    `end_s`: when the client got the first token of the step. `duration_s`: since the end of the step before; NaN where
    no request was decoding then, as the engine may have idled. `rows`: requests with a token or a piece of their prompt
    in it. `context`: tokens of KV cache that decoding requests read. `tokens`: prompt tokens beyond one a request.
    `pairs`: pairs of a prompt's token and a token that it attends to.
    `first_step`: the step that gave a request its first token, -1 where none came. `found_idle`: whether no other
    request was decoding and the step before was over when it was sent.
    `gap_s`: the gap between arrivals that parts steps. `contradicted`: share of tokens that contradict them. `smeared`:
    the longest gap inside a step, of nine in ten, over the median step: near 0 where steps stand apart, a quarter and
    more where tokens of several engines lie between each other. `tokens_each`: tokens a step and request.
    """

    end_s: Floats
    duration_s: Floats
    rows: Floats
    context: Floats
    tokens: Floats
    pairs: Floats
    first_step: Ints
    found_idle: np.ndarray
    gap_s: float
    contradicted: float
    smeared: float
    tokens_each: float


@dataclass(frozen=True, slots=True, eq=False)
class _Chunks:
    """Chunks in the order of rows. Shapes: (chunks,), but for `first` and `last`, (requests with chunks,): places."""

    time_s: Floats
    request: Ints
    tokens: Ints
    before: Ints
    """Tokens that its request had before it."""
    first: Ints
    last: Ints


def recover(requests: Requests, rules: Rules, before_s: float = 0.0) -> EngineSteps:
    """The steps of one engine behind all chunks of a run, of failed requests too. At least two chunks.

    Prompts are taken to be computed in the order of their first tokens, in pieces as `rules` say: from the first step
    that began once they were there, `before_s` after their sending, to the step that gives the first token.
    """
    chunks = _chunks(requests)
    order = np.argsort(chunks.time_s, kind="stable")
    gap_s, contradicted = _parting(chunks, order)
    step = _step_of(chunks, order, gap_s)
    end_s = chunks.time_s[order][np.flatnonzero(np.diff(step[order], prepend=-1))]
    count = len(end_s)
    rows, context = _decoding(chunks, requests.input_tokens, step, count)
    begun = np.bincount(step[chunks.first], minlength=count)
    decoding_after = np.cumsum(begun - np.bincount(step[chunks.last], minlength=count))
    duration_s = np.concatenate([[np.nan], np.diff(end_s)])
    duration_s[1:][decoding_after[:-1] == 0] = np.nan
    first_step = np.full(len(requests), -1)
    first_step[chunks.request[chunks.first]] = step[chunks.first]
    pieces = _prompts(requests, first_step, rows, (end_s - duration_s, end_s), rules, before_s)
    earlier = np.maximum(first_step - 1, 0)
    idle = (first_step <= 0) | ((decoding_after[earlier] == 0) & (requests.sent_ns / 1e9 > end_s[earlier]))
    return EngineSteps(
        end_s, duration_s, rows + pieces[0], context, pieces[1] - pieces[0], pieces[2],
        first_step, (first_step >= 0) & idle,
        gap_s, contradicted, _smeared(chunks.time_s[order], step[order], duration_s), _tokens_each(chunks, step),
    )  # fmt: skip


def _chunks(requests: Requests) -> _Chunks:
    counts = np.diff(requests.offsets)
    request = np.repeat(np.arange(len(requests)), counts)
    sums = np.cumsum(requests.chunk_tokens) - requests.chunk_tokens
    some = counts > 0
    before = sums - np.repeat(sums[requests.offsets[:-1][some]], counts[some])
    first, last = requests.offsets[:-1][some], requests.offsets[1:][some] - 1
    return _Chunks(requests.chunk_ns / 1e9, request, requests.chunk_tokens, before.astype(np.int64), first, last)


def _parting(chunks: _Chunks, order: Ints) -> tuple[float, float]:
    """The gap that parts steps, the middle of those that are equally good, and the share of tokens against it."""
    own = np.diff(chunks.time_s)[np.diff(chunks.request) == 0]
    longest = float(np.median(own)) if own.size else 0.0
    gaps = np.geomspace(_SHORTEST_GAP_S, max(longest, 2 * _SHORTEST_GAP_S), _GAPS)
    against = np.array([_contradicted(chunks, _step_of(chunks, order, gap)) for gap in gaps])
    good = np.flatnonzero(against <= against.min() + _AS_GOOD)
    middle = good[len(good) // 2]
    return float(gaps[middle]), float(against[middle])


def _step_of(chunks: _Chunks, order: Ints, gap_s: float) -> Ints:
    """The step of each chunk (chunks,): no longer gap lies in one, and no request comes twice, but in long bursts."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    before = np.where(np.diff(chunks.request, prepend=-1) == 0, np.concatenate([[-1], place[:-1]]), -1)[order]
    begins = np.diff(chunks.time_s[order], prepend=-np.inf) > gap_s
    for _ in range(_MOST_IN_A_BURST):
        step = np.cumsum(begins) - 1
        again = np.flatnonzero((before >= 0) & (step[before] == step))
        if not again.size:
            break
        begins[again[np.diff(step[again], prepend=-1) > 0]] = True
    return np.asarray(step[place])


def _later(chunks: _Chunks, step: Ints) -> tuple[Ints, Ints]:
    """The places of chunks that are not the first of their request, and the steps since the one before (later,)."""
    later = np.flatnonzero(np.diff(chunks.request, prepend=-1) == 0)
    return later, step[later] - step[later - 1]


def _contradicted(chunks: _Chunks, step: Ints) -> float:
    """Steps in which a request that decodes has no token, over its tokens. A chunk of as many tokens as steps lacks
    none: the server sent tokens of several steps at once."""
    later, since = _later(chunks, step)
    lacking = np.where(since == chunks.tokens[later], 0, np.abs(since - 1))
    return float(lacking.sum() / max(len(later), 1))


def _tokens_each(chunks: _Chunks, step: Ints) -> float:
    later, since = _later(chunks, step)
    return float(chunks.tokens[later].sum() / max(int(since.sum()), 1))


def _decoding(chunks: _Chunks, prompts: Ints, step: Ints, count: int) -> tuple[Floats, Floats]:
    """Requests that decode in each step (steps,), and the tokens of KV cache that they read."""
    later, since = _later(chunks, step)
    place = np.repeat(later, since)
    back = np.arange(len(place)) - np.repeat(np.cumsum(since) - since, since)
    at = step[place - 1] + 1 + back
    read = prompts[chunks.request[place]] + chunks.before[place] + back * chunks.tokens[place] / np.repeat(since, since)
    return np.bincount(at, minlength=count).astype(float), np.bincount(at, read, count).astype(float)


def _smeared(time_s: Floats, step: Ints, duration_s: Floats) -> float:
    """Of nine in ten steps of several tokens, the longest gap between two is no longer than this share of a step."""
    within = np.flatnonzero(np.diff(step) == 0)
    if not within.size or not np.isfinite(duration_s).any():
        return 0.0
    gaps, of = np.diff(time_s)[within], step[within]
    longest = np.maximum.reduceat(gaps, np.flatnonzero(np.diff(of, prepend=-1)))
    return float(np.quantile(longest, 0.9) / np.nanmedian(duration_s))


def _prompts(
    requests: Requests,
    first_step: Ints,
    decoding: Floats,
    times_s: tuple[Floats, Floats],
    rules: Rules,
    before_s: float,
) -> tuple[Floats, Floats, Floats]:
    """Pieces of prompts, their tokens and their pairs, each per step. `decoding`: requests that decode in each.

    `times_s`: when steps began, NaN where one did not follow another at once, and ended. Pieces from before a step that
    did not are in no step that the client can see, whole ones but for the last.
    """
    pieces, tokens, pairs = (np.zeros(len(decoding)) for _ in range(3))
    whole = min(rules.max_num_batched_tokens, rules.long_prefill_token_threshold or rules.max_num_batched_tokens)
    room = np.clip(rules.max_num_batched_tokens - decoding, 1.0, whole)
    begun = np.flatnonzero(first_step >= 0)
    for one in begun[np.lexsort((requests.sent_ns[begun], first_step[begun]))]:
        last, left, done = int(first_step[one]), float(requests.input_tokens[one]), 0.0
        first = _first_piece(last, left, room, times_s, requests.sent_ns[one] / 1e9 + before_s)
        for each in range(first, last + 1):
            if each == last:
                is_unseen = not np.isfinite(times_s[0][last]) or left - done > whole
                done += whole * (np.ceil((left - done) / whole) - 1) if is_unseen else 0.0
            piece = left - done if each == last else min(room[each], left - done)
            if piece > 0:
                pieces[each] += 1
                tokens[each] += piece
                pairs[each] += piece * done + piece * (piece + 1) / 2
                room[each] = max(room[each] - piece, 0.0)
                done += piece
    return pieces, tokens, pairs


def _first_piece(last: int, left: float, room: Floats, times_s: tuple[Floats, Floats], ready_s: float) -> int:
    """The step with the first piece of a prompt of `left` tokens whose first token came with `last`: the first that
    began once it was there, and the first from which on it cannot have been done earlier."""
    begin_s, end_s = times_s
    first, held = last, 0.0
    while first > 0 and held + room[first - 1] < left:
        follows = np.isfinite(begin_s[first]) or (first == last and ready_s <= end_s[last - 1])
        is_needed = np.isfinite(begin_s[last]) and left - held > max(room[last], 1.0)
        if not follows or not (is_needed or begin_s[first - 1] >= ready_s):
            break
        first -= 1
        held += room[first]
    return first
