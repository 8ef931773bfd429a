"""Work in parts is the work as a whole, and what is kept does not grow with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.workloads import laws, noises, rules_for, works

from simulated_material import LAW, spec_of
from twinlens.errors import BadInput
from twinlens.simulation.engine import Engine
from twinlens.simulation.law import one
from twinlens.simulation.noise import Noise
from twinlens.simulation.parts import serve_in_parts
from twinlens.simulation.points.play import play
from twinlens.simulation.points.rows import rows_in_parts
from twinlens.simulation.points.run_folder import simulated_of, write_run
from twinlens.simulation.rules import Rules
from twinlens.simulation.serve import serve
from twinlens.simulation.work import Work, token_times_s


def in_parts(work: Work, size: int) -> Iterator[Work]:
    for begin in range(0, len(work), size):
        columns = {each.name: getattr(work, each.name) for each in fields(work)}
        yield Work(**{name: None if column is None else column[begin : begin + size]
                      for name, column in columns.items()})  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_work_in_parts_is_the_work_as_a_whole(data: st.DataObject) -> None:
    work = data.draw(works())
    rules, law, noise = data.draw(rules_for(work)), data.draw(laws()), data.draw(noises())
    horizon_s, size = data.draw(st.sampled_from([None, 0.5])), data.draw(st.integers(1, 9))
    whole = serve(work, law, rules, noise=noise, horizon_s=horizon_s)
    seen = list[int]()
    for part in serve_in_parts(in_parts(work, size), law, rules, noise=noise, horizon_s=horizon_s):
        for name in ("outcome", "preemptions", "cached_tokens"):
            np.testing.assert_array_equal(getattr(part.served, name), getattr(whole, name)[part.place], name)
        for name in ("start_s", "first_token_s", "end_s"):
            np.testing.assert_allclose(getattr(part.served, name), getattr(whole, name)[part.place], atol=1e-9)
        for here, place in enumerate(part.place.tolist()):
            np.testing.assert_allclose(token_times_s(part.served, here), token_times_s(whole, place), atol=1e-9)
        seen += part.place.tolist()
    assert sorted(seen) == list(range(len(work)))


def test_steps_and_noise_of_requests_that_ended_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[Engine]()

    class Seen(Engine):
        def __init__(self, *given: object, **named: object) -> None:
            super().__init__(*given, **named)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr("twinlens.simulation.parts.Engine", Seen)
    work = Work(np.arange(400) * 4.0, np.full(400, 5), np.full(400, 300))
    for _ in serve_in_parts(in_parts(work, 20), one(0.01), Rules(), noise=Noise(np.array([0.9, 1.1]))):
        (engine,) = made
        assert engine.ends is not None
        assert engine.factors is not None
        assert len(engine.ends.stretches) <= 10
        assert len(engine.factors.drawn) <= 2
    assert engine.steps == 400 * 300


def test_rows_in_parts_are_the_rows_of_the_whole_run_by_their_end() -> None:
    spec = spec_of(20.0, seconds=20.0)
    tables = list(rows_in_parts(spec, LAW, Rules(), part=50))
    assert len(tables) > 5
    whole = play(spec, LAW, Rules()).table
    joined = pa.concat_tables(tables).sort_by("group")
    for name in ("intended_ns", "outcome", "input_tokens", "output_tokens"):
        assert joined.column(name).equals(whole.column(name)), name
    ends = [np.array(each.column("end_ns")) for each in (joined, whole)]
    assert np.abs(ends[0] - ends[1]).max() <= 1, "leaps hold to 1e-9 s"


def test_a_run_folder_takes_rows_as_they_end(tmp_path: Path) -> None:
    spec = spec_of(20.0, seconds=5.0)
    run = write_run(tmp_path, spec, rows_in_parts(spec, LAW, Rules(), part=30), simulated_of(LAW, Rules(), 0), {})
    assert run.is_finished
    assert len(run.requests) == play(spec, LAW, Rules()).table.num_rows


def test_a_work_that_begins_before_the_last_one_ended_is_refused() -> None:
    work = Work(np.array([1.0, 2.0]), np.array([5, 5]), np.array([3, 3]))
    with pytest.raises(BadInput, match=r"begins at 1 s, before 2 s"):
        list(serve_in_parts([work, work], one(0.01), Rules()))


def test_rows_of_a_load_that_waits_for_answers_are_not_streamed() -> None:
    data = spec_of()
    held = data.model_copy(update={"point": data.point.model_copy(update={"admission": "static", "batch": 4})})
    with pytest.raises(BadInput, match="in this one requests wait for answers"):
        next(rows_in_parts(held, replace(LAW), Rules()))
