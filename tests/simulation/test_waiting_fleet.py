"""A fleet whose load waits for answers: sessions, and so many requests in flight."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from simulated_material import LAW, spec_of
from twinlens.record.request import Requests
from twinlens.schedule.build import planned_load
from twinlens.simulation.engine import Engine
from twinlens.simulation.points.drive import drive
from twinlens.simulation.points.fleet import Fleet
from twinlens.simulation.points.play import play
from twinlens.simulation.routing import Policy, Router
from twinlens.simulation.rules import Rules
from twinlens.spec.study import RunSpec


def changed(spec: RunSpec, **workload: Any) -> RunSpec:
    data = spec.to_dict()
    data["workload"] |= workload
    if workload.get("arrival") == {"kind": "closed"}:
        data["point"] |= {"rate_per_s": None, "concurrency": 8}
    return RunSpec.model_validate_json(json.dumps(data))


CLOSED = changed(spec_of(seconds=10.0), arrival={"kind": "closed"})
SESSIONS = changed(spec_of(1.0, seconds=20.0), sessions={"turns": {"kind": "fixed", "value": 4}, "think_s": 0.2})


@pytest.mark.parametrize("policy", ["round-robin", "random", "shortest-queue", "two-choices"])
def test_a_schedule_that_waits_for_nobody_is_routed_as_one_that_is_served_whole(policy: Policy) -> None:
    spec, fleet = spec_of(20.0, seconds=10.0), Fleet(3, policy)
    whole = Requests.from_table(play(spec, LAW, Rules(), fleet=fleet).table)
    engines = [Engine(Rules(), LAW, number=place) for place in range(3)]
    driven = drive(planned_load(spec).schedule, engines, LAW, router=Router(fleet.routing(spec.seed)))
    stepped = Requests.from_table(driven.table.sort_by("intended_ns"))
    assert (stepped.offsets == whole.offsets).all()
    assert np.abs(stepped.chunk_ns - whole.chunk_ns).max() <= 1


def test_so_many_in_flight_are_spread_over_replicas_by_turns() -> None:
    one, two = (play(CLOSED, LAW, Rules(), fleet=fleet) for fleet in (None, Fleet(2, "shortest-queue")))
    alone, shared = Requests.from_table(one.table), Requests.from_table(two.table)
    step_s = [LAW.seconds(rows, 0.0) for rows in (8, 4)]
    assert len(shared) / len(alone) == pytest.approx(step_s[0] / step_s[1], rel=0.1)
    times = np.concatenate([shared.intended_ns, shared.end_ns])
    there = np.cumsum(np.repeat([1, -1], len(shared))[np.lexsort((np.repeat([1, 0], len(shared)), times))])
    assert there.max() == 8


def test_a_session_goes_where_its_prefix_is_cached() -> None:
    rules = Rules(enable_prefix_caching=True)
    homed, spread = (play(SESSIONS, LAW, rules, fleet=Fleet(4, policy)) for policy in ("prefix", "random"))
    assert set(homed.table.column("outcome").to_pylist()) == {"ok"}
    assert homed.table.num_rows == spread.table.num_rows
    assert homed.cached_tokens > 1.5 * spread.cached_tokens
    rows = homed.table.sort_by([("session", "ascending"), ("turn", "ascending")]).to_pylist()
    for before, after in pairwise(rows):
        if before["session"] == after["session"]:
            assert after["intended_ns"] >= before["end_ns"], "a turn waits for the answer before it"
