"""From a spec to what is played: every arrival has its schedule, and what would have no effect is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlens.errors import BadInput
from twinlens.pages import find
from twinlens.schedule.admission import BatchAdmission, Continuous
from twinlens.schedule.build import planned_load
from twinlens.schedule.closed_loop import ClosedLoop
from twinlens.schedule.conversation import Conversation
from twinlens.schedule.open_loop import OpenLoop
from twinlens.spec.load import dump, load, parse
from twinlens.spec.slo import Slo, list_slos
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload

TRACE = {"kind": "trace", "path": str(Path(__file__).parents[1] / "vectors" / "traces" / "burstgpt.csv")}
RATE, USERS = {"rate_per_s": 5.0}, {"concurrency": 3}
TALKS = {"turns": {"kind": "fixed", "value": 2}}


def spec(arrival: dict | str | None, point: dict | None = None, **workload: object) -> RunSpec:
    asked: dict[str, object] = {"kind": "inference", "model": "tiny"} | workload
    if arrival is not None:
        asked["arrival"] = {"kind": arrival} if isinstance(arrival, str) else arrival
    protocol = {"repeats": 1, "duration_s": 8.0}
    return parse({"executor": {"kind": "fake"}, "workload": asked, "point": point or {}, "protocol": protocol}).runs()[
        0
    ]


@pytest.mark.parametrize(
    ("arrival", "point", "workload", "kind", "asks"),
    [
        ("constant", RATE, {}, OpenLoop, 40),
        ({"kind": "gamma", "cv": 2.0}, RATE, {}, OpenLoop, None),
        ({"kind": "ramp", "from_per_s": 1.0, "to_per_s": 3.0, "gaps": "constant"}, {}, {}, OpenLoop, 16),
        ({"kind": "offline", "requests": 9}, {}, {}, OpenLoop, 9),
        (TRACE | {"format": "burstgpt", "speedup": 10.0}, {}, {}, OpenLoop, 2),
        ("closed", USERS, {}, ClosedLoop, 0),
        ("single-stream", {}, {}, ClosedLoop, 0),
        ("constant", RATE, {"sessions": TALKS}, Conversation, 80),
        ("closed", USERS, {"sessions": TALKS}, Conversation, 0),
        ("constant", RATE | {"admission": "static", "batch": 4}, {}, BatchAdmission, 40),
        ("constant", RATE | {"admission": "dynamic", "batch": 4, "timeout_s": 0.1}, {}, BatchAdmission, 40),
        ("constant", RATE | {"admission": "continuous", "in_flight": 4}, {}, Continuous, 40),
    ],
)
def test_each_arrival_has_its_schedule_and_open_ones_a_plan(arrival, point, workload, kind, asks) -> None:
    found = planned_load(spec(arrival, point, **workload))
    assert isinstance(found.schedule, kind)
    if asks == 0:
        assert found.plan is None
    else:
        assert found.plan is not None
        assert asks is None or len(found.plan) == asks


def test_closed_loops_keep_as_many_in_flight_as_were_asked_for() -> None:
    assert len(planned_load(spec("closed", USERS)).schedule.due(0)) == 3
    assert len(planned_load(spec("single-stream")).schedule.due(0)) == 1
    assert len(planned_load(spec("closed", USERS, sessions=TALKS)).schedule.due(0)) == 3


def test_a_run_has_the_same_schedule_again_and_another_repeat_another() -> None:
    first, again = (planned_load(spec("poisson", RATE)).plan for _ in range(2))
    other = planned_load(spec("poisson", RATE).model_copy(update={"repeat": 1})).plan
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.to_table() == again.to_table()
    assert first.intended_ns.tolist() != other.intended_ns.tolist()


def test_a_trace_counts_what_it_could_not_ask_for() -> None:
    found = planned_load(spec(TRACE | {"format": "burstgpt", "speedup": 20.0}))
    assert found.unusable == 1


@pytest.mark.parametrize(
    ("arrival", "point", "workload", "says"),
    [
        ("poisson", {}, {}, "poisson arrivals need a rate"),
        ("closed", {}, {}, "a closed loop needs a concurrency"),
        ("lockstep", RATE, {}, "point.rate_per_s means nothing to lockstep arrivals"),
        ("closed", USERS | RATE, {}, "a rate (open loop) and a concurrency (closed loop) exclude each other"),
        ("poisson", USERS | RATE, {}, "a rate (open loop) and a concurrency (closed loop) exclude each other"),
        ("poisson", RATE | {"timeout_s": 1.0}, {}, "point.timeout_s means nothing without dynamic admission"),
        ("poisson", RATE | {"in_flight": 1, "admission": "static"}, {}, "nothing without continuous admission"),
        ("poisson", RATE | {"admission": "dynamic"}, {}, "dynamic admission needs a timeout"),
        (None, {"admission": "static"}, {}, "lockstep has its batches already"),
        (None, {}, {"sessions": TALKS}, "workload.sessions means nothing to lockstep arrivals"),
        (TRACE | {"format": "csv"}, {}, {"prefix": {"tokens": 5}}, "workload.prefix means nothing to trace arrivals"),
        ({"kind": "gamma"}, RATE, {}, "field 'workload.arrival.cv' is missing"),
        ({"kind": "poisson", "cv": 2}, RATE, {}, "unknown field 'workload.arrival.cv'"),
        ("poisson", RATE, {"slo": {"ttft": 1.0}}, "did you mean 'ttft_s'?"),
        ("poisson", RATE, {"slo": {"quantile": 0.9}}, "an SLO needs at least one limit"),
        ("poisson", RATE, {"slo": "mlperf-llama2"}, "did you mean 'mlperf-llama2-70b'?"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_sentence(arrival, point, workload, says) -> None:
    with pytest.raises(BadInput) as caught:
        spec(arrival, point, **workload)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.code == "TL202"


def test_training_has_no_arrivals() -> None:
    training = {"kind": "training", "model": "tiny", "global_batch": 8}
    with pytest.raises(BadInput, match="rate_per_s is for inference"):
        parse({"executor": {"kind": "fake"}, "workload": training, "point": RATE})


def test_mlperf_limits_go_by_name() -> None:
    workload = spec("poisson", RATE, slo="mlperf-llama3.1-8b-interactive").workload
    assert isinstance(workload, InferenceWorkload)
    assert workload.slo == Slo(name="mlperf-llama3.1-8b-interactive", ttft_s=0.5, tpot_s=0.03, quantile=0.99)
    assert workload.slo.limits() == {"ttft_s": 0.5, "tpot_s": 0.03}
    assert len(list_slos()) == 10


def test_the_page_on_slos_shows_the_limits_that_are_used() -> None:
    rows = [line.strip("| ").split(" | ") for line in find("slo").text.splitlines() if line.startswith("| mlperf-")]
    shown = {name + suffix: limits for name, *both in rows for suffix, limits in zip(SUFFIXES, both, strict=True)}
    used = {name: Slo.model_validate(name).limits() for name in list_slos()}
    assert shown == {name: f"{of['ttft_s'] * 1000:g} / {of['tpot_s'] * 1000:g}" for name, of in used.items()}


SUFFIXES = ("", "-interactive")


def test_a_spec_with_all_of_it_survives_being_written_and_read(tmp_path: Path) -> None:
    asked = {
        "workload": {
            "kind": "inference",
            "model": "tiny",
            "arrival": {"kind": "gamma", "cv": 2.0},
            "slo": "mlperf-llama2-70b",
            "prefix": {"tokens": 64, "count": 4, "choice": "zipf"},
            "sessions": TALKS | {"think_s": 1.0},
            "prompts": {"kind": "synthetic", "tokens_per_word": 1.1},
        },
        "point": {"admission": "dynamic", "batch": 8, "timeout_s": 0.05},
        "sweep": {"rate_per_s": [1.0, 2.0]},
    }
    study = parse(asked)
    path = tmp_path / "run.toml"
    path.write_text(dump(study), "utf-8")
    assert load(path) == study


def test_lengths_from_a_file_are_read_into_the_spec(tmp_path: Path) -> None:
    path = tmp_path / "seen.csv"
    path.write_text("when,input_tokens,answer\n1,30,7\n2,10,9\n3,30,7\n", "utf-8")
    seen = {"kind": "empirical", "path": str(path)}
    workload = spec("poisson", RATE, input_tokens=seen, output_tokens=seen | {"column": "answer"}).workload
    assert isinstance(workload, InferenceWorkload)
    assert workload.input_tokens.model_dump() == {"kind": "empirical", "values": (10, 30), "counts": (1, 2)}
    assert workload.output_tokens.model_dump() == {"kind": "empirical", "values": (7, 9), "counts": (2, 1)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("input_tokens\n5\n0\n", "line 3: input_tokens is '0', not a length"),
        ("input_tokens\nten\n", "line 2: input_tokens is 'ten'"),
        ("input\n5\n", "no column 'input_tokens'; known: input"),
        ("input_tokens\n", "has no rows"),
        (None, "cannot read the lengths"),
    ],
)
def test_a_file_of_lengths_that_cannot_be_used_is_named(text: str | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / "seen.csv"
    if text is not None:
        path.write_text(text, "utf-8")
    with pytest.raises(BadInput, match=says) as caught:
        spec("poisson", RATE, input_tokens={"kind": "empirical", "path": str(path)})
    assert caught.value.code == "TL213"


def test_counts_and_values_of_lengths_go_in_pairs() -> None:
    with pytest.raises(BadInput, match="1 counts for 2 values"):
        spec("poisson", RATE, input_tokens={"kind": "empirical", "values": [1, 2], "counts": [1]})
