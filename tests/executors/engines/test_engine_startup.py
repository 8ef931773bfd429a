"""The start of an engine in this process as figures: its load, and the first two answers after it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from material import inference, measured, spec_of
from twinlens.executors.in_process.player import LockstepPlayer, estimates_of, first_answers, loaded
from twinlens.measurement.summary_file import summary_of
from twinlens.record.codec import decode, encode
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord
from twinlens.record.request import Request
from twinlens.schedule.request import ScheduledRequest, request_of

MS = 1_000_000


def row(sent_ms: int, first_ms: int, outcome: str = "ok") -> Request:
    due = ScheduledRequest(0, 0, sent_ms * MS, 16, 1, (8, 0, 0))
    whole = request_of(due, sent_ns=sent_ms * MS, chunk_ns=(first_ms * MS,), chunk_tokens=(1,),
                       end_ns=first_ms * MS, output_tokens=1)  # fmt: skip
    return whole if outcome == "ok" else replace(whole, outcome="failed", chunk_ns=(), chunk_tokens=())


def test_the_first_two_answers_count_from_sending() -> None:
    found = estimates_of([row(3, 10), row(11, 13)], 1, is_text=True, before="")
    assert [(name, each.value, each.n, each.origin) for name, each in found.items()] == [
        ("start_first_token_s", pytest.approx(0.007), 1, "measured"),
        ("start_second_token_s", pytest.approx(0.002), 1, "measured"),
    ]


def test_an_answer_that_failed_is_absent_with_a_reason() -> None:
    found = estimates_of([row(3, 10, "failed"), row(11, 13)], 1, is_text=True, before="")
    assert found["start_first_token_s"].value is None
    assert found["start_first_token_s"].reason == "the request was not answered"
    assert found["start_second_token_s"].value is not None


def test_two_batches_of_the_longest_prompt_are_asked_for_one_token_each() -> None:
    asked: list[tuple[ScheduledRequest, ...]] = []

    def answer(upcoming: tuple[ScheduledRequest, ...]) -> tuple[int, list[int]]:
        asked.append(upcoming)
        return 5 * len(asked), [9 * len(asked)]

    spec = spec_of(inference("fake", point={"batch": 3}))
    longest = spec.workload.input_tokens.max  # type: ignore[union-attr]
    found = first_answers(LockstepPlayer(answer, is_text=True).play, spec, together=3, is_text=True)
    assert [len(batch) for batch in asked] == [3, 3]
    assert {(one.input_tokens, one.output_tokens) for batch in asked for one in batch} == {(longest, 1)}
    assert len({one.seed for batch in asked for one in batch}) == 6, "a prefix cache finds nothing"
    assert (found["start_first_token_s"].value, found["start_second_token_s"].value) == (4e-9, 8e-9)
    assert "a batch of 3 prompts" in found["start_first_token_s"].method


def test_a_classifier_has_answers_and_no_tokens() -> None:
    found = first_answers(
        LockstepPlayer(lambda upcoming: (2, [7]), is_text=False).play,
        spec_of(inference("fake")),
        together=1,
        is_text=False,
    )
    assert set(found) == {"start_first_answer_s", "start_second_answer_s"}
    assert found["start_first_answer_s"].value == 5e-9


@pytest.mark.parametrize(("share", "said"), [(0.0, "; page cache cold"), (0.5, "; page cache 50% warm"), (None, "")])
def test_a_load_says_how_warm_its_files_were(share: float | None, said: str) -> None:
    found = loaded(1.5, "all of it", share)
    assert (found["start_load_s"].value, found["start_load_s"].method) == (1.5, f"all of it{said}")
    assert found["start_cached_share"].value == share


def test_figures_of_a_start_go_through_json_and_earlier_records_have_none() -> None:
    facts = Facts(ExecutorRecord({}), startup=loaded(1.5, "all of it", 1.0))
    data = encode(facts)
    assert decode(Facts, data) == facts
    assert decode(Facts, {key: value for key, value in data.items() if key != "startup"}).startup == {}


def test_an_executor_that_did_not_time_its_start_says_so(tmp_path: Path) -> None:
    metrics = summary_of(measured(tmp_path, inference("fake"))).metrics
    for name in ("start_load_s", "start_first_token_s"):
        assert metrics[name].value is None
        assert metrics[name].reason == "the executor did not time its start"
