"""One suite for every executor installed here, ours and strangers' alike: what `executors/protocol.py` promises."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from material import Timed, Watched, for_rows, inference, measured, quiet, spec_of, training
from twinlens.errors import BadInput
from twinlens.executors.http_client.null_server import null_server
from twinlens.executors.registry import executor_names, launcher, server, trainer
from twinlens.record.executor.facts import Facts
from twinlens.record.request import Request
from twinlens.record.step import Marks
from twinlens.schedule.loop.lockstep import LockstepLoop
from twinlens.spec.study import RunSpec

MODELS = ("tiny", "vit-tiny", "resnet-tiny")
STEPS = 4
PHASES = ("data_ns", "forward_ns", "backward_ns", "communicate_ns", "optimize_ns")


def kinds(lens: str) -> list[str]:
    """What can run in this environment. Of our launchers one: the others' runtimes have environments of their own, and
    tests in executors/launch."""
    return [kind for kind in executor_names(lens) if kind == "transformers-serve" or launcher(kind) is None]


def cases(lens: str) -> list[Any]:
    return [
        pytest.param((kind, model), id=f"{kind}-{model}")
        for kind in kinds(lens)
        for model in (MODELS[:1] if kind == "openai-http" or launcher(kind) else MODELS)  # no images over that protocol
    ]


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """One recorded run per lens and model, for what plays recordings."""
    folder = tmp_path_factory.mktemp("recorded")
    kinds = {"training": training, "inference": inference}
    return {
        (lens, model): measured(folder, make("fake", model, protocol=for_rows(24))).folder
        for lens, make in kinds.items()
        for model in MODELS
    }


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """A server for what needs one that is already up."""
    with null_server(0.002, 0.001) as found:
        yield found.url


def options(kind: str, lens: str, model: str, recordings: dict[tuple[str, str], Path], url: str = "") -> dict[str, Any]:
    if kind == "openai-http":
        return {"url": url}
    return {"run": str(recordings[lens, model])} if kind == "replay" else {}


@dataclass
class Trained:
    """A trainer that has done some steps."""

    spec: RunSpec
    facts: Facts
    marks: list[Marks]


@pytest.fixture(scope="module", params=cases("training"))
def trained(request: pytest.FixtureRequest, recordings: dict[tuple[str, str], Path]) -> Iterator[Trained]:
    kind, model = request.param
    spec = spec_of(training(kind, model, options=options(kind, "training", model, recordings)))
    opened = trainer(kind)
    try:
        facts = opened.open(spec, quiet)
        yield Trained(spec, facts, [opened.step() for _ in range(STEPS)])
    finally:
        opened.close()


@dataclass
class Served:
    """A server that has played two schedules, the second after the first was over."""

    spec: RunSpec
    facts: Facts
    schedules: tuple[Watched, Watched]
    rows: tuple[list[Request], list[Request]]


@pytest.fixture(scope="module", params=cases("inference"))
def served(request: pytest.FixtureRequest, recordings: dict[tuple[str, str], Path], url: str) -> Iterator[Served]:
    kind, model = request.param
    chosen = options(kind, "inference", model, recordings, url)
    spec = spec_of(inference(kind, model, options=chosen, point={"batch": 3}))
    opened = server(kind)
    try:
        facts = opened.open(spec, quiet)
        schedules, rows = (Watched(lockstep(spec, 0)), Watched(lockstep(spec, 2))), ([], [])
        for schedule, taken in zip(schedules, rows, strict=True):
            opened.play(schedule, taken.append)
        yield Served(spec, facts, schedules, rows)
    finally:
        opened.close()


def lockstep(spec: RunSpec, first_group: int) -> LockstepLoop:
    """Two batches."""
    tokens = None if spec.workload.data.kind == "images" else spec.workload.input_tokens  # type: ignore[union-attr]
    answer = tokens and spec.workload.output_tokens  # type: ignore[union-attr]
    batch = spec.point.batch
    return LockstepLoop(batch, tokens, answer, until_ns=0, min_requests=2 * batch, seed=3, first_group=first_group)


def live(served: Served) -> Served:
    """Skips what plays a recording: it answers what was asked then."""
    if served.spec.executor.kind == "replay":
        pytest.skip("a recording cannot be asked again")
    return served


def who(facts: Facts) -> None:
    known = facts.executor.facts
    for field in ("accelerator.product", "software.framework.version"):
        fact = known.get(field)
        assert fact is None or fact.value is not None or fact.reason
    assert {"software.framework.name", "accelerator.product"} & set(known), "it says nothing of itself"
    assert Facts.from_json(json.loads(json.dumps(facts.to_json(), allow_nan=False))) == facts


def test_a_trainer_says_who_it_is_and_its_facts_survive_json(trained: Trained) -> None:
    who(trained.facts)


def test_a_server_says_who_it_is_and_its_facts_survive_json(served: Served) -> None:
    who(served.facts)


def test_steps_follow_each_other_in_whole_nanoseconds(trained: Trained) -> None:
    at_ns = 0
    for marks in trained.marks:
        assert all(type(value) is int for value in (marks.begin_ns, marks.end_ns, marks.samples, marks.tokens))
        assert at_ns <= marks.begin_ns < marks.end_ns
        at_ns = marks.end_ns


def test_the_phases_of_a_step_fit_into_it(trained: Trained) -> None:
    for marks in trained.marks:
        spent = [getattr(marks, phase) for phase in PHASES if getattr(marks, phase) is not None]
        assert all(type(value) is int and value >= 0 for value in spent)
        assert sum(spent) <= marks.end_ns - marks.begin_ns


def test_a_step_does_what_was_asked(trained: Trained) -> None:
    workload = trained.spec.workload
    tokens = 0 if workload.data.kind == "images" else workload.global_batch * workload.seq_len  # type: ignore[union-attr]
    for marks in trained.marks:
        assert (marks.kind, marks.samples, marks.tokens) == ("step", workload.global_batch, tokens)  # type: ignore[union-attr]
        assert marks.loss is None or 0 <= marks.loss < 20


def test_each_ask_is_answered_once_and_in_full(served: Served) -> None:
    for schedule, rows in zip(live(served).schedules, served.rows, strict=True):
        assert len(schedule.asked) == 2 * served.spec.point.batch
        assert schedule.done_with == rows
        counted = launcher(served.spec.executor.kind) is None  # a real tokenizer makes of words what it likes
        given = sorted((r.group, r.intended_ns, r.input_tokens * counted, r.output_tokens) for r in rows)
        asked = ((a.group, a.intended_ns, a.input_tokens * counted, a.output_tokens) for a in schedule.asked)
        assert given == sorted(asked)


def test_chunks_hold_the_tokens_they_say(served: Served) -> None:
    for row in (row for rows in served.rows for row in rows):
        assert row.outcome == "ok"
        assert len(row.chunk_ns) == len(row.chunk_tokens) >= 1
        assert sum(row.chunk_tokens) == row.output_tokens


def test_the_times_of_a_request_are_in_order_and_whole(served: Served) -> None:
    for row in (row for rows in served.rows for row in rows):
        times = [row.intended_ns, row.sent_ns, *row.chunk_ns, row.end_ns]
        assert all(type(time) is int for time in times)
        assert times == sorted(times)
        assert row.chunk_ns[0] > row.sent_ns, "an answer takes time"


def test_time_goes_on_when_a_server_plays_again(served: Served) -> None:
    first, second = live(served).rows
    assert min(row.sent_ns for row in second) >= max(row.end_ns for row in first)


@pytest.mark.parametrize("kind", kinds("inference"))
def test_a_server_waits_for_what_is_due_later(kind: str, url: str) -> None:
    if kind == "replay":
        pytest.skip("a recording cannot be asked again")
    opened, rows = server(kind), list[Request]()
    opened.open(spec_of(inference(kind, options=options(kind, "inference", "tiny", {}, url))), quiet)
    due_ns = [0, 30_000_000, 60_000_000]
    schedule = Watched(Timed(due_ns, 16, 2))
    opened.play(schedule, rows.append)
    opened.close()
    assert [row.intended_ns for row in rows] == due_ns
    assert all(row.sent_ns >= row.intended_ns for row in rows)


@pytest.mark.parametrize("kind", executor_names("training"))
@pytest.mark.parametrize("model", MODELS)
def test_a_second_trainer_in_the_same_process_works_beside_the_first(
    kind: str, model: str, recordings: dict[tuple[str, str], Path]
) -> None:
    spec = spec_of(training(kind, model, options=options(kind, "training", model, recordings)))
    first, second = trainer(kind), trainer(kind)
    first.open(spec, quiet)
    second.open(spec, quiet)
    assert first.step().loss == pytest.approx(second.step().loss, rel=1e-5), "same seed, same step"
    first.close()
    assert second.step().begin_ns > 0
    second.close()


@pytest.mark.parametrize(
    ("lens", "open_one", "data"), [("training", trainer, training), ("inference", server, inference)]
)
def test_every_executor_can_be_closed_whatever_happened(lens: str, open_one: Any, data: Any) -> None:
    for kind in executor_names(lens):
        never_opened, failed = open_one(kind), open_one(kind)
        never_opened.close()
        with pytest.raises(BadInput):
            failed.open(spec_of(data(kind, options={"no-such-option": 1})), quiet)
        failed.close()


@pytest.mark.parametrize(
    ("lens", "open_one", "data"), [("training", trainer, training), ("inference", server, inference)]
)
def test_an_unknown_option_is_refused_by_its_name(lens: str, open_one: Any, data: Any) -> None:
    for kind in executor_names(lens):
        with pytest.raises(BadInput, match="no-such-option") as refused:
            open_one(kind).open(spec_of(data(kind, options={"no-such-option": 1})), quiet)
        assert "\n" not in str(refused.value)


def test_a_replay_gives_the_recorded_steps_and_then_ends(recordings: dict[tuple[str, str], Path]) -> None:
    from twinlens.record.store import read_run

    folder = recordings["training", "tiny"]
    recorded = [Marks(**row) for row in read_run(folder).table.to_pylist()]
    player = trainer("replay")
    facts = player.open(spec_of(training("replay", options={"run": str(folder)})), quiet)
    assert [player.step() for _ in recorded] == recorded
    with pytest.raises(StopIteration):
        player.step()
    assert any("Replayed from" in note for note in facts.notes)


def test_a_replay_measured_again_is_row_for_row_the_recording(
    recordings: dict[tuple[str, str], Path], tmp_path: Path
) -> None:
    from twinlens.record.store import read_run

    for lens, make in (("training", training), ("inference", inference)):
        folder = recordings[lens, "tiny"]
        again = measured(tmp_path, make("replay", options={"run": str(folder)}))
        assert again.table.equals(read_run(folder).table)
        assert again.table.num_rows >= 24


def test_a_replay_of_the_other_lens_is_refused(recordings: dict[tuple[str, str], Path]) -> None:
    recorded = str(recordings["inference", "tiny"])
    with pytest.raises(BadInput, match="inference lens"):
        trainer("replay").open(spec_of(training("replay", options={"run": recorded})), quiet)
