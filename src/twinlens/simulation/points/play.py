"""A schedule played in virtual time: requests into an engine as they are due, and rows as a client would write them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from twinlens.errors import BadInput
from twinlens.record.arrow import batch_of
from twinlens.record.request import REQUEST_SCHEMA, Request
from twinlens.schedule.build import planned_load
from twinlens.schedule.plan import NONE, Plan
from twinlens.schedule.request import Schedule, ScheduledRequest, request_of
from twinlens.simulation.engine import Engine
from twinlens.simulation.fleet import serve_fleet
from twinlens.simulation.law import StepLaw
from twinlens.simulation.noise import Noise
from twinlens.simulation.points.fleet import Fleet, refuse_waiting
from twinlens.simulation.pools import Link, Pooled, serve_pools
from twinlens.simulation.rules import Rules
from twinlens.simulation.serve import serve
from twinlens.simulation.state.sequence import Sequence
from twinlens.simulation.work import DONE, REFUSED, UNFINISHED, Floats, Ints, Served, Work, all_token_times_s
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.precision import AS_SERVED, BITS
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.theory.memory import kv_bytes_per_token

TOO_LONG = "longer than the context that the engine takes"
STOPPED = "under way when the simulation was stopped"
_NS = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """Rows with REQUEST_SCHEMA. `preemptions`: of all requests; `cached_tokens`: of prompts, that a prefix cache had.

    `queue_s`: mean seconds between the moment when a request was due and its first step, None where nothing started.
    `unfinished`: requests under way at the horizon. `steps`: of the engine, in `busy_s` of the `span_s` until its last
    step. `full`: the share of `span_s` in which as many requests ran as may. Of a fleet, `steps` are of all replicas,
    `busy_s` and `full` their mean. `pools`: figures of pools by their id, where there are two.
    """

    table: pa.Table
    preemptions: int
    cached_tokens: int
    queue_s: float | None
    unfinished: int
    steps: int
    busy_s: float
    span_s: float
    full: float
    pools: Mapping[str, float] = field(default_factory=dict)


def play(
    spec: RunSpec,
    law: StepLaw,
    rules: Rules,
    *,
    noise: Noise | None = None,
    horizon_s: float | None = None,
    fleet: Fleet | None = None,
) -> Played:
    """The load of a run, served by one engine or by a fleet.

    Raises BadInput (TL250) for a workload without arrivals or tokens, and for a fleet whose load waits for answers.
    """
    refuse_unplayable(spec)
    load = planned_load(spec)
    known = load.plan is not None and not (load.plan.intended_ns == NONE).any()
    if fleet is not None:
        refuse_waiting(spec, known)
        assert load.plan is not None
        members, routing = fleet.members(law, rules, noise), fleet.routing(spec.seed)
        if fleet.prefill:
            link = Link(kv_token_bytes(spec), fleet.link_bytes_per_s, shared=True)
            prompts, answers = members[: fleet.prefill], members[fleet.prefill :]
            pooled = serve_pools(work_of(load.plan, law), prompts, answers, link, routing, horizon_s=horizon_s)
            return _pooled(load.plan, pooled, law, rules, horizon_s, fleet)
        served = serve_fleet(work_of(load.plan, law), members, routing, horizon_s=horizon_s)
        return _settled(load.plan, served, law, rules, horizon_s, fleet.replicas)
    if load.plan is not None and known and spec.point.admission is None:
        served = serve(work_of(load.plan, law), law, rules, noise=noise, horizon_s=horizon_s)
        return _settled(load.plan, served, law, rules, horizon_s)
    return drive(load.schedule, Engine(rules, law, noise), law, horizon_s)


def refuse_unplayable(spec: RunSpec) -> None:
    """Raises BadInput (TL250) for what has no requests with tokens that come by a schedule."""
    workload = spec.workload
    if not isinstance(workload, InferenceWorkload):
        raise BadInput(f"the spec is of {spec.lens}: `simulate` knows inference and training; give one of those",
                       code="TL250")  # fmt: skip
    if workload.arrival.kind == "lockstep":
        raise BadInput("lockstep batches have no arrivals to simulate: set workload.arrival.kind, such as poisson",
                       code="TL250")  # fmt: skip
    if workload.task.kind != "generate" or workload.output_tokens.kind == "free":
        what = "answers of free length" if workload.task.kind == "generate" else f"requests to {workload.task.kind}"
        raise BadInput(f"{what} cannot be simulated: the law is of steps that make tokens, so many for each request",
                       code="TL250")  # fmt: skip


def kv_token_bytes(spec: RunSpec) -> float:
    """KV cache of one token, at the precision of the point. Raises BadInput (TL250) for a model that keeps none."""
    shape = spec.model.shape
    if not isinstance(shape, DecoderShape):
        raise BadInput(f"{spec.workload.model} is no decoder whose KV cache is known: leave --pools out", code="TL250")
    formats = {} if spec.precision == AS_SERVED else spec.precision.classes("inference")
    return float(kv_bytes_per_token(shape, BITS[formats.get("kv", "bf16")] / 8))


def work_of(plan: Plan, law: StepLaw) -> Work:
    """The requests of a plan whose times are known, as they reach the engine."""
    arrival_s = plan.intended_ns / _NS + law.before_s
    known = plan.prefix_id is not None and plan.prefix_tokens is not None
    return Work(
        arrival_s, plan.input_tokens, plan.output_tokens,
        group=plan.prefix_id if known else None, shared_tokens=plan.prefix_tokens if known else None,
    )  # fmt: skip


def _settled(
    plan: Plan, served: Served, law: StepLaw, rules: Rules, horizon_s: float | None, replicas: int = 1
) -> Played:
    """Rows of a plan that was served, and what its engines did."""
    table = rows_of_served(plan, np.arange(len(plan)) + plan.first_number, served, law, horizon_s)
    return _played(table, plan, served, _engines(served, rules, replicas))


def _pooled(plan: Plan, found: Pooled, law: StepLaw, rules: Rules, horizon_s: float | None, fleet: Fleet) -> Played:
    """The same of two pools, with what the link and each pool did."""
    table = rows_of_served(plan, np.arange(len(plan)) + plan.first_number, found.whole, law, horizon_s)
    first, second = (
        _engines(served, rules, count)
        for served, count in ((found.prefill, fleet.prefill), (found.decode, fleet.replicas - fleet.prefill))
    )
    whole = first.beside(second, fleet.prefill / fleet.replicas)
    there = found.there_s <= (math.inf if horizon_s is None else horizon_s)
    waited_s = found.decode.start_s - found.there_s
    figures = {
        "prefill_busy_share": first.busy_s / whole.span_s if whole.span_s else 0.0,
        "decode_busy_share": second.busy_s / whole.span_s if whole.span_s else 0.0,
        "transfer_s": _mean((found.there_s - found.ready_s)[there]),
        "transfer_wait_s": _mean(np.round(found.there_s - found.ready_s - found.alone_s, 12)[there]),
        "decode_queue_s": _mean(waited_s[~np.isnan(waited_s)]),
    }
    return _played(table, plan, found.whole, whole, figures)


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan


@dataclass(frozen=True, slots=True)
class _Engines:
    """What engines did: steps of all of them; seconds until the last one, busy and with every seat taken, of each."""

    steps: int
    span_s: float
    busy_s: float
    full_s: float

    def beside(self, other: _Engines, share: float) -> _Engines:
        """Both together. `share`: of the engines that are here."""
        busy_s, full_s = (
            share * getattr(self, name) + (1 - share) * getattr(other, name) for name in ("busy_s", "full_s")
        )
        return _Engines(self.steps + other.steps, max(self.span_s, other.span_s), busy_s, full_s)


def _engines(served: Served, rules: Rules, replicas: int) -> _Engines:
    logs = served.tokens.step_end_s if served.tokens is not None else ()
    span_s = max((float(ends[-1]) for ends in logs if len(ends)), default=0.0)
    of_engines = [served.engine == place for place in range(len(logs))]
    times = [_engine_time(served.start_s[it], served.end_s[it], span_s, rules.max_num_seqs) for it in of_engines]
    busy_s, full_s = (sum(each) / replicas for each in zip(*times, strict=True)) if times else (0.0, 0.0)
    return _Engines(sum(map(len, logs)), span_s, busy_s, full_s)


def _played(
    table: pa.Table, plan: Plan, served: Served, engines: _Engines, pools: Mapping[str, float] | None = None
) -> Played:
    started = ~np.isnan(served.start_s)
    queue = served.start_s[started] - plan.intended_ns[started] / _NS
    return Played(
        table, int(served.preemptions.sum()), int(served.cached_tokens.sum()),
        float(queue.mean()) if len(queue) else None, int((served.outcome == UNFINISHED).sum()),
        engines.steps, engines.busy_s, engines.span_s, engines.full_s / engines.span_s if engines.span_s else 0.0,
        pools or {},
    )  # fmt: skip


def rows_of_served(plan: Plan, numbers: Ints, served: Served, law: StepLaw, horizon_s: float | None) -> pa.Table:
    """Rows of requests that were served, as columns. `numbers`: of each, in the whole schedule. Shape: (requests,)."""
    times_s, offsets = all_token_times_s(served)
    times_ns = np.floor((times_s + law.after_s) * _NS).astype(np.int64)
    starts, chunk_tokens, chunks = _chunks(times_ns, offsets)
    chunk_ns = times_ns[starts]
    done, refused = served.outcome == DONE, served.outcome == REFUSED
    stop_ns = _stop_ns(chunk_ns, plan, horizon_s)
    last_ns = np.where(np.diff(chunks) > 0, chunk_ns[np.maximum(chunks[1:] - 1, 0)] if len(chunk_ns) else 0, stop_ns)
    end_ns = np.where(done, last_ns, np.where(refused, plan.intended_ns, stop_ns))
    outcome = np.array(["refused", "failed", "ok"])[_place(served.outcome)]
    error = np.array([TOO_LONG, STOPPED, None], dtype=object)[_place(served.outcome)]
    columns: dict[str, pa.Array] = {
        "group": numbers, "intended_ns": plan.intended_ns, "sent_ns": plan.intended_ns,
        "chunk_ns": pa.ListArray.from_arrays(chunks.astype(np.int32), chunk_ns),
        "chunk_tokens": pa.ListArray.from_arrays(chunks.astype(np.int32), pa.array(chunk_tokens, pa.int32())),
        "end_ns": np.maximum(end_ns, plan.intended_ns), "input_tokens": plan.input_tokens,
        "output_tokens": np.diff(offsets), "outcome": outcome, "asked_tokens": plan.output_tokens,
        "session": plan.session, "turn": plan.turn, "error": error,
    }  # fmt: skip
    return _table(columns, len(plan))


def _engine_time(start_s: Floats, end_s: Floats, stop_s: float, seats: int) -> tuple[float, float]:
    """Seconds in which at least one request was in the engine, and in which `seats` were."""
    started = ~np.isnan(start_s)
    begins, ends = start_s[started], np.nan_to_num(end_s[started], nan=stop_s)
    times = np.concatenate([begins, ends])
    order = np.argsort(times, kind="stable")
    there = np.cumsum(np.repeat([1, -1], [len(begins), len(ends)])[order])
    lasts = np.diff(times[order], append=times.max(initial=0.0))
    return float(lasts[there > 0].sum()), float(lasts[there >= seats].sum())


def _place(outcome: Ints) -> Ints:
    places = np.zeros(3, dtype=np.int64)
    places[[REFUSED, UNFINISHED, DONE]] = 0, 1, 2
    return places[outcome]


def _chunks(times_ns: Ints, offsets: Ints) -> tuple[Ints, Ints, Ints]:
    """Tokens of one request that come at one moment are one chunk: first token and tokens of each, and of each request
    the first chunk. Shapes: (chunks,), (chunks,), (requests + 1,)."""
    begins = np.ones(len(times_ns), dtype=bool)
    begins[1:] = times_ns[1:] != times_ns[:-1]
    begins[offsets[:-1][np.diff(offsets) > 0]] = True
    starts = np.flatnonzero(begins)
    return starts, np.diff(np.append(starts, len(times_ns))), np.searchsorted(starts, offsets)


def _stop_ns(chunk_ns: Ints, plan: Plan, horizon_s: float | None) -> int:
    last = max(int(chunk_ns.max(initial=0)), int(plan.intended_ns.max(initial=0)))
    return last if horizon_s is None else max(last, math.floor(horizon_s * _NS))


def _table(columns: Mapping[str, object], count: int) -> pa.Table:
    made = [
        pa.nulls(count, field.type) if columns.get(field.name) is None else pa.array(columns[field.name], field.type)
        for field in REQUEST_SCHEMA
    ]
    return pa.Table.from_arrays(made, schema=REQUEST_SCHEMA)


def drive(schedule: Schedule, engine: Engine, law: StepLaw, horizon_s: float | None = None) -> Played:
    """A schedule whose next request may wait for an answer: step by step, telling it what has ended.

    An answer is there `after_s` after the step that ended it, and what it releases reaches the engine `before_s` later.
    """
    over, started = list[tuple[ScheduledRequest, int, Sequence]](), list[tuple[Sequence, float]]()
    open_ = dict[int, tuple[ScheduledRequest, int]]()
    until_s = math.inf if horizon_s is None else horizon_s
    while True:
        due_ns = schedule.next_due_ns()
        due_s = math.inf if due_ns is None else due_ns / _NS + law.before_s
        if due_ns is None and engine.next_s == math.inf:
            engine.close()  # a batch that waits for more starts as it is
        at_s = engine.next_s
        if min(due_s, at_s) >= until_s:
            break
        if due_ns is not None and due_s <= at_s:
            for scheduled in schedule.due(due_ns):
                # A gate says when it let a request go, which it may find out later than that.
                sent_ns = scheduled.intended_ns if scheduled.released_ns is None else scheduled.released_ns
                added = _add(engine, scheduled, sent_ns / _NS + law.before_s)
                open_[added.number] = scheduled, sent_ns
                started.append((added, scheduled.intended_ns / _NS))
        else:
            engine.run_until(math.nextafter(at_s, math.inf))
        for ended in engine.finished:
            scheduled, sent_ns = open_.pop(ended.number)
            schedule.done(_row(scheduled, sent_ns, ended, law))
            over.append((scheduled, sent_ns, ended))
        engine.finished.clear()
    stop_ns = math.floor(min(until_s, max(engine.now_s, 0.0)) * _NS)
    ends_s = engine.ends.written() if engine.ends is not None else np.empty(0)
    rows = [_row(*each, law, ends_s) for each in over]
    rows += [_unfinished(scheduled, sent_ns, stop_ns) for scheduled, sent_ns in open_.values()]
    sequences = [each for each, _ in started]
    waits = [each.start_s - due for each, due in started if not math.isnan(each.start_s)]
    times_s = np.array([[each.start_s, each.end_s] for each in sequences]).reshape(-1, 2)
    _, full_s = _engine_time(times_s[:, 0], times_s[:, 1], engine.now_s, engine.rules.max_num_seqs)
    table = pa.Table.from_batches([batch_of([_plain(row) for row in rows], REQUEST_SCHEMA)], REQUEST_SCHEMA)
    return Played(
        table, sum(each.preemptions for each in sequences), sum(each.cached for each in sequences),
        sum(waits) / len(waits) if waits else None, len(open_), engine.steps, engine.busy_s, engine.now_s,
        full_s / engine.now_s if engine.now_s else 0.0,
    )  # fmt: skip


def _add(engine: Engine, scheduled: ScheduledRequest, at_s: float) -> Sequence:
    """Turns of one session are each the beginning of the next one's prompt; other requests may share a prefix."""
    if scheduled.session is not None and scheduled.turn is not None:
        group, shared = scheduled.session, scheduled.input_tokens
    elif scheduled.prefix_id is not None:
        group, shared = scheduled.prefix_id, scheduled.prefix_tokens
    else:
        group, shared = -1, 0
    engine.run_until(at_s)
    return engine.add(at_s, scheduled.input_tokens, scheduled.output_tokens, group=group, shared=shared)


