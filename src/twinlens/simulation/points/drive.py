"""A schedule whose next request may wait for an answer, played by one engine or by several behind a router."""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Sequence as Several
from itertools import pairwise

import numpy as np
import pyarrow as pa

from twinlens.record.arrow import batch_of
from twinlens.record.request import REQUEST_SCHEMA, Request
from twinlens.schedule.request import Schedule, ScheduledRequest, request_of
from twinlens.simulation.engine import Engine
from twinlens.simulation.law import StepLaw
from twinlens.simulation.points.played import NS, STOPPED, TOO_LONG, Played, engine_time
from twinlens.simulation.routing import Router
from twinlens.simulation.state.sequence import Sequence
from twinlens.simulation.work import REFUSED, Floats

Asked = tuple[ScheduledRequest, int, Sequence, int]
"""A request, when it was sent (ns), what an engine makes of it, and which engine."""


def drive(
    schedule: Schedule,
    engines: Several[Engine],
    law: StepLaw,
    horizon_s: float | None = None,
    router: Router | None = None,
) -> Played:
    """Step by step, telling the schedule what has ended; a router chooses among several engines.

    An answer is there `after_s` after the step that ended it, and what it releases reaches an engine `before_s` later.
    """
    asked, open_ = list[Asked](), dict[tuple[int, int], Asked]()
    ended_s: list[list[float]] = [[] for _ in engines]
    until_s = math.inf if horizon_s is None else horizon_s

    def load(place: int) -> float:
        """Requests of an engine, those whose last step is under way among them."""
        ended_s[place] = [each for each in ended_s[place] if each > now_s]
        return len(engines[place].running) + len(engines[place].waiting) + len(ended_s[place])

    while True:
        due_ns = schedule.next_due_ns()
        due_s = math.inf if due_ns is None else due_ns / NS + law.before_s
        at_s, place = min((engine.next_s, place) for place, engine in enumerate(engines))
        if due_ns is None and at_s == math.inf:
            for engine in engines:
                engine.close()  # a batch that waits for more starts as it is
            at_s, place = min((engine.next_s, place) for place, engine in enumerate(engines))
        if min(due_s, at_s) >= until_s:
            break
        if due_ns is not None and due_s <= at_s:
            for scheduled in schedule.due(due_ns):
                # A gate says when it let a request go, which it may find out later than that.
                sent_ns = scheduled.intended_ns if scheduled.released_ns is None else scheduled.released_ns
                now_s = sent_ns / NS + law.before_s
                group, shared = _prefix(scheduled)
                place = router.choose(range(len(engines)), now_s, group, load) if router else 0
                engines[place].run_until(now_s)
                added = engines[place].add(
                    now_s, scheduled.input_tokens, scheduled.output_tokens, group=group, shared=shared
                )
                one = scheduled, sent_ns, added, place
                asked.append(one)
                open_[place, added.number] = one
        else:
            engines[place].run_until(math.nextafter(at_s, math.inf))
        for place, engine in enumerate(engines):
            for ended in engine.finished:
                scheduled, sent_ns, _, _ = open_.pop((place, ended.number))
                ended_s[place].append(ended.end_s)
                schedule.done(_row(scheduled, sent_ns, ended, law))
            engine.finished.clear()
    return _played(asked, open_.values(), engines, law, until_s)


def _prefix(scheduled: ScheduledRequest) -> tuple[int, int]:
    """Group and tokens of a prompt that others begin with too: turns of one session are each the beginning of the next
    one's prompt; other requests may share a prefix."""
    if scheduled.session is not None and scheduled.turn is not None:
        return scheduled.session, scheduled.input_tokens
    return (-1, 0) if scheduled.prefix_id is None else (scheduled.prefix_id, scheduled.prefix_tokens)


def _played(
    asked: Several[Asked], open_: Iterable[Asked], engines: Several[Engine], law: StepLaw, until_s: float
) -> Played:
    last_s = max(engine.now_s for engine in engines)
    stop_ns = math.floor(min(until_s, max(last_s, 0.0)) * NS)
    ends_s = [engine.ends.written() if engine.ends is not None else np.empty(0) for engine in engines]
    left = {id(sequence) for _, _, sequence, _ in open_}
    rows = [
        _unfinished(scheduled, sent_ns, stop_ns)
        if id(sequence) in left
        else _row(scheduled, sent_ns, sequence, law, ends_s[place])
        for scheduled, sent_ns, sequence, place in asked
    ]
    waits = [
        sequence.start_s - scheduled.intended_ns / NS
        for scheduled, _, sequence, _ in asked
        if not math.isnan(sequence.start_s)
    ]
    full_s = [
        engine_time(times_s[:, 0], times_s[:, 1], last_s, engine.rules.max_num_seqs)[1]
        for number, engine in enumerate(engines)
        for times_s in [np.array([[s.start_s, s.end_s] for _, _, s, place in asked if place == number]).reshape(-1, 2)]
    ]
    sequences, count = [sequence for _, _, sequence, _ in asked], len(engines)
    table = pa.Table.from_batches([batch_of([_plain(row) for row in rows], REQUEST_SCHEMA)], REQUEST_SCHEMA)
    return Played(
        table, sum(each.preemptions for each in sequences), sum(each.cached for each in sequences),
        sum(waits) / len(waits) if waits else None, len(left), sum(engine.steps for engine in engines),
        sum(engine.busy_s for engine in engines) / count, last_s, sum(full_s) / count / last_s if last_s else 0.0,
    )  # fmt: skip


def _row(
    scheduled: ScheduledRequest, sent_ns: int, ended: Sequence, law: StepLaw, ends_s: Floats | None = None
) -> Request:
    """`ends_s` (steps,): of the engine's steps; None: a row without chunks, with the end that a schedule waits for."""
    if ended.outcome == REFUSED:
        return request_of(scheduled, sent_ns=sent_ns, chunk_ns=(), chunk_tokens=(), end_ns=sent_ns, output_tokens=0,
                          outcome="refused", error=TOO_LONG)  # fmt: skip
    end_ns = math.floor((ended.end_s + law.after_s) * NS)
    if ends_s is None:
        return request_of(scheduled, sent_ns=sent_ns, chunk_ns=(), chunk_tokens=(), end_ns=end_ns)
    times = [math.floor((each + law.after_s) * NS) for each in ends_s[ended.come()].tolist()]
    so_far = [0, *ended.by_moment()]
    tokens = tuple(after - before for before, after in pairwise(so_far))
    return request_of(scheduled, sent_ns=sent_ns, chunk_ns=(*times[:-1], end_ns), chunk_tokens=tokens, end_ns=end_ns)


def _unfinished(scheduled: ScheduledRequest, sent_ns: int, stop_ns: int) -> Request:
    return request_of(scheduled, sent_ns=sent_ns, chunk_ns=(), chunk_tokens=(), end_ns=max(sent_ns, stop_ns),
                      output_tokens=0, outcome="failed", error=STOPPED)  # fmt: skip


def _plain(row: Request) -> dict[str, object]:
    return {name: getattr(row, name) for name in REQUEST_SCHEMA.names}
