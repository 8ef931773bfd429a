"""A schedule as columns: stored and read back the same, drawn the same however much of it is drawn."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from twinlens.schedule.conversation import session_requests
from twinlens.schedule.draw import mean_length, sample_length, sample_lengths, single_requests
from twinlens.schedule.plan import SCHEDULE_SCHEMA, Plan
from twinlens.schedule.request import ScheduledRequest, request_of
from twinlens.schedule.trace_file import read_trace
from twinlens.spec.workload.arrival import Trace
from twinlens.spec.workload.length import Empirical, Fixed, Length, Lognormal, Uniform
from twinlens.spec.workload.prompt import Prefix, Sessions
from twinlens.spec.workload.workload import Images, InferenceWorkload

LENGTHS = [
    Fixed(value=7),
    Uniform(kind="uniform", min=3, max=9),
    Lognormal(kind="lognormal", mean=120.0, cv=1.5, max=300),
    Empirical(kind="empirical", values=(1, 10, 100), counts=(5, 3, 2)),
    Empirical(kind="empirical", values=(4, 8)),
]


def workload(**fields: object) -> InferenceWorkload:
    return InferenceWorkload(kind="inference", model="tiny", **fields)  # type: ignore[arg-type]


def plans() -> list[Plan]:
    times = np.arange(50) * 1000
    spread = Lognormal(kind="lognormal", mean=50.0, cv=1.0, max=400)
    plain = workload(input_tokens=spread, output_tokens=spread)
    shared = workload(prefix=Prefix(tokens=30, count=4, share=0.5))
    talks = workload(sessions=Sessions(turns=Uniform(kind="uniform", min=1, max=4), think_s=2.0))
    trace = Trace(path="tests/vectors/traces/mooncake.jsonl", format="mooncake")
    return [
        single_requests(plain, times, seed=1, prompt_seed=2, first=100),
        single_requests(shared, times, seed=1, prompt_seed=2),
        session_requests(talks, times, seed=1, prompt_seed=2, first_session=7, first_number=300),
        read_trace(trace, 60.0, prompt_seed=2).plan,
        single_requests(plain, times[:0], seed=1, prompt_seed=2),
    ]


@pytest.mark.parametrize("which", range(5), ids=["plain", "prefixes", "sessions", "blocks", "empty"])
def test_a_plan_is_the_same_after_being_stored(which: int, tmp_path) -> None:
    plan = plans()[which]
    with pa.OSFile(str(tmp_path / "plan.arrow"), "wb") as file, pa.ipc.new_stream(file, SCHEDULE_SCHEMA) as stream:
        stream.write_table(plan.to_table(), max_chunksize=7)
    with pa.OSFile(str(tmp_path / "plan.arrow")) as file:
        table = pa.ipc.open_stream(file).read_all()
    assert table.schema == SCHEDULE_SCHEMA
    assert list(Plan.from_table(table)) == list(plan)
    assert Plan.from_table(table).to_table() == plan.to_table()


def test_a_plan_is_a_sequence_of_asks() -> None:
    plan = plans()[0]
    assert len(plan) == 50
    assert plan[-1] == plan[49]
    assert plan[2:4] == [plan[2], plan[3]]
    assert plan[3].number == 103
    with pytest.raises(IndexError):
        plan[50]


def test_later_turns_have_no_intended_time_in_the_table() -> None:
    table = plans()[2].to_table()
    turns = table.column("turn").to_numpy()
    known = ~np.array(table.column("intended_ns").is_null())
    assert (known == (turns == 0)).all()
    assert (np.array(table.column("think_ns").is_null()) == (turns == 0)).all()


def test_the_nth_request_holds_the_same_however_many_are_drawn() -> None:
    spread = workload(input_tokens=LENGTHS[2], output_tokens=LENGTHS[1], prefix=Prefix(tokens=5, count=9))
    whole = single_requests(spread, np.zeros(3000, dtype=np.int64), seed=4, prompt_seed=5)
    tail = single_requests(spread, np.zeros(1100, dtype=np.int64), seed=4, prompt_seed=5, first=1900)
    assert whole[1900:] == list(tail)


def test_changing_one_quantity_leaves_the_others_as_they_were() -> None:
    times = np.zeros(200, dtype=np.int64)
    first = single_requests(workload(input_tokens=LENGTHS[2], output_tokens=LENGTHS[1]), times, seed=4, prompt_seed=5)
    other = single_requests(workload(input_tokens=LENGTHS[1], output_tokens=LENGTHS[1]), times, seed=4, prompt_seed=5)
    assert (first.output_tokens == other.output_tokens).all()
    assert (first.input_tokens != other.input_tokens).any()


def test_images_have_no_tokens() -> None:
    plan = single_requests(workload(data=Images()), np.zeros(3, dtype=np.int64), seed=4, prompt_seed=5)
    assert plan.input_tokens.tolist() == plan.output_tokens.tolist() == [0, 0, 0]


@pytest.mark.parametrize("length", LENGTHS, ids=lambda length: length.kind)
def test_the_mean_of_a_length_is_that_of_what_is_drawn(length: Length) -> None:
    seen = sample_lengths(length, np.random.default_rng(1), 100_000)
    assert seen.dtype == np.int64
    assert seen.min() >= 1
    assert seen.mean() == pytest.approx(mean_length(length), abs=5 * seen.std() / np.sqrt(100_000) + 1e-9)


def test_a_mean_by_hand_counts_rounding_and_cuts() -> None:
    assert mean_length(LENGTHS[3]) == pytest.approx(0.5 * 1 + 0.3 * 10 + 0.2 * 100)
    assert mean_length(LENGTHS[4]) == 6
    # A lognormal far above its cut is always cut, and one far below 1 is always 1.
    assert mean_length(Lognormal(kind="lognormal", mean=1e6, cv=0.1, max=10)) == pytest.approx(10)
    assert mean_length(Lognormal(kind="lognormal", mean=0.01, cv=0.1, max=10)) == pytest.approx(1)


def test_empirical_lengths_come_as_often_as_they_were_seen() -> None:
    seen = sample_lengths(LENGTHS[3], np.random.default_rng(2), 50_000)
    shares = [float((seen == value).mean()) for value in (1, 10, 100)]
    assert shares == pytest.approx([0.5, 0.3, 0.2], abs=0.01)


@pytest.mark.parametrize("length", LENGTHS[:3], ids=lambda length: length.kind)
def test_one_length_is_the_first_of_many(length: Length) -> None:
    one, many = (np.random.default_rng(9) for _ in range(2))
    assert sample_length(length, one) == sample_lengths(length, many, 5)[0]


def test_a_row_made_from_an_ask_keeps_what_it_was() -> None:
    scheduled = ScheduledRequest(4, 2, 100, 50, 8, (1, 0, 4), session=3, turn=1, released_ns=120)
    row = request_of(
        scheduled, sent_ns=130, chunk_ns=(140,), chunk_tokens=(5,), end_ns=140, output_tokens=5, outcome="cut_off"
    )
    assert (row.group, row.intended_ns, row.released_ns, row.session, row.turn) == (2, 100, 120, 3, 1)
    assert (row.input_tokens, row.output_tokens, row.asked_tokens) == (50, 5, 8)