def _row(
    scheduled: ScheduledRequest, sent_ns: int, ended: Sequence, law: StepLaw, ends_s: Floats | None = None
) -> Request:
    """`ends_s` (steps,): of the engine's steps; None: a row without chunks, with the end that a schedule waits for."""
    if ended.outcome == REFUSED:
        return request_of(scheduled, sent_ns=sent_ns, chunk_ns=(), chunk_tokens=(), end_ns=sent_ns, output_tokens=0,
                          outcome="refused", error=TOO_LONG)  # fmt: skip
    end_ns = math.floor((ended.end_s + law.after_s) * _NS)
    if ends_s is None:
        return request_of(scheduled, sent_ns=sent_ns, chunk_ns=(), chunk_tokens=(), end_ns=end_ns)
    times = [math.floor((each + law.after_s) * _NS) for each in ends_s[ended.come()].tolist()]
    so_far = [0, *ended.by_moment()]
    tokens = tuple(after - before for before, after in pairwise(so_far))
    return request_of(scheduled, sent_ns=sent_ns, chunk_ns=(*times[:-1], end_ns), chunk_tokens=tokens, end_ns=end_ns)


def _unfinished(scheduled: ScheduledRequest, sent_ns: int, stop_ns: int) -> Request:
    return request_of(scheduled, sent_ns=sent_ns, chunk_ns=(), chunk_tokens=(), end_ns=max(sent_ns, stop_ns),
                      output_tokens=0, outcome="failed", error=STOPPED)  # fmt: skip


def _plain(row: Request) -> dict[str, object]:
    return {name: getattr(row, name) for name in REQUEST_SCHEMA.names}
