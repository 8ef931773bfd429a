"""The account of wall time: worked by hand, and the law that its parts add up to the whole."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.record.codec import decode, encode
from twinlens.record.sections import Checkpoints, Recovery, Restore, Resumed, Save
from twinlens.record.step import STEP_SCHEMA, Marks, Steps
from twinlens.stats.metrics.training import trained_alone, training_steadiness, whole_saves
from twinlens.stats.wall_time import PARTS, in_save, save_metrics, wall_time

S = 10**9


def steps_of(*marks: Marks) -> Steps:
    rows = [{name: getattr(each, name, None) for name in STEP_SCHEMA.names} for each in marks]
    return Steps.from_table(pa.Table.from_pylist(rows, schema=STEP_SCHEMA))


def row(begin: float, end: float, **more: object) -> Marks:
    return Marks(round(begin * S), round(end * S), 1, 8, **more)  # type: ignore[arg-type]


def a_failure() -> Steps:
    """Two steps, the second with a save; a look; a step; a kill; that step again; one more."""
    return steps_of(
        row(0, 2, data_ns=S // 2),
        row(2, 5, data_ns=S // 2, checkpoint_ns=S),
        row(5, 6, kind="evaluate"),
        row(6, 8, data_ns=S // 2),
        row(8, 20, kind="recover"),
        row(20, 22, data_ns=S // 2, tag="repeat"),
        row(22.5, 24.5, data_ns=S // 2),
    )


def test_every_second_of_a_run_with_a_failure_is_in_one_part() -> None:
    found = wall_time(a_failure(), 4 * S)
    seconds = {name: spent / S for name, spent in found.parts_ns.items()}
    assert seconds == {
        "useful": 1.5 + 1.5 + 1.5 + 1.5,
        "startup": 4,
        "data": 2.0,
        "checkpoint": 1,
        "restart": 12,
        "repeat": 2,
        "evaluation": 1,
        "other": 0.5,
    }
    assert found.steps == 4
    assert found.wall_ns == round(28.5 * S)


def test_a_compiling_step_is_part_of_the_start_and_a_skipped_one_is_not_useful() -> None:
    found = wall_time(steps_of(row(0, 9, tag="compile"), row(9, 10, tag="skipped"), row(10, 11)), 0)
    assert found.parts_ns["startup"] == 9 * S
    assert found.parts_ns["other"] == S
    assert found.parts_ns["useful"] == S
    assert found.steps == 2


_ROW = st.tuples(
    st.integers(-5, 50),
    st.integers(0, 100),
    st.sampled_from(["step", "evaluate", "recover"]),
    st.sampled_from([None, "compile", "skipped", "saving", "repeat"]),
    st.one_of(st.none(), st.integers(0, 200)),
    st.one_of(st.none(), st.integers(0, 200)),
)


@given(st.lists(_ROW, max_size=12), st.integers(0, 1000))
def test_parts_add_up_to_the_wall_and_none_is_negative(drawn: list[tuple[int, ...]], startup_ns: int) -> None:
    at, marks = 0, []
    for gap, lasted, kind, tag, data, save in drawn:
        begin = max(0, at + gap)
        at = begin + lasted
        marks.append(Marks(begin, at, 1, 1, kind=kind, tag=tag, data_ns=data, checkpoint_ns=save))  # type: ignore[arg-type]
    found = wall_time(steps_of(*marks), startup_ns)
    assert tuple(found.parts_ns) == PARTS
    assert min(found.parts_ns.values()) >= 0
    assert found.wall_ns == startup_ns + max((each.end_ns for each in marks), default=0)


def test_rates_leave_the_recovery_and_what_is_done_again_out() -> None:
    only = trained_alone(a_failure())
    assert (only.begin_ns / S).tolist() == [0, 2, 5, 7.5]
    assert (only.end_ns / S).tolist() == [2, 5, 7, 9.5]


def saving_every(every: int, count: int, saved_s: float, tag: str | None = None) -> Steps:
    at, marks = 0.0, []
    for place in range(1, count + 1):
        due = place % every == 0
        lasts = 1.0 + (saved_s if due else 0.0) + (0.6 if tag and place % every == 1 and place > 1 else 0.0)
        marks.append(
            row(at, at + lasts, checkpoint_ns=round(saved_s * S) if due else None,
                tag=tag if place % every == 1 and place > 1 else None)
        )  # fmt: skip
        at += lasts
    return steps_of(*marks)


@pytest.mark.parametrize("tag", [None, "saving"])
def test_planned_saves_disturb_nothing(tag: str | None) -> None:
    _, found = training_steadiness(saving_every(5, 60, 3.0, tag))
    assert found is not None
    assert found.validity == "valid"
    assert not found.disturbed.stretches


def test_the_window_holds_whole_intervals_between_saves() -> None:
    steps = saving_every(5, 23, 3.0)
    begin = whole_saves(steps, 1)
    paid = np.nan_to_num(steps.phases_ns["checkpoint"][begin:]) > 0
    assert (len(steps) - begin, int(paid.sum())) == (20, 4)
    assert whole_saves(saving_every(5, 8, 3.0), 1) == 1


def test_a_save_in_the_background_costs_what_it_blocks_and_what_it_slows() -> None:
    steps = saving_every(5, 15, 0.2, "saving")
    saves = tuple(Save(step, 0, S // 5, 2 * S) for step in (5, 10, 15))
    found = save_metrics(Checkpoints("async", 5, "ext4", 10**9, 4 * 10**8, saves), steps)
    values = {name: found[name].value for name in found}
    assert values["save_blocked_s"] == pytest.approx(0.2)
    assert values["save_durable_s"] == pytest.approx(2.0)
    assert values["save_slowdown_s"] == pytest.approx(2 * 0.6 / 3)
    assert values["save_cost_s"] == pytest.approx(0.2 + 0.4)
    assert values["save_bytes_per_s"] == pytest.approx(2e8)
    assert int(in_save(steps).sum()) == 5


def test_without_a_save_its_cost_is_absent_with_the_reason() -> None:
    found = save_metrics(Checkpoints("sync", 50, "ext4", 1), steps_of(row(0, 1)))
    assert list(found) == ["save_blocked_s"]
    assert "every 50 steps" in (found["save_blocked_s"].reason or "")


def test_a_recovery_is_told_by_its_parts() -> None:
    recovery = Recovery(1, 4, 2, 2, 8 * S, 9 * S, 19 * S, 20 * S, Resumed(1, 0.0, 1e-4))
    known = Checkpoints("sync", 2, "ext4", 1, 8, (Save(2, 4 * S, S, 5 * S),),
                        Restore(2, None, 0.5, Resumed(0, None, 1e-4)), recovery)  # fmt: skip
    steps = a_failure()
    found = save_metrics(known, steps.where(steps.kind == "step"))
    assert [found[f"recovery_{part}s"].value for part in ("notice_", "restart_", "load_", "", "lost_")] == [
        1,
        10,
        1,
        12,
        14,
    ]
    assert found["repeated_steps"].value == 1
    assert found["restarts_used"].value == 2
    assert found["restore_storage_s"].value is None
    assert found["restore_cache_s"].value == 0.5
    assert decode(Checkpoints, encode(known)) == known
