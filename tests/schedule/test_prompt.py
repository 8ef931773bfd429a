"""Prompts as text: about as long as asked, never two alike unless asked, and reuse that is exact to the letter."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from twinlens.errors import BadInput
from twinlens.schedule.build import planned_load
from twinlens.schedule.conversation import session_requests
from twinlens.schedule.draw import single_requests
from twinlens.schedule.prompt import WORDS, FileWords, SyntheticWords, Words, messages, prompt_text, words_of
from twinlens.schedule.request import ScheduledRequest
from twinlens.schedule.trace_file import read_trace
from twinlens.spec.load import parse
from twinlens.spec.workload.arrival import Trace
from twinlens.spec.workload.length import Fixed
from twinlens.spec.workload.prompt import Prefix, PromptFile, Sessions, Synthetic
from twinlens.spec.workload.workload import InferenceWorkload

TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom …"
PASSAGE = TEXT.split()


@pytest.fixture(params=["synthetic", "file"])
def words(request: pytest.FixtureRequest, tmp_path: Path) -> Words:
    if request.param == "synthetic":
        return words_of(Synthetic())
    path = tmp_path / "passage.txt"
    path.write_text("\n".join(PASSAGE), "utf-8")
    return words_of(PromptFile(kind="file", path=str(path), tokens_per_word=1.0))


def workload(**fields: object) -> InferenceWorkload:
    return InferenceWorkload(
        kind="inference",
        model="tiny",
        input_tokens=Fixed(value=40),
        output_tokens=Fixed(value=8),
        **fields,  # type: ignore[arg-type]
    )


def asks_of(count: int, prompt_seed: int = 5, **fields: object) -> list[ScheduledRequest]:
    return list(single_requests(workload(**fields), np.zeros(count, dtype=np.int64), seed=1, prompt_seed=prompt_seed))


def test_the_words_are_512_different_plain_ones() -> None:
    assert len(set(WORDS)) == 512  # a power of two, so that no word is likelier than another
    assert all(word.isascii() and word.isalpha() for word in WORDS)


def test_a_prompt_has_as_many_words_as_tokens_were_asked_for(words: Words) -> None:
    assert {len(prompt_text(scheduled, words).split()) for scheduled in asks_of(20)} == {40}


def test_a_longer_cut_of_a_stream_begins_with_the_shorter(words: Words) -> None:
    whole = words.cut((1, 0, 2), 50).split()
    assert words.cut((1, 0, 2), 20).split() == whole[:20]
    assert words.cut((1, 0, 2), 30, skip=20).split() == whole[20:]
    assert words.cut((1, 0, 2), 0) == ""


def test_tokens_per_word_makes_fewer_words_and_cuts_still_meet() -> None:
    words = SyntheticWords(tokens_per_word=1.3)
    whole = words.cut((1,), 130).split()
    assert len(whole) == 100
    assert words.cut((1,), 7).split() + words.cut((1,), 123, skip=7).split() == whole


def test_no_two_prompts_begin_alike(words: Words) -> None:
    begins = {" ".join(prompt_text(scheduled, words).split()[:4]) for scheduled in asks_of(2000)}
    assert len(begins) == 2000


def test_a_passage_goes_on_through_the_file(tmp_path: Path) -> None:
    path = tmp_path / "passage.txt"
    path.write_text(" ".join(PASSAGE), "utf-8")
    cut = FileWords(path, tokens_per_word=1.0).cut((3,), 4 + 2 * len(PASSAGE)).split()[4:]
    assert cut[: len(PASSAGE)] == cut[len(PASSAGE) :]
    start = next(i for i in range(len(PASSAGE)) if PASSAGE[i:] + PASSAGE[:i] == cut[: len(PASSAGE)])
    assert PASSAGE[start] == cut[0]


@pytest.mark.parametrize("content", [None, "", b"\xff\xfe\xff"])
def test_a_file_without_words_is_refused(content: str | bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "passage.txt"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInput) as caught:
        FileWords(path)
    assert caught.value.code == "TL213"


def test_prompts_with_one_prefix_share_it_exactly_and_nothing_more(words: Words) -> None:
    asks = asks_of(60, prefix=Prefix(tokens=25, count=3))
    by_prefix: dict[int | None, set[str]] = {}
    for scheduled in asks:
        said = prompt_text(scheduled, words).split()
        assert len(said) == 65
        by_prefix.setdefault(scheduled.prefix_id, set()).add(" ".join(said[:25]))
    assert len(by_prefix) == 3
    assert all(len(begins) == 1 for begins in by_prefix.values())
    assert len(set.union(*by_prefix.values())) == 3
    assert len({" ".join(prompt_text(scheduled, words).split()[25:29]) for scheduled in asks}) == 60


def test_each_turns_prompt_begins_with_the_one_before(words: Words) -> None:
    talks = workload(sessions=Sessions(turns=Fixed(value=4)), prefix=Prefix(tokens=10))
    first, second, *rest = session_requests(talks, np.zeros(2, dtype=np.int64), seed=1, prompt_seed=5)
    texts = [prompt_text(scheduled, words) for scheduled in (first, second, *rest)]
    assert all(later.startswith(earlier + " ") for earlier, later in pairwise(texts[:4]))
    assert [len(text.split()) for text in texts[:4]] == [50, 98, 146, 194]
    assert texts[4].split()[:10] == texts[0].split()[:10]  # the other session has the prefix and nothing else of it
    assert texts[4].split()[10:14] != texts[0].split()[10:14]


def test_messages_are_the_same_words_told_apart_by_who_said_them(words: Words) -> None:
    talks = workload(sessions=Sessions(turns=Fixed(value=3)), prefix=Prefix(tokens=10))
    asks = list(session_requests(talks, np.zeros(1, dtype=np.int64), seed=1, prompt_seed=5))
    chat = messages(asks[2], words)
    assert [(m["role"], len(m["content"].split())) for m in chat] == [
        ("system", 10),
        ("user", 40),
        ("assistant", 8),
        ("user", 40),
        ("assistant", 8),
        ("user", 40),
    ]
    assert " ".join(m["content"] for m in chat) == prompt_text(asks[2], words)
    assert messages(asks[1], words) == chat[:4]


def test_what_the_server_really_said_may_stand_in_the_history(words: Words) -> None:
    talks = workload(sessions=Sessions(turns=Fixed(value=3)))
    scheduled = session_requests(talks, np.zeros(1, dtype=np.int64), seed=1, prompt_seed=5)[2]
    ours, theirs = messages(scheduled, words), messages(scheduled, words, answers=("Yes.",))
    assert theirs[1] == {"role": "assistant", "content": "Yes."}
    assert [theirs[i] for i in (0, 2, 3, 4)] == [ours[i] for i in (0, 2, 3, 4)]


def test_a_single_prompt_is_one_message(words: Words) -> None:
    (scheduled,) = asks_of(1)
    assert messages(scheduled, words) == [{"role": "user", "content": prompt_text(scheduled, words)}]


def test_prompts_of_a_trace_share_the_blocks_that_it_says() -> None:
    traces = Path(__file__).parents[1] / "vectors" / "traces"
    plan = read_trace(Trace(path=str(traces / "mooncake.jsonl"), format="mooncake"), 60.0, prompt_seed=3).plan
    words = SyntheticWords()
    first, second, third = (prompt_text(scheduled, words).split() for scheduled in plan)
    assert (len(first), len(second), len(third)) == (1100, 1536, 600)
    assert first[:1024] == second[:1024]
    assert first[1024:1030] != second[1024:1030]
    assert third[:4] != first[:4]


def study(**point: float) -> dict[str, object]:
    return {
        "executor": {"kind": "fake"},
        "workload": {"kind": "inference", "model": "tiny", "arrival": {"kind": "poisson"}},
        "point": {"rate_per_s": 10.0} | point,
        "protocol": {"repeats": 2, "duration_s": 20.0},
    }


def test_every_point_repeat_and_salt_has_prompts_of_its_own_and_a_run_has_its_own_again() -> None:
    words = SyntheticWords()

    def begins(spec, salt: int = 0) -> set[str]:
        plan = planned_load(spec, salt=salt).plan
        assert plan is not None
        return {" ".join(prompt_text(scheduled, words).split()[:4]) for scheduled in plan}

    first, again = parse(study()).runs()
    other = parse(study(rate_per_s=20.0)).runs()[0]
    sets = [begins(first), begins(again), begins(other), begins(first, salt=1)]
    assert len(set.union(*sets)) == sum(len(one) for one in sets)
    assert begins(parse(study()).runs()[0]) == sets[0]


def test_points_that_differ_in_admission_meet_the_same_traffic_with_other_words() -> None:
    plain, held = (parse(study() | {"point": p}).runs()[0] for p in POINTS)
    first, second = planned_load(plain).plan, planned_load(held).plan
    assert first is not None
    assert second is not None
    assert (first.intended_ns == second.intended_ns).all()
    assert (first.input_tokens == second.input_tokens).all()
    assert first.seed != second.seed


POINTS = ({"rate_per_s": 10.0}, {"rate_per_s": 10.0, "admission": "static", "batch": 4})


def test_another_executor_gets_the_same_prompts() -> None:
    here, there = (parse(study() | {"executor": {"kind": kind}}).runs()[0] for kind in ("fake", "torch"))
    assert here.prompt_seed() == there.prompt_seed()
    assert 0 <= here.prompt_seed() < 2**62
