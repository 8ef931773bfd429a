"""A schedule played in virtual time: requests into an engine as they are due, and rows as a client would write them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from twinlens.errors import BadInput
from twinlens.record.request import REQUEST_SCHEMA
from twinlens.schedule.build import planned_load
from twinlens.schedule.plan import NONE, Plan
from twinlens.simulation.engine import Engine
from twinlens.simulation.fleet import serve_fleet, times
from twinlens.simulation.law import StepLaw
from twinlens.simulation.noise import Noise
from twinlens.simulation.points.drive import drive
from twinlens.simulation.points.fleet import Fleet, refuse_waiting
from twinlens.simulation.points.played import NS, STOPPED, TOO_LONG, Played, engine_time
from twinlens.simulation.pools import Link, Pooled, serve_pools
from twinlens.simulation.routing import Router
from twinlens.simulation.rules import Rules
from twinlens.simulation.serve import serve
from twinlens.simulation.work import DONE, REFUSED, UNFINISHED, Floats, Ints, Served, Work, all_token_times_s
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.precision import AS_SERVED, BITS
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.theory.memory import kv_bytes_per_token


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
        refuse_waiting(spec, known, fleet)
        members, routing = fleet.members(law, rules, noise), fleet.routing(spec.seed)
        if not known:
            engines = [
                Engine(each.rules, times(each.law, each.slow), each.noise, number=place)
                for place, each in enumerate(members)
            ]
            return drive(load.schedule, engines, law, horizon_s, Router(routing))
        assert load.plan is not None
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
    return drive(load.schedule, [Engine(rules, law, noise)], law, horizon_s)


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
    arrival_s = plan.intended_ns / NS + law.before_s
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
    # Two sums of one way differ in their last digits: what is below a picosecond is no wait.
    wait_s = np.round(found.there_s - found.ready_s - found.alone_s, 12)
    figures = {
        "prefill_busy_share": first.busy_s / whole.span_s if whole.span_s else 0.0,
        "decode_busy_share": second.busy_s / whole.span_s if whole.span_s else 0.0,
        "transfer_s": _mean((found.there_s - found.ready_s)[there]),
        "transfer_wait_s": _mean(wait_s[there]),
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
    times = [engine_time(served.start_s[it], served.end_s[it], span_s, rules.max_num_seqs) for it in of_engines]
    busy_s, full_s = (sum(each) / replicas for each in zip(*times, strict=True)) if times else (0.0, 0.0)
    return _Engines(sum(map(len, logs)), span_s, busy_s, full_s)


def _played(
    table: pa.Table, plan: Plan, served: Served, engines: _Engines, pools: Mapping[str, float] | None = None
) -> Played:
    started = ~np.isnan(served.start_s)
    queue = served.start_s[started] - plan.intended_ns[started] / NS
    return Played(
        table, int(served.preemptions.sum()), int(served.cached_tokens.sum()),
        float(queue.mean()) if len(queue) else None, int((served.outcome == UNFINISHED).sum()),
        engines.steps, engines.busy_s, engines.span_s, engines.full_s / engines.span_s if engines.span_s else 0.0,
        pools or {},
    )  # fmt: skip


def rows_of_served(plan: Plan, numbers: Ints, served: Served, law: StepLaw, horizon_s: float | None) -> pa.Table:
    """Rows of requests that were served, as columns. `numbers`: of each, in the whole schedule. Shape: (requests,)."""
    times_s, offsets = all_token_times_s(served)
    times_ns = np.floor((times_s + law.after_s) * NS).astype(np.int64)
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
    return last if horizon_s is None else max(last, math.floor(horizon_s * NS))


def _table(columns: Mapping[str, object], count: int) -> pa.Table:
    made = [
        pa.nulls(count, field.type) if columns.get(field.name) is None else pa.array(columns[field.name], field.type)
        for field in REQUEST_SCHEMA
    ]
    return pa.Table.from_arrays(made, schema=REQUEST_SCHEMA)
