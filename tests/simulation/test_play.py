"""Schedules played in virtual time, and the figures of what they came to."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulated_material import LAW, spec_of
from twinlens.errors import BadInput
from twinlens.record.request import Requests
from twinlens.schedule.build import planned_load
from twinlens.simulation.engine import Engine
from twinlens.simulation.law import Affine, StepLaw, one
from twinlens.simulation.points.basis import Basis, binding, capacity
from twinlens.simulation.points.drive import drive
from twinlens.simulation.points.figures import figures_of, over_repeats
from twinlens.simulation.points.play import play
from twinlens.simulation.rules import Rules
from twinlens.spec.slo import Slo
from twinlens.spec.study import RunSpec
from twinlens.stats.summary.serving import look


def closed(concurrency: int, seconds: float = 20.0) -> RunSpec:
    data = spec_of(seconds=seconds).to_dict()
    data["workload"]["arrival"] = {"kind": "closed"}
    data["point"] |= {"rate_per_s": None, "concurrency": concurrency}
    return RunSpec.model_validate_json(json.dumps(data))


def test_rows_are_those_that_a_client_would_write() -> None:
    law = replace(one(0.010, 0.002), before_s=0.003, after_s=0.001)
    played = play(spec_of(0.05, seconds=100.0), law, Rules())
    first = played.table.to_pylist()[0]
    gaps = np.diff([first["intended_ns"], *first["chunk_ns"]]) / 1e9
    assert gaps == pytest.approx([0.003 + 0.012 + 0.001] + [0.012] * 15, abs=2e-9)
    assert first["chunk_tokens"] == [1] * 16
    assert (first["outcome"], first["sent_ns"], first["end_ns"]) == ("ok", first["intended_ns"], first["chunk_ns"][-1])


def test_a_schedule_driven_step_by_step_gives_the_rows_of_one_served_whole() -> None:
    spec = spec_of(20.0, seconds=20.0)
    whole = play(spec, LAW, Rules())
    stepped = drive(planned_load(spec).schedule, [Engine(Rules(), LAW)], LAW)
    ordered = Requests.from_table(stepped.table.sort_by("intended_ns"))
    whole_rows = Requests.from_table(whole.table)
    assert (ordered.offsets == whole_rows.offsets).all()
    assert np.abs(ordered.chunk_ns - whole_rows.chunk_ns).max() <= 1, "leaps hold to 1e-9 s"
    assert (stepped.preemptions, stepped.unfinished) == (0, 0)
    assert stepped.busy_s == pytest.approx(whole.busy_s, abs=1e-6)
    assert stepped.queue_s == pytest.approx(whole.queue_s, abs=1e-8)


def test_a_closed_loop_keeps_as_many_in_flight_as_it_says() -> None:
    requests = Requests.from_table(play(closed(4), LAW, Rules()).table)
    times = np.concatenate([requests.intended_ns, requests.end_ns])
    order = np.lexsort((np.repeat([1, 0], len(requests)), times))
    there = np.cumsum(np.repeat([1, -1], len(requests))[order])
    assert there.max() == 4
    rate = figures_of(play(closed(4), LAW, Rules()), None)["requests_per_s"]
    assert rate == pytest.approx(4 / (16 * (0.010 + 4 * 0.002)), rel=0.02)


@pytest.mark.parametrize("policy", [{"admission": "static", "batch": 4},
                                    {"admission": "dynamic", "batch": 4, "timeout_s": 0.05},
                                    {"admission": "continuous", "in_flight": 4}])  # fmt: skip
def test_every_admission_policy_serves_all_requests(policy: dict[str, Any]) -> None:
    played = play(spec_of(8.0, seconds=20.0, **policy), LAW, Rules())
    requests = Requests.from_table(played.table)
    assert requests.ok.all()
    assert (requests.released_ns >= requests.intended_ns).all()
    assert (requests.sent_ns >= requests.released_ns).all()


def test_figures_are_those_of_show() -> None:
    spec = spec_of(8.0, seconds=120.0)
    played = play(spec, LAW, Rules())
    window, metrics = look(Requests.from_table(played.table), spec)
    assert window is not None
    found = figures_of(played, None)
    for name in ("ttft_s_p50", "tpot_s_p50", "e2e_latency_s_p50", "ttft_s_p99"):
        assert found[name] == pytest.approx(metrics[name].value, rel=0.02), name


def test_a_request_that_never_ends_is_slower_than_any() -> None:
    played = play(spec_of(200.0, seconds=5.0), LAW, Rules(max_num_seqs=2), horizon_s=6.0)
    assert played.unfinished > 100
    outcomes = played.table.column("outcome").to_pylist()
    assert outcomes.count("failed") == played.unfinished
    assert len(outcomes) == outcomes.count("ok") + outcomes.count("failed")
    figures = figures_of(played, Slo(ttft_s=1.0, quantile=0.9))
    assert figures["e2e_latency_s_p99"] == np.inf
    assert figures["slo_attainment"] < 0.5
    assert over_repeats([figures] * 2, False)["e2e_latency_s_p99"].reason == (
        "too many requests never ended: it is overloaded"
    )


def test_a_request_beyond_the_context_is_refused() -> None:
    played = play(spec_of(2.0, seconds=5.0), LAW, Rules(max_model_len=70))
    assert set(played.table.column("outcome").to_pylist()) == {"refused"}
    assert played.queue_s is None


@settings(max_examples=8, deadline=None)
@given(
    seats=st.integers(1, 40), fixed=st.floats(0.02, 0.05), row=st.floats(0.0001, 0.01),
    context=st.floats(0, 1e-6), token=st.floats(0, 1e-5),
)  # fmt: skip
def test_capacity_is_what_a_full_engine_serves(
    seats: int, fixed: float, row: float, context: float, token: float
) -> None:
    law, rules = one(fixed, row, context, token), Rules(max_num_seqs=seats)
    prompts, outputs = np.full(10, 64), np.full(10, 16)
    rate, _ = capacity(law, rules, prompts, outputs)
    found = figures_of(play(closed(seats), law, rules), None)["requests_per_s"]
    assert found == pytest.approx(rate, rel=0.1, abs=0.2)


def test_capacity_is_bounded_by_seats_blocks_or_tokens() -> None:
    prompts, outputs = np.full(4, 96), np.full(4, 32)
    limits = {
        Rules(max_num_seqs=3): "max_num_seqs",
        Rules(num_gpu_blocks=16): "num_gpu_blocks",
        Rules(max_num_batched_tokens=8): "max_num_batched_tokens",
    }
    assert [capacity(LAW, rules, prompts, outputs)[1].limit for rules in limits] == list(limits.values())


def test_a_step_is_bound_by_the_largest_term_of_the_slower_part() -> None:
    law = StepLaw((Affine(0.001, row_s=0.001), Affine(0.004, context_s=1e-6)))
    found = binding(law, rows=8, context=10_000, tokens=0, pairs=0)
    assert found.step_s == pytest.approx(0.014)
    assert (found.largest, found.shares["context"]) == ("context", pytest.approx(10 / 14))
    assert binding(law, rows=100, context=0, tokens=0, pairs=0).largest == "rows"


def test_repeats_see_draws_from_fast_to_slow() -> None:
    basis = Basis(LAW, draws=tuple(one(0.001 * place) for place in (5, 1, 4, 2, 3)))
    fixed = [basis.drawn(place, 5).parts[0].fixed_s for place in range(5)]
    assert fixed == pytest.approx([0.001, 0.002, 0.003, 0.004, 0.005])
    assert basis.drawn(0, 1).parts[0].fixed_s == pytest.approx(0.003)


def test_twice_the_bandwidth_halves_what_the_memory_takes() -> None:
    fast = Basis(one(0.010, 0.001, 1e-6, 1e-5)).faster(bandwidth=2.0)
    fixed = sorted(each.parts[0].fixed_s for each in fast.draws)
    assert fixed[0] == pytest.approx(0.005)
    assert fixed[-1] == pytest.approx(0.010)
    assert {each.parts[0].context_s for each in fast.draws} == {5e-7}
    assert {each.parts[0].row_s for each in fast.draws} == {0.001}
    assert "bandwidth × 2" in fast.doubts[-1]


@pytest.mark.parametrize(("change", "why"), [
    ({"arrival": {"kind": "lockstep"}}, "lockstep batches have no arrivals"),
    ({"task": {"kind": "embed", "texts": 1}}, "requests to embed cannot be simulated"),
])  # fmt: skip
def test_a_workload_without_requests_that_make_tokens_is_refused(change: dict[str, Any], why: str) -> None:
    data = spec_of().to_dict()
    data["workload"] |= change
    data["point"]["rate_per_s"] = None if "arrival" in change else 8.0
    with pytest.raises(BadInput, match=why):
        play(RunSpec.model_validate_json(json.dumps(data)), LAW, Rules())
