"""`simulate` with replicas: one is the engine, more serve more, the smallest is found, what none can is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import twinlens as tl
from simulated_material import LAW
from twinlens.api.simulating.fleets import POLICIES, engines_of
from twinlens.api.simulating.simulate import SimulateResult
from twinlens.cli.main import app
from twinlens.errors import BadInput
from twinlens.simulation.points.fleet import Fleet
from twinlens.simulation.points.play import play
from twinlens.simulation.points.smallest import cost, headroom, keeps_surely
from twinlens.simulation.rules import Rules
from twinlens.spec.slo import Slo
from twinlens.spec.study import RunSpec

TABLE = 'fixed_s = 0.012\nrow_s = 0.0004\ntoken_s = 1e-4\nbefore_s = 0.002\nsource = "by hand"\n'


@pytest.fixture(scope="module")
def law(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("law") / "law.toml"
    file.write_text(TABLE)
    return file


@pytest.fixture(scope="module")
def searched(law: Path) -> SimulateResult:
    return simulated(law, 60, replicas="search", seeds=2, price="2.50")


def simulated(law: Path, rate: float, **words: Any) -> SimulateResult:
    said: dict[str, Any] = {"seeds": 1, "dry": True, "set_": ["protocol.duration_s=5"], **words}
    return tl.simulate("chat", law=law, at=[f"rate_per_s={rate}"], **said)


def chat(rate: float) -> RunSpec:
    spec = tl.load("chat").at(rate_per_s=rate).point_runs()[0]
    return spec.model_copy(update={"protocol": spec.protocol.model_copy(update={"duration_s": 5.0})})


def test_a_fleet_of_one_is_the_engine() -> None:
    spec = chat(8.0)
    engine, fleet = (play(spec, LAW, Rules(), fleet=each) for each in (None, Fleet(1)))
    assert engine.table.equals(fleet.table)
    assert (engine.steps, engine.span_s) == (fleet.steps, fleet.span_s)
    assert fleet.busy_s == pytest.approx(engine.busy_s)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_routing_serves_every_request_and_halves_what_a_replica_does(policy: Any) -> None:
    spec = chat(8.0)
    alone, two = play(spec, LAW, Rules()), play(spec, LAW, Rules(), fleet=Fleet(2, policy, 0.1))
    assert two.table.num_rows == alone.table.num_rows
    assert set(two.table.column("outcome").to_pylist()) == {"ok"}
    assert two.busy_s < alone.busy_s


def test_replicas_that_are_slow_or_die_make_answers_late() -> None:
    spec = chat(8.0)
    sound = Fleet(2)
    ends = [
        max(play(spec, LAW, Rules(), fleet=each).table.column("end_ns").to_pylist())
        for each in (sound, replace(sound, slow=3.0), replace(sound, replicas=1, dies_s=3.0, down_s=10.0))
    ]
    assert ends[0] < ends[1]
    assert ends[2] > 13e9, "who waits for a replica that is down has its answer after it is back"


def test_a_point_of_a_fleet_can_serve_so_many_times_as_much(law: Path) -> None:
    found = simulated(law, 8, replicas="1,4", slow=2)
    one, four = (each.capacity.value if each.capacity is not None else None for each in found.points)
    assert one is not None
    assert four is not None
    assert four / one == pytest.approx(3.5 / 0.5)
    assert [each.policy for each in found.points] == ["1 replica", "4 replicas, round-robin"]
    assert found.chosen == {}, "of more replicas nobody asks which is the best"


def test_routings_meet_the_same_arrivals_and_run_folders_say_who_served(law: Path, tmp_path: Path) -> None:
    found = simulated(law, 8, replicas=2, routing="random,shortest-queue", signal_age="100ms", failing="1s:2s",
                      dry=False, out=tmp_path)  # fmt: skip
    due = {tuple(sorted(each.repeats[0].played.table.column("intended_ns").to_pylist())) for each in found.points}
    assert len(due) == 1
    assert set(found.chosen) == {8.0}
    first, second = (run.spec.executor.options for run in found.runs)
    assert first == {"replicas": 2, "routing": "random", "replica_dies_s": 1.0, "replica_down_s": 2.0}
    assert second == {**first, "routing": "shortest-queue", "signal_age_s": 0.1}
    shown = " ".join(repr(found).split())
    assert "the router looks at the queues every 100 ms" in shown
    assert "one replica dies at 1.00 s and is back, with an empty cache, 2.00 s later" in shown


def test_the_smallest_fleet_that_keeps_the_slo_is_found_and_one_less_does_not(searched: SimulateResult) -> None:
    (size,) = searched.sizes
    slo = Slo(ttft_s=0.5, tpot_s=0.05, quantile=0.99)
    assert size.enough is not None
    assert size.fewer is not None
    assert size.enough.fleet is not None
    assert size.fewer.fleet is not None
    assert size.enough.fleet.replicas == size.fewer.fleet.replicas + 1
    assert keeps_surely(size.enough, slo)
    assert not keeps_surely(size.fewer, slo)
    room = headroom(size.enough, slo)
    assert room is not None
    assert room[1] >= 1
    shown = repr(searched).splitlines()
    assert shown[1] == f"The fewest replicas that keep the SLO in the whole band: {size.replicas} at 60/s."
    assert max(map(len, shown)) <= 80


def test_a_million_tokens_cost_the_price_that_was_said_of_all_replicas(searched: SimulateResult, law: Path) -> None:
    point = searched.points[-1]
    tokens = point.figures["output_tokens_per_s"].value
    assert tokens is not None
    assert point.fleet is not None
    assert cost(point, 2.5).value == pytest.approx(2.5 * point.fleet.replicas / (tokens * 3600 / 1e6))
    assert "as you said" in repr(searched)
    assert searched.to_json()["points"][-1]["cost"]["origin"] == "simulated"
    assert "$" not in repr(simulated(law, 4, replicas=2))


def test_a_search_says_that_no_fleet_keeps_what_one_request_alone_does_not(law: Path) -> None:
    found = simulated(law, 2, replicas="search", seeds=2,
                      set_=["protocol.duration_s=3", "workload.slo.tpot_s=0.001"])  # fmt: skip
    assert found.to_json()["smallest"][0]["replicas"] is None
    shown = " ".join(repr(found).split())
    assert "none at 2/s" in shown
    assert "no fleet at 2/s: of 64 replicas too, 0 % of the requests are within it" in shown


def test_a_simulated_server_has_one_number_of_engines() -> None:
    assert (engines_of(None), engines_of("3")) == (1, 3)
    with pytest.raises(BadInput, match="a simulated server has so many engines"):
        engines_of("2,4")


@pytest.mark.parametrize(("words", "sentence"), [
    (("--replicas", "0"), "--replicas is a whole number from 1 to 1,000, several (2,4,8) or search, not '0'"),
    (("--replicas", "2", "--routing", "shortest"), "no routing is called 'shortest'; did you mean 'shortest-queue'?"),
    (("--routing", "random"), "--routing chooses between replicas, and there is one"),
    (("--replicas", "2", "--signal-age", "1s"), "round-robin looks at no queue, so no signal is old"),
    (("--replicas", "2", "--failing", "20s"), "--failing says when a replica dies and for how long"),
    (("--replicas", "2", "--failing", "999s:2s"), "the replica dies at 999 s, and requests come for"),
    (("--replicas", "2", "--slow", "none"), "--slow is a factor such as 1.5, not 'none'"),
    (("--replicas", "2", "--at", "concurrency=4", "--failing", "2s:1s"), "wait for answers"),
    (("--replicas", "2", "--batching", "static(8)"), "a fleet takes requests as they arrive"),
    (("--replicas", "search", "--seeds", "1"), "one simulation has none: --seeds 2 or more"),
    (("--replicas", "search", "--set", "workload.slo.itl_s=0.1"), "--replicas search cannot keep itl_s"),
    (("--price", "2.50"), "--price is of a replica-hour: say how many with --replicas 2"),
])  # fmt: skip
def test_what_no_fleet_can_do_is_refused_in_one_sentence(law: Path, words: tuple[str, ...], sentence: str) -> None:
    told = CliRunner().invoke(app, ["simulate", "chat", "--law", str(law), *words])
    assert told.exit_code == 2, told.output
    assert sentence in " ".join(told.stderr.split())
    assert "Traceback" not in told.stderr
    assert told.stdout == ""


def test_json_says_the_fleet_of_each_point(law: Path) -> None:
    found = simulated(law, 4, replicas=2, routing="prefix")
    fleet = json.loads(json.dumps(found.to_json()))["points"][0]["fleet"]
    assert (fleet["replicas"], fleet["policy"]) == (2, "prefix")
